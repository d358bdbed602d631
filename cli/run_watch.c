/* run_watch.c - starts a job, waits for signals, messages and the job's end, and reports.
 *
 * A failure is reported when the job has ended, below its own traceback; but if the job goes on (it
 * caught the error, or other ranks hang in a collective), after REPORT_AFTER_SECONDS. The doctor
 * has a time limit. Nothing here can end the job: the worst that happens is that there is no
 * report. */
#include "run_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "metrics_site.h"
#include "run_leak.h"
#include "arguments.h"
#include "run_news.h"
#include "run_python.h"
#include "run_report.h"
#include "run_signals.h"
#include "safe_print.h"

enum {
    REPORT_AFTER_SECONDS = 5,     /* from the failure, if the job goes on */
    DOCTOR_LIMIT_SECONDS = 120,   /* for the report */
    SNAPSHOT_LIMIT_SECONDS = 600, /* for a process to write it */
    LOOK_AGAIN_MS = 500,          /* after the start: has a launcher become Python by now? */
    MOST_MESSAGE_BYTES = 1 << 17,
    MOST_MESSAGES = 4096, /* before signals are looked at again: some may never end to send */
};

typedef enum doctor_stage { DOCTOR_NOT_CALLED, DOCTOR_AT_WORK, DOCTOR_DONE } doctor_stage;

typedef struct job {
    const run_watch_options *options;
    run_signals signals;
    run_news news;
    pid_t process;
    bool is_over;
    int wait_status;
    int stopped_by;         /* the signal that the job has stopped by; 0 = it runs */
    bool has_stop_signal;   /* SIGTSTP has come to us, and no SIGCONT since */
    bool is_python;         /* the command, or what it became, as far as we can see */
    bool has_said_closed;   /* that it cannot be entered */
    uint64_t look_again_ms; /* 0 = not */
    run_leak guard;
    doctor_stage stage;
    pid_t doctor;
    uint64_t failure_ms; /* when the first failure was reported; 0 = none */
    uint64_t report_after_ms;
    uint64_t doctor_limit_ms;
    char *message;         /* room for one */
    serve_server *metrics; /* NULL: none */
    metrics_source source; /* of `metrics` */
} job;

/* ---- starting -------------------------------------------------------------------------------- */

static int could_not_start(const char *program, int reason)
{
    const size_t length = strlen(program);
    safe_print_error("vramwise run: cannot start '%s': %s", program, strerror(reason));
    fputc('\n', stderr);
    if (length > 3 && strcmp(program + length - 3, ".py") == 0 && access(program, R_OK) == 0) {
        safe_print_error("A script needs its interpreter: vramwise run python %s", program);
        fputc('\n', stderr);
    }
    return EXIT_COULD_NOT_START;
}

int run_watch_become(char **command)
{
    fflush(NULL);
    execvp(command[0], command);
    return could_not_start(command[0], errno);
}

/* In the child. `report_end` is closed by a successful exec; otherwise it carries the reason. */
__attribute__((noreturn)) static void become_job(char **command, const run_signals *signals,
                                                 int report_end)
{
    run_signals_restore(signals);
    execvp(command[0], command);
    int reason = errno;
    (void)!write(report_end, &reason, sizeof reason);
    _exit(EXIT_COULD_NOT_START);
}

/* 0: it runs. Otherwise the reason why it does not. */
static int start_job(job *started, char **command)
{
    int ends[2], reason = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    fflush(NULL);
    started->process = fork();
    if (started->process == 0)
        become_job(command, &started->signals, ends[1]);
    if (started->process < 0)
        reason = errno;
    close(ends[1]);
    if (started->process > 0) {
        ssize_t count;
        do
            count = read(ends[0], &reason, sizeof reason);
        while (count < 0 && errno == EINTR);
        if (count != (ssize_t)sizeof reason)
            reason = 0;
        else
            (void)waitpid(started->process, NULL, 0);
    }
    close(ends[0]);
    return reason;
}

/* ---- can Python be entered? ------------------------------------------------------------------ */

static void say_closed(job *watched, char letter)
{
    if (letter == 0 || watched->has_said_closed)
        return;
    watched->has_said_closed = true;
    run_report_say("the program is not watched: 'python -%c' %s", letter,
                   letter == 'S' ? "starts without the module site, through which vramwise enters"
                                 : "ignores PYTHONPATH, through which vramwise enters");
}

/* Before the start: by what the command is made of. */
static void look_at_command(job *watched, char **command)
{
    run_python_look look = run_python_look_at_command((const char *const *)command);
    watched->is_python = look.is_python;
    say_closed(watched, look.closed_by);
}

/* A moment later: it may have become Python by a way that cannot be read (a launcher, a shell). */
static void look_at_job(job *watched)
{
    run_python_look look;
    if (watched->is_over || run_folder_has(watched->options->folder, "entered") ||
        !run_python_look_at_process(watched->process, &look))
        return;
    watched->is_python |= look.is_python; /* a slow `env` may still be itself */
    say_closed(watched, look.closed_by);
}

static void say_what_was_missed(const job *watched)
{
    const run_folder *folder = watched->options->folder;
    bool has_entered = run_folder_has(folder, "entered");
    bool has_lasted = watched->look_again_ms == 0; /* what fails at its start does not, nor enter */
    if (!has_entered && watched->is_python && has_lasted && !watched->has_said_closed)
        run_report_say("the program was not watched: Python did not run vramwise's start-up hook "
                       "(it does not where PYTHONPATH is changed, or with -I, -E or -S)");
    else if (has_entered && !run_folder_has(folder, "torch") && isatty(STDERR_FILENO) == 1 &&
             !watched->options->has_record)
        run_report_say("torch was never imported: there was nothing to watch");
}

/* ---- messages, and the end of processes ------------------------------------------------------ */

static void hear_messages(job *watched)
{
    for (int i = 0; i < MOST_MESSAGES; i++) {
        ssize_t length =
            recv(watched->options->folder->socket, watched->message, MOST_MESSAGE_BYTES, 0);
        if (length < 0)
            break;
        const char *trouble = run_news_take(&watched->news, watched->message, (size_t)length);
        if (trouble != NULL)
            run_report_say("%s", trouble);
    }
    if (watched->failure_ms == 0 && run_news_first_failure(&watched->news) != NULL)
        watched->failure_ms = run_signals_now_ms();
}

/* Ctrl-Z has stopped the job. Whoever waits for us (the shell) must see us stopped too; what
 * continues us, continues the job. Where somebody has stopped the job alone, nobody may know that
 * we would have to be continued. Both come in any order: that the job has stopped, and our own
 * SIGTSTP. */
static void stop_as_well(job *watched)
{
    int signal_number = watched->stopped_by;
    bool is_for_us = signal_number == SIGTTIN || signal_number == SIGTTOU ||
                     (signal_number == SIGTSTP && watched->has_stop_signal);
    if (!is_for_us)
        return;
    watched->stopped_by = 0;
    watched->has_stop_signal = false;
    raise(SIGSTOP);
}

static void end_doctor(job *watched, int wait_status)
{
    watched->stage = DOCTOR_DONE;
    if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) != SIGINT)
        run_report_say("the doctor was ended by signal %d (%s)", WTERMSIG(wait_status),
                       strsignal(WTERMSIG(wait_status)));
    if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != RUN_REPORT_NOTHING)
        run_report_files(&watched->news);
}

static void reap(job *watched)
{
    int status;
    pid_t changed;
    while ((changed = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        bool has_ended = WIFEXITED(status) || WIFSIGNALED(status);
        if (changed == watched->process)
            watched->stopped_by = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
        if (!has_ended) {
            continue;
        } else if (changed == watched->process) {
            watched->is_over = true;
            watched->wait_status = status;
        } else if (changed == watched->doctor) {
            watched->doctor = -1;
            end_doctor(watched, status);
        } else if (run_leak_reap(&watched->guard, changed)) {
            continue; /* the guard attends to it */
        } else if (changed == watched->signals.witness) {
            watched->signals.witness = -1;
        }
    }
}

/* ---- the doctor ------------------------------------------------------------------------------ */

static void call_doctor(job *watched, uint64_t now_ms)
{
    const run_process *first = run_news_first_failure(&watched->news);
    if (first == NULL) {
        watched->stage = DOCTOR_DONE;
        return;
    }
    watched->doctor = run_report_start(first, &watched->signals);
    watched->doctor_limit_ms =
        now_ms + arguments_limit_ms("VRAMWISE_RUN_DOCTOR_SECONDS", DOCTOR_LIMIT_SECONDS);
    watched->stage = DOCTOR_AT_WORK;
    if (watched->doctor < 0) {
        watched->stage = DOCTOR_DONE;
        run_report_files(&watched->news);
    }
}

static void stop_doctor(job *watched, const char *reason)
{
    run_report_say("%s", reason);
    (void)kill(watched->doctor, SIGKILL);
    (void)waitpid(watched->doctor, NULL, 0);
    watched->doctor = -1;
    watched->stage = DOCTOR_DONE;
    run_report_files(&watched->news);
}

/* When the report is due though the job goes on: not before the snapshot is there. PyTorch takes a
 * while to gather a long history, or to find the names of functions on a machine just started. */
static uint64_t report_due_ms(const job *watched)
{
    const run_process *first = run_news_first_failure(&watched->news);
    bool is_saving = first != NULL && first->is_saving;
    return watched->failure_ms +
           (is_saving ? SNAPSHOT_LIMIT_SECONDS * 1000 : watched->report_after_ms);
}

static void attend_to_doctor(job *watched, bool is_asked_to_end)
{
    uint64_t now_ms = run_signals_now_ms();
    bool is_due = watched->failure_ms != 0 && now_ms >= report_due_ms(watched);
    if (watched->stage == DOCTOR_NOT_CALLED && (watched->is_over || is_due))
        call_doctor(watched, now_ms);
    if (watched->stage != DOCTOR_AT_WORK)
        return;
    if (watched->is_over && is_asked_to_end)
        stop_doctor(watched, "interrupted: no report");
    else if (now_ms >= watched->doctor_limit_ms)
        stop_doctor(watched, "the doctor takes too long, and was stopped");
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* After the job was started: a process with threads is better not forked. Until then whoever asks
 * waits at the door. */
static void serve_metrics(job *watched)
{
    char url[METRICS_URL_BYTES];
    run_metrics *metrics = watched->options->metrics;
    if (metrics == NULL)
        return;
    watched->source =
        (metrics_source){.run = watched->options->folder->path, .lock = PTHREAD_MUTEX_INITIALIZER};
    const serve_site site = metrics_site(&watched->source);
    watched->metrics = serve_start(&site, &metrics->address, &metrics->doors);
    if (watched->metrics == NULL) {
        run_report_say("there are no metrics: %s", strerror(errno));
        return;
    }
    metrics_site_url(&metrics->address, url);
    run_report_say("metrics are at %s", url);
}

static void end_metrics(job *watched)
{
    serve_stop(watched->metrics);
    if (watched->options->metrics != NULL)
        serve_listen_close(&watched->options->metrics->doors);
}

/* ---- from the start to the end --------------------------------------------------------------- */

static int sooner(int one_ms, uint64_t at_ms, uint64_t now_ms)
{
    int wait_ms = at_ms <= now_ms ? 0 : (int)(at_ms - now_ms);
    return one_ms < 0 || wait_ms < one_ms ? wait_ms : one_ms;
}

static int time_to_wait_ms(job *watched)
{
    uint64_t now_ms = run_signals_now_ms();
    int wait_ms = -1;
    if (!watched->is_over) /* its number may belong to another process by now */
        wait_ms = run_signals_pass_on(&watched->signals, watched->process);
    if (watched->look_again_ms != 0)
        wait_ms = sooner(wait_ms, watched->look_again_ms, now_ms);
    if (watched->stage == DOCTOR_NOT_CALLED && watched->failure_ms != 0)
        wait_ms = sooner(wait_ms, report_due_ms(watched), now_ms);
    if (watched->stage == DOCTOR_AT_WORK)
        wait_ms = sooner(wait_ms, watched->doctor_limit_ms, now_ms);
    if (run_leak_due_ms(&watched->guard) != 0)
        wait_ms = sooner(wait_ms, run_leak_due_ms(&watched->guard), now_ms);
    return wait_ms;
}

static void follow_job(job *watched)
{
    while (!watched->is_over || watched->stage != DOCTOR_DONE ||
           run_leak_is_at_work(&watched->guard)) {
        struct pollfd doors[] = {
            {.fd = watched->signals.signal_file, .events = POLLIN},
            {.fd = watched->signals.witness_pipe, .events = POLLIN}, /* -1 is passed over */
            {.fd = watched->options->folder->socket, .events = POLLIN},
        };
        (void)poll(doors, sizeof doors / sizeof doors[0], time_to_wait_ms(watched));
        bool was_over = watched->is_over;
        run_signals_news signals = run_signals_read(&watched->signals);
        watched->has_stop_signal |= signals.is_asked_to_stop;
        watched->has_stop_signal &= !signals.is_asked_to_go_on;
        if (signals.has_child_changed)
            reap(watched);
        stop_as_well(watched);
        hear_messages(watched);
        if (watched->look_again_ms != 0 && run_signals_now_ms() >= watched->look_again_ms) {
            watched->look_again_ms = 0;
            look_at_job(watched);
        }
        /* What ends the job is not meant for the report about it; what comes after its end is. */
        run_leak_attend(&watched->guard, &watched->news, &watched->signals, watched->process,
                        watched->is_over, signals.is_asked_to_end && was_over);
        attend_to_doctor(watched, signals.is_asked_to_end && watched->stage == DOCTOR_AT_WORK);
    }
}

static void say_the_rest(job *watched)
{
    run_report_rest(&watched->news);
    uint64_t later_count = run_news_later_failures(&watched->news);
    if (later_count > 0)
        run_report_say("and %llu more out-of-memory error%s after the first",
                       (unsigned long long)later_count, later_count == 1 ? "" : "s");
    if (watched->failure_ms != 0 && WIFEXITED(watched->wait_status) &&
        WEXITSTATUS(watched->wait_status) == 0)
        run_report_say("the program went on after that, and ended well");
    if (watched->options->has_record)
        run_report_recordings(&watched->news, run_folder_has(watched->options->folder, "cuda"));
    say_what_was_missed(watched);
}

/* As python/vramwise/_files.py names what it has not finished: messages come from the job, and
 * could name anything. */
static bool is_part(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const size_t length = strlen(name);
    struct stat found;
    return strncmp(name, ".vramwise-", 10) == 0 && length > 15 &&
           strcmp(name + length - 5, ".part") == 0 && lstat(path, &found) == 0 &&
           S_ISREG(found.st_mode) && found.st_uid == geteuid();
}

/* A process that was killed while it wrote has left a part of a file. */
static void remove_parts(const run_news *news)
{
    for (size_t i = 0; i < news->process_count; i++) {
        const run_process *process = &news->processes[i];
        bool is_gone = kill((pid_t)process->id, 0) != 0 && errno == ESRCH;
        if (process->part != NULL && is_gone && is_part(process->part))
            (void)unlink(process->part);
    }
}

static int exit_status_of(int wait_status)
{
    return WIFSIGNALED(wait_status) ? EXIT_SIGNAL_BASE + WTERMSIG(wait_status)
                                    : WEXITSTATUS(wait_status);
}

static int follow(job *watched, char **command)
{
    look_at_command(watched, command);
    watched->look_again_ms = run_signals_now_ms() + LOOK_AGAIN_MS;
    int reason = start_job(watched, command);
    if (reason != 0)
        return could_not_start(command[0], reason);
    serve_metrics(watched);
    follow_job(watched);
    say_the_rest(watched);
    remove_parts(&watched->news);
    run_leak_end(&watched->guard);
    return exit_status_of(watched->wait_status);
}

int run_watch(char **command, const run_watch_options *options)
{
    job watched = {.options = options, .process = -1, .doctor = -1};
    watched.message = malloc(MOST_MESSAGE_BYTES + 1);
    if (watched.message == NULL || !run_signals_begin(&watched.signals)) {
        int reason = watched.message == NULL ? ENOMEM : errno;
        end_metrics(&watched);
        free(watched.message);
        return could_not_start(command[0], reason);
    }
    run_news_init(&watched.news);
    run_leak_begin(&watched.guard, options->on_leak, options->folder);
    watched.report_after_ms =
        arguments_limit_ms("VRAMWISE_RUN_REPORT_SECONDS", REPORT_AFTER_SECONDS);
    int exit_status = follow(&watched, command);
    end_metrics(&watched);
    run_news_deinit(&watched.news);
    run_signals_end(&watched.signals);
    free(watched.message);
    return exit_status;
}
