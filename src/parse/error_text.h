/* error_text.h - out-of-memory reports, found in any text.
 *
 * The message usually stands in the middle of something: a log of megabytes with time stamps, rank
 * prefixes and colours, a traceback, JSON, a chat. Lines are broken where a terminal ended, inside
 * words and numbers too. The scanner is fed the text piece by piece, in one pass and with memory
 * that does not grow with it. It returns the first report, which is the cause, in full, and the
 * number of reports.
 *
 * Numbers that a message does not give are VW__MODEL_UNKNOWN_BYTES; conclusions are
 * doctor/numbers.c's.
 */
#ifndef VW_PARSE_ERROR_TEXT_H
#define VW_PARSE_ERROR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "model/memory_model.h" /* VW__MODEL_UNKNOWN_BYTES */
#include "parse/traceback.h"

#define VW__ERROR_TEXT_KIND_LIST(X)                                                                \
    X(NONE, "no error")                                                                            \
    X(TORCH_CUDA, "PyTorch, CUDA")                                                                 \
    X(TORCH_HIP, "PyTorch, ROCm")                                                                  \
    X(TORCH_XPU, "PyTorch, Intel XPU")                                                             \
    X(TORCH_MPS, "PyTorch, Apple MPS")                                                             \
    X(TORCH_OTHER, "PyTorch, another accelerator") /* NPU, MUSA, HPU ... */                        \
    X(CUDA_ASYNC, "PyTorch, cudaMallocAsync")                                                      \
    X(CUBLAS, "cuBLAS")                                                                            \
    X(CUDNN, "cuDNN")                                                                              \
    X(CUSOLVER, "cuSOLVER")                                                                        \
    X(NCCL, "NCCL")                                                                                \
    X(CUDA_RAW, "the CUDA runtime or driver")                                                      \
    X(JAX, "JAX/XLA")                                                                              \
    X(TENSORFLOW, "TensorFlow")                                                                    \
    X(CUPY, "CuPy")                                                                                \
    X(GGML, "ggml")                                                                                \
    X(VLLM, "vLLM's cache")                                                                        \
    X(OTHER_GPU, "another program, on the GPU") /* Paddle, ONNX Runtime, TensorRT, DirectML ... */ \
    X(HOST_ALLOCATOR, "host memory")            /* DefaultCPUAllocator, NumPy, std::bad_alloc */   \
    X(HOST_KILLED, "killed for host memory")    /* the kernel, a cgroup, Slurm, Kubernetes, Ray */ \
    X(HOST_WORKER, "a DataLoader worker killed")                                                   \
    X(HOST_SHARED, "shared memory of the host") /* /dev/shm: DataLoader, NCCL */                   \
    X(HOST_PINNED, "pinned host memory")                                                           \
    X(NOT_OOM, "an error that is not about memory")

typedef enum vw__error_text_kind {
#define VW__ERROR_TEXT_KIND_ENUM(upper, text) VW__ERROR_TEXT_##upper,
    VW__ERROR_TEXT_KIND_LIST(VW__ERROR_TEXT_KIND_ENUM)
#undef VW__ERROR_TEXT_KIND_ENUM
} vw__error_text_kind;

#define VW__ERROR_TEXT_EXCERPT_BYTES 512

typedef struct vw__error_text_report {
    vw__error_text_kind kind;
    const char
        *wording; /* static: which form of the message, "PyTorch 1.4 to 1.9"; NULL = only one */
    uint64_t tried_bytes, total_bytes, free_bytes, allocated_bytes;
    uint64_t reserved_bytes;    /* also derived from "reserved but unallocated", "cached" */
    uint64_t unallocated_bytes; /* as said: reserved but not allocated */
    uint64_t process_bytes;     /* "this process has" */
    uint64_t allowed_bytes;     /* values near 2^64, which mean no limit, are left out */
    uint64_t private_pool_bytes;
    uint64_t other_process_bytes; /* sum of "Process N has", those that make sense */
    size_t other_process_count;
    uint64_t other_bytes; /* MPS: "other allocations" of the process */
    uint64_t needed_bytes,
        available_bytes;  /* vLLM's cache: "24 GiB needed ... 9.97 GiB available" */
    int device;           /* -1 = not said */
    int rank;             /* by its prefix; -1 */
    bool is_ambiguous;    /* could be something else: "Killed" alone, exit code 137 */
    bool is_truncated;    /* the message breaks off */
    bool is_warning;      /* the program went on: TensorFlow's BFC, PyTorch's log of a retry */
    bool says_capped;     /* refused by a limit that was set, whatever is free, by the text */
    bool says_expandable; /* expandable segments were on, by the text */
    bool says_addresses;  /* reserving addresses failed, by PyTorch's log right before it */
    const char *variable; /* static: that the message names for settings; NULL */
    unsigned least_torch; /* PyTorch is at least this, by the text: 213 for 2.13; 0 = not known */
    uint64_t line;        /* of the text, from 1 */
    uint64_t log_line;    /* of PyTorch's log, from which numbers were taken that the message lacks;
                             0 */
    char excerpt[VW__ERROR_TEXT_EXCERPT_BYTES]; /* the message, unwrapped, clean of colours; UTF-8,
                                                   cut */
    vw__traceback traceback; /* that ends with the message, or follows it; without frames: none */
} vw__error_text_report;

/* Is it PyTorch's log of a failed request, which it then tries again? */
static inline bool vw__error_text_is_retry(const vw__error_text_report *report)
{
    return report->is_warning && report->kind == VW__ERROR_TEXT_TORCH_CUDA;
}

typedef struct vw__error_text_scan vw__error_text_scan;

/* `first` is the first report that is certain; else the first ambiguous one; else the first
 * warning; else another error (NOT_OOM); else NONE. Ambiguous reports count only where none is
 * certain: after an error, processes are killed too. Warnings never count. PyTorch's log of a
 * failed request, which it then tries again, comes last, behind another error. */
typedef struct vw__error_text_summary {
    vw__error_text_report first; /* kind NONE: no error at all; NOT_OOM: an error, and no report */
    uint64_t report_count; /* of running out of memory; the same one printed twice counts once */
    uint64_t rank_count;   /* ranks that reported, by their prefixes; 0 = no prefixes */
    uint64_t host_count;   /* of report_count: host memory */
    uint64_t line_count;
    uint64_t size_bytes; /* fed */
    bool is_binary;      /* mostly bytes that no text has: only a report with numbers counts */
} vw__error_text_summary;

/* VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__error_text_scan_create(vw__error_text_scan **out);
void vw__error_text_scan_destroy(vw__error_text_scan *scan); /* NULL does nothing */
size_t vw__error_text_scan_held_bytes(void);                 /* of host memory, by each */

/* From here on tracebacks are read, by that judge; before the first piece. */
void vw__error_text_scan_judge(vw__error_text_scan *scan, vw__traceback_judge judge);

/* Pieces may end anywhere. */
VW_MUST_CHECK vw_status vw__error_text_scan_feed(vw__error_text_scan *scan, const char *bytes,
                                                 size_t size_bytes);

/* After the last piece. */
VW_MUST_CHECK vw_status vw__error_text_scan_finish(vw__error_text_scan *scan,
                                                   vw__error_text_summary *out);

const char *vw__error_text_kind_name(vw__error_text_kind kind); /* static */
bool vw__error_text_kind_is_host(vw__error_text_kind kind);

#endif /* VW_PARSE_ERROR_TEXT_H */
