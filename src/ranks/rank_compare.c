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

static int64_t time_of(const vw_rank *rank, bool is_local)
{
    return is_local ? rank->local_time_us : rank->time_us;
}

/* By one kind of time. false: not every rank that ran out has it. */
static bool find_first(const vw_ranks_report *report, bool is_local, const vw_rank **first,
                       const vw_rank **second)
{
    *first = *second = NULL;
    for (size_t i = 0; i < report->rank_count; i++) {
        const vw_rank *rank = &report->ranks[i];
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

static const vw_rank *some_without_time(const vw_ranks_report *report)
{
    for (size_t i = 0; i < report->rank_count; i++)
        if (report->ranks[i].ran_out && report->ranks[i].time_us == INT64_MIN &&
            report->ranks[i].local_time_us == INT64_MIN)
            return &report->ranks[i];
    return NULL;
}

static vw_status explain_unknown(vw__ranks_work *work)
{
    char text[160];
    const vw_rank *without = some_without_time(work->report);
    if (without != NULL)
        (void)snprintf(text, sizeof text, "nothing says when rank %" PRIu64 " ran out",
                       without->rank);
    else
        (void)snprintf(text, sizeof text,
                       "of some ranks a recording says when, of others a log without a time zone");
    return vw__ranks_keep(work, text, &work->report->first_reason);
}

static vw_status say_first(vw__ranks_work *work)
{
    vw_ranks_report *report = work->report;
    const vw_rank *first, *second;
    bool is_local = false;
    report->first_rank = report->first_lead_us = VW_UNKNOWN;
    for (size_t i = 0; i < report->rank_count; i++)
        if (report->ranks[i].ran_out) {
            report->ran_out_count++;
            report->first_rank = report->ranks[i].rank;
        }
    if (report->ran_out_count < 2)
        return VW_OK;
    report->first_rank = VW_UNKNOWN;
    if (!find_first(report, is_local, &first, &second)) {
        is_local = true;
        if (!find_first(report, is_local, &first, &second))
            return explain_unknown(work);
    }
    uint64_t lead_us = (uint64_t)time_of(second, is_local) - (uint64_t)time_of(first, is_local);
    if (lead_us == 0)
        return vw__ranks_keep(work, "two ranks or more ran out at the same time",
                              &report->first_reason);
    report->first_rank = first->rank;
    report->first_lead_us = lead_us;
    return VW_OK;
}

/* ---- who is out of line ---------------------------------------------------------------------- */

static uint64_t value_of(const vw_rank *rank, vw_rank_measure measure)
{
    switch (measure) {
    case VW_RANK_PEAK_LIVE:
        return rank->peak_live_bytes;
    case VW_RANK_PEAK_RESERVED:
        return rank->peak_reserved_bytes;
    case VW_RANK_EVENTS:
        return rank->event_count;
    }
    return VW_UNKNOWN;
}

static vw__spread spread_of(const vw_ranks_report *report, vw_rank_measure measure,
                            uint64_t *values)
{
    size_t count = 0;
    for (size_t i = 0; i < report->rank_count; i++)
        if (value_of(&report->ranks[i], measure) != VW_UNKNOWN)
            values[count++] = value_of(&report->ranks[i], measure);
    return vw__spread_of(values, count,
                         measure == VW_RANK_EVENTS ? VW__SPREAD_OF_EVENTS : VW__SPREAD_OF_PEAKS);
}

static void find_outliers(vw_ranks_report *report, vw_rank *ranks, vw_rank_outlier *outliers,
                          uint64_t *values)
{
    for (int i = 0; i < VW_RANK_MEASURES; i++) {
        const vw_rank_measure measure = (vw_rank_measure)i;
        vw__spread spread = spread_of(report, measure, values);
        report->medians[measure] = spread.median;
        for (size_t k = 0; k < report->rank_count && spread.count >= VW__SPREAD_FEWEST; k++) {
            uint64_t value = value_of(&ranks[k], measure);
            if (value == VW_UNKNOWN || !vw__is_out_of_line(&spread, value))
                continue;
            ranks[k].is_out_of_line[measure] = true;
            outliers[report->outlier_count++] =
                (vw_rank_outlier){ranks[k].rank, measure, value, spread.median};
        }
    }
}

static vw_status say_outliers(vw__ranks_work *work, vw_rank *ranks)
{
    vw_ranks_report *report = work->report;
    size_t most = report->rank_count * VW_RANK_MEASURES;
    uint64_t *values = vw__host_alloc_zeroed(report->rank_count, sizeof *values);
    vw_rank_outlier *outliers =
        vw__arena_alloc_array(work->arena, most, sizeof *outliers, _Alignof(vw_rank_outlier));
    if (values == NULL || outliers == NULL) {
        vw__host_free(values);
        return vw__fail_host_memory(most * sizeof *outliers, "the ranks out of line");
    }
    find_outliers(report, ranks, outliers, values);
    report->outliers = outliers;
    vw__host_free(values);
    return VW_OK;
}

/* ---- the report ------------------------------------------------------------------------------ */

static bool has_problem(const vw_rank *ranks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ranks[i].ran_out || (ranks[i].has_verdict && ranks[i].is_problem))
            return true;
    return false;
}

vw_status vw__ranks_compare(vw__ranks_work *work, const vw__account *const *mains)
{
    vw_ranks_report *report = work->report;
    VW__TRY(say_first(work));
    VW__TRY(say_outliers(work, (vw_rank *)report->ranks)); /* the arena's: ours until it is shown */
    VW__TRY(vw__rank_sites_compare(work, mains));
    VW__TRY(vw__rank_settings_compare(work, mains));
    report->is_something_to_see = has_problem(report->ranks, report->rank_count) ||
                                  has_problem(report->unassigned, report->unassigned_count) ||
                                  report->outlier_count != 0 || report->site_count != 0 ||
                                  report->setting_count != 0;
    return VW_OK;
}
