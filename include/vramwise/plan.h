/* plan.h - predicts the memory of a training run before it runs, and finds changes that make it
 * fit.
 *
 * A plan runs one step of a model, tensor by tensor, as PyTorch would, with sizes in place of
 * values. Its peaks are therefore those of PyTorch's max_memory_allocated(); reserved memory comes
 * from replaying the allocations through the allocators.
 *
 * Results are owned by the library: read-only, freed with vw_plan_free(). Unknown values are
 * VW_UNKNOWN, never a guess.
 *
 * Link with -lvramwise-analysis. Reading order: vw_plan_settings_init(), vw_plan_model_open(),
 * vw_plan_make(). */
#ifndef VRAMWISE_PLAN_H
#define VRAMWISE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "vramwise/doctor.h" /* vw_part */
#include "vramwise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings -------------------------------------------------------------------------------- */

/* Names are those of the command line and of JSON. */
#define VW_PRECISION_LIST(X)                                                                       \
    X(FP32, "fp32")                                                                                \
    X(TF32, "tf32")         /* float32 in memory */                                                \
    X(AMP_BF16, "amp-bf16") /* torch.autocast over float32 weights */                              \
    X(AMP_FP16, "amp-fp16")                                                                        \
    X(BF16, "bf16") /* weights, gradients and states in it */                                      \
    X(FP16, "fp16")                                                                                \
    X(AUTO, "auto") /* inference: torch_dtype of the model's file; QLoRA: autocast; else fp32 */

#define VW_OPTIMIZER_LIST(X)                                                                       \
    X(SGD, "sgd")                                                                                  \
    X(SGD_MOMENTUM, "sgd-m")                                                                       \
    X(ADAMW, "adamw") /* foreach, PyTorch's default on a GPU */                                    \
    X(ADAMW_FUSED, "adamw-fused")                                                                  \
    X(ADAMW_LOOP, "adamw-loop") /* foreach=False */                                                \
    X(ADAFACTOR, "adafactor")   /* torch.optim.Adafactor */                                        \
    X(ADAM_8BIT, "adam8bit")    /* bitsandbytes */                                                 \
    X(PAGED_ADAM_8BIT, "paged-adam8bit")                                                           \
    X(LION, "lion")     /* lion-pytorch */                                                         \
    X(MUON, "muon")     /* torch.optim.Muon, and AdamW for what is no inner matrix */              \
    X(GALORE, "galore") /* GaLoreAdamW of rank 128 */                                              \
    X(APOLLO, "apollo") /* APOLLOAdamW of rank 128 */

#define VW_CHECKPOINTING_LIST(X)                                                                   \
    X(NONE, "none")                                                                                \
    X(FULL, "full")           /* every block */                                                    \
    X(EVERY, "every")         /* every `checkpoint_every`-th block */                              \
    X(SELECTIVE, "selective") /* what is cheap to recompute: norms and activation functions */

#define VW_ATTENTION_LIST(X)                                                                       \
    X(SDPA, "sdpa") /* PyTorch chooses the kernel */                                               \
    X(EAGER, "eager")                                                                              \
    X(FLASH, "flash") /* the flash-attn package */

#define VW_OFFLOAD_LIST(X)                                                                         \
    X(NONE, "none")                                                                                \
    X(OPTIMIZER, "optimizer") /* optimizer state and step on the CPU */                            \
    X(WEIGHTS, "weights")     /* a block's weights are on the GPU only while it runs */            \
    X(SPILL, "spill")         /* optimizer state in host memory as far as the card is full, the    \
                                 step on the GPU (vw_pool_options.spill_bytes) */

#define VW_SHARDING_LIST(X)                                                                        \
    X(NONE, "none") /* with several GPUs: DistributedDataParallel */                               \
    X(ZERO_1, "zero1")                                                                             \
    X(ZERO_2, "zero2")                                                                             \
    X(ZERO_3, "zero3")                                                                             \
    X(FSDP, "fsdp") /* FSDP2, fully_shard() on every block */

#define VW_PLAN_MODE_LIST(X)                                                                       \
    X(TRAIN, "train")                                                                              \
    X(INFERENCE, "inference")   /* under inference_mode() */                                       \
    X(KEEP_GRAPH, "keep-graph") /* evaluation without inference_mode(): the graph is kept */

/* How keys and values lie in generation's cache. */
#define VW_KV_DTYPE_LIST(X)                                                                        \
    X(AUTO, "auto") /* as they are computed */                                                     \
    X(BF16, "bf16")                                                                                \
    X(FP16, "fp16")                                                                                \
    X(FP8, "fp8")                                                                                  \
    X(INT8, "int8") /* with a scale and a zero for each 64 */                                      \
    X(INT4, "int4")

/* What a model's last hidden states go through: which class of transformers it is. */
#define VW_PLAN_HEAD_LIST(X)                                                                       \
    X(AUTO, "auto") /* as the model's file says, or the usual one */                               \
    X(CAUSAL_LM, "causal-lm")                                                                      \
    X(MASKED_LM, "masked-lm")                                                                      \
    X(SEQ2SEQ_LM, "seq2seq-lm") /* of an encoder-decoder */                                        \
    X(SEQUENCE_CLASSIFICATION, "sequence-classification")                                          \
    X(TOKEN_CLASSIFICATION, "token-classification")                                                \
    X(QUESTION_ANSWERING, "question-answering")                                                    \
    X(IMAGE_CLASSIFICATION, "image-classification")                                                \
    X(ENCODER, "encoder") /* the encoder of an encoder-decoder, without a head */                  \
    X(NONE, "none")       /* hidden states, as for embeddings */

#define VW_PRECISION_ENUM(upper, text) VW_PRECISION_##upper,
typedef enum vw_precision { VW_PRECISION_LIST(VW_PRECISION_ENUM) VW_PRECISION_COUNT } vw_precision;
#undef VW_PRECISION_ENUM
#define VW_OPTIMIZER_ENUM(upper, text) VW_OPTIMIZER_##upper,
typedef enum vw_optimizer { VW_OPTIMIZER_LIST(VW_OPTIMIZER_ENUM) VW_OPTIMIZER_COUNT } vw_optimizer;
#undef VW_OPTIMIZER_ENUM
#define VW_CHECKPOINTING_ENUM(upper, text) VW_CHECKPOINTING_##upper,
typedef enum vw_checkpointing {
    VW_CHECKPOINTING_LIST(VW_CHECKPOINTING_ENUM) VW_CHECKPOINTING_COUNT
} vw_checkpointing;
#undef VW_CHECKPOINTING_ENUM
#define VW_ATTENTION_ENUM(upper, text) VW_ATTENTION_##upper,
typedef enum vw_attention { VW_ATTENTION_LIST(VW_ATTENTION_ENUM) VW_ATTENTION_COUNT } vw_attention;
#undef VW_ATTENTION_ENUM
#define VW_OFFLOAD_ENUM(upper, text) VW_OFFLOAD_##upper,
typedef enum vw_offload { VW_OFFLOAD_LIST(VW_OFFLOAD_ENUM) VW_OFFLOAD_COUNT } vw_offload;
#undef VW_OFFLOAD_ENUM
#define VW_SHARDING_ENUM(upper, text) VW_SHARDING_##upper,
typedef enum vw_sharding { VW_SHARDING_LIST(VW_SHARDING_ENUM) VW_SHARDING_COUNT } vw_sharding;
#undef VW_SHARDING_ENUM
#define VW_PLAN_HEAD_ENUM(upper, text) VW_PLAN_HEAD_##upper,
typedef enum vw_plan_head { VW_PLAN_HEAD_LIST(VW_PLAN_HEAD_ENUM) VW_PLAN_HEAD_COUNT } vw_plan_head;
#undef VW_PLAN_HEAD_ENUM
#define VW_KV_DTYPE_ENUM(upper, text) VW_KV_DTYPE_##upper,
typedef enum vw_kv_dtype { VW_KV_DTYPE_LIST(VW_KV_DTYPE_ENUM) VW_KV_DTYPE_COUNT } vw_kv_dtype;
#undef VW_KV_DTYPE_ENUM
#define VW_PLAN_MODE_ENUM(upper, text) VW_PLAN_MODE_##upper,
typedef enum vw_plan_mode { VW_PLAN_MODE_LIST(VW_PLAN_MODE_ENUM) VW_PLAN_MODE_COUNT } vw_plan_mode;
#undef VW_PLAN_MODE_ENUM

/* One way to run a model. */
typedef struct vw_plan_settings {
    size_t struct_size; /* sizeof(vw_plan_settings) */
    vw_plan_mode mode;
    uint64_t batch;    /* samples per micro-batch, on one GPU */
    uint64_t sequence; /* tokens per sample; of an encoder-decoder, on either side */
    uint64_t image;    /* height and width in pixels, for image models */
    uint64_t accumulation;
    uint64_t generate; /* tokens after a prompt of `sequence`; 0 = none. INFERENCE only */
    bool without_loss; /* INFERENCE: without labels; the result is the logits */
    vw_precision precision;
    bool has_master_weights; /* BF16, FP16: the optimizer keeps float32 copies */
    vw_optimizer optimizer;
    vw_offload offload;
    vw_checkpointing checkpointing;
    uint64_t checkpoint_every; /* with EVERY */
    vw_attention attention;
    uint64_t loss_chunks; /* 0, 1: the loss in one piece */
    uint64_t lora_rank;   /* 0 = all weights are trained */
    bool is_quantized;    /* QLoRA: the frozen weights in 4 bits */
    uint64_t gpus;        /* each runs a micro-batch */
    vw_sharding sharding;
    uint64_t card_bytes;      /* 0 = unknown */
    const char *card_name;    /* "h200", from vw_plan_card(); NULL */
    vw_plan_head head;        /* AUTO: the model's */
    vw_kv_dtype kv_dtype;     /* of the cache, with `generate` */
    bool has_static_cache;    /* made for all tokens at once (StaticCache); else it grows */
    const char *lora_targets; /* "all-linear", or modules as "q_proj,v_proj"; NULL: PEFT's usual */
    bool has_fused_loss;      /* head and loss in one kernel, without all logits (Liger's) */
    uint64_t padding; /* samples are padded to a multiple of so many tokens, and a mask comes
                         with them; 1: to the longest; 0: no padding */
} vw_plan_settings;

/* Sets the defaults: training with AdamW, precision AUTO (float32 in training), SDPA attention, one
 * GPU, batch 1, and the model's own sequence length. */
VW_API void vw_plan_settings_init(vw_plan_settings *settings);

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct vw_plan_model vw_plan_model; /* opaque */

/* A built-in name ("gpt2", "llama-3-8b", "resnet50"), a config.json of transformers, a folder that
 * holds one, a description of layers in JSON (vramwise-plan(1)), or a name of huggingface.co
 * ("meta-llama/Llama-3.1-8B"): a snapshot in its cache, or else the built-in model of that name;
 * "-" is standard input. Of a model of several parts the text part is planned.
 *
 * VW_ERR_FILE          neither a known name nor a file; the message says which file to fetch
 * VW_ERR_CORRUPT_FILE  not JSON, or not a model; the message has what was expected and found
 * VW_ERR_UNSUPPORTED   an unknown architecture, or unreasonable values; the message names them
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_plan_model_open(const char *name_or_path, vw_plan_model **out);
VW_API void vw_plan_model_close(vw_plan_model *model); /* NULL does nothing */

/* The built-in models, by number from 0; NULL after the last. */
typedef struct vw_plan_known_model {
    const char *name;   /* "llama-3-8b" */
    const char *family; /* "llama" */
    uint64_t parameters;
} vw_plan_known_model;
VW_API const vw_plan_known_model *vw_plan_known(size_t number);

/* The built-in model of a name: its own, or the one that it is published under, whatever the
 * organisation. NULL: none. Opens no file. */
VW_API const vw_plan_known_model *vw_plan_known_find(const char *name);

typedef struct vw_plan_card_info {
    const char *name;            /* "rtx4090" */
    uint64_t total_bytes;        /* as the driver reports it */
    bool has_large_workspace;    /* cuBLAS: 32 MiB instead of 8 (compute capability 9 and later) */
    unsigned compute_capability; /* 75 of a T4, 90 of an H100 */
} vw_plan_card_info;
/* Ignores case, spaces, hyphens, underscores and the maker: "NVIDIA A100-SXM4-80GB", as the driver
 * writes it, is "a100-80g". NULL: unknown. */
VW_API const vw_plan_card_info *vw_plan_card(const char *name);
VW_API const vw_plan_card_info *vw_plan_card_number(size_t number); /* NULL after the last */

/* What CUDA's context takes of a card, outside PyTorch: a rule of thumb, as plans have it. */
VW_API uint64_t vw_plan_card_context_bytes(void);

/* Reads a card's name or its size ("24GiB"), as every `--card` takes them. `*card` is NULL for a
 * size. VW_ERR_INVALID_ARGUMENT: neither; the message has the nearest name. */
VW_API VW_MUST_CHECK vw_status vw_plan_card_read(const char *text, uint64_t *total_bytes,
                                                 const vw_plan_card_info **card);

/* ---- plans ----------------------------------------------------------------------------------- */

/* Whether it fits on the card with the allocator that people have: PyTorch's, with its defaults. */
#define VW_PLAN_VERDICT_LIST(X)                                                                    \
    X(NO_CARD, "no-card")                                                                          \
    X(FITS, "fits")                                                                                \
    X(BARELY, "barely")                   /* by giving unused memory back and asking again */      \
    X(OTHER_ALLOCATOR, "other-allocator") /* not with PyTorch's defaults: see fitting_policy */    \
    X(TOO_CLOSE, "too-close")             /* what is left is less than the prediction's error */   \
    X(DOES_NOT_FIT, "does-not-fit")
#define VW_PLAN_VERDICT_ENUM(upper, text) VW_PLAN_VERDICT_##upper,
typedef enum vw_plan_verdict {
    VW_PLAN_VERDICT_LIST(VW_PLAN_VERDICT_ENUM) VW_PLAN_VERDICT_COUNT
} vw_plan_verdict;
#undef VW_PLAN_VERDICT_ENUM

/* One way to make it fit, or to use less. */
typedef struct vw_plan_choice {
    const char *const *changes; /* "micro-batch 2 with 4 accumulated", "checkpointing" */
    size_t change_count;
    vw_plan_settings settings;
    uint64_t peak_allocated_bytes;
    uint64_t peak_device_bytes;
    double slowdown;            /* expected time of a step, relative to the plan's */
    const char *const *costs;   /* a sentence per change */
    const char *const *code;    /* PyTorch code per change, some lines */
    const char *const *sources; /* source of the slowdown, per change */
    bool fits;
} vw_plan_choice;

typedef struct vw_plan {
    const char *model;   /* as the caller named it */
    const char *family;  /* "gpt2", "llama", ... */
    const char *caution; /* what to know before the numbers are read; NULL: nothing */
    uint64_t parameters, trained_parameters;
    vw_plan_settings settings;   /* the plan owns its strings */
    bool has_own_precision;      /* neither given nor the default: the basis is worth saying */
    const char *precision_basis; /* why that precision: "given", "torch_dtype of the file", ... */
    const char *quantization;    /* of the frozen weights: "awq, 4 bits"; NULL: none */
    const char *lora_modules;    /* that LoRA adapts: "q_proj, v_proj"; NULL without it */

    uint64_t peak_allocated_bytes; /* of a step after the first: max_memory_allocated() */
    uint64_t peak_device_bytes;    /* the process on the card: reserved, context and resident_bytes;
                                      at most the card's size if it fits */
    const char *peak_phase; /* "forward", "loss", "backward", "recomputation", "optimizer step",
                               "generation" */
    const char *peak_place; /* "layer 7 / attention / q_proj" */
    const vw_part *parts;   /* at the peak: weights, gradients, optimizer, activations, loss,
                               backward, workspace, data, rounding (unused ends of blocks that are
                               too small to split off); sum: peak_allocated_bytes */
    size_t part_count;
    const vw_part *layer_parts; /* activations at the end of the forward pass, by kind of layer */
    size_t layer_part_count;
    uint64_t phase_peaks[3]; /* forward, backward, optimizer step; VW_UNKNOWN = no such phase */
    uint64_t first_step_peak_bytes;
    uint64_t after_forward_bytes, after_backward_bytes, after_step_bytes;
    uint64_t context_bytes;     /* CUDA's and NCCL's own memory, outside PyTorch; a rule of thumb */
    uint64_t pageable_bytes;    /* paged optimizer state, in unified memory: not in PyTorch's peaks;
                                   moves to the host if there is no room */
    uint64_t resident_bytes;    /* the part of pageable_bytes that has room on the card */
    uint64_t reserved_bytes[3]; /* by replay: native, expandable, vramwise; VW_UNKNOWN */

    bool has_error_band;          /* there are measured cases for the family and the settings */
    double error_low, error_high; /* lowest and highest predicted / measured - 1 */
    const char *error_basis;      /* which cases */

    bool is_card_known;
    vw_plan_verdict verdict;
    const char *fitting_policy;    /* OTHER_ALLOCATOR: "expandable", "vramwise"; else NULL */
    bool fits;                     /* FITS or BARELY: even with the largest measured error */
    int64_t margin_bytes;          /* left on the card; negative: missing */
    uint64_t largest_batch;        /* micro-batch that fits with these settings; 0: none */
    const vw_plan_choice *choices; /* cheapest first */
    size_t choice_count;
    const char *const *notes; /* what the plan assumes or does not cover */
    size_t note_count;
} vw_plan;

typedef struct vw_plan_options {
    size_t struct_size;
    bool without_replay;  /* reserved_bytes is VW_UNKNOWN */
    bool without_choices; /* no search */
} vw_plan_options;

/* VW_ERR_INVALID_ARGUMENT  settings that contradict each other or do not apply to the model; the
 *                          message names them
 * VW_ERR_UNSUPPORTED       more memory than an address space
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_plan_make(const vw_plan_model *model,
                                            const vw_plan_settings *settings,
                                            const vw_plan_options *options, vw_plan **out);
VW_API void vw_plan_free(vw_plan *plan); /* NULL does nothing */

/* The planned step as a recording, for everything in analysis.h, doctor.h and view.h: three steps
 * (or forward passes) from the first allocation on, with the defaults of PyTorch's allocator, and
 * with stacks such as "layer 7 / attention / q_proj forward". Times are made up. Equal plans give
 * equal recordings. `settings` as in vw_plan_make(). Close it with vw_recording_close().
 *
 * VW_ERR_INVALID_ARGUMENT  as vw_plan_make()
 * VW_ERR_UNSUPPORTED       more memory than an address space, or some millions of requests
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_plan_record(const vw_plan_model *model,
                                              const vw_plan_settings *settings, vw_recording **out);

/* The same as a file: a PyTorch memory snapshot, as torch.cuda.memory._dump_snapshot() writes it.
 * The file appears under its name when it is complete. VW_ERR_FILE: it cannot be written. */
VW_API VW_MUST_CHECK vw_status vw_plan_write_recording(const vw_plan_model *model,
                                                       const vw_plan_settings *settings,
                                                       const char *path);

/* Live bytes over the last of those steps, for a picture: divides its requests and frees into
 * `point_count` equal stretches, and stores the highest live bytes of each in `points`. The peak is
 * always among them. Errors as in vw_plan_record(); VW_ERR_INVALID_ARGUMENT also for 0 points. */
VW_API VW_MUST_CHECK vw_status vw_plan_live_line(const vw_plan_model *model,
                                                 const vw_plan_settings *settings, uint64_t *points,
                                                 size_t point_count);

/* One change of settings that makes a step take less. */
typedef struct vw_plan_change {
    const char *name; /* "full checkpointing" */
    const char *cost; /* time, accuracy, packages: one line */
    const char *code; /* PyTorch code, some lines */
} vw_plan_change;

typedef struct vw_plan_changes {
    const vw_plan_change *changes;
    size_t count;
} vw_plan_changes;

/* The changes that lead from one group of settings to another, in the words of a plan's choices. A
 * change of mode is left out. Free with vw_plan_changes_free().
 *
 * VW_ERR_INVALID_ARGUMENT  as vw_plan_make()
 * VW_ERR_UNSUPPORTED       a change that does not save memory; the message names it
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_plan_changes_make(const vw_plan_model *model,
                                                    const vw_plan_settings *from,
                                                    const vw_plan_settings *to,
                                                    vw_plan_changes **out);
VW_API void vw_plan_changes_free(vw_plan_changes *changes); /* NULL does nothing */

/* ---- from a recording ------------------------------------------------------------------------ */

/* How the size of a block depends on the batch and on the length of its samples. */
#define VW_PLAN_LAW_LIST(X)                                                                        \
    X(CONSTANT, "constant")                                                                        \
    X(BATCH, "batch")                                                                              \
    X(LENGTH, "length")                                                                            \
    X(BATCH_LENGTH, "batch x length")                                                              \
    X(LENGTH_SQUARE, "length^2")                                                                   \
    X(BATCH_LENGTH_SQUARE, "batch x length^2")

typedef enum vw_plan_law {
#define VW_PLAN_LAW_ENUM(upper, text) VW_PLAN_LAW_##upper,
    VW_PLAN_LAW_LIST(VW_PLAN_LAW_ENUM)
#undef VW_PLAN_LAW_ENUM
        VW_PLAN_LAW_COUNT
} vw_plan_law;

VW_API const char *vw_plan_law_name(vw_plan_law law);

/* One recorded step, scaled to another batch and another length. */
typedef struct vw_plan_scaling {
    size_t struct_size;
    uint64_t batch_now, batch;       /* samples in the recorded step, and in the wanted one; both 0:
                                        unchanged */
    uint64_t sequence_now, sequence; /* their length in tokens; both 0: unchanged */
    uint64_t step;       /* the recorded step, from 0; VW_UNKNOWN: the complete one with the highest
                            peak */
    uint64_t card_bytes; /* 0: unknown */
    int device;          /* VW_BUSIEST_DEVICE */
} vw_plan_scaling;

/* Live bytes at the recorded step's peak, and at the scaled one's. */
typedef struct vw_plan_scaled_part {
    const char *name;
    uint64_t now_bytes;
    uint64_t bytes;
} vw_plan_scaled_part;

/* A technique that lowers the scaled peak, with bounds for what is left. */
typedef struct vw_plan_scaled_choice {
    const char *action;
    const char *cost;
    const char *code; /* PyTorch code */
    uint64_t least_peak_bytes, most_peak_bytes;
    bool fits;    /* even with most_peak_bytes */
    bool may_fit; /* with least_peak_bytes */
} vw_plan_scaled_choice;

typedef struct vw_plan_scaled {
    vw_plan_scaling scaling; /* with the step that was used */
    uint64_t step_count;     /* in the recording */
    const char *step_basis;  /* how steps were found */
    bool is_traced;          /* by vw_plan_from_traced(): nothing was measured */
    uint64_t evidence_steps; /* steps of another size, to compare sizes with; 0: none */

    /* Other steps of the recording, predicted from the one used, with a batch and length concluded
     * from their sizes: the lowest and the highest predicted / recorded peak - 1. */
    uint64_t checked_steps; /* 0: none is of another size, and the errors mean nothing */
    double error_low, error_high;

    uint64_t now_peak_bytes; /* of the recorded step */
    uint64_t peak_allocated_bytes;
    uint64_t peak_device_bytes; /* with the context */
    uint64_t context_bytes;     /* CUDA's own; a rule of thumb */
    /* From a replay of the scaled step and what is live before it: native, expandable, vramwise.
     * VW_UNKNOWN: more than any card has. */
    uint64_t reserved_bytes[3];
    const char *peak_phase;           /* "forward", "backward", "optimizer step", "other" */
    const vw_plan_scaled_part *parts; /* by the purpose of blocks; the last of a trace is rounding:
                                         what blocks are larger than was asked for */
    size_t part_count;
    const vw_plan_scaled_part *laws; /* by how they grow: VW_PLAN_LAW_COUNT of them; without
                                        rounding */

    /* Blocks that may grow with the length or with its square, because the recording has one length
     * only. peak_if_square_bytes: the peak if it is the square; VW_UNKNOWN without such blocks. */
    uint64_t perhaps_square_bytes;
    uint64_t peak_if_square_bytes;
    uint64_t irregular_bytes; /* at the recorded peak: follow no law; scaled as "batch x length" */

    bool is_card_known;
    bool fits;
    int64_t margin_bytes;
    uint64_t largest_batch; /* that fits at the wanted length; 0: none; VW_UNKNOWN: the
                               recorded batch is not known */
    const vw_plan_scaled_choice *choices; /* if it does not fit: what helps, in the order in which
                                             to try it */
    size_t choice_count;
    const char *const *notes;
    size_t note_count;
} vw_plan_scaled;

VW_API void vw_plan_scaling_init(vw_plan_scaling *scaling);

/* VW_ERR_INVALID_ARGUMENT  a batch or a length of 0, a step that does not exist
 * VW_ERR_UNSUPPORTED       no complete step in the recording; more memory than an address space
 * VW_ERR_CORRUPT_FILE      no events in the recording
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_plan_from_recording(const vw_recording *recording,
                                                      const vw_plan_scaling *scaling,
                                                      vw_plan_scaled **out);
VW_API void vw_plan_scaled_free(vw_plan_scaled *scaled); /* NULL does nothing */

/* ---- from a trace -----------------------------------------------------------------------------
 */

/* The size of a traced step. */
typedef struct vw_plan_traced_size {
    uint64_t batch;    /* samples */
    uint64_t sequence; /* their length in tokens; 0: they have none */
} vw_plan_traced_size;

/* A program's own steps, which PyTorch ran on tensors without data (`vramwise plan --trace`). The
 * trace has the program's requests; those that kernels make by themselves (workspaces, buffers) are
 * added, and all are played through PyTorch's allocator. */
typedef struct vw_plan_traced {
    const vw_recording *recording; /* for everything in analysis.h, doctor.h and view.h; its times
                                      are made up */
    const char *torch_version;     /* that ran the program; NULL: not stated */
    const char *const *notes;      /* what the trace assumes or leaves out */
    size_t note_count;
    const vw_plan_traced_size *sizes; /* by step, as far as the trace states them */
    size_t size_count;
} vw_plan_traced;

/* Opens the JSON file of a trace, plain or compressed; "-" is standard input. `card_name` is the
 * card that the program would run on, as in vw_plan_card(); NULL: not known. Close it with
 * vw_plan_traced_close().
 *
 * VW_ERR_FILE          cannot be read
 * VW_ERR_CORRUPT_FILE  not a trace, cut short, or requests that contradict each other; the message
 *                      has what was expected and found
 * VW_ERR_UNSUPPORTED   of another version, too large, or more memory than a device could have
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_plan_traced_open(const char *path, const char *card_name,
                                                   vw_plan_traced **out);
VW_API void vw_plan_traced_close(vw_plan_traced *traced); /* NULL does nothing */

/* Writes it as a PyTorch memory snapshot, as vw_plan_write_recording() does. VW_ERR_FILE,
 * VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_plan_traced_write(const vw_plan_traced *traced, const char *path);

/* As vw_plan_from_recording(), and the trace's notes come first. A trace that states the sizes of
 * its steps fills in what `scaling` leaves open: the step is one of the first step's size, and
 * batch_now and sequence_now are its own. VW_ERR_INVALID_ARGUMENT also where another batch is
 * wanted, and the traced one is not known. */
VW_API VW_MUST_CHECK vw_status vw_plan_from_traced(const vw_plan_traced *traced,
                                                   const vw_plan_scaling *scaling,
                                                   vw_plan_scaled **out);

/* Names of the enumerators, as in the lists above. */
VW_API const char *vw_precision_name(vw_precision precision);
VW_API const char *vw_optimizer_name(vw_optimizer optimizer);
VW_API const char *vw_checkpointing_name(vw_checkpointing checkpointing);
VW_API const char *vw_attention_name(vw_attention attention);
VW_API const char *vw_offload_name(vw_offload offload);
VW_API const char *vw_sharding_name(vw_sharding sharding);
VW_API const char *vw_plan_mode_name(vw_plan_mode mode);
VW_API const char *vw_plan_head_name(vw_plan_head head);
VW_API const char *vw_kv_dtype_name(vw_kv_dtype dtype);
VW_API const char *vw_plan_verdict_name(vw_plan_verdict verdict);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_PLAN_H */
