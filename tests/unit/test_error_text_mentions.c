/* test_error_text_mentions.c - the words of an error where there is none, and an error among them.
 */
#include "parse/error_text.h"

#include "unit/error_text_samples.h"

#define FULL_REPORT                                                                                \
    "RuntimeError: CUDA out of memory. Tried to allocate 40.00 MiB (GPU 3; 15.00 GiB total "       \
    "capacity; 13.00 GiB already allocated; 24.00 MiB free; 14.00 GiB reserved in total by "       \
    "PyTorch)\n"

/* Texts that report nothing. */
static const char *const harmless[] = {
    /* source code */
    "try:\n    step()\nexcept RuntimeError as e:\n    if 'out of memory' in str(e):\n"
    "        print('ran out of memory, smaller batch')\n",
    "    if (status == cudaErrorMemoryAllocation) { // out of memory\n"
    "        fprintf(stderr, \"CUDA out of memory\\n\");\n",
    "    CUDA_ERROR_OUT_OF_MEMORY = 2,\n    cudaErrorMemoryAllocation = 2,\n",
    "    raise RuntimeError('CUDA out of memory')\n",
    "    return \"CUDA out of memory\";\n",
    /* comments */
    "batch: 4 # smaller: CUDA out of memory\n",
    "limits:\n  # pods above this are OOMKilled\n",
    " * CUDA out of memory is handled by the caller\n",
    /* changelogs, documentation */
    "- Fixed an out of memory error with empty batches\n- Fix CUDA out of memory in evaluation\n",
    "commit 12ab\n\n    fix: OOM when allocating tensor in the sampler\n"
    "    handle torch.OutOfMemoryError in the loop\n",
    "torch.cuda.OutOfMemoryError\n    Exception raised when CUDA is out of memory\n",
    "Q: What does \"RESOURCE_EXHAUSTED: Out of memory while trying to allocate\" mean?\n",
    "The shop was out of memory cards, so we went home without any and tried another one.\n",
    "Whether it never ran out of memory, and when.\n",
    /* names, settings, counters */
    "tests/test_a.py::test_cuda_out_of_memory_is_caught PASSED\n",
    "tests/test_a.py::test_oom_killer PASSED\n",
    "vm.oom_kill_allocating_task = 0\n",
    "|      CUDA OOMs: 0      |   cudaMalloc retries: 0   |\n",
    "retries=0, cuda ooms=0; all well\n",
    "oom 0\noom_kill 0\n",
    /* other errors */
    "ImportError: cannot import name 'OutOfMemoryError' from 'torch.cuda'\n",
    "AttributeError: module 'torch.cuda' has no attribute 'OutOfMemoryError'\n",
    "ImportError: /usr/lib/libgomp.so.1: cannot allocate memory in static TLS block\n",
    /* what the program got over */
    "Warning: Ran out of memory when decoding, retrying with tiles.\n",
    "[W] [TRT] Skipping tactic 0x3 due to insufficient memory on requested size of 77 detected.\n",
};

static void code_documents_and_counters_report_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        vw__error_text_summary summary = scan_text(harmless[i]);
        if (summary.report_count != 0 || (summary.first.kind != VW__ERROR_TEXT_NONE &&
                                          summary.first.kind != VW__ERROR_TEXT_NOT_OOM))
            fail_msg("\"%s\" was taken for a report of: %s", harmless[i],
                     vw__error_text_kind_name(summary.first.kind));
    }
}

static void a_mention_does_not_hide_a_report_near_it(void **state)
{
    (void)state;
    vw__error_text_report alone = scan_text(FULL_REPORT).first;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        for (int is_before = 0; is_before < 2; is_before++) {
            char text[2048];
            snprintf(text, sizeof text, "%s%s%s", is_before ? harmless[i] : "", FULL_REPORT,
                     is_before ? "" : harmless[i]);
            vw__error_text_summary summary = scan_text(text);
            if (summary.report_count != 1)
                fail_msg("%d reports in: %s", (int)summary.report_count, text);
            assert_same_numbers(&summary.first, &alone);
        }
}

static void bare_words_are_ambiguous_and_an_error_is_not(void **state)
{
    (void)state;
    assert_true(scan_text("CUDA out of memory\n").first.is_ambiguous);
    assert_true(scan_text("my GPU ran out of memory\n").first.is_ambiguous);
    assert_false(scan_text("RuntimeError: CUDA error: out of memory\n").first.is_ambiguous);
    assert_false(scan_text("cuMemAlloc failed: CUDA out of memory\n").first.is_ambiguous);
    assert_false(scan_text("returned CUDA_ERROR_OUT_OF_MEMORY\n").first.is_ambiguous);
    assert_false(scan_text("{\"level\": \"error\", \"msg\": \"CUDA error: out of memory\"}\n")
                     .first.is_ambiguous);
    vw__error_text_summary summary = scan_text("GPU out of memory\nmore\n" FULL_REPORT);
    assert_int_equal(summary.report_count, 1);
    assert_int_equal(summary.first.line, 3);
    assert_int_equal(summary.first.tried_bytes, 40 * MIB);
}

static void a_device_is_taken_from_the_message_before_anything_around_it(void **state)
{
    (void)state;
    static const char *const around[] = {"gpu1: ",
                                         "Nov 02 11:00:00 gpu7 python[44]: ",
                                         "Using device cuda:0\n",
                                         "nvidia.com/gpu: 1\n",
                                         "llm_load_tensors: CUDA0 buffer size = 38.00 MiB\n",
                                         "[gpu 5] "};
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s", around[i], FULL_REPORT);
        assert_int_equal(scan_text(text).first.device, 3);
        snprintf(text, sizeof text, "%sCUDA error: out of memory\n", around[i]);
        assert_int_equal(scan_text(text).first.device, i == 5 ? 5 : -1);
    }
    assert_int_equal(scan_text("failed on cuda:1: CUDA error: out of memory\n").first.device, 1);
}

static void programs_contain_messages_and_report_nothing(void **state)
{
    (void)state;
    char program[4096];
    for (size_t i = 0; i < sizeof program; i++)
        program[i] = (char)(i % 3 == 0 ? 0 : i % 29);
    const char message[] = "\nRuntimeError: CUDA error: out of memory\n";
    memcpy(program + 1000, message, sizeof message);
    vw__error_text_summary summary = scan_bytes(program, sizeof program, sizeof program);
    assert_true(summary.is_binary);
    assert_int_equal(summary.report_count, 0);
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_NONE);
    memcpy(program + 1000, "\n" FULL_REPORT, sizeof FULL_REPORT); /* a log with rubbish in it */
    summary = scan_bytes(program, sizeof program, sizeof program);
    assert_int_equal(summary.report_count, 1);
    assert_int_equal(summary.first.tried_bytes, 40 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_documents_and_counters_report_nothing),
        cmocka_unit_test(a_mention_does_not_hide_a_report_near_it),
        cmocka_unit_test(bare_words_are_ambiguous_and_an_error_is_not),
        cmocka_unit_test(a_device_is_taken_from_the_message_before_anything_around_it),
        cmocka_unit_test(programs_contain_messages_and_report_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
