/* report_check.c - whether memory has grown since a baseline, by figure and by function. */
#include "vramwise/report.h"

#include <string.h>

#include "report/report_fields.h"

/* ---- the fields ------------------------------------------------------------------------------ */

static bool is_count(vw_check_metric metric)
{
    return metric == VW_CHECK_ALLOCATIONS;
}

static const char *words_of(vw_check_metric metric)
{
    static const char *const words[VW_CHECK_METRIC_COUNT] = {
        [VW_CHECK_PEAK] = "live at the peak",   [VW_CHECK_RESERVED] = "most reserved",
        [VW_CHECK_ALLOCATIONS] = "allocations", [VW_CHECK_LEAK] = "leaked by each step",
        [VW_CHECK_CARD] = "smallest card",
    };
    return words[metric];
}

static vw__report_text figure_text(vw_check_metric metric, uint64_t value)
{
    return is_count(metric) ? vw__report_count(value) : vw__report_size(value);
}

static void append_words(vw__byte_buffer *cell, const void *object)
{
    const vw_check_figure *figure = object;
    vw__append_text(cell, words_of(figure->metric));
}

static void append_before(vw__byte_buffer *cell, const void *object)
{
    const vw_check_figure *figure = object;
    vw__append_text(cell, figure_text(figure->metric, figure->before).text);
}

static void append_now(vw__byte_buffer *cell, const void *object)
{
    const vw_check_figure *figure = object;
    vw__append_text(cell, figure_text(figure->metric, figure->now).text);
}

static vw__report_text signed_share(double growth)
{
    vw__report_text text = vw__report_share(growth), out = {"+"};
    if (growth <= 0)
        return text;
    (void)memcpy(out.text + 1, text.text, sizeof out.text - 1);
    out.text[sizeof out.text - 1] = '\0';
    return out;
}

static bool is_growth_known(const void *object)
{
    const vw_check_figure *figure = object;
    return figure->growth == figure->growth;
}

static void append_growth(vw__byte_buffer *cell, const void *object)
{
    const vw_check_figure *figure = object;
    if (is_growth_known(figure))
        vw__append_text(cell, signed_share(figure->growth).text);
    else if (figure->before == 0 && figure->now != VW_UNKNOWN)
        vw__append_text(cell, figure->now == 0 ? "0 %" : "new");
    else
        vw__append_text(cell, "?");
}

static void append_limit(vw__byte_buffer *cell, const void *object)
{
    const vw_check_figure *figure = object;
    vw__append_text(cell, signed_share(figure->max_growth).text);
}

static void append_verdict(vw__byte_buffer *cell, const void *object)
{
    const vw_check_figure *figure = object;
    vw__append_text(cell, figure->is_worse ? "worse" : "");
}

static const char *name_of(const void *object)
{
    return vw_check_metric_name(((const vw_check_figure *)object)->metric);
}

#define FIGURE(kind, key, member) VW__REPORT_FIELD(kind, vw_check_figure, key, member)
static const vw__report_field figure_list[] = {
    {FIGURE(TEXT, "metric", metric), .text = name_of},
    {VW__REPORT_COLUMN(1, NAME, ""), .append = append_words},
    {FIGURE(COUNT, "baseline", before), VW__REPORT_COLUMN(2, NUMBER, "baseline"),
     .append = append_before},
    {FIGURE(COUNT, "now", now), VW__REPORT_COLUMN(3, NUMBER, "now"), .append = append_now},
    {FIGURE(RATIO, "growth", growth), VW__REPORT_COLUMN(4, NUMBER, "growth"),
     .append = append_growth},
    {FIGURE(RATIO, "max_growth", max_growth), VW__REPORT_COLUMN(5, NUMBER, "allowed"),
     .append = append_limit},
    {FIGURE(BOOLEAN, "worse", is_worse), VW__REPORT_COLUMN(6, WORD, ""), .append = append_verdict},
};
static const vw__report_fields figure_fields = VW__REPORT_FIELDS(vw_check_figure, figure_list);

static void append_rise(vw__byte_buffer *cell, uint64_t before, uint64_t now)
{
    if (before != now)
        vw__append_text(cell, vw__report_change(before, now).text);
}

static void append_peak(vw__byte_buffer *cell, const void *object)
{
    const vw_check_site *site = object;
    append_rise(cell, site->before_peak_bytes, site->now_peak_bytes);
}

static void append_leak(vw__byte_buffer *cell, const void *object)
{
    const vw_check_site *site = object;
    append_rise(cell, site->before_leak_bytes, site->now_leak_bytes);
}

static void append_allocations(vw__byte_buffer *cell, const void *object)
{
    const vw_check_site *site = object;
    uint64_t before = site->before_allocations, now = site->now_allocations;
    if (before != now)
        vw__append_format(cell, "%c%s", now > before ? '+' : '-',
                          vw__report_count(now > before ? now - before : before - now).text);
}

static void append_place(vw__byte_buffer *cell, const void *object)
{
    const vw_check_site *site = object;
    vw__append_text(cell, site->site);
    if (site->line != 0)
        vw__append_format(cell, ", line %u", (unsigned)site->line);
}

static bool is_line_known(const void *object)
{
    return ((const vw_check_site *)object)->line != 0;
}

#define SITE(kind, key, member) VW__REPORT_FIELD(kind, vw_check_site, key, member)
static const vw__report_field site_list[] = {
    {SITE(TEXT, "site", site), VW__REPORT_COLUMN(4, PLACE, "where"), .append = append_place},
    {SITE(COUNT, "line", line), .is_known = is_line_known},
    {SITE(BYTES, "baseline_peak_bytes", before_peak_bytes)},
    {SITE(BYTES, "peak_bytes", now_peak_bytes), VW__REPORT_COLUMN(1, NUMBER, "at the peak"),
     .append = append_peak},
    {SITE(BYTES, "baseline_leak_bytes_per_step", before_leak_bytes)},
    {SITE(BYTES, "leak_bytes_per_step", now_leak_bytes), VW__REPORT_COLUMN(2, NUMBER, "each step"),
     .append = append_leak},
    {SITE(COUNT, "baseline_allocations", before_allocations)},
    {SITE(COUNT, "allocations", now_allocations), VW__REPORT_COLUMN(3, NUMBER, "allocations"),
     .append = append_allocations},
};
static const vw__report_fields site_fields = VW__REPORT_FIELDS(vw_check_site, site_list);

static void write_figures(vw__report *report, vw__json *json, const char *key, const void *object)
{
    const vw_check_report *check = object;
    vw__json_begin_array(json, key);
    for (size_t i = 0; i < VW_CHECK_METRIC_COUNT; i++)
        vw__report_json_object(report, json, NULL, &figure_fields, &check->figures[i]);
    vw__json_end_array(json);
}

#define CHECK(kind, key, member) VW__REPORT_FIELD(kind, vw_check_report, key, member)
static const vw__report_field check_list[] = {
    {CHECK(BOOLEAN, "worse", is_worse)},
    {.key = "file", .kind = VW__REPORT_FIELD_FILE},
    {.key = "baseline", .kind = VW__REPORT_FIELD_OTHER_FILE},
    {CHECK(TEXT, "policy", policy)},
    {CHECK(TEXT, "torch", torch_version)},
    {.key = "metrics", .write = write_figures},
    {CHECK(COUNT, "site_count", site_count)},
    {CHECK(FIRST_OBJECTS, "sites", sites), VW__REPORT_COUNTED(vw_check_report, site_count),
     .fields = &site_fields},
    {CHECK(TEXTS, "notes", notes), VW__REPORT_COUNTED(vw_check_report, note_count)},
};
static const vw__report_fields check_fields = VW__REPORT_FIELDS(vw_check_report, check_list);

/* ---- text ------------------------------------------------------------------------------------ */

static void say_well(vw__report *out, const vw_check_report *check)
{
    const vw_check_figure *peak = &check->figures[VW_CHECK_PEAK];
    vw__report_say(out, VW__REPORT_STYLE_GREEN,
                   "memory is within limits: %s live at the peak, %s in "
                   "the baseline",
                   vw__report_size(peak->now).text, vw__report_size(peak->before).text);
}

static void say_worse(vw__report *out, const vw_check_report *check)
{
    for (size_t i = 0; i < VW_CHECK_METRIC_COUNT; i++) {
        const vw_check_figure *figure = &check->figures[i];
        if (!figure->is_worse)
            continue;
        vw__report_say(out, VW__REPORT_STYLE_RED,
                       "memory has grown by %s: %s %s, %s in the baseline",
                       figure_text(figure->metric, figure->now - figure->before).text,
                       figure_text(figure->metric, figure->now).text, words_of(figure->metric),
                       figure_text(figure->metric, figure->before).text);
        return; /* the table has the others */
    }
}

static void say_figures(vw__report *out, const vw_check_report *check)
{
    vw__report_table table;
    vw__report_fields_table(&table, &figure_fields);
    for (size_t i = 0; i < VW_CHECK_METRIC_COUNT; i++) {
        const vw_check_figure *figure = &check->figures[i];
        vw__report_fields_row(&table,
                              figure->is_worse ? VW__REPORT_STYLE_RED : VW__REPORT_STYLE_PLAIN,
                              &figure_fields, figure);
    }
    vw__report_table_end(&table, out);
}

static void say_sites(vw__report *out, const vw_check_report *check)
{
    size_t shown =
        check->site_count < out->form.most_rows ? check->site_count : out->form.most_rows;
    vw__report_blank(out);
    if (check->site_count == 0) {
        vw__report_say(out, VW__REPORT_STYLE_PLAIN,
                       "No function of the program holds more: the same blocks take more room, by "
                       "their order and sizes.");
        return;
    }
    vw__report_fields_rows(out, &site_fields, check->sites, shown);
    if (shown < check->site_count)
        vw__report_say(out, VW__REPORT_STYLE_FAINT, "and %s",
                       vw__report_counted(check->site_count - shown, "smaller one").text);
}

static void say_setting(vw__report *out, const vw_check_report *check)
{
    vw__report_blank(out);
    vw__report_fact(out, "replayed", "%s, by the rules of PyTorch %s", check->policy,
                    check->torch_version);
    if (out->form.other_file != NULL)
        vw__report_fact(out, "baseline", "%s", out->form.other_file);
}

static void say_check(vw__report *out, const void *content)
{
    const vw_check_report *check = content;
    if (!check->is_worse) {
        say_well(out, check);
        return;
    }
    say_worse(out, check);
    vw__report_blank(out);
    say_figures(out, check);
    say_sites(out, check);
    say_setting(out, check);
    vw__report_remarks(out, NULL, 0, check->notes, check->note_count);
}

vw_status vw_report_check(const vw_check_report *check, const vw_report_form *form,
                          const vw_output *output)
{
    static const vw__report_kind kind = {"check", say_check, &check_fields, "sites"};
    return vw__report_as(&kind, check, form, output);
}
