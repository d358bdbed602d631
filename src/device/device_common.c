/* device_common.c - the device table of the stand-ins, and the end of every device.
 *
 * Each call has three steps: enter() locks, counts, and fails if the script says so or the device
 * is lost; the books or the streams do the work; leave() charges and unlocks. A failed call is
 * charged its base cost only: a driver that refuses does not reach the part that depends on the
 * size. The lock is held for the whole call, copies included: a stand-in is for tests and replay,
 * and its books must never show half a call.
 *
 * Both stand-ins have the same table, so that "is this a stand-in" is one comparison of pointers.
 */
#include "device/device_common.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h> /* getpid */

#include "base/checked_math.h" /* vw__narrow_size */
#include "base/error.h"
#include "base/host_memory.h"

#define BYTES_PER_GIB_LOG2 30
#define GIB_MASK ((UINT64_C(1) << BYTES_PER_GIB_LOG2) - 1)

static const char *const call_names[VW_DEVICE_CALL_KINDS] = {
#define CALL_NAME(upper, lower) [VW_DEVICE_CALL_##upper] = #lower,
    VW_DEVICE_CALL_LIST(CALL_NAME)
#undef CALL_NAME
};

/* ---- around each call ------------------------------------------------------------------------ */

__attribute__((cold)) static vw_status lost(const char *what)
{
    return vw__fail(VW_ERR_DEVICE, "%s: the device is lost", what);
}

__attribute__((cold)) static vw_status follow_script(vw__stand_in *device, vw_device_call kind)
{
    if (device->is_lost)
        return lost(call_names[kind]);
    if (--device->calls_until_failure != 0)
        return VW_OK;
    if (device->failure_status == VW_ERR_NOT_READY)
        return VW_ERR_NOT_READY; /* no failure: vw_last_error() stays */
    return vw__fail(device->failure_status, "call %" PRIu64 " (%s) failed as scripted",
                    device->failure_order, call_names[kind]);
}

static inline vw_status begin(vw__stand_in *device, vw_device_call kind)
{
    device->calls.count[kind]++;
    if (__builtin_expect(device->is_lost || device->calls_until_failure != 0, 0))
        return follow_script(device, kind);
    return VW_OK;
}

static inline vw_status enter(vw__stand_in *device, vw_device_call kind)
{
    vw__mutex_lock(&device->lock);
    return begin(device, kind);
}

/* `times` and `size_bytes` say how much the call did: a call over several handles pays for each. */
static inline vw_status leave(vw__stand_in *device, vw_device_call kind, uint64_t times,
                              uint64_t size_bytes, vw_status status)
{
    const vw_call_cost *cost = &device->costs[kind];
    uint64_t cost_ns = cost->base_ns;
    if (status == VW_OK)
        cost_ns = cost->base_ns * times + (size_bytes >> BYTES_PER_GIB_LOG2) * cost->ns_per_gib +
                  (((size_bytes & GIB_MASK) * cost->ns_per_gib) >> BYTES_PER_GIB_LOG2);
    device->calls.elapsed_ns += cost_ns;
    if (cost_ns > device->calls.longest_ns)
        device->calls.longest_ns = cost_ns;
    vw__mutex_unlock(&device->lock);
    return status;
}

/* For the calls that have no kind. */
static vw_status enter_uncounted(vw__stand_in *device, const char *what)
{
    vw__mutex_lock(&device->lock);
    return device->is_lost ? lost(what) : VW_OK;
}

static vw_status leave_uncounted(vw__stand_in *device, vw_status status)
{
    vw__mutex_unlock(&device->lock);
    return status;
}

/* The body of a call that is only `work`, which sees the stand-in as `device`. */
#define COUNTED(kind, times, size_bytes, work)                                                     \
    do {                                                                                           \
        vw__stand_in *device = context;                                                            \
        vw_status status = enter(device, VW_DEVICE_CALL_##kind);                                   \
        if (status == VW_OK)                                                                       \
            status = (work);                                                                       \
        return leave(device, VW_DEVICE_CALL_##kind, times, size_bytes, status);                    \
    } while (0)

#define UNCOUNTED(what, work)                                                                      \
    do {                                                                                           \
        vw__stand_in *device = context;                                                            \
        vw_status status = enter_uncounted(device, what);                                          \
        if (status == VW_OK)                                                                       \
            status = (work);                                                                       \
        return leave_uncounted(device, status);                                                    \
    } while (0)

/* ---- memory ---------------------------------------------------------------------------------- */

static vw_status stand_in_take(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    COUNTED(TAKE, 1, size_bytes, vw__books_take(&device->books, size_bytes, out));
}

static vw_status stand_in_give_back(void *context, vw_device_ptr address)
{
    uint64_t size_bytes = 0;
    COUNTED(GIVE_BACK, 1, size_bytes, vw__books_give_back(&device->books, address, &size_bytes));
}

static vw_status stand_in_reserve(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    COUNTED(RESERVE, 1, size_bytes, vw__books_reserve(&device->books, size_bytes, out));
}

static vw_status stand_in_unreserve(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    COUNTED(UNRESERVE, 1, size_bytes, vw__books_unreserve(&device->books, address, size_bytes));
}

static vw_status stand_in_create(void *context, uint64_t size_bytes, vw_handle *out)
{
    COUNTED(CREATE, 1, size_bytes, vw__books_create(&device->books, size_bytes, out));
}

static vw_status stand_in_create_on_host(void *context, uint64_t size_bytes, vw_handle *out)
{
    COUNTED(CREATE_ON_HOST, 1, size_bytes,
            vw__books_create_on_host(&device->books, size_bytes, out));
}

static vw_status stand_in_create_shareable(void *context, uint64_t size_bytes, vw_handle *out)
{
    COUNTED(CREATE, 1, size_bytes, vw__books_create_shareable(&device->books, size_bytes, out));
}

static vw_status stand_in_export_handle(void *context, vw_handle handle, int *file_descriptor)
{
    UNCOUNTED("export_handle", vw__books_export_handle(&device->books, handle, file_descriptor));
}

static vw_status stand_in_import_handle(void *context, int file_descriptor, uint64_t size_bytes,
                                        vw_handle *out)
{
    COUNTED(CREATE, 1, size_bytes,
            vw__books_import_handle(&device->books, file_descriptor, size_bytes, out));
}

/* Nobody reads or writes through a simulated mapping, so there is nothing to open: any index below
 * peer_count is accepted. */
static vw_status stand_in_allow_peer(void *context, int peer_index, bool is_allowed)
{
    vw__stand_in *device = context;
    vw_status status = enter_uncounted(device, "allow_peer");
    (void)is_allowed;
    if (status == VW_OK && device->peer_count == 0)
        status = vw__fail(VW_ERR_UNSUPPORTED, "allow_peer: this device has no peers");
    if (status == VW_OK && (peer_index < 0 || peer_index >= device->peer_count))
        status = vw__fail(VW_ERR_INVALID_ARGUMENT, "allow_peer: no device %d, there are %d",
                          peer_index, device->peer_count);
    return leave_uncounted(device, status);
}

static vw_status stand_in_release(void *context, vw_handle handle)
{
    uint64_t size_bytes = 0;
    COUNTED(RELEASE, 1, size_bytes, vw__books_release(&device->books, handle, &size_bytes));
}

static vw_status stand_in_map(void *context, vw_device_ptr address, uint64_t size_bytes,
                              vw_handle handle)
{
    COUNTED(MAP, 1, size_bytes, vw__books_map(&device->books, address, size_bytes, handle));
}

static vw_status stand_in_unmap(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    uint64_t handle_count = 0;
    COUNTED(UNMAP, handle_count, size_bytes,
            vw__books_unmap(&device->books, address, size_bytes, &handle_count));
}

static vw_status stand_in_set_access(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    vw__stand_in *device = context;
    uint64_t handle_count = 0;
    vw__mutex_lock(&device->lock);
    vw_device_call kind = vw__books_is_on_host(&device->books, address, size_bytes)
                              ? VW_DEVICE_CALL_ACCESS_ON_HOST
                              : VW_DEVICE_CALL_SET_ACCESS;
    vw_status status = begin(device, kind);
    if (status == VW_OK)
        status = vw__books_set_access(&device->books, address, size_bytes, &handle_count);
    return leave(device, kind, handle_count, size_bytes, status);
}

/* ---- streams and events ---------------------------------------------------------------------- */

static vw_status stand_in_stream_create(void *context, vw_stream *out)
{
    COUNTED(STREAM, 1, 0, vw__streams_create(&device->streams, out));
}

static vw_status stand_in_stream_destroy(void *context, vw_stream stream)
{
    COUNTED(STREAM, 1, 0, vw__streams_destroy(&device->streams, stream));
}

static vw_status stand_in_stream_synchronize(void *context, vw_stream stream)
{
    vw__stand_in *device = context;
    vw_status status = enter(device, VW_DEVICE_CALL_SYNCHRONIZE);
    if (status == VW_OK)
        status = vw__streams_synchronize(&device->streams, stream);
    return leave(device, VW_DEVICE_CALL_SYNCHRONIZE, 1, 0, status);
}

static vw_status stand_in_stream_wait_event(void *context, vw_stream stream, vw_device_event event)
{
    COUNTED(STREAM, 1, 0, vw__streams_wait_event(&device->streams, stream, event));
}

static vw_status stand_in_stream_is_capturing(void *context, vw_stream stream, bool *out)
{
    vw__stand_in *device = context;
    vw_status status = enter(device, VW_DEVICE_CALL_STREAM);
    if (status == VW_OK)
        *out = vw__streams_is_capturing(&device->streams, stream);
    return leave(device, VW_DEVICE_CALL_STREAM, 1, 0, status);
}

static vw_status stand_in_stream_capture_nodes(void *context, vw_stream stream, uint64_t *capture,
                                               vw_graph_node *nodes, size_t capacity, size_t *count)
{
    vw__stand_in *device = context;
    vw_status status = enter(device, VW_DEVICE_CALL_STREAM);
    if (status == VW_OK && vw__streams_is_capturing(&device->streams, stream))
        vw__device_graphs_get_terminals(&device->graphs, stream, capture, nodes, capacity, count);
    else if (status == VW_OK)
        *capture = *count = 0;
    return leave(device, VW_DEVICE_CALL_STREAM, 1, 0, status);
}

static vw_status stand_in_graph_node_parents(void *context, vw_graph_node node,
                                             vw_graph_node *parents, size_t capacity, size_t *count)
{
    vw__stand_in *device = context;
    vw_status status = enter(device, VW_DEVICE_CALL_STREAM);
    if (status == VW_OK)
        vw__device_graphs_get_parents(&device->graphs, node, parents, capacity, count);
    return leave(device, VW_DEVICE_CALL_STREAM, 1, 0, status);
}

static vw_status stand_in_event_create(void *context, vw_device_event *out)
{
    COUNTED(EVENT_CREATE, 1, 0, vw__streams_event_create(&device->streams, out));
}

static vw_status stand_in_event_destroy(void *context, vw_device_event event)
{
    UNCOUNTED("event_destroy", vw__streams_event_destroy(&device->streams, event));
}

static vw_status stand_in_event_record(void *context, vw_device_event event, vw_stream stream)
{
    COUNTED(EVENT_RECORD, 1, 0, vw__streams_event_record(&device->streams, event, stream));
}

static vw_status stand_in_event_record_all(void *context, vw_device_event event)
{
    COUNTED(EVENT_RECORD, 1, 0, vw__streams_event_record_all(&device->streams, event));
}

static vw_status stand_in_event_query(void *context, vw_device_event event)
{
    COUNTED(EVENT_QUERY, 1, 0, vw__streams_event_query(&device->streams, event));
}

static vw_status stand_in_event_synchronize(void *context, vw_device_event event)
{
    COUNTED(SYNCHRONIZE, 1, 0, vw__streams_event_synchronize(&device->streams, event));
}

static vw_status stand_in_synchronize(void *context)
{
    vw__stand_in *device = context;
    vw_status status = enter(device, VW_DEVICE_CALL_SYNCHRONIZE);
    if (status == VW_OK)
        status = vw__streams_none_capturing(&device->streams, "synchronize");
    if (status == VW_OK)
        vw__streams_complete_all(&device->streams);
    return leave(device, VW_DEVICE_CALL_SYNCHRONIZE, 1, 0, status);
}

/* ---- bytes: done at once, and so in the order of every stream -------------------------------- */

static bool has_bytes(const vw__stand_in *device)
{
    return device->books.backing->bytes_at != NULL;
}

/* Stores where the host can touch `size_bytes` at `address`; fails if they are not all mapped. On a
 * device without bytes `*bytes` is left alone. */
static vw_status find_bytes(vw__stand_in *device, const char *what, vw_device_ptr address,
                            uint64_t size_bytes, void **bytes, size_t *host_bytes)
{
    vw__books *books = &device->books;
    VW__TRY(vw__books_check_bytes(books, what, address, size_bytes));
    if (!has_bytes(device))
        return VW_OK;
    if (!vw__narrow_size(size_bytes, host_bytes))
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "%s of %" PRIu64 " bytes", what, size_bytes);
    *bytes = books->backing->bytes_at(books->backing_context, address);
    return VW_OK;
}

/* For calls whose result the caller could see. */
static vw_status need_bytes(vw__stand_in *device, const char *what)
{
    if (has_bytes(device))
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED, "%s: this device has no bytes", what);
}

static vw_status stand_in_write(void *context, vw_device_ptr to, const void *from,
                                uint64_t size_bytes)
{
    vw__stand_in *device = context;
    void *bytes = NULL;
    size_t host_bytes = 0;
    vw_status status = enter_uncounted(device, "write");
    if (status == VW_OK)
        status = need_bytes(device, "write");
    if (status == VW_OK)
        status = find_bytes(device, "write", to, size_bytes, &bytes, &host_bytes);
    if (status == VW_OK)
        memcpy(bytes, from, host_bytes);
    return leave_uncounted(device, status);
}

static vw_status stand_in_read(void *context, void *to, vw_device_ptr from, uint64_t size_bytes)
{
    vw__stand_in *device = context;
    void *bytes = NULL;
    size_t host_bytes = 0;
    vw_status status = enter_uncounted(device, "read");
    if (status == VW_OK)
        status = need_bytes(device, "read");
    if (status == VW_OK)
        status = find_bytes(device, "read", from, size_bytes, &bytes, &host_bytes);
    if (status == VW_OK)
        memcpy(to, bytes, host_bytes);
    return leave_uncounted(device, status);
}

static vw_status stand_in_fill(void *context, vw_device_ptr to, uint8_t value, uint64_t size_bytes,
                               vw_stream stream)
{
    (void)stream;
    vw__stand_in *device = context;
    void *bytes = NULL;
    size_t host_bytes = 0;
    vw_status status = enter_uncounted(device, "fill");
    if (status == VW_OK)
        status = find_bytes(device, "fill", to, size_bytes, &bytes, &host_bytes);
    if (status == VW_OK && bytes != NULL)
        memset(bytes, value, host_bytes);
    return leave_uncounted(device, status);
}

/* As find_bytes(), also in page-locked memory of the host. */
static vw_status find_bytes_to_copy(vw__stand_in *device, const char *what, vw_device_ptr address,
                                    uint64_t size_bytes, void **bytes, size_t *host_bytes)
{
    if (!has_bytes(device) || !vw__books_is_pinned(&device->books, address, size_bytes))
        return find_bytes(device, what, address, size_bytes, bytes, host_bytes);
    *bytes = (void *)(uintptr_t)address;
    *host_bytes = (size_t)size_bytes; /* it is in one range of the host's */
    return VW_OK;
}

static vw_status stand_in_copy(void *context, vw_device_ptr to, vw_device_ptr from,
                               uint64_t size_bytes, vw_stream stream)
{
    (void)stream;
    vw__stand_in *device = context;
    void *target = NULL, *source = NULL;
    size_t host_bytes = 0;
    vw__mutex_lock(&device->lock);
    vw_device_call kind = vw__books_is_on_host(&device->books, from, size_bytes) ||
                                  vw__books_is_on_host(&device->books, to, size_bytes)
                              ? VW_DEVICE_CALL_COPY_ON_HOST
                              : VW_DEVICE_CALL_COPY;
    vw_status status = begin(device, kind);
    if (status == VW_OK)
        status = find_bytes_to_copy(device, "copy from", from, size_bytes, &source, &host_bytes);
    if (status == VW_OK)
        status = find_bytes_to_copy(device, "copy to", to, size_bytes, &target, &host_bytes);
    if (status == VW_OK && target != NULL)
        memmove(target, source, host_bytes);
    return leave(device, kind, 1, size_bytes, status);
}

/* ---- page-locked host memory ----------------------------------------------------------------- */

static vw_status stand_in_host_take(void *context, uint64_t size_bytes, void **out)
{
    COUNTED(HOST_TAKE, 1, size_bytes, vw__books_host_take(&device->books, size_bytes, out));
}

static vw_status stand_in_host_give_back(void *context, void *address)
{
    uint64_t size_bytes = 0;
    COUNTED(HOST_GIVE_BACK, 1, size_bytes,
            vw__books_host_give_back(&device->books, address, &size_bytes));
}

static vw_status stand_in_host_register(void *context, void *address, uint64_t size_bytes)
{
    COUNTED(HOST_TAKE, 1, size_bytes, vw__books_host_register(&device->books, address, size_bytes));
}

static vw_status stand_in_host_unregister(void *context, void *address)
{
    uint64_t size_bytes = 0;
    COUNTED(HOST_GIVE_BACK, 1, size_bytes,
            vw__books_host_unregister(&device->books, address, &size_bytes));
}

/* ---- what there is --------------------------------------------------------------------------- */

/* Under the lock. */
static void read_memory(const vw__stand_in *device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    const vw__books *books = &device->books;
    *free_bytes = books->capacity_bytes > books->in_use_bytes
                      ? books->capacity_bytes - books->in_use_bytes
                      : 0; /* the capacity was lowered below what is held */
    *total_bytes = device->total_bytes;
}

static vw_status ask_for_memory(const vw_device *device, uint64_t *free_bytes,
                                uint64_t *total_bytes)
{
    vw__stand_in *stand_in = vw__stand_in_of(device);
    if (stand_in == NULL)
        return device->table->memory_info(device->context, free_bytes, total_bytes);
    vw__mutex_lock(&stand_in->lock);
    read_memory(stand_in, free_bytes, total_bytes);
    vw__mutex_unlock(&stand_in->lock);
    return VW_OK;
}

static vw_status stand_in_memory_info(void *context, uint64_t *free_bytes, uint64_t *total_bytes)
{
    vw__stand_in *device = context;
    vw_status status = enter(device, VW_DEVICE_CALL_MEMORY_INFO);
    if (status == VW_OK)
        read_memory(device, free_bytes, total_bytes);
    return leave(device, VW_DEVICE_CALL_MEMORY_INFO, 1, 0, status);
}

/* Nobody else can reach a stand-in. */
static vw_status stand_in_processes(void *context, vw_process_memory *entries, size_t capacity,
                                    size_t *count)
{
    vw__stand_in *device = context;
    vw_status status = enter_uncounted(device, "processes");
    if (status == VW_OK) {
        if (capacity > 0)
            entries[0] = (vw_process_memory){.used_bytes = device->books.in_use_bytes,
                                             .pid = (uint32_t)getpid(),
                                             .is_this_process = true};
        *count = 1;
    }
    return leave_uncounted(device, status);
}

static void stand_in_destroy(void *context)
{
    vw__stand_in *device = context;
    vw__device_graphs_deinit(&device->graphs);
    vw__streams_deinit(&device->streams);
    vw__books_deinit(&device->books);
    device->books.backing->destroy(device);
}

static const vw_device_table stand_in_table = {
    .struct_size = sizeof(vw_device_table),
    .take = stand_in_take,
    .give_back = stand_in_give_back,
    .reserve = stand_in_reserve,
    .unreserve = stand_in_unreserve,
    .create = stand_in_create,
    .release = stand_in_release,
    .map = stand_in_map,
    .unmap = stand_in_unmap,
    .set_access = stand_in_set_access,
    .stream_create = stand_in_stream_create,
    .stream_destroy = stand_in_stream_destroy,
    .stream_synchronize = stand_in_stream_synchronize,
    .stream_wait_event = stand_in_stream_wait_event,
    .stream_is_capturing = stand_in_stream_is_capturing,
    .event_create = stand_in_event_create,
    .event_destroy = stand_in_event_destroy,
    .event_record = stand_in_event_record,
    .event_query = stand_in_event_query,
    .event_synchronize = stand_in_event_synchronize,
    .synchronize = stand_in_synchronize,
    .write = stand_in_write,
    .read = stand_in_read,
    .fill = stand_in_fill,
    .copy = stand_in_copy,
    .host_take = stand_in_host_take,
    .host_give_back = stand_in_host_give_back,
    .host_register = stand_in_host_register,
    .host_unregister = stand_in_host_unregister,
    .memory_info = stand_in_memory_info,
    .processes = stand_in_processes,
    .destroy = stand_in_destroy,
    .create_shareable = stand_in_create_shareable,
    .export_handle = stand_in_export_handle,
    .import_handle = stand_in_import_handle,
    .allow_peer = stand_in_allow_peer,
    .create_on_host = stand_in_create_on_host,
    .stream_capture_nodes = stand_in_stream_capture_nodes,
    .graph_node_parents = stand_in_graph_node_parents,
    .event_record_all = stand_in_event_record_all,
};

/* ---- making and ending ----------------------------------------------------------------------- */

vw_status vw__stand_in_init(vw__stand_in *stand_in, const vw__stand_in_parts *parts,
                            vw_device **out)
{
    vw_device *device = vw__host_alloc(sizeof *device);
    if (device == NULL)
        return vw__fail_host_memory(sizeof *device, "a device");
    memset(stand_in, 0, sizeof *stand_in);
    vw__mutex_init(&stand_in->lock, VW__LOCK_DEVICE);
    stand_in->total_bytes = parts->properties.total_bytes;
    stand_in->peer_count = parts->peer_count;
    if (parts->costs != NULL)
        memcpy(stand_in->costs, parts->costs, sizeof stand_in->costs);
    vw__books_init(&stand_in->books, parts->backing, stand_in, parts->capacity_bytes,
                   parts->granularity_bytes, parts->properties.has_virtual_memory);
    vw__streams_init(&stand_in->streams, parts->holds_streams);
    *device = (vw_device){&stand_in_table, stand_in, parts->properties};
    *out = device;
    return VW_OK;
}

/* ---- the end, and looks ---------------------------------------------------------------------- */

/* The device that is being asked; once its owner has ended it, `given_up` in its place. A child of
 * fork() may find its parent's here, which it leaves alone. */
static _Atomic(const vw_device *) asked;
static const vw_device given_up;

static void end_device(vw_device *device)
{
    device->table->destroy(device->context);
    vw__host_free(device);
}

void vw_device_destroy(vw_device *device)
{
    const vw_device *expected = device;
    if (device == NULL || atomic_compare_exchange_strong(&asked, &expected, &given_up))
        return;
    end_device(device);
}

void vw__device_begin_peek(const vw_device *device)
{
    atomic_store(&asked, device);
}

vw_status vw__device_peek_memory(const vw_device *device, uint64_t *free_bytes,
                                 uint64_t *total_bytes)
{
    const vw_device *expected = device;
    vw_status status = ask_for_memory(device, free_bytes, total_bytes);
    if (atomic_compare_exchange_strong(&asked, &expected, NULL))
        return status;
    atomic_store(&asked, NULL);
    end_device((vw_device *)(uintptr_t)device); /* its owner's, who has left it to us */
    return status;
}

bool vw__device_outlives_a_peek(const vw_device *device)
{
    return vw__stand_in_of(device) != NULL || device->table == vw__cuda_device_table();
}

vw__stand_in *vw__stand_in_of(const vw_device *device)
{
    return device != NULL && device->table == &stand_in_table ? device->context : NULL;
}

vw_status vw__stand_in_with_backing(const vw_device *device, const vw__books_backing *backing,
                                    const char *what, vw__stand_in **out)
{
    vw__stand_in *stand_in = vw__stand_in_of(device);
    if (stand_in == NULL || (backing != NULL && stand_in->books.backing != backing))
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "%s: not for %s", what,
                        device != NULL ? device->properties.name : "NULL");
    *out = stand_in;
    return VW_OK;
}
