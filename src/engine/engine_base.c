/* engine_base.c - an engine's beginning and end, and its books of segments. */
#include "engine/engine_base.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "engine/private_pools.h"

void vw__engine_init(vw__engine *engine, const vw__engine_table *table,
                     const vw__engine_owner *owner)
{
    engine->table = table;
    engine->owner = *owner;
    engine->limit_bytes = UINT64_MAX;
    engine->max_split_bytes = UINT64_MAX;
    engine->fraction = 1.0;
    vw__block_source_init(&engine->records);
    engine->shelves[VW__ENGINE_SMALL].kind = VW__ENGINE_SMALL;
    engine->shelves[VW__ENGINE_LARGE].kind = VW__ENGINE_LARGE;
}

void vw__engine_deinit(vw__engine *engine)
{
    vw__private_deinit_all(engine);
    vw__shelf_deinit(&engine->shelves[VW__ENGINE_SMALL]);
    vw__shelf_deinit(&engine->shelves[VW__ENGINE_LARGE]);
    vw__block_source_deinit(&engine->records);
}

/* ---- segments --------------------------------------------------------------------------- */

static bool segment_before(const vw__tree_node *left, const vw__tree_node *right)
{
    return ((const vw__segment *)(const void *)left)->address <
           ((const vw__segment *)(const void *)right)->address;
}

vw__segment *vw__engine_make_segment(vw__engine *engine)
{
    if (!vw__block_source_reserve(&engine->records, VW__ENGINE_SPARE_RECORDS))
        return NULL;
    vw__segment *segment = vw__host_alloc_zeroed(1, sizeof *segment);
    if (segment != NULL)
        segment->first = vw__block_make(&engine->records, segment, 0, 0, 0);
    return segment;
}

void vw__engine_unmake_segment(vw__engine *engine, vw__segment *segment)
{
    vw__block_give_back(&engine->records, segment->first);
    vw__host_free(segment);
}

vw__segment *vw__engine_add_segment(vw__engine *engine, vw__lane *lane, uint64_t address,
                                    uint64_t size_bytes, uint8_t nature, uint32_t tie_break)
{
    vw__segment *segment = vw__engine_make_segment(engine);
    if (segment != NULL)
        vw__engine_file_segment(engine, segment, lane, address, size_bytes, nature, tie_break);
    return segment;
}

void vw__engine_file_segment(vw__engine *engine, vw__segment *segment, vw__lane *lane,
                             uint64_t address, uint64_t size_bytes, uint8_t nature,
                             uint32_t tie_break)
{
    segment->address = address;
    segment->size_bytes = size_bytes;
    segment->lane = lane;
    segment->tie_break = tie_break;
    segment->number = engine->segment_numbers++;
    segment->nature = (uint8_t)(lane->shelf->kind | nature);
    segment->first->address = address;
    segment->first->size_bytes = size_bytes;
    segment->first->tie_break = tie_break;
    segment->first->lane = lane;
    segment->first->nature = segment->nature;
    vw__tree_insert(&engine->segments, &segment->node, segment_before);
    if (lane->shelf->private_pool != NULL)
        lane->shelf->private_pool->segment_count++;
}

void vw__engine_drop_segment(vw__engine *engine, vw__segment *segment)
{
    vw__tree_remove(&engine->segments, &segment->node);
    vw__block_give_back(&engine->records, segment->first);
    if (segment->lane->shelf->private_pool != NULL)
        segment->lane->shelf->private_pool->segment_count--;
    vw__host_free(segment);
}

vw_status vw__engine_see_to_records(vw__engine *engine, size_t count)
{
    return vw__block_source_reserve(&engine->records, count)
               ? VW_OK
               : vw__fail_host_memory(count * sizeof(vw__block), "block records");
}

/* ---- telling and counting -------------------------------------------------------------------- */

void vw__engine_notice(vw__engine *engine, vw_action action, const vw__lane *lane, uint64_t address,
                       uint64_t size_bytes, uint64_t tag)
{
    const vw__engine_owner *owner = &engine->owner;
    if (!*owner->has_listener)
        return;
    const vw_memory_event event = {
        .action = action,
        .address = address,
        .size_bytes = size_bytes,
        .stream = lane->stream,
        .private_id = lane->shelf->private_id,
        .tag = tag,
    };
    owner->notice(owner->context, &event);
}

uint64_t vw__engine_event_tag(const vw__engine *engine, const vw__block *block)
{
    return engine->serving != NULL ? engine->serving->tag : block->segment_tag;
}

void vw__engine_count_held(vw__engine *engine, const vw__shelf *shelf, int64_t bytes)
{
    engine->held_bytes += (uint64_t)bytes; /* wraps to a subtraction for a negative number */
    vw__counter_by(&engine->owner.counters->reserved_bytes, shelf->kind, bytes);
    if (shelf->private_pool != NULL)
        vw__counter_by(&shelf->private_pool->stat->reserved_bytes, shelf->kind, bytes);
}
