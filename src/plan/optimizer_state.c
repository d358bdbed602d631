/* optimizer_state.c - what optimizers keep from step to step.
 *
 * With spill the state stays on the device as far as there is room, and goes to the host before
 * anything fails: it is pageable, like that of paged optimizers. */
#include "plan/plan_run.h"

static void keep(hr__plan_run *run, uint64_t elements, hr__dtype dtype)
{
    if (run->settings->offload == HR_OFFLOAD_SPILL)
        run->pageable_bytes += elements * hr__dtype_bytes(dtype);
    else
        (void)hr__tensor_new(run->tape, elements, dtype); /* until the run ends */
}

static void keep_like(hr__plan_run *run, const hr__stepped *item, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        keep(run, item->elements, item->dtype);
}

/* torch.optim.Adafactor: a row and a column for each matrix (of the last two dimensions). */
static void keep_factors(hr__plan_run *run, const hr__stepped *item)
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
static void keep_8bit(hr__plan_run *run, const hr__stepped *item, bool is_paged)
{
    enum { LEAST_8BIT_ELEMENTS = 4096, LEAST_PAGED_ELEMENTS = 100000, BLOCK_ELEMENTS = 256 };
    bool is_small = item->elements < LEAST_8BIT_ELEMENTS;
    uint64_t blocks = (item->elements + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    for (unsigned i = 0; i < 2; i++) {
        if (is_paged && item->elements >= LEAST_PAGED_ELEMENTS)
            run->pageable_bytes += item->elements;
        else
            keep(run, item->elements, is_small ? HR__FLOAT32 : HR__BYTE);
        if (!is_small)
            keep(run, blocks, HR__FLOAT32);
    }
}

/* The two tables that its bytes stand for, once for all tensors. */
static void keep_8bit_tables(hr__plan_run *run)
{
    keep(run, 256, HR__FLOAT32);
    keep(run, 256, HR__FLOAT32);
}

static void keep_item(hr__plan_run *run, const hr__stepped *item)
{
    hr_optimizer kind = run->settings->optimizer;
    switch (kind) {
    case HR_OPTIMIZER_SGD_MOMENTUM:
        keep_like(run, item, 1);
        break;
    case HR_OPTIMIZER_ADAMW_FUSED:
        keep(run, 1, HR__FLOAT32); /* the step's number, on the GPU */
        keep_like(run, item, 2);
        break;
    case HR_OPTIMIZER_ADAMW:
    case HR_OPTIMIZER_ADAMW_LOOP:
        keep_like(run, item, 2);
        break;
    case HR_OPTIMIZER_ADAFACTOR:
        keep_factors(run, item);
        break;
    case HR_OPTIMIZER_ADAM_8BIT:
    case HR_OPTIMIZER_PAGED_ADAM_8BIT:
        keep_8bit(run, item, kind == HR_OPTIMIZER_PAGED_ADAM_8BIT);
        break;
    case HR_OPTIMIZER_SGD:
    case HR_OPTIMIZER_COUNT:
        break;
    }
}

void hr__make_optimizer_state(hr__plan_run *run, const hr__optimizer *optimizer)
{
    hr_optimizer kind = run->settings->optimizer;
    if (kind == HR_OPTIMIZER_ADAM_8BIT || kind == HR_OPTIMIZER_PAGED_ADAM_8BIT)
        keep_8bit_tables(run);
    for (size_t i = 0; i < optimizer->count && hr__tape_status(run->tape) == HR_OK; i++)
        keep_item(run, &optimizer->items[i]);
}
