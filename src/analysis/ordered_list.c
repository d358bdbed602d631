/* ordered_list.c - see ordered_list.h.
 *
 * A leaf that is full is split in half when another record comes; one that is empty goes. Leaves
 * are not joined: the directory never becomes longer by a removal.
 *
 * Invariants, checked in tests/unit/test_ordered_list.c:
 *   - keys rise, within a leaf and from leaf to leaf
 *   - no leaf is empty
 *   - a place has index 0 in front of all records only */
#include "analysis/ordered_list.h"

#include <string.h>

#include "analysis/array.h"
#include "base/error.h"
#include "base/host_memory.h"

enum { HALF = VW__ORDERED_LIST_LEAF / 2 };

void vw__ordered_list_init(vw__ordered_list *list, size_t record_bytes, const char *what)
{
    *list = (vw__ordered_list){.record_bytes = record_bytes, .what = what};
}

void vw__ordered_list_deinit(vw__ordered_list *list)
{
    for (size_t i = 0; i < list->leaf_count; i++)
        vw__host_free(list->leaves[i].records);
    vw__host_free(list->leaves);
    vw__ordered_list_init(list, list->record_bytes, list->what);
}

/* ---- finding --------------------------------------------------------------------------------- */

static unsigned char *record_at(const vw__ordered_list *list, size_t leaf, size_t index)
{
    return list->leaves[leaf].records + index * list->record_bytes;
}

static uint64_t key_at(const vw__ordered_list *list, size_t leaf, size_t index)
{
    uint64_t key;
    memcpy(&key, record_at(list, leaf, index), sizeof key);
    return key;
}

/* The last leaf that begins at or below `key`, or the first. */
static size_t leaf_of(const vw__ordered_list *list, uint64_t key)
{
    size_t low = 1, high = list->leaf_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (key_at(list, middle, 0) <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

vw__ordered_list_place vw__ordered_list_up_to(const vw__ordered_list *list, uint64_t key)
{
    if (list->leaf_count == 0)
        return vw__ordered_list_begin();
    size_t leaf = leaf_of(list, key), low = 0, high = list->leaves[leaf].count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (key_at(list, leaf, middle) <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return (vw__ordered_list_place){leaf, low}; /* low is 0 in the first leaf only, by leaf_of() */
}

void *vw__ordered_list_before(const vw__ordered_list *list, vw__ordered_list_place place)
{
    return place.index > 0 ? record_at(list, place.leaf, place.index - 1) : NULL;
}

void *vw__ordered_list_behind(const vw__ordered_list *list, vw__ordered_list_place place)
{
    if (place.leaf >= list->leaf_count)
        return NULL;
    if (place.index < list->leaves[place.leaf].count)
        return record_at(list, place.leaf, place.index);
    return place.leaf + 1 < list->leaf_count ? record_at(list, place.leaf + 1, 0) : NULL;
}

vw__ordered_list_place vw__ordered_list_next(const vw__ordered_list *list,
                                             vw__ordered_list_place place)
{
    if (place.index < list->leaves[place.leaf].count)
        return (vw__ordered_list_place){place.leaf, place.index + 1};
    return (vw__ordered_list_place){place.leaf + 1, 1};
}

vw__ordered_list_place vw__ordered_list_previous(const vw__ordered_list *list,
                                                 vw__ordered_list_place place)
{
    if (place.index > 1 || place.leaf == 0)
        return (vw__ordered_list_place){place.leaf, place.index - 1};
    return (vw__ordered_list_place){place.leaf - 1, list->leaves[place.leaf - 1].count};
}

/* ---- changing -------------------------------------------------------------------------------- */

/* Puts an empty leaf at `at`, with room for records. */
static vw_status add_leaf(vw__ordered_list *list, size_t at)
{
    size_t bytes = VW__ORDERED_LIST_LEAF * list->record_bytes;
    VW__TRY(vw__array_make_room(&list->leaves, &list->leaf_capacity, list->leaf_count,
                                sizeof *list->leaves, list->what));
    unsigned char *records = vw__host_alloc(bytes);
    if (records == NULL)
        return vw__fail_host_memory(bytes, list->what);
    memmove(list->leaves + at + 1, list->leaves + at,
            (list->leaf_count - at) * sizeof *list->leaves);
    list->leaves[at] = (vw__ordered_list_leaf){.records = records};
    list->leaf_count++;
    return VW_OK;
}

/* Moves the upper half of a full leaf into a new one. */
static vw_status split_leaf(vw__ordered_list *list, vw__ordered_list_place *place)
{
    VW__TRY(add_leaf(list, place->leaf + 1));
    vw__ordered_list_leaf *low = &list->leaves[place->leaf], *high = low + 1;
    high->count = low->count - HALF;
    low->count = HALF;
    memcpy(high->records, low->records + HALF * list->record_bytes,
           high->count * list->record_bytes);
    if (place->index > HALF)
        *place = (vw__ordered_list_place){place->leaf + 1, place->index - HALF};
    return VW_OK;
}

vw_status vw__ordered_list_insert(vw__ordered_list *list, vw__ordered_list_place *place,
                                  const void *record)
{
    if (list->leaf_count == 0)
        VW__TRY(add_leaf(list, 0));
    else if (list->leaves[place->leaf].count == VW__ORDERED_LIST_LEAF)
        VW__TRY(split_leaf(list, place));
    vw__ordered_list_leaf *leaf = &list->leaves[place->leaf];
    unsigned char *at = leaf->records + place->index * list->record_bytes;
    memmove(at + list->record_bytes, at, (leaf->count - place->index) * list->record_bytes);
    memcpy(at, record, list->record_bytes);
    leaf->count++;
    list->count++;
    place->index++;
    return VW_OK;
}

static void remove_leaf(vw__ordered_list *list, size_t at)
{
    vw__host_free(list->leaves[at].records);
    list->leaf_count--;
    memmove(list->leaves + at, list->leaves + at + 1,
            (list->leaf_count - at) * sizeof *list->leaves);
}

void vw__ordered_list_remove_before(vw__ordered_list *list, vw__ordered_list_place *place)
{
    vw__ordered_list_leaf *leaf = &list->leaves[place->leaf];
    unsigned char *at = leaf->records + --place->index * list->record_bytes;
    leaf->count--;
    list->count--;
    memmove(at, at + list->record_bytes, (leaf->count - place->index) * list->record_bytes);
    if (leaf->count == 0)
        remove_leaf(list, place->leaf);
    if (place->index == 0 && place->leaf > 0)
        *place = (vw__ordered_list_place){place->leaf - 1, list->leaves[place->leaf - 1].count};
}

void vw__ordered_list_remove_behind(vw__ordered_list *list, vw__ordered_list_place *place)
{
    *place = vw__ordered_list_next(list, *place);
    vw__ordered_list_remove_before(list, place);
}
