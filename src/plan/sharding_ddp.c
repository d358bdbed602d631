/* sharding_ddp.c - several GPUs with the whole model on each: DistributedDataParallel.
 *
 * Gradients are copied to buckets, which are reduced as they fill; without
 * gradient_as_bucket_view=True the buckets are there beside the gradients, from the beginning. */
#include "plan/sharding.h"

/* torch.nn.parallel: a first small bucket, so that reducing begins early. */
enum { FIRST_BUCKET_BYTES = 1 << 20, BUCKET_BYTES = 25 << 20 };

static void make_buckets(hr__plan_run *run)
{
    uint64_t limit = FIRST_BUCKET_BYTES, filled = 0;
    for (size_t i = hr__tape_parameter_count(run->tape); i-- > 0;) {
        filled += hr__times(run->tape, hr__tape_parameter_elements(run->tape, i),
                            hr__dtype_bytes(hr__tape_parameter_dtype(run->tape, i)));
        if (filled < limit && i > 0)
            continue;
        (void)hr__take_for(run, filled, HR__BYTE, HR__USE_GRADIENTS); /* until the run ends */
        filled = 0;
        limit = BUCKET_BYTES;
    }
}

void hr__begin_data_parallel(hr__plan_run *run)
{
    const hr_plan_settings *settings = run->settings;
    if (settings->gpus > 1 && settings->sharding == HR_SHARDING_NONE &&
        settings->mode == HR_PLAN_MODE_TRAIN)
        make_buckets(run);
}
