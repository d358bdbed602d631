/* process_read.c - see machine_join.h. An environment can be long, so it is read in pieces, and of
 * each variable only as much is kept as the longest that matters. */
#include "watch/machine_join.h"
#include "watch/process_parts.h"

#include <fcntl.h>
#include <stdint.h> /* SIZE_MAX */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_PIECE_BYTES = 4608 }; /* a line of maps: a path, and what is before it */

int vw__watch_process_open(const char *folder, long process, const char *name)
{
    char path[512];
    int length = snprintf(path, sizeof path, "%s/%ld/%s", folder, process, name);
    return length < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

size_t vw__watch_process_bytes(int file, char *bytes, size_t room)
{
    ssize_t length = file >= 0 ? read(file, bytes, room) : -1;
    return length > 0 ? (size_t)length : 0;
}

bool vw__watch_process_pieces(int file, char separator, size_t most_bytes, size_t most_pieces,
                              void (*take)(const char *piece, void *context), void *context)
{
    char read_bytes[4096], piece[LONGEST_PIECE_BYTES];
    size_t kept = 0, pieces_left = most_pieces;
    bool is_read = false;
    if (most_bytes > sizeof piece - 1)
        most_bytes = sizeof piece - 1;
    while (pieces_left > 0) {
        size_t length = vw__watch_process_bytes(file, read_bytes, sizeof read_bytes);
        if (length == 0)
            break;
        is_read = true;
        for (size_t i = 0; i < length && pieces_left > 0; i++) {
            if (read_bytes[i] != separator) {
                if (kept < most_bytes)
                    piece[kept++] = read_bytes[i];
                continue;
            }
            piece[kept] = '\0';
            take(piece, context);
            pieces_left--;
            kept = 0;
        }
    }
    if (file >= 0)
        close(file);
    return is_read;
}

/* ---- its command ----------------------------------------------------------------------------- */

size_t vw__watch_process_join(char *bytes, size_t length)
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
    int file = vw__watch_process_open("/proc", process, "cmdline");
    size_t length =
        vw__watch_process_join(bytes, vw__watch_process_bytes(file, bytes, sizeof bytes));
    if (file >= 0)
        close(file);
    if (length >= VW_JOB_TEXT_BYTES)
        length = VW_JOB_TEXT_BYTES - 1;
    memset(out, 0, VW_JOB_TEXT_BYTES);
    memcpy(out, bytes, length);
}

/* ---- its environment ------------------------------------------------------------------------- */

static void take_variable(const char *text, void *context)
{
    vw__watch_job_environment *out = context;
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
    *out = (vw__watch_job_environment){0};
    out->is_known =
        vw__watch_process_pieces(vw__watch_process_open("/proc", process, "environ"), '\0',
                                 sizeof out->visible + 31, SIZE_MAX, take_variable, out);
}
