/* keep_free.h - memory of the device that a pool leaves to others (vw_pool_options.keep_free).
 *
 * The pool owns it, and with it a thread, which asks the device for its free memory and has the
 * engine give idle memory back where that is too little. */
#ifndef VW_POOL_KEEP_FREE_H
#define VW_POOL_KEEP_FREE_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/vramwise.h"

typedef struct vw__keep_free vw__keep_free;

/* What the option says, in bytes; 0: nothing. VW_ERR_INVALID_ARGUMENT: neither a size nor a share,
 * or more than the device has. */
VW_MUST_CHECK vw_status vw__keep_free_read(const vw_device *device, const char *text,
                                           uint64_t *out_bytes);

/* For a pool that has its engine. VW_ERR_INVALID_ARGUMENT, VW_ERR_UNSUPPORTED: the engine cannot.
 * VW_ERR_HOST_MEMORY: there can be no thread. */
VW_MUST_CHECK vw_status vw__keep_free_start(vw_pool *pool, uint64_t wanted_bytes,
                                            vw__keep_free **out);

/* The engine's trim() may have left memory for the thread to give back. Without the pool's lock, as
 * the next; NULL does nothing in both. */
void vw__keep_free_wake(vw__keep_free *keeper);
/* False: the process ends, and the thread is stuck in the driver. It still has keeper and pool. */
bool vw__keep_free_stop(vw__keep_free *keeper);

#endif /* VW_POOL_KEEP_FREE_H */
