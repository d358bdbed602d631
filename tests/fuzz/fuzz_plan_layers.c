/* fuzz_plan_layers.c - any bytes as a description of layers, which is then planned.
 *
 * The first byte chooses the settings, the rest is the file. Whatever is accepted must come to a
 * plan or to a refusal in words, with numbers that hold together; and nothing may be left behind.
 *
 * The one function below is libFuzzer's entry and needs nothing of libFuzzer: a program that calls
 * it with the contents of each file of a corpus is the regression test. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/host_memory.h"
#include "plan/plan_run.h"
#include "plan/settings_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

static hr_plan_settings settings_of(uint8_t byte)
{
    hr_plan_settings settings;
    hr_plan_settings_init(&settings);
    settings.batch = (byte & 1) != 0 ? 1 : 1000000;
    settings.mode = (hr_plan_mode)((byte >> 1) % HR_PLAN_MODE_COUNT);
    settings.precision = (hr_precision)((byte >> 3) % HR_PRECISION_COUNT);
    if (settings.mode == HR_PLAN_MODE_TRAIN && (byte & 64) != 0)
        settings.checkpointing = HR_CHECKPOINTING_FULL;
    if ((byte & 128) != 0)
        settings.attention = HR_ATTENTION_EAGER;
    return settings;
}

static void plan(const hr_plan_model *model, uint8_t byte)
{
    hr_plan_settings wanted = settings_of(byte), settings;
    hr__plan_peaks peaks;
    hr_status status = hr__settings_check(model, &wanted, &settings);
    if (status == HR_OK)
        status = hr__plan_simulate(model, &settings, NULL, &peaks, NULL);
    if (status != HR_OK) {
        must(hr_last_error()[0] != '\0');
        return;
    }
    must(peaks.peak.live_bytes >= peaks.weights_bytes);
    must(peaks.peak.live_bytes >= peaks.after_forward_bytes);
    must(peaks.trained_parameters <= peaks.parameters);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hr_plan_model *model = NULL;
    if (size == 0)
        return 0;
    const uint64_t in_use_bytes = hr__host_memory_get_use().in_use_bytes;
    if (hr__plan_model_open_memory(data + 1, size - 1, &model) != HR_OK) {
        must(model == NULL && hr_last_error()[0] != '\0');
    } else {
        if (model->lines != NULL)
            plan(model, data[0]);
        hr_plan_model_close(model);
    }
    must(hr__host_memory_get_use().in_use_bytes == in_use_bytes);
    return 0;
}
