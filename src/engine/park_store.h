/* park_store.h - where an engine puts the bytes of memory that it parks.
 *
 * A store is a tape: bytes are put at rising offsets, and got from them later, any number of times.
 * The owner makes it (pool/park_memory.h, pool/park_file.h) and the engine ends it. put() and get()
 * are queued, in order; mark() and wait() say how far that has come. */
#ifndef VW_ENGINE_PARK_STORE_H
#define VW_ENGINE_PARK_STORE_H

#include <stdint.h>

#include "vramwise/device.h" /* vw_device_ptr */

typedef struct vw__park_store {
    void *context;

    /* So many bytes will be put. VW_ERR_HOST_MEMORY, VW_ERR_FILE: there is no room for them. */
    vw_status (*begin)(void *context, uint64_t size_bytes);

    vw_status (*put)(void *context, uint64_t offset, vw_device_ptr from, uint64_t size_bytes);
    vw_status (*get)(void *context, uint64_t offset, vw_device_ptr to, uint64_t size_bytes);

    /* wait() returns when all that was queued before the last mark() of this slot, 0 or 1, is done.
     * What was put by then is safe: the memory it came from may go. */
    vw_status (*mark)(void *context, unsigned slot);
    vw_status (*wait)(void *context, unsigned slot);

    /* Waits for what is queued, and ends the store. Cannot fail. */
    void (*end)(void *context);
} vw__park_store;

#endif /* VW_ENGINE_PARK_STORE_H */
