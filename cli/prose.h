/* prose.h - paragraphs for people, fitted to the window. */
#ifndef VRAMWISE_CLI_PROSE_H
#define VRAMWISE_CLI_PROSE_H

#include "terminal.h"

/* Prints a paragraph to standard output, wrapped at spaces; a word longer than a line stands alone
 * in one. */
__attribute__((format(printf, 3, 4))) void prose_tell(const terminal *output, terminal_style style,
                                                      const char *format, ...);

#endif /* VRAMWISE_CLI_PROSE_H */
