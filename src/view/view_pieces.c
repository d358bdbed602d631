/* view_pieces.c - following what is held, event by event.
 *
 * What was held when the trace began follows from its end: the segments of the file, with every
 * event undone (nothing, where the timeline says that nothing was reserved). From there all events
 * are done forwards, and every piece that comes and goes is kept.
 *
 * Any event that does not fit what is held (memory that is taken twice, or given back by whom it
 * was not given to) ends the attempt: a picture of addresses that is wrong somewhere is wrong
 * everywhere.
 *
 * Invariants, checked in tests/unit/test_view_pieces.c:
 *   - pieces that are held at one instant do not overlap
 *   - their sizes add up to hr__timeline_reserved_at() */
#include "view/view_pieces.h"

#include <stdbool.h>
#include <string.h>

#include "analysis/layout_follow.h" /* hr__end_of */
#include "analysis/regions.h"
#include "analysis/script_parts.h" /* hr__is_growth, hr__is_release, hr__script_segment_at */
#include "base/error.h"
#include "base/host_memory.h"

/* At once: no program holds more, and both are kept in order. 128 GiB in pages of 2 MiB. */
enum { MOST_HELD = 65536, MOST_REGIONS = 32768 };
enum { FIRST_PIECES = 64 };

typedef struct piece_work {
    const hr__model *model;
    const hr__model_trace *trace;
    hr__view_piece *pieces; /* owned; all there ever were */
    size_t count, capacity;
    uint32_t *held; /* owned; places in `pieces`, by address, apart from each other */
    size_t held_count, held_capacity;
    hr__regions regions; /* forwards only: whose segment a piece is */
    bool is_backwards;
    bool is_wrong; /* an event did not fit, or there is too much at once */
} piece_work;

/* ---- what is held ---------------------------------------------------------------------------- */

static uint64_t end_of(const hr__view_piece *piece)
{
    return piece->address + piece->size_bytes; /* was checked when it was taken */
}

static const hr__view_piece *held_at(const piece_work *work, size_t place)
{
    return &work->pieces[work->held[place]];
}

/* How many held pieces begin at or below `address`. */
static size_t count_up_to(const piece_work *work, uint64_t address)
{
    size_t low = 0, high = work->held_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (held_at(work, middle)->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static hr_status new_piece(piece_work *work, const hr__view_piece *piece, uint32_t *place)
{
    if (work->count == work->capacity) {
        size_t capacity = work->capacity * 2 + FIRST_PIECES;
        hr__view_piece *grown = hr__host_realloc(work->pieces, capacity * sizeof *grown);
        if (grown == NULL)
            return hr__fail_host_memory(capacity * sizeof *grown, "the segments of a view");
        work->pieces = grown;
        work->capacity = capacity;
    }
    *place = (uint32_t)work->count++; /* one for an event, or two */
    work->pieces[*place] = *piece;
    return HR_OK;
}

/* Puts `new_count` places where `old_count` were. */
static hr_status replace_held(piece_work *work, size_t at, size_t old_count, const uint32_t *added,
                              size_t new_count)
{
    size_t count = work->held_count - old_count + new_count;
    if (count > work->held_capacity) {
        size_t capacity = count * 2 + FIRST_PIECES;
        uint32_t *grown = hr__host_realloc(work->held, capacity * sizeof *grown);
        if (grown == NULL)
            return hr__fail_host_memory(capacity * sizeof *grown, "the segments of a view");
        work->held = grown;
        work->held_capacity = capacity;
    }
    if (work->held_count > at + old_count)
        memmove(work->held + at + new_count, work->held + at + old_count,
                (work->held_count - at - old_count) * sizeof *work->held);
    for (size_t i = 0; i < new_count; i++)
        work->held[at + i] = added[i];
    work->held_count = count;
    work->is_wrong = work->is_wrong || count > MOST_HELD || work->regions.count > MOST_REGIONS;
    return HR_OK;
}

static hr_status take(piece_work *work, const hr__view_piece *piece)
{
    size_t at = count_up_to(work, piece->address);
    uint32_t place;
    uint64_t end;
    hr__view_piece taken = *piece;
    if (piece->size_bytes == 0)
        return HR_OK;
    if (!hr__add_u64(piece->address, piece->size_bytes, &end) ||
        (at > 0 && end_of(held_at(work, at - 1)) > piece->address) ||
        (at < work->held_count && held_at(work, at)->address < end)) {
        work->is_wrong = true;
        return HR_OK;
    }
    if (!work->is_backwards) {
        const hr__region *region;
        bool is_new;
        HR__TRY(hr__regions_take(&work->regions, piece->address, piece->size_bytes,
                                 piece->is_expandable, &region, &is_new));
        taken.segment = region->number;
    }
    HR__TRY(new_piece(work, &taken, &place));
    return replace_held(work, at, 0, &place, 1);
}

/* How many held pieces from `at` on make up [address, end): without a gap, all of the right kind; a
 * plain segment goes whole. 0: they do not. */
static size_t count_covering(const piece_work *work, size_t at, uint64_t address, uint64_t end,
                             bool is_expandable)
{
    uint64_t covered = address;
    size_t count = 0;
    for (; covered < end && at + count < work->held_count; count++) {
        const hr__view_piece *piece = held_at(work, at + count);
        bool is_next = count == 0 ? piece->address <= covered : piece->address == covered;
        if (!is_next || end_of(piece) <= covered || (piece->is_expandable != 0) != is_expandable)
            return 0;
        covered = end_of(piece);
    }
    if (covered < end)
        return 0;
    bool is_whole = held_at(work, at)->address == address && covered == end;
    return is_expandable || (is_whole && count == 1) ? count : 0;
}

/* The part [begin, end) of a piece goes on from `instant`, as a piece of its own. */
static hr_status keep_rest(piece_work *work, uint32_t of, uint64_t begin, uint64_t end,
                           uint32_t instant, uint32_t *kept, size_t *kept_count)
{
    hr__view_piece rest = work->pieces[of];
    if (begin >= end)
        return HR_OK;
    rest.address = begin;
    rest.size_bytes = end - begin;
    rest.begin = instant;
    rest.end = HR__VIEW_NONE;
    return new_piece(work, &rest, &kept[(*kept_count)++]);
}

static hr_status give_back(piece_work *work, const hr__model_event *event, bool is_expandable,
                           uint32_t instant)
{
    uint64_t end = hr__end_of(event->address, event->size_bytes);
    size_t at = count_up_to(work, event->address), kept_count = 0;
    uint32_t kept[2];
    if (event->size_bytes == 0)
        return HR_OK;
    size_t count = at > 0 ? count_covering(work, --at, event->address, end, is_expandable) : 0;
    if (count == 0) {
        work->is_wrong = true;
        return HR_OK;
    }
    uint32_t first = work->held[at], last = work->held[at + count - 1];
    for (size_t i = 0; i < count; i++)
        work->pieces[work->held[at + i]].end = instant;
    HR__TRY(keep_rest(work, first, work->pieces[first].address, event->address, instant, kept,
                      &kept_count));
    HR__TRY(keep_rest(work, last, end, end_of(&work->pieces[last]), instant, kept, &kept_count));
    if (!work->is_backwards) {
        hr__region gone;
        bool is_gone;
        (void)hr__regions_give_back(&work->regions, event->address, event->size_bytes, &gone,
                                    &is_gone);
    }
    return replace_held(work, at, count, kept, kept_count);
}

/* ---- events ---------------------------------------------------------------------------------- */

static hr_status take_event(piece_work *work, const hr__model_event *event, bool is_expandable,
                            uint32_t instant)
{
    const hr__view_piece piece = {.address = event->address,
                                  .size_bytes = event->size_bytes,
                                  .begin = instant,
                                  .end = HR__VIEW_NONE,
                                  .stream = event->stream,
                                  .pool = event->pool,
                                  .is_expandable = is_expandable};
    return take(work, &piece);
}

/* Backwards what was taken is given back, and the other way round. */
static hr_status follow_event(piece_work *work, size_t index)
{
    const hr__model_event *event = &work->trace->events[index];
    bool is_growth = hr__is_growth(event->action);
    bool is_expandable =
        event->action == HR_ACTION_SEGMENT_MAP || event->action == HR_ACTION_SEGMENT_UNMAP;
    uint32_t instant = (uint32_t)index + 1;
    if (!is_growth && !hr__is_release(event->action))
        return HR_OK;
    return is_growth != work->is_backwards ? take_event(work, event, is_expandable, instant)
                                           : give_back(work, event, is_expandable, instant);
}

static hr_status take_segments(piece_work *work, int device)
{
    for (size_t i = 0; i < work->model->segment_count && !work->is_wrong; i++) {
        const hr__model_segment *segment = &work->model->segments[i];
        const hr__view_piece piece = {.address = segment->address,
                                      .size_bytes = segment->total_bytes,
                                      .end = HR__VIEW_NONE,
                                      .segment = (uint32_t)work->count,
                                      .stream = segment->stream,
                                      .pool = segment->pool,
                                      .is_expandable = segment->is_expandable};
        if (segment->device == device)
            HR__TRY(take(work, &piece));
    }
    return HR_OK;
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* Leaves nothing but what is held, by address, as if it had been there from the beginning. */
static hr_status begin_forwards(piece_work *work)
{
    hr__view_piece *all = work->pieces;
    uint32_t *held = work->held;
    size_t held_count = work->held_count;
    hr_status status = HR_OK;
    work->pieces = NULL;
    work->count = work->capacity = 0;
    work->held = NULL;
    work->held_count = work->held_capacity = 0;
    work->is_backwards = false;
    for (size_t i = 0; i < held_count && status == HR_OK; i++) {
        hr__view_piece piece = all[held[i]];
        piece.begin = 0;
        piece.end = HR__VIEW_NONE;
        status = take(work, &piece);
    }
    hr__host_free(all);
    hr__host_free(held);
    return status;
}

static hr_status find_beginning(piece_work *work)
{
    work->is_backwards = true;
    HR__TRY(take_segments(work, work->trace->device));
    for (size_t i = work->trace->event_count; i-- > 0 && !work->is_wrong;)
        HR__TRY(follow_event(work, i));
    return begin_forwards(work);
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* Events before 2.12 do not say whose pool a segment is of; the file does, of those that are held
 * to the end; and one piece of a segment speaks for all. */
static hr_status find_pools(piece_work *work)
{
    size_t segment_count = work->regions.made_count;
    uint16_t *pools = hr__host_alloc_zeroed(segment_count, sizeof *pools);
    if (pools == NULL)
        return hr__fail_host_memory(segment_count * sizeof *pools, "the segments of a view");
    memset(pools, 0xff, segment_count * sizeof *pools);
    for (size_t i = 0; i < work->count; i++) {
        const hr__view_piece *piece = &work->pieces[i];
        uint16_t pool = piece->pool;
        const hr__model_segment *last =
            pool == HR__UNKNOWN_POOL && piece->end == HR__VIEW_NONE
                ? hr__script_segment_at(work->model, work->trace->device, piece->address)
                : NULL;
        if (last != NULL)
            pool = last->pool;
        if (pool != HR__UNKNOWN_POOL)
            pools[piece->segment] = pool;
    }
    for (size_t i = 0; i < work->count; i++)
        if (work->pieces[i].pool == HR__UNKNOWN_POOL)
            work->pieces[i].pool = pools[work->pieces[i].segment];
    hr__host_free(pools);
    return HR_OK;
}

/* ---- the pieces ------------------------------------------------------------------------------ */

static hr_status follow_trace(piece_work *work, const hr__timeline *timeline)
{
    if (timeline->is_reserved_known && timeline->initial_reserved_bytes != 0)
        HR__TRY(find_beginning(work));
    for (size_t i = 0; i < work->trace->event_count && !work->is_wrong; i++)
        HR__TRY(follow_event(work, i));
    return work->is_wrong ? HR_OK : find_pools(work);
}

/* Hands the pieces over, or none. */
static hr_status settle(hr_status status, piece_work *work, hr__view_pieces *out)
{
    bool is_good = status == HR_OK && !work->is_wrong;
    if (!is_good)
        hr__host_free(work->pieces);
    if (status == HR_OK)
        *out = (hr__view_pieces){is_good ? work->pieces : NULL, is_good ? work->count : 0};
    hr__host_free(work->held);
    hr__regions_deinit(&work->regions);
    return status;
}

hr_status hr__view_pieces_of_trace(const hr__timeline *timeline, hr__view_pieces *out)
{
    piece_work work = {.model = timeline->model, .trace = timeline->trace};
    hr__regions_init(&work.regions);
    return settle(follow_trace(&work, timeline), &work, out);
}

hr_status hr__view_pieces_of_end(const hr__model *model, int device, hr__view_pieces *out)
{
    piece_work work = {.model = model};
    hr__regions_init(&work.regions);
    return settle(take_segments(&work, device), &work, out);
}

void hr__view_pieces_deinit(hr__view_pieces *pieces)
{
    hr__host_free(pieces->pieces);
    *pieces = (hr__view_pieces){.pieces = NULL};
}

/* ---- columns --------------------------------------------------------------------------------- */

hr_status hr__view_pieces_write(hr__view_pieces *pieces, hr__view_places *places,
                                hr__view_columns *columns)
{
    hr__view_piece *all = pieces->pieces;
    size_t count = pieces->count;
    for (size_t i = 0; i < count; i++) {
        all[i].stream = hr__view_places_stream(places, all[i].stream);
        all[i].pool = hr__view_places_pool(places, all[i].pool);
    }
    HR__TRY(hr__view_columns_add(columns, "piece.begin", HR__VIEW_FIELD(all, begin, count)));
    HR__TRY(hr__view_columns_add(columns, "piece.end", HR__VIEW_FIELD(all, end, count)));
    HR__TRY(hr__view_columns_add(columns, "piece.address", HR__VIEW_FIELD(all, address, count)));
    HR__TRY(hr__view_columns_add(columns, "piece.size", HR__VIEW_FIELD(all, size_bytes, count)));
    HR__TRY(hr__view_columns_add(columns, "piece.segment", HR__VIEW_FIELD(all, segment, count)));
    HR__TRY(hr__view_columns_add(columns, "piece.stream", HR__VIEW_FIELD(all, stream, count)));
    HR__TRY(hr__view_columns_add(columns, "piece.pool", HR__VIEW_FIELD(all, pool, count)));
    return hr__view_columns_add(columns, "piece.expandable",
                                HR__VIEW_FIELD(all, is_expandable, count));
}
