/* recorded_step.c - a step's blocks at other sizes, and their peak.
 *
 * The scaled step is a timeline of its own: the blocks that are alive at some instant of the step,
 * each at its new size, with what came before and what comes after cut off. It goes to what_if.h,
 * which finds the peak, and where it is: with larger activations that may be another instant than
 * the recorded one. */
#include "plan/recorded_step.h"

#include <string.h>

#include "analysis/live_bytes.h"
#include "analysis/recording.h"
#include "analysis/what_if.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

#define MOST_BYTES (UINT64_C(1) << 62) /* as of a timeline */

/* ---- a recording ----------------------------------------------------------------------------- */

static hr_status index_events(hr__recorded_run *run)
{
    size_t count = run->trace->event_count;
    run->lifetime_of = hr__host_alloc((count + 1) * sizeof *run->lifetime_of);
    if (run->lifetime_of == NULL)
        return hr__fail_host_memory(count * sizeof *run->lifetime_of, "the blocks of a trace");
    memset(run->lifetime_of, 0xFF, (count + 1) * sizeof *run->lifetime_of);
    for (size_t i = 0; i < run->timeline.lifetime_count; i++)
        if (run->timeline.lifetimes[i].begin != 0)
            run->lifetime_of[run->timeline.lifetimes[i].begin - 1] = (uint32_t)i;
    return HR_OK;
}

static hr_status look_at(hr__recorded_run *run, const hr_recording *recording, int device)
{
    run->model = recording->model;
    HR__TRY(hr__recording_trace(run->model, device, &run->trace));
    HR__TRY(hr__timeline_make(run->model, run->trace, &run->timeline));
    HR__TRY(hr__attribution_init(&run->attribution, run->model));
    HR__TRY(hr__steps_find_in(&run->timeline, &run->attribution, &run->steps));
    HR__TRY(hr__roles_find(&run->timeline, &run->attribution, &run->steps, &run->roles));
    return index_events(run);
}

hr_status hr__recorded_run_init(hr__recorded_run *run, const hr_recording *recording, int device)
{
    memset(run, 0, sizeof *run);
    hr_status status = look_at(run, recording, device);
    if (status != HR_OK)
        hr__recorded_run_deinit(run);
    return status;
}

void hr__recorded_run_deinit(hr__recorded_run *run)
{
    hr__host_free(run->lifetime_of);
    hr__roles_deinit(&run->roles);
    hr__steps_deinit(&run->steps);
    hr__attribution_deinit(&run->attribution);
    hr__timeline_deinit(&run->timeline);
    memset(run, 0, sizeof *run);
}

/* ---- its steps ------------------------------------------------------------------------------- */

void hr__recorded_step_range(const hr__recorded_run *run, uint32_t step, uint32_t *begin,
                             uint32_t *end)
{
    HR_ASSERT(step < run->steps.end_count);
    *begin = step == 0 ? 0 : run->steps.ends[step - 1];
    *end = run->steps.ends[step];
}

hr_status hr__recorded_step_peaks(const hr__recorded_run *run, uint64_t *peaks)
{
    int64_t *line = hr__timeline_live_line(&run->timeline);
    if (line == NULL)
        return hr__fail_host_memory((run->trace->event_count + 1) * sizeof *line,
                                    "the live bytes of a trace");
    for (uint32_t step = 0; step < run->steps.end_count; step++) {
        uint32_t begin, end;
        hr__recorded_step_range(run, step, &begin, &end);
        peaks[step] = 0;
        for (uint32_t i = begin; i <= end; i++)
            peaks[step] = hr__max_u64(peaks[step], (uint64_t)line[i]);
    }
    hr__host_free(line);
    return HR_OK;
}

uint32_t hr__recorded_step_choose(const hr__recorded_run *run, const uint64_t *peaks)
{
    uint32_t best = run->steps.end_count > 1 ? 1 : 0;
    for (uint32_t step = best + 1; step < run->steps.end_count; step++)
        if (peaks[step] > peaks[best])
            best = step;
    return best;
}

/* ---- at another size ------------------------------------------------------------------------- */

double hr__law_factor(hr_plan_law law, hr__which_length which, hr__multiples multiples)
{
    double batch = multiples.batch;
    double length = which == HR__LENGTH_SECOND ? multiples.second_length : multiples.length;
    double square =
        which == HR__LENGTH_BOTH ? multiples.length * multiples.second_length : length * length;
    switch (law) {
    case HR_PLAN_LAW_BATCH:
        return batch;
    case HR_PLAN_LAW_LENGTH:
        return length;
    case HR_PLAN_LAW_BATCH_LENGTH:
        return batch * length;
    case HR_PLAN_LAW_LENGTH_SQUARE:
        return square;
    case HR_PLAN_LAW_BATCH_LENGTH_SQUARE:
        return batch * square;
    case HR_PLAN_LAW_CONSTANT:
    case HR_PLAN_LAW_COUNT:
    default:
        return 1;
    }
}

uint64_t hr__recorded_request(const hr__recorded_run *run, const hr__lifetime *lifetime)
{
    return lifetime->begin == 0 ? lifetime->size_bytes
                                : run->trace->events[lifetime->begin - 1].size_bytes;
}

/* UINT64_MAX: more than an address space. */
static uint64_t scaled_bytes(const hr__recorded_run *run, const hr__step_laws *laws,
                             hr__scale scale, size_t place)
{
    const hr__lifetime *lifetime = &run->timeline.lifetimes[place];
    hr_plan_law law = laws->is_maybe_square[place] && scale.are_maybes_square
                          ? HR_PLAN_LAW_BATCH_LENGTH_SQUARE
                          : (hr_plan_law)laws->laws[place];
    double factor = hr__law_factor(law, (hr__which_length)laws->lengths[place], scale.multiples);
    double bytes = (double)hr__recorded_request(run, lifetime) * factor + 0.5;
    if (law == HR_PLAN_LAW_CONSTANT)
        return lifetime->size_bytes;
    return bytes < (double)MOST_BYTES ? hr__live_bytes_of((uint64_t)bytes) : UINT64_MAX;
}

static hr_status make_room(const hr__timeline *timeline, hr__scaled_step *scaled)
{
    size_t count = timeline->lifetime_count + 1;
    scaled->timeline = (hr__timeline){.model = timeline->model, .trace = timeline->trace};
    scaled->timeline.lifetimes = hr__host_alloc(count * sizeof(hr__lifetime));
    scaled->places = hr__host_alloc(count * sizeof *scaled->places);
    if (scaled->timeline.lifetimes != NULL && scaled->places != NULL)
        return HR_OK;
    return hr__fail_host_memory(count * sizeof(hr__lifetime), "the blocks of a step");
}

static hr_status add_blocks(const hr__recorded_run *run, uint32_t step, const hr__step_laws *laws,
                            hr__scale scale, hr__scaled_step *scaled)
{
    uint32_t begin, end;
    uint64_t total_bytes = 0;
    hr__recorded_step_range(run, step, &begin, &end);
    scaled->last_instant = end;
    for (size_t i = 0; i < run->timeline.lifetime_count; i++) {
        hr__lifetime block = run->timeline.lifetimes[i];
        if (block.begin > end || block.end <= begin)
            continue;
        block.size_bytes = scaled_bytes(run, laws, scale, i);
        block.begin = block.begin < begin ? begin : block.begin;
        if (!hr__add_u64(total_bytes, block.size_bytes, &total_bytes) || total_bytes >= MOST_BYTES)
            return hr__fail(HR_ERR_UNSUPPORTED,
                            "the step at that batch and length takes more than an address space");
        scaled->places[scaled->timeline.lifetime_count] = i;
        scaled->timeline.lifetimes[scaled->timeline.lifetime_count++] = block;
    }
    return HR_OK;
}

hr_status hr__scaled_step_init(hr__scaled_step *scaled, const hr__recorded_run *run, uint32_t step,
                               const hr__step_laws *laws, hr__scale scale)
{
    hr_status status = make_room(&run->timeline, scaled);
    if (status == HR_OK)
        status = add_blocks(run, step, laws, scale, scaled);
    if (status != HR_OK)
        hr__scaled_step_deinit(scaled);
    return status;
}

void hr__scaled_step_deinit(hr__scaled_step *scaled)
{
    hr__host_free(scaled->timeline.lifetimes);
    hr__host_free(scaled->places);
    memset(scaled, 0, sizeof *scaled);
}

/* ---- its peak -------------------------------------------------------------------------------- */

static void add_up(const hr__recorded_run *run, const hr__step_laws *laws,
                   const hr__scaled_step *scaled, hr__scaled_peak *out)
{
    for (size_t i = 0; i < scaled->timeline.lifetime_count; i++) {
        const hr__lifetime *block = &scaled->timeline.lifetimes[i];
        size_t place = scaled->places[i];
        if (!hr__lifetime_is_live(block, out->instant))
            continue;
        out->role_bytes[run->roles.roles[place]] += block->size_bytes;
        out->law_bytes[laws->laws[place]] += block->size_bytes;
        out->maybe_square_bytes += laws->is_maybe_square[place] ? block->size_bytes : 0;
        out->irregular_bytes += laws->is_irregular[place] ? block->size_bytes : 0;
    }
}

/* All blocks are one portion, of which everything is left. */
static hr_status find_peak(const hr__scaled_step *scaled, hr__scaled_peak *out)
{
    hr__what_if_peak peak;
    size_t count = scaled->timeline.lifetime_count + 1;
    uint8_t *portions = hr__host_alloc_zeroed(count, sizeof *portions);
    if (portions == NULL)
        return hr__fail_host_memory(count, "the portions of a step");
    hr__what_if_run question = {.timeline = &scaled->timeline,
                                .portion_of = portions,
                                .last_instant = scaled->last_instant};
    const hr__what_if nothing = hr__what_if_nothing();
    hr_status status = hr__what_if_prepare(&question);
    if (status == HR_OK)
        status = hr__what_if_ask(&question, &nothing, 1, &peak);
    hr__what_if_deinit(&question);
    hr__host_free(portions);
    if (status == HR_OK)
        *out = (hr__scaled_peak){.bytes = peak.bytes, .instant = peak.instant};
    return status;
}

hr_status hr__recorded_step_scale(const hr__recorded_run *run, uint32_t step,
                                  const hr__step_laws *laws, hr__scale scale, hr__scaled_peak *out)
{
    hr__scaled_step scaled;
    HR__TRY(hr__scaled_step_init(&scaled, run, step, laws, scale));
    hr_status status = find_peak(&scaled, out);
    if (status == HR_OK)
        add_up(run, laws, &scaled, out);
    hr__scaled_step_deinit(&scaled);
    return status;
}
