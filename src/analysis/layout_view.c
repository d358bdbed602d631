/* layout_view.c - a recording as it would have been, had the snapshot been taken earlier.
 *
 * The layout of the instant (layout.c) has every block with its request rounded up to 512 bytes. A
 * snapshot has blocks as the allocator made them, and where it follows PyTorch's rules those can be
 * told from the events: a free block, once it is known how large it was, is split or it is not. So
 * plain segments are followed tile by tile: an alloc takes the free tile at its address, and the
 * rest of that goes with it or stays free; a free that completes is joined with free neighbours.
 * Nothing is searched for: where a block lies is recorded. In segments of small blocks and in
 * expandable ones every rest is split off, and the rounded size is all there is to know.
 *
 * A snapshot also names the pool of a segment (since 2.12 events do; before, only the file's end,
 * for segments that lasted), and whether its blocks are the large ones.
 *
 * The allocator itself is the test: recordings cut anywhere verify (tests/unit/test_layout.c). */
#include "analysis/layout.h"

#include <string.h>

#include "analysis/array.h"
#include "analysis/live_bytes.h"
#include "analysis/recording.h"     /* vw__recording_settings */
#include "analysis/script_events.h" /* vw__script_is_release, vw__script_segments_of */
#include "base/address_map.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/torch/torch_rounding.h"

#define NO_TILE UINT32_MAX

/* A part of a plain segment: a block, or free. Tiles of a segment are a list, by address. */
typedef struct tile {
    uint64_t address, size_bytes;
    uint32_t before, behind; /* tiles, or NO_TILE; those that are not in use: `behind` is another */
    bool is_free;
    bool is_unsplit; /* the segment's: blocks are handed out whole */
} tile;

typedef struct view_maker {
    const vw__model *model;
    const vw__model_trace *trace;
    size_t event_count;
    vw__torch_settings settings;
    bool *is_unsplit_pool; /* owned; by pool of the model */
    tile *tiles;           /* owned */
    size_t tile_count, tile_capacity;
    uint32_t first_unused;
    vw__address_map places; /* address to tile plus 1 */
    vw__layout layout;
    vw__layout_view *out;
} view_maker;

/* ---- the allocator's rules ------------------------------------------------------------------- */

static uint64_t rounded_bytes(const view_maker *maker, uint64_t requested_bytes)
{
    uint64_t rounded = requested_bytes < VW__TORCH_MOST_REQUESTED_BYTES
                           ? vw__torch_round_size(&maker->settings, requested_bytes)
                           : 0;
    return rounded != 0 ? rounded : vw__lifetime_bytes_of(requested_bytes);
}

static bool is_rest_split_off(const view_maker *maker, uint64_t size_bytes, uint64_t rest_bytes)
{
    return vw__torch_splits_off(vw__torch_is_small(size_bytes), maker->settings.is_expandable,
                                size_bytes, maker->settings.max_split_size_bytes, rest_bytes);
}

/* A private pool made with no_split shows in blocks of the file that would have been split. */
static vw_status find_unsplit_pools(view_maker *maker)
{
    const vw__model *model = maker->model;
    maker->is_unsplit_pool = vw__host_alloc_zeroed(model->pool_count, 1);
    if (maker->is_unsplit_pool == NULL)
        return vw__fail_host_memory(model->pool_count, "private pools");
    for (size_t i = 0; i < model->segment_count; i++) {
        const vw__model_segment *segment = &model->segments[i];
        if (segment->pool == VW__MODEL_DEFAULT_POOL || segment->pool == VW__MODEL_UNKNOWN_POOL ||
            segment->is_expandable || segment->block_count != 1)
            continue;
        const vw__model_block *block = &model->blocks[segment->first_block];
        uint64_t size_bytes = block->requested_bytes != VW__MODEL_UNKNOWN_BYTES
                                  ? rounded_bytes(maker, block->requested_bytes)
                                  : block->size_bytes;
        if (block->state != VW_BLOCK_FREE && size_bytes < block->size_bytes &&
            is_rest_split_off(maker, size_bytes, block->size_bytes - size_bytes))
            maker->is_unsplit_pool[segment->pool] = true;
    }
    return VW_OK;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static uint32_t find_tile(const view_maker *maker, uint64_t address)
{
    size_t number = (size_t)(uintptr_t)vw__address_map_get(&maker->places, address);
    return number != 0 ? (uint32_t)(number - 1) : NO_TILE;
}

/* Stores the place of the new tile. No tile may be at that address yet. */
static vw_status new_tile(view_maker *maker, const tile *made, uint32_t *out)
{
    uint32_t place = maker->first_unused;
    if (!vw__address_map_has_room(&maker->places, 1) && !vw__address_map_reserve(&maker->places, 1))
        return vw__fail_host_memory(sizeof(vw__address_map_entry), "the blocks of a view");
    if (place == NO_TILE) {
        VW__TRY(vw__array_make_room(&maker->tiles, &maker->tile_capacity, maker->tile_count,
                                    sizeof *maker->tiles, "the blocks of a view"));
        place = (uint32_t)maker->tile_count++;
    } else {
        maker->first_unused = maker->tiles[place].behind;
    }
    maker->tiles[place] = *made;
    vw__address_map_insert(&maker->places, made->address, (void *)((uintptr_t)place + 1));
    *out = place;
    return VW_OK;
}

static void drop_tile(view_maker *maker, uint32_t place)
{
    tile *dropped = &maker->tiles[place];
    (void)vw__address_map_remove(&maker->places, dropped->address);
    if (dropped->before != NO_TILE)
        maker->tiles[dropped->before].behind = dropped->behind;
    if (dropped->behind != NO_TILE)
        maker->tiles[dropped->behind].before = dropped->before;
    dropped->behind = maker->first_unused;
    maker->first_unused = place;
}

static vw_status on_segment(view_maker *maker, const vw__model_event *event)
{
    const vw__model *model = maker->model;
    const vw__model_segment *last =
        vw__script_segment_at(model, maker->trace->device, event->address);
    bool is_unsplit = last != NULL && last->address == event->address &&
                      last->total_bytes == event->size_bytes &&
                      last->pool != VW__MODEL_UNKNOWN_POOL && maker->is_unsplit_pool[last->pool];
    const tile whole = {.address = event->address,
                        .size_bytes = event->size_bytes,
                        .before = NO_TILE,
                        .behind = NO_TILE,
                        .is_free = true,
                        .is_unsplit = is_unsplit};
    uint32_t place;
    if (event->address == VW_NULL || find_tile(maker, event->address) != NO_TILE)
        return VW_OK;
    return new_tile(maker, &whole, &place);
}

static vw_status on_alloc(view_maker *maker, const vw__model_event *event)
{
    uint32_t low = find_tile(maker, event->address), high;
    uint64_t size_bytes = rounded_bytes(maker, event->size_bytes);
    if (low == NO_TILE || !maker->tiles[low].is_free || maker->tiles[low].size_bytes < size_bytes)
        return VW_OK; /* of an expandable segment; or of another allocator */
    tile *taken = &maker->tiles[low];
    uint64_t rest_bytes = taken->size_bytes - size_bytes;
    taken->is_free = false;
    if (taken->is_unsplit || !is_rest_split_off(maker, size_bytes, rest_bytes))
        return VW_OK;
    tile rest = *taken;
    rest.address += size_bytes;
    rest.size_bytes = rest_bytes;
    rest.before = low;
    rest.is_free = true;
    if (find_tile(maker, rest.address) != NO_TILE)
        return VW_OK;
    VW__TRY(new_tile(maker, &rest, &high));
    maker->tiles[low].size_bytes = size_bytes;
    maker->tiles[low].behind = high;
    if (rest.behind != NO_TILE)
        maker->tiles[rest.behind].before = high;
    return VW_OK;
}

static void on_free(view_maker *maker, const vw__model_event *event)
{
    uint32_t place = find_tile(maker, event->address);
    if (place == NO_TILE)
        return;
    uint32_t before = maker->tiles[place].before, behind = maker->tiles[place].behind;
    maker->tiles[place].is_free = true;
    if (behind != NO_TILE && maker->tiles[behind].is_free) {
        maker->tiles[place].size_bytes += maker->tiles[behind].size_bytes;
        drop_tile(maker, behind);
    }
    if (before != NO_TILE && maker->tiles[before].is_free) {
        maker->tiles[before].size_bytes += maker->tiles[place].size_bytes;
        drop_tile(maker, place);
    }
}

/* All of a segment that is given back is one free tile. */
static void on_segment_gone(view_maker *maker, const vw__model_event *event)
{
    uint32_t place = find_tile(maker, event->address);
    while (place != NO_TILE) {
        uint32_t behind = maker->tiles[place].behind;
        drop_tile(maker, place);
        place = behind;
    }
}

static bool has_completions(const vw__model_trace *trace)
{
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].action == VW_ACTION_FREE_COMPLETED)
            return true;
    return false;
}

static vw_status follow_tiles(view_maker *maker)
{
    unsigned end_action =
        has_completions(maker->trace) ? VW_ACTION_FREE_COMPLETED : VW_ACTION_FREE_REQUESTED;
    for (size_t i = 0; i < maker->event_count; i++) {
        const vw__model_event *event = &maker->trace->events[i];
        switch (event->action) {
        case VW_ACTION_SEGMENT_ALLOC:
            VW__TRY(on_segment(maker, event));
            break;
        case VW_ACTION_SEGMENT_FREE:
            on_segment_gone(maker, event);
            break;
        case VW_ACTION_ALLOC:
            VW__TRY(on_alloc(maker, event));
            break;
        default:
            if (event->action == end_action)
                on_free(maker, event);
            break;
        }
    }
    return VW_OK;
}

/* ---- segments of the view -------------------------------------------------------------------- */

/* The segment of the layout that holds `address`, or NULL. */
static vw__layout_segment *segment_at(const vw__layout *layout, uint64_t address)
{
    size_t low = 0, high = layout->segment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        vw__layout_segment *segment = &layout->segments[middle];
        if (address < segment->address)
            high = middle;
        else if (address - segment->address >= segment->size_bytes)
            low = middle + 1;
        else
            return segment;
    }
    return NULL;
}

/* Before 2.12: the pool of the file's segment, if ours was not given back until the end. */
static vw_status find_pools(view_maker *maker)
{
    const vw__layout *layout = &maker->layout;
    const vw__model_trace *trace = maker->trace;
    bool *is_gone = vw__host_alloc_zeroed(layout->segment_count, 1);
    if (is_gone == NULL)
        return vw__fail_host_memory(layout->segment_count, "the segments of a view");
    for (size_t i = maker->event_count; i < trace->event_count; i++) {
        const vw__layout_segment *segment = trace->events[i].action == VW_ACTION_SEGMENT_FREE
                                                ? segment_at(layout, trace->events[i].address)
                                                : NULL;
        if (segment != NULL)
            is_gone[segment - layout->segments] = true;
    }
    for (size_t i = 0; i < layout->segment_count; i++) {
        vw__layout_segment *segment = &layout->segments[i];
        const vw__model_segment *last =
            vw__script_segment_at(maker->model, trace->device, segment->address);
        bool is_same = last != NULL && last->stream == segment->stream &&
                       last->is_expandable == segment->is_expandable &&
                       (segment->is_expandable || (last->address == segment->address &&
                                                   last->total_bytes == segment->size_bytes));
        if (segment->pool == VW__MODEL_UNKNOWN_POOL && is_same && !is_gone[i])
            segment->pool = last->pool;
    }
    vw__host_free(is_gone);
    return VW_OK;
}

/* Plain segments show by their size whether their blocks are the large ones; expandable ones by the
 * last request in them. */
static void find_kinds(view_maker *maker)
{
    vw__layout_view *out = maker->out;
    const vw__layout *layout = &maker->layout;
    size_t unknown_count = 0;
    for (size_t i = 0; i < layout->segment_count; i++) {
        out->segments[i].is_large = layout->segments[i].size_bytes > VW__TORCH_SMALL_BUFFER_BYTES;
        unknown_count += layout->segments[i].is_expandable;
    }
    for (size_t i = maker->event_count; i-- > 0 && unknown_count != 0;) {
        const vw__model_event *event = &maker->trace->events[i];
        vw__layout_segment *segment =
            event->action == VW_ACTION_ALLOC ? segment_at(layout, event->address) : NULL;
        if (segment == NULL || !segment->is_expandable)
            continue;
        segment->is_expandable = false; /* met; the view's own has it still */
        unknown_count--;
        out->segments[segment - layout->segments].is_large =
            !vw__torch_is_small(rounded_bytes(maker, event->size_bytes));
    }
}

/* How far a block reaches: at most to the next one that is not free. */
static uint64_t block_end(const view_maker *maker, const vw__layout_segment *segment, size_t index)
{
    const vw__layout_block *block = &maker->layout.blocks[index];
    size_t next = index + 1, end = segment->first_block + segment->block_count;
    uint32_t place = find_tile(maker, block->address);
    uint64_t size_bytes = place != NO_TILE ? maker->tiles[place].size_bytes
                                           : rounded_bytes(maker, block->requested_bytes);
    uint64_t room_bytes = block->size_bytes;
    if (next < end && maker->layout.blocks[next].state == VW__LAYOUT_IDLE)
        room_bytes += maker->layout.blocks[next].size_bytes;
    return block->address + vw__min_u64(vw__max_u64(size_bytes, block->size_bytes), room_bytes);
}

static void write_block(vw__layout_view *out, vw__model_segment *segment,
                        const vw__model_block *block)
{
    if (block->size_bytes == 0)
        return;
    out->blocks[out->model.block_count++] = *block;
    segment->block_count++;
    if (block->state == VW_BLOCK_FREE)
        return;
    segment->active_bytes += block->size_bytes;
    segment->requested_bytes += block->requested_bytes;
    if (block->state == VW_BLOCK_LIVE)
        segment->allocated_bytes += block->size_bytes;
}

static void write_segment(view_maker *maker, const vw__layout_segment *from)
{
    vw__layout_view *out = maker->out;
    vw__model_segment *segment = &out->segments[out->model.segment_count++];
    uint64_t at = from->address;
    *segment = (vw__model_segment){.address = from->address,
                                   .total_bytes = from->size_bytes,
                                   .first_block = out->model.block_count,
                                   .context = from->context,
                                   .device = maker->trace->device,
                                   .stream = from->stream,
                                   .pool = from->pool,
                                   .is_expandable = from->is_expandable};
    for (size_t i = 0; i < from->block_count; i++) {
        size_t index = from->first_block + i;
        const vw__layout_block *block = &maker->layout.blocks[index];
        bool is_idle = block->state == VW__LAYOUT_IDLE;
        uint64_t end = is_idle ? block->address + block->size_bytes : block_end(maker, from, index);
        const vw__model_block written = {
            .address = at,
            .size_bytes = end - at,
            .requested_bytes = is_idle ? VW__MODEL_UNKNOWN_BYTES : block->requested_bytes,
            .context = block->context,
            .state = is_idle                              ? VW_BLOCK_FREE
                     : block->state == VW__LAYOUT_PENDING ? VW_BLOCK_PENDING_FREE
                                                          : VW_BLOCK_LIVE,
        };
        write_block(out, segment, &written);
        at = end;
    }
}

/* ---- the view -------------------------------------------------------------------------------- */

/* Borrows everything of the model that is not of a later time. */
static void borrow_model(view_maker *maker)
{
    vw__layout_view *out = maker->out;
    const vw__model_event *events = maker->trace->events;
    int64_t last_us = VW__MODEL_UNKNOWN_TIME;
    for (size_t i = maker->event_count; i-- > 0 && last_us == VW__MODEL_UNKNOWN_TIME;)
        last_us = events[i].time_us;
    *out = (vw__layout_view){.model = *maker->model};
    out->trace = (vw__model_trace){events, maker->event_count, maker->trace->device};
    out->model.events = events;
    out->model.event_count = maker->event_count;
    out->model.traces = &out->trace;
    out->model.trace_count = 1;
    out->model.segment_count = 0;
    out->model.block_count = 0;
    while (last_us != VW__MODEL_UNKNOWN_TIME && out->model.annotation_count > 0 &&
           out->model.annotations[out->model.annotation_count - 1].time_us > last_us)
        out->model.annotation_count--;
}

static vw_status write_view(view_maker *maker)
{
    vw__layout_view *out = maker->out;
    const vw__layout *layout = &maker->layout;
    out->segments = vw__host_alloc_zeroed(layout->segment_count, sizeof *out->segments);
    out->blocks = vw__host_alloc_zeroed(layout->block_count, sizeof *out->blocks);
    if (out->segments == NULL || out->blocks == NULL)
        return vw__fail_host_memory(layout->block_count * sizeof *out->blocks, "a view");
    out->model.segments = out->segments;
    out->model.blocks = out->blocks;
    for (size_t i = 0; i < layout->segment_count; i++)
        write_segment(maker, &layout->segments[i]);
    find_kinds(maker);
    return VW_OK;
}

static vw_status make_view(view_maker *maker)
{
    VW__TRY(
        vw__layout_at(maker->model, maker->trace, (uint32_t)maker->event_count, &maker->layout));
    VW__TRY(find_unsplit_pools(maker));
    VW__TRY(follow_tiles(maker));
    VW__TRY(find_pools(maker));
    return write_view(maker);
}

vw_status vw__layout_view_make(const vw__model *model, const vw__model_trace *trace,
                               size_t event_count, vw__layout_view *out)
{
    vw__layout_view view;
    view_maker maker = {.model = model,
                        .trace = trace,
                        .event_count = event_count,
                        .first_unused = NO_TILE,
                        .out = &view};
    if (event_count > trace->event_count || event_count >= UINT32_MAX)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "a view of %zu events of %zu", event_count,
                        trace->event_count);
    VW__TRY(vw__recording_settings(model, NULL, &maker.settings));
    vw__address_map_init_for_file(&maker.places);
    borrow_model(&maker);
    vw_status status = make_view(&maker);
    vw__address_map_deinit(&maker.places);
    vw__torch_settings_deinit(&maker.settings);
    vw__host_free(maker.is_unsplit_pool);
    vw__host_free(maker.tiles);
    vw__layout_deinit(&maker.layout);
    if (status != VW_OK) {
        vw__layout_view_deinit(&view);
        return status;
    }
    *out = view;
    out->model.traces = &out->trace;
    return VW_OK;
}

void vw__layout_view_deinit(vw__layout_view *view)
{
    vw__host_free(view->segments);
    vw__host_free(view->blocks);
    memset(view, 0, sizeof *view);
}
