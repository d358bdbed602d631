/* plan_trace.c - starts Python on a script, waits for it, and says how it ended. */
#include "plan_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vramwise/plan.h"

#include "command.h"
#include "file_guard.h"
#include "left_folders.h"
#include "memory_guard.h"
#include "recording_command.h"
#include "run_environment.h"
#include "safe_print.h"

#define PYTHON "python3"

/* Not `-m vramwise._trace`: that would look for vramwise, argparse and torch in the working
 * directory first, where others may have put them. A script is found beside its own modules. */
#define PROGRAM                                                                                    \
    "import sys; sys.path[:] = sys.path[sys.path[0] == '':]; "                                     \
    "from vramwise._trace import main; sys.exit(main())"

enum { PYTHON_SAID_WHY = 3 }; /* the module's status where a line cannot run without data */

extern char **environ;

/* ---- words ----------------------------------------------------------------------------------- */

static int fail(const char *command_name, const char *what, const char *why)
{
    fprintf(stderr, "vramwise %s: ", command_name);
    safe_print(stderr, what);
    fprintf(stderr, ": %s\n", why);
    return EXIT_COULD_NOT;
}

/* How Python ended, as an exit status of ours. */
static int judge_end(const char *command_name, const plan_trace_order *order, int ended)
{
    char why[160];
    if (WIFSIGNALED(ended))
        snprintf(why, sizeof why, "the traced program was ended by signal %d", WTERMSIG(ended));
    else if (WEXITSTATUS(ended) == EXIT_DONE)
        return EXIT_DONE;
    else if (WEXITSTATUS(ended) == PYTHON_SAID_WHY)
        snprintf(why, sizeof why, "could not be traced, for the reason above");
    else
        snprintf(why, sizeof why, "ended with status %d before it was traced, as shown above",
                 WEXITSTATUS(ended));
    return fail(command_name, order->script, why);
}

/* ---- the folder ------------------------------------------------------------------------------ */

#define FOLDER_NAME "vramwise-plan."

/* What python/vramwise/_trace.py writes there. */
static const char *const files[] = {"trace.json", ".vramwise-????????????????.part", NULL};

/* In TMPDIR or /tmp: a trace of a large model has some hundred megabytes. */
static bool create_folder(plan_trace_file *file)
{
    const char *const parents[] = {secure_getenv("TMPDIR"), "/tmp"};
    for (size_t i = 0; i < sizeof parents / sizeof parents[0]; i++) {
        if (parents[i] == NULL || parents[i][0] != '/')
            continue;
        int length =
            snprintf(file->folder, sizeof file->folder, "%s/" FOLDER_NAME "XXXXXX", parents[i]);
        int whole = snprintf(file->path, sizeof file->path, "%s/" FOLDER_NAME "XXXXXX/trace.json",
                             parents[i]);
        if (length < 0 || whole < 0 || (size_t)whole >= sizeof file->path)
            continue;
        if (mkdtemp(file->folder) == NULL) /* mode 0700 */
            continue;
        file->held = left_folders_hold(file->folder);
        left_folders_remove(parents[i], FOLDER_NAME, files);
        memcpy(file->path, file->folder, (size_t)length);
        return true;
    }
    return false;
}

void plan_trace_remove(const plan_trace_file *file)
{
    left_folders_end(file->held, file->folder);
}

/* ---- the environment ------------------------------------------------------------------------- */

/* An empty element is the working directory to Python, which would take sitecustomize, argparse and
 * torch from there. It is hardly ever meant: "$PYTHONPATH:/x" has one where the variable was not
 * set. A folder that has a name, "." too, stays. */
static bool leave_out_empty_elements(void)
{
    const char *given = secure_getenv("PYTHONPATH");
    char *kept = strdup(given != NULL ? given : "");
    if (kept == NULL)
        return false;
    char *end = kept;
    for (const char *at = kept; *at != '\0'; at++)
        if (*at != ':' || (end != kept && at[1] != ':' && at[1] != '\0'))
            *end++ = *at;
    *end = '\0';
    const bool is_set =
        (*kept != '\0' ? setenv("PYTHONPATH", kept, 1) : unsetenv("PYTHONPATH")) == 0;
    free(kept);
    return is_set;
}

/* The package of this program comes first; without one beside it, the interpreter's own. */
static bool set_python_path(void)
{
    char folder[PATH_MAX];
    if (!leave_out_empty_elements())
        return false;
    if (!run_environment_find_hook(folder, sizeof folder))
        return true;
    for (int i = 0; i < 2; i++) { /* .../vramwise/_start */
        char *slash = strrchr(folder, '/');
        if (slash == NULL)
            return true;
        *slash = '\0';
    }
    return run_environment_add_python_path(folder);
}

/* The card for which PyTorch chooses its kernels: "rtx4090 89 25757220864", with its compute
 * capability. What is not known is "-" and 0. */
static bool set_card(const plan_trace_order *order)
{
    const vw_plan_card_info *card = vw_plan_card(order->card_name);
    char words[128];
    if (order->card_bytes == 0)
        return unsetenv("VRAMWISE_TRACE_CARD") == 0;
    snprintf(words, sizeof words, "%s %u %" PRIu64, card != NULL ? card->name : "-",
             card != NULL ? card->compute_capability : 0, order->card_bytes);
    return setenv("VRAMWISE_TRACE_CARD", words, 1) == 0;
}

/* ---- the process ----------------------------------------------------------------------------- */

static volatile sig_atomic_t started; /* the process; 0: none */

/* Whoever ends us ends the script, and we clean up after it. */
static void pass_on(int signal_number)
{
    if (started != 0)
        (void)kill((pid_t)started, signal_number);
}

enum { SIGNALS = 4 };
static const int signals[SIGNALS] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};

/* How signals were before Python is started. */
typedef struct signals_before {
    struct sigaction actions[SIGNALS];
    sigset_t mask;
} signals_before;

/* A terminal sends the first two to the script itself. The others wait until there is a process to
 * pass them on to. */
static void take_signals(signals_before *before)
{
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < SIGNALS; i++) {
        struct sigaction taken = {.sa_handler = i < 2 ? SIG_IGN : pass_on};
        sigemptyset(&taken.sa_mask);
        (void)sigaction(signals[i], &taken, &before->actions[i]);
        sigaddset(&held, signals[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &held, &before->mask);
}

static void give_signals_back(const signals_before *before)
{
    for (size_t i = 0; i < SIGNALS; i++)
        (void)sigaction(signals[i], &before->actions[i], NULL);
}

/* Python gets signals as they were. Returns 0 or an error number. */
static int set_attributes(posix_spawnattr_t *attributes, const signals_before *before)
{
    sigset_t usual;
    sigemptyset(&usual);
    for (size_t i = 0; i < SIGNALS; i++)
        if (before->actions[i].sa_handler != SIG_IGN)
            sigaddset(&usual, signals[i]);
    int error = posix_spawnattr_setsigdefault(attributes, &usual);
    if (error == 0)
        error = posix_spawnattr_setsigmask(attributes, &before->mask);
    if (error == 0)
        error =
            posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    return error;
}

/* Standard output is the plan's: the script's goes to standard error. Returns 0 or an error
 * number. */
static int spawn(char *const *words, const signals_before *before, pid_t *process)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = set_attributes(&attributes, before);
        if (error == 0)
            error = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
        if (error == 0)
            error = posix_spawnp(process, words[0], &actions, &attributes, words, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Returns 0 and how it ended, or an error number. */
static int run_python(char *const *words, int *ended)
{
    signals_before before;
    pid_t process = 0;
    fflush(NULL);
    take_signals(&before);
    memory_guard_lift(); /* the script's business */
    file_guard_lift();
    int error = spawn(words, &before, &process);
    file_guard_set();
    memory_guard_set();
    if (error == 0)
        started = process;
    (void)sigprocmask(SIG_SETMASK, &before.mask, NULL);
    while (error == 0 && waitpid(process, ended, 0) < 0 && errno == EINTR)
        continue;
    started = 0;
    give_signals_back(&before);
    return error;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Owned by the caller; the words are not. NULL: no memory. */
static char **make_words(const plan_trace_order *order, const plan_trace_file *file)
{
    enum { MOST_OWN = 10 };
    char **words = calloc(MOST_OWN + order->argument_count, sizeof *words);
    size_t count = 0;
    if (words == NULL)
        return NULL;
    words[count++] = (char *)PYTHON;
    words[count++] = (char *)"-c";
    words[count++] = (char *)PROGRAM;
    if (order->steps != NULL) {
        words[count++] = (char *)"--steps";
        words[count++] = (char *)order->steps;
    }
    if (order->share != NULL) {
        words[count++] = (char *)"--share";
        words[count++] = (char *)order->share;
    }
    words[count++] = (char *)order->script;
    words[count++] = (char *)file->path;
    for (size_t i = 0; i < order->argument_count; i++)
        words[count++] = order->arguments[i];
    return words;
}

/* Importing PyTorch alone takes seconds, and a bar would be torn by what the script prints. */
static void announce(const plan_trace_order *order)
{
    if (isatty(STDERR_FILENO) != 1)
        return;
    fputs("tracing ", stderr);
    safe_print(stderr, order->script);
    fputs(" on tensors without data; what it prints follows\n", stderr);
}

static int trace(const char *command_name, const plan_trace_order *order,
                 const plan_trace_file *file)
{
    int ended = 0;
    char **words = make_words(order, file);
    if (words == NULL || !set_python_path() || !set_card(order)) {
        free(words);
        return fail(command_name, PYTHON, strerror(ENOMEM));
    }
    announce(order);
    int error = run_python(words, &ended);
    free(words);
    if (error == ENOENT)
        return fail(command_name, PYTHON, "not found in PATH: the script is traced by PyTorch");
    if (error != 0)
        return fail(command_name, PYTHON, strerror(error));
    int exit_status = judge_end(command_name, order, ended);
    if (exit_status == EXIT_DONE && access(file->path, R_OK) != 0)
        return fail(command_name, order->script, "ended without a trace");
    return exit_status;
}

int plan_trace_make(const char *command_name, const plan_trace_order *order, plan_trace_file *file)
{
    if (access(order->script, R_OK) != 0)
        return fail(command_name, order->script, strerror(errno));
    if (!create_folder(file))
        return fail(command_name, "no folder for the trace", strerror(errno));
    int exit_status = trace(command_name, order, file);
    if (exit_status != EXIT_DONE)
        plan_trace_remove(file);
    return exit_status;
}
