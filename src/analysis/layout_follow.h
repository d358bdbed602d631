/* layout_follow.h - which memory is held and which blocks are not free, from event to event.
 *
 * For layout.c only. Forwards every event is done, beginning with nothing; backwards every event is
 * undone, beginning with the segments of the file.
 *
 * No locks: one thread at a time. */
#ifndef HR_ANALYSIS_LAYOUT_FOLLOW_H
#define HR_ANALYSIS_LAYOUT_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "base/address_map.h"
#include "base/checked_math.h" /* hr__add_u64 */
#include "model/memory_model.h"

#define HR__BLOCK_UNUSED 255 /* no hr__layout_state: the record is free */

/* Memory that is held in one piece. */
typedef struct hr__held_run {
    uint64_t begin, end; /* end > begin */
    uint32_t context;
    uint16_t stream, pool;
    bool is_expandable;
} hr__held_run;

/* A block that is live or pending; or HR__BLOCK_UNUSED, and `next_unused` is the place of another
 * plus 1. */
typedef struct hr__used_block {
    uint64_t address;
    uint64_t requested_bytes;
    uint32_t context;
    uint32_t next_unused;
    uint8_t state; /* hr__layout_state, or HR__BLOCK_UNUSED */
} hr__used_block;

typedef struct hr__follower {
    const hr__model *model;
    const hr__model_trace *trace;
    hr__held_run *runs; /* owned; by address, apart from each other */
    size_t run_count, run_capacity;
    hr__used_block *blocks; /* owned */
    size_t block_count, block_capacity;
    uint32_t first_unused;
    hr__address_map places; /* address to place in `blocks` plus 1 */
    bool ends_at_request;   /* no free_completed was recorded: a free_requested is the end */
    bool begins_at_request; /* some free_requested was recorded */
    bool has_contradiction; /* an event did not fit what is held */
    bool has_stray;         /* an event did not fit the blocks: not from nothing, forwards */
} hr__follower;

static inline uint64_t hr__end_of(uint64_t address, uint64_t size_bytes)
{
    uint64_t end;
    return hr__add_u64(address, size_bytes, &end) ? end : UINT64_MAX;
}

/* Takes no memory yet. */
void hr__follower_init(hr__follower *state, const hr__model *model, const hr__model_trace *trace);
void hr__follower_deinit(hr__follower *state);

/* Does the first `event_count` events, on nothing. Stops at the first event that shows that
 * something was there before: `*works` is then false, and the state of no use. */
HR_MUST_CHECK hr_status hr__follow_from_nothing(hr__follower *state, size_t event_count,
                                                bool *works);

/* Undoes all but the first `event_count` events. HR_ERR_UNSUPPORTED: the file has no segments, or
 * they are not those of the trace's end. */
HR_MUST_CHECK hr_status hr__follow_from_the_end(hr__follower *state, size_t event_count);

/* The block at `address`, live or pending; or NULL. Valid until the next change. */
hr__used_block *hr__follower_find(const hr__follower *state, uint64_t address);

#endif /* HR_ANALYSIS_LAYOUT_FOLLOW_H */
