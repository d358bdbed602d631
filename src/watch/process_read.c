/* process_read.c - see machine_join.h. An environment can be long, so it is read in pieces, and of
 * each variable only as much is kept as the longest that matters. */
#include "watch/machine_join.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int open_of(long process, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", process, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* As many bytes as there are, up to `room`; 0 where it cannot be read. */
static size_t read_some(int file, char *bytes, size_t room)
{
    ssize_t length = file >= 0 ? read(file, bytes, room) : -1;
    return length > 0 ? (size_t)length : 0;
}

/* ---- its command ----------------------------------------------------------------------------- */

/* "/usr/bin/python3\0train.py\0" becomes "python3 train.py". */
static size_t join_arguments(char *bytes, size_t length)
{
    size_t first_length = strnlen(bytes, length);
    const char *slash = memrchr(bytes, '/', first_length);
    size_t skipped = slash != NULL ? (size_t)(slash + 1 - bytes) : 0;
    memmove(bytes, bytes + skipped, length - skipped);
    length -= skipped;
    while (length > 0 && bytes[length - 1] == '\0')
        length--;
    for (size_t i = 0; i < length; i++)
        if (bytes[i] == '\0')
            bytes[i] = ' ';
    return length;
}

void vw__watch_process_command(long process, char out[VW_JOB_TEXT_BYTES])
{
    char bytes[1024];
    int file = open_of(process, "cmdline");
    size_t length = join_arguments(bytes, read_some(file, bytes, sizeof bytes));
    if (file >= 0)
        close(file);
    if (length >= VW_JOB_TEXT_BYTES)
        length = VW_JOB_TEXT_BYTES - 1;
    memset(out, 0, VW_JOB_TEXT_BYTES);
    memcpy(out, bytes, length);
}

/* ---- its environment ------------------------------------------------------------------------- */

static void take_variable(const char *text, vw__watch_job_environment *out)
{
    static const char visible[] = "CUDA_VISIBLE_DEVICES=";
    if (strncmp(text, visible, sizeof visible - 1) == 0) {
        out->has_visible = true;
        snprintf(out->visible, sizeof out->visible, "%.*s", (int)sizeof out->visible - 1,
                 text + sizeof visible - 1);
    } else if (strcmp(text, "CUDA_DEVICE_ORDER=PCI_BUS_ID") == 0) {
        out->is_by_bus = true;
    }
}

void vw__watch_process_environment(long process, vw__watch_job_environment *out)
{
    char piece[4096], variable[sizeof out->visible + 32];
    size_t kept = 0;
    *out = (vw__watch_job_environment){0};
    int file = open_of(process, "environ");
    for (size_t length; (length = read_some(file, piece, sizeof piece)) > 0;) {
        out->is_known = true;
        for (size_t i = 0; i < length; i++) {
            if (kept < sizeof variable - 1)
                variable[kept++] = piece[i];
            if (piece[i] != '\0')
                continue;
            variable[kept] = '\0';
            take_variable(variable, out);
            kept = 0;
        }
    }
    if (file >= 0)
        close(file);
}
