/* kill_at.c - kill_at N COMMAND [ARGUMENT...]: runs a command and kills it with SIGKILL just before
 * its N-th system call that can change a file.
 *
 * What is on the disk changes only by such calls, so every N until the command ends is every state
 * that a kill can leave. Calls of the command's first thread count; they are seen by ptrace().
 *
 * Exits with 137 if it killed the command, with the command's status if that ended before, and with
 * 125 if the command could not be traced. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLED = 137, COULD_NOT = 125 };

/* linux/ptrace.h's, which cannot be included beside sys/ptrace.h: the beginning of it. */
typedef struct call_info {
    uint8_t op; /* 1: entry */
    uint8_t padding[3];
    uint32_t architecture;
    uint64_t instruction, stack;
    uint64_t number;
    uint64_t arguments[6];
    uint64_t room[4];
} call_info;

#ifndef PTRACE_GET_SYSCALL_INFO
#define PTRACE_GET_SYSCALL_INFO 0x420e
#endif

static bool changes_files(const call_info *call)
{
    switch (call->number) {
#ifdef SYS_open
    case SYS_open:
        return (call->arguments[1] & (O_CREAT | O_TRUNC)) != 0;
    case SYS_rename:
    case SYS_unlink:
    case SYS_link:
    case SYS_mkdir:
    case SYS_rmdir:
    case SYS_chmod:
#endif
    case SYS_write:
    case SYS_pwrite64:
    case SYS_writev:
    case SYS_ftruncate:
    case SYS_fsync:
    case SYS_fchmod:
    case SYS_close:
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_unlinkat:
    case SYS_linkat:
    case SYS_mkdirat:
        return true;
    case SYS_openat:
        return (call->arguments[2] & (O_CREAT | O_TRUNC)) != 0;
    default:
        return false;
    }
}

static int become(char **command)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(COULD_NOT);
    execvp(command[0], command);
    fprintf(stderr, "kill_at: %s: %s\n", command[0], strerror(errno));
    _exit(COULD_NOT);
}

static int status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int kill_child(pid_t child)
{
    int status;
    (void)kill(child, SIGKILL);
    while (waitpid(child, &status, 0) == child && !WIFEXITED(status) && !WIFSIGNALED(status))
        continue;
    return KILLED;
}

static int watch(pid_t child, unsigned long nth)
{
    int status, signal_number = 0;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        return COULD_NOT;
    const uintptr_t options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)options) != 0)
        return COULD_NOT;
    for (;;) {
        call_info call = {.op = 0};
        if (ptrace(PTRACE_SYSCALL, child, NULL, (void *)(uintptr_t)signal_number) != 0 ||
            waitpid(child, &status, 0) != child)
            return COULD_NOT;
        if (!WIFSTOPPED(status))
            return status_of(status);
        signal_number = WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
        if (WSTOPSIG(status) != (SIGTRAP | 0x80))
            continue;
        if (ptrace(PTRACE_GET_SYSCALL_INFO, child, (void *)sizeof call, &call) < 0)
            return COULD_NOT;
        if (call.op == 1 && changes_files(&call) && --nth == 0)
            return kill_child(child);
    }
}

int main(int argc, char **argv)
{
    unsigned long nth = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
    if (nth == 0) {
        fprintf(stderr, "usage: kill_at N COMMAND [ARGUMENT...]\n");
        return COULD_NOT;
    }
    pid_t child = fork();
    if (child == 0)
        return become(argv + 2);
    return child > 0 ? watch(child, nth) : COULD_NOT;
}
