/* test_spill_threads.c - eight threads hold more than the device has, so that live memory leaves
 * and comes back under them all the time, while calls of the device and host allocations fail; and
 * no byte is lost.
 *
 * Every block has a pattern, by address and owner. A thread touches its blocks inside a gate
 * (touch_gate.h), which a safe point closes. So nobody touches a block while it moves, as a program
 * has to promise, and everybody touches all of theirs in between.
 *
 * Busy times, when all take more, and calm ones, when they take little and steps end, take turns:
 * the first make memory leave, the second let it come back, by steps and within them.
 *
 * stress_run.h says how to repeat a run, and how to make it longer. */
#include "vramwise/park.h"
#include "vramwise/vramwise.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/stress_run.h"
#include "support/touch_gate.h"

enum { THREADS = 8, STREAMS = 4, MOST_LIVE = 24, ROUNDS = 600, CHECK_EVERY = 50, SEASON = 300 };

#define PAGE 4096
#define MOST_LIVE_BYTES (9 * VW_TEST_MIB) /* of one thread, before it asks again */
#define CAPACITY_BYTES (40 * VW_TEST_MIB)
#define SPILL_BYTES (64 * VW_TEST_MIB)

typedef struct live_block {
    vw_device_ptr address;
    uint64_t size_bytes;
    uint64_t key;
} live_block;

typedef struct shared {
    vw_test_pool t;
    uint64_t rounds;
    bool injects;                /* failures */
    bool parks;                  /* some thread does, now and then */
    vw_test_gate gate;           /* many may touch blocks; a safe point is alone */
    _Atomic uint64_t parked;     /* times */
    _Atomic uint64_t operations; /* of all threads */
    _Atomic uint64_t early;      /* returns within a step: by requests */
    _Atomic int is_over;         /* some thread found a fault: all stop */
    char fault[400];             /* of the first */
    pthread_mutex_t fault_lock;
} shared;

typedef struct worker {
    shared *all;
    unsigned number;
    uint64_t random;
    live_block live[MOST_LIVE];
    size_t live_count;
    uint64_t live_bytes;
    uint64_t served_count, refused_count;
} worker;

/* Assertions of the test library jump, and only the main thread may: the others report. */
static void report(shared *all, const char *what)
{
    pthread_mutex_lock(&all->fault_lock);
    if (all->fault[0] == '\0')
        snprintf(all->fault, sizeof all->fault, "%s: %s", what, vw_last_error());
    pthread_mutex_unlock(&all->fault_lock);
    atomic_store(&all->is_over, 1);
}

#define EXPECT(self, claim)                                                                        \
    do {                                                                                           \
        if (!(claim))                                                                              \
            report((self)->all, #claim);                                                           \
    } while (0)

/* ---- the listener ---------------------------------------------------------------------------- */

static _Thread_local bool is_requesting;

static void listen(void *context, const vw_spill_report *report)
{
    shared *all = context;
    if (report->is_return && is_requesting)
        atomic_fetch_add_explicit(&all->early, 1, memory_order_relaxed);
}

/* ---- random numbers and patterns ------------------------------------------------------------- */

static uint64_t dice(worker *self, uint64_t sides)
{
    self->random += UINT64_C(0x9E3779B97F4A7C15);
    return vw_test_mix(self->random) % sides;
}

static unsigned char mark_of(const live_block *block, uint64_t offset)
{
    return (unsigned char)vw_test_mix(block->key ^ block->address ^ offset);
}

static void write_marks(worker *self, const live_block *block)
{
    unsigned char *bytes = (unsigned char *)(uintptr_t)block->address;
    vw_test_gate_enter(&self->all->gate);
    for (uint64_t offset = 0; offset < block->size_bytes; offset += PAGE)
        bytes[offset] = mark_of(block, offset);
    bytes[block->size_bytes - 1] = mark_of(block, block->size_bytes - 1);
    vw_test_gate_leave(&self->all->gate);
}

static bool has_its_marks(worker *self, const live_block *block)
{
    const unsigned char *bytes = (const unsigned char *)(uintptr_t)block->address;
    uint64_t last = block->size_bytes - 1;
    bool is_same = true;
    vw_test_gate_enter(&self->all->gate);
    for (uint64_t offset = 0; offset < last; offset += PAGE)
        is_same &= bytes[offset] == mark_of(block, offset);
    is_same &= bytes[last] == mark_of(block, last);
    vw_test_gate_leave(&self->all->gate);
    return is_same;
}

/* ---- what a thread does ---------------------------------------------------------------------- */

static bool is_expected(const worker *self, vw_status status)
{
    return status == VW_OK || status == VW_ERR_OUT_OF_MEMORY ||
           (self->all->injects && (status == VW_ERR_DEVICE || status == VW_ERR_HOST_MEMORY));
}

static bool is_calm(const worker *self)
{
    return atomic_load_explicit(&self->all->operations, memory_order_relaxed) / SEASON % 2 == 1;
}

static void allocate(worker *self)
{
    if (self->live_count == MOST_LIVE || self->live_bytes > MOST_LIVE_BYTES)
        return;
    uint64_t least = UINT64_C(1) << (12 + dice(self, is_calm(self) ? 4 : 10)); /* to 4 MiB */
    live_block block = {.size_bytes = least + dice(self, least) + 1, .key = dice(self, UINT64_MAX)};
    is_requesting = true;
    vw_status status =
        vw_alloc(self->all->t.pool, block.size_bytes, dice(self, STREAMS), &block.address);
    is_requesting = false;
    EXPECT(self, is_expected(self, status));
    self->refused_count += status != VW_OK;
    if (status != VW_OK)
        return;
    self->served_count++;
    write_marks(self, &block);
    self->live[self->live_count++] = block;
    self->live_bytes += block.size_bytes;
}

static void let_go(worker *self, size_t which)
{
    live_block block = self->live[which];
    self->live[which] = self->live[--self->live_count];
    self->live_bytes -= block.size_bytes;
    EXPECT(self, has_its_marks(self, &block));
    EXPECT(self, is_expected(self, vw_free(self->all->t.pool, block.address)));
}

/* One at a time, and far enough apart that undoing what one of them broke does not fail as well:
 * then the pool would say so, and serve no more. */
static void order_failure(worker *self)
{
    static const vw_status kinds[] = {VW_ERR_DEVICE, VW_ERR_OUT_OF_MEMORY};
    if (!self->all->injects || self->number != 0)
        return;
    if (dice(self, 2) == 0)
        vw__host_memory_fail_at(1 + dice(self, 40));
    else
        EXPECT(self, vw_device_fail_call(self->all->t.device, 100 + dice(self, 200),
                                         kinds[dice(self, 2)]) == VW_OK);
}

/* A park that fails may leave a part of it parked, and says so; nothing else may be wrong with it.
 */
static void park_and_wake(worker *self)
{
    vw_pool *pool = self->all->t.pool;
    const vw_park_options options = {.struct_size = sizeof options,
                                     .folder = dice(self, 4) == 0 ? "/dev/shm" : NULL,
                                     .wait_ms = UINT64_MAX};
    vw_status status = vw_pool_park(pool, &options, NULL);
    EXPECT(self, is_expected(self, status) || (self->all->injects && status == VW_ERR_FILE));
    if (status == VW_OK)
        atomic_fetch_add_explicit(&self->all->parked, 1, memory_order_relaxed);
    EXPECT(self, vw_pool_check(pool) == VW_OK);
    for (int tries = 0; tries < 100 && (status = vw_pool_wake(pool, NULL, NULL)) != VW_OK; tries++)
        EXPECT(self, is_expected(self, status) || (self->all->injects && status == VW_ERR_FILE));
    EXPECT(self, status == VW_OK);
}

static void do_something(worker *self)
{
    vw_pool *pool = self->all->t.pool;
    uint64_t what = dice(self, 1000), takes = is_calm(self) ? 400 : 500;
    live_block *one = self->live_count > 0 ? &self->live[dice(self, self->live_count)] : NULL;
    if (what < takes)
        allocate(self);
    else if (what < 800 && one != NULL)
        let_go(self, (size_t)(one - self->live));
    else if (what < 850 && one != NULL)
        EXPECT(self, vw_advise(pool, one->address, (vw_advice)dice(self, 3)) == VW_OK);
    else if (what < 900 && one != NULL)
        EXPECT(self, has_its_marks(self, one));
    else if (what < 930 && one != NULL)
        write_marks(self, one);
    else if (what < 960)
        EXPECT(self, is_expected(self, vw_pool_mark_step(pool)));
    else if (what < 980)
        order_failure(self);
    else if (what < 990 && one != NULL)
        EXPECT(self, is_expected(self, vw_record_stream(pool, one->address, dice(self, STREAMS))));
    else if (what < 995)
        EXPECT(self, is_expected(self, vw_pool_trim(pool)));
    else if (self->all->parks)
        park_and_wake(self);
}

static void *work(void *context)
{
    worker *self = context;
    for (uint64_t round = 1; round <= self->all->rounds; round++) {
        if (atomic_load(&self->all->is_over))
            break;
        do_something(self);
        atomic_fetch_add_explicit(&self->all->operations, 1, memory_order_relaxed);
        if (round % CHECK_EVERY == 0)
            EXPECT(self, vw_pool_check(self->all->t.pool) == VW_OK);
    }
    for (size_t i = 0; i < self->live_count; i++)
        EXPECT(self, has_its_marks(self, &self->live[i]));
    return NULL;
}

/* ---- the runs -------------------------------------------------------------------------------- */

static vw_paged_stats paged_stats(const shared *all)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(all->t.pool, &stats), VW_OK);
    return stats;
}

static void let_go_of_all(worker *self)
{
    while (self->live_count > 0)
        let_go(self, 0);
}

/* Whatever chance did before: at the end a block leaves, and comes back; by steps first, and then,
 * since it is hot, by a request, however patient chance has made them. */
static void leave_and_return(shared *all, worker *workers)
{
    vw_device_ptr large = VW_NULL;
    live_block *kept = &workers[1].live[0];
    assert_int_equal(vw_device_fail_call(all->t.device, 0, VW_OK), VW_OK);
    vw__host_memory_fail_at(0);
    for (unsigned i = 0; i < THREADS; i++)
        if (i != 2) /* so that all the rest has room, with the host */
            let_go_of_all(&workers[i]);
    *kept = (live_block){.size_bytes = CAPACITY_BYTES / 2, .key = 77};
    vw_test_ok(&all->t, vw_alloc(all->t.pool, kept->size_bytes, 0, &kept->address));
    workers[1].live_count = 1;
    write_marks(&workers[1], kept);
    vw_test_ok(&all->t, vw_alloc(all->t.pool, CAPACITY_BYTES * 3 / 4, 0, &large));
    assert_true(paged_stats(all).spilled_bytes > 0);
    vw_test_ok(&all->t, vw_free(all->t.pool, large));
    let_go_of_all(&workers[2]);
    for (int step = 0; step < 200 && paged_stats(all).returns == 0; step++)
        vw_test_ok(&all->t, vw_pool_mark_step(all->t.pool));
    assert_true(paged_stats(all).returns > 0);
    vw_test_ok(&all->t, vw_advise(all->t.pool, kept->address, VW_ADVISE_HOT));
    vw_test_ok(&all->t, vw_alloc(all->t.pool, CAPACITY_BYTES * 3 / 4, 0, &large));
    assert_true(paged_stats(all).spilled_bytes > 0);
    vw_test_ok(&all->t, vw_free(all->t.pool, large));
    for (int i = 0; i < 1 << 21 && paged_stats(all).spilled_bytes != 0; i++) {
        assert_int_equal(vw_alloc(all->t.pool, PAGE, 0, &large), VW_OK);
        assert_int_equal(vw_free(all->t.pool, large), VW_OK);
    }
    assert_int_equal(paged_stats(all).spilled_bytes, 0);
    let_go_of_all(&workers[1]);
}

static void finish(shared *all, worker *workers)
{
    uint64_t served = 0, refused = 0;
    if (all->fault[0] == '\0')
        leave_and_return(all, workers);
    if (all->fault[0] != '\0')
        fail_msg("%s", all->fault);
    for (unsigned i = 0; i < THREADS; i++) {
        served += workers[i].served_count;
        refused += workers[i].refused_count;
    }
    vw_paged_stats paged = paged_stats(all);
    print_message("%" PRIu64 " served, %" PRIu64 " refused; %" PRIu64 " spills of %" PRIu64
                  " MiB, %" PRIu64 " returns of %" PRIu64 " MiB, %" PRIu64
                  " within a step, %" PRIu64 " failed on the host; parked %" PRIu64 " times\n",
                  served, refused, paged.spills, paged.all_spilled_bytes / VW_TEST_MIB,
                  paged.returns, paged.returned_bytes / VW_TEST_MIB, atomic_load(&all->early),
                  paged.failed_host_creations, atomic_load(&all->parked));
    assert_true(served > 4 * refused);
    vw_test_trim(&all->t);
    vw_pool_stats stats = vw_test_stats(&all->t);
    assert_int_equal(stats.active.all.current, 0);
    assert_int_equal(stats.reserved_bytes.all.current, 0);
    assert_int_equal(paged_stats(all).spilled_bytes, 0);
}

static void run_threads(const char *engine, bool injects, bool parks)
{
    static shared all;
    static worker workers[THREADS];
    pthread_t threads[THREADS];
    uint64_t seed = vw_test_seed();
    memset(&all, 0, sizeof all);
    memset(workers, 0, sizeof workers);
    all.rounds = vw_test_rounds(ROUNDS);
    all.injects = injects;
    all.parks = parks;
    assert_int_equal(pthread_mutex_init(&all.fault_lock, NULL), 0);
    all.gate = (vw_test_gate)VW_TEST_GATE_OPEN;
    vw_test_pool_open(&all.t, &(vw_test_pool_setup){
                                  .engine = engine,
                                  .capacity_bytes = CAPACITY_BYTES,
                                  .idle_floor_bytes = 2 * VW_TEST_MIB,
                                  .safe_point = {vw_test_gate_close, vw_test_gate_open, &all.gate},
                                  .spill_bytes = SPILL_BYTES,
                                  .spill_listener = {&all, listen},
                                  .spill_ahead_bytes = SPILL_BYTES / 4,
                                  .park_guard = {.hold = vw_test_gate_hold,
                                                 .let_go = vw_test_gate_let_go,
                                                 .context = &all.gate},
                                  .on_host = true});
    vw_test_ok(&all.t, vw_pool_set_sink(all.t.pool, NULL));
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].all = &all;
        workers[i].number = i;
        workers[i].random = vw_test_mix(seed + i);
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    finish(&all, workers);
    vw_pool_destroy(all.t.pool);
    all.t.pool = NULL;
    if (!injects) /* a handle that the device refused to take back stays there */
        assert_int_equal(vw_test_calls(&all.t).in_use_bytes, 0);
    vw_device_destroy(all.t.device);
    free(all.t.events);
    pthread_mutex_destroy(&all.fault_lock);
}

static void threads_keep_their_bytes_while_memory_leaves_and_comes_back(void **state)
{
    (void)state;
    run_threads("vramwise", false, false);
}

static void threads_keep_their_bytes_whatever_fails(void **state)
{
    (void)state;
    run_threads("vramwise", true, false);
    run_threads("vramwise:rescue", true, false);
}

static void threads_keep_their_bytes_while_all_of_it_is_parked(void **state)
{
    (void)state;
    run_threads("vramwise", false, true);
    run_threads("vramwise:tight", true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_keep_their_bytes_while_memory_leaves_and_comes_back),
        cmocka_unit_test(threads_keep_their_bytes_whatever_fails),
        cmocka_unit_test(threads_keep_their_bytes_while_all_of_it_is_parked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
