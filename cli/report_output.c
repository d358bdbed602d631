/* report_output.c - puts the page of a report in its place. */
#include "report_output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/units.h"

#include "command.h"
#include "recording_command.h"
#include "safe_print.h"

bool report_output_is_standard(const char *page_name)
{
    return page_name != NULL && strcmp(page_name, "-") == 0;
}

int report_output_fail(const char *command_name, const char *name, const char *reason)
{
    fprintf(stderr, "vramwise %s: ", command_name);
    safe_print(stderr, name);
    fprintf(stderr, ": %s\n", reason);
    return EXIT_COULD_NOT;
}

int report_output_check(const char *command_name, const char *name, view_place place)
{
    switch (place) {
    case VIEW_PLACE_FOLDER:
        return report_output_fail(command_name, name, "expected a file, found a folder");
    case VIEW_PLACE_UNKNOWN:
        return report_output_fail(command_name, name, strerror(errno));
    case VIEW_PLACE_FILE:
    case VIEW_PLACE_RECORDING:
        return report_output_fail(command_name, name,
                                  "exists, and is not a page that vramwise wrote; choose another "
                                  "name with -o");
    case VIEW_PLACE_FREE:
    case VIEW_PLACE_PAGE:
    case VIEW_PLACE_STREAM:
        break;
    }
    return EXIT_DONE;
}

int report_output_put(const char *command_name, const view_file_content *content,
                      const report_output *where)
{
    char text[VW_SIZE_TEXT_BYTES];
    uint64_t size_bytes = 0;
    if (report_output_is_standard(where->name)) {
        vw_status status = content->write(content->made, &recording_command_output);
        return status == VW_OK ? EXIT_DONE
                               : recording_command_fail(command_name, where->source, status);
    }
    if (!view_file_put(content, where->name, where->place, true, &size_bytes))
        return report_output_fail(command_name, where->name, strerror(errno));
    if (!where->is_quiet) {
        safe_print(stdout, where->name);
        printf("  %s\n\n", vw_format_size(size_bytes, text));
    }
    return EXIT_DONE;
}
