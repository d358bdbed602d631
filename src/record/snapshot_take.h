/* snapshot_take.h - a recorder's events and its pool's state, of one instant.
 *
 * Events and segments must agree: a reader undoes the one from the other. The pool's lock is held
 * while it is walked, and still held when it tells its listener, afterwards, that a snapshot was
 * taken. The listener copies the events then: nothing can have happened in between. That the notice
 * is for our walk and not for someone else's is told by the thread.
 *
 * Memory for the copy is taken before, without the lock. Where it turns out too small, because the
 * pool has grown meanwhile, it is made larger and the picture taken again. */
#ifndef HR_RECORD_SNAPSHOT_TAKE_H
#define HR_RECORD_SNAPSHOT_TAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "record/recorder.h"

typedef struct hr__picture_segment {
    hr_segment_info info;
    uint64_t capture;
} hr__picture_segment;

typedef struct hr__picture_block {
    hr_block_info info;
    uint64_t capture;
} hr__picture_block;

/* Counts may exceed capacities while a picture is being taken: then it is too small. */
struct hr__picture {
    hr_recorder *recorder;
    const void *thread;
    hr__picture *next; /* in recorder->pictures; guarded by its lock */

    hr__recorded_event *events; /* owned; oldest first */
    size_t event_count, event_capacity;
    hr__picture_segment *segments; /* owned; by rising address */
    size_t segment_count, segment_capacity;
    hr__picture_block *blocks; /* owned; one segment's after the other's */
    size_t block_count, block_capacity;
    hr__recorded_move *moves; /* owned, or NULL; oldest first; taken a moment later */
    size_t move_count;
};

/* HR_ERR_WRONG_STATE: not attached to that pool. HR_ERR_HOST_MEMORY. Frees everything on failure.
 */
HR_MUST_CHECK hr_status hr__picture_take(hr_recorder *recorder, hr_pool *pool, hr__picture *out);
void hr__picture_deinit(hr__picture *picture);

/* For the listener, under the recorder's lock, when it is told of a snapshot: completes the picture
 * that this thread takes, if it takes one. false: that did not succeed, and will be tried again;
 * the event is not to be kept. */
bool hr__picture_copy_events(hr_recorder *recorder);

#endif /* HR_RECORD_SNAPSHOT_TAKE_H */
