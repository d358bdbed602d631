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
    vw__norm_module norm;
    vw__linear_module query, key, value, output;
} t5_attention;

typedef struct t5_layer {
    t5_attention self, cross; /* cross: of a decoder's */
    vw__norm_module norm;
    vw__linear_module gate, inner, outer; /* gate: of a gated one */
} t5_layer;

typedef struct t5_stack {
    t5_layer *layers;
    uint64_t count;
    vw__tensor buckets; /* the learned biases */
    vw__norm_module last_norm;
    const char *name;
    bool is_decoder;
    uint64_t queries, keys;       /* tokens that are read now, and all that they see */
    vw__tensor bias, mask, zeros; /* during a forward pass */
} t5_stack;

typedef struct t5_modules {
    vw__tensor tokens;
    t5_stack encoder, decoder;
    vw__linear_module head;
    t5_stack *stack;         /* the one that runs */
    vw__tensor ids, encoded; /* what the encoder reads, and what it made of it */
    vw__tensor *known;       /* in generation: keys and values of that, of each decoder's layer */
    size_t next_known;       /* in this forward pass */
} t5_modules;

/* ---- parameters ------------------------------------------------------------------------------ */

static t5_attention build_attention(vw__plan_run *run)
{
    const vw__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden, wide = shape->heads * shape->head_width;
    return (t5_attention){
        .query = vw__make_linear(run, "q", hidden, wide, false, VW__LINEAR_ADAPTED),
        .key = vw__make_linear(run, "k", hidden, wide, false, VW__LINEAR_PLAIN),
        .value = vw__make_linear(run, "v", hidden, wide, false, VW__LINEAR_ADAPTED),
        .output = vw__make_linear(run, "o", wide, hidden, false, VW__LINEAR_PLAIN),
        .norm = vw__make_norm(run, "layer_norm", hidden, false)};
}

static void build_layer(vw__plan_run *run, t5_layer *layer, bool is_decoder)
{
    const vw__transformer *shape = &run->model->shape;
    uint64_t hidden = shape->hidden;
    layer->self = build_attention(run);
    if (is_decoder)
        layer->cross = build_attention(run);
    if (shape->is_gated)
        layer->gate = vw__make_linear(run, "wi_0", hidden, shape->inner, false, VW__LINEAR_PLAIN);
    layer->inner = vw__make_linear(run, shape->is_gated ? "wi_1" : "wi", hidden, shape->inner,
                                   false, VW__LINEAR_PLAIN);
    layer->outer = vw__make_linear(run, "wo", shape->inner, hidden, false, VW__LINEAR_PLAIN);
    layer->norm = vw__make_norm(run, "layer_norm", hidden, false);
}

static void build_stack(vw__plan_run *run, t5_stack *stack, uint64_t count)
{
    const vw__transformer *shape = &run->model->shape;
    stack->count = count;
    stack->layers = vw__run_alloc(run, count, sizeof *stack->layers);
    for (uint64_t i = 0; i < count && vw__tape_status(run->tape) == VW_OK; i++)
        build_layer(run, &stack->layers[i], stack->is_decoder);
    stack->buckets = vw__make_table(run, shape->buckets, shape->heads);
    stack->last_norm = vw__make_norm(run, "final_layer_norm", shape->hidden, false);
}

static void build(vw__plan_run *run)
{
    const vw__transformer *shape = &run->model->shape;
    t5_modules *modules = vw__run_alloc(run, 1, sizeof *modules);
    run->modules = modules;
    modules->encoder.zeros = modules->ids = modules->encoded = vw__no_tensor();
    modules->tokens = vw__make_table(run, shape->vocabulary, shape->hidden);
    modules->encoder.name = "encoder";
    modules->decoder.name = "decoder";
    modules->decoder.is_decoder = true;
    build_stack(run, &modules->encoder, shape->layers);
    build_stack(run, &modules->decoder, shape->decoder_layers);
    modules->head = shape->is_tied
                        ? vw__tied_head(run, modules->tokens, shape->hidden, shape->vocabulary)
                        : vw__make_linear(run, "lm_head", shape->hidden, shape->vocabulary, false,
                                          VW__LINEAR_HEAD);
}

/* ---- a layer --------------------------------------------------------------------------------- */

static vw__attention_shape attention_shape(const vw__plan_run *run, bool is_cross)
{
    const t5_modules *modules = run->modules;
    const t5_stack *stack = modules->stack;
    vw__attention_shape attention = vw__self_attention(run, stack->queries);
    attention.key_length = is_cross ? modules->encoder.keys : stack->keys;
    attention.is_causal = stack->is_decoder && !is_cross;
    attention.is_mask_strided = !is_cross;
    return attention;
}

/* The bias; in the decoder each layer hides what is to come in a copy of it. */
static vw__tensor layer_mask(vw__plan_run *run, const t5_stack *stack)
{
    if (!stack->is_decoder)
        return vw__hold(run->tape, stack->bias);
    if (vw__is_tensor(stack->mask))
        return vw__add(run->tape, stack->bias, stack->mask);
    uint64_t pairs = vw__times(run->tape, stack->queries, stack->keys);
    vw__tensor past = vw__tensor_new(run->tape, pairs, VW__BOOL);
    vw__tensor made = vw__where(run->tape, past, stack->bias);
    vw__drop(run->tape, &past);
    return made;
}

/* Keys or values of what is seen. In generation those of the encoder are made with the first token,
 * copied into the cache, and taken from there. */
static vw__tensor project(vw__plan_run *run, vw__tensor seen, const vw__linear_module *module,
                          bool is_cross)
{
    t5_modules *modules = run->modules;
    if (!is_cross || !vw__is_generating(run))
        return vw__apply_linear(run, seen, module);
    vw__tensor *known = &modules->known[modules->next_known++];
    if (!vw__is_tensor(*known)) {
        vw__tensor made = vw__apply_linear(run, seen, module);
        vw__enter(run->tape, "cache", -1);
        *known = vw__contiguous(run->tape, made);
        vw__leave(run->tape);
        vw__drop(run->tape, &made);
    }
    return vw__hold(run->tape, *known);
}

/* x + dropout(o(attention(norm(x)))), over x itself or what was encoded. */
static vw__tensor attend(vw__plan_run *run, const t5_attention *module, vw__tensor x, bool is_cross)
{
    const t5_modules *modules = run->modules;
    const t5_stack *stack = modules->stack;
    const vw__attention_shape shape = attention_shape(run, is_cross);
    vw__tape *tape = run->tape;
    vw__enter(tape, is_cross ? "cross-attention" : "attention", -1);
    vw__tensor normal = vw__apply_t5_norm(run, x, &module->norm);
    vw__tensor seen = is_cross ? modules->encoded : normal;
    vw__tensor query = vw__apply_linear(run, normal, &module->query);
    vw__tensor key = project(run, seen, &module->key, is_cross);
    vw__tensor value = project(run, seen, &module->value, is_cross);
    vw__tensor mask = is_cross ? vw__hold(tape, stack->zeros) : layer_mask(run, stack);
    vw__tensor result = vw__apply_attention(run, query, key, value, mask, &shape);
    vw__drop(tape, &mask);
    vw__rebind(tape, &result, vw__apply_linear(run, result, &module->output));
    vw__drop(tape, &value);
    vw__drop(tape, &key);
    vw__drop(tape, &query);
    vw__tensor dropped = vw__apply_dropout(run, result, run->model->shape.has_residual_dropout);
    vw__tensor made = vw__add(tape, x, dropped);
    vw__drop(tape, &dropped);
    vw__drop(tape, &result);
    vw__drop(tape, &normal);
    vw__leave(tape);
    return made;
}

static vw__tensor apply_gate(vw__plan_run *run, const t5_layer *layer, vw__tensor x)
{
    vw__tape *tape = run->tape;
    if (!run->model->shape.is_gated) {
        vw__tensor inner = vw__apply_linear(run, x, &layer->inner);
        vw__rebind(tape, &inner, vw__apply_activation(run, inner));
        return inner;
    }
    vw__tensor gate = vw__apply_linear(run, x, &layer->gate);
    vw__rebind(tape, &gate, vw__apply_activation(run, gate));
    vw__tensor linear = vw__apply_linear(run, x, &layer->inner);
    vw__tensor made = vw__mul(tape, gate, linear);
    vw__drop(tape, &linear);
    vw__drop(tape, &gate);
    return made;
}

/* x + dropout(wo(dropout(act(wi(norm(x)))))) */
static vw__tensor apply_mlp(vw__plan_run *run, const t5_layer *layer, vw__tensor x)
{
    bool has_dropout = run->model->shape.has_residual_dropout;
    vw__tape *tape = run->tape;
    vw__enter(tape, "mlp", -1);
    vw__tensor fed = vw__apply_t5_norm(run, x, &layer->norm);
    vw__rebind(tape, &fed, apply_gate(run, layer, fed));
    vw__rebind(tape, &fed, vw__apply_dropout(run, fed, has_dropout));
    vw__rebind(tape, &fed, vw__apply_linear(run, fed, &layer->outer));
    vw__tensor dropped = vw__apply_dropout(run, fed, has_dropout);
    vw__tensor made = vw__add(tape, x, dropped);
    vw__drop(tape, &dropped);
    vw__drop(tape, &fed);
    vw__leave(tape);
    return made;
}

/* In float16 each part's result is kept from becoming infinite. */
static void clamp(vw__plan_run *run, vw__tensor *x)
{
    if (x->dtype == VW__FLOAT16)
        vw__rebind(run->tape, x, vw__clamp(run->tape, *x));
}

static vw__tensor block(vw__plan_run *run, const void *place, vw__tensor x)
{
    const t5_layer *layer = place;
    const t5_stack *stack = ((const t5_modules *)run->modules)->stack;
    vw__tensor hidden = attend(run, &layer->self, x, false);
    clamp(run, &hidden);
    if (stack->is_decoder) {
        vw__rebind(run->tape, &hidden, attend(run, &layer->cross, hidden, true));
        clamp(run, &hidden);
    }
    vw__rebind(run->tape, &hidden, apply_mlp(run, layer, hidden));
    clamp(run, &hidden);
    return hidden;
}

static vw__tensor encoder_block(vw__plan_run *run, const void *place, vw__tensor x)
{
    t5_modules *modules = run->modules;
    modules->stack = &modules->encoder;
    return block(run, place, x);
}

static vw__tensor decoder_block(vw__plan_run *run, const void *place, vw__tensor x)
{
    t5_modules *modules = run->modules;
    modules->stack = &modules->decoder;
    return block(run, place, x);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* The bucket of each pair of positions, and its biases. */
static vw__tensor look_up_bias(vw__plan_run *run, const t5_stack *stack)
{
    vw__enter(run->tape, "relative_attention_bias", -1);
    vw__tensor pairs =
        vw__tensor_new(run->tape, vw__times(run->tape, stack->queries, stack->keys), VW__INT64);
    vw__tensor bias = vw__embedding(run->tape, pairs, stack->buckets, run->model->shape.heads);
    vw__drop(run->tape, &pairs);
    vw__leave(run->tape);
    return bias;
}

/* What the decoder adds to its attention: what is to come is hidden, and nothing of what was
 * encoded.
 */
static void make_decoder_masks(vw__plan_run *run, t5_stack *stack)
{
    const t5_modules *modules = run->modules;
    uint64_t scores = vw__times(run->tape, stack->queries, modules->encoder.keys);
    uint64_t pairs = vw__times(run->tape, stack->queries, stack->keys);
    stack->zeros = vw__tensor_new(run->tape, vw__times(run->tape, scores, run->model->shape.heads),
                                  run->dtype);
    stack->mask = run->settings->attention == VW_ATTENTION_EAGER
                      ? vw__tensor_new(run->tape, pairs, run->dtype)
                      : vw__no_tensor();
}

static vw__tensor run_stack(vw__plan_run *run, t5_stack *stack, vw__tensor ids)
{
    const t5_modules *modules = run->modules;
    bool has_dropout = run->model->shape.has_residual_dropout;
    vw__tape *tape = run->tape;
    vw__enter(tape, stack->name, -1);
    vw__tensor tokens = vw__embedding(tape, ids, modules->tokens, run->model->shape.hidden);
    vw__tensor x = vw__apply_dropout(run, tokens, has_dropout);
    stack->bias = look_up_bias(run, stack);
    stack->mask = vw__no_tensor();
    if (stack->is_decoder)
        make_decoder_masks(run, stack);
    x = vw__run_blocks(run, stack->is_decoder ? decoder_block : encoder_block, stack->layers,
                       sizeof *stack->layers, stack->count, x);
    vw__rebind(tape, &x, vw__apply_t5_norm(run, x, &stack->last_norm));
    vw__rebind(tape, &x, vw__apply_dropout(run, x, has_dropout));
    vw__drop_with_graph(tape, stack->mask);
    vw__drop_with_graph(tape, stack->zeros);
    vw__drop_with_graph(tape, stack->bias);
    vw__drop(tape, &tokens);
    vw__leave(tape);
    return x;
}

/* In generation once, with the prompt: what it made is held until the last token. */
static void encode(vw__plan_run *run)
{
    t5_modules *modules = run->modules;
    uint64_t length = run->settings->sequence;
    if (vw__is_generating(run) && vw__is_tensor(modules->encoded)) {
        run->block_count +=
            modules->encoder.count; /* as if they had run: blocks keep their numbers */
        return;
    }
    modules->ids = vw__make_ids(run, run->settings->batch, length);
    modules->encoder.queries = modules->encoder.keys = length;
    modules->encoded = run_stack(run, &modules->encoder, modules->ids);
}

static vw__tensor decode(vw__plan_run *run)
{
    t5_modules *modules = run->modules;
    t5_stack *decoder = &modules->decoder;
    vw__tape *tape = run->tape;
    decoder->queries = vw__is_generating(run) ? 1 : run->settings->sequence;
    decoder->keys = decoder->queries + vw__tokens_before(run);
    modules->next_known = 0;
    vw__tensor shifted = vw__make_ids(run, run->settings->batch, decoder->queries);
    vw__tensor decoded = run_stack(run, decoder, shifted);
    vw__tensor x = run->model->shape.is_tied ? vw__mul_scalar(tape, decoded) /* hidden ** -0.5 */
                                             : vw__hold(tape, decoded);
    vw__tensor result = vw__apply_head(run, x, &modules->head, shifted.elements, false);
    vw__drop(tape, &decoded);
    vw__drop(tape, &shifted);
    return result;
}

static vw__tensor forward(vw__plan_run *run)
{
    t5_modules *modules = run->modules;
    encode(run);
    vw__tensor result = decode(run);
    if (vw__is_generating(run))
        return result;
    vw__drop_with_graph(run->tape, modules->encoded);
    vw__drop(run->tape, &modules->ids);
    return result;
}

static void generate(vw__plan_run *run)
{
    t5_modules *modules = run->modules;
    size_t count = 2 * (size_t)modules->decoder.count;
    modules->ids = modules->encoded = vw__no_tensor();
    modules->known = vw__run_alloc(run, count, sizeof *modules->known);
    if (vw__tape_status(run->tape) != VW_OK)
        return;
    for (size_t i = 0; i < count; i++)
        modules->known[i] = vw__no_tensor();
    vw__generate(run);
    for (size_t i = 0; i < count; i++)
        vw__drop(run->tape, &modules->known[i]);
    vw__drop(run->tape, &modules->encoded);
    vw__drop(run->tape, &modules->ids);
}

static uint64_t usual_length(const vw_plan_model *model)
{
    (void)model; /* distances have no end; it was trained on as many */
    return 512;
}

const vw__family vw__family_t5 = {
    .name = "t5",
    .model_types = (const char *const[]){"t5", NULL},
    .keeps_logits_type = true,
    .usual_length = usual_length,
    .read = vw__read_t5,
    .build = build,
    .forward = forward,
    .generate = generate,
};
