/* test_arguments.c - options, operands, and the words for what is wrong with them. */
#include "cli/arguments.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"

#define MOST_WORDS 8

/* What one command line came to. */
typedef struct outcome {
    bool is_accepted;
    bool is_json;
    const char *card;
    argument_values confs;
    bool is_served;
    const char *served_at;
    char message[256]; /* what went to standard error */
    const char *operands[MOST_WORDS];
    int operand_count;
} outcome;

static bool begins_with_digit(const char *word)
{
    return word[0] >= '0' && word[0] <= '9';
}

/* Parses `words`, which ends with NULL, for a command "test" with --json (-j), --card VALUE, --conf
 * VALUE, which may be repeated, and --serve, whose value may be left out. */
static outcome parse(char **words)
{
    outcome result = {.is_json = false, .card = "unset"};
    const argument_option options[] = {
        {.name = "json", .letter = 'j', .is_given = &result.is_json},
        {.name = "card", .value = &result.card},
        {.name = "conf", .values = &result.confs},
        {.name = "serve",
         .is_given = &result.is_served,
         .value = &result.served_at,
         .is_value = begins_with_digit},
    };
    char *argv[MOST_WORDS + 2] = {(char *)"test"};
    int argc = 1, first_operand = 0;
    while (words[argc - 1] != NULL) {
        argv[argc] = words[argc - 1];
        argc++;
    }
    FILE *real_stderr = stderr;
    stderr = fmemopen(result.message, sizeof result.message, "w");
    assert_non_null(stderr);
    result.is_accepted = arguments_parse(options, 4, argc, argv, &first_operand);
    fclose(stderr);
    stderr = real_stderr;
    for (int i = first_operand; result.is_accepted && i < argc; i++)
        result.operands[result.operand_count++] = argv[i];
    return result;
}

#define PARSE(...) parse((char *[]){__VA_ARGS__, NULL})

static void options_and_operands_come_in_any_order(void **state)
{
    (void)state;
    outcome result = PARSE("first", "--card", "24GiB", "second", "-j", "-");
    assert_true(result.is_accepted);
    assert_true(result.is_json);
    assert_string_equal(result.card, "24GiB");
    assert_int_equal(result.operand_count, 3);
    assert_string_equal(result.operands[0], "first");
    assert_string_equal(result.operands[1], "second");
    assert_string_equal(result.operands[2], "-");
    assert_string_equal(result.message, "");
}

static void a_value_may_be_left_out(void **state)
{
    (void)state;
    outcome alone = PARSE("--serve"), last = PARSE("file", "--serve");
    outcome before_file = PARSE("--serve", "file"),
            with_word = PARSE("one", "--serve", "80", "two");
    outcome with_sign = PARSE("--serve=x", "file"), empty = PARSE("--serve=");
    assert_true(alone.is_served && last.is_served && before_file.is_served);
    assert_null(alone.served_at);
    assert_null(last.served_at);
    assert_null(before_file.served_at);
    assert_int_equal(before_file.operand_count, 1);
    assert_string_equal(with_word.served_at, "80");
    assert_int_equal(with_word.operand_count, 2);
    assert_string_equal(with_word.operands[1], "two");
    assert_string_equal(with_sign.served_at, "x");
    assert_string_equal(empty.served_at, "");
    outcome behind_dashes = PARSE("--serve", "--", "80");
    assert_null(behind_dashes.served_at);
    assert_string_equal(behind_dashes.operands[0], "80");
    assert_false(PARSE("80").is_served);
}

static void absent_options_leave_their_variables_alone(void **state)
{
    (void)state;
    outcome result = PARSE("file");
    assert_true(result.is_accepted);
    assert_false(result.is_json);
    assert_string_equal(result.card, "unset");
}

static void the_last_of_several_values_wins(void **state)
{
    (void)state;
    assert_string_equal(PARSE("--card=1", "--card", "2").card, "2");
    assert_string_equal(PARSE("--card=").card, "");
}

static void an_option_that_may_be_repeated_keeps_every_value_in_order(void **state)
{
    (void)state;
    outcome result = PARSE("--conf", "a:1", "file", "--conf=", "--conf=b:2");
    assert_int_equal(result.confs.count, 3);
    assert_string_equal(result.confs.items[0], "a:1");
    assert_string_equal(result.confs.items[1], "");
    assert_string_equal(result.confs.items[2], "b:2");
    assert_int_equal(result.operand_count, 1);
}

static void more_values_than_fit_are_refused(void **state)
{
    argument_values values = {.count = ARGUMENTS_MOST_VALUES - 1};
    const argument_option options[] = {{.name = "conf", .values = &values}};
    char *argv[] = {(char *)"test", (char *)"--conf=x", (char *)"--conf=y", NULL};
    char message[128] = "";
    int first_operand = 0;
    (void)state;
    FILE *real_stderr = stderr;
    stderr = fmemopen(message, sizeof message, "w");
    assert_non_null(stderr);
    bool is_accepted = arguments_parse(options, 1, 3, argv, &first_operand);
    fclose(stderr);
    stderr = real_stderr;
    assert_false(is_accepted);
    assert_int_equal(values.count, ARGUMENTS_MOST_VALUES);
    assert_non_null(strstr(message, "option '--conf' is given more than 64 times"));
}

static void a_number_is_digits_that_fit_64_bits(void **state)
{
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "0x10",
                                      "1.5",
                                      "18446744073709551616",
                                      "99999999999999999999999"};
    uint64_t number = 77;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(arguments_read_number(bad[i], &number));
    assert_false(arguments_read_number(NULL, &number));
    assert_int_equal(number, 77);
    assert_true(arguments_read_number("18446744073709551615", &number));
    assert_true(number == UINT64_MAX);
    assert_true(arguments_read_number("007", &number));
    assert_int_equal(number, 7);
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
    outcome result = PARSE("--", "--json", "-x");
    assert_true(result.is_accepted);
    assert_false(result.is_json);
    assert_int_equal(result.operand_count, 2);
    assert_string_equal(result.operands[0], "--json");
}

static void each_refusal_names_the_option_and_the_help(void **state)
{
    (void)state;
    assert_string_equal(PARSE("--crad", "1").message,
                        "vramwise test: unknown option '--crad'; did you mean '--card'?\n"
                        "Try 'vramwise help test'.\n");
    assert_string_equal(PARSE("--wholly-unknown").message,
                        "vramwise test: unknown option '--wholly-unknown'\n"
                        "Try 'vramwise help test'.\n");
    assert_string_equal(PARSE("-jq").message,
                        "vramwise test: unknown option '-q'\nTry 'vramwise help test'.\n");
    assert_string_equal(PARSE("--card").message, "vramwise test: option '--card' needs a value\n"
                                                 "Try 'vramwise help test'.\n");
    assert_string_equal(PARSE("--json=yes").message,
                        "vramwise test: option '--json' takes no value\n"
                        "Try 'vramwise help test'.\n");
    assert_false(PARSE("--card").is_accepted);
    assert_false(PARSE("--json=yes").is_accepted);
    assert_false(PARSE("-q").is_accepted);
}

static void a_word_half_wrong_is_another_word(void **state)
{
    static const char *const names[] = {"doctor", "demo", "diff"};
    char long_word[100];
    (void)state;
    assert_string_equal(arguments_nearest("dmeo", names, 3), "demo");
    assert_string_equal(arguments_nearest("docter", names, 3), "doctor");
    assert_string_equal(arguments_nearest("dif", names, 3), "diff");
    assert_string_equal(arguments_nearest("demo", names, 3), "demo");
    assert_null(arguments_nearest("replay", names, 3));
    assert_null(arguments_nearest("", names, 3));
    assert_null(arguments_nearest("demo", names, 0));
    memset(long_word, 'd', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = '\0';
    assert_null(arguments_nearest(long_word, names, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_operands_come_in_any_order),
        cmocka_unit_test(a_value_may_be_left_out),
        cmocka_unit_test(absent_options_leave_their_variables_alone),
        cmocka_unit_test(the_last_of_several_values_wins),
        cmocka_unit_test(an_option_that_may_be_repeated_keeps_every_value_in_order),
        cmocka_unit_test(more_values_than_fit_are_refused),
        cmocka_unit_test(a_number_is_digits_that_fit_64_bits),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(each_refusal_names_the_option_and_the_help),
        cmocka_unit_test(a_word_half_wrong_is_another_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
