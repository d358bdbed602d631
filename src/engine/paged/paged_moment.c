/* paged_moment.c - safe moments, and copying live data in them.
 *
 * Between its old mapping and its new one a block has no mapping, so nobody may touch it: the owner
 * is asked for a safe point, and the device is waited for. */
#include "engine/paged/paged_moment.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "engine/paged/paged_books.h"

/* ---- the moment ------------------------------------------------------------------------------ */

bool vw__paged_may_be_copied(const vw__paged_engine *engine, const vw__lane *lane)
{
    const vw__private_pool *pool = lane->shelf->private_pool;
    return (pool == NULL || !vw__private_is_in_use(pool)) &&
           !vw__engine_is_capturing(&engine->base, lane->stream);
}

static bool captures_on(const vw__paged_engine *engine, const vw__shelf *shelf)
{
    for (const vw__lane *lane = shelf->lanes; lane != NULL; lane = lane->next)
        if (vw__engine_is_capturing(&engine->base, lane->stream))
            return true;
    return false;
}

/* Waiting for the device would end every capture under way, on whichever stream it is. */
static bool is_any_stream_captured(const vw__paged_engine *engine)
{
    if (engine->base.scopes == NULL)
        return false;
    bool is_found = captures_on(engine, &engine->base.shelves[VW__ENGINE_SMALL]) ||
                    captures_on(engine, &engine->base.shelves[VW__ENGINE_LARGE]);
    for (const vw__private_pool *pool = engine->base.private_pools; pool != NULL && !is_found;
         pool = pool->next)
        is_found = captures_on(engine, &pool->shelves[VW__ENGINE_SMALL]) ||
                   captures_on(engine, &pool->shelves[VW__ENGINE_LARGE]);
    return is_found;
}

/* ---- before it is needed --------------------------------------------------------------------- */

/* Memory is short when less than an eighth is left: long before a moment is needed, since a gate
 * that comes late may have to wait until every thread has moved on
 * (docs/design/007-safe-moments.md). */

enum {
    SHORT_OF_PARTS = 8,
    LEAST_WAY_PARTS = 64, /* of what can be had, between two looks at the device */
};

void vw__paged_begin_looking_ahead(vw__paged_engine *engine)
{
    bool may_need = engine->mode != VW__PAGED_MOVES || engine->spill != NULL;
    bool is_wanted = may_need && engine->base.owner.prepare_safe_point != NULL;
    engine->look_ahead_bytes = is_wanted ? 0 : UINT64_MAX;
    engine->is_short = false;
}

/* The most the pool could hold, as others leave it now; its limit where the device does not say. */
static uint64_t reachable_bytes(const vw__paged_engine *engine)
{
    const vw_device *device = engine->base.owner.device;
    uint64_t free_bytes = 0, total_bytes = 0, on_device_bytes = vw__paged_on_device_bytes(engine);
    uint64_t most_bytes = device->properties.total_bytes;
    if (device->table->memory_info(device->context, &free_bytes, &total_bytes) == VW_OK)
        most_bytes = on_device_bytes + free_bytes;
    return vw__min_u64(most_bytes, engine->base.limit_bytes);
}

/* The device is asked on the way to that point, and again half way from there, a few times in all:
 * others may take memory meanwhile. */
static void see_if_short(vw__paged_engine *engine, uint64_t held_bytes)
{
    uint64_t most_bytes = reachable_bytes(engine);
    uint64_t short_bytes = most_bytes - most_bytes / SHORT_OF_PARTS;
    engine->is_short = held_bytes >= short_bytes;
    if (engine->is_short)
        return;
    uint64_t way_bytes = (short_bytes - held_bytes) / 2;
    bool is_near = way_bytes < most_bytes / LEAST_WAY_PARTS;
    engine->look_ahead_bytes = is_near ? short_bytes : held_bytes + way_bytes;
}

bool vw__paged_look_ahead(vw__paged_engine *engine, uint64_t size_bytes)
{
    uint64_t held_bytes = vw__paged_on_device_bytes(engine) + size_bytes;
    if (!engine->is_short && held_bytes >= engine->look_ahead_bytes)
        see_if_short(engine, held_bytes);
    if (engine->is_short)
        engine->base.owner.prepare_safe_point(engine->base.owner.context);
    return engine->is_short;
}

/* ---- entering it ----------------------------------------------------------------------------- */

const vw__engine_request *vw__paged_stand_aside(vw__paged_engine *engine)
{
    const vw__engine_request *serving = engine->base.serving;
    engine->base.serving = NULL;
    return serving;
}

void vw__paged_go_on(vw__paged_engine *engine, const vw__engine_request *serving)
{
    engine->base.serving = serving;
    engine->call++;
}

static bool enter_safe_point(vw__paged_engine *engine)
{
    const vw__engine_owner *owner = &engine->base.owner;
    const vw__engine_request *serving = vw__paged_stand_aside(engine);
    bool is_safe = owner->enter_safe_point(owner->context);
    vw__paged_go_on(engine, serving);
    return is_safe;
}

bool vw__paged_begin_moment(vw__paged_engine *engine)
{
    if (is_any_stream_captured(engine) || !enter_safe_point(engine))
        return false;
    if (!is_any_stream_captured(engine))
        return true;
    vw__paged_end_moment(engine); /* a capture began while the owner was asked */
    return false;
}

void vw__paged_end_moment(vw__paged_engine *engine)
{
    engine->base.owner.leave_safe_point(engine->base.owner.context);
}

/* ---- what may be copied ---------------------------------------------------------------------- */

/* The homes of one arena, by rising address. */
static vw_status walk_arena(vw__paged_engine *engine, const vw__segment *segment,
                            vw__paged_home_visitor visit, void *context)
{
    if (!vw__paged_may_be_copied(engine, segment->lane))
        return VW_OK;
    uint64_t done_to = segment->address;
    for (vw__block *block = segment->first; block != NULL; block = block->next) {
        uint64_t end = block->address + block->size_bytes;
        while (vw__paged_is_in_use(block) && done_to < end) {
            uint64_t address = vw__max_u64(done_to, block->address);
            vw__paged_place *place = vw__paged_place_at(engine, segment, address);
            vw__paged_handle *handle = place->handle;
            done_to = place->address + handle->size_bytes;
            if (!place->is_guest && handle->pin_count == 0 && handle->on_host == NULL)
                VW__TRY(visit(context, engine, handle, vw__paged_walk_to(block, place->address)));
        }
    }
    return VW_OK;
}

static vw_status walk_arenas(vw__paged_engine *engine, vw__tree_node *node,
                             vw__paged_home_visitor visit, void *context)
{
    for (; node != NULL; node = node->right) {
        VW__TRY(walk_arenas(engine, node->left, visit, context));
        VW__TRY(walk_arena(engine, vw__segment_of_node(node), visit, context));
    }
    return VW_OK;
}

vw_status vw__paged_each_home_in_use(vw__paged_engine *engine, vw__paged_home_visitor visit,
                                     void *context)
{
    return walk_arenas(engine, engine->base.segments, visit, context);
}

/* Between the handle's home and the same offsets from `other` on: there, or back. */
static vw_status queue_copies(vw__paged_engine *engine, const vw__paged_handle *handle,
                              vw__block *first, uint64_t other, bool is_back, vw_stream stream)
{
    const vw_device_table *table = vw__paged_device(engine);
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    for (const vw__block *block = vw__paged_walk_to(first, begin);
         block != NULL && block->address < end; block = block->next) {
        uint64_t from = vw__max_u64(block->address, begin);
        uint64_t to = vw__min_u64(block->address + block->size_bytes, end);
        if (!vw__paged_is_in_use(block))
            continue;
        uint64_t there = other + (from - begin);
        VW__TRY(table->copy(vw__paged_context(engine), is_back ? from : there,
                            is_back ? there : from, to - from, stream));
        engine->stats.copied_bytes += to - from;
    }
    return VW_OK;
}

/* Copies that are queued are waited for also where one could not be: what they write to goes. */
static vw_status copy_and_wait(vw__paged_engine *engine, const vw__paged_handle *handle,
                               vw__block *first, uint64_t other, bool is_back, vw_stream stream)
{
    vw_status status = queue_copies(engine, handle, first, other, is_back, stream);
    vw_status waiting =
        vw__paged_device(engine)->stream_synchronize(vw__paged_context(engine), stream);
    return status != VW_OK ? status : waiting;
}

vw_status vw__paged_copy_live(vw__paged_engine *engine, const vw__paged_handle *handle,
                              vw__block *first, uint64_t to_address, vw_stream stream)
{
    return copy_and_wait(engine, handle, first, to_address, false, stream);
}

vw_status vw__paged_copy_back(vw__paged_engine *engine, const vw__paged_handle *handle,
                              vw__block *first, uint64_t from_address, vw_stream stream)
{
    return copy_and_wait(engine, handle, first, from_address, true, stream);
}
