/* test_pinned_threads.c - many threads on one pinned pool.
 *
 * Each worker keeps a few blocks, fills every one with a byte of its own and looks whether it is
 * still there before it frees it: a block handed out twice shows. Meanwhile streams are held and
 * completed, the cache is trimmed, and everything is checked. */
#include "vramwise/pinned.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/stress_run.h"

enum { WORKERS = 6, STEPS = 3000, KEPT = 8, STREAMS = 4, MOST_BYTES = 20000 };

typedef struct worker {
    vw_pinned_pool *pool;
    pthread_t thread;
    unsigned number;
    unsigned fault_count; /* statuses that should not be, bytes that were not ours */
} worker;

static vw_device *device;
static atomic_int workers_left;

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static bool holds_only(const char *block, size_t size_bytes, char value)
{
    for (size_t i = 0; i < size_bytes; i++)
        if (block[i] != value)
            return false;
    return true;
}

static unsigned replace_block(worker *self, uint32_t *seed, char **block, size_t *size_bytes)
{
    unsigned faults = 0;
    char mine = (char)(self->number + 1);
    if (*block != NULL) {
        faults += !holds_only(*block, *size_bytes, mine);
        faults += vw_pinned_free(self->pool, *block) != VW_OK;
    }
    void *fresh = NULL;
    *size_bytes = 1 + next_random(seed) % MOST_BYTES;
    faults += vw_pinned_alloc_on(self->pool, *size_bytes, self->number, &fresh) != VW_OK;
    *block = fresh;
    memset(*block, mine, *size_bytes);
    while (next_random(seed) % 2 == 0)
        faults += vw_pinned_record_stream(self->pool, *block + *size_bytes / 2,
                                          next_random(seed) % STREAMS) != VW_OK;
    return faults;
}

static void *work(void *context)
{
    worker *self = context;
    uint32_t seed = self->number;
    int steps = (int)vw_test_rounds(STEPS);
    char *blocks[KEPT] = {NULL};
    size_t sizes[KEPT];
    for (int step = 0; step < steps && self->fault_count == 0; step++) {
        uint32_t i = next_random(&seed) % KEPT;
        self->fault_count += replace_block(self, &seed, &blocks[i], &sizes[i]);
        if (step % 97 == 0)
            self->fault_count += vw_pinned_pool_check(self->pool) != VW_OK;
        if (step % 61 == 0)
            self->fault_count += vw_pinned_trim(self->pool) != VW_OK;
    }
    for (size_t i = 0; i < KEPT; i++)
        self->fault_count += vw_pinned_free(self->pool, blocks[i]) != VW_OK;
    atomic_fetch_sub(&workers_left, 1);
    return NULL;
}

static bool is_odd(void *context, vw_stream stream)
{
    (void)context;
    return stream % 2 == 1;
}

/* Streams that come and go, and a private pool that opens and closes. */
static void disturb(vw_pinned_pool *pool)
{
    const struct timespec pause = {.tv_nsec = 50000};
    for (uint64_t round = 0; atomic_load(&workers_left) > 0; round++) {
        const vw_private_id id = {1 + round % 3, round / 3};
        assert_int_equal(vw_device_hold_streams(device, round % 4 != 3), VW_OK);
        assert_int_equal(vw_pinned_pool_begin(pool, id, is_odd, NULL), VW_OK);
        nanosleep(&pause, NULL);
        assert_int_equal(vw_device_complete(device, round % STREAMS), VW_OK);
        assert_int_equal(vw_pinned_pool_end(pool, id), VW_OK);
        assert_int_equal(vw_pinned_pool_release(pool, id), VW_OK);
    }
    assert_int_equal(vw_device_hold_streams(device, false), VW_OK);
}

static void run(const char *conf)
{
    const vw_pinned_options options = {
        .struct_size = sizeof options, .conf = conf, .torch_version = "2.13"};
    uint64_t before = vw__host_memory_get_use().in_use_bytes;
    vw_pinned_pool *pool = NULL;
    worker workers[WORKERS];
    assert_int_equal(vw_simulated_device_create(NULL, &device), VW_OK);
    assert_int_equal(vw_pinned_pool_create(device, &options, &pool), VW_OK);
    atomic_store(&workers_left, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.pool = pool, .number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    disturb(pool);
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].fault_count, 0);
    }
    vw_pinned_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pinned_trim(pool), VW_OK);
    assert_int_equal(vw_pinned_pool_check(pool), VW_OK);
    assert_int_equal(vw_pinned_pool_get_stats(pool, &stats), VW_OK);
    assert_int_equal(stats.allocations.current, 0);
    assert_int_equal(stats.active_bytes.current, 0);
    vw_pinned_pool_destroy(pool);
    vw_device_destroy(device);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, before);
}

static void threads_share_a_pool(void **state)
{
    (void)state;
    run("");
}

static void threads_share_a_pool_that_caches_nothing(void **state)
{
    (void)state;
    run("pinned_max_cached_size_mb:0");
}

static void threads_share_a_pool_with_a_background_thread(void **state)
{
    (void)state;
    run("pinned_use_background_threads:True");
}

static void threads_share_a_reserve_of_registered_memory(void **state)
{
    (void)state;
    run("pinned_reserve_segment_size_mb:2,pinned_use_cuda_host_register:True,"
        "pinned_num_register_threads:2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_a_pool),
        cmocka_unit_test(threads_share_a_pool_that_caches_nothing),
        cmocka_unit_test(threads_share_a_pool_with_a_background_thread),
        cmocka_unit_test(threads_share_a_reserve_of_registered_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
