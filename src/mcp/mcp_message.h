/* mcp_message.h - one message of the Model Context Protocol, read and sorted. */
#ifndef VW_MCP_MCP_MESSAGE_H
#define VW_MCP_MCP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/status.h"
#include "parse/document.h"

/* Codes of JSON-RPC 2.0, and one of the protocol. */
enum {
    VW__MCP_PARSE_ERROR = -32700,
    VW__MCP_INVALID_REQUEST = -32600,
    VW__MCP_METHOD_NOT_FOUND = -32601,
    VW__MCP_INVALID_PARAMS = -32602,
    VW__MCP_UNSUPPORTED_VERSION = -32022,
};

/* Of a text that an answer repeats, so that the answer stays short. */
enum { VW__MCP_MOST_ECHOED_BYTES = 256 };

typedef enum vw__mcp_message_kind {
    VW__MCP_MESSAGE_REQUEST,
    VW__MCP_MESSAGE_NOTIFICATION, /* nothing is sent back */
    VW__MCP_MESSAGE_SILENT,       /* an answer to something: nothing is sent back either */
    VW__MCP_MESSAGE_WRONG,        /* `fault` and `fault_code` say why */
} vw__mcp_message_kind;

typedef struct vw__mcp_message {
    vw__mcp_message_kind kind;
    vw__document *document; /* owned; NULL where it could not be read */
    vw__value id;           /* one that can be echoed; none where it is not known */
    vw__value params;       /* of a request an object, or none */
    const char *method;     /* of a request or a notification */
    const char *fault;      /* static, or vw_last_error() */
    int fault_code;
} vw__mcp_message;

/* Reads `bytes`. A message that makes no sense is VW_OK and WRONG.
 * VW_ERR_HOST_MEMORY: nothing is kept. */
VW_MUST_CHECK vw_status vw__mcp_message_read(const char *bytes, size_t size_bytes,
                                             vw__mcp_message *message);
void vw__mcp_message_free(vw__mcp_message *message);

/* The member of that name; none where `object` is no object or has no such member. Of several the
 * last counts. */
vw__value vw__mcp_message_member(const vw__mcp_message *message, vw__value object,
                                 const char *name);

/* A string without zeros inside; NULL for anything else. */
const char *vw__mcp_message_text(const vw__mcp_message *message, vw__value value);

/* True for an integer, and for a short text: what answers and notifications repeat. */
bool vw__mcp_message_can_echo(const vw__mcp_message *message, vw__value value);

#endif /* VW_MCP_MCP_MESSAGE_H */
