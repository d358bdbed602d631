/* paged_survey.c - which handles are free, and where a request would best go.
 *
 * Nothing is kept about free handles between misses: a handle is free if it lies wholly inside a
 * free block, and blocks merge at once, so walking the free blocks of a unit and more finds them
 * all. A miss is about to call the driver, which takes longer than the walk. */
#include "engine/paged/paged_survey.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/paged/paged_books.h"
#include "engine/paged/paged_handles.h"

/* ---- free handles ---------------------------------------------------------------------------- */

static bool make_room(vw__paged_engine *engine)
{
    if (engine->candidate_count < engine->candidate_capacity)
        return true;
    size_t capacity = engine->candidate_capacity != 0 ? 2 * engine->candidate_capacity : 256;
    vw__paged_candidate *grown = vw__host_realloc(engine->candidates, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    engine->candidates = grown;
    engine->candidate_capacity = capacity;
    return true;
}

static vw_status survey_block(vw__paged_engine *engine, vw__block *block)
{
    const vw__segment *segment = block->segment;
    uint64_t end = block->address + block->size_bytes;
    uint64_t address =
        segment->address + vw__ceil_div_u64(block->address - segment->address, engine->unit_bytes) *
                               engine->unit_bytes;
    while (address < end) {
        vw__paged_place *place = vw__paged_place_at(engine, segment, address);
        vw__paged_handle *handle = place->handle;
        uint64_t place_end = place->address + handle->size_bytes;
        if (place->address >= block->address && place_end <= end && handle->pin_count == 0 &&
            handle->guest_count == 0) {
            if (!make_room(engine))
                return vw__fail_host_memory(engine->candidate_capacity * sizeof handle,
                                            "a survey of free memory");
            handle->survey = engine->survey;
            handle->block = block;
            engine->candidates[engine->candidate_count++] =
                (vw__paged_candidate){handle, block->age_base};
            engine->candidate_bytes += handle->size_bytes;
        }
        address = place_end;
    }
    return VW_OK;
}

static vw_status survey_shelf(vw__paged_engine *engine, const vw__shelf *shelf)
{
    for (const vw__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        if (engine->base.scopes != NULL && vw__engine_is_capturing(&engine->base, lane->stream))
            continue;
        for (vw__block *block = vw__free_index_last(&lane->free);
             block != NULL && block->size_bytes >= engine->unit_bytes;
             block = vw__free_index_before(&lane->free, block))
            VW__TRY(survey_block(engine, block));
    }
    return VW_OK;
}

static void begin_survey(vw__paged_engine *engine)
{
    vw__paged_give_back_retired(engine);
    engine->survey++;
    engine->drops_ghosts = false;
    engine->candidate_count = 0;
    engine->candidate_bytes = 0;
}

/* Graphs replay into the free memory of their pools, so that a private pool in use keeps all it
 * has. While `stream` is captured nothing moves at all; while anything may be, no events are looked
 * at. */
vw_status vw__paged_survey(vw__paged_engine *engine, vw_stream stream)
{
    if (vw__engine_is_capturing(&engine->base, stream)) {
        begin_survey(engine);
        return VW_OK;
    }
    VW__TRY(vw__paged_survey_all(engine));
    if (engine->base.scopes != NULL)
        return VW_OK;
    engine->drops_ghosts = true;
    return vw__paged_look_at_marks(engine);
}

vw_status vw__paged_survey_all(vw__paged_engine *engine)
{
    begin_survey(engine);
    for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++)
        VW__TRY(survey_shelf(engine, &engine->base.shelves[kind]));
    for (const vw__private_pool *pool = engine->base.private_pools; pool != NULL; pool = pool->next)
        for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE && !vw__private_is_in_use(pool);
             kind++)
            VW__TRY(survey_shelf(engine, &pool->shelves[kind]));
    return VW_OK;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* A window costs what has to be mapped in it. A ghost whose handle is free costs nothing: it is
 * revived. One whose handle is in use elsewhere has to be dropped first, which takes 20 us where
 * mapping takes 32: ten sixteenths more. But a program whose peak is more than a third of its card
 * may come to fill it. There memory counts more than time, so that little is added: the window is
 * taken that needs least, and of equals the one with the fewest ghosts in the way. */
enum { CARD_PARTS = 3, WHOLE = 16, DROP_PARTS = 10, LEAST_DROP_PARTS = 1 };

/* The looks at blocks of one search grow with the square of the ghosts. After so many, which take
 * some hundredths of a second, the best window so far is taken. */
enum { MOST_LOOKS = 1 << 22 };

static const vw__paged_place *ghost_of(const vw__paged_engine *engine, const vw__block *block)
{
    return vw__paged_place_at(engine, block->segment, block->address);
}

static bool can_be_revived(const vw__paged_engine *engine, const vw__block *ghost)
{
    return vw__paged_is_free(engine, ghost_of(engine, ghost)->handle);
}

/* A handle on the host in which no block is left has one at its home, which is no ghost of it. */
static bool can_be_dropped(const vw__paged_engine *engine, const vw__block *block)
{
    const vw__paged_place *ghost = ghost_of(engine, block);
    return engine->drops_ghosts && ghost != ghost->handle->home && ghost->mark->is_complete;
}

/* Without a look at a ghost's handle. */
static bool may_be_usable(const vw__block *block)
{
    return block->state == VW__BLOCK_FREE || block->state == VW__BLOCK_UNMAPPED ||
           block->state == VW__BLOCK_GHOST;
}

static bool is_usable(const vw__paged_engine *engine, const vw__block *block)
{
    if (block->state == VW__BLOCK_GHOST)
        return can_be_revived(engine, block) || can_be_dropped(engine, block);
    return may_be_usable(block);
}

bool vw__paged_is_inside(const vw__paged_engine *engine, const vw__paged_window *window,
                         const vw__paged_place *place)
{
    uint64_t first =
        window->segment->address +
        vw__align_down_u64(window->address - window->segment->address, engine->unit_bytes);
    return place->segment == window->segment &&
           place->address < window->address + window->size_bytes &&
           place->address + place->handle->size_bytes > first;
}

/* True if the handle of a ghost in the window is in it at another address, too. */
static bool is_there_twice(const vw__paged_engine *engine, const vw__paged_window *window,
                           const vw__block *ghost)
{
    const vw__paged_handle *handle = ghost_of(engine, ghost)->handle;
    if (vw__paged_is_inside(engine, window, handle->home))
        return true;
    for (const vw__paged_place *other = handle->ghosts; other != NULL; other = other->next)
        if (other->block != ghost && vw__paged_is_inside(engine, window, other))
            return true;
    return false;
}

/* The units of a block that the window touches. */
static uint64_t touched_bytes(const vw__paged_engine *engine, const vw__paged_window *window,
                              const vw__block *block)
{
    uint64_t from = vw__paged_unit_at(engine, window->segment, window->address);
    uint64_t to =
        vw__min_u64(block->address + block->size_bytes, window->address + window->size_bytes);
    return vw__paged_whole_units(engine, to - vw__max_u64(block->address, from));
}

static uint64_t drop_bytes(const vw__paged_engine *engine, const vw__block *ghost)
{
    bool may_fill_card = engine->peak_live_bytes > vw__paged_card_bytes(engine) / CARD_PARTS;
    return ghost->size_bytes / WHOLE * (may_fill_card ? LEAST_DROP_PARTS : DROP_PARTS);
}

/* Adds up the cost of the window at `address`, which lies in `block`. False: it cannot be used,
 * since it would need the same handle twice, or it costs more than `most_bytes`. */
static bool weigh(vw__paged_engine *engine, vw__block *block, uint64_t address, uint64_t size_bytes,
                  uint64_t most_bytes, vw__paged_window *window)
{
    uint64_t end = address + size_bytes;
    *window = (vw__paged_window){
        .segment = block->segment, .first = block, .address = address, .size_bytes = size_bytes};
    for (; block != NULL && block->address < end; block = block->next) {
        engine->window_looks++;
        if (block->state == VW__BLOCK_UNMAPPED)
            window->cost_bytes += touched_bytes(engine, window, block);
        else if (block->state == VW__BLOCK_GHOST && !can_be_revived(engine, block))
            window->cost_bytes += touched_bytes(engine, window, block) + drop_bytes(engine, block);
        else if (block->state == VW__BLOCK_GHOST && is_there_twice(engine, window, block))
            return false;
        if (window->cost_bytes > most_bytes)
            return false;
    }
    return true;
}

static bool is_better(const vw__paged_window *window, const vw__paged_window *best)
{
    if (best->segment == NULL)
        return true;
    if (window->cost_bytes != best->cost_bytes)
        return window->cost_bytes < best->cost_bytes;
    if (window->range_bytes != best->range_bytes)
        return window->range_bytes < best->range_bytes;
    return window->address < best->address;
}

static void consider(vw__paged_engine *engine, vw__block *block, uint64_t address,
                     uint64_t size_bytes, uint64_t range_bytes, vw__paged_window *best)
{
    vw__paged_window window;
    uint64_t most_bytes = best->segment != NULL ? best->cost_bytes : UINT64_MAX;
    if (engine->window_looks > MOST_LOOKS && best->segment != NULL)
        return;
    if (!weigh(engine, block, address, size_bytes, most_bytes, &window))
        return;
    window.range_bytes = range_bytes;
    if (is_better(&window, best))
        *best = window;
}

/* The usable blocks from `first` to before `end_block`, together at least as large as the request:
 * every window that begins or ends with one of them. */
static void consider_range(vw__paged_engine *engine, vw__block *first, const vw__block *end_block,
                           uint64_t range_bytes, uint64_t size_bytes, vw__paged_window *best)
{
    uint64_t range_address = first->address;
    uint64_t range_end = range_address + range_bytes;
    vw__block *start = first; /* the block in which a window that ends with `block` begins */
    for (vw__block *block = first; block != end_block; block = block->next) {
        if (range_end - block->address >= size_bytes)
            consider(engine, block, block->address, size_bytes, range_bytes, best);
        uint64_t end = block->address + block->size_bytes;
        bool is_endless = block->next == NULL && block->state == VW__BLOCK_UNMAPPED;
        if (end - range_address < size_bytes || is_endless)
            continue;
        while (end - size_bytes - start->address >= start->size_bytes)
            start = start->next;
        consider(engine, start, end - size_bytes, size_bytes, range_bytes, best);
    }
}

/* The last free block of an arena and what comes after: any handle can be mapped there. */
static void consider_end(vw__paged_engine *engine, vw__block *block, uint64_t size_bytes,
                         vw__paged_window *best)
{
    if (block->next != NULL || block->state != VW__BLOCK_UNMAPPED)
        return;
    uint64_t range_bytes = block->size_bytes;
    if (block->previous != NULL && block->previous->state == VW__BLOCK_FREE) {
        block = block->previous;
        range_bytes += block->size_bytes;
    }
    if (range_bytes >= size_bytes)
        consider(engine, block, block->address, size_bytes, range_bytes, best);
}

/* Unmapped ranges and ghosts, by rising address; NULL after the last. */
static vw__block *first_gap(const vw__lane *lane)
{
    vw__tree_node *node = vw__tree_first(lane->unmapped);
    return node != NULL ? vw__block_of_node(node) : NULL;
}

static vw__block *next_gap(vw__block *gap)
{
    vw__tree_node *node = vw__tree_next(&gap->node);
    return node != NULL ? vw__block_of_node(node) : NULL;
}

/* The range of usable blocks around a gap: considered, and the first gap behind it found. */
static vw__block *consider_around(vw__paged_engine *engine, vw__block *gap, uint64_t size_bytes,
                                  vw__paged_window *best)
{
    vw__block *first = gap, *last_gap = gap, *end = gap;
    uint64_t range_bytes = 0;
    if (first->previous != NULL && first->previous->state == VW__BLOCK_FREE)
        first = first->previous;
    for (end = first; end != NULL && is_usable(engine, end); end = end->next) {
        range_bytes += end->size_bytes;
        if (end->state != VW__BLOCK_FREE)
            last_gap = end;
    }
    if (range_bytes >= size_bytes)
        consider_range(engine, first, end, range_bytes, size_bytes, best);
    return next_gap(last_gap);
}

/* The blocks around a gap that are not in use, whatever their handles are: no range of usable
 * blocks is larger than such a run. A look at a ghost's handle takes four cache misses, and most
 * runs are too small for most requests. */
typedef struct run {
    uint64_t size_bytes;
    vw__block *last_gap;
} run;

static run measure_run(vw__block *first_gap_of_run)
{
    run found = {0, first_gap_of_run};
    vw__block *block = first_gap_of_run;
    if (block->previous != NULL && block->previous->state == VW__BLOCK_FREE)
        block = block->previous;
    for (; block != NULL && may_be_usable(block); block = block->next) {
        found.size_bytes += block->size_bytes;
        if (block->state != VW__BLOCK_FREE)
            found.last_gap = block;
    }
    return found;
}

/* From `gap` on, the first gap of a run that is as large as the request; NULL if there is none.
 * `*last_gap` is the run's last. */
static vw__block *skip_small_runs(vw__block *gap, uint64_t size_bytes, vw__block **last_gap)
{
    while (gap != NULL) {
        run found = measure_run(gap);
        *last_gap = found.last_gap;
        if (found.size_bytes >= size_bytes)
            return gap;
        gap = next_gap(found.last_gap);
    }
    return NULL;
}

static void consider_gaps(vw__paged_engine *engine, const vw__lane *lane, uint64_t size_bytes,
                          vw__paged_window *best)
{
    vw__block *last_gap = NULL; /* of a run that is large enough; NULL: not known of `gap`'s run */
    for (vw__block *gap = first_gap(lane); gap != NULL;) {
        if (last_gap == NULL && (gap = skip_small_runs(gap, size_bytes, &last_gap)) == NULL)
            return;
        gap =
            is_usable(engine, gap) ? consider_around(engine, gap, size_bytes, best) : next_gap(gap);
        if (gap != NULL && gap->address > last_gap->address)
            last_gap = NULL;
    }
}

bool vw__paged_choose_window(vw__paged_engine *engine, const vw__lane *lane, uint64_t size_bytes,
                             bool at_end_only, vw__paged_window *out)
{
    *out = (vw__paged_window){.segment = NULL};
    engine->window_looks = 0;
    if (!at_end_only)
        consider_gaps(engine, lane, size_bytes, out);
    for (vw__block *gap = first_gap(lane); at_end_only && gap != NULL; gap = next_gap(gap))
        consider_end(engine, gap, size_bytes, out);
    return out->segment != NULL;
}
