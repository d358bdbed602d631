/* remedy_table.c - the table of remedies.
 *
 * Times. Factors differ between models, cards and versions; where sources give a range, the slower
 * end of what was measured is here, so that nothing is recommended for a speed it may not have. The
 * words of a cost have the same figure.
 *
 * Bytes were counted in the sources, tensor by tensor that autograd saves: PyTorch 2.9
 * (derivatives.yaml, autocast_mode.h, adam.py), transformers 5 (GPT-2, Llama, BERT, ViT),
 * bitsandbytes (optimizer.py), Liger (fused_linear_cross_entropy.py). Nothing is taken from
 * recordings that this was tried on. Rules of thumb for messages are from ordinary training runs.
 *
 * Code is for PyTorch 2.x and transformers 4 and 5: a few lines to paste, in which `model`,
 * `loader`, `criterion`, `lr` and `name` are the reader's own. */
#include "remedy/remedy.h"

/* A cost with what it needs, which is a field of its own as well. */
#define COST_NEEDING(words, package) .cost = words "; needs " package, .needs = package

#define CHECKPOINT_IMPORT "from torch.utils.checkpoint import checkpoint\n"

/* One row a token, as the mean over labels wants it: labels of -100 are masked, and not counted.
 * The division is that of F.cross_entropy(), which is a sum over chunks divided once. */
#define CHUNKED_LOSS_CODE                                                                          \
    CHECKPOINT_IMPORT                                                                              \
    "def chunk_loss(hidden, labels):\n"                                                            \
    "    logits = $head\n"                                                                         \
    "    return F.cross_entropy(logits, labels, reduction=\"sum\")\n"                              \
    "$rows\n"                                                                                      \
    "loss = sum(checkpoint(chunk_loss, h, y, use_reentrant=False) for h, y in\n"                   \
    "           zip(hidden.chunk($parts), labels.chunk($parts))) / (labels != -100).sum()"

#define FSDP_CODE                                                                                  \
    "from torch.distributed.fsdp import fully_shard\n"                                             \
    "for block in blocks:  # the model's list of layers\n"                                         \
    "    fully_shard(block)\n"                                                                     \
    "fully_shard(model)"

#define ZERO_CODE(stage)                                                                           \
    "config = {\"train_micro_batch_size_per_gpu\": batch,\n"                                       \
    "          \"zero_optimization\": {\"stage\": " stage "}}\n"                                   \
    "model, optimizer, _, _ = deepspeed.initialize(\n"                                             \
    "    model=model, optimizer=optimizer, config=config)"

#define HALVING_SOURCE                                                                             \
    "1.0 to 1.1 while products stay large (ml-engineering, training/performance): 3 % are "        \
    "assumed for each halving"
#define SAME_VOLUME_SOURCE "the same volume as data parallel training (ZeRO, arXiv 1910.02054)"
#define GATHER_SOURCE                                                                              \
    "1.5 times the volume (ZeRO, arXiv 1910.02054), most of it hidden; a tenth is assumed"
#define GATHER_COST                                                                                \
    "about 10 % more time per step: weights are gathered for each block, in both directions"
#define GATHER_COST_INFERENCE "about 10 % more time per pass: weights are gathered for each block"

/* On tensor cores, against float32 without TF32. */
#define PRECISION_FACTOR 0.65
#define PRECISION_SOURCE                                                                           \
    "measured on an H200 against float32 without TF32: 0.2 to 0.65 (tests/data/plan)"

/* Weights, gradients and optimizer state over two GPUs; at worst the weights stay whole. */
#define SHARDED_PORTIONS                                                                           \
    {                                                                                              \
        [VW__PORTION_WEIGHTS] = {0, 500}, [VW__PORTION_GRADIENTS] = {500, 500},                    \
        [VW__PORTION_OPTIMIZER] = {500, 500},                                                      \
    }

static const vw__remedy table[VW__REMEDY_COUNT] = {
    /* Activations are a fifth to four fifths of what is live in training. */
    [VW__REMEDY_SPLIT_BATCH] =
        {
            .action = "split each batch in $parts and accumulate gradients",
            .cost = "about 3 % more time for each halving; batch norm, if there is one, sees the "
                    "smaller batch",
            .code = "loader = DataLoader(dataset, batch_size=$batch_size)\n"
                    "for i, $sample in enumerate(loader, start=1):\n"
                    "    ($loss / $parts).backward()\n"
                    "    if i % $parts == 0:\n"
                    "        optimizer.step(); optimizer.zero_grad()",
            .slowdown = 1.03,
            .source = HALVING_SOURCE,
            .worth_percent = 90,
            .of_live = {200, 800},
        },
    [VW__REMEDY_SMALLER_BATCH] =
        {
            .action = "split each batch in $parts",
            .cost = "about 3 % more time for each halving; generation takes twice as long",
            .code = "loader = DataLoader(dataset, batch_size=$batch_size)",
            .slowdown = 1.03,
            .source = HALVING_SOURCE,
            .worth_percent = 90,
        },
    /* Kept of a checkpointed block are its inputs, of GPT-2 3.5 % and of Llama 4 %; besides, one
     * block at a time is recomputed, which of four layers is a quarter and of two a half. The loss
     * is outside of the blocks. */
    [VW__REMEDY_CHECKPOINTING] =
        {
            .action = "recompute activations in the backward pass (checkpointing)",
            .cost = "about 30 % more time per step: every block runs twice",
            .code = CHECKPOINT_IMPORT "for block in self.blocks:  # in the model's forward()\n"
                                      "    x = checkpoint(block, x, use_reentrant=False)",
            .transformers_code = "model.gradient_checkpointing_enable(\n"
                                 "    gradient_checkpointing_kwargs={\"use_reentrant\": False})",
            .slowdown = 1.3,
            .source = "one more forward pass, in theory 4/3; torchtune README 1.27, DeepSpeed#5305 "
                      "1.26 and 1.31",
            .worth_percent = 77,
            .of_portion = {[VW__PORTION_ACTIVATIONS] = {600, 965}},
            .of_live = {100, 700},
        },
    [VW__REMEDY_SELECTIVE_CHECKPOINTING] =
        {
            .action = "recompute norms and activation functions in the backward pass (selective "
                      "checkpointing)",
            .cost = "about 5 % more time per step: norms and activation functions run twice, "
                    "products and attention do not",
            .code = "from functools import partial\n"
                    "from torch.utils.checkpoint import create_selective_checkpoint_contexts\n"
                    "aten = torch.ops.aten\n"
                    "kept = [aten.mm.default, aten.addmm.default, aten.bmm.default,\n"
                    "        aten._scaled_dot_product_flash_attention.default,\n"
                    "        aten._scaled_dot_product_efficient_attention.default]\n"
                    "x = checkpoint(block, x, use_reentrant=False,  # for each block\n"
                    "               context_fn=partial(create_selective_checkpoint_contexts, "
                    "kept))",
            .transformers_code =
                "from functools import partial\n"
                "from torch.utils.checkpoint import create_selective_checkpoint_contexts\n"
                "aten = torch.ops.aten\n"
                "kept = [aten.mm.default, aten.addmm.default, aten.bmm.default,\n"
                "        aten._scaled_dot_product_flash_attention.default,\n"
                "        aten._scaled_dot_product_efficient_attention.default]\n"
                "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={\n"
                "    \"use_reentrant\": False,\n"
                "    \"context_fn\": partial(create_selective_checkpoint_contexts, kept)})",
            .slowdown = 1.05,
            .source = "Korthikanti et al. 2022 (arXiv 2205.05198): a tenth of what full "
                      "checkpointing costs, or less; the upper end of 1.02 to 1.05",
        },
    /* With eight chunks one eighth of the logits exists at a time; a fused kernel (Liger) came to
     * 3 % with the gradients that it keeps. */
    [VW__REMEDY_CHUNKED_LOSS] =
        {
            .action = "compute the loss in chunks, or with a fused kernel",
            .cost = "little time: the head runs once more, in the backward pass",
            .code = CHUNKED_LOSS_CODE,
            .worth_percent = 90,
            .of_portion = {[VW__PORTION_LOSS] = {875, 970}},
        },
    [VW__REMEDY_FUSED_ATTENTION] =
        {
            .action = "use attention that never makes the matrix of all scores",
            .cost = "none: the same result, not slower",
            .code = "torch.nn.functional.scaled_dot_product_attention(q, k, v)",
            .transformers_code =
                "model = AutoModel.from_pretrained(name, attn_implementation=\"$attention\")",
            .slowdown = 1.0,
            .source = "fused kernels are not slower than eager attention (flash-attention, README)",
        },
    /* Without a backward pass nothing is saved for one; what one layer works on is left. */
    [VW__REMEDY_INFERENCE_MODE] =
        {
            .action = "if no backward pass follows: torch.inference_mode(), if it is not on yet",
            .cost = "none: it is faster, too; its outputs cannot be trained on",
            .code = "with torch.inference_mode():\n"
                    "    output = $output",
            .worth_percent = 100,
            .of_portion = {[VW__PORTION_ACTIVATIONS] = {1000, 1000}},
        },
    /* Bytes saved per token under autocast against fp32: GPT-2 with a fused GELU 58 %, ViT 62, BERT
     * 64, Llama 66, GPT-2 as it comes 75.4. Norms, the residual stream and the loss stay in fp32,
     * gradients on the way may. */
    [VW__REMEDY_AUTOCAST] =
        {
            .action = "compute in bfloat16 (autocast), if it is not on yet",
            .cost = "none: faster on tensor cores; results differ in the third digit",
            .code = "with torch.autocast(\"$module\", dtype=torch.bfloat16):\n"
                    "    loss = $loss\n"
                    "loss.backward()  # outside of it",
            .slowdown = PRECISION_FACTOR,
            .source = PRECISION_SOURCE,
            .worth_percent = 80,
            .of_portion = {[VW__PORTION_ACTIVATIONS] = {240, 420},
                           [VW__PORTION_PASS_WORK] = {0, 500},
                           [VW__PORTION_LOSS] = {0, 125}},
            .of_live = {100, 400},
        },
    [VW__REMEDY_AUTOCAST_FP16] =
        {
            .action = "compute in float16 (autocast)",
            COST_NEEDING("none: faster on tensor cores; results differ in the third digit",
                         "a GradScaler against underflow"),
            .code = "scaler = torch.amp.GradScaler(\"$module\")\n"
                    "with torch.autocast(\"$module\", dtype=torch.float16):\n"
                    "    loss = $loss\n"
                    "scaler.scale(loss).backward()\n"
                    "scaler.step(optimizer)\n"
                    "scaler.update()",
            .slowdown = PRECISION_FACTOR,
            .source = PRECISION_SOURCE,
        },
    [VW__REMEDY_AUTOCAST_INFERENCE] =
        {
            .action = "compute in $type (autocast)",
            .cost = "none: faster on tensor cores; results differ in the third digit",
            .code = "with torch.autocast(\"$module\", dtype=torch.$type):\n"
                    "    output = $output",
            .slowdown = PRECISION_FACTOR,
            .source = PRECISION_SOURCE,
        },
    [VW__REMEDY_HALF_TRAINING] =
        {
            .action = "keep weights, gradients and optimizer state in $type",
            .cost = "none: faster on tensor cores; weights, gradients and the optimizer's state "
                    "have fewer digits, and small updates may be lost",
            .code = "model = model.to(torch.$type)  # before the optimizer is made",
            .slowdown = PRECISION_FACTOR,
            .source = PRECISION_SOURCE,
        },
    [VW__REMEDY_HALF_INFERENCE] =
        {
            .action = "keep the weights in $type",
            .cost = "none: faster on tensor cores; weights and results have fewer digits",
            .code = "model = model.to(torch.$type)",
            .slowdown = PRECISION_FACTOR,
            .source = PRECISION_SOURCE,
        },
    /* For inference, and models that fail while they are loaded. fp32 to 16 bits, or 16 to 8, is a
     * half; 16 bits to NF4 0.516 bytes of 2. */
    [VW__REMEDY_FEWER_BITS] =
        {
            .action = "load the weights in fewer bits",
            .cost = "accuracy: hardly any at 16 bits, some at 4; compare outputs",
            .code = "model = model.to(torch.bfloat16)  # from fp32",
            .transformers_code = "model = AutoModel.from_pretrained(name, dtype=torch.bfloat16)\n"
                                 "# 16 bits already: quantization_config=BitsAndBytesConfig(\n"
                                 "#     load_in_4bit=True)",
            .worth_percent = 70,
            .of_portion = {[VW__PORTION_WEIGHTS] = {500, 742}},
        },
    /* The default, foreach, works on all parameters of a group at once and needs a copy of them on
     * the way; fused needs none, the plain loop that of the largest parameter. */
    [VW__REMEDY_FUSED_OPTIMIZER] =
        {
            .action = "use the optimizer's fused step",
            .cost = "none: the same numbers in fewer kernels",
            .code = "optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)\n"
                    "# an optimizer without a fused step: foreach=False",
            .slowdown = 1.0,
            .source = "one kernel in place of several (torch.optim.AdamW, documentation of fused)",
            .worth_percent = 100,
            .of_portion = {[VW__PORTION_STEP_WORK] = {1000, 1000}},
        },
    /* A byte and 8/256 for each of two states: 2.03 bytes of 8 in fp32, of 4 in bf16; nothing on
     * the way. */
    [VW__REMEDY_8BIT_OPTIMIZER] =
        {
            .action = "use an 8-bit optimizer",
            COST_NEEDING("about 5 % more time per step; state is rounded to 8 bits: watch the loss",
                         "bitsandbytes"),
            .code = "import bitsandbytes as bnb\n"
                    "optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=lr)",
            .slowdown = 1.05,
            .source = "torchtune README, Llama 3.2 3B on an A100: 4.7 % fewer tokens per second",
            .worth_percent = 80,
            .of_portion =
                {[VW__PORTION_OPTIMIZER] = {492, 746}, [VW__PORTION_STEP_WORK] = {1000, 1000}},
        },
    [VW__REMEDY_PAGED_8BIT_OPTIMIZER] =
        {
            .action = "use a paged 8-bit optimizer",
            COST_NEEDING("about 10 % more time per step; state is rounded to 8 bits, in memory "
                         "that may move to the host while the card is full",
                         "bitsandbytes"),
            .code = "import bitsandbytes as bnb\n"
                    "optimizer = bnb.optim.PagedAdamW8bit(model.parameters(), lr=lr)",
            .slowdown = 1.1,
            .source = "as 8-bit Adam, and what is moved while memory is short (bitsandbytes, "
                      "documentation)",
        },
    [VW__REMEDY_ADAFACTOR] =
        {
            .action = "use Adafactor",
            .cost = "about 5 % more time per step; another optimizer: its learning rate has to be "
                    "found again",
            .code = "optimizer = torch.optim.Adafactor(model.parameters(), lr=lr)",
            .slowdown = 1.05,
            .source = "no measurement found; counted as 8-bit Adam",
        },
    [VW__REMEDY_ZERO_1] =
        {
            .action = "shard the optimizer's state over the GPUs (ZeRO-1)",
            COST_NEEDING("none: no more traffic between GPUs than before", "DeepSpeed"),
            .code = ZERO_CODE("1"),
            .slowdown = 1.0,
            .source = SAME_VOLUME_SOURCE,
        },
    [VW__REMEDY_ZERO_2] =
        {
            .action = "shard gradients and optimizer state over the GPUs (ZeRO-2)",
            COST_NEEDING("none: no more traffic between GPUs than before", "DeepSpeed"),
            .code = ZERO_CODE("2"),
            .slowdown = 1.0,
            .source = SAME_VOLUME_SOURCE,
        },
    /* ZeRO-1 sends gradients once a step; from 2 on they are parted, and sent, in every
     * micro-batch. */
    [VW__REMEDY_ZERO_2_ACCUMULATED] =
        {
            .action = "shard gradients and optimizer state over the GPUs (ZeRO-2)",
            COST_NEEDING("about 5 % more time per step: gradients cross in every accumulated batch",
                         "DeepSpeed"),
            .code = ZERO_CODE("2"),
            .slowdown = 1.05,
            .source = "gradients cross in every micro-batch and not once a step (deepspeed "
                      "runtime/zero/stage_1_and_2.py); no measurement found, a twentieth is "
                      "assumed",
        },
    [VW__REMEDY_ZERO_3] =
        {
            .action = "shard weights, gradients and optimizer state over the GPUs (ZeRO-3)",
            COST_NEEDING(GATHER_COST, "DeepSpeed"),
            .code = ZERO_CODE("3"),
            .slowdown = 1.1,
            .source = GATHER_SOURCE,
        },
    [VW__REMEDY_ZERO_3_INFERENCE] =
        {
            .action = "shard the weights over the GPUs (ZeRO-3)",
            COST_NEEDING(GATHER_COST_INFERENCE, "DeepSpeed"),
            .code = "config = {\"train_micro_batch_size_per_gpu\": 1,\n"
                    "          \"zero_optimization\": {\"stage\": 3}}\n"
                    "model = deepspeed.initialize(model=model, config=config)[0].eval()",
            .slowdown = 1.1,
            .source = GATHER_SOURCE,
        },
    [VW__REMEDY_FSDP] =
        {
            .action = "shard weights, gradients and optimizer state over two GPUs or more",
            .cost = GATHER_COST,
            .code = FSDP_CODE "\n# the optimizer is made after it",
            .slowdown = 1.1,
            .source = GATHER_SOURCE,
            .worth_percent = 100,
            .is_last_resort = true,
            .of_portion = SHARDED_PORTIONS,
        },
    [VW__REMEDY_FSDP_INFERENCE] =
        {
            .action = "shard the weights over two GPUs or more",
            .cost = GATHER_COST_INFERENCE,
            .code = FSDP_CODE,
            .slowdown = 1.1,
            .source = GATHER_SOURCE,
        },
    [VW__REMEDY_OFFLOAD_OPTIMIZER] =
        {
            .action = "keep the optimizer's state in host memory",
            COST_NEEDING("much time: every step waits for the bus and the CPU; host memory must "
                         "hold the state",
                         "torchao"),
            .code = "from torchao.optim import CPUOffloadOptimizer\n"
                    "optimizer = CPUOffloadOptimizer(\n"
                    "    model.parameters(), torch.optim.AdamW, fused=True, lr=lr)",
            .worth_percent = 100,
            .is_last_resort = true,
            .of_portion =
                {[VW__PORTION_OPTIMIZER] = {1000, 1000}, [VW__PORTION_STEP_WORK] = {1000, 1000}},
        },
    [VW__REMEDY_OFFLOAD_WEIGHTS] =
        {
            .action = "keep weights, gradients and optimizer state in host memory",
            .cost = "much time: every pass waits for weights from the host; host memory must hold "
                    "them all",
            .code = "from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard\n"
                    "for block in blocks:  # the model's list of layers\n"
                    "    fully_shard(block, offload_policy=CPUOffloadPolicy())\n"
                    "fully_shard(model, offload_policy=CPUOffloadPolicy())\n"
                    "optimizer = torch.optim.AdamW(model.parameters(), lr=lr)  # after it",
        },
    [VW__REMEDY_OFFLOAD_WEIGHTS_INFERENCE] =
        {
            .action = "keep the weights in host memory",
            COST_NEEDING("much time: every pass waits for weights from the host; host memory must "
                         "hold them all",
                         "accelerate"),
            .code = "from accelerate import cpu_offload\n"
                    "cpu_offload(model, execution_device=\"$module\")",
        },
    [VW__REMEDY_SPILL] =
        {
            .action = "let what does not fit go to host memory, with vramwise's allocator (spill)",
            COST_NEEDING(
                "time on the bus: what does not fit of the state goes over it in each step; "
                "host memory must hold it",
                VW__REMEDY_ALLOCATOR_NEEDS),
        },
    [VW__REMEDY_LORA] =
        {
            .action = "train adapters (LoRA)",
            COST_NEEDING("none; only adapters are trained: not the same model comes out as from "
                         "training all weights",
                         "peft"),
            .code = "from peft import LoraConfig, get_peft_model\n"
                    "model = get_peft_model(model, LoraConfig(r=$rank))",
            .slowdown = 1.0,
            .source = "up to 18 % faster (torchtune README), which is not counted: it is another "
                      "method",
        },
    [VW__REMEDY_QLORA] =
        {
            .action = "train adapters beside weights in 4 bits (QLoRA)",
            COST_NEEDING("about 28 % more time per step; only adapters are trained, beside weights "
                         "in 4 bits: not the same model comes out",
                         "peft and bitsandbytes"),
            .code = "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training\n"
                    "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\n"
                    "model = AutoModelForCausalLM.from_pretrained(name,\n"
                    "    quantization_config=BitsAndBytesConfig(\n"
                    "        load_in_4bit=True, bnb_4bit_quant_type=\"nf4\",\n"
                    "        bnb_4bit_use_double_quant=True, "
                    "bnb_4bit_compute_dtype=torch.$type$storage))\n"
                    "model = prepare_model_for_kbit_training(model)\n"
                    "model = get_peft_model(model, LoraConfig(r=$rank))",
            .slowdown = 1.28,
            .source = "torchtune README, 3083 against 2413 tokens per second on an RTX 4090; 1.02 "
                      "on an A100",
        },
    [VW__REMEDY_ZERO_GRAD] =
        {
            .action = "clear gradients before the forward pass, and free their memory",
            .cost = "none",
            .code = "optimizer.zero_grad(set_to_none=True)  # before the forward pass",
        },
    [VW__REMEDY_DROP_VARIABLES] =
        {
            .action = "let go of the step's variables when it ends",
            .cost = "none",
            .code = "del outputs, loss, batch  # last line of the step; or put the\n"
                    "                          # step into a function of its own",
        },
    [VW__REMEDY_EMPTY_CACHE] =
        {
            .action = "empty the cache between phases, never inside the loop",
            .cost = "a wait for the GPU; the next phase takes its memory from the driver again",
            .code = "# after loading, between training and evaluation; never inside the loop:\n"
                    "torch.$module.empty_cache()",
        },
    [VW__REMEDY_RAISE_LIMIT] =
        {
            .action = "raise the limit, or do not set one",
            .cost = "none, if nobody else needs that memory",
            .code = "torch.$module.set_per_process_memory_fraction($fraction)\n"
                    "# or per_process_memory_fraction in $settings",
        },
    /* torch.cuda.graph(): "safe to share if they are replayed in the order of capture, and never at
     * the same time". */
    [VW__REMEDY_SHARED_GRAPH_POOL] =
        {
            .action = "let graphs share one pool",
            .cost = "graphs of one pool are replayed in the order of their capture, never at the "
                    "same time",
            .code = "pool = torch.cuda.graph_pool_handle()\n"
                    "with torch.cuda.graph(graph, pool=pool): ...",
        },
    [VW__REMEDY_EXPANDABLE_SEGMENTS] =
        {
            .action = "expandable segments: idle pieces can then be joined",
            COST_NEEDING("next to none", "PyTorch 2.1, set before it starts"),
            .code = "export $settings=expandable_segments:True",
        },
    [VW__REMEDY_REPEATING_SIZES] =
        {
            .action = "let sizes repeat: pad to a few lengths, or begin with the largest batch",
            .cost = "some padding is computed for nothing, or one step more",
            .code = "length = -(-length // 128) * 128  # pad up; or, once before the loop:\n"
                    "loss_of(model, largest_batch).backward()\n"
                    "optimizer.zero_grad()",
        },
    [VW__REMEDY_COMPUTE_IN_CHUNKS] =
        {
            .action = "compute it in chunks",
            .cost = "a loop, and a little time",
            .code = "out = torch.cat([work(part) for part in x.chunk(16)])",
        },
    /* Keys and values: two tensors of each layer for every token of every sequence. */
    [VW__REMEDY_SHORTER_GENERATION] =
        {
            .action = "shorter prompts and answers: the cache grows with every token",
            .cost = "answers may be cut; a cache on the host is slower, one in 4 bits less exact",
            .code = "out = model.generate(**inputs, max_new_tokens=256)\n"
                    "# or a smaller cache: cache_implementation=\"offloaded\" or \"quantized\"",
        },
    [VW__REMEDY_OFFLOAD_PIPELINE] =
        {
            .action = "keep waiting parts of the pipeline in host memory",
            .cost = "some time for each image: parts are moved to the GPU and back",
            .code = "pipe.enable_model_cpu_offload()  # in place of pipe.to(\"$module\")\n"
                    "# ComfyUI: --lowvram; Stable Diffusion WebUI: --medvram",
        },
    [VW__REMEDY_TILED_DECODER] =
        {
            .action = "decode images in tiles, and one at a time",
            .cost = "a little time; seams may show",
            .code = "pipe.vae.enable_tiling()\n"
                    "pipe.vae.enable_slicing()",
        },
    [VW__REMEDY_SMALLER_IMAGE] =
        {
            .action = "smaller images, or fewer at once",
            .cost = "less detail; scale up afterwards",
            .code = "images = pipe(prompt, height=512, width=512).images",
        },
    [VW__REMEDY_DETACH_OUTPUTS] =
        {
            .action = "keep numbers, not tensors that hold their graph or the device's memory",
            .cost = "a copy to the host for each batch",
            .code = "outputs.append(logits.detach().cpu())  # total += loss.item()\n"
                    "# Trainer: eval_accumulation_steps=8",
        },
    [VW__REMEDY_LOAD_ON_HOST] =
        {
            .action = "load on the host first, and let layers go where there is room",
            .cost = "layers on the host are slow: one card that fits, or two, is faster",
            .code = "state = torch.load(path, map_location=\"cpu\", mmap=True)\n"
                    "model.load_state_dict(state)  # then model.to(\"$module\"), once",
            .transformers_code = "model = AutoModelForCausalLM.from_pretrained(\n"
                                 "    name, dtype=torch.bfloat16, device_map=\"auto\")",
        },
    [VW__REMEDY_SAVE_FROM_HOST] =
        {
            .action = "save from the host's memory, piece by piece",
            .cost = "a copy to the host; the host must hold the weights",
            .code = "state = {name: value.cpu() for name, value in model.state_dict().items()}\n"
                    "torch.save(state, path)  # FSDP: offload_to_cpu=True, rank0_only=True",
        },
};

const vw__remedy *vw__remedy_of(vw__remedy_id id)
{
    return &table[id];
}
