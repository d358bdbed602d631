/* view_pieces.h - which addresses of one device were held when.
 *
 * A piece is a segment, or what was mapped of an expandable one in one event and until any part of
 * it was given back; what is left of it then is another piece. At every instant the pieces add up
 * to the reserved bytes of the timeline, where those are known. */
#ifndef HR_VIEW_VIEW_PIECES_H
#define HR_VIEW_VIEW_PIECES_H

#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "analysis/timeline.h"
#include "view/view_columns.h"
#include "view/view_places.h"

typedef struct hr__view_piece {
    uint64_t address, size_bytes;
    uint32_t begin, end; /* instants; HR__VIEW_NONE: held to the end */
    uint32_t segment;    /* pieces of one expandable segment share it */
    uint16_t stream;     /* the model's; hr__view_places' once written */
    uint16_t pool;       /* the same; HR__UNKNOWN_POOL */
    uint8_t is_expandable;
} hr__view_piece;

typedef struct hr__view_pieces {
    hr__view_piece *pieces; /* owned; by begin; those of instant 0 by address */
    size_t count;
} hr__view_pieces;

/* None where events contradict each other or the segments at the end: then nobody knows. */
HR_MUST_CHECK hr_status hr__view_pieces_of_trace(const hr__timeline *timeline,
                                                 hr__view_pieces *out);

/* The segments of the file: for a device without a trace. */
HR_MUST_CHECK hr_status hr__view_pieces_of_end(const hr__model *model, int device,
                                               hr__view_pieces *out);
void hr__view_pieces_deinit(hr__view_pieces *pieces);

/* Puts the numbers of `places` for those of the model, and adds the columns: once. */
HR_MUST_CHECK hr_status hr__view_pieces_write(hr__view_pieces *pieces, hr__view_places *places,
                                              hr__view_columns *columns);

#endif /* HR_VIEW_VIEW_PIECES_H */
