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
 * Why a complete free is looked for at once, and not left to the next request: two that complete in
 * the same request are then found in the order of the script, where PyTorch's own order, that of a
 * hash table, is not ours. Looking is a request for an address that nobody has.
 *
 * The script's own streams. PyTorch's rules record events on made-up streams only, and the script
 * says when those are complete. Engine "headroom" also records events where its requests are, to
 * know when a page that it moved is past its last use, and no recording says how far the device
 * lagged behind the program. It lags by up to HR__PLAYER_LAG_OPS operations here, a number chosen
 * and not measured: whenever so many were played, all that was queued before is done.
 * Engine torch has no such events, and is played in one go.
 *
 * Safe points, for engines that copy live data, are always granted: a replay has no kernels that
 * could be in the way.
 *
 * What a spill costs is taken from the simulated device's own count, between the beginning and the
 * end of its safe point: the pool measures by the clock of the machine that replays, which says
 * nothing. All host memory is made when it is needed, none ahead. */
#include "analysis/player.h"

#include <string.h>

#include "base/checked_math.h" /* hr__max_u64 */
#include "base/error.h"
#include "base/host_memory.h"

enum { NOBODYS_ADDRESS = 512, UNSETTLED_STEPS = 2 };

/* ---- beginning and end ----------------------------------------------------------------------- */

static hr_status make_tables(hr__player *player)
{
    const hr__script *script = player->script;
    player->addresses = hr__host_alloc_zeroed(script->slot_count, sizeof *player->addresses);
    player->user_streams = hr__host_alloc_zeroed(script->user_count, sizeof(uint32_t));
    player->idle_streams = hr__host_alloc_zeroed(script->user_count, sizeof(uint32_t));
    if (player->addresses == NULL || player->user_streams == NULL || player->idle_streams == NULL)
        return hr__fail_host_memory(script->slot_count * sizeof *player->addresses +
                                        2 * script->user_count * sizeof(uint32_t),
                                    "the blocks of a replay");
    return HR_OK;
}

/* Not larger than need be: the engine keeps a table of the pages that a reservation could have. */
static uint64_t large_card_bytes(const hr__script *script)
{
    if (script->peak_live_bytes >= HR__PLAYER_LARGEST_CARD_BYTES / 2)
        return HR__PLAYER_LARGEST_CARD_BYTES;
    return hr__max_u64(2 * script->peak_live_bytes, HR__PLAYER_LARGE_CARD_BYTES);
}

static hr_status make_device(hr__player *player, const hr__player_options *options)
{
    bool is_endless = options->capacity_bytes == UINT64_MAX;
    uint64_t capacity_bytes = is_endless ? HR__PLAYER_ENDLESS_BYTES : options->capacity_bytes;
    uint64_t total_bytes = options->total_bytes;
    if (total_bytes == 0)
        total_bytes = is_endless ? large_card_bytes(player->script) : capacity_bytes;
    if (capacity_bytes == 0) /* would be the device's default */
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "a card of 0 bytes: at least 1 is expected");
    const hr_simulated_options device_options = {
        .struct_size = sizeof device_options,
        .capacity_bytes = capacity_bytes,
        .total_bytes = total_bytes,
        .index = player->script->trace->device,
        .manual_streams = true,
    };
    HR__TRY(hr_simulated_device_create(&device_options, &player->device));
    player->elapsed_ns = hr_device_elapsed_counter(player->device);
    return HR_OK;
}

static hr_status make_unsplit_pools(hr__player *player, const bool *is_unsplit)
{
    const hr__script *script = player->script;
    const hr_private_options options = {.struct_size = sizeof options, .no_split = true};
    for (size_t i = 1; is_unsplit != NULL && i < script->pool_count; i++)
        if (is_unsplit[i])
            HR__TRY(hr_private_pool_retain(player->pool, script->pools[i], &options));
    return HR_OK;
}

static bool grant_safe_point(void *context)
{
    hr__player *player = context;
    player->spill.moment_ns = *player->elapsed_ns;
    return true;
}

static void end_safe_point(void *context)
{
    hr__player *player = context;
    player->spill.moment_ns = *player->elapsed_ns - player->spill.moment_ns;
}

/* Called after the end of the safe point in which it happened. */
static void note_spill(void *context, const hr_spill_report *report)
{
    hr__player *player = context;
    hr__player_spill *spill = &player->spill;
    hr_paged_stats paged = {.struct_size = sizeof paged};
    spill->has_begun = true;
    spill->wait_ns += spill->moment_ns;
    if (report->is_return) /* what comes back may have left in a step before */
        spill->resting_bytes -= hr__min_u64(spill->resting_bytes, report->moved_bytes);
    else
        spill->resting_bytes += report->moved_bytes;
    if (hr_pool_get_paged_stats(player->pool, &paged) == HR_OK) /* of this engine it cannot fail */
        spill->peak_host_bytes = hr__max_u64(spill->peak_host_bytes, paged.host_handle_bytes);
}

static hr_status make_pool(hr__player *player, const hr__player_options *options)
{
    const hr_pool_options pool_options = {
        .struct_size = sizeof pool_options,
        .engine = options->engine,
        .conf = options->conf,
        .torch_version = options->torch_version,
        .safe_point = {.enter = grant_safe_point, .leave = end_safe_point, .context = player},
        .spill_bytes = options->spill_bytes,
        .spill_listener = {.context = player, .moved = note_spill},
        .is_unlisted = true,
    };
    HR__TRY(hr_pool_create(player->device, &pool_options, &player->pool));
    player->has_lag = options->engine != NULL && strcmp(options->engine, "torch") != 0;
    if (options->fraction < 1.0)
        HR__TRY(hr_pool_set_fraction(player->pool, options->fraction));
    player->has_sink = options->sink != NULL;
    player->trims_alone = options->trims_alone || options->skips_empty_cache;
    player->skips_empty_cache = options->skips_empty_cache;
    player->advice = options->spill_bytes != 0 ? options->advice : NULL;
    if (player->has_sink)
        HR__TRY(hr_pool_set_sink(player->pool, options->sink));
    return make_unsplit_pools(player, options->is_unsplit);
}

hr_status hr__player_init(hr__player *player, const hr__script *script,
                          const hr__player_options *options)
{
    *player = (hr__player){.script = script, .listener = options->listener};
    hr_status status = make_tables(player);
    if (status == HR_OK)
        status = make_device(player, options);
    if (status == HR_OK)
        status = make_pool(player, options);
    if (status != HR_OK)
        hr__player_deinit(player);
    return status;
}

void hr__player_deinit(hr__player *player)
{
    hr_pool_destroy(player->pool);
    hr_device_destroy(player->device);
    hr__host_free(player->addresses);
    hr__host_free(player->user_streams);
    hr__host_free(player->idle_streams);
    *player = (hr__player){.script = NULL};
}

/* ---- streams --------------------------------------------------------------------------------- */

static hr_status free_later(hr__player *player, const hr__script_op *op)
{
    hr_device_ptr address = player->addresses[op->slot];
    uint32_t number = player->idle_stream_count != 0
                          ? player->idle_streams[player->idle_stream_count - 1]
                          : player->stream_count;
    HR__TRY(hr_record_stream(player->pool, address, HR__FIRST_USER_STREAM + number));
    player->user_streams[op->user] = number;
    if (player->idle_stream_count != 0)
        player->idle_stream_count--;
    else
        player->stream_count++;
    player->addresses[op->slot] = HR_NULL;
    return hr_free(player->pool, address);
}

/* Lets the pool see which streams are done: a request for nobody's address does only that. */
static hr_status look_at_streams(hr__player *player)
{
    hr_device_ptr nowhere = HR_NULL;
    const hr_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = 1, .at = NOBODYS_ADDRESS};
    hr_status status = hr_alloc_with(player->pool, &request, &nowhere);
    HR_ASSERT(status != HR_OK);
    return status == HR_ERR_OUT_OF_MEMORY ? HR_OK : status;
}

static hr_status complete(hr__player *player, const hr__script_op *op)
{
    uint32_t number = player->user_streams[op->user];
    HR__TRY(hr_device_complete(player->device, HR__FIRST_USER_STREAM + number));
    HR__TRY(look_at_streams(player));
    if (player->idle_stream_count < player->script->user_count)
        player->idle_streams[player->idle_stream_count++] = number;
    return HR_OK;
}

static hr_status complete_own_streams(hr__player *player)
{
    const hr__model *model = player->script->model;
    for (size_t i = 0; i < model->stream_count; i++)
        HR__TRY(hr_device_complete(player->device, model->streams[i]));
    return HR_OK;
}

/* ---- other rare operations ------------------------------------------------------------------- */

static void note_stall(hr__player *player, uint64_t stall_ns)
{
    if (stall_ns > player->longest_stall_ns)
        player->longest_stall_ns = stall_ns;
}

static hr_status leave_scope(hr__player *player)
{
    uint16_t left = player->scope;
    player->scope = HR__DEFAULT_POOL;
    return left == HR__DEFAULT_POOL
               ? HR_OK
               : hr_private_pool_end(player->pool, player->script->pools[left]);
}

static hr_status enter_scope(hr__player *player, uint16_t pool)
{
    if (pool == player->scope)
        return HR_OK;
    HR__TRY(leave_scope(player));
    if (pool == HR__DEFAULT_POOL)
        return HR_OK;
    HR__TRY(hr_private_pool_begin(player->pool, player->script->pools[pool], NULL, NULL));
    player->scope = pool;
    return HR_OK;
}

/* Every scope that was entered counts as a use of its pool. */
static hr_status release_private_pool(hr__player *player, uint16_t pool)
{
    hr_private_id id = player->script->pools[pool];
    if (pool == player->scope)
        HR__TRY(leave_scope(player));
    while (hr_private_pool_use_count(player->pool, id) > 0)
        HR__TRY(hr_private_pool_release(player->pool, id));
    return HR_OK;
}

static hr_status trim(hr__player *player, uint16_t pool)
{
    if (pool == HR__DEFAULT_POOL && player->skips_empty_cache)
        return HR_OK;
    return pool == HR__DEFAULT_POOL || !player->trims_alone
               ? hr_pool_trim(player->pool)
               : hr_private_pool_trim(player->pool, player->script->pools[pool]);
}

static hr_status try_again(hr__player *player, const hr__script_op *op)
{
    hr_device_ptr address = HR_NULL;
    hr_stream stream = player->script->model->streams[op->stream];
    HR__TRY(hr_alloc(player->pool, op->size_bytes, stream, &address));
    player->served_oom_count++;
    return hr_free(player->pool, address);
}

static hr_status take_snapshot(hr__player *player)
{
    const hr_walker nobody = {.context = NULL};
    return player->has_sink ? hr_pool_walk(player->pool, &nobody, true) : HR_OK;
}

static __attribute__((noinline)) hr_status play_rare(hr__player *player, const hr__script_op *op)
{
    switch ((hr__script_kind)op->kind) {
    case HR__SCRIPT_FREE_LATER:
        return free_later(player, op);
    case HR__SCRIPT_COMPLETE:
        return complete(player, op);
    case HR__SCRIPT_OOM:
        return try_again(player, op);
    case HR__SCRIPT_TRIM:
        return trim(player, op->pool);
    case HR__SCRIPT_SNAPSHOT:
        return take_snapshot(player);
    case HR__SCRIPT_SCOPE:
        return enter_scope(player, op->pool);
    case HR__SCRIPT_RELEASE:
        return release_private_pool(player, op->pool);
    case HR__SCRIPT_ALLOC:
    case HR__SCRIPT_FREE:
        break;
    }
    return hr__fail(HR_ERR_INVALID_ARGUMENT, "operation %u of a script is of no kind",
                    (unsigned)op->kind);
}

hr_status hr__player_trim(hr__player *player)
{
    uint64_t before_ns = *player->elapsed_ns;
    hr_status status = hr_pool_trim(player->pool);
    note_stall(player, *player->elapsed_ns - before_ns);
    return status;
}

static void count_step(hr__player_spill *spill)
{
    if (!spill->is_settled && spill->step_count == UNSETTLED_STEPS) {
        spill->sum_touched_bytes = spill->sum_wait_ns = spill->step_count = 0;
        spill->is_settled = true; /* there is another: it and those that follow count */
    }
    spill->sum_touched_bytes += spill->resting_bytes;
    spill->sum_wait_ns += spill->wait_ns - spill->step_from_ns;
    spill->step_count++;
}

hr_status hr__player_mark_step(hr__player *player)
{
    hr__player_spill *spill = &player->spill;
    hr_paged_stats paged = {.struct_size = sizeof paged};
    uint64_t before_ns = *player->elapsed_ns;
    if (spill->has_begun) /* in the step that ended, or one before */
        count_step(spill);
    HR__TRY(hr_pool_mark_step(player->pool));
    note_stall(player, *player->elapsed_ns - before_ns);
    if (spill->has_begun)
        HR__TRY(hr_pool_get_paged_stats(player->pool, &paged));
    spill->resting_bytes = paged.spilled_bytes;
    spill->step_from_ns = spill->wait_ns;
    return HR_OK;
}

/* ---- playing --------------------------------------------------------------------------------- */

static hr_status play_in_one_go(hr__player *player, size_t first, size_t end, size_t *stopped)
{
    const hr__script_op *ops = player->script->ops;
    const hr_stream *streams = player->script->model->streams;
    hr_device_ptr *addresses = player->addresses;
    const uint8_t *advice = player->advice;
    uint64_t elapsed_ns = *player->elapsed_ns;
    hr_status status = HR_OK;
    size_t i = first;
    for (; i < end; i++) {
        const hr__script_op *op = &ops[i];
        if (op->kind == HR__SCRIPT_ALLOC) {
            HR_ASSERT(addresses[op->slot] == HR_NULL);
            status =
                hr_alloc(player->pool, op->size_bytes, streams[op->stream], &addresses[op->slot]);
            if (advice != NULL && advice[i] != HR_ADVISE_NORMAL && status == HR_OK)
                status = hr_advise(player->pool, addresses[op->slot], (hr_advice)advice[i]);
        } else if (op->kind == HR__SCRIPT_FREE) {
            hr_device_ptr address = addresses[op->slot];
            addresses[op->slot] = HR_NULL;
            status = hr_free(player->pool, address);
        } else {
            status = play_rare(player, op);
        }
        if (*player->elapsed_ns != elapsed_ns) { /* the device was called */
            note_stall(player, *player->elapsed_ns - elapsed_ns);
            elapsed_ns = *player->elapsed_ns;
            if (player->listener.device_called != NULL)
                player->listener.device_called(player->listener.context, i);
        }
        if (__builtin_expect(status != HR_OK, 0))
            break;
    }
    *stopped = i;
    return status;
}

hr_status hr__player_play(hr__player *player, size_t first, size_t end, size_t *stopped)
{
    if (!player->has_lag)
        return play_in_one_go(player, first, end, stopped);
    hr_status status = HR_OK;
    size_t next = first;
    while (next < end && status == HR_OK) {
        size_t next_completion = next - next % HR__PLAYER_LAG_OPS + HR__PLAYER_LAG_OPS;
        size_t part_end = next_completion < end ? next_completion : end;
        status = play_in_one_go(player, next, part_end, &next);
        if (status == HR_OK && next == next_completion)
            status = complete_own_streams(player);
    }
    *stopped = next;
    return status;
}
