/* test_checked_math.c - results that fit, and results that do not. */
#include "base/checked_math.h"

#include "support/cmocka_here.h"

static void a_result_that_fits_is_stored(void **state)
{
    (void)state;
    uint64_t out = 77;
    assert_true(vw__add_u64(UINT64_MAX - 1, 1, &out));
    assert_true(out == UINT64_MAX);
    assert_true(vw__sub_u64(5, 5, &out));
    assert_true(out == 0);
    assert_true(vw__sub_u64(UINT64_MAX, 1, &out));
    assert_true(out == UINT64_MAX - 1);
    assert_true(vw__mul_u64(UINT32_MAX, UINT32_MAX, &out));
    assert_true(out == UINT64_C(0xFFFFFFFE00000001));
    assert_true(vw__mul_u64(0, UINT64_MAX, &out));
    assert_true(out == 0);
}

static void a_result_that_does_not_fit_is_refused_and_the_output_untouched(void **state)
{
    (void)state;
    uint64_t out = 77;
    assert_false(vw__add_u64(UINT64_MAX, 1, &out));
    assert_false(vw__sub_u64(5, 6, &out));
    assert_false(vw__mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_false(vw__align_up_u64(UINT64_MAX, 512, &out));
    assert_int_equal(out, 77);
}

static void the_output_may_be_an_input(void **state)
{
    (void)state;
    uint64_t value = 6;
    assert_true(vw__mul_u64(value, 7, &value));
    assert_true(vw__add_u64(value, value, &value));
    assert_true(vw__sub_u64(value, 4, &value));
    assert_int_equal(value, 80);
}

static void aligning_goes_to_the_nearest_multiple_on_its_side(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= 12; step++) {
        for (uint64_t value = 0; value < 100; value++) {
            uint64_t up = 77;
            assert_true(vw__align_up_u64(value, step, &up));
            assert_true(up % step == 0 && up >= value && up - value < step);
            uint64_t down = vw__align_down_u64(value, step);
            assert_true(down % step == 0 && down <= value && value - down < step);
            assert_int_equal(vw__ceil_div_u64(value, step), up / step);
        }
    }
    uint64_t up = 77;
    assert_true(vw__align_up_u64(UINT64_MAX - 511, 512, &up));
    assert_true(up == UINT64_MAX - 511);
    assert_true(vw__ceil_div_u64(UINT64_MAX, 2) == UINT64_C(1) << 63);
}

static void logarithms_are_exact_around_every_power_of_two(void **state)
{
    (void)state;
    assert_int_equal(vw__floor_log2_u64(1), 0);
    assert_int_equal(vw__ceil_log2_u64(1), 0);
    assert_false(vw__is_power_of_two_u64(0));
    for (unsigned log2 = 2; log2 < 64; log2++) {
        uint64_t power = UINT64_C(1) << log2;
        assert_int_equal(vw__floor_log2_u64(power - 1), log2 - 1);
        assert_int_equal(vw__floor_log2_u64(power), log2);
        assert_int_equal(vw__floor_log2_u64(power + 1), log2);
        assert_int_equal(vw__ceil_log2_u64(power - 1), log2);
        assert_int_equal(vw__ceil_log2_u64(power), log2);
        assert_int_equal(vw__ceil_log2_u64(power + 1), log2 + 1);
        assert_true(vw__is_power_of_two_u64(power));
        assert_false(vw__is_power_of_two_u64(power - 1));
        assert_false(vw__is_power_of_two_u64(power + 1));
    }
}

static void narrowing_keeps_the_value_or_refuses(void **state)
{
    (void)state;
    size_t size = 77;
    assert_true(vw__narrow_size(SIZE_MAX, &size));
    assert_true(size == SIZE_MAX);
}

static void the_smaller_and_the_larger_are_told_apart_as_unsigned(void **state)
{
    (void)state;
    assert_true(vw__min_u64(UINT64_MAX, 1) == 1);
    assert_true(vw__min_u64(1, UINT64_MAX) == 1);
    assert_true(vw__max_u64(UINT64_MAX, 1) == UINT64_MAX);
    assert_true(vw__max_u64(1, UINT64_MAX) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_that_fits_is_stored),
        cmocka_unit_test(a_result_that_does_not_fit_is_refused_and_the_output_untouched),
        cmocka_unit_test(the_output_may_be_an_input),
        cmocka_unit_test(aligning_goes_to_the_nearest_multiple_on_its_side),
        cmocka_unit_test(logarithms_are_exact_around_every_power_of_two),
        cmocka_unit_test(narrowing_keeps_the_value_or_refuses),
        cmocka_unit_test(the_smaller_and_the_larger_are_told_apart_as_unsigned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
