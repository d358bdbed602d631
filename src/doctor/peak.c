/* peak.c - what was alive at the peak, or at the failure: by category, and by line.
 *
 * Every recording gets this finding. For a run that did well it is information. For one that needed
 * more than there was it is the answer: what the bytes were for, who asked for them, and what would
 * make them fewer. Categories are those of `stats` and the page, by the stack of the request, so
 * that one word has one number in every command; what lifetimes tell besides is a sentence of its
 * own. Remedies are in peak_remedies.c.
 *
 * Lines are the innermost of the program's own (attribution.h). Several stacks that pass one line
 * are one place: someone who calls a library's model sees the call, which is what can be changed.
 * What the backward pass asks for has no line, since autograd's threads have none.
 *
 * Roles look at what became of a block. A program that failed in the middle of a forward pass gives
 * back everything on its way out, and one that ends with a forward pass at its end: activations of
 * that last pass seem to have been gone before it was over. Its blocks are therefore judged by what
 * earlier ones of the same stack became; where there are none, what a forward pass that failed held
 * is taken for activations. */
#include "doctor/peak_parts.h"

#include <string.h>

#include "base/checked_math.h"
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

/* The stack of a lifetime, or the count of stacks where none was captured. */
static size_t stack_of(const vw__model *model, uint32_t context)
{
    return context != VW__MODEL_NO_CONTEXT ? model->contexts[context] : model->stack_count;
}

/* ---- roles of the last pass ------------------------------------------------------------------ */

/* What the blocks of one stack became, before the last pass. */
typedef struct precedent {
    bool has_activations, has_temporaries;
    uint32_t oldest_temporary; /* in events */
} precedent;

static void find_precedents(const vw__doctor_facts *facts, uint32_t last_pass,
                            precedent *precedents)
{
    const vw__roles *roles = &facts->roles;
    for (size_t i = 0; i < roles->lifetime_count; i++) {
        const vw__lifetime *lifetime = &facts->timeline.lifetimes[i];
        precedent *own = &precedents[stack_of(facts->model, lifetime->context)];
        if (roles->pass_of[i] >= last_pass)
            continue;
        own->has_activations = own->has_activations || roles->roles[i] == VW__ROLE_ACTIVATIONS;
        if (roles->roles[i] == VW__ROLE_TEMPORARIES) {
            uint32_t age = lifetime->end - lifetime->begin;
            own->has_temporaries = true;
            own->oldest_temporary = age > own->oldest_temporary ? age : own->oldest_temporary;
        }
    }
}

/* A line may make both. A block older than every temporary is an activation. */
static bool was_to_stay(const precedent *own, uint32_t age, bool has_broken_off)
{
    if (!own->has_activations)
        return has_broken_off && !own->has_temporaries;
    return !own->has_temporaries || age > own->oldest_temporary;
}

static vw_status correct_roles(const vw__doctor_facts *facts, vw__doctor_peak_facts *peak)
{
    const vw__roles *roles = &facts->roles;
    bool has_broken_off = peak->has_broken_off;
    uint32_t last_pass = has_broken_off ? vw__roles_pass_at(roles, facts->failure.event)
                                        : (uint32_t)(roles->pass_count - 1);
    if (roles->passes[last_pass].kind != VW__ROLES_PASS_FORWARD)
        return VW_OK;
    size_t count = facts->model->stack_count + 1;
    precedent *precedents = vw__host_alloc_zeroed(count, sizeof *precedents);
    if (precedents == NULL)
        return vw__fail_host_memory(count * sizeof *precedents, "the roles of a forward pass");
    find_precedents(facts, last_pass, precedents);
    for (size_t i = 0; i < roles->lifetime_count; i++) {
        const vw__lifetime *lifetime = &facts->timeline.lifetimes[i];
        const precedent *own = &precedents[stack_of(facts->model, lifetime->context)];
        uint32_t seen_until = has_broken_off ? peak->instant : lifetime->end;
        if (roles->pass_of[i] == last_pass && peak->roles[i] == VW__ROLE_TEMPORARIES &&
            (!has_broken_off || vw__lifetime_is_live(lifetime, peak->instant)) &&
            was_to_stay(own, seen_until - lifetime->begin, has_broken_off))
            peak->roles[i] = VW__ROLE_ACTIVATIONS;
    }
    vw__host_free(precedents);
    return VW_OK;
}

/* ---- portions -------------------------------------------------------------------------------- */

static void part(const vw__doctor_facts *facts, vw__doctor_peak_facts *peak)
{
    const vw__roles *roles = &facts->roles;
    for (size_t i = 0; i < roles->lifetime_count; i++)
        peak->portions[i] = (uint8_t)vw__portion_of_role((vw__role)peak->roles[i],
                                                         roles->passes[roles->pass_of[i]].kind);
}

static void add_up(const vw__doctor_facts *facts, vw__doctor_peak_facts *peak)
{
    memset(peak->portion_bytes, 0, sizeof peak->portion_bytes);
    memset(peak->largest_bytes, 0, sizeof peak->largest_bytes);
    memset(peak->category_bytes, 0, sizeof peak->category_bytes);
    memset(peak->role_bytes, 0, sizeof peak->role_bytes);
    peak->live_bytes = 0;
    for (size_t i = 0; i < facts->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &facts->timeline.lifetimes[i];
        if (!vw__lifetime_is_live(lifetime, peak->instant))
            continue;
        uint64_t *largest = &peak->largest_bytes[peak->portions[i]];
        *largest = vw__max_u64(*largest, lifetime->size_bytes);
        peak->live_bytes += lifetime->size_bytes; /* the timeline keeps sums below 2^62 */
        vw__category category = vw__attribution_category(&facts->attribution, lifetime->context);
        peak->category_bytes[category] += lifetime->size_bytes;
        peak->role_bytes[category][peak->roles[i]] += lifetime->size_bytes;
        peak->portion_bytes[peak->portions[i]] += lifetime->size_bytes;
    }
}

/* ---- the request that failed ----------------------------------------------------------------- */

static vw__portion portion_of_category(vw__category category)
{
    switch (category) {
    case VW__CATEGORY_WEIGHTS:
    case VW__CATEGORY_LOADED:
        return VW__PORTION_WEIGHTS;
    case VW__CATEGORY_OPTIMIZER:
        return VW__PORTION_OPTIMIZER;
    case VW__CATEGORY_GRADIENTS:
        return VW__PORTION_GRADIENTS;
    case VW__CATEGORY_FORWARD:
        return VW__PORTION_ACTIVATIONS;
    case VW__CATEGORY_BACKWARD:
        return VW__PORTION_PASS_WORK;
    case VW__CATEGORY_KV_CACHE:
        return VW__PORTION_KV_CACHE;
    case VW__CATEGORY_DATA:
        return VW__PORTION_DATA;
    case VW__CATEGORY_WORKSPACE:
    case VW__CATEGORY_OTHER:
    case VW__CATEGORY_UNKNOWN:
    default:
        return VW__PORTION_REST;
    }
}

/* The stack of the failed request. */
static uint32_t request_context(const vw__doctor_facts *facts)
{
    uint32_t event = facts->failure.event;
    return event < facts->trace->event_count ? facts->trace->events[event].context
                                             : VW__MODEL_NO_CONTEXT;
}

/* A request that only failed on another card was served in the recording. For others this is what
 * the same stack asked for last, preferably of the same size. */
static vw__portion portion_of_request(const vw__doctor_facts *facts,
                                      const vw__doctor_peak_facts *peak)
{
    const vw__doctor_failure *failure = &facts->failure;
    uint32_t context = request_context(facts);
    size_t stack = stack_of(facts->model, context);
    const vw__lifetime *best = NULL;
    vw__portion portion =
        portion_of_category(vw__attribution_category(&facts->attribution, context));
    for (size_t i = 0; i < facts->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &facts->timeline.lifetimes[i];
        if (!peak->has_broken_off && lifetime->begin == failure->event + 1)
            return (vw__portion)peak->portions[i];
        if (stack == facts->model->stack_count || lifetime->begin > peak->instant ||
            stack_of(facts->model, lifetime->context) != stack)
            continue;
        bool is_alike = vw__portion_is_about_size(lifetime->size_bytes, peak->request_bytes);
        bool is_best_alike =
            best != NULL && vw__portion_is_about_size(best->size_bytes, peak->request_bytes);
        if (best == NULL || (is_alike && !is_best_alike) ||
            (is_alike == is_best_alike && lifetime->begin > best->begin)) {
            best = lifetime;
            portion = (vw__portion)peak->portions[i];
        }
    }
    return portion;
}

/* Idle bytes were enough, and many: the rule of numbers.c for fragmentation. */
static bool was_room_in_pieces(const vw_memory_numbers *numbers)
{
    uint64_t idle_bytes;
    return numbers->reserved_bytes != VW_UNKNOWN && numbers->allocated_bytes != VW_UNKNOWN &&
           vw__sub_u64(numbers->reserved_bytes, numbers->allocated_bytes, &idle_bytes) &&
           idle_bytes >= numbers->tried_bytes && idle_bytes >= numbers->reserved_bytes / 10;
}

/* What would have had to be given back. Never more than was asked for; less where the device had
 * some of it free. Where a limit was in force it is all of it: recordings do not say limits, and
 * one that was concluded from the refusal itself may be above the true one. */
static uint64_t missing_bytes(const vw_memory_numbers *numbers)
{
    uint64_t missing;
    if (was_room_in_pieces(numbers))
        return 0;
    if (numbers->allowed_bytes == VW_UNKNOWN &&
        vw__sub_u64(numbers->tried_bytes, numbers->free_bytes, &missing) && missing != 0)
        return missing;
    return numbers->tried_bytes;
}

static void look_at_the_request(const vw__doctor_facts *facts, vw__doctor_peak_facts *peak)
{
    const vw_memory_numbers *numbers = &facts->failure.numbers;
    peak->missing_bytes = VW_UNKNOWN;
    if (numbers->tried_bytes == VW_UNKNOWN)
        return;
    peak->request_bytes = numbers->tried_bytes;
    peak->request_portion = portion_of_request(facts, peak);
    peak->missing_bytes = missing_bytes(numbers);
}

/* ---- the portions, together
 * -------------------------------------------------------------------------------- */

static vw_status find_the_loss(const vw__doctor_facts *facts, vw__doctor_peak_facts *peak)
{
    bool is_request_of_it;
    const vw__portion_loss_question question = {
        .model = facts->model,
        .timeline = &facts->timeline,
        .roles = &facts->roles,
        .instant = peak->instant,
        .live_bytes = peak->live_bytes,
        .request_bytes = peak->request_bytes,
        .request_event = facts->failure.event,
        .request_context = peak->request_bytes != 0 ? request_context(facts) : VW__MODEL_NO_CONTEXT,
        .request_portion = peak->request_portion,
    };
    VW__TRY(vw__portion_part_loss(&question, peak->portions, &is_request_of_it));
    if (is_request_of_it)
        peak->request_portion = VW__PORTION_LOSS;
    return VW_OK;
}

static vw_status fill(const vw__doctor_facts *facts, vw__doctor_peak_facts *peak)
{
    memcpy(peak->roles, facts->roles.roles, facts->roles.lifetime_count);
    VW__TRY(correct_roles(facts, peak));
    part(facts, peak);
    add_up(facts, peak);
    if (facts->failure.has_happened)
        look_at_the_request(facts, peak);
    VW__TRY(find_the_loss(facts, peak));
    add_up(facts, peak);
    return VW_OK;
}

static bool has_broken_off(const vw__doctor_facts *facts)
{
    uint32_t event = facts->failure.event;
    bool was_served =
        event < facts->trace->event_count && facts->trace->events[event].action == VW_ACTION_ALLOC;
    return facts->failure.has_happened && !was_served;
}

static void deinit_peak(vw__doctor_peak_facts *peak)
{
    vw__host_free(peak->roles);
    vw__host_free(peak->portions);
    memset(peak, 0, sizeof *peak);
}

static vw_status find_peak(const vw__doctor_facts *facts, vw__doctor_peak_facts *out)
{
    size_t count = facts->roles.lifetime_count;
    vw__doctor_peak_facts peak = {
        .instant = facts->failure.has_happened ? facts->failure.instant : facts->peak_instant,
        .has_broken_off = has_broken_off(facts),
        .roles = vw__host_alloc(count),
        .portions = vw__host_alloc(count),
        .request_portion = VW__PORTION_REST,
    };
    vw_status status = VW_OK;
    if (peak.roles == NULL || peak.portions == NULL)
        status = vw__fail_host_memory(2 * count, "what the blocks of a peak were for");
    if (status == VW_OK)
        status = fill(facts, &peak);
    if (status == VW_OK)
        *out = peak;
    else
        deinit_peak(&peak);
    return status;
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
static const char *shares(vw__diagnosis_draft *draft, const vw__doctor_peak_facts *peak,
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
static const char *by_category(const vw__doctor_peak_facts *peak, vw__role role,
                               vw__diagnosis_draft *draft)
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
static void tell_lifetimes(const vw__doctor_peak_facts *peak, vw__diagnosis_finding *finding)
{
    const uint64_t *other = peak->role_bytes[VW__CATEGORY_OTHER];
    const char *short_lived = by_category(peak, VW__ROLE_TEMPORARIES, finding->draft);
    if (short_lived[0] != '\0')
        vw__diagnosis_evidence(finding, "Short-lived, freed before their own pass ends: %s.",
                               short_lived);
    if (peak->role_bytes[VW__CATEGORY_BACKWARD][VW__ROLE_GRADIENTS] != 0)
        vw__diagnosis_evidence(
            finding, "Of backward, %s outlive the pass: gradients for the optimizer.",
            VW__DOCTOR_SIZE(peak->role_bytes[VW__CATEGORY_BACKWARD][VW__ROLE_GRADIENTS]));
    if (other[VW__ROLE_WEIGHTS] != 0)
        vw__diagnosis_evidence(
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
    return where != VW__ATTRIBUTION_NO_FRAME ? facts->model->frame_ids[stack.first + where]
                                             : facts->model->frame_count;
}

/* By frame, and one more for blocks without a line. */
static void add_up_lines(const vw__doctor_facts *facts, const vw__doctor_peak_facts *peak,
                         line_sum *lines)
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

static void tell_line(vw__diagnosis_finding *finding, const line_sum *line, const char *place)
{
    category_order order = order_categories(line->category_bytes);
    const char *mostly = order.count == 1 ? "" : "mostly ";
    if (line->block_count == 1)
        vw__diagnosis_evidence(finding, "%s: %s in one block (%s).", place,
                               VW__DOCTOR_SIZE(line->bytes),
                               vw__category_name(order.categories[0]));
    else
        vw__diagnosis_evidence(finding, "%s: %s in %llu blocks, the largest %s (%s%s).", place,
                               VW__DOCTOR_SIZE(line->bytes), (unsigned long long)line->block_count,
                               VW__DOCTOR_SIZE(line->largest_bytes), mostly,
                               vw__category_name(order.categories[0]));
}

static vw_status tell_lines(const vw__doctor_facts *facts, vw__doctor_result *result,
                            const vw__doctor_peak_facts *peak, vw__diagnosis_finding *finding)
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
        vw__diagnosis_where(finding, "%s", place);
        if (i < MOST_LINES_TOLD)
            tell_line(finding, line, place);
        line->bytes = 0; /* taken */
    }
    const line_sum *rest = &lines[frame_count];
    if (percent_of(rest->bytes, peak->live_bytes) >= 5)
        vw__diagnosis_evidence(finding,
                               "%s have no line of the program: autograd's threads, or no stack.",
                               VW__DOCTOR_SIZE(rest->bytes));
    vw__host_free(lines);
    return VW_OK;
}

/* ---- when it was ----------------------------------------------------------------------------- */

enum { PASS_NOT_KNOWN = VW__ROLES_PASS_OPTIMIZER + 1 };

/* What ran at the event: by its own stack, or by the pass that it lies in. A history may have
 * stacks in some steps and none in others: they cost time. */
static uint8_t kind_at(const vw__doctor_facts *facts, uint32_t event)
{
    uint8_t kind = facts->roles.passes[vw__roles_pass_at(&facts->roles, event)].kind;
    if (event < facts->trace->event_count) {
        uint32_t context = facts->trace->events[event].context;
        if (context == VW__MODEL_NO_CONTEXT && kind == VW__ROLES_PASS_OTHER)
            return PASS_NOT_KNOWN;
        if (vw__attribution_is_in_optimizer(&facts->attribution, context))
            return VW__ROLES_PASS_OPTIMIZER;
        switch (vw__attribution_category(&facts->attribution, context)) {
        case VW__CATEGORY_FORWARD:
            return VW__ROLES_PASS_FORWARD;
        case VW__CATEGORY_BACKWARD:
            return VW__ROLES_PASS_BACKWARD;
        default:
            break;
        }
    }
    return kind;
}

static void tell_when(const vw__doctor_facts *facts, const vw__doctor_peak_facts *peak,
                      vw__diagnosis_finding *finding)
{
    static const char *const passes[] = {
        [VW__ROLES_PASS_OTHER] = "outside of forward, backward and optimizer",
        [VW__ROLES_PASS_FORWARD] = "in a forward pass",
        [VW__ROLES_PASS_BACKWARD] = "in a backward pass",
        [VW__ROLES_PASS_OPTIMIZER] = "in the optimizer's step",
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
        vw__diagnosis_evidence(finding, "%s %s, in step %u (event %u).", what, pass,
                               vw__steps_of_instant(&facts->steps, event) + 1, event);
    else
        vw__diagnosis_evidence(finding, "%s %s (event %u).", what, pass, event);
}

/* Only where less was missing than all of it is that more than the failure itself says. */
static void tell_missing(const vw__doctor_peak_facts *peak, vw__diagnosis_finding *finding)
{
    if (peak->missing_bytes != 0 && peak->missing_bytes < peak->request_bytes)
        vw__diagnosis_evidence(finding, "Of the %s asked for, %s were missing.",
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
                      vw__doctor_result *result, const vw__doctor_peak_facts *peak)
{
    category_order order = order_categories(peak->category_bytes);
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        result->draft, "peak", peak->live_bytes, "%s %s were alive%s.", heading(facts),
        VW__DOCTOR_SIZE(peak->live_bytes), shares(result->draft, peak, &order));
    for (size_t i = 0; i < order.count; i++)
        vw__diagnosis_part(finding, vw__category_name(order.categories[i]),
                           peak->category_bytes[order.categories[i]]);
    tell_when(facts, peak, finding);
    tell_missing(peak, finding);
    tell_lifetimes(peak, finding);
    VW__TRY(tell_lines(facts, result, peak, finding));
    if (!facts->model->features.has_contexts)
        vw__diagnosis_evidence(finding, "What it was for is not known: no stacks were recorded "
                                        "(torch.cuda.memory._record_memory_history() does).");
    return vw__doctor_peak_remedies(input, facts, result, peak, finding);
}

vw_status vw__doctor_peak(const vw__doctor_input *input, vw__doctor_facts *facts,
                          vw__doctor_result *result)
{
    vw__doctor_peak_facts peak;
    VW__TRY(find_peak(facts, &peak));
    vw_status status = peak.live_bytes != 0 ? tell(input, facts, result, &peak) : VW_OK;
    deinit_peak(&peak);
    return status;
}
