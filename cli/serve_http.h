/* serve_http.h - libmicrohttpd, with few things to say: bytes by their path, to be had and not to
 * be changed.
 *
 * A server runs in threads of its own, one for each door, and takes no signal: those are the
 * program's. A client that does not read, or sends its request byte by byte, delays no other, and
 * is dropped after a while (serve_clients.h). */
#ifndef VRAMWISE_CLI_SERVE_HTTP_H
#define VRAMWISE_CLI_SERVE_HTTP_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "serve_address.h"
#include "serve_listen.h"

enum { SERVE_OK = 200, SERVE_NOT_FOUND = 404, SERVE_UNAVAILABLE = 503 };

typedef struct serve_answer {
    unsigned int status; /* HTTP's */
    const char *type;    /* static */
    const void *bytes;
    size_t size_bytes;
    bool is_owned; /* came from malloc(), and is freed when it was sent; or stays as long as the
                      server */
} serve_answer;

serve_answer serve_answer_text(unsigned int status, const char *text); /* static text */
serve_answer serve_answer_not_found(void);

typedef struct serve_site {
    void *context;

    /* What is at `path`, to a GET or HEAD. Called by the server's threads, by several at once. */
    serve_answer (*find)(void *context, const char *path);

    /* At an address that others reach: may it be asked for under any name? At one that only this
     * machine reaches, never. */
    bool has_any_name;

    /* What a request must have (serve_token.h); NULL: nothing. `open_path` is answered without. */
    const char *token;
    const char *open_path;
} serve_site;

typedef struct serve_server serve_server;

/* Serves `site` on `doors`, which are the server's from here on. NULL: errno says why, and the
 * doors are closed. */
serve_server *serve_start(const serve_site *site, const serve_address *address, serve_doors *doors);

/* Ends it: requests that are being answered are cut off. NULL does nothing. */
void serve_stop(serve_server *server);

/* Blocks SIGINT, SIGTERM and SIGHUP, but for those that were ignored from the start (nohup, a job
 * in the background of a script): they stay ignored. serve_wait() waits for one of them. */
void serve_block_signals(sigset_t *ending_signals);
void serve_wait(const sigset_t *ending_signals);

#endif /* VRAMWISE_CLI_SERVE_HTTP_H */
