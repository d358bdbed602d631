/* stack_table.h - stores each distinct stack once, within a memory limit.
 *
 * A training loop makes millions of requests at a few thousand places. A stack is stored as a run
 * of 64-bit words, whose meaning the owner defines (an address per frame, or two words that name a
 * function, a file and a line), and gets a small number. Stack 0 is the empty one.
 *
 * Nothing is ever removed, since a live block may refer to any stack. The limit on its memory keeps
 * the table from growing without end; a stack that does not fit is refused, and the owner counts
 * it.
 *
 * Words and strings never move, so the result of a lookup can be read without a lock. No locks
 * here: the owner has one. */
#ifndef VW_RECORD_STACK_TABLE_H
#define VW_RECORD_STACK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/string_table.h"

/* The largest number of stacks, the empty one included: an id fits 24 bits. */
#define VW__STACK_TABLE_MOST (UINT32_C(1) << 24)

typedef struct vw__stack_table_entry {
    const uint64_t *words; /* owned by the arena */
    uint32_t word_count;
    uint32_t hash;
} vw__stack_table_entry;

typedef struct vw__stack_table {
    vw__arena arena;
    vw__string_table strings;       /* for owners whose words name strings; same arena */
    vw__stack_table_entry *entries; /* by id - 1 */
    uint32_t *slots;                /* hash -> id; 0 is empty; twice as many as entries */
    uint32_t count;                 /* without the empty one */
    uint32_t capacity;              /* of entries; 0 or a power of two */
} vw__stack_table;

/* Takes no memory yet. The table must not move: its strings refer to its arena. */
void vw__stack_table_init(vw__stack_table *table, size_t limit_bytes);
void vw__stack_table_deinit(vw__stack_table *table);

/* Stores the id of this stack, and adds the stack if it is new. false if the limit or the host
 * refuses: the table is then unchanged. */
bool vw__stack_table_add(vw__stack_table *table, const uint64_t *words, uint32_t word_count,
                         uint32_t *id);

/* `id` must be at most table->count. */
vw__stack_table_entry vw__stack_table_get(const vw__stack_table *table, uint32_t id);

#endif /* VW_RECORD_STACK_TABLE_H */
