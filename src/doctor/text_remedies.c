/* text_remedies.c - the findings of a verdict that the numbers of a message gave.
 *
 * A message has five numbers and no stack, so what a remedy would give back is mostly a range by a
 * rule of thumb, and says so; a recording would tell. What is certain is the order: first what
 * costs nothing and may be enough, then what costs time, then what costs work.
 *
 * Rules of thumb for remedies are the table's (remedy/remedy.h). One more is here, from
 * measurements of ordinary training runs: with expandable segments, what lay idle at the peak was a
 * quarter of what was live at most. */
#include "doctor/text_parts.h"

#include "analysis/spill_cost.h"
#include "base/checked_math.h" /* vw__add_u64 */
#include "doctor/spill.h"
#include "remedy/remedy.h"

#define MOST_SPILLED_BYTES (UINT64_C(1) << 40) /* no host has more to spare; unknown is more */

static vw__diagnosis_savings between(uint64_t at_least_bytes, uint64_t at_most_bytes)
{
    return (vw__diagnosis_savings){at_least_bytes, at_most_bytes};
}

/* ---- parts ----------------------------------------------------------------------------------- */

void vw__text_add_parts(vw__diagnosis_finding *finding, vw_part *parts, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && parts[j].bytes > parts[j - 1].bytes; j--) {
            vw_part larger = parts[j];
            parts[j] = parts[j - 1];
            parts[j - 1] = larger;
        }
    for (size_t i = 0; i < count; i++)
        if (parts[i].bytes != 0)
            vw__diagnosis_part(finding, parts[i].name, parts[i].bytes);
}

/* ---- what is missing ------------------------------------------------------------------------- */

/* On a card that is only asked about: what is in use beyond it, by itself. */
static uint64_t excess_bytes(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    if (given->card_bytes == 0 || !vw__doctor_knows(numbers->allocated_bytes))
        return 0;
    uint64_t others = vw__doctor_knows(given->others_bytes) ? given->others_bytes : 0;
    return vw__doctor_less(numbers->allocated_bytes, vw__doctor_less(given->card_bytes, others));
}

uint64_t vw__text_missing_bytes(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    uint64_t excess = excess_bytes(given), all;
    if (excess != 0)
        return vw__doctor_knows(numbers->tried_bytes) &&
                       vw__add_u64(excess, numbers->tried_bytes, &all)
                   ? all
                   : excess;
    if (!vw__doctor_knows(numbers->tried_bytes))
        return VW_UNKNOWN;
    uint64_t room = vw__doctor_knows(numbers->free_bytes) ? numbers->free_bytes : 0;
    uint64_t held = vw__text_held_bytes(given);
    if (VW__DOCTOR_KNOWS_ALL(numbers->allowed_bytes, held) &&
        vw__doctor_less(numbers->allowed_bytes, held) < room)
        room = vw__doctor_less(numbers->allowed_bytes, held);
    return vw__doctor_less(numbers->tried_bytes, room);
}

/* Says no where all that is given back is too little, even if all idle memory could be used. */
static void say_not_enough(const vw__text_case *given, vw__diagnosis_finding *finding,
                           uint64_t at_most_bytes)
{
    uint64_t most_bytes;
    if (!VW__DOCTOR_KNOWS_ALL(given->numbers.free_bytes, given->judged.idle_bytes) ||
        !vw__add_u64(at_most_bytes, given->judged.idle_bytes, &most_bytes))
        return;
    vw__diagnosis_enough(finding,
                         vw__remedy_enough(VW_BASIS_MEASURED, (vw__remedy_range){0, most_bytes},
                                           vw__text_missing_bytes(given)));
}

/* ---- fragmentation --------------------------------------------------------------------------- */

static void add_expandable(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    vw__remedy_range range =
        vw__remedy_of_idle(given->judged.idle_bytes, given->numbers.allocated_bytes);
    vw__diagnosis_known_remedy(finding, VW__REMEDY_EXPANDABLE_SEGMENTS, NULL,
                               between(range.at_least_bytes, range.at_most_bytes), VW_BASIS_RULE);
}

static void add_fragmentation_remedies(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    uint64_t idle = given->judged.idle_bytes;
    if (!given->report->says_expandable)
        add_expandable(given, finding);
    if (vw__remedy_is_empty_cache_worth_it(idle, given->numbers.reserved_bytes)) {
        const vw__remedy_words words = {.module = vw__text_device_of(given)->module};
        vw__diagnosis_known_remedy(finding, VW__REMEDY_EMPTY_CACHE, &words, between(0, idle),
                                   VW_BASIS_RULE);
    }
    vw__diagnosis_known_remedy(finding, VW__REMEDY_REPEATING_SIZES, NULL, between(0, idle),
                               VW_BASIS_RULE);
    if (!vw__text_device_of(given)->has_recordings)
        return;
    vw__diagnosis_advice(finding, "record the run and let settings be tried on the recording",
                         "no code is changed; the recorded run is a little slower",
                         "vramwise run --record run.pickle -- python train.py\n"
                         "vramwise tune run.pickle --card SIZE");
}

/* The recipe that most pages give first. */
static void warn_of_max_split_size(const vw__text_case *given)
{
    vw__diagnosis_finding *warning = vw__diagnosis_add(
        given->draft, "warning", VW_UNKNOWN,
        "max_split_size_mb, which the message or many pages suggest, can make it worse.");
    vw__diagnosis_evidence(
        warning, "On recordings with varying lengths and image sizes max_split_size_mb:128 "
                 "took what was reserved from 1.5 times what was live to 5 and 6 times.");
    vw__diagnosis_advice(warning, "try it on a recording first", "a recording of the run",
                         "vramwise replay oom.pickle --conf max_split_size_mb:128");
}

static void add_fragmentation(const vw__text_case *given)
{
    uint64_t idle = given->judged.idle_bytes;
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        given->draft, "fragmentation", idle,
        "PyTorch holds $reserved and uses $in_use; %s of it lie idle.", VW__DOCTOR_SIZE(idle));
    vw__diagnosis_evidence(finding,
                           "A request needs one piece: idle bytes serve it only where they "
                           "lie side by side, in one segment.");
    if (given->report->says_expandable)
        vw__diagnosis_evidence(finding,
                               "Expandable segments were on already, by the text: the idle "
                               "bytes may belong to other streams or private pools.");
    add_fragmentation_remedies(given, finding);
    warn_of_max_split_size(given);
}

/* The request would have fit, but mending it would win next to nothing. */
static void add_small_fragmentation(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    uint64_t idle = given->judged.idle_bytes;
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        given->draft, "fragmentation", idle,
        "This request of $tried would have fit in the %s that lay idle, but only %s would then "
        "remain.",
        VW__DOCTOR_SIZE(idle), VW__DOCTOR_SIZE(vw__doctor_less(idle, numbers->tried_bytes)));
    vw__diagnosis_evidence(finding, "Idle bytes are less than a tenth of what is reserved: with no "
                                    "fragmentation at all the run fails a little later.");
    if (!given->report->says_expandable)
        add_expandable(given, finding);
}

/* ---- outside --------------------------------------------------------------------------------- */

/* What of it is this process' own, by the message; VW_UNKNOWN. A driver that cannot tell says 0. */
static uint64_t own_outside_bytes(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    if (!VW__DOCTOR_KNOWS_ALL(numbers->process_bytes, numbers->reserved_bytes) ||
        numbers->process_bytes < numbers->reserved_bytes)
        return VW_UNKNOWN;
    uint64_t own = numbers->process_bytes - numbers->reserved_bytes;
    return own <= given->judged.outside_bytes ? own : given->judged.outside_bytes;
}

static void add_outside_evidence(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    uint64_t outside = given->judged.outside_bytes, own = own_outside_bytes(given);
    if (vw__doctor_knows(own)) {
        vw_part parts[] = {{"other processes", outside - own},
                           {"this process: context and libraries", own}};
        vw__text_add_parts(finding, parts, sizeof parts / sizeof *parts);
        vw__diagnosis_evidence(
            finding,
            "This process holds %s besides what PyTorch reserved (context, NCCL, "
            "cuDNN, other libraries); other processes hold %s.",
            VW__DOCTOR_SIZE(own), VW__DOCTOR_SIZE(outside - own));
    } else {
        vw__diagnosis_evidence(finding,
                               "The message does not say whose it is: other processes', or "
                               "this one's context and libraries.");
    }
    if (given->report->other_process_count != 0 &&
        vw__doctor_knows(given->report->other_process_bytes) &&
        given->report->other_process_bytes != 0)
        vw__diagnosis_evidence(finding, "The message lists %zu %s with %s in all.",
                               given->report->other_process_count,
                               given->report->other_process_count == 1 ? "process" : "processes",
                               VW__DOCTOR_SIZE(given->report->other_process_bytes));
}

static void add_outside(const vw__text_case *given)
{
    uint64_t outside = given->judged.outside_bytes, own = own_outside_bytes(given);
    uint64_t beyond = vw__doctor_less(outside, VW__NUMBERS_CONTEXT_BYTES);
    uint64_t others = vw__doctor_knows(own) ? outside - own : beyond;
    const vw__text_device *device = vw__text_device_of(given);
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(given->draft, "outside", outside,
                          outside <= given->numbers.total_bytes
                              ? "%s of the card's %s are held outside PyTorch."
                              : "%s are held outside PyTorch, more than a card of %s has.",
                          VW__DOCTOR_SIZE(outside), VW__DOCTOR_SIZE(given->numbers.total_bytes));
    add_outside_evidence(given, finding);
    vw__text_add_process_list(given, finding);
    vw__diagnosis_remedy(finding, "end what is left over of earlier runs, or notebooks",
                         between(0, others), VW_BASIS_MEASURED, "that work is lost",
                         "kill PID  # from the list; then look again");
    say_not_enough(given, finding, others);
    vw__diagnosis_remedy(
        finding, "use a card that is free", between(0, others), VW_BASIS_MEASURED,
        "none, where there is one",
        device->visible[0] != '\0'
            ? vw__diagnosis_text(given->draft, "%s=1 python train.py", device->visible)
            : vw__diagnosis_text(given->draft, "model.to(\"%s:1\")", device->module));
    vw__diagnosis_advice(
        finding, "one card for each rank: ranks that forget it all start on card 0",
        "one line, before any use",
        vw__diagnosis_text(given->draft, "torch.%s.set_device(int(os.environ[\"LOCAL_RANK\"]))",
                           device->module));
    vw__diagnosis_advice(finding, "keep other frameworks from taking the card in advance",
                         "their first steps are slower",
                         "export XLA_PYTHON_CLIENT_PREALLOCATE=false\n"
                         "export TF_FORCE_GPU_ALLOW_GROWTH=true\n"
                         "vllm serve MODEL --gpu-memory-utilization 0.5");
    if (vw__doctor_knows(own) && own > VW__NUMBERS_CONTEXT_BYTES)
        vw__diagnosis_remedy(finding, "fewer NCCL communicators and smaller buffers",
                             between(0, own - VW__NUMBERS_CONTEXT_BYTES / 2), VW_BASIS_RULE,
                             "slower collectives", "export NCCL_BUFFSIZE=1048576");
}

/* ---- a limit --------------------------------------------------------------------------------- */

/* A fraction with four digits, never below `fraction`. */
static double digits_above(double fraction)
{
    double digits = (double)(int)(fraction * 10000.0 + 1.0);
    return digits < 10000.0 ? digits / 10000.0 : 1.0;
}

static void add_capped(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    uint64_t limit = numbers->allowed_bytes, total = numbers->total_bytes;
    bool has_card = vw__doctor_knows(total) && total >= limit;
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        given->draft, "capped", has_card ? total - limit : VW_UNKNOWN,
        "A limit of %s is set for this process%s%s%s%s%s.", VW__DOCTOR_SIZE(limit),
        has_card ? ", which leaves " : "", has_card ? VW__DOCTOR_SIZE(total - limit) : "",
        has_card ? " of the card's " : "", has_card ? VW__DOCTOR_SIZE(total) : "",
        has_card ? " out of its reach" : "");
    if (has_card && total != 0)
        vw__diagnosis_evidence(finding, "That is a fraction of %.4f of the card.",
                               (double)limit / (double)total);
    uint64_t held = vw__text_held_bytes(given), wanted;
    if (!VW__DOCTOR_KNOWS_ALL(held, numbers->tried_bytes) ||
        !vw__add_u64(held, numbers->tried_bytes, &wanted))
        wanted = VW_UNKNOWN;
    vw__remedy_words words = {.module = vw__text_device_of(given)->module};
    if (has_card && vw__doctor_knows(wanted) && wanted <= total) {
        vw__diagnosis_evidence(finding, "This request needed a limit of %s: a fraction of %.4f.",
                               VW__DOCTOR_SIZE(wanted), (double)wanted / (double)total);
        words.fraction =
            vw__diagnosis_text(given->draft, "%.4f", digits_above((double)wanted / (double)total));
    }
    vw__diagnosis_savings savings = VW__DIAGNOSIS_SAVES_UNKNOWN;
    if (has_card) {
        uint64_t room = total - limit;
        if (vw__doctor_knows(numbers->free_bytes) && numbers->free_bytes < room)
            room = numbers->free_bytes;
        uint64_t missing = vw__text_missing_bytes(given);
        savings = between(vw__doctor_knows(missing) && missing < room ? missing : room, room);
    }
    vw__diagnosis_known_remedy(finding, VW__REMEDY_RAISE_LIMIT, &words, savings, VW_BASIS_COMPUTED);
    if (VW__DOCTOR_KNOWS_ALL(numbers->free_bytes, numbers->tried_bytes) &&
        numbers->free_bytes >= numbers->tried_bytes)
        vw__diagnosis_enough(finding, VW_ENOUGH_YES); /* nothing but the limit is in the way */
    vw__diagnosis_advice(finding, "look where it is set", "none",
                         "grep -rn \"memory_fraction\\|gpu_memory_utilization\" .\n"
                         "env | grep ALLOC_CONF");
    vw__text_add_smaller_batch(given, finding);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void add_refused(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        given->draft, "refused", numbers->tried_bytes,
        "$tried were refused with $free free: the card's memory was not what was short.");
    if (vw__text_is_at_limit(given))
        vw__diagnosis_evidence(finding, "PyTorch was at its limit, so it may not have asked the "
                                        "driver at all: see the limit first.");
    vw__diagnosis_evidence(finding,
                           "A GPU allocation also needs memory of the host: address space, "
                           "and on Windows a commitment in the page file.");
    if (!vw__doctor_knows(numbers->allowed_bytes))
        vw__diagnosis_evidence(finding,
                               "A limit (set_per_process_memory_fraction) may be set without being "
                               "in the message: PyTorch 2.1 to 2.4 did not print it.");
    vw__diagnosis_evidence(finding,
                           "Or another process let go of its memory between the failure and "
                           "the moment the numbers were taken: try again.");
    if (!vw__doctor_knows(numbers->allowed_bytes))
        vw__diagnosis_advice(finding, "see whether a limit is set", "none",
                             "grep -rn set_per_process_memory_fraction .\n"
                             "env | grep ALLOC_CONF");
    vw__diagnosis_advice(finding, "give the host more room: its memory, or address space, ran out",
                         "administrator's rights",
                         "free -g; ulimit -v unlimited; sysctl vm.overcommit_memory\n"
                         "# Windows, System, Advanced, Performance: a larger page file\n"
                         "# WSL: memory= and swap= in .wslconfig, then wsl --shutdown");
    if (given->report->says_expandable)
        vw__diagnosis_advice(
            finding, "without expandable segments: each reserves addresses for more than the card",
            "more fragmentation",
            vw__diagnosis_text(given->draft, "export %s=expandable_segments:False",
                               given->draft->settings_variable));
    vw__diagnosis_advice(finding, "see whether the card is divided (MIG), or shared by a scheduler",
                         "none", "nvidia-smi -L; nvidia-smi");
    if (given->report->kind == VW__ERROR_TEXT_TORCH_XPU)
        vw__diagnosis_advice(finding, "allow single allocations of more than 4 GiB",
                             "some kernels are slower",
                             "export UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1");
    vw__text_add_process_list(given, finding);
}

/* ---- too large ------------------------------------------------------------------------------- */

static void add_too_large(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    uint64_t tried = numbers->tried_bytes;
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(given->draft, "too-large", tried,
                          "One tensor of %s is asked for at once.", VW__DOCTOR_SIZE(tried));
    if (vw__doctor_knows(numbers->total_bytes) && tried / 16 > numbers->total_bytes)
        vw__diagnosis_evidence(
            finding,
            "It would fill more than 16 cards: more likely a wrong shape than a large model.");
    vw__text_add_shapes(given, finding);
    vw__diagnosis_known_remedy(finding, VW__REMEDY_COMPUTE_IN_CHUNKS, NULL,
                               VW__DIAGNOSIS_SAVES_UNKNOWN, VW_BASIS_RULE);
    vw__diagnosis_known_remedy(finding, VW__REMEDY_FUSED_ATTENTION, NULL,
                               VW__DIAGNOSIS_SAVES_UNKNOWN, VW_BASIS_RULE);
    vw__diagnosis_advice(finding, "smaller inputs: length, resolution, points, or batch",
                         "another task, if the length counts",
                         "batch_size=1; images tiled; texts cut");
}

/* ---- genuine, stranded ----------------------------------------------------------------------- */

/* Do in use, idle, outside and free come to the card, so that each can be called a part of it? */
static bool has_whole_card(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    return VW__DOCTOR_KNOWS_ALL(numbers->total_bytes, numbers->reserved_bytes, numbers->free_bytes,
                                numbers->allocated_bytes) &&
           numbers->allocated_bytes <= numbers->reserved_bytes &&
           numbers->reserved_bytes <= numbers->total_bytes &&
           numbers->free_bytes <= numbers->total_bytes - numbers->reserved_bytes;
}

static void add_card_parts(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    const vw_memory_numbers *numbers = &given->numbers;
    vw_part parts[] = {
        {"in use", numbers->allocated_bytes},
        {"reserved and idle", numbers->reserved_bytes - numbers->allocated_bytes},
        {"outside PyTorch", numbers->total_bytes - numbers->reserved_bytes - numbers->free_bytes},
        {"free", numbers->free_bytes},
    };
    vw__text_add_parts(finding, parts, sizeof parts / sizeof *parts);
}

static vw__diagnosis_finding *begin_genuine(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    bool knows_tried = vw__doctor_knows(numbers->tried_bytes);
    const char *tried = vw__diagnosis_size(given->draft, numbers->tried_bytes);
    if (has_whole_card(given) && knows_tried) {
        vw__diagnosis_finding *finding = vw__diagnosis_add(
            given->draft, "genuine", numbers->total_bytes,
            "Of the card's $total, $in_use are in use, and $tried more are needed.");
        add_card_parts(given, finding);
        return finding;
    }
    if (!vw__doctor_knows(numbers->allocated_bytes))
        return vw__diagnosis_add(given->draft, "genuine", numbers->tried_bytes,
                                 "More is needed than there is: $tried were asked for.");
    return vw__diagnosis_add(given->draft, "genuine", numbers->allocated_bytes,
                             "More is needed than there is: $in_use in use%s%s%s.",
                             knows_tried ? ", and " : "", knows_tried ? tried : "",
                             knows_tried ? " more" : "");
}

/* Only what this request lacked is known: what follows may want more. */
static void add_spill(const vw__text_case *given, vw__diagnosis_finding *finding,
                      uint64_t missing_bytes_known)
{
    if (missing_bytes_known == 0 || missing_bytes_known > MOST_SPILLED_BYTES ||
        !vw__text_device_of(given)->has_recordings)
        return;
    const vw__doctor_spill_trial needed = {
        .step_cost_ns = vw__spill_cost_touch_ns(missing_bytes_known), .step_ns = VW_UNKNOWN};
    vw__diagnosis_remedy(
        finding,
        vw__diagnosis_text(given->draft,
                           "let at least %s go to host memory, with vramwise's allocator (spill)",
                           VW__DOCTOR_SIZE(missing_bytes_known)),
        vw__diagnosis_saves(missing_bytes_known), VW_BASIS_RULE,
        vw__doctor_spill_cost(given->draft, &needed),
        vw__doctor_spill_how(given->draft, 2 * missing_bytes_known, false));
}

static void add_genuine(const vw__text_case *given)
{
    uint64_t missing = vw__text_missing_bytes(given);
    vw__diagnosis_finding *finding = begin_genuine(given);
    if (vw__doctor_knows(missing) && missing != 0)
        vw__diagnosis_evidence(
            finding,
            given->card_bytes != 0
                ? "At least %s would be missing on that card, this request included; others may "
                  "follow it."
                : "At least %s are missing, for this request alone; others may follow it.",
            VW__DOCTOR_SIZE(missing));
    vw__diagnosis_evidence(finding,
                           "What the memory is used for (weights, activations, optimizer state) is "
                           "not in a message, so which of these applies is not known%s.",
                           vw__text_device_of(given)->has_recordings ? "; a recording tells" : "");
    vw__text_add_diet(given, finding);
    add_spill(given, finding, missing);
    vw__text_add_recording(given, finding);
}

static void add_stranded(const vw__text_case *given)
{
    uint64_t pools = given->report->private_pool_bytes;
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        given->draft, "stranded", pools, "%s lie idle in private pools, of $reserved reserved.",
        VW__DOCTOR_SIZE(pools));
    vw__diagnosis_evidence(finding,
                           "PyTorch counts free blocks of private pools as allocated. They "
                           "serve only the graph, or MemPool, that they were made for.");
    vw__diagnosis_known_remedy(finding, VW__REMEDY_SHARED_GRAPH_POOL, NULL, between(0, pools),
                               VW_BASIS_MEASURED);
    vw__diagnosis_remedy(finding, "capture fewer sizes, or none", between(0, pools),
                         VW_BASIS_MEASURED, "slower where launching kernels takes the time",
                         "torch.compile(model)  # without mode=\"reduce-overhead\"\n"
                         "vllm serve MODEL --enforce-eager");
    vw__text_add_recording(given, finding);
}

/* ---- what stands beside the verdict ---------------------------------------------------------- */

static bool is_outside_worth_telling(const vw__text_case *given)
{
    uint64_t outside = given->judged.outside_bytes;
    bool is_short =
        given->numbers.free_bytes < given->numbers.tried_bytes || excess_bytes(given) != 0;
    return VW__DOCTOR_KNOWS_ALL(outside, given->numbers.tried_bytes) && is_short &&
           outside > VW__NUMBERS_CONTEXT_BYTES &&
           outside - VW__NUMBERS_CONTEXT_BYTES >= given->numbers.tried_bytes;
}

void vw__text_add_findings(const vw__text_case *given, vw_verdict verdict)
{
    vw__text_name_numbers(given);
    switch (verdict) {
    case VW_VERDICT_FRAGMENTATION:
        add_fragmentation(given);
        break;
    case VW_VERDICT_GENUINE:
        add_genuine(given);
        break;
    case VW_VERDICT_OUTSIDE:
        add_outside(given);
        break;
    case VW_VERDICT_CAPPED:
        add_capped(given);
        break;
    case VW_VERDICT_REFUSED:
        add_refused(given);
        break;
    case VW_VERDICT_TOO_LARGE:
        add_too_large(given);
        break;
    case VW_VERDICT_STRANDED:
        add_stranded(given);
        break;
    default:
        break;
    }
    if (verdict == VW_VERDICT_REFUSED && vw__text_is_at_limit(given))
        add_capped(given);
    if (verdict != VW_VERDICT_OUTSIDE && verdict != VW_VERDICT_TOO_LARGE &&
        is_outside_worth_telling(given))
        add_outside(given);
    if (given->judged.is_small_fragmentation && verdict != VW_VERDICT_STRANDED)
        add_small_fragmentation(given);
}
