/* test_paged_threads.c - threads share a pool of engine "vramwise" that is hardly larger than what
 * they hold, so that memory moves all the time, and nobody's bytes change under them.
 *
 * On the host device addresses can be written through. Every block is marked at its start, its end
 * and in every page, by address and owner, and looked at before it is freed: if a handle moved from
 * under a live block, or were mapped under two, a mark would be wrong or the access a fault.
 * Streams complete only when some thread says so. A thread's own work is done when the call
 * returns, so a block that moves to another stream may be written at once: only the order of the
 * pool's books and mappings is tested here; tests/integration/test_paged_late_work.c tests that of
 * the streams.
 *
 * stress_run.h says how to repeat a run, and how to make it longer. */
#include "vramwise/vramwise.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/stress_run.h"

enum { THREADS = 6, STREAMS = 4, MOST_LIVE = 32, ROUNDS = 3000, CHECK_EVERY = 200 };

#define PAGE 4096
#define LARGEST_LOG2 22                    /* sizes up to 8 MiB */
#define MOST_LIVE_BYTES (12 * VW_TEST_MIB) /* of one thread, before it asks again */
#define LIMIT_BYTES (100 * VW_TEST_MIB)    /* a little more than all of them hold at most */

typedef struct live_block {
    vw_device_ptr address;
    uint64_t size_bytes;
    uint64_t key;
    bool is_pinned;
} live_block;

typedef struct shared {
    vw_test_pool t;
    uint64_t rounds;
    _Atomic int is_over; /* some thread found a fault: all stop */
    char fault[400];     /* of the first */
    pthread_mutex_t fault_lock;
} shared;

typedef struct worker {
    shared *all;
    unsigned number;
    uint64_t random;
    live_block live[MOST_LIVE];
    size_t live_count;
    uint64_t live_bytes;
    uint64_t scope_count;
    uint64_t served_count, refused_count;
    pthread_t thread;
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

/* ---- random numbers and marks ---------------------------------------------------------------- */

static uint64_t dice(worker *self, uint64_t sides)
{
    self->random += UINT64_C(0x9E3779B97F4A7C15);
    return vw_test_mix(self->random) % sides;
}

static uint64_t random_size(worker *self)
{
    uint64_t least = UINT64_C(1) << (9 + dice(self, LARGEST_LOG2 - 8));
    return least + dice(self, least) + 1;
}

static unsigned char mark_of(const live_block *block, uint64_t offset)
{
    return (unsigned char)vw_test_mix(block->key ^ block->address ^ offset);
}

static void write_marks(const live_block *block)
{
    unsigned char *bytes = (unsigned char *)(uintptr_t)block->address;
    for (uint64_t offset = 0; offset < block->size_bytes; offset += PAGE)
        bytes[offset] = mark_of(block, offset);
    bytes[block->size_bytes - 1] = mark_of(block, block->size_bytes - 1);
}

static bool has_its_marks(const live_block *block)
{
    const unsigned char *bytes = (const unsigned char *)(uintptr_t)block->address;
    uint64_t last = block->size_bytes - 1;
    for (uint64_t offset = 0; offset < last; offset += PAGE)
        if (bytes[offset] != mark_of(block, offset))
            return false;
    return bytes[last] == mark_of(block, last);
}

/* ---- what a thread does ---------------------------------------------------------------------- */

static void allocate(worker *self)
{
    if (self->live_count == MOST_LIVE || self->live_bytes > MOST_LIVE_BYTES)
        return;
    live_block block = {.size_bytes = random_size(self), .key = dice(self, UINT64_MAX)};
    vw_status status =
        vw_alloc(self->all->t.pool, block.size_bytes, dice(self, STREAMS), &block.address);
    EXPECT(self, status == VW_OK || status == VW_ERR_OUT_OF_MEMORY);
    self->refused_count += status == VW_ERR_OUT_OF_MEMORY;
    if (status != VW_OK)
        return;
    self->served_count++;
    write_marks(&block);
    self->live[self->live_count++] = block;
    self->live_bytes += block.size_bytes;
}

static void let_go(worker *self, size_t which)
{
    vw_pool *pool = self->all->t.pool;
    live_block block = self->live[which];
    self->live[which] = self->live[--self->live_count];
    self->live_bytes -= block.size_bytes;
    EXPECT(self, has_its_marks(&block));
    EXPECT(self, vw_free(pool, block.address) == VW_OK);
    if (block.is_pinned)
        EXPECT(self, vw_pool_unpin(pool, block.address) == VW_OK);
}

/* Another may have pinned a block at the same address, freed it and not unpinned it yet: pins
 * nest. */
static void pin(worker *self, live_block *block)
{
    if (!block->is_pinned)
        EXPECT(self, vw_pool_pin(self->all->t.pool, block->address) == VW_OK);
    block->is_pinned = true;
}

static void look_around(worker *self)
{
    vw_pool *pool = self->all->t.pool;
    const live_block *block = &self->live[dice(self, self->live_count)];
    vw_block_place place;
    vw_paged_stats stats = {.struct_size = sizeof stats};
    EXPECT(self,
           vw_pool_find(pool, block->address + dice(self, block->size_bytes), &place) == VW_OK);
    EXPECT(self, place.block_address == block->address);
    EXPECT(self, vw_pool_get_paged_stats(pool, &stats) == VW_OK);
    EXPECT(self, !stats.is_failed);
}

static bool is_this_thread(void *context, vw_stream stream)
{
    (void)stream;
    return pthread_equal(*(const pthread_t *)context, pthread_self());
}

static void use_private_pool(worker *self)
{
    vw_pool *pool = self->all->t.pool;
    const vw_private_id id = {self->number + 1, ++self->scope_count};
    EXPECT(self, vw_private_pool_begin(pool, id, is_this_thread, &self->thread) == VW_OK);
    for (int i = 0; i < 4; i++)
        allocate(self);
    EXPECT(self, vw_private_pool_end(pool, id) == VW_OK);
    EXPECT(self, vw_private_pool_release(pool, id) == VW_OK);
}

static void do_something(worker *self)
{
    vw_test_pool *t = &self->all->t;
    uint64_t what = dice(self, 1000);
    live_block *one = self->live_count > 0 ? &self->live[dice(self, self->live_count)] : NULL;
    if (what < 480)
        allocate(self);
    else if (what < 900 && one != NULL)
        let_go(self, (size_t)(one - self->live));
    else if (what < 930 && one != NULL)
        EXPECT(self, vw_record_stream(t->pool, one->address, dice(self, STREAMS)) == VW_OK);
    else if (what < 945 && one != NULL)
        pin(self, one);
    else if (what < 985)
        EXPECT(self, vw_device_complete(t->device, dice(self, STREAMS)) == VW_OK);
    else if (what < 994 && one != NULL)
        look_around(self);
    else if (what < 998)
        use_private_pool(self);
    else
        EXPECT(self, vw_pool_trim(t->pool) == VW_OK);
}

static void *work(void *context)
{
    worker *self = context;
    self->thread = pthread_self();
    for (uint64_t round = 1; round <= self->all->rounds; round++) {
        if (atomic_load(&self->all->is_over))
            break;
        do_something(self);
        if (self->number == 0 && round % CHECK_EVERY == 0)
            EXPECT(self, vw_pool_check(self->all->t.pool) == VW_OK);
    }
    while (self->live_count > 0)
        let_go(self, self->live_count - 1);
    return NULL;
}

/* ---- the runs -------------------------------------------------------------------------------- */

static void finish(shared *all, const worker *workers)
{
    uint64_t served = 0, refused = 0;
    vw_paged_stats paged = {.struct_size = sizeof paged};
    if (all->fault[0] != '\0')
        fail_msg("%s", all->fault);
    for (unsigned i = 0; i < THREADS; i++) {
        served += workers[i].served_count;
        refused += workers[i].refused_count;
    }
    vw_test_ok(&all->t, vw_pool_get_paged_stats(all->t.pool, &paged));
    print_message("%" PRIu64 " served, %" PRIu64 " refused, %" PRIu64 " handles moved, %" PRIu64
                  " across streams\n",
                  served, refused, paged.moved_handles, paged.crossed_handles);
    assert_true(served > 4 * refused);
    assert_true(paged.moved_handles > served / 20); /* or the limit is no limit */
    vw_test_trim(&all->t);
    vw_pool_stats stats = vw_test_stats(&all->t);
    assert_int_equal(stats.active.all.current, 0);
    assert_int_equal(stats.reserved_bytes.all.current, 0);
    assert_int_equal(stats.allocation.all.allocated, stats.allocation.all.freed);
}

static bool never(void *context)
{
    (void)context;
    return false; /* other threads touch their blocks all the time */
}

static void leave(void *context)
{
    (void)context;
}

static void run_threads(const char *engine, const char *keep_free)
{
    static shared all;
    static worker workers[THREADS];
    pthread_t threads[THREADS];
    uint64_t seed = vw_test_seed();
    memset(&all, 0, sizeof all);
    memset(workers, 0, sizeof workers);
    all.rounds = vw_test_rounds(ROUNDS);
    assert_int_equal(pthread_mutex_init(&all.fault_lock, NULL), 0);
    vw_test_pool_open(&all.t, &(vw_test_pool_setup){.engine = engine,
                                                    .torch_version = "2.13",
                                                    .capacity_bytes = LIMIT_BYTES,
                                                    .idle_share = 0.001,
                                                    .idle_floor_bytes = 4 * VW_TEST_MIB,
                                                    .safe_point = {never, leave, NULL},
                                                    .keep_free = keep_free,
                                                    .on_host = true,
                                                    .manual_streams = true});
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
    vw_test_pool_close(&all.t);
    pthread_mutex_destroy(&all.fault_lock);
}

static void threads_keep_their_bytes_while_memory_moves(void **state)
{
    (void)state;
    run_threads("vramwise", NULL);
}

/* The device never has as much free, so that the pool's own thread gives back all it can. */
static void threads_keep_their_bytes_while_memory_is_given_back(void **state)
{
    (void)state;
    run_threads("vramwise", "100%");
}

static void threads_keep_their_bytes_where_no_safe_point_is_granted(void **state)
{
    (void)state;
    run_threads("vramwise:tight", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_keep_their_bytes_while_memory_moves),
        cmocka_unit_test(threads_keep_their_bytes_while_memory_is_given_back),
        cmocka_unit_test(threads_keep_their_bytes_where_no_safe_point_is_granted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
