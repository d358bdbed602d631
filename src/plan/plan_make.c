/* plan_make.c - the result of a run on the tape, as a plan that its caller keeps.
 *
 * One run is listed (plan_events.h) and answers everything: the peak and its place, what the
 * forward pass leaves, what allocators make of it. Then other settings are tried (search.h). */
#include <string.h>

#include "vramwise/plan.h"
#include "analysis/attribution.h" /* VW__CATEGORY_NAME_WEIGHTS */
#include "analysis/policies.h"    /* VW__POLICY_NATIVE ... */
#include "base/arena.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"
#include "base/struct_size.h"
#include "plan/error_bands.h"
#include "plan/plan_device.h"
#include "plan/plan_events.h"
#include "plan/plan_model.h"
#include "plan/plan_settings.h"
#include "plan/search.h"

/* Accumulated batches that are played: later ones are like the last of these. */
enum { PLAYED_ACCUMULATION = 3 };

typedef struct plan_holder {
    vw_plan plan; /* first: the caller has a pointer to it */
    vw__arena arena;
    vw_part *rounding; /* the last of the plan's parts */
    /* What PyTorch would hold beyond a card that has enough for what is allocated, and on which it
     * does not come through: other settings must save that, too. */
    uint64_t spare_bytes;
} plan_holder;

void vw_plan_free(vw_plan *plan)
{
    plan_holder *holder = (plan_holder *)plan;
    if (holder == NULL)
        return;
    vw__arena_deinit(&holder->arena);
    vw__host_free(holder);
}

static vw_status no_memory(void)
{
    return vw__fail_host_memory(sizeof(plan_holder), "a plan");
}

/* ---- the run --------------------------------------------------------------------------------- */

static const char *phase_name(const vw__plan_events *events, const vw__plan_origin *peak)
{
    static const char *const phases[VW__PLAN_PHASE_COUNT] = {"forward", "backward",
                                                             "optimizer step"};
    if (events->peaks.is_generation)
        return "generation";
    if (peak->pass == VW__PLAN_PASS_AGAIN)
        return "recomputation";
    if (peak->use == VW__TAPE_USE_LOSS || vw__plan_is_inside(events->places, peak->place, "loss"))
        return "loss";
    return phases[events->peaks.phase];
}

static vw_status keep_place(plan_holder *holder, const vw__tape *tape, uint32_t place)
{
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    vw__plan_append_place(&text, tape, place);
    holder->plan.peak_place = vw__byte_buffer_has_failed(&text)
                                  ? NULL
                                  : vw__arena_copy(&holder->arena, vw__byte_buffer_text(&text),
                                                   vw__byte_buffer_size(&text));
    vw__byte_buffer_deinit(&text);
    return holder->plan.peak_place == NULL ? no_memory() : VW_OK;
}

static vw_status keep_parts(plan_holder *holder, const vw__tape_peak *peak)
{
    static const char *const names[VW__TAPE_USE_COUNT] = {
        [VW__TAPE_USE_WEIGHTS] = VW__CATEGORY_NAME_WEIGHTS,
        [VW__TAPE_USE_GRADIENTS] = VW__CATEGORY_NAME_GRADIENTS,
        [VW__TAPE_USE_OPTIMIZER] = VW__CATEGORY_NAME_OPTIMIZER,
        [VW__TAPE_USE_ACTIVATIONS] = VW__CATEGORY_NAME_ACTIVATIONS,
        [VW__TAPE_USE_LOSS] = VW__CATEGORY_NAME_LOSS,
        [VW__TAPE_USE_BACKWARD] = VW__CATEGORY_NAME_BACKWARD,
        [VW__TAPE_USE_WORKSPACE] = VW__CATEGORY_NAME_WORKSPACE,
        [VW__TAPE_USE_DATA] = VW__CATEGORY_NAME_DATA,
    };
    vw_part *parts = vw__arena_alloc_array(&holder->arena, VW__TAPE_USE_COUNT + 1, sizeof *parts,
                                           sizeof(uint64_t));
    if (parts == NULL)
        return no_memory();
    for (size_t i = 0; i < VW__TAPE_USE_COUNT; i++)
        parts[i] = (vw_part){names[i], peak->parts[i]};
    parts[VW__TAPE_USE_COUNT] = (vw_part){VW__CATEGORY_NAME_ROUNDING, 0};
    holder->plan.parts = parts;
    holder->plan.part_count = VW__TAPE_USE_COUNT + 1;
    holder->rounding = &parts[VW__TAPE_USE_COUNT];
    return VW_OK;
}

static vw_status keep_layers(plan_holder *holder, const uint64_t kept_bytes[VW__PLAN_LAYER_COUNT])
{
    vw_part *parts = vw__arena_alloc_array(&holder->arena, VW__PLAN_LAYER_COUNT, sizeof *parts,
                                           sizeof(uint64_t));
    size_t count = 0;
    if (parts == NULL)
        return no_memory();
    for (vw__plan_layer_kind kind = 0; kind < VW__PLAN_LAYER_COUNT; kind++)
        if (kept_bytes[kind] > 0)
            parts[count++] = (vw_part){vw__plan_layer_kind_name(kind), kept_bytes[kind]};
    holder->plan.layer_parts = parts;
    holder->plan.layer_part_count = count;
    return VW_OK;
}

static void fill_peaks(vw_plan *plan, const vw__plan_peaks *peaks)
{
    plan->parameters = peaks->parameters;
    plan->trained_parameters = peaks->trained_parameters;
    plan->peak_allocated_bytes = peaks->peak.live_bytes;
    plan->first_step_peak_bytes = peaks->first_step_bytes;
    plan->after_forward_bytes = peaks->after_forward_bytes;
    plan->after_backward_bytes = peaks->after_backward_bytes;
    plan->after_step_bytes = peaks->after_step_bytes;
    for (size_t i = 0; i < VW__PLAN_PHASE_COUNT; i++) {
        uint64_t bytes = peaks->phase_peaks[i].live_bytes;
        plan->phase_peaks[i] = bytes > 0 ? bytes : VW_UNKNOWN;
    }
}

static vw_status fill_run(plan_holder *holder, const vw__plan_events *events)
{
    vw__plan_moments moments;
    VW__TRY(vw__plan_moments_find(events, &moments));
    fill_peaks(&holder->plan, &events->peaks);
    holder->plan.peak_phase = phase_name(events, &moments.peak);
    VW__TRY(keep_place(holder, events->places, moments.peak.place));
    VW__TRY(keep_parts(holder, &events->peaks.peak));
    return keep_layers(holder, moments.kept_bytes);
}

/* ---- the card -------------------------------------------------------------------------------- */

/* PyTorch does not split a block to save 1 MiB or less, and counts it whole. Only a replay shows
 * how many bytes that makes. */
static void add_rounding(plan_holder *holder, const vw__plan_events *events, uint64_t peak_bytes)
{
    vw_plan *plan = &holder->plan;
    if (peak_bytes == VW_UNKNOWN || peak_bytes <= plan->peak_allocated_bytes)
        return;
    holder->rounding->bytes = peak_bytes - plan->peak_allocated_bytes;
    plan->peak_allocated_bytes = peak_bytes;
    plan->phase_peaks[events->peaks.phase] = peak_bytes;
}

static vw_status fill_reserved(plan_holder *holder, const vw__plan_events *events,
                               bool without_replay)
{
    vw_plan *plan = &holder->plan;
    vw__plan_replayed replayed;
    for (size_t i = 0; i < VW__PLAN_POLICIES; i++)
        plan->reserved_bytes[i] = VW_UNKNOWN;
    if (without_replay || plan->peak_allocated_bytes > VW__PLAN_MOST_REPLAYED_BYTES)
        return VW_OK;
    VW__TRY(vw__plan_replay_events(events, &replayed));
    memcpy(plan->reserved_bytes, replayed.reserved_bytes, sizeof replayed.reserved_bytes);
    add_rounding(holder, events, replayed.peak_allocated_bytes);
    return VW_OK;
}

static vw_status fill_error(plan_holder *holder, const vw_plan_model *model,
                            vw__plan_error_band band)
{
    vw_plan *plan = &holder->plan;
    plan->has_error_band = band.case_count > 0;
    plan->error_low = band.low;
    plan->error_high = band.high;
    plan->error_basis = vw__plan_error_basis(&holder->arena, band, model, plan);
    return plan->error_basis == NULL ? no_memory() : VW_OK;
}

/* What is left of a card; negative: what is missing. */
static int64_t margin_of(uint64_t card_bytes, uint64_t used_bytes)
{
    uint64_t distance = card_bytes > used_bytes ? card_bytes - used_bytes : used_bytes - card_bytes;
    int64_t margin = distance > INT64_MAX ? INT64_MAX : (int64_t)distance;
    return card_bytes > used_bytes ? margin : -margin;
}

static void fill_device(vw_plan *plan)
{
    const uint64_t card_bytes = plan->settings.card_bytes;
    plan->context_bytes = vw__plan_context_bytes(&plan->settings);
    plan->is_card_known = card_bytes > 0;
    plan->peak_device_bytes =
        plan->reserved_bytes[0] == VW_UNKNOWN
            ? vw__plan_device_bytes(plan->peak_allocated_bytes, &plan->settings)
            : plan->reserved_bytes[0] + plan->context_bytes;
}

/* PyTorch holds more than it uses while there is room, and gives that back when there is not. Where
 * it would hold more than the card has, a replay on that card says whether it comes through. */
static vw_status find_verdict(plan_holder *holder, const vw__plan_events *events,
                              vw__plan_error_band band)
{
    vw_plan *plan = &holder->plan;
    static const char *const names[VW__PLAN_POLICIES] = {VW__POLICY_NATIVE, VW__POLICY_EXPANDABLE,
                                                         VW__POLICY_VRAMWISE};
    const uint64_t card_bytes = plan->settings.card_bytes;
    bool completes[VW__PLAN_POLICIES];
    plan->verdict = VW_PLAN_VERDICT_NO_CARD;
    if (!plan->is_card_known)
        return VW_OK;
    plan->verdict = VW_PLAN_VERDICT_FITS;
    if (vw__plan_device_bytes_at_worst(plan->peak_allocated_bytes, &plan->settings, band) >
        card_bytes)
        plan->verdict = plan->peak_device_bytes <= card_bytes ? VW_PLAN_VERDICT_TOO_CLOSE
                                                              : VW_PLAN_VERDICT_DOES_NOT_FIT;
    if (plan->verdict != VW_PLAN_VERDICT_FITS || plan->peak_device_bytes <= card_bytes)
        return VW_OK;
    VW__TRY(vw__plan_replay_on_card(events, card_bytes - plan->context_bytes, completes));
    plan->verdict = completes[0] ? VW_PLAN_VERDICT_BARELY : VW_PLAN_VERDICT_DOES_NOT_FIT;
    if (!completes[0])
        holder->spare_bytes = plan->peak_device_bytes - card_bytes;
    for (size_t i = 1; i < VW__PLAN_POLICIES && !completes[0]; i++)
        if (completes[i] && plan->fitting_policy == NULL) {
            plan->verdict = VW_PLAN_VERDICT_OTHER_ALLOCATOR;
            plan->fitting_policy = names[i];
        }
    return VW_OK;
}

static vw_status judge(plan_holder *holder, const vw__plan_events *events, vw__plan_error_band band)
{
    vw_plan *plan = &holder->plan;
    const uint64_t card_bytes = plan->settings.card_bytes;
    fill_device(plan);
    VW__TRY(find_verdict(holder, events, band));
    plan->fits = plan->verdict == VW_PLAN_VERDICT_FITS || plan->verdict == VW_PLAN_VERDICT_BARELY;
    if (plan->fits && plan->peak_device_bytes > card_bytes)
        plan->peak_device_bytes = card_bytes;
    plan->resident_bytes =
        vw__plan_resident_bytes(plan->pageable_bytes, plan->peak_device_bytes, &plan->settings);
    plan->peak_device_bytes += plan->resident_bytes;
    if (plan->is_card_known)
        plan->margin_bytes = margin_of(card_bytes, plan->peak_device_bytes);
    return VW_OK;
}

/* ---- notes ----------------------------------------------------------------------------------- */

/* Keeps a text of the arena, or a static one. */
static vw_status add_note(plan_holder *holder, const char *text)
{
    const char **notes = (const char **)holder->plan.notes; /* ours until the plan is handed out */
    notes[holder->plan.note_count++] = text;
    return text == NULL ? no_memory() : VW_OK;
}

static vw_status keep_notes(plan_holder *holder, const vw_plan_model *model)
{
    enum { MOST_NOTES = VW__PLAN_MOST_NOTES + VW__PLAN_MODEL_MOST_NOTES + 1 };
    const char **notes =
        vw__arena_alloc_array(&holder->arena, MOST_NOTES, sizeof *notes, sizeof(char *));
    if (notes == NULL)
        return no_memory();
    holder->plan.notes = notes;
    holder->plan.note_count = vw__plan_notes(model, &holder->plan.settings, notes);
    for (size_t i = 0; i < model->note_count; i++) /* the model may be closed before the plan */
        VW__TRY(add_note(holder, vw__arena_format(&holder->arena, "%s", model->notes[i])));
    return VW_OK;
}

/* ---- choices --------------------------------------------------------------------------------- */

/* The head's share of all products. */
static double head_share(const vw_plan_model *model, const vw_plan *plan)
{
    double head = (double)model->shape.embedding.vocabulary * (double)model->shape.hidden;
    if (!vw__plan_has_vocabulary_head(model, &plan->settings))
        return 0;
    return plan->parameters == 0 || head > (double)plan->parameters
               ? 1
               : head / (double)plan->parameters;
}

static vw_status note_hopeless(plan_holder *holder, const vw__plan_search_result *result)
{
    char size[VW__HUMAN_SIZE_BYTES];
    if (result->tried_count == 0)
        return add_note(holder, "it does not fit this card, and there is no other setting to try");
    return add_note(
        holder, vw__arena_format(&holder->arena,
                                 "no change that goes with these settings makes it fit this card: "
                                 "the least that was found takes %s",
                                 vw__human_size(result->least_device_bytes, size)));
}

/* Puts settings that were found into words. */
static vw_status fill_choice(plan_holder *holder, const vw_plan_model *model, double share,
                             const vw__plan_found *found, vw_plan_choice *out)
{
    enum { LISTS = 4 };
    const vw_plan_settings *base = &holder->plan.settings, *to = &found->settings;
    const size_t most = VW__PLAN_CHANGE_COUNT; /* a change may bring another along */
    const char **texts =
        vw__arena_alloc_array(&holder->arena, LISTS * most, sizeof *texts, sizeof(char *));
    size_t count = 0;
    if (texts == NULL)
        return no_memory();
    for (vw__plan_change change = 0; change < VW__PLAN_CHANGE_COUNT; change++) {
        vw_plan_change words;
        if (!vw__plan_has_changed(change, base, to))
            continue;
        if (!vw__plan_change_describe(&holder->arena, change, model, to, &words))
            return no_memory();
        texts[count] = words.name;
        texts[most + count] = words.cost;
        texts[2 * most + count] = words.code;
        texts[3 * most + count++] = vw__plan_slowdown_of(change, base, to, share).source;
    }
    *out = (vw_plan_choice){.changes = texts,
                            .costs = texts + most,
                            .code = texts + 2 * most,
                            .sources = texts + 3 * most,
                            .change_count = count,
                            .settings = *to,
                            .peak_allocated_bytes = found->peak_allocated_bytes,
                            .peak_device_bytes = found->device_bytes,
                            .slowdown = found->slowdown,
                            .fits = found->fits};
    return VW_OK;
}

static vw_status fill_choices(plan_holder *holder, const vw_plan_model *model)
{
    vw_plan *plan = &holder->plan;
    vw__plan_search_result result;
    double share = head_share(model, plan);
    if (plan->is_card_known)
        VW__TRY(vw__plan_largest_batch(model, &plan->settings, &plan->largest_batch));
    VW__TRY(vw__plan_search(model, &plan->settings, share, holder->spare_bytes, &result));
    vw_plan_choice *choices = vw__arena_alloc_array(&holder->arena, result.found_count,
                                                    sizeof *choices, sizeof(uint64_t));
    if (choices == NULL)
        return no_memory();
    for (size_t i = 0; i < result.found_count; i++)
        VW__TRY(fill_choice(holder, model, share, &result.found[i], &choices[i]));
    plan->choices = choices;
    plan->choice_count = result.found_count;
    const bool is_hopeless =
        plan->verdict == VW_PLAN_VERDICT_TOO_CLOSE || plan->verdict == VW_PLAN_VERDICT_DOES_NOT_FIT;
    return is_hopeless && result.found_count == 0 ? note_hopeless(holder, &result) : VW_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* "q_proj, v_proj" */
static vw_status keep_lora_modules(plan_holder *holder, const vw__module_names *names)
{
    const char *joined = NULL;
    for (size_t i = 0; i < names->count; i++) {
        joined = joined == NULL
                     ? vw__arena_format(&holder->arena, "%s", names->items[i])
                     : vw__arena_format(&holder->arena, "%s, %s", joined, names->items[i]);
        if (joined == NULL)
            return no_memory();
    }
    holder->plan.lora_modules = joined;
    return VW_OK;
}

static vw_status fill_from_events(plan_holder *holder, const vw_plan_model *model,
                                  const vw__plan_events *events, bool without_replay)
{
    vw__plan_error_band band = vw__plan_error_band_of(model, &holder->plan.settings);
    VW__TRY(fill_run(holder, events));
    VW__TRY(fill_reserved(holder, events, without_replay));
    VW__TRY(fill_error(holder, model, band));
    VW__TRY(keep_lora_modules(holder, &events->peaks.adapted));
    holder->plan.pageable_bytes = events->peaks.pageable_bytes;
    return judge(holder, events, band);
}

static vw_status run_and_fill(plan_holder *holder, const vw_plan_model *model, bool without_replay)
{
    vw__plan_events events;
    vw_plan_settings few = holder->plan.settings;
    if (few.accumulation > PLAYED_ACCUMULATION)
        few.accumulation = PLAYED_ACCUMULATION;
    VW__TRY(vw__plan_events_make(model, &few, 0, &events));
    vw_status status = fill_from_events(holder, model, &events, without_replay);
    vw__plan_events_deinit(&events);
    return status;
}

/* What the model's file decides beside numbers. */
static vw_status keep_origins(plan_holder *holder, const vw_plan_model *model)
{
    vw_plan *plan = &holder->plan;
    const vw__plan_quantization how = vw__plan_quantization_of(model, &plan->settings);
    const bool is_quantized = how.method != VW__PLAN_NOT_QUANTIZED;
    if (model->caution != NULL)
        plan->caution = vw__arena_format(&holder->arena, "%s", model->caution);
    if (is_quantized)
        plan->quantization =
            vw__arena_format(&holder->arena, "%s, %u bits", vw__plan_quantization_name(how.method),
                             (unsigned)how.bits);
    return (model->caution != NULL && plan->caution == NULL) ||
                   (is_quantized && plan->quantization == NULL)
               ? no_memory()
               : VW_OK;
}

/* The caller's string may go before the plan does. */
static vw_status keep_targets(plan_holder *holder)
{
    const char **targets = &holder->plan.settings.lora_targets;
    if (*targets == NULL)
        return VW_OK;
    *targets = vw__arena_copy(&holder->arena, *targets, strlen(*targets));
    return *targets == NULL ? no_memory() : VW_OK;
}

static vw_status fill_plan(plan_holder *holder, const vw_plan_model *model,
                           const vw_plan_options *options)
{
    holder->plan.family = model->family->name;
    holder->plan.model = vw__arena_copy(&holder->arena, model->name, strlen(model->name));
    if (holder->plan.model == NULL)
        return no_memory();
    VW__TRY(keep_targets(holder));
    VW__TRY(keep_origins(holder, model));
    VW__TRY(run_and_fill(holder, model, options->without_replay));
    VW__TRY(keep_notes(holder, model));
    return options->without_choices ? VW_OK : fill_choices(holder, model);
}

vw_status vw_plan_make(const vw_plan_model *model, const vw_plan_settings *settings,
                       const vw_plan_options *options, vw_plan **out)
{
    vw_plan_options read = {.struct_size = sizeof read};
    vw_plan_settings asked, checked;
    vw_plan_settings_init(&asked);
    if (model == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a model, and a place for the plan");
    VW__TRY(VW__STRUCT_IN(vw_plan_options, options, &read));
    VW__TRY(VW__STRUCT_IN(vw_plan_settings, settings, &asked));
    VW__TRY(vw__plan_settings_check(model, &asked, &checked));
    plan_holder *holder = vw__host_alloc_zeroed(1, sizeof *holder);
    if (holder == NULL)
        return no_memory();
    vw__arena_init(&holder->arena, VW__ARENA_NO_LIMIT);
    holder->plan.settings = checked;
    vw__plan_explain_precision(model, &asked, &holder->plan);
    vw_status status = fill_plan(holder, model, &read);
    if (status == VW_OK)
        *out = &holder->plan;
    else
        vw_plan_free(&holder->plan);
    return status;
}
