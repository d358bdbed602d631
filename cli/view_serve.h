/* view_serve.h - serves a page and its data until the user ends it.
 *
 * Two things are there, `/TOKEN/` and `/TOKEN/data`, to be had and not to be changed. The token is
 * made anew each time, and nobody can guess it: another user of the machine, or a web page that
 * tries addresses, gets nothing. */
#ifndef VRAMWISE_CLI_VIEW_SERVE_H
#define VRAMWISE_CLI_VIEW_SERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "serve_address.h"
#include "serve_listen.h"

enum { VIEW_TOKEN_BYTES = 16, VIEW_TOKEN_TEXT_BYTES = 2 * VIEW_TOKEN_BYTES + 1 };

typedef struct view_content {
    const void *page; /* without data */
    size_t page_bytes;
    const void *data; /* the container */
    size_t data_bytes;
} view_content;

typedef struct view_server view_server;

/* Serves `content`, which stays the caller's and must stay, on `doors`, which are the server's from
 * here on. SIGINT, SIGTERM and SIGHUP are blocked: view_server_wait() waits for them. NULL: errno
 * says why. */
view_server *view_server_start(const view_content *content, const serve_address *address,
                               serve_doors *doors);

/* "http://127.0.0.1:8080/TOKEN/": of the server, until it ends. */
const char *view_server_url(const view_server *server);

/* Waits for one of the signals. */
void view_server_wait(const view_server *server);

/* Ends it: requests that are being answered are cut off. */
void view_server_stop(view_server *server);

#endif /* VRAMWISE_CLI_VIEW_SERVE_H */
