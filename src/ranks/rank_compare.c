/* rank_compare.c - the ranks held against each other: who was first, and who is out of line. What
 * they hold and how they are set is compared in rank_differences.c.
 *
 * First. A recording tells when each event was, by the machine's clock, since 1970; a log by its
 * time stamps, with a time zone or without. Times of one kind can be compared, and only those: the
 * first is named where all ranks that ran out have a time of the same kind. Else it is said why it
 * is not known. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "ranks/rank_differences.h"
#include "ranks/rank_parts.h"
#include "ranks/rank_spread.h"

/* ---- who was first --------------------------------------------------------------------------- */

static int64_t time_of(const hr_rank *rank, bool is_local)
{
    return is_local ? rank->local_time_us : rank->time_us;
}

/* By one kind of time. false: not every rank that ran out has it. */
static bool find_first(const hr_ranks_report *report, bool is_local, const hr_rank **first,
                       const hr_rank **second)
{
    *first = *second = NULL;
    for (size_t i = 0; i < report->rank_count; i++) {
        const hr_rank *rank = &report->ranks[i];
        if (!rank->ran_out)
            continue;
        if (time_of(rank, is_local) == INT64_MIN)
            return false;
        if (*first == NULL || time_of(rank, is_local) < time_of(*first, is_local)) {
            *second = *first;
            *first = rank;
        } else if (*second == NULL || time_of(rank, is_local) < time_of(*second, is_local)) {
            *second = rank;
        }
    }
    return true;
}

static const hr_rank *some_without_time(const hr_ranks_report *report)
{
    for (size_t i = 0; i < report->rank_count; i++)
        if (report->ranks[i].ran_out && report->ranks[i].time_us == INT64_MIN &&
            report->ranks[i].local_time_us == INT64_MIN)
            return &report->ranks[i];
    return NULL;
}

static hr_status explain_unknown(hr__ranks_work *work)
{
    char text[160];
    const hr_rank *without = some_without_time(work->report);
    if (without != NULL)
        (void)snprintf(text, sizeof text, "nothing says when rank %" PRIu64 " ran out",
                       without->rank);
    else
        (void)snprintf(text, sizeof text,
                       "of some ranks a recording says when, of others a log without a time zone");
    return hr__ranks_keep(work, text, &work->report->first_reason);
}

static hr_status say_first(hr__ranks_work *work)
{
    hr_ranks_report *report = work->report;
    const hr_rank *first, *second;
    bool is_local = false;
    report->first_rank = report->first_lead_us = HR_UNKNOWN;
    for (size_t i = 0; i < report->rank_count; i++)
        if (report->ranks[i].ran_out) {
            report->ran_out_count++;
            report->first_rank = report->ranks[i].rank;
        }
    if (report->ran_out_count < 2)
        return HR_OK;
    report->first_rank = HR_UNKNOWN;
    if (!find_first(report, is_local, &first, &second)) {
        is_local = true;
        if (!find_first(report, is_local, &first, &second))
            return explain_unknown(work);
    }
    uint64_t lead_us = (uint64_t)time_of(second, is_local) - (uint64_t)time_of(first, is_local);
    if (lead_us == 0)
        return hr__ranks_keep(work, "two ranks or more ran out at the same time",
                              &report->first_reason);
    report->first_rank = first->rank;
    report->first_lead_us = lead_us;
    return HR_OK;
}

/* ---- who is out of line ---------------------------------------------------------------------- */

static uint64_t value_of(const hr_rank *rank, hr_rank_measure measure)
{
    switch (measure) {
    case HR_RANK_PEAK_LIVE:
        return rank->peak_live_bytes;
    case HR_RANK_PEAK_RESERVED:
        return rank->peak_reserved_bytes;
    case HR_RANK_EVENTS:
        return rank->event_count;
    }
    return HR_UNKNOWN;
}

static hr__spread spread_of(const hr_ranks_report *report, hr_rank_measure measure,
                            uint64_t *values)
{
    size_t count = 0;
    for (size_t i = 0; i < report->rank_count; i++)
        if (value_of(&report->ranks[i], measure) != HR_UNKNOWN)
            values[count++] = value_of(&report->ranks[i], measure);
    return hr__spread_of(values, count,
                         measure == HR_RANK_EVENTS ? HR__SPREAD_OF_EVENTS : HR__SPREAD_OF_PEAKS);
}

static void find_outliers(hr_ranks_report *report, hr_rank *ranks, hr_rank_outlier *outliers,
                          uint64_t *values)
{
    for (int i = 0; i < HR_RANK_MEASURES; i++) {
        const hr_rank_measure measure = (hr_rank_measure)i;
        hr__spread spread = spread_of(report, measure, values);
        report->medians[measure] = spread.median;
        for (size_t k = 0; k < report->rank_count && spread.count >= HR__SPREAD_FEWEST; k++) {
            uint64_t value = value_of(&ranks[k], measure);
            if (value == HR_UNKNOWN || !hr__is_out_of_line(&spread, value))
                continue;
            ranks[k].is_out_of_line[measure] = true;
            outliers[report->outlier_count++] =
                (hr_rank_outlier){ranks[k].rank, measure, value, spread.median};
        }
    }
}

static hr_status say_outliers(hr__ranks_work *work, hr_rank *ranks)
{
    hr_ranks_report *report = work->report;
    size_t most = report->rank_count * HR_RANK_MEASURES;
    uint64_t *values = hr__host_alloc_zeroed(report->rank_count, sizeof *values);
    hr_rank_outlier *outliers =
        hr__arena_alloc_array(work->arena, most, sizeof *outliers, _Alignof(hr_rank_outlier));
    if (values == NULL || outliers == NULL) {
        hr__host_free(values);
        return hr__fail_host_memory(most * sizeof *outliers, "the ranks out of line");
    }
    find_outliers(report, ranks, outliers, values);
    report->outliers = outliers;
    hr__host_free(values);
    return HR_OK;
}

/* ---- the report ------------------------------------------------------------------------------ */

static bool has_problem(const hr_rank *ranks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ranks[i].ran_out || (ranks[i].has_verdict && ranks[i].is_problem))
            return true;
    return false;
}

hr_status hr__ranks_compare(hr__ranks_work *work, const hr__account *const *mains)
{
    hr_ranks_report *report = work->report;
    HR__TRY(say_first(work));
    HR__TRY(say_outliers(work, (hr_rank *)report->ranks)); /* the arena's: ours until it is shown */
    HR__TRY(hr__rank_sites_compare(work, mains));
    HR__TRY(hr__rank_settings_compare(work, mains));
    report->is_something_to_see = has_problem(report->ranks, report->rank_count) ||
                                  has_problem(report->unassigned, report->unassigned_count) ||
                                  report->outlier_count != 0 || report->site_count != 0 ||
                                  report->setting_count != 0;
    return HR_OK;
}
