/* test_keep_free_threads.c - room for neighbours on the device: the option, the thread that gives
 * idle memory back, and its ends. The neighbour is another pool on the same device. */
#include "pool/keep_free.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/host_memory.h"
#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/pool_fixture.h"

#define CARD (4 * VW_TEST_GIB)

enum { MOST_WAITS = 60000, LONGEST_CHILD_S = 100, ROUNDS = 400 };

typedef struct scene {
    vw_test_pool t;
    vw_pool *neighbour;
} scene;

static void scene_open(scene *s, vw_test_pool_setup setup)
{
    const vw_pool_options options = {.struct_size = sizeof options, .is_unlisted = true};
    setup.engine = setup.engine != NULL ? setup.engine : "vramwise";
    setup.capacity_bytes = CARD;
    vw_test_pool_open(&s->t, &setup);
    assert_int_equal(vw_pool_create(s->t.device, &options, &s->neighbour), VW_OK);
}

static void scene_close(scene *s)
{
    vw_pool_destroy(s->neighbour);
    vw_test_pool_close(&s->t);
}

static uint64_t reserved(const scene *s)
{
    return (uint64_t)vw_test_stats(&s->t).reserved_bytes.all.current;
}

/* 0 where the device does not say. */
static uint64_t free_bytes(const scene *s)
{
    uint64_t left_bytes = 0, total_bytes = 0;
    const vw_device *device = s->t.device;
    return device->table->memory_info(device->context, &left_bytes, &total_bytes) == VW_OK
               ? left_bytes
               : 0;
}

static void pause_a_moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Until the device has so much free, or as good as for ever. */
static void wait_for_free(const scene *s, uint64_t wanted_bytes)
{
    for (int i = 0; i < MOST_WAITS && free_bytes(s) < wanted_bytes; i++)
        pause_a_moment();
    assert_true(free_bytes(s) >= wanted_bytes);
}

static void idle_memory_goes_back_as_far_as_it_must(void **state)
{
    (void)state;
    for (int on_host = 0; on_host < 2; on_host++) {
        scene s;
        scene_open(&s, (vw_test_pool_setup){.keep_free = "1GiB", .on_host = on_host != 0});
        vw_device_ptr live = vw_test_alloc(&s.t, VW_TEST_GIB);
        vw_test_free(&s.t, vw_test_alloc(&s.t, 5 * VW_TEST_GIB / 2));
        wait_for_free(&s, VW_TEST_GIB);
        assert_in_range(reserved(&s), 5 * VW_TEST_GIB / 2, 3 * VW_TEST_GIB);
        vw_test_ok(&s.t, vw_pool_check(s.t.pool));
        vw_test_free(&s.t, live);
        scene_close(&s);
    }
}

/* What native caching refuses to a neighbour: a GiB at a time, until nothing idle is left. */
static void a_neighbour_gets_memory_again_and_again(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, (vw_test_pool_setup){.keep_free = "25%"});
    vw_test_alloc(&s.t, VW_TEST_GIB / 2);
    vw_test_free(&s.t, vw_test_alloc(&s.t, 3 * VW_TEST_GIB));
    for (int i = 0; i < 3; i++) {
        vw_device_ptr block = VW_NULL;
        wait_for_free(&s, VW_TEST_GIB);
        assert_int_equal(vw_alloc(s.neighbour, VW_TEST_GIB, 0, &block), VW_OK);
    }
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(s.t.pool, &stats), VW_OK);
    assert_true(stats.given_back_bytes > 0);
    scene_close(&s);
}

/* Live memory stays, however little is free. The thread has looked when it has given the rest. */
static void live_memory_stays(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, (vw_test_pool_setup){.keep_free = "100%"});
    vw_device_ptr live = vw_test_alloc(&s.t, 2 * VW_TEST_GIB);
    vw_test_free(&s.t, vw_test_alloc(&s.t, VW_TEST_GIB));
    wait_for_free(&s, 2 * VW_TEST_GIB);
    assert_int_equal(reserved(&s), 2 * VW_TEST_GIB);
    vw_test_free(&s.t, live);
    wait_for_free(&s, CARD);
    scene_close(&s);
}

/* More than a trim gives back at once; the thread is woken for the rest though nothing is short. */
static void the_thread_finishes_a_trim(void **state)
{
    enum { BLOCKS = 600 };
    static vw_device_ptr blocks[BLOCKS];
    (void)state;
    scene s;
    scene_open(&s, (vw_test_pool_setup){.keep_free = "1MiB"});
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = vw_test_alloc(&s.t, 2 * VW_TEST_MIB);
    for (int i = 0; i < BLOCKS; i++)
        vw_test_free(&s.t, blocks[i]);
    vw_test_trim(&s.t);
    wait_for_free(&s, CARD);
    assert_int_equal(reserved(&s), 0);
    scene_close(&s);
}

static void a_device_that_fails_now_and_then_is_asked_again(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, (vw_test_pool_setup){.keep_free = "100%"});
    for (int i = 0; i < 3; i++) {
        vw_device_ptr block = vw_test_alloc(&s.t, VW_TEST_GIB);
        assert_int_equal(vw_device_fail_call(s.t.device, 1, VW_ERR_DEVICE), VW_OK);
        (void)vw_free(s.t.pool, block);
        wait_for_free(&s, CARD);
    }
    scene_close(&s);
}

static void a_pool_ends_while_its_thread_is_at_work(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        scene s;
        scene_open(&s, (vw_test_pool_setup){.keep_free = "100%"});
        vw_test_free(&s.t, vw_test_alloc(&s.t, 3 * VW_TEST_GIB));
        scene_close(&s);
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct worker {
    vw_pool *pool;
    vw_stream stream;
} worker;

static void *churn(void *context)
{
    const worker *me = context;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        vw_device_ptr blocks[4];
        size_t count = 0;
        for (; count < 4; count++)
            if (vw_alloc(me->pool, (1 + (i * 7 + count * 13) % 60) * VW_TEST_MIB, me->stream,
                         &blocks[count]) != VW_OK)
                break;
        while (count > 0)
            if (vw_free(me->pool, blocks[--count]) != VW_OK)
                return context;
    }
    return NULL;
}

static void requests_and_the_thread_get_along(void **state)
{
    enum { WORKERS = 3 };
    pthread_t threads[WORKERS];
    worker workers[WORKERS];
    (void)state;
    scene s;
    scene_open(&s, (vw_test_pool_setup){.keep_free = "100%"});
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){s.t.pool, (vw_stream)i};
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        void *wrong = NULL;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    vw_test_ok(&s.t, vw_pool_check(s.t.pool));
    wait_for_free(&s, CARD);
    scene_close(&s);
}

/* ---- other ends ------------------------------------------------------------------------------ */

static void a_child_of_fork_has_no_thread_and_ends_well(void **state)
{
    (void)state;
    scene s;
    int status = 0;
    scene_open(&s, (vw_test_pool_setup){.keep_free = "1GiB"});
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(LONGEST_CHILD_S);
        vw_device_ptr block = VW_NULL;
        bool is_refused = vw_alloc(s.t.pool, 1, 0, &block) == VW_ERR_WRONG_PROCESS;
        vw_pool_destroy(s.t.pool);
        exit(is_refused ? 0 : 1); /* what is registered for the end is called */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    vw_test_free(&s.t, vw_test_alloc(&s.t, 7 * VW_TEST_GIB / 2));
    wait_for_free(&s, VW_TEST_GIB);
    scene_close(&s);
}

static scene late;

static void destroy_late(void)
{
    vw_pool_destroy(late.t.pool);
}

/* In a child, since it is a process that ends: with a pool that is never destroyed, and with one
 * that is destroyed after its thread has ended. */
static void a_process_ends_with_its_threads(void **state)
{
    (void)state;
    for (int is_late = 0; is_late < 2; is_late++) {
        int status = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(LONGEST_CHILD_S);
            if (is_late)
                (void)atexit(destroy_late); /* called last, since it is registered first */
            scene_open(&late, (vw_test_pool_setup){.keep_free = "100%"});
            exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* A driver that answers nobody but the first thread. */
static vw_device_table stuck_table;
static vw_status (*answer)(void *context, uint64_t *free_bytes, uint64_t *total_bytes);
static pthread_t first_thread;
static sem_t has_asked, never;

static vw_status answer_or_not(void *context, uint64_t *left_bytes, uint64_t *total_bytes)
{
    if (!pthread_equal(pthread_self(), first_thread)) {
        (void)sem_post(&has_asked);
        while (sem_wait(&never) != 0)
            continue;
    }
    return answer(context, left_bytes, total_bytes);
}

static bool ends_stuck; /* this process */

/* Called after all that atexit() was told of. */
__attribute__((destructor)) static void destroy_stuck(void)
{
    if (!ends_stuck)
        return;
    uint64_t before = vw__host_memory_get_use().in_use_bytes;
    vw_pool_destroy(late.t.pool);
    if (vw__host_memory_get_use().in_use_bytes != before)
        _exit(2);
}

static void what_a_stuck_thread_has_stays_until_the_process_has_ended(void **state)
{
    (void)state;
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const vw_pool_options options = {.struct_size = sizeof options,
                                         .engine = "vramwise",
                                         .keep_free = "1%",
                                         .is_unlisted = true};
        alarm(LONGEST_CHILD_S);
        first_thread = pthread_self();
        (void)sem_init(&has_asked, 0, 0);
        (void)sem_init(&never, 0, 0);
        if (vw_simulated_device_create(NULL, &late.t.device) != VW_OK)
            exit(1);
        stuck_table = *late.t.device->table;
        answer = stuck_table.memory_info;
        stuck_table.memory_info = answer_or_not;
        late.t.device->table = &stuck_table;
        if (vw_pool_create(late.t.device, &options, &late.t.pool) != VW_OK)
            exit(1);
        while (sem_wait(&has_asked) != 0)
            continue;
        ends_stuck = true;
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- the option ------------------------------------------------------------------------------ */

static vw_status try_option(vw_device *device, const char *engine, const char *keep_free)
{
    const vw_pool_options options = {.struct_size = sizeof options,
                                     .engine = engine,
                                     .keep_free = keep_free,
                                     .is_unlisted = true};
    vw_pool *pool = NULL;
    vw_status status = vw_pool_create(device, &options, &pool);
    assert_int_equal(pool != NULL, status == VW_OK);
    vw_pool_destroy(pool);
    return status;
}

static void the_option_is_read_or_refused_with_words(void **state)
{
    vw_device *device = NULL;
    (void)state;
    const vw_simulated_options card = {.struct_size = sizeof card, .capacity_bytes = CARD};
    assert_int_equal(vw_simulated_device_create(&card, &device), VW_OK);
    static const char *const good[] = {NULL, "", "0", "1", "4GiB", "5%", "100%", "0%"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(try_option(device, "vramwise", good[i]), VW_OK);
    assert_int_equal(try_option(device, "vramwise:rescue", "5%"), VW_OK);
    assert_int_equal(try_option(device, "torch", NULL), VW_OK);
    assert_int_equal(try_option(device, "torch", "0"), VW_OK);

    assert_int_equal(try_option(device, "vramwise", "plenty"), VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "'plenty'"));
    assert_int_equal(try_option(device, "vramwise", "101%"), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(try_option(device, "vramwise", "5GiB"), VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "more than"));
    assert_int_equal(try_option(device, "torch", "5%"), VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "engine \"torch\""));
    vw_device_destroy(device);
}

static void a_device_without_virtual_memory_cannot(void **state)
{
    vw_device *device = NULL;
    (void)state;
    const vw_simulated_options card = {
        .struct_size = sizeof card, .capacity_bytes = CARD, .without_virtual_memory = true};
    assert_int_equal(vw_simulated_device_create(&card, &device), VW_OK);
    assert_int_equal(try_option(device, "vramwise", NULL), VW_OK);
    assert_int_equal(try_option(device, "vramwise", "5%"), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "virtual memory"));
    vw_device_destroy(device);
}

static bool make_and_end(void *context)
{
    (void)context;
    vw_device *device = NULL;
    if (vw_simulated_device_create(NULL, &device) != VW_OK)
        return false;
    vw_status status = try_option(device, "vramwise", "5%");
    assert_true(status == VW_OK || status == VW_ERR_HOST_MEMORY);
    vw_device_destroy(device);
    return status == VW_OK;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(make_and_end, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_memory_goes_back_as_far_as_it_must),
        cmocka_unit_test(a_neighbour_gets_memory_again_and_again),
        cmocka_unit_test(live_memory_stays),
        cmocka_unit_test(the_thread_finishes_a_trim),
        cmocka_unit_test(a_device_that_fails_now_and_then_is_asked_again),
        cmocka_unit_test(a_pool_ends_while_its_thread_is_at_work),
        cmocka_unit_test(requests_and_the_thread_get_along),
        cmocka_unit_test(a_child_of_fork_has_no_thread_and_ends_well),
        cmocka_unit_test(a_process_ends_with_its_threads),
        cmocka_unit_test(what_a_stuck_thread_has_stays_until_the_process_has_ended),
        cmocka_unit_test(the_option_is_read_or_refused_with_words),
        cmocka_unit_test(a_device_without_virtual_memory_cannot),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
