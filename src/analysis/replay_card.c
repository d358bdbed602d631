/* replay_card.c - the card a run stands on: without end, of a size, as recorded, or the smallest.
 *
 * As recorded. A recording of our own recorder names the limit of its pool. Others do not name the
 * card, but a recording that ran out of memory shows it (limit_evidence.h): every request that was
 * served proves that the card, or the process's limit, was at least what was reserved then plus
 * what was asked for. The refused request shows which of the two it was: it carries the free bytes
 * of the device, and if they would have been enough the process had a limit
 * (set_per_process_memory_fraction). The proven amount is taken, not the refused one: "this would
 * have fit" must not rest on memory that was never granted.
 *
 * The smallest. Whether a run completes is not monotone in the size of the card: a larger one may
 * let memory lie where a smaller one was forced to give it back in time, as anywhere in fragmented
 * memory. Bisection finds *a* boundary: a size that was run and completes, and 2 MiB less that was
 * run and does not. But whoever asks wants a card that is enough, and one a little larger to be
 * enough too. So larger ones are tried, each of the next sixteen steps, then at distances that grow
 * by half, up to what the run would reserve without a limit. Above the largest of these that does
 * not complete bisection goes on, and so on until all complete. */
#include "analysis/replay.h"

#include "analysis/limit_evidence.h"
#include "analysis/player.h"   /* VW__PLAYER_ENDLESS_BYTES */
#include "base/checked_math.h" /* vw__align_up_u64, vw__max_u64 */
#include "base/error.h"

#define CARD_STEP_BYTES (UINT64_C(2) << 20)
#define NEVER_CALLED 2.0
#define MOST_LIMITS_TRIED 64
#define STEPS_TRIED_EACH 16 /* above a boundary */

/* The most that a card reports: expandable segments reserve nine eighths of it, for each stream. */
#define MOST_TOTAL_BYTES VW__PLAYER_LARGEST_CARD_BYTES
#define MOST_LIMIT_BYTES (MOST_TOTAL_BYTES / 2)

/* ---- cards ----------------------------------------------------------------------------------- */

vw__replay_card vw__replay_card_without_end(void)
{
    return (vw__replay_card){
        .capacity_bytes = UINT64_MAX, .fraction = NEVER_CALLED, .shown_bytes = VW_UNKNOWN};
}

vw__replay_card vw__replay_card_of(uint64_t bytes)
{
    return (vw__replay_card){
        .capacity_bytes = vw__min_u64(bytes, VW__PLAYER_ENDLESS_BYTES),
        .total_bytes = bytes <= MOST_TOTAL_BYTES ? 0 : MOST_TOTAL_BYTES,
        .fraction = NEVER_CALLED,
        .shown_bytes = bytes,
    };
}

vw__replay_card vw__replay_card_with_limit(uint64_t limit_bytes)
{
    if (limit_bytes > MOST_LIMIT_BYTES)
        return vw__replay_card_of(limit_bytes);
    /* Half of twice as much is exact in the doubles of PyTorch's rule. */
    return (vw__replay_card){.capacity_bytes = UINT64_MAX,
                             .total_bytes = 2 * vw__max_u64(limit_bytes, 1),
                             .fraction = 0.5,
                             .shown_bytes = limit_bytes};
}

/* ---- as recorded ----------------------------------------------------------------------------- */

/* Garbage is collected by a share of the limit, so a limit shows in more than refusals. Between
 * what was served and what was refused, the limit under which memory is given back as recorded for
 * longest is nearest to the truth. A run that holds more than was recorded collected too late, so
 * its limit is too high: the interval is halved in that direction, until a run holds what was
 * recorded to its end. */
static vw_status narrow_by_collections(const vw__replay_work *work, vw__replay_recorded_card *card)
{
    uint64_t low_bytes = card->bytes, end_bytes = card->refused_bytes, tried_bytes = low_bytes;
    size_t best_length = 0;
    for (unsigned i = 0; i < MOST_LIMITS_TRIED && low_bytes < end_bytes; i++) {
        size_t length = 0;
        bool holds_more = false;
        VW__TRY(vw__replay_follow_length(work, vw__replay_card_with_limit(tried_bytes), &length,
                                         &holds_more));
        if (length > best_length) {
            best_length = length;
            card->is_narrowed |= tried_bytes != card->bytes;
            card->bytes = tried_bytes;
        }
        if (length == work->followed_count)
            break;
        if (holds_more)
            end_bytes = tried_bytes;
        else
            low_bytes = tried_bytes + 1;
        tried_bytes = low_bytes + (end_bytes - low_bytes) / 2;
    }
    return VW_OK;
}

vw_status vw__replay_recorded_card_find(const vw__replay_work *work, vw__replay_recorded_card *out)
{
    const vw__script *script = &work->script;
    uint64_t limit_bytes = script->model->settings.limit_bytes;
    vw__limit_evidence evidence;
    VW__TRY(vw__limit_evidence_find(script, work->torch_version,
                                    vw__replay_recorded_setting(work).conf, UINT64_MAX, &evidence));
    vw__replay_recorded_card card = {
        .is_known = evidence.has_oom,
        .is_device = evidence.is_oom_by_driver,
        .bytes = evidence.most_held_bytes,
        .refused_bytes = vw__add_capped_u64(evidence.oom_held_bytes, evidence.oom_tried_bytes),
        .device_free_bytes = evidence.oom_device_bytes,
    };
    bool collects = evidence.needs_search;
    if (card.is_device)
        card.bytes = vw__max_u64(
            card.bytes, vw__add_capped_u64(evidence.oom_held_bytes, evidence.oom_device_bytes));
    vw__limit_evidence_deinit(&evidence);
    if (limit_bytes != 0) {
        card.is_known = card.is_written = true;
        card.is_device = false;
        card.bytes = limit_bytes;
    }
    if (card.bytes == 0 || card.bytes > VW__PLAYER_ENDLESS_BYTES)
        card.is_known = false; /* no card is like that */
    if (card.is_known && !card.is_device && !card.is_written && collects &&
        work->followed_count != 0 && card.refused_bytes > card.bytes)
        VW__TRY(narrow_by_collections(work, &card));
    *out = card;
    return VW_OK;
}

vw__replay_card vw__replay_card_as_recorded(const vw__replay_recorded_card *recorded)
{
    if (!recorded->is_known)
        return vw__replay_card_without_end();
    return recorded->is_device ? vw__replay_card_of(recorded->bytes)
                               : vw__replay_card_with_limit(recorded->bytes);
}

/* ---- the smallest ---------------------------------------------------------------------------- */

typedef struct card_search {
    const vw__replay_work *work;
    vw__replay_setting setting;
    vw__replay_progress progress;
    double next_share; /* of what is left: the number of runs is not known beforehand */
} card_search;

static vw_status completes(card_search *search, vw__replay_card card, bool *is_complete,
                           uint64_t *peak_reserved_bytes)
{
    vw_replay_result result = {.policy = NULL};
    double left = search->progress.share;
    search->progress.share = left * search->next_share;
    VW__TRY(vw__replay_run(search->work, search->setting, card, true, &search->progress, &result));
    search->progress.base += search->progress.share;
    search->progress.share = left - search->progress.share;
    *is_complete = result.is_complete;
    if (peak_reserved_bytes != NULL)
        *peak_reserved_bytes = result.peak_reserved_bytes;
    return VW_OK;
}

/* `low` does not complete (or is 0), `high` does; both are multiples of the step. */
static vw_status bisect(card_search *search, uint64_t low_bytes, uint64_t high_bytes, uint64_t *out)
{
    while (high_bytes - low_bytes > CARD_STEP_BYTES) {
        uint64_t middle_bytes =
            vw__align_down_u64(low_bytes + (high_bytes - low_bytes) / 2, CARD_STEP_BYTES);
        bool is_complete = false;
        VW__TRY(completes(search, vw__replay_card_of(middle_bytes), &is_complete, NULL));
        if (is_complete)
            high_bytes = middle_bytes;
        else
            low_bytes = middle_bytes;
    }
    *out = high_bytes;
    return VW_OK;
}

/* Starts at the peak of live bytes. Less can be enough only if requests that are short of memory
 * wait for other streams, and so end frees sooner than the recording did. */
static vw_status find_low(card_search *search, uint64_t *low_bytes, uint64_t *high_bytes)
{
    uint64_t live_bytes = search->work->script.peak_live_bytes;
    bool is_complete = true;
    *low_bytes = vw__align_down_u64(live_bytes, CARD_STEP_BYTES);
    if (*low_bytes >= *high_bytes)
        *low_bytes = *high_bytes - CARD_STEP_BYTES;
    while (*low_bytes != 0) {
        VW__TRY(completes(search, vw__replay_card_of(*low_bytes), &is_complete, NULL));
        if (!is_complete)
            break;
        *high_bytes = *low_bytes;
        *low_bytes = vw__align_down_u64(*low_bytes / 4 * 3, CARD_STEP_BYTES);
    }
    return VW_OK;
}

/* The distance of the next card to be tried from the boundary, after one at `distance`. */
static uint64_t next_distance(uint64_t distance)
{
    if (distance < STEPS_TRIED_EACH * CARD_STEP_BYTES)
        return distance + CARD_STEP_BYTES;
    return vw__align_down_u64(distance + distance / 2, CARD_STEP_BYTES);
}

/* Tries cards above a boundary, up to `end`, which completes. `*low` is the largest that does not,
 * `*high` the next that was tried above it; 0 in `*low`: they all complete. */
static vw_status find_failing(card_search *search, uint64_t boundary, uint64_t end, uint64_t *low,
                              uint64_t *high)
{
    bool was_failing = false;
    *low = 0;
    for (uint64_t distance = CARD_STEP_BYTES; boundary + distance < end;
         distance = next_distance(distance)) {
        uint64_t bytes = boundary + distance;
        bool is_complete = false;
        VW__TRY(completes(search, vw__replay_card_of(bytes), &is_complete, NULL));
        if (!is_complete)
            *low = bytes;
        else if (was_failing)
            *high = bytes;
        was_failing = !is_complete;
    }
    if (was_failing)
        *high = end;
    return VW_OK;
}

/* From a boundary to the smallest card from which on all complete. */
static vw_status settle(card_search *search, uint64_t boundary, uint64_t end, uint64_t *out)
{
    for (;;) {
        uint64_t low_bytes = 0, high_bytes = 0;
        VW__TRY(find_failing(search, boundary, end, &low_bytes, &high_bytes));
        if (low_bytes == 0)
            break;
        VW__TRY(bisect(search, low_bytes, high_bytes, &boundary));
    }
    *out = boundary;
    return VW_OK;
}

vw_status vw__replay_smallest_card(const vw__replay_work *work, vw__replay_setting setting,
                                   const vw__replay_progress *progress, vw__replay_smallest *out)
{
    card_search search = {.work = work, .setting = setting, .next_share = 0.1};
    if (progress != NULL)
        search.progress = *progress;
    bool is_complete = false;
    uint64_t low_bytes = 0, high_bytes = 0;
    *out = (vw__replay_smallest){VW_UNKNOWN, VW_UNKNOWN};
    VW__TRY(completes(&search, vw__replay_card_without_end(), &is_complete, &high_bytes));
    if (!is_complete)
        return VW_OK; /* not even without end: a request that is larger than that */
    uint64_t most_bytes = 2 * high_bytes;
    high_bytes = vw__max_u64(vw__align_down_u64(high_bytes + CARD_STEP_BYTES - 1, CARD_STEP_BYTES),
                             CARD_STEP_BYTES);
    /* On a card that reports less, fewer addresses are reserved: it may take a little more. */
    for (;;) {
        VW__TRY(completes(&search, vw__replay_card_of(high_bytes), &is_complete, NULL));
        if (is_complete)
            break;
        low_bytes = high_bytes;
        high_bytes +=
            vw__max_u64(vw__align_down_u64(high_bytes / 8, CARD_STEP_BYTES), CARD_STEP_BYTES);
        if (high_bytes > most_bytes)
            return VW_OK;
    }
    uint64_t end_bytes = high_bytes;
    if (low_bytes == 0)
        VW__TRY(find_low(&search, &low_bytes, &high_bytes));
    VW__TRY(bisect(&search, low_bytes, high_bytes, &out->first_bytes));
    return settle(&search, out->first_bytes, end_bytes, &out->bytes);
}
