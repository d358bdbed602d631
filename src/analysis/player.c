/* player.c - see player.h.
 *
 * Playing is the hot loop of replay, tune and verify: an operation is a look into a table and one
 * call of the pool. What is rare (streams, scopes, requests that failed when they were recorded)
 * is in functions of its own.
 *
 * Made-up streams. A script names a new one for every free that completed late, tens of thousands
 * in a recording that uses record_stream() much. The pool keeps a queue for each stream it ever
 * heard of and walks them all, as PyTorch does, so the player hands out few numbers and uses them
 * again: once a user's work is complete nothing waits for its stream.
 *
 * A complete free is looked for at once, and not left to the next request. So two that complete in
 * the same request are found in the order of the script: PyTorch's own order, that of a hash table,
 * is unknown. Looking is a request for an address that no block has.
 *
 * The script's own streams. PyTorch's rules record events on made-up streams only, and the script
 * says when those are complete. Engine "vramwise" also records events where its requests are, to
 * know when a page that it moved is past its last use, and no recording says how far the device
 * lagged behind the program. It lags by up to VW__PLAYER_LAG_OPS operations here, a number chosen
 * and not measured: whenever so many were played, all that was queued before is done.
 * Engine torch has no such events, and is played in one go.
 *
 * Safe points, for engines that copy live data, are always granted: a replay has no kernels that
 * could be in the way.
 *
 * The cost of a spill is taken from the simulated device's own count, between the beginning and the
 * end of its safe point: the pool's clock is that of the machine that replays. All host memory is
 * made when it is needed, none ahead. */
#include "analysis/player.h"

#include <inttypes.h>
#include <string.h>

#include "analysis/reading_limit.h"
#include "base/checked_math.h" /* vw__max_u64 */
#include "base/clock.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"
#include "base/pinned_budget.h"

enum { NOBODYS_ADDRESS = 512, UNSETTLED_STEPS = 2 };

#define LEAST_LIMIT_NS UINT64_C(10000000000)
#define LIMIT_NS_PER_OP UINT64_C(200000)
#define USUAL_NS_PER_OP UINT64_C(2000) /* real programs: a few hundred */

/* The pool keeps an index of free blocks, of about this size, for each stream in each private pool;
 * and engine and device together about so much for each page of live memory, and for each page of
 * addresses that the engine reserves for a stream. Up to MOST_AT_ONCE scripts are played side by
 * side, so each gets a part of the memory. */
enum {
    LANE_BYTES = 28 << 10,
    PAGE_RECORD_BYTES = 24,
    RESERVED_RECORD_BYTES = 12,
    PAGE_BYTES = 2 << 20,
    UNCOUNTED_BYTES = 8 << 20,
    MOST_AT_ONCE = 4
};

/* ---- limits ---------------------------------------------------------------------------------- */

static uint64_t limit_ns(const vw__player_time *time)
{
    return LEAST_LIMIT_NS + time->op_count * LIMIT_NS_PER_OP;
}

vw__player_time vw__player_time_begin(size_t op_count)
{
    return (vw__player_time){.begin_ns = vw__clock_thread_ns(), .op_count = op_count};
}

double vw__player_time_used(const vw__player_time *time)
{
    return (double)(vw__clock_thread_ns() - time->begin_ns) / (double)limit_ns(time);
}

vw_status vw__player_time_check(const vw__player_time *time)
{
    if (vw__player_time_used(time) <= 1.0)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "the replay took more than %" PRIu64 " s for %zu operations, and was given up",
                    limit_ns(time) / UINT64_C(1000000000), time->op_count);
}

vw_status vw__player_time_check_shared(vw__player_time *time, const vw__model *model)
{
    VW__TRY(vw__player_time_check(time));
    uint64_t used_ns = vw__clock_thread_ns() - time->begin_ns;
    if (model->slow_play_ns == NULL || used_ns <= time->op_count * USUAL_NS_PER_OP)
        return VW_OK;
    uint64_t more_ns = used_ns - time->charged_ns;
    time->charged_ns = used_ns;
    if (atomic_fetch_add_explicit(model->slow_play_ns, more_ns, memory_order_relaxed) + more_ns <=
        limit_ns(time))
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "the replays of this recording took more than %" PRIu64
                    " s for %zu operations, all together, and were given up",
                    limit_ns(time) / UINT64_C(1000000000), time->op_count);
}

/* Not larger than need be: the engine keeps a table of the pages that a reservation could have. */
static uint64_t large_card_bytes(const vw__script *script)
{
    if (script->peak_live_bytes >= VW__PLAYER_LARGEST_CARD_BYTES / 2)
        return VW__PLAYER_LARGEST_CARD_BYTES;
    return vw__max_u64(2 * script->peak_live_bytes, VW__PLAYER_LARGE_CARD_BYTES);
}

/* The card's size as the device reports it. */
static uint64_t reported_bytes(const vw__script *script, const vw__player_options *options)
{
    if (options->total_bytes != 0)
        return options->total_bytes;
    return options->capacity_bytes == UINT64_MAX ? large_card_bytes(script)
                                                 : options->capacity_bytes;
}

static bool has_expandable_segments(const vw__player_options *options)
{
    return options->conf != NULL && strstr(options->conf, "expandable_segments") != NULL;
}

static bool is_own_engine(const vw__player_options *options)
{
    return options->engine != NULL && strcmp(options->engine, "torch") != 0;
}

/* The addresses that are reserved for a stream: by our engine for twice the card, and for an
 * expandable segment about once. The device has VW__PLAYER_ADDRESS_BYTES for all. */
static uint64_t reserved_bytes(const vw__script *script, const vw__player_options *options)
{
    uint64_t card_bytes = vw__min_u64(reported_bytes(script, options), VW__PLAYER_ADDRESS_BYTES);
    uint64_t all_bytes;
    if (script->lane_count <= VW__SCRIPT_FEW_LANES ||
        (!is_own_engine(options) && !has_expandable_segments(options)))
        return 0;
    if (!vw__mul_u64(script->lane_count, (is_own_engine(options) ? 2 : 1) * card_bytes, &all_bytes))
        return VW__PLAYER_ADDRESS_BYTES;
    return vw__min_u64(all_bytes, VW__PLAYER_ADDRESS_BYTES);
}

static vw_status check_memory(const vw__script *script, const vw__player_options *options)
{
    uint64_t live_bytes = vw__min_u64(script->peak_live_bytes, VW__PLAYER_ENDLESS_BYTES);
    uint64_t needed_bytes = live_bytes / PAGE_BYTES * PAGE_RECORD_BYTES;
    needed_bytes += reserved_bytes(script, options) / PAGE_BYTES * RESERVED_RECORD_BYTES;
    needed_bytes += (uint64_t)script->lane_count * LANE_BYTES;
    if (needed_bytes <= UNCOUNTED_BYTES)
        return VW_OK;
    char live[VW__HUMAN_SIZE_BYTES], limit[VW__HUMAN_SIZE_BYTES];
    uint64_t limit_bytes = vw__reading_limit_bytes(0) / MOST_AT_ONCE;
    if (needed_bytes <= limit_bytes)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "a replay with %zu streams, counted for each private pool, and %s live would "
                    "take more than %s of memory; --max-memory allows more",
                    script->lane_count, vw__human_size(live_bytes, live),
                    vw__human_size(limit_bytes, limit));
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static vw_status make_tables(vw__player *player)
{
    const vw__script *script = player->script;
    player->addresses = vw__host_alloc_zeroed(script->slot_count, sizeof *player->addresses);
    player->user_streams = vw__host_alloc_zeroed(script->user_count, sizeof(uint32_t));
    player->idle_streams = vw__host_alloc_zeroed(script->user_count, sizeof(uint32_t));
    if (player->addresses == NULL || player->user_streams == NULL || player->idle_streams == NULL)
        return vw__fail_host_memory(script->slot_count * sizeof *player->addresses +
                                        2 * script->user_count * sizeof(uint32_t),
                                    "the blocks of a replay");
    return VW_OK;
}

static vw_status make_device(vw__player *player, const vw__player_options *options)
{
    bool is_endless = options->capacity_bytes == UINT64_MAX;
    uint64_t capacity_bytes = is_endless ? VW__PLAYER_ENDLESS_BYTES : options->capacity_bytes;
    if (capacity_bytes == 0) /* would be the device's default */
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "a card of 0 bytes: at least 1 is expected");
    const vw_simulated_options device_options = {
        .struct_size = sizeof device_options,
        .capacity_bytes = capacity_bytes,
        .total_bytes = reported_bytes(player->script, options),
        .index = player->script->trace->device,
        .manual_streams = true,
    };
    VW__TRY(vw_simulated_device_create(&device_options, &player->device));
    player->elapsed_ns = vw_device_elapsed_counter(player->device);
    return VW_OK;
}

static vw_status make_unsplit_pools(vw__player *player, const bool *is_unsplit)
{
    const vw__script *script = player->script;
    const vw_private_options options = {.struct_size = sizeof options, .no_split = true};
    for (size_t i = 1; is_unsplit != NULL && i < script->pool_count; i++)
        if (is_unsplit[i])
            VW__TRY(vw_private_pool_retain(player->pool, script->pools[i], &options));
    return VW_OK;
}

static bool grant_safe_point(void *context)
{
    vw__player *player = context;
    player->spill.moment_ns = *player->elapsed_ns;
    return true;
}

static void end_safe_point(void *context)
{
    vw__player *player = context;
    player->spill.moment_ns = *player->elapsed_ns - player->spill.moment_ns;
}

/* Called after the end of the safe point in which it happened. */
static void note_spill(void *context, const vw_spill_report *report)
{
    vw__player *player = context;
    vw__player_spill *spill = &player->spill;
    vw_paged_stats paged = {.struct_size = sizeof paged};
    spill->has_begun = true;
    spill->wait_ns += spill->moment_ns;
    if (report->is_return) /* what comes back may have left in a step before */
        spill->resting_bytes -= vw__min_u64(spill->resting_bytes, report->moved_bytes);
    else
        spill->resting_bytes += report->moved_bytes;
    if (vw_pool_get_paged_stats(player->pool, &paged) == VW_OK) /* of this engine it cannot fail */
        spill->peak_host_bytes = vw__max_u64(spill->peak_host_bytes, paged.host_handle_bytes);
}

static vw_status make_pool(vw__player *player, const vw__player_options *options)
{
    if (options->stream_host_bytes != 0)
        VW__TRY(vw_pinned_budget_create(options->spill_bytes, &player->budget));
    const vw_pool_options pool_options = {
        .struct_size = sizeof pool_options,
        .engine = options->engine,
        .conf = options->conf,
        .torch_version = options->torch_version,
        .safe_point = {.enter = grant_safe_point, .leave = end_safe_point, .context = player},
        .spill_bytes = options->spill_bytes,
        .spill_listener = {.context = player, .moved = note_spill},
        .is_unlisted = true,
        .pinned_budget = player->budget,
    };
    VW__TRY(vw_pool_create(player->device, &pool_options, &player->pool));
    player->has_lag = is_own_engine(options);
    if (options->fraction < 1.0)
        VW__TRY(vw_pool_set_fraction(player->pool, options->fraction));
    player->has_sink = options->sink != NULL;
    player->trims_alone = options->trims_alone || options->skips_empty_cache;
    player->skips_empty_cache = options->skips_empty_cache;
    player->advice = options->spill_bytes != 0 ? options->advice : NULL;
    if (player->has_sink)
        VW__TRY(vw_pool_set_sink(player->pool, options->sink));
    return make_unsplit_pools(player, options->is_unsplit);
}

vw_status vw__player_init(vw__player *player, const vw__script *script,
                          const vw__player_options *options)
{
    *player = (vw__player){
        .script = script,
        .listener = options->listener,
        .moves = options->moves,
        .move_count = options->move_count,
        .stream_host_bytes = options->stream_host_bytes,
    };
    vw_status status = check_memory(script, options);
    if (status == VW_OK)
        status = make_tables(player);
    if (status == VW_OK)
        status = make_device(player, options);
    if (status == VW_OK)
        status = make_pool(player, options);
    if (status != VW_OK)
        vw__player_deinit(player);
    return status;
}

void vw__player_deinit(vw__player *player)
{
    vw_pool_destroy(player->pool);
    vw__pinned_budget_put_back(player->budget, player->drawn_bytes);
    vw_pinned_budget_destroy(player->budget);
    vw_device_destroy(player->device);
    vw__host_free(player->addresses);
    vw__host_free(player->user_streams);
    vw__host_free(player->idle_streams);
    *player = (vw__player){.script = NULL};
}

/* ---- streams --------------------------------------------------------------------------------- */

static vw_status free_later(vw__player *player, const vw__script_op *op)
{
    vw_device_ptr address = player->addresses[op->slot]; /* VW_NULL: it has left the device */
    uint32_t number = player->idle_stream_count != 0
                          ? player->idle_streams[player->idle_stream_count - 1]
                          : player->stream_count;
    if (address != VW_NULL)
        VW__TRY(vw_record_stream(player->pool, address, VW__PLAYER_FIRST_USER_STREAM + number));
    player->user_streams[op->user] = number;
    if (player->idle_stream_count != 0)
        player->idle_stream_count--;
    else
        player->stream_count++;
    player->addresses[op->slot] = VW_NULL;
    return vw_free(player->pool, address);
}

/* Lets the pool see which streams are done: a request for an address that no block has does only
 * that. */
static vw_status look_at_streams(vw__player *player)
{
    vw_device_ptr nowhere = VW_NULL;
    const vw_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = 1, .at = NOBODYS_ADDRESS};
    vw_status status = vw_alloc_with(player->pool, &request, &nowhere);
    VW_ASSERT(status != VW_OK);
    return status == VW_ERR_OUT_OF_MEMORY ? VW_OK : status;
}

static vw_status complete(vw__player *player, const vw__script_op *op)
{
    uint32_t number = player->user_streams[op->user];
    VW__TRY(vw_device_complete(player->device, VW__PLAYER_FIRST_USER_STREAM + number));
    VW__TRY(look_at_streams(player));
    if (player->idle_stream_count < player->script->user_count)
        player->idle_streams[player->idle_stream_count++] = number;
    return VW_OK;
}

static vw_status complete_own_streams(vw__player *player)
{
    const vw__model *model = player->script->model;
    for (size_t i = 0; i < model->stream_count; i++)
        VW__TRY(vw_device_complete(player->device, model->streams[i]));
    return VW_OK;
}

/* ---- other rare operations ------------------------------------------------------------------- */

static void note_stall(vw__player *player, uint64_t stall_ns)
{
    if (stall_ns > player->longest_stall_ns)
        player->longest_stall_ns = stall_ns;
}

static vw_status leave_scope(vw__player *player)
{
    uint16_t left = player->scope;
    player->scope = VW__MODEL_DEFAULT_POOL;
    return left == VW__MODEL_DEFAULT_POOL
               ? VW_OK
               : vw_private_pool_end(player->pool, player->script->pools[left]);
}

static vw_status enter_scope(vw__player *player, uint16_t pool)
{
    if (pool == player->scope)
        return VW_OK;
    VW__TRY(leave_scope(player));
    if (pool == VW__MODEL_DEFAULT_POOL)
        return VW_OK;
    VW__TRY(vw_private_pool_begin(player->pool, player->script->pools[pool], NULL, NULL));
    player->scope = pool;
    return VW_OK;
}

/* Every scope that was entered counts as a use of its pool. */
static vw_status release_private_pool(vw__player *player, uint16_t pool)
{
    vw_private_id id = player->script->pools[pool];
    if (pool == player->scope)
        VW__TRY(leave_scope(player));
    while (vw_private_pool_use_count(player->pool, id) > 0)
        VW__TRY(vw_private_pool_release(player->pool, id));
    return VW_OK;
}

static vw_status trim(vw__player *player, uint16_t pool)
{
    if (pool == VW__MODEL_DEFAULT_POOL && player->skips_empty_cache)
        return VW_OK;
    return pool == VW__MODEL_DEFAULT_POOL || !player->trims_alone
               ? vw_pool_trim(player->pool)
               : vw_private_pool_trim(player->pool, player->script->pools[pool]);
}

static vw_status try_again(vw__player *player, const vw__script_op *op)
{
    vw_device_ptr address = VW_NULL;
    vw_stream stream = player->script->model->streams[op->stream];
    VW__TRY(vw_alloc(player->pool, op->size_bytes, stream, &address));
    player->served_oom_count++;
    return vw_free(player->pool, address);
}

static vw_status take_snapshot(vw__player *player)
{
    const vw_walker nobody = {.context = NULL};
    return player->has_sink ? vw_pool_walk(player->pool, &nobody, true) : VW_OK;
}

static __attribute__((noinline)) vw_status play_rare(vw__player *player, const vw__script_op *op)
{
    switch ((vw__script_kind)op->kind) {
    case VW__SCRIPT_FREE_LATER:
        return free_later(player, op);
    case VW__SCRIPT_COMPLETE:
        return complete(player, op);
    case VW__SCRIPT_OOM:
        return try_again(player, op);
    case VW__SCRIPT_TRIM:
        return trim(player, op->pool);
    case VW__SCRIPT_SNAPSHOT:
        return take_snapshot(player);
    case VW__SCRIPT_SCOPE:
        return enter_scope(player, op->pool);
    case VW__SCRIPT_RELEASE:
        return release_private_pool(player, op->pool);
    case VW__SCRIPT_ALLOC:
    case VW__SCRIPT_FREE:
        break;
    }
    return vw__fail(VW_ERR_INVALID_ARGUMENT, "operation %u of a script is of no kind",
                    (unsigned)op->kind);
}

vw_status vw__player_trim(vw__player *player)
{
    uint64_t before_ns = *player->elapsed_ns;
    vw_status status = vw_pool_trim(player->pool);
    note_stall(player, *player->elapsed_ns - before_ns);
    return status;
}

static void count_step(vw__player_spill *spill)
{
    if (!spill->is_settled && spill->step_count == UNSETTLED_STEPS) {
        spill->sum_touched_bytes = spill->sum_wait_ns = spill->step_count = 0;
        spill->is_settled = true; /* there is another: it and those that follow count */
    }
    spill->sum_touched_bytes += spill->resting_bytes;
    spill->sum_wait_ns += spill->wait_ns - spill->step_from_ns;
    spill->step_count++;
}

vw_status vw__player_mark_step(vw__player *player)
{
    vw__player_spill *spill = &player->spill;
    vw_paged_stats paged = {.struct_size = sizeof paged};
    uint64_t before_ns = *player->elapsed_ns;
    if (spill->has_begun) /* in the step that ended, or one before */
        count_step(spill);
    VW__TRY(vw_pool_mark_step(player->pool));
    note_stall(player, *player->elapsed_ns - before_ns);
    if (spill->has_begun)
        VW__TRY(vw_pool_get_paged_stats(player->pool, &paged));
    spill->resting_bytes = paged.spilled_bytes;
    spill->step_from_ns = spill->wait_ns;
    return VW_OK;
}

/* ---- playing --------------------------------------------------------------------------------- */

static vw_status play_in_one_go(vw__player *player, size_t first, size_t end, size_t *stopped)
{
    const vw__script_op *ops = player->script->ops;
    const vw_stream *streams = player->script->model->streams;
    vw_device_ptr *addresses = player->addresses;
    const uint8_t *advice = player->advice;
    uint64_t elapsed_ns = *player->elapsed_ns;
    vw_status status = VW_OK;
    size_t i = first;
    for (; i < end; i++) {
        const vw__script_op *op = &ops[i];
        if (op->kind == VW__SCRIPT_ALLOC) {
            VW_ASSERT(addresses[op->slot] == VW_NULL);
            status =
                vw_alloc(player->pool, op->size_bytes, streams[op->stream], &addresses[op->slot]);
            if (advice != NULL && advice[i] != VW_ADVISE_NORMAL && status == VW_OK)
                status = vw_advise(player->pool, addresses[op->slot], (vw_advice)advice[i]);
        } else if (op->kind == VW__SCRIPT_FREE) {
            vw_device_ptr address = addresses[op->slot];
            addresses[op->slot] = VW_NULL;
            status = vw_free(player->pool, address);
        } else {
            status = play_rare(player, op);
        }
        if (*player->elapsed_ns != elapsed_ns) { /* the device was called */
            note_stall(player, *player->elapsed_ns - elapsed_ns);
            elapsed_ns = *player->elapsed_ns;
            if (player->listener.device_called != NULL)
                player->listener.device_called(player->listener.context, i);
        }
        if (__builtin_expect(status != VW_OK, 0))
            break;
    }
    *stopped = i;
    return status;
}

static vw_status ask_back(vw__player *player, const vw__player_move *move)
{
    const vw__script_op *op = &player->script->ops[move->request_op];
    const vw_alloc_request request = {
        .struct_size = sizeof request,
        .size_bytes = op->size_bytes,
        .stream = player->script->model->streams[op->stream],
        .is_optional = move->kind == VW__PLAYER_MOVE_TRY_BACK,
    };
    vw_status status = vw_alloc_with(player->pool, &request, &player->addresses[op->slot]);
    if (status == VW_ERR_OUT_OF_MEMORY && request.is_optional)
        return VW_OK;
    uint8_t advice = player->advice != NULL ? player->advice[move->request_op] : VW_ADVISE_NORMAL;
    return status == VW_OK && advice != VW_ADVISE_NORMAL
               ? vw_advise(player->pool, player->addresses[op->slot], (vw_advice)advice)
               : status;
}

/* What spilled before streams began keeps its host memory. */
static void draw_for_streams(vw__player *player)
{
    uint64_t bytes = vw__min_u64(player->stream_host_bytes, vw__pinned_budget_left(player->budget));
    if (bytes != 0 && vw__pinned_budget_draw(player->budget, bytes))
        player->drawn_bytes = bytes;
    player->stream_host_bytes = 0;
}

/* Makes the moves before `op`, and no more than once. */
static vw_status move_blocks(vw__player *player, size_t op)
{
    for (;
         player->next_move < player->move_count && player->moves[player->next_move].before_op <= op;
         player->next_move++) {
        const vw__player_move *move = &player->moves[player->next_move];
        uint32_t slot = player->script->ops[move->request_op].slot;
        vw_device_ptr address = player->addresses[slot];
        if (player->stream_host_bytes != 0)
            draw_for_streams(player);
        if ((move->kind == VW__PLAYER_MOVE_OUT) != (address != VW_NULL))
            continue;
        if (move->kind == VW__PLAYER_MOVE_OUT) {
            player->addresses[slot] = VW_NULL;
            VW__TRY(vw_free(player->pool, address));
        } else {
            VW__TRY(ask_back(player, move));
        }
    }
    return VW_OK;
}

/* Up to the next move, whose turn comes before its operation. */
static vw_status play_beside_moves(vw__player *player, size_t first, size_t end, size_t *stopped)
{
    vw_status status = VW_OK;
    *stopped = first;
    while (*stopped < end && status == VW_OK) {
        status = move_blocks(player, *stopped);
        bool is_last = player->next_move == player->move_count;
        size_t next_op = is_last ? SIZE_MAX : player->moves[player->next_move].before_op;
        if (status == VW_OK)
            status = play_in_one_go(player, *stopped, next_op < end ? next_op : end, stopped);
    }
    return status;
}

vw_status vw__player_play(vw__player *player, size_t first, size_t end, size_t *stopped)
{
    if (!player->has_lag)
        return play_in_one_go(player, first, end, stopped);
    vw_status status = VW_OK;
    size_t next = first;
    while (next < end && status == VW_OK) {
        size_t next_completion = next - next % VW__PLAYER_LAG_OPS + VW__PLAYER_LAG_OPS;
        size_t part_end = next_completion < end ? next_completion : end;
        status = player->next_move < player->move_count
                     ? play_beside_moves(player, next, part_end, &next)
                     : play_in_one_go(player, next, part_end, &next);
        if (status == VW_OK && next == next_completion)
            status = complete_own_streams(player);
    }
    *stopped = next;
    return status;
}
