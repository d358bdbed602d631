/* kept_graph.c - activations that no backward pass will ever free.
 *
 * A forward pass outside of no_grad() or inference_mode() keeps the output of nearly every
 * operation for a backward pass. Where none comes (evaluation), all of it stays until the output
 * itself is let go. In memory that looks like nothing else: most of what a pass asked for is alive
 * when it is over, and goes, if at all, all at once, outside of any backward pass. Under
 * inference_mode() a block goes as soon as the next layers are computed, so a few are alive at a
 * time.
 *
 * The trace is cut into *stretches*: forward work between two backward passes. A block of forward
 * work is *kept* if it is alive at the horizon, or went in a burst of frees without a request in
 * between, outside of a backward pass.
 *
 * Three things look alike and are not:
 *   - A training step in progress: the forward pass under way when the recording ends (or when
 *     memory ran out) has everything alive, rightly. So the last pass of the trace is left out; how
 *     long a pass is, is known from the steps before. In a run that never went backward, it is
 * known from what comes between passes (a batch is made); a single pass that is still alive may as
 *     well be the first half of a training step, and is left alone.
 *     A pipeline, or a loss over several passes, has more than one of them under way: as many as a
 *     backward pass was seen to use before.
 *   - A training loop that keeps its graphs (a loss summed with its graph) does so in every
 *     stretch. That is a leak; leak.c tells it, with its rate.
 *   - A key/value cache goes in one burst at the end of a request. It is a small part of what the
 *     passes asked for. */
#include <stdlib.h> /* qsort */
#include <string.h>

#include "doctor/doctor.h"
#include "base/error.h"
#include "base/host_memory.h"

enum {
    FEWEST_KEPT_BLOCKS = 8, /* of a stretch, and of a burst */
    FEWEST_KEPT_STACKS = 3,
    FEWEST_PASS_BLOCKS = 8, /* fewer requests are no pass of a model */
};

/* Least share of the bytes of a stretch that must be kept. */
#define LEAST_KEPT 0.25
/* Least share of live forward bytes that a burst must free. */
#define LEAST_BURST 0.5
/* A stretch with that many times the requests of a training pass has other passes in it. */
#define MANY_PASSES 1.6

#define LEAST_KEPT_BYTES (UINT64_C(1) << 20)

typedef struct stretch {
    uint32_t begin, end; /* passes [begin, end) */
    bool has_backward;   /* a backward pass ends it */
    bool is_kept;
    uint32_t last_pass_event; /* requests from here on are of the pass under way */
    size_t block_count;
    uint64_t asked_bytes, kept_bytes;
    size_t kept_count;
    size_t used_count;     /* given back in a backward pass */
    size_t underway_count; /* alive at the horizon, of the pass under way */
} stretch;

typedef struct kept_search {
    const vw__doctor_facts *facts;
    vw__doctor_result *result;
    stretch *stretches; /* owned */
    size_t stretch_count;
    uint32_t *stretch_of_pass; /* owned */
    uint32_t *run_of_event;    /* owned; which run of frees an event belongs to */
    struct free_run {
        uint64_t live_bytes;  /* of forward work, when it begins */
        uint64_t freed_bytes; /* of forward work */
        uint32_t freed_count;
    } * runs; /* owned */
    size_t run_count;
    double training_blocks; /* requests of a training step's forward pass; 0: no training */
} kept_search;

static bool is_forward(const kept_search *search, const vw__lifetime *lifetime)
{
    return lifetime->begin != 0 &&
           vw__attribution_category(&search->facts->attribution, lifetime->context) ==
               VW__CATEGORY_FORWARD;
}

/* ---- stretches ------------------------------------------------------------------------------- */

static vw_status cut_stretches(kept_search *search)
{
    const vw__roles *roles = &search->facts->roles;
    size_t count = roles->pass_count;
    search->stretches = vw__host_alloc_zeroed(count, sizeof *search->stretches);
    search->stretch_of_pass = vw__host_alloc_zeroed(count, sizeof *search->stretch_of_pass);
    if (search->stretches == NULL || search->stretch_of_pass == NULL)
        return vw__fail_host_memory(count * sizeof *search->stretches, "the forward passes");
    stretch *open = NULL;
    for (size_t i = 0; i < count; i++) {
        if (roles->passes[i].begin >= search->facts->horizon_instant)
            break;
        if (open == NULL) {
            open = &search->stretches[search->stretch_count++];
            open->begin = (uint32_t)i;
        }
        search->stretch_of_pass[i] = (uint32_t)(search->stretch_count - 1);
        open->end = (uint32_t)i + 1;
        bool is_backward = roles->passes[i].kind == VW__ROLES_PASS_BACKWARD;
        bool ends =
            is_backward && (i + 1 == count || roles->passes[i + 1].kind != VW__ROLES_PASS_BACKWARD);
        if (ends) {
            open->has_backward = true;
            open = NULL;
        }
    }
    return VW_OK;
}

static void count_requests(kept_search *search)
{
    const vw__doctor_facts *facts = search->facts;
    for (size_t i = 0; i < facts->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &facts->timeline.lifetimes[i];
        if (!is_forward(search, lifetime) || lifetime->begin > facts->horizon_instant)
            continue;
        stretch *own = &search->stretches[search->stretch_of_pass[facts->roles.pass_of[i]]];
        own->block_count++;
        own->asked_bytes += lifetime->size_bytes;
    }
}

static int compare_doubles(const void *left, const void *right)
{
    const double *one = left, *other = right;
    return (*one > *other) - (*one < *other);
}

/* The middle one of the stretches that a backward pass ends. */
static vw_status find_training_pass(kept_search *search)
{
    double *counts = vw__host_alloc((search->stretch_count + 1) * sizeof *counts);
    if (counts == NULL)
        return vw__fail_host_memory(search->stretch_count * sizeof *counts, "the forward passes");
    size_t count = 0;
    for (size_t i = 0; i < search->stretch_count; i++)
        if (search->stretches[i].has_backward &&
            search->stretches[i].block_count >= FEWEST_PASS_BLOCKS)
            counts[count++] = (double)search->stretches[i].block_count;
    qsort(counts, count, sizeof *counts, compare_doubles);
    search->training_blocks = count != 0 ? counts[count / 2] : 0;
    vw__host_free(counts);
    return VW_OK;
}

/* Where the pass under way began: in training, one pass's requests before the end of the stretch;
 * else with the last forward pass that something else came before. */
static void find_last_pass(const kept_search *search, stretch *own)
{
    const vw__doctor_facts *facts = search->facts;
    const vw__roles *roles = &facts->roles;
    own->last_pass_event = UINT32_MAX;
    if (own->has_backward)
        return;
    if (search->training_blocks > 0) {
        double left = search->training_blocks;
        uint32_t first = roles->passes[own->begin].begin;
        for (uint32_t i = facts->horizon_instant; i > first && left > 0; i--) {
            const vw__model_event *event = &facts->trace->events[i - 1];
            if (event->action == VW_ACTION_ALLOC &&
                vw__attribution_category(&facts->attribution, event->context) ==
                    VW__CATEGORY_FORWARD)
                left -= 1;
            own->last_pass_event = i - 1;
        }
        return;
    }
    for (uint32_t i = own->end; i-- > own->begin;)
        if (roles->passes[i].kind == VW__ROLES_PASS_FORWARD &&
            roles->passes[i].begin < facts->horizon_instant) {
            own->last_pass_event = roles->passes[i].begin;
            return;
        }
}

/* ---- bursts ---------------------------------------------------------------------------------- */

static vw_status find_runs(kept_search *search)
{
    const vw__doctor_facts *facts = search->facts;
    const vw__model_trace *trace = facts->trace;
    search->run_of_event = vw__host_alloc(trace->event_count * sizeof *search->run_of_event);
    if (search->run_of_event == NULL)
        return vw__fail_host_memory(trace->event_count * sizeof *search->run_of_event,
                                    "the frees of a trace");
    uint32_t run = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        run += trace->events[i].action == VW_ACTION_ALLOC;
        search->run_of_event[i] = run;
    }
    search->run_count = (size_t)run + 1;
    search->runs = vw__host_alloc_zeroed(search->run_count, sizeof *search->runs);
    if (search->runs == NULL)
        return vw__fail_host_memory(search->run_count * sizeof *search->runs,
                                    "the frees of a trace");

    /* Live bytes first as differences: born in a run, given back in another. */
    for (size_t i = 0; i < facts->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &facts->timeline.lifetimes[i];
        if (!is_forward(search, lifetime))
            continue;
        search->runs[search->run_of_event[lifetime->begin - 1]].live_bytes += lifetime->size_bytes;
        if (lifetime->end == VW__LIFETIME_TO_THE_END)
            continue;
        struct free_run *freed = &search->runs[search->run_of_event[lifetime->end - 1]];
        freed->freed_bytes += lifetime->size_bytes;
        freed->freed_count++;
    }
    uint64_t live = 0;
    for (size_t i = 0; i < search->run_count; i++) {
        live += search->runs[i].live_bytes;
        search->runs[i].live_bytes = live;
        live -= search->runs[i].freed_bytes;
    }
    return VW_OK;
}

static bool went_in_a_burst(const kept_search *search, uint32_t event)
{
    const vw__roles *roles = &search->facts->roles;
    const struct free_run *run = &search->runs[search->run_of_event[event]];
    return roles->passes[vw__roles_pass_at(roles, event)].kind != VW__ROLES_PASS_BACKWARD &&
           run->freed_count >= FEWEST_KEPT_BLOCKS &&
           (double)run->freed_bytes >= LEAST_BURST * (double)run->live_bytes;
}

static bool is_used_by_backward(const kept_search *search, const vw__lifetime *lifetime)
{
    const vw__roles *roles = &search->facts->roles;
    return lifetime->end <= search->facts->horizon_instant &&
           roles->passes[vw__roles_pass_at(roles, lifetime->end - 1)].kind ==
               VW__ROLES_PASS_BACKWARD;
}

/* ---- kept ------------------------------------------------------------------------------------ */

static bool is_kept(const kept_search *search, const vw__lifetime *lifetime, const stretch *own)
{
    uint32_t horizon = search->facts->horizon_instant;
    if (lifetime->begin > horizon)
        return false;
    if (lifetime->end > horizon && lifetime->begin - 1 < own->last_pass_event)
        return true;
    /* The pass under way: if the run did not fail and it goes all at once, nothing came after. */
    bool is_told = lifetime->end <= horizon || !search->facts->failure.has_happened;
    return is_told && lifetime->end != VW__LIFETIME_TO_THE_END &&
           went_in_a_burst(search, lifetime->end - 1);
}

static void find_kept(kept_search *search)
{
    const vw__doctor_facts *facts = search->facts;
    vw__doctor_result *result = search->result;
    for (size_t i = 0; i < facts->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &facts->timeline.lifetimes[i];
        if (!is_forward(search, lifetime))
            continue;
        stretch *own = &search->stretches[search->stretch_of_pass[facts->roles.pass_of[i]]];
        if (lifetime->begin <= facts->horizon_instant) {
            own->used_count += is_used_by_backward(search, lifetime);
            own->underway_count += lifetime->end > facts->horizon_instant &&
                                   lifetime->begin - 1 >= own->last_pass_event;
        }
        if (!is_kept(search, lifetime, own))
            continue;
        result->is_kept_graph[i] = true;
        own->kept_bytes += lifetime->size_bytes;
        own->kept_count++;
    }
}

/* True if the training loop itself keeps its graphs. */
static bool is_a_training_leak(const kept_search *search)
{
    size_t training = 0, kept = 0;
    for (size_t i = 0; i < search->stretch_count; i++) {
        const stretch *own = &search->stretches[i];
        if (!own->has_backward || own->block_count < FEWEST_PASS_BLOCKS)
            continue;
        training++;
        kept += (double)own->kept_bytes >= LEAST_KEPT * (double)own->asked_bytes;
    }
    return training >= 2 && kept * 2 >= training;
}

/* The most blocks of one stretch that backward passes were seen to use: a pipeline has several
 * forward passes under way before the first backward pass, and so has a loss over many passes. */
static size_t most_used(const kept_search *search)
{
    size_t most = 0;
    for (size_t i = 0; i < search->stretch_count; i++)
        if (search->stretches[i].used_count > most)
            most = search->stretches[i].used_count;
    return most;
}

static void judge_stretches(kept_search *search)
{
    bool is_leak = is_a_training_leak(search);
    double usual = (double)most_used(search);
    for (size_t i = 0; i < search->stretch_count; i++) {
        stretch *own = &search->stretches[i];
        bool has_other_passes = search->training_blocks == 0 ||
                                (double)own->block_count >= MANY_PASSES * search->training_blocks;
        bool may_be_used = !own->has_backward &&
                           (double)(own->kept_count + own->underway_count) < MANY_PASSES * usual;
        own->is_kept = !is_leak && has_other_passes && !may_be_used &&
                       own->kept_count >= FEWEST_KEPT_BLOCKS &&
                       (double)own->kept_bytes >= LEAST_KEPT * (double)own->asked_bytes;
    }
}

/* ---- telling --------------------------------------------------------------------------------- */

typedef struct kept_total {
    uint64_t most_bytes; /* kept at the same time */
    uint32_t instant;
    uint64_t *bytes_by_stack; /* owned */
    size_t stack_count;       /* that have any */
} kept_total;

static vw_status add_up(kept_search *search, kept_total *out)
{
    const vw__doctor_facts *facts = search->facts;
    vw__doctor_result *result = search->result;
    size_t instants = facts->trace->event_count + 1;
    size_t stack_count = facts->model->stack_count;
    int64_t *line = vw__host_alloc_zeroed(instants, sizeof *line);
    out->bytes_by_stack = vw__host_alloc_zeroed(stack_count, sizeof *out->bytes_by_stack);
    if (line == NULL || out->bytes_by_stack == NULL) {
        vw__host_free(line);
        return vw__fail_host_memory(instants * sizeof *line, "the kept activations");
    }
    for (size_t i = 0; i < facts->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &facts->timeline.lifetimes[i];
        if (!result->is_kept_graph[i])
            continue;
        line[lifetime->begin] += (int64_t)lifetime->size_bytes;
        if (lifetime->end < instants)
            line[lifetime->end] -= (int64_t)lifetime->size_bytes;
        out->bytes_by_stack[facts->model->contexts[lifetime->context]] += lifetime->size_bytes;
    }
    int64_t live = 0;
    for (size_t i = 0; i < instants; i++) {
        live += line[i];
        if (live > (int64_t)out->most_bytes) {
            out->most_bytes = (uint64_t)live;
            out->instant = (uint32_t)i;
        }
    }
    vw__host_free(line);
    for (size_t i = 0; i < stack_count; i++)
        out->stack_count += out->bytes_by_stack[i] != 0;
    return VW_OK;
}

static void tell(kept_search *search, kept_total *total)
{
    const vw__doctor_facts *facts = search->facts;
    vw__doctor_result *result = search->result;
    vw__diagnosis_finding *finding = vw__diagnosis_add(
        result->draft, "kept-graph", total->most_bytes,
        "Forward passes keep %s of activations for a backward pass that never comes.",
        VW__DOCTOR_SIZE(total->most_bytes));
    vw__doctor_add_places(facts, total->bytes_by_stack, VW__DOCTOR_PLACES_OF_CALLS, finding);
    uint64_t asked = 0, kept = 0;
    for (size_t i = 0; i < search->stretch_count; i++) {
        asked += search->stretches[i].is_kept ? search->stretches[i].asked_bytes : 0;
        kept += search->stretches[i].is_kept ? search->stretches[i].kept_bytes : 0;
    }
    vw__diagnosis_evidence(
        finding,
        "%s of the bytes that these passes asked for were still alive when "
        "they were over, from %zu different stacks; without a graph a few blocks "
        "are.",
        vw__diagnosis_share(result->draft, asked != 0 ? (double)kept / (double)asked : 0),
        total->stack_count);
    vw__diagnosis_evidence(finding, search->training_blocks > 0
                                        ? "They were not freed by a backward pass, unlike those of "
                                          "the training steps in the same recording."
                                        : "No backward pass was recorded.");
    const vw__remedy *inference = vw__remedy_of(VW__REMEDY_INFERENCE_MODE);
    vw__diagnosis_remedy(finding, "evaluate under inference_mode()",
                         vw__diagnosis_saves(total->most_bytes), VW_BASIS_MEASURED, inference->cost,
                         "with torch.inference_mode():\n    out = model(x)");
    vw__diagnosis_remedy(finding, "keep outputs without their graph",
                         vw__diagnosis_saves(total->most_bytes), VW_BASIS_MEASURED,
                         "a copy to the host for each output", "outs.append(out.detach().cpu())");
}

static vw_status tell_kept(kept_search *search)
{
    const vw__doctor_facts *facts = search->facts;
    vw__doctor_result *result = search->result;
    bool is_any = false;
    for (size_t i = 0; i < search->stretch_count; i++)
        is_any = is_any || search->stretches[i].is_kept;
    for (size_t i = 0; i < facts->timeline.lifetime_count; i++)
        if (result->is_kept_graph[i] &&
            !search->stretches[search->stretch_of_pass[facts->roles.pass_of[i]]].is_kept)
            result->is_kept_graph[i] = false;
    if (!is_any)
        return VW_OK;

    kept_total total = {0};
    vw_status status = add_up(search, &total);
    if (status == VW_OK && total.most_bytes >= LEAST_KEPT_BYTES &&
        total.stack_count >= FEWEST_KEPT_STACKS) {
        result->kept_graph_bytes = total.most_bytes;
        tell(search, &total);
    }
    vw__host_free(total.bytes_by_stack);
    if (result->kept_graph_bytes == 0)
        memset(result->is_kept_graph, 0, facts->timeline.lifetime_count);
    return status;
}

static vw_status search_and_tell(kept_search *search)
{
    VW__TRY(cut_stretches(search));
    if (search->stretch_count == 0)
        return VW_OK;
    count_requests(search);
    VW__TRY(find_training_pass(search));
    for (size_t i = 0; i < search->stretch_count; i++)
        find_last_pass(search, &search->stretches[i]);
    VW__TRY(find_runs(search));
    find_kept(search);
    judge_stretches(search);
    return tell_kept(search);
}

vw_status vw__doctor_kept_graph(const vw__doctor_facts *facts, vw__doctor_result *result)
{
    kept_search search = {.facts = facts, .result = result};
    vw_status status = search_and_tell(&search);
    vw__host_free(search.stretches);
    vw__host_free(search.stretch_of_pass);
    vw__host_free(search.run_of_event);
    vw__host_free(search.runs);
    return status;
}
