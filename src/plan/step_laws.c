/* step_laws.c - how each block of a recorded step grows with the batch and the length.
 *
 * Steps of another size in the same recording show it (step_evidence.c). Without them, the role of
 * a block decides: weights, gradients, state and workspaces stay constant. So does what a pass
 * makes that is as large as a weight, or half as large: it is a copy in another precision, or a
 * gradient. Everything else that a pass makes has a row for each token.
 *
 * Scores of attention grow with the square of the length, which one length alone cannot show: what
 * an attention function asked for may be scores if its size is a multiple of that square. */
#include <ctype.h>
#include <stdlib.h> /* qsort, bsearch */
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "plan/recorded_step.h"

enum {
    NEAREST_FRAMES = 2,       /* the innermost ones may be an attention function */
    LEAST_COPY_BYTES = 65536, /* copies of smaller weights are not recognised */
    LEAST_SQUARE = 16,        /* tokens: a smaller square divides too many sizes */
};

/* ---- what blocks are for --------------------------------------------------------------------- */

/* Sizes of weights, or of suspected scores. */
typedef struct weight_sizes {
    uint64_t *sizes; /* owned; sorted */
    size_t count;
} weight_sizes;

static int compare_sizes(const void *left, const void *right)
{
    const uint64_t *one = left, *other = right;
    return (*one > *other) - (*one < *other);
}

static vw_status list_weights(const vw__plan_recorded_run *run, weight_sizes *out)
{
    size_t room = run->timeline.lifetime_count + 1;
    *out = (weight_sizes){.sizes = vw__host_alloc(room * sizeof *out->sizes)};
    if (out->sizes == NULL)
        return vw__fail_host_memory(room * sizeof *out->sizes, "the sizes of weights");
    for (size_t i = 0; i < run->timeline.lifetime_count; i++) {
        const vw__lifetime *lifetime = &run->timeline.lifetimes[i];
        bool is_weight =
            run->roles.roles[i] == VW__ROLE_WEIGHTS || run->roles.roles[i] == VW__ROLE_GRADIENTS;
        if (is_weight && lifetime->size_bytes >= LEAST_COPY_BYTES)
            out->sizes[out->count++] = vw__plan_recorded_request(run, lifetime);
    }
    qsort(out->sizes, out->count, sizeof *out->sizes, compare_sizes);
    return VW_OK;
}

static bool has_size(const weight_sizes *weights, uint64_t size_bytes)
{
    return weights->count != 0 && bsearch(&size_bytes, weights->sizes, weights->count,
                                          sizeof size_bytes, compare_sizes) != NULL;
}

/* In the same precision, or in one with half the bytes. */
static bool is_copy_of_weight(const weight_sizes *weights, uint64_t size_bytes)
{
    return has_size(weights, size_bytes) || has_size(weights, 2 * size_bytes);
}

static vw_plan_law law_by_role(const vw__plan_recorded_run *run, const weight_sizes *weights,
                               size_t place, uint32_t step_begin)
{
    const vw__lifetime *lifetime = &run->timeline.lifetimes[place];
    bool is_optimizers =
        run->roles.passes[run->roles.pass_of[place]].kind == VW__ROLES_PASS_OPTIMIZER;
    bool was_there = lifetime->begin <= step_begin;
    switch ((vw__role)run->roles.roles[place]) {
    case VW__ROLE_ACTIVATIONS:
    case VW__ROLE_TEMPORARIES:
    case VW__ROLE_KV_CACHE:
    case VW__ROLE_DATA:
    case VW__ROLE_UNKNOWN:
        break;
    case VW__ROLE_WEIGHTS:
    case VW__ROLE_GRADIENTS:
    case VW__ROLE_OPTIMIZER:
    case VW__ROLE_WORKSPACE:
    case VW__ROLE_COUNT:
    default:
        return VW_PLAN_LAW_CONSTANT;
    }
    if (is_optimizers || (was_there && lifetime->end == VW__LIFETIME_TO_THE_END))
        return VW_PLAN_LAW_CONSTANT;
    if (was_there && run->roles.roles[place] == VW__ROLE_UNKNOWN)
        return VW_PLAN_LAW_CONSTANT;
    return is_copy_of_weight(weights, vw__plan_recorded_request(run, lifetime))
               ? VW_PLAN_LAW_CONSTANT
               : VW_PLAN_LAW_BATCH_LENGTH;
}

static vw_status guess(const vw__plan_recorded_run *run, const vw__plan_step_question *question,
                       vw__plan_step_laws *laws)
{
    uint32_t begin, end;
    weight_sizes weights;
    VW__TRY(list_weights(run, &weights));
    vw__plan_recorded_step_range(run, question->step, &begin, &end);
    for (size_t i = 0; i < run->timeline.lifetime_count; i++)
        laws->blocks[i].law = (uint8_t)law_by_role(run, &weights, i, begin);
    vw__host_free(weights.sizes);
    return VW_OK;
}

/* ---- what other steps show ------------------------------------------------------------------- */

/* Laws by the number of blocks that follow them, for laws that explain equally many steps. */
static const vw_plan_law by_likelihood[VW_PLAN_LAW_COUNT] = {
    VW_PLAN_LAW_BATCH_LENGTH, VW_PLAN_LAW_BATCH_LENGTH_SQUARE, VW_PLAN_LAW_CONSTANT,
    VW_PLAN_LAW_LENGTH,       VW_PLAN_LAW_LENGTH_SQUARE,       VW_PLAN_LAW_BATCH,
};

static vw__plan_block_law best_of(const vw__plan_site *site, uint8_t guessed)
{
    vw__plan_block_law best = {.law = guessed, .length = VW__PLAN_LENGTH_FIRST};
    for (size_t i = 0; i < VW_PLAN_LAW_COUNT; i++)
        for (uint8_t length = 0; length < VW__PLAN_LENGTH_COUNT; length++)
            if (site->matches[by_likelihood[i]][length] > site->matches[best.law][best.length])
                best = (vw__plan_block_law){.law = (uint8_t)by_likelihood[i], .length = length};
    return best;
}

/* A law holds if three quarters of the steps agree: an odd step may have run something else. */
static void judge(const vw__plan_step_evidence *evidence, vw__plan_step_laws *laws)
{
    for (size_t i = 0; i < evidence->site_count; i++) {
        const vw__plan_site *site = &evidence->sites[i];
        if (site->comparisons == 0)
            continue;
        vw__plan_block_law *block = &laws->blocks[site->lifetime];
        vw__plan_block_law best = best_of(site, block->law);
        if (site->matches[best.law][best.length] * 4 < site->comparisons * 3)
            block->is_irregular = true;
        else
            *block = best;
    }
}

/* ---- squares --------------------------------------------------------------------------------- */

static bool is_attention(const char *name)
{
    static const char word[] = "attention";
    size_t length = sizeof word - 1;
    for (; *name != '\0'; name++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)name[i]) == word[i])
            i++;
        if (i == length)
            return true;
    }
    return false;
}

static bool is_asked_by_attention(const vw__model *model, uint32_t stack)
{
    if (stack >= model->stack_count)
        return false;
    const vw__model_stack *frames = &model->stacks[stack];
    for (uint32_t i = 0; i < frames->count && i < NEAREST_FRAMES; i++) {
        const vw__model_frame *frame = &model->frames[model->frame_ids[frames->first + i]];
        if (is_attention(vw__model_string(model, frame->name)))
            return true;
    }
    return false;
}

static bool is_square(uint64_t size_bytes, const vw__plan_step_question *question)
{
    uint64_t square = question->sequence_now * question->sequence_now * question->batch_now;
    return size_bytes >= square && size_bytes % square == 0;
}

static bool is_of_product(const vw__plan_step_laws *laws, const vw__plan_site *site)
{
    return laws->blocks[site->lifetime].law == VW_PLAN_LAW_BATCH_LENGTH;
}

/* Backward passes have no stacks: there, blocks as large as a suspected one are suspected. */
static void suspect(const vw__plan_recorded_run *run, const vw__plan_step_evidence *evidence,
                    const vw__plan_step_question *question, weight_sizes *suspected,
                    vw__plan_step_laws *laws)
{
    for (size_t i = 0; i < evidence->site_count; i++) {
        const vw__plan_site *site = &evidence->sites[i];
        if (is_of_product(laws, site) && is_square(site->size_bytes, question) &&
            is_asked_by_attention(run->model, site->stack)) {
            laws->blocks[site->lifetime].is_maybe_square = true;
            suspected->sizes[suspected->count++] = site->size_bytes;
        }
    }
    qsort(suspected->sizes, suspected->count, sizeof *suspected->sizes, compare_sizes);
    for (size_t i = 0; i < evidence->site_count; i++) {
        const vw__plan_site *site = &evidence->sites[i];
        uint8_t kind = run->roles.passes[run->roles.pass_of[site->lifetime]].kind;
        if (kind == VW__ROLES_PASS_BACKWARD && is_of_product(laws, site) &&
            has_size(suspected, site->size_bytes))
            laws->blocks[site->lifetime].is_maybe_square = true;
    }
}

static vw_status find_squares(const vw__plan_recorded_run *run,
                              const vw__plan_step_evidence *evidence,
                              const vw__plan_step_question *question, vw__plan_step_laws *laws)
{
    if (laws->has_lengths || question->sequence_now < LEAST_SQUARE ||
        question->sequence_now > UINT32_MAX || question->batch_now == 0 ||
        question->batch_now > UINT32_MAX / question->sequence_now)
        return VW_OK;
    weight_sizes suspected = {
        .sizes = vw__host_alloc((evidence->site_count + 1) * sizeof *suspected.sizes)};
    if (suspected.sizes == NULL)
        return vw__fail_host_memory(evidence->site_count * sizeof *suspected.sizes,
                                    "the sizes of scores");
    suspect(run, evidence, question, &suspected, laws);
    vw__host_free(suspected.sizes);
    return VW_OK;
}

/* ---- together -------------------------------------------------------------------------------- */

static vw_status find(const vw__plan_recorded_run *run, const vw__plan_step_question *question,
                      vw__plan_step_laws *laws)
{
    vw__plan_step_evidence evidence;
    VW__TRY(guess(run, question, laws));
    VW__TRY(vw__plan_step_evidence_find(run, question, laws, &evidence));
    judge(&evidence, laws);
    vw_status status = find_squares(run, &evidence, question, laws);
    vw__plan_step_evidence_deinit(&evidence);
    return status;
}

vw_status vw__plan_step_laws_find(const vw__plan_recorded_run *run,
                                  const vw__plan_step_question *question, vw__plan_step_laws *out)
{
    size_t room = run->timeline.lifetime_count + 1;
    vw__plan_step_laws made = {.blocks = vw__host_alloc_zeroed(room, sizeof *made.blocks)};
    vw_status status = made.blocks == NULL ? vw__fail_host_memory(room * sizeof *made.blocks,
                                                                  "the laws of a step's blocks")
                                           : find(run, question, &made);
    if (status == VW_OK)
        *out = made;
    else
        vw__plan_step_laws_deinit(&made);
    return status;
}

void vw__plan_step_laws_deinit(vw__plan_step_laws *laws)
{
    vw__host_free(laws->blocks);
    memset(laws, 0, sizeof *laws);
}
