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
#include "plan/plan_settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

static vw_plan_settings settings_of(uint8_t byte)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = (byte & 1) != 0 ? 1 : 1000000;
    settings.mode = (vw_plan_mode)((byte >> 1) % VW_PLAN_MODE_COUNT);
    settings.precision = (vw_precision)((byte >> 3) % VW_PRECISION_COUNT);
    if (settings.mode == VW_PLAN_MODE_TRAIN && (byte & 64) != 0)
        settings.checkpointing = VW_CHECKPOINTING_FULL;
    if ((byte & 128) != 0)
        settings.attention = VW_ATTENTION_EAGER;
    return settings;
}

static void plan(const vw_plan_model *model, uint8_t byte)
{
    vw_plan_settings wanted = settings_of(byte), settings;
    vw__plan_peaks peaks;
    vw_status status = vw__plan_settings_check(model, &wanted, &settings);
    if (status == VW_OK)
        status = vw__plan_simulate(model, &settings, NULL, &peaks, NULL);
    if (status != VW_OK) {
        must(vw_last_error()[0] != '\0');
        return;
    }
    must(peaks.peak.live_bytes >= peaks.weights_bytes);
    must(peaks.peak.live_bytes >= peaks.after_forward_bytes);
    must(peaks.trained_parameters <= peaks.parameters);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vw_plan_model *model = NULL;
    if (size == 0)
        return 0;
    const uint64_t in_use_bytes = vw__host_memory_get_use().in_use_bytes;
    if (vw__plan_model_open_memory(data + 1, size - 1, &model) != VW_OK) {
        must(model == NULL && vw_last_error()[0] != '\0');
    } else {
        if (model->lines != NULL)
            plan(model, data[0]);
        vw_plan_model_close(model);
    }
    must(vw__host_memory_get_use().in_use_bytes == in_use_bytes);
    return 0;
}
