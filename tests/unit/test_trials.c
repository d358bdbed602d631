/* test_trials.c - one recording under many settings: prepared once, on one card, each tried once.
 */
#include "settings/trials.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/hand_made_recording.h"
#include "support/host_memory_sweep.h"
#include "support/stored_recordings.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)

static void open_trials(const vw_recording *recording, const vw__replay_card *card, vw__trials *out)
{
    if (vw__trials_open(out, recording->model, NULL, VW_BUSIEST_DEVICE, card) != VW_OK)
        fail_msg("%s", vw_last_error());
}

static void a_setting_is_replayed_once(void **state)
{
    stored_recording one;
    vw__trials trials;
    vw_replay_result first, second;
    (void)state;
    open_stored("train_eval_phases.native.pickle.xz", &one);
    open_trials(one.recording, NULL, &trials);
    const vw__setting_row *row = vw__setting_row_of(VW__SETTING_EXPANDABLE);
    uint64_t before = vw__replay_play_count();
    assert_int_equal(vw__trials_try(&trials, row, &first), VW_OK);
    assert_int_equal(vw__replay_play_count() - before, 1);
    assert_int_equal(vw__trials_try(&trials, row, &second), VW_OK);
    assert_int_equal(vw__replay_play_count() - before, 1);
    assert_int_equal(first.peak_reserved_bytes, second.peak_reserved_bytes);
    assert_string_equal(second.policy, "expandable");
    assert_int_equal(vw__trials_try(&trials, NULL, &second), VW_OK); /* as recorded */
    assert_string_equal(second.policy, "recorded");
    assert_true(vw__replay_play_count() - before > 1);
    vw__trials_close(&trials);
    vw_recording_close(one.recording);
}

static void the_card_is_the_recordings_or_the_one_that_is_named(void **state)
{
    stored_recording one;
    vw__trials trials;
    const vw__replay_card named = vw__replay_card_of(1000 * MIB),
                          endless = vw__replay_card_without_end();
    vw__replay_recorded_card recorded;
    (void)state;
    open_stored("train_eval_phases.native.pickle.xz", &one); /* it never ran out */
    open_trials(one.recording, NULL, &trials);
    assert_false(trials.is_card_known || trials.has_limit);
    assert_true(trials.card.shown_bytes == VW_UNKNOWN);
    vw__trials_close(&trials);
    vw_recording_close(one.recording);

    open_stored("oom_fragmented.native.pickle.xz", &one); /* under a limit */
    open_trials(one.recording, NULL, &trials);
    assert_true(trials.is_card_known && trials.has_limit);
    assert_int_equal(vw__replay_recorded_card_find(&trials.work, &recorded), VW_OK);
    assert_int_equal(trials.card.shown_bytes, recorded.bytes);
    vw__trials_close(&trials);
    open_trials(one.recording, &named, &trials);
    assert_true(trials.is_card_known);
    assert_int_equal(trials.card.shown_bytes, 1000 * MIB);
    vw__trials_close(&trials);
    open_trials(one.recording, &endless, &trials);
    assert_false(trials.is_card_known || trials.has_limit);
    vw__trials_close(&trials);
    vw_recording_close(one.recording);
}

static bool is_new(const vw__trials *trials, vw__setting_kind kind)
{
    bool is_new = false;
    assert_int_equal(vw__trials_is_new(trials, vw__setting_row_of(kind), &is_new), VW_OK);
    return is_new;
}

static void what_was_recorded_and_what_the_version_refuses_are_not_new(void **state)
{
    stored_recording one;
    vw__trials trials;
    (void)state;
    open_stored("train_eval_phases.native.pickle.xz", &one);
    open_trials(one.recording, NULL, &trials);
    assert_false(is_new(&trials, VW__SETTING_DEFAULTS));
    assert_true(is_new(&trials, VW__SETTING_EXPANDABLE));
    assert_true(is_new(&trials, VW__SETTING_VRAMWISE));
    vw__trials_close(&trials);
    assert_int_equal(
        vw__trials_open(&trials, one.recording->model, "1.13", VW_BUSIEST_DEVICE, NULL), VW_OK);
    assert_false(is_new(&trials, VW__SETTING_EXPANDABLE));
    vw__trials_close(&trials);
    vw_recording_close(one.recording);

    open_stored("oom_fragmented.expand.pickle.xz", &one);
    open_trials(one.recording, NULL, &trials);
    assert_true(is_new(&trials, VW__SETTING_DEFAULTS));
    assert_false(is_new(&trials, VW__SETTING_EXPANDABLE));
    vw__trials_close(&trials);
    vw_recording_close(one.recording);
}

static void a_recording_of_engine_vramwise_is_tried_with_it(void **state)
{
    hand_made_recording hand;
    vw__trials trials;
    vw_replay_result result;
    (void)state;
    record_begin(&hand);
    record_new(&hand, A, 20 * MIB, 4 * MIB);
    record_free(&hand, A, 4 * MIB);
    record_engine(&hand, "vramwise");
    open_trials(record_end(&hand), NULL, &trials);
    assert_int_equal(vw__trials_try(&trials, NULL, &result), VW_OK);
    assert_string_equal(result.policy, "vramwise");
    assert_true(result.calls.create != 0); /* pages */
    assert_false(is_new(&trials, VW__SETTING_VRAMWISE));
    assert_false(is_new(&trials, VW__SETTING_EXPANDABLE)); /* it does not read that option */
    vw__trials_close(&trials);
    record_dispose(&hand);
}

/* ---- host memory ----------------------------------------------------------------------------- */

static bool try_again(void *context)
{
    const vw_recording *recording = context;
    vw__trials trials;
    vw_replay_result result;
    if (vw__trials_open(&trials, recording->model, NULL, VW_BUSIEST_DEVICE, NULL) != VW_OK)
        return false;
    bool is_done =
        vw__trials_try(&trials, NULL, &result) == VW_OK &&
        vw__trials_try(&trials, vw__setting_row_of(VW__SETTING_VRAMWISE), &result) == VW_OK;
    vw__trials_close(&trials);
    return is_done;
}

static void every_lack_of_host_memory_is_reported(void **state)
{
    hand_made_recording hand;
    (void)state;
    record_begin(&hand);
    record_new(&hand, A, 20 * MIB, 4 * MIB);
    record_free(&hand, A, 4 * MIB);
    record_event(&hand, VW_ACTION_OOM, 10 * MIB, 30 * MIB);
    (void)record_end(&hand);
    vw_test_sweep_host_memory(try_again, &hand.recording);
    record_dispose(&hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_setting_is_replayed_once),
        cmocka_unit_test(the_card_is_the_recordings_or_the_one_that_is_named),
        cmocka_unit_test(what_was_recorded_and_what_the_version_refuses_are_not_new),
        cmocka_unit_test(a_recording_of_engine_vramwise_is_tried_with_it),
        cmocka_unit_test(every_lack_of_host_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
