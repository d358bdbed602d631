/* serve_clients.h - who is connected to a server, and who has to go when others want to be heard.
 *
 * A client is waited for from when it connects, and again from the end of each answer, until its
 * next request is complete. One that sends a byte now and then is never idle, and neither is one
 * that takes a byte of a large answer now and then, so without this a few hundred of them would
 * hold every place. Places are limited, in all and for each address. Where one is needed, somebody
 * of that address loses its own; if all are taken, somebody of the address that has most. It is
 * whoever has been at the same thing for longest (connecting, taking an answer, thinking about the
 * next request), and an answer has SERVE_CLIENTS_ANSWER_SECONDS more than the others. So the last
 * who came has the best chance: one that asks and reads is gone before its turn comes.
 *
 * Whoever is overdue with a request goes as soon as anybody connects. An answer has no end by which
 * it must be taken: a page over a slow line may take long, as long as there is room.
 *
 * Answers that were made for one client are memory until they are taken. They may have
 * SERVE_CLIENTS_MOST_BYTES together; then whoever has been taking one for longest goes.
 *
 * Safe from any thread. */
#ifndef VRAMWISE_CLI_SERVE_CLIENTS_H
#define VRAMWISE_CLI_SERVE_CLIENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    SERVE_CLIENTS_MOST = 192,             /* in all */
    SERVE_CLIENTS_MOST_OF_ADDRESS = 64,   /* of one address */
    SERVE_CLIENTS_REQUEST_SECONDS = 10,   /* from connecting to the end of the headers */
    SERVE_CLIENTS_BETWEEN_SECONDS = 120,  /* from an answer to the end of the next headers */
    SERVE_CLIENTS_ANSWER_SECONDS = 10,    /* an answer is safe for so long: Prometheus's patience */
    SERVE_CLIENTS_MOST_BYTES = 256 << 20, /* of answers, but for one that alone has more */
};

typedef struct serve_client serve_client;

typedef struct serve_clients {
    pthread_mutex_t lock;
    serve_client *first; /* connected first */
    serve_client *last;
    size_t count;
    uint64_t held_bytes; /* by all */
} serve_clients;

void serve_clients_init(serve_clients *clients);
void serve_clients_deinit(serve_clients *clients); /* nobody is connected any more */

/* Somebody connected, from `address`, at `now_ms` of a clock that only rises: others may have to go
 * for it. Going is shutdown() of their sockets, which must stay open until serve_clients_leave().
 * NULL: no memory; the client is not counted. */
serve_client *serve_clients_enter(serve_clients *clients, int socket,
                                  const struct sockaddr *address, uint64_t now_ms);

/* A request of the client is complete and will be answered; the answer has been sent. NULL does
 * nothing, here and below. */
void serve_clients_begin_answer(serve_clients *clients, serve_client *client, uint64_t now_ms);
/* Between the two: the answer is memory of this client alone, of so many bytes. */
void serve_clients_hold_answer(serve_clients *clients, serve_client *client, size_t size_bytes);
void serve_clients_end_answer(serve_clients *clients, serve_client *client, uint64_t now_ms);

void serve_clients_leave(serve_clients *clients, serve_client *client);

#endif /* VRAMWISE_CLI_SERVE_CLIENTS_H */
