/* common_options.c - see common_options.h. */
#include "common_options.h"

#include <stdint.h>
#include <string.h>

#include "vramwise/analysis.h" /* vw_reading_limit_set */

#include "arguments.h"
#include "recording_command.h" /* recording_command_read_size */
#include "terminal.h"

bool common_options_color(const char *command_name, const char *text)
{
    static const char *const names[] = {
        [TERMINAL_COLOUR_AUTO] = "auto",
        [TERMINAL_COLOUR_ALWAYS] = "always",
        [TERMINAL_COLOUR_NEVER] = "never",
    };
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], text) == 0) {
            terminal_choose_colour((terminal_colour)i);
            return true;
        }
    }
    arguments_refuse(command_name, "--color: expected auto, always or never, not '%s'", text);
    return false;
}

static bool limit_memory(const char *command_name, const char *text)
{
    uint64_t limit_bytes;
    if (!recording_command_read_size(command_name, "max-memory", text, &limit_bytes))
        return false;
    vw_reading_limit_set(limit_bytes);
    return true;
}

static bool choose_csv(const char *command_name, const char *text)
{
    (void)command_name;
    (void)text;
    recording_command_choose_csv();
    return true;
}

typedef struct common_option {
    const char *name;
    bool (*action)(const char *command_name, const char *text);
    bool has_value;
    bool is_for_files, is_for_tables;
} common_option;

static const common_option options[] = {
    {"--color", common_options_color, true, false, false},
    {"--csv", choose_csv, false, false, true},
    {"--max-memory", limit_memory, true, true, false},
};

/* The option that `word` is, and in `*value` what stands behind its "="; NULL: none of ours. */
static const common_option *find_option(const char *word, const command *taker, const char **value)
{
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const common_option *option = &options[i];
        const size_t length = strlen(option->name);
        if (strncmp(word, option->name, length) != 0 ||
            (word[length] != '\0' && (word[length] != '=' || !option->has_value)) ||
            (option->is_for_files && !taker->reads_files) ||
            (option->is_for_tables && !taker->has_table))
            continue;
        *value = word[length] == '=' ? word + length + 1 : NULL;
        return option;
    }
    return NULL;
}

static bool are_forms_sound(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (recording_command_is_csv() && strcmp(argv[i], "--json") == 0) {
            arguments_refuse(argv[0], "expected --json or --csv, not both");
            return false;
        }
    }
    return true;
}

bool common_options_take(int *argc, char **argv, const command *taker)
{
    int kept = 1, i = 1;
    for (; i < *argc && strcmp(argv[i], "--") != 0; i++) {
        const char *value;
        const common_option *option = find_option(argv[i], taker, &value);
        if (option == NULL) {
            argv[kept++] = argv[i];
            continue;
        }
        if (option->has_value && value == NULL && i + 1 == *argc) {
            arguments_refuse(argv[0], "option '%s' needs a value", argv[i]);
            return false;
        }
        if (option->has_value && value == NULL)
            value = argv[++i];
        if (!option->action(argv[0], value))
            return false;
    }
    while (i < *argc)
        argv[kept++] = argv[i++];
    argv[kept] = NULL;
    *argc = kept;
    return are_forms_sound(*argc, argv);
}
