/* regions.c - see regions.h. */
#include "analysis/regions.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

enum { FIRST_CAPACITY = 32 };

void hr__regions_init(hr__regions *regions)
{
    *regions = (hr__regions){.regions = NULL};
}

void hr__regions_deinit(hr__regions *regions)
{
    hr__host_free(regions->regions);
    hr__regions_init(regions);
}

/* How many regions begin at or below `address`. */
static size_t count_up_to(const hr__regions *regions, uint64_t address)
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

const hr__region *hr__regions_find(const hr__regions *regions, uint64_t address)
{
    size_t count = count_up_to(regions, address);
    if (count == 0 || address >= regions->regions[count - 1].end)
        return NULL;
    return &regions->regions[count - 1];
}

static hr_status insert(hr__regions *regions, size_t place, const hr__region *region)
{
    if (regions->count == regions->capacity) {
        size_t capacity = regions->capacity != 0 ? regions->capacity * 2 : (size_t)FIRST_CAPACITY;
        hr__region *grown = hr__host_realloc(regions->regions, capacity * sizeof *grown);
        if (grown == NULL)
            return hr__fail_host_memory(capacity * sizeof *grown, "the segments of a trace");
        regions->regions = grown;
        regions->capacity = capacity;
    }
    memmove(regions->regions + place + 1, regions->regions + place,
            (regions->count - place) * sizeof *regions->regions);
    regions->regions[place] = *region;
    regions->count++;
    return HR_OK;
}

hr_status hr__regions_take(hr__regions *regions, uint64_t address, uint64_t size_bytes,
                           bool is_expandable, const hr__region **out, bool *is_new)
{
    size_t place = count_up_to(regions, address);
    uint64_t end;
    if (!hr__add_u64(address, size_bytes, &end))
        end = UINT64_MAX;
    hr__region *before = place > 0 ? &regions->regions[place - 1] : NULL;
    if (is_expandable && before != NULL && before->is_expandable && address <= before->end) {
        before->end = hr__max_u64(before->end, end);
        before->held_bytes += size_bytes;
        *out = before;
        *is_new = false;
        return HR_OK;
    }
    const hr__region region = {.address = address,
                               .end = end,
                               .held_bytes = size_bytes,
                               .number = regions->made_count,
                               .is_expandable = is_expandable};
    HR__TRY(insert(regions, place, &region));
    regions->made_count++;
    *out = &regions->regions[place];
    *is_new = true;
    return HR_OK;
}

bool hr__regions_give_back(hr__regions *regions, uint64_t address, uint64_t size_bytes,
                           hr__region *out, bool *is_gone)
{
    size_t place = count_up_to(regions, address);
    if (place == 0)
        return false;
    hr__region *region = &regions->regions[place - 1];
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
