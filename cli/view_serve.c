/* view_serve.c - a page and its data, behind a token; see view_serve.h. */
#include "view_serve.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "serve_http.h"

enum { URL_BYTES = SERVE_HOST_BYTES + 64 };

struct view_server {
    view_content content;
    char token[VIEW_TOKEN_TEXT_BYTES];
    char url[URL_BYTES];
    serve_server *server;
    sigset_t ending_signals;
};

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

static serve_answer find_answer(void *context, const char *path)
{
    const view_server *server = context;
    const view_content *content = &server->content;
    const char *rest = behind_token(server, path);
    if (rest != NULL && strcmp(rest, "/") == 0)
        return (serve_answer){SERVE_OK, "text/html; charset=utf-8", content->page,
                              content->page_bytes, false};
    if (rest != NULL && strcmp(rest, "/data") == 0)
        return (serve_answer){SERVE_OK, "application/octet-stream", content->data,
                              content->data_bytes, false};
    return serve_answer_not_found();
}

static bool make_token(char token[VIEW_TOKEN_TEXT_BYTES])
{
    unsigned char bytes[VIEW_TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) /* so few come at once */
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static bool start(view_server *server, const serve_address *address, serve_doors *doors)
{
    char host[SERVE_HOST_BYTES];
    const serve_site site = {.context = server, .find = find_answer};
    if (!make_token(server->token)) {
        serve_listen_close(doors);
        return false;
    }
    serve_address_host(address, host);
    (void)snprintf(server->url, sizeof server->url, "http://%s:%u/%s/", host,
                   (unsigned)address->port, server->token);
    serve_block_signals(&server->ending_signals);
    server->server = serve_start(&site, address, doors);
    return server->server != NULL;
}

view_server *view_server_start(const view_content *content, const serve_address *address,
                               serve_doors *doors)
{
    view_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        serve_listen_close(doors);
        errno = ENOMEM;
        return NULL;
    }
    server->content = *content;
    if (start(server, address, doors))
        return server;
    int reason = errno;
    free(server);
    errno = reason;
    return NULL;
}

const char *view_server_url(const view_server *server)
{
    return server->url;
}

void view_server_wait(const view_server *server)
{
    serve_wait(&server->ending_signals);
}

void view_server_stop(view_server *server)
{
    serve_stop(server->server);
    free(server);
}
