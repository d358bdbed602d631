/* paged_spill_list.c - what leaving and coming back share: candidates in order, and the end of a
 * move. */
#include "engine/paged/paged_spill_list.h"

#include <stdlib.h> /* qsort */

#include "base/checked_math.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/paged/paged_books.h"
#include "engine/paged/paged_moment.h"

/* ---- candidates ------------------------------------------------------------------------------ */

vw_status vw__paged_list(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                         vw__paged_spill_list *found)
{
    const vw__paged_spill_clock *clock = &engine->spill->clock;
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    if (found->count == found->capacity) {
        size_t capacity = found->capacity != 0 ? 2 * found->capacity : 64;
        vw__paged_spill_candidate *grown = vw__host_realloc(found->items, capacity * sizeof *grown);
        if (grown == NULL)
            return vw__fail_host_memory(capacity * sizeof *grown, "memory that could leave");
        found->items = grown;
        found->capacity = capacity;
    }
    vw__paged_spill_candidate *made = &found->items[found->count++];
    *made = (vw__paged_spill_candidate){
        .address = begin,
        .size_bytes = handle->size_bytes,
        .is_small = handle->home->segment->lane->shelf->kind == VW__ENGINE_SMALL,
        .what = handle,
    };
    for (const vw__block *block = vw__paged_walk_to(first, begin);
         block != NULL && block->address < end; block = block->next) {
        uint64_t from = vw__max_u64(block->address, begin);
        uint64_t to = vw__min_u64(block->address + block->size_bytes, end);
        if (vw__paged_is_in_use(block))
            vw__paged_spill_add(made, clock, (vw_advice)block->advice, block->age_base, to - from);
    }
    return VW_OK;
}

void vw__paged_spill_sort(vw__paged_spill_list *found)
{
    if (found->count != 0)
        qsort(found->items, found->count, sizeof *found->items, vw__paged_spill_compare);
}

/* ---- the end of a move ----------------------------------------------------------------------- */

/* Without the lock. */
static void tell(vw__paged_engine *engine, const vw_spill_report *report)
{
    const vw__engine_owner *owner = &engine->base.owner;
    const vw_spill_listener listener = engine->spill->listener;
    if (listener.moved == NULL)
        return;
    const vw__engine_request *serving = vw__paged_stand_aside(engine);
    vw__engine_cause cause = owner->pause_lock(owner->context);
    listener.moved(listener.context, report);
    owner->resume_lock(owner->context, cause);
    vw__paged_go_on(engine, serving);
}

vw_status vw__paged_finish_move(vw__paged_engine *engine, vw__paged_spill_move *move, bool was_safe,
                                vw_status status)
{
    if (was_safe)
        vw__paged_end_moment(engine);
    else
        engine->stats.refused_spills++;
    move->report.wait_ns = vw__clock_monotonic_ns() - move->start_ns;
    move->report.spilled_bytes = engine->stats.spilled_bytes;
    engine->stats.spill_wait_ns += move->report.wait_ns;
    if (move->report.moved_handles != 0)
        tell(engine, &move->report);
    return engine->failure != NULL ? vw__fail(VW_ERR_DEVICE, "%s", engine->failure) : status;
}
