/* search.c - tries other settings, the fastest first.
 *
 * Every change has a few options, the first of which is to change nothing. The possible
 * combinations are ordered by the expected time of a step, and tried in that order, each at most
 * once. Most are skipped:
 *
 *   - a combination that contains all changes of one that fits adds nothing;
 *   - if weights, gradients and optimizer state do not fit with the smallest batch and full
 *     checkpointing, no other batch and no other checkpointing helps;
 *   - what does not fit with the smallest batch fits with no other.
 *
 * A budget of blocks to run bounds the rest, so that a search for a model of 80 layers takes as
 * long as for one of 12. */
#include "plan/search.h"

#include <stdlib.h>

#include "base/error.h"
#include "plan/plan_device.h"
#include "plan/plan_model.h"
#include "plan/plan_settings.h"

enum { MOST_BLOCKS = 8000, MOST_TRIALS = 400 };

typedef struct searching {
    const vw_plan_model *model;
    const vw_plan_settings *base;
    double head_share;
    uint64_t spare_bytes; /* of the card */
    vw__plan_search_options options[VW__PLAN_CHANGE_COUNT];
    size_t trials, most_trials;
    vw__plan_found smallest; /* the fastest of those that fit with the least activations */
    vw__plan_search_result *result;
} searching;

/* ---- ways ------------------------------------------------------------------------------------ */

/* One option of each change. */
typedef struct way {
    uint8_t option[VW__PLAN_CHANGE_COUNT]; /* numbers in the lists of options */
    uint8_t change_count;
    double slowdown;
    uint32_t number; /* as listed: what is equal otherwise keeps that order */
} way;

static vw_plan_settings settings_of(const searching *s, const way *w)
{
    uint64_t value[VW__PLAN_CHANGE_COUNT];
    vw_plan_settings made = *s->base;
    for (size_t i = 0; i < VW__PLAN_CHANGE_COUNT; i++)
        value[i] = s->options[i].values[w->option[i]];
    made.attention = (vw_attention)value[VW__PLAN_CHANGE_ATTENTION];
    made.loss_chunks = value[VW__PLAN_CHANGE_LOSS];
    made.precision = (vw_precision)value[VW__PLAN_CHANGE_PRECISION];
    made.optimizer = (vw_optimizer)value[VW__PLAN_CHANGE_OPTIMIZER];
    made.checkpointing = (vw_checkpointing)value[VW__PLAN_CHANGE_CHECKPOINTING];
    made.sharding = (vw_sharding)value[VW__PLAN_CHANGE_SHARDING];
    made.offload = (vw_offload)value[VW__PLAN_CHANGE_OFFLOAD];
    made.batch = value[VW__PLAN_CHANGE_BATCH];
    if (vw__plan_is_training(&made))
        made.accumulation = s->base->accumulation * (s->base->batch / made.batch);
    if (value[VW__PLAN_CHANGE_METHOD] != VW__PLAN_METHOD_ALL_WEIGHTS && made.lora_rank == 0)
        made.lora_rank = VW__REMEDY_LORA_RANK;
    made.is_quantized = value[VW__PLAN_CHANGE_METHOD] == VW__PLAN_METHOD_QLORA;
    made.precision = vw__plan_precision_of(s->model, &made); /* QLoRA has its own */
    return made;
}

/* With FSDP the step is PyTorch's own, over each GPU's parts, and may be the fused one; whether
 * other optimizers can handle such parts is unknown. With ZeRO the step is DeepSpeed's. */
static bool goes_with_sharding(vw_optimizer optimizer, vw_sharding sharding)
{
    return sharding == VW_SHARDING_NONE ||
           (sharding == VW_SHARDING_FSDP && optimizer == VW_OPTIMIZER_ADAMW_FUSED);
}

/* Rejects what vw__plan_settings_check() accepts, and yet nobody should be advised. */
static bool is_sensible(const searching *s, const way *w)
{
    const uint8_t *option = w->option;
    const vw_plan_settings made = settings_of(s, w);
    bool has_other_states = option[VW__PLAN_CHANGE_OPTIMIZER] > 0;
    bool has_method = option[VW__PLAN_CHANGE_METHOD] > 0;
    bool has_offload = option[VW__PLAN_CHANGE_OFFLOAD] > 0;
    bool shares_weights = made.sharding == VW_SHARDING_FSDP || made.sharding == VW_SHARDING_ZERO_3;
    /* An adapter's state is small, and only the weights beneath it are worth another change. */
    if (has_method && (has_other_states || has_offload))
        return false;
    if (has_method && made.sharding != VW_SHARDING_NONE && !shares_weights)
        return false;
    /* The step runs on the CPU, or in the library that shares the state. */
    if (has_other_states && (has_offload || !goes_with_sharding(made.optimizer, made.sharding)))
        return false;
    if (has_offload && (made.sharding != VW_SHARDING_NONE || made.gpus > 1))
        return false;
    /* What is free and better goes with everything else. */
    return option[VW__PLAN_CHANGE_ATTENTION] > 0 ||
           s->options[VW__PLAN_CHANGE_ATTENTION].count == 1 || w->change_count == 0;
}

static bool is_possible(const searching *s, const way *w)
{
    vw_plan_settings made = settings_of(s, w), checked;
    bool is_float32 = made.precision == VW_PRECISION_FP32 || made.precision == VW_PRECISION_TF32;
    if (made.is_quantized && is_float32)
        return false; /* 4-bit weights are multiplied in 16 bits */
    if (made.accumulation > VW__PLAN_MOST_ACCUMULATION)
        return false;
    return vw__plan_settings_check(s->model, &made, &checked) == VW_OK;
}

static bool next_way(const searching *s, way *w)
{
    for (size_t i = 0; i < VW__PLAN_CHANGE_COUNT; i++) {
        if (++w->option[i] < s->options[i].count)
            return true;
        w->option[i] = 0;
    }
    return false;
}

static void count_changes(way *w)
{
    w->change_count = 0;
    for (size_t i = 0; i < VW__PLAN_CHANGE_COUNT; i++)
        w->change_count = (uint8_t)(w->change_count + (w->option[i] > 0));
}

/* Lists all ways but the one that changes nothing; `ways` has room for every combination. */
static size_t list_ways(const searching *s, way *ways)
{
    way w = {.change_count = 0};
    size_t count = 0;
    while (next_way(s, &w)) {
        count_changes(&w);
        if (!is_sensible(s, &w) || !is_possible(s, &w))
            continue;
        vw_plan_settings made = settings_of(s, &w);
        w.slowdown = vw__plan_slowdown_together(s->base, &made, s->head_share);
        w.number = (uint32_t)count;
        ways[count++] = w;
    }
    return count;
}

static int compare_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

/* The fastest first; then the fewest changes. */
static int by_slowdown(const void *left, const void *right)
{
    const way *a = left, *b = right;
    int order = compare_numbers(a->slowdown, b->slowdown);
    if (order == 0)
        order = (int)a->change_count - (int)b->change_count;
    return order != 0 ? order : compare_numbers(a->number, b->number);
}

/* Without a card: the fewest changes first. */
static int by_change_count(const void *left, const void *right)
{
    const way *a = left, *b = right;
    int order = (int)a->change_count - (int)b->change_count;
    return order != 0 ? order : by_slowdown(left, right);
}

/* ---- what is known --------------------------------------------------------------------------- */

enum { UNKNOWN, HOPELESS, POSSIBLE };

/* Whether ways fit at their smallest. */
typedef struct knowledge {
    uint8_t *of_combination; /* by way without its batch: with the smallest batch */
    uint8_t *of_states;      /* without activations too: with the fewest of them */
} knowledge;

static bool is_of_activations(vw__plan_change change)
{
    return change == VW__PLAN_CHANGE_LOSS || change == VW__PLAN_CHANGE_CHECKPOINTING ||
           change == VW__PLAN_CHANGE_ATTENTION;
}

static size_t key_of(const searching *s, const way *w, bool has_activations)
{
    size_t key = 0;
    for (size_t i = 0; i < VW__PLAN_CHANGE_COUNT; i++)
        if (i != VW__PLAN_CHANGE_BATCH &&
            (has_activations || !is_of_activations((vw__plan_change)i)))
            key = key * s->options[i].count + w->option[i];
    return key;
}

static bool fits_card(const searching *s, const vw__plan_trial *trial)
{
    const uint64_t card_bytes = s->base->card_bytes;
    return card_bytes > s->spare_bytes && trial->worst_bytes <= card_bytes - s->spare_bytes;
}

static vw_status try_way(searching *s, const way *w, vw__plan_found *out)
{
    vw__plan_trial trial;
    *out = (vw__plan_found){
        .settings = settings_of(s, w), .slowdown = w->slowdown, .change_count = w->change_count};
    VW__TRY(vw__plan_try(s->model, &out->settings, &trial));
    s->trials++;
    out->distance = vw__plan_distance_of(s->base, &out->settings);
    out->peak_allocated_bytes = trial.peak_allocated_bytes;
    out->device_bytes = trial.device_bytes;
    out->fits = fits_card(s, &trial);
    if (trial.device_bytes < s->result->least_device_bytes)
        s->result->least_device_bytes = trial.device_bytes;
    return VW_OK;
}

/* The way with the smallest batch and, unless `has_activations`, the fewest activations. */
static way smallest_of(const searching *s, const way *w, bool has_activations)
{
    way smallest = *w;
    for (size_t i = 0; i < VW__PLAN_CHANGE_COUNT; i++)
        if (i == VW__PLAN_CHANGE_BATCH ||
            (!has_activations && is_of_activations((vw__plan_change)i)))
            smallest.option[i] = (uint8_t)(s->options[i].count - 1);
    vw_plan_settings made = settings_of(s, &smallest);
    smallest.slowdown = vw__plan_slowdown_together(s->base, &made, s->head_share);
    count_changes(&smallest);
    return smallest;
}

/* Tries the smallest way, once for all ways that share the rest. */
static vw_status is_hopeless(searching *s, const way *w, bool has_activations, uint8_t *known,
                             bool *out)
{
    way smallest = smallest_of(s, w, has_activations);
    if (*known == UNKNOWN && !is_possible(s, &smallest))
        *known = POSSIBLE; /* it cannot be tried */
    if (*known == UNKNOWN) {
        vw__plan_found found;
        VW__TRY(try_way(s, &smallest, &found));
        *known = found.fits ? POSSIBLE : HOPELESS;
        if (found.fits && (!s->smallest.fits || found.slowdown < s->smallest.slowdown))
            s->smallest = found;
    }
    *out = *known == HOPELESS;
    return VW_OK;
}

/* ---- trying ---------------------------------------------------------------------------------- */

/* A way that was tried, and is worth a look. */
typedef struct hit {
    vw__plan_found found;
    way way;
} hit;

typedef struct hits {
    hit *hits; /* the arena's */
    size_t count, capacity;
} hits;

/* Everything that `less` changes, `w` changes as well. */
static bool holds(const way *w, const way *less)
{
    for (size_t i = 0; i < VW__PLAN_CHANGE_COUNT; i++) {
        bool is_held = i == VW__PLAN_CHANGE_BATCH
                           ? less->option[i] <= w->option[i]
                           : less->option[i] == 0 || less->option[i] == w->option[i];
        if (!is_held)
            return false;
    }
    return true;
}

static bool is_needless(const hits *h, const way *w)
{
    for (size_t i = 0; i < h->count; i++)
        if (holds(w, &h->hits[i].way))
            return true;
    return false;
}

static void add_hit(hits *h, const way *w, const vw__plan_found *found)
{
    if (h->count < h->capacity)
        h->hits[h->count++] = (hit){*found, *w};
}

static vw_status try_for_card(searching *s, const way *w, knowledge *known, hits *h)
{
    bool is_out;
    vw__plan_found found;
    if (is_needless(h, w))
        return VW_OK;
    VW__TRY(is_hopeless(s, w, false, &known->of_states[key_of(s, w, false)], &is_out));
    if (is_out)
        return VW_OK;
    uint8_t *of_combination = &known->of_combination[key_of(s, w, true)];
    if (*of_combination == HOPELESS)
        return VW_OK;
    VW__TRY(try_way(s, w, &found));
    if (found.fits)
        add_hit(h, w, &found);
    else
        VW__TRY(is_hopeless(s, w, true, of_combination, &is_out));
    return VW_OK;
}

static vw_status try_all(searching *s, const way *ways, size_t way_count, knowledge *known, hits *h)
{
    bool has_card = s->base->card_bytes > 0;
    for (size_t i = 0; i < way_count && s->trials < s->most_trials && h->count < h->capacity; i++) {
        vw__plan_found found;
        if (has_card) {
            VW__TRY(try_for_card(s, &ways[i], known, h));
            continue;
        }
        VW__TRY(try_way(s, &ways[i], &found));
        add_hit(h, &ways[i], &found);
    }
    return VW_OK;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static int by_rank(const void *left, const void *right)
{
    const vw__plan_found *a = &((const hit *)left)->found, *b = &((const hit *)right)->found;
    int order = compare_numbers(a->slowdown, b->slowdown);
    if (order == 0)
        order = (int)a->distance - (int)b->distance;
    if (order == 0)
        order = (int)a->change_count - (int)b->change_count;
    return order != 0 ? order
                      : (a->peak_allocated_bytes > b->peak_allocated_bytes) -
                            (a->peak_allocated_bytes < b->peak_allocated_bytes);
}

/* `a` is not slower, needs no more memory, and is no farther from what was asked for. */
static bool is_as_good(const vw__plan_found *a, const vw__plan_found *b)
{
    return a->slowdown <= b->slowdown && a->peak_allocated_bytes <= b->peak_allocated_bytes &&
           a->distance <= b->distance;
}

/* A program is written for DeepSpeed's sharding or for PyTorch's. */
static bool share_by_one_library(const vw_plan_settings *a, const vw_plan_settings *b)
{
    return a->sharding == VW_SHARDING_NONE || b->sharding == VW_SHARDING_NONE ||
           (a->sharding == VW_SHARDING_FSDP) == (b->sharding == VW_SHARDING_FSDP);
}

static bool is_autocast(vw_precision precision)
{
    return precision == VW_PRECISION_AMP_BF16 || precision == VW_PRECISION_AMP_FP16;
}

/* Autocast keeps the weights in float32: weights in 16 bits do not stand for it. */
static bool is_of_another_kind(const vw__plan_found *a, const vw__plan_found *b)
{
    return is_autocast(b->settings.precision) && vw__plan_is_half(a->settings.precision);
}

/* With a card, a user who cannot change one thing looks for another: a way competes only with those
 * that change the same things, or more. */
static bool competes(const searching *s, const vw__plan_found *a, const vw__plan_found *b)
{
    if (is_of_another_kind(a, b))
        return false;
    if (s->base->card_bytes == 0)
        return true;
    if (!share_by_one_library(&a->settings, &b->settings))
        return false;
    for (vw__plan_change change = 0; change < VW__PLAN_CHANGE_COUNT; change++)
        if (vw__plan_has_changed(change, s->base, &a->settings) &&
            !vw__plan_has_changed(change, s->base, &b->settings))
            return false;
    return true;
}

static bool is_dominated(const searching *s, const hits *h, size_t number)
{
    const vw__plan_found *it = &h->hits[number].found;
    for (size_t i = 0; i < h->count; i++) {
        const vw__plan_found *other = &h->hits[i].found;
        if (i == number || !is_as_good(other, it) || !competes(s, other, it))
            continue;
        if (i < number || !is_as_good(it, other))
            return true;
    }
    return false;
}

/* Without a card, a way must need a good deal less than the one before it of its kind. */
static bool is_worth_telling(const searching *s, const vw__plan_found *found, uint64_t base_bytes)
{
    enum { LEAST_SHARE = 20 };
    const vw__plan_search_result *result = s->result;
    uint64_t least = base_bytes;
    for (size_t i = 0; i < result->found_count; i++)
        if (result->found[i].distance <= found->distance &&
            !is_of_another_kind(&result->found[i], found) &&
            result->found[i].peak_allocated_bytes < least)
            least = result->found[i].peak_allocated_bytes;
    return s->base->card_bytes > 0 ||
           (found->peak_allocated_bytes < least &&
            least - found->peak_allocated_bytes >= base_bytes / LEAST_SHARE);
}

/* Keeps the Pareto front of speed and need, with room for each distance. */
static void choose(const searching *s, hits *h, uint64_t base_bytes)
{
    size_t room[] = {7, 5, 4};
    vw__plan_search_result *result = s->result;
    qsort(h->hits, h->count, sizeof *h->hits, by_rank);
    for (size_t i = 0; i < h->count && result->found_count < VW__PLAN_SEARCH_MOST_FOUND; i++) {
        const vw__plan_found *found = &h->hits[i].found;
        if (found->peak_allocated_bytes >= base_bytes || room[found->distance] == 0 ||
            is_dominated(s, h, i) || !is_worth_telling(s, found, base_bytes))
            continue;
        room[found->distance]--;
        result->found[result->found_count++] = *found;
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* What a trial costs, in blocks. A chunk of the loss costs about a tenth of a block. */
static size_t blocks_of(const vw_plan_model *model, const vw_plan_settings *base)
{
    enum { CHUNKS_OF_A_BLOCK = 10 };
    size_t blocks = (size_t)(model->shape.layers + model->shape.decoder_layers) + model->line_count;
    for (size_t i = 0; i < sizeof model->resnet.blocks / sizeof model->resnet.blocks[0]; i++)
        blocks += (size_t)model->resnet.blocks[i];
    blocks += (size_t)base->loss_chunks / CHUNKS_OF_A_BLOCK;
    return blocks == 0 ? 1 : blocks;
}

static vw_status run_search(searching *s, way *ways, knowledge *known, hits *h)
{
    size_t count = list_ways(s, ways);
    vw__plan_trial base;
    VW__TRY(vw__plan_try(s->model, s->base, &base));
    s->result->least_device_bytes = base.device_bytes;
    if (fits_card(s, &base))
        return VW_OK; /* it fits as it is */
    qsort(ways, count, sizeof *ways, s->base->card_bytes > 0 ? by_slowdown : by_change_count);
    VW__TRY(try_all(s, ways, count, known, h));
    if (h->count == 0 && s->smallest.fits)
        h->hits[h->count++].found = s->smallest; /* the budget ran out before a better one */
    choose(s, h, base.peak_allocated_bytes);
    s->result->tried_count = s->trials;
    return VW_OK;
}

vw_status vw__plan_search(const vw_plan_model *model, const vw_plan_settings *base,
                          double head_share, uint64_t spare_bytes, vw__plan_search_result *out)
{
    searching s = {.model = model,
                   .base = base,
                   .head_share = head_share,
                   .spare_bytes = spare_bytes,
                   .result = out};
    *out = (vw__plan_search_result){.found_count = 0};
    vw__plan_search_list_options(model, base, s.options);
    size_t limit = 1, budget = MOST_BLOCKS / blocks_of(model, base);
    for (size_t i = 0; i < VW__PLAN_CHANGE_COUNT; i++)
        limit *= s.options[i].count;
    s.most_trials = budget < 20 ? 20 : budget > MOST_TRIALS ? MOST_TRIALS : budget;
    vw__arena arena;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    way *ways = vw__arena_alloc_array(&arena, limit, sizeof *ways, sizeof(double));
    knowledge known = {.of_combination = vw__arena_alloc_array(&arena, limit, 1, 1),
                       .of_states = vw__arena_alloc_array(&arena, limit, 1, 1)};
    hits h = {.capacity = s.most_trials,
              .hits = vw__arena_alloc_array(&arena, s.most_trials, sizeof *h.hits, sizeof(double))};
    bool has_memory =
        ways != NULL && known.of_combination != NULL && known.of_states != NULL && h.hits != NULL;
    vw_status status = has_memory
                           ? run_search(&s, ways, &known, &h)
                           : vw__fail_host_memory(limit * sizeof *ways, "the search of a plan");
    vw__arena_deinit(&arena);
    return status;
}
