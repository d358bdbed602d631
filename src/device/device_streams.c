/* device_streams.c - events that complete when told.
 *
 * Each stream lists its incomplete events in the order of recording, linked through the event
 * slots. Completing a stream costs as much as there is to complete, and asking an event is one
 * look at its slot, whatever the number of streams.
 *
 * What the model leaves out: stream_wait_event() makes nothing wait. An event recorded on a stream
 * that waits for another completes with its own stream all the same; whoever completes streams by
 * hand completes them in the order that is meant. */
#include "device/device_streams.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

struct hr__stream_record {
    hr__tree_node node; /* first, so that a node is its record */
    hr_stream number;
    uint32_t first; /* incomplete events, oldest first: index + 1; 0 = none */
    uint32_t last;
    bool is_created; /* by stream_create(), and not destroyed */
    bool is_capturing;
};

enum { FIRST_EVENT_CAPACITY = 64 };

/* Numbers for created streams: far from the small ones that CUDA gives a meaning (0, 1 and 2). */
#define FIRST_STREAM_NUMBER UINT64_C(0x10000)
#define STREAM_NUMBER_STEP UINT64_C(0x100)

void hr__streams_init(hr__streams *streams, bool is_held)
{
    memset(streams, 0, sizeof *streams);
    streams->is_held = is_held;
}

/* ---- streams --------------------------------------------------------------------------------- */

static bool record_before(const hr__tree_node *a, const hr__tree_node *b)
{
    return ((const hr__stream_record *)a)->number < ((const hr__stream_record *)b)->number;
}

static hr__stream_record *find_record(const hr__streams *streams, hr_stream stream)
{
    hr__stream_record key = {.number = stream};
    hr__stream_record *found =
        (hr__stream_record *)hr__tree_first_from(streams->records, &key.node, record_before);
    return found != NULL && found->number == stream ? found : NULL;
}

/* The stream's record, made if there is none yet. NULL without host memory. */
static hr__stream_record *find_or_make_record(hr__streams *streams, hr_stream stream)
{
    hr__stream_record *record = find_record(streams, stream);
    if (record != NULL)
        return record;
    record = hr__host_alloc_zeroed(1, sizeof *record);
    if (record == NULL)
        return NULL;
    record->number = stream;
    hr__tree_insert(&streams->records, &record->node, record_before);
    return record;
}

static void drop_record_if_idle(hr__streams *streams, hr__stream_record *record)
{
    if (record->first != 0 || record->is_created || record->is_capturing)
        return;
    hr__tree_remove(&streams->records, &record->node);
    hr__host_free(record);
}

hr_status hr__streams_create(hr__streams *streams, hr_stream *out)
{
    hr_stream number;
    do { /* a caller's own streams may have the numbers we would make up */
        number = FIRST_STREAM_NUMBER + STREAM_NUMBER_STEP * streams->created_count++;
    } while (find_record(streams, number) != NULL);
    hr__stream_record *record = find_or_make_record(streams, number);
    if (record == NULL)
        return hr__fail_host_memory(sizeof *record, "a stream");
    record->is_created = true;
    *out = number;
    return HR_OK;
}

hr_status hr__streams_destroy(hr__streams *streams, hr_stream stream)
{
    hr__stream_record *record = find_record(streams, stream);
    if (record == NULL || !record->is_created)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "stream_destroy of %#" PRIx64
                        ": a stream that was created here and not yet destroyed is expected",
                        stream);
    record->is_created = false; /* what waits in it may still be completed, as a driver does */
    record->is_capturing = false;
    drop_record_if_idle(streams, record);
    return HR_OK;
}

hr_status hr__streams_set_capturing(hr__streams *streams, hr_stream stream, bool is_capturing)
{
    if (!is_capturing && find_record(streams, stream) == NULL)
        return HR_OK;
    hr__stream_record *record = find_or_make_record(streams, stream);
    if (record == NULL)
        return hr__fail_host_memory(sizeof *record, "a stream");
    record->is_capturing = is_capturing;
    drop_record_if_idle(streams, record);
    return HR_OK;
}

bool hr__streams_is_capturing(const hr__streams *streams, hr_stream stream)
{
    const hr__stream_record *record = find_record(streams, stream);
    return record != NULL && record->is_capturing;
}

/* ---- completing ------------------------------------------------------------------------------ */

/* Takes an incomplete event out of its stream's list: it is complete then. */
static void unlink_event(hr__streams *streams, hr__event_slot *event)
{
    hr__stream_record *record = event->stream;
    if (event->previous != 0)
        streams->events[event->previous - 1].next = event->next;
    else
        record->first = event->next;
    if (event->next != 0)
        streams->events[event->next - 1].previous = event->previous;
    else
        record->last = event->previous;
    event->stream = NULL;
    event->next = event->previous = 0;
}

static void complete_record(hr__streams *streams, hr__stream_record *record)
{
    while (record->first != 0)
        unlink_event(streams, &streams->events[record->first - 1]);
}

void hr__streams_complete(hr__streams *streams, hr_stream stream)
{
    hr__stream_record *record = find_record(streams, stream);
    if (record != NULL)
        complete_record(streams, record);
}

void hr__streams_complete_all(hr__streams *streams)
{
    hr__tree_node *node = hr__tree_first(streams->records);
    for (; node != NULL; node = hr__tree_after(streams->records, node, record_before))
        complete_record(streams, (hr__stream_record *)node);
}

void hr__streams_hold(hr__streams *streams, bool is_held)
{
    streams->is_held = is_held;
    if (!is_held)
        hr__streams_complete_all(streams);
}

/* ---- events ---------------------------------------------------------------------------------- */

static hr__event_slot *find_event(const hr__streams *streams, hr_device_event event)
{
    uint64_t slot = (event & UINT32_MAX) - 1; /* an event of 0 wraps, and is past every count */
    if (slot >= streams->event_count)
        return NULL;
    hr__event_slot *found = &streams->events[slot];
    return found->is_live && found->generation == event >> 32 ? found : NULL;
}

static hr_status unknown_event(const char *what, hr_device_event event)
{
    return hr__fail(HR_ERR_INVALID_ARGUMENT,
                    "%s of event %#" PRIx64
                    ": one that was created and not yet destroyed is expected",
                    what, event);
}

/* Makes sure that there is a slot to use. */
static hr_status find_free_slot(hr__streams *streams)
{
    if (streams->first_free_event != 0 || streams->event_count < streams->event_capacity)
        return HR_OK;
    uint64_t wanted = streams->event_capacity != 0 ? (uint64_t)streams->event_capacity * 2
                                                   : (uint64_t)FIRST_EVENT_CAPACITY;
    if (wanted >= UINT32_MAX)
        return hr__fail(HR_ERR_DEVICE, "event_create: %" PRIu32 " events are all there can be",
                        streams->event_capacity);
    size_t size_bytes = (size_t)wanted * sizeof *streams->events;
    hr__event_slot *grown = hr__host_realloc(streams->events, size_bytes);
    if (grown == NULL)
        return hr__fail_host_memory(size_bytes, "the events of a device");
    streams->events = grown;
    streams->event_capacity = (uint32_t)wanted;
    return HR_OK;
}

hr_status hr__streams_event_create(hr__streams *streams, hr_device_event *out)
{
    HR__TRY(find_free_slot(streams));
    uint32_t slot, generation = 0;
    if (streams->first_free_event != 0) {
        slot = streams->first_free_event - 1;
        streams->first_free_event = streams->events[slot].next;
        generation = streams->events[slot].generation + 1;
    } else {
        slot = streams->event_count++;
    }
    streams->events[slot] = (hr__event_slot){.generation = generation, .is_live = true};
    *out = (uint64_t)generation << 32 | (slot + 1);
    return HR_OK;
}

hr_status hr__streams_event_destroy(hr__streams *streams, hr_device_event event)
{
    hr__event_slot *slot = find_event(streams, event);
    if (slot == NULL)
        return unknown_event("event_destroy", event);
    if (slot->stream != NULL)
        unlink_event(streams, slot);
    slot->is_live = false;
    slot->next = streams->first_free_event;
    streams->first_free_event = (uint32_t)(slot - streams->events) + 1;
    return HR_OK;
}

hr_status hr__streams_event_record(hr__streams *streams, hr_device_event event, hr_stream stream)
{
    hr__event_slot *slot = find_event(streams, event);
    if (slot == NULL)
        return unknown_event("event_record", event);
    if (!streams->is_held)
        return HR_OK; /* complete before and after */
    hr__stream_record *record = find_or_make_record(streams, stream);
    if (record == NULL)
        return hr__fail_host_memory(sizeof *record, "a stream");
    if (slot->stream != NULL)
        unlink_event(streams, slot); /* recording again moves it */
    uint32_t index = (uint32_t)(slot - streams->events) + 1;
    slot->stream = record;
    slot->previous = record->last;
    if (record->last != 0)
        streams->events[record->last - 1].next = index;
    else
        record->first = index;
    record->last = index;
    return HR_OK;
}

hr_status hr__streams_event_query(hr__streams *streams, hr_device_event event)
{
    const hr__event_slot *slot = find_event(streams, event);
    if (slot == NULL)
        return unknown_event("event_query", event);
    return slot->stream == NULL ? HR_OK : HR_ERR_NOT_READY;
}

hr_status hr__streams_event_synchronize(hr__streams *streams, hr_device_event event)
{
    hr__event_slot *slot = find_event(streams, event);
    if (slot == NULL)
        return unknown_event("event_synchronize", event);
    while (slot->stream != NULL) /* what came before it in the stream is done as well */
        unlink_event(streams, &streams->events[slot->stream->first - 1]);
    return HR_OK;
}

hr_status hr__streams_wait_event(hr__streams *streams, hr_device_event event)
{
    return find_event(streams, event) != NULL ? HR_OK : unknown_event("stream_wait_event", event);
}

void hr__streams_deinit(hr__streams *streams)
{
    while (streams->records != NULL) {
        hr__tree_node *node = hr__tree_first(streams->records);
        hr__tree_remove(&streams->records, node);
        hr__host_free(node);
    }
    hr__host_free(streams->events);
}
