/* whole_file.h - files that appear under their name only when they are whole.
 *
 * What is written goes to a file beside its place, under another name, and is moved there at the
 * end. A program that is killed half-way leaves no file that looks like one, and does not destroy
 * the one before. A device or a pipe is written to, not replaced. */
#ifndef HR_BASE_WHOLE_FILE_H
#define HR_BASE_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "headroom/status.h"

typedef hr_status (*hr__file_content)(void *context, int file_descriptor);

/* Calls `content` once, with a file to write to, which it does not close. On failure, its own or
 * HR_ERR_FILE with the system's words, there is nothing new. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__whole_file_write(const char *path, hr__file_content content,
                                             void *context);

/* For contents that are written in pieces: all of `bytes`, or false with the reason in `*error`
 * (errno). */
typedef struct hr__open_file {
    int descriptor;
    int error; /* of the write that failed; 0 = none */
} hr__open_file;
bool hr__open_file_write(void *open_file, const void *bytes, size_t size_bytes);

#endif /* HR_BASE_WHOLE_FILE_H */
