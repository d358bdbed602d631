/* device.h - the device table: what owns memory, and how to ask it.
 *
 * Words: a device owns memory. *Plain* memory is taken and given back in one piece at an address
 * the device chooses. *Virtual* memory comes apart: addresses are reserved, physical memory is
 * created as handles, and a handle is mapped at a reserved address, perhaps at several at once.
 * An event marks a point in a stream's work.
 *
 * Three devices come with the library: vw_cuda_device_open() (a GPU, through its driver),
 * vw_host_device_create() (real bytes behind mmap, with the same mapping rules) and
 * vw_simulated_device_create() (arithmetic only). Bring your own by filling an vw_device: it must
 * pass tests/contract/device_contract.c.
 *
 * Preconditions, stated once. They are the caller's duty, and the engines keep them; the host and
 * simulated devices check them and answer VW_ERR_INVALID_ARGUMENT, a driver answers as it likes:
 *   - sizes are not zero; sizes of handles and of reservations, and mapped addresses, are
 *     multiples of properties.granularity_bytes
 *   - map() covers one whole handle, inside one reservation, where nothing is mapped
 *   - unmap() covers whole mappings, everything in its range being mapped
 *   - set_access() covers whole mappings; a fresh mapping cannot be touched before it
 *   - release() may come while a handle is mapped: the memory goes when the last mapping does
 *   - unreserve() names a whole reservation in which nothing is mapped
 *
 * Results: VW_OK; VW_ERR_OUT_OF_MEMORY only where the device has no room for what was asked;
 * VW_ERR_DEVICE for every other refusal, vw_last_error() then carrying the driver's own code and
 * text; VW_ERR_HOST_MEMORY; VW_ERR_UNSUPPORTED where properties say so. A call that fails changed
 * nothing, and its out-parameters keep their value.
 *
 * Every function may be called from any thread at any time, and never calls back into the caller.
 * None is called from a destructor at process exit or in a forked child. */
#ifndef VRAMWISE_DEVICE_H
#define VRAMWISE_DEVICE_H

#include <stdbool.h>
#include <stddef.h> /* size_t */
#include <stdint.h> /* uint64_t */

#include "vramwise/status.h" /* vw_status, VW_API, VW_MUST_CHECK */

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t vw_device_ptr;   /* an address on the device: never dereferenced on the host */
typedef uint64_t vw_stream;       /* the driver's stream handle, passed through; 0 = default */
typedef uint64_t vw_device_event; /* a device's event; 0 = none */
typedef uint64_t vw_handle;       /* physical memory without an address; 0 = none */

#define VW_NULL ((vw_device_ptr)0)

/* What a device is and can do. Set when it is made, then read-only. */
typedef struct vw_device_properties {
    char name[64];              /* "NVIDIA H200", "host", "simulated" */
    int index;                  /* the number users know it by; appears in messages */
    uint64_t total_bytes;       /* all of its memory, as PyTorch's totalGlobalMem */
    uint64_t granularity_bytes; /* of handles and mappings; 0 without virtual memory */
    bool has_virtual_memory;    /* reserve ... set_access work */
    bool has_bytes;             /* write, read, fill and copy move real data */
    bool has_pinned_memory;     /* host_take, host_give_back work */
    bool has_shareable_handles; /* create_shareable, export_handle work */
    bool has_rdma_handles;      /* handles can be read and written by a network card */
    bool has_host_handles;      /* create_on_host works */
} vw_device_properties;

/* One process's use of the device's memory. */
typedef struct vw_process_memory {
    uint64_t used_bytes; /* UINT64_MAX: the driver would not say */
    uint32_t pid;
    bool is_this_process;
} vw_process_memory;

/* The table. `context` is the device's own. */
typedef struct vw_device_table {
    size_t struct_size; /* sizeof(vw_device_table); newer fields of an older table count as NULL */

    /* Plain memory. Addresses are aligned to at least 512 bytes. give_back() may wait for work
     * that is queued on the device (cuMemFree does). */
    vw_status (*take)(void *context, uint64_t size_bytes, vw_device_ptr *out);
    vw_status (*give_back)(void *context, vw_device_ptr address);

    /* Virtual memory. */
    vw_status (*reserve)(void *context, uint64_t size_bytes, vw_device_ptr *out);
    vw_status (*unreserve)(void *context, vw_device_ptr address, uint64_t size_bytes);
    vw_status (*create)(void *context, uint64_t size_bytes, vw_handle *out);
    vw_status (*release)(void *context, vw_handle handle);
    vw_status (*map)(void *context, vw_device_ptr address, uint64_t size_bytes, vw_handle handle);
    vw_status (*unmap)(void *context, vw_device_ptr address, uint64_t size_bytes);
    vw_status (*set_access)(void *context, vw_device_ptr address, uint64_t size_bytes);

    /* Streams and events. An event that was never recorded is complete. event_query() answers
     * VW_OK or VW_ERR_NOT_READY (which is no failure and leaves vw_last_error() alone).
     * stream_wait_event() lets the stream go on when the event is complete as it was last recorded
     * before the call; what becomes of the event afterwards does not matter. */
    vw_status (*stream_create)(void *context, vw_stream *out);
    vw_status (*stream_destroy)(void *context, vw_stream stream);
    vw_status (*stream_synchronize)(void *context, vw_stream stream);
    vw_status (*stream_wait_event)(void *context, vw_stream stream, vw_device_event event);
    vw_status (*stream_is_capturing)(void *context, vw_stream stream, bool *out);
    vw_status (*event_create)(void *context, vw_device_event *out);
    vw_status (*event_destroy)(void *context, vw_device_event event);
    vw_status (*event_record)(void *context, vw_device_event event, vw_stream stream);
    vw_status (*event_query)(void *context, vw_device_event event);
    vw_status (*event_synchronize)(void *context, vw_device_event event);
    vw_status (*synchronize)(void *context); /* waits for everything on the device */

    /* Bytes. write() and read() are complete on return; fill() and copy() are queued on `stream`.
     * Without has_bytes write() and read() are VW_ERR_UNSUPPORTED, and fill() and copy() do all but
     * move data. */
    vw_status (*write)(void *context, vw_device_ptr to, const void *from, uint64_t size_bytes);
    vw_status (*read)(void *context, void *to, vw_device_ptr from, uint64_t size_bytes);
    vw_status (*fill)(void *context, vw_device_ptr to, uint8_t value, uint64_t size_bytes,
                      vw_stream stream);
    vw_status (*copy)(void *context, vw_device_ptr to, vw_device_ptr from, uint64_t size_bytes,
                      vw_stream stream);

    /* Page-locked host memory. host_register() locks memory the caller has already. */
    vw_status (*host_take)(void *context, uint64_t size_bytes, void **out);
    vw_status (*host_give_back)(void *context, void *address);
    vw_status (*host_register)(void *context, void *address, uint64_t size_bytes);
    vw_status (*host_unregister)(void *context, void *address);

    /* Free and total bytes of the device as it is now, other processes' use included. */
    vw_status (*memory_info)(void *context, uint64_t *free_bytes, uint64_t *total_bytes);

    /* Who uses the device. Stores at most `capacity` entries and the number there are. NULL or
     * VW_ERR_UNSUPPORTED where this cannot be known. */
    vw_status (*processes)(void *context, vw_process_memory *entries, size_t capacity,
                           size_t *count);

    /* Ends the device. Everything taken from it must have been given back. */
    void (*destroy)(void *context);

    /* As create(), for memory that can be handed to another process; and a file descriptor that
     * does so, the caller's to close, while the handle is not released. The memory then lives as
     * long as somebody has it. Handles from create() cannot be exported. NULL or VW_ERR_UNSUPPORTED
     * without has_shareable_handles. */
    vw_status (*create_shareable)(void *context, uint64_t size_bytes, vw_handle *out);
    vw_status (*export_handle)(void *context, vw_handle handle, int *file_descriptor);

    /* The other side: a handle for memory of another process, or of this one, to be mapped and
     * released as one from create(). The descriptor stays the caller's, and may be closed at once.
     * `size_bytes` is what the handle was created with. The memory counts as its creator's use.
     * NULL or VW_ERR_UNSUPPORTED as above. */
    vw_status (*import_handle)(void *context, int file_descriptor, uint64_t size_bytes,
                               vw_handle *out);

    /* From now on set_access() also opens mappings to device `peer_index`; or no longer, once it
     * was told so as often. What is open already stays so, until it is unmapped. The device's own
     * index changes nothing. NULL or VW_ERR_UNSUPPORTED where there are no peers, or this one
     * cannot reach the device's memory; VW_ERR_INVALID_ARGUMENT for an index that the device does
     * not know. */
    vw_status (*allow_peer)(void *context, int peer_index, bool is_allowed);

    /* As create(), for page-locked memory of the host, the nearest to the device: it is mapped,
     * copied and released as any other, and the device reaches it over the bus. It takes no memory
     * of the device. Slow: a third of a millisecond for a MiB. VW_ERR_HOST_MEMORY where the host
     * has no room. NULL or VW_ERR_UNSUPPORTED without has_host_handles. */
    vw_status (*create_on_host)(void *context, uint64_t size_bytes, vw_handle *out);
} vw_device_table;

/* A device. Filled by whoever makes it; read-only afterwards. */
typedef struct vw_device {
    const vw_device_table *table; /* borrowed, static */
    void *context;                /* the table's first argument */
    vw_device_properties properties;
} vw_device;

/* Ends a device made by one of the functions below; NULL does nothing. Pools on it must be gone. */
VW_API void vw_device_destroy(vw_device *device);

/* ---- a GPU ----------------------------------------------------------------------------------- */

/* Opens CUDA device `index` through the driver found on this machine, and retains its primary
 * context (the one PyTorch and the CUDA runtime use). What its virtual memory can do is tried out
 * on one granule, which is given back: where the driver refuses, has_virtual_memory is false (and
 * the calls say why), has_rdma_handles, has_shareable_handles, or has_host_handles.
 *
 * VW_ERR_NO_DEVICE      no driver library, no such device; vw_last_error() says what was tried
 * VW_ERR_OUT_OF_MEMORY  no room for the context
 * VW_ERR_DEVICE         the driver refused otherwise
 * VW_ERR_HOST_MEMORY, VW_ERR_INVALID_ARGUMENT */
VW_API VW_MUST_CHECK vw_status vw_cuda_device_open(int index, vw_device **out);

/* ---- host memory with the same rules --------------------------------------------------------- */

/* A device of `capacity_bytes` whose memory is real host memory (memfd and mmap). Device
 * addresses are host addresses: a test may dereference them, and touching a page that is not
 * mapped, or has no access yet, is a fault. Streams complete at once unless held (below). */
VW_API VW_MUST_CHECK vw_status vw_host_device_create(uint64_t capacity_bytes, vw_device **out);

/* ---- arithmetic only ------------------------------------------------------------------------- */

/* The kinds of call a simulated or host device counts, charges for and can fail. */
#define VW_DEVICE_CALL_LIST(X)                                                                     \
    X(TAKE, take)                                                                                  \
    X(GIVE_BACK, give_back)                                                                        \
    X(RESERVE, reserve)                                                                            \
    X(UNRESERVE, unreserve)                                                                        \
    X(CREATE, create)                                                                              \
    X(RELEASE, release)                                                                            \
    X(MAP, map)                                                                                    \
    X(UNMAP, unmap)                                                                                \
    X(SET_ACCESS, set_access)                                                                      \
    X(STREAM, stream)                                                                              \
    X(EVENT_CREATE, event_create)                                                                  \
    X(EVENT_RECORD, event_record)                                                                  \
    X(EVENT_QUERY, event_query)                                                                    \
    X(SYNCHRONIZE, synchronize)                                                                    \
    X(HOST_TAKE, host_take)                                                                        \
    X(HOST_GIVE_BACK, host_give_back)                                                              \
    X(MEMORY_INFO, memory_info)                                                                    \
    X(COPY, copy)                                                                                  \
    X(CREATE_ON_HOST, create_on_host)                                                              \
    X(ACCESS_ON_HOST, access_on_host)                                                              \
    X(COPY_ON_HOST, copy_on_host)

typedef enum vw_device_call {
#define VW__DEVICE_CALL_ENUM(upper, lower) VW_DEVICE_CALL_##upper,
    VW_DEVICE_CALL_LIST(VW__DEVICE_CALL_ENUM)
#undef VW__DEVICE_CALL_ENUM
        VW_DEVICE_CALL_KINDS
} vw_device_call;

/* What one call costs: `base_ns` plus `ns_per_gib` times its size (per handle where a call covers
 * several). */
typedef struct vw_call_cost {
    uint64_t base_ns;
    uint64_t ns_per_gib;
} vw_call_cost;

typedef struct vw_simulated_options {
    size_t struct_size;         /* sizeof(vw_simulated_options) */
    uint64_t capacity_bytes;    /* what can be taken and created; 0 = 80 GiB */
    uint64_t total_bytes;       /* what properties.total_bytes says; 0 = capacity_bytes */
    uint64_t granularity_bytes; /* 0 = 2 MiB */
    int index;                  /* properties.index */
    bool without_virtual_memory;
    bool manual_streams; /* events complete only by vw_device_complete() or a synchronize */
    bool has_costs;      /* use `costs`; otherwise the costs measured on an H200 */
    vw_call_cost costs[VW_DEVICE_CALL_KINDS];
} vw_simulated_options;

/* `options` may be NULL. Addresses it makes up descend for plain memory and ascend for
 * reservations, as a GPU's mostly do (it matters: PyTorch breaks ties by address). */
VW_API VW_MUST_CHECK vw_status vw_simulated_device_create(const vw_simulated_options *options,
                                                          vw_device **out);

/* The next take() or reserve() that is not yet promised an address returns `address`. Several
 * calls queue up. VW_ERR_INVALID_ARGUMENT for a device that is not simulated. */
VW_API VW_MUST_CHECK vw_status vw_simulated_dictate_address(vw_device *device,
                                                            vw_device_ptr address);

/* ---- for tests: simulated and host devices --------------------------------------------------- */

/* Any other device answers VW_ERR_INVALID_ARGUMENT to these. Calls that write, read or fill
 * bytes, end events, list processes, allow peers or export handles are of no kind: they are not
 * counted and cannot be scripted to fail. create_shareable() and import_handle() count as create().
 * set_access() and copy() count as ACCESS_ON_HOST and COPY_ON_HOST where memory from
 * create_on_host() is among what they touch. */

/* What a device has been asked so far, calls that failed included. */
typedef struct vw_device_calls {
    uint64_t count[VW_DEVICE_CALL_KINDS];
    uint64_t elapsed_ns;     /* what they cost; simulated device only */
    uint64_t longest_ns;     /* the dearest single call */
    uint64_t in_use_bytes;   /* plain memory and handles held now, but for those on the host */
    uint64_t peak_use_bytes; /* the most held at any moment */
} vw_device_calls;

VW_API VW_MUST_CHECK vw_status vw_device_get_calls(const vw_device *device, vw_device_calls *out);

/* Where the device counts elapsed_ns, for who wants to look at it after each call: valid as long as
 * the device, and to be read only while no call is in progress. NULL for any other device. */
VW_API const uint64_t *vw_device_elapsed_counter(const vw_device *device);

/* Makes the call number `nth` from now (1 = the next) fail with `status` and change nothing; every
 * later call works. nth = 0 takes an earlier order back. Calls of every kind count. */
VW_API VW_MUST_CHECK vw_status vw_device_fail_call(vw_device *device, uint64_t nth,
                                                   vw_status status);

/* From now on every call fails with VW_ERR_DEVICE, as after a GPU has fallen off the bus. */
VW_API VW_MUST_CHECK vw_status vw_device_lose(vw_device *device);

/* Changes how much can be held from now on; what is held already stays. */
VW_API VW_MUST_CHECK vw_status vw_device_set_capacity(vw_device *device, uint64_t capacity_bytes);

/* Streams that complete when told: while a device is held, events recorded on any stream stay
 * incomplete until vw_device_complete(stream), a synchronize, or the end of the hold. A stream that
 * waits for another's event runs up to there when it is completed, and on when the event is
 * complete; to synchronize with it completes what it waits for. Bytes are moved at once all the
 * same: a test that wants them late moves them itself. */
VW_API VW_MUST_CHECK vw_status vw_device_hold_streams(vw_device *device, bool is_held);
VW_API VW_MUST_CHECK vw_status vw_device_complete(vw_device *device, vw_stream stream);

/* Says what stream_is_capturing() answers for `stream`. */
VW_API VW_MUST_CHECK vw_status vw_device_set_capturing(vw_device *device, vw_stream stream,
                                                       bool is_capturing);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_DEVICE_H */
