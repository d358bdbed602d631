/* fake_hip_names.h - included before the sources of the fake CUDA driver, makes them HIP's.
 *
 * HIP's own names for functions of the same shape. What has another shape keeps CUDA's name, which
 * nobody looks for, or is written anew in fake_libamdhip64.c. */
#ifndef VW_TESTS_FAKE_HIP_NAMES_H
#define VW_TESTS_FAKE_HIP_NAMES_H

#define FAKE_HIP

#define cuInit hipInit
#define cuDeviceGetCount hipGetDeviceCount
#define cuDeviceGet hipDeviceGet
#define cuDeviceGetName hipDeviceGetName
#define cuDeviceGetPCIBusId hipDeviceGetPCIBusId
#define cuDeviceTotalMem_v2 hipDeviceTotalMem
#define cuDeviceCanAccessPeer hipDeviceCanAccessPeer
#define cuCtxSynchronize hipDeviceSynchronize
#define cuMemGetInfo_v2 hipMemGetInfo
#define cuMemAlloc_v2 hipMalloc
#define cuMemFree_v2 hipFree
#define cuMemHostAlloc hipHostMalloc
#define cuMemFreeHost hipHostFree
#define cuMemHostRegister_v2 hipHostRegister
#define cuMemHostUnregister hipHostUnregister
#define cuMemcpyHtoD_v2 hipMemcpyHtoD
#define cuMemcpyDtoH_v2 hipMemcpyDtoH
#define cuMemcpyDtoDAsync_v2 hipMemcpyDtoDAsync
#define cuMemsetD8Async hipMemsetD8Async
#define cuStreamCreate hipStreamCreateWithFlags
#define cuStreamDestroy_v2 hipStreamDestroy
#define cuStreamSynchronize hipStreamSynchronize
#define cuStreamWaitEvent hipStreamWaitEvent
#define cuStreamIsCapturing hipStreamIsCapturing
#define cuThreadExchangeStreamCaptureMode hipThreadExchangeStreamCaptureMode
#define cuEventCreate hipEventCreateWithFlags
#define cuEventDestroy_v2 hipEventDestroy
#define cuEventRecord hipEventRecord
#define cuEventQuery hipEventQuery
#define cuEventSynchronize hipEventSynchronize
#define cuMemGetAllocationGranularity hipMemGetAllocationGranularity
#define cuMemAddressReserve hipMemAddressReserve
#define cuMemAddressFree hipMemAddressFree
#define cuMemCreate hipMemCreate
#define cuMemRelease hipMemRelease
#define cuMemMap hipMemMap
#define cuMemUnmap hipMemUnmap
#define cuMemSetAccess hipMemSetAccess
#define cuMemExportToShareableHandle hipMemExportToShareableHandle
#define cuMemGetHandleForAddressRange hipMemGetHandleForAddressRange
#define cuMemImportFromShareableHandle hipMemImportFromShareableHandle

#endif /* VW_TESTS_FAKE_HIP_NAMES_H */
