/* step_log.c - from a text to the points of one step log.
 *
 * Most texts that come here are no step logs, and large: so a line is first checked, quickly, for a
 * word of memory or a unit of bytes. Lines that have one are read closely, and what they say is a
 * *sighting*: a point of some series (step_log_series.c). Where more are found than are kept, or
 * too many lines are read in vain, not all are read.
 *
 * Lines end with a line feed. What a progress bar overwrites ends with a carriage return, and is a
 * line of its own. A line that does not fit the buffer is cut behind a carriage return or a closing
 * brace, so that bars and arrays of any length can be read; any other is left out. */
#include "parse/step_log.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "parse/step_log_internal.h"

enum {
    LINE_BYTES = 64 << 10,
    MOST_OPEN_LINES = 4096, /* of an object that is spread over lines and does not end */
    SHAPE_SLOTS = 4096,     /* a power of two */
    MOST_VAIN = 4096        /* lines or objects read in vain, until one in two is left out */
};

/* Which lines need not be read. Reading a line closely is slow, and a log may be full of lines that
 * have a hint of memory in them and say nothing. So the *shapes* of such lines, numbers left out,
 * are remembered, and a line of a known shape is passed over. Where there is no end of new shapes,
 * or far more points than are kept, lines are *sampled*: one in two, four, eight is read, at
 * random, so that no rhythm of the log falls in step with ours. */
typedef struct sampler {
    uint64_t sampling; /* one line in so many is read: a power of two */
    uint64_t dice;
    uint64_t vain_count;          /* since the sampling last changed */
    uint64_t shapes[SHAPE_SLOTS]; /* of lines that said nothing; 0 = none */
} sampler;

struct vw__step_log_scan {
    vw__step_log_words words;
    vw__step_log_series_set series;
    vw__step_log_json json;
    vw__step_log_table table;
    size_t open_lines;       /* since an object was opened or a point found */
    uint64_t sighted_before; /* the last object of a list */
    vw__step_log_lines lines;
    uint64_t line_weight; /* how many lines this one stands for */
    sampler sampler;
    uint64_t header_shape; /* of the last table */
    uint64_t table_rows;   /* that it had so far */
    bool is_skipping;      /* the rest of an overlong line */
    size_t carried;
    char line[LINE_BYTES];  /* what came of the last line so far */
    char clean[LINE_BYTES]; /* a line without colours */
};

/* ---- which lines are read -------------------------------------------------------------------- */

/* Counts a line or object that was read and said nothing. */
static void note_vain_line(sampler *of)
{
    if (++of->vain_count < MOST_VAIN)
        return;
    of->vain_count = 0;
    of->sampling *= of->sampling < UINT64_C(1) << 30 ? 2 : 1;
}

/* Is the next line or object left out? Each call is another throw of the dice. A generator of 64
 * bits is enough, and the same for every reader. */
static bool is_passed_over(sampler *of)
{
    if (of->sampling == 1)
        return false;
    of->dice = of->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((of->dice >> 33) & (of->sampling - 1)) != 0;
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

/* A hash of the line with every digit made a 0. Never 0. It is made of every line that is looked
 * at, and so takes eight bytes at a time. */
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

/* One slot for a hash and no chains: a line whose shape was pushed out is read once more. */
static bool is_known_shape(const sampler *of, uint64_t shape)
{
    return of->shapes[shape % SHAPE_SLOTS] == shape;
}

static void remember_shape(sampler *of, uint64_t shape)
{
    if (shape != 0)
        of->shapes[shape % SHAPE_SLOTS] = shape;
}

/* ---- hints ----------------------------------------------------------------------------------- */

/* Two looks: a rough one at sixty-four bytes at a time, which most of a large log does not get
 * past, and an exact one at the line. */

/* Whether bytes from `at` are `word`, in either case. */
static bool has_word(const char *line, size_t size, size_t at, const char *word)
{
    for (; *word != '\0'; word++, at++)
        if (at >= size || (line[at] | 0x20) != *word)
            return false;
    return true;
}

static bool begins_hint(const char *line, size_t size, size_t at)
{
    char before = at != 0 ? line[at - 1] : ' ';
    bool is_unit_place = !vw__ascii_is_letter(before);
    switch (line[at] | 0x20) {
    case 'm':
        return has_word(line, size, at, "mem") || vw__ascii_is_digit(before) ||
               (is_unit_place &&
                (has_word(line, size, at, "mb") || has_word(line, size, at, "mib")));
    case 'g':
        return has_word(line, size, at, "gpu") || vw__ascii_is_digit(before) ||
               (is_unit_place &&
                (has_word(line, size, at, "gb") || has_word(line, size, at, "gib")));
    case 'v':
        return has_word(line, size, at, "vram") ||
               (at >= 5 && has_word(line, size, at - 5, "reserved"));
    case 'b':
        return has_word(line, size, at, "byte");
    case 'k':
        return is_unit_place && (has_word(line, size, at, "kb") || has_word(line, size, at, "kib"));
    case 'r':
        return is_unit_place && has_word(line, size, at, "rss") &&
               (at + 3 >= size || !vw__ascii_is_letter(line[at + 3]));
    case 'c':
        return at >= 4 && has_word(line, size, at - 4, "alloc");
    default:
        return false;
    }
}

/* Does a word of memory or a unit of bytes stand anywhere in the line? */
static bool has_hint(const char *line, size_t size)
{
    static const bool may_begin[256] = {
        ['m'] = true, ['M'] = true, ['g'] = true, ['G'] = true, ['v'] = true,
        ['V'] = true, ['c'] = true, ['C'] = true, ['b'] = true, ['B'] = true,
        ['k'] = true, ['K'] = true, ['r'] = true, ['R'] = true,
    };
    for (size_t at = 0; at < size; at++)
        if (may_begin[(unsigned char)line[at]] && begins_hint(line, size, at))
            return true;
    return false;
}

enum { BLOCK_BYTES = 64 };

/* The same, roughly and quickly, for many lines at once: false where no line that a byte of this
 * block is in the middle of can have a hint there. One byte before the block and two behind it are
 * read. A plain loop of fixed length, so that compilers make vector instructions of it. */
static bool may_have_hint(const char *block, unsigned *line_ends)
{
    unsigned char found = 0, ends = 0;
    for (int i = 0; i < BLOCK_BYTES; i++) {
        unsigned char before = (unsigned char)block[i - 1], byte = (unsigned char)block[i];
        unsigned char first = byte | 0x20, second = (unsigned char)block[i + 1] | 0x20;
        unsigned char third = (unsigned char)block[i + 2] | 0x20;
        unsigned char is_m = first == 'm', is_g = first == 'g';
        unsigned char is_behind_digit = (unsigned char)(before - '0') < 10;
        unsigned char is_mem = is_m & (second == 'e') & (third == 'm');
        unsigned char is_gpu = is_g & (second == 'p') & (third == 'u');
        unsigned char is_behind_letter = (unsigned char)((before | 0x20) - 'a') < 26;
        unsigned char is_bytes = (second == 'b') | ((second == 'i') & (third == 'b'));
        unsigned char is_word = is_bytes & !is_behind_letter;
        unsigned char is_unit =
            ((is_m | is_g) & (is_behind_digit | is_word)) | ((first == 'k') & is_word);
        unsigned char is_byte = (first == 'b') & (second == 'y') & (third == 't');
        unsigned char is_rss =
            (first == 'r') & (second == 's') & (third == 's') & !is_behind_letter;
        unsigned char is_vram = (first == 'v') & (second == 'r') & (third == 'a');
        unsigned char is_reserved = (first == 'r') & (second == 'v') & (third == 'e');
        unsigned char is_alloc = (first == 'l') & (second == 'l') & (third == 'o');
        unsigned char is_bracket = (before == '\n') & (first == '{'); /* either kind */
        found |= is_mem | is_gpu | is_unit | is_vram | is_reserved | is_alloc | is_bracket |
                 is_byte | is_rss;
        ends = (unsigned char)(ends + (byte == '\n'));
    }
    *line_ends = ends;
    return found != 0;
}

/* From the beginning of a line, how many bytes of whole lines may be left out, because nothing in
 * them is a hint or begins JSON. Adds to `*line_count` how many lines those are. */
static size_t dull_bytes(const char *bytes, size_t size, uint64_t *line_count)
{
    if (size == 0 || bytes[0] == '{' || bytes[0] == '[' || begins_hint(bytes, size, 0))
        return 0;
    size_t at = 1; /* a block looks at the byte before it */
    uint64_t count = bytes[0] == '\n';
    for (; at + BLOCK_BYTES + 2 <= size; at += BLOCK_BYTES) {
        unsigned line_ends;
        if (may_have_hint(bytes + at, &line_ends))
            break;
        count += line_ends;
    }
    const char *last_end = count != 0 ? memrchr(bytes, '\n', at) : NULL;
    *line_count += count;
    return last_end != NULL ? (size_t)(last_end - bytes) + 1 : 0;
}

/* ---- points ---------------------------------------------------------------------------------- */

/* Where only every so many sightings are kept, lines are read twice as often as that, no more. */
static void note_point(vw__step_log_scan *scan, vw__step_log_form form,
                       const vw__step_log_sighting *sighting)
{
    vw__step_log_series_note(&scan->series, form, sighting, scan->line_weight);
    if (scan->sampler.sampling < scan->series.most_stride / 2)
        scan->sampler.sampling = scan->series.most_stride / 2;
}

static void note_json(void *context, const vw__step_log_sighting *sighting)
{
    vw__step_log_scan *scan = context;
    vw__step_log_sighting seen = *sighting;
    scan->open_lines = 0;
    seen.is_plain = seen.step_weight != 0;
    note_point(scan, VW__STEP_LOG_FORM_JSON, &seen);
}

/* An object in a list: is it left out? */
static bool passes_object(void *context)
{
    vw__step_log_scan *scan = context;
    if (is_passed_over(&scan->sampler))
        return true;
    scan->line_weight = scan->sampler.sampling;
    if (scan->series.sighted_count == scan->sighted_before)
        note_vain_line(&scan->sampler); /* the one before */
    scan->sighted_before = scan->series.sighted_count;
    return false;
}

/* ---- a line, closely ------------------------------------------------------------------------- */

/* A report of running out of memory has figures, but is not a step. */
static bool is_failure_report(vw__line line)
{
    static const char *const words[] = {"out of memory", "OutOfMemory", "Tried to allocate"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(line.text, line.size_bytes, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

/* Escape sequences have digits in them. */
static vw__line without_colours(vw__line line, char *out)
{
    size_t count = 0;
    for (size_t at = 0; at < line.size_bytes; at++) {
        if (line.text[at] != '\033') {
            out[count++] = line.text[at];
            continue;
        }
        if (vw__line_at(line, at + 1) == '[')
            for (at += 2; at < line.size_bytes && (line.text[at] < '@' || line.text[at] > '~');)
                at++;
    }
    return (vw__line){out, count};
}

/* The rest of a line from where an object begins: a brace, and a name in quotes behind it. Empty:
 * nowhere. */
static vw__line find_object(vw__line line)
{
    const char *end = line.text + line.size_bytes;
    for (const char *at = line.text; (at = memchr(at, '{', (size_t)(end - at))) != NULL; at++) {
        vw__line rest = {at, (size_t)(end - at)};
        size_t next = vw__line_skip_blanks(rest, 1);
        if (next == rest.size_bytes || memchr("\"'{", rest.text[next], 3) != NULL)
            return rest;
    }
    return (vw__line){end, 0};
}

/* Does the line begin as JSON does that goes on in the next one? */
static bool begins_as_json(vw__line line)
{
    size_t next = vw__line_skip_blanks(line, 1);
    char byte = vw__line_at(line, next);
    if (line.text[0] == '{')
        return next >= line.size_bytes || byte == '"' || byte == '\'';
    return line.text[0] == '[' && (next >= line.size_bytes || byte == '{');
}

static bool goes_on_as_json(vw__line line)
{
    if (line.text[0] == '[')
        return begins_as_json(line);
    return memchr("\"'{}],-", line.text[0], 7) != NULL || vw__line_is_digit(line, 0);
}

/* An object that was left open takes this line, or is given up. */
static bool continue_json(vw__step_log_scan *scan, vw__line line)
{
    if (scan->json.depth == 0)
        return false;
    if (goes_on_as_json(line) && scan->open_lines++ < MOST_OPEN_LINES) {
        vw__step_log_json_walk(&scan->json, line);
        return true;
    }
    vw__step_log_json_reset(&scan->json);
    return false;
}

static bool read_json(vw__step_log_scan *scan, vw__line line)
{
    uint64_t before = scan->series.sighted_count;
    bool is_whole_line = begins_as_json(line);
    vw__line object = is_whole_line ? line : find_object(line);
    if (object.size_bytes == 0)
        return false;
    scan->open_lines = 0;
    vw__step_log_json_reset(&scan->json);
    vw__step_log_json_walk(&scan->json, object);
    if (!is_whole_line)
        vw__step_log_json_reset(&scan->json);
    return scan->series.sighted_count != before || scan->json.depth != 0;
}

/* A header without rows is not a header: its shape need not be read again. */
static bool read_header(vw__step_log_scan *scan, vw__line line, uint64_t shape)
{
    if (!vw__step_log_table_read_header(&scan->table, &scan->words, line))
        return false;
    if (scan->table_rows == 0) {
        remember_shape(&scan->sampler, scan->header_shape);
        note_vain_line(&scan->sampler);
    }
    scan->header_shape = shape;
    scan->table_rows = 0;
    return true;
}

/* Reads a line with a hint in it, and returns whether it said something. */
static bool read_closely(vw__step_log_scan *scan, vw__line line, uint64_t shape)
{
    vw__step_log_sighting sighting;
    bool is_asked = scan->series.sighted_count < VW__STEP_LOG_FEWEST;
    if (is_failure_report(line))
        return false;
    if (line.size_bytes <= LINE_BYTES && memchr(line.text, '\033', line.size_bytes) != NULL)
        line = without_colours(line, scan->clean);
    if (line.size_bytes != 0 && read_json(scan, line))
        return true;
    if (!vw__step_log_text_read(&scan->words, line, is_asked, &sighting))
        return line.size_bytes != 0 && read_header(scan, line, shape);
    note_point(scan, VW__STEP_LOG_FORM_TEXT, &sighting);
    return true;
}

/* JSON that goes on in the next line may begin with a bracket and nothing else: at the margin only,
 * where dull_bytes() sees it. */
static bool opens_json(vw__line line, bool is_at_margin)
{
    return is_at_margin && (line.text[0] == '{' || line.text[0] == '[') &&
           memchr("{[,", line.text[line.size_bytes - 1], 3) != NULL && begins_as_json(line);
}

static void read_part(vw__step_log_scan *scan, vw__line line, bool is_first)
{
    vw__step_log_sighting sighting;
    size_t margin = vw__line_skip_blanks(line, 0);
    line = (vw__line){line.text + margin, line.size_bytes - margin};
    while (line.size_bytes != 0 && vw__ascii_is_blank(line.text[line.size_bytes - 1]))
        line.size_bytes--;
    scan->line_weight = 1;
    scan->lines.blank_count += line.size_bytes == 0 && is_first;
    if (line.size_bytes == 0 || continue_json(scan, line))
        return;
    bool may_open = opens_json(line, is_first && margin == 0);
    uint64_t shape = shape_of(line.text, line.size_bytes);
    bool is_hint = !is_known_shape(&scan->sampler, shape) && has_hint(line.text, line.size_bytes);
    if (!is_hint && may_open)
        (void)read_json(scan, line);
    if ((!is_hint && !scan->table.is_open) || is_passed_over(&scan->sampler))
        return;
    scan->line_weight = scan->sampler.sampling;
    if (vw__step_log_table_read_row(&scan->table, line, &sighting)) {
        sighting.is_plain = sighting.step_weight != 0;
        scan->table_rows++;
        note_point(scan, VW__STEP_LOG_FORM_TABLE, &sighting);
    } else if (is_hint && !read_closely(scan, line, shape)) {
        remember_shape(&scan->sampler, shape);
        note_vain_line(&scan->sampler);
    }
}

/* A line without its end. Most have no carriage return but perhaps a last one. */
static void read_line(vw__step_log_scan *scan, const char *line, size_t size)
{
    const char *end = line + size, *part;
    bool is_first = true;
    while ((part = memchr(line, '\r', (size_t)(end - line))) != NULL) {
        read_part(scan, (vw__line){line, (size_t)(part - line)}, is_first);
        line = part + 1;
        is_first = false;
    }
    read_part(scan, (vw__line){line, (size_t)(end - line)}, is_first);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The buffer is full, and the line not at its end. */
static void cut_line(vw__step_log_scan *scan)
{
    const char *cut = memrchr(scan->line, '\r', scan->carried);
    if (cut == NULL &&
        (scan->json.depth != 0 || begins_as_json((vw__line){scan->line, scan->carried})))
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

/* Does nothing before this line matter for reading it? */
static bool is_idle(const vw__step_log_scan *scan)
{
    return scan->carried == 0 && !scan->is_skipping && scan->json.depth == 0 &&
           !scan->table.is_open;
}

vw_status vw__step_log_scan_feed(vw__step_log_scan *scan, const char *bytes, size_t size_bytes)
{
    if (size_bytes == 0)
        return vw__step_log_series_status(&scan->series);
    const char *end = bytes + size_bytes, *line_end;
    while (bytes != end) {
        if (scan->lines.count >= VW__STEP_LOG_FEW_LINES && is_idle(scan))
            bytes += dull_bytes(bytes, (size_t)(end - bytes), &scan->lines.count);
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
    return vw__step_log_series_status(&scan->series);
}

vw_status vw__step_log_scan_finish(vw__step_log_scan *scan, vw__step_log *out)
{
    if (scan->carried != 0 || scan->is_skipping) {
        scan->lines.count++;
        end_carried_line(scan);
    }
    return vw__step_log_series_finish(&scan->series, &scan->lines, out);
}

/* ---- life ------------------------------------------------------------------------------------ */

vw_status vw__step_log_scan_create(vw__step_log_scan **out)
{
    vw__step_log_scan *scan = vw__host_alloc_zeroed(1, sizeof *scan);
    if (scan == NULL)
        return vw__fail_host_memory(sizeof *scan, "the scan of a step log");
    scan->sampler.sampling = 1;
    vw__step_log_words_init(&scan->words);
    scan->json.words = &scan->words;
    scan->json.sink = note_json;
    scan->json.filter = passes_object;
    scan->json.sink_context = scan;
    *out = scan;
    return VW_OK;
}

void vw__step_log_scan_destroy(vw__step_log_scan *scan)
{
    if (scan == NULL)
        return;
    vw__step_log_series_deinit(&scan->series);
    vw__host_free(scan);
}

size_t vw__step_log_scan_held_bytes(const vw__step_log_scan *scan)
{
    return sizeof *scan + scan->series.points_bytes;
}
