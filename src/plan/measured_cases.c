/* measured_cases.c - written by `make bench-plan`; not by hand. */
#include "plan/error_bands.h"

/* clang-format off */
const hr__measured_case hr__measured_cases[] = {
    /* bert-base, 16 x 512, amp-fp16, adamw */
    {.family = "bert", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_AMP_FP16,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00404},
    /* bert-base, 16 x 512, fp32, adamw */
    {.family = "bert", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00015},
    /* bert-base, 16 x 512, fp32, adamw, checkpointing */
    {.family = "bert", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_FULL,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00105},
    /* bert-base, 32 x 128, fp32, adamw */
    {.family = "bert", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00889},
    /* gpt2, 2 x 1024, accumulated, fp32, adamw */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00216},
    /* gpt2, 4 x 1024, fp32, adamw */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00290},
    /* gpt2, 8 x 1024, amp-bf16, adamw, checkpointing */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_AMP_BF16,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_FULL,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00098},
    /* gpt2, 8 x 1024, amp-bf16, adamw */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_AMP_BF16,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00140},
    /* gpt2, 8 x 1024, bf16, adamw */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_BF16,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00256},
    /* gpt2, 8 x 1024, fp32, adamw */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00012},
    /* gpt2, 8 x 1024, fp32, adamw, eager */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_EAGER, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00013},
    /* gpt2, 8 x 1024, fp32, inference */
    {.family = "gpt2", .mode = HR_PLAN_MODE_INFERENCE, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00029},
    /* gpt2, 8 x 1024, fp32, adamw-fused */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW_FUSED, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00012},
    /* gpt2, 8 x 1024, fp32, keep-graph */
    {.family = "gpt2", .mode = HR_PLAN_MODE_KEEP_GRAPH, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00009},
    /* gpt2, 8 x 1024, fp32, adamw-loop */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW_LOOP, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00026},
    /* gpt2, 8 x 1024, fp32, sgd */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_SGD, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00014},
    /* gpt2, 8 x 1024, fp32, adamw, checkpointing */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_FULL,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00088},
    /* gpt2, 8 x 1024, fp32, sgd-m */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_SGD_MOMENTUM, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00025},
    /* gpt2, 16 x 512, fp32, adamw */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00012},
    /* gpt2-medium, 4 x 1024, amp-bf16, adamw */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_AMP_BF16,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00023},
    /* gpt2-medium, 4 x 1024, fp32, adamw */
    {.family = "gpt2", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00023},
    /* llama-160m, 4 x 1024, fp32, adamw, eager */
    {.family = "llama", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_EAGER, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00422},
    /* llama-160m, 8 x 1024, fp32, adamw */
    {.family = "llama", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00008},
    /* llama-160m, 8 x 2048, amp-bf16, adamw */
    {.family = "llama", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_AMP_BF16,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00098},
    /* llama-160m, 8 x 2048, bf16, adamw */
    {.family = "llama", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_BF16,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00096},
    /* llama-160m, 16 x 2048, bf16, adamw, checkpointing */
    {.family = "llama", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_BF16,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_FULL,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00016},
    /* llama-1b, 1 x 1024, fp32, adamw */
    {.family = "llama", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00008},
    /* llama-1b, 2 x 2048, amp-bf16, adamw-fused */
    {.family = "llama", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_AMP_BF16,
     .optimizer = HR_OPTIMIZER_ADAMW_FUSED, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00003},
    /* llama-1b, 2 x 2048, bf16, adamw */
    {.family = "llama", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_BF16,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00010},
    /* qwen-0.5b, 2 x 1024, fp32, adamw */
    {.family = "llama", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00253},
    /* resnet50, 64 x 224, fp32, sgd-m */
    {.family = "resnet", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_SGD_MOMENTUM, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00426},
    /* resnet50, 64 x 224, fp32, inference */
    {.family = "resnet", .mode = HR_PLAN_MODE_INFERENCE, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_SGD, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00120},
    /* resnet50, 128 x 224, amp-fp16, sgd-m */
    {.family = "resnet", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_AMP_FP16,
     .optimizer = HR_OPTIMIZER_SGD_MOMENTUM, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00477},
    /* t5-small, 16 x 512, bf16, adamw */
    {.family = "t5", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_BF16,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00038},
    /* t5-small, 16 x 512, fp32, adamw */
    {.family = "t5", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00021},
    /* vit-base, 64 x 224, fp32, adamw */
    {.family = "vit", .mode = HR_PLAN_MODE_TRAIN, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00100},
    /* vit-base, 128 x 224, fp32, inference */
    {.family = "vit", .mode = HR_PLAN_MODE_INFERENCE, .precision = HR_PRECISION_FP32,
     .optimizer = HR_OPTIMIZER_ADAMW, .checkpointing = HR_CHECKPOINTING_NONE,
     .attention = HR_ATTENTION_SDPA, .offload = HR_OFFLOAD_NONE,
     .sharding = HR_SHARDING_NONE, .error = -0.00368},
};
/* clang-format on */

const size_t hr__measured_case_count = sizeof hr__measured_cases / sizeof hr__measured_cases[0];
