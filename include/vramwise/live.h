/* live.h - a process's memory, for others to see while it runs.
 *
 * A process has one *page*: a small file in shared memory (/dev/shm) with numbers per device, kept
 * current by the process and read by anyone of the same user: `vramwise top`, `vramwise exporter`,
 * `vramwise doctor --pid`. Writing one is a few stores: no reader can hold a writer up, and nobody
 * needs to be there to read. The page ends with its process, however that ends: a killed one leaves
 * a file that readers know to be stale, and remove.
 *
 * Pools are published by themselves (vw_pool_options.is_unlisted says otherwise). This header is
 * for programs that have more to tell: steps, the time they wait for input, another allocator's
 * numbers.
 *
 * Thread-safe. In a child made by fork() a page is the parent's: every call answers
 * VW_ERR_WRONG_PROCESS. Reading order: vw_live_process_page(), vw_live_page_put(),
 * vw_live_page_step(). To read pages: watch.h. */
#ifndef VRAMWISE_LIVE_H
#define VRAMWISE_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is told of a device, in the order in which it lies in the page: new ones go to the end. One
 * list makes the page, the metrics, the JSON of `top` and what Python may put there.
 * X(enumerator, name, kind, help) */
#define VW_LIVE_FIELD_LIST(X)                                                                      \
    X(LIVE_BYTES, "live_bytes", GAUGE, "Bytes handed out to the program.")                         \
    X(RESERVED_BYTES, "reserved_bytes", GAUGE, "Bytes held from the device by the allocator.")     \
    X(PEAK_LIVE_BYTES, "peak_live_bytes", GAUGE, "Highest live bytes so far.")                     \
    X(PEAK_RESERVED_BYTES, "peak_reserved_bytes", GAUGE, "Highest reserved bytes so far.")         \
    X(LARGEST_FREE_BYTES, "largest_free_block_bytes", GAUGE,                                       \
      "Largest request that idle memory could serve.")                                             \
    X(LIMIT_BYTES, "limit_bytes", GAUGE, "Bytes the process may reserve, by its own setting.")     \
    X(DEVICE_TOTAL_BYTES, "device_total_bytes", GAUGE, "Memory of the device.")                    \
    X(DEVICE_FREE_BYTES, "device_free_bytes", GAUGE, "Free memory of the device, by its driver.")  \
    X(ALLOCATIONS, "allocations", COUNTER, "Requests served.")                                     \
    X(RETRIES, "retries", COUNTER, "Requests that made the allocator give its cache back.")        \
    X(OUT_OF_MEMORY, "out_of_memory", COUNTER, "Requests that failed for lack of memory.")         \
    X(DRIVER_CALLS, "driver_calls", COUNTER, "Calls that took memory from the driver or gave it.") \
    X(DRIVER_NS, "driver_nanoseconds", COUNTER, "Time spent in such calls of the driver.")         \
    X(PINNED_BYTES, "pinned_bytes", GAUGE, "Page-locked host memory.")                             \
    X(STEPS, "steps", COUNTER, "Optimizer steps.")                                                 \
    X(STEP_NS, "step_nanoseconds", COUNTER, "Time spent in optimizer steps.")                      \
    X(INPUT_WAIT_NS, "input_wait_nanoseconds", COUNTER, "Step time spent waiting for input.")      \
    X(LOADER_WORKERS, "loader_workers", GAUGE, "Worker processes of the data loader.")             \
    X(LOADER_PINS, "loader_pins", GAUGE, "1 if the data loader gives pinned memory, 0 if not.")    \
    X(COPIED_BYTES, "copied_bytes", COUNTER, "Live data that went to other pages.")                \
    X(SPILLED_BYTES, "spilled_bytes", GAUGE, "Live data that is in host memory.")                  \
    X(SPILLS, "spills", COUNTER, "Times live data went to host memory.")

typedef enum vw_live_field {
#define VW__LIVE_ENUM(upper, name, kind, help) VW_LIVE_##upper,
    VW_LIVE_FIELD_LIST(VW__LIVE_ENUM)
#undef VW__LIVE_ENUM
        VW_LIVE_FIELD_COUNT
} vw_live_field;

typedef enum vw_live_kind { VW_LIVE_GAUGE, VW_LIVE_COUNTER } vw_live_kind;

VW_API size_t vw_live_field_count(void); /* of the library at hand */
/* NULL, and VW_LIVE_GAUGE, for a number that is no field. Static strings. */
VW_API const char *vw_live_field_name(size_t field);
VW_API const char *vw_live_field_help(size_t field);
VW_API vw_live_kind vw_live_field_kind(size_t field);
VW_API size_t vw_live_field_find(const char *name); /* vw_live_field_count() if there is none */

#define VW_LIVE_UNKNOWN UINT64_MAX    /* as a value: not known */
#define VW_LIVE_KEEP (UINT64_MAX - 1) /* as a value: what is there stays */

/* Who the process is. Texts are copied and cut; NULL: not known, in a change: as it was. */
typedef struct vw_live_identity {
    size_t struct_size;    /* sizeof(vw_live_identity) */
    const char *program;   /* "train.py" */
    const char *allocator; /* "pytorch", "torch", "vramwise" ... */
    const char *job;       /* what joins several processes: a Slurm job, torchrun's run */
    const char *run;       /* the folder of the `vramwise run` above it, or the last 63 bytes */
    int rank;              /* -1 = none */
    int local_rank;        /* -1 */
    int world_size;        /* 0 */
} vw_live_identity;

typedef struct vw_live_page vw_live_page; /* opaque */

/* Does a process in this environment let others see it? Yes, unless VRAMWISE_LIVE is 0, or
 * VRAMWISE_DISABLE is set to something else than 0. */
VW_API bool vw_live_is_wanted(void);

/* The page of this process, which is made at the first call: by the variables of launchers (RANK,
 * SLURM_PROCID, ...), in VRAMWISE_LIVE_DIR or /dev/shm. The page is the library's, and ends with
 * the process.
 *
 * VW_ERR_UNSUPPORTED   not wanted: vw_live_is_wanted()
 * VW_ERR_FILE          no room in shared memory, or no folder: it is not tried again
 * VW_ERR_WRONG_STATE   the process ends
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_live_process_page(vw_live_page **out);

/* A page of one's own in `folder` (NULL: as above), besides that of the process. */
VW_API VW_MUST_CHECK vw_status vw_live_page_create(const char *folder,
                                                   const vw_live_identity *identity,
                                                   vw_live_page **out);
VW_API void vw_live_page_destroy(vw_live_page *page); /* removes it; NULL does nothing */
VW_API const char *vw_live_page_path(const vw_live_page *page);

/* Changes what is not NULL, and ranks that are not -1 (0 for the world size). */
VW_API vw_status vw_live_page_identify(vw_live_page *page, const vw_live_identity *identity);

/* Stores values of a device, by vw_live_field; those past `count` stay as they are. `device_name`
 * may be NULL. All of them are seen together, or none. VW_ERR_INVALID_ARGUMENT: a page has room for
 * 16 devices. VW_ERR_FILE: shared memory is full. */
VW_API vw_status vw_live_page_put(vw_live_page *page, int device, const char *device_name,
                                  const uint64_t *values, size_t count);

/* A step has ended: `live_bytes` were live and `reserved_bytes` reserved. The page keeps the whole
 * run at falling detail: when its log is full, every second entry goes, and from then on every
 * second step is left out. Steps count from 1. */
VW_API vw_status vw_live_page_step(vw_live_page *page, int device, uint64_t step,
                                   uint64_t live_bytes, uint64_t reserved_bytes);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_LIVE_H */
