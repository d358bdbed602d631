/* test_top_columns.c - cells, trends, orders, and which columns a window has room for. */
#include "cli/top_columns.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/made_up_machine.h"

static made_up_machine made;
static vw_gpu gpu;
static top_history history;
static top_rows rows;

/* One job on a GPU that says everything. */
static int make(void **state)
{
    (void)state;
    made_up_machine_make(&made, MADE_UP_SECOND_NS);
    gpu = made_up_gpu(0, "H200");
    made.row.place = VW_ROW_ON_GPU;
    made.row.gpu = &gpu;
    made.row.process_bytes = UINT64_C(9) << 30;
    made.job.rank = 3;
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        made.device.values[i] = UINT64_C(1) << 30;
    return top_history_add(&history, &made.machine) &&
                   top_rows_fill(&rows, NULL, &made.machine, &history) == VW_OK
               ? 0
               : -1;
}

static int drop(void **state)
{
    (void)state;
    top_rows_free(&rows);
    top_history_free(&history);
    return 0;
}

static const char *cell(top_column column)
{
    static char text[TOP_CELL_BYTES];
    top_column_cell(column, &rows.items[0], text);
    return text;
}

static void cells_say_what_the_page_says(void **state)
{
    (void)state;
    assert_string_equal(cell(TOP_PID), "17");
    assert_string_equal(cell(TOP_GPU), "0");
    assert_string_equal(cell(TOP_RANK), "3");
    assert_string_equal(cell(TOP_PROGRAM), "train.py");
    assert_string_equal(cell(TOP_MEMORY), "9.00G");
    assert_string_equal(cell(TOP_LIVE), "1.00G");
    assert_string_equal(cell(TOP_UNSEEN), "8.00G");
    assert_string_equal(cell(TOP_IDLE), "0%");
    assert_string_equal(cell(TOP_ALLOCATIONS), ""); /* one reading has no rates */
    made.row.place = VW_ROW_ON_UNKNOWN_GPU;
    made.row.gpu = NULL;
    made.row.command[0] = '\0';
    made.row.device = NULL;
    assert_string_equal(cell(TOP_GPU), "?");
    assert_string_equal(cell(TOP_PROGRAM), "?");
    assert_string_equal(cell(TOP_LIVE), "");
}

static unsigned width_of(const top_layout *layout)
{
    unsigned width = 0;
    for (top_column i = 0; i < TOP_COLUMN_COUNT; i++)
        width += layout->widths[i] > 0 ? layout->widths[i] + 1 : 0;
    return width;
}

static void numbers_beyond_reason_are_shown_too(void **state)
{
    (void)state;
    made.device.values[VW_LIVE_LIVE_BYTES] = UINT64_MAX - 2;
    assert_int_equal(top_rows_fill(&rows, NULL, &made.machine, &history), VW_OK);
    assert_string_equal(cell(TOP_LIVE), "8192P");
}

static void a_window_has_the_most_important_columns_and_is_never_too_narrow(void **state)
{
    (void)state;
    for (unsigned width = 0; width <= 300; width++) {
        top_layout layout = top_columns_fit(&rows, width);
        assert_true(width_of(&layout) <= width);
    }
    top_layout narrow = top_columns_fit(&rows, 40);
    assert_true(narrow.widths[TOP_PROGRAM] > 0 && narrow.widths[TOP_LIVE] > 0);
    assert_true(narrow.widths[TOP_RESERVED] > 0);
    assert_int_equal(narrow.widths[TOP_PEAK], 0);
    top_layout usual = top_columns_fit(&rows, 80);
    assert_true(usual.widths[TOP_TREND] > 0 && usual.widths[TOP_NOTE] > 0);
    assert_true(usual.widths[TOP_RANK] > 0 && usual.widths[TOP_STEP] > 0);
    top_layout wide = top_columns_fit(&rows, 200);
    assert_true(wide.widths[TOP_PINNED] > 0 && wide.widths[TOP_SPILLED] > 0);
}

static void a_column_that_nobody_has_anything_for_is_left_out(void **state)
{
    (void)state;
    made.job.rank = -1;
    top_layout layout = top_columns_fit(&rows, 200);
    assert_int_equal(layout.widths[TOP_RANK], 0);
    assert_int_equal(layout.widths[TOP_ALLOCATIONS], 0);
}

static void what_is_not_known_is_the_least(void **state)
{
    top_row other = rows.items[0];
    vw_machine_row other_row = made.row;
    vw_job_device other_device = made.device;
    (void)state;
    other.row = &other_row;
    other_row.device = &other_device;
    assert_int_equal(top_column_compare(TOP_LIVE, &rows.items[0], &other), 0);
    other_device.values[VW_LIVE_LIVE_BYTES] = 5;
    assert_int_equal(top_column_compare(TOP_LIVE, &rows.items[0], &other), 1);
    other_device.values[VW_LIVE_LIVE_BYTES] = VW_LIVE_UNKNOWN;
    assert_int_equal(top_column_compare(TOP_LIVE, &rows.items[0], &other), 1);
    assert_int_equal(top_column_compare(TOP_LIVE, &other, &rows.items[0]), -1);
    snprintf(other_row.command, sizeof other_row.command, "a");
    assert_true(top_column_compare(TOP_PROGRAM, &rows.items[0], &other) > 0);
}

static const char *trend(const uint64_t *points, size_t count, bool has_utf8)
{
    static char text[TOP_CELL_BYTES];
    top_row *row = &rows.items[0];
    row->trend_count = count;
    for (size_t i = 0; i < count; i++)
        row->trend[i] = (top_point){points[i], points[i]};
    top_trend_text(row, has_utf8, text);
    return text;
}

static void a_trend_rises_from_bottom_to_top_and_a_level_one_is_half_way(void **state)
{
    (void)state;
    assert_string_equal(trend((const uint64_t[]){10, 20, 30, 40, 50, 60, 70, 80}, 8, false),
                        "_.-:=+*#");
    assert_string_equal(trend((const uint64_t[]){10, 80}, 2, true), "\u2581\u2588");
    assert_string_equal(trend((const uint64_t[]){50, 50, 50}, 3, false), "===");
    assert_string_equal(trend((const uint64_t[]){1000, 1001, 1000}, 3, false), "===");
    assert_string_equal(trend((const uint64_t[]){0, 0}, 2, false), "  ");
    assert_string_equal(trend((const uint64_t[]){10, VW_LIVE_UNKNOWN, 80}, 3, false), "_ #");
    assert_string_equal(trend(NULL, 0, false), "");
}

int main(void)
{
#define OF_ONE(test) cmocka_unit_test_setup_teardown(test, make, drop)
    const struct CMUnitTest tests[] = {
        OF_ONE(cells_say_what_the_page_says),
        OF_ONE(numbers_beyond_reason_are_shown_too),
        OF_ONE(a_window_has_the_most_important_columns_and_is_never_too_narrow),
        OF_ONE(a_column_that_nobody_has_anything_for_is_left_out),
        OF_ONE(what_is_not_known_is_the_least),
        OF_ONE(a_trend_rises_from_bottom_to_top_and_a_level_one_is_half_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
