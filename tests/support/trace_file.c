/* trace_file.c - see trace_file.h.
 *
 * One pass over the text in memory. Lines are ended in place, so strings need no copies; lists
 * double when full. Everything a line may hold is checked, because a trace that was read wrongly
 * would look like an allocator that is wrong. */
#include "support/trace_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct trace_parser {
    hr_test_trace *trace;
    char *at;   /* the rest of the current line */
    char *next; /* the line after it */
    size_t line;
    size_t event_capacity;
    size_t segment_capacity;
    size_t block_capacity;
    size_t stat_capacity;
    size_t summary_bytes;
    bool has_ended;
    char *complaint;
    size_t complaint_bytes;
} trace_parser;

static __attribute__((format(printf, 2, 3))) bool refuse(trace_parser *parser, const char *format,
                                                         ...)
{
    va_list arguments;
    va_start(arguments, format);
    int used = snprintf(parser->complaint, parser->complaint_bytes, "line %zu: ", parser->line);
    if (used > 0 && (size_t)used < parser->complaint_bytes)
        (void)vsnprintf(parser->complaint + used, parser->complaint_bytes - (size_t)used, format,
                        arguments);
    va_end(arguments);
    return false;
}

/* ---- words of a line ------------------------------------------------------------------------- */

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A hexadecimal number and the blank after it, if any. */
static bool take_number(trace_parser *parser, uint64_t *out)
{
    uint64_t value = 0;
    int digits = 0;
    for (int digit; (digit = digit_value(*parser->at)) >= 0; parser->at++, digits++)
        value = value << 4 | (uint64_t)digit;
    if (digits == 0 || digits > 16 || (*parser->at != ' ' && *parser->at != '\0'))
        return refuse(parser, "expected a number at \"%.20s\"", parser->at);
    if (*parser->at == ' ')
        parser->at++;
    *out = value;
    return true;
}

static bool take_numbers(trace_parser *parser, size_t count, uint64_t *out)
{
    for (size_t i = 0; i < count; i++)
        if (!take_number(parser, &out[i]))
            return false;
    return true;
}

static bool take_word(trace_parser *parser, const char **out)
{
    char *blank = strchr(parser->at, ' ');
    if (*parser->at == '\0' || *parser->at == ' ')
        return refuse(parser, "expected another word");
    *out = parser->at;
    if (blank == NULL) {
        parser->at += strlen(parser->at);
    } else {
        *blank = '\0';
        parser->at = blank + 1;
    }
    return true;
}

static bool at_end_of_line(trace_parser *parser)
{
    return *parser->at == '\0' || refuse(parser, "expected nothing more at \"%.20s\"", parser->at);
}

/* Which of `count` words comes next. */
static bool take_choice(trace_parser *parser, const char *const *words, size_t count, size_t *out)
{
    const char *word = "";
    if (!take_word(parser, &word))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(word, words[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return refuse(parser, "unknown word \"%.20s\"", word);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Room for one more item; returns the list, perhaps moved, or NULL. */
static void *grow(void *list, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return list;
    size_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *grown = realloc(list, wanted * item_bytes);
    if (grown != NULL)
        *capacity = wanted;
    return grown;
}

#define APPEND(parser, list, count, capacity, item)                                                \
    do {                                                                                           \
        void *grown = grow((list), (count), &(capacity), sizeof *(list));                          \
        if (grown == NULL)                                                                         \
            return refuse((parser), "out of memory");                                              \
        (list) = grown;                                                                            \
        (list)[(count)++] = (item);                                                                \
    } while (0)

static bool append_event(trace_parser *parser, hr_test_trace_event event)
{
    hr_test_trace *trace = parser->trace;
    APPEND(parser, trace->events, trace->event_count, parser->event_capacity, event);
    return true;
}

/* ---- the head -------------------------------------------------------------------------------- */

static bool read_conf(trace_parser *parser)
{
    parser->trace->conf = parser->at;
    return true;
}

static bool read_total(trace_parser *parser)
{
    return take_number(parser, &parser->trace->total_bytes) && at_end_of_line(parser);
}

static bool read_fraction(trace_parser *parser)
{
    char *end = parser->at;
    parser->trace->fraction = strtod(parser->at, &end);
    if (end == parser->at)
        return refuse(parser, "expected a fraction");
    parser->at = end;
    return at_end_of_line(parser);
}

/* ---- what happened --------------------------------------------------------------------------- */

static bool action_of_letter(char letter, hr_action *out)
{
    switch (letter) {
    case 'a':
        *out = HR_ACTION_ALLOC;
        return true;
    case 'r':
    case 'f':
        *out = HR_ACTION_FREE_REQUESTED;
        return true;
    case 'c':
        *out = HR_ACTION_FREE_COMPLETED;
        return true;
    case 'S':
        *out = HR_ACTION_SEGMENT_ALLOC;
        return true;
    case 's':
    case 't':
        *out = HR_ACTION_SEGMENT_FREE;
        return true;
    case 'M':
        *out = HR_ACTION_SEGMENT_MAP;
        return true;
    case 'm':
    case 'u':
        *out = HR_ACTION_SEGMENT_UNMAP;
        return true;
    case 'o':
        *out = HR_ACTION_OOM;
        return true;
    case 'n':
        *out = HR_ACTION_SNAPSHOT;
        return true;
    default:
        return false;
    }
}

static bool read_event(trace_parser *parser, char letter)
{
    hr_action action;
    if (!action_of_letter(letter, &action))
        return refuse(parser, "unknown event '%c'", letter);
    hr_test_trace_event event = {
        .kind = HR_TEST_EVENT,
        .action = (uint8_t)action,
        .is_deferred = letter == 'r',
        .is_from_trim = letter == 't' || letter == 'u',
    };
    if (!take_number(parser, &event.address) || !take_number(parser, &event.size_bytes))
        return false;
    if (*parser->at != '\0' && !take_number(parser, &event.stream))
        return false;
    if (!at_end_of_line(parser) || !append_event(parser, event))
        return false;
    if (letter != 'f')
        return true;
    event.action = HR_ACTION_FREE_COMPLETED;
    return append_event(parser, event);
}

static bool read_mark(trace_parser *parser, hr_test_trace_kind kind)
{
    hr_test_trace_event event = {.kind = (uint8_t)kind};
    return take_number(parser, &event.address) && take_number(parser, &event.size_bytes) &&
           at_end_of_line(parser) && append_event(parser, event);
}

static bool read_scope(trace_parser *parser)
{
    return read_mark(parser, HR_TEST_SCOPE);
}

static bool read_release(trace_parser *parser)
{
    return read_mark(parser, HR_TEST_RELEASE);
}

static bool read_unsplit(trace_parser *parser)
{
    return read_mark(parser, HR_TEST_UNSPLIT);
}

/* ---- how things stood at the end ------------------------------------------------------------- */

static bool read_segment(trace_parser *parser)
{
    static const char *const kinds[] = {"small", "large"};
    hr_test_trace *trace = parser->trace;
    uint64_t place[3], rest[6];
    size_t kind = 0;
    if (!take_numbers(parser, 3, place) || !take_choice(parser, kinds, 2, &kind) ||
        !take_numbers(parser, 6, rest) || !at_end_of_line(parser))
        return false;
    const hr_segment_info segment = {
        .address = place[0],
        .total_bytes = place[1],
        .stream = place[2],
        .is_large = kind == 1,
        .private_id = {rest[0], rest[1]},
        .is_expandable = rest[2] != 0,
        .allocated_bytes = rest[3],
        .active_bytes = rest[4],
        .requested_bytes = rest[5],
    };
    APPEND(parser, trace->segments, trace->segment_count, parser->segment_capacity, segment);
    return true;
}

static bool read_block(trace_parser *parser)
{
    static const char *const states[] = {
        [HR_BLOCK_LIVE] = "live", [HR_BLOCK_PENDING_FREE] = "pending", [HR_BLOCK_FREE] = "free"};
    hr_test_trace *trace = parser->trace;
    uint64_t numbers[3];
    size_t state = 0;
    if (!take_numbers(parser, 3, numbers) || !take_choice(parser, states, 3, &state) ||
        !at_end_of_line(parser))
        return false;
    if (trace->segment_count == 0)
        return refuse(parser, "a block without a segment");
    const hr_block_info block = {
        .address = numbers[0],
        .size_bytes = numbers[1],
        .requested_bytes = numbers[2],
        .state = (hr_block_state)state,
    };
    APPEND(parser, trace->blocks, trace->block_count, parser->block_capacity, block);
    trace->segments[trace->segment_count - 1].block_count++;
    return true;
}

static bool read_stat(trace_parser *parser)
{
    hr_test_trace *trace = parser->trace;
    hr_test_trace_stat stat;
    if (!take_word(parser, &stat.key))
        return false;
    char *end = parser->at;
    errno = 0;
    stat.value = strtoll(parser->at, &end, 10);
    if (end == parser->at || errno != 0)
        return refuse(parser, "expected a value");
    parser->at = end;
    if (!at_end_of_line(parser))
        return false;
    APPEND(parser, trace->stats, trace->stat_count, parser->stat_capacity, stat);
    return true;
}

static bool read_summary(trace_parser *parser)
{
    hr_test_trace *trace = parser->trace;
    size_t length = strlen(parser->at);
    char *grown = realloc(trace->summary, parser->summary_bytes + length + 2);
    if (grown == NULL)
        return refuse(parser, "out of memory");
    trace->summary = grown;
    memcpy(grown + parser->summary_bytes, parser->at, length);
    memcpy(grown + parser->summary_bytes + length, "\n", 2);
    parser->summary_bytes += length + 1;
    return true;
}

static bool read_text(trace_parser *parser)
{
    parser->trace->oom_text = parser->at;
    return true;
}

static bool read_end(trace_parser *parser)
{
    const hr_test_trace *trace = parser->trace;
    if (trace->conf == NULL || trace->total_bytes == 0 || trace->event_count == 0 ||
        trace->stat_count == 0 || trace->summary == NULL)
        return refuse(parser, "expected conf, total, events, stats and a summary before the end");
    parser->has_ended = true;
    return at_end_of_line(parser);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    bool (*read)(trace_parser *parser);
} line_kinds[] = {
    {"conf", read_conf},       {"total", read_total},     {"fraction", read_fraction},
    {"scope", read_scope},     {"release", read_release}, {"unsplit", read_unsplit},
    {"segment", read_segment}, {"block", read_block},     {"stat", read_stat},
    {"summary", read_summary}, {"text", read_text},       {"end", read_end},
};

/* Ends the next line in place. False at the end of the text. */
static bool take_line(trace_parser *parser)
{
    if (*parser->next == '\0')
        return false;
    char *newline = strchr(parser->next, '\n');
    parser->at = parser->next;
    parser->line++;
    if (newline == NULL) {
        parser->next += strlen(parser->next);
    } else {
        *newline = '\0';
        parser->next = newline + 1;
    }
    return true;
}

static bool read_line(trace_parser *parser)
{
    if (parser->has_ended)
        return refuse(parser, "expected nothing after the end");
    if (parser->at[0] != '\0' && parser->at[1] == ' ') {
        char letter = parser->at[0];
        parser->at += 2;
        return read_event(parser, letter);
    }
    const char *word = "";
    if (!take_word(parser, &word))
        return false;
    for (size_t i = 0; i < sizeof line_kinds / sizeof line_kinds[0]; i++)
        if (strcmp(word, line_kinds[i].word) == 0)
            return line_kinds[i].read(parser);
    return refuse(parser, "unknown line \"%.20s\"", word);
}

static bool read_lines(trace_parser *parser)
{
    if (!take_line(parser) || strcmp(parser->at, "headroom-trace 1") != 0)
        return refuse(parser, "expected \"headroom-trace 1\"");
    while (take_line(parser))
        if (!read_line(parser))
            return false;
    return parser->has_ended || refuse(parser, "the file is cut");
}

/* `bytes` is handed over, and ends with a zero. */
static bool parse_bytes(char *bytes, hr_test_trace *trace, char *complaint, size_t complaint_bytes)
{
    *trace = (hr_test_trace){.bytes = bytes, .fraction = 1.0};
    trace_parser parser = {
        .trace = trace, .next = bytes, .complaint = complaint, .complaint_bytes = complaint_bytes};
    if (read_lines(&parser))
        return true;
    hr_test_trace_deinit(trace);
    return false;
}

bool hr_test_trace_parse(const char *text, size_t size_bytes, hr_test_trace *trace, char *complaint,
                         size_t complaint_bytes)
{
    char *bytes = malloc(size_bytes + 1);
    if (bytes == NULL) {
        (void)snprintf(complaint, complaint_bytes, "out of memory");
        return false;
    }
    memcpy(bytes, text, size_bytes);
    bytes[size_bytes] = '\0';
    return parse_bytes(bytes, trace, complaint, complaint_bytes);
}

bool hr_test_trace_read(const char *path, hr_test_trace *trace, char *complaint,
                        size_t complaint_bytes)
{
    char *bytes = NULL;
    FILE *file = fopen(path, "rb");
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) {
        long size = ftell(file);
        rewind(file);
        bytes = size < 0 ? NULL : malloc((size_t)size + 1);
        if (bytes != NULL) {
            bytes[size] = '\0';
            if (fread(bytes, 1, (size_t)size, file) != (size_t)size) {
                free(bytes);
                bytes = NULL;
            }
        }
    }
    if (file != NULL)
        (void)fclose(file);
    if (bytes == NULL) {
        (void)snprintf(complaint, complaint_bytes, "%s cannot be read", path);
        return false;
    }
    return parse_bytes(bytes, trace, complaint, complaint_bytes);
}

void hr_test_trace_deinit(hr_test_trace *trace)
{
    free(trace->bytes);
    free(trace->summary);
    free(trace->events);
    free(trace->segments);
    free(trace->blocks);
    free(trace->stats);
    *trace = (hr_test_trace){.bytes = NULL};
}
