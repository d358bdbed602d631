/* top_crash.h - a terminal that is given back even if the program crashes on it.
 *
 * A crash cannot run curses any more. So the terminal's settings and the letters that reset it are
 * kept ready, and the handler of a crash only writes them; then what would have happened, happens.
 */
#ifndef VRAMWISE_CLI_TOP_CRASH_H
#define VRAMWISE_CLI_TOP_CRASH_H

/* Keeps the terminal's settings, as they are before curses changes them. */
void top_crash_remember(void);

/* From here on, to the call of top_crash_forget(). Curses has the terminal. */
void top_crash_watch(void);
void top_crash_forget(void);

#endif /* VRAMWISE_CLI_TOP_CRASH_H */
