/* recorder.c - the listener, and the recorder's life.
 *
 * The listener runs under the pool's lock, on the path of every allocation. It takes host memory
 * only to grow: the ring up to its bound, the stacks up to their limit, the two maps with the
 * number of live blocks and segments. Without host memory it leaves something out and counts that;
 * it never reports anything back to the pool.
 *
 * All events of a request share one capture: that of its tag, or one made from its number. If other
 * requests come in between, the stack is walked again, with the same result.
 *
 * A free shows the capture of its allocation, as in PyTorch (context="alloc"), and a release
 * outside of requests that of the request which made the segment. With VW_STACKS_CALLER the pool
 * keeps the tag with the block; with VW_STACKS_NONE there is none. With VW_STACKS_BACKTRACE the
 * recorder keeps the captures of blocks by address, and a release shows its own caller
 * (context="all"). */
#include "record/recorder.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork_guard.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "pool/pool.h" /* taking a listener away */
#include "record/picture.h"

/* ---- captures -------------------------------------------------------------------------------- */

static uint64_t new_capture(vw_recorder *recorder, uint32_t stack)
{
    uint64_t number = atomic_fetch_add_explicit(&recorder->next_number, 1, memory_order_relaxed);
    return vw__capture_make(2 * number, stack);
}

/* The id of a stack, or of the empty one if it does not fit. */
static uint32_t store_stack(vw_recorder *recorder, const uint64_t *words, uint32_t word_count)
{
    uint32_t id = 0;
    vw__mutex_lock(&recorder->stack_lock);
    bool is_stored = vw__stack_table_add(&recorder->stack_table, words, word_count, &id);
    vw__mutex_unlock(&recorder->stack_lock);
    if (!is_stored) {
        vw__mutex_lock(&recorder->lock);
        recorder->lost_stack_count++;
        vw__mutex_unlock(&recorder->lock);
    }
    return id;
}

/* The id of the stack that led to an event, with VW_STACKS_BACKTRACE; else of the empty one. */
static uint32_t look_at_stack(vw_recorder *recorder, const vw_memory_event *event)
{
    if (recorder->stacks != VW_STACKS_BACKTRACE)
        return 0;
    vw__call_stack_walk(&recorder->stack, event->caller, recorder->most_frames);
    return store_stack(recorder, recorder->stack.frames, recorder->stack.frame_count);
}

/* The capture behind a tag, or none if the recorder did not give it out. */
static uint64_t capture_of_tag(const vw_recorder *recorder, uint64_t tag)
{
    uint64_t serial = tag >> VW__CAPTURE_STACK_BITS;
    bool is_ours = recorder->stacks == VW_STACKS_CALLER && serial != 0 && serial % 2 == 0 &&
                   serial / 2 < atomic_load_explicit(&recorder->next_number, memory_order_relaxed);
    return is_ours ? tag : VW__CAPTURE_NONE;
}

/* Captures by address. They are stored in a map of pointers as plain numbers. */
_Static_assert(sizeof(uintptr_t) >= sizeof(uint64_t), "captures have 64 bits");

static uint64_t recall(const vw__address_map *map, uint64_t address)
{
    return (uintptr_t)vw__address_map_get(map, address);
}

static uint64_t forget(vw__address_map *map, uint64_t address)
{
    return (uintptr_t)vw__address_map_remove(map, address);
}

static void remember(vw_recorder *recorder, vw__address_map *map, uint64_t address,
                     uint64_t capture)
{
    if (recorder->stacks != VW_STACKS_BACKTRACE || address == 0)
        return;
    forget(map, address);
    if (vw__address_map_has_room(map, 1) || vw__address_map_reserve(map, 1))
        vw__address_map_insert(map, address, (void *)(uintptr_t)capture);
}

uint64_t vw__recorder_block_capture(const vw_recorder *recorder, const vw_block_info *block)
{
    if (recorder->stacks == VW_STACKS_BACKTRACE)
        return block->state != VW_BLOCK_FREE ? recall(&recorder->live, block->address)
                                             : VW__CAPTURE_NONE;
    return capture_of_tag(recorder, block->tag);
}

uint64_t vw__recorder_segment_capture(const vw_recorder *recorder, const vw_segment_info *segment)
{
    if (recorder->stacks == VW_STACKS_BACKTRACE)
        return recall(&recorder->made, segment->address);
    return capture_of_tag(recorder, segment->tag);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The capture of an event inside a request. */
static uint64_t capture_of_request(vw_recorder *recorder, const vw_memory_event *event)
{
    uint64_t capture = capture_of_tag(recorder, event->tag);
    if (capture != VW__CAPTURE_NONE)
        return capture;
    if (event->request == 0) /* it was in progress when we came */
        return new_capture(recorder, look_at_stack(recorder, event));
    if (event->request != recorder->last_request) {
        recorder->last_request = event->request;
        recorder->last_capture =
            vw__capture_make(2 * event->request + 1, look_at_stack(recorder, event));
    }
    return recorder->last_capture;
}

/* The capture of memory that is given back, inside a request or not. */
static uint64_t capture_of_release(vw_recorder *recorder, const vw_memory_event *event)
{
    if (event->request != 0)
        return capture_of_request(recorder, event);
    if (recorder->stacks == VW_STACKS_BACKTRACE)
        return new_capture(recorder, look_at_stack(recorder, event));
    return capture_of_tag(recorder, event->tag);
}

static uint64_t capture_of_event(vw_recorder *recorder, const vw_memory_event *event)
{
    bool is_backtrace = recorder->stacks == VW_STACKS_BACKTRACE;
    uint64_t capture;
    switch (event->action) {
    case VW_ACTION_ALLOC:
        capture = capture_of_request(recorder, event);
        remember(recorder, &recorder->live, event->address, capture);
        return capture;
    case VW_ACTION_OOM:
        return capture_of_request(recorder, event);
    case VW_ACTION_FREE_REQUESTED:
        return is_backtrace ? recall(&recorder->live, event->address)
                            : capture_of_tag(recorder, event->tag);
    case VW_ACTION_FREE_COMPLETED:
        return is_backtrace ? forget(&recorder->live, event->address)
                            : capture_of_tag(recorder, event->tag);
    case VW_ACTION_SEGMENT_ALLOC:
    case VW_ACTION_SEGMENT_MAP:
        capture = capture_of_request(recorder, event);
        remember(recorder, &recorder->made, event->address, capture);
        return capture;
    case VW_ACTION_SEGMENT_FREE:
    case VW_ACTION_SEGMENT_UNMAP:
        forget(&recorder->made, event->address);
        return capture_of_release(recorder, event);
    case VW_ACTION_SNAPSHOT:
        break;
    }
    return VW__CAPTURE_NONE;
}

/* ---- the listener ---------------------------------------------------------------------------- */

static int64_t reserved_by(const vw_memory_event *event)
{
    switch (event->action) {
    case VW_ACTION_SEGMENT_ALLOC:
    case VW_ACTION_SEGMENT_MAP:
        return (int64_t)event->size_bytes;
    case VW_ACTION_SEGMENT_FREE:
    case VW_ACTION_SEGMENT_UNMAP:
        return -(int64_t)event->size_bytes;
    default:
        return 0;
    }
}

static void notice(void *context, const vw_memory_event *event)
{
    vw_recorder *recorder = context;
    const vw__record_event record = {
        .address = event->address,
        .size_bytes = event->size_bytes,
        .time_us = vw__clock_realtime_us(),
        .capture = capture_of_event(recorder, event),
        .stream = event->stream,
        .private_id = event->private_id,
        .action = event->action,
    };
    vw__mutex_lock(&recorder->lock);
    bool is_wanted = true;
    if (__builtin_expect(event->action == VW_ACTION_SNAPSHOT, 0))
        is_wanted = vw__picture_copy_events(recorder);
    if (is_wanted && !vw__ring_buffer_push(&recorder->events, &record))
        recorder->lost_count++;
    recorder->reserved_bytes += reserved_by(event);
    recorder->map_bytes =
        (recorder->live.capacity + recorder->made.capacity) * sizeof(vw__address_map_entry);
    vw__mutex_unlock(&recorder->lock);
}

vw_status vw__recorder_enter(const vw_recorder *recorder)
{
    if (recorder == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "the recorder is NULL");
    if (recorder->fork_generation != vw__fork_generation())
        return vw__fail(VW_ERR_WRONG_PROCESS,
                        "the recorder belongs to the parent process: make one after fork()");
    return VW_OK;
}

/* Called without the pool's lock. Without host memory the move is only in the pool's statistics. */
void vw_recorder_note_spill(void *context, const vw_spill_report *report)
{
    vw_recorder *recorder = context;
    if (recorder->fork_generation != vw__fork_generation())
        return;
    const vw__record_move move = {*report, vw__clock_realtime_us()};
    vw__mutex_lock(&recorder->lock);
    (void)vw__ring_buffer_push(&recorder->moves, &move);
    vw__mutex_unlock(&recorder->lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

static vw_status check_options(const vw_recorder_options *options)
{
    if ((unsigned)options->stacks > VW_STACKS_CALLER)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "unknown kind of stacks: %u",
                        (unsigned)options->stacks);
    if (options->most_frames > VW_RECORDER_MOST_FRAMES)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "%u frames asked for, at most %u are possible",
                        options->most_frames, (unsigned)VW_RECORDER_MOST_FRAMES);
    return VW_OK;
}

static uint64_t or_default(uint64_t value, uint64_t default_value)
{
    return value != 0 ? value : default_value;
}

vw_status vw_recorder_create(const vw_recorder_options *options, vw_recorder **out)
{
    vw_recorder_options used = {.struct_size = sizeof used};
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no place for the recorder");
    VW__TRY(VW__STRUCT_IN(vw_recorder_options, options, &used));
    VW__TRY(check_options(&used));
    if (used.stacks == VW_STACKS_BACKTRACE && !vw__call_stack_prepare())
        return vw__fail(VW_ERR_UNSUPPORTED, "backtrace() finds no frames on this machine");
    vw_recorder *recorder = vw__host_alloc_zeroed(1, sizeof *recorder);
    if (recorder == NULL)
        return vw__fail_host_memory(sizeof *recorder, "a recorder");
    vw__fork_guard_start();
    recorder->fork_generation = vw__fork_generation();
    recorder->stacks = used.stacks;
    recorder->most_frames = (uint32_t)or_default(used.most_frames, VW_RECORDER_DEFAULT_FRAMES);
    vw__address_map_init(&recorder->live);
    vw__address_map_init(&recorder->made);
    atomic_init(&recorder->next_number, 1);
    vw__mutex_init(&recorder->attaching, VW__LOCK_ATTACHING);
    vw__mutex_init(&recorder->lock, VW__LOCK_RECORDER);
    vw__mutex_init(&recorder->stack_lock, VW__LOCK_RECORDER);
    uint64_t entries = or_default(used.max_entries, VW_RECORDER_DEFAULT_ENTRIES);
    size_t bound = (size_t)vw__min_u64(entries, SIZE_MAX);
    vw__ring_buffer_init(&recorder->events, sizeof(vw__record_event), bound);
    vw__ring_buffer_init(&recorder->moves, sizeof(vw__record_move), bound);
    uint64_t stack_bytes = or_default(used.stack_limit_bytes, VW_RECORDER_DEFAULT_STACK_BYTES);
    vw__stack_table_init(&recorder->stack_table, (size_t)vw__min_u64(stack_bytes, SIZE_MAX));
    *out = recorder;
    return VW_OK;
}

void vw_recorder_destroy(vw_recorder *recorder)
{
    if (recorder == NULL || recorder->fork_generation != vw__fork_generation())
        return; /* in a child it may be in the middle of a change, for ever */
    if (recorder->pool != NULL)
        (void)vw_recorder_detach(recorder);
    vw__stack_table_deinit(&recorder->stack_table);
    vw__ring_buffer_deinit(&recorder->events);
    vw__ring_buffer_deinit(&recorder->moves);
    vw__address_map_deinit(&recorder->live);
    vw__address_map_deinit(&recorder->made);
    vw__host_free(recorder);
}

/* ---- listening ------------------------------------------------------------------------------- */

static void forget_events(vw_recorder *recorder)
{
    vw__ring_buffer_clear(&recorder->events);
    vw__ring_buffer_clear(&recorder->moves);
    recorder->lost_count = 0;
}

/* Notes the pool in the recorder, and empties what the listener keeps: nobody listens yet, and a
 * recording can be written only once the pool is noted. One of an earlier pool may still be read,
 * under that pool's lock: then the recorder is refused. */
static vw_status claim(vw_recorder *recorder, vw_pool *pool, bool is_empty)
{
    vw__mutex_lock(&recorder->lock);
    bool is_attached = recorder->pool != NULL, is_written = recorder->pictures != NULL;
    if (!is_attached && !is_written) {
        recorder->pool = pool;
        recorder->began_empty = is_empty;
        recorder->reserved_bytes = 0;
        recorder->last_request = 0; /* another pool has numbers of its own */
        vw__address_map_deinit(&recorder->live);
        vw__address_map_deinit(&recorder->made);
        forget_events(recorder);
    }
    vw__mutex_unlock(&recorder->lock);
    if (is_attached)
        return vw__fail(VW_ERR_WRONG_STATE, "the recorder is attached already: detach it first");
    if (is_written)
        return vw__fail(VW_ERR_WRONG_STATE,
                        "a recording of the recorder's earlier pool is being written");
    return VW_OK;
}

static void unclaim(vw_recorder *recorder)
{
    vw__mutex_lock(&recorder->lock);
    recorder->pool = NULL;
    vw__mutex_unlock(&recorder->lock);
}

/* Without a lock on both halves another thread could detach in between, and the recorder would
 * listen on though it is not attached. */
static vw_status attach(vw_recorder *recorder, vw_pool *pool, bool is_empty)
{
    VW__TRY(claim(recorder, pool, is_empty));
    vw_status status = vw_pool_set_sink(pool, &(vw_event_sink){recorder, notice});
    if (status != VW_OK)
        unclaim(recorder);
    return status;
}

vw_status vw_recorder_attach(vw_recorder *recorder, vw_pool *pool)
{
    VW__TRY(vw__recorder_enter(recorder));
    vw_pool_stats stats = {.struct_size = sizeof stats};
    VW__TRY(vw_pool_get_stats(pool, &stats));
    vw__mutex_lock(&recorder->attaching);
    vw_status status = attach(recorder, pool, stats.reserved_bytes.all.current == 0);
    vw__mutex_unlock(&recorder->attaching);
    return status;
}

static vw_pool *attached_pool(vw_recorder *recorder)
{
    vw__mutex_lock(&recorder->lock);
    vw_pool *pool = recorder->pool;
    vw__mutex_unlock(&recorder->lock);
    return pool;
}

static vw_status detach(vw_recorder *recorder)
{
    vw_pool *pool = attached_pool(recorder);
    if (pool == NULL)
        return vw__fail(VW_ERR_WRONG_STATE, "the recorder is not attached");
    VW__TRY(vw__pool_take_sink_away(pool, recorder));
    unclaim(recorder);
    return VW_OK;
}

vw_status vw_recorder_detach(vw_recorder *recorder)
{
    VW__TRY(vw__recorder_enter(recorder));
    vw__mutex_lock(&recorder->attaching);
    vw_status status = detach(recorder);
    vw__mutex_unlock(&recorder->attaching);
    return status;
}

vw_status vw_recorder_clear(vw_recorder *recorder)
{
    VW__TRY(vw__recorder_enter(recorder));
    vw__mutex_lock(&recorder->lock);
    forget_events(recorder);
    recorder->began_empty = recorder->began_empty && recorder->reserved_bytes == 0;
    vw__mutex_unlock(&recorder->lock);
    return VW_OK;
}

vw_status vw_recorder_get_counts(const vw_recorder *recorder, vw_recorder_counts *counts)
{
    VW__TRY(vw__recorder_enter(recorder));
    VW__TRY(VW__STRUCT_CHECK_OUT(vw_recorder_counts, counts));
    vw_recorder *open = (vw_recorder *)(uintptr_t)recorder; /* for its locks */
    vw_recorder_counts all = {0};
    vw__mutex_lock(&open->stack_lock);
    all.stack_count = recorder->stack_table.count;
    all.held_bytes = sizeof *recorder + recorder->stack_table.arena.held_bytes;
    vw__mutex_unlock(&open->stack_lock);
    vw__mutex_lock(&open->lock);
    all.kept_count = vw__ring_buffer_count(&recorder->events);
    all.overwritten_count = vw__ring_buffer_dropped_count(&recorder->events);
    all.lost_count = recorder->lost_count;
    all.seen_count = all.kept_count + all.overwritten_count + all.lost_count;
    all.lost_stack_count = recorder->lost_stack_count;
    all.held_bytes += recorder->events.capacity * recorder->events.record_bytes +
                      recorder->moves.capacity * recorder->moves.record_bytes + recorder->map_bytes;
    all.is_complete = recorder->began_empty && all.overwritten_count == 0 && all.lost_count == 0;
    vw__mutex_unlock(&open->lock);
    VW__STRUCT_OUT(vw_recorder_counts, &all, counts);
    return VW_OK;
}

/* ---- stacks of the caller's ------------------------------------------------------------------ */

static bool name_frame(vw__stack_table *table, const vw_stack_frame *frame, uint64_t words[2])
{
    const char *function = frame->function != NULL ? frame->function : "";
    const char *file = frame->file != NULL ? frame->file : "";
    uint32_t function_id, file_id;
    if (!vw__string_table_add(&table->strings, function, strlen(function), &function_id) ||
        !vw__string_table_add(&table->strings, file, strlen(file), &file_id))
        return false;
    words[0] = (uint64_t)function_id << 32 | file_id;
    words[1] = frame->line;
    return true;
}

vw_status vw_recorder_add_stack(vw_recorder *recorder, const vw_stack_frame *frames,
                                size_t frame_count, uint64_t *tag)
{
    VW__TRY(vw__recorder_enter(recorder));
    if (tag == NULL || (frames == NULL && frame_count != 0))
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected frames and a place for the tag");
    if (recorder->stacks != VW_STACKS_CALLER)
        return vw__fail(VW_ERR_WRONG_STATE, "the recorder was made to look at stacks itself, or "
                                            "at none: expected VW_STACKS_CALLER");
    uint64_t words[VW_RECORDER_MOST_FRAMES * 2];
    uint32_t count = (uint32_t)vw__min_u64(frame_count, recorder->most_frames), stack = 0;
    bool is_stored = true;
    vw__mutex_lock(&recorder->stack_lock);
    for (uint32_t i = 0; i < count && is_stored; i++)
        is_stored = name_frame(&recorder->stack_table, &frames[i], &words[2 * i]);
    if (is_stored)
        is_stored = vw__stack_table_add(&recorder->stack_table, words, 2 * count, &stack);
    vw__mutex_unlock(&recorder->stack_lock);
    if (!is_stored) {
        vw__mutex_lock(&recorder->lock);
        recorder->lost_stack_count++;
        vw__mutex_unlock(&recorder->lock);
    }
    *tag = new_capture(recorder, stack);
    return VW_OK;
}
