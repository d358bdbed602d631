/* op_cast.c - types, and what autocast does to them. */
#include "plan/op.h"
#include "plan/tape_parts.h"

hr__tensor hr__to(hr__tape *tape, hr__tensor x, hr__dtype dtype)
{
    if (!hr__is_tensor(x) || x.dtype == dtype)
        return hr__hold(tape, x);
    bool has_node = hr__node_begin(tape, &x, 1);
    hr__tensor made = hr__tensor_new(tape, x.elements, dtype);
    if (has_node) {
        hr__node_take_for(tape, 0, x.elements, x.dtype);
        hr__node_end(tape, (hr__tensor *[]){&made}, 1);
    }
    return made;
}

void hr__autocast_enter(hr__tape *tape, hr__dtype dtype)
{
    tape->is_autocast = true;
    tape->autocast_dtype = dtype;
}

void hr__autocast_leave(hr__tape *tape)
{
    for (size_t i = 0; i < tape->casts.count; i++)
        hr__drop(tape, &tape->casts.items[i].made);
    tape->casts.count = 0;
    tape->is_autocast = false;
}

static bool is_floating(hr__dtype dtype)
{
    return dtype == HR__FLOAT32 || dtype == HR__BFLOAT16 || dtype == HR__FLOAT16;
}

static hr__cast *find_cast(const hr__tape *tape, uint32_t storage)
{
    for (size_t i = 0; i < tape->casts.count; i++)
        if (tape->casts.items[i].parameter_storage == storage)
            return &tape->casts.items[i];
    return NULL;
}

/* Only trained float32 weights are remembered, while gradients are on. */
hr__tensor hr__autocast_lower(hr__tape *tape, hr__tensor x)
{
    if (!tape->is_autocast || !hr__is_tensor(x) || !is_floating(x.dtype) ||
        x.dtype == tape->autocast_dtype)
        return hr__hold(tape, x);
    bool is_remembered = x.dtype == HR__FLOAT32 && x.source.is_parameter && hr__wants_gradient(x);
    hr__cast *known = is_remembered ? find_cast(tape, x.storage) : NULL;
    if (known != NULL)
        return hr__hold(tape, known->made);
    hr__tensor made = hr__to(tape, x, tape->autocast_dtype);
    if (is_remembered && hr__is_tensor(made) && HR__RESERVE(tape, tape->casts, 1))
        tape->casts.items[tape->casts.count++] =
            (hr__cast){.parameter_storage = x.storage, .made = hr__hold(tape, made)};
    return made;
}

hr__tensor hr__autocast_float32(hr__tape *tape, hr__tensor x)
{
    return tape->is_autocast && hr__is_tensor(x) && is_floating(x.dtype)
               ? hr__to(tape, x, HR__FLOAT32)
               : hr__hold(tape, x);
}
