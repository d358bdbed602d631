/* recorder.h - the parts of a recorder, for the files of this folder.
 *
 *   recorder.c         the listener, and the recorder's life
 *   call_stack         walks and names C stacks
 *   stack_table        each distinct stack once
 *   picture            events and pool, of one instant
 *   recorder_write.c   the same as a memory model, and the model as a file
 *
 * Words: a *capture* is the stack of one request, or of one release. It is a number made of a
 * serial number, which tells captures apart, and the id of the stack, which may be shared:
 *
 *   capture = serial << 24 | stack; 0 = none
 *   serial  = 2 * number + 1 for a request, by the pool's numbers
 *             2 * number     for anything else, by the recorder's numbers, from 1 on
 *
 * So a capture needs no record of its own, however many requests a job makes. The capture of a
 * request can be computed from any of its events, and one that was handed out as a tag passes
 * through the pool. */
#ifndef VW_RECORD_RECORDER_H
#define VW_RECORD_RECORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vramwise/recording.h"
#include "base/address_map.h"
#include "base/ranked_mutex.h"
#include "base/ring_buffer.h"
#include "record/call_stack.h"
#include "record/stack_table.h"

#define VW__CAPTURE_STACK_BITS 24
#define VW__CAPTURE_NONE UINT64_C(0)

static inline uint64_t vw__capture_make(uint64_t serial, uint32_t stack)
{
    return serial << VW__CAPTURE_STACK_BITS | stack;
}

static inline uint32_t vw__capture_stack(uint64_t capture)
{
    return (uint32_t)(capture & ((UINT32_C(1) << VW__CAPTURE_STACK_BITS) - 1));
}

typedef struct vw__record_event {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t time_us;
    uint64_t capture;
    vw_stream stream;
    vw_private_id private_id;
    vw_action action;
} vw__record_event;

_Static_assert(sizeof(vw__record_event) == 64, "one event is one cache line");

/* Live memory that left the device, or came back. */
typedef struct vw__record_move {
    vw_spill_report report;
    uint64_t time_us;
} vw__record_move;

typedef struct vw__picture vw__picture; /* picture.h */

struct vw_recorder {
    /* Set at creation, then read-only. */
    vw_stacks stacks;
    uint32_t most_frames;
    uint32_t fork_generation;

    /* The listener's own: guarded by the pool's lock, which is held whenever it is called. */
    vw__call_stack stack;  /* large: not for a caller's small stack */
    vw__address_map live;  /* block -> capture; VW_STACKS_BACKTRACE only */
    vw__address_map made;  /* segment, or range that was mapped -> capture; likewise */
    uint64_t last_request; /* whose capture was made last; 0 = none yet */
    uint64_t last_capture;

    _Atomic uint64_t next_number; /* for serials; relaxed: only has to differ each time */

    vw__mutex attaching; /* over the whole of attaching or detaching: one after the other */

    vw__mutex lock;            /* of what follows */
    vw_pool *pool;             /* NULL: not attached */
    vw__ring_buffer events;    /* vw__record_event */
    vw__ring_buffer moves;     /* vw__record_move */
    uint64_t lost_count;       /* events */
    uint64_t lost_stack_count; /* requests whose stack was not stored */
    size_t map_bytes;          /* of the two maps, as of the last event */
    int64_t reserved_bytes;    /* taken and given back since the pool was attached */
    bool began_empty;          /* the pool held nothing before the first event */
    vw__picture *pictures;     /* being taken */

    vw__mutex stack_lock; /* of the table; never held together with `lock` */
    vw__stack_table stack_table;
};

/* VW_ERR_INVALID_ARGUMENT: there is none. VW_ERR_WRONG_PROCESS: its locks may be held for ever. */
vw_status vw__recorder_enter(const vw_recorder *recorder);

/* The capture of a live block or a segment, as far as it is known. Under the pool's lock. */
uint64_t vw__recorder_block_capture(const vw_recorder *recorder, const vw_block_info *block);
uint64_t vw__recorder_segment_capture(const vw_recorder *recorder, const vw_segment_info *segment);

#endif /* VW_RECORD_RECORDER_H */
