/* generate.c - tokens after a prompt, after transformers' generate() with its DynamicCache.
 *
 * Each layer's cache grows by torch.cat(): old and new are there at once, one layer at a time. So
 * memory rises from token to token, and the last is the highest, or the prompt is. Both are run,
 * and the first token; what lies between is passed over in one stride, so that a million tokens
 * cost what ten do. */
#include "plan/plan_run.h"

typedef struct cached_tensor {
    hr__tensor tensor;
    uint64_t window; /* of its layer; 0: none */
} cached_tensor;

struct hr__key_cache {
    cached_tensor *tensors; /* keys and values of each layer, in turn */
    size_t count, capacity;
    size_t next;     /* in this forward pass */
    uint64_t tokens; /* that were read in passes before it; of an encoder-decoder, by the decoder */
};

bool hr__is_generating(const hr__plan_run *run)
{
    return run->keys != NULL;
}

uint64_t hr__tokens_before(const hr__plan_run *run)
{
    return run->keys == NULL ? 0 : run->keys->tokens;
}

/* A sliding window keeps no more than itself. */
static uint64_t kept_tokens(uint64_t window, uint64_t tokens)
{
    return window > 0 && tokens > window ? window : tokens;
}

static cached_tensor *cached(hr__key_cache *cache, size_t number, uint64_t window)
{
    while (cache->count <= number && cache->count < cache->capacity)
        cache->tensors[cache->count++] = (cached_tensor){hr__no_tensor(), window};
    return number < cache->count ? &cache->tensors[number] : NULL;
}

hr__tensor hr__cache_keys(hr__plan_run *run, hr__tensor keys, const hr__attention_shape *shape)
{
    cached_tensor *place = cached(run->keys, run->keys->next++, shape->window);
    uint64_t token = shape->batch * shape->key_heads * shape->width;
    if (place == NULL || token == 0)
        return hr__hold(run->tape, keys);
    uint64_t before = hr__is_tensor(place->tensor) ? place->tensor.elements / token : 0;
    uint64_t tokens = kept_tokens(place->window, before + keys.elements / token);
    hr__use use = hr__tape_set_use(run->tape, HR__USE_ACTIVATIONS);
    hr__enter(run->tape, "cache", -1);
    hr__rebind(run->tape, &place->tensor,
               hr__tensor_new(run->tape, hr__times(run->tape, tokens, token), keys.dtype));
    hr__leave(run->tape);
    hr__tape_set_use(run->tape, use);
    return hr__hold(run->tape, place->tensor);
}

/* As if `more` tokens had come. */
static void grow_cache(hr__plan_run *run, uint64_t more)
{
    hr__key_cache *cache = run->keys;
    hr__enter(run->tape, "cache", -1);
    for (size_t i = 0; i < cache->count; i++) {
        hr__tensor *tensor = &cache->tensors[i].tensor;
        uint64_t from = kept_tokens(cache->tensors[i].window, cache->tokens);
        uint64_t to = kept_tokens(cache->tensors[i].window, cache->tokens + more);
        if (from == 0 || to <= from)
            continue;
        uint64_t elements = hr__times(run->tape, tensor->elements / from, to);
        hr__rebind(run->tape, tensor, hr__tensor_new(run->tape, elements, tensor->dtype));
    }
    hr__leave(run->tape);
    cache->tokens += more;
}

/* One forward pass of `tokens`; of its logits a float32 copy is made, and one more token chosen. */
static void run_once(hr__plan_run *run, uint64_t tokens)
{
    run->keys->next = 0;
    hr__tensor logits = hr__run_forward(run);
    hr__tensor floats = hr__tensor_new(run->tape, logits.elements, HR__FLOAT32);
    hr__drop(run->tape, &logits);
    hr__drop(run->tape, &floats);
    run->keys->tokens += tokens;
}

static void run_tokens(hr__plan_run *run, uint64_t count)
{
    const hr_plan_settings *settings = run->settings;
    hr_plan_settings single = *settings;
    single.sequence = 1;
    run->settings = &single;
    run_once(run, 1);
    if (count > 1) {
        grow_cache(run, count - 2);
        run_once(run, 1);
    }
    run->settings = settings;
}

/* An encoder-decoder's prompt is the encoder's: the decoder begins with one token. */
static uint64_t first_tokens(const hr__plan_run *run)
{
    return run->model->shape.decoder_layers > 0 ? 1 : run->settings->sequence;
}

void hr__generate(hr__plan_run *run)
{
    hr__key_cache cache = {
        .capacity = 2 * (size_t)(run->model->shape.layers + run->model->shape.decoder_layers)};
    cache.tensors = hr__run_alloc(run, cache.capacity, sizeof *cache.tensors);
    if (hr__tape_status(run->tape) != HR_OK)
        return;
    run->keys = &cache;
    hr__enter(run->tape, "prompt", -1);
    run_once(run, first_tokens(run));
    hr__leave(run->tape);
    if (run->settings->generate > 1) {
        hr__enter(run->tape, "generation", -1);
        run_tokens(run, run->settings->generate - 1);
        hr__leave(run->tape);
    }
    for (size_t i = 0; i < cache.count; i++)
        hr__drop(run->tape, &cache.tensors[i].tensor);
    run->keys = NULL;
}
