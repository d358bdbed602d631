/* report_plan.c - what a run will take, what makes it fit, and the list of what is built in. */
#include "report/report_plan.h"

#include <string.h>

#include "analysis/policies.h" /* VW__POLICY_NATIVE ... */
#include "report/report_csv.h"
#include "vramwise/report.h"

enum { CODE_OF = 3, MOST_CODES = 16, CODE_INDENT = 4 };

/* ---- the fields; vramwise-plan(1) names them --------------------------------------------------
 */

VW__REPORT_NAME(mode_of, vw_plan_settings, vw_plan_mode_name, mode)
VW__REPORT_NAME(precision_of, vw_plan_settings, vw_precision_name, precision)
VW__REPORT_NAME(optimizer_of, vw_plan_settings, vw_optimizer_name, optimizer)
VW__REPORT_NAME(offload_of, vw_plan_settings, vw_offload_name, offload)
VW__REPORT_NAME(checkpointing_of, vw_plan_settings, vw_checkpointing_name, checkpointing)
VW__REPORT_NAME(attention_of, vw_plan_settings, vw_attention_name, attention)
VW__REPORT_NAME(sharding_of, vw_plan_settings, vw_sharding_name, sharding)
VW__REPORT_NAME(kv_dtype_of, vw_plan_settings, vw_kv_dtype_name, kv_dtype)
VW__REPORT_NAME(head_of, vw_plan_settings, vw_plan_head_name, head)
VW__REPORT_CONDITION(has_head, vw_plan_settings, head != VW_PLAN_HEAD_AUTO)
VW__REPORT_CONDITION(has_images, vw_plan_settings, image > 0)
VW__REPORT_CONDITION(has_tokens, vw_plan_settings, image == 0)
VW__REPORT_CONDITION(has_interval, vw_plan_settings, checkpointing == VW_CHECKPOINTING_EVERY)
VW__REPORT_CONDITION(has_card, vw_plan_settings, card_bytes > 0)

static void json_loss(vw__report *out, vw__json *json, const char *key, const void *object)
{
    const vw_plan_settings *settings = object;
    (void)out;
    vw__json_boolean(json, key, !settings->without_loss && settings->generate == 0);
}

#define SETTING(kind, key, member) VW__REPORT_FIELD(kind, vw_plan_settings, key, member)
static const vw__report_field setting_list[] = {
    {.key = "mode", .text = mode_of},
    {.key = "head", .text = head_of, .is_known = has_head},
    {SETTING(COUNT, "batch", batch)},
    {SETTING(COUNT, "sequence", sequence), .is_known = has_tokens},
    {SETTING(COUNT, "image", image), .is_known = has_images},
    {SETTING(COUNT, "accumulation", accumulation)},
    {SETTING(COUNT, "generate", generate)},
    {.key = "loss", .write = json_loss},
    {.key = "precision", .text = precision_of},
    {SETTING(BOOLEAN, "master_weights", has_master_weights)},
    {.key = "optimizer", .text = optimizer_of},
    {.key = "offload", .text = offload_of},
    {.key = "checkpointing", .text = checkpointing_of},
    {SETTING(COUNT, "checkpoint_every", checkpoint_every), .is_known = has_interval},
    {.key = "attention", .text = attention_of},
    {SETTING(COUNT, "loss_chunks", loss_chunks)},
    {SETTING(BOOLEAN, "fused_loss", has_fused_loss)},
    {SETTING(COUNT, "padding", padding)},
    {SETTING(COUNT, "lora_rank", lora_rank)},
    {SETTING(TEXT, "lora_targets", lora_targets)},
    {SETTING(BOOLEAN, "quantized", is_quantized)},
    {.key = "kv_dtype", .text = kv_dtype_of},
    {SETTING(BOOLEAN, "static_cache", has_static_cache)},
    {SETTING(COUNT, "gpus", gpus)},
    {.key = "sharding", .text = sharding_of},
    {SETTING(TEXT, "card", card_name)},
    {SETTING(BYTES, "card_bytes", card_bytes), .is_known = has_card},
};
static const vw__report_fields setting_fields = VW__REPORT_FIELDS(vw_plan_settings, setting_list);

static void json_parts(vw__json *json, const vw_part *parts, size_t part_count)
{
    for (size_t i = 0; i < part_count; i++)
        vw__json_unsigned(json, parts[i].name, parts[i].bytes);
}

static void json_peak_parts(vw__report *out, vw__json *json, const char *key, const void *object)
{
    const vw_plan *plan = object;
    (void)out;
    vw__json_begin_object(json, key);
    json_parts(json, plan->parts, plan->part_count);
    vw__json_unsigned(json, "context", plan->context_bytes);
    vw__json_end_object(json);
}

static void json_layer_parts(vw__report *out, vw__json *json, const char *key, const void *object)
{
    const vw_plan *plan = object;
    (void)out;
    vw__json_begin_object(json, key);
    json_parts(json, plan->layer_parts, plan->layer_part_count);
    vw__json_end_object(json);
}

/* Of `uint64_t [3]`. */
#define THIRD(key_, number)                                                                        \
    {                                                                                              \
        .key = (key_), .kind = VW__REPORT_FIELD_BYTES, .offset = (number) * sizeof(uint64_t),      \
        .size_bytes = sizeof(uint64_t)                                                             \
    }
static const vw__report_field phase_list[] = {
    THIRD("forward", 0),
    THIRD("backward", 1),
    THIRD("optimizer_step", 2),
};
static const vw__report_fields phase_fields = VW__REPORT_FIELDS(uint64_t[3], phase_list);
static const vw__report_field reserved_list[] = {
    THIRD(VW__POLICY_NATIVE, 0),
    THIRD(VW__POLICY_EXPANDABLE, 1),
    THIRD(VW__POLICY_VRAMWISE, 2),
};
const vw__report_fields vw__report_plan_reserved = VW__REPORT_FIELDS(uint64_t[3], reserved_list);

/* The card of a choice is the plan's. */
VW__REPORT_CONDITION(choice_has_card, vw_plan_choice, settings.card_bytes > 0)
VW__REPORT_CONDITION(has_costs, vw_plan_choice, costs != NULL)
VW__REPORT_CONDITION(has_code, vw_plan_choice, code != NULL)
VW__REPORT_CONDITION(has_sources, vw_plan_choice, sources != NULL)

static void append_slowdown(vw__byte_buffer *cell, const void *object)
{
    const vw_plan_choice *choice = object;
    vw__append_format(cell, "%sx", vw__report_ratio(choice->slowdown).text);
}

static void append_fits(vw__byte_buffer *cell, const void *object)
{
    const vw_plan_choice *choice = object;
    if (choice_has_card(choice))
        vw__append_text(cell, choice->fits ? "yes" : "no");
}

/* "checkpointing, micro-batch 2 with 4 accumulated" */
static void append_changes(vw__byte_buffer *cell, const void *object)
{
    const vw_plan_choice *choice = object;
    for (size_t i = 0; i < choice->change_count; i++)
        vw__append_format(cell, "%s%s", i > 0 ? ", " : "", choice->changes[i]);
    if (choice->change_count == 0)
        vw__append_text(cell, "as it is");
}

#define CHOICE(kind, key, member) VW__REPORT_FIELD(kind, vw_plan_choice, key, member)
#define CHANGE_COUNTED VW__REPORT_COUNTED(vw_plan_choice, change_count)
static const vw__report_field choice_list[] = {
    {CHOICE(TEXTS, "changes", changes), CHANGE_COUNTED, VW__REPORT_COLUMN(5, NAME, "changes"),
     .append = append_changes},
    {CHOICE(BYTES, "peak_allocated_bytes", peak_allocated_bytes),
     VW__REPORT_COLUMN(2, NUMBER, "peak")},
    {CHOICE(BYTES, "peak_device_bytes", peak_device_bytes), VW__REPORT_COLUMN(3, NUMBER, "card")},
    {CHOICE(RATIO, "slowdown", slowdown), VW__REPORT_COLUMN(1, NUMBER, "time"),
     .append = append_slowdown},
    {CHOICE(BOOLEAN, "fits", fits), VW__REPORT_COLUMN(4, WORD, "fits"), .append = append_fits,
     .is_known = choice_has_card},
    {CHOICE(TEXTS, "costs", costs), CHANGE_COUNTED, .is_known = has_costs},
    {CHOICE(TEXTS, "code", code), CHANGE_COUNTED, .is_known = has_code},
    {CHOICE(TEXTS, "sources", sources), CHANGE_COUNTED, .is_known = has_sources},
    {CHOICE(OBJECT, "settings", settings), .fields = &setting_fields},
};
static const vw__report_fields choice_fields = VW__REPORT_FIELDS(vw_plan_choice, choice_list);

_Static_assert(offsetof(vw_plan, error_high) == offsetof(vw_plan, error_low) + sizeof(double),
               "the error band is a range");
VW__REPORT_CONDITION(has_error_band, vw_plan, has_error_band)
VW__REPORT_CONDITION(is_card_known, vw_plan, is_card_known)
VW__REPORT_NAME(verdict_of, vw_plan, vw_plan_verdict_name, verdict)

#define PLAN(kind, key, member) VW__REPORT_FIELD(kind, vw_plan, key, member)
static const vw__report_field plan_list[] = {
    {PLAN(TEXT, "model", model)},
    {PLAN(TEXT, "family", family)},
    {PLAN(TEXT, "caution", caution)},
    {PLAN(COUNT, "parameters", parameters)},
    {PLAN(COUNT, "trained_parameters", trained_parameters)},
    {PLAN(OBJECT, "settings", settings), .fields = &setting_fields},
    {PLAN(TEXT, "precision_basis", precision_basis)},
    {PLAN(TEXT, "quantization", quantization)},
    {PLAN(TEXT, "lora_modules", lora_modules)},
    {PLAN(BYTES, "peak_allocated_bytes", peak_allocated_bytes)},
    {PLAN(BYTES, "peak_device_bytes", peak_device_bytes)},
    {PLAN(BYTES, "pageable_bytes", pageable_bytes)},
    {PLAN(BYTES, "resident_bytes", resident_bytes)},
    {PLAN(TEXT, "peak_phase", peak_phase)},
    {PLAN(TEXT, "peak_place", peak_place)},
    {.key = "parts", .write = json_peak_parts},
    {.key = "activations_by_layer", .write = json_layer_parts},
    {PLAN(OBJECT, "phase_peaks", phase_peaks), .fields = &phase_fields},
    {PLAN(BYTES, "first_step_peak_bytes", first_step_peak_bytes)},
    {PLAN(BYTES, "after_forward_bytes", after_forward_bytes)},
    {PLAN(BYTES, "after_backward_bytes", after_backward_bytes)},
    {PLAN(BYTES, "after_step_bytes", after_step_bytes)},
    {PLAN(OBJECT, "reserved_bytes", reserved_bytes), .fields = &vw__report_plan_reserved},
    {PLAN(RANGE, "error_band", error_low), .is_known = has_error_band},
    {PLAN(TEXT, "error_basis", error_basis)},
    {PLAN(BOOLEAN, "fits", fits), .is_known = is_card_known},
    {.key = "verdict", .text = verdict_of, .is_known = is_card_known},
    {PLAN(TEXT, "fitting_policy", fitting_policy)},
    {PLAN(INTEGER, "margin_bytes", margin_bytes), .is_known = is_card_known},
    {PLAN(COUNT, "largest_batch", largest_batch), .is_known = is_card_known},
    {PLAN(OBJECTS, "options", choices), VW__REPORT_COUNTED(vw_plan, choice_count),
     .fields = &choice_fields},
    {PLAN(TEXTS, "notes", notes), VW__REPORT_COUNTED(vw_plan, note_count)},
};
static const vw__report_fields plan_fields = VW__REPORT_FIELDS(vw_plan, plan_list);

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

static void add_lora(vw__byte_buffer *text, const vw_plan *plan)
{
    if (plan->settings.lora_rank > 0)
        vw__append_format(text, ", %s of rank %llu on %s",
                          plan->settings.is_quantized ? "QLoRA" : "LoRA",
                          (unsigned long long)plan->settings.lora_rank,
                          plan->lora_modules != NULL ? plan->lora_modules : "no module");
}

static void add_rest(vw__byte_buffer *text, const vw_plan_settings *settings)
{
    add(text, settings->has_fused_loss, "fused loss");
    if (settings->padding > 1)
        vw__append_format(text, ", padded to multiples of %llu",
                          (unsigned long long)settings->padding);
    add(text, settings->padding == 1, "padded");
    if (settings->kv_dtype != VW_KV_DTYPE_AUTO)
        vw__append_format(text, ", keys and values in %s", vw_kv_dtype_name(settings->kv_dtype));
    add(text, settings->has_static_cache, "a static cache");
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
static void say_settings(vw__report *out, const vw_plan *plan)
{
    const vw_plan_settings *settings = &plan->settings;
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
    if (plan->has_own_precision)
        vw__append_format(&text, " (%s)", plan->precision_basis);
    if (plan->quantization != NULL && settings->lora_rank == 0)
        vw__append_format(&text, ", weights in %s", plan->quantization);
    add(&text, settings->has_master_weights, "with float32 copies");
    add(&text, settings->mode == VW_PLAN_MODE_INFERENCE, "inference");
    add(&text, settings->mode == VW_PLAN_MODE_KEEP_GRAPH, "a forward pass whose graph is kept");
    if (settings->mode == VW_PLAN_MODE_TRAIN)
        add_training(&text, settings);
    add_lora(&text, plan);
    add_rest(&text, settings);
    out->buffer.has_failed |= text.has_failed;
    vw__report_fact(out, "settings", "%s", vw__byte_buffer_text(&text));
    vw__byte_buffer_deinit(&text);
}

static const char *head_words(vw_plan_head head)
{
    return head == VW_PLAN_HEAD_NONE ? "no head" : vw_plan_head_name(head);
}

/* "bert.json (bert, token-classification), 109 M parameters" */
static void say_model(vw__report *out, const vw_plan *plan)
{
    const bool has_own = has_head(&plan->settings);
    const bool has_frozen =
        plan->trained_parameters > 0 && plan->trained_parameters < plan->parameters;
    vw__report_fact(out, "model", "%s (%s%s%s), %s parameters%s%s%s", plan->model, plan->family,
                    has_own ? ", " : "", has_own ? head_words(plan->settings.head) : "",
                    vw__report_count(plan->parameters).text, has_frozen ? ", " : "",
                    has_frozen ? vw__report_count(plan->trained_parameters).text : "",
                    has_frozen ? " of them trained" : "");
}

/* ---- what it takes --------------------------------------------------------------------------- */

void vw__report_plan_fit(vw__report *out, uint64_t taken_bytes, uint64_t card_bytes,
                         int64_t margin_bytes, bool fits)
{
    const vw__report_text taken = vw__report_size(taken_bytes), card = vw__report_size(card_bytes);
    const vw__report_text margin =
        vw__report_size(margin_bytes < 0 ? 0 - (uint64_t)margin_bytes : (uint64_t)margin_bytes);
    if (fits)
        vw__report_say(out, VW__REPORT_STYLE_GREEN, "fits: %s of %s, %s are left", taken.text,
                       card.text, margin.text);
    else if (margin_bytes >= 0)
        vw__report_say(out, VW__REPORT_STYLE_YELLOW,
                       "too close: %s of %s, and the error of the prediction is larger than the "
                       "%s that are left",
                       taken.text, card.text, margin.text);
    else
        vw__report_say(out, VW__REPORT_STYLE_RED,
                       "does not fit: %s on a card of %s, %s are missing", taken.text, card.text,
                       margin.text);
}

/* PyTorch would hold more than the card has: does it come through all the same? */
static void say_full_card(vw__report *out, const vw_plan *plan)
{
    const vw__report_text wanted =
        vw__report_size(plan->reserved_bytes[0] + plan->context_bytes + plan->resident_bytes);
    const vw__report_text card = vw__report_size(plan->settings.card_bytes);
    if (plan->verdict == VW_PLAN_VERDICT_BARELY)
        vw__report_say(out, VW__REPORT_STYLE_YELLOW,
                       "fits barely: PyTorch would take %s of %s, so it gives unused memory back "
                       "and asks again, which costs time; anything else on the card is too much",
                       wanted.text, card.text);
    else
        vw__report_say(out, VW__REPORT_STYLE_RED,
                       "does not fit with PyTorch's defaults, which would take %s of %s; it does "
                       "with %s",
                       wanted.text, card.text,
                       strcmp(plan->fitting_policy, VW__POLICY_EXPANDABLE) == 0
                           ? "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
                           : "vramwise run --allocator vramwise");
}

static void say_verdict(vw__report *out, const vw_plan *plan)
{
    switch (plan->verdict) {
    case VW_PLAN_VERDICT_NO_CARD:
        vw__report_say(out, VW__REPORT_STYLE_BOLD, "takes %s on the card, %s of it allocated",
                       vw__report_size(plan->peak_device_bytes).text,
                       vw__report_size(plan->peak_allocated_bytes).text);
        break;
    case VW_PLAN_VERDICT_BARELY:
    case VW_PLAN_VERDICT_OTHER_ALLOCATOR:
        say_full_card(out, plan);
        break;
    default:
        vw__report_plan_fit(out, plan->peak_device_bytes, plan->settings.card_bytes,
                            plan->margin_bytes, plan->fits);
    }
}

static void say_peak(vw__report *out, const vw_plan *plan)
{
    const char *phase = plan->peak_phase != NULL ? plan->peak_phase : "?";
    const char *place = plan->peak_place != NULL ? plan->peak_place : "";
    const bool has_place = place[0] != '\0' && strcmp(place, phase) != 0;
    vw__report_fact(out, "peak", "%s allocated, in %s%s%s",
                    vw__report_size(plan->peak_allocated_bytes).text, phase,
                    has_place ? ", at " : "", has_place ? place : "");
    if (plan->phase_peaks[1] != VW_UNKNOWN)
        vw__report_fact(out, "by phase", "forward %s, backward %s, optimizer step %s",
                        vw__report_size(plan->phase_peaks[0]).text,
                        vw__report_size(plan->phase_peaks[1]).text,
                        vw__report_size(plan->phase_peaks[2]).text);
}

void vw__report_reserved(vw__report *out, const uint64_t reserved_bytes[3])
{
    if (reserved_bytes[0] == VW_UNKNOWN && reserved_bytes[1] == VW_UNKNOWN &&
        reserved_bytes[2] == VW_UNKNOWN)
        return;
    vw__report_fact(out, "reserved", "%s with PyTorch's defaults, %s expandable, %s with vramwise",
                    vw__report_size(reserved_bytes[0]).text,
                    vw__report_size(reserved_bytes[1]).text,
                    vw__report_size(reserved_bytes[2]).text);
}

static void say_error(vw__report *out, const vw_plan *plan)
{
    const char *basis = plan->error_basis != NULL ? plan->error_basis : "";
    const vw__report_text low = vw__report_share(plan->error_low);
    const vw__report_text high = vw__report_share(plan->error_high);
    bool is_one = strcmp(low.text, high.text) == 0;
    if (plan->has_error_band)
        vw__report_fact(out, "error", "%s%s%s where it was measured%s%s", low.text,
                        is_one ? "" : " to ", is_one ? "" : high.text, basis[0] != '\0' ? ": " : "",
                        basis);
    else
        vw__report_fact(out, "error", "not known: computed, not measured%s%s",
                        basis[0] != '\0' ? "; " : "", basis);
}

static const vw__report_field layer_list[] = {
    {VW__REPORT_FIELD(TEXT, vw_part, NULL, name), VW__REPORT_COLUMN(1, NAME, "kept for backward")},
    {VW__REPORT_FIELD(BYTES, vw_part, NULL, bytes), VW__REPORT_COLUMN(2, NUMBER, "bytes")},
};
static const vw__report_fields layer_fields = VW__REPORT_FIELDS(vw_part, layer_list);

static void say_layers(vw__report *out, const vw_plan *plan)
{
    if (plan->layer_part_count == 0 || plan->settings.mode == VW_PLAN_MODE_INFERENCE)
        return; /* what inference has then is its result */
    vw__report_blank(out);
    vw__report_fields_rows(out, &layer_fields, plan->layer_parts,
                           plan->layer_part_count < out->form.most_rows ? plan->layer_part_count
                                                                        : out->form.most_rows);
}

/* ---- what makes it fit: a table, then the code for the first few ------------------------------
 */

static void say_code_lines(vw__report *out, const char *code)
{
    for (const char *line = code; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        vw__report_append_spaces(&out->buffer, CODE_INDENT);
        vw__report_show(out, &out->buffer, line, length);
        vw__append_text(&out->buffer, "\n");
        line += length + (line[length] == '\n');
    }
}

typedef struct said_codes {
    const char *texts[MOST_CODES];
    size_t count;
} said_codes;

static bool is_said(said_codes *said, const char *code)
{
    for (size_t i = 0; i < said->count; i++)
        if (strcmp(said->texts[i], code) == 0)
            return true;
    if (said->count < MOST_CODES)
        said->texts[said->count++] = code;
    return false;
}

static void say_change(vw__report *out, const vw_plan_choice *choice, size_t i, said_codes *said)
{
    const char *code = choice->code != NULL ? choice->code[i] : NULL;
    const char *cost = choice->costs != NULL ? choice->costs[i] : NULL;
    if (code == NULL || is_said(said, code))
        return;
    vw__report_blank(out);
    if (cost != NULL && cost[0] != '\0')
        vw__report_say(out, VW__REPORT_STYLE_BOLD, "%s: %s", choice->changes[i], cost);
    else
        vw__report_say(out, VW__REPORT_STYLE_BOLD, "%s", choice->changes[i]);
    say_code_lines(out, code);
}

static void say_choices(vw__report *out, const vw_plan *plan)
{
    said_codes said = {.count = 0};
    size_t shown = plan->choice_count;
    if (shown > out->form.most_rows)
        shown = out->form.most_rows;
    if (shown == 0)
        return;
    vw__report_blank(out);
    vw__report_say(out, VW__REPORT_STYLE_BOLD,
                   plan->is_card_known ? "What makes it fit, fastest first:"
                                       : "What takes less, fastest first:");
    vw__report_fields_rows(out, &choice_fields, plan->choices, shown);
    for (size_t i = 0; i < shown && i < CODE_OF; i++)
        for (size_t j = 0; j < plan->choices[i].change_count; j++)
            say_change(out, &plan->choices[i], j, &said);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static void say_plan(vw__report *out, const void *content)
{
    const vw_plan *plan = content;
    if (plan->caution != NULL)
        vw__report_say(out, VW__REPORT_STYLE_YELLOW, "%s", plan->caution);
    say_verdict(out, plan);
    if (plan->is_card_known && plan->largest_batch > 0)
        vw__report_say(out, VW__REPORT_STYLE_PLAIN,
                       "the largest batch that fits is %s, with everything else unchanged",
                       vw__report_count(plan->largest_batch).text);
    vw__report_blank(out);
    vw__report_plan_bar(out, plan);
    vw__report_blank(out);
    say_model(out, plan);
    say_settings(out, plan);
    say_peak(out, plan);
    vw__report_reserved(out, plan->reserved_bytes);
    say_error(out, plan);
    say_layers(out, plan);
    say_choices(out, plan);
    if (plan->note_count > 0)
        vw__report_blank(out);
    vw__report_list(out, VW__REPORT_STYLE_PLAIN, "note", plan->notes, plan->note_count);
}

vw_status vw_report_plan(const vw_plan *plan, const vw_report_form *form, const vw_output *output)
{
    static const vw__report_kind kind = {"plan", say_plan, &plan_fields, "options"};
    return vw__report_as(&kind, plan, form, output);
}

/* ---- what is built in ------------------------------------------------------------------------ */

static const vw__report_field model_list[] = {
    {VW__REPORT_FIELD(TEXT, vw_plan_known_model, "name", name),
     VW__REPORT_COLUMN(1, NAME, "model")},
    {VW__REPORT_FIELD(TEXT, vw_plan_known_model, "family", family),
     VW__REPORT_COLUMN(2, WORD, "family")},
    {VW__REPORT_FIELD(COUNT, vw_plan_known_model, "parameters", parameters),
     VW__REPORT_COLUMN(3, NUMBER, "parameters")},
};
static const vw__report_fields model_fields = VW__REPORT_FIELDS(vw_plan_known_model, model_list);

static const vw__report_field card_list[] = {
    {VW__REPORT_FIELD(TEXT, vw_plan_card_info, "name", name), VW__REPORT_COLUMN(1, NAME, "card")},
    {VW__REPORT_FIELD(BYTES, vw_plan_card_info, "total_bytes", total_bytes),
     VW__REPORT_COLUMN(2, NUMBER, "for programs")},
};
static const vw__report_fields card_fields = VW__REPORT_FIELDS(vw_plan_card_info, card_list);

static void say_known(vw__report *out, const void *content)
{
    const vw_plan_known_model *model;
    const vw_plan_card_info *card;
    vw__report_table table;
    (void)content;
    vw__report_fields_table(&table, &model_fields);
    for (size_t i = 0; (model = vw_plan_known(i)) != NULL; i++)
        vw__report_fields_row(&table, VW__REPORT_STYLE_PLAIN, &model_fields, model);
    vw__report_table_end(&table, out);
    vw__report_blank(out);
    vw__report_fields_table(&table, &card_fields);
    for (size_t i = 0; (card = vw_plan_card_number(i)) != NULL; i++)
        vw__report_fields_row(&table, VW__REPORT_STYLE_PLAIN, &card_fields, card);
    vw__report_table_end(&table, out);
}

static void json_models(vw__report *out, vw__json *json, const char *key, const void *object)
{
    const vw_plan_known_model *model;
    (void)object;
    vw__json_begin_array(json, key);
    for (size_t i = 0; (model = vw_plan_known(i)) != NULL; i++)
        vw__report_json_object(out, json, NULL, &model_fields, model);
    vw__json_end_array(json);
}

static void json_cards(vw__report *out, vw__json *json, const char *key, const void *object)
{
    const vw_plan_card_info *card;
    (void)object;
    vw__json_begin_array(json, key);
    for (size_t i = 0; (card = vw_plan_card_number(i)) != NULL; i++)
        vw__report_json_object(out, json, NULL, &card_fields, card);
    vw__json_end_array(json);
}

static void csv_models(vw__report *out)
{
    const vw_plan_known_model *model;
    vw__report_csv_names(out, &model_fields);
    vw__report_csv_end_line(out);
    for (size_t i = 0; (model = vw_plan_known(i)) != NULL; i++) {
        vw__report_csv_values(out, &model_fields, model);
        vw__report_csv_end_line(out);
    }
}

vw_status vw_report_plan_known(const vw_report_form *form, const vw_output *output)
{
    static const vw__report_field list[] = {
        {.key = "models", .write = json_models},
        {.key = "cards", .write = json_cards},
    };
    static const vw__report_fields fields = {list, sizeof list / sizeof list[0], 0};
    static const vw__report_kind kind = {"list", say_known, &fields, NULL};
    vw__report report;
    vw__report_init(&report, form);
    if (report.form.is_csv) {
        csv_models(&report);
        return vw__report_send(&report, output);
    }
    return vw__report_as(&kind, "", form, output); /* it has no content but what is built in */
}
