/* test_error.c - the codes, their names, and the words of each thread's last failure. */
#include "base/error.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_here.h"

static const struct {
    vw_status status;
    int number;
    const char *name;
    const char *message;
} statuses[] = {
#define ROW(name, number, message) {name, number, #name, message},
    VW_STATUS_LIST(ROW)
#undef ROW
};

enum { STATUS_COUNT = sizeof statuses / sizeof *statuses };

static void every_status_has_a_number_and_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < STATUS_COUNT; i++) {
        assert_int_equal(statuses[i].status, statuses[i].number);
        for (int j = 0; j < i; j++) {
            assert_int_not_equal(statuses[i].number, statuses[j].number);
            assert_string_not_equal(vw_status_name(statuses[i].status),
                                    vw_status_name(statuses[j].status));
        }
    }
}

static void names_and_messages_come_from_the_list(void **state)
{
    (void)state;
    for (int i = 0; i < STATUS_COUNT; i++) {
        assert_string_equal(vw_status_name(statuses[i].status), statuses[i].name);
        assert_string_equal(vw_status_message(statuses[i].status), statuses[i].message);
        assert_true(strlen(statuses[i].message) > 0);
    }
    assert_string_equal(vw_status_name(VW_ERR_OUT_OF_MEMORY), "VW_ERR_OUT_OF_MEMORY");
}

/* Programs are built against these: a change here is a change of the major version. */
static void numbers_stay_as_they_were_released(void **state)
{
    (void)state;
    assert_int_equal(VW_OK, 0);
    assert_int_equal(VW_ERR_INVALID_ARGUMENT, 1);
    assert_int_equal(VW_ERR_UNKNOWN_ADDRESS, 2);
    assert_int_equal(VW_ERR_BAD_SETTING, 3);
    assert_int_equal(VW_ERR_UNSUPPORTED, 4);
    assert_int_equal(VW_ERR_WRONG_PROCESS, 5);
    assert_int_equal(VW_ERR_WRONG_STATE, 6);
    assert_int_equal(VW_ERR_OUT_OF_MEMORY, 10);
    assert_int_equal(VW_ERR_TOO_LARGE, 11);
    assert_int_equal(VW_ERR_HOST_MEMORY, 12);
    assert_int_equal(VW_ERR_REJECTED, 13);
    assert_int_equal(VW_ERR_PARKED, 14);
    assert_int_equal(VW_ERR_DEVICE, 20);
    assert_int_equal(VW_ERR_NO_DEVICE, 21);
    assert_int_equal(VW_ERR_NOT_READY, 22);
    assert_int_equal(VW_ERR_CORRUPT_FILE, 30);
    assert_int_equal(VW_ERR_FILE, 31);
}

static void a_number_that_is_no_status_is_named_as_such(void **state)
{
    (void)state;
    assert_string_equal(vw_status_name((vw_status)9), "VW_UNKNOWN_STATUS");
    assert_string_equal(vw_status_message((vw_status)9), "unknown status");
}

static void a_failure_returns_its_status_and_keeps_its_words(void **state)
{
    (void)state;
    assert_int_equal(vw__fail(VW_ERR_CORRUPT_FILE, "block %d of %s", 7, "this"),
                     VW_ERR_CORRUPT_FILE);
    assert_string_equal(vw_last_error(), "block 7 of this");
    assert_int_equal(vw__fail_host_memory(4096, "a test"), VW_ERR_HOST_MEMORY);
    assert_string_equal(vw_last_error(), "out of host memory: 4096 bytes for a test");
}

static void a_long_detail_is_cut_and_not_overflowed(void **state)
{
    (void)state;
    static char long_text[3 * VW__ERROR_DETAIL_BYTES];
    for (size_t i = 0; i < sizeof long_text - 1; i++)
        long_text[i] = (char)('a' + i % 26);
    for (size_t excess = 0; excess < 3; excess++) { /* one short of the edge, on it, behind it */
        const char *text = long_text + sizeof long_text - VW__ERROR_DETAIL_BYTES + 1 - excess;
        assert_int_equal(vw__fail(VW_ERR_FILE, "%s", text), VW_ERR_FILE);
        size_t kept = VW__ERROR_DETAIL_BYTES - 2 + (excess != 0);
        assert_int_equal(strlen(vw_last_error()), kept);
        assert_memory_equal(vw_last_error(), text, kept);
    }
    assert_int_equal(vw__fail(VW_ERR_FILE, "%s", long_text), VW_ERR_FILE);
    assert_int_equal(strlen(vw_last_error()), VW__ERROR_DETAIL_BYTES - 1);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct other_thread {
    bool was_empty_at_first;
    bool kept_its_own;
} other_thread;

static void *fail_elsewhere(void *context)
{
    other_thread *seen = context;
    seen->was_empty_at_first = strcmp(vw_last_error(), "") == 0;
    seen->kept_its_own = vw__fail(VW_ERR_DEVICE, "in the other thread") == VW_ERR_DEVICE &&
                         strcmp(vw_last_error(), "in the other thread") == 0;
    return NULL;
}

static void each_thread_has_a_detail_of_its_own(void **state)
{
    (void)state;
    other_thread seen = {false, false};
    pthread_t thread;
    assert_int_equal(vw__fail(VW_ERR_FILE, "in this thread"), VW_ERR_FILE);
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &seen), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(seen.was_empty_at_first);
    assert_true(seen.kept_its_own);
    assert_string_equal(vw_last_error(), "in this thread");
}

/* ---- passing on, and our own mistakes -------------------------------------------------------- */

static vw_status try_then_note(vw_status inner, bool *has_gone_on)
{
    VW__TRY(inner);
    *has_gone_on = true;
    return VW_ERR_WRONG_STATE;
}

static void a_try_passes_failure_on_and_lets_success_through(void **state)
{
    (void)state;
    bool has_gone_on = false;
    assert_int_equal(try_then_note(VW_ERR_DEVICE, &has_gone_on), VW_ERR_DEVICE);
    assert_false(has_gone_on);
    assert_int_equal(try_then_note(VW_OK, &has_gone_on), VW_ERR_WRONG_STATE);
    assert_true(has_gone_on);
}

static void a_detail_may_quote_the_one_before_it(void **state)
{
    (void)state;
    (void)vw__fail(VW_ERR_FILE, "no such place");
    (void)vw__fail(VW_ERR_FILE, "segment 3: %s", vw_last_error());
    assert_string_equal(vw_last_error(), "segment 3: no such place");
    vw_set_last_error(vw_last_error() + 9);
    assert_string_equal(vw_last_error(), ": no such place");
}

static void others_may_set_the_detail_and_a_long_one_is_cut(void **state)
{
    (void)state;
    char text[2 * VW__ERROR_DETAIL_BYTES];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    vw_set_last_error(text);
    assert_int_equal(strlen(vw_last_error()), VW__ERROR_DETAIL_BYTES - 1);
    vw_set_last_error("mine");
    assert_string_equal(vw_last_error(), "mine");
    vw_set_last_error(NULL);
    assert_string_equal(vw_last_error(), "");
}

static void a_claim_that_does_not_hold_stops_a_checked_build(void **state)
{
    (void)state;
#ifdef VW_CHECKS
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        VW_ASSERT(1 + 1 == 2);
        VW_ASSERT(1 + 1 == 3);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
#else
    print_message("skipped: VW_ASSERT does nothing without VW_CHECKS\n");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_number_and_a_name_of_its_own),
        cmocka_unit_test(names_and_messages_come_from_the_list),
        cmocka_unit_test(numbers_stay_as_they_were_released),
        cmocka_unit_test(a_number_that_is_no_status_is_named_as_such),
        cmocka_unit_test(a_failure_returns_its_status_and_keeps_its_words),
        cmocka_unit_test(a_long_detail_is_cut_and_not_overflowed),
        cmocka_unit_test(each_thread_has_a_detail_of_its_own),
        cmocka_unit_test(a_try_passes_failure_on_and_lets_success_through),
        cmocka_unit_test(a_detail_may_quote_the_one_before_it),
        cmocka_unit_test(others_may_set_the_detail_and_a_long_one_is_cut),
        cmocka_unit_test(a_claim_that_does_not_hold_stops_a_checked_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
