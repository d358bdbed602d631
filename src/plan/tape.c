/* tape.c - storages, places and parameters: who holds what, and how many bytes that is. */
#include "plan/tape.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"
#include "plan/plan_limits.h"
#include "plan/tape_parts.h"

/* ---- the tape -------------------------------------------------------------------------------- */

vw_status vw__tape_create(const vw__tape_listener *listener, vw__tape **out)
{
    vw__tape *tape = vw__host_alloc_zeroed(1, sizeof *tape);
    if (tape == NULL)
        return vw__fail_host_memory(sizeof *tape, "a plan");
    if (listener != NULL)
        tape->listener = *listener;
    tape->limit_bytes = VW__PLAN_MOST_TAPE_BYTES;
    tape->place = UINT32_MAX;
    tape->use = VW__TAPE_USE_ACTIVATIONS;
    tape->is_grad_on = true;
    tape->checkpoint = VW__TAPE_NO_SOURCE;
    *out = tape;
    return VW_OK;
}

void vw__tape_destroy(vw__tape *tape)
{
    if (tape == NULL)
        return;
#define FREE_TABLE(type, name) vw__host_free(tape->name.items);
    VW__TAPE_TABLES(FREE_TABLE)
#undef FREE_TABLE
    vw__host_free(tape);
}

vw_status vw__tape_status(const vw__tape *tape)
{
    return tape->status;
}

void vw__tape_fail(vw__tape *tape, vw_status status)
{
    if (tape->status == VW_OK)
        tape->status = status;
}

void vw__tape_fail_limit(vw__tape *tape, size_t limit_bytes)
{
    char text[VW__HUMAN_SIZE_BYTES];
    vw__tape_fail(tape, vw__fail(VW_ERR_UNSUPPORTED,
                                 "the model is too large to plan: running it would take more than "
                                 "%s of host memory",
                                 vw__human_size(limit_bytes, text)));
}

void vw__tape_tell(vw__tape *tape, vw__tape_mark mark)
{
    if (tape->listener.mark != NULL)
        tape->listener.mark(tape->listener.context, mark);
}

bool vw__tape_reserve(vw__tape *tape, void **items, size_t *capacity, size_t count, size_t more,
                      size_t item_bytes)
{
    if (count + more <= *capacity)
        return true;
    size_t wanted = *capacity == 0 ? 64 : 2 * *capacity;
    while (wanted < count + more)
        wanted *= 2;
    const size_t more_bytes = (wanted - *capacity) * item_bytes;
    if (more_bytes > tape->limit_bytes - tape->held_bytes) {
        vw__tape_fail_limit(tape, tape->limit_bytes);
        return false;
    }
    void *grown = wanted > UINT32_MAX - 1 ? NULL : vw__host_realloc(*items, wanted * item_bytes);
    if (grown == NULL) {
        vw__tape_fail(tape, vw__fail_host_memory(wanted * item_bytes, "the step of a plan"));
        return false;
    }
    *items = grown;
    *capacity = wanted;
    tape->held_bytes += more_bytes;
    return true;
}

/* ---- storages -------------------------------------------------------------------------------- */

static void count_alloc(vw__tape *tape, uint64_t size_bytes, vw__tape_use use)
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
    if (!vw__mul_u64(elements, element_bytes, &size_bytes) ||
        !vw__add_u64(size_bytes, VW__TAPE_UNIT_BYTES - 1, &size_bytes))
        return false;
    *out = size_bytes / VW__TAPE_UNIT_BYTES * VW__TAPE_UNIT_BYTES;
    return true;
}

/* Counts an allocation; beyond an address space the tape fails, and it returns false. */
static bool grow(vw__tape *tape, uint64_t size_bytes, vw__tape_use use)
{
    uint64_t sum;
    if (!vw__add_u64(tape->live_bytes, size_bytes, &sum) || sum > INT64_MAX) {
        vw__tape_fail(
            tape, vw__fail(VW_ERR_UNSUPPORTED, "the plan needs more than an address space has"));
        return false;
    }
    count_alloc(tape, size_bytes, use);
    return true;
}

static void tell_alloc(const vw__tape *tape, uint32_t storage)
{
    const vw__storage *made = &tape->storages.items[storage];
    if (tape->listener.alloc != NULL)
        tape->listener.alloc(tape->listener.context, storage, made->size_bytes, tape->place,
                             (vw__tape_use)made->use);
}

static void shrink(vw__tape *tape, uint32_t storage)
{
    const vw__storage *freed = &tape->storages.items[storage];
    tape->live_bytes -= freed->size_bytes;
    tape->live_of[freed->use] -= freed->size_bytes;
    if (tape->listener.free != NULL)
        tape->listener.free(tape->listener.context, storage);
}

static uint32_t unused_storage(vw__tape *tape)
{
    if (tape->free_storages.count > 0)
        return tape->free_storages.items[--tape->free_storages.count];
    if (!VW__TAPE_RESERVE(tape, tape->storages, 1))
        return VW__TAPE_NO_STORAGE;
    return (uint32_t)tape->storages.count++;
}

/* A storage held once, without memory. */
static uint32_t storage_aside(vw__tape *tape, uint64_t elements, uint64_t element_bytes,
                              vw__tape_use use)
{
    uint64_t size_bytes;
    if (tape->status != VW_OK)
        return VW__TAPE_NO_STORAGE;
    if (!rounded_size(elements, element_bytes, &size_bytes)) {
        vw__tape_fail(
            tape, vw__fail(VW_ERR_UNSUPPORTED, "the plan needs more than an address space has"));
        return VW__TAPE_NO_STORAGE;
    }
    uint32_t storage = unused_storage(tape);
    if (storage != VW__TAPE_NO_STORAGE)
        tape->storages.items[storage] = (vw__storage){
            .size_bytes = size_bytes, .holders = 1, .use = (uint8_t)use, .is_aside = true};
    return storage;
}

uint32_t vw__storage_new(vw__tape *tape, uint64_t elements, uint64_t element_bytes,
                         vw__tape_use use)
{
    uint32_t storage = storage_aside(tape, elements, element_bytes, use);
    if (storage == VW__TAPE_NO_STORAGE ||
        !grow(tape, tape->storages.items[storage].size_bytes, use))
        return VW__TAPE_NO_STORAGE;
    tape->storages.items[storage].is_aside = false;
    tell_alloc(tape, storage);
    return storage;
}

void vw__storage_hold(vw__tape *tape, uint32_t storage)
{
    if (storage != VW__TAPE_NO_STORAGE)
        tape->storages.items[storage].holders++;
}

void vw__storage_let_go(vw__tape *tape, uint32_t storage)
{
    if (storage == VW__TAPE_NO_STORAGE || --tape->storages.items[storage].holders > 0)
        return;
    if (!tape->storages.items[storage].is_aside)
        shrink(tape, storage);
    if (VW__TAPE_RESERVE(tape, tape->free_storages, 1))
        tape->free_storages.items[tape->free_storages.count++] = storage;
}

void vw__storage_set_use(vw__tape *tape, uint32_t storage, vw__tape_use use)
{
    vw__storage *changed = &tape->storages.items[storage];
    if (!changed->is_aside) {
        tape->live_of[changed->use] -= changed->size_bytes;
        tape->live_of[use] += changed->size_bytes;
    }
    changed->use = (uint8_t)use;
}

static bool is_set_aside(const vw__tape *tape, vw__tensor tensor)
{
    return tensor.storage != VW__TAPE_NO_STORAGE && tape->storages.items[tensor.storage].is_aside;
}

void vw__tensor_set_aside(vw__tape *tape, vw__tensor tensor)
{
    if (tensor.storage == VW__TAPE_NO_STORAGE || is_set_aside(tape, tensor))
        return;
    shrink(tape, tensor.storage);
    tape->storages.items[tensor.storage].is_aside = true;
}

void vw__tensor_bring_back(vw__tape *tape, vw__tensor tensor)
{
    if (!is_set_aside(tape, tensor) || tape->status != VW_OK)
        return;
    vw__storage *storage = &tape->storages.items[tensor.storage];
    if (!grow(tape, storage->size_bytes, (vw__tape_use)storage->use))
        return;
    storage->is_aside = false;
    tell_alloc(tape, tensor.storage);
}

/* ---- tensors --------------------------------------------------------------------------------- */

vw__tensor vw__tensor_none(void)
{
    return (vw__tensor){.storage = VW__TAPE_NO_STORAGE, .source = {.node = VW__TAPE_NO_SOURCE}};
}

vw__tensor vw__tensor_new(vw__tape *tape, uint64_t elements, vw__dtype dtype)
{
    vw__tensor made = vw__tensor_none();
    made.elements = elements;
    made.dtype = dtype;
    if (!tape->has_stopped)
        made.storage = vw__storage_new(tape, elements, vw__dtype_bytes(dtype), tape->use);
    return made;
}

vw__tensor vw__tensor_hold(vw__tape *tape, vw__tensor tensor)
{
    vw__storage_hold(tape, tensor.storage);
    return tensor;
}

void vw__tensor_drop(vw__tape *tape, vw__tensor *tensor)
{
    vw__storage_let_go(tape, tensor->storage);
    *tensor = vw__tensor_none();
}

void vw__tensor_rebind(vw__tape *tape, vw__tensor *tensor, vw__tensor value)
{
    vw__storage_let_go(tape, tensor->storage);
    *tensor = value;
}

uint64_t vw__tape_times(vw__tape *tape, uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    if (!vw__mul_u64(a, b, &product))
        vw__tape_fail(
            tape, vw__fail(VW_ERR_UNSUPPORTED, "a tensor of the plan has more than 2^64 elements"));
    return product;
}

/* ---- parameters ------------------------------------------------------------------------------ */

vw__tensor vw__tape_parameter_aside(vw__tape *tape, uint64_t elements, vw__dtype dtype,
                                    bool is_trained)
{
    vw__tensor made = vw__tensor_none();
    made.elements = elements;
    made.dtype = dtype;
    made.storage = storage_aside(tape, elements, vw__dtype_bytes(dtype), VW__TAPE_USE_WEIGHTS);
    if (!is_trained || tape->status != VW_OK || !VW__TAPE_RESERVE(tape, tape->leaves, 1))
        return made;
    made.source = (vw__tape_source){.node = (uint32_t)tape->leaves.count, .is_parameter = true};
    tape->leaves.items[tape->leaves.count++] = (vw__tape_leaf){
        .tensor = made, .gradient = VW__TAPE_NO_STORAGE, .arriving = VW__TAPE_NO_STORAGE};
    return made;
}

vw__tensor vw__tape_parameter(vw__tape *tape, uint64_t elements, vw__dtype dtype, bool is_trained)
{
    vw__tensor made = vw__tape_parameter_aside(tape, elements, dtype, is_trained);
    vw__tensor_bring_back(tape, made);
    return made;
}

size_t vw__tape_parameter_count(const vw__tape *tape)
{
    return tape->leaves.count;
}

uint64_t vw__tape_parameter_elements(const vw__tape *tape, size_t parameter)
{
    return tape->leaves.items[parameter].tensor.elements;
}

vw__dtype vw__tape_parameter_dtype(const vw__tape *tape, size_t parameter)
{
    return tape->leaves.items[parameter].tensor.dtype;
}

void vw__tape_set_matrix(vw__tape *tape, vw__tensor parameter, uint64_t rows, uint64_t width)
{
    if (tape->status == VW_OK && parameter.source.is_parameter &&
        vw__tensor_wants_gradient(parameter))
        tape->leaves.items[parameter.source.node].matrix = (vw__tape_matrix){rows, width};
}

vw__tape_matrix vw__tape_parameter_matrix(const vw__tape *tape, size_t parameter)
{
    return tape->leaves.items[parameter].matrix;
}

vw__tensor vw__tape_take_gradient(vw__tape *tape, vw__tensor parameter)
{
    vw__tensor taken = vw__tensor_none();
    if (tape->status != VW_OK || !vw__tensor_wants_gradient(parameter) ||
        !parameter.source.is_parameter)
        return taken;
    vw__tape_leaf *leaf = &tape->leaves.items[parameter.source.node];
    taken.elements = leaf->tensor.elements;
    taken.dtype = leaf->tensor.dtype;
    taken.storage = leaf->gradient;
    leaf->gradient = VW__TAPE_NO_STORAGE;
    return taken;
}

void vw__tape_make_gradients(vw__tape *tape)
{
    for (size_t i = 0; i < tape->leaves.count && tape->status == VW_OK; i++) {
        vw__tensor like = tape->leaves.items[i].tensor;
        if (tape->leaves.items[i].gradient == VW__TAPE_NO_STORAGE)
            tape->leaves.items[i].gradient = vw__storage_new(
                tape, like.elements, vw__dtype_bytes(like.dtype), VW__TAPE_USE_GRADIENTS);
    }
}

void vw__tape_drop_gradients(vw__tape *tape)
{
    for (size_t i = 0; i < tape->leaves.count; i++) {
        vw__storage_let_go(tape, tape->leaves.items[i].gradient);
        tape->leaves.items[i].gradient = VW__TAPE_NO_STORAGE;
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

void vw__tape_enter(vw__tape *tape, const char *name, int64_t number)
{
    if (!VW__TAPE_RESERVE(tape, tape->places, 1) || !VW__TAPE_RESERVE(tape, tape->place_stack, 1))
        return;
    tape->place_stack.items[tape->place_stack.count++] = tape->place;
    tape->places.items[tape->places.count] =
        (vw__tape_scope){.parent = tape->place, .name = name, .number = number};
    tape->place = (uint32_t)tape->places.count++;
}

void vw__tape_leave(vw__tape *tape)
{
    if (tape->place_stack.count > 0)
        tape->place = tape->place_stack.items[--tape->place_stack.count];
}

size_t vw__tape_place_count(const vw__tape *tape)
{
    return tape->places.count;
}

vw__tape_scope vw__tape_place(const vw__tape *tape, uint32_t place)
{
    return tape->places.items[place];
}

vw__tape_use vw__tape_set_use(vw__tape *tape, vw__tape_use use)
{
    vw__tape_use before = tape->use;
    tape->use = use;
    return before;
}

bool vw__tape_set_grad(vw__tape *tape, bool is_on)
{
    bool before = tape->is_grad_on;
    tape->is_grad_on = is_on;
    return before;
}

void vw__tape_watch(vw__tape *tape, vw__tape_watch_call call, void *context)
{
    tape->watch = call;
    tape->watch_context = context;
}

/* ---- counting -------------------------------------------------------------------------------- */

uint64_t vw__tape_live_bytes(const vw__tape *tape)
{
    return tape->live_bytes;
}

uint64_t vw__tape_live_of(const vw__tape *tape, vw__tape_use use)
{
    return tape->live_of[use];
}

vw__tape_peak vw__tape_get_peak(const vw__tape *tape)
{
    return tape->peak;
}

void vw__tape_reset_peak(vw__tape *tape)
{
    tape->peak.live_bytes = tape->live_bytes;
    memcpy(tape->peak.parts, tape->live_of, sizeof tape->live_of);
    tape->peak.place = tape->place;
}
