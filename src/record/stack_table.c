/* stack_table.c - a hash table of word runs, all of it in one arena.
 *
 * Doubling leaves the old tables in the arena: at most as many bytes as are in use. That is the
 * price of one limit for everything, without single pieces to free. */
#include "record/stack_table.h"

#include <string.h>

enum { FIRST_CAPACITY = 64 };

void vw__stack_table_init(vw__stack_table *table, size_t limit_bytes)
{
    *table = (vw__stack_table){.entries = NULL};
    vw__arena_init(&table->arena, limit_bytes);
    vw__string_table_init(&table->strings, &table->arena, VW__STRING_TABLE_LARGEST_COUNT,
                          limit_bytes);
}

void vw__stack_table_deinit(vw__stack_table *table)
{
    vw__arena_deinit(&table->arena);
}

static uint32_t hash_of(const uint64_t *words, uint32_t word_count)
{
    const uint64_t golden = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t hash = word_count;
    for (uint32_t i = 0; i < word_count; i++) {
        hash = (hash ^ words[i]) * golden;
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static size_t slot_mask(const vw__stack_table *table)
{
    return (size_t)table->capacity * 2 - 1;
}

/* The slot of this stack, or the empty slot where it belongs. */
static uint32_t *find_slot(const vw__stack_table *table, const uint64_t *words, uint32_t word_count,
                           uint32_t hash)
{
    for (size_t i = hash & slot_mask(table);; i = (i + 1) & slot_mask(table)) {
        uint32_t id = table->slots[i];
        if (id == 0)
            return &table->slots[i];
        const vw__stack_table_entry *entry = &table->entries[id - 1];
        if (entry->hash == hash && entry->word_count == word_count &&
            memcmp(entry->words, words, word_count * sizeof *words) == 0)
            return &table->slots[i];
    }
}

static bool grow(vw__stack_table *table)
{
    if (table->capacity >= VW__STACK_TABLE_MOST / 2)
        return false;
    uint32_t capacity = table->capacity != 0 ? table->capacity * 2 : FIRST_CAPACITY;
    vw__stack_table_entry *entries = vw__arena_alloc_array(&table->arena, capacity, sizeof *entries,
                                                           _Alignof(vw__stack_table_entry));
    uint32_t *slots = vw__arena_alloc_array(&table->arena, (size_t)capacity * 2, sizeof *slots,
                                            _Alignof(uint32_t));
    if (entries == NULL || slots == NULL)
        return false;
    if (table->count != 0)
        memcpy(entries, table->entries, table->count * sizeof *entries);
    table->entries = entries;
    table->slots = slots;
    table->capacity = capacity;
    for (uint32_t id = 1; id <= table->count; id++) {
        const vw__stack_table_entry *entry = &entries[id - 1];
        *find_slot(table, entry->words, entry->word_count, entry->hash) = id;
    }
    return true;
}

bool vw__stack_table_add(vw__stack_table *table, const uint64_t *words, uint32_t word_count,
                         uint32_t *id)
{
    if (word_count == 0) {
        *id = 0;
        return true;
    }
    uint32_t hash = hash_of(words, word_count);
    if (table->capacity != 0) {
        uint32_t known = *find_slot(table, words, word_count, hash);
        if (known != 0) {
            *id = known;
            return true;
        }
    }
    if (table->count == table->capacity && !grow(table))
        return false;
    uint64_t *copy = vw__arena_alloc(&table->arena, word_count * sizeof *copy, _Alignof(uint64_t));
    if (copy == NULL)
        return false;
    memcpy(copy, words, word_count * sizeof *copy);
    table->entries[table->count] = (vw__stack_table_entry){copy, word_count, hash};
    *id = ++table->count;
    *find_slot(table, words, word_count, hash) = *id;
    return true;
}

vw__stack_table_entry vw__stack_table_get(const vw__stack_table *table, uint32_t id)
{
    return id != 0 ? table->entries[id - 1] : (vw__stack_table_entry){NULL, 0, 0};
}
