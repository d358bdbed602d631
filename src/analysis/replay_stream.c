/* replay_stream.c - streams in a replay: which blocks leave the device, and when they are back.
 *
 * The step that needs most is scheduled for the card, as production would (stream_cost.c), and what
 * comes of it is done in every step: production plans each step by the one before, and takes
 * tensors by their number in the step too. A step that differs is served as far as it is alike: a
 * saved tensor of another size stays, and so does one that is freed before its turn.
 *
 * The player frees what leaves and asks for it again (vw__player_move), so that the pool, with its
 * spill, serves the rest as ever. Moves are in the order of the program, at the moments at which
 * production makes them (adapters/torch/state_stream_requests.cpp): ahead of need, then what lacks.
 * Copies are taken to be complete by then. The time that they take is for stream_cost.c.
 *
 * Before the first step ended nobody knows what leaves, here as in production. */
#include "analysis/replay.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "analysis/array.h"
#include "analysis/live_bytes.h"
#include "analysis/reading_limit.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

/* ---- what can leave -------------------------------------------------------------------------- */

static vw_status find_kinds(const vw__script *script, const vw__stream_steps *all, uint8_t *kinds)
{
    const vw__timeline *timeline = all->timeline;
    uint32_t *lifetimes = NULL;
    uint8_t *kind_of = vw__host_alloc_zeroed(timeline->lifetime_count + 1, sizeof *kind_of);
    vw_status status =
        kind_of != NULL ? vw__replay_find_lifetimes(script, timeline, &lifetimes)
                        : vw__fail_host_memory(timeline->lifetime_count, "blocks that can leave");
    if (status == VW_OK) {
        for (size_t i = 0; i < all->state_count; i++)
            kind_of[all->state[i].lifetime] = VW__REPLAY_STREAM_STATE;
        for (size_t i = 0; i < all->saved_count; i++)
            kind_of[all->saved[i].lifetime] = VW__REPLAY_STREAM_SAVED;
        for (size_t i = 0; i < script->op_count; i++)
            if (lifetimes[i] != VW__REPLAY_NO_LIFETIME)
                kinds[i] = kind_of[lifetimes[i]];
    }
    vw__host_free(lifetimes);
    vw__host_free(kind_of);
    return status;
}

static vw_status fill(const vw__script *script, const vw__stream_steps *all,
                      vw__replay_stream *stream)
{
    size_t highest = vw__stream_steps_highest(all);
    stream->has_times = all->step_ns != VW_UNKNOWN;
    stream->kinds = vw__host_alloc_zeroed(script->op_count + 1, sizeof *stream->kinds);
    if (stream->kinds == NULL)
        return vw__fail_host_memory(script->op_count, "blocks that can leave");
    VW__TRY(find_kinds(script, all, stream->kinds));
    return highest != 0 ? vw__stream_steps_take(all, highest, &stream->model) : VW_OK;
}

vw_status vw__replay_stream_make(const vw__script *script, const vw__timeline *timeline,
                                 const vw__steps *steps, const vw__roles *roles,
                                 vw__replay_stream **out)
{
    vw__stream_steps all;
    vw__replay_stream *stream = vw__host_alloc_zeroed(1, sizeof *stream);
    if (stream == NULL)
        return vw__fail_host_memory(sizeof *stream, "what streams move");
    vw_status status = vw__stream_steps_init(&all, timeline, steps, roles);
    if (status == VW_OK) {
        status = fill(script, &all, stream);
        vw__stream_steps_deinit(&all);
    }
    if (status == VW_OK)
        *out = stream;
    else
        vw__replay_stream_free(stream);
    return status;
}

void vw__replay_stream_free(vw__replay_stream *stream)
{
    if (stream == NULL)
        return;
    vw__stream_steps_one_deinit(&stream->model);
    vw__host_free(stream->kinds);
    vw__host_free(stream);
}

bool vw__replay_stream_is_known(const vw__replay_stream *stream)
{
    const vw__stream_cost_step *step = &stream->model.step;
    return stream->has_times && step->mark_count != 0 &&
           (step->state_bytes != 0 || step->item_count != 0);
}

/* ---- the plan, in its order ------------------------------------------------------------------ */

/* Something that a planned item does. */
typedef struct item_turn {
    uint32_t mark;
    uint32_t item;
    uint8_t kind; /* vw__player_move_kind */
} item_turn;

static int compare_turns(const void *left, const void *right)
{
    const item_turn *one = left, *other = right;
    if (one->mark != other->mark)
        return (one->mark > other->mark) - (one->mark < other->mark);
    if (one->kind != other->kind)
        return (one->kind > other->kind) - (one->kind < other->kind);
    return (one->item > other->item) - (one->item < other->item);
}

/* Where a planned item is in the step under way. */
enum { ITEM_THERE, ITEM_LEAVING, ITEM_AWAY };

/* Moves while they are listed. */
typedef struct listing {
    const vw__script *script;
    const vw__replay_stream *stream;
    const vw__stream_cost_plan *plan;
    vw__player_time *time; /* that listing may take */
    uint64_t limit_bytes;
    size_t need_mark; /* vw_schedule_need_mark() */
    item_turn *turns; /* owned; rising */
    size_t turn_count;
    size_t *item_ops; /* owned; by planned item: the operation that asked for it, in this step */
    uint8_t *item_places; /* owned; by planned item */
    size_t *op_of_slot;   /* owned; that asked for the block, while that is live and can leave */
    uint64_t *slot_bytes; /* owned; on the device */
    size_t *state_ops; /* owned; that asked for blocks of the state, in order; also of dead ones */
    size_t state_count, state_room, dead_count;
    vw__player_move *moves; /* handed out */
    size_t move_count, move_room, most_moves;
    uint64_t live_bytes; /* on the device */
    uint64_t away_bytes; /* of the state: not on it */

    /* The step under way. */
    bool is_streamed; /* it is not the first */
    size_t request_count, item_count, next_turn;
    size_t first_leaving, first_away; /* of turns: none before is */
    int64_t gone_count;               /* of items: that leave, or are away */
    size_t due_count;                 /* of state_ops: those before may leave */
    size_t left_count;                /* of those: these left, or are dead */
    size_t back_count;                /* of those: these were asked back */
    uint64_t found_bytes;             /* of the state: were away when it began */
    uint64_t left_bytes;              /* that left in this step */
    bool is_rest_asked;               /* the optimizer's step has begun */
} listing;

#define NO_OP SIZE_MAX

enum { MOST_MOVES_PER_OP = 16, MOVES_TO_BEGIN_WITH = 1 << 16, OPS_BETWEEN_LOOKS = 1 << 10 };

/* Moves may take half of the memory that a replay may; so many bytes in any case. */
#define UNCOUNTED_BYTES (UINT64_C(8) << 20)

static vw_status list_turns(listing *list)
{
    const vw__stream_cost_step *step = &list->stream->model.step;
    list->turns = vw__host_alloc_zeroed(3 * step->item_count, sizeof *list->turns);
    if (list->turns == NULL)
        return vw__fail_host_memory(3 * step->item_count * sizeof *list->turns,
                                    "what streams move");
    for (uint32_t i = 0; i < step->item_count; i++) {
        const vw_saved_item *item = &list->plan->items[i];
        if (!item->leaves)
            continue;
        list->turns[list->turn_count++] = (item_turn){item->from_mark, i, VW__PLAYER_MOVE_OUT};
        list->turns[list->turn_count++] = (item_turn){item->back_mark, i, VW__PLAYER_MOVE_TRY_BACK};
        list->turns[list->turn_count++] = (item_turn){item->until_mark, i, VW__PLAYER_MOVE_BACK};
    }
    qsort(list->turns, list->turn_count, sizeof *list->turns, compare_turns);
    return VW_OK;
}

static vw_status open_listing(listing *list)
{
    size_t slot_count = list->script->slot_count, item_count = list->stream->model.step.item_count;
    VW__TRY(list_turns(list));
    list->item_ops = vw__host_alloc_zeroed(item_count, sizeof *list->item_ops);
    list->item_places = vw__host_alloc_zeroed(item_count, sizeof *list->item_places);
    list->slot_bytes = vw__host_alloc_zeroed(slot_count, sizeof *list->slot_bytes);
    list->op_of_slot = vw__host_alloc(slot_count * sizeof *list->op_of_slot);
    if (list->item_ops == NULL || list->item_places == NULL || list->slot_bytes == NULL ||
        list->op_of_slot == NULL)
        return vw__fail_host_memory((slot_count + item_count) * sizeof(size_t),
                                    "what streams move");
    memset(list->op_of_slot, 0xff, slot_count * sizeof *list->op_of_slot); /* NO_OP */
    return VW_OK;
}

/* ---- listing --------------------------------------------------------------------------------- */

static bool is_live(const listing *list, size_t request_op)
{
    return list->op_of_slot[list->script->ops[request_op].slot] == request_op;
}

static bool is_away(const listing *list, size_t request_op)
{
    return is_live(list, request_op) && list->slot_bytes[list->script->ops[request_op].slot] == 0;
}

static uint64_t size_of(const listing *list, size_t request_op)
{
    return vw__lifetime_bytes_of(list->script->ops[request_op].size_bytes);
}

static void set_bytes(listing *list, uint32_t slot, uint64_t bytes)
{
    list->live_bytes += bytes - list->slot_bytes[slot];
    list->slot_bytes[slot] = bytes;
}

/* Does nothing if the block is dead. */
static vw_status add_move(listing *list, size_t before_op, size_t request_op, uint8_t kind)
{
    if (!is_live(list, request_op))
        return VW_OK;
    if (list->move_count / MOST_MOVES_PER_OP > list->script->op_count + MOVES_TO_BEGIN_WITH)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "streams would move more than %d blocks for each "
                        "operation of the program",
                        MOST_MOVES_PER_OP);
    if (list->move_count == list->most_moves)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "streams would move blocks more than %zu times, which takes more memory "
                        "than a replay may; --max-memory allows more",
                        list->most_moves);
    VW__TRY(vw__array_make_room(&list->moves, &list->move_room, list->move_count,
                                sizeof *list->moves, "what streams move"));
    list->moves[list->move_count++] = (vw__player_move){before_op, request_op, kind};
    bool is_out = kind == VW__PLAYER_MOVE_OUT, was_out = is_away(list, request_op);
    uint64_t size_bytes = size_of(list, request_op);
    set_bytes(list, list->script->ops[request_op].slot, is_out ? 0 : size_bytes);
    if (is_out != was_out && list->stream->kinds[request_op] == VW__REPLAY_STREAM_STATE)
        list->away_bytes += is_out ? size_bytes : -size_bytes;
    return VW_OK;
}

/* Forgets dead blocks of the state, once they are most of the list. */
static void forget_dead(listing *list)
{
    size_t count = 0;
    if (list->dead_count <= list->state_count / 2)
        return;
    for (size_t i = 0; i < list->state_count; i++)
        if (is_live(list, list->state_ops[i]))
            list->state_ops[count++] = list->state_ops[i];
    list->state_count = count;
    list->dead_count = 0;
}

/* State may leave in the order in which it was made, as far as the plan wants. */
static void begin_step(listing *list)
{
    uint64_t due_bytes = 0;
    forget_dead(list);
    list->is_streamed = true;
    list->is_rest_asked = false;
    list->request_count = list->item_count = list->next_turn = 0;
    list->first_leaving = list->first_away = 0;
    list->gone_count = 0;
    list->due_count = list->left_count = list->back_count = 0;
    list->left_bytes = 0;
    list->found_bytes = list->away_bytes;
    memset(list->item_places, ITEM_THERE,
           list->stream->model.step.item_count * sizeof *list->item_places);
    while (list->due_count < list->state_count && due_bytes < list->plan->leave_bytes) {
        size_t request_op = list->state_ops[list->due_count++];
        if (is_live(list, request_op))
            due_bytes += size_of(list, request_op);
    }
}

static void put_item(listing *list, uint32_t item, uint8_t place)
{
    uint8_t before = list->item_places[item];
    list->gone_count += (place != ITEM_THERE) - (before != ITEM_THERE);
    list->item_places[item] = place;
}

/* Where there is room for it. */
static vw_status try_back(listing *list, size_t op, size_t request_op, bool *is_back)
{
    uint64_t size_bytes = is_live(list, request_op) ? size_of(list, request_op) : 0;
    *is_back = list->live_bytes + size_bytes <= vw_schedule_room_bytes(list->limit_bytes);
    return *is_back ? add_move(list, op, request_op, VW__PLAYER_MOVE_TRY_BACK) : VW_OK;
}

/* Asks back what may be back by now, in the order of its turn. */
static vw_status bring_items(listing *list, size_t op)
{
    bool is_back = true;
    for (size_t i = list->first_away; is_back && i < list->next_turn; i++) {
        const item_turn *turn = &list->turns[i];
        uint8_t *place = &list->item_places[turn->item];
        if (turn->kind == VW__PLAYER_MOVE_TRY_BACK && *place == ITEM_AWAY) {
            VW__TRY(try_back(list, op, list->item_ops[turn->item], &is_back));
            put_item(list, turn->item, is_back ? ITEM_THERE : ITEM_AWAY);
        }
        bool is_done = turn->kind != VW__PLAYER_MOVE_TRY_BACK || *place == ITEM_THERE;
        list->first_away += i == list->first_away && is_done;
    }
    return VW_OK;
}

/* Asks state back, as much as may be back at the mark, in the order in which it left. */
static vw_status bring_state(listing *list, size_t op, size_t mark)
{
    uint64_t stay_bytes = list->plan->leave_bytes - list->plan->back_bytes[mark];
    for (bool is_back = true; is_back && list->back_count < list->left_count;) {
        size_t request_op = list->state_ops[list->back_count];
        if (is_away(list, request_op)) {
            uint64_t size_bytes = size_of(list, request_op);
            if (list->away_bytes < stay_bytes + size_bytes)
                return VW_OK;
            VW__TRY(try_back(list, op, request_op, &is_back));
        }
        list->back_count += is_back;
    }
    return VW_OK;
}

/* What found no room before its optimizer's step is asked back once more, when that begins; but for
 * what is to stay. */
static vw_status bring_rest(listing *list, size_t op)
{
    if (list->is_rest_asked)
        return VW_OK;
    list->is_rest_asked = true;
    for (size_t i = 0; i < list->left_count; i++) {
        size_t request_op = list->state_ops[i];
        if (list->plan->stay_bytes == 0 ||
            list->away_bytes >= list->plan->stay_bytes + size_of(list, request_op))
            VW__TRY(add_move(list, op, request_op, VW__PLAYER_MOVE_TRY_BACK));
    }
    list->back_count = list->left_count;
    return VW_OK;
}

static vw_status move_items(listing *list, size_t op, size_t mark)
{
    for (; list->next_turn < list->turn_count && list->turns[list->next_turn].mark <= mark;
         list->next_turn++) {
        const item_turn *turn = &list->turns[list->next_turn];
        size_t request_op = turn->item < list->item_count ? list->item_ops[turn->item] : NO_OP;
        if (request_op == NO_OP)
            continue;
        if (turn->kind == VW__PLAYER_MOVE_OUT && is_live(list, request_op)) {
            put_item(list, turn->item, ITEM_LEAVING);
        } else if (turn->kind == VW__PLAYER_MOVE_BACK) {
            if (list->item_places[turn->item] == ITEM_AWAY)
                VW__TRY(add_move(list, op, request_op, VW__PLAYER_MOVE_BACK));
            put_item(list, turn->item, ITEM_THERE);
        }
    }
    return VW_OK;
}

/* Lets saved tensors go in the order in which they were saved: those whose time has come, and as
 * many more as bring what is live down to `most_bytes`. */
static vw_status let_items_go(listing *list, size_t op, size_t mark, uint64_t most_bytes)
{
    for (; list->first_leaving < list->next_turn; list->first_leaving++) {
        const item_turn *turn = &list->turns[list->first_leaving];
        if (turn->kind != VW__PLAYER_MOVE_OUT || list->item_places[turn->item] != ITEM_LEAVING)
            continue;
        if (vw_schedule_left_mark(list->need_mark, turn->mark) > mark &&
            list->live_bytes <= most_bytes)
            return VW_OK;
        put_item(list, turn->item, ITEM_AWAY);
        VW__TRY(add_move(list, op, list->item_ops[turn->item], VW__PLAYER_MOVE_OUT));
    }
    return VW_OK;
}

/* The same of the state that is not away, up to `wanted_bytes`. */
static vw_status let_state_go(listing *list, size_t op, uint64_t wanted_bytes)
{
    while (list->left_count < list->due_count && list->left_bytes < wanted_bytes) {
        size_t request_op = list->state_ops[list->left_count++];
        if (!is_live(list, request_op) || is_away(list, request_op))
            continue;
        list->left_bytes += size_of(list, request_op);
        VW__TRY(add_move(list, op, request_op, VW__PLAYER_MOVE_OUT));
    }
    return VW_OK;
}

/* What is let go ahead of need; and where a request of so many bytes lacks room, what was copied so
 * far, which is taken to be all. */
static vw_status make_room(listing *list, size_t op, size_t mark, uint64_t size_bytes)
{
    uint64_t leave_bytes = list->plan->leave_bytes, most_bytes = UINT64_MAX;
    leave_bytes -= vw__min_u64(list->found_bytes, leave_bytes);
    bool is_lacking = list->live_bytes + size_bytes > list->limit_bytes;
    if (is_lacking)
        most_bytes = list->limit_bytes - vw__min_u64(size_bytes, list->limit_bytes);
    VW__TRY(let_items_go(list, op, mark, most_bytes));
    if (list->is_rest_asked) /* the optimizer has it in hand */
        return VW_OK;
    if (is_lacking || mark <= list->need_mark)
        VW__TRY(let_state_go(
            list, op,
            is_lacking ? UINT64_MAX : vw_schedule_left_bytes(leave_bytes, list->need_mark, mark)));
    return VW_OK;
}

static vw_status note_request(listing *list, size_t op)
{
    const vw__stream_steps_one *model = &list->stream->model;
    size_t mark = list->request_count++ / model->per_mark;
    VW__TRY(move_items(list, op, mark));
    VW__TRY(bring_items(list, op));
    if (mark >= model->step.optimizer_mark || mark >= model->step.mark_count)
        VW__TRY(bring_rest(list, op));
    else if (list->gone_count == 0)
        VW__TRY(bring_state(list, op, mark));
    return make_room(list, op, mark, size_of(list, op));
}

static vw_status note_block(listing *list, size_t op)
{
    const vw__stream_cost_step *step = &list->stream->model.step;
    uint8_t kind = list->stream->kinds[op];
    uint32_t slot = list->script->ops[op].slot;
    list->op_of_slot[slot] = kind != VW__REPLAY_STREAM_NOTHING ? op : NO_OP;
    set_bytes(list, slot, size_of(list, op));
    if (kind == VW__REPLAY_STREAM_STATE) {
        VW__TRY(vw__array_make_room(&list->state_ops, &list->state_room, list->state_count,
                                    sizeof *list->state_ops, "an optimizer's state"));
        list->state_ops[list->state_count++] = op;
    } else if (kind == VW__REPLAY_STREAM_SAVED && list->item_count < step->item_count) {
        bool is_alike = step->items[list->item_count].size_bytes == size_of(list, op);
        list->item_ops[list->item_count++] = is_alike ? op : NO_OP;
    }
    return VW_OK;
}

static void note_free(listing *list, uint32_t slot)
{
    size_t op = list->op_of_slot[slot];
    bool is_state = op != NO_OP && list->stream->kinds[op] == VW__REPLAY_STREAM_STATE;
    if (is_state && is_away(list, op))
        list->away_bytes -= size_of(list, op);
    list->op_of_slot[slot] = NO_OP;
    set_bytes(list, slot, 0);
    list->dead_count += is_state;
}

static vw_status list_op(listing *list, size_t index)
{
    const vw__script_op *op = &list->script->ops[index];
    if (op->kind == VW__SCRIPT_ALLOC) {
        if (list->is_streamed && op->size_bytes >= VW__STREAM_STEPS_LEAST_BYTES)
            VW__TRY(note_request(list, index));
        return note_block(list, index);
    }
    if (op->kind == VW__SCRIPT_FREE || op->kind == VW__SCRIPT_FREE_LATER)
        note_free(list, op->slot);
    return VW_OK;
}

/* A step goes through the state, and a request through the saved tensors. */
static vw_status look_at_time(const listing *list)
{
    return vw__player_time_check_shared(list->time, list->script->model);
}

/* Where the optimizer asks for nothing, its step is at the end. */
static vw_status list_moves(listing *list, const size_t *steps, size_t step_count)
{
    size_t next_step = 0;
    for (size_t i = 0; i < list->script->op_count; i++) {
        for (; next_step < step_count && steps[next_step] == i; next_step++) {
            if (list->is_streamed)
                VW__TRY(bring_rest(list, i));
            begin_step(list);
            VW__TRY(look_at_time(list));
        }
        if (i % OPS_BETWEEN_LOOKS == 0)
            VW__TRY(look_at_time(list));
        VW__TRY(list_op(list, i));
    }
    return VW_OK;
}

vw_status vw__replay_stream_list(const vw__replay_work *work, const vw__stream_cost_plan *plan,
                                 uint64_t limit_bytes, vw__player_time *time,
                                 vw__player_move **moves, size_t *count)
{
    listing list = {.script = &work->script,
                    .stream = work->stream,
                    .plan = plan,
                    .time = time,
                    .limit_bytes = limit_bytes};
    list.most_moves =
        (size_t)(vw__max_u64(vw__reading_limit_bytes(0) / 2, UNCOUNTED_BYTES) / sizeof *list.moves);
    const vw__stream_cost_step *step = &work->stream->model.step;
    list.need_mark = vw_schedule_need_mark(step->live_bytes, step->mark_count, limit_bytes);
    vw_status status = open_listing(&list);
    if (status == VW_OK)
        status = list_moves(&list, work->steps, work->step_count);
    vw__host_free(list.turns);
    vw__host_free(list.item_ops);
    vw__host_free(list.item_places);
    vw__host_free(list.slot_bytes);
    vw__host_free(list.op_of_slot);
    vw__host_free(list.state_ops);
    if (status != VW_OK) {
        vw__host_free(list.moves);
        return status;
    }
    *moves = list.moves;
    *count = list.move_count;
    return VW_OK;
}
