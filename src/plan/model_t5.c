/* model_t5.c - T5 with its language head, after transformers' modeling_t5.py: an encoder and a
 * decoder, each of settings->sequence tokens. In generation the encoder reads those once, and the
 * decoder begins with one token: what it keeps of the encoder stays as it is, its own keys grow.
 *
 * Attention adds a bias that is learned for each distance. It is looked up as [length, length,
 * heads] and turned to [heads, length, length] without a copy, so that its last dimension is not
 * the innermost one: SDPA's fused kernels refuse such a mask, and self-attention falls back to
 * matrix products with all probabilities. Attention from the decoder to the encoder has a bias of
 * zeros, made once and in order: the memory-efficient kernel takes that. */
#include "plan/config_families.h"
#include "plan/plan_run.h"

typedef struct t5_attention {
    hr__norm_module norm;
    hr__linear_module query, key, value, output;
} t5_attention;

typedef struct t5_layer {
    t5_attention self, cross; /* cross: of a decoder's */
    hr__norm_module norm;
    hr__linear_module gate, inner, outer; /* gate: of a gated one */
} t5_layer;

typedef struct t5_stack {
    t5_layer *layers;
    uint64_t count;
    hr__tensor buckets; /* the learned biases */
    hr__norm_module last_norm;
    const char *name;
    bool is_decoder;
    uint64_t queries, keys;       /* tokens that are read now, and all that they see */
    hr__tensor bias, mask, zeros; /* during a forward pass */
} t5_stack;

typedef struct t5_modules {
    hr__tensor tokens;
    t5_stack encoder, decoder;
    hr__linear_module head;
    t5_stack *stack;         /* the one that runs */
    hr__tensor ids, encoded; /* what the encoder reads, and what it made of it */
    hr__tensor *known;       /* in generation: keys and values of that, of each decoder's layer */
    size_t next_known;       /* in this forward pass */
} t5_modules;

/* ---- parameters ------------------------------------------------------------------------------ */

static t5_attention build_attention(hr__plan_run *run)
{
    const hr__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden, wide = shape->heads * shape->head_width;
    return (t5_attention){
        .query = hr__make_linear(run, "q", hidden, wide, false, HR__LINEAR_ADAPTED),
        .key = hr__make_linear(run, "k", hidden, wide, false, HR__LINEAR_PLAIN),
        .value = hr__make_linear(run, "v", hidden, wide, false, HR__LINEAR_ADAPTED),
        .output = hr__make_linear(run, "o", wide, hidden, false, HR__LINEAR_PLAIN),
        .norm = hr__make_norm(run, "layer_norm", hidden, false)};
}

static void build_layer(hr__plan_run *run, t5_layer *layer, bool is_decoder)
{
    const hr__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden;
    layer->self = build_attention(run);
    if (is_decoder)
        layer->cross = build_attention(run);
    if (shape->is_gated)
        layer->gate = hr__make_linear(run, "wi_0", hidden, shape->inner, false, HR__LINEAR_PLAIN);
    layer->inner = hr__make_linear(run, shape->is_gated ? "wi_1" : "wi", hidden, shape->inner,
                                   false, HR__LINEAR_PLAIN);
    layer->outer = hr__make_linear(run, "wo", shape->inner, hidden, false, HR__LINEAR_PLAIN);
    layer->norm = hr__make_norm(run, "layer_norm", hidden, false);
}

static void build_stack(hr__plan_run *run, t5_stack *stack, uint64_t count)
{
    const hr__transformer *shape = &run->model->shape;
    stack->count = count;
    stack->layers = hr__run_alloc(run, count, sizeof *stack->layers);
    for (uint64_t i = 0; i < count && hr__tape_status(run->tape) == HR_OK; i++)
        build_layer(run, &stack->layers[i], stack->is_decoder);
    stack->buckets = hr__make_table(run, shape->buckets, shape->heads);
    stack->last_norm = hr__make_norm(run, "final_layer_norm", shape->hidden, false);
}

static void build(hr__plan_run *run)
{
    const hr__transformer *shape = &run->model->shape;
    t5_modules *modules = hr__run_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->encoder.zeros = modules->ids = modules->encoded = hr__no_tensor();
    modules->tokens = hr__make_table(run, shape->vocabulary, shape->hidden);
    modules->encoder.name = "encoder";
    modules->decoder.name = "decoder";
    modules->decoder.is_decoder = true;
    build_stack(run, &modules->encoder, shape->layers);
    build_stack(run, &modules->decoder, shape->decoder_layers);
    modules->head = shape->is_tied
                        ? hr__tied_head(run, modules->tokens, shape->hidden, shape->vocabulary)
                        : hr__make_linear(run, "lm_head", shape->hidden, shape->vocabulary, false,
                                          HR__LINEAR_HEAD);
}

/* ---- a layer --------------------------------------------------------------------------------- */

static hr__attention_shape attention_shape(const hr__plan_run *run, bool is_cross)
{
    const t5_modules *modules = run->modules;
    const t5_stack *stack = modules->stack;
    hr__attention_shape attention = hr__self_attention(run, stack->queries);
    attention.key_length = is_cross ? modules->encoder.keys : stack->keys;
    attention.is_causal = stack->is_decoder && !is_cross;
    attention.is_mask_strided = !is_cross;
    return attention;
}

/* The bias; in the decoder each layer hides what is to come in a copy of it. */
static hr__tensor layer_mask(hr__plan_run *run, const t5_stack *stack)
{
    if (!stack->is_decoder)
        return hr__hold(run->tape, stack->bias);
    if (hr__is_tensor(stack->mask))
        return hr__add(run->tape, stack->bias, stack->mask);
    uint64_t pairs = hr__times(run->tape, stack->queries, stack->keys);
    hr__tensor past = hr__tensor_new(run->tape, pairs, HR__BOOL);
    hr__tensor made = hr__where(run->tape, past, stack->bias);
    hr__drop(run->tape, &past);
    return made;
}

/* Keys or values of what is seen. In generation those of the encoder are made with the first token,
 * copied into the cache, and taken from there. */
static hr__tensor project(hr__plan_run *run, hr__tensor seen, const hr__linear_module *module,
                          bool is_cross)
{
    t5_modules *modules = run->modules;
    if (!is_cross || !hr__is_generating(run))
        return hr__apply_linear(run, seen, module);
    hr__tensor *known = &modules->known[modules->next_known++];
    if (!hr__is_tensor(*known)) {
        hr__tensor made = hr__apply_linear(run, seen, module);
        hr__enter(run->tape, "cache", -1);
        *known = hr__contiguous(run->tape, made);
        hr__leave(run->tape);
        hr__drop(run->tape, &made);
    }
    return hr__hold(run->tape, *known);
}

/* x + dropout(o(attention(norm(x)))), over x itself or what was encoded. */
static hr__tensor attend(hr__plan_run *run, const t5_attention *module, hr__tensor x, bool is_cross)
{
    const t5_modules *modules = run->modules;
    const t5_stack *stack = modules->stack;
    const hr__attention_shape shape = attention_shape(run, is_cross);
    hr__tape *tape = run->tape;
    hr__enter(tape, is_cross ? "cross-attention" : "attention", -1);
    hr__tensor normal = hr__apply_t5_norm(run, x, &module->norm);
    hr__tensor seen = is_cross ? modules->encoded : normal;
    hr__tensor query = hr__apply_linear(run, normal, &module->query);
    hr__tensor key = project(run, seen, &module->key, is_cross);
    hr__tensor value = project(run, seen, &module->value, is_cross);
    hr__tensor mask = is_cross ? hr__hold(tape, stack->zeros) : layer_mask(run, stack);
    hr__tensor result = hr__apply_attention(run, query, key, value, mask, &shape);
    hr__drop(tape, &mask);
    hr__rebind(tape, &result, hr__apply_linear(run, result, &module->output));
    hr__drop(tape, &value);
    hr__drop(tape, &key);
    hr__drop(tape, &query);
    hr__tensor dropped = hr__apply_dropout(run, result, run->model->shape.has_residual_dropout);
    hr__tensor made = hr__add(tape, x, dropped);
    hr__drop(tape, &dropped);
    hr__drop(tape, &result);
    hr__drop(tape, &normal);
    hr__leave(tape);
    return made;
}

static hr__tensor apply_gate(hr__plan_run *run, const t5_layer *layer, hr__tensor x)
{
    hr__tape *tape = run->tape;
    if (!run->model->shape.is_gated) {
        hr__tensor inner = hr__apply_linear(run, x, &layer->inner);
        hr__rebind(tape, &inner, hr__apply_activation(run, inner));
        return inner;
    }
    hr__tensor gate = hr__apply_linear(run, x, &layer->gate);
    hr__rebind(tape, &gate, hr__apply_activation(run, gate));
    hr__tensor linear = hr__apply_linear(run, x, &layer->inner);
    hr__tensor made = hr__mul(tape, gate, linear);
    hr__drop(tape, &linear);
    hr__drop(tape, &gate);
    return made;
}

/* x + dropout(wo(dropout(act(wi(norm(x)))))) */
static hr__tensor apply_mlp(hr__plan_run *run, const t5_layer *layer, hr__tensor x)
{
    bool has_dropout = run->model->shape.has_residual_dropout;
    hr__tape *tape = run->tape;
    hr__enter(tape, "mlp", -1);
    hr__tensor fed = hr__apply_t5_norm(run, x, &layer->norm);
    hr__rebind(tape, &fed, apply_gate(run, layer, fed));
    hr__rebind(tape, &fed, hr__apply_dropout(run, fed, has_dropout));
    hr__rebind(tape, &fed, hr__apply_linear(run, fed, &layer->outer));
    hr__tensor dropped = hr__apply_dropout(run, fed, has_dropout);
    hr__tensor made = hr__add(tape, x, dropped);
    hr__drop(tape, &dropped);
    hr__drop(tape, &fed);
    hr__leave(tape);
    return made;
}

/* In float16 each part's result is kept from becoming infinite. */
static void clamp(hr__plan_run *run, hr__tensor *x)
{
    if (x->dtype == HR__FLOAT16)
        hr__rebind(run->tape, x, hr__clamp(run->tape, *x));
}

static hr__tensor block(hr__plan_run *run, const void *place, hr__tensor x)
{
    const t5_layer *layer = place;
    const t5_stack *stack = ((const t5_modules *)run->modules)->stack;
    hr__tensor hidden = attend(run, &layer->self, x, false);
    clamp(run, &hidden);
    if (stack->is_decoder) {
        hr__rebind(run->tape, &hidden, attend(run, &layer->cross, hidden, true));
        clamp(run, &hidden);
    }
    hr__rebind(run->tape, &hidden, apply_mlp(run, layer, hidden));
    clamp(run, &hidden);
    return hidden;
}

static hr__tensor encoder_block(hr__plan_run *run, const void *place, hr__tensor x)
{
    t5_modules *modules = run->modules;
    modules->stack = &modules->encoder;
    return block(run, place, x);
}

static hr__tensor decoder_block(hr__plan_run *run, const void *place, hr__tensor x)
{
    t5_modules *modules = run->modules;
    modules->stack = &modules->decoder;
    return block(run, place, x);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* The bucket of each pair of positions, and its biases. */
static hr__tensor look_up_bias(hr__plan_run *run, const t5_stack *stack)
{
    hr__enter(run->tape, "relative_attention_bias", -1);
    hr__tensor pairs =
        hr__tensor_new(run->tape, hr__times(run->tape, stack->queries, stack->keys), HR__INT64);
    hr__tensor bias = hr__embedding(run->tape, pairs, stack->buckets, run->model->shape.heads);
    hr__drop(run->tape, &pairs);
    hr__leave(run->tape);
    return bias;
}

/* What the decoder adds to its attention: what is to come is hidden, and nothing of what was
 * encoded.
 */
static void make_decoder_masks(hr__plan_run *run, t5_stack *stack)
{
    const t5_modules *modules = run->modules;
    uint64_t scores = hr__times(run->tape, stack->queries, modules->encoder.keys);
    uint64_t pairs = hr__times(run->tape, stack->queries, stack->keys);
    stack->zeros = hr__tensor_new(run->tape, hr__times(run->tape, scores, run->model->shape.heads),
                                  run->dtype);
    stack->mask = run->settings->attention == HR_ATTENTION_EAGER
                      ? hr__tensor_new(run->tape, pairs, run->dtype)
                      : hr__no_tensor();
}

static hr__tensor run_stack(hr__plan_run *run, t5_stack *stack, hr__tensor ids)
{
    const t5_modules *modules = run->modules;
    bool has_dropout = run->model->shape.has_residual_dropout;
    hr__tape *tape = run->tape;
    hr__enter(tape, stack->name, -1);
    hr__tensor tokens = hr__embedding(tape, ids, modules->tokens, run->model->shape.hidden);
    hr__tensor x = hr__apply_dropout(run, tokens, has_dropout);
    stack->bias = look_up_bias(run, stack);
    stack->mask = hr__no_tensor();
    if (stack->is_decoder)
        make_decoder_masks(run, stack);
    x = hr__run_blocks(run, stack->is_decoder ? decoder_block : encoder_block, stack->layers,
                       sizeof *stack->layers, stack->count, x);
    hr__rebind(tape, &x, hr__apply_t5_norm(run, x, &stack->last_norm));
    hr__rebind(tape, &x, hr__apply_dropout(run, x, has_dropout));
    hr__drop_with_graph(tape, stack->mask);
    hr__drop_with_graph(tape, stack->zeros);
    hr__drop_with_graph(tape, stack->bias);
    hr__drop(tape, &tokens);
    hr__leave(tape);
    return x;
}

/* In generation once, with the prompt: what it made is held until the last token. */
static void encode(hr__plan_run *run)
{
    t5_modules *modules = run->modules;
    uint64_t length = run->settings->sequence;
    if (hr__is_generating(run) && hr__is_tensor(modules->encoded)) {
        run->block_count +=
            modules->encoder.count; /* as if they had run: blocks keep their numbers */
        return;
    }
    modules->ids = hr__make_ids(run, run->settings->batch, length);
    modules->encoder.queries = modules->encoder.keys = length;
    modules->encoded = run_stack(run, &modules->encoder, modules->ids);
}

static hr__tensor decode(hr__plan_run *run)
{
    t5_modules *modules = run->modules;
    t5_stack *decoder = &modules->decoder;
    hr__tape *tape = run->tape;
    decoder->queries = hr__is_generating(run) ? 1 : run->settings->sequence;
    decoder->keys = decoder->queries + hr__tokens_before(run);
    modules->next_known = 0;
    hr__tensor shifted = hr__make_ids(run, run->settings->batch, decoder->queries);
    hr__tensor decoded = run_stack(run, decoder, shifted);
    hr__tensor x = run->model->shape.is_tied ? hr__mul_scalar(tape, decoded) /* hidden ** -0.5 */
                                             : hr__hold(tape, decoded);
    hr__tensor result = hr__apply_head(run, x, &modules->head, shifted.elements, false);
    hr__drop(tape, &decoded);
    hr__drop(tape, &shifted);
    return result;
}

static hr__tensor forward(hr__plan_run *run)
{
    t5_modules *modules = run->modules;
    encode(run);
    hr__tensor result = decode(run);
    if (hr__is_generating(run))
        return result;
    hr__drop_with_graph(run->tape, modules->encoded);
    hr__drop(run->tape, &modules->ids);
    return result;
}

static void generate(hr__plan_run *run)
{
    t5_modules *modules = run->modules;
    size_t count = 2 * (size_t)modules->decoder.count;
    modules->ids = modules->encoded = hr__no_tensor();
    modules->known = hr__run_alloc(run, count, sizeof *modules->known);
    if (hr__tape_status(run->tape) != HR_OK)
        return;
    for (size_t i = 0; i < count; i++)
        modules->known[i] = hr__no_tensor();
    hr__generate(run);
    for (size_t i = 0; i < count; i++)
        hr__drop(run->tape, &modules->known[i]);
    hr__drop(run->tape, &modules->encoded);
    hr__drop(run->tape, &modules->ids);
}

static uint64_t usual_length(const hr_plan_model *model)
{
    (void)model; /* distances have no end; it was trained on as many */
    return 512;
}

const hr__family hr__family_t5 = {
    .name = "t5",
    .model_types = (const char *const[]){"t5", NULL},
    .keeps_logits_type = true,
    .usual_length = usual_length,
    .read = hr__read_t5,
    .build = build,
    .forward = forward,
    .generate = generate,
};
