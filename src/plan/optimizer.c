/* optimizer.c - what an optimizer changes, and what its step takes for a moment.
 *
 * A step of PyTorch's optimizers is a loop over tensors, or over lists of all tensors (foreach):
 * what such a loop holds by the names of its variables is held until they are bound again. */
#include "plan/plan_run.h"
#include "plan/sharding.h"

/* ---- what it changes ------------------------------------------------------------------------- */

static void step_on_parameters(hr__plan_run *run, hr__optimizer *optimizer, bool has_copies)
{
    size_t count = hr__tape_parameter_count(run->tape);
    optimizer->items = hr__run_alloc(run, count, sizeof *optimizer->items);
    if (hr__tape_status(run->tape) != HR_OK)
        return;
    optimizer->count = count;
    for (size_t i = 0; i < count; i++)
        optimizer->items[i] = (hr__stepped){
            .elements = hr__tape_parameter_elements(run->tape, i),
            .matrix = hr__tape_parameter_matrix(run->tape, i),
            .dtype = has_copies ? HR__FLOAT32 : hr__tape_parameter_dtype(run->tape, i)};
}

static hr__tensor like(hr__plan_run *run, const hr__stepped *item)
{
    return hr__tensor_new(run->tape, item->elements, item->dtype);
}

static bool has_copies(const hr__plan_run *run)
{
    return run->settings->has_master_weights && run->dtype != HR__FLOAT32;
}

void hr__optimizer_create(hr__plan_run *run, hr__optimizer *optimizer)
{
    *optimizer = (hr__optimizer){.is_elsewhere = hr__is_offloaded(run->settings)};
    hr__use before = hr__tape_set_use(run->tape, HR__USE_OPTIMIZER);
    if (run->sharding != NULL) {
        hr__sharding_create_optimizer(run, optimizer);
    } else {
        step_on_parameters(run, optimizer, has_copies(run));
        for (size_t i = 0; i < optimizer->count && has_copies(run) && !optimizer->is_elsewhere; i++)
            (void)like(run, &optimizer->items[i]); /* the float32 copy, until the run ends */
    }
    hr__tape_set_use(run->tape, before);
}

/* ---- its step -------------------------------------------------------------------------------- */

static hr__tensor *take_list(hr__plan_run *run, const hr__optimizer *optimizer)
{
    hr__tensor *list = hr__run_alloc(run, optimizer->count, sizeof *list);
    for (size_t i = 0; i < optimizer->count && hr__tape_status(run->tape) == HR_OK; i++)
        list[i] = like(run, &optimizer->items[i]);
    return list;
}

static void drop_list(hr__plan_run *run, const hr__optimizer *optimizer, hr__tensor *list)
{
    for (size_t i = 0; i < optimizer->count && hr__tape_status(run->tape) == HR_OK; i++)
        hr__drop(run->tape, &list[i]);
}

/* AdamW, foreach: the square roots of all second moments at once. */
static void take_roots(hr__plan_run *run, const hr__optimizer *optimizer)
{
    if (!optimizer->is_one_by_one) {
        drop_list(run, optimizer, take_list(run, optimizer));
        return;
    }
    for (size_t i = 0; i < optimizer->count && hr__tape_status(run->tape) == HR_OK; i++) {
        hr__tensor root = like(run, &optimizer->items[i]);
        hr__drop(run->tape, &root);
    }
}

/* AdamW, tensor by tensor: denom = sqrt(...) / ...; the last one's is held until then. */
static void take_root_by_root(hr__plan_run *run, const hr__optimizer *optimizer)
{
    hr__tensor denominator = hr__no_tensor();
    for (size_t i = 0; i < optimizer->count && hr__tape_status(run->tape) == HR_OK; i++) {
        hr__tensor root = like(run, &optimizer->items[i]);
        hr__tensor quotient = like(run, &optimizer->items[i]);
        hr__drop(run->tape, &root);
        hr__rebind(run->tape, &denominator, quotient);
    }
    hr__drop(run->tape, &denominator);
}

/* Adafactor, tensor by tensor (its default): an estimate of the variance, which becomes the update
 * and is held until the next one is; of a vector, its square beside it. */
static void take_updates(hr__plan_run *run, const hr__optimizer *optimizer)
{
    hr__tensor update = hr__no_tensor(), square = hr__no_tensor();
    for (size_t i = 0; i < optimizer->count && hr__tape_status(run->tape) == HR_OK; i++) {
        const hr__stepped *item = &optimizer->items[i];
        if (item->matrix.rows == 0)
            hr__rebind(run->tape, &square, like(run, item));
        hr__rebind(run->tape, &update, like(run, item));
    }
    hr__drop(run->tape, &square);
    hr__drop(run->tape, &update);
}

static void take_temporaries(hr__plan_run *run, const hr__optimizer *optimizer)
{
    switch (run->settings->optimizer) {
    case HR_OPTIMIZER_ADAMW:
        take_roots(run, optimizer);
        break;
    case HR_OPTIMIZER_ADAMW_LOOP:
        take_root_by_root(run, optimizer);
        break;
    case HR_OPTIMIZER_ADAFACTOR:
        take_updates(run, optimizer);
        break;
    default: /* in place: SGD without weight decay, fused and 8-bit kernels */
        break;
    }
}

void hr__optimizer_step(hr__plan_run *run, hr__optimizer *optimizer)
{
    hr__use before = hr__tape_set_use(run->tape, HR__USE_OPTIMIZER);
    bool has_float_gradients = has_copies(run) && run->sharding == NULL;
    hr__tensor *gradients = NULL;
    if (!optimizer->is_elsewhere) {
        if (run->sharding != NULL)
            hr__sharding_begin_step(run);
        if (has_float_gradients)
            gradients = take_list(run, optimizer);
        if (!optimizer->has_state)
            hr__make_optimizer_state(run, optimizer);
        optimizer->has_state = true;
        take_temporaries(run, optimizer);
        if (has_float_gradients)
            drop_list(run, optimizer, gradients);
        if (run->sharding != NULL)
            hr__sharding_end_step(run);
    }
    hr__tape_set_use(run->tape, before);
}
