/* device_spy.c - see device_spy.h. */
#include "support/device_spy.h"

static vw_test_spy *listening;

static vw_status note(vw_test_call_made made)
{
    if (listening->call_count == sizeof listening->calls / sizeof listening->calls[0])
        listening->call_count = 0;
    listening->calls[listening->call_count++] = made;
    return made.status;
}

static bool take_one(unsigned *count)
{
    if (*count == 0)
        return false;
    --*count;
    return true;
}

/* VW_OK, or the status with which to refuse a call of any kind. */
static vw_status refusal(void)
{
    if (listening->refused_calls == 0)
        return VW_OK;
    if (listening->let_through > 0) {
        listening->let_through--;
        return VW_OK;
    }
    listening->refused_calls--;
    listening->let_through = listening->let_between;
    return listening->refusal != VW_OK ? listening->refusal : VW_ERR_DEVICE;
}

/* ---- the table ------------------------------------------------------------------------------- */

static vw_status spy_reserve(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    vw_status status = refusal();
    if (status == VW_OK)
        status = listening->real->reserve(context, size_bytes, out);
    return note((vw_test_call_made){.call = VW_TEST_RESERVE,
                                    .status = status,
                                    .size_bytes = size_bytes,
                                    .address = status == VW_OK ? *out : VW_NULL});
}

static vw_status spy_unreserve(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    vw_status status = refusal();
    if (status == VW_OK)
        status = listening->real->unreserve(context, address, size_bytes);
    return note((vw_test_call_made){
        .call = VW_TEST_UNRESERVE, .status = status, .address = address, .size_bytes = size_bytes});
}

static vw_status spy_create(void *context, uint64_t size_bytes, vw_handle *out)
{
    vw_status status = refusal();
    if (status == VW_OK)
        status = listening->real->create(context, size_bytes, out);
    return note((vw_test_call_made){.call = VW_TEST_CREATE,
                                    .status = status,
                                    .size_bytes = size_bytes,
                                    .handle = status == VW_OK ? *out : 0});
}

static vw_status spy_create_on_host(void *context, uint64_t size_bytes, vw_handle *out)
{
    vw_status status =
        take_one(&listening->refused_host_creations) ? VW_ERR_HOST_MEMORY : refusal();
    if (status == VW_OK)
        status = listening->real->create_on_host(context, size_bytes, out);
    return note((vw_test_call_made){.call = VW_TEST_CREATE_ON_HOST,
                                    .status = status,
                                    .size_bytes = size_bytes,
                                    .handle = status == VW_OK ? *out : 0});
}

static vw_status spy_release(void *context, vw_handle handle)
{
    vw_status status = refusal();
    if (status == VW_OK)
        status = listening->real->release(context, handle);
    return note((vw_test_call_made){.call = VW_TEST_RELEASE, .status = status, .handle = handle});
}

static vw_status spy_map(void *context, vw_device_ptr address, uint64_t size_bytes,
                         vw_handle handle)
{
    vw_status status = refusal();
    if (status == VW_OK)
        status = listening->real->map(context, address, size_bytes, handle);
    return note((vw_test_call_made){.call = VW_TEST_MAP,
                                    .status = status,
                                    .address = address,
                                    .size_bytes = size_bytes,
                                    .handle = handle});
}

static vw_status spy_unmap(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    vw_status status = refusal();
    if (take_one(&listening->refused_unmaps))
        status = VW_ERR_DEVICE;
    if (status == VW_OK)
        status = listening->real->unmap(context, address, size_bytes);
    return note((vw_test_call_made){
        .call = VW_TEST_UNMAP, .status = status, .address = address, .size_bytes = size_bytes});
}

static vw_status spy_set_access(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    vw_status status = refusal();
    if (take_one(&listening->refused_accesses))
        status = listening->access_status != VW_OK ? listening->access_status : VW_ERR_DEVICE;
    if (status == VW_OK)
        status = listening->real->set_access(context, address, size_bytes);
    return note((vw_test_call_made){.call = VW_TEST_SET_ACCESS,
                                    .status = status,
                                    .address = address,
                                    .size_bytes = size_bytes});
}

static vw_status spy_event_create(void *context, vw_device_event *out)
{
    vw_status status = refusal();
    if (status == VW_OK)
        status = listening->real->event_create(context, out);
    return note((vw_test_call_made){
        .call = VW_TEST_EVENT_CREATE, .status = status, .event = status == VW_OK ? *out : 0});
}

static vw_status spy_event_record(void *context, vw_device_event event, vw_stream stream)
{
    vw_status status = refusal();
    if (status == VW_OK)
        status = listening->real->event_record(context, event, stream);
    return note((vw_test_call_made){
        .call = VW_TEST_EVENT_RECORD, .status = status, .event = event, .stream = stream});
}

static vw_status spy_event_query(void *context, vw_device_event event)
{
    vw_status status = refusal();
    if (status == VW_OK)
        status = listening->real->event_query(context, event);
    return note((vw_test_call_made){.call = VW_TEST_EVENT_QUERY, .status = status, .event = event});
}

static vw_status spy_event_synchronize(void *context, vw_device_event event)
{
    vw_status status = refusal();
    if (status == VW_OK)
        status = listening->real->event_synchronize(context, event);
    return note(
        (vw_test_call_made){.call = VW_TEST_EVENT_SYNCHRONIZE, .status = status, .event = event});
}

static vw_status spy_stream_wait_event(void *context, vw_stream stream, vw_device_event event)
{
    vw_status status = refusal();
    if (take_one(&listening->refused_wait_events))
        status = VW_ERR_DEVICE;
    if (status == VW_OK)
        status = listening->real->stream_wait_event(context, stream, event);
    return note((vw_test_call_made){
        .call = VW_TEST_STREAM_WAIT_EVENT, .status = status, .stream = stream, .event = event});
}

static vw_status spy_stream_synchronize(void *context, vw_stream stream)
{
    vw_status status = refusal();
    if (status == VW_OK)
        status = listening->real->stream_synchronize(context, stream);
    return note((vw_test_call_made){
        .call = VW_TEST_STREAM_SYNCHRONIZE, .status = status, .stream = stream});
}

static vw_status spy_synchronize(void *context)
{
    vw_status status = refusal();
    if (status == VW_OK)
        status = listening->real->synchronize(context);
    return note((vw_test_call_made){.call = VW_TEST_SYNCHRONIZE, .status = status});
}

static vw_status spy_copy(void *context, vw_device_ptr to, vw_device_ptr from, uint64_t size_bytes,
                          vw_stream stream)
{
    vw_status status = refusal();
    if (status == VW_OK)
        status = listening->real->copy(context, to, from, size_bytes, stream);
    return note((vw_test_call_made){.call = VW_TEST_COPY,
                                    .status = status,
                                    .address = to,
                                    .size_bytes = size_bytes,
                                    .stream = stream});
}

vw_device *vw_test_spy_on(vw_test_spy *spy, const vw_device *real)
{
    listening = spy;
    spy->real = real->table;
    spy->table = *real->table;
    spy->table.reserve = spy_reserve;
    spy->table.unreserve = spy_unreserve;
    spy->table.create = spy_create;
    spy->table.create_on_host = spy_create_on_host;
    spy->table.release = spy_release;
    spy->table.map = spy_map;
    spy->table.unmap = spy_unmap;
    spy->table.set_access = spy_set_access;
    spy->table.event_create = spy_event_create;
    spy->table.event_record = spy_event_record;
    spy->table.event_query = spy_event_query;
    spy->table.event_synchronize = spy_event_synchronize;
    spy->table.stream_wait_event = spy_stream_wait_event;
    spy->table.stream_synchronize = spy_stream_synchronize;
    spy->table.synchronize = spy_synchronize;
    spy->table.copy = spy_copy;
    spy->device = *real;
    spy->device.table = &spy->table;
    return &spy->device;
}

/* ---- what was heard -------------------------------------------------------------------------- */

const vw_test_call_made *vw_test_spy_find(const vw_test_spy *spy, vw_test_call call,
                                          const vw_test_call_made *previous)
{
    const vw_test_call_made *made = previous != NULL ? previous + 1 : spy->calls;
    for (; made < spy->calls + spy->call_count; made++)
        if (made->call == call)
            return made;
    return NULL;
}

size_t vw_test_spy_count(const vw_test_spy *spy, vw_test_call call)
{
    size_t count = 0;
    for (const vw_test_call_made *made = NULL; (made = vw_test_spy_find(spy, call, made)) != NULL;)
        count++;
    return count;
}

static uint64_t size_of_handle(const vw_test_spy *spy, vw_handle handle)
{
    uint64_t size_bytes = 0; /* of the last of that name; 0: one of the host's */
    for (const vw_test_call_made *made = NULL;
         (made = vw_test_spy_find(spy, VW_TEST_CREATE, made)) != NULL;)
        if (made->handle == handle && made->status == VW_OK)
            size_bytes = made->size_bytes;
    return size_bytes;
}

bool vw_test_spy_has_unmapped(const vw_test_spy *spy, vw_device_ptr address, uint64_t size_bytes)
{
    for (const vw_test_call_made *made = NULL;
         (made = vw_test_spy_find(spy, VW_TEST_UNMAP, made)) != NULL;)
        if (made->address < address + size_bytes && made->address + made->size_bytes > address)
            return true;
    return false;
}

uint64_t vw_test_spy_lost_bytes(const vw_test_spy *spy)
{
    uint64_t bytes = 0;
    for (const vw_test_call_made *made = NULL;
         (made = vw_test_spy_find(spy, VW_TEST_RELEASE, made)) != NULL;)
        if (made->status != VW_OK)
            bytes += size_of_handle(spy, made->handle);
    return bytes;
}

void vw_test_spy_forget(vw_test_spy *spy)
{
    spy->call_count = 0;
}
