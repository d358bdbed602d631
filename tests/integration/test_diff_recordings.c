/* test_diff_recordings.c - real recordings, compared pairwise.
 *
 * A workload is recorded several times, under different settings of the allocator: NAME.native,
 * NAME.expand ... The program asked for the same, so a comparison has few rows. Other pairs of
 * recordings differ as much as they can. The rows of all of them account for the two peaks. */
#include "vramwise/analysis.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/compared_models.h"
#include "support/stored_recordings.h"

/* VRAMWISE_CORPUS names a folder with more. */
static const char *recordings_folder(void)
{
    const char *folder = getenv("VRAMWISE_CORPUS");
    return folder != NULL && folder[0] != '\0' ? folder : STORED_RECORDINGS;
}

static bool is_same_workload(const char *one, const char *other)
{
    size_t length = strcspn(one, ".");
    return strncmp(one, other, length + 1) == 0;
}

/* The number of rows. What went one way goes the other way in reverse. */
static size_t compare(const stored_recording *one, const stored_recording *other)
{
    vw_diff_report *report = NULL, *reverse = NULL;
    assert_int_equal(vw_recordings_diff(one->recording, other->recording, &report), VW_OK);
    assert_int_equal(vw_recordings_diff(other->recording, one->recording, &reverse), VW_OK);
    assert_accounts_for_the_peaks(report);
    assert_accounts_for_the_peaks(reverse);
    assert_int_equal(report->change_count, reverse->change_count);
    assert_int_equal(report->grown_bytes, reverse->shrunk_bytes);
    assert_int_equal(report->shrunk_bytes, reverse->grown_bytes);
    assert_int_equal(report->rename_count, reverse->rename_count);
    size_t count = report->change_count;
    vw_diff_report_free(report);
    vw_diff_report_free(reverse);
    return count;
}

/* Rows of a workload that was recorded twice. Where memory ran out, the two settings reached
 * different points of it. */
enum { MOST_ROWS = 4 };

static void rows_are_few_and_account_for_the_peaks(void **state)
{
    (void)state;
    struct dirent **names;
    stored_recording last = {.recording = NULL};
    size_t same_count = 0, pair_count = 0;
    int count = scandir(recordings_folder(), &names, is_recording_name, alphasort);
    assert_true(count > 1);
    for (int i = 0; i < count; i++) {
        stored_recording here = {.recording = NULL};
        open_recording_in(recordings_folder(), names[i]->d_name, &here);
        if (i > 0) {
            size_t rows = compare(&last, &here);
            if (is_same_workload(names[i - 1]->d_name, names[i]->d_name)) {
                if (rows > MOST_ROWS)
                    print_message("%s, %s: %zu rows\n", last.name, here.name, rows);
                assert_true(rows <= MOST_ROWS);
                pair_count++;
                same_count += rows == 0;
            }
            vw_recording_close(last.recording);
        }
        assert_int_equal(compare(&here, &here), 0);
        last = here;
    }
    vw_recording_close(last.recording);
    print_message("%zu of %zu pairs of one workload do not differ\n", same_count, pair_count);
    assert_true(pair_count > 0 && same_count > pair_count / 2);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_few_and_account_for_the_peaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
