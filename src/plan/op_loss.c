/* op_loss.c - cross-entropy: where the largest tensors of a language model are. */
#include "plan/op.h"

static hr__tensor log_softmax(hr__tape *tape, hr__tensor x)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    hr__tensor made = hr__tensor_new(tape, x.elements, x.dtype);
    if (has_node) {
        hr__node_save(tape, made);
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

static hr__tensor nll_loss(hr__tape *tape, hr__tensor x, hr__tensor labels)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    if (has_node) {
        hr__node_save(tape, x);
        hr__node_save(tape, labels);
    }
    hr__tensor made = hr__tensor_new(tape, 1, x.dtype), total = hr__tensor_new(tape, 1, x.dtype);
    if (has_node) {
        hr__node_save(tape, total);
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    hr__drop(tape, &total);
    return made;
}

hr__tensor hr__cross_entropy(hr__tape *tape, hr__tensor logits, hr__tensor labels)
{
    hr__tensor chances = log_softmax(tape, logits);
    hr__tensor argument = hr__autocast_float32(tape, chances);
    hr__tensor loss = nll_loss(tape, argument, labels);
    hr__drop(tape, &argument);
    hr__drop(tape, &chances);
    return loss;
}

/* The squares are made one by one before their mean is taken. */
hr__tensor hr__mse_loss(hr__tape *tape, hr__tensor x, hr__tensor wanted)
{
    hr__tensor argument = hr__autocast_float32(tape, x);
    bool has_node = hr__node_begin(tape, (hr__tensor[]){argument, wanted}, 2);
    if (has_node) {
        hr__node_save(tape, argument);
        hr__node_save(tape, wanted);
    }
    hr__tensor made = hr__tensor_new(tape, 1, argument.dtype);
    hr__tensor squares = hr__tensor_new(tape, argument.elements, argument.dtype);
    hr__drop(tape, &squares);
    if (has_node) {
        hr__node_take_for(tape, 0, argument.elements, argument.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    hr__drop(tape, &argument);
    return made;
}
