/* test_report_text.c - paragraphs, tables, numbers and shell words: whole, aligned, and never wider
 * than they may be. */
#include "report/report_text.h"

#include <math.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_capture.h"

#define GIB (UINT64_C(1) << 30)

static report_capture captured;

static vw__report begin(const vw_report_form *form)
{
    vw__report report;
    vw__report_init(&report, form);
    return report;
}

static const char *end(vw__report *report)
{
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw__report_send(report, &output), VW_OK);
    return captured.text;
}

/* ---- paragraphs ------------------------------------------------------------------------------ */

static void a_form_of_nothing_is_80_columns_and_ten_rows(void **state)
{
    vw__report report = begin(NULL);
    (void)state;
    assert_int_equal(report.form.width_columns, 80);
    assert_int_equal(report.form.most_rows, 10);
    assert_string_equal(end(&report), "");
    report = begin(&(vw_report_form){.width_columns = 5});
    assert_int_equal(report.form.width_columns, 40);
    assert_string_equal(end(&report), "");
}

static void a_shorter_form_of_an_older_program_is_understood(void **state)
{
    vw_report_form form = {.width_columns = 60, .most_rows = 3};
    form.struct_size = offsetof(vw_report_form, most_rows);
    vw__report report = begin(&form);
    (void)state;
    assert_int_equal(report.form.width_columns, 60);
    assert_int_equal(report.form.most_rows, 10);
    assert_string_equal(end(&report), "");
}

static void paragraphs_wrap_at_spaces_and_hang(void **state)
{
    vw__report report = begin(&(vw_report_form){.width_columns = 40});
    (void)state;
    vw__report_say(&report, VW__REPORT_STYLE_RED, "%s",
                   "one two three four five six seven eight nine ten");
    assert_string_equal(end(&report), "one two three four five six seven eight\n  nine ten\n");
}

static void a_word_longer_than_a_line_is_cut_into_lines(void **state)
{
    vw__report report = begin(&(vw_report_form){.width_columns = 40});
    (void)state;
    vw__report_say(&report, VW__REPORT_STYLE_PLAIN, "x %s y",
                   "0123456789012345678901234567890123456789012345678901234567890123456789");
    assert_string_equal(end(&report), "x\n  01234567890123456789012345678901234567\n"
                                      "  89012345678901234567890123456789 y\n");
}

static void facts_stand_in_one_column(void **state)
{
    vw__report report = begin(&(vw_report_form){.width_columns = 40});
    (void)state;
    vw__report_fact(&report, "events", "%d of them, and so many words that they wrap", 12);
    vw__report_fact(&report, "", "more");
    assert_string_equal(end(&report), "events        12 of them, and so many\n"
                                      "              words that they wrap\n"
                                      "              more\n");
}

static void colour_is_there_only_if_the_form_has_it(void **state)
{
    vw__report report = begin(&(vw_report_form){.has_colour = true});
    (void)state;
    vw__report_say(&report, VW__REPORT_STYLE_RED, "no");
    vw__report_say(&report, VW__REPORT_STYLE_PLAIN, "yes");
    assert_string_equal(end(&report), "\033[31mno\033[0m\nyes\n");
}

static void what_could_steer_a_terminal_is_not_shown(void **state)
{
    static const char nasty[] = "a\033[2Jb\rc\x07"
                                "d\xC2\x9B"
                                "e\xE2\x80\xAE"
                                "f\xFFg\x7F\n\th\xC3\xA9";
    vw__report report = begin(&(vw_report_form){.has_utf8 = true});
    (void)state;
    vw__report_say(&report, VW__REPORT_STYLE_PLAIN, "%s", nasty);
    vw__report_line(&report, nasty, sizeof nasty - 1);
    assert_string_equal(end(&report),
                        "a?[2Jb?c?d?e?f?g? h\xC3\xA9\na?[2Jb?c?d?e?f?g?  h\xC3\xA9\n");
    report = begin(NULL);
    vw__report_say(&report, VW__REPORT_STYLE_PLAIN, "caf\xC3\xA9 \xE2\x82\xAC");
    assert_string_equal(end(&report), "caf? ?\n");
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const vw__report_column columns[] = {
    {"setting", VW__REPORT_COLUMN_NAME},
    {"result", VW__REPORT_COLUMN_WORD},
    {"reserved", VW__REPORT_COLUMN_NUMBER},
    {"needs", VW__REPORT_COLUMN_NUMBER},
};

static void add(vw__report_table *table, const char *a, const char *b, const char *c, const char *d)
{
    vw__report_table_row(table, VW__REPORT_STYLE_PLAIN);
    vw__report_table_cell(table, a);
    vw__report_table_cell(table, b);
    vw__report_table_cell(table, c);
    vw__report_table_cell(table, d);
}

static void columns_are_aligned_and_empty_ones_left_out(void **state)
{
    vw__report_table table;
    vw__report report = begin(NULL);
    (void)state;
    vw__report_table_init(&table, columns, 4);
    add(&table, "native", "completed", "13.4 GiB", "");
    add(&table, "expandable", "out of memory", "900 B", NULL);
    vw__report_table_end(&table, &report);
    assert_string_equal(end(&report), "setting     result         reserved\n"
                                      "native      completed      13.4 GiB\n"
                                      "expandable  out of memory     900 B\n");
}

static void a_long_name_is_wrapped_behind_its_commas(void **state)
{
    vw__report_table table;
    vw__report report = begin(&(vw_report_form){.width_columns = 50});
    (void)state;
    vw__report_table_init(&table, columns, 4);
    add(&table, "max_split_size_mb:128,expandable_segments:True", "completed", "1 B", "");
    vw__report_table_end(&table, &report);
    assert_string_equal(end(&report), "setting                        result     reserved\n"
                                      "max_split_size_mb:128,         completed       1 B\n"
                                      "expandable_segments:True\n");
}

static void a_line_of_a_name_does_not_begin_with_a_space(void **state)
{
    vw__report_table table;
    vw__report report = begin(&(vw_report_form){.width_columns = 50});
    (void)state;
    vw__report_table_init(&table, columns, 4);
    add(&table, "optimizer fused, some blocks, sharding", "completed", "1 B", "");
    vw__report_table_end(&table, &report);
    assert_string_equal(end(&report), "setting                        result     reserved\n"
                                      "optimizer fused, some blocks,  completed       1 B\n"
                                      "sharding\n");
}

static void a_table_without_room_is_told_row_by_row(void **state)
{
    vw__report_table table;
    vw__report report = begin(&(vw_report_form){.width_columns = 40});
    (void)state;
    vw__report_table_init(&table, columns, 4);
    add(&table, "max_split_size_mb:128", "out of memory", "13.4 GiB", "15.0 GiB");
    add(&table, "native", "completed", "", "");
    vw__report_table_end(&table, &report);
    assert_string_equal(end(&report), "max_split_size_mb:128: result out of\n"
                                      "  memory, reserved 13.4 GiB, needs 15.0\n"
                                      "  GiB\n"
                                      "native: result completed\n");
}

static void a_place_keeps_its_end_and_details_stand_below(void **state)
{
    static const vw__report_column place_columns[] = {{"bytes", VW__REPORT_COLUMN_NUMBER},
                                                      {"where", VW__REPORT_COLUMN_PLACE}};
    vw__report_table table;
    vw__report report = begin(&(vw_report_form){.width_columns = 40});
    (void)state;
    vw__report_table_init(&table, place_columns, 2);
    vw__report_table_row(&table, VW__REPORT_STYLE_PLAIN);
    vw__report_table_cell(&table, "1.00 GiB");
    vw__report_table_cell(&table, "/venv/lib/python3.12/site-packages/train.py:152 step");
    vw__report_table_detail(&table, "/venv/lib/python3.12/site-packages/torch/module.py:9 _call");
    vw__report_table_end(&table, &report);
    assert_string_equal(end(&report), "   bytes  where\n"
                                      "1.00 GiB  ...-packages/train.py:152 step\n"
                                      "    ...-packages/torch/module.py:9 _call\n");
}

static void wide_letters_take_two_columns(void **state)
{
    static const vw__report_column word_columns[] = {{"a", VW__REPORT_COLUMN_WORD},
                                                     {"b", VW__REPORT_COLUMN_WORD}};
    vw__report_table table;
    vw__report report = begin(&(vw_report_form){.has_utf8 = true});
    (void)state;
    vw__report_table_init(&table, word_columns, 2);
    vw__report_table_row(&table, VW__REPORT_STYLE_PLAIN);
    vw__report_table_cell(&table, "\xE6\xBC\xA2\xE5\xAD\x97");
    vw__report_table_cell(&table, "x");
    vw__report_table_row(&table, VW__REPORT_STYLE_PLAIN);
    vw__report_table_cell(&table, "e\xCC\x81");
    vw__report_table_cell(&table, "y");
    vw__report_table_end(&table, &report);
    assert_string_equal(end(&report), "a     b\n\xE6\xBC\xA2\xE5\xAD\x97  x\ne\xCC\x81     y\n");
}

/* Every width, with every length of a name: nothing too wide, nothing lost but a place's start. */
static void no_line_is_wider_than_the_form_at_any_width(void **state)
{
    char name[120];
    (void)state;
    for (unsigned width = 40; width <= 130; width += 3) {
        for (size_t length = 1; length < sizeof name; length += 7) {
            vw__report_table table;
            vw__report report = begin(&(vw_report_form){.width_columns = width});
            memset(name, 'n', length);
            name[length] = '\0';
            vw__report_table_init(&table, columns, 4);
            add(&table, name, "out of memory", "13.4 GiB", "15.0 GiB");
            vw__report_table_detail(&table, name);
            vw__report_table_end(&table, &report);
            vw__report_say(&report, VW__REPORT_STYLE_PLAIN, "%s and %s", name, name);
            end(&report);
            assert_true(report_capture_width(&captured) <= width);
            assert_false(report_capture_has_loose_ends(&captured));
            assert_true(report_capture_has(&captured, "13.4"));
        }
    }
}

/* ---- failure --------------------------------------------------------------------------------- */

static bool refuse(void *context, const char *bytes, size_t size_bytes)
{
    (void)context;
    (void)bytes;
    (void)size_bytes;
    return false;
}

static void an_output_that_takes_no_more_is_an_error(void **state)
{
    const vw_output output = {NULL, refuse};
    vw__report report = begin(NULL);
    (void)state;
    vw__report_say(&report, VW__REPORT_STYLE_PLAIN, "hello");
    assert_int_equal(vw__report_send(&report, &output), VW_ERR_FILE);
    report = begin(NULL);
    assert_int_equal(vw__report_send(&report, NULL), VW_ERR_INVALID_ARGUMENT);
}

static bool make_a_report(void *context)
{
    vw__report_table table;
    vw__report report = begin(NULL);
    const vw_output output = report_capture_begin(&captured);
    (void)context;
    vw__report_say(&report, VW__REPORT_STYLE_PLAIN, "%0300d", 1);
    vw__report_table_init(&table, columns, 4);
    for (int i = 0; i < 30; i++) {
        add(&table, "native", "completed", "13.4 GiB", "");
        vw__report_table_detail(&table, "somewhere");
    }
    vw__report_table_end(&table, &report);
    vw_status status = vw__report_send(&report, &output);
    assert_true(status == VW_OK || (status == VW_ERR_HOST_MEMORY && captured.size_bytes == 0));
    return status == VW_OK;
}

static void without_host_memory_nothing_is_sent_and_nothing_leaks(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(make_a_report, NULL);
}

/* ---- numbers, at the edges of their units
 * -------------------------------------------------------- */

static void unknown_numbers_are_a_question_mark(void **state)
{
    (void)state;
    assert_string_equal(vw__report_size(VW_UNKNOWN).text, "?");
    assert_string_equal(vw__report_count(VW_UNKNOWN).text, "?");
    assert_string_equal(vw__report_change(VW_UNKNOWN, 1).text, "?");
    assert_string_equal(vw__report_change(1, VW_UNKNOWN).text, "?");
    assert_string_equal(vw__report_ratio(-1).text, "?");
    assert_string_equal(vw__report_ratio((double)NAN).text, "?");
}

static void changes_have_a_sign(void **state)
{
    (void)state;
    assert_string_equal(vw__report_change(0, 2 * GIB).text, "+2.00 GiB");
    assert_string_equal(vw__report_change(2 * GIB, 512).text, "-2.00 GiB");
    assert_string_equal(vw__report_change(7, 7).text, "0 B");
}

static void counts_have_commas_and_one_is_one(void **state)
{
    (void)state;
    assert_string_equal(vw__report_count(0).text, "0");
    assert_string_equal(vw__report_count(999).text, "999");
    assert_string_equal(vw__report_count(1000).text, "1,000");
    assert_string_equal(vw__report_count(220134).text, "220,134");
    assert_string_equal(vw__report_count(UINT64_MAX - 1).text, "18,446,744,073,709,551,614");
    assert_string_equal(vw__report_counted(1, "block").text, "1 block");
    assert_string_equal(vw__report_counted(2000, "block").text, "2,000 blocks");
    assert_string_equal(vw__report_counted(0, "block").text, "0 blocks");
}

static void durations_and_ratios_read_well(void **state)
{
    (void)state;
    assert_string_equal(vw__report_duration(0).text, "0 s");
    assert_string_equal(vw__report_duration(12345678).text, "12.3 ms");
    assert_string_equal(vw__report_duration(UINT64_C(62) * 1000000000).text, "1 min 2 s");
    assert_string_equal(vw__report_ratio(1.036).text, "1.04");
    assert_string_equal(vw__report_ratio(5.99).text, "5.99");
    assert_string_equal(vw__report_ratio(0).text, "0.00");
}

/* ---- names as a shell takes them ----------------------------------------------------------------
 */

static void assert_word(const char *word, const char *expected)
{
    const vw_output output = report_capture_begin(&captured);
    assert_true(vw_write_shell_word(word, &output));
    assert_string_equal(captured.text, expected);
}

static void plain_names_stay_as_they_are(void **state)
{
    (void)state;
    assert_word("job/run.rank3.pickle", "job/run.rank3.pickle");
    assert_word("/a-b_c+d=e,f:g@h%i", "/a-b_c+d=e,f:g@h%i");
}

static void others_are_quoted(void **state)
{
    (void)state;
    assert_word("", "''");
    assert_word("-o", "'-o'");
    assert_word("a b", "'a b'");
    assert_word("$(x);*", "'$(x);*'");
    assert_word("it's", "'it'\\''s'");
    assert_word("'", "''\\'''");
    assert_word("a\nb", "'a\nb'");
}

static bool refuse_later(void *context, const char *bytes, size_t size_bytes)
{
    size_t *left = context;
    (void)bytes;
    (void)size_bytes;
    return (*left)-- > 0;
}

static void an_output_that_ends_is_reported(void **state)
{
    (void)state;
    for (size_t allowed = 0; allowed <= 5; allowed++) { /* the word goes out in five pieces */
        size_t left = allowed;
        const vw_output output = {&left, refuse_later};
        assert_true(vw_write_shell_word("it's", &output) == (allowed == 5));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_form_of_nothing_is_80_columns_and_ten_rows),
        cmocka_unit_test(a_shorter_form_of_an_older_program_is_understood),
        cmocka_unit_test(paragraphs_wrap_at_spaces_and_hang),
        cmocka_unit_test(a_word_longer_than_a_line_is_cut_into_lines),
        cmocka_unit_test(facts_stand_in_one_column),
        cmocka_unit_test(colour_is_there_only_if_the_form_has_it),
        cmocka_unit_test(what_could_steer_a_terminal_is_not_shown),
        cmocka_unit_test(columns_are_aligned_and_empty_ones_left_out),
        cmocka_unit_test(a_long_name_is_wrapped_behind_its_commas),
        cmocka_unit_test(a_line_of_a_name_does_not_begin_with_a_space),
        cmocka_unit_test(a_table_without_room_is_told_row_by_row),
        cmocka_unit_test(a_place_keeps_its_end_and_details_stand_below),
        cmocka_unit_test(wide_letters_take_two_columns),
        cmocka_unit_test(no_line_is_wider_than_the_form_at_any_width),
        cmocka_unit_test(an_output_that_takes_no_more_is_an_error),
        cmocka_unit_test(without_host_memory_nothing_is_sent_and_nothing_leaks),
        cmocka_unit_test(unknown_numbers_are_a_question_mark),
        cmocka_unit_test(changes_have_a_sign),
        cmocka_unit_test(counts_have_commas_and_one_is_one),
        cmocka_unit_test(durations_and_ratios_read_well),
        cmocka_unit_test(plain_names_stay_as_they_are),
        cmocka_unit_test(others_are_quoted),
        cmocka_unit_test(an_output_that_ends_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
