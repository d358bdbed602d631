/* test_error_text_kinds.c - everybody else's messages, the host's, and what is none. */
#include "parse/error_text.h"

#include "unit/error_text_samples.h"

static void assert_kind(const char *text, vw__error_text_kind kind)
{
    vw__error_text_summary summary = scan_text(text);
    if (summary.first.kind != kind)
        fail_msg("\"%s\" is not \"%s\" but \"%s\"", text, vw__error_text_kind_name(kind),
                 vw__error_text_kind_name(summary.first.kind));
    bool is_report = kind != VW__ERROR_TEXT_NONE && kind != VW__ERROR_TEXT_NOT_OOM;
    assert_int_equal(summary.report_count, is_report ? 1 : 0);
    assert_int_equal(summary.host_count, vw__error_text_kind_is_host(kind) ? 1 : 0);
    if (kind != VW__ERROR_TEXT_NONE)
        assert_true(summary.first.excerpt[0] != '\0' && summary.first.line >= 1);
}

static vw__error_text_report report_of(const char *text, vw__error_text_kind kind)
{
    assert_kind(text, kind);
    return scan_text(text).first;
}

/* ---- CUDA and its libraries ------------------------------------------------------------------ */

static void the_libraries_of_cuda_fail_without_numbers(void **state)
{
    (void)state;
    assert_kind("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
                "`cublasCreate(handle)`",
                VW__ERROR_TEXT_CUBLAS);
    assert_true(report_of("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
                          "`cublasCreate(handle)`",
                          VW__ERROR_TEXT_CUBLAS)
                    .is_ambiguous);
    assert_kind("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", VW__ERROR_TEXT_CUDNN);
    assert_kind("RuntimeError: cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling "
                "`cusolverDnCreate(handle)`",
                VW__ERROR_TEXT_CUSOLVER);
    assert_kind("RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED", VW__ERROR_TEXT_CUDA_RAW);
}

static void nccl_says_which_device_it_was_on(void **state)
{
    (void)state;
    vw__error_text_report report =
        report_of("host7:123:456 [4] include/alloc.h:99 NCCL WARN Cuda failure 'out of memory'\n"
                  "\nhost7:123:456 [4] include/alloc.h:104 NCCL WARN Failed to CUDA calloc 4194304 "
                  "bytes\n",
                  VW__ERROR_TEXT_NCCL);
    assert_int_equal(report.device, 4);
    assert_int_equal(report.tried_bytes, 4 * MIB);
    assert_kind("torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled cuda error "
                "(run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\n"
                "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
                "Cuda failure 2 'out of memory'\n",
                VW__ERROR_TEXT_NCCL);
}

static void the_runtime_and_the_driver_have_many_ways_to_say_it(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously "
        "reported at some other API call, so the stacktrace below might be incorrect.\nCompile "
        "with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
        "RuntimeError: CUDA driver error: out of memory",
        "torch.AcceleratorError: CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' "
        "in https://docs.nvidia.com/cuda for more information.",
        "CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
        "MemoryError: std::bad_alloc: CUDA error at: /x/rmm/mr/device/cuda_memory_resource.hpp:70: "
        "cudaErrorMemoryAllocation out of memory",
        "RuntimeError: CUDA failed with error out of memory",
        "what():  [10:00:00] src/storage.h:1: cudaMalloc failed: out of memory",
        "ERROR: CUDA error: out of memory (code #2, ERROR_OUT_OF_MEMORY)",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_kind(texts[i], VW__ERROR_TEXT_CUDA_RAW);
    assert_true(
        report_of("MemoryError: std::bad_alloc: RMM failure at:/x/pool_memory_resource.hpp:9: "
                  "Maximum pool size exceeded",
                  VW__ERROR_TEXT_CUDA_RAW)
            .says_capped);
    assert_kind("RuntimeError: HIP error: out of memory", VW__ERROR_TEXT_TORCH_HIP);
}

/* ---- other programs -------------------------------------------------------------------------- */

static void jax_and_tensorflow_are_distinguished(void **state)
{
    (void)state;
    vw__error_text_report report = report_of(
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while "
        "trying to allocate 123456789012 bytes.\n             total allocation:   14.44GiB",
        VW__ERROR_TEXT_JAX);
    assert_int_equal(report.tried_bytes, UINT64_C(123456789012));
    assert_int_equal(report.total_bytes, UNKNOWN);
    report =
        report_of("Execution failed: Resource exhausted: Failed to allocate request for 32.00MiB "
                  "(33554434B) on device ordinal 3",
                  VW__ERROR_TEXT_JAX);
    assert_int_equal(report.tried_bytes, 33554434);
    assert_int_equal(report.device, 3);
    report =
        report_of("ResourceExhaustedError: OOM when allocating tensor with shape[8,8] and type "
                  "float on /job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc",
                  VW__ERROR_TEXT_TENSORFLOW);
    assert_int_equal(report.device, 1);
    report =
        report_of("2026-01-31 10:00:00.123: W tensorflow/core/common_runtime/bfc_allocator.cc:1] "
                  "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.50GiB (rounded to "
                  "1610612736)requested by op MatMul",
                  VW__ERROR_TEXT_TENSORFLOW);
    assert_int_equal(report.tried_bytes, 1536 * MIB);
    assert_kind(
        "2026-01-31 10:00:00.123: W external/xla/xla/tsl/framework/bfc_allocator.cc:1] Allocator "
        "(GPU_0_bfc) ran out of memory trying to allocate 1.50GiB",
        VW__ERROR_TEXT_JAX);
    report = report_of("failed to allocate 2.12G (2282521345 bytes) from device: "
                       "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
                       VW__ERROR_TEXT_TENSORFLOW);
    assert_int_equal(report.tried_bytes, 2282521345);
}

static void a_warning_does_not_count(void **state)
{
    (void)state;
    static const char warning[] =
        "W tensorflow/core/common_runtime/bfc_allocator.cc:246] Allocator (GPU_0_bfc) ran out of "
        "memory trying to allocate 1.25GiB with freed_by_count=0. The caller indicates that this "
        "is "
        "not a failure, but may mean that there could be performance gains if more memory were "
        "available.\n";
    vw__error_text_summary summary = scan_text(warning);
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_TENSORFLOW);
    assert_true(summary.first.is_warning);
    assert_int_equal(summary.first.tried_bytes, 1280 * MIB);
    assert_int_equal(summary.report_count, 0);
    char text[2048];
    snprintf(text, sizeof text, "%s%s", warning, "RuntimeError: CUDA error: out of memory\n");
    summary = scan_text(text);
    assert_int_equal(summary.first.kind, VW__ERROR_TEXT_CUDA_RAW);
    assert_int_equal(summary.report_count, 1);
    assert_int_equal(summary.first.line, 2);
}

static void cupy_counts_with_commas(void **state)
{
    (void)state;
    vw__error_text_report report =
        report_of("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,073,741,824 bytes "
                  "(allocated so far: 5,000,000,512 bytes, limit set to: 6,000,000,000 bytes).",
                  VW__ERROR_TEXT_CUPY);
    assert_int_equal(report.tried_bytes, GIB);
    assert_int_equal(report.allocated_bytes, UINT64_C(5000000512));
    assert_int_equal(report.allowed_bytes, UINT64_C(6000000000));
    report = report_of("OutOfMemoryError: out of memory to allocate 512 bytes (total 4096 bytes)",
                       VW__ERROR_TEXT_CUPY);
    assert_int_equal(report.tried_bytes, 512);
    assert_int_equal(report.total_bytes, UNKNOWN); /* of the pool, not of the card */
}

static void ggml_has_the_exact_size_on_the_next_line(void **state)
{
    (void)state;
    vw__error_text_report report = report_of(
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9216.03 MiB on device 1: "
        "cudaMalloc "
        "failed: out of memory\nalloc_tensor_range: failed to allocate CUDA1 buffer of size "
        "9663709184\nllama_model_load: error loading model: unable to allocate CUDA1 buffer\n",
        VW__ERROR_TEXT_GGML);
    assert_int_equal(report.tried_bytes, UINT64_C(9663709184));
    assert_int_equal(report.device, 1);
    report = report_of("ggml_vulkan: Device memory allocation of size 1048576 failed.\n"
                       "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n",
                       VW__ERROR_TEXT_GGML);
    assert_int_equal(report.tried_bytes, MIB);
    assert_kind(
        "ggml_metal_graph_compute: command buffer 0 failed with status 5\nerror: Insufficient "
        "Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
        VW__ERROR_TEXT_GGML);
}

static void vllm_counts_blocks_tokens_and_bytes(void **state)
{
    (void)state;
    assert_kind("ValueError: No available memory for the cache blocks. Try increasing "
                "`gpu_memory_utilization` when initializing the engine.",
                VW__ERROR_TEXT_VLLM);
    assert_kind("INFO 01-31 10:00:00 llm_engine.py:275] # GPU blocks: 0, # CPU blocks: 256",
                VW__ERROR_TEXT_VLLM);
    vw__error_text_report report =
        report_of("ValueError: The model's max seq len (4096) is larger than the maximum number of "
                  "tokens that "
                  "can be stored in KV cache (3664). Try increasing `gpu_memory_utilization`",
                  VW__ERROR_TEXT_VLLM);
    assert_int_equal(report.needed_bytes, UNKNOWN);
    report =
        report_of("ValueError: To serve at least one request with the models's max seq len "
                  "(131072), (16.00 GiB KV cache is needed, which is larger than the available KV "
                  "cache memory (7.50 GiB).",
                  VW__ERROR_TEXT_VLLM);
    assert_int_equal(report.needed_bytes, 16 * GIB);
    assert_int_equal(report.available_bytes, HUNDREDTHS(750, GIB));
    report = report_of(
        "ValueError: Free memory on device cuda:2 (19.75/22.25 GiB) on startup is less than "
        "desired GPU memory utilization (0.9, 20.03 GiB). Decrease GPU memory utilization",
        VW__ERROR_TEXT_VLLM);
    assert_int_equal(report.free_bytes, HUNDREDTHS(1975, GIB));
    assert_int_equal(report.total_bytes, HUNDREDTHS(2225, GIB));
    assert_int_equal(report.needed_bytes, HUNDREDTHS(2003, GIB));
    assert_int_equal(report.device, 2);
}

static void other_gpu_programs_are_recognised(void **state)
{
    (void)state;
    vw__error_text_report report = report_of(
        "Out of memory error on GPU 2. Cannot allocate 512.000000MB memory on GPU 2, 23.500000GB "
        "memory has been allocated and available memory is only \n     100.500000MB.",
        VW__ERROR_TEXT_OTHER_GPU);
    assert_int_equal(report.tried_bytes, 512 * MIB);
    assert_int_equal(report.free_bytes, HUNDREDTHS(10050, MIB));
    assert_int_equal(report.allocated_bytes, HUNDREDTHS(2350, GIB));
    assert_int_equal(report.device, 2);
    report = report_of(
        "bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t) Failed to "
        "allocate memory for requested buffer of size 4585490524328388609",
        VW__ERROR_TEXT_OTHER_GPU);
    assert_int_equal(report.tried_bytes, UINT64_C(4585490524328388609));
    report = report_of(
        "[E] Error[1]: [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out "
        "of memory)\n[W] [TRT] Requested amount of GPU memory (15485030400 bytes) could not "
        "be allocated.",
        VW__ERROR_TEXT_OTHER_GPU);
    assert_int_equal(report.tried_bytes, UINT64_C(15485030400));
    assert_kind(
        "Could not allocate tensor with 58982400 bytes. There is not enough GPU video memory "
        "available!",
        VW__ERROR_TEXT_OTHER_GPU);
}

/* ---- the host -------------------------------------------------------------------------------- */

static void allocators_of_the_host(void **state)
{
    (void)state;
    vw__error_text_report report =
        report_of("RuntimeError: [enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: can't "
                  "allocate memory: "
                  "you tried to allocate 4294967296 bytes. Error code 12 (Cannot allocate memory)\n"
                  "If you encounter CUDA out of memory, try a smaller tile.",
                  VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_int_equal(report.tried_bytes, 4 * GIB);
    report = report_of("$ Torch: not enough memory: you tried to allocate 72GB. Buy new RAM!",
                       VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_int_equal(report.tried_bytes, 72 * GIB);
    report = report_of(
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 117. GiB for an array "
        "with shape (3, 4) and data type int32",
        VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_int_equal(report.tried_bytes, 117 * GIB);
    assert_kind(
        "RuntimeError: [enforce fail at CPUAllocator.cpp:56] posix_memalign(&data, gAlignment, "
        "nbytes) == 0. 12 vs 0",
        VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_kind("OSError: [Errno 12] Cannot allocate memory", VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_kind("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  "
                "std::bad_alloc\n",
                VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_kind("Traceback (most recent call last):\n  File \"x.py\", line 3\nMemoryError\n",
                VW__ERROR_TEXT_HOST_ALLOCATOR);
}

static void kills_by_kernel_cluster_and_shell_are_recognised(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "Memory cgroup out of memory: Killed process 4321 (python3) total-vm:1000kB, "
        "anon-rss:500kB",
        "[Sun Mar 1 08:00:00 2026] oom-kill:constraint=CONSTRAINT_NONE,task=python,pid=7,uid=0",
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=191.batch cgroup.",
        "State:   Terminated\n  Reason:       OOMKilled\n  Exit Code:    137\n",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "(raylet) node_manager.cc:3064: 12 Workers (tasks / actors) killed due to memory pressure "
        "(OOM)",
        "slurmstepd: error: Exceeded job memory limit at some point.",
    };
    static const char *const unexplained[] = {
        "epoch 1\nKilled\n",
        "/bin/bash: line 1:  4711 Killed                  python train.py",
        "zsh: killed     python train.py",
        "scores\n\xe5\xb7\xb2\xe6\x9d\x80\xe6\xad\xbb\n",
        "Process finished with exit code 137 (interrupted by signal 9: SIGKILL)",
        "  exitcode  : -9 (pid: 1234)",
        "died with <Signals.SIGKILL: 9>.",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(report_of(texts[i], VW__ERROR_TEXT_HOST_KILLED).is_ambiguous);
    for (size_t i = 0; i < sizeof unexplained / sizeof *unexplained; i++)
        assert_true(report_of(unexplained[i], VW__ERROR_TEXT_HOST_KILLED).is_ambiguous);
    assert_kind("the watchdog killed three idle workers", VW__ERROR_TEXT_NONE);
    assert_kind("Process finished with exit code 1379", VW__ERROR_TEXT_NONE);
    assert_kind("\"State\": {\"OOMKilled\": false, \"ExitCode\": 1}", VW__ERROR_TEXT_NONE);
}

static void workers_shared_and_pinned_memory(void **state)
{
    (void)state;
    assert_kind("RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed. ",
                VW__ERROR_TEXT_HOST_WORKER);
    assert_kind("RuntimeError: DataLoader worker (pid(s) 7, 8) exited unexpectedly",
                VW__ERROR_TEXT_HOST_WORKER);
    assert_kind(
        "RuntimeError: DataLoader worker (pid 77) is killed by signal: Segmentation fault. ",
        VW__ERROR_TEXT_NOT_OOM);
    assert_kind(
        "RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error. It is possible "
        "that dataloader's workers are out of shared memory.",
        VW__ERROR_TEXT_HOST_SHARED);
    assert_kind(
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
        "shared memory (shm).",
        VW__ERROR_TEXT_HOST_SHARED);
    assert_kind(
        "RuntimeError: unable to open shared memory object </torch_29919_139> in read-write mode",
        VW__ERROR_TEXT_HOST_SHARED);
    assert_kind("h:1:2 [6] misc/shmutils.cc:71 NCCL WARN Error: failed to extend /dev/shm/nccl-x "
                "to 512 bytes",
                VW__ERROR_TEXT_HOST_SHARED);
    assert_true(report_of("Bus error (core dumped)", VW__ERROR_TEXT_HOST_SHARED).is_ambiguous);
    vw__error_text_report report = report_of(
        "failed to alloc 782758144 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"
        "could not allocate pinned host memory of size: 782758144\n",
        VW__ERROR_TEXT_HOST_PINNED);
    assert_int_equal(report.tried_bytes, 782758144);
    assert_kind(
        "ggml_cuda_host_malloc: failed to allocate 2048.00 MiB of pinned memory: out of memory",
        VW__ERROR_TEXT_HOST_PINNED);
    assert_kind("cudaHostAlloc failed: out of memory", VW__ERROR_TEXT_HOST_PINNED);
}

/* ---- what is none ---------------------------------------------------------------------------- */

static void other_errors_are_not_oom(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: device-side assert triggered",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 98304, "
        "Hardware "
        "limit: 65536. Reducing block sizes or `num_stages` may help.",
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "OSError: [Errno 28] No space left on device",
        "ggml_cuda_host_malloc: failed to allocate 1900,00 MiB of pinned memory: invalid argument",
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 1 "
        "'invalid "
        "argument'",
        "Segmentation fault (core dumped)",
        "Traceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'loss'\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_kind(texts[i], VW__ERROR_TEXT_NOT_OOM);
    assert_int_equal(scan_text(texts[8]).first.line, 3); /* the error, not the traceback */
}

static void advice_code_and_statistics_are_ignored(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "If you run into CUDA out of memory, reduce the batch size.",
        "To avoid out of memory errors, use gradient checkpointing.",
        "    except torch.cuda.OutOfMemoryError:\n        torch.cuda.empty_cache()\n",
        "        if \"out of memory\" in str(e):\n",
        "# CUDA out of memory happens here when the batch is large\n",
        "allocated= 11842mb, reserved= 17272mb, free= 62875mb, total= 81050mb",
        "the current vLLM instance can use total_gpu_memory (79.10GiB) x gpu_memory_utilization "
        "(0.90) = "
        "71.19GiB\nthe rest of the memory reserved for KV Cache is 71.19GiB.",
        "epoch 3 mean absolute error: 0.25\n",
        "The engine is going to allocate 5.00 GiB of GPU memory for its cache.",
        "ValueError was avoided: there are not enough GPUs, 4 of 8",
        "reserved vs. allocated: 5.00 GiB / 4.00 GiB",
        "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_kind(texts[i], VW__ERROR_TEXT_NONE);
}

static void every_kind_has_a_name(void **state)
{
    (void)state;
    for (int kind = VW__ERROR_TEXT_NONE; kind <= VW__ERROR_TEXT_NOT_OOM; kind++)
        assert_true(vw__error_text_kind_name((vw__error_text_kind)kind)[0] != '\0');
    assert_true(vw__error_text_kind_is_host(VW__ERROR_TEXT_HOST_ALLOCATOR));
    assert_true(vw__error_text_kind_is_host(VW__ERROR_TEXT_HOST_PINNED));
    assert_false(vw__error_text_kind_is_host(VW__ERROR_TEXT_OTHER_GPU));
    assert_false(vw__error_text_kind_is_host(VW__ERROR_TEXT_NOT_OOM));
}

static void the_host_speaks_many_languages(void **state)
{
    (void)state;
    assert_kind("OSError: [Errno 12] Nicht gen\xc3\xbcgend Hauptspeicher verf\xc3\xbcgbar",
                VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_kind("OSError: [Errno 12] \xe6\x97\xa0\xe6\xb3\x95", VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_kind("OSError: [WinError 1455] \xe9\xa1\xb5", VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_kind("OSError: [Errno 122] Disk quota exceeded", VW__ERROR_TEXT_NOT_OOM);
    assert_kind("fatal error: runtime: out of memory", VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_kind("cc1plus: out of memory allocating 4096 bytes after a total of 99 bytes",
                VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_kind("FATAL ERROR: Allocation failed - JavaScript heap out of memory",
                VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_kind("duckdb.OutOfMemoryException: Out of Memory Error: failed to pin block",
                VW__ERROR_TEXT_HOST_ALLOCATOR);
    vw__error_text_report report =
        report_of("Error: model requires more system memory (10.5 GiB) than is available (6.5 GiB)",
                  VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_int_equal(report.tried_bytes, 10 * GIB + GIB / 2);
    assert_int_equal(report.free_bytes, 6 * GIB + GIB / 2);
    report =
        report_of("memory allocation of 8589934592 bytes failed", VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_int_equal(report.tried_bytes, 8 * GIB);
    report = report_of("pyarrow.lib.ArrowMemoryError: malloc of size 1073741824 failed",
                       VW__ERROR_TEXT_HOST_ALLOCATOR);
    assert_int_equal(report.tried_bytes, GIB);
    report = report_of("cudaHostAlloc failed: out of memory (requested 2097152 bytes)",
                       VW__ERROR_TEXT_HOST_PINNED);
    assert_int_equal(report.tried_bytes, 2 * MIB);
    assert_kind("RuntimeError: unable to allocate shared memory(shm) for file </torch_1_2>: "
                "No space left on device (28)",
                VW__ERROR_TEXT_HOST_SHARED);
}

static void clusters_say_it_in_their_own_words(void **state)
{
    (void)state;
    assert_kind("systemd-oomd[12]: Killed /user.slice/a.scope due to memory used (6) / total (7)",
                VW__ERROR_TEXT_HOST_KILLED);
    assert_kind("77   train OUT_OF_ME+   0:125\n", VW__ERROR_TEXT_HOST_KILLED);
    assert_kind("=>> PBS: job killed: mem 2048kb exceeded limit 1024kb",
                VW__ERROR_TEXT_HOST_KILLED);
    assert_kind("srun: error: node-3: task 2: Out Of Memory", VW__ERROR_TEXT_HOST_KILLED);
    assert_true(report_of("train-1 exited with code 137", VW__ERROR_TEXT_HOST_KILLED).is_ambiguous);
}

static void less_common_gpu_messages_are_known(void **state)
{
    (void)state;
    assert_kind("RuntimeError: cublas runtime error : resource allocation failed at x.cpp:2",
                VW__ERROR_TEXT_CUBLAS);
    assert_kind("CURAND_STATUS_ALLOCATION_FAILED returned from curandCreateGenerator",
                VW__ERROR_TEXT_CUDA_RAW);
    assert_kind("  what():  CUDA driver error: 2\nException raised from map_block",
                VW__ERROR_TEXT_CUDA_RAW);
    assert_kind("RuntimeError: CUDA driver error: 201", VW__ERROR_TEXT_NOT_OOM);
    assert_kind("EL0004: [PID: 9] Failed to allocate memory.", VW__ERROR_TEXT_TORCH_OTHER);
    assert_kind("loading model0004 from disk", VW__ERROR_TEXT_NONE);
    assert_kind("pyopencl._cl.MemoryError: create_buffer failed: MEM_OBJECT_ALLOCATION_FAILURE",
                VW__ERROR_TEXT_OTHER_GPU);
    vw__error_text_report report =
        report_of("XGBoostError: cudaErrorMemoryAllocation: out of memory\n"
                  "- Free memory: 4096\n- Requested memory: 8192\n",
                  VW__ERROR_TEXT_CUDA_RAW);
    assert_int_equal(report.free_bytes, 4096);
    assert_int_equal(report.tried_bytes, 8192);
    report = report_of("RuntimeError: CUDA\xe5\x86\x85\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3\xe3"
                       "\x80\x82\xe5\xb0\x9d\xe8\xaf\x95\xe5\x88\x86\xe9\x85\x8d 3.00 GiB\xef\xbc"
                       "\x88GPU 1\xef\xbc\x9b"
                       "8.00 GiB \xe6\x80\xbb\xe5\xae\xb9\xe9\x87\x8f\xef\xbc"
                       "\x9b"
                       "6.00 GiB \xe5\xb7\xb2\xe5\x88\x86\xe9\x85\x8d\xef\xbc\x9b"
                       "1.00 GiB "
                       "\xe5\x8f\xaf\xe7\x94\xa8",
                       VW__ERROR_TEXT_TORCH_CUDA);
    assert_int_equal(report.tried_bytes, 3 * GIB);
    assert_int_equal(report.total_bytes, 8 * GIB);
    assert_int_equal(report.allocated_bytes, 6 * GIB);
    assert_int_equal(report.free_bytes, GIB);
    assert_int_equal(report.device, 1);
}

static void blanks_of_the_web_are_blanks(void **state)
{
    (void)state;
    vw__error_text_report report =
        report_of("CUDA&nbsp;out&nbsp;of&nbsp;memory. Tried&nbsp;to&nbsp;"
                  "allocate&nbsp;4.00&nbsp;MiB (GPU&nbsp;2; 8.00&nbsp;GiB "
                  "total&nbsp;capacity)",
                  VW__ERROR_TEXT_TORCH_CUDA);
    assert_int_equal(report.tried_bytes, 4 * MIB);
    assert_int_equal(report.device, 2);
    report = report_of("CUDA out\xc2\xa0of\xc2\xa0memory. Tried\xc2\xa0to allocate\xc2\xa0"
                       "4.00\xc2\xa0MiB",
                       VW__ERROR_TEXT_TORCH_CUDA);
    assert_int_equal(report.tried_bytes, 4 * MIB);
}

static void a_notebook_names_the_error_before_it_says_it(void **state)
{
    (void)state;
    vw__error_text_report report = report_of(
        "OutOfMemoryError          Traceback (most recent call last)\nCell In[1], line 3\n\n"
        "OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of "
        "memory)\nCurrently allocated     : 6.00 GiB\nRequested               : 1.00 "
        "GiB\nDevice limit            : 8.00 GiB\n",
        VW__ERROR_TEXT_CUDA_ASYNC);
    assert_int_equal(report.tried_bytes, GIB);
    assert_int_equal(report.total_bytes, 8 * GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_libraries_of_cuda_fail_without_numbers),
        cmocka_unit_test(nccl_says_which_device_it_was_on),
        cmocka_unit_test(the_runtime_and_the_driver_have_many_ways_to_say_it),
        cmocka_unit_test(jax_and_tensorflow_are_distinguished),
        cmocka_unit_test(a_warning_does_not_count),
        cmocka_unit_test(cupy_counts_with_commas),
        cmocka_unit_test(ggml_has_the_exact_size_on_the_next_line),
        cmocka_unit_test(vllm_counts_blocks_tokens_and_bytes),
        cmocka_unit_test(other_gpu_programs_are_recognised),
        cmocka_unit_test(allocators_of_the_host),
        cmocka_unit_test(kills_by_kernel_cluster_and_shell_are_recognised),
        cmocka_unit_test(workers_shared_and_pinned_memory),
        cmocka_unit_test(other_errors_are_not_oom),
        cmocka_unit_test(advice_code_and_statistics_are_ignored),
        cmocka_unit_test(every_kind_has_a_name),
        cmocka_unit_test(the_host_speaks_many_languages),
        cmocka_unit_test(clusters_say_it_in_their_own_words),
        cmocka_unit_test(less_common_gpu_messages_are_known),
        cmocka_unit_test(blanks_of_the_web_are_blanks),
        cmocka_unit_test(a_notebook_names_the_error_before_it_says_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
