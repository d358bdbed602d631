/* run_signals.h - a job between its terminal and us.
 *
 * The job stays in our process group, so that the terminal treats both alike: Ctrl-C and Ctrl-Z
 * reach the job without our help. A signal that somebody sends to us alone has to be passed on:
 * ours is the number that scripts and schedulers know. A signal sent to the whole group, or to
 * every process of a batch job one by one, has reached the job already, and a second one would
 * interrupt the handler of the first (a training script that saves its state and ends). No field of
 * a signal tells which it was. So there is a witness: a child of ours in the same group that does
 * nothing but tell of the signals it gets. What the witness got as well is not passed on. On a busy
 * machine it may get one and not run for a while: so before a signal is passed on, the witness must
 * be seen waiting for one, with nothing pending. */
#ifndef VRAMWISE_CLI_RUN_SIGNALS_H
#define VRAMWISE_CLI_RUN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h> /* pid_t */

#define RUN_SIGNALS_MOST 65

typedef struct run_signals {
    sigset_t inherited_mask;
    struct sigaction inherited_child_action, inherited_pipe_action, inherited_size_action;
    int signal_file;                    /* readable when a signal has come */
    int witness_pipe;                   /* readable when the witness has one */
    pid_t witness;                      /* -1: none; then everything is passed on */
    uint64_t seen_ms[RUN_SIGNALS_MOST]; /* by the witness; 0 = not lately */
    uint64_t due_ms[RUN_SIGNALS_MOST];  /* to be passed on then; 0 = nothing */
    uint64_t came_ms[RUN_SIGNALS_MOST]; /* of what is due: when it came */
} run_signals;

/* Milliseconds of a clock that only goes forward; never 0. */
uint64_t run_signals_now_ms(void);

/* From here on signals are read, not acted upon. false with errno: nothing changed. */
bool run_signals_begin(run_signals *signals);

/* In a child, before exec: signals as they were before run_signals_begin(). */
void run_signals_restore(const run_signals *signals);

/* What has come since. */
typedef struct run_signals_news {
    bool has_child_changed;
    bool is_asked_to_end;   /* SIGINT, SIGTERM, SIGHUP or SIGQUIT, whoever sent it */
    bool is_asked_to_stop;  /* SIGTSTP; to us alone, or to the job as well */
    bool is_asked_to_go_on; /* SIGCONT */
} run_signals_news;
run_signals_news run_signals_read(run_signals *signals);

/* Passes on to `job` what is due. Answers in how many milliseconds more is; -1: never. */
int run_signals_pass_on(run_signals *signals, pid_t job);

/* Ends the witness. Signals stay blocked: the program is about to end. */
void run_signals_end(run_signals *signals);

#endif /* VRAMWISE_CLI_RUN_SIGNALS_H */
