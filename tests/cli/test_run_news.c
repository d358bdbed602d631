/* test_run_news.c - messages of processes, well-formed and not. */
#include "cli/run_news.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"

static const char *take(run_news *news, const char *message, size_t size_bytes)
{
    char bytes[256]; /* a copy, with room for the zero that run_news_take() adds */
    assert_true(size_bytes < sizeof bytes);
    memcpy(bytes, message, size_bytes);
    return run_news_take(news, bytes, size_bytes);
}

/* A literal with the zero bytes in it. */
#define TAKE(news, literal) take(news, literal, sizeof(literal) - 1)

static void a_failure_is_kept_with_its_numbers_and_files(void **state)
{
    (void)state;
    run_news news;
    run_news_init(&news);
    assert_null(run_news_first_failure(&news));
    assert_null(TAKE(&news, "oom\0pid=12\0rank=3\0device=1\0total=1000\0"
                            "note=no stacks\0text=a=b"));
    TAKE(&news, "file\0pid=12\0path=/x y.pickle\0steps=/s");
    TAKE(&news, "again\0pid=12");
    TAKE(&news, "again\0pid=12");
    const run_process *first = run_news_first_failure(&news);
    assert_non_null(first);
    assert_int_equal(first->id, 12);
    assert_int_equal(first->rank, 3);
    assert_int_equal(first->device, 1);
    assert_int_equal(first->total_bytes, 1000);
    assert_string_equal(first->failure, "a=b");
    assert_string_equal(first->note, "no stacks");
    assert_string_equal(first->file, "/x y.pickle");
    assert_string_equal(first->steps, "/s");
    assert_int_equal(run_news_later_failures(&news), 2);
    run_news_deinit(&news);
}

static void a_snapshot_that_was_asked_for_is_no_failure(void **state)
{
    (void)state;
    run_news news;
    run_news_init(&news);
    assert_null(run_news_find(&news, 12));
    TAKE(&news, "snapshot\0pid=12\0path=/run/leak-12.pickle\0steps=/run/leak-12.steps.jsonl");
    TAKE(&news, "snapshot\0pid=13");
    assert_string_equal(run_news_find(&news, 12)->snapshot, "/run/leak-12.pickle");
    assert_null(run_news_find(&news, 12)->file);
    assert_null(run_news_find(&news, 13)->snapshot);
    assert_null(run_news_first_failure(&news));
    run_news_deinit(&news);
}

static void the_process_that_failed_first_comes_first_whoever_was_heard_of_before(void **state)
{
    (void)state;
    run_news news;
    run_news_init(&news);
    TAKE(&news, "recording\0pid=1\0path=/r1");
    TAKE(&news, "error\0pid=2\0text=out of memory");
    assert_int_equal(run_news_first_failure(&news)->id, 2);
    TAKE(&news, "oom\0pid=3");
    TAKE(&news, "oom\0pid=1");
    assert_int_equal(run_news_first_failure(&news)->id, 3);
    assert_int_equal(run_news_first_failure(&news)->total_bytes, RUN_NEWS_UNKNOWN);
    assert_int_equal(run_news_first_failure(&news)->rank, -1);
    TAKE(&news, "recorded\0pid=1\0path=/r1");
    assert_true(news.processes[0].is_recorded);
    run_news_deinit(&news);
}

static void a_trouble_is_told_once(void **state)
{
    (void)state;
    run_news news;
    run_news_init(&news);
    assert_string_equal(TAKE(&news, "trouble\0pid=1\0text=no history"), "no history");
    assert_null(TAKE(&news, "trouble\0pid=2\0text=no history"));
    assert_string_equal(TAKE(&news, "trouble\0pid=2\0text=no disk"), "no disk");
    run_news_deinit(&news);
}

static void texts_are_kept_up_to_a_limit(void **state)
{
    (void)state;
    enum { TEXT_BYTES = 1 << 16, MESSAGES = 3 * (RUN_NEWS_MOST_KEPT_BYTES / TEXT_BYTES) / 2 };
    static char message[TEXT_BYTES + 64];
    run_news news;
    run_news_init(&news);
    for (int i = 1; i <= MESSAGES; i++) {
        int head = snprintf(message, 64, "oom%cpid=%d%ctext=", 0, i, 0);
        memset(message + head, 'x', TEXT_BYTES);
        assert_null(run_news_take(&news, message, (size_t)head + TEXT_BYTES));
    }
    assert_in_range(news.kept_bytes, RUN_NEWS_MOST_KEPT_BYTES - 2 * TEXT_BYTES,
                    RUN_NEWS_MOST_KEPT_BYTES);
    assert_int_equal(strlen(run_news_find(&news, 1)->failure), TEXT_BYTES);
    assert_null(run_news_find(&news, MESSAGES)->failure);
    assert_int_equal(news.failure_count, MESSAGES);
    run_news_deinit(&news);
}

static void the_room_of_a_text_that_is_replaced_is_free_again(void **state)
{
    (void)state;
    run_news news;
    run_news_init(&news);
    TAKE(&news, "writing\0pid=12\0path=/a");
    const size_t kept_bytes = news.kept_bytes;
    TAKE(&news, "writing\0pid=12\0path=/b");
    assert_string_equal(run_news_find(&news, 12)->part, "/b");
    assert_int_equal(news.kept_bytes, kept_bytes);
    TAKE(&news, "writing\0pid=12");
    assert_int_equal(news.kept_bytes, 0);
    run_news_deinit(&news);
}

static void what_is_no_message_is_ignored(void **state)
{
    (void)state;
    run_news news;
    run_news_init(&news);
    TAKE(&news, "");
    TAKE(&news, "\0\0\0");
    TAKE(&news, "oom");
    TAKE(&news, "oom\0pid=");
    TAKE(&news, "oom\0pid=-1");
    TAKE(&news, "oom\0pid=99999999999999999999999");
    TAKE(&news, "oom\0pidx=1");
    TAKE(&news, "trouble\0pid=1");
    assert_int_equal(news.process_count, 0);
    assert_null(run_news_first_failure(&news));
    TAKE(&news, "something else\0pid=7\0path=/x");
    assert_null(run_news_first_failure(&news));
    run_news_deinit(&news);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_is_kept_with_its_numbers_and_files),
        cmocka_unit_test(a_snapshot_that_was_asked_for_is_no_failure),
        cmocka_unit_test(the_process_that_failed_first_comes_first_whoever_was_heard_of_before),
        cmocka_unit_test(a_trouble_is_told_once),
        cmocka_unit_test(texts_are_kept_up_to_a_limit),
        cmocka_unit_test(the_room_of_a_text_that_is_replaced_is_free_again),
        cmocka_unit_test(what_is_no_message_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
