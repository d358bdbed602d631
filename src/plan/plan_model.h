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
} vw__plan_activation;

/* The numbers of a transformer. 0 and false where a model has no such thing. */
typedef struct vw__plan_attention {
    uint64_t heads, key_heads, head_width;
    uint64_t rotary_width;  /* part of a head that is rotated; 0: all of it */
    uint64_t buckets;       /* relative positions with a learned bias (t5) */
    uint64_t window;        /* sliding; 0: none */
    uint64_t window_period; /* every so many layers, one without a window; 0: all have it */
    uint64_t window_from;   /* layers before this one have no window */
    const bool *windows;    /* which layers have a window, in place of both; NULL: not listed */
    bool has_query_bias, has_output_bias;
    bool has_query_norm; /* queries and keys are normalized by head */
    bool has_dropout;
    bool has_capped_scores; /* tanh(scores / cap) * cap before the softmax */
} vw__plan_attention;

typedef struct vw__plan_mlp {
    uint64_t inner;
    uint64_t experts, experts_per_token;
    vw__plan_activation activation;
    bool is_gated;
    bool has_bias;
} vw__plan_mlp;

typedef struct vw__plan_norm {
    bool has_outer; /* norms behind attention and MLP too */
} vw__plan_norm;

typedef struct vw__plan_embedding {
    uint64_t vocabulary, positions, token_types;
    uint64_t position_offset; /* positions are counted from here, for each sample (roberta) */
    uint64_t image, patch, channels;
    bool has_dropout;
} vw__plan_embedding;

typedef struct vw__plan_head {
    uint64_t labels; /* of a classifier */
    bool is_tied;    /* the weight is the embedding's */
    bool is_capped;  /* tanh(logits / cap) * cap */
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

enum { VW__PLAN_MODEL_MOST_NOTES = 8 };

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

typedef struct vw__plan_family {
    const char *name;
    bool has_images;             /* settings.image counts, not settings.sequence */
    bool has_position_table;     /* no sequence is longer than the model's positions */
    bool keeps_logits_type;      /* the loss takes logits as they are, not in float32 */
    bool has_plain_softmax;      /* eager attention does not ask for float32 */
    const vw__plan_style *style; /* of a transformer; else NULL */
    uint64_t (*usual_length)(const vw_plan_model *model); /* tokens, or pixels of a side */
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
    vw__plan_shape shape;
    vw__plan_resnet resnet;
    const vw__vision *vision;     /* of a built-in one that has layers; else NULL */
    const vw__layers_line *lines; /* of a description */
    size_t line_count;
    const vw__layers_shape *layers_input;
    vw__layers_loss layers_loss;
    const char *notes[VW__PLAN_MODEL_MOST_NOTES]; /* on what the plan leaves out */
    size_t note_count;
};

/* As vw_plan_model_open(), with the content of a file. */
VW_MUST_CHECK vw_status vw__plan_model_open_memory(const void *bytes, size_t size_bytes,
                                                   vw_plan_model **out);

/* zoo.c: fills in family and numbers of a built-in model; false if the name is unknown. */
bool vw__plan_zoo_find(const char *name, vw_plan_model *model);

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
