/* host_lender.h - handles in host memory, which an engine borrows from its owner for live memory
 * that leaves the device.
 *
 * A handle replaces one of the device's of the same size, so handles are asked for by size. Each
 * has a window: addresses at which it stays mapped, so that it can be filled before it replaces the
 * other. The owner keeps the handles (pool/host_stock.h), with the lock and the thread that this
 * takes; the functions may be called with the owner's lock held. */
#ifndef VW_ENGINE_HOST_LENDER_H
#define VW_ENGINE_HOST_LENDER_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/device.h" /* vw_handle, vw_device_ptr */

typedef struct vw__lender_handle {
    struct vw__lender_handle *next; /* the lender's; while it is lent, the borrower's */
    vw_handle device_handle;
    uint64_t size_bytes;
    vw_device_ptr window; /* where it is mapped all its life, for whoever fills it */
} vw__lender_handle;

typedef struct vw__lender_numbers {
    uint64_t held_bytes;       /* kept, lent, and being made */
    uint64_t ready_bytes;      /* kept */
    uint64_t free_bytes;       /* that could be lent: limit and budget less what is lent */
    uint64_t failed_creations; /* that the device refused */
} vw__lender_numbers;

enum { VW__LENDER_WISHES = 256 };

typedef struct vw__lender {
    void *context;

    /* Lends a handle of just this size, made if there is none; others that are kept make room.
     *
     * VW_ERR_OUT_OF_MEMORY   limit or budget are spent
     * VW_ERR_HOST_MEMORY     it could not be made; vw_last_error() has the device's words */
    vw_status (*take)(void *context, uint64_t size_bytes, vw__lender_handle **out);
    /* It is mapped at its window only. Cannot fail. */
    void (*give_back)(void *context, vw__lender_handle *handle);

    /* From now on handles of these sizes are made ahead, each as often as it is named, as far as
     * limit and budget go; until the first refusal. Sizes beyond the first VW__LENDER_WISHES are
     * ignored. */
    void (*wish)(void *context, const uint64_t *sizes_bytes, size_t count);

    void (*look)(void *context, vw__lender_numbers *out);
} vw__lender;

#endif /* VW_ENGINE_HOST_LENDER_H */
