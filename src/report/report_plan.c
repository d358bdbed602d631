/* report_plan.c - what a run will take: the text for people, and the list of what is built in. */
#include "report/report_plan.h"

#include <string.h>

#include "headroom/report.h"

#include "base/error.h"

/* ---- what was asked -------------------------------------------------------------------------- */

static void add(hr__byte_buffer *text, bool is_said, const char *words)
{
    if (is_said)
        hr__append_format(text, ", %s", words);
}

static void add_training(hr__byte_buffer *text, const hr_plan_settings *settings)
{
    hr__append_format(text, ", %s", hr_optimizer_name(settings->optimizer));
    if (settings->accumulation > 1)
        hr__append_format(text, ", %llu accumulated", (unsigned long long)settings->accumulation);
    if (settings->checkpointing == HR_CHECKPOINTING_EVERY)
        hr__append_format(text, ", checkpoints at every block of %llu",
                          (unsigned long long)settings->checkpoint_every);
    else if (settings->checkpointing != HR_CHECKPOINTING_NONE)
        hr__append_format(text, ", %s checkpointing",
                          hr_checkpointing_name(settings->checkpointing));
}

static void add_rest(hr__byte_buffer *text, const hr_plan_settings *settings)
{
    if (settings->lora_rank > 0)
        hr__append_format(text, ", %s of rank %llu", settings->is_quantized ? "QLoRA" : "LoRA",
                          (unsigned long long)settings->lora_rank);
    if (settings->attention != HR_ATTENTION_SDPA)
        hr__append_format(text, ", %s attention", hr_attention_name(settings->attention));
    if (settings->loss_chunks > 1)
        hr__append_format(text, ", loss in %llu chunks", (unsigned long long)settings->loss_chunks);
    if (settings->offload == HR_OFFLOAD_SPILL)
        hr__append_text(text, ", optimizer state spilled");
    else if (settings->offload != HR_OFFLOAD_NONE)
        hr__append_format(text, ", %s offloaded", hr_offload_name(settings->offload));
    if (settings->gpus > 1)
        hr__append_format(
            text, ", %llu GPUs with %s", (unsigned long long)settings->gpus,
            settings->sharding == HR_SHARDING_NONE ? "DDP" : hr_sharding_name(settings->sharding));
}

/* "batch 8, 512 tokens, amp-bf16, adamw-fused" */
static void say_settings(hr__report *out, const hr_plan_settings *settings)
{
    hr__byte_buffer text;
    hr__byte_buffer_init(&text);
    hr__append_format(&text, "batch %llu", (unsigned long long)settings->batch);
    if (settings->image > 0)
        hr__append_format(&text, ", images of %llu pixels", (unsigned long long)settings->image);
    else
        hr__append_format(&text, ", %llu token%s", (unsigned long long)settings->sequence,
                          settings->sequence == 1 ? "" : "s");
    if (settings->generate > 0)
        hr__append_format(&text, " and %llu generated", (unsigned long long)settings->generate);
    hr__append_format(&text, ", %s", hr_precision_name(settings->precision));
    add(&text, settings->has_master_weights, "with float32 copies");
    add(&text, settings->mode == HR_PLAN_MODE_INFERENCE, "inference");
    add(&text, settings->mode == HR_PLAN_MODE_KEEP_GRAPH, "a forward pass whose graph is kept");
    if (settings->mode == HR_PLAN_MODE_TRAIN)
        add_training(&text, settings);
    add_rest(&text, settings);
    out->buffer.has_failed |= text.has_failed;
    hr__report_fact(out, "settings", "%s", hr__byte_buffer_text(&text));
    hr__byte_buffer_deinit(&text);
}

static void say_model(hr__report *out, const hr_plan *plan)
{
    if (plan->trained_parameters > 0 && plan->trained_parameters < plan->parameters)
        hr__report_fact(out, "model", "%s (%s), %s parameters, %s of them trained", plan->model,
                        plan->family, hr__count_text(plan->parameters).text,
                        hr__count_text(plan->trained_parameters).text);
    else
        hr__report_fact(out, "model", "%s (%s), %s parameters", plan->model, plan->family,
                        hr__count_text(plan->parameters).text);
}

/* ---- what it takes --------------------------------------------------------------------------- */

static void say_verdict(hr__report *out, const hr_plan *plan)
{
    const uint64_t card_bytes = plan->settings.card_bytes;
    const uint64_t margin_bytes =
        plan->margin_bytes < 0 ? 0 - (uint64_t)plan->margin_bytes : (uint64_t)plan->margin_bytes;
    if (!plan->is_card_known)
        hr__report_say(out, HR__STYLE_BOLD, "takes %s on the card, %s of it allocated",
                       hr__size_text(plan->peak_device_bytes).text,
                       hr__size_text(plan->peak_allocated_bytes).text);
    else if (plan->fits)
        hr__report_say(out, HR__STYLE_GREEN, "fits: %s of %s, %s are left",
                       hr__size_text(plan->peak_device_bytes).text, hr__size_text(card_bytes).text,
                       hr__size_text(margin_bytes).text);
    else if (plan->margin_bytes >= 0)
        hr__report_say(out, HR__STYLE_YELLOW,
                       "too close: %s of %s, and the error of the prediction is larger than the "
                       "%s that are left",
                       hr__size_text(plan->peak_device_bytes).text, hr__size_text(card_bytes).text,
                       hr__size_text(margin_bytes).text);
    else
        hr__report_say(out, HR__STYLE_RED, "does not fit: %s on a card of %s, %s are missing",
                       hr__size_text(plan->peak_device_bytes).text, hr__size_text(card_bytes).text,
                       hr__size_text(margin_bytes).text);
}

static void say_peak(hr__report *out, const hr_plan *plan)
{
    const char *phase = plan->peak_phase != NULL ? plan->peak_phase : "?";
    const char *place = plan->peak_place != NULL ? plan->peak_place : "";
    const bool has_place = place[0] != '\0' && strcmp(place, phase) != 0;
    hr__report_fact(out, "peak", "%s allocated, in %s%s%s",
                    hr__size_text(plan->peak_allocated_bytes).text, phase, has_place ? ", at " : "",
                    has_place ? place : "");
    if (plan->phase_peaks[1] != HR_UNKNOWN)
        hr__report_fact(out, "by phase", "forward %s, backward %s, optimizer step %s",
                        hr__size_text(plan->phase_peaks[0]).text,
                        hr__size_text(plan->phase_peaks[1]).text,
                        hr__size_text(plan->phase_peaks[2]).text);
}

void hr__report_reserved(hr__report *out, const uint64_t reserved_bytes[3])
{
    if (reserved_bytes[0] == HR_UNKNOWN && reserved_bytes[1] == HR_UNKNOWN &&
        reserved_bytes[2] == HR_UNKNOWN)
        return;
    hr__report_fact(out, "reserved", "%s with PyTorch's defaults, %s expandable, %s with headroom",
                    hr__size_text(reserved_bytes[0]).text, hr__size_text(reserved_bytes[1]).text,
                    hr__size_text(reserved_bytes[2]).text);
}

static void say_error(hr__report *out, const hr_plan *plan)
{
    const char *basis = plan->error_basis != NULL ? plan->error_basis : "";
    const hr__text low = hr__percent_text(plan->error_low);
    const hr__text high = hr__percent_text(plan->error_high);
    bool is_one = strcmp(low.text, high.text) == 0;
    if (plan->has_error_band)
        hr__report_fact(out, "error", "%s%s%s where it was measured%s%s", low.text,
                        is_one ? "" : " to ", is_one ? "" : high.text, basis[0] != '\0' ? ": " : "",
                        basis);
    else
        hr__report_fact(out, "error", "not known: computed, not measured%s%s",
                        basis[0] != '\0' ? "; " : "", basis);
}

static void say_layers(hr__report *out, const hr_plan *plan)
{
    static const hr__column columns[] = {{"kept for backward", HR__COLUMN_NAME},
                                         {"bytes", HR__COLUMN_NUMBER}};
    hr__table table;
    if (plan->layer_part_count == 0 || plan->settings.mode == HR_PLAN_MODE_INFERENCE)
        return; /* what inference has then is its result */
    hr__report_blank(out);
    hr__table_init(&table, columns, 2);
    for (size_t i = 0; i < plan->layer_part_count && i < out->form.most_rows; i++) {
        hr__table_row(&table, HR__STYLE_PLAIN);
        hr__table_cell(&table, plan->layer_parts[i].name);
        hr__table_cell(&table, hr__size_text(plan->layer_parts[i].bytes).text);
    }
    hr__table_end(&table, out);
}

static void say_plan(hr__report *out, const hr_plan *plan)
{
    say_verdict(out, plan);
    hr__report_blank(out);
    hr__report_plan_bar(out, plan);
    hr__report_blank(out);
    say_model(out, plan);
    say_settings(out, &plan->settings);
    say_peak(out, plan);
    hr__report_reserved(out, plan->reserved_bytes);
    say_error(out, plan);
    if (plan->is_card_known && plan->largest_batch > 0)
        hr__report_fact(out, "batch", "%s at most, everything else as it is",
                        hr__count_text(plan->largest_batch).text);
    say_layers(out, plan);
    hr__report_plan_choices(out, plan);
    if (plan->note_count > 0)
        hr__report_blank(out);
    hr__report_list(out, HR__STYLE_PLAIN, "note", plan->notes, plan->note_count);
}

hr_status hr_report_plan(const hr_plan *plan, const hr_report_form *form, const hr_output *output)
{
    hr__report out;
    if (plan == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no plan to report: it is NULL");
    hr__report_init(&out, form);
    if (out.form.is_json) {
        hr__json json;
        hr__json_init(&json, &out.buffer);
        hr__json_plan(&json, plan);
        hr__append_text(&out.buffer, "\n");
    } else {
        say_plan(&out, plan);
    }
    return hr__report_send(&out, output);
}

/* ---- what is built in ------------------------------------------------------------------------ */

static void say_models(hr__report *out)
{
    static const hr__column columns[] = {
        {"model", HR__COLUMN_NAME}, {"family", HR__COLUMN_WORD}, {"parameters", HR__COLUMN_NUMBER}};
    const hr_plan_known_model *model;
    hr__table table;
    hr__table_init(&table, columns, 3);
    for (size_t i = 0; (model = hr_plan_known(i)) != NULL; i++) {
        hr__table_row(&table, HR__STYLE_PLAIN);
        hr__table_cell(&table, model->name);
        hr__table_cell(&table, model->family);
        hr__table_cell(&table, hr__count_text(model->parameters).text);
    }
    hr__table_end(&table, out);
}

static void say_cards(hr__report *out)
{
    static const hr__column columns[] = {{"card", HR__COLUMN_NAME},
                                         {"for programs", HR__COLUMN_NUMBER}};
    const hr_plan_card_info *card;
    hr__table table;
    hr__table_init(&table, columns, 2);
    for (size_t i = 0; (card = hr_plan_card_number(i)) != NULL; i++) {
        hr__table_row(&table, HR__STYLE_PLAIN);
        hr__table_cell(&table, card->name);
        hr__table_cell(&table, hr__size_text(card->total_bytes).text);
    }
    hr__table_end(&table, out);
}

hr_status hr_report_plan_known(const hr_report_form *form, const hr_output *output)
{
    hr__report out;
    hr__report_init(&out, form);
    if (out.form.is_json) {
        hr__json json;
        hr__json_init(&json, &out.buffer);
        hr__json_known_models(&json);
        hr__append_text(&out.buffer, "\n");
    } else {
        say_models(&out);
        hr__report_blank(&out);
        say_cards(&out);
    }
    return hr__report_send(&out, output);
}
