/* test_doctor_text_log.c - lines of PyTorch's log that are no errors, and the variable that
 * remedies name. */
#include "support/diagnosed_text.h"

#define RETRY                                                                                      \
    "[rank1]:[W812 16:00:28.643448608 CUDACachingAllocator.cpp:3933] memory allocation failed "    \
    "with OOM on device 1 while trying to allocate 20971520 bytes (free: 15794176, total: "        \
    "150111977472).\n"
#define ADDRESSES                                                                                  \
    "[E812 16:00:28.643448608 CUDACachingAllocator.cpp:610] [ExpandableSegmentVA] reserving "      \
    "28.60 GiB of addresses failed; 4000 segments hold 112.00 TiB.\n"
#define STEP(number, memory) "step " number " loss 0.5 memory allocated " memory " GiB\n"
#define FRAGMENTED                                                                                 \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total "   \
    "capacity of 23.69 GiB of which 1.10 GiB is free. Including non-PyTorch memory, this process " \
    "has 22.50 GiB memory in use. Of the allocated memory 12.00 GiB is allocated by PyTorch, and " \
    "10.00 GiB is reserved by PyTorch but unallocated."
#define ADVICE(variable)                                                                           \
    " If reserved but unallocated memory is large try setting " variable                           \
    "=expandable_segments:True to avoid fragmentation.\n"

static vw_diagnosis *diagnose_text(const char *text, const char *version)
{
    vw_diagnosis *made = NULL;
    vw_doctor_options options = {.struct_size = sizeof options, .torch_version = version};
    assert_int_equal(vw_doctor_text(text, strlen(text), &options, &made), VW_OK);
    for (size_t i = 0; i < made->finding_count; i++)
        check_finding(&made->findings[i]);
    return made;
}

static bool has_remedy(const vw_diagnosis *got, const char *part)
{
    for (size_t i = 0; i < got->finding_count; i++)
        for (size_t k = 0; k < got->findings[i].remedy_count; k++)
            if (strstr(got->findings[i].remedies[k].how, part) != NULL)
                return true;
    return false;
}

static void a_retry_is_no_failure(void **state)
{
    (void)state;
    vw_diagnosis *got = diagnose_text("begin\n" RETRY RETRY "end\n", NULL);
    assert_int_equal(got->verdict, VW_VERDICT_NOT_OOM);
    assert_int_equal(got->confidence, VW_CONFIDENCE_MEDIUM);
    assert_int_equal(got->error_count, 0);
    assert_int_equal(got->numbers.tried_bytes, NONE);
    assert_string_equal(got->sentence, "Not out of memory: the driver refused 20.0 MiB at first, "
                                       "and PyTorch tried again; no error follows.");
    assert_string_equal(got->reasoning[0], "PyTorch's log, line 2: the driver did not give it 20.0 "
                                           "MiB, with 15.1 MiB free of 139.80 GiB.");
    vw_diagnosis_free(got);
    got = diagnose_text("memory allocation failed with OOM on device 1\n", NULL); /* cut */
    assert_int_equal(got->verdict, VW_VERDICT_NOT_OOM);
    vw_diagnosis_free(got);
}

static void a_log_of_steps_is_judged_by_its_steps(void **state)
{
    (void)state;
    vw_diagnosis *alone = diagnose_text(
        STEP("1", "3.0") STEP("2", "3.0") STEP("3", "3.0") STEP("4", "3.0") STEP("5", "3.0"), NULL);
    vw_diagnosis *got = diagnose_text(STEP("1", "3.0") STEP("2", "3.0") RETRY STEP("3", "3.0")
                                          RETRY STEP("4", "3.0") STEP("5", "3.0"),
                                      NULL);
    assert_int_equal(alone->source, VW_SOURCE_STEPS);
    assert_int_equal(got->source, VW_SOURCE_STEPS);
    assert_int_equal(got->verdict, alone->verdict);
    assert_string_equal(got->sentence, alone->sentence);
    vw_diagnosis_free(got);
    vw_diagnosis_free(alone);
}

static void an_error_behind_a_retry_is_one(void **state)
{
    (void)state;
    vw_diagnosis *got =
        diagnose_text(RETRY "[rank1]: torch.OutOfMemoryError: CUDA out of memory.\n", NULL);
    assert_int_equal(got->verdict, VW_VERDICT_UNKNOWN);
    assert_int_equal(got->error_count, 1);
    assert_int_equal(got->numbers.tried_bytes, 20 * MIB);
    assert_int_equal(got->numbers.free_bytes, 15794176);
    assert_int_equal(got->numbers.device, 1);
    assert_string_equal(got->reasoning[1],
                        "Numbers that the message lacks are from PyTorch's log, line 1.");
    vw_diagnosis_free(got);
}

static void a_lack_of_addresses_is_no_lack_of_memory(void **state)
{
    (void)state;
    vw_diagnosis *got =
        diagnose_text(ADDRESSES "RuntimeError: CUDA driver error: out of memory\n", NULL);
    assert_int_equal(got->verdict, VW_VERDICT_REFUSED);
    assert_int_equal(got->error_count, 1);
    assert_non_null(strstr(got->sentence, "ran out of addresses"));
    /* settings are in force, and the old name wins where both are set */
    assert_true(has_remedy(got, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False"));
    vw_diagnosis_free(got);
    got = diagnose_text(ADDRESSES "step done\n", NULL);
    assert_int_equal(got->verdict, VW_VERDICT_NOT_OOM);
    vw_diagnosis_free(got);
}

static void remedies_name_the_variable_of_the_message_or_the_version(void **state)
{
    static const struct {
        const char *text, *version, *remedy;
    } rows[] = {
        {FRAGMENTED ADVICE("PYTORCH_CUDA_ALLOC_CONF"), NULL, "PYTORCH_CUDA_ALLOC_CONF=expandable"},
        {FRAGMENTED ADVICE("PYTORCH_CUDA_ALLOC_CONF"), "2.12",
         "PYTORCH_CUDA_ALLOC_CONF=expandable"},
        {FRAGMENTED ADVICE("PYTORCH_ALLOC_CONF"), NULL, " PYTORCH_ALLOC_CONF=expandable"},
        {FRAGMENTED ADVICE("PYTORCH_ALLOC_CONF"), "2.9", " PYTORCH_ALLOC_CONF=expandable"},
        {FRAGMENTED ADVICE("PYTORCH_HIP_ALLOC_CONF"), NULL, "PYTORCH_HIP_ALLOC_CONF=expandable"},
        {FRAGMENTED "\n", NULL, "PYTORCH_CUDA_ALLOC_CONF=expandable"},
        {FRAGMENTED "\n", "2.9", "PYTORCH_CUDA_ALLOC_CONF=expandable"},
        {FRAGMENTED "\n", "2.10", " PYTORCH_ALLOC_CONF=expandable"},
        {"torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because "
         "it would exceed per_process_memory_fraction limit. Requested size: 3.50 GiB\n",
         NULL, " PYTORCH_ALLOC_CONF"}, /* 2.12 and later */
        {"torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of "
         "memory)\nCurrently allocated     : 3.00 GiB\nRequested               : 1.00 GiB\n",
         "2.13", " PYTORCH_ALLOC_CONF=backend:native"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vw_diagnosis *got = diagnose_text(rows[i].text, rows[i].version);
        if (!has_remedy(got, rows[i].remedy))
            fail_msg("no remedy has \"%s\": row %zu", rows[i].remedy, i);
        vw_diagnosis_free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_retry_is_no_failure),
        cmocka_unit_test(a_log_of_steps_is_judged_by_its_steps),
        cmocka_unit_test(an_error_behind_a_retry_is_one),
        cmocka_unit_test(a_lack_of_addresses_is_no_lack_of_memory),
        cmocka_unit_test(remedies_name_the_variable_of_the_message_or_the_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
