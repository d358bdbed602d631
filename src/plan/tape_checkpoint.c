/* tape_checkpoint.c - running a part of the forward pass again instead of keeping what it made.
 *
 * As torch.utils.checkpoint does with use_reentrant=False: the nodes of the part are made as ever,
 * but what they save is thrown away and only counted. When the backward pass comes to the first of
 * them, the part runs again, and each node gets what it would have had: the first thing that is
 * saved is the first that was, whatever else is made in between (a weight that was cast in another
 * part is cast again). With the last of that it stops, in the middle of an operator if need be.
 *
 * A selective one keeps the results of some operators (vw__tensor_new_result()), whether a
 * derivative wants them or not, and gives them out when the part runs again. */
#include "base/error.h"
#include "plan/tape.h"
#include "plan/tape_parts.h"

static vw__tensor begin(vw__tape *tape, vw__tape_forward forward, void *context,
                        vw__tensor argument, bool is_selective)
{
    if (tape->status != VW_OK || !tape->is_grad_on || tape->checkpoint != VW__TAPE_NO_SOURCE ||
        tape->is_running_again || !VW__TAPE_RESERVE(tape, tape->checkpoints, 1))
        return forward(tape, context, argument);
    uint32_t number = (uint32_t)tape->checkpoints.count++;
    uint32_t first_node = (uint32_t)tape->nodes.count;
    tape->checkpoints.items[number] =
        (vw__tape_checkpoint_frame){.forward = forward,
                                    .context = context,
                                    .argument = vw__tensor_hold(tape, argument),
                                    .first_node = first_node,
                                    .first_owner = (uint32_t)tape->owners.count,
                                    .first_kept = (uint32_t)tape->kept.count,
                                    .is_selective = is_selective,
                                    .place = tape->place,
                                    .use = (uint8_t)tape->use,
                                    .is_autocast = tape->is_autocast};
    tape->checkpoint = number;
    vw__tensor result = forward(tape, context, argument);
    tape->checkpoint = VW__TAPE_NO_SOURCE;
    vw__tape_checkpoint_frame *frame = &tape->checkpoints.items[number];
    frame->node_count = (uint32_t)tape->nodes.count - first_node;
    frame->nodes_to_run = frame->node_count;
    if (frame->node_count == 0)
        vw__tape_checkpoint_let_go(tape, frame);
    return result;
}

void vw__tape_drop_with_graph(vw__tape *tape, vw__tensor tensor)
{
    if (tape->checkpoints.count > 0 && vw__tensor_exists(tensor) &&
        VW__TAPE_RESERVE(tape, tape->until_graph, 1))
        tape->until_graph.items[tape->until_graph.count++] = tensor.storage;
    else
        vw__tensor_drop(tape, &tensor);
}

vw__tensor vw__tape_checkpoint(vw__tape *tape, vw__tape_forward forward, void *context,
                               vw__tensor argument)
{
    return begin(tape, forward, context, argument, false);
}

vw__tensor vw__tape_checkpoint_selectively(vw__tape *tape, vw__tape_forward forward, void *context,
                                           vw__tensor argument)
{
    return begin(tape, forward, context, argument, true);
}

void vw__tape_checkpoint_let_go(vw__tape *tape, vw__tape_checkpoint_frame *frame)
{
    vw__tensor_drop(tape, &frame->argument);
    for (uint32_t i = frame->next_kept; i < frame->kept_count; i++)
        vw__storage_let_go(tape, tape->kept.items[frame->first_kept + i]);
    frame->next_kept = frame->kept_count;
}

static void keep_result(vw__tape *tape, vw__tape_checkpoint_frame *frame, vw__tensor made)
{
    if (!VW__TAPE_RESERVE(tape, tape->kept, 1))
        return;
    tape->kept.items[tape->kept.count++] = made.storage;
    frame->kept_count++;
    vw__storage_hold(tape, made.storage);
}

vw__tensor vw__tensor_new_result(vw__tape *tape, uint64_t elements, vw__dtype dtype)
{
    bool is_again = tape->is_running_again && !tape->has_stopped;
    uint32_t number = is_again ? tape->checkpoint_again : tape->checkpoint;
    if (number == VW__TAPE_NO_SOURCE || !tape->checkpoints.items[number].is_selective)
        return vw__tensor_new(tape, elements, dtype);
    vw__tape_checkpoint_frame *frame = &tape->checkpoints.items[number];
    if (is_again && frame->next_kept < frame->kept_count) {
        vw__tensor same = vw__tensor_none();
        same.elements = elements;
        same.dtype = dtype;
        same.storage = tape->kept.items[frame->first_kept + frame->next_kept++];
        return same;
    }
    vw__tensor made = vw__tensor_new(tape, elements, dtype);
    if (!is_again)
        keep_result(tape, frame, made);
    return made;
}

void vw__tape_checkpoint_run_again(vw__tape *tape, uint32_t number)
{
    vw__tape_checkpoint_frame frame = tape->checkpoints.items[number];
    tape->checkpoints.items[number].has_run_again = true;
    if (frame.save_count == 0)
        return;
    vw__tape_use use = vw__tape_set_use(tape, (vw__tape_use)frame.use);
    bool was_grad_on = vw__tape_set_grad(tape, true);
    uint32_t place = tape->place;
    tape->place = frame.place;
    tape->is_running_again = true;
    vw__tape_tell(tape, VW__TAPE_MARK_AGAIN);
    tape->checkpoint_again = number;
    tape->next_owner = frame.first_owner;
    tape->saves_to_come = frame.save_count;
    if (frame.is_autocast)
        vw__tape_autocast_enter(tape, tape->autocast_dtype);
    vw__tensor result = frame.forward(tape, frame.context, frame.argument);
    if (!tape->has_stopped && tape->status == VW_OK)
        vw__tape_fail(tape, vw__fail(VW_ERR_WRONG_STATE,
                                     "a checkpoint of a plan did not make again "
                                     "what it made: %llu tensors are missing",
                                     (unsigned long long)tape->saves_to_come));
    tape->has_stopped = false;
    vw__tensor_drop(tape, &result);
    if (frame.is_autocast)
        vw__tape_autocast_leave(tape);
    vw__tape_tell(tape, VW__TAPE_MARK_AGAIN_END);
    tape->is_running_again = false;
    tape->place = place;
    vw__tape_set_grad(tape, was_grad_on);
    vw__tape_set_use(tape, use);
}
