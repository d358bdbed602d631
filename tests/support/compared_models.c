/* compared_models.c - pairs of small recordings. */
#include "support/compared_models.h"

#include "analysis/recording.h"
#include "support/cmocka_here.h"
#include "support/small_model.h"

enum { SEGMENT_MIB = 100 };

vw__model *compared_model_at(const compared_line *lines, size_t count, const char *first_name,
                             uint64_t address, int64_t time_us)
{
    const uint64_t segment_bytes = SEGMENT_MIB * COMPARED_MIB;
    small_model small;
    small_model_begin(&small);
    small.time_us = time_us;
    small_model_context(&small, first_name);
    for (size_t i = 0; i < count; i++) {
        uint32_t context = lines[i].stack != NULL ? small_model_context(&small, lines[i].stack)
                                                  : VW__MODEL_NO_CONTEXT;
        uint64_t here = address + segment_bytes * i;
        small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, here, segment_bytes, context);
        small_model_alloc(&small, here, lines[i].size_bytes, context);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t here = address + segment_bytes * i;
        small_model_free(&small, here, lines[i].size_bytes, VW__MODEL_NO_CONTEXT);
        small_model_event(&small, VW_ACTION_SEGMENT_FREE, here, segment_bytes,
                          VW__MODEL_NO_CONTEXT);
    }
    small_model_end_trace(&small, 0);
    small_model_set_features(&small);
    return small_model_finish(&small);
}

vw__model *compared_model(const compared_line *lines, size_t count, const char *first_name)
{
    return compared_model_at(lines, count, first_name, COMPARED_ADDRESS, 1000);
}

void assert_accounts_for_the_peaks(const vw_diff_report *report)
{
    uint64_t before = report->before.live_bytes, after = report->after.live_bytes;
    uint64_t before_blocks = report->before.block_count, after_blocks = report->after.block_count;
    for (size_t i = 0; i < report->change_count; i++) {
        const vw_change *row = &report->changes[i];
        assert_true(row->before_bytes != row->after_bytes || row->before_count != row->after_count);
        assert_true(row->before_bytes <= before && row->after_bytes <= after);
        before -= row->before_bytes;
        after -= row->after_bytes;
        before_blocks -= row->before_count;
        after_blocks -= row->after_count;
    }
    assert_int_equal(before, after); /* what is in no row is equal */
    assert_int_equal(before_blocks, after_blocks);
    assert_int_equal(report->before.live_bytes + report->grown_bytes,
                     report->after.live_bytes + report->shrunk_bytes);
    assert_int_equal(report->is_same, report->change_count == 0);
}

vw_diff_report *compared_report(vw__model *before, vw__model *after)
{
    vw_recording one = {.model = before}, other = {.model = after};
    vw_diff_report *report = NULL;
    assert_int_equal(vw_recordings_diff(&one, &other, &report), VW_OK);
    assert_accounts_for_the_peaks(report);
    return report;
}

compared_models compare_lines(const compared_line *before, size_t before_count,
                              const compared_line *after, size_t after_count)
{
    compared_models made = {.before = compared_model(before, before_count, "x a.py 1"),
                            .after = compared_model(after, after_count, "y b.py 2;z c.py 3")};
    made.report = compared_report(made.before, made.after);
    return made;
}

void compared_models_end(compared_models *made)
{
    vw_diff_report_free(made->report);
    vw__model_destroy(made->before);
    vw__model_destroy(made->after);
}
