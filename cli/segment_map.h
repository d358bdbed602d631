/* segment_map.h - a pool's segments as bars: which parts live, which idle.
 *
 * Taking the map and drawing it are two steps, because the moment worth drawing may come in the
 * middle of a run. A map has room for the segments with the most idle bytes; the rest are summed
 * up. It takes no memory of its own, and none of its functions keeps the pool. */
#ifndef VRAMWISE_CLI_SEGMENT_MAP_H
#define VRAMWISE_CLI_SEGMENT_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "vramwise/vramwise.h"

#include "memory_style.h"

#define SEGMENT_MAP_MOST_ROWS 12
#define SEGMENT_MAP_MOST_CELLS 4096 /* of one segment */

/* One segment. Cell i stands for the bytes from i * bytes_per_cell on; the last may be shorter. */
typedef struct segment_map_row {
    vw_device_ptr address;
    uint64_t total_bytes;
    uint64_t live_bytes;                    /* waiting for other streams counts as live */
    uint64_t cells[SEGMENT_MAP_MOST_CELLS]; /* live bytes in each */
} segment_map_row;

typedef struct segment_map {
    uint64_t bytes_per_cell;
    size_t row_count; /* by falling idle bytes */
    segment_map_row rows[SEGMENT_MAP_MOST_ROWS];

    size_t segment_count; /* all of them */
    uint64_t total_bytes;
    uint64_t live_bytes;
    size_t idle_piece_count; /* idle blocks, in all segments */
    uint64_t largest_idle_bytes;
} segment_map;

/* Maps `pool` as it is now. `bytes_per_cell` of 0 chooses the scale at which the longest segment
 * shown fills a line of `width_columns`; the answer is in the map. Walks the pool, and so must not
 * be called from a walker or a sink. */
VW_MUST_CHECK vw_status segment_map_take(segment_map *map, vw_pool *pool, uint64_t bytes_per_cell,
                                         unsigned width_columns);

/* Draws the bars, a line or more for each, and a line about the segments not shown: those for which
 * there was no room, and those too small for a bar of a few cells. */
void segment_map_draw(const segment_map *map, const memory_style *style, FILE *to);

#endif /* VRAMWISE_CLI_SEGMENT_MAP_H */
