/* cuda_driver_load.h - the functions of the CUDA driver, or of another with the same, at run time.
 *
 * We declare the few types, numbers and signatures we use, so that building needs no CUDA kit. They
 * are the driver's binary interface, which NVIDIA keeps: a changed function gets a new symbol
 * (cuMemAlloc became cuMemAlloc_v2) and the old one stays. Names here follow the driver's, with
 * vw__cuda_ for types and VW__CUDA_ for numbers; the functions keep the names under which NVIDIA
 * documents them, without the version.
 *
 * The list below is the only place that names a symbol. A fallback appears only where the older
 * symbol has the same signature: the plain names of the _v2 memory functions take 32-bit sizes and
 * must never be called.
 *
 * AMD's HIP runtime has the same functions with the same types under other names, so that one
 * device serves both: hip_driver_load.c fills the same table. What differs is in vw__cuda_vendor.
 */
#ifndef VW_DEVICE_CUDA_DRIVER_LOAD_H
#define VW_DEVICE_CUDA_DRIVER_LOAD_H

#include <stdbool.h>
#include <stddef.h> /* size_t */

#include "vramwise/status.h" /* vw_status, VW_MUST_CHECK */
#include "base/ranked_mutex.h"
#include "device/gpu_monitor.h"  /* vw__monitor */
#include "device/library_load.h" /* vw__library_symbol */

typedef int vw__cuda_result;                        /* CUresult */
typedef int vw__cuda_device;                        /* CUdevice */
typedef struct vw__cuda_context_ *vw__cuda_context; /* CUcontext; opaque, as the next four */
typedef struct vw__cuda_stream_ *vw__cuda_stream;   /* CUstream */
typedef struct vw__cuda_event_ *vw__cuda_event;     /* CUevent */
typedef struct vw__cuda_graph_ *vw__cuda_graph;     /* CUgraph */
typedef struct vw__cuda_node_ *vw__cuda_node;       /* CUgraphNode */
typedef unsigned long long vw__cuda_ptr;            /* CUdeviceptr */
typedef unsigned long long vw__cuda_handle;         /* CUmemGenericAllocationHandle */

/* CUresult: only those we tell apart. */
enum {
    VW__CUDA_SUCCESS = 0,
    VW__CUDA_ERROR_OUT_OF_MEMORY = 2,
    VW__CUDA_ERROR_STUB_LIBRARY = 34,
    VW__CUDA_ERROR_NO_DEVICE = 100,
    VW__CUDA_ERROR_NOT_READY = 600,
};

/* CUdevice_attribute */
enum {
    VW__CUDA_HAS_VIRTUAL_MEMORY = 102,           /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
    VW__CUDA_HAS_FILE_DESCRIPTOR_HANDLES = 103,  /* HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
    VW__CUDA_HAS_DIRECT_RDMA_WITH_VIRTUAL = 110, /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
    VW__CUDA_HAS_DMA_BUF = 124,                  /* DMA_BUF_SUPPORTED */
    VW__CUDA_NEAREST_HOST_NODE = 134,            /* HOST_NUMA_ID; -1 without NUMA */
};

/* Flags and modes. */
enum {
    VW__CUDA_STREAM_NON_BLOCKING = 1,    /* CU_STREAM_NON_BLOCKING */
    VW__CUDA_EVENT_DISABLE_TIMING = 2,   /* CU_EVENT_DISABLE_TIMING */
    VW__CUDA_CAPTURE_STATUS_NONE = 0,    /* CU_STREAM_CAPTURE_STATUS_NONE */
    VW__CUDA_CAPTURE_STATUS_ACTIVE = 1,  /* CU_STREAM_CAPTURE_STATUS_ACTIVE */
    VW__CUDA_CAPTURE_MODE_RELAXED = 2,   /* CU_STREAM_CAPTURE_MODE_RELAXED */
    VW__CUDA_ALLOCATION_PINNED = 1,      /* CU_MEM_ALLOCATION_TYPE_PINNED */
    VW__CUDA_HANDLE_FILE_DESCRIPTOR = 1, /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
    VW__CUDA_LOCATION_DEVICE = 1,        /* CU_MEM_LOCATION_TYPE_DEVICE */
    VW__CUDA_LOCATION_HOST = 2,          /* CU_MEM_LOCATION_TYPE_HOST */
    VW__CUDA_LOCATION_HOST_NODE = 3,     /* CU_MEM_LOCATION_TYPE_HOST_NUMA */
    VW__CUDA_ACCESS_READ_WRITE = 3,      /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
    VW__CUDA_GRANULARITY_MINIMUM = 0,    /* CU_MEM_ALLOC_GRANULARITY_MINIMUM */
    VW__CUDA_RANGE_DMA_BUF = 1,          /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
};

/* CUmemLocation */
typedef struct vw__cuda_location {
    int type;
    int id;
} vw__cuda_location;

/* CUmemAllocationProp */
typedef struct vw__cuda_allocation {
    int type;
    int requested_handle_types;
    vw__cuda_location location;
    void *win32_metadata;
    unsigned char compression_type;
    unsigned char is_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
} vw__cuda_allocation;

/* CUmemAccessDesc */
typedef struct vw__cuda_access {
    vw__cuda_location location;
    int flags;
} vw__cuda_access;

/* X(name, newest symbol, fallback or NULL, is it required, parameters). Every function returns
 * vw__cuda_result. Not required: what came with CUDA 10.0 (cuStreamIsCapturing,
 * cuGraphNodeGetDependencies), 10.1 (cuThreadExchangeStreamCaptureMode), 10.2 (virtual
 * memory), 11.3 (cuStreamGetCaptureInfo; its other versions have other parameters), 11.7
 * (cuMemGetHandleForAddressRange) and 12.5 (cuCtxRecordEvent). */
#define VW__CUDA_SYMBOL_LIST(X)                                                                    \
    X(cuInit, "cuInit", NULL, true, (unsigned flags))                                              \
    X(cuDriverGetVersion, "cuDriverGetVersion", NULL, true, (int *version))                        \
    X(cuGetErrorName, "cuGetErrorName", NULL, true, (vw__cuda_result result, const char **name))   \
    X(cuGetErrorString, "cuGetErrorString", NULL, true,                                            \
      (vw__cuda_result result, const char **text))                                                 \
    X(cuDeviceGetCount, "cuDeviceGetCount", NULL, true, (int *count))                              \
    X(cuDeviceGet, "cuDeviceGet", NULL, true, (vw__cuda_device * device, int index))               \
    X(cuDeviceGetName, "cuDeviceGetName", NULL, true,                                              \
      (char *name, int name_bytes, vw__cuda_device device))                                        \
    X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", NULL, true,                                      \
      (char *id, int id_bytes, vw__cuda_device device))                                            \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", NULL, true,                                         \
      (size_t * total_bytes, vw__cuda_device device))                                              \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", NULL, true,                                    \
      (int *value, int attribute, vw__cuda_device device))                                         \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", NULL, true,                            \
      (vw__cuda_context * context, vw__cuda_device device))                                        \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease",      \
      true, (vw__cuda_device device))                                                              \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", NULL, true, (vw__cuda_context * context))                \
    X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", NULL, true, (vw__cuda_context context))             \
    X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", NULL, true, (vw__cuda_context * context))             \
    X(cuCtxSynchronize, "cuCtxSynchronize", NULL, true, (void))                                    \
    X(cuMemGetInfo, "cuMemGetInfo_v2", NULL, true, (size_t * free_bytes, size_t * total_bytes))    \
    X(cuMemAlloc, "cuMemAlloc_v2", NULL, true, (vw__cuda_ptr * address, size_t size_bytes))        \
    X(cuMemFree, "cuMemFree_v2", NULL, true, (vw__cuda_ptr address))                               \
    X(cuMemHostAlloc, "cuMemHostAlloc", NULL, true,                                                \
      (void **address, size_t size_bytes, unsigned flags))                                         \
    X(cuMemFreeHost, "cuMemFreeHost", NULL, true, (void *address))                                 \
    X(cuMemHostRegister, "cuMemHostRegister_v2", "cuMemHostRegister", true,                        \
      (void *address, size_t size_bytes, unsigned flags))                                          \
    X(cuMemHostUnregister, "cuMemHostUnregister", NULL, true, (void *address))                     \
    X(cuMemcpyHtoD, "cuMemcpyHtoD_v2", NULL, true,                                                 \
      (vw__cuda_ptr to, const void *from, size_t size_bytes))                                      \
    X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", NULL, true,                                                 \
      (void *to, vw__cuda_ptr from, size_t size_bytes))                                            \
    X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", NULL, true,                                       \
      (vw__cuda_ptr to, vw__cuda_ptr from, size_t size_bytes, vw__cuda_stream stream))             \
    X(cuMemsetD8Async, "cuMemsetD8Async", NULL, true,                                              \
      (vw__cuda_ptr to, unsigned char value, size_t size_bytes, vw__cuda_stream stream))           \
    X(cuStreamCreate, "cuStreamCreate", NULL, true, (vw__cuda_stream * stream, unsigned flags))    \
    X(cuStreamDestroy, "cuStreamDestroy_v2", NULL, true, (vw__cuda_stream stream))                 \
    X(cuStreamSynchronize, "cuStreamSynchronize", NULL, true, (vw__cuda_stream stream))            \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", NULL, true,                                          \
      (vw__cuda_stream stream, vw__cuda_event event, unsigned flags))                              \
    X(cuEventCreate, "cuEventCreate", NULL, true, (vw__cuda_event * event, unsigned flags))        \
    X(cuEventDestroy, "cuEventDestroy_v2", NULL, true, (vw__cuda_event event))                     \
    X(cuEventRecord, "cuEventRecord", NULL, true, (vw__cuda_event event, vw__cuda_stream stream))  \
    X(cuCtxRecordEvent, "cuCtxRecordEvent", NULL, false,                                           \
      (vw__cuda_context context, vw__cuda_event event))                                            \
    X(cuEventQuery, "cuEventQuery", NULL, true, (vw__cuda_event event))                            \
    X(cuEventSynchronize, "cuEventSynchronize", NULL, true, (vw__cuda_event event))                \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", NULL, false,                                     \
      (vw__cuda_stream stream, int *status))                                                       \
    X(cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2", NULL, false,                            \
      (vw__cuda_stream stream, int *status, unsigned long long *id, vw__cuda_graph *graph,         \
       const vw__cuda_node **nodes, size_t *count))                                                \
    X(cuGraphNodeGetDependencies, "cuGraphNodeGetDependencies", NULL, false,                       \
      (vw__cuda_node node, vw__cuda_node * parents, size_t * count))                               \
    X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", NULL, false,         \
      (int *mode))                                                                                 \
    X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", NULL, false,                 \
      (size_t * granularity_bytes, const vw__cuda_allocation *allocation, int option))             \
    X(cuMemAddressReserve, "cuMemAddressReserve", NULL, false,                                     \
      (vw__cuda_ptr * address, size_t size_bytes, size_t alignment_bytes, vw__cuda_ptr hint,       \
       unsigned long long flags))                                                                  \
    X(cuMemAddressFree, "cuMemAddressFree", NULL, false,                                           \
      (vw__cuda_ptr address, size_t size_bytes))                                                   \
    X(cuMemCreate, "cuMemCreate", NULL, false,                                                     \
      (vw__cuda_handle * handle, size_t size_bytes, const vw__cuda_allocation *allocation,         \
       unsigned long long flags))                                                                  \
    X(cuMemRelease, "cuMemRelease", NULL, false, (vw__cuda_handle handle))                         \
    X(cuMemMap, "cuMemMap", NULL, false,                                                           \
      (vw__cuda_ptr address, size_t size_bytes, size_t offset_bytes, vw__cuda_handle handle,       \
       unsigned long long flags))                                                                  \
    X(cuMemUnmap, "cuMemUnmap", NULL, false, (vw__cuda_ptr address, size_t size_bytes))            \
    X(cuMemSetAccess, "cuMemSetAccess", NULL, false,                                               \
      (vw__cuda_ptr address, size_t size_bytes, const vw__cuda_access *accesses, size_t count))    \
    X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", NULL, false,                   \
      (void *exported, vw__cuda_handle handle, int handle_type, unsigned long long flags))         \
    X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", NULL, false,               \
      (vw__cuda_handle * handle, void *exported, int handle_type))                                 \
    X(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange", NULL, false,                 \
      (void *handle, vw__cuda_ptr address, size_t size_bytes, int type, unsigned long long flags)) \
    X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", NULL, false,                                 \
      (int *can_access, vw__cuda_device device, vw__cuda_device peer))

typedef struct vw__cuda_vendor vw__cuda_vendor;

/* The functions; those that are not required may be NULL. */
typedef struct vw__cuda_driver {
#define VW__CUDA_POINTER(name, newest, fallback, is_required, parameters)                          \
    vw__cuda_result(*name) parameters;
    VW__CUDA_SYMBOL_LIST(VW__CUDA_POINTER)
#undef VW__CUDA_POINTER
    const vw__cuda_vendor *vendor; /* static */
} vw__cuda_driver;

/* Whose driver it is, and how it differs. */
struct vw__cuda_vendor {
    const char *name;                 /* "CUDA": in messages, before "device 0" */
    const char *driver_text;          /* "CUDA driver", of the library */
    const char *library_variable;     /* names another library to load instead */
    const char *visible_variable;     /* says which devices the driver shows */
    const char *const *library_names; /* ends with NULL */
    const vw__library_symbol *symbols;
    size_t symbol_count;
    bool prefers_loaded; /* the library that the process has, under whichever of the names */

    /* Fills what `symbols` cannot; the name of a function that is missing, or NULL. May be NULL. */
    const char *(*complete)(void *library, vw__cuda_driver *driver);

    /* The vendor's name for the function that begins `call`, and in `*rest` what follows there;
     * NULL if it is the same. May be NULL. */
    const char *(*call_name)(const char *call, const char **rest);

    int virtual_memory_attribute; /* numbers of cuDeviceGetAttribute */
    int rdma_attribute;           /* 0: there is none, and no direct RDMA to ask for */
    int dma_buf_attribute;        /* 0: likewise */
    bool has_sharing;             /* exports and imports handles; the device may yet refuse */
    bool has_host_memory;         /* cuMemCreate is asked for it; likewise */
    const vw__monitor *monitor;   /* lists the processes; may be NULL */
    bool unmaps_one_by_one;       /* one mapping a call: see hip_mappings.h */
};

/* A library that is loaded at the first question, from any thread. Static; begins with
 * VW__CUDA_LIBRARY_INIT. */
typedef struct vw__cuda_library {
    const vw__cuda_vendor *vendor;
    vw__mutex lock; /* guards the rest until is_tried; it is then read-only */
    bool is_tried;
    bool is_loaded;
    vw__cuda_driver driver;
    char failure[1024];
} vw__cuda_library;

#define VW__CUDA_LIBRARY_INIT(vendor_)                                                             \
    {                                                                                              \
        .vendor = (vendor_), .lock = VW__MUTEX_INIT(VW__LOCK_REGISTRY)                             \
    }

/* The driver, or why there is none; both stay for the life of the process.
 *
 * VW_ERR_NO_DEVICE   no library could be opened, or it lacks a function we need; vw_last_error()
 *                    names each that was tried, and why it would not do */
VW_MUST_CHECK vw_status vw__cuda_library_get(vw__cuda_library *library,
                                             const vw__cuda_driver **out);

/* The same for the CUDA driver of this machine. The environment variable VRAMWISE_CUDA_DRIVER names
 * another library to load instead, and no other is then tried: for drivers in odd places, and for
 * tests. */
VW_MUST_CHECK vw_status vw__cuda_driver_get(const vw__cuda_driver **out);

/* Are all functions for virtual memory there, exporting aside? Whether a device has it is the
 * device's own say. */
bool vw__cuda_driver_has_virtual_memory(const vw__cuda_driver *driver);

#endif /* VW_DEVICE_CUDA_DRIVER_LOAD_H */
