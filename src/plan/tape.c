/* tape.c - storages, places and parameters: what is held, by how many, and how much that is. */
#include "plan/tape.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "plan/tape_parts.h"

enum { UNIT_BYTES = 512 }; /* PyTorch's allocator rounds up to these */

/* ---- the tape -------------------------------------------------------------------------------- */

hr_status hr__tape_create(const hr__tape_listener *listener, hr__tape **out)
{
    hr__tape *tape = hr__host_alloc_zeroed(1, sizeof *tape);
    if (tape == NULL)
        return hr__fail_host_memory(sizeof *tape, "a plan");
    if (listener != NULL)
        tape->listener = *listener;
    tape->place = UINT32_MAX;
    tape->use = HR__USE_ACTIVATIONS;
    tape->is_grad_on = true;
    tape->checkpoint = HR__NO_SOURCE;
    *out = tape;
    return HR_OK;
}

void hr__tape_destroy(hr__tape *tape)
{
    if (tape == NULL)
        return;
    hr__host_free(tape->storages.items);
    hr__host_free(tape->free_storages.items);
    hr__host_free(tape->nodes.items);
    hr__host_free(tape->edges.items);
    hr__host_free(tape->saved.items);
    hr__host_free(tape->steps.items);
    hr__host_free(tape->incoming.items);
    hr__host_free(tape->slots.items);
    hr__host_free(tape->leaves.items);
    hr__host_free(tape->places.items);
    hr__host_free(tape->place_stack.items);
    hr__host_free(tape->checkpoints.items);
    hr__host_free(tape->casts.items);
    hr__host_free(tape->owners.items);
    hr__host_free(tape->kept.items);
    hr__host_free(tape->until_graph.items);
    hr__host_free(tape->hooks.items);
    hr__host_free(tape);
}

hr_status hr__tape_status(const hr__tape *tape)
{
    return tape->status;
}

void hr__tape_fail(hr__tape *tape, hr_status status)
{
    if (tape->status == HR_OK)
        tape->status = status;
}

void hr__tape_tell(hr__tape *tape, hr__tape_mark mark)
{
    if (tape->listener.mark != NULL)
        tape->listener.mark(tape->listener.context, mark);
}

bool hr__table_reserve(hr__tape *tape, void **items, size_t *capacity, size_t count, size_t more,
                       size_t item_bytes)
{
    if (count + more <= *capacity)
        return true;
    size_t wanted = *capacity == 0 ? 64 : 2 * *capacity;
    while (wanted < count + more)
        wanted *= 2;
    void *grown = wanted > UINT32_MAX - 1 ? NULL : hr__host_realloc(*items, wanted * item_bytes);
    if (grown == NULL) {
        hr__tape_fail(tape, hr__fail_host_memory(wanted * item_bytes, "the step of a plan"));
        return false;
    }
    *items = grown;
    *capacity = wanted;
    return true;
}

/* ---- storages -------------------------------------------------------------------------------- */

static void count_alloc(hr__tape *tape, uint64_t size_bytes, hr__use use)
{
    tape->live_bytes += size_bytes;
    tape->live_of[use] += size_bytes;
    if (tape->live_bytes <= tape->peak.live_bytes)
        return;
    tape->peak.live_bytes = tape->live_bytes;
    memcpy(tape->peak.parts, tape->live_of, sizeof tape->live_of);
    tape->peak.place = tape->place;
}

static bool rounded_size(uint64_t elements, uint64_t element_bytes, uint64_t *out)
{
    uint64_t size_bytes;
    if (!hr__mul_u64(elements, element_bytes, &size_bytes) ||
        !hr__add_u64(size_bytes, UNIT_BYTES - 1, &size_bytes))
        return false;
    *out = size_bytes / UNIT_BYTES * UNIT_BYTES;
    return true;
}

/* Memory comes: false (and the tape has failed) if there cannot be as much. */
static bool grow(hr__tape *tape, uint64_t size_bytes, hr__use use)
{
    uint64_t sum;
    if (!hr__add_u64(tape->live_bytes, size_bytes, &sum) || sum > INT64_MAX) {
        hr__tape_fail(
            tape, hr__fail(HR_ERR_UNSUPPORTED, "the plan needs more than an address space has"));
        return false;
    }
    count_alloc(tape, size_bytes, use);
    return true;
}

static void tell_alloc(const hr__tape *tape, uint32_t storage)
{
    const hr__storage *made = &tape->storages.items[storage];
    if (tape->listener.alloc != NULL)
        tape->listener.alloc(tape->listener.context, storage, made->size_bytes, tape->place,
                             (hr__use)made->use);
}

static void shrink(hr__tape *tape, uint32_t storage)
{
    const hr__storage *freed = &tape->storages.items[storage];
    tape->live_bytes -= freed->size_bytes;
    tape->live_of[freed->use] -= freed->size_bytes;
    if (tape->listener.free != NULL)
        tape->listener.free(tape->listener.context, storage);
}

static uint32_t unused_storage(hr__tape *tape)
{
    if (tape->free_storages.count > 0)
        return tape->free_storages.items[--tape->free_storages.count];
    if (!HR__RESERVE(tape, tape->storages, 1))
        return HR__NO_STORAGE;
    return (uint32_t)tape->storages.count++;
}

/* Held once, and aside. */
static uint32_t storage_aside(hr__tape *tape, uint64_t elements, uint64_t element_bytes,
                              hr__use use)
{
    uint64_t size_bytes;
    if (tape->status != HR_OK)
        return HR__NO_STORAGE;
    if (!rounded_size(elements, element_bytes, &size_bytes)) {
        hr__tape_fail(
            tape, hr__fail(HR_ERR_UNSUPPORTED, "the plan needs more than an address space has"));
        return HR__NO_STORAGE;
    }
    uint32_t storage = unused_storage(tape);
    if (storage != HR__NO_STORAGE)
        tape->storages.items[storage] = (hr__storage){
            .size_bytes = size_bytes, .holders = 1, .use = (uint8_t)use, .is_aside = true};
    return storage;
}

uint32_t hr__storage_new(hr__tape *tape, uint64_t elements, uint64_t element_bytes, hr__use use)
{
    uint32_t storage = storage_aside(tape, elements, element_bytes, use);
    if (storage == HR__NO_STORAGE || !grow(tape, tape->storages.items[storage].size_bytes, use))
        return HR__NO_STORAGE;
    tape->storages.items[storage].is_aside = false;
    tell_alloc(tape, storage);
    return storage;
}

void hr__storage_hold(hr__tape *tape, uint32_t storage)
{
    if (storage != HR__NO_STORAGE)
        tape->storages.items[storage].holders++;
}

void hr__storage_let_go(hr__tape *tape, uint32_t storage)
{
    if (storage == HR__NO_STORAGE || --tape->storages.items[storage].holders > 0)
        return;
    if (!tape->storages.items[storage].is_aside)
        shrink(tape, storage);
    if (HR__RESERVE(tape, tape->free_storages, 1))
        tape->free_storages.items[tape->free_storages.count++] = storage;
}

void hr__storage_set_use(hr__tape *tape, uint32_t storage, hr__use use)
{
    hr__storage *changed = &tape->storages.items[storage];
    if (!changed->is_aside) {
        tape->live_of[changed->use] -= changed->size_bytes;
        tape->live_of[use] += changed->size_bytes;
    }
    changed->use = (uint8_t)use;
}

bool hr__is_aside(const hr__tape *tape, hr__tensor tensor)
{
    return tensor.storage != HR__NO_STORAGE && tape->storages.items[tensor.storage].is_aside;
}

void hr__set_aside(hr__tape *tape, hr__tensor tensor)
{
    if (tensor.storage == HR__NO_STORAGE || hr__is_aside(tape, tensor))
        return;
    shrink(tape, tensor.storage);
    tape->storages.items[tensor.storage].is_aside = true;
}

void hr__bring_back(hr__tape *tape, hr__tensor tensor)
{
    if (!hr__is_aside(tape, tensor) || tape->status != HR_OK)
        return;
    hr__storage *storage = &tape->storages.items[tensor.storage];
    if (!grow(tape, storage->size_bytes, (hr__use)storage->use))
        return;
    storage->is_aside = false;
    tell_alloc(tape, tensor.storage);
}

/* ---- tensors --------------------------------------------------------------------------------- */

hr__tensor hr__no_tensor(void)
{
    return (hr__tensor){.storage = HR__NO_STORAGE, .source = {.node = HR__NO_SOURCE}};
}

hr__tensor hr__tensor_new(hr__tape *tape, uint64_t elements, hr__dtype dtype)
{
    hr__tensor made = hr__no_tensor();
    made.elements = elements;
    made.dtype = dtype;
    if (!tape->has_stopped)
        made.storage = hr__storage_new(tape, elements, hr__dtype_bytes(dtype), tape->use);
    return made;
}

hr__tensor hr__hold(hr__tape *tape, hr__tensor tensor)
{
    hr__storage_hold(tape, tensor.storage);
    return tensor;
}

void hr__drop(hr__tape *tape, hr__tensor *tensor)
{
    hr__storage_let_go(tape, tensor->storage);
    *tensor = hr__no_tensor();
}

void hr__rebind(hr__tape *tape, hr__tensor *tensor, hr__tensor value)
{
    hr__storage_let_go(tape, tensor->storage);
    *tensor = value;
}

hr__tensor hr__detach(hr__tape *tape, hr__tensor tensor)
{
    hr__tensor same = hr__hold(tape, tensor);
    same.source.node = HR__NO_SOURCE;
    return same;
}

uint64_t hr__times(hr__tape *tape, uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    if (!hr__mul_u64(a, b, &product))
        hr__tape_fail(
            tape, hr__fail(HR_ERR_UNSUPPORTED, "a tensor of the plan has more than 2^64 elements"));
    return product;
}

/* ---- parameters ------------------------------------------------------------------------------ */

hr__tensor hr__parameter_aside(hr__tape *tape, uint64_t elements, hr__dtype dtype, bool is_trained)
{
    hr__tensor made = hr__no_tensor();
    made.elements = elements;
    made.dtype = dtype;
    made.storage = storage_aside(tape, elements, hr__dtype_bytes(dtype), HR__USE_WEIGHTS);
    if (!is_trained || tape->status != HR_OK || !HR__RESERVE(tape, tape->leaves, 1))
        return made;
    made.source = (hr__source){.node = (uint32_t)tape->leaves.count, .is_parameter = true};
    tape->leaves.items[tape->leaves.count++] =
        (hr__leaf){.tensor = made, .gradient = HR__NO_STORAGE, .arriving = HR__NO_STORAGE};
    return made;
}

hr__tensor hr__parameter(hr__tape *tape, uint64_t elements, hr__dtype dtype, bool is_trained)
{
    hr__tensor made = hr__parameter_aside(tape, elements, dtype, is_trained);
    hr__bring_back(tape, made);
    return made;
}

size_t hr__tape_parameter_count(const hr__tape *tape)
{
    return tape->leaves.count;
}

uint64_t hr__tape_parameter_elements(const hr__tape *tape, size_t parameter)
{
    return tape->leaves.items[parameter].tensor.elements;
}

hr__dtype hr__tape_parameter_dtype(const hr__tape *tape, size_t parameter)
{
    return tape->leaves.items[parameter].tensor.dtype;
}

bool hr__tape_has_gradient(const hr__tape *tape, size_t parameter)
{
    return tape->leaves.items[parameter].gradient != HR__NO_STORAGE;
}

void hr__tape_set_matrix(hr__tape *tape, hr__tensor parameter, uint64_t rows, uint64_t width)
{
    if (tape->status == HR_OK && parameter.source.is_parameter && hr__wants_gradient(parameter))
        tape->leaves.items[parameter.source.node].matrix = (hr__matrix){rows, width};
}

hr__matrix hr__tape_parameter_matrix(const hr__tape *tape, size_t parameter)
{
    return tape->leaves.items[parameter].matrix;
}

hr__tensor hr__tape_take_gradient(hr__tape *tape, hr__tensor parameter)
{
    hr__tensor taken = hr__no_tensor();
    if (tape->status != HR_OK || !hr__wants_gradient(parameter) || !parameter.source.is_parameter)
        return taken;
    hr__leaf *leaf = &tape->leaves.items[parameter.source.node];
    taken.elements = leaf->tensor.elements;
    taken.dtype = leaf->tensor.dtype;
    taken.storage = leaf->gradient;
    leaf->gradient = HR__NO_STORAGE;
    return taken;
}

void hr__tape_make_gradients(hr__tape *tape)
{
    for (size_t i = 0; i < tape->leaves.count && tape->status == HR_OK; i++) {
        hr__tensor like = tape->leaves.items[i].tensor;
        if (tape->leaves.items[i].gradient == HR__NO_STORAGE)
            tape->leaves.items[i].gradient = hr__storage_new(
                tape, like.elements, hr__dtype_bytes(like.dtype), HR__USE_GRADIENTS);
    }
}

void hr__tape_drop_gradients(hr__tape *tape)
{
    for (size_t i = 0; i < tape->leaves.count; i++) {
        hr__storage_let_go(tape, tape->leaves.items[i].gradient);
        tape->leaves.items[i].gradient = HR__NO_STORAGE;
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

void hr__enter(hr__tape *tape, const char *name, int64_t number)
{
    if (!HR__RESERVE(tape, tape->places, 1) || !HR__RESERVE(tape, tape->place_stack, 1))
        return;
    tape->place_stack.items[tape->place_stack.count++] = tape->place;
    tape->places.items[tape->places.count] =
        (hr__place){.parent = tape->place, .name = name, .number = number};
    tape->place = (uint32_t)tape->places.count++;
}

void hr__leave(hr__tape *tape)
{
    if (tape->place_stack.count > 0)
        tape->place = tape->place_stack.items[--tape->place_stack.count];
}

size_t hr__tape_place_count(const hr__tape *tape)
{
    return tape->places.count;
}

hr__place hr__tape_place(const hr__tape *tape, uint32_t place)
{
    return tape->places.items[place];
}

hr__use hr__tape_set_use(hr__tape *tape, hr__use use)
{
    hr__use before = tape->use;
    tape->use = use;
    return before;
}

bool hr__tape_set_grad(hr__tape *tape, bool is_on)
{
    bool before = tape->is_grad_on;
    tape->is_grad_on = is_on;
    return before;
}

void hr__tape_watch(hr__tape *tape, hr__watch_call call, void *context)
{
    tape->watch = call;
    tape->watch_context = context;
}

/* ---- counting -------------------------------------------------------------------------------- */

uint64_t hr__tape_live_bytes(const hr__tape *tape)
{
    return tape->live_bytes;
}

uint64_t hr__tape_live_of(const hr__tape *tape, hr__use use)
{
    return tape->live_of[use];
}

hr__tape_peak hr__tape_get_peak(const hr__tape *tape)
{
    return tape->peak;
}

void hr__tape_reset_peak(hr__tape *tape)
{
    tape->peak.live_bytes = tape->live_bytes;
    memcpy(tape->peak.parts, tape->live_of, sizeof tape->live_of);
    tape->peak.place = tape->place;
}
