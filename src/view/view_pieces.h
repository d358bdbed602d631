/* view_pieces.h - which addresses of one device were held when.
 *
 * A piece is a segment, or what was mapped of an expandable one in one event and until any part of
 * it was given back; what is left of it then is another piece. At every instant the pieces add up
 * to the reserved bytes of the timeline, where those are known. */
#ifndef VW_VIEW_VIEW_PIECES_H
#define VW_VIEW_VIEW_PIECES_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/timeline.h"
#include "view/view_columns.h"
#include "view/view_blocks.h"

typedef struct vw__view_piece {
    uint64_t address, size_bytes;
    uint32_t begin, end; /* instants; VW__VIEW_NONE: held to the end */
    uint32_t segment;    /* pieces of one expandable segment share it */
    uint16_t stream;     /* the model's; vw__view_places' once written */
    uint16_t pool;       /* the same; VW__MODEL_UNKNOWN_POOL */
    uint8_t is_expandable;
} vw__view_piece;

typedef struct vw__view_pieces {
    vw__view_piece *pieces; /* owned; by begin; those of instant 0 by address */
    size_t count;
} vw__view_pieces;

/* Empty if events contradict each other or the segments at the end. */
VW_MUST_CHECK vw_status vw__view_pieces_of_trace(const vw__timeline *timeline,
                                                 vw__view_pieces *out);

/* The segments of the file: for a device without a trace. */
VW_MUST_CHECK vw_status vw__view_pieces_of_end(const vw__model *model, int device,
                                               vw__view_pieces *out);
void vw__view_pieces_deinit(vw__view_pieces *pieces);

/* Puts the numbers of `places` for those of the model, and adds the columns: once. */
VW_MUST_CHECK vw_status vw__view_pieces_write(vw__view_pieces *pieces, vw__view_places *places,
                                              vw__view_columns *columns);

#endif /* VW_VIEW_VIEW_PIECES_H */
