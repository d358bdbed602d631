/* mcp_message.c - JSON-RPC 2.0, as far as the Model Context Protocol uses it: one object per
 * message, an id that is a string or an integer, params that are an object. Batches were part of
 * one revision only, 2025-03-26, and are refused. */
#include "mcp/mcp_message.h"

#include <string.h>

#include "vramwise/mcp.h"
#include "base/error.h"
#include "base/utf8.h"
#include "parse/json_read.h"

#define MOST_MEMORY_BYTES ((size_t)64 << 20)
#define MOST_VALUES ((size_t)1 << 16)
#define MOST_DEPTH 32

/* Of several the last counts. */
static bool find_member(const vw__mcp_message *message, vw__value object, const char *name,
                        vw__value *out)
{
    size_t pair_count = 0, length = strlen(name), size_bytes;
    bool is_found = false;
    if (vw__value_get_kind(object) != VW__VALUE_DICT)
        return false;
    const vw__value *pairs = vw__value_pairs(message->document, object, &pair_count);
    for (size_t i = 0; i < pair_count; i++) {
        const char *key = vw__value_string(message->document, pairs[2 * i], &size_bytes);
        if (size_bytes != length || memcmp(key, name, length) != 0)
            continue;
        *out = pairs[2 * i + 1];
        is_found = true;
    }
    return is_found;
}

vw__value vw__mcp_message_member(const vw__mcp_message *message, vw__value object, const char *name)
{
    vw__value found = vw__value_none();
    (void)find_member(message, object, name, &found);
    return found;
}

const char *vw__mcp_message_text(const vw__mcp_message *message, vw__value value)
{
    size_t size_bytes;
    if (vw__value_get_kind(value) != VW__VALUE_STRING)
        return NULL;
    const char *text = vw__value_string(message->document, value, &size_bytes);
    return strlen(text) == size_bytes ? text : NULL;
}

static void make_wrong(vw__mcp_message *message, int code, const char *fault)
{
    message->kind = VW__MCP_MESSAGE_WRONG;
    message->fault_code = code;
    message->fault = fault;
}

/* The bytes of `text` as an answer repeats it: U+FFFD, of three bytes, replaces what is not UTF-8.
 */
static size_t echoed_bytes(const char *text)
{
    size_t size_bytes = strlen(text), count = 0;
    while (size_bytes > 0) {
        uint32_t character = 0;
        const size_t length = vw__utf8_next(text, size_bytes, &character);
        count += character == VW__UTF8_INVALID ? 3 : length;
        text += length;
        size_bytes -= length;
    }
    return count;
}

bool vw__mcp_message_can_echo(const vw__mcp_message *message, vw__value value)
{
    const char *text = vw__mcp_message_text(message, value);
    return vw__value_get_kind(value) == VW__VALUE_INTEGER ||
           (text != NULL && echoed_bytes(text) <= VW__MCP_MOST_ECHOED_BYTES);
}

static const char *fault_of_id(const vw__mcp_message *message, vw__value id)
{
    if (vw__mcp_message_text(message, id) == NULL)
        return "expected an id that is a string or an integer";
    (void)vw__fail(VW_ERR_INVALID_ARGUMENT, "expected an id of at most %d bytes",
                   VW__MCP_MOST_ECHOED_BYTES);
    return vw_last_error();
}

static void sort(vw__mcp_message *message, vw__value root)
{
    if (vw__value_get_kind(root) != VW__VALUE_DICT) {
        make_wrong(message, VW__MCP_INVALID_REQUEST, "expected an object, one message per line");
        return;
    }
    vw__value id = vw__value_none(), answered;
    const bool has_id = find_member(message, root, "id", &id); /* null: a bad request */
    const vw__value params = vw__mcp_message_member(message, root, "params");
    const char *version =
        vw__mcp_message_text(message, vw__mcp_message_member(message, root, "jsonrpc"));
    message->method =
        vw__mcp_message_text(message, vw__mcp_message_member(message, root, "method"));
    if (vw__mcp_message_can_echo(message, id))
        message->id = id;
    if (version == NULL || strcmp(version, "2.0") != 0)
        make_wrong(message, VW__MCP_INVALID_REQUEST, "expected \"jsonrpc\": \"2.0\"");
    else if (message->method == NULL && (find_member(message, root, "result", &answered) ||
                                         find_member(message, root, "error", &answered)))
        message->kind = VW__MCP_MESSAGE_SILENT; /* we asked nothing */
    else if (message->method == NULL)
        make_wrong(message, VW__MCP_INVALID_REQUEST, "expected a method, as a string");
    else if (has_id && !vw__mcp_message_can_echo(message, id))
        make_wrong(message, VW__MCP_INVALID_REQUEST, fault_of_id(message, id));
    else if (has_id && vw__value_get_kind(params) != VW__VALUE_NONE &&
             vw__value_get_kind(params) != VW__VALUE_DICT)
        make_wrong(message, VW__MCP_INVALID_PARAMS, "expected params that are an object");
    else
        message->kind = has_id ? VW__MCP_MESSAGE_REQUEST : VW__MCP_MESSAGE_NOTIFICATION;
    message->params = params;
}

static vw_status read_root(vw__byte_source *source, vw__mcp_message *message, vw__value *root)
{
    const vw__document_limits limits = {
        .memory_bytes = MOST_MEMORY_BYTES, .depth = MOST_DEPTH, .value_count = MOST_VALUES};
    VW__TRY(vw__document_create(&limits, NULL, &message->document));
    VW__TRY(vw__document_read_json(source, message->document, root));
    *root = vw__document_resolve(message->document, *root);
    return VW_OK;
}

vw_status vw__mcp_message_read(const char *bytes, size_t size_bytes, vw__mcp_message *message)
{
    const vw__byte_source_options options = {.output_limit_bytes = VW_MCP_MOST_MESSAGE_BYTES};
    vw__byte_source *source;
    vw__value root;
    *message = (vw__mcp_message){.id = vw__value_none(), .params = vw__value_none()};
    vw_status status = vw__byte_source_open_memory(bytes, size_bytes, &options, &source);
    if (status == VW_OK) {
        status = read_root(source, message, &root);
        vw__byte_source_close(source);
    }
    if (status == VW_ERR_HOST_MEMORY) {
        vw__mcp_message_free(message);
        return status;
    }
    if (status != VW_OK)
        make_wrong(message,
                   status == VW_ERR_UNSUPPORTED ? VW__MCP_INVALID_REQUEST : VW__MCP_PARSE_ERROR,
                   vw_last_error());
    else
        sort(message, root);
    return VW_OK;
}

void vw__mcp_message_free(vw__mcp_message *message)
{
    vw__document_destroy(message->document);
    message->document = NULL;
}
