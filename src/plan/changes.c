/* changes.c - which settings form one change, which remedy that is, and the words for it.
 *
 * Costs and code are the remedy's (remedy/remedy.h); here are the words that a model and its
 * settings put into them. */
#include "plan/changes.h"

#include <inttypes.h>

#include "analysis/spill_cost.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "plan/plan_model.h"
#include "plan/plan_run.h"
#include "plan/plan_settings.h"
#include "remedy/remedy.h"

uint64_t vw__plan_change_value(vw__plan_change change, const vw_plan_settings *settings)
{
    switch (change) {
    case VW__PLAN_CHANGE_ATTENTION:
        return settings->attention;
    case VW__PLAN_CHANGE_LOSS:
        return settings->loss_chunks;
    case VW__PLAN_CHANGE_PRECISION:
        return settings->precision;
    case VW__PLAN_CHANGE_OPTIMIZER:
        return settings->optimizer;
    case VW__PLAN_CHANGE_BATCH:
        return settings->batch;
    case VW__PLAN_CHANGE_CHECKPOINTING:
        return settings->checkpointing;
    case VW__PLAN_CHANGE_SHARDING:
        return settings->sharding;
    case VW__PLAN_CHANGE_METHOD:
        return settings->lora_rank == 0 ? VW__PLAN_METHOD_ALL_WEIGHTS
               : settings->is_quantized ? VW__PLAN_METHOD_QLORA
                                        : VW__PLAN_METHOD_LORA;
    case VW__PLAN_CHANGE_OFFLOAD:
        return settings->offload;
    case VW__PLAN_CHANGE_COUNT:
        break;
    }
    return 0;
}

bool vw__plan_has_changed(vw__plan_change change, const vw_plan_settings *from,
                          const vw_plan_settings *to)
{
    return vw__plan_change_value(change, from) != vw__plan_change_value(change, to) ||
           (change == VW__PLAN_CHANGE_METHOD && from->lora_rank != to->lora_rank);
}

static bool is_adamw(vw_optimizer optimizer)
{
    return optimizer == VW_OPTIMIZER_ADAMW || optimizer == VW_OPTIMIZER_ADAMW_FUSED ||
           optimizer == VW_OPTIMIZER_ADAMW_LOOP;
}

vw__plan_distance vw__plan_distance_of(const vw_plan_settings *from, const vw_plan_settings *to)
{
    if (vw__plan_has_changed(VW__PLAN_CHANGE_METHOD, from, to))
        return VW__PLAN_DISTANCE_METHOD;
    bool has_other_steps =
        from->optimizer != to->optimizer && !(is_adamw(from->optimizer) && is_adamw(to->optimizer));
    return has_other_steps || vw__plan_has_changed(VW__PLAN_CHANGE_PRECISION, from, to)
               ? VW__PLAN_DISTANCE_NUMBERS
               : VW__PLAN_DISTANCE_NONE;
}

/* ---- remedies -------------------------------------------------------------------------------- */

enum { ANY = 0xFF };
#define EITHER(id) id, id

/* Which remedy a change to that value is. */
static const struct {
    uint8_t change, value;
    uint8_t in_training, otherwise; /* vw__remedy_id */
} remedies[] = {
    {VW__PLAN_CHANGE_ATTENTION, VW_ATTENTION_SDPA, EITHER(VW__REMEDY_FUSED_ATTENTION)},
    {VW__PLAN_CHANGE_ATTENTION, VW_ATTENTION_FLASH, EITHER(VW__REMEDY_FUSED_ATTENTION)},
    {VW__PLAN_CHANGE_LOSS, ANY, EITHER(VW__REMEDY_CHUNKED_LOSS)},
    {VW__PLAN_CHANGE_PRECISION, VW_PRECISION_BF16, VW__REMEDY_HALF_TRAINING,
     VW__REMEDY_HALF_INFERENCE},
    {VW__PLAN_CHANGE_PRECISION, VW_PRECISION_FP16, VW__REMEDY_HALF_TRAINING,
     VW__REMEDY_HALF_INFERENCE},
    {VW__PLAN_CHANGE_PRECISION, VW_PRECISION_AMP_BF16, VW__REMEDY_AUTOCAST,
     VW__REMEDY_AUTOCAST_INFERENCE},
    {VW__PLAN_CHANGE_PRECISION, VW_PRECISION_AMP_FP16, VW__REMEDY_AUTOCAST_FP16,
     VW__REMEDY_AUTOCAST_INFERENCE},
    {VW__PLAN_CHANGE_OPTIMIZER, VW_OPTIMIZER_ADAMW_FUSED, EITHER(VW__REMEDY_FUSED_OPTIMIZER)},
    {VW__PLAN_CHANGE_OPTIMIZER, VW_OPTIMIZER_ADAM_8BIT, EITHER(VW__REMEDY_8BIT_OPTIMIZER)},
    {VW__PLAN_CHANGE_OPTIMIZER, VW_OPTIMIZER_PAGED_ADAM_8BIT,
     EITHER(VW__REMEDY_PAGED_8BIT_OPTIMIZER)},
    {VW__PLAN_CHANGE_OPTIMIZER, VW_OPTIMIZER_ADAFACTOR, EITHER(VW__REMEDY_ADAFACTOR)},
    {VW__PLAN_CHANGE_BATCH, ANY, VW__REMEDY_SPLIT_BATCH, VW__REMEDY_SMALLER_BATCH},
    {VW__PLAN_CHANGE_CHECKPOINTING, VW_CHECKPOINTING_FULL, EITHER(VW__REMEDY_CHECKPOINTING)},
    {VW__PLAN_CHANGE_CHECKPOINTING, VW_CHECKPOINTING_SELECTIVE,
     EITHER(VW__REMEDY_SELECTIVE_CHECKPOINTING)},
    {VW__PLAN_CHANGE_SHARDING, VW_SHARDING_ZERO_1, EITHER(VW__REMEDY_ZERO_1)},
    {VW__PLAN_CHANGE_SHARDING, VW_SHARDING_ZERO_2, EITHER(VW__REMEDY_ZERO_2)},
    {VW__PLAN_CHANGE_SHARDING, VW_SHARDING_ZERO_3, VW__REMEDY_ZERO_3, VW__REMEDY_ZERO_3_INFERENCE},
    {VW__PLAN_CHANGE_SHARDING, VW_SHARDING_FSDP, VW__REMEDY_FSDP, VW__REMEDY_FSDP_INFERENCE},
    {VW__PLAN_CHANGE_METHOD, VW__PLAN_METHOD_LORA, EITHER(VW__REMEDY_LORA)},
    {VW__PLAN_CHANGE_METHOD, VW__PLAN_METHOD_QLORA, EITHER(VW__REMEDY_QLORA)},
    {VW__PLAN_CHANGE_OFFLOAD, VW_OFFLOAD_OPTIMIZER, EITHER(VW__REMEDY_OFFLOAD_OPTIMIZER)},
    {VW__PLAN_CHANGE_OFFLOAD, VW_OFFLOAD_WEIGHTS, VW__REMEDY_OFFLOAD_WEIGHTS,
     VW__REMEDY_OFFLOAD_WEIGHTS_INFERENCE},
    {VW__PLAN_CHANGE_OFFLOAD, VW_OFFLOAD_SPILL, EITHER(VW__REMEDY_SPILL)},
};

vw__remedy_id vw__plan_change_remedy(vw__plan_change change, const vw_plan_settings *to)
{
    const uint64_t value = vw__plan_change_value(change, to);
    if (change == VW__PLAN_CHANGE_LOSS && value <= 1)
        return VW__REMEDY_COUNT;
    if (change == VW__PLAN_CHANGE_SHARDING && value == VW_SHARDING_ZERO_2 && to->accumulation > 1)
        return VW__REMEDY_ZERO_2_ACCUMULATED;
    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++)
        if (remedies[i].change == change &&
            (remedies[i].value == ANY || remedies[i].value == value))
            return (vw__remedy_id)(vw__plan_is_training(to) ? remedies[i].in_training
                                                            : remedies[i].otherwise);
    return VW__REMEDY_COUNT;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *name_of(vw__arena *arena, vw__plan_change change, const vw_plan_settings *to)
{
    switch (change) {
    case VW__PLAN_CHANGE_ATTENTION:
        return vw__arena_format(arena, "attention %s", vw_attention_name(to->attention));
    case VW__PLAN_CHANGE_LOSS:
        return vw__arena_format(arena, "loss in %" PRIu64 " chunks", to->loss_chunks);
    case VW__PLAN_CHANGE_PRECISION:
        return vw__arena_format(arena, "precision %s", vw_precision_name(to->precision));
    case VW__PLAN_CHANGE_OPTIMIZER:
        return vw__arena_format(arena, "optimizer %s", vw_optimizer_name(to->optimizer));
    case VW__PLAN_CHANGE_BATCH:
        return vw__plan_is_training(to)
                   ? vw__arena_format(arena, "micro-batch %" PRIu64 " with %" PRIu64 " accumulated",
                                      to->batch, to->accumulation)
                   : vw__arena_format(arena, "batch %" PRIu64, to->batch);
    case VW__PLAN_CHANGE_CHECKPOINTING:
        return vw__arena_format(arena, "%s checkpointing",
                                vw_checkpointing_name(to->checkpointing));
    case VW__PLAN_CHANGE_SHARDING:
        return vw__arena_format(arena, "sharding %s", vw_sharding_name(to->sharding));
    case VW__PLAN_CHANGE_METHOD:
        return vw__arena_format(arena, "%s of rank %" PRIu64 " (another method)",
                                to->is_quantized ? "QLoRA" : "LoRA", to->lora_rank);
    case VW__PLAN_CHANGE_OFFLOAD:
        return to->offload == VW_OFFLOAD_SPILL
                   ? "optimizer state spilled to the host (no code changed)"
                   : vw__arena_format(arena, "%s offloaded",
                                      to->offload == VW_OFFLOAD_WEIGHTS ? "weights" : "optimizer");
    case VW__PLAN_CHANGE_COUNT:
        break;
    }
    return NULL;
}

/* ---- code ------------------------------------------------------------------------------------ */

static bool is_of_transformers(const vw_plan_model *model)
{
    return model->shape.attention.heads > 0;
}

/* A model of transformers computes its loss itself. */
static void name_pass(const vw_plan_model *model, vw__remedy_words *words)
{
    bool is_known = is_of_transformers(model);
    words->sample = is_known ? "batch" : "(inputs, labels)";
    words->output = is_known ? "model(**batch)" : "model(inputs)";
    words->loss = is_known ? "model(**batch).loss" : "criterion(model(inputs), labels)";
}

/* What comes before the head, and the head's product, as in the family's class. Causal models
 * predict the next token: the last row has no label, and the first label no row. */
static void name_head(const vw_plan_model *model, vw__remedy_words *words)
{
    words->rows = "labels = batch.pop(\"labels\")[:, 1:].flatten()\n"
                  "hidden = model.base_model(**batch).last_hidden_state[:, :-1].flatten(0, 1)";
    words->head = "model.get_output_embeddings()(hidden).float()";
    if (model->family == &vw__plan_family_t5) {
        words->rows =
            "labels = batch.pop(\"labels\")\n"
            "encoded = model.encoder(**batch).last_hidden_state\n"
            "hidden = model.decoder(model._shift_right(labels), encoder_hidden_states=encoded,\n"
            "                       encoder_attention_mask=batch.get(\"attention_mask\"))\n"
            "hidden, labels = hidden.last_hidden_state.flatten(0, 1), labels.flatten()";
        words->head = model->shape.head.is_tied
                          ? "model.lm_head(hidden * model.model_dim**-0.5).float()"
                          : "model.lm_head(hidden).float()";
    }
    if (model->family == &vw__plan_family_bert && model->shape.embedding.position_offset > 0) {
        words->rows = "labels = batch.pop(\"labels\").flatten()\n"
                      "hidden = model.lm_head.dense(model.roberta(**batch).last_hidden_state)\n"
                      "hidden = model.lm_head.layer_norm(F.gelu(hidden)).flatten(0, 1)";
        words->head = "model.lm_head.decoder(hidden).float()";
    } else if (model->family == &vw__plan_family_bert) {
        words->rows = "labels = batch.pop(\"labels\").flatten()\n"
                      "hidden = model.bert(**batch).last_hidden_state\n"
                      "hidden = model.cls.predictions.transform(hidden).flatten(0, 1)";
        words->head = "model.cls.predictions.decoder(hidden).float()";
    }
}

/* The command for all of the state: which part of it a card holds is unknown. */
static const char *spill_code(vw__arena *arena, const vw_plan_model *model,
                              const vw_plan_settings *to)
{
    char command[VW__SPILL_COST_COMMAND_BYTES];
    vw__plan_peaks peaks;
    if (vw__plan_estimate(model, to, &peaks) != VW_OK)
        return NULL;
    return vw__arena_format(
        arena, "%s",
        vw__spill_cost_command(peaks.pageable_bytes, vw__plan_spill_streams(to), command));
}

static const char *code_of(vw__arena *arena, vw__plan_change change, const vw__remedy *remedy,
                           const vw_plan_model *model, const vw_plan_settings *to)
{
    const bool is_fp16 =
        to->precision == VW_PRECISION_FP16 || to->precision == VW_PRECISION_AMP_FP16;
    vw__remedy_words words = {
        .parts = change == VW__PLAN_CHANGE_LOSS ? to->loss_chunks : to->accumulation,
        .rank = to->lora_rank,
        .batch_size = vw__arena_format(arena, "%" PRIu64, to->batch),
        .type = is_fp16 ? "float16" : "bfloat16",
        .attention = to->attention == VW_ATTENTION_FLASH ? "flash_attention_2" : "sdpa",
    };
    if (words.batch_size == NULL)
        return NULL;
    if (to->sharding == VW_SHARDING_FSDP) /* one type for all that is sharded */
        words.storage = ",\n        bnb_4bit_quant_storage=torch.float32";
    name_pass(model, &words);
    if (change == VW__PLAN_CHANGE_LOSS)
        name_head(model, &words);
    return vw__remedy_text(arena, vw__remedy_code(remedy, is_of_transformers(model)), &words);
}

bool vw__plan_change_describe(vw__arena *arena, vw__plan_change change, const vw_plan_model *model,
                              const vw_plan_settings *to, vw_plan_change *out)
{
    const vw__remedy_id id = vw__plan_change_remedy(change, to);
    *out = (vw_plan_change){.name = name_of(arena, change, to), .cost = "", .code = ""};
    if (id == VW__REMEDY_COUNT)
        return out->name != NULL;
    const vw__remedy *remedy = vw__remedy_of(id);
    out->cost = remedy->cost;
    out->code = id == VW__REMEDY_SPILL ? spill_code(arena, model, to)
                                       : code_of(arena, change, remedy, model, to);
    return out->name != NULL && out->code != NULL;
}

/* ---- all changes between two settings -------------------------------------------------------- */

typedef struct kept_changes {
    vw_plan_changes shown; /* first: the caller has a pointer to it */
    vw__arena arena;
} kept_changes;

static vw_status describe(kept_changes *kept, const vw_plan_model *model,
                          const vw_plan_settings *from, const vw_plan_settings *to)
{
    size_t count = 0;
    vw_plan_change *changes =
        vw__arena_alloc_array(&kept->arena, VW__PLAN_CHANGE_COUNT, sizeof *changes, sizeof(char *));
    if (changes == NULL)
        return vw__fail_host_memory(sizeof *changes, "the changes of a plan");
    for (vw__plan_change change = 0; change < VW__PLAN_CHANGE_COUNT; change++) {
        if (!vw__plan_has_changed(change, from, to))
            continue;
        if (!vw__plan_change_describe(&kept->arena, change, model, to, &changes[count]))
            return vw__fail_host_memory(0, "the words of a change");
        if (vw__plan_change_remedy(change, to) == VW__REMEDY_COUNT)
            return vw__fail(VW_ERR_UNSUPPORTED, "'%s' is no change that saves memory",
                            changes[count].name);
        count++;
    }
    kept->shown = (vw_plan_changes){changes, count};
    return VW_OK;
}

vw_status vw_plan_changes_make(const vw_plan_model *model, const vw_plan_settings *from,
                               const vw_plan_settings *to, vw_plan_changes **out)
{
    vw_plan_settings checked_from, checked_to;
    if (model == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a model, and a place for the changes");
    VW__TRY(vw__plan_settings_check(model, from, &checked_from));
    VW__TRY(vw__plan_settings_check(model, to, &checked_to));
    kept_changes *kept = vw__host_alloc_zeroed(1, sizeof *kept);
    if (kept == NULL)
        return vw__fail_host_memory(sizeof *kept, "the changes of a plan");
    vw__arena_init(&kept->arena, VW__ARENA_NO_LIMIT);
    vw_status status = describe(kept, model, &checked_from, &checked_to);
    if (status != VW_OK)
        vw_plan_changes_free(&kept->shown);
    else
        *out = &kept->shown;
    return status;
}

void vw_plan_changes_free(vw_plan_changes *changes)
{
    kept_changes *kept = (kept_changes *)changes;
    if (kept == NULL)
        return;
    vw__arena_deinit(&kept->arena);
    vw__host_free(kept);
}
