/* test_doctor_stranded.c - memory that only another stream, or another pool, may use. */
#include "doctor/doctor.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/doctor_case.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"
#include "support/stored_recordings.h"

#define A UINT64_C(0x7f0000000000)
#define B UINT64_C(0x7e0000000000)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define SIDE_STREAM UINT64_C(0x5500)

static vw__diagnosis_finding *examine(doctor_case *made, const vw_recording *recording,
                                      uint64_t card_bytes)
{
    doctor_case_open(made, recording, card_bytes);
    if (vw__doctor_stranded(&made->input, &made->facts, &made->result) != VW_OK)
        fail_msg("%s", vw_last_error());
    assert_false(made->draft.has_failed);
    return vw__diagnosis_find(&made->draft, "stranded");
}

/* ---- recordings of PyTorch's ----------------------------------------------------------------- */

static bool is_of_streams(const char *name)
{
    return strncmp(name, "streams.", strlen("streams.")) == 0;
}

static void check_stored(const stored_recording *one)
{
    doctor_case made;
    vw__diagnosis_finding *finding = examine(&made, one->recording, 0);
    if (made.result.is_stranded != is_of_streams(one->name) ||
        (finding != NULL) != made.result.is_stranded)
        fail_msg("%s: %s", one->name,
                 made.result.is_stranded ? "stranded" : "nothing is stranded, it says");
    doctor_case_close(&made);
}

static void side_streams_strand_memory_and_nothing_else_does(void **state)
{
    (void)state;
    each_stored_recording(check_stored);
}

static void check_finding(const stored_recording *one)
{
    doctor_case made;
    if (!is_of_streams(one->name))
        return;
    const vw__model *model = one->recording->model;
    const vw__model_trace *trace = &model->traces[0];
    vw__layout_view view;
    assert_int_equal(vw__layout_view_make(model, trace, trace->event_count / 10 * 9, &view), VW_OK);
    const vw_recording cut = {.model = &view.model};
    const vw_recording *const both[] = {one->recording, &cut};
    for (size_t i = 0; i < 2; i++) {
        vw__diagnosis_finding *finding = examine(&made, both[i], 0);
        assert_true(made.result.is_stranded);
        assert_non_null(finding);
        assert_int_equal(finding->bytes, made.result.stranded_bytes);
        assert_true(finding->bytes >= made.facts.timeline.peak_reserved_bytes / 4);
        assert_true(finding->where_count > 0);
        assert_true(has_words(finding->where[finding->where_count - 1], "streams"));
        assert_true(finding->evidence_count >= 3); /* replayed, and two streams */
        const vw_remedy *waiting = find_remedy(finding, "instead of record_stream()");
        assert_non_null(waiting);
        assert_int_equal(waiting->basis, VW_BASIS_REPLAYED);
        assert_true(waiting->saves_bytes > 0);
        assert_ptr_equal(waiting, &finding->remedies[0]); /* as good as one stream, and cheaper */
        doctor_case_close(&made);
    }
    vw__layout_view_deinit(&view);
}

static void what_waits_and_where_is_named_whole_and_cut(void **state)
{
    (void)state;
    each_stored_recording(check_finding);
}

/* ---- by hand --------------------------------------------------------------------------------- */

enum { SIDE = 1, PRIVATE = 1 }; /* the numbers of that stream and that pool */

typedef struct written {
    small_model small;
    uint32_t main_line, side_line;
} written;

static void begin(written *made)
{
    const vw_private_id id = {0, 7};
    uint16_t stream, pool;
    small_model_begin(&made->small);
    made->main_line = small_model_context(&made->small, "main train.py 10");
    made->side_line = small_model_context(&made->small, "side train.py 20");
    assert_int_equal(vw__model_add_stream(made->small.builder, SIDE_STREAM, &stream), VW_OK);
    assert_int_equal(vw__model_add_pool(made->small.builder, id, &pool), VW_OK);
    assert_int_equal(stream, SIDE);
    assert_int_equal(pool, PRIVATE);
}

/* An event of a stream and a pool, as PyTorch 2.12 writes them. */
static void event(written *made, unsigned action, uint64_t address, uint64_t size_bytes,
                  uint16_t stream, uint16_t pool)
{
    bool is_main = stream == 0 && pool == VW__MODEL_DEFAULT_POOL;
    const vw__model_event next = {.address = address,
                                  .size_bytes = size_bytes,
                                  .time_us = made->small.time_us,
                                  .context = is_main ? made->main_line : made->side_line,
                                  .note = VW__MODEL_NO_NOTE,
                                  .stream = stream,
                                  .pool = pool,
                                  .action = (uint8_t)action};
    size_t index;
    assert_int_equal(vw__model_add_event(made->small.builder, &next, &index), VW_OK);
    made->small.time_us += 10;
    made->small.event_count++;
}

static void take(written *made, uint64_t address, uint64_t size_bytes, uint16_t stream,
                 uint16_t pool)
{
    event(made, VW_ACTION_SEGMENT_ALLOC, address, size_bytes, stream, pool);
    event(made, VW_ACTION_ALLOC, address, size_bytes, stream, pool);
}

static void let_go(written *made, uint64_t address, uint64_t size_bytes, uint16_t stream,
                   uint16_t pool)
{
    event(made, VW_ACTION_FREE_REQUESTED, address, size_bytes, stream, pool);
    event(made, VW_ACTION_FREE_COMPLETED, address, size_bytes, stream, pool);
}

/* With the segments that the trace ends with. */
typedef struct finished {
    vw__model *model;
    vw__layout_view view;
    vw_recording recording;
} finished;

static void finish(written *made, finished *out)
{
    small_model_end_trace(&made->small, 0);
    small_model_set_features(&made->small);
    out->model = small_model_finish(&made->small);
    const vw__model_trace *trace = &out->model->traces[0];
    assert_int_equal(vw__layout_view_make(out->model, trace, trace->event_count, &out->view),
                     VW_OK);
    out->recording = (vw_recording){.model = &out->view.model};
}

static void dispose(finished *out)
{
    vw__layout_view_deinit(&out->view);
    vw__model_destroy(out->model);
}

/* First one stream needs 200 MiB, then another. */
static void write_two_streams(written *made, uint16_t second_stream)
{
    begin(made);
    take(made, A, 200 * MIB, 0, VW__MODEL_DEFAULT_POOL);
    let_go(made, A, 200 * MIB, 0, VW__MODEL_DEFAULT_POOL);
    take(made, B, 200 * MIB, second_stream, VW__MODEL_DEFAULT_POOL);
    let_go(made, B, 200 * MIB, second_stream, VW__MODEL_DEFAULT_POOL);
}

static void what_one_stream_would_not_need_is_stranded(void **state)
{
    (void)state;
    written made;
    finished done;
    doctor_case examined;
    write_two_streams(&made, SIDE);
    finish(&made, &done);
    vw__diagnosis_finding *finding = examine(&examined, &done.recording, 0);
    assert_true(examined.result.is_stranded);
    assert_non_null(finding);
    assert_int_equal(finding->bytes, 200 * MIB);
    const vw_remedy *remedy = find_remedy(finding, "on one stream");
    assert_non_null(remedy);
    assert_int_equal(remedy->saves_bytes, 200 * MIB);
    assert_null(find_remedy(finding, "record_stream(): wait")); /* nothing waited */
    remedy = find_remedy(finding, "vramwise's allocator");
    assert_non_null(remedy);
    assert_true(remedy->saves_bytes >= 180 * MIB); /* it may grow a little before it moves */
    assert_ptr_equal(remedy, &finding->remedies[finding->remedy_count - 1]);
    assert_string_equal(finding->where[0], "train.py:10 main"); /* idle there at the peak */
    doctor_case_close(&examined);
    dispose(&done);
}

static void a_program_with_one_stream_strands_nothing(void **state)
{
    (void)state;
    written made;
    finished done;
    doctor_case examined;
    write_two_streams(&made, 0);
    finish(&made, &done);
    assert_null(examine(&examined, &done.recording, 0));
    assert_int_equal(examined.result.stranded_bytes, 0);
    doctor_case_close(&examined);
    dispose(&done);
}

static void frees_that_wait_for_another_stream_strand_what_they_free(void **state)
{
    (void)state;
    written made;
    finished done;
    doctor_case examined;
    begin(&made);
    for (uint64_t i = 0; i < 4; i++) {
        take(&made, A + i * 200 * MIB, 100 * MIB, 0, VW__MODEL_DEFAULT_POOL);
        event(&made, VW_ACTION_FREE_REQUESTED, A + i * 200 * MIB, 100 * MIB, 0,
              VW__MODEL_DEFAULT_POOL);
    }
    for (uint64_t i = 0; i < 4; i++)
        event(&made, VW_ACTION_FREE_COMPLETED, A + i * 200 * MIB, 100 * MIB, 0,
              VW__MODEL_DEFAULT_POOL);
    finish(&made, &done);
    vw__diagnosis_finding *finding = examine(&examined, &done.recording, 0);
    assert_true(examined.result.is_stranded);
    assert_non_null(finding);
    assert_int_equal(finding->bytes, 300 * MIB);
    const vw_remedy *remedy = find_remedy(finding, "instead of record_stream()");
    assert_non_null(remedy);
    assert_int_equal(remedy->saves_bytes, 300 * MIB);
    doctor_case_close(&examined);
    dispose(&done);
}

/* 394 MiB idle that a small block of (stream, pool) holds, and a request for 300 elsewhere. */
static void write_refusal(written *made, uint16_t stream, uint16_t pool)
{
    begin(made);
    take(made, A, 396 * MIB, stream, pool);
    let_go(made, A, 396 * MIB, stream, pool);
    event(made, VW_ACTION_ALLOC, A, 2 * MIB, stream, pool);
    take(made, B, 40 * MIB, 0, VW__MODEL_DEFAULT_POOL);
    event(made, VW_ACTION_OOM, GIB, 300 * MIB, 0, VW__MODEL_DEFAULT_POOL);
}

static void a_request_that_another_stream_could_have_served_is_stranded(void **state)
{
    (void)state;
    written made;
    finished done;
    doctor_case examined;
    write_refusal(&made, SIDE, VW__MODEL_DEFAULT_POOL);
    finish(&made, &done);
    vw__diagnosis_finding *finding = examine(&examined, &done.recording, 0);
    assert_true(examined.result.is_stranded);
    assert_non_null(finding);
    assert_int_equal(finding->bytes, 394 * MIB);
    assert_true(has_words(finding->title, "300 MiB were refused"));
    assert_string_equal(finding->where[0], "train.py:20 side");
    assert_int_equal(finding->part_count, 1);
    assert_int_equal(finding->parts[0].bytes, finding->bytes);
    assert_true(has_words(finding->parts[0].name, "stream 0x5500"));
    doctor_case_close(&examined);
    dispose(&done);
}

static void so_is_one_that_a_private_pool_could_have_served(void **state)
{
    (void)state;
    written made;
    finished done;
    doctor_case examined;
    write_refusal(&made, 0, PRIVATE);
    finish(&made, &done);
    vw__diagnosis_finding *finding = examine(&examined, &done.recording, 0);
    assert_true(examined.result.is_stranded);
    assert_non_null(finding);
    assert_non_null(find_remedy(finding, "share one pool"));
    doctor_case_close(&examined);
    dispose(&done);
}

/* On one stream the pieces would lie just as far apart. */
static void pieces_that_would_not_have_served_it_anywhere_are_not_blamed(void **state)
{
    (void)state;
    written made;
    finished done;
    doctor_case examined;
    begin(&made);
    take(&made, A, 198 * MIB, SIDE, VW__MODEL_DEFAULT_POOL);
    let_go(&made, A, 198 * MIB, SIDE, VW__MODEL_DEFAULT_POOL);
    event(&made, VW_ACTION_ALLOC, A, 2 * MIB, SIDE, VW__MODEL_DEFAULT_POOL);
    event(&made, VW_ACTION_ALLOC, A + 2 * MIB, 100 * MIB, SIDE, VW__MODEL_DEFAULT_POOL);
    take(&made, A + 400 * MIB, 198 * MIB, SIDE, VW__MODEL_DEFAULT_POOL);
    let_go(&made, A + 400 * MIB, 198 * MIB, SIDE, VW__MODEL_DEFAULT_POOL);
    event(&made, VW_ACTION_ALLOC, A + 400 * MIB, 97 * MIB, SIDE, VW__MODEL_DEFAULT_POOL);
    let_go(&made, A + 2 * MIB, 100 * MIB, SIDE, VW__MODEL_DEFAULT_POOL);
    take(&made, B, 40 * MIB, 0, VW__MODEL_DEFAULT_POOL);
    event(&made, VW_ACTION_OOM, GIB, 250 * MIB, 0, VW__MODEL_DEFAULT_POOL);
    finish(&made, &done);
    assert_null(examine(&examined, &done.recording, 0));
    assert_int_equal(examined.result.stranded_bytes, (196 + 101) * MIB); /* enough, in all */
    assert_false(examined.result.is_stranded);
    doctor_case_close(&examined);
    dispose(&done);
}

static void idle_memory_of_its_own_stream_is_not_stranded(void **state)
{
    (void)state;
    written made;
    finished done;
    doctor_case examined;
    write_refusal(&made, 0, VW__MODEL_DEFAULT_POOL);
    finish(&made, &done);
    assert_null(examine(&examined, &done.recording, 0));
    assert_false(examined.result.is_stranded);
    doctor_case_close(&examined);
    dispose(&done);
}

/* ---- host memory ----------------------------------------------------------------------------- */

static bool examine_again(void *context)
{
    doctor_case made;
    bool is_done = doctor_case_try_open(&made, context, 0) &&
                   vw__doctor_find_failure(&made.input, &made.facts, &made.result) == VW_OK &&
                   vw__doctor_stranded(&made.input, &made.facts, &made.result) == VW_OK &&
                   !made.draft.has_failed;
    doctor_case_close(&made);
    return is_done;
}

static void every_lack_of_host_memory_is_reported(void **state)
{
    (void)state;
    written made;
    finished done;
    write_two_streams(&made, SIDE);
    finish(&made, &done);
    assert_true(examine_again(&done.recording)); /* the registry of devices is made once */
    vw_test_sweep_host_memory(examine_again, &done.recording);
    dispose(&done);
    write_refusal(&made, SIDE, VW__MODEL_DEFAULT_POOL);
    finish(&made, &done);
    vw_test_sweep_host_memory(examine_again, &done.recording);
    dispose(&done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(side_streams_strand_memory_and_nothing_else_does),
        cmocka_unit_test(what_waits_and_where_is_named_whole_and_cut),
        cmocka_unit_test(what_one_stream_would_not_need_is_stranded),
        cmocka_unit_test(a_program_with_one_stream_strands_nothing),
        cmocka_unit_test(frees_that_wait_for_another_stream_strand_what_they_free),
        cmocka_unit_test(a_request_that_another_stream_could_have_served_is_stranded),
        cmocka_unit_test(so_is_one_that_a_private_pool_could_have_served),
        cmocka_unit_test(pieces_that_would_not_have_served_it_anywhere_are_not_blamed),
        cmocka_unit_test(idle_memory_of_its_own_stream_is_not_stranded),
        cmocka_unit_test(every_lack_of_host_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
