/* text_diet.c - what makes a run need less, for those who have a message and no recording.
 *
 * Which remedies help in which phase, and in which order to try them, is the table's
 * (remedy/remedy_phase.c). Their bytes are rules of thumb over what is in use. One number is known
 * better: the request itself. In a pass it is in proportion to the batch, so a batch of half the
 * size asks for half of it. */
#include "doctor/text_parts.h"

#include "base/checked_math.h"
#include "remedy/remedy.h"

enum { LEAST_PARTS = 2, MOST_PARTS = 64 }; /* that a batch is cut into */

/* A request of this share of the card is looked at before anything else. */
enum { ONE_REQUEST_PERCENT = 50 };

/* Shapes that people know: heads of attention in one layer, and a vocabulary. */
enum { USUAL_HEADS = 32, USUAL_VOCABULARY = 32000 };
enum { LEAST_USUAL_LENGTH = 512, MOST_USUAL_LENGTH = 1 << 20 };

static vw__diagnosis_savings savings_of(vw__remedy_range range)
{
    return (vw__diagnosis_savings){range.at_least_bytes, range.at_most_bytes};
}

/* ---- one request ----------------------------------------------------------------------------- */

/* Is this one request so much of the card, or of the limit, that its own size is the first thing to
 * look at? */
static bool is_one_request(const vw__text_case *given)
{
    const vw_memory_numbers *numbers = &given->numbers;
    uint64_t room =
        vw__doctor_knows(numbers->allowed_bytes) ? numbers->allowed_bytes : numbers->total_bytes;
    return VW__DOCTOR_KNOWS_ALL(room, numbers->tried_bytes) &&
           numbers->tried_bytes >= room / 100 * ONE_REQUEST_PERCENT;
}

/* "8.7 million" */
static const char *count_text(vw__diagnosis_draft *draft, uint64_t count)
{
    static const struct {
        uint64_t unit;
        const char *name;
    } units[] = {{UINT64_C(1000000000000), "trillion"},
                 {UINT64_C(1000000000), "billion"},
                 {UINT64_C(1000000), "million"},
                 {UINT64_C(1000), "thousand"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (count >= units[i].unit)
            return vw__diagnosis_text(draft, "%.2f %s", (double)count / (double)units[i].unit,
                                      units[i].name);
    return vw__diagnosis_text(draft, "%llu", (unsigned long long)count);
}

static uint64_t square_root(uint64_t value)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 31; bit != 0; bit >>= 1)
        if ((root | bit) <= value / (root | bit))
            root |= bit;
    return root;
}

/* Only shapes that somebody may have meant. */
static void add_usual_shapes(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    uint64_t numbers = given->numbers.tried_bytes / 2;
    uint64_t length = square_root(numbers / USUAL_HEADS), tokens = numbers / USUAL_VOCABULARY;
    bool is_attention = length >= LEAST_USUAL_LENGTH && length <= MOST_USUAL_LENGTH;
    bool is_logits = tokens >= LEAST_USUAL_LENGTH && tokens <= MOST_USUAL_LENGTH;
    if (!vw__phase_scales_with_batch(given->phase) || (!is_attention && !is_logits))
        return;
    const char *attention =
        is_attention ? vw__diagnosis_text(given->draft,
                                          "the attention scores of one sequence of %llu tokens "
                                          "with %d heads",
                                          (unsigned long long)length, USUAL_HEADS)
                     : "";
    const char *logits =
        is_logits
            ? vw__diagnosis_text(given->draft, "the logits of %llu tokens over a vocabulary of %d",
                                 (unsigned long long)tokens, USUAL_VOCABULARY)
            : "";
    vw__diagnosis_evidence(finding, "In 16 bits, that is as much as %s%s%s.", attention,
                           is_attention && is_logits ? ", or " : "", logits);
}

void vw__text_add_shapes(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    uint64_t tried = given->numbers.tried_bytes;
    vw__diagnosis_evidence(finding,
                           "One tensor of $tried is %s numbers of 4 bytes, or %s of 2: print the "
                           "shapes that go into the line that failed.",
                           count_text(given->draft, tried / 4),
                           count_text(given->draft, tried / 2));
    add_usual_shapes(given, finding);
    vw__diagnosis_advice(finding, "look at the shapes: a broadcast, an outer product, a wrong axis",
                         "none", "print(x.shape, x.dtype)  # before the line that failed");
}

/* ---- a smaller batch ------------------------------------------------------------------------- */

/* Of the request, what is in proportion to the batch: at least, and at most. */
static vw__remedy_range scaling_request(const vw__text_case *given)
{
    uint64_t tried = given->numbers.tried_bytes, in_use = given->numbers.allocated_bytes;
    if (!vw__doctor_knows(tried) || !vw__phase_scales_with_batch(given->phase))
        return (vw__remedy_range){0, 0};
    /* By itself larger than all weights and activations so far: it is no weight. */
    bool is_certain =
        given->phase != VW__PHASE_OTHER || (vw__doctor_knows(in_use) && tried > in_use);
    return (vw__remedy_range){is_certain ? tried : 0, tried};
}

/* Into how many parts a batch must be cut to give back what is missing, if half of what is in use
 * grows with it; 0: into more than makes sense. */
static uint64_t parts_of_batch(uint64_t in_use_bytes, uint64_t request_bytes,
                               uint64_t missing_bytes)
{
    uint64_t growing = in_use_bytes / 2 + request_bytes;
    for (uint64_t parts = LEAST_PARTS; parts <= MOST_PARTS; parts *= 2)
        if (growing - growing / parts >= missing_bytes)
            return parts;
    return 0;
}

static vw__remedy_range with_request(vw__remedy_range live, vw__remedy_range request,
                                     uint64_t parts)
{
    if (!vw__doctor_knows(live.at_least_bytes))
        return live;
    request.at_least_bytes -= request.at_least_bytes / parts;
    request.at_most_bytes -= request.at_most_bytes / parts;
    if (!vw__add_u64(live.at_least_bytes, request.at_least_bytes, &live.at_least_bytes) ||
        !vw__add_u64(live.at_most_bytes, request.at_most_bytes, &live.at_most_bytes))
        return (vw__remedy_range){VW_UNKNOWN, VW_UNKNOWN};
    return live;
}

static void add_smaller_batch(const vw__text_case *given, vw__diagnosis_finding *finding,
                              vw__remedy_id id)
{
    uint64_t in_use = given->numbers.allocated_bytes, missing = vw__text_missing_bytes(given);
    bool is_known = vw__doctor_knows(in_use) && in_use != 0 && vw__doctor_knows(missing);
    vw__remedy_range request = scaling_request(given);
    uint64_t parts =
        is_known ? parts_of_batch(in_use, request.at_least_bytes, missing) : LEAST_PARTS;
    const vw__remedy_words words = {.parts = parts != 0 ? parts : MOST_PARTS};
    /* The rule of thumb is for batches, whatever they are for. */
    vw__remedy_range range = with_request(
        vw__remedy_of_live(VW__REMEDY_SPLIT_BATCH, is_known ? in_use : VW_UNKNOWN, words.parts),
        request, words.parts);
    if (parts != 0)
        vw__diagnosis_known_remedy(finding, id, &words, savings_of(range), VW_BASIS_RULE);
    else
        vw__diagnosis_remedy(finding,
                             id == VW__REMEDY_SPLIT_BATCH
                                 ? "take the smallest batch and accumulate gradients"
                                 : "take the smallest batch",
                             savings_of(range), VW_BASIS_RULE, vw__remedy_of(id)->cost,
                             vw__diagnosis_code(given->draft, id, &words));
}

void vw__text_add_smaller_batch(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    add_smaller_batch(given, finding, VW__REMEDY_SPLIT_BATCH);
}

/* ---- everything ------------------------------------------------------------------------------ */

static const char *filled(const vw__text_case *given, const char *text,
                          const vw__remedy_words *words)
{
    const char *made = vw__remedy_text(&given->draft->arena, text, words);
    given->draft->has_failed |= made == NULL; /* it cannot be finished: VW_ERR_HOST_MEMORY */
    return made != NULL ? made : "";
}

/* Which kind of model it is, a message does not say. */
static const char *code_of_both(const vw__text_case *given, const vw__remedy *known,
                                const vw__remedy_words *words)
{
    return vw__diagnosis_text(given->draft, "%s\n# any other model:\n%s",
                              filled(given, known->transformers_code, words),
                              filled(given, known->code, words));
}

static void add_known(const vw__text_case *given, vw__diagnosis_finding *finding, vw__remedy_id id)
{
    const vw__remedy_words words = {.module = vw__text_device_of(given)->module};
    const vw__remedy *known = vw__remedy_of(id);
    vw__diagnosis_savings savings =
        savings_of(vw__remedy_of_live(id, given->numbers.allocated_bytes, 0));
    if (id == VW__REMEDY_SPLIT_BATCH || id == VW__REMEDY_SMALLER_BATCH)
        add_smaller_batch(given, finding, id);
    else if (known->transformers_code != NULL)
        vw__diagnosis_remedy(finding, known->action, savings, VW_BASIS_RULE, known->cost,
                             code_of_both(given, known, &words));
    else
        vw__diagnosis_known_remedy(finding, id, &words, savings, VW_BASIS_RULE);
}

void vw__text_add_diet(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    const vw__remedy_list *list = vw__remedy_for_phase(given->phase);
    if (list->reason != NULL)
        vw__diagnosis_evidence(finding, "%s", list->reason);
    if (is_one_request(given)) {
        vw__text_add_shapes(given, finding);
        if (vw__phase_scales_with_batch(given->phase))
            vw__diagnosis_known_remedy(
                finding, VW__REMEDY_COMPUTE_IN_CHUNKS, NULL,
                (vw__diagnosis_savings){given->numbers.tried_bytes / 2, given->numbers.tried_bytes},
                VW_BASIS_RULE);
    }
    for (size_t i = 0; i < list->count; i++)
        add_known(given, finding, list->ids[i]);
}
