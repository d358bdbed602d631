/* test_fork.c - a pool belongs to the process that made it.
 *
 * A child of fork() inherits the pool's memory, perhaps in the middle of a change, and neither its
 * device nor its threads. So in the child every call is refused before it looks at anything, and
 * the parent never notices. Children answer by their exit status: 0, or the line that went wrong.
 */
#include "vramwise/vramwise.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/pool.h" /* sizeof(vw_pool): a child compares every byte of it */

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"

enum { LONGEST_CHILD_S = 100 };

static int lines_wrong; /* in a child: the first one, or 0 */

#define EXPECT(claim)                                                                              \
    do {                                                                                           \
        if (!(claim) && lines_wrong == 0)                                                          \
            lines_wrong = __LINE__;                                                                \
    } while (0)

/* Exit statuses have eight bits, so the line goes through a pipe. A child that hangs is killed. */
static int first_wrong_line_of_child(void (*body)(vw_test_pool *t), vw_test_pool *t)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(LONGEST_CHILD_S);
        lines_wrong = 0;
        body(t);
        _exit(write(ends[1], &lines_wrong, sizeof lines_wrong) != (ssize_t)sizeof lines_wrong);
    }
    close(ends[1]);
    int line = -1, status = 0;
    if (read(ends[0], &line, sizeof line) != (ssize_t)sizeof line)
        line = -1; /* it died */
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? line : -1;
}

/* ---- what a child does ----------------------------------------------------------------------- */

static bool visit_nothing(void *context, const vw_segment_info *segment)
{
    (void)segment;
    *(bool *)context = true;
    return true;
}

static void visit_no_stat(void *context, const char *key, int64_t value)
{
    (void)key;
    (void)value;
    *(bool *)context = true;
}

static vw_device_ptr parents_block; /* live, and used by another stream */

static void try_everything(vw_pool *pool)
{
    const vw_status wrong = VW_ERR_WRONG_PROCESS;
    const vw_private_id id = {1, 0};
    vw_device_ptr address = 77;
    uint64_t served_bytes = 77;
    bool was_visited = false;
    char text[64] = "untouched";
    vw_private_state *state = NULL;
    vw_shared_part part = {77, 77};
    size_t count = 77;
    const vw_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = 512, .served_bytes = &served_bytes};
    vw_pool_stats stats = {.struct_size = sizeof stats, .num_ooms = 77};
    vw_block_place place = {.tag = 77};
    const vw_walker walker = {&was_visited, visit_nothing, NULL};
    EXPECT(vw_alloc(pool, 512, 0, &address) == wrong);
    EXPECT(vw_alloc_with(pool, &request, &address) == wrong);
    EXPECT(vw_free(pool, parents_block) == wrong);
    EXPECT(vw_record_stream(pool, parents_block, 5) == wrong);
    EXPECT(vw_pool_trim(pool) == wrong);
    EXPECT(vw_pool_set_fraction(pool, 0.5) == wrong);
    EXPECT(vw_pool_get_fraction(pool) == 1.0);
    EXPECT(vw_pool_configure(pool, "") == wrong);
    EXPECT(vw_pool_find(pool, parents_block, &place) == wrong);
    EXPECT(vw_pool_get_stats(pool, &stats) == wrong);
    EXPECT(vw_pool_walk_stats(pool, visit_no_stat, &was_visited) == wrong);
    EXPECT(vw_pool_reset_peaks(pool) == wrong);
    EXPECT(vw_pool_reset_accumulated(pool) == wrong);
    EXPECT(vw_pool_summary(pool, false, text, sizeof text, NULL) == wrong);
    EXPECT(vw_pool_walk(pool, &walker, true) == wrong);
    EXPECT(vw_pool_check(pool) == wrong);
    EXPECT(vw_pool_set_sink(pool, NULL) == wrong);
    EXPECT(vw_private_pool_retain(pool, id, NULL) == wrong);
    EXPECT(vw_private_pool_begin(pool, id, NULL, NULL) == wrong);
    EXPECT(vw_private_pool_end(pool, id) == wrong);
    EXPECT(vw_private_pool_release(pool, id) == wrong);
    EXPECT(vw_private_pool_use_count(pool, id) == 0);
    EXPECT(vw_private_pool_set_use_on_oom(pool, id, true) == wrong);
    EXPECT(vw_private_pool_set_no_split(pool, id, true) == wrong);
    EXPECT(vw_private_pool_trim(pool, id) == wrong);
    EXPECT(vw_private_pool_checkpoint(pool, id, &state) == wrong);
    EXPECT(vw_private_pool_restore(pool, NULL, NULL) == wrong);
    EXPECT(vw_pool_share(pool, parents_block, &part, 1, &count, &served_bytes) == wrong);
    EXPECT(vw_pool_allow_peer(pool, 0) == wrong);
    EXPECT(strstr(vw_last_error(), "fork") != NULL);
    EXPECT(address == 77 && served_bytes == 77 && place.tag == 77 && stats.num_ooms == 77);
    EXPECT(!was_visited && state == NULL && count == 77 && part.file_descriptor == 77);
}

/* Every byte of the pool, and every call of the device, as before. */
static void try_everything_and_compare(vw_test_pool *t)
{
    static unsigned char before[sizeof(vw_pool)];
    vw_device_calls calls_before, calls_after;
    memcpy(before, t->pool, sizeof before);
    EXPECT(vw_device_get_calls(t->device, &calls_before) == VW_OK);
    size_t event_count = t->event_count;
    try_everything(t->pool);
    EXPECT(memcmp(before, t->pool, sizeof before) == 0);
    EXPECT(vw_device_get_calls(t->device, &calls_after) == VW_OK);
    EXPECT(memcmp(&calls_before, &calls_after, sizeof calls_before) == 0);
    EXPECT(t->event_count == event_count);
}

static void destroy_and_compare(vw_test_pool *t)
{
    vw_device_calls before, after;
    EXPECT(vw_device_get_calls(t->device, &before) == VW_OK);
    vw_pool_destroy(t->pool);
    EXPECT(vw_device_get_calls(t->device, &after) == VW_OK);
    EXPECT(memcmp(&before, &after, sizeof before) == 0);
    EXPECT(vw_pool_check(t->pool) == VW_ERR_WRONG_PROCESS); /* its memory was not freed either */
}

static void make_a_pool_and_use_it(vw_test_pool *parents)
{
    (void)parents;
    static const char *const confs[] = {"", "expandable_segments:True"};
    for (size_t i = 0; i < 2; i++) {
        const vw_pool_options options = {.struct_size = sizeof options, .conf = confs[i]};
        vw_device *device = NULL;
        vw_pool *pool = NULL;
        vw_device_ptr a = VW_NULL, b = VW_NULL;
        EXPECT(vw_simulated_device_create(NULL, &device) == VW_OK);
        EXPECT(vw_pool_create(device, &options, &pool) == VW_OK);
        EXPECT(vw_alloc(pool, 1000, 0, &a) == VW_OK);
        EXPECT(vw_alloc(pool, 30 << 20, 1, &b) == VW_OK);
        EXPECT(vw_record_stream(pool, b, 2) == VW_OK);
        EXPECT(vw_free(pool, a) == VW_OK);
        EXPECT(vw_free(pool, b) == VW_OK);
        EXPECT(vw_pool_trim(pool) == VW_OK);
        EXPECT(vw_pool_check(pool) == VW_OK);
        vw_pool_destroy(pool);
        vw_device_destroy(device);
    }
}

/* The child's own pool is refused to the child's child. */
static void have_a_child_of_its_own(vw_test_pool *parents)
{
    vw_test_pool own = {.device = NULL};
    vw_device_ptr address = VW_NULL;
    EXPECT(vw_simulated_device_create(NULL, &own.device) == VW_OK);
    EXPECT(vw_pool_create(own.device, NULL, &own.pool) == VW_OK);
    EXPECT(vw_alloc(own.pool, 512, 0, &address) == VW_OK);
    EXPECT(first_wrong_line_of_child(try_everything_and_compare, &own) == 0);
    EXPECT(first_wrong_line_of_child(try_everything_and_compare, parents) == 0);
    EXPECT(vw_free(own.pool, address) == VW_OK);
    vw_pool_destroy(own.pool);
    vw_device_destroy(own.device);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void open_parents(vw_test_pool *t)
{
    vw_test_pool_open(t, &(vw_test_pool_setup){.manual_streams = true});
    parents_block = vw_test_alloc(t, 700);
    vw_test_ok(t, vw_record_stream(t->pool, parents_block, 3));
    vw_device_ptr pending = vw_test_alloc(t, 700);
    vw_test_ok(t, vw_record_stream(t->pool, pending, 3));
    vw_test_free(t, pending);
}

/* The parent's pool looks as before, and serves. */
static void fork_and_go_on(void (*body)(vw_test_pool *t))
{
    vw_test_pool t;
    open_parents(&t);
    char *before = vw_test_describe(&t);
    assert_int_equal(first_wrong_line_of_child(body, &t), 0);
    char *after = vw_test_describe(&t);
    assert_string_equal(before, after);
    free(before);
    free(after);
    vw_test_free(&t, parents_block);
    vw_test_free(&t, vw_test_alloc(&t, 30 * VW_TEST_MIB));
    vw_test_trim(&t);
    vw_test_pool_close(&t);
}

static void in_a_child_every_call_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    fork_and_go_on(try_everything_and_compare);
}

static void destroying_a_parents_pool_touches_nothing(void **state)
{
    (void)state;
    fork_and_go_on(destroy_and_compare);
}

static void a_pool_made_in_the_child_works(void **state)
{
    (void)state;
    fork_and_go_on(make_a_pool_and_use_it);
}

static void a_grandchild_is_refused_both_pools(void **state)
{
    (void)state;
    fork_and_go_on(have_a_child_of_its_own);
}

/* ---- forking while another thread holds the lock --------------------------------------------- */

static sem_t is_held, may_go;

static bool hold_the_lock(void *context, const vw_segment_info *segment)
{
    (void)context;
    (void)segment;
    sem_post(&is_held);
    sem_wait(&may_go);
    return false;
}

static void *walk_slowly(void *context)
{
    vw_test_pool *t = context;
    const vw_walker walker = {NULL, hold_the_lock, NULL};
    vw_status status = vw_pool_walk(t->pool, &walker, false);
    return status == VW_OK ? t : NULL;
}

static void try_then_make_a_pool(vw_test_pool *t)
{
    try_everything(t->pool);
    vw_pool_destroy(t->pool);
    make_a_pool_and_use_it(t);
}

static void a_lock_held_by_another_thread_does_not_hang_the_child(void **state)
{
    (void)state;
    vw_test_pool t;
    pthread_t walker;
    void *result = NULL;
    open_parents(&t);
    assert_int_equal(sem_init(&is_held, 0, 0), 0);
    assert_int_equal(sem_init(&may_go, 0, 0), 0);
    assert_int_equal(pthread_create(&walker, NULL, walk_slowly, &t), 0);
    sem_wait(&is_held);
    int line = first_wrong_line_of_child(try_then_make_a_pool, &t);
    sem_post(&may_go);
    assert_int_equal(pthread_join(walker, &result), 0);
    assert_ptr_equal(result, &t);
    assert_int_equal(line, 0);
    vw_test_free(&t, parents_block);
    vw_test_pool_close(&t);
    sem_destroy(&is_held);
    sem_destroy(&may_go);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_child_every_call_is_refused_and_changes_nothing),
        cmocka_unit_test(destroying_a_parents_pool_touches_nothing),
        cmocka_unit_test(a_pool_made_in_the_child_works),
        cmocka_unit_test(a_grandchild_is_refused_both_pools),
        cmocka_unit_test(a_lock_held_by_another_thread_does_not_hang_the_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
