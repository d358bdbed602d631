/* run_python.c - reads a command line as Python would, as far as its own options go. */
#include "run_python.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_COMMAND_LINE_BYTES = 4096, /* the interpreter's options stand at its beginning */
    MOST_ARGUMENTS = 64,
};

bool run_python_is_python(const char *program)
{
    static const char *const names[] = {"python", "pypy"};
    const char *slash = strrchr(program, '/');
    const char *name = slash != NULL ? slash + 1 : program;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(name, names[i], length) != 0)
            continue;
        name += length;
        while (isdigit((unsigned char)*name) || *name == '.')
            name++;
        return *name == '\0' || strcmp(name, "t") == 0 || strcmp(name, "d") == 0;
    }
    return false;
}

/* One argument that begins with a dash: several letters may stand together. Answers the letter that
 * closes the door, or 0; `*is_over` once what follows is the program's, `*takes_next` where the
 * next argument belongs to the last letter. */
static char read_letters(const char *letters, bool *is_over, bool *takes_next)
{
    for (; *letters != '\0'; letters++) {
        if (strchr("IES", *letters) != NULL)
            return *letters;
        if (strchr("cm", *letters) != NULL) {
            *is_over = true;
            return 0;
        }
        if (strchr("WXQ", *letters) != NULL) { /* the rest is its value, or the next argument */
            *takes_next = letters[1] == '\0';
            return 0;
        }
    }
    return 0;
}

char run_python_closed_by(size_t argument_count, const char *const *arguments)
{
    if (argument_count == 0 || !run_python_is_python(arguments[0]))
        return 0;
    for (size_t i = 1; i < argument_count; i++) {
        const char *argument = arguments[i];
        bool is_over = false, takes_next = false;
        if (argument[0] != '-' || argument[1] == '\0')
            return 0; /* the script; or standard input */
        if (argument[1] == '-') {
            if (strcmp(argument, "--check-hash-based-pycs") == 0)
                i++;
            continue;
        }
        char letter = read_letters(argument + 1, &is_over, &takes_next);
        if (letter != 0 || is_over)
            return letter;
        if (takes_next)
            i++;
    }
    return 0;
}

char run_python_process_closed_by(pid_t process, bool *is_python)
{
    char path[64], bytes[MOST_COMMAND_LINE_BYTES + 1];
    const char *arguments[MOST_ARGUMENTS];
    size_t argument_count = 0;

    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t length = read(file, bytes, MOST_COMMAND_LINE_BYTES);
    close(file);
    if (length <= 0)
        return 0;
    bytes[length] = '\0';
    for (char *at = bytes; at < bytes + length && argument_count < MOST_ARGUMENTS;
         at += strlen(at) + 1)
        arguments[argument_count++] = at;
    *is_python = run_python_is_python(arguments[0]);
    return run_python_closed_by(argument_count, arguments);
}
