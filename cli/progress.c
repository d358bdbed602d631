/* progress.c - when to write the line, and what is in it. */
#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS UINT64_C(500000000) /* shorter work shows nothing */
#define PAUSE_NS UINT64_C(100000000)    /* between two writes: faster is not readable */

enum { THOUSAND = 1000 };

/* Back to the line's start, and away with what is there. */
#define CLEAR_LINE "\r\033[K"

static const char full[] = "##############################",
                  empty[] = "                              ";

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void progress_begin_on(progress *line, const char *what, FILE *to, uint64_t (*now_ns)(void))
{
    *line = (progress){.what = what, .to = to, .now_ns = now_ns, .began_ns = now_ns()};
    atomic_init(&line->done, -1);
}

/* The pipe of the variable; NULL where there is none. It stays open as long as the program. */
static FILE *pipe_for_lines(void)
{
    static FILE *pipe;
    const char *text = secure_getenv(PROGRESS_VARIABLE);
    if (pipe == NULL && text != NULL) {
        const long number = strtol(text, NULL, 10);
        if (number > STDERR_FILENO && number <= INT_MAX &&
            fcntl((int)number, F_SETFD, FD_CLOEXEC) == 0)
            pipe = fdopen((int)number, "w");
    }
    return pipe;
}

void progress_begin(progress *line, const char *what)
{
    FILE *lines = pipe_for_lines();
    FILE *terminal = isatty(STDERR_FILENO) == 1 ? stderr : NULL;
    progress_begin_on(line, what, lines != NULL ? lines : terminal, clock_ns);
    line->has_lines = lines != NULL;
}

/* Columns that the bar may have: a line that wraps cannot be taken away. */
static int bar_columns(const progress *line)
{
    const int most = sizeof full - 1, beside = (int)strlen(line->what) + (int)strlen(" [] 100 %");
    struct winsize window;
    if (ioctl(fileno(line->to), TIOCGWINSZ, &window) != 0 || window.ws_col == 0 ||
        window.ws_col >= beside + most)
        return most;
    return window.ws_col > beside ? window.ws_col - beside : 0;
}

/* "reading [#########                     ]  30 %" */
static void draw_bar(const progress *line, double done)
{
    const int columns = bar_columns(line), filled = (int)(done * columns);
    if (columns == 0)
        fprintf(line->to, CLEAR_LINE "%s %3d %%", line->what, (int)(done * 100));
    else
        fprintf(line->to, CLEAR_LINE "%s [%.*s%.*s] %3d %%", line->what, filled, full,
                columns - filled, empty, (int)(done * 100));
}

static void write_line(const progress *line, double done)
{
    if (done >= 0 && done <= 1)
        fprintf(line->to, "%s %.3f\n", line->what, done);
    else
        fprintf(line->to, "%s\n", line->what);
}

static void draw(progress *line, double done)
{
    uint64_t now_ns = line->now_ns();
    if (now_ns - line->began_ns < PATIENCE_NS)
        return;
    if (line->shown_ns != 0 && now_ns - line->shown_ns < PAUSE_NS)
        return;
    line->shown_ns = now_ns;
    if (line->has_lines)
        write_line(line, done);
    else if (done >= 0 && done <= 1)
        draw_bar(line, done);
    else
        fprintf(line->to, CLEAR_LINE "%s: %d s", line->what,
                (int)((now_ns - line->began_ns) / 1000000000));
    fflush(line->to);
}

bool progress_show(void *context, double done)
{
    progress *line = context;
    if (line->is_counting)
        atomic_store(&line->done, done >= 0 && done <= 1 ? (int)(done * THOUSAND) : -1);
    else if (line->to != NULL)
        draw(line, done);
    return true;
}

/* ---- beside work that tells nothing ---------------------------------------------------------- */

/* Waits until the end, or until it is time to look again. */
static bool has_ended(progress *line)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)PAUSE_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    while (sem_timedwait(&line->end, &until) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

static void *count(void *context)
{
    progress *line = context;
    while (!has_ended(line)) {
        const int done = atomic_load(&line->done);
        draw(line, done < 0 ? -1 : (double)done / THOUSAND);
    }
    return NULL;
}

/* Signals are for the thread that works. Without a thread nothing is shown. */
void progress_count(progress *line)
{
    sigset_t all, before;
    if (line->to == NULL || sem_init(&line->end, 0, 0) != 0)
        return;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    line->is_counting = pthread_create(&line->counter, NULL, count, line) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!line->is_counting)
        (void)sem_destroy(&line->end);
}

void progress_begin_counting(progress *line, const char *what)
{
    progress_begin(line, what);
    progress_count(line);
}

void progress_end(progress *line)
{
    if (line->is_counting) {
        (void)sem_post(&line->end);
        (void)pthread_join(line->counter, NULL);
        (void)sem_destroy(&line->end);
        line->is_counting = false;
    }
    if (line->shown_ns != 0 && !line->has_lines) {
        fputs(CLEAR_LINE, line->to);
        fflush(line->to);
    }
    line->shown_ns = 0;
}
