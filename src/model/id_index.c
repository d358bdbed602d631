/* id_index.c - growing and inserting. */
#include "model/id_index.h"

#include "base/error.h" /* VW_ASSERT */
#include "base/host_memory.h"

enum { FIRST_CAPACITY = 64 };

void vw__id_index_deinit(vw__id_index *index)
{
    vw__host_free(index->slots);
    *index = (vw__id_index){0};
}

static bool is_full(const vw__id_index *index)
{
    return 2 * (index->count + 1) > index->capacity;
}

size_t vw__id_index_wanted_bytes(const vw__id_index *index)
{
    if (!is_full(index))
        return 0;
    size_t capacity = index->capacity != 0 ? 2 * index->capacity : FIRST_CAPACITY;
    return capacity * sizeof *index->slots;
}

static void put(vw__id_index_slot *slots, size_t capacity, vw__id_index_slot slot)
{
    size_t at = slot.hash & (capacity - 1);
    while (slots[at].id_plus_one != 0)
        at = (at + 1) & (capacity - 1);
    slots[at] = slot;
}

bool vw__id_index_reserve(vw__id_index *index)
{
    if (!is_full(index))
        return true;
    size_t capacity = index->capacity != 0 ? 2 * index->capacity : FIRST_CAPACITY;
    vw__id_index_slot *slots = vw__host_alloc_zeroed(capacity, sizeof *slots);
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < index->capacity; i++)
        if (index->slots[i].id_plus_one != 0)
            put(slots, capacity, index->slots[i]);
    vw__host_free(index->slots);
    index->slots = slots;
    index->capacity = capacity;
    return true;
}

void vw__id_index_insert(vw__id_index *index, uint32_t hash, uint32_t id)
{
    VW_ASSERT(!is_full(index) && id != UINT32_MAX);
    put(index->slots, index->capacity, (vw__id_index_slot){hash, id + 1});
    index->count++;
}
