/* mcp_input.c - see mcp_input.h. What waits is moved to the front only between two messages, so
 * that a line that was handed out stays where it is; and only if more lies behind it than waits, so
 * that many short lines cost no more than one long line. */
#include "mcp_input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vramwise/mcp.h"

#define MOST_LINE_BYTES (VW_MCP_MOST_MESSAGE_BYTES + 1) /* and a line feed */
#define ROOM_BYTES (2 * MOST_LINE_BYTES)

bool mcp_input_open(mcp_input *input)
{
    *input = (mcp_input){.bytes = malloc(ROOM_BYTES)};
    return input->bytes != NULL;
}

void mcp_input_close(mcp_input *input)
{
    free(input->bytes);
    input->bytes = NULL;
}

bool mcp_input_is_open(const mcp_input *input)
{
    return !input->has_ended && input->end < ROOM_BYTES;
}

void mcp_input_take(mcp_input *input)
{
    if (!mcp_input_is_open(input))
        return;
    ssize_t got = read(STDIN_FILENO, input->bytes + input->end, ROOM_BYTES - input->end);
    if (got > 0)
        input->end += (size_t)got;
    else if (got == 0 || (errno != EINTR && errno != EAGAIN))
        input->has_ended = true;
}

const char *mcp_input_waiting(const mcp_input *input, size_t *at, size_t *size_bytes)
{
    const char *line = input->bytes + input->begin + *at;
    const char *feed = memchr(line, '\n', input->end - input->begin - *at);
    if (feed == NULL)
        return NULL;
    *size_bytes = (size_t)(feed - line);
    *at += *size_bytes + 1;
    return line;
}

static void move_to_front(mcp_input *input)
{
    memmove(input->bytes, input->bytes + input->begin, input->end - input->begin);
    input->end -= input->begin;
    input->begin = 0;
}

/* The line in front, which has ended; false: one that was skipped. */
static bool take_line(mcp_input *input, size_t passed_bytes)
{
    const bool is_kept = !input->is_skipping;
    input->begin += passed_bytes;
    input->is_skipping = false;
    return is_kept;
}

mcp_input_next_is mcp_input_next(mcp_input *input, const char **line, size_t *size_bytes)
{
    if (input->begin >= input->end - input->begin)
        move_to_front(input);
    for (;;) {
        size_t at = 0;
        *line = mcp_input_waiting(input, &at, size_bytes);
        if (*line != NULL) {
            if (!take_line(input, at))
                continue;
            return *size_bytes > VW_MCP_MOST_MESSAGE_BYTES ? MCP_INPUT_TOO_LONG : MCP_INPUT_LINE;
        }
        move_to_front(input);
        if (input->is_skipping || input->end >= MOST_LINE_BYTES) {
            const bool is_first = !input->is_skipping;
            input->is_skipping = true;
            input->end = 0;
            if (is_first)
                return MCP_INPUT_TOO_LONG;
        }
        if (input->has_ended) {
            *line = input->bytes; /* the last one may lack its line feed */
            *size_bytes = input->end;
            input->begin = input->end;
            return *size_bytes > 0 ? MCP_INPUT_LINE : MCP_INPUT_END;
        }
        mcp_input_take(input);
    }
}
