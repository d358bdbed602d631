/* paged_park_tape.c - the whole pool on a tape: copied out in large pieces, and unmapped behind the
 * copy.
 *
 * Three things take time: the copies (20 ms a GiB over the bus), the calls that unmap and release
 * (1 ms a GiB with handles of 32 MiB, 17 with handles of 2 MiB), and those that make and map (2 to
 * 27 ms). Mapping waits for neither copies nor kernels, so the handles go in *batches*: while one
 * is copied the one before is unmapped, and on the way back the next is mapped.
 *
 * It copies *spans*: live blocks that lie next to each other, however many handles that is, and the
 * gaps between them where those are shorter than a call costs. */
#include "engine/paged/paged_park.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"
#include "engine/paged/paged_handles.h"

#define BATCH_BYTES (UINT64_C(256) << 20)
#define GAP_BYTES (UINT64_C(256) << 10) /* takes as long to copy as a call does */

/* ---- spans ----------------------------------------------------------------------------------- */

static bool is_kept(const vw__block *block)
{
    const vw__private_pool *pool = block->segment->lane->shelf->private_pool;
    if (pool != NULL && pool->is_dropped)
        return false;
    bool is_graphs = pool != NULL && vw__private_needs_free_memory(pool);
    /* SHADOW: bytes that a guest uses. */
    return vw__paged_is_in_use(block) || block->state == VW__BLOCK_SHADOW ||
           (block->state == VW__BLOCK_FREE && is_graphs);
}

static vw_status add_span(vw__paged_parking *parking, uint64_t from, uint64_t to, uint32_t batch)
{
    if (from == to)
        return VW_OK;
    if (parking->span_count == parking->span_capacity) {
        size_t capacity = parking->span_capacity != 0 ? 2 * parking->span_capacity : 256;
        vw__paged_span *grown = vw__host_realloc(parking->spans, capacity * sizeof *grown);
        if (grown == NULL)
            return vw__fail_host_memory(capacity * sizeof *grown, "data to park");
        parking->spans = grown;
        parking->span_capacity = capacity;
    }
    parking->spans[parking->span_count++] =
        (vw__paged_span){from, to - from, parking->tape_bytes, batch};
    parking->tape_bytes += to - from;
    return VW_OK;
}

static uint64_t begin_of(const vw__paged_parking *parking, size_t item)
{
    return parking->items[item].handle->home->address;
}

static uint64_t end_of(const vw__paged_parking *parking, size_t item)
{
    return begin_of(parking, item) + parking->items[item].handle->size_bytes;
}

/* The item after the last that lies without a gap behind item `first`, in its batch. */
static size_t end_of_run(const vw__paged_parking *parking, size_t first,
                         bool (*is_there)(const vw__paged_parking *parking, size_t item))
{
    size_t next = first + 1;
    while (next < parking->count && parking->items[next].batch == parking->items[first].batch &&
           is_there(parking, next) && end_of(parking, next - 1) == begin_of(parking, next) &&
           parking->items[next - 1].handle->home->segment ==
               parking->items[next].handle->home->segment)
        next++;
    return next;
}

static bool is_any(const vw__paged_parking *parking, size_t item)
{
    (void)parking, (void)item;
    return true;
}

static vw_status find_spans_of_run(vw__paged_parking *parking, size_t first, size_t end,
                                   vw__block **cursor)
{
    uint64_t begin = begin_of(parking, first), run_end = end_of(parking, end - 1);
    uint64_t from = begin, to = begin;
    uint32_t batch = parking->items[first].batch;
    const vw__segment *segment = parking->items[first].handle->home->segment;
    for (vw__block *block = vw__paged_block_from(cursor, segment, begin);
         block != NULL && block->address < run_end; block = block->next) {
        if (!is_kept(block))
            continue;
        uint64_t low = vw__max_u64(block->address, begin);
        uint64_t high = vw__min_u64(block->address + block->size_bytes, run_end);
        if (from == to || low - to > GAP_BYTES) {
            VW__TRY(add_span(parking, from, to, batch));
            from = low;
        }
        to = high;
        *cursor = block;
    }
    return add_span(parking, from, to, batch);
}

static vw_status find_spans(vw__paged_parking *parking)
{
    uint64_t batch_bytes = 0;
    uint32_t batch = 0;
    vw__block *cursor = NULL;
    for (size_t i = 0; i < parking->count; i++) {
        parking->items[i].batch = batch;
        batch_bytes += parking->items[i].handle->size_bytes;
        if (batch_bytes >= BATCH_BYTES) {
            batch++;
            batch_bytes = 0;
        }
    }
    for (size_t first = 0, end; first < parking->count; first = end) {
        end = end_of_run(parking, first, is_any);
        VW__TRY(find_spans_of_run(parking, first, end, &cursor));
    }
    return VW_OK;
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* A guest would not go: what was unmapped before it is mapped again. */
static void map_again(vw__paged_engine *engine, const vw__paged_handle *handle,
                      const vw__paged_place *stuck)
{
    vw__paged_map_back(engine, handle);
    for (const vw__paged_place *guest = handle->guests; guest != stuck; guest = guest->next)
        if (vw__paged_map(engine, handle, guest->address) != VW_OK)
            vw__paged_turn_failed(engine, "live memory at %#" PRIx64 " could not be mapped again",
                                  guest->address);
}

static vw_status unmap_everywhere(vw__paged_engine *engine, const vw__paged_handle *handle)
{
    const vw__engine_owner *owner = &engine->base.owner;
    VW__TRY(vw__driver_unmap(owner, handle->home->address, handle->size_bytes));
    for (const vw__paged_place *guest = handle->guests; guest != NULL; guest = guest->next) {
        vw_status status = vw__driver_unmap(owner, guest->address, handle->size_bytes);
        if (status != VW_OK) {
            map_again(engine, handle, guest);
            return status;
        }
    }
    return VW_OK;
}

static vw_status let_go(vw__paged_engine *engine, vw__paged_parking *parking, size_t first,
                        size_t end, vw_park_report *report)
{
    for (size_t i = first; i < end; i++) {
        vw__paged_handle *handle = parking->items[i].handle;
        vw_handle memory = handle->device_handle;
        VW__TRY(unmap_everywhere(engine, handle));
        vw__paged_count_parked(engine, parking, handle, report);
        handle->device_handle = 0;
        VW__TRY(vw__driver_release(&engine->base.owner, memory));
    }
    return VW_OK;
}

/* The item, or the span, after the last of a batch. */
static size_t end_of_batch(const vw__paged_parking *parking, size_t first)
{
    size_t end = first;
    while (end < parking->count && parking->items[end].batch == parking->items[first].batch)
        end++;
    return end;
}

static vw_status put_spans(vw__paged_parking *parking, size_t *span, uint32_t batch,
                           vw_park_report *report)
{
    const vw__park_store *store = &parking->store;
    for (; *span < parking->span_count && parking->spans[*span].batch == batch; (*span)++) {
        const vw__paged_span *each = &parking->spans[*span];
        VW__TRY(store->put(store->context, each->offset, each->address, each->size_bytes));
        report->copied_bytes += each->size_bytes;
    }
    return VW_OK;
}

vw_status vw__paged_park_tape(vw__paged_engine *engine, vw__paged_parking *parking,
                              vw_park_report *report)
{
    const vw__park_store *store = &parking->store;
    size_t before = 0, first = 0, span = 0;
    unsigned slot = 0;
    VW__TRY(find_spans(parking));
    VW__TRY(store->begin(store->context, parking->tape_bytes));
    while (first < parking->count) {
        VW__TRY(put_spans(parking, &span, parking->items[first].batch, report));
        VW__TRY(store->mark(store->context, slot));
        if (first != 0) {
            VW__TRY(store->wait(store->context, slot ^ 1));
            VW__TRY(let_go(engine, parking, before, first, report));
        }
        before = first;
        first = end_of_batch(parking, first);
        slot ^= 1;
    }
    if (parking->count == 0)
        return VW_OK;
    VW__TRY(store->wait(store->context, slot ^ 1));
    return let_go(engine, parking, before, parking->count, report);
}

/* ---- coming back ----------------------------------------------------------------------------- */

static vw_status map_item(vw__paged_engine *engine, vw__paged_parked *item)
{
    vw__paged_handle *handle = item->handle;
    const vw__paged_handle with = {.device_handle = item->memory, .size_bytes = handle->size_bytes};
    VW__TRY(vw__paged_map(engine, &with, handle->home->address));
    for (const vw__paged_place *guest = handle->guests; guest != NULL; guest = guest->next) {
        vw_status status = vw__paged_map(engine, &with, guest->address);
        if (status == VW_OK)
            continue;
        bool is_undone = vw__driver_unmap(&engine->base.owner, handle->home->address,
                                          handle->size_bytes) == VW_OK;
        for (const vw__paged_place *mapped = handle->guests; mapped != guest; mapped = mapped->next)
            is_undone &=
                vw__driver_unmap(&engine->base.owner, mapped->address, handle->size_bytes) == VW_OK;
        if (!is_undone)
            vw__paged_turn_failed(engine, "memory at %#" PRIx64 " could be mapped only in part",
                                  handle->home->address);
        return status;
    }
    item->is_mapped = true;
    return VW_OK;
}

static bool is_mapped(const vw__paged_parking *parking, size_t item)
{
    return parking->items[item].is_mapped;
}

/* What the spans from `span` on have of a run of mapped handles. */
static vw_status get_spans_of_run(vw__paged_parking *parking, size_t first, size_t end, size_t span,
                                  vw_park_report *report)
{
    const vw__park_store *store = &parking->store;
    uint64_t begin = begin_of(parking, first), run_end = end_of(parking, end - 1);
    for (; span < parking->span_count && parking->spans[span].batch == parking->items[first].batch;
         span++) {
        const vw__paged_span *each = &parking->spans[span];
        uint64_t low = vw__max_u64(each->address, begin);
        uint64_t high = vw__min_u64(each->address + each->size_bytes, run_end);
        if (low >= high)
            continue;
        VW__TRY(store->get(store->context, each->offset + (low - each->address), low, high - low));
        report->copied_bytes += high - low;
    }
    return VW_OK;
}

static vw_status map_and_get(vw__paged_engine *engine, vw__paged_parking *parking,
                             vw_park_report *report)
{
    for (size_t first = 0, end, span = 0; first < parking->count; first = end) {
        end = end_of_batch(parking, first);
        for (size_t i = first; i < end; i++)
            if (vw__paged_is_parked_in(parking, i))
                VW__TRY(map_item(engine, &parking->items[i]));
        while (span < parking->span_count &&
               parking->spans[span].batch < parking->items[first].batch)
            span++;
        for (size_t run = first, run_end; run < end; run = run_end) {
            run_end = run + 1;
            if (!is_mapped(parking, run))
                continue;
            run_end = end_of_run(parking, run, is_mapped);
            VW__TRY(get_spans_of_run(parking, run, run_end, span, report));
        }
    }
    return VW_OK;
}

/* The memory that was mapped goes again; the data is on the tape still. */
static void unmap_again(vw__paged_engine *engine, vw__paged_parking *parking)
{
    for (size_t i = 0; i < parking->count; i++) {
        const vw__paged_handle *handle = parking->items[i].handle;
        if (!parking->items[i].is_mapped)
            continue;
        parking->items[i].is_mapped = false;
        bool is_undone = vw__driver_unmap(&engine->base.owner, handle->home->address,
                                          handle->size_bytes) == VW_OK;
        for (const vw__paged_place *guest = handle->guests; guest != NULL; guest = guest->next)
            is_undone &=
                vw__driver_unmap(&engine->base.owner, guest->address, handle->size_bytes) == VW_OK;
        if (!is_undone)
            vw__paged_turn_failed(engine,
                                  "memory at %#" PRIx64 " could be neither woken nor "
                                  "unmapped again",
                                  handle->home->address);
    }
}

vw_status vw__paged_wake_tape(vw__paged_engine *engine, vw__paged_parking *parking,
                              vw_park_report *report)
{
    const vw__park_store *store = &parking->store;
    VW__TRY(vw__paged_make_parked(engine, parking));
    vw_status status = map_and_get(engine, parking, report);
    vw_status marking = store->mark(store->context, 0);
    vw_status waiting = marking == VW_OK ? store->wait(store->context, 0) : marking;
    status = status != VW_OK ? status : waiting;
    if (status != VW_OK) {
        (void)vw__paged_device(engine)->synchronize(vw__paged_context(engine));
        unmap_again(engine, parking);
        vw__paged_unmake_parked(engine, parking);
        return status;
    }
    for (size_t i = 0; i < parking->count; i++) {
        vw__paged_parked *item = &parking->items[i];
        if (!item->is_mapped)
            continue;
        item->handle->device_handle = item->memory;
        item->memory = 0;
        item->is_mapped = false;
        vw__paged_count_woken(engine, item->handle, report);
    }
    return VW_OK;
}
