/* rank_differences.c - see rank_differences.h. */
#include "ranks/rank_differences.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "vramwise/units.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "ranks/rank_spread.h"

/* ---- lines of the program -------------------------------------------------------------------- */

/* What one rank holds at one line. */
typedef struct holding {
    uint32_t site;
    uint32_t place; /* of the rank among those with a recording */
    uint64_t bytes;
} holding;

typedef struct site_work {
    const vw__account **holders; /* the ranks with a recording */
    size_t holder_count;
    holding *holdings; /* by line, then by rank */
    size_t holding_count;
    uint64_t *values, *sorted; /* holder_count each */
    vw__byte_buffer found;     /* vw_rank_site */
} site_work;

static int compare_holdings(const void *left, const void *right)
{
    const holding *one = left, *other = right;
    if (one->site != other->site)
        return one->site < other->site ? -1 : 1;
    return (one->place > other->place) - (one->place < other->place);
}

static uint64_t difference_of(const vw_rank_site *site)
{
    return site->bytes > site->median_bytes ? site->bytes - site->median_bytes
                                            : site->median_bytes - site->bytes;
}

static int compare_frames(const vw_frame *one, const vw_frame *other)
{
    if (one == NULL || other == NULL)
        return (one == NULL) - (other == NULL);
    int order = strcmp(one->file, other->file);
    if (order == 0 && one->line != other->line)
        order = one->line < other->line ? -1 : 1;
    return order != 0 ? order : strcmp(one->function, other->function);
}

/* Largest difference first; then by rank and place, so that the order is always the same. */
static int compare_sites(const void *left, const void *right)
{
    const vw_rank_site *one = left, *other = right;
    uint64_t one_difference = difference_of(one), other_difference = difference_of(other);
    if (one_difference != other_difference)
        return one_difference < other_difference ? 1 : -1;
    if (one->rank != other->rank)
        return one->rank < other->rank ? -1 : 1;
    int order = compare_frames(one->where, other->where);
    return order != 0 ? order : strcmp(one->category, other->category);
}

static vw_status gather_holdings(vw__ranks_work *work, const vw__account *const *mains,
                                 site_work *at)
{
    size_t rank_count = work->report->rank_count, most = 0;
    for (size_t i = 0; i < rank_count; i++)
        most += mains[i] != NULL ? mains[i]->site_count : 0;
    at->holders = vw__host_alloc_zeroed(rank_count, sizeof(vw__account *));
    at->holdings = vw__host_alloc_zeroed(most, sizeof *at->holdings);
    at->values = vw__host_alloc_zeroed(rank_count, sizeof *at->values);
    at->sorted = vw__host_alloc_zeroed(rank_count, sizeof *at->sorted);
    if (at->holders == NULL || at->holdings == NULL || at->values == NULL || at->sorted == NULL)
        return vw__fail_host_memory(most * sizeof *at->holdings, "what the ranks hold");
    for (size_t i = 0; i < rank_count; i++) {
        if (mains[i] == NULL || mains[i]->shown.basis == VW_RANK_BASIS_NONE)
            continue;
        for (size_t k = 0; k < mains[i]->site_count; k++)
            at->holdings[at->holding_count++] = (holding){
                mains[i]->sites[k].site, (uint32_t)at->holder_count, mains[i]->sites[k].bytes};
        at->holders[at->holder_count++] = mains[i];
    }
    qsort(at->holdings, at->holding_count, sizeof *at->holdings, compare_holdings);
    return VW_OK;
}

/* The holdings of one line, `count` of them. */
static void compare_site(const vw__ranks_work *work, site_work *at, const holding *first,
                         size_t count)
{
    const vw__site *site = &work->sites.sites[first->site];
    memset(at->values, 0, at->holder_count * sizeof *at->values);
    for (size_t i = 0; i < count; i++)
        at->values[first[i].place] = first[i].bytes;
    memcpy(at->sorted, at->values, at->holder_count * sizeof *at->values);
    vw__spread spread =
        vw__spread_of(at->sorted, at->holder_count,
                      VW__SPREAD_OF_SITES(work->report->medians[VW_RANK_PEAK_LIVE]));
    for (size_t i = 0; i < at->holder_count; i++) {
        if (!vw__is_out_of_line(&spread, at->values[i]))
            continue;
        const vw_rank_site found = {.where = site->where,
                                    .category = site->category,
                                    .rank = at->holders[i]->shown.rank,
                                    .bytes = at->values[i],
                                    .median_bytes = spread.median};
        vw__append_bytes(&at->found, &found, sizeof found);
    }
}

static vw_status keep_sites(vw__ranks_work *work, site_work *at)
{
    vw_ranks_report *report = work->report;
    size_t size_bytes = vw__byte_buffer_size(&at->found);
    size_t count = size_bytes / sizeof(vw_rank_site);
    vw_rank_site *sites =
        vw__arena_alloc_array(work->arena, count, sizeof *sites, _Alignof(vw_rank_site));
    if (sites == NULL || vw__byte_buffer_has_failed(&at->found))
        return vw__fail_host_memory(size_bytes, "where the ranks differ");
    if (count > 0) {
        memcpy(sites, vw__byte_buffer_text(&at->found), size_bytes);
        qsort(sites, count, sizeof *sites, compare_sites);
    }
    report->sites = sites;
    report->site_count = count;
    return VW_OK;
}

static vw_status compare_all_sites(vw__ranks_work *work, const vw__account *const *mains,
                                   site_work *at)
{
    VW__TRY(gather_holdings(work, mains, at));
    for (size_t begin = 0; begin < at->holding_count && at->holder_count > 1;) {
        size_t end = begin + 1;
        while (end < at->holding_count && at->holdings[end].site == at->holdings[begin].site)
            end++;
        compare_site(work, at, &at->holdings[begin], end - begin);
        begin = end;
    }
    return keep_sites(work, at);
}

vw_status vw__rank_sites_compare(vw__ranks_work *work, const vw__account *const *mains)
{
    site_work at = {.holders = NULL};
    vw__byte_buffer_init(&at.found);
    vw_status status = compare_all_sites(work, mains, &at);
    vw__byte_buffer_deinit(&at.found);
    vw__host_free(at.sorted);
    vw__host_free(at.values);
    vw__host_free(at.holdings);
    vw__host_free(at.holders);
    return status;
}

/* ---- settings -------------------------------------------------------------------------------- */

static int compare_settings(const void *left, const void *right)
{
    const vw_rank_setting *one = left, *other = right;
    int order = strcmp(one->key, other->key);
    if (order == 0)
        order = strcmp(one->value, other->value);
    return order != 0 ? order : (one->rank > other->rank) - (one->rank < other->rank);
}

/* How many from `begin` on have the same key; with `has_value`, the same value too. */
static size_t run_length(const vw_rank_setting *settings, size_t begin, size_t count,
                         bool has_value)
{
    size_t end = begin + 1;
    while (end < count && strcmp(settings[end].key, settings[begin].key) == 0 &&
           (!has_value || strcmp(settings[end].value, settings[begin].value) == 0))
        end++;
    return end - begin;
}

static const char *usual_value(const vw_rank_setting *settings, size_t begin, size_t end)
{
    const vw_rank_setting *usual = &settings[begin];
    size_t most = 0;
    for (size_t at = begin; at < end;) {
        size_t length = run_length(settings, at, end, true);
        if (length > most || (length == most && settings[at].rank < usual->rank)) {
            most = length;
            usual = &settings[at];
        }
        at += length;
    }
    return usual->value;
}

/* Keeps, in place, what is not as usual. */
static size_t keep_unusual(vw_rank_setting *settings, size_t count)
{
    size_t kept = 0;
    for (size_t begin = 0; begin < count;) {
        size_t end = begin + run_length(settings, begin, count, false);
        const char *usual = usual_value(settings, begin, end);
        for (size_t i = begin; i < end; i++) {
            vw_rank_setting setting = settings[i];
            if (strcmp(setting.value, usual) == 0)
                continue;
            setting.usual = usual;
            settings[kept++] = setting;
        }
        begin = end;
    }
    return kept;
}

/* The card is not the recording's to say, but what differs most between machines. */
static vw_status add_card(vw__ranks_work *work, const vw_rank *rank, vw_rank_setting *settings,
                          size_t *count)
{
    char text[VW_SIZE_TEXT_BYTES];
    if (rank->card_bytes == VW_UNKNOWN)
        return VW_OK;
    settings[*count] = (vw_rank_setting){.key = "card", .rank = rank->rank};
    VW__TRY(vw__ranks_keep(work, vw_format_size(rank->card_bytes, text), &settings[*count].value));
    ++*count;
    return VW_OK;
}

vw_status vw__rank_settings_compare(vw__ranks_work *work, const vw__account *const *mains)
{
    vw_ranks_report *report = work->report;
    size_t most = report->rank_count, count = 0;
    for (size_t i = 0; i < report->rank_count; i++)
        most += mains[i] != NULL ? mains[i]->setting_count : 0;
    vw_rank_setting *settings =
        vw__arena_alloc_array(work->arena, most, sizeof *settings, _Alignof(vw_rank_setting));
    if (settings == NULL)
        return vw__fail_host_memory(most * sizeof *settings, "the settings of the ranks");
    for (size_t i = 0; i < report->rank_count; i++) {
        VW__TRY(add_card(work, &report->ranks[i], settings, &count));
        for (size_t k = 0; mains[i] != NULL && k < mains[i]->setting_count; k++)
            settings[count++] = (vw_rank_setting){.key = mains[i]->settings[k].key,
                                                  .rank = report->ranks[i].rank,
                                                  .value = mains[i]->settings[k].value};
    }
    qsort(settings, count, sizeof *settings, compare_settings);
    report->settings = settings;
    report->setting_count = keep_unusual(settings, count);
    return VW_OK;
}
