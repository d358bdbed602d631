/* roles.c - passes, and from them the roles of blocks.
 *
 * Passes. Requests come in runs: a forward pass, a backward pass, an optimizer's step; what is none
 * of these (a batch that is made, a loss that is computed outside of modules) is a run of its own,
 * and separates two forward passes of an evaluation. Workspaces and key/value caches are asked for
 * in the middle of other work and end no pass.
 *
 * Roles. What outlives its own pass was made for a later one: activations for the backward pass,
 * gradients for the optimizer, state for its next step. What does not was needed on the way.
 *
 * cuBLAS and cuDNN ask for workspaces in the middle of a backward pass, and keep them. Without C++
 * stacks they look like gradients that nobody clears; but a gradient has the size of a weight. So
 * what a backward pass made and nobody ever gave back is a gradient only if a weight is as large.
 *
 * Requests that no rule knows are judged by their surroundings alone: those after a forward pass
 * that die in a backward pass are activations too (a loss written by hand), those that wait for a
 * forward pass are data, and what was there before the first forward pass and stayed is counted as
 * weights (a copy of them, a table). The rest is unknown, and stays so: as what was there before
 * the recording began, without a stack. */
#include "analysis/roles.h"

#include <stdbool.h>
#include <stdlib.h> /* qsort, bsearch */
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- passes ---------------------------------------------------------------------------------- */

/* NEUTRAL: belongs to whatever runs. */
enum { NEUTRAL = 255 };

static uint8_t kind_of_request(const vw__attribution *attribution, uint32_t context)
{
    if (vw__attribution_is_in_optimizer(attribution, context))
        return VW__ROLES_PASS_OPTIMIZER;
    switch (vw__attribution_category(attribution, context)) {
    case VW__CATEGORY_FORWARD:
        return VW__ROLES_PASS_FORWARD;
    case VW__CATEGORY_BACKWARD:
    case VW__CATEGORY_GRADIENTS:
        return VW__ROLES_PASS_BACKWARD;
    case VW__CATEGORY_OPTIMIZER:
        return VW__ROLES_PASS_OPTIMIZER;
    case VW__CATEGORY_KV_CACHE:
    case VW__CATEGORY_WORKSPACE:
        return NEUTRAL;
    default:
        return VW__ROLES_PASS_OTHER;
    }
}

/* Writes every pass of the trace, in order; only counts them if `passes` is NULL. */
static size_t write_passes(const vw__timeline *timeline, const vw__attribution *attribution,
                           const vw__steps *steps, vw__roles_pass *passes)
{
    const vw__model_trace *trace = timeline->trace;
    size_t count = 0, next_end = 0;
    uint8_t kind = NEUTRAL;
    uint32_t step = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const vw__model_event *event = &trace->events[i];
        while (next_end < steps->end_count && steps->ends[next_end] <= i)
            step = (uint32_t)++next_end;
        if (event->action != VW_ACTION_ALLOC)
            continue;
        uint8_t own = kind_of_request(attribution, event->context);
        if (own == NEUTRAL)
            continue;
        if (own == kind) {
            if (passes != NULL)
                passes[count - 1].last_request = (uint32_t)i;
            continue;
        }
        if (passes != NULL) {
            if (count != 0)
                passes[count - 1].end = (uint32_t)i;
            passes[count] = (vw__roles_pass){
                .begin = count == 0 ? 0 : (uint32_t)i,
                .end = (uint32_t)trace->event_count,
                .last_request = (uint32_t)i,
                .step = step,
                .kind = own,
            };
        }
        kind = own;
        count++;
    }
    return count;
}

static vw_status find_passes(const vw__timeline *timeline, const vw__attribution *attribution,
                             const vw__steps *steps, vw__roles *roles)
{
    size_t count = write_passes(timeline, attribution, steps, NULL);
    size_t room = count != 0 ? count : 1;
    roles->passes = vw__host_alloc_zeroed(room, sizeof *roles->passes);
    if (roles->passes == NULL)
        return vw__fail_host_memory(room * sizeof *roles->passes, "the passes of a trace");
    roles->pass_count = write_passes(timeline, attribution, steps, roles->passes);
    if (roles->pass_count == 0) {
        roles->passes[0] = (vw__roles_pass){.end = (uint32_t)timeline->trace->event_count};
        roles->pass_count = 1;
    }
    return VW_OK;
}

uint32_t vw__roles_pass_at(const vw__roles *roles, uint32_t event)
{
    size_t low = 0, high = roles->pass_count; /* the answer is in [low, high) */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (roles->passes[middle].begin <= event)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

uint32_t vw__steps_of_instant(const vw__steps *steps, uint32_t instant)
{
    size_t low = 0, high = steps->end_count; /* how many ends are <= instant */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (steps->ends[middle] <= instant)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/* ---- roles ----------------------------------------------------------------------------------- */

/* The data by which the surroundings of a block are judged. */
typedef struct surroundings {
    const vw__timeline *timeline;
    const vw__attribution *attribution;
    const vw__roles *roles;
    size_t first_forward; /* pass; pass_count if there is no forward pass */
} surroundings;

static bool outlives_its_pass(const vw__roles *roles, const vw__lifetime *lifetime, uint32_t pass)
{
    return lifetime->end > roles->passes[pass].end;
}

/* The kind of pass in which the block was given back; OTHER if it never was. */
static uint8_t kind_of_death(const vw__roles *roles, const vw__lifetime *lifetime)
{
    if (lifetime->end == VW__LIFETIME_TO_THE_END)
        return VW__ROLES_PASS_OTHER;
    return roles->passes[vw__roles_pass_at(roles, lifetime->end - 1)].kind;
}

static vw__role role_of_other(const surroundings *around, const vw__lifetime *lifetime,
                              uint32_t pass)
{
    const vw__roles *roles = around->roles;
    if (pass < around->first_forward || lifetime->begin == 0) {
        uint32_t end_pass = lifetime->end == VW__LIFETIME_TO_THE_END
                                ? (uint32_t)roles->pass_count
                                : vw__roles_pass_at(roles, lifetime->end - 1);
        if (around->first_forward == roles->pass_count)
            return VW__ROLE_UNKNOWN;
        bool stays = end_pass >= roles->pass_count ||
                     roles->passes[end_pass].step > roles->passes[around->first_forward].step + 1;
        if (stays)
            return VW__ROLE_WEIGHTS;
    }
    if (!outlives_its_pass(roles, lifetime, pass))
        return VW__ROLE_TEMPORARIES;
    bool is_after_forward = pass > 0 && roles->passes[pass - 1].kind == VW__ROLES_PASS_FORWARD;
    if (is_after_forward && kind_of_death(roles, lifetime) == VW__ROLES_PASS_BACKWARD)
        return VW__ROLE_ACTIVATIONS;
    bool is_before_forward =
        pass + 1 < roles->pass_count && roles->passes[pass + 1].kind == VW__ROLES_PASS_FORWARD;
    return is_before_forward ? VW__ROLE_DATA : VW__ROLE_UNKNOWN;
}

/* Returns whether it was requested before the recording began. PyTorch writes an empty stack for
 * such blocks, as it does for autograd's threads: it may be anything. */
static bool is_of_an_unseen_time(const vw__attribution *attribution, const vw__lifetime *lifetime)
{
    return lifetime->begin == 0 && lifetime->context != VW__MODEL_NO_CONTEXT &&
           attribution->model->contexts[lifetime->context] == VW__MODEL_EMPTY_STACK;
}

static vw__role role_of(const surroundings *around, const vw__lifetime *lifetime, uint32_t pass)
{
    if (is_of_an_unseen_time(around->attribution, lifetime))
        return VW__ROLE_UNKNOWN;
    bool outlives = outlives_its_pass(around->roles, lifetime, pass);
    if (vw__attribution_is_in_optimizer(around->attribution, lifetime->context))
        return outlives ? VW__ROLE_OPTIMIZER : VW__ROLE_TEMPORARIES;
    switch (vw__attribution_category(around->attribution, lifetime->context)) {
    case VW__CATEGORY_WEIGHTS:
    case VW__CATEGORY_LOADED:
        return VW__ROLE_WEIGHTS;
    case VW__CATEGORY_OPTIMIZER:
        return outlives ? VW__ROLE_OPTIMIZER : VW__ROLE_TEMPORARIES;
    case VW__CATEGORY_GRADIENTS:
        return outlives ? VW__ROLE_GRADIENTS : VW__ROLE_TEMPORARIES;
    case VW__CATEGORY_FORWARD:
        return outlives ? VW__ROLE_ACTIVATIONS : VW__ROLE_TEMPORARIES;
    case VW__CATEGORY_BACKWARD:
        return outlives ? VW__ROLE_GRADIENTS : VW__ROLE_TEMPORARIES;
    case VW__CATEGORY_KV_CACHE:
        return VW__ROLE_KV_CACHE;
    case VW__CATEGORY_DATA:
        return VW__ROLE_DATA;
    case VW__CATEGORY_WORKSPACE:
        return VW__ROLE_WORKSPACE;
    case VW__CATEGORY_OTHER:
        return role_of_other(around, lifetime, pass);
    case VW__CATEGORY_UNKNOWN:
    default:
        return VW__ROLE_UNKNOWN;
    }
}

static int compare_sizes(const void *left, const void *right)
{
    const uint64_t *one = left, *other = right;
    return (*one > *other) - (*one < *other);
}

/* Takes workspaces out of the gradients. */
static vw_status recognise_workspaces(const vw__timeline *timeline, vw__roles *roles)
{
    size_t count = 0;
    uint64_t *sizes = vw__host_alloc((timeline->lifetime_count + 1) * sizeof *sizes);
    if (sizes == NULL)
        return vw__fail_host_memory(timeline->lifetime_count * sizeof *sizes, "the weights' sizes");
    for (size_t i = 0; i < timeline->lifetime_count; i++)
        if (roles->roles[i] == VW__ROLE_WEIGHTS ||
            (roles->roles[i] == VW__ROLE_UNKNOWN && timeline->lifetimes[i].begin == 0))
            sizes[count++] = timeline->lifetimes[i].size_bytes;
    qsort(sizes, count, sizeof *sizes, compare_sizes);
    for (size_t i = 0; i < timeline->lifetime_count && count != 0; i++) {
        const vw__lifetime *lifetime = &timeline->lifetimes[i];
        if (roles->roles[i] == VW__ROLE_GRADIENTS && lifetime->end == VW__LIFETIME_TO_THE_END &&
            bsearch(&lifetime->size_bytes, sizes, count, sizeof *sizes, compare_sizes) == NULL)
            roles->roles[i] = VW__ROLE_WORKSPACE;
    }
    vw__host_free(sizes);
    return VW_OK;
}

static size_t first_forward_pass(const vw__roles *roles)
{
    size_t i = 0;
    while (i < roles->pass_count && roles->passes[i].kind != VW__ROLES_PASS_FORWARD)
        i++;
    return i;
}

vw_status vw__roles_find(const vw__timeline *timeline, const vw__attribution *attribution,
                         const vw__steps *steps, vw__roles *out)
{
    size_t count = timeline->lifetime_count;
    size_t room = count != 0 ? count : 1;
    vw__roles made = {
        .roles = vw__host_alloc(room),
        .pass_of = vw__host_alloc(room * sizeof *made.pass_of),
        .lifetime_count = count,
    };
    vw_status status = VW_OK;
    if (made.roles == NULL || made.pass_of == NULL)
        status = vw__fail_host_memory(room * (1 + sizeof *made.pass_of), "the roles of blocks");
    if (status == VW_OK)
        status = find_passes(timeline, attribution, steps, &made);
    if (status != VW_OK) {
        vw__roles_deinit(&made);
        return status;
    }
    surroundings around = {timeline, attribution, &made, first_forward_pass(&made)};
    for (size_t i = 0; i < count; i++) {
        const vw__lifetime *lifetime = &timeline->lifetimes[i];
        uint32_t pass = lifetime->begin == 0 ? 0 : vw__roles_pass_at(&made, lifetime->begin - 1);
        made.pass_of[i] = pass;
        made.roles[i] = (uint8_t)role_of(&around, lifetime, pass);
    }
    status = recognise_workspaces(timeline, &made);
    if (status != VW_OK) {
        vw__roles_deinit(&made);
        return status;
    }
    *out = made;
    return VW_OK;
}

void vw__roles_deinit(vw__roles *roles)
{
    vw__host_free(roles->roles);
    vw__host_free(roles->pass_of);
    vw__host_free(roles->passes);
    memset(roles, 0, sizeof *roles);
}

const char *vw__role_name(vw__role role)
{
    static const char *const names[] = {
#define ROLE_NAME(upper, text) text,
        VW__ROLE_LIST(ROLE_NAME)
#undef ROLE_NAME
    };
    VW_ASSERT((size_t)role < COUNT_OF(names));
    return names[role];
}
