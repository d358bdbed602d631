/* largest_batch.c - one way tried, and the largest batch found by trying few.
 *
 * What a step needs never falls as its batch grows, and grows almost in a straight line. So the
 * search doubles until a batch does not fit, then looks where the line between the two ends crosses
 * the card's size, and halves where that does not get it nearer. */
#include "vramwise/plan.h"

#include "base/error.h"
#include "plan/error_bands.h"
#include "plan/plan_device.h"
#include "plan/plan_model.h"
#include "plan/plan_run.h"
#include "plan/search.h"
#include "plan/settings_check.h"

vw_status vw__try(const vw_plan_model *model, const vw_plan_settings *settings, vw__trial *out)
{
    vw__plan_peaks peaks;
    vw_status status = vw__plan_estimate(model, settings, &peaks);
    if (status == VW_ERR_UNSUPPORTED) { /* more than an address space */
        *out = (vw__trial){UINT64_MAX, UINT64_MAX, UINT64_MAX};
        return VW_OK;
    }
    if (status != VW_OK)
        return status;
    vw__error_band band = vw__error_band_of(model->family->name, settings);
    uint64_t peak_bytes = peaks.peak.live_bytes;
    out->peak_allocated_bytes = peak_bytes;
    out->device_bytes = vw__device_bytes(peak_bytes, settings);
    out->device_bytes += vw__resident_bytes(peaks.pageable_bytes, out->device_bytes, settings);
    out->worst_bytes = vw__device_bytes_at_worst(peak_bytes, settings, band);
    return VW_OK;
}

/* A batch that fits, one that does not, and what they need. */
typedef struct bracket {
    const vw_plan_model *model;
    vw_plan_settings settings;
    uint64_t low, high; /* 0: fits by definition; high 0: none known */
    uint64_t low_bytes, high_bytes;
} bracket;

static vw_status try_batch(bracket *b, uint64_t batch)
{
    vw__trial trial;
    b->settings.batch = batch;
    VW__TRY(vw__try(b->model, &b->settings, &trial));
    if (trial.worst_bytes <= b->settings.card_bytes) {
        b->low = batch;
        b->low_bytes = trial.worst_bytes;
    } else {
        b->high = batch;
        b->high_bytes = trial.worst_bytes;
    }
    return VW_OK;
}

/* Where the line between the two ends reaches the card's size; a batch strictly between them. */
static uint64_t crossing(const bracket *b)
{
    double share =
        (double)(b->settings.card_bytes - b->low_bytes) / (double)(b->high_bytes - b->low_bytes);
    uint64_t guess = b->low + (uint64_t)(share * (double)(b->high - b->low));
    if (guess <= b->low)
        return b->low + 1;
    return guess < b->high ? guess : b->high - 1;
}

static vw_status close_in(bracket *b)
{
    bool is_halving = b->low == 0; /* nothing is known of a batch of none */
    while (b->high - b->low > 1) {
        uint64_t before = b->high - b->low;
        VW__TRY(try_batch(b, is_halving ? b->low + before / 2 : crossing(b)));
        if (b->low == 0 || b->high_bytes == UINT64_MAX) {
            is_halving = true;
            continue;
        }
        /* The crossing is often the answer itself: its neighbour then settles it. */
        if (!is_halving && b->high - b->low > 1 && b->settings.batch == b->low)
            VW__TRY(try_batch(b, b->low + 1));
        is_halving = b->high - b->low > before / 2;
    }
    return VW_OK;
}

vw_status vw__largest_batch(const vw_plan_model *model, const vw_plan_settings *settings,
                            uint64_t *out)
{
    bracket b = {.model = model, .settings = *settings};
    VW__TRY(try_batch(&b, settings->batch));
    while (b.high == 0 && b.low < VW__MOST_BATCH) {
        uint64_t next = b.low > VW__MOST_BATCH / 2 ? VW__MOST_BATCH : 2 * b.low;
        VW__TRY(try_batch(&b, next));
    }
    if (b.high != 0)
        VW__TRY(close_in(&b));
    *out = b.low;
    return VW_OK;
}
