/* device_common.h - the common part of the simulated and the host device: nearly everything.
 *
 * A *stand-in* is a device that is not a GPU. Both stand-ins share one device table, one set of
 * books (device_books.h) and one model of streams (device_streams.h). This file counts each call,
 * charges for it, makes it fail as scripted, and locks. What a call does to real memory is in the
 * stand-in's vw__books_backing.
 *
 * Which calls count as which kind:
 *   CREATE        create, create_shareable, import_handle
 *   STREAM        stream_create, stream_destroy, stream_wait_event, stream_is_capturing,
 *                 stream_capture_nodes, graph_node_parents
 *   SYNCHRONIZE   stream_synchronize, event_synchronize, synchronize
 *   HOST_TAKE     host_take, host_register; HOST_GIVE_BACK likewise
 *   ACCESS_ON_HOST, COPY_ON_HOST   set_access and copy where memory from create_on_host is touched
 * event_destroy, write, read, fill, processes, export_handle and allow_peer have no kind: they are
 * not counted, cost nothing and cannot be made to fail. On a lost device they fail, too. */
#ifndef VW_DEVICE_DEVICE_COMMON_H
#define VW_DEVICE_DEVICE_COMMON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ranked_mutex.h"
#include "device/device_books.h"
#include "device/device_graphs.h"
#include "device/device_streams.h"
#include "vramwise/device.h"

/* The first member of a stand-in's context, so that a pointer to one is a pointer to the other. */
typedef struct vw__stand_in {
    vw__mutex lock;                           /* guards everything below that is not read-only */
    uint64_t total_bytes;                     /* set at creation, then read-only */
    vw_call_cost costs[VW_DEVICE_CALL_KINDS]; /* set at creation, then read-only */
    int peer_count;                           /* set at creation, then read-only */
    vw__books books;
    vw__streams streams;
    vw__device_graphs graphs;
    vw_device_calls calls;        /* without in_use_bytes and peak_use_bytes: see the books */
    uint64_t calls_until_failure; /* 0: none; 1: the next call fails */
    uint64_t failure_order;       /* argument of vw_device_fail_call(), for the message */
    vw_status failure_status;
    bool is_lost;
} vw__stand_in;

/* What a stand-in is made of. */
typedef struct vw__stand_in_parts {
    const vw__books_backing *backing; /* borrowed, static; its context is the stand-in */
    const vw_call_cost *costs;        /* one per kind of call; NULL: calls cost nothing */
    uint64_t capacity_bytes;
    uint64_t granularity_bytes; /* a power of two, also where virtual memory is off */
    bool holds_streams;
    int peer_count;                  /* indices that allow_peer() takes; 0: it has no peers */
    vw_device_properties properties; /* has_virtual_memory included */
} vw__stand_in_parts;

/* Fills `stand_in`, the start of a context from vw__host_alloc(), and makes the vw_device for it.
 * On success the device owns the context, and ends it through backing->destroy. On failure
 * (VW_ERR_HOST_MEMORY) the caller still owns it. */
vw_status vw__stand_in_init(vw__stand_in *stand_in, const vw__stand_in_parts *parts,
                            vw_device **out);

/* The stand-in behind a device, or NULL if the device is not a stand-in, or NULL. */
vw__stand_in *vw__stand_in_of(const vw_device *device);

/* The same for one with that `backing`, with a message on failure; `what` names the caller. */
vw_status vw__stand_in_with_backing(const vw_device *device, const vw__books_backing *backing,
                                    const char *what, vw__stand_in **out);

/* vw_device_table.memory_info for a mere observer: a stand-in does not count the call, charge for
 * it or make it fail. One thread of the process at a time.
 *
 * A driver may hang. So vw__device_begin_peek() is called first, while the device certainly exists:
 * if vw_device_destroy() is called after that, the device stays until the driver has answered, and
 * is then ended in the thread that asked. */
void vw__device_begin_peek(const vw_device *device);
vw_status vw__device_peek_memory(const vw_device *device, uint64_t *free_bytes,
                                 uint64_t *total_bytes);

/* Does that hold for this device? Not for a caller's own: only its owner can end it. */
bool vw__device_outlives_a_peek(const vw_device *device);

const vw_device_table *vw__cuda_device_table(void); /* device_cuda.c; static */

/* ---- the host device's number -----------------------------------------------------------------
 */

/* The size of a granule, unless the machine's pages are larger. Much smaller than a GPU's 2 MiB, so
 * that tests can use thousands of pages without touching gigabytes; larger than most machines'
 * pages, so that code which confuses the two fails. */
#define VW__DEVICE_HOST_GRANULARITY_BYTES (UINT64_C(64) << 10)

/* ---- the simulated device's numbers ---------------------------------------------------------- */

#define VW__SIMULATED_CAPACITY_BYTES (UINT64_C(80) << 30)
#define VW__SIMULATED_GRANULARITY_BYTES (UINT64_C(2) << 20)

/* Plain memory lies in [PLAIN_BOTTOM, PLAIN_TOP), reservations in [RESERVED_BOTTOM, PLAIN_BOTTOM):
 * both below the 47 bits that a GPU's addresses have. */
#define VW__SIMULATED_PLAIN_TOP UINT64_C(0x7f0000000000)
#define VW__SIMULATED_PLAIN_BOTTOM UINT64_C(0x500000000000)
#define VW__SIMULATED_RESERVED_BOTTOM UINT64_C(0x100000000000)
#define VW__SIMULATED_PLAIN_ALIGNMENT_BYTES (UINT64_C(2) << 20)
#define VW__SIMULATED_RESERVATION_STEP_BYTES (UINT64_C(32) << 20)

/* The default costs of calls. */
extern const vw_call_cost vw__simulated_costs[VW_DEVICE_CALL_KINDS];

#endif /* VW_DEVICE_DEVICE_COMMON_H */
