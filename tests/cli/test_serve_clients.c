/* test_serve_clients.c - who keeps its place and who loses it. The clock is the test's. */
#include "cli/serve_clients.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/cmocka_here.h"

enum { MOST = 512, SECOND = 1000 };

static serve_clients clients;
static serve_client *entered[MOST];
static int ours[MOST], theirs[MOST];
static int count;

static int set_up(void **state)
{
    (void)state;
    serve_clients_init(&clients);
    count = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < count; i++) {
        serve_clients_leave(&clients, entered[i]);
        (void)close(ours[i]);
        (void)close(theirs[i]);
    }
    assert_int_equal(clients.count, 0);
    assert_null(clients.first);
    serve_clients_deinit(&clients);
    return 0;
}

/* Connects from 10.0.0.`host`; the client's number. */
static int enter(uint8_t host, uint64_t now_ms)
{
    int pair[2];
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(0x0A000000u + host);
    assert_true(count < MOST);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    ours[count] = pair[0];
    theirs[count] = pair[1];
    entered[count] = serve_clients_enter(&clients, pair[0], (struct sockaddr *)&address, now_ms);
    assert_non_null(entered[count]);
    return count++;
}

/* The other side sees an end where we shut the socket down. */
static bool was_sent_away(int number)
{
    char byte;
    return recv(theirs[number], &byte, 1, MSG_DONTWAIT) == 0;
}

static void one_address_has_so_many_places(void **state)
{
    (void)state;
    for (int i = 0; i < SERVE_CLIENTS_MOST_OF_ADDRESS; i++)
        enter(1, (uint64_t)i);
    int other = enter(2, SECOND);
    assert_false(was_sent_away(0));
    enter(1, SECOND);
    assert_true(was_sent_away(0));
    assert_false(was_sent_away(1));
    assert_false(was_sent_away(other));
    assert_int_equal(clients.count, SERVE_CLIENTS_MOST_OF_ADDRESS + 1);
}

static void all_together_have_so_many(void **state)
{
    (void)state;
    for (int i = 0; i < SERVE_CLIENTS_MOST; i++)
        enter((uint8_t)(i % 200), (uint64_t)i);
    assert_false(was_sent_away(0));
    enter(250, SECOND);
    assert_true(was_sent_away(0));
    assert_int_equal(clients.count, SERVE_CLIENTS_MOST);
}

/* Begins the answer of all of `count` new clients of 10.0.0.`host`. */
static void enter_readers(uint8_t host, int reader_count, uint64_t now_ms)
{
    for (int i = 0; i < reader_count; i++)
        serve_clients_begin_answer(&clients, entered[enter(host, now_ms)], now_ms);
}

static void who_is_being_answered_stays_for_a_while(void **state)
{
    (void)state;
    const uint64_t safe_ms = SERVE_CLIENTS_ANSWER_SECONDS * SECOND;
    enter_readers(1, 1, 0);
    for (int i = 0; i < SERVE_CLIENTS_MOST_OF_ADDRESS; i++)
        enter(1, safe_ms - 1);
    assert_false(was_sent_away(0));
    assert_true(was_sent_away(1));
    for (int i = 0; i < SERVE_CLIENTS_MOST_OF_ADDRESS - 1; i++)
        enter(1, safe_ms + 1);
    assert_false(was_sent_away(0)); /* but its turn comes next */
    enter(1, safe_ms + 1);
    assert_true(was_sent_away(0));
}

static void answers_have_so_many_bytes_together(void **state)
{
    (void)state;
    enum { PART_BYTES = SERVE_CLIENTS_MOST_BYTES / 4 };
    enter_readers(1, 1, 2); /* the second to begin */
    enter_readers(2, 1, 1);
    enter_readers(3, 4, 3);
    for (int i = 0; i < 4; i++)
        serve_clients_hold_answer(&clients, entered[i], PART_BYTES);
    assert_false(was_sent_away(1));
    serve_clients_hold_answer(&clients, entered[4], PART_BYTES);
    assert_true(was_sent_away(1)); /* whose answer is oldest */
    assert_false(was_sent_away(0));
    assert_int_equal(clients.held_bytes, SERVE_CLIENTS_MOST_BYTES);
    serve_clients_end_answer(&clients, entered[2], 4);
    serve_clients_hold_answer(&clients, entered[5], PART_BYTES);
    assert_false(was_sent_away(0));
    assert_int_equal(clients.count, 5);
    serve_clients_hold_answer(&clients, entered[5], 2 * (size_t)SERVE_CLIENTS_MOST_BYTES);
    assert_true(was_sent_away(0) && was_sent_away(3) && was_sent_away(4));
    assert_false(was_sent_away(2) || was_sent_away(5)); /* one holds nothing, one is alone */
    serve_clients_hold_answer(&clients, entered[0],
                              PART_BYTES); /* who was sent away holds nothing */
    serve_clients_end_answer(&clients, entered[5], 5);
    assert_int_equal(clients.held_bytes, 0);
}

static void readers_that_hold_every_place_make_room_for_who_comes(void **state)
{
    (void)state;
    enter_readers(1, SERVE_CLIENTS_MOST_OF_ADDRESS, 0);
    int asking = enter(1, SECOND);
    assert_true(was_sent_away(0)); /* the first of them */
    serve_clients_begin_answer(&clients, entered[asking], SECOND);
    for (int i = 0; i < SERVE_CLIENTS_MOST_OF_ADDRESS - 1; i++)
        enter_readers(1, 1, 2 * SECOND);
    assert_false(was_sent_away(asking)); /* all that were before it went before it */
    assert_int_equal(clients.count, SERVE_CLIENTS_MOST_OF_ADDRESS);
}

static void the_address_with_most_places_gives_one_up(void **state)
{
    (void)state;
    enter_readers(9, 1, 0); /* the oldest of all, alone at its address */
    for (int i = 1; i < SERVE_CLIENTS_MOST; i++)
        enter_readers((uint8_t)(1 + i % 3), 1, SECOND);
    assert_int_equal(clients.count, SERVE_CLIENTS_MOST);
    enter(200, 2 * SECOND);
    assert_false(was_sent_away(0));
    assert_int_equal(clients.count, SERVE_CLIENTS_MOST);
}

static void who_was_answered_has_had_its_turn(void **state)
{
    (void)state;
    int first = enter(1, 0);
    serve_clients_begin_answer(&clients, entered[first], 0);
    serve_clients_end_answer(&clients, entered[first], SECOND);
    for (int i = 0; i < SERVE_CLIENTS_MOST_OF_ADDRESS - 1; i++)
        enter(1, 2 * SECOND);
    assert_false(was_sent_away(first));
    enter(1, 2 * SECOND);
    assert_true(was_sent_away(first));
}

static void whoever_is_overdue_goes_when_anybody_comes(void **state)
{
    (void)state;
    int slow = enter(1, 0), early = enter(1, 1), answered = enter(1, 0);
    serve_clients_begin_answer(&clients, entered[answered], 0);
    enter(2, SERVE_CLIENTS_REQUEST_SECONDS * SECOND);
    assert_true(was_sent_away(slow));
    assert_false(was_sent_away(early));
    assert_false(was_sent_away(answered));
    serve_clients_end_answer(&clients, entered[answered], 0);
    enter(2, SERVE_CLIENTS_BETWEEN_SECONDS * SECOND);
    assert_true(was_sent_away(answered));
}

static void who_is_not_known_changes_nothing(void **state)
{
    (void)state;
    serve_clients_begin_answer(&clients, NULL, 0);
    serve_clients_end_answer(&clients, NULL, 0);
    serve_clients_leave(&clients, NULL);
    assert_int_equal(clients.count, 0);
}

int main(void)
{
#define CONNECTED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CONNECTED(one_address_has_so_many_places),
        CONNECTED(all_together_have_so_many),
        CONNECTED(who_is_being_answered_stays_for_a_while),
        CONNECTED(answers_have_so_many_bytes_together),
        CONNECTED(readers_that_hold_every_place_make_room_for_who_comes),
        CONNECTED(the_address_with_most_places_gives_one_up),
        CONNECTED(who_was_answered_has_had_its_turn),
        CONNECTED(whoever_is_overdue_goes_when_anybody_comes),
        CONNECTED(who_is_not_known_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
