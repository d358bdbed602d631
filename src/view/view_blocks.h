/* view_blocks.h - the blocks of one device, in the order in which a page stacks them, and the
 * streams and pools they are in. */
#ifndef VW_VIEW_VIEW_BLOCKS_H
#define VW_VIEW_VIEW_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/timeline.h"
#include "export/json_write.h"
#include "model/memory_model.h"
#include "view/view_columns.h"
#include "view/view_stacks.h"

/* ---- the streams and pools of a device, numbered as met ----------------------------------------
 */

#define VW__VIEW_NO_POOL UINT16_MAX /* not known */

typedef struct vw__view_places {
    const vw__model *model;                  /* borrowed */
    uint32_t *memory;                        /* owned: what the next four point into */
    uint32_t *stream_numbers, *pool_numbers; /* by the model's: ours plus 1, or 0 */
    uint32_t *streams, *pools;               /* the model's, by ours */
    size_t stream_count, pool_count;
} vw__view_places;

VW_MUST_CHECK vw_status vw__view_places_init(vw__view_places *places, const vw__model *model);
void vw__view_places_deinit(vw__view_places *places);

uint16_t vw__view_places_stream(vw__view_places *places, uint16_t stream);
uint16_t vw__view_places_pool(vw__view_places *places, uint16_t pool);

/* "streams": ["0x0", ...], "pools": ["default", "(0, 1)", ...] */
void vw__view_places_json(const vw__view_places *places, vw__json *json);

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct vw__view_block {
    uint64_t address, size_bytes;
    uint32_t begin, freed, end; /* instants; VW__VIEW_NONE: never */
    uint32_t stack;             /* vw__view_stacks, or VW__VIEW_NONE */
    uint16_t stream;            /* vw__view_places */
    uint8_t level;              /* the largest L for which it is live at a multiple of 2^L */
} vw__view_block;

typedef struct vw__view_blocks {
    vw__view_block *blocks; /* owned; by begin, then by address */
    size_t count;
    uint64_t first_bytes; /* live at instant 0 */
    bool has_addresses;
} vw__view_blocks;

enum { VW__VIEW_HIGHEST_LEVEL = 31 }; /* of what is live at instant 0, a multiple of all */

/* The lifetimes of a timeline. */
VW_MUST_CHECK vw_status vw__view_blocks_of_trace(const vw__timeline *timeline,
                                                 vw__view_stacks *stacks, vw__view_places *places,
                                                 vw__view_blocks *out);

/* What is live or pending in the segments of the file: for a device without a trace.
 * VW_ERR_CORRUPT_FILE: sizes that add up to more than an address space. */
VW_MUST_CHECK vw_status vw__view_blocks_of_end(const vw__model *model, int device,
                                               vw__view_stacks *stacks, vw__view_places *places,
                                               vw__view_blocks *out);
void vw__view_blocks_deinit(vw__view_blocks *blocks);

VW_MUST_CHECK vw_status vw__view_blocks_write(const vw__view_blocks *blocks,
                                              vw__view_columns *columns);

#endif /* VW_VIEW_VIEW_BLOCKS_H */
