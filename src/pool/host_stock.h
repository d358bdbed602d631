/* host_stock.h - a pool's pieces of host memory, kept for live memory that leaves the device.
 *
 * Making one is by far the slowest part of spilling (a third of a millisecond for a MiB, 0.07 for
 * the copy and the mappings), so they are kept when memory comes back, and can be made ahead by a
 * thread of the stock's own. A stock has pieces of one kind: handles, which can be mapped in the
 * place of device memory; or locked memory (locked_memory.h), which is made four times as fast and
 * can only be copied to and from. All of them together stay within a limit, and within a budget
 * that others may draw from as well. engine/host_lender.h says what the engine sees of it.
 *
 * The pool owns the stock, and with it the thread: it is made when the engine first asks, and ends
 * after the engine. The stock has a lock of its own, which is held for no device call: it may be
 * called with the pool's lock held, and its thread takes no other. */
#ifndef VW_POOL_HOST_STOCK_H
#define VW_POOL_HOST_STOCK_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_device, vw_pinned_budget */
#include "engine/host_lender.h"

typedef struct vw__stock vw__stock;

typedef enum vw__stock_kind {
    VW__STOCK_HANDLES, /* needs host handles */
    VW__STOCK_LOCKED,  /* needs vw__locked_memory_is_possible(); no device_handle, and the memory's
                          own address is its window */
} vw__stock_kind;

/* `device` and `budget` (may be NULL) must outlive it. */
VW_MUST_CHECK vw_status vw__stock_create(const vw_device *device, vw__stock_kind kind,
                                         vw_pinned_budget *budget, uint64_t limit_bytes,
                                         vw__stock **out);

/* Ends the thread and gives back what is in the stock. Nothing is lent. NULL does nothing. */
void vw__stock_destroy(vw__stock *stock);

/* Gives back what is in the stock and not lent. Nothing is made ahead until the next wish. */
void vw__stock_empty(vw__stock *stock);

/* What the engine sees of the stock. The thread is started with the first wish. */
vw__lender vw__stock_lender(vw__stock *stock);

#endif /* VW_POOL_HOST_STOCK_H */
