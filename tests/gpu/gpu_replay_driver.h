/* gpu_replay_driver.h - what gpu_replay asks of the CUDA driver beyond the device table.
 *
 * Kernels, and the driver's own stream-ordered allocator, to compare with. The device table has
 * neither, since vramwise needs neither. Found by dlopen, as the rest (device/cuda_driver_load.h);
 * the types it has are used here. */
#ifndef VW_TESTS_GPU_REPLAY_DRIVER_H
#define VW_TESTS_GPU_REPLAY_DRIVER_H

#include "device/cuda_driver_load.h"

typedef struct replay_module_ *replay_module;     /* CUmodule; opaque, as the next two */
typedef struct replay_function_ *replay_function; /* CUfunction */
typedef struct replay_mempool_ *replay_mempool;   /* CUmemoryPool */

/* CUmemPool_attribute; the values are 64 bits */
enum {
    REPLAY_MEMPOOL_RELEASE_THRESHOLD = 4,
    REPLAY_MEMPOOL_RESERVED_HIGH = 6, /* the most held; writing 0 begins anew */
};

/* X(name, is it required, parameters). Not required: what came with CUDA 11.2. */
#define REPLAY_SYMBOL_LIST(X)                                                                      \
    X(cuModuleLoadData, true, (replay_module * module, const void *image))                         \
    X(cuModuleUnload, true, (replay_module module))                                                \
    X(cuModuleGetFunction, true,                                                                   \
      (replay_function * function, replay_module module, const char *name))                        \
    X(cuLaunchKernel, true,                                                                        \
      (replay_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,                \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,                \
       vw__cuda_stream stream, void **parameters, void **extra))                                   \
    X(cuDeviceGetDefaultMemPool, false, (replay_mempool * pool, vw__cuda_device device))           \
    X(cuMemPoolSetAttribute, false, (replay_mempool pool, int attribute, void *value))             \
    X(cuMemPoolGetAttribute, false, (replay_mempool pool, int attribute, void *value))             \
    X(cuMemPoolTrimTo, false, (replay_mempool pool, size_t keep_bytes))                            \
    X(cuMemAllocAsync, false, (vw__cuda_ptr * address, size_t size_bytes, vw__cuda_stream stream)) \
    X(cuMemFreeAsync, false, (vw__cuda_ptr address, vw__cuda_stream stream))

typedef struct replay_driver {
#define REPLAY_POINTER(name, is_required, parameters) vw__cuda_result(*name) parameters;
    REPLAY_SYMBOL_LIST(REPLAY_POINTER)
#undef REPLAY_POINTER
    const vw__cuda_driver *base;
    vw__cuda_device device;
} replay_driver;

/* Loads the functions, and makes the primary context of the device of that index the calling
 * thread's current one, for good: kernels are launched in it. VW_ERR_NO_DEVICE, VW_ERR_DEVICE. */
VW_MUST_CHECK vw_status replay_driver_open(int index, replay_driver *out);
void replay_driver_close(const replay_driver *driver);

/* VW_OK, or what the driver answered to `call`; VW_ERR_OUT_OF_MEMORY where that is it. */
VW_MUST_CHECK vw_status replay_driver_result(const replay_driver *driver, vw__cuda_result result,
                                             const char *call);

#endif /* VW_TESTS_GPU_REPLAY_DRIVER_H */
