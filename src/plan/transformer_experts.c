/* transformer_experts.c - experts in place of the MLP (Mixtral, Qwen3-MoE), after transformers'
 * modeling_mixtral.py, modeling_qwen3_moe.py and integrations/moe.py.
 *
 * The experts' weights are two tensors of three dimensions. By default every token's row is copied
 * once for each expert that gets it, sorted by expert, and all experts run in one grouped product;
 * how tokens are spread over experts does not matter for memory. */
#include "plan/transformer.h"

vw__plan_experts vw__plan_make_experts(vw__plan_run *run)
{
    const vw__plan_shape *shape = &run->model->shape;
    return (vw__plan_experts){
        .router = vw__module_make_linear(run, "gate", shape->hidden, shape->mlp.experts, false,
                                         VW__MODULE_LINEAR_HEAD),
        .gate_up =
            vw__module_make_tables(run, shape->mlp.experts, 2 * shape->mlp.inner, shape->hidden),
        .down = vw__module_make_tables(run, shape->mlp.experts, shape->hidden, shape->mlp.inner)};
}

/* softmax(router(x).float()), the highest of it, and their shares. */
static vw__tensor choose_experts(vw__plan_run *run, const vw__plan_experts *experts, vw__tensor x)
{
    const vw__plan_shape *shape = &run->model->shape;
    vw__tape *tape = run->tape;
    vw__tensor logits = vw__module_apply_linear(run, x, &experts->router);
    vw__tensor floats = vw__op_to(tape, logits, VW__DTYPE_FLOAT32);
    vw__tensor chances = vw__op_softmax(tape, floats);
    vw__tensor_drop(tape, &floats);
    vw__tensor_drop(tape, &logits);
    uint64_t chosen = chances.elements / shape->mlp.experts * shape->mlp.experts_per_token;
    vw__tensor highest = vw__op_slice(tape, chances, chosen);
    vw__tensor shares = vw__op_contiguous(tape, highest);
    vw__tensor_drop(tape, &highest);
    vw__tensor_drop(tape, &chances);
    return shares;
}

/* down(act(gate(x)) * up(x)) of sorted rows */
static vw__tensor feed(vw__plan_run *run, const vw__plan_experts *experts, vw__tensor sorted)
{
    const vw__plan_shape *shape = &run->model->shape;
    vw__tape *tape = run->tape;
    vw__tensor halves[2];
    uint64_t rows = sorted.elements / shape->hidden;
    vw__tape_enter(tape, "gate_up_proj", -1);
    vw__tensor both = vw__op_grouped(tape, sorted, experts->gate_up,
                                     vw__tape_times(tape, rows, 2 * shape->mlp.inner));
    vw__tape_leave(tape);
    vw__op_split(tape, both, 2, halves);
    vw__tensor active = vw__module_apply_activation(run, halves[0]);
    vw__tensor product = vw__op_mul(tape, active, halves[1]);
    vw__tensor_drop(tape, &active);
    vw__tensor_drop(tape, &halves[1]);
    vw__tensor_drop(tape, &halves[0]);
    vw__tensor_drop(tape, &both);
    vw__tape_enter(tape, "down_proj", -1);
    vw__tensor_rebind(tape, &product,
                      vw__op_grouped(tape, product, experts->down, sorted.elements));
    vw__tape_leave(tape);
    return product;
}

vw__tensor vw__plan_apply_experts(vw__plan_run *run, const vw__plan_experts *experts, vw__tensor x)
{
    vw__tape *tape = run->tape;
    uint64_t copies = vw__tape_times(tape, x.elements, run->model->shape.mlp.experts_per_token);
    vw__tensor shares = choose_experts(run, experts, x);
    vw__tensor order = vw__tensor_new(tape, shares.elements, VW__DTYPE_INT64);
    vw__tensor back = vw__tensor_new(tape, shares.elements, VW__DTYPE_INT64);
    vw__tensor sorted = vw__op_index(tape, x, order, copies);
    vw__tensor sorted_shares = vw__op_index(tape, shares, order, shares.elements);
    vw__tensor fed = feed(run, experts, sorted);
    vw__tensor weighted = vw__op_mul(tape, fed, sorted_shares);
    vw__tensor_rebind(tape, &weighted, vw__op_index(tape, weighted, back, copies));
    vw__tensor made = vw__op_sum(tape, weighted, x.elements);
    vw__tensor_rebind(tape, &made, vw__op_to(tape, made, x.dtype));
    vw__tensor_drop(tape, &weighted);
    vw__tensor_drop(tape, &fed);
    vw__tensor_drop(tape, &sorted_shares);
    vw__tensor_drop(tape, &sorted);
    vw__tensor_drop(tape, &back);
    vw__tensor_drop(tape, &order);
    vw__tensor_drop(tape, &shares);
    return made;
}
