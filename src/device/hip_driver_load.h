/* hip_driver_load.h - AMD's HIP runtime in the CUDA driver's table. Untested on hardware. */
#ifndef VW_DEVICE_HIP_DRIVER_LOAD_H
#define VW_DEVICE_HIP_DRIVER_LOAD_H

#include "device/cuda_driver_load.h"

/* hipDeviceAttribute_t: of those we ask CUDA for, the only one that ROCm 6 has, too. */
enum { VW__HIP_HAS_VIRTUAL_MEMORY = 89 }; /* VirtualMemoryManagementSupported */

/* What hipDriverGetVersion answers from ROCm 6.0 on. Before, hipMemAllocationProp had another
 * layout, and virtual memory was not finished: it is then not used. */
enum { VW__HIP_VERSION_WITH_VIRTUAL_MEMORY = 60000000 };

/* X(name in the table, HIP's name, is it required). The rest of the table, contexts and the texts
 * of errors, has other shapes in HIP: see hip_driver_load.c. Exporting and importing is left out:
 * hipMemImportFromShareableHandle takes a descriptor from ROCm 7.1 on, before that its address. */
#define VW__HIP_SYMBOL_LIST(X)                                                                     \
    X(cuInit, hipInit, true)                                                                       \
    X(cuDriverGetVersion, hipDriverGetVersion, true)                                               \
    X(cuDeviceGetCount, hipGetDeviceCount, true)                                                   \
    X(cuDeviceGet, hipDeviceGet, true)                                                             \
    X(cuDeviceGetName, hipDeviceGetName, true)                                                     \
    X(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId, true)                                             \
    X(cuDeviceTotalMem, hipDeviceTotalMem, true)                                                   \
    X(cuDeviceGetAttribute, hipDeviceGetAttribute, true)                                           \
    X(cuDeviceCanAccessPeer, hipDeviceCanAccessPeer, false)                                        \
    X(cuCtxSynchronize, hipDeviceSynchronize, true)                                                \
    X(cuMemGetInfo, hipMemGetInfo, true)                                                           \
    X(cuMemAlloc, hipMalloc, true)                                                                 \
    X(cuMemFree, hipFree, true)                                                                    \
    X(cuMemHostAlloc, hipHostMalloc, true)                                                         \
    X(cuMemFreeHost, hipHostFree, true)                                                            \
    X(cuMemHostRegister, hipHostRegister, true)                                                    \
    X(cuMemHostUnregister, hipHostUnregister, true)                                                \
    X(cuMemcpyHtoD, hipMemcpyHtoD, true)                                                           \
    X(cuMemcpyDtoH, hipMemcpyDtoH, true)                                                           \
    X(cuMemcpyDtoDAsync, hipMemcpyDtoDAsync, true)                                                 \
    X(cuMemsetD8Async, hipMemsetD8Async, true)                                                     \
    X(cuStreamCreate, hipStreamCreateWithFlags, true)                                              \
    X(cuStreamDestroy, hipStreamDestroy, true)                                                     \
    X(cuStreamSynchronize, hipStreamSynchronize, true)                                             \
    X(cuStreamWaitEvent, hipStreamWaitEvent, true)                                                 \
    X(cuStreamIsCapturing, hipStreamIsCapturing, false)                                            \
    X(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode, false)                \
    X(cuEventCreate, hipEventCreateWithFlags, true)                                                \
    X(cuEventDestroy, hipEventDestroy, true)                                                       \
    X(cuEventRecord, hipEventRecord, true)                                                         \
    X(cuEventQuery, hipEventQuery, true)                                                           \
    X(cuEventSynchronize, hipEventSynchronize, true)                                               \
    X(cuMemGetAllocationGranularity, hipMemGetAllocationGranularity, false)                        \
    X(cuMemAddressReserve, hipMemAddressReserve, false)                                            \
    X(cuMemAddressFree, hipMemAddressFree, false)                                                  \
    X(cuMemCreate, hipMemCreate, false)                                                            \
    X(cuMemRelease, hipMemRelease, false)                                                          \
    X(cuMemMap, hipMemMap, false)                                                                  \
    X(cuMemUnmap, hipMemUnmap, false)                                                              \
    X(cuMemSetAccess, hipMemSetAccess, false)

/* The HIP runtime of this process, or of this machine, as vw__cuda_library_get(). The environment
 * variable VRAMWISE_HIP_DRIVER names another library to load instead. */
VW_MUST_CHECK vw_status vw__hip_driver_get(const vw__cuda_driver **out);

#endif /* VW_DEVICE_HIP_DRIVER_LOAD_H */
