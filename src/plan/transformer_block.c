/* transformer_block.c - one layer of a transformer: attention and MLP, as the style has them.
 *
 * When a tensor is let go decides the peak. So a block keeps a list of what it holds, each with the
 * moment until which the Python code holds it, and lets go at those moments, the last made first.
 */
#include "plan/transformer.h"

enum { MOST_HELD = 32 }; /* three parts of at most eight tensors */

typedef struct block {
    vw__plan_run *run;
    vw__tape *tape;
    const vw__plan_style *style;
    const vw__plan_shape *shape;
    const vw__plan_layer *layer;
    struct held {
        vw__tensor tensor;
        vw__plan_moment until;
    } held[MOST_HELD];
    size_t held_count;
    vw__tensor input; /* of the part before, which holds it */
} block;

/* Takes `tensor` over. */
static void hold_until(block *b, vw__tensor tensor, vw__plan_moment until)
{
    b->held[b->held_count++] = (struct held){tensor, until};
}

/* At the end of the block all that is left goes. */
static void let_go(block *b, vw__plan_moment now)
{
    for (size_t i = b->held_count; i-- > 0;)
        if (b->held[i].until == now || now == VW__PLAN_BLOCK_ENDS)
            vw__tensor_drop(b->tape, &b->held[i].tensor);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Keys or values of what was encoded. In generation they are made with the first token, copied into
 * the cache, and taken from there. */
static vw__tensor project_encoded(block *b, const vw__module_linear *module)
{
    vw__plan_transformer *modules = b->run->modules;
    if (!vw__plan_is_generating(b->run))
        return vw__module_apply_linear(b->run, modules->encoded, module);
    vw__tensor *known = &modules->known[modules->next_known++];
    if (!vw__tensor_exists(*known)) {
        vw__tensor made = vw__module_apply_linear(b->run, modules->encoded, module);
        vw__tape_enter(b->tape, "cache", -1);
        *known = vw__op_contiguous(b->tape, made);
        vw__tape_leave(b->tape);
        vw__tensor_drop(b->tape, &made);
    }
    return vw__tensor_hold(b->tape, *known);
}

enum { QUERY, KEY, VALUE, HEAD_KINDS };

/* Parts of one product, which they hold. */
static void project_packed(block *b, vw__tensor x, vw__tensor heads[HEAD_KINDS])
{
    const vw__plan_attention *shape = &b->shape->attention;
    vw__tensor packed = vw__module_apply_linear(b->run, x, &b->layer->self.packed);
    if (b->style->packing == VW__PLAN_SPLIT) {
        vw__op_split(b->tape, packed, HEAD_KINDS, heads);
    } else {
        const uint64_t head = packed.elements / (shape->heads + 2 * shape->key_heads);
        heads[QUERY] = vw__op_slice(b->tape, packed, head * shape->heads);
        heads[KEY] = vw__op_slice(b->tape, packed, head * shape->key_heads);
        heads[VALUE] = vw__op_slice(b->tape, packed, head * shape->key_heads);
    }
    for (size_t i = KEY; b->style->packing == VW__PLAN_INDEXED && i < HEAD_KINDS; i++)
        vw__tensor_rebind(b->tape, &heads[i], vw__op_contiguous(b->tape, heads[i]));
    vw__tensor_drop(b->tape, &packed);
}

static void project(block *b, const vw__plan_attention_module *module, vw__tensor x, bool is_cross,
                    vw__tensor heads[HEAD_KINDS])
{
    const bool has_norm = b->shape->attention.has_query_norm;
    if (b->style->packing != VW__PLAN_SEPARATE) {
        project_packed(b, x, heads);
        return;
    }
    heads[QUERY] = vw__module_apply_linear(b->run, x, &module->query);
    if (b->style->is_query_scaled)
        vw__tensor_rebind(b->tape, &heads[QUERY], vw__op_mul_scalar(b->tape, heads[QUERY]));
    if (has_norm)
        vw__tensor_rebind(b->tape, &heads[QUERY],
                          vw__module_apply_norm(b->run, heads[QUERY], &module->query_norm));
    heads[KEY] = is_cross ? project_encoded(b, &module->key)
                          : vw__module_apply_linear(b->run, x, &module->key);
    if (has_norm)
        vw__tensor_rebind(b->tape, &heads[KEY],
                          vw__module_apply_norm(b->run, heads[KEY], &module->key_norm));
    heads[VALUE] = is_cross ? project_encoded(b, &module->value)
                            : vw__module_apply_linear(b->run, x, &module->value);
}

/* The sines and cosines of every token. */
typedef struct tables {
    vw__tensor cosine, sine;
} tables;

/* Those of the model, or the layer's own. */
static tables take_tables(block *b)
{
    const vw__plan_layer_stack *stack = b->layer->stack;
    const vw__tensor cosine = stack->cosine, sine = stack->sine;
    if (b->style->makes_own_tables)
        return (tables){vw__tensor_new(b->tape, cosine.elements, cosine.dtype),
                        vw__tensor_new(b->tape, sine.elements, sine.dtype)};
    return (tables){vw__tensor_hold(b->tape, cosine), vw__tensor_hold(b->tape, sine)};
}

static vw__tensor rotate_one(block *b, vw__tensor x, const tables *by)
{
    const vw__plan_attention *shape = &b->shape->attention;
    const uint64_t width = shape->rotary_width > 0 ? shape->rotary_width : shape->head_width;
    vw__tensor argument = b->style->rotary_floats == VW__PLAN_FLOAT_COPIES
                              ? vw__op_to(b->tape, x, VW__DTYPE_FLOAT32)
                              : vw__tensor_hold(b->tape, x);
    vw__tensor made =
        b->style->rotary == VW__PLAN_ROTATED
            ? vw__op_rotate(b->tape, argument, by->cosine, by->sine)
            : vw__op_rotate_part(b->tape, argument, by->cosine, by->sine, width, shape->head_width);
    if (b->style->rotary_floats != VW__PLAN_NO_FLOATS)
        vw__tensor_rebind(b->tape, &made, vw__op_to(b->tape, made, x.dtype));
    vw__tensor_drop(b->tape, &argument);
    return made;
}

static void rotate(block *b, vw__tensor *query, vw__tensor *key)
{
    tables by = take_tables(b);
    vw__tensor turned = rotate_one(b, *query, &by);
    if (b->style->rotates_in_turn)
        vw__tensor_drop(b->tape, query);
    vw__tensor turned_key = rotate_one(b, *key, &by);
    vw__tensor_drop(b->tape, &by.sine);
    vw__tensor_drop(b->tape, &by.cosine);
    vw__tensor_rebind(b->tape, query, turned);
    vw__tensor_rebind(b->tape, key, turned_key);
}

/* What is added to the scores. A learned bias is copied in each layer of a decoder, to hide what is
 * to come. */
static vw__tensor layer_mask(block *b, bool is_cross)
{
    const vw__plan_layer_stack *stack = b->layer->stack;
    if (is_cross)
        return vw__tensor_hold(b->tape, stack->zeros);
    if (!vw__tensor_exists(stack->bias))
        return vw__tensor_hold(b->tape, b->layer->has_window ? stack->window_mask : stack->mask);
    if (!stack->is_causal)
        return vw__tensor_hold(b->tape, stack->bias);
    if (vw__tensor_exists(stack->mask))
        return vw__op_add(b->tape, stack->bias, stack->mask);
    vw__tensor past = vw__tensor_new(b->tape, vw__tape_times(b->tape, stack->queries, stack->keys),
                                     VW__DTYPE_BOOL);
    vw__tensor made = vw__op_where(b->tape, past, stack->bias);
    vw__tensor_drop(b->tape, &past);
    return made;
}

static vw__op_attention_shape attention_shape(const block *b, bool is_cross)
{
    const vw__plan_layer_stack *stack = b->layer->stack;
    const vw__plan_transformer *modules = b->run->modules;
    vw__op_attention_shape made = vw__module_self_attention(b->run, stack->queries);
    made.key_length = is_cross ? modules->main.keys : stack->keys;
    made.window = b->layer->has_window ? b->shape->attention.window : 0;
    made.is_causal = stack->is_causal && !is_cross;
    made.is_mask_strided = b->shape->attention.buckets > 0 && !is_cross;
    made.is_query_joined = b->style->is_query_joined;
    made.keeps_key_heads = b->style->keeps_key_heads;
    made.has_capped_scores = b->shape->attention.has_capped_scores;
    return made;
}

/* All are put in order, and there are as many keys and values as queries from here on. */
static void repeat_first(block *b, vw__tensor heads[HEAD_KINDS], vw__op_attention_shape *shape)
{
    vw__tensor_rebind(b->tape, &heads[QUERY], vw__op_contiguous(b->tape, heads[QUERY]));
    for (size_t i = KEY; i < HEAD_KINDS; i++)
        vw__tensor_rebind(b->tape, &heads[i], vw__op_repeat_heads(b->tape, heads[i], shape));
    shape->key_heads = shape->heads;
}

/* What the output's product reads. */
static vw__tensor attend_to_heads(block *b, vw__tensor x, bool is_cross)
{
    const vw__plan_attention_module *module = is_cross ? &b->layer->cross : &b->layer->self;
    vw__op_attention_shape shape = attention_shape(b, is_cross);
    vw__tensor heads[HEAD_KINDS];
    project(b, module, x, is_cross, heads);
    for (size_t i = 0; b->shape->attention.is_clipped && i < HEAD_KINDS; i++)
        vw__op_clamp_in_place(b->tape, &heads[i]);
    if (b->shape->attention.repeats_first)
        repeat_first(b, heads, &shape);
    if (b->layer->is_rotated)
        rotate(b, &heads[QUERY], &heads[KEY]);
    if (b->style->packing == VW__PLAN_SPLIT) /* the values are a view of the product until then */
        hold_until(b, heads[VALUE], b->style->holds.heads);
    hold_until(b, heads[QUERY], b->style->holds.heads);
    hold_until(b, heads[KEY], b->style->holds.heads);
    if (b->style->packing != VW__PLAN_SPLIT)
        hold_until(b, heads[VALUE], b->style->holds.heads);
    vw__tensor mask = layer_mask(b, is_cross);
    vw__tensor context =
        vw__module_apply_attention(b->run, heads[QUERY], heads[KEY], heads[VALUE], mask, &shape);
    vw__tensor_drop(b->tape, &mask);
    return context;
}

static vw__tensor attend(block *b, vw__tensor x, bool is_cross)
{
    const vw__plan_attention_module *module = is_cross ? &b->layer->cross : &b->layer->self;
    vw__tensor context = b->shape->attention.span > 0
                             ? vw__plan_attend_by_distance(b->run, b->layer, x)
                             : attend_to_heads(b, x, is_cross);
    hold_until(b, context, b->style->holds.context);
    let_go(b, VW__PLAN_OUTPUT_BEGINS);
    vw__tensor made = vw__module_apply_linear(b->run, context, &module->output);
    let_go(b, VW__PLAN_OUTPUT_ENDS);
    return made;
}

/* ---- MLP ------------------------------------------------------------------------------------- */

/* up(x) * act(gate(x)), the halves of one product. */
static vw__tensor activate_packed(block *b, vw__tensor x)
{
    vw__tensor halves[2];
    vw__tensor packed = vw__module_apply_linear(b->run, x, &b->layer->packed_gate);
    vw__op_split(b->tape, packed, 2, halves);
    vw__tensor_rebind(b->tape, &halves[0], vw__module_apply_activation(b->run, halves[0]));
    vw__tensor made = vw__op_mul(b->tape, halves[1], halves[0]);
    vw__tensor_drop(b->tape, &halves[0]);
    vw__tensor_drop(b->tape, &halves[1]);
    vw__tensor_drop(b->tape, &packed);
    return made;
}

vw__tensor vw__plan_apply_gate(vw__plan_run *run, vw__tensor x, const vw__module_linear *gate,
                               const vw__module_linear *inner)
{
    vw__tensor made = vw__module_apply_linear(run, x, gate);
    vw__tensor_rebind(run->tape, &made, vw__module_apply_activation(run, made));
    vw__tensor up = vw__module_apply_linear(run, x, inner);
    vw__tensor product = vw__op_mul(run->tape, made, up);
    vw__tensor_drop(run->tape, &up);
    vw__tensor_drop(run->tape, &made);
    return product;
}

/* act(inner(x)), or with a gate. */
static vw__tensor activate(block *b, vw__tensor x)
{
    if (b->shape->mlp.is_gated && b->style->packed_gate != NULL)
        return activate_packed(b, x);
    if (b->shape->mlp.is_gated)
        return vw__plan_apply_gate(b->run, x, &b->layer->gate, &b->layer->inner);
    vw__tensor made = vw__module_apply_linear(b->run, x, &b->layer->inner);
    vw__tensor_rebind(b->tape, &made, vw__module_apply_activation(b->run, made));
    return made;
}

static vw__tensor feed(block *b, vw__tensor x)
{
    vw__tensor made;
    if (b->shape->mlp.experts > 0) {
        made = vw__plan_apply_experts(b->run, &b->layer->experts, x);
    } else {
        vw__tensor inner = activate(b, x);
        let_go(b, VW__PLAN_OUTPUT_BEGINS);
        vw__tensor_rebind(b->tape, &inner,
                          vw__module_apply_dropout(b->run, inner, b->shape->mlp.has_dropout));
        hold_until(b, inner, b->style->holds.context);
        made = vw__module_apply_linear(b->run, inner, &b->layer->outer);
    }
    let_go(b, VW__PLAN_OUTPUT_ENDS);
    return made;
}

/* ---- parts and blocks ------------------------------------------------------------------------ */

typedef struct part {
    const char *scope;
    const vw__module_norm *norm, *outer_norm;
    bool is_cross, is_mlp;
    bool is_sharing; /* reads what the part before did, behind the same norm */
} part;

/* Is the norm before the part? */
static bool is_normed_first(const block *b)
{
    const vw__plan_topology topology = vw__plan_topology_of(b->run->model);
    return topology == VW__PLAN_PRE_NORM || topology == VW__PLAN_PARALLEL;
}

/* Dropout, and a factor. */
static vw__tensor finish_part(block *b, const part *p, vw__tensor made)
{
    const bool has_dropout =
        b->shape->has_residual_dropout &&
        b->style->drops != (p->is_mlp ? VW__PLAN_DROPS_ATTENTION : VW__PLAN_DROPS_MLP);
    vw__tensor dropped = vw__module_apply_dropout(b->run, made, has_dropout);
    if (b->style->is_part_scaled)
        vw__tensor_rebind(b->tape, &dropped, vw__op_mul_scalar(b->tape, dropped));
    return dropped;
}

/* dropout(part(norm(x))) */
static vw__tensor run_part(block *b, const part *p, vw__tensor x)
{
    const vw__plan_style *style = b->style;
    const bool is_all = style->scope == VW__PLAN_SCOPE_ALL;
    if (is_all)
        vw__tape_enter(b->tape, p->scope, -1);
    vw__tensor input = vw__tensor_hold(b->tape, p->is_sharing ? b->input : x);
    if (p->norm != NULL && !p->is_sharing && is_normed_first(b)) {
        vw__tensor_rebind(b->tape, &input, vw__module_apply_norm(b->run, x, p->norm));
        let_go(b, VW__PLAN_NORMED);
    }
    b->input = input;
    hold_until(b, input, p->is_mlp ? style->holds.mlp_input : style->holds.input);
    if (!is_all)
        vw__tape_enter(b->tape, p->scope, -1);
    vw__tensor made = p->is_mlp ? feed(b, input) : attend(b, input, p->is_cross);
    if (style->scope == VW__PLAN_SCOPE_CORE)
        vw__tape_leave(b->tape);
    if (b->shape->norm.has_outer)
        vw__tensor_rebind(b->tape, &made, vw__module_apply_norm(b->run, made, p->outer_norm));
    vw__tensor dropped = finish_part(b, p, made);
    hold_until(b, made, style->holds.undropped);
    let_go(b, VW__PLAN_DROPPED);
    if (style->scope == VW__PLAN_SCOPE_DROPOUT)
        vw__tape_leave(b->tape);
    return dropped;
}

/* x + part, with a norm behind it where the style has it there. */
static vw__tensor add_part(block *b, const part *p, vw__tensor x)
{
    vw__tensor made = run_part(b, p, x);
    vw__tensor sum = vw__op_add(b->tape, made, x);
    hold_until(b, made, b->style->holds.part);
    let_go(b, VW__PLAN_ADDED);
    if (vw__plan_topology_of(b->run->model) == VW__PLAN_POST_NORM) {
        vw__tensor_rebind(b->tape, &sum, vw__module_apply_norm(b->run, sum, p->norm));
        let_go(b, VW__PLAN_NORMED);
    }
    if (b->style->scope == VW__PLAN_SCOPE_ALL)
        vw__tape_leave(b->tape);
    if (b->style->is_clamped && sum.dtype == VW__DTYPE_FLOAT16)
        vw__tensor_rebind(b->tape, &sum, vw__op_clamp(b->tape, sum));
    return sum;
}

vw__tensor vw__plan_transformer_block(vw__plan_run *run, const void *place, vw__tensor x)
{
    const vw__plan_layer *layer = place;
    const vw__plan_shape *shape = &run->model->shape;
    const vw__plan_style *style = run->model->family->style;
    block b = {.run = run, .tape = run->tape, .style = style, .shape = shape, .layer = layer};
    const part self = {.scope = "attention",
                       .norm = layer->has_norm_1 ? &layer->norm_1 : NULL,
                       .outer_norm = &layer->after_attention};
    const part cross = {.scope = "cross-attention", .norm = &layer->cross_norm, .is_cross = true};
    const part mlp = {.scope = "mlp",
                      .norm = &layer->norm_2,
                      .outer_norm = &layer->after_mlp,
                      .is_mlp = true,
                      .is_sharing = vw__plan_shares_norm(run->model)};
    vw__tensor made;
    if (style->topology == VW__PLAN_PARALLEL && !shape->is_sequential) {
        vw__tensor attended = run_part(&b, &self, x);
        hold_until(&b, attended, VW__PLAN_BLOCK_ENDS);
        vw__tensor fed = run_part(&b, &mlp, x);
        if (style->adds_in_place)
            vw__op_add_in_place(run->tape, &fed, attended);
        else
            vw__tensor_rebind(run->tape, &fed, vw__op_add(run->tape, fed, attended));
        made = vw__op_add(run->tape, fed, x);
        vw__tensor_drop(run->tape, &fed);
    } else {
        made = add_part(&b, &self, x);
        if (layer->stack->has_cross) {
            hold_until(&b, made, style->holds.residual);
            made = add_part(&b, &cross, made);
        }
        hold_until(&b, made, style->holds.residual);
        made = add_part(&b, &mlp, made);
    }
    let_go(&b, VW__PLAN_BLOCK_ENDS);
    if (layer->stack->outputs != NULL)
        layer->stack->outputs[layer - layer->stack->layers] = vw__tensor_hold(run->tape, made);
    return made;
}
