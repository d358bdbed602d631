/* oom_text.c - PyTorch's out-of-memory sentence, in the wording of each release.
 *
 * People search for these words, and programs match them, so they are kept to the letter:
 * misspellings, double spaces and addresses that have moved since included. Two shapes: numbers in
 * brackets through 2.0, sentences since 2.1. What "allocated by PyTorch" means changed with 2.4: it
 * includes idle memory of private pools from then on. */
#include "pool/oom_report.h"

#include <inttypes.h>
#include <stdio.h>

#include "pool/cut_text.h"

/* One size as text; every call in one expression needs a place of its own. The longest is
 * "17179869184.00 GiB". */
typedef struct size_text {
    char text[24];
} size_text;

/* "20.00 MiB", as PyTorch's format_size() has it: two decimals, and each limit still belongs to the
 * smaller unit ("1024.00 MiB"). We take its double apart instead of printing it, because printf
 * writes the decimal point of whatever locale the process has set. The units are powers of two, so
 * the division is exact, and the fraction is a whole number of unit-ths: rounding it, half to even,
 * in integers gives printf's digits. */
static size_text in_words(uint64_t size_bytes)
{
    static const char *const names[] = {"bytes", "KiB", "MiB", "GiB"};
    size_text size;
    unsigned name = 0;
    while (name < 3 && size_bytes > UINT64_C(1024) << (10 * name))
        name++;
    if (name == 0) {
        snprintf(size.text, sizeof size.text, "%" PRIu64 " bytes", size_bytes);
        return size;
    }
    /* The cast rounds sizes above 2^53, as PyTorch's does. */
    const uint64_t unit_bytes = UINT64_C(1) << (10 * name);
    const double value = (double)size_bytes / (double)unit_bytes;
    const uint64_t whole = (uint64_t)value;
    const uint64_t part = (uint64_t)((value - (double)whole) * (double)unit_bytes) * 100;
    uint64_t hundredths = part / unit_bytes;
    const uint64_t twice_the_rest = part % unit_bytes * 2;
    if (twice_the_rest > unit_bytes || (twice_the_rest == unit_bytes && hundredths % 2 != 0))
        hundredths++;
    snprintf(size.text, sizeof size.text, "%" PRIu64 ".%02" PRIu64 " %s", whole + hundredths / 100,
             hundredths % 100, names[name]);
    return size;
}

/* "8.00 GiB allowed; " under a limit, in the releases that say so. */
static void append_limit(vw__cut_text *text, vw__torch_oom_text wording,
                         const vw_oom_report *report)
{
    bool says_limit = wording == VW__TORCH_OOM_TEXT_1_8 || wording == VW__TORCH_OOM_TEXT_1_10 ||
                      wording >= VW__TORCH_OOM_TEXT_2_5;
    if (says_limit && report->limit_bytes != UINT64_MAX)
        vw__cut_text_append(text, "%s allowed; ", in_words(report->limit_bytes).text);
}

/* ---- through 2.0 ----------------------------------------------------------------------------- */

static void append_bracketed(vw__cut_text *text, vw__torch_oom_text wording,
                             const vw_oom_report *report)
{
    vw__cut_text_append(text,
                        "CUDA out of memory. Tried to allocate %s (GPU %d; %s total capacity; "
                        "%s already allocated; %s free; ",
                        in_words(report->segment_bytes).text, report->device,
                        in_words(report->total_bytes).text, in_words(report->allocated_bytes).text,
                        in_words(report->free_bytes).text);
    append_limit(text, wording, report);
    vw__cut_text_append(text, "%s reserved in total by PyTorch)",
                        in_words(report->reserved_bytes).text);
    if (wording == VW__TORCH_OOM_TEXT_1_10)
        vw__cut_text_append(text, " If reserved memory is >> allocated memory try setting "
                                  "max_split_size_mb to avoid fragmentation.  See documentation "
                                  "for Memory Management and PYTORCH_CUDA_ALLOC_CONF");
}

/* ---- since 2.1 ------------------------------------------------------------------------------- */

static void append_processes(vw__cut_text *text, const vw_process_memory *processes, size_t count)
{
    for (size_t i = 0; processes != NULL && i < count; i++) {
        size_text used = in_words(processes[i].used_bytes); /* unknown: as PyTorch prints it */
        if (processes[i].is_this_process)
            vw__cut_text_append(text,
                                "Including non-PyTorch memory, this process has %s memory in use. ",
                                used.text);
        else
            vw__cut_text_append(text, "Process %" PRIu32 " has %s memory in use. ",
                                processes[i].pid, used.text);
    }
}

static void append_allocated(vw__cut_text *text, vw__torch_oom_text wording,
                             const vw_oom_report *report)
{
    uint64_t private_bytes = wording >= VW__TORCH_OOM_TEXT_2_4 ? report->private_idle_bytes : 0;
    uint64_t allocated_bytes = report->allocated_bytes + private_bytes;
    vw__cut_text_append(text, "Of the allocated memory %s is allocated by PyTorch, ",
                        in_words(allocated_bytes).text);
    if (private_bytes > 0)
        vw__cut_text_append(text, "with %s allocated in private pools (e.g., CUDA Graphs), ",
                            in_words(private_bytes).text);
    vw__cut_text_append(text, "and %s is reserved by PyTorch but unallocated.",
                        in_words(report->reserved_bytes - allocated_bytes).text);
}

static void append_expandable_advice(vw__cut_text *text, const char *variable, const char *address)
{
    vw__cut_text_append(text,
                        " If reserved but unallocated memory is large try setting "
                        "%s=expandable_segments:True to avoid fragmentation.  See documentation "
                        "for Memory Management  (%s)",
                        variable, address);
}

static void append_advice(vw__cut_text *text, vw__torch_oom_text wording, bool is_expandable)
{
    static const char old_address[] =
        "https://pytorch.org/docs/stable/notes/cuda.html#environment-variables";
    static const char new_address[] = "https://docs.pytorch.org/docs/stable/notes/cuda.html"
                                      "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf";
    if (wording == VW__TORCH_OOM_TEXT_2_1)
        vw__cut_text_append(text, " If reserved but unallocated memory is large try setting "
                                  "max_split_size_mb to avoid fragmentation.  See documentation "
                                  "for Memory Management and PYTORCH_CUDA_ALLOC_CONF");
    else if (wording < VW__TORCH_OOM_TEXT_2_10)
        append_expandable_advice(text, "PYTORCH_CUDA_ALLOC_CONF", old_address);
    else if (wording == VW__TORCH_OOM_TEXT_2_10)
        append_expandable_advice(text, "PYTORCH_ALLOC_CONF", old_address);
    else if (wording < VW__TORCH_OOM_TEXT_2_14 || !is_expandable)
        append_expandable_advice(text, "PYTORCH_CUDA_ALLOC_CONF", new_address);
    else if (wording == VW__TORCH_OOM_TEXT_2_15)
        vw__cut_text_append(text, " expandable_segments is enabled. If instead the process is "
                                  "running out of virtual address space (VSZ), expandable segments "
                                  "may be over-reserving VA (each segment reserves ~9/8 of device "
                                  "memory, times the number of streams); reduce it via "
                                  "PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / "
                                  "expandable_segments_reserve_by_class.");
}

static void append_sentences(vw__cut_text *text, vw__torch_oom_text wording,
                             const vw_oom_report *report, const vw_process_memory *processes,
                             size_t process_count)
{
    vw__cut_text_append(text,
                        "CUDA out of memory. Tried to allocate %s. GPU %d has a total %s of %s of "
                        "which %s is free. ",
                        in_words(report->segment_bytes).text, report->device,
                        wording == VW__TORCH_OOM_TEXT_2_1 ? "capacty" : "capacity",
                        in_words(report->total_bytes).text, in_words(report->free_bytes).text);
    append_processes(text, processes, process_count);
    append_limit(text, wording, report);
    append_allocated(text, wording, report);
    append_advice(text, wording, report->is_expandable);
}

size_t vw__oom_text(char *buffer, size_t capacity, const vw__torch_rules *rules,
                    const vw_oom_report *report, const vw_process_memory *processes,
                    size_t process_count)
{
    vw__cut_text text;
    vw__cut_text_init(&text, buffer, capacity);
    if (report->is_rejection)
        vw__cut_text_append(&text,
                            "CUDA out of memory. Allocation was preemptively rejected because it "
                            "would exceed per_process_memory_fraction limit. Requested size: %s",
                            in_words(report->requested_bytes).text);
    else if (rules->oom_text < VW__TORCH_OOM_TEXT_2_1)
        append_bracketed(&text, rules->oom_text, report);
    else
        append_sentences(&text, rules->oom_text, report, processes, process_count);
    return text.length;
}
