/* picture.h - a copy of a recorder's events and its pool's state, of one instant.
 *
 * Events and segments must agree: readers undo events, starting from the segments. The pool's lock
 * is held during the walk, and still held when the pool then sends its listener the event that a
 * snapshot was taken. The listener copies the events at that moment: nothing can have happened in
 * between. It knows our walk from someone else's by the thread.
 *
 * Memory for the copy is taken before, without the lock. If it is too small, because the pool has
 * grown meanwhile, it is enlarged and the picture is taken again. */
#ifndef VW_RECORD_PICTURE_H
#define VW_RECORD_PICTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "record/recorder.h"

typedef struct vw__picture_segment {
    vw_segment_info info;
    uint64_t capture;
} vw__picture_segment;

typedef struct vw__picture_block {
    vw_block_info info;
    uint64_t capture;
} vw__picture_block;

/* While a picture is taken, counts may exceed capacities: it is then too small. */
struct vw__picture {
    vw_recorder *recorder;
    const void *thread;
    bool has_events;   /* the listener has copied them, in the latest walk */
    vw__picture *next; /* in recorder->pictures; guarded by its lock */

    vw__record_event *events; /* owned; oldest first */
    size_t event_count, event_capacity;
    vw__picture_segment *segments; /* owned; by rising address */
    size_t segment_count, segment_capacity;
    vw__picture_block *blocks; /* owned; one segment's after the other's */
    size_t block_count, block_capacity;
    vw__record_move *moves; /* owned, or NULL; oldest first; taken a moment later */
    size_t move_count;
};

/* VW_ERR_WRONG_STATE: not attached to that pool. VW_ERR_HOST_MEMORY. Frees everything on failure.
 */
VW_MUST_CHECK vw_status vw__picture_take(vw_recorder *recorder, vw_pool *pool, vw__picture *out);
void vw__picture_deinit(vw__picture *picture);

/* For the listener, under the recorder's lock, at the event of a snapshot: completes the picture
 * that this thread takes, if any. false: it was too small and will be taken again, so the event
 * must not be kept. */
bool vw__picture_copy_events(vw_recorder *recorder);

#endif /* VW_RECORD_PICTURE_H */
