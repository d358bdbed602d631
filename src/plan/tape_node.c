/* tape_node.c - nodes: what an operator saves for its derivative, and the steps of that. */
#include "base/checked_math.h"
#include "base/error.h"
#include "plan/tape.h"
#include "plan/tape_parts.h"

static vw__node *open_node(vw__tape *tape)
{
    return &tape->nodes.items[tape->nodes.count - 1];
}

static bool has_wish(const vw__tensor *arguments, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (vw__tensor_exists(arguments[i]) && vw__tensor_wants_gradient(arguments[i]))
            return true;
    return false;
}

static void tell_watcher(const vw__tape *tape, const vw__tensor *arguments, size_t count)
{
    for (size_t i = 0; tape->watch != NULL && i < count; i++)
        if (vw__tensor_exists(arguments[i]))
            tape->watch(tape->watch_context, arguments[i].storage);
}

/* Steps number edges, slots and outputs in 16 bits: there are many steps. A node with more of them
 * fails, and never wraps. */
static bool can_number(vw__tape *tape, size_t count, const char *things)
{
    if (count <= UINT16_MAX)
        return true;
    vw__tape_fail(tape, vw__fail(VW_ERR_UNSUPPORTED,
                                 "an operator of the step has more than %d %s: a plan can have no "
                                 "more",
                                 UINT16_MAX, things));
    return false;
}

static vw__node *add_node(vw__tape *tape)
{
    if (!VW__TAPE_RESERVE(tape, tape->nodes, 1))
        return NULL;
    vw__node *node = &tape->nodes.items[tape->nodes.count++];
    *node = (vw__node){.first_edge = (uint32_t)tape->edges.count,
                       .first_saved = (uint32_t)tape->saved.count,
                       .first_step = (uint32_t)tape->steps.count,
                       .first_incoming = (uint32_t)tape->incoming.count,
                       .place = tape->place,
                       .checkpoint = tape->checkpoint,
                       .hook = VW__TAPE_NO_SOURCE,
                       .use = (uint8_t)tape->use};
    return node;
}

/* While a checkpoint runs again the node is there already; it lacks what it saved. */
bool vw__node_begin(vw__tape *tape, const vw__tensor *arguments, size_t argument_count)
{
    tell_watcher(tape, arguments, argument_count);
    tape->is_node_open = tape->status == VW_OK && !tape->has_stopped && tape->is_grad_on &&
                         has_wish(arguments, argument_count);
    if (!tape->is_node_open || tape->is_running_again)
        return tape->is_node_open;
    vw__node *node = can_number(tape, argument_count, "arguments") &&
                             VW__TAPE_RESERVE(tape, tape->edges, argument_count)
                         ? add_node(tape)
                         : NULL;
    tape->is_node_open = node != NULL;
    if (node == NULL)
        return false;
    node->edge_count = (uint32_t)argument_count;
    for (size_t i = 0; i < argument_count; i++) {
        vw__tape_source source = arguments[i].source;
        if (!vw__tensor_exists(arguments[i]))
            source.node = VW__TAPE_NO_SOURCE;
        tape->edges.items[tape->edges.count++] = source;
        if (source.node != VW__TAPE_NO_SOURCE && source.is_parameter)
            tape->leaves.items[source.node].expected++;
    }
    return true;
}

static void keep_saved(vw__tape *tape, vw__node *node, uint32_t storage)
{
    if (!VW__TAPE_RESERVE(tape, tape->saved, 1))
        return;
    tape->saved.items[tape->saved.count++] = storage;
    node->saved_count++;
    vw__storage_hold(tape, storage);
}

/* The tensors of one node are saved one after the other. */
static void save_again(vw__tape *tape, uint32_t storage)
{
    vw__node *owner = &tape->nodes.items[tape->owners.items[tape->next_owner++]];
    if (owner->saved_count == 0)
        owner->first_saved = (uint32_t)tape->saved.count;
    keep_saved(tape, owner, storage);
    tape->has_stopped = --tape->saves_to_come == 0;
}

static void count_save(vw__tape *tape)
{
    if (!VW__TAPE_RESERVE(tape, tape->owners, 1))
        return;
    tape->owners.items[tape->owners.count++] = (uint32_t)tape->nodes.count - 1;
    tape->checkpoints.items[tape->checkpoint].save_count++;
}

void vw__node_save(vw__tape *tape, vw__tensor tensor)
{
    if (!tape->is_node_open || tape->status != VW_OK || tape->has_stopped ||
        !vw__tensor_exists(tensor))
        return;
    if (tape->is_running_again) {
        save_again(tape, tensor.storage);
    } else if (tape->checkpoint != VW__TAPE_NO_SOURCE) {
        count_save(tape);
    } else {
        keep_saved(tape, open_node(tape), tensor.storage);
    }
}

static vw__node_step *add_step(vw__tape *tape, vw__node_step_kind kind)
{
    if (!tape->is_node_open || tape->status != VW_OK || tape->is_running_again ||
        !VW__TAPE_RESERVE(tape, tape->steps, 1))
        return NULL;
    vw__node_step *step = &tape->steps.items[tape->steps.count++];
    *step = (vw__node_step){.kind = (uint8_t)kind};
    open_node(tape)->step_count++;
    return step;
}

uint16_t vw__node_take(vw__tape *tape, uint64_t elements, vw__dtype dtype)
{
    vw__node_step *step = add_step(tape, VW__NODE_STEP_TAKE);
    if (step == NULL)
        return VW__NODE_NO_SLOT;
    step->size_bytes = vw__tape_times(tape, elements, vw__dtype_bytes(dtype));
    step->slot = open_node(tape)->slot_count;
    if (!can_number(tape, (size_t)step->slot + 1, "results in its derivative"))
        return VW__NODE_NO_SLOT;
    open_node(tape)->slot_count++;
    return step->slot;
}

void vw__node_let_go(vw__tape *tape, uint16_t slot)
{
    vw__node_step *step = slot == VW__NODE_NO_SLOT ? NULL : add_step(tape, VW__NODE_STEP_LET_GO);
    if (step != NULL)
        step->slot = slot;
}

void vw__node_return(vw__tape *tape)
{
    (void)add_step(tape, VW__NODE_STEP_RETURN);
}

bool vw__node_wants(const vw__tape *tape, size_t edge)
{
    if (!tape->is_node_open || tape->status != VW_OK || tape->is_running_again)
        return false;
    const vw__node *node = &tape->nodes.items[tape->nodes.count - 1];
    return tape->edges.items[node->first_edge + edge].node != VW__TAPE_NO_SOURCE;
}

static void add_gift(vw__tape *tape, vw__node_step_kind kind, size_t edge, size_t slot)
{
    vw__node_step *step = vw__node_wants(tape, edge) && can_number(tape, slot, "saved tensors")
                              ? add_step(tape, kind)
                              : NULL;
    if (step == NULL)
        return;
    step->edge = (uint16_t)edge;
    step->slot = (uint16_t)slot;
}

void vw__node_give(vw__tape *tape, size_t edge, uint16_t slot)
{
    if (slot != VW__NODE_NO_SLOT)
        add_gift(tape, VW__NODE_STEP_GIVE, edge, slot);
}

void vw__node_pass(vw__tape *tape, size_t edge, size_t output)
{
    add_gift(tape, VW__NODE_STEP_PASS, edge, output);
}

void vw__node_give_saved(vw__tape *tape, size_t edge, size_t saved)
{
    add_gift(tape, VW__NODE_STEP_GIVE_SAVED, edge, saved);
}

void vw__node_take_for(vw__tape *tape, size_t edge, uint64_t elements, vw__dtype dtype)
{
    if (vw__node_wants(tape, edge))
        vw__node_give(tape, edge, vw__node_take(tape, elements, dtype));
}

/* While a checkpoint runs again only whether there is a source counts. */
void vw__node_end(vw__tape *tape, vw__tensor *outputs, size_t output_count)
{
    const bool was_open = tape->is_node_open && tape->status == VW_OK;
    tape->is_node_open = false;
    if (!was_open || !can_number(tape, output_count, "results"))
        return;
    for (size_t i = 0; i < output_count; i++)
        outputs[i].source =
            (vw__tape_source){.node = (uint32_t)tape->nodes.count - 1, .output = (uint16_t)i};
    if (tape->is_running_again || !VW__TAPE_RESERVE(tape, tape->incoming, output_count) ||
        !VW__TAPE_RESERVE(tape, tape->incoming_bytes, output_count))
        return;
    for (size_t i = 0; i < output_count; i++) {
        tape->incoming.items[tape->incoming.count++] = VW__TAPE_NO_STORAGE;
        tape->incoming_bytes.items[tape->incoming_bytes.count++] =
            vw__tape_times(tape, outputs[i].elements, vw__dtype_bytes(outputs[i].dtype));
    }
    open_node(tape)->incoming_count = (uint32_t)output_count;
}

vw__tensor vw__tape_hook(vw__tape *tape, vw__tensor x, vw__tape_hook_call call, void *context,
                         size_t number)
{
    vw__tensor same = vw__tensor_hold(tape, x);
    if (tape->is_running_again || !VW__TAPE_RESERVE(tape, tape->hooks, 1) ||
        !vw__node_begin(tape, &x, 1))
        return same;
    open_node(tape)->hook = (uint32_t)tape->hooks.count;
    tape->hooks.items[tape->hooks.count++] = (vw__tape_hook_entry){call, context, number};
    vw__node_pass(tape, 0, 0);
    vw__node_end(tape, &same, 1);
    return same;
}

vw__tensor vw__tape_require_gradient(vw__tape *tape, vw__tensor x)
{
    vw__tensor same = vw__tensor_hold(tape, x);
    if (tape->status != VW_OK || !tape->is_grad_on || tape->is_running_again ||
        vw__tensor_wants_gradient(x) || add_node(tape) == NULL)
        return same;
    tape->is_node_open = true;
    vw__node_end(tape, &same, 1);
    return same;
}
