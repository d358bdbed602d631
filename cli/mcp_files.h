/* mcp_files.h - the folders that an assistant may have files of.
 *
 * A name is looked for in each of them, or is absolute. What it really is, behind all symbolic
 * links, must lie in one of them and be a plain file: no device, no pipe, and no folder, of which a
 * command would choose the file. */
#ifndef VRAMWISE_CLI_MCP_FILES_H
#define VRAMWISE_CLI_MCP_FILES_H

#include <limits.h> /* PATH_MAX */
#include <stdbool.h>
#include <stddef.h>

enum { MCP_MOST_FOLDERS = 64, MCP_FAULT_BYTES = 512 };

typedef struct mcp_folders {
    char *paths[MCP_MOST_FOLDERS]; /* without links; owned */
    size_t count;
} mcp_folders;

/* Adds a folder. false: `fault` says why not. */
bool mcp_files_allow(mcp_folders *folders, const char *folder, char fault[MCP_FAULT_BYTES]);
void mcp_files_free(mcp_folders *folders);

/* Finds the file called `name`. false: `fault` says why not, and nothing about whether a file
 * outside exists. */
bool mcp_files_find(const mcp_folders *folders, const char *name, char path[PATH_MAX],
                    char fault[MCP_FAULT_BYTES]);

#endif /* VRAMWISE_CLI_MCP_FILES_H */
