/* op_cast.c - types, and what autocast does to them. */
#include "plan/op.h"
#include "plan/tape_parts.h"

vw__tensor vw__to(vw__tape *tape, vw__tensor x, vw__dtype dtype)
{
    if (!vw__is_tensor(x) || x.dtype == dtype)
        return vw__hold(tape, x);
    bool has_node = vw__node_begin(tape, &x, 1);
    vw__tensor made = vw__tensor_new(tape, x.elements, dtype);
    if (has_node) {
        vw__node_take_for(tape, 0, x.elements, x.dtype);
        vw__node_end(tape, (vw__tensor *[]){&made}, 1);
    }
    return made;
}

void vw__autocast_enter(vw__tape *tape, vw__dtype dtype)
{
    tape->is_autocast = true;
    tape->autocast_dtype = dtype;
}

void vw__autocast_leave(vw__tape *tape)
{
    for (size_t i = 0; i < tape->casts.count; i++)
        vw__drop(tape, &tape->casts.items[i].made);
    tape->casts.count = 0;
    tape->is_autocast = false;
}

static bool is_floating(vw__dtype dtype)
{
    return dtype == VW__FLOAT32 || dtype == VW__BFLOAT16 || dtype == VW__FLOAT16;
}

static vw__cast *find_cast(const vw__tape *tape, uint32_t storage)
{
    for (size_t i = 0; i < tape->casts.count; i++)
        if (tape->casts.items[i].parameter_storage == storage)
            return &tape->casts.items[i];
    return NULL;
}

/* Only trained float32 weights are remembered, while gradients are on. */
vw__tensor vw__autocast_lower(vw__tape *tape, vw__tensor x)
{
    if (!tape->is_autocast || !vw__is_tensor(x) || !is_floating(x.dtype) ||
        x.dtype == tape->autocast_dtype)
        return vw__hold(tape, x);
    bool is_remembered = x.dtype == VW__FLOAT32 && x.source.is_parameter && vw__wants_gradient(x);
    vw__cast *known = is_remembered ? find_cast(tape, x.storage) : NULL;
    if (known != NULL)
        return vw__hold(tape, known->made);
    vw__tensor made = vw__to(tape, x, tape->autocast_dtype);
    if (is_remembered && vw__is_tensor(made) && VW__RESERVE(tape, tape->casts, 1))
        tape->casts.items[tape->casts.count++] =
            (vw__cast){.parameter_storage = x.storage, .made = vw__hold(tape, made)};
    return made;
}

vw__tensor vw__autocast_float32(vw__tape *tape, vw__tensor x)
{
    return tape->is_autocast && vw__is_tensor(x) && is_floating(x.dtype)
               ? vw__to(tape, x, VW__FLOAT32)
               : vw__hold(tape, x);
}
