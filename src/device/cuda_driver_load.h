/* cuda_driver_load.h - the CUDA driver's functions, found at run time.
 *
 * We declare the few types, numbers and signatures we use, so that building needs no CUDA kit. They
 * are the driver's binary interface, which NVIDIA keeps: a changed function gets a new symbol
 * (cuMemAlloc became cuMemAlloc_v2) and the old one stays. Names here follow the driver's, with
 * hr__cuda_ for types and HR__CUDA_ for numbers; the functions keep the names under which NVIDIA
 * documents them, without the version.
 *
 * The list below is the only place that names a symbol. A fallback appears only where the older
 * symbol has the same signature: the plain names of the _v2 memory functions take 32-bit sizes and
 * must never be called. */
#ifndef HR_DEVICE_CUDA_DRIVER_LOAD_H
#define HR_DEVICE_CUDA_DRIVER_LOAD_H

#include <stdbool.h>
#include <stddef.h> /* size_t */

#include "headroom/status.h" /* hr_status, HR_MUST_CHECK */

typedef int hr__cuda_result;                        /* CUresult */
typedef int hr__cuda_device;                        /* CUdevice */
typedef struct hr__cuda_context_ *hr__cuda_context; /* CUcontext; opaque, as the next two */
typedef struct hr__cuda_stream_ *hr__cuda_stream;   /* CUstream */
typedef struct hr__cuda_event_ *hr__cuda_event;     /* CUevent */
typedef unsigned long long hr__cuda_ptr;            /* CUdeviceptr */
typedef unsigned long long hr__cuda_handle;         /* CUmemGenericAllocationHandle */

/* CUresult: only those we tell apart. */
enum {
    HR__CUDA_SUCCESS = 0,
    HR__CUDA_ERROR_OUT_OF_MEMORY = 2,
    HR__CUDA_ERROR_STUB_LIBRARY = 34,
    HR__CUDA_ERROR_NO_DEVICE = 100,
    HR__CUDA_ERROR_NOT_READY = 600,
};

/* CUdevice_attribute */
enum {
    HR__CUDA_HAS_VIRTUAL_MEMORY = 102,           /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
    HR__CUDA_HAS_FILE_DESCRIPTOR_HANDLES = 103,  /* HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
    HR__CUDA_HAS_DIRECT_RDMA_WITH_VIRTUAL = 110, /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
    HR__CUDA_NEAREST_HOST_NODE = 134,            /* HOST_NUMA_ID; -1 without NUMA */
};

/* Flags and modes. */
enum {
    HR__CUDA_STREAM_NON_BLOCKING = 1,    /* CU_STREAM_NON_BLOCKING */
    HR__CUDA_EVENT_DISABLE_TIMING = 2,   /* CU_EVENT_DISABLE_TIMING */
    HR__CUDA_CAPTURE_STATUS_NONE = 0,    /* CU_STREAM_CAPTURE_STATUS_NONE */
    HR__CUDA_CAPTURE_MODE_RELAXED = 2,   /* CU_STREAM_CAPTURE_MODE_RELAXED */
    HR__CUDA_ALLOCATION_PINNED = 1,      /* CU_MEM_ALLOCATION_TYPE_PINNED */
    HR__CUDA_HANDLE_FILE_DESCRIPTOR = 1, /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
    HR__CUDA_LOCATION_DEVICE = 1,        /* CU_MEM_LOCATION_TYPE_DEVICE */
    HR__CUDA_LOCATION_HOST = 2,          /* CU_MEM_LOCATION_TYPE_HOST */
    HR__CUDA_LOCATION_HOST_NODE = 3,     /* CU_MEM_LOCATION_TYPE_HOST_NUMA */
    HR__CUDA_ACCESS_READ_WRITE = 3,      /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
    HR__CUDA_GRANULARITY_MINIMUM = 0,    /* CU_MEM_ALLOC_GRANULARITY_MINIMUM */
};

/* CUmemLocation */
typedef struct hr__cuda_location {
    int type;
    int id;
} hr__cuda_location;

/* CUmemAllocationProp */
typedef struct hr__cuda_allocation {
    int type;
    int requested_handle_types;
    hr__cuda_location location;
    void *win32_metadata;
    unsigned char compression_type;
    unsigned char is_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
} hr__cuda_allocation;

/* CUmemAccessDesc */
typedef struct hr__cuda_access {
    hr__cuda_location location;
    int flags;
} hr__cuda_access;

/* X(name, newest symbol, fallback or NULL, is it required, parameters). Every function returns
 * hr__cuda_result. Not required: what came with CUDA 10.0 (cuStreamIsCapturing), 10.1
 * (cuThreadExchangeStreamCaptureMode) and 10.2 (virtual memory). */
#define HR__CUDA_SYMBOL_LIST(X)                                                                    \
    X(cuInit, "cuInit", NULL, true, (unsigned flags))                                              \
    X(cuDriverGetVersion, "cuDriverGetVersion", NULL, true, (int *version))                        \
    X(cuGetErrorName, "cuGetErrorName", NULL, true, (hr__cuda_result result, const char **name))   \
    X(cuGetErrorString, "cuGetErrorString", NULL, true,                                            \
      (hr__cuda_result result, const char **text))                                                 \
    X(cuDeviceGetCount, "cuDeviceGetCount", NULL, true, (int *count))                              \
    X(cuDeviceGet, "cuDeviceGet", NULL, true, (hr__cuda_device * device, int index))               \
    X(cuDeviceGetName, "cuDeviceGetName", NULL, true,                                              \
      (char *name, int name_bytes, hr__cuda_device device))                                        \
    X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", NULL, true,                                      \
      (char *id, int id_bytes, hr__cuda_device device))                                            \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", NULL, true,                                         \
      (size_t * total_bytes, hr__cuda_device device))                                              \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", NULL, true,                                    \
      (int *value, int attribute, hr__cuda_device device))                                         \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", NULL, true,                            \
      (hr__cuda_context * context, hr__cuda_device device))                                        \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease",      \
      true, (hr__cuda_device device))                                                              \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", NULL, true, (hr__cuda_context * context))                \
    X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", NULL, true, (hr__cuda_context context))             \
    X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", NULL, true, (hr__cuda_context * context))             \
    X(cuCtxSynchronize, "cuCtxSynchronize", NULL, true, (void))                                    \
    X(cuMemGetInfo, "cuMemGetInfo_v2", NULL, true, (size_t * free_bytes, size_t * total_bytes))    \
    X(cuMemAlloc, "cuMemAlloc_v2", NULL, true, (hr__cuda_ptr * address, size_t size_bytes))        \
    X(cuMemFree, "cuMemFree_v2", NULL, true, (hr__cuda_ptr address))                               \
    X(cuMemHostAlloc, "cuMemHostAlloc", NULL, true,                                                \
      (void **address, size_t size_bytes, unsigned flags))                                         \
    X(cuMemFreeHost, "cuMemFreeHost", NULL, true, (void *address))                                 \
    X(cuMemHostRegister, "cuMemHostRegister_v2", "cuMemHostRegister", true,                        \
      (void *address, size_t size_bytes, unsigned flags))                                          \
    X(cuMemHostUnregister, "cuMemHostUnregister", NULL, true, (void *address))                     \
    X(cuMemcpyHtoD, "cuMemcpyHtoD_v2", NULL, true,                                                 \
      (hr__cuda_ptr to, const void *from, size_t size_bytes))                                      \
    X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", NULL, true,                                                 \
      (void *to, hr__cuda_ptr from, size_t size_bytes))                                            \
    X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", NULL, true,                                       \
      (hr__cuda_ptr to, hr__cuda_ptr from, size_t size_bytes, hr__cuda_stream stream))             \
    X(cuMemsetD8Async, "cuMemsetD8Async", NULL, true,                                              \
      (hr__cuda_ptr to, unsigned char value, size_t size_bytes, hr__cuda_stream stream))           \
    X(cuStreamCreate, "cuStreamCreate", NULL, true, (hr__cuda_stream * stream, unsigned flags))    \
    X(cuStreamDestroy, "cuStreamDestroy_v2", NULL, true, (hr__cuda_stream stream))                 \
    X(cuStreamSynchronize, "cuStreamSynchronize", NULL, true, (hr__cuda_stream stream))            \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", NULL, true,                                          \
      (hr__cuda_stream stream, hr__cuda_event event, unsigned flags))                              \
    X(cuEventCreate, "cuEventCreate", NULL, true, (hr__cuda_event * event, unsigned flags))        \
    X(cuEventDestroy, "cuEventDestroy_v2", NULL, true, (hr__cuda_event event))                     \
    X(cuEventRecord, "cuEventRecord", NULL, true, (hr__cuda_event event, hr__cuda_stream stream))  \
    X(cuEventQuery, "cuEventQuery", NULL, true, (hr__cuda_event event))                            \
    X(cuEventSynchronize, "cuEventSynchronize", NULL, true, (hr__cuda_event event))                \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", NULL, false,                                     \
      (hr__cuda_stream stream, int *status))                                                       \
    X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", NULL, false,         \
      (int *mode))                                                                                 \
    X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", NULL, false,                 \
      (size_t * granularity_bytes, const hr__cuda_allocation *allocation, int option))             \
    X(cuMemAddressReserve, "cuMemAddressReserve", NULL, false,                                     \
      (hr__cuda_ptr * address, size_t size_bytes, size_t alignment_bytes, hr__cuda_ptr hint,       \
       unsigned long long flags))                                                                  \
    X(cuMemAddressFree, "cuMemAddressFree", NULL, false,                                           \
      (hr__cuda_ptr address, size_t size_bytes))                                                   \
    X(cuMemCreate, "cuMemCreate", NULL, false,                                                     \
      (hr__cuda_handle * handle, size_t size_bytes, const hr__cuda_allocation *allocation,         \
       unsigned long long flags))                                                                  \
    X(cuMemRelease, "cuMemRelease", NULL, false, (hr__cuda_handle handle))                         \
    X(cuMemMap, "cuMemMap", NULL, false,                                                           \
      (hr__cuda_ptr address, size_t size_bytes, size_t offset_bytes, hr__cuda_handle handle,       \
       unsigned long long flags))                                                                  \
    X(cuMemUnmap, "cuMemUnmap", NULL, false, (hr__cuda_ptr address, size_t size_bytes))            \
    X(cuMemSetAccess, "cuMemSetAccess", NULL, false,                                               \
      (hr__cuda_ptr address, size_t size_bytes, const hr__cuda_access *accesses, size_t count))    \
    X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", NULL, false,                   \
      (void *exported, hr__cuda_handle handle, int handle_type, unsigned long long flags))         \
    X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", NULL, false,               \
      (hr__cuda_handle * handle, void *exported, int handle_type))                                 \
    X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", NULL, false,                                 \
      (int *can_access, hr__cuda_device device, hr__cuda_device peer))

/* The functions; those that are not required may be NULL. */
typedef struct hr__cuda_driver {
#define HR__CUDA_POINTER(name, newest, fallback, is_required, parameters)                          \
    hr__cuda_result(*name) parameters;
    HR__CUDA_SYMBOL_LIST(HR__CUDA_POINTER)
#undef HR__CUDA_POINTER
} hr__cuda_driver;

/* The driver of this machine. The first call loads it, from any thread; the table, or the reason
 * why there is none, then stays for the life of the process.
 *
 * The environment variable HEADROOM_CUDA_DRIVER names another library to load instead, and no
 * other is then tried: for drivers in odd places, and for tests.
 *
 * HR_ERR_NO_DEVICE   no library could be opened, or it lacks a function we need; hr_last_error()
 *                    names each that was tried, and why it would not do */
HR_MUST_CHECK hr_status hr__cuda_driver_get(const hr__cuda_driver **out);

/* Are all functions for virtual memory there, exporting aside? Whether a device has it is the
 * device's own say. */
bool hr__cuda_driver_has_virtual_memory(const hr__cuda_driver *driver);

#endif /* HR_DEVICE_CUDA_DRIVER_LOAD_H */
