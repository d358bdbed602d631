/* run_watch.h - one job from its start to its end. */
#ifndef VRAMWISE_CLI_RUN_WATCH_H
#define VRAMWISE_CLI_RUN_WATCH_H

#include <stdbool.h>

#include "run_folder.h"
#include "serve_listen.h"

/* Where --metrics is served. The doors are open: a port that is taken was found out before. */
typedef struct run_metrics {
    serve_address address;
    serve_doors doors; /* run_watch() closes them */
} run_metrics;
#include "run_leak.h"

/* `vramwise run` could not start the command: what env, nohup and timeout end with, too. */
enum { EXIT_COULD_NOT_START = 125, EXIT_SIGNAL_BASE = 128 };

typedef struct run_watch_options {
    const run_folder *folder; /* the environment has been set for it */
    bool has_record;          /* --record was given */
    run_metrics *metrics;     /* NULL: --metrics was not given */
    run_leak_mode on_leak;    /* --on-leak */
} run_watch_options;

/* Starts `command` (ended by NULL, found in PATH), waits for it, and reports what it and its
 * children told. Answers how the program ends: as the command did, 128 + n where signal n killed
 * it, EXIT_COULD_NOT_START with a message where it could not be started. */
int run_watch(char **command, const run_watch_options *options);

/* Becomes the command, as if vramwise were not there. Returns only if that fails, with a message.
 */
int run_watch_become(char **command);

#endif /* VRAMWISE_CLI_RUN_WATCH_H */
