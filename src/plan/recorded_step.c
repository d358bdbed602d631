/* recorded_step.c - a step's blocks at other sizes, their peak, and what allocators reserve.
 *
 * The scaled step is a timeline of its own: the blocks that are alive at some instant of the step,
 * each at its new size, with what came before and after cut off. what_if.h finds its peak: with
 * larger activations that may be another instant than the recorded one. */
#include "plan/recorded_step.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "analysis/live_bytes.h"
#include "analysis/recording.h"
#include "analysis/what_if.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

#define MOST_BYTES (UINT64_C(1) << 62) /* as of a timeline */

/* ---- a recording ----------------------------------------------------------------------------- */

static vw_status index_events(vw__plan_recorded_run *run)
{
    size_t count = run->trace->event_count;
    run->lifetime_of = vw__host_alloc((count + 1) * sizeof *run->lifetime_of);
    if (run->lifetime_of == NULL)
        return vw__fail_host_memory(count * sizeof *run->lifetime_of, "the blocks of a trace");
    memset(run->lifetime_of, 0xFF, (count + 1) * sizeof *run->lifetime_of);
    for (size_t i = 0; i < run->timeline.lifetime_count; i++)
        if (run->timeline.lifetimes[i].begin != 0)
            run->lifetime_of[run->timeline.lifetimes[i].begin - 1] = (uint32_t)i;
    return VW_OK;
}

static vw_status look_at(vw__plan_recorded_run *run, const vw_recording *recording, int device)
{
    run->model = recording->model;
    VW__TRY(vw__recording_trace(run->model, device, &run->trace));
    VW__TRY(vw__timeline_make(run->model, run->trace, &run->timeline));
    VW__TRY(vw__attribution_init(&run->attribution, run->model));
    VW__TRY(vw__steps_find_in(&run->timeline, &run->attribution, &run->steps));
    VW__TRY(vw__roles_find(&run->timeline, &run->attribution, &run->steps, &run->roles));
    return index_events(run);
}

vw_status vw__plan_recorded_run_init(vw__plan_recorded_run *run, const vw_recording *recording,
                                     int device)
{
    memset(run, 0, sizeof *run);
    vw_status status = look_at(run, recording, device);
    if (status != VW_OK)
        vw__plan_recorded_run_deinit(run);
    return status;
}

void vw__plan_recorded_run_deinit(vw__plan_recorded_run *run)
{
    vw__host_free(run->lifetime_of);
    vw__roles_deinit(&run->roles);
    vw__steps_deinit(&run->steps);
    vw__attribution_deinit(&run->attribution);
    vw__timeline_deinit(&run->timeline);
    memset(run, 0, sizeof *run);
}

/* ---- its steps ------------------------------------------------------------------------------- */

void vw__plan_recorded_step_range(const vw__plan_recorded_run *run, uint32_t step, uint32_t *begin,
                                  uint32_t *end)
{
    VW_ASSERT(step < run->steps.end_count);
    *begin = step == 0 ? 0 : run->steps.ends[step - 1];
    *end = run->steps.ends[step];
}

vw_status vw__plan_recorded_step_peaks(const vw__plan_recorded_run *run, uint64_t *peaks)
{
    int64_t *line = vw__timeline_live_line(&run->timeline);
    if (line == NULL)
        return vw__fail_host_memory((run->trace->event_count + 1) * sizeof *line,
                                    "the live bytes of a trace");
    for (uint32_t step = 0; step < run->steps.end_count; step++) {
        uint32_t begin, end;
        vw__plan_recorded_step_range(run, step, &begin, &end);
        peaks[step] = 0;
        for (uint32_t i = begin; i <= end; i++)
            peaks[step] = vw__max_u64(peaks[step], (uint64_t)line[i]);
    }
    vw__host_free(line);
    return VW_OK;
}

static bool is_first_size(const vw_plan_traced_size *sizes, uint32_t step)
{
    return sizes == NULL ||
           (sizes[step].batch == sizes[0].batch && sizes[step].sequence == sizes[0].sequence);
}

uint32_t vw__plan_recorded_step_choose(const vw__plan_recorded_run *run, const uint64_t *peaks,
                                       const vw_plan_traced_size *sizes)
{
    uint32_t best = 0;
    for (uint32_t step = 1; step < run->steps.end_count; step++)
        if (is_first_size(sizes, step) && (best == 0 || peaks[step] > peaks[best]))
            best = step;
    return best;
}

/* ---- at another size ------------------------------------------------------------------------- */

double vw__plan_law_factor(vw_plan_law law, vw__plan_which_length which,
                           vw__plan_multiples multiples)
{
    double batch = multiples.batch;
    double length = which == VW__PLAN_LENGTH_SECOND ? multiples.second_length : multiples.length;
    double square = which == VW__PLAN_LENGTH_BOTH ? multiples.length * multiples.second_length
                                                  : length * length;
    switch (law) {
    case VW_PLAN_LAW_BATCH:
        return batch;
    case VW_PLAN_LAW_LENGTH:
        return length;
    case VW_PLAN_LAW_BATCH_LENGTH:
        return batch * length;
    case VW_PLAN_LAW_LENGTH_SQUARE:
        return square;
    case VW_PLAN_LAW_BATCH_LENGTH_SQUARE:
        return batch * square;
    case VW_PLAN_LAW_CONSTANT:
    case VW_PLAN_LAW_COUNT:
    default:
        return 1;
    }
}

uint64_t vw__plan_recorded_request(const vw__plan_recorded_run *run, const vw__lifetime *lifetime)
{
    return lifetime->begin == 0 ? lifetime->size_bytes
                                : run->trace->events[lifetime->begin - 1].size_bytes;
}

/* UINT64_MAX: more than an address space. */
static uint64_t scaled_bytes(const vw__plan_recorded_run *run, const vw__plan_step_laws *laws,
                             vw__plan_scale scale, size_t place)
{
    const vw__lifetime *lifetime = &run->timeline.lifetimes[place];
    const vw__plan_block_law *known = &laws->blocks[place];
    vw_plan_law law = known->is_maybe_square && scale.are_maybes_square
                          ? VW_PLAN_LAW_BATCH_LENGTH_SQUARE
                          : (vw_plan_law)known->law;
    double factor = vw__plan_law_factor(law, (vw__plan_which_length)known->length, scale.multiples);
    double bytes = (double)vw__plan_recorded_request(run, lifetime) * factor + 0.5;
    if (law == VW_PLAN_LAW_CONSTANT)
        return lifetime->size_bytes;
    return bytes < (double)MOST_BYTES ? vw__lifetime_bytes_of((uint64_t)bytes) : UINT64_MAX;
}

static vw_status make_room(const vw__timeline *timeline, vw__plan_scaled_step *scaled)
{
    size_t count = timeline->lifetime_count + 1;
    scaled->timeline = (vw__timeline){.model = timeline->model, .trace = timeline->trace};
    scaled->timeline.lifetimes = vw__host_alloc(count * sizeof(vw__lifetime));
    scaled->places = vw__host_alloc(count * sizeof *scaled->places);
    if (scaled->timeline.lifetimes != NULL && scaled->places != NULL)
        return VW_OK;
    return vw__fail_host_memory(count * sizeof(vw__lifetime), "the blocks of a step");
}

static vw_status add_blocks(const vw__plan_recorded_run *run, uint32_t step,
                            const vw__plan_step_laws *laws, vw__plan_scale scale,
                            vw__plan_scaled_step *scaled)
{
    uint32_t begin, end;
    uint64_t total_bytes = 0;
    vw__plan_recorded_step_range(run, step, &begin, &end);
    scaled->last_instant = end;
    for (size_t i = 0; i < run->timeline.lifetime_count; i++) {
        vw__lifetime block = run->timeline.lifetimes[i];
        if (block.begin > end || block.end <= begin)
            continue;
        block.size_bytes = scaled_bytes(run, laws, scale, i);
        block.begin = block.begin < begin ? begin : block.begin;
        if (!vw__add_u64(total_bytes, block.size_bytes, &total_bytes) || total_bytes >= MOST_BYTES)
            return vw__fail(VW_ERR_UNSUPPORTED,
                            "the step at that batch and length takes more than an address space");
        scaled->places[scaled->timeline.lifetime_count] = i;
        scaled->timeline.lifetimes[scaled->timeline.lifetime_count++] = block;
    }
    return VW_OK;
}

vw_status vw__plan_scaled_step_init(vw__plan_scaled_step *scaled, const vw__plan_recorded_run *run,
                                    uint32_t step, const vw__plan_step_laws *laws,
                                    vw__plan_scale scale)
{
    vw_status status = make_room(&run->timeline, scaled);
    if (status == VW_OK)
        status = add_blocks(run, step, laws, scale, scaled);
    if (status != VW_OK)
        vw__plan_scaled_step_deinit(scaled);
    return status;
}

void vw__plan_scaled_step_deinit(vw__plan_scaled_step *scaled)
{
    vw__host_free(scaled->timeline.lifetimes);
    vw__host_free(scaled->places);
    memset(scaled, 0, sizeof *scaled);
}

/* ---- its peak -------------------------------------------------------------------------------- */

static void add_up(const vw__plan_recorded_run *run, const vw__plan_step_laws *laws,
                   const vw__plan_scaled_step *scaled, vw__plan_scaled_peak *out)
{
    for (size_t i = 0; i < scaled->timeline.lifetime_count; i++) {
        const vw__lifetime *block = &scaled->timeline.lifetimes[i];
        size_t place = scaled->places[i];
        if (!vw__lifetime_is_live(block, out->instant))
            continue;
        out->role_bytes[run->roles.roles[place]] += block->size_bytes;
        out->law_bytes[laws->blocks[place].law] += block->size_bytes;
        out->maybe_square_bytes += laws->blocks[place].is_maybe_square ? block->size_bytes : 0;
        out->irregular_bytes += laws->blocks[place].is_irregular ? block->size_bytes : 0;
    }
}

/* All blocks are one portion, and none of it is taken away. */
static vw_status find_peak(const vw__plan_scaled_step *scaled, vw__plan_scaled_peak *out)
{
    vw__what_if_peak peak;
    size_t count = scaled->timeline.lifetime_count + 1;
    uint8_t *portions = vw__host_alloc_zeroed(count, sizeof *portions);
    if (portions == NULL)
        return vw__fail_host_memory(count, "the portions of a step");
    vw__what_if_run question = {.timeline = &scaled->timeline,
                                .portion_of = portions,
                                .last_instant = scaled->last_instant};
    const vw__what_if nothing = vw__what_if_nothing();
    vw_status status = vw__what_if_prepare(&question);
    if (status == VW_OK)
        status = vw__what_if_ask(&question, &nothing, 1, &peak);
    vw__what_if_deinit(&question);
    vw__host_free(portions);
    if (status == VW_OK)
        *out = (vw__plan_scaled_peak){.bytes = peak.bytes, .instant = peak.instant};
    return status;
}

vw_status vw__plan_recorded_step_scale(const vw__plan_recorded_run *run, uint32_t step,
                                       const vw__plan_step_laws *laws, vw__plan_scale scale,
                                       vw__plan_scaled_peak *out)
{
    vw__plan_scaled_step scaled;
    VW__TRY(vw__plan_scaled_step_init(&scaled, run, step, laws, scale));
    vw_status status = find_peak(&scaled, out);
    if (status == VW_OK)
        add_up(run, laws, &scaled, out);
    vw__plan_scaled_step_deinit(&scaled);
    return status;
}

/* ---- what allocators make of it -------------------------------------------------------------- */

/* What is alive when the step begins is requested first, then comes the step itself, in the order
 * of the recording. Streams, private pools and what earlier steps left in the cache are left out:
 * the result is what a run of such steps alone would reserve. */
typedef struct edge {
    uint32_t instant;
    uint32_t slot;
    bool is_alloc;
} edge;

/* By time; frees come before requests of the same instant. */
static int by_instant(const void *left, const void *right)
{
    const edge *a = left, *b = right;
    int order = (a->instant > b->instant) - (a->instant < b->instant);
    if (order == 0)
        order = (int)a->is_alloc - (int)b->is_alloc;
    return order != 0 ? order : (a->slot > b->slot) - (a->slot < b->slot);
}

static size_t list_edges(const vw__plan_scaled_step *scaled, edge *edges)
{
    size_t count = 0;
    for (size_t i = 0; i < scaled->timeline.lifetime_count; i++) {
        const vw__lifetime *block = &scaled->timeline.lifetimes[i];
        edges[count++] = (edge){block->begin, (uint32_t)i, true};
        if (block->end <= scaled->last_instant)
            edges[count++] = (edge){block->end, (uint32_t)i, false};
    }
    qsort(edges, count, sizeof *edges, by_instant);
    return count;
}

static void write_ops(const vw__plan_scaled_step *scaled, const edge *edges, size_t count,
                      vw__plan_events *events)
{
    vw__script *script = &events->script;
    for (size_t i = 0; i < count; i++) {
        const vw__lifetime *block = &scaled->timeline.lifetimes[edges[i].slot];
        script->ops[i] = (vw__script_op){
            .size_bytes = edges[i].is_alloc ? block->size_bytes : 0,
            .slot = edges[i].slot,
            .kind = (uint8_t)(edges[i].is_alloc ? VW__SCRIPT_ALLOC : VW__SCRIPT_FREE)};
    }
    script->op_count = count;
    script->slot_count = scaled->timeline.lifetime_count;
    events->steps[0] = (vw__plan_step){.begin = 0, .end = count};
    events->step_count = 1;
}

vw_status vw__plan_scaled_replay(const vw__plan_scaled_step *scaled, uint64_t peak_bytes,
                                 vw__plan_replayed *out)
{
    vw__plan_events events;
    *out = (vw__plan_replayed){{VW_UNKNOWN, VW_UNKNOWN, VW_UNKNOWN}, VW_UNKNOWN};
    size_t room = 2 * scaled->timeline.lifetime_count + 1;
    vw_status status = VW_OK;
    if (peak_bytes <= VW__PLAN_MOST_REPLAYED_BYTES &&
        scaled->timeline.lifetime_count <= UINT32_MAX) {
        vw__plan_events_init(&events);
        events.script.ops = vw__host_alloc_zeroed(room, sizeof *events.script.ops);
        edge *edges = vw__host_alloc_zeroed(room, sizeof *edges);
        if (events.script.ops == NULL || edges == NULL) {
            status = vw__fail_host_memory(room * sizeof *edges, "the requests of a step");
        } else {
            write_ops(scaled, edges, list_edges(scaled, edges), &events);
            events.script.peak_live_bytes = peak_bytes;
            status = vw__plan_replay_events(&events, out);
        }
        vw__host_free(edges);
        vw__plan_events_deinit(&events);
    }
    return status;
}
