/* paged_handles.c - handles and places: create, map, move, revive, unmap, release.
 *
 * The order of the books. Host memory is seen to first, then the device is called, then the books
 * follow what it did; so a call that fails leaves everything as it was. Where the device refuses to
 * undo the half of a change, the pool turns failed (hr__paged_turn_failed): it knows no longer what
 * is mapped where. */
#include "engine/paged/paged_engine.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"
#include "engine/paged/paged_spill.h"

/* ---- mapping --------------------------------------------------------------------------------- */

hr_status hr__paged_map(hr__paged_engine *engine, const hr__paged_handle *handle, uint64_t address)
{
    uint64_t size_bytes = handle->size_bytes;
    HR__TRY(hr__driver_map(&engine->base.owner, address, size_bytes, handle->device_handle));
    hr_status status = hr__driver_set_access(&engine->base.owner, address, size_bytes);
    if (status == HR_OK || hr__driver_unmap(&engine->base.owner, address, size_bytes) == HR_OK)
        return status;
    hr__paged_turn_failed(engine,
                          "memory mapped at %#" PRIx64 " could be neither made accessible nor "
                          "unmapped again",
                          address);
    return hr__fail(HR_ERR_DEVICE, "%s", engine->failure);
}

void hr__paged_map_back(hr__paged_engine *engine, const hr__paged_handle *handle)
{
    uint64_t address = handle->home->address;
    if (hr__paged_map(engine, handle, address) != HR_OK)
        hr__paged_turn_failed(engine,
                              "live memory at %#" PRIx64 " could be mapped neither to its new nor "
                              "to its old page",
                              address);
}

/* The pool has failed over this place, which is mapped still: the end must know it. */
static void keep_stuck(hr__place *place)
{
    place->next = place->handle->ghosts;
    place->handle->ghosts = place;
}

/* The part of an UNMAPPED block at which `place` was mapped becomes free memory. */
static void open_place(hr__paged_engine *engine, hr__place *place, hr__block *unmapped)
{
    hr__paged_fill_units(engine, place, place);
    hr__paged_cut_out(engine, unmapped, place->address, place->handle->size_bytes);
    unmapped->segment_tag = hr__paged_serving_tag(engine);
    place->handle->block = hr__paged_open_block(engine, unmapped);
}

static hr_status see_to_records(hr__paged_engine *engine)
{
    return hr__block_source_reserve(&engine->base.records, HR__ENGINE_SPARE_RECORDS)
               ? HR_OK
               : hr__fail_host_memory(sizeof(hr__block), "block records");
}

hr_status hr__paged_create(hr__paged_engine *engine, uint64_t size_bytes, hr_handle *out)
{
    return hr__driver_create(&engine->base.owner, size_bytes, engine->is_shareable, out);
}

hr_status hr__paged_grow(hr__paged_engine *engine, hr__block *unmapped, uint64_t address,
                         uint64_t handle_bytes)
{
    HR__TRY(see_to_records(engine));
    hr__paged_handle *handle = hr__host_alloc_zeroed(1, sizeof *handle);
    hr__place *place = handle != NULL ? hr__paged_take_place(engine) : NULL;
    if (place == NULL) {
        hr__host_free(handle);
        return hr__fail_host_memory(sizeof *handle + sizeof *place, "a handle");
    }
    handle->size_bytes = handle_bytes;
    *place = (hr__place){.handle = handle, .segment = unmapped->segment, .address = address};
    hr_status status = hr__paged_create(engine, handle_bytes, &handle->device_handle);
    if (status == HR_OK) {
        status = hr__paged_map(engine, handle, address);
        if (engine->failure != NULL) {
            handle->home = place;
            hr__paged_link_handle(engine, handle);
            return status;
        }
        if (status != HR_OK)
            (void)hr__driver_release(&engine->base.owner, handle->device_handle);
    }
    if (status != HR_OK) {
        hr__paged_give_back_place(engine, place);
        hr__host_free(handle);
        return status;
    }
    hr__paged_link_handle(engine, handle);
    open_place(engine, place, unmapped);
    engine->base.owner.counters->num_device_alloc++;
    hr__paged_come_home(engine, place);
    return HR_OK;
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* What must be so before work on `stream` may use the handle; `*out` is after its last use. */
static hr_status order(hr__paged_engine *engine, const hr__paged_handle *handle, hr_stream stream,
                       hr__mark **out)
{
    hr_stream old_stream = handle->home->segment->lane->stream;
    HR__TRY(hr__paged_mark_stream(engine, old_stream, out));
    if (old_stream == stream)
        return HR_OK;
    hr_status status = hr__paged_device(engine)->stream_wait_event(hr__paged_context(engine),
                                                                   stream, (*out)->event);
    if (status != HR_OK)
        hr__paged_leave_mark(engine, *out);
    else
        engine->stats.crossed_handles++;
    return status;
}

void hr__paged_add_ghost(hr__paged_engine *engine, hr__place *place, hr__block *block,
                         hr__mark *mark)
{
    hr__paged_handle *handle = place->handle;
    block->state = HR__BLOCK_GHOST;
    hr__paged_put_in(hr__block_lane(block), block);
    place->block = block;
    place->mark = mark;
    place->next = handle->ghosts;
    handle->ghosts = place;
    handle->ghost_count++;
    engine->stats.retiring_bytes += handle->size_bytes;
}

void hr__paged_become_ghost(hr__paged_engine *engine, hr__paged_handle *handle, hr__mark *mark)
{
    hr__place *place = handle->home;
    hr__block *block = hr__paged_block_around(handle);
    hr__paged_leave_home(engine, place, block);
    hr__paged_cut_out(engine, block, place->address, handle->size_bytes);
    hr__paged_add_ghost(engine, place, block, mark);
    engine->stats.moved_handles++;
    engine->stats.moved_bytes += handle->size_bytes;
}

static void forget_ghost(hr__paged_engine *engine, hr__place *ghost)
{
    hr__paged_handle *handle = ghost->handle;
    hr__place **link = &handle->ghosts;
    while (*link != ghost)
        link = &(*link)->next;
    *link = ghost->next;
    handle->ghost_count--;
    engine->stats.retiring_bytes -= handle->size_bytes;
    hr__paged_leave_mark(engine, ghost->mark);
    hr__paged_take_out(hr__block_lane(ghost->block), ghost->block);
    ghost->mark = NULL;
}

hr_status hr__paged_move(hr__paged_engine *engine, hr__paged_handle *handle, hr__block *unmapped,
                         uint64_t address)
{
    hr__mark *mark = NULL;
    HR__TRY(see_to_records(engine));
    hr__place *place = hr__paged_take_place(engine);
    if (place == NULL)
        return hr__fail_host_memory(sizeof *place, "a handle's place");
    *place = (hr__place){.handle = handle, .segment = unmapped->segment, .address = address};
    hr_status status = order(engine, handle, unmapped->segment->lane->stream, &mark);
    if (status == HR_OK) {
        status = hr__paged_map(engine, handle, address);
        if (status != HR_OK)
            hr__paged_leave_mark(engine, mark);
    }
    if (engine->failure != NULL) {
        keep_stuck(place);
        return status;
    }
    if (status != HR_OK) {
        hr__paged_give_back_place(engine, place);
        return status;
    }
    hr__paged_become_ghost(engine, handle, mark);
    open_place(engine, place, unmapped);
    hr__paged_come_home(engine, place);
    return HR_OK;
}

hr_status hr__paged_revive(hr__paged_engine *engine, hr__place *ghost)
{
    hr__paged_handle *handle = ghost->handle;
    hr__mark *mark = NULL;
    HR__TRY(see_to_records(engine));
    HR__TRY(order(engine, handle, ghost->segment->lane->stream, &mark));
    hr__block *block = ghost->block;
    forget_ghost(engine, ghost);
    hr__paged_become_ghost(engine, handle, mark);
    ghost->block = NULL;
    block->segment_tag = hr__paged_serving_tag(engine);
    handle->block = hr__paged_open_block(engine, block);
    hr__paged_come_home(engine, ghost);
    return HR_OK;
}

/* ---- giving up ------------------------------------------------------------------------------- */

hr_status hr__paged_drop_ghost(hr__paged_engine *engine, hr__place *ghost, bool can_wait)
{
    bool is_complete = false;
    HR__TRY(hr__paged_mark_is_complete(engine, ghost->mark, &is_complete));
    if (!is_complete && !can_wait)
        return HR_ERR_NOT_READY;
    if (!is_complete)
        HR__TRY(hr__paged_device(engine)->event_synchronize(hr__paged_context(engine),
                                                            ghost->mark->event));
    ghost->mark->is_complete = true;
    HR__TRY(hr__driver_unmap(&engine->base.owner, ghost->address, ghost->handle->size_bytes));
    hr__block *block = ghost->block;
    hr__paged_fill_units(engine, ghost, NULL);
    forget_ghost(engine, ghost);
    hr__paged_settle_unmapped(engine, block);
    hr__paged_give_back_place(engine, ghost);
    return HR_OK;
}

hr_status hr__paged_end_handle(hr__paged_engine *engine, hr__paged_handle *handle)
{
    hr__paged_unlink_handle(engine, handle);
    hr__paged_give_back_place(engine, handle->home);
    engine->base.owner.counters->num_device_free++;
    hr_status status = hr__driver_release(&engine->base.owner, handle->device_handle);
    hr__host_free(handle);
    return status; /* refused: unmapped all the same; the device keeps a handle nobody knows */
}

hr_status hr__paged_release(hr__paged_engine *engine, hr__paged_handle *handle)
{
    hr__place *home = handle->home;
    HR__TRY(see_to_records(engine));
    HR__TRY(hr__driver_unmap(&engine->base.owner, home->address, handle->size_bytes));
    hr__block *block = hr__paged_block_around(handle);
    hr__paged_leave_home(engine, home, block);
    hr__paged_cut_out(engine, block, home->address, handle->size_bytes);
    hr__paged_fill_units(engine, home, NULL);
    hr__paged_settle_unmapped(engine, block);
    return hr__paged_end_handle(engine, handle);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void abandon_places(hr__paged_engine *engine, hr__place *place)
{
    for (hr__place *next; place != NULL; place = next) {
        next = place->next;
        (void)hr__driver_unmap(&engine->base.owner, place->address, place->handle->size_bytes);
        hr__host_free(place);
    }
}

static void abandon_stuck(hr__paged_engine *engine, hr__stuck *stuck)
{
    for (hr__stuck *next; stuck != NULL; stuck = next) {
        next = stuck->next;
        if (stuck->is_reservation)
            (void)hr__driver_unreserve(&engine->base.owner, stuck->address, stuck->size_bytes);
        else
            (void)hr__driver_unmap(&engine->base.owner, stuck->address, stuck->size_bytes);
        hr__host_free(stuck);
    }
}

static void abandon_left(hr__paged_engine *engine)
{
    while (engine->spill != NULL && engine->spill->left != NULL) {
        hr__paged_handle *handle = engine->spill->left;
        engine->spill->left = handle->next;
        handle->home->next = NULL; /* a home is in no list: what is there is of another time */
        abandon_places(engine, handle->home);
        hr__host_stock_give_back(engine->spill->stock, handle->on_host);
        hr__host_free(handle);
    }
}

/* Blocks may be live, and work under way: cuMemFree() would wait for it, unmapping does not. */
void hr__paged_abandon(hr__paged_engine *engine)
{
    if (engine->handles != NULL || (engine->spill != NULL && engine->spill->left != NULL))
        (void)hr__paged_device(engine)->synchronize(hr__paged_context(engine));
    while (engine->handles != NULL) {
        hr__paged_handle *handle = engine->handles;
        abandon_places(engine, handle->ghosts);
        abandon_places(engine, handle->guests);
        (void)hr__driver_unmap(&engine->base.owner, handle->home->address, handle->size_bytes);
        hr__host_free(handle->home);
        if (handle->on_host != NULL)
            hr__host_stock_give_back(engine->spill->stock, handle->on_host);
        else
            (void)hr__driver_release(&engine->base.owner, handle->device_handle);
        hr__paged_unlink_handle(engine, handle);
        hr__host_free(handle);
    }
    abandon_left(engine);
    abandon_stuck(engine, engine->stuck);
    abandon_stuck(engine, engine->scratch);
    while (engine->base.segments != NULL) {
        hr__segment *segment = hr__segment_of_node(engine->base.segments);
        (void)hr__driver_unreserve(&engine->base.owner, segment->address, segment->size_bytes);
        hr__host_free(segment->detail);
        hr__engine_drop_segment(&engine->base, segment);
    }
    for (hr__place *place = engine->spare_places, *next; place != NULL; place = next) {
        next = place->next;
        hr__host_free(place);
    }
    engine->spare_places = NULL;
}
