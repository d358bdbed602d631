/* plan_run.h - a model that runs on a tape, and the modules model code is made of. */
#ifndef VW_PLAN_PLAN_RUN_H
#define VW_PLAN_PLAN_RUN_H

#include "vramwise/plan.h"
#include "base/arena.h"
#include "plan/op.h"
#include "plan/op_image.h"
#include "plan/op_rnn.h"
#include "plan/plan_model.h"
#include "plan/tape.h"

typedef struct vw__shard_state vw__shard_state;
typedef struct vw__plan_key_cache vw__plan_key_cache;

/* One weight that was made, in the order of making. */
typedef struct vw__plan_weight {
    vw__tensor full;  /* as modules know it */
    vw__tensor shard; /* what this GPU keeps of it, where that is less, or of another type */
    uint32_t group;   /* 0: the root's; n: of the n-th block */
    uint32_t next;    /* of the same group, or UINT32_MAX */
} vw__plan_weight;

/* Names of linear layers, each once, in the order of their making. */
typedef struct vw__module_names {
    const char *items[16];
    size_t count;
} vw__module_names;

struct vw__plan_run {
    const vw_plan_model *model;
    const vw_plan_settings *settings;
    vw__tape *tape;
    vw__arena arena;         /* of the modules */
    void *modules;           /* the family's own */
    vw_plan_head head;       /* as vw__plan_head_of() */
    vw__dtype dtype;         /* of weights */
    vw__dtype compute_dtype; /* of products with quantized weights */
    vw__plan_quantization quantization;
    bool is_training;   /* module.train(): dropout is on */
    bool is_settled;    /* the optimizer has its state before the first step */
    bool has_gradients; /* of an earlier batch of the same step */
    bool has_loss;      /* labels are given; else the logits are the result */
    uint64_t parameters, trained_parameters;
    vw__module_names linears, adapted; /* with LoRA: what it could adapt, and what it does */

    vw__plan_weight *weights; /* in the arena */
    size_t weight_count, weight_capacity;
    size_t block_count;        /* that ran in this forward pass */
    uint32_t current_block;    /* that runs now, from 1 on; 0: none */
    vw__shard_state *sharding; /* sharding.h; NULL: every weight is here, always */
    vw__plan_key_cache *keys;  /* generate.c; NULL: nothing is generated */
    uint64_t pageable_bytes; /* outside of PyTorch's allocator: on the device while there is room */
};

/* Zeroed memory that lives as long as the run; on failure the tape fails and the answer is a place
 * that may be written to and has no meaning: model code goes on. */
void *vw__module_alloc(vw__plan_run *run, size_t count, size_t item_bytes);

/* ---- modules (module.c) ---------------------------------------------------------------------- */

typedef enum vw__module_linear_kind {
    VW__MODULE_LINEAR_PLAIN,
    VW__MODULE_LINEAR_ADAPTED, /* LoRA's usual targets in this family */
    VW__MODULE_LINEAR_HEAD,    /* never quantized, never adapted */
    VW__MODULE_LINEAR_NEW,     /* the same, and LoRA trains it whole: PEFT's modules_to_save */
} vw__module_linear_kind;

typedef struct vw__module_linear {
    vw__op_linear_weights weights;
    vw__op_linear_weights lora_a, lora_b; /* of an adapted one, with LoRA */
    const char *name;
    bool is_adapted;   /* has an adapter: lora_a, lora_b */
    bool is_quantized; /* weights.weight is packed, as run->quantization says */
    bool has_offset;   /* of a head */
    vw__tensor offset; /* a buffer that is added to the result */
} vw__module_linear;

/* `name` as in the model: "q_proj". */
vw__module_linear vw__module_make_linear(vw__plan_run *run, const char *name, uint64_t in,
                                         uint64_t out, bool has_bias, vw__module_linear_kind kind);
/* A head whose weight is the embedding's. */
vw__module_linear vw__module_tied_head(vw__plan_run *run, vw__tensor table, uint64_t in,
                                       uint64_t out);
vw__tensor vw__module_apply_linear(vw__plan_run *run, vw__tensor x,
                                   const vw__module_linear *module);

typedef enum vw__module_norm_kind {
    VW__MODULE_NORM_LAYER,
    VW__MODULE_NORM_LAYER_UNBIASED, /* only a weight, as those below */
    VW__MODULE_NORM_RMS,
    VW__MODULE_NORM_GEMMA,    /* in float32 with its weight, 1 + weight */
    VW__MODULE_NORM_T5,       /* scales the argument itself */
    VW__MODULE_NORM_RMS_LATE, /* its weight too is applied in float32 */
    VW__MODULE_NORM_COHERE,   /* with a mean, in float32 with its weight */
    VW__MODULE_NORM_PLAIN,    /* a layer norm without weights, in float32 */
} vw__module_norm_kind;

typedef struct vw__module_norm {
    vw__tensor weight, bias;
    uint64_t width;
    vw__module_norm_kind kind;
    const char *name;
} vw__module_norm;

vw__module_norm vw__module_make_norm(vw__plan_run *run, const char *name, uint64_t width,
                                     vw__module_norm_kind kind);
vw__tensor vw__module_apply_norm(vw__plan_run *run, vw__tensor x, const vw__module_norm *module);

vw__tensor vw__module_make_table(vw__plan_run *run, uint64_t rows, uint64_t width); /* a matrix */
vw__tensor vw__module_make_tables(vw__plan_run *run, uint64_t count, uint64_t rows,
                                  uint64_t width); /* `count` of them in one weight */
vw__tensor vw__module_make_weight(vw__plan_run *run, uint64_t elements); /* any other: a vector */
/* No parameter. */
vw__tensor vw__module_make_buffer(vw__plan_run *run, uint64_t elements, vw__dtype dtype);

/* One of two or more dimensions, the last being `width` and the one before `rows`. */
vw__tensor vw__module_make_weight_of(vw__plan_run *run, uint64_t elements, vw__tape_matrix matrix,
                                     vw__dtype dtype, bool is_trained);

/* torch.autocast is on, with this type. */
bool vw__plan_is_autocast(const vw_plan_settings *settings, vw__dtype *dtype);

vw__tensor vw__module_apply_activation(vw__plan_run *run, vw__tensor x);

/* dropout in training, if the model has it there; else the same tensor, held. */
vw__tensor vw__module_apply_dropout(vw__plan_run *run, vw__tensor x, bool has_dropout);

/* Runs `count` blocks one after the other, in scopes "layer 0", "layer 1" ..., with checkpoints as
 * the settings say. `x` is taken over. `layers` is an array of `layer_bytes` each. */
typedef vw__tensor (*vw__module_block)(vw__plan_run *run, const void *layer, vw__tensor x);
vw__tensor vw__module_run_blocks(vw__plan_run *run, vw__module_block block, const void *layers,
                                 size_t layer_bytes, size_t count, vw__tensor x);

/* ---- adapters (module_lora.c) ---------------------------------------------------------------- */

/* Makes lora_A and lora_B beside a frozen weight. */
void vw__module_make_adapter(vw__plan_run *run, vw__module_linear *module);
/* Whether LoRA adapts a layer of that name, by settings.lora_targets. */
bool vw__module_is_lora_target(vw__plan_run *run, const char *name, vw__module_linear_kind kind);
/* Fails the tape if one of the targets is no layer of the model, once that is built. */
void vw__module_check_lora_targets(vw__plan_run *run);
vw__tensor vw__module_apply_adapted(vw__plan_run *run, vw__tensor x,
                                    const vw__module_linear *module);

/* ---- quantized weights (module_packed.c) ------------------------------------------------------
 */

/* As run->quantization says. */
vw__tensor vw__module_make_packed_weight(vw__plan_run *run, uint64_t in, uint64_t out);
vw__tensor vw__module_apply_packed(vw__plan_run *run, vw__tensor x,
                                   const vw__module_linear *module);

/* ---- the ends of a language model (module_head.c) -------------------------------------------- */

/* Token ids (int64) of a batch; what a caller makes of them is his. */
vw__tensor vw__module_make_ids(vw__plan_run *run, uint64_t rows, uint64_t length);

/* The loss of a language model from its last hidden states: head, logits in float32, shifted labels
 * where `is_shifted`, cross-entropy; in chunks as the settings say. Without a loss: the logits.
 * `x` is taken over. */
vw__tensor vw__module_apply_head(vw__plan_run *run, vw__tensor x, const vw__module_linear *head,
                                 uint64_t rows, bool is_shifted);

/* Scores of every token without a loss of its own: the last token's of each sample are classified.
 * `x` is taken over here and below. */
vw__tensor vw__module_classify_last(vw__plan_run *run, vw__tensor x,
                                    const vw__module_linear *scores);
/* The loss of every token's class; without one the scores. */
vw__tensor vw__module_classify_tokens(vw__plan_run *run, vw__tensor x,
                                      const vw__module_linear *scores);
/* Two scores for each token: that an answer begins with it, or ends. */
vw__tensor vw__module_find_answers(vw__plan_run *run, vw__tensor x,
                                   const vw__module_linear *scores);

/* ---- images (module_image.c) ----------------------------------------------------------------- */

typedef struct vw__module_conv {
    vw__tensor weight, bias;
    vw__op_window window;
    uint64_t in, out, groups;
    const char *name;
    bool is_channels_last; /* what it reads */
} vw__module_conv;

vw__tensor vw__module_make_pixels(vw__plan_run *run, uint64_t channels);

vw__module_conv vw__module_make_conv(vw__plan_run *run, const char *name, uint64_t in, uint64_t out,
                                     vw__op_window window, uint64_t groups, bool has_bias);

/* `*shape` of the image becomes that of the result. */
vw__tensor vw__module_apply_conv(vw__plan_run *run, vw__tensor x, const vw__module_conv *module,
                                 vw__op_image_shape *shape);

/* With running statistics, which are buffers. */
typedef struct vw__module_batch_norm {
    vw__tensor weight, bias;
    const char *name;
} vw__module_batch_norm;

vw__module_batch_norm vw__module_make_batch_norm(vw__plan_run *run, const char *name,
                                                 uint64_t channels);
vw__tensor vw__module_apply_batch_norm(vw__plan_run *run, vw__tensor x,
                                       const vw__module_batch_norm *module);

/* The loss of one row of features for each sample; `x` is taken over. The second takes one row in
 * `tokens` of x first. */
vw__tensor vw__module_classify(vw__plan_run *run, vw__tensor x,
                               const vw__module_linear *classifier);
vw__tensor vw__module_apply_classifier(vw__plan_run *run, vw__tensor x,
                                       const vw__module_linear *classifier, uint64_t tokens);

/* ---- recurrent layers (module_rnn.c) --------------------------------------------------------- */

typedef struct vw__module_rnn {
    vw__op_rnn_shape shape;
    vw__tensor *weights; /* in the run's arena */
    size_t weight_count;
    const char *name;
} vw__module_rnn;

vw__module_rnn vw__module_make_rnn(vw__plan_run *run, const char *name,
                                   const vw__op_rnn_shape *shape, bool has_bias);
vw__tensor vw__module_apply_rnn(vw__plan_run *run, vw__tensor x, const vw__module_rnn *module);

/* ---- attention (module_attention.c) ---------------------------------------------------------- */

/* Of `length` tokens to each other, by the heads of the model; one that says no more has as many of
 * keys, and a width that fills the hidden one. Not causal unless the caller says so. */
vw__op_attention_shape vw__module_self_attention(const vw__plan_run *run, uint64_t length);

/* By the settings: SDPA's kernels, or the eager code of transformers. */
vw__tensor vw__module_apply_attention(vw__plan_run *run, vw__tensor query, vw__tensor key,
                                      vw__tensor value, vw__tensor mask,
                                      const vw__op_attention_shape *shape);

/* The mask that eager attention adds: [length, length]; none for the others. */
vw__tensor vw__module_make_causal_mask(vw__plan_run *run, uint64_t length);
/* The same where only the last `window` tokens are seen; SDPA may need one too. */
vw__tensor vw__module_make_window_mask(vw__plan_run *run, uint64_t length, uint64_t window);
/* For code that gives SDPA a mask always. */
vw__tensor vw__module_make_full_mask(vw__plan_run *run, uint64_t length);

/* ---- the run (plan_run.c) -------------------------------------------------------------------- */

typedef enum vw__plan_phase {
    VW__PLAN_PHASE_FORWARD,
    VW__PLAN_PHASE_BACKWARD,
    VW__PLAN_PHASE_STEP,
    VW__PLAN_PHASE_COUNT
} vw__plan_phase;

/* How high memory rose in a run of steps. */
typedef struct vw__plan_peaks {
    vw__tape_peak peak; /* of the last step */
    vw__plan_phase phase;
    vw__tape_peak phase_peaks[VW__PLAN_PHASE_COUNT]; /* live_bytes 0: there was no such phase */
    uint64_t first_step_bytes;
    uint64_t after_forward_bytes, after_backward_bytes, after_step_bytes;
    uint64_t weights_bytes;
    uint64_t parameters, trained_parameters;
    uint64_t pageable_bytes; /* outside of PyTorch's allocator: on the device while there is room */
    bool is_generation;      /* the peak is in the making of tokens after the prompt */
    vw__module_names adapted; /* by LoRA */
} vw__plan_peaks;

/* True if one of the place's scopes has that name. */
bool vw__plan_is_inside(const vw__tape *tape, uint32_t place, const char *name);

/* Runs two steps (the second has what the first left behind), or one forward pass, or one
 * generation. The settings must have been checked (plan_settings.h). `listener` may be NULL. With
 * `places`, the caller gets the tape, which has the places that the listener saw. */
VW_MUST_CHECK vw_status vw__plan_simulate(const vw_plan_model *model,
                                          const vw_plan_settings *settings,
                                          const vw__tape_listener *listener, vw__plan_peaks *out,
                                          vw__tape **places);

/* The same with `steps` steps, or forward passes; at least 1. */
VW_MUST_CHECK vw_status vw__plan_simulate_steps(const vw_plan_model *model,
                                                const vw_plan_settings *settings, unsigned steps,
                                                const vw__tape_listener *listener,
                                                vw__plan_peaks *out, vw__tape **places);

/* True if the optimizer steps on the CPU, or weights come and go. Spilled state does not count: the
 * program still finds it at its address. */
static inline bool vw__plan_is_offloaded(const vw_plan_settings *settings)
{
    return settings->offload == VW_OFFLOAD_OPTIMIZER || settings->offload == VW_OFFLOAD_WEIGHTS;
}

/* Runs the last step alone, in half the time: the optimizer's state exists before it begins.
 * first_step_bytes is that of this step. */
VW_MUST_CHECK vw_status vw__plan_estimate(const vw_plan_model *model,
                                          const vw_plan_settings *settings, vw__plan_peaks *out);

/* ---- optimizers (optimizer.c) ---------------------------------------------------------------- */

/* One tensor that an optimizer changes: a parameter, its float32 copy, or this GPU's part of it. */
typedef struct vw__plan_stepped {
    uint64_t elements;
    vw__tape_matrix matrix; /* 0 and 0: a vector */
    vw__dtype dtype;
} vw__plan_stepped;

typedef struct vw__plan_optimizer {
    vw__plan_stepped *items; /* in the run's arena */
    size_t count;
    bool has_state;
    bool is_elsewhere;  /* its state and its step are the CPU's */
    bool is_one_by_one; /* items are stepped one after the other, not as a list */
} vw__plan_optimizer;

/* Lists what it changes, and makes copies in float32 where the settings want them. */
void vw__plan_optimizer_create(vw__plan_run *run, vw__plan_optimizer *optimizer);
/* Takes what one step needs; the first one makes the state. */
void vw__plan_optimizer_step(vw__plan_run *run, vw__plan_optimizer *optimizer);
/* Makes the state, as a step would. Idempotent. */
void vw__plan_optimizer_settle(vw__plan_run *run, vw__plan_optimizer *optimizer);

/* One forward pass, under autocast where the settings say so (plan_run.c). */
vw__tensor vw__plan_run_forward(vw__plan_run *run);

/* ---- generation (generate.c) ----------------------------------------------------------------- */

/* model.generate(): the prompt, then tokens one by one with a key/value cache. */
void vw__plan_generate(vw__plan_run *run);
/* DynamicCache.update(): what is cached and what is new, together; held by the caller. */
vw__tensor vw__plan_cache_keys(vw__plan_run *run, vw__tensor keys,
                               const vw__op_attention_shape *shape);
bool vw__plan_is_generating(const vw__plan_run *run);
/* Tokens of a sample that are in the cache already. */
uint64_t vw__plan_tokens_before(const vw__plan_run *run);

#endif /* VW_PLAN_PLAN_RUN_H */
