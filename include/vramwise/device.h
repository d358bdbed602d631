/* device.h - devices: who owns memory, and the table of functions through which pools ask for it.
 *
 * Words: a device owns memory. *Plain* memory is taken and given back in one piece at an address
 * the device chooses. *Virtual* memory separates the two: addresses are reserved, physical memory
 * is created as handles, and a handle is mapped at one or several reserved addresses. An event
 * marks a point in a stream's work.
 *
 * Four devices come with the library: vw_cuda_device_open() (a GPU, through its driver),
 * vw_hip_device_open() (the same for AMD, untested on hardware), vw_host_device_create() (real
 * bytes behind mmap, with the same mapping rules) and vw_simulated_device_create() (arithmetic
 * only). To add your own, fill a vw_device: it must pass tests/contract/device_contract.c.
 *
 * Preconditions, stated once. The caller must keep them, and the engines do. The host and simulated
 * devices check them and return VW_ERR_INVALID_ARGUMENT; a driver returns what it likes:
 *   - sizes are not zero; sizes of handles and of reservations, and mapped addresses, are
 *     multiples of properties.granularity_bytes
 *   - map() covers one whole handle, inside one reservation, where nothing is mapped
 *   - unmap() covers whole mappings; everything in its range is mapped
 *   - set_access() covers whole mappings; a fresh mapping cannot be touched before it
 *   - release() may come while a handle is mapped: the memory goes when the last mapping does
 *   - unreserve() names a whole reservation in which nothing is mapped
 *
 * Results:
 *   VW_OK
 *   VW_ERR_OUT_OF_MEMORY   the device has no room for what was asked, and nothing else
 *   VW_ERR_DEVICE          every other refusal; vw_last_error() has the driver's code and text
 *   VW_ERR_HOST_MEMORY
 *   VW_ERR_UNSUPPORTED     as the properties say
 * A call that fails changes nothing, and leaves its out-parameters alone.
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
typedef uint64_t vw_graph_node;   /* work in a graph that is being captured; 0 = none */

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
    bool has_dma_buf;           /* export_dma_buf works */
} vw_device_properties;

/* One process's use of the device's memory. */
typedef struct vw_process_memory {
    uint64_t used_bytes; /* UINT64_MAX: unknown to the driver */
    uint32_t pid;
    bool is_this_process;
} vw_process_memory;

/* The functions of a device. `context` is vw_device.context. */
typedef struct vw_device_table {
    size_t struct_size; /* sizeof(vw_device_table); fields that a shorter table lacks are NULL; the
                           fields up to memory_info are required */

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
     * VW_OK or VW_ERR_NOT_READY (not a failure: vw_last_error() is left alone).
     * stream_wait_event() makes the stream wait for the latest recording of the event before the
     * call; recording it again, or destroying it, changes nothing. */
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
     * Without has_bytes, write() and read() are VW_ERR_UNSUPPORTED, and fill() and copy() check
     * their arguments but move no data. copy() also takes addresses in page-locked memory of the
     * host. */
    vw_status (*write)(void *context, vw_device_ptr to, const void *from, uint64_t size_bytes);
    vw_status (*read)(void *context, void *to, vw_device_ptr from, uint64_t size_bytes);
    vw_status (*fill)(void *context, vw_device_ptr to, uint8_t value, uint64_t size_bytes,
                      vw_stream stream);
    vw_status (*copy)(void *context, vw_device_ptr to, vw_device_ptr from, uint64_t size_bytes,
                      vw_stream stream);

    /* Page-locked host memory. host_register() locks memory that the caller already has. */
    vw_status (*host_take)(void *context, uint64_t size_bytes, void **out);
    vw_status (*host_give_back)(void *context, void *address);
    vw_status (*host_register)(void *context, void *address, uint64_t size_bytes);
    vw_status (*host_unregister)(void *context, void *address);

    /* Free and total bytes of the device as it is now, other processes' use included. */
    vw_status (*memory_info)(void *context, uint64_t *free_bytes, uint64_t *total_bytes);

    /* The processes on the device. Stores at most `capacity` entries, and the number of processes
     * in `*count`. NULL or VW_ERR_UNSUPPORTED if unknown. */
    vw_status (*processes)(void *context, vw_process_memory *entries, size_t capacity,
                           size_t *count);

    /* Ends the device. Everything taken from it must have been given back. */
    void (*destroy)(void *context);

    /* create_shareable(): as create(), for memory that can be shared with another process.
     * export_handle(): a file descriptor for a handle that was not released; the caller closes it.
     * The memory lives as long as any process has it. Handles from create() cannot be exported.
     * NULL or VW_ERR_UNSUPPORTED without has_shareable_handles. */
    vw_status (*create_shareable)(void *context, uint64_t size_bytes, vw_handle *out);
    vw_status (*export_handle)(void *context, vw_handle handle, int *file_descriptor);

    /* The other side: a handle for memory of another process, or of this one, to be mapped and
     * released like one from create(). The caller may close the descriptor at once. `size_bytes` is
     * the size that the handle was created with. The memory counts as used by its creator. NULL or
     * VW_ERR_UNSUPPORTED as above. */
    vw_status (*import_handle)(void *context, int file_descriptor, uint64_t size_bytes,
                               vw_handle *out);

    /* With is_allowed, set_access() from now on also opens mappings to device `peer_index`; each
     * call without takes one such call back. Mappings that are open stay open until they are
     * unmapped. The device's own index changes nothing. NULL or VW_ERR_UNSUPPORTED if there are no
     * peers, or this one cannot reach the device's memory; VW_ERR_INVALID_ARGUMENT for an unknown
     * index. */
    vw_status (*allow_peer)(void *context, int peer_index, bool is_allowed);

    /* As create(), for page-locked host memory nearest to the device. It is mapped, copied and
     * released like any other handle, and the device reaches it over the bus; it takes no device
     * memory. Slow: a third of a millisecond per MiB. VW_ERR_HOST_MEMORY if the host has no room.
     * NULL or VW_ERR_UNSUPPORTED without has_host_handles. */
    vw_status (*create_on_host)(void *context, uint64_t size_bytes, vw_handle *out);

    /* Graphs that are being captured. stream_capture_nodes(): the number of the capture that
     * `stream` is part of, 0 if none, and the nodes which its next work will wait for.
     * graph_node_parents(): the nodes that `node` waits for. Both store at most `capacity` nodes,
     * and in `*count` how many there are. NULL, or a failure of any kind: unknown. */
    vw_status (*stream_capture_nodes)(void *context, vw_stream stream, uint64_t *capture,
                                      vw_graph_node *nodes, size_t capacity, size_t *count);
    vw_status (*graph_node_parents)(void *context, vw_graph_node node, vw_graph_node *parents,
                                    size_t capacity, size_t *count);

    /* A file descriptor for a dma-buf of this range, which drivers of other devices can read and
     * write: network cards, storage. The caller closes it, and keeps the memory where it is until
     * then. The range is whole pages of the host, and lies in plain memory that was taken in one
     * piece, or in one mapping with access. NULL or VW_ERR_UNSUPPORTED without has_dma_buf. */
    vw_status (*export_dma_buf)(void *context, vw_device_ptr address, uint64_t size_bytes,
                                int *file_descriptor);

    /* As event_record(), behind all that this process has queued on the device so far, on every
     * stream. A stream that waits for the event is behind all of that, and nobody else waits. NULL
     * or VW_ERR_UNSUPPORTED where the driver is older than CUDA 12.5. */
    vw_status (*event_record_all)(void *context, vw_device_event event);
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
 * context (the one PyTorch and the CUDA runtime use). Tries out virtual memory on one granule, and
 * gives it back: what the driver refuses is false in the properties (has_virtual_memory,
 * has_rdma_handles, has_shareable_handles, has_host_handles), and the calls say why. has_dma_buf is
 * the driver's word: the kernel may refuse each export.
 *
 * VW_ERR_NO_DEVICE      no driver library, no such device; vw_last_error() says what was tried
 * VW_ERR_OUT_OF_MEMORY  no room for the context
 * VW_ERR_DEVICE         the driver refused otherwise
 * VW_ERR_HOST_MEMORY, VW_ERR_INVALID_ARGUMENT */
VW_API VW_MUST_CHECK vw_status vw_cuda_device_open(int index, vw_device **out);

/* The same for AMD GPU `index`, through the HIP runtime that the process has loaded, or that is
 * found on this machine (VRAMWISE_HIP_DRIVER names another library). UNTESTED ON HARDWARE: it
 * passes the device contract on a stand-in library, and no AMD GPU has run it. Virtual memory needs
 * ROCm 6.0 or newer; has_shareable_handles, has_rdma_handles, has_host_handles and has_dma_buf are
 * false, so such a pool cannot spill; processes() is VW_ERR_UNSUPPORTED. */
VW_API VW_MUST_CHECK vw_status vw_hip_device_open(int index, vw_device **out);

/* ---- host memory with the same rules --------------------------------------------------------- */

/* A device of `capacity_bytes` whose memory is real host memory (memfd and mmap). Device
 * addresses are host addresses: a test may dereference them, and touching a page that is not
 * mapped, or has no access yet, is a fault. Events complete at once unless streams are held
 * (below). */
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

/* `options` may be NULL. Made-up addresses fall for plain memory and rise for reservations, as a
 * GPU's mostly do (it matters: PyTorch breaks ties by address). */
VW_API VW_MUST_CHECK vw_status vw_simulated_device_create(const vw_simulated_options *options,
                                                          vw_device **out);

/* The next take() or reserve() returns `address`; several calls queue up, one for each.
 * VW_ERR_INVALID_ARGUMENT for a device that is not simulated. */
VW_API VW_MUST_CHECK vw_status vw_simulated_dictate_address(vw_device *device,
                                                            vw_device_ptr address);

/* ---- for tests: simulated and host devices --------------------------------------------------- */

/* For any other device these return VW_ERR_INVALID_ARGUMENT. Calls that write, read or fill bytes,
 * end events, list processes, allow peers or export handles are not counted and cannot be made to
 * fail. They make no dma-buf. create_shareable() and import_handle() count as create().
 * set_access() and copy() count as ACCESS_ON_HOST and COPY_ON_HOST if they touch memory from
 * create_on_host(). */

/* The calls so far, failed ones included. */
typedef struct vw_device_calls {
    uint64_t count[VW_DEVICE_CALL_KINDS];
    uint64_t elapsed_ns;     /* what they cost; simulated device only */
    uint64_t longest_ns;     /* the longest single call */
    uint64_t in_use_bytes;   /* plain memory and handles held now, except those on the host */
    uint64_t peak_use_bytes; /* highest in_use_bytes so far */
} vw_device_calls;

VW_API VW_MUST_CHECK vw_status vw_device_get_calls(const vw_device *device, vw_device_calls *out);

/* The device's counter of elapsed_ns, to be read after each call: valid as long as the device, and
 * readable only while no call is in progress. NULL for any other device. */
VW_API const uint64_t *vw_device_elapsed_counter(const vw_device *device);

/* Makes the `nth` call from now (1 = the next) fail with `status` and change nothing; later calls
 * work. nth = 0 cancels this. Calls of every kind count. */
VW_API VW_MUST_CHECK vw_status vw_device_fail_call(vw_device *device, uint64_t nth,
                                                   vw_status status);

/* From now on every call fails with VW_ERR_DEVICE, as after a GPU has fallen off the bus. */
VW_API VW_MUST_CHECK vw_status vw_device_lose(vw_device *device);

/* Changes how much can be held from now on; what is held already stays. */
VW_API VW_MUST_CHECK vw_status vw_device_set_capacity(vw_device *device, uint64_t capacity_bytes);

/* While streams are held, events recorded on any stream stay incomplete until
 * vw_device_complete(stream), a synchronize, or the end of the hold. If a stream waits for an event
 * of another, completing it runs it up to that wait, and further once the event is complete;
 * synchronizing with it completes what it waits for. Bytes still move at once. */
VW_API VW_MUST_CHECK vw_status vw_device_hold_streams(vw_device *device, bool is_held);
VW_API VW_MUST_CHECK vw_status vw_device_complete(vw_device *device, vw_stream stream);

/* Sets the answer of stream_is_capturing() for `stream`. As with a driver, an event that is
 * recorded there meanwhile is part of the graph: event_query() and event_synchronize() of it fail
 * until it is recorded elsewhere. And waiting for the stream or for the whole device fails, and so
 * does event_record_all(). */
VW_API VW_MUST_CHECK vw_status vw_device_set_capturing(vw_device *device, vw_stream stream,
                                                       bool is_capturing);

/* Sets the answers of stream_capture_nodes() for `stream`, until it is no longer capturing, and of
 * graph_node_parents() for `node`. Captures and nodes are made-up numbers, except 0. A capturing
 * stream of which nothing was said is part of capture 1 and has no nodes; such a node has no
 * parents. VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_device_set_capture_nodes(vw_device *device, vw_stream stream,
                                                           uint64_t capture,
                                                           const vw_graph_node *nodes,
                                                           size_t count);
VW_API VW_MUST_CHECK vw_status vw_device_set_node_parents(vw_device *device, vw_graph_node node,
                                                          const vw_graph_node *parents,
                                                          size_t count);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_DEVICE_H */
