/* command_doctor.c - `vramwise doctor [FILE|-|--pid PID [--attach]]`: why memory ran out, or
 * will, and what to do.
 *
 * Without FILE it reads standard input, so that a log can be piped into it; but not from a terminal
 * unless asked to: a program that waits silently looks like one that hangs. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h> /* isatty */

#include "vramwise/doctor.h"
#include "vramwise/process.h"
#include "vramwise/report.h"
#include "vramwise/watch.h"

#include "arguments.h"
#include "command.h"
#include "doctor_attach.h"
#include "progress.h"
#include "recording_command.h"
#include "safe_print.h"

static vw_status examine(const char *path, vw_doctor_options *options, vw_diagnosis **diagnosis)
{
    progress line;
    progress_begin_counting(&line, "examining");
    options->progress = progress_show;
    options->progress_context = &line;
    vw_status status = vw_doctor_file(path, options, diagnosis);
    progress_end(&line);
    return status;
}

/* How the answer is wanted. */
typedef struct shown_as {
    bool has_json;
    bool has_all; /* the whole report, not one screen */
} shown_as;

/* Shows what an examination came to, and frees it. `name` is what was examined. */
static int show_diagnosis(const char *command_name, const char *name, vw_status status,
                          vw_diagnosis *diagnosis, const shown_as *as)
{
    int exit_status = EXIT_DONE;
    if (status == VW_OK) {
        vw_report_form form = recording_command_form(name, as->has_json);
        form.most_lines = as->has_all ? 0 : RECORDING_COMMAND_SCREEN_LINES;
        form.rest = "--all";
        status = vw_report_doctor(diagnosis, &form, &recording_command_output);
        exit_status = vw_diagnosis_is_problem(diagnosis) ? EXIT_SOMETHING_TO_SEE : EXIT_DONE;
        vw_diagnosis_free(diagnosis);
    }
    if (status != VW_OK)
        exit_status = recording_command_fail(command_name, name, status);
    return exit_status;
}

static int examine_file(const char *command_name, const char *path, vw_doctor_options *options,
                        const shown_as *as)
{
    vw_diagnosis *diagnosis = NULL;
    vw_status status = examine(path, options, &diagnosis);
    return show_diagnosis(command_name, path, status, diagnosis, as);
}

/* ---- a process that runs
 * ------------------------------------------------------------------------- */

enum { MOST_NAMED = 12, MOST_NAME_BYTES = 2 * VW_JOB_TEXT_BYTES };

/* Says who is there instead. */
static int say_no_such_process(const char *command_name, const vw_jobs *jobs, long process)
{
    fprintf(stderr, "vramwise %s: there is no process %ld; ", command_name, process);
    fputs(jobs->job_count == 0 ? "no job publishes its memory here" : "jobs that publish theirs:",
          stderr);
    for (size_t i = 0; i < jobs->job_count && i < MOST_NAMED; i++) {
        fprintf(stderr, "%s %ld", i > 0 ? "," : "", jobs->jobs[i].process);
        if (jobs->jobs[i].program[0] != '\0') {
            fputs(" (", stderr);
            safe_print(stderr, jobs->jobs[i].program);
            fputc(')', stderr);
        }
    }
    if (jobs->job_count > MOST_NAMED)
        fprintf(stderr, " and %zu more", jobs->job_count - MOST_NAMED);
    fputc('\n', stderr);
    return EXIT_COULD_NOT;
}

/* Only looks: the process notices nothing of it. */
static vw_status look_from_outside(const vw_process *process, const vw_doctor_options *options,
                                   vw_diagnosis **diagnosis)
{
    vw_machine *machine = NULL;
    vw_status status = vw_machine_read(NULL, &machine);
    if (status == VW_OK)
        status = vw_doctor_process(process, machine, options, diagnosis);
    vw_machine_free(machine);
    return status;
}

static int examine_process(const char *command_name, long process, const vw_doctor_options *options,
                           const shown_as *as)
{
    char name[MOST_NAME_BYTES];
    vw_jobs *jobs = NULL;
    vw_process *found = NULL;
    vw_diagnosis *diagnosis = NULL;
    snprintf(name, sizeof name, "process %ld", process);
    vw_status status = vw_jobs_read(NULL, &jobs);
    if (status != VW_OK)
        return recording_command_fail(command_name, name, status);
    const vw_job *job = vw_jobs_find(jobs, process);
    int exit_status;
    if (job != NULL) {
        if (job->program[0] != '\0')
            snprintf(name, sizeof name, "process %ld, %s", process, job->program);
        status = vw_doctor_job(job, options, &diagnosis);
        exit_status = show_diagnosis(command_name, name, status, diagnosis, as);
    } else if ((status = vw_process_read(process, &found)) == VW_ERR_FILE) {
        exit_status = say_no_such_process(command_name, jobs, process);
    } else {
        if (status == VW_OK)
            status = look_from_outside(found, options, &diagnosis);
        exit_status = show_diagnosis(command_name, name, status, diagnosis, as);
    }
    vw_process_free(found);
    vw_jobs_free(jobs);
    return exit_status;
}

static int say_not_entered(const char *command_name, long process, const char *reason)
{
    fprintf(stderr, "vramwise %s: process %ld was not entered: ", command_name, process);
    safe_print(stderr, reason);
    fprintf(stderr,
            "\nWithout --attach, 'vramwise %s --pid %ld' shows what can be seen from outside.\n",
            command_name, process);
    return EXIT_COULD_NOT;
}

static int enter_process(const char *command_name, long process, vw_doctor_options *options,
                         const shown_as *as)
{
    char name[MOST_NAME_BYTES];
    vw_process *found = NULL;
    doctor_attach attach;
    vw_diagnosis *diagnosis = NULL;
    snprintf(name, sizeof name, "process %ld, entered", process);
    vw_status status = vw_process_read(process, &found);
    if (status != VW_OK)
        return recording_command_fail(command_name, name, status);
    const bool is_written = doctor_attach_begin(&attach, found);
    vw_process_free(found);
    if (is_written)
        status = examine(attach.snapshot, options, &diagnosis);
    doctor_attach_end(&attach);
    return is_written ? show_diagnosis(command_name, name, status, diagnosis, as)
                      : say_not_entered(command_name, process, attach.reason);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Somebody is about to paste. */
static void invite(const char *path)
{
    if (strcmp(path, "-") == 0 && isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1)
        fputs("Paste the error, then press Enter and Ctrl-D.\n", stderr);
}

int command_doctor(int argc, char **argv)
{
    shown_as as = {.has_json = false};
    bool has_attach = false;
    const char *card = NULL, *pid = NULL;
    long process = 0;
    vw_doctor_options order = {.struct_size = sizeof order};
    const argument_option options[] = {
        {.name = "all", .is_given = &as.has_all}, {.name = "attach", .is_given = &has_attach},
        {.name = "card", .value = &card},         {.name = "json", .is_given = &as.has_json},
        {.name = "pid", .value = &pid},           {.name = "torch", .value = &order.torch_version},
    };
    int first_operand = 0;
    if (!arguments_parse(options, sizeof options / sizeof options[0], argc, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    if (argc - first_operand > 1)
        return arguments_refuse(argv[0], "expected one file, not %d", argc - first_operand);
    if (pid != NULL && first_operand < argc)
        return arguments_refuse(argv[0], "expected a file or --pid, not both");
    if (pid != NULL && !arguments_read_process(argv[0], "--pid: ", pid, &process))
        return EXIT_WRONG_USAGE;
    if (!recording_command_read_card(argv[0], card, &order.card_bytes, NULL))
        return EXIT_WRONG_USAGE;
    if (has_attach && pid == NULL)
        return arguments_refuse(argv[0], "--attach needs --pid");
    if (pid != NULL)
        return has_attach ? enter_process(argv[0], process, &order, &as)
                          : examine_process(argv[0], process, &order, &as);
    const char *path = first_operand < argc ? argv[first_operand] : "-";
    if (first_operand == argc && isatty(STDIN_FILENO) == 1)
        return arguments_refuse(argv[0], "no file. To paste an error, run 'vramwise doctor -', "
                                         "paste it, and end with Ctrl-D");
    if (path[0] == '\0') /* as an unset variable in a script leaves it */
        return arguments_refuse(argv[0], "the name of the file is empty");
    invite(path);
    return examine_file(argv[0], path, &order, &as);
}
