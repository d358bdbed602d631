/* serve_clients.c - see serve_clients.h. */
#include "serve_clients.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

struct serve_client {
    serve_client *next, *previous; /* in the order of connecting */
    int socket;
    struct in6_addr address;
    bool is_leaving;  /* was shut down, and will be closed */
    uint64_t due_ms;  /* the end of its next request; UINT64_MAX: it is being answered */
    uint64_t turn_ms; /* when others come: the lowest loses its place first */
    uint64_t held_bytes;
};

void serve_clients_init(serve_clients *clients)
{
    *clients = (serve_clients){.count = 0};
    (void)pthread_mutex_init(&clients->lock, NULL); /* cannot fail without attributes */
}

void serve_clients_deinit(serve_clients *clients)
{
    (void)pthread_mutex_destroy(&clients->lock);
}

/* IPv4 as IPv6 has it. Any other kind of address is one and the same. */
static struct in6_addr address_of(const struct sockaddr *address)
{
    struct in6_addr result = IN6ADDR_ANY_INIT;
    if (address != NULL && address->sa_family == AF_INET6)
        result = ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    if (address != NULL && address->sa_family == AF_INET) {
        result.s6_addr[10] = result.s6_addr[11] = 0xFF;
        memcpy(result.s6_addr + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr,
               4);
    }
    return result;
}

static bool is_same(const struct in6_addr *one, const struct in6_addr *other)
{
    return memcmp(one, other, sizeof *one) == 0;
}

static void drop_answer(serve_clients *clients, serve_client *client)
{
    clients->held_bytes -= client->held_bytes;
    client->held_bytes = 0;
}

static void send_away(serve_clients *clients, serve_client *client)
{
    client->is_leaving = true;
    clients->count--;
    drop_answer(clients, client);
    (void)shutdown(client->socket, SHUT_RDWR);
}

static size_t count_of(const serve_clients *clients, const struct in6_addr *address)
{
    size_t count = 0;
    for (const serve_client *client = clients->first; client != NULL; client = client->next)
        count += !client->is_leaving && is_same(&client->address, address);
    return count;
}

/* The address with most clients: the first of several. Somebody is connected. */
static struct in6_addr fullest_address(const serve_clients *clients)
{
    struct in6_addr fullest = IN6ADDR_ANY_INIT;
    size_t most = 0;
    for (const serve_client *client = clients->first; client != NULL; client = client->next) {
        size_t count = client->is_leaving ? 0 : count_of(clients, &client->address);
        if (count > most) {
            most = count;
            fullest = client->address;
        }
    }
    return fullest;
}

static void send_one_away(serve_clients *clients, const struct in6_addr *address)
{
    serve_client *chosen = NULL;
    for (serve_client *client = clients->first; client != NULL; client = client->next)
        if (!client->is_leaving && is_same(&client->address, address) &&
            (chosen == NULL || client->turn_ms < chosen->turn_ms))
            chosen = client;
    if (chosen != NULL)
        send_away(clients, chosen);
}

static void make_room(serve_clients *clients, const struct in6_addr *address, uint64_t now_ms)
{
    for (serve_client *client = clients->first; client != NULL; client = client->next)
        if (!client->is_leaving && client->due_ms <= now_ms)
            send_away(clients, client);
    if (count_of(clients, address) >= SERVE_CLIENTS_MOST_OF_ADDRESS)
        send_one_away(clients, address);
    if (clients->count >= SERVE_CLIENTS_MOST) {
        struct in6_addr fullest = fullest_address(clients);
        send_one_away(clients, &fullest);
    }
}

/* The client is waited for, from now on and for so long. */
static void wait_for(serve_client *client, uint64_t now_ms, unsigned seconds)
{
    client->due_ms = now_ms + UINT64_C(1000) * seconds;
    client->turn_ms = now_ms;
}

serve_client *serve_clients_enter(serve_clients *clients, int socket,
                                  const struct sockaddr *address, uint64_t now_ms)
{
    serve_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return NULL;
    client->socket = socket;
    client->address = address_of(address);
    wait_for(client, now_ms, SERVE_CLIENTS_REQUEST_SECONDS);
    (void)pthread_mutex_lock(&clients->lock);
    make_room(clients, &client->address, now_ms);
    client->previous = clients->last;
    if (clients->last != NULL)
        clients->last->next = client;
    else
        clients->first = client;
    clients->last = client;
    clients->count++;
    (void)pthread_mutex_unlock(&clients->lock);
    return client;
}

void serve_clients_begin_answer(serve_clients *clients, serve_client *client, uint64_t now_ms)
{
    if (client == NULL)
        return;
    (void)pthread_mutex_lock(&clients->lock);
    client->due_ms = UINT64_MAX;
    client->turn_ms = now_ms + UINT64_C(1000) * SERVE_CLIENTS_ANSWER_SECONDS;
    (void)pthread_mutex_unlock(&clients->lock);
}

/* Whoever has been taking an answer for longest, but for `client`; NULL: nobody else does. */
static serve_client *slowest_but(const serve_clients *clients, const serve_client *client)
{
    serve_client *chosen = NULL;
    for (serve_client *other = clients->first; other != NULL; other = other->next)
        if (other != client && other->held_bytes != 0 &&
            (chosen == NULL || other->turn_ms < chosen->turn_ms))
            chosen = other;
    return chosen;
}

void serve_clients_hold_answer(serve_clients *clients, serve_client *client, size_t size_bytes)
{
    if (client == NULL)
        return;
    (void)pthread_mutex_lock(&clients->lock);
    drop_answer(clients, client);
    if (!client->is_leaving) {
        client->held_bytes = size_bytes;
        clients->held_bytes += size_bytes;
    }
    for (serve_client *slowest; clients->held_bytes > SERVE_CLIENTS_MOST_BYTES &&
                                (slowest = slowest_but(clients, client)) != NULL;)
        send_away(clients, slowest);
    (void)pthread_mutex_unlock(&clients->lock);
}

void serve_clients_end_answer(serve_clients *clients, serve_client *client, uint64_t now_ms)
{
    if (client == NULL)
        return;
    (void)pthread_mutex_lock(&clients->lock);
    drop_answer(clients, client);
    wait_for(client, now_ms, SERVE_CLIENTS_BETWEEN_SECONDS);
    (void)pthread_mutex_unlock(&clients->lock);
}

void serve_clients_leave(serve_clients *clients, serve_client *client)
{
    if (client == NULL)
        return;
    (void)pthread_mutex_lock(&clients->lock);
    clients->count -= !client->is_leaving;
    drop_answer(clients, client);
    if (client->previous != NULL)
        client->previous->next = client->next;
    else
        clients->first = client->next;
    if (client->next != NULL)
        client->next->previous = client->previous;
    else
        clients->last = client->previous;
    (void)pthread_mutex_unlock(&clients->lock);
    free(client);
}
