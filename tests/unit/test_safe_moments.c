/* test_safe_moments.c - who may grant a moment for copying, and a pool that makes use of it. */
#include "vramwise_torch_support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vramwise/park.h"

#include "launch_gate.h"

#include "support/cmocka_here.h"
#include "support/fake_cuda_state.h"
#include "support/gated_calls.h"
#include "support/patterned_pool.h"

#define UNIT (64 * VW_TEST_KIB) /* of the host device */
#define MIB VW_TEST_MIB

static vramwise_safe_moment_counts before;

static int note_counts(void **state)
{
    (void)state;
    unsetenv("FAKE_CUDA_FAIL");
    assert_true(vramwise_launch_gate_remove());
    before = vramwise_get_safe_moment_counts();
    return 0;
}

static void expect_counts(uint64_t by_program, uint64_t by_gate, uint64_t refused)
{
    vramwise_safe_moment_counts now = vramwise_get_safe_moment_counts();
    assert_int_equal(now.granted_by_program - before.granted_by_program, by_program);
    assert_int_equal(now.granted_by_gate - before.granted_by_gate, by_gate);
    assert_int_equal(now.refused - before.refused, refused);
}

static void install(void)
{
    char message[300] = "";
    if (!vramwise_launch_gate_install(message, sizeof message))
        fail_msg("%s", message);
}

static void without_either_it_is_refused_and_counted(void **state)
{
    (void)state;
    vw_safe_point moments = vramwise_safe_moments();
    assert_false(moments.enter(moments.context));
    assert_false(vramwise_get_safe_moment_counts().has_gate);
    expect_counts(0, 0, 1);
}

static void the_programs_word_is_enough_and_nests(void **state)
{
    (void)state;
    vw_safe_point moments = vramwise_safe_moments();
    vramwise_safe_point_leave(); /* one too many */
    vramwise_safe_point_enter();
    vramwise_safe_point_enter();
    vramwise_safe_point_leave();
    assert_true(moments.enter(moments.context));
    assert_false(moments.enter(moments.context)); /* not out of a moment */
    moments.leave(moments.context);
    vramwise_safe_point_leave();
    assert_false(moments.enter(moments.context));
    expect_counts(1, 0, 1);
}

static void the_programs_word_waits_for_all_devices(void **state)
{
    (void)state;
    vw_safe_point moments = vramwise_safe_moments();
    vw_device *first = NULL, *second = NULL;
    assert_int_equal(vw_cuda_device_open(0, &first), VW_OK);
    assert_int_equal(vw_cuda_device_open(1, &second), VW_OK);
    fake_cuda_state asked = vw_test_fake_cuda_state();
    vramwise_safe_point_enter();
    assert_true(moments.enter(moments.context));
    moments.leave(moments.context);
    fake_cuda_state now = vw_test_fake_cuda_state();
    assert_int_equal(now.synchronize_count[0], asked.synchronize_count[0] + 1);
    assert_int_equal(now.synchronize_count[1], asked.synchronize_count[1] + 1);
    assert_int_equal(now.context_depth, asked.context_depth);
    assert_int_equal(now.capture_mode, asked.capture_mode);
    setenv("FAKE_CUDA_FAIL", "cuCtxSynchronize=700", 1);
    assert_false(moments.enter(moments.context));
    vramwise_safe_point_leave();
    expect_counts(1, 0, 1);
    vw_device_destroy(second);
    vw_device_destroy(first);
}

static void the_gate_grants_what_the_program_does_not(void **state)
{
    (void)state;
    vw_safe_point moments = vramwise_safe_moments();
    install();
    assert_true(vramwise_get_safe_moment_counts().has_gate);
    assert_true(moments.enter(moments.context));
    moments.leave(moments.context);
    moments.leave(moments.context); /* does nothing */
    vramwise_safe_point_enter();
    assert_true(moments.enter(moments.context));
    moments.leave(moments.context);
    vramwise_safe_point_leave();
    expect_counts(1, 1, 0);
}

static void nobody_grants_while_a_graph_is_captured(void **state)
{
    (void)state;
    vw_safe_point moments = vramwise_safe_moments();
    install();
    assert_true(vw_test_driver_call("cuStreamBeginCapture_v2_ptsz", NULL, NULL, 0));
    vramwise_safe_point_enter();
    assert_false(moments.enter(moments.context));
    vramwise_safe_point_leave();
    assert_true(vw_test_driver_call("cuStreamEndCapture", NULL, NULL, 0));
    assert_true(moments.enter(moments.context));
    moments.leave(moments.context);
    expect_counts(0, 1, 1);
}

/* As test_paged_rescue.c: a device of 14 MiB in use here and there, and a request for 7. */
static void open_scattered(vw_test_patterns *p)
{
    const vw_test_pool_setup setup = {.engine = "vramwise:rescue",
                                      .on_host = true,
                                      .capacity_bytes = 14 * MIB,
                                      .safe_point = vramwise_safe_moments()};
    vw_device_ptr dropped[9] = {VW_NULL};
    vw_test_patterns_open(p, &setup);
    vw_test_free(&p->t, vw_test_alloc(&p->t, 14 * MIB));
    for (int i = 0; i < 9; i++) {
        if (i == 1 || i == 2 || i == 4 || i == 6)
            vw_test_hold(p, 24 * UNIT - (uint64_t)i * 1000, 0);
        else
            dropped[i] = vw_test_alloc(&p->t, 24 * UNIT - (uint64_t)i * 1000);
    }
    for (int i = 0; i < 9; i++)
        vw_test_free(&p->t, dropped[i]);
}

static void a_pool_copies_where_it_is_granted_and_runs_out_where_not(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_scattered(&p);
    vw_test_alloc_fails(&p.t, 7 * MIB, 1, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(vw_test_paged_stats(&p).copied_bytes, 0);
    assert_true(vw_test_paged_stats(&p).refused_copies > 0);

    install();
    vw_test_hold(&p, 7 * MIB, 1);
    assert_true(vw_test_paged_stats(&p).copied_bytes >= MIB);
    vw_test_look_at_all(&p);
    assert_true(vramwise_get_safe_moment_counts().granted_by_gate > before.granted_by_gate);
    vw_test_launch(NULL, NULL); /* the gate is open */
    vw_test_patterns_close(&p);

    assert_true(vramwise_launch_gate_remove());
    open_scattered(&p);
    vramwise_safe_point_enter();
    vw_test_hold(&p, 7 * MIB, 1);
    vramwise_safe_point_leave();
    vw_test_look_at_all(&p);
    assert_true(vramwise_get_safe_moment_counts().granted_by_program > before.granted_by_program);
    vw_test_patterns_close(&p);
}

/* ---- parked ---------------------------------------------------------------------------------- */

static _Atomic int launches;

static void count_launch(void *unused)
{
    (void)unused;
    atomic_fetch_add(&launches, 1);
}

static void *launch(void *unused)
{
    vw_test_launch(count_launch, unused);
    return NULL;
}

static void *wake(void *pool)
{
    assert_int_equal(vw_pool_wake(pool, NULL, NULL), VW_OK);
    return NULL;
}

static void open_parking_pool(vw_test_patterns *p)
{
    vw_test_patterns_open(p, &(vw_test_pool_setup){.engine = "vramwise",
                                                   .capacity_bytes = 4 * MIB,
                                                   .on_host = true,
                                                   .safe_point = vramwise_safe_moments(),
                                                   .park_guard = vramwise_park_guard()});
    vw_test_hold(p, MIB, 0);
}

/* By the gate, or by the program's word and then the gate: from park to wake nobody launches. */
static void launches_are_held_while_a_pool_is_parked(void **state)
{
    (void)state;
    install();
    for (int by_program = 0; by_program < 2; by_program++) {
        vw_test_patterns p, other;
        pthread_t launcher, waker;
        open_parking_pool(&p);
        open_parking_pool(&other);
        atomic_store(&launches, 0);
        uint64_t held = vramwise_get_safe_moment_counts().held_launches;
        if (by_program)
            vramwise_safe_point_enter();
        assert_int_equal(vw_pool_park(p.t.pool, NULL, NULL), VW_OK);
        assert_int_equal(vw_pool_park(other.t.pool, NULL, NULL), VW_OK);
        if (by_program)
            vramwise_safe_point_leave();
        assert_false(vramwise_launch_gate_remove()); /* not for a profiler either */
        assert_int_equal(pthread_create(&launcher, NULL, launch, NULL), 0);
        while (vramwise_get_safe_moment_counts().held_launches == held)
            usleep(100);
        assert_int_equal(vw_pool_wake(other.t.pool, NULL, NULL), VW_OK);
        usleep(5000);
        assert_int_equal(launches, 0); /* one is parked still */
        assert_int_equal(pthread_create(&waker, NULL, wake, p.t.pool), 0);
        pthread_join(waker, NULL);
        pthread_join(launcher, NULL);
        assert_int_equal(launches, 1);
        launch(NULL);
        vw_test_patterns_close(&p);
        vw_test_patterns_close(&other);
    }
    assert_true(vramwise_launch_gate_remove());
}

static void without_a_gate_nothing_parks_and_why_is_said(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_parking_pool(&p);
    vramwise_safe_point_enter();
    assert_int_equal(vw_pool_park(p.t.pool, NULL, NULL), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "launch gate"));
    vramwise_safe_point_leave();
    assert_int_equal(vw_pool_park(p.t.pool, NULL, NULL), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "no safe moment"));
    vw_test_patterns_close(&p);
}

static void a_gate_that_comes_late_comes_for_parking(void **state)
{
    (void)state;
    for (int by_program = 0; by_program < 2; by_program++) {
        vw_test_patterns p;
        assert_true(vramwise_launch_gate_remove());
        vramwise_launch_gate_come_late(true);
        assert_int_equal(vramwise_get_launch_gate_state(NULL, 0), VRAMWISE_GATE_WAITS);
        open_parking_pool(&p);
        if (by_program)
            vramwise_safe_point_enter();
        assert_int_equal(vw_pool_park(p.t.pool, NULL, NULL), VW_OK);
        if (by_program)
            vramwise_safe_point_leave();
        assert_int_equal(vramwise_get_launch_gate_state(NULL, 0), VRAMWISE_GATE_ARMED);
        assert_int_equal(vw_pool_wake(p.t.pool, NULL, NULL), VW_OK);
        vw_test_patterns_close(&p);
    }
    assert_true(vramwise_launch_gate_remove());
}

/* The last: it is for good. */
static void a_program_that_ends_parked_is_not_held(void **state)
{
    (void)state;
    vw_test_patterns p;
    pthread_t launcher;
    install();
    open_parking_pool(&p);
    atomic_store(&launches, 0);
    uint64_t held = vramwise_get_safe_moment_counts().held_launches;
    assert_int_equal(vw_pool_park(p.t.pool, NULL, NULL), VW_OK);
    assert_int_equal(pthread_create(&launcher, NULL, launch, NULL), 0);
    while (vramwise_get_safe_moment_counts().held_launches == held)
        usleep(100);
    vramwise_end_holds();
    pthread_join(launcher, NULL);
    launch(NULL);
    assert_int_equal(launches, 2);
    assert_int_equal(vw_pool_wake(p.t.pool, NULL, NULL), VW_OK);
    assert_int_equal(vw_pool_park(p.t.pool, NULL, NULL), VW_ERR_WRONG_STATE); /* nothing holds */
    vw_test_patterns_close(&p);
}

int main(void)
{
    setenv("VRAMWISE_CUPTI", VW_FAKE_CUPTI, 1);
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_either_it_is_refused_and_counted, note_counts),
        cmocka_unit_test_setup(the_programs_word_is_enough_and_nests, note_counts),
        cmocka_unit_test_setup(the_programs_word_waits_for_all_devices, note_counts),
        cmocka_unit_test_setup(the_gate_grants_what_the_program_does_not, note_counts),
        cmocka_unit_test_setup(nobody_grants_while_a_graph_is_captured, note_counts),
        cmocka_unit_test_setup(a_pool_copies_where_it_is_granted_and_runs_out_where_not,
                               note_counts),
        cmocka_unit_test_setup(launches_are_held_while_a_pool_is_parked, note_counts),
        cmocka_unit_test_setup(without_a_gate_nothing_parks_and_why_is_said, note_counts),
        cmocka_unit_test_setup(a_gate_that_comes_late_comes_for_parking, note_counts),
        cmocka_unit_test_setup(a_program_that_ends_parked_is_not_held, note_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
