/* script_unsplit.c - private pools that may hand out whole segments only.
 *
 * A MemPool made with no_split takes a segment for each block and never cuts one. Nothing in a
 * recording says so, but it leaves a mark: every block of the pool lies at the start of a plain
 * segment. A pool that was merely never asked for two small blocks leaves the same; so this says
 * "may", and who uses it tries both. */
#include "analysis/script_parts.h"

#include "analysis/regions.h"
#include "base/error.h"

static vw_status follow_events(vw__regions *regions, const vw__model_event *events,
                               const vw__script_op *op)
{
    for (size_t i = op->first_event; i < op->end_event; i++) {
        const vw__region *region;
        vw__region was;
        bool is_new, is_gone;
        if (vw__is_growth(events[i].action))
            VW__TRY(vw__regions_take(regions, events[i].address, events[i].size_bytes,
                                     events[i].action == VW_ACTION_SEGMENT_MAP, &region, &is_new));
        else if (vw__is_release(events[i].action))
            (void)vw__regions_give_back(regions, events[i].address, events[i].size_bytes, &was,
                                        &is_gone);
    }
    return VW_OK;
}

static bool is_at_the_start(const vw__regions *regions, uint64_t address)
{
    const vw__region *region = vw__regions_find(regions, address);
    return region != NULL && !region->is_expandable && region->address == address;
}

vw_status vw__script_may_be_unsplit(const vw__script *script, uint16_t pool, bool *out)
{
    const vw__model_event *events = script->trace->events;
    vw__regions regions;
    vw_status status = VW_OK;
    *out = pool != VW__DEFAULT_POOL;
    vw__regions_init(&regions);
    for (size_t i = 0; status == VW_OK && *out && i < script->op_count; i++) {
        const vw__script_op *op = &script->ops[i];
        status = follow_events(&regions, events, op);
        if (status == VW_OK && op->kind == VW__SCRIPT_ALLOC && op->pool == pool)
            *out = op->first_event != VW__BEFORE_RECORDING &&
                   is_at_the_start(&regions, events[op->end_event - 1].address);
    }
    vw__regions_deinit(&regions);
    return status;
}
