/* model_mixtral.c - Mixtral and Qwen3-MoE: Llama's kind of decoder with experts in place of the
 * MLP, after transformers' modeling_mixtral.py, modeling_qwen3_moe.py and integrations/moe.py.
 *
 * The experts' weights are two tensors of three dimensions. By default every token's row is copied
 * once for each expert that gets it, sorted by expert, and all experts run in one grouped product;
 * how tokens are spread over experts does not matter for memory. */
#include "plan/config_families.h"
#include "plan/model_llama.h"

hr__experts hr__make_experts(hr__plan_run *run)
{
    const hr__transformer *shape = &run->model->shape;
    return (hr__experts){
        .router =
            hr__make_linear(run, "gate", shape->hidden, shape->experts, false, HR__LINEAR_HEAD),
        .gate_up = hr__make_tables(run, shape->experts, 2 * shape->inner, shape->hidden),
        .down = hr__make_tables(run, shape->experts, shape->hidden, shape->inner)};
}

/* softmax(router(x).float()), the highest of it, and their shares. */
static hr__tensor choose_experts(hr__plan_run *run, const hr__experts *experts, hr__tensor x)
{
    const hr__transformer *shape = &run->model->shape;
    hr__tape *tape = run->tape;
    hr__tensor logits = hr__apply_linear(run, x, &experts->router);
    hr__tensor floats = hr__to(tape, logits, HR__FLOAT32);
    hr__tensor chances = hr__softmax(tape, floats);
    hr__drop(tape, &floats);
    hr__drop(tape, &logits);
    uint64_t chosen = chances.elements / shape->experts * shape->experts_per_token;
    hr__tensor highest = hr__slice(tape, chances, chosen);
    hr__tensor shares = hr__contiguous(tape, highest);
    hr__drop(tape, &highest);
    hr__drop(tape, &chances);
    return shares;
}

/* A grouped product runs in the weights' type, autocast or not, and is none of those that a
 * selective checkpoint keeps: hr__matmul() differs in both. */
static hr__tensor grouped(hr__tape *tape, hr__tensor x, hr__tensor weight, uint64_t elements)
{
    hr__tensor argument = hr__to(tape, x, weight.dtype);
    bool has_node = hr__node_begin(tape, (hr__tensor[]){argument, weight}, 2);
    if (has_node && hr__wants_gradient(weight))
        hr__node_save(tape, argument);
    if (has_node && hr__wants_gradient(argument))
        hr__node_save(tape, weight);
    hr__tensor made = hr__tensor_new(tape, elements, weight.dtype);
    if (has_node) {
        hr__node_take_for(tape, 0, argument.elements, argument.dtype);
        hr__node_take_for(tape, 1, weight.elements, weight.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    hr__drop(tape, &argument);
    return made;
}

/* down(act(gate(x)) * up(x)) of sorted rows */
static hr__tensor feed(hr__plan_run *run, const hr__experts *experts, hr__tensor sorted)
{
    const hr__transformer *shape = &run->model->shape;
    hr__tape *tape = run->tape;
    hr__tensor halves[2];
    uint64_t rows = sorted.elements / shape->hidden;
    hr__enter(tape, "gate_up_proj", -1);
    hr__tensor both =
        grouped(tape, sorted, experts->gate_up, hr__times(tape, rows, 2 * shape->inner));
    hr__leave(tape);
    hr__split(tape, both, 2, halves);
    hr__tensor active = hr__apply_activation(run, halves[0]);
    hr__tensor product = hr__mul(tape, active, halves[1]);
    hr__drop(tape, &active);
    hr__drop(tape, &halves[1]);
    hr__drop(tape, &halves[0]);
    hr__drop(tape, &both);
    hr__enter(tape, "down_proj", -1);
    hr__rebind(tape, &product, grouped(tape, product, experts->down, sorted.elements));
    hr__leave(tape);
    return product;
}

hr__tensor hr__apply_experts(hr__plan_run *run, const hr__experts *experts, hr__tensor x)
{
    hr__tape *tape = run->tape;
    uint64_t copies = hr__times(tape, x.elements, run->model->shape.experts_per_token);
    hr__tensor shares = choose_experts(run, experts, x);
    hr__tensor order = hr__tensor_new(tape, shares.elements, HR__INT64);
    hr__tensor back = hr__tensor_new(tape, shares.elements, HR__INT64);
    hr__tensor sorted = hr__index(tape, x, order, copies);
    hr__tensor sorted_shares = hr__index(tape, shares, order, shares.elements);
    hr__tensor fed = feed(run, experts, sorted);
    hr__tensor weighted = hr__mul(tape, fed, sorted_shares);
    hr__rebind(tape, &weighted, hr__index(tape, weighted, back, copies));
    hr__tensor made = hr__sum(tape, weighted, x.elements);
    hr__rebind(tape, &made, hr__to(tape, made, x.dtype));
    hr__drop(tape, &weighted);
    hr__drop(tape, &fed);
    hr__drop(tape, &sorted_shares);
    hr__drop(tape, &sorted);
    hr__drop(tape, &back);
    hr__drop(tape, &order);
    hr__drop(tape, &shares);
    return made;
}

const hr__family hr__family_mixtral = {
    .name = "mixtral",
    .model_types = (const char *const[]){"mixtral", "qwen3_moe", NULL},
    .usual_length = hr__usual_positions,
    .read = hr__read_mixtral,
    .build = hr__llama_build,
    .forward = hr__llama_forward,
    .generate = hr__generate,
};
