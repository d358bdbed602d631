/* serve_http.c - see serve_http.h.
 *
 * One thread for each door answers all requests: what is served is memory, and the kernel takes it
 * as fast as the other side reads. */
#include "serve_http.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve_clients.h"
#include "serve_token.h"

/* ---- answers --------------------------------------------------------------------------------- */

serve_answer serve_answer_text(unsigned int status, const char *text)
{
    return (serve_answer){status, "text/plain; charset=utf-8", text, strlen(text), false};
}

serve_answer serve_answer_not_found(void)
{
    return serve_answer_text(SERVE_NOT_FOUND, "Not found.\n");
}

/* ---- libmicrohttpd --------------------------------------------------------------------------- */

#ifdef VW_HAS_MICROHTTPD
#include <microhttpd.h>

/* libmicrohttpd's own limits: how long it waits for the next byte; and sockets, which must be more
 * than the clients that serve_clients lets stay, as those that it sent away take a moment to go. */
enum { IDLE_SECONDS = SERVE_CLIENTS_BETWEEN_SECONDS, MOST_CONNECTIONS = SERVE_CLIENTS_MOST + 64 };

_Static_assert((int)SERVE_OK == MHD_HTTP_OK && (int)SERVE_NOT_FOUND == MHD_HTTP_NOT_FOUND &&
                   (int)SERVE_UNAVAILABLE == MHD_HTTP_SERVICE_UNAVAILABLE,
               "HTTP's own numbers");

struct serve_server {
    serve_site site;
    serve_address address;
    serve_clients clients;
    struct MHD_Daemon *daemons[SERVE_MOST_DOORS];
    size_t daemon_count;
};

static bool is_meant(const serve_server *server, const char *host)
{
    serve_reach reach = server->address.reach;
    bool is_for_others = reach == SERVE_REACH_NETWORK || reach == SERVE_REACH_EVERY;
    return (is_for_others && server->site.has_any_name) ||
           serve_address_is_meant(&server->address, host);
}

static bool is_let_in(const serve_site *site, struct MHD_Connection *connection, const char *path)
{
    return site->token == NULL || strcmp(path, site->open_path) == 0 ||
           serve_token_is_in(
               MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization"),
               site->token);
}

static bool is_reading(const char *method)
{
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

static serve_answer find_answer(const serve_server *server, struct MHD_Connection *connection,
                                const char *method, const char *path)
{
    if (!is_meant(server, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host")))
        return serve_answer_text(MHD_HTTP_FORBIDDEN, "Not under this name.\n");
    if (!is_let_in(&server->site, connection, path))
        return serve_answer_text(MHD_HTTP_UNAUTHORIZED, "Not without the token.\n");
    if (!is_reading(method))
        return serve_answer_text(MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only.\n");
    return server->site.find(server->site.context, path);
}

static bool add_headers(struct MHD_Response *response, const serve_answer *what)
{
    static const char *const fixed[][2] = {
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
    };
    bool is_done = MHD_add_response_header(response, "Content-Type", what->type) == MHD_YES;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0] && is_done; i++)
        is_done = MHD_add_response_header(response, fixed[i][0], fixed[i][1]) == MHD_YES;
    if (is_done && what->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        is_done = MHD_add_response_header(response, "Allow", "GET, HEAD") == MHD_YES;
    if (is_done && what->status == MHD_HTTP_UNAUTHORIZED)
        is_done = MHD_add_response_header(response, "WWW-Authenticate", "Bearer") == MHD_YES;
    return is_done;
}

/* ---- who is connected ------------------------------------------------------------------------ */

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* libmicrohttpd's: a connection begins or ends. Its socket is open in both calls. */
static void note_connection(void *context, struct MHD_Connection *connection, void **client,
                            enum MHD_ConnectionNotificationCode what)
{
    serve_server *server = context;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        serve_clients_leave(&server->clients, *client);
        *client = NULL;
        return;
    }
    const union MHD_ConnectionInfo *socket =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (socket != NULL)
        *client = serve_clients_enter(&server->clients, socket->connect_fd,
                                      address != NULL ? address->client_addr : NULL, now_ms());
}

static serve_client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

/* libmicrohttpd's: an answer was sent, or given up. */
static void note_end(void *context, struct MHD_Connection *connection, void **request_state,
                     enum MHD_RequestTerminationCode how)
{
    serve_server *server = context;
    (void)request_state, (void)how;
    serve_clients_end_answer(&server->clients, client_of(connection), now_ms());
}

/* ---- answering ------------------------------------------------------------------------------- */

/* libmicrohttpd's: called when the headers of a request are there, and again at its end. It closes
 * a connection that is answered at the headers: a GET or HEAD is answered at the end, so that the
 * client can ask again. Other requests have nothing to send that is wanted: they are answered at
 * once. To a HEAD it sends no body. The bytes are only read: its interface has no const. */
static enum MHD_Result reply(void *context, struct MHD_Connection *connection, const char *path,
                             const char *method, const char *version, const char *upload_data,
                             size_t *upload_data_size, void **request_state)
{
    static char has_headers;
    serve_server *server = context;
    (void)version, (void)upload_data;
    if (*request_state == NULL && is_reading(method)) {
        *request_state = &has_headers;
        return MHD_YES;
    }
    if (*upload_data_size != 0) /* a GET with a body: the connection ends */
        return MHD_NO;
    serve_clients_begin_answer(&server->clients, client_of(connection), now_ms());
    serve_answer what = find_answer(server, connection, method, path);
    serve_clients_hold_answer(&server->clients, client_of(connection),
                              what.is_owned ? what.size_bytes : 0);
    void *bytes = (void *)(uintptr_t)what.bytes;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        what.size_bytes, bytes, what.is_owned ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (response == NULL) { /* no memory: the connection ends */
        if (what.is_owned)
            free(bytes);
        return MHD_NO;
    }
    enum MHD_Result result = MHD_NO;
    if (add_headers(response, &what))
        result = MHD_queue_response(connection, what.status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* The daemon closes its socket when it is stopped. */
static bool start_daemon(serve_server *server, int door)
{
    const unsigned int flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, reply, server, MHD_OPTION_LISTEN_SOCKET, door,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)IDLE_SECONDS, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned int)MOST_CONNECTIONS, MHD_OPTION_NOTIFY_CONNECTION, note_connection, server,
        MHD_OPTION_NOTIFY_COMPLETED, note_end, server, MHD_OPTION_END);
    if (daemon == NULL)
        return false;
    server->daemons[server->daemon_count++] = daemon;
    return true;
}

static bool start_daemons(serve_server *server, serve_doors *doors)
{
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* threads inherit it */
    errno = 0;
    while (doors->count != 0 && start_daemon(server, doors->sockets[doors->count - 1]))
        doors->count--;
    int reason = errno != 0 ? errno : ENOMEM;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = reason;
    return doors->count == 0;
}

serve_server *serve_start(const serve_site *site, const serve_address *address, serve_doors *doors)
{
    serve_server *server = calloc(1, sizeof *server);
    bool is_running = false;
    if (server != NULL) {
        server->site = *site;
        server->address = *address;
        serve_clients_init(&server->clients);
        is_running = start_daemons(server, doors);
    }
    if (is_running)
        return server;
    int reason = errno;
    serve_listen_close(doors);
    serve_stop(server);
    errno = reason;
    return NULL;
}

void serve_stop(serve_server *server)
{
    if (server == NULL)
        return;
    for (size_t i = 0; i < server->daemon_count; i++)
        MHD_stop_daemon(server->daemons[i]);
    serve_clients_deinit(&server->clients);
    free(server);
}

#else /* serve_listen_open() has refused before */

serve_server *serve_start(const serve_site *site, const serve_address *address, serve_doors *doors)
{
    (void)site, (void)address;
    serve_listen_close(doors);
    errno = ENOSYS;
    return NULL;
}

void serve_stop(serve_server *server)
{
    (void)server;
}

#endif

/* ---- until a signal -------------------------------------------------------------------------- */

void serve_block_signals(sigset_t *ending_signals)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(ending_signals);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction present;
        if (sigaction(signals[i], NULL, &present) != 0 || present.sa_handler != SIG_IGN)
            sigaddset(ending_signals, signals[i]);
    }
    (void)pthread_sigmask(SIG_BLOCK, ending_signals, NULL);
}

void serve_wait(const sigset_t *ending_signals)
{
    int which = 0;
    while (sigwait(ending_signals, &which) == EINTR)
        continue;
}
