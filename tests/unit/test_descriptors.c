/* test_descriptors.c - file descriptors that go from one process to another over a socket. */
#include "descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_here.h"

enum { LONGEST_CHILD_S = 100, MORE_THAN_PEERS = 100, MESSAGE_BYTES = 256 };

/* ---- files to be sent ------------------------------------------------------------------------ */

typedef struct files {
    int *list;
    size_t count;
    vramwise_descriptor_offer offer;
} files;

static int new_file(void)
{
    int file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return file >= 0 ? file : fileno(tmpfile());
}

static files offer_files(size_t count)
{
    files made = {.count = count};
    made.list = calloc(count, sizeof(int));
    assert_non_null(made.list);
    int one = new_file();
    for (size_t i = 0; i < count; i++)
        made.list[i] = i == 0 ? one : fcntl(one, F_DUPFD_CLOEXEC, 0);
    assert_true(vramwise_descriptors_offer(made.list, count, &made.offer));
    return made;
}

static void close_all(const int *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(close(list[i]), 0);
}

static void withdraw_files(files *some)
{
    vramwise_descriptors_withdraw(some->offer.number);
    close_all(some->list, some->count);
    free(some->list);
}

static bool are_same_file(int one, int other)
{
    struct stat first, second;
    return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_ino == second.st_ino &&
           first.st_dev == second.st_dev;
}

/* The serving thread's own sockets come and go: they have the name that it serves. */
static bool is_served_socket(int file)
{
    struct sockaddr_un name;
    socklen_t length = sizeof name;
    return getsockname(file, (struct sockaddr *)&name, &length) == 0 &&
           length > offsetof(struct sockaddr_un, sun_path);
}

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    for (const struct dirent *each; (each = readdir(all)) != NULL;) {
        int file = atoi(each->d_name);
        count += fcntl(file, F_GETFD) >= 0 && !is_served_socket(file);
    }
    closedir(all);
    return count;
}

/* True if `count` files like the first of `some` come. */
static bool can_fetch(const files *some)
{
    char message[MESSAGE_BYTES] = "";
    int *got = calloc(some->count, sizeof(int));
    bool is_fetched =
        vramwise_descriptors_fetch(&some->offer, got, some->count, message, sizeof message);
    for (size_t i = 0; i < some->count && is_fetched; i++) {
        assert_true(are_same_file(got[i], some->list[0]));
        assert_int_equal(fcntl(got[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    }
    if (is_fetched)
        close_all(got, some->count);
    free(got);
    return is_fetched;
}

static void expect_refused(const vramwise_descriptor_offer *offer, size_t count, const char *part)
{
    char message[MESSAGE_BYTES] = "";
    int *got = calloc(count, sizeof(int));
    size_t before = open_descriptors();
    assert_false(vramwise_descriptors_fetch(offer, got, count, message, sizeof message));
    assert_int_equal(open_descriptors(), before);
    if (strstr(message, part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, message);
    free(got);
}

/* What `body` answers in a child of its own, made by fork(). */
static int in_child(int (*body)(const files *), const files *argument)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(LONGEST_CHILD_S);
        _exit(body(argument));
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* ---- who asks gets --------------------------------------------------------------------------- */

static int fetch_here(const files *some)
{
    return can_fetch(some) ? 0 : 1;
}

static void another_process_gets_what_was_offered(void **state)
{
    (void)state;
    files one = offer_files(1), three = offer_files(3);
    assert_true(one.offer.number != three.offer.number);
    assert_int_equal(in_child(fetch_here, &three), 0);
    assert_int_equal(in_child(fetch_here, &one), 0);
    withdraw_files(&one);
    assert_true(can_fetch(&three));
    withdraw_files(&three);
}

static void more_than_a_packet_comes_in_several(void **state)
{
    (void)state;
    const size_t sizes[] = {VW__DESCRIPTORS_PER_PACKET, VW__DESCRIPTORS_PER_PACKET + 1, 430};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        files many = offer_files(sizes[i]);
        assert_true(can_fetch(&many));
        withdraw_files(&many);
    }
}

static void what_is_withdrawn_is_gone(void **state)
{
    (void)state;
    files some = offer_files(2);
    vramwise_descriptor_offer offer = some.offer;
    withdraw_files(&some);
    expect_refused(&offer, 2, "the sender has freed it");
    vramwise_descriptors_withdraw(offer.number); /* twice does nothing */
    offer.number += 1000;
    expect_refused(&offer, 2, "the sender has freed it");
}

static void another_number_of_them_is_refused(void **state)
{
    (void)state;
    files some = offer_files(3);
    expect_refused(&some.offer, 2, "another number of descriptors");
    expect_refused(&some.offer, 4, "another number of descriptors");
    withdraw_files(&some);
}

static void nobody_answers_for_a_key_that_is_none(void **state)
{
    (void)state;
    const vramwise_descriptor_offer none = {.key = {0}, .number = 1};
    expect_refused(&none, 1, "nobody serves its socket here");
}

/* ---- peers that do not behave ---------------------------------------------------------------- */

static int connect_as_peer(const vramwise_descriptor_offer *offer)
{
    struct sockaddr_un address;
    socklen_t length = vw__descriptors_address(offer->key, &address);
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(file >= 0);
    assert_int_equal(connect(file, (const struct sockaddr *)&address, length), 0);
    return file;
}

static void expect_hung_up(int file)
{
    char byte;
    assert_true(recv(file, &byte, 1, 0) <= 0);
    close(file);
}

static void silent_peers_keep_nobody_waiting(void **state)
{
    (void)state;
    files some = offer_files(2);
    int silent[MORE_THAN_PEERS];
    for (int i = 0; i < MORE_THAN_PEERS; i++)
        silent[i] = connect_as_peer(&some.offer);
    assert_true(can_fetch(&some));
    for (int i = 0; i < MORE_THAN_PEERS; i++)
        close(silent[i]);
    withdraw_files(&some);
}

static void who_sends_anything_else_is_hung_up_on(void **state)
{
    (void)state;
    files some = offer_files(2);
    vw__descriptors_request wrong = vw__descriptors_ask(&some.offer, 0);
    wrong.magic++;
    char much[4096] = "GET / HTTP/1.1";
    int short_one = connect_as_peer(&some.offer), long_one = connect_as_peer(&some.offer),
        other_one = connect_as_peer(&some.offer);
    assert_int_equal(send(short_one, much, 3, MSG_NOSIGNAL), 3);
    expect_hung_up(short_one);
    assert_int_equal(send(long_one, much, sizeof much, MSG_NOSIGNAL), sizeof much);
    expect_hung_up(long_one);
    assert_int_equal(send(other_one, &wrong, sizeof wrong, MSG_NOSIGNAL), sizeof wrong);
    expect_hung_up(other_one);
    assert_true(can_fetch(&some));
    withdraw_files(&some);
}

/* The socket's name is in /proc/net/unix, for every container that has the same network. */
static void who_knows_only_the_name_gets_nothing(void **state)
{
    (void)state;
    files some = offer_files(2);
    vramwise_descriptor_offer guessed = some.offer;
    for (size_t i = VW__DESCRIPTORS_NAME_BYTES; i < VRAMWISE_DESCRIPTOR_KEY_BYTES; i++) {
        guessed = some.offer;
        guessed.key[i] ^= 1;
        const vw__descriptors_request request = vw__descriptors_ask(&guessed, 0);
        int file = connect_as_peer(&guessed);
        assert_int_equal(send(file, &request, sizeof request, MSG_NOSIGNAL), sizeof request);
        expect_hung_up(file);
    }
    expect_refused(&guessed, 2, "its socket hung up");
    assert_true(can_fetch(&some));
    withdraw_files(&some);
}

static void the_name_does_not_tell_the_secret(void **state)
{
    (void)state;
    struct sockaddr_un address;
    const uint8_t key[VRAMWISE_DESCRIPTOR_KEY_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 0xab, 0xcd, 0xef};
    socklen_t length = vw__descriptors_address(key, &address);
    assert_string_equal(address.sun_path + 1, "vramwise-share/0102030405060708");
    assert_int_equal(length, offsetof(struct sockaddr_un, sun_path) + 1 +
                                 strlen("vramwise-share/0102030405060708"));
}

/* It asks again and again and takes no answer, until there is no room for one. */
static void who_does_not_take_answers_is_hung_up_on(void **state)
{
    (void)state;
    files some = offer_files(1);
    const vw__descriptors_request request = vw__descriptors_ask(&some.offer, 0);
    int file = connect_as_peer(&some.offer);
    while (send(file, &request, sizeof request, MSG_NOSIGNAL) == (ssize_t)sizeof request)
        continue;
    assert_true(can_fetch(&some));
    close(file);
    withdraw_files(&some);
}

static void numbers_beyond_the_offer_are_answered_with_nothing(void **state)
{
    (void)state;
    files some = offer_files(2);
    int file = connect_as_peer(&some.offer);
    const uint32_t firsts[] = {2, 3, UINT32_MAX};
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
        const vw__descriptors_request request = vw__descriptors_ask(&some.offer, firsts[i]);
        vw__descriptors_answer answer = {.is_known = 77};
        assert_int_equal(send(file, &request, sizeof request, 0), sizeof request);
        assert_int_equal(recv(file, &answer, sizeof answer, 0), sizeof answer);
        assert_int_equal(answer.is_known, 0);
        assert_int_equal(answer.count, 0);
    }
    close(file);
    withdraw_files(&some);
}

static int fetch_as_another_user(const files *some)
{
    char message[MESSAGE_BYTES] = "";
    int got[2];
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)
        return 2;
    bool is_fetched = vramwise_descriptors_fetch(&some->offer, got, 2, message, sizeof message);
    return !is_fetched && strstr(message, "another user's") != NULL ? 0 : 1;
}

/* And one that asks all the same. */
static int ask_as_another_user(const files *some)
{
    const vw__descriptors_request request = vw__descriptors_ask(&some->offer, 0);
    char byte;
    if (setresuid(65534, 65534, 65534) != 0)
        return 2;
    int file = connect_as_peer(&some->offer);
    (void)!send(file, &request, sizeof request, MSG_NOSIGNAL);
    return recv(file, &byte, 1, 0) <= 0 ? 0 : 1;
}

static void other_users_get_nothing(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can be somebody else */
    files some = offer_files(2);
    assert_int_equal(in_child(fetch_as_another_user, &some), 0);
    assert_int_equal(in_child(ask_as_another_user, &some), 0);
    assert_true(can_fetch(&some));
    withdraw_files(&some);
}

/* ---- servers that do not behave -------------------------------------------------------------- */

typedef struct lie {
    uint32_t magic;
    uint32_t is_known, count, total;
    int sent; /* descriptors that come with it */
    size_t size_bytes;
    const char *expected;
} lie;

static void tell(int file, const lie *words)
{
    vw__descriptors_room room;
    char bytes[64] = "";
    const vw__descriptors_answer answer = {words->magic, words->is_known, words->count,
                                           words->total};
    memcpy(bytes, &answer, sizeof answer);
    struct iovec vector = {bytes, words->size_bytes};
    struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1};
    memset(&room, 0, sizeof room);
    if (words->sent != 0) {
        header.msg_control = room.bytes;
        header.msg_controllen = CMSG_SPACE((size_t)words->sent * sizeof(int));
        struct cmsghdr *part = CMSG_FIRSTHDR(&header);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN((size_t)words->sent * sizeof(int));
        for (int i = 0; i < words->sent; i++)
            memcpy(CMSG_DATA(part) + (size_t)i * sizeof(int), &(int){0}, sizeof(int));
    }
    (void)!sendmsg(file, &header, MSG_NOSIGNAL);
}

static const uint8_t liars_key[VRAMWISE_DESCRIPTOR_KEY_BYTES] = "a liar's socket";

static int open_liars_socket(int backlog, vramwise_descriptor_offer *offer)
{
    struct sockaddr_un address;
    socklen_t length = vw__descriptors_address(liars_key, &address);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listener, backlog), 0);
    *offer = (vramwise_descriptor_offer){.number = 1};
    memcpy(offer->key, liars_key, sizeof liars_key);
    return listener;
}

static void lie_in_child(int listener, const lie *words)
{
    char request[64];
    alarm(LONGEST_CHILD_S);
    int file = accept(listener, NULL, NULL);
    if (recv(file, request, sizeof request, 0) > 0)
        tell(file, words);
    (void)!recv(file, request, sizeof request, 0); /* until it is closed */
    _exit(0);
}

static void answers_that_do_not_fit_are_refused_and_closed(void **state)
{
    (void)state;
    const uint32_t magic = VW__DESCRIPTORS_MAGIC;
    const size_t whole = sizeof(vw__descriptors_answer);
    const lie lies[] = {
        {magic + 1, 1, 1, 2, 1, whole, "another version's language"},
        {magic, 1, 1, 2, 1, whole - 1, "another version's language"},
        {magic, 1, 1, 2, 1, whole + 8, "another version's language"},
        {magic, 1, 1, 2, 1, 0, "another version's language"},
        {magic, 1, 1, 2, 2, whole, "another number of descriptors"},
        {magic, 1, 3, 2, 3, whole, "another number of descriptors"},
        {magic, 1, 0, 2, 0, whole, "another number of descriptors"},
        {magic, 1, 2, 3, 2, whole, "another number of descriptors"},
        {magic, 0, 1, 2, 1, whole, "the sender has freed it"},
    };
    vramwise_descriptor_offer offer;
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        int listener = open_liars_socket(1, &offer);
        pid_t child = fork();
        if (child == 0)
            lie_in_child(listener, &lies[i]);
        expect_refused(&offer, 2, lies[i].expected);
        close(listener);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
}

/* A server that ends in the middle: every attempt is made, and none is left open. */
static void a_server_that_hangs_up_is_given_up(void **state)
{
    (void)state;
    vramwise_descriptor_offer offer;
    int listener = open_liars_socket(1, &offer);
    pid_t child = fork();
    if (child == 0) {
        alarm(LONGEST_CHILD_S);
        for (;;)
            close(accept(listener, NULL, NULL));
    }
    expect_refused(&offer, 2, "its socket hung up");
    kill(child, SIGKILL);
    close(listener);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* The first peer has the only place in the queue, and its request is never read; the second finds
 * no place. Both give up. */
static void who_is_never_answered_gives_up(void **state)
{
    (void)state;
    vramwise_descriptor_offer offer;
    int listener = open_liars_socket(0, &offer);
    pid_t first = fork();
    if (first == 0) {
        expect_refused(&offer, 2, "its socket did not answer for");
        _exit(0);
    }
    struct pollfd arrival = {listener, POLLIN, 0};
    assert_int_equal(poll(&arrival, 1, LONGEST_CHILD_S * 1000), 1);
    expect_refused(&offer, 2, "its socket took no connection for");
    int status = -1;
    assert_int_equal(waitpid(first, &status, 0), first);
    assert_int_equal(status, 0);
    close(listener);
}

/* ---- too few descriptors --------------------------------------------------------------------- */

static int fetch_without_room(const files *some)
{
    char message[MESSAGE_BYTES] = "";
    int got[100];
    const struct rlimit few = {40, 40};
    for (int file = 3; file < 1024; file++)
        close(file);
    if (setrlimit(RLIMIT_NOFILE, &few) != 0)
        return 2;
    size_t before = open_descriptors();
    if (vramwise_descriptors_fetch(&some->offer, got, 100, message, sizeof message))
        return 3;
    if (strstr(message, "no descriptors left") == NULL)
        return 4;
    return open_descriptors() == before ? 0 : 5;
}

static void a_receiver_without_room_keeps_nothing(void **state)
{
    (void)state;
    files many = offer_files(100);
    assert_int_equal(in_child(fetch_without_room, &many), 0);
    assert_true(can_fetch(&many));
    withdraw_files(&many);
}

/* A process that has no descriptor left cannot accept anybody; once it has, it does. */
static int serve_without_room(const files *none)
{
    int taken[64], count = 0;
    const struct rlimit few = {40, 40};
    (void)none;
    for (int file = 3; file < 1024; file++)
        close(file);
    files some = offer_files(2);
    int peer = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); /* and then there is none left */
    if (setrlimit(RLIMIT_NOFILE, &few) != 0)
        return 2;
    while (count < 64 && (taken[count] = dup(0)) >= 0)
        count++;
    struct sockaddr_un address;
    socklen_t length = vw__descriptors_address(some.offer.key, &address);
    const vw__descriptors_request request = vw__descriptors_ask(&some.offer, 0);
    vw__descriptors_answer answer = {.count = 0};
    if (connect(peer, (const struct sockaddr *)&address, length) != 0 ||
        send(peer, &request, sizeof request, 0) != (ssize_t)sizeof request)
        return 3;
    if (recv(peer, &answer, sizeof answer, MSG_DONTWAIT) != -1)
        return 4;
    close_all(taken, (size_t)count);
    if (recv(peer, &answer, sizeof answer, 0) != (ssize_t)sizeof answer)
        return 5;
    return answer.count == 2 ? 0 : 6;
}

static void a_sender_without_room_serves_once_it_has_some(void **state)
{
    (void)state;
    assert_int_equal(in_child(serve_without_room, NULL), 0);
}

/* ---- fork ------------------------------------------------------------------------------------ */

static int serve_in_child(const files *parents)
{
    files own = offer_files(2);
    if (memcmp(own.offer.key, parents->offer.key, sizeof own.offer.key) == 0)
        return 1; /* a socket of its own */
    if (!can_fetch(&own) || !can_fetch(parents))
        return 2;
    withdraw_files(&own);
    return 0;
}

static void a_child_serves_itself_and_the_parent_goes_on(void **state)
{
    (void)state;
    files some = offer_files(2);
    assert_int_equal(in_child(serve_in_child, &some), 0);
    assert_true(can_fetch(&some));
    withdraw_files(&some);
}

/* A child that outlives its parent does not hold the parent's socket: nobody waits there. */
static void the_parents_socket_ends_with_the_parent(void **state)
{
    (void)state;
    int up[2], down[2];
    vramwise_descriptor_offer offer;
    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    pid_t parent = fork();
    if (parent == 0) {
        alarm(LONGEST_CHILD_S);
        files own = offer_files(1);
        if (fork() == 0) { /* lives until the test has looked */
            char byte;
            close(down[1]);
            alarm(LONGEST_CHILD_S);
            (void)!write(up[1], &own.offer, sizeof own.offer);
            (void)!read(down[0], &byte, 1);
            _exit(0);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    assert_int_equal(read(up[0], &offer, sizeof offer), sizeof offer);
    expect_refused(&offer, 1, "nobody serves its socket here");
    close_all((int[]){up[0], up[1], down[0], down[1]}, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_process_gets_what_was_offered),
        cmocka_unit_test(more_than_a_packet_comes_in_several),
        cmocka_unit_test(what_is_withdrawn_is_gone),
        cmocka_unit_test(another_number_of_them_is_refused),
        cmocka_unit_test(nobody_answers_for_a_key_that_is_none),
        cmocka_unit_test(silent_peers_keep_nobody_waiting),
        cmocka_unit_test(who_sends_anything_else_is_hung_up_on),
        cmocka_unit_test(who_knows_only_the_name_gets_nothing),
        cmocka_unit_test(the_name_does_not_tell_the_secret),
        cmocka_unit_test(who_does_not_take_answers_is_hung_up_on),
        cmocka_unit_test(numbers_beyond_the_offer_are_answered_with_nothing),
        cmocka_unit_test(other_users_get_nothing),
        cmocka_unit_test(answers_that_do_not_fit_are_refused_and_closed),
        cmocka_unit_test(a_server_that_hangs_up_is_given_up),
        cmocka_unit_test(who_is_never_answered_gives_up),
        cmocka_unit_test(a_receiver_without_room_keeps_nothing),
        cmocka_unit_test(a_sender_without_room_serves_once_it_has_some),
        cmocka_unit_test(a_child_serves_itself_and_the_parent_goes_on),
        cmocka_unit_test(the_parents_socket_ends_with_the_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
