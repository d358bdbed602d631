/* mcp_tools.h - the tools of `vramwise mcp`: commands of this program, each with those of its
 * options that only read. */
#ifndef VRAMWISE_CLI_MCP_TOOLS_H
#define VRAMWISE_CLI_MCP_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/mcp.h"

#include "mcp_files.h"
#include "mcp_input.h"

/* An answer is no longer: it takes its place in what an assistant can keep in mind. */
enum { MCP_TOOLS_MOST_BYTES = 32 * 1024 };

typedef struct mcp_tools {
    mcp_folders folders;
    mcp_input input;  /* where a call may be cancelled */
    uint64_t most_ms; /* that a call may take */
} mcp_tools;

extern const vw_mcp_tool mcp_tools_list[];
extern const size_t mcp_tools_count;

/* vw_mcp_server.call; `context` is an mcp_tools. */
vw_mcp_outcome mcp_tools_call(void *context, const vw_mcp_call *call, const vw_output *answer);

#endif /* VRAMWISE_CLI_MCP_TOOLS_H */
