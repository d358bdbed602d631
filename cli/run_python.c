/* run_python.c - reads a command line as Python would, as far as its own options go; before that,
 * as the kernel and `env` would. */
#include "run_python.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h> /* PATH_MAX */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MOST_COMMAND_LINE_BYTES = 4096, /* the interpreter's options stand at its beginning */
    MOST_WORDS = 64,
    MOST_LAYERS = 8,        /* scripts whose interpreter is a script; the kernel ends at five */
    FIRST_LINE_BYTES = 256, /* of a script, with its end; the kernel reads no more */
};

/* ---- Python's own options -------------------------------------------------------------------- */

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

/* What an argument with options comes to. */
typedef struct option_word {
    char closed_by;
    bool only_tells; /* its version, its options: no program will run */
    bool is_last;    /* what follows is the program's */
    bool takes_next; /* the next argument belongs to the last letter */
} option_word;

/* One argument that begins with a dash: several letters may stand together. */
static option_word read_letters(const char *letters)
{
    option_word read = {0};
    for (; *letters != '\0'; letters++) {
        if (strchr("IES", *letters) != NULL && read.closed_by == 0)
            read.closed_by = *letters;
        if (strchr("Vh?", *letters) != NULL)
            read.only_tells = true;
        if (strchr("cm", *letters) != NULL) {
            read.is_last = true;
            break;
        }
        if (strchr("WXQ", *letters) != NULL) { /* the rest is its value, or the next argument */
            read.takes_next = letters[1] == '\0';
            break;
        }
    }
    return read;
}

static option_word read_long(const char *word)
{
    return (option_word){
        .only_tells = strcmp(word, "--version") == 0 || strncmp(word, "--help", 6) == 0,
        .takes_next = strcmp(word, "--check-hash-based-pycs") == 0,
    };
}

run_python_look run_python_look_at_words(size_t word_count, const char *const *words)
{
    run_python_look look = {0};
    if (word_count == 0 || !run_python_is_python(words[0]))
        return look;
    look.is_python = true;
    for (size_t i = 1; i < word_count; i++) {
        if (words[i][0] != '-' || words[i][1] == '\0')
            break; /* the script; or standard input */
        option_word read = words[i][1] == '-' ? read_long(words[i]) : read_letters(words[i] + 1);
        if (read.only_tells)
            return (run_python_look){0};
        if (look.closed_by == 0)
            look.closed_by = read.closed_by;
        if (read.is_last)
            break;
        if (read.takes_next)
            i++;
    }
    return look;
}

/* ---- what a command becomes ------------------------------------------------------------------ */

/* A command line on its way: each layer is taken off, and what it starts put in its place. The tail
 * that finds no room is dropped: it is the program's. */
typedef struct command_line {
    const char *words[MOST_WORDS];
    size_t word_count;
    char texts[MOST_LAYERS][FIRST_LINE_BYTES + 1]; /* the words that were not the caller's */
} command_line;

/* The first `old_count` words become `new_words`. */
static void replace_first(command_line *line, size_t old_count, const char *const *new_words,
                          size_t new_count)
{
    command_line before = *line;
    line->word_count = 0;
    for (size_t i = 0; i < new_count && line->word_count < MOST_WORDS; i++)
        line->words[line->word_count++] = new_words[i];
    for (size_t i = old_count; i < before.word_count && line->word_count < MOST_WORDS; i++)
        line->words[line->word_count++] = before.words[i];
}

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t';
}

static bool is_program(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

/* Looks where execvp() looks. `path` has room for PATH_MAX bytes. */
static bool find_program(const char *name, char *path)
{
    const char *folders = secure_getenv("PATH");
    if (folders == NULL)
        folders = "/bin:/usr/bin"; /* as the C library has it */
    if (strchr(name, '/') != NULL)
        folders = ""; /* here */
    for (;;) {
        size_t length = strcspn(folders, ":");
        const char *slash = length > 0 ? "/" : "";
        if (length + strlen(name) + 2 <= PATH_MAX) {
            snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, folders, slash, name);
            if (is_program(path))
                return true;
        }
        if (folders[length] == '\0')
            return false;
        folders += length + 1;
    }
}

/* The interpreter line of a script, as the kernel reads it. */
static bool read_first_line(const char *program, char *line)
{
    char path[PATH_MAX];
    int file = find_program(program, path) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (file < 0)
        return false;
    ssize_t length = read(file, line, FIRST_LINE_BYTES);
    close(file);
    if (length < 2 || line[0] != '#' || line[1] != '!')
        return false;
    line[length] = '\0';
    return true;
}

/* A script: its interpreter, at most one argument (all the rest of the line), and the script. */
static bool enter_script(command_line *line, char *text)
{
    const char *words[3];
    size_t word_count = 0;
    if (!read_first_line(line->words[0], text))
        return false;
    size_t line_length = strcspn(text, "\n");
    bool is_whole = line_length < FIRST_LINE_BYTES;
    text[is_whole ? line_length : FIRST_LINE_BYTES - 1] = '\0';
    for (size_t end = strlen(text); end > 0 && is_blank(text[end - 1]); end--)
        text[end - 1] = '\0';
    char *interpreter = text + 2 + strspn(text + 2, " \t");
    char *after = interpreter + strcspn(interpreter, " \t");
    if (*interpreter == '\0' || (*after == '\0' && !is_whole))
        return false;
    words[word_count++] = interpreter;
    if (*after != '\0') {
        *after++ = '\0';
        words[word_count++] = after + strspn(after, " \t");
    }
    words[word_count++] = "./script"; /* whatever it is called, it is not an option */
    replace_first(line, 1, words, word_count);
    return true;
}

/* What `env -S` makes of one argument: words between blanks. Quotes, escapes and variables are not
 * followed: false. */
static bool split_words(const char *argument, char *text, const char **words, size_t *word_count)
{
    if (strlen(argument) > FIRST_LINE_BYTES || strpbrk(argument, "\"'\\$#") != NULL)
        return false;
    memcpy(text, argument, strlen(argument) + 1);
    char *rest;
    for (char *word = strtok_r(text, " \t", &rest); word != NULL && *word_count < MOST_WORDS;
         word = strtok_r(NULL, " \t", &rest))
        words[(*word_count)++] = word;
    return true;
}

/* An option of env's that takes a value, which is what `*value` becomes: the rest of the word, or
 * the next one (`*used_count` says how many words that were). NULL = it takes none. False: unknown.
 */
static bool read_env_option(const command_line *line, size_t at, char *letter, const char **value,
                            size_t *used_count)
{
    static const struct {
        const char *name;
        char letter;
    } long_names[] = {{"--split-string", 'S'},
                      {"--unset", 'u'},
                      {"--chdir", 'C'},
                      {"--argv0", 'a'},
                      {"--ignore-environment", 'i'},
                      {"--debug", 'v'},
                      {"--block-signal", 'v'},
                      {"--default-signal", 'v'},
                      {"--ignore-signal", 'v'}};
    const char *word = line->words[at];
    *letter = 0;
    *value = NULL;
    *used_count = 1;
    if (word[1] == '-') {
        size_t length = strcspn(word, "=");
        for (size_t i = 0; i < sizeof long_names / sizeof long_names[0]; i++)
            if (strlen(long_names[i].name) == length &&
                strncmp(word, long_names[i].name, length) == 0)
                *letter = long_names[i].letter;
        if (*letter != 0 && word[length] == '=')
            *value = word + length + 1;
    } else {
        const char *last = word + 1 + strspn(word + 1, "iv");
        *letter = *last != '\0' ? *last : 'i';
        if (*last != '\0' && last[1] != '\0')
            *value = last + 1;
    }
    if (*letter == 0 || strchr("ivuCaS", *letter) == NULL)
        return false;
    if (strchr("uCaS", *letter) != NULL && *value == NULL) {
        *used_count = 2;
        *value = at + 1 < line->word_count ? line->words[at + 1] : NULL;
        return *value != NULL;
    }
    return true;
}

/* env: its options and the variables it sets are taken off, and what it starts is left. */
static bool enter_env(command_line *line, char *text)
{
    size_t at = 1;
    while (at < line->word_count && line->words[at][0] == '-') {
        char letter;
        const char *value;
        size_t used_count;
        if (strcmp(line->words[at], "--") == 0) {
            at++;
            break;
        }
        if (!read_env_option(line, at, &letter, &value, &used_count))
            return false;
        at += used_count;
        if (letter == 'S') {
            const char *words[MOST_WORDS] = {"env"};
            size_t word_count = 1; /* options of env's may stand in there as well */
            if (!split_words(value, text, words, &word_count))
                return false;
            replace_first(line, at, words, word_count);
            return true;
        }
    }
    while (at < line->word_count && strchr(line->words[at], '=') != NULL)
        at++;
    replace_first(line, at, NULL, 0);
    return line->word_count > 0;
}

static bool is_env(const char *program)
{
    const char *slash = strrchr(program, '/');
    return strcmp(slash != NULL ? slash + 1 : program, "env") == 0;
}

run_python_look run_python_look_at_command(const char *const *command)
{
    command_line line = {0};
    while (line.word_count < MOST_WORDS && command[line.word_count] != NULL) {
        line.words[line.word_count] = command[line.word_count];
        line.word_count++;
    }
    for (size_t layer = 0; layer < MOST_LAYERS && line.word_count > 0; layer++) {
        const char *program = line.words[0];
        char *text = line.texts[layer];
        if (run_python_is_python(program))
            return run_python_look_at_words(line.word_count, line.words);
        if (!(is_env(program) ? enter_env(&line, text) : enter_script(&line, text)))
            break;
    }
    return (run_python_look){0};
}

/* ---- a process ------------------------------------------------------------------------------- */

bool run_python_look_at_process(pid_t process, run_python_look *look)
{
    char path[64], bytes[MOST_COMMAND_LINE_BYTES + 1];
    const char *words[MOST_WORDS];
    size_t word_count = 0;

    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t length = read(file, bytes, MOST_COMMAND_LINE_BYTES);
    close(file);
    if (length <= 0)
        return false;
    bytes[length] = '\0';
    for (char *at = bytes; at < bytes + length && word_count < MOST_WORDS; at += strlen(at) + 1)
        words[word_count++] = at;
    *look = run_python_look_at_words(word_count, words);
    return true;
}
