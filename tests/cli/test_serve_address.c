/* test_serve_address.c - what --serve may name, and who is let in by which name. */
#include "cli/serve_address.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/cmocka_here.h"

static serve_address parsed(const char *text)
{
    serve_address address;
    if (!serve_address_parse(text, &address))
        fail_msg("'%s' was refused", text);
    return address;
}

static void assert_parsed(const char *text, serve_reach reach, const char *host, unsigned port)
{
    char url_host[SERVE_HOST_BYTES];
    serve_address address = parsed(text);
    assert_int_equal(address.reach, reach);
    assert_int_equal(address.port, port);
    serve_address_host(&address, url_host);
    assert_string_equal(url_host, host);
}

static void addresses_are_read(void **state)
{
    (void)state;
    assert_parsed(NULL, SERVE_REACH_LOCALHOST, "127.0.0.1", 0);
    assert_parsed("0", SERVE_REACH_LOCALHOST, "127.0.0.1", 0);
    assert_parsed("8080", SERVE_REACH_LOCALHOST, "127.0.0.1", 8080);
    assert_parsed("65535", SERVE_REACH_LOCALHOST, "127.0.0.1", 65535);
    assert_parsed("localhost:80", SERVE_REACH_LOCALHOST, "127.0.0.1", 80);
    assert_parsed("LocalHost:80", SERVE_REACH_LOCALHOST, "127.0.0.1", 80);
    assert_parsed("127.0.0.1:8080", SERVE_REACH_LOOPBACK, "127.0.0.1", 8080);
    assert_parsed("127.1.2.3:1", SERVE_REACH_LOOPBACK, "127.1.2.3", 1);
    assert_parsed("[::1]:8080", SERVE_REACH_LOOPBACK, "[::1]", 8080);
    assert_parsed("[0:0::1]:8080", SERVE_REACH_LOOPBACK, "[::1]", 8080);
    assert_parsed("192.168.1.7:8080", SERVE_REACH_NETWORK, "192.168.1.7", 8080);
    assert_parsed("[fe80::7]:8080", SERVE_REACH_NETWORK, "[fe80::7]", 8080);
    assert_int_equal(parsed("0.0.0.0:8080").reach, SERVE_REACH_EVERY);
    assert_int_equal(parsed("[::]:8080").reach, SERVE_REACH_EVERY);
}

static void everything_else_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        ":",
                                        ":80",
                                        "65536",
                                        "-1",
                                        "+1",
                                        "8080 ",
                                        " 8080",
                                        "000080",
                                        "127.0.0.1",
                                        "localhost",
                                        "127.0.0.1:",
                                        "1.2.3:80",
                                        "1.2.3.4.5:1",
                                        "::1",
                                        "::1:80",
                                        "[::1]",
                                        "[::1]80",
                                        "[::1:80",
                                        "[]:80",
                                        "[::1]:80:1",
                                        "example:80",
                                        "run.pickle",
                                        "1.2.3.4:x",
                                        "[127.0.0.1]:80",
                                        "127.0.0.1:65536",
                                        "[localhost]:80"};
    serve_address ignored;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (serve_address_parse(texts[i], &ignored))
            fail_msg("'%s' was accepted", texts[i]);
}

static void what_ends_in_a_port_is_meant_as_an_address(void **state)
{
    (void)state;
    assert_true(serve_address_looks_like_one("8080"));
    assert_true(serve_address_looks_like_one("99999"));
    assert_true(serve_address_looks_like_one("127.0.0.1:65536"));
    assert_true(serve_address_looks_like_one("[::1]:80"));
    assert_false(serve_address_looks_like_one("run.pickle"));
    assert_false(serve_address_looks_like_one("99999.pickle"));
    assert_false(serve_address_looks_like_one("localhost"));
    assert_false(serve_address_looks_like_one("127.0.0.1:"));
    assert_false(serve_address_looks_like_one(""));
}

static void a_host_that_is_too_long_is_refused(void **state)
{
    (void)state;
    char text[2 * SERVE_HOST_BYTES];
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 4, ":80", 4);
    serve_address address = parsed("8080");
    assert_false(serve_address_parse(text, &address));
    assert_false(serve_address_is_meant(&address, text));
}

static void assert_meant(const char *served, const char *host, bool is_meant)
{
    serve_address address = parsed(served);
    if (serve_address_is_meant(&address, host) != is_meant)
        fail_msg("served at %s, asked as %s", served, host != NULL ? host : "nobody");
}

static void only_requests_under_the_servers_own_names_are_meant(void **state)
{
    (void)state;
    assert_meant("8080", "127.0.0.1:8080", true);
    assert_meant("8080", "[::1]:8080", true);
    assert_meant("8080", "localhost:8080", true);
    assert_meant("8080", "LOCALHOST:9000", true); /* a forwarded port */
    assert_meant("8080", "localhost", true);
    assert_meant("8080", NULL, false);
    assert_meant("8080", "", false);
    assert_meant("8080", ":8080", false);
    assert_meant("8080", "attacker.example:8080", false);
    assert_meant("8080", "localhost.attacker.example:8080", false);
    assert_meant("8080", "127.0.0.1.attacker.example:8080", false);
    assert_meant("8080", "127.0.0.2:8080", false);
    assert_meant("8080", "0.0.0.0:8080", false);
    assert_meant("8080", "127.0.0.1:8080, attacker.example", false);
    assert_meant("127.0.0.1:8080", "localhost:8080", true);
    assert_meant("127.0.0.1:8080", "[::1]:8080", false);
    assert_meant("[::1]:8080", "[0::1]:8080", true);
    assert_meant("192.168.1.7:8080", "192.168.1.7:8080", true);
    assert_meant("192.168.1.7:8080", "localhost:8080", false);
    assert_meant("192.168.1.7:8080", "192.168.1.8:8080", false);
}

static void all_addresses_are_meant_by_any_number_and_this_machines_name(void **state)
{
    (void)state;
    char name[SERVE_HOST_BYTES] = "", host[SERVE_HOST_BYTES + 8];
    assert_int_equal(gethostname(name, sizeof name - 1), 0);
    (void)snprintf(host, sizeof host, "%s:8080", name);
    assert_meant("0.0.0.0:8080", host, true);
    assert_meant("0.0.0.0:8080", "10.1.2.3:8080", true);
    assert_meant("[::]:8080", "[fe80::1]:8080", true);
    assert_meant("0.0.0.0:8080", "localhost:8080", true);
    assert_meant("0.0.0.0:8080", "attacker.example:8080", false);
    assert_meant("8080", host, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(everything_else_is_refused),
        cmocka_unit_test(what_ends_in_a_port_is_meant_as_an_address),
        cmocka_unit_test(a_host_that_is_too_long_is_refused),
        cmocka_unit_test(only_requests_under_the_servers_own_names_are_meant),
        cmocka_unit_test(all_addresses_are_meant_by_any_number_and_this_machines_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
