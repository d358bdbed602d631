/* script_unsplit.c - private pools that may hand out whole segments only.
 *
 * A MemPool made with no_split takes a segment for each block and never cuts one. Nothing in a
 * recording says so, but it leaves a mark: every block of the pool lies at the start of a plain
 * segment. A pool that was merely never asked for two small blocks leaves the same; so this says
 * "may", and who uses it tries both. */
#include "analysis/script_parts.h"

#include "analysis/regions.h"
#include "base/error.h"

static hr_status follow_events(hr__regions *regions, const hr__model_event *events,
                               const hr__script_op *op)
{
    for (size_t i = op->first_event; i < op->end_event; i++) {
        const hr__region *region;
        hr__region was;
        bool is_new, is_gone;
        if (hr__is_growth(events[i].action))
            HR__TRY(hr__regions_take(regions, events[i].address, events[i].size_bytes,
                                     events[i].action == HR_ACTION_SEGMENT_MAP, &region, &is_new));
        else if (hr__is_release(events[i].action))
            (void)hr__regions_give_back(regions, events[i].address, events[i].size_bytes, &was,
                                        &is_gone);
    }
    return HR_OK;
}

static bool is_at_the_start(const hr__regions *regions, uint64_t address)
{
    const hr__region *region = hr__regions_find(regions, address);
    return region != NULL && !region->is_expandable && region->address == address;
}

hr_status hr__script_may_be_unsplit(const hr__script *script, uint16_t pool, bool *out)
{
    const hr__model_event *events = script->trace->events;
    hr__regions regions;
    hr_status status = HR_OK;
    *out = pool != HR__DEFAULT_POOL;
    hr__regions_init(&regions);
    for (size_t i = 0; status == HR_OK && *out && i < script->op_count; i++) {
        const hr__script_op *op = &script->ops[i];
        status = follow_events(&regions, events, op);
        if (status == HR_OK && op->kind == HR__SCRIPT_ALLOC && op->pool == pool)
            *out = op->first_event != HR__BEFORE_RECORDING &&
                   is_at_the_start(&regions, events[op->end_event - 1].address);
    }
    hr__regions_deinit(&regions);
    return status;
}
