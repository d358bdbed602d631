/* test_launch_gate_threads.c - the gate, with threads that launch through a CUPTI of our own.
 *
 * Threads meet at flags, never by the clock; where something must not happen it is given some
 * milliseconds to. */
#include "launch_gate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_idle.h"
#include "vramwise_torch_support.h"

#include "base/clock.h"
#include "support/cmocka_here.h"
#include "support/fake_cuda_state.h"
#include "support/gated_calls.h"

#define MILLISECOND_NS UINT64_C(1000000)
#define LONG_NS (100000 * MILLISECOND_NS) /* for what hangs: a busy machine takes its time */

static _Atomic int stage; /* what the threads of one test have come to */

static void wait_for_stage(int wanted)
{
    while (atomic_load(&stage) < wanted)
        usleep(100);
}

static void set_stage(void *to)
{
    atomic_store(&stage, *(const int *)to);
}

static int install_anew(void **state)
{
    (void)state;
    char message[300] = "";
    unsetenv("FAKE_CUDA_BUSY_MS");
    unsetenv("FAKE_CUDA_FAIL");
    unsetenv("FAKE_CUPTI_FAIL");
    atomic_store(&stage, 0);
    assert_true(vramwise_launch_gate_remove());
    if (!vramwise_launch_gate_install(message, sizeof message))
        fail_msg("%s", message);
    assert_string_equal(message, "");
    vw__launch_gate_set_bounds(LONG_NS, LONG_NS);
    return 0;
}

static uint64_t held(void)
{
    return vw__launch_gate_get_counts().held_launches;
}

/* ---- open and closed ------------------------------------------------------------------------- */

static void launches_pass_an_open_gate_and_are_counted(void **state)
{
    (void)state;
    uint64_t before = vw__launch_gate_get_counts().passed_launches;
    int done = 1;
    vw_test_launch(set_stage, &done);
    assert_int_equal(stage, 1);
    assert_true(vw_test_driver_call("cuSomethingOfNextYear_v3", NULL, NULL, 0));
    assert_true(vw_test_driver_call("cuEventRecord", NULL, NULL, 0));
    assert_int_equal(vw__launch_gate_get_counts().passed_launches, before + 2);
    assert_true(vw__launch_gate_get_counts().is_installed);
}

static void *launch_to_stage_2(void *unused)
{
    int two = 2;
    (void)unused;
    atomic_store(&stage, 1);
    vw_test_launch(set_stage, &two);
    return NULL;
}

static void a_launch_waits_while_the_gate_is_closed(void **state)
{
    (void)state;
    pthread_t thread;
    uint64_t held_before = held();
    assert_true(vw__launch_gate_close());
    assert_int_equal(pthread_create(&thread, NULL, launch_to_stage_2, NULL), 0);
    while (held() == held_before)
        usleep(100);
    usleep(20000);
    assert_int_equal(stage, 1);
    vw__launch_gate_open();
    pthread_join(thread, NULL);
    assert_int_equal(stage, 2);
    assert_true(vw__launch_gate_get_counts().longest_hold_ns >= 20 * MILLISECOND_NS);
}

static void the_closers_own_calls_pass(void **state)
{
    (void)state;
    int done = 1;
    assert_true(vw__launch_gate_close());
    vw_test_launch(set_stage, &done);
    assert_int_equal(stage, 1);
    vw__launch_gate_open();
}

static void *map_memory(void *unused)
{
    int one = 1;
    (void)unused;
    (void)vw_test_driver_call("cuMemMap", set_stage, &one, 0);
    return NULL;
}

static void harmless_calls_of_other_threads_pass_a_closed_gate(void **state)
{
    (void)state;
    pthread_t thread;
    assert_true(vw__launch_gate_close());
    assert_int_equal(pthread_create(&thread, NULL, map_memory, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(stage, 1);
    vw__launch_gate_open();
}

/* ---- closing waits --------------------------------------------------------------------------- */

static void stay_until_stage_2(void *unused)
{
    (void)unused;
    atomic_store(&stage, 1);
    wait_for_stage(2);
    usleep(5000);
    atomic_store(&stage, 3);
}

static void *launch_and_stay(void *unused)
{
    (void)unused;
    vw_test_launch(stay_until_stage_2, NULL);
    return NULL;
}

static void closing_waits_for_a_launch_under_way(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, launch_and_stay, NULL), 0);
    wait_for_stage(1);
    atomic_store(&stage, 2);
    assert_true(vw__launch_gate_close());
    assert_int_equal(stage, 3);
    vw__launch_gate_open();
    pthread_join(thread, NULL);
}

static void a_launch_that_does_not_end_refuses_and_the_gate_opens_again(void **state)
{
    (void)state;
    pthread_t thread;
    int done = 1;
    assert_int_equal(pthread_create(&thread, NULL, launch_and_stay, NULL), 0);
    wait_for_stage(1);
    vw__launch_gate_set_bounds(20 * MILLISECOND_NS, 0);
    uint64_t begin_ns = vw__clock_monotonic_ns();
    assert_false(vw__launch_gate_close());
    vw_test_launch(set_stage, &done);      /* would hang */
    assert_false(vw__launch_gate_close()); /* whoever is inside */
    atomic_store(&stage, 2);
    pthread_join(thread, NULL);
    bool has_closed = vw__launch_gate_close();
    bool was_soon = vw__clock_monotonic_ns() - begin_ns < 200 * MILLISECOND_NS;
    assert_false(has_closed && was_soon); /* ten times what was lost must pass */
    while (!has_closed) {
        usleep(1000);
        has_closed = vw__launch_gate_close();
    }
    vw__launch_gate_open();
}

/* The driver calls itself, and the inner call must not wait for a gate that waits for the outer. */
static void launch_again_when_closing(void *held_before)
{
    int three = 3;
    atomic_store(&stage, 1);
    wait_for_stage(2);
    usleep(5000); /* the closer has said so by now */
    vw_test_launch(set_stage, &three);
    if (held() != *(const uint64_t *)held_before)
        atomic_store(&stage, 100);
}

static void *launch_twice(void *held_before)
{
    vw_test_launch(launch_again_when_closing, held_before);
    return NULL;
}

static void a_call_within_a_call_passes(void **state)
{
    (void)state;
    pthread_t thread;
    uint64_t held_before = held();
    assert_int_equal(pthread_create(&thread, NULL, launch_twice, &held_before), 0);
    wait_for_stage(1);
    atomic_store(&stage, 2);
    assert_true(vw__launch_gate_close());
    assert_int_equal(stage, 3);
    vw__launch_gate_open();
    pthread_join(thread, NULL);
}

static void leave_the_thread(void *unused)
{
    (void)unused;
    pthread_exit(NULL);
}

static void *launch_and_exit(void *unused)
{
    (void)unused;
    vw_test_launch(leave_the_thread, NULL);
    return NULL;
}

static void a_thread_that_ended_inside_is_not_waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) { /* its place is used again */
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, launch_and_exit, NULL), 0);
        pthread_join(thread, NULL);
    }
    assert_true(vw__launch_gate_close());
    vw__launch_gate_open();
}

static void close_within(void *is_granted)
{
    *(bool *)is_granted = vw__launch_gate_close();
}

static void who_is_inside_cannot_close(void **state)
{
    (void)state;
    bool is_granted = true;
    vw_test_launch(close_within, &is_granted);
    assert_false(is_granted);
    assert_true(vw__launch_gate_close());
    assert_false(vw__launch_gate_close());
    vw__launch_gate_open();
}

static void *close_after(void *unused)
{
    (void)unused;
    atomic_store(&stage, 1);
    if (vw__launch_gate_close()) {
        atomic_fetch_add(&stage, 1);
        vw__launch_gate_open();
    }
    return NULL;
}

static void a_second_closer_waits_for_the_first(void **state)
{
    (void)state;
    pthread_t thread;
    assert_true(vw__launch_gate_close());
    assert_int_equal(pthread_create(&thread, NULL, close_after, NULL), 0);
    wait_for_stage(1);
    usleep(10000);
    assert_int_equal(stage, 1);
    vw__launch_gate_open();
    pthread_join(thread, NULL);
    assert_int_equal(stage, 2);
}

/* ---- devices --------------------------------------------------------------------------------- */

static void every_device_in_use_is_waited_for(void **state)
{
    (void)state;
    vw_device *first = NULL, *second = NULL;
    assert_int_equal(vw_cuda_device_open(0, &first), VW_OK);
    fake_cuda_state before = vw_test_fake_cuda_state();
    assert_true(vw__launch_gate_close());
    vw__launch_gate_open();
    fake_cuda_state after = vw_test_fake_cuda_state();
    assert_int_equal(after.synchronize_count[0], before.synchronize_count[0] + 1);
    assert_int_equal(after.synchronize_count[1], before.synchronize_count[1]);

    assert_int_equal(vw_cuda_device_open(1, &second), VW_OK);
    assert_true(vw__launch_gate_close());
    vw__launch_gate_open();
    after = vw_test_fake_cuda_state();
    assert_int_equal(after.synchronize_count[1], before.synchronize_count[1] + 1);
    vw_device_destroy(second);
    vw_device_destroy(first);
    assert_int_equal(vw_test_fake_cuda_state().retain_count, before.retain_count - 1);
}

static void work_that_does_not_end_refuses(void **state)
{
    (void)state;
    vw_device *device = NULL;
    int done = 1;
    assert_int_equal(vw_cuda_device_open(0, &device), VW_OK);
    setenv("FAKE_CUDA_BUSY_MS", "2000", 1);
    vw__launch_gate_set_bounds(0, 10 * MILLISECOND_NS);
    assert_false(vw__launch_gate_close());
    vw_test_launch(set_stage, &done);
    vw__launch_gate_set_bounds(0, LONG_NS);
    assert_false(vw__launch_gate_close()); /* the first wait is still going on */
    unsetenv("FAKE_CUDA_BUSY_MS");
    do {
        usleep(1000);
        vw__launch_gate_set_bounds(0, LONG_NS);
    } while (!vw__launch_gate_close()); /* until it has ended */
    vw__launch_gate_open();
    vw_device_destroy(device);
}

static void a_device_that_fails_refuses(void **state)
{
    (void)state;
    vw_device *device = NULL;
    assert_int_equal(vw_cuda_device_open(0, &device), VW_OK);
    setenv("FAKE_CUDA_FAIL", "cuCtxSynchronize=700", 1);
    assert_false(vw__launch_gate_close());
    assert_false(vw__devices_synchronize());
    unsetenv("FAKE_CUDA_FAIL");
    vw__launch_gate_set_bounds(0, LONG_NS);
    assert_true(vw__launch_gate_close());
    vw__launch_gate_open();
    vw_device_destroy(device);
}

/* ---- captures and contexts ------------------------------------------------------------------- */

static void nothing_is_closed_while_a_graph_is_captured(void **state)
{
    (void)state;
    assert_true(vw_test_driver_call("cuStreamBeginCapture_v2_ptsz", NULL, NULL, 901));
    assert_false(vw__launch_gate_sees_capture()); /* it did not begin */
    assert_true(vw_test_driver_call("cuStreamBeginCapture_v2_ptsz", NULL, NULL, 0));
    assert_true(vw_test_driver_call("cuStreamBeginCapture_v2_ptsz", NULL, NULL, 0));
    assert_true(vw__launch_gate_sees_capture());
    assert_false(vw__launch_gate_close());
    assert_true(vw_test_driver_call("cuStreamEndCapture", NULL, NULL, 0));
    assert_true(vw_test_driver_call("cuStreamEndCapture", NULL, NULL, 908)); /* wrong thread */
    assert_false(vw__launch_gate_close());
    assert_true(vw_test_driver_call("cuStreamEndCapture", NULL, NULL, 901)); /* spoilt, and over */
    assert_true(vw__launch_gate_close());
    vw__launch_gate_open();
    assert_true(vw_test_driver_call("cuStreamEndCapture", NULL, NULL, 0)); /* of nothing */
    assert_true(vw__launch_gate_close());
    vw__launch_gate_open();
}

static void nothing_is_closed_once_the_program_has_a_context_of_its_own(void **state)
{
    (void)state;
    assert_true(vw_test_driver_call("cuCtxCreate_v4", NULL, NULL, 2));
    assert_true(vw__launch_gate_close());
    vw__launch_gate_open();
    assert_true(vw_test_driver_call("cuCtxCreate_v4", NULL, NULL, 0));
    assert_false(vw__launch_gate_close());
}

/* ---- installing ------------------------------------------------------------------------------ */

static void another_tool_has_cupti(void **state)
{
    (void)state;
    char message[300] = "";
    fake_cupti_set_taken_function set_taken;
    fake_cupti_count_enabled_function count_enabled;
    vw_test_find_in_cupti(FAKE_CUPTI_SET_TAKEN, &set_taken, sizeof set_taken);
    vw_test_find_in_cupti(FAKE_CUPTI_COUNT_ENABLED, &count_enabled, sizeof count_enabled);
    int enabled = count_enabled();
    assert_true(enabled > 0);
    assert_true(vramwise_launch_gate_remove());
    assert_int_equal(count_enabled(), 0);
    set_taken(true);
    assert_false(vramwise_launch_gate_install(message, sizeof message));
    assert_non_null(strstr(message, "another tool has CUPTI"));
    assert_null(strchr(message, '\n'));
    assert_false(vw__launch_gate_close());
    assert_false(vw__launch_gate_get_counts().is_installed);
    set_taken(false);
    assert_true(vramwise_launch_gate_install(NULL, 0));
    assert_true(vramwise_launch_gate_install(message, sizeof message)); /* it stands */
    assert_int_equal(count_enabled(), enabled);
}

static void a_cupti_that_fails_leaves_no_gate(void **state)
{
    (void)state;
    char message[300] = "";
    assert_true(vramwise_launch_gate_remove());
    setenv("FAKE_CUPTI_FAIL", "cuptiSubscribe=15", 1);
    assert_false(vramwise_launch_gate_install(message, sizeof message));
    assert_string_equal(message, "cuptiSubscribe() failed: CUPTI_ERROR_NOT_INITIALIZED (15)");
    setenv("FAKE_CUPTI_FAIL", "cuptiEnableCallback=7", 1);
    assert_false(vramwise_launch_gate_install(message, sizeof message));
    assert_non_null(strstr(message, "cuptiEnableCallback(cuMemcpyDtoDAsync_v2_ptsz) failed: "
                                    "unknown error (7)"));
    unsetenv("FAKE_CUPTI_FAIL");
    assert_true(vramwise_launch_gate_install(message, sizeof message)); /* it let go */
}

static void remove_and_install(void *unused)
{
    char message[300];
    (void)unused;
    atomic_store(&stage, vramwise_launch_gate_remove() &&
                                 vramwise_launch_gate_install(message, sizeof message)
                             ? 1
                             : 100);
}

static void a_launch_under_way_when_it_is_removed_holds_up_nobody_later(void **state)
{
    (void)state;
    vw_test_launch(remove_and_install, NULL);
    assert_int_equal(stage, 1);
    assert_true(vw__launch_gate_close());
    vw__launch_gate_open();
    assert_true(vramwise_launch_gate_remove());
    assert_true(vramwise_launch_gate_remove());
    vw_test_launch(NULL, NULL);
    assert_false(vw__launch_gate_close());
}

static void *close_and_keep(void *unused)
{
    (void)unused;
    if (!vw__launch_gate_close())
        return NULL;
    atomic_store(&stage, 1);
    wait_for_stage(2);
    vw__launch_gate_open();
    return NULL;
}

static void a_child_process_finds_the_gate_open_and_not_its_own(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, close_and_keep, NULL), 0);
    wait_for_stage(1);
    pid_t child = fork();
    if (child == 0) {
        alarm(100);
        vw_test_launch(NULL, NULL);
        _exit(vw__launch_gate_close() || vw__launch_gate_get_counts().is_installed ? 1 : 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    atomic_store(&stage, 2);
    pthread_join(thread, NULL);
    assert_true(vw__launch_gate_close());
    vw__launch_gate_open();
}

static void no_cupti_is_said_in_one_line(void **state)
{
    (void)state;
    char message[400] = "", kept[400];
    assert_true(vramwise_launch_gate_remove());
    snprintf(kept, sizeof kept, "%s", getenv("VRAMWISE_CUPTI"));
    setenv("VRAMWISE_CUPTI", "/nowhere/libcupti.so", 1);
    assert_false(vramwise_launch_gate_install(message, sizeof message));
    assert_non_null(strstr(message, "VRAMWISE_CUPTI"));
    assert_non_null(strstr(message, "/nowhere/libcupti.so"));
    assert_null(strchr(message, '\n'));
    setenv("VRAMWISE_CUPTI", VW_FAKE_CUDA_DRIVER, 1);
    assert_false(vramwise_launch_gate_install(message, sizeof message));
    assert_string_equal(message, "the CUPTI found here has no function cuptiSubscribe");
    setenv("VRAMWISE_CUPTI", kept, 1);
}

int main(void)
{
    setenv("VRAMWISE_CUPTI", VW_FAKE_CUPTI, 1);
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(launches_pass_an_open_gate_and_are_counted, install_anew),
        cmocka_unit_test_setup(a_launch_waits_while_the_gate_is_closed, install_anew),
        cmocka_unit_test_setup(the_closers_own_calls_pass, install_anew),
        cmocka_unit_test_setup(harmless_calls_of_other_threads_pass_a_closed_gate, install_anew),
        cmocka_unit_test_setup(closing_waits_for_a_launch_under_way, install_anew),
        cmocka_unit_test_setup(a_launch_that_does_not_end_refuses_and_the_gate_opens_again,
                               install_anew),
        cmocka_unit_test_setup(a_call_within_a_call_passes, install_anew),
        cmocka_unit_test_setup(a_thread_that_ended_inside_is_not_waited_for, install_anew),
        cmocka_unit_test_setup(who_is_inside_cannot_close, install_anew),
        cmocka_unit_test_setup(a_second_closer_waits_for_the_first, install_anew),
        cmocka_unit_test_setup(every_device_in_use_is_waited_for, install_anew),
        cmocka_unit_test_setup(work_that_does_not_end_refuses, install_anew),
        cmocka_unit_test_setup(a_device_that_fails_refuses, install_anew),
        cmocka_unit_test_setup(nothing_is_closed_while_a_graph_is_captured, install_anew),
        cmocka_unit_test_setup(another_tool_has_cupti, install_anew),
        cmocka_unit_test_setup(a_cupti_that_fails_leaves_no_gate, install_anew),
        cmocka_unit_test_setup(a_launch_under_way_when_it_is_removed_holds_up_nobody_later,
                               install_anew),
        cmocka_unit_test_setup(a_child_process_finds_the_gate_open_and_not_its_own, install_anew),
        cmocka_unit_test_setup(no_cupti_is_said_in_one_line, install_anew),
        /* The last: it stays so. */
        cmocka_unit_test_setup(nothing_is_closed_once_the_program_has_a_context_of_its_own,
                               install_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
