/* from_recording.c - a recorded or traced run, at another batch and another length.
 *
 * A plan from a recording needs no model: the requests of one step are there, to the byte and in
 * order, and only have to grow. The prediction is checked: steps of the same recording that have
 * another size are predicted as well, unseen, and compared with what they took. */
#include <string.h>

#include "analysis/what_if.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "plan/plan_device.h"
#include "plan/scaled_plan.h"
#include "plan/techniques.h"

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

static vw_status read_scaling(const vw_plan_scaling *given, vw_plan_scaling *out)
{
    vw_plan_scaling_init(out);
    return VW__STRUCT_IN(vw_plan_scaling, given, out);
}

/* A batch that is not known does not change. */
static vw_status check_sizes(vw_plan_scaling *scaling)
{
    if (scaling->batch_now != 0 || scaling->batch != 0) {
        VW__TRY(check_count("the recorded batch", scaling->batch_now, MOST_BATCH));
        VW__TRY(check_count("the batch", scaling->batch, MOST_BATCH));
    }
    if (scaling->sequence_now == 0 && scaling->sequence == 0)
        return VW_OK;
    if (scaling->sequence == 0)
        scaling->sequence = scaling->sequence_now; /* unchanged */
    VW__TRY(check_count("the recorded length", scaling->sequence_now, MOST_LENGTH));
    return check_count("the length", scaling->sequence, MOST_LENGTH);
}

static vw_status choose_step(const vw__plan_scaled_work *work, vw_plan_scaling *scaling)
{
    size_t step_count = work->run.steps.end_count;
    if (step_count == 0)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "expected a recording with at least one whole step in it, found none: "
                        "steps are known by annotations, by an optimizer in the stacks, or by a "
                        "rhythm of live bytes");
    if (scaling->step == VW_UNKNOWN)
        scaling->step =
            vw__plan_recorded_step_choose(&work->run, work->peaks, work->question.sizes);
    if (scaling->step >= step_count)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a step from 0 to %zu, found %llu",
                        step_count - 1, (unsigned long long)scaling->step);
    return VW_OK;
}

/* The sizes that a trace states are those of its steps. */
static vw_status take_traced_sizes(vw__plan_scaled_work *work)
{
    const vw_plan_traced *traced = work->traced;
    if (traced == NULL || traced->size_count == 0)
        return VW_OK;
    if (traced->size_count != work->run.steps.end_count)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "\"sizes\" of the trace: expected one for each of its %zu steps, found %zu",
                        (size_t)work->run.steps.end_count, traced->size_count);
    work->question.sizes = traced->sizes;
    return VW_OK;
}

/* What the caller left open is as the step was traced. */
static vw_status fill_in_sizes(const vw__plan_scaled_work *work, vw_plan_scaling *scaling)
{
    const vw_plan_traced_size *sizes = work->question.sizes;
    if (work->traced == NULL)
        return VW_OK;
    if (sizes != NULL && scaling->batch_now == 0)
        scaling->batch_now = sizes[scaling->step].batch;
    if (sizes != NULL && scaling->sequence_now == 0)
        scaling->sequence_now = sizes[scaling->step].sequence;
    if (scaling->batch == 0)
        scaling->batch = scaling->batch_now;
    if (scaling->batch_now == 0 && scaling->batch != 0)
        return vw__fail(
            VW_ERR_INVALID_ARGUMENT,
            "another batch needs the traced one (--batch-now), which the trace does not state");
    if (scaling->sequence_now == 0 && scaling->sequence != 0)
        return vw__fail(
            VW_ERR_INVALID_ARGUMENT,
            "another length needs the traced one (--seq-now), which the trace does not state");
    return VW_OK;
}

/* ---- its peak -------------------------------------------------------------------------------- */

/* The step that is asked about, at that batch. */
static vw__plan_scale scale_for(const vw_plan_scaling *scaling, uint64_t batch)
{
    double length =
        scaling->sequence_now == 0 ? 1 : (double)scaling->sequence / (double)scaling->sequence_now;
    double samples = scaling->batch_now == 0 ? 1 : (double)batch / (double)scaling->batch_now;
    return (vw__plan_scale){
        .multiples = {.batch = samples, .length = length, .second_length = length}};
}

static vw_status scale_all(vw__plan_scaled_work *work, const vw_plan_scaling *scaling,
                           uint64_t *peak_if_square)
{
    const vw__plan_scale same = {.multiples = {.batch = 1, .length = 1, .second_length = 1}};
    vw__plan_scale asked = scale_for(scaling, scaling->batch);
    vw__plan_scaled_peak square;
    uint32_t step = work->question.step;
    VW__TRY(vw__plan_recorded_step_scale(&work->run, step, &work->laws, same, &work->now));
    VW__TRY(vw__plan_recorded_step_scale(&work->run, step, &work->laws, asked, &work->then));
    *peak_if_square = VW_UNKNOWN;
    if (work->then.maybe_square_bytes == 0 || scaling->sequence == scaling->sequence_now)
        return VW_OK;
    asked.are_maybes_square = true;
    VW__TRY(vw__plan_recorded_step_scale(&work->run, step, &work->laws, asked, &square));
    *peak_if_square = square.bytes;
    return VW_OK;
}

static uint64_t excess(uint64_t bytes, uint64_t other_bytes)
{
    return bytes > other_bytes ? bytes - other_bytes : 0;
}

/* PyTorch does not split a block to save 1 MiB or less, and counts it whole. How many bytes that
 * makes depends on what is in the cache. At the traced size, the trace was played from its first
 * request on and shows it. At another one, the replay of the scaled step is near. A recording's
 * blocks are known by their requests only, and its peaks are compared as such. */
static void find_rounding(vw__plan_scaled_draft *draft, const vw__plan_scaled_work *work,
                          const vw__plan_replayed *replayed)
{
    uint32_t begin, end;
    if (work->traced == NULL)
        return;
    vw__plan_recorded_step_range(&work->run, work->question.step, &begin, &end);
    draft->now_rounding_bytes = excess(vw__traced_peak(work->traced, begin, end), work->now.bytes);
    if (vw__plan_is_same_size(&draft->shown.scaling))
        draft->rounding_bytes = draft->now_rounding_bytes;
    else if (replayed->peak_allocated_bytes != VW_UNKNOWN)
        draft->rounding_bytes = excess(replayed->peak_allocated_bytes, work->then.bytes);
}

static const char *phase_at(const vw__plan_recorded_run *run, uint32_t instant)
{
    uint32_t pass = vw__roles_pass_at(&run->roles, instant == 0 ? 0 : instant - 1);
    switch ((vw__roles_pass_kind)run->roles.passes[pass].kind) {
    case VW__ROLES_PASS_FORWARD:
        return "forward";
    case VW__ROLES_PASS_BACKWARD:
        return "backward";
    case VW__ROLES_PASS_OPTIMIZER:
        return "optimizer step";
    case VW__ROLES_PASS_OTHER:
    default:
        return "other";
    }
}

/* ---- how wrong it is on known steps
 * ------------------------------------------------------------------------ */

static vw_status check_one(const vw__plan_scaled_work *work, const vw__plan_compared_step *other,
                           double *error)
{
    vw__plan_step_question question = work->question;
    vw__plan_step_laws laws;
    vw__plan_scaled_peak peak;
    vw__plan_scale scale = {.multiples = other->multiples};
    question.unseen_step = other->step;
    VW__TRY(vw__plan_step_laws_find(&work->run, &question, &laws));
    vw_status status = vw__plan_recorded_step_scale(&work->run, question.step, &laws, scale, &peak);
    vw__plan_step_laws_deinit(&laws);
    if (status == VW_OK)
        *error = (double)peak.bytes / (double)work->peaks[other->step] - 1;
    return status;
}

/* Checks some of the steps, evenly spaced. */
static vw_status check_steps(const vw__plan_scaled_work *work, vw_plan_scaled *shown)
{
    uint32_t count = work->laws.compared_count;
    uint32_t stride = count / MOST_CHECKED + 1;
    for (uint32_t i = 0; i < count; i += stride) {
        double error;
        vw_status status = check_one(work, &work->laws.compared[i], &error);
        if (status == VW_ERR_UNSUPPORTED)
            continue; /* impossible sizes */
        VW__TRY(status);
        bool is_first = shown->checked_steps++ == 0;
        shown->error_low = is_first || error < shown->error_low ? error : shown->error_low;
        shown->error_high = is_first || error > shown->error_high ? error : shown->error_high;
    }
    return VW_OK;
}

/* ---- the card -------------------------------------------------------------------------------- */

/* What a peak of blocks takes of a card at worst: with the error that the check found. */
static uint64_t device_bytes_of(const vw__plan_scaled_draft *draft, uint64_t block_bytes)
{
    const vw_plan_scaled *shown = &draft->shown;
    uint64_t peak_bytes = block_bytes + draft->rounding_bytes;
    double missing = shown->checked_steps != 0 && shown->error_low < 0 && shown->error_low > -1
                         ? -shown->error_low / (1 + shown->error_low)
                         : 0;
    return peak_bytes + (uint64_t)((double)peak_bytes * missing) + shown->context_bytes;
}

typedef struct batch_question {
    const vw__plan_scaled_work *work;
    const vw__plan_scaled_draft *draft;
} batch_question;

static vw_status need_of_batch(void *context, uint64_t batch, uint64_t *need_bytes)
{
    const batch_question *asked = context;
    const vw__plan_scaled_work *work = asked->work;
    vw__plan_scaled_peak peak;
    vw_status status =
        vw__plan_recorded_step_scale(&work->run, work->question.step, &work->laws,
                                     scale_for(&asked->draft->shown.scaling, batch), &peak);
    if (status == VW_OK)
        *need_bytes = device_bytes_of(asked->draft, peak.bytes);
    else if (status == VW_ERR_UNSUPPORTED)
        *need_bytes = UINT64_MAX;
    return status == VW_ERR_UNSUPPORTED ? VW_OK : status;
}

static vw_status judge_card(const vw__plan_scaled_work *work, vw__plan_scaled_draft *draft)
{
    vw_plan_scaled *shown = &draft->shown;
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    shown->context_bytes = vw__plan_context_bytes(&settings);
    shown->peak_device_bytes = shown->peak_allocated_bytes + shown->context_bytes;
    shown->is_card_known = shown->scaling.card_bytes != 0;
    if (!shown->is_card_known)
        return VW_OK;
    shown->fits = device_bytes_of(draft, work->then.bytes) <= shown->scaling.card_bytes;
    shown->margin_bytes = (int64_t)(shown->scaling.card_bytes - shown->peak_device_bytes);
    shown->largest_batch = VW_UNKNOWN;
    if (shown->scaling.batch_now == 0)
        return VW_OK;
    return vw__plan_largest_that_fits(need_of_batch, &(batch_question){work, draft}, 1, MOST_BATCH,
                                      shown->scaling.card_bytes, &shown->largest_batch);
}

/* ---- what would make it fit ------------------------------------------------------------------ */

/* Techniques are weighed as the doctor does for a recorded step (techniques.h). Blocks get the
 * portions that they have in the recording, since a loss is recognised by its sizes. */

/* Fills `portions`, by lifetime of the recording. */
static vw_status find_portions(const vw__plan_scaled_work *work, uint8_t *portions)
{
    const vw__plan_recorded_run *run = &work->run;
    bool is_request_of_it;
    const vw__portion_loss_question question = {
        .model = run->model,
        .timeline = &run->timeline,
        .roles = &run->roles,
        .instant = work->now.instant,
        .live_bytes = work->now.bytes,
        .request_context = VW__MODEL_NO_CONTEXT,
        .request_portion = VW__PORTION_REST,
    };
    for (size_t i = 0; i < run->timeline.lifetime_count; i++)
        portions[i] = (uint8_t)vw__portion_of_role((vw__role)run->roles.roles[i],
                                                   run->roles.passes[run->roles.pass_of[i]].kind);
    return vw__portion_part_loss(&question, portions, &is_request_of_it);
}

static void describe_peak(const vw__plan_scaled_step *scaled, const uint8_t *portions,
                          uint32_t instant, vw__plan_bargain *deal)
{
    for (size_t i = 0; i < scaled->timeline.lifetime_count; i++) {
        const vw__lifetime *block = &scaled->timeline.lifetimes[i];
        if (!vw__lifetime_is_live(block, instant))
            continue;
        uint64_t *largest = &deal->largest_bytes[portions[i]];
        *largest = vw__max_u64(*largest, block->size_bytes);
        deal->portion_bytes[portions[i]] += block->size_bytes;
    }
}

/* A batch can be split only into parts that divide it. */
static bool can_be_done(const vw__plan_offer *offer, const vw_plan_scaling *scaling)
{
    return offer->batch_parts == 0 || scaling->batch % offer->batch_parts == 0;
}

static void keep_offers(vw__plan_scaled_draft *draft, const vw__plan_bargain *deal)
{
    vw_plan_scaled_choice *choices =
        vw__arena_alloc_array(&draft->arena, deal->offer_count, sizeof *choices, sizeof(uint64_t));
    size_t count = 0;
    uint64_t base_bytes = deal->base_bytes + draft->rounding_bytes;
    draft->has_failed = draft->has_failed || choices == NULL;
    for (size_t i = 0; choices != NULL && i < deal->offer_count; i++) {
        const vw__plan_offer *offer = &deal->offers[i];
        if (can_be_done(offer, &draft->shown.scaling))
            choices[count++] = (vw_plan_scaled_choice){
                .action = offer->action,
                .cost = offer->cost,
                .code = offer->how,
                .least_peak_bytes = base_bytes - offer->at_most_bytes,
                .most_peak_bytes = base_bytes - offer->at_least_bytes,
                .fits = offer->is_enough,
                .may_fit = offer->at_most_bytes >= deal->missing_bytes,
            };
    }
    draft->shown.choices = choices;
    draft->shown.choice_count = count;
}

static vw_status bargain(vw__plan_scaled_draft *draft, const vw__plan_scaled_work *work,
                         const uint8_t *portions)
{
    vw__plan_bargain deal = {
        .arena = &draft->arena,
        .run = {.timeline = &work->scaled.timeline,
                .portion_of = portions,
                .last_instant = work->scaled.last_instant,
                .request_portion = VW__PORTION_REST},
        .uses = vw__plan_uses_find(work->run.model, &work->run.roles, UINT32_MAX),
    };
    describe_peak(&work->scaled, portions, work->then.instant, &deal);
    vw_status status = vw__plan_bargain_begin(&deal);
    if (status == VW_OK) {
        deal.missing_bytes =
            device_bytes_of(draft, deal.base_bytes) - draft->shown.scaling.card_bytes;
        status = vw__plan_bargain_strike(&deal);
    }
    if (status == VW_OK)
        keep_offers(draft, &deal);
    vw__plan_bargain_end(&deal);
    return status;
}

static vw_status add_choices(vw__plan_scaled_draft *draft, const vw__plan_scaled_work *work)
{
    size_t room = work->run.timeline.lifetime_count + 1;
    if (!draft->shown.is_card_known || draft->shown.fits)
        return VW_OK;
    uint8_t *portions = vw__host_alloc_zeroed(room, sizeof *portions);
    if (portions == NULL)
        return vw__fail_host_memory(room, "the portions of a step");
    vw_status status = find_portions(work, portions);
    if (status == VW_OK) {
        /* Each entry is replaced by a later one, or by itself. */
        for (size_t i = 0; i < work->scaled.timeline.lifetime_count; i++)
            portions[i] = portions[work->scaled.places[i]];
        status = bargain(draft, work, portions);
    }
    vw__host_free(portions);
    return status;
}

/* ---- the result ------------------------------------------------------------------------------ */

static vw_plan_scaled_part *new_parts(vw__plan_scaled_draft *draft, size_t count)
{
    vw_plan_scaled_part *parts =
        vw__arena_alloc_array(&draft->arena, count, sizeof *parts, sizeof(uint64_t));
    draft->has_failed = draft->has_failed || parts == NULL;
    return parts;
}

static void add_parts(vw__plan_scaled_draft *draft, const vw__plan_scaled_work *work)
{
    vw_plan_scaled_part *parts = new_parts(draft, VW__ROLE_COUNT + 1);
    vw_plan_scaled_part *laws = new_parts(draft, VW_PLAN_LAW_COUNT);
    size_t count = 0;
    for (unsigned i = 0; parts != NULL && i < VW__ROLE_COUNT; i++)
        if (work->now.role_bytes[i] != 0 || work->then.role_bytes[i] != 0)
            parts[count++] = (vw_plan_scaled_part){
                vw__role_name((vw__role)i), work->now.role_bytes[i], work->then.role_bytes[i]};
    if (parts != NULL && work->traced != NULL)
        parts[count++] = (vw_plan_scaled_part){VW__CATEGORY_NAME_ROUNDING,
                                               draft->now_rounding_bytes, draft->rounding_bytes};
    for (unsigned i = 0; laws != NULL && i < VW_PLAN_LAW_COUNT; i++)
        laws[i] = (vw_plan_scaled_part){vw_plan_law_name((vw_plan_law)i), work->now.law_bytes[i],
                                        work->then.law_bytes[i]};
    draft->shown.parts = parts;
    draft->shown.part_count = count;
    draft->shown.laws = laws;
}

static vw_status fill_peaks(vw__plan_scaled_work *work, vw__plan_scaled_draft *draft)
{
    vw_plan_scaled *shown = &draft->shown;
    vw__plan_replayed replayed;
    VW__TRY(vw__plan_scaled_step_init(&work->scaled, &work->run, work->question.step, &work->laws,
                                      scale_for(&shown->scaling, shown->scaling.batch)));
    VW__TRY(vw__plan_scaled_replay(&work->scaled, work->then.bytes, &replayed));
    memcpy(shown->reserved_bytes, replayed.reserved_bytes, sizeof shown->reserved_bytes);
    find_rounding(draft, work, &replayed);
    shown->now_peak_bytes = work->now.bytes + draft->now_rounding_bytes;
    shown->peak_allocated_bytes = work->then.bytes + draft->rounding_bytes;
    if (shown->peak_if_square_bytes != VW_UNKNOWN)
        shown->peak_if_square_bytes += draft->rounding_bytes;
    return VW_OK;
}

static vw_status fill(vw__plan_scaled_work *work, vw__plan_scaled_draft *draft)
{
    vw_plan_scaled *shown = &draft->shown;
    VW__TRY(scale_all(work, &shown->scaling, &shown->peak_if_square_bytes));
    VW__TRY(fill_peaks(work, draft));
    VW__TRY(check_steps(work, shown));
    shown->step_count = work->run.steps.end_count;
    shown->step_basis = work->run.steps.basis;
    shown->is_traced = work->traced != NULL;
    shown->evidence_steps = work->laws.compared_count;
    shown->peak_phase = phase_at(&work->run, work->then.instant);
    shown->perhaps_square_bytes = work->now.maybe_square_bytes;
    shown->irregular_bytes = work->now.irregular_bytes;
    VW__TRY(judge_card(work, draft));
    VW__TRY(add_choices(draft, work));
    add_parts(draft, work);
    vw__plan_scaled_add_notes(draft, work);
    shown->notes = draft->notes;
    return draft->has_failed ? vw__fail_host_memory(sizeof *draft, "a plan") : VW_OK;
}

static vw_status make(vw__plan_scaled_work *work, vw__plan_scaled_draft *draft)
{
    vw_plan_scaling *scaling = &draft->shown.scaling;
    VW__TRY(vw__plan_recorded_run_init(&work->run, work->recording, scaling->device));
    size_t room = work->run.steps.end_count + 1;
    work->peaks = vw__host_alloc_zeroed(room, sizeof *work->peaks);
    if (work->peaks == NULL)
        return vw__fail_host_memory(room * sizeof *work->peaks, "the peaks of steps");
    VW__TRY(vw__plan_recorded_step_peaks(&work->run, work->peaks));
    VW__TRY(take_traced_sizes(work));
    VW__TRY(choose_step(work, scaling));
    VW__TRY(fill_in_sizes(work, scaling));
    VW__TRY(check_sizes(scaling));
    work->question.step = (uint32_t)scaling->step;
    work->question.batch_now = scaling->batch_now;
    work->question.sequence_now = scaling->sequence_now;
    work->question.unseen_step = VW__PLAN_NO_STEP;
    VW__TRY(vw__plan_step_laws_find(&work->run, &work->question, &work->laws));
    return fill(work, draft);
}

static vw_status scale(vw__plan_scaled_work *work, const vw_plan_scaling *scaling,
                       vw_plan_scaled **out)
{
    vw__plan_scaled_draft *draft = vw__host_alloc_zeroed(1, sizeof *draft);
    if (draft == NULL)
        return vw__fail_host_memory(sizeof *draft, "a plan");
    vw__arena_init(&draft->arena, VW__ARENA_NO_LIMIT);
    draft->shown.scaling = *scaling;
    vw_status status = make(work, draft);
    vw__plan_scaled_step_deinit(&work->scaled);
    vw__plan_step_laws_deinit(&work->laws);
    vw__plan_recorded_run_deinit(&work->run);
    vw__host_free(work->peaks);
    if (status == VW_OK)
        *out = &draft->shown;
    else
        vw_plan_scaled_free(&draft->shown);
    return status;
}

vw_status vw_plan_from_recording(const vw_recording *recording, const vw_plan_scaling *scaling,
                                 vw_plan_scaled **out)
{
    vw__plan_scaled_work work = {.recording = recording};
    vw_plan_scaling checked;
    VW__TRY(read_scaling(scaling, &checked));
    VW__TRY(check_sizes(&checked)); /* before the work */
    return scale(&work, &checked, out);
}

vw_status vw_plan_from_traced(const vw_plan_traced *traced, const vw_plan_scaling *scaling,
                              vw_plan_scaled **out)
{
    vw__plan_scaled_work work = {.recording = traced->recording, .traced = traced};
    vw_plan_scaling checked;
    VW__TRY(read_scaling(scaling, &checked));
    return scale(&work, &checked, out);
}

void vw_plan_scaled_free(vw_plan_scaled *scaled)
{
    vw__plan_scaled_draft *draft = (vw__plan_scaled_draft *)scaled;
    if (draft == NULL)
        return;
    vw__arena_deinit(&draft->arena);
    vw__host_free(draft);
}
