/* fuzz_plan_config.c - any bytes as a model's configuration, and a step of what comes of it.
 *
 * A configuration is either refused with words or a model whose step can be run; with small
 * settings and few layers that ends, within its memory, in numbers that add up. */
#include <stdbool.h>
#include <stdlib.h>

#include "base/host_memory.h"
#include "plan/plan_run.h"
#include "plan/settings_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is larger is a matter of time and not of finding mistakes. */
enum { MOST_LAYERS = 24, MOST_EXPERTS = 64 };
#define MOST_HELD_BYTES ((uint64_t)256 << 20)

static void must(bool claim)
{
    if (!claim)
        abort();
}

static bool is_small(const hr_plan_model *model)
{
    const hr__transformer *shape = &model->shape;
    return shape->layers <= MOST_LAYERS && shape->decoder_layers <= MOST_LAYERS &&
           shape->experts <= MOST_EXPERTS;
}

static void check_peaks(const hr__plan_peaks *peaks)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < HR__USE_COUNT; i++)
        sum += peaks->peak.parts[i];
    must(sum == peaks->peak.live_bytes);
    must(peaks->peak.live_bytes >= peaks->weights_bytes);
    must(peaks->trained_parameters <= peaks->parameters);
}

/* `seed` chooses among settings. */
static void run_step(const hr_plan_model *model, size_t seed)
{
    hr_plan_settings settings, checked;
    hr__plan_peaks peaks;
    hr_plan_settings_init(&settings);
    settings.batch = 1 + seed % 3;
    settings.precision = (hr_precision)(seed % HR_PRECISION_COUNT);
    settings.checkpointing = seed % 2 != 0 ? HR_CHECKPOINTING_FULL : HR_CHECKPOINTING_NONE;
    settings.attention = seed % 5 == 0 ? HR_ATTENTION_EAGER : HR_ATTENTION_SDPA;
    if (!model->family->has_images)
        settings.sequence = 1 + seed % 7;
    if (hr__settings_check(model, &settings, &checked) != HR_OK)
        must(hr_last_error()[0] != '\0');
    else if (hr__plan_simulate(model, &checked, NULL, &peaks, NULL) == HR_OK)
        check_peaks(&peaks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint64_t before_bytes = hr__host_memory_get_use().in_use_bytes;
    hr_plan_model *model = NULL;
    hr_status status = hr__plan_model_open_memory(data, size, &model);
    must(hr__host_memory_get_use().in_use_bytes - before_bytes < MOST_HELD_BYTES);
    if (status == HR_OK) {
        must(model->family != NULL && model->family->usual_length(model) > 0);
        if (is_small(model))
            run_step(model, size);
        hr_plan_model_close(model);
    } else {
        must(model == NULL && hr_last_error()[0] != '\0');
    }
    must(hr__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
