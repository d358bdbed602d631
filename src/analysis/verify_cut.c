/* verify_cut.c - checks that a trace which does not begin at the beginning agrees with itself.
 *
 * The place of a block depends on every free block there is, and those before the first event of a
 * cut trace are unknown. These rules hold all the same: an alloc lies in memory that is held, and
 * on no live block; memory that is given back is held and has no live block in it; and the memory
 * held after the last event is what the file lists at the end. Sizes are as requested, so nothing
 * is claimed about the bytes between a request and its block. */
#include "analysis/verify_parts.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/ordered_tree.h"
#include "analysis/range_set.h"
#include "analysis/regions.h"
#include "analysis/script_events.h"

#define GRAIN_BYTES (UINT64_C(1) << 20)

/* A live block, in a tree by address. */
typedef struct live_block {
    vw__tree_node node; /* first: a node is its block */
    uint64_t begin;
    uint64_t end;
    bool is_live;
} live_block;

typedef struct cut_check {
    const vw__script *script;
    const vw__model_event *events;
    vw__range_set held;
    vw__regions plain;  /* segments that were taken in the trace and are still held */
    bool knows_held;    /* the file has segments to begin from */
    live_block *blocks; /* owned; by slot */
    vw__tree_node *root;
    vw__verify_difference *difference;
} cut_check;

static bool comes_before(const vw__tree_node *a, const vw__tree_node *b)
{
    const live_block *left = (const live_block *)a, *right = (const live_block *)b;
    return left->begin != right->begin ? left->begin < right->begin : a < b;
}

/* A live block in [begin, end), or NULL. */
static const live_block *find_live(const cut_check *check, uint64_t begin, uint64_t end)
{
    live_block key = {.begin = begin};
    const live_block *next =
        (const live_block *)vw__tree_first_from(check->root, &key.node, comes_before);
    const live_block *previous =
        (const live_block *)vw__tree_last_before(check->root, &key.node, comes_before);
    if (next != NULL && next->begin < end)
        return next;
    return previous != NULL && previous->end > begin ? previous : NULL;
}

static void note(cut_check *check, size_t event, const char *expected, const char *explanation)
{
    const vw__model_event *recorded = &check->events[event];
    (void)snprintf(check->difference->got, sizeof check->difference->got,
                   "%s of %" PRIu64 " bytes at %#" PRIx64, vw__model_action_name(recorded->action),
                   recorded->size_bytes, recorded->address);
    vw__verify_note_difference(check->difference, event, explanation, "%s", expected);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Segments and pages are whole MiB in every version and under every setting, and pages begin at
 * whole MiB: the driver's granularity is 2 MiB. */
static void check_grain(cut_check *check, size_t event)
{
    const vw__model_event *recorded = &check->events[event];
    bool is_mapping =
        recorded->action == VW_ACTION_SEGMENT_MAP || recorded->action == VW_ACTION_SEGMENT_UNMAP;
    if (!vw__script_is_growth(recorded->action) && !vw__script_is_release(recorded->action))
        return;
    if (recorded->size_bytes == 0 || recorded->size_bytes % GRAIN_BYTES != 0 ||
        (is_mapping && recorded->address % GRAIN_BYTES != 0))
        note(check, event, "whole MiB", "PyTorch takes and gives back memory in whole MiB.");
}

/* Finds what was held before the first event: the end, with every event undone. */
static vw_status find_held_at_start(cut_check *check)
{
    const vw__model *model = check->script->model;
    const vw__model_trace *trace = check->script->trace;
    size_t first, end;
    vw__script_segments_of(model, trace->device, &first, &end);
    check->knows_held = end > first;
    for (size_t i = first; i < end; i++)
        VW__TRY(vw__range_set_add(
            &check->held, model->segments[i].address,
            vw__add_capped_u64(model->segments[i].address, model->segments[i].total_bytes)));
    for (size_t i = trace->event_count; check->knows_held && i-- > 0;) {
        const vw__model_event *event = &check->events[i];
        uint64_t event_end = vw__add_capped_u64(event->address, event->size_bytes);
        if (vw__script_is_release(event->action)) {
            if (vw__range_set_touches(&check->held, event->address, event_end)) {
                note(check, i, "memory that is not held afterwards",
                     "What is given back here is held at the end, and nothing took it again.");
                return VW_OK;
            }
            VW__TRY(vw__range_set_add(&check->held, event->address, event_end));
        } else if (vw__script_is_growth(event->action)) {
            if (!vw__range_set_covers(&check->held, event->address, event_end)) {
                note(check, i, "memory that is held afterwards",
                     "What is taken here is not held at the end, and nothing gave it back.");
                return VW_OK;
            }
            VW__TRY(vw__range_set_remove(&check->held, event->address, event_end, NULL));
        }
    }
    return VW_OK;
}

/* A plain segment goes as it came: whole. */
static vw_status follow_plain(cut_check *check, size_t index)
{
    const vw__model_event *event = &check->events[index];
    const vw__regions_entry *region = vw__regions_find(&check->plain, event->address);
    vw__regions_entry was;
    bool is_new, is_gone;
    if (event->action == VW_ACTION_SEGMENT_ALLOC)
        return vw__regions_take(&check->plain, event->address, event->size_bytes, false, &region,
                                &is_new);
    if (region == NULL)
        return VW_OK; /* from before the trace */
    if (region->address != event->address || region->held_bytes != event->size_bytes)
        note(check, index, "a whole segment",
             "What is given back here is a part of a segment, which cannot be.");
    (void)vw__regions_give_back(&check->plain, event->address, event->size_bytes, &was, &is_gone);
    return VW_OK;
}

/* Checks that the segments left are there at the end, unchanged. */
static void compare_plain(cut_check *check)
{
    int device = check->script->trace->device;
    const vw__ordered_list *plain = &check->plain.held;
    vw__ordered_list_place place = vw__ordered_list_begin();
    for (size_t i = 0; check->knows_held && i < plain->count; i++) {
        const vw__regions_entry *region = vw__ordered_list_behind(plain, place);
        place = vw__ordered_list_next(plain, place);
        const vw__model_segment *segment =
            vw__script_segment_at(check->script->model, device, region->address);
        if (segment != NULL && segment->address == region->address &&
            segment->total_bytes == region->held_bytes)
            continue;
        (void)snprintf(check->difference->got, sizeof check->difference->got, "no such segment");
        vw__verify_note_difference(
            check->difference, VW_UNKNOWN,
            "A segment that the trace takes and keeps is not there at the end.",
            "segment %#" PRIx64 " of %" PRIu64 " bytes", region->address, region->held_bytes);
    }
}

static vw_status follow_memory(cut_check *check, const vw__script_op *op)
{
    for (size_t i = op->first_event; i < op->end_event; i++) {
        const vw__model_event *event = &check->events[i];
        uint64_t end = vw__add_capped_u64(event->address, event->size_bytes);
        if (event->action == VW_ACTION_SEGMENT_ALLOC || event->action == VW_ACTION_SEGMENT_FREE)
            VW__TRY(follow_plain(check, i));
        if (vw__script_is_growth(event->action)) {
            VW__TRY(vw__range_set_add(&check->held, event->address, end));
        } else if (vw__script_is_release(event->action)) {
            if (find_live(check, event->address, end) != NULL)
                note(check, i, "memory without a live block",
                     "PyTorch gives back only what nobody uses.");
            VW__TRY(vw__range_set_remove(&check->held, event->address, end, NULL));
        }
    }
    return VW_OK;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void begin_block(cut_check *check, const vw__script_op *op, uint64_t address)
{
    live_block *block = &check->blocks[op->slot];
    *block = (live_block){
        .begin = address, .end = vw__add_capped_u64(address, op->size_bytes), .is_live = true};
    vw__tree_insert(&check->root, &block->node, comes_before);
}

static void end_block(cut_check *check, uint32_t slot)
{
    if (!check->blocks[slot].is_live)
        return;
    check->blocks[slot].is_live = false;
    vw__tree_remove(&check->root, &check->blocks[slot].node);
}

static void place_block(cut_check *check, const vw__script_op *op)
{
    size_t index = op->end_event - 1;
    const vw__model_event *event = &check->events[index];
    uint64_t end = vw__add_capped_u64(event->address, event->size_bytes);
    if (check->knows_held && !vw__range_set_covers(&check->held, event->address, end))
        note(check, index, "a place in memory that is held",
             "This block lies outside of every segment that PyTorch held then.");
    else if (find_live(check, event->address, end) != NULL)
        note(check, index, "a place where nothing is live",
             "This block overlaps one that was not freed yet.");
    else
        begin_block(check, op, event->address);
}

/* Blocks from before the trace come without an event: the script has their addresses. */
static void begin_initial_blocks(cut_check *check)
{
    const vw__script *script = check->script;
    size_t op_index = 0;
    for (size_t done = 0; done < script->initial_count; op_index++)
        if (script->ops[op_index].kind == VW__SCRIPT_ALLOC)
            begin_block(check, &script->ops[op_index], script->initial_addresses[done++]);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static vw_status follow(cut_check *check)
{
    const vw__script *script = check->script;
    VW__TRY(find_held_at_start(check));
    begin_initial_blocks(check);
    for (size_t i = 0; i < script->op_count && !check->difference->is_found; i++) {
        const vw__script_op *op = &script->ops[i];
        if (op->first_event == VW__SCRIPT_BEFORE_RECORDING)
            continue;
        for (size_t k = op->first_event; k < op->end_event; k++)
            check_grain(check, k);
        if (op->kind == VW__SCRIPT_FREE || op->kind == VW__SCRIPT_COMPLETE)
            end_block(check, op->slot);
        VW__TRY(follow_memory(check, op));
        if (op->kind == VW__SCRIPT_ALLOC && !check->difference->is_found)
            place_block(check, op);
    }
    if (!check->difference->is_found)
        compare_plain(check);
    return VW_OK;
}

vw_status vw__verify_cut_trace(const vw__script *script, vw__verify_difference *difference)
{
    cut_check check = {.script = script, .events = script->trace->events, .difference = difference};
    vw__range_set_init(&check.held);
    vw__regions_init(&check.plain);
    check.blocks = vw__host_alloc_zeroed(script->slot_count, sizeof *check.blocks);
    vw_status status = check.blocks != NULL
                           ? follow(&check)
                           : vw__fail_host_memory(script->slot_count * sizeof *check.blocks,
                                                  "the blocks of a trace");
    vw__host_free(check.blocks);
    vw__range_set_deinit(&check.held);
    vw__regions_deinit(&check.plain);
    return status;
}
