/* peak.c - what was alive at the peak, or at the failure: by category, and by line.
 *
 * Every recording gets this finding. For a run that did well it is information. For one that needed
 * more than there was it is the answer: what the bytes were for, who asked for them, and what would
 * make them fewer. Categories are those of `stats` and the page, by the stack of the request, so
 * that one word has one number in every command; what lifetimes tell besides is a sentence of its
 * own. Portions are found in peak_portions.c, remedies in peak_remedies.c.
 *
 * Lines are the innermost of the program's own (attribution.h). Several stacks that pass one line
 * are one place: someone who calls a library's model sees the call, which is what can be changed.
 * What the backward pass asks for has no line, since autograd's threads have none. */
#include "doctor/peak_parts.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

enum {
    MOST_LINES = 5,      /* as where */
    MOST_LINES_TOLD = 3, /* as sentences */
    MOST_IN_TITLE = 4    /* of those that are a hundredth or more */
};

static unsigned percent_of(uint64_t bytes, uint64_t all_bytes)
{
    return all_bytes != 0 ? (unsigned)(100.0 * (double)bytes / (double)all_bytes + 0.5) : 0;
}

/* ---- by category ----------------------------------------------------------------------------- */

typedef struct category_order {
    vw__category categories[VW__CATEGORY_COUNT]; /* most bytes first */
    size_t count;                                /* that have any */
} category_order;

static category_order order_categories(const uint64_t bytes[VW__CATEGORY_COUNT])
{
    category_order order = {.count = 0};
    for (int category = 0; category < VW__CATEGORY_COUNT; category++) {
        if (bytes[category] == 0)
            continue;
        size_t place = order.count++;
        for (; place > 0 && bytes[order.categories[place - 1]] < bytes[category]; place--)
            order.categories[place] = order.categories[place - 1];
        order.categories[place] = (vw__category)category;
    }
    return order;
}

/* ": activations 62 %, weights 12 %", or nothing. */
static const char *shares(vw__diagnosis_draft *draft, const vw__peak *peak,
                          const category_order *order)
{
    const char *text = "";
    for (size_t i = 0; i < order->count && i < MOST_IN_TITLE; i++) {
        vw__category category = order->categories[i];
        const double share = (double)peak->category_bytes[category] / (double)peak->live_bytes;
        if (share >= 0.01)
            text =
                vw__diagnosis_text(draft, "%s%s %s %s", text, i == 0 ? ":" : ",",
                                   vw__category_name(category), vw__diagnosis_share(draft, share));
    }
    return text;
}

/* "1.00 GiB of backward, 27.7 MiB of activations": a role, by the categories that have any. */
static const char *by_category(const vw__peak *peak, vw__role role, vw__diagnosis_draft *draft)
{
    const char *text = "";
    for (int i = 0; i < VW__CATEGORY_COUNT; i++)
        if (peak->role_bytes[i][role] != 0)
            text = vw__diagnosis_text(draft, "%s%s%s of %s", text, text[0] == '\0' ? "" : ", ",
                                      VW__DOCTOR_SIZE(peak->role_bytes[i][role]),
                                      vw__category_name((vw__category)i));
    return text;
}

/* What lifetimes tell, and a stack alone cannot. */
static void tell_lifetimes(const vw__peak *peak, vw__finding_draft *finding)
{
    const uint64_t *other = peak->role_bytes[VW__CATEGORY_OTHER];
    const char *short_lived = by_category(peak, VW__ROLE_TEMPORARIES, finding->draft);
    if (short_lived[0] != '\0')
        vw__finding_evidence(finding, "Short-lived, freed before their own pass ends: %s.",
                             short_lived);
    if (peak->role_bytes[VW__CATEGORY_BACKWARD][VW__ROLE_GRADIENTS] != 0)
        vw__finding_evidence(
            finding, "Of backward, %s outlive the pass: gradients for the optimizer.",
            VW__DOCTOR_SIZE(peak->role_bytes[VW__CATEGORY_BACKWARD][VW__ROLE_GRADIENTS]));
    if (other[VW__ROLE_WEIGHTS] != 0)
        vw__finding_evidence(
            finding,
            "Of other, %s were there before the first forward pass and stay: probably the model's.",
            VW__DOCTOR_SIZE(other[VW__ROLE_WEIGHTS]));
}

/* ---- by line --------------------------------------------------------------------------------- */

/* The live blocks of one line. */
typedef struct line_sum {
    uint64_t bytes, block_count, largest_bytes;
    uint64_t category_bytes[VW__CATEGORY_COUNT];
    uint32_t context; /* one of those that pass it */
} line_sum;

/* The innermost frame of the user's program in a stack; without one, the count of frames. */
static size_t frame_of(const vw__doctor_facts *facts, uint32_t context)
{
    vw__model_stack stack = vw__model_stack_of(facts->model, context);
    size_t where = vw__attribution_where(&facts->attribution, stack);
    return where != VW__NO_FRAME ? facts->model->frame_ids[stack.first + where]
                                 : facts->model->frame_count;
}

/* By frame, and one more for blocks without a line. */
static void add_up_lines(const vw__doctor_facts *facts, const vw__peak *peak, line_sum *lines)
{
    for (size_t i = 0; i < facts->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &facts->timeline.lifetimes[i];
        if (!vw__lifetime_is_live(lifetime, peak->instant))
            continue;
        line_sum *line = &lines[frame_of(facts, lifetime->context)];
        line->bytes += lifetime->size_bytes;
        line->category_bytes[vw__attribution_category(&facts->attribution, lifetime->context)] +=
            lifetime->size_bytes;
        line->block_count++;
        line->context = lifetime->context;
        if (lifetime->size_bytes > line->largest_bytes)
            line->largest_bytes = lifetime->size_bytes;
    }
}

/* The line with most bytes of those that were not taken yet; NULL where none has any. */
static line_sum *take_largest(line_sum *lines, size_t count)
{
    line_sum *largest = NULL;
    for (size_t i = 0; i < count; i++)
        if (lines[i].bytes != 0 && (largest == NULL || lines[i].bytes > largest->bytes))
            largest = &lines[i];
    return largest;
}

static void tell_line(vw__finding_draft *finding, const line_sum *line, const char *place)
{
    category_order order = order_categories(line->category_bytes);
    const char *mostly = order.count == 1 ? "" : "mostly ";
    if (line->block_count == 1)
        vw__finding_evidence(finding, "%s: %s in one block (%s).", place,
                             VW__DOCTOR_SIZE(line->bytes), vw__category_name(order.categories[0]));
    else
        vw__finding_evidence(finding, "%s: %s in %llu blocks, the largest %s (%s%s).", place,
                             VW__DOCTOR_SIZE(line->bytes), (unsigned long long)line->block_count,
                             VW__DOCTOR_SIZE(line->largest_bytes), mostly,
                             vw__category_name(order.categories[0]));
}

static vw_status tell_lines(const vw__doctor_facts *facts, vw__doctor_result *result,
                            const vw__peak *peak, vw__finding_draft *finding)
{
    size_t frame_count = facts->model->frame_count;
    line_sum *lines = vw__host_alloc_zeroed(frame_count + 1, sizeof *lines);
    if (lines == NULL)
        return vw__fail_host_memory((frame_count + 1) * sizeof *lines, "live bytes by line");
    add_up_lines(facts, peak, lines);
    for (size_t i = 0; i < MOST_LINES; i++) {
        line_sum *line = take_largest(lines, frame_count);
        if (line == NULL)
            break;
        const char *place = vw__doctor_place(facts, result->draft, line->context);
        vw__finding_where(finding, "%s", place);
        if (i < MOST_LINES_TOLD)
            tell_line(finding, line, place);
        line->bytes = 0; /* taken */
    }
    const line_sum *rest = &lines[frame_count];
    if (percent_of(rest->bytes, peak->live_bytes) >= 5)
        vw__finding_evidence(finding,
                             "%s have no line of the program: autograd's threads, or no stack.",
                             VW__DOCTOR_SIZE(rest->bytes));
    vw__host_free(lines);
    return VW_OK;
}

/* ---- when it was ----------------------------------------------------------------------------- */

enum { PASS_NOT_KNOWN = VW__PASS_OPTIMIZER + 1 };

/* What ran at the event: by its own stack, or by the pass that it lies in. A history may have
 * stacks in some steps and none in others: they cost time. */
static uint8_t kind_at(const vw__doctor_facts *facts, uint32_t event)
{
    uint8_t kind = facts->roles.passes[vw__roles_pass_at(&facts->roles, event)].kind;
    if (event < facts->trace->event_count) {
        uint32_t context = facts->trace->events[event].context;
        if (context == VW__NO_CONTEXT && kind == VW__PASS_OTHER)
            return PASS_NOT_KNOWN;
        if (vw__attribution_is_in_optimizer(&facts->attribution, context))
            return VW__PASS_OPTIMIZER;
        switch (vw__attribution_category(&facts->attribution, context)) {
        case VW__CATEGORY_FORWARD:
            return VW__PASS_FORWARD;
        case VW__CATEGORY_BACKWARD:
            return VW__PASS_BACKWARD;
        default:
            break;
        }
    }
    return kind;
}

static void tell_when(const vw__doctor_facts *facts, const vw__peak *peak,
                      vw__finding_draft *finding)
{
    static const char *const passes[] = {
        [VW__PASS_OTHER] = "outside of forward, backward and optimizer",
        [VW__PASS_FORWARD] = "in a forward pass",
        [VW__PASS_BACKWARD] = "in a backward pass",
        [VW__PASS_OPTIMIZER] = "in the optimizer's step",
        [PASS_NOT_KNOWN] = "in a pass that no stack identifies",
    };
    bool has_failed = facts->failure.has_happened;
    uint32_t event =
        has_failed ? facts->failure.event : (peak->instant != 0 ? peak->instant - 1 : 0);
    const char *pass = passes[kind_at(facts, event)];
    const char *what = !has_failed                  ? "The peak was"
                       : facts->failure.is_replayed ? "It would have failed"
                                                    : "It failed";
    if (facts->steps.end_count != 0)
        vw__finding_evidence(finding, "%s %s, in step %u (event %u).", what, pass,
                             vw__step_of_instant(&facts->steps, event) + 1, event);
    else
        vw__finding_evidence(finding, "%s %s (event %u).", what, pass, event);
}

/* Only where less was missing than all of it is that more than the failure itself says. */
static void tell_missing(const vw__peak *peak, vw__finding_draft *finding)
{
    if (peak->missing_bytes != 0 && peak->missing_bytes < peak->request_bytes)
        vw__finding_evidence(finding, "Of the %s asked for, %s were missing.",
                             VW__DOCTOR_SIZE(peak->request_bytes),
                             VW__DOCTOR_SIZE(peak->missing_bytes));
}

/* ---- together -------------------------------------------------------------------------------- */

static const char *heading(const vw__doctor_facts *facts)
{
    if (!facts->failure.has_happened)
        return "At its peak";
    return facts->failure.is_replayed ? "When it would have failed" : "When it failed";
}

static vw_status tell(const vw__doctor_input *input, vw__doctor_facts *facts,
                      vw__doctor_result *result, const vw__peak *peak)
{
    category_order order = order_categories(peak->category_bytes);
    vw__finding_draft *finding = vw__diagnosis_add(
        result->draft, "peak", peak->live_bytes, "%s %s were alive%s.", heading(facts),
        VW__DOCTOR_SIZE(peak->live_bytes), shares(result->draft, peak, &order));
    for (size_t i = 0; i < order.count; i++)
        vw__finding_part(finding, vw__category_name(order.categories[i]),
                         peak->category_bytes[order.categories[i]]);
    tell_when(facts, peak, finding);
    tell_missing(peak, finding);
    tell_lifetimes(peak, finding);
    VW__TRY(tell_lines(facts, result, peak, finding));
    if (!facts->model->features.has_contexts)
        vw__finding_evidence(finding, "What it was for is not known: no stacks were recorded "
                                      "(torch.cuda.memory._record_memory_history() does).");
    return vw__peak_remedies(input, facts, result, peak, finding);
}

vw_status vw__doctor_peak(const vw__doctor_input *input, vw__doctor_facts *facts,
                          vw__doctor_result *result)
{
    vw__peak peak;
    VW__TRY(vw__peak_find(facts, &peak));
    vw_status status = peak.live_bytes != 0 ? tell(input, facts, result, &peak) : VW_OK;
    vw__peak_deinit(&peak);
    return status;
}
