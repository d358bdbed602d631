/* park.h - parking: a pool's memory leaves the device until it is woken.
 *
 * vw_pool_park() copies live data to host memory or to a file and gives the device memory back, so
 * that other processes can take it. vw_pool_wake() takes device memory again, maps it at the same
 * addresses and copies the data back: pointers and captured graphs stay valid. Engines "vramwise"
 * only, and only on a device with virtual memory.
 *
 * There are two ways, for two situations:
 *
 *   the whole pool   Nothing is mapped at its addresses until it is woken. Work that touches them
 *                    would end the context, so launches are held back meanwhile: see vw_park_guard.
 *   one region       The rest of the program goes on, so that launches cannot be held. Host memory
 *                    with the same bytes is mapped at the region's addresses: work that touches it
 *                    runs as ever, over the bus, and what it writes comes back with the region.
 *
 * A *region* is a private pool with a name (vw_private_pool_set_region()). A region that does not
 * keep its data (a cache) is dropped rather than copied. Its bytes are undefined from then on,
 * until the program writes them after vw_pool_wake(); while only the region is parked, a touch is
 * harmless and means nothing.
 *
 * What happens to memory that is not a plain live block:
 *
 *   free memory            given back, and taken again when somebody asks for it
 *   private pools in use   parked with every byte, free ones too: a graph may read them. Regions:
 *                          if a captured stream has had memory there, and they keep data
 *   pinned, shared         stays on the device: others hold it. vw_park_report.stayed_bytes
 *   spilled                stays where it is, in host memory
 *   freed, but waiting     waited for, then free
 *   plain segments         VW_ERR_UNSUPPORTED
 *
 * Thread-safe. One park or wake runs at a time for a pool; a second one waits for it. */
#ifndef VRAMWISE_PARK_H
#define VRAMWISE_PARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "vramwise/vramwise.h" /* vw_pool, vw_private_id */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vw_park_options {
    size_t struct_size;        /* sizeof(vw_park_options) */
    const vw_private_id *only; /* a region; NULL = the whole pool */

    /* A folder: the data goes to a file there, which has no name and ends with the process. NULL =
     * page-locked host memory. Only for the whole pool. */
    const char *folder;

    /* How long a request for parked memory waits for vw_pool_wake() before it fails with
     * VW_ERR_PARKED; 0 = fails at once, UINT64_MAX = for ever. Counts for the whole pool, from the
     * last vw_pool_park() on. */
    uint64_t wait_ms;

    /* The caller promises that no work touches the pool's memory until it is woken. Needed to park
     * a whole pool that has no vw_park_guard. */
    bool is_promised;
} vw_park_options;

/* What one call did. Bytes are those of device memory, except copied_bytes. */
typedef struct vw_park_report {
    size_t struct_size;     /* caller sets to sizeof(vw_park_report) */
    uint64_t moved_bytes;   /* given back to the device, or taken again */
    uint64_t copied_bytes;  /* data copied, either way */
    uint64_t dropped_bytes; /* of regions that keep no data */
    uint64_t stayed_bytes;  /* to park: pinned memory that is still on the device */
    uint64_t wait_ns;       /* from the call to its return */
} vw_park_report;

/* Parks the whole pool or a region, in a safe point. `options` and `report` may be NULL. Where it
 * is parked already, the call checks its arguments, takes `wait_ms` over and does nothing else.
 *
 * On failure the memory is back as it was; or, where the device has no room for it any more, it is
 * still parked (vw_paged_stats.parked_bytes is not 0), and vw_pool_wake() brings it back later. The
 * bytes of a region that keeps no data may be gone after a failure too.
 *
 * VW_ERR_UNSUPPORTED       the engine or the device cannot; no safe point; no guard and no promise
 * VW_ERR_WRONG_STATE       the safe point was refused, a graph is being captured, or launches
 *                          cannot be held back: vw_last_error() says which
 * VW_ERR_HOST_MEMORY       the host has no room; the message has the numbers
 * VW_ERR_FILE              the file could not be made or written
 * VW_ERR_INVALID_ARGUMENT  no such region; a region and a folder
 * VW_ERR_NOT_READY         other threads' requests were being served all the time (10 s)
 * VW_ERR_DEVICE */
VW_API VW_MUST_CHECK vw_status vw_pool_park(vw_pool *pool, const vw_park_options *options,
                                            vw_park_report *report);

/* Brings back what is parked: all of it, or one region. Does nothing where nothing is. Parked
 * blocks that were freed meanwhile do not come back. Waiting requests go on.
 *
 * On failure what did not come back stays parked. The whole pool comes back as a whole or not at
 * all, and before the regions that were parked by themselves.
 *
 * VW_ERR_OUT_OF_MEMORY     the device has no room: the message says how much is needed, how much is
 *                          free, and who has the rest
 * VW_ERR_WRONG_STATE       the safe point was refused; or a region, while the pool is parked
 * VW_ERR_FILE              the file could not be read
 * VW_ERR_DEVICE            the driver failed otherwise */
VW_API VW_MUST_CHECK vw_status vw_pool_wake(vw_pool *pool, const vw_private_id *only,
                                            vw_park_report *report);

/* Page-locked host memory for parking: a thread makes it ahead until `size_bytes` are kept. Making
 * it is most of the time that parking takes at first, 0.1 s a GiB; it is kept when memory is woken.
 * 0 gives back what is kept and not in use. Waits for a park or wake that is under way, so that
 * safe_point.enter() and listeners must not call it.
 *
 * VW_ERR_UNSUPPORTED, VW_ERR_HOST_MEMORY (more than the machine can lock) */
VW_API VW_MUST_CHECK vw_status vw_pool_park_ahead(vw_pool *pool, uint64_t size_bytes);

/* Makes private pool `id`, which is in use, a region. `name` appears in messages; it is copied, and
 * cut to 47 bytes. A region's memory can leave, so that one_handle ends: VW_ERR_WRONG_STATE if the
 * pool has such segments, if it is not in use, or if it is parked and would become another region
 * than it is. A region that keeps no data serves nobody else: use_on_oom has no effect, and it is
 * VW_ERR_WRONG_STATE if the pool has served others that way before. VW_ERR_UNSUPPORTED (engine
 * "torch"), VW_ERR_INVALID_ARGUMENT. */
VW_API VW_MUST_CHECK vw_status vw_private_pool_set_region(vw_pool *pool, vw_private_id id,
                                                          const char *name, bool keeps_data);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_PARK_H */
