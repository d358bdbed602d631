/* tape_checkpoint.c - running a part of the forward pass again instead of keeping what it made.
 *
 * As torch.utils.checkpoint does with use_reentrant=False: the nodes of the part are made as ever,
 * but what they save is thrown away and only counted. When the backward pass comes to the first of
 * them, the part runs again, and each node gets what it would have had: the first thing that is
 * saved is the first that was, whatever else is made in between (a weight that was cast in another
 * part is cast again). With the last of that it stops, in the middle of an operator if need be.
 *
 * A selective one keeps the results of some operators (hr__result_new()), whether a derivative
 * wants them or not, and gives them out when the part runs again. */
#include "base/error.h"
#include "plan/tape.h"
#include "plan/tape_parts.h"

static hr__tensor begin(hr__tape *tape, hr__forward forward, void *context, hr__tensor argument,
                        bool is_selective)
{
    if (tape->status != HR_OK || !tape->is_grad_on || tape->checkpoint != HR__NO_SOURCE ||
        tape->is_running_again || !HR__RESERVE(tape, tape->checkpoints, 1))
        return forward(tape, context, argument);
    uint32_t number = (uint32_t)tape->checkpoints.count++;
    uint32_t first_node = (uint32_t)tape->nodes.count;
    tape->checkpoints.items[number] =
        (hr__checkpoint_frame){.forward = forward,
                               .context = context,
                               .argument = hr__hold(tape, argument),
                               .first_node = first_node,
                               .first_owner = (uint32_t)tape->owners.count,
                               .first_kept = (uint32_t)tape->kept.count,
                               .is_selective = is_selective,
                               .place = tape->place,
                               .use = (uint8_t)tape->use,
                               .is_autocast = tape->is_autocast};
    tape->checkpoint = number;
    hr__tensor result = forward(tape, context, argument);
    tape->checkpoint = HR__NO_SOURCE;
    hr__checkpoint_frame *frame = &tape->checkpoints.items[number];
    frame->node_count = (uint32_t)tape->nodes.count - first_node;
    frame->nodes_to_run = frame->node_count;
    if (frame->node_count == 0)
        hr__checkpoint_let_go(tape, frame);
    return result;
}

void hr__drop_with_graph(hr__tape *tape, hr__tensor tensor)
{
    if (tape->checkpoints.count > 0 && hr__is_tensor(tensor) &&
        HR__RESERVE(tape, tape->until_graph, 1))
        tape->until_graph.items[tape->until_graph.count++] = tensor.storage;
    else
        hr__drop(tape, &tensor);
}

hr__tensor hr__checkpoint(hr__tape *tape, hr__forward forward, void *context, hr__tensor argument)
{
    return begin(tape, forward, context, argument, false);
}

hr__tensor hr__checkpoint_selectively(hr__tape *tape, hr__forward forward, void *context,
                                      hr__tensor argument)
{
    return begin(tape, forward, context, argument, true);
}

void hr__checkpoint_let_go(hr__tape *tape, hr__checkpoint_frame *frame)
{
    hr__drop(tape, &frame->argument);
    for (uint32_t i = frame->next_kept; i < frame->kept_count; i++)
        hr__storage_let_go(tape, tape->kept.items[frame->first_kept + i]);
    frame->next_kept = frame->kept_count;
}

static void keep_result(hr__tape *tape, hr__checkpoint_frame *frame, hr__tensor made)
{
    if (!HR__RESERVE(tape, tape->kept, 1))
        return;
    tape->kept.items[tape->kept.count++] = made.storage;
    frame->kept_count++;
    hr__storage_hold(tape, made.storage);
}

hr__tensor hr__result_new(hr__tape *tape, uint64_t elements, hr__dtype dtype)
{
    bool is_again = tape->is_running_again && !tape->has_stopped;
    uint32_t number = is_again ? tape->checkpoint_again : tape->checkpoint;
    if (number == HR__NO_SOURCE || !tape->checkpoints.items[number].is_selective)
        return hr__tensor_new(tape, elements, dtype);
    hr__checkpoint_frame *frame = &tape->checkpoints.items[number];
    if (is_again && frame->next_kept < frame->kept_count) {
        hr__tensor same = hr__no_tensor();
        same.elements = elements;
        same.dtype = dtype;
        same.storage = tape->kept.items[frame->first_kept + frame->next_kept++];
        return same;
    }
    hr__tensor made = hr__tensor_new(tape, elements, dtype);
    if (!is_again)
        keep_result(tape, frame, made);
    return made;
}

void hr__checkpoint_run_again(hr__tape *tape, uint32_t number)
{
    hr__checkpoint_frame frame = tape->checkpoints.items[number];
    tape->checkpoints.items[number].has_run_again = true;
    if (frame.save_count == 0)
        return;
    hr__use use = hr__tape_set_use(tape, (hr__use)frame.use);
    bool was_grad_on = hr__tape_set_grad(tape, true);
    uint32_t place = tape->place;
    tape->place = frame.place;
    tape->is_running_again = true;
    hr__tape_tell(tape, HR__MARK_AGAIN);
    tape->checkpoint_again = number;
    tape->next_owner = frame.first_owner;
    tape->saves_to_come = frame.save_count;
    if (frame.is_autocast)
        hr__autocast_enter(tape, tape->autocast_dtype);
    hr__tensor result = frame.forward(tape, frame.context, frame.argument);
    if (!tape->has_stopped && tape->status == HR_OK)
        hr__tape_fail(tape, hr__fail(HR_ERR_WRONG_STATE,
                                     "a checkpoint of a plan did not make again "
                                     "what it made: %llu tensors are missing",
                                     (unsigned long long)tape->saves_to_come));
    tape->has_stopped = false;
    hr__drop(tape, &result);
    if (frame.is_autocast)
        hr__autocast_leave(tape);
    hr__tape_tell(tape, HR__MARK_AGAIN_END);
    tape->is_running_again = false;
    tape->place = place;
    hr__tape_set_grad(tape, was_grad_on);
    hr__tape_set_use(tape, use);
}
