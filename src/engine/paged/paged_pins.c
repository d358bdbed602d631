/* paged_pins.c - memory that others can see stays where it is; and what there is to see.
 *
 * A pin counts on every handle under the block, and outlives the block: a peer that imported the
 * memory does not know that it was freed. The addresses pinned are few, so they are kept in a list.
 */
#include "engine/paged/paged_pins.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/host_memory.h"

struct vw__paged_pinned {
    vw__paged_pinned *next;
    vw__segment *segment;
    uint64_t address;
    uint64_t size_bytes;
    uint32_t count;
};

static vw__paged_pinned **find_pin(vw__paged_engine *engine, uint64_t address)
{
    vw__paged_pinned **link = &engine->pins;
    while (*link != NULL && (*link)->address != address)
        link = &(*link)->next;
    return link;
}

static void count_on_handles(vw__paged_engine *engine, const vw__paged_pinned *pin, int by)
{
    uint64_t address = pin->address, end = pin->address + pin->size_bytes;
    while (address < end) {
        vw__paged_place *place = vw__paged_place_at(engine, pin->segment, address);
        place->handle->pin_count = (uint32_t)((int)place->handle->pin_count + by);
        address = place->address + place->handle->size_bytes;
    }
}

static bool is_parked(const vw__paged_engine *engine, const vw__block *block)
{
    uint64_t address = block->address, end = block->address + block->size_bytes;
    while (address < end) {
        const vw__paged_place *place = vw__paged_place_at(engine, block->segment, address);
        if (place->handle->parking != NULL)
            return true;
        address = place->address + place->handle->size_bytes;
    }
    return false;
}

/* A freed block's pin may meet another block at its address by then, of another size: the larger
 * range is pinned from now on. */
vw_status vw__paged_pin(vw__engine *base, vw__block *block)
{
    vw__paged_engine *engine = vw__paged_of(base);
    if (engine->parkings != NULL && is_parked(engine, block))
        return vw__fail(VW_ERR_PARKED, "block %#" PRIx64 " is parked", block->address);
    vw__paged_pinned *pin = *find_pin(engine, block->address);
    if (pin == NULL) {
        pin = vw__host_alloc_zeroed(1, sizeof *pin);
        if (pin == NULL)
            return vw__fail_host_memory(sizeof *pin, "a pinned block");
        pin->segment = block->segment;
        pin->address = block->address;
        pin->next = engine->pins;
        engine->pins = pin;
    } else {
        count_on_handles(engine, pin, -1);
    }
    if (block->size_bytes > pin->size_bytes)
        pin->size_bytes = block->size_bytes;
    count_on_handles(engine, pin, +1);
    pin->count++;
    return VW_OK;
}

vw_status vw__paged_unpin(vw__engine *base, vw_device_ptr address)
{
    vw__paged_engine *engine = vw__paged_of(base);
    vw__paged_pinned **link = find_pin(engine, address), *pin = *link;
    if (pin == NULL)
        return vw__fail(VW_ERR_UNKNOWN_ADDRESS, "%#" PRIx64 " is not pinned", address);
    if (--pin->count != 0)
        return VW_OK;
    count_on_handles(engine, pin, -1);
    *link = pin->next;
    vw__host_free(pin);
    return VW_OK;
}

/* ---- which memory ---------------------------------------------------------------------------- */

static vw_status visit_place(const vw__paged_place *place, vw__engine_piece_visitor visit,
                             void *context)
{
    return visit(context, place->address, place->handle->size_bytes, place->handle->device_handle);
}

static vw_status visit_places(const vw__paged_place *place, vw__engine_piece_visitor visit,
                              void *context)
{
    for (; place != NULL; place = place->next)
        VW__TRY(visit_place(place, visit, context));
    return VW_OK;
}

/* Ghosts count as well: they may be in use again without the device being asked. */
vw_status vw__paged_walk_pieces(vw__engine *base, const vw__block *under,
                                vw__engine_piece_visitor visit, void *context)
{
    vw__paged_engine *engine = vw__paged_of(base);
    if (under != NULL) {
        uint64_t end = under->address + under->size_bytes;
        for (uint64_t address = under->address; address < end;) {
            const vw__paged_place *place = vw__paged_place_at(engine, under->segment, address);
            if (place->handle->parking != NULL)
                return vw__fail(VW_ERR_PARKED, "block %#" PRIx64 " is parked", under->address);
            if (place->handle->on_host != NULL)
                return vw__fail(VW_ERR_UNSUPPORTED,
                                "block %#" PRIx64 " was spilled to host memory, which cannot be "
                                "handed to others",
                                under->address);
            VW__TRY(visit_place(place, visit, context));
            address = place->address + place->handle->size_bytes;
        }
        return VW_OK;
    }
    for (const vw__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next) {
        if (handle->parking != NULL && handle->stand_in == NULL)
            continue; /* nothing is mapped */
        VW__TRY(visit_place(handle->home, visit, context));
        VW__TRY(visit_places(handle->guests, visit, context));
        VW__TRY(visit_places(handle->ghosts, visit, context));
    }
    return VW_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

void vw__paged_end_pins(vw__paged_engine *engine)
{
    while (engine->pins != NULL) {
        vw__paged_pinned *pin = engine->pins;
        engine->pins = pin->next;
        vw__host_free(pin);
    }
}
