/* id_index.c - growing, and putting in. */
#include "model/id_index.h"

#include "base/error.h" /* HR_ASSERT */
#include "base/host_memory.h"

enum { FIRST_CAPACITY = 64 };

void hr__id_index_deinit(hr__id_index *index)
{
    hr__host_free(index->slots);
    *index = (hr__id_index){0};
}

static bool is_full(const hr__id_index *index)
{
    return 2 * (index->count + 1) > index->capacity;
}

size_t hr__id_index_wanted_bytes(const hr__id_index *index)
{
    if (!is_full(index))
        return 0;
    size_t capacity = index->capacity != 0 ? 2 * index->capacity : FIRST_CAPACITY;
    return capacity * sizeof *index->slots;
}

static void put(hr__id_slot *slots, size_t capacity, hr__id_slot slot)
{
    size_t at = slot.hash & (capacity - 1);
    while (slots[at].id_plus_one != 0)
        at = (at + 1) & (capacity - 1);
    slots[at] = slot;
}

bool hr__id_index_reserve(hr__id_index *index)
{
    if (!is_full(index))
        return true;
    size_t capacity = index->capacity != 0 ? 2 * index->capacity : FIRST_CAPACITY;
    hr__id_slot *slots = hr__host_alloc_zeroed(capacity, sizeof *slots);
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < index->capacity; i++)
        if (index->slots[i].id_plus_one != 0)
            put(slots, capacity, index->slots[i]);
    hr__host_free(index->slots);
    index->slots = slots;
    index->capacity = capacity;
    return true;
}

void hr__id_index_insert(hr__id_index *index, uint32_t hash, uint32_t id)
{
    HR_ASSERT(!is_full(index) && id != UINT32_MAX);
    put(index->slots, index->capacity, (hr__id_slot){hash, id + 1});
    index->count++;
}
