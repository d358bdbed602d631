/* test_doctor.c - what the doctor makes of whatever it is handed. */
#include "headroom/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#define FAILED                                                                                     \
    "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; 9.10 GiB "   \
    "already allocated; 512.00 MiB free; 14.30 GiB reserved in total by PyTorch)"

/* A file with that content, to be removed with unlink(). */
static void write_file(char path[32], const void *bytes, size_t size_bytes)
{
    strcpy(path, "/tmp/headroom_doctor_XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size_bytes), (ssize_t)size_bytes);
    assert_int_equal(close(file), 0);
}

static hr_status diagnose_bytes(const void *bytes, size_t size_bytes, hr_diagnosis **out)
{
    char path[32];
    write_file(path, bytes, size_bytes);
    hr_status status = hr_doctor_file(path, NULL, out);
    assert_int_equal(unlink(path), 0);
    return status;
}

static void expect(const char *text, hr_doctor_source source, hr_verdict verdict)
{
    hr_diagnosis *diagnosis = NULL;
    if (diagnose_bytes(text, strlen(text), &diagnosis) != HR_OK)
        fail_msg("\"%.60s\": %s", text, hr_last_error());
    if (diagnosis->source != source || diagnosis->verdict != verdict)
        fail_msg("\"%.60s\": found %s from a %s", text, hr_verdict_name(diagnosis->verdict),
                 hr_doctor_source_name(diagnosis->source));
    hr_diagnosis_free(diagnosis);
}

static void an_error_is_a_text_and_more_lines_are_a_log(void **state)
{
    (void)state;
    char log[8192] = "";
    expect(FAILED, HR_SOURCE_TEXT, HR_VERDICT_FRAGMENTATION);
    for (int i = 0; i < 100; i++)
        strcat(log, "INFO all is well here\n");
    strcat(log, FAILED "\n");
    expect(log, HR_SOURCE_LOG, HR_VERDICT_FRAGMENTATION);
}

static void an_error_inside_json_is_a_text(void **state)
{
    (void)state;
    expect("{\"level\": \"error\", \"message\": \"" FAILED "\"}", HR_SOURCE_TEXT,
           HR_VERDICT_FRAGMENTATION);
    expect("[{\"action\": \"retry\", \"error\": \"" FAILED "\"}]", HR_SOURCE_TEXT,
           HR_VERDICT_FRAGMENTATION);
}

static void steps_are_a_step_log_unless_there_is_an_error(void **state)
{
    (void)state;
    char log[8192] = "";
    for (int i = 0; i < 40; i++)
        (void)snprintf(log + strlen(log), 64, "step %d: %d.00 GB\n", i, 3);
    expect(log, HR_SOURCE_STEPS, HR_VERDICT_HEALTHY);
    strcat(log, FAILED "\n");
    expect(log, HR_SOURCE_TEXT, HR_VERDICT_FRAGMENTATION);
}

static void nothing_is_no_error(void **state)
{
    (void)state;
    expect("", HR_SOURCE_TEXT, HR_VERDICT_NOT_OOM);
    expect("\n\n", HR_SOURCE_TEXT, HR_VERDICT_NOT_OOM);
    expect("everything went fine\n", HR_SOURCE_TEXT, HR_VERDICT_NOT_OOM);
}

static void bytes_that_are_no_text_get_a_clear_answer(void **state)
{
    (void)state;
    unsigned char bytes[4096];
    hr_diagnosis *diagnosis = NULL;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 131 + (i >> 3));
    bytes[0] = 0x7f;
    assert_int_equal(diagnose_bytes(bytes, sizeof bytes, &diagnosis), HR_OK);
    assert_int_equal(diagnosis->verdict, HR_VERDICT_NOT_OOM);
    assert_true(diagnosis->reasoning_count != 0);
    hr_diagnosis_free(diagnosis);
}

static void a_compressed_log_is_read_as_well(void **state)
{
    (void)state;
    char path[32];
    hr_diagnosis *diagnosis = NULL;
    write_file(path, "", 0);
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_true(gzputs(file, FAILED) > 0);
    assert_int_equal(gzclose(file), Z_OK);
    assert_int_equal(hr_doctor_file(path, NULL, &diagnosis), HR_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(diagnosis->verdict, HR_VERDICT_FRAGMENTATION);
    hr_diagnosis_free(diagnosis);
}

static void a_recording_is_known_by_its_first_bytes(void **state)
{
    (void)state;
    hr_diagnosis *diagnosis = NULL;
    assert_int_equal(hr_doctor_file(HR_TEST_DATA "/recordings/oom_fragmented.native.pickle.xz",
                                    NULL, &diagnosis),
                     HR_OK);
    assert_int_equal(diagnosis->source, HR_SOURCE_RECORDING);
    assert_int_equal(diagnosis->verdict, HR_VERDICT_FRAGMENTATION);
    assert_int_equal(diagnosis->error_count, 1);
    hr_diagnosis_free(diagnosis);
    expect("{\"segments\": [], \"device_traces\": []}", HR_SOURCE_RECORDING, HR_VERDICT_UNKNOWN);
}

static void a_damaged_recording_is_an_error_and_not_a_text(void **state)
{
    (void)state;
    hr_diagnosis *diagnosis = NULL;
    assert_int_equal(diagnose_bytes("\x80\x04\x95\xff\xff", 5, &diagnosis), HR_ERR_CORRUPT_FILE);
    assert_int_equal(diagnose_bytes("{\"segments\": [", 14, &diagnosis), HR_ERR_CORRUPT_FILE);
    assert_null(diagnosis);
}

static void what_cannot_be_read_is_said(void **state)
{
    (void)state;
    hr_diagnosis *diagnosis = NULL;
    const hr_doctor_options small = {.struct_size = 1};
    assert_int_equal(hr_doctor_file("/nowhere/at/all", NULL, &diagnosis), HR_ERR_FILE);
    assert_int_equal(hr_doctor_file("/tmp", NULL, &diagnosis), HR_ERR_FILE);
    assert_int_equal(hr_doctor_file(NULL, NULL, &diagnosis), HR_ERR_INVALID_ARGUMENT);
    assert_int_equal(hr_doctor_text(NULL, 1, NULL, &diagnosis), HR_ERR_INVALID_ARGUMENT);
    assert_int_equal(hr_doctor_text("", 0, &small, &diagnosis), HR_ERR_INVALID_ARGUMENT);
    assert_int_equal(hr_doctor_recording(NULL, NULL, &diagnosis), HR_ERR_INVALID_ARGUMENT);
    assert_null(diagnosis);
    hr_diagnosis_free(NULL);
}

static bool diagnose_text(void *context)
{
    hr_diagnosis *diagnosis = NULL;
    hr_status status = hr_doctor_text(context, strlen(context), NULL, &diagnosis);
    hr_diagnosis_free(diagnosis);
    return status == HR_OK;
}

static void no_host_memory_is_said(void **state)
{
    (void)state;
    hr_test_sweep_host_memory(diagnose_text, (void *)(uintptr_t) "step 1: 1 GB\n" FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_a_text_and_more_lines_are_a_log),
        cmocka_unit_test(an_error_inside_json_is_a_text),
        cmocka_unit_test(steps_are_a_step_log_unless_there_is_an_error),
        cmocka_unit_test(nothing_is_no_error),
        cmocka_unit_test(bytes_that_are_no_text_get_a_clear_answer),
        cmocka_unit_test(a_compressed_log_is_read_as_well),
        cmocka_unit_test(a_recording_is_known_by_its_first_bytes),
        cmocka_unit_test(a_damaged_recording_is_an_error_and_not_a_text),
        cmocka_unit_test(what_cannot_be_read_is_said),
        cmocka_unit_test(no_host_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
