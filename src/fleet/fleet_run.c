/* fleet_run.c - the threads, and the budget they share. */
#include "fleet/fleet_run.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/byte_buffer.h"
#include "base/checked_math.h" /* vw__min_u64, vw__max_u64 */
#include "base/error.h"
#include "base/guest_thread.h"
#include "base/host_memory.h"

/* What reading takes, by the size of a file. A recording in memory is up to ten times its pickle; a
 * compressed one, which most are that are kept, is ten times the file before that. */
enum { READING_PER_BYTE = 10, READING_PER_PACKED_BYTE = 100, MOST_THREADS = 256 };
#define LEAST_READING_BYTES (UINT64_C(4) << 20)

enum { RETRY_FACTOR = 4, TICK_MS = 100 };

typedef struct run {
    const vw__fleet_run_plan *plan;
    pthread_mutex_t lock;    /* of all below, and of the parts */
    pthread_cond_t has_room; /* the budget has grown */
    pthread_cond_t has_news; /* for the caller's thread */
    size_t next, done_count;
    uint64_t free_bytes;
    unsigned running;
    vw_status status; /* the first failure */
    char message[VW__ERROR_DETAIL_BYTES];
} run;

static const char *const packed_endings[] = {".gz", ".xz", ".zst"};

static bool is_packed(const char *path)
{
    size_t path_bytes = strlen(path);
    for (size_t i = 0; i < sizeof packed_endings / sizeof *packed_endings; i++) {
        size_t ending_bytes = strlen(packed_endings[i]);
        if (path_bytes > ending_bytes &&
            strcmp(path + path_bytes - ending_bytes, packed_endings[i]) == 0)
            return true;
    }
    return false;
}

static uint64_t first_guess(const run *at, const vw__fleet_run_unit *unit)
{
    uint64_t guess = VW__RANKS_LEAST_TEXTS_BYTES; /* many ranks take more: a second try */
    if (unit->unit.place != VW__RANKS_UNIT_TEXTS) {
        uint64_t per_byte = is_packed(vw__fleet_list_path(at->plan->list, &unit->unit))
                                ? READING_PER_PACKED_BYTE
                                : READING_PER_BYTE;
        guess = vw__max_u64(LEAST_READING_BYTES,
                            vw__min_u64(unit->size_bytes, at->plan->budget_bytes) * per_byte);
    }
    return vw__min_u64(guess, at->plan->budget_bytes);
}

/* ---- the budget ------------------------------------------------------------------------------ */

static void take_room(run *at, uint64_t bytes)
{
    (void)pthread_mutex_lock(&at->lock);
    while (at->free_bytes < bytes)
        (void)vw__guest_thread_wait(&at->has_room, &at->lock, NULL);
    at->free_bytes -= bytes;
    (void)pthread_mutex_unlock(&at->lock);
}

static void give_room(run *at, uint64_t bytes)
{
    (void)pthread_mutex_lock(&at->lock);
    at->free_bytes += bytes;
    (void)pthread_cond_broadcast(&at->has_room);
    (void)pthread_mutex_unlock(&at->lock);
}

/* ---- one unit -------------------------------------------------------------------------------- */

static vw_status examine_once(run *at, const vw__fleet_run_unit *unit, uint64_t bytes,
                              vw__byte_buffer *record, bool *may_change)
{
    const vw__fleet_run_plan *plan = at->plan;
    const vw__fleet_means means = {
        .memory = {.limit_bytes = bytes, .may_get_more = bytes < plan->budget_bytes},
        .thread_count = plan->unit_count < plan->thread_count
                            ? (unsigned)(plan->thread_count / plan->unit_count)
                            : 1};
    vw__byte_buffer_clear(record);
    take_room(at, bytes);
    vw_status status =
        plan->examiner.examine(plan->examiner.context, &plan->list->jobs[unit->unit.job].list,
                               unit->unit.place, &means, record, may_change);
    give_room(at, bytes);
    return status;
}

static vw_status examine(run *at, const vw__fleet_run_unit *unit, vw__byte_buffer *record,
                         bool *may_change)
{
    uint64_t budget_bytes = at->plan->budget_bytes, bytes = first_guess(at, unit);
    vw_status status = examine_once(at, unit, bytes, record, may_change);
    while (status == VW_ERR_HOST_MEMORY && bytes < budget_bytes) {
        bytes = bytes < budget_bytes / RETRY_FACTOR ? bytes * RETRY_FACTOR : budget_bytes;
        status = examine_once(at, unit, bytes, record, may_change);
    }
    return status;
}

/* Writes down what became of a unit. */
static void note_result(run *at, const vw__fleet_run_unit *unit, vw_status status,
                        const vw__byte_buffer *record, bool may_change)
{
    const vw__fleet_list *list = at->plan->list;
    (void)pthread_mutex_lock(&at->lock);
    if (status == VW_OK)
        status = vw__fleet_parts_write_unit(at->plan->parts, list->jobs[unit->unit.job].name,
                                            vw__fleet_list_path(list, &unit->unit),
                                            may_change ? 0 : unit->fingerprint, record);
    if (status != VW_OK && at->status == VW_OK) {
        at->status = status;
        (void)snprintf(at->message, sizeof at->message, "%s", vw_last_error());
    }
    at->done_count++;
    (void)pthread_cond_signal(&at->has_news);
    (void)pthread_mutex_unlock(&at->lock);
}

/* NULL: all units are taken, or one has failed. */
static const vw__fleet_run_unit *next_unit(run *at)
{
    (void)pthread_mutex_lock(&at->lock);
    const vw__fleet_run_unit *unit = at->status == VW_OK && at->next < at->plan->unit_count
                                         ? &at->plan->units[at->next++]
                                         : NULL;
    (void)pthread_mutex_unlock(&at->lock);
    return unit;
}

static void *work_off(void *context)
{
    run *at = context;
    const vw__fleet_run_unit *unit;
    vw__byte_buffer record;
    vw__byte_buffer_init(&record);
    while ((unit = next_unit(at)) != NULL) {
        bool may_change = false;
        vw_status status = examine(at, unit, &record, &may_change);
        note_result(at, unit, status, &record, may_change);
    }
    vw__byte_buffer_deinit(&record);
    (void)pthread_mutex_lock(&at->lock);
    at->running--;
    (void)pthread_cond_signal(&at->has_news);
    (void)pthread_mutex_unlock(&at->lock);
    return NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* With the lock held. false: the caller wants an end. */
static bool tell_progress(run *at)
{
    const vw__fleet_run_plan *plan = at->plan;
    double done = (double)(plan->known_count + at->done_count) /
                  (double)(plan->known_count + plan->unit_count);
    if (plan->progress == NULL)
        return true;
    (void)pthread_mutex_unlock(&at->lock);
    bool goes_on = plan->progress(plan->progress_context, done);
    (void)pthread_mutex_lock(&at->lock);
    return goes_on;
}

static void wait_a_moment(run *at)
{
    const struct timespec until = vw__guest_thread_time_after(TICK_MS);
    (void)vw__guest_thread_wait(&at->has_news, &at->lock, &until);
}

/* Shows the progress until all threads have ended, and once where they have already: a caller who
 * wants an end is always asked. */
static void look_on(run *at)
{
    (void)pthread_mutex_lock(&at->lock);
    do {
        if (!tell_progress(at) && at->status == VW_OK) {
            at->status = VW_ERR_WRONG_STATE;
            (void)snprintf(at->message, sizeof at->message, "stopped by the caller");
        }
        if (at->running > 0)
            wait_a_moment(at);
    } while (at->running > 0);
    (void)pthread_mutex_unlock(&at->lock);
}

static unsigned start(run *at, pthread_t threads[MOST_THREADS])
{
    unsigned wanted = at->plan->thread_count, started = 0;
    if (wanted > MOST_THREADS)
        wanted = MOST_THREADS;
    if (wanted > at->plan->unit_count)
        wanted = (unsigned)at->plan->unit_count;
    (void)pthread_mutex_lock(&at->lock);
    while (started < wanted && pthread_create(&threads[started], NULL, work_off, at) == 0)
        started++;
    at->running = started;
    (void)pthread_mutex_unlock(&at->lock);
    return started;
}

vw_status vw__fleet_run(const vw__fleet_run_plan *plan)
{
    pthread_t threads[MOST_THREADS];
    run at = {.plan = plan, .free_bytes = plan->budget_bytes};
    if (plan->unit_count == 0)
        return VW_OK;
    (void)pthread_mutex_init(&at.lock, NULL); /* on Linux none of these fails */
    (void)vw__guest_thread_condition(&at.has_room);
    (void)vw__guest_thread_condition(&at.has_news);
    unsigned started = start(&at, threads);
    if (started == 0) { /* no thread can be had: works here, without progress */
        at.running = 1;
        (void)work_off(&at);
    }
    look_on(&at);
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_cond_destroy(&at.has_news);
    (void)pthread_cond_destroy(&at.has_room);
    (void)pthread_mutex_destroy(&at.lock);
    return at.status == VW_OK ? VW_OK : vw__fail(at.status, "%s", at.message);
}
