/* fake_libcuda.c - a CUDA driver without a GPU, for testing what talks to one.
 *
 * Two devices, or up to eight, of a few gigabytes whose memory is host memory: plain memory is an
 * anonymous mapping, a physical handle is a memfd, a reservation is a range without access. Work is
 * done when it is queued. The fake is strict where the real driver is: a call without the right
 * current context, a range that is not mapped, a stale handle are refused with the driver's own
 * numbers, so that the code under test cannot get away with what a GPU would refuse. */
#include "support/fake_cuda/fake_internal.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h> /* access, usleep */

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
fake_cuda_state fake_state;

/* ---- orders from the test -------------------------------------------------------------------- */

bool fake_is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0';
}

static _Atomic int calls_until_failure; /* 0: none */
static _Atomic int failure_result;

EXPORT void fake_cuda_fail_call(int nth, int result);
void fake_cuda_fail_call(int nth, int result)
{
    failure_result = result;
    calls_until_failure = nth;
}

int fake_ordered_result(const char *function)
{
    if (calls_until_failure > 0 && --calls_until_failure == 0)
        return failure_result;
    const char *order = getenv("FAKE_CUDA_FAIL");
    size_t length = strlen(function);
    if (order == NULL || strncmp(order, function, length) != 0 || order[length] != '=')
        return SUCCESS;
    return atoi(order + length + 1);
}

/* ---- contexts -------------------------------------------------------------------------------- */

struct vw__cuda_context_ fake_primaries[FAKE_CUDA_MOST_DEVICES];
static _Thread_local vw__cuda_context context_stack[16];
static _Thread_local int context_depth;
static _Thread_local int capture_mode; /* 0: global, the default */

vw__cuda_context fake_current_context(void)
{
    return context_depth > 0 ? context_stack[context_depth - 1] : NULL;
}

#ifdef FAKE_HIP
void fake_set_current_context(vw__cuda_context context)
{
    context_stack[0] = context;
    context_depth = 1;
}
#endif

#define REFUSE_DURING_CAPTURE()                                                                    \
    do {                                                                                           \
        if (fake_is_set("FAKE_CUDA_CAPTURING") && capture_mode != VW__CUDA_CAPTURE_MODE_RELAXED)   \
            return CAPTURE_UNSUPPORTED;                                                            \
    } while (0)

EXPORT void fake_cuda_get_state(fake_cuda_state *out);
void fake_cuda_get_state(fake_cuda_state *out)
{
    pthread_mutex_lock(&fake_lock);
    *out = fake_state;
    for (int i = 0; i < FAKE_CUDA_MOST_DEVICES; i++) {
        out->retain_count += fake_primaries[i].retain_count;
        out->used_bytes += fake_primaries[i].used_bytes;
        out->device_used_bytes[i] = fake_primaries[i].used_bytes;
    }
    pthread_mutex_unlock(&fake_lock);
    out->context_depth = context_depth;
    out->capture_mode = capture_mode;
}

DRIVER(cuCtxGetCurrent, (vw__cuda_context * out))
{
    OBEY_ORDERS();
    *out = fake_current_context();
    return SUCCESS;
}

DRIVER(cuCtxPushCurrent_v2, (vw__cuda_context context))
{
    OBEY_ORDERS();
    if (context == NULL || context_depth == (int)(sizeof context_stack / sizeof *context_stack))
        return INVALID_CONTEXT;
    context_stack[context_depth++] = context;
    pthread_mutex_lock(&fake_lock);
    fake_state.push_count++;
    pthread_mutex_unlock(&fake_lock);
    return SUCCESS;
}

DRIVER(cuCtxPopCurrent_v2, (vw__cuda_context * out))
{
    OBEY_ORDERS();
    if (context_depth == 0)
        return INVALID_CONTEXT;
    *out = context_stack[--context_depth];
    pthread_mutex_lock(&fake_lock);
    fake_state.pop_count++;
    pthread_mutex_unlock(&fake_lock);
    return SUCCESS;
}

/* FAKE_CUDA_BUSY_MS says for how long work still runs. */
DRIVER(cuCtxSynchronize, (void))
{
    OBEY_ORDERS_IN_CONTEXT();
    const char *busy_ms = getenv("FAKE_CUDA_BUSY_MS");
    if (busy_ms != NULL)
        usleep((useconds_t)atoi(busy_ms) * 1000);
    pthread_mutex_lock(&fake_lock);
    fake_state.synchronize_count[fake_current_context() - fake_primaries]++;
    pthread_mutex_unlock(&fake_lock);
    return SUCCESS;
}

DRIVER(cuDevicePrimaryCtxGetState, (int device, unsigned *flags, int *is_active))
{
    OBEY_ORDERS();
    int behind = fake_device_behind(device);
    if (behind < 0)
        return INVALID_DEVICE;
    pthread_mutex_lock(&fake_lock);
    *flags = 0;
    *is_active = fake_primaries[behind].retain_count > 0;
    pthread_mutex_unlock(&fake_lock);
    return SUCCESS;
}

DRIVER(cuDevicePrimaryCtxRetain, (vw__cuda_context * out, int device))
{
    OBEY_ORDERS();
    int behind = fake_device_behind(device);
    if (behind < 0)
        return INVALID_DEVICE;
    pthread_mutex_lock(&fake_lock);
    fake_primaries[behind].retain_count++;
    pthread_mutex_unlock(&fake_lock);
    *out = &fake_primaries[behind];
    return SUCCESS;
}

static int release_primary(int device)
{
    int result = INVALID_CONTEXT, behind = fake_device_behind(device);
    pthread_mutex_lock(&fake_lock);
    if (behind >= 0 && fake_primaries[behind].retain_count > 0) {
        fake_primaries[behind].retain_count--;
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

#ifdef FAKE_CUDA_OLD
DRIVER(cuDevicePrimaryCtxRelease, (int device))
#else
DRIVER(cuDevicePrimaryCtxRelease_v2, (int device))
#endif
{
    OBEY_ORDERS();
    return release_primary(device);
}

/* ---- the driver and its devices -------------------------------------------------------------- */

int fake_device_count(void)
{
    const char *count = getenv("FAKE_CUDA_DEVICE_COUNT");
    int devices = count != NULL ? atoi(count) : FAKE_CUDA_DEVICES;
    if (devices < 0 || devices > FAKE_CUDA_MOST_DEVICES)
        abort();
    return devices;
}

/* What an entry of CUDA_VISIBLE_DEVICES names: a number, or the beginning of one UUID only. */
static int device_named(const char *entry, size_t length)
{
    char *end = NULL;
    long number = strtol(entry, &end, 10);
    if (end != entry)
        return end == entry + length && number < fake_device_count() ? (int)number : -1;
    int found = -1;
    for (int i = 0; i < fake_device_count(); i++) {
        char uuid[64];
        snprintf(uuid, sizeof uuid, "GPU-%d%d%d%d", i, i, i, i);
        if (length < 4 || strncmp(entry, uuid, length) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = i;
    }
    return found;
}

/* An entry that names nothing ends the list, and a device that is named twice empties it. */
static int list_visible(int devices[FAKE_CUDA_MOST_DEVICES])
{
    const char *entry = getenv("CUDA_VISIBLE_DEVICES");
    int count = 0;
    if (entry == NULL || !fake_is_set("FAKE_CUDA_DEVICE_COUNT")) {
        for (; count < fake_device_count(); count++)
            devices[count] = count;
        return count;
    }
    for (;;) {
        size_t length = strcspn(entry, ",");
        int named = device_named(entry, length);
        if (named < 0)
            return count;
        for (int i = 0; i < count; i++)
            if (devices[i] == named)
                return 0;
        devices[count++] = named;
        if (entry[length] == '\0')
            return count;
        entry += length + 1;
    }
}

int fake_device_behind(int device)
{
    int devices[FAKE_CUDA_MOST_DEVICES];
    return device >= 0 && device < list_visible(devices) ? devices[device] : -1;
}

void fake_bus_id(char *id, size_t id_bytes, int machine_device)
{
    snprintf(id, id_bytes, "0000:3%d:00.0", machine_device);
}

DRIVER(cuInit, (unsigned flags))
{
    OBEY_ORDERS();
    if (flags != 0)
        return INVALID_VALUE;
    return fake_device_behind(0) >= 0 ? SUCCESS : VW__CUDA_ERROR_NO_DEVICE;
}

DRIVER(cuDriverGetVersion, (int *version))
{
    *version = 13000;
    return SUCCESS;
}

static const struct known_error {
    int number;
    const char *name, *text;
} known_errors[] = {
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {VW__CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
};

static const struct known_error *find_error(int number)
{
    for (size_t i = 0; i < sizeof known_errors / sizeof known_errors[0]; i++)
        if (known_errors[i].number == number)
            return &known_errors[i];
    return NULL;
}

DRIVER(cuGetErrorName, (int number, const char **out))
{
    const struct known_error *error = find_error(number);
    *out = error != NULL ? error->name : NULL;
    return error != NULL ? SUCCESS : INVALID_VALUE;
}

DRIVER(cuGetErrorString, (int number, const char **out))
{
    const struct known_error *error = find_error(number);
    *out = error != NULL ? error->text : NULL;
    return error != NULL ? SUCCESS : INVALID_VALUE;
}

DRIVER(cuDeviceGetCount, (int *count))
{
    OBEY_ORDERS();
    int devices[FAKE_CUDA_MOST_DEVICES];
    *count = list_visible(devices);
    return SUCCESS;
}

DRIVER(cuDeviceGet, (int *device, int index))
{
    OBEY_ORDERS();
    if (fake_device_behind(index) < 0)
        return INVALID_DEVICE;
    *device = index;
    return SUCCESS;
}

DRIVER(cuDeviceGetName, (char *name, int name_bytes, int device))
{
    OBEY_ORDERS();
    snprintf(name, (size_t)name_bytes, "Fake GPU %d", fake_device_behind(device));
    return SUCCESS;
}

DRIVER(cuDeviceGetPCIBusId, (char *id, int id_bytes, int device))
{
    OBEY_ORDERS();
    fake_bus_id(id, (size_t)id_bytes, fake_device_behind(device));
    return SUCCESS;
}

DRIVER(cuDeviceTotalMem_v2, (size_t * total_bytes, int device))
{
    OBEY_ORDERS();
    (void)device;
    *total_bytes = FAKE_CUDA_TOTAL_BYTES;
    return SUCCESS;
}

DRIVER(cuDeviceGetAttribute, (int *value, int attribute, int device))
{
    OBEY_ORDERS();
    if (fake_device_behind(device) < 0)
        return INVALID_DEVICE;
    if (attribute == VW__CUDA_HAS_VIRTUAL_MEMORY) {
        *value = !fake_is_set("FAKE_CUDA_WITHOUT_VIRTUAL");
        return SUCCESS;
    }
    if (attribute == VW__CUDA_HAS_DIRECT_RDMA_WITH_VIRTUAL) {
        *value = !fake_is_set("FAKE_CUDA_WITHOUT_RDMA");
        return SUCCESS;
    }
    if (attribute == VW__CUDA_NEAREST_HOST_NODE) {
        *value = fake_is_set("FAKE_CUDA_WITHOUT_HOST_NODES") ? -1 : FAKE_CUDA_HOST_NODE;
        return SUCCESS;
    }
    if (attribute == VW__CUDA_HAS_FILE_DESCRIPTOR_HANDLES) {
        *value = !fake_is_set("FAKE_CUDA_WITHOUT_SHARING");
        return SUCCESS;
    }
    if (attribute == VW__CUDA_HAS_DMA_BUF) {
        *value = !fake_is_set("FAKE_CUDA_WITHOUT_DMA_BUF");
        return SUCCESS;
    }
    return INVALID_VALUE;
}

bool fake_can_reach(int one, int other)
{
    const char *island = getenv("FAKE_CUDA_ISLAND");
    int size = island != NULL ? atoi(island) : FAKE_CUDA_MOST_DEVICES;
    return !fake_is_set("FAKE_CUDA_WITHOUT_PEERS") && one / size == other / size;
}

DRIVER(cuDeviceCanAccessPeer, (int *can_access, int device, int peer))
{
    OBEY_ORDERS();
    int one = fake_device_behind(device), other = fake_device_behind(peer);
    if (one < 0 || other < 0)
        return INVALID_DEVICE;
    *can_access = one != other && fake_can_reach(one, other);
    return SUCCESS;
}

/* ---- what is held ---------------------------------------------------------------------------- */

static fake_range *plain_ranges, *host_ranges; /* guarded by fake_lock */

fake_range *fake_range_add(fake_range **list, uintptr_t start, size_t size_bytes)
{
    fake_range *added = calloc(1, sizeof *added);
    if (added == NULL)
        abort();
    *added = (fake_range){
        .next = *list, .start = start, .size_bytes = size_bytes, .owner = fake_current_context()};
    *list = added;
    return added;
}

fake_range **fake_range_find(fake_range **list, uintptr_t start)
{
    while (*list != NULL && (*list)->start != start)
        list = &(*list)->next;
    return list;
}

void fake_range_drop(fake_range **link)
{
    fake_range *dropped = *link;
    *link = dropped->next;
    free(dropped);
}

/* What all processes of the machine use of each device, in the file of FAKE_CUDA_MACHINE; NULL:
 * this process is alone. A process that is killed leaves its share behind, unlike with a real
 * driver. */
static _Atomic size_t *machine_used_bytes;
static pthread_once_t machine_once = PTHREAD_ONCE_INIT;

static void find_machine(void)
{
    const char *path = getenv("FAKE_CUDA_MACHINE");
    if (path == NULL)
        return;
    size_t size_bytes = FAKE_CUDA_MOST_DEVICES * sizeof *machine_used_bytes;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, (off_t)size_bytes) != 0)
        abort();
    void *shared = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED)
        abort();
    close(file);
    machine_used_bytes = shared;
}

static size_t used_by_all(vw__cuda_context context)
{
    pthread_once(&machine_once, find_machine);
    return machine_used_bytes != NULL ? machine_used_bytes[context - fake_primaries]
                                      : context->used_bytes;
}

bool fake_charge(size_t size_bytes)
{
    vw__cuda_context context = fake_current_context();
    size_t used = used_by_all(context);
    do {
        if (size_bytes > FAKE_CUDA_TOTAL_BYTES - used)
            return false;
    } while (machine_used_bytes != NULL &&
             !atomic_compare_exchange_weak(&machine_used_bytes[context - fake_primaries], &used,
                                           used + size_bytes));
    context->used_bytes += size_bytes;
    return true;
}

void fake_discharge(vw__cuda_context context, size_t size_bytes)
{
    context->used_bytes -= size_bytes;
    if (machine_used_bytes != NULL)
        machine_used_bytes[context - fake_primaries] -= size_bytes;
}

uintptr_t fake_map_anonymous(size_t size_bytes, int protection)
{
    void *address =
        mmap(NULL, size_bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED)
        abort();
    return (uintptr_t)address;
}

/* ---- plain and host memory ------------------------------------------------------------------- */

static void count_held(int more)
{
    pthread_mutex_lock(&fake_lock);
    fake_state.held_count += more;
    pthread_mutex_unlock(&fake_lock);
}

static void wait_while_held(void)
{
    const char *file = getenv("FAKE_CUDA_HOLD");
    if (file == NULL || access(file, F_OK) != 0)
        return;
    count_held(1);
    while (access(file, F_OK) == 0)
        usleep(1000);
    count_held(-1);
}

DRIVER(cuMemGetInfo_v2, (size_t * free_bytes, size_t *total_bytes))
{
    OBEY_ORDERS_IN_CONTEXT();
    wait_while_held();
    pthread_mutex_lock(&fake_lock);
    *free_bytes = FAKE_CUDA_TOTAL_BYTES - used_by_all(fake_current_context());
    pthread_mutex_unlock(&fake_lock);
    *total_bytes = FAKE_CUDA_TOTAL_BYTES;
    return SUCCESS;
}

DRIVER(cuMemAlloc_v2, (vw__cuda_ptr * out, size_t size_bytes))
{
    OBEY_ORDERS_IN_CONTEXT();
    REFUSE_DURING_CAPTURE();
    int result = size_bytes == 0 ? INVALID_VALUE : OUT_OF_MEMORY;
    pthread_mutex_lock(&fake_lock);
    if (size_bytes != 0 && fake_charge(size_bytes)) {
        *out = fake_map_anonymous(size_bytes, PROT_READ | PROT_WRITE);
        fake_range_add(&plain_ranges, (uintptr_t)*out, size_bytes);
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

DRIVER(cuMemFree_v2, (vw__cuda_ptr address))
{
    OBEY_ORDERS_IN_CONTEXT();
    REFUSE_DURING_CAPTURE();
    int result = INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    fake_range **link = fake_range_find(&plain_ranges, (uintptr_t)address);
    if (*link != NULL) {
        fake_discharge((*link)->owner, (*link)->size_bytes);
        munmap((void *)(uintptr_t)address, (*link)->size_bytes);
        fake_range_drop(link);
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

DRIVER(cuMemHostAlloc, (void **out, size_t size_bytes, unsigned flags))
{
    OBEY_ORDERS_IN_CONTEXT();
    pthread_mutex_lock(&fake_lock);
    fake_state.host_flags = flags;
    uintptr_t address = fake_map_anonymous(size_bytes, PROT_READ | PROT_WRITE);
    fake_range_add(&host_ranges, address, size_bytes);
    pthread_mutex_unlock(&fake_lock);
    *out = (void *)address;
    return SUCCESS;
}

DRIVER(cuMemFreeHost, (void *address))
{
    OBEY_ORDERS_IN_CONTEXT();
    int result = INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    fake_range **link = fake_range_find(&host_ranges, (uintptr_t)address);
    if (*link != NULL) {
        munmap(address, (*link)->size_bytes);
        fake_range_drop(link);
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

static fake_range *registered_ranges; /* guarded by fake_lock */

#ifdef FAKE_CUDA_OLD
DRIVER(cuMemHostRegister, (void *address, size_t size_bytes, unsigned flags))
#else
DRIVER(cuMemHostRegister_v2, (void *address, size_t size_bytes, unsigned flags))
#endif
{
    OBEY_ORDERS_IN_CONTEXT();
    if (address == NULL || size_bytes == 0 || flags != 0)
        return INVALID_VALUE;
    int result = ALREADY_REGISTERED;
    pthread_mutex_lock(&fake_lock);
    if (*fake_range_find(&registered_ranges, (uintptr_t)address) == NULL) {
        fake_range_add(&registered_ranges, (uintptr_t)address, size_bytes);
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

DRIVER(cuMemHostUnregister, (void *address))
{
    OBEY_ORDERS_IN_CONTEXT();
    int result = NOT_REGISTERED;
    pthread_mutex_lock(&fake_lock);
    fake_range **link = fake_range_find(&registered_ranges, (uintptr_t)address);
    if (*link != NULL) {
        fake_range_drop(link);
        result = SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

DRIVER(cuMemcpyHtoD_v2, (vw__cuda_ptr to, const void *from, size_t size_bytes))
{
    OBEY_ORDERS_IN_CONTEXT();
    memcpy((void *)(uintptr_t)to, from, size_bytes);
    return SUCCESS;
}

DRIVER(cuMemcpyDtoH_v2, (void *to, vw__cuda_ptr from, size_t size_bytes))
{
    OBEY_ORDERS_IN_CONTEXT();
    memcpy(to, (const void *)(uintptr_t)from, size_bytes);
    return SUCCESS;
}

DRIVER(cuMemcpyDtoDAsync_v2,
       (vw__cuda_ptr to, vw__cuda_ptr from, size_t size_bytes, vw__cuda_stream stream))
{
    OBEY_ORDERS_IN_CONTEXT();
    (void)stream;
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size_bytes);
    return SUCCESS;
}

DRIVER(cuMemsetD8Async,
       (vw__cuda_ptr to, unsigned char value, size_t size_bytes, vw__cuda_stream stream))
{
    OBEY_ORDERS_IN_CONTEXT();
    (void)stream;
    memset((void *)(uintptr_t)to, value, size_bytes);
    return SUCCESS;
}

/* ---- streams and events: work is done when it is queued -------------------------------------- */

/* Each belongs to the context in which it was made, and goes with no other. */
static fake_range *streams, *events; /* guarded by fake_lock */

static int make_named(fake_range **list, void **out)
{
    *out = malloc(1);
    if (*out == NULL)
        return OUT_OF_MEMORY;
    fake_range_add(list, (uintptr_t)*out, 1);
    return SUCCESS;
}

static int end_named(fake_range **list, void *named)
{
    pthread_mutex_lock(&fake_lock);
    fake_range **link = fake_range_find(list, (uintptr_t)named);
    bool is_known = *link != NULL;
    if (is_known)
        fake_range_drop(link);
    pthread_mutex_unlock(&fake_lock);
    if (is_known)
        free(named);
    return is_known ? SUCCESS : INVALID_HANDLE;
}

/* NULL: there is no such. */
static vw__cuda_context owner_of(fake_range **list, const void *named)
{
    pthread_mutex_lock(&fake_lock);
    fake_range *found = *fake_range_find(list, (uintptr_t)named);
    vw__cuda_context owner = found != NULL ? found->owner : NULL;
    pthread_mutex_unlock(&fake_lock);
    return owner;
}

static vw__cuda_context context_of_stream(vw__cuda_stream stream)
{
    return stream != NULL ? owner_of(&streams, stream) : fake_current_context();
}

DRIVER(cuStreamCreate, (vw__cuda_stream * out, unsigned flags))
{
    OBEY_ORDERS_IN_CONTEXT();
    void *made = NULL;
    pthread_mutex_lock(&fake_lock);
    int result = make_named(&streams, &made);
    fake_state.stream_flags = flags;
    pthread_mutex_unlock(&fake_lock);
    *out = made;
    return result;
}

DRIVER(cuStreamDestroy_v2, (vw__cuda_stream stream))
{
    OBEY_ORDERS_IN_CONTEXT();
    return end_named(&streams, stream);
}

DRIVER(cuStreamSynchronize, (vw__cuda_stream stream))
{
    OBEY_ORDERS_IN_CONTEXT();
    return context_of_stream(stream) != NULL ? SUCCESS : INVALID_HANDLE;
}

DRIVER(cuStreamWaitEvent, (vw__cuda_stream stream, vw__cuda_event event, unsigned flags))
{
    OBEY_ORDERS_IN_CONTEXT();
    if (context_of_stream(stream) == NULL || owner_of(&events, event) == NULL)
        return INVALID_HANDLE; /* of different contexts is well: that is what it is for */
    return flags == 0 ? SUCCESS : INVALID_VALUE;
}

DRIVER(cuEventCreate, (vw__cuda_event * out, unsigned flags))
{
    OBEY_ORDERS_IN_CONTEXT();
    void *made = NULL;
    pthread_mutex_lock(&fake_lock);
    int result = make_named(&events, &made);
    fake_state.event_flags = flags;
    pthread_mutex_unlock(&fake_lock);
    *out = made;
    return result;
}

DRIVER(cuEventDestroy_v2, (vw__cuda_event event))
{
    OBEY_ORDERS_IN_CONTEXT();
    return end_named(&events, event);
}

DRIVER(cuEventRecord, (vw__cuda_event event, vw__cuda_stream stream))
{
    OBEY_ORDERS_IN_CONTEXT();
    vw__cuda_context owner = owner_of(&events, event);
    return owner != NULL && owner == context_of_stream(stream) ? SUCCESS : INVALID_HANDLE;
}

#if !defined(FAKE_CUDA_OLD) && !defined(FAKE_HIP)
DRIVER(cuCtxRecordEvent, (vw__cuda_context context, vw__cuda_event event))
{
    OBEY_ORDERS();
    REFUSE_DURING_CAPTURE();
    return context != NULL && owner_of(&events, event) == context ? SUCCESS : INVALID_HANDLE;
}
#endif

DRIVER(cuEventQuery, (vw__cuda_event event))
{
    OBEY_ORDERS_IN_CONTEXT();
    REFUSE_DURING_CAPTURE();
    return owner_of(&events, event) != NULL ? SUCCESS : INVALID_HANDLE;
}

DRIVER(cuEventSynchronize, (vw__cuda_event event))
{
    OBEY_ORDERS_IN_CONTEXT();
    return owner_of(&events, event) != NULL ? SUCCESS : INVALID_HANDLE;
}

#ifndef FAKE_CUDA_OLD
DRIVER(cuStreamIsCapturing, (vw__cuda_stream stream, int *status))
{
    OBEY_ORDERS_IN_CONTEXT();
    (void)stream;
    *status = fake_is_set("FAKE_CUDA_CAPTURING");
    return SUCCESS;
}

struct vw__cuda_node_ {
    int parent_count;
};
static struct vw__cuda_node_ nodes[3] = {{0}, {0}, {2}};

DRIVER(cuStreamGetCaptureInfo_v2,
       (vw__cuda_stream stream, int *status, unsigned long long *id, vw__cuda_graph *graph,
        const vw__cuda_node **terminals, size_t *count))
{
    static const vw__cuda_node last = &nodes[2];
    OBEY_ORDERS_IN_CONTEXT();
    if (context_of_stream(stream) == NULL)
        return INVALID_HANDLE;
    *status = fake_is_set("FAKE_CUDA_CAPTURING") ? fake_is_set("FAKE_CUDA_SPOILT") + 1 : 0;
    if (*status != 1)
        return SUCCESS; /* and the rest is left alone */
    *id = FAKE_CUDA_CAPTURE;
    *graph = NULL;
    *terminals = &last;
    *count = 1;
    return SUCCESS;
}

DRIVER(cuGraphNodeGetDependencies, (vw__cuda_node node, vw__cuda_node *parents, size_t *count))
{
    OBEY_ORDERS_IN_CONTEXT();
    if (node != &nodes[0] && node != &nodes[1] && node != &nodes[2])
        return INVALID_VALUE;
    if (parents == NULL || *count > (size_t)node->parent_count)
        *count = (size_t)node->parent_count;
    for (size_t i = 0; parents != NULL && i < *count; i++)
        parents[i] = &nodes[i];
    return SUCCESS;
}

DRIVER(cuThreadExchangeStreamCaptureMode, (int *mode))
{
    OBEY_ORDERS();
    int previous = capture_mode;
    capture_mode = *mode;
    *mode = previous;
    return SUCCESS;
}
#endif /* FAKE_CUDA_OLD */
