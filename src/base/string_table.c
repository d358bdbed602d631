/* string_table.c - a hash table of ids beside an array of strings.
 *
 * Two arrays: the strings by id, and twice as many slots with linear probing, at most half full.
 * Both double together. The arena keeps the outgrown arrays; together they are smaller than the
 * ones in use. */
#include "base/string_table.h"

#include <stdalign.h>
#include <string.h>

#include "base/checked_math.h" /* vw__min_u64 */
#include "base/error.h"        /* VW_ASSERT */

struct vw__string_entry {
    vw__string string;
    uint64_t hash;
};

enum { FIRST_CAPACITY = 64 };

static uint64_t hash_of(const vw__string_table *table, const char *bytes, size_t size_bytes)
{
    const vw__secret_hash *secret = &table->secret;
    uint64_t state = vw__secret_hash_add(secret, secret->start, size_bytes);
    while (size_bytes > 0) {
        uint64_t word = 0;
        size_t taken = size_bytes < sizeof word ? size_bytes : sizeof word;
        memcpy(&word, bytes, taken);
        state = vw__secret_hash_add(secret, state, word);
        bytes += taken;
        size_bytes -= taken;
    }
    return state;
}

void vw__string_table_init(vw__string_table *table, vw__arena *arena, uint32_t count_limit,
                           size_t bytes_limit)
{
    *table = (vw__string_table){
        .arena = arena,
        .count_limit = (uint32_t)vw__min_u64(count_limit, VW__STRING_TABLE_LARGEST_COUNT),
        .bytes_limit = bytes_limit,
        .secret = vw__secret_hash_of_process(),
    };
}

/* The slot that holds these bytes, or the empty slot for them. There must be slots. */
static size_t slot_for(const vw__string_table *table, const char *bytes, size_t size_bytes,
                       uint64_t hash)
{
    size_t mask = (size_t)table->entry_capacity * 2 - 1;
    size_t slot = (size_t)hash & mask;
    for (; table->slots[slot] != 0; slot = (slot + 1) & mask) {
        const vw__string_entry *entry = &table->entries[table->slots[slot] - 1];
        if (entry->hash == hash && entry->string.size_bytes == size_bytes &&
            memcmp(entry->string.bytes, bytes, size_bytes) == 0)
            break;
    }
    return slot;
}

static bool grow(vw__string_table *table)
{
    size_t capacity =
        table->entry_capacity != 0 ? (size_t)table->entry_capacity * 2 : FIRST_CAPACITY;
    /* One piece for both, so that a failure leaves nothing in the arena. */
    vw__string_entry *entries = vw__arena_alloc_array(
        table->arena, capacity, sizeof(vw__string_entry) + 2 * sizeof(uint32_t),
        alignof(vw__string_entry));
    if (entries == NULL)
        return false;
    uint32_t *slots = (uint32_t *)(entries + capacity);
    if (table->count != 0)
        memcpy(entries, table->entries, table->count * sizeof *entries);
    size_t mask = capacity * 2 - 1;
    for (uint32_t id = 0; id < table->count; id++) {
        size_t slot = (size_t)entries[id].hash & mask;
        while (slots[slot] != 0)
            slot = (slot + 1) & mask;
        slots[slot] = id + 1;
    }
    table->entries = entries;
    table->slots = slots;
    table->entry_capacity = (uint32_t)capacity;
    return true;
}

static bool refused(vw__string_table *table, bool is_by_limit)
{
    table->has_hit_limit = table->has_hit_limit || is_by_limit;
    return false;
}

bool vw__string_table_add(vw__string_table *table, const void *bytes, size_t size_bytes,
                          uint32_t *id)
{
    const char *start = bytes != NULL ? bytes : "";
    uint64_t hash = hash_of(table, start, size_bytes);
    size_t slot = 0;
    if (table->entry_capacity != 0) {
        slot = slot_for(table, start, size_bytes, hash);
        if (table->slots[slot] != 0) {
            *id = table->slots[slot] - 1;
            return true;
        }
    }
    if (table->count >= table->count_limit || size_bytes > table->bytes_limit - table->bytes)
        return refused(table, true);
    if (table->count == table->entry_capacity) {
        if (!grow(table))
            return refused(table, table->arena->has_hit_limit);
        slot = slot_for(table, start, size_bytes, hash);
    }
    char *copy = vw__arena_copy(table->arena, start, size_bytes);
    if (copy == NULL)
        return refused(table, table->arena->has_hit_limit);

    table->entries[table->count] = (vw__string_entry){.string = {copy, size_bytes}, .hash = hash};
    table->slots[slot] = ++table->count;
    table->bytes += size_bytes;
    *id = table->count - 1;
    return true;
}

vw__string vw__string_table_get(const vw__string_table *table, uint32_t id)
{
    VW_ASSERT(id < table->count);
    return table->entries[id].string;
}
