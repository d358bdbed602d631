/* mcp.h - answers messages of the Model Context Protocol, by which assistants call tools.
 *
 * The caller has the tools and carries the messages, one per line; this is what lies between. Each
 * message is answered by itself, so there is no state: a client of the revisions up to 2025-11-25
 * opens with `initialize`, one of 2026-07-28 names its revision in every request, and both may use
 * the same connection.
 *
 * Messages are untrusted. An invalid message and an unknown method or tool get the error that
 * JSON-RPC 2.0 and the protocol define for it; a notification gets no answer.
 *
 * A call that takes long can be cancelled, and can say how far it has come: the caller, who sees
 * what comes in meanwhile, asks vw_mcp_cancels() and vw_mcp_tell_progress().
 *
 * Link with -lvramwise-analysis. */
#ifndef VRAMWISE_MCP_H
#define VRAMWISE_MCP_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/output.h"
#include "vramwise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A longer message is refused. */
#define VW_MCP_MOST_MESSAGE_BYTES ((size_t)1 << 20)

/* A tool has no more parameters. */
#define VW_MCP_MOST_PARAMETERS 32

typedef enum vw_mcp_kind {
    VW_MCP_TEXT,
    VW_MCP_NUMBER, /* whole, not negative */
    VW_MCP_SWITCH,
} vw_mcp_kind;

typedef struct vw_mcp_parameter {
    const char *name;
    vw_mcp_kind kind;
    bool is_required;
    const char *description;
} vw_mcp_parameter;

typedef struct vw_mcp_tool {
    const char *name;
    const char *title;
    const char *description;
    const vw_mcp_parameter *parameters;
    size_t parameter_count;
} vw_mcp_tool;

/* What the client gave for a parameter: the text, the number in decimal digits, or "true" (a switch
 * that is false is not among the arguments). */
typedef struct vw_mcp_argument {
    const vw_mcp_parameter *parameter;
    const char *text;
} vw_mcp_argument;

typedef struct vw_mcp_request vw_mcp_request; /* opaque */

typedef struct vw_mcp_call {
    const vw_mcp_tool *tool;
    const vw_mcp_argument *arguments; /* each parameter once at most, those required all there */
    size_t argument_count;
    const vw_mcp_request *request; /* what called it, while the call lasts */
} vw_mcp_call;

typedef enum vw_mcp_outcome {
    VW_MCP_DONE,
    VW_MCP_FAILED,    /* what was said is why */
    VW_MCP_CANCELLED, /* the client does not want it any more: no answer is sent */
} vw_mcp_outcome;

typedef struct vw_mcp_server {
    size_t struct_size; /* sizeof(vw_mcp_server) */
    const char *name, *version;
    const char *instructions; /* for the assistant; NULL: none */
    const vw_mcp_tool *tools; /* all of them only read */
    size_t tool_count;
    void *context;
    /* Runs a tool and writes what it says to `answer`. */
    vw_mcp_outcome (*call)(void *context, const vw_mcp_call *call, const vw_output *answer);
} vw_mcp_server;

/* Answers one message, without the end of its line: one line to `output`, or nothing.
 *
 * VW_ERR_INVALID_ARGUMENT  no server, no output, or a struct_size that cannot be one
 * VW_ERR_HOST_MEMORY       nothing was written
 * VW_ERR_FILE              `output` stopped it */
VW_API VW_MUST_CHECK vw_status vw_mcp_answer(const vw_mcp_server *server, const char *message,
                                             size_t size_bytes, const vw_output *output);

/* ---- while a call lasts ----------------------------------------------------------------------
 */

/* Stores whether `message`, which came after the request, cancels it. It is to be answered all the
 * same, by vw_mcp_answer(): with nothing.
 *
 * VW_ERR_INVALID_ARGUMENT  no request or no result
 * VW_ERR_HOST_MEMORY       `*cancels` is untouched */
VW_API VW_MUST_CHECK vw_status vw_mcp_cancels(const vw_mcp_request *request, const char *message,
                                              size_t size_bytes, bool *cancels);

/* Tells the client how far the call has come, if it asked for that: a line to `output`. `progress`
 * rises from one call to the next. `words` are for people; NULL: none.
 *
 * VW_ERR_INVALID_ARGUMENT  no request, no output
 * VW_ERR_HOST_MEMORY       nothing was written
 * VW_ERR_FILE              `output` stopped it */
VW_API VW_MUST_CHECK vw_status vw_mcp_tell_progress(const vw_mcp_request *request, double progress,
                                                    const char *words, const vw_output *output);

/* The answer to a message that was longer than allowed, and was not kept. */
VW_API VW_MUST_CHECK vw_status vw_mcp_refuse_long(const vw_output *output);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_MCP_H */
