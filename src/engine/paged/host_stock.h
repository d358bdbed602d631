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
#ifndef HR_ENGINE_PAGED_HOST_STOCK_H
#define HR_ENGINE_PAGED_HOST_STOCK_H

#include <stddef.h>
#include <stdint.h>

#include "headroom/headroom.h" /* hr_device, hr_pinned_budget */

typedef struct hr__host_stock hr__host_stock;

/* One of them: in the stock, or lent. */
typedef struct hr__host_handle {
    struct hr__host_handle *next;
    hr_handle device_handle;
    uint64_t size_bytes;
    hr_device_ptr window; /* where it is mapped all its life, for whoever fills it */
} hr__host_handle;

typedef struct hr__host_stock_numbers {
    uint64_t held_bytes;       /* in the stock, lent, and being made */
    uint64_t ready_bytes;      /* in the stock */
    uint64_t free_bytes;       /* that could be lent: limit and budget less what is lent */
    uint64_t failed_creations; /* that the device refused */
} hr__host_stock_numbers;

/* `device`, which has host handles, and `budget` (may be NULL) must outlive it. */
HR_MUST_CHECK hr_status hr__host_stock_create(const hr_device *device, hr_pinned_budget *budget,
                                              uint64_t limit_bytes, hr__host_stock **out);

/* Ends the thread and gives back what is in the stock. Nothing is lent. NULL does nothing. */
void hr__host_stock_destroy(hr__host_stock *stock);

/* Lends one of just this size, made if there is none; others of the stock make room for it.
 *
 * HR_ERR_OUT_OF_MEMORY   limit or budget are spent
 * HR_ERR_HOST_MEMORY     it could not be made; hr_last_error() has the device's words */
HR_MUST_CHECK hr_status hr__host_stock_take(hr__host_stock *stock, uint64_t size_bytes,
                                            hr__host_handle **out);
/* Mapped nowhere any more but at its window. Cannot fail. */
void hr__host_stock_give_back(hr__host_stock *stock, hr__host_handle *handle);

/* From now on the thread, started if there is none, sees that the stock has these sizes, each as
 * often as it is named, as far as limit and budget go; it gives up at the first refusal, until the
 * next call. Sizes beyond the first HR__HOST_STOCK_WISHES are not looked at. */
enum { HR__HOST_STOCK_WISHES = 256 };
void hr__host_stock_wish(hr__host_stock *stock, const uint64_t *sizes_bytes, size_t count);

void hr__host_stock_look(hr__host_stock *stock, hr__host_stock_numbers *out);

#endif /* HR_ENGINE_PAGED_HOST_STOCK_H */
