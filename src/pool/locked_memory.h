/* locked_memory.h - memory of this process that is page-locked for a device.
 *
 * The driver finds pages one by one, under a lock of its own: 0.2 to 0.4 s a GiB. Pages that
 * several threads have touched before, huge ones where the system has them, are only locked:
 * together 0.05 to 0.09 s a GiB (docs/design/012-park.md). */
#ifndef VW_POOL_LOCKED_MEMORY_H
#define VW_POOL_LOCKED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/device.h"

enum { VW__LOCKED_MEMORY_PAGE_BYTES = 4096 }; /* what memory begins at, and is touched by */

/* True if the device can lock memory that exists, and copy between it and its own. */
bool vw__locked_memory_is_possible(const vw_device *device);

/* As many threads as the process may run on, up to where more did not help. */
size_t vw__locked_memory_thread_count(void);

/* `thread_count` of them touch the pages: 1 is the caller alone. What is there is undefined.
 *
 * VW_ERR_UNSUPPORTED, VW_ERR_HOST_MEMORY, VW_ERR_DEVICE */
VW_MUST_CHECK vw_status vw__locked_memory_take(const vw_device *device, size_t size_bytes,
                                               size_t thread_count, void **out);

/* On failure the memory stays locked, and the caller's. */
VW_MUST_CHECK vw_status vw__locked_memory_give_back(const vw_device *device, void *memory);

#endif /* VW_POOL_LOCKED_MEMORY_H */
