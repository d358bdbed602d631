/* error_text_prefix.c - what loggers and launchers put in front of lines.
 *
 * Every line of a message may carry it, the broken ones too: a time, a level, the file and line of
 * the call, a rank, a process, a quotation mark. The parts come in any order, so each is tried in
 * turn until none fits. What may just as well be the message's own is left: a number is taken for a
 * time only where it has the points of one. */
#include "format/error_text_region.h"

#include <string.h>

#define MOST_PREFIX_BYTES 200

typedef struct line_start {
    const char *text;
    size_t size_bytes; /* looked at: at most MOST_PREFIX_BYTES */
    size_t at;
    vw__line_rank rank;
    bool has_time; /* or a level: what follows may be a name */
    bool is_first; /* nothing was taken yet */
} line_start;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char byte_at(const line_start *line, size_t at)
{
    return at < line->size_bytes ? line->text[at] : '\0';
}

static bool is_blank_or_end(const line_start *line, size_t at)
{
    return at >= line->size_bytes || line->text[at] == ' ' || line->text[at] == '\t';
}

static void skip_blanks(line_start *line)
{
    while (line->at < line->size_bytes && is_blank_or_end(line, line->at))
        line->at++;
}

/* Up to five digits; -1 where there are none, or more. */
static int read_number(const line_start *line, size_t *at)
{
    int value = 0;
    size_t first = *at;
    while (is_digit(byte_at(line, *at)) && *at - first < 6)
        value = value * 10 + (line->text[(*at)++] - '0');
    return *at == first || *at - first > 5 ? -1 : value;
}

static inline bool begins_with(const line_start *line, size_t at, const char *word)
{
    if ((byte_at(line, at) | 0x20) != (word[0] | 0x20))
        return false;
    size_t length = strlen(word);
    return length <= line->size_bytes - at && strncasecmp(line->text + at, word, length) == 0;
}

/* "rank3", "rank 3", "Rank: 3", "rank=3", "default3", behind which nothing else may be asked. */
static bool read_rank(line_start *line, size_t *at)
{
    static const char *const names[] = {"local_rank", "global_rank", "rank", "default"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!begins_with(line, *at, names[i]))
            continue;
        size_t here = *at + strlen(names[i]);
        while (byte_at(line, here) == ' ' || byte_at(line, here) == ':' ||
               byte_at(line, here) == '=' || byte_at(line, here) == '-')
            here++;
        int rank = read_number(line, &here);
        if (rank < 0)
            return false;
        line->rank = (vw__line_rank){rank, false};
        *at = here;
        return true;
    }
    return false;
}

/* ---- the parts ------------------------------------------------------------------------------- */

static bool take_mark(line_start *line)
{
    char mark = byte_at(line, line->at);
    if (mark != '>' && mark != '|' && !(mark == '-' && line->has_time))
        return false;
    if (mark == '-' && !is_blank_or_end(line, line->at + 1))
        return false;
    line->at++;
    return true;
}

/* "[rank3]:", "[2025-01-31 12:00:00,123]", "[1,2]<stderr>:", "[core.py:708]", "[E]". Blanks inside
 * only where there is a time: "[enforce fail at ...]" is the message's own. */
static bool take_bracket(line_start *line)
{
    bool has_blank = false, has_time = false, has_digit = false;
    size_t end = line->at + 1, inside = line->at + 1;
    if (byte_at(line, line->at) != '[')
        return false;
    while (end < line->size_bytes && line->text[end] != ']' && end - line->at < 72) {
        char c = line->text[end];
        if (c == '[' || c == '(' || c == '"' || c == '<')
            return false;
        has_blank |= c == ' ';
        has_digit |= is_digit(c);
        has_time |= c == ':' && is_digit(line->text[end - 1]) && is_digit(byte_at(line, end + 1));
        end++;
    }
    if (byte_at(line, end) != ']')
        return false;
    bool has_rank = read_rank(line, &inside);
    if ((has_blank && !has_time && !has_rank) || (!has_digit && end - line->at > 12))
        return false;
    size_t comma = line->at + 1, node = line->at + 1;
    end++;
    if (begins_with(line, end, "<std")) { /* mpirun: [job,rank]<stderr>: */
        if (read_number(line, &node) >= 0 && byte_at(line, node) == ',') {
            comma = node + 1;
            int rank = read_number(line, &comma);
            if (rank >= 0)
                line->rank = (vw__line_rank){rank, false};
        }
        while (end < line->size_bytes && line->text[end] != '>')
            end++;
        end += end < line->size_bytes;
    }
    end += byte_at(line, end) == ':';
    line->at = end;
    line->has_time |= has_time;
    return true;
}

/* "(EngineCore pid=1)", "(RayTrainWorker pid=77, ip=10.0.0.1)", "(raylet)". */
static bool take_process(line_start *line)
{
    if (byte_at(line, line->at) != '(')
        return false;
    bool has_pid = begins_with(line, line->at, "(raylet") ||
                   begins_with(line, line->at, "(gcs_s") || begins_with(line, line->at, "(autosc");
    size_t end = line->at + 1;
    while (end < line->size_bytes && line->text[end] != ')' && end - line->at < 96) {
        if (line->text[end] == '(')
            return false;
        has_pid |= begins_with(line, end, "pid=") || begins_with(line, end, "rank=");
        size_t rank_at = end;
        if (begins_with(line, end, "rank=") && read_rank(line, &rank_at))
            has_pid = true;
        end++;
    }
    if (!has_pid || byte_at(line, end) != ')')
        return false;
    line->at = end + 1;
    return true;
}

/* "rank3: ", "3: " */
static bool take_rank(line_start *line)
{
    size_t at = line->at;
    vw__line_rank old_rank = line->rank;
    if (is_digit(byte_at(line, at))) {
        int rank = read_number(line, &at);
        if (rank < 0 || byte_at(line, at) != ':' || byte_at(line, at + 1) != ' ' || !line->is_first)
            return false;
        line->rank = (vw__line_rank){rank, true};
        line->at = at + 1;
        return true;
    }
    if (!read_rank(line, &at))
        return false;
    if (byte_at(line, at) != ':' && byte_at(line, at) != ']') {
        line->rank = old_rank;
        return false;
    }
    line->at = at + 1;
    return true;
}

/* "2025-01-31T12:00:00.123Z", "12:00:00,123", "05-01", "E0131": digits with the points of a time.
 */
static bool take_time(line_start *line)
{
    size_t first = line->at, at = line->at, digit_count = 0;
    bool has_colon = false, has_stroke = false, has_point = false;
    if (is_letter(byte_at(line, at)) && is_digit(byte_at(line, at + 4)) &&
        is_blank_or_end(line, at + 5))
        at++; /* glog's level and date */
    while (at < line->size_bytes) {
        char c = line->text[at];
        if (is_digit(c))
            digit_count++;
        else if (c == ':' && digit_count != 0)
            has_colon |= is_digit(byte_at(line, at + 1));
        else if ((c == '-' || c == '/') && digit_count >= 2 && !has_point)
            has_stroke = true;
        else if ((c == '.' || c == ',') && has_colon)
            has_point = true;
        else if (!((c == 'T' || c == 'Z' || c == '+' || c == '-') && (has_stroke || has_colon)))
            break;
        at++;
    }
    bool is_glog = at == first + 5 && digit_count == 4 && is_letter(line->text[first]);
    bool is_time = digit_count >= 4 && (has_colon || has_stroke) && is_digit(line->text[first]);
    if ((!is_glog && !is_time) || !is_blank_or_end(line, at))
        return false;
    line->at = at;
    line->has_time = true;
    return true;
}

/* "ERROR", "WARNING:", "E" */
static bool take_level(line_start *line)
{
    static const char *const levels[] = {"ERROR", "WARNING", "WARN",   "INFO",   "DEBUG",
                                         "FATAL", "TRACE",   "stderr", "stdout", "CRITICAL"};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        size_t length = strlen(levels[i]);
        if (byte_at(line, line->at) != levels[i][0] || length > line->size_bytes - line->at ||
            memcmp(line->text + line->at, levels[i], length) != 0)
            continue;
        size_t end = line->at + length;
        if (!is_blank_or_end(line, end) && (byte_at(line, end) != ':' || !line->has_time))
            return false;
        if (!line->has_time && line->text[line->at] == 's')
            return false;
        line->at = end + (byte_at(line, end) == ':');
        line->has_time = true;
        return true;
    }
    char letter = byte_at(line, line->at);
    if (!line->has_time || letter == '\0' || strchr("EWIF", letter) == NULL ||
        !is_blank_or_end(line, line->at + 1))
        return false;
    line->at++;
    return true;
}

/* Behind a time: "engine.py:157]", "name -", "name |". A path stays: it tells whose message it is.
 */
static bool take_place(line_start *line)
{
    size_t end = line->at;
    if (!line->has_time)
        return false;
    while (end < line->size_bytes && !is_blank_or_end(line, end) && end - line->at < 80)
        end++;
    if (end == line->at)
        return false;
    bool is_place = line->text[end - 1] == ']' && is_digit(byte_at(line, end - 2)) &&
                    memchr(line->text + line->at, ':', end - line->at) != NULL &&
                    memchr(line->text + line->at, '/', end - line->at) == NULL;
    bool is_name = (byte_at(line, end + 1) == '-' || byte_at(line, end + 1) == '|') &&
                   is_blank_or_end(line, end + 2);
    if (!is_place && !is_name)
        return false;
    line->at = end + (is_name ? 2 : 0);
    return true;
}

/* Most lines of most logs begin with none of it. */
static bool may_begin_prefix(char c)
{
    return is_digit(c) || c == '[' || c == '(' || c == '>' || c == '|' || c == 'r' || c == 'R' ||
           c == 'l' || c == 'g' || (c >= 'C' && c <= 'W');
}

size_t vw__line_prefix(const char *text, size_t size_bytes, vw__line_rank *rank)
{
    line_start line = {text, size_bytes, 0, {-1, false}, false, true};
    size_t end = 0;
    if (line.size_bytes > MOST_PREFIX_BYTES)
        line.size_bytes = MOST_PREFIX_BYTES;
    skip_blanks(&line);
    while (line.at < line.size_bytes && (may_begin_prefix(line.text[line.at]) || line.has_time)) {
        if (!take_mark(&line) && !take_bracket(&line) && !take_process(&line) &&
            !take_rank(&line) && !take_time(&line) && !take_level(&line) && !take_place(&line))
            break;
        end = line.at + (line.at < line.size_bytes && is_blank_or_end(&line, line.at));
        skip_blanks(&line); /* but only one belongs to the prefix */
        line.is_first = false;
    }
    *rank = line.rank;
    return end;
}
