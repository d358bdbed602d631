/* test_error_text.c - PyTorch's messages, in every wording and in every state in which they arrive.
 */
#include "parse/error_text.h"

#include <stdlib.h>

#include "support/host_memory_sweep.h"
#include "unit/error_text_samples.h"

#define HINT_1_10                                                                                  \
    " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "           \
    "fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
#define HINT_2_2                                                                                   \
    " If reserved but unallocated memory is large try setting "                                    \
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation " \
    "for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-"         \
    "variables)"

#define IN_1_3                                                                                     \
    "RuntimeError: CUDA out of memory. Tried to allocate 18.00 MiB (GPU 2; 7.50 GiB total "        \
    "capacity; 5.25 GiB already allocated; 6.75 MiB free; 640.50 MiB cached)"
#define IN_1_7                                                                                     \
    "RuntimeError: CUDA out of memory. Tried to allocate 1.25 GiB (GPU 0; 11.50 GiB total "        \
    "capacity; 9.75 GiB already allocated; 700.25 MiB free; 10.25 GiB reserved in total by "       \
    "PyTorch)"
#define IN_1_9                                                                                     \
    "RuntimeError: CUDA out of memory. Tried to allocate 1.25 GiB (GPU 0; 11.50 GiB total "        \
    "capacity; 3.75 GiB already allocated; 6.50 GiB free; 4.50 GiB allowed; 4.25 GiB reserved in " \
    "total by PyTorch)"
#define EVERYDAY                                                                                   \
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 23.69 " \
    "GiB total capacity; 21.34 GiB already allocated; 391.00 MiB free; 22.10 GiB reserved in "     \
    "total by PyTorch)" HINT_1_10
#define IN_2_1                                                                                     \
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 1 has a "    \
    "total capacty of 31.75 GiB of which 1.25 GiB is free. Including non-PyTorch memory, this "    \
    "process has 30.25 GiB memory in use. Of the allocated memory 27.50 GiB is allocated by "      \
    "PyTorch, and 2.25 GiB is reserved by PyTorch but unallocated. If reserved but unallocated "   \
    "memory is large try setting max_split_size_mb to avoid fragmentation.  See documentation "    \
    "for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
#define IN_2_2                                                                                     \
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a "   \
    "total capacity of 79.25 GiB of which 12.50 MiB is free. Process 4711 has 40.50 GiB memory "   \
    "in use. Process 4712 has 512.00 MiB memory in use. Including non-PyTorch memory, this "       \
    "process has 38.25 GiB memory in use. Of the allocated memory 37.50 GiB is allocated by "      \
    "PyTorch, and 125.50 MiB is reserved by PyTorch but unallocated." HINT_2_2
#define IN_2_5                                                                                     \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "   \
    "capacity of 44.50 GiB of which 30.25 GiB is free. Including non-PyTorch memory, this "        \
    "process has 14.25 GiB memory in use. 15.50 GiB allowed; Of the allocated memory 13.25 GiB "   \
    "is allocated by PyTorch, with 1.75 GiB allocated in private pools (e.g., CUDA Graphs), and "  \
    "500.25 MiB is reserved by PyTorch but unallocated." HINT_2_2
#define IN_2_14                                                                                    \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "   \
    "capacity of 44.50 GiB of which 0 bytes is free. Of the allocated memory 43.25 GiB is "        \
    "allocated by PyTorch, and 1023.50 KiB is reserved by PyTorch but unallocated."
#define IN_HIP                                                                                     \
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total "    \
    "capacity of 23.98 GiB of which 256.00 MiB is free. Of the allocated memory 22.75 GiB is "     \
    "allocated by PyTorch, and 77.75 MiB is reserved by PyTorch but unallocated."
#define IN_XPU                                                                                     \
    "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 4.50 GiB. GPU 0 has a total "    \
    "capacity of 15.25 GiB. Of the allocated memory 12.25 GiB is allocated by PyTorch, and "       \
    "30.50 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all "   \
    "unoccupied cached memory."
#define IN_MPS                                                                                     \
    "RuntimeError: MPS backend out of memory (MPS allocated: 8.13 GB, other allocations: 1.25 "    \
    "GB, max allowed: 9.07 GB). Tried to allocate 256.00 MB on private pool. Use "                 \
    "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may "     \
    "cause system failure)."
#define IN_ASYNC                                                                                   \
    "torch.cuda.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of "    \
    "memory)\nCurrently allocated     : 9.50 GiB\nRequested               : 768.00 MiB\n"          \
    "Device limit            : 11.75 GiB\nFree (according to CUDA): 2.25 MiB\n"                    \
    "PyTorch limit (set by user-supplied memory fraction)\n                        : 10.00 GiB"

static const char *const every_wording[] = {IN_1_3, IN_1_7,  IN_1_9, EVERYDAY, IN_2_1, IN_2_2,
                                            IN_2_5, IN_2_14, IN_HIP, IN_XPU,   IN_MPS, IN_ASYNC};

enum { WORDING_COUNT = sizeof every_wording / sizeof *every_wording };

static char wrapped[64 << 10];

/* ---- wordings -------------------------------------------------------------------------------- */

static void before_1_4_cached_is_what_is_reserved_and_not_allocated(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(IN_1_3);
    const vw__error_text_report *report = &summary.first;
    assert_int_equal(report->kind, VW__ERROR_TEXT_TORCH_CUDA);
    assert_string_equal(report->wording, "PyTorch 1.0 to 1.3");
    assert_int_equal(report->tried_bytes, 18 * MIB);
    assert_int_equal(report->device, 2);
    assert_int_equal(report->total_bytes, HUNDREDTHS(750, GIB));
    assert_int_equal(report->allocated_bytes, HUNDREDTHS(525, GIB));
    assert_int_equal(report->free_bytes, HUNDREDTHS(675, MIB));
    assert_int_equal(report->unallocated_bytes, HUNDREDTHS(64050, MIB));
    assert_int_equal(report->reserved_bytes, report->allocated_bytes + report->unallocated_bytes);
    assert_int_equal(report->allowed_bytes, UNKNOWN);
    assert_int_equal(report->process_bytes, UNKNOWN);
    assert_false(report->is_truncated);
}

static void since_1_4_the_reserved_total_is_said(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(IN_1_7);
    assert_string_equal(summary.first.wording, "PyTorch 1.4 to 2.0");
    assert_int_equal(summary.first.tried_bytes, HUNDREDTHS(125, GIB));
    assert_int_equal(summary.first.reserved_bytes, HUNDREDTHS(1025, GIB));
    assert_int_equal(summary.first.unallocated_bytes, UNKNOWN);
}

static void a_memory_limit_is_not_taken_for_the_card_size(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(IN_1_9);
    assert_string_equal(summary.first.wording, "PyTorch 1.8 to 2.0");
    assert_int_equal(summary.first.allowed_bytes, HUNDREDTHS(450, GIB));
    assert_int_equal(summary.first.total_bytes, HUNDREDTHS(1150, GIB));
    assert_int_equal(summary.first.free_bytes, HUNDREDTHS(650, GIB));
}

static void the_everyday_message_is_read_to_the_byte(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(EVERYDAY);
    const vw__error_text_report *report = &summary.first;
    assert_int_equal(report->kind, VW__ERROR_TEXT_TORCH_CUDA);
    assert_string_equal(report->wording, "PyTorch 1.10 to 2.0");
    assert_int_equal(report->tried_bytes, 512 * MIB);
    assert_int_equal(report->total_bytes, UINT64_C(25436943811));
    assert_int_equal(report->allocated_bytes, UINT64_C(22913650524));
    assert_int_equal(report->free_bytes, 391 * MIB);
    assert_int_equal(report->reserved_bytes, UINT64_C(23729694310));
    assert_int_equal(report->device, 0);
    assert_false(report->says_expandable);
    assert_int_equal(summary.report_count, 1);
    assert_int_equal(summary.host_count, 0);
    assert_int_equal(report->line, 1);
    assert_non_null(strstr(report->excerpt, "CUDA out of memory. Tried to allocate 512.00 MiB"));
}

static void the_misspelt_capacty_is_2_1(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(IN_2_1);
    assert_string_equal(summary.first.wording, "PyTorch 2.1");
    assert_int_equal(summary.first.total_bytes, HUNDREDTHS(3175, GIB));
    assert_int_equal(summary.first.free_bytes, HUNDREDTHS(125, GIB));
    assert_int_equal(summary.first.process_bytes, HUNDREDTHS(3025, GIB));
    assert_int_equal(summary.first.allocated_bytes, HUNDREDTHS(2750, GIB));
    assert_int_equal(summary.first.unallocated_bytes, HUNDREDTHS(225, GIB));
    assert_int_equal(summary.first.reserved_bytes, HUNDREDTHS(2975, GIB));
    assert_int_equal(summary.first.device, 1);
}

static void other_processes_are_added_up_and_this_one_is_not_among_them(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(IN_2_2);
    assert_string_equal(summary.first.wording, "PyTorch 2.2 and later");
    assert_int_equal(summary.first.other_process_count, 2);
    assert_int_equal(summary.first.other_process_bytes, HUNDREDTHS(4050, GIB) + 512 * MIB);
    assert_int_equal(summary.first.process_bytes, HUNDREDTHS(3825, GIB));
    assert_int_equal(summary.first.device, 3);
}

static void an_absurd_process_size_is_ignored(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 8.00 GiB "
        "of which 1.00 MiB is free. Process 7 has 17179869184.00 GiB memory in use. Process 8 has "
        "2.00 GiB memory in use. Of the allocated memory 5.00 GiB is allocated by PyTorch, and "
        "8.00 MiB is reserved by PyTorch but unallocated.");
    assert_int_equal(summary.first.other_process_count, 2);
    assert_int_equal(summary.first.other_process_bytes, 2 * GIB);
    assert_int_equal(summary.first.process_bytes, UNKNOWN);
}

static void private_pools_and_limits_are_parts_of_later_messages(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(IN_2_5);
    assert_string_equal(summary.first.wording, "PyTorch 2.5 and later");
    assert_int_equal(summary.first.allowed_bytes, HUNDREDTHS(1550, GIB));
    assert_int_equal(summary.first.private_pool_bytes, HUNDREDTHS(175, GIB));
    assert_int_equal(summary.first.allocated_bytes, HUNDREDTHS(1325, GIB));
    assert_int_equal(summary.first.unallocated_bytes, HUNDREDTHS(50025, MIB));
}

static void the_hint_to_use_expandable_segments_does_not_say_that_they_were_on(void **state)
{
    (void)state;
    assert_false(scan_text(IN_2_2).first.says_expandable);
    assert_true(
        scan_text("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py\n" IN_2_2)
            .first.says_expandable);
    assert_true(scan_text(IN_2_14 " expandable_segments is enabled. If instead the process is "
                                  "running out of virtual address space (VSZ), expandable "
                                  "segments may be over-reserving VA")
                    .first.says_expandable);
}

static void the_other_accelerators_have_their_own_kinds(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(IN_HIP);
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_HIP);
    assert_int_equal(summary.first.total_bytes, HUNDREDTHS(2398, GIB));
    summary = scan_text(IN_XPU);
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_XPU);
    assert_int_equal(summary.first.free_bytes, UNKNOWN);
    assert_int_equal(summary.first.total_bytes, HUNDREDTHS(1525, GIB));
    summary =
        scan_text("RuntimeError: NPU out of memory. Tried to allocate 48.00 MiB (NPU 5; 29.50 "
                  "GiB total capacity; 27.25 GiB already allocated; 27.25 GiB current active; "
                  "3.25 MiB free; 28.75 GiB reserved in total by PyTorch)");
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_OTHER);
    assert_int_equal(summary.first.device, 5);
    assert_int_equal(summary.first.allocated_bytes, HUNDREDTHS(2725, GIB));
    summary =
        scan_text("RuntimeError: XYZU out of memory. Tried to allocate 48.00 MiB (XYZU 1; 29.50 "
                  "GiB total capacity; 27.25 GiB already allocated)");
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_OTHER);
    assert_int_equal(summary.first.device, 1);
    assert_true(summary.first.is_truncated);
}

static void mps_counts_in_binary_and_calls_it_gb(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(IN_MPS);
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_MPS);
    assert_int_equal(summary.first.tried_bytes, 256 * MIB);
    assert_int_equal(summary.first.allocated_bytes, HUNDREDTHS(813, GIB));
    assert_int_equal(summary.first.other_bytes, HUNDREDTHS(125, GIB));
    assert_int_equal(summary.first.allowed_bytes, HUNDREDTHS(907, GIB));
    assert_int_equal(summary.first.device, -1);
}

static void cuda_malloc_async_says_it_on_many_lines(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(IN_ASYNC);
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_CUDA_ASYNC);
    assert_int_equal(summary.first.device, 1);
    assert_int_equal(summary.first.tried_bytes, 768 * MIB);
    assert_int_equal(summary.first.allocated_bytes, HUNDREDTHS(950, GIB));
    assert_int_equal(summary.first.total_bytes, HUNDREDTHS(1175, GIB));
    assert_int_equal(summary.first.free_bytes, HUNDREDTHS(225, MIB));
    assert_int_equal(summary.first.allowed_bytes, 10 * GIB);
    assert_int_equal(summary.report_count, 1);
}

static void a_limit_of_2_to_the_64_is_none(void **state)
{
    (void)state;
    vw__error_text_summary summary =
        scan_text("Allocation on device 0 would exceed allowed memory. (out of memory)\n"
                  "Currently allocated     : 9.50 GiB\nRequested               : 768.00 MiB\n"
                  "PyTorch limit (set by user-supplied memory fraction)\n"
                  "                        : 17179869184.00 GiB\n");
    assert_int_equal(summary.first.allowed_bytes, UNKNOWN);
    assert_int_equal(summary.first.allocated_bytes, HUNDREDTHS(950, GIB));
    /* And a device is no date. */
    summary = scan_text("torch.OutOfMemoryError: Allocation on device 2026-01-31T10:00:00 - Got an "
                        "OOM, unloading all loaded models.");
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_CUDA_ASYNC);
    assert_int_equal(summary.first.device, -1);
}

static void messages_without_a_state_are_reports_too(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text(
        "torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because "
        "it would exceed per_process_memory_fraction limit. Requested size: 3.50 GiB");
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_CUDA);
    assert_true(summary.first.says_capped);
    assert_int_equal(summary.first.tried_bytes, HUNDREDTHS(350, GIB));
    summary = scan_text("CUDA out of memory. Tried to allocate more than 1EB memory.");
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_CUDA);
    assert_int_equal(summary.first.tried_bytes, UNKNOWN);
    summary =
        scan_text("W0131 10:00:00 7 CUDACachingAllocator.cpp:1] memory allocation failed with "
                  "OOM on device 2 while trying to allocate 2147483648 bytes (free: "
                  "104857600, total: 25393692672).");
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_CUDA);
    assert_true(summary.first.is_warning);
    assert_int_equal(summary.report_count, 0);
    assert_int_equal(summary.first.tried_bytes, 2 * GIB);
    assert_int_equal(summary.first.free_bytes, 100 * MIB);
    assert_int_equal(summary.first.total_bytes, UINT64_C(25393692672));
    assert_int_equal(summary.first.device, 2);
    summary = scan_text("RuntimeError: cuda runtime error (2) : out of memory at "
                        "/tmp/torch/lib/THC/generic/THCStorage.cu:66");
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_CUDA);
    assert_string_equal(summary.first.wording, "PyTorch 0.x");
}

static void people_retell_it_in_their_own_words(void **state)
{
    (void)state;
    vw__error_text_summary summary = scan_text("22 GiB reserved against 12 GiB allocated");
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_CUDA);
    assert_int_equal(summary.first.reserved_bytes, 22 * GIB);
    assert_int_equal(summary.first.allocated_bytes, 12 * GIB);
    assert_int_equal(summary.first.tried_bytes, UNKNOWN);
    summary = scan_text("Tried to allocate 4.50 GiB but only 1.25 GiB available");
    assert_int_equal(summary.first.tried_bytes, HUNDREDTHS(450, GIB));
    assert_int_equal(summary.first.free_bytes, HUNDREDTHS(125, GIB));
    summary = scan_text("CUDA out of memory: asked for 2GB, 24GB total, 20GB allocated, 1GB free, "
                        "22GB reserved");
    assert_int_equal(summary.first.tried_bytes, 2 * GIB);
    assert_int_equal(summary.first.total_bytes, 24 * GIB);
    assert_int_equal(summary.first.allocated_bytes, 20 * GIB);
    assert_int_equal(summary.first.free_bytes, GIB);
    assert_int_equal(summary.first.reserved_bytes, 22 * GIB);
}

/* ---- what was lost --------------------------------------------------------------------------- */

static void a_message_may_begin_or_end_anywhere(void **state)
{
    (void)state;
    vw__error_text_summary whole = scan_text(EVERYDAY);
    size_t length = strlen(EVERYDAY);
    for (size_t cut = 0; cut < length; cut++) {
        vw__error_text_summary summary = scan_bytes(EVERYDAY, cut, 4096);
        const vw__error_text_report *report = &summary.first;
        assert_true(report->total_bytes == UNKNOWN ||
                    report->total_bytes == whole.first.total_bytes);
        assert_true(report->allocated_bytes == UNKNOWN ||
                    report->allocated_bytes == whole.first.allocated_bytes);
        assert_true(report->reserved_bytes == UNKNOWN ||
                    report->reserved_bytes == whole.first.reserved_bytes);
        if (cut >= strlen("torch.cuda.OutOfMemoryError: CUDA out of memory"))
            assert_int_equal(report->kind, VW__ERROR_TEXT_TORCH_CUDA);
    }
    for (const char *text = EVERYDAY; strstr(text, "23.69 GiB total") != NULL; text++) {
        vw__error_text_summary summary = scan_text(text);
        assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TORCH_CUDA);
        assert_int_equal(summary.first.reserved_bytes, whole.first.reserved_bytes);
        assert_int_equal(summary.report_count, 1);
    }
}

static void a_message_that_breaks_off_says_so(void **state)
{
    (void)state;
    assert_false(scan_text(IN_2_2).first.is_truncated);
    vw__error_text_summary summary = scan_text(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has "
        "a total capacity of 79.25 GiB of which 12.50 MiB is free. Process 4711 has 2.25");
    assert_true(summary.first.is_truncated);
    assert_int_equal(summary.first.other_process_count, 0);
    assert_int_equal(summary.first.free_bytes, HUNDREDTHS(1250, MIB));
}

/* ---- how texts arrive ------------------------------------------------------------------------ */

static void check_wrapped(const char *prefix, const char *ending)
{
    for (size_t i = 0; i < WORDING_COUNT; i++) {
        vw__error_text_summary whole = scan_text(every_wording[i]);
        for (size_t columns = 20; columns <= 120; columns++) {
            size_t size_bytes =
                wrap_text(every_wording[i], columns, prefix, ending, wrapped, sizeof wrapped);
            vw__error_text_summary summary = scan_bytes(wrapped, size_bytes, size_bytes);
            assert_same_numbers(&summary.first, &whole.first);
            assert_int_equal(summary.report_count, 1);
        }
    }
}

static void lines_may_be_broken_at_any_column(void **state)
{
    (void)state;
    check_wrapped("", "");
}

static void broken_lines_may_end_in_blanks_or_carriage_returns(void **state)
{
    (void)state;
    check_wrapped("", "    ");
    check_wrapped("", "\r");
}

static void every_line_may_have_a_prefix(void **state)
{
    (void)state;
    check_wrapped("[rank3]: ", "");
    check_wrapped("(EngineCore pid=77) ERROR 10-25 13:08:43 [core.py:708] ", "");
    check_wrapped("2026-01-31 10:00:00,123 - trainer - ERROR - ", "");
    check_wrapped("> ", "");
    check_wrapped("[1,2]<stderr>:", "");
}

static void every_line_may_be_coloured(void **state)
{
    (void)state;
    check_wrapped("\033[31m", "\033[0m");
}

static void the_pieces_of_a_text_may_end_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < WORDING_COUNT; i++) {
        vw__error_text_summary whole = scan_text(every_wording[i]);
        for (size_t piece_bytes = 1; piece_bytes <= 3; piece_bytes++) {
            vw__error_text_summary summary =
                scan_bytes(every_wording[i], strlen(every_wording[i]), piece_bytes);
            assert_same_numbers(&summary.first, &whole.first);
            assert_string_equal(summary.first.excerpt, whole.first.excerpt);
        }
    }
}

static void json_html_and_markdown_are_seen_through(void **state)
{
    (void)state;
    vw__error_text_summary whole = scan_text(EVERYDAY);
    vw__error_text_summary summary = scan_text(
        "{\"error\":{\"message\":\"\\u001b[31mCUDA out of memory.\\u001b[0m Tried to allocate "
        "512.00 "
        "MiB\\n(GPU 0; 23.69 GiB total capacity;\\n21.34 GiB already allocated; 391.00 MiB free; "
        "22.10 GiB reserved in total by PyTorch)\\n\"}}");
    assert_same_numbers(&summary.first, &whole.first);
    summary = scan_text(
        "> **RuntimeError: CUDA out of memory.** Tried to allocate `512.00&nbsp;MiB` (GPU "
        "0; 23.69 GiB total capacity; 21.34 GiB already allocated; 391.00 MiB "
        "free; 22.10\xc2\xa0GiB reserved in total by PyTorch) If reserved memory is "
        "&gt;&gt; allocated memory");
    assert_same_numbers(&summary.first, &whole.first);
}

static void text_in_16_bit_units_is_text(void **state)
{
    (void)state;
    static char wide[4096];
    size_t length = strlen(EVERYDAY);
    for (size_t i = 0; i < length; i++)
        wide[2 * i] = EVERYDAY[i];
    vw__error_text_summary whole = scan_text(EVERYDAY);
    vw__error_text_summary summary = scan_bytes(wide, 2 * length, 4096);
    assert_same_numbers(&summary.first, &whole.first);
    assert_false(summary.is_binary);
}

static void an_excerpt_is_one_line_of_clean_text(void **state)
{
    (void)state;
    size_t size_bytes = wrap_text(IN_1_7, 37, "[rank3]: ", "\r", wrapped, sizeof wrapped);
    vw__error_text_summary summary = scan_bytes(wrapped, size_bytes, size_bytes);
    assert_string_equal(summary.first.excerpt, IN_1_7);
    summary = scan_text("\033[1mCUDA error:\033[0m out of memory \xe2\x80\xa6 \xff!");
    assert_string_equal(summary.first.excerpt, "CUDA error: out of memory \xe2\x80\xa6 ?!");
}

/* ---- failure --------------------------------------------------------------------------------- */

static bool scan_once(void *context)
{
    (void)context;
    vw__error_text_scan *scan = NULL;
    vw__error_text_summary summary;
    if (vw__error_text_scan_create(&scan) != VW_OK) {
        assert_null(scan);
        return false;
    }
    bool is_done = vw__error_text_scan_feed(scan, IN_2_5, strlen(IN_2_5)) == VW_OK &&
                   vw__error_text_scan_finish(scan, &summary) == VW_OK && summary.report_count == 1;
    vw__error_text_scan_destroy(scan);
    return is_done;
}

static void without_host_memory_no_scan_begins(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(scan_once, NULL);
    vw__error_text_scan_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_1_4_cached_is_what_is_reserved_and_not_allocated),
        cmocka_unit_test(since_1_4_the_reserved_total_is_said),
        cmocka_unit_test(a_memory_limit_is_not_taken_for_the_card_size),
        cmocka_unit_test(the_everyday_message_is_read_to_the_byte),
        cmocka_unit_test(the_misspelt_capacty_is_2_1),
        cmocka_unit_test(other_processes_are_added_up_and_this_one_is_not_among_them),
        cmocka_unit_test(an_absurd_process_size_is_ignored),
        cmocka_unit_test(private_pools_and_limits_are_parts_of_later_messages),
        cmocka_unit_test(the_hint_to_use_expandable_segments_does_not_say_that_they_were_on),
        cmocka_unit_test(the_other_accelerators_have_their_own_kinds),
        cmocka_unit_test(mps_counts_in_binary_and_calls_it_gb),
        cmocka_unit_test(cuda_malloc_async_says_it_on_many_lines),
        cmocka_unit_test(a_limit_of_2_to_the_64_is_none),
        cmocka_unit_test(messages_without_a_state_are_reports_too),
        cmocka_unit_test(people_retell_it_in_their_own_words),
        cmocka_unit_test(a_message_may_begin_or_end_anywhere),
        cmocka_unit_test(a_message_that_breaks_off_says_so),
        cmocka_unit_test(lines_may_be_broken_at_any_column),
        cmocka_unit_test(broken_lines_may_end_in_blanks_or_carriage_returns),
        cmocka_unit_test(every_line_may_have_a_prefix),
        cmocka_unit_test(every_line_may_be_coloured),
        cmocka_unit_test(the_pieces_of_a_text_may_end_anywhere),
        cmocka_unit_test(json_html_and_markdown_are_seen_through),
        cmocka_unit_test(text_in_16_bit_units_is_text),
        cmocka_unit_test(an_excerpt_is_one_line_of_clean_text),
        cmocka_unit_test(without_host_memory_no_scan_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
