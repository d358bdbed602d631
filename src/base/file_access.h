/* file_access.h - who may use a file. output.h has the rest. */
#ifndef VW_BASE_FILE_ACCESS_H
#define VW_BASE_FILE_ACCESS_H

#include <stdbool.h>

/* Whether a plain file of this user is at `path`. Links are not followed. */
bool vw__file_access_is_own(const char *path);

#endif /* VW_BASE_FILE_ACCESS_H */
