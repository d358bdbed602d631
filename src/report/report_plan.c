/* report_plan.c - what a run will take: the text for people, and the list of what is built in. */
#include "report/report_plan.h"

#include <string.h>

#include "vramwise/report.h"

/* ---- what was asked -------------------------------------------------------------------------- */

static void add(vw__byte_buffer *text, bool is_said, const char *words)
{
    if (is_said)
        vw__append_format(text, ", %s", words);
}

static void add_training(vw__byte_buffer *text, const vw_plan_settings *settings)
{
    vw__append_format(text, ", %s", vw_optimizer_name(settings->optimizer));
    if (settings->accumulation > 1)
        vw__append_format(text, ", %llu accumulated", (unsigned long long)settings->accumulation);
    if (settings->checkpointing == VW_CHECKPOINTING_EVERY)
        vw__append_format(text, ", checkpoints at every block of %llu",
                          (unsigned long long)settings->checkpoint_every);
    else if (settings->checkpointing != VW_CHECKPOINTING_NONE)
        vw__append_format(text, ", %s checkpointing",
                          vw_checkpointing_name(settings->checkpointing));
}

static void add_rest(vw__byte_buffer *text, const vw_plan_settings *settings)
{
    if (settings->lora_rank > 0)
        vw__append_format(text, ", %s of rank %llu", settings->is_quantized ? "QLoRA" : "LoRA",
                          (unsigned long long)settings->lora_rank);
    if (settings->attention != VW_ATTENTION_SDPA)
        vw__append_format(text, ", %s attention", vw_attention_name(settings->attention));
    if (settings->loss_chunks > 1)
        vw__append_format(text, ", loss in %llu chunks", (unsigned long long)settings->loss_chunks);
    if (settings->offload == VW_OFFLOAD_SPILL)
        vw__append_text(text, ", optimizer state spilled");
    else if (settings->offload != VW_OFFLOAD_NONE)
        vw__append_format(text, ", %s offloaded", vw_offload_name(settings->offload));
    if (settings->gpus > 1)
        vw__append_format(
            text, ", %llu GPUs with %s", (unsigned long long)settings->gpus,
            settings->sharding == VW_SHARDING_NONE ? "DDP" : vw_sharding_name(settings->sharding));
}

/* "batch 8, 512 tokens, amp-bf16, adamw-fused" */
static void say_settings(vw__report *out, const vw_plan_settings *settings)
{
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    vw__append_format(&text, "batch %llu", (unsigned long long)settings->batch);
    if (settings->image > 0)
        vw__append_format(&text, ", images of %llu pixels", (unsigned long long)settings->image);
    else
        vw__append_format(&text, ", %llu token%s", (unsigned long long)settings->sequence,
                          settings->sequence == 1 ? "" : "s");
    if (settings->generate > 0)
        vw__append_format(&text, " and %llu generated", (unsigned long long)settings->generate);
    vw__append_format(&text, ", %s", vw_precision_name(settings->precision));
    add(&text, settings->has_master_weights, "with float32 copies");
    add(&text, settings->mode == VW_PLAN_MODE_INFERENCE, "inference");
    add(&text, settings->mode == VW_PLAN_MODE_KEEP_GRAPH, "a forward pass whose graph is kept");
    if (settings->mode == VW_PLAN_MODE_TRAIN)
        add_training(&text, settings);
    add_rest(&text, settings);
    out->buffer.has_failed |= text.has_failed;
    vw__report_fact(out, "settings", "%s", vw__byte_buffer_text(&text));
    vw__byte_buffer_deinit(&text);
}

static void say_model(vw__report *out, const vw_plan *plan)
{
    if (plan->trained_parameters > 0 && plan->trained_parameters < plan->parameters)
        vw__report_fact(out, "model", "%s (%s), %s parameters, %s of them trained", plan->model,
                        plan->family, vw__count_text(plan->parameters).text,
                        vw__count_text(plan->trained_parameters).text);
    else
        vw__report_fact(out, "model", "%s (%s), %s parameters", plan->model, plan->family,
                        vw__count_text(plan->parameters).text);
}

/* ---- what it takes --------------------------------------------------------------------------- */

static void say_verdict(vw__report *out, const vw_plan *plan)
{
    const uint64_t card_bytes = plan->settings.card_bytes;
    const uint64_t margin_bytes =
        plan->margin_bytes < 0 ? 0 - (uint64_t)plan->margin_bytes : (uint64_t)plan->margin_bytes;
    if (!plan->is_card_known)
        vw__report_say(out, VW__STYLE_BOLD, "takes %s on the card, %s of it allocated",
                       vw__size_text(plan->peak_device_bytes).text,
                       vw__size_text(plan->peak_allocated_bytes).text);
    else if (plan->fits)
        vw__report_say(out, VW__STYLE_GREEN, "fits: %s of %s, %s are left",
                       vw__size_text(plan->peak_device_bytes).text, vw__size_text(card_bytes).text,
                       vw__size_text(margin_bytes).text);
    else if (plan->margin_bytes >= 0)
        vw__report_say(out, VW__STYLE_YELLOW,
                       "too close: %s of %s, and the error of the prediction is larger than the "
                       "%s that are left",
                       vw__size_text(plan->peak_device_bytes).text, vw__size_text(card_bytes).text,
                       vw__size_text(margin_bytes).text);
    else
        vw__report_say(out, VW__STYLE_RED, "does not fit: %s on a card of %s, %s are missing",
                       vw__size_text(plan->peak_device_bytes).text, vw__size_text(card_bytes).text,
                       vw__size_text(margin_bytes).text);
}

static void say_peak(vw__report *out, const vw_plan *plan)
{
    const char *phase = plan->peak_phase != NULL ? plan->peak_phase : "?";
    const char *place = plan->peak_place != NULL ? plan->peak_place : "";
    const bool has_place = place[0] != '\0' && strcmp(place, phase) != 0;
    vw__report_fact(out, "peak", "%s allocated, in %s%s%s",
                    vw__size_text(plan->peak_allocated_bytes).text, phase, has_place ? ", at " : "",
                    has_place ? place : "");
    if (plan->phase_peaks[1] != VW_UNKNOWN)
        vw__report_fact(out, "by phase", "forward %s, backward %s, optimizer step %s",
                        vw__size_text(plan->phase_peaks[0]).text,
                        vw__size_text(plan->phase_peaks[1]).text,
                        vw__size_text(plan->phase_peaks[2]).text);
}

void vw__report_reserved(vw__report *out, const uint64_t reserved_bytes[3])
{
    if (reserved_bytes[0] == VW_UNKNOWN && reserved_bytes[1] == VW_UNKNOWN &&
        reserved_bytes[2] == VW_UNKNOWN)
        return;
    vw__report_fact(out, "reserved", "%s with PyTorch's defaults, %s expandable, %s with vramwise",
                    vw__size_text(reserved_bytes[0]).text, vw__size_text(reserved_bytes[1]).text,
                    vw__size_text(reserved_bytes[2]).text);
}

static void say_error(vw__report *out, const vw_plan *plan)
{
    const char *basis = plan->error_basis != NULL ? plan->error_basis : "";
    const vw__text low = vw__share_text(plan->error_low);
    const vw__text high = vw__share_text(plan->error_high);
    bool is_one = strcmp(low.text, high.text) == 0;
    if (plan->has_error_band)
        vw__report_fact(out, "error", "%s%s%s where it was measured%s%s", low.text,
                        is_one ? "" : " to ", is_one ? "" : high.text, basis[0] != '\0' ? ": " : "",
                        basis);
    else
        vw__report_fact(out, "error", "not known: computed, not measured%s%s",
                        basis[0] != '\0' ? "; " : "", basis);
}

static void say_layers(vw__report *out, const vw_plan *plan)
{
    static const vw__column columns[] = {{"kept for backward", VW__COLUMN_NAME},
                                         {"bytes", VW__COLUMN_NUMBER}};
    vw__table table;
    if (plan->layer_part_count == 0 || plan->settings.mode == VW_PLAN_MODE_INFERENCE)
        return; /* what inference has then is its result */
    vw__report_blank(out);
    vw__table_init(&table, columns, 2);
    for (size_t i = 0; i < plan->layer_part_count && i < out->form.most_rows; i++) {
        vw__table_row(&table, VW__STYLE_PLAIN);
        vw__table_cell(&table, plan->layer_parts[i].name);
        vw__table_cell(&table, vw__size_text(plan->layer_parts[i].bytes).text);
    }
    vw__table_end(&table, out);
}

static void say_plan(vw__report *out, const void *content)
{
    const vw_plan *plan = content;
    say_verdict(out, plan);
    vw__report_blank(out);
    vw__report_plan_bar(out, plan);
    vw__report_blank(out);
    say_model(out, plan);
    say_settings(out, &plan->settings);
    say_peak(out, plan);
    vw__report_reserved(out, plan->reserved_bytes);
    say_error(out, plan);
    if (plan->is_card_known && plan->largest_batch > 0)
        vw__report_fact(out, "batch", "%s at most, everything else as it is",
                        vw__count_text(plan->largest_batch).text);
    say_layers(out, plan);
    vw__report_plan_choices(out, plan);
    if (plan->note_count > 0)
        vw__report_blank(out);
    vw__report_list(out, VW__STYLE_PLAIN, "note", plan->notes, plan->note_count);
}

vw_status vw_report_plan(const vw_plan *plan, const vw_report_form *form, const vw_output *output)
{
    static const vw__report_kind kind = {"plan", say_plan, vw__json_plan};
    return vw__report_as(&kind, plan, form, output);
}

/* ---- what is built in ------------------------------------------------------------------------ */

static void say_models(vw__report *out)
{
    static const vw__column columns[] = {
        {"model", VW__COLUMN_NAME}, {"family", VW__COLUMN_WORD}, {"parameters", VW__COLUMN_NUMBER}};
    const vw_plan_known_model *model;
    vw__table table;
    vw__table_init(&table, columns, 3);
    for (size_t i = 0; (model = vw_plan_known(i)) != NULL; i++) {
        vw__table_row(&table, VW__STYLE_PLAIN);
        vw__table_cell(&table, model->name);
        vw__table_cell(&table, model->family);
        vw__table_cell(&table, vw__count_text(model->parameters).text);
    }
    vw__table_end(&table, out);
}

static void say_cards(vw__report *out)
{
    static const vw__column columns[] = {{"card", VW__COLUMN_NAME},
                                         {"for programs", VW__COLUMN_NUMBER}};
    const vw_plan_card_info *card;
    vw__table table;
    vw__table_init(&table, columns, 2);
    for (size_t i = 0; (card = vw_plan_card_number(i)) != NULL; i++) {
        vw__table_row(&table, VW__STYLE_PLAIN);
        vw__table_cell(&table, card->name);
        vw__table_cell(&table, vw__size_text(card->total_bytes).text);
    }
    vw__table_end(&table, out);
}

vw_status vw_report_plan_known(const vw_report_form *form, const vw_output *output)
{
    vw__report out;
    vw__report_init(&out, form);
    if (out.form.is_json) {
        vw__json json;
        vw__json_init(&json, &out.buffer);
        vw__json_known_models(&json);
        vw__append_text(&out.buffer, "\n");
    } else {
        say_models(&out);
        vw__report_blank(&out);
        say_cards(&out);
    }
    return vw__report_send(&out, output);
}
