/* test_paged_habit.c - empty_cache() in a loop: the first call gives everything back, later ones
 * keep what the program takes again, and every exception to that. */
#include "engine/paged/paged_habit.h"

#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/pool_fixture.h"

#define CARD (64 * VW_TEST_GIB)
#define MODEL (1 * VW_TEST_GIB)
#define WORK (256 * VW_TEST_MIB)

enum { MOST_BLOCKS = 16 };

typedef struct scene {
    vw_test_pool t;
    vw_device_ptr model;
} scene;

static void scene_open(scene *s)
{
    vw_test_pool_open(&s->t, &(vw_test_pool_setup){.engine = "vramwise", .capacity_bytes = CARD});
    s->model = vw_test_alloc(&s->t, MODEL);
}

static uint64_t reserved(const scene *s)
{
    return (uint64_t)vw_test_stats(&s->t).reserved_bytes.all.current;
}

static uint64_t kept_trims(const scene *s)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(s->t.pool, &stats), VW_OK);
    return stats.kept_trims;
}

/* A step of the program: so many blocks, all live at once, and then none. */
static void work(scene *s, size_t count)
{
    vw_device_ptr blocks[MOST_BLOCKS];
    assert_true(count <= MOST_BLOCKS);
    for (size_t i = 0; i < count; i++)
        blocks[i] = vw_test_alloc(&s->t, WORK);
    for (size_t i = 0; i < count; i++)
        vw_test_free(&s->t, blocks[i]);
}

/* Until the engine has seen that the program takes its memory again. */
static void get_the_habit(scene *s)
{
    work(s, 8);
    vw_test_trim(&s->t);
    work(s, 8);
    vw_test_trim(&s->t);
    assert_int_equal(kept_trims(s), 1);
}

static void the_first_call_gives_everything_back(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    work(&s, 8);
    assert_true(reserved(&s) >= MODEL + 8 * WORK);
    vw_test_trim(&s.t);
    assert_int_equal(reserved(&s), MODEL);
    assert_int_equal(kept_trims(&s), 0);
    vw_test_pool_close(&s.t);
}

static void what_is_taken_again_is_kept_and_counts_as_reserved(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    get_the_habit(&s);
    assert_true(reserved(&s) >= MODEL + 8 * WORK);
    assert_int_equal(reserved(&s), vw_test_calls(&s.t).in_use_bytes);
    vw_device_calls before = vw_test_calls(&s.t);
    for (int i = 0; i < 20; i++) {
        work(&s, 8);
        vw_test_trim(&s.t);
    }
    vw_device_calls after = vw_test_calls(&s.t);
    assert_int_equal(after.count[VW_DEVICE_CALL_CREATE], before.count[VW_DEVICE_CALL_CREATE]);
    assert_int_equal(after.count[VW_DEVICE_CALL_RELEASE], before.count[VW_DEVICE_CALL_RELEASE]);
    assert_int_equal(kept_trims(&s), 21);
    vw_test_pool_close(&s.t);
}

static void two_calls_in_a_row_give_everything_back(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    get_the_habit(&s);
    vw_test_trim(&s.t);
    assert_int_equal(reserved(&s), MODEL);
    vw_test_pool_close(&s.t);
}

/* What is given back for others in between is not the program's doing. */
static void two_calls_in_a_row_are_so_with_slices_between_them(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    get_the_habit(&s);
    vw__engine *engine = s.t.pool->engine;
    vw__engine_slice slice = {.wanted_bytes = 1, .most_handles = 1};
    vw_test_ok(&s.t, engine->table->give_back(engine, &slice));
    vw_test_trim(&s.t);
    assert_int_equal(reserved(&s), MODEL);
    vw_test_pool_close(&s.t);
}

static void a_model_that_is_deleted_goes_back_at_once(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    get_the_habit(&s);
    work(&s, 8);
    vw_test_free(&s.t, s.model);
    vw_test_trim(&s.t);
    assert_int_equal(reserved(&s), 0);
    vw_test_pool_close(&s.t);
}

/* A notebook that makes and deletes everything, time and again. */
static void a_program_with_nothing_live_gets_no_habit(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    vw_test_free(&s.t, s.model);
    for (int i = 0; i < 5; i++) {
        work(&s, 8);
        vw_test_trim(&s.t);
        assert_int_equal(reserved(&s), 0);
    }
    vw_test_pool_close(&s.t);
}

static void a_program_that_does_not_take_it_again_gets_no_habit(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    work(&s, 16);
    vw_test_trim(&s.t);
    work(&s, 4);
    vw_test_trim(&s.t);
    assert_int_equal(reserved(&s), MODEL);
    assert_int_equal(kept_trims(&s), 0);
    vw_test_pool_close(&s.t);
}

/* An eighth of the difference at each call, until it is all gone. */
static void what_is_no_longer_taken_goes_back_little_by_little(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    work(&s, 16);
    vw_test_trim(&s.t);
    work(&s, 16);
    vw_test_trim(&s.t);
    uint64_t before_bytes = reserved(&s);
    for (int i = 0; i < 12; i++) {
        work(&s, 8);
        vw_test_trim(&s.t);
        assert_true(reserved(&s) <= before_bytes);
        assert_true(reserved(&s) >= MODEL + 8 * WORK);
        before_bytes = reserved(&s);
    }
    assert_true(before_bytes <= MODEL + 9 * WORK);
    assert_true(kept_trims(&s) >= 12);
    vw_test_pool_close(&s.t);
}

static void a_device_that_is_short_of_memory_gets_it_back(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    get_the_habit(&s);
    work(&s, 8);
    assert_int_equal(vw_device_set_capacity(s.t.device, 4 * VW_TEST_GIB), VW_OK);
    vw_test_trim(&s.t);
    assert_int_equal(reserved(&s), MODEL);
    vw_test_pool_close(&s.t);
}

static void few_handles_are_not_worth_keeping(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    for (int i = 0; i < 4; i++) {
        vw_test_free(&s.t, vw_test_alloc(&s.t, 8 * VW_TEST_MIB));
        vw_test_trim(&s.t);
        assert_int_equal(reserved(&s), MODEL);
    }
    assert_int_equal(kept_trims(&s), 0);
    vw_test_pool_close(&s.t);
}

/* The memory of a private pool that nobody uses any more is not the program's to take again. */
static void the_memory_of_an_ended_private_pool_goes_back(void **state)
{
    (void)state;
    const vw_private_id id = {1, 0};
    scene s;
    scene_open(&s);
    get_the_habit(&s);
    vw_test_ok(&s.t, vw_private_pool_begin(s.t.pool, id, NULL, NULL));
    vw_device_ptr block = vw_test_alloc(&s.t, WORK);
    vw_test_ok(&s.t, vw_private_pool_end(s.t.pool, id));
    vw_test_free(&s.t, block);
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, id));
    work(&s, 8);
    vw_test_trim(&s.t);
    assert_int_equal(reserved(&s), MODEL);
    vw_test_pool_close(&s.t);
}

/* Users and the engine look at one peak, and begin anew at different times. */
static void the_peaks_that_users_see_are_their_own(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    work(&s, 8);
    vw_test_trim(&s.t);
    const int64_t peak = (int64_t)(MODEL + 8 * WORK);
    assert_int_equal(vw_test_stats(&s.t).active_bytes.all.peak, peak);
    work(&s, 2);
    assert_int_equal(vw_test_stats(&s.t).active_bytes.all.peak, peak);
    vw_test_ok(&s.t, vw_pool_reset_peaks(s.t.pool));
    assert_int_equal(vw_test_stats(&s.t).active_bytes.all.peak, MODEL);
    work(&s, 4);
    vw_test_trim(&s.t);
    assert_int_equal(vw_test_stats(&s.t).active_bytes.all.peak, MODEL + 4 * WORK);
    assert_int_equal(vw_test_stats(&s.t).allocated_bytes.all.peak, MODEL + 4 * WORK);
    vw_test_pool_close(&s.t);
}

static void a_reset_of_peaks_hides_no_use_from_the_engine(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    work(&s, 8);
    vw_test_trim(&s.t);
    work(&s, 8);
    vw_test_ok(&s.t, vw_pool_reset_peaks(s.t.pool));
    vw_test_trim(&s.t);
    assert_int_equal(kept_trims(&s), 1);
    assert_true(reserved(&s) >= MODEL + 8 * WORK);
    vw_test_pool_close(&s.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_call_gives_everything_back),
        cmocka_unit_test(what_is_taken_again_is_kept_and_counts_as_reserved),
        cmocka_unit_test(two_calls_in_a_row_give_everything_back),
        cmocka_unit_test(two_calls_in_a_row_are_so_with_slices_between_them),
        cmocka_unit_test(a_model_that_is_deleted_goes_back_at_once),
        cmocka_unit_test(a_program_with_nothing_live_gets_no_habit),
        cmocka_unit_test(a_program_that_does_not_take_it_again_gets_no_habit),
        cmocka_unit_test(what_is_no_longer_taken_goes_back_little_by_little),
        cmocka_unit_test(a_device_that_is_short_of_memory_gets_it_back),
        cmocka_unit_test(few_handles_are_not_worth_keeping),
        cmocka_unit_test(the_memory_of_an_ended_private_pool_goes_back),
        cmocka_unit_test(the_peaks_that_users_see_are_their_own),
        cmocka_unit_test(a_reset_of_peaks_hides_no_use_from_the_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
