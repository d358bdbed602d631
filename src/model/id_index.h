/* id_index.h - finds the number of a record that was stored before.
 *
 * Frames, stacks, notes, streams and pools are each stored once, in arrays of their own. An index
 * goes from the hash of a record to the numbers of those that may equal it; the caller compares.
 * Open addressing with linear probing, at most half full; the hash is kept beside the number, so
 * that growing and most comparisons need not look at the records.
 *
 * Hashes are base/secret_hash.h's, so nobody can make a file whose records all collide.
 *
 * No locks: one thread at a time. */
#ifndef VW_MODEL_ID_INDEX_H
#define VW_MODEL_ID_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vw__id_index_slot {
    uint32_t hash;
    uint32_t id_plus_one; /* 0: empty */
} vw__id_index_slot;

typedef struct vw__id_index {
    vw__id_index_slot *slots; /* owned */
    size_t capacity;          /* 0 or a power of two */
    size_t count;             /* 2 * count <= capacity */
} vw__id_index;

void vw__id_index_deinit(vw__id_index *index);

/* The size in bytes to which the index must grow for one more entry; 0 if it has room. */
size_t vw__id_index_wanted_bytes(const vw__id_index *index);

/* Makes room for one more. false: no host memory, nothing changed. */
bool vw__id_index_reserve(vw__id_index *index);

/* There must be room. */
void vw__id_index_insert(vw__id_index *index, uint32_t hash, uint32_t id);

/* Stores the next number under `hash`; `*cursor` begins as 0. false: no more. */
static inline bool vw__id_index_next(const vw__id_index *index, uint32_t hash, size_t *cursor,
                                     uint32_t *id)
{
    size_t mask = index->capacity - 1;
    if (index->capacity == 0)
        return false;
    for (;;) {
        const vw__id_index_slot *slot = &index->slots[(hash + *cursor) & mask];
        if (slot->id_plus_one == 0)
            return false;
        (*cursor)++;
        if (slot->hash == hash) {
            *id = slot->id_plus_one - 1;
            return true;
        }
    }
}

/* Of a state of vw__secret_hash_add(). */
static inline uint32_t vw__id_index_hash(uint64_t state)
{
    return (uint32_t)(state >> 32);
}

#endif /* VW_MODEL_ID_INDEX_H */
