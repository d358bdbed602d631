/* paged_pins.c - memory that others can see stays where it is; and what there is to see.
 *
 * A pin counts on every handle under the block, and outlives the block: a peer that imported the
 * memory does not know that it was freed. The addresses pinned are few, so they are kept in a list.
 */
#include "engine/paged/paged_engine.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/host_memory.h"

struct hr__pin {
    hr__pin *next;
    hr__segment *segment;
    uint64_t address;
    uint64_t size_bytes;
    uint32_t count;
};

static hr__pin **find_pin(hr__paged_engine *engine, uint64_t address)
{
    hr__pin **link = &engine->pins;
    while (*link != NULL && (*link)->address != address)
        link = &(*link)->next;
    return link;
}

static void count_on_handles(hr__paged_engine *engine, const hr__pin *pin, int by)
{
    uint64_t address = pin->address, end = pin->address + pin->size_bytes;
    while (address < end) {
        hr__place *place = hr__paged_place_at(engine, pin->segment, address);
        place->handle->pin_count = (uint32_t)((int)place->handle->pin_count + by);
        address = place->address + place->handle->size_bytes;
    }
}

/* A freed block's pin may meet another block at its address by then, of another size: the larger
 * range is pinned from now on. */
hr_status hr__paged_pin(hr__engine *base, hr__block *block)
{
    hr__paged_engine *engine = hr__paged_of(base);
    hr__pin *pin = *find_pin(engine, block->address);
    if (pin == NULL) {
        pin = hr__host_alloc_zeroed(1, sizeof *pin);
        if (pin == NULL)
            return hr__fail_host_memory(sizeof *pin, "a pinned block");
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
    return HR_OK;
}

hr_status hr__paged_unpin(hr__engine *base, hr_device_ptr address)
{
    hr__paged_engine *engine = hr__paged_of(base);
    hr__pin **link = find_pin(engine, address), *pin = *link;
    if (pin == NULL)
        return hr__fail(HR_ERR_UNKNOWN_ADDRESS, "%#" PRIx64 " is not pinned", address);
    if (--pin->count != 0)
        return HR_OK;
    count_on_handles(engine, pin, -1);
    *link = pin->next;
    hr__host_free(pin);
    return HR_OK;
}

/* ---- which memory ---------------------------------------------------------------------------- */

static hr_status visit_place(const hr__place *place, hr__piece_visitor visit, void *context)
{
    return visit(context, place->address, place->handle->size_bytes, place->handle->device_handle);
}

static hr_status visit_places(const hr__place *place, hr__piece_visitor visit, void *context)
{
    for (; place != NULL; place = place->next)
        HR__TRY(visit_place(place, visit, context));
    return HR_OK;
}

/* Ghosts count as well: they may be in use again without the device being asked. */
hr_status hr__paged_walk_pieces(hr__engine *base, const hr__block *under, hr__piece_visitor visit,
                                void *context)
{
    hr__paged_engine *engine = hr__paged_of(base);
    if (under != NULL) {
        uint64_t end = under->address + under->size_bytes;
        for (uint64_t address = under->address; address < end;) {
            const hr__place *place = hr__paged_place_at(engine, under->segment, address);
            if (place->handle->on_host != NULL)
                return hr__fail(HR_ERR_UNSUPPORTED,
                                "block %#" PRIx64 " was spilled to host memory, which cannot be "
                                "handed to others",
                                under->address);
            HR__TRY(visit_place(place, visit, context));
            address = place->address + place->handle->size_bytes;
        }
        return HR_OK;
    }
    for (const hr__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next) {
        HR__TRY(visit_place(handle->home, visit, context));
        HR__TRY(visit_places(handle->guests, visit, context));
        HR__TRY(visit_places(handle->ghosts, visit, context));
    }
    return HR_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

void hr__paged_end_pins(hr__paged_engine *engine)
{
    while (engine->pins != NULL) {
        hr__pin *pin = engine->pins;
        engine->pins = pin->next;
        hr__host_free(pin);
    }
}
