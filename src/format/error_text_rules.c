/* error_text_rules.c - which program wrote a message, and what kind of failure it is.
 *
 * A rule says what a word means beside another one. The tables come first, then the code that tries
 * them. A new program is a few rows here, and a word in error_text_words.h if nothing else gives
 * its message away. */
#include "format/error_text_internal.h"

#include <string.h>

#define W(name) VW__WORD_##name
#define K(name) VW__ERROR_##name
#define F(name) VW__RULE_##name
#define OLD_TORCH "PyTorch 0.x"
#define OWN_LIMIT "PyTorch 2.12 and later, refused by its own limit"

/* ---- host memory ----------------------------------------------------------------------------- */

/* Tried before the rules of GPUs: these messages borrow CUDA's words, while the reverse hardly ever
 * happens. A kill without a reason is host memory more often than anything else, and is marked
 * ambiguous. */
const vw__error_rule vw__host_rules[] = {
    /* the kernel, the cluster, the supervisor */
    {W(OUT_OF_MEMORY), "ray.exceptions", 30, 0, K(HOST_KILLED), F(CERTAIN), "Ray"},
    {W(OUT_OF_MEMORY), "outofmemory:kill", 0, 0, K(HOST_KILLED), F(CERTAIN), "the kernel"},
    {W(OUT_OF_MEMORY), "outofmemoryhandler", 0, 0, K(HOST_KILLED), F(CERTAIN), "a cgroup"},
    {W(OUT_OF_MEMORY), "cgroup", 16, 0, K(HOST_KILLED), F(CERTAIN), "a cgroup"},
    {W(OUT_OF_MEMORY), "killedprocess", 0, 40, K(HOST_KILLED), F(CERTAIN), "the kernel"},
    {W(OOM_KILL), NULL, 0, 0, K(HOST_KILLED), 0, "the kernel"},
    {W(OOM_REAPER), NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), "the kernel"},
    {W(SYSTEMD_OOMD), "killed", 0, 40, K(HOST_KILLED), F(CERTAIN), "systemd-oomd"},
    {W(SLURM_STATE_CUT), NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), "Slurm"},
    {W(OUT_OF_MEMORY), "0:125", 0, 30, K(HOST_KILLED), F(CERTAIN), "Slurm"},
    {W(OUT_OF_MEMORY), "srun:", 80, 0, K(HOST_KILLED), F(CERTAIN), "Slurm"},
    {W(PBS_MEMORY_LIMIT), NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), "PBS"},
    {W(PBS_VIRTUAL_LIMIT), NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), "PBS"},
    {W(KILLED_PROCESS), "totalvm:", 0, 80, K(HOST_KILLED), F(CERTAIN), "the kernel"},
    {W(LOW_ON_MEMORY), "killed", 80, 60, K(HOST_KILLED), 0, NULL},
    {W(LOW_ON_MEMORY), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS), NULL},
    {W(MEMORY_PRESSURE), "raylet", 240, 60, K(HOST_KILLED), 0, "Ray"},
    {W(MEMORY_PRESSURE), "killed", 60, 40, K(HOST_KILLED), 0, NULL},
    {W(EXCEEDED_MEMORY_LIMIT), NULL, 0, 0, K(HOST_KILLED), 0, NULL},
    {W(EXCEEDED_JOB_MEMORY), NULL, 0, 0, K(HOST_KILLED), 0, NULL},
    {W(EXCEEDED_STEP_MEMORY), NULL, 0, 0, K(HOST_KILLED), 0, NULL},
    {W(LSF_MEMORY_LIMIT), NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), NULL},
    {W(ALL_AVAILABLE_RAM), NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), "a notebook"},
    {W(MORE_THAN_AVAILABLE), NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), "a notebook"},
    {W(KILLED_SIGNAL), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CERTAIN), "a compiler"},
    {W(KERNEL_DIED), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CERTAIN), "a notebook"},

    /* shared memory; before workers, which may say both */
    {W(DATALOADER_WORKER), "bysignal:buserror", 0, 60, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(DATALOADER_WORKER), "outofsharedmemory", 0, 160, K(HOST_SHARED), 0, NULL},
    {W(TO_ALLOCATE), "toallocatesharedmemory", 0, 0, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(ERRNO_12), "/dev/shm", 0, 120, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(SHARED_MEMORY), "toomanyopenfiles", 0, 160, K(NOT_OOM), 0, NULL},
    {W(SHARED_MEMORY), "outofresource", 30, 0, K(NOT_OOM), 0, NULL},
    {W(SHARED_MEMORY), "insufficientsharedmemory", 12, 0, K(HOST_SHARED), 0, NULL},
    {W(SHARED_MEMORY), "outofsharedmemory", 5, 0, K(HOST_SHARED), 0, NULL},
    {W(SHARED_MEMORY), "sharedmemorysegment", 0, 0, K(HOST_SHARED), 0, NULL},
    {W(SHARED_MEMORY), "sharedmemoryobject", 0, 0, K(HOST_SHARED), 0, NULL},
    {W(BUS_ERROR), "insufficientsharedmemory", 0, 100, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(BUS_ERROR), "outofsharedmemory", 0, 120, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(BUS_ERROR), NULL, 0, 0, K(HOST_SHARED), F(AMBIGUOUS), NULL},
    {W(DEV_SHM), "failedtoextend", 30, 0, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(DEV_SHM), "nospaceleft", 120, 120, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(DEV_SHM), "cannotallocate", 120, 120, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(DEV_SHM), "sharedmemorysegment", 60, 20, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(NO_SPACE_LEFT), "/dev/shm", 120, 120, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(NO_SPACE_LEFT), "posixfallocate", 60, 0, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(WRITE_TORCH_FILE), "torch", 0, 30, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(UNABLE_TO_MMAP), "torch", 0, 60, K(HOST_SHARED), F(CERTAIN), NULL},
    {W(UNABLE_TO_MMAP), "cannotallocate", 0, 160, K(HOST_ALLOCATOR), F(CERTAIN), NULL},

    /* workers */
    {W(DATALOADER_WORKER), "bysignal:killed", 0, 60, K(HOST_WORKER), F(CERTAIN), NULL},
    {W(DATALOADER_WORKER), "bysignal:", 0, 60, K(NOT_OOM), 0, NULL},
    {W(EXCESSIVE_MEMORY), NULL, 0, 0, K(HOST_WORKER), F(AMBIGUOUS) | F(CERTAIN), "joblib"},
    {W(DATALOADER_WORKER), "exitedunexpectedly", 0, 60, K(HOST_WORKER), F(AMBIGUOUS), NULL},

    /* pinned memory */
    {W(TO_ALLOCATE), "invalidargument", 0, 60, K(NOT_OOM), 0, NULL},
    {W(OUT_OF_MEMORY), "bytesonhost", 60, 0, K(HOST_PINNED), F(CERTAIN), NULL},
    {W(OUT_OF_MEMORY), "pinned", 60, 40, K(HOST_PINNED), 0, NULL},
    {W(OUT_OF_MEMORY), "cudahostalloc", 160, 120, K(HOST_PINNED), 0, NULL},
    {W(OUT_OF_MEMORY), "cudahostregister", 160, 120, K(HOST_PINNED), 0, NULL},
    {W(OUT_OF_MEMORY), "cudamallochost", 160, 120, K(HOST_PINNED), 0, NULL},
    {W(FAILED_TO_ALLOC), "bytesonhost", 0, 50, K(HOST_PINNED), F(CERTAIN), NULL},
    {W(TO_ALLOCATE), "bytesonhost", 0, 50, K(HOST_PINNED), F(CERTAIN), NULL},
    {W(TO_ALLOCATE), "pinned", 0, 50, K(HOST_PINNED), F(CERTAIN), NULL},
    {W(TO_ALLOCATE), "cudahostbuffer", 0, 30, K(HOST_PINNED), F(CERTAIN), "ggml"},
    {W(COULD_NOT_ALLOCATE), "pinned", 0, 40, K(HOST_PINNED), F(CERTAIN), NULL},
    {W(CANNOT_ALLOCATE), "pinned", 0, 60, K(HOST_PINNED), 0, NULL},

    /* allocators */
    {W(CPU_ALLOCATOR), "cantallocate", 0, 60, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {W(CPU_ALLOCATOR), "notenoughmemory", 0, 60, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {W(CPU_ALLOCATOR), "youtriedtoallocate", 0, 100, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {W(CPU_ALLOCATOR), "posixmemalign", 0, 40, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {W(CANT_ALLOCATE), "cpuallocator", 60, 0, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {W(CANT_ALLOCATE), "youtriedtoallocate", 0, 40, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {W(NOT_ENOUGH_MEMORY), "youtriedtoallocate", 0, 40, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {W(POSIX_MEMALIGN), NULL, 0, 0, K(HOST_ALLOCATOR), 0, "PyTorch"},
    {W(TO_ALLOCATE), "youtriedtoallocate", 8, 0, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {W(TO_ALLOCATE), "arraywithshape", 0, 50, K(HOST_ALLOCATOR), F(CERTAIN), "NumPy"},
    {W(TO_ALLOCATE), "cpubuffer", 0, 30, K(HOST_ALLOCATOR), F(CERTAIN), "ggml"},
    {W(TO_ALLOCATE), "cpubuffertype", 60, 0, K(HOST_ALLOCATOR), F(CERTAIN), "ggml"},
    {W(TO_ALLOCATE), "cpurepackbuffer", 0, 30, K(HOST_ALLOCATOR), F(CERTAIN), "ggml"},
    {W(INSUFFICIENT_MEMORY), "alignedmalloc", 30, 0, K(HOST_ALLOCATOR), F(CERTAIN), "ggml"},
    {W(RESOURCE_EXHAUSTED), "device:cpu", 0, 200, K(HOST_ALLOCATOR), F(CERTAIN), "TensorFlow"},
    {W(OOM_WHEN_ALLOCATING), "device:cpu", 0, 160, K(HOST_ALLOCATOR), F(CERTAIN), "TensorFlow"},
    {W(ARRAY_MEMORY_ERROR), NULL, 0, 0, K(HOST_ALLOCATOR), 0, "NumPy"},
    {W(CANNOT_ALLOCATE), "memoryinstatictls", 0, 16, K(NOT_OOM), 0, NULL},
    {W(ERRNO_12), NULL, 0, 0, K(HOST_ALLOCATOR), F(CERTAIN), "the system"},
    {W(WINDOWS_1455), NULL, 0, 0, K(HOST_ALLOCATOR), F(CERTAIN), "Windows"},
    {W(MORE_SYSTEM_MEMORY), NULL, 0, 0, K(HOST_ALLOCATOR), F(CERTAIN), "Ollama"},
    {W(OUT_OF_MEMORY), "javascriptheap", 16, 0, K(HOST_ALLOCATOR), F(CERTAIN), "JavaScript"},
    {W(OUT_OF_MEMORY), "fatalerror:runtime:", 20, 0, K(HOST_ALLOCATOR), F(CERTAIN), "Go"},
    {W(OUT_OF_MEMORY), "afteratotalof", 0, 60, K(HOST_ALLOCATOR), F(CERTAIN), "GCC"},
    {W(OUT_OF_MEMORY), "duckdb", 60, 60, K(HOST_ALLOCATOR), 0, "DuckDB"},
    {W(PAGING_FILE), NULL, 0, 0, K(HOST_ALLOCATOR), 0, "Windows"},
    {W(OUT_OF_MEMORY), "java.lang", 20, 0, K(HOST_ALLOCATOR), 0, "Java"},
    {W(OUT_OF_HOST_MEMORY), NULL, 0, 0, K(HOST_ALLOCATOR), 0, NULL},
    {W(OUT_OF_RAM), NULL, 0, 0, K(HOST_ALLOCATOR), 0, NULL},
    {W(MEMORY_SHORT_CHINESE), "\xe5\xb0\x9d\xe8\xaf\x95\xe5\x88\x86\xe9\x85\x8d", 0, 24,
     K(TORCH_CUDA), 0, "PyTorch, translated"},
    {W(MEMORY_SHORT_CHINESE), "cuda", 12, 0, K(CUDA_RAW), 0, NULL},
    {W(MEMORY_SHORT_CHINESE), NULL, 0, 0, K(HOST_ALLOCATOR), F(AMBIGUOUS), NULL},

    /* killed, and nobody says why */
    {W(KILLED), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {W(KILLED_CHINESE), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {W(KILLED_GERMAN), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {W(KILLED_JAPANESE), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {W(KILLED_KOREAN), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {W(KILLED_RUSSIAN), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {W(KILLED_RUSSIAN_CAPITAL), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {W(EXIT_CODE), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_CODE), NULL},
    {W(EXIT_STATUS), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_CODE), NULL},
    {W(RETURN_CODE), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_CODE), NULL},
    {W(EXITED_WITH_CODE), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_CODE), NULL},
    {W(EXITED_WITH_STATUS), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_CODE), NULL},
    {W(SIGNAL_9), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS), NULL},
    {W(SIGNAL_COLON_9), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS), NULL},
    {W(SIGKILL), NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS), NULL},
};

const size_t vw__host_rule_count = sizeof vw__host_rules / sizeof *vw__host_rules;

/* ---- GPU memory ------------------------------------------------------------------------------ */

/* The most specific rule comes first: a program that calls CUDA's runtime quotes CUDA's words too.
 * The last rules of a word are for unknown programs, and the very last ones for errors that are not
 * about memory. */
const vw__error_rule vw__gpu_rules[] = {
    /* PyTorch */
    {W(OUT_OF_MEMORY), "preemptivelyrejected", 0, 60, K(TORCH_CUDA), F(CAPPED) | F(CERTAIN),
     OWN_LIMIT},
    {W(OUT_OF_MEMORY), "warmingupsampler", 0, 60, K(VLLM), F(CERTAIN), NULL},
    {W(OUT_OF_MEMORY), "cudaoutofmemory", 4, 60, K(TORCH_CUDA), 0, NULL},
    {W(OUT_OF_MEMORY), "hipoutofmemory", 3, 60, K(TORCH_HIP), 0, NULL},
    {W(OUT_OF_MEMORY), "xpuoutofmemory", 3, 60, K(TORCH_XPU), 0, NULL},
    {W(OUT_OF_MEMORY), "mpsbackendoutofmemory", 10, 60, K(TORCH_MPS), 0, NULL},
    {W(OUT_OF_MEMORY), "npuoutofmemory", 3, 60, K(TORCH_OTHER), 0, NULL},
    {W(OUT_OF_MEMORY), "musaoutofmemory", 4, 60, K(TORCH_OTHER), 0, NULL},
    {W(OUT_OF_MEMORY), "hpuoutofmemory", 3, 60, K(TORCH_OTHER), 0, NULL},
    {W(OUT_OF_MEMORY), "mluoutofmemory", 3, 60, K(TORCH_OTHER), 0, NULL},
    {W(OUT_OF_MEMORY), "allocationondevice", 120, 40, K(CUDA_ASYNC), 0, NULL},
    {W(OUT_OF_MEMORY), "(npu", 0, 60, K(TORCH_OTHER), 0, NULL},
    {W(OUT_OF_MEMORY), "(musa", 0, 60, K(TORCH_OTHER), 0, NULL},
    {W(OUT_OF_MEMORY), "outofmemory.triedtoallocate", 0, 30, K(TORCH_CUDA), F(ANY_DEVICE), NULL},
    {W(OUT_OF_MEMORY), "cudaruntimeerr", 30, 0, K(TORCH_CUDA), 0, OLD_TORCH},
    {W(OUT_OF_MEMORY), "thcudacheck", 200, 0, K(TORCH_CUDA), 0, OLD_TORCH},
    {W(OUT_OF_MEMORY), "/thc", 160, 120, K(TORCH_CUDA), 0, OLD_TORCH},
    {W(OUT_OF_MEMORY), "libthc", 160, 120, K(TORCH_CUDA), 0, OLD_TORCH},
    {W(PREEMPTIVELY_REJECTED), NULL, 0, 0, K(TORCH_CUDA), F(CAPPED) | F(CERTAIN), OWN_LIMIT},
    {W(INVALID_BUFFER_SIZE), NULL, 0, 0, K(TORCH_MPS), F(NEEDS_SIZE), "Metal's largest buffer"},
    {W(FAILED_WITH_OOM), "oomondevice", 0, 20, K(TORCH_CUDA), F(CERTAIN), "PyTorch's log"},
    {W(ALLOCATION_ON_DEVICE), "outofmemory", 30, 80, K(CUDA_ASYNC), F(CERTAIN), NULL},
    {W(ALLOCATION_ON_DEVICE), "wouldexceedallowed", 0, 40, K(CUDA_ASYNC), F(CERTAIN), NULL},

    /* Paddle */
    {W(OUT_OF_MEMORY), "outofmemoryerrorongpu", 0, 0, K(OTHER_GPU), F(CERTAIN), "Paddle"},
    {W(OUT_OF_MEMORY), "paddle", 200, 60, K(OTHER_GPU), 0, "Paddle"},
    {W(RESOURCE_EXHAUSTED), "outofmemoryerrorongpu", 0, 80, K(OTHER_GPU), F(CERTAIN), "Paddle"},

    /* ONNX Runtime, TensorRT, DirectML */
    {W(OUT_OF_MEMORY), "bfcarena", 200, 0, K(OTHER_GPU), 0, "ONNX Runtime"},
    {W(OUT_OF_MEMORY), "cudaruntime(", 14, 0, K(OTHER_GPU), F(CERTAIN), "TensorRT"},
    {W(OUT_OF_MEMORY), "[trt]", 200, 60, K(OTHER_GPU), 0, "TensorRT"},
    {W(OUT_OF_MEMORY), "tensorrt", 200, 60, K(OTHER_GPU), 0, "TensorRT"},
    {W(COULD_NOT_BE_ALLOCATED), "amountofgpumemory", 60, 0, K(OTHER_GPU), F(CERTAIN), "TensorRT"},
    {W(RESOURCE_EXHAUSTED), "dmlallocator", 0, 240, K(OTHER_GPU), F(CERTAIN), "DirectML"},
    {W(OOM_WHEN_ALLOCATING), "dmlallocator", 0, 200, K(OTHER_GPU), F(CERTAIN), "DirectML"},
    {W(COULD_NOT_ALLOCATE), "gpuvideomemory", 0, 100, K(OTHER_GPU), F(CERTAIN), "DirectML"},
    {W(NOT_ENOUGH_VIDEO_MEMORY), NULL, 0, 0, K(OTHER_GPU), 0, "DirectML"},
    {W(TO_ALLOCATE), "forrequestedbuffer", 0, 30, K(OTHER_GPU), F(NEEDS_SIZE), "ONNX Runtime"},
    {W(REQUESTED_BUFFER), NULL, 0, 0, K(OTHER_GPU), F(NEEDS_SIZE), "ONNX Runtime"},
    {W(REQUESTED_BYTES_OF), NULL, 0, 0, K(OTHER_GPU), F(NEEDS_SIZE), "ONNX Runtime"},

    {W(OUT_OF_MEMORY), "onnx", 240, 200, K(OTHER_GPU), 0, "ONNX Runtime"},
    {W(CUDA_FAILURE), "onnx", 240, 200, K(OTHER_GPU), 0, "ONNX Runtime"},
    {W(OUT_OF_MEMORY), "dmlallocator", 16, 0, K(OTHER_GPU), F(CERTAIN), "DirectML"},

    /* JAX and TensorFlow, which share their lower half */
    {W(RESOURCE_EXHAUSTED), "oomwhenallocating", 0, 80, K(TENSORFLOW), F(CERTAIN), NULL},
    {W(RESOURCE_EXHAUSTED), "resourceexhaustederror", 0, 0, K(TENSORFLOW), 0, NULL},
    {W(RESOURCE_EXHAUSTED), "outofmemory", 0, 60, K(JAX), F(CERTAIN), NULL},
    {W(RESOURCE_EXHAUSTED), "toallocate", 0, 60, K(JAX), F(CERTAIN), NULL},
    {W(RESOURCE_EXHAUSTED), "hbm", 0, 120, K(JAX), F(CERTAIN), NULL},
    {W(RESOURCE_EXHAUSTED), "xla", 60, 40, K(JAX), 0, NULL},
    {W(RESOURCE_EXHAUSTED), "jax", 60, 40, K(JAX), 0, NULL},
    {W(RESOURCE_EXHAUSTED), "tensorflow", 120, 40, K(TENSORFLOW), 0, NULL},
    {W(OOM_WHEN_ALLOCATING), NULL, 0, 0, K(TENSORFLOW), F(CERTAIN), NULL},
    {W(OUT_OF_MEMORY), "resourceexhaustederror", 50, 0, K(TENSORFLOW), F(CERTAIN), NULL},
    {W(OUT_OF_MEMORY), "resourceexhausted", 50, 0, K(JAX), F(CERTAIN), NULL},
    {W(OUT_OF_MEMORY), "hbm", 0, 60, K(JAX), 0, NULL},
    {W(OUT_OF_MEMORY), "fromdevice:", 40, 0, K(TENSORFLOW), F(CERTAIN), NULL},
    {W(OUT_OF_MEMORY), "bfc)", 16, 0, K(TENSORFLOW), F(CERTAIN), NULL},
    {W(OUT_OF_MEMORY), "eigenallocator", 40, 0, K(TENSORFLOW), F(CERTAIN), NULL},
    {W(OUT_OF_MEMORY), "bfcallocator", 120, 0, K(TENSORFLOW), 0, NULL},
    {W(TO_ALLOCATE), "resourceexhausted", 50, 0, K(JAX), F(CERTAIN), NULL},
    {W(TO_ALLOCATE), "toallocaterequestfor", 0, 0, K(JAX), F(CERTAIN), NULL},
    {W(TO_ALLOCATE), "fromdevice:", 0, 50, K(TENSORFLOW), F(CERTAIN), NULL},
    {W(TO_ALLOCATE), "bfcallocator", 40, 0, K(TENSORFLOW), F(CERTAIN), NULL},

    /* CuPy */
    {W(OUT_OF_MEMORY), "cupy", 80, 0, K(CUPY), 0, NULL},
    {W(OUT_OF_MEMORY), "outofmemorytoallocate", 0, 30, K(CUPY), F(CERTAIN), NULL},
    {W(OUT_OF_MEMORY), "allocatedsofar", 0, 60, K(CUPY), F(CERTAIN), NULL},

    /* NCCL and ggml */
    {W(OUT_OF_MEMORY), "cudafailure", 24, 0, K(NCCL), F(CERTAIN), NULL},
    {W(CUDA_FAILURE), "outofmemory", 0, 24, K(NCCL), F(CERTAIN), NULL},
    {W(CUDA_CALLOC), "nccl", 80, 0, K(NCCL), F(CERTAIN), NULL},
    {W(OUT_OF_MEMORY), "ggml", 160, 160, K(GGML), 0, NULL},
    {W(OUT_OF_MEMORY), "llama", 160, 160, K(GGML), 0, NULL},
    {W(OUT_OF_MEMORY), "whispermodelload", 160, 160, K(GGML), 0, NULL},
    {W(GGML_POOL_FULL), NULL, 0, 0, K(GGML), F(CERTAIN), NULL},
    {W(MODEL_UNABLE_TO_ALLOCATE), NULL, 0, 0, K(GGML), F(CERTAIN), NULL},
    {W(TO_ALLOCATE), "ggml", 160, 80, K(GGML), F(NEEDS_SIZE), NULL},
    {W(TO_ALLOCATE), "llama", 160, 80, K(GGML), F(NEEDS_SIZE), NULL},
    {W(DEVICE_ALLOCATION_OF_SIZE), "ggml", 60, 60, K(GGML), 0, "Vulkan"},
    {W(DEVICE_ALLOCATION_OF_SIZE), NULL, 0, 0, K(OTHER_GPU), F(NEEDS_SIZE), NULL},
    {W(INSUFFICIENT_MEMORY), "ggml", 160, 100, K(GGML), 0, "Metal"},
    {W(OUT_OF_DEVICE_MEMORY), "ggml", 200, 60, K(GGML), 0, "Vulkan"},
    {W(OUT_OF_DEVICE_MEMORY), "urresulterror", 20, 0, K(TORCH_XPU), 0, "Intel's runtime"},
    {W(OUT_OF_DEVICE_MEMORY), "levelzero", 100, 60, K(TORCH_XPU), 0, "Intel's runtime"},
    {W(OUT_OF_DEVICE_MEMORY), "xpu", 100, 60, K(TORCH_XPU), 0, "Intel's runtime"},
    {W(OUT_OF_RESOURCE), "pierror", 12, 0, K(TORCH_XPU), F(AMBIGUOUS), "Intel's runtime"},
    {W(OUT_OF_RESOURCE), "urresulterror", 16, 0, K(TORCH_XPU), F(AMBIGUOUS), "Intel's runtime"},
    {W(OUT_OF_DEVICE_MEMORY), NULL, 0, 0, K(OTHER_GPU), 0, NULL},

    /* vLLM and SGLang */
    {W(NO_CACHE_MEMORY), NULL, 0, 0, K(VLLM), F(CERTAIN), NULL},
    {W(NO_GPU_BLOCKS), NULL, 0, 0, K(VLLM), F(CERTAIN), NULL},
    {W(STORED_IN_KV_CACHE), NULL, 0, 0, K(VLLM), F(CERTAIN), NULL},
    {W(KV_CACHE_IS_NEEDED), NULL, 0, 0, K(VLLM), F(CERTAIN), NULL},
    {W(ON_STARTUP_IS_LESS), NULL, 0, 0, K(VLLM), F(CERTAIN), NULL},
    {W(NOT_ENOUGH_MEMORY), "prefilltokens", 0, 60, K(OTHER_GPU), F(CERTAIN),
     "text-generation-inference"},
    {W(NOT_ENOUGH_MEMORY), "8007000e", 120, 60, K(OTHER_GPU), F(CERTAIN), "DirectML"},
    {W(NOT_ENOUGH_MEMORY), "memfractionstatic", 0, 60, K(OTHER_GPU), F(CERTAIN), "SGLang"},

    /* CUDA's libraries */
    {W(CUBLAS_STATUS), "allocfailed", 0, 14, K(CUBLAS), 0, NULL},
    {W(CUBLAS_STATUS), "statusnotinitialized", 0, 8, K(CUBLAS), F(AMBIGUOUS), NULL},
    {W(CUDNN_STATUS), "allocfailed", 0, 40, K(CUDNN), 0, NULL},
    {W(CUDNN_STATUS), "statusnotinitialized", 0, 8, K(CUDNN), F(AMBIGUOUS), NULL},
    {W(CUDNN_STATUS), "statusinternalerror", 0, 8, K(CUDNN), F(AMBIGUOUS), NULL},
    {W(CUDNN_NO_ALGORITHM), NULL, 0, 0, K(CUDNN), F(AMBIGUOUS), NULL},
    {W(CUDNN_NO_ENGINE), NULL, 0, 0, K(CUDNN), F(AMBIGUOUS), NULL},
    {W(CUSOLVER_STATUS), "allocfailed", 0, 18, K(CUSOLVER), 0, NULL},
    {W(CUSOLVER_STATUS), "create(", 0, 80, K(CUSOLVER), F(AMBIGUOUS), NULL},
    {W(CURAND_STATUS), NULL, 0, 0, K(CUDA_RAW), F(CERTAIN), "cuRAND"},
    {W(RESOURCE_ALLOCATION_FAILED), "cublasruntimeerr", 30, 0, K(CUBLAS), F(CERTAIN), NULL},
    {W(RESOURCE_ALLOCATION_FAILED), "cuda", 60, 20, K(CUDA_RAW), F(AMBIGUOUS), NULL},
    {W(ALLOC_FAILED), "cublasstatus", 20, 0, K(CUBLAS), 0, NULL},
    {W(ALLOC_FAILED), "cudnnstatus", 40, 0, K(CUDNN), 0, NULL},
    {W(ALLOC_FAILED), "cusolverstatus", 20, 0, K(CUSOLVER), 0, NULL},
    {W(ALLOC_FAILED), "cusparsestatus", 20, 0, K(CUDA_RAW), 0, "cuSPARSE"},
    {W(ALLOC_FAILED), "cufft", 10, 0, K(CUDA_RAW), 0, "cuFFT"},
    {W(ALLOC_FAILED), "cuda", 60, 20, K(CUDA_RAW), 0, NULL},

    /* a request, with or without the words */
    {W(MEMORY_IS_NOT_ENOUGH), NULL, 0, 0, K(OTHER_GPU), 0, "MindSpore"},
    {W(MEMORY_NOT_ENOUGH), NULL, 0, 0, K(OTHER_GPU), F(AMBIGUOUS), "MindSpore"},
    {W(FAILED_FOR_SIZE), NULL, 0, 0, K(TORCH_OTHER), F(NEEDS_SIZE), "Gaudi"},
    {W(TO_ALLOCATE), "rtmalloc", 160, 60, K(TORCH_OTHER), F(CERTAIN), "Ascend"},
    {W(ASCEND_CODE), NULL, 0, 0, K(TORCH_OTHER), F(CHECK_CODE), "Ascend"},
    {W(TO_ALLOCATE), "el0004", 60, 0, K(TORCH_OTHER), F(CERTAIN), "Ascend"},
    {W(TO_ALLOCATE), "cannotallocatememoryblock", 100, 0, K(TORCH_XPU), F(NEEDS_SIZE),
     "Intel's extension"},
    {W(CANNOT_ALLOCATE), "cannotallocatememoryblock", 0, 0, K(TORCH_XPU), F(NEEDS_SIZE),
     "Intel's extension"},
    {W(TO_ALLOCATE), "(npu", 0, 30, K(TORCH_OTHER), F(NEEDS_SIZE), NULL},
    {W(TO_ALLOCATE), "(musa", 0, 30, K(TORCH_OTHER), F(NEEDS_SIZE), NULL},
    {W(TO_ALLOCATE), "oomondevice", 60, 0, K(TORCH_CUDA), F(CERTAIN), "PyTorch's log"},
    {W(TO_ALLOCATE), "totalcapacity", 0, 80, K(TORCH_CUDA), F(NEEDS_SIZE), NULL},
    {W(TO_ALLOCATE), "totalcapacty", 0, 80, K(TORCH_CUDA), F(NEEDS_SIZE), NULL},
    {W(TO_ALLOCATE), "tensorflow", 160, 0, K(TENSORFLOW), F(NEEDS_SIZE), NULL},
    {W(TO_ALLOCATE), "onnx", 160, 0, K(OTHER_GPU), F(NEEDS_SIZE), "ONNX Runtime"},
    {W(TO_ALLOCATE), "triedtoallocate", 5, 0, K(TORCH_CUDA), F(NEEDS_SIZE) | F(SUMMARY), NULL},
    {W(TO_ALLOCATE), "metal", 60, 60, K(OTHER_GPU), F(NEEDS_SIZE), "Metal"},
    {W(TO_ALLOCATE), "cuda", 80, 80, K(CUDA_RAW), F(NEEDS_SIZE), NULL},
    {W(TO_ALLOCATE), "gpu", 80, 80, K(OTHER_GPU), F(NEEDS_SIZE), NULL},
    {W(TO_ALLOCATE), "vram", 80, 80, K(OTHER_GPU), F(NEEDS_SIZE), NULL},
    {W(CANNOT_ALLOCATE), "gpu", 60, 60, K(OTHER_GPU), F(NEEDS_SIZE), NULL},
    {W(COULD_NOT_ALLOCATE), "gpu", 60, 60, K(OTHER_GPU), F(NEEDS_SIZE), NULL},
    {W(COULD_NOT_BE_ALLOCATED), "gpu", 80, 40, K(OTHER_GPU), 0, NULL},

    /* the runtime and the driver */
    {W(DRIVER_ERROR_2), NULL, 0, 0, K(CUDA_RAW), F(CHECK_CODE), NULL},
    {W(MEM_OBJECT_FAILURE), NULL, 0, 0, K(OTHER_GPU), F(CERTAIN), "OpenCL"},
    {W(MEMORY_ERROR), "memobjectallocationfail", 0, 80, K(OTHER_GPU), F(CERTAIN), "OpenCL"},
    {W(MEMORY_ALLOCATION_OF), "gpu", 80, 80, K(OTHER_GPU), F(NEEDS_SIZE), NULL},
    {W(MEMORY_ALLOCATION_OF), "cuda", 80, 80, K(CUDA_RAW), F(NEEDS_SIZE), NULL},
    {W(ERROR_MEMORY_ALLOCATION), NULL, 0, 0, K(CUDA_RAW), 0, NULL},
    {W(OUT_OF_MEMORY), "pinmemory", 240, 0, K(HOST_PINNED), F(AMBIGUOUS), NULL},
    {W(OUT_OF_MEMORY), "hiperror", 30, 0, K(TORCH_HIP), 0, "HIP's runtime"},
    {W(OUT_OF_MEMORY), "hipmalloc", 60, 0, K(TORCH_HIP), 0, "HIP's runtime"},
    {W(OUT_OF_MEMORY), "rmm", 160, 60, K(CUDA_RAW), 0, "RMM"},
    {W(OUT_OF_MEMORY), "cudaerror", 60, 20, K(CUDA_RAW), 0, NULL},
    {W(OUT_OF_MEMORY), "torch", 16, 0, K(TORCH_CUDA), 0, NULL},
    {W(OUT_OF_MEMORY), "cuda", 160, 60, K(CUDA_RAW), 0, NULL},
    {W(CUDA_MALLOC), "memoryallocationfail", 0, 60, K(CUDA_RAW), 0, NULL},
    {W(POOL_SIZE_EXCEEDED), NULL, 0, 0, K(CUDA_RAW), F(CAPPED), "RMM"},
    {W(MEMORY_ERROR), "maximumpoolsizeexceeded", 0, 200, K(CUDA_RAW), F(CAPPED), "RMM"},
    {W(BAD_ALLOC), "maximumpoolsizeexceeded", 0, 200, K(CUDA_RAW), F(CAPPED), "RMM"},
    {W(BAD_ALLOC), "paddle", 60, 60, K(OTHER_GPU), 0, "Paddle"},
    {W(BAD_ALLOC), "rmm", 40, 200, K(CUDA_RAW), 0, "RMM"},
    {W(BAD_ALLOC), "cuda", 40, 160, K(CUDA_RAW), 0, NULL},
    {W(BAD_ALLOC), "thrust", 80, 80, K(CUDA_RAW), 0, "Thrust"},
    {W(BAD_ALLOCATION), "cuda", 40, 80, K(CUDA_RAW), 0, NULL},
    {W(MEMORY_ERROR), "rmm", 0, 200, K(CUDA_RAW), 0, "RMM"},
    {W(MEMORY_ERROR), "cuda", 0, 100, K(CUDA_RAW), 0, NULL},
    {W(OUT_OF_MEMORY), "metal", 160, 60, K(OTHER_GPU), 0, "Metal"},
    {W(OUT_OF_MEMORY), "gpu", 80, 80, K(OTHER_GPU), 0, NULL},
    {W(OUT_OF_MEMORY), "vram", 80, 80, K(OTHER_GPU), 0, NULL},
    {W(OUT_OF_MEMORY), "memoryerror", 24, 0, K(HOST_ALLOCATOR), 0, NULL},
    {W(OUT_OF_MEMORY), "outofmemoryerror", 0, 0, K(TORCH_CUDA), 0, NULL},
    {W(OUT_OF_MEMORY), NULL, 0, 0, K(CUDA_RAW), F(AMBIGUOUS), NULL},
    {W(OUT_OF_GPU_MEMORY), NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {W(OUT_OF_CUDA_MEMORY), NULL, 0, 0, K(CUDA_RAW), 0, NULL},
    {W(OUT_OF_VIDEO_MEMORY), NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {W(OUT_OF_VRAM), NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {W(NOT_ENOUGH_GPU_MEMORY), NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {W(NOT_ENOUGH_VRAM), NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {W(INSUFFICIENT_GPU_MEMORY), NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {W(VRAM_SHORT_CHINESE), NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {W(INSUFFICIENT_MEMORY), "gpu", 100, 100, K(OTHER_GPU), 0, NULL},
    {W(INSUFFICIENT_MEMORY), "metal", 100, 100, K(OTHER_GPU), 0, "Metal"},
    {W(INSUFFICIENT_MEMORY), "mtl", 100, 100, K(OTHER_GPU), 0, "Metal"},
    {W(NOT_ENOUGH_MEMORY), "gpu", 80, 80, K(OTHER_GPU), 0, NULL},
    {W(NOT_ENOUGH_MEMORY), "cuda", 80, 80, K(CUDA_RAW), 0, NULL},
    {W(OOM_ERROR), "cuda", 40, 40, K(CUDA_RAW), F(AMBIGUOUS), NULL},
    {W(CUDA_OOM), NULL, 0, 0, K(TORCH_CUDA), F(AMBIGUOUS), NULL},
    {W(GPU_OOM), NULL, 0, 0, K(OTHER_GPU), F(AMBIGUOUS), NULL},
    {W(GOT_AN_OOM), NULL, 0, 0, K(CUDA_RAW), F(AMBIGUOUS), NULL},
    {W(OOM_ERROR), NULL, 0, 0, K(CUDA_RAW), F(AMBIGUOUS), NULL},

    /* what is left is the host's */
    {W(MEMORY_ALLOCATION_OF), NULL, 0, 0, K(HOST_ALLOCATOR), F(NEEDS_SIZE), "Rust"},
    {W(BAD_ALLOC), NULL, 0, 0, K(HOST_ALLOCATOR), 0, "C++"},
    {W(MEMORY_ERROR), NULL, 0, 0, K(HOST_ALLOCATOR), F(CHECK_ERROR), "Python"},
    {W(CANNOT_ALLOCATE), NULL, 0, 0, K(HOST_ALLOCATOR), 0, NULL},
    {W(CANT_ALLOCATE), NULL, 0, 0, K(HOST_ALLOCATOR), 0, NULL},
    {W(NOT_ENOUGH_MEMORY), NULL, 0, 0, K(HOST_ALLOCATOR), F(AMBIGUOUS), NULL},
    {W(INSUFFICIENT_MEMORY), NULL, 0, 0, K(HOST_ALLOCATOR), F(AMBIGUOUS), NULL},
    {W(MEMORY_EXHAUSTED), "gpu", 12, 0, K(OTHER_GPU), 0, NULL},
    {W(MEMORY_EXHAUSTED), "cuda", 12, 0, K(CUDA_RAW), 0, NULL},
    {W(MEMORY_EXHAUSTED), NULL, 0, 0, K(HOST_ALLOCATOR), 0, NULL},
    {W(FAILED_TO_ALLOC), NULL, 0, 0, K(HOST_ALLOCATOR), F(AMBIGUOUS) | F(NEEDS_SIZE), NULL},
    {W(COULD_NOT_ALLOCATE), NULL, 0, 0, K(HOST_ALLOCATOR), F(AMBIGUOUS) | F(NEEDS_SIZE), NULL},
    {W(TO_ALLOCATE), NULL, 0, 0, K(HOST_ALLOCATOR), F(AMBIGUOUS) | F(NEEDS_SIZE), NULL},

    /* parts of PyTorch's message, whose beginning is lost */
    {W(TOTAL_CAPACITY), "(npu", 20, 0, K(TORCH_OTHER), F(PART), NULL},
    {W(TOTAL_CAPACITY), NULL, 0, 0, K(TORCH_CUDA), F(PART), NULL},
    {W(TOTAL_CAPACTY), NULL, 0, 0, K(TORCH_CUDA), F(PART), NULL},
    {W(ALREADY_ALLOCATED), NULL, 0, 0, K(TORCH_CUDA), F(PART), NULL},
    {W(RESERVED_IN_TOTAL), NULL, 0, 0, K(TORCH_CUDA), F(PART), NULL},
    {W(ALLOCATED_BY_PYTORCH), NULL, 0, 0, K(TORCH_CUDA), F(PART), NULL},
    {W(RESERVED_BY_PYTORCH), NULL, 0, 0, K(TORCH_CUDA), F(PART), NULL},

    /* someone's own words */
    {W(RESERVED_AGAINST), NULL, 0, 0, K(TORCH_CUDA), F(SUMMARY), "a summary"},
    {W(RESERVED_BUT_ONLY), NULL, 0, 0, K(TORCH_CUDA), F(SUMMARY), "a summary"},
    {W(RESERVED_WHILE_ONLY), NULL, 0, 0, K(TORCH_CUDA), F(SUMMARY), "a summary"},
    {W(RESERVED_VERSUS), NULL, 0, 0, K(TORCH_CUDA), F(SUMMARY), "a summary"},
    {W(RESERVED_VS), NULL, 0, 0, K(TORCH_CUDA), F(SUMMARY), "a summary"},

    /* other errors */
    {W(CUBLAS_STATUS), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(CUDNN_STATUS), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(CUSOLVER_STATUS), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(RESOURCE_EXHAUSTED), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(ERROR_COLON), NULL, 0, 0, K(NOT_OOM), F(CHECK_ERROR), NULL},
    {W(EXCEPTION_COLON), NULL, 0, 0, K(NOT_OOM), F(CHECK_ERROR), NULL},
    {W(TRACEBACK), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(ILLEGAL_ACCESS), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(DEVICE_ASSERT), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(OUT_OF_RESOURCE), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(NO_SPACE_LEFT), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(TERMINATE_CALLED), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(SEGMENTATION_FAULT), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(INVALID_DEVICE_POINTER), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(CUDA_FAILURE), NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {W(ASSERTION_FAILED), NULL, 0, 0, K(NOT_OOM), 0, NULL},
};

const size_t vw__gpu_rule_count = sizeof vw__gpu_rules / sizeof *vw__gpu_rules;

#undef W
#undef K
#undef F

/* ---- checks that a rule asks for ------------------------------------------------------------- */

/* The clean line around a letter, without the blanks at its ends. */
typedef struct clean_line {
    size_t first, end;
} clean_line;

static clean_line line_around(const vw__region *region, size_t letter)
{
    clean_line line = {region->clean_of[letter], region->clean_of[letter]};
    while (line.first > 0 && region->clean[line.first - 1] != '\n')
        line.first--;
    while (line.end < region->clean_bytes && region->clean[line.end] != '\n')
        line.end++;
    while (line.first < line.end && region->clean[line.first] == ' ')
        line.first++;
    while (line.end > line.first &&
           (region->clean[line.end - 1] == ' ' || region->clean[line.end - 1] == '.'))
        line.end--;
    return line;
}

/* A shell says it alone on its line, or with the process before it and the command behind. */
static bool is_killed_line(const vw__region *region, size_t at)
{
    clean_line line = line_around(region, at);
    size_t before = region->clean_of[at], behind = before;
    while (behind < line.end && (unsigned char)region->clean[behind] > ' ' &&
           region->clean[behind] != ':')
        behind++;
    while (before > line.first && region->clean[before - 1] == ' ')
        before--;
    const char *rest = region->clean + behind;
    size_t rest_bytes = line.end > behind ? line.end - behind : 0;
    bool is_alone = rest_bytes == 0 || (rest_bytes == 3 && memcmp(rest, ": 9", 3) == 0);
    if (before == line.first)
        return is_alone;
    if (before < region->clean_of[at] &&
        vw__ascii_is_digit(region->clean[before - 1])) /* "4711 Killed" */
        return rest_bytes == 0 || rest[0] == ' ';
    return before - line.first >= 4 && before - line.first <= 8 &&
           memcmp(region->clean + before - 3, "sh:", 3) == 0; /* "zsh: killed" */
}

/* Nothing that goes on with a letter or a digit at either end: "EL0004", not "model0004". */
static bool is_whole_code(const vw__region *region, size_t at, size_t length)
{
    size_t first = region->clean_of[at], behind = region->clean_of[at + length - 1] + (size_t)1;
    bool is_begun = first > 0 && (vw__ascii_is_digit(region->clean[first - 1]) ||
                                  vw__ascii_is_letter(region->clean[first - 1]));
    return !is_begun &&
           (behind >= region->clean_bytes || !vw__ascii_is_digit(region->clean[behind]));
}

/* 137, or -9: killed by signal 9, as shells and as Python say it. */
static bool is_killed_code(const vw__region *region, vw__word word, size_t at)
{
    if (word == VW__WORD_ASCEND_CODE || word == VW__WORD_DRIVER_ERROR_2)
        return is_whole_code(region, at, strlen(vw__word_text(word)));
    size_t end = at + 24 < region->letter_count ? at + 24 : region->letter_count;
    while (at < end && vw__ascii_is_lower(region->letters[at]))
        at++;
    while (at < end && !vw__ascii_is_digit(region->letters[at])) {
        if (strchr(":=(,[", region->letters[at]) == NULL)
            return false;
        at++;
    }
    size_t digits = at;
    while (digits < end && vw__ascii_is_digit(region->letters[digits]))
        digits++;
    if (digits - at == 3)
        return memcmp(region->letters + at, "137", 3) == 0;
    size_t clean = at < end ? region->clean_of[at] : 0;
    return digits - at == 1 && region->letters[at] == '9' && clean > 0 &&
           region->clean[clean - 1] == '-';
}

/* "error: 0.25" is a figure. MemoryError is an error's name only as a word of its own. */
static bool is_error_line(const vw__region *region, vw__word word, size_t at)
{
    if (word == VW__WORD_MEMORY_ERROR) {
        size_t behind = at + strlen("memoryerror");
        bool is_word = behind >= region->letter_count || region->letters[behind] == ':' ||
                       region->clean_of[behind] > region->clean_of[behind - 1] + 1;
        return is_word && !vw__region_precedes(region, at, "outof");
    }
    while (at < region->letter_count && region->letters[at] != ':')
        at++;
    return at + 1 < region->letter_count && !vw__ascii_is_digit(region->letters[at + 1]);
}

/* A program that is about to allocate something says so, too. */
static bool is_failed_request(const vw__region *region, size_t at)
{
    static const char *const before[] = {"failed",     "unable",    "tried", "failure",
                                         "attempting", "attempted", "fails", "memory"};
    return vw__region_precedes_any(region, at, before, sizeof before / sizeof *before);
}

static bool passes(const vw__region *region, const vw__error_rule *rule, size_t at)
{
    if (rule->word == VW__WORD_TO_ALLOCATE && (rule->flags & VW__RULE_NEEDS_SIZE) != 0 &&
        !is_failed_request(region, at))
        return false;
    if ((rule->flags & VW__RULE_CHECK_KILLED) != 0 && !is_killed_line(region, at))
        return false;
    if ((rule->flags & VW__RULE_CHECK_CODE) != 0 && !is_killed_code(region, rule->word, at))
        return false;
    return (rule->flags & VW__RULE_CHECK_ERROR) == 0 || is_error_line(region, rule->word, at);
}

/* ---- asking the rules ------------------------------------------------------------------------ */

size_t vw__error_next_head(const vw__region *region, size_t at, size_t last)
{
    static const char *const heads[] = {"cudaoutofmemory", "hipoutofmemory", "xpuoutofmemory",
                                        "mpsbackendoutofmemory"};
    size_t head, first = SIZE_MAX;
    for (size_t i = 0; at > 0 && i < sizeof heads / sizeof *heads; i++)
        if (vw__region_has(region, heads[i], at, last, &head) && head < first &&
            vw__region_line_start(region, head) > region->clean_of[at - 1])
            first = head;
    return first;
}

/* Is what was found ahead part of another message? "torch.OutOfMemoryError: CUDA out of memory"
 * says it twice, on two lines where a terminal broke them. */
static bool is_of_next_message(const vw__region *region, size_t end, size_t beside)
{
    return beside > end && !vw__region_continues(region, end, "error") &&
           vw__error_next_head(region, end, beside) <= beside;
}

static const vw__error_rule *find_in(const vw__error_rule *rules, size_t count,
                                     const vw__region *region, vw__word word,
                                     vw__error_place *place)
{
    for (size_t i = 0; i < count; i++) {
        const vw__error_rule *rule = &rules[i];
        size_t beside = place->at;
        if (rule->word != word)
            continue;
        size_t first = place->at >= rule->back ? place->at - rule->back : 0;
        if (first < place->first)
            first = place->first;
        if (rule->beside != NULL &&
            !vw__region_has(region, rule->beside, first, place->at + rule->ahead, &beside))
            continue;
        size_t end = place->at + strlen(vw__word_text(word));
        if (!passes(region, rule, place->at) || is_of_next_message(region, end, beside))
            continue;
        size_t beside_end = beside;
        if (rule->beside != NULL)
            beside_end += strlen(rule->beside);
        place->start = beside < place->at ? beside : place->at;
        place->end = beside_end > end ? beside_end : end;
        return rule;
    }
    return NULL;
}

/* Words that only say that an allocation failed. */
static bool is_vague(vw__word word)
{
    return word == VW__WORD_TO_ALLOCATE || word == VW__WORD_FAILED_TO_ALLOC ||
           word == VW__WORD_CANNOT_ALLOCATE || word == VW__WORD_COULD_NOT_ALLOCATE ||
           word == VW__WORD_ALLOC_FAILED || word == VW__WORD_MEMORY_ERROR;
}

const vw__error_rule *vw__error_rule_find(const vw__region *region, vw__word word,
                                          vw__error_place *place)
{
    enum { NEAR_ENOUGH = 100 };
    size_t original = place->at, next;
    if (word == VW__WORD_FAILED_TO_ALLOC &&
        vw__region_has(region, "toallocate", place->at, place->at + 6, &place->at))
        word = VW__WORD_TO_ALLOCATE;
    const vw__error_rule *rule = find_in(vw__host_rules, vw__host_rule_count, region, word, place);
    if (rule != NULL)
        return rule;
    if (is_vague(word) &&
        vw__region_has(region, "outofmemory", place->at, place->at + NEAR_ENOUGH, &next)) {
        place->at = next;
        word = VW__WORD_OUT_OF_MEMORY;
        rule = find_in(vw__host_rules, vw__host_rule_count, region, word, place);
    }
    if (rule == NULL)
        rule = find_in(vw__gpu_rules, vw__gpu_rule_count, region, word, place);
    if (rule != NULL && original < place->start)
        place->start = original;
    return rule;
}

/* "XYZ out of memory. Tried to allocate": PyTorch on an accelerator that we do not know. */
static bool is_unknown_accelerator(const vw__region *region, size_t at)
{
    size_t end = region->clean_of[at];
    while (end > 0 && region->clean[end - 1] == ' ')
        end--;
    size_t first = end;
    while (first > 0 && vw__ascii_is_upper(region->clean[first - 1]))
        first--;
    size_t length = end - first;
    bool is_rest_of_cuda =
        length < 4 && memcmp(region->clean + first, &"CUDA"[4 - length], length) == 0;
    bool is_gpu = length == 3 && memcmp(region->clean + first, "GPU", 3) == 0;
    return length >= 2 && length <= 8 && !is_gpu && !(first == 0 && is_rest_of_cuda);
}

vw__error_kind vw__error_rule_kind(const vw__region *region, const vw__error_rule *rule,
                                   const vw__error_place *place)
{
    size_t first = place->start > 240 ? place->start - 240 : 0;
    if (first < place->first)
        first = place->first;
    if ((rule->flags & VW__RULE_ANY_DEVICE) != 0 && is_unknown_accelerator(region, place->at))
        return VW__ERROR_TORCH_OTHER;
    if (rule->kind == VW__ERROR_TENSORFLOW &&
        (vw__region_has(region, "external/orgtensorflow", first, place->at, NULL) ||
         vw__region_has(region, "external/xla", first, place->at, NULL) ||
         vw__region_has(region, "jax", first, place->at + 60, NULL)))
        return VW__ERROR_JAX;
    return rule->kind;
}
