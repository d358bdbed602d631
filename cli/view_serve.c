/* view_serve.c - libmicrohttpd, with few things to say.
 *
 * One thread for each door answers all requests: what is served is memory, and the kernel takes it
 * as fast as the other side reads. */
#include "view_serve.h"

#include <errno.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { IDLE_SECONDS = 120, MOST_CONNECTIONS = 256, URL_BYTES = VIEW_HOST_BYTES + 64 };

struct view_server {
    view_content content;
    view_address address;
    char token[VIEW_TOKEN_TEXT_BYTES];
    char url[URL_BYTES];
    struct MHD_Daemon *daemons[VIEW_MOST_DOORS];
    size_t daemon_count;
    sigset_t ending_signals;
};

/* ---- answers --------------------------------------------------------------------------------- */

typedef struct answer {
    unsigned int status;
    const char *type;
    const void *bytes; /* stays until the server ends */
    size_t size_bytes;
} answer;

static answer refusal(unsigned int status, const char *text)
{
    return (answer){status, "text/plain; charset=utf-8", text, strlen(text)};
}

/* Takes as long for a token that is nearly right as for any other. */
static bool is_same_token(const char *token, const char *given)
{
    unsigned difference = 0;
    for (size_t i = 0; i + 1 < VIEW_TOKEN_TEXT_BYTES; i++)
        difference |= (unsigned)((unsigned char)token[i] ^ (unsigned char)given[i]);
    return difference == 0;
}

/* What is behind "/TOKEN" in `path`; NULL without the token. */
static const char *behind_token(const view_server *server, const char *path)
{
    const size_t length = VIEW_TOKEN_TEXT_BYTES; /* with the slash before it */
    if (strlen(path) < length || path[0] != '/' || !is_same_token(server->token, path + 1))
        return NULL;
    return path + length;
}

static answer find_answer(const view_server *server, const char *host, const char *method,
                          const char *path)
{
    const view_content *content = &server->content;
    if (!view_address_is_meant(&server->address, host))
        return refusal(MHD_HTTP_FORBIDDEN, "Not under this name.\n");
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return refusal(MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only.\n");
    const char *rest = behind_token(server, path);
    if (rest != NULL && strcmp(rest, "/") == 0)
        return (answer){MHD_HTTP_OK, "text/html; charset=utf-8", content->page,
                        content->page_bytes};
    if (rest != NULL && strcmp(rest, "/data") == 0)
        return (answer){MHD_HTTP_OK, "application/octet-stream", content->data,
                        content->data_bytes};
    return refusal(MHD_HTTP_NOT_FOUND, "Not found.\n");
}

static bool add_headers(struct MHD_Response *response, const answer *what)
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
    return is_done;
}

/* libmicrohttpd's: called when the headers of a request are there. To a HEAD it sends no body. The
 * bytes are only read: its interface has no const. */
static enum MHD_Result reply(void *context, struct MHD_Connection *connection, const char *path,
                             const char *method, const char *version, const char *upload_data,
                             size_t *upload_data_size, void **request_state)
{
    (void)version, (void)upload_data, (void)upload_data_size, (void)request_state;
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    answer what = find_answer(context, host, method, path);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        what.size_bytes, (void *)(uintptr_t)what.bytes, MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO; /* no memory: the connection ends */
    enum MHD_Result result = MHD_NO;
    if (add_headers(response, &what))
        result = MHD_queue_response(connection, what.status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static bool make_token(char token[VIEW_TOKEN_TEXT_BYTES])
{
    unsigned char bytes[VIEW_TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) /* so few come at once */
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* What is ignored from the start (nohup, a job in the background of a script) stays ignored. */
static void block_signals(view_server *server)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(&server->ending_signals);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction present;
        if (sigaction(signals[i], NULL, &present) != 0 || present.sa_handler != SIG_IGN)
            sigaddset(&server->ending_signals, signals[i]);
    }
    (void)pthread_sigmask(SIG_BLOCK, &server->ending_signals, NULL);
}

/* The daemon closes its socket when it is stopped. */
static bool start_daemon(view_server *server, int door)
{
    const unsigned int flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, reply, server, MHD_OPTION_LISTEN_SOCKET, door,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)IDLE_SECONDS, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned int)MOST_CONNECTIONS, MHD_OPTION_END);
    if (daemon == NULL)
        return false;
    server->daemons[server->daemon_count++] = daemon;
    return true;
}

static bool start(view_server *server, view_doors *doors)
{
    char host[VIEW_HOST_BYTES];
    if (!make_token(server->token))
        return false;
    view_address_host(&server->address, host);
    (void)snprintf(server->url, sizeof server->url, "http://%s:%u/%s/", host,
                   (unsigned)server->address.port, server->token);
    block_signals(server); /* before there are threads: they inherit it */
    errno = 0;
    while (doors->count != 0 && start_daemon(server, doors->sockets[doors->count - 1]))
        doors->count--;
    if (doors->count == 0)
        return true;
    if (errno == 0)
        errno = ENOMEM;
    return false;
}

view_server *view_server_start(const view_content *content, const view_address *address,
                               view_doors *doors)
{
    view_server *server = calloc(1, sizeof *server);
    bool is_running = false;
    if (server != NULL) {
        server->content = *content;
        server->address = *address;
        is_running = start(server, doors);
    }
    if (is_running)
        return server;
    int reason = errno;
    view_listen_close(doors);
    view_server_stop(server);
    errno = reason;
    return NULL;
}

const char *view_server_url(const view_server *server)
{
    return server->url;
}

void view_server_wait(const view_server *server)
{
    int which = 0;
    while (sigwait(&server->ending_signals, &which) == EINTR)
        continue;
}

void view_server_stop(view_server *server)
{
    for (size_t i = 0; server != NULL && i < server->daemon_count; i++)
        MHD_stop_daemon(server->daemons[i]);
    free(server);
}
