/* descriptors_fetch.c - the receiving end. What the other end says is checked: it may be a process
 * that is about to end, or not the one that it was. */
#include "descriptors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    MOST_WAIT_S = 5,   /* for a connection, and for each answer */
    MOST_ATTEMPTS = 20 /* a server with many peers may hang up on one */
};

socklen_t vw__descriptors_address(const uint8_t key[VRAMWISE_DESCRIPTOR_KEY_BYTES],
                                  struct sockaddr_un *address)
{
    char *name = address->sun_path + 1; /* after a zero: abstract */
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    size_t length = (size_t)snprintf(name, sizeof address->sun_path - 1, "vramwise-share/");
    for (size_t i = 0; i < VW__DESCRIPTORS_NAME_BYTES; i++)
        length +=
            (size_t)snprintf(name + length, sizeof address->sun_path - 1 - length, "%02x", key[i]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

vw__descriptors_request vw__descriptors_ask(const vramwise_descriptor_offer *offer, uint32_t first)
{
    vw__descriptors_request request = {VW__DESCRIPTORS_MAGIC, first, offer->number, {0}};
    memcpy(request.secret, offer->key + VW__DESCRIPTORS_NAME_BYTES, sizeof request.secret);
    return request;
}

bool vw__descriptors_is_our_user(int socket_file)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(socket_file, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           peer.uid == geteuid();
}

/* ---- the connection -------------------------------------------------------------------------- */

static int connect_to(const vramwise_descriptor_offer *offer, char *message, size_t capacity)
{
    const struct timeval most_wait = {.tv_sec = MOST_WAIT_S};
    struct sockaddr_un address;
    socklen_t length = vw__descriptors_address(offer->key, &address);
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (file < 0) {
        snprintf(message, capacity, "socket: %s", strerror(errno));
        return -1;
    }
    (void)setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &most_wait, sizeof most_wait);
    (void)setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &most_wait, sizeof most_wait);
    int result;
    do
        result = connect(file, (const struct sockaddr *)&address, length);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno == ECONNREFUSED)
        snprintf(message, capacity,
                 "nobody serves its socket here: the sender has ended, or runs in another network "
                 "namespace");
    else if (result != 0 && errno == EAGAIN)
        snprintf(message, capacity, "its socket took no connection for %d s", MOST_WAIT_S);
    else if (result != 0)
        snprintf(message, capacity, "connect: %s", strerror(errno));
    else if (!vw__descriptors_is_our_user(file))
        snprintf(message, capacity, "its socket is another user's");
    else
        return file;
    close(file);
    return -1;
}

/* ---- one packet ------------------------------------------------------------------------------ */

typedef struct packet {
    vw__descriptors_answer answer;
    int files[VW__DESCRIPTORS_PER_PACKET]; /* that came with it, `count` of them */
    size_t count;
    int cut; /* MSG_TRUNC, MSG_CTRUNC: words or descriptors that there was no room for */
} packet;

static void close_files(const int *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        close(files[i]);
}

static void take_files(struct msghdr *received, packet *got)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(received); part != NULL;
         part = CMSG_NXTHDR(received, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(got->files, CMSG_DATA(part), count * sizeof(int)); /* the kernel joins them in one */
        got->count = count;
    }
}

/* Bytes received, 0 if it was a packet without any; -1: errno says why. */
static ssize_t receive(int file, packet *got)
{
    vw__descriptors_room room;
    struct iovec words = {&got->answer, sizeof got->answer};
    struct msghdr header = {.msg_iov = &words,
                            .msg_iovlen = 1,
                            .msg_control = room.bytes,
                            .msg_controllen = sizeof room.bytes};
    *got = (packet){.count = 0};
    ssize_t size;
    do
        size = recvmsg(file, &header, MSG_CMSG_CLOEXEC);
    while (size < 0 && errno == EINTR);
    if (size >= 0) {
        take_files(&header, got);
        got->cut = header.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
    }
    return size;
}

/* A packet without bytes may have descriptors; the end of a connection has none. */
static bool is_hung_up(const packet *got, ssize_t size)
{
    return size == 0 && got->count == 0 && got->cut == 0;
}

/* What is wrong with an answer, or NULL. */
static const char *find_fault(const packet *got, ssize_t size, size_t wanted, size_t total)
{
    if (size != (ssize_t)sizeof got->answer || (got->cut & MSG_TRUNC) != 0 ||
        got->answer.magic != VW__DESCRIPTORS_MAGIC)
        return "its socket speaks another version's language";
    if (!got->answer.is_known)
        return "the sender has freed it";
    if ((got->cut & MSG_CTRUNC) != 0)
        return "this process has no descriptors left";
    if (got->count == 0 || got->count != got->answer.count || got->count > wanted ||
        got->answer.total != total)
        return "its socket sent another number of descriptors than it announced";
    return NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

typedef enum outcome { FETCHED, HUNG_UP, FAILED } outcome;

/* From `*got_count` on, which rises. */
static outcome fetch_rest(int file, const vramwise_descriptor_offer *offer, int *files,
                          size_t count, size_t *got_count, char *message, size_t capacity)
{
    while (*got_count < count) {
        const vw__descriptors_request request = vw__descriptors_ask(offer, (uint32_t)*got_count);
        packet got;
        if (send(file, &request, sizeof request, MSG_NOSIGNAL) != (ssize_t)sizeof request)
            return HUNG_UP;
        ssize_t size = receive(file, &got);
        if (is_hung_up(&got, size) || (size < 0 && errno == ECONNRESET))
            return HUNG_UP;
        if (size < 0) {
            if (errno == EAGAIN)
                snprintf(message, capacity, "its socket did not answer for %d s", MOST_WAIT_S);
            else
                snprintf(message, capacity, "recvmsg: %s", strerror(errno));
            return FAILED;
        }
        const char *fault = find_fault(&got, size, count - *got_count, count);
        if (fault != NULL) {
            snprintf(message, capacity, "%s", fault);
            close_files(got.files, got.count);
            return FAILED;
        }
        memcpy(files + *got_count, got.files, got.count * sizeof(int));
        *got_count += got.count;
    }
    return FETCHED;
}

bool vramwise_descriptors_fetch(const vramwise_descriptor_offer *offer, int *files, size_t count,
                                char *message, size_t capacity)
{
    size_t got_count = 0;
    outcome result = HUNG_UP;
    snprintf(message, capacity, "its socket hung up %d times", MOST_ATTEMPTS);
    for (int attempt = 0; attempt < MOST_ATTEMPTS && result == HUNG_UP; attempt++) {
        int file = connect_to(offer, message, capacity);
        if (file < 0)
            break;
        result = fetch_rest(file, offer, files, count, &got_count, message, capacity);
        close(file);
    }
    if (result != FETCHED)
        close_files(files, got_count);
    return result == FETCHED;
}
