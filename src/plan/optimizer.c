/* optimizer.c - what an optimizer changes, and what its step takes for a moment.
 *
 * A step of PyTorch's optimizers is a loop over tensors, or over lists of all tensors (foreach):
 * what such a loop holds by the names of its variables is held until they are bound again. */
#include "plan/plan_run.h"
#include "plan/sharding.h"

/* ---- what it changes ------------------------------------------------------------------------- */

static void step_on_parameters(vw__plan_run *run, vw__optimizer *optimizer, bool has_copies)
{
    size_t count = vw__tape_parameter_count(run->tape);
    optimizer->items = vw__run_alloc(run, count, sizeof *optimizer->items);
    if (vw__tape_status(run->tape) != VW_OK)
        return;
    optimizer->count = count;
    for (size_t i = 0; i < count; i++)
        optimizer->items[i] = (vw__stepped){
            .elements = vw__tape_parameter_elements(run->tape, i),
            .matrix = vw__tape_parameter_matrix(run->tape, i),
            .dtype = has_copies ? VW__FLOAT32 : vw__tape_parameter_dtype(run->tape, i)};
}

static vw__tensor like(vw__plan_run *run, const vw__stepped *item)
{
    return vw__tensor_new(run->tape, item->elements, item->dtype);
}

static bool has_copies(const vw__plan_run *run)
{
    return run->settings->has_master_weights && run->dtype != VW__FLOAT32;
}

void vw__optimizer_create(vw__plan_run *run, vw__optimizer *optimizer)
{
    *optimizer = (vw__optimizer){.is_elsewhere = vw__is_offloaded(run->settings)};
    vw__use before = vw__tape_set_use(run->tape, VW__USE_OPTIMIZER);
    if (run->sharding != NULL) {
        vw__sharding_create_optimizer(run, optimizer);
    } else {
        step_on_parameters(run, optimizer, has_copies(run));
        for (size_t i = 0; i < optimizer->count && has_copies(run) && !optimizer->is_elsewhere; i++)
            (void)like(run, &optimizer->items[i]); /* the float32 copy, until the run ends */
    }
    vw__tape_set_use(run->tape, before);
}

/* ---- its step -------------------------------------------------------------------------------- */

static vw__tensor *take_list(vw__plan_run *run, const vw__optimizer *optimizer)
{
    vw__tensor *list = vw__run_alloc(run, optimizer->count, sizeof *list);
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++)
        list[i] = like(run, &optimizer->items[i]);
    return list;
}

static void drop_list(vw__plan_run *run, const vw__optimizer *optimizer, vw__tensor *list)
{
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++)
        vw__drop(run->tape, &list[i]);
}

/* AdamW, foreach: the square roots of all second moments at once. */
static void take_roots(vw__plan_run *run, const vw__optimizer *optimizer)
{
    if (!optimizer->is_one_by_one) {
        drop_list(run, optimizer, take_list(run, optimizer));
        return;
    }
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++) {
        vw__tensor root = like(run, &optimizer->items[i]);
        vw__drop(run->tape, &root);
    }
}

/* AdamW, tensor by tensor: denom = sqrt(...) / ...; the last one's is held until then. */
static void take_root_by_root(vw__plan_run *run, const vw__optimizer *optimizer)
{
    vw__tensor denominator = vw__no_tensor();
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++) {
        vw__tensor root = like(run, &optimizer->items[i]);
        vw__tensor quotient = like(run, &optimizer->items[i]);
        vw__drop(run->tape, &root);
        vw__rebind(run->tape, &denominator, quotient);
    }
    vw__drop(run->tape, &denominator);
}

/* Adafactor, tensor by tensor (its default): an estimate of the variance, which becomes the update
 * and is held until the next one is; of a vector, its square beside it. */
static void take_updates(vw__plan_run *run, const vw__optimizer *optimizer)
{
    vw__tensor update = vw__no_tensor(), square = vw__no_tensor();
    for (size_t i = 0; i < optimizer->count && vw__tape_status(run->tape) == VW_OK; i++) {
        const vw__stepped *item = &optimizer->items[i];
        if (item->matrix.rows == 0)
            vw__rebind(run->tape, &square, like(run, item));
        vw__rebind(run->tape, &update, like(run, item));
    }
    vw__drop(run->tape, &square);
    vw__drop(run->tape, &update);
}

static void take_temporaries(vw__plan_run *run, const vw__optimizer *optimizer)
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
    default: /* in place: SGD without weight decay, fused and 8-bit kernels */
        break;
    }
}

void vw__optimizer_step(vw__plan_run *run, vw__optimizer *optimizer)
{
    vw__use before = vw__tape_set_use(run->tape, VW__USE_OPTIMIZER);
    bool has_float_gradients = has_copies(run) && run->sharding == NULL;
    vw__tensor *gradients = NULL;
    if (!optimizer->is_elsewhere) {
        if (run->sharding != NULL)
            vw__sharding_begin_step(run);
        if (has_float_gradients)
            gradients = take_list(run, optimizer);
        if (!optimizer->has_state)
            vw__make_optimizer_state(run, optimizer);
        optimizer->has_state = true;
        take_temporaries(run, optimizer);
        if (has_float_gradients)
            drop_list(run, optimizer, gradients);
        if (run->sharding != NULL)
            vw__sharding_end_step(run);
    }
    vw__tape_set_use(run->tape, before);
}
