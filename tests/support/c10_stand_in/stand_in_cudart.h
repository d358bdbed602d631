// stand_in_cudart.h - the few functions of the CUDA runtime that the adapter calls, for a machine
// without one. What they do is up to stand_in_state().
#pragma once

#include <cstddef>

typedef struct CUstream_st *cudaStream_t;

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorPeerAccessAlreadyEnabled = 704,
};
enum cudaMemcpyKind { cudaMemcpyDeviceToDevice = 3 };
enum { cudaIpcMemLazyEnablePeerAccess = 1 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeRelaxed = 2 };

struct cudaIpcMemHandle_t {
    char reserved[64];
};

cudaError_t cudaMalloc(void **pointer, size_t size_bytes);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaMemcpy(void *to, const void *from, size_t size_bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t size_bytes, cudaStream_t stream);
cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned flags);
cudaError_t cudaGetLastError();
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer);
cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void *pointer);
