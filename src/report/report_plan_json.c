/* report_plan_json.c - a plan as JSON; headroom-plan(1) names the fields. */
#include "report/report_frames.h" /* hr__json_texts */
#include "report/report_plan.h"

static void json_parts(hr__json *json, const char *key, const hr_part *parts, size_t part_count)
{
    hr__json_begin_object(json, key);
    for (size_t i = 0; i < part_count; i++)
        hr__json_unsigned(json, parts[i].name, parts[i].bytes);
}

static void json_settings(hr__json *json, const hr_plan_settings *settings)
{
    const bool has_images = settings->image > 0;
    hr__json_begin_object(json, "settings");
    hr__json_text(json, "mode", hr_plan_mode_name(settings->mode));
    hr__json_unsigned(json, "batch", settings->batch);
    hr__json_known(json, "sequence", has_images ? HR_UNKNOWN : settings->sequence);
    hr__json_known(json, "image", has_images ? settings->image : HR_UNKNOWN);
    hr__json_unsigned(json, "accumulation", settings->accumulation);
    hr__json_unsigned(json, "generate", settings->generate);
    hr__json_boolean(json, "loss", !settings->without_loss && settings->generate == 0);
    hr__json_text(json, "precision", hr_precision_name(settings->precision));
    hr__json_boolean(json, "master_weights", settings->has_master_weights);
    hr__json_text(json, "optimizer", hr_optimizer_name(settings->optimizer));
    hr__json_text(json, "offload", hr_offload_name(settings->offload));
    hr__json_text(json, "checkpointing", hr_checkpointing_name(settings->checkpointing));
    hr__json_known(json, "checkpoint_every",
                   settings->checkpointing == HR_CHECKPOINTING_EVERY ? settings->checkpoint_every
                                                                     : HR_UNKNOWN);
    hr__json_text(json, "attention", hr_attention_name(settings->attention));
    hr__json_unsigned(json, "loss_chunks", settings->loss_chunks);
    hr__json_unsigned(json, "lora_rank", settings->lora_rank);
    hr__json_boolean(json, "quantized", settings->is_quantized);
    hr__json_unsigned(json, "gpus", settings->gpus);
    hr__json_text(json, "sharding", hr_sharding_name(settings->sharding));
    hr__json_text(json, "card", settings->card_name);
    hr__json_known(json, "card_bytes",
                   settings->card_bytes > 0 ? settings->card_bytes : HR_UNKNOWN);
    hr__json_end_object(json);
}

static void json_peaks(hr__json *json, const hr_plan *plan)
{
    static const char *const phases[] = {"forward", "backward", "optimizer_step"};
    hr__json_begin_object(json, "phase_peaks");
    for (size_t i = 0; i < 3; i++)
        hr__json_known(json, phases[i], plan->phase_peaks[i]);
    hr__json_end_object(json);
    hr__json_known(json, "first_step_peak_bytes", plan->first_step_peak_bytes);
    hr__json_known(json, "after_forward_bytes", plan->after_forward_bytes);
    hr__json_known(json, "after_backward_bytes", plan->after_backward_bytes);
    hr__json_known(json, "after_step_bytes", plan->after_step_bytes);
}

void hr__json_reserved(hr__json *json, const uint64_t reserved_bytes[3])
{
    static const char *const policies[] = {"native", "expandable", "headroom"};
    hr__json_begin_object(json, "reserved_bytes");
    for (size_t i = 0; i < 3; i++)
        hr__json_known(json, policies[i], reserved_bytes[i]);
    hr__json_end_object(json);
}

static void json_error_band(hr__json *json, const hr_plan *plan)
{
    if (!plan->has_error_band) {
        hr__json_null(json, "error_band");
        hr__json_text(json, "error_basis", plan->error_basis);
        return;
    }
    hr__json_begin_array(json, "error_band");
    hr__json_double(json, NULL, plan->error_low);
    hr__json_double(json, NULL, plan->error_high);
    hr__json_end_array(json);
    hr__json_text(json, "error_basis", plan->error_basis);
}

static void json_card(hr__json *json, const hr_plan *plan)
{
    if (plan->is_card_known) {
        hr__json_boolean(json, "fits", plan->fits);
        hr__json_integer(json, "margin_bytes", plan->margin_bytes);
        hr__json_unsigned(json, "largest_batch", plan->largest_batch);
        return;
    }
    hr__json_null(json, "fits");
    hr__json_null(json, "margin_bytes");
    hr__json_null(json, "largest_batch");
}

static void json_some_texts(hr__json *json, const char *key, const char *const *texts, size_t count)
{
    if (texts != NULL)
        hr__json_texts(json, key, texts, count);
    else
        hr__json_null(json, key);
}

static void json_choice(hr__json *json, const hr_plan *plan, const hr_plan_choice *choice)
{
    hr__json_begin_object(json, NULL);
    hr__json_texts(json, "changes", choice->changes, choice->change_count);
    hr__json_known(json, "peak_allocated_bytes", choice->peak_allocated_bytes);
    hr__json_known(json, "peak_device_bytes", choice->peak_device_bytes);
    hr__json_double(json, "slowdown", choice->slowdown);
    if (plan->is_card_known)
        hr__json_boolean(json, "fits", choice->fits);
    else
        hr__json_null(json, "fits");
    json_some_texts(json, "costs", choice->costs, choice->change_count);
    json_some_texts(json, "code", choice->code, choice->change_count);
    json_some_texts(json, "sources", choice->sources, choice->change_count);
    json_settings(json, &choice->settings);
    hr__json_end_object(json);
}

static void json_choices(hr__json *json, const hr_plan *plan)
{
    hr__json_begin_array(json, "options");
    for (size_t i = 0; i < plan->choice_count; i++)
        json_choice(json, plan, &plan->choices[i]);
    hr__json_end_array(json);
}

void hr__json_plan(hr__json *json, const hr_plan *plan)
{
    hr__json_begin_object(json, NULL);
    hr__json_unsigned(json, "schema", 1);
    hr__json_text(json, "model", plan->model);
    hr__json_text(json, "family", plan->family);
    hr__json_unsigned(json, "parameters", plan->parameters);
    hr__json_unsigned(json, "trained_parameters", plan->trained_parameters);
    json_settings(json, &plan->settings);
    hr__json_known(json, "peak_allocated_bytes", plan->peak_allocated_bytes);
    hr__json_known(json, "peak_device_bytes", plan->peak_device_bytes);
    hr__json_unsigned(json, "pageable_bytes", plan->pageable_bytes);
    hr__json_unsigned(json, "resident_bytes", plan->resident_bytes);
    hr__json_text(json, "peak_phase", plan->peak_phase);
    hr__json_text(json, "peak_place", plan->peak_place);
    json_parts(json, "parts", plan->parts, plan->part_count);
    hr__json_unsigned(json, "context", plan->context_bytes);
    hr__json_end_object(json);
    json_parts(json, "activations_by_layer", plan->layer_parts, plan->layer_part_count);
    hr__json_end_object(json);
    json_peaks(json, plan);
    hr__json_reserved(json, plan->reserved_bytes);
    json_error_band(json, plan);
    json_card(json, plan);
    json_choices(json, plan);
    hr__json_texts(json, "notes", plan->notes, plan->note_count);
    hr__json_end_object(json);
}

/* ---- what is built in ------------------------------------------------------------------------ */

void hr__json_known_models(hr__json *json)
{
    hr__json_begin_object(json, NULL);
    hr__json_unsigned(json, "schema", 1);
    hr__json_begin_array(json, "models");
    const hr_plan_known_model *model;
    for (size_t i = 0; (model = hr_plan_known(i)) != NULL; i++) {
        hr__json_begin_object(json, NULL);
        hr__json_text(json, "name", model->name);
        hr__json_text(json, "family", model->family);
        hr__json_unsigned(json, "parameters", model->parameters);
        hr__json_end_object(json);
    }
    hr__json_end_array(json);
    hr__json_begin_array(json, "cards");
    const hr_plan_card_info *card;
    for (size_t i = 0; (card = hr_plan_card_number(i)) != NULL; i++) {
        hr__json_begin_object(json, NULL);
        hr__json_text(json, "name", card->name);
        hr__json_unsigned(json, "total_bytes", card->total_bytes);
        hr__json_end_object(json);
    }
    hr__json_end_array(json);
    hr__json_end_object(json);
}
