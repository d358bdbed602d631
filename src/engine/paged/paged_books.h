/* paged_books.h - the records behind handles and places, and what blocks become as memory comes and
 * goes. The device is called elsewhere; nothing here fails. */
#ifndef VW_ENGINE_PAGED_PAGED_BOOKS_H
#define VW_ENGINE_PAGED_PAGED_BOOKS_H

#include "engine/paged/paged_engine.h"

vw__paged_place *vw__paged_take_place(vw__paged_engine *engine); /* NULL: out of host memory */
void vw__paged_give_back_place(vw__paged_engine *engine, vw__paged_place *place);
void vw__paged_link_handle(vw__paged_engine *engine, vw__paged_handle *handle);
void vw__paged_unlink_handle(vw__paged_engine *engine, vw__paged_handle *handle);

/* The units that `place` covers know `with` from now on: the place itself, or NULL. */
void vw__paged_fill_units(const vw__paged_engine *engine, const vw__paged_place *place,
                          vw__paged_place *with);

/* Into and out of the index that a FREE, UNMAPPED or GHOST block is in. */
void vw__paged_take_out(vw__lane *lane, vw__block *block);
void vw__paged_put_in(vw__lane *lane, vw__block *block);

/* Leaves `block`, which is FREE or UNMAPPED, with just the given range, in no index; what it had
 * before and after stays what it was. Two records must be spare. */
void vw__paged_cut_out(vw__paged_engine *engine, vw__block *block, uint64_t address,
                       uint64_t size_bytes);

/* `block`, in no index, becomes UNMAPPED: joined with unmapped neighbours, and indexed. */
void vw__paged_settle_unmapped(vw__paged_engine *engine, vw__block *block);

/* `block`, in no index, becomes FREE, newly so, while candidates of a survey are in use. Returns
 * the record that stays: its own, or that of the free block before it. */
vw__block *vw__paged_open_block(vw__paged_engine *engine, vw__block *block);

/* Before a survey: nobody knows records that were merged into others any more. */
void vw__paged_give_back_retired(vw__paged_engine *engine);

/* The block that holds `address`, looked for from a block of the same arena. */
vw__block *vw__paged_walk_to(vw__block *block, uint64_t address);

/* The FREE block around a candidate's home now. */
vw__block *vw__paged_block_around(const vw__paged_handle *handle);

uint64_t vw__paged_serving_tag(const vw__paged_engine *engine);

/* Makes `place` the handle's home, or ends that: counts its bytes and tells listeners. */
void vw__paged_come_home(vw__paged_engine *engine, vw__paged_place *place);
void vw__paged_leave_home(vw__paged_engine *engine, const vw__paged_place *place,
                          const vw__block *block);

/* `block`, in no index, becomes FREE: joined with free neighbours, and indexed. */
void vw__paged_settle_free(vw__paged_engine *engine, vw__block *block, int64_t age);

#endif /* VW_ENGINE_PAGED_PAGED_BOOKS_H */
