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
 *   - their sizes add up to vw__timeline_reserved_at() */
#include "view/view_pieces.h"

#include <stdbool.h>
#include <string.h>

#include "analysis/ordered_list.h"
#include "analysis/regions.h"
#include "analysis/script_events.h" /* vw__script_is_growth, vw__script_is_release, vw__script_segment_at */
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

enum { FIRST_PIECES = 64 };

/* A piece that is held now. */
typedef struct held_piece {
    uint64_t address; /* the key in the list below */
    uint32_t place;   /* in `pieces` */
} held_piece;

typedef struct piece_work {
    const vw__model *model;
    const vw__model_trace *trace;
    vw__view_piece *pieces; /* owned; all there ever were */
    size_t count, capacity;
    vw__ordered_list held; /* held_piece; apart from each other */
    vw__regions regions;   /* forwards only: whose segment a piece is */
    bool is_backwards;
    bool is_wrong; /* an event did not fit */
} piece_work;

/* ---- what is held ---------------------------------------------------------------------------- */

static uint64_t end_of(const vw__view_piece *piece)
{
    return piece->address + piece->size_bytes; /* was checked when it was taken */
}

/* Of a record of the list; NULL for NULL. */
static vw__view_piece *piece_of(const piece_work *work, const held_piece *held)
{
    return held != NULL ? &work->pieces[held->place] : NULL;
}

static vw__view_piece *piece_before(const piece_work *work, vw__ordered_list_place at)
{
    return piece_of(work, vw__ordered_list_before(&work->held, at));
}

static vw__view_piece *piece_behind(const piece_work *work, vw__ordered_list_place at)
{
    return piece_of(work, vw__ordered_list_behind(&work->held, at));
}

static vw_status new_piece(piece_work *work, const vw__view_piece *piece, uint32_t *place)
{
    if (work->count == work->capacity) {
        size_t capacity = work->capacity * 2 + FIRST_PIECES;
        vw__view_piece *grown = vw__host_realloc(work->pieces, capacity * sizeof *grown);
        if (grown == NULL)
            return vw__fail_host_memory(capacity * sizeof *grown, "the segments of a view");
        work->pieces = grown;
        work->capacity = capacity;
    }
    *place = (uint32_t)work->count++; /* one for an event, or two */
    work->pieces[*place] = *piece;
    return VW_OK;
}

/* A new piece is held from now on. */
static vw_status hold(piece_work *work, vw__ordered_list_place *at, const vw__view_piece *piece)
{
    held_piece held = {.address = piece->address};
    VW__TRY(new_piece(work, piece, &held.place));
    return vw__ordered_list_insert(&work->held, at, &held);
}

static vw_status take(piece_work *work, const vw__view_piece *piece)
{
    vw__ordered_list_place at = vw__ordered_list_up_to(&work->held, piece->address);
    const vw__view_piece *before = piece_before(work, at), *behind = piece_behind(work, at);
    uint64_t end;
    vw__view_piece taken = *piece;
    if (piece->size_bytes == 0)
        return VW_OK;
    if (!vw__add_u64(piece->address, piece->size_bytes, &end) ||
        (before != NULL && end_of(before) > piece->address) ||
        (behind != NULL && behind->address < end)) {
        work->is_wrong = true;
        return VW_OK;
    }
    if (!work->is_backwards) {
        const vw__regions_entry *region;
        bool is_new;
        VW__TRY(vw__regions_take(&work->regions, piece->address, piece->size_bytes,
                                 piece->is_expandable, &region, &is_new));
        taken.segment = region->number;
    }
    return hold(work, &at, &taken);
}

/* How many held pieces behind `at` make up [address, end): without a gap, all of the right kind; a
 * plain segment goes whole. 0: they do not. */
static size_t count_covering(const piece_work *work, vw__ordered_list_place at, uint64_t address,
                             uint64_t end, bool is_expandable)
{
    uint64_t covered = address;
    size_t count = 0;
    const vw__view_piece *first = piece_behind(work, at), *piece;
    for (; covered < end && (piece = piece_behind(work, at)) != NULL; count++) {
        bool is_next = count == 0 ? piece->address <= covered : piece->address == covered;
        if (!is_next || end_of(piece) <= covered || (piece->is_expandable != 0) != is_expandable)
            return 0;
        covered = end_of(piece);
        at = vw__ordered_list_next(&work->held, at);
    }
    if (covered < end)
        return 0;
    bool is_whole = first->address == address && covered == end;
    return is_expandable || (is_whole && count == 1) ? count : 0;
}

/* The part [begin, end) of a piece continues from `instant` as a new piece. */
static vw_status keep_rest(piece_work *work, vw__ordered_list_place *at, const vw__view_piece *of,
                           uint64_t begin, uint64_t end, uint32_t instant)
{
    vw__view_piece rest = *of;
    if (begin >= end)
        return VW_OK;
    rest.address = begin;
    rest.size_bytes = end - begin;
    rest.begin = instant;
    rest.end = VW__VIEW_NONE;
    return hold(work, at, &rest);
}

static vw_status give_back(piece_work *work, const vw__model_event *event, bool is_expandable,
                           uint32_t instant)
{
    uint64_t end = vw__add_capped_u64(event->address, event->size_bytes);
    vw__ordered_list_place at = vw__ordered_list_up_to(&work->held, event->address);
    size_t count = 0;
    if (event->size_bytes == 0)
        return VW_OK;
    if (vw__ordered_list_before(&work->held, at) != NULL) {
        at = vw__ordered_list_previous(&work->held, at);
        count = count_covering(work, at, event->address, end, is_expandable);
    }
    if (count == 0) {
        work->is_wrong = true;
        return VW_OK;
    }
    const vw__view_piece first = *piece_behind(work, at);
    vw__view_piece last = first;
    for (size_t i = 0; i < count; i++) {
        vw__view_piece *piece = piece_behind(work, at);
        last = *piece;
        piece->end = instant;
        vw__ordered_list_remove_behind(&work->held, &at);
    }
    VW__TRY(keep_rest(work, &at, &first, first.address, event->address, instant));
    VW__TRY(keep_rest(work, &at, &last, end, end_of(&last), instant));
    if (!work->is_backwards) {
        vw__regions_entry gone;
        bool is_gone;
        (void)vw__regions_give_back(&work->regions, event->address, event->size_bytes, &gone,
                                    &is_gone);
    }
    return VW_OK;
}

/* ---- events ---------------------------------------------------------------------------------- */

static vw_status take_event(piece_work *work, const vw__model_event *event, bool is_expandable,
                            uint32_t instant)
{
    const vw__view_piece piece = {.address = event->address,
                                  .size_bytes = event->size_bytes,
                                  .begin = instant,
                                  .end = VW__VIEW_NONE,
                                  .stream = event->stream,
                                  .pool = event->pool,
                                  .is_expandable = is_expandable};
    return take(work, &piece);
}

/* Backwards what was taken is given back, and the other way round. */
static vw_status follow_event(piece_work *work, size_t index)
{
    const vw__model_event *event = &work->trace->events[index];
    bool is_growth = vw__script_is_growth(event->action);
    bool is_expandable =
        event->action == VW_ACTION_SEGMENT_MAP || event->action == VW_ACTION_SEGMENT_UNMAP;
    uint32_t instant = (uint32_t)index + 1;
    if (!is_growth && !vw__script_is_release(event->action))
        return VW_OK;
    return is_growth != work->is_backwards ? take_event(work, event, is_expandable, instant)
                                           : give_back(work, event, is_expandable, instant);
}

static vw_status take_segments(piece_work *work, int device)
{
    for (size_t i = 0; i < work->model->segment_count && !work->is_wrong; i++) {
        const vw__model_segment *segment = &work->model->segments[i];
        const vw__view_piece piece = {.address = segment->address,
                                      .size_bytes = segment->total_bytes,
                                      .end = VW__VIEW_NONE,
                                      .segment = (uint32_t)work->count,
                                      .stream = segment->stream,
                                      .pool = segment->pool,
                                      .is_expandable = segment->is_expandable};
        if (segment->device == device)
            VW__TRY(take(work, &piece));
    }
    return VW_OK;
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* Leaves nothing but what is held, by address, as if it had been there from the beginning. */
static vw_status begin_forwards(piece_work *work)
{
    vw__view_piece *all = work->pieces;
    vw__ordered_list held = work->held;
    vw__ordered_list_place at = vw__ordered_list_begin();
    const held_piece *next;
    vw_status status = VW_OK;
    work->pieces = NULL;
    work->count = work->capacity = 0;
    vw__ordered_list_init(&work->held, held.record_bytes, held.what);
    work->is_backwards = false;
    while (status == VW_OK && (next = vw__ordered_list_behind(&held, at)) != NULL) {
        vw__view_piece piece = all[next->place];
        piece.begin = 0;
        piece.end = VW__VIEW_NONE;
        status = take(work, &piece);
        at = vw__ordered_list_next(&held, at);
    }
    vw__host_free(all);
    vw__ordered_list_deinit(&held);
    return status;
}

static vw_status find_beginning(piece_work *work)
{
    work->is_backwards = true;
    VW__TRY(take_segments(work, work->trace->device));
    for (size_t i = work->trace->event_count; i-- > 0 && !work->is_wrong;)
        VW__TRY(follow_event(work, i));
    return begin_forwards(work);
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* Events before 2.12 do not say whose pool a segment is of; the file does, of those that are held
 * to the end; and one piece of a segment speaks for all. */
static vw_status find_pools(piece_work *work)
{
    size_t segment_count = work->regions.made_count;
    uint16_t *pools = vw__host_alloc_zeroed(segment_count, sizeof *pools);
    if (pools == NULL)
        return vw__fail_host_memory(segment_count * sizeof *pools, "the segments of a view");
    memset(pools, 0xff, segment_count * sizeof *pools);
    for (size_t i = 0; i < work->count; i++) {
        const vw__view_piece *piece = &work->pieces[i];
        uint16_t pool = piece->pool;
        const vw__model_segment *last =
            pool == VW__MODEL_UNKNOWN_POOL && piece->end == VW__VIEW_NONE
                ? vw__script_segment_at(work->model, work->trace->device, piece->address)
                : NULL;
        if (last != NULL)
            pool = last->pool;
        if (pool != VW__MODEL_UNKNOWN_POOL)
            pools[piece->segment] = pool;
    }
    for (size_t i = 0; i < work->count; i++)
        if (work->pieces[i].pool == VW__MODEL_UNKNOWN_POOL)
            work->pieces[i].pool = pools[work->pieces[i].segment];
    vw__host_free(pools);
    return VW_OK;
}

/* ---- the pieces ------------------------------------------------------------------------------ */

static vw_status follow_trace(piece_work *work, const vw__timeline *timeline)
{
    if (timeline->is_reserved_known && timeline->initial_reserved_bytes != 0)
        VW__TRY(find_beginning(work));
    for (size_t i = 0; i < work->trace->event_count && !work->is_wrong; i++)
        VW__TRY(follow_event(work, i));
    return work->is_wrong ? VW_OK : find_pools(work);
}

static piece_work begin_work(const vw__model *model, const vw__model_trace *trace)
{
    piece_work work = {.model = model, .trace = trace};
    vw__ordered_list_init(&work.held, sizeof(held_piece), "the segments of a view");
    vw__regions_init(&work.regions);
    return work;
}

/* Hands the pieces over, or none. */
static vw_status settle(vw_status status, piece_work *work, vw__view_pieces *out)
{
    bool is_good = status == VW_OK && !work->is_wrong;
    if (!is_good)
        vw__host_free(work->pieces);
    if (status == VW_OK)
        *out = (vw__view_pieces){is_good ? work->pieces : NULL, is_good ? work->count : 0};
    vw__ordered_list_deinit(&work->held);
    vw__regions_deinit(&work->regions);
    return status;
}

vw_status vw__view_pieces_of_trace(const vw__timeline *timeline, vw__view_pieces *out)
{
    piece_work work = begin_work(timeline->model, timeline->trace);
    return settle(follow_trace(&work, timeline), &work, out);
}

vw_status vw__view_pieces_of_end(const vw__model *model, int device, vw__view_pieces *out)
{
    piece_work work = begin_work(model, NULL);
    return settle(take_segments(&work, device), &work, out);
}

void vw__view_pieces_deinit(vw__view_pieces *pieces)
{
    vw__host_free(pieces->pieces);
    *pieces = (vw__view_pieces){.pieces = NULL};
}

/* ---- columns --------------------------------------------------------------------------------- */

vw_status vw__view_pieces_write(vw__view_pieces *pieces, vw__view_places *places,
                                vw__view_columns *columns)
{
    vw__view_piece *all = pieces->pieces;
    size_t count = pieces->count;
    for (size_t i = 0; i < count; i++) {
        all[i].stream = vw__view_places_stream(places, all[i].stream);
        all[i].pool = vw__view_places_pool(places, all[i].pool);
    }
    VW__TRY(vw__view_columns_add(columns, "piece.begin", VW__VIEW_FIELD(all, begin, count)));
    VW__TRY(vw__view_columns_add(columns, "piece.end", VW__VIEW_FIELD(all, end, count)));
    VW__TRY(vw__view_columns_add(columns, "piece.address", VW__VIEW_FIELD(all, address, count)));
    VW__TRY(vw__view_columns_add(columns, "piece.size", VW__VIEW_FIELD(all, size_bytes, count)));
    VW__TRY(vw__view_columns_add(columns, "piece.segment", VW__VIEW_FIELD(all, segment, count)));
    VW__TRY(vw__view_columns_add(columns, "piece.stream", VW__VIEW_FIELD(all, stream, count)));
    VW__TRY(vw__view_columns_add(columns, "piece.pool", VW__VIEW_FIELD(all, pool, count)));
    return vw__view_columns_add(columns, "piece.expandable",
                                VW__VIEW_FIELD(all, is_expandable, count));
}
