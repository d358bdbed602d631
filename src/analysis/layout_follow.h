/* layout_follow.h - which memory is held and which blocks are not free, from event to event.
 *
 * For layout.c only. Forwards every event is done, beginning with nothing; backwards every event is
 * undone, beginning with the segments of the file.
 *
 * No locks: one thread at a time. */
#ifndef VW_ANALYSIS_LAYOUT_FOLLOW_H
#define VW_ANALYSIS_LAYOUT_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "base/address_map.h"
#include "base/checked_math.h" /* vw__add_u64 */
#include "model/memory_model.h"

#define VW__BLOCK_UNUSED 255 /* no vw__layout_state: the record is free */

/* Memory that is held in one piece. */
typedef struct vw__held_run {
    uint64_t begin, end; /* end > begin */
    uint32_t context;
    uint16_t stream, pool;
    bool is_expandable;
} vw__held_run;

/* A block that is live or pending; or VW__BLOCK_UNUSED, and `next_unused` is the place of another
 * plus 1. */
typedef struct vw__used_block {
    uint64_t address;
    uint64_t requested_bytes;
    uint32_t context;
    uint32_t next_unused;
    uint8_t state; /* vw__layout_state, or VW__BLOCK_UNUSED */
} vw__used_block;

typedef struct vw__follower {
    const vw__model *model;
    const vw__model_trace *trace;
    vw__held_run *runs; /* owned; by address, apart from each other */
    size_t run_count, run_capacity;
    vw__used_block *blocks; /* owned */
    size_t block_count, block_capacity;
    uint32_t first_unused;
    vw__address_map places; /* address to place in `blocks` plus 1 */
    bool ends_at_request;   /* no free_completed was recorded: a free_requested is the end */
    bool begins_at_request; /* some free_requested was recorded */
    bool has_contradiction; /* an event did not fit what is held */
    bool has_stray;         /* an event did not fit the blocks: not from nothing, forwards */
} vw__follower;

static inline uint64_t vw__end_of(uint64_t address, uint64_t size_bytes)
{
    uint64_t end;
    return vw__add_u64(address, size_bytes, &end) ? end : UINT64_MAX;
}

/* Takes no memory yet. */
void vw__follower_init(vw__follower *state, const vw__model *model, const vw__model_trace *trace);
void vw__follower_deinit(vw__follower *state);

/* Does the first `event_count` events, on nothing. Stops at the first event that shows that
 * something was there before: `*works` is then false, and the state of no use. */
VW_MUST_CHECK vw_status vw__follow_from_nothing(vw__follower *state, size_t event_count,
                                                bool *works);

/* Undoes all but the first `event_count` events. VW_ERR_UNSUPPORTED: the file has no segments, or
 * they are not those of the trace's end. */
VW_MUST_CHECK vw_status vw__follow_from_the_end(vw__follower *state, size_t event_count);

/* The block at `address`, live or pending; or NULL. Valid until the next change. */
vw__used_block *vw__follower_find(const vw__follower *state, uint64_t address);

#endif /* VW_ANALYSIS_LAYOUT_FOLLOW_H */
