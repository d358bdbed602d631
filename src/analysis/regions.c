/* regions.c - see regions.h. */
#include "analysis/regions.h"

#include <string.h>

#include "analysis/array.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

void vw__regions_init(vw__regions *regions)
{
    *regions = (vw__regions){.regions = NULL};
}

void vw__regions_deinit(vw__regions *regions)
{
    vw__host_free(regions->regions);
    vw__regions_init(regions);
}

/* How many regions begin at or below `address`. */
static size_t count_up_to(const vw__regions *regions, uint64_t address)
{
    size_t low = 0, high = regions->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (regions->regions[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const vw__regions_entry *vw__regions_find(const vw__regions *regions, uint64_t address)
{
    size_t count = count_up_to(regions, address);
    if (count == 0 || address >= regions->regions[count - 1].end)
        return NULL;
    return &regions->regions[count - 1];
}

static vw_status insert(vw__regions *regions, size_t place, const vw__regions_entry *region)
{
    VW__TRY(vw__array_make_room(&regions->regions, &regions->capacity, regions->count,
                                sizeof *regions->regions, "the segments of a trace"));
    memmove(regions->regions + place + 1, regions->regions + place,
            (regions->count - place) * sizeof *regions->regions);
    regions->regions[place] = *region;
    regions->count++;
    return VW_OK;
}

vw_status vw__regions_take(vw__regions *regions, uint64_t address, uint64_t size_bytes,
                           bool is_expandable, const vw__regions_entry **out, bool *is_new)
{
    size_t place = count_up_to(regions, address);
    uint64_t end = vw__add_capped_u64(address, size_bytes);
    vw__regions_entry *before = place > 0 ? &regions->regions[place - 1] : NULL;
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
    VW__TRY(insert(regions, place, &region));
    regions->made_count++;
    *out = &regions->regions[place];
    *is_new = true;
    return VW_OK;
}

bool vw__regions_give_back(vw__regions *regions, uint64_t address, uint64_t size_bytes,
                           vw__regions_entry *out, bool *is_gone)
{
    size_t place = count_up_to(regions, address);
    if (place == 0)
        return false;
    vw__regions_entry *region = &regions->regions[place - 1];
    if (address >= region->end || size_bytes > region->held_bytes)
        return false;
    *out = *region;
    region->held_bytes -= size_bytes;
    *is_gone = region->held_bytes == 0;
    if (*is_gone) {
        memmove(region, region + 1, (regions->count - place) * sizeof *region);
        regions->count--;
    }
    return true;
}
