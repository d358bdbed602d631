/* scaled_reserved.c - a scaled step through the allocators.
 *
 * What is alive when the step begins is asked for first, then comes the step itself, in the order
 * of the recording. Streams and private pools are left out, and so is what earlier steps left
 * behind in the cache: what comes out is what a run of such steps alone would reserve. */
#include <stdlib.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "plan/from_recording.h"
#include "plan/plan_events.h"
#include "plan/plan_reserved.h"

typedef struct edge {
    uint32_t instant;
    uint32_t slot;
    bool is_alloc;
} edge;

/* By time; what is freed at the instant of a request is free before it. */
static int by_instant(const void *left, const void *right)
{
    const edge *a = left, *b = right;
    int order = (a->instant > b->instant) - (a->instant < b->instant);
    if (order == 0)
        order = (int)a->is_alloc - (int)b->is_alloc;
    return order != 0 ? order : (a->slot > b->slot) - (a->slot < b->slot);
}

static size_t list_edges(const vw__scaled_step *scaled, edge *edges)
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

static void write_ops(const vw__scaled_step *scaled, const edge *edges, size_t count,
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

static vw_status replay(const vw__scaled_step *scaled, edge *edges, vw__plan_events *events,
                        uint64_t peak_bytes, uint64_t reserved_bytes[VW__PLAN_POLICIES])
{
    vw__plan_replayed replayed;
    write_ops(scaled, edges, list_edges(scaled, edges), events);
    events->script.peak_live_bytes = peak_bytes;
    VW__TRY(vw__plan_replay_events(events, &replayed));
    for (size_t i = 0; i < VW__PLAN_POLICIES; i++)
        reserved_bytes[i] = replayed.reserved_bytes[i];
    return VW_OK;
}

vw_status vw__scaled_reserved(const vw__scaled_step *scaled, uint64_t peak_bytes,
                              uint64_t reserved_bytes[VW__PLAN_POLICIES])
{
    vw__plan_events events;
    size_t room = 2 * scaled->timeline.lifetime_count + 1;
    for (size_t i = 0; i < VW__PLAN_POLICIES; i++)
        reserved_bytes[i] = VW_UNKNOWN;
    if (peak_bytes > VW__MOST_REPLAYED_BYTES || scaled->timeline.lifetime_count > UINT32_MAX)
        return VW_OK;
    vw__plan_events_init(&events);
    events.script.ops = vw__host_alloc_zeroed(room, sizeof *events.script.ops);
    edge *edges = vw__host_alloc_zeroed(room, sizeof *edges);
    vw_status status = events.script.ops == NULL || edges == NULL
                           ? vw__fail_host_memory(room * sizeof *edges, "the requests of a step")
                           : replay(scaled, edges, &events, peak_bytes, reserved_bytes);
    vw__host_free(edges);
    vw__plan_events_deinit(&events);
    return status;
}
