/* ring_buffer.h - keeps the newest records.
 *
 * History inside someone's training job must have a bound, and most jobs end long before they
 * reach it. So the ring starts small, doubles up to its bound, and from then on each new record
 * replaces the oldest. Without host memory for doubling, the ring continues with what it has, and
 * tries again at the next push.
 *
 *   count + dropped_count == records pushed successfully since init or clear
 *
 * Records are plain bytes of one size, copied in. No locks: the caller has one. */
#ifndef VW_BASE_RING_BUFFER_H
#define VW_BASE_RING_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h" /* VW_ASSERT */

typedef struct vw__ring_buffer {
    char *records; /* owned; NULL before the first push */
    size_t record_bytes;
    size_t bound;    /* the most records ever kept */
    size_t capacity; /* the most kept in the memory there is; <= bound */
    size_t first;    /* position of the oldest */
    size_t count;
    uint64_t dropped_count; /* overwritten so far */
} vw__ring_buffer;

/* Takes no memory yet. Neither number may be 0. */
void vw__ring_buffer_init(vw__ring_buffer *ring, size_t record_bytes, size_t bound);

/* Frees the records. The ring is as after init. */
void vw__ring_buffer_deinit(vw__ring_buffer *ring);

/* Forgets every record and the number dropped; keeps the memory. */
void vw__ring_buffer_clear(vw__ring_buffer *ring);

/* Adds a copy of `*record`. false, with nothing changed, only if the ring has no memory at all and
 * gets none. Takes host memory while growing: a caller that must not, because of a lock, calls
 * vw__ring_buffer_reserve() before. */
bool vw__ring_buffer_push(vw__ring_buffer *ring, const void *record);

/* Takes the memory for `capacity` records, or for the bound if that is less: pushes up to that many
 * need no memory then. false: no host memory, nothing changed. */
bool vw__ring_buffer_reserve(vw__ring_buffer *ring, size_t capacity);

static inline size_t vw__ring_buffer_count(const vw__ring_buffer *ring)
{
    return ring->count;
}

static inline uint64_t vw__ring_buffer_dropped_count(const vw__ring_buffer *ring)
{
    return ring->dropped_count;
}

/* The record number `index`, 0 being the oldest kept; valid until the next change. */
static inline void *vw__ring_buffer_at(const vw__ring_buffer *ring, size_t index)
{
    VW_ASSERT(index < ring->count);
    size_t until_end = ring->capacity - ring->first;
    size_t position = index < until_end ? ring->first + index : index - until_end;
    return ring->records + position * ring->record_bytes;
}

#endif /* VW_BASE_RING_BUFFER_H */
