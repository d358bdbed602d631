/* tape_backward.c - the engine that runs derivatives, as PyTorch's does.
 *
 * Nodes run in the reverse order of their making, which is PyTorch's order too; gradients of
 * parameters are put away as soon as all of them have come. A node's incoming gradients and what it
 * saved are held until it has run (in a checkpoint: until its derivative is computed), and dropped
 * before its results are handed on. A second gradient for the same place is added in place if
 * nobody else holds the first, else into a new tensor. A part of a larger tensor, such as what
 * cat() hands on, is never added to in place. */
#include "plan/tape.h"
#include "plan/tape_parts.h"

/* Nobody else holds it, and it is not a part of something larger. */
static bool is_own(const vw__tape *tape, uint32_t storage, uint64_t size_bytes)
{
    const vw__storage *found = &tape->storages.items[storage];
    return found->holders == 1 && found->size_bytes < size_bytes + VW__TAPE_UNIT_BYTES;
}

/* Adds `gradient`, which it takes over, to `present`, for a place of that size. Returns what the
 * place holds then. */
static uint32_t accumulate(vw__tape *tape, uint32_t present, uint32_t gradient, uint64_t size_bytes)
{
    if (present == VW__TAPE_NO_STORAGE)
        return gradient;
    if (is_own(tape, present, size_bytes)) {
        vw__storage_let_go(tape, gradient);
        return present;
    }
    if (is_own(tape, gradient, size_bytes)) {
        vw__storage_let_go(tape, present);
        return gradient;
    }
    uint32_t sum = vw__storage_new(tape, size_bytes, 1, tape->use);
    vw__storage_let_go(tape, present);
    vw__storage_let_go(tape, gradient);
    return sum;
}

/* AccumulateGrad: takes the gradient over if nobody else holds it, else copies it; adds it to an
 * earlier one. */
static void put_away(vw__tape *tape, vw__tape_leaf *leaf)
{
    uint32_t arrived = leaf->arriving;
    leaf->arriving = VW__TAPE_NO_STORAGE;
    if (leaf->gradient != VW__TAPE_NO_STORAGE) {
        vw__storage_let_go(tape, arrived);
        return;
    }
    if (tape->storages.items[arrived].holders > 1) {
        uint32_t copy =
            vw__storage_new(tape, leaf->tensor.elements, vw__dtype_bytes(leaf->tensor.dtype),
                            VW__TAPE_USE_GRADIENTS);
        vw__storage_let_go(tape, arrived);
        arrived = copy;
    }
    leaf->gradient = arrived;
    if (arrived != VW__TAPE_NO_STORAGE)
        vw__storage_set_use(tape, arrived, VW__TAPE_USE_GRADIENTS);
}

/* Takes over one hold of `gradient`, which is dropped where none is wanted. */
static void hand_on(vw__tape *tape, vw__tape_source source, uint32_t gradient)
{
    if (source.node == VW__TAPE_NO_SOURCE) {
        vw__storage_let_go(tape, gradient);
        return;
    }
    if (!source.is_parameter) {
        const vw__node *node = &tape->nodes.items[source.node];
        const size_t number = node->first_incoming + source.output;
        uint32_t *place = &tape->incoming.items[number];
        *place = accumulate(tape, *place, gradient, tape->incoming_bytes.items[number]);
        return;
    }
    vw__tape_leaf *leaf = &tape->leaves.items[source.node];
    leaf->arriving =
        accumulate(tape, leaf->arriving, gradient,
                   leaf->tensor.elements * vw__dtype_bytes(leaf->tensor.dtype)); /* it exists */
    if (--leaf->expected == 0 && tape->status == VW_OK)
        put_away(tape, leaf);
}

static void let_go_of_saved(vw__tape *tape, vw__node *node)
{
    for (uint32_t i = 0; i < node->saved_count; i++)
        vw__storage_let_go(tape, tape->saved.items[node->first_saved + i]);
    node->saved_count = 0;
}

static void run_steps(vw__tape *tape, vw__node *node, uint32_t *gifts)
{
    uint32_t *slots = tape->slots.items;
    for (uint32_t i = 0; i < node->step_count; i++) {
        const vw__node_step *step = &tape->steps.items[node->first_step + i];
        switch ((vw__node_step_kind)step->kind) {
        case VW__NODE_STEP_TAKE:
            slots[step->slot] = vw__storage_new(tape, step->size_bytes, 1, tape->use);
            break;
        case VW__NODE_STEP_LET_GO:
            vw__storage_let_go(tape, slots[step->slot]);
            slots[step->slot] = VW__TAPE_NO_STORAGE;
            break;
        case VW__NODE_STEP_GIVE:
            gifts[step->edge] = slots[step->slot];
            vw__storage_hold(tape, slots[step->slot]);
            break;
        case VW__NODE_STEP_PASS:
            gifts[step->edge] = tape->incoming.items[node->first_incoming + step->slot];
            vw__storage_hold(tape, gifts[step->edge]);
            break;
        case VW__NODE_STEP_GIVE_SAVED:
            gifts[step->edge] = tape->saved.items[node->first_saved + step->slot];
            vw__storage_hold(tape, gifts[step->edge]);
            break;
        case VW__NODE_STEP_RETURN:
            if (node->checkpoint != VW__TAPE_NO_SOURCE)
                let_go_of_saved(tape, node);
            break;
        }
    }
}

static void let_go_of_node(vw__tape *tape, vw__node *node)
{
    let_go_of_saved(tape, node);
    for (uint32_t i = 0; i < node->incoming_count; i++) {
        uint32_t *place = &tape->incoming.items[node->first_incoming + i];
        vw__storage_let_go(tape, *place);
        *place = VW__TAPE_NO_STORAGE;
    }
}

static void leave_checkpoint(vw__tape *tape, vw__tape_checkpoint_frame *frame)
{
    if (--frame->nodes_to_run == 0)
        vw__tape_checkpoint_let_go(tape, frame);
}

static void call_hook(vw__tape *tape, uint32_t number)
{
    vw__tape_hook_entry hook = tape->hooks.items[number];
    hook.call(hook.context, hook.number);
}

static void run_node(vw__tape *tape, uint32_t number)
{
    vw__node *node = &tape->nodes.items[number];
    uint32_t checkpoint = node->checkpoint;
    tape->place = node->place;
    tape->use =
        node->use == VW__TAPE_USE_ACTIVATIONS ? VW__TAPE_USE_BACKWARD : (vw__tape_use)node->use;
    if (node->hook != VW__TAPE_NO_SOURCE)
        call_hook(tape, node->hook);
    if (checkpoint != VW__TAPE_NO_SOURCE && !tape->checkpoints.items[checkpoint].has_run_again)
        vw__tape_checkpoint_run_again(tape, checkpoint);
    node = &tape->nodes.items[number]; /* running again may have moved it */

    /* Slots, then one gift for each edge. */
    size_t room = (size_t)node->slot_count + node->edge_count;
    tape->slots.count = 0;
    if (tape->status != VW_OK || !VW__TAPE_RESERVE(tape, tape->slots, room))
        return;
    uint32_t *slots = tape->slots.items, *gifts = slots + node->slot_count;
    for (size_t i = 0; i < room; i++)
        slots[i] = VW__TAPE_NO_STORAGE;

    run_steps(tape, node, gifts);
    for (size_t i = 0; i < node->slot_count; i++)
        vw__storage_let_go(tape, slots[i]);
    let_go_of_node(tape, node);
    if (checkpoint != VW__TAPE_NO_SOURCE)
        leave_checkpoint(tape, &tape->checkpoints.items[checkpoint]);
    for (size_t i = 0; i < node->edge_count; i++)
        if (gifts[i] != VW__TAPE_NO_STORAGE)
            hand_on(tape, tape->edges.items[node->first_edge + i], gifts[i]);
}

static bool has_incoming(const vw__tape *tape, const vw__node *node)
{
    for (uint32_t i = 0; i < node->incoming_count; i++)
        if (tape->incoming.items[node->first_incoming + i] != VW__TAPE_NO_STORAGE)
            return true;
    return false;
}

void vw__tape_drop_graph(vw__tape *tape)
{
    for (size_t i = tape->nodes.count; i-- > 0;)
        let_go_of_node(tape, &tape->nodes.items[i]);
    for (size_t i = 0; i < tape->checkpoints.count; i++)
        vw__tape_checkpoint_let_go(tape, &tape->checkpoints.items[i]);
    for (size_t i = 0; i < tape->until_graph.count; i++)
        vw__storage_let_go(tape, tape->until_graph.items[i]);
    for (size_t i = 0; i < tape->leaves.count; i++) {
        vw__storage_let_go(tape, tape->leaves.items[i].arriving);
        tape->leaves.items[i].arriving = VW__TAPE_NO_STORAGE;
        tape->leaves.items[i].expected = 0;
    }
    tape->nodes.count = tape->edges.count = tape->saved.count = tape->steps.count = 0;
    tape->incoming.count = tape->incoming_bytes.count = 0;
    tape->checkpoints.count = tape->hooks.count = 0;
    tape->kept.count = tape->owners.count = 0;
    tape->until_graph.count = 0;
}

/* Edges of a node without a gradient bring nothing: parameters behind them must not wait. */
static void forget_edges(vw__tape *tape, const vw__node *node)
{
    for (uint32_t i = 0; i < node->edge_count; i++) {
        vw__tape_source source = tape->edges.items[node->first_edge + i];
        if (source.node == VW__TAPE_NO_SOURCE || !source.is_parameter)
            continue;
        vw__tape_leaf *leaf = &tape->leaves.items[source.node];
        if (--leaf->expected == 0 && leaf->arriving != VW__TAPE_NO_STORAGE)
            put_away(tape, leaf);
    }
}

void vw__tape_backward(vw__tape *tape, vw__tensor loss)
{
    if (tape->status != VW_OK || !vw__tensor_wants_gradient(loss) || loss.source.is_parameter)
        return;
    vw__tape_use use = tape->use;
    uint32_t place = tape->place;
    bool was_grad_on = vw__tape_set_grad(tape, false);
    tape->is_in_backward = true;
    vw__tape_tell(tape, VW__TAPE_MARK_BACKWARD);
    hand_on(tape, loss.source,
            vw__storage_new(tape, loss.elements, vw__dtype_bytes(loss.dtype), VW__TAPE_USE_LOSS));
    for (uint32_t number = (uint32_t)tape->nodes.count; number-- > 0 && tape->status == VW_OK;) {
        if (has_incoming(tape, &tape->nodes.items[number]))
            run_node(tape, number);
        else
            forget_edges(tape, &tape->nodes.items[number]);
    }
    tape->is_in_backward = false;
    vw__tape_set_grad(tape, was_grad_on);
    tape->use = use;
    tape->place = place;
    vw__tape_drop_graph(tape);
    vw__tape_tell(tape, VW__TAPE_MARK_BACKWARD_END);
}
