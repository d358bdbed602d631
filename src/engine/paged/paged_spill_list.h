/* paged_spill_list.h - what leaving the device and coming back share. */
#ifndef VW_ENGINE_PAGED_PAGED_SPILL_LIST_H
#define VW_ENGINE_PAGED_PAGED_SPILL_LIST_H

#include "engine/paged/paged_engine.h"

/* Handles that could leave, or come back. */
typedef struct vw__paged_spill_list {
    vw__paged_spill_candidate *items; /* the caller's to free; `what` is the handle */
    size_t count;
    size_t capacity;
} vw__paged_spill_list;

/* The memory that moves in one safe moment. */
typedef struct vw__paged_spill_move {
    vw_spill_report report;
    uint64_t gained_bytes; /* of the device's memory */
    uint64_t start_ns;
} vw__paged_spill_move;

/* A handle with blocks in use joins the list; `first` is a block near its beginning. */
vw_status vw__paged_list(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                         vw__paged_spill_list *found);
void vw__paged_spill_sort(vw__paged_spill_list *found); /* the first to leave first */

/* Ends the moment, or counts that it was refused, and tells the listener. Returns the status, or
 * the pool's failure. */
vw_status vw__paged_finish_move(vw__paged_engine *engine, vw__paged_spill_move *move, bool was_safe,
                                vw_status status);

#endif /* VW_ENGINE_PAGED_PAGED_SPILL_LIST_H */
