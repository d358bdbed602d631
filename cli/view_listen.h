/* view_listen.h - the sockets that a page is served on.
 *
 * Where no address was named the page is at 127.0.0.1 and at ::1, on the same port: whichever a
 * browser takes for "localhost" is ours, and no other program's page can be mistaken for it. */
#ifndef HEADROOM_CLI_VIEW_LISTEN_H
#define HEADROOM_CLI_VIEW_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "view_address.h"

enum { VIEW_MOST_DOORS = 2 };

typedef struct view_doors {
    int sockets[VIEW_MOST_DOORS]; /* listening */
    size_t count;
} view_doors;

/* Puts the port that was found into `address` where it has none. false: nothing is open, errno says
 * why, and `failed` is the address that could not be had. */
bool view_listen_open(view_address *address, view_doors *doors, view_address *failed);
void view_listen_close(view_doors *doors);

#endif /* HEADROOM_CLI_VIEW_LISTEN_H */
