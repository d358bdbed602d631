/* recorder.h - what a recorder is made of, for the files that make it.
 *
 *   recorder.c         the listener, and the recorder's life
 *   call_stack         where the program is
 *   stack_table        each different stack once
 *   snapshot_take      events and pool, of one instant
 *   snapshot_model     the same as a memory model
 *   recorder_write.c   the model as a file
 *
 * Words: a *capture* is one request's (or one release's) look at the stack. It is a number made of
 * a serial number, which tells captures apart, and the id of the stack, which may be shared:
 *
 *   capture = serial << 24 | stack; 0 = none
 *   serial  = 2 * number + 1 of a request, by the pool's numbers
 *             2 * number     of anything else, by ours, from 1 on
 *
 * So a capture needs no record of its own, however many requests a job makes; that of a request can
 * be made again from any of its events; and one that is handed out as a tag travels through the
 * pool by itself. */
#ifndef HR_RECORD_RECORDER_H
#define HR_RECORD_RECORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "headroom/recording.h"
#include "base/address_map.h"
#include "base/ranked_mutex.h"
#include "base/ring_buffer.h"
#include "record/call_stack.h"
#include "record/stack_table.h"

#define HR__CAPTURE_STACK_BITS 24
#define HR__NO_CAPTURE UINT64_C(0)

static inline uint64_t hr__capture_make(uint64_t serial, uint32_t stack)
{
    return serial << HR__CAPTURE_STACK_BITS | stack;
}

static inline uint32_t hr__capture_stack(uint64_t capture)
{
    return (uint32_t)(capture & ((UINT32_C(1) << HR__CAPTURE_STACK_BITS) - 1));
}

typedef struct hr__recorded_event {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t time_us;
    uint64_t capture;
    hr_stream stream;
    hr_private_id private_id;
    hr_action action;
} hr__recorded_event;

_Static_assert(sizeof(hr__recorded_event) == 64, "one event is one cache line");

/* Live memory that left the device, or came back. */
typedef struct hr__recorded_move {
    hr_spill_report report;
    uint64_t time_us;
} hr__recorded_move;

typedef struct hr__picture hr__picture; /* snapshot_take.h */

struct hr_recorder {
    hr_stacks stacks;     /* set at creation, then read-only */
    uint32_t most_frames; /* set at creation, then read-only */

    /* The listener's own: guarded by the pool's lock, which is held whenever it is called. */
    hr__call_stack stack;  /* large: not for a caller's small stack */
    hr__address_map live;  /* block -> capture; HR_STACKS_BACKTRACE only */
    hr__address_map made;  /* segment, or range that was mapped -> capture; likewise */
    uint64_t last_request; /* whose capture was made last; 0 = none yet */
    uint64_t last_capture;

    _Atomic uint64_t next_number; /* for serials; relaxed: only has to differ each time */

    hr__mutex lock;            /* of what follows */
    hr_pool *pool;             /* NULL: not attached */
    hr__ring_buffer events;    /* hr__recorded_event */
    hr__ring_buffer moves;     /* hr__recorded_move */
    uint64_t lost_count;       /* events */
    uint64_t lost_stack_count; /* requests whose stack was not stored */
    size_t map_bytes;          /* of the two maps, as of the last event */
    int64_t reserved_bytes;    /* taken and given back since the pool was attached */
    bool began_empty;          /* the pool held nothing before the first event */
    hr__picture *pictures;     /* being taken */

    hr__mutex stack_lock; /* of the table; never held together with `lock` */
    hr__stack_table stack_table;
};

/* The capture of a live block or a segment, as far as it is known. Under the pool's lock. */
uint64_t hr__recorder_block_capture(const hr_recorder *recorder, const hr_block_info *block);
uint64_t hr__recorder_segment_capture(const hr_recorder *recorder, const hr_segment_info *segment);

#endif /* HR_RECORD_RECORDER_H */
