/* mcp_child.h - runs this program once more, for a tool, and keeps what it says.
 *
 * In a process of its own a tool cannot harm the server: what it takes is given back, and it ends
 * when its time is up, when it says too much, or when the server ends. */
#ifndef VRAMWISE_CLI_MCP_CHILD_H
#define VRAMWISE_CLI_MCP_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mcp_child_order {
    char *const *argv; /* argv[0] is the program's name; ends with NULL */
    const char *input; /* for its standard input; NULL: nothing */
    size_t most_bytes; /* of its standard output */
    uint64_t most_ms;  /* that it may take */

    /* What goes on meanwhile. NULL: nothing. */
    void *context;
    /* A descriptor to watch beside the child; -1: none now. */
    int (*watched)(void *context);
    /* That descriptor has something. false: the child is not wanted any more. */
    bool (*is_wanted)(void *context);
    /* What the child says about how far it is (see progress.h): "reading 0.300". */
    void (*see_progress)(void *context, const char *line);
} mcp_child_order;

typedef struct mcp_child_result {
    char *output;      /* zero-terminated; freed by mcp_child_free() */
    size_t size_bytes; /* at most the order's most_bytes */
    bool is_cut;       /* there was more */
    bool is_late;      /* its time was up */
    bool is_unwanted;  /* stopped by is_wanted() */
    int exit_status;   /* -1: it did not exit by itself */
    char error[4096];  /* what it wrote to standard error, the beginning */
} mcp_child_result;

/* false: it could not be started; errno says why. */
bool mcp_child_run(const mcp_child_order *order, mcp_child_result *result);
void mcp_child_free(mcp_child_result *result);

#endif /* VRAMWISE_CLI_MCP_CHILD_H */
