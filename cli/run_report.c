/* run_report.c - the doctor's process, and the lines around what it says.
 *
 * There may be two accounts of one failure: the snapshot, and the error with the step log. The
 * snapshot knows every block and its line; but not what others hold on the card, what a limit is,
 * or how long something has been growing if the history is shorter than that. So both are
 * examined, and where the second names a cause that the first cannot see, it comes first. */
#include "run_report.h"

#include <fcntl.h> /* pipe2's O_CLOEXEC */
#include <math.h>  /* fmin */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vramwise/doctor.h"
#include "vramwise/report.h"
#include "vramwise/units.h"

#include "memory_guard.h"
#include "recording_command.h" /* recording_command_form, recording_command_output */
#include "safe_print.h"

enum {
    MOST_STEP_LOG_BYTES = 4 << 20,
    MOST_FILES = 16, /* that are named */
};

void run_report_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("vramwise: ", stderr);
    safe_print_error_args(format, args);
    fputc('\n', stderr); /* one write, by command_run()'s setvbuf() */
    va_end(args);
}

/* ---- names of files -------------------------------------------------------------------------- */

/* As a person in this folder would type it. */
static const char *from_here(const char *path)
{
    char *here = getcwd(NULL, 0);
    size_t length = here != NULL ? strlen(here) : 0;
    if (length > 1 && strncmp(path, here, length) == 0 && path[length] == '/')
        path += length + 1;
    free(here);
    return path;
}

static bool print_piece(void *context, const char *bytes, size_t size_bytes)
{
    (void)context;
    safe_print_error("%.*s", (int)size_bytes, bytes);
    return true;
}

/* With quotes where a shell needs them. */
static void print_path(const char *path)
{
    const vw_output output = {NULL, print_piece};
    (void)vw_write_shell_word(from_here(path), &output);
}

static void print_process(const run_process *process)
{
    fprintf(stderr, "process %ld", process->id);
    if (process->rank >= 0)
        fprintf(stderr, " (rank %ld)", process->rank);
}

/* ---- the doctor's process -------------------------------------------------------------------- */

/* A message may name anything. What is no plain file may keep who reads it waiting for ever. */
static bool is_plain_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

static vw_diagnosis *diagnose_snapshot(const char *path)
{
    vw_diagnosis *diagnosis = NULL;
    if (!is_plain_file(path))
        run_report_say("the doctor cannot read the snapshot: %s is not there, or no plain file",
                       path);
    else if (vw_doctor_file(path, NULL, &diagnosis) != VW_OK)
        run_report_say("the doctor cannot read the snapshot: %s", vw_last_error());
    return diagnosis;
}

/* The error's words and the steps, in one text: the doctor weighs them together. NULL: neither. */
static char *tell_story(const run_process *process, size_t *size_bytes)
{
    /* PyTorch's own words are best, if they are about the failure that the snapshot shows. */
    bool is_the_same = process->failure == NULL || process->later_count == 0;
    const char *words = process->error != NULL && is_the_same ? process->error : process->failure;
    size_t length = words != NULL ? strlen(words) : 0;
    char *story = malloc(length + MOST_STEP_LOG_BYTES + 2);
    if (story == NULL)
        return NULL;
    memcpy(story, words != NULL ? words : "", length);
    story[length++] = '\n';
    bool has_steps = process->steps != NULL && is_plain_file(process->steps);
    FILE *steps = has_steps ? fopen(process->steps, "rb") : NULL;
    if (steps != NULL) {
        length += fread(story + length, 1, MOST_STEP_LOG_BYTES, steps);
        fclose(steps);
    }
    *size_bytes = length;
    return story;
}

static void print_heading(const run_process *process)
{
    fputs("\nvramwise: ", stderr);
    print_process(process);
    if (process->failure_number == 0)
        fputs(" had an uncaught error about memory.\n\n", stderr);
    else if (process->device >= 0)
        fprintf(stderr, " ran out of memory on GPU %ld.\n\n", process->device);
    else
        fputs(" ran out of GPU memory.\n\n", stderr);
}

/* Lines of the card around the diagnosis: print_heading(), print_next_steps(), a note and the other
 * account's sentence. */
enum { HEADING_LINES = 3, NEXT_STEP_LINES = 4, REMARK_LINES = 3 };

/* So that the whole card fits a screen. */
static size_t lines_for_diagnosis(const run_process *process, bool has_other)
{
    int taken = HEADING_LINES;
    if (process->file != NULL)
        taken += NEXT_STEP_LINES;
    if (has_other)
        taken += REMARK_LINES;
    if (process->note != NULL)
        taken += REMARK_LINES;
    return (size_t)(RECORDING_COMMAND_SCREEN_LINES - taken);
}

static bool print_diagnosis(const vw_diagnosis *diagnosis, const char *file, size_t most_lines)
{
    vw_report_form form = recording_command_form(file, false);
    form.most_lines = most_lines;
    bool is_said = vw_report_doctor(diagnosis, &form, &recording_command_output) == VW_OK;
    fflush(stdout);
    return is_said;
}

/* Both accounts, the better one and of the other its sentence. */
static int print_diagnoses(const run_process *process, const vw_diagnosis *snapshot,
                           const vw_diagnosis *story)
{
    bool begins_with_story =
        snapshot == NULL || (story != NULL && vw_diagnosis_sees_more(story, snapshot));
    const vw_diagnosis *first = begins_with_story ? story : snapshot;
    if (first == NULL || (snapshot == NULL && first->verdict == VW_VERDICT_NOT_OOM))
        return process->failure_number == 0 ? RUN_REPORT_NOTHING : RUN_REPORT_FAILED;
    print_heading(process);
    const char *name = process->steps != NULL ? "the error and the steps before it" : "the error";
    if (!begins_with_story)
        name = from_here(process->file);
    const bool has_other = begins_with_story && snapshot != NULL;
    if (!print_diagnosis(first, name, lines_for_diagnosis(process, has_other)))
        return RUN_REPORT_FAILED;
    if (has_other) {
        fputc('\n', stderr);
        run_report_say("the snapshot alone would have it: %s", snapshot->sentence);
    }
    return RUN_REPORT_SAID;
}

static int examine(const run_process *process)
{
    vw_diagnosis *snapshot = NULL, *story = NULL;
    size_t size_bytes = 0;
    char *text = tell_story(process, &size_bytes);
    if (process->file != NULL)
        snapshot = diagnose_snapshot(process->file);
    if (text != NULL && size_bytes > 1 && vw_doctor_text(text, size_bytes, NULL, &story) != VW_OK)
        run_report_say("the doctor cannot read the error: %s", vw_last_error());
    int result = print_diagnoses(process, snapshot, story);
    vw_diagnosis_free(snapshot);
    vw_diagnosis_free(story);
    free(text);
    return result;
}

/* As fork(), for a child that examines something. */
static pid_t fork_doctor(const run_signals *signals)
{
    fflush(stderr);
    pid_t doctor = fork();
    if (doctor == 0) {
        run_signals_restore(signals);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!nice(10); /* the job may still be at work */
        memory_guard_set();
    }
    if (doctor < 0)
        run_report_say("the doctor could not be started: no process to be had");
    return doctor;
}

pid_t run_report_start(const run_process *process, const run_signals *signals)
{
    pid_t doctor = fork_doctor(signals);
    if (doctor == 0) {
        /* Reports are written to standard output, and look as it is: a terminal, or not. */
        if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
            _exit(RUN_REPORT_FAILED);
        int result = examine(process);
        fflush(stderr);
        _exit(result);
    }
    return doctor;
}

/* ---- a leak, while the job runs ---------------------------------------------------------------
 */

/* The line of what leaks, or else of what is kept for a backward pass that never comes. */
static const char *place_of_leak(const vw_diagnosis *diagnosis)
{
    static const char *const kinds[] = {"leak", "kept-graph"};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (size_t i = 0; i < diagnosis->finding_count; i++)
            if (strcmp(diagnosis->findings[i].kind, kinds[k]) == 0 &&
                diagnosis->findings[i].where_count > 0)
                return diagnosis->findings[i].where[0];
    return "";
}

static int write_place(const char *snapshot, int to)
{
    vw_diagnosis *diagnosis = diagnose_snapshot(snapshot);
    if (diagnosis == NULL)
        return RUN_REPORT_FAILED;
    const char *place = place_of_leak(diagnosis);
    size_t length = strnlen(place, RUN_REPORT_PLACE_BYTES - 1);
    bool is_written = write(to, place, length) == (ssize_t)length;
    vw_diagnosis_free(diagnosis);
    return is_written ? RUN_REPORT_SAID : RUN_REPORT_FAILED;
}

pid_t run_report_start_place(const char *snapshot, const run_signals *signals, int *place_end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    pid_t doctor = fork_doctor(signals);
    if (doctor == 0) {
        int result = write_place(snapshot, ends[1]);
        fflush(stderr);
        _exit(result);
    }
    close(ends[1]);
    if (doctor < 0)
        close(ends[0]);
    else
        *place_end = ends[0];
    return doctor;
}

/* "; memory runs out at about step 1947, in about 30 min"; "" where it is not known. */
static void write_end(const run_leak_news *leak, char *text, size_t capacity)
{
    char time[VW_DURATION_TEXT_BYTES];
    uint64_t full_at_step = leak->outlook.full_at_step;
    text[0] = '\0';
    if (full_at_step == VW_LIVE_UNKNOWN)
        return;
    double steps = (double)(full_at_step - leak->outlook.last_step);
    double seconds = steps * (double)leak->step_ns / 1e9;
    bool has_time = leak->step_ns != VW_LIVE_UNKNOWN && seconds < 1e9;
    snprintf(text, capacity, "; memory runs out at about step %llu%s%s",
             (unsigned long long)full_at_step, has_time ? ", in about " : "",
             has_time ? vw_format_duration((uint64_t)seconds, time) : "");
}

void run_report_leak(const run_leak_news *leak, const char *place, size_t other_count,
                     const char *kept)
{
    char pace[VW_SIZE_TEXT_BYTES], rank[32] = "", end[128], others[64] = "";
    bool is_ranked = leak->rank >= 0;
    if (is_ranked)
        snprintf(rank, sizeof rank, " (rank %d)", leak->rank);
    if (other_count > 0)
        snprintf(others, sizeof others, ", and %zu other %s%s", other_count,
                 is_ranked ? "rank" : "process",
                 other_count == 1 ? ""
                 : is_ranked      ? "s"
                                  : "es");
    write_end(leak, end, sizeof end);
    run_report_say("a leak: process %ld%s%s: GPU %d's memory grows by %s per step%s", leak->process,
                   rank, others, leak->device,
                   vw_format_size((uint64_t)fmin(leak->outlook.bytes_per_step, 1e18), pace), end);
    if (place[0] != '\0')
        run_report_say("what grows is allocated at %s", place);
    if (kept == NULL)
        return;
    fputs("vramwise: the snapshot is ", stderr);
    print_path(kept);
    fputs("\n  Next:\n    vramwise doctor ", stderr);
    print_path(kept);
    fputc('\n', stderr);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* " --card 24GiB", in the largest unit that says it without loss. */
static void print_card(uint64_t total_bytes)
{
    const uint64_t mib = total_bytes >> 20;
    if (total_bytes == RUN_NEWS_UNKNOWN)
        fputs(" --card SIZE\n", stderr);
    else if (mib % 1024 == 0)
        fprintf(stderr, " --card %lluGiB\n", (unsigned long long)(mib / 1024));
    else
        fprintf(stderr, " --card %lluMiB\n", (unsigned long long)mib);
}

/* Two commands: the lines of a screen are few. */
static void print_next_steps(const run_process *process)
{
    fputs("\nvramwise: the snapshot is ", stderr);
    print_path(process->file);
    fputs("\n  Next: vramwise doctor --all ", stderr);
    print_path(process->file);
    fputs("\n        vramwise tune ", stderr);
    print_path(process->file);
    print_card(process->total_bytes);
}

static void name_others(run_news *news, bool is_over)
{
    const run_process *first = run_news_first_failure(news);
    size_t named = 0;
    for (size_t i = 0; i < news->process_count; i++) {
        run_process *process = &news->processes[i];
        bool is_writing = process->part != NULL && process->file == NULL;
        if (process == first || process->failure_number == 0 || process->is_named ||
            (is_writing && !is_over))
            continue;
        process->is_named = true;
        if (named++ >= MOST_FILES)
            continue;
        fputs("vramwise: ", stderr);
        print_process(process);
        fputs(" ran out as well: ", stderr);
        if (process->file != NULL)
            print_path(process->file);
        else
            fputs("no snapshot", stderr);
        fputc('\n', stderr);
    }
    if (named > MOST_FILES)
        run_report_say("and %zu more processes", named - MOST_FILES);
}

/* The file of the process that was diagnosed, once. */
static void name_first(run_news *news)
{
    run_process *first = (run_process *)(uintptr_t)run_news_first_failure(news); /* one of ours */
    if (first == NULL || first->file == NULL || first->is_named)
        return;
    first->is_named = true;
    print_next_steps(first);
}

void run_report_files(run_news *news)
{
    const run_process *first = run_news_first_failure(news);
    if (first != NULL && first->note != NULL) {
        fputc('\n', stderr);
        run_report_say("%s", first->note);
    }
    name_first(news);
    name_others(news, false);
}

void run_report_rest(run_news *news)
{
    name_first(news);
    name_others(news, true);
}

void run_report_recordings(const run_news *news, bool has_cuda)
{
    size_t recorded = 0, missing = 0;
    for (size_t i = 0; i < news->process_count; i++) {
        const run_process *process = &news->processes[i];
        if (process->recording == NULL)
            continue;
        if (process->is_recorded && recorded++ < MOST_FILES) {
            fputs("vramwise: recorded ", stderr);
            print_path(process->recording);
            fputc('\n', stderr);
        } else if (process->is_lost) {
            missing++; /* it has said why */
        } else if (!process->is_recorded && missing++ < MOST_FILES) {
            fputs("vramwise: ", stderr);
            print_process(process);
            fputs(" ended before Python could, by a signal or os._exit(): no recording ", stderr);
            print_path(process->recording);
            fputc('\n', stderr);
        }
    }
    if (recorded > MOST_FILES)
        run_report_say("and %zu more recordings", recorded - MOST_FILES);
    if (recorded + missing == 0 && !has_cuda)
        run_report_say("nothing was recorded: no process of the run used a GPU through PyTorch");
    else if (recorded + missing == 0)
        run_report_say("nothing was recorded");
}
