/* test_error_text_parts.c - words, prefixes and numbers, each on its own. */
#include "format/error_text_internal.h"

#include <string.h>

#include "unit/error_text_samples.h"

static vw__region region;

static void fill(const char *text)
{
    vw__region_fill(&region, text, strlen(text), true);
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool is_found(const vw__word_search *search, const char *letters, size_t size_bytes,
                     vw__word word, size_t at)
{
    vw__word_cursor cursor = {0};
    vw__word_match match;
    size_t last = 0;
    while (vw__word_search_next(search, letters, size_bytes, &cursor, &match)) {
        assert_true(match.at >= last && match.at < size_bytes);
        assert_memory_equal(letters + match.at, vw__word_text(match.word),
                            strlen(vw__word_text(match.word)));
        last = match.at;
        if (match.word == word && match.at == at)
            return true;
    }
    return false;
}

static void assert_is_squeezed(const char *text)
{
    for (; *text != '\0'; text++) /* or nobody would ever find it */
        assert_int_equal(vw__squeezed[(unsigned char)*text], (unsigned char)*text);
}

static void the_search_finds_every_word_wherever_it_is(void **state)
{
    (void)state;
    static vw__word_search search;
    char letters[256];
    vw__word_search_init(&search);
    for (int word = 0; word < VW__WORD_COUNT; word++) {
        const char *text = vw__word_text((vw__word)word);
        size_t length = strlen(text);
        for (size_t before = 0; before < 20; before++) {
            memset(letters, 'o', sizeof letters); /* as many words begin */
            memcpy(letters + before, text, length);
            assert_true(is_found(&search, letters, before + length, (vw__word)word, before));
            assert_false(is_found(&search, letters, before + length - 1, (vw__word)word, before));
        }
        assert_is_squeezed(text);
    }
}

static void every_word_has_a_rule_and_rules_have_squeezed_words(void **state)
{
    (void)state;
    bool has_rule[VW__WORD_COUNT] = {[VW__WORD_SETTING_EXPANDABLE] = true};
    for (size_t i = 0; i < vw__host_rule_count + vw__gpu_rule_count; i++) {
        const vw__error_rule *rule =
            i < vw__host_rule_count ? &vw__host_rules[i] : &vw__gpu_rules[i - vw__host_rule_count];
        has_rule[rule->word] = true;
        if (rule->beside != NULL)
            assert_is_squeezed(rule->beside);
    }
    for (int word = 0; word < VW__WORD_COUNT; word++)
        if (!has_rule[word])
            fail_msg("no rule for \"%s\"", vw__word_text((vw__word)word));
}

static void squeezing_leaves_letters_digits_and_few_marks(void **state)
{
    (void)state;
    fill("CUDA_ERROR_OUT_OF\n-Memory: `\"**x**\"` | > 3.5\tGiB");
    assert_int_equal(region.letter_count, strlen("cudaerroroutofmemory:x3.5gib"));
    assert_memory_equal(region.letters, "cudaerroroutofmemory:x3.5gib", region.letter_count);
}

/* ---- prefixes -------------------------------------------------------------------------------- */

static void prefixes_end_where_the_message_begins(void **state)
{
    (void)state;
    static const struct {
        const char *prefix, *rest;
        int rank;
    } lines[] = {
        {"[rank3]: ", "message", 3},
        {"rank12: ", "message", 12},
        {"[Rank 7] ", "message", 7},
        {"[default5]:", "message", 5},
        {"[1,2]<stderr>:", "message", 2},
        {"4: ", "message", 4},
        {"(EngineCore_DP0 pid=77) ERROR 10-25 13:08:43 [core.py:708] ", "message", -1},
        {"(RayTrainWorker pid=77, ip=10.0.0.1) ", "message", -1},
        {"2026-01-31 10:00:00,123 - trainer - ERROR - ", "message", -1},
        {"2026-01-31T10:00:00.123456Z stderr F ", "message", -1},
        {"2026-01-31 10:00:00 | WARNING | trainer | ", "message", -1},
        {"[2026-01-31 10:00:00,123 E 11 12] ", "message", -1},
        {"ERROR 10-11 12:27:29 engine.py:157] ", "message", -1},
        {"E0131 10:00:00.123456 ", "message", -1},
        {"10:00:00 [rank3]: ", "message", 3},
        {"> > ", "message", -1},
        {"", "message", -1},
        {"", "[enforce fail at CPUAllocator.cpp:64] . DefaultCPUAllocator", -1},
        {"", "19.77/22.05 GiB) on startup", -1},
        {"", "12.34 GiB free", -1},
        {"", "RuntimeError: message", -1},
        {"", "rank and file", -1},
        {"", "", -1},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char line[256];
        vw__line_rank rank;
        snprintf(line, sizeof line, "%s%s", lines[i].prefix, lines[i].rest);
        size_t length = vw__line_prefix(line, strlen(line), &rank);
        if (length != strlen(lines[i].prefix))
            fail_msg("the prefix of \"%s\" is not %zu bytes long", line, length);
        assert_int_equal(rank.rank, lines[i].rank);
    }
}

static void what_three_lines_begin_with_is_a_prefix_that_nobody_knew(void **state)
{
    (void)state;
    fill("node-a/7 | one tw\nnode-a/8 | o thr\nnode-a/9 | ee\n");
    assert_memory_equal(region.letters, "onetwothree", region.letter_count);
    fill("CUDA error: one\nCUDA error: two\nCUDA error: three\n"); /* says too much to be one */
    assert_memory_equal(region.letters, "cudaerror:onecudaerror:two", 26);
    fill("node-a/7 | one tw\nnode-a/8 | o\n"); /* two may be chance */
    assert_memory_equal(region.letters, "nodea/7onetw", 12);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void numbers_are_read_as_they_are_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
        bool has_unit;
    } numbers[] = {
        {"0 bytes", 0, true},
        {"1024.00 KiB", MIB, true},
        {"15.87 GiB", UINT64_C(17040282747), true},
        {"72GB", 72 * GIB, true},
        {"117. GiB", 117 * GIB, true},
        {"1900,00 MiB", 1900 * MIB, true},
        {"1,073,741,824 bytes", GIB, true},
        {"1.073.741.824 bytes", GIB, true},
        {"2.12G", HUNDREDTHS(212, GIB), true},
        {"33554432B", 32 * MIB, true},
        {"1.5\n0 Gi\nB", 1536 * MIB, true},
        {"18446744073709551614 bytes", UINT64_MAX - 1, true},
        {"18446744073709551616 bytes", UNKNOWN, true},
        {"17179869184.00 GiB", UNKNOWN, true},
        {"17179869183.96 GiB", UINT64_C(18446744073666600960), true},
        {"99999999999999999999.99 GiB", UNKNOWN, true},
        {"12 blocks", 12, false},
        {"12 Gibson", 12, false},
        {"3, 456 MiB", 3, false},
        {"7", 7, false},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        vw__error_number number;
        fill(numbers[i].text);
        assert_true(vw__error_number_next(&region, 0, region.letter_count, &number));
        if (number.bytes != numbers[i].bytes || number.has_unit != numbers[i].has_unit)
            fail_msg("\"%s\" was read as %llu", numbers[i].text, (unsigned long long)number.bytes);
    }
    vw__error_number number;
    fill("no number at all");
    assert_false(vw__error_number_next(&region, 0, region.letter_count, &number));
}

/* ---- escapes --------------------------------------------------------------------------------- */

static void a_terminals_command_ends_with_its_line(void **state)
{
    (void)state;
    assert_int_equal(vw__line_terminal_command("\033[31mred", 8), 5);
    assert_int_equal(vw__line_terminal_command("\033[31", 4), 4);
    assert_int_equal(vw__line_terminal_command("\033[3\n1m", 6), 3);
    assert_int_equal(vw__line_terminal_command("\033]0;title\ax", 11), 10);
    assert_int_equal(vw__line_terminal_command("\033]0;title\nx", 11), 9);
    assert_int_equal(vw__line_terminal_command("\033\n", 2), 1);
    assert_int_equal(vw__line_terminal_command("\033", 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_search_finds_every_word_wherever_it_is),
        cmocka_unit_test(every_word_has_a_rule_and_rules_have_squeezed_words),
        cmocka_unit_test(squeezing_leaves_letters_digits_and_few_marks),
        cmocka_unit_test(prefixes_end_where_the_message_begins),
        cmocka_unit_test(what_three_lines_begin_with_is_a_prefix_that_nobody_knew),
        cmocka_unit_test(numbers_are_read_as_they_are_written),
        cmocka_unit_test(a_terminals_command_ends_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
