/* device_streams.h - the streams and events of a stand-in device.
 *
 * A stand-in has no work of its own to order, so by default an event is complete as soon as it is
 * recorded. While streams are held, a recorded event waits in its stream until somebody completes
 * the stream, synchronises, or ends the hold: tests and replay decide when work finishes.
 *
 * Stream numbers are passed through, as hr_stream promises: any number may be used, and a stream
 * need not have been created here. Only destroying one that was not is refused.
 *
 * An event's number carries the generation of its slot, as a handle's does (device_books.h).
 *
 * Invariants:
 *   - an event is in the list of at most one stream, and in one if and only if it is incomplete
 *   - a stream's list is in the order of recording: completing it from the front is all there is
 *   - nothing is incomplete while is_held is false
 *
 * No locks: the caller, device_common.c, has one. */
#ifndef HR_DEVICE_DEVICE_STREAMS_H
#define HR_DEVICE_DEVICE_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ordered_tree.h"
#include "headroom/device.h"

typedef struct hr__stream_record hr__stream_record;

typedef struct hr__event_slot {
    hr__stream_record *stream; /* where it waits; NULL: complete */
    uint32_t generation;       /* the upper half of the event's number */
    uint32_t next;             /* in the stream's list, or among free slots: index + 1; 0 = none */
    uint32_t previous;         /* in the stream's list */
    bool is_live;
} hr__event_slot;

typedef struct hr__streams {
    bool is_held;
    hr__tree_node *records; /* hr__stream_record by number: those that had something to remember */
    uint64_t created_count; /* makes the next stream's number */
    hr__event_slot *events; /* owned */
    uint32_t event_capacity;
    uint32_t event_count;      /* slots ever used */
    uint32_t first_free_event; /* index + 1; 0 = none */
} hr__streams;

/* Takes no memory. */
void hr__streams_init(hr__streams *streams, bool is_held);
void hr__streams_deinit(hr__streams *streams);

/* Ending the hold completes everything. */
void hr__streams_hold(hr__streams *streams, bool is_held);

/* Completes what was recorded on `stream` so far, or on every stream. Unknown ones have nothing. */
void hr__streams_complete(hr__streams *streams, hr_stream stream);
void hr__streams_complete_all(hr__streams *streams);

hr_status hr__streams_set_capturing(hr__streams *streams, hr_stream stream, bool is_capturing);
bool hr__streams_is_capturing(const hr__streams *streams, hr_stream stream);

/* The calls of the device table, with its contract. */
hr_status hr__streams_create(hr__streams *streams, hr_stream *out);
hr_status hr__streams_destroy(hr__streams *streams, hr_stream stream);
hr_status hr__streams_wait_event(hr__streams *streams, hr_device_event event);
hr_status hr__streams_event_create(hr__streams *streams, hr_device_event *out);
hr_status hr__streams_event_destroy(hr__streams *streams, hr_device_event event);
hr_status hr__streams_event_record(hr__streams *streams, hr_device_event event, hr_stream stream);
hr_status hr__streams_event_query(hr__streams *streams, hr_device_event event);
hr_status hr__streams_event_synchronize(hr__streams *streams, hr_device_event event);

#endif /* HR_DEVICE_DEVICE_STREAMS_H */
