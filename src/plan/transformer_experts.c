/* transformer_experts.c - experts in place of the MLP (Mixtral, Qwen-MoE), after transformers'
 * modeling_mixtral.py, modeling_qwen2_moe.py, modeling_qwen3_moe.py and integrations/moe.py.
 *
 * The experts' weights are two tensors of three dimensions. By default every token's row is copied
 * once for each expert that gets it, sorted by expert, and all experts run in one grouped product;
 * how tokens are spread over experts does not matter for memory. */
#include "plan/transformer.h"

/* The expert that every token goes to, and a product that says what it counts. */
static void make_shared(vw__plan_run *run, vw__plan_experts *experts)
{
    const vw__plan_style *style = run->model->family->style;
    const uint64_t hidden = run->model->shape.hidden, inner = run->model->shape.mlp.shared_inner;
    experts->shared_gate =
        vw__module_make_linear(run, style->gate, hidden, inner, false, VW__MODULE_LINEAR_PLAIN);
    experts->shared_inner =
        vw__module_make_linear(run, style->inner, hidden, inner, false, VW__MODULE_LINEAR_PLAIN);
    experts->shared_outer =
        vw__module_make_linear(run, style->outer, inner, hidden, false, VW__MODULE_LINEAR_PLAIN);
    experts->share =
        vw__module_make_linear(run, "shared_expert_gate", hidden, 1, false, VW__MODULE_LINEAR_HEAD);
}

vw__plan_experts vw__plan_make_experts(vw__plan_run *run)
{
    const vw__plan_shape *shape = &run->model->shape;
    vw__plan_experts made = {
        .router = vw__module_make_linear(run, "gate", shape->hidden, shape->mlp.experts, false,
                                         VW__MODULE_LINEAR_HEAD),
        .gate_up =
            vw__module_make_tables(run, shape->mlp.experts, 2 * shape->mlp.inner, shape->hidden),
        .down = vw__module_make_tables(run, shape->mlp.experts, shape->hidden, shape->mlp.inner)};
    if (shape->mlp.shared_inner > 0)
        make_shared(run, &made);
    return made;
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

static vw__tensor apply_routed(vw__plan_run *run, const vw__plan_experts *experts, vw__tensor x)
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

/* What all tokens' expert makes, before the others run; then sigmoid(share(x)) times that is added.
 */
static vw__tensor apply_with_shared(vw__plan_run *run, const vw__plan_experts *experts,
                                    vw__tensor x)
{
    vw__tape *tape = run->tape;
    vw__tape_enter(tape, "shared_expert", -1);
    vw__tensor shared = vw__plan_apply_gate(run, x, &experts->shared_gate, &experts->shared_inner);
    vw__tensor_rebind(tape, &shared, vw__module_apply_linear(run, shared, &experts->shared_outer));
    vw__tape_leave(tape);
    vw__tensor made = apply_routed(run, experts, x);
    vw__tensor share = vw__module_apply_linear(run, x, &experts->share);
    vw__tensor_rebind(tape, &share, vw__op_sigmoid(tape, share));
    vw__tensor_rebind(tape, &shared, vw__op_mul(tape, shared, share));
    vw__tensor_drop(tape, &share);
    vw__tensor_rebind(tape, &made, vw__op_add(tape, made, shared));
    vw__tensor_drop(tape, &shared);
    return made;
}

vw__tensor vw__plan_apply_experts(vw__plan_run *run, const vw__plan_experts *experts, vw__tensor x)
{
    return run->model->shape.mlp.shared_inner > 0 ? apply_with_shared(run, experts, x)
                                                  : apply_routed(run, experts, x);
}
