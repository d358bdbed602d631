/* plan_model.h - a model as the planner knows it: a family, and numbers.
 *
 * A family (gpt2, llama, gemma, phi, mixtral, bert, t5, vit, resnet, layers) is model code: which
 * modules there are, and what their forward() does, written after the Python code. The numbers come
 * from a config.json, a built-in table or a description. */
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

typedef enum vw__activation {
    VW__ACTIVATION_GELU,     /* one kernel: "gelu", "gelu_pytorch_tanh" */
    VW__ACTIVATION_GELU_NEW, /* transformers' own, in Python: "gelu_new", "gelu_fast" */
    VW__ACTIVATION_SILU,
    VW__ACTIVATION_RELU,
    VW__ACTIVATION_QUICK_GELU, /* x * sigmoid(1.702 * x) */
} vw__activation;

/* What transformers have in common. 0 and false where a family has no such thing. */
typedef struct vw__transformer {
    uint64_t hidden, layers, heads, key_heads, head_width;
    uint64_t inner; /* of the MLP */
    uint64_t vocabulary, positions, token_types;
    uint64_t decoder_layers;                 /* t5 */
    uint64_t buckets;                        /* t5: relative positions */
    uint64_t experts, experts_per_token;     /* mixtral */
    uint64_t image, patch, channels, labels; /* vit */
    uint64_t window;                         /* sliding; 0 = none */
    uint64_t
        window_period; /* every so many layers, one without a window; 0 = none such (gemma2: 2) */
    uint64_t window_from;     /* layers before this one have none (qwen2) */
    const bool *windows;      /* which layers have one, in place of both; NULL: not listed */
    uint64_t rotary_width;    /* of a head, what is rotated; 0 = all of it (phi) */
    uint64_t position_offset; /* roberta: positions are counted from here on, for each sample */
    vw__activation activation;
    bool is_gated; /* the MLP has a gate */
    bool is_tied;  /* the head's weight is the embedding's */
    bool has_query_bias, has_output_bias, has_mlp_bias;
    bool has_query_norm; /* qwen3, gemma3: q and k are normalized by head */
    bool has_embedding_dropout, has_attention_dropout, has_residual_dropout;
    bool has_fp32_norm_weights; /* gemma: (1 + weight) in float32 */
    bool has_outer_norms;       /* gemma2, gemma3: norms behind attention and MLP too */
    bool has_scaled_embedding;  /* gemma: times hidden ** 0.5 */
    bool has_capped_logits;     /* gemma2: tanh(logits / cap) * cap */
    bool has_capped_scores;     /* the same before attention's softmax */
    bool has_packed_weights;    /* phi3: q, k, v in one product, gate and up in another */
    bool has_pooler;
    bool is_sequential; /* gpt_neox: the MLP reads what attention made, not what that read */
} vw__transformer;

enum { VW__MODEL_MOST_NOTES = 8 };

/* Of a description; see layers.h. */
typedef struct vw__layer_line vw__layer_line;
typedef struct vw__layer_shape vw__layer_shape;

typedef enum vw__layers_loss {
    VW__LAYERS_CROSS_ENTROPY,
    VW__LAYERS_MSE,
    VW__LAYERS_MEAN, /* output.mean() */
} vw__layers_loss;

/* transformers' ResNet: the same kind of blocks, with widths of its own. */
typedef struct vw__resnet_stages {
    uint64_t colors, stem;      /* channels that come in, and behind the stem */
    uint64_t channels[4];       /* behind each stage */
    bool halves_first;          /* the first stage too has half the size of what it is given */
    bool strides_in_first_conv; /* of a bottleneck, in place of the second */
} vw__resnet_stages;

typedef struct vw__family {
    const char *name;
    const char *const *model_types; /* of config.json; ends with NULL */
    bool has_images;                /* settings.image counts, not settings.sequence */
    bool has_position_table;        /* no sequence is longer than the model's positions */
    bool keeps_logits_type;         /* the loss takes logits as they are, not in float32 */
    bool has_plain_softmax;         /* eager attention does not ask for float32 */
    uint64_t (*usual_length)(const vw_plan_model *model); /* tokens, or pixels of a side */
    vw_status (*read)(const vw__config *config, vw_plan_model *model);
    /* Makes the parameters; what the family needs to find them again goes to run->modules. */
    void (*build)(vw__plan_run *run);
    /* One forward pass on a batch that it makes itself, to the loss; without one (INFERENCE) to
     * what the caller would get. */
    vw__tensor (*forward)(vw__plan_run *run);
    /* Tokens after the prompt, with a key/value cache: vw__generate(). NULL: cannot be done. */
    void (*generate)(vw__plan_run *run);
} vw__family;

/* As many tokens as the model has positions: the usual_length of most. (module.c) */
uint64_t vw__usual_positions(const vw_plan_model *model);

struct vw_plan_model {
    vw__arena arena; /* of strings and layers */
    const vw__family *family;
    const char *name;
    vw__transformer shape;
    uint64_t resnet_blocks[4];
    uint64_t resnet_groups, resnet_width; /* of a group: 1 and 64 in a plain one */
    bool is_bottleneck;                   /* resnet50 and larger */
    const vw__resnet_stages *stages;      /* of transformers' ResNet; NULL: torchvision's */
    uint64_t classes;
    const vw__layer_line *lines; /* of a description */
    size_t line_count;
    const vw__layer_shape *layers_input;
    vw__layers_loss layers_loss;
    const char *notes[VW__MODEL_MOST_NOTES]; /* what of its configuration the plan leaves out */
    size_t note_count;
};

/* model_open.c: a note in the model's arena; one too many is left out. */
__attribute__((format(printf, 2, 3))) VW_MUST_CHECK vw_status
vw__plan_model_note(vw_plan_model *model, const char *format, ...);

/* As vw_plan_model_open(), of what a file would hold. */
VW_MUST_CHECK vw_status vw__plan_model_open_memory(const void *bytes, size_t size_bytes,
                                                   vw_plan_model **out);

/* zoo.c: a built-in model's numbers; false: there is none of that name. */
bool vw__zoo_find(const char *name, vw_plan_model *model);

extern const vw__family vw__family_gpt2;
extern const vw__family vw__family_llama;
extern const vw__family vw__family_bert;
extern const vw__family vw__family_vit;
extern const vw__family vw__family_t5;
extern const vw__family vw__family_gemma;
extern const vw__family vw__family_phi;
extern const vw__family vw__family_phi3;
extern const vw__family vw__family_gpt_neox;
extern const vw__family vw__family_mixtral;
extern const vw__family vw__family_resnet;

/* Described by its layers: what comes in is an image, tokens, or one row. */
extern const vw__family vw__family_image_layers;
extern const vw__family vw__family_token_layers;
extern const vw__family vw__family_feature_layers;

#endif /* VW_PLAN_PLAN_MODEL_H */
