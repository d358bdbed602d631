/* test_check.c - limits, and what two baselines come to. */
#include "vramwise/check.h"

#include <math.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

static const vw_baseline_site before_sites[] = {
    {"loader.py bring", 100, 5, 0, 0},
    {"train.py build", 1000, 10, 0, 0},
    {"train.py forward", 5000, 100, 0, 0},
};
static const vw_baseline_site now_sites[] = {
    {"loader.py bring", 90, 5, 0, 31},
    {"train.py added", 10, 1, 0, 12},
    {"train.py build", 1000, 10, 7, 20},
    {"train.py forward", 5050, 101, 0, 40},
};

static vw_baseline baseline(uint64_t peak, uint64_t reserved, uint64_t allocations, uint64_t leak,
                            uint64_t card)
{
    return (vw_baseline){.policy = "native",
                         .torch_version = "2.11",
                         .values = {[VW_CHECK_PEAK] = peak,
                                    [VW_CHECK_RESERVED] = reserved,
                                    [VW_CHECK_ALLOCATIONS] = allocations,
                                    [VW_CHECK_LEAK] = leak,
                                    [VW_CHECK_CARD] = card},
                         .sites = before_sites,
                         .site_count = 3};
}

static vw_check_report *compared(const vw_baseline *before, const vw_baseline *now,
                                 const char *max_growth)
{
    vw_check_report *report = NULL;
    vw_check_limits limits;
    vw_check_limits_init(&limits);
    if (max_growth != NULL)
        assert_int_equal(vw_check_limits_parse(max_growth, &limits), VW_OK);
    assert_int_equal(vw_baselines_compare(before, now, &limits, &report), VW_OK);
    return report;
}

/* Which figures are worse: "peak,card". */
static const char *worse(const vw_baseline *before, const vw_baseline *now, const char *max_growth)
{
    static char names[100];
    vw_check_report *report = compared(before, now, max_growth);
    names[0] = '\0';
    for (size_t i = 0; i < VW_CHECK_METRIC_COUNT; i++)
        if (report->figures[i].is_worse) {
            assert_int_equal(report->figures[i].metric, i);
            strcat(names, names[0] != '\0' ? "," : "");
            strcat(names, vw_check_metric_name((vw_check_metric)i));
        }
    assert_int_equal(report->is_worse, names[0] != '\0');
    vw_check_report_free(report);
    return names;
}

static void live_bytes_are_compared_exactly_the_others_have_room(void **state)
{
    (void)state;
    const vw_baseline before = baseline(1000000, 1000000, 1000, 0, 1000000);
    vw_baseline now = before;
    assert_string_equal(worse(&before, &now, NULL), "");
    now.values[VW_CHECK_PEAK]++;
    assert_string_equal(worse(&before, &now, NULL), "peak");
    now = baseline(1000000, 1020000, 1020, 0, 1020000);
    assert_string_equal(worse(&before, &now, NULL), "");
    now = baseline(1000000, 1020001, 1021, 1, 1020001);
    assert_string_equal(worse(&before, &now, NULL), "reserved,allocations,leak,card");
    now = baseline(1, 1, 1, 0, 1);
    assert_string_equal(worse(&before, &now, "0"), ""); /* less is never worse */
}

static void a_limit_holds_for_all_figures_or_for_one(void **state)
{
    (void)state;
    const vw_baseline before = baseline(1000, 1000, 1000, 1000, 1000);
    vw_baseline now = baseline(1020, 1020, 1020, 1020, 1020);
    assert_string_equal(worse(&before, &now, "2%"), "");
    assert_string_equal(worse(&before, &now, "1.9%"), "peak,reserved,allocations,leak,card");
    assert_string_equal(worse(&before, &now, "allocations=1%"), "peak,allocations,leak");
    assert_string_equal(worse(&before, &now, "2%,card=0"), "card");
    assert_string_equal(worse(&before, &now, "peak=2 %,leak=2%"), "");
    assert_string_equal(worse(&before, &now, "peak=100%,leak=0"), "leak");
    vw_check_report *report = NULL;
    assert_int_equal(vw_baselines_compare(&before, &now, NULL, &report), VW_OK);
    assert_true(report->figures[VW_CHECK_RESERVED].max_growth == 0.02); /* NULL: the defaults */
    assert_true(fabs(report->figures[VW_CHECK_PEAK].growth - 0.02) < 1e-9);
    vw_check_report_free(report);
}

static void what_is_no_limit_is_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "2",
                                        "-1%",
                                        "2%%",
                                        "%",
                                        "peak",
                                        "peak=",
                                        "peak=2",
                                        "live=2%",
                                        "2%,",
                                        "1e3%",
                                        "nan%",
                                        "0x2%",
                                        ",2%",
                                        "peak=1%=2%",
                                        "inf",
                                        "1000000%",
                                        "2 percent",
                                        "00000000000000000000000000000000002%"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        vw_check_limits limits, untouched;
        vw_check_limits_init(&limits);
        untouched = limits;
        if (vw_check_limits_parse(wrong[i], &limits) != VW_ERR_INVALID_ARGUMENT)
            fail_msg("'%s' is taken", wrong[i]);
        assert_memory_equal(limits.max_growth, untouched.max_growth, sizeof limits.max_growth);
    }
    const vw_baseline one = baseline(1, 1, 1, 1, 1);
    vw_check_report *report;
    vw_check_limits limits;
    vw_check_limits_init(&limits);
    limits.max_growth[VW_CHECK_LEAK] = -0.1;
    assert_int_equal(vw_baselines_compare(&one, &one, &limits, &report), VW_ERR_INVALID_ARGUMENT);
    limits.max_growth[VW_CHECK_LEAK] = NAN;
    assert_int_equal(vw_baselines_compare(&one, &one, &limits, &report), VW_ERR_INVALID_ARGUMENT);
    vw_baseline other = one;
    other.policy = "expandable";
    assert_int_equal(vw_baselines_compare(&one, &other, NULL, &report), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_baselines_compare(&one, NULL, NULL, &report), VW_ERR_INVALID_ARGUMENT);
}

static void what_is_not_known_is_not_compared_and_a_note_says_so(void **state)
{
    (void)state;
    vw_baseline before = baseline(10, 10, 10, VW_UNKNOWN, VW_UNKNOWN);
    vw_baseline now = baseline(10, 10, 10, 5, 20);
    assert_string_equal(worse(&before, &now, NULL), "");
    now.is_cut = true;
    vw_check_report *report = compared(&before, &now, NULL);
    assert_int_equal(report->note_count, 2);
    assert_non_null(strstr(report->notes[0], "same part"));
    assert_non_null(strstr(report->notes[1], "the baseline has too few"));
    assert_true(isnan(report->figures[VW_CHECK_LEAK].growth));
    vw_check_report_free(report);
}

static void what_grew_is_named_with_its_line(void **state)
{
    (void)state;
    const vw_baseline before = baseline(6100, 1, 1, 0, 1);
    vw_baseline now = baseline(6150, 1, 1, 0, 1);
    now.sites = now_sites;
    now.site_count = 4;
    vw_check_report *report = compared(&before, &now, NULL);
    assert_int_equal(report->site_count, 3);
    assert_string_equal(report->sites[0].site, "train.py forward");
    assert_int_equal(report->sites[0].line, 40);
    assert_int_equal(report->sites[0].before_peak_bytes, 5000);
    assert_int_equal(report->sites[0].now_peak_bytes, 5050);
    assert_int_equal(report->sites[0].now_allocations, 101);
    assert_string_equal(report->sites[1].site, "train.py added");
    assert_int_equal(report->sites[1].before_peak_bytes, 0);
    assert_string_equal(report->sites[2].site, "train.py build"); /* it leaks */
    assert_int_equal(report->sites[2].now_leak_bytes, 7);
    vw_check_report_free(report);
}

static bool compare_them(void *context)
{
    const vw_baseline before = baseline(6100, 1, 1, VW_UNKNOWN, 1);
    vw_baseline now = baseline(6150, 1, 1, 0, 1);
    vw_check_report *report;
    (void)context;
    now.sites = now_sites;
    now.site_count = 4;
    if (vw_baselines_compare(&before, &now, NULL, &report) != VW_OK)
        return false;
    vw_check_report_free(report);
    return true;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(compare_them, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_bytes_are_compared_exactly_the_others_have_room),
        cmocka_unit_test(a_limit_holds_for_all_figures_or_for_one),
        cmocka_unit_test(what_is_no_limit_is_refused),
        cmocka_unit_test(what_is_not_known_is_not_compared_and_a_note_says_so),
        cmocka_unit_test(what_grew_is_named_with_its_line),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
