/* sharding_ddp.c - several GPUs with the whole model on each: DistributedDataParallel.
 *
 * Gradients are copied to buckets, which are reduced as they fill; without
 * gradient_as_bucket_view=True the buckets are there beside the gradients, from the beginning. */
#include "plan/sharding.h"

/* torch.nn.parallel: a first small bucket, so that reducing begins early. */
enum { FIRST_BUCKET_BYTES = 1 << 20, BUCKET_BYTES = 25 << 20 };

static void make_buckets(vw__plan_run *run)
{
    uint64_t limit = FIRST_BUCKET_BYTES, filled = 0;
    for (size_t i = vw__tape_parameter_count(run->tape); i-- > 0;) {
        filled += vw__times(run->tape, vw__tape_parameter_elements(run->tape, i),
                            vw__dtype_bytes(vw__tape_parameter_dtype(run->tape, i)));
        if (filled < limit && i > 0)
            continue;
        (void)vw__take_for(run, filled, VW__BYTE, VW__USE_GRADIENTS); /* until the run ends */
        filled = 0;
        limit = BUCKET_BYTES;
    }
}

void vw__begin_data_parallel(vw__plan_run *run)
{
    const vw_plan_settings *settings = run->settings;
    if (settings->gpus > 1 && settings->sharding == VW_SHARDING_NONE &&
        settings->mode == VW_PLAN_MODE_TRAIN)
        make_buckets(run);
}
