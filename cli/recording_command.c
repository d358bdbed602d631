/* recording_command.c - the way from a path to a recording, and from a failure to its words. */
#include "recording_command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/plan.h"
#include "vramwise/units.h"

#include "arguments.h"
#include "command.h"
#include "memory_guard.h"
#include "progress.h"
#include "safe_print.h"
#include "terminal.h"

#define USUAL_ROWS 10

int recording_command_open(const char *command_name, const char *path, vw_recording **out)
{
    progress line;
    if (path[0] == '\0') /* as an unset variable in a script leaves it */
        return arguments_refuse(command_name, "the name of the file is empty");
    progress_begin(&line, "reading");
    const vw_open_options options = {
        .struct_size = sizeof options,
        .progress = progress_show,
        .progress_context = &line,
    };
    vw_status status = vw_recording_open(path, &options, out);
    progress_end(&line);
    return status == VW_OK ? EXIT_DONE : recording_command_fail(command_name, path, status);
}

const char *recording_command_name(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0 ? "standard input" : path;
}

int recording_command_open_pair(const char *command_name, const char *path, const char *other_path,
                                vw_recording **out, vw_recording **other)
{
    *other = NULL;
    if (other_path != NULL && strcmp(path, "-") == 0 && strcmp(other_path, "-") == 0)
        return arguments_refuse(command_name, "standard input can be one of the files, not both");
    int exit_status = recording_command_open(command_name, path, out);
    if (exit_status != EXIT_DONE || other_path == NULL)
        return exit_status;
    exit_status = recording_command_open(command_name, other_path, other);
    if (exit_status != EXIT_DONE) {
        vw_recording_close(*out);
        *out = *other = NULL;
    }
    return exit_status;
}

/* The system's own words for a file that cannot be opened name it already. */
static bool begins_with_path(const char *detail, const char *path)
{
    size_t length = strlen(path);
    return strncmp(detail, path, length) == 0 && detail[length] == ':';
}

int recording_command_fail(const char *command_name, const char *path, vw_status status)
{
    const char *detail = vw_last_error();
    if (detail[0] == '\0')
        detail = vw_status_message(status);
    if (status == VW_ERR_BAD_SETTING || status == VW_ERR_INVALID_ARGUMENT)
        return arguments_refuse(command_name, "%s", detail);
    if (status == VW_ERR_FILE && ferror(stdout) != 0)
        return EXIT_COULD_NOT; /* main() says so, of every command */
    fprintf(stderr, "vramwise %s: ", command_name);
    if (path != NULL && !begins_with_path(detail, recording_command_name(path))) {
        safe_print(stderr, recording_command_name(path));
        fputs(": ", stderr);
    }
    safe_print(stderr, detail);
    char most[VW_SIZE_TEXT_BYTES];
    if (status == VW_ERR_HOST_MEMORY && memory_guard_bytes() != 0)
        fprintf(stderr, ". A command may take %s in all; --max-memory allows more",
                vw_format_size(memory_guard_bytes(), most));
    fputc('\n', stderr);
    return EXIT_COULD_NOT;
}

static bool is_csv_chosen; /* by --csv */

void recording_command_choose_csv(void)
{
    is_csv_chosen = true;
}

bool recording_command_is_csv(void)
{
    return is_csv_chosen;
}

vw_report_form recording_command_form(const char *path, bool is_json)
{
    const terminal output = terminal_look();
    return (vw_report_form){
        .struct_size = sizeof(vw_report_form),
        .is_json = is_json,
        .has_colour = output.has_colour,
        .has_utf8 = output.has_utf8,
        .width_columns = output.width_columns,
        .file = recording_command_name(path),
        .is_csv = is_csv_chosen,
    };
}

static bool write_to_standard_output(void *context, const char *bytes, size_t size_bytes)
{
    (void)context;
    if (fwrite(bytes, 1, size_bytes, stdout) == size_bytes)
        return true;
    if (errno != EPIPE)
        return false;
    clearerr(stdout); /* a reader that went away (`| head`) has what it wanted */
    return true;
}

const vw_output recording_command_output = {NULL, write_to_standard_output};

bool recording_command_read_size(const char *command_name, const char *option, const char *text,
                                 uint64_t *size_bytes)
{
    if (vw_parse_memory_size(text, size_bytes) == VW_OK)
        return true;
    arguments_refuse(command_name, "--%s: %s", option, vw_last_error());
    return false;
}

bool recording_command_read_card(const char *command_name, const char *text, uint64_t *size_bytes,
                                 const char **name)
{
    const vw_plan_card_info *card;
    if (text == NULL)
        return true;
    if (vw_plan_card_read(text, size_bytes, &card) != VW_OK) {
        arguments_refuse(command_name, "--card: %s", vw_last_error());
        return false;
    }
    if (name != NULL && card != NULL)
        *name = card->name;
    return true;
}

bool recording_command_read_device(const char *command_name, const char *text, int *device)
{
    uint64_t number;
    *device = VW_BUSIEST_DEVICE;
    if (text == NULL)
        return true;
    if (!arguments_read_number(text, &number) || number > INT_MAX) {
        arguments_refuse(command_name, "--device: expected a number such as 0, not '%s'", text);
        return false;
    }
    *device = (int)number;
    return true;
}

bool recording_command_read_top(const char *command_name, const char *text, size_t *most_rows)
{
    uint64_t number = USUAL_ROWS;
    if (text != NULL && !arguments_read_number(text, &number)) {
        arguments_refuse(command_name, "--top: expected a number, 0 being all, not '%s'", text);
        return false;
    }
    *most_rows = number == 0 || number > SIZE_MAX ? SIZE_MAX : (size_t)number;
    return true;
}
