/* string_table.h - stores each string once, and numbers it.
 *
 * A recording names the same few thousand files and functions in millions of frames. The table
 * keeps one copy of each and hands out ids 0, 1, 2 ... in the order in which strings first came;
 * two strings are equal exactly if their ids are.
 *
 * Strings are any bytes with a length. All memory comes from the arena given at init, which the
 * table borrows: there is no deinit, and strings live as long as the arena's pieces. For strings
 * from files, limits on their number and their bytes bound the table, and the hash starts from a
 * number that a file cannot know, so that nobody can make a file whose strings all collide.
 *
 * No locks: one thread at a time. */
#ifndef VW_BASE_STRING_TABLE_H
#define VW_BASE_STRING_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/secret_hash.h"

/* The largest number of strings: an id fits 32 bits, and is never UINT32_MAX. */
#define VW__STRING_TABLE_LARGEST_COUNT (UINT32_C(1) << 31)

typedef struct vw__string {
    const char *bytes; /* owned by the arena; a zero follows that is not counted */
    size_t size_bytes;
} vw__string;

typedef struct vw__string_entry vw__string_entry;

typedef struct vw__string_table {
    vw__arena *arena;          /* borrowed */
    vw__string_entry *entries; /* by id */
    uint32_t *slots;           /* hash -> id + 1; 0 is empty */
    uint32_t count;
    uint32_t entry_capacity; /* slots: twice that; 0 or a power of two */
    uint32_t count_limit;
    size_t bytes; /* of all strings together */
    size_t bytes_limit;
    vw__secret_hash secret;
    bool has_hit_limit; /* a string was refused because of a limit, the arena's included */
} vw__string_table;

/* Takes no memory yet. Limits that are too large are lowered. */
void vw__string_table_init(vw__string_table *table, vw__arena *arena, uint32_t count_limit,
                           size_t bytes_limit);

/* Stores the id of these bytes, and adds them if they are new. `bytes` may be NULL if `size_bytes`
 * is 0. false, with nothing changed, if a limit or the host refuses; `has_hit_limit` says which.
 * Sets no message. */
bool vw__string_table_add(vw__string_table *table, const void *bytes, size_t size_bytes,
                          uint32_t *id);

/* `id` must be below the count. */
vw__string vw__string_table_get(const vw__string_table *table, uint32_t id);

static inline uint32_t vw__string_table_count(const vw__string_table *table)
{
    return table->count;
}

#endif /* VW_BASE_STRING_TABLE_H */
