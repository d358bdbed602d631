/* prose.c - see prose.h. */
#include "prose.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Longer lines are tiring, however wide the window. */
#define LONGEST_PROSE_COLUMNS 100

void prose_tell(const terminal *output, terminal_style style, const char *format, ...)
{
    char text[2048];
    va_list args;
    unsigned width = output->width_columns;
    size_t column = 0;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (width > LONGEST_PROSE_COLUMNS)
        width = LONGEST_PROSE_COLUMNS;
    if (style != TERMINAL_PLAIN)
        fputs(terminal_style_code(output, style), stdout);
    for (const char *word = text; *word != '\0';) {
        size_t length = strcspn(word, " \n");
        if (column > 0 && column + 1 + length > width) {
            putchar('\n');
            column = 0;
        } else if (column > 0) {
            putchar(' ');
            column++;
        }
        fwrite(word, 1, length, stdout);
        column += length;
        word += length;
        word += strspn(word, " \n");
    }
    if (style != TERMINAL_PLAIN)
        fputs(terminal_style_code(output, TERMINAL_PLAIN), stdout);
    putchar('\n');
}
