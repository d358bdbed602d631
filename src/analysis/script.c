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
#include "engine/torch/torch_rounding.h" /* VW__TORCH_SMALL_BYTES */
#include "analysis/live_bytes.h"
#include "analysis/script_parts.h"

enum { FIRST_OPS = 64 }; /* in addition to one for each event, which is nearly always enough */

typedef struct script_maker {
    const vw__model_trace *trace;
    vw__script *script;
    const vw__script_guide *guide;
    size_t op_capacity;
    bool *is_trim;           /* owned */
    uint16_t *pool_of_event; /* owned; vw__script_find_pools() */
    vw__script_blocks blocks;
    uint32_t *free_slots; /* owned; room for every block */
    size_t free_slot_count;
    bool *is_released; /* owned; by pool */
    uint16_t scope;
    uint64_t live_bytes;
} script_maker;

/* ---- operations ------------------------------------------------------------------------------ */

static __attribute__((cold, noinline)) vw_status make_room_for_ops(script_maker *maker)
{
    vw__script *script = maker->script;
    size_t capacity =
        maker->op_capacity != 0 ? maker->op_capacity * 2 : maker->trace->event_count + FIRST_OPS;
    vw__script_op *grown = vw__host_realloc(script->ops, capacity * sizeof *grown);
    if (grown == NULL)
        return vw__fail_host_memory(capacity * sizeof *grown, "the operations of a trace");
    script->ops = grown;
    maker->op_capacity = capacity;
    return VW_OK;
}

/* Inline, so that fields are written where they stay: put together elsewhere and copied in wider
 * pieces, each copy waits for its bytes. */
static inline __attribute__((always_inline)) vw_status add_op(script_maker *maker,
                                                              const vw__script_op *op)
{
    vw__script *script = maker->script;
    if (__builtin_expect(script->op_count == maker->op_capacity, 0))
        VW__TRY(make_room_for_ops(maker));
    script->ops[script->op_count++] = *op;
    return VW_OK;
}

static vw_status enter_scope(script_maker *maker, uint16_t pool, size_t event)
{
    if (pool == maker->scope)
        return VW_OK;
    maker->scope = pool;
    return add_op(maker, &(vw__script_op){.kind = VW__SCRIPT_SCOPE,
                                          .pool = pool,
                                          .first_event = (uint32_t)event,
                                          .end_event = (uint32_t)event});
}

static void drop_event(script_maker *maker, size_t event)
{
    maker->script->dropped_event_count++;
    if (!maker->script->is_truncated &&
        maker->script->first_dropped_event == VW__SCRIPT_BEFORE_RECORDING)
        maker->script->first_dropped_event = (uint32_t)event;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A size that no allocator can have handed out counts as 0. */
static uint64_t live_bytes_of(uint64_t size_bytes)
{
    uint64_t bytes = vw__lifetime_bytes_of(size_bytes);
    return bytes != VW__MODEL_UNKNOWN_BYTES ? bytes : 0;
}

static void begin_block(script_maker *maker, vw__script_block *block, uint64_t size_bytes,
                        uint32_t event)
{
    vw__script *script = maker->script;
    block->phase = VW__SCRIPT_BLOCK_LIVE;
    block->size_bytes = size_bytes;
    block->slot = maker->free_slot_count > 0 ? maker->free_slots[--maker->free_slot_count]
                                             : (uint32_t)script->slot_count++;
    maker->live_bytes = vw__add_capped_u64(maker->live_bytes, live_bytes_of(size_bytes));
    if (maker->live_bytes > script->peak_live_bytes) {
        script->peak_live_bytes = maker->live_bytes;
        script->peak_event = event;
    }
}

static void end_block(script_maker *maker, vw__script_block *block)
{
    uint64_t bytes = live_bytes_of(block->size_bytes);
    block->phase = VW__SCRIPT_BLOCK_NOWHERE;
    maker->live_bytes -= bytes < maker->live_bytes ? bytes : maker->live_bytes;
    maker->free_slots[maker->free_slot_count++] = block->slot;
}

static vw_status make_free(script_maker *maker, vw__script_block *block, size_t first, size_t end)
{
    const vw__script_op op = {.kind = VW__SCRIPT_FREE,
                              .slot = block->slot,
                              .size_bytes = block->size_bytes,
                              .first_event = (uint32_t)first,
                              .end_event = (uint32_t)end};
    end_block(maker, block);
    return add_op(maker, &op);
}

/* A free that is complete. `is_alone`: no operation found it so. */
static vw_status make_completion(script_maker *maker, size_t event, bool is_alone)
{
    vw__script_block *block =
        vw__script_blocks_find(&maker->blocks, maker->trace->events[event].address);
    if (block != NULL && block->phase == VW__SCRIPT_BLOCK_LIVE)
        return make_free(maker, block, event, is_alone ? event + 1 : event);
    if (block == NULL || block->phase != VW__SCRIPT_BLOCK_PENDING) {
        drop_event(maker, event);
        return VW_OK;
    }
    const vw__script_op op = {.kind = VW__SCRIPT_COMPLETE,
                              .user = block->user,
                              .slot = block->slot,
                              .first_event = (uint32_t)event,
                              .end_event = (uint32_t)(is_alone ? event + 1 : event)};
    end_block(maker, block);
    return add_op(maker, &op);
}

static vw_status make_completions(script_maker *maker, size_t first, size_t end, bool is_alone)
{
    for (size_t i = first; i < end; i++)
        if (maker->trace->events[i].action == VW_ACTION_FREE_COMPLETED)
            VW__TRY(make_completion(maker, i, is_alone));
    return VW_OK;
}

/* ---- the beginning --------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    uint64_t left = (*(const vw__script_block *const *)a)->address;
    uint64_t right = (*(const vw__script_block *const *)b)->address;
    return left < right ? -1 : left > right;
}

static vw_status make_initial_request(script_maker *maker, vw__script_block *block)
{
    vw__script *script = maker->script;
    uint64_t size_bytes = vw__max_u64(block->size_bytes, 1);
    VW__TRY(enter_scope(maker, block->pool, 0));
    begin_block(maker, block, size_bytes, VW__SCRIPT_BEFORE_RECORDING);
    script->initial_addresses[script->initial_count++] = block->address;
    script->initial_live_bytes = maker->live_bytes;
    return add_op(maker, &(vw__script_op){.kind = VW__SCRIPT_ALLOC,
                                          .size_bytes = size_bytes,
                                          .slot = block->slot,
                                          .stream = block->stream,
                                          .pool = block->pool,
                                          .first_event = VW__SCRIPT_BEFORE_RECORDING,
                                          .end_event = VW__SCRIPT_BEFORE_RECORDING});
}

static vw_status make_initial_requests(script_maker *maker)
{
    vw__script_blocks *blocks = &maker->blocks;
    size_t count = 0;
    for (size_t i = 0; i < blocks->count; i++)
        count += blocks->blocks[i].is_initial;
    vw__script_block **initial = vw__host_alloc(count * sizeof(vw__script_block *));
    maker->script->initial_addresses = vw__host_alloc(count * sizeof(uint64_t));
    if (initial == NULL || maker->script->initial_addresses == NULL) {
        vw__host_free(initial);
        return vw__fail_host_memory(count * sizeof *initial, "the first blocks");
    }
    count = 0;
    for (size_t i = 0; i < blocks->count; i++)
        if (blocks->blocks[i].is_initial)
            initial[count++] = &blocks->blocks[i];
    qsort(initial, count, sizeof *initial, by_address);
    vw_status status = VW_OK;
    for (size_t i = 0; status == VW_OK && i < count; i++)
        status = make_initial_request(maker, initial[i]);
    vw__host_free(initial);
    return status;
}

/* ---- operations of a trace ------------------------------------------------------------------- */

static vw_status cut_free(script_maker *maker, size_t begin, size_t *end)
{
    const vw__model_trace *trace = maker->trace;
    const vw__model_event *event = &trace->events[begin];
    vw__script_block *block = vw__script_blocks_find(&maker->blocks, event->address);
    *end = begin + 1;
    if (block == NULL || block->phase != VW__SCRIPT_BLOCK_LIVE) {
        drop_event(maker, begin);
        return VW_OK;
    }
    if (*end < trace->event_count && !vw__script_is_flipped(maker->guide, begin)) {
        const vw__model_event *after = &trace->events[*end];
        if (after->action == VW_ACTION_FREE_COMPLETED && after->address == event->address &&
            after->size_bytes == event->size_bytes && after->stream == event->stream)
            return make_free(maker, block, begin, ++*end);
    }
    if (maker->script->lacks_free_completed)
        return make_free(maker, block, begin, *end);
    block->phase = VW__SCRIPT_BLOCK_PENDING;
    block->user = (uint32_t)maker->script->user_count++;
    return add_op(maker, &(vw__script_op){.kind = VW__SCRIPT_FREE_LATER,
                                          .slot = block->slot,
                                          .user = block->user,
                                          .size_bytes = block->size_bytes,
                                          .first_event = (uint32_t)begin,
                                          .end_event = (uint32_t)*end});
}

/* A trim empties a private pool only after its last release: one that loses memory by this trim was
 * released before. Stores in `*alone` the private pool that all the memory belonged to, or the
 * default. */
static vw_status release_pools(script_maker *maker, size_t begin, size_t end, uint16_t *alone)
{
    bool is_first = true;
    *alone = VW__MODEL_DEFAULT_POOL;
    for (size_t i = begin; maker->pool_of_event != NULL && i < end; i++) {
        uint16_t pool = maker->pool_of_event[i];
        if (!vw__script_is_release(maker->trace->events[i].action))
            continue;
        *alone = is_first || *alone == pool ? pool : VW__MODEL_DEFAULT_POOL;
        is_first = false;
        if (pool == VW__MODEL_DEFAULT_POOL || maker->is_released[pool])
            continue;
        maker->is_released[pool] = true;
        VW__TRY(add_op(maker, &(vw__script_op){.kind = VW__SCRIPT_RELEASE,
                                               .pool = pool,
                                               .first_event = (uint32_t)begin,
                                               .end_event = (uint32_t)begin}));
    }
    return VW_OK;
}

static vw_status make_trim(script_maker *maker, size_t begin, size_t end)
{
    uint16_t alone;
    VW__TRY(enter_scope(maker, VW__MODEL_DEFAULT_POOL, begin));
    VW__TRY(release_pools(maker, begin, end, &alone));
    VW__TRY(make_completions(maker, begin, end, false));
    return add_op(maker, &(vw__script_op){.kind = VW__SCRIPT_TRIM,
                                          .pool = alone,
                                          .first_event = (uint32_t)begin,
                                          .end_event = (uint32_t)end});
}

/* An empty_cache() takes the default pool's memory first. So where that comes behind a private
 * pool's, it is another call. */
static bool begins_another_trim(const script_maker *maker, size_t begin, size_t event)
{
    const uint16_t *pools = maker->pool_of_event;
    if (pools == NULL || !vw__script_is_release(maker->trace->events[event].action) ||
        pools[event] != VW__MODEL_DEFAULT_POOL)
        return false;
    for (size_t i = event; i-- > begin;)
        if (vw__script_is_release(maker->trace->events[i].action))
            return pools[i] != VW__MODEL_DEFAULT_POOL;
    return false;
}

static vw_status make_request(script_maker *maker, size_t begin, size_t end)
{
    const vw__model_event *last = &maker->trace->events[end - 1];
    bool is_oom = last->action == VW_ACTION_OOM;
    vw__script_block *block = is_oom ? NULL : vw__script_blocks_find(&maker->blocks, last->address);
    uint16_t pool = maker->scope;
    if (maker->pool_of_event != NULL && (!is_oom || last->pool != VW__MODEL_UNKNOWN_POOL))
        pool = maker->pool_of_event[end - 1];
    VW__TRY(enter_scope(maker, pool, begin));
    VW__TRY(make_completions(maker, begin, end, false));
    vw__script_op op = {.kind = is_oom ? VW__SCRIPT_OOM : VW__SCRIPT_ALLOC,
                        .size_bytes = last->size_bytes,
                        .stream = last->stream,
                        .pool = pool,
                        .first_event = (uint32_t)begin,
                        .end_event = (uint32_t)end};
    if (!is_oom) {
        if (block == NULL || last->size_bytes == 0) { /* at address 0, or of no bytes */
            drop_event(maker, end - 1);
            return VW_OK;
        }
        begin_block(maker, block, last->size_bytes, (uint32_t)(end - 1));
        op.slot = block->slot;
    }
    return add_op(maker, &op);
}

/* Events that belong to no operation we know: the trace ended within one, or a request failed in a
 * way that leaves no event. */
static vw_status pass_over(script_maker *maker, size_t begin, size_t end)
{
    VW__TRY(make_completions(maker, begin, end, true));
    for (size_t i = begin; i < end; i++) {
        unsigned action = maker->trace->events[i].action;
        if (!vw__script_is_growth(action) && !vw__script_is_release(action))
            continue;
        if (end == maker->trace->event_count)
            maker->script->dropped_event_count++;
        else
            drop_event(maker, i);
    }
    return VW_OK;
}

/* A request, or an empty_cache(): both may begin with frees that completed. */
static vw_status cut_longer_operation(script_maker *maker, size_t begin, size_t *end)
{
    const vw__model_event *events = maker->trace->events;
    size_t count = maker->trace->event_count, i = begin;
    while (i < count &&
           (events[i].action == VW_ACTION_FREE_COMPLETED || vw__script_is_remark(events[i].action)))
        i++;
    bool is_trim = i < count && maker->is_trim[i];
    for (; i < count; i++) {
        unsigned action = events[i].action;
        if (vw__script_is_remark(action))
            continue;
        if (action == VW_ACTION_ALLOC || action == VW_ACTION_OOM) {
            if (is_trim)
                break;
            *end = i + 1;
            return make_request(maker, begin, *end);
        }
        bool is_part = is_trim ? maker->is_trim[i] && !begins_another_trim(maker, begin, i)
                               : !maker->is_trim[i] && action != VW_ACTION_FREE_REQUESTED &&
                                     action != VW_ACTION_SNAPSHOT;
        if (!is_part)
            break;
    }
    *end = i;
    return is_trim ? make_trim(maker, begin, i) : pass_over(maker, begin, i);
}

static vw_status cut_operation(script_maker *maker, size_t begin, size_t *end)
{
    const vw__model_event *event = &maker->trace->events[begin];
    *end = begin + 1;
    if (vw__script_is_remark(event->action))
        return VW_OK;
    if (event->action == VW_ACTION_FREE_REQUESTED)
        return cut_free(maker, begin, end);
    if (event->action == VW_ACTION_SNAPSHOT)
        return add_op(maker, &(vw__script_op){.kind = VW__SCRIPT_SNAPSHOT,
                                              .first_event = (uint32_t)begin,
                                              .end_event = (uint32_t)*end});
    if (event->action == VW_ACTION_FREE_COMPLETED) {
        const vw__script_block *block = vw__script_blocks_find(&maker->blocks, event->address);
        if (block == NULL || block->phase != VW__SCRIPT_BLOCK_PENDING)
            return make_completion(maker, begin, true); /* its request was not recorded */
    }
    return cut_longer_operation(maker, begin, end);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static vw_status conclude(script_maker *maker)
{
    vw__script *script = maker->script;
    maker->is_trim = vw__host_alloc_zeroed(maker->trace->event_count, sizeof *maker->is_trim);
    if (maker->is_trim == NULL)
        return vw__fail_host_memory(maker->trace->event_count, "the releases of a trace");
    VW__TRY(vw__script_find_pools(script, maker->guide, &maker->pool_of_event));
    VW__TRY(vw__script_find_start(script, &maker->blocks));
    if (maker->blocks.has_releases)
        vw__script_find_trims(script->model, maker->trace, maker->guide, maker->is_trim,
                              &script->has_guessed_releases);
    maker->free_slots = vw__host_alloc((maker->blocks.count + 1) * sizeof *maker->free_slots);
    maker->is_released = vw__host_alloc_zeroed(script->pool_count, 1);
    if (maker->free_slots == NULL || maker->is_released == NULL)
        return vw__fail_host_memory(maker->blocks.count * sizeof *maker->free_slots, "slots");
    return VW_OK;
}

static int by_key(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Sorts the requests by pool, stream and kind of size, where there may be many of these. */
static vw_status count_lanes(vw__script *script)
{
    size_t count = 0;
    script->lane_count = 2 * script->pool_count * script->model->stream_count;
    if (script->lane_count <= VW__SCRIPT_FEW_LANES)
        return VW_OK;
    script->lane_count = 0;
    uint64_t *keys = vw__host_alloc(script->op_count * sizeof *keys);
    if (keys == NULL)
        return vw__fail_host_memory(script->op_count * sizeof *keys, "the streams of a trace");
    for (size_t i = 0; i < script->op_count; i++) {
        const vw__script_op *op = &script->ops[i];
        if (op->kind == VW__SCRIPT_ALLOC || op->kind == VW__SCRIPT_OOM)
            keys[count++] = (uint64_t)op->pool << 17 | (uint64_t)op->stream << 1 |
                            (op->size_bytes > VW__TORCH_SMALL_BYTES);
    }
    if (count != 0)
        qsort(keys, count, sizeof *keys, by_key);
    for (size_t i = 0; i < count; i++)
        script->lane_count += i == 0 || keys[i] != keys[i - 1];
    vw__host_free(keys);
    return VW_OK;
}

static vw_status make(script_maker *maker)
{
    VW__TRY(conclude(maker));
    VW__TRY(make_initial_requests(maker));
    for (size_t i = 0; i < maker->trace->event_count;)
        VW__TRY(cut_operation(maker, i, &i));
    return count_lanes(maker->script);
}

vw_status vw__script_make_guided(const vw__model *model, const vw__model_trace *trace,
                                 const vw__script_guide *guide, vw__script *out)
{
    vw__script script = {.model = model,
                         .trace = trace,
                         .peak_event = VW__SCRIPT_BEFORE_RECORDING,
                         .first_dropped_event = VW__SCRIPT_BEFORE_RECORDING};
    if (trace->event_count >= VW__SCRIPT_BEFORE_RECORDING - 1)
        return vw__fail(VW_ERR_UNSUPPORTED, "a trace of %zu events: at most %u are supported",
                        trace->event_count, VW__SCRIPT_BEFORE_RECORDING - 2);
    script_maker maker = {.trace = trace, .script = &script, .guide = guide};
    vw__address_map_init_for_file(&maker.blocks.map);
    vw_status status = make(&maker);
    vw__host_free(maker.pool_of_event);
    vw__script_blocks_deinit(&maker.blocks);
    vw__host_free(maker.is_trim);
    vw__host_free(maker.free_slots);
    vw__host_free(maker.is_released);
    if (status == VW_OK)
        *out = script;
    else
        vw__script_deinit(&script);
    return status;
}

vw_status vw__script_make(const vw__model *model, const vw__model_trace *trace, vw__script *out)
{
    static const vw__script_guide nothing;
    return vw__script_make_guided(model, trace, &nothing, out);
}

void vw__script_deinit(vw__script *script)
{
    vw__host_free(script->ops);
    vw__host_free(script->pools);
    vw__host_free(script->initial_addresses);
    *script = (vw__script){.ops = NULL};
}
