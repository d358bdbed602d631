/* hand_made_script.h - scripts written in a test, operation by operation.
 *
 * Each function appends one operation and the events it would have had: a request one, a free two.
 * Live bytes are counted as in script.h. Events have no times except those from hand_time(). */
#ifndef VW_TESTS_HAND_MADE_SCRIPT_H
#define VW_TESTS_HAND_MADE_SCRIPT_H

#include <string.h>

#include "analysis/script.h"

#define MIB (UINT64_C(1) << 20)

enum { HAND_MOST_OPS = 4096, HAND_MOST_SLOTS = 64, HAND_STREAMS = 3, HAND_POOLS = 3 };

typedef struct hand_made_script {
    vw__script script;
    vw__model model;
    vw__model_trace trace;
    vw__model_event events[2 * HAND_MOST_OPS];
    vw__script_op ops[HAND_MOST_OPS];
    vw_stream streams[HAND_STREAMS];
    vw_private_id pools[HAND_POOLS];
    uint64_t slot_bytes[HAND_MOST_SLOTS];
    uint64_t user_bytes[HAND_MOST_SLOTS];
    uint64_t live_bytes;
} hand_made_script;

static inline void hand_begin(hand_made_script *hand)
{
    memset(hand, 0, sizeof *hand);
    for (size_t i = 0; i < HAND_STREAMS; i++)
        hand->streams[i] = i * 0x1000;
    for (size_t i = 0; i < HAND_POOLS; i++)
        hand->pools[i] = (vw_private_id){0, i};
    hand->model.streams = hand->streams;
    hand->model.stream_count = HAND_STREAMS;
    hand->model.settings.conf = VW__MODEL_NO_STRING;
    for (size_t i = 0; i < sizeof hand->events / sizeof hand->events[0]; i++)
        hand->events[i].time_us = VW__MODEL_UNKNOWN_TIME;
    hand->trace.events = hand->events;
    hand->script.ops = hand->ops;
    hand->script.pools = hand->pools;
    hand->script.pool_count = HAND_POOLS;
    hand->script.slot_count = HAND_MOST_SLOTS;
    hand->script.user_count = HAND_MOST_SLOTS;
    hand->script.model = &hand->model;
    hand->script.trace = &hand->trace;
}

static inline vw__script_op *hand_add(hand_made_script *hand, vw__script_kind kind,
                                      size_t event_count)
{
    vw__script_op *op = &hand->ops[hand->script.op_count++];
    *op = (vw__script_op){
        .kind = (uint8_t)kind,
        .first_event = (uint32_t)hand->trace.event_count,
        .end_event = (uint32_t)(hand->trace.event_count + event_count),
    };
    hand->trace.event_count += event_count;
    return op;
}

static inline void hand_alloc_on(hand_made_script *hand, uint32_t slot, uint64_t size_bytes,
                                 uint16_t stream)
{
    vw__script_op *op = hand_add(hand, VW__SCRIPT_ALLOC, 1);
    op->slot = slot;
    op->size_bytes = size_bytes;
    op->stream = stream;
    hand->slot_bytes[slot] = (size_bytes + 511) / 512 * 512;
    hand->live_bytes += hand->slot_bytes[slot];
    if (hand->live_bytes > hand->script.peak_live_bytes) {
        hand->script.peak_live_bytes = hand->live_bytes;
        hand->script.peak_event = op->first_event;
    }
}

static inline void hand_alloc(hand_made_script *hand, uint32_t slot, uint64_t size_bytes)
{
    hand_alloc_on(hand, slot, size_bytes, 0);
}

static inline void hand_free(hand_made_script *hand, uint32_t slot)
{
    hand_add(hand, VW__SCRIPT_FREE, 2)->slot = slot;
    hand->live_bytes -= hand->slot_bytes[slot];
}

static inline void hand_free_later(hand_made_script *hand, uint32_t slot, uint32_t user)
{
    vw__script_op *op = hand_add(hand, VW__SCRIPT_FREE_LATER, 1);
    op->slot = slot;
    op->user = user;
    hand->user_bytes[user] = hand->slot_bytes[slot];
}

static inline void hand_complete(hand_made_script *hand, uint32_t user)
{
    hand_add(hand, VW__SCRIPT_COMPLETE, 1)->user = user;
    hand->live_bytes -= hand->user_bytes[user];
}

static inline void hand_oom(hand_made_script *hand, uint64_t size_bytes)
{
    hand_add(hand, VW__SCRIPT_OOM, 1)->size_bytes = size_bytes;
}

static inline void hand_scope(hand_made_script *hand, uint16_t pool)
{
    hand_add(hand, VW__SCRIPT_SCOPE, 0)->pool = pool;
}

static inline void hand_release(hand_made_script *hand, uint16_t pool)
{
    hand_add(hand, VW__SCRIPT_RELEASE, 0)->pool = pool;
}

/* The events so far are `us` apart. */
static inline void hand_time(hand_made_script *hand, int64_t us)
{
    for (size_t i = 0; i < hand->trace.event_count; i++)
        hand->events[i].time_us = (int64_t)i * us;
}

#endif /* VW_TESTS_HAND_MADE_SCRIPT_H */
