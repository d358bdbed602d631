/* check_hip_types.c - our declarations of HIP's types, numbers and functions against AMD's headers.
 *
 * Compiled, not run, where the headers are found (Debian: libamdhip64-dev). A header from before
 * ROCm 6.0 has no say on virtual memory, which is not used there. */
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include "device/hip_driver_load.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)

SAME(VW__CUDA_SUCCESS, hipSuccess);
SAME(VW__CUDA_ERROR_OUT_OF_MEMORY, hipErrorOutOfMemory);
SAME(VW__CUDA_ERROR_NO_DEVICE, hipErrorNoDevice);
SAME(VW__CUDA_ERROR_NOT_READY, hipErrorNotReady);
SAME(VW__CUDA_STREAM_NON_BLOCKING, hipStreamNonBlocking);
SAME(VW__CUDA_EVENT_DISABLE_TIMING, hipEventDisableTiming);
SAME(VW__CUDA_CAPTURE_STATUS_NONE, hipStreamCaptureStatusNone);
SAME(VW__CUDA_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed);
SAME(VW__CUDA_ALLOCATION_PINNED, hipMemAllocationTypePinned);
SAME(VW__CUDA_LOCATION_DEVICE, hipMemLocationTypeDevice);
SAME(VW__CUDA_ACCESS_READ_WRITE, hipMemAccessFlagsProtReadWrite);
SAME(VW__CUDA_GRANULARITY_MINIMUM, hipMemAllocationGranularityMinimum);
SAME(sizeof(vw__cuda_result), sizeof(hipError_t));
SAME(sizeof(vw__cuda_device), sizeof(hipDevice_t));
SAME(sizeof(vw__cuda_ptr), sizeof(hipDeviceptr_t));
SAME(sizeof(vw__cuda_stream), sizeof(hipStream_t));
SAME(sizeof(vw__cuda_event), sizeof(hipEvent_t));
SAME(sizeof(vw__cuda_handle), sizeof(hipMemGenericAllocationHandle_t));
SAME(sizeof(vw__cuda_location), sizeof(hipMemLocation));
SAME(offsetof(vw__cuda_location, id), offsetof(hipMemLocation, id));
SAME(sizeof(vw__cuda_access), sizeof(hipMemAccessDesc));
SAME(offsetof(vw__cuda_access, flags), offsetof(hipMemAccessDesc, flags));
SAME(sizeof(int), sizeof(hipDeviceAttribute_t));
SAME(sizeof(int), sizeof(hipStreamCaptureStatus));
SAME(sizeof(int), sizeof(hipStreamCaptureMode));

#if HIP_VERSION_MAJOR >= 6
SAME(VW__HIP_HAS_VIRTUAL_MEMORY, hipDeviceAttributeVirtualMemoryManagementSupported);
SAME(sizeof(vw__cuda_allocation), sizeof(hipMemAllocationProp));
SAME(offsetof(vw__cuda_allocation, type), offsetof(hipMemAllocationProp, type));
SAME(offsetof(vw__cuda_allocation, requested_handle_types),
     offsetof(hipMemAllocationProp, requestedHandleType));
SAME(offsetof(vw__cuda_allocation, location), offsetof(hipMemAllocationProp, location));
SAME(offsetof(vw__cuda_allocation, compression_type),
     offsetof(hipMemAllocationProp, allocFlags.compressionType));
SAME(offsetof(vw__cuda_allocation, is_direct_rdma_capable),
     offsetof(hipMemAllocationProp, allocFlags.gpuDirectRDMACapable));
#endif

/* The functions, with the parameters that we pass. */
#define TAKES(function, ...)                                                                       \
    _Static_assert(_Generic(&(function), hipError_t(*)(__VA_ARGS__) : 1, default : 0), #function)

TAKES(hipInit, unsigned);
TAKES(hipDriverGetVersion, int *);
TAKES(hipGetDevice, int *);
TAKES(hipSetDevice, int);
TAKES(hipGetDeviceCount, int *);
TAKES(hipDeviceGet, hipDevice_t *, int);
TAKES(hipDeviceGetName, char *, int, hipDevice_t);
TAKES(hipDeviceGetPCIBusId, char *, int, int);
TAKES(hipDeviceTotalMem, size_t *, hipDevice_t);
TAKES(hipDeviceGetAttribute, int *, hipDeviceAttribute_t, int);
TAKES(hipDeviceCanAccessPeer, int *, int, int);
TAKES(hipDeviceSynchronize, void);
TAKES(hipMemGetInfo, size_t *, size_t *);
TAKES(hipMalloc, void **, size_t);
TAKES(hipFree, void *);
TAKES(hipHostMalloc, void **, size_t, unsigned);
TAKES(hipHostFree, void *);
TAKES(hipHostRegister, void *, size_t, unsigned);
TAKES(hipHostUnregister, void *);
TAKES(hipMemcpyDtoH, void *, hipDeviceptr_t, size_t);
TAKES(hipMemcpyDtoDAsync, hipDeviceptr_t, hipDeviceptr_t, size_t, hipStream_t);
TAKES(hipMemsetD8Async, hipDeviceptr_t, unsigned char, size_t, hipStream_t);
TAKES(hipStreamCreateWithFlags, hipStream_t *, unsigned);
TAKES(hipStreamDestroy, hipStream_t);
TAKES(hipStreamSynchronize, hipStream_t);
TAKES(hipStreamWaitEvent, hipStream_t, hipEvent_t, unsigned);
TAKES(hipStreamIsCapturing, hipStream_t, hipStreamCaptureStatus *);
TAKES(hipThreadExchangeStreamCaptureMode, hipStreamCaptureMode *);
TAKES(hipEventCreateWithFlags, hipEvent_t *, unsigned);
TAKES(hipEventDestroy, hipEvent_t);
TAKES(hipEventRecord, hipEvent_t, hipStream_t);
TAKES(hipEventQuery, hipEvent_t);
TAKES(hipEventSynchronize, hipEvent_t);
TAKES(hipMemGetAllocationGranularity, size_t *, const hipMemAllocationProp *,
      hipMemAllocationGranularity_flags);
TAKES(hipMemAddressReserve, void **, size_t, size_t, void *, unsigned long long);
TAKES(hipMemAddressFree, void *, size_t);
TAKES(hipMemCreate, hipMemGenericAllocationHandle_t *, size_t, const hipMemAllocationProp *,
      unsigned long long);
TAKES(hipMemRelease, hipMemGenericAllocationHandle_t);
TAKES(hipMemMap, void *, size_t, size_t, hipMemGenericAllocationHandle_t, unsigned long long);
TAKES(hipMemUnmap, void *, size_t);
TAKES(hipMemSetAccess, void *, size_t, const hipMemAccessDesc *, size_t);

/* The source became const after ROCm 6. */
_Static_assert(_Generic(&hipMemcpyHtoD, hipError_t (*)(hipDeviceptr_t, void *, size_t) : 1,
                        hipError_t (*)(hipDeviceptr_t, const void *, size_t) : 1, default : 0),
               "hipMemcpyHtoD");
_Static_assert(_Generic(&hipGetErrorName, const char *(*)(hipError_t) : 1, default : 0),
               "hipGetErrorName");
_Static_assert(_Generic(&hipGetErrorString, const char *(*)(hipError_t) : 1, default : 0),
               "hipGetErrorString");
