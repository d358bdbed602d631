/* test_document.c - values keep what was put into them, dicts are folded when they are complete,
 * and what was folded uses no memory. */
#include "parse/document.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

static vw__document *document;

static int set_up(void **state)
{
    (void)state;
    return vw__document_create(NULL, NULL, &document) == VW_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    vw__document_destroy(document);
    document = NULL;
    return 0;
}

static void begin_with(const vw__document_limits *limits, const vw__document_listener *fold)
{
    vw__document_destroy(document);
    document = NULL;
    assert_int_equal(vw__document_create(limits, fold, &document), VW_OK);
}

static vw__value integer(int64_t number)
{
    vw__value value;
    assert_int_equal(vw__document_integer(document, number, &value), VW_OK);
    return value;
}

static vw__value string(const char *text)
{
    vw__value value;
    assert_int_equal(vw__document_string(document, text, strlen(text), &value), VW_OK);
    return value;
}

static vw__value new_list(void)
{
    vw__value value;
    assert_int_equal(vw__document_new_list(document, &value), VW_OK);
    return value;
}

static vw__value new_dict(void)
{
    vw__value value;
    assert_int_equal(vw__document_new_dict(document, &value), VW_OK);
    return value;
}

static vw__value dict_of(const char *key, vw__value value)
{
    vw__value dict = new_dict();
    vw__value pair[2] = {string(key), value};
    assert_int_equal(vw__document_set(document, dict, pair, 1), VW_OK);
    return dict;
}

static void append(vw__value list, vw__value item)
{
    assert_int_equal(vw__document_append(document, list, &item, 1), VW_OK);
}

static vw__value item_at(vw__value list, uint64_t place)
{
    vw__value item = vw__value_none();
    assert_true(vw__value_next_item(document, list, &place, &item));
    return item;
}

/* ---- plain values ---------------------------------------------------------------------------- */

static void integers_of_64_bits_come_back(void **state)
{
    (void)state;
    static const int64_t numbers[] = {
        0,
        1,
        -1,
        VW__VALUE_INTEGER_INLINE_LIMIT - 1,
        VW__VALUE_INTEGER_INLINE_LIMIT,
        -VW__VALUE_INTEGER_INLINE_LIMIT,
        -VW__VALUE_INTEGER_INLINE_LIMIT - 1,
        INT64_MAX,
        INT64_MIN,
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        vw__value value = integer(numbers[i]);
        int64_t number = 77;
        uint64_t natural = 77;
        double fraction = 77;
        assert_int_equal(vw__value_get_kind(value), VW__VALUE_INTEGER);
        assert_true(vw__value_get_i64(document, value, &number));
        assert_true(number == numbers[i]);
        assert_true(vw__value_get_u64(document, value, &natural) == (numbers[i] >= 0));
        assert_true(natural == (numbers[i] >= 0 ? (uint64_t)numbers[i] : 77));
        assert_true(vw__value_get_f64(document, value, &fraction));
        assert_true(fraction == (double)numbers[i]);
    }
}

static void unsigned_integers_come_back(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};
    for (size_t i = 0; i < 4; i++) {
        vw__value value;
        int64_t number = 77;
        uint64_t natural = 77;
        double fraction = 77;
        assert_int_equal(vw__document_unsigned(document, numbers[i], &value), VW_OK);
        assert_true(vw__value_get_u64(document, value, &natural));
        assert_true(natural == numbers[i]);
        assert_true(vw__value_get_i64(document, value, &number) == (numbers[i] <= INT64_MAX));
        assert_true(vw__value_get_f64(document, value, &fraction));
        assert_true(fraction == (double)numbers[i]);
    }
}

static void floats_come_back_and_are_not_integers(void **state)
{
    (void)state;
    static const double numbers[] = {0.0, 0.5, -DBL_MAX, DBL_MIN, INFINITY};
    for (size_t i = 0; i < 5; i++) {
        vw__value value;
        double fraction = 77;
        int64_t number = 77;
        uint64_t natural = 77;
        assert_int_equal(vw__document_float(document, numbers[i], &value), VW_OK);
        assert_true(vw__value_get_f64(document, value, &fraction));
        assert_true(fraction == numbers[i]);
        assert_false(vw__value_get_i64(document, value, &number));
        assert_false(vw__value_get_u64(document, value, &natural));
    }
}

static void other_values_are_not_numbers(void **state)
{
    (void)state;
    vw__value values[] = {vw__value_none(),
                          vw__value_boolean(true),
                          vw__value_boolean(false),
                          vw__value_huge(),
                          string("7"),
                          new_list(),
                          vw__value_folded(255, UINT32_MAX)};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        int64_t number = 77;
        uint64_t natural = 77;
        double fraction = 77;
        assert_false(vw__value_get_i64(document, values[i], &number));
        assert_false(vw__value_get_u64(document, values[i], &natural));
        assert_false(vw__value_get_f64(document, values[i], &fraction));
        assert_true(number == 77 && natural == 77 && fraction == 77);
    }
    assert_int_equal(vw__value_get_kind(values[1]), VW__VALUE_TRUE);
    assert_int_equal(vw__value_get_kind(values[2]), VW__VALUE_FALSE);
    assert_int_equal(vw__value_folded_kind(values[6]), 255);
    assert_int_equal(vw__value_folded_id(values[6]), UINT32_MAX);
}

static void strings_are_equal_exactly_if_their_ids_are(void **state)
{
    (void)state;
    static const char *const names[] = {"size", "a name longer than a word", ""};
    vw__document_listener fold = {.names = names, .name_count = 3};
    begin_with(NULL, &fold);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(vw__value_string_id(string(names[i])), i);
    }
    vw__value with_zero, bytes;
    size_t size_bytes = 77;
    assert_int_equal(vw__document_string(document, "size\0", 5, &with_zero), VW_OK);
    assert_int_equal(vw__value_string_id(with_zero), 3); /* a zero more is another string */
    assert_memory_equal(vw__value_string(document, with_zero, &size_bytes), "size\0", 6);
    assert_int_equal(size_bytes, 5);
    assert_int_equal(vw__document_bytes(document, "size", 4, &bytes), VW_OK);
    assert_int_equal(vw__value_get_kind(bytes), VW__VALUE_BYTES);
    assert_string_equal(vw__value_string(document, bytes, &size_bytes), "size");

    char text[16];
    for (uint32_t i = 0; i < 5000; i++) { /* many more than are found without hashing */
        snprintf(text, sizeof text, "s%u", i);
        assert_int_equal(vw__value_string_id(string(text)), 4 + i);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "s%u", i);
        assert_int_equal(vw__value_string_id(string(text)), 4 + i);
    }
}

/* ---- containers ------------------------------------------------------------------------------ */

/* Sizes around each step of the chunks, in one piece and one by one. */
static void lists_of_every_length_keep_their_items(void **state)
{
    (void)state;
    enum { MOST = 3 * 4096 + 5 };
    static vw__value items[MOST];
    for (size_t i = 0; i < MOST; i++)
        items[i] = integer((int64_t)i);
    static const size_t lengths[] = {0,    1,    2,    3,    4,    5,    6,    7,        24,  25,
                                     4095, 4096, 4097, 6000, 8191, 8192, 8193, 3 * 4096, MOST};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        size_t length = lengths[k];
        vw__value lists[3] = {new_list(), new_list(), new_list()};
        assert_int_equal(vw__document_append(document, lists[0], items, length), VW_OK);
        for (size_t i = 0; i < length; i++)
            append(lists[1], items[i]);
        for (size_t i = 0; i < length; i += 1000)
            assert_int_equal(vw__document_append(document, lists[2], items + i,
                                                 length - i < 1000 ? length - i : 1000),
                             VW_OK);
        for (size_t j = 0; j < 3; j++) {
            uint64_t cursor = 0;
            vw__value item;
            assert_int_equal(vw__value_item_count(document, lists[j]), length);
            for (size_t i = 0; i < length; i++) {
                assert_true(vw__value_next_item(document, lists[j], &cursor, &item));
                assert_true(item == items[i]);
            }
            assert_false(vw__value_next_item(document, lists[j], &cursor, &item));

            const vw__value *span;
            size_t span_count, seen = 0;
            cursor = 0;
            while (vw__value_next_items(document, lists[j], &cursor, &span, &span_count)) {
                assert_memory_equal(span, items + seen, span_count * sizeof *span);
                seen += span_count;
            }
            assert_int_equal(seen, length);
        }
    }
}

static void dicts_of_every_length_keep_their_pairs(void **state)
{
    (void)state;
    enum { MOST = 10000 };
    vw__value dict = new_dict();
    size_t pair_count = 77;
    assert_null(vw__value_pairs(document, dict, &pair_count));
    assert_int_equal(pair_count, 0);
    for (int64_t i = 0; i < MOST; i++) {
        vw__value pair[2] = {integer(i), integer(-i)};
        assert_int_equal(vw__document_set(document, dict, pair, 1), VW_OK);
        const vw__value *pairs = vw__value_pairs(document, dict, &pair_count);
        assert_int_equal(pair_count, i + 1);
        assert_true(pairs[2 * i] == pair[0] && pairs[2 * i + 1] == pair[1]);
    }
    const vw__value *pairs = vw__value_pairs(document, dict, &pair_count);
    for (int64_t i = 0; i < MOST; i++)
        assert_true(pairs[2 * i] == integer(i) && pairs[2 * i + 1] == integer(-i));
    assert_int_equal(vw__value_item_count(document, dict), 0);
}

static void tuples_and_sets_have_items(void **state)
{
    (void)state;
    vw__value items[2] = {integer(1), integer(2)}, tuple, set;
    assert_int_equal(vw__document_tuple(document, items, 2, &tuple), VW_OK);
    assert_int_equal(vw__document_new_set(document, &set), VW_OK);
    append(set, items[0]);
    assert_int_equal(vw__value_get_kind(tuple), VW__VALUE_TUPLE);
    assert_int_equal(vw__value_get_kind(set), VW__VALUE_TUPLE);
    assert_int_equal(vw__value_item_count(document, tuple), 2);
    assert_int_equal(vw__value_item_count(document, set), 1);
    assert_true(item_at(tuple, 1) == items[1]);
    assert_int_equal(vw__document_append(document, tuple, items, 1), VW_ERR_CORRUPT_FILE);
}

static void a_container_inside_another_cannot_be_filled(void **state)
{
    (void)state;
    vw__value inner = new_list(), outer = new_list(), item = integer(1);
    append(inner, item);
    append(outer, inner);
    append(outer, inner); /* twice is fine */
    assert_int_equal(vw__document_append(document, inner, &item, 1), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "a list is filled after it was finished"));
    assert_int_equal(vw__document_append(document, outer, &outer, 1), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "a list is put into itself"));
    assert_int_equal(vw__value_item_count(document, inner), 1);
}

/* ---- folding --------------------------------------------------------------------------------- */

typedef struct folder {
    uint32_t count;
    size_t last_pair_count;
    vw__value last_value;
    bool keeps;
} folder;

static vw_status fold_dict(void *context, vw__document *read, const vw__value *pairs,
                           size_t pair_count, vw__value *folded)
{
    folder *folding = context;
    assert_ptr_equal(read, document);
    folding->last_pair_count = pair_count;
    folding->last_value = pair_count != 0 ? pairs[1] : vw__value_none();
    folding->count++;
    if (!folding->keeps)
        *folded = vw__value_folded(3, folding->count);
    return VW_OK;
}

static void a_dict_is_shown_once_when_it_is_complete(void **state)
{
    (void)state;
    folder folding = {0};
    vw__document_listener fold = {.context = &folding, .dict = fold_dict};
    begin_with(NULL, &fold);
    vw__value dict = dict_of("a", integer(1)), list = new_list();
    vw__value more[2] = {string("b"), integer(2)};
    assert_int_equal(vw__document_set(document, dict, more, 1), VW_OK);
    assert_int_equal(folding.count, 0);
    append(list, dict);
    assert_int_equal(folding.count, 1);
    assert_int_equal(folding.last_pair_count, 2);
    append(list, dict);
    assert_int_equal(folding.count, 1);
    assert_true(vw__document_resolve(document, dict) == vw__value_folded(3, 1));
    assert_true(item_at(list, 0) == vw__value_folded(3, 1));
    assert_true(item_at(list, 1) == vw__value_folded(3, 1));
    size_t pair_count = 77;
    assert_null(vw__value_pairs(document, dict, &pair_count));
    assert_int_equal(vw__document_set(document, dict, more, 1), VW_ERR_CORRUPT_FILE);
}

static void a_dict_that_is_not_taken_stays(void **state)
{
    (void)state;
    folder folding = {.keeps = true};
    vw__document_listener fold = {.context = &folding, .dict = fold_dict};
    begin_with(NULL, &fold);
    vw__value dict = dict_of("a", integer(1)), list = new_list(), root;
    size_t pair_count = 0;
    append(list, dict);
    assert_int_equal(vw__document_close(document, list, &root), VW_OK);
    assert_true(root == list && item_at(root, 0) == dict);
    assert_non_null(vw__value_pairs(document, dict, &pair_count));
    assert_int_equal(pair_count, 1);
}

static void closing_folds_the_root(void **state)
{
    (void)state;
    folder folding = {0};
    vw__document_listener fold = {.context = &folding, .dict = fold_dict};
    begin_with(NULL, &fold);
    vw__value root;
    assert_int_equal(vw__document_close(document, new_dict(), &root), VW_OK);
    assert_true(root == vw__value_folded(3, 1));
    assert_int_equal(vw__document_close(document, integer(5), &root), VW_OK);
    assert_true(root == integer(5));
}

static void a_folded_list_is_folded_wherever_it_is(void **state)
{
    (void)state;
    enum { LENGTH = 9000 };
    folder folding = {0};
    vw__document_listener fold = {.context = &folding, .dict = fold_dict};
    begin_with(NULL, &fold);
    vw__value inner = new_list(), outer = new_list();
    for (int64_t i = 0; i < LENGTH; i++)
        append(inner, integer(i));
    vw__value first = dict_of("a", inner), second = dict_of("b", inner);
    append(outer, inner);
    append(outer, first);
    assert_true(folding.last_value == inner);
    vw__document_fold_list(document, inner, vw__value_folded(9, 9));
    append(outer, second);
    assert_true(folding.last_value == vw__value_folded(9, 9));
    assert_true(item_at(outer, 0) == vw__value_folded(9, 9));
    assert_int_equal(vw__value_item_count(document, inner), 0);
    uint64_t cursor = 0;
    vw__value item;
    assert_false(vw__value_next_item(document, inner, &cursor, &item));
}

static void memory_of_what_was_folded_is_used_again(void **state)
{
    (void)state;
    folder folding = {0};
    vw__document_listener fold = {.context = &folding, .dict = fold_dict};
    begin_with(NULL, &fold);
    vw__value outer = new_list(), items[50];
    for (int64_t i = 0; i < 50; i++)
        items[i] = integer(i);
    enum { COUNT = 100000 };
    for (int i = 0; i < COUNT; i++) {
        vw__value frames = new_list();
        assert_int_equal(vw__document_append(document, frames, items, 50), VW_OK);
        append(outer, dict_of("frames", frames));
        vw__document_fold_list(document, frames, vw__value_folded(1, 1));
    }
    /* Two nodes and one item of the outer list each; grown by half at most, and some slack. */
    assert_true(vw__document_memory_bytes(document) < COUNT * (2 * 16 + 8) * 3 / 2 + (1 << 20));
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void depth_is_limited(void **state)
{
    (void)state;
    vw__document_limits limits = {.depth = 3};
    begin_with(&limits, NULL);
    vw__value lists[4] = {new_list(), new_list(), new_list(), new_list()};
    append(lists[1], lists[0]);
    append(lists[2], lists[1]);
    assert_int_equal(vw__document_append(document, lists[3], &lists[2], 1), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "nested deeper than the limit of 3"));
    vw__value tuple;
    assert_int_equal(vw__document_tuple(document, &lists[2], 1, &tuple), VW_ERR_UNSUPPORTED);
    vw__value pair[2] = {integer(1), lists[2]};
    assert_int_equal(vw__document_set(document, new_dict(), pair, 1), VW_ERR_UNSUPPORTED);
}

static void memory_is_limited_and_the_readers_part_counts(void **state)
{
    (void)state;
    vw__document_limits limits = {.memory_bytes = 100000};
    begin_with(&limits, NULL);
    void *memory = NULL, *kept;
    assert_int_equal(vw__document_resize_memory(document, NULL, 0, 60000, "a test", &memory),
                     VW_OK);
    kept = memory;
    assert_int_equal(vw__document_resize_memory(document, memory, 60000, 100001, "a test", &memory),
                     VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "the limit of 100000 bytes: 60000 are held, 40001 more "
                                            "wanted for a test"));
    assert_ptr_equal(memory, kept);

    static char text[50000];
    vw__value value = 77;
    assert_int_equal(vw__document_string(document, text, sizeof text, &value), VW_ERR_UNSUPPORTED);
    assert_true(value == 77);
    assert_true(vw__document_memory_bytes(document) <= 100000);
    vw__document_free_memory(document, memory, 60000);
    assert_int_equal(vw__document_string(document, text, sizeof text, &value), VW_OK);

    vw__value list = new_list();
    vw_status status = VW_OK;
    for (int i = 0; i < 100000 && status == VW_OK; i++) {
        vw__value item = vw__value_none();
        status = vw__document_append(document, list, &item, 1);
        assert_true(vw__document_memory_bytes(document) <= 100000);
    }
    assert_int_equal(status, VW_ERR_UNSUPPORTED);
}

static void values_are_limited(void **state)
{
    (void)state;
    vw__document_limits limits = {.value_count = 3};
    begin_with(&limits, NULL);
    vw__value list = new_list(), items[3] = {0};
    assert_int_equal(vw__document_append(document, list, items, 3), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "more values than the limit"));
    assert_int_equal(vw__document_append(document, list, items, 2), VW_OK);
    assert_int_equal(vw__document_new_dict(document, &items[0]), VW_ERR_UNSUPPORTED);
}

static bool build_a_document(void *context)
{
    (void)context;
    static const char *const names[] = {"a", "b"};
    folder folding = {0};
    vw__document_listener fold = {
        .context = &folding, .names = names, .name_count = 2, .dict = fold_dict};
    vw__document *built = NULL;
    bool has_succeeded = false;
    vw_status status = vw__document_create(NULL, &fold, &built);
    document = built; /* fold_dict() looks at it */
    vw__value list, dict, tuple, number, pair[2], root;
    if (status != VW_OK || vw__document_new_list(built, &list) != VW_OK)
        goto done;
    for (int i = 0; i < 5000; i++) {
        if (vw__document_new_dict(built, &dict) != VW_OK ||
            vw__document_string(built, "key", 3, &pair[0]) != VW_OK ||
            vw__document_float(built, i, &pair[1]) != VW_OK ||
            vw__document_set(built, dict, pair, 1) != VW_OK ||
            vw__document_append(built, list, &dict, 1) != VW_OK ||
            vw__document_unsigned(built, UINT64_MAX, &number) != VW_OK ||
            vw__document_tuple(built, &number, 1, &tuple) != VW_OK)
            goto done;
    }
    has_succeeded = vw__document_close(built, list, &root) == VW_OK;
done:
    vw__document_destroy(built);
    document = NULL;
    return has_succeeded;
}

static void host_memory_may_run_out_anywhere(void **state)
{
    (void)state;
    tear_down(NULL);
    vw_test_sweep_host_memory(build_a_document, NULL);
}

int main(void)
{
#define document_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        document_test(integers_of_64_bits_come_back),
        document_test(unsigned_integers_come_back),
        document_test(floats_come_back_and_are_not_integers),
        document_test(other_values_are_not_numbers),
        document_test(strings_are_equal_exactly_if_their_ids_are),

        document_test(lists_of_every_length_keep_their_items),
        document_test(dicts_of_every_length_keep_their_pairs),
        document_test(tuples_and_sets_have_items),
        document_test(a_container_inside_another_cannot_be_filled),

        document_test(a_dict_is_shown_once_when_it_is_complete),
        document_test(a_dict_that_is_not_taken_stays),
        document_test(closing_folds_the_root),
        document_test(a_folded_list_is_folded_wherever_it_is),
        document_test(memory_of_what_was_folded_is_used_again),

        document_test(depth_is_limited),
        document_test(memory_is_limited_and_the_readers_part_counts),
        document_test(values_are_limited),
        document_test(host_memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
