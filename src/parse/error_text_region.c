/* error_text_region.c - cleaning some kilobytes of text, and looking for words in them.
 *
 * Line by line: colours and escapes are left out while the line is copied, then its prefix is cut
 * off. Line ends stay in the clean text, for the quotation, and go when it is squeezed. */
#include "parse/error_text_internal.h"

#include <string.h>

#include "base/utf8.h"

/* ---- one line -------------------------------------------------------------------------------- */

/* Decodes an escape: `*clean` becomes the character ('\0' = it is dropped). Returns how many bytes
 * the escape takes; 0 where the byte stands for itself. */
static size_t substitute_bytes(const char *text, size_t size_bytes, char *clean)
{
    static const struct {
        const char *text;
        char clean;
    } substitutes[] = {
        {"\\n", '\n'},     {"\\r", '\n'},         {"\\t", ' '},        {"\\\"", '"'},
        {"\\'", '\''},     {"&gt;", '>'},         {"&lt;", '<'},       {"&amp;", '&'},
        {"&quot;", '"'},   {"&#39;", '\''},       {"&#x27;", '\''},    {"&nbsp;", ' '},
        {"\xc2\xa0", ' '}, {"\xe2\x80\x8b", 0},   {"\xef\xbb\xbf", 0}, {"\xe2\x80\xaf", ' '},
        {"<br>", '\n'},    {"<br/>", '\n'},       {"</span>", 0},      {"\r\n", '\n'},
        {"\r", '\n'},      {"\xe3\x80\x80", ' '},
    };
    static const char *const escapes[] = {"\\u001b", "\\x1b", "\\033", "\\e", "\xe2\x90\x9b"};
    unsigned char first = (unsigned char)text[0];
    *clean = '\0';
    if (first == '\033')
        return vw__line_terminal_command(text, size_bytes);
    if (first < 0x20 && first != '\t' && first != '\n' && first != '\r')
        return 1;
    if (first != '\\' && first != '&' && first != '<' && first != '\r' && first < 0x80)
        return 0;
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
        if (vw__line_has((vw__line){text, size_bytes}, 0, escapes[i]) &&
            size_bytes > strlen(escapes[i]) && text[strlen(escapes[i])] == '[') {
            size_t length = strlen(escapes[i]) - 1;
            return length + vw__line_terminal_command(text + length, size_bytes - length);
        }
    for (size_t i = 0; i < sizeof substitutes / sizeof *substitutes; i++)
        if (vw__line_has((vw__line){text, size_bytes}, 0, substitutes[i].text)) {
            *clean = substitutes[i].clean;
            return strlen(substitutes[i].text);
        }
    /* Digits, letters and marks in full width, U+FF01 to U+FF5E: those of ASCII, a cell wide. */
    if (first == 0xef && size_bytes >= 3 &&
        ((unsigned char)text[1] == 0xbc || (unsigned char)text[1] == 0xbd)) {
        unsigned wide = ((unsigned)(unsigned char)text[1] & 0x3f) << 6 |
                        ((unsigned)(unsigned char)text[2] & 0x3f); /* U+FFxx: 0xF00 and xx */
        if (wide >= 0xf01 && wide <= 0xf5e) {
            *clean = (char)(wide - 0xf01 + '!');
            return 3;
        }
    }
    /* Boxes that programs draw around a traceback: U+2500 to U+257F. */
    if (first == 0xe2 && size_bytes >= 3 &&
        ((unsigned char)text[1] == 0x94 || (unsigned char)text[1] == 0x95)) {
        *clean = ' ';
        return 3;
    }
    return 0;
}

/* True for nearly all bytes. */
static inline bool stands_for_itself(unsigned char byte)
{
    return byte >= ' ' && byte < 0x80 && byte != '\\' && byte != '&' && byte != '<';
}

static void append_clean(vw__error_text_region *region, char c, size_t raw_at)
{
    if (region->clean_bytes == VW__ERROR_TEXT_REGION_BYTES)
        return;
    region->raw_of[region->clean_bytes] = (uint16_t)raw_at;
    region->clean[region->clean_bytes++] = c;
}

/* Cuts the prefix off the line that begins at `first` and ends where the clean text does. */
static void end_line(vw__error_text_region *region, size_t first, bool is_whole)
{
    vw__line_rank rank = {-1, false};
    size_t size_bytes = region->clean_bytes - first;
    if (is_whole) {
        size_t prefix = vw__line_prefix(region->clean + first, size_bytes, &rank);
        memmove(region->clean + first, region->clean + first + prefix, size_bytes - prefix);
        memmove(region->raw_of + first, region->raw_of + first + prefix,
                (size_bytes - prefix) * sizeof *region->raw_of);
        region->clean_bytes -= prefix;
    }
    if (region->line_count < VW__ERROR_TEXT_REGION_MOST_LINES)
        region->lines[region->line_count++] = (vw__error_text_region_line){(uint16_t)first, rank};
}

static void clean_lines(vw__error_text_region *region, const char *raw, size_t size_bytes,
                        bool is_line_start)
{
    size_t first = 0;
    region->clean_bytes = region->line_count = 0;
    for (size_t at = 0; at < size_bytes;) {
        char c = raw[at];
        size_t taken = 0;
        if (stands_for_itself((unsigned char)c)) {
            append_clean(region, c, at++);
            continue;
        }
        taken = substitute_bytes(raw + at, size_bytes - at, &c);
        if (taken == 0) {
            c = raw[at];
            taken = 1;
        }
        if (c == '\n') {
            end_line(region, first, is_line_start);
            append_clean(region, '\n', at);
            first = region->clean_bytes;
            is_line_start = true;
        } else if (c != '\0') {
            append_clean(region, c, at);
        }
        at += taken;
    }
    end_line(region, first, is_line_start);
}

/* ---- prefixes that nobody knows -------------------------------------------------------------- */

static size_t line_end(const vw__error_text_region *region, size_t line)
{
    return line + 1 < region->line_count ? region->lines[line + 1].at - (size_t)1
                                         : region->clean_bytes;
}

static bool ends_prefix(char c)
{
    return c == ':' || c == '|' || c == '>' || c == ']' || c == ')' || c == '}';
}

/* Length of the beginning that a line and the next share, up to a mark that ends a prefix; any two
 * digits count as equal. 0 where there is no such mark. */
static size_t common_prefix(const vw__error_text_region *region, size_t line)
{
    enum { MOST_COMMON = 64, LEAST_COMMON = 3 };
    const char *a = region->clean + region->lines[line].at;
    const char *b = region->clean + region->lines[line + 1].at;
    size_t a_bytes = line_end(region, line) - region->lines[line].at;
    size_t b_bytes = line_end(region, line + 1) - region->lines[line + 1].at;
    size_t common = 0;
    for (size_t i = 0; i < a_bytes && i < b_bytes && i < MOST_COMMON; i++) {
        if (a[i] != b[i] && !(vw__ascii_is_digit(a[i]) && vw__ascii_is_digit(b[i])))
            break;
        if (ends_prefix(a[i]))
            common = i + 1;
    }
    return common >= LEAST_COMMON ? common : 0;
}

/* Does it contain words of an error? Then it is not a prefix: the same error was printed on several
 * lines. */
static bool is_telling(const char *text, size_t size_bytes)
{
    static const char *const words[] = {"rror", "emory", "lloc", "uda",
                                        "orch", "GPU",   "ail",  "xcept"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(text, size_bytes, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

/* Whatever three lines in a row begin with was not part of a message. */
static void cut_shared_prefixes(vw__error_text_region *region)
{
    uint16_t common[VW__ERROR_TEXT_REGION_MOST_LINES], cuts[VW__ERROR_TEXT_REGION_MOST_LINES] = {0};
    size_t to = 0;
    for (size_t line = 0; line + 1 < region->line_count; line++)
        common[line] = (uint16_t)common_prefix(region, line);
    for (size_t line = 0; line + 2 < region->line_count; line++) {
        uint16_t shared = common[line] < common[line + 1] ? common[line] : common[line + 1];
        if (shared == 0 || is_telling(region->clean + region->lines[line].at, shared))
            continue;
        for (size_t i = line; i < line + 3; i++)
            cuts[i] = shared > cuts[i] ? shared : cuts[i];
    }
    for (size_t line = 0; line < region->line_count; line++) {
        size_t first = region->lines[line].at + (size_t)cuts[line], end = line_end(region, line);
        size_t bytes = end - first + (line + 1 < region->line_count); /* the line end with it */
        memmove(region->clean + to, region->clean + first, bytes);
        memmove(region->raw_of + to, region->raw_of + first, bytes * sizeof *region->raw_of);
        region->lines[line].at = (uint16_t)to;
        to += bytes;
    }
    region->clean_bytes = to;
}

static void squeeze(vw__error_text_region *region)
{
    size_t count = 0;
    for (size_t i = 0; i < region->clean_bytes; i++) {
        unsigned char letter = vw__error_text_squeezed[(unsigned char)region->clean[i]];
        region->letters[count] = (char)letter;
        region->clean_of[count] = (uint16_t)i;
        count += letter != 0;
    }
    region->letter_count = count;
}

void vw__error_text_region_fill(vw__error_text_region *region, const char *raw, size_t size_bytes,
                                bool is_line_start)
{
    if (size_bytes > VW__ERROR_TEXT_REGION_BYTES)
        size_bytes = VW__ERROR_TEXT_REGION_BYTES;
    region->raw_bytes = size_bytes;
    clean_lines(region, raw, size_bytes, is_line_start);
    if (region->line_count >= 3 && region->line_count < VW__ERROR_TEXT_REGION_MOST_LINES)
        cut_shared_prefixes(region);
    squeeze(region);
}

/* ---- asking ---------------------------------------------------------------------------------- */

size_t vw__error_text_region_letter_at(const vw__error_text_region *region, size_t raw_at)
{
    size_t first = 0, last = region->letter_count;
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (region->raw_of[region->clean_of[middle]] < raw_at)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

size_t vw__error_text_region_raw_end(const vw__error_text_region *region, size_t letter_count)
{
    if (letter_count == 0)
        return 0;
    if (letter_count > region->letter_count)
        letter_count = region->letter_count;
    return region->raw_of[region->clean_of[letter_count - 1]] + (size_t)1;
}

bool vw__error_text_region_has(const vw__error_text_region *region, const char *text, size_t first,
                               size_t last, size_t *at)
{
    size_t length = strlen(text), end = region->letter_count;
    if (last < end && length < end - last)
        end = last + length;
    if (first >= end)
        return false;
    const char *found = memmem(region->letters + first, end - first, text, length);
    if (found != NULL && at != NULL)
        *at = (size_t)(found - region->letters);
    return found != NULL;
}

bool vw__error_text_region_continues(const vw__error_text_region *region, size_t at,
                                     const char *text)
{
    while (*text != '\0' && at < region->letter_count && region->letters[at] == *text) {
        text++;
        at++;
    }
    return *text == '\0';
}

bool vw__error_text_region_precedes(const vw__error_text_region *region, size_t at,
                                    const char *text)
{
    size_t length = strlen(text);
    return length <= at && at <= region->letter_count &&
           memcmp(region->letters + at - length, text, length) == 0;
}

bool vw__error_text_region_continues_any(const vw__error_text_region *region, size_t at,
                                         const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (vw__error_text_region_continues(region, at, texts[i]))
            return true;
    return false;
}

bool vw__error_text_region_precedes_any(const vw__error_text_region *region, size_t at,
                                        const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (vw__error_text_region_precedes(region, at, texts[i]))
            return true;
    return false;
}

/* The index of its line; line_count where it has none. */
static size_t line_of(const vw__error_text_region *region, size_t letter)
{
    size_t clean = letter < region->letter_count ? region->clean_of[letter] : region->clean_bytes;
    size_t i = region->line_count;
    while (i > 0 && region->lines[i - 1].at > clean)
        i--;
    return i > 0 ? i - 1 : region->line_count;
}

size_t vw__error_text_region_line_start(const vw__error_text_region *region, size_t letter)
{
    size_t line = line_of(region, letter);
    return line < region->line_count ? region->lines[line].at : 0;
}

/* A bare number is a rank where its neighbours have one too. */
int vw__error_text_region_rank(const vw__error_text_region *region, size_t letter)
{
    size_t line = line_of(region, letter);
    if (line == region->line_count)
        return -1;
    bool is_believed = !region->lines[line].rank.is_bare || region->line_count == 1 ||
                       (line > 0 && region->lines[line - 1].rank.is_bare) ||
                       (line + 1 < region->line_count && region->lines[line + 1].rank.is_bare);
    return is_believed ? region->lines[line].rank.rank : -1;
}

/* ---- quoting --------------------------------------------------------------------------------- */

/* The longest of the lines from `at` to `end`: where a terminal broke them, if it did. */
static size_t longest_line(const char *text, size_t at, size_t end)
{
    size_t longest = 0;
    while (at < end) {
        const char *line_end = memchr(text + at, '\n', end - at);
        size_t length = line_end != NULL ? (size_t)(line_end - text) - at : end - at;
        longest = length > longest ? length : longest;
        at += length + 1;
    }
    return longest;
}

/* Lines that are as long as the longest were broken by a terminal, in the middle of a word too;
 * shorter ones where their writer meant to. */
void vw__error_text_region_quote(const vw__error_text_region *region, size_t first, size_t end,
                                 char *out, size_t out_bytes)
{
    size_t length = 0, line_length = 0;
    out[0] = '\0';
    if (first >= end || end > region->letter_count)
        return;
    size_t at = region->clean_of[first], clean_end = region->clean_of[end - 1] + (size_t)1;
    while (clean_end < region->clean_bytes && (unsigned char)region->clean[clean_end] > ' ' &&
           vw__error_text_squeezed[(unsigned char)region->clean[clean_end]] == 0)
        clean_end++; /* a closing quote */
    size_t width =
        longest_line(region->clean, vw__error_text_region_line_start(region, first), clean_end);
    line_length = at - vw__error_text_region_line_start(region, first);
    while (at < clean_end) {
        const char *text = region->clean + at;
        uint32_t character;
        size_t taken = vw__utf8_next(text, clean_end - at, &character);
        at += taken;
        line_length += taken;
        bool is_break = character == '\n', is_blank = character == ' ' || character == '\t';
        if (is_break) {
            bool is_inside_word = line_length - 1 == width && length > 0 && at < clean_end &&
                                  vw__ascii_is_name(out[length - 1]) &&
                                  vw__ascii_is_name(region->clean[at]);
            line_length = 0;
            if (is_inside_word)
                continue;
        }
        if (is_break || is_blank) {
            if (length == 0 || out[length - 1] == ' ')
                continue;
            text = " ";
            taken = 1;
        } else if (character == VW__UTF8_INVALID) {
            text = "?";
        }
        if (length + taken >= out_bytes)
            break;
        memcpy(out + length, text, taken);
        length += taken;
    }
    while (length > 0 && out[length - 1] == ' ')
        length--;
    out[length] = '\0';
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* "1.25 GiB", "1024.00 KiB", "0 bytes", "72GB", "117. GiB", "1,073,741,824 bytes", "1900,00 MiB". A
 * size with decimals was rounded and becomes the nearest byte; one in bytes is exact. */

static void add_digit(vw__error_text_number *number, char digit)
{
    uint64_t value = (uint64_t)(digit - '0');
    if (number->digits > (UINT64_MAX - value) / 10)
        number->is_too_long = true;
    else
        number->digits = number->digits * 10 + value;
}

/* Is there a digit at `at` that goes on with the letter before it? A line break may stand between
 * them, a blank alone may not: "3, 4" are two numbers. */
static bool goes_on(const vw__error_text_region *region, size_t at, size_t end)
{
    if (at >= end || !vw__ascii_is_digit(region->letters[at]))
        return false;
    size_t gap = region->clean_of[at - 1] + (size_t)1, clean = region->clean_of[at];
    return gap == clean || memchr(region->clean + gap, '\n', clean - gap) != NULL;
}

/* Three digits and no more behind the separator at `at`? */
static bool is_thousands(const vw__error_text_region *region, size_t at, size_t end)
{
    return goes_on(region, at + 1, end) && goes_on(region, at + 2, end) &&
           goes_on(region, at + 3, end) && !goes_on(region, at + 4, end);
}

/* A comma or a point between digits: thousands where three digits follow it and it is a comma, or
 * stands there again; else decimals. */
static size_t read_digits(const vw__error_text_region *region, size_t at, size_t end,
                          vw__error_text_number *number)
{
    const char *letters = region->letters;
    do
        add_digit(number, letters[at++]);
    while (goes_on(region, at, end));
    while (at + 1 < end && (letters[at] == ',' || letters[at] == '.') &&
           is_thousands(region, at, end)) {
        char mark = letters[at];
        bool is_again =
            at + 4 < end && letters[at + 4] == mark && is_thousands(region, at + 4, end);
        bool was_before = at >= 4 && letters[at - 4] == mark;
        if (mark == '.' && !is_again && !was_before)
            break;
        for (size_t i = 1; i <= 3; i++)
            add_digit(number, letters[at + i]);
        at += 4;
    }
    if (at < end && (letters[at] == '.' || letters[at] == ',') && goes_on(region, at + 1, end)) {
        at++;
        while (goes_on(region, at, end)) {
            if (number->decimals < 9 && !number->is_too_long) {
                add_digit(number, letters[at]);
                number->decimals++;
            }
            at++;
        }
    }
    return at;
}

/* No letter or digit may follow in the text itself: "12 blocks" has no unit. */
static const vw__line_unit *find_unit(const vw__error_text_region *region, size_t at, size_t *end,
                                      const vw__line_unit *units, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(units[i].name);
        if (!vw__error_text_region_continues(region, at, units[i].name))
            continue;
        size_t behind = region->clean_of[at + length - 1] + (size_t)1;
        char next = behind < region->clean_bytes ? region->clean[behind] : ' ';
        if (vw__ascii_is_letter(next) || vw__ascii_is_digit(next))
            continue;
        *end = at + length;
        return &units[i];
    }
    return NULL;
}

static const vw__line_unit *read_unit(const vw__error_text_region *region, size_t at, size_t *end)
{
    const vw__line_unit *found = find_unit(region, at, end, vw__line_units, vw__line_unit_count);
    return found != NULL ? found
                         : find_unit(region, at, end, vw__error_text_local_units,
                                     vw__error_text_local_unit_count);
}

uint64_t vw__error_text_number_in(const vw__error_text_number *number, unsigned log2)
{
    static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    if (number->is_too_long)
        return VW__MODEL_UNKNOWN_BYTES;
    if (number->decimals == 0 && number->digits <= UINT64_MAX >> log2)
        return number->digits << log2;
    double bytes =
        (double)number->digits / powers[number->decimals] * (double)(UINT64_C(1) << log2);
    if (bytes >= 18446744073709549568.0) /* the last that fits: 2^64 - 2048 */
        return VW__MODEL_UNKNOWN_BYTES;
    return (uint64_t)(bytes + 0.5);
}

bool vw__error_text_number_next(const vw__error_text_region *region, size_t at, size_t end,
                                vw__error_text_number *number)
{
    const char *letters = region->letters;
    if (end > region->letter_count)
        end = region->letter_count;
    while (at < end && !vw__ascii_is_digit(letters[at]))
        at++;
    if (at >= end)
        return false;
    *number = (vw__error_text_number){.first = at};
    number->end = read_digits(region, at, end, number);
    size_t unit_at = number->end;
    if (unit_at + 1 < end && letters[unit_at] == '.' && vw__ascii_is_letter(letters[unit_at + 1]))
        unit_at++; /* "117. GiB" */
    const vw__line_unit *found = read_unit(region, unit_at, &number->end);
    number->log2 = found != NULL ? found->log2 : 0;
    number->has_unit = found != NULL;
    number->is_exact = number->decimals == 0 && number->log2 == 0;
    number->bytes = vw__error_text_number_in(number, number->log2);
    return true;
}
