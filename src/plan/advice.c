/* advice.c - changes in words: a name, what it costs, and what to write.
 *
 * Code is for PyTorch 2.x and transformers 4 and 5: a few lines to paste, in which `model`,
 * `loader`, `criterion`, `lr` and `name` are the reader's own. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analysis/spill_cost.h"
#include "plan/changes.h"
#include "plan/plan_model.h"
#include "plan/plan_run.h"

__attribute__((format(printf, 2, 3))) static const char *keep(vw__arena *arena, const char *format,
                                                              ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0)
        return NULL;
    size_t kept = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    return vw__arena_copy(arena, text, kept);
}

static bool is_half(vw_precision precision)
{
    return precision == VW_PRECISION_BF16 || precision == VW_PRECISION_FP16;
}

static bool is_fp16(vw_precision precision)
{
    return precision == VW_PRECISION_FP16 || precision == VW_PRECISION_AMP_FP16;
}

static bool is_of_transformers(const vw_plan_model *model)
{
    return model->shape.heads > 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *batch_name(vw__arena *arena, const vw_plan_settings *to)
{
    if (to->mode != VW_PLAN_MODE_TRAIN)
        return keep(arena, "batch %" PRIu64, to->batch);
    return keep(arena, "micro-batch %" PRIu64 " with %" PRIu64 " accumulated", to->batch,
                to->accumulation);
}

const char *vw__change_name(vw__arena *arena, vw__change change, const vw_plan_settings *to)
{
    switch (change) {
    case VW__CHANGE_ATTENTION:
        return keep(arena, "attention %s", vw_attention_name(to->attention));
    case VW__CHANGE_LOSS:
        return keep(arena, "loss in %" PRIu64 " chunks", to->loss_chunks);
    case VW__CHANGE_PRECISION:
        return keep(arena, "precision %s", vw_precision_name(to->precision));
    case VW__CHANGE_OPTIMIZER:
        return keep(arena, "optimizer %s", vw_optimizer_name(to->optimizer));
    case VW__CHANGE_BATCH:
        return batch_name(arena, to);
    case VW__CHANGE_CHECKPOINTING:
        return keep(arena, "%s checkpointing", vw_checkpointing_name(to->checkpointing));
    case VW__CHANGE_SHARDING:
        return keep(arena, "sharding %s", vw_sharding_name(to->sharding));
    case VW__CHANGE_METHOD:
        return keep(arena, "%s of rank %" PRIu64 " (another method)",
                    to->is_quantized ? "QLoRA" : "LoRA", to->lora_rank);
    case VW__CHANGE_OFFLOAD:
        if (to->offload == VW_OFFLOAD_SPILL)
            return keep(arena, "optimizer state spilled to the host (no code changed)");
        return keep(arena, "%s offloaded",
                    to->offload == VW_OFFLOAD_WEIGHTS ? "weights" : "optimizer");
    case VW__CHANGE_COUNT:
        break;
    }
    return NULL;
}

/* ---- costs ----------------------------------------------------------------------------------- */

static const char *precision_cost(const vw_plan_settings *to)
{
    if (is_half(to->precision) && to->mode != VW_PLAN_MODE_TRAIN)
        return "weights and results have fewer digits";
    if (is_half(to->precision))
        return "weights, gradients and the optimizer's state have fewer digits; small updates may "
               "be lost";
    return is_fp16(to->precision) && to->mode == VW_PLAN_MODE_TRAIN
               ? "products in 16 bits; needs a GradScaler against underflow"
               : "products in 16 bits; results differ in the third digit";
}

static const char *optimizer_cost(vw_optimizer optimizer)
{
    switch (optimizer) {
    case VW_OPTIMIZER_ADAMW_FUSED:
        return "none: the same numbers in fewer kernels";
    case VW_OPTIMIZER_ADAM_8BIT:
        return "state in 8 bits, in blocks with a scale each; needs bitsandbytes";
    case VW_OPTIMIZER_PAGED_ADAM_8BIT:
        return "state in 8 bits, in memory that may move to the host while the card is full; needs "
               "bitsandbytes";
    default:
        return "another optimizer: its learning rate has to be found again";
    }
}

static const char *sharding_cost(vw_sharding sharding)
{
    switch (sharding) {
    case VW_SHARDING_ZERO_1:
        return "needs DeepSpeed; no more traffic between GPUs than before";
    case VW_SHARDING_ZERO_2:
        return "needs DeepSpeed; no more traffic between GPUs than before, but that gradients "
               "cross in every accumulated batch";
    case VW_SHARDING_ZERO_3:
        return "needs DeepSpeed; weights are gathered for each block, in both directions";
    default:
        return "weights are gathered for each block, in both directions";
    }
}

static const char *method_cost(const vw_plan_settings *to)
{
    return to->is_quantized
               ? "only adapters are trained, beside weights in 4 bits: not the same model comes out"
               : "only adapters are trained: not the same model comes out as from training all "
                 "weights";
}

static const char *offload_cost(const vw_plan_settings *to)
{
    if (to->offload == VW_OFFLOAD_WEIGHTS)
        return "every pass waits for weights from the host; host memory must hold them all";
    if (to->offload == VW_OFFLOAD_SPILL)
        return "what does not fit of the state is read and written over the bus once a step; host "
               "memory must hold it; needs PyTorch 2.11 and a C++ compiler";
    return "the step is the CPU's: it waits for gradients and weights to cross the slot; host "
           "memory "
           "must hold the state";
}

static const char *batch_cost(const vw_plan_model *model, const vw_plan_settings *to)
{
    if (to->mode != VW_PLAN_MODE_TRAIN)
        return "fewer samples at once, in more passes";
    return is_of_transformers(model)
               ? "the same samples in a step, in smaller pieces"
               : "the same samples in a step, in smaller pieces; batch norm sees fewer at once";
}

const char *vw__change_cost(vw__arena *arena, vw__change change, const vw_plan_model *model,
                            const vw_plan_settings *to)
{
    const char *text = "";
    switch (change) {
    case VW__CHANGE_ATTENTION:
        text = "none: the same result without the matrix of all scores";
        break;
    case VW__CHANGE_LOSS:
        text = "the head runs once more in the backward pass";
        break;
    case VW__CHANGE_PRECISION:
        text = precision_cost(to);
        break;
    case VW__CHANGE_OPTIMIZER:
        text = optimizer_cost(to->optimizer);
        break;
    case VW__CHANGE_BATCH:
        text = batch_cost(model, to);
        break;
    case VW__CHANGE_CHECKPOINTING:
        text = to->checkpointing == VW_CHECKPOINTING_FULL
                   ? "every block runs twice"
                   : "norms and activation functions run twice; products and attention do not";
        break;
    case VW__CHANGE_SHARDING:
        text = sharding_cost(to->sharding);
        break;
    case VW__CHANGE_METHOD:
        text = method_cost(to);
        break;
    case VW__CHANGE_OFFLOAD:
        text = offload_cost(to);
        break;
    case VW__CHANGE_COUNT:
        break;
    }
    return keep(arena, "%s", text);
}

/* ---- code ------------------------------------------------------------------------------------ */

/* A model of transformers' computes its loss itself. */
typedef struct pass_lines {
    const char *batch, *output, *loss;
} pass_lines;

static pass_lines pass_of(const vw_plan_model *model)
{
    return is_of_transformers(model)
               ? (pass_lines){"batch", "model(**batch)", "model(**batch).loss"}
               : (pass_lines){"(inputs, labels)", "model(inputs)",
                              "criterion(model(inputs), labels)"};
}

static const char *batch_code(vw__arena *arena, const vw_plan_model *model,
                              const vw_plan_settings *to)
{
    const pass_lines pass = pass_of(model);
    if (to->mode != VW_PLAN_MODE_TRAIN)
        return keep(arena, "loader = DataLoader(dataset, batch_size=%" PRIu64 ")", to->batch);
    return keep(arena,
                "# DataLoader(..., batch_size=%" PRIu64 ")\n"
                "for i, %s in enumerate(loader):\n"
                "    loss = %s / %" PRIu64 "\n"
                "    loss.backward()\n"
                "    if (i + 1) %% %" PRIu64 " == 0:\n"
                "        optimizer.step()\n"
                "        optimizer.zero_grad()",
                to->batch, pass.batch, pass.loss, to->accumulation, to->accumulation);
}

static const char *precision_code(vw__arena *arena, const vw_plan_model *model,
                                  const vw_plan_settings *to)
{
    const pass_lines pass = pass_of(model);
    const char *type = is_fp16(to->precision) ? "float16" : "bfloat16";
    bool is_training = to->mode == VW_PLAN_MODE_TRAIN;
    if (is_half(to->precision))
        return keep(arena, "model = model.to(torch.%s)%s", type,
                    is_training ? "  # before the optimizer is made" : "");
    if (!is_training)
        return keep(arena,
                    "with torch.autocast(\"cuda\", dtype=torch.%s):\n"
                    "    output = %s",
                    type, pass.output);
    if (is_fp16(to->precision))
        return keep(arena,
                    "scaler = torch.amp.GradScaler(\"cuda\")\n"
                    "with torch.autocast(\"cuda\", dtype=torch.float16):\n"
                    "    loss = %s\n"
                    "scaler.scale(loss).backward()\n"
                    "scaler.step(optimizer)\n"
                    "scaler.update()",
                    pass.loss);
    return keep(arena,
                "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
                "    loss = %s\n"
                "loss.backward()  # outside of it",
                pass.loss);
}

static const char *optimizer_code(vw__arena *arena, vw_optimizer optimizer)
{
    switch (optimizer) {
    case VW_OPTIMIZER_ADAMW_FUSED:
        return keep(arena, "optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)");
    case VW_OPTIMIZER_ADAM_8BIT:
        return keep(arena, "import bitsandbytes as bnb\n"
                           "optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=lr)");
    case VW_OPTIMIZER_PAGED_ADAM_8BIT:
        return keep(arena, "import bitsandbytes as bnb\n"
                           "optimizer = bnb.optim.PagedAdamW8bit(model.parameters(), lr=lr)");
    default:
        return keep(arena, "optimizer = torch.optim.Adafactor(model.parameters(), lr=lr)");
    }
}

static const char *checkpointing_code(vw__arena *arena, const vw_plan_model *model,
                                      const vw_plan_settings *to)
{
    if (!is_of_transformers(model))
        return keep(arena, "from torch.utils.checkpoint import checkpoint\n"
                           "x = checkpoint(block, x, use_reentrant=False)  # for each block, in "
                           "forward()");
    if (to->checkpointing == VW_CHECKPOINTING_FULL)
        return keep(arena, "model.gradient_checkpointing_enable(\n"
                           "    gradient_checkpointing_kwargs={\"use_reentrant\": False})");
    return keep(arena, "from functools import partial\n"
                       "from torch.utils.checkpoint import create_selective_checkpoint_contexts\n"
                       "aten = torch.ops.aten\n"
                       "kept = [aten.mm.default, aten.addmm.default, aten.bmm.default,\n"
                       "        aten._scaled_dot_product_flash_attention.default,\n"
                       "        aten._scaled_dot_product_efficient_attention.default]\n"
                       "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={\n"
                       "    \"use_reentrant\": False,\n"
                       "    \"context_fn\": partial(create_selective_checkpoint_contexts, kept)})");
}

/* What comes before the head, and its last product; as the family's class has them. */
typedef struct head_lines {
    const char *hidden, *labels, *product;
} head_lines;

static head_lines head_of(const vw_plan_model *model)
{
    if (model->family == &vw__family_t5)
        return (head_lines){.hidden = "encoded = model.encoder(input_ids).last_hidden_state\n"
                                      "hidden = model.decoder(model._shift_right(labels), "
                                      "encoder_hidden_states=encoded)\n"
                                      "hidden = hidden.last_hidden_state.flatten(0, 1)",
                            .labels = "labels.flatten()",
                            .product = model->shape.is_tied
                                           ? "model.lm_head(hidden * model.model_dim**-0.5)"
                                           : "model.lm_head(hidden)"};
    if (model->family == &vw__family_bert && model->shape.position_offset > 0)
        return (head_lines){
            .hidden = "hidden = model.lm_head.dense(model.roberta(input_ids).last_hidden_state)\n"
                      "hidden = model.lm_head.layer_norm(F.gelu(hidden)).flatten(0, 1)",
            .labels = "labels.flatten()",
            .product = "model.lm_head.decoder(hidden)"};
    if (model->family == &vw__family_bert)
        return (head_lines){.hidden = "hidden = model.bert(input_ids).last_hidden_state\n"
                                      "hidden = model.cls.predictions.transform(hidden)"
                                      ".flatten(0, 1)",
                            .labels = "labels.flatten()",
                            .product = "model.cls.predictions.decoder(hidden)"};
    return (head_lines){.hidden = "hidden = model.base_model(input_ids).last_hidden_state"
                                  "[:, :-1].flatten(0, 1)",
                        .labels = "input_ids[:, 1:].flatten()",
                        .product = "model.get_output_embeddings()(hidden).float()"};
}

static const char *loss_code(vw__arena *arena, const vw_plan_model *model,
                             const vw_plan_settings *to)
{
    const head_lines head = head_of(model);
    return keep(arena,
                "from torch.utils.checkpoint import checkpoint\n"
                "def chunk_loss(hidden, labels):\n"
                "    logits = %s\n"
                "    return F.cross_entropy(logits, labels, reduction=\"sum\")\n"
                "%s\n"
                "labels = %s\n"
                "loss = sum(checkpoint(chunk_loss, h, y, use_reentrant=False) for h, y in\n"
                "           zip(hidden.chunk(%" PRIu64 "), labels.chunk(%" PRIu64
                "))) / (labels != -100).sum()",
                head.product, head.hidden, head.labels, to->loss_chunks, to->loss_chunks);
}

static const char *fsdp_code(vw__arena *arena, const vw_plan_settings *to)
{
    const char *optimizer =
        to->mode != VW_PLAN_MODE_TRAIN ? ""
        : to->optimizer == VW_OPTIMIZER_ADAMW_FUSED
            ? "\noptimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)  # after it"
            : "\noptimizer = torch.optim.AdamW(model.parameters(), lr=lr)  # after it";
    return keep(arena,
                "from torch.distributed.fsdp import fully_shard\n"
                "for block in blocks:  # the model's list of layers\n"
                "    fully_shard(block)\n"
                "fully_shard(model)%s",
                optimizer);
}

static const char *sharding_code(vw__arena *arena, const vw_plan_settings *to)
{
    if (to->sharding == VW_SHARDING_FSDP)
        return fsdp_code(arena, to);
    if (to->mode != VW_PLAN_MODE_TRAIN)
        return keep(arena, "config = {\"train_micro_batch_size_per_gpu\": 1,\n"
                           "          \"zero_optimization\": {\"stage\": 3}}\n"
                           "model = deepspeed.initialize(model=model, config=config)[0].eval()");
    return keep(arena,
                "config = {\"train_micro_batch_size_per_gpu\": batch,\n"
                "          \"zero_optimization\": {\"stage\": %d}}\n"
                "model, optimizer, _, _ = deepspeed.initialize(\n"
                "    model=model, optimizer=optimizer, config=config)",
                1 + (int)to->sharding - (int)VW_SHARDING_ZERO_1);
}

static const char *method_code(vw__arena *arena, const vw_plan_settings *to)
{
    if (!to->is_quantized)
        return keep(arena,
                    "from peft import LoraConfig, get_peft_model\n"
                    "model = get_peft_model(model, LoraConfig(r=%" PRIu64 "))",
                    to->lora_rank);
    return keep(arena,
                "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training\n"
                "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\n"
                "model = AutoModelForCausalLM.from_pretrained(name,\n"
                "    quantization_config=BitsAndBytesConfig(\n"
                "        load_in_4bit=True, bnb_4bit_quant_type=\"nf4\",\n"
                "        bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.%s%s))\n"
                "model = prepare_model_for_kbit_training(model)\n"
                "model = get_peft_model(model, LoraConfig(r=%" PRIu64 "))",
                is_fp16(to->precision) ? "float16" : "bfloat16",
                to->sharding == VW_SHARDING_FSDP
                    ? ",\n        bnb_4bit_quant_storage=torch.float32" /* as all else: one type */
                    : "",
                to->lora_rank);
}

/* All of the state: no card is known to hold a part of it. */
static const char *spill_code(vw__arena *arena, const vw_plan_model *model,
                              const vw_plan_settings *to)
{
    char command[VW__SPILL_COMMAND_BYTES];
    vw__plan_peaks peaks;
    if (vw__plan_estimate(model, to, &peaks) != VW_OK)
        return NULL;
    return keep(arena, "%s", vw__spill_command(peaks.pageable_bytes, command));
}

static const char *offload_code(vw__arena *arena, const vw_plan_model *model,
                                const vw_plan_settings *to)
{
    if (to->offload == VW_OFFLOAD_SPILL)
        return spill_code(arena, model, to);
    if (to->offload == VW_OFFLOAD_OPTIMIZER)
        return keep(arena, "from torchao.optim import CPUOffloadOptimizer\n"
                           "optimizer = CPUOffloadOptimizer(\n"
                           "    model.parameters(), torch.optim.AdamW, fused=True, lr=lr)");
    if (to->mode != VW_PLAN_MODE_TRAIN)
        return keep(arena, "from accelerate import cpu_offload\n"
                           "cpu_offload(model, execution_device=\"cuda\")");
    return keep(arena, "from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard\n"
                       "for block in blocks:  # the model's list of layers\n"
                       "    fully_shard(block, offload_policy=CPUOffloadPolicy())\n"
                       "fully_shard(model, offload_policy=CPUOffloadPolicy())\n"
                       "optimizer = torch.optim.AdamW(model.parameters(), lr=lr)  # after it");
}

const char *vw__change_code(vw__arena *arena, vw__change change, const vw_plan_model *model,
                            const vw_plan_settings *to)
{
    switch (change) {
    case VW__CHANGE_ATTENTION:
        return keep(arena, "model = AutoModel.from_pretrained(name, attn_implementation=\"%s\")",
                    to->attention == VW_ATTENTION_FLASH ? "flash_attention_2" : "sdpa");
    case VW__CHANGE_LOSS:
        return loss_code(arena, model, to);
    case VW__CHANGE_PRECISION:
        return precision_code(arena, model, to);
    case VW__CHANGE_OPTIMIZER:
        return optimizer_code(arena, to->optimizer);
    case VW__CHANGE_BATCH:
        return batch_code(arena, model, to);
    case VW__CHANGE_CHECKPOINTING:
        return checkpointing_code(arena, model, to);
    case VW__CHANGE_SHARDING:
        return sharding_code(arena, to);
    case VW__CHANGE_METHOD:
        return method_code(arena, to);
    case VW__CHANGE_OFFLOAD:
        return offload_code(arena, model, to);
    case VW__CHANGE_COUNT:
        break;
    }
    return NULL;
}
