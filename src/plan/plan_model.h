/* plan_model.h - a model as the planner knows it: a family, and numbers.
 *
 * The model code is shared: one transformer (transformer.h), one ResNet, one list of layers. A
 * family is a row of families.c that says how the transformer's Python code differs from the
 * others'; a model type of config.json is a row of config_types.c; a built-in model is a line of
 * zoo.def. The numbers come from a config.json, from zoo.def or from a description. */
#ifndef VW_PLAN_PLAN_MODEL_H
#define VW_PLAN_PLAN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/plan.h"
#include "base/arena.h"
#include "plan/tape.h"

typedef struct vw__plan_run vw__plan_run;
typedef struct vw__config vw__config;
typedef struct vw__plan_style vw__plan_style; /* transformer.h */

typedef enum vw__plan_activation {
    VW__PLAN_ACTIVATION_GELU,     /* one kernel: "gelu", "gelu_pytorch_tanh" */
    VW__PLAN_ACTIVATION_GELU_NEW, /* transformers' own, in Python: "gelu_new", "gelu_fast" */
    VW__PLAN_ACTIVATION_SILU,
    VW__PLAN_ACTIVATION_RELU,
    VW__PLAN_ACTIVATION_QUICK_GELU, /* x * sigmoid(1.702 * x) */
    VW__PLAN_ACTIVATION_BLOOM_GELU, /* a function with a derivative of its own, in Python */
} vw__plan_activation;

/* The numbers of a transformer. 0 and false where a model has no such thing. */
typedef struct vw__plan_attention {
    uint64_t heads, key_heads, head_width;
    uint64_t rotary_width;     /* part of a head that is rotated; 0: all of it */
    uint64_t buckets;          /* relative positions with a learned bias (t5) */
    uint64_t window;           /* sliding; 0: none */
    uint64_t window_period;    /* every so many layers, one without a window; 0: all have it */
    uint64_t unrotated_period; /* every so many layers, one that does not rotate; 0: all do */
    uint64_t window_from;      /* layers before this one have no window */
    const bool *windows;       /* which layers have a window, in place of both; NULL: not listed */
    const bool *rotated;       /* which layers rotate, in place of that; NULL: not listed */
    bool is_first_full;        /* periods of windows begin with the layer that has none */
    bool has_query_bias, has_output_bias;
    bool has_query_norm; /* queries and keys are normalized by head */
    bool has_dropout;
    bool has_capped_scores; /* tanh(scores / cap) * cap before the softmax */
    bool is_clipped;        /* queries, keys and values, in place */
    uint64_t span;          /* distances of either direction with a row of their own (deberta) */
    bool has_distance_keys, has_distance_queries;
    bool shares_distance_modules; /* they are the keys' and queries' */
    bool repeats_first;           /* heads of keys and values, before they are rotated */
} vw__plan_attention;

typedef struct vw__plan_mlp {
    uint64_t inner;
    uint64_t experts, experts_per_token;
    uint64_t shared_inner; /* of the expert that every token goes to; 0: none */
    vw__plan_activation activation;
    bool is_gated;
    bool has_bias;
    bool has_dropout; /* before the last product */
} vw__plan_mlp;

typedef struct vw__plan_norm {
    bool has_outer;       /* norms behind attention and MLP too */
    bool is_of_distances; /* the rows for distances have one */
    bool is_shared;       /* attention and MLP, in parallel, read the same one */
    bool is_post; /* behind the sums, and none at the end, although the family's are before */
} vw__plan_norm;

typedef struct vw__plan_embedding {
    uint64_t vocabulary, positions, token_types;
    uint64_t width;           /* of a token, where it is not that of the layers; else 0 */
    uint64_t position_offset; /* positions are counted from here, for each sample (roberta) */
    uint64_t image, patch, channels;
    uint64_t mels, sounds; /* rows of a spectrum, and what an encoder reads of them: half as many
                              tokens as columns (whisper) */
    bool has_dropout;
} vw__plan_embedding;

/* What ForSequenceClassification makes of hidden states. */
typedef enum vw__plan_classifier {
    VW__PLAN_CLASSIFIER_OF_LAST,   /* every token's scores, without a bias; the last one's count */
    VW__PLAN_CLASSIFIER_OF_POOLER, /* what the model's pooler makes of the first token (bert) */
    VW__PLAN_CLASSIFIER_OF_DENSE,  /* its own dense layer over the first token (roberta) */
    VW__PLAN_CLASSIFIER_OF_TRANSFORM, /* dense layer and norm of the masked head; of tokens too */
} vw__plan_classifier;

typedef struct vw__plan_head {
    uint64_t labels; /* of a classifier */
    bool is_tied;    /* the weight is the embedding's */
    bool is_capped;  /* tanh(logits / cap) * cap */
    bool is_scaled;  /* logits times a number */
    bool has_offset; /* a buffer is added to the logits */
    bool has_pooler; /* without a head, a dense layer over the first token is there (bert) */
    vw__plan_classifier classifier;
} vw__plan_head;

typedef struct vw__plan_shape {
    uint64_t hidden, layers;
    uint64_t decoder_layers; /* of an encoder-decoder, whose encoder has `layers` */
    bool is_sequential; /* the MLP reads what attention made, although the family's is parallel */
    bool has_residual_dropout;
    vw__plan_attention attention;
    vw__plan_mlp mlp;
    vw__plan_norm norm;
    vw__plan_embedding embedding;
    vw__plan_head head;
} vw__plan_shape;

/* How the weights of linear layers are packed, heads and embeddings apart. */
typedef enum vw__plan_quantization_method {
    VW__PLAN_NOT_QUANTIZED,
    VW__PLAN_QUANTIZED_AWQ,
    VW__PLAN_QUANTIZED_GPTQ,
    VW__PLAN_QUANTIZED_BNB_8, /* bitsandbytes, LLM.int8() */
    VW__PLAN_QUANTIZED_BNB_4, /* and NF4, FP4 */
    VW__PLAN_QUANTIZED_FP8,   /* by square blocks */
} vw__plan_quantization_method;

typedef struct vw__plan_quantization {
    vw__plan_quantization_method method;
    uint64_t bits;
    uint64_t group;         /* weights that share a scale; 0: a whole column, or matrix */
    bool has_double_scales; /* BNB_4: scales are quantized too */
} vw__plan_quantization;

enum { VW__PLAN_MODEL_MOST_NOTES = 8, VW__PLAN_MOST_HEADS = 8 };

typedef struct vw__vision vw__vision; /* vision.h */

/* Lines of a description; see layers.h. */
typedef struct vw__layers_line vw__layers_line;
typedef struct vw__layers_shape vw__layers_shape;

typedef enum vw__layers_loss {
    VW__LAYERS_CROSS_ENTROPY,
    VW__LAYERS_MSE,
    VW__LAYERS_MEAN, /* output.mean() */
} vw__layers_loss;

/* A ResNet of torchvision, or of transformers. */
typedef struct vw__plan_resnet {
    uint64_t blocks[4];     /* of each stage */
    uint64_t groups, width; /* of a group: 1 and 64 in a plain one */
    uint64_t colors, stem;  /* channels of the image, and behind the stem */
    uint64_t channels[4];   /* behind each stage */
    bool is_bottleneck;     /* resnet50 and larger */
    bool is_transformers;
    bool halves_first;          /* the first stage too halves the image */
    bool strides_in_first_conv; /* of a bottleneck, in place of the second */
} vw__plan_resnet;

/* How a family's own code of attention differs from the eager code that most share. */
typedef struct vw__plan_scores {
    bool is_own;            /* there is no other: SDPA is not called, whatever is asked for */
    bool has_no_flash;      /* nor the flash-attn package: scores are changed by more than a mask */
    bool is_plain;          /* the softmax does not ask for float32 */
    bool is_in_float32;     /* queries and keys are cast first */
    bool copies_heads;      /* queries, keys and values are put in order first, always */
    bool is_scaled_inside;  /* by the product itself, or not at all */
    bool has_float_bias;    /* positions are added, in float32 */
    bool is_filled;         /* what is hidden is filled, not added */
    bool has_mask_of_bools; /* for every sample, and no other */
    bool has_mask_of_samples;
} vw__plan_scores;

typedef struct vw__plan_family {
    const char *name;
    bool has_images;         /* settings.image counts, not settings.sequence */
    bool has_position_table; /* no sequence is longer than the model's positions */
    bool keeps_logits_type;  /* the loss takes logits as they are, not in float32 */
    vw__plan_scores scores;
    const vw__plan_style *style;        /* of a transformer; else NULL */
    uint8_t heads[VW__PLAN_MOST_HEADS]; /* vw_plan_head: the usual one first; AUTO ends them */
    uint64_t (*usual_length)(const vw_plan_model *model); /* tokens, or pixels of a side */
    /* Whether there is anything to compute again; NULL: always. */
    bool (*has_blocks)(const vw_plan_model *model);
    /* Makes the parameters, and run->modules to find them again. */
    void (*build)(vw__plan_run *run);
    /* Makes a batch and runs one forward pass. Returns the loss, or without one (INFERENCE) the
     * result that the caller would get. */
    vw__tensor (*forward)(vw__plan_run *run);
    /* Tokens after the prompt, with a key/value cache: vw__plan_generate(). NULL: not possible. */
    void (*generate)(vw__plan_run *run);
} vw__plan_family;

struct vw_plan_model {
    vw__arena arena; /* of strings and layers */
    const vw__plan_family *family;
    const char *name;
    vw_plan_head head; /* the file's; AUTO: the family's usual one */
    bool has_precision;
    vw_precision precision; /* the file's, with has_precision */
    vw__plan_quantization quantization;
    const char *caution; /* what to know before a plan is read; NULL: nothing */
    vw__plan_shape shape;
    vw__plan_resnet resnet;
    const vw__vision *vision;           /* of a built-in one that has layers; else NULL */
    const vw__layers_line *lines;       /* of a description */
    size_t line_count, head_line_count; /* the last of them are the head */
    const vw__layers_shape *layers_input;
    const vw__layers_line *second_lines; /* of a model of two towers; else NULL */
    size_t second_line_count;
    uint64_t contrast_parameters; /* that scale the product of both */
    const vw__layers_shape *second_input;
    vw__layers_loss layers_loss;
    const char *notes[VW__PLAN_MODEL_MOST_NOTES]; /* on what the plan leaves out */
    size_t note_count;
};

/* As vw_plan_model_open(), with the content of a file. */
VW_MUST_CHECK vw_status vw__plan_model_open_memory(const void *bytes, size_t size_bytes,
                                                   vw_plan_model **out);

/* Keep a text in the model (model_open.c). More notes than VW__PLAN_MODEL_MOST_NOTES are left out;
 * a caution takes the place of the one before. */
VW_MUST_CHECK vw_status vw__plan_model_note(vw_plan_model *model, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
VW_MUST_CHECK vw_status vw__plan_model_caution(vw_plan_model *model, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- heads (plan_heads.c) ---------------------------------------------------------------------
 */

bool vw__plan_family_has_head(const vw__plan_family *family, vw_plan_head head);
/* The settings' head, the model's, or the usual one of its family. */
vw_plan_head vw__plan_head_of(const vw_plan_model *model, const vw_plan_settings *settings);
/* Scores for every word of a vocabulary. */
bool vw__plan_has_vocabulary_head(const vw_plan_model *model, const vw_plan_settings *settings);
/* Labels make no loss of hidden states. */
static inline bool vw__plan_head_has_loss(vw_plan_head head)
{
    return head != VW_PLAN_HEAD_NONE && head != VW_PLAN_HEAD_ENCODER;
}

/* ---- types of weights (plan_precision.c) ------------------------------------------------------
 */

/* The file's method, or QLoRA's. */
vw__plan_quantization vw__plan_quantization_of(const vw_plan_model *model,
                                               const vw_plan_settings *settings);
/* "awq" */
const char *vw__plan_quantization_name(vw__plan_quantization_method method);

/* ---- built-in models (zoo.c) ------------------------------------------------------------------
 */

/* Fills in family and numbers of a built-in model; false if the name is unknown. */
bool vw__plan_zoo_find(const char *name, vw_plan_model *model);
/* The built-in model that is published under that name: ignores the organisation, case, hyphens,
 * underscores, and endings that say how it was tuned ("Qwen/Qwen2.5-7B-Instruct"). NULL: none. */
const char *vw__plan_zoo_name(const char *published);

extern const vw__plan_family vw__plan_family_gpt2;
extern const vw__plan_family vw__plan_family_llama;
extern const vw__plan_family vw__plan_family_bert;
extern const vw__plan_family vw__plan_family_vit;
extern const vw__plan_family vw__plan_family_t5;
extern const vw__plan_family vw__plan_family_gemma;
extern const vw__plan_family vw__plan_family_phi;
extern const vw__plan_family vw__plan_family_phi3;
extern const vw__plan_family vw__plan_family_gpt_neox;
extern const vw__plan_family vw__plan_family_mixtral;
extern const vw__plan_family vw__plan_family_resnet;
extern const vw__plan_family vw__plan_family_granite;
extern const vw__plan_family vw__plan_family_modernbert;
extern const vw__plan_family vw__plan_family_mpnet;
extern const vw__plan_family vw__plan_family_m2m_100;
extern const vw__plan_family vw__plan_family_deberta;
extern const vw__plan_family vw__plan_family_gptj;
extern const vw__plan_family vw__plan_family_gpt_neo;
extern const vw__plan_family vw__plan_family_bloom;
extern const vw__plan_family vw__plan_family_mpt;
extern const vw__plan_family vw__plan_family_falcon;
extern const vw__plan_family vw__plan_family_starcoder2;
extern const vw__plan_family vw__plan_family_stablelm;
extern const vw__plan_family vw__plan_family_olmo;
extern const vw__plan_family vw__plan_family_olmo2;
extern const vw__plan_family vw__plan_family_glm;
extern const vw__plan_family vw__plan_family_cohere;
extern const vw__plan_family vw__plan_family_cohere2;
extern const vw__plan_family vw__plan_family_opt;
extern const vw__plan_family vw__plan_family_distilbert;
extern const vw__plan_family vw__plan_family_bart;
extern const vw__plan_family vw__plan_family_mbart;
extern const vw__plan_family vw__plan_family_pegasus;
extern const vw__plan_family vw__plan_family_marian;
extern const vw__plan_family vw__plan_family_whisper;

/* Of transformers, described by layers that vision_transformers.c makes. */
extern const vw__plan_family vw__plan_family_clip;
extern const vw__plan_family vw__plan_family_convnext;
extern const vw__plan_family vw__plan_family_deit;
extern const vw__plan_family vw__plan_family_dinov2;
extern const vw__plan_family vw__plan_family_siglip;
extern const vw__plan_family vw__plan_family_swin;

/* Of torchvision, described by layers that vision.c makes. */
extern const vw__plan_family vw__plan_family_efficientnet;
extern const vw__plan_family vw__plan_family_mobilenet;
extern const vw__plan_family vw__plan_family_vgg;
extern const vw__plan_family vw__plan_family_densenet;

/* Described by layers: the input is an image, tokens, or one row. */
extern const vw__plan_family vw__plan_family_image_layers;
extern const vw__plan_family vw__plan_family_token_layers;
extern const vw__plan_family vw__plan_family_feature_layers;

#endif /* VW_PLAN_PLAN_MODEL_H */
