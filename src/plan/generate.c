/* generate.c - tokens after a prompt, modelled on transformers' generate() with its DynamicCache.
 *
 * A StaticCache has room for all tokens from the first use of a layer on, and does not grow. What
 * is cached in another type than it is computed in is made again from it for every use, one layer
 * at a time.
 *
 * Each layer's cache grows by torch.cat(): old and new exist at once, one layer at a time. Memory
 * rises from token to token, so the peak is in the prompt or at the last token. The run makes the
 * prompt, the first token and the last; the cache grows over the others in one stride, so that a
 * million tokens cost no more than ten. */
#include "plan/plan_run.h"

typedef struct cached_tensor {
    vw__tensor tensor; /* bytes */
    uint64_t window;   /* of its layer; 0: none */
    uint64_t elements; /* that it stands for, of the type they are computed in */
    vw__dtype dtype;
} cached_tensor;

struct vw__plan_key_cache {
    cached_tensor *tensors; /* keys and values of each layer, in turn */
    size_t count, capacity;
    size_t next;          /* in this forward pass */
    uint64_t tokens;      /* read in earlier passes; of an encoder-decoder, by the decoder */
    uint64_t most_tokens; /* when all are generated */
};

bool vw__plan_is_generating(const vw__plan_run *run)
{
    return run->keys != NULL;
}

uint64_t vw__plan_tokens_before(const vw__plan_run *run)
{
    return run->keys == NULL ? 0 : run->keys->tokens;
}

/* A sliding window keeps no more than itself. */
static uint64_t kept_tokens(uint64_t window, uint64_t tokens)
{
    return window > 0 && tokens > window ? window : tokens;
}

static cached_tensor *cached(vw__plan_key_cache *cache, size_t number, uint64_t window)
{
    while (cache->count <= number && cache->count < cache->capacity)
        cache->tensors[cache->count++] =
            (cached_tensor){.tensor = vw__tensor_none(), .window = window};
    return number < cache->count ? &cache->tensors[number] : NULL;
}

/* As many elements as would be computed take so many bytes. */
static uint64_t cached_bytes(const vw__plan_run *run, uint64_t elements, vw__dtype computed)
{
    enum { GROUP = 64, BYTES_OF_SCALE_AND_ZERO = 4 };
    const uint64_t scales = elements / GROUP * BYTES_OF_SCALE_AND_ZERO;
    switch (run->settings->kv_dtype) {
    case VW_KV_DTYPE_BF16:
    case VW_KV_DTYPE_FP16:
        return vw__tape_times(run->tape, elements, 2);
    case VW_KV_DTYPE_FP8:
        return elements;
    case VW_KV_DTYPE_INT8:
        return elements + scales;
    case VW_KV_DTYPE_INT4:
        return elements / 2 + scales;
    default:
        return vw__tape_times(run->tape, elements, vw__dtype_bytes(computed));
    }
}

static bool is_cached_as_computed(const vw__plan_run *run, vw__dtype computed)
{
    switch (run->settings->kv_dtype) {
    case VW_KV_DTYPE_AUTO:
        return true;
    case VW_KV_DTYPE_BF16:
        return computed == VW__DTYPE_BFLOAT16;
    case VW_KV_DTYPE_FP16:
        return computed == VW__DTYPE_FLOAT16;
    default:
        return false;
    }
}

/* What is cached now, in the type of the computation. Held by the caller. */
static vw__tensor read_cache(vw__plan_run *run, const cached_tensor *place, vw__dtype dtype)
{
    if (is_cached_as_computed(run, dtype)) {
        vw__tensor same = vw__tensor_hold(run->tape, place->tensor);
        same.elements = place->elements;
        same.dtype = dtype;
        return same;
    }
    return vw__tensor_new(run->tape, place->elements, dtype);
}

/* Makes room for `elements`; what was there before is copied, and goes. */
static void write_cache(vw__plan_run *run, cached_tensor *place, uint64_t elements, vw__dtype dtype)
{
    place->elements = elements;
    place->dtype = dtype;
    vw__tensor_rebind(
        run->tape, &place->tensor,
        vw__tensor_new(run->tape, cached_bytes(run, elements, dtype), VW__DTYPE_BYTE));
}

vw__tensor vw__plan_cache_keys(vw__plan_run *run, vw__tensor keys,
                               const vw__op_attention_shape *shape)
{
    cached_tensor *place = cached(run->keys, run->keys->next++, shape->window);
    uint64_t token = shape->batch * shape->key_heads * shape->width;
    if (place == NULL || token == 0)
        return vw__tensor_hold(run->tape, keys);
    const bool is_there = vw__tensor_exists(place->tensor);
    const bool is_static = run->settings->has_static_cache;
    uint64_t before = is_there ? place->elements / token : 0;
    uint64_t tokens = is_static ? run->keys->most_tokens : before + keys.elements / token;
    uint64_t elements = vw__tape_times(run->tape, kept_tokens(place->window, tokens), token);
    vw__tape_use use = vw__tape_set_use(run->tape, VW__TAPE_USE_ACTIVATIONS);
    vw__tape_enter(run->tape, "cache", -1);
    if (!is_there || !is_static)
        write_cache(run, place, elements, keys.dtype);
    vw__tensor read = read_cache(run, place, keys.dtype);
    vw__tape_leave(run->tape);
    vw__tape_set_use(run->tape, use);
    return read;
}

/* Grows it by `more` tokens at once. */
static void grow_cache(vw__plan_run *run, uint64_t more)
{
    vw__plan_key_cache *cache = run->keys;
    vw__tape_enter(run->tape, "cache", -1);
    for (size_t i = 0; i < cache->count; i++) {
        cached_tensor *place = &cache->tensors[i];
        uint64_t from = kept_tokens(place->window, cache->tokens);
        uint64_t to = kept_tokens(place->window, cache->tokens + more);
        if (from == 0 || to <= from || run->settings->has_static_cache)
            continue;
        write_cache(run, place, vw__tape_times(run->tape, place->elements / from, to),
                    place->dtype);
    }
    vw__tape_leave(run->tape);
    cache->tokens += more;
}

/* One forward pass of `tokens`. A float32 copy of the logits chooses the next token. */
static void run_once(vw__plan_run *run, uint64_t tokens)
{
    run->keys->next = 0;
    vw__tensor logits = vw__plan_run_forward(run);
    vw__tensor floats = vw__tensor_new(run->tape, logits.elements, VW__DTYPE_FLOAT32);
    vw__tensor_drop(run->tape, &logits);
    vw__tensor_drop(run->tape, &floats);
    run->keys->tokens += tokens;
}

static void run_tokens(vw__plan_run *run, uint64_t count)
{
    const vw_plan_settings *settings = run->settings;
    vw_plan_settings single = *settings;
    single.sequence = 1;
    run->settings = &single;
    run_once(run, 1);
    if (count > 1) {
        grow_cache(run, count - 2);
        run_once(run, 1);
    }
    run->settings = settings;
}

/* In an encoder-decoder the encoder reads the prompt, and the decoder begins with one token. */
static uint64_t first_tokens(const vw__plan_run *run)
{
    return run->model->shape.decoder_layers > 0 ? 1 : run->settings->sequence;
}

void vw__plan_generate(vw__plan_run *run)
{
    vw__plan_key_cache cache = {
        .capacity = 2 * (size_t)(run->model->shape.layers + run->model->shape.decoder_layers)};
    cache.most_tokens = first_tokens(run) + run->settings->generate;
    cache.tensors = vw__module_alloc(run, cache.capacity, sizeof *cache.tensors);
    if (vw__tape_status(run->tape) != VW_OK)
        return;
    run->keys = &cache;
    vw__tape_enter(run->tape, "prompt", -1);
    run_once(run, first_tokens(run));
    vw__tape_leave(run->tape);
    if (run->settings->generate > 1) {
        vw__tape_enter(run->tape, "generation", -1);
        run_tokens(run, run->settings->generate - 1);
        vw__tape_leave(run->tape);
    }
    for (size_t i = 0; i < cache.count; i++)
        vw__tensor_drop(run->tape, &cache.tensors[i].tensor);
    run->keys = NULL;
}
