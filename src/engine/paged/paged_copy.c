/* paged_copy.c - when live data is copied to other pages, and which.
 *
 * Between the old mapping of a block and the new one there is none, so that nobody may touch it:
 * the owner is asked for a safe point, and the device is waited for. Without a safe point nothing
 * is copied, which is counted.
 *
 * In the order of what it costs: handles that are mostly free are evacuated (paged_evacuate.c),
 * those first that give most for the least data; then pages that are partly used share one
 * (paged_share.c); then, where the alternative is running out of memory, handles are parted so that
 * more pages can share.
 *
 * A pool that may copy holds two units less than its limit, so that the first evacuation can begin.
 */
#include "engine/paged/paged_engine.h"

#include <stdlib.h> /* qsort */

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

enum {
    RESERVED_UNITS = 2,
    MOST_PARTED = 16, /* handles parted at a time, for pages that can share */
};

#define CHANGE_BYTES (UINT64_C(8) << 20) /* to begin copying with */

uint64_t hr__paged_most_bytes(const hr__paged_engine *engine)
{
    uint64_t limit_bytes = hr__paged_limit_bytes(engine);
    uint64_t reserved_bytes = RESERVED_UNITS * engine->unit_bytes;
    if (engine->mode == HR__PAGED_MOVES || limit_bytes == UINT64_MAX ||
        limit_bytes < reserved_bytes)
        return limit_bytes;
    return limit_bytes - reserved_bytes;
}

/* ---- what both ways of copying do ------------------------------------------------------------ */

bool hr__paged_may_be_copied(const hr__paged_engine *engine, const hr__lane *lane)
{
    const hr__private_pool *pool = lane->shelf->private_pool;
    return (pool == NULL || pool->use_count == 0) &&
           !hr__engine_is_capturing(&engine->base, lane->stream);
}

static bool captures_on(const hr__paged_engine *engine, const hr__shelf *shelf)
{
    for (const hr__lane *lane = shelf->lanes; lane != NULL; lane = lane->next)
        if (hr__engine_is_capturing(&engine->base, lane->stream))
            return true;
    return false;
}

/* Waiting for the device would end every capture under way, on whichever stream it is. */
static bool is_any_stream_captured(const hr__paged_engine *engine)
{
    if (engine->base.scopes == NULL)
        return false;
    bool is_found = captures_on(engine, &engine->base.shelves[HR__SMALL]) ||
                    captures_on(engine, &engine->base.shelves[HR__LARGE]);
    for (const hr__private_pool *pool = engine->base.private_pools; pool != NULL && !is_found;
         pool = pool->next)
        is_found = captures_on(engine, &pool->shelves[HR__SMALL]) ||
                   captures_on(engine, &pool->shelves[HR__LARGE]);
    return is_found;
}

/* Of one arena, by rising address. */
static hr_status walk_arena(hr__paged_engine *engine, const hr__segment *segment,
                            hr__paged_home_visitor visit, void *context)
{
    if (!hr__paged_may_be_copied(engine, segment->lane))
        return HR_OK;
    uint64_t done_to = segment->address;
    for (hr__block *block = segment->first; block != NULL; block = block->next) {
        uint64_t end = block->address + block->size_bytes;
        while (hr__paged_is_in_use(block) && done_to < end) {
            uint64_t address = hr__max_u64(done_to, block->address);
            hr__place *place = hr__paged_place_at(engine, segment, address);
            hr__paged_handle *handle = place->handle;
            done_to = place->address + handle->size_bytes;
            if (!place->is_guest && handle->pin_count == 0 && handle->on_host == NULL)
                HR__TRY(visit(context, engine, handle, hr__paged_walk_to(block, place->address)));
        }
    }
    return HR_OK;
}

static hr_status walk_arenas(hr__paged_engine *engine, hr__tree_node *node,
                             hr__paged_home_visitor visit, void *context)
{
    for (; node != NULL; node = node->right) {
        HR__TRY(walk_arenas(engine, node->left, visit, context));
        HR__TRY(walk_arena(engine, hr__segment_of_node(node), visit, context));
    }
    return HR_OK;
}

hr_status hr__paged_each_home_in_use(hr__paged_engine *engine, hr__paged_home_visitor visit,
                                     void *context)
{
    return walk_arenas(engine, engine->base.segments, visit, context);
}

/* Between the handle's home and the same offsets from `other` on: there, or back. */
static hr_status queue_copies(hr__paged_engine *engine, const hr__paged_handle *handle,
                              hr__block *first, uint64_t other, bool is_back, hr_stream stream)
{
    const hr_device_table *table = hr__paged_device(engine);
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    for (const hr__block *block = hr__paged_walk_to(first, begin);
         block != NULL && block->address < end; block = block->next) {
        uint64_t from = hr__max_u64(block->address, begin);
        uint64_t to = hr__min_u64(block->address + block->size_bytes, end);
        if (!hr__paged_is_in_use(block))
            continue;
        uint64_t there = other + (from - begin);
        HR__TRY(table->copy(hr__paged_context(engine), is_back ? from : there,
                            is_back ? there : from, to - from, stream));
        engine->stats.copied_bytes += to - from;
    }
    return HR_OK;
}

/* Copies that are queued are waited for also where one could not be: what they write to goes. */
static hr_status copy_and_wait(hr__paged_engine *engine, const hr__paged_handle *handle,
                               hr__block *first, uint64_t other, bool is_back, hr_stream stream)
{
    hr_status status = queue_copies(engine, handle, first, other, is_back, stream);
    hr_status waiting =
        hr__paged_device(engine)->stream_synchronize(hr__paged_context(engine), stream);
    return status != HR_OK ? status : waiting;
}

hr_status hr__paged_copy_live(hr__paged_engine *engine, const hr__paged_handle *handle,
                              hr__block *first, uint64_t to_address, hr_stream stream)
{
    return copy_and_wait(engine, handle, first, to_address, false, stream);
}

hr_status hr__paged_copy_back(hr__paged_engine *engine, const hr__paged_handle *handle,
                              hr__block *first, uint64_t from_address, hr_stream stream)
{
    return copy_and_wait(engine, handle, first, from_address, true, stream);
}

/* ---- which handles --------------------------------------------------------------------------- */

/* A handle of which a part is live. */
typedef struct partial {
    hr__paged_handle *handle;
    hr__block *first; /* the block that holds its first byte */
    uint64_t live_units;
    uint64_t gained_bytes; /* by evacuating it */
} partial;

typedef struct partials {
    partial *items; /* owned */
    size_t count;
    size_t capacity;
    bool is_deep; /* wanted are handles with a unit that is partly used, whatever is gained */
} partials;

/* The live units of a handle whose first byte is in `block`. */
static uint64_t count_live_units(const hr__paged_engine *engine, const hr__paged_handle *handle,
                                 const hr__block *block)
{
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    uint64_t counted_to = begin, units = 0;
    for (; block != NULL && block->address < end; block = block->next) {
        if (!hr__paged_is_in_use(block))
            continue;
        uint64_t from = hr__max_u64(block->address, begin), to = block->address + block->size_bytes;
        from = hr__max_u64(hr__paged_unit_at(engine, block->segment, from), counted_to);
        to = begin + hr__paged_whole_units(engine, hr__min_u64(to, end) - begin);
        if (to > from) {
            units += (to - from) / engine->unit_bytes;
            counted_to = to;
        }
    }
    return units;
}

static bool has_part_unit(const hr__paged_engine *engine, const hr__paged_handle *handle,
                          hr__block *first)
{
    uint64_t begin = handle->home->address;
    for (uint64_t at = begin; at < begin + handle->size_bytes; at += engine->unit_bytes)
        if (!hr__paged_is_unit_full(engine, first, at))
            return true;
    return false;
}

static hr_status add_partial(void *context, hr__paged_engine *engine, hr__paged_handle *handle,
                             hr__block *first)
{
    partials *found = context;
    if (handle->size_bytes == engine->unit_bytes)
        return HR_OK;
    uint64_t live_units = count_live_units(engine, handle, first);
    uint64_t gained_bytes = handle->size_bytes - live_units * engine->unit_bytes;
    if (found->is_deep ? gained_bytes != 0 || !has_part_unit(engine, handle, first)
                       : live_units == 0 || gained_bytes == 0)
        return HR_OK;
    if (found->count == found->capacity) {
        size_t capacity = found->capacity != 0 ? 2 * found->capacity : 64;
        partial *grown = hr__host_realloc(found->items, capacity * sizeof *grown);
        if (grown == NULL)
            return hr__fail_host_memory(capacity * sizeof *grown, "handles in part use");
        found->items = grown;
        found->capacity = capacity;
    }
    found->items[found->count++] = (partial){handle, first, live_units, gained_bytes};
    return HR_OK;
}

/* Small handles come first: their data needs least room to begin with. */
static int by_size(const void *left, const void *right)
{
    const partial *a = left, *b = right;
    if (a->handle->size_bytes != b->handle->size_bytes)
        return a->handle->size_bytes < b->handle->size_bytes ? -1 : 1;
    return a->handle->home->address < b->handle->home->address ? -1 : 1;
}

/* Most gained for least copied comes first. */
static int by_worth(const void *left, const void *right)
{
    const partial *a = left, *b = right;
    double worth_a = (double)a->gained_bytes / (double)(a->live_units + 2);
    double worth_b = (double)b->gained_bytes / (double)(b->live_units + 2);
    if (worth_a != worth_b)
        return worth_a > worth_b ? -1 : 1;
    return a->handle->home->address < b->handle->home->address ? -1 : 1;
}

/* ---- making room ----------------------------------------------------------------------------- */

uint64_t hr__paged_room_bytes(const hr__paged_engine *engine, uint64_t limit_bytes)
{
    uint64_t most_bytes = hr__min_u64(limit_bytes, hr__paged_most_bytes(engine));
    uint64_t held_bytes = engine->base.held_bytes;
    return most_bytes != UINT64_MAX && most_bytes > held_bytes ? most_bytes - held_bytes : 0;
}

/* HR_ERR_OUT_OF_MEMORY: there is no memory to copy this one to. */
static hr_status evacuate_one(hr__paged_engine *engine, const partial *item, hr_stream stream,
                              bool is_deep, uint64_t *gained_bytes)
{
    return hr__paged_evacuate(engine, item->handle, item->first, stream, is_deep, gained_bytes);
}

static hr_status evacuate_until(hr__paged_engine *engine, hr_stream stream, uint64_t wanted_bytes,
                                uint64_t *gained_bytes)
{
    partials found = {.count = 0};
    hr_status status = hr__paged_each_home_in_use(engine, add_partial, &found);
    if (found.count != 0)
        qsort(found.items, found.count, sizeof *found.items, by_worth);
    for (size_t i = 0; i < found.count && *gained_bytes < wanted_bytes && status == HR_OK; i++) {
        status = evacuate_one(engine, &found.items[i], stream, false, gained_bytes);
        if (status == HR_ERR_OUT_OF_MEMORY)
            status = HR_OK; /* a smaller one may do */
    }
    hr__host_free(found.items);
    return status;
}

/* Nothing is gained by this alone: the pages that are made can share. */
static hr_status part_units(hr__paged_engine *engine, hr_stream stream)
{
    partials found = {.is_deep = true};
    hr_status status = hr__paged_each_home_in_use(engine, add_partial, &found);
    if (found.count != 0)
        qsort(found.items, found.count, sizeof *found.items, by_size);
    size_t parted = 0;
    uint64_t gained_bytes = 0;
    for (size_t i = 0; i < found.count && parted < MOST_PARTED && status == HR_OK; i++) {
        status = evacuate_one(engine, &found.items[i], stream, true, &gained_bytes);
        parted += status == HR_OK;
        if (status == HR_ERR_OUT_OF_MEMORY)
            status = HR_OK;
    }
    hr__host_free(found.items);
    return status;
}

/* In the order of what it costs. Each step sees the free memory as the one before left it. */
static hr_status gain(hr__paged_engine *engine, hr_stream stream, uint64_t wanted_bytes,
                      bool goes_deep, uint64_t *gained_bytes)
{
    HR__TRY(evacuate_until(engine, stream, wanted_bytes, gained_bytes));
    if (*gained_bytes < wanted_bytes)
        HR__TRY(hr__paged_share_pages(engine, stream, wanted_bytes, gained_bytes));
    if (*gained_bytes != 0 || !goes_deep)
        return HR_OK;
    HR__TRY(hr__paged_survey_all(engine));
    HR__TRY(part_units(engine, stream));
    return hr__paged_share_pages(engine, stream, wanted_bytes, gained_bytes);
}

/* The free handle that is just enough to begin with, or the largest; NULL: there is none. */
static hr__paged_handle *find_change(const hr__paged_engine *engine)
{
    hr__paged_handle *best = NULL;
    for (size_t i = 0; i < engine->candidate_count; i++) {
        hr__paged_handle *handle = engine->candidates[i].handle;
        uint64_t bytes = handle->size_bytes;
        if (best == NULL ||
            (best->size_bytes < CHANGE_BYTES ? bytes > best->size_bytes
                                             : bytes >= CHANGE_BYTES && bytes < best->size_bytes))
            best = handle;
    }
    return best;
}

/* Data goes to memory of just its size. Where the pool may not grow and has free handles, one of
 * them goes back for that: most are too large to take the place of a few units. */
static hr_status make_change(hr__paged_engine *engine)
{
    if (hr__paged_room_bytes(engine, hr__paged_limit_bytes(engine)) >= CHANGE_BYTES)
        return HR_OK;
    hr__paged_handle *handle = find_change(engine);
    if (handle == NULL || handle->size_bytes == engine->unit_bytes)
        return HR_OK;
    while (handle->ghosts != NULL)
        HR__TRY(hr__paged_drop_ghost(engine, handle->ghosts, true));
    HR__TRY(hr__paged_release(engine, handle));
    return hr__paged_survey_all(engine);
}

static hr_status copy_at_safe_point(hr__paged_engine *engine, hr_stream stream, uint64_t size_bytes,
                                    uint64_t limit_bytes, bool *is_worth_while)
{
    uint64_t gained_bytes = 0, wanted_bytes = hr__paged_whole_units(engine, size_bytes);
    HR__TRY(hr__paged_device(engine)->synchronize(hr__paged_context(engine)));
    HR__TRY(hr__paged_settle_vacated(engine));
    HR__TRY(hr__paged_survey_all(engine));
    uint64_t there_bytes = engine->candidate_bytes + hr__paged_room_bytes(engine, limit_bytes);
    wanted_bytes = wanted_bytes > there_bytes ? wanted_bytes - there_bytes : engine->unit_bytes;
    bool is_last_resort = limit_bytes == UINT64_MAX;
    if (is_last_resort)
        HR__TRY(make_change(engine));
    HR__TRY(gain(engine, stream, wanted_bytes, is_last_resort, &gained_bytes));
    *is_worth_while = gained_bytes != 0;
    engine->stats.copies += *is_worth_while;
    return HR_OK;
}

/* The lock is dropped meanwhile: others are served, make marks of their own, may fail the pool. */
static bool enter_safe_point(hr__paged_engine *engine)
{
    const hr__engine_owner *owner = &engine->base.owner;
    const hr__request *serving = engine->base.serving;
    engine->base.serving = NULL;
    bool is_safe = owner->enter_safe_point(owner->context);
    engine->base.serving = serving;
    engine->call++;
    return is_safe;
}

bool hr__paged_begin_moment(hr__paged_engine *engine)
{
    return !is_any_stream_captured(engine) && enter_safe_point(engine);
}

void hr__paged_end_moment(hr__paged_engine *engine)
{
    engine->base.owner.leave_safe_point(engine->base.owner.context);
}

hr_status hr__paged_make_room(hr__paged_engine *engine, hr_stream stream, uint64_t size_bytes,
                              uint64_t limit_bytes, bool *is_worth_while)
{
    *is_worth_while = false;
    bool is_safe = hr__paged_begin_moment(engine);
    hr_status status = HR_OK;
    if (is_safe && engine->failure == NULL)
        status = copy_at_safe_point(engine, stream, size_bytes, limit_bytes, is_worth_while);
    if (is_safe)
        hr__paged_end_moment(engine);
    else
        engine->stats.refused_copies++;
    if (engine->failure != NULL)
        return hr__fail(HR_ERR_DEVICE, "%s", engine->failure);
    return status;
}
