/* fuzz_mcp.c - any bytes as a message of the Model Context Protocol.
 *
 * The answer is nothing, or one line that is JSON again and names the protocol; a tool is called
 * only with arguments that it has, of their kinds, those required among them. */
#include <stdlib.h>
#include <string.h>

#include "vramwise/mcp.h"
#include "base/byte_buffer.h"
#include "base/host_memory.h"
#include "parse/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

static const vw_mcp_parameter parameters[] = {
    {"file", VW_MCP_TEXT, true, "a file"},
    {"top", VW_MCP_NUMBER, false, "a number"},
    {"all", VW_MCP_SWITCH, false, "a switch"},
};
static const vw_mcp_tool tools[] = {{"stats", "Stats", "what there is", parameters, 3}};

/* The message itself comes once more while its tool runs; half of it as well. */
static const char *message;
static size_t message_bytes;

static bool refuse(void *context, const char *bytes, size_t size_bytes)
{
    (void)context;
    must(size_bytes > 1 && bytes[size_bytes - 1] == '\n');
    return false;
}

static bool look_meanwhile(const vw_mcp_call *call)
{
    const vw_output refusing = {NULL, refuse};
    bool cancels = true;
    vw_status status = vw_mcp_tell_progress(call->request, 0.25, NULL, &refusing);
    must(status == VW_OK || status == VW_ERR_FILE);
    must(vw_mcp_cancels(call->request, message, message_bytes, &cancels) == VW_OK);
    must(!cancels); /* it is a request */
    must(vw_mcp_cancels(call->request, message, message_bytes / 2, &cancels) == VW_OK);
    return cancels;
}

static vw_mcp_outcome call_tool(void *context, const vw_mcp_call *call, const vw_output *answer)
{
    bool has_file = false;
    (void)context;
    must(call->tool == tools && call->argument_count <= 3);
    for (size_t i = 0; i < call->argument_count; i++) {
        const vw_mcp_argument *given = &call->arguments[i];
        has_file |= given->parameter == &parameters[0];
        must(given->parameter != &parameters[1] ||
             (given->text[0] != '\0' && strspn(given->text, "0123456789") == strlen(given->text)));
        must(given->parameter != &parameters[2] || strcmp(given->text, "true") == 0);
        if (!answer->write(answer->context, given->text, strlen(given->text)))
            return VW_MCP_FAILED;
    }
    must(has_file);
    return look_meanwhile(call)       ? VW_MCP_CANCELLED
           : call->argument_count > 1 ? VW_MCP_DONE
                                      : VW_MCP_FAILED;
}

static bool keep(void *context, const char *bytes, size_t size_bytes)
{
    vw__append_bytes(context, bytes, size_bytes);
    return true;
}

static void check_answer(const vw__byte_buffer *answer)
{
    static const char begin[] = "{\"jsonrpc\": \"2.0\", \"id\": ";
    const char *text = vw__byte_buffer_text(answer);
    vw__byte_source *source;
    vw__document *document;
    vw__value root;
    if (answer->size_bytes == 0)
        return;
    must(strncmp(text, begin, sizeof begin - 1) == 0);
    must(strchr(text, '\n') == text + answer->size_bytes - 1);
    must(vw__byte_source_open_memory(text, answer->size_bytes, NULL, &source) == VW_OK);
    must(vw__document_create(NULL, NULL, &document) == VW_OK);
    must(vw__document_read_json(source, document, &root) == VW_OK);
    vw__document_destroy(document);
    vw__byte_source_close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const vw_mcp_server server = {.struct_size = sizeof server,
                                         .name = "vramwise",
                                         .version = "1",
                                         .tools = tools,
                                         .tool_count = 1,
                                         .call = call_tool};
    const uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    vw__byte_buffer answer;
    vw__byte_buffer_init(&answer);
    const vw_output output = {&answer, keep};
    message = (const char *)data;
    message_bytes = size;
    must(vw_mcp_answer(&server, (const char *)data, size, &output) == VW_OK);
    check_answer(&answer);
    vw__byte_buffer_deinit(&answer);
    must(vw__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
