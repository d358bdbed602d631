/* peak_remedies.c - what the usual remedies would do to this peak.
 *
 * Every remedy is a change of sizes (what_if.h), twice: what it leaves at best, and what it leaves
 * at worst. Both are computed over the whole run, and what they take off the peak is the range that
 * is shown. Each range has its reason beside it. Bytes were counted in the sources, tensor by
 * tensor that autograd saves: PyTorch 2.9 (derivatives.yaml, autocast_mode.h, adam.py),
 * transformers 5 (GPT-2, Llama, BERT, ViT), bitsandbytes (optimizer.py), Liger
 * (fused_linear_cross_entropy.py); times are those that torchtune measured, and that transformers,
 * Megatron-LM and DeepSpeed report. Nothing is taken from recordings that this was tried on.
 *
 * What stacks show to be in use already (checkpointing, 16-bit work, an 8-bit optimizer) is not
 * advised again; what they cannot show is advised with "if it is not on yet".
 *
 * Order. What is enough for the failed request even at worst comes first, the cheapest of it before
 * all; then what gives back most for its cost in time and effort. What needs other hardware, or
 * makes every step wait for it, is last, whatever it gives.
 *
 * What we did not do: add remedies up. They are not additive (with less activations the peak may be
 * the optimizer's step), and each pair would be a table of its own. */
#include "doctor/peak_parts.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/human_units.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum {
    MOST_OFFERS = 16,
    MOST_BATCH_PARTS = 16,
    MOST_TOLD_IN_PASSING = 3, /* where the peak is no problem */
    LEAST_PART = 50,          /* of the peak: what gives back less is not worth a line */
    FEW_FORWARDS = 4,         /* without a backward pass: it may just not have come yet */
};

/* ---- what is known of the program ------------------------------------------------------------ */

/* What stacks show. */
enum {
    USES_CHECKPOINTING = 1 << 0,
    USES_16_BITS = 1 << 1,
    USES_8_BIT_STATE = 1 << 2,
    USES_FOREACH = 1 << 3,
    USES_SHARDS = 1 << 4,
    USES_SEVERAL_GPUS = 1 << 5,
    USES_TRANSFORMERS = 1 << 6,
    USES_FUSED_LOSS = 1 << 7,
};

static const struct {
    const char *path;
    const char *function_beginning; /* NULL = any */
    unsigned use;
} use_rules[] = {
    {"torch/utils/checkpoint.py", NULL, USES_CHECKPOINTING},
    {"deepspeed/runtime/activation_checkpointing/", NULL, USES_CHECKPOINTING},
    {"torch/amp/", NULL, USES_16_BITS},
    {"torch/cuda/amp/", NULL, USES_16_BITS},
    {"apex/amp/", NULL, USES_16_BITS},
    {"flash_attn/", NULL, USES_16_BITS}, /* its kernels take nothing else */
    {"bitsandbytes/optim/", NULL, USES_8_BIT_STATE},
    {"torchao/optim/", NULL, USES_8_BIT_STATE},
    {"torch/optim/", "_multi_tensor_", USES_FOREACH},
    {"torch/distributed/fsdp/", NULL, USES_SHARDS},
    {"torch/distributed/_composable/fsdp/", NULL, USES_SHARDS},
    {"deepspeed/runtime/zero/", NULL, USES_SHARDS},
    {"torch/nn/parallel/", NULL, USES_SEVERAL_GPUS},
    {"torch/distributed/", NULL, USES_SEVERAL_GPUS},
    {"transformers/", NULL, USES_TRANSFORMERS},
    {"liger_kernel/", NULL, USES_FUSED_LOSS},
};

static unsigned find_uses(const hr__model *model)
{
    unsigned uses = 0;
    for (size_t i = 0; i < model->frame_count; i++) {
        const char *function = hr__model_string(model, model->frames[i].name);
        const char *file = hr__model_string(model, model->frames[i].filename);
        for (size_t r = 0; r < COUNT_OF(use_rules); r++) {
            const char *beginning = use_rules[r].function_beginning;
            if ((uses & use_rules[r].use) == 0 &&
                (beginning == NULL || strncmp(function, beginning, strlen(beginning)) == 0) &&
                hr__path_has(file, use_rules[r].path))
                uses |= use_rules[r].use;
        }
    }
    return uses;
}

/* A remedy that is being weighed. */
typedef struct offer {
    const char *action, *cost, *how;
    hr__what_if hopeful, cautious;
    unsigned worth_percent; /* of a byte that it gives back: less where it costs more */
    unsigned batch_parts;   /* 0: no matter of the batch */
    bool is_last_resort;    /* other hardware, or slow */
    uint64_t at_least_bytes, at_most_bytes; /* that it takes off the peak */
    bool is_enough;                         /* at worst, for the failed request */
} offer;

typedef struct bargain {
    hr__case *given;
    const hr__peak *peak;
    hr__what_if_run run;
    unsigned uses;
    bool has_backward, has_step; /* a backward pass, or a whole step, was seen */
    bool may_train;              /* a backward pass may be to come */
    uint64_t base_bytes;         /* the peak as it was, the failed request included */
    uint64_t missing_bytes;      /* as of hr__peak, but for the whole run if it is known */
    uint64_t gradient_bytes, weight_bytes; /* the most of each, at any instant */
    offer offers[MOST_OFFERS];
    size_t offer_count;
} bargain;

static void look_at_passes(bargain *deal)
{
    const hr__roles *roles = &deal->given->roles;
    size_t forward_count = 0;
    for (size_t i = 0; i < roles->pass_count && roles->passes[i].begin < deal->run.last_instant;
         i++) {
        uint8_t kind = roles->passes[i].kind;
        forward_count += kind == HR__PASS_FORWARD;
        deal->has_backward = deal->has_backward || kind == HR__PASS_BACKWARD;
        deal->has_step = deal->has_step || kind == HR__PASS_OPTIMIZER;
    }
    deal->may_train = deal->has_backward || forward_count < FEW_FORWARDS;
}

/* ---- offers ---------------------------------------------------------------------------------- */

static offer *add_offer(bargain *deal, const char *action, const char *cost, const char *how,
                        unsigned worth_percent)
{
    HR_ASSERT(deal->offer_count < MOST_OFFERS);
    offer *made = &deal->offers[deal->offer_count++];
    *made = (offer){
        .action = action,
        .cost = cost,
        .how = how,
        .hopeful = hr__what_if_nothing(),
        .cautious = hr__what_if_nothing(),
        .worth_percent = worth_percent,
    };
    return made;
}

/* What is left of a portion: at best, and at worst. */
static void leave(offer *made, hr__portion portion, unsigned best_permille, unsigned worst_permille)
{
    made->hopeful.kept_permille[portion] = (uint16_t)best_permille;
    made->cautious.kept_permille[portion] = (uint16_t)worst_permille;
}

/* Activations are in proportion to the batch; so is most of what passes need on the way, but not
 * the gradient of a weight: at worst a fifth of the saving is lost. Accumulating keeps a whole set
 * of gradients through every forward pass, where one micro-batch had none. Where no step was seen
 * to its end it is not known how large that set is: at worst, as large as the weights. */
static void offer_smaller_batch(bargain *deal, unsigned parts)
{
    hr__diagnosis_draft *draft = deal->given->draft;
    bool trains = deal->may_train;
    const char *action =
        trains ? hr__diagnosis_text(draft, "split each batch in %u and accumulate gradients", parts)
               : hr__diagnosis_text(draft, "split each batch in %u", parts);
    const char *cost = trains ? "none to 10 % of time; batch norm sees the smaller batch"
                              : "time, where the smaller batches leave the GPU idle";
    const char *how =
        trains ? hr__diagnosis_text(draft,
                                    "# batch_size // %u in the loader: the effective batch stays\n"
                                    "for i, batch in enumerate(loader):\n"
                                    "    loss = loss_of(model, batch) / %u\n"
                                    "    loss.backward()\n"
                                    "    if (i + 1) %% %u == 0:\n"
                                    "        optimizer.step()\n"
                                    "        optimizer.zero_grad()",
                                    parts, parts, parts)
               : hr__diagnosis_text(draft, "outputs = [model(part) for part in batch.chunk(%u)]",
                                    parts);
    offer *made = add_offer(deal, action, cost, how, 90);
    unsigned best = (1000 + parts - 1) / parts, worst = 1000 - (1000 - best) * 8 / 10;
    made->batch_parts = parts;
    static const hr__portion shrinking[] = {HR__PORTION_ACTIVATIONS, HR__PORTION_LOSS,
                                            HR__PORTION_PASS_WORK, HR__PORTION_DATA};
    for (size_t i = 0; i < COUNT_OF(shrinking); i++)
        leave(made, shrinking[i], best, worst);
    if (!trains)
        leave(made, HR__PORTION_KV_CACHE, best, worst);
    if (trains) {
        leave(made, HR__PORTION_GRADIENTS, 0, 0);
        made->hopeful.added_bytes = deal->gradient_bytes;
        made->cautious.added_bytes = deal->has_step
                                         ? deal->gradient_bytes
                                         : hr__max_u64(deal->gradient_bytes, deal->weight_bytes);
    }
}

/* Kept of a checkpointed block are its inputs, of GPT-2 3.5 % and of Llama 4 %; besides, one block
 * at a time is recomputed, which of four layers is a quarter and of two a half. The loss is outside
 * of the blocks. Time: 20 to 33 %, by five sources. */
static void offer_checkpointing(bargain *deal)
{
    if ((deal->uses & USES_CHECKPOINTING) != 0)
        return;
    const char *how = (deal->uses & USES_TRANSFORMERS) != 0
                          ? "model.gradient_checkpointing_enable()"
                          : "from torch.utils.checkpoint import checkpoint\n"
                            "for block in self.blocks:  # in the model's forward\n"
                            "    x = checkpoint(block, x, use_reentrant=False)";
    offer *made = add_offer(deal, "recompute activations in the backward pass (checkpointing)",
                            "20 to 33 % of time", how, 75);
    leave(made, HR__PORTION_ACTIVATIONS, 35, 400);
}

/* Bytes saved per token under autocast against fp32: GPT-2 with a fused GELU 58 %, ViT 62, BERT 64,
 * Llama 66, GPT-2 as it comes 75.4. Norms, the residual stream and the loss stay in fp32, gradients
 * on the way may; a copy of the weights in 16 bits comes on top. */
static void offer_autocast(bargain *deal)
{
    if ((deal->uses & USES_16_BITS) != 0)
        return;
    offer *made = add_offer(deal, "compute in bfloat16 (autocast), if it is not on yet",
                            "usually faster; compare the loss over some steps",
                            "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
                            "    loss = loss_of(model, batch)\n"
                            "loss.backward()",
                            80);
    leave(made, HR__PORTION_ACTIVATIONS, 580, 760);
    leave(made, HR__PORTION_PASS_WORK, 500, 1000);
    leave(made, HR__PORTION_LOSS, 875, 1000);
    made->hopeful.added_bytes = made->cautious.added_bytes = deal->weight_bytes / 2;
}

/* With eight chunks one eighth of the logits exists at a time; a fused kernel (Liger) came to 3 %
 * with the gradients that it keeps. */
static void offer_chunked_loss(bargain *deal)
{
    if ((deal->uses & USES_FUSED_LOSS) != 0)
        return;
    offer *made =
        add_offer(deal, "compute the loss in chunks, or with a fused kernel", "hardly any time",
                  "def chunk_loss(hidden, labels):\n"
                  "    return F.cross_entropy(lm_head(hidden).float(), labels,\n"
                  "                           reduction=\"sum\")\n"
                  "loss = sum(checkpoint(chunk_loss, h, y, use_reentrant=False)\n"
                  "           for h, y in zip(hidden.chunk(8), labels.chunk(8)))\n"
                  "loss = loss / labels.numel()  # hidden, labels: one row a token",
                  90);
    leave(made, HR__PORTION_LOSS, 30, 125);
}

/* A byte and 8/256 for each of two states: 2.03 bytes of 8 in fp32, of 4 in bf16; nothing on the
 * way. */
static void offer_8_bit_state(bargain *deal)
{
    if ((deal->uses & USES_8_BIT_STATE) != 0)
        return;
    offer *made = add_offer(deal, "use an 8-bit optimizer",
                            "up to 5 % of time; its state is rounded to 8 bits",
                            "import bitsandbytes as bnb\n"
                            "optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=...)\n"
                            "# or Adam8bit, SGD8bit, Lion8bit",
                            80);
    leave(made, HR__PORTION_OPTIMIZER, 254, 508);
    leave(made, HR__PORTION_STEP_WORK, 0, 0);
}

/* The default, foreach, works on all parameters of a group at once and needs a copy of them on the
 * way; fused needs none, the plain loop that of the largest parameter. */
static void offer_fused_step(bargain *deal)
{
    if ((deal->uses & USES_FOREACH) == 0)
        return;
    offer *made = add_offer(deal, "use the optimizer's fused step", "none: as fast, or faster",
                            "optimizer = torch.optim.AdamW(model.parameters(), lr=...,\n"
                            "                              fused=True)\n"
                            "# one that has no fused step: foreach=False",
                            100);
    leave(made, HR__PORTION_STEP_WORK, 0, 0);
    made->cautious.added_bytes = deal->peak->largest_bytes[HR__PORTION_STEP_WORK];
}

/* Without a backward pass nothing is saved for one: what is left is what one layer works on, two
 * blocks at best, and the five of a gated one at worst, none larger than the largest. */
static void offer_inference_mode(bargain *deal)
{
    if (deal->has_backward || deal->given->kept_graph_bytes != 0)
        return; /* no inference, or told there */
    uint64_t largest = deal->peak->largest_bytes[HR__PORTION_ACTIVATIONS];
    uint64_t all = deal->peak->portion_bytes[HR__PORTION_ACTIVATIONS];
    offer *made = add_offer(
        deal, "if no backward pass follows: torch.inference_mode(), if it is not on yet",
        "none; its outputs cannot be trained on",
        "with torch.inference_mode():\n    outputs = model(inputs)", deal->may_train ? 50 : 100);
    leave(made, HR__PORTION_ACTIVATIONS, 0, 0);
    made->hopeful.added_bytes = largest > all / 2 ? all : 2 * largest;
    made->cautious.added_bytes = largest > all / 5 ? all : 5 * largest;
}

/* For inference, and models that fail while they are loaded. fp32 to 16 bits, or 16 to 8, is a
 * half; 16 bits to NF4 0.516 bytes of 2. */
static void offer_fewer_bits(bargain *deal)
{
    offer *made = add_offer(deal, "load the weights in fewer bits",
                            "accuracy: hardly any at 16 bits, some at 4; compare outputs",
                            (deal->uses & USES_TRANSFORMERS) != 0
                                ? "model = AutoModel.from_pretrained(name, dtype=torch.bfloat16)\n"
                                  "# 16 bits already: quantization_config=BitsAndBytesConfig(\n"
                                  "#     load_in_4bit=True)"
                                : "model = model.to(torch.bfloat16)  # from fp32",
                            70);
    leave(made, HR__PORTION_WEIGHTS, 258, 500);
}

static void offer_offload(bargain *deal)
{
    offer *made = add_offer(deal, "keep the optimizer's state in host memory",
                            "every step waits for the bus and the CPU: seconds for billions of"
                            " parameters",
                            "# DeepSpeed's configuration\n"
                            "\"zero_optimization\": {\"stage\": 2,\n"
                            "    \"offload_optimizer\": {\"device\": \"cpu\"}}",
                            100);
    made->is_last_resort = true;
    leave(made, HR__PORTION_OPTIMIZER, 0, 0);
    leave(made, HR__PORTION_STEP_WORK, 0, 0);
}

/* PyTorch writes a trace for each GPU that it sees. */
static bool sees_several_gpus(const hr__model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->trace_count; i++)
        count += model->traces[i].device != HR__HOST_DEVICE;
    return count > 1;
}

/* Over two GPUs. ZeRO-3 and FSDP share out all three, stage 2 not the weights. */
static void offer_shards(bargain *deal)
{
    if ((deal->uses & USES_SHARDS) != 0)
        return;
    bool has_gpus = (deal->uses & USES_SEVERAL_GPUS) != 0 || sees_several_gpus(deal->given->model);
    offer *made = add_offer(
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
    leave(made, HR__PORTION_WEIGHTS, 500, 1000);
    leave(made, HR__PORTION_GRADIENTS, 500, 500);
    leave(made, HR__PORTION_OPTIMIZER, 500, 500);
}

static void make_offers(bargain *deal)
{
    for (unsigned parts = 2; parts <= MOST_BATCH_PARTS; parts *= 2)
        offer_smaller_batch(deal, parts);
    offer_inference_mode(deal);
    if (deal->peak->portion_bytes[HR__PORTION_LOSS] != 0 ||
        deal->peak->request_portion == HR__PORTION_LOSS)
        offer_chunked_loss(deal);
    if (deal->may_train) {
        offer_checkpointing(deal);
        offer_autocast(deal);
        offer_8_bit_state(deal);
        offer_fused_step(deal);
        offer_offload(deal);
        offer_shards(deal);
    }
    if (!deal->has_backward)
        offer_fewer_bits(deal);
}

/* ---- weighing -------------------------------------------------------------------------------- */

/* Of a run that only would have failed, on another card, it is known what it still needed. What was
 * alive there, with what there was of the request, is what fits. */
static uint64_t missing_bytes(const bargain *deal)
{
    const hr__peak *peak = deal->peak;
    if (peak->has_broken_off || peak->missing_bytes == 0 || peak->missing_bytes == HR_UNKNOWN)
        return peak->missing_bytes;
    uint64_t fitting_bytes = peak->live_bytes + (peak->request_bytes - peak->missing_bytes);
    return deal->base_bytes > fitting_bytes
               ? hr__max_u64(deal->base_bytes - fitting_bytes, peak->missing_bytes)
               : peak->missing_bytes;
}

/* The peak as it was, and the most of gradients and of weights. */
static hr_status measure(bargain *deal)
{
    hr__what_if questions[3] = {hr__what_if_nothing()};
    hr__what_if_peak peaks[3];
    questions[1].kept_permille[HR__PORTION_GRADIENTS] = 1000; /* and nothing else */
    questions[2].kept_permille[HR__PORTION_WEIGHTS] = 1000;
    HR__TRY(hr__what_if_ask(&deal->run, questions, COUNT_OF(questions), peaks));
    deal->base_bytes = peaks[0].bytes;
    deal->missing_bytes = missing_bytes(deal);
    deal->gradient_bytes = peaks[1].bytes;
    deal->weight_bytes = peaks[2].bytes;
    return HR_OK;
}

static bool is_missing_known(const bargain *deal)
{
    return deal->missing_bytes != 0 && deal->missing_bytes != HR_UNKNOWN;
}

static hr_status weigh(bargain *deal)
{
    hr__what_if questions[2 * MOST_OFFERS];
    hr__what_if_peak peaks[2 * MOST_OFFERS];
    for (size_t i = 0; i < deal->offer_count; i++) {
        questions[2 * i] = deal->offers[i].hopeful;
        questions[2 * i + 1] = deal->offers[i].cautious;
    }
    HR__TRY(hr__what_if_ask(&deal->run, questions, 2 * deal->offer_count, peaks));
    for (size_t i = 0; i < deal->offer_count; i++) {
        offer *made = &deal->offers[i];
        if (!hr__sub_u64(deal->base_bytes, peaks[2 * i].bytes, &made->at_most_bytes))
            made->at_most_bytes = 0;
        if (!hr__sub_u64(deal->base_bytes, peaks[2 * i + 1].bytes, &made->at_least_bytes))
            made->at_least_bytes = 0;
        made->is_enough = is_missing_known(deal) && made->at_least_bytes >= deal->missing_bytes;
    }
    return HR_OK;
}

/* Of the batches the largest that is surely enough, else the largest that may be, else half. */
static unsigned choose_batch(const bargain *deal)
{
    unsigned maybe = 0;
    for (size_t i = 0; i < deal->offer_count && is_missing_known(deal); i++) {
        const offer *made = &deal->offers[i];
        if (made->batch_parts != 0 && made->is_enough)
            return made->batch_parts;
        if (made->batch_parts != 0 && maybe == 0 && made->at_most_bytes >= deal->missing_bytes)
            maybe = made->batch_parts;
    }
    return maybe != 0 ? maybe : 2;
}

static void drop_the_worthless(bargain *deal)
{
    unsigned batch_parts = choose_batch(deal);
    size_t kept = 0;
    for (size_t i = 0; i < deal->offer_count; i++) {
        const offer *made = &deal->offers[i];
        bool is_another_batch = made->batch_parts != 0 && made->batch_parts != batch_parts;
        if (!is_another_batch && made->at_most_bytes != 0 &&
            made->at_most_bytes >= deal->base_bytes / LEAST_PART)
            deal->offers[kept++] = *made;
    }
    deal->offer_count = kept;
}

static uint64_t worth_of(const offer *made)
{
    uint64_t middle = made->at_least_bytes / 2 + made->at_most_bytes / 2;
    return middle / 100 * made->worth_percent;
}

/* The one to try first comes first. Of those that are enough that is the cheapest. */
static int compare_offers(const void *left, const void *right)
{
    const offer *one = left, *other = right;
    if (one->is_last_resort != other->is_last_resort)
        return one->is_last_resort ? 1 : -1;
    if (one->is_enough != other->is_enough)
        return one->is_enough ? -1 : 1;
    if (one->is_enough && one->worth_percent != other->worth_percent)
        return one->worth_percent > other->worth_percent ? -1 : 1;
    uint64_t worth = worth_of(one), other_worth = worth_of(other);
    if (worth != other_worth)
        return worth > other_worth ? -1 : 1;
    return strcmp(one->action, other->action);
}

/* ---- telling --------------------------------------------------------------------------------- */

/* Is more alive than there is room for, and nothing else the cause of it? */
static bool is_a_problem(const bargain *deal)
{
    const hr__case *given = deal->given;
    uint64_t missing = deal->missing_bytes;
    bool is_other = missing != HR_UNKNOWN &&
                    (given->leaked_bytes >= missing || given->kept_graph_bytes >= missing);
    return given->failure.has_happened && missing != 0 && !is_other;
}

/* Of the first remedy: is it enough by itself? */
static const char *action_with_promise(const bargain *deal, const offer *made)
{
    hr__diagnosis_draft *draft = deal->given->draft;
    const char *what = deal->peak->has_broken_off ? "the failed request" : "the whole run";
    char short_of[HR__SIZE_TEXT_BYTES];
    if (made->is_enough)
        return hr__diagnosis_text(draft, "%s: enough by itself for %s", made->action, what);
    if (made->at_most_bytes >= deal->missing_bytes)
        return hr__diagnosis_text(draft, "%s: perhaps enough by itself for %s", made->action, what);
    return hr__diagnosis_text(draft, "%s: by itself still %s short", made->action,
                              hr__format_size(deal->missing_bytes - made->at_most_bytes, short_of));
}

/* Where roles are not known there is nothing to compute with, and still something to try. */
static void tell_the_rule(const bargain *deal, hr__finding_draft *finding)
{
    const hr__peak *peak = deal->peak;
    if (peak->portion_bytes[HR__PORTION_REST] > peak->live_bytes / 2)
        hr__finding_remedy(finding, "split each batch in 2 and accumulate gradients",
                           HR__SAVES_UNKNOWN, HR_BASIS_RULE,
                           "none to 10 % of time; batch norm sees the smaller batch",
                           "loss = loss_of(model, batch) / 2  # step() every second batch");
}

static void tell(const bargain *deal, hr__finding_draft *finding)
{
    bool is_problem = is_a_problem(deal);
    for (size_t i = 0; i < deal->offer_count; i++) {
        const offer *made = &deal->offers[i];
        bool is_first = i == 0 && is_problem && is_missing_known(deal);
        if (!is_problem && (i == MOST_TOLD_IN_PASSING || made->is_last_resort))
            break;
        hr__finding_remedy(finding, is_first ? action_with_promise(deal, made) : made->action,
                           (hr__savings){made->at_least_bytes, made->at_most_bytes},
                           HR_BASIS_COMPUTED, made->cost, made->how);
    }
    if (is_problem && deal->offer_count == 0)
        tell_the_rule(deal, finding);
}

hr_status hr__peak_remedies(hr__case *given, const hr__peak *peak, hr__finding_draft *finding)
{
    if (given->is_explained)
        return HR_OK; /* what they would save is what the leak or the graph holds */
    bool has_broken_off = peak->has_broken_off;
    bargain deal = {
        .given = given,
        .peak = peak,
        .run =
            {
                .timeline = &given->timeline,
                .portion_of = peak->portions,
                .last_instant = has_broken_off ? peak->instant : UINT32_MAX,
                .request_bytes = has_broken_off ? peak->request_bytes : 0,
                .request_portion = peak->request_portion,
            },
        .uses = find_uses(given->model),
    };
    look_at_passes(&deal);
    hr_status status = hr__what_if_prepare(&deal.run);
    if (status == HR_OK)
        status = measure(&deal);
    if (status == HR_OK) {
        make_offers(&deal);
        status = weigh(&deal);
    }
    if (status == HR_OK) {
        drop_the_worthless(&deal);
        qsort(deal.offers, deal.offer_count, sizeof deal.offers[0], compare_offers);
        tell(&deal, finding);
    }
    hr__what_if_deinit(&deal.run);
    return status;
}
