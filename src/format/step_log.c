/* step_log.c - from a text to the points of one step log.
 *
 * Most texts that come here are no step logs, and large: so a line is first asked, quickly, whether
 * it has a word of memory or a unit of bytes in it (step_log_hints.c). Those that have are read
 * closely (step_log_lines.h), and what they say is a *sighting*. Sightings of one form, one name
 * and one rank make a *series*. There are a few of them at a time, since one text may hold several
 * logs; when another one comes, the one with the fewest points goes.
 *
 * A series holds a bounded number of points. When it is full every second one is dropped, and from
 * then on only every second, fourth, eighth sighting is kept: what remains is spread evenly. Where
 * so many are not kept, not all need be looked for: lines are then sampled, at random, so that no
 * rhythm of the log falls in step with ours.
 *
 * Reading closely is slow, and a log may be full of lines that have a hint and say nothing. So the
 * *shapes* of such lines, numbers left out, are remembered, and a line of a known shape is passed
 * over. Where there is no end of new shapes, lines are sampled.
 *
 * Lines end with a line feed. What a progress bar overwrites ends with a carriage return, and is a
 * line of its own. A line that does not fit the buffer is cut behind a carriage return or a closing
 * brace, so that bars and arrays of any length can be read; any other is left out. */
#include "format/step_log.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "format/step_log_lines.h"

#define MIB (1024.0 * 1024.0)
#define GIB (1024.0 * MIB)

enum {
    LINE_BYTES = 64 << 10,
    MOST_SERIES = 32,
    FEWEST_POINTS = 3,
    MANY_POINTS = 10,      /* with steps: enough in a text of any length */
    LEAST_SHARE = 50,      /* one line in so many, where there are fewer points */
    LEAST_SHARE_BARE = 2,  /* of sizes that stand alone */
    FEW_LINES = 32,        /* that are all looked at */
    SHAPE_SLOTS = 4096,    /* a power of two */
    MOST_VAIN = 4096,      /* lines or objects read in vain, until one in two is left out */
    FIRST_POINTS = 64,     /* room for */
    MOST_OPEN_LINES = 4096 /* of an object that is spread over lines and does not end */
};

typedef enum log_form { FORM_JSON, FORM_TABLE, FORM_TEXT } log_form;

static const char *const form_names[] = {"JSON lines", "CSV", "text"};

typedef enum memory_kind { OF_CARD, OF_FREE, OF_SHARE, OF_HOST } memory_kind;

/* Numbers as they were written; NAN-free. reserved < 0: not said. */
typedef struct raw_point {
    double step, allocated, reserved;
} raw_point;

typedef struct series {
    raw_point *points; /* owned */
    size_t count, capacity;
    uint64_t found_count; /* sightings; those in lines that were passed over are estimated */
    uint64_t next_kept, stride;
    log_form form;
    memory_kind kind;
    int rank, weight;
    bool has_step, has_unit, is_peak;
    bool is_plain, is_bare; /* all of them: see hr__sighting */
    bool has_fraction;      /* numbers that are not whole */
    bool is_epoch;
    double largest;
    char name[HR__STEP_LOG_NAME_BYTES];
} series;

struct hr__step_log_scan {
    series all[MOST_SERIES];
    size_t series_count;
    hr__step_json json;
    hr__step_table table;
    size_t open_lines;       /* since an object was opened or a point found */
    uint64_t sighted_count;  /* sightings so far, of any form */
    uint64_t sighted_before; /* the last object of a list */
    uint64_t line_count;
    uint64_t blank_count; /* lines that are empty, of the first FEW_LINES */
    uint64_t sampling;    /* one line in so many is read: a power of two */
    uint64_t line_weight; /* how many lines this one stands for */
    uint64_t dice;
    uint64_t vain_count;   /* since the sampling last changed */
    uint64_t *shapes;      /* owned: of lines that said nothing; 0 = none */
    uint64_t header_shape; /* of the last table */
    uint64_t table_rows;   /* that it had so far */
    bool is_skipping;      /* the rest of an overlong line */
    bool has_failed;       /* host memory, while the walk went on */
    size_t carried;
    hr__step_point *result; /* owned */
    hr__step_log others[MOST_SERIES];
    char line[LINE_BYTES];  /* what came of the last line so far */
    char clean[LINE_BYTES]; /* a line without colours */
};

/* ---- points ---------------------------------------------------------------------------------- */

static bool is_same(const series *known, log_form form, memory_kind kind,
                    const hr__sighting *sighting, bool has_unit)
{
    return known->form == form && known->kind == kind && known->rank == sighting->rank &&
           known->is_epoch == sighting->is_epoch && known->has_unit == has_unit &&
           known->has_step == (sighting->step_weight != 0) &&
           strcmp(known->name, sighting->name) == 0;
}

static series *find_series(hr__step_log_scan *scan, log_form form, memory_kind kind,
                           const hr__sighting *sighting, bool has_unit)
{
    series *fewest = &scan->all[0];
    for (size_t i = 0; i < scan->series_count; i++) {
        if (is_same(&scan->all[i], form, kind, sighting, has_unit))
            return &scan->all[i];
        if (scan->all[i].count < fewest->count)
            fewest = &scan->all[i];
    }
    series *made = scan->series_count < MOST_SERIES ? &scan->all[scan->series_count++] : fewest;
    hr__host_free(made->points);
    *made = (series){
        .stride = 1,
        .form = form,
        .kind = kind,
        .is_plain = true,
        .is_bare = true,
        .rank = sighting->rank,
        .has_step = sighting->step_weight != 0,
        .has_unit = has_unit,
        .is_epoch = sighting->is_epoch,
    };
    memcpy(made->name, sighting->name, sizeof made->name);
    return made;
}

static bool make_room(series *to)
{
    if (to->count < to->capacity)
        return true;
    if (to->capacity == HR__STEP_LOG_MOST) {
        to->count /= 2;
        for (size_t i = 0; i < to->count; i++)
            to->points[i] = to->points[2 * i];
        to->stride *= 2;
        to->next_kept = to->count * to->stride;
        return true;
    }
    size_t capacity = to->capacity != 0 ? 2 * to->capacity : FIRST_POINTS;
    raw_point *grown = hr__host_realloc(to->points, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    to->points = grown;
    to->capacity = capacity;
    return true;
}

_Static_assert(HR__STEP_LOG_MOST % FIRST_POINTS == 0 &&
                   (HR__STEP_LOG_MOST & (HR__STEP_LOG_MOST - 1)) == 0,
               "doubling arrives at the most there may be");

/* Whatever memory the line names is the one that counts; a unit that is said for one figure is the
 * other one's, too. */
static hr__sighting settled(const hr__sighting *sighting)
{
    hr__sighting seen = *sighting;
    if (seen.allocated_weight == 0) {
        seen.allocated = seen.reserved;
        seen.allocated_unit_bytes = seen.reserved_unit_bytes;
        seen.allocated_weight = seen.reserved_weight;
        seen.reserved_weight = 0;
    } else if (seen.reserved_weight != 0) {
        if (seen.allocated_unit_bytes == 0)
            seen.allocated_unit_bytes = seen.reserved_unit_bytes;
        if (seen.reserved_unit_bytes == 0)
            seen.reserved_unit_bytes = seen.allocated_unit_bytes;
    }
    return seen;
}

static void note_one(hr__step_log_scan *scan, log_form form, memory_kind kind,
                     const hr__sighting *sighting)
{
    hr__sighting seen = settled(sighting);
    bool has_unit = seen.allocated_unit_bytes != 0;
    series *to = find_series(scan, form, kind, &seen, has_unit);
    to->is_plain = to->is_plain && seen.is_plain;
    to->is_bare = to->is_bare && seen.is_bare;
    scan->sighted_count++;
    to->found_count += scan->line_weight;
    if (to->found_count <= to->next_kept)
        return;
    if (!make_room(to)) {
        scan->has_failed = true;
        return;
    }
    if (scan->sampling < to->stride / 2)
        scan->sampling = to->stride / 2;
    to->next_kept += to->stride;
    double whole = (double)(uint64_t)seen.allocated;
    to->weight = seen.allocated_weight;
    to->is_peak = seen.is_peak;
    to->has_fraction = to->has_fraction || whole < seen.allocated;
    to->largest = seen.allocated > to->largest ? seen.allocated : to->largest;
    to->points[to->count] = (raw_point){
        .step = to->has_step ? seen.step : (double)(to->count * to->stride),
        .allocated = seen.allocated * (has_unit ? seen.allocated_unit_bytes : 1),
        .reserved = seen.reserved_weight != 0
                        ? seen.reserved * (has_unit ? seen.reserved_unit_bytes : 1)
                        : -1,
    };
    to->count++;
}

static void note_reading(hr__step_log_scan *scan, log_form form, memory_kind kind,
                         const hr__sighting *sighting, const hr__reading *reading)
{
    hr__sighting seen = *sighting;
    seen.allocated = reading->value;
    seen.allocated_unit_bytes = reading->unit_bytes;
    seen.allocated_weight = reading->weight;
    seen.reserved_weight = 0;
    seen.is_peak = reading->is_peak;
    memcpy(seen.name, reading->name, sizeof seen.name);
    note_one(scan, form, kind, &seen);
}

/* Every other device that the line names is a rank of its own, unless ranks are something else. */
static void note_devices(hr__step_log_scan *scan, log_form form, const hr__sighting *sighting)
{
    if (sighting->rank != sighting->memory_device)
        return;
    for (size_t i = 0; i < sighting->device_count; i++) {
        hr__sighting seen = *sighting;
        seen.rank = sighting->devices[i].device;
        seen.allocated = sighting->devices[i].value;
        seen.allocated_unit_bytes = sighting->devices[i].unit_bytes;
        seen.reserved_weight = 0;
        note_one(scan, form, OF_CARD, &seen);
    }
}

static void note_point(hr__step_log_scan *scan, log_form form, const hr__sighting *sighting)
{
    if (sighting->allocated_weight != 0 || sighting->reserved_weight != 0) {
        note_one(scan, form, OF_CARD, sighting);
        note_devices(scan, form, sighting);
    } else if (sighting->free.weight != 0) {
        note_reading(scan, form, OF_FREE, sighting, &sighting->free);
    } else if (sighting->share.weight != 0) {
        note_reading(scan, form, OF_SHARE, sighting, &sighting->share);
    }
    if (sighting->host.weight != 0)
        note_reading(scan, form, OF_HOST, sighting, &sighting->host);
}

static void note_json(void *context, const hr__sighting *sighting)
{
    hr__step_log_scan *scan = context;
    hr__sighting seen = *sighting;
    scan->open_lines = 0;
    seen.is_plain = seen.step_weight != 0;
    note_point(scan, FORM_JSON, &seen);
}

/* ---- what is passed over --------------------------------------------------------------------- */

/* One more line or object that was read and said nothing. */
static void note_vain(hr__step_log_scan *scan)
{
    if (++scan->vain_count < MOST_VAIN)
        return;
    scan->vain_count = 0;
    scan->sampling *= scan->sampling < UINT64_C(1) << 30 ? 2 : 1;
}

/* Is this line left out? A generator of 64 bits is enough, and the same for every reader. */
static bool is_passed_over(hr__step_log_scan *scan)
{
    if (scan->sampling == 1)
        return false;
    scan->dice = scan->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((scan->dice >> 33) & (scan->sampling - 1)) != 0;
}

/* An object in a list: is it left out? */
static bool passes_object(void *context)
{
    hr__step_log_scan *scan = context;
    if (is_passed_over(scan))
        return true;
    scan->line_weight = scan->sampling;
    if (scan->sighted_count == scan->sighted_before)
        note_vain(scan); /* the one before */
    scan->sighted_before = scan->sighted_count;
    return false;
}

/* Eight bytes with every digit made a 0. */
static uint64_t without_digits(uint64_t bytes)
{
    const uint64_t low = UINT64_C(0x0101010101010101), high = low << 7, zeros = low * '0';
    uint64_t folded = bytes ^ zeros; /* digits are below ten */
    uint64_t is_no_digit = (folded | ((folded & ~high) + low * (128 - 10))) & high;
    uint64_t digits = ((~is_no_digit & high) >> 7) * 255;
    return (bytes & ~digits) | (zeros & digits);
}

/* What a line says, but for its digits; their number counts. Never 0. */
static uint64_t shape_of(const char *line, size_t size)
{
    uint64_t shape = size, bytes;
    for (; size != 0;) {
        size_t taken = size < sizeof bytes ? size : sizeof bytes;
        bytes = 0;
        if (taken == sizeof bytes)
            memcpy(&bytes, line, sizeof bytes);
        else
            memcpy(&bytes, line, taken);
        shape = (shape ^ without_digits(bytes)) * UINT64_C(0x9E3779B97F4A7C15);
        shape ^= shape >> 32;
        line += taken;
        size -= taken;
    }
    return shape != 0 ? shape : 1;
}

static bool is_known_shape(const hr__step_log_scan *scan, uint64_t shape)
{
    return scan->shapes[shape % SHAPE_SLOTS] == shape;
}

static void note_shape(hr__step_log_scan *scan, uint64_t shape)
{
    if (shape != 0)
        scan->shapes[shape % SHAPE_SLOTS] = shape;
}

/* ---- a line, closely ------------------------------------------------------------------------- */

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

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
        while (next < end && is_blank(*next))
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
    while (next < size && is_blank(line[next]))
        next++;
    if (line[0] == '{')
        return next == size || line[next] == '"' || line[next] == '\'';
    return line[0] == '[' && (next == size || line[next] == '{');
}

static bool goes_on_as_json(const char *line, size_t size)
{
    if (line[0] == '[')
        return begins_as_json(line, size);
    return memchr("\"'{}],", line[0], 6) != NULL || is_digit(line[0]) || line[0] == '-';
}

/* An object that was left open takes this line, or is given up. */
static bool continue_json(hr__step_log_scan *scan, const char *line, size_t size)
{
    if (scan->json.depth == 0)
        return false;
    if (goes_on_as_json(line, size) && scan->open_lines++ < MOST_OPEN_LINES) {
        hr__step_json_walk(&scan->json, line, size);
        return true;
    }
    hr__step_json_reset(&scan->json);
    return false;
}

static bool read_json(hr__step_log_scan *scan, const char *line, size_t size)
{
    uint64_t before = scan->sighted_count;
    bool is_whole_line = begins_as_json(line, size);
    size_t begin = is_whole_line ? 0 : find_object(line, size);
    if (begin == SIZE_MAX)
        return false;
    scan->open_lines = 0;
    hr__step_json_reset(&scan->json);
    hr__step_json_walk(&scan->json, line + begin, size - begin);
    if (!is_whole_line)
        hr__step_json_reset(&scan->json);
    return scan->sighted_count != before || scan->json.depth != 0;
}

/* A header that had no rows was none: one that comes again need not be read. */
static bool read_header(hr__step_log_scan *scan, const char *line, size_t size, uint64_t shape)
{
    if (!hr__step_table_read_header(&scan->table, line, size))
        return false;
    if (scan->table_rows == 0) {
        note_shape(scan, scan->header_shape);
        note_vain(scan);
    }
    scan->header_shape = shape;
    scan->table_rows = 0;
    return true;
}

/* A line with a hint in it. Did it say something? */
static bool read_closely(hr__step_log_scan *scan, const char *line, size_t size, uint64_t shape)
{
    hr__sighting sighting;
    if (is_failure_report(line, size))
        return false;
    if (size <= LINE_BYTES && memchr(line, '\033', size) != NULL) {
        size = without_colours(line, size, scan->clean);
        line = scan->clean;
    }
    if (size != 0 && read_json(scan, line, size))
        return true;
    if (!hr__step_text_read(line, size, scan->sighted_count < FEWEST_POINTS, &sighting))
        return size != 0 && read_header(scan, line, size, shape);
    note_point(scan, FORM_TEXT, &sighting);
    return true;
}

/* JSON that goes on in the next line may begin with a bracket and nothing else: at the margin only,
 * where hr__step_dull_bytes() sees it. */
static bool opens_json(const char *line, size_t size, bool is_at_margin)
{
    return is_at_margin && (line[0] == '{' || line[0] == '[') &&
           memchr("{[,", line[size - 1], 3) != NULL && begins_as_json(line, size);
}

static void read_part(hr__step_log_scan *scan, const char *line, size_t size, bool is_first)
{
    hr__sighting sighting;
    bool is_at_margin = is_first;
    while (size != 0 && is_blank(line[0])) {
        is_at_margin = false;
        line++;
        size--;
    }
    while (size != 0 && is_blank(line[size - 1]))
        size--;
    scan->line_weight = 1;
    scan->blank_count += size == 0 && is_first;
    if (size == 0 || continue_json(scan, line, size))
        return;
    bool may_open = opens_json(line, size, is_at_margin);
    uint64_t shape = shape_of(line, size);
    bool is_known = is_known_shape(scan, shape);
    bool has_hint = !is_known && hr__step_hint_in_line(line, size);
    if (!has_hint && may_open)
        (void)read_json(scan, line, size);
    if ((!has_hint && !scan->table.is_open) || is_passed_over(scan))
        return;
    scan->line_weight = scan->sampling;
    if (hr__step_table_read_row(&scan->table, line, size, &sighting)) {
        sighting.is_plain = sighting.step_weight != 0;
        scan->table_rows++;
        note_point(scan, FORM_TABLE, &sighting);
    } else if (has_hint && !read_closely(scan, line, size, shape)) {
        note_shape(scan, shape);
        note_vain(scan);
    }
}

/* A line without its end. Most have no carriage return but perhaps a last one. */
static void read_line(hr__step_log_scan *scan, const char *line, size_t size)
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
static void cut_line(hr__step_log_scan *scan)
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

static void carry(hr__step_log_scan *scan, const char *bytes, size_t size)
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

static void end_carried_line(hr__step_log_scan *scan)
{
    if (!scan->is_skipping)
        read_line(scan, scan->line, scan->carried);
    scan->is_skipping = false;
    scan->carried = 0;
}

static hr_status status_of(const hr__step_log_scan *scan)
{
    return scan->has_failed ? hr__fail_host_memory(HR__STEP_LOG_MOST * sizeof(raw_point),
                                                   "the points of a step log")
                            : HR_OK;
}

/* Is a line of interest for its own sake only, and not for what came before it? */
static bool is_idle(const hr__step_log_scan *scan)
{
    return scan->carried == 0 && !scan->is_skipping && scan->json.depth == 0 &&
           !scan->table.is_open;
}

hr_status hr__step_log_scan_feed(hr__step_log_scan *scan, const char *bytes, size_t size_bytes)
{
    if (size_bytes == 0)
        return status_of(scan);
    const char *end = bytes + size_bytes, *line_end;
    while (bytes != end) {
        if (scan->line_count >= FEW_LINES && is_idle(scan))
            bytes += hr__step_dull_bytes(bytes, (size_t)(end - bytes), &scan->line_count);
        line_end = memchr(bytes, '\n', (size_t)(end - bytes));
        if (line_end == NULL)
            break;
        size_t size = (size_t)(line_end - bytes);
        scan->line_count++;
        if (scan->carried == 0 && !scan->is_skipping && size < LINE_BYTES) {
            read_line(scan, bytes, size);
        } else {
            carry(scan, bytes, size);
            end_carried_line(scan);
        }
        bytes = line_end + 1;
    }
    carry(scan, bytes, (size_t)(end - bytes));
    return status_of(scan);
}

/* ---- the result ------------------------------------------------------------------------------ */

/* A few lines that look like one, in a long text that does not, are no step log; those without a
 * step are taken for one even less. One or two that cannot be anything else are, where there is
 * nothing else but perhaps a header. */
static bool is_log(const hr__step_log_scan *scan, const series *found)
{
    uint64_t share = found->is_bare ? LEAST_SHARE_BARE : LEAST_SHARE;
    bool is_much_of_it = found->found_count * share >= scan->line_count;
    bool is_many = found->has_step && found->found_count >= MANY_POINTS;
    uint64_t blank_count = scan->blank_count + (found->form == FORM_TABLE);
    bool is_all =
        scan->line_count < FEW_LINES && found->found_count + blank_count >= scan->line_count;
    if (found->found_count < FEWEST_POINTS)
        return found->is_plain && is_all;
    return is_many || is_much_of_it;
}

static bool is_better(const series *one, const series *other)
{
    if ((one->kind == OF_HOST) != (other->kind == OF_HOST))
        return other->kind == OF_HOST;
    if (one->has_step != other->has_step)
        return one->has_step;
    if (one->found_count != other->found_count)
        return one->found_count > other->found_count;
    return one->weight > other->weight;
}

/* Where no unit was said. No card has 2^20 MB, and none that was ever sold 400 GB; whole numbers
 * below that are MB, since nobody watches memory in whole GB. */
static double guessed_unit_bytes(const series *from)
{
    enum { LARGEST_CARD_GIB = 400 };
    if (from->has_unit || from->largest >= MIB)
        return 1;
    return from->has_fraction && from->largest < LARGEST_CARD_GIB ? GIB : MIB;
}

static uint64_t to_bytes(double bytes)
{
    const double most = 1024 * 1024 * 1024 * GIB; /* a unit may have been guessed wrong */
    return (uint64_t)(bytes < most ? bytes + 0.5 : most);
}

/* Fractions of epochs count nothing that a person knows: the lines are counted instead. */
static bool has_fractions_of_epochs(const series *from)
{
    bool has_fraction = false;
    for (size_t i = 0; i < from->count && from->is_epoch && !has_fraction; i++)
        has_fraction = (double)(uint64_t)from->points[i].step < from->points[i].step;
    return has_fraction;
}

/* `points` has room for all of them. */
static hr__step_log log_of(const series *from, hr__step_point *points, uint64_t line_count)
{
    double unit_bytes =
        from->kind == OF_SHARE ? HR__STEP_SHARE_OF_ALL / 100.0 : guessed_unit_bytes(from);
    bool counts_lines = has_fractions_of_epochs(from);
    for (size_t i = 0; i < from->count; i++) {
        const raw_point *point = &from->points[i];
        points[i] = (hr__step_point){
            .step = counts_lines ? (double)(i * from->stride) : point->step,
            .allocated_bytes = to_bytes(point->allocated * unit_bytes),
            .reserved_bytes =
                point->reserved >= 0 ? to_bytes(point->reserved * unit_bytes) : HR__UNKNOWN_BYTES,
        };
    }
    hr__step_log log = {
        .points = points,
        .point_count = from->count,
        .line_count = line_count,
        .found_count = from->found_count,
        .form = form_names[from->form],
        .step_name = counts_lines      ? "logged line"
                     : !from->has_step ? "line"
                     : from->is_epoch  ? "epoch"
                                       : "step",
        .rank = from->rank,
        .is_peak = from->is_peak,
        .is_host = from->kind == OF_HOST,
        .is_free = from->kind == OF_FREE,
        .is_share = from->kind == OF_SHARE,
    };
    memcpy(log.memory_name, from->name, sizeof log.memory_name);
    return log;
}

/* The same on another rank, or the memory of the host. */
static bool goes_with(const hr__step_log_scan *scan, const series *best, const series *other)
{
    if (other == best || other->found_count < FEWEST_POINTS)
        return false;
    if (other->kind == OF_HOST && best->kind != OF_HOST)
        return is_log(scan, other) && other->has_step == best->has_step;
    return other->kind == best->kind && other->form == best->form &&
           other->has_step == best->has_step && other->has_unit == best->has_unit &&
           other->rank != best->rank && other->found_count * 2 >= best->found_count &&
           strcmp(other->name, best->name) == 0;
}

static hr_status give_logs(hr__step_log_scan *scan, const series *best, hr__step_log *out)
{
    size_t count = 0, used = best->count, other_count = 0;
    for (size_t i = 0; i < scan->series_count; i++)
        count += scan->all[i].count;
    scan->result = hr__host_alloc(count * sizeof *scan->result);
    if (scan->result == NULL)
        return hr__fail_host_memory(count * sizeof *scan->result, "the points of a step log");
    *out = log_of(best, scan->result, scan->line_count);
    for (size_t i = 0; i < scan->series_count; i++) {
        if (!goes_with(scan, best, &scan->all[i]))
            continue;
        scan->others[other_count++] = log_of(&scan->all[i], scan->result + used, scan->line_count);
        used += scan->all[i].count;
    }
    out->others = scan->others;
    out->other_count = other_count;
    return HR_OK;
}

hr_status hr__step_log_scan_finish(hr__step_log_scan *scan, hr__step_log *out)
{
    if (scan->carried != 0 || scan->is_skipping) {
        scan->line_count++;
        end_carried_line(scan);
    }
    HR__TRY(status_of(scan));
    const series *best = NULL;
    for (size_t i = 0; i < scan->series_count; i++)
        if (is_log(scan, &scan->all[i]) && (best == NULL || is_better(&scan->all[i], best)))
            best = &scan->all[i];
    hr__step_log log = {
        .line_count = scan->line_count, .form = "", .step_name = "line", .rank = -1};
    hr__host_free(scan->result);
    scan->result = NULL;
    if (best != NULL)
        HR__TRY(give_logs(scan, best, &log));
    *out = log;
    return HR_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

hr_status hr__step_log_scan_create(hr__step_log_scan **out)
{
    hr__step_log_scan *scan = hr__host_alloc_zeroed(1, sizeof *scan);
    if (scan == NULL)
        return hr__fail_host_memory(sizeof *scan, "the scan of a step log");
    scan->shapes = hr__host_alloc_zeroed(SHAPE_SLOTS, sizeof *scan->shapes);
    if (scan->shapes == NULL) {
        hr__host_free(scan);
        return hr__fail_host_memory(SHAPE_SLOTS * sizeof(uint64_t), "the scan of a step log");
    }
    scan->sampling = 1;
    hr__step_json_init(&scan->json, note_json, passes_object, scan);
    *out = scan;
    return HR_OK;
}

void hr__step_log_scan_destroy(hr__step_log_scan *scan)
{
    if (scan == NULL)
        return;
    for (size_t i = 0; i < scan->series_count; i++)
        hr__host_free(scan->all[i].points);
    hr__host_free(scan->result);
    hr__host_free(scan->shapes);
    hr__host_free(scan);
}
