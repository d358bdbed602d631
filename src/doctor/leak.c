/* leak.c - memory that grows step after step and is never let go.
 *
 * Every run holds more at its end than at its beginning: weights, an optimizer's state, caches that
 * fill. What makes a leak is that it *goes on*. So blocks are put together by the stack that asked
 * for them, and of each such group two flows are looked at, step by step: long-lived blocks that
 * were born, and long-lived blocks that died. A block is long-lived if it outlived two whole steps.
 *
 *   warm-up            births in the first steps, none after
 *   a cache that fills births for a while, then either none or as many deaths
 *   load that varies   blocks that die within a step or two: not long-lived at all
 *   a leak             births in every third of the run up to the end, and hardly a death
 *
 * Bytes of live memory are not looked at for this: they vary with the batch, the number of blocks
 * that stay does not. One leak has no births of that kind: a tensor that is replaced by a longer
 * one (torch.cat) every step. It shows as a group whose bytes between steps only ever rise.
 *
 * What is judged ends at the horizon: the failure, or the last request of the program. What is
 * freed after that, when the run ends, was still a leak. Where nothing is found, and the peak comes
 * late, it ends at the peak: the loop may be over before the program is.
 *
 * Which blocks belong together, and whether they stay, is decided here. Whether that goes on is the
 * answer of trend/trend.h, the rule for logs and running jobs, at its strictness for what is
 * counted.
 *
 * Where no steps are known, the trace is cut into equal slices instead, and more of them must
 * agree. That alone would take the first forward pass of a training run for a leak, since a layer's
 * line keeps a block for each layer: so the blocks must come from different passes, and the program
 * must be seen to go round, giving back several times what stays. Without stacks, sizes stand in
 * for them. What we did not do: fit a line to live bytes. It sees a leak of a percent only after
 * hundreds of steps, and takes a long batch at the end for one.
 *
 * What was found is put into words in leak_report.c. */
#include "doctor/leak_parts.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "trend/trend.h"

enum {
    FEWEST_PASSES = 6,  /* that what stays comes from, without steps; counted to 64 */
    LEAST_TURNOVER = 3, /* without steps: what is given back beside what stays, in every third */
    FEWEST_SLICE_BIRTHS = 8, /* slices in which something that stays is born */
    FEWEST_SLICE_BIRTHS_OF_THIRD = 2,
    SIZE_GROUPS = 64, /* of blocks without a stack: by powers of two */
    LONG_LIVED_STEPS = 2,
    MOST_GROUPS = 16384, /* that are followed: those with most alive at the horizon */
    MOST_GROWING = 4,    /* blocks alive of a tensor that is replaced by a longer one */
};

#define LEAST_LEAK_BYTES (UINT64_C(1) << 20)
#define LEAST_GROUP_BYTES (UINT64_C(16) << 10) /* of a group at the horizon, to be followed */
#define NO_GROUP UINT32_MAX
#define LEAST_LEAK_PER_PEAK 500 /* and the peak's 500th part */

/* Deaths beside births, at most; and what is left of what was born, at least. */
#define MOST_DEATHS 0.2
#define LEAST_LEFT 0.7

/* What forward passes ask for grows by so much of what a block grows by: the block follows it. */
#define LEAST_LOAD_GROWTH 0.5

/* ---- time ------------------------------------------------------------------------------------ */

static vw_status choose_ends(vw__leak_search *search)
{
    const vw__steps *steps = &search->facts->steps;
    uint32_t horizon = search->horizon;
    size_t known = 0;
    while (known < steps->end_count && steps->ends[known] < horizon)
        known++;
    search->has_steps = known >= VW__TREND_FEWEST_POINTS;
    search->end_count = search->has_steps ? known + 1 : VW__LEAK_SLICES;
    search->ends = vw__host_alloc(search->end_count * sizeof *search->ends);
    if (search->ends == NULL)
        return vw__fail_host_memory(search->end_count * sizeof *search->ends,
                                    "the search for leaks");
    for (size_t i = 0; i + 1 < search->end_count; i++)
        search->ends[i] = search->has_steps
                              ? steps->ends[i]
                              : (uint32_t)((uint64_t)horizon * (i + 1) / VW__LEAK_SLICES);
    search->ends[search->end_count - 1] = horizon;
    return VW_OK;
}

/* The step in which an event lies: how many ends are not after it. */
static size_t step_of(const vw__leak_search *search, uint32_t event)
{
    size_t low = 0, high = search->end_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (search->ends[middle] <= event)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t bucket_of(const vw__leak_search *search, size_t step)
{
    return step * search->bucket_count / search->end_count;
}

/* ---- groups and flows ------------------------------------------------------------------------ */

static size_t key_of(const vw__leak_search *search, const vw__lifetime *lifetime)
{
    const vw__model *model = search->facts->model;
    uint32_t stack = lifetime->context == VW__MODEL_NO_CONTEXT ? VW__MODEL_EMPTY_STACK
                                                               : model->contexts[lifetime->context];
    if (stack != VW__MODEL_EMPTY_STACK)
        return stack;
    size_t class = 0;
    for (uint64_t size = lifetime->size_bytes; size > 1; size >>= 1)
        class ++;
    return model->stack_count + class;
}

static void add_lifetime(vw__leak_search *search, size_t lifetime_index)
{
    const vw__lifetime *lifetime = &search->facts->timeline.lifetimes[lifetime_index];
    uint32_t horizon = search->horizon;
    if (lifetime->begin >= horizon)
        return;
    if (lifetime->end <= horizon)
        search->freed_bytes[bucket_of(search, step_of(search, lifetime->end - 1))] +=
            lifetime->size_bytes;
    uint32_t index = search->group_of[key_of(search, lifetime)];
    size_t born = step_of(search, lifetime->begin != 0 ? lifetime->begin - 1 : 0);
    bool is_load = lifetime->begin != 0 &&
                   vw__attribution_category(&search->facts->attribution, lifetime->context) ==
                       VW__CATEGORY_FORWARD;
    if (is_load)
        search->asked_bytes[bucket_of(search, born)] += lifetime->size_bytes;
    if (index == NO_GROUP)
        return;
    vw__leak_group *own = &search->groups[index];
    vw__leak_flow *flows = &search->flows[index * search->bucket_count];
    bool is_left = lifetime->end > horizon;
    own->alive_count += is_left;
    if (is_load)
        flows[bucket_of(search, born)].asked_bytes += lifetime->size_bytes;
    size_t died = is_left ? search->end_count - 1 : step_of(search, lifetime->end - 1);

    if (died > born || is_left) { /* it is there between steps */
        size_t first = bucket_of(search, born);
        flows[first].between_bytes += (int64_t)lifetime->size_bytes;
        if (!is_left && bucket_of(search, died) < search->bucket_count)
            flows[bucket_of(search, died)].between_bytes -= (int64_t)lifetime->size_bytes;
        own->context = lifetime->context;
    }
    if (lifetime->begin == 0 || died < born + LONG_LIVED_STEPS)
        return;
    flows[bucket_of(search, born)].born_bytes += lifetime->size_bytes;
    bool is_of_setup = own->key >= search->facts->model->stack_count &&
                       bucket_of(search, born) < search->first_bucket; /* of that size by chance */
    if (is_left && !is_of_setup) {
        own->left_bytes += lifetime->size_bytes;
        own->left_count++;
        own->context = lifetime->context;
        own->passes |= UINT64_C(1) << search->facts->roles.pass_of[lifetime_index] % 64;
    } else if (!is_left) {
        flows[bucket_of(search, died)].died_bytes += lifetime->size_bytes;
    }
}

/* Chooses the groups worth following: whatever leaks is alive at the horizon. */
static vw_status choose_groups(vw__leak_search *search)
{
    const vw__timeline *timeline = &search->facts->timeline;
    uint32_t horizon = search->horizon;
    size_t key_count = search->facts->model->stack_count + SIZE_GROUPS;
    uint64_t *alive_bytes = vw__host_alloc_zeroed(key_count, sizeof *alive_bytes);
    search->group_of = vw__host_alloc(key_count * sizeof *search->group_of);
    if (alive_bytes == NULL || search->group_of == NULL) {
        vw__host_free(alive_bytes);
        return vw__fail_host_memory(key_count * sizeof *alive_bytes, "the search for leaks");
    }
    for (size_t i = 0; i < timeline->lifetime_count; i++)
        if (vw__lifetime_is_live(&timeline->lifetimes[i], horizon))
            alive_bytes[key_of(search, &timeline->lifetimes[i])] +=
                timeline->lifetimes[i].size_bytes;
    for (uint64_t least = LEAST_GROUP_BYTES;; least *= 2) {
        search->group_count = 0;
        for (size_t i = 0; i < key_count; i++)
            search->group_of[i] =
                alive_bytes[i] >= least ? (uint32_t)search->group_count++ : NO_GROUP;
        if (search->group_count <= MOST_GROUPS)
            break;
    }
    vw__host_free(alive_bytes);

    size_t room = search->group_count + 1;
    search->groups = vw__host_alloc_zeroed(room, sizeof *search->groups);
    if (search->groups == NULL)
        return vw__fail_host_memory(room * sizeof *search->groups, "the search for leaks");
    for (size_t i = 0; i < key_count; i++)
        if (search->group_of[i] != NO_GROUP)
            search->groups[search->group_of[i]] =
                (vw__leak_group){.key = i, .context = VW__MODEL_NO_CONTEXT};
    return VW_OK;
}

static vw_status make_flows(vw__leak_search *search)
{
    const vw__timeline *timeline = &search->facts->timeline;
    search->bucket_count =
        search->end_count < VW__LEAK_MOST_BUCKETS ? search->end_count : VW__LEAK_MOST_BUCKETS;
    size_t last_known = search->end_count > LONG_LIVED_STEPS
                            ? search->end_count - LONG_LIVED_STEPS
                            : 0; /* born in this step or later: too young to be long-lived */
    search->usable_count = bucket_of(search, last_known);
    search->first_bucket = 1 + search->usable_count / 16;
    VW__TRY(choose_groups(search));
    size_t flow_count = search->group_count * search->bucket_count;
    search->flows = vw__host_alloc_zeroed(flow_count + 1, sizeof *search->flows);
    if (search->flows == NULL)
        return vw__fail_host_memory(flow_count * sizeof *search->flows, "the search for leaks");
    for (size_t i = 0; i < timeline->lifetime_count; i++)
        if (!search->result->is_kept_graph[i])
            add_lifetime(search, i);
    for (size_t i = 0; i < search->group_count; i++) {
        vw__leak_flow *flows = &search->flows[i * search->bucket_count];
        for (size_t k = 1; k < search->bucket_count; k++)
            flows[k].between_bytes += flows[k - 1].between_bytes;
    }
    return VW_OK;
}

/* ---- judging --------------------------------------------------------------------------------- */

typedef struct third {
    uint64_t born_bytes, died_bytes;
} third;

/* Blocks are counted, not measured. */
static vw__trend counted_trend(const double *buckets, const double *bytes, size_t count)
{
    const vw__trend_series series = {buckets, bytes, count, false};
    vw__trend trend;
    if (vw__trend_find(&series, VW__TREND_COUNTED, &trend) != VW_OK)
        return (vw__trend){.kind = VW__TREND_TOO_SHORT};
    return trend;
}

/* Without steps: does the program go round, and does what stays come from more than one round? */
static bool goes_round(const vw__leak_search *search, const vw__leak_group *own,
                       const third thirds[3], const uint64_t freed_bytes[3])
{
    vw__category category = vw__attribution_category(&search->facts->attribution, own->context);
    bool is_of_a_pass = category == VW__CATEGORY_FORWARD || category == VW__CATEGORY_BACKWARD;
    if (category == VW__CATEGORY_WEIGHTS || category == VW__CATEGORY_LOADED)
        return false; /* a model that is being loaded */
    if (is_of_a_pass && __builtin_popcountll(own->passes) < FEWEST_PASSES)
        return false;
    for (size_t i = 0; i < 3; i++)
        if (freed_bytes[i] / LEAST_TURNOVER < thirds[i].born_bytes)
            return false;
    return true;
}

/* Hardly any of it dies in the later two thirds, and most is left. */
static bool hardly_dies(const vw__leak_group *own, const third thirds[3])
{
    double born = (double)(thirds[0].born_bytes + thirds[1].born_bytes + thirds[2].born_bytes);
    double late_born = (double)(thirds[1].born_bytes + thirds[2].born_bytes);
    double late_died = (double)(thirds[1].died_bytes + thirds[2].died_bytes);
    return late_died <= MOST_DEATHS * late_born &&
           (double)thirds[2].died_bytes <= MOST_DEATHS * (double)thirds[2].born_bytes &&
           (double)own->left_bytes >= LEAST_LEFT * born;
}

static bool goes_on(const vw__leak_search *search, size_t index)
{
    const vw__leak_flow *flows = &search->flows[index * search->bucket_count];
    const vw__leak_group *own = &search->groups[index];
    size_t span = search->usable_count - search->first_bucket;
    double buckets[VW__LEAK_MOST_BUCKETS + 1] = {0}, born_so_far[VW__LEAK_MOST_BUCKETS + 1] = {0};
    third thirds[3] = {{0}};
    uint64_t freed_bytes[3] = {0};
    if (!search->has_steps && vw__attribution_category(&search->facts->attribution, own->context) ==
                                  VW__CATEGORY_KV_CACHE)
        return false; /* pages of one long request */
    for (size_t k = 0; k < span; k++) {
        const vw__leak_flow *from = &flows[search->first_bucket + k];
        freed_bytes[k * 3 / span] += search->freed_bytes[search->first_bucket + k];
        thirds[k * 3 / span].born_bytes += from->born_bytes;
        thirds[k * 3 / span].died_bytes += from->died_bytes;
        buckets[k + 1] = (double)(k + 1);
        born_so_far[k + 1] = born_so_far[k] + (double)from->born_bytes;
    }
    if (!hardly_dies(own, thirds) ||
        (!search->has_steps && !goes_round(search, own, thirds, freed_bytes)))
        return false;
    vw__trend trend = counted_trend(buckets, born_so_far, span + 1);
    return trend.kind == VW__TREND_GROWS &&
           (search->has_steps || (trend.fewest_rises >= FEWEST_SLICE_BIRTHS_OF_THIRD &&
                                  trend.rise_count >= FEWEST_SLICE_BIRTHS));
}

/* Do batches grow, and that block with them? A warm-up of lengths, or a data set sorted by length,
 * makes everything of a forward pass longer; what collects grows while the rest stays. */
static bool grows_with_load(const vw__leak_search *search, const vw__leak_flow *flows)
{
    size_t first = search->first_bucket, end = search->bucket_count - 1, reach = (end - first) / 3;
    double early = 0, late = 0, early_load = 0, late_load = 0;
    for (size_t k = 0; k < reach; k++) {
        size_t from = first + k, to = end - 1 - k;
        early += (double)flows[from].between_bytes;
        late += (double)flows[to].between_bytes;
        early_load += (double)(search->asked_bytes[from] - flows[from].asked_bytes);
        late_load += (double)(search->asked_bytes[to] - flows[to].asked_bytes);
    }
    if (early <= 0 || early_load <= 0)
        return false;
    return late_load / early_load - 1 >= LEAST_LOAD_GROWTH * (late / early - 1);
}

/* One block, replaced by a longer one again and again. Steps must be known, or the line must be
 * outside of every module: a key/value cache within one long request grows in the same way. */
static bool only_grows(const vw__leak_search *search, size_t index)
{
    const vw__leak_group *own = &search->groups[index];
    const vw__leak_flow *flows = &search->flows[index * search->bucket_count];
    vw__category category = vw__attribution_category(&search->facts->attribution, own->context);
    if (category == VW__CATEGORY_KV_CACHE || own->alive_count > MOST_GROWING ||
        (!search->has_steps && category != VW__CATEGORY_OTHER))
        return false;
    double buckets[VW__LEAK_MOST_BUCKETS], between[VW__LEAK_MOST_BUCKETS];
    size_t count = 0;
    for (size_t k = search->first_bucket - 1; k + 1 < search->bucket_count; k++, count++) {
        buckets[count] = (double)k;
        between[count] = (double)flows[k].between_bytes;
    }
    vw__trend trend = counted_trend(buckets, between, count);
    return count > VW__TREND_FEWEST_POINTS && trend.kind == VW__TREND_GROWS && trend.never_falls &&
           trend.rise_count * 10 >= (count - 1) * 7 && !grows_with_load(search, flows);
}

static void judge_groups(vw__leak_search *search)
{
    for (size_t i = 0; i < search->group_count; i++) {
        vw__leak_group *own = &search->groups[i];
        const vw__leak_flow *flows = &search->flows[i * search->bucket_count];
        if (goes_on(search, i)) {
            own->is_leak = true;
        } else if (only_grows(search, i)) {
            own->is_leak = own->is_growing = true;
            own->left_bytes = (uint64_t)(flows[search->bucket_count - 2].between_bytes -
                                         flows[search->first_bucket - 1].between_bytes);
            own->left_count = 1;
        }
        if (own->is_leak)
            search->leaked_bytes += own->left_bytes;
    }
}

/* ---- the search ------------------------------------------------------------------------------ */

static vw_status search_and_tell(vw__leak_search *search)
{
    VW__TRY(choose_ends(search));
    VW__TRY(make_flows(search));
    if (search->usable_count < search->first_bucket + 3)
        return VW_OK; /* fewer than three buckets to compare */
    judge_groups(search);
    search->result->draft->growth.is_known |= search->has_steps;
    uint64_t peak = search->facts->peak_bytes;
    if (search->leaked_bytes < LEAST_LEAK_BYTES ||
        search->leaked_bytes < peak / LEAST_LEAK_PER_PEAK ||
        search->leaked_bytes < search->result->kept_graph_bytes / 8) /* its inputs, and the like */
        return VW_OK;
    search->result->leaked_bytes = search->leaked_bytes;
    return vw__leak_tell(search);
}

static vw_status search_up_to(const vw__doctor_input *input, const vw__doctor_facts *facts,
                              vw__doctor_result *result, uint32_t horizon)
{
    vw__leak_search search = {.input = input, .facts = facts, .result = result, .horizon = horizon};
    if (horizon < VW__LEAK_SLICES)
        return VW_OK;
    vw_status status = search_and_tell(&search);
    vw__host_free(search.ends);
    vw__host_free(search.group_of);
    vw__host_free(search.groups);
    vw__host_free(search.flows);
    return status;
}

/* Did nearly all of the work come before the peak? In steps, where they are known. */
static bool is_peak_late(const vw__doctor_facts *facts)
{
    uint64_t at_peak = vw__steps_of_instant(&facts->steps, facts->peak_instant);
    uint64_t at_end = vw__steps_of_instant(&facts->steps, facts->horizon_instant);
    if (at_end < VW__TREND_FEWEST_POINTS) {
        at_peak = facts->peak_instant;
        at_end = facts->horizon_instant;
    }
    return at_peak * 4 >= at_end * 3;
}

/* What piles up in a loop goes when the loop is left, and the program may go on (a test set, a
 * barrier): then it is seen at the peak only. A peak that comes early is not looked at: what is
 * collected in one epoch, or one evaluation, and let go at its end, is no leak. */
vw_status vw__doctor_leak(const vw__doctor_input *input, const vw__doctor_facts *facts,
                          vw__doctor_result *result)
{
    VW__TRY(search_up_to(input, facts, result, facts->horizon_instant));
    if (result->leaked_bytes != 0 || facts->failure.has_happened || !is_peak_late(facts))
        return VW_OK;
    return search_up_to(input, facts, result, facts->peak_instant);
}
