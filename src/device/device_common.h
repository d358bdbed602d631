/* device_common.h - what the simulated and the host device have in common: nearly everything.
 *
 * A stand-in is a device that is no GPU. Both stand-ins share one device table, one set of books
 * (device_books.h) and one model of streams (device_streams.h). Around each call this file counts,
 * charges, fails as scripted, and locks; what a call does to real memory is the stand-in's own
 * hr__backing.
 *
 * What counts as which kind of call:
 *   CREATE        create, create_shareable, import_handle
 *   STREAM        stream_create, stream_destroy, stream_wait_event, stream_is_capturing
 *   SYNCHRONIZE   stream_synchronize, event_synchronize, synchronize
 *   HOST_TAKE     host_take, host_register; HOST_GIVE_BACK likewise
 *   ACCESS_ON_HOST, COPY_ON_HOST   set_access and copy where memory from create_on_host is touched
 * event_destroy, write, read, fill, processes, export_handle and allow_peer are of no kind: they
 * are not counted, cost nothing and cannot be scripted to fail. They do fail on a lost device. */
#ifndef HR_DEVICE_DEVICE_COMMON_H
#define HR_DEVICE_DEVICE_COMMON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ranked_mutex.h"
#include "device/device_books.h"
#include "device/device_streams.h"
#include "headroom/device.h"

/* Embedded at the start of a stand-in's context, so that a pointer to one is a pointer to the
 * other. */
typedef struct hr__stand_in {
    hr__mutex lock;                           /* guards everything below that is not read-only */
    uint64_t total_bytes;                     /* set at creation, then read-only */
    hr_call_cost costs[HR_DEVICE_CALL_KINDS]; /* set at creation, then read-only */
    int peer_count;                           /* set at creation, then read-only */
    hr__books books;
    hr__streams streams;
    hr_device_calls calls;        /* but for its in_use_bytes and peak_use_bytes: the books' */
    uint64_t calls_until_failure; /* 0: none ordered; 1: the next */
    uint64_t failure_order;       /* what hr_device_fail_call() was asked, for the message */
    hr_status failure_status;
    bool is_lost;
} hr__stand_in;

/* What a stand-in is made of. */
typedef struct hr__stand_in_parts {
    const hr__backing *backing; /* borrowed, static; its context is the stand-in */
    const hr_call_cost *costs;  /* one per kind of call; NULL: calls cost nothing */
    uint64_t capacity_bytes;
    uint64_t granularity_bytes; /* a power of two, also where virtual memory is off */
    bool holds_streams;
    int peer_count;                  /* indices that allow_peer() takes; 0: it has no peers */
    hr_device_properties properties; /* has_virtual_memory included */
} hr__stand_in_parts;

/* Fills `stand_in`, which starts a context from hr__host_alloc(), and makes the hr_device for it.
 * From success on the device owns the context, and ends it through backing->destroy. On failure
 * (HR_ERR_HOST_MEMORY) the context is still the caller's. */
hr_status hr__stand_in_init(hr__stand_in *stand_in, const hr__stand_in_parts *parts,
                            hr_device **out);

/* The stand-in behind a device, or NULL: not a stand-in, or no device. */
hr__stand_in *hr__stand_in_of(const hr_device *device);

/* The same where `backing` is wanted, with the failure in words: `what` names the caller. */
hr_status hr__stand_in_with_backing(const hr_device *device, const hr__backing *backing,
                                    const char *what, hr__stand_in **out);

/* hr_device_table.memory_info, for one who only looks: a stand-in does not count the call, charge
 * for it or let it fail as scripted. One thread of the process at a time.
 *
 * A driver may never answer. A device that hr_device_destroy() is given after the first of the two,
 * which is called while it is sure to be there, stays until the driver has answered, and is ended
 * then, in the thread that asked. */
void hr__device_begin_peek(const hr_device *device);
hr_status hr__device_peek_memory(const hr_device *device, uint64_t *free_bytes,
                                 uint64_t *total_bytes);

/* Is that so of this one? Nobody but its owner knows how a device of somebody's own is ended. */
bool hr__device_outlives_a_peek(const hr_device *device);

const hr_device_table *hr__cuda_device_table(void); /* device_cuda.c; static */

#endif /* HR_DEVICE_DEVICE_COMMON_H */
