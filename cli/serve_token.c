/* serve_token.c - see serve_token.h. */
#include "serve_token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "safe_print.h"

/* The word, without the line's end behind it. False: there is another thing in the file. */
static bool cut_word(char *text, size_t length)
{
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
        length--;
    text[length] = '\0';
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return length >= SERVE_TOKEN_LEAST && length < SERVE_TOKEN_BYTES;
}

bool serve_token_read(const char *command_name, const char *path, char token[SERVE_TOKEN_BYTES])
{
    char text[SERVE_TOKEN_BYTES + 3] = ""; /* one more than fits, to notice */
    FILE *file = fopen(path, "re");
    size_t length = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file == NULL || ferror(file) != 0) {
        safe_print_error("vramwise %s: cannot read %s: %s", command_name, path, strerror(errno));
        (void)fputc('\n', stderr);
        if (file != NULL)
            (void)fclose(file);
        return false;
    }
    (void)fclose(file);
    if (!cut_word(text, length)) {
        safe_print_error(
            "vramwise %s: %s: expected one word of %d to %d printable characters, and nothing else",
            command_name, path, SERVE_TOKEN_LEAST, SERVE_TOKEN_BYTES - 1);
        (void)fputc('\n', stderr);
        return false;
    }
    memcpy(token, text, SERVE_TOKEN_BYTES);
    return true;
}

bool serve_token_is_in(const char *header, const char *token)
{
    static const char scheme[] = "Bearer ";
    if (header == NULL || strncasecmp(header, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *given = header + sizeof scheme - 1;
    size_t length = strlen(given), expected = strlen(token);
    unsigned int difference = length != expected;
    for (size_t i = 0; i < length; i++)
        difference |= (unsigned int)(unsigned char)given[i] ^
                      (unsigned int)(unsigned char)token[expected != 0 ? i % expected : 0];
    return difference == 0;
}
