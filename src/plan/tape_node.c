/* tape_node.c - nodes: what an operator leaves behind for its derivative. */
#include "base/checked_math.h"
#include "base/error.h"
#include "plan/tape.h"
#include "plan/tape_parts.h"

static hr__node *open_node(hr__tape *tape)
{
    return &tape->nodes.items[tape->nodes.count - 1];
}

static bool has_wish(const hr__tensor *arguments, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (hr__is_tensor(arguments[i]) && hr__wants_gradient(arguments[i]))
            return true;
    return false;
}

static void tell_watcher(const hr__tape *tape, const hr__tensor *arguments, size_t count)
{
    for (size_t i = 0; tape->watch != NULL && i < count; i++)
        if (hr__is_tensor(arguments[i]))
            tape->watch(tape->watch_context, arguments[i].storage);
}

static hr__node *add_node(hr__tape *tape)
{
    if (!HR__RESERVE(tape, tape->nodes, 1))
        return NULL;
    hr__node *node = &tape->nodes.items[tape->nodes.count++];
    *node = (hr__node){.first_edge = (uint32_t)tape->edges.count,
                       .first_saved = (uint32_t)tape->saved.count,
                       .first_step = (uint32_t)tape->steps.count,
                       .first_incoming = (uint32_t)tape->incoming.count,
                       .place = tape->place,
                       .checkpoint = tape->checkpoint,
                       .hook = HR__NO_SOURCE,
                       .use = (uint8_t)tape->use};
    return node;
}

bool hr__node_begin(hr__tape *tape, const hr__tensor *arguments, size_t argument_count)
{
    tell_watcher(tape, arguments, argument_count);
    if (tape->status != HR_OK || tape->has_stopped || !tape->is_grad_on ||
        !has_wish(arguments, argument_count))
        return false;
    if (tape->is_running_again)
        return true; /* the node is there already; it lacks what it saved */
    hr__node *node = HR__RESERVE(tape, tape->edges, argument_count) ? add_node(tape) : NULL;
    if (node == NULL)
        return false;
    node->edge_count = (uint32_t)argument_count;
    for (size_t i = 0; i < argument_count; i++) {
        hr__source source = arguments[i].source;
        if (!hr__is_tensor(arguments[i]))
            source.node = HR__NO_SOURCE;
        tape->edges.items[tape->edges.count++] = source;
        if (source.node != HR__NO_SOURCE && source.is_parameter)
            tape->leaves.items[source.node].expected++;
    }
    return true;
}

static void keep_saved(hr__tape *tape, hr__node *node, uint32_t storage)
{
    if (!HR__RESERVE(tape, tape->saved, 1))
        return;
    tape->saved.items[tape->saved.count++] = storage;
    node->saved_count++;
    hr__storage_hold(tape, storage);
}

/* What a node saves comes in one piece. */
static void save_again(hr__tape *tape, uint32_t storage)
{
    hr__node *owner = &tape->nodes.items[tape->owners.items[tape->next_owner++]];
    if (owner->saved_count == 0)
        owner->first_saved = (uint32_t)tape->saved.count;
    keep_saved(tape, owner, storage);
    tape->has_stopped = --tape->saves_to_come == 0;
}

static void count_save(hr__tape *tape)
{
    if (!HR__RESERVE(tape, tape->owners, 1))
        return;
    tape->owners.items[tape->owners.count++] = (uint32_t)tape->nodes.count - 1;
    tape->checkpoints.items[tape->checkpoint].save_count++;
}

void hr__node_save(hr__tape *tape, hr__tensor tensor)
{
    if (tape->status != HR_OK || tape->has_stopped || !hr__is_tensor(tensor))
        return;
    if (tape->is_running_again) {
        save_again(tape, tensor.storage);
    } else if (tape->checkpoint != HR__NO_SOURCE) {
        count_save(tape);
    } else {
        keep_saved(tape, open_node(tape), tensor.storage);
    }
}

static hr__step *add_step(hr__tape *tape, hr__step_kind kind)
{
    if (tape->status != HR_OK || tape->is_running_again || !HR__RESERVE(tape, tape->steps, 1))
        return NULL;
    hr__step *step = &tape->steps.items[tape->steps.count++];
    *step = (hr__step){.kind = (uint8_t)kind};
    open_node(tape)->step_count++;
    return step;
}

uint16_t hr__node_take(hr__tape *tape, uint64_t elements, hr__dtype dtype)
{
    hr__step *step = add_step(tape, HR__STEP_TAKE);
    if (step == NULL)
        return HR__NO_SLOT;
    step->size_bytes = hr__times(tape, elements, hr__dtype_bytes(dtype));
    step->slot = open_node(tape)->slot_count++;
    return step->slot;
}

void hr__node_let_go(hr__tape *tape, uint16_t slot)
{
    hr__step *step = slot == HR__NO_SLOT ? NULL : add_step(tape, HR__STEP_LET_GO);
    if (step != NULL)
        step->slot = slot;
}

void hr__node_return(hr__tape *tape)
{
    (void)add_step(tape, HR__STEP_RETURN);
}

bool hr__node_wants(const hr__tape *tape, size_t edge)
{
    if (tape->status != HR_OK || tape->is_running_again)
        return false;
    const hr__node *node = &tape->nodes.items[tape->nodes.count - 1];
    return tape->edges.items[node->first_edge + edge].node != HR__NO_SOURCE;
}

static void add_gift(hr__tape *tape, hr__step_kind kind, size_t edge, size_t slot)
{
    hr__step *step = hr__node_wants(tape, edge) ? add_step(tape, kind) : NULL;
    if (step == NULL)
        return;
    step->edge = (uint16_t)edge;
    step->slot = (uint16_t)slot;
}

void hr__node_give(hr__tape *tape, size_t edge, uint16_t slot)
{
    if (slot != HR__NO_SLOT)
        add_gift(tape, HR__STEP_GIVE, edge, slot);
}

void hr__node_pass(hr__tape *tape, size_t edge, size_t output)
{
    add_gift(tape, HR__STEP_PASS, edge, output);
}

void hr__node_take_for(hr__tape *tape, size_t edge, uint64_t elements, hr__dtype dtype)
{
    if (hr__node_wants(tape, edge))
        hr__node_give(tape, edge, hr__node_take(tape, elements, dtype));
}

/* While a checkpoint runs again only whether there is a source counts. */
static void name_output(const hr__tape *tape, hr__tensor *output, size_t i)
{
    uint32_t number = (uint32_t)tape->nodes.count - 1;
    output->source = (hr__source){.node = number, .output = (uint16_t)i};
}

static void end_with(hr__tape *tape, size_t output_count)
{
    if (tape->is_running_again || !HR__RESERVE(tape, tape->incoming, output_count))
        return;
    for (size_t i = 0; i < output_count; i++)
        tape->incoming.items[tape->incoming.count++] = HR__NO_STORAGE;
    open_node(tape)->incoming_count = (uint32_t)output_count;
}

void hr__node_end(hr__tape *tape, hr__tensor *const *outputs, size_t output_count)
{
    if (tape->status != HR_OK)
        return;
    for (size_t i = 0; i < output_count; i++)
        name_output(tape, outputs[i], i);
    end_with(tape, output_count);
}

void hr__node_end_all(hr__tape *tape, hr__tensor *outputs, size_t output_count)
{
    if (tape->status != HR_OK)
        return;
    for (size_t i = 0; i < output_count; i++)
        name_output(tape, &outputs[i], i);
    end_with(tape, output_count);
}

hr__tensor hr__hook(hr__tape *tape, hr__tensor x, hr__hook_call call, void *context, size_t number)
{
    hr__tensor same = hr__hold(tape, x);
    if (tape->is_running_again || !HR__RESERVE(tape, tape->hooks, 1) ||
        !hr__node_begin(tape, &x, 1))
        return same;
    open_node(tape)->hook = (uint32_t)tape->hooks.count;
    tape->hooks.items[tape->hooks.count++] = (hr__hook_entry){call, context, number};
    hr__node_pass(tape, 0, 0);
    hr__node_end(tape, (hr__tensor *[]){&same}, 1);
    return same;
}

hr__tensor hr__require_gradient(hr__tape *tape, hr__tensor x)
{
    hr__tensor same = hr__hold(tape, x);
    if (tape->status != HR_OK || !tape->is_grad_on || tape->is_running_again ||
        hr__wants_gradient(x) || add_node(tape) == NULL)
        return same;
    hr__node_end(tape, (hr__tensor *[]){&same}, 1);
    return same;
}
