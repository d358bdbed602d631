/* test_tune_grid.c - one recording under settings that are the same for every recording. */
#include "settings/tune_grid.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/hand_made_recording.h"
#include "support/host_memory_sweep.h"

#define MIB (UINT64_C(1) << 20)

/* Sizes that grow by 2 MiB each round: every free block is a little too small for what comes next,
 * while the last one is still live. Plain segments pile up; expandable ones grow. */
static void record_growing_program(hand_made_recording *recording)
{
    uint64_t address = UINT64_C(0x7e0000000000), last_address = 0, last_bytes = 0;
    for (uint64_t i = 0; i < 12; i++) {
        uint64_t size_bytes = (40 + 2 * i) * MIB;
        record_new(recording, address, size_bytes, size_bytes);
        if (last_bytes != 0)
            record_free(recording, last_address, last_bytes);
        last_address = address;
        last_bytes = size_bytes;
        address -= 128 * MIB;
    }
    record_free(recording, last_address, last_bytes);
}

static void try_on(const vw_recording *recording, const char *version, uint64_t card_mib,
                   vw__tune_grid *grid)
{
    const vw__tune_grid_options options = {
        .torch_version = version, .card_bytes = card_mib * MIB, .most_threads = 1};
    if (vw__tune_grid_try(recording->model, &options, grid) != VW_OK)
        fail_msg("%s", vw_last_error());
}

static size_t row_of(const char *policy, const char *conf)
{
    static vw__tune_grid_row rows[VW__TUNE_GRID_MOST];
    size_t count = vw__tune_grid_rows(rows);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].policy, policy) == 0 && strcmp(rows[i].conf, conf) == 0)
            return i;
    fail_msg("no row %s %s", policy, conf);
    return 0;
}

static void the_rows_begin_with_the_defaults_and_are_all_different(void **state)
{
    (void)state;
    vw__tune_grid_row rows[VW__TUNE_GRID_MOST];
    size_t count = vw__tune_grid_rows(rows);
    assert_in_range(count, 10, VW__TUNE_GRID_MOST - 1); /* full, it would have lost some */
    assert_string_equal(rows[0].policy, "native");
    assert_string_equal(rows[0].conf, "");
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            assert_false(strcmp(rows[i].policy, rows[k].policy) == 0 &&
                         strcmp(rows[i].conf, rows[k].conf) == 0);
    (void)row_of("conf", "expandable_segments:True,roundup_power2_divisions:8");
    (void)row_of("conf", "garbage_collection_threshold:0.8,per_process_memory_fraction:0.99");
}

/* What tune says of a setting, the grid says. */
static void a_cell_is_what_tune_finds(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw__tune_grid grid;
    vw_tune_report *report = NULL;
    size_t compared = 0;
    record_begin(&recording);
    record_growing_program(&recording);
    record_conf(&recording, "");
    const vw_recording *made = record_end(&recording);
    const vw_tune_options options = {.struct_size = sizeof options,
                                     .card_bytes = 260 * MIB,
                                     .torch_version = "2.11",
                                     .device = VW_BUSIEST_DEVICE};
    assert_int_equal(vw_recording_tune(made, &options, &report), VW_OK);
    try_on(made, "2.11", 260, &grid);
    assert_true(grid.is_possible);
    assert_int_equal(grid.peak_live_bytes, report->peak_live_bytes);
    assert_int_equal(grid.recorded.retries, report->recorded->retries);
    for (size_t i = 0; i < report->tried_count; i++) {
        const vw_replay_result *result = &report->tried[i];
        vw__tune_grid_row rows[VW__TUNE_GRID_MOST];
        size_t count = vw__tune_grid_rows(rows);
        for (size_t k = 0; k < count; k++) {
            if (strcmp(rows[k].policy, result->policy) != 0 ||
                strcmp(rows[k].conf, result->conf) != 0)
                continue;
            assert_int_equal(grid.cells[k].is_complete, result->is_complete);
            assert_int_equal(grid.cells[k].peak_reserved_bytes, result->peak_reserved_bytes);
            assert_int_equal(grid.cells[k].retries, result->retries);
            assert_int_equal(grid.cells[k].driver_ns, result->device_ns);
            compared++;
        }
    }
    assert_true(compared >= 8);
    /* The recording has the defaults, so tune has no row for them; nothing is as large as this. */
    assert_int_equal(grid.cells[0].retries, grid.recorded.retries);
    assert_memory_equal(&grid.cells[row_of("conf", "max_split_size_mb:4096")], &grid.cells[0],
                        sizeof grid.cells[0]);
    assert_string_equal(grid.variable, "PYTORCH_ALLOC_CONF");
    vw__tune_grid_free(&grid);
    vw_tune_report_free(report);
    record_dispose(&recording);
}

static void what_a_version_refuses_is_said(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw__tune_grid grid;
    record_begin(&recording);
    record_growing_program(&recording);
    record_conf(&recording, "max_split_size_mb:64");
    const vw_recording *made = record_end(&recording);
    try_on(made, "1.12", 400, &grid);
    assert_true(grid.cells[row_of("expandable", "expandable_segments:True")].is_refused);
    assert_false(grid.cells[0].is_refused);
    assert_true(grid.cells[0].is_complete);
    assert_string_equal(grid.recorded_conf, "max_split_size_mb:64");
    assert_string_equal(grid.variable, "PYTORCH_CUDA_ALLOC_CONF");
    vw__tune_grid_free(&grid);
    record_dispose(&recording);
}

static void what_cannot_fit_is_not_tried(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw__tune_grid grid;
    record_begin(&recording);
    record_growing_program(&recording);
    const vw_recording *made = record_end(&recording);
    uint64_t played = vw__replay_play_count();
    try_on(made, NULL, 100, &grid);
    assert_false(grid.is_possible);
    assert_false(grid.cells[0].is_complete);
    assert_int_equal(vw__replay_play_count(), played);
    vw__tune_grid_free(&grid);
    record_dispose(&recording);
}

static bool tries(void *context)
{
    const vw_recording *recording = context;
    const vw__tune_grid_options options = {
        .torch_version = "2.11", .card_bytes = 260 * MIB, .most_threads = 1};
    vw__tune_grid grid;
    if (vw__tune_grid_try(recording->model, &options, &grid) != VW_OK)
        return false;
    vw__tune_grid_free(&grid);
    return true;
}

static void running_out_of_host_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_new(&recording, UINT64_C(0x7e0000000000), 4 * MIB, 4 * MIB);
    record_conf(&recording, "");
    vw_test_sweep_host_memory(tries, (void *)(uintptr_t)record_end(&recording));
    record_dispose(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rows_begin_with_the_defaults_and_are_all_different),
        cmocka_unit_test(a_cell_is_what_tune_finds),
        cmocka_unit_test(what_a_version_refuses_is_said),
        cmocka_unit_test(what_cannot_fit_is_not_tried),
        cmocka_unit_test(running_out_of_host_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
