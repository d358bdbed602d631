/* mcp_answer.c - the methods of the Model Context Protocol that a server of tools has.
 *
 * Two eras of the protocol differ in how a client begins and in what stands around a result:
 *
 *   up to 2025-11-25   `initialize` agrees on a revision, which nothing below depends on
 *   2026-07-28         every request names its revision in _meta; `server/discover` shows what
 * there is; results say that they are complete, and how long a list may be kept
 *
 * So a request with that _meta is answered in the new way and any other in the old one. A tool that
 * cannot do what was asked is a result with isError, for the assistant to read; an unknown tool or
 * method is an error of the protocol. */
#include "vramwise/mcp.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "export/json_write.h"
#include "mcp/mcp_message.h"

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_SERVER "io.modelcontextprotocol/serverInfo"
#define MODERN_REVISION "2026-07-28"
#define KEPT_MS 3600000 /* the list of tools stays as it is while the program runs */

/* Newest first: without a common one, the client is offered the first that has `initialize`. */
static const char *const revisions[] = {MODERN_REVISION, "2025-11-25", "2025-06-18", "2024-11-05"};
enum { REVISION_COUNT = sizeof revisions / sizeof revisions[0], FIRST_WITH_INITIALIZE = 1 };

/* A request, and the answer that is being made. */
typedef struct exchange {
    const vw_mcp_server *server;
    const vw__mcp_message *message;
    bool is_modern, is_cancelled;
    vw__json json;
} exchange;

/* What callers see of a request is its message. */
struct vw_mcp_request {
    const vw__mcp_message *message;
};

/* ---- what every answer has ------------------------------------------------------------------- */

/* An id or a token, as it came: a string or an integer; null for anything else. */
static void write_given(vw__json *json, const char *key, const vw__mcp_message *message,
                        vw__value value)
{
    const char *text = vw__mcp_message_text(message, value);
    uint64_t number;
    int64_t negative;
    if (text != NULL)
        vw__json_text(json, key, text);
    else if (vw__value_get_u64(message->document, value, &number))
        vw__json_unsigned(json, key, number);
    else if (vw__value_get_i64(message->document, value, &negative))
        vw__json_integer(json, key, negative);
    else
        vw__json_null(json, key);
}

static void begin_answer(exchange *at)
{
    vw__json_begin_object(&at->json, NULL);
    vw__json_text(&at->json, "jsonrpc", "2.0");
    write_given(&at->json, "id", at->message, at->message->id);
}

static void begin_result(exchange *at)
{
    begin_answer(at);
    vw__json_begin_object(&at->json, "result");
    if (at->is_modern)
        vw__json_text(&at->json, "resultType", "complete");
}

static void end_result(exchange *at)
{
    vw__json_end_object(&at->json);
    vw__json_end_object(&at->json);
}

/* The error stays open for its data. */
static void begin_error(exchange *at, int code, const char *message)
{
    begin_answer(at);
    vw__json_begin_object(&at->json, "error");
    vw__json_integer(&at->json, "code", code);
    vw__json_text(&at->json, "message", message);
}

static void say_error(exchange *at, int code, const char *message)
{
    begin_error(at, code, message);
    end_result(at);
}

static void write_revisions(exchange *at, const char *key)
{
    vw__json_begin_array(&at->json, key);
    for (size_t i = 0; i < REVISION_COUNT; i++)
        vw__json_text(&at->json, NULL, revisions[i]);
    vw__json_end_array(&at->json);
}

static void write_capabilities(exchange *at)
{
    vw__json_begin_object(&at->json, "capabilities");
    vw__json_begin_object(&at->json, "tools");
    vw__json_end_object(&at->json);
    vw__json_end_object(&at->json);
}

static void write_server(exchange *at, const char *key)
{
    vw__json_begin_object(&at->json, key);
    vw__json_text(&at->json, "name", at->server->name);
    vw__json_text(&at->json, "version", at->server->version);
    vw__json_end_object(&at->json);
}

static void write_instructions(exchange *at)
{
    if (at->server->instructions != NULL)
        vw__json_text(&at->json, "instructions", at->server->instructions);
}

static void write_cache(exchange *at)
{
    vw__json_unsigned(&at->json, "ttlMs", KEPT_MS);
    vw__json_text(&at->json, "cacheScope", "private");
}

/* ---- how a client begins --------------------------------------------------------------------- */

static void answer_initialize(exchange *at)
{
    const char *asked = vw__mcp_message_text(
        at->message, vw__mcp_message_member(at->message, at->message->params, "protocolVersion"));
    const char *agreed = revisions[FIRST_WITH_INITIALIZE];
    if (asked == NULL) {
        say_error(at, VW__MCP_INVALID_PARAMS, "initialize: expected a protocolVersion");
        return;
    }
    for (size_t i = FIRST_WITH_INITIALIZE; i < REVISION_COUNT; i++)
        if (strcmp(revisions[i], asked) == 0)
            agreed = revisions[i];
    begin_result(at);
    vw__json_text(&at->json, "protocolVersion", agreed);
    write_capabilities(at);
    write_server(at, "serverInfo");
    write_instructions(at);
    end_result(at);
}

static void answer_discover(exchange *at)
{
    if (!at->is_modern) {
        say_error(at, VW__MCP_INVALID_PARAMS, "server/discover: expected _meta with " META_VERSION);
        return;
    }
    begin_result(at);
    write_revisions(at, "supportedVersions");
    write_capabilities(at);
    vw__json_begin_object(&at->json, "_meta");
    write_server(at, META_SERVER);
    vw__json_end_object(&at->json);
    write_instructions(at);
    write_cache(at);
    end_result(at);
}

static void answer_ping(exchange *at)
{
    begin_result(at);
    end_result(at);
}

/* ---- the list of tools ----------------------------------------------------------------------- */

static const char *type_name(vw_mcp_kind kind)
{
    static const char *const names[] = {
        [VW_MCP_TEXT] = "string", [VW_MCP_NUMBER] = "integer", [VW_MCP_SWITCH] = "boolean"};
    return names[kind];
}

static void write_schema(vw__json *json, const vw_mcp_tool *tool)
{
    vw__json_begin_object(json, "inputSchema");
    vw__json_text(json, "type", "object");
    vw__json_begin_object(json, "properties");
    for (size_t i = 0; i < tool->parameter_count; i++) {
        const vw_mcp_parameter *parameter = &tool->parameters[i];
        vw__json_begin_object(json, parameter->name);
        vw__json_text(json, "type", type_name(parameter->kind));
        vw__json_text(json, "description", parameter->description);
        if (parameter->kind == VW_MCP_NUMBER)
            vw__json_unsigned(json, "minimum", 0);
        vw__json_end_object(json);
    }
    vw__json_end_object(json);
    vw__json_begin_array(json, "required");
    for (size_t i = 0; i < tool->parameter_count; i++)
        if (tool->parameters[i].is_required)
            vw__json_text(json, NULL, tool->parameters[i].name);
    vw__json_end_array(json);
    vw__json_boolean(json, "additionalProperties", false);
    vw__json_end_object(json);
}

static void write_tool(vw__json *json, const vw_mcp_tool *tool)
{
    vw__json_begin_object(json, NULL);
    vw__json_text(json, "name", tool->name);
    vw__json_text(json, "title", tool->title);
    vw__json_text(json, "description", tool->description);
    write_schema(json, tool);
    vw__json_begin_object(json, "annotations");
    vw__json_boolean(json, "readOnlyHint", true);
    vw__json_boolean(json, "openWorldHint", false);
    vw__json_end_object(json);
    vw__json_end_object(json);
}

static void answer_list(exchange *at)
{
    const vw__value cursor = vw__mcp_message_member(at->message, at->message->params, "cursor");
    if (vw__value_get_kind(cursor) != VW__VALUE_NONE) {
        say_error(at, VW__MCP_INVALID_PARAMS, "tools/list: there is no further page");
        return;
    }
    begin_result(at);
    vw__json_begin_array(&at->json, "tools");
    for (size_t i = 0; i < at->server->tool_count; i++)
        write_tool(&at->json, &at->server->tools[i]);
    vw__json_end_array(&at->json);
    if (at->is_modern)
        write_cache(at);
    end_result(at);
}

/* ---- a call ---------------------------------------------------------------------------------- */

/* The arguments of a call, and the digits of those that are numbers. */
typedef struct arguments {
    vw_mcp_argument items[VW_MCP_MOST_PARAMETERS];
    char digits[VW_MCP_MOST_PARAMETERS][24];
    size_t count;
} arguments;

static const vw_mcp_tool *find_tool(const exchange *at, const char *name)
{
    for (size_t i = 0; i < at->server->tool_count; i++)
        if (strcmp(at->server->tools[i].name, name) == 0)
            return &at->server->tools[i];
    return NULL;
}

/* Puts what `value` says into the next argument. false: `fault` says what is wrong. */
static bool take_argument(const exchange *at, const vw_mcp_parameter *parameter, vw__value value,
                          arguments *taken, vw__byte_buffer *fault)
{
    static const char *const expected[] = {[VW_MCP_TEXT] = "a string",
                                           [VW_MCP_NUMBER] = "an integer from 0 on",
                                           [VW_MCP_SWITCH] = "a boolean"};
    vw_mcp_argument *next = &taken->items[taken->count];
    char *digits = taken->digits[taken->count];
    const vw__value_kind kind = vw__value_get_kind(value);
    uint64_t number;
    *next = (vw_mcp_argument){.parameter = parameter};
    if (kind == VW__VALUE_NONE || (parameter->kind == VW_MCP_SWITCH && kind == VW__VALUE_FALSE))
        return true; /* as if it were not there */
    if (parameter->kind == VW_MCP_TEXT) {
        next->text = vw__mcp_message_text(at->message, value);
    } else if (parameter->kind == VW_MCP_SWITCH) {
        next->text = kind == VW__VALUE_TRUE ? "true" : NULL;
    } else if (vw__value_get_u64(at->message->document, value, &number)) {
        snprintf(digits, sizeof taken->digits[0], "%" PRIu64, number);
        next->text = digits;
    }
    if (next->text == NULL) {
        vw__append_format(fault, "%s: expected %s", parameter->name, expected[parameter->kind]);
        return false;
    }
    taken->count++;
    return true;
}

static const vw_mcp_parameter *find_parameter(const vw_mcp_tool *tool, const char *name)
{
    for (size_t i = 0; i < tool->parameter_count; i++)
        if (strcmp(tool->parameters[i].name, name) == 0)
            return &tool->parameters[i];
    return NULL;
}

/* A name that the tool does not have is a slip that would silently change the answer. */
static bool has_only_known(const exchange *at, const vw_mcp_tool *tool, vw__value given,
                           vw__byte_buffer *fault)
{
    size_t pair_count = 0;
    const vw__value *pairs = vw__value_pairs(at->message->document, given, &pair_count);
    for (size_t i = 0; i < pair_count; i++) {
        const char *name = vw__mcp_message_text(at->message, pairs[2 * i]);
        if (name != NULL && find_parameter(tool, name) != NULL)
            continue;
        vw__append_format(fault, "%s has no argument '%.64s'; it has", tool->name,
                          name != NULL ? name : "?");
        for (size_t j = 0; j < tool->parameter_count; j++)
            vw__append_format(fault, "%s %s", j > 0 ? "," : "", tool->parameters[j].name);
        return false;
    }
    return true;
}

static bool take_arguments(const exchange *at, const vw_mcp_tool *tool, vw__value given,
                           arguments *taken, vw__byte_buffer *fault)
{
    taken->count = 0;
    if (vw__value_get_kind(given) == VW__VALUE_DICT && !has_only_known(at, tool, given, fault))
        return false;
    for (size_t i = 0; i < tool->parameter_count; i++) {
        const vw_mcp_parameter *parameter = &tool->parameters[i];
        const vw__value value = vw__mcp_message_member(at->message, given, parameter->name);
        const size_t before = taken->count;
        if (!take_argument(at, parameter, value, taken, fault))
            return false;
        if (parameter->is_required && taken->count == before) {
            vw__append_format(fault, "%s needs the argument '%s': %s", tool->name, parameter->name,
                              parameter->description);
            return false;
        }
    }
    return true;
}

static bool append_answer(void *context, const char *bytes, size_t size_bytes)
{
    vw__append_bytes(context, bytes, size_bytes);
    return !vw__byte_buffer_has_failed(context);
}

static void run_tool(exchange *at, const vw_mcp_tool *tool, vw__value given)
{
    arguments taken;
    vw__byte_buffer said;
    vw__byte_buffer_init(&said);
    const vw_output answer = {&said, append_answer};
    vw_mcp_outcome outcome =
        take_arguments(at, tool, given, &taken, &said) ? VW_MCP_DONE : VW_MCP_FAILED;
    if (outcome == VW_MCP_DONE) {
        const vw_mcp_request request = {at->message};
        const vw_mcp_call call = {tool, taken.items, taken.count, &request};
        outcome = at->server->call(at->server->context, &call, &answer);
    }
    at->is_cancelled = outcome == VW_MCP_CANCELLED;
    begin_result(at);
    vw__json_begin_array(&at->json, "content");
    vw__json_begin_object(&at->json, NULL);
    vw__json_text(&at->json, "type", "text");
    vw__json_bytes(&at->json, "text", vw__byte_buffer_text(&said), vw__byte_buffer_size(&said));
    vw__json_end_object(&at->json);
    vw__json_end_array(&at->json);
    vw__json_boolean(&at->json, "isError", outcome != VW_MCP_DONE);
    end_result(at);
    if (vw__byte_buffer_has_failed(&said))
        at->json.buffer->has_failed = true;
    vw__byte_buffer_deinit(&said);
}

static void answer_call(exchange *at)
{
    const vw__value params = at->message->params;
    const vw__value given = vw__mcp_message_member(at->message, params, "arguments");
    const vw__value_kind kind = vw__value_get_kind(given);
    const char *name =
        vw__mcp_message_text(at->message, vw__mcp_message_member(at->message, params, "name"));
    const vw_mcp_tool *tool = name != NULL ? find_tool(at, name) : NULL;
    char fault[128];
    if (name == NULL) {
        say_error(at, VW__MCP_INVALID_PARAMS, "tools/call: expected the name of a tool");
    } else if (tool == NULL) {
        snprintf(fault, sizeof fault, "Unknown tool: %.64s", name);
        say_error(at, VW__MCP_INVALID_PARAMS, fault);
    } else if (kind != VW__VALUE_NONE && kind != VW__VALUE_DICT) {
        say_error(at, VW__MCP_INVALID_PARAMS, "tools/call: expected arguments that are an object");
    } else {
        run_tool(at, tool, given);
    }
}

/* ---- a message ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*answer)(exchange *at);
} methods[] = {
    {"initialize", answer_initialize}, {"server/discover", answer_discover}, {"ping", answer_ping},
    {"tools/list", answer_list},       {"tools/call", answer_call},
};

static void refuse_revision(exchange *at, const char *asked)
{
    begin_error(at, VW__MCP_UNSUPPORTED_VERSION, "Unsupported protocol version");
    vw__json_begin_object(&at->json, "data");
    write_revisions(at, "supported");
    vw__json_bytes(&at->json, "requested", asked, strnlen(asked, VW__MCP_MOST_ECHOED_BYTES));
    vw__json_end_object(&at->json);
    end_result(at);
}

/* The revision that the request names: none, the one that does so, or one that we do not have. */
static bool find_era(exchange *at)
{
    const vw__value meta = vw__mcp_message_member(at->message, at->message->params, "_meta");
    const vw__value named = vw__mcp_message_member(at->message, meta, META_VERSION);
    const char *asked = vw__mcp_message_text(at->message, named);
    at->is_modern = vw__value_get_kind(named) != VW__VALUE_NONE;
    if (!at->is_modern)
        return true;
    if (asked == NULL)
        say_error(at, VW__MCP_INVALID_PARAMS, "expected a string as " META_VERSION);
    else if (strcmp(asked, MODERN_REVISION) != 0)
        refuse_revision(at, asked);
    else
        return true;
    return false;
}

static void answer_request(exchange *at)
{
    char fault[128];
    if (!find_era(at))
        return;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(methods[i].name, at->message->method) == 0) {
            methods[i].answer(at);
            return;
        }
    }
    snprintf(fault, sizeof fault, "Method not found: %.64s", at->message->method);
    say_error(at, VW__MCP_METHOD_NOT_FOUND, fault);
}

static vw_status send_line(vw__byte_buffer *line, const vw_output *output)
{
    vw__append_text(line, "\n");
    return vw__byte_buffer_send(line, output, "an answer");
}

static vw_status answer(const vw_mcp_server *server, const vw__mcp_message *message,
                        const vw_output *output)
{
    vw__byte_buffer line;
    exchange at = {.server = server, .message = message};
    if (message->kind == VW__MCP_MESSAGE_NOTIFICATION || message->kind == VW__MCP_MESSAGE_SILENT)
        return VW_OK;
    vw__byte_buffer_init(&line);
    vw__json_init(&at.json, &line);
    if (message->kind == VW__MCP_MESSAGE_WRONG)
        say_error(&at, message->fault_code, message->fault);
    else
        answer_request(&at);
    vw_status status = at.is_cancelled ? VW_OK : send_line(&line, output);
    vw__byte_buffer_deinit(&line);
    return status;
}

vw_status vw_mcp_answer(const vw_mcp_server *server, const char *message, size_t size_bytes,
                        const vw_output *output)
{
    vw_mcp_server known = {.name = ""};
    vw__mcp_message read;
    if (server == NULL || (message == NULL && size_bytes > 0) || output == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a server, a message and an output");
    VW__TRY(VW__STRUCT_IN(vw_mcp_server, server, &known));
    if (size_bytes > VW_MCP_MOST_MESSAGE_BYTES)
        return vw_mcp_refuse_long(output);
    VW__TRY(vw__mcp_message_read(message, size_bytes, &read));
    vw_status status = answer(&known, &read, output);
    vw__mcp_message_free(&read);
    return status;
}

vw_status vw_mcp_refuse_long(const vw_output *output)
{
    char fault[64];
    snprintf(fault, sizeof fault, "a message has %zu bytes at most", VW_MCP_MOST_MESSAGE_BYTES);
    const vw__mcp_message message = {.kind = VW__MCP_MESSAGE_WRONG,
                                     .id = vw__value_none(),
                                     .fault = fault,
                                     .fault_code = VW__MCP_INVALID_REQUEST};
    return answer(NULL, &message, output);
}

/* ---- while a call lasts ----------------------------------------------------------------------
 */

/* Both a string, or both an integer. */
static bool is_same(const vw__mcp_message *message, vw__value value, const vw__mcp_message *other,
                    vw__value other_value)
{
    const char *text = vw__mcp_message_text(message, value);
    const char *other_text = vw__mcp_message_text(other, other_value);
    uint64_t number, other_number;
    int64_t negative, other_negative;
    if (text != NULL || other_text != NULL)
        return text != NULL && other_text != NULL && strcmp(text, other_text) == 0;
    if (vw__value_get_u64(message->document, value, &number))
        return vw__value_get_u64(other->document, other_value, &other_number) &&
               number == other_number;
    return vw__value_get_i64(message->document, value, &negative) &&
           vw__value_get_i64(other->document, other_value, &other_negative) &&
           negative == other_negative;
}

vw_status vw_mcp_cancels(const vw_mcp_request *request, const char *message, size_t size_bytes,
                         bool *cancels)
{
    vw__mcp_message read;
    if (request == NULL || (message == NULL && size_bytes > 0) || cancels == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a request, a message and a result");
    VW__TRY(vw__mcp_message_read(message, size_bytes, &read));
    *cancels = read.kind == VW__MCP_MESSAGE_NOTIFICATION &&
               strcmp(read.method, "notifications/cancelled") == 0 &&
               is_same(&read, vw__mcp_message_member(&read, read.params, "requestId"),
                       request->message, request->message->id);
    vw__mcp_message_free(&read);
    return VW_OK;
}

vw_status vw_mcp_tell_progress(const vw_mcp_request *request, double progress, const char *words,
                               const vw_output *output)
{
    vw__byte_buffer line;
    vw__json json;
    if (request == NULL || output == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a request and an output");
    const vw__mcp_message *message = request->message;
    const vw__value meta = vw__mcp_message_member(message, message->params, "_meta");
    const vw__value token = vw__mcp_message_member(message, meta, "progressToken");
    if (!vw__mcp_message_can_echo(message, token))
        return VW_OK; /* it does not want to know */
    vw__byte_buffer_init(&line);
    vw__json_init(&json, &line);
    vw__json_begin_object(&json, NULL);
    vw__json_text(&json, "jsonrpc", "2.0");
    vw__json_text(&json, "method", "notifications/progress");
    vw__json_begin_object(&json, "params");
    write_given(&json, "progressToken", message, token);
    vw__json_double(&json, "progress", progress);
    if (words != NULL)
        vw__json_text(&json, "message", words);
    vw__json_end_object(&json);
    vw__json_end_object(&json);
    vw_status status = send_line(&line, output);
    vw__byte_buffer_deinit(&line);
    return status;
}
