/* report_plan_json.c - a plan as JSON; vramwise-plan(1) names the fields. */
#include "analysis/policies.h"
#include "report/report_frames.h" /* vw__json_texts */
#include "report/report_plan.h"

static void json_parts(vw__json *json, const char *key, const vw_part *parts, size_t part_count)
{
    vw__json_begin_object(json, key);
    for (size_t i = 0; i < part_count; i++)
        vw__json_unsigned(json, parts[i].name, parts[i].bytes);
}

static void json_settings(vw__json *json, const vw_plan_settings *settings)
{
    const bool has_images = settings->image > 0;
    vw__json_begin_object(json, "settings");
    vw__json_text(json, "mode", vw_plan_mode_name(settings->mode));
    vw__json_unsigned(json, "batch", settings->batch);
    vw__json_known(json, "sequence", has_images ? VW_UNKNOWN : settings->sequence);
    vw__json_known(json, "image", has_images ? settings->image : VW_UNKNOWN);
    vw__json_unsigned(json, "accumulation", settings->accumulation);
    vw__json_unsigned(json, "generate", settings->generate);
    vw__json_boolean(json, "loss", !settings->without_loss && settings->generate == 0);
    vw__json_text(json, "precision", vw_precision_name(settings->precision));
    vw__json_boolean(json, "master_weights", settings->has_master_weights);
    vw__json_text(json, "optimizer", vw_optimizer_name(settings->optimizer));
    vw__json_text(json, "offload", vw_offload_name(settings->offload));
    vw__json_text(json, "checkpointing", vw_checkpointing_name(settings->checkpointing));
    vw__json_known(json, "checkpoint_every",
                   settings->checkpointing == VW_CHECKPOINTING_EVERY ? settings->checkpoint_every
                                                                     : VW_UNKNOWN);
    vw__json_text(json, "attention", vw_attention_name(settings->attention));
    vw__json_unsigned(json, "loss_chunks", settings->loss_chunks);
    vw__json_unsigned(json, "lora_rank", settings->lora_rank);
    vw__json_boolean(json, "quantized", settings->is_quantized);
    vw__json_unsigned(json, "gpus", settings->gpus);
    vw__json_text(json, "sharding", vw_sharding_name(settings->sharding));
    vw__json_text(json, "card", settings->card_name);
    vw__json_known(json, "card_bytes",
                   settings->card_bytes > 0 ? settings->card_bytes : VW_UNKNOWN);
    vw__json_end_object(json);
}

static void json_peaks(vw__json *json, const vw_plan *plan)
{
    static const char *const phases[] = {"forward", "backward", "optimizer_step"};
    vw__json_begin_object(json, "phase_peaks");
    for (size_t i = 0; i < 3; i++)
        vw__json_known(json, phases[i], plan->phase_peaks[i]);
    vw__json_end_object(json);
    vw__json_known(json, "first_step_peak_bytes", plan->first_step_peak_bytes);
    vw__json_known(json, "after_forward_bytes", plan->after_forward_bytes);
    vw__json_known(json, "after_backward_bytes", plan->after_backward_bytes);
    vw__json_known(json, "after_step_bytes", plan->after_step_bytes);
}

void vw__json_reserved(vw__json *json, const uint64_t reserved_bytes[3])
{
    static const char *const policies[] = {VW__POLICY_NATIVE, VW__POLICY_EXPANDABLE,
                                           VW__POLICY_VRAMWISE};
    vw__json_begin_object(json, "reserved_bytes");
    for (size_t i = 0; i < 3; i++)
        vw__json_known(json, policies[i], reserved_bytes[i]);
    vw__json_end_object(json);
}

static void json_error_band(vw__json *json, const vw_plan *plan)
{
    if (!plan->has_error_band) {
        vw__json_null(json, "error_band");
        vw__json_text(json, "error_basis", plan->error_basis);
        return;
    }
    vw__json_begin_array(json, "error_band");
    vw__json_double(json, NULL, plan->error_low);
    vw__json_double(json, NULL, plan->error_high);
    vw__json_end_array(json);
    vw__json_text(json, "error_basis", plan->error_basis);
}

static void json_card(vw__json *json, const vw_plan *plan)
{
    if (plan->is_card_known) {
        vw__json_boolean(json, "fits", plan->fits);
        vw__json_integer(json, "margin_bytes", plan->margin_bytes);
        vw__json_unsigned(json, "largest_batch", plan->largest_batch);
        return;
    }
    vw__json_null(json, "fits");
    vw__json_null(json, "margin_bytes");
    vw__json_null(json, "largest_batch");
}

static void json_some_texts(vw__json *json, const char *key, const char *const *texts, size_t count)
{
    if (texts != NULL)
        vw__json_texts(json, key, texts, count);
    else
        vw__json_null(json, key);
}

static void json_choice(vw__json *json, const vw_plan *plan, const vw_plan_choice *choice)
{
    vw__json_begin_object(json, NULL);
    vw__json_texts(json, "changes", choice->changes, choice->change_count);
    vw__json_known(json, "peak_allocated_bytes", choice->peak_allocated_bytes);
    vw__json_known(json, "peak_device_bytes", choice->peak_device_bytes);
    vw__json_double(json, "slowdown", choice->slowdown);
    if (plan->is_card_known)
        vw__json_boolean(json, "fits", choice->fits);
    else
        vw__json_null(json, "fits");
    json_some_texts(json, "costs", choice->costs, choice->change_count);
    json_some_texts(json, "code", choice->code, choice->change_count);
    json_some_texts(json, "sources", choice->sources, choice->change_count);
    json_settings(json, &choice->settings);
    vw__json_end_object(json);
}

static void json_choices(vw__json *json, const vw_plan *plan)
{
    vw__json_begin_array(json, "options");
    for (size_t i = 0; i < plan->choice_count; i++)
        json_choice(json, plan, &plan->choices[i]);
    vw__json_end_array(json);
}

void vw__json_plan(vw__report *out, vw__json *json, const void *content)
{
    const vw_plan *plan = content;
    (void)out;
    vw__json_text(json, "model", plan->model);
    vw__json_text(json, "family", plan->family);
    vw__json_unsigned(json, "parameters", plan->parameters);
    vw__json_unsigned(json, "trained_parameters", plan->trained_parameters);
    json_settings(json, &plan->settings);
    vw__json_known(json, "peak_allocated_bytes", plan->peak_allocated_bytes);
    vw__json_known(json, "peak_device_bytes", plan->peak_device_bytes);
    vw__json_unsigned(json, "pageable_bytes", plan->pageable_bytes);
    vw__json_unsigned(json, "resident_bytes", plan->resident_bytes);
    vw__json_text(json, "peak_phase", plan->peak_phase);
    vw__json_text(json, "peak_place", plan->peak_place);
    json_parts(json, "parts", plan->parts, plan->part_count);
    vw__json_unsigned(json, "context", plan->context_bytes);
    vw__json_end_object(json);
    json_parts(json, "activations_by_layer", plan->layer_parts, plan->layer_part_count);
    vw__json_end_object(json);
    json_peaks(json, plan);
    vw__json_reserved(json, plan->reserved_bytes);
    json_error_band(json, plan);
    json_card(json, plan);
    json_choices(json, plan);
    vw__json_texts(json, "notes", plan->notes, plan->note_count);
}

/* ---- what is built in ------------------------------------------------------------------------ */

void vw__json_known_models(vw__json *json)
{
    vw__json_begin_object(json, NULL);
    vw__json_unsigned(json, "schema", 1);
    vw__json_begin_array(json, "models");
    const vw_plan_known_model *model;
    for (size_t i = 0; (model = vw_plan_known(i)) != NULL; i++) {
        vw__json_begin_object(json, NULL);
        vw__json_text(json, "name", model->name);
        vw__json_text(json, "family", model->family);
        vw__json_unsigned(json, "parameters", model->parameters);
        vw__json_end_object(json);
    }
    vw__json_end_array(json);
    vw__json_begin_array(json, "cards");
    const vw_plan_card_info *card;
    for (size_t i = 0; (card = vw_plan_card_number(i)) != NULL; i++) {
        vw__json_begin_object(json, NULL);
        vw__json_text(json, "name", card->name);
        vw__json_unsigned(json, "total_bytes", card->total_bytes);
        vw__json_end_object(json);
    }
    vw__json_end_array(json);
    vw__json_end_object(json);
}
