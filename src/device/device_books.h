/* device_books.h - the memory that is held on a stand-in device, and the rules for holding it.
 *
 * The simulated and the host device keep the same books and refuse the same mistakes; they differ
 * only in what they do to real memory. That difference is vw__books_backing, a short table which
 * the books call in the middle of an operation: after all checks and all host allocations, before
 * anything changes. So a backing that refuses leaves the books unchanged.
 *
 *   plain range    an address and a size, found by its first address
 *   reservation    a range with one 32-bit entry per granule: which handle is mapped there
 *   handle         a size, how many mappings it has, and whether it was released
 *   pinned range   host memory that was taken or registered
 *
 * A handle's number contains the generation of its slot, so that a released number is not taken for
 * the handle that has the slot now.
 *
 * Invariants:
 *   - in_use_bytes is the sum of plain ranges and of handles that are held or mapped, except
 *     imported ones and those on the host
 *   - a handle's mapping_count is the number of entries, over all reservations, marked as its first
 *   - no two live ranges overlap; nor do two mappings
 *
 * No locks: the caller, device_common.c, has one. */
#ifndef VW_DEVICE_DEVICE_BOOKS_H
#define VW_DEVICE_DEVICE_BOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address_map.h"
#include "base/ordered_tree.h"
#include "vramwise/device.h"

/* What a device does to real memory. A function that has nothing to do may be NULL. */
typedef struct vw__books_backing {
    /* Chooses an address that overlaps nothing live, and puts memory there. */
    vw_status (*take)(void *context, uint64_t size_bytes, vw_device_ptr *out);
    vw_status (*give_back)(void *context, vw_device_ptr address, uint64_t size_bytes);
    vw_status (*reserve)(void *context, uint64_t size_bytes, vw_device_ptr *out);
    vw_status (*unreserve)(void *context, vw_device_ptr address, uint64_t size_bytes);
    /* `where` is the backing's name for a handle's memory; the books only store it. */
    vw_status (*create)(void *context, uint64_t size_bytes, uint64_t *where);
    /* The same for memory that can be shared with other processes, and a file descriptor for it.
     * NULL: not supported. */
    vw_status (*create_shareable)(void *context, uint64_t size_bytes, uint64_t *where);
    vw_status (*export_memory)(void *context, uint64_t where, int *file_descriptor);
    vw_status (*import_memory)(void *context, int file_descriptor, uint64_t size_bytes,
                               uint64_t *where);
    void (*discard)(void *context, uint64_t where,
                    uint64_t size_bytes); /* nobody has it any more */
    vw_status (*map)(void *context, vw_device_ptr address, uint64_t size_bytes, uint64_t where);
    vw_status (*unmap)(void *context, vw_device_ptr address, uint64_t size_bytes);
    vw_status (*set_access)(void *context, vw_device_ptr address, uint64_t size_bytes);
    void (*pin)(void *context, void *address, uint64_t size_bytes);
    void (*unpin)(void *context, void *address, uint64_t size_bytes);
    /* The host address of a device address. NULL: the device has no bytes. */
    void *(*bytes_at)(void *context, vw_device_ptr address);
    /* Frees the context, after everything else was given back. */
    void (*destroy)(void *context);
} vw__books_backing;

/* A range of addresses. */
typedef struct vw__books_range {
    vw__tree_node node; /* first, so that a node is its range; also links unused records */
    uint64_t address;
    uint64_t size_bytes;
    uint32_t *granules;    /* owned; in a reservation, from its first mapping on: one per granule */
    uint64_t mapped_count; /* entries that are not 0 */
} vw__books_range;

typedef struct vw__books_handle {
    uint64_t size_bytes;
    uint64_t where;      /* the backing's */
    uint32_t generation; /* the upper half of the handle's number */
    uint32_t mapping_count;
    uint32_t next_free; /* index + 1; 0 = none */
    bool is_held;       /* created and not released */
    bool is_shareable;
    bool is_imported; /* memory of another process: not counted as use */
    bool is_on_host;  /* host memory: not counted as use */
} vw__books_handle;

typedef struct vw__books {
    const vw__books_backing *backing; /* set at creation, then read-only, like the next four */
    void *backing_context;
    uint64_t granularity_bytes; /* a power of two */
    unsigned granularity_log2;
    bool has_virtual_memory;

    uint64_t capacity_bytes;
    uint64_t in_use_bytes;
    uint64_t peak_use_bytes;

    vw__address_map plain;        /* first address -> vw__books_range */
    vw__tree_node *ordered_plain; /* the same ranges by address, once has_plain_order */
    bool has_plain_order;
    vw__tree_node *reservations; /* by address */
    vw__books_range
        *latest_reservation;        /* the one last used: most calls stay within one; may be NULL */
    vw__tree_node *pinned;          /* host memory from host_take(), by address */
    vw__tree_node *registered;      /* host memory from host_register(), by address */
    vw__books_range *unused_ranges; /* linked through node.left */
    struct range_chunk *chunks;     /* where range records live; owned */

    vw__books_handle *handles; /* owned */
    uint32_t handle_capacity;
    uint32_t handle_count;      /* slots ever used */
    uint32_t first_free_handle; /* index + 1; 0 = none */
    bool has_host_handles;      /* a handle was created on the host before */
} vw__books;

/* `granularity_bytes` is a power of two. Takes no memory. */
void vw__books_init(vw__books *books, const vw__books_backing *backing, void *backing_context,
                    uint64_t capacity_bytes, uint64_t granularity_bytes, bool has_virtual_memory);

/* Gives everything back to the backing. */
void vw__books_deinit(vw__books *books);

/* The highest live plain range or reservation that overlaps the `size_bytes` at `address`, or NULL.
 * Sees plain ranges only after vw__books_keep_plain_order(). */
const vw__books_range *vw__books_overlap(const vw__books *books, uint64_t address,
                                         uint64_t size_bytes);

/* From now on also keeps plain ranges ordered by address, which costs a tree operation each time.
 * The simulated device does not need it unless somebody looks for bytes in plain memory. Cannot
 * fail. */
void vw__books_keep_plain_order(vw__books *books);

/* Checks that the bytes lie inside one plain range, or inside mappings with access. `what` names
 * the call in the message. The first question about bytes outside of reservations begins the plain
 * order. */
vw_status vw__books_check_bytes(vw__books *books, const char *what, uint64_t address,
                                uint64_t size_bytes);

/* ---- shared by the two halves, device_books.c and device_books_virtual.c --------------------- */

static inline bool vw__books_range_before(const vw__tree_node *a, const vw__tree_node *b)
{
    return ((const vw__books_range *)a)->address < ((const vw__books_range *)b)->address;
}

/* The range of `tree` that holds `address`, or NULL. */
vw__books_range *vw__books_range_holding(vw__tree_node *tree, uint64_t address);

/* Makes and drops the record of a range. Making one sometimes needs host memory: NULL without. */
vw__books_range *vw__books_new_range(vw__books *books);
void vw__books_drop_range(vw__books *books, vw__books_range *range);

/* VW_ERR_OUT_OF_MEMORY, with the numbers, if the device has no room. */
vw_status vw__books_check_room(const vw__books *books, const char *what, uint64_t size_bytes);

/* Adds to in_use_bytes and its peak. */
static inline void vw__books_add_use(vw__books *books, uint64_t size_bytes)
{
    books->in_use_bytes += size_bytes;
    if (books->in_use_bytes > books->peak_use_bytes)
        books->peak_use_bytes = books->in_use_bytes;
}

void vw__books_deinit_virtual(vw__books *books);

/* Is host memory mapped somewhere in the range? */
bool vw__books_is_on_host(vw__books *books, uint64_t address, uint64_t size_bytes);

/* ---- the calls ------------------------------------------------------------------------------- */

/* The calls of the device table, with its contract. `*handle_count` receives the number of mappings
 * in a range, `*size_bytes` the size behind a handle or an address. */
vw_status vw__books_take(vw__books *books, uint64_t size_bytes, vw_device_ptr *out);
vw_status vw__books_give_back(vw__books *books, vw_device_ptr address, uint64_t *size_bytes);
vw_status vw__books_reserve(vw__books *books, uint64_t size_bytes, vw_device_ptr *out);
vw_status vw__books_unreserve(vw__books *books, vw_device_ptr address, uint64_t size_bytes);
vw_status vw__books_create(vw__books *books, uint64_t size_bytes, vw_handle *out);
vw_status vw__books_create_shareable(vw__books *books, uint64_t size_bytes, vw_handle *out);
vw_status vw__books_create_on_host(vw__books *books, uint64_t size_bytes, vw_handle *out);
vw_status vw__books_export_handle(vw__books *books, vw_handle handle, int *file_descriptor);
vw_status vw__books_import_handle(vw__books *books, int file_descriptor, uint64_t size_bytes,
                                  vw_handle *out);
vw_status vw__books_release(vw__books *books, vw_handle handle, uint64_t *size_bytes);
vw_status vw__books_map(vw__books *books, vw_device_ptr address, uint64_t size_bytes,
                        vw_handle handle);
vw_status vw__books_unmap(vw__books *books, vw_device_ptr address, uint64_t size_bytes,
                          uint64_t *handle_count);
vw_status vw__books_set_access(vw__books *books, vw_device_ptr address, uint64_t size_bytes,
                               uint64_t *handle_count);
vw_status vw__books_host_take(vw__books *books, uint64_t size_bytes, void **out);
vw_status vw__books_host_give_back(vw__books *books, void *address, uint64_t *size_bytes);
vw_status vw__books_host_register(vw__books *books, void *address, uint64_t size_bytes);
vw_status vw__books_host_unregister(vw__books *books, void *address, uint64_t *size_bytes);

/* True if all of it is page-locked memory of the host. */
bool vw__books_is_pinned(const vw__books *books, uint64_t address, uint64_t size_bytes);

#endif /* VW_DEVICE_DEVICE_BOOKS_H */
