/* paged_inspect.c - the invariants, walked. What holds in every engine is in engine/inspect.c. */
#include "engine/paged/paged_engine.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "engine/paged/paged_spill.h"

typedef struct paged_census {
    const hr__paged_engine *engine;
    uint64_t ghost_blocks;
    uint64_t left_blocks;   /* of handles that are left on the host */
    uint64_t spilled_bytes; /* of blocks in use, in handles on the host */
    uint64_t advised_blocks;
} paged_census;

/* On the host, and nobody's. */
static bool is_left(const hr__place *place)
{
    return place->handle->on_host != NULL && place->handle->used_bytes == 0;
}

/* Which of a handle's places a block of this state may lie in. */
static hr_status check_page(const hr__block *block, const hr__place *place)
{
    bool is_home = place->handle->home == place;
    bool is_right = false;
    switch ((hr__block_state)block->state) {
    case HR__BLOCK_LIVE:
    case HR__BLOCK_PENDING:
        is_right = is_home || place->is_guest;
        break;
    case HR__BLOCK_FREE:
        is_right = is_home && place->handle->on_host == NULL;
        break;
    case HR__BLOCK_GHOST:
        is_right = is_left(place) || (!is_home && !place->is_guest);
        break;
    case HR__BLOCK_SHADOW:
        is_right = place->is_guest ||
                   (is_home && (place->handle->guest_count != 0 || place->handle->on_host != NULL));
        break;
    case HR__BLOCK_UNMAPPED:
        break;
    }
    HR__CHECK(is_right, "block %#" PRIx64 " lies in a page that is at home elsewhere, or is not",
              block->address);
    return HR_OK;
}

static hr_status check_ghost(paged_census *count, const hr__block *block)
{
    const hr__place *place = hr__paged_place_at(count->engine, block->segment, block->address);
    HR__CHECK(place->block == block && place->address == block->address &&
                  place->handle->size_bytes == block->size_bytes &&
                  (is_left(place) || (place->mark != NULL && place->mark->users != 0)),
              "ghost %#" PRIx64 " is not that of its handle", block->address);
    if (is_left(place))
        count->left_blocks++;
    else
        count->ghost_blocks++;
    return HR_OK;
}

static hr_status check_block(void *context, const hr__block *block)
{
    paged_census *count = context;
    const hr__paged_engine *engine = count->engine;
    const hr__segment *segment = block->segment;
    uint64_t end = block->address + block->size_bytes;
    uint64_t unit = engine->unit_bytes;
    uint64_t first = block->address - (block->address - segment->address) % unit;
    for (uint64_t address = first; address < end; address += unit) {
        const hr__place *place = hr__paged_place_at(engine, segment, address);
        if (block->state == HR__BLOCK_UNMAPPED) {
            HR__CHECK(
                place == NULL && first == block->address && end % unit == segment->address % unit,
                "unmapped block %#" PRIx64 " has a page, or is no run of pages", block->address);
            continue;
        }
        HR__CHECK(place != NULL && place->segment == segment && place->address <= address &&
                      address - place->address < place->handle->size_bytes,
                  "no page lies at %#" PRIx64, address);
        HR__TRY(check_page(block, place));
        if (hr__paged_is_in_use(block) && place->handle->on_host != NULL)
            count->spilled_bytes +=
                hr__min_u64(end, address + unit) - hr__max_u64(block->address, address);
    }
    count->advised_blocks += block->advice != HR_ADVISE_NORMAL;
    HR__CHECK(block->advice == HR_ADVISE_NORMAL || hr__paged_is_in_use(block),
              "block %#" PRIx64 ", which nobody uses, is advised", block->address);
    return block->state == HR__BLOCK_GHOST ? check_ghost(count, block) : HR_OK;
}

static hr_status check_handles(const paged_census *count)
{
    const hr__paged_engine *engine = count->engine;
    uint64_t handles = 0, bytes = 0, ghosts = 0, ghost_bytes = 0, all_guests = 0;
    for (const hr__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next) {
        uint32_t own = 0;
        handles++;
        bytes += handle->on_host != NULL ? handle->used_bytes : handle->size_bytes;
        HR__CHECK(handle->size_bytes != 0 && handle->size_bytes % engine->unit_bytes == 0,
                  "a handle of %" PRIu64 " bytes", handle->size_bytes);
        HR__CHECK(handle->home != NULL && handle->home->handle == handle &&
                      hr__paged_place_at(engine, handle->home->segment, handle->home->address) ==
                          handle->home,
                  "a handle is not at home");
        for (const hr__place *ghost = handle->ghosts; ghost != NULL; ghost = ghost->next, own++)
            HR__CHECK(ghost->handle == handle && ghost->block != NULL,
                      "a ghost at %#" PRIx64 " is another handle's", ghost->address);
        HR__CHECK(own == handle->ghost_count, "a handle has %u ghosts, not %u", own,
                  handle->ghost_count);
        uint32_t guests = 0;
        for (const hr__place *guest = handle->guests; guest != NULL; guest = guest->next, guests++)
            HR__CHECK(guest->handle == handle && guest->is_guest,
                      "a guest at %#" PRIx64 " is another handle's", guest->address);
        HR__CHECK(guests == handle->guest_count &&
                      (guests == 0 || handle->size_bytes == engine->unit_bytes),
                  "a handle of %" PRIu64 " bytes has %u guests, not %u", handle->size_bytes, guests,
                  handle->guest_count);
        all_guests += guests;
        ghosts += own;
        ghost_bytes += own * handle->size_bytes;
    }
    HR__CHECK(handles == engine->stats.handle_count, "%" PRIu64 " handles, not %" PRIu64, handles,
              engine->stats.handle_count);
    HR__CHECK(bytes == engine->base.held_bytes,
              "%" PRIu64 " bytes are held, the handles have %" PRIu64, engine->base.held_bytes,
              bytes);
    HR__CHECK(all_guests == engine->stats.shared_pages, "%" PRIu64 " guests, counted %" PRIu64,
              all_guests, engine->stats.shared_pages);
    HR__CHECK(ghosts == count->ghost_blocks, "%" PRIu64 " ghosts, %" PRIu64 " blocks for them",
              ghosts, count->ghost_blocks);
    HR__CHECK(ghost_bytes == engine->stats.retiring_bytes,
              "%" PRIu64 " bytes of ghosts, counted %" PRIu64, ghost_bytes,
              engine->stats.retiring_bytes);
    return HR_OK;
}

/* What is on the host is in use, has two records to spare at most, and was exchanged whole. */
static hr_status check_on_host(const paged_census *count)
{
    const hr__paged_engine *engine = count->engine;
    const hr__paged_spill *spill = engine->spill;
    uint64_t on_host = 0, bytes = 0, early_bytes = 0, left = 0;
    for (const hr__paged_handle *handle = engine->handles; handle != NULL; handle = handle->next) {
        if (handle->on_host == NULL)
            continue;
        on_host++;
        bytes += handle->used_bytes;
        early_bytes += handle->is_wanted_early ? handle->size_bytes : 0;
        HR__CHECK(handle->used_bytes != 0 && handle->used_bytes <= handle->size_bytes &&
                      handle->on_host->size_bytes == handle->size_bytes &&
                      handle->on_host->device_handle == handle->device_handle &&
                      handle->ghosts == NULL && handle->guests == NULL,
                  "handle %#" PRIx64 " is wrongly on the host", handle->home->address);
    }
    for (const hr__paged_handle *handle = spill != NULL ? spill->left : NULL; handle != NULL;
         handle = handle->next)
        left++;
    HR__CHECK(on_host == (spill != NULL ? spill->handle_count : 0),
              "%" PRIu64 " handles on the host, counted otherwise", on_host);
    HR__CHECK(bytes == count->spilled_bytes && bytes == engine->stats.spilled_bytes,
              "%" PRIu64 " bytes on the host, their blocks have %" PRIu64 ", counted %" PRIu64,
              bytes, count->spilled_bytes, engine->stats.spilled_bytes);
    HR__CHECK(early_bytes == (spill != NULL ? spill->early_bytes : 0),
              "%" PRIu64 " bytes are wanted back within the step, counted otherwise", early_bytes);
    HR__CHECK(left == count->left_blocks, "%" PRIu64 " handles are left, %" PRIu64 " blocks", left,
              count->left_blocks);
    HR__CHECK(engine->watched_frees == engine->stats.shared_pages + on_host + count->advised_blocks,
              "%" PRIu64 " reasons to look at frees, counted %" PRIu64,
              engine->stats.shared_pages + on_host + count->advised_blocks, engine->watched_frees);
    return HR_OK;
}

hr_status hr__paged_check(hr__engine *base)
{
    paged_census own = {.engine = hr__paged_of(base)};
    hr__census count = {.check_block = check_block, .context = &own};
    HR__TRY(hr__engine_check_blocks(base, &count));
    HR__TRY(check_handles(&own));
    HR__TRY(check_on_host(&own));
    return hr__engine_check_counter(&base->owner.counters->reserved_bytes, count.memory_bytes,
                                    "reserved_bytes");
}
