/* fake_libcuda.h - what a test may ask the fake driver about itself.
 *
 * The fake is a shared library with the driver's symbols (and NVML's), loaded in the driver's
 * place. Environment variables, read at each call, say what machine it is and make it misbehave:
 *
 *   FAKE_CUDA_DEVICE_COUNT=8         how many devices the machine has, up to 8; 2 if not set. Where
 *                                    it is set, CUDA_VISIBLE_DEVICES hides and orders them as the
 *                                    real driver does
 *   FAKE_CUDA_ISLAND=4               devices reach each other's memory in groups of so many only
 *   FAKE_CUDA_MACHINE=/a/file        processes with the same file share the devices' memory
 *   FAKE_CUDA_FAIL=cuMemAlloc_v2=2   the named function answers this number and does nothing
 *   FAKE_CUDA_CAPTURING=1            somebody captures a graph in the default mode: capture
 *                                    FAKE_CUDA_CAPTURE of three nodes, the last after the others,
 *                                    and that one is the last of every stream
 *   FAKE_CUDA_SPOILT=1               that capture was spoilt
 *   FAKE_CUDA_WITHOUT_VIRTUAL=1      the device says it has no virtual memory
 *   FAKE_CUDA_WITHOUT_RDMA=1         the device says it has no direct RDMA
 *   FAKE_CUDA_RDMA_WITHOUT_ACCESS=1  it has, but gives no access to memory that asked for it
 *   FAKE_CUDA_WITHOUT_SHARING=1      the device says its memory cannot be exported
 *   FAKE_CUDA_SHARING_REFUSED=1      it can, but not here: creating such memory is refused
 *   FAKE_CUDA_WITHOUT_DMA_BUF=1      the device says it makes no dma-buf
 *   FAKE_CUDA_WITHOUT_HOST_NODES=1   the device knows no NUMA node that is near
 *   FAKE_CUDA_HOST_REFUSED=1         no memory of the host can be created
 *   FAKE_CUDA_WITHOUT_PEERS=1        no device can reach another's memory
 *   FAKE_CUDA_HOLD=/a/file           cuMemGetInfo does not answer while this file is there
 *   FAKE_CUDA_BUSY_MS=50             work still runs for so long, whoever waits for a device
 *   FAKE_NVML_PROCESSES=200          how many processes NVML or AMD SMI reports; 3 if not set
 *   FAKE_NVML_ENTRY_BYTES=32         the layout of NVML's entries; 24 if not set
 *   FAKE_NVML_LIST=0:17:4096,1:9:1   instead: process 17 has 4096 bytes of GPU 0, and so on
 *   FAKE_NVML_NAME="NVIDIA H200"     of all GPUs; "Fake GPU" if not set
 *   FAKE_NVML_TOTAL=1000000          their memory
 *
 * Compiled with FAKE_CUDA_OLD it is a driver from before CUDA 10: no virtual memory, no captures,
 * older names where we know a fallback. */
#ifndef VW_TESTS_FAKE_LIBCUDA_H
#define VW_TESTS_FAKE_LIBCUDA_H

#include <stddef.h>

enum {
    FAKE_CUDA_DEVICES = 2,      /* unless FAKE_CUDA_DEVICE_COUNT says otherwise */
    FAKE_CUDA_MOST_DEVICES = 8, /* arrays by device: as the machine counts, whatever is visible */
    FAKE_CUDA_HOST_NODE = 1,    /* the one near all of them */
    FAKE_CUDA_CAPTURE = 5,
    FAKE_CUDA_ANOTHER_PID = 4242, /* the second process NVML reports; it hides its memory */
};
#define FAKE_CUDA_TOTAL_BYTES ((size_t)4 << 30)
#define FAKE_CUDA_GRANULARITY_BYTES ((size_t)2 << 20)
#define FAKE_NVML_SYSTEM_BYTES ((size_t)64 << 20) /* used, by no process in the list */
#define FAKE_NVML_OWN_BYTES ((size_t)100 << 20)   /* the first process: the one that asks */

typedef struct fake_cuda_state {
    int push_count; /* since the library was loaded, all threads */
    int pop_count;
    int context_depth; /* of the asking thread */
    int capture_mode;  /* of the asking thread */
    int retain_count;  /* of all primary contexts */
    size_t used_bytes; /* on all devices, by this process */
    size_t device_used_bytes[FAKE_CUDA_MOST_DEVICES];
    unsigned stream_flags; /* of the latest stream and event */
    unsigned event_flags;
    int allocation_type;     /* as the latest cuMemCreate was given them */
    int allocation_location; /* the type of location, and its number */
    int allocation_device;
    int is_direct_rdma_capable;
    int requested_handle_types;
    unsigned host_flags; /* of the latest cuMemHostAlloc */
    int handle_count;    /* of everything that was created and not ended, on all devices */
    int reservation_count;
    int mapping_count;
    int open_mappings[FAKE_CUDA_MOST_DEVICES];     /* of those, the ones that a device may touch */
    int imported_count;                            /* handles whose memory another driver created */
    size_t host_handle_bytes;                      /* of handles on the host */
    int synchronize_count[FAKE_CUDA_MOST_DEVICES]; /* cuCtxSynchronize, since the library was loaded
                                                    */
    int held_count; /* threads that wait for an answer at this moment */
} fake_cuda_state;

/* Exported under this name; tests find it with dlsym. */
#define FAKE_CUDA_GET_STATE "fake_cuda_get_state"
typedef void (*fake_cuda_get_state_function)(fake_cuda_state *out);

/* Likewise: the nth call from now (1: the next) answers `result` and does nothing; 0: none does. */
#define FAKE_CUDA_FAIL_CALL "fake_cuda_fail_call"
typedef void (*fake_cuda_fail_call_function)(int nth, int result);

#endif /* VW_TESTS_FAKE_LIBCUDA_H */
