/* run_limits.h - how long `headroom run` waits for something, by a variable or by default. */
#ifndef HEADROOM_CLI_RUN_LIMITS_H
#define HEADROOM_CLI_RUN_LIMITS_H

#include <stdint.h>

/* Milliseconds: the variable's whole number of seconds, up to a day; else `usual_seconds`. */
uint64_t run_limit_ms(const char *variable, uint64_t usual_seconds);

#endif /* HEADROOM_CLI_RUN_LIMITS_H */
