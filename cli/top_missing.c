/* top_missing.c - `vramwise top` in a build without ncurses: there is no screen to draw on. */
#include <stdio.h>

#include "command.h"
#include "top_loop.h"

int top_loop(const top_wish *wish, vw_machine *first)
{
    vw_machine_free(first);
    fprintf(stderr,
            "vramwise %s: this build has no ncurses, which draws the screen; --once prints the "
            "table\n",
            wish->command_name);
    return EXIT_COULD_NOT;
}
