/* device_books_virtual.c - reservations, handles, and which is mapped where.
 *
 * A reservation has one 32-bit entry per granule, made at its first mapping: an eighth more than a
 * whole H200 in pages of 2 MiB is 80 thousand entries, and untouched ones take no memory. Compared
 * with a tree of mappings, every check reads a few neighbouring words: is the place free, does the
 * range begin and end where mappings do, is all of it mapped.
 *
 * An entry holds the slot of the handle mapped there, plus one; whether this granule is the first
 * of its mapping; and whether the mapping has access. Handles are mapped whole, so the entries of a
 * mapping follow each other, and the next first one, or an empty one, ends it. */
#include "device/device_books.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked_math.h" /* vw__narrow_size, vw__add_u64 */
#include "base/error.h"
#include "base/host_memory.h"

#define ENTRY_IS_FIRST UINT32_C(0x80000000)
#define ENTRY_HAS_ACCESS UINT32_C(0x40000000)
#define ENTRY_SLOT_MASK UINT32_C(0x3fffffff) /* slot + 1 */

enum { FIRST_HANDLE_CAPACITY = 64 };

static vw_status check_support(const vw__books *books, const char *what)
{
    if (books->has_virtual_memory)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED, "%s: this device has no virtual memory", what);
}

static bool is_granular(const vw__books *books, uint64_t value)
{
    return (value & (books->granularity_bytes - 1)) == 0;
}

static vw_status check_size(const vw__books *books, const char *what, uint64_t size_bytes)
{
    if (size_bytes != 0 && is_granular(books, size_bytes))
        return VW_OK;
    return vw__fail(VW_ERR_INVALID_ARGUMENT,
                    "%s of %" PRIu64 " bytes: a multiple of %" PRIu64 " bytes is expected", what,
                    size_bytes, books->granularity_bytes);
}

/* ---- reservations ---------------------------------------------------------------------------- */

static vw__books_range *reservation_holding(vw__books *books, uint64_t address)
{
    vw__books_range *latest = books->latest_reservation;
    if (latest != NULL && address - latest->address < latest->size_bytes)
        return latest;
    vw__books_range *found = vw__books_range_holding(books->reservations, address);
    if (found != NULL)
        books->latest_reservation = found;
    return found;
}

vw_status vw__books_reserve(vw__books *books, uint64_t size_bytes, vw_device_ptr *out)
{
    VW__TRY(check_support(books, "reserve"));
    VW__TRY(check_size(books, "reserve", size_bytes));
    vw__books_range *range = vw__books_new_range(books);
    if (range == NULL)
        return vw__fail_host_memory(sizeof *range, "the books of a device");
    vw_status status = books->backing->reserve(books->backing_context, size_bytes, &range->address);
    if (status != VW_OK) {
        vw__books_drop_range(books, range);
        return status;
    }
    range->size_bytes = size_bytes;
    vw__tree_insert(&books->reservations, &range->node, vw__books_range_before);
    *out = range->address;
    return VW_OK;
}

vw_status vw__books_unreserve(vw__books *books, vw_device_ptr address, uint64_t size_bytes)
{
    VW__TRY(check_support(books, "unreserve"));
    vw__books_range *range = reservation_holding(books, address);
    if (range == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "unreserve of %#" PRIx64 ": the start of a reservation is expected",
                        address);
    if (range->address != address || range->size_bytes != size_bytes)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "unreserve of %" PRIu64 " bytes at %#" PRIx64 ": the whole reservation is "
                        "expected, %" PRIu64 " bytes at %#" PRIx64,
                        size_bytes, address, range->size_bytes, range->address);
    if (range->mapped_count != 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "unreserve of %#" PRIx64 ": %" PRIu64 " bytes are still mapped in it",
                        address, range->mapped_count << books->granularity_log2);
    if (books->backing->unreserve != NULL)
        VW__TRY(books->backing->unreserve(books->backing_context, address, size_bytes));
    if (books->latest_reservation == range)
        books->latest_reservation = NULL;
    vw__tree_remove(&books->reservations, &range->node);
    vw__host_free(range->granules);
    vw__books_drop_range(books, range);
    return VW_OK;
}

/* ---- handles --------------------------------------------------------------------------------- */

static vw_handle number_of(uint32_t slot, uint32_t generation)
{
    return (uint64_t)generation << 32 | (slot + 1);
}

/* The slot of a handle that was created and not released, or NULL. */
static vw__books_handle *held_handle(vw__books *books, vw_handle handle)
{
    uint64_t slot = (handle & UINT32_MAX) - 1; /* a handle of 0 wraps, and is past every count */
    if (slot >= books->handle_count)
        return NULL;
    vw__books_handle *found = &books->handles[slot];
    return found->is_held && found->generation == handle >> 32 ? found : NULL;
}

/* Makes sure that there is a free slot. */
static vw_status find_free_slot(vw__books *books)
{
    if (books->first_free_handle != 0 || books->handle_count < books->handle_capacity)
        return VW_OK;
    uint64_t wanted = books->handle_capacity != 0 ? (uint64_t)books->handle_capacity * 2
                                                  : (uint64_t)FIRST_HANDLE_CAPACITY;
    if (wanted >= ENTRY_SLOT_MASK)
        return vw__fail(VW_ERR_DEVICE, "create: %" PRIu32 " handles are all there can be",
                        books->handle_capacity);
    size_t size_bytes = (size_t)wanted * sizeof *books->handles;
    vw__books_handle *grown = vw__host_realloc(books->handles, size_bytes);
    if (grown == NULL)
        return vw__fail_host_memory(size_bytes, "the handles of a device");
    books->handles = grown;
    books->handle_capacity = (uint32_t)wanted;
    return VW_OK;
}

/* There is a free slot. */
static vw_handle file_handle(vw__books *books, vw__books_handle handle)
{
    uint32_t slot;
    if (books->first_free_handle != 0) {
        slot = books->first_free_handle - 1;
        books->first_free_handle = books->handles[slot].next_free;
        handle.generation = books->handles[slot].generation + 1;
    } else {
        slot = books->handle_count++;
    }
    books->handles[slot] = handle;
    return number_of(slot, handle.generation);
}

/* `make` is the backing's function for it, or NULL. */
static vw_status create_handle(vw__books *books, uint64_t size_bytes,
                               vw_status (*make)(void *, uint64_t, uint64_t *), bool is_shareable,
                               vw_handle *out)
{
    VW__TRY(check_size(books, "create", size_bytes));
    VW__TRY(vw__books_check_room(books, "create", size_bytes));
    VW__TRY(find_free_slot(books));
    uint64_t where = 0;
    if (make != NULL)
        VW__TRY(make(books->backing_context, size_bytes, &where));
    *out = file_handle(books, (vw__books_handle){.size_bytes = size_bytes,
                                                 .where = where,
                                                 .is_held = true,
                                                 .is_shareable = is_shareable});
    vw__books_add_use(books, size_bytes);
    return VW_OK;
}

vw_status vw__books_create(vw__books *books, uint64_t size_bytes, vw_handle *out)
{
    VW__TRY(check_support(books, "create"));
    return create_handle(books, size_bytes, books->backing->create, false, out);
}

/* Only the backing refuses for lack of room: the device's capacity does not matter here. */
vw_status vw__books_create_on_host(vw__books *books, uint64_t size_bytes, vw_handle *out)
{
    uint64_t where = 0;
    VW__TRY(check_support(books, "create_on_host"));
    VW__TRY(check_size(books, "create_on_host", size_bytes));
    VW__TRY(find_free_slot(books));
    if (books->backing->create != NULL)
        VW__TRY(books->backing->create(books->backing_context, size_bytes, &where));
    *out = file_handle(
        books, (vw__books_handle){
                   .size_bytes = size_bytes, .where = where, .is_held = true, .is_on_host = true});
    books->has_host_handles = true;
    return VW_OK;
}

static vw_status check_sharing(const vw__books *books, const char *what)
{
    VW__TRY(check_support(books, what));
    if (books->backing->create_shareable != NULL)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED, "%s: this device has no shareable handles", what);
}

vw_status vw__books_create_shareable(vw__books *books, uint64_t size_bytes, vw_handle *out)
{
    VW__TRY(check_sharing(books, "create_shareable"));
    return create_handle(books, size_bytes, books->backing->create_shareable, true, out);
}

vw_status vw__books_export_handle(vw__books *books, vw_handle handle, int *file_descriptor)
{
    VW__TRY(check_sharing(books, "export_handle"));
    const vw__books_handle *held = held_handle(books, handle);
    if (held == NULL || !held->is_shareable)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "export_handle of handle %#" PRIx64
                        ": one from create_shareable that was not yet released is expected",
                        handle);
    return books->backing->export_memory(books->backing_context, held->where, file_descriptor);
}

vw_status vw__books_import_handle(vw__books *books, int file_descriptor, uint64_t size_bytes,
                                  vw_handle *out)
{
    uint64_t where = 0;
    VW__TRY(check_sharing(books, "import_handle"));
    VW__TRY(check_size(books, "import_handle", size_bytes));
    VW__TRY(find_free_slot(books));
    VW__TRY(
        books->backing->import_memory(books->backing_context, file_descriptor, size_bytes, &where));
    *out = file_handle(books, (vw__books_handle){.size_bytes = size_bytes,
                                                 .where = where,
                                                 .is_held = true,
                                                 .is_shareable = true,
                                                 .is_imported = true});
    return VW_OK;
}

/* Frees the memory of a handle that is neither held nor mapped. */
static void end_handle(vw__books *books, vw__books_handle *handle)
{
    if (!handle->is_imported && !handle->is_on_host)
        books->in_use_bytes -= handle->size_bytes;
    if (books->backing->discard != NULL)
        books->backing->discard(books->backing_context, handle->where, handle->size_bytes);
    handle->next_free = books->first_free_handle;
    books->first_free_handle = (uint32_t)(handle - books->handles) + 1;
}

vw_status vw__books_release(vw__books *books, vw_handle handle, uint64_t *size_bytes)
{
    VW__TRY(check_support(books, "release"));
    vw__books_handle *held = held_handle(books, handle);
    if (held == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "release of handle %#" PRIx64
                        ": one that was created and not yet released is expected",
                        handle);
    *size_bytes = held->size_bytes;
    held->is_held = false;
    if (held->mapping_count == 0)
        end_handle(books, held);
    return VW_OK;
}

/* ---- mappings -------------------------------------------------------------------------------- */

/* The part of a reservation that a call is about. */
typedef struct span {
    vw__books_range *reservation;
    uint64_t first; /* granule in the reservation */
    uint64_t count;
} span;

static vw_status find_span(vw__books *books, const char *what, uint64_t address,
                           uint64_t size_bytes, span *out)
{
    VW__TRY(check_size(books, what, size_bytes));
    if (!is_granular(books, address))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "%s at %#" PRIx64 ": an address that is a multiple of %" PRIu64
                        " is expected",
                        what, address, books->granularity_bytes);
    vw__books_range *range = reservation_holding(books, address);
    if (range == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "%s at %#" PRIx64 ": no reservation holds it",
                        what, address);
    uint64_t offset = address - range->address;
    if (size_bytes > range->size_bytes - offset)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "%s of %" PRIu64 " bytes at %#" PRIx64
                        ": the reservation ends at %#" PRIx64,
                        what, size_bytes, address, range->address + range->size_bytes);
    *out = (span){range, offset >> books->granularity_log2, size_bytes >> books->granularity_log2};
    return VW_OK;
}

static uint64_t address_of(const vw__books *books, const span *at, uint64_t granule)
{
    return at->reservation->address + (granule << books->granularity_log2);
}

static vw_status make_entries(const vw__books *books, vw__books_range *reservation)
{
    if (reservation->granules != NULL)
        return VW_OK;
    uint64_t count = reservation->size_bytes >> books->granularity_log2;
    size_t entry_count;
    if (vw__narrow_size(count, &entry_count))
        reservation->granules = vw__host_alloc_zeroed(entry_count, sizeof *reservation->granules);
    if (reservation->granules == NULL)
        return vw__fail_host_memory(count * sizeof *reservation->granules,
                                    "the pages of a reservation");
    return VW_OK;
}

vw_status vw__books_map(vw__books *books, vw_device_ptr address, uint64_t size_bytes,
                        vw_handle handle)
{
    VW__TRY(check_support(books, "map"));
    span at;
    VW__TRY(find_span(books, "map", address, size_bytes, &at));
    vw__books_handle *held = held_handle(books, handle);
    if (held == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "map at %#" PRIx64 ": handle %#" PRIx64
                        " was never created or is released already",
                        address, handle);
    if (held->size_bytes != size_bytes)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "map of %" PRIu64 " bytes at %#" PRIx64 ": the whole handle is expected, "
                        "%" PRIu64 " bytes",
                        size_bytes, address, held->size_bytes);
    VW__TRY(make_entries(books, at.reservation));
    uint32_t *entries = at.reservation->granules;
    for (uint64_t i = at.first; i < at.first + at.count; i++) {
        if (entries[i] != 0)
            return vw__fail(VW_ERR_INVALID_ARGUMENT,
                            "map of %" PRIu64 " bytes at %#" PRIx64
                            ": something is mapped at %#" PRIx64,
                            size_bytes, address, address_of(books, &at, i));
    }
    if (books->backing->map != NULL)
        VW__TRY(books->backing->map(books->backing_context, address, size_bytes, held->where));
    uint32_t entry = (uint32_t)(held - books->handles) + 1;
    for (uint64_t i = at.first; i < at.first + at.count; i++)
        entries[i] = entry;
    entries[at.first] |= ENTRY_IS_FIRST;
    held->mapping_count++;
    at.reservation->mapped_count += at.count;
    return VW_OK;
}

bool vw__books_is_on_host(vw__books *books, uint64_t address, uint64_t size_bytes)
{
    if (!books->has_host_handles)
        return false;
    const vw__books_range *range = reservation_holding(books, address);
    if (range == NULL || range->granules == NULL || size_bytes == 0)
        return false;
    uint64_t first = (address - range->address) >> books->granularity_log2;
    uint64_t end = range->size_bytes >> books->granularity_log2;
    uint64_t count = ((size_bytes - 1) >> books->granularity_log2) + 2; /* where it ends at most */
    for (uint64_t i = first; i < end && i - first < count; i++) {
        uint64_t begins = range->address + (i << books->granularity_log2);
        uint32_t slot = range->granules[i] & ENTRY_SLOT_MASK;
        if (begins > address && begins - address >= size_bytes)
            break;
        if (slot != 0 && books->handles[slot - 1].is_on_host)
            return true;
    }
    return false;
}

/* Finds the span and holds it against the rule that unmap() and set_access() share: everything in
 * it is mapped, and no mapping reaches beyond it. Counts the mappings. */
static vw_status find_whole_mappings(vw__books *books, const char *what, uint64_t address,
                                     uint64_t size_bytes, span *out, uint64_t *mapping_count)
{
    span at;
    VW__TRY(check_support(books, what));
    VW__TRY(find_span(books, what, address, size_bytes, &at));
    const uint32_t *entries = at.reservation->granules;
    uint64_t end = at.first + at.count;
    uint64_t count = 0;
    for (uint64_t i = at.first; i < end; i++) {
        if (entries == NULL || entries[i] == 0)
            return vw__fail(VW_ERR_INVALID_ARGUMENT,
                            "%s of %" PRIu64 " bytes at %#" PRIx64
                            ": nothing is mapped at %#" PRIx64,
                            what, size_bytes, address, address_of(books, &at, i));
        count += (entries[i] & ENTRY_IS_FIRST) != 0;
    }
    bool is_last = end == at.reservation->size_bytes >> books->granularity_log2;
    bool begins_inside = (entries[at.first] & ENTRY_IS_FIRST) == 0;
    bool ends_inside = !is_last && entries[end] != 0 && (entries[end] & ENTRY_IS_FIRST) == 0;
    if (begins_inside || ends_inside)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "%s of %" PRIu64 " bytes at %#" PRIx64
                        ": whole mappings are expected, one reaches across %#" PRIx64,
                        what, size_bytes, address,
                        begins_inside ? address : address_of(books, &at, end));
    *out = at;
    *mapping_count = count;
    return VW_OK;
}

vw_status vw__books_unmap(vw__books *books, vw_device_ptr address, uint64_t size_bytes,
                          uint64_t *handle_count)
{
    span at;
    VW__TRY(find_whole_mappings(books, "unmap", address, size_bytes, &at, handle_count));
    if (books->backing->unmap != NULL)
        VW__TRY(books->backing->unmap(books->backing_context, address, size_bytes));
    uint32_t *entries = at.reservation->granules;
    for (uint64_t i = at.first; i < at.first + at.count; i++) {
        if ((entries[i] & ENTRY_IS_FIRST) != 0) {
            vw__books_handle *handle = &books->handles[(entries[i] & ENTRY_SLOT_MASK) - 1];
            handle->mapping_count--;
            if (handle->mapping_count == 0 && !handle->is_held)
                end_handle(books, handle);
        }
        entries[i] = 0;
    }
    at.reservation->mapped_count -= at.count;
    return VW_OK;
}

vw_status vw__books_set_access(vw__books *books, vw_device_ptr address, uint64_t size_bytes,
                               uint64_t *handle_count)
{
    span at;
    VW__TRY(find_whole_mappings(books, "set_access", address, size_bytes, &at, handle_count));
    if (books->backing->set_access != NULL)
        VW__TRY(books->backing->set_access(books->backing_context, address, size_bytes));
    for (uint64_t i = at.first; i < at.first + at.count; i++)
        at.reservation->granules[i] |= ENTRY_HAS_ACCESS;
    return VW_OK;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

vw_status vw__books_check_bytes(vw__books *books, const char *what, uint64_t address,
                                uint64_t size_bytes)
{
    uint64_t end;
    if (size_bytes == 0 || !vw__add_u64(address, size_bytes, &end))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "%s of %" PRIu64 " bytes at %#" PRIx64 ": a size is expected that leads "
                        "to an address",
                        what, size_bytes, address);
    const vw__books_range *range = reservation_holding(books, address);
    bool is_plain = range == NULL;
    if (is_plain) {
        vw__books_keep_plain_order(books);
        range = vw__books_range_holding(books->ordered_plain, address);
    }
    if (range == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "%s at %#" PRIx64 ": no memory of this device",
                        what, address);
    if (end > range->address + range->size_bytes)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "%s of %" PRIu64 " bytes at %#" PRIx64 ": the memory ends at %#" PRIx64,
                        what, size_bytes, address, range->address + range->size_bytes);
    if (is_plain)
        return VW_OK;
    uint64_t last = (end - 1 - range->address) >> books->granularity_log2;
    for (uint64_t i = (address - range->address) >> books->granularity_log2; i <= last; i++) {
        uint32_t entry = range->granules != NULL ? range->granules[i] : 0;
        if ((entry & ENTRY_HAS_ACCESS) == 0)
            return vw__fail(VW_ERR_INVALID_ARGUMENT,
                            "%s of %" PRIu64 " bytes at %#" PRIx64 ": %s at %#" PRIx64, what,
                            size_bytes, address,
                            entry == 0 ? "nothing is mapped" : "the mapping has no access",
                            range->address + (i << books->granularity_log2));
    }
    return VW_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* After the reservations: then nothing is mapped, and each live handle ends once. */
static void discard_handles(vw__books *books)
{
    if (books->backing->discard == NULL)
        return;
    for (uint32_t i = 0; i < books->handle_count; i++) {
        const vw__books_handle *handle = &books->handles[i];
        if (handle->is_held || handle->mapping_count != 0)
            books->backing->discard(books->backing_context, handle->where, handle->size_bytes);
    }
}

void vw__books_deinit_virtual(vw__books *books)
{
    while (books->reservations != NULL) {
        vw__books_range *range = (vw__books_range *)vw__tree_first(books->reservations);
        if (books->backing->unreserve != NULL)
            (void)books->backing->unreserve(books->backing_context, range->address,
                                            range->size_bytes);
        vw__tree_remove(&books->reservations, &range->node);
        vw__host_free(range->granules);
    }
    discard_handles(books);
    vw__host_free(books->handles);
}
