/* test_progress.c - who waits sees how far it is; who does not wait sees nothing. */
#include "cli/progress.h"

#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/cmocka_here.h"

#define MILLISECOND UINT64_C(1000000)

static _Atomic uint64_t time_ns; /* read by a thread, too */

static uint64_t fake_clock(void)
{
    return time_ns;
}

/* What the line wrote, on a file that stands in for a terminal. */
typedef struct screen {
    char *text;
    size_t size;
    FILE *file;
    progress line;
} screen;

static void begin(screen *shown)
{
    *shown = (screen){0};
    time_ns = 1000 * MILLISECOND;
    shown->file = open_memstream(&shown->text, &shown->size);
    assert_non_null(shown->file);
    progress_begin_on(&shown->line, "reading", shown->file, fake_clock);
}

static const char *so_far(screen *shown)
{
    fflush(shown->file);
    return shown->text;
}

static void end(screen *shown)
{
    fclose(shown->file);
    free(shown->text);
}

static void work_done_in_a_blink_leaves_no_trace(void **state)
{
    screen shown;
    (void)state;
    begin(&shown);
    assert_true(progress_show(&shown.line, 0));
    time_ns += 499 * MILLISECOND;
    assert_true(progress_show(&shown.line, 0.9));
    progress_end(&shown.line);
    assert_string_equal(so_far(&shown), "");
    end(&shown);
}

#define BAR "\r\033[Kreading [#############                 ]  45 %"

static void the_bar_is_empty_at_the_beginning_and_full_at_the_end(void **state)
{
    screen shown;
    (void)state;
    begin(&shown);
    time_ns += 500 * MILLISECOND;
    progress_show(&shown.line, 0);
    time_ns += 100 * MILLISECOND;
    progress_show(&shown.line, 1);
    assert_string_equal(so_far(&shown), "\r\033[Kreading [                              ]   0 %"
                                        "\r\033[Kreading [##############################] 100 %");
    end(&shown);
}

static void long_work_is_shown_and_taken_away(void **state)
{
    screen shown;
    (void)state;
    begin(&shown);
    time_ns += 500 * MILLISECOND;
    assert_true(progress_show(&shown.line, 0.459));
    assert_string_equal(so_far(&shown), BAR);
    progress_end(&shown.line);
    assert_string_equal(so_far(&shown), BAR "\r\033[K");
    progress_end(&shown.line);
    assert_string_equal(so_far(&shown), BAR "\r\033[K");
    end(&shown);
}

/* What the line writes in a window of so many columns. */
static void show_in_window(unsigned short columns, char text[64])
{
    const struct winsize window = {.ws_row = 24, .ws_col = columns};
    int keyboard, window_file;
    progress line;
    assert_int_equal(openpty(&keyboard, &window_file, NULL, NULL, &window), 0);
    FILE *to = fdopen(window_file, "w");
    assert_non_null(to);
    time_ns = 1000 * MILLISECOND;
    progress_begin_on(&line, "trying settings", to, fake_clock);
    time_ns += 500 * MILLISECOND;
    progress_show(&line, 0.5);
    ssize_t got = read(keyboard, text, 63);
    assert_true(got > 0);
    text[got] = '\0';
    fclose(to);
    close(keyboard);
}

static void the_bar_is_shorter_where_the_line_would_wrap(void **state)
{
    char text[64];
    (void)state;
    show_in_window(80, text);
    assert_string_equal(text, "\r\033[Ktrying settings [###############               ]  50 %");
    show_in_window(40, text);
    assert_string_equal(text, "\r\033[Ktrying settings [########        ]  50 %");
    show_in_window(24, text);
    assert_string_equal(text, "\r\033[Ktrying settings  50 %");
}

static void it_is_not_written_more_often_than_people_read(void **state)
{
    screen shown;
    (void)state;
    begin(&shown);
    time_ns += 600 * MILLISECOND;
    progress_show(&shown.line, 0.1);
    time_ns += 99 * MILLISECOND;
    progress_show(&shown.line, 0.2);
    assert_null(strstr(so_far(&shown), "20 %"));
    time_ns += MILLISECOND;
    progress_show(&shown.line, 0.3);
    assert_non_null(strstr(so_far(&shown), "30 %"));
    end(&shown);
}

static void without_an_end_in_sight_it_counts_seconds(void **state)
{
    screen shown;
    (void)state;
    begin(&shown);
    time_ns += 3200 * MILLISECOND;
    progress_show(&shown.line, -1);
    assert_string_equal(so_far(&shown), "\r\033[Kreading: 3 s");
    end(&shown);
}

/* A pipe, so that the reader waits for the thread however long it takes. */
static void work_that_tells_nothing_has_its_seconds_counted(void **state)
{
    static const char expected[] = "\r\033[Kcounting: 2 s";
    char text[sizeof expected] = "";
    int ends[2];
    progress line;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    FILE *to = fdopen(ends[1], "w");
    assert_non_null(to);
    time_ns = 0;
    progress_begin_on(&line, "counting", to, fake_clock);
    time_ns = 2000 * MILLISECOND;
    progress_count(&line);
    for (size_t got = 0; got < sizeof expected - 1;) {
        ssize_t more = read(ends[0], text + got, sizeof expected - 1 - got);
        assert_true(more > 0);
        got += (size_t)more;
    }
    assert_string_equal(text, expected);
    progress_end(&line);
    fclose(to);
    assert_int_equal(read(ends[0], text, sizeof text), 4);
    assert_memory_equal(text, "\r\033[K", 4);
    close(ends[0]);
}

/* The thread writes what the work said last, also while it says nothing. */
static void the_bar_is_there_while_work_is_silent(void **state)
{
    static const char expected[] = "\r\033[Kworking [#########                     ]  30 %";
    char text[sizeof expected] = "";
    int ends[2];
    progress line;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    FILE *to = fdopen(ends[1], "w");
    assert_non_null(to);
    time_ns = 0;
    progress_begin_on(&line, "working", to, fake_clock);
    progress_count(&line);
    assert_true(progress_show(&line, 0.3)); /* too early to be written */
    time_ns = 2000 * MILLISECOND;
    for (size_t got = 0; got < sizeof expected - 1;) {
        ssize_t more = read(ends[0], text + got, sizeof expected - 1 - got);
        assert_true(more > 0);
        got += (size_t)more;
    }
    assert_string_equal(text, expected);
    progress_end(&line);
    fclose(to);
    close(ends[0]);
}

static void lines_for_another_program_have_no_bar(void **state)
{
    screen shown;
    (void)state;
    begin(&shown);
    shown.line.has_lines = true;
    time_ns += 500 * MILLISECOND;
    progress_show(&shown.line, 0.25);
    time_ns += 100 * MILLISECOND;
    progress_show(&shown.line, -1);
    progress_end(&shown.line);
    assert_string_equal(so_far(&shown), "reading 0.250\nreading\n");
    end(&shown);
}

static void nobody_looking_means_nothing_written(void **state)
{
    progress line;
    (void)state;
    time_ns = 0;
    progress_begin_on(&line, "reading", NULL, fake_clock);
    time_ns += 10000 * MILLISECOND;
    assert_true(progress_show(&line, 0.5));
    progress_count(&line);
    assert_false(line.is_counting);
    progress_end(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_done_in_a_blink_leaves_no_trace),
        cmocka_unit_test(the_bar_is_empty_at_the_beginning_and_full_at_the_end),
        cmocka_unit_test(long_work_is_shown_and_taken_away),
        cmocka_unit_test(the_bar_is_shorter_where_the_line_would_wrap),
        cmocka_unit_test(it_is_not_written_more_often_than_people_read),
        cmocka_unit_test(without_an_end_in_sight_it_counts_seconds),
        cmocka_unit_test(work_that_tells_nothing_has_its_seconds_counted),
        cmocka_unit_test(the_bar_is_there_while_work_is_silent),
        cmocka_unit_test(lines_for_another_program_have_no_bar),
        cmocka_unit_test(nobody_looking_means_nothing_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
