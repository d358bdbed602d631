/* device_common.h - what the simulated and the host device have in common: nearly everything.
 *
 * A stand-in is a device that is no GPU. Both stand-ins share one device table, one set of books
 * (device_books.h) and one model of streams (device_streams.h). Around each call this file counts,
 * charges, fails as scripted, and locks; what a call does to real memory is the stand-in's own
 * vw__backing.
 *
 * What counts as which kind of call:
 *   CREATE        create, create_shareable, import_handle
 *   STREAM        stream_create, stream_destroy, stream_wait_event, stream_is_capturing
 *   SYNCHRONIZE   stream_synchronize, event_synchronize, synchronize
 *   HOST_TAKE     host_take, host_register; HOST_GIVE_BACK likewise
 *   ACCESS_ON_HOST, COPY_ON_HOST   set_access and copy where memory from create_on_host is touched
 * event_destroy, write, read, fill, processes, export_handle and allow_peer are of no kind: they
 * are not counted, cost nothing and cannot be scripted to fail. They do fail on a lost device. */
#ifndef VW_DEVICE_DEVICE_COMMON_H
#define VW_DEVICE_DEVICE_COMMON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ranked_mutex.h"
#include "device/device_books.h"
#include "device/device_streams.h"
#include "vramwise/device.h"

/* Embedded at the start of a stand-in's context, so that a pointer to one is a pointer to the
 * other. */
typedef struct vw__stand_in {
    vw__mutex lock;                           /* guards everything below that is not read-only */
    uint64_t total_bytes;                     /* set at creation, then read-only */
    vw_call_cost costs[VW_DEVICE_CALL_KINDS]; /* set at creation, then read-only */
    int peer_count;                           /* set at creation, then read-only */
    vw__books books;
    vw__streams streams;
    vw_device_calls calls;        /* but for its in_use_bytes and peak_use_bytes: the books' */
    uint64_t calls_until_failure; /* 0: none ordered; 1: the next */
    uint64_t failure_order;       /* what vw_device_fail_call() was asked, for the message */
    vw_status failure_status;
    bool is_lost;
} vw__stand_in;

/* What a stand-in is made of. */
typedef struct vw__stand_in_parts {
    const vw__backing *backing; /* borrowed, static; its context is the stand-in */
    const vw_call_cost *costs;  /* one per kind of call; NULL: calls cost nothing */
    uint64_t capacity_bytes;
    uint64_t granularity_bytes; /* a power of two, also where virtual memory is off */
    bool holds_streams;
    int peer_count;                  /* indices that allow_peer() takes; 0: it has no peers */
    vw_device_properties properties; /* has_virtual_memory included */
} vw__stand_in_parts;

/* Fills `stand_in`, which starts a context from vw__host_alloc(), and makes the vw_device for it.
 * From success on the device owns the context, and ends it through backing->destroy. On failure
 * (VW_ERR_HOST_MEMORY) the context is still the caller's. */
vw_status vw__stand_in_init(vw__stand_in *stand_in, const vw__stand_in_parts *parts,
                            vw_device **out);

/* The stand-in behind a device, or NULL: not a stand-in, or no device. */
vw__stand_in *vw__stand_in_of(const vw_device *device);

/* The same where `backing` is wanted, with the failure in words: `what` names the caller. */
vw_status vw__stand_in_with_backing(const vw_device *device, const vw__backing *backing,
                                    const char *what, vw__stand_in **out);

/* vw_device_table.memory_info, for one who only looks: a stand-in does not count the call, charge
 * for it or let it fail as scripted. One thread of the process at a time.
 *
 * A driver may never answer. A device that vw_device_destroy() is given after the first of the two,
 * which is called while it is sure to be there, stays until the driver has answered, and is ended
 * then, in the thread that asked. */
void vw__device_begin_peek(const vw_device *device);
vw_status vw__device_peek_memory(const vw_device *device, uint64_t *free_bytes,
                                 uint64_t *total_bytes);

/* Is that so of this one? Nobody but its owner knows how a device of somebody's own is ended. */
bool vw__device_outlives_a_peek(const vw_device *device);

const vw_device_table *vw__cuda_device_table(void); /* device_cuda.c; static */

#endif /* VW_DEVICE_DEVICE_COMMON_H */
