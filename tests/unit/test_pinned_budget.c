/* test_pinned_budget.c - one limit for all page-locked memory, whoever locks it. */
#include "base/pinned_budget.h"

#include <string.h>

#include "vramwise/pinned.h"

#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)

static vw_pinned_budget *make(uint64_t limit_bytes)
{
    vw_pinned_budget *budget = NULL;
    assert_int_equal(vw_pinned_budget_create(limit_bytes, &budget), VW_OK);
    return budget;
}

static vw_pinned_budget_stats stats_of(const vw_pinned_budget *budget)
{
    vw_pinned_budget_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pinned_budget_get(budget, &stats), VW_OK);
    return stats;
}

static void what_is_drawn_is_counted_up_to_the_last_byte(void **state)
{
    (void)state;
    vw_pinned_budget *budget = make(100);
    assert_true(vw__pinned_budget_draw(budget, 60));
    assert_false(vw__pinned_budget_draw(budget, 41));
    assert_true(vw__pinned_budget_draw(budget, 40));
    assert_false(vw__pinned_budget_draw(budget, 1));
    assert_false(vw__pinned_budget_draw(budget, UINT64_MAX));
    vw__pinned_budget_put_back(budget, 60);
    vw_pinned_budget_stats stats = stats_of(budget);
    assert_int_equal(stats.limit_bytes, 100);
    assert_int_equal(stats.used_bytes, 40);
    assert_int_equal(stats.peak_bytes, 100);
    assert_int_equal(stats.refusals, 3);
    vw_pinned_budget_destroy(budget);
}

static void without_a_budget_everything_can_be_drawn(void **state)
{
    (void)state;
    assert_true(vw__pinned_budget_draw(NULL, UINT64_MAX));
    vw__pinned_budget_put_back(NULL, UINT64_MAX);
    vw_pinned_budget_destroy(NULL);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    vw_pinned_budget *budget = NULL;
    vw_pinned_budget_stats stats = {.struct_size = 0};
    assert_int_equal(vw_pinned_budget_create(0, &budget), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pinned_budget_create(1, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_null(budget);
    budget = make(1);
    assert_int_equal(vw_pinned_budget_get(budget, &stats), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pinned_budget_get(budget, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pinned_budget_get(NULL, &stats), VW_ERR_INVALID_ARGUMENT);
    vw_pinned_budget_destroy(budget);
}

static void an_older_callers_statistics_are_not_written_beyond_their_end(void **state)
{
    (void)state;
    vw_pinned_budget *budget = make(5);
    vw_pinned_budget_stats stats;
    memset(&stats, 0x5a, sizeof stats);
    stats.struct_size = offsetof(vw_pinned_budget_stats, used_bytes);
    assert_int_equal(vw_pinned_budget_get(budget, &stats), VW_OK);
    assert_int_equal(stats.limit_bytes, 5);
    assert_true(stats.used_bytes == UINT64_C(0x5a5a5a5a5a5a5a5a));
    vw_pinned_budget_destroy(budget);
}

/* ---- pools that draw from it ----------------------------------------------------------------- */

static bool always(void *context)
{
    (void)context;
    return true;
}

static void leave(void *context)
{
    (void)context;
}

static void a_pinned_pool_and_spilled_memory_share_it(void **state)
{
    (void)state;
    vw_pinned_budget *budget = make(24 * MIB);
    vw_device *device = NULL;
    vw_pinned_pool *pinned = NULL;
    vw_pool *pool = NULL;
    vw_device_ptr address = VW_NULL;
    void *host = NULL, *more = NULL;
    const vw_pinned_options pinned_options = {.struct_size = sizeof pinned_options,
                                              .budget = budget};
    const vw_pool_options options = {.struct_size = sizeof options,
                                     .engine = "vramwise",
                                     .spill_bytes = 64 * MIB,
                                     .safe_point = {always, leave, NULL},
                                     .pinned_budget = budget};
    assert_int_equal(vw_host_device_create(32 * MIB, &device), VW_OK);
    assert_int_equal(vw_pinned_pool_create(device, &pinned_options, &pinned), VW_OK);
    assert_int_equal(vw_pool_create(device, &options, &pool), VW_OK);
    assert_int_equal(vw_pinned_alloc(pinned, 16 * MIB, &host), VW_OK);
    assert_int_equal(stats_of(budget).used_bytes, 16 * MIB);
    assert_int_equal(vw_pinned_alloc(pinned, 16 * MIB, &more), VW_ERR_HOST_MEMORY);
    assert_non_null(strstr(vw_last_error(), "left of its budget"));
    assert_int_equal(vw_alloc(pool, 24 * MIB, 0, &address), VW_OK);
    assert_int_equal(vw_alloc(pool, 24 * MIB, 0, &address), VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(vw_pinned_free(pinned, host), VW_OK);
    assert_int_equal(vw_pinned_trim(pinned), VW_OK); /* what is cached is locked as well */
    assert_int_equal(stats_of(budget).used_bytes, 0);
    assert_int_equal(vw_alloc(pool, 24 * MIB, 0, &address), VW_OK);
    assert_true(stats_of(budget).used_bytes >= 16 * MIB);
    assert_int_equal(vw_pinned_alloc(pinned, 16 * MIB, &host), VW_ERR_HOST_MEMORY);
    vw_pool_destroy(pool);
    assert_int_equal(stats_of(budget).used_bytes, 0);
    assert_int_equal(vw_device_fail_call(device, 1, VW_ERR_HOST_MEMORY), VW_OK);
    assert_int_equal(vw_pinned_alloc(pinned, MIB, &host), VW_ERR_HOST_MEMORY);
    assert_int_equal(stats_of(budget).used_bytes, 0);
    vw_pinned_pool_destroy(pinned);
    vw_device_destroy(device);
    vw_pinned_budget_destroy(budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_drawn_is_counted_up_to_the_last_byte),
        cmocka_unit_test(without_a_budget_everything_can_be_drawn),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(an_older_callers_statistics_are_not_written_beyond_their_end),
        cmocka_unit_test(a_pinned_pool_and_spilled_memory_share_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
