/* error_text_rules.c - which program wrote a message, and what kind of failure it is.
 *
 * A rule says what a word means beside another one. The tables come first, then the code that tries
 * them. A new program is a few rows here, and a word in error_text_words.h if nothing else gives
 * its message away. */
#include "parse/error_text_internal.h"

#include <string.h>

#define K(name) VW__ERROR_TEXT_##name
#define F(name) VW__ERROR_TEXT_RULE_##name
#define OLD_TORCH "PyTorch 0.x"
#define OWN_LIMIT "PyTorch 2.12 and later, refused by its own limit"
#define OWN_LOG "PyTorch's log"
#define NO_NVML "PyTorch, which failed to report it: NVML did not answer"

/* ---- host memory ----------------------------------------------------------------------------- */

/* Tried before the rules of GPUs: these messages borrow CUDA's words, while the reverse hardly ever
 * happens. A kill without a reason is host memory more often than anything else, and is marked
 * ambiguous. */
const vw__error_text_rule vw__error_text_host_rules[] = {
    /* the kernel, the cluster, the supervisor */
    /* Ray names the class of an error that a task had: PyTorch's. Its own has no such brackets. */
    {"outofmemory", "raytaskerror(", 14, 0, K(TORCH_CUDA), 0, NULL},
    {"outofmemory", "ray.exceptions", 30, 0, K(HOST_KILLED), F(CERTAIN), "Ray"},
    {"outofmemory", "outofmemory:kill", 0, 0, K(HOST_KILLED), F(CERTAIN), "the kernel"},
    {"outofmemory", "outofmemoryhandler", 0, 0, K(HOST_KILLED), F(CERTAIN), "a cgroup"},
    {"outofmemory", "cgroup", 16, 0, K(HOST_KILLED), F(CERTAIN), "a cgroup"},
    {"outofmemory", "killedprocess", 0, 40, K(HOST_KILLED), F(CERTAIN), "the kernel"},
    {"oomkill", NULL, 0, 0, K(HOST_KILLED), 0, "the kernel"},
    {"oomreaper", NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), "the kernel"},
    {"systemdoomd", "killed", 0, 40, K(HOST_KILLED), F(CERTAIN), "systemd-oomd"},
    {"outofme+", NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), "Slurm"},
    {"outofmemory", "0:125", 0, 30, K(HOST_KILLED), F(CERTAIN), "Slurm"},
    {"outofmemory", "srun:", 80, 0, K(HOST_KILLED), F(CERTAIN), "Slurm"},
    {"jobkilled:mem", NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), "PBS"},
    {"jobkilled:vmem", NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), "PBS"},
    {"killedprocess", "totalvm:", 0, 80, K(HOST_KILLED), F(CERTAIN), "the kernel"},
    {"lowonmemory", "killed", 80, 60, K(HOST_KILLED), 0, NULL},
    {"lowonmemory", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS), NULL},
    {"memorypressure", "raylet", 240, 60, K(HOST_KILLED), 0, "Ray"},
    {"memorypressure", "killed", 60, 40, K(HOST_KILLED), 0, NULL},
    {"exceededmemorylimit", NULL, 0, 0, K(HOST_KILLED), 0, NULL},
    {"exceededjobmemorylimit", NULL, 0, 0, K(HOST_KILLED), 0, NULL},
    {"exceededstepmemorylimit", NULL, 0, 0, K(HOST_KILLED), 0, NULL},
    {"termmemlimit", NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), NULL},
    {"usingallavailableram", NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), "a notebook"},
    {"morememorythanisavailable", NULL, 0, 0, K(HOST_KILLED), F(CERTAIN), "a notebook"},
    {"killedsignalterminated", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CERTAIN), "a compiler"},
    {"kernelappearstohavedied", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CERTAIN),
     "a notebook"},

    /* shared memory; before workers, which may say both */
    {"dataloaderworker", "bysignal:buserror", 0, 60, K(HOST_SHARED), F(CERTAIN), NULL},
    {"dataloaderworker", "outofsharedmemory", 0, 160, K(HOST_SHARED), 0, NULL},
    {"toallocate", "toallocatesharedmemory", 0, 0, K(HOST_SHARED), F(CERTAIN), NULL},
    {"[errno12]", "/dev/shm", 0, 120, K(HOST_SHARED), F(CERTAIN), NULL},
    {"sharedmemory", "toomanyopenfiles", 0, 160, K(NOT_OOM), 0, NULL},
    {"sharedmemory", "outofresource", 30, 0, K(NOT_OOM), 0, NULL},
    {"sharedmemory", "insufficientsharedmemory", 12, 0, K(HOST_SHARED), 0, NULL},
    {"sharedmemory", "outofsharedmemory", 5, 0, K(HOST_SHARED), 0, NULL},
    {"sharedmemory", "sharedmemorysegment", 0, 0, K(HOST_SHARED), 0, NULL},
    {"sharedmemory", "sharedmemoryobject", 0, 0, K(HOST_SHARED), 0, NULL},
    {"buserror", "insufficientsharedmemory", 0, 100, K(HOST_SHARED), F(CERTAIN), NULL},
    {"buserror", "outofsharedmemory", 0, 120, K(HOST_SHARED), F(CERTAIN), NULL},
    {"buserror", NULL, 0, 0, K(HOST_SHARED), F(AMBIGUOUS), NULL},
    {"/dev/shm", "failedtoextend", 30, 0, K(HOST_SHARED), F(CERTAIN), NULL},
    {"/dev/shm", "nospaceleft", 120, 120, K(HOST_SHARED), F(CERTAIN), NULL},
    {"/dev/shm", "cannotallocate", 120, 120, K(HOST_SHARED), F(CERTAIN), NULL},
    {"/dev/shm", "sharedmemorysegment", 60, 20, K(HOST_SHARED), F(CERTAIN), NULL},
    {"nospaceleft", "/dev/shm", 120, 120, K(HOST_SHARED), F(CERTAIN), NULL},
    {"nospaceleft", "posixfallocate", 60, 0, K(HOST_SHARED), F(CERTAIN), NULL},
    {"unabletowritetofile", "torch", 0, 30, K(HOST_SHARED), F(CERTAIN), NULL},
    {"unabletommap", "torch", 0, 60, K(HOST_SHARED), F(CERTAIN), NULL},
    {"unabletommap", "cannotallocate", 0, 160, K(HOST_ALLOCATOR), F(CERTAIN), NULL},

    /* workers */
    {"dataloaderworker", "bysignal:killed", 0, 60, K(HOST_WORKER), F(CERTAIN), NULL},
    {"dataloaderworker", "bysignal:", 0, 60, K(NOT_OOM), 0, NULL},
    {"excessivememoryusage", NULL, 0, 0, K(HOST_WORKER), F(AMBIGUOUS) | F(CERTAIN), "joblib"},
    {"dataloaderworker", "exitedunexpectedly", 0, 60, K(HOST_WORKER), F(AMBIGUOUS), NULL},

    /* pinned memory */
    {"toallocate", "invalidargument", 0, 60, K(NOT_OOM), 0, NULL},
    {"outofmemory", "bytesonhost", 60, 0, K(HOST_PINNED), F(CERTAIN), NULL},
    {"outofmemory", "pinned", 60, 40, K(HOST_PINNED), 0, NULL},
    {"outofmemory", "cudahostalloc", 160, 120, K(HOST_PINNED), 0, NULL},
    {"outofmemory", "cudahostregister", 160, 120, K(HOST_PINNED), 0, NULL},
    {"outofmemory", "cudamallochost", 160, 120, K(HOST_PINNED), 0, NULL},
    {"failedtoalloc", "bytesonhost", 0, 50, K(HOST_PINNED), F(CERTAIN), NULL},
    {"toallocate", "bytesonhost", 0, 50, K(HOST_PINNED), F(CERTAIN), NULL},
    {"toallocate", "pinned", 0, 50, K(HOST_PINNED), F(CERTAIN), NULL},
    {"toallocate", "cudahostbuffer", 0, 30, K(HOST_PINNED), F(CERTAIN), "ggml"},
    {"couldnotallocate", "pinned", 0, 40, K(HOST_PINNED), F(CERTAIN), NULL},
    {"cannotallocate", "pinned", 0, 60, K(HOST_PINNED), 0, NULL},

    /* allocators */
    {"cpuallocator", "cantallocate", 0, 60, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {"cpuallocator", "notenoughmemory", 0, 60, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {"cpuallocator", "youtriedtoallocate", 0, 100, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {"cpuallocator", "posixmemalign", 0, 40, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {"cantallocate", "cpuallocator", 60, 0, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {"cantallocate", "youtriedtoallocate", 0, 40, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {"notenoughmemory", "youtriedtoallocate", 0, 40, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {"posixmemalign", NULL, 0, 0, K(HOST_ALLOCATOR), 0, "PyTorch"},
    {"toallocate", "youtriedtoallocate", 8, 0, K(HOST_ALLOCATOR), F(CERTAIN), "PyTorch"},
    {"toallocate", "arraywithshape", 0, 50, K(HOST_ALLOCATOR), F(CERTAIN), "NumPy"},
    {"toallocate", "cpubuffer", 0, 30, K(HOST_ALLOCATOR), F(CERTAIN), "ggml"},
    {"toallocate", "cpubuffertype", 60, 0, K(HOST_ALLOCATOR), F(CERTAIN), "ggml"},
    {"toallocate", "cpurepackbuffer", 0, 30, K(HOST_ALLOCATOR), F(CERTAIN), "ggml"},
    {"insufficientmemory", "alignedmalloc", 30, 0, K(HOST_ALLOCATOR), F(CERTAIN), "ggml"},
    {"resourceexhausted", "device:cpu", 0, 200, K(HOST_ALLOCATOR), F(CERTAIN), "TensorFlow"},
    {"oomwhenallocating", "device:cpu", 0, 160, K(HOST_ALLOCATOR), F(CERTAIN), "TensorFlow"},
    {"arraymemoryerror", NULL, 0, 0, K(HOST_ALLOCATOR), 0, "NumPy"},
    {"cannotallocate", "memoryinstatictls", 0, 16, K(NOT_OOM), 0, NULL},
    {"[errno12]", NULL, 0, 0, K(HOST_ALLOCATOR), F(CERTAIN), "the system"},
    {"winerror1455", NULL, 0, 0, K(HOST_ALLOCATOR), F(CERTAIN), "Windows"},
    {"requiresmoresystemmemory", NULL, 0, 0, K(HOST_ALLOCATOR), F(CERTAIN), "Ollama"},
    {"outofmemory", "javascriptheap", 16, 0, K(HOST_ALLOCATOR), F(CERTAIN), "JavaScript"},
    {"outofmemory", "fatalerror:runtime:", 20, 0, K(HOST_ALLOCATOR), F(CERTAIN), "Go"},
    {"outofmemory", "afteratotalof", 0, 60, K(HOST_ALLOCATOR), F(CERTAIN), "GCC"},
    {"outofmemory", "duckdb", 60, 60, K(HOST_ALLOCATOR), 0, "DuckDB"},
    {"pagingfileistoosmall", NULL, 0, 0, K(HOST_ALLOCATOR), 0, "Windows"},
    {"outofmemory", "java.lang", 20, 0, K(HOST_ALLOCATOR), 0, "Java"},
    {"outofhostmemory", NULL, 0, 0, K(HOST_ALLOCATOR), 0, NULL},
    {"outofram", NULL, 0, 0, K(HOST_ALLOCATOR), 0, NULL},
    {"\xe5\x86\x85\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3" /* Chinese */,
     "\xe5\xb0\x9d\xe8\xaf\x95\xe5\x88\x86\xe9\x85\x8d", 0, 24, K(TORCH_CUDA), 0,
     "PyTorch, translated"},
    {"\xe5\x86\x85\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3" /* Chinese */, "cuda", 12, 0, K(CUDA_RAW),
     0, NULL},
    {"\xe5\x86\x85\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3" /* Chinese */, NULL, 0, 0,
     K(HOST_ALLOCATOR), F(AMBIGUOUS), NULL},

    /* killed, and nobody says why */
    {"killed", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {"\xe5\xb7\xb2\xe6\x9d\x80\xe6\xad\xbb" /* Chinese */, NULL, 0, 0, K(HOST_KILLED),
     F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {"get\xc3\xb6tet", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {"\xe5\xbc\xb7\xe5\x88\xb6\xe7\xb5\x82\xe4\xba\x86" /* Japanese */, NULL, 0, 0, K(HOST_KILLED),
     F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {"\xec\xa3\xbd\xec\x97\x88\xec\x9d\x8c" /* Korean */, NULL, 0, 0, K(HOST_KILLED),
     F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {"\xd1\x83\xd0\xb1\xd0\xb8\xd1\x82\xd0\xbe" /* Russian */, NULL, 0, 0, K(HOST_KILLED),
     F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {"\xd0\xa3\xd0\xb1\xd0\xb8\xd1\x82\xd0\xbe" /* Russian */, NULL, 0, 0, K(HOST_KILLED),
     F(AMBIGUOUS) | F(CHECK_KILLED), NULL},
    {"exitcode", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_CODE), NULL},
    {"exitstatus", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_CODE), NULL},
    {"returncode", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_CODE), NULL},
    {"exitedwithcode", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_CODE), NULL},
    {"exitedwithstatus", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS) | F(CHECK_CODE), NULL},
    {"signal9", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS), NULL},
    {"signal:9", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS), NULL},
    {"sigkill", NULL, 0, 0, K(HOST_KILLED), F(AMBIGUOUS), NULL},
};

const size_t vw__error_text_host_rule_count =
    sizeof vw__error_text_host_rules / sizeof *vw__error_text_host_rules;

/* ---- GPU memory ------------------------------------------------------------------------------ */

/* The most specific rule comes first: a program that calls CUDA's runtime quotes CUDA's words too.
 * The last rules of a word are for unknown programs, and the very last ones for errors that are not
 * about memory. */
const vw__error_text_rule vw__error_text_gpu_rules[] = {
    /* PyTorch */
    {"outofmemory", "preemptivelyrejected", 0, 60, K(TORCH_CUDA), F(CAPPED) | F(CERTAIN),
     OWN_LIMIT},
    {"outofmemory", "warmingupsampler", 0, 60, K(VLLM), F(CERTAIN), NULL},
    {"outofmemory", "cudaoutofmemory", 4, 60, K(TORCH_CUDA), 0, NULL},
    {"outofmemory", "hipoutofmemory", 3, 60, K(TORCH_HIP), 0, NULL},
    {"outofmemory", "xpuoutofmemory", 3, 60, K(TORCH_XPU), 0, NULL},
    {"outofmemory", "mpsbackendoutofmemory", 10, 60, K(TORCH_MPS), 0, NULL},
    {"outofmemory", "npuoutofmemory", 3, 60, K(TORCH_OTHER), 0, NULL},
    {"outofmemory", "musaoutofmemory", 4, 60, K(TORCH_OTHER), 0, NULL},
    {"outofmemory", "hpuoutofmemory", 3, 60, K(TORCH_OTHER), 0, NULL},
    {"outofmemory", "mluoutofmemory", 3, 60, K(TORCH_OTHER), 0, NULL},
    {"outofmemory", "allocationondevice", 120, 40, K(CUDA_ASYNC), 0, NULL},
    {"outofmemory", "(npu", 0, 60, K(TORCH_OTHER), 0, NULL},
    {"outofmemory", "(musa", 0, 60, K(TORCH_OTHER), 0, NULL},
    {"outofmemory", "outofmemory.triedtoallocate", 0, 30, K(TORCH_CUDA), F(ANY_DEVICE), NULL},
    {"outofmemory", "cudaruntimeerr", 30, 0, K(TORCH_CUDA), 0, OLD_TORCH},
    {"outofmemory", "thcudacheck", 200, 0, K(TORCH_CUDA), 0, OLD_TORCH},
    {"outofmemory", "/thc", 160, 120, K(TORCH_CUDA), 0, OLD_TORCH},
    {"outofmemory", "libthc", 160, 120, K(TORCH_CUDA), 0, OLD_TORCH},
    {"preemptivelyrejected", NULL, 0, 0, K(TORCH_CUDA), F(CAPPED) | F(CERTAIN), OWN_LIMIT},
    {"invalidbuffersize", NULL, 0, 0, K(TORCH_MPS), F(NEEDS_SIZE), "Metal's largest buffer"},
    {"failedwithoom", "oomondevice", 0, 20, K(TORCH_CUDA), F(CERTAIN) | F(RETRIED), OWN_LOG},
    {"nvmlsuccess==", "internalassertfailed", 0, 60, K(TORCH_CUDA), F(CERTAIN), NO_NVML},
    {"allocationondevice", "outofmemory", 30, 80, K(CUDA_ASYNC), F(CERTAIN), NULL},
    {"allocationondevice", "wouldexceedallowed", 0, 40, K(CUDA_ASYNC), F(CERTAIN), NULL},

    /* Paddle */
    {"outofmemory", "outofmemoryerrorongpu", 0, 0, K(OTHER_GPU), F(CERTAIN), "Paddle"},
    {"outofmemory", "paddle", 200, 60, K(OTHER_GPU), 0, "Paddle"},
    {"resourceexhausted", "outofmemoryerrorongpu", 0, 80, K(OTHER_GPU), F(CERTAIN), "Paddle"},

    /* ONNX Runtime, TensorRT, DirectML */
    {"outofmemory", "bfcarena", 200, 0, K(OTHER_GPU), 0, "ONNX Runtime"},
    {"outofmemory", "cudaruntime(", 14, 0, K(OTHER_GPU), F(CERTAIN), "TensorRT"},
    {"outofmemory", "[trt]", 200, 60, K(OTHER_GPU), 0, "TensorRT"},
    {"outofmemory", "tensorrt", 200, 60, K(OTHER_GPU), 0, "TensorRT"},
    {"couldnotbeallocated", "amountofgpumemory", 60, 0, K(OTHER_GPU), F(CERTAIN), "TensorRT"},
    {"resourceexhausted", "dmlallocator", 0, 240, K(OTHER_GPU), F(CERTAIN), "DirectML"},
    {"oomwhenallocating", "dmlallocator", 0, 200, K(OTHER_GPU), F(CERTAIN), "DirectML"},
    {"couldnotallocate", "gpuvideomemory", 0, 100, K(OTHER_GPU), F(CERTAIN), "DirectML"},
    {"notenoughgpuvideomemory", NULL, 0, 0, K(OTHER_GPU), 0, "DirectML"},
    {"toallocate", "forrequestedbuffer", 0, 30, K(OTHER_GPU), F(NEEDS_SIZE), "ONNX Runtime"},
    {"forrequestedbuffer", NULL, 0, 0, K(OTHER_GPU), F(NEEDS_SIZE), "ONNX Runtime"},
    {"smallerthanrequestedbytes", NULL, 0, 0, K(OTHER_GPU), F(NEEDS_SIZE), "ONNX Runtime"},

    {"outofmemory", "onnx", 240, 200, K(OTHER_GPU), 0, "ONNX Runtime"},
    {"cudafailure", "onnx", 240, 200, K(OTHER_GPU), 0, "ONNX Runtime"},
    {"outofmemory", "dmlallocator", 16, 0, K(OTHER_GPU), F(CERTAIN), "DirectML"},

    /* JAX and TensorFlow, which share their lower half */
    {"resourceexhausted", "oomwhenallocating", 0, 80, K(TENSORFLOW), F(CERTAIN), NULL},
    {"resourceexhausted", "resourceexhaustederror", 0, 0, K(TENSORFLOW), 0, NULL},
    {"resourceexhausted", "outofmemory", 0, 60, K(JAX), F(CERTAIN), NULL},
    {"resourceexhausted", "toallocate", 0, 60, K(JAX), F(CERTAIN), NULL},
    {"resourceexhausted", "hbm", 0, 120, K(JAX), F(CERTAIN), NULL},
    {"resourceexhausted", "xla", 60, 40, K(JAX), 0, NULL},
    {"resourceexhausted", "jax", 60, 40, K(JAX), 0, NULL},
    {"resourceexhausted", "tensorflow", 120, 40, K(TENSORFLOW), 0, NULL},
    {"oomwhenallocating", NULL, 0, 0, K(TENSORFLOW), F(CERTAIN), NULL},
    {"outofmemory", "resourceexhaustederror", 50, 0, K(TENSORFLOW), F(CERTAIN), NULL},
    {"outofmemory", "resourceexhausted", 50, 0, K(JAX), F(CERTAIN), NULL},
    {"outofmemory", "hbm", 0, 60, K(JAX), 0, NULL},
    {"outofmemory", "fromdevice:", 40, 0, K(TENSORFLOW), F(CERTAIN), NULL},
    {"outofmemory", "bfc)", 16, 0, K(TENSORFLOW), F(CERTAIN), NULL},
    {"outofmemory", "eigenallocator", 40, 0, K(TENSORFLOW), F(CERTAIN), NULL},
    {"outofmemory", "bfcallocator", 120, 0, K(TENSORFLOW), 0, NULL},
    {"toallocate", "resourceexhausted", 50, 0, K(JAX), F(CERTAIN), NULL},
    {"toallocate", "toallocaterequestfor", 0, 0, K(JAX), F(CERTAIN), NULL},
    {"toallocate", "fromdevice:", 0, 50, K(TENSORFLOW), F(CERTAIN), NULL},
    {"toallocate", "bfcallocator", 40, 0, K(TENSORFLOW), F(CERTAIN), NULL},

    /* CuPy */
    {"outofmemory", "cupy", 80, 0, K(CUPY), 0, NULL},
    {"outofmemory", "outofmemorytoallocate", 0, 30, K(CUPY), F(CERTAIN), NULL},
    {"outofmemory", "allocatedsofar", 0, 60, K(CUPY), F(CERTAIN), NULL},

    /* NCCL and ggml */
    {"outofmemory", "cudafailure", 24, 0, K(NCCL), F(CERTAIN), NULL},
    {"cudafailure", "outofmemory", 0, 24, K(NCCL), F(CERTAIN), NULL},
    {"cudacalloc", "nccl", 80, 0, K(NCCL), F(CERTAIN), NULL},
    {"outofmemory", "ggml", 160, 160, K(GGML), 0, NULL},
    {"outofmemory", "llama", 160, 160, K(GGML), 0, NULL},
    {"outofmemory", "whispermodelload", 160, 160, K(GGML), 0, NULL},
    {"notenoughspaceinthecontext", NULL, 0, 0, K(GGML), F(CERTAIN), NULL},
    {"loadingmodel:unabletoallocate", NULL, 0, 0, K(GGML), F(CERTAIN), NULL},
    {"toallocate", "ggml", 160, 80, K(GGML), F(NEEDS_SIZE), NULL},
    {"toallocate", "llama", 160, 80, K(GGML), F(NEEDS_SIZE), NULL},
    {"memoryallocationofsize", "ggml", 60, 60, K(GGML), 0, "Vulkan"},
    {"memoryallocationofsize", NULL, 0, 0, K(OTHER_GPU), F(NEEDS_SIZE), NULL},
    {"insufficientmemory", "ggml", 160, 100, K(GGML), 0, "Metal"},
    {"outofdevicememory", "ggml", 200, 60, K(GGML), 0, "Vulkan"},
    {"outofdevicememory", "urresulterror", 20, 0, K(TORCH_XPU), 0, "Intel's runtime"},
    {"outofdevicememory", "levelzero", 100, 60, K(TORCH_XPU), 0, "Intel's runtime"},
    {"outofdevicememory", "xpu", 100, 60, K(TORCH_XPU), 0, "Intel's runtime"},
    {"outofresource", "pierror", 12, 0, K(TORCH_XPU), F(AMBIGUOUS), "Intel's runtime"},
    {"outofresource", "urresulterror", 16, 0, K(TORCH_XPU), F(AMBIGUOUS), "Intel's runtime"},
    {"outofdevicememory", NULL, 0, 0, K(OTHER_GPU), 0, NULL},

    /* vLLM and SGLang */
    {"noavailablememoryforthecache", NULL, 0, 0, K(VLLM), F(CERTAIN), NULL},
    {"gpublocks:0,", NULL, 0, 0, K(VLLM), F(CERTAIN), NULL},
    {"storedinkvcache", NULL, 0, 0, K(VLLM), F(CERTAIN), NULL},
    {"kvcacheisneeded", NULL, 0, 0, K(VLLM), F(CERTAIN), NULL},
    {"onstartupislessthan", NULL, 0, 0, K(VLLM), F(CERTAIN), NULL},
    {"notenoughmemory", "prefilltokens", 0, 60, K(OTHER_GPU), F(CERTAIN),
     "text-generation-inference"},
    {"notenoughmemory", "8007000e", 120, 60, K(OTHER_GPU), F(CERTAIN), "DirectML"},
    {"notenoughmemory", "memfractionstatic", 0, 60, K(OTHER_GPU), F(CERTAIN), "SGLang"},

    /* CUDA's libraries */
    {"cublasstatus", "allocfailed", 0, 14, K(CUBLAS), 0, NULL},
    {"cublasstatus", "statusnotinitialized", 0, 8, K(CUBLAS), F(AMBIGUOUS), NULL},
    {"cudnnstatus", "allocfailed", 0, 40, K(CUDNN), 0, NULL},
    {"cudnnstatus", "statusnotinitialized", 0, 8, K(CUDNN), F(AMBIGUOUS), NULL},
    {"cudnnstatus", "statusinternalerror", 0, 8, K(CUDNN), F(AMBIGUOUS), NULL},
    {"validcudnnalgorithm", NULL, 0, 0, K(CUDNN), F(AMBIGUOUS), NULL},
    {"unabletofindanengine", NULL, 0, 0, K(CUDNN), F(AMBIGUOUS), NULL},
    {"cusolverstatus", "allocfailed", 0, 18, K(CUSOLVER), 0, NULL},
    {"cusolverstatus", "create(", 0, 80, K(CUSOLVER), F(AMBIGUOUS), NULL},
    {"curandstatusallocationfail", NULL, 0, 0, K(CUDA_RAW), F(CERTAIN), "cuRAND"},
    {"resourceallocationfailed", "cublasruntimeerr", 30, 0, K(CUBLAS), F(CERTAIN), NULL},
    {"resourceallocationfailed", "cuda", 60, 20, K(CUDA_RAW), F(AMBIGUOUS), NULL},
    {"allocfailed", "cublasstatus", 20, 0, K(CUBLAS), 0, NULL},
    {"allocfailed", "cudnnstatus", 40, 0, K(CUDNN), 0, NULL},
    {"allocfailed", "cusolverstatus", 20, 0, K(CUSOLVER), 0, NULL},
    {"allocfailed", "cusparsestatus", 20, 0, K(CUDA_RAW), 0, "cuSPARSE"},
    {"allocfailed", "cufft", 10, 0, K(CUDA_RAW), 0, "cuFFT"},
    {"allocfailed", "cuda", 60, 20, K(CUDA_RAW), 0, NULL},

    /* a request, with or without the words */
    {"memoryisntenough", NULL, 0, 0, K(OTHER_GPU), 0, "MindSpore"},
    {"memorynotenough", NULL, 0, 0, K(OTHER_GPU), F(AMBIGUOUS), "MindSpore"},
    {"allocationfailedforsize", NULL, 0, 0, K(TORCH_OTHER), F(NEEDS_SIZE), "Gaudi"},
    {"toallocate", "rtmalloc", 160, 60, K(TORCH_OTHER), F(CERTAIN), "Ascend"},
    {"el0004", NULL, 0, 0, K(TORCH_OTHER), F(CHECK_CODE), "Ascend"},
    {"toallocate", "el0004", 60, 0, K(TORCH_OTHER), F(CERTAIN), "Ascend"},
    {"toallocate", "cannotallocatememoryblock", 100, 0, K(TORCH_XPU), F(NEEDS_SIZE),
     "Intel's extension"},
    {"cannotallocate", "cannotallocatememoryblock", 0, 0, K(TORCH_XPU), F(NEEDS_SIZE),
     "Intel's extension"},
    {"toallocate", "(npu", 0, 30, K(TORCH_OTHER), F(NEEDS_SIZE), NULL},
    {"toallocate", "(musa", 0, 30, K(TORCH_OTHER), F(NEEDS_SIZE), NULL},
    {"toallocate", "oomondevice", 60, 0, K(TORCH_CUDA), F(CERTAIN) | F(RETRIED), OWN_LOG},
    {"toallocate", "totalcapacity", 0, 80, K(TORCH_CUDA), F(NEEDS_SIZE), NULL},
    {"toallocate", "totalcapacty", 0, 80, K(TORCH_CUDA), F(NEEDS_SIZE), NULL},
    {"toallocate", "tensorflow", 160, 0, K(TENSORFLOW), F(NEEDS_SIZE), NULL},
    {"toallocate", "onnx", 160, 0, K(OTHER_GPU), F(NEEDS_SIZE), "ONNX Runtime"},
    {"toallocate", "triedtoallocate", 5, 0, K(TORCH_CUDA), F(NEEDS_SIZE) | F(SUMMARY), NULL},
    {"toallocate", "metal", 60, 60, K(OTHER_GPU), F(NEEDS_SIZE), "Metal"},
    {"toallocate", "cuda", 80, 80, K(CUDA_RAW), F(NEEDS_SIZE), NULL},
    {"toallocate", "gpu", 80, 80, K(OTHER_GPU), F(NEEDS_SIZE), NULL},
    {"toallocate", "vram", 80, 80, K(OTHER_GPU), F(NEEDS_SIZE), NULL},
    {"cannotallocate", "gpu", 60, 60, K(OTHER_GPU), F(NEEDS_SIZE), NULL},
    {"couldnotallocate", "gpu", 60, 60, K(OTHER_GPU), F(NEEDS_SIZE), NULL},
    {"couldnotbeallocated", "gpu", 80, 40, K(OTHER_GPU), 0, NULL},

    /* the runtime and the driver */
    {"cudadrivererror:2", NULL, 0, 0, K(CUDA_RAW), F(CHECK_CODE), NULL},
    {"memobjectallocationfail", NULL, 0, 0, K(OTHER_GPU), F(CERTAIN), "OpenCL"},
    {"memoryerror", "memobjectallocationfail", 0, 80, K(OTHER_GPU), F(CERTAIN), "OpenCL"},
    {"memoryallocationof", "gpu", 80, 80, K(OTHER_GPU), F(NEEDS_SIZE), NULL},
    {"memoryallocationof", "cuda", 80, 80, K(CUDA_RAW), F(NEEDS_SIZE), NULL},
    {"cudaerrormemoryallocation", NULL, 0, 0, K(CUDA_RAW), 0, NULL},
    {"outofmemory", "pinmemory", 240, 0, K(HOST_PINNED), F(AMBIGUOUS), NULL},
    {"outofmemory", "hiperror", 30, 0, K(TORCH_HIP), 0, "HIP's runtime"},
    {"outofmemory", "hipmalloc", 60, 0, K(TORCH_HIP), 0, "HIP's runtime"},
    {"outofmemory", "rmm", 160, 60, K(CUDA_RAW), 0, "RMM"},
    {"outofmemory", "cudaerror", 60, 20, K(CUDA_RAW), 0, NULL},
    {"outofmemory", "torch", 16, 0, K(TORCH_CUDA), 0, NULL},
    {"outofmemory", "cuda", 160, 60, K(CUDA_RAW), 0, NULL},
    {"cudamalloc", "memoryallocationfail", 0, 60, K(CUDA_RAW), 0, NULL},
    {"maximumpoolsizeexceeded", NULL, 0, 0, K(CUDA_RAW), F(CAPPED), "RMM"},
    {"memoryerror", "maximumpoolsizeexceeded", 0, 200, K(CUDA_RAW), F(CAPPED), "RMM"},
    {"badalloc", "maximumpoolsizeexceeded", 0, 200, K(CUDA_RAW), F(CAPPED), "RMM"},
    {"badalloc", "paddle", 60, 60, K(OTHER_GPU), 0, "Paddle"},
    {"badalloc", "rmm", 40, 200, K(CUDA_RAW), 0, "RMM"},
    {"badalloc", "cuda", 40, 160, K(CUDA_RAW), 0, NULL},
    {"badalloc", "thrust", 80, 80, K(CUDA_RAW), 0, "Thrust"},
    {"badallocation", "cuda", 40, 80, K(CUDA_RAW), 0, NULL},
    {"memoryerror", "rmm", 0, 200, K(CUDA_RAW), 0, "RMM"},
    {"memoryerror", "cuda", 0, 100, K(CUDA_RAW), 0, NULL},
    {"outofmemory", "metal", 160, 60, K(OTHER_GPU), 0, "Metal"},
    {"outofmemory", "gpu", 80, 80, K(OTHER_GPU), 0, NULL},
    {"outofmemory", "vram", 80, 80, K(OTHER_GPU), 0, NULL},
    {"outofmemory", "memoryerror", 24, 0, K(HOST_ALLOCATOR), 0, NULL},
    {"outofmemory", "outofmemoryerror", 0, 0, K(TORCH_CUDA), 0, NULL},
    {"outofmemory", NULL, 0, 0, K(CUDA_RAW), F(AMBIGUOUS), NULL},
    {"outofgpumemory", NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {"outofcudamemory", NULL, 0, 0, K(CUDA_RAW), 0, NULL},
    {"outofvideomemory", NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {"outofvram", NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {"notenoughgpumemory", NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {"notenoughvram", NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {"insufficientgpumemory", NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    {"\xe6\x98\xbe\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3" /* Chinese */, NULL, 0, 0, K(OTHER_GPU), 0,
     NULL},
    {"insufficientmemory", "gpu", 100, 100, K(OTHER_GPU), 0, NULL},
    {"insufficientmemory", "metal", 100, 100, K(OTHER_GPU), 0, "Metal"},
    {"insufficientmemory", "mtl", 100, 100, K(OTHER_GPU), 0, "Metal"},
    {"notenoughmemory", "gpu", 80, 80, K(OTHER_GPU), 0, NULL},
    {"notenoughmemory", "cuda", 80, 80, K(CUDA_RAW), 0, NULL},
    {"oomerror", "cuda", 40, 40, K(CUDA_RAW), F(AMBIGUOUS), NULL},
    {"cudaoom", NULL, 0, 0, K(TORCH_CUDA), F(AMBIGUOUS), NULL},
    {"gpuoom", NULL, 0, 0, K(OTHER_GPU), F(AMBIGUOUS), NULL},
    {"gotanoom", NULL, 0, 0, K(CUDA_RAW), F(AMBIGUOUS), NULL},
    {"oomerror", NULL, 0, 0, K(CUDA_RAW), F(AMBIGUOUS), NULL},

    /* what is left is the host's */
    {"memoryallocationof", NULL, 0, 0, K(HOST_ALLOCATOR), F(NEEDS_SIZE), "Rust"},
    {"badalloc", NULL, 0, 0, K(HOST_ALLOCATOR), 0, "C++"},
    {"memoryerror", NULL, 0, 0, K(HOST_ALLOCATOR), F(CHECK_ERROR), "Python"},
    {"cannotallocate", NULL, 0, 0, K(HOST_ALLOCATOR), 0, NULL},
    {"cantallocate", NULL, 0, 0, K(HOST_ALLOCATOR), 0, NULL},
    {"notenoughmemory", NULL, 0, 0, K(HOST_ALLOCATOR), F(AMBIGUOUS), NULL},
    {"insufficientmemory", NULL, 0, 0, K(HOST_ALLOCATOR), F(AMBIGUOUS), NULL},
    {"memoryexhausted", "gpu", 12, 0, K(OTHER_GPU), 0, NULL},
    {"memoryexhausted", "cuda", 12, 0, K(CUDA_RAW), 0, NULL},
    {"memoryexhausted", NULL, 0, 0, K(HOST_ALLOCATOR), 0, NULL},
    {"failedtoalloc", NULL, 0, 0, K(HOST_ALLOCATOR), F(AMBIGUOUS) | F(NEEDS_SIZE), NULL},
    {"couldnotallocate", NULL, 0, 0, K(HOST_ALLOCATOR), F(AMBIGUOUS) | F(NEEDS_SIZE), NULL},
    {"toallocate", NULL, 0, 0, K(HOST_ALLOCATOR), F(AMBIGUOUS) | F(NEEDS_SIZE), NULL},

    /* parts of PyTorch's message, whose beginning is lost */
    {"totalcapacity", "(npu", 20, 0, K(TORCH_OTHER), F(PART), NULL},
    {"totalcapacity", NULL, 0, 0, K(TORCH_CUDA), F(PART), NULL},
    {"totalcapacty", NULL, 0, 0, K(TORCH_CUDA), F(PART), NULL},
    {"alreadyallocated", NULL, 0, 0, K(TORCH_CUDA), F(PART), NULL},
    {"reservedintotal", NULL, 0, 0, K(TORCH_CUDA), F(PART), NULL},
    {"isallocatedbypytorch", NULL, 0, 0, K(TORCH_CUDA), F(PART), NULL},
    {"isreservedbypytorch", NULL, 0, 0, K(TORCH_CUDA), F(PART), NULL},

    /* someone's own words */
    {"reservedagainst", NULL, 0, 0, K(TORCH_CUDA), F(SUMMARY), "a summary"},
    {"reservedbutonly", NULL, 0, 0, K(TORCH_CUDA), F(SUMMARY), "a summary"},
    {"reservedwhileonly", NULL, 0, 0, K(TORCH_CUDA), F(SUMMARY), "a summary"},
    {"reservedversus", NULL, 0, 0, K(TORCH_CUDA), F(SUMMARY), "a summary"},
    {"reservedvs", NULL, 0, 0, K(TORCH_CUDA), F(SUMMARY), "a summary"},

    /* other errors */
    {"cublasstatus", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"cudnnstatus", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"cusolverstatus", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"resourceexhausted", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"error:", NULL, 0, 0, K(NOT_OOM), F(CHECK_ERROR), NULL},
    {"exception:", NULL, 0, 0, K(NOT_OOM), F(CHECK_ERROR), NULL},
    {"traceback(mostrecent", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"illegalmemoryaccess", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"devicesideassert", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"outofresource", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"nospaceleft", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"terminatecalled", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"segmentationfault", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"invaliddevicepointer", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"cudafailure", NULL, 0, 0, K(NOT_OOM), 0, NULL},
    {"assertionfailed", NULL, 0, 0, K(NOT_OOM), 0, NULL},
};

const size_t vw__error_text_gpu_rule_count =
    sizeof vw__error_text_gpu_rules / sizeof *vw__error_text_gpu_rules;

#undef K
#undef F

void vw__error_text_rule_words(vw__error_text_word_search *search)
{
    for (size_t i = 0; i < vw__error_text_host_rule_count; i++)
        vw__error_text_word_search_add(search, vw__error_text_host_rules[i].word);
    for (size_t i = 0; i < vw__error_text_gpu_rule_count; i++)
        vw__error_text_word_search_add(search, vw__error_text_gpu_rules[i].word);
    for (size_t i = 0; i < vw__error_text_translated_rule_count; i++)
        vw__error_text_word_search_add(search, vw__error_text_translated_rules[i].word);
}

/* ---- checks that a rule asks for ------------------------------------------------------------- */

/* The clean line around a letter, without the blanks at its ends. */
typedef struct clean_line {
    size_t first, end;
} clean_line;

static clean_line line_around(const vw__error_text_region *region, size_t letter)
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
static bool is_killed_line(const vw__error_text_region *region, size_t at)
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
static bool is_whole_code(const vw__error_text_region *region, size_t at, size_t length)
{
    size_t first = region->clean_of[at], behind = region->clean_of[at + length - 1] + (size_t)1;
    bool is_begun = first > 0 && (vw__ascii_is_digit(region->clean[first - 1]) ||
                                  vw__ascii_is_letter(region->clean[first - 1]));
    return !is_begun &&
           (behind >= region->clean_bytes || !vw__ascii_is_digit(region->clean[behind]));
}

/* 137, or -9: killed by signal 9, as shells and as Python say it. */
static bool is_killed_code(const vw__error_text_region *region, const char *word, size_t at)
{
    if (strcmp(word, "el0004") == 0 || strcmp(word, "cudadrivererror:2") == 0)
        return is_whole_code(region, at, strlen(word));
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
static bool is_error_line(const vw__error_text_region *region, const char *word, size_t at)
{
    if (strcmp(word, "memoryerror") == 0) {
        size_t behind = at + strlen("memoryerror");
        bool is_word = behind >= region->letter_count || region->letters[behind] == ':' ||
                       region->clean_of[behind] > region->clean_of[behind - 1] + 1;
        return is_word && !vw__error_text_region_precedes(region, at, "outof");
    }
    while (at < region->letter_count && region->letters[at] != ':')
        at++;
    return at + 1 < region->letter_count && !vw__ascii_is_digit(region->letters[at + 1]);
}

/* A program that is about to allocate something says so, too. */
static bool is_failed_request(const vw__error_text_region *region, size_t at)
{
    static const char *const before[] = {"failed",     "unable",    "tried", "failure",
                                         "attempting", "attempted", "fails", "memory"};
    return vw__error_text_region_precedes_any(region, at, before, sizeof before / sizeof *before);
}

static bool passes(const vw__error_text_region *region, const vw__error_text_rule *rule, size_t at)
{
    if (strcmp(rule->word, "toallocate") == 0 &&
        (rule->flags & VW__ERROR_TEXT_RULE_NEEDS_SIZE) != 0 && !is_failed_request(region, at))
        return false;
    if ((rule->flags & VW__ERROR_TEXT_RULE_CHECK_KILLED) != 0 && !is_killed_line(region, at))
        return false;
    if ((rule->flags & VW__ERROR_TEXT_RULE_CHECK_CODE) != 0 &&
        !is_killed_code(region, rule->word, at))
        return false;
    return (rule->flags & VW__ERROR_TEXT_RULE_CHECK_ERROR) == 0 ||
           is_error_line(region, rule->word, at);
}

/* ---- asking the rules ------------------------------------------------------------------------ */

size_t vw__error_text_next_head(const vw__error_text_region *region, size_t at, size_t last)
{
    static const char *const heads[] = {"cudaoutofmemory", "hipoutofmemory", "xpuoutofmemory",
                                        "mpsbackendoutofmemory"};
    size_t head, first = SIZE_MAX;
    for (size_t i = 0; at > 0 && i < sizeof heads / sizeof *heads; i++)
        if (vw__error_text_region_has(region, heads[i], at, last, &head) && head < first &&
            vw__error_text_region_line_start(region, head) > region->clean_of[at - 1])
            first = head;
    return first;
}

/* Is what was found ahead part of another message? "torch.OutOfMemoryError: CUDA out of memory"
 * says it twice, on two lines where a terminal broke them. */
static bool is_of_next_message(const vw__error_text_region *region, size_t end, size_t beside)
{
    return beside > end && !vw__error_text_region_continues(region, end, "error") &&
           vw__error_text_next_head(region, end, beside) <= beside;
}

static const vw__error_text_rule *find_in(const vw__error_text_rule *rules, size_t count,
                                          const vw__error_text_region *region, const char *word,
                                          vw__error_text_place *place)
{
    for (size_t i = 0; i < count; i++) {
        const vw__error_text_rule *rule = &rules[i];
        size_t beside = place->at;
        if (rule->word[0] != word[0] || strcmp(rule->word, word) != 0)
            continue;
        size_t first = place->at >= rule->back ? place->at - rule->back : 0;
        if (first < place->first)
            first = place->first;
        if (rule->beside != NULL && !vw__error_text_region_has(region, rule->beside, first,
                                                               place->at + rule->ahead, &beside))
            continue;
        size_t end = place->at + strlen(word);
        if (!passes(region, rule, place->at) || is_of_next_message(region, end, beside))
            continue;
        size_t beside_end = beside;
        if (rule->beside != NULL)
            beside_end += strlen(rule->beside);
        place->start = beside < place->at ? beside : place->at;
        place->end = beside_end > end ? beside_end : end;
        if (place->end > region->letter_count) /* part of the word was not text of the message */
            place->end = region->letter_count;
        return rule;
    }
    return NULL;
}

/* Words that only say that an allocation failed. */
static bool is_vague(const char *word)
{
    static const char *const words[] = {"toallocate",       "failedtoalloc", "cannotallocate",
                                        "couldnotallocate", "allocfailed",   "memoryerror"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

const vw__error_text_rule *vw__error_text_rule_find(const vw__error_text_region *region,
                                                    const char *word, vw__error_text_place *place)
{
    enum { NEAR_ENOUGH = 100 };
    size_t original = place->at, next;
    if (strcmp(word, "failedtoalloc") == 0 &&
        vw__error_text_region_has(region, "toallocate", place->at, place->at + 6, &place->at))
        word = "toallocate";
    const vw__error_text_rule *rule = find_in(
        vw__error_text_translated_rules, vw__error_text_translated_rule_count, region, word, place);
    if (rule == NULL)
        rule =
            find_in(vw__error_text_host_rules, vw__error_text_host_rule_count, region, word, place);
    if (rule != NULL)
        return rule;
    if (is_vague(word) && vw__error_text_region_has(region, "outofmemory", place->at,
                                                    place->at + NEAR_ENOUGH, &next)) {
        place->at = next;
        word = "outofmemory";
        rule =
            find_in(vw__error_text_host_rules, vw__error_text_host_rule_count, region, word, place);
    }
    if (rule == NULL)
        rule =
            find_in(vw__error_text_gpu_rules, vw__error_text_gpu_rule_count, region, word, place);
    if (rule != NULL && original < place->start)
        place->start = original;
    return rule;
}

/* "XYZ out of memory. Tried to allocate": PyTorch on an accelerator that we do not know. */
static bool is_unknown_accelerator(const vw__error_text_region *region, size_t at)
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

vw__error_text_kind vw__error_text_rule_kind(const vw__error_text_region *region,
                                             const vw__error_text_rule *rule,
                                             const vw__error_text_place *place)
{
    size_t first = place->start > 240 ? place->start - 240 : 0;
    if (first < place->first)
        first = place->first;
    if ((rule->flags & VW__ERROR_TEXT_RULE_ANY_DEVICE) != 0 &&
        is_unknown_accelerator(region, place->at))
        return VW__ERROR_TEXT_TORCH_OTHER;
    if (rule->kind == VW__ERROR_TEXT_TENSORFLOW &&
        (vw__error_text_region_has(region, "external/orgtensorflow", first, place->at, NULL) ||
         vw__error_text_region_has(region, "external/xla", first, place->at, NULL) ||
         vw__error_text_region_has(region, "jax", first, place->at + 60, NULL)))
        return VW__ERROR_TEXT_JAX;
    return rule->kind;
}
