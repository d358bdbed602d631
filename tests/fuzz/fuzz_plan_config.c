/* fuzz_plan_config.c - any bytes as a model's configuration, and a step of what comes of it.
 *
 * A configuration is either refused with words or a model whose step can be run; with small
 * settings and few layers that ends, within its memory, in numbers that add up. */
#include <stdbool.h>
#include <stdlib.h>

#include "base/host_memory.h"
#include "plan/plan_run.h"
#include "plan/plan_settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is larger is a matter of time and not of finding mistakes. */
enum { MOST_LAYERS = 24, MOST_EXPERTS = 64 };
#define MOST_HELD_BYTES ((uint64_t)256 << 20)

static void must(bool claim)
{
    if (!claim)
        abort();
}

static bool is_small(const vw_plan_model *model)
{
    const vw__plan_shape *shape = &model->shape;
    return shape->layers <= MOST_LAYERS && shape->decoder_layers <= MOST_LAYERS &&
           shape->mlp.experts <= MOST_EXPERTS;
}

static void check_peaks(const vw__plan_peaks *peaks)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < VW__TAPE_USE_COUNT; i++)
        sum += peaks->peak.parts[i];
    must(sum == peaks->peak.live_bytes);
    must(peaks->peak.live_bytes >= peaks->weights_bytes);
    must(peaks->trained_parameters <= peaks->parameters);
}

/* `seed` chooses among settings. */
static void run_step(const vw_plan_model *model, size_t seed)
{
    vw_plan_settings settings, checked;
    vw__plan_peaks peaks;
    vw_plan_settings_init(&settings);
    settings.batch = 1 + seed % 3;
    settings.precision = (vw_precision)(seed % VW_PRECISION_COUNT);
    settings.mode = seed % 3 == 0 ? VW_PLAN_MODE_INFERENCE : VW_PLAN_MODE_TRAIN;
    if (seed % 6 == 1)
        settings.checkpointing = VW_CHECKPOINTING_FULL;
    if (seed % 4 == 0)
        settings.head = (vw_plan_head)(seed / 4 % VW_PLAN_HEAD_COUNT);
    settings.attention = seed % 5 == 0 ? VW_ATTENTION_EAGER : VW_ATTENTION_SDPA;
    if (!model->family->has_images)
        settings.sequence = 1 + seed % 7;
    if (vw__plan_settings_check(model, &settings, &checked) != VW_OK)
        must(vw_last_error()[0] != '\0');
    else if (vw__plan_simulate(model, &checked, NULL, &peaks, NULL) == VW_OK)
        check_peaks(&peaks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    vw_plan_model *model = NULL;
    vw_status status = vw__plan_model_open_memory(data, size, &model);
    must(vw__host_memory_get_use().in_use_bytes - before_bytes < MOST_HELD_BYTES);
    if (status == VW_OK) {
        must(model->family != NULL && model->family->usual_length(model) > 0);
        if (is_small(model))
            run_step(model, size);
        vw_plan_model_close(model);
    } else {
        must(model == NULL && vw_last_error()[0] != '\0');
    }
    must(vw__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
