/* view_address.h - where a page is served: what --serve names, and which requests are meant for it.
 *
 * Only this machine's own address unless the user names another: a recording shows paths and names
 * of a program, and that is nobody else's business.
 *
 * A request says in its Host header whom it thinks it talks to. A web page of somebody else's can
 * have a name of its own resolve to 127.0.0.1 and then read what is served there, as if it were its
 * own; the Host header of such a request has that name, and it is refused. The port may differ:
 * that is how a forwarded one (ssh -L) looks, and no name is trusted for its port. */
#ifndef HEADROOM_CLI_VIEW_ADDRESS_H
#define HEADROOM_CLI_VIEW_ADDRESS_H

#include <arpa/inet.h> /* INET6_ADDRSTRLEN */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum view_reach {
    VIEW_REACH_LOCALHOST, /* no address was named: 127.0.0.1, and ::1 where there is one */
    VIEW_REACH_LOOPBACK,  /* one address, of this machine alone */
    VIEW_REACH_NETWORK,   /* one address that others can reach */
    VIEW_REACH_EVERY,     /* 0.0.0.0 or ::, all addresses of this machine */
} view_reach;

typedef struct view_address {
    view_reach reach;
    bool is_ipv6;
    char text[INET6_ADDRSTRLEN]; /* the address in its usual form, without brackets */
    uint16_t port;               /* 0: any that is free */
} view_address;

#define VIEW_ADDRESS_EXPECTED                                                                      \
    "a port, such as 8080, or an address and a port, such as 127.0.0.1:8080"

/* "8080", "127.0.0.1:8080", "[::1]:8080" or "localhost:8080"; NULL is localhost and port 0. false
 * for anything else, with `*out` untouched. */
bool view_address_parse(const char *text, view_address *out);

/* Is it one of the above? For a value that may be left out. */
bool view_address_is_one(const char *text);

/* Is a request with that Host header ("127.0.0.1:8080"; NULL: none) meant for `address`? */
bool view_address_is_meant(const view_address *address, const char *host_header);

/* How a URL names it: "127.0.0.1", "[::1]", or this machine's name. */
#define VIEW_HOST_BYTES 256
void view_address_host(const view_address *address, char host[VIEW_HOST_BYTES]);

#endif /* HEADROOM_CLI_VIEW_ADDRESS_H */
