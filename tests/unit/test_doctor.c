/* test_doctor.c - what the doctor makes of whatever it is handed. */
#include "vramwise/doctor.h"

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
    strcpy(path, "/tmp/vramwise_doctor_XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size_bytes), (ssize_t)size_bytes);
    assert_int_equal(close(file), 0);
}

static vw_status diagnose_bytes(const void *bytes, size_t size_bytes, vw_diagnosis **out)
{
    char path[32];
    write_file(path, bytes, size_bytes);
    vw_status status = vw_doctor_file(path, NULL, out);
    assert_int_equal(unlink(path), 0);
    return status;
}

static void expect(const char *text, vw_doctor_source source, vw_verdict verdict)
{
    vw_diagnosis *diagnosis = NULL;
    if (diagnose_bytes(text, strlen(text), &diagnosis) != VW_OK)
        fail_msg("\"%.60s\": %s", text, vw_last_error());
    if (diagnosis->source != source || diagnosis->verdict != verdict)
        fail_msg("\"%.60s\": found %s from a %s", text, vw_verdict_name(diagnosis->verdict),
                 vw_doctor_source_name(diagnosis->source));
    vw_diagnosis_free(diagnosis);
}

static void an_error_is_a_text_and_more_lines_are_a_log(void **state)
{
    (void)state;
    char log[8192] = "";
    expect(FAILED, VW_SOURCE_TEXT, VW_VERDICT_FRAGMENTATION);
    for (int i = 0; i < 100; i++)
        strcat(log, "INFO all is well here\n");
    strcat(log, FAILED "\n");
    expect(log, VW_SOURCE_LOG, VW_VERDICT_FRAGMENTATION);
}

static void an_error_inside_json_is_a_text(void **state)
{
    (void)state;
    expect("{\"level\": \"error\", \"message\": \"" FAILED "\"}", VW_SOURCE_TEXT,
           VW_VERDICT_FRAGMENTATION);
    expect("[{\"action\": \"retry\", \"error\": \"" FAILED "\"}]", VW_SOURCE_TEXT,
           VW_VERDICT_FRAGMENTATION);
}

static void steps_are_a_step_log_unless_there_is_an_error(void **state)
{
    (void)state;
    char log[8192] = "";
    for (int i = 0; i < 40; i++)
        (void)snprintf(log + strlen(log), 64, "step %d: %d.00 GB\n", i, 3);
    expect(log, VW_SOURCE_STEPS, VW_VERDICT_HEALTHY);
    strcat(log, FAILED "\n");
    expect(log, VW_SOURCE_TEXT, VW_VERDICT_FRAGMENTATION);
}

static void nothing_is_no_error(void **state)
{
    (void)state;
    expect("", VW_SOURCE_TEXT, VW_VERDICT_NOT_OOM);
    expect("\n\n", VW_SOURCE_TEXT, VW_VERDICT_NOT_OOM);
    expect("everything went fine\n", VW_SOURCE_TEXT, VW_VERDICT_NOT_OOM);
}

static void bytes_that_are_no_text_get_a_clear_answer(void **state)
{
    (void)state;
    unsigned char bytes[4096];
    vw_diagnosis *diagnosis = NULL;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 131 + (i >> 3));
    bytes[0] = 0x7f;
    assert_int_equal(diagnose_bytes(bytes, sizeof bytes, &diagnosis), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "neither text nor a memory snapshot"));
    assert_null(diagnosis);
}

static void what_must_be_unpacked_first_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size_bytes;
        const char *said;
    } cases[] = {
#define BYTES(text) text, sizeof(text) - 1
        {BYTES("PK\x03\x04\x14\0\0\0\x08\0 and more of it"), "a zip file: unpack it first"},
        {BYTES("PK\x03\x04\0\0\0\0\0\0\0\0 model/data.pkl \x80\x02}"), "a checkpoint (torch.save"},
        {BYTES("BZh91AY&SY\xde\xad\xbe\xef"), "bzip2"},
        {BYTES("7z\xBC\xAF\x27\x1C\0\x04"), "a 7z archive"},
        {BYTES("\x04\x22\x4D\x18\x64\x40"), "lz4"},
        {BYTES("\x89PNG\r\n\x1A\n\0\0"), "an image"},
#undef BYTES
    };
    vw_diagnosis *diagnosis = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(diagnose_bytes(cases[i].bytes, cases[i].size_bytes, &diagnosis),
                         VW_ERR_CORRUPT_FILE);
        if (strstr(vw_last_error(), cases[i].said) == NULL)
            fail_msg("expected \"%s\" in \"%s\"", cases[i].said, vw_last_error());
        assert_int_equal(vw_doctor_text(cases[i].bytes, cases[i].size_bytes, NULL, &diagnosis),
                         VW_ERR_CORRUPT_FILE);
        assert_null(diagnosis);
    }
}

static void what_is_compressed_twice_is_said_to_be(void **state)
{
    (void)state;
    char path[32];
    unsigned char once[512];
    vw_diagnosis *diagnosis = NULL;
    write_file(path, "", 0);
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_true(gzputs(file, FAILED) > 0);
    assert_int_equal(gzclose(file), Z_OK);
    FILE *plain = fopen(path, "rb");
    assert_non_null(plain);
    size_t once_bytes = fread(once, 1, sizeof once, plain);
    assert_int_equal(fclose(plain), 0);
    file = gzopen(path, "wb");
    assert_int_equal(gzwrite(file, once, (unsigned)once_bytes), (int)once_bytes);
    assert_int_equal(gzclose(file), Z_OK);
    assert_int_equal(vw_doctor_file(path, NULL, &diagnosis), VW_ERR_CORRUPT_FILE);
    assert_int_equal(unlink(path), 0);
    assert_non_null(strstr(vw_last_error(), "compressed twice"));
    assert_null(diagnosis);
}

/* ---- steps that end in an error -------------------------------------------------------------- */

static const vw_finding *finding_of(const vw_diagnosis *diagnosis, const char *kind)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        if (strcmp(diagnosis->findings[i].kind, kind) == 0)
            return &diagnosis->findings[i];
    return NULL;
}

static bool says(const vw_diagnosis *diagnosis, const char *words)
{
    for (size_t i = 0; i < diagnosis->reasoning_count; i++)
        if (strstr(diagnosis->reasoning[i], words) != NULL)
            return true;
    return false;
}

#define GENUINE                                                                                    \
    "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 24.00 GiB total capacity; 22.00 GiB "  \
    "already allocated; 900.00 MiB free; 22.50 GiB reserved in total by PyTorch)\n"

/* A log of 200 steps that starts at 2 GB and ends with `error`. */
static vw_diagnosis *diagnose_run(double growth_gb, const char *error, uint64_t card_bytes)
{
    char log[16384] = "";
    size_t length = 0;
    const vw_doctor_options options = {.struct_size = sizeof options, .card_bytes = card_bytes};
    vw_diagnosis *diagnosis = NULL;
    for (int i = 0; i < 200; i++)
        length += (size_t)snprintf(log + length, sizeof log - length, "step %d: %.3f GB\n", i,
                                   2.0 + growth_gb * i);
    (void)snprintf(log + length, sizeof log - length, "%s", error);
    assert_int_equal(vw_doctor_text(log, strlen(log), &options, &diagnosis), VW_OK);
    return diagnosis;
}

static void growth_that_ends_in_the_error_is_a_leak(void **state)
{
    (void)state;
    vw_diagnosis *got = diagnose_run(0.1, GENUINE, 0);
    assert_int_equal(got->verdict, VW_VERDICT_LEAK);
    assert_int_equal(got->source, VW_SOURCE_LOG);
    assert_int_equal(got->error_count, 1);
    assert_string_equal(got->findings[0].kind, "leak");
    assert_non_null(strstr(got->findings[0].title, "per step"));
    assert_non_null(finding_of(got, "genuine")); /* what the numbers say stays */
    assert_true(says(got, "By its numbers alone the message is genuine"));
    assert_true(says(got, "No other cause remains"));
    assert_non_null(strstr(got->sentence, "A leak: memory grows by 102 MiB per step"));
    assert_non_null(strstr(got->sentence, "; then 2.00 GiB more were refused."));
    assert_int_equal(got->numbers.allocated_bytes, UINT64_C(22) << 30); /* at the failure */
    vw_diagnosis_free(got);

    got = diagnose_run(0.1, GENUINE, UINT64_C(80) << 30); /* a larger card only puts it off */
    assert_int_equal(got->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(got->sentence, "a card of 80.00 GiB is full at about step"));
    vw_diagnosis_free(got);
}

static void growth_too_small_for_the_error_is_a_finding_beside_it(void **state)
{
    (void)state;
    vw_diagnosis *got = diagnose_run(0.001, GENUINE, 0);
    assert_int_equal(got->verdict, VW_VERDICT_GENUINE);
    assert_non_null(finding_of(got, "leak"));
    assert_true(says(got, "it does not explain the failure by itself"));
    vw_diagnosis_free(got);
}

static void steps_that_do_not_grow_leave_the_error_alone(void **state)
{
    (void)state;
    vw_diagnosis *got = diagnose_run(0.0, GENUINE, 0);
    assert_int_equal(got->verdict, VW_VERDICT_GENUINE);
    assert_null(finding_of(got, "leak"));
    assert_false(says(got, "step log"));
    vw_diagnosis_free(got);
}

static void growth_does_not_explain_what_no_freeing_would_have_served(void **state)
{
    (void)state;
    vw_diagnosis *got = diagnose_run(
        0.1,
        "CUDA out of memory. Tried to allocate 60.00 GiB (GPU 0; 24.00 GiB total capacity; 22.00 "
        "GiB already allocated; 900.00 MiB free; 22.50 GiB reserved in total by PyTorch)\n",
        0);
    assert_int_equal(got->verdict, VW_VERDICT_TOO_LARGE);
    assert_non_null(finding_of(got, "leak"));
    vw_diagnosis_free(got);
    got = diagnose_run(0.1,
                       "RuntimeError: DefaultCPUAllocator: not enough memory: you tried to "
                       "allocate 1073741824 bytes.\n",
                       0);
    assert_int_equal(got->verdict, VW_VERDICT_HOST); /* other memory than the one that grew */
    vw_diagnosis_free(got);
}

/* Of an 80 GiB card, most of which is free. */
#define AT_A_LIMIT(tried, allowed)                                                                 \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " tried ". GPU 0 has a total "  \
    "capacity of 80.00 GiB of which 57.00 GiB is free. Including non-PyTorch memory, this "        \
    "process has 22.90 GiB memory in use. " allowed "Of the allocated memory 21.90 GiB is "        \
    "allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.\n"

static void growth_that_ends_at_a_limit_is_a_leak_and_the_limit_is_named(void **state)
{
    (void)state;
    vw_diagnosis *got = diagnose_run(0.1, AT_A_LIMIT("512.00 MiB", "22.40 GiB allowed; "), 0);
    assert_int_equal(got->verdict, VW_VERDICT_LEAK);
    assert_int_equal(got->confidence, VW_CONFIDENCE_HIGH);
    assert_string_equal(got->findings[0].kind, "leak");
    assert_non_null(finding_of(got, "capped")); /* what the numbers say stays */
    assert_true(says(got, "By its numbers alone the message is capped"));
    assert_true(says(got, "what memory grew up to is the limit of 22.40 GiB that was set"));
    assert_non_null(strstr(got->sentence, "; then 512 MiB more were refused by the limit of "
                                          "22.40 GiB."));
    vw_diagnosis_free(got);

    got = diagnose_run(0.1, AT_A_LIMIT("512.00 MiB", ""), 0); /* PyTorch 2.1 to 2.4 */
    assert_int_equal(got->verdict, VW_VERDICT_LEAK);
    assert_int_equal(got->confidence, VW_CONFIDENCE_MEDIUM); /* that there is one is concluded */
    assert_non_null(finding_of(got, "refused"));
    assert_true(says(got, "By its numbers alone the message is refused"));
    assert_true(says(got, "is a limit that the message does not name"));
    assert_non_null(strstr(got->sentence, "refused by a limit, not by the card."));
    vw_diagnosis_free(got);

    got = diagnose_run(0.1, AT_A_LIMIT("512.00 MiB", ""), UINT64_C(80) << 30); /* and no limit */
    assert_int_equal(got->verdict, VW_VERDICT_LEAK);
    assert_false(says(got, "a limit that the message does not name"));
    vw_diagnosis_free(got);
}

static void a_request_larger_than_the_growth_is_the_limits_own_doing(void **state)
{
    (void)state;
    vw_diagnosis *got = diagnose_run(0.1, AT_A_LIMIT("21.00 GiB", "40.00 GiB allowed; "), 0);
    assert_int_equal(got->verdict, VW_VERDICT_CAPPED);
    assert_non_null(finding_of(got, "leak"));
    assert_true(says(got, "it does not explain the failure by itself"));
    vw_diagnosis_free(got);
    got = diagnose_run(0.1, AT_A_LIMIT("21.00 GiB", ""), 0);
    assert_int_equal(got->verdict, VW_VERDICT_REFUSED);
    assert_non_null(finding_of(got, "leak"));
    vw_diagnosis_free(got);
    got = diagnose_run(0.1, AT_A_LIMIT("60.00 GiB", "40.00 GiB allowed; "), 0);
    assert_int_equal(got->verdict, VW_VERDICT_TOO_LARGE);
    vw_diagnosis_free(got);

    /* Nor is growth that is a trifle, or none. */
    got = diagnose_run(0.004, AT_A_LIMIT("512.00 MiB", ""), 0);
    assert_int_equal(got->verdict, VW_VERDICT_REFUSED);
    vw_diagnosis_free(got);
    got = diagnose_run(0.0, AT_A_LIMIT("512.00 MiB", "22.40 GiB allowed; "), 0);
    assert_int_equal(got->verdict, VW_VERDICT_CAPPED);
    assert_null(finding_of(got, "leak"));
    vw_diagnosis_free(got);
}

static void growth_of_the_hosts_memory_explains_a_process_that_was_killed(void **state)
{
    (void)state;
    char log[16384] = "";
    size_t length = 0;
    vw_diagnosis *diagnosis = NULL;
    for (int i = 0; i < 200; i++)
        length += (size_t)snprintf(log + length, sizeof log - length, "step %d: cpu mem %.2f GB\n",
                                   i, 3.0 + 0.3 * i);
    (void)snprintf(log + length, sizeof log - length, "Killed\n");
    assert_int_equal(vw_doctor_text(log, strlen(log), NULL, &diagnosis), VW_OK);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    assert_non_null(finding_of(diagnosis, "host"));
    vw_diagnosis_free(diagnosis);
}

/* ---- whole files ----------------------------------------------------------------------------- */

static void a_compressed_log_is_read_as_well(void **state)
{
    (void)state;
    char path[32];
    vw_diagnosis *diagnosis = NULL;
    write_file(path, "", 0);
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_true(gzputs(file, FAILED) > 0);
    assert_int_equal(gzclose(file), Z_OK);
    assert_int_equal(vw_doctor_file(path, NULL, &diagnosis), VW_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_FRAGMENTATION);
    vw_diagnosis_free(diagnosis);
}

static void a_recording_is_known_by_its_first_bytes(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = NULL;
    assert_int_equal(vw_doctor_file(VW_TEST_DATA "/recordings/oom_fragmented.native.pickle.xz",
                                    NULL, &diagnosis),
                     VW_OK);
    assert_int_equal(diagnosis->source, VW_SOURCE_RECORDING);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_FRAGMENTATION);
    assert_int_equal(diagnosis->error_count, 1);
    vw_diagnosis_free(diagnosis);
    expect("{\"segments\": [], \"device_traces\": []}", VW_SOURCE_RECORDING, VW_VERDICT_UNKNOWN);
}

static void a_damaged_recording_is_an_error_and_not_a_text(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = NULL;
    assert_int_equal(diagnose_bytes("\x80\x04\x95\xff\xff", 5, &diagnosis), VW_ERR_CORRUPT_FILE);
    assert_int_equal(diagnose_bytes("{\"segments\": [", 14, &diagnosis), VW_ERR_CORRUPT_FILE);
    assert_null(diagnosis);
}

static void what_cannot_be_read_is_said(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = NULL;
    const vw_doctor_options small = {.struct_size = 1};
    assert_int_equal(vw_doctor_file("/nowhere/at/all", NULL, &diagnosis), VW_ERR_FILE);
    assert_int_equal(vw_doctor_file("/tmp", NULL, &diagnosis), VW_ERR_FILE);
    assert_int_equal(vw_doctor_file(NULL, NULL, &diagnosis), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_doctor_text(NULL, 1, NULL, &diagnosis), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_doctor_text("", 0, &small, &diagnosis), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_doctor_recording(NULL, NULL, &diagnosis), VW_ERR_INVALID_ARGUMENT);
    assert_null(diagnosis);
    vw_diagnosis_free(NULL);
}

static void a_version_that_nobody_knows_is_an_error_for_texts_too(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = NULL;
    vw_doctor_options options = {.struct_size = sizeof options, .torch_version = "9.9"};
    assert_int_equal(vw_doctor_text(FAILED, strlen(FAILED), &options, &diagnosis),
                     VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "9.9"));
    assert_int_equal(vw_doctor_file("/dev/null", &options, &diagnosis), VW_ERR_INVALID_ARGUMENT);
    options.torch_version = "two";
    assert_int_equal(vw_doctor_text(FAILED, strlen(FAILED), &options, &diagnosis),
                     VW_ERR_INVALID_ARGUMENT);
    assert_null(diagnosis);
    options.torch_version = "2.4";
    assert_int_equal(vw_doctor_text(FAILED, strlen(FAILED), &options, &diagnosis), VW_OK);
    vw_diagnosis_free(diagnosis);
}

static bool diagnose_text(void *context)
{
    vw_diagnosis *diagnosis = NULL;
    vw_status status = vw_doctor_text(context, strlen(context), NULL, &diagnosis);
    vw_diagnosis_free(diagnosis);
    return status == VW_OK;
}

static void no_host_memory_is_said(void **state)
{
    (void)state;
    char log[2048] = "";
    for (int i = 0; i < 40; i++)
        (void)snprintf(log + strlen(log), 64, "step %d: %d.00 GB\n", i, 3 + i);
    strcat(log, FAILED "\n");
    vw_test_sweep_host_memory(diagnose_text, log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_a_text_and_more_lines_are_a_log),
        cmocka_unit_test(an_error_inside_json_is_a_text),
        cmocka_unit_test(steps_are_a_step_log_unless_there_is_an_error),
        cmocka_unit_test(nothing_is_no_error),
        cmocka_unit_test(bytes_that_are_no_text_get_a_clear_answer),
        cmocka_unit_test(what_must_be_unpacked_first_is_named),
        cmocka_unit_test(what_is_compressed_twice_is_said_to_be),
        cmocka_unit_test(growth_that_ends_in_the_error_is_a_leak),
        cmocka_unit_test(growth_too_small_for_the_error_is_a_finding_beside_it),
        cmocka_unit_test(steps_that_do_not_grow_leave_the_error_alone),
        cmocka_unit_test(growth_does_not_explain_what_no_freeing_would_have_served),
        cmocka_unit_test(growth_that_ends_at_a_limit_is_a_leak_and_the_limit_is_named),
        cmocka_unit_test(a_request_larger_than_the_growth_is_the_limits_own_doing),
        cmocka_unit_test(growth_of_the_hosts_memory_explains_a_process_that_was_killed),
        cmocka_unit_test(a_compressed_log_is_read_as_well),
        cmocka_unit_test(a_recording_is_known_by_its_first_bytes),
        cmocka_unit_test(a_damaged_recording_is_an_error_and_not_a_text),
        cmocka_unit_test(what_cannot_be_read_is_said),
        cmocka_unit_test(a_version_that_nobody_knows_is_an_error_for_texts_too),
        cmocka_unit_test(no_host_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
