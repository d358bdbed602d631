// torch_headers.h - PyTorch's headers and the runtime's, of CUDA or of ROCm, by CUDA's names.
//
// PyTorch for ROCm is its CUDA source after torch/utils/hipify has replaced names in it. From 2.11
// on those are the names of headers and all that is the runtime's; classes, namespaces and macros
// of PyTorch's own keep theirs, and a stream is on a device "cuda" as well. So the adapter stays as
// it is, and the runtime's names that it uses stand for HIP's here. Up to 2.10 hipify renamed the
// classes too: for those versions there is no adapter.
//
// USE_ROCM is PyTorch's own switch. Its headers look at it, so whoever compiles must set it.
// Untested on hardware.
#pragma once

#ifdef USE_ROCM

#include <c10/hip/HIPAllocatorConfig.h>
#include <c10/hip/HIPCachingAllocator.h>
#include <c10/hip/HIPException.h>
#include <c10/hip/HIPFunctions.h>
#include <c10/hip/HIPGraphsC10Utils.h>
#include <c10/hip/HIPGuard.h>
#include <hip/hip_runtime_api.h>

// After the headers, which are not to see them.
#define cudaDeviceEnablePeerAccess hipDeviceEnablePeerAccess
#define cudaError_t hipError_t
#define cudaErrorPeerAccessAlreadyEnabled hipErrorPeerAccessAlreadyEnabled
#define cudaFree hipFree
#define cudaGetLastError hipGetLastError
#define cudaIpcCloseMemHandle hipIpcCloseMemHandle
#define cudaIpcGetMemHandle hipIpcGetMemHandle
#define cudaIpcMemHandle_t hipIpcMemHandle_t
#define cudaIpcMemLazyEnablePeerAccess hipIpcMemLazyEnablePeerAccess
#define cudaIpcOpenMemHandle hipIpcOpenMemHandle
#define cudaMalloc hipMalloc
#define cudaMemcpy hipMemcpy
#define cudaMemcpyAsync hipMemcpyAsync
#define cudaMemcpyDeviceToDevice hipMemcpyDeviceToDevice
#define cudaMemcpyPeerAsync hipMemcpyPeerAsync
#define cudaStreamSynchronize hipStreamSynchronize
#define cudaStream_t hipStream_t
#define cudaSuccess hipSuccess

#else

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#endif
