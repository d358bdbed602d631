/* peak_portions.c - what was alive at the peak, or at the failure, and what it was for.
 *
 * Roles look at what became of a block. A program that failed in the middle of a forward pass gives
 * back everything on its way out, and one that ends with a forward pass at its end: activations of
 * that last pass seem to have been gone before it was over. Its blocks are therefore judged by what
 * earlier ones of the same stack became; where there are none, what a forward pass that failed held
 * is taken for activations.
 *
 * The loss. A language model's logits, and the three or four copies that the loss and its gradient
 * make of them, are often the largest blocks of a run, and what shrinks other activations
 * (checkpointing, autocast) leaves them as they are. Some of them have a loss function in their
 * stack; the others (the logits themselves, gradients of the backward pass) are known by their
 * size: the same, or, in another precision, half or twice of it. A shifted copy is a token shorter,
 * hence the tolerance. Sizes are compared within a forward pass and the backward pass after it,
 * since the next batch may be longer. They are a portion of their own only where they stand out:
 * the largest of the activations by a factor of two, and an eighth of the peak. Elsewhere equal
 * sizes mean nothing. */
#include "doctor/peak_parts.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum {
    LOSS_TOLERANCE = 16,  /* sizes may differ by that part */
    LOSS_LEAST_PART = 8,  /* of the live bytes: less is not worth telling apart */
    LOSS_LEAST_FACTOR = 2 /* larger than any other activation */
};

/* The stack of a lifetime, or the count of stacks where none was captured. */
static size_t stack_of(const hr__model *model, uint32_t context)
{
    return context != HR__NO_CONTEXT ? model->contexts[context] : model->stack_count;
}

/* ---- roles of the last pass ------------------------------------------------------------------ */

/* What the blocks of one stack became, before the last pass. */
typedef struct precedent {
    bool has_activations, has_temporaries;
    uint32_t oldest_temporary; /* in events */
} precedent;

static void find_precedents(const hr__case *given, uint32_t last_pass, precedent *precedents)
{
    const hr__roles *roles = &given->roles;
    for (size_t i = 0; i < roles->lifetime_count; i++) {
        const hr__lifetime *lifetime = &given->timeline.lifetimes[i];
        precedent *own = &precedents[stack_of(given->model, lifetime->context)];
        if (roles->pass_of[i] >= last_pass)
            continue;
        own->has_activations = own->has_activations || roles->roles[i] == HR__ROLE_ACTIVATIONS;
        if (roles->roles[i] == HR__ROLE_TEMPORARIES) {
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

static hr_status correct_roles(const hr__case *given, hr__peak *peak)
{
    const hr__roles *roles = &given->roles;
    bool has_broken_off = peak->has_broken_off;
    uint32_t last_pass = has_broken_off ? hr__roles_pass_at(roles, given->failure.event)
                                        : (uint32_t)(roles->pass_count - 1);
    if (roles->passes[last_pass].kind != HR__PASS_FORWARD)
        return HR_OK;
    size_t count = given->model->stack_count + 1;
    precedent *precedents = hr__host_alloc_zeroed(count, sizeof *precedents);
    if (precedents == NULL)
        return hr__fail_host_memory(count * sizeof *precedents, "the roles of a forward pass");
    find_precedents(given, last_pass, precedents);
    for (size_t i = 0; i < roles->lifetime_count; i++) {
        const hr__lifetime *lifetime = &given->timeline.lifetimes[i];
        const precedent *own = &precedents[stack_of(given->model, lifetime->context)];
        uint32_t seen_until = has_broken_off ? peak->instant : lifetime->end;
        if (roles->pass_of[i] == last_pass && peak->roles[i] == HR__ROLE_TEMPORARIES &&
            (!has_broken_off || hr__lifetime_is_live(lifetime, peak->instant)) &&
            was_to_stay(own, seen_until - lifetime->begin, has_broken_off))
            peak->roles[i] = HR__ROLE_ACTIVATIONS;
    }
    hr__host_free(precedents);
    return HR_OK;
}

/* ---- the loss -------------------------------------------------------------------------------- */

/* Functions and files that are a loss over classes. NULL = any function. */
static const struct {
    const char *file, *function;
} loss_frames[] = {
    {"torch/nn/functional.py", "cross_entropy"}, {"torch/nn/functional.py", "nll_loss"},
    {"torch/nn/functional.py", "log_softmax"},   {"torch/nn/modules/loss.py", NULL},
    {"transformers/loss/loss_utils.py", NULL},
};

static bool is_loss_frame(const hr__model *model, const hr__model_frame *frame)
{
    for (size_t i = 0; i < COUNT_OF(loss_frames); i++) {
        const char *function = loss_frames[i].function;
        if ((function == NULL || strcmp(function, hr__model_string(model, frame->name)) == 0) &&
            hr__path_has(hr__model_string(model, frame->filename), loss_frames[i].file))
            return true;
    }
    return false;
}

/* What is known of losses. */
typedef struct loss_search {
    const hr__case *given;
    const hr__peak *peak;
    bool *is_loss_stack;     /* owned; by stack, and false for none */
    uint64_t *largest_bytes; /* owned; by pass: the largest block that its loss, or else that of the
                                pass before it, asked for; 0 = none */
} loss_search;

static hr_status begin_search(loss_search *search)
{
    const hr__model *model = search->given->model;
    size_t stack_count = model->stack_count + 1, pass_count = search->given->roles.pass_count;
    bool *is_loss_frame_of = hr__host_alloc_zeroed(model->frame_count, sizeof(bool));
    search->is_loss_stack = hr__host_alloc_zeroed(stack_count, sizeof(bool));
    search->largest_bytes = hr__host_alloc_zeroed(pass_count, sizeof(uint64_t));
    bool has_memory =
        is_loss_frame_of != NULL && search->is_loss_stack != NULL && search->largest_bytes != NULL;
    for (size_t i = 0; has_memory && i < model->frame_count; i++)
        is_loss_frame_of[i] = is_loss_frame(model, &model->frames[i]);
    for (size_t i = 0; has_memory && i < model->stack_count; i++)
        for (uint32_t k = 0; k < model->stacks[i].count; k++)
            if (is_loss_frame_of[model->frame_ids[model->stacks[i].first + k]])
                search->is_loss_stack[i] = true;
    hr__host_free(is_loss_frame_of);
    return has_memory ? HR_OK
                      : hr__fail_host_memory(stack_count + pass_count * sizeof(uint64_t),
                                             "the blocks of a loss");
}

static void end_search(loss_search *search)
{
    hr__host_free(search->is_loss_stack);
    hr__host_free(search->largest_bytes);
}

static bool is_portion_of_a_pass(unsigned portion)
{
    return portion == HR__PORTION_ACTIVATIONS || portion == HR__PORTION_PASS_WORK;
}

static bool is_of_a_pass(const hr__peak *peak, size_t lifetime)
{
    return is_portion_of_a_pass(peak->portions[lifetime]);
}

/* Of the failed request. */
static uint32_t request_context(const hr__case *given)
{
    uint32_t event = given->failure.event;
    return event < given->trace->event_count ? given->trace->events[event].context : HR__NO_CONTEXT;
}

/* The pass that the failed request belongs to. */
static uint32_t pass_of_request(const hr__case *given)
{
    return hr__roles_pass_at(&given->roles, given->failure.event);
}

static void find_largest(loss_search *search)
{
    const hr__case *given = search->given;
    const hr__peak *peak = search->peak;
    for (size_t i = 0; i < given->timeline.lifetime_count; i++) {
        const hr__lifetime *lifetime = &given->timeline.lifetimes[i];
        uint64_t *largest = &search->largest_bytes[given->roles.pass_of[i]];
        if (is_of_a_pass(peak, i) &&
            search->is_loss_stack[stack_of(given->model, lifetime->context)])
            *largest = hr__max_u64(*largest, lifetime->size_bytes);
    }
    if (peak->request_bytes != 0 && is_portion_of_a_pass(peak->request_portion)) {
        uint32_t context = request_context(given);
        uint64_t *largest = &search->largest_bytes[pass_of_request(given)];
        if (search->is_loss_stack[stack_of(given->model, context)])
            *largest = hr__max_u64(*largest, peak->request_bytes);
    }
}

/* A pass without a loss goes by that of the pass before it: so does the backward pass. What comes
 * before the first loss of a step, a model whose loss is a pass of its own, goes by that. */
static void spread_largest(loss_search *search)
{
    const hr__roles *roles = &search->given->roles;
    uint64_t *largest = search->largest_bytes;
    for (size_t i = 1; i < roles->pass_count; i++)
        if (largest[i] == 0 && roles->passes[i].step == roles->passes[i - 1].step)
            largest[i] = largest[i - 1];
    for (size_t i = roles->pass_count; i-- > 1;)
        if (largest[i - 1] == 0 && roles->passes[i].step == roles->passes[i - 1].step)
            largest[i - 1] = largest[i];
}

static bool is_about(uint64_t size_bytes, uint64_t other_bytes)
{
    uint64_t difference =
        hr__max_u64(size_bytes, other_bytes) - hr__min_u64(size_bytes, other_bytes);
    return difference <= other_bytes / LOSS_TOLERANCE;
}

/* Is a block of that size, asked for in that pass, like logits? */
static bool is_like_logits(const loss_search *search, uint32_t pass, uint64_t size_bytes)
{
    uint64_t largest = search->largest_bytes[pass];
    return largest != 0 && (is_about(size_bytes, largest) || is_about(size_bytes, largest / 2) ||
                            is_about(size_bytes / 2, largest));
}

static bool is_request_like_logits(const loss_search *search)
{
    const hr__peak *peak = search->peak;
    return peak->request_bytes != 0 && is_portion_of_a_pass(peak->request_portion) &&
           is_like_logits(search, pass_of_request(search->given), peak->request_bytes);
}

/* Are logits the largest of what is alive there, and much of it? The failed request counts. */
static bool do_they_stand_out(const loss_search *search)
{
    const hr__case *given = search->given;
    const hr__peak *peak = search->peak;
    uint64_t least_bytes = UINT64_MAX, other_bytes = 0;
    uint64_t total_bytes = is_request_like_logits(search) ? peak->request_bytes : 0;
    for (size_t i = 0; i < given->timeline.lifetime_count; i++) {
        const hr__lifetime *lifetime = &given->timeline.lifetimes[i];
        if (!is_of_a_pass(peak, i) || !hr__lifetime_is_live(lifetime, peak->instant))
            continue;
        uint32_t pass = given->roles.pass_of[i];
        if (is_like_logits(search, pass, lifetime->size_bytes)) {
            total_bytes += lifetime->size_bytes;
            least_bytes = hr__min_u64(least_bytes, search->largest_bytes[pass]);
        } else {
            other_bytes = hr__max_u64(other_bytes, lifetime->size_bytes);
        }
    }
    return total_bytes > peak->live_bytes / LOSS_LEAST_PART &&
           least_bytes / LOSS_LEAST_FACTOR >= other_bytes;
}

static void part_the_loss(const loss_search *search, hr__peak *peak)
{
    const hr__case *given = search->given;
    if (!do_they_stand_out(search))
        return;
    bool is_request_of_it = is_request_like_logits(search);
    for (size_t i = 0; i < given->timeline.lifetime_count; i++) {
        const hr__lifetime *lifetime = &given->timeline.lifetimes[i];
        if (is_of_a_pass(peak, i) &&
            is_like_logits(search, given->roles.pass_of[i], lifetime->size_bytes))
            peak->portions[i] = HR__PORTION_LOSS;
    }
    if (is_request_of_it)
        peak->request_portion = HR__PORTION_LOSS;
}

static hr_status find_the_loss(const hr__case *given, hr__peak *peak)
{
    loss_search search = {.given = given, .peak = peak};
    hr_status status = begin_search(&search);
    if (status == HR_OK) {
        find_largest(&search);
        spread_largest(&search);
        part_the_loss(&search, peak);
    }
    end_search(&search);
    return status;
}

/* ---- portions -------------------------------------------------------------------------------- */

static hr__portion portion_of(hr__role role, uint8_t pass_kind)
{
    switch (role) {
    case HR__ROLE_WEIGHTS:
        return HR__PORTION_WEIGHTS;
    case HR__ROLE_GRADIENTS:
        return HR__PORTION_GRADIENTS;
    case HR__ROLE_OPTIMIZER:
        return HR__PORTION_OPTIMIZER;
    case HR__ROLE_ACTIVATIONS:
        return HR__PORTION_ACTIVATIONS;
    case HR__ROLE_TEMPORARIES:
        return pass_kind == HR__PASS_OPTIMIZER ? HR__PORTION_STEP_WORK : HR__PORTION_PASS_WORK;
    case HR__ROLE_KV_CACHE:
        return HR__PORTION_KV_CACHE;
    case HR__ROLE_DATA:
        return HR__PORTION_DATA;
    case HR__ROLE_WORKSPACE:
    case HR__ROLE_UNKNOWN:
    default:
        return HR__PORTION_REST;
    }
}

static void part(const hr__case *given, hr__peak *peak)
{
    const hr__roles *roles = &given->roles;
    for (size_t i = 0; i < roles->lifetime_count; i++)
        peak->portions[i] =
            (uint8_t)portion_of((hr__role)peak->roles[i], roles->passes[roles->pass_of[i]].kind);
}

static void add_up(const hr__case *given, hr__peak *peak)
{
    memset(peak->portion_bytes, 0, sizeof peak->portion_bytes);
    memset(peak->largest_bytes, 0, sizeof peak->largest_bytes);
    memset(peak->role_bytes, 0, sizeof peak->role_bytes);
    peak->live_bytes = 0;
    for (size_t i = 0; i < given->timeline.lifetime_count; i++) {
        const hr__lifetime *lifetime = &given->timeline.lifetimes[i];
        if (!hr__lifetime_is_live(lifetime, peak->instant))
            continue;
        uint64_t *largest = &peak->largest_bytes[peak->portions[i]];
        *largest = hr__max_u64(*largest, lifetime->size_bytes);
        peak->live_bytes += lifetime->size_bytes; /* the timeline keeps sums below 2^62 */
        peak->role_bytes[peak->roles[i]] += lifetime->size_bytes;
        peak->portion_bytes[peak->portions[i]] += lifetime->size_bytes;
    }
}

/* ---- the request that failed ----------------------------------------------------------------- */

static hr__portion portion_of_category(hr__category category)
{
    switch (category) {
    case HR__CATEGORY_WEIGHTS:
    case HR__CATEGORY_LOADED:
        return HR__PORTION_WEIGHTS;
    case HR__CATEGORY_OPTIMIZER:
        return HR__PORTION_OPTIMIZER;
    case HR__CATEGORY_GRADIENTS:
        return HR__PORTION_GRADIENTS;
    case HR__CATEGORY_FORWARD:
        return HR__PORTION_ACTIVATIONS;
    case HR__CATEGORY_BACKWARD:
        return HR__PORTION_PASS_WORK;
    case HR__CATEGORY_KV_CACHE:
        return HR__PORTION_KV_CACHE;
    case HR__CATEGORY_DATA:
        return HR__PORTION_DATA;
    case HR__CATEGORY_WORKSPACE:
    case HR__CATEGORY_OTHER:
    case HR__CATEGORY_UNKNOWN:
    default:
        return HR__PORTION_REST;
    }
}

/* A request that failed on another card only was served in the recording. Of others: what the same
 * stack asked for before, the last one, of the same size if there is one. */
static hr__portion portion_of_request(const hr__case *given, const hr__peak *peak)
{
    const hr__failure *failure = &given->failure;
    uint32_t context = request_context(given);
    size_t stack = stack_of(given->model, context);
    const hr__lifetime *best = NULL;
    hr__portion portion =
        portion_of_category(hr__attribution_category(&given->attribution, context));
    for (size_t i = 0; i < given->timeline.lifetime_count; i++) {
        const hr__lifetime *lifetime = &given->timeline.lifetimes[i];
        if (!peak->has_broken_off && lifetime->begin == failure->event + 1)
            return (hr__portion)peak->portions[i];
        if (stack == given->model->stack_count || lifetime->begin > peak->instant ||
            stack_of(given->model, lifetime->context) != stack)
            continue;
        bool is_alike = is_about(lifetime->size_bytes, peak->request_bytes);
        bool is_best_alike = best != NULL && is_about(best->size_bytes, peak->request_bytes);
        if (best == NULL || (is_alike && !is_best_alike) ||
            (is_alike == is_best_alike && lifetime->begin > best->begin)) {
            best = lifetime;
            portion = (hr__portion)peak->portions[i];
        }
    }
    return portion;
}

/* Idle bytes were enough, and many: the rule of numbers.c for fragmentation. */
static bool was_room_in_pieces(const hr_memory_numbers *numbers)
{
    uint64_t idle_bytes;
    return numbers->reserved_bytes != HR_UNKNOWN && numbers->allocated_bytes != HR_UNKNOWN &&
           hr__sub_u64(numbers->reserved_bytes, numbers->allocated_bytes, &idle_bytes) &&
           idle_bytes >= numbers->tried_bytes && idle_bytes >= numbers->reserved_bytes / 10;
}

/* What would have had to be given back. Never more than was asked for; less where the device had
 * some of it free. Where a limit was in force it is all of it: recordings do not say limits, and
 * one that was concluded from the refusal itself may be above the true one. */
static uint64_t missing_bytes(const hr_memory_numbers *numbers)
{
    uint64_t missing;
    if (was_room_in_pieces(numbers))
        return 0;
    if (numbers->allowed_bytes == HR_UNKNOWN &&
        hr__sub_u64(numbers->tried_bytes, numbers->free_bytes, &missing) && missing != 0)
        return missing;
    return numbers->tried_bytes;
}

static void look_at_the_request(const hr__case *given, hr__peak *peak)
{
    const hr_memory_numbers *numbers = &given->failure.numbers;
    peak->missing_bytes = HR_UNKNOWN;
    if (numbers->tried_bytes == HR_UNKNOWN)
        return;
    peak->request_bytes = numbers->tried_bytes;
    peak->request_portion = portion_of_request(given, peak);
    peak->missing_bytes = missing_bytes(numbers);
}

/* ---- together -------------------------------------------------------------------------------- */

static hr_status fill(const hr__case *given, hr__peak *peak)
{
    memcpy(peak->roles, given->roles.roles, given->roles.lifetime_count);
    HR__TRY(correct_roles(given, peak));
    part(given, peak);
    add_up(given, peak);
    if (given->failure.has_happened)
        look_at_the_request(given, peak);
    HR__TRY(find_the_loss(given, peak));
    add_up(given, peak);
    return HR_OK;
}

static bool has_broken_off(const hr__case *given)
{
    uint32_t event = given->failure.event;
    bool was_served =
        event < given->trace->event_count && given->trace->events[event].action == HR_ACTION_ALLOC;
    return given->failure.has_happened && !was_served;
}

hr_status hr__peak_find(const hr__case *given, hr__peak *out)
{
    size_t count = given->roles.lifetime_count;
    hr__peak peak = {
        .instant = given->failure.has_happened ? given->failure.instant : given->peak_instant,
        .has_broken_off = has_broken_off(given),
        .roles = hr__host_alloc(count),
        .portions = hr__host_alloc(count),
        .request_portion = HR__PORTION_REST,
    };
    hr_status status = HR_OK;
    if (peak.roles == NULL || peak.portions == NULL)
        status = hr__fail_host_memory(2 * count, "what the blocks of a peak were for");
    if (status == HR_OK)
        status = fill(given, &peak);
    if (status == HR_OK)
        *out = peak;
    else
        hr__peak_deinit(&peak);
    return status;
}

void hr__peak_deinit(hr__peak *peak)
{
    hr__host_free(peak->roles);
    hr__host_free(peak->portions);
    memset(peak, 0, sizeof *peak);
}
