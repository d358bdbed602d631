/* run_limits.h - how long `vramwise run` waits for something, by a variable or by default. */
#ifndef VRAMWISE_CLI_RUN_LIMITS_H
#define VRAMWISE_CLI_RUN_LIMITS_H

#include <stdint.h>

/* Milliseconds: the variable's whole number of seconds, up to a day; else `usual_seconds`. */
uint64_t run_limit_ms(const char *variable, uint64_t usual_seconds);

#endif /* VRAMWISE_CLI_RUN_LIMITS_H */
