/* text.c - vw__doctor_text(): what an error in a text comes to.
 *
 * A text is one of four: no error, an error that is not about memory, host memory, or GPU memory.
 * For GPU memory the numbers decide if there are enough of them (numbers.c); some programs
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
static bool is_cut(const vw__text_case *given)
{
    const vw__error_text_report *report = given->report;
    return report->is_truncated &&
           (report->kind != VW__ERROR_TEXT_TORCH_MPS || !vw__doctor_knows(report->allowed_bytes));
}

vw_confidence vw__text_confidence(const vw__text_case *given, vw_confidence confidence)
{
    if (given->report->is_ambiguous)
        return VW_CONFIDENCE_LOW;
    if (is_cut(given) && confidence > VW_CONFIDENCE_MEDIUM)
        return VW_CONFIDENCE_MEDIUM;
    return confidence;
}

bool vw__text_is_torch(vw__error_text_kind kind)
{
    switch (kind) {
    case VW__ERROR_TEXT_TORCH_CUDA:
    case VW__ERROR_TEXT_TORCH_HIP:
    case VW__ERROR_TEXT_TORCH_XPU:
    case VW__ERROR_TEXT_TORCH_MPS:
    case VW__ERROR_TEXT_TORCH_OTHER:
    case VW__ERROR_TEXT_CUDA_ASYNC:
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
    {"misaligned address", "a kernel used an address that is not aligned: run once with "
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
    {"invalid argument", "a call got an argument that it does not accept"},
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
    const vw__error_text_summary *summary = given->summary;
    if (given->report->kind == VW__ERROR_TEXT_NOT_OOM) {
        const char *meaning = other_error_meaning(given);
        vw__diagnosis_reason(draft, "Line %" PRIu64 " has an error: \"%.*s\".", given->report->line,
                             MOST_QUOTE_BYTES, given->report->excerpt);
        vw__diagnosis_reason(draft, "It matches no known form of running out of memory.");
        vw__diagnosis_conclude(draft, VW_VERDICT_NOT_OOM,
                               vw__text_confidence(given, VW_CONFIDENCE_HIGH),
                               meaning != NULL ? "Not out of memory: %s."
                                               : "Not out of memory: there is an error, but it is "
                                                 "not about running out of memory%s.",
                               meaning != NULL ? meaning : "");
        return;
    }
    vw__diagnosis_reason(draft,
                         "Looked for in %s: out-of-memory messages of PyTorch (CUDA, ROCm, XPU, "
                         "MPS), CUDA and its libraries, JAX, TensorFlow, CuPy, ggml, vLLM; and of "
                         "the host: failed allocations, the kernel's killer, shared memory.",
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

static vw_memory_numbers numbers_of(const vw__error_text_report *report)
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
    if (!vw__doctor_knows(said.free_bytes) && report->kind != VW__ERROR_TEXT_VLLM)
        said.free_bytes = report->available_bytes; /* "but only 3 GiB available" */
    if (!vw__doctor_knows(said.reserved_bytes) &&
        VW__DOCTOR_KNOWS_ALL(said.allocated_bytes, report->unallocated_bytes) &&
        !vw__add_u64(said.allocated_bytes, report->unallocated_bytes, &said.reserved_bytes))
        said.reserved_bytes = VW_UNKNOWN;
    return said;
}

/* ---- sentences ------------------------------------------------------------------------------- */

/* What must hold for a sentence; the first of its verdict for which all does is taken. */
enum {
    ASKED = 1 << 0, /* about a card that is only asked about */
    TRIED = 1 << 1, /* the request is known */
    FREE = 1 << 2,  /* and so is what was free */
    HELD = 1 << 3,  /* and what PyTorch held */
    AT_LIMIT = 1 << 4,
    OVER_LIMIT = 1 << 5, /* by the request alone */
    WARNING = 1 << 6,
    OVERSUBSCRIBED = 1 << 7,
    CONTRADICTION = 1 << 8,
    LIBRARY = 1 << 9, /* takes memory beside the framework that calls it */
    VLLM = 1 << 10,
};

static const struct {
    vw_verdict verdict;
    unsigned needs;
    const char *text;
} sentences[] = {
    {VW_VERDICT_FRAGMENTATION, TRIED | ASKED,
     "Fragmentation on a card of $card: $tried would be refused while $idle that PyTorch holds lie "
     "idle, in pieces too small."},
    {VW_VERDICT_FRAGMENTATION, TRIED,
     "Fragmentation: $tried were refused while $idle that PyTorch holds lay idle, in pieces too "
     "small."},
    {VW_VERDICT_FRAGMENTATION, 0,
     "Fragmentation: PyTorch holds $reserved and uses $in_use of it; the other $idle lie idle, in "
     "pieces too small for what was asked."},
    {VW_VERDICT_GENUINE, ASKED,
     "Genuine on a card of $card: $with_in_use$tried more are needed; $left."},
    {VW_VERDICT_GENUINE, 0, "Genuine: $with_in_use$tried more were needed; $left."},
    {VW_VERDICT_OUTSIDE, ASKED,
     "Outside: $outside of the card's $total would be held outside PyTorch, which itself would "
     "hold $reserved and needs $tried more."},
    {VW_VERDICT_OUTSIDE, 0,
     "Outside: $outside of the card's $total are held outside PyTorch, which itself held $reserved "
     "when it asked for $tried more."},
    {VW_VERDICT_CAPPED, HELD,
     "Capped: PyTorch held $held of the $allowed it is allowed and asked for $tried more, while "
     "the card had $free free."},
    {VW_VERDICT_CAPPED, 0,
     "Capped, most likely: a limit of $allowed is set, and $tried were asked for and not given "
     "while the card had $free free."},
    {VW_VERDICT_REFUSED, ASKED,
     "Refused: $tried were not given although the card had room for them; that one of $card would "
     "have $free free need not help."},
    {VW_VERDICT_REFUSED, AT_LIMIT,
     "Refused: the card had $free free, but PyTorch, at $reserved of the $allowed it is allowed, "
     "did not get $tried more."},
    {VW_VERDICT_REFUSED, 0,
     "Refused: $tried were asked for and not given although the card had $free free: something "
     "other than its memory ran out."},
    {VW_VERDICT_TOO_LARGE, OVER_LIMIT,
     "Too large: one request of $tried, where the limit is $allowed in all; nothing that is freed "
     "can serve it."},
    {VW_VERDICT_TOO_LARGE, 0,
     "Too large: one request of $tried, where the card has $total in all; nothing that is freed "
     "can serve it."},
    {VW_VERDICT_UNKNOWN, WARNING | TRIED,
     "Unknown: $kind did not get $tried of $device memory and went on without: a warning, not a "
     "failure."},
    {VW_VERDICT_UNKNOWN, WARNING,
     "Unknown: $kind did not get all it wanted of $device memory and went on without: a warning, "
     "not a failure."},
    {VW_VERDICT_UNKNOWN, OVERSUBSCRIBED,
     "Unknown: PyTorch holds $most_held on a card of $total, so the driver has moved memory to the "
     "host, and its numbers no longer tell."},
    {VW_VERDICT_UNKNOWN, CONTRADICTION,
     "Unknown: the $device ran out of memory, but the numbers in the message contradict each "
     "other."},
    {VW_VERDICT_UNKNOWN, LIBRARY | TRIED,
     "Unknown: $kind could not get $tried of its own on the GPU, outside PyTorch's pool; who held "
     "the card is not said."},
    {VW_VERDICT_UNKNOWN, LIBRARY,
     "Unknown: $kind could not get memory of its own on the GPU, outside PyTorch's pool; who held "
     "the card is not said."},
    {VW_VERDICT_UNKNOWN, VLLM,
     "Unknown: vLLM's share of the card leaves too little for its cache; by how many bytes is not "
     "said."},
    {VW_VERDICT_UNKNOWN, TRIED | FREE | ASKED,
     "Unknown on a card of $card: $tried were asked for with $free free; who held the rest is not "
     "said, so it can be $candidates."},
    {VW_VERDICT_UNKNOWN, TRIED | FREE,
     "Unknown: $tried were asked for with $free free; who held the rest is not said, so it can be "
     "$candidates."},
    {VW_VERDICT_UNKNOWN, TRIED,
     "Unknown: $tried of $device memory were asked for and not given ($kind); how much was free, "
     "and who held the rest, is not said."},
    {VW_VERDICT_UNKNOWN, 0,
     "Unknown: $device memory ran out ($kind), and the message has too few numbers to say why."},
};

bool vw__text_is_at_limit(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    return VW__DOCTOR_KNOWS_ALL(numbers->allowed_bytes, numbers->reserved_bytes) &&
           vw__doctor_less(numbers->allowed_bytes, numbers->reserved_bytes) < numbers->tried_bytes;
}

bool vw__text_is_of_library(const vw__text_case *given)
{
    vw__error_text_kind kind = given->report->kind;
    return kind == VW__ERROR_TEXT_CUBLAS || kind == VW__ERROR_TEXT_CUDNN ||
           kind == VW__ERROR_TEXT_CUSOLVER || kind == VW__ERROR_TEXT_NCCL;
}

uint64_t vw__text_held_bytes(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    return vw__doctor_knows(numbers->reserved_bytes) ? numbers->reserved_bytes
                                                     : numbers->allocated_bytes;
}

static unsigned holding(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    const struct {
        unsigned what;
        bool holds;
    } all[] = {
        {ASKED, given->card_bytes != 0},
        {TRIED, vw__doctor_knows(numbers->tried_bytes)},
        {FREE, vw__doctor_knows(numbers->free_bytes)},
        {HELD, vw__doctor_knows(vw__text_held_bytes(given))},
        {AT_LIMIT, vw__text_is_at_limit(given)},
        {OVER_LIMIT,
         vw__doctor_knows(numbers->allowed_bytes) && numbers->tried_bytes > numbers->allowed_bytes},
        {WARNING, given->report->is_warning},
        {OVERSUBSCRIBED, given->judged.is_oversubscribed},
        {CONTRADICTION, given->judged.is_contradiction},
        {LIBRARY, vw__text_is_of_library(given)},
        {VLLM, given->report->kind == VW__ERROR_TEXT_VLLM},
    };
    unsigned result = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        result |= all[i].holds ? all[i].what : 0;
    return result;
}

/* "of the card's 24.00 GiB only 391 MiB were free" */
static const char *what_was_left(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    bool is_asked = given->card_bytes != 0, knows_free = vw__doctor_knows(numbers->free_bytes);
    const char *text;
    if (knows_free && vw__doctor_knows(numbers->tried_bytes) &&
        numbers->free_bytes >= numbers->tried_bytes)
        text = is_asked ? "$free of the card's $total would be free, which is too close: a driver "
                          "keeps some back"
                        : "$free of the card's $total were free, which is too close: a driver "
                          "keeps some back";
    else if (!vw__doctor_knows(numbers->total_bytes))
        text = knows_free ? "only $free were free" : "how much was free is not said";
    else if (!knows_free)
        text = is_asked ? "the card has $total, and how much of it would be free is not said"
                        : "the card has $total, and how much of it was free is not said";
    else if (numbers->free_bytes == 0)
        text = is_asked ? "of the card's $total nothing would be free"
                        : "of the card's $total nothing was free";
    else
        text = is_asked ? "of the card's $total only $free would be free"
                        : "of the card's $total only $free were free";
    return vw__diagnosis_fill(given->draft, text);
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

void vw__text_name_numbers(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    bool is_reserved =
        vw__doctor_knows(numbers->reserved_bytes) && numbers->reserved_bytes > numbers->total_bytes;
    vw__diagnosis_name_numbers(given->draft, numbers);
    vw__diagnosis_name(given->draft, "card", given->card_bytes);
    vw__diagnosis_name(given->draft, "idle", given->judged.idle_bytes);
    vw__diagnosis_name(given->draft, "outside", given->judged.outside_bytes);
    vw__diagnosis_name(given->draft, "held", vw__text_held_bytes(given));
    vw__diagnosis_name(given->draft, "most_held",
                       is_reserved ? numbers->reserved_bytes : numbers->allocated_bytes);
}

static void conclude(const vw__text_case *given)
{
    vw__diagnosis_draft *draft = given->draft;
    vw_verdict verdict = given->judged.verdict;
    unsigned holds = holding(given);
    vw__diagnosis_name_text(draft, "kind", vw__error_text_kind_name(given->report->kind));
    vw__diagnosis_name_text(draft, "device", vw__text_device_of(given)->name);
    vw__diagnosis_name_text(draft, "candidates", candidates_text(given));
    vw__diagnosis_name_text(draft, "left", what_was_left(given));
    vw__diagnosis_name_text(draft, "with_in_use",
                            vw__doctor_knows(given->numbers.allocated_bytes)
                                ? vw__diagnosis_fill(draft, "with $in_use in use, ")
                                : "");
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++)
        if (sentences[i].verdict == verdict && (sentences[i].needs & ~holds) == 0) {
            vw__diagnosis_conclude(draft, verdict,
                                   verdict == VW_VERDICT_UNKNOWN
                                       ? VW_CONFIDENCE_LOW
                                       : vw__text_confidence(given, given->judged.confidence),
                                   "%s", vw__diagnosis_fill(draft, sentences[i].text));
            return;
        }
}

/* ---- the way through ------------------------------------------------------------------------- */

static void say_what_was_found(const vw__text_case *given)
{
    const vw__error_text_summary *summary = given->summary;
    const vw__error_text_report *report = given->report;
    vw__diagnosis_draft *draft = given->draft;
    vw__diagnosis_reason(
        draft, "The message, line %" PRIu64 ": %s%s%s%s%s.", report->line,
        vw__error_text_kind_name(report->kind), report->wording != NULL ? " (" : "",
        report->wording != NULL ? report->wording : "", report->wording != NULL ? ")" : "",
        is_cut(given) ? "; it breaks off" : "");
    vw__text_say_place(given);
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
            vw__diagnosis_reason(
                draft,
                "%" PRIu64 " of them %s about the machine's memory, the others about the GPU's.",
                summary->host_count, summary->host_count == 1 ? "is" : "are");
    }
    if (report->log_line != 0)
        vw__diagnosis_reason(
            draft, "Numbers that the message lacks are from PyTorch's log, line %" PRIu64 ".",
            report->log_line);
    if (!vw__doctor_knows(report->process_bytes) && report->other_process_count != 0)
        vw__diagnosis_reason(draft, "None of the processes listed is marked as this one (in a "
                                    "container their numbers differ), so one of them may be.");
}

/* Free blocks of private pools are counted as allocated by PyTorch's message. */
static bool is_stranded(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    uint64_t pools = given->report->private_pool_bytes;
    return given->judged.verdict == VW_VERDICT_GENUINE &&
           VW__DOCTOR_KNOWS_ALL(pools, numbers->reserved_bytes) &&
           pools <= numbers->reserved_bytes && pools >= numbers->tried_bytes &&
           pools >= numbers->reserved_bytes / 10;
}

static void conclude_stranded(const vw__text_case *given)
{
    const char *pools = vw__diagnosis_size(given->draft, given->report->private_pool_bytes);
    vw__diagnosis_reason(
        given->draft,
        "Of the $in_use that the message calls allocated, %s are free blocks of private pools: at "
        "least the $tried asked for, and a tenth of what is reserved.",
        pools);
    vw__diagnosis_conclude(given->draft, VW_VERDICT_STRANDED,
                           vw__text_confidence(given, VW_CONFIDENCE_MEDIUM),
                           "Stranded: $tried were refused while %s lie idle in private pools, "
                           "which serve nothing but the CUDA graphs they belong to.",
                           pools);
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
    vw__text_name_numbers(given);
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

vw_status vw__doctor_text(const vw__error_text_summary *summary, const vw_doctor_options *options,
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
    given.phase = vw__text_phase(given.report);
    vw__text_name_numbers(&given);
    draft->error_count = summary->report_count;
    if (given.report->kind == VW__ERROR_TEXT_NONE || given.report->kind == VW__ERROR_TEXT_NOT_OOM) {
        conclude_without_report(&given);
        return VW_OK;
    }
    draft->settings_variable =
        vw__text_variable(&given, options != NULL ? options->torch_version : NULL);
    vw__diagnosis_name_text(draft, "variable", draft->settings_variable);
    if (vw__error_text_is_retry(given.report)) {
        vw__text_conclude_retried(&given);
        return VW_OK;
    }
    draft->numbers = given.numbers;
    if (given.report->tried_bytes == 0)
        draft->numbers.tried_bytes = 0; /* it is what the text says, all the same */
    say_what_was_found(&given);
    if (given.report->says_addresses) {
        vw__text_judge_addresses(&given);
        return VW_OK;
    }
    bool is_host = vw__error_text_kind_is_host(given.report->kind);
    if (is_host && given.report->is_ambiguous && vw__text_judge_beyond_any_card(&given))
        return VW_OK; /* wherever it was to be */
    if (is_host)
        vw__text_judge_host(&given);
    else
        judge_gpu(&given);
    return VW_OK;
}
