/* check.c - compares two baselines: what is worse, and which functions of the program grew. */
#include "vramwise/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "analysis/result.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "check/check_parts.h"

#define MOST_GROWTH 1000.0 /* a limit above that is a slip */

static const struct {
    const char *name;
    double max_growth; /* default */
} metrics[VW_CHECK_METRIC_COUNT] = {
    [VW_CHECK_PEAK] = {"peak", 0.0},
    [VW_CHECK_RESERVED] = {"reserved", 0.02},
    [VW_CHECK_ALLOCATIONS] = {"allocations", 0.02},
    [VW_CHECK_LEAK] = {"leak", 0.0},
    [VW_CHECK_CARD] = {"card", 0.02},
};

const char *vw_check_metric_name(vw_check_metric metric)
{
    return (unsigned)metric < VW_CHECK_METRIC_COUNT ? metrics[metric].name : "?";
}

/* ---- limits ---------------------------------------------------------------------------------- */

void vw_check_limits_init(vw_check_limits *limits)
{
    *limits = (vw_check_limits){.struct_size = sizeof *limits};
    for (size_t i = 0; i < VW_CHECK_METRIC_COUNT; i++)
        limits->max_growth[i] = metrics[i].max_growth;
}

/* Reads "2%", "0.5 %" or "0" from `length` bytes. */
static bool read_share(const char *text, size_t length, double *share)
{
    char copy[32], *end;
    if (length == 0 || length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (copy[0] < '0' || copy[0] > '9' || copy[strspn(copy, "0123456789. %")] != '\0')
        return false;
    double number = vw__c_locale_strtod(copy, &end);
    while (*end == ' ')
        end++;
    bool is_percent = *end == '%';
    if (end[is_percent] != '\0' || number > MOST_GROWTH * 100)
        return false;
    *share = number / 100;
    return is_percent || number == 0.0; /* "2" may be 2 % or 200 % */
}

static bool find_metric(const char *name, size_t length, size_t *metric)
{
    for (size_t i = 0; i < VW_CHECK_METRIC_COUNT; i++)
        if (strlen(metrics[i].name) == length && memcmp(metrics[i].name, name, length) == 0) {
            *metric = i;
            return true;
        }
    return false;
}

static vw_status read_part(const char *part, size_t length, vw_check_limits *limits)
{
    const char *equals = memchr(part, '=', length);
    const char *value = equals != NULL ? equals + 1 : part;
    size_t metric = 0;
    double share;
    if (equals != NULL && !find_metric(part, (size_t)(equals - part), &metric))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected peak, reserved, allocations, leak or card before '=', not '%.*s'",
                        (int)(equals - part), part);
    if (!read_share(value, length - (size_t)(value - part), &share))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a growth such as 2%% or 0, or one of a figure such as "
                        "allocations=1%%, not '%.*s'",
                        (int)length, part);
    for (size_t i = 0; i < VW_CHECK_METRIC_COUNT; i++)
        if (equals == NULL || i == metric)
            limits->max_growth[i] = share;
    return VW_OK;
}

vw_status vw_check_limits_parse(const char *text, vw_check_limits *limits)
{
    vw_check_limits read;
    if (text == NULL || limits == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a text and a place for the limits");
    vw_check_limits_init(&read);
    VW__TRY(VW__STRUCT_IN(vw_check_limits, limits, &read));
    for (const char *part = text;; part++) {
        size_t length = strcspn(part, ",");
        VW__TRY(read_part(part, length, &read));
        part += length;
        if (*part == '\0')
            break;
    }
    VW__STRUCT_OUT(vw_check_limits, &read, limits);
    return VW_OK;
}

/* ---- figures --------------------------------------------------------------------------------- */

static bool is_above(uint64_t before, uint64_t now, double max_growth)
{
    if (before == VW_UNKNOWN || now == VW_UNKNOWN || now <= before)
        return false;
    return (double)(now - before) > (double)before * max_growth;
}

static vw_check_figure compare_figure(vw_check_metric metric, const vw_baseline *before,
                                      const vw_baseline *now, double max_growth)
{
    vw_check_figure figure = {.metric = metric,
                              .before = before->values[metric],
                              .now = now->values[metric],
                              .growth = NAN,
                              .max_growth = max_growth};
    if (figure.before != VW_UNKNOWN && figure.now != VW_UNKNOWN && figure.before != 0)
        figure.growth = (double)figure.now / (double)figure.before - 1;
    figure.is_worse = is_above(figure.before, figure.now, max_growth);
    return figure;
}

/* ---- sites ----------------------------------------------------------------------------------- */

static int compare_names(const void *left, const void *right)
{
    const vw_baseline_site *one = left, *other = right;
    return strcmp(one->site, other->site);
}

void vw__check_sort_sites(vw_baseline_site *sites, size_t count)
{
    if (count > 0)
        qsort(sites, count, sizeof *sites, compare_names);
}

static uint64_t rise(uint64_t before, uint64_t now)
{
    return now > before ? now - before : 0;
}

static int compare_descending(uint64_t one, uint64_t other)
{
    return (one < other) - (one > other);
}

static int compare_growth(const void *left, const void *right)
{
    const vw_check_site *one = left, *other = right;
    int order = compare_descending(rise(one->before_peak_bytes, one->now_peak_bytes),
                                   rise(other->before_peak_bytes, other->now_peak_bytes));
    if (order == 0)
        order = compare_descending(rise(one->before_leak_bytes, one->now_leak_bytes),
                                   rise(other->before_leak_bytes, other->now_leak_bytes));
    if (order == 0)
        order = compare_descending(rise(one->before_allocations, one->now_allocations),
                                   rise(other->before_allocations, other->now_allocations));
    return order != 0 ? order : strcmp(one->site, other->site);
}

/* `before` may be NULL: the site is new. */
static vw_check_site join(const vw_baseline_site *before, const vw_baseline_site *now)
{
    static const vw_baseline_site nothing;
    const vw_baseline_site *was = before != NULL ? before : &nothing;
    return (vw_check_site){
        .site = now->site,
        .line = now->line,
        .before_peak_bytes = was->peak_bytes,
        .now_peak_bytes = now->peak_bytes,
        .before_allocations = was->allocations,
        .now_allocations = now->allocations,
        .before_leak_bytes = was->leak_bytes,
        .now_leak_bytes = now->leak_bytes,
    };
}

static bool has_grown(const vw_check_site *site)
{
    return site->now_peak_bytes > site->before_peak_bytes ||
           site->now_allocations > site->before_allocations ||
           site->now_leak_bytes > site->before_leak_bytes;
}

/* Both lists are sorted by name. */
static vw_status compare_sites(vw__arena *arena, const vw_baseline *before, const vw_baseline *now,
                               vw_check_report *report)
{
    vw_check_site *grown =
        vw__arena_alloc_array(arena, now->site_count, sizeof *grown, _Alignof(vw_check_site));
    if (grown == NULL)
        return vw__fail_host_memory(now->site_count * sizeof *grown, "what grew");
    size_t old = 0, count = 0;
    for (size_t i = 0; i < now->site_count; i++) {
        while (old < before->site_count && compare_names(&before->sites[old], &now->sites[i]) < 0)
            old++;
        bool is_known =
            old < before->site_count && compare_names(&before->sites[old], &now->sites[i]) == 0;
        grown[count] = join(is_known ? &before->sites[old] : NULL, &now->sites[i]);
        count += has_grown(&grown[count]);
    }
    if (count > 0)
        qsort(grown, count, sizeof *grown, compare_growth);
    report->sites = grown;
    report->site_count = count;
    return VW_OK;
}

/* ---- the report ------------------------------------------------------------------------------ */

static void add_notes(vw__notes *notes, const vw_baseline *before, const vw_baseline *now)
{
    if (before->is_cut != now->is_cut)
        vw__notes_add(notes,
                      "Only one of the two recordings begins at the first allocation: record the "
                      "same part of the run each time.");
    if (before->values[VW_CHECK_LEAK] == VW_UNKNOWN || now->values[VW_CHECK_LEAK] == VW_UNKNOWN)
        vw__notes_add(notes,
                      "Leaks are not compared: %s has too few training steps to judge "
                      "growth.",
                      now->values[VW_CHECK_LEAK] == VW_UNKNOWN ? "the recording" : "the baseline");
}

static vw_status fill_report(vw__arena *arena, const vw_baseline *before, const vw_baseline *now,
                             const vw_check_limits *limits, vw_check_report *report)
{
    vw__notes notes;
    vw__notes_init(&notes, arena);
    report->policy = now->policy;
    report->torch_version = now->torch_version;
    for (size_t i = 0; i < VW_CHECK_METRIC_COUNT; i++) {
        vw_check_figure *figure = &report->figures[i];
        double max_growth = limits->max_growth[i];
        *figure = compare_figure((vw_check_metric)i, before, now, max_growth);
        report->is_worse |= figure->is_worse;
    }
    VW__TRY(compare_sites(arena, before, now, report));
    add_notes(&notes, before, now);
    return vw__notes_finish(&notes, &report->notes, &report->note_count);
}

static bool is_limit(double max_growth)
{
    return max_growth >= 0 && max_growth <= MOST_GROWTH;
}

vw_status vw_baselines_compare(const vw_baseline *before, const vw_baseline *now,
                               const vw_check_limits *limits, vw_check_report **out)
{
    vw_check_limits used;
    if (before == NULL || now == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected two baselines and a place for a report");
    vw_check_limits_init(&used);
    VW__TRY(VW__STRUCT_IN(vw_check_limits, limits, &used));
    for (size_t i = 0; i < VW_CHECK_METRIC_COUNT; i++)
        if (!is_limit(used.max_growth[i]))
            return vw__fail(VW_ERR_INVALID_ARGUMENT, "the limit of %s is no growth of 0 or more",
                            metrics[i].name);
    if (strcmp(before->policy, now->policy) != 0 ||
        strcmp(before->torch_version, now->torch_version) != 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected baselines of one setting, not of %s %s "
                        "and %s %s",
                        before->policy, before->torch_version, now->policy, now->torch_version);
    vw_check_report *report = vw__result_create(sizeof *report);
    if (report == NULL)
        return vw__fail_host_memory(sizeof *report, "a comparison");
    vw_status status = fill_report(vw__result_arena(report), before, now, &used, report);
    if (status == VW_OK)
        *out = report;
    else
        vw__result_free(report);
    return status;
}

void vw_check_report_free(vw_check_report *report)
{
    vw__result_free(report);
}
