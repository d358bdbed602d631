/* rank_compare.c - compares the ranks: who failed first, who is out of line, and where they differ
 * in the lines that hold their memory and in their settings.
 *
 * First. A recording says when each event was, by the machine's clock, since 1970; a log by its
 * time stamps, with a time zone or without. Only times of one kind can be compared: the first is
 * named where all ranks that ran out have a time of the same kind. Otherwise the report says why it
 * is unknown.
 *
 * Lines and settings go by the recordings of the ranks: `mains` has one for each of report->ranks,
 * or NULL. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "vramwise/units.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "ranks/rank_parts.h"

/* ---- spread ---------------------------------------------------------------------------------- */

static const double limit_per_deviation = 3 * 1.4826;

static int compare_values(const void *left, const void *right)
{
    uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right;
    return (one > other) - (one < other);
}

static uint64_t distance(uint64_t one, uint64_t other)
{
    return one > other ? one - other : other - one;
}

/* The upper median of the distances. Sorted values have them in two rising runs, from the median
 * outwards, which are walked side by side. */
static uint64_t deviation_of(const uint64_t *values, size_t count, uint64_t median)
{
    size_t below = 0, above;
    while (below < count && values[below] < median)
        below++;
    above = below;
    uint64_t last = 0;
    for (size_t taken = 0; taken <= count / 2; taken++) {
        bool takes_below =
            below > 0 && (above == count || median - values[below - 1] < values[above] - median);
        last = takes_below ? median - values[--below] : values[above++] - median;
    }
    return last;
}

vw__ranks_spread vw__ranks_spread_of(uint64_t *values, size_t count, vw__ranks_spread_floor floor)
{
    if (count == 0)
        return (vw__ranks_spread){0, VW_UNKNOWN, 0};
    qsort(values, count, sizeof *values, compare_values);
    vw__ranks_spread spread = {.count = count, .median = values[(count - 1) / 2]};
    if (count >= VW__RANKS_SPREAD_FEWEST)
        spread.limit = limit_per_deviation * (double)deviation_of(values, count, spread.median);
    double share =
        floor.share * (double)(floor.share_of != VW_UNKNOWN ? floor.share_of : spread.median);
    if (spread.limit < share)
        spread.limit = share;
    if (spread.limit < floor.least)
        spread.limit = floor.least;
    return spread;
}

bool vw__ranks_is_out_of_line(const vw__ranks_spread *spread, uint64_t value)
{
    return spread->count != 0 && (double)distance(value, spread->median) > spread->limit;
}

/* ---- lines of the program -------------------------------------------------------------------- */

/* What one rank holds at one line. */
typedef struct holding {
    uint32_t site;
    uint32_t place; /* of the rank among those with a recording */
    uint64_t bytes;
} holding;

typedef struct site_work {
    const vw__ranks_account **holders; /* the ranks with a recording */
    size_t holder_count;
    holding *holdings; /* by line, then by rank */
    size_t holding_count;
    uint64_t *values, *sorted; /* holder_count each */
    vw__byte_buffer found;     /* vw_rank_site */
} site_work;

static int compare_holdings(const void *left, const void *right)
{
    const holding *one = left, *other = right;
    if (one->site != other->site)
        return one->site < other->site ? -1 : 1;
    return (one->place > other->place) - (one->place < other->place);
}

static uint64_t difference_of(const vw_rank_site *site)
{
    return site->bytes > site->median_bytes ? site->bytes - site->median_bytes
                                            : site->median_bytes - site->bytes;
}

static int compare_frames(const vw_frame *one, const vw_frame *other)
{
    if (one == NULL || other == NULL)
        return (one == NULL) - (other == NULL);
    int order = strcmp(one->file, other->file);
    if (order == 0 && one->line != other->line)
        order = one->line < other->line ? -1 : 1;
    return order != 0 ? order : strcmp(one->function, other->function);
}

/* Largest difference first; then by rank and place, so that the order is always the same. */
static int compare_sites(const void *left, const void *right)
{
    const vw_rank_site *one = left, *other = right;
    uint64_t one_difference = difference_of(one), other_difference = difference_of(other);
    if (one_difference != other_difference)
        return one_difference < other_difference ? 1 : -1;
    if (one->rank != other->rank)
        return one->rank < other->rank ? -1 : 1;
    int order = compare_frames(one->where, other->where);
    return order != 0 ? order : strcmp(one->category, other->category);
}

static vw_status gather_holdings(vw__ranks_work *work, const vw__ranks_account *const *mains,
                                 site_work *at)
{
    size_t rank_count = work->report->rank_count, most = 0;
    for (size_t i = 0; i < rank_count; i++)
        most += mains[i] != NULL ? mains[i]->site_count : 0;
    at->holders = vw__host_alloc_zeroed(rank_count, sizeof(vw__ranks_account *));
    at->holdings = vw__host_alloc_zeroed(most, sizeof *at->holdings);
    at->values = vw__host_alloc_zeroed(rank_count, sizeof *at->values);
    at->sorted = vw__host_alloc_zeroed(rank_count, sizeof *at->sorted);
    if (at->holders == NULL || at->holdings == NULL || at->values == NULL || at->sorted == NULL)
        return vw__fail_host_memory(most * sizeof *at->holdings, "what the ranks hold");
    for (size_t i = 0; i < rank_count; i++) {
        if (mains[i] == NULL || mains[i]->shown.basis == VW_RANK_BASIS_NONE)
            continue;
        for (size_t k = 0; k < mains[i]->site_count; k++)
            at->holdings[at->holding_count++] = (holding){
                mains[i]->sites[k].site, (uint32_t)at->holder_count, mains[i]->sites[k].bytes};
        at->holders[at->holder_count++] = mains[i];
    }
    qsort(at->holdings, at->holding_count, sizeof *at->holdings, compare_holdings);
    return VW_OK;
}

/* The holdings of one line, `count` of them. */
static void compare_site(const vw__ranks_work *work, site_work *at, const holding *first,
                         size_t count)
{
    const vw__ranks_site *site = &work->sites.sites[first->site];
    memset(at->values, 0, at->holder_count * sizeof *at->values);
    for (size_t i = 0; i < count; i++)
        at->values[first[i].place] = first[i].bytes;
    memcpy(at->sorted, at->values, at->holder_count * sizeof *at->values);
    vw__ranks_spread spread =
        vw__ranks_spread_of(at->sorted, at->holder_count,
                            VW__RANKS_SPREAD_OF_SITES(work->report->medians[VW_RANK_PEAK_LIVE]));
    for (size_t i = 0; i < at->holder_count; i++) {
        if (!vw__ranks_is_out_of_line(&spread, at->values[i]))
            continue;
        const vw_rank_site found = {.where = site->where,
                                    .category = site->category,
                                    .rank = at->holders[i]->shown.rank,
                                    .bytes = at->values[i],
                                    .median_bytes = spread.median};
        vw__append_bytes(&at->found, &found, sizeof found);
    }
}

static vw_status keep_sites(vw__ranks_work *work, site_work *at)
{
    vw_ranks_report *report = work->report;
    size_t size_bytes = vw__byte_buffer_size(&at->found);
    size_t count = size_bytes / sizeof(vw_rank_site);
    vw_rank_site *sites =
        vw__arena_alloc_array(work->arena, count, sizeof *sites, _Alignof(vw_rank_site));
    if (sites == NULL || vw__byte_buffer_has_failed(&at->found))
        return vw__fail_host_memory(size_bytes, "where the ranks differ");
    if (count > 0) {
        memcpy(sites, vw__byte_buffer_text(&at->found), size_bytes);
        qsort(sites, count, sizeof *sites, compare_sites);
    }
    report->sites = sites;
    report->site_count = count;
    return VW_OK;
}

static vw_status compare_all_sites(vw__ranks_work *work, const vw__ranks_account *const *mains,
                                   site_work *at)
{
    VW__TRY(gather_holdings(work, mains, at));
    for (size_t begin = 0; begin < at->holding_count && at->holder_count > 1;) {
        size_t end = begin + 1;
        while (end < at->holding_count && at->holdings[end].site == at->holdings[begin].site)
            end++;
        compare_site(work, at, &at->holdings[begin], end - begin);
        begin = end;
    }
    return keep_sites(work, at);
}

/* Fills report->sites; after the medians. A line that a rank does not have counts as 0 bytes. */
static vw_status compare_the_sites(vw__ranks_work *work, const vw__ranks_account *const *mains)
{
    site_work at = {.holders = NULL};
    vw__byte_buffer_init(&at.found);
    vw_status status = compare_all_sites(work, mains, &at);
    vw__byte_buffer_deinit(&at.found);
    vw__host_free(at.sorted);
    vw__host_free(at.values);
    vw__host_free(at.holdings);
    vw__host_free(at.holders);
    return status;
}

/* ---- settings -------------------------------------------------------------------------------- */

static int compare_settings(const void *left, const void *right)
{
    const vw_rank_setting *one = left, *other = right;
    int order = strcmp(one->key, other->key);
    if (order == 0)
        order = strcmp(one->value, other->value);
    return order != 0 ? order : (one->rank > other->rank) - (one->rank < other->rank);
}

/* How many from `begin` on have the same key; with `has_value`, the same value too. */
static size_t run_length(const vw_rank_setting *settings, size_t begin, size_t count,
                         bool has_value)
{
    size_t end = begin + 1;
    while (end < count && strcmp(settings[end].key, settings[begin].key) == 0 &&
           (!has_value || strcmp(settings[end].value, settings[begin].value) == 0))
        end++;
    return end - begin;
}

static const char *usual_value(const vw_rank_setting *settings, size_t begin, size_t end)
{
    const vw_rank_setting *usual = &settings[begin];
    size_t most = 0;
    for (size_t at = begin; at < end;) {
        size_t length = run_length(settings, at, end, true);
        if (length > most || (length == most && settings[at].rank < usual->rank)) {
            most = length;
            usual = &settings[at];
        }
        at += length;
    }
    return usual->value;
}

/* Keeps, in place, what is not as usual. */
static size_t keep_unusual(vw_rank_setting *settings, size_t count)
{
    size_t kept = 0;
    for (size_t begin = 0; begin < count;) {
        size_t end = begin + run_length(settings, begin, count, false);
        const char *usual = usual_value(settings, begin, end);
        for (size_t i = begin; i < end; i++) {
            vw_rank_setting setting = settings[i];
            if (strcmp(setting.value, usual) == 0)
                continue;
            setting.usual = usual;
            settings[kept++] = setting;
        }
        begin = end;
    }
    return kept;
}

/* The card is not the recording's to say, but what differs most between machines. */
static vw_status add_card(vw__ranks_work *work, const vw_rank *rank, vw_rank_setting *settings,
                          size_t *count)
{
    char text[VW_SIZE_TEXT_BYTES];
    if (rank->card_bytes == VW_UNKNOWN)
        return VW_OK;
    settings[*count] = (vw_rank_setting){.key = "card", .rank = rank->rank};
    VW__TRY(vw__ranks_keep(work, vw_format_size(rank->card_bytes, text), &settings[*count].value));
    ++*count;
    return VW_OK;
}

/* Fills report->settings: the ranks whose value of a key is not the most common one. Between two
 * equally common values that of the lowest rank counts as usual. */
static vw_status compare_the_settings(vw__ranks_work *work, const vw__ranks_account *const *mains)
{
    vw_ranks_report *report = work->report;
    size_t most = report->rank_count, count = 0;
    for (size_t i = 0; i < report->rank_count; i++)
        most += mains[i] != NULL ? mains[i]->setting_count : 0;
    vw_rank_setting *settings =
        vw__arena_alloc_array(work->arena, most, sizeof *settings, _Alignof(vw_rank_setting));
    if (settings == NULL)
        return vw__fail_host_memory(most * sizeof *settings, "the settings of the ranks");
    for (size_t i = 0; i < report->rank_count; i++) {
        VW__TRY(add_card(work, &report->ranks[i], settings, &count));
        for (size_t k = 0; mains[i] != NULL && k < mains[i]->setting_count; k++)
            settings[count++] = (vw_rank_setting){.key = mains[i]->settings[k].key,
                                                  .rank = report->ranks[i].rank,
                                                  .value = mains[i]->settings[k].value};
    }
    qsort(settings, count, sizeof *settings, compare_settings);
    report->settings = settings;
    report->setting_count = keep_unusual(settings, count);
    return VW_OK;
}

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
        (void)snprintf(
            text, sizeof text,
            "some ranks have times from recordings, others from logs without a time zone");
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

static vw__ranks_spread spread_of(const vw_ranks_report *report, vw_rank_measure measure,
                                  uint64_t *values)
{
    size_t count = 0;
    for (size_t i = 0; i < report->rank_count; i++)
        if (value_of(&report->ranks[i], measure) != VW_UNKNOWN)
            values[count++] = value_of(&report->ranks[i], measure);
    return vw__ranks_spread_of(values, count,
                               measure == VW_RANK_EVENTS ? VW__RANKS_SPREAD_OF_EVENTS
                                                         : VW__RANKS_SPREAD_OF_PEAKS);
}

static void find_outliers(vw_ranks_report *report, vw_rank *ranks, vw_rank_outlier *outliers,
                          uint64_t *values)
{
    for (int i = 0; i < VW_RANK_MEASURES; i++) {
        const vw_rank_measure measure = (vw_rank_measure)i;
        vw__ranks_spread spread = spread_of(report, measure, values);
        report->medians[measure] = spread.median;
        for (size_t k = 0; k < report->rank_count && spread.count >= VW__RANKS_SPREAD_FEWEST; k++) {
            uint64_t value = value_of(&ranks[k], measure);
            if (value == VW_UNKNOWN || !vw__ranks_is_out_of_line(&spread, value))
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

vw_status vw__ranks_compare(vw__ranks_work *work, const vw__ranks_account *const *mains)
{
    vw_ranks_report *report = work->report;
    VW__TRY(say_first(work));
    VW__TRY(say_outliers(work, (vw_rank *)report->ranks)); /* the arena's: ours until it is shown */
    VW__TRY(compare_the_sites(work, mains));
    VW__TRY(compare_the_settings(work, mains));
    report->is_something_to_see = has_problem(report->ranks, report->rank_count) ||
                                  has_problem(report->unassigned, report->unassigned_count) ||
                                  report->outlier_count != 0 || report->site_count != 0 ||
                                  report->setting_count != 0;
    return VW_OK;
}
