/* test_serve_listen.c - free ports, ports that are taken, and both addresses of localhost. */
#include "cli/serve_listen.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "support/cmocka_here.h"

static serve_address at(const char *text)
{
    serve_address address;
    assert_true(serve_address_parse(text, &address));
    return address;
}

/* Listens at one address alone; skips the test where there is no such address. */
static serve_doors take(serve_address *address)
{
    serve_doors doors;
    serve_address failed;
    if (!serve_listen_open(address, &doors, &failed)) {
        assert_true(errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT);
        skip();
    }
    return doors;
}

static void a_free_port_is_found(void **state)
{
    (void)state;
    serve_address first = at("0"), second = at("127.0.0.1:0");
    serve_doors doors = take(&first), others = take(&second);
    assert_int_not_equal(first.port, 0);
    assert_int_not_equal(second.port, 0);
    assert_int_not_equal(first.port, second.port);
    assert_true(doors.count >= 1);
    assert_int_equal(others.count, 1);
    serve_listen_close(&doors);
    serve_listen_close(&others);
}

static size_t open_file_count(void)
{
    enum { MOST_FILES = 256 };
    size_t count = 0;
    for (int i = 0; i < MOST_FILES; i++)
        count += fcntl(i, F_GETFD) != -1;
    return count;
}

/* Wants localhost at a port that is taken at one of its addresses; `failed` is where that was. */
static serve_address want_what_is_taken(const char *taken_at)
{
    serve_address taken = at(taken_at), wanted = at("0"), failed;
    serve_doors doors = take(&taken), others;
    wanted.port = taken.port;
    assert_false(serve_listen_open(&wanted, &others, &failed));
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(others.count, 0);
    assert_int_equal(failed.port, taken.port);
    serve_listen_close(&doors);
    return failed;
}

static void assert_taken(const char *taken_at, const char *failed_text)
{
    enum { MOST_TRIES = 8 }; /* another program may have the port at the other address */
    const size_t open_before = open_file_count();
    serve_address failed = want_what_is_taken(taken_at);
    for (int i = 1; i < MOST_TRIES && strcmp(failed.text, failed_text) != 0; i++)
        failed = want_what_is_taken(taken_at);
    assert_string_equal(failed.text, failed_text);
    assert_int_equal(open_file_count(), open_before);
}

static void a_port_that_is_taken_is_refused(void **state)
{
    (void)state;
    assert_taken("127.0.0.1:0", "127.0.0.1");
}

static void a_port_that_is_taken_at_the_other_address_is_refused(void **state)
{
    (void)state;
    assert_taken("[::1]:0", "::1");
}

static void an_address_of_another_machine_is_refused(void **state)
{
    (void)state;
    serve_address address = at("192.0.2.1:0"), failed; /* reserved for documentation */
    serve_doors doors;
    assert_false(serve_listen_open(&address, &doors, &failed));
    assert_int_equal(errno, EADDRNOTAVAIL);
    assert_string_equal(failed.text, "192.0.2.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_free_port_is_found),
        cmocka_unit_test(a_port_that_is_taken_is_refused),
        cmocka_unit_test(a_port_that_is_taken_at_the_other_address_is_refused),
        cmocka_unit_test(an_address_of_another_machine_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
