/* what_if.c - adding live bytes up again, at other sizes.
 *
 * The line of live bytes changes where a lifetime begins or ends. Those changes are put in order of
 * their instants by counting (an instant has one or two, and there are as many instants as events),
 * once for a run. A pass then walks them and keeps one sum for each question; a sum is looked at
 * after the last change of an instant, as the timeline does.
 *
 * A block's scaled size is cut to whole bytes, and the same number is taken off at its end, so sums
 * never drift. None exceeds the unscaled one, which the timeline keeps below 2^62.
 *
 * What we did not do: keep a line for each portion and combine them. Ten lines of 660,000
 * instants are 53 MB that are read once for each question; the order of changes is a tenth of it.
 */
#include "analysis/what_if.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

enum { WHOLE_PERMILLE = 1000 };

vw__what_if vw__what_if_nothing(void)
{
    vw__what_if change = {.added_bytes = 0};
    for (size_t i = 0; i < VW__PORTION_COUNT; i++)
        change.kept_permille[i] = WHOLE_PERMILLE;
    return change;
}

/* ---- the order of changes -------------------------------------------------------------------- */

/* How many changes each instant has, in `counts` at the instant + 1. */
static void count_changes(const vw__what_if_run *run, size_t *counts)
{
    const vw__timeline *timeline = run->timeline;
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &timeline->lifetimes[i];
        if (lifetime->begin <= run->last_instant)
            counts[(size_t)lifetime->begin + 1]++;
        if (lifetime->end <= run->last_instant)
            counts[(size_t)lifetime->end + 1]++;
    }
}

/* `places` says where the next change of each instant goes. */
static void place_changes(vw__what_if_run *run, size_t *places)
{
    const vw__timeline *timeline = run->timeline;
    for (size_t i = 0; i < timeline->lifetime_count; i++) {
        const vw__lifetime *lifetime = &timeline->lifetimes[i];
        if (lifetime->begin <= run->last_instant)
            run->changes[places[lifetime->begin]++] = 2 * i;
        if (lifetime->end <= run->last_instant)
            run->changes[places[lifetime->end]++] = 2 * i + 1;
    }
}

vw_status vw__what_if_prepare(vw__what_if_run *run)
{
    size_t event_count = run->timeline->trace->event_count;
    if (run->last_instant > event_count)
        run->last_instant = (uint32_t)event_count; /* the timeline has fewer than 2^32 - 2 */

    size_t instant_count = (size_t)run->last_instant + 1;
    size_t *places = vw__host_alloc_zeroed(instant_count + 1, sizeof *places);
    if (places == NULL)
        return vw__fail_host_memory(instant_count * sizeof *places, "the instants of a trace");
    count_changes(run, places);
    for (size_t i = 1; i <= instant_count; i++)
        places[i] += places[i - 1];
    run->change_count = places[instant_count];
    run->changes = vw__host_alloc(run->change_count * sizeof *run->changes);
    if (run->changes != NULL)
        place_changes(run, places);
    vw__host_free(places);
    if (run->changes == NULL)
        return vw__fail_host_memory(run->change_count * sizeof *run->changes,
                                    "the changes of live bytes");
    return VW_OK;
}

void vw__what_if_deinit(vw__what_if_run *run)
{
    vw__host_free(run->changes);
    memset(run, 0, sizeof *run);
}

/* ---- questions ------------------------------------------------------------------------------- */

/* Divides first: the product may not fit. */
static uint64_t scaled_bytes(uint64_t size_bytes, uint16_t permille)
{
    return size_bytes / WHOLE_PERMILLE * permille +
           size_bytes % WHOLE_PERMILLE * permille / WHOLE_PERMILLE;
}

/* An instant is over: its sums may be peaks. */
static void look(const uint64_t *live_bytes, size_t count, uint32_t instant,
                 vw__what_if_peak *peaks)
{
    for (size_t i = 0; i < count; i++)
        if (live_bytes[i] > peaks[i].bytes)
            peaks[i] = (vw__what_if_peak){live_bytes[i], instant};
}

static void walk_changes(const vw__what_if_run *run, const vw__what_if *questions, size_t count,
                         uint64_t *live_bytes, vw__what_if_peak *peaks)
{
    uint32_t instant = 0;
    for (size_t c = 0; c < run->change_count; c++) {
        size_t place = run->changes[c] / 2;
        bool is_end = run->changes[c] % 2 != 0;
        const vw__lifetime *lifetime = &run->timeline->lifetimes[place];
        uint8_t portion = run->portion_of[place];
        uint32_t own_instant = is_end ? lifetime->end : lifetime->begin;
        if (own_instant != instant)
            look(live_bytes, count, instant, peaks);
        instant = own_instant;
        for (size_t i = 0; i < count; i++) {
            uint64_t scaled =
                scaled_bytes(lifetime->size_bytes, questions[i].kept_permille[portion]);
            live_bytes[i] = is_end ? live_bytes[i] - scaled : live_bytes[i] + scaled;
        }
    }
    look(live_bytes, count, instant, peaks);
}

/* The request comes on top of what is live at the last instant; so does what a change adds, at all
 * instants. */
static void add_the_rest(const vw__what_if_run *run, const vw__what_if *questions, size_t count,
                         uint64_t *live_bytes, vw__what_if_peak *peaks)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t permille = questions[i].kept_permille[run->request_portion];
        uint64_t request_bytes = scaled_bytes(run->request_bytes, permille);
        if (!vw__add_u64(live_bytes[i], request_bytes, &live_bytes[i]))
            live_bytes[i] = UINT64_MAX;
    }
    if (run->request_bytes != 0)
        look(live_bytes, count, run->last_instant, peaks);
    for (size_t i = 0; i < count; i++)
        if (!vw__add_u64(peaks[i].bytes, questions[i].added_bytes, &peaks[i].bytes))
            peaks[i].bytes = UINT64_MAX;
}

vw_status vw__what_if_ask(const vw__what_if_run *run, const vw__what_if *questions, size_t count,
                          vw__what_if_peak *peaks)
{
    uint64_t *live_bytes = vw__host_alloc_zeroed(count, sizeof *live_bytes);
    if (live_bytes == NULL)
        return vw__fail_host_memory(count * sizeof *live_bytes, "the peaks of changed runs");
    memset(peaks, 0, count * sizeof *peaks);
    walk_changes(run, questions, count, live_bytes, peaks);
    add_the_rest(run, questions, count, live_bytes, peaks);
    vw__host_free(live_bytes);
    return VW_OK;
}
