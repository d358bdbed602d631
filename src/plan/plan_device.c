/* plan_device.c - what a process takes of a card, and the largest batch that fits it. */
#include "plan/plan_device.h"

#include "analysis/player.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "plan/plan_model.h"
#include "plan/plan_settings.h"
#include "settings/setting_table.h"

/* ---- by rules of thumb ----------------------------------------------------------------------- */

/* CUDA's context and the kernels of one training step: 527 MiB were measured on an H200 with
 * PyTorch 2.11; reports for other cards have 0.4 to 0.6 GiB (unsloth-zoo PR 1053: 426 MiB;
 * ml-engineering: 0.47 GiB on an A100). */
#define CUDA_BYTES (UINT64_C(527) << 20)

/* NCCL's channels, from the first collective on: 1.45 GiB on 2 GPUs (ml-engineering,
 * training/performance), 1.06 GB on 8 H100 (nccl#1685). It grows with channels; we plan with
 * the higher of the two. */
#define NCCL_BYTES (UINT64_C(1485) << 20)

/* What PyTorch's allocator holds and cannot use on a full card: it gives unused segments back, but
 * not the ends of used ones. 3 % is usual for steps that are all alike. */
#define UNUSABLE_PERCENT 3

/* A prediction that nobody has measured. */
#define UNMEASURED_ERROR 0.03

uint64_t vw_plan_card_context_bytes(void)
{
    return CUDA_BYTES;
}

uint64_t vw__plan_context_bytes(const vw_plan_settings *settings)
{
    return CUDA_BYTES + (settings->gpus > 1 ? NCCL_BYTES : 0);
}

uint64_t vw__plan_device_bytes(uint64_t peak_allocated_bytes, const vw_plan_settings *settings)
{
    uint64_t sum;
    if (!vw__add_u64(peak_allocated_bytes, peak_allocated_bytes / 100 * UNUSABLE_PERCENT, &sum) ||
        !vw__add_u64(sum, vw__plan_context_bytes(settings), &sum))
        return UINT64_MAX;
    return sum;
}

uint64_t vw__plan_resident_bytes(uint64_t pageable_bytes, uint64_t used_bytes,
                                 const vw_plan_settings *settings)
{
    const uint64_t card_bytes = settings->card_bytes == 0 ? UINT64_MAX : settings->card_bytes;
    const uint64_t room = card_bytes > used_bytes ? card_bytes - used_bytes : 0;
    return pageable_bytes < room ? pageable_bytes : room;
}

uint64_t vw__plan_device_bytes_at_worst(uint64_t peak_allocated_bytes,
                                        const vw_plan_settings *settings, vw__plan_error_band band)
{
    double lowest = band.case_count > 0 ? band.low : -UNMEASURED_ERROR;
    double missing = lowest < 0 ? -lowest / (1 + lowest) : 0; /* measured / predicted - 1 */
    uint64_t more = peak_allocated_bytes > UINT64_MAX / 4
                        ? UINT64_MAX / 4
                        : (uint64_t)((double)peak_allocated_bytes * missing);
    uint64_t sum;
    if (!vw__add_u64(peak_allocated_bytes, more, &sum))
        return UINT64_MAX;
    return vw__plan_device_bytes(sum, settings);
}

/* ---- by replay ------------------------------------------------------------------------------- */

/* An operation of a plan gets this part of the time that one of a recording has, which is several
 * times what steps of real models take. A config of thousands of layers can make much larger ones.
 */
enum { PART_OF_TIME = 32, OPS_BETWEEN_LOOKS = 1 << 10 };

static vw_status play_part(vw__player *player, size_t first, size_t end,
                           const vw__player_time *time)
{
    while (first < end) {
        size_t part_end = end - first > OPS_BETWEEN_LOOKS ? first + OPS_BETWEEN_LOOKS : end;
        size_t stopped;
        VW__TRY(vw__player_play(player, first, part_end, &stopped));
        VW__TRY(vw__player_time_check(time));
        first = part_end;
    }
    return VW_OK;
}

/* Plays everything; peaks of live bytes are those of the last step. */
static vw_status play(vw__player *player, const vw__plan_events *events, vw_pool_stats *stats)
{
    const vw__player_time time = vw__player_time_begin(events->script.op_count / PART_OF_TIME);
    size_t last_step = events->steps[events->step_count - 1].begin;
    VW__TRY(play_part(player, 0, last_step, &time));
    VW__TRY(vw_pool_get_stats(player->pool, stats));
    int64_t reserved_before = stats->reserved_bytes.all.peak;
    VW__TRY(vw_pool_reset_peaks(player->pool));
    VW__TRY(play_part(player, last_step, events->script.op_count, &time));
    VW__TRY(vw_pool_get_stats(player->pool, stats));
    if (reserved_before > stats->reserved_bytes.all.peak)
        stats->reserved_bytes.all.peak = reserved_before;
    return VW_OK;
}

static vw_status replay_one(const vw__plan_events *events, const vw__player_options *options,
                            uint64_t *reserved_bytes, uint64_t *allocated_bytes)
{
    vw__player player;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    VW__TRY(vw__player_init(&player, &events->script, options));
    vw_status status = play(&player, events, &stats);
    vw__player_deinit(&player);
    bool is_too_much = status == VW_ERR_OUT_OF_MEMORY || status == VW_ERR_TOO_LARGE ||
                       status == VW_ERR_UNSUPPORTED; /* it took too long */
    if (status != VW_OK && !is_too_much)
        return status;
    *reserved_bytes = is_too_much ? VW_UNKNOWN : (uint64_t)stats.reserved_bytes.all.peak;
    *allocated_bytes = is_too_much ? VW_UNKNOWN : (uint64_t)stats.allocated_bytes.all.peak;
    return VW_OK;
}

vw_status vw__plan_replay_events(const vw__plan_events *events, vw__plan_replayed *out)
{
    vw__plan_replayed made;
    for (size_t i = VW__PLAN_POLICIES; i-- > 0;) { /* native last: its peak stays */
        vw__replay_setting setting = vw__setting_of(vw__setting_row_for(VW__SETTING_FOR_PLAN, i));
        const vw__player_options endless = {.engine = setting.engine,
                                            .conf = setting.conf,
                                            .capacity_bytes = UINT64_MAX,
                                            .fraction = 2.0};
        VW__TRY(replay_one(events, &endless, &made.reserved_bytes[i], &made.peak_allocated_bytes));
    }
    *out = made;
    return VW_OK;
}

vw_status vw__plan_replay_on_card(const vw__plan_events *events, uint64_t capacity_bytes,
                                  bool completes[VW__PLAN_POLICIES])
{
    for (size_t i = 0; i < VW__PLAN_POLICIES; i++) {
        vw__replay_setting setting = vw__setting_of(vw__setting_row_for(VW__SETTING_FOR_PLAN, i));
        const vw__player_options options = {.engine = setting.engine,
                                            .conf = setting.conf,
                                            .capacity_bytes = capacity_bytes,
                                            .fraction = 1.0};
        uint64_t reserved_bytes, allocated_bytes;
        VW__TRY(replay_one(events, &options, &reserved_bytes, &allocated_bytes));
        completes[i] = reserved_bytes != VW_UNKNOWN;
    }
    return VW_OK;
}

/* ---- by running a step ----------------------------------------------------------------------- */

vw_status vw__plan_try(const vw_plan_model *model, const vw_plan_settings *settings,
                       vw__plan_trial *out)
{
    vw__plan_peaks peaks;
    vw_status status = vw__plan_estimate(model, settings, &peaks);
    if (status == VW_ERR_UNSUPPORTED) { /* more than an address space */
        *out = (vw__plan_trial){UINT64_MAX, UINT64_MAX, UINT64_MAX};
        return VW_OK;
    }
    if (status != VW_OK)
        return status;
    vw__plan_error_band band = vw__plan_error_band_of(model, settings);
    uint64_t peak_bytes = peaks.peak.live_bytes;
    out->peak_allocated_bytes = peak_bytes;
    out->device_bytes = vw__plan_device_bytes(peak_bytes, settings);
    out->device_bytes += vw__plan_resident_bytes(peaks.pageable_bytes, out->device_bytes, settings);
    out->worst_bytes = vw__plan_device_bytes_at_worst(peak_bytes, settings, band);
    return VW_OK;
}

/* ---- the largest batch ----------------------------------------------------------------------- */

/* What a step needs grows almost in a straight line. So the search doubles until a batch does not
 * fit, then looks where the line between the two ends crosses the card's size, and halves where
 * that does not get it nearer. */
typedef struct bracket {
    vw__plan_need need;
    void *context;
    uint64_t card_bytes;
    uint64_t low, high; /* fits (0 always does); does not fit (0: none found yet) */
    uint64_t low_bytes, high_bytes;
} bracket;

static vw_status try_batch(bracket *b, uint64_t batch)
{
    uint64_t bytes;
    VW__TRY(b->need(b->context, batch, &bytes));
    bool fits = bytes <= b->card_bytes;
    *(fits ? &b->low : &b->high) = batch;
    *(fits ? &b->low_bytes : &b->high_bytes) = bytes;
    return VW_OK;
}

/* A batch strictly between both ends: where the line between them reaches the card's size. */
static uint64_t crossing(const bracket *b)
{
    double share = (double)(b->card_bytes - b->low_bytes) / (double)(b->high_bytes - b->low_bytes);
    uint64_t guess = b->low + (uint64_t)(share * (double)(b->high - b->low));
    if (guess <= b->low)
        return b->low + 1;
    return guess < b->high ? guess : b->high - 1;
}

static vw_status close_in(bracket *b)
{
    bool is_halving = b->low == 0; /* what batch 0 needs is unknown */
    while (b->high - b->low > 1) {
        uint64_t before = b->high - b->low;
        uint64_t batch = is_halving ? b->low + before / 2 : crossing(b);
        VW__TRY(try_batch(b, batch));
        if (b->low == 0 || b->high_bytes == UINT64_MAX) {
            is_halving = true;
            continue;
        }
        /* The crossing is often the answer itself: its neighbour then settles it. */
        if (!is_halving && b->high - b->low > 1 && batch == b->low)
            VW__TRY(try_batch(b, b->low + 1));
        is_halving = b->high - b->low > before / 2;
    }
    return VW_OK;
}

vw_status vw__plan_largest_that_fits(vw__plan_need need, void *context, uint64_t first,
                                     uint64_t most, uint64_t card_bytes, uint64_t *out)
{
    bracket b = {.need = need, .context = context, .card_bytes = card_bytes};
    VW__TRY(try_batch(&b, first));
    while (b.high == 0 && b.low < most)
        VW__TRY(try_batch(&b, b.low > most / 2 ? most : 2 * b.low));
    if (b.high != 0)
        VW__TRY(close_in(&b));
    *out = b.low;
    return VW_OK;
}

typedef struct batch_question {
    const vw_plan_model *model;
    vw_plan_settings settings;
} batch_question;

static vw_status need_of_batch(void *context, uint64_t batch, uint64_t *need_bytes)
{
    batch_question *asked = context;
    vw__plan_trial trial;
    asked->settings.batch = batch;
    VW__TRY(vw__plan_try(asked->model, &asked->settings, &trial));
    *need_bytes = trial.worst_bytes;
    return VW_OK;
}

vw_status vw__plan_largest_batch(const vw_plan_model *model, const vw_plan_settings *settings,
                                 uint64_t *out)
{
    batch_question asked = {.model = model, .settings = *settings};
    return vw__plan_largest_that_fits(need_of_batch, &asked, settings->batch, VW__PLAN_MOST_BATCH,
                                      settings->card_bytes, out);
}
