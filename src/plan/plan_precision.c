/* plan_precision.c - the types a model's weights are planned in: what the settings say, what the
 * file says, and what trainers make of both. */
#include "plan/plan_model.h"
#include "plan/plan_settings.h"

const char *vw__plan_quantization_name(vw__plan_quantization_method method)
{
    static const char *const names[] = {
        [VW__PLAN_NOT_QUANTIZED] = "none",           [VW__PLAN_QUANTIZED_AWQ] = "awq",
        [VW__PLAN_QUANTIZED_GPTQ] = "gptq",          [VW__PLAN_QUANTIZED_BNB_8] = "bitsandbytes",
        [VW__PLAN_QUANTIZED_BNB_4] = "bitsandbytes", [VW__PLAN_QUANTIZED_FP8] = "fp8",
    };
    return names[method];
}

vw__plan_quantization vw__plan_quantization_of(const vw_plan_model *model,
                                               const vw_plan_settings *settings)
{
    return settings->is_quantized ? (vw__plan_quantization){.method = VW__PLAN_QUANTIZED_BNB_4,
                                                            .bits = 4,
                                                            .has_double_scales = true}
                                  : model->quantization;
}

/* Trainers run QLoRA under autocast: what is not in 4 bits is float32, and bf16 or fp16 says what
 * is multiplied. */
static vw_precision precision_of_qlora(const vw_plan_settings *settings)
{
    switch (settings->precision) {
    case VW_PRECISION_AUTO:
        return vw__plan_card_has(settings->card_name, VW__PLAN_CARD_BF16) ? VW_PRECISION_AMP_BF16
                                                                          : VW_PRECISION_AMP_FP16;
    case VW_PRECISION_BF16:
        return VW_PRECISION_AMP_BF16;
    case VW_PRECISION_FP16:
        return VW_PRECISION_AMP_FP16;
    default:
        return settings->precision;
    }
}

/* The file's; its bf16 is fp16 on a card that has none. */
static vw_precision precision_of_file(const vw_plan_model *model, const vw_plan_settings *settings)
{
    if (!model->has_precision)
        return VW_PRECISION_FP32;
    return model->precision == VW_PRECISION_BF16 &&
                   !vw__plan_card_has(settings->card_name, VW__PLAN_CARD_BF16)
               ? VW_PRECISION_FP16
               : model->precision;
}

vw_precision vw__plan_precision_of(const vw_plan_model *model, const vw_plan_settings *settings)
{
    const bool is_inference = settings->mode == VW_PLAN_MODE_INFERENCE;
    if (settings->is_quantized && vw__plan_is_training(settings))
        return precision_of_qlora(settings);
    if (settings->precision != VW_PRECISION_AUTO)
        return settings->precision;
    return is_inference ? precision_of_file(model, settings) : VW_PRECISION_FP32;
}

void vw__plan_explain_precision(const vw_plan_model *model, const vw_plan_settings *asked,
                                vw_plan *plan)
{
    const vw_plan_settings *planned = &plan->settings;
    plan->has_own_precision = true;
    if (asked->precision == planned->precision) {
        plan->has_own_precision = false;
        plan->precision_basis = "given";
    } else if (asked->is_quantized && vw__plan_is_training(asked)) {
        plan->precision_basis = "as trainers run QLoRA";
    } else if (planned->mode != VW_PLAN_MODE_INFERENCE || !model->has_precision) {
        plan->has_own_precision = false;
        plan->precision_basis = "the default";
    } else {
        plan->precision_basis = planned->precision == model->precision
                                    ? "torch_dtype of the file"
                                    : "the file's bf16 is not the card's";
    }
}
