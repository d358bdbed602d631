/* test_step_logs.c - the doctor on step logs of real runs.
 *
 * A folder has NAME.json with PyTorch's figures after each step, under "steps". Written down in the
 * ways people do (JSON lines, CSV, text of two decimals), whole and without their last tenth, those
 * of a run that leaks must be called a leak, and no other. tests/data/recordings is such a folder;
 * VRAMWISE_CORPUS may name another. */
#include "vramwise/doctor.h"

#include <dirent.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

enum { MOST_PATH_BYTES = 4096, LINE_BYTES = 128, FEWEST_STEPS = 6 };

static const char ending[] = ".json";

typedef enum log_form { FORM_JSON, FORM_CSV, FORM_TEXT, FORM_COUNT } log_form;

static bool is_leaking(const char *name)
{
    static const char *const leaking[] = {"leak_loss.", "leak_hook.", "eval_with_grad."};
    for (size_t i = 0; i < sizeof leaking / sizeof *leaking; i++)
        if (strncmp(name, leaking[i], strlen(leaking[i])) == 0)
            return true;
    return false;
}

static json_int_t field(json_t *step, const char *key)
{
    return json_integer_value(json_object_get(step, key));
}

static size_t write_step(char *line, json_t *step, log_form form)
{
    json_int_t number = field(step, "step"), allocated = field(step, "allocated");
    json_int_t reserved = field(step, "reserved");
    int size = 0;
    if (form == FORM_JSON)
        size = snprintf(line, LINE_BYTES,
                        "{\"step\": %lld, \"allocated\": %lld, \"reserved\": %lld}\n", number,
                        allocated, reserved);
    else if (form == FORM_CSV)
        size = snprintf(line, LINE_BYTES, "%lld,%lld,%lld\n", number, allocated, reserved);
    else
        size = snprintf(line, LINE_BYTES, "step %lld: %.2f GB\n", number,
                        (double)allocated / (double)(1 << 30));
    return (size_t)size;
}

static char *write_log(json_t *steps, size_t count, log_form form, size_t *size)
{
    static const char header[] = "step,allocated,reserved\n";
    char *text = malloc((count + 1) * LINE_BYTES);
    assert_non_null(text);
    *size = 0;
    if (form == FORM_CSV) {
        memcpy(text, header, sizeof header);
        *size = sizeof header - 1;
    }
    for (size_t i = 0; i < count; i++)
        *size += write_step(text + *size, json_array_get(steps, i), form);
    return text;
}

static void check_log(json_t *steps, size_t count, log_form form, const char *name)
{
    size_t size;
    char *text = write_log(steps, count, form, &size);
    vw_diagnosis *made = NULL;
    assert_int_equal(vw_doctor_text(text, size, NULL, &made), VW_OK);
    assert_int_equal(made->source, VW_SOURCE_STEPS);
    vw_verdict expected = count < FEWEST_STEPS ? VW_VERDICT_UNKNOWN
                          : is_leaking(name)   ? VW_VERDICT_LEAK
                                               : VW_VERDICT_HEALTHY;
    if (made->verdict != expected)
        fail_msg("%s, %zu steps, form %d: %s: %s", name, count, form,
                 vw_verdict_name(made->verdict), made->sentence);
    vw_diagnosis_free(made);
    free(text);
}

/* Returns how many logs were judged. */
static size_t check_file(const char *folder, const char *name)
{
    char path[MOST_PATH_BYTES];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *root = json_load_file(path, 0, &error);
    assert_non_null(root);
    json_t *steps = json_object_get(root, "steps");
    size_t count = json_array_size(steps), judged = 0;
    for (log_form form = 0; form < FORM_COUNT && count >= FEWEST_STEPS; form++) {
        check_log(steps, count, form, name);
        check_log(steps, count * 9 / 10, form, name);
        judged += 2;
    }
    json_decref(root);
    return judged;
}

static size_t check_folder(const char *folder)
{
    size_t judged = 0;
    DIR *open_folder = opendir(folder);
    assert_non_null(open_folder);
    for (struct dirent *entry = readdir(open_folder); entry != NULL; entry = readdir(open_folder)) {
        size_t size = strlen(entry->d_name), ending_size = strlen(ending);
        if (size > ending_size && strcmp(entry->d_name + size - ending_size, ending) == 0)
            judged += check_file(folder, entry->d_name);
    }
    closedir(open_folder);
    return judged;
}

static void stored_runs_get_their_verdict(void **state)
{
    (void)state;
    assert_true(check_folder(VW_TEST_DATA "/recordings") != 0);
}

static void runs_of_the_corpus_get_their_verdict(void **state)
{
    (void)state;
    const char *corpus = getenv("VRAMWISE_CORPUS");
    if (corpus == NULL || corpus[0] == '\0') {
        print_message("VRAMWISE_CORPUS names no folder: nothing to read\n");
        skip();
    }
    assert_true(check_folder(corpus) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_runs_get_their_verdict),
        cmocka_unit_test(runs_of_the_corpus_get_their_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
