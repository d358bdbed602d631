/* segments.c - segments in an engine's books. */
#include "engine/segments.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "engine/private_pools.h"
#include "engine/torch/torch_rounding.h" /* hr__torch_limit_bytes */

/* ---- their records --------------------------------------------------------------------------- */

static bool segment_before(const hr__tree_node *left, const hr__tree_node *right)
{
    return ((const hr__segment *)(const void *)left)->address <
           ((const hr__segment *)(const void *)right)->address;
}

hr__segment *hr__engine_add_segment(hr__engine *engine, hr__lane *lane, uint64_t address,
                                    uint64_t size_bytes, uint8_t nature, uint32_t tie_break)
{
    if (!hr__block_source_reserve(&engine->records, HR__ENGINE_SPARE_RECORDS))
        return NULL;
    hr__segment *segment = hr__host_alloc_zeroed(1, sizeof *segment);
    if (segment == NULL)
        return NULL;
    segment->address = address;
    segment->size_bytes = size_bytes;
    segment->lane = lane;
    segment->tie_break = tie_break;
    segment->nature = (uint8_t)(lane->shelf->kind | nature);
    segment->first = hr__block_make(&engine->records, segment, address, size_bytes, tie_break);
    hr__tree_insert(&engine->segments, &segment->node, segment_before);
    if (lane->shelf->private_pool != NULL)
        lane->shelf->private_pool->segment_count++;
    return segment;
}

void hr__engine_drop_segment(hr__engine *engine, hr__segment *segment)
{
    hr__tree_remove(&engine->segments, &segment->node);
    hr__block_give_back(&engine->records, segment->first);
    if (segment->lane->shelf->private_pool != NULL)
        segment->lane->shelf->private_pool->segment_count--;
    hr__host_free(segment);
}

hr_status hr__engine_see_to_records(hr__engine *engine, size_t count)
{
    return hr__block_source_reserve(&engine->records, count)
               ? HR_OK
               : hr__fail_host_memory(count * sizeof(hr__block), "block records");
}

/* ---- telling and counting -------------------------------------------------------------------- */

void hr__engine_notice(hr__engine *engine, hr_action action, const hr__lane *lane, uint64_t address,
                       uint64_t size_bytes, uint64_t tag)
{
    const hr__engine_owner *owner = &engine->owner;
    if (!*owner->has_listener)
        return;
    const hr_memory_event event = {
        .action = action,
        .address = address,
        .size_bytes = size_bytes,
        .stream = lane->stream,
        .private_id = lane->shelf->private_id,
        .tag = tag,
    };
    owner->notice(owner->context, &event);
}

uint64_t hr__engine_event_tag(const hr__engine *engine, const hr__block *block)
{
    return engine->serving != NULL ? engine->serving->tag : block->segment_tag;
}

void hr__engine_count_held(hr__engine *engine, const hr__shelf *shelf, int64_t bytes)
{
    engine->held_bytes += (uint64_t)bytes; /* wraps to a subtraction for a negative number */
    hr__count_by(&engine->owner.counters->reserved_bytes, shelf->kind, bytes);
    if (shelf->private_pool != NULL)
        hr__count_by(&shelf->private_pool->stat->reserved_bytes, shelf->kind, bytes);
}

hr_status hr__engine_set_fraction(hr__engine *engine, double fraction)
{
    if (!(fraction >= 0.0 && fraction <= 1.0))
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "Invalid fraction value: %g. Allowed range: 0~1",
                        fraction);
    engine->limit_bytes = hr__torch_limit_bytes(engine->wording, fraction,
                                                engine->owner.device->properties.total_bytes);
    engine->fraction = fraction;
    return HR_OK;
}
