/* progress.c - when to write the line, and what is in it. */
#include "progress.h"

#include <time.h>
#include <unistd.h>

#define PATIENCE_NS UINT64_C(500000000) /* shorter work shows nothing */
#define PAUSE_NS UINT64_C(100000000)    /* between two writes: faster is not readable */

/* Back to the line's start, and away with what is there. */
#define CLEAR_LINE "\r\033[K"

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void progress_begin_on(progress *line, const char *what, FILE *to, uint64_t (*now_ns)(void))
{
    *line = (progress){.what = what, .to = to, .now_ns = now_ns, .began_ns = now_ns()};
}

void progress_begin(progress *line, const char *what)
{
    progress_begin_on(line, what, isatty(STDERR_FILENO) == 1 ? stderr : NULL, clock_ns);
}

bool progress_show(void *context, double done)
{
    progress *line = context;
    if (line->to == NULL)
        return true;
    uint64_t now_ns = line->now_ns();
    if (now_ns - line->began_ns < PATIENCE_NS)
        return true;
    if (line->shown_ns != 0 && now_ns - line->shown_ns < PAUSE_NS)
        return true;
    line->shown_ns = now_ns;
    if (done >= 0 && done <= 1)
        fprintf(line->to, CLEAR_LINE "%s: %d %%", line->what, (int)(done * 100));
    else
        fprintf(line->to, CLEAR_LINE "%s: %d s", line->what,
                (int)((now_ns - line->began_ns) / 1000000000));
    fflush(line->to);
    return true;
}

void progress_end(progress *line)
{
    if (line->shown_ns != 0) {
        fputs(CLEAR_LINE, line->to);
        fflush(line->to);
    }
    line->shown_ns = 0;
}
