/* top_loop.h - the screen of `vramwise top`, until the user quits. */
#ifndef VRAMWISE_CLI_TOP_LOOP_H
#define VRAMWISE_CLI_TOP_LOOP_H

#include "vramwise/watch.h"

typedef struct top_wish {
    const char *command_name;
    double interval_seconds;
    long process; /* whose details to begin with; 0: the table */
} top_wish;

/* Takes `first`, the machine as it was read before, and frees it. Answers how the program ends; a
 * signal that asked for it ends the program here. */
int top_loop(const top_wish *wish, vw_machine *first);

#endif /* VRAMWISE_CLI_TOP_LOOP_H */
