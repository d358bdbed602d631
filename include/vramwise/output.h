/* output.h - where the library writes text to, and who may use a file that replaces another. */
#ifndef VRAMWISE_OUTPUT_H
#define VRAMWISE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/status.h" /* VW_API */

#ifdef __cplusplus
extern "C" {
#endif

/* `write` returns false to stop. */
typedef struct vw_output {
    void *context;
    bool (*write)(void *context, const char *bytes, size_t size_bytes);
} vw_output;

/* For an open new file, which nobody else has access to yet and which will replace the one at
 * `path`: gives it the mode, the group and the access list (POSIX ACL) of that one, if that is a
 * plain file of this user, and else returns false. What cannot be given is left out, so that nobody
 * gets access who had none: without the group nobody of any group has more access than others, and
 * where the list cannot be read or copied only the owner has access. Links are not followed. */
VW_API bool vw_keep_file_access(int file_descriptor, const char *path);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_OUTPUT_H */
