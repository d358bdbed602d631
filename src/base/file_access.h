/* file_access.h - who may use a file, and whose links are followed. See output.h for the rest. */
#ifndef VW_BASE_FILE_ACCESS_H
#define VW_BASE_FILE_ACCESS_H

#include <stdbool.h>
#include <sys/stat.h>

/* Whether a plain file of this user is at `path`. Links are not followed. */
bool vw__file_access_is_own(const char *path);

/* `name` is what was found, links not followed, before `facts` was opened there. Whether that may
 * be used: a link only if it is the user's, root's, or whose file it leads to. What has changed in
 * between may not. */
bool vw__file_access_may_lead(const struct stat *name, const struct stat *facts);

#endif /* VW_BASE_FILE_ACCESS_H */
