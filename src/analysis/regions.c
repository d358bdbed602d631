/* regions.c - see regions.h. */
#include "analysis/regions.h"

#include "base/checked_math.h"
#include "base/error.h"

void vw__regions_init(vw__regions *regions)
{
    *regions = (vw__regions){.made_count = 0};
    vw__ordered_list_init(&regions->held, sizeof(vw__regions_entry), "the segments of a trace");
}

void vw__regions_deinit(vw__regions *regions)
{
    vw__ordered_list_deinit(&regions->held);
    vw__regions_init(regions);
}

const vw__regions_entry *vw__regions_find(const vw__regions *regions, uint64_t address)
{
    const vw__regions_entry *region =
        vw__ordered_list_before(&regions->held, vw__ordered_list_up_to(&regions->held, address));
    return region != NULL && address < region->end ? region : NULL;
}

vw_status vw__regions_take(vw__regions *regions, uint64_t address, uint64_t size_bytes,
                           bool is_expandable, const vw__regions_entry **out, bool *is_new)
{
    vw__ordered_list_place place = vw__ordered_list_up_to(&regions->held, address);
    uint64_t end = vw__add_capped_u64(address, size_bytes);
    vw__regions_entry *before = vw__ordered_list_before(&regions->held, place);
    if (is_expandable && before != NULL && before->is_expandable && address <= before->end) {
        before->end = vw__max_u64(before->end, end);
        before->held_bytes += size_bytes;
        *out = before;
        *is_new = false;
        return VW_OK;
    }
    const vw__regions_entry region = {.address = address,
                                      .end = end,
                                      .held_bytes = size_bytes,
                                      .number = regions->made_count,
                                      .is_expandable = is_expandable};
    VW__TRY(vw__ordered_list_insert(&regions->held, &place, &region));
    regions->made_count++;
    *out = vw__ordered_list_before(&regions->held, place);
    *is_new = true;
    return VW_OK;
}

bool vw__regions_give_back(vw__regions *regions, uint64_t address, uint64_t size_bytes,
                           vw__regions_entry *out, bool *is_gone)
{
    vw__ordered_list_place place = vw__ordered_list_up_to(&regions->held, address);
    vw__regions_entry *region = vw__ordered_list_before(&regions->held, place);
    if (region == NULL || address >= region->end || size_bytes > region->held_bytes)
        return false;
    *out = *region;
    region->held_bytes -= size_bytes;
    *is_gone = region->held_bytes == 0;
    if (*is_gone)
        vw__ordered_list_remove_before(&regions->held, &place);
    return true;
}
