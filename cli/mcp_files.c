/* mcp_files.c - see mcp_files.h. */
#include "mcp_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SHOWN_LETTERS = 200 }; /* of a name in a message */

bool mcp_files_allow(mcp_folders *folders, const char *folder, char fault[MCP_FAULT_BYTES])
{
    char path[PATH_MAX];
    struct stat found;
    if (folders->count == MCP_MOST_FOLDERS) {
        snprintf(fault, MCP_FAULT_BYTES, "more than %d folders", MCP_MOST_FOLDERS);
        return false;
    }
    if (realpath(folder, path) == NULL || stat(path, &found) != 0) {
        snprintf(fault, MCP_FAULT_BYTES, "%.*s: %s", SHOWN_LETTERS, folder, strerror(errno));
        return false;
    }
    if (!S_ISDIR(found.st_mode)) {
        snprintf(fault, MCP_FAULT_BYTES, "%.*s: expected a folder", SHOWN_LETTERS, folder);
        return false;
    }
    folders->paths[folders->count] = strdup(path);
    if (folders->paths[folders->count] == NULL) {
        snprintf(fault, MCP_FAULT_BYTES, "out of host memory");
        return false;
    }
    folders->count++;
    return true;
}

void mcp_files_free(mcp_folders *folders)
{
    while (folders->count > 0)
        free(folders->paths[--folders->count]);
}

/* Is `path`, without links, the folder or below it? */
static bool is_within(const char *folder, const char *path)
{
    size_t length = strlen(folder);
    if (strcmp(folder, "/") == 0)
        return true;
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static bool is_allowed(const mcp_folders *folders, const char *path)
{
    for (size_t i = 0; i < folders->count; i++)
        if (is_within(folders->paths[i], path))
            return true;
    return false;
}

/* What `name` is in `folder`, or by itself where that is NULL. */
static bool resolve(const char *folder, const char *name, char path[PATH_MAX])
{
    char joined[PATH_MAX];
    if (folder == NULL)
        return realpath(name, path) != NULL;
    int length = snprintf(joined, sizeof joined, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof joined && realpath(joined, path) != NULL;
}

static bool locate(const mcp_folders *folders, const char *name, char path[PATH_MAX])
{
    if (name[0] == '/')
        return resolve(NULL, name, path) && is_allowed(folders, path);
    for (size_t i = 0; i < folders->count; i++)
        if (resolve(folders->paths[i], name, path) && is_allowed(folders, path))
            return true;
    return false;
}

bool mcp_files_find(const mcp_folders *folders, const char *name, char path[PATH_MAX],
                    char fault[MCP_FAULT_BYTES])
{
    struct stat found;
    if (name[0] == '\0' || !locate(folders, name, path) || stat(path, &found) != 0) {
        snprintf(fault, MCP_FAULT_BYTES,
                 "%.*s: there is no such file in the folders that this server was started with",
                 SHOWN_LETTERS, name);
        return false;
    }
    if (!S_ISREG(found.st_mode)) {
        snprintf(fault, MCP_FAULT_BYTES, "%.*s: expected a plain file", SHOWN_LETTERS, name);
        return false;
    }
    return true;
}
