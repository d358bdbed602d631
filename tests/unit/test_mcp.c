/* test_mcp.c - what messages of the Model Context Protocol are answered with. */
#include "vramwise/mcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vramwise/vramwise.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_capture.h"

/* ---- a server whose one tool repeats what it was called with ----------------------------------
 */

static const vw_mcp_parameter echo_parameters[] = {
    {"file", VW_MCP_TEXT, true, "What to look at."},
    {"top", VW_MCP_NUMBER, false, "How many."},
    {"all", VW_MCP_SWITCH, false, "All of it."},
};
static const vw_mcp_tool tools[] = {{"echo", "Echo", "Repeats.", echo_parameters, 3}};

static unsigned call_count;

/* What comes in while the tool runs on "late", and what it tells. */
static const char *came_meanwhile;
static char told[512];
static bool is_out_of_memory; /* when it looked */

static bool keep_told(void *context, const char *bytes, size_t size_bytes)
{
    (void)context;
    snprintf(told, sizeof told, "%.*s", (int)size_bytes, bytes);
    return true;
}

static vw_mcp_outcome see_what_came(const vw_mcp_call *call)
{
    const vw_output teller = {NULL, keep_told};
    bool cancels = false;
    told[0] = '\0';
    vw_status status = vw_mcp_tell_progress(call->request, 0.5, "reading: 50 %", &teller);
    assert_true((status == VW_OK) || told[0] == '\0');
    if (status == VW_OK)
        status = vw_mcp_cancels(call->request, came_meanwhile, strlen(came_meanwhile), &cancels);
    is_out_of_memory = status == VW_ERR_HOST_MEMORY;
    if (status != VW_OK)
        return VW_MCP_FAILED;
    return cancels ? VW_MCP_CANCELLED : VW_MCP_DONE;
}

static vw_mcp_outcome repeat(void *context, const vw_mcp_call *call, const vw_output *answer)
{
    (void)context;
    call_count++;
    for (size_t i = 0; i < call->argument_count; i++) {
        char text[256];
        int length = snprintf(text, sizeof text, "%s=%s;", call->arguments[i].parameter->name,
                              call->arguments[i].text);
        if (!answer->write(answer->context, text, (size_t)length))
            return VW_MCP_FAILED;
    }
    if (strcmp(call->arguments[0].text, "late") == 0)
        return see_what_came(call);
    return strcmp(call->arguments[0].text, "bad") != 0 ? VW_MCP_DONE : VW_MCP_FAILED;
}

static const vw_mcp_server server = {
    .struct_size = sizeof server,
    .name = "test",
    .version = "1",
    .instructions = "Read.",
    .tools = tools,
    .tool_count = 1,
    .call = repeat,
};

static report_capture capture;

/* The answer, without its line feed; "" for none. */
static const char *answer_to(const char *message)
{
    const vw_output output = report_capture_begin(&capture);
    assert_int_equal(vw_mcp_answer(&server, message, strlen(message), &output), VW_OK);
    if (capture.size_bytes > 0) {
        assert_int_equal(capture.text[capture.size_bytes - 1], '\n');
        capture.text[--capture.size_bytes] = '\0';
        assert_null(strchr(capture.text, '\n')); /* one line */
    }
    return capture.text;
}

static const char *error(int code, const char *id, const char *message)
{
    static char text[512];
    snprintf(text, sizeof text,
             "{\"jsonrpc\": \"2.0\", \"id\": %s, \"error\": {\"code\": %d, \"message\": \"%s\"}}",
             id, code, message);
    return text;
}

static const char *result(const char *id, const char *members)
{
    static char text[4096];
    snprintf(text, sizeof text, "{\"jsonrpc\": \"2.0\", \"id\": %s, \"result\": {%s}}", id,
             members);
    return text;
}

#define REQUEST(id, method, params)                                                                \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":" params "}"
#define CALL(arguments)                                                                            \
    REQUEST("1", "tools/call", "{\"name\":\"echo\",\"arguments\":" arguments "}")
#define MODERN                                                                                     \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

/* ---- how a client begins --------------------------------------------------------------------- */

#define BEGUN(version)                                                                             \
    "\"protocolVersion\": \"" version "\", \"capabilities\": {\"tools\": {}}, "                    \
    "\"serverInfo\": {\"name\": \"test\", \"version\": \"1\"}, \"instructions\": \"Read.\""

static void a_revision_that_both_have_is_agreed_on(void **state)
{
    (void)state;
    assert_string_equal(
        answer_to(REQUEST("1", "initialize", "{\"protocolVersion\":\"2024-11-05\"}")),
        result("1", BEGUN("2024-11-05")));
    assert_string_equal(
        answer_to(REQUEST("1", "initialize", "{\"protocolVersion\":\"2025-11-25\"}")),
        result("1", BEGUN("2025-11-25")));
}

static void another_revision_is_answered_with_the_newest_that_begins_so(void **state)
{
    (void)state;
    assert_string_equal(
        answer_to(REQUEST("1", "initialize", "{\"protocolVersion\":\"1999-01-01\"}")),
        result("1", BEGUN("2025-11-25")));
    assert_string_equal(
        answer_to(REQUEST("1", "initialize", "{\"protocolVersion\":\"2026-07-28\"}")),
        result("1", BEGUN("2025-11-25")));
    assert_string_equal(answer_to(REQUEST("1", "initialize", "{}")),
                        error(-32602, "1", "initialize: expected a protocolVersion"));
}

static void a_client_may_ask_what_there_is_without_beginning(void **state)
{
    (void)state;
    assert_string_equal(
        answer_to(REQUEST("\"d\"", "server/discover", "{" MODERN "}")),
        result(
            "\"d\"",
            "\"resultType\": \"complete\", \"supportedVersions\": [\"2026-07-28\", "
            "\"2025-11-25\", \"2025-06-18\", \"2024-11-05\"], \"capabilities\": {\"tools\": {}}, "
            "\"_meta\": {\"io.modelcontextprotocol/serverInfo\": {\"name\": \"test\", "
            "\"version\": \"1\"}}, \"instructions\": \"Read.\", \"ttlMs\": 3600000, "
            "\"cacheScope\": \"private\""));
    assert_non_null(strstr(answer_to(REQUEST("1", "server/discover", "{}")), "-32602"));
}

static void a_revision_in_a_request_that_we_lack_is_refused_with_those_we_have(void **state)
{
    (void)state;
    assert_string_equal(
        answer_to(
            REQUEST("1", "tools/list",
                    "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2099-01-01\"}}")),
        "{\"jsonrpc\": \"2.0\", \"id\": 1, \"error\": {\"code\": -32022, \"message\": "
        "\"Unsupported protocol version\", \"data\": {\"supported\": [\"2026-07-28\", "
        "\"2025-11-25\", \"2025-06-18\", \"2024-11-05\"], \"requested\": \"2099-01-01\"}}}");
    assert_non_null(
        strstr(answer_to(REQUEST("1", "tools/list",
                                 "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":7}}")),
               "-32602"));
}

static void ping_is_answered_with_an_empty_result(void **state)
{
    (void)state;
    assert_string_equal(answer_to("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"),
                        result("7", ""));
}

/* ---- tools ----------------------------------------------------------------------------------- */

#define LISTED                                                                                     \
    "\"tools\": [{\"name\": \"echo\", \"title\": \"Echo\", \"description\": \"Repeats.\", "        \
    "\"inputSchema\": {\"type\": \"object\", \"properties\": {\"file\": {\"type\": \"string\", "   \
    "\"description\": \"What to look at.\"}, \"top\": {\"type\": \"integer\", \"description\": "   \
    "\"How many.\", \"minimum\": 0}, \"all\": {\"type\": \"boolean\", \"description\": \"All of "  \
    "it.\"}}, \"required\": [\"file\"], \"additionalProperties\": false}, \"annotations\": "       \
    "{\"readOnlyHint\": true, \"openWorldHint\": false}}]"

static void the_list_has_each_tool_with_its_schema(void **state)
{
    (void)state;
    assert_string_equal(answer_to(REQUEST("1", "tools/list", "{}")), result("1", LISTED));
    assert_string_equal(answer_to(REQUEST("1", "tools/list", "{" MODERN "}")),
                        result("1", "\"resultType\": \"complete\", " LISTED
                                    ", \"ttlMs\": 3600000, \"cacheScope\": \"private\""));
    assert_string_equal(answer_to(REQUEST("1", "tools/list", "{\"cursor\":\"x\"}")),
                        error(-32602, "1", "tools/list: there is no further page"));
}

#define SAID(text, is_error)                                                                       \
    result("1",                                                                                    \
           "\"content\": [{\"type\": \"text\", \"text\": \"" text "\"}], \"isError\": " is_error)

static void a_call_gets_what_was_given_and_answers_with_what_was_said(void **state)
{
    (void)state;
    assert_string_equal(answer_to(CALL("{\"file\":\"a b\"}")), SAID("file=a b;", "false"));
    assert_string_equal(answer_to(CALL("{\"all\":true,\"top\":12,\"file\":\"x\"}")),
                        SAID("file=x;top=12;all=true;", "false"));
    assert_string_equal(answer_to(CALL("{\"all\":false,\"top\":null,\"file\":\"x\"}")),
                        SAID("file=x;", "false"));
    assert_string_equal(answer_to(CALL("{\"file\":\"bad\"}")), SAID("file=bad;", "true"));
}

static void wrong_arguments_are_a_result_that_the_assistant_can_read(void **state)
{
    (void)state;
    call_count = 0;
    assert_string_equal(answer_to(CALL("{}")),
                        SAID("echo needs the argument 'file': What to look at.", "true"));
    assert_string_equal(answer_to(CALL("{\"file\":1}")), SAID("file: expected a string", "true"));
    assert_string_equal(answer_to(CALL("{\"file\":\"x\",\"top\":-1}")),
                        SAID("top: expected an integer from 0 on", "true"));
    assert_string_equal(answer_to(CALL("{\"file\":\"x\",\"top\":1.5}")),
                        SAID("top: expected an integer from 0 on", "true"));
    assert_string_equal(answer_to(CALL("{\"file\":\"x\",\"all\":\"yes\"}")),
                        SAID("all: expected a boolean", "true"));
    assert_string_equal(answer_to(CALL("{\"file\":\"x\",\"card\":\"y\"}")),
                        SAID("echo has no argument 'card'; it has file, top, all", "true"));
    /* a zero would end the path that a file is opened by */
    assert_string_equal(answer_to(CALL("{\"file\":\"x\\u0000y\"}")),
                        SAID("file: expected a string", "true"));
    assert_int_equal(call_count, 0);
}

static void an_unknown_tool_is_an_error_of_the_protocol(void **state)
{
    (void)state;
    assert_string_equal(answer_to(REQUEST("1", "tools/call", "{\"name\":\"rm\"}")),
                        error(-32602, "1", "Unknown tool: rm"));
    assert_string_equal(answer_to(REQUEST("1", "tools/call", "{}")),
                        error(-32602, "1", "tools/call: expected the name of a tool"));
    assert_string_equal(
        answer_to(REQUEST("1", "tools/call", "{\"name\":\"echo\",\"arguments\":[]}")),
        error(-32602, "1", "tools/call: expected arguments that are an object"));
}

/* ---- what is no request -----------------------------------------------------------------------
 */

#define LATE(id, meta)                                                                             \
    REQUEST(id, "tools/call", "{" meta "\"name\":\"echo\",\"arguments\":{\"file\":\"late\"}}")
#define CANCEL(id)                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}"

static void a_call_that_its_client_cancels_is_not_answered(void **state)
{
    (void)state;
    came_meanwhile = CANCEL("7");
    assert_string_equal(answer_to(LATE("7", "")), "");
    came_meanwhile = CANCEL("\"seven\"");
    assert_string_equal(answer_to(LATE("\"seven\"", "")), "");
    came_meanwhile = CANCEL("-7");
    assert_string_equal(answer_to(LATE("-7", "")), "");
    assert_string_equal(answer_to(CANCEL("7")), ""); /* too late, or never heard of */
}

static void what_cancels_another_call_or_none_changes_nothing(void **state)
{
    static const char *const others[] = {
        CANCEL("8"),
        CANCEL("\"7\""),
        CANCEL("7.0"),
        CANCEL("null"),
        CANCEL("[7]"),
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":7}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/other\",\"params\":{\"requestId\":7}}",
        REQUEST("1", "notifications/cancelled", "{\"requestId\":7}"),
        "{\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}",
        "nonsense",
        "",
    };
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        came_meanwhile = others[i];
        assert_non_null(strstr(answer_to(LATE("7", "")), "\"isError\": false"));
    }
}

static void progress_is_told_to_who_asked_for_it(void **state)
{
    (void)state;
    came_meanwhile = "";
    (void)answer_to(LATE("1", "\"_meta\":{\"progressToken\":\"t\"},"));
    assert_string_equal(told, "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/progress\", "
                              "\"params\": {\"progressToken\": \"t\", \"progress\": 0.5, "
                              "\"message\": \"reading: 50 %\"}}\n");
    (void)answer_to(LATE("1", "\"_meta\":{\"progressToken\":-3},"));
    assert_non_null(strstr(told, "\"progressToken\": -3,"));
    (void)answer_to(LATE("1", "\"_meta\":{\"progressToken\":[1]},"));
    assert_string_equal(told, "");
    (void)answer_to(LATE("1", "\"_meta\":{},"));
    assert_string_equal(told, "");
    (void)answer_to(LATE("1", ""));
    assert_string_equal(told, "");
}

static void notifications_and_answers_are_not_answered(void **state)
{
    (void)state;
    call_count = 0;
    assert_string_equal(answer_to("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
                        "");
    assert_string_equal(
        answer_to("{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":"
                  "\"echo\",\"arguments\":{\"file\":\"x\"}}}"),
        "");
    assert_string_equal(answer_to("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"), "");
    assert_string_equal(answer_to("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}"), "");
    assert_int_equal(call_count, 0);
}

static void what_is_no_message_gets_the_error_that_json_rpc_has(void **state)
{
    (void)state;
    assert_non_null(
        strstr(answer_to("{\"jsonrpc\":"), "\"id\": null, \"error\": {\"code\": -32700"));
    assert_non_null(strstr(answer_to(""), "-32700"));
    assert_string_equal(answer_to("[]"),
                        error(-32600, "null", "expected an object, one message per line"));
    assert_string_equal(answer_to("{\"id\":3,\"method\":\"ping\"}"),
                        error(-32600, "3", "expected \\\"jsonrpc\\\": \\\"2.0\\\""));
    assert_string_equal(answer_to("{\"jsonrpc\":\"2.0\",\"id\":\"x\"}"),
                        error(-32600, "\"x\"", "expected a method, as a string"));
    assert_string_equal(answer_to("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}"),
                        error(-32600, "null", "expected an id that is a string or an integer"));
    assert_string_equal(answer_to("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}"),
                        error(-32600, "null", "expected an id that is a string or an integer"));
    assert_string_equal(
        answer_to("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}"),
        error(-32602, "1", "expected params that are an object"));
    assert_string_equal(answer_to(REQUEST("1", "resources/list", "{}")),
                        error(-32601, "1", "Method not found: resources/list"));
}

static void an_id_comes_back_as_it_was(void **state)
{
    (void)state;
    assert_string_equal(answer_to(REQUEST("-5", "ping", "{}")), result("-5", ""));
    assert_string_equal(answer_to(REQUEST("18446744073709551615", "ping", "{}")),
                        result("18446744073709551615", ""));
    assert_string_equal(answer_to(REQUEST("\"\\u00e4\\n\"", "ping", "{}")),
                        result("\"\xC3\xA4\\n\"", ""));
}

static void limits_hold(void **state)
{
    (void)state;
    const vw_output output = report_capture_begin(&capture);
    char *long_message = malloc(VW_MCP_MOST_MESSAGE_BYTES + 1);
    assert_non_null(long_message);
    memset(long_message, ' ', VW_MCP_MOST_MESSAGE_BYTES + 1);
    assert_int_equal(vw_mcp_answer(&server, long_message, VW_MCP_MOST_MESSAGE_BYTES + 1, &output),
                     VW_OK);
    assert_non_null(strstr(capture.text, "a message has 1048576 bytes at most"));
    memset(long_message, '[', 100);
    memset(long_message + 100, ']', 100);
    long_message[200] = '\0';
    assert_non_null(strstr(answer_to(long_message), "\"code\": -32600")); /* too deep */
    free(long_message);
}

#define X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X256 X64 X64 X64 X64

static void an_id_that_is_too_long_to_repeat_is_refused(void **state)
{
    (void)state;
    assert_string_equal(answer_to(REQUEST("\"" X256 "\"", "ping", "{}")),
                        result("\"" X256 "\"", ""));
    call_count = 0;
    assert_string_equal(answer_to(REQUEST("\"" X256 "x\"", "tools/call",
                                          "{\"name\":\"echo\",\"arguments\":{\"file\":\"x\"}}")),
                        error(-32600, "null", "expected an id of at most 256 bytes"));
    assert_int_equal(call_count, 0);
}

/* A ping whose id is that many bytes which are not UTF-8. */
static const char *answer_to_invalid_id(int byte_count)
{
    static char request[512];
    char id[256];
    memset(id, '\xFF', sizeof id);
    snprintf(request, sizeof request, REQUEST("\"%.*s\"", "ping", "{}"), byte_count, id);
    return answer_to(request);
}

static void a_byte_of_an_id_that_is_not_utf_8_counts_as_the_three_that_replace_it(void **state)
{
    char repeated[3 * 85 + 3] = "\"";
    (void)state;
    for (int i = 0; i < 85; i++)
        strcat(repeated, "\xEF\xBF\xBD");
    assert_string_equal(answer_to_invalid_id(85), result(strcat(repeated, "\""), ""));
    assert_string_equal(answer_to_invalid_id(86),
                        error(-32600, "null", "expected an id of at most 256 bytes"));
}

static void texts_that_are_too_long_to_repeat_are_not(void **state)
{
    (void)state;
    came_meanwhile = "";
    (void)answer_to(LATE("1", "\"_meta\":{\"progressToken\":\"" X256 "x\"},"));
    assert_string_equal(told, "");
    assert_non_null(
        strstr(answer_to(REQUEST("1", "tools/list",
                                 "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" X256
                                 "y\"}}")),
               "\"requested\": \"" X256 "\"}"));
}

static void a_caller_that_gives_nothing_is_refused(void **state)
{
    (void)state;
    const vw_output output = report_capture_begin(&capture);
    vw_mcp_server none = server;
    none.struct_size = 0;
    assert_int_equal(vw_mcp_answer(NULL, "", 0, &output), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_mcp_answer(&server, "", 0, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_mcp_answer(&none, "", 0, &output), VW_ERR_INVALID_ARGUMENT);
    bool cancels = true;
    assert_int_equal(vw_mcp_cancels(NULL, "", 0, &cancels), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_mcp_tell_progress(NULL, 0, NULL, &output), VW_ERR_INVALID_ARGUMENT);
    assert_true(cancels);
    assert_int_equal(capture.size_bytes, 0);
}

/* ---- out of host memory -----------------------------------------------------------------------
 */

static bool answers(void *context)
{
    const vw_output output = report_capture_begin(&capture);
    is_out_of_memory = false;
    vw_status status = vw_mcp_answer(&server, context, strlen(context), &output);
    assert_true(status == VW_OK || status == VW_ERR_HOST_MEMORY);
    assert_true((status == VW_OK) == (capture.size_bytes > 0)); /* all of it or nothing */
    return status == VW_OK && !is_out_of_memory;
}

static void no_lack_of_memory_loses_any(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(answers, (void *)(uintptr_t)CALL("{\"file\":\"x\",\"top\":3}"));
    vw_test_sweep_host_memory(answers, (void *)(uintptr_t)REQUEST("1", "tools/list", "{}"));
    vw_test_sweep_host_memory(answers, (void *)(uintptr_t) "{\"jsonrpc\":");
    came_meanwhile = CANCEL("2");
    vw_test_sweep_host_memory(answers,
                              (void *)(uintptr_t)LATE("1", "\"_meta\":{\"progressToken\":\"t\"},"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_revision_that_both_have_is_agreed_on),
        cmocka_unit_test(another_revision_is_answered_with_the_newest_that_begins_so),
        cmocka_unit_test(a_client_may_ask_what_there_is_without_beginning),
        cmocka_unit_test(a_revision_in_a_request_that_we_lack_is_refused_with_those_we_have),
        cmocka_unit_test(ping_is_answered_with_an_empty_result),
        cmocka_unit_test(the_list_has_each_tool_with_its_schema),
        cmocka_unit_test(a_call_gets_what_was_given_and_answers_with_what_was_said),
        cmocka_unit_test(wrong_arguments_are_a_result_that_the_assistant_can_read),
        cmocka_unit_test(an_unknown_tool_is_an_error_of_the_protocol),
        cmocka_unit_test(a_call_that_its_client_cancels_is_not_answered),
        cmocka_unit_test(what_cancels_another_call_or_none_changes_nothing),
        cmocka_unit_test(progress_is_told_to_who_asked_for_it),
        cmocka_unit_test(notifications_and_answers_are_not_answered),
        cmocka_unit_test(what_is_no_message_gets_the_error_that_json_rpc_has),
        cmocka_unit_test(an_id_comes_back_as_it_was),
        cmocka_unit_test(an_id_that_is_too_long_to_repeat_is_refused),
        cmocka_unit_test(a_byte_of_an_id_that_is_not_utf_8_counts_as_the_three_that_replace_it),
        cmocka_unit_test(texts_that_are_too_long_to_repeat_are_not),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(a_caller_that_gives_nothing_is_refused),
        cmocka_unit_test(no_lack_of_memory_loses_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
