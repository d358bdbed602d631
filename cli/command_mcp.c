/* command_mcp.c - `vramwise mcp DIR...`: the commands that only read, for assistants, by the Model
 * Context Protocol: one message per line on standard input, one answer per line on standard output.
 */
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "vramwise/mcp.h"
#include "vramwise/version.h"

#include "arguments.h"
#include "command.h"
#include "mcp_files.h"
#include "mcp_input.h"
#include "mcp_tools.h"
#include "recording_command.h" /* recording_command_output */

enum { USUAL_SECONDS = 120, INSTRUCTIONS_BYTES = 4096 };

static bool is_blank(const char *line, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

/* false: whoever listened is gone, or memory is. */
static bool answer_line(const vw_mcp_server *server, const char *line, size_t size_bytes)
{
    if (is_blank(line, size_bytes))
        return true;
    return vw_mcp_answer(server, line, size_bytes, &recording_command_output) == VW_OK &&
           fflush(stdout) == 0;
}

static bool refuse_long(void)
{
    return vw_mcp_refuse_long(&recording_command_output) == VW_OK && fflush(stdout) == 0;
}

static int serve(const vw_mcp_server *server, mcp_input *input)
{
    const char *line;
    size_t size_bytes;
    for (;;) {
        const mcp_input_next_is next = mcp_input_next(input, &line, &size_bytes);
        if (next == MCP_INPUT_END)
            return EXIT_DONE;
        if (!(next == MCP_INPUT_LINE ? answer_line(server, line, size_bytes) : refuse_long()))
            return EXIT_COULD_NOT;
    }
}

/* For the assistant: what this is for, and where it may look. */
static void write_instructions(const mcp_folders *folders, char text[INSTRUCTIONS_BYTES])
{
    int used = snprintf(text, INSTRUCTIONS_BYTES,
                        "GPU memory of PyTorch programs. For an out-of-memory error call doctor "
                        "first, with its text or a file. Numbers marked replayed, measured or "
                        "computed can be relied on; rule is a rule of thumb. Files are read, never "
                        "written, in:");
    for (size_t i = 0; i < folders->count && used > 0 && used < INSTRUCTIONS_BYTES; i++)
        used += snprintf(text + used, (size_t)(INSTRUCTIONS_BYTES - used), "%s %s",
                         i > 0 ? "," : "", folders->paths[i]);
}

static int run(const char *command_name, mcp_tools *tools)
{
    char instructions[INSTRUCTIONS_BYTES];
    const vw_mcp_server server = {
        .struct_size = sizeof server,
        .name = "vramwise",
        .version = vw_version_string(),
        .instructions = instructions,
        .tools = mcp_tools_list,
        .tool_count = mcp_tools_count,
        .context = tools,
        .call = mcp_tools_call,
    };
    if (!mcp_input_open(&tools->input)) {
        fprintf(stderr, "vramwise %s: out of host memory\n", command_name);
        return EXIT_COULD_NOT;
    }
    write_instructions(&tools->folders, instructions);
    if (isatty(STDIN_FILENO) == 1)
        fputs("This is for an assistant: it starts this command, and sends messages on standard "
              "input.\nEnd with Ctrl-D.\n",
              stderr);
    int exit_status = serve(&server, &tools->input);
    mcp_input_close(&tools->input);
    return exit_status;
}

int command_mcp(int argc, char **argv)
{
    mcp_tools tools = {.most_ms = arguments_limit_ms("VRAMWISE_MCP_TIMEOUT", USUAL_SECONDS)};
    char fault[MCP_FAULT_BYTES];
    int first_operand = 0, exit_status = EXIT_DONE;
    if (!arguments_parse(NULL, 0, argc, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    if (first_operand == argc)
        return arguments_refuse(argv[0], "expected the folders that files may be read from");
    for (int i = first_operand; i < argc && exit_status == EXIT_DONE; i++)
        if (!mcp_files_allow(&tools.folders, argv[i], fault))
            exit_status = arguments_refuse(argv[0], "%s", fault);
    if (exit_status == EXIT_DONE)
        exit_status = run(argv[0], &tools);
    mcp_files_free(&tools.folders);
    return exit_status;
}
