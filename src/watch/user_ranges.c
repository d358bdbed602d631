/* user_ranges.c - see user_ranges.h. */
#include "watch/user_ranges.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "watch/process_parts.h"

enum { LONGEST_LINE_BYTES = 512 };

static void take_line(const char *line, void *context)
{
    vw__user_ranges *ranges = context;
    unsigned long long first, count;
    const char *colon = strchr(line, ':');
    if (colon == NULL || sscanf(colon, ":%llu:%llu", &first, &count) != 2 || first > UINT32_MAX ||
        count == 0 || count > UINT32_MAX || ranges->count == VW__USER_RANGES_MOST)
        return;
    ranges->items[ranges->count++] = (vw__user_ranges_item){(uint32_t)first, (uint32_t)count};
}

void vw__user_ranges_read(const char *path, vw__user_ranges *out)
{
    out->count = 0;
    vw__watch_process_pieces(open(path, O_RDONLY | O_CLOEXEC), '\n', LONGEST_LINE_BYTES, SIZE_MAX,
                             take_line, out);
}

uid_t vw__user_ranges_first(const vw__user_ranges *ranges, uid_t user)
{
    for (size_t i = 0; i < ranges->count; i++) {
        const vw__user_ranges_item *range = &ranges->items[i];
        if (user >= range->first && user - range->first < range->count)
            return range->first;
    }
    return user;
}
