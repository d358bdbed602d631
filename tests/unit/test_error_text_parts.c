/* test_error_text_parts.c - words, regions, numbers and patterns of the error scanner. */
#include "parse/error_text_internal.h"

#include <string.h>

#include "unit/error_text_samples.h"

static vw__error_text_region region;

static void fill(const char *text)
{
    vw__error_text_region_fill(&region, text, strlen(text), true);
}

/* ---- words ----------------------------------------------------------------------------------- */

static vw__error_text_word_search search;

static int init_search(void **state)
{
    (void)state;
    vw__error_text_word_search_init(&search);
    vw__error_text_rule_words(&search);
    vw__error_text_word_search_finish(&search);
    return 0;
}

static bool is_found(const char *letters, size_t size_bytes, vw__error_text_word word, size_t at)
{
    vw__error_text_word_cursor cursor = {0};
    vw__error_text_word_match match;
    size_t last = 0;
    while (vw__error_text_word_search_next(&search, letters, size_bytes, &cursor, &match)) {
        assert_true(match.at >= last && match.at < size_bytes);
        assert_memory_equal(letters + match.at, search.texts[match.word],
                            strlen(search.texts[match.word]));
        last = match.at;
        if (match.word == word && match.at == at)
            return true;
    }
    return false;
}

static void the_search_finds_every_word_wherever_it_is(void **state)
{
    (void)state;
    char letters[256];
    assert_in_range(search.count, 100, VW__ERROR_TEXT_WORD_MOST - 1);
    for (vw__error_text_word word = 0; word < search.count; word++) {
        const char *text = search.texts[word];
        size_t length = strlen(text);
        assert_true(length >= VW__ERROR_TEXT_WORD_SHORTEST);
        for (size_t before = 0; before < 20; before++) {
            memset(letters, 'o', sizeof letters); /* as many words begin */
            memcpy(letters + before, text, length);
            assert_true(is_found(letters, before + length, word, before));
            assert_false(is_found(letters, before + length - 1, word, before));
        }
    }
}

static void a_word_is_added_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < search.count; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(search.texts[i], search.texts[j]);
}

static void assert_is_squeezed(const char *text)
{
    for (; *text != '\0'; text++) /* or nobody would ever find it */
        assert_int_equal(vw__error_text_squeezed[(unsigned char)*text], (unsigned char)*text);
}

static void the_words_of_rules_are_squeezed(void **state)
{
    (void)state;
    for (size_t i = 0; i < vw__error_text_host_rule_count + vw__error_text_gpu_rule_count; i++) {
        const vw__error_text_rule *rule =
            i < vw__error_text_host_rule_count
                ? &vw__error_text_host_rules[i]
                : &vw__error_text_gpu_rules[i - vw__error_text_host_rule_count];
        assert_is_squeezed(rule->word);
        if (rule->beside != NULL)
            assert_is_squeezed(rule->beside);
    }
}

static void squeezing_leaves_letters_digits_and_few_marks(void **state)
{
    (void)state;
    fill("CUDA_ERROR_OUT_OF\n-Memory: `\"**x**\"` | > 3.5\tGiB");
    assert_int_equal(region.letter_count, strlen("cudaerroroutofmemory:x3.5gib"));
    assert_memory_equal(region.letters, "cudaerroroutofmemory:x3.5gib", region.letter_count);
}

/* ---- regions --------------------------------------------------------------------------------- */

static void a_beginning_shared_by_three_lines_is_cut_as_a_prefix(void **state)
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
        vw__error_text_number number;
        fill(numbers[i].text);
        assert_true(vw__error_text_number_next(&region, 0, region.letter_count, &number));
        if (number.bytes != numbers[i].bytes || number.has_unit != numbers[i].has_unit)
            fail_msg("\"%s\" was read as %llu", numbers[i].text, (unsigned long long)number.bytes);
    }
    vw__error_text_number number;
    fill("no number at all");
    assert_false(vw__error_text_number_next(&region, 0, region.letter_count, &number));
}

/* ---- lines that repeat ----------------------------------------------------------------------- */

static vw__error_text_key key_of(const char *line, const char *word_text)
{
    const char *found = strstr(line, word_text);
    assert_non_null(found);
    return vw__error_text_key_of(line, strlen(line), (size_t)(found - line), 0, true);
}

static void lines_that_differ_in_digits_only_have_one_pattern(void **state)
{
    (void)state;
    vw__error_text_key a = key_of("step 9: out of memory, 12 MiB", "out of");
    vw__error_text_key b = key_of("step 1234: out of memory, 7 MiB", "out of");
    vw__error_text_key again = key_of("step 77: out of memory, 12 MiB", "out of");
    assert_int_equal(a.pattern, b.pattern);
    assert_int_not_equal(a.said, b.said);
    assert_int_equal(a.said, again.said);
    assert_int_not_equal(a.pattern, key_of("stop 9: out of memory, 12 MiB", "out of").pattern);
    vw__error_text_key rank_3 = key_of("[rank3]: out of memory", "out of");
    vw__error_text_key rank_4 = key_of("[rank4]: out of memory", "out of");
    assert_int_equal(rank_3.rank, 3);
    assert_int_not_equal(rank_3.pattern, rank_4.pattern);
}

static void a_line_is_settled_once_enough_readings_agreed(void **state)
{
    (void)state;
    static vw__error_text_repeats repeats;
    vw__error_text_key key = key_of("step 9: out of memory", "out of");
    vw__error_text_pattern *pattern = vw__error_text_pattern_of(&repeats, &key);
    int readings = 0;
    for (; !vw__error_text_pattern_is_settled(pattern, &key) && readings < 10000; readings++)
        vw__error_text_pattern_came_to(pattern, &key, VW__ERROR_TEXT_OUTCOME_NOTHING, false);
    assert_in_range(readings, 2, 9999);
    vw__error_text_pattern_came_to(pattern, &key, VW__ERROR_TEXT_OUTCOME_NUMBERS,
                                   true); /* it can be a report after all */
    assert_false(vw__error_text_pattern_is_settled(pattern, &key));
    assert_true(pattern->is_host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_search_finds_every_word_wherever_it_is),
        cmocka_unit_test(a_word_is_added_once),
        cmocka_unit_test(the_words_of_rules_are_squeezed),
        cmocka_unit_test(squeezing_leaves_letters_digits_and_few_marks),
        cmocka_unit_test(a_beginning_shared_by_three_lines_is_cut_as_a_prefix),
        cmocka_unit_test(numbers_are_read_as_they_are_written),
        cmocka_unit_test(lines_that_differ_in_digits_only_have_one_pattern),
        cmocka_unit_test(a_line_is_settled_once_enough_readings_agreed),
    };
    return cmocka_run_group_tests(tests, init_search, NULL);
}
