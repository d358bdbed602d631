/* torch_expandable.c - segments that grow and shrink page by page.
 *
 * An expandable segment reserves more addresses than the device has memory (nine eighths of it) and
 * maps physical pages under them as they are needed, so that a stream's blocks stay in one range
 * and merge with each other. There is one such segment per shelf and stream, and a second only if
 * no unmapped range of the first can hold a request.
 *
 * A page is one handle: 2 MiB on a small shelf, the large segment size on a large one. The unmapped
 * parts of the reservation are blocks as well (VW__BLOCK_UNMAPPED), always whole pages.
 *
 * The order of the books. The device is called first, the books follow what it did:
 *   - map_block(): if a page cannot be created or mapped, what this call mapped is unmapped again
 *     and nothing changed. Pages that earlier calls for the same request mapped stay, as free
 *     memory: PyTorch leaves them, too.
 *   - vw__torch_shrink_expandable(): if unmapping stops half-way, the pages before that are given
 *     back and the rest of the block stays free.
 *   - a page that could not be unmapped while undoing a failed map keeps its handle
 *     although its block says UNMAPPED; the next map of that page finds it and uses it.
 *
 * Not as PyTorch: its private pools count growths and shrinkages and hope that they balance before
 * a pool is deleted; we count segments. */
#include "engine/torch/torch_engine.h"

#include "base/c_locale.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"
#include "engine/torch/torch_rounding.h" /* VW__TORCH_SMALL_BUFFER_BYTES */

/* ---- pages ----------------------------------------------------------------------------------- */

static vw__torch_pages *new_pages(uint64_t page_bytes, size_t count)
{
    vw__torch_pages *pages = vw__host_alloc_zeroed(
        1, sizeof *pages + count * (sizeof *pages->handles + sizeof *pages->is_mapped));
    if (pages == NULL)
        return NULL;
    pages->page_bytes = page_bytes;
    pages->count = count;
    pages->handles = (vw_handle *)(void *)(pages + 1);
    pages->is_mapped = (bool *)(void *)(pages->handles + count);
    return pages;
}

static uint64_t page_address(const vw__segment *segment, size_t page)
{
    return segment->address + page * vw__torch_pages_of(segment)->page_bytes;
}

/* Unmaps and releases pages [first, last) in turn; stops at a failure. Returns how many were
 * unmapped. */
static size_t unmap_pages(vw__torch_engine *engine, vw__segment *segment, size_t first, size_t last,
                          vw_status *status)
{
    vw__torch_pages *pages = vw__torch_pages_of(segment);
    *status = VW_OK;
    for (size_t page = first; page < last; page++) {
        *status =
            vw__driver_unmap(&engine->base.owner, page_address(segment, page), pages->page_bytes);
        if (*status != VW_OK)
            return page - first;
        pages->is_mapped[page] = false;
        vw_handle handle = pages->handles[page];
        pages->handles[page] = 0;
        *status = vw__driver_release(&engine->base.owner, handle);
        if (*status != VW_OK) /* unmapped all the same; the device keeps a handle nobody knows */
            return page + 1 - first;
    }
    return last - first;
}

/* Takes back what a failed map_pages() did. What cannot be unmapped stays mapped, with its handle,
 * for the next map_pages() to find. */
static void undo_map(vw__torch_engine *engine, vw__segment *segment, size_t first, size_t last)
{
    vw__torch_pages *pages = vw__torch_pages_of(segment);
    for (size_t page = first; page < last; page++) {
        if (pages->is_mapped[page] &&
            vw__driver_unmap(&engine->base.owner, page_address(segment, page), pages->page_bytes) ==
                VW_OK)
            pages->is_mapped[page] = false;
        if (!pages->is_mapped[page] && pages->handles[page] != 0) {
            /* The first failure is reported, not this one. */
            (void)vw__driver_release(&engine->base.owner, pages->handles[page]);
            pages->handles[page] = 0;
        }
    }
}

static vw_status create_page(const vw__torch_engine *engine, uint64_t page_bytes, vw_handle *out)
{
    return vw__driver_create(&engine->base.owner, page_bytes, engine->is_shareable, out);
}

/* Creates and maps pages [first, last). All or nothing, as far as the device lets us. */
static vw_status map_pages(vw__torch_engine *engine, vw__segment *segment, size_t first,
                           size_t last)
{
    vw__torch_pages *pages = vw__torch_pages_of(segment);
    vw_status status = VW_OK;
    for (size_t page = first; page < last && status == VW_OK; page++)
        if (pages->handles[page] == 0)
            status = create_page(engine, pages->page_bytes, &pages->handles[page]);
    for (size_t page = first; page < last && status == VW_OK; page++) {
        if (pages->is_mapped[page])
            continue;
        status = vw__driver_map(&engine->base.owner, page_address(segment, page), pages->page_bytes,
                                pages->handles[page]);
        pages->is_mapped[page] = status == VW_OK;
    }
    if (status == VW_OK)
        status = vw__driver_set_access(&engine->base.owner, page_address(segment, first),
                                       (last - first) * pages->page_bytes);
    if (status != VW_OK)
        undo_map(engine, segment, first, last);
    return status;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Cuts `block` out of what it was, and gives the rests the numbers of new records. */
static vw__block_pair cut_out(vw__torch_engine *engine, vw__block *block, uint64_t address,
                              uint64_t size_bytes)
{
    vw__block_pair rest = vw__block_cut_out(&engine->base.records, block, address, size_bytes);
    if (rest.before != NULL)
        rest.before->tie_break = vw__torch_block_tie_break(engine, block->segment);
    if (rest.after != NULL)
        rest.after->tie_break = vw__torch_block_tie_break(engine, block->segment);
    return rest;
}

static void give_back(vw__torch_engine *engine, vw__block_pair gone)
{
    if (gone.before != NULL)
        vw__block_give_back(&engine->base.records, gone.before);
    if (gone.after != NULL)
        vw__block_give_back(&engine->base.records, gone.after);
}

/* Maps pages at the start of an unmapped block, at least `want_bytes` of them; the block becomes
 * free, the rest of it stays unmapped as a block of its own. */
static vw_status map_block(vw__torch_engine *engine, vw__block *block, uint64_t want_bytes)
{
    vw__segment *segment = block->segment;
    vw__lane *lane = segment->lane;
    uint64_t page_bytes = vw__torch_pages_of(segment)->page_bytes;
    if (!vw__block_source_reserve(&engine->base.records, VW__ENGINE_SPARE_RECORDS))
        return vw__fail_host_memory(sizeof(vw__block), "block records");

    size_t first = (block->address - segment->address) / page_bytes;
    size_t count = vw__ceil_div_u64(want_bytes, page_bytes);
    VW__TRY(map_pages(engine, segment, first, first + count));

    uint64_t mapped_address = block->address, mapped_bytes = count * page_bytes;
    vw__lane_remove_unmapped(lane, block);
    vw__block_pair rest = cut_out(engine, block, mapped_address, mapped_bytes);
    if (rest.after != NULL)
        vw__lane_insert_unmapped(lane, rest.after);
    vw__lane_settle_free(&engine->base.records, lane, block, lane->shelf->clock);

    vw__engine_count_held(&engine->base, lane->shelf, (int64_t)mapped_bytes);
    engine->base.owner.counters->num_device_alloc++;
    uint64_t tag = engine->base.serving != NULL ? engine->base.serving->tag : 0;
    vw__engine_notice(&engine->base, VW_ACTION_SEGMENT_MAP, lane, mapped_address, mapped_bytes,
                      tag);
    if (block->previous == NULL && block->segment_tag == 0)
        block->segment_tag = tag;
    return VW_OK;
}

/* Ends a segment of which nothing is mapped. Refused by the device, addresses are lost, no memory.
 */
static vw_status end_segment(vw__torch_engine *engine, vw__segment *segment)
{
    undo_map(engine, segment, 0,
             vw__torch_pages_of(segment)->count); /* what could not be unmapped earlier */
    vw_status status =
        vw__driver_unreserve(&engine->base.owner, segment->address, segment->size_bytes);
    vw__lane_remove_unmapped(segment->lane, segment->first);
    vw__torch_drop_segment(engine, segment);
    return status;
}

static bool is_wholly_unmapped(const vw__block *block)
{
    return block->state == VW__BLOCK_UNMAPPED && !vw__block_is_split(block);
}

vw_status vw__torch_shrink_expandable(vw__torch_engine *engine, vw__block *block)
{
    vw__segment *segment = block->segment;
    vw__lane *lane = segment->lane;
    uint64_t page_bytes = vw__torch_pages_of(segment)->page_bytes;
    uint64_t offset = block->address - segment->address;
    size_t first = vw__ceil_div_u64(offset, page_bytes);
    size_t last = (offset + block->size_bytes) / page_bytes;
    if (first >= last)
        return VW_OK;                                        /* no whole page inside */
    if (!vw__block_source_reserve(&engine->base.records, 2)) /* about to call the driver anyway */
        return vw__fail_host_memory(sizeof(vw__block), "block records");

    /* Nothing may still be using the pages: the block's own stream has to come to an end. */
    const vw_device *device = engine->base.owner.device;
    VW__TRY(device->table->stream_synchronize(device->context, lane->stream));
    uint64_t tag = vw__engine_event_tag(&engine->base, block);
    vw_status status;
    size_t count = unmap_pages(engine, segment, first, last, &status);
    if (count == 0)
        return status;

    uint64_t gone_address = page_address(segment, first), gone_bytes = count * page_bytes;
    vw__lane_remove(lane, block);
    vw__block_pair rest = cut_out(engine, block, gone_address, gone_bytes);
    if (rest.before != NULL)
        vw__lane_insert(lane, rest.before);
    if (rest.after != NULL)
        vw__lane_insert(lane, rest.after);
    give_back(engine, vw__lane_settle_unmapped(lane, block));

    vw__engine_count_held(&engine->base, lane->shelf, -(int64_t)gone_bytes);
    engine->base.owner.counters->num_device_free++;
    vw__engine_notice(&engine->base, VW_ACTION_SEGMENT_UNMAP, lane, gone_address, gone_bytes, tag);

    if (is_wholly_unmapped(block)) {
        vw_status ended = end_segment(engine, segment);
        if (status == VW_OK)
            status = ended;
    }
    return status;
}

/* ---- growth ---------------------------------------------------------------------------------- */

/* True if the free and unmapped blocks from here on hold `size_bytes` in one piece. */
static bool has_room_from(const vw__block *block, uint64_t size_bytes)
{
    uint64_t found_bytes = 0;
    while (found_bytes < size_bytes && block != NULL &&
           (block->state == VW__BLOCK_FREE || block->state == VW__BLOCK_UNMAPPED)) {
        found_bytes += block->size_bytes;
        block = block->next;
    }
    return found_bytes >= size_bytes;
}

/* How many addresses a segment reserves: nine eighths of the device, or less where the option says
 * so ("0.5" of the device, "40G"; its form was checked when it was read). */
static uint64_t reserve_bytes(const vw__torch_engine *engine)
{
    uint64_t total_bytes = engine->base.owner.device->properties.total_bytes;
    uint64_t full_bytes = total_bytes + total_bytes / 8;
    const char *text = engine->conf.settings.expandable_reserve;
    if (!engine->conf.rules.reserve_is_configurable || text == NULL)
        return full_bytes;
    char *unit;
    double number = vw__c_locale_strtod(text, &unit);
    double bytes = number * (*unit == '\0' ? (double)total_bytes : 0x1p30);
    return bytes < (double)full_bytes ? (uint64_t)bytes : full_bytes;
}

static vw_status reserve_segment(vw__torch_engine *engine, const vw__torch_search *search,
                                 vw__block **out)
{
    uint64_t page_bytes = search->shelf->kind == VW__ENGINE_SMALL
                              ? VW__TORCH_SMALL_BUFFER_BYTES
                              : engine->conf.settings.large_segment_size_bytes;
    uint64_t page_count = vw__ceil_div_u64(reserve_bytes(engine), page_bytes);
    uint64_t size_bytes = page_count * page_bytes;
    if (size_bytes < search->size_bytes)
        return vw__fail(VW_ERR_OUT_OF_MEMORY, "larger than an expandable segment can grow");

    vw_device_ptr address = VW_NULL;
    vw__segment *segment = NULL;
    vw__torch_pages *pages = new_pages(page_bytes, page_count);
    if (pages == NULL)
        return vw__fail_host_memory(page_count * sizeof *pages->handles,
                                    "an expandable segment's pages");
    vw_status status = vw__driver_reserve(&engine->base.owner, size_bytes, &address);
    if (status == VW_OK) {
        segment = vw__torch_add_expandable(engine, search->lane, address, size_bytes);
        if (segment == NULL) {
            (void)vw__driver_unreserve(&engine->base.owner, address, size_bytes);
            status = vw__fail_host_memory(sizeof *segment, "a segment record");
        }
    }
    if (status != VW_OK) {
        vw__host_free(pages);
        /* Addresses that run out are no device memory that runs out: no retry would help. */
        return status == VW_ERR_OUT_OF_MEMORY ? VW_ERR_DEVICE : status;
    }
    segment->detail = pages;
    engine->expandable_segments++;
    vw__lane_insert_unmapped(search->lane, segment->first);
    *out = segment->first;
    return VW_OK;
}

/* Where to grow: the lowest unmapped range with room, or with a free block before it that it would
 * extend; else a new segment. */
static vw_status find_candidate(vw__torch_engine *engine, const vw__torch_search *search,
                                vw__block **out)
{
    vw__block *unmapped = vw__lane_unmapped_above(search->lane, 0);
    for (; unmapped != NULL; unmapped = vw__lane_unmapped_above(search->lane, unmapped->address)) {
        vw__block *start = unmapped;
        if (start->previous != NULL && start->previous->state == VW__BLOCK_FREE)
            start = start->previous;
        if (has_room_from(start, search->size_bytes)) {
            *out = start;
            return VW_OK;
        }
    }
    return reserve_segment(engine, search, out);
}

static vw_status map_enough(vw__torch_engine *engine, const vw__torch_search *search,
                            vw__block **block)
{
    if ((*block)->state == VW__BLOCK_UNMAPPED)
        VW__TRY(map_block(engine, *block, vw__min_u64((*block)->size_bytes, search->size_bytes)));
    while ((*block)->size_bytes < search->size_bytes) {
        vw__block *next = (*block)->next; /* unmapped: two free blocks are never neighbours */
        uint64_t missing_bytes = search->size_bytes - (*block)->size_bytes;
        VW__TRY(map_block(engine, next, vw__min_u64(missing_bytes, next->size_bytes)));
        *block = next; /* it absorbed the block before it */
    }
    return VW_OK;
}

vw_status vw__torch_grow_expandable(vw__torch_engine *engine, const vw__torch_search *search,
                                    vw__block **out)
{
    vw__block *block = NULL;
    VW__TRY(find_candidate(engine, search, &block));
    vw_status status = map_enough(engine, search, &block);
    if (status == VW_OK)
        *out = block;
    else if (is_wholly_unmapped(block))
        (void)end_segment(engine, block->segment); /* made for this request, in vain */
    return status;
}

/* ---- looking at pages ------------------------------------------------------------------------ */

static vw_status walk_pages(const vw__segment *segment, size_t first, size_t last,
                            vw__engine_piece_visitor visit, void *context)
{
    const vw__torch_pages *pages = vw__torch_pages_of(segment);
    for (size_t page = first; page < last; page++)
        if (pages->is_mapped[page])
            VW__TRY(visit(context, page_address(segment, page), pages->page_bytes,
                          pages->handles[page]));
    return VW_OK;
}

static vw_status walk_all_pages(vw__tree_node *node, vw__engine_piece_visitor visit, void *context)
{
    for (; node != NULL; node = node->right) {
        const vw__segment *segment = vw__segment_of_node(node);
        VW__TRY(walk_all_pages(node->left, visit, context));
        if (vw__segment_is_expandable(segment))
            VW__TRY(walk_pages(segment, 0, vw__torch_pages_of(segment)->count, visit, context));
    }
    return VW_OK;
}

vw_status vw__torch_walk_pieces(vw__engine *base, const vw__block *under,
                                vw__engine_piece_visitor visit, void *context)
{
    if (under == NULL)
        return walk_all_pages(base->segments, visit, context);
    const vw__segment *segment = under->segment;
    if (!vw__segment_is_expandable(segment))
        return VW_OK;
    uint64_t page_bytes = vw__torch_pages_of(segment)->page_bytes;
    uint64_t offset = under->address - segment->address;
    return walk_pages(segment, offset / page_bytes,
                      vw__ceil_div_u64(offset + under->size_bytes, page_bytes), visit, context);
}

/* Work may be under way: unmapping does not wait for it, as cuMemFree() does. */
void vw__torch_abandon_segment(vw__torch_engine *engine, vw__segment *segment)
{
    const vw_device *device = engine->base.owner.device;
    if (vw__segment_is_expandable(segment)) {
        (void)device->table->synchronize(device->context);
        undo_map(engine, segment, 0, vw__torch_pages_of(segment)->count);
        (void)vw__driver_unreserve(&engine->base.owner, segment->address, segment->size_bytes);
    } else {
        vw__private_pool *pool = segment->lane->shelf->private_pool;
        if (pool != NULL && pool->source.give_back != NULL)
            pool->source.give_back(pool->source.source_context, segment->address,
                                   segment->size_bytes, device->properties.index,
                                   segment->lane->stream);
        else
            (void)vw__driver_give_back(&engine->base.owner, segment->address);
    }
}
