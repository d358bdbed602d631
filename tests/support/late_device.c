/* late_device.c - see late_device.h. */
#include "support/late_device.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

enum { PAGE = 4096, MOST_EVENTS = 4096 };

typedef enum work_kind { WRITE, LOOK, RECORD, WAIT } work_kind;

typedef struct work {
    work_kind kind;
    vw_device_ptr address;
    uint64_t size_bytes;
    uint64_t key;
    size_t recording; /* of an event */
    vw_stream stream; /* where that was */
} work;

typedef struct queue {
    work *items;
    size_t first, end, capacity;
} queue;

/* A wait is for the recording at that time; recording the event again changes nothing. */
typedef struct event {
    size_t recording; /* the latest; 0: none */
    vw_stream stream; /* of the latest */
    bool is_live;
} event;

static struct {
    vw_device device;
    vw_device_table table;
    queue streams[VW_TEST_LATE_STREAMS];
    event events[MOST_EVENTS]; /* number i + 1 */
    bool *is_done;             /* by recording; the first stands for none */
    size_t recording_count, recording_capacity;
    uint64_t wrong_marks;
} late;

/* ---- queues ---------------------------------------------------------------------------------- */

static void push(vw_stream stream, work item)
{
    assert_true(stream < VW_TEST_LATE_STREAMS);
    queue *q = &late.streams[stream];
    if (q->end == q->capacity) {
        q->capacity = q->capacity != 0 ? 2 * q->capacity : 256;
        q->items = realloc(q->items, q->capacity * sizeof *q->items);
        if (q->items == NULL)
            abort();
    }
    q->items[q->end++] = item;
}

static event *event_of(vw_device_event number)
{
    assert_true(number >= 1 && number <= MOST_EVENTS && late.events[number - 1].is_live);
    return &late.events[number - 1];
}

static size_t new_recording(void)
{
    if (late.recording_count == late.recording_capacity) {
        late.recording_capacity = late.recording_capacity != 0 ? 2 * late.recording_capacity : 1024;
        late.is_done = realloc(late.is_done, late.recording_capacity * sizeof *late.is_done);
        if (late.is_done == NULL)
            abort();
    }
    late.is_done[late.recording_count] = false;
    return late.recording_count++;
}

static unsigned char mark_of(uint64_t key, uint64_t offset)
{
    uint64_t mixed = (key ^ offset) * UINT64_C(0x9E3779B97F4A7C15);
    return (unsigned char)(mixed >> 56);
}

static void do_bytes(const work *item)
{
    unsigned char *bytes = (unsigned char *)(uintptr_t)item->address;
    for (uint64_t offset = 0; offset < item->size_bytes; offset += PAGE) {
        if (item->kind == WRITE)
            bytes[offset] = mark_of(item->key, offset);
        else if (bytes[offset] != mark_of(item->key, offset))
            late.wrong_marks++;
    }
}

bool vw_test_late_run_one(vw_stream stream)
{
    queue *q = &late.streams[stream];
    if (q->first == q->end)
        return false;
    const work item = q->items[q->first];
    switch (item.kind) {
    case WRITE:
    case LOOK:
        do_bytes(&item);
        break;
    case RECORD:
        late.is_done[item.recording] = true;
        break;
    case WAIT:
        if (!late.is_done[item.recording])
            return false;
        break;
    }
    if (++q->first == q->end)
        q->first = q->end = 0;
    return true;
}

void vw_test_late_run_all(void)
{
    bool has_run = true;
    while (has_run) {
        has_run = false;
        for (vw_stream stream = 0; stream < VW_TEST_LATE_STREAMS; stream++)
            while (vw_test_late_run_one(stream))
                has_run = true;
    }
    assert_int_equal(vw_test_late_waiting(), 0); /* nobody waits in a circle */
}

/* ---- the table ------------------------------------------------------------------------------- */

static vw_status late_event_create(void *context, vw_device_event *out)
{
    (void)context;
    for (size_t i = 0; i < MOST_EVENTS; i++) {
        if (!late.events[i].is_live) {
            late.events[i] = (event){.is_live = true};
            *out = i + 1;
            return VW_OK;
        }
    }
    fail_msg("more than %d events", MOST_EVENTS);
    return VW_ERR_DEVICE;
}

static vw_status late_event_destroy(void *context, vw_device_event number)
{
    (void)context;
    event_of(number)->is_live = false;
    return VW_OK;
}

static vw_status late_event_record(void *context, vw_device_event number, vw_stream stream)
{
    (void)context;
    event *e = event_of(number);
    e->stream = stream;
    e->recording = new_recording();
    push(stream, (work){.kind = RECORD, .recording = e->recording});
    return VW_OK;
}

static vw_status late_event_query(void *context, vw_device_event number)
{
    (void)context;
    const event *e = event_of(number);
    return late.is_done[e->recording] ? VW_OK : VW_ERR_NOT_READY;
}

static vw_status late_stream_wait_event(void *context, vw_stream stream, vw_device_event number)
{
    (void)context;
    const event *e = event_of(number);
    push(stream, (work){.kind = WAIT, .recording = e->recording, .stream = e->stream});
    return VW_OK;
}

static vw_status late_synchronize(void *context)
{
    (void)context;
    vw_test_late_run_all();
    return VW_OK;
}

/* Runs up to a recording of the event, or, without an event, to the end. */
static void run_until(vw_stream stream, size_t recording)
{
    queue *q = &late.streams[stream];
    while (q->first != q->end && (recording == 0 || !late.is_done[recording])) {
        if (vw_test_late_run_one(stream))
            continue;
        const work awaited = q->items[q->first];
        run_until(awaited.stream, awaited.recording);
    }
}

static vw_status late_stream_synchronize(void *context, vw_stream stream)
{
    (void)context;
    run_until(stream, 0);
    return VW_OK;
}

static vw_status late_event_synchronize(void *context, vw_device_event number)
{
    (void)context;
    const event *e = event_of(number);
    if (e->recording != 0)
        run_until(e->stream, e->recording);
    return VW_OK;
}

vw_device *vw_test_late_begin(const vw_device *host)
{
    memset(&late, 0, sizeof late);
    size_t none = new_recording();
    late.is_done[none] = true;
    late.table = *host->table;
    late.table.event_create = late_event_create;
    late.table.event_destroy = late_event_destroy;
    late.table.event_record = late_event_record;
    late.table.event_query = late_event_query;
    late.table.event_synchronize = late_event_synchronize;
    late.table.stream_wait_event = late_stream_wait_event;
    late.table.stream_synchronize = late_stream_synchronize;
    late.table.synchronize = late_synchronize;
    late.device = *host;
    late.device.table = &late.table;
    return &late.device;
}

void vw_test_late_end(void)
{
    for (size_t i = 0; i < VW_TEST_LATE_STREAMS; i++)
        free(late.streams[i].items);
    free(late.is_done);
    memset(&late, 0, sizeof late);
}

/* ---- what a test queues ---------------------------------------------------------------------- */

void vw_test_late_write(vw_stream stream, vw_device_ptr address, uint64_t size_bytes, uint64_t key)
{
    push(stream, (work){.kind = WRITE, .address = address, .size_bytes = size_bytes, .key = key});
}

void vw_test_late_look(vw_stream stream, vw_device_ptr address, uint64_t size_bytes, uint64_t key)
{
    push(stream, (work){.kind = LOOK, .address = address, .size_bytes = size_bytes, .key = key});
}

void vw_test_late_order(vw_stream stream, vw_stream before)
{
    vw_device_event number = 0;
    (void)late_event_create(NULL, &number);
    (void)late_event_record(NULL, number, before);
    (void)late_stream_wait_event(NULL, stream, number);
    (void)late_event_destroy(NULL, number);
}

uint64_t vw_test_late_wrong_marks(void)
{
    return late.wrong_marks;
}

uint64_t vw_test_late_waiting(void)
{
    uint64_t count = 0;
    for (size_t i = 0; i < VW_TEST_LATE_STREAMS; i++)
        count += late.streams[i].end - late.streams[i].first;
    return count;
}
