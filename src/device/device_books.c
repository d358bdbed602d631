/* device_books.c - plain memory, pinned host memory, and the records of ranges.
 *
 * Replay asks a simulated device for plain memory hundreds of thousands of times a second, so a
 * range is found by its first address in a hash map, and its record comes from a list that is
 * filled a chunk at a time. Order among plain ranges is needed only where an address must be held
 * against all others (a dictated address, a copy into the middle of a range): it begins when the
 * first of these comes, and until then nobody pays.
 *
 * Virtual memory is in device_books_virtual.c. */
#include "device/device_books.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked_math.h" /* hr__add_u64, hr__narrow_size, hr__floor_log2_u64 */
#include "base/error.h"
#include "base/host_memory.h"

enum { RANGES_PER_CHUNK = 64 };
enum { PINNED_ALIGNMENT_BYTES = 4096 }; /* whole pages, as cuMemHostAlloc gives */

struct range_chunk {
    struct range_chunk *next;
    hr__range ranges[RANGES_PER_CHUNK];
};

void hr__books_init(hr__books *books, const hr__backing *backing, void *backing_context,
                    uint64_t capacity_bytes, uint64_t granularity_bytes, bool has_virtual_memory)
{
    memset(books, 0, sizeof *books);
    books->backing = backing;
    books->backing_context = backing_context;
    books->granularity_bytes = granularity_bytes;
    books->granularity_log2 = hr__floor_log2_u64(granularity_bytes);
    books->has_virtual_memory = has_virtual_memory;
    books->capacity_bytes = capacity_bytes;
    hr__address_map_init(&books->plain);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

hr__range *hr__books_new_range(hr__books *books)
{
    if (books->unused_ranges == NULL) {
        struct range_chunk *chunk = hr__host_alloc(sizeof *chunk);
        if (chunk == NULL)
            return NULL;
        chunk->next = books->chunks;
        books->chunks = chunk;
        for (int i = RANGES_PER_CHUNK - 1; i >= 0; i--)
            hr__books_drop_range(books, &chunk->ranges[i]);
    }
    hr__range *range = books->unused_ranges;
    books->unused_ranges = (hr__range *)range->node.left;
    memset(range, 0, sizeof *range);
    return range;
}

void hr__books_drop_range(hr__books *books, hr__range *range)
{
    range->node.left = (hr__tree_node *)books->unused_ranges;
    books->unused_ranges = range;
}

/* The last range of `tree` that begins before `end`, or NULL. */
static hr__range *last_beginning_before(hr__tree_node *tree, uint64_t end)
{
    hr__range key = {.address = end};
    return (hr__range *)hr__tree_last_before(tree, &key.node, hr__range_before);
}

hr__range *hr__range_holding(hr__tree_node *tree, uint64_t address)
{
    if (address == UINT64_MAX)
        return NULL; /* no range reaches the last address */
    hr__range *range = last_beginning_before(tree, address + 1);
    return range != NULL && address - range->address < range->size_bytes ? range : NULL;
}

static hr__range *range_beginning_at(hr__tree_node *tree, uint64_t address)
{
    hr__range *range = hr__range_holding(tree, address);
    return range != NULL && range->address == address ? range : NULL;
}

/* `address` + `size_bytes` does not overflow: the callers have seen to it. */
static hr__range *overlap_in(hr__tree_node *tree, uint64_t address, uint64_t size_bytes)
{
    hr__range *range = last_beginning_before(tree, address + size_bytes);
    return range != NULL && range->address + range->size_bytes > address ? range : NULL;
}

const hr__range *hr__books_overlap(const hr__books *books, uint64_t address, uint64_t size_bytes)
{
    const hr__range *plain = overlap_in(books->ordered_plain, address, size_bytes);
    const hr__range *reservation = overlap_in(books->reservations, address, size_bytes);
    if (plain == NULL || reservation == NULL)
        return plain != NULL ? plain : reservation;
    return plain->address > reservation->address ? plain : reservation;
}

void hr__books_keep_plain_order(hr__books *books)
{
    if (books->has_plain_order)
        return;
    books->has_plain_order = true;
    size_t cursor = 0;
    const hr__address_map_entry *entry;
    while ((entry = hr__address_map_next(&books->plain, &cursor)) != NULL) {
        hr__range *range = entry->value;
        hr__tree_insert(&books->ordered_plain, &range->node, hr__range_before);
    }
}

/* ---- plain memory ---------------------------------------------------------------------------- */

hr_status hr__books_check_room(const hr__books *books, const char *what, uint64_t size_bytes)
{
    uint64_t free_bytes = books->capacity_bytes > books->in_use_bytes
                              ? books->capacity_bytes - books->in_use_bytes
                              : 0;
    if (size_bytes <= free_bytes)
        return HR_OK;
    return hr__fail(HR_ERR_OUT_OF_MEMORY,
                    "%s of %" PRIu64 " bytes: %" PRIu64 " of %" PRIu64 " bytes are free", what,
                    size_bytes, free_bytes, books->capacity_bytes);
}

hr_status hr__books_take(hr__books *books, uint64_t size_bytes, hr_device_ptr *out)
{
    if (size_bytes == 0)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "take of 0 bytes: a size is expected");
    HR__TRY(hr__books_check_room(books, "take", size_bytes));
    if (!hr__address_map_has_room(&books->plain, 1) && !hr__address_map_reserve(&books->plain, 1))
        return hr__fail_host_memory(sizeof(hr__address_map_entry), "the books of a device");
    hr__range *range = hr__books_new_range(books);
    if (range == NULL)
        return hr__fail_host_memory(sizeof(struct range_chunk), "the books of a device");
    hr_status status = books->backing->take(books->backing_context, size_bytes, &range->address);
    if (status != HR_OK) {
        hr__books_drop_range(books, range);
        return status;
    }
    range->size_bytes = size_bytes;
    hr__address_map_insert(&books->plain, range->address, range);
    if (books->has_plain_order)
        hr__tree_insert(&books->ordered_plain, &range->node, hr__range_before);
    hr__books_add_use(books, size_bytes);
    *out = range->address;
    return HR_OK;
}

hr_status hr__books_give_back(hr__books *books, hr_device_ptr address, uint64_t *size_bytes)
{
    hr__range *range = hr__address_map_get(&books->plain, address);
    if (range == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "give_back of %#" PRIx64 ": the start of plain memory that was taken and "
                        "not yet given back is expected",
                        address);
    if (books->backing->give_back != NULL)
        HR__TRY(books->backing->give_back(books->backing_context, address, range->size_bytes));
    *size_bytes = range->size_bytes;
    books->in_use_bytes -= range->size_bytes;
    hr__address_map_remove(&books->plain, address);
    if (books->has_plain_order)
        hr__tree_remove(&books->ordered_plain, &range->node);
    hr__books_drop_range(books, range);
    return HR_OK;
}

/* ---- page-locked host memory ----------------------------------------------------------------- */

static void pin(hr__books *books, const hr__range *range)
{
    if (books->backing->pin != NULL)
        books->backing->pin(books->backing_context, (void *)(uintptr_t)range->address,
                            range->size_bytes);
}

static void unpin(hr__books *books, const hr__range *range)
{
    if (books->backing->unpin != NULL)
        books->backing->unpin(books->backing_context, (void *)(uintptr_t)range->address,
                              range->size_bytes);
}

hr_status hr__books_host_take(hr__books *books, uint64_t size_bytes, void **out)
{
    size_t host_bytes;
    if (size_bytes == 0 || !hr__narrow_size(size_bytes, &host_bytes))
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "host_take of %" PRIu64 " bytes: a size that fits this machine is expected",
                        size_bytes);
    hr__range *range = hr__books_new_range(books);
    if (range == NULL)
        return hr__fail_host_memory(sizeof(struct range_chunk), "the books of a device");
    void *memory = hr__host_alloc_aligned(PINNED_ALIGNMENT_BYTES, host_bytes);
    if (memory == NULL) {
        hr__books_drop_range(books, range);
        return hr__fail_host_memory(size_bytes, "page-locked memory");
    }
    range->address = (uintptr_t)memory;
    range->size_bytes = size_bytes;
    hr__tree_insert(&books->pinned, &range->node, hr__range_before);
    pin(books, range);
    *out = memory;
    return HR_OK;
}

hr_status hr__books_host_give_back(hr__books *books, void *address, uint64_t *size_bytes)
{
    hr__range *range = range_beginning_at(books->pinned, (uintptr_t)address);
    if (range == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "host_give_back of %p: the start of memory from host_take that was not yet "
                        "given back is expected",
                        address);
    *size_bytes = range->size_bytes;
    unpin(books, range);
    hr__tree_remove(&books->pinned, &range->node);
    hr__books_drop_range(books, range);
    hr__host_free(address);
    return HR_OK;
}

hr_status hr__books_host_register(hr__books *books, void *address, uint64_t size_bytes)
{
    uint64_t end;
    uint64_t start = (uintptr_t)address;
    if (start == 0 || size_bytes == 0 || !hr__add_u64(start, size_bytes, &end))
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "host_register of %" PRIu64 " bytes at %p: existing memory is expected",
                        size_bytes, address);
    hr__range *other = overlap_in(books->registered, start, size_bytes);
    if (other == NULL)
        other = overlap_in(books->pinned, start, size_bytes);
    if (other != NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "host_register of %" PRIu64 " bytes at %p: the %" PRIu64
                        " bytes at %#" PRIx64 " are page-locked already",
                        size_bytes, address, other->size_bytes, other->address);
    hr__range *range = hr__books_new_range(books);
    if (range == NULL)
        return hr__fail_host_memory(sizeof(struct range_chunk), "the books of a device");
    range->address = start;
    range->size_bytes = size_bytes;
    hr__tree_insert(&books->registered, &range->node, hr__range_before);
    pin(books, range);
    return HR_OK;
}

hr_status hr__books_host_unregister(hr__books *books, void *address, uint64_t *size_bytes)
{
    hr__range *range = range_beginning_at(books->registered, (uintptr_t)address);
    if (range == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "host_unregister of %p: the start of registered memory is expected",
                        address);
    *size_bytes = range->size_bytes;
    unpin(books, range);
    hr__tree_remove(&books->registered, &range->node);
    hr__books_drop_range(books, range);
    return HR_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* A device that was lost could not be given anything back, so there may be much to end here. What
 * the backing answers no longer matters to anyone. */
void hr__books_deinit(hr__books *books)
{
    size_t cursor = 0;
    const hr__address_map_entry *entry;
    while ((entry = hr__address_map_next(&books->plain, &cursor)) != NULL) {
        const hr__range *range = entry->value;
        if (books->backing->give_back != NULL)
            (void)books->backing->give_back(books->backing_context, range->address,
                                            range->size_bytes);
    }
    while (books->registered != NULL) {
        hr__range *range = (hr__range *)hr__tree_first(books->registered);
        unpin(books, range);
        hr__tree_remove(&books->registered, &range->node);
    }
    while (books->pinned != NULL) {
        hr__range *range = (hr__range *)hr__tree_first(books->pinned);
        unpin(books, range);
        hr__tree_remove(&books->pinned, &range->node);
        hr__host_free((void *)(uintptr_t)range->address);
    }
    hr__books_deinit_virtual(books);
    hr__address_map_deinit(&books->plain);
    while (books->chunks != NULL) {
        struct range_chunk *chunk = books->chunks;
        books->chunks = chunk->next;
        hr__host_free(chunk);
    }
}
