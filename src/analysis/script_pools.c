/* script_pools.c - which private pool a request belonged to.
 *
 * Since 2.12 every event names its pool. Before, it is the pool of the segment that the block lies
 * in, and segments that lived to the end carry their pool. A segment that did not, on a stream that
 * graphs were captured on, belongs with the requests around it on that stream: a capture is a run
 * of requests on one stream. A run that names no pool gets a made-up one. Segments that were given
 * back on any other stream belonged to the default pool, unless the guide says otherwise: a MemPool
 * can be used on any stream, between ordinary requests, so runs mean nothing there, and only the
 * rules decide (verify_reading.c). */
#include "analysis/script_parts.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "analysis/regions.h"

#define NO_REGION UINT32_MAX
#define MOST_POOLS (VW__MODEL_UNKNOWN_POOL - 1)

typedef struct pool_finder {
    vw__script *script;
    const vw__model *model;
    const vw__model_trace *trace;
    vw__regions regions;
    uint32_t *region_of;   /* owned; by event: of an alloc, or of the release that ended it */
    uint16_t *region_pool; /* owned; by region number; VW__MODEL_UNKNOWN_POOL until concluded */
    uint16_t *region_hint; /* owned; by region number: 1 + the group it was given; 0: no hint */
    const vw__script_guide *guide;
    bool *is_capture;   /* owned; by stream: a private segment at the end is on it */
    uint16_t *of_event; /* owned; what is looked for */
} pool_finder;

/* ---- is there anything to find? -------------------------------------------------------------- */

static bool has_private_pools(const vw__model *model, const vw__model_trace *trace)
{
    size_t first, end;
    if (model->pool_count <= 1)
        return false; /* there is only the default pool */
    vw__script_segments_of(model, trace->device, &first, &end);
    for (size_t i = first; i < end; i++)
        if (model->segments[i].pool != VW__MODEL_DEFAULT_POOL &&
            model->segments[i].pool != VW__MODEL_UNKNOWN_POOL)
            return true;
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].pool != VW__MODEL_DEFAULT_POOL &&
            trace->events[i].pool != VW__MODEL_UNKNOWN_POOL)
            return true;
    return false;
}

/* ---- regions --------------------------------------------------------------------------------- */

/* A region that begins: its pool is on record, or hinted at, or to be concluded. */
static void begin_region(pool_finder *finder, const vw__regions_entry *region, size_t index)
{
    const vw__script_guide *guide = finder->guide;
    finder->region_pool[region->number] = finder->trace->events[index].pool;
    for (size_t i = 0; i < guide->hint_count; i++)
        if (guide->hints[i].event == index)
            finder->region_hint[region->number] = (uint16_t)(guide->hints[i].group + 1);
}

static vw_status follow_event(pool_finder *finder, size_t index)
{
    const vw__model_event *event = &finder->trace->events[index];
    const vw__regions_entry *region = NULL;
    vw__regions_entry was;
    bool is_new = false, is_gone = false;
    finder->region_of[index] = NO_REGION;
    if (vw__script_is_growth(event->action)) {
        VW__TRY(vw__regions_take(&finder->regions, event->address, event->size_bytes,
                                 event->action == VW_ACTION_SEGMENT_MAP, &region, &is_new));
        if (is_new)
            begin_region(finder, region, index);
    } else if (vw__script_is_release(event->action)) {
        if (vw__regions_give_back(&finder->regions, event->address, event->size_bytes, &was,
                                  &is_gone))
            finder->region_of[index] = was.number;
    } else if (event->action == VW_ACTION_ALLOC) {
        region = vw__regions_find(&finder->regions, event->address);
        if (region != NULL)
            finder->region_of[index] = region->number;
    }
    return VW_OK;
}

/* Regions that are there at the end have the pool of their segments. */
static void learn_from_the_end(pool_finder *finder)
{
    const vw__model *model = finder->model;
    size_t first, end;
    vw__script_segments_of(model, finder->trace->device, &first, &end);
    for (size_t i = first; i < end; i++) {
        const vw__model_segment *segment = &model->segments[i];
        const vw__regions_entry *region = vw__regions_find(&finder->regions, segment->address);
        if (segment->pool == VW__MODEL_UNKNOWN_POOL)
            continue;
        if (region != NULL)
            finder->region_pool[region->number] = segment->pool;
        if (segment->pool != VW__MODEL_DEFAULT_POOL)
            finder->is_capture[segment->stream] = true;
    }
}

/* ---- made-up pools --------------------------------------------------------------------------- */

static bool is_used(const vw__script *script, vw_private_id id)
{
    for (size_t i = 0; i < script->pool_count; i++)
        if (script->pools[i].first == id.first && script->pools[i].second == id.second)
            return true;
    return false;
}

static vw_status make_up_pool(vw__script *script, uint16_t *out)
{
    vw_private_id id = {1, 0};
    size_t size_bytes = (script->pool_count + 1) * sizeof id;
    if (script->pool_count >= MOST_POOLS)
        return vw__fail(VW_ERR_UNSUPPORTED, "more than %d private pools", MOST_POOLS);
    while (is_used(script, id))
        id.first++;
    vw_private_id *grown = vw__host_realloc(script->pools, size_bytes);
    if (grown == NULL)
        return vw__fail_host_memory(size_bytes, "private pools");
    script->pools = grown;
    script->pools[script->pool_count] = id;
    *out = (uint16_t)script->pool_count++;
    return VW_OK;
}

/* ---- hints ----------------------------------------------------------------------------------- */

/* Gives hinted regions whose pool is not recorded the default pool for now, so that nothing is
 * concluded from them. */
static void put_hints_aside(pool_finder *finder)
{
    for (size_t i = 0; i < finder->regions.made_count; i++) {
        if (finder->region_pool[i] != VW__MODEL_UNKNOWN_POOL)
            finder->region_hint[i] = 0;
        if (finder->region_hint[i] == 0)
            continue;
        finder->region_pool[i] = VW__MODEL_DEFAULT_POOL;
        finder->script->has_hinted_pools = true;
    }
}

/* Pools for the groups of hints, in the order of their numbers. */
static vw_status follow_hints(pool_finder *finder)
{
    uint32_t last_group = 0;
    for (size_t i = 0; i < finder->regions.made_count; i++)
        if (finder->region_hint[i] > last_group + 1)
            last_group = finder->region_hint[i] - 1U;
    for (uint32_t group = 1; group <= last_group; group++) {
        uint16_t pool;
        VW__TRY(make_up_pool(finder->script, &pool));
        for (size_t i = 0; i < finder->regions.made_count; i++)
            if (finder->region_hint[i] == group + 1)
                finder->region_pool[i] = pool;
    }
    return VW_OK;
}

/* ---- runs of requests ------------------------------------------------------------------------ */

/* The end of the run of requests on one stream that begins at alloc `begin`. */
static size_t end_of_run(const vw__model_trace *trace, size_t begin)
{
    size_t i = begin;
    while (i < trace->event_count && (trace->events[i].action != VW_ACTION_ALLOC ||
                                      trace->events[i].stream == trace->events[begin].stream))
        i++;
    return i;
}

static uint16_t *pool_of_alloc(const pool_finder *finder, size_t index)
{
    if (finder->trace->events[index].action != VW_ACTION_ALLOC ||
        finder->region_of[index] == NO_REGION)
        return NULL;
    return &finder->region_pool[finder->region_of[index]];
}

/* Gives regions of unknown pool that the run [begin, end) uses the last pool named before them, or
 * the first after them, or a made-up one. */
static vw_status conclude_run(pool_finder *finder, size_t begin, size_t end)
{
    uint16_t known = VW__MODEL_UNKNOWN_POOL;
    bool has_unknown = false;
    for (size_t i = begin; i < end; i++) {
        const uint16_t *pool = pool_of_alloc(finder, i);
        has_unknown = has_unknown || (pool != NULL && *pool == VW__MODEL_UNKNOWN_POOL);
        if (known == VW__MODEL_UNKNOWN_POOL && pool != NULL && *pool != VW__MODEL_DEFAULT_POOL)
            known = *pool;
    }
    if (!has_unknown)
        return VW_OK;
    finder->script->has_guessed_pools = true;
    if (finder->guide->has_no_captures)
        return VW_OK;
    if (known == VW__MODEL_UNKNOWN_POOL)
        VW__TRY(make_up_pool(finder->script, &known));
    for (size_t i = begin; i < end; i++) {
        uint16_t *pool = pool_of_alloc(finder, i);
        if (pool != NULL && *pool == VW__MODEL_UNKNOWN_POOL)
            *pool = known;
        else if (pool != NULL && *pool != VW__MODEL_DEFAULT_POOL)
            known = *pool;
    }
    return VW_OK;
}

static vw_status conclude_runs(pool_finder *finder)
{
    const vw__model_trace *trace = finder->trace;
    for (size_t i = 0; i < trace->event_count;) {
        if (trace->events[i].action != VW_ACTION_ALLOC) {
            i++;
            continue;
        }
        size_t end = end_of_run(trace, i);
        if (finder->is_capture[trace->events[i].stream])
            VW__TRY(conclude_run(finder, i, end));
        i = end;
    }
    return VW_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void write_down(const pool_finder *finder)
{
    const vw__model_trace *trace = finder->trace;
    for (size_t i = 0; i < trace->event_count; i++) {
        const vw__model_event *event = &trace->events[i];
        uint16_t pool = VW__MODEL_DEFAULT_POOL;
        bool is_own = event->action == VW_ACTION_ALLOC || event->action == VW_ACTION_OOM;
        if (is_own && event->pool != VW__MODEL_UNKNOWN_POOL)
            pool = event->pool;
        else if (finder->region_of[i] != NO_REGION)
            pool = finder->region_pool[finder->region_of[i]];
        finder->of_event[i] = pool != VW__MODEL_UNKNOWN_POOL ? pool : VW__MODEL_DEFAULT_POOL;
    }
}

static vw_status find_pools(pool_finder *finder)
{
    size_t count = finder->trace->event_count;
    finder->region_of = vw__host_alloc_zeroed(count, sizeof *finder->region_of);
    finder->region_pool = vw__host_alloc_zeroed(count, sizeof *finder->region_pool);
    finder->region_hint = vw__host_alloc_zeroed(count, sizeof *finder->region_hint);
    finder->is_capture = vw__host_alloc_zeroed(finder->model->stream_count, 1);
    finder->of_event = vw__host_alloc_zeroed(count, sizeof *finder->of_event);
    if (finder->region_of == NULL || finder->region_pool == NULL || finder->region_hint == NULL ||
        finder->is_capture == NULL || finder->of_event == NULL)
        return vw__fail_host_memory(count * sizeof *finder->region_of, "private pools of a trace");
    for (size_t i = 0; i < count; i++)
        VW__TRY(follow_event(finder, i));
    learn_from_the_end(finder);
    put_hints_aside(finder);
    VW__TRY(conclude_runs(finder));
    VW__TRY(follow_hints(finder));
    write_down(finder);
    return VW_OK;
}

vw_status vw__script_find_pools(vw__script *script, const vw__script_guide *guide,
                                uint16_t **of_event)
{
    const vw__model *model = script->model;
    script->pool_count = model->pool_count > 0 ? model->pool_count : 1;
    script->pools = vw__host_alloc_zeroed(script->pool_count, sizeof *script->pools);
    if (script->pools == NULL)
        return vw__fail_host_memory(script->pool_count * sizeof *script->pools, "private pools");
    if (model->pool_count > 0)
        memcpy(script->pools, model->pools, model->pool_count * sizeof *script->pools);
    if (guide->hint_count == 0 && !has_private_pools(model, script->trace))
        return VW_OK;
    pool_finder finder = {.script = script, .model = model, .trace = script->trace, .guide = guide};
    vw__regions_init(&finder.regions);
    vw_status status = find_pools(&finder);
    *of_event = finder.of_event;
    vw__regions_deinit(&finder.regions);
    vw__host_free(finder.region_of);
    vw__host_free(finder.region_pool);
    vw__host_free(finder.region_hint);
    vw__host_free(finder.is_capture);
    return status;
}

/* ---- pools that hand out whole segments ------------------------------------------------------ */

static vw_status follow_op(vw__regions *regions, const vw__model_event *events,
                           const vw__script_op *op)
{
    for (size_t i = op->first_event; i < op->end_event; i++) {
        const vw__regions_entry *region;
        vw__regions_entry was;
        bool is_new, is_gone;
        if (vw__script_is_growth(events[i].action))
            VW__TRY(vw__regions_take(regions, events[i].address, events[i].size_bytes,
                                     events[i].action == VW_ACTION_SEGMENT_MAP, &region, &is_new));
        else if (vw__script_is_release(events[i].action))
            (void)vw__regions_give_back(regions, events[i].address, events[i].size_bytes, &was,
                                        &is_gone);
    }
    return VW_OK;
}

static bool is_at_the_start(const vw__regions *regions, uint64_t address)
{
    const vw__regions_entry *region = vw__regions_find(regions, address);
    return region != NULL && !region->is_expandable && region->address == address;
}

/* A MemPool made with no_split takes a segment for each block and never cuts one. No recording says
 * so, but it leaves a mark: every block of the pool lies at the start of a plain segment. A pool
 * that was merely never asked for two small blocks leaves the same mark, so callers try both. */
vw_status vw__script_may_be_unsplit(const vw__script *script, uint16_t pool, bool *out)
{
    const vw__model_event *events = script->trace->events;
    vw__regions regions;
    vw_status status = VW_OK;
    *out = pool != VW__MODEL_DEFAULT_POOL;
    vw__regions_init(&regions);
    for (size_t i = 0; status == VW_OK && *out && i < script->op_count; i++) {
        const vw__script_op *op = &script->ops[i];
        status = follow_op(&regions, events, op);
        if (status == VW_OK && op->kind == VW__SCRIPT_ALLOC && op->pool == pool)
            *out = op->first_event != VW__SCRIPT_BEFORE_RECORDING &&
                   is_at_the_start(&regions, events[op->end_event - 1].address);
    }
    vw__regions_deinit(&regions);
    return status;
}
