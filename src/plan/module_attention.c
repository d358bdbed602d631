/* module_attention.c - attention as transformers calls it: one kernel, or step by step. */
#include "plan/plan_run.h"

/* matmul() wants its operands as stacks of matrices: heads that lie beside each other are copied,
 * unless there is only one sample. */
static hr__tensor as_stack(hr__plan_run *run, hr__tensor x, const hr__attention_shape *shape)
{
    return shape->batch > 1 ? hr__contiguous(run->tape, x) : hr__hold(run->tape, x);
}

static hr__tensor product(hr__plan_run *run, hr__tensor a, hr__tensor b, uint64_t elements,
                          const hr__attention_shape *shape, bool is_a_stacked)
{
    hr__tensor left = is_a_stacked ? hr__hold(run->tape, a) : as_stack(run, a, shape);
    hr__tensor right = as_stack(run, b, shape);
    hr__tensor made = hr__matmul(run->tape, left, right, elements);
    hr__drop(run->tape, &right);
    hr__drop(run->tape, &left);
    return made;
}

/* GPT-2 leaves the type of the softmax to autocast; later models ask for float32. */
static hr__tensor chances_of(hr__plan_run *run, hr__tensor scores, hr__dtype dtype)
{
    hr__tensor made = run->model->family->has_plain_softmax
                          ? hr__softmax(run->tape, scores)
                          : hr__softmax_float32(run->tape, scores);
    hr__rebind(run->tape, &made, hr__to(run->tape, made, dtype));
    return made;
}

static hr__tensor eager(hr__plan_run *run, hr__tensor query, hr__tensor key, hr__tensor value,
                        hr__tensor mask, const hr__attention_shape *shape)
{
    hr__tape *tape = run->tape;
    uint64_t pairs =
        hr__times(tape, shape->batch * shape->heads * shape->length, shape->key_length);
    hr__tensor keys = hr__repeat_heads(tape, key, shape),
               values = hr__repeat_heads(tape, value, shape);
    hr__tensor scores = product(run, query, keys, pairs, shape, false);
    hr__rebind(tape, &scores, hr__mul_scalar(tape, scores));
    if (shape->has_capped_scores)
        hr__cap(tape, &scores);
    if (hr__is_tensor(mask))
        hr__rebind(tape, &scores, hr__add(tape, scores, mask));
    hr__rebind(tape, &scores, chances_of(run, scores, value.dtype));
    hr__rebind(tape, &scores, hr__apply_dropout(run, scores, shape->has_dropout));
    hr__tensor made = product(run, scores, values, query.elements, shape, true);
    hr__rebind(tape, &made, hr__contiguous(tape, made));
    hr__drop(tape, &scores);
    hr__drop(tape, &values);
    hr__drop(tape, &keys);
    return made;
}

/* With a mask, or wide heads, transformers repeats the heads of keys and values itself. */
static hr__tensor by_kernel(hr__plan_run *run, hr__tensor query, hr__tensor key, hr__tensor value,
                            hr__tensor mask, const hr__attention_shape *shape)
{
    enum { MOST_NATIVE_WIDTH = 256 };
    hr__attention_shape called = *shape;
    if (!hr__is_tensor(mask) && shape->width <= MOST_NATIVE_WIDTH)
        return hr__attention(run->tape, query, key, value, mask, &called);
    hr__tensor keys = hr__repeat_heads(run->tape, key, shape);
    hr__tensor values = hr__repeat_heads(run->tape, value, shape);
    called.key_heads = shape->heads;
    hr__tensor made = hr__attention(run->tape, query, keys, values, mask, &called);
    hr__drop(run->tape, &values);
    hr__drop(run->tape, &keys);
    return made;
}

static hr__tensor attend(hr__plan_run *run, hr__tensor query, hr__tensor key, hr__tensor value,
                         hr__tensor mask, const hr__attention_shape *shape)
{
    switch (run->settings->attention) {
    case HR_ATTENTION_EAGER:
        return eager(run, query, key, value, mask, shape);
    case HR_ATTENTION_FLASH:
        return hr__flash_attention(run->tape, query, key, value, shape);
    default:
        return by_kernel(run, query, key, value, mask, shape);
    }
}

/* With what was said before: keys and values from the cache, and the new ones. */
static hr__tensor attend_to_cache(hr__plan_run *run, hr__tensor query, hr__tensor key,
                                  hr__tensor value, hr__tensor mask,
                                  const hr__attention_shape *shape)
{
    hr__attention_shape longer = *shape;
    uint64_t token = shape->batch * shape->key_heads * shape->width;
    hr__tensor keys = hr__cache_keys(run, key, shape), values = hr__cache_keys(run, value, shape);
    longer.key_length = token == 0 ? 0 : keys.elements / token;
    hr__tensor made = attend(run, query, keys, values, mask, &longer);
    hr__drop(run->tape, &values);
    hr__drop(run->tape, &keys);
    return made;
}

hr__attention_shape hr__self_attention(const hr__plan_run *run, uint64_t length)
{
    const hr__transformer *shape = &run->model->shape;
    return (hr__attention_shape){
        .batch = run->settings->batch,
        .heads = shape->heads,
        .key_heads = shape->key_heads > 0 ? shape->key_heads : shape->heads,
        .length = length,
        .key_length = length,
        .width = shape->head_width > 0 ? shape->head_width : shape->hidden / shape->heads,
        .has_dropout = run->is_training && shape->has_attention_dropout};
}

hr__tensor hr__apply_attention(hr__plan_run *run, hr__tensor query, hr__tensor key,
                               hr__tensor value, hr__tensor mask, const hr__attention_shape *shape)
{
    return hr__is_generating(run) && shape->is_causal
               ? attend_to_cache(run, query, key, value, mask, shape)
               : attend(run, query, key, value, mask, shape);
}

/* Only the eager code is given one: SDPA is told that it is causal. */
hr__tensor hr__make_causal_mask(hr__plan_run *run, uint64_t length)
{
    if (run->settings->attention != HR_ATTENTION_EAGER)
        return hr__no_tensor();
    return hr__tensor_new(run->tape, hr__times(run->tape, length, length), run->dtype);
}

/* SDPA is given one only where the window is not longer than the text: bool, one for all samples,
 * of which each call makes one to add for every sample. */
hr__tensor hr__make_window_mask(hr__plan_run *run, uint64_t length, uint64_t window)
{
    if (window == 0 || run->settings->attention == HR_ATTENTION_EAGER)
        return hr__make_causal_mask(run, length);
    if (length < window || run->settings->attention != HR_ATTENTION_SDPA)
        return hr__no_tensor();
    uint64_t pairs = hr__times(run->tape, length, length);
    hr__tensor mask = hr__tensor_new(run->tape, pairs, HR__BOOL);
    mask.elements = hr__times(run->tape, pairs, run->settings->batch);
    return mask;
}
