/* descriptors.h - what both ends of the socket agree on: descriptors_serve.c, descriptors_fetch.c.
 *
 * The socket is abstract (no file, so nothing is left behind). A random key travels with the offer.
 * The first half of it is the socket's name: nobody can take that beforehand. Everybody in the
 * network namespace can read the name in /proc/net/unix, so each request has the other half. Both
 * ends accept only a peer of their own user (SO_PEERCRED), which alone would let in the root of
 * another container that has the same network.
 *
 * One request, one answer, as packets: which offer, and from which descriptor on; then as many
 * descriptors as a packet takes. The server keeps no state for a peer between two requests. */
#ifndef VRAMWISE_TORCH_DESCRIPTORS_H
#define VRAMWISE_TORCH_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "vramwise_torch_support.h"

#define VW__DESCRIPTORS_MAGIC UINT32_C(0x32646876) /* another one for another protocol */

enum {
    VW__DESCRIPTORS_PER_PACKET = 200, /* the kernel takes 253 */
    VW__DESCRIPTORS_NAME_BYTES = VRAMWISE_DESCRIPTOR_KEY_BYTES / 2,
    VW__DESCRIPTORS_SECRET_BYTES = VRAMWISE_DESCRIPTOR_KEY_BYTES - VW__DESCRIPTORS_NAME_BYTES,
};

typedef struct vw__descriptors_request {
    uint32_t magic;
    uint32_t first; /* how many the peer has already */
    uint64_t number;
    uint8_t secret[VW__DESCRIPTORS_SECRET_BYTES];
} vw__descriptors_request;

typedef struct vw__descriptors_answer {
    uint32_t magic;
    uint32_t is_known; /* 0: no such offer, or it has no more */
    uint32_t count;    /* of descriptors in this packet */
    uint32_t total;    /* of the offer */
} vw__descriptors_answer;

/* Room for the descriptors of a packet, aligned as the kernel wants it. */
typedef union vw__descriptors_room {
    char bytes[CMSG_SPACE(sizeof(int) * VW__DESCRIPTORS_PER_PACKET)];
    struct cmsghdr alignment;
} vw__descriptors_room;

/* A request for descriptors of the offer from `first` on. */
vw__descriptors_request vw__descriptors_ask(const vramwise_descriptor_offer *offer, uint32_t first);

/* Fills in the socket's address, and returns its length. */
socklen_t vw__descriptors_address(const uint8_t key[VRAMWISE_DESCRIPTOR_KEY_BYTES],
                                  struct sockaddr_un *address);

/* True if the process at the other end is of our user. */
bool vw__descriptors_is_our_user(int socket_file);

#endif /* VRAMWISE_TORCH_DESCRIPTORS_H */
