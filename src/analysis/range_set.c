/* range_set.c - see range_set.h. */
#include "analysis/range_set.h"

#include "base/checked_math.h"
#include "base/error.h"

void vw__range_set_init(vw__range_set *set)
{
    vw__ordered_list_init(&set->ranges, sizeof(vw__range_set_range), "ranges of memory");
}

void vw__range_set_deinit(vw__range_set *set)
{
    vw__ordered_list_deinit(&set->ranges);
}

/* In front of the first range that ends at or behind `address`; or behind all. */
static vw__ordered_list_place first_reaching(const vw__range_set *set, uint64_t address)
{
    vw__ordered_list_place place = vw__ordered_list_up_to(&set->ranges, address);
    const vw__range_set_range *before = vw__ordered_list_before(&set->ranges, place);
    if (before == NULL || before->end < address)
        return place;
    return vw__ordered_list_previous(&set->ranges, place);
}

/* The first range that has something of [begin, end), and the place in front of it; or NULL. */
static vw__range_set_range *first_inside(const vw__range_set *set, uint64_t begin, uint64_t end,
                                         vw__ordered_list_place *place)
{
    *place = first_reaching(set, begin);
    vw__range_set_range *found = vw__ordered_list_behind(&set->ranges, *place);
    if (found != NULL && found->end == begin) { /* touches it only */
        *place = vw__ordered_list_next(&set->ranges, *place);
        found = vw__ordered_list_behind(&set->ranges, *place);
    }
    return begin < end && found != NULL && found->begin < end ? found : NULL;
}

bool vw__range_set_covers(const vw__range_set *set, uint64_t begin, uint64_t end)
{
    vw__ordered_list_place place;
    const vw__range_set_range *range = first_inside(set, begin, end, &place);
    return range != NULL && range->begin <= begin && end <= range->end;
}

bool vw__range_set_touches(const vw__range_set *set, uint64_t begin, uint64_t end)
{
    vw__ordered_list_place place;
    return first_inside(set, begin, end, &place) != NULL;
}

vw_status vw__range_set_add(vw__range_set *set, uint64_t begin, uint64_t end)
{
    const vw__range_set_range range = {begin, end};
    if (begin >= end)
        return VW_OK;
    vw__ordered_list_place place = first_reaching(set, begin);
    vw__range_set_range *joined = vw__ordered_list_behind(&set->ranges, place);
    if (joined == NULL || joined->begin > end)
        return vw__ordered_list_insert(&set->ranges, &place, &range);
    joined->begin = vw__min_u64(joined->begin, begin);
    joined->end = vw__max_u64(joined->end, end);
    place = vw__ordered_list_next(&set->ranges, place);
    const vw__range_set_range *next;
    while ((next = vw__ordered_list_behind(&set->ranges, place)) != NULL && next->begin <= end) {
        joined->end = vw__max_u64(joined->end, next->end);
        vw__ordered_list_remove_behind(&set->ranges, &place);
        joined = vw__ordered_list_before(&set->ranges, place);
    }
    return VW_OK;
}

/* Adds what of [begin, end) lies outside the ranges from `place` on. */
static vw_status note_missing(const vw__range_set *set, vw__ordered_list_place place,
                              uint64_t begin, uint64_t end, vw__range_set *missing)
{
    uint64_t at = begin;
    const vw__range_set_range *range;
    while ((range = vw__ordered_list_behind(&set->ranges, place)) != NULL && range->begin < end) {
        VW__TRY(vw__range_set_add(missing, at, range->begin));
        at = range->end;
        place = vw__ordered_list_next(&set->ranges, place);
    }
    return vw__range_set_add(missing, at, end);
}

vw_status vw__range_set_remove(vw__range_set *set, uint64_t begin, uint64_t end,
                               vw__range_set *missing)
{
    vw__ordered_list_place place;
    if (begin >= end)
        return VW_OK;
    vw__range_set_range *range = first_inside(set, begin, end, &place);
    if (missing != NULL)
        VW__TRY(note_missing(set, place, begin, end, missing));
    if (range == NULL)
        return VW_OK;
    if (range->begin < begin) {
        const vw__range_set_range behind = {end, range->end};
        vw__ordered_list_place next = vw__ordered_list_next(&set->ranges, place);
        if (end < behind.end)
            VW__TRY(vw__ordered_list_insert(&set->ranges, &next, &behind));
        place = vw__ordered_list_up_to(&set->ranges, begin);
        range = vw__ordered_list_before(&set->ranges, place);
        range->end = begin;
    }
    while ((range = vw__ordered_list_behind(&set->ranges, place)) != NULL && range->end <= end)
        vw__ordered_list_remove_behind(&set->ranges, &place);
    if (range != NULL && range->begin < end)
        range->begin = end;
    return VW_OK;
}
