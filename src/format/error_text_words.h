/* error_text_words.h - the words that give a report away, and how they are found.
 *
 * Words are compared *squeezed*: in lower case, and without blanks, line ends, hyphens,
 * underscores, quotes and the marks of markdown. "CUDA out of memory", "CUDA_ERROR_OUT_OF_MEMORY"
 * and a message that a terminal broke after "out of mem" are then the same letters in a row, and
 * nobody has to guess whether a line break stood for a blank.
 *
 * SCAN words are looked for in the whole text, and each of them costs time there: they are at least
 * VW__SHORTEST_SCAN_WORD long. NEAR words only matter beside one of those. */
#ifndef VW_FORMAT_ERROR_TEXT_WORDS_H
#define VW_FORMAT_ERROR_TEXT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VW__SHORTEST_SCAN_WORD 6

/* Where two begin at the same place, the one that stands first here is tried first. */
#define VW__WORD_LIST(X)                                                                           \
    /* running out, in so many words */                                                            \
    X(OUT_OF_MEMORY, "outofmemory", SCAN)                                                          \
    X(OUT_OF_GPU_MEMORY, "outofgpumemory", SCAN)                                                   \
    X(OUT_OF_CUDA_MEMORY, "outofcudamemory", SCAN)                                                 \
    X(OUT_OF_DEVICE_MEMORY, "outofdevicememory", SCAN)                                             \
    X(OUT_OF_VIDEO_MEMORY, "outofvideomemory", SCAN)                                               \
    X(OUT_OF_VRAM, "outofvram", SCAN)                                                              \
    X(OUT_OF_RAM, "outofram", SCAN)                                                                \
    X(OUT_OF_HOST_MEMORY, "outofhostmemory", SCAN)                                                 \
    X(NOT_ENOUGH_MEMORY, "notenoughmemory", SCAN)                                                  \
    X(NOT_ENOUGH_GPU_MEMORY, "notenoughgpumemory", SCAN)                                           \
    X(NOT_ENOUGH_VIDEO_MEMORY, "notenoughgpuvideomemory", SCAN)                                    \
    X(NOT_ENOUGH_VRAM, "notenoughvram", SCAN)                                                      \
    X(INSUFFICIENT_MEMORY, "insufficientmemory", SCAN)                                             \
    X(INSUFFICIENT_GPU_MEMORY, "insufficientgpumemory", SCAN)                                      \
    X(MEMORY_EXHAUSTED, "memoryexhausted", SCAN)                                                   \
    X(RESOURCE_EXHAUSTED, "resourceexhausted", SCAN)                                               \
    X(OOM_WHEN_ALLOCATING, "oomwhenallocating", SCAN)                                              \
    X(FAILED_WITH_OOM, "failedwithoom", SCAN)                                                      \
    X(OOM_ERROR, "oomerror", SCAN)                                                                 \
    X(CUDA_OOM, "cudaoom", SCAN)                                                                   \
    X(GPU_OOM, "gpuoom", SCAN)                                                                     \
    X(GOT_AN_OOM, "gotanoom", SCAN)                                                                \
    X(VRAM_SHORT_CHINESE, "\xe6\x98\xbe\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3", SCAN)                \
    X(MEMORY_SHORT_CHINESE, "\xe5\x86\x85\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3", SCAN)              \
    /* an allocation that failed */                                                                \
    X(TO_ALLOCATE, "toallocate", SCAN)                                                             \
    X(FAILED_TO_ALLOC, "failedtoalloc", SCAN)                                                      \
    X(CANNOT_ALLOCATE, "cannotallocate", SCAN)                                                     \
    X(CANT_ALLOCATE, "cantallocate", SCAN)                                                         \
    X(COULD_NOT_ALLOCATE, "couldnotallocate", SCAN)                                                \
    X(COULD_NOT_BE_ALLOCATED, "couldnotbeallocated", SCAN)                                         \
    X(ALLOC_FAILED, "allocfailed", SCAN)                                                           \
    X(MEMORY_ALLOCATION_FAIL, "memoryallocationfail", SCAN)                                        \
    X(ERROR_MEMORY_ALLOCATION, "cudaerrormemoryallocation", SCAN)                                  \
    X(DEVICE_ALLOCATION_OF_SIZE, "memoryallocationofsize", SCAN)                                   \
    X(MEMORY_ALLOCATION_OF, "memoryallocationof", SCAN)                                            \
    X(MEM_OBJECT_FAILURE, "memobjectallocationfail", SCAN)                                         \
    X(ALLOCATION_ON_DEVICE, "allocationondevice", SCAN)                                            \
    X(CUDA_MALLOC, "cudamalloc", SCAN)                                                             \
    X(CUDA_CALLOC, "cudacalloc", SCAN)                                                             \
    X(POOL_SIZE_EXCEEDED, "maximumpoolsizeexceeded", SCAN)                                         \
    X(REQUESTED_BUFFER, "forrequestedbuffer", SCAN)                                                \
    X(REQUESTED_BYTES_OF, "smallerthanrequestedbytes", SCAN)                                       \
    X(PREEMPTIVELY_REJECTED, "preemptivelyrejected", SCAN)                                         \
    X(INVALID_BUFFER_SIZE, "invalidbuffersize", SCAN)                                              \
    X(MODEL_UNABLE_TO_ALLOCATE, "loadingmodel:unabletoallocate", SCAN)                             \
    X(GGML_POOL_FULL, "notenoughspaceinthecontext", SCAN)                                          \
    X(MEMORY_IS_NOT_ENOUGH, "memoryisntenough", SCAN)                                              \
    X(MEMORY_NOT_ENOUGH, "memorynotenough", SCAN)                                                  \
    X(FAILED_FOR_SIZE, "allocationfailedforsize", SCAN)                                            \
    /* the parts of PyTorch's messages */                                                          \
    X(TOTAL_CAPACITY, "totalcapacity", SCAN)                                                       \
    X(TOTAL_CAPACTY, "totalcapacty", SCAN)                                                         \
    X(ALREADY_ALLOCATED, "alreadyallocated", SCAN)                                                 \
    X(RESERVED_IN_TOTAL, "reservedintotal", SCAN)                                                  \
    X(ALLOCATED_BY_PYTORCH, "isallocatedbypytorch", SCAN)                                          \
    X(RESERVED_BY_PYTORCH, "isreservedbypytorch", SCAN)                                            \
    X(RESERVED_AGAINST, "reservedagainst", SCAN)                                                   \
    X(RESERVED_BUT_ONLY, "reservedbutonly", SCAN)                                                  \
    X(RESERVED_WHILE_ONLY, "reservedwhileonly", SCAN)                                              \
    X(RESERVED_VERSUS, "reservedversus", SCAN)                                                     \
    X(RESERVED_VS, "reservedvs", SCAN)                                                             \
    /* libraries */                                                                                \
    X(CUBLAS_STATUS, "cublasstatus", SCAN)                                                         \
    X(CUDNN_STATUS, "cudnnstatus", SCAN)                                                           \
    X(CUSOLVER_STATUS, "cusolverstatus", SCAN)                                                     \
    X(CUDNN_NO_ALGORITHM, "validcudnnalgorithm", SCAN)                                             \
    X(CUDNN_NO_ENGINE, "unabletofindanengine", SCAN)                                               \
    X(CURAND_STATUS, "curandstatusallocationfail", SCAN)                                           \
    X(RESOURCE_ALLOCATION_FAILED, "resourceallocationfailed", SCAN)                                \
    X(DRIVER_ERROR_2, "cudadrivererror:2", SCAN)                                                   \
    X(CUBLAS_RUNTIME_ERROR, "cublasruntimeerr", NEAR)                                              \
    X(CUSPARSE_STATUS, "cusparsestatus", NEAR)                                                     \
    X(CUFFT, "cufft", NEAR)                                                                        \
    X(STATUS_NOT_INITIALIZED, "statusnotinitialized", NEAR)                                        \
    X(STATUS_INTERNAL_ERROR, "statusinternalerror", NEAR)                                          \
    X(HANDLE_CREATE, "create(", NEAR)                                                              \
    X(BAD_ALLOC, "badalloc", SCAN)                                                                 \
    X(BAD_ALLOCATION, "badallocation", SCAN)                                                       \
    /* vLLM and its like */                                                                        \
    X(NO_CACHE_MEMORY, "noavailablememoryforthecache", SCAN)                                       \
    X(NO_GPU_BLOCKS, "gpublocks:0,", SCAN)                                                         \
    X(STORED_IN_KV_CACHE, "storedinkvcache", SCAN)                                                 \
    X(KV_CACHE_IS_NEEDED, "kvcacheisneeded", SCAN)                                                 \
    X(ON_STARTUP_IS_LESS, "onstartupislessthan", SCAN)                                             \
    X(MEM_FRACTION_STATIC, "memfractionstatic", NEAR)                                              \
    X(PREFILL_TOKENS, "prefilltokens", NEAR)                                                       \
    X(WARMING_UP, "warmingupsampler", NEAR)                                                        \
    /* the host */                                                                                 \
    X(CPU_ALLOCATOR, "cpuallocator", SCAN)                                                         \
    X(POSIX_MEMALIGN, "posixmemalign", SCAN)                                                       \
    X(ARRAY_MEMORY_ERROR, "arraymemoryerror", SCAN)                                                \
    X(MEMORY_ERROR, "memoryerror", SCAN)                                                           \
    X(PAGING_FILE, "pagingfileistoosmall", SCAN)                                                   \
    X(WINDOWS_1455, "winerror1455", SCAN)                                                          \
    X(ERRNO_12, "[errno12]", SCAN)                                                                 \
    X(MORE_SYSTEM_MEMORY, "requiresmoresystemmemory", SCAN)                                        \
    X(OOM_KILL, "oomkill", SCAN)                                                                   \
    X(OOM_REAPER, "oomreaper", SCAN)                                                               \
    X(KILLED_PROCESS, "killedprocess", SCAN)                                                       \
    X(LOW_ON_MEMORY, "lowonmemory", SCAN)                                                          \
    X(MEMORY_PRESSURE, "memorypressure", SCAN)                                                     \
    X(EXCEEDED_MEMORY_LIMIT, "exceededmemorylimit", SCAN)                                          \
    X(EXCEEDED_JOB_MEMORY, "exceededjobmemorylimit", SCAN)                                         \
    X(EXCEEDED_STEP_MEMORY, "exceededstepmemorylimit", SCAN)                                       \
    X(LSF_MEMORY_LIMIT, "termmemlimit", SCAN)                                                      \
    X(PBS_MEMORY_LIMIT, "jobkilled:mem", SCAN)                                                     \
    X(PBS_VIRTUAL_LIMIT, "jobkilled:vmem", SCAN)                                                   \
    X(SYSTEMD_OOMD, "systemdoomd", SCAN)                                                           \
    X(SLURM_STATE_CUT, "outofme+", SCAN)                                                           \
    X(ALL_AVAILABLE_RAM, "usingallavailableram", SCAN)                                             \
    X(MORE_THAN_AVAILABLE, "morememorythanisavailable", SCAN)                                      \
    X(KILLED_SIGNAL, "killedsignalterminated", SCAN)                                               \
    X(KERNEL_DIED, "kernelappearstohavedied", SCAN)                                                \
    X(EXCESSIVE_MEMORY, "excessivememoryusage", SCAN)                                              \
    X(DATALOADER_WORKER, "dataloaderworker", SCAN)                                                 \
    X(SHARED_MEMORY, "sharedmemory", SCAN)                                                         \
    X(BUS_ERROR, "buserror", SCAN)                                                                 \
    X(DEV_SHM, "/dev/shm", SCAN)                                                                   \
    X(WRITE_TORCH_FILE, "unabletowritetofile", SCAN)                                               \
    X(UNABLE_TO_MMAP, "unabletommap", SCAN)                                                        \
    X(KILLED, "killed", SCAN)                                                                      \
    X(KILLED_CHINESE, "\xe5\xb7\xb2\xe6\x9d\x80\xe6\xad\xbb", SCAN)                                \
    X(KILLED_GERMAN, "get\xc3\xb6tet", SCAN)                                                       \
    X(KILLED_JAPANESE, "\xe5\xbc\xb7\xe5\x88\xb6\xe7\xb5\x82\xe4\xba\x86", SCAN)                   \
    X(KILLED_KOREAN, "\xec\xa3\xbd\xec\x97\x88\xec\x9d\x8c", SCAN)                                 \
    X(KILLED_RUSSIAN, "\xd1\x83\xd0\xb1\xd0\xb8\xd1\x82\xd0\xbe", SCAN)                            \
    X(KILLED_RUSSIAN_CAPITAL, "\xd0\xa3\xd0\xb1\xd0\xb8\xd1\x82\xd0\xbe", SCAN)                    \
    X(EXIT_CODE, "exitcode", SCAN)                                                                 \
    X(EXIT_STATUS, "exitstatus", SCAN)                                                             \
    X(RETURN_CODE, "returncode", SCAN)                                                             \
    X(EXITED_WITH_CODE, "exitedwithcode", SCAN)                                                    \
    X(EXITED_WITH_STATUS, "exitedwithstatus", SCAN)                                                \
    X(SIGNAL_9, "signal9", SCAN)                                                                   \
    X(SIGNAL_COLON_9, "signal:9", SCAN)                                                            \
    X(SIGKILL, "sigkill", SCAN)                                                                    \
    /* what is no report of running out */                                                         \
    X(ERROR_COLON, "error:", SCAN)                                                                 \
    X(EXCEPTION_COLON, "exception:", SCAN)                                                         \
    X(TRACEBACK, "traceback(mostrecent", SCAN)                                                     \
    X(ILLEGAL_ACCESS, "illegalmemoryaccess", SCAN)                                                 \
    X(DEVICE_ASSERT, "devicesideassert", SCAN)                                                     \
    X(OUT_OF_RESOURCE, "outofresource", SCAN)                                                      \
    X(NO_SPACE_LEFT, "nospaceleft", SCAN)                                                          \
    X(TERMINATE_CALLED, "terminatecalled", SCAN)                                                   \
    X(SEGMENTATION_FAULT, "segmentationfault", SCAN)                                               \
    X(INVALID_DEVICE_POINTER, "invaliddevicepointer", SCAN)                                        \
    X(CUDA_FAILURE, "cudafailure", SCAN)                                                           \
    X(ASSERTION_FAILED, "assertionfailed", SCAN)                                                   \
    X(INVALID_ARGUMENT, "invalidargument", NEAR)                                                   \
    X(TOO_MANY_FILES, "toomanyopenfiles", NEAR)                                                    \
    X(SETTING_EXPANDABLE, "expandablesegment", SCAN)                                               \
    /* whose it is */                                                                              \
    X(OUT_OF_MEMORY_ERROR, "outofmemoryerror", NEAR)                                               \
    X(OUT_OF_MEMORY_TRIED, "outofmemory.triedtoallocate", NEAR)                                    \
    X(CUDA_HEAD, "cudaoutofmemory", NEAR)                                                          \
    X(HIP_HEAD, "hipoutofmemory", NEAR)                                                            \
    X(XPU_HEAD, "xpuoutofmemory", NEAR)                                                            \
    X(NPU_HEAD, "npuoutofmemory", NEAR)                                                            \
    X(MUSA_HEAD, "musaoutofmemory", NEAR)                                                          \
    X(HPU_HEAD, "hpuoutofmemory", NEAR)                                                            \
    X(MLU_HEAD, "mluoutofmemory", NEAR)                                                            \
    X(MPS_HEAD, "mpsbackendoutofmemory", NEAR)                                                     \
    X(TRIED_TO_ALLOCATE, "triedtoallocate", NEAR)                                                  \
    X(YOU_TRIED, "youtriedtoallocate", NEAR)                                                       \
    X(NPU_NUMBER, "(npu", NEAR)                                                                    \
    X(MUSA_NUMBER, "(musa", NEAR)                                                                  \
    X(TORCH, "torch", NEAR)                                                                        \
    X(OOM_ON_DEVICE, "oomondevice", NEAR)                                                          \
    X(CANNOT_BLOCK, "cannotallocatememoryblock", NEAR)                                             \
    X(RT_MALLOC, "rtmalloc", NEAR)                                                                 \
    X(ASCEND_CODE, "el0004", SCAN)                                                                 \
    X(CUDA_RUNTIME_ERROR, "cudaruntimeerr", NEAR)                                                  \
    X(THC_CHECK, "thcudacheck", NEAR)                                                              \
    X(THC_FOLDER, "/thc", NEAR)                                                                    \
    X(THC_LIBRARY, "libthc", NEAR)                                                                 \
    X(RAY, "ray.exceptions", NEAR)                                                                 \
    X(RAYLET, "raylet", NEAR)                                                                      \
    X(OUT_OF_MEMORY_KILL, "outofmemory:kill", NEAR)                                                \
    X(OUT_OF_MEMORY_HANDLER, "outofmemoryhandler", NEAR)                                           \
    X(CGROUP, "cgroup", NEAR)                                                                      \
    X(JAVA, "java.lang", NEAR)                                                                     \
    X(JAVASCRIPT_HEAP, "javascriptheap", NEAR)                                                     \
    X(GO_RUNTIME, "fatalerror:runtime:", NEAR)                                                     \
    X(AFTER_A_TOTAL, "afteratotalof", NEAR)                                                        \
    X(DUCKDB, "duckdb", NEAR)                                                                      \
    X(SRUN, "srun:", NEAR)                                                                         \
    X(SLURM_EXIT, "0:125", NEAR)                                                                   \
    X(ALLOCATE_SHARED, "toallocatesharedmemory", NEAR)                                             \
    X(STATIC_TLS, "memoryinstatictls", NEAR)                                                       \
    X(TRIED_CHINESE, "\xe5\xb0\x9d\xe8\xaf\x95\xe5\x88\x86\xe9\x85\x8d", NEAR)                     \
    X(BYTES_ON_HOST, "bytesonhost", NEAR)                                                          \
    X(PINNED, "pinned", NEAR)                                                                      \
    X(PIN_MEMORY, "pinmemory", NEAR)                                                               \
    X(CUDA_HOST_ALLOC, "cudahostalloc", NEAR)                                                      \
    X(CUDA_HOST_REGISTER, "cudahostregister", NEAR)                                                \
    X(CUDA_MALLOC_HOST, "cudamallochost", NEAR)                                                    \
    X(CUDA_HOST_BUFFER, "cudahostbuffer", NEAR)                                                    \
    X(CPU_BUFFER, "cpubuffer", NEAR)                                                               \
    X(CPU_BUFFER_TYPE, "cpubuffertype", NEAR)                                                      \
    X(CPU_REPACK, "cpurepackbuffer", NEAR)                                                         \
    X(ALIGNED_MALLOC, "alignedmalloc", NEAR)                                                       \
    X(WOULD_EXCEED, "wouldexceedallowed", NEAR)                                                    \
    X(ERROR_ON_GPU, "outofmemoryerrorongpu", NEAR)                                                 \
    X(PADDLE, "paddle", NEAR)                                                                      \
    X(CUPY, "cupy", NEAR)                                                                          \
    X(CUPY_TO_ALLOCATE, "outofmemorytoallocate", NEAR)                                             \
    X(CUPY_SO_FAR, "allocatedsofar", NEAR)                                                         \
    X(JAX, "jax", NEAR)                                                                            \
    X(XLA, "xla", NEAR)                                                                            \
    X(EXTERNAL_TENSORFLOW, "external/orgtensorflow", NEAR)                                         \
    X(EXTERNAL_XLA, "external/xla", NEAR)                                                          \
    X(HBM, "hbm", NEAR)                                                                            \
    X(RESOURCE_EXHAUSTED_ERROR, "resourceexhaustederror", NEAR)                                    \
    X(REQUEST_FOR, "toallocaterequestfor", NEAR)                                                   \
    X(BFC, "bfc)", NEAR)                                                                           \
    X(BFC_ARENA, "bfcarena", NEAR)                                                                 \
    X(BFC_ALLOCATOR, "bfcallocator", NEAR)                                                         \
    X(FROM_DEVICE, "fromdevice:", NEAR)                                                            \
    X(EIGEN_ALLOCATOR, "eigenallocator", NEAR)                                                     \
    X(TENSORFLOW, "tensorflow", NEAR)                                                              \
    X(DML_ALLOCATOR, "dmlallocator", NEAR)                                                         \
    X(DML_ERROR, "8007000e", NEAR)                                                                 \
    X(ON_CPU, "device:cpu", NEAR)                                                                  \
    X(NOT_A_FAILURE, "notafailure", NEAR)                                                          \
    X(NOT_AN_ERROR, "notanerror", NEAR)                                                            \
    X(NCCL, "nccl", NEAR)                                                                          \
    X(GGML, "ggml", NEAR)                                                                          \
    X(LLAMA, "llama", NEAR)                                                                        \
    X(WHISPER_CPP, "whispermodelload", NEAR)                                                       \
    X(GPU_VIDEO_MEMORY, "gpuvideomemory", NEAR)                                                    \
    X(CUDA_RUNTIME_PAREN, "cudaruntime(", NEAR)                                                    \
    X(TENSORRT, "tensorrt", NEAR)                                                                  \
    X(TRT, "[trt]", NEAR)                                                                          \
    X(AMOUNT_OF_GPU_MEMORY, "amountofgpumemory", NEAR)                                             \
    X(ONNX, "onnx", NEAR)                                                                          \
    X(RMM, "rmm", NEAR)                                                                            \
    X(THRUST, "thrust", NEAR)                                                                      \
    X(METAL, "metal", NEAR)                                                                        \
    X(MTL, "mtl", NEAR)                                                                            \
    X(UR_RESULT, "urresulterror", NEAR)                                                            \
    X(PI_ERROR, "pierror", NEAR)                                                                   \
    X(LEVEL_ZERO, "levelzero", NEAR)                                                               \
    X(XPU, "xpu", NEAR)                                                                            \
    X(HIP_ERROR, "hiperror", NEAR)                                                                 \
    X(HIP_MALLOC, "hipmalloc", NEAR)                                                               \
    X(CUDA_ERROR, "cudaerror", NEAR)                                                               \
    X(CUDA, "cuda", NEAR)                                                                          \
    X(GPU, "gpu", NEAR)                                                                            \
    X(VRAM, "vram", NEAR)                                                                          \
    X(ARRAY_WITH_SHAPE, "arraywithshape", NEAR)                                                    \
    X(TOTAL_VM, "totalvm:", NEAR)                                                                  \
    X(BY_SIGNAL, "bysignal:", NEAR)                                                                \
    X(BY_SIGNAL_KILLED, "bysignal:killed", NEAR)                                                   \
    X(BY_SIGNAL_BUS, "bysignal:buserror", NEAR)                                                    \
    X(EXITED_UNEXPECTEDLY, "exitedunexpectedly", NEAR)                                             \
    X(OPEN_SHARED_OBJECT, "sharedmemoryobject", NEAR)                                              \
    X(INSUFFICIENT_SHARED, "insufficientsharedmemory", NEAR)                                       \
    X(OUT_OF_SHARED, "outofsharedmemory", NEAR)                                                    \
    X(SHARED_SEGMENT, "sharedmemorysegment", NEAR)                                                 \
    X(FAILED_TO_EXTEND, "failedtoextend", NEAR)                                                    \
    X(POSIX_FALLOCATE, "posixfallocate", NEAR)

typedef enum vw__word {
#define VW__WORD_ENUM(upper, text, role) VW__WORD_##upper,
    VW__WORD_LIST(VW__WORD_ENUM)
#undef VW__WORD_ENUM
        VW__WORD_COUNT
} vw__word;

/* The squeezed form of every byte; 0 = dropped. */
extern const unsigned char *const vw__squeezed;

#define VW__WORD_HASHES 4096

/* All SCAN words looked for at once, after Wu and Manber: two letters at the end of a window as
 * long as the shortest word say how far the window may move at least. */
typedef struct vw__word_search {
    uint8_t shift[VW__WORD_HASHES];
    uint16_t first[VW__WORD_HASHES]; /* word + 1, of those whose window ends so; 0 = none */
    uint16_t next[VW__WORD_COUNT];   /* word + 1 */
    uint16_t size_bytes[VW__WORD_COUNT];
} vw__word_search;

void vw__word_search_init(vw__word_search *search);

typedef struct vw__word_match {
    vw__word word;
    size_t at; /* of its first letter */
} vw__word_match;

/* Where a search stands: all zero at the beginning. */
typedef struct vw__word_cursor {
    size_t at;
    uint16_t candidate; /* word + 1: the next to try at `at`; 0 = look for the next place */
} vw__word_cursor;

/* The next match in squeezed letters, in the order of their places. */
bool vw__word_search_next(const vw__word_search *search, const char *letters, size_t size_bytes,
                          vw__word_cursor *cursor, vw__word_match *match);

/* The word itself: static. */
const char *vw__word_text(vw__word word);

#endif /* VW_FORMAT_ERROR_TEXT_WORDS_H */
