/* serve_listen.h - the sockets that something is served on.
 *
 * Where no address was named it is at 127.0.0.1 and at ::1, on the same port: whichever a
 * browser takes for "localhost" is ours, and no other program's page can be mistaken for it. */
#ifndef VRAMWISE_CLI_SERVE_LISTEN_H
#define VRAMWISE_CLI_SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "serve_address.h"

enum { SERVE_MOST_DOORS = 2 };

typedef struct serve_doors {
    int sockets[SERVE_MOST_DOORS]; /* listening */
    size_t count;
} serve_doors;

/* Puts the port that was found into `address` where it has none. false: nothing is open, errno says
 * why, and `failed` is the address that could not be had. */
bool serve_listen_open(serve_address *address, serve_doors *doors, serve_address *failed);
void serve_listen_close(serve_doors *doors);

/* Says on standard error that `where` could not be had, and why; of a port in use also `advice`. */
void serve_listen_explain(const char *command_name, const serve_address *where, int reason,
                          const char *advice);

#endif /* VRAMWISE_CLI_SERVE_LISTEN_H */
