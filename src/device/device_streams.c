/* device_streams.c - events that complete when told, and streams that wait for them.
 *
 * Everything queued while streams are held gets a point, numbered over all streams. A stream keeps
 * two points: how far it was told to run, and how far it has come. Recording an event stores its
 * point, and a query is one comparison, however much was queued. Recording an event again, or
 * destroying it, affects no wait: a wait names a stream and a point, as on a GPU.
 *
 * A stream without a record has nothing incomplete. A new record has come as far as the latest
 * point, so older points of the same stream number stay complete.
 *
 * After a change all streams are visited until none moves: tests and replay have few streams and
 * few waits. */
#include "device/device_streams.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

/* Operations that were queued after this wait run once `stream` has come to `point`. */
typedef struct stream_wait {
    struct stream_wait *next; /* of the same stream, later */
    uint64_t queued_at;       /* its own point */
    vw_stream stream;
    uint64_t point;
} stream_wait;

typedef struct stream_record {
    vw__tree_node node; /* first, so that a node is its record */
    vw_stream number;
    uint64_t queued;         /* the latest point of its own */
    uint64_t told;           /* may run up to this point */
    uint64_t reached;        /* has run up to this point; at most `told` */
    uint64_t needed;         /* by run_to(), while it looks; 0 otherwise */
    stream_wait *first_wait; /* owned, like the rest of the list: those not yet satisfied */
    stream_wait *last_wait;
    bool is_created; /* by stream_create(), and not destroyed */
    bool is_capturing;
} stream_record;

enum { FIRST_EVENT_CAPACITY = 64 };

/* Numbers for created streams: far from 0, 1 and 2, which have a meaning in CUDA. */
#define FIRST_STREAM_NUMBER UINT64_C(0x10000)
#define STREAM_NUMBER_STEP UINT64_C(0x100)

/* A stream of our own that only waits for others, for events behind all of them. */
#define ALL_STREAMS UINT64_MAX

void vw__streams_init(vw__streams *streams, bool is_held)
{
    memset(streams, 0, sizeof *streams);
    streams->is_held = is_held;
}

/* ---- streams --------------------------------------------------------------------------------- */

static bool record_before(const vw__tree_node *a, const vw__tree_node *b)
{
    return ((const stream_record *)a)->number < ((const stream_record *)b)->number;
}

static stream_record *find_record(const vw__streams *streams, vw_stream stream)
{
    stream_record key = {.number = stream};
    stream_record *found =
        (stream_record *)vw__tree_first_from(streams->records, &key.node, record_before);
    return found != NULL && found->number == stream ? found : NULL;
}

/* The stream's record, made if there is none yet. NULL without host memory. */
static stream_record *find_or_make_record(vw__streams *streams, vw_stream stream)
{
    stream_record *record = find_record(streams, stream);
    if (record != NULL)
        return record;
    record = vw__host_alloc_zeroed(1, sizeof *record);
    if (record == NULL)
        return NULL;
    record->number = stream;
    record->told = record->reached = streams->latest_point;
    vw__tree_insert(&streams->records, &record->node, record_before);
    return record;
}

static void drop_record_if_idle(vw__streams *streams, stream_record *record)
{
    if (record->reached < record->queued || record->is_created || record->is_capturing)
        return;
    vw__tree_remove(&streams->records, &record->node);
    vw__host_free(record);
}

vw_status vw__streams_create(vw__streams *streams, vw_stream *out)
{
    vw_stream number;
    do { /* a caller's own streams may have the numbers we would make up */
        number = FIRST_STREAM_NUMBER + STREAM_NUMBER_STEP * streams->created_count++;
    } while (find_record(streams, number) != NULL);
    stream_record *record = find_or_make_record(streams, number);
    if (record == NULL)
        return vw__fail_host_memory(sizeof *record, "a stream");
    record->is_created = true;
    *out = number;
    return VW_OK;
}

static void set_record_capturing(vw__streams *streams, stream_record *record, bool is_capturing)
{
    streams->capturing_count += (size_t)is_capturing - (size_t)record->is_capturing;
    record->is_capturing = is_capturing;
}

vw_status vw__streams_none_capturing(const vw__streams *streams, const char *call)
{
    return streams->capturing_count == 0
               ? VW_OK
               : vw__fail(VW_ERR_DEVICE, "%s while a stream is captured: it would end that", call);
}

vw_status vw__streams_destroy(vw__streams *streams, vw_stream stream)
{
    stream_record *record = find_record(streams, stream);
    if (record == NULL || !record->is_created)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "stream_destroy of %#" PRIx64
                        ": a stream that was created here and not yet destroyed is expected",
                        stream);
    record->is_created = false; /* what waits in it may still be completed, as a driver does */
    set_record_capturing(streams, record, false);
    drop_record_if_idle(streams, record);
    return VW_OK;
}

vw_status vw__streams_set_capturing(vw__streams *streams, vw_stream stream, bool is_capturing)
{
    if (!is_capturing && find_record(streams, stream) == NULL)
        return VW_OK;
    stream_record *record = find_or_make_record(streams, stream);
    if (record == NULL)
        return vw__fail_host_memory(sizeof *record, "a stream");
    set_record_capturing(streams, record, is_capturing);
    drop_record_if_idle(streams, record);
    return VW_OK;
}

bool vw__streams_is_capturing(const vw__streams *streams, vw_stream stream)
{
    const stream_record *record = find_record(streams, stream);
    return record != NULL && record->is_capturing;
}

/* ---- completing ------------------------------------------------------------------------------ */

static bool has_reached(const vw__streams *streams, vw_stream stream, uint64_t point)
{
    const stream_record *record = find_record(streams, stream);
    return record == NULL || record->reached >= point;
}

static void drop_first_wait(stream_record *record)
{
    stream_wait *dropped = record->first_wait;
    record->first_wait = dropped->next;
    if (record->first_wait == NULL)
        record->last_wait = NULL;
    vw__host_free(dropped);
}

static stream_record *first_record(const vw__streams *streams)
{
    return (stream_record *)vw__tree_first(streams->records);
}

static stream_record *record_after(const vw__streams *streams, const stream_record *record)
{
    return (stream_record *)vw__tree_after(streams->records, &record->node, record_before);
}

/* Runs one stream as far as possible. Returns whether it moved. */
static bool advance(vw__streams *streams, stream_record *record)
{
    uint64_t before = record->reached;
    const stream_wait *wait;
    while ((wait = record->first_wait) != NULL && has_reached(streams, wait->stream, wait->point))
        drop_first_wait(record);
    record->reached = record->told;
    if (wait != NULL && wait->queued_at <= record->told)
        record->reached = wait->queued_at - 1;
    return record->reached != before;
}

static void advance_all(vw__streams *streams)
{
    bool has_moved = true;
    while (has_moved) {
        has_moved = false;
        for (stream_record *record = first_record(streams); record != NULL;
             record = record_after(streams, record))
            has_moved |= advance(streams, record);
    }
}

void vw__streams_complete(vw__streams *streams, vw_stream stream)
{
    stream_record *record = find_record(streams, stream);
    if (record == NULL)
        return;
    record->told = streams->latest_point;
    advance_all(streams);
}

static bool need(stream_record *record, uint64_t point)
{
    if (record == NULL || record->reached >= point || record->needed >= point)
        return false;
    record->needed = point;
    return true;
}

/* Marks what must run before `record` can. Returns whether that is more than was marked before. */
static bool need_awaited(const vw__streams *streams, const stream_record *record)
{
    bool is_more = false;
    for (const stream_wait *wait = record->first_wait; wait != NULL; wait = wait->next)
        if (wait->queued_at <= record->needed)
            is_more |= need(find_record(streams, wait->stream), wait->point);
    return is_more;
}

/* Completes `stream` up to `point`, and only what that needs: other queued work stays incomplete.
 */
static void run_to(vw__streams *streams, vw_stream stream, uint64_t point)
{
    bool is_more = need(find_record(streams, stream), point);
    if (!is_more)
        return;
    while (is_more) {
        is_more = false;
        for (stream_record *record = first_record(streams); record != NULL;
             record = record_after(streams, record))
            is_more |= need_awaited(streams, record);
    }
    for (stream_record *record = first_record(streams); record != NULL;
         record = record_after(streams, record)) {
        if (record->told < record->needed)
            record->told = record->needed;
        record->needed = 0;
    }
    advance_all(streams);
}

vw_status vw__streams_synchronize(vw__streams *streams, vw_stream stream)
{
    if (vw__streams_is_capturing(streams, stream))
        return vw__fail(VW_ERR_DEVICE,
                        "stream_synchronize of %#" PRIx64 ", which is captured: it would end that",
                        stream);
    run_to(streams, stream, streams->latest_point);
    return VW_OK;
}

void vw__streams_complete_all(vw__streams *streams)
{
    for (stream_record *record = first_record(streams); record != NULL;
         record = record_after(streams, record)) {
        while (record->first_wait != NULL)
            drop_first_wait(record);
        record->told = record->reached = streams->latest_point;
    }
}

void vw__streams_hold(vw__streams *streams, bool is_held)
{
    streams->is_held = is_held;
    if (!is_held)
        vw__streams_complete_all(streams);
}

/* ---- events ---------------------------------------------------------------------------------- */

static vw__streams_event *find_event(const vw__streams *streams, vw_device_event event)
{
    uint64_t slot = (event & UINT32_MAX) - 1; /* an event of 0 wraps, and is past every count */
    if (slot >= streams->event_count)
        return NULL;
    vw__streams_event *found = &streams->events[slot];
    return found->is_live && found->generation == event >> 32 ? found : NULL;
}

static vw_status unknown_event(const char *what, vw_device_event event)
{
    return vw__fail(VW_ERR_INVALID_ARGUMENT,
                    "%s of event %#" PRIx64
                    ": one that was created and not yet destroyed is expected",
                    what, event);
}

/* Makes sure that there is a free slot. */
static vw_status find_free_slot(vw__streams *streams)
{
    if (streams->first_free_event != 0 || streams->event_count < streams->event_capacity)
        return VW_OK;
    uint64_t wanted = streams->event_capacity != 0 ? (uint64_t)streams->event_capacity * 2
                                                   : (uint64_t)FIRST_EVENT_CAPACITY;
    if (wanted >= UINT32_MAX)
        return vw__fail(VW_ERR_DEVICE, "event_create: %" PRIu32 " events are all there can be",
                        streams->event_capacity);
    size_t size_bytes = (size_t)wanted * sizeof *streams->events;
    vw__streams_event *grown = vw__host_realloc(streams->events, size_bytes);
    if (grown == NULL)
        return vw__fail_host_memory(size_bytes, "the events of a device");
    streams->events = grown;
    streams->event_capacity = (uint32_t)wanted;
    return VW_OK;
}

vw_status vw__streams_event_create(vw__streams *streams, vw_device_event *out)
{
    VW__TRY(find_free_slot(streams));
    uint32_t slot, generation = 0;
    if (streams->first_free_event != 0) {
        slot = streams->first_free_event - 1;
        streams->first_free_event = streams->events[slot].next_free;
        generation = streams->events[slot].generation + 1;
    } else {
        slot = streams->event_count++;
    }
    streams->events[slot] = (vw__streams_event){.generation = generation, .is_live = true};
    *out = (uint64_t)generation << 32 | (slot + 1);
    return VW_OK;
}

vw_status vw__streams_event_destroy(vw__streams *streams, vw_device_event event)
{
    vw__streams_event *slot = find_event(streams, event);
    if (slot == NULL)
        return unknown_event("event_destroy", event);
    slot->is_live = false;
    slot->next_free = streams->first_free_event;
    streams->first_free_event = (uint32_t)(slot - streams->events) + 1;
    return VW_OK;
}

vw_status vw__streams_event_record(vw__streams *streams, vw_device_event event, vw_stream stream)
{
    vw__streams_event *slot = find_event(streams, event);
    if (slot == NULL)
        return unknown_event("event_record", event);
    slot->is_captured = vw__streams_is_capturing(streams, stream);
    if (!streams->is_held || slot->is_captured) {
        slot->point = 0;
        return VW_OK;
    }
    stream_record *record = find_or_make_record(streams, stream);
    if (record == NULL)
        return vw__fail_host_memory(sizeof *record, "a stream");
    record->queued = ++streams->latest_point;
    slot->stream = stream;
    slot->point = record->queued;
    return VW_OK;
}

/* Also forgets a point that was reached, so that the next query is quicker. */
static bool is_complete(const vw__streams *streams, vw__streams_event *slot)
{
    if (slot->point != 0 && has_reached(streams, slot->stream, slot->point))
        slot->point = 0;
    return slot->point == 0;
}

static vw_status captured_event(const char *call, vw_device_event event)
{
    return vw__fail(VW_ERR_DEVICE,
                    "%s of event %#" PRIx64
                    ": one is expected that was not recorded last in a stream that was captured",
                    call, event);
}

vw_status vw__streams_event_query(vw__streams *streams, vw_device_event event)
{
    vw__streams_event *slot = find_event(streams, event);
    if (slot == NULL)
        return unknown_event("event_query", event);
    if (slot->is_captured)
        return captured_event("event_query", event);
    return is_complete(streams, slot) ? VW_OK : VW_ERR_NOT_READY;
}

vw_status vw__streams_event_synchronize(vw__streams *streams, vw_device_event event)
{
    const vw__streams_event *slot = find_event(streams, event);
    if (slot == NULL)
        return unknown_event("event_synchronize", event);
    if (slot->is_captured)
        return captured_event("event_synchronize", event);
    if (slot->point != 0) /* what came before it in the stream is done as well */
        run_to(streams, slot->stream, slot->point);
    return VW_OK;
}

static vw_status wait_for_point(vw__streams *streams, vw_stream stream, vw_stream awaited,
                                uint64_t point)
{
    stream_record *record = find_or_make_record(streams, stream);
    stream_wait *wait = vw__host_alloc(sizeof *wait);
    if (record == NULL || wait == NULL) {
        vw__host_free(wait);
        return vw__fail_host_memory(sizeof *record + sizeof *wait, "a stream that waits");
    }
    record->queued = ++streams->latest_point;
    *wait = (stream_wait){NULL, record->queued, awaited, point};
    if (record->last_wait != NULL)
        record->last_wait->next = wait;
    else
        record->first_wait = wait;
    record->last_wait = wait;
    return VW_OK;
}

vw_status vw__streams_wait_event(vw__streams *streams, vw_stream stream, vw_device_event event)
{
    vw__streams_event *slot = find_event(streams, event);
    if (slot == NULL)
        return unknown_event("stream_wait_event", event);
    if (is_complete(streams, slot) || slot->stream == stream)
        return VW_OK; /* a stream's own order does the rest */
    return wait_for_point(streams, stream, slot->stream, slot->point);
}

vw_status vw__streams_event_record_all(vw__streams *streams, vw_device_event event)
{
    if (find_event(streams, event) == NULL)
        return unknown_event("event_record_all", event);
    VW__TRY(vw__streams_none_capturing(streams, "event_record_all"));
    for (const stream_record *record = first_record(streams); record != NULL;
         record = record_after(streams, record))
        if (record->number != ALL_STREAMS && record->reached < record->queued)
            VW__TRY(wait_for_point(streams, ALL_STREAMS, record->number, record->queued));
    VW__TRY(vw__streams_event_record(streams, event, ALL_STREAMS));
    stream_record *all = find_record(streams, ALL_STREAMS);
    if (all != NULL) {
        all->told = streams->latest_point; /* it has no work of its own that anybody completes */
        advance_all(streams);
    }
    return VW_OK;
}

void vw__streams_deinit(vw__streams *streams)
{
    while (streams->records != NULL) {
        stream_record *record = first_record(streams);
        while (record->first_wait != NULL)
            drop_first_wait(record);
        vw__tree_remove(&streams->records, &record->node);
        vw__host_free(record);
    }
    vw__host_free(streams->events);
}
