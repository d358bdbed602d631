/* ring_buffer.c - growing, and overwriting the oldest.
 *
 * Growth copies the records in order, oldest first, into new memory. realloc() would not do: a ring
 * that once could not grow has wrapped, and its oldest record lies in the middle. */
#include "base/ring_buffer.h"

#include <string.h>

#include "base/checked_math.h" /* vw__mul_u64, vw__min_u64 */
#include "base/host_memory.h"

enum { FIRST_CAPACITY = 64 };

void vw__ring_buffer_init(vw__ring_buffer *ring, size_t record_bytes, size_t bound)
{
    VW_ASSERT(record_bytes != 0 && bound != 0);
    *ring = (vw__ring_buffer){.record_bytes = record_bytes, .bound = bound};
}

void vw__ring_buffer_deinit(vw__ring_buffer *ring)
{
    vw__host_free(ring->records);
    vw__ring_buffer_init(ring, ring->record_bytes, ring->bound);
}

void vw__ring_buffer_clear(vw__ring_buffer *ring)
{
    ring->first = 0;
    ring->count = 0;
    ring->dropped_count = 0;
}

bool vw__ring_buffer_reserve(vw__ring_buffer *ring, size_t capacity)
{
    capacity = (size_t)vw__min_u64(capacity, ring->bound);
    if (capacity <= ring->capacity)
        return true;
    uint64_t size_bytes;
    if (!vw__mul_u64(capacity, ring->record_bytes, &size_bytes))
        return false;
    char *grown = vw__host_alloc((size_t)size_bytes);
    if (grown == NULL)
        return false;
    if (ring->count != 0) {
        size_t until_end = (size_t)vw__min_u64(ring->count, ring->capacity - ring->first);
        size_t head_bytes = until_end * ring->record_bytes;
        memcpy(grown, ring->records + ring->first * ring->record_bytes, head_bytes);
        memcpy(grown + head_bytes, ring->records, (ring->count - until_end) * ring->record_bytes);
    }
    vw__host_free(ring->records);
    ring->records = grown;
    ring->capacity = capacity;
    ring->first = 0;
    return true;
}

static bool grow(vw__ring_buffer *ring)
{
    size_t doubled = ring->capacity <= SIZE_MAX / 2 ? ring->capacity * 2 : SIZE_MAX;
    return vw__ring_buffer_reserve(ring, doubled != 0 ? doubled : FIRST_CAPACITY);
}

bool vw__ring_buffer_push(vw__ring_buffer *ring, const void *record)
{
    bool is_full = ring->count == ring->capacity;
    if (is_full && ring->capacity < ring->bound && grow(ring))
        is_full = false;
    if (is_full && ring->capacity == 0)
        return false;
    if (is_full) {
        memcpy(vw__ring_buffer_at(ring, 0), record, ring->record_bytes);
        ring->first = ring->first + 1 < ring->capacity ? ring->first + 1 : 0;
        ring->dropped_count++;
        return true;
    }
    ring->count++;
    memcpy(vw__ring_buffer_at(ring, ring->count - 1), record, ring->record_bytes);
    return true;
}
