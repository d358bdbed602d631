/* picture.c - copies events and pool state; see picture.h for how both are of one instant. */
#include "record/picture.h"

#include <string.h>

#include "base/checked_math.h" /* vw__min_u64 */
#include "base/error.h"
#include "base/host_memory.h"

/* No pool is expected to double between two tries, every time. */
enum { MOST_TRIES = 20 };

/* Unique among the threads that run now. */
static const void *this_thread(void)
{
    static _Thread_local char mark;
    return &mark;
}

/* ---- under the pool's lock ------------------------------------------------------------------- */

static bool add_segment(void *context, const vw_segment_info *segment)
{
    vw__picture *picture = context;
    if (picture->segment_count < picture->segment_capacity)
        picture->segments[picture->segment_count] = (vw__picture_segment){
            *segment, vw__recorder_segment_capture(picture->recorder, segment)};
    picture->segment_count++;
    return true;
}

static bool add_block(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    (void)segment;
    vw__picture *picture = context;
    if (picture->block_count < picture->block_capacity)
        picture->blocks[picture->block_count] =
            (vw__picture_block){*block, vw__recorder_block_capture(picture->recorder, block)};
    picture->block_count++;
    return true;
}

static bool is_complete(const vw__picture *picture)
{
    return picture->event_count <= picture->event_capacity &&
           picture->segment_count <= picture->segment_capacity &&
           picture->block_count <= picture->block_capacity;
}

bool vw__picture_copy_events(vw_recorder *recorder)
{
    vw__picture *picture = recorder->pictures;
    while (picture != NULL && picture->thread != this_thread())
        picture = picture->next;
    if (picture == NULL)
        return true; /* someone else's walk: an event like any other */
    const vw__ring_buffer *ring = &recorder->events;
    picture->has_events = true;
    picture->event_count = vw__ring_buffer_count(ring);
    if (!is_complete(picture))
        return false;
    if (picture->event_count != 0) {
        size_t head = (size_t)vw__min_u64(picture->event_count, ring->capacity - ring->first);
        memcpy(picture->events, vw__ring_buffer_at(ring, 0), head * sizeof *picture->events);
        memcpy(picture->events + head, ring->records,
               (picture->event_count - head) * sizeof *picture->events);
    }
    return true;
}

/* ---- without it ------------------------------------------------------------------------------ */

/* Makes room for `wanted` items and some more. NULL: no host memory. */
static void *make_room(void *items, size_t *capacity, size_t wanted, size_t item_bytes)
{
    uint64_t size_bytes;
    if (items != NULL && wanted <= *capacity)
        return items;
    vw__host_free(items); /* to be filled anew: not worth copying */
    wanted += wanted / 4 + 64;
    items =
        vw__mul_u64(wanted, item_bytes, &size_bytes) ? vw__host_alloc((size_t)size_bytes) : NULL;
    *capacity = items != NULL ? wanted : 0;
    return items;
}

static vw_status make_picture_room(vw__picture *picture)
{
    picture->events = make_room(picture->events, &picture->event_capacity, picture->event_count,
                                sizeof *picture->events);
    picture->segments = make_room(picture->segments, &picture->segment_capacity,
                                  picture->segment_count, sizeof *picture->segments);
    picture->blocks = make_room(picture->blocks, &picture->block_capacity, picture->block_count,
                                sizeof *picture->blocks);
    if (picture->events == NULL || picture->segments == NULL || picture->blocks == NULL)
        return vw__fail_host_memory(picture->event_count * sizeof *picture->events +
                                        picture->block_count * sizeof *picture->blocks,
                                    "a copy of the recording");
    return VW_OK;
}

/* Puts the picture where the listener finds it. VW_ERR_WRONG_STATE: not attached to that pool. */
static vw_status announce(vw__picture *picture, const vw_pool *pool)
{
    vw_recorder *recorder = picture->recorder;
    vw__mutex_lock(&recorder->lock);
    bool is_attached = recorder->pool == pool;
    if (is_attached) {
        picture->next = recorder->pictures;
        recorder->pictures = picture;
        picture->event_count = vw__ring_buffer_count(&recorder->events);
    }
    vw__mutex_unlock(&recorder->lock);
    if (!is_attached)
        return vw__fail(VW_ERR_WRONG_STATE, "the recorder is not attached to this pool");
    return VW_OK;
}

static void withdraw(vw__picture *picture)
{
    vw_recorder *recorder = picture->recorder;
    vw__mutex_lock(&recorder->lock);
    vw__picture **link = &recorder->pictures;
    while (*link != picture)
        link = &(*link)->next;
    *link = picture->next;
    vw__mutex_unlock(&recorder->lock);
}

/* The first walk only counts; each later one has room for what the one before it saw. */
static vw_status take(vw__picture *picture, vw_pool *pool)
{
    const vw_walker walker = {picture, add_segment, add_block};
    for (int i = 0; i < MOST_TRIES; i++) {
        picture->segment_count = picture->block_count = 0;
        picture->has_events = false;
        VW__TRY(vw_pool_walk(pool, &walker, i != 0));
        if (i != 0 && !picture->has_events)
            return vw__fail(VW_ERR_WRONG_STATE, "the recorder is no longer the pool's listener");
        if (i != 0 && is_complete(picture))
            return VW_OK;
        VW__TRY(make_picture_room(picture));
    }
    return vw__fail(VW_ERR_WRONG_STATE, "the pool grows faster than it can be copied");
}

static size_t count_moves(vw_recorder *recorder)
{
    vw__mutex_lock(&recorder->lock);
    size_t count = vw__ring_buffer_count(&recorder->moves);
    vw__mutex_unlock(&recorder->lock);
    return count;
}

/* Copies the moves that there were at first. They only say when something happened, so they need
 * not be of the same instant. */
static vw_status copy_moves(vw__picture *picture)
{
    vw_recorder *recorder = picture->recorder;
    const size_t wanted = count_moves(recorder);
    if (wanted == 0)
        return VW_OK;
    picture->moves = vw__host_alloc(wanted * sizeof *picture->moves);
    if (picture->moves == NULL)
        return vw__fail_host_memory(wanted * sizeof *picture->moves, "a copy of the recording");
    vw__mutex_lock(&recorder->lock);
    const vw__ring_buffer *ring = &recorder->moves; /* it may have been cleared */
    picture->move_count = (size_t)vw__min_u64(wanted, vw__ring_buffer_count(ring));
    for (size_t i = 0; i < picture->move_count; i++)
        memcpy(&picture->moves[i], vw__ring_buffer_at(ring, i), sizeof *picture->moves);
    vw__mutex_unlock(&recorder->lock);
    return VW_OK;
}

vw_status vw__picture_take(vw_recorder *recorder, vw_pool *pool, vw__picture *out)
{
    *out = (vw__picture){.recorder = recorder, .thread = this_thread()};
    VW__TRY(announce(out, pool));
    vw_status status = take(out, pool);
    withdraw(out);
    if (status == VW_OK)
        status = copy_moves(out);
    if (status != VW_OK)
        vw__picture_deinit(out);
    return status;
}

void vw__picture_deinit(vw__picture *picture)
{
    vw__host_free(picture->events);
    vw__host_free(picture->segments);
    vw__host_free(picture->blocks);
    vw__host_free(picture->moves);
    picture->moves = NULL;
    picture->events = NULL;
    picture->segments = NULL;
    picture->blocks = NULL;
}
