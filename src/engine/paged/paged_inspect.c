/* paged_inspect.c - the invariants, walked. What holds in every engine is in engine/inspect.c. */
#include "engine/paged/paged_inspect.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "engine/paged/paged_park.h"

typedef struct paged_census {
    const vw__paged_engine *engine;
    uint64_t ghost_blocks;
    uint64_t left_blocks;   /* of handles that are left on the host */
    uint64_t spilled_bytes; /* of blocks in use, in handles on the host */
    uint64_t advised_blocks;
    uint64_t parked_bytes[2]; /* of handles, by vw__engine_size_kind */
} paged_census;

/* On the host, with no block in use. */
static bool is_left(const vw__paged_place *place)
{
    return place->handle->on_host != NULL && place->handle->used_bytes == 0;
}

/* Which of a handle's places a block of this state may lie in. */
static vw_status check_page(const vw__block *block, const vw__paged_place *place)
{
    bool is_home = place->handle->home == place;
    bool is_right = false;
    switch ((vw__block_state)block->state) {
    case VW__BLOCK_LIVE:
    case VW__BLOCK_PENDING:
        is_right = is_home || place->is_guest;
        break;
    case VW__BLOCK_FREE:
        is_right = is_home && place->handle->on_host == NULL;
        break;
    case VW__BLOCK_GHOST:
        is_right = is_left(place) || (!is_home && !place->is_guest);
        break;
    case VW__BLOCK_SHADOW:
        is_right = place->is_guest ||
                   (is_home && (place->handle->guest_count != 0 || place->handle->on_host != NULL));
        break;
    case VW__BLOCK_UNMAPPED:
        break;
    }
    VW__ENGINE_CHECK(is_right,
                     "block %#" PRIx64 " lies in a page that is at home elsewhere, or is not",
                     block->address);
    return VW_OK;
}

static vw_status check_ghost(paged_census *count, const vw__block *block)
{
    const vw__paged_place *place =
        vw__paged_place_at(count->engine, block->segment, block->address);
    VW__ENGINE_CHECK(place->block == block && place->address == block->address &&
                         place->handle->size_bytes == block->size_bytes &&
                         (is_left(place) || (place->mark != NULL && place->mark->users != 0)),
                     "ghost %#" PRIx64 " is not that of its handle", block->address);
    if (is_left(place))
        count->left_blocks++;
    else
        count->ghost_blocks++;
    return VW_OK;
}

static vw_status check_block(void *context, const vw__block *block)
{
    paged_census *count = context;
    const vw__paged_engine *engine = count->engine;
    const vw__segment *segment = block->segment;
    uint64_t end = block->address + block->size_bytes;
    uint64_t unit = engine->unit_bytes;
    uint64_t first = block->address - (block->address - segment->address) % unit;
    for (uint64_t address = first; address < end; address += unit) {
        const vw__paged_place *place = vw__paged_place_at(engine, segment, address);
        if (block->state == VW__BLOCK_UNMAPPED) {
            VW__ENGINE_CHECK(
                place == NULL && first == block->address && end % unit == segment->address % unit,
                "unmapped block %#" PRIx64 " has a page, or is no run of pages", block->address);
            continue;
        }
        VW__ENGINE_CHECK(place != NULL && place->segment == segment && place->address <= address &&
                             address - place->address < place->handle->size_bytes,
                         "no page lies at %#" PRIx64, address);
        VW__TRY(check_page(block, place));
        if (vw__paged_is_in_use(block) && place->handle->on_host != NULL)
            count->spilled_bytes +=
                vw__min_u64(end, address + unit) - vw__max_u64(block->address, address);
    }
    count->advised_blocks += block->advice != VW_ADVISE_NORMAL;
    VW__ENGINE_CHECK(block->advice == VW_ADVISE_NORMAL || vw__paged_is_in_use(block),
                     "block %#" PRIx64 ", which nobody uses, is advised", block->address);
    return block->state == VW__BLOCK_GHOST ? check_ghost(count, block) : VW_OK;
}

static vw_status check_handles(paged_census *count)
{
    const vw__paged_engine *engine = count->engine;
    uint64_t handles = 0, bytes = 0, ghosts = 0, ghost_bytes = 0, all_guests = 0, whole[2] = {0, 0};
    for (const vw__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next) {
        uint32_t own = 0;
        handles++;
        if (handle->parking != NULL)
            count->parked_bytes[handle->home->segment->lane->shelf->kind] += handle->size_bytes;
        else
            bytes += handle->on_host != NULL ? handle->used_bytes : handle->size_bytes;
        VW__ENGINE_CHECK(handle->size_bytes != 0 && handle->size_bytes % engine->unit_bytes == 0,
                         "a handle of %" PRIu64 " bytes", handle->size_bytes);
        VW__ENGINE_CHECK(handle->home != NULL && handle->home->handle == handle &&
                             vw__paged_place_at(engine, handle->home->segment,
                                                handle->home->address) == handle->home,
                         "a handle is not at home");
        whole[handle->home->segment->lane->shelf->kind] +=
            vw__segment_is_whole(handle->home->segment);
        VW__ENGINE_CHECK(!vw__segment_is_whole(handle->home->segment) ||
                             (handle->size_bytes == handle->home->segment->size_bytes &&
                              handle->pin_count != 0 && handle->ghosts == NULL),
                         "segment %#" PRIx64 " should be one handle that stays",
                         handle->home->segment->address);
        for (const vw__paged_place *ghost = handle->ghosts; ghost != NULL;
             ghost = ghost->next, own++)
            VW__ENGINE_CHECK(ghost->handle == handle && ghost->block != NULL,
                             "a ghost at %#" PRIx64 " is another handle's", ghost->address);
        VW__ENGINE_CHECK(own == handle->ghost_count, "a handle has %u ghosts, not %u", own,
                         handle->ghost_count);
        uint32_t guests = 0;
        for (const vw__paged_place *guest = handle->guests; guest != NULL;
             guest = guest->next, guests++)
            VW__ENGINE_CHECK(guest->handle == handle && guest->is_guest,
                             "a guest at %#" PRIx64 " is another handle's", guest->address);
        VW__ENGINE_CHECK(guests == handle->guest_count &&
                             (guests == 0 || handle->size_bytes == engine->unit_bytes),
                         "a handle of %" PRIu64 " bytes has %u guests, not %u", handle->size_bytes,
                         guests, handle->guest_count);
        all_guests += guests;
        ghosts += own;
        ghost_bytes += own * handle->size_bytes;
    }
    VW__ENGINE_CHECK(handles == engine->stats.handle_count, "%" PRIu64 " handles, not %" PRIu64,
                     handles, engine->stats.handle_count);
    VW__ENGINE_CHECK(bytes == engine->base.held_bytes,
                     "%" PRIu64 " bytes are held, the handles have %" PRIu64,
                     engine->base.held_bytes, bytes);
    VW__ENGINE_CHECK(all_guests == engine->stats.shared_pages,
                     "%" PRIu64 " guests, counted %" PRIu64, all_guests,
                     engine->stats.shared_pages);
    VW__ENGINE_CHECK(ghosts == count->ghost_blocks,
                     "%" PRIu64 " ghosts, %" PRIu64 " blocks for them", ghosts,
                     count->ghost_blocks);
    VW__ENGINE_CHECK(ghost_bytes == engine->stats.retiring_bytes,
                     "%" PRIu64 " bytes of ghosts, counted %" PRIu64, ghost_bytes,
                     engine->stats.retiring_bytes);
    return vw__engine_check_counter(&engine->base.owner.counters->segment, whole, "segment");
}

/* A handle on the host is in use, and was exchanged as a whole. */
static vw_status check_on_host(const paged_census *count)
{
    const vw__paged_engine *engine = count->engine;
    const vw__paged_spill *spill = engine->spill;
    uint64_t on_host = 0, bytes = 0, early_bytes = 0, left = 0;
    for (const vw__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next) {
        if (handle->on_host == NULL)
            continue;
        on_host++;
        bytes += handle->used_bytes;
        early_bytes += handle->is_wanted_early ? handle->size_bytes : 0;
        VW__ENGINE_CHECK(handle->used_bytes != 0 && handle->used_bytes <= handle->size_bytes &&
                             handle->on_host->size_bytes == handle->size_bytes &&
                             handle->on_host->device_handle == handle->device_handle &&
                             handle->ghosts == NULL && handle->guests == NULL,
                         "handle %#" PRIx64 " is wrongly on the host", handle->home->address);
    }
    for (const vw__paged_handle *handle = spill != NULL ? spill->left : NULL; handle != NULL;
         handle = handle->next)
        left++;
    VW__ENGINE_CHECK(on_host == (spill != NULL ? spill->handle_count : 0),
                     "%" PRIu64 " handles on the host, counted otherwise", on_host);
    VW__ENGINE_CHECK(bytes == count->spilled_bytes && bytes == engine->stats.spilled_bytes,
                     "%" PRIu64 " bytes on the host, their blocks have %" PRIu64
                     ", counted %" PRIu64,
                     bytes, count->spilled_bytes, engine->stats.spilled_bytes);
    VW__ENGINE_CHECK(early_bytes == (spill != NULL ? spill->early_bytes : 0),
                     "%" PRIu64 " bytes are wanted back within the step, counted otherwise",
                     early_bytes);
    VW__ENGINE_CHECK(left == count->left_blocks, "%" PRIu64 " handles are left, %" PRIu64 " blocks",
                     left, count->left_blocks);
    VW__ENGINE_CHECK(
        engine->watched_frees == engine->stats.shared_pages + on_host + count->advised_blocks,
        "%" PRIu64 " reasons to look at frees, counted %" PRIu64,
        engine->stats.shared_pages + on_host + count->advised_blocks, engine->watched_frees);
    return VW_OK;
}

/* A parked handle is one parking's, and has no memory but a stand-in's. */
static vw_status check_parked(const paged_census *count)
{
    const vw__paged_engine *engine = count->engine;
    uint64_t bytes = count->parked_bytes[VW__ENGINE_SMALL] + count->parked_bytes[VW__ENGINE_LARGE];
    uint64_t listed_bytes = 0;
    for (const vw__paged_parking *parking = engine->parkings; parking != NULL;
         parking = parking->next)
        for (size_t i = 0; i < parking->count; i++) {
            if (parking->items[i].handle == NULL)
                continue;
            VW__ENGINE_CHECK(vw__paged_is_parked_in(parking, i),
                             "a parking lists handle %zu, which is not parked there", i);
            listed_bytes += parking->items[i].handle->size_bytes;
        }
    VW__ENGINE_CHECK(bytes == engine->stats.parked_bytes && bytes == listed_bytes,
                     "%" PRIu64 " bytes are parked, listed %" PRIu64 ", counted %" PRIu64, bytes,
                     listed_bytes, engine->stats.parked_bytes);
    for (const vw__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next)
        VW__ENGINE_CHECK(handle->parking == NULL ||
                             (handle->ghosts == NULL && handle->on_host == NULL &&
                              handle->device_handle ==
                                  (handle->stand_in != NULL ? handle->stand_in->device_handle : 0)),
                         "handle %#" PRIx64 " is wrongly parked", handle->home->address);
    return VW_OK;
}

vw_status vw__paged_check(vw__engine *base)
{
    paged_census own = {.engine = vw__paged_of(base)};
    vw__engine_census count = {.check_block = check_block, .context = &own};
    VW__TRY(vw__engine_check_blocks(base, &count));
    VW__TRY(check_handles(&own));
    VW__TRY(check_on_host(&own));
    VW__TRY(check_parked(&own));
    for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++)
        count.memory_bytes[kind] -= own.parked_bytes[kind];
    return vw__engine_check_counter(&base->owner.counters->reserved_bytes, count.memory_bytes,
                                    "reserved_bytes");
}
