/* test_late_gate.c - the launch gate put up while threads are in the driver, and outside.
 *
 * The fake driver's code is on the stack of whoever is "inside"; what it calls is the test's.
 * Threads meet at flags. Nothing is expected to be fast: what must be refused is asked once, with a
 * bound of no time, and what must be granted is asked for again until it is. */
#include "launch_gate.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thread_census.h"
#include "vramwise_torch_support.h"

#include "support/cmocka_here.h"
#include "support/fake_cuda/fake_calls.h"
#include "support/gated_calls.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0 /* else threads begin with a function of the sanitizer's */
#endif

enum { PAD_BYTES = 16384, TRIES = 30000 };

static fake_cuda_within_function within_driver;
static fake_cuda_start_function start_driver_thread;
static fake_cupti_count_enabled_function count_enabled;
static fake_cupti_set_taken_function set_taken;

static _Atomic int stage; /* what a thread has come to, or is to do */

static void wait_for_stage(int wanted)
{
    while (atomic_load(&stage) < wanted)
        usleep(100);
}

static void spin_until_stage(int wanted)
{
    while (atomic_load(&stage) < wanted) {
    }
}

static void find_in_driver(const char *name, void *function)
{
    void *library = dlopen(getenv("VRAMWISE_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    void *address = library != NULL ? dlsym(library, name) : NULL;
    assert_non_null(address);
    memcpy(function, &address, sizeof address);
}

/* The gate stands nowhere, and may come. */
static int begin_late(void **state)
{
    (void)state;
    unsetenv("FAKE_CUPTI_FAIL");
    set_taken(false);
    atomic_store(&stage, 0);
    assert_true(vramwise_launch_gate_remove());
    vramwise_launch_gate_come_late(true);
    vw__launch_gate_set_bounds(1, 0);
    return 0;
}

static vramwise_launch_gate_state gate_state(void)
{
    return vramwise_get_launch_gate_state(NULL, 0);
}

static bool closes_now(void)
{
    vw__launch_gate_arm();
    vw__launch_gate_set_bounds(1, 0); /* and nothing is remembered of an attempt in vain */
    bool is_closed = vw__launch_gate_close();
    if (is_closed)
        vw__launch_gate_open();
    return is_closed;
}

static void expect_closes_soon(void)
{
    bool is_closed = false;
    for (int i = 0; i < TRIES && !is_closed; i++) {
        is_closed = closes_now();
        usleep(100);
    }
    assert_true(is_closed);
    assert_int_equal(gate_state(), VRAMWISE_GATE_ARMED);
}

static void expect_does_not_close(void)
{
    for (int i = 0; i < 20; i++) {
        assert_false(closes_now());
        usleep(200);
    }
    assert_int_equal(gate_state(), VRAMWISE_GATE_ARMING);
}

/* Far down the stack, so that what it leaves there is not found where the thread waits later. */
static __attribute__((noinline)) void call_far_down(void (*body)(void *), void *context)
{
    volatile char pad[PAD_BYTES];
    pad[0] = 0;
    body(context);
    pad[PAD_BYTES - 1] = pad[0];
}

/* ---- what a program pays that never needs it ------------------------------------------------- */

static void nothing_is_seen_before_it_is_needed(void **state)
{
    (void)state;
    char reason[100] = "?";
    uint64_t before = vw__launch_gate_get_counts().passed_launches;
    vw_test_launch(NULL, NULL);
    assert_int_equal(count_enabled(), 0);
    assert_int_equal(vw__launch_gate_get_counts().passed_launches, before);
    assert_int_equal(vramwise_get_launch_gate_state(reason, sizeof reason), VRAMWISE_GATE_WAITS);
    assert_string_equal(reason, "");
    assert_string_equal(vramwise_launch_gate_state_name(VRAMWISE_GATE_WAITS), "waits");
}

static void with_nobody_inside_it_closes_and_sees_launches_only(void **state)
{
    (void)state;
    assert_true(vramwise_launch_gate_install(NULL, 0));
    int usual = count_enabled();
    assert_int_equal(gate_state(), VRAMWISE_GATE_ARMED);
    begin_late(NULL);
    expect_closes_soon();
    assert_int_equal(count_enabled(), usual);
    uint64_t before = vw__launch_gate_get_counts().passed_launches;
    vw_test_launch(NULL, NULL);
    assert_int_equal(vw__launch_gate_get_counts().passed_launches, before + 1);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void say_1_and_wait_for_2(void *unused)
{
    (void)unused;
    atomic_store(&stage, 1);
    wait_for_stage(2);
}

static void sleep_in_driver(void *unused)
{
    within_driver(say_1_and_wait_for_2, unused);
}

static void *sleep_in_driver_then_outside(void *unused)
{
    call_far_down(sleep_in_driver, unused);
    atomic_store(&stage, 3);
    wait_for_stage(4);
    return NULL;
}

static void who_sleeps_in_the_driver_is_waited_for_until_it_leaves(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, sleep_in_driver_then_outside, NULL), 0);
    wait_for_stage(1);
    expect_does_not_close();
    atomic_store(&stage, 2);
    wait_for_stage(3);
    expect_closes_soon();
    atomic_store(&stage, 4);
    pthread_join(thread, NULL);
}

/* What harmless calls cost while threads are not known ends before anybody needs a moment. */
static void it_gets_ready_though_nobody_closes_it(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, sleep_in_driver_then_outside, NULL), 0);
    wait_for_stage(1);
    vw__launch_gate_arm();
    int all = count_enabled();
    for (int i = 0; i < 20; i++) {
        vw__launch_gate_arm();
        usleep(200);
    }
    assert_int_equal(gate_state(), VRAMWISE_GATE_ARMING);
    assert_int_equal(count_enabled(), all);
    atomic_store(&stage, 2);
    wait_for_stage(3);
    for (int i = 0; i < TRIES && gate_state() == VRAMWISE_GATE_ARMING; i++) {
        vw__launch_gate_arm();
        usleep(200);
    }
    assert_int_equal(gate_state(), VRAMWISE_GATE_ARMED);
    assert_true(count_enabled() < all);
    atomic_store(&stage, 4);
    pthread_join(thread, NULL);
}

/* A launch that began before the gate came. Nobody tells of its end. */
static void launch_in_driver(void *unused)
{
    (void)unused;
    vw_test_launch(say_1_and_wait_for_2, NULL);
}

static void *launch_then_end(void *unused)
{
    within_driver(launch_in_driver, unused);
    return NULL;
}

static void a_launch_under_way_is_waited_for_until_its_thread_ends(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, launch_then_end, NULL), 0);
    wait_for_stage(1);
    expect_does_not_close();
    atomic_store(&stage, 2);
    pthread_join(thread, NULL);
    expect_closes_soon();
}

static void spin_in_driver(void *unused)
{
    (void)unused;
    atomic_store(&stage, 1);
    spin_until_stage(2);
}

static void *spin_inside_and_outside(void *unused)
{
    within_driver(spin_in_driver, unused);
    atomic_store(&stage, 3);
    spin_until_stage(4);
    vw_test_launch(NULL, NULL);
    atomic_store(&stage, 5);
    spin_until_stage(6);
    return NULL;
}

static void who_runs_is_not_known_until_it_comes_to_the_entry(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, spin_inside_and_outside, NULL), 0);
    wait_for_stage(1);
    expect_does_not_close();
    atomic_store(&stage, 2);
    wait_for_stage(3);
    expect_does_not_close();
    atomic_store(&stage, 4);
    wait_for_stage(5);
    expect_closes_soon();
    atomic_store(&stage, 6);
    pthread_join(thread, NULL);
}

static void note_return(void *return_address)
{
    *(void **)return_address = __builtin_return_address(0);
}

/* A word that looks as if somebody had to come back to the driver. */
static void *sleep_with_a_stale_word(void *word)
{
    void *volatile left_behind = word;
    atomic_store(&stage, 1);
    wait_for_stage(2);
    (void)vw_test_driver_call("cuEventRecord", NULL, NULL, 0);
    atomic_store(&stage, 3);
    wait_for_stage(4);
    return left_behind;
}

static void a_stale_word_is_no_proof_and_a_harmless_call_is(void **state)
{
    (void)state;
    pthread_t thread;
    void *word = NULL;
    within_driver(note_return, &word);
    assert_int_equal(pthread_create(&thread, NULL, sleep_with_a_stale_word, word), 0);
    wait_for_stage(1);
    expect_does_not_close();
    atomic_store(&stage, 2);
    wait_for_stage(3);
    expect_closes_soon();
    atomic_store(&stage, 4);
    pthread_join(thread, NULL);
}

static void the_address_of_a_function_is_no_way_back(void **state)
{
    (void)state;
    pthread_t thread;
    void *word = NULL;
    memcpy(&word, &within_driver, sizeof word);
    assert_int_equal(pthread_create(&thread, NULL, sleep_with_a_stale_word, word), 0);
    wait_for_stage(1);
    expect_closes_soon();
    atomic_store(&stage, 2);
    wait_for_stage(3);
    atomic_store(&stage, 4);
    pthread_join(thread, NULL);
}

static void the_drivers_own_threads_are_not_waited_for(void **state)
{
    (void)state;
    if (IS_SANITIZED)
        skip();
    assert_int_equal(start_driver_thread(say_1_and_wait_for_2, NULL), 0);
    wait_for_stage(1);
    expect_closes_soon();
    atomic_store(&stage, 2);
}

static void *launch_late(void *unused)
{
    (void)unused;
    within_driver(launch_in_driver, NULL);
    return NULL;
}

/* It is seen from its first call on. */
static void a_thread_that_begins_later_is_seen(void **state)
{
    (void)state;
    pthread_t thread;
    expect_closes_soon();
    assert_int_equal(pthread_create(&thread, NULL, launch_late, NULL), 0);
    wait_for_stage(1);
    assert_false(closes_now());
    assert_int_equal(gate_state(), VRAMWISE_GATE_ARMED);
    atomic_store(&stage, 2);
    pthread_join(thread, NULL);
    expect_closes_soon();
}

static void *close_elsewhere(void *is_closed)
{
    for (int i = 0; i < TRIES && !*(bool *)is_closed; i++) {
        *(bool *)is_closed = closes_now();
        usleep(100);
    }
    return NULL;
}

static void the_first_thread_of_the_process_is_looked_at_too(void **state)
{
    (void)state;
    pthread_t thread;
    bool is_closed = false;
    assert_int_equal(pthread_create(&thread, NULL, close_elsewhere, &is_closed), 0);
    pthread_join(thread, NULL);
    assert_true(is_closed);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void expect_refused(const char *why)
{
    char reason[300] = "";
    assert_false(closes_now());
    assert_int_equal(vramwise_get_launch_gate_state(reason, sizeof reason), VRAMWISE_GATE_REFUSED);
    if (strstr(reason, why) == NULL)
        fail_msg("'%s', expected '%s'", reason, why);
    assert_null(strchr(reason, '\n'));
    assert_int_equal(count_enabled(), 0);
}

static void what_cupti_refuses_stays_refused(void **state)
{
    (void)state;
    set_taken(true);
    expect_refused("another tool has CUPTI");
    set_taken(false);
    expect_refused("another tool has CUPTI");
    begin_late(NULL);
    setenv("FAKE_CUPTI_FAIL", "cuptiEnableCallback=7", 1);
    expect_refused("cuptiEnableCallback");
    begin_late(NULL);
    setenv("FAKE_CUPTI_FAIL", "cuptiSubscribe=15", 1);
    expect_refused("cuptiSubscribe");
    unsetenv("FAKE_CUPTI_FAIL");
    assert_true(vramwise_launch_gate_install(NULL, 0)); /* who asks for it gets it */
    assert_int_equal(gate_state(), VRAMWISE_GATE_ARMED);
}

static void it_does_not_come_where_it_gave_way(void **state)
{
    (void)state;
    assert_true(vramwise_launch_gate_remove()); /* before it came */
    expect_refused("gave way to a profiler");
    begin_late(NULL);
    expect_closes_soon();
    assert_true(vramwise_launch_gate_remove());
    expect_refused("gave way to a profiler");
}

/* ---- what the system answers ----------------------------------------------------------------- */

static int calls_until_failure;
static const vw__census_system *real;

static bool fails_now(void)
{
    bool is_it = calls_until_failure-- == 0;
    if (is_it)
        errno = EACCES;
    return is_it;
}

static long file_or_failure(const char *path, char *text, size_t capacity)
{
    return fails_now() ? -1 : real->read_file(path, text, capacity);
}

static long list_or_failure(char *entries, size_t capacity)
{
    return fails_now() ? -1 : real->list_threads(entries, capacity);
}

static long memory_or_failure(uint64_t address, void *to, size_t size_bytes)
{
    return fails_now() ? -1 : real->read_memory(address, to, size_bytes);
}

static const vw__census_system failing = {file_or_failure, list_or_failure, memory_or_failure};

/* At whichever question: nobody is taken to be outside who is not. */
static void no_failed_question_lets_it_close_too_early(void **state)
{
    (void)state;
    pthread_t thread;
    int refused = 0;
    assert_int_equal(pthread_create(&thread, NULL, sleep_in_driver_then_outside, NULL), 0);
    wait_for_stage(1);
    for (int n = 0; n < 40; n++) {
        assert_true(vramwise_launch_gate_remove());
        vramwise_launch_gate_come_late(true);
        real = vw__census_set_system(&failing);
        calls_until_failure = n;
        assert_false(closes_now());
        (void)vw__census_set_system(NULL);
        refused += gate_state() == VRAMWISE_GATE_REFUSED;
        assert_false(closes_now());
    }
    assert_true(refused > 3);
    assert_int_equal(gate_state(), VRAMWISE_GATE_ARMING);
    atomic_store(&stage, 2);
    wait_for_stage(3);
    expect_closes_soon();
    atomic_store(&stage, 4);
    pthread_join(thread, NULL);
}

static long no_file(const char *path, char *text, size_t capacity)
{
    (void)path, (void)text, (void)capacity;
    errno = ENOENT;
    return -1;
}

static long no_memory(uint64_t address, void *to, size_t size_bytes)
{
    (void)address, (void)to, (void)size_bytes;
    errno = EPERM;
    return -1;
}

static void a_system_that_shows_nothing_is_said_to(void **state)
{
    (void)state;
    vw__census_system blind = {.read_file = no_file};
    real = vw__census_set_system(NULL);
    blind.list_threads = real->list_threads;
    blind.read_memory = real->read_memory;
    (void)vw__census_set_system(&blind);
    expect_refused("/proc does not show what threads do");
    begin_late(NULL);
    blind.read_file = real->read_file;
    blind.read_memory = no_memory;
    expect_refused("process_vm_readv() is not permitted");
    (void)vw__census_set_system(NULL);
}

/* ---- processes, contexts --------------------------------------------------------------------- */

static void a_child_finds_no_gate_and_the_parent_goes_on(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, sleep_in_driver_then_outside, NULL), 0);
    wait_for_stage(1);
    assert_false(closes_now());
    pid_t child = fork();
    if (child == 0) {
        alarm(100);
        vw_test_launch(NULL, NULL);
        _exit(vw__launch_gate_close() || gate_state() != VRAMWISE_GATE_WAITS ? 1 : 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    expect_does_not_close();
    atomic_store(&stage, 2);
    wait_for_stage(3);
    expect_closes_soon();
    atomic_store(&stage, 4);
    pthread_join(thread, NULL);
}

static void work_in_a_context_of_its_own_shows_when_it_passes(void **state)
{
    (void)state;
    fake_cupti_set_context_function set_context;
    vw_test_find_in_cupti(FAKE_CUPTI_SET_CONTEXT, &set_context, sizeof set_context);
    int made_before = 0;
    expect_closes_soon();
    set_context(&made_before);
    vw_test_launch(NULL, NULL);
    set_context(NULL);
    assert_false(closes_now());
}

int main(void)
{
    setenv("VRAMWISE_CUPTI", VW_FAKE_CUPTI, 1);
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1);
    find_in_driver(FAKE_CUDA_WITHIN, &within_driver);
    find_in_driver(FAKE_CUDA_START, &start_driver_thread);
    vw_test_find_in_cupti(FAKE_CUPTI_COUNT_ENABLED, &count_enabled, sizeof count_enabled);
    vw_test_find_in_cupti(FAKE_CUPTI_SET_TAKEN, &set_taken, sizeof set_taken);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_seen_before_it_is_needed, begin_late),
        cmocka_unit_test_setup(with_nobody_inside_it_closes_and_sees_launches_only, begin_late),
        cmocka_unit_test_setup(who_sleeps_in_the_driver_is_waited_for_until_it_leaves, begin_late),
        cmocka_unit_test_setup(it_gets_ready_though_nobody_closes_it, begin_late),
        cmocka_unit_test_setup(a_launch_under_way_is_waited_for_until_its_thread_ends, begin_late),
        cmocka_unit_test_setup(who_runs_is_not_known_until_it_comes_to_the_entry, begin_late),
        cmocka_unit_test_setup(a_stale_word_is_no_proof_and_a_harmless_call_is, begin_late),
        cmocka_unit_test_setup(the_address_of_a_function_is_no_way_back, begin_late),
        cmocka_unit_test_setup(the_drivers_own_threads_are_not_waited_for, begin_late),
        cmocka_unit_test_setup(a_thread_that_begins_later_is_seen, begin_late),
        cmocka_unit_test_setup(the_first_thread_of_the_process_is_looked_at_too, begin_late),
        cmocka_unit_test_setup(what_cupti_refuses_stays_refused, begin_late),
        cmocka_unit_test_setup(it_does_not_come_where_it_gave_way, begin_late),
        cmocka_unit_test_setup(no_failed_question_lets_it_close_too_early, begin_late),
        cmocka_unit_test_setup(a_system_that_shows_nothing_is_said_to, begin_late),
        cmocka_unit_test_setup(a_child_finds_no_gate_and_the_parent_goes_on, begin_late),
        /* The last: it stays so. */
        cmocka_unit_test_setup(work_in_a_context_of_its_own_shows_when_it_passes, begin_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
