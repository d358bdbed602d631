/* test_pinned_budget.c - one limit for all page-locked memory, whoever locks it. */
#include "base/pinned_budget.h"

#include <string.h>

#include "headroom/pinned.h"

#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)

static hr_pinned_budget *make(uint64_t limit_bytes)
{
    hr_pinned_budget *budget = NULL;
    assert_int_equal(hr_pinned_budget_create(limit_bytes, &budget), HR_OK);
    return budget;
}

static hr_pinned_budget_stats stats_of(const hr_pinned_budget *budget)
{
    hr_pinned_budget_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(hr_pinned_budget_get(budget, &stats), HR_OK);
    return stats;
}

static void what_is_drawn_is_counted_up_to_the_last_byte(void **state)
{
    (void)state;
    hr_pinned_budget *budget = make(100);
    assert_true(hr__pinned_budget_draw(budget, 60));
    assert_false(hr__pinned_budget_draw(budget, 41));
    assert_true(hr__pinned_budget_draw(budget, 40));
    assert_false(hr__pinned_budget_draw(budget, 1));
    assert_false(hr__pinned_budget_draw(budget, UINT64_MAX));
    hr__pinned_budget_put_back(budget, 60);
    hr_pinned_budget_stats stats = stats_of(budget);
    assert_int_equal(stats.limit_bytes, 100);
    assert_int_equal(stats.used_bytes, 40);
    assert_int_equal(stats.peak_bytes, 100);
    assert_int_equal(stats.refusals, 3);
    hr_pinned_budget_destroy(budget);
}

static void without_a_budget_everything_can_be_drawn(void **state)
{
    (void)state;
    assert_true(hr__pinned_budget_draw(NULL, UINT64_MAX));
    hr__pinned_budget_put_back(NULL, UINT64_MAX);
    hr_pinned_budget_destroy(NULL);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    hr_pinned_budget *budget = NULL;
    hr_pinned_budget_stats stats = {.struct_size = 0};
    assert_int_equal(hr_pinned_budget_create(0, &budget), HR_ERR_INVALID_ARGUMENT);
    assert_int_equal(hr_pinned_budget_create(1, NULL), HR_ERR_INVALID_ARGUMENT);
    assert_null(budget);
    budget = make(1);
    assert_int_equal(hr_pinned_budget_get(budget, &stats), HR_ERR_INVALID_ARGUMENT);
    assert_int_equal(hr_pinned_budget_get(budget, NULL), HR_ERR_INVALID_ARGUMENT);
    assert_int_equal(hr_pinned_budget_get(NULL, &stats), HR_ERR_INVALID_ARGUMENT);
    hr_pinned_budget_destroy(budget);
}

static void an_older_callers_statistics_are_not_written_beyond_their_end(void **state)
{
    (void)state;
    hr_pinned_budget *budget = make(5);
    hr_pinned_budget_stats stats;
    memset(&stats, 0x5a, sizeof stats);
    stats.struct_size = offsetof(hr_pinned_budget_stats, used_bytes);
    assert_int_equal(hr_pinned_budget_get(budget, &stats), HR_OK);
    assert_int_equal(stats.limit_bytes, 5);
    assert_true(stats.used_bytes == UINT64_C(0x5a5a5a5a5a5a5a5a));
    hr_pinned_budget_destroy(budget);
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
    hr_pinned_budget *budget = make(24 * MIB);
    hr_device *device = NULL;
    hr_pinned_pool *pinned = NULL;
    hr_pool *pool = NULL;
    hr_device_ptr address = HR_NULL;
    void *host = NULL, *more = NULL;
    const hr_pinned_options pinned_options = {.struct_size = sizeof pinned_options,
                                              .budget = budget};
    const hr_pool_options options = {.struct_size = sizeof options,
                                     .engine = "headroom",
                                     .spill_bytes = 64 * MIB,
                                     .safe_point = {always, leave, NULL},
                                     .pinned_budget = budget};
    assert_int_equal(hr_host_device_create(32 * MIB, &device), HR_OK);
    assert_int_equal(hr_pinned_pool_create(device, &pinned_options, &pinned), HR_OK);
    assert_int_equal(hr_pool_create(device, &options, &pool), HR_OK);
    assert_int_equal(hr_pinned_alloc(pinned, 16 * MIB, &host), HR_OK);
    assert_int_equal(stats_of(budget).used_bytes, 16 * MIB);
    assert_int_equal(hr_pinned_alloc(pinned, 16 * MIB, &more), HR_ERR_HOST_MEMORY);
    assert_non_null(strstr(hr_last_error(), "left of its budget"));
    assert_int_equal(hr_alloc(pool, 24 * MIB, 0, &address), HR_OK);
    assert_int_equal(hr_alloc(pool, 24 * MIB, 0, &address), HR_ERR_OUT_OF_MEMORY);
    assert_int_equal(hr_pinned_free(pinned, host), HR_OK);
    assert_int_equal(hr_pinned_trim(pinned), HR_OK); /* what is cached is locked as well */
    assert_int_equal(stats_of(budget).used_bytes, 0);
    assert_int_equal(hr_alloc(pool, 24 * MIB, 0, &address), HR_OK);
    assert_true(stats_of(budget).used_bytes >= 16 * MIB);
    assert_int_equal(hr_pinned_alloc(pinned, 16 * MIB, &host), HR_ERR_HOST_MEMORY);
    hr_pool_destroy(pool);
    assert_int_equal(stats_of(budget).used_bytes, 0);
    assert_int_equal(hr_device_fail_call(device, 1, HR_ERR_HOST_MEMORY), HR_OK);
    assert_int_equal(hr_pinned_alloc(pinned, MIB, &host), HR_ERR_HOST_MEMORY);
    assert_int_equal(stats_of(budget).used_bytes, 0);
    hr_pinned_pool_destroy(pinned);
    hr_device_destroy(device);
    hr_pinned_budget_destroy(budget);
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
