/* mcp_input.h - the lines of standard input, one message each, which can be looked at before their
 * turn comes: one that is behind a request may cancel it. */
#ifndef VRAMWISE_CLI_MCP_INPUT_H
#define VRAMWISE_CLI_MCP_INPUT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mcp_input {
    char *bytes; /* owned; room for a message that is answered, and one that comes meanwhile */
    size_t begin, end; /* of what is in there and was not handed out */
    bool is_skipping;  /* the rest of a line that is too long */
    bool has_ended;
} mcp_input;

typedef enum mcp_input_next_is {
    MCP_INPUT_LINE,
    MCP_INPUT_TOO_LONG, /* a line that was not kept */
    MCP_INPUT_END,
} mcp_input_next_is;

/* false: no memory. */
bool mcp_input_open(mcp_input *input);
void mcp_input_close(mcp_input *input);

/* Waits for the next line, without its line feed. It is there until the next call. */
mcp_input_next_is mcp_input_next(mcp_input *input, const char **line, size_t *size_bytes);

/* Takes what has come, once poll() says that something has. */
void mcp_input_take(mcp_input *input);

/* Whether it makes sense to wait for more now: there is room, and not the end. */
bool mcp_input_is_open(const mcp_input *input);

/* The whole line at `*at` of those that wait, which moves behind it; NULL: there is none yet. Begin
 * with 0; the place is good until mcp_input_next(). */
const char *mcp_input_waiting(const mcp_input *input, size_t *at, size_t *size_bytes);

#endif /* VRAMWISE_CLI_MCP_INPUT_H */
