/* command_run.c - `vramwise run [OPTION...] [--] COMMAND`: a program as it is, watched.
 *
 * No line of the program changes. The command is started with Python's start-up hook in its
 * environment (run_environment.c), followed to its end (run_watch.c), and what its processes tell
 * (run_news.c) becomes a report (run_report.c). The exit status is the command's. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "common_options.h"
#include "vramwise/status.h"
#include "vramwise/units.h"
#include "run_environment.h"
#include "run_folder.h"
#include "run_watch.h"
#include "safe_print.h"

/* One set of names everywhere: replay's policies, and Python's install(). */
static const char *const allocators[] = {"pytorch", "torch", "vramwise", "vramwise:rescue",
                                         "vramwise:tight"};
#define ALLOCATOR_COUNT (sizeof allocators / sizeof allocators[0])

static bool is_allocator(const char *command_name, const char *name)
{
    for (size_t i = 0; i < ALLOCATOR_COUNT; i++)
        if (strcmp(allocators[i], name) == 0)
            return true;
    const char *nearest = arguments_nearest(name, allocators, ALLOCATOR_COUNT);
    if (nearest != NULL)
        arguments_refuse(command_name, "--allocator: there is no '%s'; did you mean '%s'?", name,
                         nearest);
    else
        arguments_refuse(command_name,
                         "--allocator: expected pytorch, torch, vramwise, vramwise:rescue or "
                         "vramwise:tight, not '%s'",
                         name);
    return false;
}

/* An allocator of ours, for options that PyTorch's cannot have. */
static bool is_ours(const char *command_name, const run_wishes *wishes, const char *option,
                    const char *cannot)
{
    if (wishes->allocator != NULL &&
        strncmp(wishes->allocator, "vramwise", strlen("vramwise")) == 0)
        return true;
    arguments_refuse(command_name,
                     "--%s needs --allocator vramwise, vramwise:rescue or vramwise:tight: %s "
                     "cannot %s",
                     option, wishes->allocator != NULL ? wishes->allocator : "PyTorch's own",
                     cannot);
    return false;
}

/* 0 bytes are the same as no such option, here and in the next. */
static bool is_keep_free_sound(const char *command_name, run_wishes *wishes)
{
    uint64_t bytes;
    if (vw_parse_size_or_share(wishes->keep_free, UINT64_MAX, &bytes) != VW_OK) {
        arguments_refuse(command_name, "--keep-free: %s", vw_last_error());
        return false;
    }
    if (bytes == 0) {
        wishes->keep_free = NULL;
        return true;
    }
    return is_ours(command_name, wishes, "keep-free", "give idle memory back by itself");
}

static bool is_spill_sound(const char *command_name, run_wishes *wishes)
{
    uint64_t spill_bytes;
    vw_status status = vw_parse_size(wishes->spill, &spill_bytes);
    if (status == VW_OK && spill_bytes != 0)
        status = vw_parse_memory_size(wishes->spill, &spill_bytes);
    if (status != VW_OK) {
        arguments_refuse(command_name, "--spill: %s", vw_last_error());
        return false;
    }
    if (spill_bytes == 0) {
        wishes->spill = NULL;
        return true;
    }
    return is_ours(command_name, wishes, "spill", "let live data leave the GPU");
}

/* In the order of run_leak_mode. */
static const char *const leak_modes[] = {"warn", "snapshot", "stop"};
#define LEAK_MODE_COUNT (sizeof leak_modes / sizeof leak_modes[0])

static bool read_leak_mode(const char *command_name, const char *word, run_leak_mode *mode)
{
    for (size_t i = 0; i < LEAK_MODE_COUNT; i++)
        if (strcmp(leak_modes[i], word) == 0) {
            *mode = (run_leak_mode)i;
            return true;
        }
    const char *nearest = arguments_nearest(word, leak_modes, LEAK_MODE_COUNT);
    if (nearest != NULL)
        arguments_refuse(command_name, "--on-leak: there is no '%s'; did you mean '%s'?", word,
                         nearest);
    else
        arguments_refuse(command_name, "--on-leak: expected warn, snapshot or stop, not '%s'",
                         word);
    return false;
}

static bool are_wishes_sound(const char *command_name, run_wishes *wishes)
{
    uint64_t history = 1;
    if (wishes->allocator != NULL && !is_allocator(command_name, wishes->allocator))
        return false;
    if (wishes->spill != NULL && !is_spill_sound(command_name, wishes))
        return false;
    if (wishes->stream && wishes->spill == NULL) {
        arguments_refuse(command_name, "--stream needs --spill SIZE: the host memory that data may "
                                       "go to");
        return false;
    }
    if (wishes->keep_free != NULL && !is_keep_free_sound(command_name, wishes))
        return false;
    if (wishes->history != NULL && !arguments_read_number(wishes->history, &history)) {
        arguments_refuse(command_name,
                         "--history: expected a number of events, 0 being none, not '%s'",
                         wishes->history);
        return false;
    }
    if (wishes->record != NULL && wishes->record[0] == '\0') {
        arguments_refuse(command_name, "--record: the name of the file is empty");
        return false;
    }
    if (wishes->record != NULL && history == 0) {
        arguments_refuse(command_name, "--record needs a history, and --history 0 keeps none");
        return false;
    }
    return true;
}

/* The address is had before the job is started: what is taken then costs nothing. */
static bool open_metrics(const char *command_name, run_metrics *metrics)
{
    serve_address failed;
    if (serve_listen_open(&metrics->address, &metrics->doors, &failed))
        return true;
    serve_listen_explain(command_name, &failed, errno, "--metrics 0 finds a free port");
    return false;
}

static int could_not_begin(const char *command_name, const char *what, const char *reason)
{
    safe_print_error("vramwise %s: %s: %s", command_name, what, reason);
    fputc('\n', stderr);
    return EXIT_COULD_NOT_START;
}

/* `metrics` may be NULL. */
static int start(const char *command_name, char **program, const run_wishes *wishes,
                 run_leak_mode on_leak, run_metrics *metrics)
{
    char hook[PATH_MAX], place[PATH_MAX] = "";
    run_folder folder;
    if (run_environment_is_disabled())
        return run_watch_become(program);
    const char *reason = wishes->record != NULL
                             ? run_environment_place_recording(wishes->record, place, sizeof place)
                             : NULL;
    if (reason != NULL) {
        char what[PATH_MAX + 32];
        snprintf(what, sizeof what, "cannot record to '%s'", wishes->record);
        return could_not_begin(command_name, what, reason);
    }
    if (!run_environment_find_hook(hook, sizeof hook))
        return could_not_begin(command_name, "Python's start-up hook is missing",
                               "expected python/vramwise/_start/sitecustomize.py beside the "
                               "program, in ../share/vramwise, or under VRAMWISE_PYTHON");
    if (!run_folder_create(&folder))
        return could_not_begin(command_name, "no private folder in XDG_RUNTIME_DIR, TMPDIR or /tmp",
                               strerror(errno));
    if (metrics != NULL && !open_metrics(command_name, metrics)) {
        run_folder_remove(&folder);
        return EXIT_COULD_NOT_START;
    }
    int exit_status = EXIT_COULD_NOT_START;
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* the job writes there too: whole lines, not letters */
    if (run_environment_set(hook, folder.path, wishes, place)) {
        const run_watch_options options = {
            .folder = &folder,
            .has_record = wishes->record != NULL,
            .metrics = metrics,
            .on_leak = on_leak,
        };
        exit_status = run_watch(program, &options);
    } else {
        could_not_begin(command_name, "the environment could not be set", strerror(errno));
        if (metrics != NULL)
            serve_listen_close(&metrics->doors);
    }
    run_folder_remove(&folder);
    return exit_status;
}

/* Where our options end: at "--", or at the first word that is neither an option nor the value of
 * one, which is the command; what follows it are its own options. argc if there is neither. */
static int find_end_of_options(int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0) {
        /* Every option of ours has a value, but for one. */
        bool has_value = strchr(argv[i], '=') != NULL || strcmp(argv[i], "--stream") == 0;
        i++;
        if (!has_value && i < argc && strcmp(argv[i], "--") != 0)
            i++;
    }
    return i;
}

int command_run(int argc, char **argv)
{
    const char *leak_word = leak_modes[RUN_LEAK_WARN], *metrics_text = NULL, *color = "auto";
    run_leak_mode on_leak;
    run_metrics metrics;
    run_wishes wishes = {.allocator = NULL};
    const argument_option options[] = {
        {.name = "allocator", .value = &wishes.allocator},
        {.name = "color", .value = &color},
        {.name = "history", .value = &wishes.history},
        {.name = "keep-free", .value = &wishes.keep_free},
        {.name = "record", .value = &wishes.record},
        {.name = "metrics", .value = &metrics_text},
        {.name = "on-leak", .value = &leak_word},
        {.name = "spill", .value = &wishes.spill},
        {.name = "stream", .is_given = &wishes.stream},
    };
    int end = find_end_of_options(argc, argv), first_operand = end;
    if (!arguments_parse(options, sizeof options / sizeof options[0], end, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    int program = end < argc && strcmp(argv[end], "--") == 0 ? end + 1 : end;
    if (first_operand != end || program >= argc || argv[program][0] == '\0')
        return arguments_refuse(argv[0],
                                "expected a command, as in 'vramwise run python train.py'");
    if (!common_options_color(argv[0], color) || !are_wishes_sound(argv[0], &wishes) ||
        !read_leak_mode(argv[0], leak_word, &on_leak))
        return EXIT_WRONG_USAGE;
    if (metrics_text != NULL && !serve_address_parse(metrics_text, &metrics.address))
        return arguments_refuse(argv[0], "--metrics: expected " SERVE_ADDRESS_EXPECTED ", not '%s'",
                                metrics_text);
    return start(argv[0], argv + program, &wishes, on_leak, metrics_text != NULL ? &metrics : NULL);
}
