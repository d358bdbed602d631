/* transformer.c - a forward pass of a transformer: embedding, layers, head.
 *
 * An encoder-decoder (T5) has an encoder and a decoder, each of settings->sequence tokens. In
 * generation the encoder reads those once, and the decoder begins with one token: what it keeps of
 * the encoder stays as it is, its own keys grow.
 *
 * T5's attention adds a bias that is learned for each distance. It is looked up as [length, length,
 * heads] and turned to [heads, length, length] without a copy, so that its last dimension is not
 * the innermost one: SDPA's fused kernels refuse such a mask, and self-attention falls back to
 * matrix products with all probabilities. Attention from the decoder to the encoder has a bias of
 * zeros, made once and in order: the memory-efficient kernel takes that. */
#include "plan/transformer.h"

/* ---- what every layer is given --------------------------------------------------------------- */

/* Rotation and masks of text. */
static void make_text_tables(vw__plan_run *run, vw__plan_layer_stack *stack)
{
    const vw__plan_style *style = run->model->family->style;
    const vw__plan_attention *shape = &run->model->shape.attention;
    const uint64_t width = shape->rotary_width > 0 ? shape->rotary_width : shape->head_width;
    const uint64_t elements = vw__tape_times(run->tape, stack->queries, width);
    bool has_full = false, has_window = false;
    for (uint64_t i = 0; i < stack->count; i++) {
        has_window |= stack->layers[i].has_window;
        has_full |= !stack->layers[i].has_window;
    }
    if (style->makes_mask_first)
        stack->mask = vw__module_make_causal_mask(run, stack->queries);
    if (style->has_mask_always)
        stack->mask = vw__module_make_full_mask(run, stack->queries);
    if (style->rotary != VW__PLAN_NOT_ROTATED) {
        const vw__dtype dtype =
            style->rotary_floats == VW__PLAN_FLOAT_TABLES ? VW__DTYPE_FLOAT32 : run->dtype;
        stack->cosine = vw__tensor_new(run->tape, elements, dtype);
        stack->sine = vw__tensor_new(run->tape, elements, dtype);
    }
    if (!style->makes_mask_first && !style->has_mask_always && has_full &&
        (stack->is_causal || run->settings->padding > 0))
        stack->mask = vw__module_make_causal_mask(run, stack->queries);
    if (has_window)
        stack->window_mask = vw__module_make_window_mask(run, stack->queries, shape->window);
}

static vw__tensor copy_for_samples(vw__plan_run *run, vw__tensor x)
{
    const uint64_t elements = vw__tape_times(run->tape, x.elements, run->settings->batch);
    return vw__op_apply(run->tape, x, (vw__op_unary){.elements = elements, .dtype = x.dtype});
}

/* The bucket of each pair of positions, and its biases; what a decoder adds to its attention: what
 * is to come is hidden, and nothing of what was encoded. */
static void make_bias_tables(vw__plan_run *run, vw__plan_layer_stack *stack)
{
    const vw__plan_transformer *modules = run->modules;
    const uint64_t heads = run->model->shape.attention.heads;
    const uint64_t pair_count = vw__tape_times(run->tape, stack->queries, stack->keys);
    vw__tape_enter(run->tape, "relative_attention_bias", -1);
    vw__tensor pairs = vw__tensor_new(run->tape, pair_count, VW__DTYPE_INT64);
    stack->bias = vw__op_embedding(run->tape, pairs, stack->buckets, heads);
    if (run->model->family->style->copies_bias)
        vw__tensor_rebind(run->tape, &stack->bias, copy_for_samples(run, stack->bias));
    vw__tensor_drop(run->tape, &pairs);
    vw__tape_leave(run->tape);
    if (!stack->is_causal)
        return;
    const uint64_t scores = vw__tape_times(run->tape, stack->queries, modules->main.keys);
    stack->zeros = vw__tensor_new(run->tape, vw__tape_times(run->tape, scores, heads), run->dtype);
    if (run->settings->attention == VW_ATTENTION_EAGER)
        stack->mask = vw__tensor_new(run->tape, pair_count, run->dtype);
}

static void make_tables(vw__plan_run *run, vw__plan_layer_stack *stack)
{
    stack->mask = vw__tensor_none();
    if (run->model->shape.attention.buckets > 0)
        make_bias_tables(run, stack);
    else if (run->model->shape.attention.span > 0)
        vw__plan_make_distance_tables(run, stack);
    else if (stack->is_causal || run->settings->padding > 0 ||
             run->model->family->style->rotary != VW__PLAN_NOT_ROTATED)
        make_text_tables(run, stack);
}

/* What was made first goes last. */
static void drop_tables(vw__plan_run *run, const vw__plan_layer_stack *stack)
{
    const bool is_mask_last = !run->model->family->style->makes_mask_first;
    for (uint64_t i = stack->outputs != NULL ? stack->count : 0; i-- > 0;)
        vw__tensor_drop(run->tape, &stack->outputs[i]);
    vw__tape_drop_with_graph(run->tape, stack->distances);
    vw__tape_drop_with_graph(run->tape, stack->window_mask);
    if (is_mask_last)
        vw__tape_drop_with_graph(run->tape, stack->mask);
    vw__tape_drop_with_graph(run->tape, stack->sine);
    vw__tape_drop_with_graph(run->tape, stack->cosine);
    if (!is_mask_last)
        vw__tape_drop_with_graph(run->tape, stack->mask);
    vw__tape_drop_with_graph(run->tape, stack->zeros);
    vw__tape_drop_with_graph(run->tape, stack->bias);
}

/* ---- embedding ------------------------------------------------------------------------------- */

/* What is held while the layers run, in the order of its making. */
typedef struct held {
    vw__tensor tensors[5];
    size_t count;
} held;

static vw__tensor hold(held *kept, vw__tensor tensor)
{
    kept->tensors[kept->count++] = tensor;
    return tensor;
}

static void drop_held(vw__plan_run *run, held *kept)
{
    while (kept->count > 0)
        vw__tensor_drop(run->tape, &kept->tensors[--kept->count]);
}

/* Most have them in a buffer. RoBERTa counts them for every sample: a mask of what is no padding,
 * its running sum, and that as int64, from the offset on. So do others that have an offset; but the
 * decoder of an encoder-decoder counts once for all. */
static vw__tensor count_positions(vw__plan_run *run, const vw__plan_layer_stack *stack)
{
    const uint64_t batch = run->settings->batch, length = stack->queries;
    if (run->model->shape.embedding.position_offset == 0 || stack->has_cross)
        return vw__module_make_ids(run, 1, length);
    vw__tensor sums = vw__module_make_ids(run, batch, length);
    vw__tensor numbers = vw__module_make_ids(run, batch, length);
    vw__tensor_drop(run->tape, &sums);
    return numbers;
}

/* Looks up `ids` in `table` and adds that to `x`. */
static void add_rows(vw__plan_run *run, held *kept, vw__tensor ids, vw__tensor table, vw__tensor *x)
{
    vw__tensor rows =
        hold(kept, vw__op_embedding(run->tape, ids, table, vw__plan_embedding_width(run->model)));
    vw__tensor_rebind(run->tape, x, vw__op_add(run->tape, *x, rows));
}

static vw__tensor embed_text(vw__plan_run *run, vw__plan_layer_stack *stack, vw__tensor ids,
                             held *kept)
{
    const vw__plan_style *style = run->model->family->style;
    const vw__plan_transformer *modules = run->modules;
    vw__tape *tape = run->tape;
    const uint64_t width = vw__plan_token_width(run->model);
    vw__tensor x = vw__op_embedding(tape, ids, modules->tokens, width);
    if (width < vw__plan_embedding_width(run->model))
        vw__tensor_rebind(tape, &x, vw__module_apply_linear(run, x, &modules->widen));
    if (style->is_embedding_scaled)
        vw__tensor_rebind(tape, &x, vw__op_mul_scalar(tape, x));
    hold(kept, vw__tensor_hold(tape, x));
    if (run->model->shape.embedding.token_types > 0) {
        vw__tensor kinds = vw__module_make_ids(run, run->settings->batch, stack->queries);
        add_rows(run, kept, hold(kept, kinds), modules->types, &x);
    }
    if (style->has_positions)
        add_rows(run, kept, hold(kept, count_positions(run, stack)), stack->positions, &x);
    if (style->makes_tables_first)
        make_tables(run, stack);
    if (style->embedding_norm != NULL)
        vw__tensor_rebind(tape, &x, vw__module_apply_norm(run, x, &stack->embedding_norm));
    if (style->is_embedding_masked)
        vw__tensor_rebind(tape, &x, vw__op_mul_scalar(tape, x));
    return x;
}

/* Patches, a class token in front of them, and positions. */
static vw__tensor embed_image(vw__plan_run *run, vw__tensor pixels, held *kept)
{
    const vw__plan_transformer *modules = run->modules;
    vw__tape *tape = run->tape;
    const uint64_t side = run->settings->image;
    vw__op_image_shape shape = {run->settings->batch, modules->patches.in, side, side, 1};
    vw__tensor patches = vw__module_apply_conv(run, pixels, &modules->patches, &shape);
    vw__tensor first = vw__op_view(tape, modules->class_token);
    first.elements = run->settings->batch * run->model->shape.hidden; /* expanded: no storage */
    vw__tensor x = vw__op_cat(tape, (vw__tensor[]){first, hold(kept, patches)}, 2);
    vw__tensor_drop(tape, &first);
    vw__tensor_rebind(tape, &x, vw__op_add(tape, x, modules->main.positions));
    return x;
}

/* A spectrum through two convolutions, the second of which halves it, and fixed positions. */
static vw__tensor embed_sound(vw__plan_run *run, const vw__plan_layer_stack *stack,
                              vw__tensor spectrum, held *kept)
{
    const vw__plan_transformer *modules = run->modules;
    const vw__plan_embedding *embedding = &run->model->shape.embedding;
    vw__tape *tape = run->tape;
    vw__op_image_shape shape = {run->settings->batch, embedding->mels, 1, 2 * embedding->sounds, 1};
    vw__tensor x = vw__tensor_hold(tape, spectrum);
    for (size_t i = 0; i < 2; i++) {
        vw__tensor_rebind(tape, &x, vw__module_apply_conv(run, x, &modules->sounds[i], &shape));
        vw__tensor_rebind(tape, &x, vw__op_gelu(tape, x));
    }
    hold(kept, vw__tensor_hold(tape, x));
    add_rows(run, kept, hold(kept, vw__module_make_ids(run, 1, stack->queries)), stack->positions,
             &x);
    return x;
}

/* `kept` is what the caller holds until the layers have run. */
static vw__tensor embed(vw__plan_run *run, vw__plan_layer_stack *stack, vw__tensor input,
                        held *kept)
{
    const vw__plan_style *style = run->model->family->style;
    const vw__plan_embedding *shape = &run->model->shape.embedding;
    const vw__plan_transformer *modules = run->modules;
    if (style->has_embedding_scope)
        vw__tape_enter(run->tape, "embedding", -1);
    vw__tensor x = shape->patch > 0             ? embed_image(run, input, kept)
                   : vw__plan_hears(run, stack) ? embed_sound(run, stack, input, kept)
                                                : embed_text(run, stack, input, kept);
    vw__tensor_rebind(run->tape, &x, vw__module_apply_dropout(run, x, shape->has_dropout));
    if (vw__plan_embedding_width(run->model) < run->model->shape.hidden)
        vw__tensor_rebind(run->tape, &x, vw__module_apply_linear(run, x, &modules->widen));
    if (style->embedding_holds != VW__PLAN_HOLDS_ROWS)
        drop_held(run, kept);
    if (style->embedding_holds == VW__PLAN_HOLDS_RESULT)
        hold(kept, vw__tensor_hold(run->tape, x));
    if (style->has_embedding_scope)
        vw__tape_leave(run->tape);
    return x;
}

/* ---- a stack --------------------------------------------------------------------------------- */

/* From ids or pixels to what the last norm makes. */
static vw__tensor run_stack(vw__plan_run *run, vw__plan_layer_stack *stack, vw__tensor input)
{
    const vw__plan_style *style = run->model->family->style;
    const vw__plan_transformer *modules = run->modules;
    vw__tape *tape = run->tape;
    held kept = {.count = 0};
    if (stack->name != NULL)
        vw__tape_enter(tape, stack->name, -1);
    vw__tensor x = embed(run, stack, input, &kept);
    if (!style->makes_tables_first)
        make_tables(run, stack);
    x = vw__module_run_blocks(run, vw__plan_transformer_block, stack->layers, sizeof *stack->layers,
                              stack->count, x);
    if (vw__plan_has_last_norm(run->model))
        vw__tensor_rebind(tape, &x, vw__module_apply_norm(run, x, &stack->last_norm));
    if (style->narrow != NULL && vw__plan_token_width(run->model) < run->model->shape.hidden)
        vw__tensor_rebind(tape, &x, vw__module_apply_linear(run, x, &modules->narrow));
    if (style->has_last_dropout)
        vw__tensor_rebind(tape, &x,
                          vw__module_apply_dropout(run, x, run->model->shape.has_residual_dropout));
    drop_tables(run, stack);
    drop_held(run, &kept);
    if (stack->name != NULL)
        vw__tape_leave(tape);
    return x;
}

/* ---- one stack ------------------------------------------------------------------------------- */

vw__tensor vw__plan_transformer_forward(vw__plan_run *run)
{
    const vw__plan_embedding *shape = &run->model->shape.embedding;
    vw__plan_transformer *modules = run->modules;
    vw__plan_layer_stack *stack = &modules->main;
    const bool is_image = shape->patch > 0;
    const uint64_t side = is_image ? run->settings->image / shape->patch : 0;
    stack->queries = stack->keys = is_image ? side * side + 1 : run->settings->sequence;
    vw__tensor input = is_image ? vw__module_make_pixels(run, shape->channels)
                                : vw__module_make_ids(run, run->settings->batch, stack->queries);
    vw__tensor x = run_stack(run, stack, input);
    vw__tensor result = vw__plan_transformer_apply_head(run, x, input.elements, stack->is_causal);
    vw__tensor_drop(run->tape, &input);
    return result;
}

/* ---- an encoder and a decoder ---------------------------------------------------------------- */

/* What the encoder reads where it hears: always as long as the model's window. */
static vw__tensor make_spectrum(vw__plan_run *run)
{
    const vw__plan_embedding *shape = &run->model->shape.embedding;
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_DATA);
    const uint64_t columns = vw__tape_times(run->tape, run->settings->batch, 2 * shape->sounds);
    vw__tensor made =
        vw__tensor_new(run->tape, vw__tape_times(run->tape, columns, shape->mels), run->dtype);
    vw__tape_set_use(run->tape, before);
    return made;
}

/* In generation once, with the prompt: what it made is held until the last token. */
static void encode(vw__plan_run *run)
{
    vw__plan_transformer *modules = run->modules;
    if (vw__plan_is_generating(run) && vw__tensor_exists(modules->encoded)) {
        run->block_count += modules->main.count; /* as if they had run: blocks keep their numbers */
        return;
    }
    const bool hears = vw__plan_hears(run, &modules->main);
    const uint64_t length = hears ? run->model->shape.embedding.sounds : run->settings->sequence;
    modules->main.queries = modules->main.keys = length;
    modules->ids =
        hears ? make_spectrum(run) : vw__module_make_ids(run, run->settings->batch, length);
    modules->encoded = run_stack(run, &modules->main, modules->ids);
}

static vw__tensor decode(vw__plan_run *run)
{
    vw__plan_transformer *modules = run->modules;
    vw__plan_layer_stack *decoder = &modules->decoder;
    vw__tape *tape = run->tape;
    decoder->queries = vw__plan_is_generating(run) ? 1 : run->settings->sequence;
    decoder->keys = decoder->queries + vw__plan_tokens_before(run);
    modules->next_known = 0;
    vw__tensor shifted = vw__module_make_ids(run, run->settings->batch, decoder->queries);
    vw__tensor decoded = run_stack(run, decoder, shifted);
    const bool is_scaled = run->model->shape.head.is_tied && run->head != VW_PLAN_HEAD_NONE &&
                           run->model->family->style->is_tied_head_scaled;
    vw__tensor x = is_scaled ? vw__op_mul_scalar(tape, decoded) /* hidden ** -0.5 */
                             : vw__tensor_hold(tape, decoded);
    vw__tensor result = vw__plan_transformer_apply_head(run, x, shifted.elements, false);
    vw__tensor_drop(tape, &decoded);
    vw__tensor_drop(tape, &shifted);
    return result;
}

vw__tensor vw__plan_encoder_decoder_forward(vw__plan_run *run)
{
    vw__plan_transformer *modules = run->modules;
    encode(run);
    if (run->head == VW_PLAN_HEAD_ENCODER) {
        vw__tensor encoded =
            vw__plan_transformer_apply_head(run, modules->encoded, modules->ids.elements, false);
        vw__tensor_drop(run->tape, &modules->ids);
        return encoded;
    }
    vw__tensor result = decode(run);
    if (vw__plan_is_generating(run))
        return result;
    vw__tape_drop_with_graph(run->tape, modules->encoded);
    vw__tensor_drop(run->tape, &modules->ids);
    return result;
}

void vw__plan_encoder_decoder_generate(vw__plan_run *run)
{
    vw__plan_transformer *modules = run->modules;
    const size_t count = 2 * (size_t)modules->decoder.count;
    modules->ids = modules->encoded = vw__tensor_none();
    modules->known = vw__module_alloc(run, count, sizeof *modules->known);
    if (vw__tape_status(run->tape) != VW_OK)
        return;
    for (size_t i = 0; i < count; i++)
        modules->known[i] = vw__tensor_none();
    vw__plan_generate(run);
    for (size_t i = 0; i < count; i++)
        vw__tensor_drop(run->tape, &modules->known[i]);
    vw__tensor_drop(run->tape, &modules->encoded);
    vw__tensor_drop(run->tape, &modules->ids);
}
