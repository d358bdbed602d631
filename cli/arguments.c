/* arguments.c - getopt_long() with a table in front and our own words behind. */
#include "arguments.h"

#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h" /* EXIT_WRONG_USAGE */
#include "safe_print.h"

/* getopt_long() answers with this plus the option's index: clear of every letter. */
#define FIRST_LONG_ANSWER 256

/* Longer words are not compared: they are not typing mistakes. */
#define LONGEST_WORD 31

int arguments_refuse(const char *command_name, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "vramwise %s: ", command_name);
    va_start(args, format);
    safe_print_error_args(format, args);
    va_end(args);
    fprintf(stderr, "\nTry 'vramwise help %s'.\n", command_name);
    return EXIT_WRONG_USAGE;
}

/* How many letters must be changed, added or dropped, or neighbours exchanged, to make `b` of `a`:
 * the row-by-row algorithm of Wagner and Fischer, with exchanged neighbours as one step. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][LONGEST_WORD + 1];
    size_t *before_last = rows[0], *last = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *oldest = before_last;
        before_last = last;
        last = row;
        row = oldest;
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before_last[j - 2] + 1 < best)
                best = before_last[j - 2] + 1;
            row[j] = best;
        }
    }
    return row[b_length];
}

const char *arguments_nearest(const char *word, const char *const *names, size_t name_count)
{
    size_t word_length = strlen(word);
    const char *nearest = NULL;
    size_t nearest_distance = SIZE_MAX;

    if (word_length == 0 || word_length > LONGEST_WORD)
        return NULL;
    for (size_t i = 0; i < name_count; i++) {
        size_t name_length = strlen(names[i]);
        if (name_length > LONGEST_WORD)
            continue;
        size_t distance = edit_distance(word, word_length, names[i], name_length);
        if (distance < nearest_distance) {
            nearest_distance = distance;
            nearest = names[i];
        }
    }
    /* More than a third of the letters wrong is another word: "fp8" is no slip for "fp32". */
    return nearest != NULL && nearest_distance * 3 <= strlen(nearest) ? nearest : NULL;
}

static const argument_option *option_by_letter(const argument_option *options, size_t option_count,
                                               int letter)
{
    for (size_t i = 0; i < option_count; i++)
        if (options[i].letter != 0 && options[i].letter == letter)
            return &options[i];
    return NULL;
}

static void refuse_unknown_option(const argument_option *options, size_t option_count,
                                  const char *command_name, const char *argument, int letter)
{
    const char *names[ARGUMENTS_MOST_OPTIONS];
    char word[LONGEST_WORD + 2]; /* one more letter than counts, so that a cut word is too long */

    if (letter > 0 && letter < FIRST_LONG_ANSWER) {
        arguments_refuse(command_name, "unknown option '-%c'", letter);
        return;
    }
    for (size_t i = 0; i < option_count; i++)
        names[i] = options[i].name;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    const char *nearest = arguments_nearest(word, names, option_count);
    if (nearest != NULL)
        arguments_refuse(command_name, "unknown option '%s'; did you mean '--%s'?", argument,
                         nearest);
    else
        arguments_refuse(command_name, "unknown option '%s'", argument);
}

/* An option whose value may be left out: getopt only knows the value behind a "=". The word after
 * the option is at argv[optind], since words before it were moved, and not this one yet. */
static void take_optional_value(const argument_option *option, int argc, char **argv)
{
    *option->is_given = true;
    *option->value = optarg;
    if (optarg == NULL && option->is_value != NULL && optind < argc &&
        option->is_value(argv[optind]))
        *option->value = argv[optind++];
}

/* `optarg` is the value of an option that has one. */
static bool take_option(const argument_option *option, int argc, char **argv)
{
    if (option->is_given != NULL && option->value != NULL) {
        take_optional_value(option, argc, argv);
    } else if (option->is_given != NULL) {
        *option->is_given = true;
    } else if (option->value != NULL) {
        *option->value = optarg;
    } else if (option->values->count < ARGUMENTS_MOST_VALUES) {
        option->values->items[option->values->count++] = optarg;
    } else {
        arguments_refuse(argv[0], "option '--%s' is given more than %d times", option->name,
                         ARGUMENTS_MOST_VALUES);
        return false;
    }
    return true;
}

static int value_kind(const argument_option *option)
{
    if (option->is_given == NULL)
        return required_argument;
    return option->value != NULL ? optional_argument : no_argument;
}

bool arguments_parse(const argument_option *options, size_t option_count, int argc, char **argv,
                     int *first_operand)
{
    struct option long_options[ARGUMENTS_MOST_OPTIONS + 1];
    char letters[2 * ARGUMENTS_MOST_OPTIONS + 2];
    size_t letter_count = 0;

    if (option_count > ARGUMENTS_MOST_OPTIONS)
        option_count = ARGUMENTS_MOST_OPTIONS;
    letters[letter_count++] = ':'; /* a missing value is told apart from an unknown option */
    for (size_t i = 0; i < option_count; i++) {
        int has_value = value_kind(&options[i]);
        long_options[i] =
            (struct option){options[i].name, has_value, NULL, FIRST_LONG_ANSWER + (int)i};
        if (options[i].letter != 0) {
            letters[letter_count++] = options[i].letter;
            if (has_value == required_argument)
                letters[letter_count++] = ':';
        }
    }
    long_options[option_count] = (struct option){NULL, 0, NULL, 0};
    letters[letter_count] = '\0';

    opterr = 0;
    optind = 0; /* glibc: start afresh */
    for (;;) {
        int answer = getopt_long(argc, argv, letters, long_options, NULL);
        const argument_option *option = NULL;
        if (answer == -1)
            break;
        if (answer == ':') {
            arguments_refuse(argv[0], "option '%s' needs a value", argv[optind - 1]);
            return false;
        }
        if (answer == '?' && optopt >= FIRST_LONG_ANSWER) { /* known, but a switch given a value */
            arguments_refuse(argv[0], "option '--%s' takes no value",
                             options[optopt - FIRST_LONG_ANSWER].name);
            return false;
        }
        if (answer == '?') {
            refuse_unknown_option(options, option_count, argv[0], argv[optind - 1], optopt);
            return false;
        }
        if (answer >= FIRST_LONG_ANSWER)
            option = &options[answer - FIRST_LONG_ANSWER];
        else
            option = option_by_letter(options, option_count, answer);
        if (!take_option(option, argc, argv))
            return false;
    }
    *first_operand = optind;
    return true;
}

bool arguments_parse_one(const argument_option *options, size_t option_count, int argc, char **argv,
                         const char *kind, const char **operand)
{
    int first_operand = 0;
    if (!arguments_parse(options, option_count, argc, argv, &first_operand))
        return false;
    if (argc - first_operand != 1) {
        arguments_refuse(argv[0], "expected one %s, not %d", kind, argc - first_operand);
        return false;
    }
    *operand = argv[first_operand];
    return true;
}

bool arguments_read_number(const char *text, uint64_t *number)
{
    uint64_t result = 0;
    if (text == NULL || *text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (result > (UINT64_MAX - digit) / 10)
            return false;
        result = result * 10 + digit;
    }
    *number = result;
    return true;
}

bool arguments_read_process(const char *command_name, const char *option, const char *text,
                            long *process)
{
    uint64_t number;
    if (!arguments_read_number(text, &number) || number == 0 || number > INT_MAX) {
        arguments_refuse(command_name, "%sexpected the number of a process, not '%s'", option,
                         text);
        return false;
    }
    *process = (long)number;
    return true;
}

uint64_t arguments_limit_ms(const char *variable, uint64_t usual_seconds)
{
    enum { MOST_SECONDS = 86400 };
    uint64_t seconds;
    if (!arguments_read_number(secure_getenv(variable), &seconds) || seconds > MOST_SECONDS)
        seconds = usual_seconds;
    return seconds * 1000;
}
