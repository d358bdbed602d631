/* serve_address.h - where something is served: what --serve, --listen and --metrics name, and which
 * requests are meant for it.
 *
 * Only this machine's own address unless the user names another: a recording shows paths and names
 * of a program, which is private.
 *
 * A request says in its Host header whom it thinks it talks to. A web page of somebody else's can
 * have a name of its own resolve to 127.0.0.1 and then read what is served there, as if it were its
 * own; the Host header of such a request has that name, and it is refused. The port may differ:
 * that is how a forwarded one (ssh -L) looks, and no name is trusted for its port. */
#ifndef VRAMWISE_CLI_SERVE_ADDRESS_H
#define VRAMWISE_CLI_SERVE_ADDRESS_H

#include <arpa/inet.h> /* INET6_ADDRSTRLEN */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum serve_reach {
    SERVE_REACH_LOCALHOST, /* no address was named: 127.0.0.1, and ::1 where there is one */
    SERVE_REACH_LOOPBACK,  /* one address, of this machine alone */
    SERVE_REACH_NETWORK,   /* one address that others can reach */
    SERVE_REACH_EVERY,     /* 0.0.0.0 or ::, all addresses of this machine */
} serve_reach;

typedef struct serve_address {
    serve_reach reach;
    bool is_ipv6;
    char text[INET6_ADDRSTRLEN]; /* the address in its usual form, without brackets */
    uint16_t port;               /* 0: any that is free */
} serve_address;

#define SERVE_ADDRESS_EXPECTED                                                                     \
    "a port up to 65535, such as 8080, or an address and a port, such as 127.0.0.1:8080"

/* "8080", "127.0.0.1:8080", "[::1]:8080" or "localhost:8080"; NULL is localhost and port 0. false
 * for anything else, with `*out` untouched. */
bool serve_address_parse(const char *text, serve_address *out);

/* Is it written like one of the above, whether or not there is such a port? For a value that may be
 * left out: what looks like an address is refused as one, and not taken for a file. */
bool serve_address_looks_like_one(const char *text);

/* Is a request with that Host header ("127.0.0.1:8080"; NULL: none) meant for `address`? */
bool serve_address_is_meant(const serve_address *address, const char *host_header);

/* How a URL names it: "127.0.0.1", "[::1]", or this machine's name. */
#define SERVE_HOST_BYTES 256
void serve_address_host(const serve_address *address, char host[SERVE_HOST_BYTES]);

#endif /* VRAMWISE_CLI_SERVE_ADDRESS_H */
