/* view_blocks.h - the blocks of one device, in the order in which a page stacks them. */
#ifndef HR_VIEW_VIEW_BLOCKS_H
#define HR_VIEW_VIEW_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "analysis/timeline.h"
#include "view/view_columns.h"
#include "view/view_places.h"
#include "view/view_stacks.h"

typedef struct hr__view_block {
    uint64_t address, size_bytes;
    uint32_t begin, freed, end; /* instants; HR__VIEW_NONE: never */
    uint32_t stack;             /* hr__view_stacks, or HR__VIEW_NONE */
    uint16_t stream;            /* hr__view_places */
    uint8_t level;              /* the largest L for which it is live at a multiple of 2^L */
} hr__view_block;

typedef struct hr__view_blocks {
    hr__view_block *blocks; /* owned; by begin, then by address */
    size_t count;
    uint64_t first_bytes; /* live at instant 0 */
    bool has_addresses;
} hr__view_blocks;

enum { HR__VIEW_HIGHEST_LEVEL = 31 }; /* of what is live at instant 0, a multiple of all */

/* The lifetimes of a timeline. */
HR_MUST_CHECK hr_status hr__view_blocks_of_trace(const hr__timeline *timeline,
                                                 hr__view_stacks *stacks, hr__view_places *places,
                                                 hr__view_blocks *out);

/* What is live or pending in the segments of the file: for a device without a trace.
 * HR_ERR_CORRUPT_FILE: sizes that add up to more than an address space. */
HR_MUST_CHECK hr_status hr__view_blocks_of_end(const hr__model *model, int device,
                                               hr__view_stacks *stacks, hr__view_places *places,
                                               hr__view_blocks *out);
void hr__view_blocks_deinit(hr__view_blocks *blocks);

HR_MUST_CHECK hr_status hr__view_blocks_write(const hr__view_blocks *blocks,
                                              hr__view_columns *columns);

#endif /* HR_VIEW_VIEW_BLOCKS_H */
