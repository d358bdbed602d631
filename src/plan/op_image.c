/* op_image.c - batch norm and pools. */
#include "plan/op_image.h"

/* Neither of autocast's lists has it: it takes what comes, and its weights as they are. */
hr__tensor hr__batch_norm(hr__tape *tape, hr__tensor x, hr__tensor weight, hr__tensor bias,
                          bool is_training)
{
    bool has_node = hr__node_begin(tape, (hr__tensor[]){x, weight, bias}, 3);
    if (has_node)
        hr__node_save(tape, x);
    hr__tensor made = hr__tensor_new(tape, x.elements, x.dtype);
    hr__tensor mean = hr__no_tensor(), deviation = hr__no_tensor();
    if (is_training) {
        mean = hr__tensor_new(tape, weight.elements, HR__FLOAT32);
        deviation = hr__tensor_new(tape, weight.elements, HR__FLOAT32);
    }
    if (has_node) {
        hr__node_save(tape, mean);
        hr__node_save(tape, deviation);
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_take_for(tape, 1, weight.elements, weight.dtype);
        hr__node_take_for(tape, 2, bias.elements, bias.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    hr__drop(tape, &deviation);
    hr__drop(tape, &mean);
    return made;
}

hr__tensor hr__max_pool(hr__tape *tape, hr__tensor x, uint64_t elements)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    if (has_node)
        hr__node_save(tape, x);
    hr__tensor made = hr__tensor_new(tape, elements, x.dtype);
    hr__tensor indices = hr__tensor_new(tape, elements, HR__INT64);
    if (has_node) {
        hr__node_save(tape, indices);
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    hr__drop(tape, &indices);
    return made;
}

hr__tensor hr__avg_pool(hr__tape *tape, hr__tensor x, uint64_t elements)
{
    bool has_node = hr__node_begin(tape, &x, 1);
    if (has_node)
        hr__node_save(tape, x);
    hr__tensor made = hr__tensor_new(tape, elements, x.dtype);
    if (has_node) {
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}
