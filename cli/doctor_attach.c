/* doctor_attach.c - enters a Python process for a snapshot, or says why it does not.
 *
 * What can be known beforehand is: the version, what Python was told, the rights. Everything else
 * the interpreter says itself, on standard error, and its last line is passed on.
 *
 * A process that is busy in C code runs the file when it is back in Python. If that takes too long
 * we stop waiting, and put a file in the place of ours that only removes the folder: the process
 * still reads it, and what it finds must not be missing. */
#include "doctor_attach.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h> /* pipe2's O_CLOEXEC */
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "file_guard.h"
#include "memory_guard.h"
#include "run_environment.h"

enum {
    CAPABILITY_TRACE = 19, /* CAP_SYS_PTRACE */
    LEAST_MINOR = 14,      /* sys.remote_exec() came with Python 3.14 */
    USUAL_SECONDS = 30,
    LOOK_MS = 20, /* between looks for an answer */
    MOST_SCRIPT_BYTES = 4 * PATH_MAX + 256,
};

/* ---- may it be entered? ---------------------------------------------------------------------- */

doctor_attach_rights doctor_attach_find_rights(void)
{
    doctor_attach_rights rights = {.user = geteuid()};
    char line[256];
    unsigned long long capabilities = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "CapEff: %llx", &capabilities) == 1)
            break;
    if (file != NULL)
        fclose(file);
    rights.may_trace_all = (capabilities >> CAPABILITY_TRACE & 1) != 0;
    file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (file != NULL) {
        if (fscanf(file, "%d", &rights.ptrace_scope) != 1)
            rights.ptrace_scope = 0;
        fclose(file);
    }
    return rights;
}

/* What runs as us must be ours, or the system's. */
static bool is_trusted_program(const char *path, unsigned long user)
{
    struct stat found;
    return stat(path, &found) == 0 && (found.st_uid == 0 || found.st_uid == user) &&
           (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool doctor_attach_is_refused(const vw_process *process, const doctor_attach_rights *rights,
                              char reason[DOCTOR_ATTACH_REASON_BYTES])
{
    const size_t capacity = DOCTOR_ATTACH_REASON_BYTES;
    if (process->python_major == 0)
        snprintf(reason, capacity,
                 "expected a Python program, found %.500s; only Python 3.%d and newer let "
                 "themselves be entered",
                 process->executable[0] != '\0' ? process->executable : "one that is not known",
                 (int)LEAST_MINOR);
    else if (process->python_major < 3 ||
             (process->python_major == 3 && process->python_minor < LEAST_MINOR))
        snprintf(reason, capacity,
                 "it runs Python %u.%u; expected 3.%d or newer, which has "
                 "sys.remote_exec()",
                 process->python_major, process->python_minor, (int)LEAST_MINOR);
    else if (process->is_debugging_off)
        snprintf(reason, capacity,
                 "its Python was told to let nobody in "
                 "(PYTHON_DISABLE_REMOTE_DEBUG, or -X disable-remote-debug)");
    else if (process->is_elsewhere)
        snprintf(reason, capacity,
                 "it runs in a container; expected vramwise to run in the same one");
    else if (process->user !=
             rights->user) /* its interpreter and its files are not ours to trust */
        snprintf(reason, capacity,
                 "it belongs to user %lu, and only that user's vramwise enters it: try it with "
                 "'sudo -u #%lu'",
                 process->user, process->user);
    else if (rights->ptrace_scope >= 3)
        snprintf(reason, capacity,
                 "this system lets no process be entered "
                 "(kernel.yama.ptrace_scope is %d)",
                 rights->ptrace_scope);
    else if (rights->ptrace_scope >= 1 && !rights->may_trace_all)
        snprintf(reason, capacity,
                 "kernel.yama.ptrace_scope is %d: entering a process needs "
                 "CAP_SYS_PTRACE, or 'sysctl kernel.yama.ptrace_scope=0'",
                 rights->ptrace_scope);
    else if (!is_trusted_program(process->executable, rights->user))
        snprintf(reason, capacity,
                 "its interpreter %.500s is another user's, or open to others for writing: it is "
                 "not run as this user",
                 process->executable);
    else
        return false;
    return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void append_hex(char *out, const char *bytes)
{
    out += strlen(out);
    for (; *bytes != '\0'; bytes++, out += 2)
        sprintf(out, "%02x", (unsigned char)*bytes);
}

/* Writes `name` in the folder; it appears when it is complete. */
static bool write_file(const doctor_attach *attach, const char *name, const char *text)
{
    char path[PATH_MAX], part[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", attach->folder, name);
    snprintf(part, sizeof part, "%s/part", attach->folder);
    FILE *file = fopen(part, "wxe");
    if (file == NULL)
        return false;
    bool is_written = fputs(text, file) >= 0 && fchmod(fileno(file), 0644) == 0;
    is_written = fclose(file) == 0 && is_written;
    return is_written && rename(part, path) == 0;
}

/* Paths go into Python as hexadecimal digits: they may hold anything. */
static bool write_question(const doctor_attach *attach, const char *code)
{
    static char script[MOST_SCRIPT_BYTES];
    snprintf(script, sizeof script, "import os, runpy\nrunpy.run_path(os.fsdecode(bytes.fromhex('");
    append_hex(script, code);
    strcat(script, "')), {'folder': os.fsdecode(bytes.fromhex('");
    append_hex(script, attach->folder);
    strcat(script, "'))})\n");
    return write_file(attach, "ask.py", script);
}

static bool write_farewell(const doctor_attach *attach)
{
    static char script[MOST_SCRIPT_BYTES];
    snprintf(script, sizeof script, "import os, shutil\nshutil.rmtree(os.fsdecode(bytes.fromhex('");
    append_hex(script, attach->folder);
    strcat(script, "')), ignore_errors=True)\n");
    return write_file(attach, "ask.py", script);
}

/* In /tmp, which every process of this machine sees. */
static bool make_folder(doctor_attach *attach)
{
    snprintf(attach->folder, sizeof attach->folder, "/tmp/vramwise-attach.XXXXXX");
    if (mkdtemp(attach->folder) == NULL) { /* mode 0700 */
        attach->folder[0] = '\0';
        return false;
    }
    snprintf(attach->snapshot, sizeof attach->snapshot, "%s/snapshot.pickle", attach->folder);
    return true;
}

void doctor_attach_end(doctor_attach *attach)
{
    static const char *const names[] = {"snapshot.pickle", "answer", "answer.part", "ask.py",
                                        "part"};
    if (attach->folder[0] == '\0')
        return;
    const int folder = open(attach->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (size_t i = 0; folder >= 0 && i < sizeof names / sizeof names[0]; i++)
        (void)unlinkat(folder, names[i], 0);
    if (folder >= 0)
        close(folder);
    (void)rmdir(attach->folder);
    attach->folder[0] = '\0';
}

/* ---- asking ---------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The interpreter that asks, its standard error in `*words`. -1: it cannot be started. */
static pid_t start_asking(const doctor_attach *attach, const vw_process *process, int *words)
{
    static const char code[] = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])";
    char number[24], script[PATH_MAX];
    int ends[2];
    snprintf(number, sizeof number, "%ld", process->process);
    snprintf(script, sizeof script, "%s/ask.py", attach->folder);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        const int nothing = open("/dev/null", O_RDWR);
        if (dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0 ||
            dup2(ends[1], STDERR_FILENO) < 0)
            _exit(127);
        memory_guard_lift();
        file_guard_lift();
        execl(process->executable, process->executable, "-I", "-S", "-c", code, number, script,
              (char *)NULL);
        dprintf(STDERR_FILENO, "%s\n", strerror(errno));
        _exit(127);
    }
    close(ends[1]);
    if (child < 0)
        close(ends[0]);
    else
        *words = ends[0];
    return child;
}

/* The last line of what was said, up to the deadline; "" if nothing was. */
static void read_last_line(int words, uint64_t end_ms, char *line, size_t capacity)
{
    char said[4096];
    size_t length = 0;
    for (;;) {
        const uint64_t now = now_ms();
        struct pollfd wait = {.fd = words, .events = POLLIN};
        if (now >= end_ms || poll(&wait, 1, (int)(end_ms - now)) <= 0)
            break;
        if (length == sizeof said - 1) { /* its end is what matters */
            memmove(said, said + sizeof said / 2, length - sizeof said / 2);
            length -= sizeof said / 2;
        }
        const ssize_t got = read(words, said + length, sizeof said - 1 - length);
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    while (length > 0 && isspace((unsigned char)said[length - 1]))
        length--;
    said[length] = '\0';
    const char *newline = strrchr(said, '\n');
    snprintf(line, capacity, "%.*s", (int)capacity - 1, newline != NULL ? newline + 1 : said);
}

/* Puts a file in the place of ours that only removes the folder: the process may still come. */
static void leave_folder(doctor_attach *attach)
{
    if (write_farewell(attach))
        attach->folder[0] = '\0';
}

/* Has the interpreter asked the process? Else the reason is kept. */
static bool ask(doctor_attach *attach, const vw_process *process)
{
    int words = -1, status = 0;
    char said[512];
    const uint64_t end_ms = now_ms() + USUAL_SECONDS * 1000;
    pid_t child = start_asking(attach, process, &words);
    if (child < 0) {
        snprintf(attach->reason, sizeof attach->reason, "its interpreter cannot be started: %s",
                 strerror(errno));
        return false;
    }
    read_last_line(words, end_ms, said, sizeof said);
    close(words);
    const bool is_late = now_ms() >= end_ms;
    if (is_late)
        (void)kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    snprintf(attach->reason, sizeof attach->reason, "%.500s says: %s", process->executable,
             is_late           ? "nothing, for too long"
             : said[0] != '\0' ? said
                               : "nothing, and failed");
    if (is_late)
        leave_folder(attach);
    return false;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static bool is_gone(long process)
{
    return kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

/* true: there is an answer, whose text is in `reason`; "" is a snapshot. */
static bool wait_for_answer(doctor_attach *attach, long process, uint64_t end_ms)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/answer", attach->folder);
    for (;;) {
        FILE *file = fopen(path, "re");
        if (file != NULL) {
            const size_t length = fread(attach->reason, 1, sizeof attach->reason - 1, file);
            attach->reason[length] = '\0';
            fclose(file);
            return true;
        }
        if (is_gone(process)) {
            snprintf(attach->reason, sizeof attach->reason, "it ended meanwhile");
            return false;
        }
        if (now_ms() >= end_ms)
            return false;
        (void)poll(NULL, 0, LOOK_MS);
    }
}

bool doctor_attach_begin(doctor_attach *attach, const vw_process *process)
{
    char hook[PATH_MAX], code[PATH_MAX + 32];
    const uint64_t limit_ms = arguments_limit_ms("VRAMWISE_ATTACH_SECONDS", USUAL_SECONDS);
    *attach = (doctor_attach){.folder = ""};
    const doctor_attach_rights rights = doctor_attach_find_rights();
    if (doctor_attach_is_refused(process, &rights, attach->reason))
        return false;
    if (!run_environment_find_hook(hook, sizeof hook)) {
        snprintf(attach->reason, sizeof attach->reason,
                 "vramwise's Python files are missing: expected python/vramwise beside the "
                 "program, in ../share/vramwise, or under VRAMWISE_PYTHON");
        return false;
    }
    snprintf(code, sizeof code, "%s/../_attach.py", hook);
    if (!make_folder(attach) || !write_question(attach, code)) {
        snprintf(attach->reason, sizeof attach->reason, "no private folder in /tmp: %s",
                 strerror(errno));
        return false;
    }
    if (!ask(attach, process))
        return false;
    if (wait_for_answer(attach, process->process, now_ms() + limit_ms))
        return attach->reason[0] == '\0';
    if (attach->reason[0] == '\0') {
        snprintf(attach->reason, sizeof attach->reason,
                 "it has not come back to its Python code for %llu s; VRAMWISE_ATTACH_SECONDS "
                 "waits longer",
                 (unsigned long long)limit_ms / 1000);
        leave_folder(attach);
    }
    return false;
}
