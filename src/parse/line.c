/* line.c - words, units, and what loggers, launchers and terminals add to a line. */
#include "parse/line.h"

bool vw__line_begins_any(vw__line line, size_t at, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (vw__line_begins(line, at, words[i]))
            return true;
    return false;
}

bool vw__line_mentions_any(vw__line line, size_t first, size_t end, const char *const *words,
                           size_t count)
{
    for (size_t at = first; at < end && at < line.size_bytes; at++)
        if (vw__line_begins_any(line, at, words, count))
            return true;
    return false;
}

int vw__line_digits(vw__line line, size_t *at, unsigned most_digits)
{
    int value = 0;
    size_t first = *at;
    while (vw__line_is_digit(line, *at) && *at - first <= most_digits)
        value = value * 10 + (line.text[(*at)++] - '0');
    return *at == first || *at - first > most_digits ? -1 : value;
}

/* ---- units ----------------------------------------------------------------------------------- */

const vw__line_unit vw__line_units[] = {
    {"bytes", 0}, {"byte", 0}, {"kib", 10}, {"mib", 20}, {"gib", 30}, {"tib", 40}, {"pib", 50},
    {"eib", 60},  {"kb", 10},  {"mb", 20},  {"gb", 30},  {"tb", 40},  {"pb", 50},  {"eb", 60},
    {"b", 0},     {"k", 10},   {"m", 20},   {"g", 30},   {"t", 40},
};
const size_t vw__line_unit_count = sizeof vw__line_units / sizeof *vw__line_units;

const vw__line_unit *vw__line_unit_named(const char *name, size_t size_bytes)
{
    char first = vw__ascii_to_lower(vw__line_at((vw__line){name, size_bytes}, 0));
    for (size_t i = 0; i < vw__line_unit_count; i++)
        if (vw__line_units[i].name[0] == first && strlen(vw__line_units[i].name) == size_bytes &&
            strncasecmp(name, vw__line_units[i].name, size_bytes) == 0)
            return &vw__line_units[i];
    return NULL;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* With a unit behind them (3.21 GB, 3287MiB, 3.2G), with commas between their thousands, with an
 * exponent. What only looks like such a number is recognised by what follows it: a percentage, a
 * rate (GB/s), a time (12:31), a version (1.2.3), a count of something (640px). */

/* A comma and three digits, and no fourth. */
static bool is_group(vw__line line, size_t at)
{
    return vw__line_at(line, at) == ',' && vw__line_skip_digits(line, at + 1) == at + 4;
}

typedef struct digits {
    uint64_t value;
    int dropped; /* places that did not fit */
} digits;

static void add_digit(digits *to, char digit)
{
    if (to->value <= (UINT64_MAX - 9) / 10)
        to->value = to->value * 10 + (uint64_t)(digit - '0');
    else
        to->dropped++;
}

/* Returns where the exponent ends, or `at` where there is none. */
static size_t read_exponent(vw__line line, size_t at, int *exponent)
{
    size_t next = at + 1;
    bool is_negative = vw__line_at(line, next) == '-';
    if (vw__ascii_to_lower(vw__line_at(line, at)) != 'e')
        return at;
    next += is_negative || vw__line_at(line, next) == '+';
    if (!vw__line_is_digit(line, next))
        return at;
    int value = 0;
    for (; vw__line_is_digit(line, next); next++)
        value = value < 1000 ? value * 10 + (line.text[next] - '0') : value;
    *exponent += is_negative ? -value : value;
    return next;
}

/* The unit behind a number: its bytes, or 0. `*end` moves behind it. */
static double read_unit(vw__line line, size_t *end, bool *is_letter_alone)
{
    enum { MOST_SPACES = 2, LARGEST_LOG2 = 40 };
    size_t begin = *end;
    while (vw__line_at(line, begin) == ' ' && begin < *end + MOST_SPACES)
        begin++;
    size_t behind = vw__line_skip_letters(line, begin);
    bool is_attached = begin == *end, is_alone = behind == begin + 1;
    *is_letter_alone = false;
    if (behind == begin || vw__ascii_is_name(vw__line_at(line, behind)))
        return 0;
    const vw__line_unit *unit = vw__line_unit_named(line.text + begin, behind - begin);
    if (unit == NULL || unit->log2 > LARGEST_LOG2 ||
        (is_alone && !vw__ascii_is_upper(line.text[begin])) ||
        (is_alone && unit->log2 != 0 && !is_attached))
        return 0;
    *is_letter_alone = is_alone && unit->log2 != 0;
    *end = behind;
    return (double)(UINT64_C(1) << unit->log2);
}

/* Behind the number and its unit: does it go on as a rate, a percentage, a time, a name? */
static bool goes_on(vw__line line, size_t at, bool has_unit)
{
    char byte = vw__line_at(line, at);
    if (byte == '/')
        return vw__line_is_letter(line, at + 1);
    if (has_unit)
        return vw__ascii_is_letter(byte) || vw__ascii_is_digit(byte);
    if (byte == ':' || byte == '-' || byte == '.') /* 12:31, 2024-05, 1.2.3, an address */
        return vw__line_is_digit(line, at + 1);
    return byte == '%' || vw__ascii_is_letter(byte) || byte == '_' ||
           (byte == ' ' && vw__line_at(line, at + 1) == '%');
}

/* Correctly rounded for what people write: 15 digits, 22 places. */
static double scaled(uint64_t value, int exponent)
{
    enum { MOST_PLACES = 400 }; /* beyond any double */
    double power = 1;
    int places = exponent < 0 ? -exponent : exponent;
    for (int i = 0; i < places && i < MOST_PLACES; i++)
        power *= 10;
    if (value == 0)
        return 0;
    return exponent < 0 ? (double)value / power : (double)value * power;
}

vw__line_number vw__line_number_read(vw__line line, size_t at, bool has_groups)
{
    vw__line_number number = {.is_whole = true};
    digits read = {0};
    int exponent = 0;
    size_t begin = at;
    for (; vw__line_is_digit(line, at); at++)
        add_digit(&read, line.text[at]);
    if (has_groups && at - begin >= 1 && at - begin <= 3 && line.text[begin] != '0')
        while (is_group(line, at)) {
            for (size_t i = 1; i <= 3; i++)
                add_digit(&read, line.text[at + i]);
            at += 4;
        }
    if (vw__line_at(line, at) == '.' && vw__line_is_digit(line, at + 1)) {
        number.is_whole = false;
        for (at++; vw__line_is_digit(line, at); at++) {
            int dropped = read.dropped;
            add_digit(&read, line.text[at]);
            exponent -= read.dropped == dropped;
            read.dropped = dropped; /* places behind the point that do not fit mean nothing */
        }
    }
    exponent += read.dropped;
    number.end = read_exponent(line, at, &exponent);
    number.is_whole = number.is_whole && number.end == at;
    number.value = scaled(read.value, exponent);
    number.unit_bytes = read_unit(line, &number.end, &number.has_letter_unit);
    number.is_other = goes_on(line, number.end, number.unit_bytes != 0) || !(number.value <= 1e18);
    size_t behind = number.end + (vw__line_at(line, number.end) == ' ');
    number.is_percent = number.unit_bytes == 0 && vw__line_at(line, behind) == '%';
    return number;
}

/* ---- terminals ------------------------------------------------------------------------------- */

size_t vw__line_terminal_command(const char *text, size_t size_bytes)
{
    if (size_bytes < 2)
        return 1;
    size_t at = 2;
    if (text[1] == ']') { /* a title: up to the bell */
        while (at < size_bytes && at < 128 && text[at] != '\a' && text[at] != '\033' &&
               text[at] != '\n')
            at++;
        return at < size_bytes && text[at] == '\a' ? at + 1 : at;
    }
    if (text[1] != '[')
        return text[1] == '\n' ? 1 : 2;
    while (at < size_bytes && at < 32 && (unsigned char)text[at] < 0x40 && text[at] != '\n')
        at++;
    return at < size_bytes && text[at] != '\n' ? at + 1 : at;
}

/* ---- prefixes -------------------------------------------------------------------------------- */

/* Every line of a message may carry one, also those that a terminal broke: a time, a level, the
 * file and line of the call, a rank, a process, a quotation mark. The parts come in any order, so
 * each is tried in turn until none fits. What may be part of the message stays: a number is taken
 * for a time only where it is punctuated like one. */
enum { MOST_PREFIX_BYTES = 200, MOST_RANK_DIGITS = 5 };

typedef struct line_start {
    vw__line line; /* at most MOST_PREFIX_BYTES of it */
    size_t at;
    vw__line_rank rank;
    bool has_time; /* or a level: what follows may be a name */
    bool is_first; /* nothing was taken yet */
} line_start;

static char byte_at(const line_start *start, size_t at)
{
    return vw__line_at(start->line, at);
}

/* "rank3", "rank 3", "Rank: 3", "rank=3", "default3". */
static bool read_rank(line_start *start, size_t *at)
{
    static const char *const names[] = {"local_rank", "global_rank", "rank", "default"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!vw__line_begins(start->line, *at, names[i]))
            continue;
        size_t here = *at + strlen(names[i]);
        while (byte_at(start, here) == ' ' || byte_at(start, here) == ':' ||
               byte_at(start, here) == '=' || byte_at(start, here) == '-')
            here++;
        int rank = vw__line_digits(start->line, &here, MOST_RANK_DIGITS);
        if (rank < 0)
            return false;
        start->rank = (vw__line_rank){rank, false};
        *at = here;
        return true;
    }
    return false;
}

static bool take_mark(line_start *start)
{
    char mark = byte_at(start, start->at);
    if (mark != '>' && mark != '|' && !(mark == '-' && start->has_time))
        return false;
    if (mark == '-' && !vw__line_is_blank(start->line, start->at + 1))
        return false;
    start->at++;
    return true;
}

/* "[rank3]:", "[2025-01-31 12:00:00,123]", "[1,2]<stderr>:", "[core.py:708]", "[E]". Blanks inside
 * only where there is a time: "[enforce fail at ...]" is the message's own. */
static bool take_bracket(line_start *start)
{
    bool has_blank = false, has_time = false, has_digit = false;
    size_t end = start->at + 1, inside = start->at + 1;
    if (byte_at(start, start->at) != '[')
        return false;
    while (end < start->line.size_bytes && start->line.text[end] != ']' && end - start->at < 72) {
        char c = start->line.text[end];
        if (c == '[' || c == '(' || c == '"' || c == '<')
            return false;
        has_blank |= c == ' ';
        has_digit |= vw__ascii_is_digit(c);
        has_time |= c == ':' && vw__ascii_is_digit(start->line.text[end - 1]) &&
                    vw__line_is_digit(start->line, end + 1);
        end++;
    }
    if (byte_at(start, end) != ']')
        return false;
    bool has_rank = read_rank(start, &inside);
    if ((has_blank && !has_time && !has_rank) || (!has_digit && end - start->at > 12))
        return false;
    size_t comma = start->at + 1, node = start->at + 1;
    end++;
    if (vw__line_begins(start->line, end, "<std")) { /* mpirun: [job,rank]<stderr>: */
        if (vw__line_digits(start->line, &node, MOST_RANK_DIGITS) >= 0 &&
            byte_at(start, node) == ',') {
            comma = node + 1;
            int rank = vw__line_digits(start->line, &comma, MOST_RANK_DIGITS);
            if (rank >= 0)
                start->rank = (vw__line_rank){rank, false};
        }
        while (end < start->line.size_bytes && start->line.text[end] != '>')
            end++;
        end += end < start->line.size_bytes;
    }
    end += byte_at(start, end) == ':';
    start->at = end;
    start->has_time |= has_time;
    return true;
}

/* "(EngineCore pid=1)", "(RayTrainWorker pid=77, ip=10.0.0.1)", "(raylet)". */
static bool take_process(line_start *start)
{
    if (byte_at(start, start->at) != '(')
        return false;
    bool has_pid = vw__line_begins(start->line, start->at, "(raylet") ||
                   vw__line_begins(start->line, start->at, "(gcs_s") ||
                   vw__line_begins(start->line, start->at, "(autosc");
    size_t end = start->at + 1;
    while (end < start->line.size_bytes && start->line.text[end] != ')' && end - start->at < 96) {
        if (start->line.text[end] == '(')
            return false;
        has_pid |=
            vw__line_begins(start->line, end, "pid=") || vw__line_begins(start->line, end, "rank=");
        size_t rank_at = end;
        if (vw__line_begins(start->line, end, "rank=") && read_rank(start, &rank_at))
            has_pid = true;
        end++;
    }
    if (!has_pid || byte_at(start, end) != ')')
        return false;
    start->at = end + 1;
    return true;
}

/* "rank3: ", "3: " */
static bool take_rank(line_start *start)
{
    size_t at = start->at;
    vw__line_rank old_rank = start->rank;
    if (vw__line_is_digit(start->line, at)) {
        int rank = vw__line_digits(start->line, &at, MOST_RANK_DIGITS);
        if (rank < 0 || byte_at(start, at) != ':' || byte_at(start, at + 1) != ' ' ||
            !start->is_first)
            return false;
        start->rank = (vw__line_rank){rank, true};
        start->at = at + 1;
        return true;
    }
    if (!read_rank(start, &at))
        return false;
    if (byte_at(start, at) != ':' && byte_at(start, at) != ']') {
        start->rank = old_rank;
        return false;
    }
    start->at = at + 1;
    return true;
}

/* "2025-01-31T12:00:00.123Z", "12:00:00,123", "05-01", "E0131": digits with the points of a time.
 */
static bool take_time(line_start *start)
{
    size_t first = start->at, at = start->at, digit_count = 0;
    bool has_colon = false, has_stroke = false, has_point = false;
    if (vw__line_is_letter(start->line, at) && vw__line_is_digit(start->line, at + 4) &&
        vw__line_is_blank(start->line, at + 5))
        at++; /* glog's level and date */
    while (at < start->line.size_bytes) {
        char c = start->line.text[at];
        if (vw__ascii_is_digit(c))
            digit_count++;
        else if (c == ':' && digit_count != 0)
            has_colon |= vw__line_is_digit(start->line, at + 1);
        else if ((c == '-' || c == '/') && digit_count >= 2 && !has_point)
            has_stroke = true;
        else if ((c == '.' || c == ',') && has_colon)
            has_point = true;
        else if (!((c == 'T' || c == 'Z' || c == '+' || c == '-') && (has_stroke || has_colon)))
            break;
        at++;
    }
    bool is_glog =
        at == first + 5 && digit_count == 4 && vw__ascii_is_letter(start->line.text[first]);
    bool is_time = digit_count >= 4 && (has_colon || has_stroke) &&
                   vw__ascii_is_digit(start->line.text[first]);
    if ((!is_glog && !is_time) || !vw__line_is_blank(start->line, at))
        return false;
    start->at = at;
    start->has_time = true;
    return true;
}

/* "ERROR", "WARNING:", "E" */
static bool take_level(line_start *start)
{
    static const char *const levels[] = {"ERROR", "WARNING", "WARN",   "INFO",   "DEBUG",
                                         "FATAL", "TRACE",   "stderr", "stdout", "CRITICAL"};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (!vw__line_has(start->line, start->at, levels[i]))
            continue;
        size_t end = start->at + strlen(levels[i]);
        if (!vw__line_is_blank(start->line, end) &&
            (byte_at(start, end) != ':' || !start->has_time))
            return false;
        if (!start->has_time && start->line.text[start->at] == 's')
            return false;
        start->at = end + (byte_at(start, end) == ':');
        start->has_time = true;
        return true;
    }
    char letter = byte_at(start, start->at);
    if (!start->has_time || letter == '\0' || strchr("EWIF", letter) == NULL ||
        !vw__line_is_blank(start->line, start->at + 1))
        return false;
    start->at++;
    return true;
}

/* Behind a time: "engine.py:157]", "name -", "name |". A path stays: it shows whose message it is.
 */
static bool take_place(line_start *start)
{
    size_t end = start->at;
    if (!start->has_time)
        return false;
    while (end < start->line.size_bytes && !vw__line_is_blank(start->line, end) &&
           end - start->at < 80)
        end++;
    if (end == start->at)
        return false;
    bool is_place = start->line.text[end - 1] == ']' && vw__line_is_digit(start->line, end - 2) &&
                    memchr(start->line.text + start->at, ':', end - start->at) != NULL &&
                    memchr(start->line.text + start->at, '/', end - start->at) == NULL;
    bool is_name = (byte_at(start, end + 1) == '-' || byte_at(start, end + 1) == '|') &&
                   vw__line_is_blank(start->line, end + 2);
    if (!is_place && !is_name)
        return false;
    start->at = end + (is_name ? 2 : 0);
    return true;
}

/* A quick check: most lines of most logs have no prefix. */
static bool may_begin_prefix(char c)
{
    return vw__ascii_is_digit(c) || c == '[' || c == '(' || c == '>' || c == '|' || c == 'r' ||
           c == 'R' || c == 'l' || c == 'g' || (c >= 'C' && c <= 'W');
}

size_t vw__line_prefix(const char *text, size_t size_bytes, vw__line_rank *rank)
{
    line_start start = {.line = {text, size_bytes}, .rank = {-1, false}, .is_first = true};
    size_t end = 0;
    if (size_bytes > MOST_PREFIX_BYTES)
        start.line.size_bytes = MOST_PREFIX_BYTES;
    start.at = vw__line_skip_blanks(start.line, 0);
    while (start.at < start.line.size_bytes &&
           (may_begin_prefix(text[start.at]) || start.has_time)) {
        if (!take_mark(&start) && !take_bracket(&start) && !take_process(&start) &&
            !take_rank(&start) && !take_time(&start) && !take_level(&start) && !take_place(&start))
            break;
        end = start.at + (start.at < start.line.size_bytes && vw__ascii_is_blank(text[start.at]));
        start.at = vw__line_skip_blanks(start.line, start.at); /* only one is the prefix's */
        start.is_first = false;
    }
    *rank = start.rank;
    return end;
}
