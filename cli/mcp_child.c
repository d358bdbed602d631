/* mcp_child.c - see mcp_child.h. Standard output comes by a pipe, so that it can be bounded while
 * it comes; input and errors lie in memory files, so that nobody waits for anybody. */
#include "mcp_child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h> /* PIPE_BUF */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h> /* getauxval */
#include <sys/mman.h> /* memfd_create */
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "progress.h" /* PROGRESS_VARIABLE */

enum { READ_BYTES = 65536, CANNOT_START = 127 };

/* What a child is started with, and what is closed at the end: -1 is none. */
typedef struct child_files {
    int input, error, from_child, to_parent, progress_from_child, progress_to_parent;
} child_files;

static uint64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool write_all(int file, const char *bytes, size_t size_bytes)
{
    while (size_bytes > 0) {
        ssize_t written = write(file, bytes, size_bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        size_bytes -= (size_t)written;
    }
    return true;
}

static void close_file(int *file)
{
    if (*file >= 0)
        (void)close(*file);
    *file = -1;
}

static void close_files(child_files *files)
{
    int error = errno;
    close_file(&files->input);
    close_file(&files->error);
    close_file(&files->from_child);
    close_file(&files->to_parent);
    close_file(&files->progress_from_child);
    close_file(&files->progress_to_parent);
    errno = error;
}

static bool open_pipe(int *from_child, int *to_parent)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    *from_child = ends[0];
    *to_parent = ends[1];
    return true;
}

static bool open_files(const char *input, child_files *files)
{
    *files = (child_files){-1, -1, -1, -1, -1, -1};
    files->input = memfd_create("input", MFD_CLOEXEC);
    files->error = memfd_create("error", MFD_CLOEXEC);
    if (files->input < 0 || files->error < 0 || !open_pipe(&files->from_child, &files->to_parent) ||
        !open_pipe(&files->progress_from_child, &files->progress_to_parent))
        return false;
    return input == NULL ||
           (write_all(files->input, input, strlen(input)) && lseek(files->input, 0, SEEK_SET) == 0);
}

/* In the child: copies of our files, which stay open for the program. */
static bool hand_over(const child_files *files)
{
    char number[16];
    snprintf(number, sizeof number, "%d", files->progress_to_parent);
    return dup2(files->input, STDIN_FILENO) >= 0 && dup2(files->to_parent, STDOUT_FILENO) >= 0 &&
           dup2(files->error, STDERR_FILENO) >= 0 &&
           fcntl(files->progress_to_parent, F_SETFD, 0) == 0 &&
           setenv(PROGRESS_VARIABLE, number, 1) == 0;
}

/* In the child. The kernel's name for this program works when the file was replaced meanwhile;
 * where /proc is not mounted, the name that it was started by does. */
__attribute__((noreturn)) static void become(char *const *argv, const child_files *files)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (hand_over(files)) {
        (void)execv("/proc/self/exe", argv);
        (void)execv((const char *)(uintptr_t)getauxval(AT_EXECFN), argv);
    }
    _exit(CANNOT_START);
}

/* Keeps what there is room for. false: that was the end, or there is more. */
static bool read_output(const mcp_child_order *order, int from, mcp_child_result *result)
{
    char more[READ_BYTES];
    ssize_t got = read(from, more, sizeof more);
    if (got < 0 && errno == EINTR)
        return true;
    if (got <= 0)
        return false;
    const size_t room_bytes = order->most_bytes - result->size_bytes;
    result->is_cut = (size_t)got > room_bytes;
    const size_t kept_bytes = result->is_cut ? room_bytes : (size_t)got;
    memcpy(result->output + result->size_bytes, more, kept_bytes);
    result->size_bytes += kept_bytes;
    return !result->is_cut;
}

/* A line is written at once and is short: what is read ends with one, and the last counts. */
static void read_progress(const mcp_child_order *order, int *from)
{
    char text[PIPE_BUF + 1];
    ssize_t got = read(*from, text, sizeof text - 1);
    if (got <= 0 || text[got - 1] != '\n') {
        if (got >= 0 || errno != EINTR)
            close_file(from);
        return;
    }
    text[got - 1] = '\0';
    const char *before = strrchr(text, '\n');
    if (order->see_progress != NULL)
        order->see_progress(order->context, before != NULL ? before + 1 : text);
}

enum { OF_OUTPUT, OF_PROGRESS, OF_CALLER, DESCRIPTORS };

/* Waits for something to come. false: the time was up. */
static bool wait_for_any(const mcp_child_order *order, const child_files *files,
                         uint64_t deadline_ms, struct pollfd ready[DESCRIPTORS])
{
    const uint64_t now_ms = clock_ms();
    if (now_ms >= deadline_ms)
        return false;
    ready[OF_OUTPUT] = (struct pollfd){.fd = files->from_child, .events = POLLIN};
    ready[OF_PROGRESS] = (struct pollfd){.fd = files->progress_from_child, .events = POLLIN};
    ready[OF_CALLER] = (struct pollfd){
        .fd = order->watched != NULL ? order->watched(order->context) : -1, .events = POLLIN};
    if (poll(ready, DESCRIPTORS, (int)(deadline_ms - now_ms)) <= 0) /* a signal, or too late */
        for (size_t i = 0; i < DESCRIPTORS; i++)
            ready[i].revents = 0;
    return true;
}

/* Until the end, the limit, the deadline, or until nobody wants it. */
static bool follow(const mcp_child_order *order, child_files *files, mcp_child_result *result)
{
    const uint64_t deadline_ms = clock_ms() + order->most_ms;
    struct pollfd ready[DESCRIPTORS];
    bool goes_on = true;
    result->output = malloc(order->most_bytes + 1);
    if (result->output == NULL)
        return false;
    while (goes_on) {
        result->is_late = !wait_for_any(order, files, deadline_ms, ready);
        if (result->is_late)
            break;
        if (ready[OF_PROGRESS].revents != 0)
            read_progress(order, &files->progress_from_child);
        if (ready[OF_OUTPUT].revents != 0)
            goes_on = read_output(order, files->from_child, result);
        if (ready[OF_CALLER].revents != 0)
            result->is_unwanted = !order->is_wanted(order->context);
        goes_on &= !result->is_unwanted;
    }
    result->output[result->size_bytes] = '\0';
    return true;
}

static void end_child(pid_t child, mcp_child_result *result)
{
    int status = 0;
    if (result->is_cut || result->is_late || result->is_unwanted || result->output == NULL)
        (void)kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    result->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void read_error(int file, mcp_child_result *result)
{
    ssize_t got = pread(file, result->error, sizeof result->error - 1, 0);
    result->error[got > 0 ? got : 0] = '\0';
}

bool mcp_child_run(const mcp_child_order *order, mcp_child_result *result)
{
    child_files files;
    *result = (mcp_child_result){.exit_status = -1};
    const bool is_open = open_files(order->input, &files);
    const pid_t child = is_open ? fork() : -1;
    if (child < 0) {
        close_files(&files);
        return false;
    }
    if (child == 0)
        become(order->argv, &files);
    close_file(&files.to_parent);
    close_file(&files.progress_to_parent);
    const bool is_read = follow(order, &files, result);
    end_child(child, result);
    read_error(files.error, result);
    close_files(&files);
    return is_read;
}

void mcp_child_free(mcp_child_result *result)
{
    free(result->output);
    result->output = NULL;
}
