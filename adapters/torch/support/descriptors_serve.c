/* descriptors_serve.c - the offering end: a socket, a thread, and what is offered.
 *
 * The thread waits for the socket and for its peers, and answers one packet at a time; it never
 * waits for a peer. Whoever sends anything but a request, or does not take an answer, is hung up
 * on. Peers that ask nothing keep their connection until another needs the place: then the one that
 * was silent for the longest goes. So one that hangs, or many, keep nobody else from being served.
 *
 * A child of fork() has the descriptors, but not the thread: it closes the socket, or others would
 * wait there for an answer after the parent's end. */
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    MOST_PEERS = 64,
    BACKLOG = 128,
    REST_MS = 100 /* where the process has no descriptor left to accept with */
};

typedef struct offered {
    struct offered *next;
    uint64_t number;
    size_t count;
    int files[]; /* the caller's */
} offered;

typedef struct peer {
    int file;
    uint64_t heard_at; /* by `turn` */
} peer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static peer peers[MOST_PEERS]; /* written by the thread alone, which reads them without the lock */
static size_t peer_count;
static uint64_t turn;
static offered *offers;
static uint64_t last_number;
static int listener = -1; /* -1: nothing is served */
static uint8_t key[VRAMWISE_DESCRIPTOR_KEY_BYTES];

/* ---- one answer ------------------------------------------------------------------------------ */

static const offered *find_offer(uint64_t number)
{
    const offered *each = offers;
    while (each != NULL && each->number != number)
        each = each->next;
    return each;
}

static bool send_answer(int file, const vw__descriptors_answer *answer, const int *files)
{
    vw__descriptors_room room;
    struct iovec words = {(void *)(uintptr_t)answer, sizeof *answer};
    struct msghdr header = {.msg_iov = &words, .msg_iovlen = 1};
    if (answer->count != 0) {
        size_t bytes = answer->count * sizeof(int);
        memset(&room, 0, sizeof room);
        header.msg_control = room.bytes;
        header.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *part = CMSG_FIRSTHDR(&header);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(part), files, bytes);
    }
    return sendmsg(file, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof *answer;
}

/* Under the lock, so that what is sent is not closed meanwhile. */
static bool answer(int file, const vw__descriptors_request *request)
{
    vw__descriptors_answer words = {.magic = VW__DESCRIPTORS_MAGIC};
    pthread_mutex_lock(&lock);
    const offered *found = find_offer(request->number);
    const int *files = NULL;
    if (found != NULL && request->first < found->count) {
        size_t rest = found->count - request->first;
        words.is_known = 1;
        words.total = (uint32_t)found->count;
        words.count =
            (uint32_t)(rest < VW__DESCRIPTORS_PER_PACKET ? rest : VW__DESCRIPTORS_PER_PACKET);
        files = found->files + request->first;
    }
    bool is_sent = send_answer(file, &words, files);
    pthread_mutex_unlock(&lock);
    return is_sent;
}

/* Takes as long for a guess that begins right as for any other. */
static bool is_secret(const uint8_t given[VW__DESCRIPTORS_SECRET_BYTES])
{
    unsigned difference = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < VW__DESCRIPTORS_SECRET_BYTES; i++)
        difference |= (unsigned)(given[i] ^ key[VW__DESCRIPTORS_NAME_BYTES + i]);
    pthread_mutex_unlock(&lock);
    return difference == 0;
}

/* False: to be hung up on. */
static bool serve_peer(int file)
{
    vw__descriptors_request request;
    ssize_t size = recv(file, &request, sizeof request, MSG_DONTWAIT | MSG_TRUNC);
    if (size < 0)
        return errno == EAGAIN || errno == EINTR;
    return size == (ssize_t)sizeof request && request.magic == VW__DESCRIPTORS_MAGIC &&
           is_secret(request.secret) && answer(file, &request);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Under the lock: a child of fork() must not close what was closed, and is another's by now. */
static void hang_up(size_t which)
{
    close(peers[which].file);
    peers[which] = peers[--peer_count];
}

static void make_place(void)
{
    size_t longest = 0;
    if (peer_count < MOST_PEERS)
        return;
    for (size_t i = 1; i < peer_count; i++)
        if (peers[i].heard_at < peers[longest].heard_at)
            longest = i;
    hang_up(longest);
}

static void serve_or_hang_up(size_t which)
{
    peers[which].heard_at = ++turn;
    if (serve_peer(peers[which].file))
        return;
    pthread_mutex_lock(&lock);
    hang_up(which);
    pthread_mutex_unlock(&lock);
}

/* Under the lock. False: no descriptor is left for it. */
static bool accept_peer(int socket_file)
{
    int file = accept4(socket_file, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (file < 0)
        return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    if (!vw__descriptors_is_our_user(file)) {
        close(file);
        return true;
    }
    make_place();
    peers[peer_count++] = (peer){file, ++turn};
    return true;
}

static void *serve(void *context)
{
    int socket_file = (int)(intptr_t)context;
    bool is_resting = false;
    pthread_setname_np(pthread_self(), "vramwise-share");
    for (;;) {
        struct pollfd waits[1 + MOST_PEERS] = {{is_resting ? -1 : socket_file, POLLIN, 0}};
        for (size_t i = 0; i < peer_count; i++)
            waits[1 + i] = (struct pollfd){peers[i].file, POLLIN, 0};
        if (poll(waits, 1 + (nfds_t)peer_count, is_resting ? REST_MS : -1) < 0)
            continue;
        is_resting = false;
        for (size_t i = peer_count; i-- > 0;) /* hang_up() moves the last one only */
            if (waits[1 + i].revents != 0)
                serve_or_hang_up(i);
        if (waits[0].revents == 0)
            continue;
        pthread_mutex_lock(&lock);
        is_resting = !accept_peer(socket_file);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* ---- beginning, and the child of fork() ------------------------------------------------------ */

static void hold(void)
{
    pthread_mutex_lock(&lock);
}

static void let_go(void)
{
    pthread_mutex_unlock(&lock);
}

static void forget_in_child(void)
{
    while (peer_count > 0)
        close(peers[--peer_count].file);
    if (listener >= 0)
        close(listener);
    listener = -1;
    memset(key, 0, sizeof key);
    while (offers != NULL) {
        offered *each = offers;
        offers = each->next;
        free(each);
    }
    let_go();
}

static void watch_forks(void)
{
    pthread_atfork(hold, let_go, forget_in_child);
}

static int open_listener(const uint8_t its_key[VRAMWISE_DESCRIPTOR_KEY_BYTES])
{
    struct sockaddr_un address;
    socklen_t length = vw__descriptors_address(its_key, &address);
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file >= 0 && (bind(file, (const struct sockaddr *)&address, length) != 0 ||
                      listen(file, BACKLOG) != 0)) {
        close(file);
        file = -1;
    }
    return file;
}

/* Signals are for the program's own threads. */
static bool start_thread(int socket_file)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&thread, NULL, serve, (void *)(intptr_t)socket_file) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_started)
        pthread_detach(thread);
    return is_started;
}

/* Under the lock. */
static bool see_to_socket(void)
{
    uint8_t fresh[VRAMWISE_DESCRIPTOR_KEY_BYTES];
    if (listener >= 0)
        return true;
    if (getrandom(fresh, sizeof fresh, 0) != (ssize_t)sizeof fresh)
        return false;
    int file = open_listener(fresh);
    if (file < 0)
        return false;
    if (!start_thread(file)) {
        close(file);
        return false;
    }
    memcpy(key, fresh, sizeof key);
    listener = file;
    return true;
}

/* ---- offers ---------------------------------------------------------------------------------- */

bool vramwise_descriptors_offer(const int *files, size_t count, vramwise_descriptor_offer *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    offered *made = count <= UINT32_MAX ? malloc(sizeof *made + count * sizeof(int)) : NULL;
    pthread_mutex_lock(&lock);
    *out = (vramwise_descriptor_offer){.number = ++last_number};
    bool is_offered = made != NULL && see_to_socket();
    if (is_offered) {
        *made = (offered){.next = offers, .number = out->number, .count = count};
        memcpy(made->files, files, count * sizeof(int));
        offers = made;
        memcpy(out->key, key, sizeof key);
    }
    pthread_mutex_unlock(&lock);
    if (!is_offered)
        free(made);
    return is_offered;
}

void vramwise_descriptors_withdraw(uint64_t number)
{
    pthread_mutex_lock(&lock);
    offered **link = &offers;
    while (*link != NULL && (*link)->number != number)
        link = &(*link)->next;
    offered *gone = *link;
    if (gone != NULL)
        *link = gone->next;
    pthread_mutex_unlock(&lock);
    free(gone);
}
