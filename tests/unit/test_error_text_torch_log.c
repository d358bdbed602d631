/* test_error_text_torch_log.c - lines that PyTorch logs about memory: retries, addresses. */
#include "parse/error_text.h"

#include "unit/error_text_samples.h"

#define LOG_OF(rank, device, tried, free)                                                          \
    rank "[W812 16:00:28.643448608 CUDACachingAllocator.cpp:3933] memory allocation failed with "  \
         "OOM on device " device " while trying to allocate " tried " bytes (free: " free          \
         ", total: 25393692672).\n"
#define RETRY LOG_OF("", "0", "20971520", "15794176")
#define RETRY_1 LOG_OF("[rank1]:", "1", "20971520", "15794176")
#define TRACEBACK                                                                                  \
    "Traceback (most recent call last):\n"                                                         \
    "  File \"/work/train.py\", line 12, in <module>\n"                                            \
    "    loss = model(inputs).sum()\n"
#define WHOLE                                                                                      \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total "  \
    "capacity of 23.65 GiB of which 12.00 MiB is free. Including non-PyTorch memory, this "        \
    "process has 23.60 GiB memory in use. Of the allocated memory 20.00 GiB is allocated by "      \
    "PyTorch, and 3.00 GiB is reserved by PyTorch but unallocated."
#define ADVICE(variable)                                                                           \
    " If reserved but unallocated memory is large try setting " variable                           \
    "=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management "  \
    " (https://docs.pytorch.org/docs/stable/notes/"                                                \
    "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)\n"
#define ADDRESSES                                                                                  \
    "[E812 16:00:28.643448608 CUDACachingAllocator.cpp:610] [ExpandableSegmentVA] reserving "      \
    "28.60 GiB of addresses failed: out of memory; 4000 segments hold 112.00 TiB. Reduce "         \
    "PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve.\n"
#define NO_NVML                                                                                    \
    "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "                                   \
    "\"/pytorch/c10/cuda/CUDACachingAllocator.cpp\":1131, please report a bug to PyTorch.\n"
#define DRIVER_ERROR "RuntimeError: CUDA driver error: out of memory\n"

/* ---- retries --------------------------------------------------------------------------------- */

static void assert_retry(const char *text, uint64_t line, int rank, int device)
{
    vw__error_text_summary summary = scan_text(text);
    assert_true(vw__error_text_is_retry(&summary.first));
    assert_int_equal(summary.report_count, 0);
    assert_int_equal(summary.first.tried_bytes, 20 * MIB);
    assert_int_equal(summary.first.free_bytes, 15794176);
    assert_int_equal(summary.first.total_bytes, UINT64_C(25393692672));
    assert_int_equal(summary.first.line, line);
    assert_int_equal(summary.first.rank, rank);
    assert_int_equal(summary.first.device, device);
    assert_int_equal(summary.first.least_torch, 213);
}

static void a_retry_is_no_report(void **state)
{
    (void)state;
    assert_retry("step 1 loss 0.5\n" RETRY "step 2 loss 0.4\n", 2, -1, 0);
    assert_retry(RETRY_1, 1, 1, 1);
    assert_retry(RETRY RETRY RETRY RETRY, 1, -1, 0);
    assert_retry("[W812 16:00:28.643448608 CUDACachingAllocator.cpp:2311] expandable_segments: "
                 "memory mapping failed with OOM on device 0 while trying to map 20971520 bytes "
                 "(free: 15794176, total: 25393692672).\n",
                 1, -1, 0);
}

static void a_retry_gives_way_to_another_error(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(RETRY TRACEBACK "ValueError: wrong shape\n");
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_NOT_OOM);
    assert_int_equal(summary.report_count, 0);
    summary = scan_text(RETRY "Killed\n");
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_HOST_KILLED);
}

static void many_retries_are_none(void **state)
{
    (void)state;
    enum { COUNT = 3000, LINE_BYTES = 240 };
    static char text[COUNT * LINE_BYTES];
    size_t length = 0;
    for (unsigned i = 0; i < COUNT; i++)
        length += (size_t)snprintf(
            text + length, sizeof text - length,
            "[rank%u]:[W812 16:00:%02u.643448608 CUDACachingAllocator.cpp:3933] memory allocation "
            "failed with OOM on device %u while trying to allocate %u bytes (free: %u, total: "
            "25393692672).\n",
            i % 4, i % 60, i % 4, 2097152 * (1 + i % 50), 1000000 + i);
    for (size_t piece = 4096; piece <= sizeof text; piece *= 64) {
        vw__error_text_summary summary = scan_bytes(text, length, piece);
        assert_true(vw__error_text_is_retry(&summary.first));
        assert_int_equal(summary.report_count, 0);
    }
    length += (size_t)snprintf(text + length, sizeof text - length,
                               "[rank3]: torch.OutOfMemoryError: CUDA out of memory.\n");
    vw__error_text_summary summary = scan_bytes(text, length, 65536);
    assert_int_equal(summary.report_count, 1);
    assert_int_equal(summary.first.free_bytes, 1000000 + COUNT - 1); /* the last line's */
    assert_int_equal(summary.first.log_line, COUNT);
}

/* ---- and the error behind them --------------------------------------------------------------- */

static void an_error_without_numbers_takes_those_of_its_retry(void **state)
{
    static const char *const errors[] = {
        "torch.OutOfMemoryError: CUDA out of memory.\n",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.\n",
        NO_NVML,
    };
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        char text[4096];
        snprintf(text, sizeof text, "%s%s%s", "step 1\n" RETRY RETRY, TRACEBACK, errors[i]);
        vw__error_text_summary summary = scan_text(text);
        assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_CUDA);
        assert_false(summary.first.is_warning);
        assert_int_equal(summary.report_count, 1);
        assert_int_equal(summary.first.tried_bytes, 20 * MIB);
        assert_int_equal(summary.first.free_bytes, 15794176);
        assert_int_equal(summary.first.total_bytes, UINT64_C(25393692672));
        assert_int_equal(summary.first.device, 0);
        assert_int_equal(summary.first.line, 7);
        assert_int_equal(summary.first.log_line, 3);
    }
}

static void an_error_with_numbers_keeps_them(void **state)
{
    (void)state;
    vw__error_text_summary alone = scan_text(TRACEBACK WHOLE "\n");
    vw__error_text_summary summary = scan_text(RETRY RETRY TRACEBACK WHOLE "\n" RETRY);
    assert_same_numbers(&summary.first, &alone.first);
    assert_int_equal(summary.first.log_line, 0);
    assert_int_equal(summary.report_count, 1);
    assert_int_equal(summary.first.line, 6);
    assert_int_equal(summary.first.free_bytes, 12 * MIB);
}

static void another_retry_is_left_alone(void **state)
{
    static const char *const texts[] = {
        /* another rank's, another request's, another device's, one that came later */
        RETRY_1 "[rank0]: torch.OutOfMemoryError: CUDA out of memory.\n",
        RETRY "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n",
        RETRY "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3\n",
        "torch.OutOfMemoryError: CUDA out of memory.\n" RETRY,
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        vw__error_text_summary summary = scan_text(texts[i]);
        assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_CUDA);
        assert_int_equal(summary.report_count, 1);
        assert_int_equal(summary.first.free_bytes, UNKNOWN);
        assert_int_equal(summary.first.log_line, 0);
    }
}

static void each_rank_counts_behind_its_retries(void **state)
{
    (void)state;
    vw__error_text_summary summary =
        scan_text(RETRY_1 "[rank1]: torch.OutOfMemoryError: CUDA out of memory.\n" LOG_OF(
            "[rank2]:", "2", "20971520",
            "100") "[rank2]: torch.OutOfMemoryError: CUDA out of memory.\n");
    assert_int_equal(summary.report_count, 2);
    assert_int_equal(summary.rank_count, 2);
    assert_int_equal(summary.first.rank, 1);
    assert_int_equal(summary.first.device, 1);
    assert_int_equal(summary.first.free_bytes, 15794176);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void a_line_about_addresses_explains_the_error_behind_it(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text("step 1\n" ADDRESSES TRACEBACK DRIVER_ERROR);
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_CUDA_RAW);
    assert_true(summary.first.says_addresses);
    assert_true(summary.first.says_expandable);
    assert_int_equal(summary.first.least_torch, 215);
    assert_int_equal(summary.first.tried_bytes, UNKNOWN);
    assert_int_equal(summary.first.line, 6);
    assert_int_equal(summary.report_count, 1);
    summary = scan_text("[rank1]:" ADDRESSES "[rank1]: " DRIVER_ERROR);
    assert_true(summary.first.says_addresses);
    summary = scan_text("[rank1]:" ADDRESSES "[rank0]: " DRIVER_ERROR);
    assert_false(summary.first.says_addresses);
    summary =
        scan_text("{\"log\": \"[ExpandableSegmentVA] out of memory\\nRuntimeError: CUDA driver "
                  "error: out of memory\\n\"}\n");
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_CUDA_RAW);
    assert_int_equal(summary.report_count, 1);
}

static void a_line_about_addresses_is_no_report(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text("step 1\n" ADDRESSES "step 2\n");
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_NONE);
    summary = scan_text(ADDRESSES); /* the last line, and one without an end */
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_NONE);
    summary = scan_bytes(ADDRESSES, sizeof ADDRESSES - 2, 16);
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_NONE);
}

static void a_line_about_addresses_is_no_part_of_another_message(void **state)
{
    (void)state;
    vw__error_text_summary alone = scan_text(TRACEBACK WHOLE "\n");
    vw__error_text_summary summary = scan_text(TRACEBACK WHOLE "\n" ADDRESSES);
    assert_same_numbers(&summary.first, &alone.first);
    assert_int_equal(summary.report_count, 1);
    assert_false(summary.first.says_addresses);
    summary = scan_text("torch.OutOfMemoryError: CUDA out of memory.\n"
                        "[ExpandableSegmentVA] 3 GiB reserved, 2 GiB free, 1 GiB total\n");
    assert_int_equal(summary.report_count, 1);
    assert_int_equal(summary.first.reserved_bytes, UNKNOWN);
    assert_int_equal(summary.first.free_bytes, UNKNOWN);
}

/* ---- the variable that a message names ------------------------------------------------------- */

static void a_message_names_its_variable(void **state)
{
    static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
                                        "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_NPU_ALLOC_CONF"};
    static const char *const texts[] = {
        WHOLE ADVICE("PYTORCH_CUDA_ALLOC_CONF"), WHOLE ADVICE("PYTORCH_ALLOC_CONF"),
        WHOLE ADVICE("PYTORCH_HIP_ALLOC_CONF"), WHOLE ADVICE("PYTORCH_NPU_ALLOC_CONF")};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_string_equal(scan_text(texts[i]).first.variable, names[i]);
        char wrapped[4096];
        size_t length = wrap_text(texts[i], 61, "", "", wrapped, sizeof wrapped);
        assert_string_equal(scan_bytes(wrapped, length, 100).first.variable, names[i]);
    }
    assert_null(scan_text(WHOLE "\n").first.variable);
    assert_null(scan_text(WHOLE "\n" ADDRESSES).first.variable);
    assert_string_equal(
        scan_text(WHOLE " expandable_segments is enabled. If instead the process is running out of "
                        "virtual address space (VSZ), expandable segments may be over-reserving VA "
                        "(each segment reserves ~9/8 of device memory, times the number of "
                        "streams); reduce it via PYTORCH_CUDA_ALLOC_CONF "
                        "expandable_segments_reserve / expandable_segments_reserve_by_class.\n")
            .first.variable,
        "PYTORCH_CUDA_ALLOC_CONF");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_retry_is_no_report),
        cmocka_unit_test(a_retry_gives_way_to_another_error),
        cmocka_unit_test(many_retries_are_none),
        cmocka_unit_test(an_error_without_numbers_takes_those_of_its_retry),
        cmocka_unit_test(an_error_with_numbers_keeps_them),
        cmocka_unit_test(another_retry_is_left_alone),
        cmocka_unit_test(each_rank_counts_behind_its_retries),
        cmocka_unit_test(a_line_about_addresses_explains_the_error_behind_it),
        cmocka_unit_test(a_line_about_addresses_is_no_report),
        cmocka_unit_test(a_line_about_addresses_is_no_part_of_another_message),
        cmocka_unit_test(a_message_names_its_variable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
