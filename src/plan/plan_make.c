/* plan_make.c - what a run on the tape came to, as a plan that its caller keeps.
 *
 * One run is written down (plan_events.h) and asked for everything: the peak and where it was, what
 * the forward pass leaves, what allocators make of it. Then others are tried (search.h). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/plan.h"

#include "analysis/attribution.h" /* VW__NAME_WEIGHTS */
#include "base/arena.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"
#include "base/struct_size.h"
#include "plan/error_bands.h"
#include "plan/plan_choices.h"
#include "plan/plan_device.h"
#include "plan/plan_events.h"
#include "plan/plan_moments.h"
#include "plan/plan_notes.h"
#include "plan/plan_reserved.h"
#include "plan/search.h"
#include "plan/settings_check.h"

typedef struct plan_holder {
    vw_plan plan; /* first: what the caller has is a pointer to it */
    vw__arena arena;
    vw_part *rounding; /* the last of its parts */
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

/* ---- texts ----------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static vw_status
keep_text(plan_holder *holder, const char **out, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t kept = length < 0 ? 0 : (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    *out = vw__arena_copy(&holder->arena, text, kept);
    return *out == NULL ? no_memory() : VW_OK;
}

/* "layer 11 / mlp / act", without the outermost, which is the phase. */
static vw_status keep_place(plan_holder *holder, const vw__tape *tape, uint32_t place)
{
    enum { DEEPEST = 16 };
    uint32_t path[DEEPEST];
    size_t depth = 0;
    vw__byte_buffer text;
    for (; place != UINT32_MAX && depth < DEEPEST; place = vw__tape_place(tape, place).parent)
        path[depth++] = place;
    vw__byte_buffer_init(&text);
    for (size_t i = depth > 0 ? depth - 1 : 0; i > 0; i--) {
        const vw__place scope = vw__tape_place(tape, path[i - 1]);
        vw__append_format(&text, "%s%s", vw__byte_buffer_size(&text) > 0 ? " / " : "", scope.name);
        if (scope.number >= 0)
            vw__append_format(&text, " %" PRId64, scope.number);
    }
    vw_status status =
        vw__byte_buffer_has_failed(&text)
            ? no_memory()
            : keep_text(holder, &holder->plan.peak_place, "%s", vw__byte_buffer_text(&text));
    vw__byte_buffer_deinit(&text);
    return status;
}

/* ---- the run --------------------------------------------------------------------------------- */

static const char *phase_name(const vw__plan_events *events, const vw__plan_origin *peak)
{
    static const char *const phases[VW__PHASE_COUNT] = {"forward", "backward", "optimizer step"};
    if (events->peaks.is_generation)
        return "generation";
    if (peak->pass == VW__PLAN_PASS_AGAIN)
        return "recomputation";
    if (peak->use == VW__USE_LOSS || vw__plan_is_inside(events->places, peak->place, "loss"))
        return "loss";
    return phases[events->peaks.phase];
}

static vw_status keep_parts(plan_holder *holder, const vw__tape_peak *peak)
{
    static const char *const names[VW__USE_COUNT] = {
        [VW__USE_WEIGHTS] = VW__NAME_WEIGHTS,     [VW__USE_GRADIENTS] = VW__NAME_GRADIENTS,
        [VW__USE_OPTIMIZER] = VW__NAME_OPTIMIZER, [VW__USE_ACTIVATIONS] = VW__NAME_ACTIVATIONS,
        [VW__USE_LOSS] = VW__NAME_LOSS,           [VW__USE_BACKWARD] = VW__NAME_BACKWARD,
        [VW__USE_WORKSPACE] = VW__NAME_WORKSPACE, [VW__USE_DATA] = VW__NAME_DATA,
    };
    vw_part *parts =
        vw__arena_alloc_array(&holder->arena, VW__USE_COUNT + 1, sizeof *parts, sizeof(uint64_t));
    if (parts == NULL)
        return no_memory();
    for (size_t i = 0; i < VW__USE_COUNT; i++)
        parts[i] = (vw_part){names[i], peak->parts[i]};
    parts[VW__USE_COUNT] = (vw_part){"rounding", 0};
    holder->plan.parts = parts;
    holder->plan.part_count = VW__USE_COUNT + 1;
    holder->rounding = &parts[VW__USE_COUNT];
    return VW_OK;
}

static vw_status keep_layers(plan_holder *holder, const uint64_t kept_bytes[VW__LAYER_COUNT])
{
    vw_part *parts =
        vw__arena_alloc_array(&holder->arena, VW__LAYER_COUNT, sizeof *parts, sizeof(uint64_t));
    size_t count = 0;
    if (parts == NULL)
        return no_memory();
    for (vw__layer_kind kind = 0; kind < VW__LAYER_COUNT; kind++)
        if (kept_bytes[kind] > 0)
            parts[count++] = (vw_part){vw__layer_kind_name(kind), kept_bytes[kind]};
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
    for (size_t i = 0; i < VW__PHASE_COUNT; i++) {
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

/* PyTorch does not split a block for an end of 1 MiB or less, and counts it whole: how many bytes
 * that makes is known only by playing the run. */
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
    if (without_replay || plan->peak_allocated_bytes > VW__MOST_REPLAYED_BYTES)
        return VW_OK;
    VW__TRY(vw__plan_replay_events(events, &replayed));
    memcpy(plan->reserved_bytes, replayed.reserved_bytes, sizeof replayed.reserved_bytes);
    add_rounding(holder, events, replayed.peak_allocated_bytes);
    return VW_OK;
}

static vw_status fill_error(plan_holder *holder, const vw_plan_model *model, vw__error_band band)
{
    vw_plan *plan = &holder->plan;
    plan->has_error_band = band.case_count > 0;
    plan->error_low = band.low;
    plan->error_high = band.high;
    if (plan->has_error_band)
        return keep_text(holder, &plan->error_basis,
                         "%zu case%s of the family %s with settings of this kind", band.case_count,
                         band.case_count == 1 ? "" : "s", model->family->name);
    return keep_text(holder, &plan->error_basis,
                     "no case of the family %s with settings of this kind was measured",
                     model->family->name);
}

/* What is left of a card, or missing. */
static int64_t margin_of(uint64_t card_bytes, uint64_t used_bytes)
{
    uint64_t distance = card_bytes > used_bytes ? card_bytes - used_bytes : used_bytes - card_bytes;
    int64_t margin = distance > INT64_MAX ? INT64_MAX : (int64_t)distance;
    return card_bytes > used_bytes ? margin : -margin;
}

/* PyTorch holds more than it uses as long as there is room, and gives that back when there is not:
 * what fits is decided by what it uses. */
static void judge(vw_plan *plan, vw__error_band band)
{
    const uint64_t card_bytes = plan->settings.card_bytes;
    uint64_t used = vw__device_bytes(plan->peak_allocated_bytes, &plan->settings);
    uint64_t worst = vw__device_bytes_at_worst(plan->peak_allocated_bytes, &plan->settings, band);
    plan->context_bytes = vw__context_bytes(&plan->settings);
    plan->is_card_known = card_bytes > 0;
    plan->fits = plan->is_card_known && worst <= card_bytes;
    plan->peak_device_bytes = plan->reserved_bytes[0] == VW_UNKNOWN
                                  ? used
                                  : plan->reserved_bytes[0] + plan->context_bytes;
    if (plan->fits && plan->peak_device_bytes > card_bytes)
        plan->peak_device_bytes = card_bytes;
    plan->resident_bytes =
        vw__resident_bytes(plan->pageable_bytes, plan->peak_device_bytes, &plan->settings);
    plan->peak_device_bytes += plan->resident_bytes;
    if (plan->is_card_known)
        plan->margin_bytes = margin_of(card_bytes, plan->peak_device_bytes);
}

/* ---- notes ----------------------------------------------------------------------------------- */

enum { MOST_NOTES = VW__SETTINGS_MOST_NOTES + VW__PLAN_MOST_NOTES + VW__MODEL_MOST_NOTES + 1 };

static vw_status make_room_for_notes(plan_holder *holder)
{
    const char **room =
        vw__arena_alloc_array(&holder->arena, MOST_NOTES, sizeof *room, sizeof(char *));
    holder->plan.notes = room;
    return room == NULL ? no_memory() : VW_OK;
}

static vw_status add_note(plan_holder *holder, const char *text)
{
    const char **notes = (const char **)holder->plan.notes; /* made above, not yet handed out */
    return keep_text(holder, &notes[holder->plan.note_count++], "%s", text);
}

static vw_status keep_notes(plan_holder *holder, const vw_plan_model *model)
{
    const char *notes[VW__SETTINGS_MOST_NOTES + VW__PLAN_MOST_NOTES];
    VW__TRY(make_room_for_notes(holder));
    size_t count = vw__settings_notes(model, &holder->plan.settings, notes);
    count += vw__plan_notes(model, &holder->plan.settings, notes + count);
    for (size_t i = 0; i < count; i++)
        VW__TRY(add_note(holder, notes[i]));
    for (size_t i = 0; i < model->note_count; i++)
        VW__TRY(add_note(holder, model->notes[i]));
    return VW_OK;
}

/* ---- choices --------------------------------------------------------------------------------- */

/* The head's products, as a part of all. */
static double head_share(const vw_plan_model *model, const vw_plan *plan)
{
    double head = (double)model->shape.vocabulary * (double)model->shape.hidden;
    return plan->parameters == 0 || head > (double)plan->parameters
               ? 1
               : head / (double)plan->parameters;
}

static vw_status note_hopeless(plan_holder *holder, const vw__search_result *result)
{
    char text[256], size[VW__SIZE_TEXT_BYTES];
    if (result->tried_count == 0)
        return add_note(holder, "it does not fit this card, and there is no other setting to try");
    snprintf(text, sizeof text,
             "no change that goes with these settings makes it fit this card: the least that was "
             "found takes %s",
             vw__format_size(result->least_device_bytes, size));
    return add_note(holder, text);
}

static vw_status fill_choices(plan_holder *holder, const vw_plan_model *model)
{
    vw_plan *plan = &holder->plan;
    vw__search_result result;
    double share = head_share(model, plan);
    if (plan->is_card_known)
        VW__TRY(vw__largest_batch(model, &plan->settings, &plan->largest_batch));
    VW__TRY(vw__search(model, &plan->settings, share, &result));
    plan->choices = vw__plan_choices_make(&holder->arena, model, &plan->settings, share, &result);
    if (plan->choices == NULL)
        return no_memory();
    plan->choice_count = result.found_count;
    return plan->is_card_known && !plan->fits && result.found_count == 0
               ? note_hopeless(holder, &result)
               : VW_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static vw_status fill_from_events(plan_holder *holder, const vw_plan_model *model,
                                  const vw__plan_events *events, bool without_replay)
{
    vw__error_band band = vw__error_band_of(model->family->name, &holder->plan.settings);
    VW__TRY(fill_run(holder, events));
    VW__TRY(fill_reserved(holder, events, without_replay));
    VW__TRY(fill_error(holder, model, band));
    holder->plan.pageable_bytes = events->peaks.pageable_bytes;
    judge(&holder->plan, band);
    return VW_OK;
}

static vw_status run_and_fill(plan_holder *holder, const vw_plan_model *model, bool without_replay)
{
    vw__plan_events events;
    vw_plan_settings few = holder->plan.settings;
    unsigned steps = few.mode == VW_PLAN_MODE_TRAIN ? 2 : 1;
    if (few.accumulation > VW__PLAN_PLAYED_ACCUMULATION)
        few.accumulation = VW__PLAN_PLAYED_ACCUMULATION;
    VW__TRY(vw__plan_events_make(model, &few, steps, &events));
    vw_status status = fill_from_events(holder, model, &events, without_replay);
    vw__plan_events_deinit(&events);
    return status;
}

static vw_status fill_plan(plan_holder *holder, const vw_plan_model *model,
                           const vw_plan_options *options)
{
    holder->plan.family = model->family->name;
    holder->plan.model = vw__arena_copy(&holder->arena, model->name, strlen(model->name));
    if (holder->plan.model == NULL)
        return no_memory();
    VW__TRY(run_and_fill(holder, model, options->without_replay));
    VW__TRY(keep_notes(holder, model));
    return options->without_choices ? VW_OK : fill_choices(holder, model);
}

vw_status vw_plan_make(const vw_plan_model *model, const vw_plan_settings *settings,
                       const vw_plan_options *options, vw_plan **out)
{
    vw_plan_options read = {.struct_size = sizeof read};
    vw_plan_settings checked;
    if (model == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a model, and a place for the plan");
    VW__TRY(VW__STRUCT_IN(vw_plan_options, options, &read));
    VW__TRY(vw__settings_check(model, settings, &checked));
    plan_holder *holder = vw__host_alloc_zeroed(1, sizeof *holder);
    if (holder == NULL)
        return no_memory();
    vw__arena_init(&holder->arena, VW__ARENA_NO_LIMIT);
    holder->plan.settings = checked;
    vw_status status = fill_plan(holder, model, &read);
    if (status == VW_OK)
        *out = &holder->plan;
    else
        vw_plan_free(&holder->plan);
    return status;
}
