/* traceback.c - frames, found by the few letters that every form of them has.
 *
 *   File "/x/train.py", line 88, in main          Python: the code is on the next line
 *   File /x/train.py:88, in main(args)            IPython 8: the code has an arrow, ---> 88
 *   /x/train.py in main(args)                     IPython 7, likewise; and <ipython-input-1-a> in f
 *   Cell In[3], line 5                            notebooks, likewise
 *   | /x/train.py:88 in main                      rich, in a box: the code has another arrow
 *
 * Around such letters, some lines are cleaned of colours and boxes and then read. Text in JSON has
 * its line ends and quotes written out; it is cleaned of those too. */
#include "parse/traceback.h"

#include <string.h>

#include "base/utf8.h"
#include "parse/line.h"

enum {
    BACK_BYTES = 600, /* of the line, before the letters that gave it away */
    AHEAD_BYTES = 2400,
    MOST_GAP_BYTES = 8 << 10,  /* without a frame: the traceback is over */
    MOST_BARE_BYTES = 16 << 10 /* without a header: so far back is looked */
};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- cleaning -------------------------------------------------------------------------------- */

/* Some lines without colours, boxes and escapes. */
typedef struct window {
    char text[BACK_BYTES + AHEAD_BYTES];
    size_t size_bytes;
    size_t at; /* of the letters that were found */
} window;

/* How many bytes at `text` are not part of it; `*clean` takes their place, '\0' = nothing does. */
static size_t substitute(const char *text, size_t size_bytes, bool is_escaped, char *clean)
{
    unsigned char first = (unsigned char)text[0];
    *clean = '\0';
    if (first == '\033')
        return vw__line_terminal_command(text, size_bytes);
    if (first == '\r')
        return 1;
    if (is_escaped && first == '\\' && size_bytes > 1) {
        *clean = text[1] == 'n' || text[1] == 'r' ? '\n' : text[1] == 't' ? ' ' : text[1];
        return 2;
    }
    /* Lines that boxes are drawn with: U+2500 to U+257F. */
    if (first == 0xe2 && size_bytes >= 3 &&
        ((unsigned char)text[1] == 0x94 || (unsigned char)text[1] == 0x95)) {
        *clean = ' ';
        return 3;
    }
    return 0;
}

static void clean_window(vw__traceback_piece piece, size_t at, window *out)
{
    size_t first = at > BACK_BYTES ? at - BACK_BYTES : 0;
    const char *line_end = memrchr(piece.text + first, '\n', at - first);
    first = line_end != NULL ? (size_t)(line_end - piece.text) + 1 : first;
    size_t end = piece.size_bytes - at > AHEAD_BYTES ? at + AHEAD_BYTES : piece.size_bytes;
    bool is_escaped = at >= 2 && piece.text[at - 1] == '"' && piece.text[at - 2] == '\\';
    out->size_bytes = out->at = 0;
    while (first < end) {
        char clean;
        size_t taken = substitute(piece.text + first, end - first, is_escaped, &clean);
        if (first <= at)
            out->at = out->size_bytes;
        if (taken == 0) {
            clean = piece.text[first];
            taken = 1;
        }
        if (clean != '\0')
            out->text[out->size_bytes++] = clean;
        first += taken;
    }
}

/* ---- lines of a window ----------------------------------------------------------------------- */

typedef struct span {
    size_t first, end;
} span;

static size_t end_of_line(const window *in, size_t at)
{
    const char *found = memchr(in->text + at, '\n', in->size_bytes - at);
    return found != NULL ? (size_t)(found - in->text) : in->size_bytes;
}

/* The line that begins at `first`, without its prefix and the blanks around it. */
static span line_at(const window *in, size_t first)
{
    vw__line_rank rank;
    span line = {first, end_of_line(in, first)};
    line.first += vw__line_prefix(in->text + first, line.end - first, &rank);
    while (line.first < line.end && vw__ascii_is_blank(in->text[line.first]))
        line.first++;
    while (line.end > line.first && vw__ascii_is_blank(in->text[line.end - 1]))
        line.end--;
    return line;
}

static bool has_at(const window *in, size_t at, const char *text)
{
    return vw__line_has((vw__line){in->text, in->size_bytes}, at, text);
}

static bool is_inside(const window *in, span line, const char *text)
{
    return memmem(in->text + line.first, line.end - line.first, text, strlen(text)) != NULL;
}

/* ---- keeping texts --------------------------------------------------------------------------- */

/* Control characters become blanks; bytes that are no UTF-8 become "?". The end is cut between
 * characters. */
static void keep(const char *text, size_t size_bytes, char *out, size_t out_bytes)
{
    size_t length = 0;
    for (size_t at = 0; at < size_bytes;) {
        uint32_t character;
        size_t taken = vw__utf8_next(text + at, size_bytes - at, &character);
        const char *from = character == VW__UTF8_INVALID ? "?" : character < 0x20 ? " " : text + at;
        size_t bytes = from == text + at ? taken : 1;
        at += taken;
        if (length + bytes >= out_bytes)
            break;
        memcpy(out + length, from, bytes);
        length += bytes;
    }
    out[length] = '\0';
}

/* The end of a path says more than its beginning. */
static void keep_path(const char *text, size_t size_bytes, char *out, size_t out_bytes)
{
    size_t dropped = size_bytes >= out_bytes ? size_bytes - out_bytes + 1 : 0;
    while (dropped < size_bytes && ((unsigned char)text[dropped] & 0xc0) == 0x80)
        dropped++;
    keep(text + dropped, size_bytes - dropped, out, out_bytes);
}

static uint32_t read_line_number(const window *in, size_t *at)
{
    enum { MOST_DIGITS = 7 };
    int value = vw__line_digits((vw__line){in->text, in->size_bytes}, at, MOST_DIGITS);
    return value > 0 ? (uint32_t)value : 0;
}

/* "main", "Trainer.fit", "<module>", "cupy.core.core.ndarray.__add__". Returns its end. */
static size_t read_function(const window *in, size_t at, vw__traceback_frame *frame)
{
    size_t end = at;
    while (end < in->size_bytes &&
           (vw__ascii_is_name(in->text[end]) || in->text[end] == '.' || in->text[end] == '<' ||
            in->text[end] == '>' || (unsigned char)in->text[end] >= 0x80))
        end++;
    keep(in->text + at, end - at, frame->function, sizeof frame->function);
    return end;
}

/* ---- code ------------------------------------------------------------------------------------ */

/* "torch.OutOfMemoryError: ...", "KeyError": what ends a traceback. */
static bool is_exception(const window *in, span line)
{
    size_t end = line.first;
    while (end < line.end && (vw__ascii_is_name(in->text[end]) || in->text[end] == '.'))
        end++;
    return end > line.first && (end == line.end || (in->text[end] == ':' && end + 1 < line.end &&
                                                    in->text[end + 1] == ' '));
}

static bool is_code(const window *in, span line)
{
    static const char *const others[] = {"File ", "Traceback ", "During handling", "The above "};
    if (line.first == line.end || in->text[line.first] == '[' || in->text[line.first] == '^')
        return false;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (has_at(in, line.first, others[i]))
            return false;
    return !is_exception(in, line);
}

/* The line below that of `at`, if it is one of code. */
static void read_next_line(const window *in, size_t at, vw__traceback_frame *frame)
{
    size_t end = end_of_line(in, at);
    if (end >= in->size_bytes)
        return;
    span line = line_at(in, end + 1);
    if (is_code(in, line))
        keep(in->text + line.first, line.end - line.first, frame->code, sizeof frame->code);
}

/* Behind "--->" or rich's arrow; 0 where the line has none. */
static size_t skip_arrow(const window *in, span line)
{
    static const char rich_arrow[] = "\xe2\x9d\xb1";
    size_t at = line.first;
    if (has_at(in, at, rich_arrow))
        return at + sizeof rich_arrow - 1;
    while (at < line.end && in->text[at] == '-')
        at++;
    return at >= line.first + 2 && at < line.end && in->text[at] == '>' ? at + 1 : 0;
}

/* Of the lines below that of `at`, the one with an arrow. */
static void read_marked_line(const window *in, size_t at, vw__traceback_frame *frame)
{
    enum { MOST_LINES = 16 };
    for (int i = 0; i < MOST_LINES; i++) {
        at = end_of_line(in, at);
        if (at >= in->size_bytes)
            return;
        span line = line_at(in, ++at);
        size_t here = skip_arrow(in, line);
        if (here == 0)
            continue;
        while (here < line.end && vw__ascii_is_blank(in->text[here]))
            here++;
        uint32_t number = read_line_number(in, &here);
        while (here < line.end && vw__ascii_is_blank(in->text[here]))
            here++;
        frame->line = frame->line != 0 ? frame->line : number;
        keep(in->text + here, line.end - here, frame->code, sizeof frame->code);
        return;
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* `File "PATH", line 88, in main` and `Cell In[3], line 5`, by the ", line ". */
static bool read_python(const window *in, vw__traceback_frame *frame)
{
    static const char file[] = "File \"", cell[] = "Cell In";
    size_t at = in->at, path_end = at;
    vw__line_rank rank;
    const char *line_end = memrchr(in->text, '\n', at);
    size_t first = line_end != NULL ? (size_t)(line_end - in->text) + 1 : 0;
    size_t start = first + vw__line_prefix(in->text + first, at - first, &rank);
    size_t path = SIZE_MAX;
    for (size_t i = at; i-- > first && path == SIZE_MAX;)
        if (has_at(in, i, file))
            path = i + sizeof file - 1;
    bool is_cell = false;
    if (path != SIZE_MAX && path < at && in->text[at - 1] == '"') {
        path_end = at - 1;
    } else {
        while (start < at && vw__ascii_is_blank(in->text[start]))
            start++;
        is_cell = has_at(in, start, cell);
        path = start;
    }
    if ((path_end == at && !is_cell) || path_end <= path)
        return false;
    at += strlen(", line ");
    frame->line = read_line_number(in, &at);
    if (frame->line == 0)
        return false;
    keep_path(in->text + path, path_end - path, frame->file, sizeof frame->file);
    if (has_at(in, at, ", in "))
        at = read_function(in, at + strlen(", in "), frame);
    bool is_whole_line =
        at == in->size_bytes || in->text[at] == '\n' || in->text[at] == '(' ||
        vw__line_skip_blanks((vw__line){in->text, end_of_line(in, at)}, at) == end_of_line(in, at);
    if (is_cell)
        read_marked_line(in, at, frame);
    else if (is_whole_line) /* else lines were joined, and the next is not the code */
        read_next_line(in, at, frame);
    return true;
}

/* `PATH.py:88 in main`, `File PATH.py:88, in main(...)` and `PATH.py in main(...)`, by the ".py";
 * `<ipython-input-1-abc> in main(...)` likewise. */
static bool read_path(const window *in, size_t path_end, vw__traceback_frame *frame)
{
    size_t at = path_end;
    const char *line_end = memrchr(in->text, '\n', in->at);
    span line = line_at(in, line_end != NULL ? (size_t)(line_end - in->text) + 1 : 0);
    if (line.first > in->at || path_end > in->size_bytes)
        return false;
    bool has_number = at < in->size_bytes && in->text[at] == ':';
    if (has_number) {
        at++;
        frame->line = read_line_number(in, &at);
    }
    at += at < in->size_bytes && in->text[at] == ',';
    bool is_named_file = has_at(in, line.first, "File ");
    size_t path = line.first + (is_named_file ? strlen("File ") : 0);
    if ((has_number && frame->line == 0) || !has_at(in, at, " in ") || path >= path_end ||
        in->text[path] == '"' ||
        is_inside(in, (span){path, path_end}, ": ")) /* of a warning, or of prose */
        return false;
    at = read_function(in, at + strlen(" in "), frame);
    if (frame->function[0] == '\0')
        return false;
    vw__traceback_frame marked = *frame;
    read_marked_line(in, at, &marked);
    if (!has_number && marked.line == 0)
        return false; /* "found train.py in folder": no arrow, no frame */
    *frame = marked;
    keep_path(in->text + path, path_end - path, frame->file, sizeof frame->file);
    return true;
}

/* ---- tracebacks ------------------------------------------------------------------------------ */

static int rank_of_line(vw__traceback_piece piece, size_t at)
{
    enum { MOST_BACK = 2 << 10 };
    size_t back = at < MOST_BACK ? at : MOST_BACK;
    const char *line_end = memrchr(piece.text + at - back, '\n', back);
    size_t first = line_end != NULL ? (size_t)(line_end - piece.text) + 1 : at - back;
    vw__line_rank rank = {-1, false};
    (void)vw__line_prefix(piece.text + first, at - first, &rank);
    return rank.rank;
}

/* The slot of a rank; the one that was longest without a frame where it has none. */
static vw__traceback_slot *slot_of(vw__traceback_scan *scan, int rank)
{
    vw__traceback_slot *oldest = &scan->slots[0];
    for (size_t i = 0; i < scan->slot_count; i++) {
        if (scan->slots[i].rank == rank)
            return &scan->slots[i];
        if (scan->slots[i].end < oldest->end)
            oldest = &scan->slots[i];
    }
    if (scan->slot_count < VW__TRACEBACK_SLOTS)
        oldest = &scan->slots[scan->slot_count++];
    *oldest = (vw__traceback_slot){.rank = rank};
    return oldest;
}

static void add_frame(vw__traceback_scan *scan, int rank, uint64_t end,
                      const vw__traceback_frame *frame)
{
    vw__traceback_slot *slot = slot_of(scan, rank);
    vw__traceback *read = &slot->read;
    if (read->frame_count != 0 && end - slot->end > MOST_GAP_BYTES)
        *read = (vw__traceback){.frame_count = 0};
    vw__traceback_opinion opinion = scan->judge(frame);
    read->frame_count += read->frame_count < UINT32_MAX;
    read->innermost = *frame;
    if (opinion.is_users)
        read->users = *frame;
    if (opinion.mark != 0)
        read->mark = opinion.mark;
    read->marks |= opinion.marks;
    slot->end = scan->last_end = end;
}

void vw__traceback_begin(vw__traceback_scan *scan, vw__traceback_piece piece, size_t at)
{
    if (scan->judge == NULL)
        return;
    if (!scan->is_open)
        scan->slot_count = 0;
    vw__traceback_slot *slot = slot_of(scan, rank_of_line(piece, at));
    slot->read = (vw__traceback){.frame_count = 0};
    slot->end = scan->last_end = piece.base + at;
    scan->is_open = true;
}

static const char *const signs[] = {", line ", ".py", "<ipython-input-"};
enum { SIGN_LINE, SIGN_PATH, SIGN_CELL };

/* Reads the frame that `sign`, at byte `at`, belongs to. */
static bool read_frame(vw__traceback_piece piece, size_t at, size_t sign,
                       vw__traceback_frame *frame)
{
    window in;
    char behind = at + 3 < piece.size_bytes ? piece.text[at + 3] : '\0';
    *frame = (vw__traceback_frame){.line = 0};
    if (sign == SIGN_PATH && behind != ':' && behind != ' ' && behind != '\033')
        return false;
    clean_window(piece, at, &in);
    if (sign == SIGN_LINE)
        return read_python(&in, frame);
    if (sign == SIGN_PATH)
        return read_path(&in, in.at + 3, frame);
    const char *end = memchr(in.text + in.at, '>', in.size_bytes - in.at);
    return end != NULL && read_path(&in, (size_t)(end - in.text) + 1, frame);
}

/* The next place of each sign; SIZE_MAX = none before the end. */
static size_t find_sign(vw__traceback_piece piece, size_t first, size_t end, size_t sign)
{
    size_t length = strlen(signs[sign]);
    size_t limit = piece.size_bytes - end > length ? end + length - 1 : piece.size_bytes;
    const char *found =
        first < limit ? memmem(piece.text + first, limit - first, signs[sign], length) : NULL;
    return found != NULL ? (size_t)(found - piece.text) : SIZE_MAX;
}

void vw__traceback_read(vw__traceback_scan *scan, vw__traceback_piece piece, size_t first,
                        size_t end)
{
    size_t next[COUNT_OF(signs)];
    if (!scan->is_open || first >= end)
        return;
    for (size_t sign = 0; sign < COUNT_OF(signs); sign++)
        next[sign] = find_sign(piece, first, end, sign);
    while (scan->is_open) {
        size_t sign = 0;
        for (size_t i = 1; i < COUNT_OF(signs); i++)
            sign = next[i] < next[sign] ? i : sign;
        size_t at = next[sign];
        uint64_t here = piece.base + (at < end ? at : end);
        if (here > scan->last_end && here - scan->last_end > MOST_GAP_BYTES)
            scan->is_open = false;
        if (at >= end || !scan->is_open)
            return;
        vw__traceback_frame frame;
        if (read_frame(piece, at, sign, &frame))
            add_frame(scan, rank_of_line(piece, at), piece.base + at, &frame);
        next[sign] = find_sign(piece, at + 1, end, sign);
    }
}

/* The slot that printed last, of `rank` if it has frames. */
static const vw__traceback_slot *best_slot(const vw__traceback_scan *scan, uint64_t at, int rank)
{
    const vw__traceback_slot *best = NULL;
    for (size_t i = 0; i < scan->slot_count; i++) {
        const vw__traceback_slot *slot = &scan->slots[i];
        if (slot->read.frame_count == 0 || at - slot->end > MOST_GAP_BYTES)
            continue;
        if (slot->rank == rank)
            return slot;
        if (best == NULL || slot->end > best->end)
            best = slot;
    }
    return best;
}

const vw__traceback *vw__traceback_before(vw__traceback_scan *scan, vw__traceback_piece piece,
                                          size_t first, size_t at, int rank)
{
    if (scan->judge == NULL)
        return NULL;
    const vw__traceback_slot *slot = scan->is_open ? best_slot(scan, piece.base + at, rank) : NULL;
    if (slot == NULL) {
        first = at - first > MOST_BARE_BYTES ? at - MOST_BARE_BYTES : first;
        scan->slot_count = 0;
        scan->is_open = true;
        scan->last_end = piece.base + at; /* however far its frames are apart */
        vw__traceback_read(scan, piece, first, at);
        slot = best_slot(scan, piece.base + at, rank);
    }
    scan->is_open = false;
    return slot != NULL ? &slot->read : NULL;
}

const vw__traceback *vw__traceback_open(const vw__traceback_scan *scan)
{
    const vw__traceback_slot *slot = scan->is_open ? best_slot(scan, scan->last_end, -1) : NULL;
    return slot != NULL ? &slot->read : NULL;
}
