/* test_paged_never_worse.c - the smallest card of our engine is at most that of expandable
 * segments.
 *
 * For each recording of tests/data, in the mode that copies live data where the alternative is
 * running out of memory. `make test` takes the small ones, which are most of them. With --all,
 * which `make cards` gives, also the large ones and those of the folder that VRAMWISE_CORPUS names.
 */
#include "vramwise/analysis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/stored_recordings.h"

typedef struct tally {
    unsigned compared, without_trace, worse;
} tally;

static bool is_all; /* as the command line says */

/* NULL: the recording has no events to replay. */
static vw_replay_report *find_smallest_cards(const stored_recording *one)
{
    static const vw_replay_run runs[] = {{.policy = "expandable"}, {.policy = "vramwise"}};
    const vw_replay_options options = {
        .struct_size = sizeof options,
        .runs = runs,
        .run_count = sizeof runs / sizeof runs[0],
        .device = VW_BUSIEST_DEVICE,
        .find_smallest_card = true,
    };
    vw_replay_report *report = NULL;
    vw_status status = vw_recording_replay(one->recording, &options, &report);
    if (status != VW_OK && status != VW_ERR_CORRUPT_FILE)
        fail_msg("%s: %s", one->name, vw_last_error());
    return report;
}

static void compare(const stored_recording *one, tally *seen)
{
    vw_replay_report *report = find_smallest_cards(one);
    if (report == NULL) {
        seen->without_trace++;
        return;
    }
    uint64_t theirs = report->results[0].smallest_card_bytes;
    uint64_t ours = report->results[1].smallest_card_bytes; /* VW_UNKNOWN is the largest number */
    if (ours > theirs) {
        print_error("%s: %s needs a card of %llu bytes, %s of %llu\n", one->name,
                    report->results[1].policy, (unsigned long long)ours, report->results[0].policy,
                    (unsigned long long)theirs);
        seen->worse++;
    }
    seen->compared++;
    vw_replay_report_free(report);
}

static void compare_folder(const char *folder, tally *seen)
{
    struct dirent **list;
    int count = scandir(folder, &list, is_recording_name, alphasort);
    if (count <= 0)
        fail_msg("%s: recordings are expected there", folder);
    for (int i = 0; i < count; i++) {
        stored_recording one;
        open_recording_in(folder, list[i]->d_name, &one);
        compare(&one, seen);
        vw_recording_close(one.recording);
        free(list[i]);
    }
    free(list);
}

static void the_smallest_card_is_at_most_that_of_expandable_segments(void **state)
{
    (void)state;
    tally seen = {.compared = 0};
    const char *corpus = getenv("VRAMWISE_CORPUS");
    compare_folder(STORED_RECORDINGS "/doctor", &seen);
    compare_folder(STORED_RECORDINGS "/shapes", &seen);
    if (is_all) {
        compare_folder(STORED_RECORDINGS, &seen);
        compare_folder(STORED_RECORDINGS "/paged", &seen);
        compare_folder(VW_TEST_DATA "/spill", &seen);
    }
    if (is_all && corpus != NULL)
        compare_folder(corpus, &seen);
    print_message("%u recordings compared\n", seen.compared);
    assert_true(seen.compared >= 80);
    assert_true(seen.without_trace <= 2);
    assert_int_equal(seen.worse, 0);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_card_is_at_most_that_of_expandable_segments),
    };
    is_all = argument_count == 2 && strcmp(arguments[1], "--all") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
