/* view_browser.h - opens a page in the user's browser, if there is a display. */
#ifndef VRAMWISE_CLI_VIEW_BROWSER_H
#define VRAMWISE_CLI_VIEW_BROWSER_H

#include <stdbool.h>

/* Returns whether a user is at a terminal with a display: not in a script, in a pipe, or over SSH.
 */
bool view_browser_is_wanted(void);

/* The same, of a program whose output goes to a terminal, or not: for tests. */
bool view_browser_has_viewer(bool is_terminal);

/* Starts $BROWSER, or xdg-open, with `target` (a path or a URL), and does not wait for it: it lives
 * on when the program ends. Where there is no browser nothing happens; the page's name was printed.
 */
void view_browser_open(const char *target);

#endif /* VRAMWISE_CLI_VIEW_BROWSER_H */
