/* technique_offers.c - the techniques: what each leaves of each portion, its cost, and the code.
 *
 * Each range has its reason beside it. Bytes were counted in the sources, tensor by tensor that
 * autograd saves: PyTorch 2.9 (derivatives.yaml, autocast_mode.h, adam.py), transformers 5 (GPT-2,
 * Llama, BERT, ViT), bitsandbytes (optimizer.py), Liger (fused_linear_cross_entropy.py); times are
 * those that torchtune measured, and that transformers, Megatron-LM and DeepSpeed report. Nothing
 * is taken from recordings that this was tried on.
 *
 * What stacks show to be in use already (checkpointing, 16-bit work, an 8-bit optimizer) is not
 * advised again; what they cannot show is advised with "if it is not on yet". */
#include "base/checked_math.h"
#include "base/error.h"
#include "plan/techniques.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static vw__offer *add_offer(vw__bargain *deal, const char *action, const char *cost,
                            const char *how, unsigned worth_percent)
{
    VW_ASSERT(deal->offer_count < VW__MOST_OFFERS);
    vw__offer *made = &deal->offers[deal->offer_count++];
    *made = (vw__offer){
        .action = action,
        .cost = cost,
        .how = how,
        .hopeful = vw__what_if_nothing(),
        .cautious = vw__what_if_nothing(),
        .worth_percent = worth_percent,
    };
    return made;
}

/* What is left of a portion: at best, and at worst. */
static void leave(vw__offer *made, vw__portion portion, unsigned best_permille,
                  unsigned worst_permille)
{
    made->hopeful.kept_permille[portion] = (uint16_t)best_permille;
    made->cautious.kept_permille[portion] = (uint16_t)worst_permille;
}

/* Batches that are split, by how many parts. */
typedef struct batch_texts {
    unsigned parts;
    const char *action, *how;
    const char *action_without_training, *how_without_training;
} batch_texts;

#define SPLIT(parts)                                                                               \
    {                                                                                              \
        parts, "split each batch in " #parts " and accumulate gradients",                          \
            "# batch_size // " #parts " in the loader: the effective batch stays\n"                \
            "for i, batch in enumerate(loader):\n"                                                 \
            "    loss = loss_of(model, batch) / " #parts "\n"                                      \
            "    loss.backward()\n"                                                                \
            "    if (i + 1) % " #parts " == 0:\n"                                                  \
            "        optimizer.step()\n"                                                           \
            "        optimizer.zero_grad()",                                                       \
            "split each batch in " #parts,                                                         \
            "outputs = [model(part) for part in batch.chunk(" #parts ")]"                          \
    }

static const batch_texts batches[] = {SPLIT(2), SPLIT(4), SPLIT(8), SPLIT(16)};

/* Activations are in proportion to the batch; so is most of what passes need on the way, but not
 * the gradient of a weight: at worst a fifth of the saving is lost. Accumulating keeps a whole set
 * of gradients through every forward pass, where one micro-batch had none. Where no step was seen
 * to its end it is not known how large that set is: at worst, as large as the weights. */
static void offer_smaller_batch(vw__bargain *deal, const batch_texts *texts)
{
    bool trains = deal->uses.may_train;
    unsigned parts = texts->parts;
    const char *cost = trains ? "none to 10 % of time; batch norm sees the smaller batch"
                              : "time, where the smaller batches leave the GPU idle";
    vw__offer *made = add_offer(deal, trains ? texts->action : texts->action_without_training, cost,
                                trains ? texts->how : texts->how_without_training, 90);
    unsigned best = (1000 + parts - 1) / parts, worst = 1000 - (1000 - best) * 8 / 10;
    made->batch_parts = parts;
    static const vw__portion shrinking[] = {VW__PORTION_ACTIVATIONS, VW__PORTION_LOSS,
                                            VW__PORTION_PASS_WORK, VW__PORTION_DATA};
    for (size_t i = 0; i < COUNT_OF(shrinking); i++)
        leave(made, shrinking[i], best, worst);
    if (!trains)
        leave(made, VW__PORTION_KV_CACHE, best, worst);
    if (trains) {
        leave(made, VW__PORTION_GRADIENTS, 0, 0);
        made->hopeful.added_bytes = deal->gradient_bytes;
        made->cautious.added_bytes = deal->uses.has_step
                                         ? deal->gradient_bytes
                                         : vw__max_u64(deal->gradient_bytes, deal->weight_bytes);
    }
}

/* Kept of a checkpointed block are its inputs, of GPT-2 3.5 % and of Llama 4 %; besides, one block
 * at a time is recomputed, which of four layers is a quarter and of two a half. The loss is outside
 * of the blocks. Time: 20 to 33 %, by five sources. */
static void offer_checkpointing(vw__bargain *deal)
{
    if ((deal->uses.techniques & VW__USES_CHECKPOINTING) != 0)
        return;
    const char *how = (deal->uses.techniques & VW__USES_TRANSFORMERS) != 0
                          ? "model.gradient_checkpointing_enable()"
                          : "from torch.utils.checkpoint import checkpoint\n"
                            "for block in self.blocks:  # in the model's forward\n"
                            "    x = checkpoint(block, x, use_reentrant=False)";
    vw__offer *made = add_offer(deal, "recompute activations in the backward pass (checkpointing)",
                                "20 to 33 % of time", how, 75);
    leave(made, VW__PORTION_ACTIVATIONS, 35, 400);
}

/* Bytes saved per token under autocast against fp32: GPT-2 with a fused GELU 58 %, ViT 62, BERT 64,
 * Llama 66, GPT-2 as it comes 75.4. Norms, the residual stream and the loss stay in fp32, gradients
 * on the way may; a copy of the weights in 16 bits comes on top. */
static void offer_autocast(vw__bargain *deal)
{
    if ((deal->uses.techniques & VW__USES_16_BITS) != 0)
        return;
    vw__offer *made = add_offer(deal, "compute in bfloat16 (autocast), if it is not on yet",
                                "usually faster; compare the loss over some steps",
                                "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
                                "    loss = loss_of(model, batch)\n"
                                "loss.backward()",
                                80);
    leave(made, VW__PORTION_ACTIVATIONS, 580, 760);
    leave(made, VW__PORTION_PASS_WORK, 500, 1000);
    leave(made, VW__PORTION_LOSS, 875, 1000);
    made->hopeful.added_bytes = made->cautious.added_bytes = deal->weight_bytes / 2;
}

/* With eight chunks one eighth of the logits exists at a time; a fused kernel (Liger) came to 3 %
 * with the gradients that it keeps. */
static void offer_chunked_loss(vw__bargain *deal)
{
    if ((deal->uses.techniques & VW__USES_FUSED_LOSS) != 0)
        return;
    vw__offer *made =
        add_offer(deal, "compute the loss in chunks, or with a fused kernel", "hardly any time",
                  "def chunk_loss(hidden, labels):\n"
                  "    return F.cross_entropy(lm_head(hidden).float(), labels,\n"
                  "                           reduction=\"sum\")\n"
                  "loss = sum(checkpoint(chunk_loss, h, y, use_reentrant=False)\n"
                  "           for h, y in zip(hidden.chunk(8), labels.chunk(8)))\n"
                  "loss = loss / labels.numel()  # hidden, labels: one row a token",
                  90);
    leave(made, VW__PORTION_LOSS, 30, 125);
}

/* A byte and 8/256 for each of two states: 2.03 bytes of 8 in fp32, of 4 in bf16; nothing on the
 * way. */
static void offer_8_bit_state(vw__bargain *deal)
{
    if ((deal->uses.techniques & VW__USES_8_BIT_STATE) != 0)
        return;
    vw__offer *made = add_offer(deal, "use an 8-bit optimizer",
                                "up to 5 % of time; its state is rounded to 8 bits",
                                "import bitsandbytes as bnb\n"
                                "optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=...)\n"
                                "# or Adam8bit, SGD8bit, Lion8bit",
                                80);
    leave(made, VW__PORTION_OPTIMIZER, 254, 508);
    leave(made, VW__PORTION_STEP_WORK, 0, 0);
}

/* The default, foreach, works on all parameters of a group at once and needs a copy of them on the
 * way; fused needs none, the plain loop that of the largest parameter. */
static void offer_fused_step(vw__bargain *deal)
{
    if ((deal->uses.techniques & VW__USES_FOREACH) == 0)
        return;
    vw__offer *made = add_offer(deal, "use the optimizer's fused step", "none: as fast, or faster",
                                "optimizer = torch.optim.AdamW(model.parameters(), lr=...,\n"
                                "                              fused=True)\n"
                                "# one that has no fused step: foreach=False",
                                100);
    leave(made, VW__PORTION_STEP_WORK, 0, 0);
    made->cautious.added_bytes = deal->largest_bytes[VW__PORTION_STEP_WORK];
}

/* Without a backward pass nothing is saved for one: what is left is what one layer works on, two
 * blocks at best, and the five of a gated one at worst, none larger than the largest. */
static void offer_inference_mode(vw__bargain *deal)
{
    if (deal->uses.has_backward || deal->is_graph_kept)
        return; /* no inference, or told there */
    uint64_t largest = deal->largest_bytes[VW__PORTION_ACTIVATIONS];
    uint64_t all = deal->portion_bytes[VW__PORTION_ACTIVATIONS];
    vw__offer *made =
        add_offer(deal, "if no backward pass follows: torch.inference_mode(), if it is not on yet",
                  "none; its outputs cannot be trained on",
                  "with torch.inference_mode():\n    outputs = model(inputs)",
                  deal->uses.may_train ? 50 : 100);
    leave(made, VW__PORTION_ACTIVATIONS, 0, 0);
    made->hopeful.added_bytes = largest > all / 2 ? all : 2 * largest;
    made->cautious.added_bytes = largest > all / 5 ? all : 5 * largest;
}

/* For inference, and models that fail while they are loaded. fp32 to 16 bits, or 16 to 8, is a
 * half; 16 bits to NF4 0.516 bytes of 2. */
static void offer_fewer_bits(vw__bargain *deal)
{
    vw__offer *made =
        add_offer(deal, "load the weights in fewer bits",
                  "accuracy: hardly any at 16 bits, some at 4; compare outputs",
                  (deal->uses.techniques & VW__USES_TRANSFORMERS) != 0
                      ? "model = AutoModel.from_pretrained(name, dtype=torch.bfloat16)\n"
                        "# 16 bits already: quantization_config=BitsAndBytesConfig(\n"
                        "#     load_in_4bit=True)"
                      : "model = model.to(torch.bfloat16)  # from fp32",
                  70);
    leave(made, VW__PORTION_WEIGHTS, 258, 500);
}

static void offer_offload(vw__bargain *deal)
{
    vw__offer *made = add_offer(deal, "keep the optimizer's state in host memory",
                                "every step waits for the bus and the CPU: seconds for billions of"
                                " parameters",
                                "# DeepSpeed's configuration\n"
                                "\"zero_optimization\": {\"stage\": 2,\n"
                                "    \"offload_optimizer\": {\"device\": \"cpu\"}}",
                                100);
    made->is_last_resort = true;
    leave(made, VW__PORTION_OPTIMIZER, 0, 0);
    leave(made, VW__PORTION_STEP_WORK, 0, 0);
}

/* Over two GPUs. ZeRO-3 and FSDP share out all three, stage 2 not the weights. */
static void offer_shards(vw__bargain *deal)
{
    if ((deal->uses.techniques & VW__USES_SHARDS) != 0)
        return;
    bool has_gpus = (deal->uses.techniques & VW__USES_SEVERAL_GPUS) != 0;
    vw__offer *made = add_offer(
        deal,
        has_gpus ? "shard weights, gradients and optimizer state over the GPUs (here: two)"
                 : "shard weights, gradients and optimizer state over two GPUs",
        has_gpus ? "up to 1.5 times the communication" : "a second GPU, and communication",
        "from torch.distributed.fsdp import fully_shard\n"
        "for block in model.blocks:\n"
        "    fully_shard(block)\n"
        "fully_shard(model)",
        100);
    made->is_last_resort = true;
    leave(made, VW__PORTION_WEIGHTS, 500, 1000);
    leave(made, VW__PORTION_GRADIENTS, 500, 500);
    leave(made, VW__PORTION_OPTIMIZER, 500, 500);
}

void vw__bargain_list(vw__bargain *deal)
{
    for (size_t i = 0; i < COUNT_OF(batches); i++)
        offer_smaller_batch(deal, &batches[i]);
    offer_inference_mode(deal);
    if (deal->portion_bytes[VW__PORTION_LOSS] != 0 || deal->run.request_portion == VW__PORTION_LOSS)
        offer_chunked_loss(deal);
    if (deal->uses.may_train) {
        offer_checkpointing(deal);
        offer_autocast(deal);
        offer_8_bit_state(deal);
        offer_fused_step(deal);
        offer_offload(deal);
        offer_shards(deal);
    }
    if (!deal->uses.has_backward)
        offer_fewer_bits(deal);
}
