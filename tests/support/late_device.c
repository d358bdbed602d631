/* late_device.c - see late_device.h. */
#include "support/late_device.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

enum { PAGE = 4096, MOST_EVENTS = 4096, ALL_STREAMS = VW_TEST_LATE_STREAMS + 12 };

typedef enum work_kind { WRITE, LOOK, COPY, RECORD, WAIT } work_kind;

typedef struct work {
    work_kind kind;
    vw_device_ptr address;
    uint64_t size_bytes;
    uint64_t key;     /* of a copy: where it reads */
    size_t recording; /* of an event */
} work;

typedef struct queue {
    work *items;
    size_t first, end, capacity;
    bool is_created; /* by the pool */
} queue;

/* A wait is for the recording at that time; recording the event again changes nothing. */
typedef struct event {
    vw_device_event real;
    size_t recording; /* the latest; 0: none */
    bool is_live;
} event;

static struct {
    vw_device device;
    vw_device_table table;
    const vw_device_table *real;
    void *context;
    queue streams[ALL_STREAMS];
    event events[MOST_EVENTS]; /* number i + 1 */
    unsigned *missing; /* by recording: the streams that have not come to it; the first: none */
    size_t recording_count, recording_capacity;
    uint64_t wrong_marks;
} late;

/* ---- queues ---------------------------------------------------------------------------------- */

static void push(vw_stream stream, work item)
{
    assert_true(stream < ALL_STREAMS);
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
        late.missing = realloc(late.missing, late.recording_capacity * sizeof *late.missing);
        if (late.missing == NULL)
            abort();
    }
    late.missing[late.recording_count] = 0;
    return late.recording_count++;
}

static void push_record(vw_stream stream, size_t recording)
{
    late.missing[recording]++;
    push(stream, (work){.kind = RECORD, .recording = recording});
}

static unsigned char mark_of(uint64_t key, uint64_t offset)
{
    uint64_t mixed = (key ^ offset) * UINT64_C(0x9E3779B97F4A7C15);
    return (unsigned char)(mixed >> 56);
}

static void do_mark(const work *item, uint64_t offset)
{
    unsigned char *bytes = (unsigned char *)(uintptr_t)item->address;
    if (item->kind == WRITE)
        bytes[offset] = mark_of(item->key, offset);
    else if (bytes[offset] != mark_of(item->key, offset))
        late.wrong_marks++;
}

static void do_marks(const work *item)
{
    for (uint64_t offset = 0; offset < item->size_bytes; offset += PAGE)
        do_mark(item, offset);
    do_mark(item, item->size_bytes - 1);
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
        do_marks(&item);
        break;
    case COPY:
        memmove((void *)(uintptr_t)item.address, (const void *)(uintptr_t)item.key,
                item.size_bytes);
        break;
    case RECORD:
        late.missing[item.recording]--;
        break;
    case WAIT:
        if (late.missing[item.recording] != 0)
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
        for (vw_stream stream = 0; stream < ALL_STREAMS; stream++)
            while (vw_test_late_run_one(stream))
                has_run = true;
    }
    assert_int_equal(vw_test_late_waiting(), 0); /* nobody waits in a circle */
}

static bool will_record(const queue *q, size_t recording)
{
    for (size_t i = q->first; i < q->end; i++)
        if (q->items[i].kind == RECORD && q->items[i].recording == recording)
            return true;
    return false;
}

/* Runs what a recording is behind, and nothing else. */
static void run_until(size_t recording)
{
    for (vw_stream stream = 0; stream < ALL_STREAMS; stream++) {
        const queue *q = &late.streams[stream];
        while (late.missing[recording] != 0 && will_record(q, recording))
            if (!vw_test_late_run_one(stream))
                run_until(q->items[q->first].recording);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

static vw_status late_give_back(void *context, vw_device_ptr address)
{
    vw_test_late_run_all();
    return late.real->give_back(context, address);
}

static vw_status late_stream_create(void *context, vw_stream *out)
{
    for (vw_stream stream = VW_TEST_LATE_STREAMS; stream < ALL_STREAMS; stream++) {
        queue *q = &late.streams[stream];
        vw_stream real = 0;
        if (q->is_created || q->first != q->end)
            continue;
        vw_status status = late.real->stream_create(context, &real);
        if (status != VW_OK)
            return status;
        assert_int_equal(late.real->stream_destroy(context, real), VW_OK);
        q->is_created = true;
        *out = stream;
        return VW_OK;
    }
    fail_msg("more than %d streams", ALL_STREAMS);
    return VW_ERR_DEVICE;
}

static vw_status late_stream_destroy(void *context, vw_stream stream)
{
    (void)context;
    assert_true(stream >= VW_TEST_LATE_STREAMS && stream < ALL_STREAMS);
    assert_true(late.streams[stream].is_created);
    late.streams[stream].is_created = false; /* its work runs on */
    return VW_OK;
}

static vw_status late_event_create(void *context, vw_device_event *out)
{
    for (size_t i = 0; i < MOST_EVENTS; i++) {
        event *e = &late.events[i];
        if (e->is_live)
            continue;
        *e = (event){0};
        vw_status status = late.real->event_create(context, &e->real);
        e->is_live = status == VW_OK;
        if (e->is_live)
            *out = i + 1;
        return status;
    }
    fail_msg("more than %d events", MOST_EVENTS);
    return VW_ERR_DEVICE;
}

static vw_status late_event_destroy(void *context, vw_device_event number)
{
    event *e = event_of(number);
    vw_status status = late.real->event_destroy(context, e->real);
    e->is_live = status != VW_OK;
    return status;
}

static vw_status late_event_record(void *context, vw_device_event number, vw_stream stream)
{
    event *e = event_of(number);
    vw_status status = late.real->event_record(context, e->real, 0);
    if (status != VW_OK)
        return status;
    e->recording = new_recording();
    push_record(stream, e->recording);
    return VW_OK;
}

static vw_status late_event_record_all(void *context, vw_device_event number)
{
    event *e = event_of(number);
    vw_status status = late.real->event_record_all(context, e->real);
    if (status != VW_OK)
        return status;
    e->recording = new_recording();
    for (vw_stream stream = 0; stream < ALL_STREAMS; stream++)
        if (late.streams[stream].first != late.streams[stream].end)
            push_record(stream, e->recording);
    return VW_OK;
}

static vw_status late_event_query(void *context, vw_device_event number)
{
    const event *e = event_of(number);
    vw_status status = late.real->event_query(context, e->real);
    return status == VW_OK && late.missing[e->recording] != 0 ? VW_ERR_NOT_READY : status;
}

static vw_status late_stream_wait_event(void *context, vw_stream stream, vw_device_event number)
{
    const event *e = event_of(number);
    vw_status status = late.real->stream_wait_event(context, 0, e->real);
    if (status == VW_OK)
        push(stream, (work){.kind = WAIT, .recording = e->recording});
    return status;
}

static vw_status late_synchronize(void *context)
{
    (void)context;
    vw_test_late_run_all();
    return VW_OK;
}

static vw_status late_stream_synchronize(void *context, vw_stream stream)
{
    const queue *q = &late.streams[stream];
    (void)context;
    while (q->first != q->end)
        if (!vw_test_late_run_one(stream))
            run_until(q->items[q->first].recording);
    return VW_OK;
}

static vw_status late_event_synchronize(void *context, vw_device_event number)
{
    (void)context;
    run_until(event_of(number)->recording);
    return VW_OK;
}

/* The real one looks at both ranges, and has its failures. */
static vw_status late_copy(void *context, vw_device_ptr to, vw_device_ptr from, uint64_t size_bytes,
                           vw_stream stream)
{
    vw_status status = late.real->copy(context, to, to, size_bytes, 0);
    if (status == VW_OK)
        status = late.real->copy(context, from, from, size_bytes, 0);
    if (status == VW_OK)
        push(stream, (work){.kind = COPY, .address = to, .size_bytes = size_bytes, .key = from});
    return status;
}

vw_device *vw_test_late_begin(const vw_device *host)
{
    memset(&late, 0, sizeof late);
    (void)new_recording();
    late.real = host->table;
    late.context = host->context;
    late.table = *host->table;
    late.table.give_back = late_give_back;
    late.table.stream_create = late_stream_create;
    late.table.stream_destroy = late_stream_destroy;
    late.table.event_create = late_event_create;
    late.table.event_destroy = late_event_destroy;
    late.table.event_record = late_event_record;
    late.table.event_record_all = late_event_record_all;
    late.table.event_query = late_event_query;
    late.table.event_synchronize = late_event_synchronize;
    late.table.stream_wait_event = late_stream_wait_event;
    late.table.stream_synchronize = late_stream_synchronize;
    late.table.synchronize = late_synchronize;
    late.table.copy = late_copy;
    late.device = *host;
    late.device.table = &late.table;
    return &late.device;
}

void vw_test_late_end(void)
{
    for (size_t i = 0; i < ALL_STREAMS; i++)
        free(late.streams[i].items);
    for (size_t i = 0; i < MOST_EVENTS; i++)
        assert_false(late.events[i].is_live);
    free(late.missing);
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
    size_t recording = new_recording();
    push_record(before, recording);
    push(stream, (work){.kind = WAIT, .recording = recording});
}

uint64_t vw_test_late_wrong_marks(void)
{
    return late.wrong_marks;
}

uint64_t vw_test_late_waiting(void)
{
    uint64_t count = 0;
    for (size_t i = 0; i < ALL_STREAMS; i++)
        count += late.streams[i].end - late.streams[i].first;
    return count;
}
