/* whole_file.h - files that appear under their name only when they are whole.
 *
 * What is written goes to a file beside its place, under another name, and is moved there at the
 * end. A program that is killed half-way leaves no file that looks like one, and does not destroy
 * the one before. A device or a pipe is written to, not replaced. */
#ifndef VW_BASE_WHOLE_FILE_H
#define VW_BASE_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/status.h"

typedef vw_status (*vw__file_content)(void *context, int file_descriptor);

/* Calls `content` once, with a file to write to, which it does not close. On failure, its own or
 * VW_ERR_FILE with the system's words, there is nothing new. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__whole_file_write(const char *path, vw__file_content content,
                                             void *context);

/* For contents that are written in pieces: all of `bytes`, or false with the reason in `*error`
 * (errno). */
typedef struct vw__open_file {
    int descriptor;
    int error; /* of the write that failed; 0 = none */
} vw__open_file;
bool vw__open_file_write(void *open_file, const void *bytes, size_t size_bytes);

#endif /* VW_BASE_WHOLE_FILE_H */
