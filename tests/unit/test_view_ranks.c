/* test_view_ranks.c - the data of a page of ranks. */
#include "vramwise/view.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/read_view.h"

static const vw_rank rank = {.rank = 5,
                             .recording = "</script>\x80.pickle",
                             .peak_live_bytes = 4096,
                             .peak_reserved_bytes = VW_UNKNOWN,
                             .event_count = 7,
                             .step_count = VW_UNKNOWN,
                             .time_us = INT64_MIN,
                             .local_time_us = INT64_MIN,
                             .tried_bytes = VW_UNKNOWN,
                             .card_bytes = VW_UNKNOWN,
                             .sentence = ""};
static const vw_ranks_report sample = {
    .ranks = &rank, .rank_count = 1, .first_rank = VW_UNKNOWN, .first_lead_us = VW_UNKNOWN};

static void the_header_has_the_report_and_no_run(void **state)
{
    (void)state;
    vw_view *view = NULL;
    read_view read;
    size_t size_bytes;
    assert_int_equal(vw_view_make_ranks(&sample, "job", &view), VW_OK);
    const void *bytes = vw_view_data(view, &size_bytes);
    read_view_open(&read, bytes, size_bytes);
    const json_t *ranks = json_object_get(read.header, "ranks");
    assert_int_equal(json_array_size(json_object_get(read.header, "runs")), 0);
    assert_string_equal(json_string_value(json_object_get(ranks, "folder")), "job");
    const json_t *first = json_array_get(json_object_get(ranks, "ranks"), 0);
    assert_int_equal(json_integer_value(json_object_get(first, "rank")), 5);
    assert_string_equal(json_string_value(json_object_get(first, "recording")),
                        "</script>\xef\xbf\xbd.pickle");
    read_view_close(&read);
    vw_view_free(view);
}

static bool count_ends_of_scripts(void *context, const char *bytes, size_t size_bytes)
{
    size_t *count = context;
    for (size_t i = 0; i + 9 <= size_bytes; i++)
        *count += memcmp(bytes + i, "</script>", 9) == 0;
    return true;
}

static void a_name_cannot_end_the_page_s_script(void **state)
{
    (void)state;
    size_t bare = 0, filled = 0;
    vw_view *view = NULL;
    const vw_output to_bare = {&bare, count_ends_of_scripts};
    const vw_output to_filled = {&filled, count_ends_of_scripts};
    assert_int_equal(vw_view_make_ranks(&sample, "</script>", &view), VW_OK);
    assert_int_equal(vw_view_write_page(NULL, &to_bare), VW_OK);
    assert_int_equal(vw_view_write_page(view, &to_filled), VW_OK);
    assert_int_equal(bare, filled);
    vw_view_free(view);
}

static bool makes_a_view(void *context)
{
    (void)context;
    vw_view *view = NULL;
    bool is_made = vw_view_make_ranks(&sample, "job", &view) == VW_OK;
    vw_view_free(view);
    return is_made;
}

static void lack_of_host_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    vw_view *view = NULL;
    vw_test_sweep_host_memory(makes_a_view, NULL);
    assert_int_equal(vw_view_make_ranks(NULL, "job", &view), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_view_make_ranks(&sample, "job", NULL), VW_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_header_has_the_report_and_no_run),
        cmocka_unit_test(a_name_cannot_end_the_page_s_script),
        cmocka_unit_test(lack_of_host_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
