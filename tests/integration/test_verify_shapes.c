/* test_verify_shapes.c - one training run, recorded by PyTorch in every way it can record.
 *
 * For each way it is known what can be verified: everything; everything but for something that is
 * listed; or nothing, and why (tests/data/recordings/README.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/stored_recordings.h"

#define SHAPES STORED_RECORDINGS "/shapes"

static void open_shape(const char *name, stored_recording *out)
{
    char file[64];
    (void)snprintf(file, sizeof file, "%s.shapes" STORED_ENDING, name);
    open_recording_in(SHAPES, file, out);
    out->name = name;
}

static bool is_listed(const vw_verify_result *result, const char *words)
{
    for (size_t i = 0; i < result->unverifiable_count; i++)
        if (strstr(result->unverifiable[i], words) != NULL)
            return true;
    return false;
}

/* ---- everything ------------------------------------------------------------------------------ */

/* With statistics and summary, and from the file alone; `listed` words are said, or nothing is. */
static void must_come_out(const char *name, const char *listed)
{
    stored_recording one;
    open_shape(name, &one);
    if (!comes_out_again(&one, one.json_path) || !comes_out_again(&one, NULL))
        fail_msg("%s", name);
    vw_verify_result *result = verify_recording(&one, NULL, NULL);
    if (listed == NULL ? result->unverifiable_count != 0 : !is_listed(result, listed))
        fail_msg("%s: %zu notes, the first: %s", name, result->unverifiable_count,
                 result->unverifiable_count > 0 ? result->unverifiable[0] : "none");
    vw_verify_result_free(result);
    vw_recording_close(one.recording);
}

static void whatever_stacks_are_kept_everything_comes_out(void **state)
{
    (void)state;
    must_come_out("all_contexts", NULL);
    must_come_out("all_contexts_expand", NULL);
    must_come_out("cpp_stacks", NULL);
    must_come_out("state_context", NULL);
    must_come_out("no_stacks", NULL);
    must_come_out("no_stacks_expand", NULL);
    must_come_out("no_stacks_limit", "no stacks, so nothing tells");
}

static void annotations_and_snapshots_do_not_disturb(void **state)
{
    (void)state;
    must_come_out("annotations", NULL);
    must_come_out("snapshots", NULL);
}

static void actions_that_were_skipped_are_listed(void **state)
{
    (void)state;
    must_come_out("skipped", "no free_completed events were recorded");
}

static void a_graph_that_was_destroyed_comes_out(void **state)
{
    (void)state;
    must_come_out("graph", NULL);
}

/* ---- a pool that nothing names --------------------------------------------------------------- */

static void a_mempool_that_was_destroyed_is_found_and_listed(void **state)
{
    (void)state;
    must_come_out("pool_expand", "which private pool");
}

/* Making up pools must not make everything come out. */
static void an_altered_address_in_such_a_pool_is_noticed(void **state)
{
    (void)state;
    stored_recording one;
    open_shape("pool_expand", &one);
    const vw__model_trace *trace = &one.recording->model->traces[0];
    vw__model_event *events = (vw__model_event *)(uintptr_t)trace->events;
    size_t altered = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        if (events[i].action != VW_ACTION_ALLOC || events[i].address >> 32 != 0x51)
            continue; /* it is the MemPool's reservation that begins at 0x51a8000000 */
        events[i].address += 512;
        vw_verify_result *result = verify_recording(&one, NULL, NULL);
        assert_false(result->is_exact);
        assert_false(is_listed(result, "which private pool"));
        vw_verify_result_free(result);
        events[i].address -= 512;
        altered++;
    }
    assert_true(altered > 10);
    vw_recording_close(one.recording);
}

static bool verify_quietly(void *context)
{
    const stored_recording *one = context;
    vw_verify_result *result = NULL;
    vw_status status = vw_recording_verify(one->recording, NULL, &result);
    if (status == VW_OK)
        assert_true(result->is_exact);
    else
        assert_int_equal(status, VW_ERR_HOST_MEMORY);
    vw_verify_result_free(result);
    return status == VW_OK;
}

static void every_failure_of_host_memory_is_survived_on_the_way_there(void **state)
{
    (void)state;
    stored_recording one;
    open_shape("pool_expand", &one);
    vw_test_sweep_host_memory(verify_quietly, &one);
    vw_recording_close(one.recording);
}

/* ---- nothing --------------------------------------------------------------------------------- */

static void
without_its_beginning_a_recording_agrees_with_itself_and_no_more_is_claimed(void **state)
{
    (void)state;
    static const char *const names[] = {"ring", "ring_expand", "late", "late_expand", "state_only"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        stored_recording one;
        open_shape(names[i], &one);
        vw_verify_result *result = verify_recording(&one, one.json_path, NULL);
        if (result->first_difference != NULL)
            print_first_difference(names[i], result);
        assert_true(result->is_exact);
        assert_int_equal(result->placements_recorded, 0);
        assert_int_equal(result->segment_events_recorded, 0);
        assert_int_equal(result->statistics_recorded, 0);
        assert_true(is_listed(result, "does not begin at the first allocation"));
        vw_verify_result_free(result);
        vw_recording_close(one.recording);
    }
}

static void segments_alone_are_refused(void **state)
{
    (void)state;
    stored_recording one;
    vw_verify_result *result = NULL;
    open_shape("bare_list", &one);
    assert_int_equal(vw_recording_verify(one.recording, NULL, &result), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "bare list of segments"));
    assert_null(result);
    vw_recording_close(one.recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_stacks_are_kept_everything_comes_out),
        cmocka_unit_test(annotations_and_snapshots_do_not_disturb),
        cmocka_unit_test(actions_that_were_skipped_are_listed),
        cmocka_unit_test(a_graph_that_was_destroyed_comes_out),
        cmocka_unit_test(a_mempool_that_was_destroyed_is_found_and_listed),
        cmocka_unit_test(an_altered_address_in_such_a_pool_is_noticed),
        cmocka_unit_test(every_failure_of_host_memory_is_survived_on_the_way_there),
        cmocka_unit_test(
            without_its_beginning_a_recording_agrees_with_itself_and_no_more_is_claimed),
        cmocka_unit_test(segments_alone_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
