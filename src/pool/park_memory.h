/* park_memory.h - parked data in page-locked host memory. */
#ifndef VW_POOL_PARK_MEMORY_H
#define VW_POOL_PARK_MEMORY_H

#include "engine/host_lender.h"
#include "engine/park_store.h"

/* A store on memory that `host` lends; it goes back there with the store's end. `device` must
 * outlive it. VW_ERR_HOST_MEMORY, VW_ERR_DEVICE. */
VW_MUST_CHECK vw_status vw__park_memory_open(const vw_device *device, const vw__lender *host,
                                             vw__park_store *out);

/* VW_ERR_HOST_MEMORY if this machine cannot lock so many bytes more; the message has the numbers.
 */
VW_MUST_CHECK vw_status vw__park_memory_check(const vw_device *device, uint64_t size_bytes);

/* The size of the piece with number `index`, of a tape of so many bytes; 0: it has no such piece.
 */
uint64_t vw__park_memory_piece_bytes(const vw_device *device, uint64_t tape_bytes, uint64_t index);

#endif /* VW_POOL_PARK_MEMORY_H */
