/* peak_portions.c - what was alive at the peak, or at the failure, and what it was for.
 *
 * Roles look at what became of a block. A program that failed in the middle of a forward pass gives
 * back everything on its way out, and one that ends with a forward pass at its end: activations of
 * that last pass seem to have been gone before it was over. Its blocks are therefore judged by what
 * earlier ones of the same stack became; where there are none, what a forward pass that failed held
 * is taken for activations. */
#include "doctor/peak_parts.h"

#include <string.h>

#include "analysis/what_if.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

/* The stack of a lifetime, or the count of stacks where none was captured. */
static size_t stack_of(const vw__model *model, uint32_t context)
{
    return context != VW__NO_CONTEXT ? model->contexts[context] : model->stack_count;
}

/* ---- roles of the last pass ------------------------------------------------------------------ */

/* What the blocks of one stack became, before the last pass. */
typedef struct precedent {
    bool has_activations, has_temporaries;
    uint32_t oldest_temporary; /* in events */
} precedent;

static void find_precedents(const vw__case *given, uint32_t last_pass, precedent *precedents)
{
    const vw__roles *roles = &given->roles;
    for (size_t i = 0; i < roles->lifetime_count; i++) {
        const vw__lifetime *lifetime = &given->timeline.lifetimes[i];
        precedent *own = &precedents[stack_of(given->model, lifetime->context)];
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

/* A line may make both. Then one that is older than any temporary became is none. */
static bool was_to_stay(const precedent *own, uint32_t age, bool has_broken_off)
{
    if (!own->has_activations)
        return has_broken_off && !own->has_temporaries;
    return !own->has_temporaries || age > own->oldest_temporary;
}

static vw_status correct_roles(const vw__case *given, vw__peak *peak)
{
    const vw__roles *roles = &given->roles;
    bool has_broken_off = peak->has_broken_off;
    uint32_t last_pass = has_broken_off ? vw__roles_pass_at(roles, given->failure.event)
                                        : (uint32_t)(roles->pass_count - 1);
    if (roles->passes[last_pass].kind != VW__PASS_FORWARD)
        return VW_OK;
    size_t count = given->model->stack_count + 1;
    precedent *precedents = vw__host_alloc_zeroed(count, sizeof *precedents);
    if (precedents == NULL)
        return vw__fail_host_memory(count * sizeof *precedents, "the roles of a forward pass");
    find_precedents(given, last_pass, precedents);
    for (size_t i = 0; i < roles->lifetime_count; i++) {
        const vw__lifetime *lifetime = &given->timeline.lifetimes[i];
        const precedent *own = &precedents[stack_of(given->model, lifetime->context)];
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

static void part(const vw__case *given, vw__peak *peak)
{
    const vw__roles *roles = &given->roles;
    for (size_t i = 0; i < roles->lifetime_count; i++)
        peak->portions[i] = (uint8_t)vw__portion_of_role((vw__role)peak->roles[i],
                                                         roles->passes[roles->pass_of[i]].kind);
}

static void add_up(const vw__case *given, vw__peak *peak)
{
    memset(peak->portion_bytes, 0, sizeof peak->portion_bytes);
    memset(peak->largest_bytes, 0, sizeof peak->largest_bytes);
    memset(peak->role_bytes, 0, sizeof peak->role_bytes);
    peak->live_bytes = 0;
    for (size_t i = 0; i < given->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &given->timeline.lifetimes[i];
        if (!vw__lifetime_is_live(lifetime, peak->instant))
            continue;
        uint64_t *largest = &peak->largest_bytes[peak->portions[i]];
        *largest = vw__max_u64(*largest, lifetime->size_bytes);
        peak->live_bytes += lifetime->size_bytes; /* the timeline keeps sums below 2^62 */
        peak->role_bytes[peak->roles[i]] += lifetime->size_bytes;
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

/* Of the failed request. */
static uint32_t request_context(const vw__case *given)
{
    uint32_t event = given->failure.event;
    return event < given->trace->event_count ? given->trace->events[event].context : VW__NO_CONTEXT;
}

/* A request that failed on another card only was served in the recording. Of others: what the same
 * stack asked for before, the last one, of the same size if there is one. */
static vw__portion portion_of_request(const vw__case *given, const vw__peak *peak)
{
    const vw__failure *failure = &given->failure;
    uint32_t context = request_context(given);
    size_t stack = stack_of(given->model, context);
    const vw__lifetime *best = NULL;
    vw__portion portion =
        portion_of_category(vw__attribution_category(&given->attribution, context));
    for (size_t i = 0; i < given->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &given->timeline.lifetimes[i];
        if (!peak->has_broken_off && lifetime->begin == failure->event + 1)
            return (vw__portion)peak->portions[i];
        if (stack == given->model->stack_count || lifetime->begin > peak->instant ||
            stack_of(given->model, lifetime->context) != stack)
            continue;
        bool is_alike = vw__is_about_size(lifetime->size_bytes, peak->request_bytes);
        bool is_best_alike =
            best != NULL && vw__is_about_size(best->size_bytes, peak->request_bytes);
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

static void look_at_the_request(const vw__case *given, vw__peak *peak)
{
    const vw_memory_numbers *numbers = &given->failure.numbers;
    peak->missing_bytes = VW_UNKNOWN;
    if (numbers->tried_bytes == VW_UNKNOWN)
        return;
    peak->request_bytes = numbers->tried_bytes;
    peak->request_portion = portion_of_request(given, peak);
    peak->missing_bytes = missing_bytes(numbers);
}

/* ---- together -------------------------------------------------------------------------------- */

static vw_status find_the_loss(const vw__case *given, vw__peak *peak)
{
    bool is_request_of_it;
    const vw__loss_question question = {
        .model = given->model,
        .timeline = &given->timeline,
        .roles = &given->roles,
        .instant = peak->instant,
        .live_bytes = peak->live_bytes,
        .request_bytes = peak->request_bytes,
        .request_event = given->failure.event,
        .request_context = peak->request_bytes != 0 ? request_context(given) : VW__NO_CONTEXT,
        .request_portion = peak->request_portion,
    };
    VW__TRY(vw__portions_part_loss(&question, peak->portions, &is_request_of_it));
    if (is_request_of_it)
        peak->request_portion = VW__PORTION_LOSS;
    return VW_OK;
}

static vw_status fill(const vw__case *given, vw__peak *peak)
{
    memcpy(peak->roles, given->roles.roles, given->roles.lifetime_count);
    VW__TRY(correct_roles(given, peak));
    part(given, peak);
    add_up(given, peak);
    if (given->failure.has_happened)
        look_at_the_request(given, peak);
    VW__TRY(find_the_loss(given, peak));
    add_up(given, peak);
    return VW_OK;
}

static bool has_broken_off(const vw__case *given)
{
    uint32_t event = given->failure.event;
    bool was_served =
        event < given->trace->event_count && given->trace->events[event].action == VW_ACTION_ALLOC;
    return given->failure.has_happened && !was_served;
}

vw_status vw__peak_find(const vw__case *given, vw__peak *out)
{
    size_t count = given->roles.lifetime_count;
    vw__peak peak = {
        .instant = given->failure.has_happened ? given->failure.instant : given->peak_instant,
        .has_broken_off = has_broken_off(given),
        .roles = vw__host_alloc(count),
        .portions = vw__host_alloc(count),
        .request_portion = VW__PORTION_REST,
    };
    vw_status status = VW_OK;
    if (peak.roles == NULL || peak.portions == NULL)
        status = vw__fail_host_memory(2 * count, "what the blocks of a peak were for");
    if (status == VW_OK)
        status = fill(given, &peak);
    if (status == VW_OK)
        *out = peak;
    else
        vw__peak_deinit(&peak);
    return status;
}

void vw__peak_deinit(vw__peak *peak)
{
    vw__host_free(peak->roles);
    vw__host_free(peak->portions);
    memset(peak, 0, sizeof *peak);
}
