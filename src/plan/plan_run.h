/* plan_run.h - a model that runs on a tape, and the modules model code is made of. */
#ifndef HR_PLAN_PLAN_RUN_H
#define HR_PLAN_PLAN_RUN_H

#include "headroom/plan.h"
#include "base/arena.h"
#include "plan/op.h"
#include "plan/op_image.h"
#include "plan/plan_model.h"
#include "plan/tape.h"

typedef struct hr__sharding hr__sharding;
typedef struct hr__key_cache hr__key_cache;

/* One weight that was made, in the order of making. */
typedef struct hr__weight {
    hr__tensor full;  /* as modules know it */
    hr__tensor shard; /* what this GPU keeps of it, where that is less, or of another type */
    uint32_t group;   /* 0: the root's; n: of the n-th block */
    uint32_t next;    /* of the same group, or UINT32_MAX */
} hr__weight;

struct hr__plan_run {
    const hr_plan_model *model;
    const hr_plan_settings *settings;
    hr__tape *tape;
    hr__arena arena;         /* of the modules */
    void *modules;           /* the family's own */
    hr__dtype dtype;         /* of weights */
    hr__dtype compute_dtype; /* of products with quantized weights */
    bool is_training;        /* module.train(): dropout is on */
    bool is_settled;         /* the optimizer has its state before the first step */
    bool has_gradients;      /* of an earlier batch of the same step */
    bool has_loss;           /* labels are given; else the logits are the result */
    uint64_t parameters, trained_parameters;

    hr__weight *weights; /* in the arena */
    size_t weight_count, weight_capacity;
    size_t block_count;      /* that ran in this forward pass */
    hr__sharding *sharding;  /* sharding.h; NULL: every weight is here, always */
    hr__key_cache *keys;     /* generate.c; NULL: nothing is generated */
    uint64_t pageable_bytes; /* outside of PyTorch's allocator: on the device while there is room */
};

/* Zeroed memory that lives as long as the run; on failure the tape fails and the answer is a place
 * that may be written to and has no meaning: model code goes on. */
void *hr__run_alloc(hr__plan_run *run, size_t count, size_t item_bytes);

/* ---- modules (module.c) ---------------------------------------------------------------------- */

typedef enum hr__linear_kind {
    HR__LINEAR_PLAIN,
    HR__LINEAR_ADAPTED, /* LoRA's usual targets in this family */
    HR__LINEAR_HEAD,    /* never quantized, never adapted */
} hr__linear_kind;

typedef struct hr__linear_module {
    hr__linear_weights weights;
    hr__linear_weights lora_a, lora_b; /* of an adapted one, with LoRA */
    const char *name;
    bool is_adapted;   /* has an adapter: lora_a, lora_b */
    bool is_quantized; /* weights.weight is packed, two values in a byte */
} hr__linear_module;

/* `name` as in the model: "q_proj". */
hr__linear_module hr__make_linear(hr__plan_run *run, const char *name, uint64_t in, uint64_t out,
                                  bool has_bias, hr__linear_kind kind);
/* A head whose weight is the embedding's. */
hr__linear_module hr__tied_head(hr__plan_run *run, hr__tensor table, uint64_t in, uint64_t out);
hr__tensor hr__apply_linear(hr__plan_run *run, hr__tensor x, const hr__linear_module *module);

/* A weight and a bias, or only a weight. */
typedef struct hr__norm_module {
    hr__tensor weight, bias;
    uint64_t width;
    const char *name;
} hr__norm_module;

hr__norm_module hr__make_norm(hr__plan_run *run, const char *name, uint64_t width, bool has_bias);
hr__tensor hr__apply_layer_norm(hr__plan_run *run, hr__tensor x, const hr__norm_module *module);
/* As the model has it: Llama's, or Gemma's. */
hr__tensor hr__apply_rms_norm(hr__plan_run *run, hr__tensor x, const hr__norm_module *module);
hr__tensor hr__apply_t5_norm(hr__plan_run *run, hr__tensor x, const hr__norm_module *module);

hr__tensor hr__make_table(hr__plan_run *run, uint64_t rows, uint64_t width); /* a matrix */
hr__tensor hr__make_tables(hr__plan_run *run, uint64_t count, uint64_t rows,
                           uint64_t width); /* `count` of them in one weight */
hr__tensor hr__make_weight(hr__plan_run *run, uint64_t elements); /* any other: a vector */

/* One of two or more dimensions, the last being `width` and the one before `rows`. */
hr__tensor hr__make_weight_of(hr__plan_run *run, uint64_t elements, hr__matrix matrix,
                              hr__dtype dtype, bool is_trained);

/* torch.autocast is on, with this type. */
bool hr__is_autocast(const hr_plan_settings *settings, hr__dtype *dtype);

hr__tensor hr__apply_activation(hr__plan_run *run, hr__tensor x);

/* dropout in training, if the model has it there; else the same tensor, held. */
hr__tensor hr__apply_dropout(hr__plan_run *run, hr__tensor x, bool has_dropout);

/* Without a gate: dropout(outer(activation(inner(x)))), in the scope "mlp". The caller holds x all
 * the while. */
hr__tensor hr__apply_mlp(hr__plan_run *run, hr__tensor x, const hr__linear_module *inner,
                         const hr__linear_module *outer, bool has_dropout);

/* Runs `count` blocks one after the other, in scopes "layer 0", "layer 1" ..., with checkpoints as
 * the settings say. `x` is taken over. `layers` is an array of `layer_bytes` each. */
typedef hr__tensor (*hr__block)(hr__plan_run *run, const void *layer, hr__tensor x);
hr__tensor hr__run_blocks(hr__plan_run *run, hr__block block, const void *layers,
                          size_t layer_bytes, size_t count, hr__tensor x);

/* ---- adapters (module_lora.c) ---------------------------------------------------------------- */

/* Makes lora_A and lora_B beside a frozen weight. */
void hr__make_adapter(hr__plan_run *run, hr__linear_module *module);
/* The frozen weight in 4 bits: NF4, its scales quantized once more. */
hr__tensor hr__make_packed_weight(hr__plan_run *run, uint64_t in, uint64_t out);
hr__tensor hr__apply_adapted(hr__plan_run *run, hr__tensor x, const hr__linear_module *module);
hr__tensor hr__apply_packed(hr__plan_run *run, hr__tensor x, const hr__linear_module *module);

/* ---- the ends of a language model (module_head.c) -------------------------------------------- */

/* Token ids (int64) of a batch; what a caller makes of them is his. */
hr__tensor hr__make_ids(hr__plan_run *run, uint64_t rows, uint64_t length);

/* The loss of a language model from its last hidden states: head, logits in float32, shifted labels
 * where `is_shifted`, cross-entropy; in chunks as the settings say. Without a loss: the logits.
 * `x` is taken over. */
hr__tensor hr__apply_head(hr__plan_run *run, hr__tensor x, const hr__linear_module *head,
                          uint64_t rows, bool is_shifted);

/* ---- images (module_image.c) ----------------------------------------------------------------- */

typedef struct hr__conv_module {
    hr__tensor weight, bias;
    hr__window window;
    uint64_t in, out, groups;
    const char *name;
} hr__conv_module;

hr__tensor hr__make_pixels(hr__plan_run *run, uint64_t channels);

/* Padded to keep an image's size, unless stride and kernel are the same; or with a window as given.
 */
hr__conv_module hr__make_conv(hr__plan_run *run, const char *name, uint64_t in, uint64_t out,
                              uint64_t kernel, uint64_t stride, bool has_bias);
hr__conv_module hr__make_conv2d(hr__plan_run *run, const char *name, uint64_t in, uint64_t out,
                                hr__window window, uint64_t groups, bool has_bias);

/* Of a square image; of an image of any shape, which becomes that of the result. */
hr__tensor hr__apply_conv(hr__plan_run *run, hr__tensor x, const hr__conv_module *module,
                          uint64_t image);
hr__tensor hr__apply_conv2d(hr__plan_run *run, hr__tensor x, const hr__conv_module *module,
                            hr__image_shape *shape);

/* With running statistics, which are buffers. */
typedef struct hr__batch_norm_module {
    hr__tensor weight, bias;
    const char *name;
} hr__batch_norm_module;

hr__batch_norm_module hr__make_batch_norm(hr__plan_run *run, const char *name, uint64_t channels);
hr__tensor hr__apply_batch_norm(hr__plan_run *run, hr__tensor x,
                                const hr__batch_norm_module *module);

/* The loss of one row of features for each sample; `x` is taken over. The second takes one row in
 * `tokens` of x first. */
hr__tensor hr__classify(hr__plan_run *run, hr__tensor x, const hr__linear_module *classifier);
hr__tensor hr__apply_classifier(hr__plan_run *run, hr__tensor x,
                                const hr__linear_module *classifier, uint64_t tokens);

/* ---- attention (module_attention.c) ---------------------------------------------------------- */

/* Of `length` tokens to each other, by the heads of the model; one that says no more has as many of
 * keys, and a width that fills the hidden one. Not causal unless the caller says so. */
hr__attention_shape hr__self_attention(const hr__plan_run *run, uint64_t length);

/* By the settings: SDPA's kernels, or the eager code of transformers. */
hr__tensor hr__apply_attention(hr__plan_run *run, hr__tensor query, hr__tensor key,
                               hr__tensor value, hr__tensor mask, const hr__attention_shape *shape);

/* The mask that eager attention adds: [length, length]; none for the others. */
hr__tensor hr__make_causal_mask(hr__plan_run *run, uint64_t length);
/* The same where only the last `window` tokens are seen; SDPA may need one too. */
hr__tensor hr__make_window_mask(hr__plan_run *run, uint64_t length, uint64_t window);

/* ---- the run (plan_run.c) -------------------------------------------------------------------- */

typedef enum hr__phase {
    HR__PHASE_FORWARD,
    HR__PHASE_BACKWARD,
    HR__PHASE_STEP,
    HR__PHASE_COUNT
} hr__phase;

/* What a run of steps came to. */
typedef struct hr__plan_peaks {
    hr__tape_peak peak; /* of the last step */
    hr__phase phase;
    hr__tape_peak phase_peaks[HR__PHASE_COUNT]; /* live_bytes 0: none */
    uint64_t first_step_bytes;
    uint64_t after_forward_bytes, after_backward_bytes, after_step_bytes;
    uint64_t weights_bytes;
    uint64_t parameters, trained_parameters;
    uint64_t pageable_bytes; /* outside of PyTorch's allocator: on the device while there is room */
    bool is_generation;      /* the peak is in the making of tokens after the prompt */
} hr__plan_peaks;

/* Two steps (the second has what the first left behind), or one forward pass, or one generation.
 * The settings must have been checked (settings_check.c). `listener` may be NULL. With `places`,
 * the tape is handed over and not destroyed: the listener's places are in it. */
HR_MUST_CHECK hr_status hr__plan_simulate(const hr_plan_model *model,
                                          const hr_plan_settings *settings,
                                          const hr__tape_listener *listener, hr__plan_peaks *out,
                                          hr__tape **places);

/* The same with `steps` of them, or forward passes; at least 1. */
HR_MUST_CHECK hr_status hr__plan_simulate_steps(const hr_plan_model *model,
                                                const hr_plan_settings *settings, unsigned steps,
                                                const hr__tape_listener *listener,
                                                hr__plan_peaks *out, hr__tape **places);

/* Is the optimizer's step not the GPU's, or do weights come and go? What is spilled stays where it
 * is, for the program. */
static inline bool hr__is_offloaded(const hr_plan_settings *settings)
{
    return settings->offload == HR_OFFLOAD_OPTIMIZER || settings->offload == HR_OFFLOAD_WEIGHTS;
}

/* The last step alone, in half the time: the optimizer's state is there before it begins. What is
 * known of the first step (first_step_bytes) is then that of this one. */
HR_MUST_CHECK hr_status hr__plan_estimate(const hr_plan_model *model,
                                          const hr_plan_settings *settings, hr__plan_peaks *out);

/* ---- optimizers (optimizer.c) ---------------------------------------------------------------- */

/* One tensor that an optimizer changes: a parameter, its float32 copy, or this GPU's part of it. */
typedef struct hr__stepped {
    uint64_t elements;
    hr__matrix matrix; /* 0 and 0: a vector */
    hr__dtype dtype;
} hr__stepped;

typedef struct hr__optimizer {
    hr__stepped *items; /* in the run's arena */
    size_t count;
    bool has_state;
    bool is_elsewhere;  /* its state and its step are the CPU's */
    bool is_one_by_one; /* items are stepped one after the other, not as a list */
} hr__optimizer;

/* Before the first step: what it changes, and copies in float32 where the settings want them. */
void hr__optimizer_create(hr__plan_run *run, hr__optimizer *optimizer);
/* Makes the state in the first call, and takes what one step needs in each. */
void hr__optimizer_step(hr__plan_run *run, hr__optimizer *optimizer);

/* optimizer_state.c: what stays. */
void hr__make_optimizer_state(hr__plan_run *run, const hr__optimizer *optimizer);

/* One forward pass, under autocast where the settings say so (plan_run.c). */
hr__tensor hr__run_forward(hr__plan_run *run);

/* ---- generation (generate.c) ----------------------------------------------------------------- */

/* model.generate(): the prompt, then tokens one by one with a key/value cache. */
void hr__generate(hr__plan_run *run);
/* DynamicCache.update(): what is cached and what is new, together; held by the caller. */
hr__tensor hr__cache_keys(hr__plan_run *run, hr__tensor keys, const hr__attention_shape *shape);
bool hr__is_generating(const hr__plan_run *run);
/* Tokens of a sample that are in the cache already. */
uint64_t hr__tokens_before(const hr__plan_run *run);

#endif /* HR_PLAN_PLAN_RUN_H */
