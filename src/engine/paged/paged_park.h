/* paged_park.h - parking: memory leaves the device until it is woken. vramwise/park.h has the
 * contract, docs/design/012-park.md the reasons. */
#ifndef VW_ENGINE_PAGED_PAGED_PARK_H
#define VW_ENGINE_PAGED_PAGED_PARK_H

#include "engine/paged/paged_engine.h"

/* One handle of a parking. */
typedef struct vw__paged_parked {
    vw__paged_handle *handle; /* NULL: gone, since its blocks were freed; or not parked here */
    vw_handle memory;         /* while it is woken: made for it, not yet its own; 0 = none */
    bool is_mapped;           /* `memory` is, at its addresses */
    uint32_t batch;           /* copied and unmapped together */
} vw__paged_parked;

/* Bytes on the tape. */
typedef struct vw__paged_span {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t offset;
    uint32_t batch; /* of all the handles it lies in */
} vw__paged_span;

/* What one call parked. */
struct vw__paged_parking {
    vw__paged_parking *next;
    vw__private_pool *region; /* NULL: the whole pool */
    vw__paged_parked *items;  /* owned; by rising address; between two calls none but parked ones */
    size_t count;

    /* The whole pool's. */
    vw__park_store store;
    vw__paged_span *spans; /* owned; by batch and rising address */
    size_t span_count;
    size_t span_capacity;
    uint64_t tape_bytes;

    /* A region's. */
    vw__lender host;
    vw__lender_handle *scratch; /* of a region without data: one for each size, linked by `next` */
};

/* ---- paged_park.c: the engine table's -------------------------------------------------------- */

bool vw__paged_is_parked(vw__engine *engine, const vw_private_id *only);
vw_status vw__paged_park(vw__engine *engine, vw__engine_park *how, vw_park_report *report);
vw_status vw__paged_wake(vw__engine *engine, const vw_private_id *only, vw_park_report *report);
/* At the engine's end: what is parked is lost, with its records. */
void vw__paged_end_parkings(vw__paged_engine *engine);

/* A parked handle has lost its memory on the device, or has other memory there. */
void vw__paged_count_parked(vw__paged_engine *engine, vw__paged_parking *parking,
                            vw__paged_handle *handle, vw_park_report *report);
void vw__paged_count_woken(vw__paged_engine *engine, vw__paged_handle *handle,
                           vw_park_report *report);
/* Makes memory for every handle that is still parked, or none. VW_ERR_OUT_OF_MEMORY. */
vw_status vw__paged_make_parked(vw__paged_engine *engine, vw__paged_parking *parking);
/* Gives it back, as far as no handle has it. */
void vw__paged_unmake_parked(vw__paged_engine *engine, vw__paged_parking *parking);

static inline bool vw__paged_is_parked_in(const vw__paged_parking *parking, size_t item)
{
    const vw__paged_handle *handle = parking->items[item].handle;
    return handle != NULL && handle->parking == parking;
}

/* ---- paged_park_tape.c, paged_park_region.c ---- */

/* Inside a safe moment, with the device idle. Parking that fails may leave some handles parked and
 * others not; waking that fails leaves each as it was, or woken. */
vw_status vw__paged_park_tape(vw__paged_engine *engine, vw__paged_parking *parking,
                              vw_park_report *report);
vw_status vw__paged_wake_tape(vw__paged_engine *engine, vw__paged_parking *parking,
                              vw_park_report *report);
vw_status vw__paged_park_region(vw__paged_engine *engine, vw__paged_parking *parking,
                                vw_park_report *report);
vw_status vw__paged_wake_region(vw__paged_engine *engine, vw__paged_parking *parking,
                                vw_park_report *report);

/* The block that holds `address`; `*cursor` is one found before, or NULL. */
vw__block *vw__paged_block_from(vw__block **cursor, const vw__segment *segment, uint64_t address);

#endif /* VW_ENGINE_PAGED_PAGED_PARK_H */
