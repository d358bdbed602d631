/* test_paged_return.c - memory that left the device comes back: within the step, or after quiet
 * ones. */
#include "engine/paged/paged_spill.h"

#include "support/spilling_pool.h"

/* ---- by steps -------------------------------------------------------------------------------- */

static void what_left_comes_back_after_quiet_steps_with_room(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
    vw_device_ptr kept = hold(&p, 30 * MIB);
    vw_test_ok(&p.t, vw_advise(p.t.pool, kept, VW_ADVISE_COLD));
    vw_device_ptr passing[2] = {hold(&p, 30 * MIB), hold(&p, 20 * MIB)};
    uint64_t out_bytes = spilled_bytes(&p);
    assert_true(out_bytes > 0);
    mark_steps(&p, 2 * PATIENCE); /* what is live fits on the device no better than before */
    assert_int_equal(spilled_bytes(&p), out_bytes);
    vw_test_let_go(&p, passing[0]);
    vw_test_let_go(&p, passing[1]);
    mark_steps(&p, 1); /* the window in which they were live */
    mark_steps(&p, PATIENCE - 1);
    mark_steps(&p, PATIENCE);
    vw_paged_stats stats = vw_test_paged_stats(&p);
    assert_int_equal(stats.spilled_bytes, 0);
    assert_int_equal(stats.returned_bytes, out_bytes);
    assert_int_equal(stats.returns, 1);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

/* Every step needs the device once, and is idle at its end: nothing may come back. */
static void a_step_whose_peak_fills_the_device_keeps_it_on_the_host(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
    vw_device_ptr kept = hold(&p, 30 * MIB);
    vw_test_ok(&p.t, vw_advise(p.t.pool, kept, VW_ADVISE_COLD));
    for (int step = 0; step < 4 * PATIENCE; step++) {
        vw_device_ptr first = hold(&p, 40 * MIB), second = hold(&p, 16 * MIB);
        vw_test_let_go(&p, first);
        vw_test_let_go(&p, second);
        mark_steps(&p, 1);
    }
    vw_paged_stats stats = vw_test_paged_stats(&p);
    assert_int_equal(stats.returns, 0);
    assert_true(stats.spills <= 3); /* none after the first step */
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

/* Once, though it is not enough. */
static bool gives_once(void *context, uint64_t size_bytes)
{
    int *times = context;
    (void)size_bytes;
    return (*times)++ == 0;
}

/* Steps that leave a 32nd of the device free: that is enough where the program makes room itself,
 * since it fills the device more than others dare to. */
static void less_has_to_stay_free_where_the_program_makes_room(void **state)
{
    (void)state;
    for (int has_help = 0; has_help < 2; has_help++) {
        int times = has_help ? 0 : 1;
        vw_test_patterns p;
        vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise",
                                                        .capacity_bytes = 64 * MIB,
                                                        .spill_bytes = 64 * MIB,
                                                        .on_host = true,
                                                        .make_room = gives_once,
                                                        .make_room_context = &times});
        vw_device_ptr kept = hold(&p, 30 * MIB);
        vw_test_ok(&p.t, vw_advise(p.t.pool, kept, VW_ADVISE_COLD));
        vw_test_let_go(&p, hold(&p, 60 * MIB));
        assert_true(spilled_bytes(&p) > 0);
        for (int step = 0; step < 3 * PATIENCE; step++) {
            vw_test_let_go(&p, hold(&p, 32 * MIB));
            mark_steps(&p, 1);
        }
        assert_int_equal(spilled_bytes(&p) == 0, has_help);
        assert_nothing_is_lost(&p);
        vw_test_patterns_close(&p);
    }
}

/* Phases that change just after memory has come back: each return is regretted, and the next takes
 * twice as long. */
static void a_return_that_is_regretted_makes_the_next_one_later(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
    vw_device_ptr kept = hold(&p, 30 * MIB);
    vw_test_ok(&p.t, vw_advise(p.t.pool, kept, VW_ADVISE_COLD));
    int waited[3] = {0};
    for (int round = 0; round < 3; round++) {
        vw_device_ptr large = hold(&p, 50 * MIB);
        assert_true(spilled_bytes(&p) > 0);
        vw_test_let_go(&p, large);
        mark_steps(&p, 1); /* the step it was live in */
        while (spilled_bytes(&p) != 0 && waited[round] < 200) {
            mark_steps(&p, 1);
            waited[round]++;
        }
        assert_int_equal(vw_test_paged_stats(&p).returns, round + 1);
    }
    assert_true(waited[1] > waited[0]);
    assert_true(waited[2] > waited[1]);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

static void hot_blocks_come_back_first(void **state)
{
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
    vw_device_ptr hot = hold(&p, 16 * MIB), cold = hold(&p, 16 * MIB);
    vw_device_ptr large = hold(&p, 60 * MIB);
    assert_true(spilled_bytes(&p) >= 28 * MIB);
    vw_test_let_go(&p, large);
    hold(&p, 34 * MIB); /* room for one of the two */
    vw_test_ok(&p.t, vw_advise(p.t.pool, hot, VW_ADVISE_HOT));
    vw_test_ok(&p.t, vw_advise(p.t.pool, cold, VW_ADVISE_COLD));
    mark_steps(&p, 3 * PATIENCE);
    assert_true(is_on_host(&p, cold));
    assert_false(is_on_host(&p, hot));
    vw_test_patterns_close(&p);
}

/* ---- within a step --------------------------------------------------------------------------- */

/* Three blocks of the step on a full device, and a fourth: the first has to leave. */
static vw_device_ptr fill_up(vw_test_patterns *p, vw_advice advice, vw_device_ptr others[3])
{
    open_pool(p, "vramwise", 64 * MIB, 64 * MIB);
    mark_steps(p, 2);
    vw_device_ptr first = hold(p, 20 * MIB);
    vw_test_ok(&p->t, vw_advise(p->t.pool, first, advice));
    for (int i = 0; i < 2; i++) {
        others[i] = hold(p, 20 * MIB);
        vw_test_ok(&p->t, vw_pool_pin(p->t.pool, others[i]));
    }
    others[2] = hold(p, 20 * MIB);
    for (int i = 0; i < 2; i++)
        vw_test_ok(&p->t, vw_pool_unpin(p->t.pool, others[i]));
    assert_true(is_on_host(p, first));
    return first;
}

/* Requests that are hits, without the fixture's looks: there are many. */
static void pass_time(vw_test_patterns *p, int requests)
{
    for (int i = 0; i < requests; i++) {
        vw_device_ptr block = VW_NULL;
        assert_int_equal(vw_alloc(p->t.pool, 1000, 0, &block), VW_OK);
        assert_int_equal(vw_free(p->t.pool, block), VW_OK);
    }
}

static void what_belongs_to_the_step_comes_back_as_soon_as_there_is_room(void **state)
{
    static const vw_advice kinds[] = {VW_ADVISE_NORMAL, VW_ADVISE_HOT};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        vw_test_patterns p;
        vw_device_ptr others[3];
        fill_up(&p, kinds[i], others);
        uint64_t out_bytes = spilled_bytes(&p);
        assert_true(out_bytes >= 16 * MIB);
        hold(&p, 1000); /* as full as before */
        assert_int_equal(spilled_bytes(&p), out_bytes);
        vw_test_let_go(&p, others[2]);
        assert_int_equal(spilled_bytes(&p), out_bytes); /* a free calls no driver */
        vw_test_let_go(&p,
                       hold(&p, 1000)); /* 20 MiB are room for them, but not for a share besides */
        assert_int_equal(spilled_bytes(&p), out_bytes);
        vw_test_let_go(&p, others[1]);
        hold(&p, 1000);
        vw_paged_stats stats = vw_test_paged_stats(&p);
        assert_int_equal(stats.spilled_bytes, 0);
        assert_int_equal(stats.returns, 1);
        assert_nothing_is_lost(&p);
        vw_test_patterns_close(&p);
    }
}

static void what_is_cold_or_settled_stays_on_the_host_within_a_step(void **state)
{
    (void)state;
    for (int is_settled = 0; is_settled < 2; is_settled++) {
        vw_test_patterns p;
        open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
        vw_device_ptr kept = hold(&p, 30 * MIB);
        vw_test_ok(&p.t, vw_advise(p.t.pool, kept, is_settled ? VW_ADVISE_NORMAL : VW_ADVISE_COLD));
        mark_steps(&p, 2);
        vw_device_ptr large = hold(&p, 50 * MIB);
        uint64_t out_bytes = spilled_bytes(&p);
        assert_true(out_bytes > 0);
        vw_test_let_go(&p, large);
        hold(&p, 1000);
        assert_int_equal(spilled_bytes(&p), out_bytes);
        assert_int_equal(vw_test_paged_stats(&p).returns, 0);
        assert_nothing_is_lost(&p);
        vw_test_patterns_close(&p);
    }
}

/* Temporaries that come and go, each of which needs the device: coming back in between is tried
 * ever more seldom. */
static void coming_back_between_two_peaks_is_given_up(void **state)
{
    enum { PEAKS = 200 };
    (void)state;
    vw_test_patterns p;
    open_pool(&p, "vramwise", 64 * MIB, 64 * MIB);
    p.is_sparse = true;
    mark_steps(&p, 2);
    hold(&p, 30 * MIB);
    for (int i = 0; i < PEAKS; i++) {
        vw_device_ptr peak = hold(&p, 44 * MIB);
        vw_test_let_go(&p, peak);
        vw_test_let_go(&p, hold(&p, 1000));
    }
    vw_paged_stats stats = vw_test_paged_stats(&p);
    assert_true(stats.returns >= 1);
    assert_true(stats.returns <= 10);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

/* A block that is hot, and peaks that need its room, so many requests apart. Without bytes: there
 * are hundreds. */
static void open_with_hot(vw_test_patterns *p)
{
    vw_test_patterns_open(p, &(vw_test_pool_setup){.engine = "vramwise",
                                                   .capacity_bytes = 64 * MIB,
                                                   .spill_bytes = 64 * MIB});
    vw_device_ptr hot = hold(p, 30 * MIB);
    vw_test_ok(&p->t, vw_advise(p->t.pool, hot, VW_ADVISE_HOT));
}

static void peak_and_pass_time(vw_test_patterns *p, int requests)
{
    vw_device_ptr peak = VW_NULL;
    assert_int_equal(vw_alloc(p->t.pool, 44 * MIB, 0, &peak), VW_OK);
    assert_int_equal(vw_free(p->t.pool, peak), VW_OK);
    pass_time(p, requests);
}

/* How often a hundred peaks let it come back, in steps of `peaks`; 0: no steps are marked. */
static uint64_t returns_with(int requests, int peaks)
{
    enum { ALL = 100 };
    vw_test_patterns p;
    open_with_hot(&p);
    for (int i = 1; i <= ALL; i++) {
        peak_and_pass_time(&p, requests);
        if (peaks != 0 && i % peaks == 0)
            mark_steps(&p, 1);
    }
    uint64_t returns = vw_test_paged_stats(&p).returns;
    vw_test_ok(&p.t, VW_OK);
    vw_test_patterns_close(&p);
    return returns;
}

/* Moving it there and back is worth some hundred requests, and not more than a few times a step. */
static void how_soon_is_too_early_goes_by_the_step(void **state)
{
    (void)state;
    assert_in_range(returns_with(120, 0), 1, 10);
    assert_int_equal(returns_with(400, 0), 100);
    assert_in_range(returns_with(120, 25), 1, 15);  /* layers */
    assert_in_range(returns_with(120, 5), 90, 100); /* parts of a batch; two steps have to tell */
    assert_in_range(returns_with(120, 1), 90, 100);
}

/* Then it has to leave but once a step, and is to be there again for most of it. */
static void patience_is_forgotten_when_the_program_is_calmer(void **state)
{
    enum { UNQUIET = 200, STEPS = 80, HALF = 300 };
    (void)state;
    vw_test_patterns p;
    open_with_hot(&p);
    mark_steps(&p, 2);
    for (int i = 0; i < UNQUIET; i++)
        peak_and_pass_time(&p, 10);
    assert_true(spilled_bytes(&p) > 0);
    for (int i = 0; i < STEPS; i++) {
        peak_and_pass_time(&p, HALF);
        if (i >= STEPS - 5)
            assert_int_equal(spilled_bytes(&p), 0);
        pass_time(&p, HALF);
        mark_steps(&p, 1);
    }
    vw_test_ok(&p.t, VW_OK);
    vw_test_patterns_close(&p);
}

static void without_a_safe_point_the_request_is_served_all_the_same(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr others[3];
    fill_up(&p, VW_ADVISE_NORMAL, others);
    uint64_t out_bytes = spilled_bytes(&p);
    p.refuses = true;
    vw_test_let_go(&p, others[1]);
    vw_test_let_go(&p, others[2]);
    for (int i = 0; i < 100; i++)
        vw_test_let_go(&p, hold(&p, 1000));
    assert_int_equal(spilled_bytes(&p), out_bytes);
    assert_in_range(vw_test_paged_stats(&p).refused_spills, 1, 5);
    p.refuses = false;
    for (int i = 0; i < 400; i++)
        vw_test_let_go(&p, hold(&p, 1000));
    assert_int_equal(spilled_bytes(&p), 0);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

/* There was room, and then nothing that wants it. */
static void what_is_freed_before_it_comes_back_costs_no_moment(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr others[3];
    vw_device_ptr first = fill_up(&p, VW_ADVISE_NORMAL, others);
    vw_test_let_go(&p, others[1]);
    vw_test_let_go(&p, others[2]);
    vw_test_let_go(&p, first);
    assert_int_equal(spilled_bytes(&p), 0);
    unsigned asked = p.asked;
    pass_time(&p, 3);
    assert_int_equal(p.asked, asked);
    vw_test_patterns_close(&p);
}

/* It cannot come back until others are done with it: that is looked for ever more seldom, since
 * each look stops the program. */
static void what_is_pinned_on_the_host_is_asked_for_ever_more_seldom(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr others[3];
    vw_device_ptr first = fill_up(&p, VW_ADVISE_NORMAL, others);
    vw_test_ok(&p.t, vw_pool_pin(p.t.pool, first));
    vw_test_let_go(&p, others[1]);
    vw_test_let_go(&p, others[2]);
    unsigned asked = p.asked;
    pass_time(&p, 4000);
    assert_in_range(p.asked - asked, 2, 8);
    assert_true(spilled_bytes(&p) > 0);
    vw_test_ok(&p.t, vw_pool_unpin(p.t.pool, first));
    pass_time(&p, 8000);
    assert_int_equal(spilled_bytes(&p), 0);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

/* Everything but a request is as ever; a fixture that closes ends the pool without one. */
static void what_is_due_may_wait_for_ever(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr others[3];
    fill_up(&p, VW_ADVISE_NORMAL, others);
    uint64_t out_bytes = spilled_bytes(&p);
    vw_test_let_go(&p, others[1]);
    vw_test_let_go(&p, others[2]);
    vw_test_ok(&p.t, vw_pool_trim(p.t.pool));
    vw_test_ok(&p.t, vw_pool_pin(p.t.pool, others[0]));
    vw_test_ok(&p.t, vw_pool_unpin(p.t.pool, others[0]));
    vw_test_ok(&p.t, vw_pool_set_fraction(p.t.pool, 0.9));
    assert_int_equal(spilled_bytes(&p), out_bytes);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

static vw_device_ptr freed_meanwhile;

/* Another thread gives memory back, and its request is the first to have its moment. */
static void return_before_it(vw_test_patterns *p)
{
    p->when_asked = NULL;
    vw_test_let_go(p, freed_meanwhile);
    hold(p, 1000);
    assert_int_equal(spilled_bytes(p), 0);
}

static void two_that_return_at_once_do_it_once(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr others[3];
    fill_up(&p, VW_ADVISE_NORMAL, others);
    unsigned asked = p.asked;
    vw_test_let_go(&p, others[1]);
    vw_test_let_go(&p, others[2]);
    freed_meanwhile = others[0];
    p.when_asked = return_before_it;
    hold(&p, 1000);
    assert_int_equal(p.asked - asked, 2);
    assert_int_equal(vw_test_paged_stats(&p).returns, 1);
    pass_time(&p, 100);
    assert_int_equal(p.asked - asked, 2);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

static void take_the_room(vw_test_patterns *p)
{
    p->when_asked = NULL;
    hold(p, 30 * MIB);
}

static void room_that_others_took_meanwhile_is_left_to_them(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr others[3];
    fill_up(&p, VW_ADVISE_NORMAL, others);
    uint64_t out_bytes = spilled_bytes(&p);
    vw_test_let_go(&p, others[1]);
    vw_test_let_go(&p, others[2]);
    p.when_asked = take_the_room;
    hold(&p, 1000);
    assert_int_equal(spilled_bytes(&p), out_bytes);
    assert_int_equal(vw_test_paged_stats(&p).returns, 0);
    assert_nothing_is_lost(&p);
    vw_test_patterns_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_left_comes_back_after_quiet_steps_with_room),
        cmocka_unit_test(less_has_to_stay_free_where_the_program_makes_room),
        cmocka_unit_test(a_step_whose_peak_fills_the_device_keeps_it_on_the_host),
        cmocka_unit_test(a_return_that_is_regretted_makes_the_next_one_later),
        cmocka_unit_test(hot_blocks_come_back_first),
        cmocka_unit_test(what_belongs_to_the_step_comes_back_as_soon_as_there_is_room),
        cmocka_unit_test(what_is_cold_or_settled_stays_on_the_host_within_a_step),
        cmocka_unit_test(coming_back_between_two_peaks_is_given_up),
        cmocka_unit_test(how_soon_is_too_early_goes_by_the_step),
        cmocka_unit_test(patience_is_forgotten_when_the_program_is_calmer),
        cmocka_unit_test(without_a_safe_point_the_request_is_served_all_the_same),
        cmocka_unit_test(what_is_freed_before_it_comes_back_costs_no_moment),
        cmocka_unit_test(what_is_pinned_on_the_host_is_asked_for_ever_more_seldom),
        cmocka_unit_test(what_is_due_may_wait_for_ever),
        cmocka_unit_test(two_that_return_at_once_do_it_once),
        cmocka_unit_test(room_that_others_took_meanwhile_is_left_to_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
