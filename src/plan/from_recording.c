/* from_recording.c - a recorded run at another batch and another length.
 *
 * A plan from a model knows every tensor and has measured none; one from a recording is the other
 * way round. It needs no model: what the program asked for in one step is there, to the byte and in
 * order, and only has to grow. How well that went is not left to belief: steps of the same
 * recording that are of another size are predicted as well, unseen, and held against what they
 * took. */
#include "plan/from_recording.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "plan/plan_device.h"

enum { MOST_CHECKED = 8, MOST_BATCH = 1 << 24, MOST_LENGTH = 1 << 26 };

/* ---- what is asked --------------------------------------------------------------------------- */

void vw_plan_scaling_init(vw_plan_scaling *scaling)
{
    *scaling = (vw_plan_scaling){
        .struct_size = sizeof *scaling, .step = VW_UNKNOWN, .device = VW_BUSIEST_DEVICE};
}

const char *vw_plan_law_name(vw_plan_law law)
{
    static const char *const names[] = {
#define LAW_NAME(upper, text) text,
        VW_PLAN_LAW_LIST(LAW_NAME)
#undef LAW_NAME
    };
    return (size_t)law < VW_PLAN_LAW_COUNT ? names[law] : "?";
}

static vw_status check_count(const char *name, uint64_t value, uint64_t most)
{
    if (value >= 1 && value <= most)
        return VW_OK;
    return vw__fail(VW_ERR_INVALID_ARGUMENT, "%s: expected 1 to %llu, found %llu", name,
                    (unsigned long long)most, (unsigned long long)value);
}

static vw_status check_scaling(const vw_plan_scaling *given, vw_plan_scaling *out)
{
    vw_plan_scaling_init(out);
    VW__TRY(VW__STRUCT_IN(vw_plan_scaling, given, out));
    VW__TRY(check_count("the recorded batch", out->batch_now, MOST_BATCH));
    VW__TRY(check_count("the batch", out->batch, MOST_BATCH));
    if (out->sequence_now == 0 && out->sequence == 0)
        return VW_OK;
    if (out->sequence == 0)
        out->sequence = out->sequence_now; /* known, and stays as it is */
    VW__TRY(check_count("the recorded length", out->sequence_now, MOST_LENGTH));
    return check_count("the length", out->sequence, MOST_LENGTH);
}

static vw_status choose_step(const vw__scaled_work *work, vw_plan_scaling *scaling)
{
    size_t step_count = work->run.steps.end_count;
    if (step_count == 0)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "expected a recording with at least one whole step in it, found none: "
                        "steps are known by annotations, by an optimizer in the stacks, or by a "
                        "rhythm of live bytes");
    if (scaling->step == VW_UNKNOWN)
        scaling->step = vw__recorded_step_choose(&work->run, work->peaks);
    if (scaling->step >= step_count)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a step from 0 to %zu, found %llu",
                        step_count - 1, (unsigned long long)scaling->step);
    return VW_OK;
}

/* ---- its peak -------------------------------------------------------------------------------- */

vw__scale vw__scaled_scale(const vw_plan_scaling *scaling, uint64_t batch)
{
    double length =
        scaling->sequence_now == 0 ? 1 : (double)scaling->sequence / (double)scaling->sequence_now;
    return (vw__scale){.multiples = {.batch = (double)batch / (double)scaling->batch_now,
                                     .length = length,
                                     .second_length = length}};
}

static vw_status scale_all(vw__scaled_work *work, const vw_plan_scaling *scaling,
                           uint64_t *peak_if_square)
{
    const vw__scale same = {.multiples = {.batch = 1, .length = 1, .second_length = 1}};
    vw__scale asked = vw__scaled_scale(scaling, scaling->batch);
    vw__scaled_peak square;
    uint32_t step = work->question.step;
    VW__TRY(vw__recorded_step_scale(&work->run, step, &work->laws, same, &work->now));
    VW__TRY(vw__recorded_step_scale(&work->run, step, &work->laws, asked, &work->then));
    *peak_if_square = VW_UNKNOWN;
    if (work->then.maybe_square_bytes == 0 || scaling->sequence == scaling->sequence_now)
        return VW_OK;
    asked.are_maybes_square = true;
    VW__TRY(vw__recorded_step_scale(&work->run, step, &work->laws, asked, &square));
    *peak_if_square = square.bytes;
    return VW_OK;
}

static const char *phase_at(const vw__recorded_run *run, uint32_t instant)
{
    uint32_t pass = vw__roles_pass_at(&run->roles, instant == 0 ? 0 : instant - 1);
    switch ((vw__pass_kind)run->roles.passes[pass].kind) {
    case VW__PASS_FORWARD:
        return "forward";
    case VW__PASS_BACKWARD:
        return "backward";
    case VW__PASS_OPTIMIZER:
        return "optimizer step";
    case VW__PASS_OTHER:
    default:
        return "other";
    }
}

/* ---- how well it went ------------------------------------------------------------------------ */

static vw_status check_one(const vw__scaled_work *work, const vw__compared_step *other,
                           double *error)
{
    vw__step_question question = work->question;
    vw__step_laws laws;
    vw__scaled_peak peak;
    vw__scale scale = {.multiples = other->multiples};
    question.unseen_step = other->step;
    VW__TRY(vw__step_laws_find(&work->run, &question, &laws));
    vw_status status = vw__recorded_step_scale(&work->run, question.step, &laws, scale, &peak);
    vw__step_laws_deinit(&laws);
    if (status == VW_OK)
        *error = (double)peak.bytes / (double)work->peaks[other->step] - 1;
    return status;
}

/* Some of the steps, taken evenly. */
static vw_status check_steps(const vw__scaled_work *work, vw_plan_scaled *shown)
{
    uint32_t count = work->laws.compared_count;
    uint32_t stride = count / MOST_CHECKED + 1;
    for (uint32_t i = 0; i < count; i += stride) {
        double error;
        vw_status status = check_one(work, &work->laws.compared[i], &error);
        if (status == VW_ERR_UNSUPPORTED)
            continue; /* sizes that no step has */
        VW__TRY(status);
        bool is_first = shown->checked_steps++ == 0;
        shown->error_low = is_first || error < shown->error_low ? error : shown->error_low;
        shown->error_high = is_first || error > shown->error_high ? error : shown->error_high;
    }
    return VW_OK;
}

/* ---- the card -------------------------------------------------------------------------------- */

/* With what the check found to be missing counted in. */
uint64_t vw__scaled_device_bytes(const vw_plan_scaled *shown, uint64_t peak_bytes)
{
    double missing = shown->checked_steps != 0 && shown->error_low < 0 && shown->error_low > -1
                         ? -shown->error_low / (1 + shown->error_low)
                         : 0;
    return peak_bytes + (uint64_t)((double)peak_bytes * missing) + shown->context_bytes;
}

static vw_status fits_with(const vw__scaled_work *work, const vw_plan_scaled *shown, uint64_t batch,
                           bool *fits)
{
    vw__scaled_peak peak;
    vw_status status = vw__recorded_step_scale(&work->run, work->question.step, &work->laws,
                                               vw__scaled_scale(&shown->scaling, batch), &peak);
    if (status == VW_OK)
        *fits = vw__scaled_device_bytes(shown, peak.bytes) <= shown->scaling.card_bytes;
    else if (status == VW_ERR_UNSUPPORTED)
        *fits = false;
    return status == VW_ERR_UNSUPPORTED ? VW_OK : status;
}

/* A larger batch never takes less: halving finds it. */
static vw_status find_largest_batch(const vw__scaled_work *work, vw_plan_scaled *shown)
{
    uint64_t low = 0, high = 1; /* low fits, or is 0; high does not, in the end */
    bool fits = true;
    while (high <= MOST_BATCH) {
        VW__TRY(fits_with(work, shown, high, &fits));
        if (!fits)
            break;
        low = high;
        high *= 2;
    }
    while (!fits && high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        bool does_middle;
        VW__TRY(fits_with(work, shown, middle, &does_middle));
        *(does_middle ? &low : &high) = middle;
    }
    shown->largest_batch = low;
    return VW_OK;
}

static vw_status judge_card(const vw__scaled_work *work, vw_plan_scaled *shown)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    shown->context_bytes = vw__context_bytes(&settings);
    shown->peak_device_bytes = shown->peak_allocated_bytes + shown->context_bytes;
    shown->is_card_known = shown->scaling.card_bytes != 0;
    if (!shown->is_card_known)
        return VW_OK;
    shown->fits =
        vw__scaled_device_bytes(shown, shown->peak_allocated_bytes) <= shown->scaling.card_bytes;
    shown->margin_bytes = (int64_t)(shown->scaling.card_bytes - shown->peak_device_bytes);
    return find_largest_batch(work, shown);
}

/* ---- the result ------------------------------------------------------------------------------ */

static vw_plan_scaled_part *new_parts(vw__scaled_draft *draft, size_t count)
{
    vw_plan_scaled_part *parts =
        vw__arena_alloc_array(&draft->arena, count, sizeof *parts, sizeof(uint64_t));
    draft->has_failed = draft->has_failed || parts == NULL;
    return parts;
}

static void add_parts(vw__scaled_draft *draft, const vw__scaled_work *work)
{
    vw_plan_scaled_part *parts = new_parts(draft, VW__ROLE_COUNT);
    vw_plan_scaled_part *laws = new_parts(draft, VW_PLAN_LAW_COUNT);
    size_t count = 0;
    for (unsigned i = 0; parts != NULL && i < VW__ROLE_COUNT; i++)
        if (work->now.role_bytes[i] != 0 || work->then.role_bytes[i] != 0)
            parts[count++] = (vw_plan_scaled_part){
                vw__role_name((vw__role)i), work->now.role_bytes[i], work->then.role_bytes[i]};
    for (unsigned i = 0; laws != NULL && i < VW_PLAN_LAW_COUNT; i++)
        laws[i] = (vw_plan_scaled_part){vw_plan_law_name((vw_plan_law)i), work->now.law_bytes[i],
                                        work->then.law_bytes[i]};
    draft->shown.parts = parts;
    draft->shown.part_count = count;
    draft->shown.laws = laws;
}

static vw_status fill_reserved(const vw__scaled_work *work, vw_plan_scaled *shown)
{
    const vw__scale scale = vw__scaled_scale(&shown->scaling, shown->scaling.batch);
    vw__scaled_step scaled;
    VW__TRY(vw__scaled_step_init(&scaled, &work->run, work->question.step, &work->laws, scale));
    vw_status status =
        vw__scaled_reserved(&scaled, shown->peak_allocated_bytes, shown->reserved_bytes);
    vw__scaled_step_deinit(&scaled);
    return status;
}

static vw_status fill(vw__scaled_work *work, vw__scaled_draft *draft)
{
    vw_plan_scaled *shown = &draft->shown;
    VW__TRY(scale_all(work, &shown->scaling, &shown->peak_if_square_bytes));
    VW__TRY(check_steps(work, shown));
    shown->step_count = work->run.steps.end_count;
    shown->step_basis = work->run.steps.basis;
    shown->evidence_steps = work->laws.compared_count;
    shown->now_peak_bytes = work->now.bytes;
    shown->peak_allocated_bytes = work->then.bytes;
    shown->peak_phase = phase_at(&work->run, work->then.instant);
    shown->perhaps_square_bytes = work->now.maybe_square_bytes;
    shown->irregular_bytes = work->now.irregular_bytes;
    VW__TRY(fill_reserved(work, shown));
    VW__TRY(judge_card(work, shown));
    VW__TRY(vw__scaled_add_choices(draft, work));
    add_parts(draft, work);
    vw__scaled_add_notes(draft, work);
    shown->notes = draft->notes;
    return draft->has_failed ? vw__fail_host_memory(sizeof *draft, "a plan") : VW_OK;
}

static vw_status make(const vw_recording *recording, vw__scaled_work *work, vw__scaled_draft *draft)
{
    vw_plan_scaling *scaling = &draft->shown.scaling;
    VW__TRY(vw__recorded_run_init(&work->run, recording, scaling->device));
    size_t room = work->run.steps.end_count + 1;
    work->peaks = vw__host_alloc_zeroed(room, sizeof *work->peaks);
    if (work->peaks == NULL)
        return vw__fail_host_memory(room * sizeof *work->peaks, "the peaks of steps");
    VW__TRY(vw__recorded_step_peaks(&work->run, work->peaks));
    VW__TRY(choose_step(work, scaling));
    work->question = (vw__step_question){.step = (uint32_t)scaling->step,
                                         .batch_now = scaling->batch_now,
                                         .sequence_now = scaling->sequence_now,
                                         .unseen_step = VW__NO_STEP};
    VW__TRY(vw__step_laws_find(&work->run, &work->question, &work->laws));
    return fill(work, draft);
}

vw_status vw_plan_from_recording(const vw_recording *recording, const vw_plan_scaling *scaling,
                                 vw_plan_scaled **out)
{
    vw__scaled_work work = {.peaks = NULL};
    vw_plan_scaling checked;
    VW__TRY(check_scaling(scaling, &checked));
    vw__scaled_draft *draft = vw__host_alloc_zeroed(1, sizeof *draft);
    if (draft == NULL)
        return vw__fail_host_memory(sizeof *draft, "a plan");
    vw__arena_init(&draft->arena, VW__ARENA_NO_LIMIT);
    draft->shown.scaling = checked;
    vw_status status = make(recording, &work, draft);
    vw__step_laws_deinit(&work.laws);
    vw__recorded_run_deinit(&work.run);
    vw__host_free(work.peaks);
    if (status == VW_OK)
        *out = &draft->shown;
    else
        vw_plan_scaled_free(&draft->shown);
    return status;
}

void vw_plan_scaled_free(vw_plan_scaled *scaled)
{
    vw__scaled_draft *draft = (vw__scaled_draft *)scaled;
    if (draft == NULL)
        return;
    vw__arena_deinit(&draft->arena);
    vw__host_free(draft);
}
