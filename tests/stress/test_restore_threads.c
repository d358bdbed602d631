/* test_restore_threads.c - a private pool is put back again and again while other threads use the
 * rest of the pool, share blocks of it and look at it. */
#include "vramwise/vramwise.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"

enum { ROUNDS = 120, OTHERS = 2 };
#define MIB VW_TEST_MIB

static const vw_private_id graphs = {5, 1};
static _Thread_local bool is_capturing_thread;

static bool is_mine(void *context, vw_stream stream)
{
    (void)context, (void)stream;
    return is_capturing_thread;
}

typedef struct shop {
    vw_pool *pool;
    _Atomic bool is_over;
    _Atomic int wrong; /* the first line where something was */
} shop;

#define EXPECT(claim)                                                                              \
    do {                                                                                           \
        int none_ = 0;                                                                             \
        if (!(claim))                                                                              \
            atomic_compare_exchange_strong(&s->wrong, &none_, __LINE__);                           \
    } while (0)

static void *restore_again_and_again(void *context)
{
    shop *s = context;
    vw_private_state *then = NULL;
    vw_device_ptr kept = VW_NULL, other = VW_NULL;
    is_capturing_thread = true;
    EXPECT(vw_private_pool_begin(s->pool, graphs, is_mine, NULL) == VW_OK);
    EXPECT(vw_alloc(s->pool, 3 * MIB, 0, &kept) == VW_OK);
    EXPECT(vw_private_pool_checkpoint(s->pool, graphs, &then) == VW_OK);
    for (int round = 0; round < ROUNDS && then != NULL; round++) {
        EXPECT(vw_alloc(s->pool, (uint64_t)(round % 9 + 1) * 300000, 0, &other) == VW_OK);
        if (round % 2 == 0)
            EXPECT(vw_free(s->pool, kept) == VW_OK);
        EXPECT(vw_private_pool_restore(s->pool, then, NULL) == VW_OK);
        if (round % 16 == 0)
            EXPECT(vw_pool_check(s->pool) == VW_OK);
    }
    EXPECT(vw_private_pool_end(s->pool, graphs) == VW_OK);
    vw_private_state_free(then);
    atomic_store(&s->is_over, true);
    return NULL;
}

static void *use_the_rest(void *context)
{
    shop *s = context;
    for (uint64_t round = 0; !atomic_load(&s->is_over); round++) {
        vw_device_ptr block = VW_NULL;
        vw_shared_part parts[16];
        size_t count = 0;
        uint64_t offset_bytes = 0;
        EXPECT(vw_alloc(s->pool, round % 7 * MIB + 5000, round % 3, &block) == VW_OK);
        if (round % 4 == 0 &&
            vw_pool_share(s->pool, block, parts, 16, &count, &offset_bytes) == VW_OK) {
            for (size_t i = 0; i < count; i++)
                close(parts[i].file_descriptor);
            EXPECT(vw_pool_unpin(s->pool, block) == VW_OK);
        }
        EXPECT(vw_free(s->pool, block) == VW_OK);
    }
    return NULL;
}

static void *free_with_uses(void *context)
{
    shop *s = context;
    is_capturing_thread = true;
    while (!atomic_load(&s->is_over)) {
        vw_device_ptr block = VW_NULL;
        EXPECT(vw_alloc(s->pool, 100000, 0, &block) == VW_OK);
        EXPECT(vw_record_stream(s->pool, block, 7) == VW_OK);
        EXPECT(vw_free(s->pool, block) == VW_OK); /* drops the lock while it records an event */
    }
    return NULL;
}

static void a_checkpoint_waits_for_a_free_that_is_under_way(void **state)
{
    const vw_pool_options options = {.struct_size = sizeof options, .engine = "vramwise"};
    vw_device *device = NULL;
    shop shared = {.wrong = 0}, *s = &shared;
    pthread_t thread;
    (void)state;
    assert_int_equal(vw_host_device_create(512 * MIB, &device), VW_OK);
    assert_int_equal(vw_pool_create(device, &options, &s->pool), VW_OK);
    assert_int_equal(vw_private_pool_begin(s->pool, graphs, is_mine, NULL), VW_OK);
    assert_int_equal(pthread_create(&thread, NULL, free_with_uses, s), 0);
    for (int round = 0; round < 400 * ROUNDS; round++) {
        vw_private_state *now = NULL;
        EXPECT(vw_private_pool_checkpoint(s->pool, graphs, &now) == VW_OK);
        vw_private_state_free(now);
    }
    atomic_store(&s->is_over, true);
    pthread_join(thread, NULL);
    if (s->wrong != 0)
        fail_msg("line %d", (int)s->wrong);
    assert_int_equal(vw_private_pool_end(s->pool, graphs), VW_OK);
    assert_int_equal(vw_pool_check(s->pool), VW_OK);
    vw_pool_destroy(s->pool);
    vw_device_destroy(device);
}

/* ---- a thread that does not run while it records --------------------------------------------- */

static vw_status (*real_event_record)(void *context, vw_device_event event, vw_stream stream);
static _Atomic bool is_inside, may_go_on;

static vw_status record_when_told(void *context, vw_device_event event, vw_stream stream)
{
    atomic_store(&is_inside, true);
    while (!atomic_load(&may_go_on))
        usleep(100);
    return real_event_record(context, event, stream);
}

static void *free_one_block(void *context)
{
    shop *s = context;
    vw_device_ptr block = VW_NULL;
    is_capturing_thread = true;
    EXPECT(vw_alloc(s->pool, 100000, 0, &block) == VW_OK);
    EXPECT(vw_record_stream(s->pool, block, 7) == VW_OK);
    EXPECT(vw_free(s->pool, block) == VW_OK);
    return NULL;
}

/* Lets it go on when the checkpoint has looked so often: more than ten milliseconds. */
static void *let_go_on(void *context)
{
    enum { LOOKS = 150 };
    shop *s = context;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    do {
        usleep(100);
        EXPECT(vw_pool_get_stats(s->pool, &stats) == VW_OK);
    } while (stats.num_sync_all_streams < LOOKS);
    atomic_store(&may_go_on, true);
    return NULL;
}

static void a_checkpoint_waits_for_a_thread_that_the_machine_has_put_aside(void **state)
{
    const vw_pool_options options = {.struct_size = sizeof options, .engine = "vramwise"};
    vw_device *device = NULL;
    vw_device_table slow_table;
    shop shared = {.wrong = 0}, *s = &shared;
    pthread_t freeing, watching;
    vw_private_state *now = NULL;
    (void)state;
    atomic_store(&is_inside, false);
    atomic_store(&may_go_on, false);
    assert_int_equal(vw_host_device_create(64 * MIB, &device), VW_OK);
    slow_table = *device->table;
    real_event_record = slow_table.event_record;
    slow_table.event_record = record_when_told;
    vw_device slow = *device;
    slow.table = &slow_table;
    assert_int_equal(vw_pool_create(&slow, &options, &s->pool), VW_OK);
    assert_int_equal(vw_private_pool_begin(s->pool, graphs, is_mine, NULL), VW_OK);
    assert_int_equal(pthread_create(&freeing, NULL, free_one_block, s), 0);
    while (!atomic_load(&is_inside) && atomic_load(&s->wrong) == 0)
        usleep(100);
    assert_int_equal(s->wrong, 0);
    assert_int_equal(pthread_create(&watching, NULL, let_go_on, s), 0);
    assert_int_equal(vw_private_pool_checkpoint(s->pool, graphs, &now), VW_OK);
    pthread_join(watching, NULL);
    pthread_join(freeing, NULL);
    assert_int_equal(s->wrong, 0);
    vw_private_state_free(now);
    assert_int_equal(vw_private_pool_end(s->pool, graphs), VW_OK);
    assert_int_equal(vw_pool_check(s->pool), VW_OK);
    vw_pool_destroy(s->pool);
    vw_device_destroy(device);
}

static void a_free_that_a_capture_defers_is_not_waited_for(void **state)
{
    const vw_pool_options options = {.struct_size = sizeof options, .engine = "vramwise"};
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    vw_private_state *now = NULL;
    vw_device_ptr block = VW_NULL;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    (void)state;
    assert_int_equal(vw_host_device_create(64 * MIB, &device), VW_OK);
    assert_int_equal(vw_pool_create(device, &options, &pool), VW_OK);
    assert_int_equal(vw_private_pool_begin(pool, graphs, NULL, NULL), VW_OK);
    assert_int_equal(vw_alloc(pool, 100000, 3, &block), VW_OK);
    assert_int_equal(vw_record_stream(pool, block, 7), VW_OK);
    assert_int_equal(vw_device_set_capturing(device, 3, true), VW_OK);
    assert_int_equal(vw_free(pool, block), VW_OK);
    assert_int_equal(vw_private_pool_checkpoint(pool, graphs, &now), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "wait for a stream that is being captured"));
    assert_int_equal(vw_pool_get_stats(pool, &stats), VW_OK);
    assert_int_equal(stats.num_sync_all_streams, 1); /* looked once */
    assert_int_equal(vw_device_set_capturing(device, 3, false), VW_OK);
    assert_int_equal(vw_private_pool_checkpoint(pool, graphs, &now), VW_OK);
    vw_private_state_free(now);
    assert_int_equal(vw_private_pool_end(pool, graphs), VW_OK);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
}

static void restores_and_everything_else_do_not_disturb_each_other(void **state)
{
    static const struct {
        const char *engine, *conf;
    } engines[] = {{"torch", "expandable_segments:True"}, {"torch", ""}, {"vramwise", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        const vw_pool_options options = {.struct_size = sizeof options,
                                         .engine = engines[i].engine,
                                         .conf = engines[i].conf,
                                         .is_shareable = true};
        vw_device *device = NULL;
        shop s = {.wrong = 0};
        pthread_t threads[1 + OTHERS];
        assert_int_equal(vw_host_device_create(512 * MIB, &device), VW_OK);
        assert_int_equal(vw_pool_create(device, &options, &s.pool), VW_OK);
        assert_int_equal(pthread_create(&threads[0], NULL, restore_again_and_again, &s), 0);
        for (int k = 1; k <= OTHERS; k++)
            assert_int_equal(pthread_create(&threads[k], NULL, use_the_rest, &s), 0);
        for (int k = 0; k <= OTHERS; k++)
            pthread_join(threads[k], NULL);
        if (s.wrong != 0)
            fail_msg("line %d, engine %s %s", (int)s.wrong, engines[i].engine, engines[i].conf);
        assert_int_equal(vw_pool_check(s.pool), VW_OK);
        vw_pool_destroy(s.pool);
        vw_device_destroy(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_waits_for_a_free_that_is_under_way),
        cmocka_unit_test(a_checkpoint_waits_for_a_thread_that_the_machine_has_put_aside),
        cmocka_unit_test(a_free_that_a_capture_defers_is_not_waited_for),
        cmocka_unit_test(restores_and_everything_else_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
