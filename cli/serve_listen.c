/* serve_listen.c - see serve_listen.h. */
#include "serve_listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A free port at one address may be taken at the other; another is tried. */
enum { WAITING_CONNECTIONS = 64, MOST_TRIES = 16 };

typedef struct socket_address {
    struct sockaddr_storage storage;
    socklen_t length;
} socket_address;

static socket_address make_socket_address(const serve_address *address)
{
    socket_address made = {.length = 0};
    if (address->is_ipv6) {
        struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(address->port)};
        (void)inet_pton(AF_INET6, address->text, &six.sin6_addr); /* it was read from one */
        memcpy(&made.storage, &six, sizeof six);
        made.length = sizeof six;
    } else {
        struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(address->port)};
        (void)inet_pton(AF_INET, address->text, &four.sin_addr);
        memcpy(&made.storage, &four, sizeof four);
        made.length = sizeof four;
    }
    return made;
}

static bool find_port(int door, uint16_t *port)
{
    socket_address bound = {.length = sizeof bound.storage};
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    if (getsockname(door, (struct sockaddr *)&bound.storage, &bound.length) != 0)
        return false;
    memcpy(&four, &bound.storage, sizeof four);
    memcpy(&six, &bound.storage, sizeof six);
    *port = ntohs(bound.storage.ss_family == AF_INET6 ? six.sin6_port : four.sin_port);
    return true;
}

/* -1: errno says why. */
static int open_door(serve_address *address)
{
    const int yes = 1;
    socket_address place = make_socket_address(address);
    int door = socket(address->is_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (door < 0)
        return -1;
    /* Old connections of an earlier server do not block the port; a listening server does. */
    bool is_open = setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0;
    if (is_open && address->is_ipv6)
        is_open = setsockopt(door, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes) == 0;
    is_open = is_open && bind(door, (struct sockaddr *)&place.storage, place.length) == 0 &&
              listen(door, WAITING_CONNECTIONS) == 0 && find_port(door, &address->port);
    if (is_open)
        return door;
    int reason = errno;
    close(door);
    errno = reason;
    return -1;
}

static bool has_no_such_address(int reason)
{
    return reason == EADDRNOTAVAIL || reason == EAFNOSUPPORT || reason == EPROTONOSUPPORT;
}

static bool open_at(serve_address *address, serve_doors *doors, serve_address *failed)
{
    int door = open_door(address);
    if (door >= 0) {
        doors->sockets[doors->count++] = door;
        return true;
    }
    *failed = *address;
    return false;
}

/* Both addresses, or the one there is. */
static bool open_localhost(serve_address *address, serve_doors *doors, serve_address *failed)
{
    serve_address six = {.reach = SERVE_REACH_LOCALHOST, .is_ipv6 = true, .text = "::1"};
    if (!open_at(address, doors, failed))
        return false;
    six.port = address->port;
    if (open_at(&six, doors, failed) || has_no_such_address(errno))
        return true;
    int reason = errno;
    serve_listen_close(doors);
    errno = reason;
    return false;
}

#ifdef VW_HAS_MICROHTTPD
static const bool can_serve = true;
#else
static const bool can_serve = false;
#endif

bool serve_listen_open(serve_address *address, serve_doors *doors, serve_address *failed)
{
    const uint16_t wanted_port = address->port;
    doors->count = 0;
    if (!can_serve) {
        *failed = *address;
        errno = ENOSYS;
        return false;
    }
    if (address->reach != SERVE_REACH_LOCALHOST)
        return open_at(address, doors, failed);
    for (int tries = 1;; tries++) {
        address->port = wanted_port;
        if (open_localhost(address, doors, failed))
            return true;
        if (wanted_port != 0 || errno != EADDRINUSE || tries == MOST_TRIES)
            return false;
    }
}

void serve_listen_close(serve_doors *doors)
{
    for (size_t i = 0; i < doors->count; i++)
        close(doors->sockets[i]);
    doors->count = 0;
}

void serve_listen_explain(const char *command_name, const serve_address *where, int reason,
                          const char *advice)
{
    char host[SERVE_HOST_BYTES];
    (void)snprintf(host, sizeof host, where->is_ipv6 ? "[%s]" : "%s", where->text);
    if (reason == EADDRINUSE)
        fprintf(stderr, "vramwise %s: %s:%u is in use by another program; %s\n", command_name, host,
                (unsigned)where->port, advice);
    else if (reason == ENOSYS)
        fprintf(stderr, "vramwise %s: this build has no libmicrohttpd, which serving needs\n",
                command_name);
    else
        fprintf(stderr, "vramwise %s: cannot serve at %s:%u: %s\n", command_name, host,
                (unsigned)where->port, strerror(reason));
}
