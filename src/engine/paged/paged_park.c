/* paged_park.c - parking: what goes, who is refused meanwhile, and what happens when it cannot be.
 *
 * A parked handle keeps its record, its places and its blocks: only its memory is gone, and it
 * counts for nothing in the bytes held. So blocks can be freed as ever, and the books need no
 * second form. What must not happen is that somebody uses the memory through the books: the
 * engine's table is exchanged for one whose allocate() refuses what is parked, and no call may be
 * under way that dropped the lock and will go on with what it saw before (`under_way`).
 *
 * How the bytes are kept differs: the whole pool goes to a tape (paged_park_tape.c), a region to
 * host memory that is mapped in its place (paged_park_region.c).
 *
 * A parking that fails half-way is woken at once. If that fails too, since somebody took the
 * memory, it stays parked as far as it got, and a later wake brings it back. */
#include "engine/paged/paged_park.h"

#include <stdio.h>
#include <stdlib.h> /* qsort */

#include "vramwise/units.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"
#include "engine/paged/paged_books.h"
#include "engine/paged/paged_handles.h"
#include "engine/paged/paged_moment.h"
#include "engine/paged/paged_reclaim.h"
#include "engine/paged/paged_return.h"
#include "engine/paged/paged_share.h"

/* ---- who is refused -------------------------------------------------------------------------- */

static vw_status refuse(const vw__private_pool *region)
{
    if (region == NULL)
        return vw__fail(VW_ERR_PARKED, "the memory is parked: wake it before it is used");
    return vw__fail(VW_ERR_PARKED, "region \"%s\" is parked: wake it before it is used",
                    region->name);
}

/* VW_ERR_PARKED if a request on `stream` would be served from what is parked. */
static vw_status check_request(vw__engine *base, vw_stream stream)
{
    if (vw__paged_of(base)->is_parked)
        return refuse(NULL);
    if (base->scopes == NULL)
        return VW_OK;
    const vw__private_pool *pool = vw__engine_route(base, stream, VW__ENGINE_SMALL)->private_pool;
    return pool != NULL && pool->is_parked ? refuse(pool) : VW_OK;
}

static vw_status allocate(vw__engine *base, const vw__engine_request *request, vw__block **out,
                          vw__engine_refusal *refusal)
{
    VW__TRY(check_request(base, request->stream));
    return vw__paged_allocate(base, request, out, refusal);
}

static vw_status allocate_at(vw__engine *base, const vw__engine_request *request,
                             vw_device_ptr address, vw__block **prefix, vw__block **out)
{
    VW__TRY(check_request(base, request->stream));
    return vw__paged_allocate_at(base, request, address, prefix, out);
}

/* While the whole pool is parked nothing is idle, and no step is made. */
static vw_status trim_nothing(vw__engine *base, const vw_private_id *only)
{
    (void)base, (void)only;
    return VW_OK;
}

static vw_status give_nothing_back(vw__engine *base, vw__engine_slice *slice)
{
    (void)base;
    slice->given_bytes = 0;
    slice->is_waiting = false;
    return VW_OK;
}

static vw_status mark_no_step(vw__engine *base)
{
    (void)base;
    return VW_OK;
}

static uint64_t largest_is_none(const vw__engine *base, const vw_stream *only_stream)
{
    (void)base, (void)only_stream;
    return 0;
}

/* By what is parked now. A pool that has failed keeps its own. */
static void choose_table(vw__paged_engine *engine)
{
    vw__engine_table *table = &engine->parked_table;
    if (engine->failure != NULL)
        return;
    *table = *vw__paged_table();
    if (engine->parkings == NULL) {
        vw__paged_use_table(engine, vw__paged_table());
        return;
    }
    table->allocate = allocate;
    table->allocate_at = allocate_at;
    if (!engine->is_parked) {
        vw__paged_use_table(engine, table);
        return;
    }
    table->trim = trim_nothing;
    table->give_back = give_nothing_back;
    table->mark_step = mark_no_step;
    table->largest_free = largest_is_none;
    vw__paged_use_table(engine, table);
    if (engine->spill != NULL)
        engine->spill->usual_table = NULL; /* nothing that was spilled is due */
}

/* ---- which handles --------------------------------------------------------------------------- */

static bool is_meant(const vw__paged_parking *parking, const vw__paged_handle *handle)
{
    const vw__private_pool *pool = handle->home->segment->lane->shelf->private_pool;
    return handle->on_host == NULL && handle->parking == NULL &&
           (parking->region == NULL || pool == parking->region);
}

static int by_address(const void *left, const void *right)
{
    const vw__paged_parked *a = left, *b = right;
    return a->handle->home->address < b->handle->home->address ? -1 : 1;
}

static vw_status collect(vw__paged_engine *engine, vw__paged_parking *parking,
                         vw_park_report *report)
{
    size_t most = engine->stats.handle_count;
    parking->items = vw__host_alloc_zeroed(most != 0 ? most : 1, sizeof *parking->items);
    if (parking->items == NULL)
        return vw__fail_host_memory(most * sizeof *parking->items, "handles to park");
    for (vw__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next) {
        if (!is_meant(parking, handle))
            continue;
        if (handle->pin_count != 0)
            report->stayed_bytes += handle->size_bytes;
        else
            parking->items[parking->count++].handle = handle;
    }
    if (parking->count != 0)
        qsort(parking->items, parking->count, sizeof *parking->items, by_address);
    for (size_t i = 0; i < parking->count; i++)
        while (parking->items[i].handle->ghosts != NULL)
            VW__TRY(vw__paged_drop_ghost(engine, parking->items[i].handle->ghosts, true));
    return VW_OK;
}

vw__block *vw__paged_block_from(vw__block **cursor, const vw__segment *segment, uint64_t address)
{
    if (*cursor == NULL || (*cursor)->segment != segment)
        *cursor = segment->first;
    *cursor = vw__paged_walk_to(*cursor, address);
    return *cursor;
}

/* ---- books ----------------------------------------------------------------------------------- */

void vw__paged_count_parked(vw__paged_engine *engine, vw__paged_parking *parking,
                            vw__paged_handle *handle, vw_park_report *report)
{
    const vw__shelf *shelf = handle->home->segment->lane->shelf;
    handle->parking = parking;
    handle->survey = 0;
    vw__engine_count_held(&engine->base, shelf, -(int64_t)handle->size_bytes);
    engine->base.owner.counters->num_device_free++;
    engine->stats.parked_bytes += handle->size_bytes;
    report->moved_bytes += handle->size_bytes;
    if (shelf->private_pool != NULL && shelf->private_pool->is_dropped)
        report->dropped_bytes += handle->size_bytes;
}

void vw__paged_count_woken(vw__paged_engine *engine, vw__paged_handle *handle,
                           vw_park_report *report)
{
    const vw__shelf *shelf = handle->home->segment->lane->shelf;
    handle->parking = NULL;
    vw__engine_count_held(&engine->base, shelf, (int64_t)handle->size_bytes);
    engine->base.owner.counters->num_device_alloc++;
    engine->stats.parked_bytes -= handle->size_bytes;
    report->moved_bytes += handle->size_bytes;
}

/* ---- memory to wake with --------------------------------------------------------------------- */

static uint64_t missing_bytes(const vw__paged_parking *parking)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < parking->count; i++)
        if (vw__paged_is_parked_in(parking, i))
            bytes += parking->items[i].handle->size_bytes;
    return bytes;
}

static vw_status try_to_make(vw__paged_engine *engine, vw__paged_parking *parking)
{
    uint64_t held_bytes = vw__paged_on_device_bytes(engine);
    if (held_bytes > engine->base.limit_bytes ||
        missing_bytes(parking) > engine->base.limit_bytes - held_bytes)
        return VW_ERR_OUT_OF_MEMORY;
    for (size_t i = 0; i < parking->count; i++) {
        vw__paged_parked *item = &parking->items[i];
        if (vw__paged_is_parked_in(parking, i) && item->memory == 0)
            VW__TRY(vw__paged_create(engine, item->handle->size_bytes, &item->memory));
    }
    return VW_OK;
}

/* Idle memory of the pool makes room for a region. While the whole pool is parked there is none. */
vw_status vw__paged_make_parked(vw__paged_engine *engine, vw__paged_parking *parking)
{
    vw_status status = try_to_make(engine, parking);
    if (status == VW_ERR_OUT_OF_MEMORY && !engine->is_parked) {
        status = vw__paged_trim_all(engine);
        if (status == VW_OK)
            status = try_to_make(engine, parking);
    }
    if (status == VW_OK)
        return VW_OK;
    vw__paged_unmake_parked(engine, parking);
    char size[VW_SIZE_TEXT_BYTES];
    if (status == VW_ERR_OUT_OF_MEMORY)
        return vw__fail(status, "to wake takes %s of device memory",
                        vw_format_size(missing_bytes(parking), size));
    return status;
}

void vw__paged_unmake_parked(vw__paged_engine *engine, vw__paged_parking *parking)
{
    for (size_t i = 0; i < parking->count; i++) {
        if (parking->items[i].memory != 0)
            (void)vw__driver_release(&engine->base.owner, parking->items[i].memory);
        parking->items[i].memory = 0;
    }
}

/* ---- freed meanwhile ------------------------------------------------------------------------- */

static bool may_go(const vw__paged_handle *handle, const vw__block *block)
{
    const vw__private_pool *pool = block->segment->lane->shelf->private_pool;
    return block->state == VW__BLOCK_FREE && handle->guest_count == 0 &&
           (pool == NULL || !vw__private_needs_free_memory(pool)) &&
           block->address <= handle->home->address &&
           handle->home->address + handle->size_bytes <= block->address + block->size_bytes;
}

static void give_back_stand_in(vw__paged_parking *parking, vw__paged_handle *handle)
{
    if (parking->scratch == NULL)
        parking->host.give_back(parking->host.context, handle->stand_in);
    handle->stand_in = NULL;
}

/* A handle in which nothing is used any more ends, and its addresses are UNMAPPED. */
static vw_status forget_free_handle(vw__paged_engine *engine, vw__paged_parking *parking,
                                    vw__paged_parked *item, vw__block *block)
{
    vw__paged_handle *handle = item->handle;
    vw__paged_place *home = handle->home;
    VW__TRY(vw__engine_see_to_records(&engine->base, VW__ENGINE_SPARE_RECORDS));
    if (handle->stand_in != NULL) {
        VW__TRY(vw__driver_unmap(&engine->base.owner, home->address, handle->size_bytes));
        give_back_stand_in(parking, handle);
    }
    vw__engine_notice(&engine->base, VW_ACTION_SEGMENT_UNMAP, home->segment->lane, home->address,
                      handle->size_bytes, vw__engine_event_tag(&engine->base, block));
    vw__paged_cut_out(engine, block, home->address, handle->size_bytes);
    vw__paged_fill_units(engine, home, NULL);
    vw__paged_settle_unmapped(engine, block);
    engine->stats.parked_bytes -= handle->size_bytes;
    vw__paged_unlink_handle(engine, handle);
    vw__paged_give_back_place(engine, home);
    vw__host_free(handle);
    item->handle = NULL;
    return VW_OK;
}

static vw_status forget_what_was_freed(vw__paged_engine *engine, vw__paged_parking *parking)
{
    vw__block *cursor = NULL;
    for (size_t i = 0; i < parking->count; i++) {
        vw__paged_parked *item = &parking->items[i];
        if (!vw__paged_is_parked_in(parking, i))
            continue;
        const vw__paged_place *home = item->handle->home;
        vw__block *block = vw__paged_block_from(&cursor, home->segment, home->address);
        if (!may_go(item->handle, block))
            continue;
        cursor = NULL; /* blocks are merged */
        VW__TRY(forget_free_handle(engine, parking, item, block));
    }
    return VW_OK;
}

/* ---- beginning and end of a parking ---------------------------------------------------------- */

static void link_parking(vw__paged_engine *engine, vw__paged_parking *parking)
{
    parking->next = engine->parkings;
    engine->parkings = parking;
    if (parking->region == NULL)
        engine->is_parked = true;
    else
        parking->region->is_parked = true; /* nobody looks for free memory in a pool in use */
    choose_table(engine);
}

static void end_parking(vw__paged_engine *engine, vw__paged_parking *parking)
{
    vw__paged_parking **link = &engine->parkings;
    while (*link != parking)
        link = &(*link)->next;
    *link = parking->next;
    if (parking->region == NULL) {
        engine->is_parked = false;
        parking->store.end(parking->store.context);
        engine->base.owner.let_launches_go(engine->base.owner.context);
    } else {
        while (parking->scratch != NULL) {
            vw__lender_handle *scratch = parking->scratch;
            parking->scratch = scratch->next;
            parking->host.give_back(parking->host.context, scratch);
        }
        parking->region->is_parked = false;
        if (vw__private_is_over(parking->region))
            vw__private_drop(&engine->base, parking->region);
    }
    choose_table(engine);
    vw__host_free(parking->items);
    vw__host_free(parking->spans);
    vw__host_free(parking);
}

/* After a call that got only half-way: a handle that is not parked here may be freed, or parked by
 * another parking, which frees it. */
static void keep_only_parked(vw__paged_parking *parking)
{
    for (size_t i = 0; i < parking->count; i++)
        if (!vw__paged_is_parked_in(parking, i))
            parking->items[i].handle = NULL;
}

static vw_status wake_parking(vw__paged_engine *engine, vw__paged_parking *parking,
                              vw_park_report *report)
{
    vw_status status = forget_what_was_freed(engine, parking);
    if (status == VW_OK && missing_bytes(parking) != 0)
        status = parking->region == NULL ? vw__paged_wake_tape(engine, parking, report)
                                         : vw__paged_wake_region(engine, parking, report);
    if (status == VW_OK)
        end_parking(engine, parking);
    else
        keep_only_parked(parking);
    return status;
}

/* It failed, and what is parked of it comes back, if it can. */
static vw_status undo_parking(vw__paged_engine *engine, vw__paged_parking *parking,
                              vw_status status)
{
    char why[512];
    vw_park_report unread = {0};
    keep_only_parked(parking);
    snprintf(why, sizeof why, "%s", vw_last_error());
    if (engine->failure != NULL || wake_parking(engine, parking, &unread) == VW_OK)
        return engine->failure != NULL ? vw__fail(VW_ERR_DEVICE, "%s", engine->failure)
                                       : vw__fail(status, "%s", why);
    char again[512];
    snprintf(again, sizeof again, "%s", vw_last_error());
    return vw__fail(status, "%s; %llu bytes were parked by then and could not come back yet: %s",
                    why, (unsigned long long)missing_bytes(parking), again);
}

/* ---- in a safe moment ------------------------------------------------------------------------ */

static vw_status park_in_moment(vw__paged_engine *engine, vw__paged_parking *parking,
                                vw_park_report *report)
{
    VW__TRY(vw__paged_device(engine)->synchronize(vw__paged_context(engine)));
    VW__TRY(parking->region == NULL ? vw__paged_trim_all(engine)
                                    : vw__paged_settle_vacated(engine));
    VW__TRY(collect(engine, parking, report));
    return parking->region == NULL ? vw__paged_park_tape(engine, parking, report)
                                   : vw__paged_park_region(engine, parking, report);
}

static vw_status find_region(vw__paged_engine *engine, const vw_private_id *only,
                             vw__private_pool **out)
{
    *out = NULL;
    if (only == NULL)
        return VW_OK;
    vw__private_pool *pool = vw__private_find(&engine->base, *only);
    if (pool == NULL || !pool->is_region)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no such region");
    *out = pool;
    return VW_OK;
}

static vw_status begin_moment(vw__paged_engine *engine)
{
    if (!vw__paged_begin_moment(engine))
        return vw__fail(VW_ERR_WRONG_STATE,
                        "no safe moment: a graph is being captured, or work on the device can be "
                        "neither held back nor waited for just now");
    if (engine->failure == NULL)
        return VW_OK;
    vw__paged_end_moment(engine);
    return vw__fail(VW_ERR_DEVICE, "%s", engine->failure);
}

/* Something else is under way, with the lock dropped. */
static vw_status not_ready(void)
{
    return vw__fail(VW_ERR_NOT_READY, "requests of other threads are being served");
}

/* With the moment begun; `*how` is as it was asked for, the rest was looked at before the lock was
 * dropped. */
static vw_status begin_parking(vw__paged_engine *engine, vw__engine_park *how,
                               vw__paged_parking **out)
{
    const vw__engine_owner *owner = &engine->base.owner;
    vw__private_pool *region = NULL;
    if (engine->under_way != 0)
        return not_ready();
    VW__TRY(find_region(engine, how->only, &region));
    vw__paged_parking *parking = vw__host_alloc_zeroed(1, sizeof *parking);
    if (parking == NULL)
        return vw__fail_host_memory(sizeof *parking, "parking");
    if (region == NULL && !owner->hold_launches(owner->context)) {
        vw__host_free(parking);
        return VW_ERR_WRONG_STATE;
    }
    parking->region = region;
    parking->store = how->store;
    parking->host = how->host;
    how->is_taken = true;
    link_parking(engine, parking);
    *out = parking;
    return VW_OK;
}

bool vw__paged_is_parked(vw__engine *base, const vw_private_id *only)
{
    vw__paged_engine *engine = vw__paged_of(base);
    vw__private_pool *region = NULL;
    if (find_region(engine, only, &region) != VW_OK)
        return false;
    return engine->is_parked || (region != NULL && region->is_parked);
}

vw_status vw__paged_park(vw__engine *base, vw__engine_park *how, vw_park_report *report)
{
    vw__paged_engine *engine = vw__paged_of(base);
    vw__paged_parking *parking = NULL;
    vw__private_pool *region = NULL;
    VW__TRY(find_region(engine, how->only, &region));
    if (engine->under_way != 0)
        return not_ready();
    VW__TRY(begin_moment(engine));
    vw_status status = begin_parking(engine, how, &parking);
    if (status == VW_OK) {
        status = park_in_moment(engine, parking, report);
        if (status != VW_OK)
            status = undo_parking(engine, parking, status);
        else
            engine->stats.parks++;
    }
    vw__paged_end_moment(engine);
    return status;
}

static vw__paged_parking *find_parking(const vw__paged_engine *engine, const vw_private_id *only)
{
    vw__paged_parking *parking = engine->parkings;
    while (parking != NULL && (only == NULL ? engine->is_parked && parking->region != NULL
                                            : parking->region == NULL ||
                                                  !vw__private_id_same(parking->region->id, *only)))
        parking = parking->next;
    return parking;
}

/* The whole pool first: a region may need its idle memory. */
vw_status vw__paged_wake(vw__engine *base, const vw_private_id *only, vw_park_report *report)
{
    vw__paged_engine *engine = vw__paged_of(base);
    if (only != NULL && engine->is_parked)
        return vw__fail(VW_ERR_WRONG_STATE, "the whole pool is parked, and wakes as a whole");
    if (find_parking(engine, only) == NULL)
        return VW_OK;
    VW__TRY(begin_moment(engine));
    vw_status status = vw__paged_device(engine)->synchronize(vw__paged_context(engine));
    for (vw__paged_parking *parking; status == VW_OK && engine->failure == NULL &&
                                     (parking = find_parking(engine, only)) != NULL;)
        status = wake_parking(engine, parking, report);
    engine->stats.wakes += (uint64_t)(status == VW_OK);
    vw__paged_end_moment(engine);
    return engine->failure != NULL ? vw__fail(VW_ERR_DEVICE, "%s", engine->failure) : status;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void end_places(vw__paged_engine *engine, vw__paged_handle *handle, vw__paged_place *place)
{
    for (vw__paged_place *next; place != NULL; place = next) {
        next = place->next;
        if (handle->stand_in != NULL || engine->failure != NULL) /* then it may be mapped */
            (void)vw__driver_unmap(&engine->base.owner, place->address, handle->size_bytes);
        vw__host_free(place);
    }
}

void vw__paged_end_parkings(vw__paged_engine *engine)
{
    if (engine->parkings != NULL)
        (void)vw__paged_device(engine)->synchronize(vw__paged_context(engine));
    while (engine->parkings != NULL) {
        vw__paged_parking *parking = engine->parkings;
        for (size_t i = 0; i < parking->count; i++) {
            vw__paged_handle *handle = parking->items[i].handle;
            if (!vw__paged_is_parked_in(parking, i))
                continue;
            handle->home->next = NULL; /* a home is in no list */
            end_places(engine, handle, handle->home);
            end_places(engine, handle, handle->guests);
            if (handle->stand_in != NULL)
                give_back_stand_in(parking, handle);
            vw__paged_unlink_handle(engine, handle);
            vw__host_free(handle);
        }
        end_parking(engine, parking);
    }
}
