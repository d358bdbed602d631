/* script.c - from the events of a trace to what the program asked for; see script.h.
 *
 * The events are cut into operations: a free; a snapshot; a request, which ends with its alloc or
 * oom and before that may complete frees, give memory back and take some; an empty_cache(). What
 * the cutting needs to know beforehand comes from script_parts.h. */
#include "analysis/script.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "analysis/live_bytes.h"
#include "analysis/script_parts.h"

enum { FIRST_OPS = 64 }; /* beside one for each event, which is more than there nearly ever are */

typedef struct script_maker {
    const hr__model_trace *trace;
    hr__script *script;
    const hr__script_guide *guide;
    size_t op_capacity;
    bool *is_trim; /* owned */
    hr__script_pools pools;
    hr__script_blocks blocks;
    uint32_t *free_slots; /* owned; room for every block */
    size_t free_slot_count;
    bool *is_released; /* owned; by pool */
    uint16_t scope;
    uint64_t live_bytes;
} script_maker;

/* ---- operations ------------------------------------------------------------------------------ */

static __attribute__((cold, noinline)) hr_status make_room_for_ops(script_maker *maker)
{
    hr__script *script = maker->script;
    size_t capacity =
        maker->op_capacity != 0 ? maker->op_capacity * 2 : maker->trace->event_count + FIRST_OPS;
    hr__script_op *grown = hr__host_realloc(script->ops, capacity * sizeof *grown);
    if (grown == NULL)
        return hr__fail_host_memory(capacity * sizeof *grown, "the operations of a trace");
    script->ops = grown;
    maker->op_capacity = capacity;
    return HR_OK;
}

/* Inline, so that fields are written where they stay: put together elsewhere and copied in wider
 * pieces, each copy waits for its bytes. */
static inline __attribute__((always_inline)) hr_status add_op(script_maker *maker,
                                                              const hr__script_op *op)
{
    hr__script *script = maker->script;
    if (__builtin_expect(script->op_count == maker->op_capacity, 0))
        HR__TRY(make_room_for_ops(maker));
    script->ops[script->op_count++] = *op;
    return HR_OK;
}

static hr_status enter_scope(script_maker *maker, uint16_t pool, size_t event)
{
    if (pool == maker->scope)
        return HR_OK;
    maker->scope = pool;
    return add_op(maker, &(hr__script_op){.kind = HR__SCRIPT_SCOPE,
                                          .pool = pool,
                                          .first_event = (uint32_t)event,
                                          .end_event = (uint32_t)event});
}

static void drop_event(script_maker *maker, size_t event)
{
    maker->script->dropped_event_count++;
    if (!maker->script->is_truncated && maker->script->first_dropped_event == HR__BEFORE_RECORDING)
        maker->script->first_dropped_event = (uint32_t)event;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* What no allocator can have handed out counts for nothing. */
static uint64_t live_bytes_of(uint64_t size_bytes)
{
    uint64_t bytes = hr__live_bytes_of(size_bytes);
    return bytes != HR__UNKNOWN_BYTES ? bytes : 0;
}

static void begin_block(script_maker *maker, hr__script_block *block, uint64_t size_bytes,
                        uint32_t event)
{
    hr__script *script = maker->script;
    block->phase = HR__BLOCK_IS_LIVE;
    block->size_bytes = size_bytes;
    block->slot = maker->free_slot_count > 0 ? maker->free_slots[--maker->free_slot_count]
                                             : (uint32_t)script->slot_count++;
    if (!hr__add_u64(maker->live_bytes, live_bytes_of(size_bytes), &maker->live_bytes))
        maker->live_bytes = UINT64_MAX;
    if (maker->live_bytes > script->peak_live_bytes) {
        script->peak_live_bytes = maker->live_bytes;
        script->peak_event = event;
    }
}

static void end_block(script_maker *maker, hr__script_block *block)
{
    uint64_t bytes = live_bytes_of(block->size_bytes);
    block->phase = HR__BLOCK_NOWHERE;
    maker->live_bytes -= bytes < maker->live_bytes ? bytes : maker->live_bytes;
    maker->free_slots[maker->free_slot_count++] = block->slot;
}

static hr_status make_free(script_maker *maker, hr__script_block *block, size_t first, size_t end)
{
    const hr__script_op op = {.kind = HR__SCRIPT_FREE,
                              .slot = block->slot,
                              .size_bytes = block->size_bytes,
                              .first_event = (uint32_t)first,
                              .end_event = (uint32_t)end};
    end_block(maker, block);
    return add_op(maker, &op);
}

/* A free that is complete, found so by the operation of the events [first, end), or by nobody. */
static hr_status make_completion(script_maker *maker, size_t event, bool is_alone)
{
    hr__script_block *block =
        hr__script_blocks_find(&maker->blocks, maker->trace->events[event].address);
    if (block != NULL && block->phase == HR__BLOCK_IS_LIVE)
        return make_free(maker, block, event, is_alone ? event + 1 : event);
    if (block == NULL || block->phase != HR__BLOCK_IS_PENDING) {
        drop_event(maker, event);
        return HR_OK;
    }
    const hr__script_op op = {.kind = HR__SCRIPT_COMPLETE,
                              .user = block->user,
                              .slot = block->slot,
                              .first_event = (uint32_t)event,
                              .end_event = (uint32_t)(is_alone ? event + 1 : event)};
    end_block(maker, block);
    return add_op(maker, &op);
}

static hr_status make_completions(script_maker *maker, size_t first, size_t end, bool is_alone)
{
    for (size_t i = first; i < end; i++)
        if (maker->trace->events[i].action == HR_ACTION_FREE_COMPLETED)
            HR__TRY(make_completion(maker, i, is_alone));
    return HR_OK;
}

/* ---- the beginning --------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    uint64_t left = (*(const hr__script_block *const *)a)->address;
    uint64_t right = (*(const hr__script_block *const *)b)->address;
    return left < right ? -1 : left > right;
}

static hr_status make_initial_request(script_maker *maker, hr__script_block *block)
{
    hr__script *script = maker->script;
    uint64_t size_bytes = hr__max_u64(block->size_bytes, 1);
    HR__TRY(enter_scope(maker, block->pool, 0));
    begin_block(maker, block, size_bytes, HR__BEFORE_RECORDING);
    script->initial_count++;
    script->initial_live_bytes = maker->live_bytes;
    return add_op(maker, &(hr__script_op){.kind = HR__SCRIPT_ALLOC,
                                          .size_bytes = size_bytes,
                                          .slot = block->slot,
                                          .stream = block->stream,
                                          .pool = block->pool,
                                          .first_event = HR__BEFORE_RECORDING,
                                          .end_event = HR__BEFORE_RECORDING});
}

static hr_status make_initial_requests(script_maker *maker)
{
    hr__script_blocks *blocks = &maker->blocks;
    size_t count = 0;
    hr__script_block **initial = hr__host_alloc(blocks->count * sizeof(hr__script_block *));
    if (initial == NULL)
        return hr__fail_host_memory(blocks->count * sizeof *initial, "the first blocks");
    for (size_t i = 0; i < blocks->count; i++)
        if (blocks->blocks[i].is_initial)
            initial[count++] = &blocks->blocks[i];
    qsort(initial, count, sizeof *initial, by_address);
    hr_status status = HR_OK;
    for (size_t i = 0; status == HR_OK && i < count; i++)
        status = make_initial_request(maker, initial[i]);
    hr__host_free(initial);
    return status;
}

/* ---- operations of a trace ------------------------------------------------------------------- */

static hr_status cut_free(script_maker *maker, size_t begin, size_t *end)
{
    const hr__model_trace *trace = maker->trace;
    const hr__model_event *event = &trace->events[begin];
    hr__script_block *block = hr__script_blocks_find(&maker->blocks, event->address);
    *end = begin + 1;
    if (block == NULL || block->phase != HR__BLOCK_IS_LIVE) {
        drop_event(maker, begin);
        return HR_OK;
    }
    if (*end < trace->event_count && !hr__script_is_flipped(maker->guide, begin)) {
        const hr__model_event *after = &trace->events[*end];
        if (after->action == HR_ACTION_FREE_COMPLETED && after->address == event->address &&
            after->size_bytes == event->size_bytes && after->stream == event->stream)
            return make_free(maker, block, begin, ++*end);
    }
    if (maker->script->lacks_free_completed)
        return make_free(maker, block, begin, *end);
    block->phase = HR__BLOCK_IS_PENDING;
    block->user = (uint32_t)maker->script->user_count++;
    return add_op(maker, &(hr__script_op){.kind = HR__SCRIPT_FREE_LATER,
                                          .slot = block->slot,
                                          .user = block->user,
                                          .size_bytes = block->size_bytes,
                                          .first_event = (uint32_t)begin,
                                          .end_event = (uint32_t)*end});
}

/* A trim empties private pools only once nobody uses them: one that loses memory by this trim was
 * released before. Stores in `*alone` the private pool that all of it was of, or the default. */
static hr_status release_pools(script_maker *maker, size_t begin, size_t end, uint16_t *alone)
{
    bool is_first = true;
    *alone = HR__DEFAULT_POOL;
    for (size_t i = begin; maker->pools.of_event != NULL && i < end; i++) {
        uint16_t pool = maker->pools.of_event[i];
        if (!hr__is_release(maker->trace->events[i].action))
            continue;
        *alone = is_first || *alone == pool ? pool : HR__DEFAULT_POOL;
        is_first = false;
        if (pool == HR__DEFAULT_POOL || maker->is_released[pool])
            continue;
        maker->is_released[pool] = true;
        HR__TRY(add_op(maker, &(hr__script_op){.kind = HR__SCRIPT_RELEASE,
                                               .pool = pool,
                                               .first_event = (uint32_t)begin,
                                               .end_event = (uint32_t)begin}));
    }
    return HR_OK;
}

static hr_status make_trim(script_maker *maker, size_t begin, size_t end)
{
    uint16_t alone;
    HR__TRY(enter_scope(maker, HR__DEFAULT_POOL, begin));
    HR__TRY(release_pools(maker, begin, end, &alone));
    HR__TRY(make_completions(maker, begin, end, false));
    return add_op(maker, &(hr__script_op){.kind = HR__SCRIPT_TRIM,
                                          .pool = alone,
                                          .first_event = (uint32_t)begin,
                                          .end_event = (uint32_t)end});
}

/* An empty_cache() takes the default pool's memory first. So where that comes behind a private
 * pool's, it is another call. */
static bool begins_another_trim(const script_maker *maker, size_t begin, size_t event)
{
    const uint16_t *pools = maker->pools.of_event;
    if (pools == NULL || !hr__is_release(maker->trace->events[event].action) ||
        pools[event] != HR__DEFAULT_POOL)
        return false;
    for (size_t i = event; i-- > begin;)
        if (hr__is_release(maker->trace->events[i].action))
            return pools[i] != HR__DEFAULT_POOL;
    return false;
}

static hr_status make_request(script_maker *maker, size_t begin, size_t end)
{
    const hr__model_event *last = &maker->trace->events[end - 1];
    bool is_oom = last->action == HR_ACTION_OOM;
    hr__script_block *block = is_oom ? NULL : hr__script_blocks_find(&maker->blocks, last->address);
    uint16_t pool = maker->scope;
    if (maker->pools.of_event != NULL && (!is_oom || last->pool != HR__UNKNOWN_POOL))
        pool = maker->pools.of_event[end - 1];
    HR__TRY(enter_scope(maker, pool, begin));
    HR__TRY(make_completions(maker, begin, end, false));
    hr__script_op op = {.kind = is_oom ? HR__SCRIPT_OOM : HR__SCRIPT_ALLOC,
                        .size_bytes = last->size_bytes,
                        .stream = last->stream,
                        .pool = pool,
                        .first_event = (uint32_t)begin,
                        .end_event = (uint32_t)end};
    if (!is_oom) {
        if (block == NULL || last->size_bytes == 0) { /* at address 0, or of no bytes */
            drop_event(maker, end - 1);
            return HR_OK;
        }
        begin_block(maker, block, last->size_bytes, (uint32_t)(end - 1));
        op.slot = block->slot;
    }
    return add_op(maker, &op);
}

/* Events that belong to no operation we know: the trace ended within one, or a request failed in a
 * way that leaves no event. */
static hr_status pass_over(script_maker *maker, size_t begin, size_t end)
{
    HR__TRY(make_completions(maker, begin, end, true));
    for (size_t i = begin; i < end; i++) {
        unsigned action = maker->trace->events[i].action;
        if (!hr__is_growth(action) && !hr__is_release(action))
            continue;
        if (end == maker->trace->event_count)
            maker->script->dropped_event_count++;
        else
            drop_event(maker, i);
    }
    return HR_OK;
}

/* A request, or an empty_cache(): both may begin with frees that completed. */
static hr_status cut_longer_operation(script_maker *maker, size_t begin, size_t *end)
{
    const hr__model_event *events = maker->trace->events;
    size_t count = maker->trace->event_count, i = begin;
    while (i < count &&
           (events[i].action == HR_ACTION_FREE_COMPLETED || hr__is_remark(events[i].action)))
        i++;
    bool is_trim = i < count && maker->is_trim[i];
    for (; i < count; i++) {
        unsigned action = events[i].action;
        if (hr__is_remark(action))
            continue;
        if (action == HR_ACTION_ALLOC || action == HR_ACTION_OOM) {
            if (is_trim)
                break;
            *end = i + 1;
            return make_request(maker, begin, *end);
        }
        bool is_part = is_trim ? maker->is_trim[i] && !begins_another_trim(maker, begin, i)
                               : !maker->is_trim[i] && action != HR_ACTION_FREE_REQUESTED &&
                                     action != HR_ACTION_SNAPSHOT;
        if (!is_part)
            break;
    }
    *end = i;
    return is_trim ? make_trim(maker, begin, i) : pass_over(maker, begin, i);
}

static hr_status cut_operation(script_maker *maker, size_t begin, size_t *end)
{
    const hr__model_event *event = &maker->trace->events[begin];
    *end = begin + 1;
    if (hr__is_remark(event->action))
        return HR_OK;
    if (event->action == HR_ACTION_FREE_REQUESTED)
        return cut_free(maker, begin, end);
    if (event->action == HR_ACTION_SNAPSHOT)
        return add_op(maker, &(hr__script_op){.kind = HR__SCRIPT_SNAPSHOT,
                                              .first_event = (uint32_t)begin,
                                              .end_event = (uint32_t)*end});
    if (event->action == HR_ACTION_FREE_COMPLETED) {
        const hr__script_block *block = hr__script_blocks_find(&maker->blocks, event->address);
        if (block == NULL || block->phase != HR__BLOCK_IS_PENDING)
            return make_completion(maker, begin, true); /* its request was not recorded */
    }
    return cut_longer_operation(maker, begin, end);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static hr_status conclude(script_maker *maker)
{
    hr__script *script = maker->script;
    hr__script_start start;
    maker->is_trim = hr__host_alloc_zeroed(maker->trace->event_count, sizeof *maker->is_trim);
    if (maker->is_trim == NULL)
        return hr__fail_host_memory(maker->trace->event_count, "the releases of a trace");
    HR__TRY(hr__script_find_pools(script->model, maker->trace, maker->guide, &maker->pools));
    HR__TRY(hr__script_find_start(script->model, maker->trace, &maker->blocks, &start));
    if (start.has_releases)
        hr__script_find_trims(script->model, maker->trace, maker->guide, maker->is_trim,
                              &script->has_guessed_releases);
    script->segment_events = maker->blocks.segment_events;
    script->segment_event_count = maker->blocks.segment_event_count;
    maker->blocks.segment_events = NULL; /* handed over */
    script->has_ooms = start.has_ooms;
    script->has_guessed_pools = maker->pools.has_guesses;
    script->has_hinted_pools = maker->pools.has_hints;
    script->is_truncated = start.is_truncated;
    script->has_end_state = start.has_end_state;
    script->lacks_free_requested = start.lacks_free_requested;
    script->lacks_free_completed = start.lacks_free_completed;
    maker->free_slots = hr__host_alloc((maker->blocks.count + 1) * sizeof *maker->free_slots);
    maker->is_released = hr__host_alloc_zeroed(maker->pools.id_count, 1);
    if (maker->free_slots == NULL || maker->is_released == NULL)
        return hr__fail_host_memory(maker->blocks.count * sizeof *maker->free_slots, "slots");
    return HR_OK;
}

static hr_status make(script_maker *maker)
{
    HR__TRY(conclude(maker));
    HR__TRY(make_initial_requests(maker));
    for (size_t i = 0; i < maker->trace->event_count;)
        HR__TRY(cut_operation(maker, i, &i));
    maker->script->pools = maker->pools.ids;
    maker->script->pool_count = maker->pools.id_count;
    maker->pools.ids = NULL; /* handed over */
    return HR_OK;
}

hr_status hr__script_make_guided(const hr__model *model, const hr__model_trace *trace,
                                 const hr__script_guide *guide, hr__script *out)
{
    hr__script script = {.model = model,
                         .trace = trace,
                         .peak_event = HR__BEFORE_RECORDING,
                         .first_dropped_event = HR__BEFORE_RECORDING};
    if (trace->event_count >= HR__BEFORE_RECORDING - 1)
        return hr__fail(HR_ERR_UNSUPPORTED, "a trace of %zu events: at most %u are supported",
                        trace->event_count, HR__BEFORE_RECORDING - 2);
    script_maker maker = {.trace = trace, .script = &script, .guide = guide};
    hr__address_map_init(&maker.blocks.map);
    hr_status status = make(&maker);
    hr__script_pools_deinit(&maker.pools);
    hr__script_blocks_deinit(&maker.blocks);
    hr__host_free(maker.is_trim);
    hr__host_free(maker.free_slots);
    hr__host_free(maker.is_released);
    if (status == HR_OK)
        *out = script;
    else
        hr__script_deinit(&script);
    return status;
}

hr_status hr__script_make(const hr__model *model, const hr__model_trace *trace, hr__script *out)
{
    static const hr__script_guide nothing;
    return hr__script_make_guided(model, trace, &nothing, out);
}

void hr__script_deinit(hr__script *script)
{
    hr__host_free(script->ops);
    hr__host_free(script->pools);
    hr__host_free(script->segment_events);
    *script = (hr__script){.ops = NULL};
}
