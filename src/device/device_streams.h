/* device_streams.h - the streams and events of a stand-in device.
 *
 * A stand-in has no work of its own, so by default an event is complete as soon as it is recorded.
 * While streams are held, work waits in its stream until somebody completes the stream,
 * synchronises, or ends the hold: tests and replay decide when work finishes. A completed stream
 * runs as far as it can: what was queued after stream_wait_event() stays incomplete until the event
 * is complete, and then continues by itself. Synchronising waits as a GPU would, and so completes
 * whatever the stream waits for.
 *
 * Stream numbers are passed through, as vw_stream promises: any number may be used, and a stream
 * need not have been created here. Only destroying one that was not is refused.
 *
 * An event that is recorded in a stream that is captured belongs to a graph, as a driver's does:
 * until it is recorded elsewhere nobody can ask for it or wait for it.
 *
 * An event's number carries the generation of its slot, as a handle's does (device_books.h).
 *
 * Words: a *point* is the number of one queued operation, a recording or a wait. Points rise over
 * all streams together.
 *
 * Invariants:
 *   - an event is complete if and only if its point is 0, or its stream has come as far, and
 *     it is not captured
 *   - a stream has come as far as it was told to, but not past a wait whose event is incomplete
 *   - a wait is for an earlier point, so there are no circular waits
 *   - nothing is incomplete while is_held is false
 *
 * No locks: the caller, device_common.c, has one. */
#ifndef VW_DEVICE_DEVICE_STREAMS_H
#define VW_DEVICE_DEVICE_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ordered_tree.h"
#include "vramwise/device.h"

typedef struct vw__streams_event {
    vw_stream stream;    /* where it was recorded last */
    uint64_t point;      /* when; 0: it is complete */
    uint32_t generation; /* the upper half of the event's number */
    uint32_t next_free;  /* index + 1; 0 = none */
    bool is_live;
    bool is_captured; /* its stream was captured then: it is part of a graph */
} vw__streams_event;

typedef struct vw__streams {
    bool is_held;
    vw__tree_node *records; /* by number: the streams that had something to remember */
    uint64_t created_count; /* makes the next stream's number */
    size_t capturing_count;
    uint64_t latest_point;
    vw__streams_event *events; /* owned */
    uint32_t event_capacity;
    uint32_t event_count;      /* slots ever used */
    uint32_t first_free_event; /* index + 1; 0 = none */
} vw__streams;

/* Takes no memory. */
void vw__streams_init(vw__streams *streams, bool is_held);
void vw__streams_deinit(vw__streams *streams);

/* Ending the hold completes everything. */
void vw__streams_hold(vw__streams *streams, bool is_held);

/* Runs what was queued on `stream` so far, as far as waits allow. An unknown stream has nothing
 * queued. */
void vw__streams_complete(vw__streams *streams, vw_stream stream);

/* Completes `stream` and what it waits for, unless it is captured; or every stream. */
vw_status vw__streams_synchronize(vw__streams *streams, vw_stream stream);
void vw__streams_complete_all(vw__streams *streams);

vw_status vw__streams_set_capturing(vw__streams *streams, vw_stream stream, bool is_capturing);
bool vw__streams_is_capturing(const vw__streams *streams, vw_stream stream);
/* VW_ERR_DEVICE: `call` waits for all streams, or goes behind them, and one is captured. */
vw_status vw__streams_none_capturing(const vw__streams *streams, const char *call);

/* The calls of the device table, with its contract. */
vw_status vw__streams_create(vw__streams *streams, vw_stream *out);
vw_status vw__streams_destroy(vw__streams *streams, vw_stream stream);
vw_status vw__streams_wait_event(vw__streams *streams, vw_stream stream, vw_device_event event);
vw_status vw__streams_event_create(vw__streams *streams, vw_device_event *out);
vw_status vw__streams_event_destroy(vw__streams *streams, vw_device_event event);
vw_status vw__streams_event_record(vw__streams *streams, vw_device_event event, vw_stream stream);
vw_status vw__streams_event_record_all(vw__streams *streams, vw_device_event event);
vw_status vw__streams_event_query(vw__streams *streams, vw_device_event event);
vw_status vw__streams_event_synchronize(vw__streams *streams, vw_device_event event);

#endif /* VW_DEVICE_DEVICE_STREAMS_H */
