/* serve_address.c - reads addresses, and Host headers, which are written alike. */
#include "serve_address.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h> /* strcasecmp */
#include <unistd.h>  /* gethostname */

#include "arguments.h" /* arguments_read_number */

enum { MOST_PORT_DIGITS = 5, LAST_PORT = 65535 };

/* "HOST:PORT", "[HOST]:PORT" or either without a port, in its parts. */
typedef struct host_and_port {
    char host[SERVE_HOST_BYTES]; /* without brackets */
    bool has_brackets;
    bool has_port;
    uint16_t port;
} host_and_port;

static bool read_port(const char *text, uint16_t *port)
{
    uint64_t number = 0;
    if (strlen(text) > MOST_PORT_DIGITS || !arguments_read_number(text, &number) ||
        number > LAST_PORT)
        return false;
    *port = (uint16_t)number;
    return true;
}

static bool take_apart(const char *text, host_and_port *out)
{
    const char *begin = text, *end;
    *out = (host_and_port){.has_brackets = text[0] == '['};
    if (out->has_brackets) {
        begin = text + 1;
        end = strchr(begin, ']');
    } else {
        end = text + strcspn(text, ":");
    }
    if (end == NULL || end == begin || (size_t)(end - begin) >= sizeof out->host)
        return false;
    memcpy(out->host, begin, (size_t)(end - begin));
    const char *rest = end + out->has_brackets;
    out->has_port = rest[0] == ':';
    return rest[0] == '\0' || (out->has_port && read_port(rest + 1, &out->port));
}

/* ---- addresses ------------------------------------------------------------------------------- */

static bool read_ipv4(const char *host, serve_address *out)
{
    struct in_addr binary;
    if (inet_pton(AF_INET, host, &binary) != 1 ||
        inet_ntop(AF_INET, &binary, out->text, sizeof out->text) == NULL)
        return false;
    uint32_t number = ntohl(binary.s_addr);
    out->reach = SERVE_REACH_NETWORK;
    if (number >> 24 == IN_LOOPBACKNET)
        out->reach = SERVE_REACH_LOOPBACK;
    else if (number == INADDR_ANY)
        out->reach = SERVE_REACH_EVERY;
    return true;
}

static bool read_ipv6(const char *host, serve_address *out)
{
    struct in6_addr binary;
    if (inet_pton(AF_INET6, host, &binary) != 1 ||
        inet_ntop(AF_INET6, &binary, out->text, sizeof out->text) == NULL)
        return false;
    out->is_ipv6 = true;
    out->reach = SERVE_REACH_NETWORK;
    if (IN6_IS_ADDR_LOOPBACK(&binary))
        out->reach = SERVE_REACH_LOOPBACK;
    else if (IN6_IS_ADDR_UNSPECIFIED(&binary))
        out->reach = SERVE_REACH_EVERY;
    return true;
}

/* A literal address as it stands in a URL: one of version 6 has brackets. */
static bool read_literal(const host_and_port *parts, serve_address *out)
{
    return parts->has_brackets ? read_ipv6(parts->host, out) : read_ipv4(parts->host, out);
}

static serve_address localhost(uint16_t port)
{
    return (serve_address){.reach = SERVE_REACH_LOCALHOST, .text = "127.0.0.1", .port = port};
}

bool serve_address_parse(const char *text, serve_address *out)
{
    host_and_port parts;
    serve_address found = localhost(0);
    if (text != NULL && !read_port(text, &found.port)) {
        if (!take_apart(text, &parts) || !parts.has_port)
            return false;
        bool is_localhost = !parts.has_brackets && strcasecmp(parts.host, "localhost") == 0;
        if (!is_localhost && !read_literal(&parts, &found))
            return false;
        found.port = parts.port;
    }
    *out = found;
    return true;
}

bool serve_address_looks_like_one(const char *text)
{
    const char *colon = strrchr(text, ':');
    const char *port = colon != NULL ? colon + 1 : text;
    return port[0] != '\0' && port[strspn(port, "0123456789")] == '\0';
}

/* ---- Host headers ---------------------------------------------------------------------------- */

static bool is_own_name(const char *host)
{
    char name[SERVE_HOST_BYTES] = "";
    return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' &&
           strcasecmp(host, name) == 0;
}

bool serve_address_is_meant(const serve_address *address, const char *host_header)
{
    host_and_port parts;
    serve_address asked = {.reach = SERVE_REACH_NETWORK};
    if (host_header == NULL || !take_apart(host_header, &parts))
        return false;
    if (!parts.has_brackets && strcasecmp(parts.host, "localhost") == 0)
        return address->reach != SERVE_REACH_NETWORK;
    if (!read_literal(&parts, &asked))
        return address->reach == SERVE_REACH_EVERY && !parts.has_brackets &&
               is_own_name(parts.host);
    switch (address->reach) {
    case SERVE_REACH_LOCALHOST:
        return strcmp(asked.text, "127.0.0.1") == 0 || strcmp(asked.text, "::1") == 0;
    case SERVE_REACH_EVERY:
        return true; /* no name resolves to get here */
    case SERVE_REACH_LOOPBACK:
    case SERVE_REACH_NETWORK:
        break;
    }
    return strcmp(asked.text, address->text) == 0;
}

void serve_address_host(const serve_address *address, char host[SERVE_HOST_BYTES])
{
    if (address->reach == SERVE_REACH_EVERY) {
        memset(host, 0, SERVE_HOST_BYTES);
        if (gethostname(host, SERVE_HOST_BYTES - 1) == 0 && host[0] != '\0')
            return;
    }
    (void)snprintf(host, SERVE_HOST_BYTES, address->is_ipv6 ? "[%s]" : "%s", address->text);
}
