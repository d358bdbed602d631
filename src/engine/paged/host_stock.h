/* host_stock.h - handles in host memory, kept for live memory that leaves the device.
 *
 * Making one is by far the slowest part of spilling (a third of a millisecond for a MiB, 0.07 for
 * the copy and the mappings), so they are kept when memory comes back, and can be made ahead by a
 * thread of the stock's own. Mapping one is what takes longest then, so each has a window:
 * addresses at which it stays mapped, so that it can be filled before it takes another's place. A
 * handle takes the place of one of the device's, of just its size, so that is what they are asked
 * for by. All of them together stay within a limit, and within a budget that others may draw from
 * as well.
 *
 * The stock has a lock of its own, which is held for no device call: it may be called with a pool's
 * lock held, and its thread takes no other. */
#ifndef VW_ENGINE_PAGED_HOST_STOCK_H
#define VW_ENGINE_PAGED_HOST_STOCK_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_device, vw_pinned_budget */

typedef struct vw__host_stock vw__host_stock;

/* One of them: in the stock, or lent. */
typedef struct vw__host_handle {
    struct vw__host_handle *next;
    vw_handle device_handle;
    uint64_t size_bytes;
    vw_device_ptr window; /* where it is mapped all its life, for whoever fills it */
} vw__host_handle;

typedef struct vw__host_stock_numbers {
    uint64_t held_bytes;       /* in the stock, lent, and being made */
    uint64_t ready_bytes;      /* in the stock */
    uint64_t free_bytes;       /* that could be lent: limit and budget less what is lent */
    uint64_t failed_creations; /* that the device refused */
} vw__host_stock_numbers;

/* `device`, which has host handles, and `budget` (may be NULL) must outlive it. */
VW_MUST_CHECK vw_status vw__host_stock_create(const vw_device *device, vw_pinned_budget *budget,
                                              uint64_t limit_bytes, vw__host_stock **out);

/* Ends the thread and gives back what is in the stock. Nothing is lent. NULL does nothing. */
void vw__host_stock_destroy(vw__host_stock *stock);

/* Lends one of just this size, made if there is none; others of the stock make room for it.
 *
 * VW_ERR_OUT_OF_MEMORY   limit or budget are spent
 * VW_ERR_HOST_MEMORY     it could not be made; vw_last_error() has the device's words */
VW_MUST_CHECK vw_status vw__host_stock_take(vw__host_stock *stock, uint64_t size_bytes,
                                            vw__host_handle **out);
/* Mapped nowhere any more but at its window. Cannot fail. */
void vw__host_stock_give_back(vw__host_stock *stock, vw__host_handle *handle);

/* From now on the thread, started if there is none, sees that the stock has these sizes, each as
 * often as it is named, as far as limit and budget go; it gives up at the first refusal, until the
 * next call. Sizes beyond the first VW__HOST_STOCK_WISHES are not looked at. */
enum { VW__HOST_STOCK_WISHES = 256 };
void vw__host_stock_wish(vw__host_stock *stock, const uint64_t *sizes_bytes, size_t count);

void vw__host_stock_look(vw__host_stock *stock, vw__host_stock_numbers *out);

#endif /* VW_ENGINE_PAGED_HOST_STOCK_H */
