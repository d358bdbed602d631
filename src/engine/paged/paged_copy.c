/* paged_copy.c - when live data is copied to other pages, and which.
 *
 * Live data is copied in safe moments (paged_moment.c). Without one nothing is copied, which is
 * counted.
 *
 * In the order of what it costs: handles that are mostly free are evacuated (paged_evacuate.c),
 * those first that give most for the least data; then pages that are partly used share one
 * (paged_share.c); then, where the alternative is running out of memory, handles are parted so that
 * more pages can share.
 *
 * A pool that may copy holds two units less than its limit, so that the first evacuation can begin.
 */
#include "engine/paged/paged_copy.h"

#include <stdlib.h> /* qsort */

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/paged/paged_evacuate.h"
#include "engine/paged/paged_handles.h"
#include "engine/paged/paged_moment.h"
#include "engine/paged/paged_share.h"
#include "engine/paged/paged_survey.h"

enum { MOST_PARTED = 16 }; /* handles parted at a time, for pages that can share */

#define CHANGE_BYTES (UINT64_C(8) << 20) /* to begin copying with */

/* ---- which handles --------------------------------------------------------------------------- */

/* A handle of which a part is live. */
typedef struct partial {
    vw__paged_handle *handle;
    vw__block *first; /* the block that holds its first byte */
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
static uint64_t count_live_units(const vw__paged_engine *engine, const vw__paged_handle *handle,
                                 const vw__block *block)
{
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    uint64_t counted_to = begin, units = 0;
    for (; block != NULL && block->address < end; block = block->next) {
        if (!vw__paged_is_in_use(block))
            continue;
        uint64_t from = vw__max_u64(block->address, begin), to = block->address + block->size_bytes;
        from = vw__max_u64(vw__paged_unit_at(engine, block->segment, from), counted_to);
        to = begin + vw__paged_whole_units(engine, vw__min_u64(to, end) - begin);
        if (to > from) {
            units += (to - from) / engine->unit_bytes;
            counted_to = to;
        }
    }
    return units;
}

static bool has_part_unit(const vw__paged_engine *engine, const vw__paged_handle *handle,
                          vw__block *first)
{
    uint64_t begin = handle->home->address;
    for (uint64_t at = begin; at < begin + handle->size_bytes; at += engine->unit_bytes)
        if (!vw__paged_is_unit_full(engine, first, at))
            return true;
    return false;
}

static vw_status add_partial(void *context, vw__paged_engine *engine, vw__paged_handle *handle,
                             vw__block *first)
{
    partials *found = context;
    if (handle->size_bytes == engine->unit_bytes)
        return VW_OK;
    uint64_t live_units = count_live_units(engine, handle, first);
    uint64_t gained_bytes = handle->size_bytes - live_units * engine->unit_bytes;
    if (found->is_deep ? gained_bytes != 0 || !has_part_unit(engine, handle, first)
                       : live_units == 0 || gained_bytes == 0)
        return VW_OK;
    if (found->count == found->capacity) {
        size_t capacity = found->capacity != 0 ? 2 * found->capacity : 64;
        partial *grown = vw__host_realloc(found->items, capacity * sizeof *grown);
        if (grown == NULL)
            return vw__fail_host_memory(capacity * sizeof *grown, "handles in part use");
        found->items = grown;
        found->capacity = capacity;
    }
    found->items[found->count++] = (partial){handle, first, live_units, gained_bytes};
    return VW_OK;
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

/* VW_ERR_OUT_OF_MEMORY: there is no memory to copy this one to. */
static vw_status evacuate_one(vw__paged_engine *engine, const partial *item, vw_stream stream,
                              bool is_deep, uint64_t *gained_bytes)
{
    return vw__paged_evacuate(engine, item->handle, item->first, stream, is_deep, gained_bytes);
}

static vw_status evacuate_until(vw__paged_engine *engine, vw_stream stream, uint64_t wanted_bytes,
                                uint64_t *gained_bytes)
{
    partials found = {.count = 0};
    vw_status status = vw__paged_each_home_in_use(engine, add_partial, &found);
    if (found.count != 0)
        qsort(found.items, found.count, sizeof *found.items, by_worth);
    for (size_t i = 0; i < found.count && *gained_bytes < wanted_bytes && status == VW_OK; i++) {
        status = evacuate_one(engine, &found.items[i], stream, false, gained_bytes);
        if (status == VW_ERR_OUT_OF_MEMORY)
            status = VW_OK; /* a smaller one may do */
    }
    vw__host_free(found.items);
    return status;
}

/* Nothing is gained by this alone: the pages that are made can share. `*parted` handles were. */
static vw_status part_units(vw__paged_engine *engine, vw_stream stream, size_t *parted)
{
    partials found = {.is_deep = true};
    vw_status status = vw__paged_each_home_in_use(engine, add_partial, &found);
    if (found.count != 0)
        qsort(found.items, found.count, sizeof *found.items, by_size);
    uint64_t gained_bytes = 0;
    *parted = 0;
    for (size_t i = 0; i < found.count && *parted < MOST_PARTED && status == VW_OK; i++) {
        status = evacuate_one(engine, &found.items[i], stream, true, &gained_bytes);
        *parted += status == VW_OK;
        if (status == VW_ERR_OUT_OF_MEMORY)
            status = VW_OK;
    }
    vw__host_free(found.items);
    return status;
}

/* In the order of what it costs. Each step sees the free memory as the one before left it. Where
 * the pages that were made find no partners, more are made. */
static vw_status gain(vw__paged_engine *engine, vw_stream stream, uint64_t wanted_bytes,
                      bool goes_deep, uint64_t *gained_bytes)
{
    VW__TRY(evacuate_until(engine, stream, wanted_bytes, gained_bytes));
    if (*gained_bytes < wanted_bytes)
        VW__TRY(vw__paged_share_pages(engine, stream, wanted_bytes, gained_bytes));
    for (size_t parted = 1; goes_deep && *gained_bytes == 0 && parted != 0;) {
        VW__TRY(vw__paged_survey_all(engine));
        VW__TRY(part_units(engine, stream, &parted));
        VW__TRY(vw__paged_share_pages(engine, stream, wanted_bytes, gained_bytes));
    }
    return VW_OK;
}

/* The smallest free handle that is enough to begin with, or the largest; NULL: no handle is free.
 */
static vw__paged_handle *find_change(const vw__paged_engine *engine)
{
    vw__paged_handle *best = NULL;
    for (size_t i = 0; i < engine->candidate_count; i++) {
        vw__paged_handle *handle = engine->candidates[i].handle;
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
static vw_status make_change(vw__paged_engine *engine)
{
    if (vw__paged_room_bytes(engine, vw__paged_limit_bytes(engine)) >= CHANGE_BYTES)
        return VW_OK;
    vw__paged_handle *handle = find_change(engine);
    if (handle == NULL || handle->size_bytes == engine->unit_bytes)
        return VW_OK;
    while (handle->ghosts != NULL)
        VW__TRY(vw__paged_drop_ghost(engine, handle->ghosts, true));
    VW__TRY(vw__paged_release(engine, handle));
    return vw__paged_survey_all(engine);
}

static vw_status copy_at_safe_point(vw__paged_engine *engine, vw_stream stream, uint64_t size_bytes,
                                    uint64_t limit_bytes, bool *is_worth_while)
{
    uint64_t gained_bytes = 0, wanted_bytes = vw__paged_whole_units(engine, size_bytes);
    VW__TRY(vw__paged_device(engine)->synchronize(vw__paged_context(engine)));
    VW__TRY(vw__paged_settle_vacated(engine));
    VW__TRY(vw__paged_survey_all(engine));
    uint64_t there_bytes = engine->candidate_bytes + vw__paged_room_bytes(engine, limit_bytes);
    wanted_bytes = wanted_bytes > there_bytes ? wanted_bytes - there_bytes : engine->unit_bytes;
    bool is_last_resort = limit_bytes == UINT64_MAX;
    if (is_last_resort)
        VW__TRY(make_change(engine));
    VW__TRY(gain(engine, stream, wanted_bytes, is_last_resort, &gained_bytes));
    *is_worth_while = gained_bytes != 0;
    engine->stats.copies += *is_worth_while;
    return VW_OK;
}

vw_status vw__paged_make_room(vw__paged_engine *engine, vw_stream stream, uint64_t size_bytes,
                              uint64_t limit_bytes, bool *is_worth_while)
{
    *is_worth_while = false;
    bool is_safe = vw__paged_begin_moment(engine);
    vw_status status = VW_OK;
    if (is_safe && engine->failure == NULL)
        status = copy_at_safe_point(engine, stream, size_bytes, limit_bytes, is_worth_while);
    if (is_safe)
        vw__paged_end_moment(engine);
    else
        engine->stats.refused_copies++;
    if (engine->failure != NULL)
        return vw__fail(VW_ERR_DEVICE, "%s", engine->failure);
    return status;
}
