/* paged_handles.h - arenas, marks, handles and places: all that calls the driver for memory. */
#ifndef VW_ENGINE_PAGED_PAGED_HANDLES_H
#define VW_ENGINE_PAGED_PAGED_HANDLES_H

#include "engine/paged/paged_engine.h"

/* ---- arenas: reservations of addresses ---- */

/* Reserves addresses for a lane, for at least `size_bytes`. */
vw_status vw__paged_add_arena(vw__paged_engine *engine, vw__lane *lane, uint64_t size_bytes);
/* Makes an arena of `nature` out of addresses that were reserved; they go where it fails. */
vw_status vw__paged_adopt_arena(vw__paged_engine *engine, vw__lane *lane, uint64_t address,
                                uint64_t size_bytes, uint8_t nature, vw__segment **out);
/* Nothing is mapped in it. Where the device refuses, addresses are lost, no memory. */
vw_status vw__paged_end_arena(vw__paged_engine *engine, vw__segment *segment);

/* ---- marks in streams, that moves and unmapping wait for ---- */

/* The mark of this call in that stream, made if there is none yet. The caller counts as a user. */
vw_status vw__paged_mark_stream(vw__paged_engine *engine, vw_stream stream, vw__paged_mark **out);
void vw__paged_leave_mark(vw__paged_engine *engine, vw__paged_mark *mark);
vw_status vw__paged_mark_is_complete(vw__paged_engine *engine, vw__paged_mark *mark, bool *out);
/* Asks the device about every mark that was not complete: mark->is_complete is up to date then. */
vw_status vw__paged_look_at_marks(vw__paged_engine *engine);
void vw__paged_end_marks(vw__paged_engine *engine);

/* ---- handles and their places ---- */

/* Physical memory of its own, mapped nowhere. */
vw_status vw__paged_create(vw__paged_engine *engine, uint64_t size_bytes, vw_handle *out);
/* Maps a handle and makes it accessible, or neither. */
vw_status vw__paged_map(vw__paged_engine *engine, const vw__paged_handle *handle, uint64_t address);

/* Makes `handle_bytes` of memory and maps it at an UNMAPPED address. */
vw_status vw__paged_grow(vw__paged_engine *engine, vw__block *unmapped, uint64_t address,
                         uint64_t handle_bytes);
/* Maps a free handle at an UNMAPPED address; its home becomes a ghost. */
vw_status vw__paged_move(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *unmapped,
                         uint64_t address);
/* Makes a ghost of a free handle its home. No driver call but to order streams. */
vw_status vw__paged_revive(vw__paged_engine *engine, vw__paged_place *ghost);
/* `block`, in no index, has just the range of a place that is neither home nor guest any more. */
void vw__paged_add_ghost(vw__paged_engine *engine, vw__paged_place *place, vw__block *block,
                         vw__paged_mark *mark);
/* The home of a free handle becomes a ghost, which `mark` is for; the handle has none then. */
void vw__paged_become_ghost(vw__paged_engine *engine, vw__paged_handle *handle,
                            vw__paged_mark *mark);
/* Unmaps a ghost: VW_ERR_NOT_READY if its mark is not complete and may not be waited for. */
vw_status vw__paged_drop_ghost(vw__paged_engine *engine, vw__paged_place *ghost, bool can_wait);
/* A handle whose home was unmapped to put others in its place is mapped there again. Where it
 * cannot be, live memory is out of reach: the pool turns failed. */
void vw__paged_map_back(vw__paged_engine *engine, const vw__paged_handle *handle);
/* A handle that is mapped nowhere goes back to the device, and its records with it. */
vw_status vw__paged_end_handle(vw__paged_engine *engine, vw__paged_handle *handle);
/* Gives a free handle without ghosts back to the device. Its streams have come to their end.
 * VW_ERR_PARKED if it is parked. */
vw_status vw__paged_release(vw__paged_engine *engine, vw__paged_handle *handle);
/* At the engine's end: whatever is in it. */
void vw__paged_abandon(vw__paged_engine *engine);

static inline void vw__paged_give_back_to_host(vw__paged_engine *engine, vw__lender_handle *handle)
{
    engine->spill->host.give_back(engine->spill->host.context, handle);
}

#endif /* VW_ENGINE_PAGED_PAGED_HANDLES_H */
