/* listing.h - pools that publish what they hold, by themselves.
 *
 *   listing.c          the list of pools, and the thread that looks at them
 *   listing_values.c   what a pool tells, and what that comes to for a device
 *   listing_requests.c   what others ask of the process, on one pool
 *
 * A thread of the library looks at each listed pool five times a second and puts the sums per
 * device into the process's page (live/live_page.h). An allocation knows nothing of it. The thread
 * starts with the first listed pool and makes the page; where there can be none, it ends, and the
 * pools serve as ever.
 *
 * Words: a *listing* is a pool's place in the list; a *sample* is what it told at one moment; a
 * *sum* is what the listings of a device come to. */
#ifndef VW_POOL_LISTING_H
#define VW_POOL_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/device.h"
#include "vramwise/vramwise.h"
#include "vramwise/live.h"
#include "vramwise/pinned.h"
#include "live/live_request.h"

/* Part of a pool. Guarded by the list's lock, but for what is set before it is listed. */
typedef struct vw__listing {
    struct vw__listing *next;
    vw_pool *pool; /* one of the two; set before it is listed, as the device */
    const vw_pinned_pool *pinned;
    const vw_device *device;
    bool is_listed;
    bool has_parked; /* something, for the request that is served; the thread's alone */
    uint64_t counted[VW_LIVE_FIELD_COUNT]; /* of counters: how far they are in the sum */
} vw__listing;

/* ---- listing.c ------------------------------------------------------------------------------- */

/* `allocator` is a static string. Never fails: where nothing can be published, nothing is. */
void vw__listing_add(vw__listing *listing, const char *allocator);

/* The pool is about to end, and is still whole. Waits while it is being looked at, but not long for
 * a driver. */
void vw__listing_remove(vw__listing *listing);

/* ---- listing_values.c ------------------------------------------------------------------------ */

typedef struct vw__listing_sample {
    uint64_t values[VW_LIVE_FIELD_COUNT]; /* VW_LIVE_KEEP: it has nothing to say of it */
} vw__listing_sample;

typedef struct vw__listing_sum {
    int device;               /* properties.index */
    char name[64];            /* of the device */
    uint64_t memory_asked_ns; /* when the device was last asked what it has free; 0 = never */
    uint64_t values[VW_LIVE_FIELD_COUNT]; /* as in the page */
    uint64_t peaks[VW_LIVE_FIELD_COUNT];  /* added up in this round, as what follows */
    size_t pool_count;                    /* pinned ones not included */
} vw__listing_sum;

void vw__listing_sum_init(vw__listing_sum *sum, const vw_device *device);

/* Sets the sums of a device to zero, before its listings are added up. */
void vw__listing_sum_begin(vw__listing_sum *sum);
void vw__listing_sum_add(vw__listing_sum *sum, vw__listing *listing,
                         const vw__listing_sample *sample);

/* Removes a listing from the sums: its counts and peaks stay, the bytes it held go. */
void vw__listing_sum_keep_counts(vw__listing_sum *sum, vw__listing *listing,
                                 const vw__listing_sample *sample);

/* Takes the pool's lock, and calls no driver. */
void vw__listing_read(const vw__listing *listing, vw__listing_sample *sample);

/* Asks the driver what the device has free, for a sample that was read: vw__device_peek_memory().
 */
void vw__listing_ask_device(const vw_device *device, vw__listing_sample *sample);

/* ---- listing_requests.c ---------------------------------------------------------------------- */

/* What a request has come to so far. */
typedef struct vw__listing_work {
    bool is_undo;      /* wakes only what the request has parked */
    size_t pool_count; /* that were meant */
    uint64_t moved_bytes;
    uint64_t wait_ns;
} vw__listing_work;

/* Without the list's lock; the pool does not end meanwhile. A pool that is not meant, or cannot
 * park, is passed over. */
vw_status vw__listing_carry_out(vw__listing *listing, const vw__live_request *request,
                                vw__listing_work *work);

#endif /* VW_POOL_LISTING_H */
