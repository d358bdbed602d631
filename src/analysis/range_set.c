/* range_set.c - see range_set.h. */
#include "analysis/range_set.h"

#include <string.h>

#include "analysis/array.h"
#include "base/error.h"
#include "base/host_memory.h"

void vw__range_set_init(vw__range_set *set)
{
    *set = (vw__range_set){.ranges = NULL};
}

void vw__range_set_deinit(vw__range_set *set)
{
    vw__host_free(set->ranges);
    vw__range_set_init(set);
}

/* The first range that ends behind `address`, or `count`. */
static size_t first_ending_behind(const vw__range_set *set, uint64_t address)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->ranges[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool vw__range_set_covers(const vw__range_set *set, uint64_t begin, uint64_t end)
{
    size_t i = first_ending_behind(set, begin);
    return begin < end && i < set->count && set->ranges[i].begin <= begin &&
           end <= set->ranges[i].end;
}

bool vw__range_set_touches(const vw__range_set *set, uint64_t begin, uint64_t end)
{
    size_t i = first_ending_behind(set, begin);
    return begin < end && i < set->count && set->ranges[i].begin < end;
}

static vw_status make_room(vw__range_set *set)
{
    return vw__array_make_room(&set->ranges, &set->capacity, set->count, sizeof *set->ranges,
                               "ranges of memory");
}

/* Puts `with_count` ranges in the place of [first, end), for which there is room. */
static void replace(vw__range_set *set, size_t first, size_t end, const vw__range_set_range *with,
                    size_t with_count)
{
    memmove(set->ranges + first + with_count, set->ranges + end,
            (set->count - end) * sizeof *set->ranges);
    memcpy(set->ranges + first, with, with_count * sizeof *with);
    set->count = set->count - (end - first) + with_count;
}

vw_status vw__range_set_add(vw__range_set *set, uint64_t begin, uint64_t end)
{
    if (begin >= end)
        return VW_OK;
    VW__TRY(make_room(set));
    vw__range_set_range joined = {begin, end};
    size_t first = begin > 0 ? first_ending_behind(set, begin - 1) : 0; /* touching counts */
    size_t last = first;
    while (last < set->count && set->ranges[last].begin <= end) {
        if (set->ranges[last].begin < joined.begin)
            joined.begin = set->ranges[last].begin;
        if (set->ranges[last].end > joined.end)
            joined.end = set->ranges[last].end;
        last++;
    }
    replace(set, first, last, &joined, 1);
    return VW_OK;
}

/* Adds what of [begin, end) lies outside the ranges [first, last). */
static vw_status note_missing(const vw__range_set *set, size_t first, size_t last, uint64_t begin,
                              uint64_t end, vw__range_set *missing)
{
    uint64_t at = begin;
    for (size_t i = first; i < last; i++) {
        VW__TRY(vw__range_set_add(missing, at, set->ranges[i].begin));
        at = set->ranges[i].end;
    }
    return vw__range_set_add(missing, at, end);
}

vw_status vw__range_set_remove(vw__range_set *set, uint64_t begin, uint64_t end,
                               vw__range_set *missing)
{
    if (begin >= end)
        return VW_OK;
    VW__TRY(make_room(set));
    size_t first = first_ending_behind(set, begin), last = first;
    while (last < set->count && set->ranges[last].begin < end)
        last++;
    if (missing != NULL)
        VW__TRY(note_missing(set, first, last, begin, end, missing));
    if (first == last)
        return VW_OK;
    vw__range_set_range left[2];
    size_t left_count = 0;
    if (set->ranges[first].begin < begin)
        left[left_count++] = (vw__range_set_range){set->ranges[first].begin, begin};
    if (set->ranges[last - 1].end > end)
        left[left_count++] = (vw__range_set_range){end, set->ranges[last - 1].end};
    replace(set, first, last, left, left_count);
    return VW_OK;
}
