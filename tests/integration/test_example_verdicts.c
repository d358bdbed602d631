/* test_example_verdicts.c - examples/pool_in_c prints its error and writes its recording: the
 * doctor says the same of both, and nothing that is for Python programs. */
#include "vramwise/doctor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vramwise/analysis.h"
#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)

typedef struct example_files {
    char folder[64], text[96], recording[96];
} example_files;

/* What it prints goes to one file, its history to another. */
static void run_example(example_files *files)
{
    int status = 0;
    (void)snprintf(files->folder, sizeof files->folder, "/tmp/example-XXXXXX");
    assert_non_null(mkdtemp(files->folder));
    (void)snprintf(files->text, sizeof files->text, "%s/error.txt", files->folder);
    (void)snprintf(files->recording, sizeof files->recording, "%s/run.pickle", files->folder);
    fflush(NULL);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        int file = open(files->text, O_WRONLY | O_CREAT, 0600);
        alarm(100);
        dup2(file, STDOUT_FILENO);
        execl(VW_EXAMPLE, "pool_in_c", files->recording, (char *)NULL);
        _exit(99);
    }
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void remove_files(const example_files *files)
{
    assert_int_equal(unlink(files->text), 0);
    assert_int_equal(unlink(files->recording), 0);
    assert_int_equal(rmdir(files->folder), 0);
}

static vw_diagnosis *diagnose(const char *path, vw_doctor_source source)
{
    vw_diagnosis *diagnosis = NULL;
    if (vw_doctor_file(path, NULL, &diagnosis) != VW_OK)
        fail_msg("%s: %s", path, vw_last_error());
    assert_int_equal(diagnosis->source, source);
    return diagnosis;
}

static void check_remedies(const vw_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        for (size_t k = 0; k < diagnosis->findings[i].remedy_count; k++) {
            const vw_remedy *remedy = &diagnosis->findings[i].remedies[k];
            assert_null(strstr(remedy->how, "python train.py"));
            assert_null(strstr(remedy->action, "enough"));
            assert_int_not_equal(remedy->enough, VW_ENOUGH_YES); /* nothing is, under that limit */
        }
}

static void its_error_and_its_recording_have_one_verdict(void **state)
{
    example_files files;
    (void)state;
    run_example(&files);
    vw_diagnosis *of_text = diagnose(files.text, VW_SOURCE_TEXT);
    vw_diagnosis *of_recording = diagnose(files.recording, VW_SOURCE_RECORDING);
    assert_int_equal(of_text->verdict, VW_VERDICT_TOO_LARGE);
    assert_int_equal(of_recording->verdict, of_text->verdict);
    assert_int_equal(of_recording->confidence, of_text->confidence);
    assert_int_equal(of_recording->numbers.tried_bytes, of_text->numbers.tried_bytes);
    assert_int_equal(of_recording->numbers.allowed_bytes, of_text->numbers.allowed_bytes);
    check_remedies(of_recording);
    vw_diagnosis_free(of_text);
    vw_diagnosis_free(of_recording);
    remove_files(&files);
}

static void its_recording_is_replayed_under_its_limit(void **state)
{
    example_files files;
    vw_recording *recording = NULL;
    vw_replay_report *report = NULL;
    (void)state;
    run_example(&files);
    assert_int_equal(vw_recording_open(files.recording, NULL, &recording), VW_OK);
    assert_int_equal(vw_recording_replay(recording, NULL, &report), VW_OK);
    for (size_t i = 0; i < report->result_count; i++) {
        assert_true(report->results[i].card_bytes > 255 * MIB);
        assert_true(report->results[i].card_bytes <= 256 * MIB);
        assert_false(report->results[i].is_complete);
    }
    vw_replay_report_free(report);
    vw_recording_close(recording);
    remove_files(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_error_and_its_recording_have_one_verdict),
        cmocka_unit_test(its_recording_is_replayed_under_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
