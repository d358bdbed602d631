/* test_pool_threads.c - eight threads share a pool, and nobody's bytes change under them.
 *
 * On the host device addresses can be written through. Every thread marks its blocks at the start,
 * at the end and at places in between, and looks at the marks before it frees: if two blocks
 * overlapped, or a page were unmapped under a live block, a mark would be wrong or the access a
 * fault. Streams complete only when some thread says so, so frees wait, and are waited for, all the
 * time. While a thread is put aside inside a private scope nothing can be waited for nor given
 * back, as in PyTorch, and the device may run out: no fault, as long as most requests are served.
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

enum { THREADS = 8, STREAMS = 4, MOST_LIVE = 256, MARKS = 6, ROUNDS = 40000, CHECK_EVERY = 300 };

#define MOST_LIVE_BYTES (24 * VW_TEST_MIB) /* of one thread */
#define LARGEST_LOG2 23                    /* sizes up to 8 MiB */
#define CAPACITY_BYTES (4 * VW_TEST_GIB)   /* addresses, mostly: few pages are touched */

typedef struct live_block {
    vw_device_ptr address;
    uint64_t size_bytes;
    uint64_t key; /* what the marks are made of */
} live_block;

typedef struct shared {
    vw_test_pool t;
    uint64_t rounds;
    _Atomic int is_over; /* some thread found a fault: all stop */
    char fault[400];     /* of the first; written once, before is_over */
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
    uint64_t served_count;
    uint64_t refused_count; /* out of memory */
    pthread_t thread;       /* its own: pthread_create() may tell the parent later */
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

/* As many requests between 1 and 2 bytes as between 4 and 8 MiB. */
static uint64_t random_size(worker *self)
{
    uint64_t least = UINT64_C(1) << dice(self, LARGEST_LOG2);
    return least + dice(self, least) + 1;
}

static uint64_t mark_offset(const live_block *block, unsigned mark)
{
    if (mark == 0)
        return 0;
    if (mark == 1)
        return block->size_bytes - 1;
    return vw_test_mix(block->key + mark) % block->size_bytes;
}

static void write_marks(const live_block *block)
{
    for (unsigned mark = 0; mark < MARKS; mark++) {
        uint64_t offset = mark_offset(block, mark);
        *(unsigned char *)(uintptr_t)(block->address + offset) =
            (unsigned char)vw_test_mix(block->key ^ offset);
    }
}

static bool has_its_marks(const live_block *block)
{
    for (unsigned mark = 0; mark < MARKS; mark++) {
        uint64_t offset = mark_offset(block, mark);
        if (*(const unsigned char *)(uintptr_t)(block->address + offset) !=
            (unsigned char)vw_test_mix(block->key ^ offset))
            return false;
    }
    return true;
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
    live_block block = self->live[which];
    self->live[which] = self->live[--self->live_count];
    self->live_bytes -= block.size_bytes;
    EXPECT(self, has_its_marks(&block));
    EXPECT(self, vw_free(self->all->t.pool, block.address) == VW_OK);
}

static void look_around(worker *self)
{
    vw_pool *pool = self->all->t.pool;
    const live_block *block = &self->live[dice(self, self->live_count)];
    vw_block_place place;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    EXPECT(self,
           vw_pool_find(pool, block->address + dice(self, block->size_bytes), &place) == VW_OK);
    EXPECT(self, place.block_address == block->address);
    EXPECT(self, place.requested_bytes == block->size_bytes);
    EXPECT(self, vw_pool_get_stats(pool, &stats) == VW_OK);
    EXPECT(self, stats.active_bytes.all.current <= stats.reserved_bytes.all.current);
    EXPECT(self, stats.allocated_bytes.all.current <= stats.active_bytes.all.current);
}

static bool is_this_thread(void *context, vw_stream stream)
{
    (void)stream;
    return pthread_equal(*(const pthread_t *)context, pthread_self());
}

/* Blocks from a private pool mix with the others; the pool ends when the last has been freed. */
static void use_private_pool(worker *self)
{
    vw_pool *pool = self->all->t.pool;
    const vw_private_id id = {self->number + 1, ++self->scope_count};
    EXPECT(self, vw_private_pool_begin(pool, id, is_this_thread, &self->thread) == VW_OK);
    for (int i = 0; i < 8; i++) {
        allocate(self);
        if (self->live_count > 0 && dice(self, 3) == 0)
            let_go(self, dice(self, self->live_count));
    }
    EXPECT(self, vw_private_pool_end(pool, id) == VW_OK);
    EXPECT(self, vw_private_pool_release(pool, id) == VW_OK);
}

static void do_something(worker *self)
{
    vw_test_pool *t = &self->all->t;
    uint64_t what = dice(self, 1000);
    if (what < 470) {
        allocate(self);
    } else if (what < 900) {
        if (self->live_count > 0)
            let_go(self, dice(self, self->live_count));
    } else if (what < 960) {
        if (self->live_count > 0)
            EXPECT(self, vw_record_stream(t->pool, self->live[dice(self, self->live_count)].address,
                                          dice(self, STREAMS)) == VW_OK);
    } else if (what < 985) {
        EXPECT(self, vw_device_complete(t->device, dice(self, STREAMS)) == VW_OK);
    } else if (what < 994) {
        if (self->live_count > 0)
            look_around(self);
    } else if (what < 997) {
        use_private_pool(self);
    } else {
        EXPECT(self, vw_pool_trim(t->pool) == VW_OK);
    }
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

static void run_threads(const char *conf)
{
    static shared all;
    static worker workers[THREADS];
    pthread_t threads[THREADS];
    uint64_t seed = vw_test_seed();
    memset(&all, 0, sizeof all);
    memset(workers, 0, sizeof workers);
    all.rounds = vw_test_rounds(ROUNDS);
    assert_int_equal(pthread_mutex_init(&all.fault_lock, NULL), 0);
    vw_test_pool_open(&all.t, &(vw_test_pool_setup){.capacity_bytes = CAPACITY_BYTES,
                                                    .conf = conf,
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
    if (all.fault[0] != '\0')
        fail_msg("%s", all.fault);
    uint64_t served = 0, refused = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        served += workers[i].served_count;
        refused += workers[i].refused_count;
    }
    assert_true(served > 10 * refused);
    vw_test_ok(&all.t, VW_OK);
    vw_test_trim(&all.t);
    vw_pool_stats stats = vw_test_stats(&all.t);
    assert_int_equal(stats.active.all.current, 0);
    assert_int_equal(stats.requested_bytes.all.current, 0);
    assert_int_equal(stats.reserved_bytes.all.current, 0);
    assert_int_equal(stats.allocation.all.allocated, stats.allocation.all.freed);
    vw_test_pool_close(&all.t);
    pthread_mutex_destroy(&all.fault_lock);
}

static void eight_threads_keep_their_bytes_native(void **state)
{
    (void)state;
    run_threads("");
}

static void eight_threads_keep_their_bytes_expandable(void **state)
{
    (void)state;
    run_threads("expandable_segments:True");
}

/* New segments are taken without the lock: requests overtake each other in the middle. */
static void eight_threads_keep_their_bytes_with_the_lock_dropped(void **state)
{
    (void)state;
    run_threads("release_lock_on_cudamalloc:True");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_threads_keep_their_bytes_native),
        cmocka_unit_test(eight_threads_keep_their_bytes_expandable),
        cmocka_unit_test(eight_threads_keep_their_bytes_with_the_lock_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
