/* op_loss.c - cross-entropy: where the largest tensors of a language model are. */
#include "plan/op.h"

static vw__tensor log_softmax(vw__tape *tape, vw__tensor x)
{
    bool has_node = vw__node_begin(tape, &x, 1);
    vw__tensor made = vw__tensor_new(tape, x.elements, x.dtype);
    if (has_node) {
        vw__node_save(tape, made);
        vw__node_take_for(tape, 0, x.elements, x.dtype);
        vw__node_end(tape, (vw__tensor *[]){&made}, 1);
    }
    return made;
}

static vw__tensor nll_loss(vw__tape *tape, vw__tensor x, vw__tensor labels)
{
    bool has_node = vw__node_begin(tape, &x, 1);
    if (has_node) {
        vw__node_save(tape, x);
        vw__node_save(tape, labels);
    }
    vw__tensor made = vw__tensor_new(tape, 1, x.dtype), total = vw__tensor_new(tape, 1, x.dtype);
    if (has_node) {
        vw__node_save(tape, total);
        vw__node_take_for(tape, 0, x.elements, x.dtype);
        vw__node_end(tape, (vw__tensor *[]){&made}, 1);
    }
    vw__drop(tape, &total);
    return made;
}

vw__tensor vw__cross_entropy(vw__tape *tape, vw__tensor logits, vw__tensor labels)
{
    vw__tensor chances = log_softmax(tape, logits);
    vw__tensor argument = vw__autocast_float32(tape, chances);
    vw__tensor loss = nll_loss(tape, argument, labels);
    vw__drop(tape, &argument);
    vw__drop(tape, &chances);
    return loss;
}

/* The squares are made one by one before their mean is taken. */
vw__tensor vw__mse_loss(vw__tape *tape, vw__tensor x, vw__tensor wanted)
{
    vw__tensor argument = vw__autocast_float32(tape, x);
    bool has_node = vw__node_begin(tape, (vw__tensor[]){argument, wanted}, 2);
    if (has_node) {
        vw__node_save(tape, argument);
        vw__node_save(tape, wanted);
    }
    vw__tensor made = vw__tensor_new(tape, 1, argument.dtype);
    vw__tensor squares = vw__tensor_new(tape, argument.elements, argument.dtype);
    vw__drop(tape, &squares);
    if (has_node) {
        vw__node_take_for(tape, 0, argument.elements, argument.dtype);
        vw__node_end(tape, (vw__tensor *[]){&made}, 1);
    }
    vw__drop(tape, &argument);
    return made;
}
