/* step_evidence.c - compares the requests of two steps.
 *
 * A recording states neither batch nor length of a step; the sizes show them. Most requests of a
 * step grow with the product of both (one row for each token), so the ratio that most sizes have in
 * common is the ratio of the products. The length alone shows in the few requests that depend on it
 * otherwise: a table of positions, a mask, the scores of an attention that keeps them. Each of them
 * proposes lengths. A proposal must leave whole numbers of samples and tokens, if those of the
 * asked step are known; the one that explains most requests wins. Where none explains any, lengths
 * are assumed equal.
 *
 * Samples may have two lengths. Where one leaves much unexplained, a second is tried: the ratio
 * that most of the unexplained requests have in common is that of its product with the batch.
 *
 * A trace may state batch and length of its steps: then there is nothing to conclude.
 *
 * What we did not do: trust the blocks of the data. Their role is known only where a stack shows
 * it, and a batch may consist of many. */
#include <stdlib.h> /* qsort */
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "plan/recorded_step.h"

enum {
    MOST_PROPOSALS = 64,        /* requests that propose a length */
    LEAST_COMMON_BYTES = 65536, /* of a request whose ratio counts: small ones are rounded */
    TOLERANCE_BYTES = 64,
    LEAST_SECOND_PART = 20, /* one in so many requests is unexplained: fewer are no second length */
};

static const double tolerance = 0.004; /* of a size: rows that are padded, a token less */
static const double whole_tolerance = 0.01;

/* ---- requests of a step ---------------------------------------------------------------------- */

static int compare_sites(const void *left, const void *right)
{
    const vw__plan_site *one = left, *other = right;
    if (one->stack != other->stack)
        return one->stack < other->stack ? -1 : 1;
    return (one->event > other->event) - (one->event < other->event);
}

/* Fills `sites`, which has room for all events of the step. */
static size_t list_sites(const vw__plan_recorded_run *run, uint32_t step, vw__plan_site *sites)
{
    uint32_t begin, end;
    size_t count = 0;
    vw__plan_recorded_step_range(run, step, &begin, &end);
    for (uint32_t i = begin; i < end; i++) {
        uint32_t context = run->trace->events[i].context;
        if (run->lifetime_of[i] == UINT32_MAX)
            continue;
        sites[count++] = (vw__plan_site){
            .lifetime = run->lifetime_of[i],
            .stack = context != VW__MODEL_NO_CONTEXT ? run->model->contexts[context]
                                                     : (uint32_t)run->model->stack_count,
            .event = i,
            .size_bytes = run->trace->events[i].size_bytes,
        };
    }
    qsort(sites, count, sizeof *sites, compare_sites);
    return count;
}

/* ---- two steps ------------------------------------------------------------------------------- */

/* The same request in two steps. */
typedef struct pair {
    size_t site; /* of the asked step */
    double size, ratio;
    bool is_common; /* large, and its role suggests that it grows with batch x length */
} pair;

/* The factors of all laws. */
typedef struct factors {
    double values[VW_PLAN_LAW_COUNT * VW__PLAN_LENGTH_COUNT];
    size_t count;
} factors;

typedef struct comparison {
    const vw__plan_step_question *question;
    vw__plan_step_laws *known; /* the laws that roles suggest; gets the steps that were compared */
    pair *pairs;
    size_t pair_count;
    double product, second_product; /* of batch and length; the same where there is one length */
    vw__plan_multiples multiples;   /* of the other step */
    factors laws;                   /* by them */
} comparison;

static size_t group_end(const vw__plan_site *sites, size_t count, size_t first)
{
    size_t i = first;
    while (i < count && sites[i].stack == sites[first].stack)
        i++;
    return i;
}

static pair make_pair(const comparison *compared, const vw__plan_site *site, size_t place,
                      uint64_t other_bytes)
{
    double size = (double)site->size_bytes;
    return (pair){
        .site = place,
        .size = size,
        .ratio = size > 0 ? (double)other_bytes / size : 1,
        .is_common = size >= LEAST_COMMON_BYTES && other_bytes != 0 &&
                     compared->known->blocks[site->lifetime].law == VW_PLAN_LAW_BATCH_LENGTH,
    };
}

/* Leaves out stacks that ask more often in one step than in the other. */
static void find_pairs(const vw__plan_step_evidence *evidence, const vw__plan_site *others,
                       size_t other_count, comparison *compared)
{
    size_t i = 0, k = 0;
    compared->pair_count = 0;
    while (i < evidence->site_count && k < other_count) {
        const vw__plan_site *sites = evidence->sites;
        if (sites[i].stack != others[k].stack) {
            size_t *behind = sites[i].stack < others[k].stack ? &i : &k;
            *behind += 1;
            continue;
        }
        size_t end = group_end(sites, evidence->site_count, i);
        size_t other_end = group_end(others, other_count, k);
        for (size_t n = 0; end - i == other_end - k && n < end - i; n++)
            compared->pairs[compared->pair_count++] =
                make_pair(compared, &sites[i + n], i + n, others[k + n].size_bytes);
        i = end;
        k = other_end;
    }
}

static bool explains(const pair *own, double factor)
{
    double wrong = (own->ratio - factor) * own->size;
    wrong = wrong < 0 ? -wrong : wrong;
    return wrong <= TOLERANCE_BYTES || wrong <= tolerance * factor * own->size;
}

static bool is_about(double value, double other)
{
    return value - other <= tolerance * other && other - value <= tolerance * other;
}

static int compare_ratios(const void *left, const void *right)
{
    const pair *one = left, *other = right;
    return (one->ratio > other->ratio) - (one->ratio < other->ratio);
}

/* The ratio that most of the `wanted` pairs have in common, and their number; 1 if there are none.
 * Pairs must be sorted by ratio. */
static double find_mode(const comparison *compared,
                        bool (*wanted)(const comparison *, const pair *), size_t *most)
{
    const pair *pairs = compared->pairs;
    size_t first = 0, count = 0;
    double best = 1, best_size = 0;
    *most = 0;
    for (size_t i = 0; i < compared->pair_count; i++) {
        if (!wanted(compared, &pairs[i]))
            continue;
        count++;
        for (; !is_about(pairs[first].ratio, pairs[i].ratio); first++)
            count -= wanted(compared, &pairs[first]);
        if (count > *most || (count == *most && pairs[i].size > best_size)) {
            *most = count;
            best = pairs[i].ratio;
            best_size = pairs[i].size;
        }
    }
    return best;
}

static bool is_changed(const comparison *compared, const pair *own)
{
    (void)compared;
    return own->is_common && !is_about(own->ratio, 1);
}

/* The ratio that most of the large requests have in common. It is 1 only if more requests have that
 * than any other: some that are expected to grow may be constant. */
static double common_ratio(const comparison *compared)
{
    size_t most, unchanged = 0;
    double best = find_mode(compared, is_changed, &most);
    for (size_t i = 0; i < compared->pair_count; i++)
        unchanged += compared->pairs[i].is_common && is_about(compared->pairs[i].ratio, 1);
    return most >= unchanged ? best : 1;
}

/* ---- batch and lengths ----------------------------------------------------------------------- */

static bool is_whole(double value)
{
    if (!(value >= 0.5) || !(value < 1e15))
        return false;
    double nearest = (double)(uint64_t)(value + 0.5);
    return value - nearest <= whole_tolerance && nearest - value <= whole_tolerance;
}

static vw__plan_multiples multiples_for(const comparison *compared, double batch)
{
    return (vw__plan_multiples){batch, compared->product / batch, compared->second_product / batch};
}

static bool is_possible(const comparison *compared, double batch)
{
    const vw__plan_step_question *question = compared->question;
    if (!(batch > 1e-6) || !(batch < 1e6))
        return false;
    vw__plan_multiples multiples = multiples_for(compared, batch);
    double sequence = (double)question->sequence_now;
    return (question->sequence_now == 0 || is_whole(sequence * multiples.length) ||
            is_whole(sequence * multiples.second_length)) &&
           (question->batch_now == 0 || is_whole((double)question->batch_now * batch));
}

static factors factors_of(vw__plan_multiples multiples)
{
    factors made = {.count = 0};
    unsigned lengths =
        is_about(multiples.length, multiples.second_length) ? 1 : VW__PLAN_LENGTH_COUNT;
    for (unsigned law = 0; law < VW_PLAN_LAW_COUNT; law++)
        for (unsigned which = 0; which < lengths; which++)
            made.values[made.count++] =
                vw__plan_law_factor((vw_plan_law)law, (vw__plan_which_length)which, multiples);
    return made;
}

static bool is_explained_by(const pair *own, const factors *laws)
{
    for (size_t i = 0; i < laws->count; i++)
        if (explains(own, laws->values[i]))
            return true;
    return false;
}

/* Neither constant nor explained by a product. */
static bool is_odd(const comparison *compared, const pair *own)
{
    return own->size > TOLERANCE_BYTES && !explains(own, 1) && !explains(own, compared->product) &&
           !explains(own, compared->second_product);
}

static size_t count_explained(const comparison *compared, double batch)
{
    const factors laws = factors_of(multiples_for(compared, batch));
    size_t count = 0;
    for (size_t i = 0; i < compared->pair_count; i++)
        count +=
            is_odd(compared, &compared->pairs[i]) && is_explained_by(&compared->pairs[i], &laws);
    return count;
}

static double spread(double multiple)
{
    return multiple > 1 ? multiple : 1 / multiple;
}

/* How far batch and lengths are from what they were. */
static double distance(const comparison *compared, double batch)
{
    vw__plan_multiples multiples = multiples_for(compared, batch);
    return spread(multiples.batch) * spread(multiples.length) * spread(multiples.second_length);
}

/* A batch that was proposed, and what it explains. */
typedef struct proposal {
    double batch;
    size_t explained;
} proposal;

/* Takes the batch if it explains more than the best, or as much and is nearer. */
static void try_batch(const comparison *compared, double batch, proposal *best)
{
    if (!is_possible(compared, batch))
        return;
    size_t count = count_explained(compared, batch);
    if (count > best->explained ||
        (count == best->explained && count != 0 &&
         distance(compared, batch) < distance(compared, best->batch) * (1 - tolerance)))
        *best = (proposal){batch, count};
}

/* Most programs keep the length or the batch. Odd requests propose other batches: what the batch
 * would be if the request grew with batch or length alone, or with a square. */
static void find_multiples(comparison *compared)
{
    double one = compared->product, other = compared->second_product;
    proposal best = {one, count_explained(compared, one)};
    size_t proposals = 0;
    try_batch(compared, 1, &best);
    for (size_t i = 0; i < compared->pair_count && proposals < MOST_PROPOSALS; i++) {
        double ratio = compared->pairs[i].ratio;
        if (!is_odd(compared, &compared->pairs[i]) || !(ratio > 0))
            continue;
        const double proposed[] = {ratio,         one / ratio,           one * one / ratio,
                                   other / ratio, other * other / ratio, one * other / ratio};
        proposals++;
        for (size_t n = 0; n < sizeof proposed / sizeof proposed[0]; n++)
            try_batch(compared, proposed[n], &best);
    }
    compared->multiples = multiples_for(compared, best.batch);
    compared->laws = factors_of(compared->multiples);
}

/* Large, and not explained by what was found. */
static bool is_unexplained(const comparison *compared, const pair *own)
{
    return own->is_common && !is_explained_by(own, &compared->laws);
}

static size_t count_unexplained(const comparison *compared)
{
    size_t count = 0;
    for (size_t i = 0; i < compared->pair_count; i++)
        count += is_unexplained(compared, &compared->pairs[i]);
    return count;
}

/* A second length is believed if it explains most of what the first did not. */
static void find_second_length(comparison *compared)
{
    const comparison before = *compared;
    size_t unexplained = count_unexplained(compared), most;
    if (unexplained * LEAST_SECOND_PART < compared->pair_count)
        return;
    compared->second_product = find_mode(&before, is_unexplained, &most);
    find_multiples(compared);
    if (count_unexplained(compared) * 4 > unexplained)
        *compared = before;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void note_matches(vw__plan_step_evidence *evidence, uint32_t step,
                         const comparison *compared)
{
    vw__plan_multiples multiples = compared->multiples;
    vw__plan_step_laws *known = compared->known;
    known->compared[known->compared_count++] = (vw__plan_compared_step){step, multiples};
    known->has_lengths = known->has_lengths || !is_about(multiples.length, 1);
    for (size_t i = 0; i < compared->pair_count; i++) {
        const pair *own = &compared->pairs[i];
        vw__plan_site *site = &evidence->sites[own->site];
        site->comparisons++;
        for (unsigned law = 0; law < VW_PLAN_LAW_COUNT; law++)
            for (unsigned which = 0; which < VW__PLAN_LENGTH_COUNT; which++)
                site->matches[law][which] +=
                    explains(own, vw__plan_law_factor((vw_plan_law)law,
                                                      (vw__plan_which_length)which, multiples));
    }
}

/* By what the trace states, or by what the sizes of requests have in common. */
static void find_size(comparison *compared, uint32_t step)
{
    const vw_plan_traced_size *sizes = compared->question->sizes;
    if (sizes != NULL) {
        const vw_plan_traced_size *own = &sizes[compared->question->step], *other = &sizes[step];
        compared->product = (double)other->batch / (double)own->batch;
        if (own->sequence != 0)
            compared->product *= (double)other->sequence / (double)own->sequence;
        compared->second_product = compared->product;
        compared->multiples = multiples_for(compared, (double)other->batch / (double)own->batch);
        return;
    }
    compared->product = common_ratio(compared);
    compared->second_product = compared->product;
    find_multiples(compared);
    find_second_length(compared);
}

static void compare_with(const vw__plan_recorded_run *run, uint32_t step, vw__plan_site *others,
                         comparison *compared, vw__plan_step_evidence *evidence)
{
    size_t other_count = list_sites(run, step, others);
    find_pairs(evidence, others, other_count, compared);
    qsort(compared->pairs, compared->pair_count, sizeof *compared->pairs, compare_ratios);
    find_size(compared, step);
    if (is_about(compared->product, 1) && is_about(compared->multiples.batch, 1) &&
        is_about(compared->second_product, 1))
        return; /* a step of the same size shows nothing */
    note_matches(evidence, step, compared);
}

static size_t most_events(const vw__plan_recorded_run *run)
{
    size_t most = 0;
    for (uint32_t step = 0; step < run->steps.end_count; step++) {
        uint32_t begin, end;
        vw__plan_recorded_step_range(run, step, &begin, &end);
        most = end - begin > most ? end - begin : most;
    }
    return most;
}

/* Compares with steps spread evenly over the run, without the first. */
static void compare_all(const vw__plan_recorded_run *run, vw__plan_site *others,
                        comparison *compared, vw__plan_step_evidence *evidence)
{
    const vw__plan_step_question *question = compared->question;
    size_t step_count = run->steps.end_count;
    size_t stride = step_count / VW__PLAN_MOST_COMPARED + 1;
    for (size_t step = 1; step < step_count && !question->without_evidence; step += stride)
        if (step != question->step && step != question->unseen_step)
            compare_with(run, (uint32_t)step, others, compared, evidence);
}

vw_status vw__plan_step_evidence_find(const vw__plan_recorded_run *run,
                                      const vw__plan_step_question *question,
                                      vw__plan_step_laws *laws, vw__plan_step_evidence *out)
{
    size_t room = most_events(run) + 1;
    vw__plan_site *others = vw__host_alloc(room * sizeof *others);
    comparison compared = {.question = question,
                           .known = laws,
                           .pairs = vw__host_alloc(room * sizeof *compared.pairs)};
    *out = (vw__plan_step_evidence){.sites = vw__host_alloc(room * sizeof *out->sites)};
    bool has_memory = others != NULL && compared.pairs != NULL && out->sites != NULL;
    if (has_memory) {
        out->site_count = list_sites(run, question->step, out->sites);
        compare_all(run, others, &compared, out);
    }
    vw__host_free(others);
    vw__host_free(compared.pairs);
    if (has_memory)
        return VW_OK;
    vw__plan_step_evidence_deinit(out);
    return vw__fail_host_memory(2 * room * sizeof *others, "the requests of two steps");
}

void vw__plan_step_evidence_deinit(vw__plan_step_evidence *evidence)
{
    vw__host_free(evidence->sites);
    memset(evidence, 0, sizeof *evidence);
}
