/* measured_cases.c - written by `make bench-plan`; not by hand. */
#include "plan/error_bands.h"

/* clang-format off */
const vw__measured_case vw__measured_cases[] = {
    /* gpt2, 8 x 1024, fp32, adafactor */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAFACTOR, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00007},
    /* llama-160m, 8 x 2048, bf16, adafactor */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAFACTOR, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00000},
    /* roberta-base, 16 x 256, amp-bf16, adafactor */
    {.family = "bert", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAFACTOR, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00035},
    /* gpt2, 8 x 1024, fp32, adamw, offloaded */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_OPTIMIZER,
     .sharding = VW_SHARDING_NONE, .error = -0.00007},
    /* llama-160m, 4 x 2048, amp-bf16, adamw, offloaded */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_OPTIMIZER,
     .sharding = VW_SHARDING_NONE, .error = -0.00000},
    /* llama-160m, 4 x 2048, bf16, adamw, offloaded */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_OPTIMIZER,
     .sharding = VW_SHARDING_NONE, .has_master_weights = true, .error = -0.00000},
    /* gpt2, 8 x 1024, fp32, adamw, sharded */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_FSDP, .error = 0.00001},
    /* llama-160m, 8 x 1024, fp32, adamw, sharded */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_FSDP, .error = -0.00005},
    /* llama-160m, 4 x 2048, bf16, adamw, sharded */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_FSDP, .has_master_weights = true, .error = 0.00186},
    /* llama-1b, 2 x 1024, bf16, adamw, sharded */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_FSDP, .has_master_weights = true, .error = 0.00004},
    /* gpt2, 8 x 1024, fp32, adamw-fused, checkpointing, sharded */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW_FUSED, .checkpointing = VW_CHECKPOINTING_FULL,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_FSDP, .error = -0.00028},
    /* gpt2, 8 x 1024, fp32, adamw, offloaded */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_WEIGHTS,
     .sharding = VW_SHARDING_NONE, .error = -0.00008},
    /* roberta-base, 16 x 256, fp32, adamw */
    {.family = "bert", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00019},
    /* bert-large, 8 x 512, amp-bf16, adamw-fused */
    {.family = "bert", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW_FUSED, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00022},
    /* mistral-8l, 4 x 1024, bf16, adamw */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00072},
    /* mistral-8l, 4 x 1024, amp-fp16, adamw, checkpointing */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_FP16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_FULL,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00079},
    /* qwen3-8l, 4 x 1024, amp-bf16, adamw */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00000},
    /* qwen3-8l, 2 x 2048, bf16, adamw-fused */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW_FUSED, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00000},
    /* gemma-6l, 4 x 1024, fp32, adamw */
    {.family = "gemma", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00000},
    /* gemma-6l, 4 x 1024, bf16, sgd-m */
    {.family = "gemma", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_SGD_MOMENTUM, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00000},
    /* gemma2-6l, 2 x 1024, amp-bf16, adamw, eager */
    {.family = "gemma", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_EAGER, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00033},
    /* gemma3-6l, 2 x 1024, bf16, adamw */
    {.family = "gemma", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00068},
    /* phi-8l, 4 x 1024, fp32, adamw */
    {.family = "phi", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00012},
    /* phi-8l, 4 x 1024, amp-bf16, adamw */
    {.family = "phi", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00013},
    /* phi3-8l, 4 x 1024, bf16, adamw */
    {.family = "phi3", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00118},
    /* mixtral-4l, 4 x 512, bf16, adamw-fused */
    {.family = "mixtral", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW_FUSED, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00009},
    /* mixtral-4l, 2 x 512, amp-bf16, sgd */
    {.family = "mixtral", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_SGD, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00000},
    /* t5-base, 8 x 512, amp-bf16, adamw */
    {.family = "t5", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00376},
    /* t5-base, 8 x 512, bf16, adamw, checkpointing */
    {.family = "t5", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_FULL,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00106},
    /* vit-large, 32 x 224, amp-bf16, adamw-fused */
    {.family = "vit", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW_FUSED, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00034},
    /* vit-large, 64 x 224, bf16, adamw, checkpointing */
    {.family = "vit", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_FULL,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00118},
    /* resnet18, 128 x 224, fp32, sgd-m */
    {.family = "resnet", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_SGD_MOMENTUM, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00109},
    /* resnet101, 64 x 224, amp-bf16, adamw */
    {.family = "resnet", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00012},
    /* gpt2-large, 2 x 1024, amp-bf16, adamw-fused, checkpointing */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW_FUSED, .checkpointing = VW_CHECKPOINTING_FULL,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00189},
    /* gpt2, 16 x 1024, accumulated, amp-bf16, sgd-m */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_SGD_MOMENTUM, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00009},
    /* llama-1b, 1 x 4096, bf16, adamw, checkpointing */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_FULL,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00000},
    /* llama-160m, 8 x 1024, bf16, inference */
    {.family = "llama", .mode = VW_PLAN_MODE_INFERENCE, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.01115},
    /* gpt2, 4 x 1024, amp-bf16, keep-graph */
    {.family = "gpt2", .mode = VW_PLAN_MODE_KEEP_GRAPH, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00558},
    /* llama-160m, 16 x 512, bf16, inference */
    {.family = "llama", .mode = VW_PLAN_MODE_INFERENCE, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .is_generating = true, .error = 0.02829},
    /* gpt2, 16 x 256, fp32, inference */
    {.family = "gpt2", .mode = VW_PLAN_MODE_INFERENCE, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .is_generating = true, .error = 0.02204},
    /* bert-base, 16 x 512, amp-fp16, adamw */
    {.family = "bert", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_FP16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00210},
    /* bert-base, 16 x 512, fp32, adamw */
    {.family = "bert", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00011},
    /* bert-base, 16 x 512, fp32, adamw, checkpointing */
    {.family = "bert", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_FULL,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00053},
    /* bert-base, 32 x 128, fp32, adamw */
    {.family = "bert", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00019},
    /* gpt2, 2 x 1024, accumulated, fp32, adamw */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00001},
    /* gpt2, 4 x 1024, fp32, adamw */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00063},
    /* gpt2, 8 x 1024, amp-bf16, adamw, checkpointing */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_FULL,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00019},
    /* gpt2, 8 x 1024, amp-bf16, adamw */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00046},
    /* gpt2, 8 x 1024, bf16, adamw */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00023},
    /* gpt2, 8 x 1024, fp32, adamw */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00007},
    /* gpt2, 8 x 1024, fp32, adamw, eager */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_EAGER, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00010},
    /* gpt2, 8 x 1024, fp32, inference */
    {.family = "gpt2", .mode = VW_PLAN_MODE_INFERENCE, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00008},
    /* gpt2, 8 x 1024, fp32, adamw-fused */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW_FUSED, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00007},
    /* gpt2, 8 x 1024, fp32, keep-graph */
    {.family = "gpt2", .mode = VW_PLAN_MODE_KEEP_GRAPH, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00003},
    /* gpt2, 8 x 1024, fp32, adamw-loop */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW_LOOP, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00021},
    /* gpt2, 8 x 1024, fp32, sgd */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_SGD, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00008},
    /* gpt2, 8 x 1024, fp32, adamw, checkpointing */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_FULL,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00053},
    /* gpt2, 8 x 1024, fp32, sgd-m */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_SGD_MOMENTUM, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00016},
    /* gpt2, 16 x 512, fp32, adamw */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00007},
    /* gpt2-medium, 4 x 1024, amp-bf16, adamw */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00007},
    /* gpt2-medium, 4 x 1024, fp32, adamw */
    {.family = "gpt2", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00008},
    /* llama-160m, 4 x 1024, fp32, adamw, eager */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_EAGER, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00029},
    /* llama-160m, 8 x 1024, fp32, adamw */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00004},
    /* llama-160m, 8 x 2048, amp-bf16, adamw */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00028},
    /* llama-160m, 8 x 2048, bf16, adamw */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00012},
    /* llama-160m, 16 x 2048, bf16, adamw, checkpointing */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_FULL,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00075},
    /* llama-1b, 1 x 1024, fp32, adamw */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00008},
    /* llama-1b, 2 x 2048, amp-bf16, adamw-fused */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW_FUSED, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00000},
    /* llama-1b, 2 x 2048, bf16, adamw */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00005},
    /* qwen-0.5b, 2 x 1024, fp32, adamw */
    {.family = "llama", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00061},
    /* resnet50, 64 x 224, fp32, sgd-m */
    {.family = "resnet", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_SGD_MOMENTUM, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00104},
    /* resnet50, 64 x 224, fp32, inference */
    {.family = "resnet", .mode = VW_PLAN_MODE_INFERENCE, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_SGD, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00120},
    /* resnet50, 128 x 224, amp-fp16, sgd-m */
    {.family = "resnet", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_AMP_FP16,
     .optimizer = VW_OPTIMIZER_SGD_MOMENTUM, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = 0.00010},
    /* t5-small, 16 x 512, bf16, adamw */
    {.family = "t5", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_BF16,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00016},
    /* t5-small, 16 x 512, fp32, adamw */
    {.family = "t5", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00021},
    /* vit-base, 64 x 224, fp32, adamw */
    {.family = "vit", .mode = VW_PLAN_MODE_TRAIN, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00007},
    /* vit-base, 128 x 224, fp32, inference */
    {.family = "vit", .mode = VW_PLAN_MODE_INFERENCE, .precision = VW_PRECISION_FP32,
     .optimizer = VW_OPTIMIZER_ADAMW, .checkpointing = VW_CHECKPOINTING_NONE,
     .attention = VW_ATTENTION_SDPA, .offload = VW_OFFLOAD_NONE,
     .sharding = VW_SHARDING_NONE, .error = -0.00221},
};
/* clang-format on */

const size_t vw__measured_case_count = sizeof vw__measured_cases / sizeof vw__measured_cases[0];
