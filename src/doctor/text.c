/* text.c - vw__doctor_text(): what an error in a text comes to.
 *
 * A text is one of four: no error, an error that is not about memory, host memory, or GPU memory.
 * Of the last, the numbers decide where there are enough of them (numbers.c); some programs
 * have words or numbers of their own (text_kinds.c); for the rest the answer is what is
 * known and what would tell, never a guess.
 *
 * With a card given, the question is another, and text_card.c's. */
#include "doctor/doctor.h"

#include <inttypes.h>
#include <string.h>

#include "doctor/text_parts.h"
#include "base/checked_math.h" /* vw__add_u64 */

enum { MOST_QUOTE_BYTES = 140 };

/* ---- helpers of all files -------------------------------------------------------------------- */

bool vw__text_has(const vw__text_case *given, const char *words)
{
    return strcasestr(given->report->excerpt, words) != NULL;
}

/* Apple's message has no card in it, nor what is reserved: it is whole without them. */
bool vw__text_is_cut(const vw__text_case *given)
{
    const vw__error_report *report = given->report;
    return report->is_truncated &&
           (report->kind != VW__ERROR_TORCH_MPS || !vw__doctor_knows(report->allowed_bytes));
}

vw_confidence vw__text_confidence(const vw__text_case *given, vw_confidence confidence)
{
    if (given->report->is_ambiguous)
        return VW_CONFIDENCE_LOW;
    if (vw__text_is_cut(given) && confidence > VW_CONFIDENCE_MEDIUM)
        return VW_CONFIDENCE_MEDIUM;
    return confidence;
}

bool vw__text_is_torch(vw__error_kind kind)
{
    switch (kind) {
    case VW__ERROR_TORCH_CUDA:
    case VW__ERROR_TORCH_HIP:
    case VW__ERROR_TORCH_XPU:
    case VW__ERROR_TORCH_MPS:
    case VW__ERROR_TORCH_OTHER:
    case VW__ERROR_CUDA_ASYNC:
        return true;
    default:
        return false;
    }
}

/* ---- no error, or another one ---------------------------------------------------------------- */

/* What errors that look like memory really are. The first whose words occur is taken. */
static const struct {
    const char *words, *meaning;
} other_errors[] = {
    {"illegal memory access", "a kernel read or wrote outside its memory: run once with "
                              "CUDA_LAUNCH_BLOCKING=1 to see which"},
    {"misaligned address", "a kernel used an address it may not: run once with "
                           "CUDA_LAUNCH_BLOCKING=1 to see which"},
    {"device-side assert", "an index was out of range on the GPU: run once with "
                           "CUDA_LAUNCH_BLOCKING=1, or on the CPU, to see which"},
    {"out of resource", "a kernel asks for more on-chip shared memory or registers than the GPU "
                        "has: smaller blocks or fewer stages, not less memory"},
    {"OutOfResources", "a kernel asks for more on-chip shared memory or registers than the GPU "
                       "has: smaller blocks or fewer stages, not less memory"},
    {"no space left", "a disk is full; the GPU is not meant"},
    {"invalid device pointer", "an address that the allocator did not give out was freed"},
    {"EXECUTION_FAILED", "a library call failed while it ran, not for want of memory"},
    {"NOT_INITIALIZED", "a library could not start; that can come of a full card too: look at "
                        "nvidia-smi while it happens"},
    {"invalid argument", "a call was given what it cannot take"},
};

static const char *other_error_meaning(const vw__text_case *given)
{
    for (size_t i = 0; i < sizeof other_errors / sizeof *other_errors; i++)
        if (vw__text_has(given, other_errors[i].words))
            return other_errors[i].meaning;
    return NULL;
}

static void conclude_without_report(const vw__text_case *given)
{
    vw__diagnosis_draft *draft = given->draft;
    const vw__error_summary *summary = given->summary;
    if (given->report->kind == VW__ERROR_NOT_OOM) {
        const char *meaning = other_error_meaning(given);
        vw__diagnosis_reason(draft, "Line %" PRIu64 " has an error: \"%.*s\".", given->report->line,
                             MOST_QUOTE_BYTES, given->report->excerpt);
        vw__diagnosis_reason(draft, "It is none of the known forms of running out of memory.");
        vw__diagnosis_conclude(draft, VW_VERDICT_NOT_OOM,
                               vw__text_confidence(given, VW_CONFIDENCE_HIGH),
                               meaning != NULL ? "Not out of memory: %s."
                                               : "Not out of memory: there is an error, but it is "
                                                 "not about running out of memory%s.",
                               meaning != NULL ? meaning : "");
        return;
    }
    vw__diagnosis_reason(
        draft,
        "Looked for in %s: out-of-memory messages of PyTorch (CUDA, ROCm, XPU, "
        "MPS), CUDA and its libraries, JAX, TensorFlow, CuPy, ggml, vLLM; and of the host: failed "
        "allocations, the kernel's killer, shared memory.",
        vw__diagnosis_count(draft, summary->line_count, "line"));
    vw__diagnosis_conclude(draft, VW_VERDICT_NOT_OOM, VW_CONFIDENCE_HIGH,
                           "Not out of memory: no such error is in this text%s.",
                           summary->size_bytes == 0 ? ", which is empty" : "");
}

/* ---- the numbers ----------------------------------------------------------------------------- */

/* A request, a card or a limit of nothing: not said, rather, for who judges. */
static uint64_t something(uint64_t size_bytes)
{
    return size_bytes != 0 ? size_bytes : VW_UNKNOWN;
}

static vw_memory_numbers numbers_of(const vw__error_report *report)
{
    vw_memory_numbers said = {
        .tried_bytes = something(report->tried_bytes),
        .total_bytes = something(report->total_bytes),
        .free_bytes = report->free_bytes,
        .allocated_bytes = report->allocated_bytes,
        .reserved_bytes = report->reserved_bytes,
        .process_bytes = report->process_bytes,
        .allowed_bytes = something(report->allowed_bytes),
        .device = report->device,
    };
    if (!vw__doctor_knows(said.free_bytes) && report->kind != VW__ERROR_VLLM)
        said.free_bytes = report->available_bytes; /* "but only 3 GiB available" */
    if (!vw__doctor_knows(said.reserved_bytes) && vw__doctor_knows(said.allocated_bytes) &&
        vw__doctor_knows(report->unallocated_bytes) &&
        !vw__add_u64(said.allocated_bytes, report->unallocated_bytes, &said.reserved_bytes))
        said.reserved_bytes = VW_UNKNOWN;
    return said;
}

/* ---- sentences ------------------------------------------------------------------------------- */

/* " on a card of 24.00 GiB", where that is only asked about. */
static const char *on_card(const vw__text_case *given)
{
    if (given->card_bytes == 0)
        return "";
    return vw__diagnosis_text(given->draft, " on a card of %s", VW__DOCTOR_SIZE(given->card_bytes));
}

static void conclude_fragmentation(const vw__text_case *given, vw_confidence confidence)
{
    const vw_memory_numbers *numbers = &given->numbers;
    const char *idle = vw__diagnosis_size(given->draft, given->judged.idle_bytes);
    bool is_asked = given->card_bytes != 0;
    if (vw__doctor_knows(numbers->tried_bytes))
        vw__diagnosis_conclude(given->draft, VW_VERDICT_FRAGMENTATION, confidence,
                               "Fragmentation%s: %s %s refused while %s that PyTorch holds %s "
                               "idle, in pieces too small.",
                               on_card(given), VW__DOCTOR_SIZE(numbers->tried_bytes),
                               is_asked ? "would be" : "were", idle, is_asked ? "lie" : "lay");
    else
        vw__diagnosis_conclude(given->draft, VW_VERDICT_FRAGMENTATION, confidence,
                               "Fragmentation: PyTorch holds %s and uses %s of it; the other %s "
                               "lie idle, in pieces too small for what was asked.",
                               VW__DOCTOR_SIZE(numbers->reserved_bytes),
                               VW__DOCTOR_SIZE(numbers->allocated_bytes), idle);
}

/* "of the card's 24.00 GiB only 391 MiB were free" */
static const char *what_was_left(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    vw__diagnosis_draft *draft = given->draft;
    const char *free_text = vw__diagnosis_size(given->draft, numbers->free_bytes);
    bool is_asked = given->card_bytes != 0, knows_free = vw__doctor_knows(numbers->free_bytes);
    if (knows_free && vw__doctor_knows(numbers->tried_bytes) &&
        numbers->free_bytes >= numbers->tried_bytes)
        return vw__diagnosis_text(draft,
                                  "%s of the card's %s %s free, which is too close: a driver keeps "
                                  "some back",
                                  free_text, VW__DOCTOR_SIZE(numbers->total_bytes),
                                  is_asked ? "would be" : "were");
    if (!vw__doctor_knows(numbers->total_bytes))
        return knows_free ? vw__diagnosis_text(draft, "only %s were free", free_text)
                          : "how much was free is not said";
    if (!knows_free)
        return vw__diagnosis_text(draft, "the card has %s, and how much of it %s free is not said",
                                  VW__DOCTOR_SIZE(numbers->total_bytes),
                                  is_asked ? "would be" : "was");
    const char *left = numbers->free_bytes == 0 ? is_asked ? "nothing would be" : "nothing was"
                       : is_asked ? vw__diagnosis_text(draft, "only %s would be", free_text)
                                  : vw__diagnosis_text(draft, "only %s were", free_text);
    return vw__diagnosis_text(draft, "of the card's %s %s free",
                              VW__DOCTOR_SIZE(numbers->total_bytes), left);
}

static void conclude_genuine(const vw__text_case *given, vw_confidence confidence)
{
    const vw_memory_numbers *numbers = &given->numbers;
    const char *in_use = vw__doctor_knows(numbers->allocated_bytes)
                             ? vw__diagnosis_text(given->draft, "with %s in use, ",
                                                  VW__DOCTOR_SIZE(numbers->allocated_bytes))
                             : "";
    vw__diagnosis_conclude(given->draft, VW_VERDICT_GENUINE, confidence,
                           "Genuine%s: %s%s more %s needed; %s.", on_card(given), in_use,
                           VW__DOCTOR_SIZE(numbers->tried_bytes),
                           given->card_bytes != 0 ? "are" : "were", what_was_left(given));
}

static void conclude_outside(const vw__text_case *given, vw_confidence confidence)
{
    const vw_memory_numbers *numbers = &given->numbers;
    bool is_asked = given->card_bytes != 0;
    vw__diagnosis_conclude(
        given->draft, VW_VERDICT_OUTSIDE, confidence,
        is_asked ? "Outside: %s of the card's %s would be held outside PyTorch, "
                   "which itself would hold %s and needs %s more."
                 : "Outside: %s of the card's %s are held outside PyTorch, "
                   "which itself held %s when it asked for %s more.",
        VW__DOCTOR_SIZE(given->judged.outside_bytes), VW__DOCTOR_SIZE(numbers->total_bytes),
        VW__DOCTOR_SIZE(numbers->reserved_bytes), VW__DOCTOR_SIZE(numbers->tried_bytes));
}

static void conclude_capped(const vw__text_case *given, vw_confidence confidence)
{
    const vw_memory_numbers *numbers = &given->numbers;
    uint64_t held = vw__doctor_knows(numbers->reserved_bytes) ? numbers->reserved_bytes
                                                              : numbers->allocated_bytes;
    if (!vw__doctor_knows(held)) {
        vw__diagnosis_conclude(given->draft, VW_VERDICT_CAPPED, confidence,
                               "Capped, most likely: a limit of %s is set, and %s were asked for "
                               "and not given while the card had %s free.",
                               VW__DOCTOR_SIZE(numbers->allowed_bytes),
                               VW__DOCTOR_SIZE(numbers->tried_bytes),
                               VW__DOCTOR_SIZE(numbers->free_bytes));
        return;
    }
    vw__diagnosis_conclude(given->draft, VW_VERDICT_CAPPED, confidence,
                           "Capped: PyTorch held %s of the %s it is allowed and asked for %s more, "
                           "while the card had %s free.",
                           VW__DOCTOR_SIZE(held), VW__DOCTOR_SIZE(numbers->allowed_bytes),
                           VW__DOCTOR_SIZE(numbers->tried_bytes),
                           VW__DOCTOR_SIZE(numbers->free_bytes));
}

static void conclude_refused(const vw__text_case *given, vw_confidence confidence)
{
    const vw_memory_numbers *numbers = &given->numbers;
    bool is_at_limit =
        vw__doctor_knows(numbers->allowed_bytes) && vw__doctor_knows(numbers->reserved_bytes) &&
        vw__doctor_less(numbers->allowed_bytes, numbers->reserved_bytes) < numbers->tried_bytes;
    if (given->card_bytes != 0)
        vw__diagnosis_conclude(given->draft, VW_VERDICT_REFUSED, confidence,
                               "Refused: %s were not given although the card had room for them; "
                               "that one of %s would have %s free need not help.",
                               VW__DOCTOR_SIZE(numbers->tried_bytes),
                               VW__DOCTOR_SIZE(given->card_bytes),
                               VW__DOCTOR_SIZE(numbers->free_bytes));
    else if (is_at_limit)
        vw__diagnosis_conclude(
            given->draft, VW_VERDICT_REFUSED, confidence,
            "Refused: the card had %s free, but PyTorch, at %s of the %s it is "
            "allowed, did not get %s more.",
            VW__DOCTOR_SIZE(numbers->free_bytes), VW__DOCTOR_SIZE(numbers->reserved_bytes),
            VW__DOCTOR_SIZE(numbers->allowed_bytes), VW__DOCTOR_SIZE(numbers->tried_bytes));
    else
        vw__diagnosis_conclude(given->draft, VW_VERDICT_REFUSED, confidence,
                               "Refused: %s were asked for and not given although the card had %s "
                               "free: something other than its memory ran out.",
                               VW__DOCTOR_SIZE(numbers->tried_bytes),
                               VW__DOCTOR_SIZE(numbers->free_bytes));
}

static void conclude_too_large(const vw__text_case *given, vw_confidence confidence)
{
    const vw_memory_numbers *numbers = &given->numbers;
    bool is_limit =
        vw__doctor_knows(numbers->allowed_bytes) && numbers->tried_bytes > numbers->allowed_bytes;
    vw__diagnosis_conclude(
        given->draft, VW_VERDICT_TOO_LARGE, confidence,
        "Too large: one request of %s, where %s %s in all; nothing that is freed can serve it.",
        VW__DOCTOR_SIZE(numbers->tried_bytes), is_limit ? "the limit is" : "the card has",
        VW__DOCTOR_SIZE(is_limit ? numbers->allowed_bytes : numbers->total_bytes));
}

/* "genuine, fragmentation or outside" */
static const char *candidates_text(const vw__text_case *given)
{
    const char *text = "";
    uint32_t left = given->judged.possible;
    for (uint32_t verdict = 0; left != 0; verdict++) {
        uint32_t bit = UINT32_C(1) << verdict;
        if ((left & bit) == 0)
            continue;
        left &= ~bit;
        text = vw__diagnosis_text(given->draft, "%s%s%s", text,
                                  text[0] == '\0' ? ""
                                  : left != 0     ? ", "
                                                  : " or ",
                                  vw_verdict_name((vw_verdict)verdict));
    }
    return text;
}

/* Those that take memory beside the framework that calls them. */
static bool is_library(vw__error_kind kind)
{
    return kind == VW__ERROR_CUBLAS || kind == VW__ERROR_CUDNN || kind == VW__ERROR_CUSOLVER ||
           kind == VW__ERROR_NCCL;
}

static void conclude_unknown(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    vw__diagnosis_draft *draft = given->draft;
    const char *tried = vw__diagnosis_size(given->draft, numbers->tried_bytes);
    const char *device = vw__text_device_of(given)->name;
    const vw_confidence low = VW_CONFIDENCE_LOW;
    if (given->report->is_warning)
        vw__diagnosis_conclude(draft, VW_VERDICT_UNKNOWN, low,
                               "Unknown: %s did not get %s of %s memory and went on without: a "
                               "warning, not a failure.",
                               vw__error_kind_name(given->report->kind),
                               vw__doctor_knows(numbers->tried_bytes) ? tried : "all it wanted",
                               device);
    else if (given->judged.is_oversubscribed)
        vw__diagnosis_conclude(
            draft, VW_VERDICT_UNKNOWN, low,
            "Unknown: PyTorch holds %s on a card of %s, so the driver has moved "
            "memory to the host, and its numbers no longer tell.",
            VW__DOCTOR_SIZE(vw__doctor_knows(numbers->reserved_bytes) &&
                                    numbers->reserved_bytes > numbers->total_bytes
                                ? numbers->reserved_bytes
                                : numbers->allocated_bytes),
            VW__DOCTOR_SIZE(numbers->total_bytes));
    else if (given->judged.is_contradiction)
        vw__diagnosis_conclude(draft, VW_VERDICT_UNKNOWN, low,
                               "Unknown: the %s ran out of memory, but the numbers in the message "
                               "contradict each other.",
                               device);
    else if (is_library(given->report->kind))
        vw__diagnosis_conclude(draft, VW_VERDICT_UNKNOWN, low,
                               "Unknown: %s could not get %s of its own on the GPU, outside "
                               "PyTorch's pool; who held the card is not said.",
                               vw__error_kind_name(given->report->kind),
                               vw__doctor_knows(numbers->tried_bytes) ? tried : "memory");
    else if (given->report->kind == VW__ERROR_VLLM)
        vw__diagnosis_conclude(draft, VW_VERDICT_UNKNOWN, low,
                               "Unknown: vLLM's share of the card leaves too little for its cache; "
                               "by how many bytes is not said.");
    else if (vw__doctor_knows(numbers->tried_bytes) && vw__doctor_knows(numbers->free_bytes))
        vw__diagnosis_conclude(
            draft, VW_VERDICT_UNKNOWN, low,
            "Unknown%s: %s were asked for with %s free; who held the rest is not "
            "said, so it can be %s.",
            on_card(given), tried, VW__DOCTOR_SIZE(numbers->free_bytes), candidates_text(given));
    else if (vw__doctor_knows(numbers->tried_bytes))
        vw__diagnosis_conclude(draft, VW_VERDICT_UNKNOWN, low,
                               "Unknown: %s of %s memory were asked for and not given (%s); how "
                               "much was free, and who held the rest, is not said.",
                               tried, device, vw__error_kind_name(given->report->kind));
    else
        vw__diagnosis_conclude(draft, VW_VERDICT_UNKNOWN, low,
                               "Unknown: %s memory ran out (%s), and the message has too few "
                               "numbers to say why.",
                               device, vw__error_kind_name(given->report->kind));
}

static void conclude(const vw__text_case *given)
{
    vw_confidence confidence = vw__text_confidence(given, given->judged.confidence);
    switch (given->judged.verdict) {
    case VW_VERDICT_FRAGMENTATION:
        conclude_fragmentation(given, confidence);
        break;
    case VW_VERDICT_GENUINE:
        conclude_genuine(given, confidence);
        break;
    case VW_VERDICT_OUTSIDE:
        conclude_outside(given, confidence);
        break;
    case VW_VERDICT_CAPPED:
        conclude_capped(given, confidence);
        break;
    case VW_VERDICT_REFUSED:
        conclude_refused(given, confidence);
        break;
    case VW_VERDICT_TOO_LARGE:
        conclude_too_large(given, confidence);
        break;
    default:
        conclude_unknown(given);
        break;
    }
}

/* ---- the way through ------------------------------------------------------------------------- */

static void say_what_was_found(const vw__text_case *given)
{
    const vw__error_summary *summary = given->summary;
    const vw__error_report *report = given->report;
    vw__diagnosis_draft *draft = given->draft;
    vw__diagnosis_reason(draft, "The message, line %" PRIu64 ": %s%s%s%s%s.", report->line,
                         vw__error_kind_name(report->kind), report->wording != NULL ? " (" : "",
                         report->wording != NULL ? report->wording : "",
                         report->wording != NULL ? ")" : "",
                         vw__text_is_cut(given) ? "; it breaks off" : "");
    if (summary->report_count > 1) {
        const char *ranks =
            summary->rank_count > 1
                ? vw__diagnosis_text(draft, ", from %" PRIu64 " ranks", summary->rank_count)
                : "";
        vw__diagnosis_reason(draft,
                             "%" PRIu64 " reports of running out of memory are in the text%s; the "
                             "first is taken as the cause, the others as what followed.",
                             summary->report_count, ranks);
        if (summary->host_count != 0 && summary->host_count != summary->report_count)
            vw__diagnosis_reason(draft,
                                 "%" PRIu64 " of them %s about the machine's memory, the others "
                                 "about the GPU's.",
                                 summary->host_count, summary->host_count == 1 ? "is" : "are");
    }
    if (!vw__doctor_knows(report->process_bytes) && report->other_process_count != 0)
        vw__diagnosis_reason(draft, "None of the processes listed is marked as this one (in a "
                                    "container their numbers differ), so one of them may be.");
}

/* Free blocks of private pools are counted as allocated by PyTorch's message. */
static bool is_stranded(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    uint64_t pools = given->report->private_pool_bytes;
    return given->judged.verdict == VW_VERDICT_GENUINE && vw__doctor_knows(pools) &&
           vw__doctor_knows(numbers->reserved_bytes) && pools <= numbers->reserved_bytes &&
           pools >= numbers->tried_bytes && pools >= numbers->reserved_bytes / 10;
}

static void conclude_stranded(const vw__text_case *given)
{
    const char *pools = vw__diagnosis_size(given->draft, given->report->private_pool_bytes);
    vw__diagnosis_reason(
        given->draft,
        "Of the %s that the message calls allocated, %s are free blocks of private "
        "pools: at least the %s asked for, and a tenth of what is reserved.",
        VW__DOCTOR_SIZE(given->numbers.allocated_bytes), pools,
        VW__DOCTOR_SIZE(given->numbers.tried_bytes));
    vw__diagnosis_conclude(given->draft, VW_VERDICT_STRANDED,
                           vw__text_confidence(given, VW_CONFIDENCE_MEDIUM),
                           "Stranded: %s were refused while %s lie idle in private pools, which "
                           "serve nothing but the CUDA graphs they belong to.",
                           VW__DOCTOR_SIZE(given->numbers.tried_bytes), pools);
    vw__text_add_findings(given, VW_VERDICT_STRANDED);
}

static void judge_gpu(vw__text_case *given)
{
    if (vw__text_judge_beyond_any_card(given))
        return;
    if (given->card_bytes != 0) {
        if (vw__text_judge_on_card(given))
            return;
    } else if (vw__text_judge_by_kind(given)) {
        return;
    }
    given->judged = vw__numbers_judge_printed(&given->numbers, NULL);
    if (is_stranded(given)) {
        conclude_stranded(given);
        return;
    }
    (void)vw__numbers_judge_printed(&given->numbers, given->draft); /* says it this time */
    conclude(given);
    if (given->judged.verdict == VW_VERDICT_UNKNOWN)
        vw__text_explain_unknown(given);
    else
        vw__text_add_findings(given, given->judged.verdict);
}

vw_status vw__doctor_text(const vw__error_summary *summary, const vw_doctor_options *options,
                          vw__diagnosis_draft *draft)
{
    vw__text_case given = {
        .summary = summary,
        .report = &summary->first,
        .draft = draft,
        .said = numbers_of(&summary->first),
        .card_bytes =
            options != NULL && vw__doctor_knows(options->card_bytes) ? options->card_bytes : 0,
        .others_bytes = VW_UNKNOWN,
    };
    given.numbers = given.said;
    draft->error_count = summary->report_count;
    if (given.report->kind == VW__ERROR_NONE || given.report->kind == VW__ERROR_NOT_OOM) {
        conclude_without_report(&given);
        return VW_OK;
    }
    draft->numbers = given.numbers;
    if (given.report->tried_bytes == 0)
        draft->numbers.tried_bytes = 0; /* it is what the text says, all the same */
    say_what_was_found(&given);
    bool is_host = vw__error_kind_is_host(given.report->kind);
    if (is_host && given.report->is_ambiguous && vw__text_judge_beyond_any_card(&given))
        return VW_OK; /* wherever it was to be */
    if (is_host)
        vw__text_judge_host(&given);
    else
        judge_gpu(&given);
    return VW_OK;
}
