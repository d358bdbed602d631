/* optimizer_state.c - what optimizers keep from step to step.
 *
 * With spill the state stays on the device as far as there is room, and goes to the host before
 * anything fails: it is pageable, like that of paged optimizers. */
#include "plan/plan_run.h"

static void keep(vw__plan_run *run, uint64_t elements, vw__dtype dtype)
{
    if (run->settings->offload == VW_OFFLOAD_SPILL)
        run->pageable_bytes += elements * vw__dtype_bytes(dtype);
    else
        (void)vw__tensor_new(run->tape, elements, dtype); /* until the run ends */
}

static void keep_like(vw__plan_run *run, const vw__stepped *item, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        keep(run, item->elements, item->dtype);
}

/* torch.optim.Adafactor: a row and a column for each matrix (of the last two dimensions). */
static void keep_factors(vw__plan_run *run, const vw__stepped *item)
{
    if (item->matrix.rows == 0 || item->matrix.width == 0) {
        keep_like(run, item, 1);
        return;
    }
    keep(run, item->elements / item->matrix.width, item->dtype);
    keep(run, item->elements / item->matrix.rows, item->dtype);
}

/* bitsandbytes: two states of a byte for each element, with a float32 scale for each block; small
 * tensors in float32. Paged ones are unified memory, which PyTorch's allocator does not see. */
static void keep_8bit(vw__plan_run *run, const vw__stepped *item, bool is_paged)
{
    enum { LEAST_8BIT_ELEMENTS = 4096, LEAST_PAGED_ELEMENTS = 100000, BLOCK_ELEMENTS = 256 };
    bool is_small = item->elements < LEAST_8BIT_ELEMENTS;
    uint64_t blocks = (item->elements + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    for (unsigned i = 0; i < 2; i++) {
        if (is_paged && item->elements >= LEAST_PAGED_ELEMENTS)
            run->pageable_bytes += item->elements;
        else
            keep(run, item->elements, is_small ? VW__FLOAT32 : VW__BYTE);
        if (!is_small)
            keep(run, blocks, VW__FLOAT32);
    }
}

/* The two tables that its bytes stand for, once for all tensors. */
static void keep_8bit_tables(vw__plan_run *run)
{
    keep(run, 256, VW__FLOAT32);
    keep(run, 256, VW__FLOAT32);
}

static void keep_item(vw__plan_run *run, const vw__stepped *item)
{
    vw_optimizer kind = run->settings->optimizer;
    switch (kind) {
    case VW_OPTIMIZER_SGD_MOMENTUM:
        keep_like(run, item, 1);
        break;
    case VW_OPTIMIZER_ADAMW_FUSED:
        keep(run, 1, VW__FLOAT32); /* the step's number, on the GPU */
        keep_like(run, item, 2);
        break;
    case VW_OPTIMIZER_ADAMW:
    case VW_OPTIMIZER_ADAMW_LOOP:
        keep_like(run, item, 2);
        break;
    case VW_OPTIMIZER_ADAFACTOR:
        keep_factors(run, item);
        break;
    case VW_OPTIMIZER_ADAM_8BIT:
    case VW_OPTIMIZER_PAGED_ADAM_8BIT:
        keep_8bit(run, item, kind == VW_OPTIMIZER_PAGED_ADAM_8BIT);
        break;
    case VW_OPTIMIZER_SGD:
    case VW_OPTIMIZER_COUNT:
        break;
    }
}

void vw__make_optimizer_state(vw__plan_run *run, const vw__optimizer *optimizer)
{
    vw_optimizer kind = run->settings->optimizer;
    if (kind == VW_OPTIMIZER_ADAM_8BIT || kind == VW_OPTIMIZER_PAGED_ADAM_8BIT)
        keep_8bit_tables(run);
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++)
        keep_item(run, &optimizer->items[i]);
}
