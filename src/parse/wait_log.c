/* wait_log.c - two words and the numbers behind them, line by line. */
#include "parse/wait_log.h"

#include <string.h>

#include "parse/line.h"

enum { LEAST_STEPS = 10 }; /* that say how long they waited */

/* The number behind the first of `words` that stands alone in the line: "data_time: 0.40",
 * "Data  0.290 ( 0.300)". Negative where there is none. */
static double number_behind(vw__line line, const char *const *words, size_t count)
{
    for (size_t at = 0; at < line.size_bytes; at++) {
        if (at > 0 && (vw__ascii_is_name(line.text[at - 1]) || line.text[at - 1] == '-'))
            continue;
        for (size_t i = 0; i < count; i++) {
            if (!vw__line_begins(line, at, words[i]))
                continue;
            size_t here = at + strlen(words[i]);
            bool is_quoted = vw__line_at(line, here) == '"' || vw__line_at(line, here) == '\'';
            here += is_quoted;
            size_t mark = vw__line_skip_blanks(line, here);
            bool has_mark = vw__line_at(line, mark) == ':' || vw__line_at(line, mark) == '=';
            here = vw__line_skip_blanks(line, mark + has_mark);
            if (vw__line_is_digit(line, here) && (has_mark || here > mark || mark > at))
                return vw__line_number_read(line, here, false).value;
        }
    }
    return -1;
}

static void read_line(vw__wait_log *log, vw__line line)
{
    static const char *const waited[] = {"data_time", "data time", "dataload_time", "data"};
    static const char *const all[] = {"batch_time", "iter_time", "step_time", "time"};
    enum { COUNT = sizeof waited / sizeof *waited };
    if (memmem(line.text, line.size_bytes, "ata", 3) == NULL ||
        memmem(line.text, line.size_bytes, "ime", 3) == NULL)
        return;
    double waited_seconds = number_behind(line, waited, COUNT);
    double step_seconds = number_behind(line, all, sizeof all / sizeof *all);
    if (waited_seconds < 0 || step_seconds <= 0 || waited_seconds > step_seconds)
        return;
    log->step_count++;
    log->waited_seconds += waited_seconds;
    log->step_seconds += step_seconds;
}

static void keep(vw__wait_log *log, const char *bytes, size_t size_bytes)
{
    size_t room = sizeof log->line - log->line_bytes;
    size_t taken = size_bytes < room ? size_bytes : room;
    memcpy(log->line + log->line_bytes, bytes, taken);
    log->line_bytes += taken;
}

void vw__wait_log_feed(vw__wait_log *log, const char *bytes, size_t size_bytes)
{
    while (size_bytes > 0) {
        const char *end = memchr(bytes, '\n', size_bytes);
        size_t length = end != NULL ? (size_t)(end - bytes) : size_bytes;
        if (end == NULL || log->line_bytes != 0)
            keep(log, bytes, length);
        if (end == NULL)
            return;
        vw__line line = log->line_bytes != 0 ? (vw__line){log->line, log->line_bytes}
                                             : (vw__line){bytes, length};
        if (line.size_bytes > VW__WAIT_LOG_LINE_BYTES)
            line.size_bytes = VW__WAIT_LOG_LINE_BYTES;
        read_line(log, line);
        log->line_bytes = 0;
        bytes += length + 1;
        size_bytes -= length + 1;
    }
}

double vw__wait_log_share(const vw__wait_log *log)
{
    return log->step_count >= LEAST_STEPS ? log->waited_seconds / log->step_seconds : 0;
}
