/* test_torch_rounding.c - block sizes, segment sizes and limits, with PyTorch's numbers. */
#include "engine/torch/torch_rounding.h"

#include <string.h>

#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static vw__torch_settings with(int version, const char *text)
{
    vw__torch_rules rules;
    vw__torch_settings settings;
    vw__torch_settings_init(&settings);
    assert_int_equal(vw__torch_rules_for(version, &rules), VW_OK);
    assert_int_equal(
        vw__torch_settings_apply(&settings, &rules, text, VW__TORCH_SETTINGS_LIKE_TORCH), VW_OK);
    return settings;
}

/* One size under a string, and the string's memory given back. */
static uint64_t rounded(int version, const char *text, uint64_t requested_bytes)
{
    vw__torch_settings settings = with(version, text);
    uint64_t block_bytes = vw__torch_round_size(&settings, requested_bytes);
    vw__torch_settings_deinit(&settings);
    return block_bytes;
}

static uint64_t segment(const char *text, uint64_t block_bytes)
{
    vw__torch_settings settings = with(211, text);
    uint64_t segment_bytes = vw__torch_segment_size(&settings, block_bytes);
    vw__torch_settings_deinit(&settings);
    return segment_bytes;
}

static void plain_sizes_go_up_to_the_grid_of_512(void **state)
{
    (void)state;
    vw__torch_settings settings;
    vw__torch_settings_init(&settings);
    assert_false(settings.has_roundup);
    assert_int_equal(vw__torch_round_size(&settings, 0), 512);
    assert_int_equal(vw__torch_round_size(&settings, 1), 512);
    assert_int_equal(vw__torch_round_size(&settings, 511), 512);
    assert_int_equal(vw__torch_round_size(&settings, 512), 512);
    assert_int_equal(vw__torch_round_size(&settings, 513), 1024);
    assert_int_equal(vw__torch_round_size(&settings, 1048576), 1048576);
    assert_int_equal(vw__torch_round_size(&settings, 1048577), 1049088);
    assert_int_equal(vw__torch_round_size(&settings, 10485761), 10486272);
    uint64_t most = VW__TORCH_MOST_REQUESTED_BYTES;
    assert_int_equal(vw__torch_round_size(&settings, most - 1), most);
}

static void four_divisions_give_the_numbers_of_the_reference(void **state)
{
    (void)state;
    const char *four = "roundup_power2_divisions:4";
    const struct {
        uint64_t requested, block;
    } cases[] = {
        {1, 512},           {512, 512},         {513, 1024},        {1200, 1536},
        {2048, 2048},       {2049, 2560},       {1310721, 1572864}, {104857600, 117440512},
        {3 * MIB, 3 * MIB}, {4 * MIB, 4 * MIB},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(rounded(211, four, cases[i].requested), cases[i].block);
}

static void division_ceilings_are_the_next_step_up(void **state)
{
    (void)state;
    assert_int_equal(vw__torch_pow2_division_ceiling(2049, 4), 2560);
    assert_int_equal(vw__torch_pow2_division_ceiling(1310721, 4), 1572864);
    assert_int_equal(vw__torch_pow2_division_ceiling(100 * MIB, 4), 112 * MIB);
    assert_int_equal(vw__torch_pow2_division_ceiling(3 * MIB, 4), 3 * MIB);
    assert_int_equal(vw__torch_pow2_division_ceiling(64, 2), 64);
    assert_int_equal(vw__torch_pow2_division_ceiling(3, 8), 4); /* no step left: the next power */
    assert_int_equal(vw__torch_pow2_division_ceiling(5, UINT64_C(1) << 63), 8);
}

static void the_table_is_entered_by_the_power_of_two_below(void **state)
{
    (void)state;
    assert_int_equal(vw__torch_roundup_index(1), 0);
    assert_int_equal(vw__torch_roundup_index(MIB), 0);
    assert_int_equal(vw__torch_roundup_index(2 * MIB - 1), 0);
    assert_int_equal(vw__torch_roundup_index(2 * MIB), 1);
    assert_int_equal(vw__torch_roundup_index(4 * MIB - 1), 1);
    assert_int_equal(vw__torch_roundup_index(256 * MIB), 8);
    assert_int_equal(vw__torch_roundup_index(32 * GIB - 1), 14);
    assert_int_equal(vw__torch_roundup_index(32 * GIB), 15);
    assert_int_equal(vw__torch_roundup_index(UINT64_MAX), 15);
}

static void each_interval_of_a_list_rounds_by_its_own_count(void **state)
{
    (void)state;
    const char *list = "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]";
    assert_int_equal(rounded(211, list, 300 * MIB + 1), 300 * MIB + 512);
    assert_int_equal(rounded(211, list, 513 * MIB), 768 * MIB);
    assert_int_equal(rounded(211, list, 1025 * MIB), 1280 * MIB);
    assert_int_equal(rounded(211, list, 2049 * MIB), 2304 * MIB);
    const char *gap = "roundup_power2_divisions:[64:8,256:4]";
    assert_int_equal(rounded(211, gap, 65 * MIB), 72 * MIB);
    assert_int_equal(rounded(211, gap, 129 * MIB + 1), 129 * MIB + 512); /* the gap is off */
    assert_int_equal(rounded(211, gap, 257 * MIB), 320 * MIB);
}

static void a_count_of_one_means_what_the_release_says(void **state)
{
    (void)state;
    const char *one = "roundup_power2_divisions:1";
    assert_int_equal(rounded(113, one, 1000), 1000); /* off the grid */
    assert_int_equal(rounded(113, one, 100), 512);
    assert_int_equal(rounded(203, one, 1000), 0);
    assert_string_equal(vw_last_error(), "Only 2 or more divisions are supported");
    assert_int_equal(rounded(203, one, 1024), 1024); /* powers of two pass */
    assert_int_equal(rounded(203, one, 512), 512);   /* and what is not above 512 */
    assert_int_equal(rounded(204, one, 1000), 1024);
}

static void the_bypass_of_1_13_leaves_larger_requests_on_the_grid(void **state)
{
    (void)state;
    const char *text = "roundup_power2_divisions:4,roundup_bypass_threshold_mb:100";
    assert_int_equal(rounded(113, text, 100 * MIB), 112 * MIB);
    assert_int_equal(rounded(113, text, 100 * MIB + 1), 100 * MIB + 512);
}

/* Off-by-one mistakes live at the edges, so visit the three sizes around each. */
static void configured_sizes_are_never_smaller_and_stay_on_the_grid(void **state)
{
    (void)state;
    vw__torch_settings settings = with(211, "roundup_power2_divisions:[1:8,4:0,64:16,>:2]");
    for (unsigned log2 = 1; log2 < 60; log2++) {
        for (uint64_t part = 0; part < 16; part++) {
            uint64_t edge = (UINT64_C(1) << log2) + part * ((UINT64_C(1) << log2) / 16);
            for (uint64_t size = edge - 1; size <= edge + 1; size++) {
                uint64_t block_bytes = vw__torch_round_size(&settings, size);
                assert_true(block_bytes >= size);
                assert_int_equal(block_bytes % 512, 0);
                assert_int_equal(vw__torch_round_size(&settings, block_bytes), block_bytes);
            }
        }
    }
    vw__torch_settings_deinit(&settings);
}

static void segments_come_in_three_sizes(void **state)
{
    (void)state;
    assert_int_equal(segment("", 512), 2 * MIB);
    assert_int_equal(segment("", MIB), 2 * MIB);
    assert_int_equal(segment("", MIB + 512), 20 * MIB);
    assert_int_equal(segment("", 10 * MIB - 512), 20 * MIB);
    assert_int_equal(segment("", 10 * MIB), 10 * MIB);
    assert_int_equal(segment("", 10486272), 12 * MIB);
    assert_int_equal(segment("", 210 * MIB), 210 * MIB);
    assert_int_equal(segment("large_segment_size_mb:64", MIB + 512), 64 * MIB);
    assert_int_equal(segment("large_segment_size_mb:64", 10 * MIB), 10 * MIB);
    assert_true(vw__torch_is_small(MIB));
    assert_false(vw__torch_is_small(MIB + 512));
}

static uint64_t limit(int version, double fraction, uint64_t total_bytes)
{
    vw__torch_rules rules;
    assert_int_equal(vw__torch_rules_for(version, &rules), VW_OK);
    return vw__torch_limit_bytes(&rules, fraction, total_bytes);
}

static void a_fraction_becomes_a_limit_by_the_rule_of_its_release(void **state)
{
    (void)state;
    assert_int_equal(limit(209, 1.0, 1000), 1000);
    assert_int_equal(limit(210, 1.0, 1000), VW__TORCH_UNLIMITED);
    assert_int_equal(limit(213, 1.0, 1000), VW__TORCH_UNLIMITED);
    assert_int_equal(limit(209, 0.5, 1001), 500);
    assert_int_equal(limit(212, 0.5, 1001), 500);
    assert_int_equal(limit(213, 0.5, 1001), 501); /* a half goes away from zero */
    assert_int_equal(limit(213, 0.5, 1003), 502);
    assert_int_equal(limit(212, 0.6, 150109880320), 90065928192);
    assert_int_equal(limit(212, 0.7, 150109880321), 105076916224);
    assert_int_equal(limit(213, 0.7, 150109880321), 105076916225);
    assert_int_equal(limit(213, 0.0, 1000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_sizes_go_up_to_the_grid_of_512),
        cmocka_unit_test(four_divisions_give_the_numbers_of_the_reference),
        cmocka_unit_test(division_ceilings_are_the_next_step_up),
        cmocka_unit_test(the_table_is_entered_by_the_power_of_two_below),
        cmocka_unit_test(each_interval_of_a_list_rounds_by_its_own_count),
        cmocka_unit_test(a_count_of_one_means_what_the_release_says),
        cmocka_unit_test(the_bypass_of_1_13_leaves_larger_requests_on_the_grid),
        cmocka_unit_test(configured_sizes_are_never_smaller_and_stay_on_the_grid),
        cmocka_unit_test(segments_come_in_three_sizes),
        cmocka_unit_test(a_fraction_becomes_a_limit_by_the_rule_of_its_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
