/* snapshot_take.c - see snapshot_take.h for how the two halves come to be of one instant. */
#include "record/snapshot_take.h"

#include <string.h>

#include "base/checked_math.h" /* hr__min_u64 */
#include "base/error.h"
#include "base/host_memory.h"

/* A pool that doubles between any two of these tries is not to be expected. */
enum { MOST_TRIES = 20 };

/* Different for each thread that runs now. */
static const void *this_thread(void)
{
    static _Thread_local char mark;
    return &mark;
}

/* ---- under the pool's lock ------------------------------------------------------------------- */

static bool add_segment(void *context, const hr_segment_info *segment)
{
    hr__picture *picture = context;
    if (picture->segment_count < picture->segment_capacity)
        picture->segments[picture->segment_count] = (hr__picture_segment){
            *segment, hr__recorder_segment_capture(picture->recorder, segment)};
    picture->segment_count++;
    return true;
}

static bool add_block(void *context, const hr_segment_info *segment, const hr_block_info *block)
{
    (void)segment;
    hr__picture *picture = context;
    if (picture->block_count < picture->block_capacity)
        picture->blocks[picture->block_count] =
            (hr__picture_block){*block, hr__recorder_block_capture(picture->recorder, block)};
    picture->block_count++;
    return true;
}

static bool is_complete(const hr__picture *picture)
{
    return picture->event_count <= picture->event_capacity &&
           picture->segment_count <= picture->segment_capacity &&
           picture->block_count <= picture->block_capacity;
}

bool hr__picture_copy_events(hr_recorder *recorder)
{
    hr__picture *picture = recorder->pictures;
    while (picture != NULL && picture->thread != this_thread())
        picture = picture->next;
    if (picture == NULL)
        return true; /* someone else's walk: an event like any other */
    const hr__ring_buffer *ring = &recorder->events;
    picture->event_count = hr__ring_buffer_count(ring);
    if (!is_complete(picture))
        return false;
    if (picture->event_count != 0) {
        size_t head = (size_t)hr__min_u64(picture->event_count, ring->capacity - ring->first);
        memcpy(picture->events, hr__ring_buffer_at(ring, 0), head * sizeof *picture->events);
        memcpy(picture->events + head, ring->records,
               (picture->event_count - head) * sizeof *picture->events);
    }
    return true;
}

/* ---- without it ------------------------------------------------------------------------------ */

/* Room for `wanted` and some more; NULL: no host memory. */
static void *make_room(void *items, size_t *capacity, size_t wanted, size_t item_bytes)
{
    uint64_t size_bytes;
    if (items != NULL && wanted <= *capacity)
        return items;
    hr__host_free(items); /* to be filled anew: not worth copying */
    wanted += wanted / 4 + 64;
    items =
        hr__mul_u64(wanted, item_bytes, &size_bytes) ? hr__host_alloc((size_t)size_bytes) : NULL;
    *capacity = items != NULL ? wanted : 0;
    return items;
}

static hr_status make_picture_room(hr__picture *picture)
{
    picture->events = make_room(picture->events, &picture->event_capacity, picture->event_count,
                                sizeof *picture->events);
    picture->segments = make_room(picture->segments, &picture->segment_capacity,
                                  picture->segment_count, sizeof *picture->segments);
    picture->blocks = make_room(picture->blocks, &picture->block_capacity, picture->block_count,
                                sizeof *picture->blocks);
    if (picture->events == NULL || picture->segments == NULL || picture->blocks == NULL)
        return hr__fail_host_memory(picture->event_count * sizeof *picture->events +
                                        picture->block_count * sizeof *picture->blocks,
                                    "a copy of the recording");
    return HR_OK;
}

/* Puts the picture where the listener finds it. HR_ERR_WRONG_STATE: not attached to that pool. */
static hr_status announce(hr__picture *picture, const hr_pool *pool)
{
    hr_recorder *recorder = picture->recorder;
    hr__mutex_lock(&recorder->lock);
    bool is_attached = recorder->pool == pool;
    if (is_attached) {
        picture->next = recorder->pictures;
        recorder->pictures = picture;
        picture->event_count = hr__ring_buffer_count(&recorder->events);
    }
    hr__mutex_unlock(&recorder->lock);
    if (!is_attached)
        return hr__fail(HR_ERR_WRONG_STATE, "the recorder is not attached to this pool");
    return HR_OK;
}

static void withdraw(hr__picture *picture)
{
    hr_recorder *recorder = picture->recorder;
    hr__mutex_lock(&recorder->lock);
    hr__picture **link = &recorder->pictures;
    while (*link != picture)
        link = &(*link)->next;
    *link = picture->next;
    hr__mutex_unlock(&recorder->lock);
}

/* The first look only counts; then each has room for what the one before it saw. */
static hr_status take(hr__picture *picture, hr_pool *pool)
{
    const hr_walker walker = {picture, add_segment, add_block};
    for (int i = 0; i < MOST_TRIES; i++) {
        picture->segment_count = picture->block_count = 0;
        HR__TRY(hr_pool_walk(pool, &walker, i != 0));
        if (i != 0 && is_complete(picture))
            return HR_OK;
        HR__TRY(make_picture_room(picture));
    }
    return hr__fail(HR_ERR_WRONG_STATE, "the pool grows faster than it can be copied");
}

static size_t count_moves(hr_recorder *recorder)
{
    hr__mutex_lock(&recorder->lock);
    size_t count = hr__ring_buffer_count(&recorder->moves);
    hr__mutex_unlock(&recorder->lock);
    return count;
}

/* Those there were when it began: they only say when something happened, so that they need not be
 * of the very instant. */
static hr_status copy_moves(hr__picture *picture)
{
    hr_recorder *recorder = picture->recorder;
    const size_t wanted = count_moves(recorder);
    if (wanted == 0)
        return HR_OK;
    picture->moves = hr__host_alloc(wanted * sizeof *picture->moves);
    if (picture->moves == NULL)
        return hr__fail_host_memory(wanted * sizeof *picture->moves, "a copy of the recording");
    hr__mutex_lock(&recorder->lock);
    const hr__ring_buffer *ring = &recorder->moves; /* it may have been cleared */
    picture->move_count = (size_t)hr__min_u64(wanted, hr__ring_buffer_count(ring));
    for (size_t i = 0; i < picture->move_count; i++)
        memcpy(&picture->moves[i], hr__ring_buffer_at(ring, i), sizeof *picture->moves);
    hr__mutex_unlock(&recorder->lock);
    return HR_OK;
}

hr_status hr__picture_take(hr_recorder *recorder, hr_pool *pool, hr__picture *out)
{
    *out = (hr__picture){.recorder = recorder, .thread = this_thread()};
    HR__TRY(announce(out, pool));
    hr_status status = take(out, pool);
    withdraw(out);
    if (status == HR_OK)
        status = copy_moves(out);
    if (status != HR_OK)
        hr__picture_deinit(out);
    return status;
}

void hr__picture_deinit(hr__picture *picture)
{
    hr__host_free(picture->events);
    hr__host_free(picture->segments);
    hr__host_free(picture->blocks);
    hr__host_free(picture->moves);
    picture->moves = NULL;
    picture->events = NULL;
    picture->segments = NULL;
    picture->blocks = NULL;
}
