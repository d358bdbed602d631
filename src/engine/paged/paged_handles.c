/* paged_handles.c - arenas, handles and places: create, map, move, revive, unmap, release.
 *
 * The order of the books. Host memory is seen to first, then the device is called, then the books
 * follow what it did; so a call that fails leaves everything as it was. Where the device refuses to
 * undo the half of a change, the pool turns failed (vw__paged_turn_failed): it knows no longer what
 * is mapped where. */
#include "engine/paged/paged_handles.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"
#include "engine/paged/paged_books.h"

/* ---- arenas ---------------------------------------------------------------------------------- */

vw_status vw__paged_adopt_arena(vw__paged_engine *engine, vw__lane *lane, uint64_t address,
                                uint64_t size_bytes, uint8_t nature, vw__segment **out)
{
    size_t unit_count = size_bytes / engine->unit_bytes;
    vw__paged_place **units = vw__host_alloc_zeroed(unit_count, sizeof(vw__paged_place *));
    vw__segment *segment = NULL;
    if (units != NULL)
        segment = vw__engine_add_segment(&engine->base, lane, address, size_bytes,
                                         (uint8_t)(VW__BLOCK_NATURE_EXPANDABLE | nature), 0);
    if (segment == NULL) {
        (void)vw__driver_unreserve(&engine->base.owner, address, size_bytes);
        vw__host_free(units);
        return vw__fail_host_memory(unit_count * sizeof(vw__paged_place *), "an arena");
    }
    segment->detail = units;
    segment->first->state = VW__BLOCK_UNMAPPED;
    vw__paged_put_in(lane, segment->first);
    *out = segment;
    return VW_OK;
}

/* Reserves addresses for twice the device's memory, so that a request finds a gap between live
 * blocks. Where the device has fewer addresses, it takes fewer. */
vw_status vw__paged_add_arena(vw__paged_engine *engine, vw__lane *lane, uint64_t size_bytes)
{
    uint64_t least_bytes = 0, wanted_bytes = 0;
    uint64_t total_bytes = engine->base.owner.device->properties.total_bytes;
    if (!vw__align_up_u64(size_bytes, engine->unit_bytes, &least_bytes) ||
        !vw__align_up_u64(vw__max_u64(2 * total_bytes, least_bytes), engine->unit_bytes,
                          &wanted_bytes))
        return VW_ERR_OUT_OF_MEMORY;
    vw_device_ptr address = VW_NULL;
    vw_status status = vw__driver_reserve(&engine->base.owner, wanted_bytes, &address);
    while (status != VW_OK && wanted_bytes > least_bytes) {
        wanted_bytes =
            vw__max_u64(vw__align_down_u64(wanted_bytes / 2, engine->unit_bytes), least_bytes);
        status = vw__driver_reserve(&engine->base.owner, wanted_bytes, &address);
    }
    VW__TRY(status);
    vw__segment *segment = NULL;
    return vw__paged_adopt_arena(engine, lane, address, wanted_bytes, 0, &segment);
}

vw_status vw__paged_end_arena(vw__paged_engine *engine, vw__segment *segment)
{
    vw_status status =
        vw__driver_unreserve(&engine->base.owner, segment->address, segment->size_bytes);
    vw__paged_take_out(segment->lane, segment->first);
    vw__host_free(segment->detail);
    vw__engine_drop_segment(&engine->base, segment);
    return status;
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* A move takes a handle from where it was used last. It needs no wait: on the same stream the work
 * that used it comes first anyway, and another stream is made to wait for a mark. But the old
 * mapping may go only when the device has passed the mark. One mark serves a whole call of the
 * allocator and stream. */

static vw_status take_mark(vw__paged_engine *engine, vw__paged_mark **out)
{
    vw__paged_mark *mark = engine->spare_marks;
    if (mark != NULL) {
        engine->spare_marks = mark->next;
        *out = mark;
        return VW_OK;
    }
    mark = vw__host_alloc_zeroed(1, sizeof *mark);
    if (mark == NULL)
        return vw__fail_host_memory(sizeof *mark, "a mark in a stream");
    vw_status status =
        vw__paged_device(engine)->event_create(vw__paged_context(engine), &mark->event);
    if (status != VW_OK) {
        vw__host_free(mark);
        return status;
    }
    *out = mark;
    return VW_OK;
}

vw_status vw__paged_mark_stream(vw__paged_engine *engine, vw_stream stream, vw__paged_mark **out)
{
    for (vw__paged_mark *mark = engine->marks; mark != NULL && mark->call == engine->call;
         mark = mark->next) {
        if (mark->stream == stream) {
            mark->users++;
            *out = mark;
            return VW_OK;
        }
    }
    vw__paged_mark *mark = NULL;
    VW__TRY(take_mark(engine, &mark));
    vw_status status =
        vw__paged_device(engine)->event_record(vw__paged_context(engine), mark->event, stream);
    if (status != VW_OK) {
        mark->next = engine->spare_marks;
        engine->spare_marks = mark;
        return status;
    }
    mark->stream = stream;
    mark->call = engine->call;
    mark->users = 1;
    mark->is_complete = false;
    mark->next = engine->marks;
    engine->marks = mark;
    *out = mark;
    return VW_OK;
}

void vw__paged_leave_mark(vw__paged_engine *engine, vw__paged_mark *mark)
{
    if (--mark->users != 0)
        return;
    vw__paged_mark **link = &engine->marks;
    while (*link != mark)
        link = &(*link)->next;
    *link = mark->next;
    mark->next = engine->spare_marks;
    engine->spare_marks = mark;
}

vw_status vw__paged_mark_is_complete(vw__paged_engine *engine, vw__paged_mark *mark, bool *out)
{
    if (!mark->is_complete) {
        vw_status status =
            vw__paged_device(engine)->event_query(vw__paged_context(engine), mark->event);
        if (status != VW_OK && status != VW_ERR_NOT_READY)
            return status;
        mark->is_complete = status == VW_OK;
    }
    *out = mark->is_complete;
    return VW_OK;
}

vw_status vw__paged_look_at_marks(vw__paged_engine *engine)
{
    bool is_complete = false;
    for (vw__paged_mark *mark = engine->marks; mark != NULL; mark = mark->next)
        VW__TRY(vw__paged_mark_is_complete(engine, mark, &is_complete));
    return VW_OK;
}

static void end_list(vw__paged_engine *engine, vw__paged_mark *mark)
{
    for (vw__paged_mark *next; mark != NULL; mark = next) {
        next = mark->next;
        (void)vw__paged_device(engine)->event_destroy(vw__paged_context(engine), mark->event);
        vw__host_free(mark);
    }
}

void vw__paged_end_marks(vw__paged_engine *engine)
{
    end_list(engine, engine->marks);
    end_list(engine, engine->spare_marks);
    engine->marks = engine->spare_marks = NULL;
}

/* ---- mapping --------------------------------------------------------------------------------- */

vw_status vw__paged_map(vw__paged_engine *engine, const vw__paged_handle *handle, uint64_t address)
{
    uint64_t size_bytes = handle->size_bytes;
    VW__TRY(vw__driver_map(&engine->base.owner, address, size_bytes, handle->device_handle));
    vw_status status = vw__driver_set_access(&engine->base.owner, address, size_bytes);
    if (status == VW_OK || vw__driver_unmap(&engine->base.owner, address, size_bytes) == VW_OK)
        return status;
    vw__paged_turn_failed(engine,
                          "memory mapped at %#" PRIx64 " could be neither made accessible nor "
                          "unmapped again",
                          address);
    return vw__fail(VW_ERR_DEVICE, "%s", engine->failure);
}

void vw__paged_map_back(vw__paged_engine *engine, const vw__paged_handle *handle)
{
    uint64_t address = handle->home->address;
    if (vw__paged_map(engine, handle, address) != VW_OK)
        vw__paged_turn_failed(engine,
                              "live memory at %#" PRIx64 " could be mapped neither to its new nor "
                              "to its old page",
                              address);
}

/* The pool has failed with this place still mapped: remembers it for the engine's end. */
static void keep_stuck(vw__paged_place *place)
{
    place->next = place->handle->ghosts;
    place->handle->ghosts = place;
}

/* The part of an UNMAPPED block at which `place` was mapped becomes free memory. */
static void open_place(vw__paged_engine *engine, vw__paged_place *place, vw__block *unmapped)
{
    vw__paged_fill_units(engine, place, place);
    vw__paged_cut_out(engine, unmapped, place->address, place->handle->size_bytes);
    unmapped->segment_tag = vw__paged_serving_tag(engine);
    place->handle->block = vw__paged_open_block(engine, unmapped);
}

static vw_status see_to_records(vw__paged_engine *engine)
{
    return vw__block_source_reserve(&engine->base.records, VW__ENGINE_SPARE_RECORDS)
               ? VW_OK
               : vw__fail_host_memory(sizeof(vw__block), "block records");
}

vw_status vw__paged_create(vw__paged_engine *engine, uint64_t size_bytes, vw_handle *out)
{
    return vw__driver_create(&engine->base.owner, size_bytes, engine->is_shareable, out);
}

vw_status vw__paged_grow(vw__paged_engine *engine, vw__block *unmapped, uint64_t address,
                         uint64_t handle_bytes)
{
    VW__TRY(see_to_records(engine));
    vw__paged_handle *handle = vw__host_alloc_zeroed(1, sizeof *handle);
    vw__paged_place *place = handle != NULL ? vw__paged_take_place(engine) : NULL;
    if (place == NULL) {
        vw__host_free(handle);
        return vw__fail_host_memory(sizeof *handle + sizeof *place, "a handle");
    }
    handle->size_bytes = handle_bytes;
    *place = (vw__paged_place){.handle = handle, .segment = unmapped->segment, .address = address};
    vw_status status = vw__paged_create(engine, handle_bytes, &handle->device_handle);
    if (status == VW_OK) {
        status = vw__paged_map(engine, handle, address);
        if (engine->failure != NULL) {
            handle->home = place;
            vw__paged_link_handle(engine, handle);
            return status;
        }
        if (status != VW_OK)
            (void)vw__driver_release(&engine->base.owner, handle->device_handle);
    }
    if (status != VW_OK) {
        vw__paged_give_back_place(engine, place);
        vw__host_free(handle);
        return status;
    }
    vw__paged_link_handle(engine, handle);
    open_place(engine, place, unmapped);
    engine->base.owner.counters->num_device_alloc++;
    vw__paged_come_home(engine, place);
    return VW_OK;
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* Orders `stream` after the handle's last use. `*out` is the mark after that use. */
static vw_status order(vw__paged_engine *engine, const vw__paged_handle *handle, vw_stream stream,
                       vw__paged_mark **out)
{
    vw_stream old_stream = handle->home->segment->lane->stream;
    VW__TRY(vw__paged_mark_stream(engine, old_stream, out));
    if (old_stream == stream)
        return VW_OK;
    vw_status status = vw__paged_device(engine)->stream_wait_event(vw__paged_context(engine),
                                                                   stream, (*out)->event);
    if (status != VW_OK)
        vw__paged_leave_mark(engine, *out);
    else
        engine->stats.crossed_handles++;
    return status;
}

void vw__paged_add_ghost(vw__paged_engine *engine, vw__paged_place *place, vw__block *block,
                         vw__paged_mark *mark)
{
    vw__paged_handle *handle = place->handle;
    block->state = VW__BLOCK_GHOST;
    vw__paged_put_in(vw__block_lane(block), block);
    place->block = block;
    place->mark = mark;
    place->next = handle->ghosts;
    handle->ghosts = place;
    handle->ghost_count++;
    engine->stats.retiring_bytes += handle->size_bytes;
}

void vw__paged_become_ghost(vw__paged_engine *engine, vw__paged_handle *handle,
                            vw__paged_mark *mark)
{
    vw__paged_place *place = handle->home;
    vw__block *block = vw__paged_block_around(handle);
    vw__paged_leave_home(engine, place, block);
    vw__paged_cut_out(engine, block, place->address, handle->size_bytes);
    vw__paged_add_ghost(engine, place, block, mark);
    engine->stats.moved_handles++;
    engine->stats.moved_bytes += handle->size_bytes;
}

static void forget_ghost(vw__paged_engine *engine, vw__paged_place *ghost)
{
    vw__paged_handle *handle = ghost->handle;
    vw__paged_place **link = &handle->ghosts;
    while (*link != ghost)
        link = &(*link)->next;
    *link = ghost->next;
    handle->ghost_count--;
    engine->stats.retiring_bytes -= handle->size_bytes;
    vw__paged_leave_mark(engine, ghost->mark);
    vw__paged_take_out(vw__block_lane(ghost->block), ghost->block);
    ghost->mark = NULL;
}

vw_status vw__paged_move(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *unmapped,
                         uint64_t address)
{
    vw__paged_mark *mark = NULL;
    VW__TRY(see_to_records(engine));
    vw__paged_place *place = vw__paged_take_place(engine);
    if (place == NULL)
        return vw__fail_host_memory(sizeof *place, "a handle's place");
    *place = (vw__paged_place){.handle = handle, .segment = unmapped->segment, .address = address};
    vw_status status = order(engine, handle, unmapped->segment->lane->stream, &mark);
    if (status == VW_OK) {
        status = vw__paged_map(engine, handle, address);
        if (status != VW_OK)
            vw__paged_leave_mark(engine, mark);
    }
    if (engine->failure != NULL) {
        keep_stuck(place);
        return status;
    }
    if (status != VW_OK) {
        vw__paged_give_back_place(engine, place);
        return status;
    }
    vw__paged_become_ghost(engine, handle, mark);
    open_place(engine, place, unmapped);
    vw__paged_come_home(engine, place);
    return VW_OK;
}

vw_status vw__paged_revive(vw__paged_engine *engine, vw__paged_place *ghost)
{
    vw__paged_handle *handle = ghost->handle;
    vw__paged_mark *mark = NULL;
    VW__TRY(see_to_records(engine));
    VW__TRY(order(engine, handle, ghost->segment->lane->stream, &mark));
    vw__block *block = ghost->block;
    forget_ghost(engine, ghost);
    vw__paged_become_ghost(engine, handle, mark);
    ghost->block = NULL;
    block->segment_tag = vw__paged_serving_tag(engine);
    handle->block = vw__paged_open_block(engine, block);
    vw__paged_come_home(engine, ghost);
    return VW_OK;
}

/* ---- giving up ------------------------------------------------------------------------------- */

vw_status vw__paged_drop_ghost(vw__paged_engine *engine, vw__paged_place *ghost, bool can_wait)
{
    bool is_complete = false;
    VW__TRY(vw__paged_mark_is_complete(engine, ghost->mark, &is_complete));
    if (!is_complete && !can_wait)
        return VW_ERR_NOT_READY;
    if (!is_complete)
        VW__TRY(vw__paged_device(engine)->event_synchronize(vw__paged_context(engine),
                                                            ghost->mark->event));
    ghost->mark->is_complete = true;
    VW__TRY(vw__driver_unmap(&engine->base.owner, ghost->address, ghost->handle->size_bytes));
    vw__block *block = ghost->block;
    vw__paged_fill_units(engine, ghost, NULL);
    forget_ghost(engine, ghost);
    vw__paged_settle_unmapped(engine, block);
    vw__paged_give_back_place(engine, ghost);
    return VW_OK;
}

vw_status vw__paged_end_handle(vw__paged_engine *engine, vw__paged_handle *handle)
{
    vw__paged_unlink_handle(engine, handle);
    vw__paged_give_back_place(engine, handle->home);
    engine->base.owner.counters->num_device_free++;
    vw_status status = vw__driver_release(&engine->base.owner, handle->device_handle);
    vw__host_free(handle);
    return status; /* refused: unmapped all the same; the device keeps a handle nobody knows */
}

/* Listeners hear of it before the memory goes: what they registered must end first. */
vw_status vw__paged_release(vw__paged_engine *engine, vw__paged_handle *handle)
{
    vw__paged_place *home = handle->home;
    if (handle->parking != NULL) /* its parking ends it */
        return vw__fail(VW_ERR_PARKED, "the memory at %#" PRIx64 " is parked", home->address);
    VW__TRY(see_to_records(engine));
    vw__block *block = vw__paged_block_around(handle);
    vw__paged_leave_home(engine, home, block);
    vw_status status = vw__driver_unmap(&engine->base.owner, home->address, handle->size_bytes);
    if (status != VW_OK) {
        vw__paged_come_home(engine, home);
        return status;
    }
    vw__paged_cut_out(engine, block, home->address, handle->size_bytes);
    vw__paged_fill_units(engine, home, NULL);
    vw__paged_settle_unmapped(engine, block);
    return vw__paged_end_handle(engine, handle);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void abandon_places(vw__paged_engine *engine, vw__paged_place *place)
{
    for (vw__paged_place *next; place != NULL; place = next) {
        next = place->next;
        (void)vw__driver_unmap(&engine->base.owner, place->address, place->handle->size_bytes);
        vw__host_free(place);
    }
}

static void abandon_stuck(vw__paged_engine *engine, vw__paged_stuck *stuck)
{
    for (vw__paged_stuck *next; stuck != NULL; stuck = next) {
        next = stuck->next;
        if (stuck->is_reservation)
            (void)vw__driver_unreserve(&engine->base.owner, stuck->address, stuck->size_bytes);
        else
            (void)vw__driver_unmap(&engine->base.owner, stuck->address, stuck->size_bytes);
        vw__host_free(stuck);
    }
}

static void abandon_left(vw__paged_engine *engine)
{
    while (engine->spill != NULL && engine->spill->left != NULL) {
        vw__paged_handle *handle = engine->spill->left;
        engine->spill->left = handle->next;
        handle->home->next = NULL; /* a home is in no list: what is there is of another time */
        abandon_places(engine, handle->home);
        vw__paged_give_back_to_host(engine, handle->on_host);
        vw__host_free(handle);
    }
}

/* Blocks may be live, and work under way: cuMemFree() would wait for it, unmapping does not. */
void vw__paged_abandon(vw__paged_engine *engine)
{
    if (engine->handles != NULL || (engine->spill != NULL && engine->spill->left != NULL))
        (void)vw__paged_device(engine)->synchronize(vw__paged_context(engine));
    while (engine->handles != NULL) {
        vw__paged_handle *handle = engine->handles;
        abandon_places(engine, handle->ghosts);
        abandon_places(engine, handle->guests);
        (void)vw__driver_unmap(&engine->base.owner, handle->home->address, handle->size_bytes);
        vw__host_free(handle->home);
        if (handle->on_host != NULL)
            vw__paged_give_back_to_host(engine, handle->on_host);
        else
            (void)vw__driver_release(&engine->base.owner, handle->device_handle);
        vw__paged_unlink_handle(engine, handle);
        vw__host_free(handle);
    }
    abandon_left(engine);
    abandon_stuck(engine, engine->stuck);
    abandon_stuck(engine, engine->scratch);
    while (engine->base.segments != NULL) {
        vw__segment *segment = vw__segment_of_node(engine->base.segments);
        (void)vw__driver_unreserve(&engine->base.owner, segment->address, segment->size_bytes);
        vw__host_free(segment->detail);
        vw__engine_drop_segment(&engine->base, segment);
    }
    for (vw__paged_place *place = engine->spare_places, *next; place != NULL; place = next) {
        next = place->next;
        vw__host_free(place);
    }
    engine->spare_places = NULL;
}
