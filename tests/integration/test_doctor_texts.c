/* test_doctor_texts.c - verdicts on out-of-memory texts as people paste them.
 *
 * VRAMWISE_CORPUS may name a folder with oom_texts.jsonl: one object a line, with "id", "text" and
 * "verdict", which is null where the numbers are missing or contradict each other: `unknown` then,
 * or a verdict of those that a GPU's memory can have. Without the folder there is nothing to do. */
#include "vramwise/doctor.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/screen_check.h"

enum { MOST_PATH_BYTES = 4096, LONGEST_SENTENCE = 200, LONGEST_CODE_LINE = 73 };

typedef struct tally {
    size_t text_count, wrong_count, unlabelled_count, argued_count;
} tally;

/* Can a report about the GPU's memory have this verdict, without a recording? */
static bool is_of_gpu_text(vw_verdict verdict)
{
    switch (verdict) {
    case VW_VERDICT_GENUINE:
    case VW_VERDICT_FRAGMENTATION:
    case VW_VERDICT_STRANDED:
    case VW_VERDICT_OUTSIDE:
    case VW_VERDICT_CAPPED:
    case VW_VERDICT_REFUSED:
    case VW_VERDICT_TOO_LARGE:
    case VW_VERDICT_UNKNOWN:
        return true;
    default:
        return false;
    }
}

/* Parts are all of a finding, and what is to be typed fits on a line of the report. */
static void check_finding(const vw_finding *finding)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < finding->part_count; i++)
        sum += finding->parts[i].bytes;
    assert_true(finding->part_count == 0 || sum == finding->bytes);
    assert_null(strstr(finding->title, "unknown amount"));
    for (size_t i = 0; i < finding->remedy_count; i++)
        for (const char *line = finding->remedies[i].how; *line != '\0';) {
            size_t length = strcspn(line, "\n");
            assert_true(length <= LONGEST_CODE_LINE);
            line += length + (line[length] == '\n');
        }
}

static void check_form(const vw_diagnosis *diagnosis)
{
    assert_true(strlen(diagnosis->sentence) > 20);
    assert_true(strlen(diagnosis->sentence) <= LONGEST_SENTENCE);
    assert_true(diagnosis->reasoning_count > 0);
    assert_null(strstr(diagnosis->sentence, "unknown amount"));
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        check_finding(&diagnosis->findings[i]);
    if (diagnosis->verdict == VW_VERDICT_NOT_OOM)
        return;
    assert_true(diagnosis->finding_count > 0);
    assert_string_equal(diagnosis->findings[0].kind, vw_verdict_name(diagnosis->verdict));
    assert_true(diagnosis->findings[0].remedy_count > 0);
}

static void check_text(json_t *entry, tally *counted)
{
    const char *id = json_string_value(json_object_get(entry, "id"));
    json_t *text = json_object_get(entry, "text");
    const char *label = json_string_value(json_object_get(entry, "verdict"));
    assert_non_null(id);
    assert_true(json_is_string(text));
    vw_diagnosis *got = NULL;
    assert_int_equal(vw_doctor_text(json_string_value(text), json_string_length(text), NULL, &got),
                     VW_OK);
    bool is_right = label != NULL ? strcmp(label, vw_verdict_name(got->verdict)) == 0
                                  : is_of_gpu_text(got->verdict);
    if (!is_right)
        print_message("%s: expected %s, found %s: %s\n", id, label != NULL ? label : "unknown",
                      vw_verdict_name(got->verdict), got->sentence);
    check_form(got);
    assert_fits_screen(got, id);
    counted->text_count++;
    counted->wrong_count += !is_right;
    counted->unlabelled_count += label == NULL;
    counted->argued_count += label == NULL && got->verdict != VW_VERDICT_UNKNOWN;
    vw_diagnosis_free(got);
}

static void every_text_gets_the_verdict_of_its_label(void **state)
{
    (void)state;
    const char *folder = getenv("VRAMWISE_CORPUS");
    char path[MOST_PATH_BYTES];
    if (folder == NULL) {
        print_message("skipped: VRAMWISE_CORPUS names no folder\n");
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/oom_texts.jsonl", folder);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        print_message("skipped: there is no %s\n", path);
        skip();
    }
    tally counted = {0};
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0) {
        /* a limit of 2^64 is no integer of jansson's */
        json_t *entry = json_loads(line, JSON_DECODE_INT_AS_REAL, NULL);
        assert_non_null(entry);
        check_text(entry, &counted);
        json_decref(entry);
    }
    free(line);
    fclose(file);
    print_message("%zu texts, %zu of them without a label, of which %zu have a verdict\n",
                  counted.text_count, counted.unlabelled_count, counted.argued_count);
    assert_true(counted.text_count > 0);
    assert_int_equal(counted.wrong_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_gets_the_verdict_of_its_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
