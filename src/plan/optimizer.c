/* optimizer.c - what an optimizer changes, what it keeps from step to step, and what a step takes
 * for a moment.
 *
 * A step of PyTorch's optimizers loops over tensors, or over lists of all tensors (foreach). What a
 * variable of that loop holds lives until the variable is bound again. */
#include "plan/optimizer_parts.h"
#include "plan/sharding.h"

/* ---- what it changes ------------------------------------------------------------------------- */

static void step_on_parameters(vw__plan_run *run, vw__plan_optimizer *optimizer, bool has_copies)
{
    size_t count = vw__tape_parameter_count(run->tape);
    optimizer->items = vw__module_alloc(run, count, sizeof *optimizer->items);
    if (vw__tape_status(run->tape) != VW_OK)
        return;
    optimizer->count = count;
    for (size_t i = 0; i < count; i++)
        optimizer->items[i] = (vw__plan_stepped){
            .elements = vw__tape_parameter_elements(run->tape, i),
            .matrix = vw__tape_parameter_matrix(run->tape, i),
            .dtype = has_copies ? VW__DTYPE_FLOAT32 : vw__tape_parameter_dtype(run->tape, i)};
}

static vw__tensor like(vw__plan_run *run, const vw__plan_stepped *item)
{
    return vw__tensor_new(run->tape, item->elements, item->dtype);
}

static bool has_copies(const vw__plan_run *run)
{
    return run->settings->has_master_weights && run->dtype != VW__DTYPE_FLOAT32;
}

void vw__plan_optimizer_create(vw__plan_run *run, vw__plan_optimizer *optimizer)
{
    *optimizer = (vw__plan_optimizer){.is_elsewhere = vw__plan_is_offloaded(run->settings)};
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_OPTIMIZER);
    if (run->sharding != NULL) {
        run->sharding->scheme->create_optimizer(run, optimizer);
    } else {
        step_on_parameters(run, optimizer, has_copies(run));
        for (size_t i = 0; i < optimizer->count && has_copies(run) && !optimizer->is_elsewhere; i++)
            (void)like(run, &optimizer->items[i]); /* the float32 copy, until the run ends */
    }
    vw__tape_set_use(run->tape, before);
}

/* ---- what it keeps --------------------------------------------------------------------------- */

/* With spill the state stays on the device while there is room, and moves to the host before
 * anything fails: it is pageable, like that of paged optimizers. */
void vw__plan_optimizer_keep(vw__plan_run *run, uint64_t elements, vw__dtype dtype)
{
    if (run->settings->offload == VW_OFFLOAD_SPILL)
        run->pageable_bytes += elements * vw__dtype_bytes(dtype);
    else
        (void)vw__tensor_new(run->tape, elements, dtype); /* until the run ends */
}

void vw__plan_optimizer_keep_like(vw__plan_run *run, const vw__plan_stepped *item, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        vw__plan_optimizer_keep(run, item->elements, item->dtype);
}

/* torch.optim.Adafactor: a row and a column for each matrix (its last two dimensions). */
static void keep_factors(vw__plan_run *run, const vw__plan_stepped *item)
{
    if (item->matrix.rows == 0 || item->matrix.width == 0) {
        vw__plan_optimizer_keep_like(run, item, 1);
        return;
    }
    vw__plan_optimizer_keep(run, item->elements / item->matrix.width, item->dtype);
    vw__plan_optimizer_keep(run, item->elements / item->matrix.rows, item->dtype);
}

/* bitsandbytes: two states of one byte for each element, with a float32 scale for each block; small
 * tensors in float32. Paged state is unified memory, which PyTorch's allocator does not see. */
static void keep_8bit(vw__plan_run *run, const vw__plan_stepped *item, bool is_paged)
{
    enum { LEAST_8BIT_ELEMENTS = 4096, LEAST_PAGED_ELEMENTS = 100000, BLOCK_ELEMENTS = 256 };
    bool is_small = item->elements < LEAST_8BIT_ELEMENTS;
    uint64_t blocks = (item->elements + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    for (unsigned i = 0; i < 2; i++) {
        if (is_paged && item->elements >= LEAST_PAGED_ELEMENTS)
            run->pageable_bytes += item->elements;
        else
            vw__plan_optimizer_keep(run, item->elements,
                                    is_small ? VW__DTYPE_FLOAT32 : VW__DTYPE_BYTE);
        if (!is_small)
            vw__plan_optimizer_keep(run, blocks, VW__DTYPE_FLOAT32);
    }
}

static void keep_item(vw__plan_run *run, const vw__plan_stepped *item)
{
    vw_optimizer kind = run->settings->optimizer;
    switch (kind) {
    case VW_OPTIMIZER_SGD_MOMENTUM:
    case VW_OPTIMIZER_LION:
        vw__plan_optimizer_keep_like(run, item, 1);
        break;
    case VW_OPTIMIZER_ADAMW_FUSED:
        vw__plan_optimizer_keep(run, 1, VW__DTYPE_FLOAT32); /* the step's number, on the GPU */
        vw__plan_optimizer_keep_like(run, item, 2);
        break;
    case VW_OPTIMIZER_ADAMW:
    case VW_OPTIMIZER_ADAMW_LOOP:
        vw__plan_optimizer_keep_like(run, item, 2);
        break;
    case VW_OPTIMIZER_ADAFACTOR:
        keep_factors(run, item);
        break;
    case VW_OPTIMIZER_ADAM_8BIT:
    case VW_OPTIMIZER_PAGED_ADAM_8BIT:
        keep_8bit(run, item, kind == VW_OPTIMIZER_PAGED_ADAM_8BIT);
        break;
    case VW_OPTIMIZER_MUON:
    case VW_OPTIMIZER_GALORE:
    case VW_OPTIMIZER_APOLLO:
        vw__plan_optimizer_keep_matrix(run, item);
        break;
    case VW_OPTIMIZER_SGD:
    case VW_OPTIMIZER_COUNT:
        break;
    }
}

static void make_state(vw__plan_run *run, const vw__plan_optimizer *optimizer)
{
    vw_optimizer kind = run->settings->optimizer;
    bool is_8bit = kind == VW_OPTIMIZER_ADAM_8BIT || kind == VW_OPTIMIZER_PAGED_ADAM_8BIT;
    for (size_t i = 0; is_8bit && i < 2; i++)
        vw__plan_optimizer_keep(
            run, 256,
            VW__DTYPE_FLOAT32); /* the values that bytes stand for, once for all tensors */
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++)
        keep_item(run, &optimizer->items[i]);
}

void vw__plan_optimizer_settle(vw__plan_run *run, vw__plan_optimizer *optimizer)
{
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_OPTIMIZER);
    if (!optimizer->has_state && !optimizer->is_elsewhere)
        make_state(run, optimizer);
    optimizer->has_state = true;
    vw__tape_set_use(run->tape, before);
}

/* ---- its step -------------------------------------------------------------------------------- */

static vw__tensor *take_list(vw__plan_run *run, const vw__plan_optimizer *optimizer)
{
    vw__tensor *list = vw__module_alloc(run, optimizer->count, sizeof *list);
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++)
        list[i] = like(run, &optimizer->items[i]);
    return list;
}

static void drop_list(vw__plan_run *run, const vw__plan_optimizer *optimizer, vw__tensor *list)
{
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++)
        vw__tensor_drop(run->tape, &list[i]);
}

/* AdamW, foreach: the square roots of all second moments at once. */
static void take_roots(vw__plan_run *run, const vw__plan_optimizer *optimizer)
{
    if (!optimizer->is_one_by_one) {
        drop_list(run, optimizer, take_list(run, optimizer));
        return;
    }
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++) {
        vw__tensor root = like(run, &optimizer->items[i]);
        vw__tensor_drop(run->tape, &root);
    }
}

/* AdamW, tensor by tensor: denom = sqrt(...) / ... is held until the next one is made. */
static void take_root_by_root(vw__plan_run *run, const vw__plan_optimizer *optimizer)
{
    vw__tensor denominator = vw__tensor_none();
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++) {
        vw__tensor root = like(run, &optimizer->items[i]);
        vw__tensor quotient = like(run, &optimizer->items[i]);
        vw__tensor_drop(run->tape, &root);
        vw__tensor_rebind(run->tape, &denominator, quotient);
    }
    vw__tensor_drop(run->tape, &denominator);
}

/* Adafactor, tensor by tensor (its default): an estimate of the variance becomes the update, which
 * is held until the next one is made; a vector has its square beside it. */
static void take_updates(vw__plan_run *run, const vw__plan_optimizer *optimizer)
{
    vw__tensor update = vw__tensor_none(), square = vw__tensor_none();
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++) {
        const vw__plan_stepped *item = &optimizer->items[i];
        if (item->matrix.rows == 0)
            vw__tensor_rebind(run->tape, &square, like(run, item));
        vw__tensor_rebind(run->tape, &update, like(run, item));
    }
    vw__tensor_drop(run->tape, &square);
    vw__tensor_drop(run->tape, &update);
}

/* lion-pytorch, tensor by tensor: a copy of the average, and its sum with the gradient. */
static void take_signs(vw__plan_run *run, const vw__plan_optimizer *optimizer)
{
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++) {
        vw__tensor copy = like(run, &optimizer->items[i]);
        vw__tensor sum = like(run, &optimizer->items[i]);
        vw__tensor_drop(run->tape, &copy);
        vw__tensor_drop(run->tape, &sum);
    }
}

static void take_temporaries(vw__plan_run *run, const vw__plan_optimizer *optimizer)
{
    switch (run->settings->optimizer) {
    case VW_OPTIMIZER_ADAMW:
        take_roots(run, optimizer);
        break;
    case VW_OPTIMIZER_ADAMW_LOOP:
        take_root_by_root(run, optimizer);
        break;
    case VW_OPTIMIZER_ADAFACTOR:
        take_updates(run, optimizer);
        break;
    case VW_OPTIMIZER_LION:
        take_signs(run, optimizer);
        break;
    case VW_OPTIMIZER_MUON:
    case VW_OPTIMIZER_GALORE:
    case VW_OPTIMIZER_APOLLO:
        vw__plan_optimizer_step_matrices(run, optimizer);
        break;
    default: /* in place: SGD without weight decay, fused and 8-bit kernels */
        break;
    }
}

void vw__plan_optimizer_step(vw__plan_run *run, vw__plan_optimizer *optimizer)
{
    if (optimizer->is_elsewhere)
        return;
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_OPTIMIZER);
    bool has_float_gradients = has_copies(run) && run->sharding == NULL;
    vw__tensor *gradients = NULL;
    vw__shard_at(run, VW__SHARD_BEGIN_STEP, 0);
    if (has_float_gradients)
        gradients = take_list(run, optimizer);
    vw__plan_optimizer_settle(run, optimizer);
    take_temporaries(run, optimizer);
    if (has_float_gradients)
        drop_list(run, optimizer, gradients);
    vw__shard_at(run, VW__SHARD_END_STEP, 0);
    vw__tape_set_use(run->tape, before);
}
