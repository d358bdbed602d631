/* report_word.c - a name as a shell takes it. */
#include "vramwise/report.h"

#include <string.h>

static bool send(const vw_output *output, const char *bytes, size_t size_bytes)
{
    return output->write(output->context, bytes, size_bytes);
}

/* A quote inside quotes: ended, one of its own, and begun again. */
static bool send_quoted(const char *word, const vw_output *output)
{
    static const char escaped[] = "'\\''";
    bool is_sent = send(output, "'", 1);
    while (is_sent && *word != '\0') {
        size_t length = strcspn(word, "'");
        is_sent = length == 0 || send(output, word, length);
        word += length;
        if (is_sent && *word == '\'') {
            is_sent = send(output, escaped, sizeof escaped - 1);
            word++;
        }
    }
    return is_sent && send(output, "'", 1);
}

bool vw_write_shell_word(const char *word, const vw_output *output)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=.,/:@%";
    bool is_plain = word[0] != '\0' && word[0] != '-' && word[strspn(word, plain)] == '\0';
    return is_plain ? send(output, word, strlen(word)) : send_quoted(word, output);
}
