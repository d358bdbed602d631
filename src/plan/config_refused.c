/* config_refused.c - model types that are known to people and not to the planner: what each has
 * that the transformer of transformer.h has not. */
#include "plan/config_refused.h"

#include <string.h>

#include "base/error.h"

#define NEXT_STEP                                                                                  \
    "plan from one recorded step of it (vramwise run --record FILE -- COMMAND, then vramwise "     \
    "plan "                                                                                        \
    "--from FILE), or describe its layers (vramwise-plan(1))"

static const struct reason {
    const char *what;
    const char *const *types; /* ended by NULL */
} reasons[] = {
    {"its keys and values are compressed",
     (const char *const[]){"deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "kimi_k2",
                           "longcat_flash", "minicpm3", NULL}},
    {"its experts are chosen and run by other code than Mixtral's and Qwen's",
     (const char *const[]){"dbrx", "dots1", "ernie4_5_moe", "flex_olmo", "glm4_moe", "gpt_oss",
                           "granitemoe", "granitemoeshared", "grok-1", "hunyuan_v1_moe", "jetmoe",
                           "llama4", "llama4_text", "minimax", "nllb-moe", "olmoe", "phimoe",
                           "switch_transformers", NULL}},
    {"some of its layers are recurrent, and have no attention",
     (const char *const[]){"bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba",
                           "lfm2", "mamba", "mamba2", "nemotron_h", "qwen3_5", "qwen3_5_moe",
                           "qwen3_next", "recurrent_gemma", "rwkv", "xlstm", "zamba", "zamba2",
                           NULL}},
    {"some of its layers attend to images",
     (const char *const[]){"mllama", "mllama_text_model", NULL}},
    {"its code is not that of transformers but comes with the model",
     (const char *const[]){"baichuan", "chatglm", "exaone", "internlm2", "phi3small", "phi4mm",
                           "qwen", NULL}},
    {"its attention is to blocks of the text",
     (const char *const[]){"big_bird", "bigbird_pegasus", "led", "longformer", "longt5",
                           "nystromformer", "reformer", NULL}},
    {"its layers share their weights, or are of several widths",
     (const char *const[]){"albert", "convbert", "funnel", "gemma3n", "gemma3n_text", "mobilebert",
                           "squeezebert", NULL}},
};

static const char *reason_of(const char *type)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        for (const char *const *known = reasons[i].types; *known != NULL; known++)
            if (strcmp(*known, type) == 0)
                return reasons[i].what;
    return NULL;
}

vw_status vw__config_refuse_type(const vw__config *config)
{
    const char *type = NULL;
    VW__TRY(vw__config_text_if(config, "model_type", &type));
    const char *reason = type == NULL ? NULL : reason_of(type);
    if (reason != NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "%smodel_type: %s is not planned: %s; " NEXT_STEP,
                        config->place, type, reason);
    return vw__config_refuse(config, "model_type", VW_ERR_UNSUPPORTED,
                             "a type that vramwise-plan(1) lists (of any other model: " NEXT_STEP
                             ")");
}
