/* pool_park.c - parking: whose turn it is, who waits meanwhile, and what a full device says.
 *
 * The engine does the work, under the pool's lock. Here is what needs more than that lock: one park
 * or wake at a time; stores for the bytes; requests of other threads, which are let finish first,
 * and which wait for a wake if that was asked for. */
#include "pool/pool.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "vramwise/park.h"
#include "vramwise/units.h"
#include "base/checked_math.h"
#include "base/clock.h"
#include "base/guest_thread.h"
#include "base/struct_size.h"
#include "device/device_table.h"
#include "pool/locked_memory.h"
#include "pool/park_file.h"
#include "pool/park_memory.h"

enum {
    MOST_PROCESSES = 16, /* named where the device is full */
};

#define NANOSECONDS_PER_MILLISECOND UINT64_C(1000000)
#define FOR_EVER_MS UINT64_C(1000000000000) /* 30 years */
#define MOST_WAIT_MS UINT64_C(10000)        /* for others, before it is refused */

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Nothing here fails on Linux. */
void vw__pool_begin_parking(vw_pool *pool, const vw_park_guard *guard)
{
    vw__pool_parking *parking = &pool->parking;
    parking->guard = *guard;
    (void)pthread_mutex_init(&parking->turn, NULL);
    (void)pthread_mutex_init(&parking->lock, NULL);
    (void)vw__guest_thread_condition(&parking->has_woken);
}

void vw__pool_end_parking(vw_pool *pool)
{
    vw__pool_parking *parking = &pool->parking;
    vw__stock_destroy(parking->regions);
    vw__stock_destroy(parking->tape);
    (void)pthread_cond_destroy(&parking->has_woken);
    (void)pthread_mutex_destroy(&parking->lock);
    (void)pthread_mutex_destroy(&parking->turn);
}

/* ---- launches -------------------------------------------------------------------------------- */

bool vw__pool_hold_launches(void *context)
{
    vw_pool *pool = context;
    const vw_park_guard *guard = &pool->parking.guard;
    if (guard->hold == NULL) /* vw_pool_park() has seen to the promise */
        return true;
    vw_set_last_error("launches cannot be held back here");
    pool->parking.is_held = guard->hold(guard->context);
    return pool->parking.is_held || pool->parking.is_promised;
}

void vw__pool_let_launches_go(void *context)
{
    vw_pool *pool = context;
    if (pool->parking.is_held)
        pool->parking.guard.let_go(pool->parking.guard.context);
    pool->parking.is_held = false;
}

/* ---- requests that wait ---------------------------------------------------------------------- */

uint64_t vw__pool_count_wakes(vw_pool *pool)
{
    vw__pool_parking *parking = &pool->parking;
    pthread_mutex_lock(&parking->lock);
    uint64_t wakes = parking->wakes;
    pthread_mutex_unlock(&parking->lock);
    return wakes;
}

bool vw__pool_wait_for_wake(vw_pool *pool, uint64_t wakes, uint64_t since_ns)
{
    vw__pool_parking *parking = &pool->parking;
    uint64_t waited_ms = (vw__clock_monotonic_ns() - since_ns) / NANOSECONDS_PER_MILLISECOND;
    pthread_mutex_lock(&parking->lock);
    uint64_t wait_ms = vw__min_u64(parking->wait_ms, FOR_EVER_MS);
    bool is_early = wait_ms > waited_ms;
    const struct timespec end = vw__guest_thread_time_after(is_early ? wait_ms - waited_ms : 0);
    while (is_early && parking->wakes == wakes)
        is_early = vw__guest_thread_wait(&parking->has_woken, &parking->lock, &end);
    bool has_woken = parking->wakes != wakes;
    pthread_mutex_unlock(&parking->lock);
    return has_woken;
}

static void set_wait(vw_pool *pool, uint64_t wait_ms)
{
    pthread_mutex_lock(&pool->parking.lock);
    pool->parking.wait_ms = wait_ms;
    pthread_mutex_unlock(&pool->parking.lock);
}

static void let_requests_go_on(vw_pool *pool)
{
    vw__pool_parking *parking = &pool->parking;
    pthread_mutex_lock(&parking->lock);
    parking->wakes++;
    pthread_cond_broadcast(&parking->has_woken);
    pthread_mutex_unlock(&parking->lock);
}

bool vw__pool_can_park(const vw_pool *pool)
{
    vw__pool_lock(pool); /* others exchange the table */
    bool can_park = pool->engine->table->park != NULL;
    vw__pool_unlock(pool);
    return can_park;
}

/* ---- stores ---------------------------------------------------------------------------------- */

static vw_status make_stock(vw_pool *pool, vw__stock_kind kind, vw__stock **place)
{
    vw__stock *stock = NULL;
    if (kind == VW__STOCK_HANDLES && !vw__device_has_host_handles(pool->device))
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "device %s cannot use host memory in the place of its own; a folder "
                        "may take what is parked",
                        pool->device->properties.name);
    VW__TRY(vw__stock_create(pool->device, kind, pool->pinned_budget, UINT64_MAX, &stock));
    vw__pool_lock(pool);
    *place = stock;
    vw__pool_unlock(pool);
    return VW_OK;
}

/* The stocks that parking keeps its host memory in, made at their first use. By whoever has the
 * turn. A region's memory is mapped in its place, so it takes handles; a tape only copies. */
static vw_status find_stock(vw_pool *pool, bool is_for_tape, vw__lender *out)
{
    vw__stock **place = is_for_tape ? &pool->parking.tape : &pool->parking.regions;
    vw__stock_kind kind = is_for_tape && vw__locked_memory_is_possible(pool->device)
                              ? VW__STOCK_LOCKED
                              : VW__STOCK_HANDLES;
    if (*place == NULL)
        VW__TRY(make_stock(pool, kind, place));
    *out = vw__stock_lender(*place);
    return VW_OK;
}

static vw_status open_store(vw_pool *pool, const vw_park_options *options, vw__engine_park *how)
{
    how->only = options->only;
    if (options->folder != NULL)
        return vw__park_file_open(pool->device, options->folder, &how->store);
    VW__TRY(find_stock(pool, options->only == NULL, &how->host));
    return options->only != NULL ? VW_OK
                                 : vw__park_memory_open(pool->device, &how->host, &how->store);
}

static void close_store(const vw__engine_park *how)
{
    if (!how->is_taken && how->store.end != NULL)
        how->store.end(how->store.context);
}

/* ---- park ------------------------------------------------------------------------------------ */

static vw_status check_park(const vw_pool *pool, const vw_park_options *options)
{
    if (options->only != NULL && options->folder != NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "a region stays in reach, in host memory: it cannot go to a folder");
    if (!vw__pool_can_park(pool))
        return vw__pool_unsupported(
            pool, pool->engine->is_fallback ? "virtual memory here, and cannot park" : "parking");
    if (pool->safe_point.enter == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "the pool has no safe point, which parking takes");
    if (options->only == NULL && pool->parking.guard.hold == NULL && !options->is_promised)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "nobody holds launches back while the pool is parked (vw_park_guard), and "
                        "nobody has promised that there are none");
    return VW_OK;
}

/* It stays so: whoever parks or wakes has the turn. */
static bool is_parked(const vw_pool *pool, const vw_private_id *only)
{
    vw__pool_lock(pool);
    bool is_parked = pool->engine->table->is_parked(pool->engine, only);
    vw__pool_unlock(pool);
    return is_parked;
}

static vw_status try_to_park(vw_pool *pool, vw__engine_park *how, const void *caller,
                             vw_park_report *report)
{
    vw__pool_lock(pool);
    vw__pool_begin_call(pool, caller);
    vw_status status = pool->engine->table->park(pool->engine, how, report);
    vw__pool_end_cause(pool);
    vw__pool_unlock(pool);
    return status;
}

/* How long to wait before the next try; 0: `status` stays as it is. Requests that dropped the lock
 * finish soon. A gate that comes late takes longer. */
static uint64_t pause_ms(const vw_pool *pool, vw_status status)
{
    const vw_park_guard *guard = &pool->parking.guard;
    if (status == VW_ERR_NOT_READY)
        return 1;
    bool may_change = status == VW_ERR_WRONG_STATE && guard->is_coming != NULL;
    return may_change && guard->is_coming(guard->context) ? 100 : 0;
}

static vw_status park_when_ready(vw_pool *pool, vw__engine_park *how, const void *caller,
                                 vw_park_report *report)
{
    uint64_t waited_ms = 0, milliseconds = 0;
    vw_status status = try_to_park(pool, how, caller, report);
    while (waited_ms < MOST_WAIT_MS && (milliseconds = pause_ms(pool, status)) != 0) {
        const struct timespec pause = {0, (long)(milliseconds * NANOSECONDS_PER_MILLISECOND)};
        nanosleep(&pause, NULL);
        waited_ms += milliseconds;
        status = try_to_park(pool, how, caller, report);
    }
    return status;
}

static vw_status park(vw_pool *pool, const vw_park_options *options, const void *caller,
                      vw_park_report *report)
{
    vw__engine_park how = {.only = NULL};
    VW__TRY(check_park(pool, options));
    if (is_parked(pool, options->only)) {
        set_wait(pool, options->wait_ms);
        return VW_OK;
    }
    VW__TRY(open_store(pool, options, &how));
    pool->parking.is_promised = options->is_promised;
    set_wait(pool, options->wait_ms);
    vw_status status = park_when_ready(pool, &how, caller, report);
    close_store(&how);
    if (status != VW_OK)
        let_requests_go_on(pool); /* some may have been refused meanwhile */
    return status;
}

/* Parking and waking both begin with take_turn() and end with end_turn(). */
static vw_status take_turn(vw_pool *pool, vw_park_report *report)
{
    if (report != NULL)
        VW__TRY(VW__STRUCT_CHECK_OUT(vw_park_report, report));
    pthread_mutex_lock(&pool->parking.turn);
    return VW_OK;
}

static void end_turn(vw_pool *pool, uint64_t start_ns, vw_park_report *done, vw_park_report *report)
{
    pthread_mutex_unlock(&pool->parking.turn);
    done->wait_ns = vw__clock_monotonic_ns() - start_ns;
    if (report != NULL)
        VW__STRUCT_OUT(vw_park_report, done, report);
}

VW__POOL_NAMED_CALL vw_status vw_pool_park(vw_pool *pool, const vw_park_options *options,
                                           vw_park_report *report)
{
    vw_park_options used = {.struct_size = sizeof used};
    vw_park_report done = {.struct_size = sizeof done};
    uint64_t start_ns = vw__clock_monotonic_ns();
    VW__TRY(vw__pool_enter(pool));
    VW__TRY(VW__STRUCT_IN(vw_park_options, options, &used));
    VW__TRY(take_turn(pool, report));
    vw_status status = park(pool, &used, __builtin_return_address(0), &done);
    end_turn(pool, start_ns, &done, report);
    return status;
}

/* ---- wake ------------------------------------------------------------------------------------ */

static size_t add_text(char *text, size_t capacity, size_t length, const char *more)
{
    int written = length < capacity ? snprintf(text + length, capacity - length, "%s", more) : 0;
    return length + (written > 0 ? (size_t)written : 0);
}

/* Who has the memory, as far as the driver knows. */
static size_t add_holders(const vw_pool *pool, char *text, size_t capacity, size_t length)
{
    const vw_device_table *table = pool->device->table;
    vw_process_memory entries[MOST_PROCESSES];
    size_t count = 0;
    if (!VW__DEVICE_TABLE_HAS(table, processes) ||
        table->processes(pool->device->context, entries, MOST_PROCESSES, &count) != VW_OK)
        return length;
    for (size_t i = 0; i < count && i < MOST_PROCESSES; i++) {
        char size[VW_SIZE_TEXT_BYTES], line[96];
        if (entries[i].is_this_process || entries[i].used_bytes == UINT64_MAX)
            continue;
        snprintf(line, sizeof line, "; process %u has %s", entries[i].pid,
                 vw_format_size(entries[i].used_bytes, size));
        length = add_text(text, capacity, length, line);
    }
    return length;
}

/* Without the lock: the driver is asked. */
static vw_status fail_full(const vw_pool *pool)
{
    char text[2048], line[256], free_text[VW_SIZE_TEXT_BYTES], total_text[VW_SIZE_TEXT_BYTES];
    uint64_t free_bytes = 0, total_bytes = pool->device->properties.total_bytes;
    vw__pool_lock(pool);
    uint64_t limit_bytes = pool->engine->limit_bytes;
    vw__pool_unlock(pool);
    size_t length = add_text(text, sizeof text, 0, vw_last_error());
    (void)pool->device->table->memory_info(pool->device->context, &free_bytes, &total_bytes);
    snprintf(line, sizeof line, ", and device %d has %s free of %s", pool->device->properties.index,
             vw_format_size(free_bytes, free_text), vw_format_size(total_bytes, total_text));
    length = add_text(text, sizeof text, length, line);
    if (limit_bytes != UINT64_MAX) {
        snprintf(line, sizeof line, " (the pool's limit is %s)",
                 vw_format_size(limit_bytes, free_text));
        length = add_text(text, sizeof text, length, line);
    }
    length = add_holders(pool, text, sizeof text, length);
    (void)add_text(text, sizeof text, length,
                   "; what did not come back stays parked, and can be woken later");
    return vw__fail(VW_ERR_OUT_OF_MEMORY, "%s", text);
}

static vw_status wake(vw_pool *pool, const vw_private_id *only, const void *caller,
                      vw_park_report *report)
{
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table;
    vw__pool_begin_call(pool, caller);
    vw_status status = table->wake != NULL ? table->wake(pool->engine, only, report)
                                           : vw__pool_unsupported(pool, "parking");
    vw__pool_end_cause(pool);
    vw__pool_unlock(pool);
    /* Also after a failure: the whole pool may be back and a region not, or the pool has failed.
     * Whoever still finds its memory parked waits again. */
    let_requests_go_on(pool);
    return status == VW_ERR_OUT_OF_MEMORY ? fail_full(pool) : status;
}

VW__POOL_NAMED_CALL vw_status vw_pool_wake(vw_pool *pool, const vw_private_id *only,
                                           vw_park_report *report)
{
    vw_park_report done = {.struct_size = sizeof done};
    uint64_t start_ns = vw__clock_monotonic_ns();
    VW__TRY(vw__pool_enter(pool));
    VW__TRY(take_turn(pool, report));
    vw_status status = wake(pool, only, __builtin_return_address(0), &done);
    end_turn(pool, start_ns, &done, report);
    return status;
}

/* ---- host memory, and regions ---------------------------------------------------------------- */

static vw_status make_ahead(vw_pool *pool, uint64_t size_bytes)
{
    uint64_t sizes_bytes[VW__LENDER_WISHES];
    size_t count = 0;
    vw__lender host;
    vw__lender_numbers numbers;
    VW__TRY(find_stock(pool, true, &host));
    host.look(host.context, &numbers);
    if (size_bytes > numbers.ready_bytes)
        VW__TRY(vw__park_memory_check(pool->device, size_bytes - numbers.ready_bytes));
    while (count < VW__LENDER_WISHES &&
           (sizes_bytes[count] = vw__park_memory_piece_bytes(pool->device, size_bytes, count)) != 0)
        count++;
    host.wish(host.context, sizes_bytes, count);
    return VW_OK;
}

static void empty_stocks(vw_pool *pool)
{
    if (pool->parking.tape != NULL)
        vw__stock_empty(pool->parking.tape);
    if (pool->parking.regions != NULL)
        vw__stock_empty(pool->parking.regions);
}

vw_status vw_pool_park_ahead(vw_pool *pool, uint64_t size_bytes)
{
    VW__TRY(vw__pool_enter(pool));
    if (!vw__pool_can_park(pool))
        return vw__pool_unsupported(pool, "parking");
    pthread_mutex_lock(&pool->parking.turn);
    vw_status status = VW_OK;
    if (size_bytes != 0)
        status = make_ahead(pool, size_bytes);
    else
        empty_stocks(pool);
    pthread_mutex_unlock(&pool->parking.turn);
    return status;
}

vw_status vw_private_pool_set_region(vw_pool *pool, vw_private_id id, const char *name,
                                     bool keeps_data)
{
    VW__TRY(vw__pool_enter(pool));
    if (name == NULL || name[0] == '\0')
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "a region needs a name");
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table;
    vw_status status = table->set_region != NULL
                           ? table->set_region(pool->engine, id, name, keeps_data)
                           : vw__pool_unsupported(pool, "regions");
    vw__pool_unlock(pool);
    return status;
}
