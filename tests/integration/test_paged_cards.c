/* test_paged_cards.c - the recordings of tests/data, in the modes that copy, on cards hardly larger
 * than what is live: a fiftieth, or 32 pages where that is more.
 *
 * The pages are for what blocks leave of the pages at their ends, which no copying brings together
 * where the blocks' offsets are alike. Recordings of private pools are left out: what such a pool
 * has is not taken from it while it is in use, however little of it is live. */
#include "vramwise/analysis.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/stored_recordings.h"

#define PAGE_BYTES (UINT64_C(2) << 20)

static const char *const with_private_pools[] = {"mem_pool", "no_split_pool", "graphs"};

static bool has_private_pools(const stored_recording *one)
{
    for (size_t i = 0; i < sizeof with_private_pools / sizeof with_private_pools[0]; i++)
        if (strncmp(one->name, with_private_pools[i], strlen(with_private_pools[i])) == 0)
            return true;
    return false;
}

static vw_replay_report *replay(const stored_recording *one, uint64_t card_bytes)
{
    static const vw_replay_run runs[] = {{.policy = "vramwise"}, {.policy = "vramwise:tight"}};
    const vw_replay_options options = {
        .struct_size = sizeof options,
        .runs = runs,
        .run_count = sizeof runs / sizeof runs[0],
        .device = VW_BUSIEST_DEVICE,
        .card_bytes = card_bytes,
    };
    vw_replay_report *report = NULL;
    if (vw_recording_replay(one->recording, &options, &report) != VW_OK)
        fail_msg("%s: %s", one->name, vw_last_error());
    return report;
}

static struct {
    unsigned recordings;
    unsigned copied; /* of those, that needed it */
} seen;

static void replay_on_a_tight_card(const stored_recording *one)
{
    if (has_private_pools(one))
        return;
    vw_replay_report *report = replay(one, UINT64_C(1) << 45);
    uint64_t spare_bytes = report->peak_live_bytes / 50;
    if (spare_bytes < 32 * PAGE_BYTES)
        spare_bytes = 32 * PAGE_BYTES;
    uint64_t card_bytes = report->peak_live_bytes + spare_bytes;
    vw_replay_report_free(report);

    report = replay(one, card_bytes);
    bool has_copied = false;
    for (size_t i = 0; i < report->result_count; i++) {
        const vw_replay_result *result = &report->results[i];
        if (result->events_done != report->event_count)
            fail_msg("%s, %s: out of memory at event %llu of %llu", one->name, result->policy,
                     (unsigned long long)result->oom_event,
                     (unsigned long long)report->event_count);
        assert_true(result->peak_reserved_bytes <= card_bytes);
        has_copied |= result->copied_bytes != 0;
    }
    seen.recordings++;
    seen.copied += has_copied;
    vw_replay_report_free(report);
}

static void every_recording_completes_on_a_card_hardly_larger_than_what_is_live(void **state)
{
    (void)state;
    each_stored_recording(replay_on_a_tight_card);
    assert_true(seen.recordings >= 20);
    assert_true(seen.copied >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_recording_completes_on_a_card_hardly_larger_than_what_is_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
