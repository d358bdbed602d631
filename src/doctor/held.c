/* held.c - what one step, or one phase, leaves alive in the next.
 *
 * Gradients. They are needed from the backward pass to the optimizer's step. Whoever clears them
 * only before the next backward pass (the usual order: forward, zero_grad, backward), or keeps
 * their memory (set_to_none=False), holds them through the next forward pass, where activations
 * need room. So at the end of every step's forward work is counted what of earlier steps' backward
 * work is alive, provided that an optimizer ran in between: gradients that are being accumulated
 * are held rightly.
 *
 * Held over. A loop's variables (`outputs`, `loss`, `batch`) live until they are assigned again, so
 * the last step's are alive while the next one computes its own: blocks of the step before that are
 * gone a step later, looked at in the middle of each step's forward work. And at a peak that lies
 * in an evaluation: what training left there.
 *
 * What each is worth is not the bytes held but what the peak would have been without them, since
 * another instant may then be the highest: computed over the whole run. */
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"
#include "base/error.h"
#include "base/host_memory.h"

#define LEAST_HELD_BYTES (UINT64_C(1) << 20)
enum {
    LEAST_HELD_PER_PEAK = 100, /* and the peak's 100th part */
    FEWEST_STEPS = 2,          /* in which gradients are held */
    TRANSIENT_STEPS = 2,       /* what lives longer was meant to */
};

/* The forward work of a step, up to its first backward pass. */
typedef struct forward_end {
    uint32_t instant;         /* after its last request; UINT32_MAX: the step has none */
    uint32_t middle_instant;  /* half way through */
    uint32_t backward_event;  /* where the backward pass begins */
    uint32_t optimizer_event; /* where the last optimizer pass before it began; 0 = none did */
} forward_end;

typedef struct held_search {
    const vw__doctor_facts *facts;
    vw__doctor_result *result;
    forward_end *forward_ends; /* owned; by step */
    size_t step_count;         /* ends + 1 */
    uint32_t *with_forward;    /* owned; the steps that have forward work and a backward pass */
    size_t with_forward_count;
    int64_t *held_changes; /* owned; by place in with_forward */
    uint64_t *held_bytes;  /* owned; by step: gradients of earlier ones at its forward's end */
    int64_t *line;         /* owned; by instant, live bytes or what is taken off them */
    size_t instant_count;
    bool has_optimizer;
} held_search;

static bool is_worth_telling(const held_search *search, uint64_t bytes)
{
    return bytes >= LEAST_HELD_BYTES && bytes >= search->facts->peak_bytes / LEAST_HELD_PER_PEAK;
}

static uint32_t birth_step(const vw__doctor_facts *facts, size_t lifetime)
{
    return facts->roles.passes[facts->roles.pass_of[lifetime]].step;
}

/* The last one for what is alive at the end. */
static uint32_t death_step(const vw__doctor_facts *facts, const vw__lifetime *lifetime)
{
    if (lifetime->end >= facts->horizon_instant)
        return (uint32_t)facts->steps.end_count + TRANSIENT_STEPS + 1;
    return vw__steps_of_instant(&facts->steps, lifetime->end - 1);
}

/* ---- the line of live bytes ------------------------------------------------------------------ */

static void clear_line(held_search *search)
{
    memset(search->line, 0, search->instant_count * sizeof *search->line);
}

static void add_span(held_search *search, uint32_t begin, uint32_t end, int64_t bytes)
{
    if (begin >= end)
        return;
    search->line[begin] += bytes;
    if (end < search->instant_count)
        search->line[end] -= bytes;
}

static void add_everything(held_search *search)
{
    const vw__timeline *timeline = &search->facts->timeline;
    for (size_t i = 0; i < timeline->lifetime_count; i++)
        add_span(search, timeline->lifetimes[i].begin, timeline->lifetimes[i].end,
                 (int64_t)timeline->lifetimes[i].size_bytes);
}

/* The highest point up to the horizon. */
static uint64_t highest(const held_search *search)
{
    int64_t live = 0, most = 0;
    for (size_t i = 0; i < search->instant_count && i <= search->facts->horizon_instant; i++) {
        live += search->line[i];
        most = live > most ? live : most;
    }
    return (uint64_t)most;
}

/* ---- gradients ------------------------------------------------------------------------------- */

static uint32_t middle_of(const vw__roles_pass *pass)
{
    return pass->begin + (pass->last_request - pass->begin) / 2;
}

/* Is every end of a step that of an optimizer's step()? Fused optimizers ask for nothing there
 * after the first one, so they have no pass; but they announce themselves. */
static bool do_optimizers_end_steps(const vw__doctor_facts *facts)
{
    const vw__model *model = facts->model;
    const char *basis = facts->steps.basis;
    if (basis == NULL || strcmp(basis, "annotations") != 0)
        return false;
    for (size_t i = 0; i < model->annotation_count; i++)
        if (strncmp(vw__model_string(model, model->annotations[i].name), "ProfilerStep#", 13) == 0)
            return false; /* what is a step there the user says: a micro-batch, perhaps */
    return true;
}

static void find_forward_ends(held_search *search)
{
    const vw__roles *roles = &search->facts->roles;
    bool are_ends_optimizers = do_optimizers_end_steps(search->facts);
    uint32_t optimizer = 0;
    for (size_t i = 0; i < search->step_count; i++)
        search->forward_ends[i].instant = UINT32_MAX;
    for (size_t i = 0; i < roles->pass_count; i++) {
        const vw__roles_pass *pass = &roles->passes[i];
        if (pass->kind == VW__ROLES_PASS_OPTIMIZER) {
            optimizer = pass->begin;
            search->has_optimizer = true;
        }
        if (are_ends_optimizers && pass->step > 0) {
            uint32_t end = search->facts->steps.ends[pass->step - 1];
            optimizer = end > optimizer ? end : optimizer;
        }
        forward_end *end = &search->forward_ends[pass->step];
        size_t before = i; /* the forward pass before this one; a loss may come between */
        if (before > 0 && roles->passes[before - 1].kind == VW__ROLES_PASS_OTHER)
            before--;
        if (pass->kind == VW__ROLES_PASS_BACKWARD && before > 0 &&
            roles->passes[before - 1].kind == VW__ROLES_PASS_FORWARD &&
            end->instant == UINT32_MAX) {
            *end = (forward_end){
                .instant = roles->passes[before - 1].last_request + 1,
                .middle_instant = middle_of(&roles->passes[before - 1]),
                .backward_event = pass->begin,
                .optimizer_event = optimizer,
            };
            search->with_forward[search->with_forward_count++] = pass->step;
        }
    }
}

/* Steps with forward work, in `with_forward`: the first whose forward work ends at or after
 * `instant`. */
static size_t first_forward_at(const held_search *search, uint32_t instant)
{
    size_t low = 0, high = search->with_forward_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (search->forward_ends[search->with_forward[middle]].instant < instant)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first of them that is a later step than the block's own, and before which an optimizer ran
 * after the block was made. */
static size_t first_holding(const held_search *search, const vw__lifetime *lifetime, uint32_t born)
{
    size_t low = 0, high = search->with_forward_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint32_t step = search->with_forward[middle];
        bool holds = step > born && (!search->has_optimizer ||
                                     lifetime->begin <= search->forward_ends[step].optimizer_event);
        if (holds)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Counts what is held, and takes it off the line from the step's beginning to where the backward
 * pass needs it again. A block is held in a run of steps; in all but the last of them it is alive
 * to the end of the window, so those are added up first, as differences. */
static void count_gradients(held_search *search)
{
    const vw__doctor_facts *facts = search->facts;
    for (size_t i = 0; i < facts->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &facts->timeline.lifetimes[i];
        /* Those with a stack of their own are DDP's buckets, which zero_grad() leaves. */
        if (facts->roles.roles[i] != VW__ROLE_GRADIENTS ||
            vw__attribution_category(&facts->attribution, lifetime->context) ==
                VW__CATEGORY_GRADIENTS)
            continue;
        size_t first = first_holding(search, lifetime, birth_step(facts, i));
        size_t end = lifetime->end == VW__LIFETIME_TO_THE_END
                         ? search->with_forward_count
                         : first_forward_at(search, lifetime->end);
        if (first >= end)
            continue;
        search->held_changes[first] += (int64_t)lifetime->size_bytes;
        search->held_changes[end] -= (int64_t)lifetime->size_bytes;
        uint32_t last = search->with_forward[end - 1];
        uint32_t needed = search->forward_ends[last].backward_event + 1;
        if (lifetime->end < needed) /* it went before the window's end: put the rest back */
            add_span(search, lifetime->end, needed, (int64_t)lifetime->size_bytes);
    }
    int64_t held = 0;
    for (size_t i = 0; i < search->with_forward_count; i++) {
        uint32_t step = search->with_forward[i];
        held += search->held_changes[i];
        search->held_bytes[step] = (uint64_t)held;
        if (step > 0)
            add_span(search, facts->steps.ends[step - 1],
                     search->forward_ends[step].backward_event + 1, -held);
    }
}

/* The most that a step holds; of how many, in how many it is worth telling. */
static uint64_t count_held(const held_search *search, size_t *steps, size_t *held_steps)
{
    uint64_t most = 0;
    for (size_t i = 1; i < search->step_count; i++) {
        if (search->forward_ends[i].instant == UINT32_MAX)
            continue;
        ++*steps;
        *held_steps += is_worth_telling(search, search->held_bytes[i]);
        most = search->held_bytes[i] > most ? search->held_bytes[i] : most;
    }
    return most;
}

/* What the peak would have been without what is held. */
static void tell_saving(const held_search *search, const char *undoing, vw__remedy_id remedy,
                        vw__diagnosis_finding *finding)
{
    uint64_t saved = vw__doctor_less(search->facts->peak_bytes, highest(search));
    if (saved != 0)
        vw__diagnosis_evidence(finding, "Without them the run would have peaked %s lower.",
                               VW__DOCTOR_SIZE(saved));
    else
        vw__diagnosis_evidence(
            finding, "The peak of this run is elsewhere: %s lowers the forward pass, not the peak.",
            undoing);
    vw__diagnosis_known_remedy(finding, remedy, NULL, vw__diagnosis_saves(saved),
                               VW_BASIS_MEASURED);
}

static void tell_gradients(held_search *search)
{
    const vw__doctor_facts *facts = search->facts;
    vw__diagnosis_draft *draft = search->result->draft;
    size_t steps = 0, held_steps = 0;
    uint64_t most = count_held(search, &steps, &held_steps);
    if (held_steps < FEWEST_STEPS || held_steps * 2 < steps)
        return;
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(draft, "gradients-held", most,
                          "Gradients of the step before (%s) are alive through the forward pass.",
                          VW__DOCTOR_SIZE(most));
    vw__diagnosis_where(finding, "%s",
                        vw__doctor_place(facts, draft, vw__doctor_backward_context(facts)));
    vw__diagnosis_evidence(
        finding, "This happens in %zu of %zu steps, measured at the end of the forward pass.",
        held_steps, steps);
    tell_saving(search, "clearing them", VW__REMEDY_ZERO_GRAD, finding);
}

/* ---- held over ------------------------------------------------------------------------------- */

/* What a backward pass gives back it has used: a graph that lives through the step of another
 * optimizer (a generator's, while the discriminator learns) is no variable left over. */
static bool is_used_by_backward(const vw__doctor_facts *facts, const vw__lifetime *lifetime)
{
    const vw__roles *roles = &facts->roles;
    return lifetime->end != VW__LIFETIME_TO_THE_END &&
           roles->passes[vw__roles_pass_at(roles, lifetime->end - 1)].kind ==
               VW__ROLES_PASS_BACKWARD;
}

/* Belongs to one step, and is gone soon after it? */
static bool is_transient(const vw__doctor_facts *facts, const vw__doctor_result *result,
                         size_t index, const vw__lifetime *lifetime)
{
    uint8_t role = facts->roles.roles[index];
    if (role == VW__ROLE_WEIGHTS || role == VW__ROLE_OPTIMIZER || role == VW__ROLE_GRADIENTS ||
        result->is_kept_graph[index] || lifetime->begin == 0 ||
        is_used_by_backward(facts, lifetime))
        return false;
    uint32_t born = birth_step(facts, index), died = death_step(facts, lifetime);
    return died > born && died - born <= TRANSIENT_STEPS;
}

/* Is it alive in the middle of a later step's forward work? Which? 0 = none. */
static uint32_t held_over_in(const held_search *search, const vw__lifetime *lifetime, uint32_t born)
{
    for (uint32_t step = born + 1; step < search->step_count && step <= born + TRANSIENT_STEPS;
         step++) {
        const forward_end *end = &search->forward_ends[step];
        if (end->instant != UINT32_MAX && vw__lifetime_is_live(lifetime, end->middle_instant))
            return step;
    }
    return 0;
}

static void tell_held_over(held_search *search, const uint64_t *bytes_by_stack, uint64_t bytes)
{
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        search->result->draft, "held-over", bytes,
        "%s of the step before are still alive while the next one runs its forward pass.",
        VW__DOCTOR_SIZE(bytes));
    vw__doctor_add_places(search->facts, bytes_by_stack, VW__DOCTOR_PLACES_APART, finding);
    vw__diagnosis_evidence(finding, "They are given back within that step: variables of the loop, "
                                    "which live until they are assigned again.");
    tell_saving(search, "letting them go", VW__REMEDY_DROP_VARIABLES, finding);
}

static vw_status find_held_over(held_search *search)
{
    const vw__doctor_facts *facts = search->facts;
    vw__doctor_result *result = search->result;
    const vw__timeline *timeline = &facts->timeline;
    uint64_t *stacks = vw__host_alloc_zeroed(facts->model->stack_count, sizeof *stacks);
    if (stacks == NULL)
        return vw__fail_host_memory(facts->model->stack_count * sizeof *stacks, "the last step");

    memset(search->held_bytes, 0, search->step_count * sizeof *search->held_bytes);
    clear_line(search);
    add_everything(search);
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &timeline->lifetimes[i];
        if (!is_transient(facts, result, i, lifetime))
            continue;
        uint32_t born = birth_step(facts, i);
        uint32_t step = held_over_in(search, lifetime, born);
        if (step == 0)
            continue;
        search->held_bytes[step] += lifetime->size_bytes;
        add_span(search, facts->steps.ends[born], lifetime->end, -(int64_t)lifetime->size_bytes);
        if (lifetime->context != VW__MODEL_NO_CONTEXT)
            stacks[facts->model->contexts[lifetime->context]] += lifetime->size_bytes;
    }
    size_t steps = 0, held_steps = 0;
    uint64_t most = count_held(search, &steps, &held_steps);
    if (held_steps >= FEWEST_STEPS && held_steps * 2 >= steps)
        tell_held_over(search, stacks, most);
    vw__host_free(stacks);
    return VW_OK;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

/* Is the peak in a phase without a backward pass, of a run that has them? */
static bool peaks_in_evaluation(const vw__doctor_facts *facts)
{
    const vw__steps *steps = &facts->steps;
    const vw__roles *roles = &facts->roles;
    uint32_t begin = 0, end = (uint32_t)facts->trace->event_count;
    if (steps->phase_end_count == 0)
        return false;
    for (size_t i = 0; i < steps->phase_end_count; i++) {
        if (steps->phase_ends[i] <= facts->peak_instant)
            begin = steps->phase_ends[i];
        else if (steps->phase_ends[i] < end)
            end = steps->phase_ends[i];
    }
    bool has_backward = false, has_backward_here = false;
    for (size_t i = 0; i < roles->pass_count; i++)
        if (roles->passes[i].kind == VW__ROLES_PASS_BACKWARD) {
            has_backward = true;
            has_backward_here = has_backward_here ||
                                (roles->passes[i].begin >= begin && roles->passes[i].begin < end);
        }
    return has_backward && !has_backward_here;
}

static void tell_evaluation(held_search *search)
{
    const vw__doctor_facts *facts = search->facts;
    vw__doctor_result *result = search->result;
    uint64_t gradients = 0, optimizer = 0;
    for (size_t i = 0; i < facts->timeline.lifetime_count; i++) {
        if (!vw__lifetime_is_live(&facts->timeline.lifetimes[i], facts->peak_instant))
            continue;
        uint64_t bytes = facts->timeline.lifetimes[i].size_bytes;
        gradients += facts->roles.roles[i] == VW__ROLE_GRADIENTS ? bytes : 0;
        optimizer += facts->roles.roles[i] == VW__ROLE_OPTIMIZER ? bytes : 0;
    }
    if (!is_worth_telling(search, gradients + optimizer))
        return;
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(result->draft, "held-over", gradients + optimizer,
                          "The peak is in an evaluation, and %s of training are alive in it.",
                          VW__DOCTOR_SIZE(gradients + optimizer));
    vw__diagnosis_part(finding, "state of the optimizer", optimizer);
    vw__diagnosis_part(finding, "gradients left by training", gradients);
    if (gradients != 0)
        vw__diagnosis_remedy(finding, "clear the gradients before the evaluation",
                             vw__diagnosis_saves(gradients), VW_BASIS_MEASURED, "none",
                             "optimizer.zero_grad(set_to_none=True)   # before model.eval()");
    if (optimizer != 0)
        vw__diagnosis_remedy(
            finding, "evaluate in smaller batches, or with the optimizer's state on the host",
            (vw__diagnosis_savings){0, optimizer}, VW_BASIS_COMPUTED,
            "a copy of the state each way",
            "for state in optimizer.state.values():\n"
            "    for key, value in state.items():\n"
            "        if torch.is_tensor(value):\n"
            "            state[key] = value.cpu()    # and back before training");
}

/* ---- together -------------------------------------------------------------------------------- */

static vw_status make_room(held_search *search)
{
    const vw__doctor_facts *facts = search->facts;
    search->step_count = facts->steps.end_count + 1;
    search->instant_count = facts->trace->event_count + 1;
    search->forward_ends = vw__host_alloc_zeroed(search->step_count, sizeof(forward_end));
    search->with_forward = vw__host_alloc_zeroed(search->step_count, sizeof(uint32_t));
    search->held_changes = vw__host_alloc_zeroed(search->step_count + 1, sizeof(int64_t));
    search->held_bytes = vw__host_alloc_zeroed(search->step_count, sizeof(uint64_t));
    search->line = vw__host_alloc_zeroed(search->instant_count, sizeof(int64_t));
    if (search->forward_ends == NULL || search->with_forward == NULL ||
        search->held_changes == NULL || search->held_bytes == NULL || search->line == NULL)
        return vw__fail_host_memory(search->instant_count * sizeof(int64_t), "what steps hold");
    return VW_OK;
}

static vw_status search_and_tell(held_search *search)
{
    VW__TRY(make_room(search));
    find_forward_ends(search);
    add_everything(search);
    count_gradients(search);
    tell_gradients(search);
    VW__TRY(find_held_over(search));
    if (peaks_in_evaluation(search->facts))
        tell_evaluation(search);
    return VW_OK;
}

vw_status vw__doctor_held(const vw__doctor_facts *facts, vw__doctor_result *result)
{
    if (facts->steps.end_count < FEWEST_STEPS)
        return VW_OK;
    held_search search = {.facts = facts, .result = result};
    vw_status status = search_and_tell(&search);
    vw__host_free(search.forward_ends);
    vw__host_free(search.with_forward);
    vw__host_free(search.held_changes);
    vw__host_free(search.held_bytes);
    vw__host_free(search.line);
    return status;
}
