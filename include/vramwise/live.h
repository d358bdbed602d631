/* live.h - publishes a process's memory use while it runs.
 *
 * A process has one *page*: a small file in shared memory (/dev/shm) with numbers per device. The
 * process keeps it current, and programs of the same user read it: `vramwise top`, `vramwise
 * exporter`, `vramwise doctor --pid`; where there is /run/vramwise, its group reads it as well. An
 * update is a few stores: readers never delay a writer, and none needs to exist. The page ends with
 * its process; a killed process leaves a file that readers detect as stale and remove.
 *
 * Pools are published automatically, unless vw_pool_options.is_unlisted. This header is for
 * programs with more to publish: steps, the time they wait for input, another allocator's numbers.
 *
 * Thread-safe. In a child made by fork() a page belongs to the parent: every call returns
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

/* The fields of a device, in their order in the page: new ones go to the end. This list defines the
 * page, the metrics, the JSON of `top` and the fields that Python may set.
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
    X(SPILLS, "spills", COUNTER, "Times live data went to host memory.")                           \
    X(LAUNCH_GATE, "launch_gate", GAUGE,                                                           \
      "Whether live data can be copied: 0 off, 1 waits, 2 arming, 3 armed, 4 refused.")            \
    X(PARKED_BYTES, "parked_bytes", GAUGE, "Device memory given back until the job is woken.")

/* The values of launch_gate in words. */
#define VW_LIVE_LAUNCH_GATE_NAMES "off", "waits", "arming", "armed", "refused"

typedef enum vw_live_field {
#define VW__LIVE_ENUM(upper, name, kind, help) VW_LIVE_##upper,
    VW_LIVE_FIELD_LIST(VW__LIVE_ENUM)
#undef VW__LIVE_ENUM
        VW_LIVE_FIELD_COUNT
} vw_live_field;

typedef enum vw_live_kind { VW_LIVE_GAUGE, VW_LIVE_COUNTER } vw_live_kind;

VW_API size_t vw_live_field_count(void); /* of the loaded library */
/* For a number that is not a field: NULL, and VW_LIVE_GAUGE. Static strings. */
VW_API const char *vw_live_field_name(size_t field);
VW_API const char *vw_live_field_help(size_t field);
VW_API vw_live_kind vw_live_field_kind(size_t field);
VW_API size_t vw_live_field_find(const char *name); /* vw_live_field_count() if unknown */

#define VW_LIVE_UNKNOWN UINT64_MAX    /* a value that is not known */
#define VW_LIVE_KEEP (UINT64_MAX - 1) /* leaves the value in the page as it is */

/* Who the process is. Texts are copied and cut to 63 bytes; NULL: unknown or, in a change, as
 * before. */
typedef struct vw_live_identity {
    size_t struct_size;    /* sizeof(vw_live_identity) */
    const char *program;   /* "train.py" */
    const char *allocator; /* "pytorch", "torch", "vramwise" ... */
    const char *job;       /* common to several processes: a Slurm job, a torchrun run */
    const char *run;       /* folder of the `vramwise run` that started it; its last 63 bytes */
    int rank;              /* -1 = none */
    int local_rank;        /* -1 */
    int world_size;        /* 0 */
} vw_live_identity;

typedef struct vw_live_page vw_live_page; /* opaque */

/* Returns whether this environment allows publishing: VRAMWISE_LIVE is not 0, and VRAMWISE_DISABLE
 * is unset or 0. */
VW_API bool vw_live_is_wanted(void);

/* The page of this process. The first call makes it, in VRAMWISE_LIVE_DIR, or in /run/vramwise
 * where the machine has that for the pages of all users, or in /dev/shm, with the identity that
 * launchers put into the environment (RANK, SLURM_PROCID, ...). The library owns the page, which
 * ends with the process.
 *
 * VW_ERR_UNSUPPORTED   vw_live_is_wanted() is false
 * VW_ERR_FILE          no room in shared memory, or no folder: it is not tried again
 * VW_ERR_WRONG_STATE   the process is exiting
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_live_process_page(vw_live_page **out);

/* Makes a further page in `folder` (NULL: /dev/shm), besides that of the process. Where the folder
 * is sticky and gives its group to new files, that group may read the page; else only this user. */
VW_API VW_MUST_CHECK vw_status vw_live_page_create(const char *folder,
                                                   const vw_live_identity *identity,
                                                   vw_live_page **out);
VW_API void vw_live_page_destroy(vw_live_page *page); /* removes it; NULL does nothing */
VW_API const char *vw_live_page_path(const vw_live_page *page);

/* Changes the texts that are not NULL, the ranks that are not -1, and a world size that is not 0.
 */
VW_API vw_status vw_live_page_identify(vw_live_page *page, const vw_live_identity *identity);

/* Stores values of a device, by vw_live_field; those past `count` stay as they are. `device_name`
 * may be NULL. Readers see all changes of a call or none. VW_ERR_INVALID_ARGUMENT: more than the 16
 * devices that a page has room for. VW_ERR_FILE: shared memory is full. */
VW_API vw_status vw_live_page_put(vw_live_page *page, int device, const char *device_name,
                                  const uint64_t *values, size_t count);

/* Logs the end of a step, with the bytes that were live and reserved then. The page keeps the whole
 * run, the longer the coarser: when its log is full, it drops every second entry, and from then on
 * logs every second step only. Steps count from 1. */
VW_API vw_status vw_live_page_step(vw_live_page *page, int device, uint64_t step,
                                   uint64_t live_bytes, uint64_t reserved_bytes);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_LIVE_H */
