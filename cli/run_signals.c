/* run_signals.c - reads signals, and passes on those that came to us alone. */
#include "run_signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    WITNESS_MS = 40,     /* within which one signal reaches all processes; too short to notice */
    MOST_WAIT_MS = 30000 /* for a witness that does not run: then it is passed on all the same */
};

static const int passed_on[] = {SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

static sigset_t signals_to_read(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++)
        sigaddset(&set, passed_on[i]);
    return set;
}

uint64_t run_signals_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 + 1;
}

/* ---- the witness ----------------------------------------------------------------------------- */

__attribute__((noreturn)) static void be_witness(int pipe_end, pid_t parent)
{
    sigset_t all, looked_at = signals_to_read();
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it must not outlive us, nor keep a pipe of ours open */
    if (getppid() != parent)
        _exit(0);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    for (;;) {
        siginfo_t info;
        int number = sigwaitinfo(&looked_at, &info);
        unsigned char byte = (unsigned char)number;
        if (number > 0 && write(pipe_end, &byte, 1) != 1)
            _exit(0);
    }
}

static void start_witness(run_signals *signals)
{
    int ends[2];
    signals->witness = -1;
    signals->witness_pipe = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    pid_t us = getpid(), witness = fork();
    if (witness == 0) {
        int end = fcntl(ends[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        be_witness(end >= 0 ? end : ends[1], us);
    }
    close(ends[1]);
    if (witness < 0) {
        close(ends[0]);
        return;
    }
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    signals->witness = witness;
    signals->witness_pipe = ends[0];
}

/* Does it wait for signals, with none pending? Then it has told us all that it got. Where the
 * system does not say: yes. */
static bool is_witness_at_rest(pid_t witness, int number)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)witness);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0)
        close(file);
    if (length <= 0)
        return true;
    text[length] = '\0';
    const char *state = strstr(text, "\nState:\t"), *pending = strstr(text, "\nShdPnd:\t");
    if (state == NULL || pending == NULL)
        return true;
    unsigned long long set = strtoull(pending + strlen("\nShdPnd:\t"), NULL, 16);
    return state[strlen("\nState:\t")] == 'S' && (set >> (number - 1) & 1) == 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

bool run_signals_begin(run_signals *signals)
{
    struct sigaction usual = {.sa_handler = SIG_DFL}, ignored = {.sa_handler = SIG_IGN};
    sigset_t read_here = signals_to_read();
    memset(signals, 0, sizeof *signals);
    sigaddset(&read_here, SIGCHLD);
    signals->signal_file = signalfd(-1, &read_here, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->signal_file < 0)
        return false;
    sigprocmask(SIG_BLOCK, &read_here, &signals->inherited_mask);
    /* Where our parent ignores its children, the system would reap ours unseen. */
    sigaction(SIGCHLD, &usual, &signals->inherited_child_action);
    /* Neither a reader of standard error that went away nor a log that may not grow must take us
     * from the job's side. */
    sigaction(SIGPIPE, &ignored, &signals->inherited_pipe_action);
    sigaction(SIGXFSZ, &ignored, &signals->inherited_size_action);
    start_witness(signals);
    return true;
}

void run_signals_restore(const run_signals *signals)
{
    sigaction(SIGCHLD, &signals->inherited_child_action, NULL);
    sigaction(SIGPIPE, &signals->inherited_pipe_action, NULL);
    sigaction(SIGXFSZ, &signals->inherited_size_action, NULL);
    sigprocmask(SIG_SETMASK, &signals->inherited_mask, NULL);
}

static void take_signal(run_signals *signals, const struct signalfd_siginfo *info, uint64_t now_ms,
                        run_signals_news *news)
{
    int number = (int)info->ssi_signo;
    if (number == SIGCHLD) {
        news->has_child_changed = true;
        return;
    }
    if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT)
        news->is_asked_to_end = true;
    news->is_asked_to_stop |= number == SIGTSTP;
    news->is_asked_to_go_on |= number == SIGCONT;
    if (number <= 0 || number >= RUN_SIGNALS_MOST)
        return;
    bool is_seen = signals->seen_ms[number] != 0;
    signals->seen_ms[number] = 0;
    if (info->ssi_code > 0 || is_seen || signals->due_ms[number] != 0)
        return; /* by the terminal, to all of the group; or the witness has it too; or it is due */
    signals->came_ms[number] = now_ms;
    signals->due_ms[number] = signals->witness >= 0 ? now_ms + WITNESS_MS : now_ms;
}

/* What the witness saw was ours as well, and had come by the time we looked, or it never does. */
static void forget_seen(run_signals *signals, uint64_t now_ms)
{
    for (int number = 1; number < RUN_SIGNALS_MOST; number++)
        if (signals->seen_ms[number] != 0 && now_ms - signals->seen_ms[number] > WITNESS_MS)
            signals->seen_ms[number] = 0;
}

static void hear_witness(run_signals *signals, uint64_t now_ms)
{
    unsigned char numbers[64];
    ssize_t count;
    if (signals->witness_pipe < 0)
        return;
    while ((count = read(signals->witness_pipe, numbers, sizeof numbers)) > 0)
        for (ssize_t i = 0; i < count; i++) {
            if (numbers[i] >= RUN_SIGNALS_MOST)
                continue;
            if (signals->due_ms[numbers[i]] != 0)
                signals->due_ms[numbers[i]] = 0; /* it was for everyone */
            else
                signals->seen_ms[numbers[i]] = now_ms;
        }
    if (count == 0) { /* the witness is gone: from here on, everything is passed on */
        close(signals->witness_pipe);
        signals->witness_pipe = -1;
        signals->witness = -1;
    }
}

run_signals_news run_signals_read(run_signals *signals)
{
    run_signals_news news = {.has_child_changed = false};
    struct signalfd_siginfo info;
    uint64_t now_ms = run_signals_now_ms();
    while (read(signals->signal_file, &info, sizeof info) == (ssize_t)sizeof info)
        take_signal(signals, &info, now_ms, &news);
    forget_seen(signals, now_ms);
    hear_witness(signals, now_ms);
    return news;
}

static void sooner(int *next_ms, uint64_t at_ms, uint64_t now_ms)
{
    int wait_ms = at_ms > now_ms ? (int)(at_ms - now_ms) : 1;
    if (*next_ms < 0 || wait_ms < *next_ms)
        *next_ms = wait_ms;
}

/* Its time has come: does the witness know nothing of it? */
static bool is_for_us_alone(run_signals *signals, int number, uint64_t now_ms)
{
    if (signals->witness < 0 || now_ms - signals->came_ms[number] > MOST_WAIT_MS)
        return true;
    bool is_at_rest = is_witness_at_rest(signals->witness, number);
    hear_witness(signals, now_ms); /* what it reported until then */
    if (is_at_rest)
        return signals->due_ms[number] != 0;
    if (signals->due_ms[number] != 0)
        signals->due_ms[number] = now_ms + WITNESS_MS;
    return false;
}

int run_signals_pass_on(run_signals *signals, pid_t job)
{
    uint64_t now_ms = run_signals_now_ms();
    int next_ms = -1;
    for (int number = 1; number < RUN_SIGNALS_MOST; number++) {
        uint64_t due_ms = signals->due_ms[number];
        if (due_ms != 0 && due_ms <= now_ms && is_for_us_alone(signals, number, now_ms)) {
            signals->due_ms[number] = 0;
            (void)kill(job, number);
        }
        if (signals->due_ms[number] != 0)
            sooner(&next_ms, signals->due_ms[number], now_ms);
        if (signals->seen_ms[number] != 0)
            sooner(&next_ms, signals->seen_ms[number] + WITNESS_MS + 1, now_ms);
    }
    return next_ms;
}

void run_signals_end(run_signals *signals)
{
    if (signals->witness >= 0) {
        (void)kill(signals->witness, SIGKILL);
        (void)waitpid(signals->witness, NULL, 0);
        signals->witness = -1;
    }
    if (signals->witness_pipe >= 0)
        close(signals->witness_pipe);
    close(signals->signal_file);
}
