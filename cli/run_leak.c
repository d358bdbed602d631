/* run_leak.c - looks at the run's pages, asks for a snapshot, and reports a leak once.
 *
 * The pages are read in this process: they are small, and reading never waits for the job. Judging
 * a log of 512 steps takes about a millisecond; with many ranks, looks become rarer, so that they
 * never take more than a fiftieth of a core. */
#include "run_leak.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vramwise/live.h"

#include "arguments.h"

enum {
    LOOK_AGAIN_MS = 1000,
    LEAST_REST = 50,             /* times as long as a look took */
    SNAPSHOT_LIMIT_SECONDS = 60, /* for a process to write one */
    DOCTOR_LIMIT_SECONDS = 60,
    END_LIMIT_SECONDS = 30, /* for a job to end by itself */
    MOST_STEM_BYTES = 60,   /* of a program's name in a file's */
    MOST_ATTEMPTS = 1000,   /* at a name that no file has */
};

void run_leak_begin(run_leak *guard, run_leak_mode mode, const run_folder *folder)
{
    bool has_pages = vw_live_is_wanted(); /* its processes ask the same */
    *guard = (run_leak){.mode = mode,
                        .folder = folder,
                        .has_pages = has_pages,
                        .stage = has_pages ? RUN_LEAK_LOOKING : RUN_LEAK_TOLD,
                        .next_look_ms = run_signals_now_ms() + LOOK_AGAIN_MS,
                        .doctor = -1,
                        .place_end = -1};
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool is_of_run(const run_leak *guard, const vw_job *job)
{
    return job->state == VW_JOB_RUNNING && vw_job_is_of_run(job, guard->folder->path);
}

/* The one that fills first comes first; if unknown, the one that grows faster. */
static bool is_worse(const vw_job_outlook *one, const vw_job_outlook *other)
{
    if (one->full_at_step != other->full_at_step)
        return one->full_at_step < other->full_at_step; /* VW_LIVE_UNKNOWN is last */
    return one->bytes_per_step > other->bytes_per_step;
}

/* Does any device of the job leak, firmly? Then the worst is in `*found`. */
static bool find_in_job(const vw_job *job, run_leak_news *found)
{
    bool is_firm = false;
    for (size_t i = 0; i < job->device_count; i++) {
        vw_job_outlook outlook;
        if (vw_job_outlook_find_firm(&job->devices[i], &outlook) != VW_OK || !outlook.is_leak ||
            (is_firm && !is_worse(&outlook, &found->outlook)))
            continue;
        is_firm = true;
        *found = (run_leak_news){.process = job->process,
                                 .rank = job->rank,
                                 .device = job->devices[i].index,
                                 .outlook = outlook,
                                 .step_ns = vw_job_step_ns(&job->devices[i])};
        memcpy(found->program, job->program, sizeof found->program);
    }
    return is_firm;
}

/* Looks at all of the run's processes, for `*worst`. Answers how many leak. */
static size_t look(const run_leak *guard, run_leak_news *worst)
{
    vw_jobs *jobs = NULL;
    size_t count = 0;
    if (vw_jobs_read(NULL, &jobs) != VW_OK)
        return 0;
    for (size_t i = 0; i < jobs->job_count; i++) {
        run_leak_news found;
        if (!is_of_run(guard, &jobs->jobs[i]) || !find_in_job(&jobs->jobs[i], &found))
            continue;
        if (count++ == 0 || is_worse(&found.outlook, &worst->outlook))
            *worst = found;
    }
    vw_jobs_free(jobs);
    return count;
}

/* ---- where the snapshot goes ----------------------------------------------------------------- */

/* What the program is called, in letters that any file name can have: as in vramwise-oom-... */
static void copy_stem(const char *program, char stem[MOST_STEM_BYTES + 1])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_.-";
    size_t length = strlen(program), used = 0;
    if (length > 3 && strcmp(program + length - 3, ".py") == 0)
        length -= 3;
    for (size_t i = 0; i < length && used < MOST_STEM_BYTES; i++) {
        bool is_plain = strchr(plain, program[i]) != NULL;
        if (is_plain && used == 0 && (program[i] == '-' || program[i] == '.'))
            continue; /* no option, no hidden file */
        if (is_plain || used == 0 || stem[used - 1] != '_')
            stem[used++] = is_plain ? program[i] : '_';
    }
    stem[used] = '\0';
    if (used == 0)
        strcpy(stem, "program");
}

/* The folder where the run was started, or one for temporary files. */
static const char *kept_in(void)
{
    const char *started = secure_getenv("VRAMWISE_RUN_FOLDER"),
               *temporary = secure_getenv("TMPDIR");
    if (started != NULL && started[0] == '/' && access(started, W_OK | X_OK) == 0)
        return started;
    return temporary != NULL && temporary[0] == '/' ? temporary : "/tmp";
}

/* A new name for the snapshot. false: all candidates are taken. */
static bool place_snapshot(run_leak *guard)
{
    char stem[MOST_STEM_BYTES + 1], rank[32] = "", attempt[32] = "";
    const run_leak_news *found = &guard->found;
    struct stat taken;
    if (guard->mode == RUN_LEAK_WARN) {
        int length = snprintf(guard->snapshot, sizeof guard->snapshot, "%s/leak-%ld.pickle",
                              guard->folder->path, found->process);
        return length > 0 && (size_t)length < sizeof guard->snapshot;
    }
    copy_stem(found->program, stem);
    if (found->rank >= 0)
        snprintf(rank, sizeof rank, "-rank%d", found->rank);
    for (int i = 1; i <= MOST_ATTEMPTS; i++) {
        if (i > 1)
            snprintf(attempt, sizeof attempt, "-%d", i);
        int length =
            snprintf(guard->snapshot, sizeof guard->snapshot, "%s/vramwise-leak-%s-%ld%s%s.pickle",
                     kept_in(), stem, found->process, rank, attempt);
        if (length < 0 || (size_t)length >= sizeof guard->snapshot)
            return false;
        if (lstat(guard->snapshot, &taken) != 0) /* a link that leads nowhere takes a name too */
            return true;
    }
    return false;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void request_path(const run_leak *guard, const char *ending, char *path, size_t capacity)
{
    snprintf(path, capacity, "%s/ask-%ld%s", guard->folder->path, guard->found.process, ending);
}

/* false: it could not be asked. */
static bool ask(run_leak *guard)
{
    char part[PATH_MAX + 64], whole[PATH_MAX + 64];
    if (!place_snapshot(guard))
        return false;
    request_path(guard, ".part", part, sizeof part);
    request_path(guard, "", whole, sizeof whole);
    FILE *file = fopen(part, "wxe");
    if (file == NULL)
        return false;
    bool is_written = fputs(guard->snapshot, file) >= 0;
    return fclose(file) == 0 && is_written && rename(part, whole) == 0;
}

static bool is_answered(const run_leak *guard, const run_news *news)
{
    const run_process *process = run_news_find(news, guard->found.process);
    return process != NULL && process->snapshot != NULL &&
           strcmp(process->snapshot, guard->snapshot) == 0;
}

static bool is_gone(long process)
{
    return kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* What the doctor wrote; "" for nothing. */
static void read_place(run_leak *guard, char place[RUN_REPORT_PLACE_BYTES])
{
    ssize_t length =
        guard->place_end >= 0 ? read(guard->place_end, place, RUN_REPORT_PLACE_BYTES - 1) : 0;
    place[length > 0 ? length : 0] = '\0';
    if (guard->place_end >= 0)
        close(guard->place_end);
    guard->place_end = -1;
}

static void tell(run_leak *guard, pid_t job, bool is_over)
{
    char place[RUN_REPORT_PLACE_BYTES], request[PATH_MAX + 64];
    run_leak_news latest;
    size_t now_leaking = look(guard, &latest); /* ranks come to it one after the other */
    if (now_leaking > guard->leaking_count)
        guard->leaking_count = now_leaking;
    read_place(guard, place);
    request_path(guard, "", request, sizeof request);
    (void)unlink(request); /* it will not be answered any more */
    bool is_kept = guard->has_snapshot && guard->mode != RUN_LEAK_WARN;
    run_report_leak(&guard->found, place, guard->leaking_count - 1,
                    is_kept ? guard->snapshot : NULL);
    guard->stage = RUN_LEAK_TOLD;
    if (guard->mode != RUN_LEAK_STOP || is_over)
        return;
    run_report_say("the job is asked to end, because of --on-leak=stop");
    (void)kill(job, SIGTERM);
    guard->kill_ms =
        run_signals_now_ms() + arguments_limit_ms("VRAMWISE_RUN_STOP_SECONDS", END_LIMIT_SECONDS);
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Is it a process of this run, and not one that got its number? */
static bool has_run_in_environment(const run_leak *guard, long process)
{
    char path[64], wanted[PATH_MAX + 32], *line = NULL;
    size_t capacity = 0;
    bool is_found = false;
    snprintf(path, sizeof path, "/proc/%ld/environ", process);
    snprintf(wanted, sizeof wanted, "VRAMWISE_RUN=%s", guard->folder->path);
    FILE *environment = fopen(path, "re");
    while (environment != NULL && !is_found && getdelim(&line, &capacity, '\0', environment) > 0)
        is_found = strcmp(line, wanted) == 0;
    if (environment != NULL)
        fclose(environment);
    free(line);
    return is_found;
}

/* Killing a launcher does not kill its ranks, so they are killed as well. */
static void kill_ranks(const run_leak *guard)
{
    vw_jobs *jobs = NULL;
    if (vw_jobs_read(NULL, &jobs) != VW_OK)
        return;
    for (size_t i = 0; i < jobs->job_count; i++)
        if (is_of_run(guard, &jobs->jobs[i]) &&
            has_run_in_environment(guard, jobs->jobs[i].process))
            (void)kill((pid_t)jobs->jobs[i].process, SIGKILL);
    vw_jobs_free(jobs);
}

static void kill_if_due(run_leak *guard, pid_t job, bool is_over)
{
    if (is_over)
        guard->kill_ms = 0;
    if (guard->kill_ms == 0 || run_signals_now_ms() < guard->kill_ms)
        return;
    guard->kill_ms = 0;
    run_report_say("the job has not ended, and is killed");
    (void)kill(job, SIGKILL); /* first: it is its end that we end with */
    kill_ranks(guard);
}

/* ---- one turn -------------------------------------------------------------------------------- */

static void look_if_due(run_leak *guard, pid_t job, bool is_over)
{
    uint64_t now_ms = run_signals_now_ms();
    if (is_over) {
        guard->stage = RUN_LEAK_TOLD;
        return;
    }
    if (now_ms < guard->next_look_ms)
        return;
    guard->leaking_count = look(guard, &guard->found);
    uint64_t after_ms = run_signals_now_ms(), rest_ms = LEAST_REST * (after_ms - now_ms);
    guard->next_look_ms = after_ms + (rest_ms > LOOK_AGAIN_MS ? rest_ms : LOOK_AGAIN_MS);
    if (guard->leaking_count == 0)
        return;
    guard->stage = RUN_LEAK_ASKED;
    guard->limit_ms =
        after_ms + arguments_limit_ms("VRAMWISE_RUN_LEAK_SECONDS", SNAPSHOT_LIMIT_SECONDS);
    if (!ask(guard))
        tell(guard, job, is_over);
}

static void wait_for_snapshot(run_leak *guard, const run_news *news, const run_signals *signals,
                              pid_t job, bool is_over)
{
    uint64_t now_ms = run_signals_now_ms();
    if (is_answered(guard, news)) {
        guard->has_snapshot = true;
        guard->stage = RUN_LEAK_EXAMINING;
        guard->limit_ms =
            now_ms + arguments_limit_ms("VRAMWISE_RUN_DOCTOR_SECONDS", DOCTOR_LIMIT_SECONDS);
        guard->doctor = run_report_start_place(guard->snapshot, signals, &guard->place_end);
        if (guard->doctor < 0)
            tell(guard, job, is_over);
    } else if (is_over || now_ms >= guard->limit_ms || is_gone(guard->found.process)) {
        tell(guard, job, is_over);
    }
}

static void wait_for_doctor(run_leak *guard, pid_t job, bool is_over, bool is_interrupted)
{
    bool is_too_late = is_interrupted || run_signals_now_ms() >= guard->limit_ms;
    if (guard->doctor >= 0 && !is_too_late)
        return;
    if (guard->doctor >= 0) {
        (void)kill(guard->doctor, SIGKILL);
        (void)waitpid(guard->doctor, NULL, 0);
        guard->doctor = -1;
    }
    tell(guard, job, is_over);
}

void run_leak_attend(run_leak *guard, const run_news *news, const run_signals *signals, pid_t job,
                     bool is_over, bool is_interrupted)
{
    if (guard->stage == RUN_LEAK_LOOKING)
        look_if_due(guard, job, is_over);
    if (guard->stage == RUN_LEAK_ASKED)
        wait_for_snapshot(guard, news, signals, job, is_over);
    if (guard->stage == RUN_LEAK_EXAMINING)
        wait_for_doctor(guard, job, is_over, is_interrupted);
    kill_if_due(guard, job, is_over);
}

bool run_leak_reap(run_leak *guard, pid_t child)
{
    if (guard->doctor < 0 || child != guard->doctor)
        return false;
    guard->doctor = -1;
    return true;
}

bool run_leak_is_at_work(const run_leak *guard)
{
    return guard->stage != RUN_LEAK_TOLD;
}

uint64_t run_leak_due_ms(const run_leak *guard)
{
    switch (guard->stage) {
    case RUN_LEAK_LOOKING:
        return guard->next_look_ms;
    case RUN_LEAK_ASKED: /* a process that dies meanwhile says nothing */
    {
        uint64_t soon_ms = run_signals_now_ms() + LOOK_AGAIN_MS;
        return guard->limit_ms < soon_ms ? guard->limit_ms : soon_ms;
    }
    case RUN_LEAK_EXAMINING:
        return guard->limit_ms;
    case RUN_LEAK_TOLD:
        break;
    }
    return guard->kill_ms;
}

void run_leak_end(const run_leak *guard)
{
    vw_jobs *jobs = NULL;
    if (guard->has_pages && vw_jobs_read(NULL, &jobs) == VW_OK) /* which removes them */
        vw_jobs_free(jobs);
}
