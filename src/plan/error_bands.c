/* error_bands.c - finds the measured cases that resemble a plan.
 *
 * Settings are of the same kind if they run the same code: bf16 and fp16 differ in numbers, not in
 * bytes; the variants of AdamW keep the same state, and so on. */
#include "plan/error_bands.h"

#include <string.h>

#include "base/c_locale.h"
#include "plan/plan_model.h"

#define CASE(name_, family_, head_, parameters_, mode_, precision_, optimizer_, checkpointing_,    \
             attention_, offload_, sharding_, ...)                                                 \
    {.family = #family_,                                                                           \
     .head = VW_PLAN_HEAD_##head_,                                                                 \
     .parameters = UINT64_C(parameters_),                                                          \
     .mode = VW_PLAN_MODE_##mode_,                                                                 \
     .precision = VW_PRECISION_##precision_,                                                       \
     .optimizer = VW_OPTIMIZER_##optimizer_,                                                       \
     .checkpointing = VW_CHECKPOINTING_##checkpointing_,                                           \
     .attention = VW_ATTENTION_##attention_,                                                       \
     .offload = VW_OFFLOAD_##offload_,                                                             \
     .sharding = VW_SHARDING_##sharding_,                                                          \
     .error = __VA_ARGS__},
const vw__plan_measured_case vw__plan_measured_cases[] = {
#include "plan/measured_cases.def"
};
#undef CASE

const size_t vw__plan_measured_case_count =
    sizeof vw__plan_measured_cases / sizeof vw__plan_measured_cases[0];

static vw_precision precision_kind(vw_precision precision)
{
    switch (precision) {
    case VW_PRECISION_TF32:
        return VW_PRECISION_FP32;
    case VW_PRECISION_AMP_FP16:
        return VW_PRECISION_AMP_BF16;
    case VW_PRECISION_FP16:
        return VW_PRECISION_BF16;
    default:
        return precision;
    }
}

static vw_optimizer optimizer_kind(vw_optimizer optimizer)
{
    switch (optimizer) {
    case VW_OPTIMIZER_SGD_MOMENTUM:
        return VW_OPTIMIZER_SGD;
    case VW_OPTIMIZER_ADAMW_FUSED:
    case VW_OPTIMIZER_ADAMW_LOOP:
        return VW_OPTIMIZER_ADAMW;
    default:
        return optimizer;
    }
}

static bool has_same_states(const vw__plan_measured_case *found, const vw_plan_settings *settings)
{
    bool has_optimizer = settings->mode == VW_PLAN_MODE_TRAIN;
    return precision_kind(found->precision) == precision_kind(settings->precision) &&
           (!has_optimizer ||
            optimizer_kind(found->optimizer) == optimizer_kind(settings->optimizer)) &&
           found->has_master_weights == settings->has_master_weights &&
           found->offload == settings->offload && found->sharding == settings->sharding;
}

static bool has_same_activations(const vw__plan_measured_case *found,
                                 const vw_plan_settings *settings)
{
    return found->mode == settings->mode && found->checkpointing == settings->checkpointing &&
           found->attention == settings->attention &&
           found->has_chunks == (settings->loss_chunks > 1) &&
           found->has_lora == (settings->lora_rank > 0) &&
           found->is_quantized == settings->is_quantized &&
           found->is_generating == (settings->generate > 0) &&
           settings->kv_dtype == VW_KV_DTYPE_AUTO && !settings->has_static_cache &&
           settings->lora_targets == NULL && !settings->has_fused_loss && settings->padding == 0;
}

vw__plan_error_band vw__plan_error_band_among(const vw__plan_measured_case *cases,
                                              size_t case_count, const char *family,
                                              const vw_plan_settings *settings)
{
    vw__plan_error_band band = {.case_count = 0};
    bool is_one_gpu = settings->gpus <= 1; /* several were never measured */
    for (size_t i = 0; is_one_gpu && i < case_count; i++) {
        const vw__plan_measured_case *found = &cases[i];
        if (strcmp(found->family, family) != 0 || found->head != settings->head ||
            !has_same_states(found, settings) || !has_same_activations(found, settings))
            continue;
        if (band.case_count == 0 || found->error < band.low)
            band.low = found->error;
        if (band.case_count == 0 || found->error > band.high)
            band.high = found->error;
        if (found->parameters > band.most_parameters)
            band.most_parameters = found->parameters;
        band.case_count++;
    }
    return band;
}

vw__plan_error_band vw__plan_error_band_of(const vw_plan_model *model,
                                           const vw_plan_settings *settings)
{
    if (model->quantization.method != VW__PLAN_NOT_QUANTIZED) /* of a file: never measured */
        return (vw__plan_error_band){.case_count = 0};
    return vw__plan_error_band_among(vw__plan_measured_cases, vw__plan_measured_case_count,
                                     model->family->name, settings);
}

/* ---- words ----------------------------------------------------------------------------------- */

typedef struct size_words {
    char text[24];
} size_words;

/* "1.24B", "109M" */
static size_words words_of_size(uint64_t parameters)
{
    size_words words;
    const bool is_large = parameters >= UINT64_C(1000000000);
    vw__c_locale_snprintf(words.text, sizeof words.text, "%.3g%s",
                          (double)parameters / (is_large ? 1e9 : 1e6), is_large ? "B" : "M");
    return words;
}

const char *vw__plan_error_basis(vw__arena *arena, vw__plan_error_band band,
                                 const vw_plan_model *model, const vw_plan *plan)
{
    const char *family = model->family->name;
    const bool has_head = plan->settings.head != VW_PLAN_HEAD_AUTO;
    const char *head = has_head ? vw_plan_head_name(plan->settings.head) : "";
    const char *comma = has_head ? ", " : "";
    if (band.case_count == 0)
        return vw__arena_format(arena, "no case of %s%s%s with settings of this kind was measured",
                                family, comma, head);
    if (plan->parameters <= band.most_parameters)
        return vw__arena_format(arena, "%zu case%s of %s%s%s with settings of this kind",
                                band.case_count, band.case_count == 1 ? "" : "s", family, comma,
                                head);
    return vw__arena_format(
        arena,
        "%zu case%s of %s%s%s with settings of this kind; this one has %s parameters, "
        "measured up to %s",
        band.case_count, band.case_count == 1 ? "" : "s", family, comma, head,
        words_of_size(plan->parameters).text, words_of_size(band.most_parameters).text);
}
