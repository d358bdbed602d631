/* recorder.c - the listener, and the recorder's life.
 *
 * The listener runs under the pool's lock, on the path of every allocation. It takes host memory
 * only to grow: the ring up to its bound, the stacks up to their limit, the two maps with the
 * number of live blocks and segments. Where there is none, something is left out and counted;
 * nothing is ever reported back to the pool.
 *
 * All events of a request share one capture: that of its tag, or one made from its number. Other
 * requests may come in between; then the stack is looked at again, and it is the same.
 *
 * Frees show the capture of their allocation, as PyTorch's do (context="alloc"), and a release
 * outside of requests that of the request which made the segment. With HR_STACKS_CALLER the pool
 * keeps the tag with the block; with HR_STACKS_NONE there is none. With HR_STACKS_BACKTRACE we keep
 * captures of blocks by address here, and a release shows who asked for it (context="all"). */
#include "record/recorder.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "record/snapshot_take.h"

/* ---- captures -------------------------------------------------------------------------------- */

static uint64_t new_capture(hr_recorder *recorder, uint32_t stack)
{
    uint64_t number = atomic_fetch_add_explicit(&recorder->next_number, 1, memory_order_relaxed);
    return hr__capture_make(2 * number, stack);
}

/* The id of a stack; that of the empty one where it does not fit. */
static uint32_t store_stack(hr_recorder *recorder, const uint64_t *words, uint32_t word_count)
{
    uint32_t id = 0;
    hr__mutex_lock(&recorder->stack_lock);
    bool is_stored = hr__stack_table_add(&recorder->stack_table, words, word_count, &id);
    hr__mutex_unlock(&recorder->stack_lock);
    if (!is_stored) {
        hr__mutex_lock(&recorder->lock);
        recorder->lost_stack_count++;
        hr__mutex_unlock(&recorder->lock);
    }
    return id;
}

/* The id of the stack that led to an event, if we are to look at it. */
static uint32_t look_at_stack(hr_recorder *recorder, const hr_memory_event *event)
{
    if (recorder->stacks != HR_STACKS_BACKTRACE)
        return 0;
    hr__call_stack_walk(&recorder->stack, event->caller, recorder->most_frames);
    return store_stack(recorder, recorder->stack.frames, recorder->stack.frame_count);
}

/* The capture behind a tag of ours; none for a number that we did not give out. */
static uint64_t capture_of_tag(const hr_recorder *recorder, uint64_t tag)
{
    uint64_t serial = tag >> HR__CAPTURE_STACK_BITS;
    bool is_ours = recorder->stacks == HR_STACKS_CALLER && serial != 0 && serial % 2 == 0 &&
                   serial / 2 < atomic_load_explicit(&recorder->next_number, memory_order_relaxed);
    return is_ours ? tag : HR__NO_CAPTURE;
}

/* What is known by address. A capture goes into a map of pointers as the number it is. */
_Static_assert(sizeof(uintptr_t) >= sizeof(uint64_t), "captures have 64 bits");

static uint64_t recall(const hr__address_map *map, uint64_t address)
{
    return (uintptr_t)hr__address_map_get(map, address);
}

static uint64_t forget(hr__address_map *map, uint64_t address)
{
    return (uintptr_t)hr__address_map_remove(map, address);
}

static void remember(hr_recorder *recorder, hr__address_map *map, uint64_t address,
                     uint64_t capture)
{
    if (recorder->stacks != HR_STACKS_BACKTRACE || address == 0)
        return;
    forget(map, address);
    if (hr__address_map_has_room(map, 1) || hr__address_map_reserve(map, 1))
        hr__address_map_insert(map, address, (void *)(uintptr_t)capture);
}

uint64_t hr__recorder_block_capture(const hr_recorder *recorder, const hr_block_info *block)
{
    if (recorder->stacks == HR_STACKS_BACKTRACE)
        return block->state != HR_BLOCK_FREE ? recall(&recorder->live, block->address)
                                             : HR__NO_CAPTURE;
    return capture_of_tag(recorder, block->tag);
}

uint64_t hr__recorder_segment_capture(const hr_recorder *recorder, const hr_segment_info *segment)
{
    if (recorder->stacks == HR_STACKS_BACKTRACE)
        return recall(&recorder->made, segment->address);
    return capture_of_tag(recorder, segment->tag);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Of an event inside a request. */
static uint64_t capture_of_request(hr_recorder *recorder, const hr_memory_event *event)
{
    uint64_t capture = capture_of_tag(recorder, event->tag);
    if (capture != HR__NO_CAPTURE)
        return capture;
    if (event->request == 0) /* it was in progress when we came */
        return new_capture(recorder, look_at_stack(recorder, event));
    if (event->request != recorder->last_request) {
        recorder->last_request = event->request;
        recorder->last_capture =
            hr__capture_make(2 * event->request + 1, look_at_stack(recorder, event));
    }
    return recorder->last_capture;
}

/* Of memory that is given back, inside of a request or not. */
static uint64_t capture_of_release(hr_recorder *recorder, const hr_memory_event *event)
{
    if (event->request != 0)
        return capture_of_request(recorder, event);
    if (recorder->stacks == HR_STACKS_BACKTRACE)
        return new_capture(recorder, look_at_stack(recorder, event));
    return capture_of_tag(recorder, event->tag);
}

static uint64_t capture_of_event(hr_recorder *recorder, const hr_memory_event *event)
{
    bool is_backtrace = recorder->stacks == HR_STACKS_BACKTRACE;
    uint64_t capture;
    switch (event->action) {
    case HR_ACTION_ALLOC:
        capture = capture_of_request(recorder, event);
        remember(recorder, &recorder->live, event->address, capture);
        return capture;
    case HR_ACTION_OOM:
        return capture_of_request(recorder, event);
    case HR_ACTION_FREE_REQUESTED:
        return is_backtrace ? recall(&recorder->live, event->address)
                            : capture_of_tag(recorder, event->tag);
    case HR_ACTION_FREE_COMPLETED:
        return is_backtrace ? forget(&recorder->live, event->address)
                            : capture_of_tag(recorder, event->tag);
    case HR_ACTION_SEGMENT_ALLOC:
    case HR_ACTION_SEGMENT_MAP:
        capture = capture_of_request(recorder, event);
        remember(recorder, &recorder->made, event->address, capture);
        return capture;
    case HR_ACTION_SEGMENT_FREE:
    case HR_ACTION_SEGMENT_UNMAP:
        forget(&recorder->made, event->address);
        return capture_of_release(recorder, event);
    case HR_ACTION_SNAPSHOT:
        break;
    }
    return HR__NO_CAPTURE;
}

/* ---- the listener ---------------------------------------------------------------------------- */

static int64_t reserved_by(const hr_memory_event *event)
{
    switch (event->action) {
    case HR_ACTION_SEGMENT_ALLOC:
    case HR_ACTION_SEGMENT_MAP:
        return (int64_t)event->size_bytes;
    case HR_ACTION_SEGMENT_FREE:
    case HR_ACTION_SEGMENT_UNMAP:
        return -(int64_t)event->size_bytes;
    default:
        return 0;
    }
}

static void notice(void *context, const hr_memory_event *event)
{
    hr_recorder *recorder = context;
    const hr__recorded_event record = {
        .address = event->address,
        .size_bytes = event->size_bytes,
        .time_us = hr__clock_realtime_us(),
        .capture = capture_of_event(recorder, event),
        .stream = event->stream,
        .private_id = event->private_id,
        .action = event->action,
    };
    hr__mutex_lock(&recorder->lock);
    bool is_wanted = true;
    if (__builtin_expect(event->action == HR_ACTION_SNAPSHOT, 0))
        is_wanted = hr__picture_copy_events(recorder);
    if (is_wanted && !hr__ring_buffer_push(&recorder->events, &record))
        recorder->lost_count++;
    recorder->reserved_bytes += reserved_by(event);
    recorder->map_bytes =
        (recorder->live.capacity + recorder->made.capacity) * sizeof(hr__address_map_entry);
    hr__mutex_unlock(&recorder->lock);
}

/* Without the pool's lock. Where there is no host memory the pool's statistics know of it. */
void hr_recorder_note_spill(void *context, const hr_spill_report *report)
{
    hr_recorder *recorder = context;
    const hr__recorded_move move = {*report, hr__clock_realtime_us()};
    hr__mutex_lock(&recorder->lock);
    (void)hr__ring_buffer_push(&recorder->moves, &move);
    hr__mutex_unlock(&recorder->lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

static hr_status check_options(const hr_recorder_options *options)
{
    if (options->struct_size < sizeof *options)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "options of %zu bytes, expected at least %zu",
                        options->struct_size, sizeof *options);
    if ((unsigned)options->stacks > HR_STACKS_CALLER)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "unknown kind of stacks: %u",
                        (unsigned)options->stacks);
    if (options->most_frames > HR_RECORDER_MOST_FRAMES)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "%u frames asked for, at most %u are possible",
                        options->most_frames, (unsigned)HR_RECORDER_MOST_FRAMES);
    return HR_OK;
}

static uint64_t or_default(uint64_t value, uint64_t default_value)
{
    return value != 0 ? value : default_value;
}

hr_status hr_recorder_create(const hr_recorder_options *options, hr_recorder **out)
{
    static const hr_recorder_options defaults = {.struct_size = sizeof defaults};
    if (options == NULL)
        options = &defaults;
    if (out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no place for the recorder");
    HR__TRY(check_options(options));
    if (options->stacks == HR_STACKS_BACKTRACE && !hr__call_stack_prepare())
        return hr__fail(HR_ERR_UNSUPPORTED, "backtrace() finds no frames on this machine");
    hr_recorder *recorder = hr__host_alloc_zeroed(1, sizeof *recorder);
    if (recorder == NULL)
        return hr__fail_host_memory(sizeof *recorder, "a recorder");
    recorder->stacks = options->stacks;
    recorder->most_frames = (uint32_t)or_default(options->most_frames, HR_RECORDER_DEFAULT_FRAMES);
    hr__address_map_init(&recorder->live);
    hr__address_map_init(&recorder->made);
    atomic_init(&recorder->next_number, 1);
    hr__mutex_init(&recorder->lock, HR__LOCK_RECORDER);
    hr__mutex_init(&recorder->stack_lock, HR__LOCK_RECORDER);
    uint64_t entries = or_default(options->max_entries, HR_RECORDER_DEFAULT_ENTRIES);
    size_t bound = (size_t)hr__min_u64(entries, SIZE_MAX);
    hr__ring_buffer_init(&recorder->events, sizeof(hr__recorded_event), bound);
    hr__ring_buffer_init(&recorder->moves, sizeof(hr__recorded_move), bound);
    uint64_t stack_bytes = or_default(options->stack_limit_bytes, HR_RECORDER_DEFAULT_STACK_BYTES);
    hr__stack_table_init(&recorder->stack_table, (size_t)hr__min_u64(stack_bytes, SIZE_MAX));
    *out = recorder;
    return HR_OK;
}

void hr_recorder_destroy(hr_recorder *recorder)
{
    if (recorder == NULL)
        return;
    if (recorder->pool != NULL)
        (void)hr_recorder_detach(recorder); /* fails only in a forked child, where nobody listens */
    hr__stack_table_deinit(&recorder->stack_table);
    hr__ring_buffer_deinit(&recorder->events);
    hr__ring_buffer_deinit(&recorder->moves);
    hr__address_map_deinit(&recorder->live);
    hr__address_map_deinit(&recorder->made);
    hr__host_free(recorder);
}

/* ---- listening ------------------------------------------------------------------------------- */

static void forget_events(hr_recorder *recorder)
{
    hr__ring_buffer_clear(&recorder->events);
    hr__ring_buffer_clear(&recorder->moves);
    recorder->lost_count = 0;
}

/* Takes the place of the pool in the recorder; the rest is done without the lock, since the pool's
 * comes first. */
static hr_status claim(hr_recorder *recorder, hr_pool *pool, bool is_empty)
{
    hr__mutex_lock(&recorder->lock);
    bool is_taken = recorder->pool != NULL;
    if (!is_taken) {
        recorder->pool = pool;
        recorder->began_empty = is_empty;
        recorder->reserved_bytes = 0;
        forget_events(recorder);
    }
    hr__mutex_unlock(&recorder->lock);
    if (is_taken)
        return hr__fail(HR_ERR_WRONG_STATE, "the recorder is attached already: detach it first");
    return HR_OK;
}

static void unclaim(hr_recorder *recorder)
{
    hr__mutex_lock(&recorder->lock);
    recorder->pool = NULL;
    hr__mutex_unlock(&recorder->lock);
}

hr_status hr_recorder_attach(hr_recorder *recorder, hr_pool *pool)
{
    if (recorder == NULL || pool == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected a recorder and a pool");
    hr_pool_stats stats = {.struct_size = sizeof stats};
    HR__TRY(hr_pool_get_stats(pool, &stats));
    HR__TRY(claim(recorder, pool, stats.reserved_bytes.all.current == 0));
    /* Nobody listens yet: the listener's own fields are ours. */
    hr__address_map_deinit(&recorder->live);
    hr__address_map_deinit(&recorder->made);
    recorder->last_request = 0; /* another pool has numbers of its own */
    hr_status status = hr_pool_set_sink(pool, &(hr_event_sink){recorder, notice});
    if (status != HR_OK)
        unclaim(recorder);
    return status;
}

static hr_pool *attached_pool(const hr_recorder *recorder)
{
    hr__mutex *lock = (hr__mutex *)(uintptr_t)&recorder->lock;
    hr__mutex_lock(lock);
    hr_pool *pool = recorder->pool;
    hr__mutex_unlock(lock);
    return pool;
}

hr_status hr_recorder_detach(hr_recorder *recorder)
{
    if (recorder == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "the recorder is NULL");
    hr_pool *pool = attached_pool(recorder);
    if (pool == NULL)
        return hr__fail(HR_ERR_WRONG_STATE, "the recorder is not attached");
    HR__TRY(hr_pool_set_sink(pool, NULL));
    unclaim(recorder);
    return HR_OK;
}

hr_status hr_recorder_clear(hr_recorder *recorder)
{
    if (recorder == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "the recorder is NULL");
    hr__mutex_lock(&recorder->lock);
    forget_events(recorder);
    recorder->began_empty = recorder->began_empty && recorder->reserved_bytes == 0;
    hr__mutex_unlock(&recorder->lock);
    return HR_OK;
}

hr_status hr_recorder_get_counts(const hr_recorder *recorder, hr_recorder_counts *counts)
{
    if (recorder == NULL || counts == NULL || counts->struct_size < sizeof counts->struct_size)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected a recorder, and counts with their struct_size set");
    hr_recorder *open = (hr_recorder *)(uintptr_t)recorder; /* for its locks */
    hr_recorder_counts all = {.struct_size = counts->struct_size};
    hr__mutex_lock(&open->stack_lock);
    all.stack_count = recorder->stack_table.count;
    all.held_bytes = sizeof *recorder + recorder->stack_table.arena.held_bytes;
    hr__mutex_unlock(&open->stack_lock);
    hr__mutex_lock(&open->lock);
    all.kept_count = hr__ring_buffer_count(&recorder->events);
    all.overwritten_count = hr__ring_buffer_dropped_count(&recorder->events);
    all.lost_count = recorder->lost_count;
    all.seen_count = all.kept_count + all.overwritten_count + all.lost_count;
    all.lost_stack_count = recorder->lost_stack_count;
    all.held_bytes += recorder->events.capacity * recorder->events.record_bytes +
                      recorder->moves.capacity * recorder->moves.record_bytes + recorder->map_bytes;
    all.is_complete = recorder->began_empty && all.overwritten_count == 0 && all.lost_count == 0;
    hr__mutex_unlock(&open->lock);
    memcpy(counts, &all, (size_t)hr__min_u64(counts->struct_size, sizeof all));
    return HR_OK;
}

/* ---- stacks of the caller's ------------------------------------------------------------------ */

static bool name_frame(hr__stack_table *table, const hr_stack_frame *frame, uint64_t words[2])
{
    const char *function = frame->function != NULL ? frame->function : "";
    const char *file = frame->file != NULL ? frame->file : "";
    uint32_t function_id, file_id;
    if (!hr__string_table_add(&table->strings, function, strlen(function), &function_id) ||
        !hr__string_table_add(&table->strings, file, strlen(file), &file_id))
        return false;
    words[0] = (uint64_t)function_id << 32 | file_id;
    words[1] = frame->line;
    return true;
}

hr_status hr_recorder_add_stack(hr_recorder *recorder, const hr_stack_frame *frames,
                                size_t frame_count, uint64_t *tag)
{
    if (recorder == NULL || tag == NULL || (frames == NULL && frame_count != 0))
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected a recorder, frames and a place for the tag");
    if (recorder->stacks != HR_STACKS_CALLER)
        return hr__fail(HR_ERR_WRONG_STATE, "the recorder was made to look at stacks itself, or "
                                            "at none: expected HR_STACKS_CALLER");
    uint64_t words[HR_RECORDER_MOST_FRAMES * 2];
    uint32_t count = (uint32_t)hr__min_u64(frame_count, recorder->most_frames), stack = 0;
    bool is_stored = true;
    hr__mutex_lock(&recorder->stack_lock);
    for (uint32_t i = 0; i < count && is_stored; i++)
        is_stored = name_frame(&recorder->stack_table, &frames[i], &words[2 * i]);
    if (is_stored)
        is_stored = hr__stack_table_add(&recorder->stack_table, words, 2 * count, &stack);
    hr__mutex_unlock(&recorder->stack_lock);
    if (!is_stored) {
        hr__mutex_lock(&recorder->lock);
        recorder->lost_stack_count++;
        hr__mutex_unlock(&recorder->lock);
    }
    *tag = new_capture(recorder, stack);
    return HR_OK;
}
