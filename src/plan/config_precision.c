/* config_precision.c - torch_dtype and quantization_config. */
#include "plan/config_precision.h"

#include <string.h>

#include "base/error.h"

/* ---- the type -------------------------------------------------------------------------------- */

/* transformers 5 writes "dtype"; some files have "torch.bfloat16". Other types are quantized ones
 * (float8_e4m3fn), of which quantization_config says more. */
static vw_status read_type(const vw__config *config, vw_plan_model *model)
{
    static const struct {
        const char *name;
        vw_precision precision;
    } types[] = {
        {"float32", VW_PRECISION_FP32},
        {"bfloat16", VW_PRECISION_BF16},
        {"float16", VW_PRECISION_FP16},
    };
    static const char module[] = "torch.";
    const char *name = NULL;
    VW__TRY(vw__config_text_if(config, "torch_dtype", &name));
    VW__TRY(vw__config_text_if(config, "dtype", &name));
    if (name != NULL && strncmp(name, module, sizeof module - 1) == 0)
        name += sizeof module - 1;
    for (size_t i = 0; name != NULL && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, name) == 0) {
            model->precision = types[i].precision;
            model->has_precision = true;
        }
    return VW_OK;
}

/* ---- quantization ---------------------------------------------------------------------------- */

enum { MOST_BITS = 8, USUAL_GROUP = 128, MOST_GROUP = 65536 };

/* A group of -1 is a whole column. */
static vw_status read_group(const vw__config *config, vw__plan_quantization *out)
{
    double group = USUAL_GROUP;
    VW__TRY(vw__config_real_if(config, "group_size", -1, MOST_GROUP, &group));
    out->group = group > 0 ? (uint64_t)group : 0;
    return VW_OK;
}

static vw_status read_packed(const vw__config *config, vw__plan_quantization *out)
{
    out->bits = 4;
    VW__TRY(vw__config_number_if(config, "bits", 2, MOST_BITS, &out->bits));
    VW__TRY(vw__config_number_if(config, "w_bit", 2, MOST_BITS, &out->bits));
    return read_group(config, out);
}

static vw_status read_bitsandbytes(const vw__config *config, vw__plan_quantization *out)
{
    bool has_8_bits = false, has_4_bits = false;
    VW__TRY(vw__config_boolean_if(config, "load_in_8bit", &has_8_bits));
    VW__TRY(vw__config_boolean_if(config, "load_in_4bit", &has_4_bits));
    VW__TRY(vw__config_boolean_if(config, "bnb_4bit_use_double_quant", &out->has_double_scales));
    if (!has_8_bits && !has_4_bits)
        return vw__config_refuse(config, "load_in_4bit", VW_ERR_UNSUPPORTED,
                                 "true, or load_in_8bit");
    out->method = has_8_bits ? VW__PLAN_QUANTIZED_BNB_8 : VW__PLAN_QUANTIZED_BNB_4;
    out->bits = has_8_bits ? 8 : 4;
    return VW_OK;
}

/* One scale for each square of weights; null: one for a whole matrix. */
static vw_status read_fp8(const vw__config *config, vw__plan_quantization *out)
{
    uint64_t sides[2] = {USUAL_GROUP, USUAL_GROUP};
    size_t count = 0;
    out->bits = 8;
    if (vw__config_has(config, "weight_block_size"))
        VW__TRY(vw__config_numbers(config, "weight_block_size", 1, MOST_GROUP, 2, sides, &count));
    out->group = vw__config_is_null(config, "weight_block_size") ? 0 : sides[1];
    return VW_OK;
}

static vw_status find_method(const vw__config *config, vw__plan_quantization_method *out)
{
    static const struct {
        const char *name;
        vw__plan_quantization_method method;
    } methods[] = {
        {"awq", VW__PLAN_QUANTIZED_AWQ},
        {"gptq", VW__PLAN_QUANTIZED_GPTQ},
        {"bitsandbytes", VW__PLAN_QUANTIZED_BNB_4},
        {"fp8", VW__PLAN_QUANTIZED_FP8},
    };
    const char *name = NULL;
    VW__TRY(vw__config_text_if(config, "quant_method", &name));
    if (name == NULL && /* old files of bitsandbytes do not name it */
        (vw__config_has(config, "load_in_4bit") || vw__config_has(config, "load_in_8bit")))
        name = "bitsandbytes";
    for (size_t i = 0; name != NULL && i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(methods[i].name, name) == 0) {
            *out = methods[i].method;
            return VW_OK;
        }
    return vw__config_refuse(config, "quant_method", VW_ERR_UNSUPPORTED,
                             "one of awq, gptq, bitsandbytes, fp8 (without quantization_config the "
                             "model is planned in 16 or 32 bits)");
}

static vw_status read_method(const vw__config *config, vw__plan_quantization *out)
{
    VW__TRY(find_method(config, &out->method));
    switch (out->method) {
    case VW__PLAN_QUANTIZED_AWQ:
    case VW__PLAN_QUANTIZED_GPTQ:
        return read_packed(config, out);
    case VW__PLAN_QUANTIZED_FP8:
        return read_fp8(config, out);
    default:
        return read_bitsandbytes(config, out);
    }
}

/* Layers of experts are single linear layers in such files, and two tensors in the planned code. */
static vw_status check_experts(const vw_plan_model *model)
{
    const vw__plan_quantization_method method = model->quantization.method;
    if (model->shape.mlp.experts == 0 || method == VW__PLAN_QUANTIZED_BNB_4 ||
        method == VW__PLAN_QUANTIZED_BNB_8)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "quantization_config: how %s packs experts is not known to the planner; "
                    "without that field the model is planned in 16 or 32 bits",
                    vw__plan_quantization_name(method));
}

vw_status vw__config_read_precision(const vw__config *config, vw_plan_model *model)
{
    vw__config inside;
    VW__TRY(read_type(config, model));
    if (!vw__config_has(config, "quantization_config"))
        return VW_OK;
    VW__TRY(vw__config_object(config, "quantization_config", &inside));
    VW__TRY(read_method(&inside, &model->quantization));
    return check_experts(model);
}
