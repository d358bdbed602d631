/* test_segment_map.c - maps of pools whose layout is known, taken and drawn. */
#include "cli/segment_map.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)

/* Large for a stack. */
static segment_map map;

static const memory_style plain_style = {
    .glyphs = {" ", "#", "+", ".", "X"},
    .codes = {"", "", "", "", ""},
    .plain_code = "",
    .side = "|",
    .corner = "+",
    .base = "-",
    .width_columns = 80,
};

typedef struct fixture {
    vw_device *device;
    vw_pool *pool;
} fixture;

static int make_pool(void **state)
{
    static fixture made;
    vw_pool_options options = {.struct_size = sizeof options};
    assert_int_equal(vw_simulated_device_create(NULL, &made.device), VW_OK);
    assert_int_equal(vw_pool_create(made.device, &options, &made.pool), VW_OK);
    *state = &made;
    return 0;
}

static int end_pool(void **state)
{
    fixture *made = *state;
    vw_pool_destroy(made->pool);
    vw_device_destroy(made->device);
    return 0;
}

static vw_device_ptr allocate(fixture *made, uint64_t size_bytes)
{
    vw_device_ptr address = VW_NULL;
    assert_int_equal(vw_alloc(made->pool, size_bytes, 0, &address), VW_OK);
    return address;
}

/* A segment of `size_bytes`, idle but for `live_bytes` at its start. */
static vw_device_ptr make_pinned_segment(fixture *made, uint64_t size_bytes, uint64_t live_bytes)
{
    vw_device_ptr whole = allocate(made, size_bytes);
    assert_int_equal(vw_free(made->pool, whole), VW_OK);
    vw_device_ptr pin = allocate(made, live_bytes);
    assert_int_equal(pin, whole);
    return pin;
}

static void take(fixture *made, uint64_t bytes_per_cell)
{
    assert_int_equal(segment_map_take(&map, made->pool, bytes_per_cell, 80), VW_OK);
}

static char *drawn(const memory_style *style)
{
    static char text[16 * 1024];
    FILE *to = fmemopen(text, sizeof text, "w");
    assert_non_null(to);
    text[0] = '\0'; /* for what writes nothing */
    segment_map_draw(&map, style, to);
    assert_int_equal(fclose(to), 0);
    return text;
}

static void an_empty_pool_has_an_empty_map(void **state)
{
    take(*state, 0);
    assert_int_equal(map.segment_count, 0);
    assert_int_equal(map.row_count, 0);
    assert_int_equal(map.largest_idle_bytes, 0);
    assert_string_equal(drawn(&plain_style), "");
}

static void cells_hold_the_live_bytes_of_their_stretch(void **state)
{
    make_pinned_segment(*state, 100 * MIB, 25 * MIB);
    take(*state, 10 * MIB);
    assert_int_equal(map.row_count, 1);
    assert_int_equal(map.rows[0].total_bytes, 100 * MIB);
    assert_int_equal(map.rows[0].live_bytes, 25 * MIB);
    assert_int_equal(map.rows[0].cells[0], 10 * MIB);
    assert_int_equal(map.rows[0].cells[1], 10 * MIB);
    assert_int_equal(map.rows[0].cells[2], 5 * MIB);
    assert_int_equal(map.rows[0].cells[3], 0);
    assert_int_equal(map.idle_piece_count, 1);
    assert_int_equal(map.largest_idle_bytes, 75 * MIB);
    assert_string_equal(drawn(&plain_style), "    100 MiB   75.0 MiB idle  ##+.......\n");
}

static void a_pin_of_one_block_shows_in_a_wide_cell(void **state)
{
    make_pinned_segment(*state, 100 * MIB, 2 * MIB);
    take(*state, 20 * MIB);
    assert_string_equal(drawn(&plain_style), "    100 MiB   98.0 MiB idle  +....\n");
}

static void the_last_cell_may_be_shorter(void **state)
{
    allocate(*state, 90 * MIB);
    take(*state, 20 * MIB);
    assert_int_equal(map.rows[0].cells[4], 10 * MIB);
    assert_string_equal(drawn(&plain_style), "   90.0 MiB        0 B idle  #####\n");
}

static void rows_come_by_falling_idle_bytes(void **state)
{
    make_pinned_segment(*state, 40 * MIB, 30 * MIB);
    make_pinned_segment(*state, 100 * MIB, 20 * MIB);
    make_pinned_segment(*state, 200 * MIB, 150 * MIB);
    take(*state, 0);
    assert_int_equal(map.row_count, 3);
    assert_int_equal(map.rows[0].total_bytes, 100 * MIB);
    assert_int_equal(map.rows[1].total_bytes, 200 * MIB);
    assert_int_equal(map.rows[2].total_bytes, 40 * MIB);
    assert_int_equal(map.live_bytes, 200 * MIB);
    assert_int_equal(map.total_bytes, 340 * MIB);
}

static void without_a_scale_the_longest_bar_fills_the_line(void **state)
{
    make_pinned_segment(*state, 1024 * MIB, 20 * MIB);
    make_pinned_segment(*state, 200 * MIB, 20 * MIB);
    take(*state, 0);
    char *end = strchr(drawn(&plain_style), '\n');
    assert_non_null(end);
    assert_int_equal(end - drawn(&plain_style), 80);
}

static void a_bar_longer_than_the_line_goes_on_in_the_next(void **state)
{
    make_pinned_segment(*state, 120 * MIB, 20 * MIB);
    take(*state, 2 * MIB);
    assert_string_equal(drawn(&plain_style), "    120 MiB    100 MiB idle  "
                                             "##########.........................................\n"
                                             "                             "
                                             ".........\n");
}

static void segments_beyond_the_last_row_and_small_ones_are_summed_up(void **state)
{
    for (uint64_t i = 0; i < SEGMENT_MAP_MOST_ROWS + 3; i++)
        allocate(*state, (100 + 2 * i) * MIB);
    allocate(*state, 4096); /* a small segment of 2 MiB */
    take(*state, 10 * MIB);
    assert_int_equal(map.segment_count, SEGMENT_MAP_MOST_ROWS + 4);
    assert_int_equal(map.row_count, SEGMENT_MAP_MOST_ROWS);
    const char *rest = strstr(drawn(&plain_style), "... and ");
    assert_non_null(rest);
    assert_non_null(strstr(rest, "more segments of "));
    assert_int_equal(strtol(rest + strlen("... and "), NULL, 10), 5);
}

static void a_narrow_line_leaves_the_second_number_out(void **state)
{
    memory_style narrow = plain_style;
    narrow.width_columns = 40;
    make_pinned_segment(*state, 100 * MIB, 20 * MIB);
    take(*state, 10 * MIB);
    assert_string_equal(drawn(&narrow), "    100 MiB  ##........\n");
}

static void colour_is_switched_only_where_the_kind_changes(void **state)
{
    memory_style coloured = plain_style;
    coloured.codes[MEMORY_LIVE] = "<live>";
    coloured.codes[MEMORY_IDLE] = "<idle>";
    coloured.plain_code = "<plain>";
    make_pinned_segment(*state, 100 * MIB, 20 * MIB);
    take(*state, 10 * MIB);
    assert_string_equal(drawn(&coloured), "    100 MiB   80.0 MiB idle  "
                                          "<plain><live>##<plain><idle>........<plain>\n");
}

static void a_scale_too_fine_for_the_cells_is_made_coarser(void **state)
{
    make_pinned_segment(*state, 10240 * MIB, 20 * MIB);
    take(*state, 1 * MIB);
    assert_true(map.bytes_per_cell > 1 * MIB);
    assert_true(map.bytes_per_cell * SEGMENT_MAP_MOST_CELLS >= 10240 * MIB);
    drawn(&plain_style);
}

static void an_expandable_segment_is_one_bar(void **state)
{
    fixture *made = *state;
    assert_int_equal(vw_pool_configure(made->pool, "expandable_segments:True"), VW_OK);
    allocate(made, 40 * MIB);
    vw_device_ptr second = allocate(made, 60 * MIB);
    allocate(made, 20 * MIB);
    assert_int_equal(vw_free(made->pool, second), VW_OK);
    take(made, 10 * MIB);
    assert_int_equal(map.segment_count, 1);
    assert_string_equal(drawn(&plain_style), "    120 MiB   60.0 MiB idle  ####......##\n");
}

int main(void)
{
#define WITH_A_POOL(test) cmocka_unit_test_setup_teardown(test, make_pool, end_pool)
    const struct CMUnitTest tests[] = {
        WITH_A_POOL(an_empty_pool_has_an_empty_map),
        WITH_A_POOL(cells_hold_the_live_bytes_of_their_stretch),
        WITH_A_POOL(a_pin_of_one_block_shows_in_a_wide_cell),
        WITH_A_POOL(the_last_cell_may_be_shorter),
        WITH_A_POOL(rows_come_by_falling_idle_bytes),
        WITH_A_POOL(without_a_scale_the_longest_bar_fills_the_line),
        WITH_A_POOL(a_bar_longer_than_the_line_goes_on_in_the_next),
        WITH_A_POOL(segments_beyond_the_last_row_and_small_ones_are_summed_up),
        WITH_A_POOL(a_narrow_line_leaves_the_second_number_out),
        WITH_A_POOL(colour_is_switched_only_where_the_kind_changes),
        WITH_A_POOL(a_scale_too_fine_for_the_cells_is_made_coarser),
        WITH_A_POOL(an_expandable_segment_is_one_bar),
    };
#undef WITH_A_POOL
    return cmocka_run_group_tests(tests, NULL, NULL);
}
