/* module_attention.c - attention as transformers calls it: one kernel, or step by step. */
#include "plan/plan_run.h"

/* matmul() wants its operands as stacks of matrices: heads that lie beside each other are copied,
 * unless there is only one sample. */
static vw__tensor as_stack(vw__plan_run *run, vw__tensor x, const vw__op_attention_shape *shape)
{
    return shape->batch > 1 ? vw__op_contiguous(run->tape, x) : vw__tensor_hold(run->tape, x);
}

static vw__tensor product(vw__plan_run *run, vw__tensor a, vw__tensor b, uint64_t elements,
                          const vw__op_attention_shape *shape, bool is_a_stacked)
{
    vw__tensor left = is_a_stacked ? vw__tensor_hold(run->tape, a) : as_stack(run, a, shape);
    vw__tensor right = as_stack(run, b, shape);
    vw__tensor made = vw__op_matmul(run->tape, left, right, elements);
    vw__tensor_drop(run->tape, &right);
    vw__tensor_drop(run->tape, &left);
    return made;
}

/* GPT-2 and BERT leave the type of the softmax to autocast; later models ask for float32. */
static vw__tensor chances_of(vw__plan_run *run, vw__tensor scores, vw__dtype dtype)
{
    vw__tensor made = run->model->family->scores.is_plain
                          ? vw__op_softmax(run->tape, scores)
                          : vw__op_softmax_float32(run->tape, scores);
    vw__tensor_rebind(run->tape, &made, vw__op_to(run->tape, made, dtype));
    return made;
}

/* Adds positions, which have a number for each head and key, in float32. */
static void add_positions(vw__plan_run *run, vw__tensor *scores)
{
    vw__tensor numbers = vw__tensor_new(run->tape, 1, VW__DTYPE_FLOAT32);
    vw__tensor_rebind(run->tape, scores, vw__op_add(run->tape, *scores, numbers));
    vw__tensor_drop(run->tape, &numbers);
}

/* What comes between the product and the softmax, a line each. */
static void finish_scores(vw__plan_run *run, vw__tensor *scores, vw__tensor mask,
                          const vw__op_attention_shape *shape)
{
    const vw__plan_scores *how = &run->model->family->scores;
    vw__tape *tape = run->tape;
    if (!how->is_scaled_inside)
        vw__tensor_rebind(tape, scores, vw__op_mul_scalar(tape, *scores));
    if (shape->has_capped_scores)
        vw__op_cap(tape, scores);
    if (how->has_float_bias)
        add_positions(run, scores);
    if (how->is_filled)
        vw__tensor_rebind(
            tape, scores,
            vw__op_where(tape, how->has_mask_of_bools ? mask : vw__tensor_none(), *scores));
    if (vw__tensor_exists(mask) && !how->has_mask_of_bools)
        vw__tensor_rebind(tape, scores, vw__op_add(tape, *scores, mask));
}

/* Queries, or keys, as the product takes them. */
static vw__tensor operand(vw__plan_run *run, vw__tensor x)
{
    const vw__plan_scores *how = &run->model->family->scores;
    if (how->copies_heads)
        return vw__op_contiguous(run->tape, x);
    return how->is_in_float32 ? vw__op_to(run->tape, x, VW__DTYPE_FLOAT32)
                              : vw__tensor_hold(run->tape, x);
}

static vw__tensor eager(vw__plan_run *run, vw__tensor query, vw__tensor key, vw__tensor value,
                        vw__tensor mask, const vw__op_attention_shape *shape)
{
    vw__tape *tape = run->tape;
    const bool is_stacked = run->model->family->scores.copies_heads;
    uint64_t pairs =
        vw__tape_times(tape, shape->batch * shape->heads * shape->length, shape->key_length);
    vw__tensor keys = vw__op_repeat_heads(tape, key, shape),
               values = vw__op_repeat_heads(tape, value, shape);
    vw__tensor asked = operand(run, query);
    vw__tensor_rebind(tape, &keys, operand(run, keys));
    if (is_stacked)
        vw__tensor_rebind(tape, &values, vw__op_contiguous(tape, values));
    vw__tensor scores = is_stacked ? vw__op_matmul(tape, asked, keys, pairs)
                                   : product(run, asked, keys, pairs, shape, false);
    finish_scores(run, &scores, mask, shape);
    vw__tensor_rebind(tape, &scores, chances_of(run, scores, value.dtype));
    vw__tensor_rebind(tape, &scores, vw__module_apply_dropout(run, scores, shape->has_dropout));
    vw__tensor made = is_stacked ? vw__op_matmul(tape, scores, values, query.elements)
                                 : product(run, scores, values, query.elements, shape, true);
    vw__tensor_rebind(tape, &made, vw__op_contiguous(tape, made));
    vw__tensor_drop(tape, &scores);
    vw__tensor_drop(tape, &asked);
    vw__tensor_drop(tape, &values);
    vw__tensor_drop(tape, &keys);
    return made;
}

/* With a mask, or wide heads, transformers repeats the heads of keys and values itself. */
static vw__tensor by_kernel(vw__plan_run *run, vw__tensor query, vw__tensor key, vw__tensor value,
                            vw__tensor mask, const vw__op_attention_shape *shape)
{
    enum { MOST_NATIVE_WIDTH = 256 };
    vw__op_attention_shape called = *shape;
    if (shape->keeps_key_heads || (!vw__tensor_exists(mask) && shape->width <= MOST_NATIVE_WIDTH))
        return vw__op_attention(run->tape, query, key, value, mask, &called);
    vw__tensor keys = vw__op_repeat_heads(run->tape, key, shape);
    vw__tensor values = vw__op_repeat_heads(run->tape, value, shape);
    called.key_heads = shape->heads;
    vw__tensor made = vw__op_attention(run->tape, query, keys, values, mask, &called);
    vw__tensor_drop(run->tape, &values);
    vw__tensor_drop(run->tape, &keys);
    return made;
}

/* A family with code of its own calls neither SDPA nor the code that others share. */
static vw_attention attention_of(const vw__plan_run *run)
{
    const bool is_own = run->model->family->scores.is_own;
    return is_own && run->settings->attention == VW_ATTENTION_SDPA ? VW_ATTENTION_EAGER
                                                                   : run->settings->attention;
}

static vw__tensor attend(vw__plan_run *run, vw__tensor query, vw__tensor key, vw__tensor value,
                         vw__tensor mask, const vw__op_attention_shape *shape)
{
    switch (attention_of(run)) {
    case VW_ATTENTION_EAGER:
        return eager(run, query, key, value, mask, shape);
    case VW_ATTENTION_FLASH:
        return vw__op_flash_attention(run->tape, query, key, value, shape);
    default:
        return by_kernel(run, query, key, value, mask, shape);
    }
}

/* A static cache is longer than what was read: SDPA is told which of it counts, by a mask for every
 * sample. */
static vw__tensor make_static_mask(vw__plan_run *run, const vw__op_attention_shape *shape)
{
    if (!run->settings->has_static_cache || run->settings->attention != VW_ATTENTION_SDPA)
        return vw__tensor_none();
    uint64_t pairs = vw__tape_times(run->tape, shape->length, shape->key_length);
    return vw__tensor_new(run->tape, vw__tape_times(run->tape, pairs, shape->batch),
                          VW__DTYPE_BOOL);
}

/* Attends to the cached keys and values, and the new ones. */
static vw__tensor attend_to_cache(vw__plan_run *run, vw__tensor query, vw__tensor key,
                                  vw__tensor value, vw__tensor mask,
                                  const vw__op_attention_shape *shape)
{
    vw__op_attention_shape longer = *shape;
    uint64_t token = shape->batch * shape->key_heads * shape->width;
    vw__tensor keys = vw__plan_cache_keys(run, key, shape),
               values = vw__plan_cache_keys(run, value, shape);
    longer.key_length = token == 0 ? 0 : keys.elements / token;
    vw__tensor hidden =
        vw__tensor_exists(mask) ? vw__tensor_hold(run->tape, mask) : make_static_mask(run, &longer);
    vw__tensor made = attend(run, query, keys, values, hidden, &longer);
    vw__tensor_drop(run->tape, &hidden);
    vw__tensor_drop(run->tape, &values);
    vw__tensor_drop(run->tape, &keys);
    return made;
}

vw__op_attention_shape vw__module_self_attention(const vw__plan_run *run, uint64_t length)
{
    const vw__plan_attention *shape = &run->model->shape.attention;
    return (vw__op_attention_shape){
        .batch = run->settings->batch,
        .heads = shape->heads,
        .key_heads = shape->key_heads > 0 ? shape->key_heads : shape->heads,
        .length = length,
        .key_length = length,
        .width =
            shape->head_width > 0 ? shape->head_width : run->model->shape.hidden / shape->heads,
        .has_dropout = run->is_training && shape->has_dropout};
}

vw__tensor vw__module_apply_attention(vw__plan_run *run, vw__tensor query, vw__tensor key,
                                      vw__tensor value, vw__tensor mask,
                                      const vw__op_attention_shape *shape)
{
    return vw__plan_is_generating(run) && shape->is_causal
               ? attend_to_cache(run, query, key, value, mask, shape)
               : attend(run, query, key, value, mask, shape);
}

/* One of bools for every sample, which is what padding makes of it. */
static vw__tensor make_mask_of_samples(vw__plan_run *run, uint64_t length)
{
    const uint64_t pairs = vw__tape_times(run->tape, length, length);
    return vw__tensor_new(run->tape, vw__tape_times(run->tape, pairs, run->settings->batch),
                          VW__DTYPE_BOOL);
}

/* Only eager attention takes a mask; SDPA has a causal flag, unless samples are padded. */
vw__tensor vw__module_make_causal_mask(vw__plan_run *run, uint64_t length)
{
    const vw__plan_scores *how = &run->model->family->scores;
    const bool is_padded = run->settings->padding > 0;
    uint64_t pairs = vw__tape_times(run->tape, length, length);
    if (attention_of(run) != VW_ATTENTION_EAGER)
        return is_padded ? make_mask_of_samples(run, length) : vw__tensor_none();
    if (how->has_mask_of_bools || how->has_mask_of_samples || is_padded)
        pairs = vw__tape_times(run->tape, pairs, run->settings->batch);
    return vw__tensor_new(run->tape, pairs, how->has_mask_of_bools ? VW__DTYPE_BOOL : run->dtype);
}

/* One of bools that all samples share. Each call makes one to add from it, for every sample. */
static vw__tensor make_shared_mask(vw__plan_run *run, uint64_t length)
{
    uint64_t pairs = vw__tape_times(run->tape, length, length);
    vw__tensor mask = vw__tensor_new(run->tape, pairs, VW__DTYPE_BOOL);
    mask.elements = vw__tape_times(run->tape, pairs, run->settings->batch);
    return mask;
}

/* SDPA takes a mask only where the text is at least as long as the window, or padded. */
vw__tensor vw__module_make_window_mask(vw__plan_run *run, uint64_t length, uint64_t window)
{
    if (window == 0 || attention_of(run) == VW_ATTENTION_EAGER || run->settings->padding > 0)
        return vw__module_make_causal_mask(run, length);
    if (length < window || run->settings->attention != VW_ATTENTION_SDPA)
        return vw__tensor_none();
    return make_shared_mask(run, length);
}

vw__tensor vw__module_make_full_mask(vw__plan_run *run, uint64_t length)
{
    if (attention_of(run) == VW_ATTENTION_EAGER || run->settings->padding > 0)
        return vw__module_make_causal_mask(run, length);
    return run->settings->attention == VW_ATTENTION_SDPA ? make_shared_mask(run, length)
                                                         : vw__tensor_none();
}
