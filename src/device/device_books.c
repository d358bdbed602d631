/* device_books.c - plain memory, pinned host memory, and the records of ranges.
 *
 * Replay asks a simulated device for plain memory hundreds of thousands of times a second, so a
 * range is found by its first address in a hash map, and records come from a list that is filled a
 * chunk at a time. An order of plain ranges is needed only to compare an address with all others (a
 * dictated address, a copy into the middle of a range): it begins with the first such call.
 *
 * Virtual memory is in device_books_virtual.c. */
#include "device/device_books.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked_math.h" /* vw__add_u64, vw__narrow_size, vw__floor_log2_u64 */
#include "base/error.h"
#include "base/host_memory.h"

enum { RANGES_PER_CHUNK = 64 };
enum { PINNED_ALIGNMENT_BYTES = 4096 }; /* whole pages, as cuMemHostAlloc gives */

struct range_chunk {
    struct range_chunk *next;
    vw__books_range ranges[RANGES_PER_CHUNK];
};

void vw__books_init(vw__books *books, const vw__books_backing *backing, void *backing_context,
                    uint64_t capacity_bytes, uint64_t granularity_bytes, bool has_virtual_memory)
{
    memset(books, 0, sizeof *books);
    books->backing = backing;
    books->backing_context = backing_context;
    books->granularity_bytes = granularity_bytes;
    books->granularity_log2 = vw__floor_log2_u64(granularity_bytes);
    books->has_virtual_memory = has_virtual_memory;
    books->capacity_bytes = capacity_bytes;
    vw__address_map_init(&books->plain);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

vw__books_range *vw__books_new_range(vw__books *books)
{
    if (books->unused_ranges == NULL) {
        struct range_chunk *chunk = vw__host_alloc(sizeof *chunk);
        if (chunk == NULL)
            return NULL;
        chunk->next = books->chunks;
        books->chunks = chunk;
        for (int i = RANGES_PER_CHUNK - 1; i >= 0; i--)
            vw__books_drop_range(books, &chunk->ranges[i]);
    }
    vw__books_range *range = books->unused_ranges;
    books->unused_ranges = (vw__books_range *)range->node.left;
    memset(range, 0, sizeof *range);
    return range;
}

void vw__books_drop_range(vw__books *books, vw__books_range *range)
{
    range->node.left = (vw__tree_node *)books->unused_ranges;
    books->unused_ranges = range;
}

/* The last range of `tree` that begins before `end`, or NULL. */
static vw__books_range *last_beginning_before(vw__tree_node *tree, uint64_t end)
{
    vw__books_range key = {.address = end};
    return (vw__books_range *)vw__tree_last_before(tree, &key.node, vw__books_range_before);
}

vw__books_range *vw__books_range_holding(vw__tree_node *tree, uint64_t address)
{
    if (address == UINT64_MAX)
        return NULL; /* no range reaches the last address */
    vw__books_range *range = last_beginning_before(tree, address + 1);
    return range != NULL && address - range->address < range->size_bytes ? range : NULL;
}

static vw__books_range *range_beginning_at(vw__tree_node *tree, uint64_t address)
{
    vw__books_range *range = vw__books_range_holding(tree, address);
    return range != NULL && range->address == address ? range : NULL;
}

/* The callers have checked that `address` + `size_bytes` does not overflow. */
static vw__books_range *overlap_in(vw__tree_node *tree, uint64_t address, uint64_t size_bytes)
{
    vw__books_range *range = last_beginning_before(tree, address + size_bytes);
    return range != NULL && range->address + range->size_bytes > address ? range : NULL;
}

const vw__books_range *vw__books_overlap(const vw__books *books, uint64_t address,
                                         uint64_t size_bytes)
{
    const vw__books_range *plain = overlap_in(books->ordered_plain, address, size_bytes);
    const vw__books_range *reservation = overlap_in(books->reservations, address, size_bytes);
    if (plain == NULL || reservation == NULL)
        return plain != NULL ? plain : reservation;
    return plain->address > reservation->address ? plain : reservation;
}

void vw__books_keep_plain_order(vw__books *books)
{
    if (books->has_plain_order)
        return;
    books->has_plain_order = true;
    size_t cursor = 0;
    const vw__address_map_entry *entry;
    while ((entry = vw__address_map_next(&books->plain, &cursor)) != NULL) {
        vw__books_range *range = entry->value;
        vw__tree_insert(&books->ordered_plain, &range->node, vw__books_range_before);
    }
}

/* ---- plain memory ---------------------------------------------------------------------------- */

vw_status vw__books_check_room(const vw__books *books, const char *what, uint64_t size_bytes)
{
    uint64_t free_bytes = books->capacity_bytes > books->in_use_bytes
                              ? books->capacity_bytes - books->in_use_bytes
                              : 0;
    if (size_bytes <= free_bytes)
        return VW_OK;
    return vw__fail(VW_ERR_OUT_OF_MEMORY,
                    "%s of %" PRIu64 " bytes: %" PRIu64 " of %" PRIu64 " bytes are free", what,
                    size_bytes, free_bytes, books->capacity_bytes);
}

vw_status vw__books_take(vw__books *books, uint64_t size_bytes, vw_device_ptr *out)
{
    if (size_bytes == 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "take of 0 bytes: a size is expected");
    VW__TRY(vw__books_check_room(books, "take", size_bytes));
    if (!vw__address_map_has_room(&books->plain, 1) && !vw__address_map_reserve(&books->plain, 1))
        return vw__fail_host_memory(sizeof(vw__address_map_entry), "the books of a device");
    vw__books_range *range = vw__books_new_range(books);
    if (range == NULL)
        return vw__fail_host_memory(sizeof(struct range_chunk), "the books of a device");
    vw_status status = books->backing->take(books->backing_context, size_bytes, &range->address);
    if (status != VW_OK) {
        vw__books_drop_range(books, range);
        return status;
    }
    range->size_bytes = size_bytes;
    vw__address_map_insert(&books->plain, range->address, range);
    if (books->has_plain_order)
        vw__tree_insert(&books->ordered_plain, &range->node, vw__books_range_before);
    vw__books_add_use(books, size_bytes);
    *out = range->address;
    return VW_OK;
}

vw_status vw__books_give_back(vw__books *books, vw_device_ptr address, uint64_t *size_bytes)
{
    vw__books_range *range = vw__address_map_get(&books->plain, address);
    if (range == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "give_back of %#" PRIx64 ": the start of plain memory that was taken and "
                        "not yet given back is expected",
                        address);
    if (books->backing->give_back != NULL)
        VW__TRY(books->backing->give_back(books->backing_context, address, range->size_bytes));
    *size_bytes = range->size_bytes;
    books->in_use_bytes -= range->size_bytes;
    vw__address_map_remove(&books->plain, address);
    if (books->has_plain_order)
        vw__tree_remove(&books->ordered_plain, &range->node);
    vw__books_drop_range(books, range);
    return VW_OK;
}

/* ---- page-locked host memory ----------------------------------------------------------------- */

static void pin(vw__books *books, const vw__books_range *range)
{
    if (books->backing->pin != NULL)
        books->backing->pin(books->backing_context, (void *)(uintptr_t)range->address,
                            range->size_bytes);
}

static void unpin(vw__books *books, const vw__books_range *range)
{
    if (books->backing->unpin != NULL)
        books->backing->unpin(books->backing_context, (void *)(uintptr_t)range->address,
                              range->size_bytes);
}

vw_status vw__books_host_take(vw__books *books, uint64_t size_bytes, void **out)
{
    size_t host_bytes;
    if (size_bytes == 0 || !vw__narrow_size(size_bytes, &host_bytes))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "host_take of %" PRIu64 " bytes: a size that fits this machine is expected",
                        size_bytes);
    vw__books_range *range = vw__books_new_range(books);
    if (range == NULL)
        return vw__fail_host_memory(sizeof(struct range_chunk), "the books of a device");
    void *memory = vw__host_alloc_aligned(PINNED_ALIGNMENT_BYTES, host_bytes);
    if (memory == NULL) {
        vw__books_drop_range(books, range);
        return vw__fail_host_memory(size_bytes, "page-locked memory");
    }
    range->address = (uintptr_t)memory;
    range->size_bytes = size_bytes;
    vw__tree_insert(&books->pinned, &range->node, vw__books_range_before);
    pin(books, range);
    *out = memory;
    return VW_OK;
}

vw_status vw__books_host_give_back(vw__books *books, void *address, uint64_t *size_bytes)
{
    vw__books_range *range = range_beginning_at(books->pinned, (uintptr_t)address);
    if (range == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "host_give_back of %p: the start of memory from host_take that was not yet "
                        "given back is expected",
                        address);
    *size_bytes = range->size_bytes;
    unpin(books, range);
    vw__tree_remove(&books->pinned, &range->node);
    vw__books_drop_range(books, range);
    vw__host_free(address);
    return VW_OK;
}

vw_status vw__books_host_register(vw__books *books, void *address, uint64_t size_bytes)
{
    uint64_t end;
    uint64_t start = (uintptr_t)address;
    if (start == 0 || size_bytes == 0 || !vw__add_u64(start, size_bytes, &end))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "host_register of %" PRIu64 " bytes at %p: existing memory is expected",
                        size_bytes, address);
    vw__books_range *other = overlap_in(books->registered, start, size_bytes);
    if (other == NULL)
        other = overlap_in(books->pinned, start, size_bytes);
    if (other != NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "host_register of %" PRIu64 " bytes at %p: the %" PRIu64
                        " bytes at %#" PRIx64 " are page-locked already",
                        size_bytes, address, other->size_bytes, other->address);
    vw__books_range *range = vw__books_new_range(books);
    if (range == NULL)
        return vw__fail_host_memory(sizeof(struct range_chunk), "the books of a device");
    range->address = start;
    range->size_bytes = size_bytes;
    vw__tree_insert(&books->registered, &range->node, vw__books_range_before);
    pin(books, range);
    return VW_OK;
}

vw_status vw__books_host_unregister(vw__books *books, void *address, uint64_t *size_bytes)
{
    vw__books_range *range = range_beginning_at(books->registered, (uintptr_t)address);
    if (range == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "host_unregister of %p: the start of registered memory is expected",
                        address);
    *size_bytes = range->size_bytes;
    unpin(books, range);
    vw__tree_remove(&books->registered, &range->node);
    vw__books_drop_range(books, range);
    return VW_OK;
}

bool vw__books_is_pinned(const vw__books *books, uint64_t address, uint64_t size_bytes)
{
    const vw__books_range *range = vw__books_range_holding(books->registered, address);
    if (range == NULL)
        range = vw__books_range_holding(books->pinned, address);
    return range != NULL && size_bytes <= range->size_bytes - (address - range->address);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Nothing can be given back to a lost device, so much may be left here. Refusals of the backing no
 * longer matter. */
void vw__books_deinit(vw__books *books)
{
    size_t cursor = 0;
    const vw__address_map_entry *entry;
    while ((entry = vw__address_map_next(&books->plain, &cursor)) != NULL) {
        const vw__books_range *range = entry->value;
        if (books->backing->give_back != NULL)
            (void)books->backing->give_back(books->backing_context, range->address,
                                            range->size_bytes);
    }
    while (books->registered != NULL) {
        vw__books_range *range = (vw__books_range *)vw__tree_first(books->registered);
        unpin(books, range);
        vw__tree_remove(&books->registered, &range->node);
    }
    while (books->pinned != NULL) {
        vw__books_range *range = (vw__books_range *)vw__tree_first(books->pinned);
        unpin(books, range);
        vw__tree_remove(&books->pinned, &range->node);
        vw__host_free((void *)(uintptr_t)range->address);
    }
    vw__books_deinit_virtual(books);
    vw__address_map_deinit(&books->plain);
    while (books->chunks != NULL) {
        struct range_chunk *chunk = books->chunks;
        books->chunks = chunk->next;
        vw__host_free(chunk);
    }
}
