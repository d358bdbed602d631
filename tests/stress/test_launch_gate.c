/* test_launch_gate.c - threads launch work on blocks of a pool that copies them from under it.
 *
 * On the host device, where a launch is the thread's own reading and writing, inside a driver call
 * that passes the gate. While the gate is closed the pages of live blocks are unmapped, copied and
 * mapped again: a launch that got through would read nothing, or what was there before. Two more
 * threads ask for large blocks, of a device that has room for them only after copying: what the
 * launchers hold lies scattered in handles that were made for one large block. Once it was copied
 * there is room, so that each round begins with a new pool.
 *
 * The same with a gate that comes late: each round begins without one, and it is put up in the
 * middle of launches, which have the fake driver's code on their stack.
 *
 * stress_run.h says how to make it longer. */
#include "vramwise_torch_support.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch_gate.h"

#include "support/cmocka_here.h"
#include "support/fake_cuda/fake_calls.h"
#include "support/gated_calls.h"
#include "support/pool_fixture.h"
#include "support/stress_run.h"

enum { LAUNCHERS = 3, ASKERS = 2, BLOCKS = 24, ROUNDS = 12, REQUESTS = 3, WORDS_A_PAGE = 512 };

#define MIB VW_TEST_MIB
#define BLOCK_BYTES (3 * MIB / 4)
#define DEVICE_BYTES (LAUNCHERS * BLOCKS * BLOCK_BYTES)
#define LARGE_BYTES (DEVICE_BYTES / 2 - 8 * MIB)

static vw_pool *pool;
static _Atomic int is_over;
static _Atomic uint64_t wrong_words;
static _Atomic uint64_t launches;
static _Atomic uint64_t served, refused;
static fake_cuda_within_function within_driver;

/* ---- launchers ------------------------------------------------------------------------------- */

typedef struct held_block {
    vw_device_ptr address;
    uint64_t stamp; /* in the first word of each of its pages */
} held_block;

static uint64_t word_at(uint64_t stamp, uint64_t page)
{
    return (stamp + page) * UINT64_C(0x9E3779B97F4A7C15);
}

/* What a kernel would do: looks at what it left there, and leaves something else. */
static void work_on(void *context)
{
    held_block *block = context;
    _Atomic uint64_t *words = (_Atomic uint64_t *)(uintptr_t)block->address;
    uint64_t pages = BLOCK_BYTES / 8 / WORDS_A_PAGE;
    for (uint64_t page = 0; page < pages; page++) {
        uint64_t found = atomic_load_explicit(&words[page * WORDS_A_PAGE], memory_order_relaxed);
        if (block->stamp != 0 && found != word_at(block->stamp, page))
            atomic_fetch_add(&wrong_words, 1);
    }
    for (uint64_t page = 0; page < pages; page++)
        atomic_store_explicit(&words[page * WORDS_A_PAGE], word_at(block->stamp + 1, page),
                              memory_order_relaxed);
    block->stamp++;
    atomic_fetch_add(&launches, 1);
}

static void launch_on(void *block)
{
    vw_test_launch(work_on, block);
}

/* Every other block goes at once, so that the rest lies scattered. */
static void *launch_all_the_time(void *unused)
{
    const vw_stream stream = 1;
    (void)unused;
    held_block held[BLOCKS];
    memset(held, 0, sizeof held);
    size_t count = 0;
    for (int i = 0; i < BLOCKS; i++) {
        vw_device_ptr address = VW_NULL;
        if (vw_alloc(pool, BLOCK_BYTES, stream, &address) == VW_OK)
            held[count++].address = address;
    }
    if (count == 0) {
        atomic_fetch_add(&launches, 10 * BLOCKS); /* the others hold everything; nobody may wait */
        return NULL;
    }
    for (size_t i = 0; i < count; i += 2) {
        (void)vw_free(pool, held[i].address);
        held[i].address = VW_NULL;
    }
    for (size_t i = 0; atomic_load(&is_over) == 0; i = (i + 1) % BLOCKS)
        if (held[i].address != VW_NULL)
            within_driver(launch_on, &held[i]);
    for (size_t i = 0; i < count; i++) {
        if (held[i].address != VW_NULL)
            work_on(&held[i]);
        (void)vw_free(pool, held[i].address);
    }
    return NULL;
}

/* ---- askers ---------------------------------------------------------------------------------- */

static void *ask_for_large_blocks(void *unused)
{
    (void)unused;
    for (uint64_t i = 0; i < REQUESTS; i++) {
        vw_device_ptr address = VW_NULL;
        if (vw_alloc(pool, LARGE_BYTES, 20 + i % 3, &address) == VW_OK) {
            atomic_fetch_add(&served, 1);
            (void)vw_free(pool, address);
        } else {
            atomic_fetch_add(&refused, 1);
        }
        usleep(500);
    }
    return NULL;
}

static vw_paged_stats run_round(vw_device *device)
{
    const vw_pool_options options = {
        .struct_size = sizeof options, .engine = "vramwise", .safe_point = vramwise_safe_moments()};
    pthread_t launchers[LAUNCHERS], askers[ASKERS];
    vw_device_ptr all = VW_NULL;
    assert_int_equal(vw_pool_create(device, &options, &pool), VW_OK);
    assert_int_equal(vw_alloc(pool, DEVICE_BYTES, 1, &all), VW_OK);
    assert_int_equal(vw_free(pool, all), VW_OK);
    uint64_t launches_before = atomic_load(&launches);
    atomic_store(&is_over, 0);
    for (int i = 0; i < LAUNCHERS; i++)
        assert_int_equal(pthread_create(&launchers[i], NULL, launch_all_the_time, NULL), 0);
    while (atomic_load(&launches) < launches_before + 10 * BLOCKS)
        usleep(100);
    for (int i = 0; i < ASKERS; i++)
        assert_int_equal(pthread_create(&askers[i], NULL, ask_for_large_blocks, NULL), 0);
    for (int i = 0; i < ASKERS; i++)
        pthread_join(askers[i], NULL);
    atomic_store(&is_over, 1);
    for (int i = 0; i < LAUNCHERS; i++)
        pthread_join(launchers[i], NULL);
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(pool, &stats), VW_OK);
    assert_int_equal(vw_pool_check(pool), VW_OK);
    vw_pool_destroy(pool);
    return stats;
}

static void put_up_gate(bool is_late)
{
    const uint64_t long_ns = UINT64_C(100000000000); /* a busy machine takes its time */
    char message[300] = "";
    assert_true(vramwise_launch_gate_remove());
    vw__launch_gate_set_bounds(long_ns, long_ns);
    if (is_late)
        vramwise_launch_gate_come_late(false);
    else if (!vramwise_launch_gate_install(message, sizeof message))
        fail_msg("%s", message);
}

static void run_rounds(bool is_late)
{
    uint64_t rounds = vw_test_rounds(ROUNDS);
    uint64_t copies = 0, copied_bytes = 0;
    vramwise_safe_moment_counts before = vramwise_get_safe_moment_counts();
    vw_device *device = NULL;
    assert_int_equal(vw_host_device_create(DEVICE_BYTES, &device), VW_OK);
    for (uint64_t round = 0; round < rounds; round++) {
        if (is_late || round == 0)
            put_up_gate(is_late);
        vw_paged_stats stats = run_round(device);
        copies += stats.copies;
        copied_bytes += stats.copied_bytes;
    }
    vramwise_safe_moment_counts counts = vramwise_get_safe_moment_counts();
    printf("%" PRIu64 " launches, %" PRIu64 " held; %" PRIu64 " requests served, %" PRIu64
           " not; %" PRIu64 " copies of %" PRIu64 " bytes in %" PRIu64 " moments, %" PRIu64
           " refused; held for %" PRIu64 " us at most\n",
           atomic_load(&launches), counts.held_launches, atomic_load(&served),
           atomic_load(&refused), copies, copied_bytes, counts.granted_by_gate, counts.refused,
           counts.longest_hold_ns / 1000);
    assert_int_equal(atomic_load(&wrong_words), 0);
    assert_true(copies >= rounds / 2);
    assert_true(counts.held_launches > before.held_launches);
    assert_int_equal(counts.refused, before.refused);
    vw_device_destroy(device);
}

static void no_launch_sees_its_memory_move(void **state)
{
    (void)state;
    run_rounds(false);
}

static void nor_one_that_was_under_way_when_the_gate_came(void **state)
{
    (void)state;
    run_rounds(true);
}

static int find_driver(void **state)
{
    (void)state;
    void *driver = dlopen(VW_FAKE_CUDA_DRIVER, RTLD_NOW | RTLD_LOCAL);
    void *address = driver != NULL ? dlsym(driver, FAKE_CUDA_WITHIN) : NULL;
    assert_non_null(address);
    memcpy(&within_driver, &address, sizeof within_driver);
    return 0;
}

int main(void)
{
    setenv("VRAMWISE_CUPTI", VW_FAKE_CUPTI, 1);
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_launch_sees_its_memory_move),
        cmocka_unit_test(nor_one_that_was_under_way_when_the_gate_came),
    };
    return cmocka_run_group_tests(tests, find_driver, NULL);
}
