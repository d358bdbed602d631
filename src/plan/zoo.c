/* zoo.c - models by name.
 *
 * The numbers are those of the config.json that each model was published with (of torchvision's
 * constructors, for ResNets), and the parameters are as counted there, with the head that is
 * planned: BERT's and RoBERTa's for masked words, ViT's for the thousand classes of ImageNet.
 * tests/unit/test_zoo.c holds each count against the one that the model code comes to. */
#include <string.h>

#include "vramwise/plan.h"

#include "plan/plan_model.h"

typedef struct zoo_entry {
    vw_plan_known_model known;
    const vw__family *family;
    vw__transformer shape;
    uint64_t blocks[4]; /* of a ResNet; then its groups, and their width */
    uint64_t groups, width;
    bool is_bottleneck;
} zoo_entry;

/* gpt2: hidden, layers, heads. */
#define GPT2(name, count, h, l, a)                                                                 \
    {                                                                                              \
        .known = {name, "gpt2", UINT64_C(count)}, .family = &vw__family_gpt2, .shape = {           \
            .hidden = h,                                                                           \
            .layers = l,                                                                           \
            .heads = a,                                                                            \
            .key_heads = a,                                                                        \
            .head_width = (h) / (a),                                                               \
            .inner = 4 * (h),                                                                      \
            .vocabulary = 50257,                                                                   \
            .positions = 1024,                                                                     \
            .activation = VW__ACTIVATION_GELU_NEW,                                                 \
            .is_tied = true,                                                                       \
            .has_embedding_dropout = true,                                                         \
            .has_attention_dropout = true,                                                         \
            .has_residual_dropout = true                                                           \
        }                                                                                          \
    }

/* Decoders: hidden, layers, heads, key heads, width of a head, inner, vocabulary, positions, and
 * what else there is. */
#define DECODER(kind, name, count, h, l, a, k, d, f, v, p, ...)                                    \
    {                                                                                              \
        .known = {name, #kind, UINT64_C(count)}, .family = &vw__family_##kind, .shape = {          \
            .hidden = h,                                                                           \
            .layers = l,                                                                           \
            .heads = a,                                                                            \
            .key_heads = k,                                                                        \
            .head_width = d,                                                                       \
            .inner = f,                                                                            \
            .vocabulary = v,                                                                       \
            .positions = p,                                                                        \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define LLAMA(...) DECODER(llama, __VA_ARGS__, .activation = VW__ACTIVATION_SILU, .is_gated = true)
#define MIXTRAL(...)                                                                               \
    DECODER(mixtral, __VA_ARGS__, .activation = VW__ACTIVATION_SILU, .is_gated = true,             \
            .experts = 8, .experts_per_token = 2)
#define NEOX(name_, count, hidden_, layers_, heads_, width, inner_, vocabulary_, rotated)          \
    DECODER(gpt_neox, name_, count, hidden_, layers_, heads_, heads_, width, inner_, vocabulary_,  \
            2048, .activation = VW__ACTIVATION_GELU, .has_query_bias = true,                       \
            .rotary_width = rotated)
#define GEMMA(...)                                                                                 \
    DECODER(gemma, __VA_ARGS__, .activation = VW__ACTIVATION_GELU, .is_gated = true,               \
            .is_tied = true, .has_fp32_norm_weights = true, .has_scaled_embedding = true)
#define PHI(...)                                                                                   \
    DECODER(phi, __VA_ARGS__, .activation = VW__ACTIVATION_GELU_NEW, .has_query_bias = true,       \
            .has_output_bias = true, .has_mlp_bias = true)
#define PHI3(...)                                                                                  \
    DECODER(phi3, __VA_ARGS__, .activation = VW__ACTIVATION_SILU, .is_gated = true,                \
            .has_packed_weights = true)

/* T5: hidden, layers of either side, heads, width of a head, inner; gated ones are not tied. */
#define T5(name, count, h, l, a, d, f, gated)                                                      \
    {                                                                                              \
        .known = {name, "t5", UINT64_C(count)}, .family = &vw__family_t5, .shape = {               \
            .hidden = h,                                                                           \
            .layers = l,                                                                           \
            .decoder_layers = l,                                                                   \
            .heads = a,                                                                            \
            .key_heads = a,                                                                        \
            .head_width = d,                                                                       \
            .inner = f,                                                                            \
            .vocabulary = 32128,                                                                   \
            .buckets = 32,                                                                         \
            .activation = (gated) ? VW__ACTIVATION_GELU_NEW : VW__ACTIVATION_RELU,                 \
            .is_gated = gated,                                                                     \
            .is_tied = !(gated),                                                                   \
            .has_embedding_dropout = true,                                                         \
            .has_attention_dropout = true,                                                         \
            .has_residual_dropout = true                                                           \
        }                                                                                          \
    }

/* BERT: hidden, layers, heads, vocabulary, positions, the first of them, types. */
#define BERT(name, count, h, l, a, v, p, first, t)                                                 \
    {                                                                                              \
        .known = {name, "bert", UINT64_C(count)}, .family = &vw__family_bert, .shape = {           \
            .hidden = h,                                                                           \
            .layers = l,                                                                           \
            .heads = a,                                                                            \
            .key_heads = a,                                                                        \
            .head_width = (h) / (a),                                                               \
            .inner = 4 * (h),                                                                      \
            .vocabulary = v,                                                                       \
            .positions = p,                                                                        \
            .position_offset = first,                                                              \
            .token_types = t,                                                                      \
            .activation = VW__ACTIVATION_GELU,                                                     \
            .is_tied = true,                                                                       \
            .has_embedding_dropout = true,                                                         \
            .has_attention_dropout = true,                                                         \
            .has_residual_dropout = true                                                           \
        }                                                                                          \
    }

/* ViT for images of 224 pixels: hidden, layers, heads, patch. */
#define VIT(name, count, h, l, a, p)                                                               \
    {                                                                                              \
        .known = {name, "vit", UINT64_C(count)}, .family = &vw__family_vit, .shape = {             \
            .hidden = h,                                                                           \
            .layers = l,                                                                           \
            .heads = a,                                                                            \
            .key_heads = a,                                                                        \
            .head_width = (h) / (a),                                                               \
            .inner = 4 * (h),                                                                      \
            .image = 224,                                                                          \
            .patch = p,                                                                            \
            .channels = 3,                                                                         \
            .labels = 1000,                                                                        \
            .activation = VW__ACTIVATION_GELU,                                                     \
            .has_query_bias = true                                                                 \
        }                                                                                          \
    }

/* A ResNet: the blocks of its four stages, groups, the width of one, bottleneck or not. */
#define RESNET(name_, count, b1, b2, b3, b4, groups_, width_, is_bottleneck_)                      \
    {                                                                                              \
        .known = {name_, "resnet", UINT64_C(count)}, .family = &vw__family_resnet,                 \
        .shape = {.labels = 1000}, .blocks = {b1, b2, b3, b4}, .groups = groups_, .width = width_, \
        .is_bottleneck = is_bottleneck_                                                            \
    }

#define TIED .is_tied = true

static const zoo_entry zoo[] = {
    BERT("bert-base", 109514298, 768, 12, 12, 30522, 512, 0, 2),
    BERT("bert-large", 335174458, 1024, 24, 16, 30522, 512, 0, 2),
    GPT2("distilgpt2", 81912576, 768, 6, 12),
    T5("flan-t5-small", 76961152, 512, 8, 6, 64, 1024, true),
    T5("flan-t5-base", 247577856, 768, 12, 12, 64, 2048, true),
    T5("flan-t5-large", 783150080, 1024, 24, 16, 64, 2816, true),
    T5("flan-t5-xl", 2849757184, 2048, 24, 32, 64, 5120, true),
    T5("flan-t5-xxl", 11135332352, 4096, 24, 64, 64, 10240, true),
    GEMMA("gemma-2b", 2506172416, 2048, 18, 8, 1, 256, 16384, 256000, 8192),
    GEMMA("gemma-7b", 8537680896, 3072, 28, 16, 16, 256, 24576, 256000, 8192),
    GEMMA("gemma-2-2b", 2614341888, 2304, 26, 8, 4, 256, 9216, 256000, 8192, .window = 4096,
          .window_period = 2, .has_outer_norms = true, .has_capped_logits = true,
          .has_capped_scores = true),
    GEMMA("gemma-2-9b", 9241705984, 3584, 42, 16, 8, 256, 14336, 256000, 8192, .window = 4096,
          .window_period = 2, .has_outer_norms = true, .has_capped_logits = true,
          .has_capped_scores = true),
    GEMMA("gemma-2-27b", 27227128320, 4608, 46, 32, 16, 128, 36864, 256000, 8192, .window = 4096,
          .window_period = 2, .has_outer_norms = true, .has_capped_logits = true,
          .has_capped_scores = true),
    GEMMA("gemma-3-1b", 999885952, 1152, 26, 4, 1, 256, 6912, 262144, 32768, .window = 512,
          .window_period = 6, .has_outer_norms = true, .has_query_norm = true),
    GPT2("gpt2", 124439808, 768, 12, 12),
    GPT2("gpt2-medium", 354823168, 1024, 24, 16),
    GPT2("gpt2-large", 774030080, 1280, 36, 20),
    GPT2("gpt2-xl", 1557611200, 1600, 48, 25),
    LLAMA("llama-2-7b", 6738415616, 4096, 32, 32, 32, 128, 11008, 32000, 4096),
    LLAMA("llama-2-13b", 13015864320, 5120, 40, 40, 40, 128, 13824, 32000, 4096),
    LLAMA("llama-2-70b", 68976648192, 8192, 80, 64, 8, 128, 28672, 32000, 4096),
    LLAMA("llama-3-8b", 8030261248, 4096, 32, 32, 8, 128, 14336, 128256, 8192),
    LLAMA("llama-3-70b", 70553706496, 8192, 80, 64, 8, 128, 28672, 128256, 8192),
    LLAMA("llama-3.1-8b", 8030261248, 4096, 32, 32, 8, 128, 14336, 128256, 131072),
    LLAMA("llama-3.1-70b", 70553706496, 8192, 80, 64, 8, 128, 28672, 128256, 131072),
    LLAMA("llama-3.1-405b", 405853388800, 16384, 126, 128, 8, 128, 53248, 128256, 131072),
    LLAMA("llama-3.2-1b", 1235814400, 2048, 16, 32, 8, 64, 8192, 128256, 131072, TIED),
    LLAMA("llama-3.2-3b", 3212749824, 3072, 28, 24, 8, 128, 8192, 128256, 131072, TIED),
    LLAMA("mistral-7b", 7241732096, 4096, 32, 32, 8, 128, 14336, 32000, 32768, .window = 4096),
    LLAMA("mistral-nemo-12b", 12247782400, 5120, 40, 32, 8, 128, 14336, 131072, 131072),
    MIXTRAL("mixtral-8x7b", 46702792704, 4096, 32, 32, 8, 128, 14336, 32000, 32768),
    MIXTRAL("mixtral-8x22b", 140620634112, 6144, 56, 48, 8, 128, 16384, 32000, 65536),
    PHI("phi-1.5", 1418270720, 2048, 24, 32, 32, 64, 8192, 51200, 2048, .rotary_width = 32),
    PHI("phi-2", 2779683840, 2560, 32, 32, 32, 80, 10240, 51200, 2048, .rotary_width = 32,
        .has_residual_dropout = true),
    PHI3("phi-3-mini", 3821079552, 3072, 32, 32, 32, 96, 8192, 32064, 4096, .rotary_width = 96,
         .window = 2047),
    PHI3("phi-3-medium", 13960238080, 5120, 40, 40, 10, 128, 17920, 32064, 4096,
         .rotary_width = 128, .window = 2047),
    PHI3("phi-4", 14659507200, 5120, 40, 40, 10, 128, 17920, 100352, 16384, .rotary_width = 128),
    NEOX("pythia-160m", 162322944, 768, 12, 12, 64, 3072, 50304, 16),
    NEOX("pythia-410m", 405334016, 1024, 24, 16, 64, 4096, 50304, 16),
    NEOX("pythia-1b", 1011781632, 2048, 16, 8, 256, 8192, 50304, 64),
    NEOX("pythia-1.4b", 1414647808, 2048, 24, 16, 128, 8192, 50304, 32),
    NEOX("pythia-2.8b", 2775208960, 2560, 32, 32, 80, 10240, 50304, 20),
    NEOX("pythia-6.9b", 6857302016, 4096, 32, 32, 128, 16384, 50432, 32),
    NEOX("pythia-12b", 11846072320, 5120, 36, 40, 128, 20480, 50688, 32),
    LLAMA("qwen2-0.5b", 494032768, 896, 24, 14, 2, 64, 4864, 151936, 131072, TIED,
          .has_query_bias = true),
    LLAMA("qwen2-1.5b", 1543714304, 1536, 28, 12, 2, 128, 8960, 151936, 131072, TIED,
          .has_query_bias = true),
    LLAMA("qwen2-7b", 7615616512, 3584, 28, 28, 4, 128, 18944, 152064, 131072,
          .has_query_bias = true),
    LLAMA("qwen2.5-0.5b", 494032768, 896, 24, 14, 2, 64, 4864, 151936, 32768, TIED,
          .has_query_bias = true),
    LLAMA("qwen2.5-1.5b", 1543714304, 1536, 28, 12, 2, 128, 8960, 151936, 131072, TIED,
          .has_query_bias = true),
    LLAMA("qwen2.5-3b", 3085938688, 2048, 36, 16, 2, 128, 11008, 151936, 32768, TIED,
          .has_query_bias = true),
    LLAMA("qwen2.5-7b", 7615616512, 3584, 28, 28, 4, 128, 18944, 152064, 131072,
          .has_query_bias = true),
    LLAMA("qwen2.5-14b", 14770033664, 5120, 48, 40, 8, 128, 13824, 152064, 131072,
          .has_query_bias = true),
    LLAMA("qwen2.5-32b", 32763876352, 5120, 64, 40, 8, 128, 27648, 152064, 131072,
          .has_query_bias = true),
    LLAMA("qwen2.5-72b", 72706203648, 8192, 80, 64, 8, 128, 29568, 152064, 131072,
          .has_query_bias = true),
    LLAMA("qwen3-0.6b", 596049920, 1024, 28, 16, 8, 128, 3072, 151936, 40960, TIED,
          .has_query_norm = true),
    LLAMA("qwen3-1.7b", 1720574976, 2048, 28, 16, 8, 128, 6144, 151936, 40960, TIED,
          .has_query_norm = true),
    DECODER(mixtral, "qwen3-30b-a3b", 30532122624, 2048, 48, 32, 4, 128, 768, 151936, 40960,
            .activation = VW__ACTIVATION_SILU, .is_gated = true, .has_query_norm = true,
            .experts = 128, .experts_per_token = 8),
    LLAMA("qwen3-4b", 4022468096, 2560, 36, 32, 8, 128, 9728, 151936, 40960, TIED,
          .has_query_norm = true),
    LLAMA("qwen3-8b", 8190735360, 4096, 36, 32, 8, 128, 12288, 151936, 40960,
          .has_query_norm = true),
    LLAMA("qwen3-14b", 14768307200, 5120, 40, 40, 8, 128, 17408, 151936, 40960,
          .has_query_norm = true),
    LLAMA("qwen3-32b", 32762123264, 5120, 64, 64, 8, 128, 25600, 151936, 40960,
          .has_query_norm = true),
    RESNET("resnet18", 11689512, 2, 2, 2, 2, 1, 64, false),
    RESNET("resnet34", 21797672, 3, 4, 6, 3, 1, 64, false),
    RESNET("resnet50", 25557032, 3, 4, 6, 3, 1, 64, true),
    RESNET("resnet101", 44549160, 3, 4, 23, 3, 1, 64, true),
    RESNET("resnet152", 60192808, 3, 8, 36, 3, 1, 64, true),
    RESNET("resnext50_32x4d", 25028904, 3, 4, 6, 3, 32, 4, true),
    RESNET("resnext101_32x8d", 88791336, 3, 4, 23, 3, 32, 8, true),
    RESNET("resnext101_64x4d", 83455272, 3, 4, 23, 3, 64, 4, true),
    BERT("roberta-base", 124697433, 768, 12, 12, 50265, 514, 2, 1),
    BERT("roberta-large", 355412057, 1024, 24, 16, 50265, 514, 2, 1),
    LLAMA("smollm2-135m", 134515008, 576, 30, 9, 3, 64, 1536, 49152, 8192, TIED),
    LLAMA("smollm2-360m", 361821120, 960, 32, 15, 5, 64, 2560, 49152, 8192, TIED),
    LLAMA("smollm2-1.7b", 1711376384, 2048, 24, 32, 32, 64, 8192, 49152, 8192, TIED),
    T5("t5-small", 60506624, 512, 6, 8, 64, 2048, false),
    T5("t5-base", 222903552, 768, 12, 12, 64, 3072, false),
    T5("t5-large", 737668096, 1024, 24, 16, 64, 4096, false),
    T5("t5-3b", 2851598336, 1024, 24, 32, 128, 16384, false),
    T5("t5-11b", 11307321344, 1024, 24, 128, 128, 65536, false),
    LLAMA("tinyllama-1.1b", 1100048384, 2048, 22, 32, 4, 64, 5632, 32000, 2048),
    VIT("vit-base", 86567656, 768, 12, 12, 16),
    VIT("vit-large", 304326632, 1024, 24, 16, 16),
    VIT("vit-huge", 632045800, 1280, 32, 16, 14),
    RESNET("wide_resnet50_2", 68883240, 3, 4, 6, 3, 1, 128, true),
    RESNET("wide_resnet101_2", 126886696, 3, 4, 23, 3, 1, 128, true),
};

const vw_plan_known_model *vw_plan_known(size_t number)
{
    return number < sizeof zoo / sizeof zoo[0] ? &zoo[number].known : NULL;
}

bool vw__zoo_find(const char *name, vw_plan_model *model)
{
    for (size_t i = 0; i < sizeof zoo / sizeof zoo[0]; i++)
        if (strcmp(zoo[i].known.name, name) == 0) {
            model->family = zoo[i].family;
            model->shape = zoo[i].shape;
            memcpy(model->resnet_blocks, zoo[i].blocks, sizeof model->resnet_blocks);
            model->resnet_groups = zoo[i].groups;
            model->resnet_width = zoo[i].width;
            model->is_bottleneck = zoo[i].is_bottleneck;
            model->classes = zoo[i].shape.labels;
            return true;
        }
    return false;
}
