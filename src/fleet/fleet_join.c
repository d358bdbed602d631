/* fleet_join.c - jobs, worst first; failures that are the same; days. */
#include "fleet/fleet_join.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "analysis/reading_limit.h"
#include "analysis/result.h"
#include "analysis/site_key.h"
#include "base/byte_buffer.h"
#include "base/checked_math.h" /* vw__max_u64 */
#include "base/error.h"
#include "base/host_memory.h"
#include "base/string_table.h"
#include "fleet/fleet_listing.h"
#include "ranks/rank_units.h"

#define DAY_US (INT64_C(24) * 60 * 60 * 1000000)
#define LEAST_REPORTS_BYTES (UINT64_C(64) << 20) /* of all jobs, whatever the limit */

static vw_status keep_text(vw__fleet_result *result, const char *text, const char **out)
{
    *out = vw__arena_copy(&result->arena, text, strlen(text));
    return *out != NULL ? VW_OK : vw__fail_host_memory(strlen(text), "the name of a job");
}

/* ---- one job --------------------------------------------------------------------------------- */

static vw_status join_job(const vw__fleet_parts *parts, const vw__fleet_listing *at,
                          const vw__fleet_listed_job *job, uint64_t *left_bytes,
                          vw_ranks_report **out)
{
    vw__byte_buffer bytes;
    vw__ranks_record *records = vw__host_alloc_zeroed(job->count, sizeof *records);
    if (records == NULL)
        return vw__fail_host_memory(job->count * sizeof *records, "the records of a job");
    vw__byte_buffer_init(&bytes);
    vw_status status = vw__fleet_listing_load(at, parts, job, &bytes, records);
    if (status == VW_OK) {
        status = vw__ranks_units_join(records, job->count, left_bytes, out);
        if (status == VW_ERR_UNSUPPORTED)
            status = vw__fail(status, "job %s: %s", job->name, vw_last_error());
    }
    vw__byte_buffer_deinit(&bytes);
    vw__host_free(records);
    return status;
}

static int64_t latest(int64_t one, int64_t other)
{
    return one > other ? one : other;
}

/* Rounds down, for times before 1970, too. */
static int64_t day_of(int64_t time_us)
{
    if (time_us == INT64_MIN)
        return INT64_MIN;
    int64_t day = time_us / DAY_US;
    return time_us % DAY_US < 0 ? day - 1 : day;
}

static bool has_problem(const vw_rank *rank)
{
    return rank->ran_out || (rank->has_verdict && rank->is_problem);
}

/* Is this one worse than the worst so far? Out of memory, then a problem; the first of a kind. */
static bool is_worse(const vw_rank *rank, const vw_rank *worst)
{
    return has_problem(rank) && (worst == NULL || (rank->ran_out && !worst->ran_out));
}

static void count_rank(vw_fleet_job *job, const vw_rank *rank, int64_t *time_us)
{
    bool is_out_of_line = false;
    for (int i = 0; i < VW_RANK_MEASURES; i++)
        is_out_of_line |= rank->is_out_of_line[i];
    job->rank_count++;
    job->ran_out_count += rank->ran_out;
    job->problem_count += has_problem(rank);
    job->out_of_line_count += is_out_of_line;
    if (rank->peak_reserved_bytes != VW_UNKNOWN &&
        (job->peak_reserved_bytes == VW_UNKNOWN ||
         rank->peak_reserved_bytes > job->peak_reserved_bytes)) {
        job->peak_reserved_bytes = rank->peak_reserved_bytes;
        job->card_bytes = rank->card_bytes;
    }
    if (is_worse(rank, job->worst) ||
        (rank->ran_out && rank->rank != VW_UNKNOWN && rank->rank == job->ranks->first_rank))
        job->worst = rank;
    *time_us =
        latest(*time_us, latest(rank->last_time_us, latest(rank->time_us, rank->local_time_us)));
}

static void fill_job(vw_fleet_job *job)
{
    const vw_ranks_report *ranks = job->ranks;
    int64_t time_us = INT64_MIN;
    job->peak_reserved_bytes = job->card_bytes = VW_UNKNOWN;
    job->failure = SIZE_MAX;
    for (size_t i = 0; i < ranks->rank_count; i++)
        count_rank(job, &ranks->ranks[i], &time_us);
    for (size_t i = 0; i < ranks->unassigned_count; i++)
        count_rank(job, &ranks->unassigned[i], &time_us);
    job->day = day_of(time_us);
}

static void count_job(vw_fleet_report *report, const vw_fleet_job *job)
{
    const vw_ranks_report *ranks = job->ranks;
    report->ran_out_job_count += job->ran_out_count > 0;
    report->rank_count += job->rank_count;
    report->ran_out_count += job->ran_out_count;
    report->file_count += ranks->file_count;
    report->recording_count += ranks->recording_count;
    report->text_count += ranks->text_count;
    report->unreadable_count += ranks->unreadable_count;
    report->foreign_count += ranks->foreign_count;
    report->is_something_to_see |= ranks->is_something_to_see;
}

static int compare_counts(size_t one, size_t other)
{
    return (one < other) - (one > other);
}

/* Worst first. */
static int compare_jobs(const void *left, const void *right)
{
    const vw_fleet_job *one = left, *other = right;
    const int orders[] = {
        compare_counts(one->ran_out_count, other->ran_out_count),
        compare_counts(one->problem_count, other->problem_count),
        compare_counts(one->out_of_line_count, other->out_of_line_count),
        strcmp(one->name, other->name),
    };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (orders[i] != 0)
            return orders[i];
    return 0;
}

static vw_status join_jobs(const vw__fleet_parts *parts, const vw__fleet_listing *at,
                           vw__fleet_result *result, vw_fleet_job *jobs)
{
    vw_fleet_report *report = &result->shown;
    uint64_t left_bytes = vw__max_u64(vw__reading_limit_bytes(0), LEAST_REPORTS_BYTES);
    for (size_t i = 0; i < at->job_count; i++) {
        VW__TRY(keep_text(result, at->jobs[i].name, &jobs[i].name));
        VW__TRY(join_job(parts, at, &at->jobs[i], &left_bytes, &result->ranks[i]));
        jobs[i].ranks = result->ranks[i];
        result->ranks_count++;
        fill_job(&jobs[i]);
        count_job(report, &jobs[i]);
    }
    if (at->job_count > 0)
        qsort(jobs, at->job_count, sizeof *jobs, compare_jobs);
    report->jobs = jobs;
    report->job_count = at->job_count;
    return VW_OK;
}

/* ---- failures -------------------------------------------------------------------------------- */

/* One rank that ran out of memory. */
typedef struct failed_rank {
    uint32_t key;
    size_t job; /* place in the report's jobs */
    const vw_rank *rank;
} failed_rank;

typedef struct failures {
    vw__arena arena;
    vw__string_table keys; /* the verdict and the names of the stack */
    failed_rank *ranks;    /* owned */
    size_t count;
} failures;

static vw_status add_failed(failures *at, size_t job, const vw_rank *rank)
{
    uint32_t key = 0;
    vw__byte_buffer name;
    if (!rank->ran_out)
        return VW_OK;
    vw__byte_buffer_init(&name);
    vw__append_u8(&name, (uint8_t)rank->verdict);
    for (size_t i = 0; i < rank->failed_frame_count; i++) {
        vw__site_key_append(&name, &rank->failed_frames[i]);
        vw__append_u8(&name, '\n');
    }
    bool is_kept = !vw__byte_buffer_has_failed(&name) &&
                   vw__string_table_add(&at->keys, vw__byte_buffer_text(&name),
                                        vw__byte_buffer_size(&name), &key);
    vw__byte_buffer_deinit(&name);
    if (!is_kept)
        return vw__fail_host_memory(rank->failed_frame_count, "the stack of a failure");
    at->ranks[at->count++] = (failed_rank){key, job, rank};
    return VW_OK;
}

static vw_status gather_failed(failures *at, const vw_fleet_report *report)
{
    at->ranks = vw__host_alloc_zeroed(report->ran_out_count, sizeof *at->ranks);
    if (at->ranks == NULL)
        return vw__fail_host_memory(report->ran_out_count * sizeof *at->ranks, "failed ranks");
    for (size_t i = 0; i < report->job_count; i++) {
        const vw_ranks_report *ranks = report->jobs[i].ranks;
        for (size_t k = 0; k < ranks->rank_count; k++)
            VW__TRY(add_failed(at, i, &ranks->ranks[k]));
        for (size_t k = 0; k < ranks->unassigned_count; k++)
            VW__TRY(add_failed(at, i, &ranks->unassigned[k]));
    }
    return VW_OK;
}

static void count_failed(const vw_fleet_report *report, vw_fleet_failure *failure,
                         const failed_rank *failed)
{
    const vw_fleet_job *job = &report->jobs[failed->job];
    const vw_rank *rank = failed->rank;
    if (failure->rank_count == 0)
        *failure = (vw_fleet_failure){
            .verdict = rank->verdict, .first_day = INT64_MIN, .last_day = INT64_MIN};
    if (failure->job == NULL || strcmp(job->name, failure->job) < 0) {
        failure->job = job->name;
        failure->rank = rank;
        failure->frames = rank->failed_frames;
        failure->frame_count = rank->failed_frame_count;
    }
    failure->rank_count++;
    if (job->day != INT64_MIN && (failure->first_day == INT64_MIN || job->day < failure->first_day))
        failure->first_day = job->day;
    failure->last_day = latest(failure->last_day, job->day);
}

/* Counts the jobs: failed ranks come job by job. `last_jobs` has a place for each failure. */
static void count_failures(const vw_fleet_report *report, const failures *at,
                           vw_fleet_failure *found, size_t *last_jobs)
{
    for (size_t i = 0; i < at->count; i++) {
        const failed_rank *failed = &at->ranks[i];
        vw_fleet_failure *failure = &found[failed->key];
        if (failure->rank_count == 0 || last_jobs[failed->key] != failed->job) {
            count_failed(report, failure, failed);
            failure->job_count++;
        } else
            failure->rank_count++;
        last_jobs[failed->key] = failed->job;
    }
}

static int compare_failures(const void *left, const void *right)
{
    const vw_fleet_failure *one = *(const vw_fleet_failure *const *)left,
                           *other = *(const vw_fleet_failure *const *)right;
    int order = compare_counts(one->job_count, other->job_count);
    if (order == 0)
        order = compare_counts(one->rank_count, other->rank_count);
    if (order == 0)
        order = strcmp(one->job, other->job);
    if (order == 0)
        order = (one->rank->rank > other->rank->rank) - (one->rank->rank < other->rank->rank);
    return order;
}

/* In most jobs first. `places` gets the place of each that was found. */
static void sort_failures(const vw_fleet_failure *found, size_t count,
                          const vw_fleet_failure **order, vw_fleet_failure *sorted, size_t *places)
{
    for (size_t i = 0; i < count; i++)
        order[i] = &found[i];
    if (count > 0)
        qsort(order, count, sizeof *order, compare_failures);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = *order[i];
        places[order[i] - found] = i;
    }
}

/* Stores the failure of each job: that of the rank to look at. */
static void name_failures(vw_fleet_job *jobs, const failures *at, const size_t *places)
{
    for (size_t i = 0; i < at->count; i++) {
        const failed_rank *failed = &at->ranks[i];
        if (jobs[failed->job].worst == failed->rank)
            jobs[failed->job].failure = places[failed->key];
    }
}

static vw_status fill_failures(vw__fleet_result *result, vw_fleet_job *jobs, failures *at)
{
    vw_fleet_report *report = &result->shown;
    VW__TRY(gather_failed(at, report));
    size_t count = at->keys.count;
    vw_fleet_failure *sorted =
        vw__arena_alloc_array(&result->arena, count, sizeof *sorted, _Alignof(vw_fleet_failure));
    vw_fleet_failure *found =
        vw__arena_alloc_array(&at->arena, count, sizeof *found, _Alignof(vw_fleet_failure));
    size_t *last_jobs =
        vw__arena_alloc_array(&at->arena, count, sizeof *last_jobs, _Alignof(size_t));
    const vw_fleet_failure **order = vw__arena_alloc_array(
        &at->arena, count, sizeof(const vw_fleet_failure *), sizeof(const vw_fleet_failure *));
    if (sorted == NULL || found == NULL || last_jobs == NULL || order == NULL)
        return vw__fail_host_memory(count * sizeof *found, "the failures");
    count_failures(report, at, found, last_jobs);
    size_t *places = last_jobs; /* which are counted */
    sort_failures(found, count, order, sorted, places);
    report->failures = sorted;
    report->failure_count = count;
    name_failures(jobs, at, places);
    return VW_OK;
}

static vw_status find_failures(vw__fleet_result *result, vw_fleet_job *jobs)
{
    failures at = {.ranks = NULL};
    vw__arena_init(&at.arena, VW__ARENA_NO_LIMIT);
    vw__string_table_init(&at.keys, &at.arena, VW__STRING_TABLE_LARGEST_COUNT, SIZE_MAX);
    vw_status status = fill_failures(result, jobs, &at);
    vw__host_free(at.ranks);
    vw__arena_deinit(&at.arena);
    return status;
}

/* ---- days ------------------------------------------------------------------------------------ */

/* By day, then by peak, so that the median is in the middle. Unknown peaks come last. */
static int compare_by_day(const void *left, const void *right)
{
    const vw_fleet_job *one = *(const vw_fleet_job *const *)left,
                       *other = *(const vw_fleet_job *const *)right;
    if (one->day != other->day)
        return one->day < other->day ? -1 : 1;
    return (one->peak_reserved_bytes > other->peak_reserved_bytes) -
           (one->peak_reserved_bytes < other->peak_reserved_bytes);
}

static void fill_day(vw_fleet_day *day, const vw_fleet_job *const *jobs, size_t count)
{
    size_t known_count = 0;
    *day = (vw_fleet_day){.day = jobs[0]->day, .median_peak_bytes = VW_UNKNOWN};
    for (size_t i = 0; i < count; i++) {
        day->job_count++;
        day->ran_out_job_count += jobs[i]->ran_out_count > 0;
        day->rank_count += jobs[i]->rank_count;
        day->ran_out_count += jobs[i]->ran_out_count;
        known_count += jobs[i]->peak_reserved_bytes != VW_UNKNOWN;
    }
    if (known_count > 0)
        day->median_peak_bytes = jobs[(known_count - 1) / 2]->peak_reserved_bytes;
}

static vw_status find_days(vw__fleet_result *result)
{
    vw_fleet_report *report = &result->shown;
    size_t count = report->job_count;
    vw_fleet_day *days =
        vw__arena_alloc_array(&result->arena, count, sizeof *days, _Alignof(vw_fleet_day));
    const vw_fleet_job **jobs = vw__host_alloc_zeroed(count, sizeof(const vw_fleet_job *));
    if (days == NULL || jobs == NULL) {
        vw__host_free(jobs);
        return vw__fail_host_memory(count * sizeof *days, "the days");
    }
    for (size_t i = 0; i < count; i++)
        jobs[i] = &report->jobs[i];
    qsort(jobs, count, sizeof *jobs, compare_by_day);
    for (size_t begin = 0; begin < count;) {
        size_t end = begin + 1;
        while (end < count && jobs[end]->day == jobs[begin]->day)
            end++;
        fill_day(&days[report->day_count++], &jobs[begin], end - begin);
        begin = end;
    }
    report->days = days;
    vw__host_free(jobs);
    return VW_OK;
}

/* ---- the report ------------------------------------------------------------------------------ */

static vw_status add_notes(const vw__fleet_part_list *list, vw__fleet_result *result)
{
    vw__notes notes;
    vw__notes_init(&notes, &result->arena);
    vw__fleet_listing_note(list, &notes);
    return vw__notes_finish(&notes, &result->shown.notes, &result->shown.note_count);
}

static vw_status join(const vw__fleet_parts *parts, const vw__fleet_listing *at,
                      vw__fleet_result *result)
{
    vw_fleet_job *jobs =
        vw__arena_alloc_array(&result->arena, at->job_count, sizeof *jobs, _Alignof(vw_fleet_job));
    result->ranks = vw__host_alloc_zeroed(at->job_count, sizeof(vw_ranks_report *));
    if (jobs == NULL || result->ranks == NULL)
        return vw__fail_host_memory(at->job_count * sizeof *jobs, "the jobs");
    VW__TRY(join_jobs(parts, at, result, jobs));
    VW__TRY(find_failures(result, jobs));
    VW__TRY(find_days(result));
    return add_notes(&parts->list, result);
}

vw_status vw__fleet_join(vw__fleet_parts *parts, vw__fleet_result *result)
{
    vw__fleet_listing at = {.units = NULL};
    vw_status status = vw__fleet_listing_make(&at, parts);
    if (status == VW_OK)
        status = join(parts, &at, result);
    vw__fleet_listing_deinit(&at);
    return status;
}
