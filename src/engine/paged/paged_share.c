/* paged_share.c - pages in use at several addresses.
 *
 * Two pages of one lane that are both in use in a few places, at different offsets, need but one:
 * what is live in the second is copied to the same offsets of the first, and the first is mapped at
 * the second's addresses, too. The second goes back to the device. Its place is a *guest* of the
 * first's handle. This is what is left when every unit that nobody uses has been freed, and brings
 * a pool from a few percent above what is live to less than one.
 *
 *   home     [ live A ][ free ][ shadow: live B's bytes ][ free ]
 *   guest    [ shadow ........][ live B                 ][ shadow ]
 *
 * The free bytes belong to the home: at the guest everything that is not live is SHADOW, which no
 * search finds. So an allocation needs to know nothing of this. When a block comes free at the
 * guest, its bytes become SHADOW there and FREE at the home (vw__paged_free_part). A guest
 * that nobody uses any more is *vacated*, and becomes a ghost at the next miss, since a free must
 * not call the driver.
 *
 * Only within a lane: both addresses are then used in the order of one stream, and writes through
 * one are seen through the other from one kernel to the next. */
#include "engine/paged/paged_share.h"

#include <stdlib.h> /* qsort */

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"
#include "engine/paged/paged_books.h"
#include "engine/paged/paged_handles.h"
#include "engine/paged/paged_moment.h"

enum {
    MASK_BITS = 64,
    MOST_GUESTS = 3,
    MOST_BITS = 63, /* a fuller page has no room for a partner */
};

/* ---- coming free ----------------------------------------------------------------------------- */

static vw__paged_place *guest_at(const vw__paged_engine *engine, const vw__block *block,
                                 uint64_t address)
{
    vw__paged_place *place = vw__paged_place_at(engine, block->segment, address);
    return place->is_guest ? place : NULL;
}

/* A record that the guest kept for this. */
static vw__block *spare_record(vw__paged_engine *engine, vw__paged_place *guest, uint64_t address,
                               uint64_t size_bytes)
{
    vw__block *record = guest->spare_records;
    guest->spare_records = (vw__block *)(void *)record->node.left;
    vw__block_give_back(&engine->base.records, record);
    return vw__block_make(&engine->base.records, guest->segment, address, size_bytes, 0);
}

/* Takes the SHADOW block at the home for the part of a block at `address` of the guest. */
static vw__block *take_shadow(vw__paged_place *guest, uint64_t address)
{
    uint64_t home_address = guest->handle->home->address + (address - guest->address);
    vw__block **link = &guest->shadows;
    while ((*link)->address != home_address)
        link = (vw__block **)(void *)&(*link)->node.left;
    vw__block *shadow = *link;
    *link = (vw__block *)(void *)shadow->node.left;
    return shadow;
}

/* `part`, a block in no index that lies in the guest, is used no more: its bytes are the home's. */
static void give_to_home(vw__paged_engine *engine, vw__paged_place *guest, vw__block *part)
{
    part->state = VW__BLOCK_SHADOW;
    vw__paged_settle_free(engine, take_shadow(guest, part->address), engine->clock);
    if (--guest->used_pieces == 0) {
        guest->next_vacated = engine->vacated;
        engine->vacated = guest;
    }
}

/* False: the block lies in no guest, and nothing was done. */
static bool free_in_guests(vw__paged_engine *engine, vw__block *block)
{
    const vw__segment *segment = block->segment;
    uint64_t last_byte = block->address + block->size_bytes - 1;
    vw__paged_place *low = guest_at(engine, block, block->address);
    vw__paged_place *high = guest_at(engine, block, last_byte);
    if (low == NULL && high == NULL)
        return false;
    if (high != NULL && high != low) {
        uint64_t address = vw__paged_unit_at(engine, segment, last_byte);
        vw__block *part =
            spare_record(engine, high, address, block->address + block->size_bytes - address);
        vw__block_link_after(part, block);
        block->size_bytes -= part->size_bytes;
        give_to_home(engine, high, part);
    }
    if (low != NULL) {
        uint64_t unit_end = low->address + low->handle->size_bytes;
        if (block->address + block->size_bytes <= unit_end) {
            give_to_home(engine, low, block);
            return true;
        }
        vw__block *part = spare_record(engine, low, block->address, unit_end - block->address);
        vw__block_link_before(part, block);
        block->address = unit_end;
        block->size_bytes -= part->size_bytes;
        give_to_home(engine, low, part);
    }
    vw__paged_settle_free(engine, block, engine->clock);
    return true;
}

void vw__paged_free_part(vw__paged_engine *engine, vw__block *block)
{
    if (engine->stats.shared_pages == 0 || !free_in_guests(engine, block))
        vw__paged_settle_free(engine, block, engine->clock);
}

static void give_back_spares(vw__paged_engine *engine, vw__paged_place *guest)
{
    while (guest->spare_records != NULL) {
        vw__block *record = guest->spare_records;
        guest->spare_records = (vw__block *)(void *)record->node.left;
        vw__block_give_back(&engine->base.records, record);
    }
}

/* The guest's blocks, SHADOW all of them, become one GHOST. */
static void make_ghost_of(vw__paged_engine *engine, vw__paged_place *guest, vw__paged_mark *mark)
{
    vw__paged_handle *handle = guest->handle;
    vw__paged_place **link = &handle->guests;
    while (*link != guest)
        link = &(*link)->next;
    *link = guest->next;
    handle->guest_count--;
    engine->stats.shared_pages--;
    engine->watched_frees--;
    give_back_spares(engine, guest);
    vw__block *block = vw__engine_find(&engine->base, guest->address);
    while (block->size_bytes < handle->size_bytes) {
        vw__block *next = block->next;
        vw__block_absorb_next(block);
        vw__block_give_back(&engine->base.records, next);
    }
    guest->is_guest = false;
    vw__paged_add_ghost(engine, guest, block, mark);
}

/* Its addresses are pinned, its memory is parked, or its stream must not see an event now. */
static bool has_to_stay(const vw__paged_engine *engine, const vw__paged_place *guest)
{
    return guest->handle->pin_count != 0 || guest->handle->parking != NULL ||
           vw__engine_is_capturing(&engine->base, guest->segment->lane->stream);
}

vw_status vw__paged_settle_vacated(vw__paged_engine *engine)
{
    for (vw__paged_place **link = &engine->vacated; *link != NULL;) {
        vw__paged_place *guest = *link;
        vw__paged_mark *mark = NULL;
        if (has_to_stay(engine, guest)) {
            link = &guest->next_vacated;
            continue;
        }
        VW__TRY(vw__paged_mark_stream(engine, guest->segment->lane->stream, &mark));
        *link = guest->next_vacated;
        make_ghost_of(engine, guest, mark);
    }
    return VW_OK;
}

/* ---- which pages ----------------------------------------------------------------------------- */

/* A page of one unit that is partly in use. */
typedef struct part_page {
    vw__paged_handle *handle;
    vw__block *first; /* the block that holds its first byte */
    uint64_t mask;    /* a bit for each 64th of it that is in use */
    unsigned bits;
} part_page;

typedef struct part_pages {
    part_page *items; /* owned */
    size_t count;
    size_t capacity;
} part_pages;

/* Bits [first, last]. */
static uint64_t bits_between(uint64_t first, uint64_t last)
{
    uint64_t upper = last >= MASK_BITS - 1 ? UINT64_MAX : (UINT64_C(1) << (last + 1)) - 1;
    return upper & ~((UINT64_C(1) << first) - 1);
}

static uint64_t mask_of(const vw__paged_handle *handle, const vw__block *block)
{
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes, mask = 0;
    uint64_t step_bytes = handle->size_bytes / MASK_BITS;
    for (; block != NULL && block->address < end; block = block->next) {
        if (block->state == VW__BLOCK_FREE)
            continue;
        uint64_t from = vw__max_u64(block->address, begin) - begin;
        uint64_t to = vw__min_u64(block->address + block->size_bytes, end) - begin;
        mask |= bits_between(from / step_bytes, (to - 1) / step_bytes);
    }
    return mask;
}

static vw_status add_page(void *context, vw__paged_engine *engine, vw__paged_handle *handle,
                          vw__block *first)
{
    part_pages *pages = context;
    uint64_t mask = handle->size_bytes == engine->unit_bytes ? mask_of(handle, first) : 0;
    unsigned bits = (unsigned)__builtin_popcountll(mask);
    if (bits == 0 || bits > MOST_BITS)
        return VW_OK;
    if (pages->count == pages->capacity) {
        size_t capacity = pages->capacity != 0 ? 2 * pages->capacity : 64;
        part_page *grown = vw__host_realloc(pages->items, capacity * sizeof *grown);
        if (grown == NULL)
            return vw__fail_host_memory(capacity * sizeof *grown, "pages in part use");
        pages->items = grown;
        pages->capacity = capacity;
    }
    pages->items[pages->count++] = (part_page){handle, first, mask, bits};
    return VW_OK;
}

static int by_bits(const void *left, const void *right)
{
    const part_page *a = left, *b = right;
    if (a->bits != b->bits)
        return a->bits < b->bits ? -1 : 1;
    return a->handle->home->address < b->handle->home->address ? -1 : 1;
}

/* The fullest page that has room for what is in use of `page`; NULL: none. */
static part_page *find_partner(part_pages *pages, const part_page *page)
{
    for (size_t i = pages->count; i-- > 0;) {
        part_page *other = &pages->items[i];
        if (other->handle != NULL && other != page && (other->mask & page->mask) == 0 &&
            other->handle->guest_count < MOST_GUESTS &&
            other->handle->home->segment->lane == page->handle->home->segment->lane)
            return other;
    }
    return NULL;
}

/* ---- sharing --------------------------------------------------------------------------------- */

/* How many records settle_share() may take: two for each part of a block, and two to keep. */
static size_t count_records(const part_page *page)
{
    uint64_t begin = page->handle->home->address, end = begin + page->handle->size_bytes;
    size_t count = 2;
    for (const vw__block *block = vw__paged_walk_to(page->first, begin);
         block != NULL && block->address < end; block = block->next)
        count += 2;
    return count;
}

/* The page's addresses show `host`'s memory from now on. */
static vw_status swap(vw__paged_engine *engine, const vw__paged_handle *old,
                      const vw__paged_handle *host)
{
    uint64_t address = old->home->address;
    VW__TRY(vw__driver_unmap(&engine->base.owner, address, old->size_bytes));
    vw_status status = vw__paged_map(engine, host, address);
    if (status != VW_OK)
        vw__paged_map_back(engine, old);
    return status;
}

static vw__block *cut_to_shadow(vw__paged_engine *engine, vw__block *block, uint64_t address,
                                uint64_t size_bytes)
{
    vw__paged_cut_out(engine, block, address, size_bytes);
    block->state = VW__BLOCK_SHADOW;
    return block;
}

static void settle_share(vw__paged_engine *engine, const part_page *page, const part_page *host,
                         vw__paged_place *guest)
{
    uint64_t begin = guest->address, end = begin + host->handle->size_bytes;
    uint64_t home = host->handle->home->address;
    vw__block *block = vw__paged_walk_to(page->first, begin);
    vw__block *home_block = vw__paged_walk_to(host->first, home);
    for (uint64_t at = begin; at < end;) {
        block = vw__paged_walk_to(block, at);
        uint64_t to = vw__min_u64(block->address + block->size_bytes, end);
        if (vw__paged_is_in_use(block)) {
            home_block = vw__paged_walk_to(home_block, home + (at - begin));
            home_block = cut_to_shadow(engine, home_block, home + (at - begin), to - at);
            home_block->node.left = (vw__tree_node *)(void *)guest->shadows;
            guest->shadows = home_block;
            guest->used_pieces++;
        } else {
            block = cut_to_shadow(engine, block, at, to - at);
        }
        at = to;
    }
    for (int i = 0; i < 2; i++) {
        vw__block *record = vw__block_take(&engine->base.records);
        record->node.left = (vw__tree_node *)(void *)guest->spare_records;
        guest->spare_records = record;
    }
    vw__paged_fill_units(engine, guest, guest);
    guest->next = host->handle->guests;
    host->handle->guests = guest;
    host->handle->guest_count++;
    engine->stats.shared_pages++;
    engine->watched_frees++;
}

static vw_status share(vw__paged_engine *engine, part_page *page, part_page *host, vw_stream stream)
{
    vw__paged_handle *old = page->handle;
    while (old->ghosts != NULL)
        VW__TRY(vw__paged_drop_ghost(engine, old->ghosts, true));
    if (!vw__block_source_reserve(&engine->base.records, count_records(page)))
        return vw__fail_host_memory(sizeof(vw__block), "block records");
    vw__paged_place *guest = vw__paged_take_place(engine);
    if (guest == NULL)
        return vw__fail_host_memory(sizeof *guest, "a handle's place");
    *guest = (vw__paged_place){.handle = host->handle,
                               .segment = old->home->segment,
                               .address = old->home->address,
                               .is_guest = true};
    vw_status status =
        vw__paged_copy_live(engine, old, page->first, host->handle->home->address, stream);
    if (status == VW_OK)
        status = swap(engine, old, host->handle);
    if (status != VW_OK) { /* at the end a page that is stuck there is unmapped as the old one */
        vw__paged_give_back_place(engine, guest);
        return engine->failure != NULL ? vw__fail(VW_ERR_DEVICE, "%s", engine->failure) : status;
    }
    settle_share(engine, page, host, guest);
    vw__paged_leave_home(engine, old->home, guest->segment->first);
    host->mask |= page->mask;
    host->bits += page->bits;
    page->handle = NULL;
    return vw__paged_end_handle(engine, old);
}

static vw_status share_all(vw__paged_engine *engine, part_pages *pages, vw_stream stream,
                           uint64_t wanted_bytes, uint64_t *gained_bytes)
{
    VW__TRY(vw__paged_each_home_in_use(engine, add_page, pages));
    if (pages->count != 0)
        qsort(pages->items, pages->count, sizeof *pages->items, by_bits);
    for (size_t i = 0; i < pages->count && *gained_bytes < wanted_bytes; i++) {
        part_page *page = &pages->items[i];
        if (page->handle == NULL || page->handle->guest_count != 0)
            continue;
        part_page *host = find_partner(pages, page);
        if (host == NULL)
            continue;
        VW__TRY(share(engine, page, host, stream));
        *gained_bytes += engine->unit_bytes;
    }
    return VW_OK;
}

vw_status vw__paged_share_pages(vw__paged_engine *engine, vw_stream stream, uint64_t wanted_bytes,
                                uint64_t *gained_bytes)
{
    part_pages pages = {.count = 0};
    vw_status status = VW_OK;
    if (engine->unit_bytes % MASK_BITS == 0)
        status = share_all(engine, &pages, stream, wanted_bytes, gained_bytes);
    vw__host_free(pages.items);
    return status;
}
