/* step_log.c - from a text to the points of one step log.
 *
 * Most texts that come here are no step logs, and large: so a line is first asked, quickly, whether
 * it has a word of memory or a unit of bytes in it (step_log_hints.c). Those that have are read
 * closely (step_log_lines.h), and what they say is a *sighting*: a point of some series
 * (step_log_series.h). Where more are found than are kept, or too many lines are read in vain, not
 * all are read (step_log_shapes.h).
 *
 * Lines end with a line feed. What a progress bar overwrites ends with a carriage return, and is a
 * line of its own. A line that does not fit the buffer is cut behind a carriage return or a closing
 * brace, so that bars and arrays of any length can be read; any other is left out. */
#include "format/step_log.h"

#include <string.h>

#include "base/ascii.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "format/step_log_lines.h"
#include "format/step_log_series.h"
#include "format/step_log_shapes.h"

enum {
    LINE_BYTES = 64 << 10,
    MOST_OPEN_LINES = 4096 /* of an object that is spread over lines and does not end */
};

struct vw__step_log_scan {
    vw__step_series_set series;
    vw__step_json json;
    vw__step_table table;
    size_t open_lines;       /* since an object was opened or a point found */
    uint64_t sighted_before; /* the last object of a list */
    vw__step_lines lines;
    uint64_t line_weight; /* how many lines this one stands for */
    vw__step_sampler sampler;
    uint64_t header_shape; /* of the last table */
    uint64_t table_rows;   /* that it had so far */
    bool is_skipping;      /* the rest of an overlong line */
    size_t carried;
    char line[LINE_BYTES];  /* what came of the last line so far */
    char clean[LINE_BYTES]; /* a line without colours */
};

/* ---- points ---------------------------------------------------------------------------------- */

/* Where only every so many sightings are kept, lines are read twice as often as that, no more. */
static void note_point(vw__step_log_scan *scan, vw__step_form form, const vw__sighting *sighting)
{
    vw__step_series_note(&scan->series, form, sighting, scan->line_weight);
    if (scan->sampler.sampling < scan->series.most_stride / 2)
        scan->sampler.sampling = scan->series.most_stride / 2;
}

static void note_json(void *context, const vw__sighting *sighting)
{
    vw__step_log_scan *scan = context;
    vw__sighting seen = *sighting;
    scan->open_lines = 0;
    seen.is_plain = seen.step_weight != 0;
    note_point(scan, VW__STEP_FORM_JSON, &seen);
}

/* An object in a list: is it left out? */
static bool passes_object(void *context)
{
    vw__step_log_scan *scan = context;
    if (vw__step_line_is_passed_over(&scan->sampler))
        return true;
    scan->line_weight = scan->sampler.sampling;
    if (scan->series.sighted_count == scan->sighted_before)
        vw__step_line_was_vain(&scan->sampler); /* the one before */
    scan->sighted_before = scan->series.sighted_count;
    return false;
}

/* ---- a line, closely ------------------------------------------------------------------------- */

/* A report of running out has figures, and is no step. */
static bool is_failure_report(const char *line, size_t size)
{
    return memmem(line, size, "out of memory", 13) != NULL ||
           memmem(line, size, "OutOfMemory", 11) != NULL ||
           memmem(line, size, "Tried to allocate", 17) != NULL;
}

/* Escape sequences have digits in them. */
static size_t without_colours(const char *line, size_t size, char *out)
{
    size_t count = 0;
    for (size_t at = 0; at < size; at++) {
        if (line[at] != '\033') {
            out[count++] = line[at];
            continue;
        }
        if (at + 1 < size && line[at + 1] == '[')
            for (at += 2; at < size && (line[at] < '@' || line[at] > '~');)
                at++;
    }
    return count;
}

/* Where an object begins: a brace, and a name in quotes behind it. SIZE_MAX: nowhere. */
static size_t find_object(const char *line, size_t size)
{
    const char *end = line + size;
    for (const char *at = line; (at = memchr(at, '{', (size_t)(end - at))) != NULL; at++) {
        const char *next = at + 1;
        while (next < end && vw__ascii_is_blank(*next))
            next++;
        if (next == end || *next == '"' || *next == '\'' || *next == '{')
            return (size_t)(at - line);
    }
    return SIZE_MAX;
}

/* Does the line begin as JSON does that goes on in the next one? */
static bool begins_as_json(const char *line, size_t size)
{
    size_t next = 1;
    while (next < size && vw__ascii_is_blank(line[next]))
        next++;
    if (line[0] == '{')
        return next == size || line[next] == '"' || line[next] == '\'';
    return line[0] == '[' && (next == size || line[next] == '{');
}

static bool goes_on_as_json(const char *line, size_t size)
{
    if (line[0] == '[')
        return begins_as_json(line, size);
    return memchr("\"'{}],", line[0], 6) != NULL || vw__ascii_is_digit(line[0]) || line[0] == '-';
}

/* An object that was left open takes this line, or is given up. */
static bool continue_json(vw__step_log_scan *scan, const char *line, size_t size)
{
    if (scan->json.depth == 0)
        return false;
    if (goes_on_as_json(line, size) && scan->open_lines++ < MOST_OPEN_LINES) {
        vw__step_json_walk(&scan->json, line, size);
        return true;
    }
    vw__step_json_reset(&scan->json);
    return false;
}

static bool read_json(vw__step_log_scan *scan, const char *line, size_t size)
{
    uint64_t before = scan->series.sighted_count;
    bool is_whole_line = begins_as_json(line, size);
    size_t begin = is_whole_line ? 0 : find_object(line, size);
    if (begin == SIZE_MAX)
        return false;
    scan->open_lines = 0;
    vw__step_json_reset(&scan->json);
    vw__step_json_walk(&scan->json, line + begin, size - begin);
    if (!is_whole_line)
        vw__step_json_reset(&scan->json);
    return scan->series.sighted_count != before || scan->json.depth != 0;
}

/* A header that had no rows was none: one that comes again need not be read. */
static bool read_header(vw__step_log_scan *scan, const char *line, size_t size, uint64_t shape)
{
    if (!vw__step_table_read_header(&scan->table, line, size))
        return false;
    if (scan->table_rows == 0) {
        vw__step_shape_remember(&scan->sampler, scan->header_shape);
        vw__step_line_was_vain(&scan->sampler);
    }
    scan->header_shape = shape;
    scan->table_rows = 0;
    return true;
}

/* A line with a hint in it. Did it say something? */
static bool read_closely(vw__step_log_scan *scan, const char *line, size_t size, uint64_t shape)
{
    vw__sighting sighting;
    if (is_failure_report(line, size))
        return false;
    if (size <= LINE_BYTES && memchr(line, '\033', size) != NULL) {
        size = without_colours(line, size, scan->clean);
        line = scan->clean;
    }
    if (size != 0 && read_json(scan, line, size))
        return true;
    if (!vw__step_text_read(line, size, scan->series.sighted_count < VW__STEP_LOG_FEWEST,
                            &sighting))
        return size != 0 && read_header(scan, line, size, shape);
    note_point(scan, VW__STEP_FORM_TEXT, &sighting);
    return true;
}

/* JSON that goes on in the next line may begin with a bracket and nothing else: at the margin only,
 * where vw__step_dull_bytes() sees it. */
static bool opens_json(const char *line, size_t size, bool is_at_margin)
{
    return is_at_margin && (line[0] == '{' || line[0] == '[') &&
           memchr("{[,", line[size - 1], 3) != NULL && begins_as_json(line, size);
}

static void read_part(vw__step_log_scan *scan, const char *line, size_t size, bool is_first)
{
    vw__sighting sighting;
    bool is_at_margin = is_first;
    while (size != 0 && vw__ascii_is_blank(line[0])) {
        is_at_margin = false;
        line++;
        size--;
    }
    while (size != 0 && vw__ascii_is_blank(line[size - 1]))
        size--;
    scan->line_weight = 1;
    scan->lines.blank_count += size == 0 && is_first;
    if (size == 0 || continue_json(scan, line, size))
        return;
    bool may_open = opens_json(line, size, is_at_margin);
    uint64_t shape = vw__step_shape(line, size);
    bool is_known = vw__step_shape_is_known(&scan->sampler, shape);
    bool has_hint = !is_known && vw__step_hint_in_line(line, size);
    if (!has_hint && may_open)
        (void)read_json(scan, line, size);
    if ((!has_hint && !scan->table.is_open) || vw__step_line_is_passed_over(&scan->sampler))
        return;
    scan->line_weight = scan->sampler.sampling;
    if (vw__step_table_read_row(&scan->table, line, size, &sighting)) {
        sighting.is_plain = sighting.step_weight != 0;
        scan->table_rows++;
        note_point(scan, VW__STEP_FORM_TABLE, &sighting);
    } else if (has_hint && !read_closely(scan, line, size, shape)) {
        vw__step_shape_remember(&scan->sampler, shape);
        vw__step_line_was_vain(&scan->sampler);
    }
}

/* A line without its end. Most have no carriage return but perhaps a last one. */
static void read_line(vw__step_log_scan *scan, const char *line, size_t size)
{
    const char *end = line + size, *part;
    bool is_first = true;
    while ((part = memchr(line, '\r', (size_t)(end - line))) != NULL) {
        read_part(scan, line, (size_t)(part - line), is_first);
        line = part + 1;
        is_first = false;
    }
    read_part(scan, line, (size_t)(end - line), is_first);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The buffer is full, and the line not at its end. */
static void cut_line(vw__step_log_scan *scan)
{
    const char *cut = memrchr(scan->line, '\r', scan->carried);
    if (cut == NULL && (scan->json.depth != 0 || begins_as_json(scan->line, scan->carried)))
        cut = memrchr(scan->line, '}', scan->carried);
    if (cut == NULL) {
        scan->carried = 0;
        scan->is_skipping = true;
        return;
    }
    size_t done = (size_t)(cut - scan->line) + 1;
    read_line(scan, scan->line, done);
    scan->carried -= done;
    memmove(scan->line, scan->line + done, scan->carried);
}

static void carry(vw__step_log_scan *scan, const char *bytes, size_t size)
{
    while (size != 0 && !scan->is_skipping) {
        size_t taken = size < LINE_BYTES - scan->carried ? size : LINE_BYTES - scan->carried;
        memcpy(scan->line + scan->carried, bytes, taken);
        scan->carried += taken;
        bytes += taken;
        size -= taken;
        if (scan->carried == LINE_BYTES)
            cut_line(scan);
    }
}

static void end_carried_line(vw__step_log_scan *scan)
{
    if (!scan->is_skipping)
        read_line(scan, scan->line, scan->carried);
    scan->is_skipping = false;
    scan->carried = 0;
}

/* Is a line of interest for its own sake only, and not for what came before it? */
static bool is_idle(const vw__step_log_scan *scan)
{
    return scan->carried == 0 && !scan->is_skipping && scan->json.depth == 0 &&
           !scan->table.is_open;
}

vw_status vw__step_log_scan_feed(vw__step_log_scan *scan, const char *bytes, size_t size_bytes)
{
    if (size_bytes == 0)
        return vw__step_series_status(&scan->series);
    const char *end = bytes + size_bytes, *line_end;
    while (bytes != end) {
        if (scan->lines.count >= VW__STEP_LOG_FEW_LINES && is_idle(scan))
            bytes += vw__step_dull_bytes(bytes, (size_t)(end - bytes), &scan->lines.count);
        line_end = memchr(bytes, '\n', (size_t)(end - bytes));
        if (line_end == NULL)
            break;
        size_t size = (size_t)(line_end - bytes);
        scan->lines.count++;
        if (scan->carried == 0 && !scan->is_skipping && size < LINE_BYTES) {
            read_line(scan, bytes, size);
        } else {
            carry(scan, bytes, size);
            end_carried_line(scan);
        }
        bytes = line_end + 1;
    }
    carry(scan, bytes, (size_t)(end - bytes));
    return vw__step_series_status(&scan->series);
}

vw_status vw__step_log_scan_finish(vw__step_log_scan *scan, vw__step_log *out)
{
    if (scan->carried != 0 || scan->is_skipping) {
        scan->lines.count++;
        end_carried_line(scan);
    }
    return vw__step_series_finish(&scan->series, &scan->lines, out);
}

/* ---- life ------------------------------------------------------------------------------------ */

vw_status vw__step_log_scan_create(vw__step_log_scan **out)
{
    vw__step_log_scan *scan = vw__host_alloc_zeroed(1, sizeof *scan);
    if (scan == NULL)
        return vw__fail_host_memory(sizeof *scan, "the scan of a step log");
    vw_status status = vw__step_sampler_init(&scan->sampler);
    if (status != VW_OK) {
        vw__host_free(scan);
        return status;
    }
    vw__step_json_init(&scan->json, note_json, passes_object, scan);
    *out = scan;
    return VW_OK;
}

void vw__step_log_scan_destroy(vw__step_log_scan *scan)
{
    if (scan == NULL)
        return;
    vw__step_series_deinit(&scan->series);
    vw__step_sampler_deinit(&scan->sampler);
    vw__host_free(scan);
}
