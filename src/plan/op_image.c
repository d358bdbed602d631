/* op_image.c - batch norm and pools. */
#include "plan/op_image.h"

/* Neither of autocast's lists has it: it takes what comes, and its weights as they are. */
vw__tensor vw__batch_norm(vw__tape *tape, vw__tensor x, vw__tensor weight, vw__tensor bias,
                          bool is_training)
{
    bool has_node = vw__node_begin(tape, (vw__tensor[]){x, weight, bias}, 3);
    if (has_node)
        vw__node_save(tape, x);
    vw__tensor made = vw__tensor_new(tape, x.elements, x.dtype);
    vw__tensor mean = vw__no_tensor(), deviation = vw__no_tensor();
    if (is_training) {
        mean = vw__tensor_new(tape, weight.elements, VW__FLOAT32);
        deviation = vw__tensor_new(tape, weight.elements, VW__FLOAT32);
    }
    if (has_node) {
        vw__node_save(tape, mean);
        vw__node_save(tape, deviation);
        vw__node_take_for(tape, 0, x.elements, x.dtype);
        vw__node_take_for(tape, 1, weight.elements, weight.dtype);
        vw__node_take_for(tape, 2, bias.elements, bias.dtype);
        vw__node_end(tape, (vw__tensor *[]){&made}, 1);
    }
    vw__drop(tape, &deviation);
    vw__drop(tape, &mean);
    return made;
}

vw__tensor vw__max_pool(vw__tape *tape, vw__tensor x, uint64_t elements)
{
    bool has_node = vw__node_begin(tape, &x, 1);
    if (has_node)
        vw__node_save(tape, x);
    vw__tensor made = vw__tensor_new(tape, elements, x.dtype);
    vw__tensor indices = vw__tensor_new(tape, elements, VW__INT64);
    if (has_node) {
        vw__node_save(tape, indices);
        vw__node_take_for(tape, 0, x.elements, x.dtype);
        vw__node_end(tape, (vw__tensor *[]){&made}, 1);
    }
    vw__drop(tape, &indices);
    return made;
}

vw__tensor vw__avg_pool(vw__tape *tape, vw__tensor x, uint64_t elements)
{
    bool has_node = vw__node_begin(tape, &x, 1);
    if (has_node)
        vw__node_save(tape, x);
    vw__tensor made = vw__tensor_new(tape, elements, x.dtype);
    if (has_node) {
        vw__node_take_for(tape, 0, x.elements, x.dtype);
        vw__node_end(tape, (vw__tensor *[]){&made}, 1);
    }
    return made;
}
