/* fleet_tune_choose.c - which setting is best for many jobs, and which for each kind.
 *
 * The order follows tune.c, over jobs. A setting with which more jobs fit is better; then one that
 * makes fewer jobs fail that fit as they are; then the one with the least reserved bytes, where
 * every option must pay for itself, and a job that had to retry, is slow in the driver or does not
 * fit counts as the whole card; then fewer retries, and less time in the driver. One job that is
 * slow does not outweigh what a hundred others save. Another allocator comes behind every setting
 * of PyTorch's: setting a variable is the smaller step.
 *
 * Kinds. Where the list names them, each gets the setting that is best for its jobs. Else few
 * settings are looked for: the best for all, then the best for the jobs that do not fit with it,
 * and so on. The fewest for certain take exponential time; this is the usual approximation, and
 * where the first setting serves all but a few jobs it is as good. */
#include <stdlib.h> /* qsort */
#include <string.h>

#include "analysis/policies.h"
#include "base/checked_math.h" /* vw__max_u64 */
#include "base/error.h"
#include "base/host_memory.h"
#include "fleet/fleet_tune_parts.h"

/* A setting, added up over some jobs. */
typedef struct tally {
    vw_fleet_setting shown;
    size_t row; /* of the grid; SIZE_MAX: what was recorded */
    uint64_t weighed_bytes;
} tally;

/* The jobs in question, by their place in the lines. */
typedef struct crowd {
    const vw__fleet_tune_result *result;
    const size_t *places;
    size_t count;
} crowd;

enum { NO_ROW = -1 };
#define RECORDED SIZE_MAX

/* ---- adding up ------------------------------------------------------------------------------- */

static const vw__tune_grid_cell *cell_of(const vw__fleet_tune_line *line, size_t row)
{
    return row == RECORDED ? &line->recorded : &line->cells[row];
}

static void add_fit(tally *sum, const vw__fleet_tune_line *line, const vw__tune_grid_cell *cell)
{
    vw_fleet_setting *shown = &sum->shown;
    shown->fit_count++;
    shown->gained_count += !line->recorded.is_complete;
    shown->retry_count += cell->retries > 0;
    shown->peak_reserved_bytes = vw__max_u64(shown->peak_reserved_bytes, cell->peak_reserved_bytes);
    shown->retries += cell->retries;
    shown->driver_calls += cell->driver_calls;
    shown->driver_ns += cell->driver_ns;
    if (line->recorded.is_complete) /* wraps where a damaged record says so */
        shown->saved_bytes =
            (int64_t)((uint64_t)shown->saved_bytes + line->recorded.peak_reserved_bytes -
                      cell->peak_reserved_bytes);
}

static void add_line(tally *sum, const vw__fleet_tune_line *line, uint64_t card_bytes)
{
    const vw__tune_grid_cell *cell = cell_of(line, sum->row);
    bool is_fine = cell->is_complete && cell->retries == 0 && !cell->is_slow;
    sum->shown.job_count++;
    sum->weighed_bytes += is_fine ? cell->peak_reserved_bytes : card_bytes;
    sum->weighed_bytes += sum->row == RECORDED ? line->recorded_own_bytes
                                               : vw__tune_conf_bytes(sum->shown.conf, card_bytes);
    if (cell->is_complete) {
        add_fit(sum, line, cell);
        return;
    }
    sum->shown.lost_count += line->recorded.is_complete;
    sum->shown.refused_count += cell->is_refused;
}

static tally tally_of(const crowd *jobs, size_t row)
{
    const vw__fleet_tune_result *result = jobs->result;
    tally sum = {.row = row, .shown = {.policy = "recorded"}};
    if (row != RECORDED) {
        sum.shown.policy = result->rows[row].policy;
        sum.shown.conf = result->rows[row].conf;
    }
    for (size_t i = 0; i < jobs->count; i++)
        add_line(&sum, &result->lines[jobs->places[i]], result->shown.card_bytes);
    return sum;
}

/* ---- order ----------------------------------------------------------------------------------- */

static int compare_u64(uint64_t one, uint64_t other)
{
    return (one > other) - (one < other);
}

/* Negative: `one` is better. */
static int compare_sums(const tally *one, const tally *other)
{
    const int orders[] = {
        compare_u64(other->shown.fit_count, one->shown.fit_count),
        compare_u64(one->shown.lost_count, other->shown.lost_count),
        compare_u64(one->weighed_bytes, other->weighed_bytes),
        compare_u64(one->shown.retries, other->shown.retries),
        compare_u64(one->shown.driver_ns, other->shown.driver_ns),
    };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (orders[i] != 0)
            return orders[i];
    return 0;
}

static int compare_tallies(const void *left, const void *right)
{
    const tally *one = left, *other = right;
    int order = compare_u64(vw__policy_is_vramwise(one->shown.policy),
                            vw__policy_is_vramwise(other->shown.policy));
    if (order == 0)
        order = compare_sums(one, other);
    return order != 0 ? order : compare_u64(one->row, other->row);
}

/* The tallies of all rows, best first. */
static size_t sort_rows(const crowd *jobs, tally tallies[VW__TUNE_GRID_MOST])
{
    size_t count = jobs->result->row_count;
    for (size_t i = 0; i < count; i++)
        tallies[i] = tally_of(jobs, i);
    qsort(tallies, count, sizeof *tallies, compare_tallies);
    return count;
}

/* The best row with which one of the jobs fits; NO_ROW: none does. */
static int best_row(const crowd *jobs)
{
    tally tallies[VW__TUNE_GRID_MOST];
    size_t count = sort_rows(jobs, tallies);
    for (size_t i = 0; i < count; i++)
        if (tallies[i].shown.fit_count > 0)
            return (int)tallies[i].row;
    return NO_ROW;
}

/* ---- the setting for all --------------------------------------------------------------------- */

static vw_status choose_for_all(vw__fleet_tune_result *result, const crowd *all)
{
    vw_fleet_tuning *shown = &result->shown;
    tally tallies[VW__TUNE_GRID_MOST];
    size_t count = sort_rows(all, tallies);
    const tally recorded = tally_of(all, RECORDED);
    const tally *best = NULL;
    vw_fleet_setting *settings =
        vw__arena_alloc_array(&result->arena, count, sizeof *settings, _Alignof(vw_fleet_setting));
    if (settings == NULL)
        return vw__fail_host_memory(count * sizeof *settings, "settings");
    for (size_t i = 0; i < count; i++) {
        settings[i] = tallies[i].shown;
        if (tallies[i].row == 0)
            shown->defaults = &settings[i];
        if (best == NULL && settings[i].fit_count > 0) {
            best = &tallies[i];
            shown->best = &settings[i];
        }
    }
    shown->settings = settings;
    shown->setting_count = count;
    shown->recorded = recorded.shown;
    shown->is_recorded_best =
        recorded.shown.fit_count > 0 && (best == NULL || compare_sums(&recorded, best) <= 0);
    for (size_t i = 0; i < result->line_count; i++)
        result->lines[i].shown.fits_best =
            best != NULL && cell_of(&result->lines[i], best->row)->is_complete;
    return VW_OK;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Gives the jobs of a crowd their kind, which is the next. */
static void give_kind(vw__fleet_tune_result *result, vw_fleet_kind *kinds, const crowd *jobs,
                      int row)
{
    size_t place = result->shown.kind_count++;
    vw_fleet_kind *kind = &kinds[place];
    kind->job = result->lines[jobs->places[0]].shown.name;
    kind->recorded = tally_of(jobs, RECORDED).shown;
    kind->best = row != NO_ROW ? tally_of(jobs, (size_t)row).shown
                               : (vw_fleet_setting){.job_count = jobs->count};
    result->shown.kinds_fit_count += kind->best.fit_count;
    for (size_t i = 0; i < jobs->count; i++) {
        vw__fleet_tune_line *line = &result->lines[jobs->places[i]];
        line->shown.kind = place;
        line->shown.fits = row != NO_ROW && line->cells[row].is_complete;
        if (line->shown.fits)
            line->shown.reserved_bytes = line->cells[row].peak_reserved_bytes;
    }
}

/* Moves the jobs that fit with the row to the front of `places`, each part in its order; returns
 * how many. `aside` has as much room. */
static size_t part_by_fit(const vw__fleet_tune_result *result, size_t *places, size_t count,
                          int row, size_t *aside)
{
    size_t fit_count = 0, other_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (result->lines[places[i]].cells[row].is_complete)
            places[fit_count++] = places[i];
        else
            aside[other_count++] = places[i];
    }
    if (other_count > 0)
        memcpy(places + fit_count, aside, other_count * sizeof *places);
    return fit_count;
}

/* The best setting, then the best for those it does not serve, ... */
static void find_kinds(vw__fleet_tune_result *result, vw_fleet_kind *kinds, size_t *places,
                       size_t *aside)
{
    size_t count = result->line_count;
    while (count > 0) {
        const crowd left = {result, places, count};
        int row = best_row(&left);
        if (row == NO_ROW)
            return;
        const crowd served = {result, places, part_by_fit(result, places, count, row, aside)};
        give_kind(result, kinds, &served, row);
        places += served.count;
        count -= served.count;
    }
}

/* The jobs of each name; `places` are sorted by it. */
static void name_kinds(vw__fleet_tune_result *result, vw_fleet_kind *kinds, const size_t *places)
{
    for (size_t begin = 0; begin < result->line_count;) {
        const char *name = result->lines[places[begin]].kind_name;
        size_t end = begin + 1;
        while (end < result->line_count && strcmp(result->lines[places[end]].kind_name, name) == 0)
            end++;
        const crowd jobs = {result, places + begin, end - begin};
        kinds[result->shown.kind_count].name = name;
        give_kind(result, kinds, &jobs, best_row(&jobs));
        begin = end;
    }
}

static int compare_by_kind(const void *left, const void *right)
{
    const vw__fleet_tune_line *one = left, *other = right;
    int order = strcmp(one->kind_name, other->kind_name);
    return order != 0 ? order : strcmp(one->shown.name, other->shown.name);
}

static vw_status choose_by_kind(vw__fleet_tune_result *result, size_t *places, size_t *aside)
{
    bool has_names = false;
    size_t most_kinds = result->row_count;
    for (size_t i = 0; i < result->line_count; i++)
        has_names |= result->lines[i].kind_name[0] != '\0';
    if (has_names) {
        qsort(result->lines, result->line_count, sizeof *result->lines, compare_by_kind);
        most_kinds = result->line_count;
    }
    vw_fleet_kind *kinds =
        vw__arena_alloc_array(&result->arena, most_kinds, sizeof *kinds, _Alignof(vw_fleet_kind));
    if (kinds == NULL)
        return vw__fail_host_memory(most_kinds * sizeof *kinds, "the kinds of jobs");
    result->shown.kinds = kinds;
    if (has_names)
        name_kinds(result, kinds, places);
    else
        find_kinds(result, kinds, places, aside);
    return VW_OK;
}

/* ---- the jobs -------------------------------------------------------------------------------- */

/* The smaller, the more there is to see: nothing can fit, nothing does, its kind's setting does
 * not, the setting for all does not, the recorded one did not; nothing changes. */
static unsigned concern(const vw_fleet_tuned_job *job)
{
    if (!job->is_possible)
        return 0;
    if (job->kind == SIZE_MAX)
        return 1;
    if (!job->fits)
        return 2;
    if (!job->fits_best)
        return 3;
    return job->fits_recorded ? 5 : 4;
}

static int compare_jobs(const void *left, const void *right)
{
    const vw_fleet_tuned_job *one = left, *other = right;
    int order = compare_u64(concern(one), concern(other));
    return order != 0 ? order : strcmp(one->name, other->name);
}

static bool fits_anywhere(const vw__fleet_tune_result *result, const vw__fleet_tune_line *line)
{
    bool fits = line->recorded.is_complete;
    for (size_t i = 0; i < result->row_count; i++)
        fits |= line->cells[i].is_complete;
    return fits;
}

static vw_status show_jobs(vw__fleet_tune_result *result)
{
    vw_fleet_tuning *shown = &result->shown;
    size_t count = result->line_count;
    vw_fleet_tuned_job *jobs =
        vw__arena_alloc_array(&result->arena, count, sizeof *jobs, _Alignof(vw_fleet_tuned_job));
    if (jobs == NULL)
        return vw__fail_host_memory(count * sizeof *jobs, "the jobs");
    for (size_t i = 0; i < count; i++) {
        jobs[i] = result->lines[i].shown;
        shown->impossible_count += !jobs[i].is_possible;
        shown->stuck_count += jobs[i].is_possible && !fits_anywhere(result, &result->lines[i]);
    }
    qsort(jobs, count, sizeof *jobs, compare_jobs);
    shown->jobs = jobs;
    shown->job_count = count;
    size_t fit_count = shown->best != NULL ? shown->best->fit_count : 0;
    if (shown->is_recorded_best)
        fit_count = shown->recorded.fit_count;
    shown->is_something_to_see = shown->skipped_count > 0 || fit_count < count;
    return VW_OK;
}

vw_status vw__fleet_tune_choose(vw__fleet_tune_result *result)
{
    size_t count = result->line_count;
    size_t *places = vw__host_alloc_zeroed(count, 2 * sizeof *places);
    if (places == NULL)
        return vw__fail_host_memory(count * 2 * sizeof *places, "the jobs");
    for (size_t i = 0; i < count; i++) {
        vw_fleet_tuned_job *job = &result->lines[i].shown;
        const vw__tune_grid_cell *recorded = &result->lines[i].recorded;
        places[i] = i;
        job->fits_recorded = recorded->is_complete;
        job->reserved_bytes = VW_UNKNOWN;
        job->recorded_reserved_bytes =
            recorded->is_complete ? recorded->peak_reserved_bytes : VW_UNKNOWN;
    }
    const crowd all = {result, places, count};
    vw_status status = choose_for_all(result, &all);
    if (status == VW_OK)
        status = choose_by_kind(result, places, places + count);
    if (status == VW_OK)
        status = show_jobs(result);
    vw__host_free(places);
    return status;
}
