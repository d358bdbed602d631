/* advice.c - changes in words: a name, what it costs, and what to write.
 *
 * Costs and code are the remedy's (remedy/remedy.h); here are the words that a model and its
 * settings put into it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analysis/spill_cost.h"
#include "plan/changes.h"
#include "plan/plan_model.h"
#include "plan/plan_run.h"

enum { SIZE_DIGITS = 24 };

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

static bool is_fp16(vw_precision precision)
{
    return precision == VW_PRECISION_FP16 || precision == VW_PRECISION_AMP_FP16;
}

static bool is_of_transformers(const vw_plan_model *model)
{
    return model->shape.attention.heads > 0;
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

const char *vw__change_cost(vw__change change, const vw_plan_settings *to)
{
    vw__remedy_id id = vw__change_remedy(change, to);
    return id != VW__REMEDY_COUNT ? vw__remedy_of(id)->cost : "";
}

/* ---- code ------------------------------------------------------------------------------------ */

/* A model of transformers' computes its loss itself. */
static void name_pass(const vw_plan_model *model, vw__remedy_words *words)
{
    bool is_known = is_of_transformers(model);
    words->sample = is_known ? "batch" : "(inputs, labels)";
    words->output = is_known ? "model(**batch)" : "model(inputs)";
    words->loss = is_known ? "model(**batch).loss" : "criterion(model(inputs), labels)";
}

/* What comes before the head, and its last product, as the family's class has them. Causal models
 * predict the next token: the last row has no label, and the first label no row. */
static void name_head(const vw_plan_model *model, vw__remedy_words *words)
{
    words->rows = "labels = batch.pop(\"labels\")[:, 1:].flatten()\n"
                  "hidden = model.base_model(**batch).last_hidden_state[:, :-1].flatten(0, 1)";
    words->head = "model.get_output_embeddings()(hidden).float()";
    if (model->family == &vw__family_t5) {
        words->rows =
            "labels = batch.pop(\"labels\")\n"
            "encoded = model.encoder(**batch).last_hidden_state\n"
            "hidden = model.decoder(model._shift_right(labels), encoder_hidden_states=encoded,\n"
            "                       encoder_attention_mask=batch.get(\"attention_mask\"))\n"
            "hidden, labels = hidden.last_hidden_state.flatten(0, 1), labels.flatten()";
        words->head = model->shape.head.is_tied ? "model.lm_head(hidden * model.model_dim**-0.5).float()"
                                           : "model.lm_head(hidden).float()";
    }
    if (model->family == &vw__family_bert && model->shape.embedding.position_offset > 0) {
        words->rows = "labels = batch.pop(\"labels\").flatten()\n"
                      "hidden = model.lm_head.dense(model.roberta(**batch).last_hidden_state)\n"
                      "hidden = model.lm_head.layer_norm(F.gelu(hidden)).flatten(0, 1)";
        words->head = "model.lm_head.decoder(hidden).float()";
    } else if (model->family == &vw__family_bert) {
        words->rows = "labels = batch.pop(\"labels\").flatten()\n"
                      "hidden = model.bert(**batch).last_hidden_state\n"
                      "hidden = model.cls.predictions.transform(hidden).flatten(0, 1)";
        words->head = "model.cls.predictions.decoder(hidden).float()";
    }
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

/* `size` keeps the digits of the batch. */
static vw__remedy_words words_of(const vw_plan_model *model, const vw_plan_settings *to,
                                 vw__change change, char size[SIZE_DIGITS])
{
    vw__remedy_words words = {.rank = to->lora_rank, .batch_size = size};
    (void)snprintf(size, SIZE_DIGITS, "%" PRIu64, to->batch);
    name_pass(model, &words);
    words.type = is_fp16(to->precision) ? "float16" : "bfloat16";
    words.attention = to->attention == VW_ATTENTION_FLASH ? "flash_attention_2" : "sdpa";
    if (to->sharding == VW_SHARDING_FSDP) /* one type for all that is sharded */
        words.storage = ",\n        bnb_4bit_quant_storage=torch.float32";
    if (change == VW__CHANGE_LOSS) {
        name_head(model, &words);
        words.parts = to->loss_chunks;
    } else {
        words.parts = to->accumulation;
    }
    return words;
}

const char *vw__change_code(vw__arena *arena, vw__change change, const vw_plan_model *model,
                            const vw_plan_settings *to)
{
    char size[SIZE_DIGITS];
    vw__remedy_id id = vw__change_remedy(change, to);
    if (id == VW__REMEDY_COUNT)
        return "";
    if (id == VW__REMEDY_SPILL)
        return spill_code(arena, model, to);
    const vw__remedy *remedy = vw__remedy_of(id);
    const char *code = remedy->transformers_code != NULL && is_of_transformers(model)
                           ? remedy->transformers_code
                           : remedy->code;
    const vw__remedy_words words = words_of(model, to, change, size);
    return vw__remedy_text(arena, code, &words);
}
