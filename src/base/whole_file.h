/* whole_file.h - writes files that appear under their name only when they are complete.
 *
 * The content goes to a file with another name in the same folder, which is renamed at the end. A
 * program that is killed half way leaves no incomplete file under that name, and does not destroy
 * an older one. Those may use a file that replaces one of the user's who
 * could use that one: vw_keep_file_access(). A device or a pipe is written to, not replaced; so is
 * what a link leads to, if it is such and the link is the user's, root's or its owner's. */
#ifndef VW_BASE_WHOLE_FILE_H
#define VW_BASE_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/status.h"

typedef vw_status (*vw__file_content)(void *context, int file_descriptor);

/* Calls `content` once, with a file to write to, which it must not close. If that fails, or with
 * VW_ERR_FILE (the message has the system's reason), no file appears. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__whole_file_write(const char *path, vw__file_content content,
                                             void *context);

/* For content that is written in pieces: vw__file_output_write() writes all of `bytes`, or returns
 * false with errno in `error`. It raises no signal. */
typedef struct vw__file_output {
    int descriptor;
    int error; /* of the write that failed; 0 = none */
} vw__file_output;
bool vw__file_output_write(void *open_file, const void *bytes, size_t size_bytes);

#endif /* VW_BASE_WHOLE_FILE_H */
