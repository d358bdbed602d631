/* test_pickle_fold.c - records are taken straight from the machine's stack, and nobody can tell.
 *
 * Dicts and lists that are begun with EMPTY_..., MEMOIZE, MARK are not made before somebody looks
 * (pickle_machine.h calls that a promise). The machine does so only with enough bytes ahead, so
 * each pickle here has some behind its end, and begins with a list that sets up mark and memo. */
#include "parse/pickle_read.h"

#include <string.h>

#include "base/byte_buffer.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#define BEGIN "\200\4]\224("  /* the outermost list, memo place 0 */
#define BEGIN_EMPTY BEGIN "e" /* without an open mark */
#define BEHIND "................................"
#define DICT_A "}\224(\214\1aK\1u"

/* ---- a listener ------------------------------------------------------------------------------ */

enum { A_DICT = 1, A_LIST = 2 };

static uint32_t dict_count, list_count;

/* Takes every dict but those with the key "keep". */
static vw_status take_dict(void *context, vw__document *document, const vw__value *pairs,
                           size_t pair_count, vw__value *folded)
{
    (void)context, (void)document;
    for (size_t i = 0; i < pair_count; i++)
        if (vw__value_get_kind(pairs[2 * i]) == VW__VALUE_STRING &&
            vw__value_string_id(pairs[2 * i]) == 0)
            return VW_OK;
    *folded = vw__value_folded(A_DICT, ++dict_count);
    return VW_OK;
}

/* Takes lists of dicts that were taken. */
static vw_status take_list(void *context, vw__document *document, const vw__value *items,
                           size_t item_count, vw__value *folded)
{
    (void)context, (void)document;
    assert_true(item_count > 0);
    for (size_t i = 0; i < item_count; i++) {
        assert_true(items[i] == vw__document_resolve(document, items[i]));
        if (vw__value_get_kind(items[i]) != VW__VALUE_FOLDED)
            return VW_OK;
    }
    *folded = vw__value_folded(A_LIST, ++list_count);
    return VW_OK;
}

static const char *const names[] = {"keep"};
static const vw__document_listener listener = {
    .names = names, .name_count = 1, .dict = take_dict, .list = take_list};

/* ---- reading --------------------------------------------------------------------------------- */

static vw__document *document;
static vw__value root;

static int tear_down(void **state)
{
    (void)state;
    vw__document_destroy(document);
    document = NULL;
    return 0;
}

static vw_status read_bytes(const void *bytes, size_t size_bytes, const vw__document_limits *limits)
{
    vw__byte_source *source;
    vw__document_destroy(document);
    document = NULL;
    dict_count = list_count = 0;
    assert_int_equal(vw__document_create(limits, &listener, &document), VW_OK);
    assert_int_equal(vw__byte_source_open_memory(bytes, size_bytes, NULL, &source), VW_OK);
    vw_status status = vw__unpickle_read(source, document, &root);
    vw__byte_source_close(source);
    return status;
}

/* "d1" is the first dict that was taken, "l1" the first list. */
static void describe(vw__byte_buffer *text, vw__value value)
{
    uint64_t cursor = 0;
    int64_t number = 0;
    vw__value item;
    value = vw__document_resolve(document, value);
    switch (vw__value_get_kind(value)) {
    case VW__VALUE_FOLDED:
        vw__append_format(text, "%c%u", vw__value_folded_kind(value) == A_DICT ? 'd' : 'l',
                          vw__value_folded_id(value));
        break;
    case VW__VALUE_DICT:
        vw__append_text(text, "{}");
        break;
    case VW__VALUE_LIST:
    case VW__VALUE_TUPLE:
        vw__append_text(text, "[");
        while (vw__value_next_item(document, value, &cursor, &item)) {
            vw__append_text(text, cursor > 1 ? " " : "");
            describe(text, item);
        }
        vw__append_text(text, "]");
        break;
    default:
        if (vw__value_get_i64(document, value, &number))
            vw__append_format(text, "%d", (int)number);
        else
            vw__append_text(text, vw__value_kind_name(vw__value_get_kind(value)));
        break;
    }
}

static void assert_root(const char *expected)
{
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    describe(&text, root);
    assert_string_equal(vw__byte_buffer_text(&text), expected);
    vw__byte_buffer_deinit(&text);
}

/* `pickle` is a string literal. */
#define assert_reads(pickle, expected)                                                             \
    do {                                                                                           \
        if (read_bytes(pickle BEHIND, sizeof(pickle BEHIND) - 1, NULL) != VW_OK)                   \
            fail_msg("%s", vw_last_error());                                                       \
        assert_root(expected);                                                                     \
    } while (0)

#define assert_refuses(pickle, words)                                                              \
    do {                                                                                           \
        assert_int_equal(read_bytes(pickle BEHIND, sizeof(pickle BEHIND) - 1, NULL),               \
                         VW_ERR_CORRUPT_FILE);                                                     \
        if (strstr(vw_last_error(), words) == NULL)                                                \
            fail_msg("\"%s\" does not say \"%s\"", vw_last_error(), words);                        \
    } while (0)

/* ---- what is taken --------------------------------------------------------------------------- */

static void records_are_taken_in_the_order_of_the_file(void **state)
{
    (void)state;
    assert_reads(BEGIN DICT_A DICT_A DICT_A "e.", "[d1 d2 d3]");
    assert_reads(BEGIN_EMPTY DICT_A "a" DICT_A "a.", "[d1 d2]");
}

static void a_record_that_may_still_grow_is_taken_when_the_list_is(void **state)
{
    (void)state;
    assert_reads(BEGIN DICT_A DICT_A "K\7" DICT_A "e.", "[d1 d3 7 d2]");
}

static void a_taken_record_is_the_same_wherever_it_was_stored(void **state)
{
    (void)state;
    assert_reads(BEGIN DICT_A DICT_A "h\1h\2h\1e.", "[d1 d2 d1 d2 d1]");
    assert_reads(BEGIN DICT_A "j\1\0\0\0e.", "[d1 d1]");
}

static void what_is_not_taken_is_kept_and_filled(void **state)
{
    (void)state;
    assert_reads(BEGIN "}\224(\214\4keepK\1u" DICT_A "h\1e.", "[{} d1 {}]");
    size_t pair_count = 0;
    uint64_t cursor = 0;
    vw__value first;
    assert_true(vw__value_next_item(document, root, &cursor, &first));
    const vw__value *pairs = vw__value_pairs(document, first, &pair_count);
    assert_int_equal(pair_count, 1);
    assert_true(vw__value_string_id(pairs[0]) == 0);
}

static void a_list_of_records_is_taken_where_it_goes_into_something_at_once(void **state)
{
    (void)state;
    assert_reads(BEGIN_EMPTY "]\224(" DICT_A DICT_A "eah\1a.", "[l1 l1]");
    assert_reads(BEGIN_EMPTY "]\224(" DICT_A "K\1eah\1a.", "[[d1 1] [d1 1]]");
    /* Here one more item may come, and does. */
    assert_reads(BEGIN_EMPTY "]\224(" DICT_A "e" DICT_A "aa.", "[[d1 d2]]");
}

static void a_dict_may_come_in_portions(void **state)
{
    (void)state;
    assert_reads(BEGIN "}\224(\214\1aK\1u(\214\1bK\2u" DICT_A "e.", "[d1 d2]");
    assert_reads(BEGIN "}\224(\214\1aK\1u\214\4keepK\2s" DICT_A "e.", "[{} d1]");
}

/* ---- looking at a promise -------------------------------------------------------------------- */

static void a_container_can_be_fetched_before_it_is_filled(void **state)
{
    (void)state;
    assert_refuses(BEGIN "}\224(\214\1ah\1u", "a dict is put into itself");
    assert_refuses(BEGIN "]\224(h\1e", "a list is put into itself");
    assert_refuses(BEGIN "}\224(\214\1a]h\1au", "a dict is filled after it was finished");
    assert_reads(BEGIN "}\224(h\1"
                       "0\214\1aK\1u" DICT_A "e.",
                 "[d1 d2]"); /* and dropped */
}

static void storing_over_a_promise_leaves_the_other_value_there(void **state)
{
    (void)state;
    assert_reads(BEGIN "}\224(K\5q\1K\6u" DICT_A "h\1e.", "[d1 d2 5]");
    assert_reads(BEGIN "}\224(K\5r\1\0\0\0K\6u" DICT_A "h\1e.", "[d1 d2 5]");
}

static void taking_the_mark_away_leaves_the_container(void **state)
{
    (void)state;
    assert_reads(BEGIN "}\224(K\1"
                       "1h\1e.",
                 "[d1 d1]");
    assert_reads(BEGIN "}\224("
                       "0h\1e.",
                 "[d1 d1]");
    assert_reads(BEGIN "]\224(K\1t"
                       "h\1e.",
                 "[[] [1] []]");
    assert_reads(BEGIN "]\224(K\1l"
                       "h\1e.",
                 "[[] [1] []]");
    assert_reads(BEGIN "]\224(K\1K\2d"
                       "h\1e.",
                 "[[] d1 []]");
}

static void filling_the_wrong_thing_is_refused(void **state)
{
    (void)state;
    assert_refuses(BEGIN "}\224(K\1e", "expected a list to fill, found a dict");
    assert_refuses(BEGIN "]\224(K\1K\2u", "expected a dict to fill, found a list");
    assert_refuses(BEGIN "}\224(K\1u}", "expected keys with values, found 1 of both");
    assert_refuses(BEGIN "}\224((K\1K\2u}", "expected a dict below the MARK, found nothing");
    assert_refuses(BEGIN "]\224((K\1ea", "expected a list below the MARK, found nothing");
    assert_refuses(BEGIN DICT_A "}\224(h\1K\1u}", "a record is the key of a dict");
    assert_refuses(BEGIN "}\224(]K\1u}", "a list is the key of a dict");
    assert_refuses(BEGIN DICT_A "}0(K\1K\2u", "expected a dict to fill, found a record");
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static void depth_and_number_of_values_are_bounded_all_the_same(void **state)
{
    (void)state;
    static const char deep[] = BEGIN "}\224(\214\1a]\224(](K\1eeu}e." BEHIND;
    static const char wide[] = BEGIN DICT_A DICT_A "e." BEHIND;
    vw__document_limits limits = {.depth = 1};
    assert_int_equal(read_bytes(deep, sizeof deep - 1, &limits), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "deeper than the limit of 1"));
    limits = (vw__document_limits){.value_count = 9}; /* three containers, six values in them */
    assert_int_equal(read_bytes(wide, sizeof wide - 1, &limits), VW_OK);
    limits.value_count = 8;
    assert_int_equal(read_bytes(wide, sizeof wide - 1, &limits), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "more values than the limit"));
}

/* Cut into two frames between any two instructions, a pickle reads the same. */
static void a_frame_may_end_anywhere(void **state)
{
    (void)state;
    static const char *const instructions[] = {
        "]", "\224",    "(", "}",    "\224", "(",       "\214\1a", "K\1", "u",       "}",   "\224",
        "(", "\214\1a", "]", "\224", "(",    "}",       "\224",    "(",   "\214\1b", "K\2", "u",
        "e", "u",       "}", "\224", "(",    "\214\1c", "K\3",     "u",   "h\1",     "e"};
    enum { COUNT = sizeof instructions / sizeof *instructions };
    for (size_t cut = 0; cut <= COUNT; cut++) {
        vw__byte_buffer bytes, frames[2];
        vw__byte_buffer_init(&bytes);
        vw__append_text(&bytes, "\200\4");
        for (size_t i = 0; i < 2; i++) {
            vw__byte_buffer_init(&frames[i]);
            for (size_t filler = 0; filler < 20; filler++)
                vw__append_text(&frames[i], i == 0 ? "N0" : "");
        }
        for (size_t i = 0; i < COUNT; i++)
            vw__append_text(&frames[i >= cut], instructions[i]);
        vw__append_text(&frames[1], ".");
        for (size_t i = 0; i < 2; i++) {
            vw__append_u8(&bytes, 0x95);
            vw__append_u8(&bytes, (uint8_t)vw__byte_buffer_size(&frames[i]));
            vw__append_bytes(&bytes, "\0\0\0\0\0\0\0", 7);
            vw__append_bytes(&bytes, vw__byte_buffer_text(&frames[i]),
                             vw__byte_buffer_size(&frames[i]));
            vw__byte_buffer_deinit(&frames[i]);
        }
        if (read_bytes(vw__byte_buffer_text(&bytes), vw__byte_buffer_size(&bytes), NULL) != VW_OK)
            fail_msg("cut at %zu: %s", cut, vw_last_error());
        assert_root("[d1 d3 d4 d1]");
        vw__byte_buffer_deinit(&bytes);
    }
}

static void records_that_are_taken_leave_nothing_in_the_document(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    vw__byte_buffer bytes;
    vw__byte_buffer_init(&bytes);
    vw__append_bytes(&bytes, BEGIN, sizeof(BEGIN) - 1);
    for (size_t i = 0; i < COUNT; i++)
        vw__append_bytes(&bytes, DICT_A, sizeof(DICT_A) - 1);
    vw__append_text(&bytes, "e.");
    assert_int_equal(read_bytes(vw__byte_buffer_text(&bytes), vw__byte_buffer_size(&bytes), NULL),
                     VW_OK);
    vw__byte_buffer_deinit(&bytes);
    assert_int_equal(dict_count, COUNT);
    /* Far less than the items, and a container for each of them. */
    assert_true(vw__document_memory_bytes(document) < COUNT * (sizeof(vw__value) + 8));
}

static bool read_again(void *context)
{
    static const char pickle[] = BEGIN DICT_A
        "]\224(" DICT_A DICT_A "e}\224(\214\4keep]\224(" DICT_A "eu" DICT_A "h\1e." BEHIND;
    vw__byte_source *source = NULL;
    vw__document *read = NULL;
    vw__value value;
    (void)context;
    bool has_succeeded =
        vw__byte_source_open_memory(pickle, sizeof pickle - 1, NULL, &source) == VW_OK &&
        vw__document_create(NULL, &listener, &read) == VW_OK &&
        vw__unpickle_read(source, read, &value) == VW_OK;
    vw__byte_source_close(source);
    vw__document_destroy(read);
    return has_succeeded;
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(read_again, NULL);
}

int main(void)
{
#define fold_test(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        fold_test(records_are_taken_in_the_order_of_the_file),
        fold_test(a_record_that_may_still_grow_is_taken_when_the_list_is),
        fold_test(a_taken_record_is_the_same_wherever_it_was_stored),
        fold_test(what_is_not_taken_is_kept_and_filled),
        fold_test(a_list_of_records_is_taken_where_it_goes_into_something_at_once),
        fold_test(a_dict_may_come_in_portions),
        fold_test(a_container_can_be_fetched_before_it_is_filled),
        fold_test(storing_over_a_promise_leaves_the_other_value_there),
        fold_test(taking_the_mark_away_leaves_the_container),
        fold_test(filling_the_wrong_thing_is_refused),
        fold_test(depth_and_number_of_values_are_bounded_all_the_same),
        fold_test(a_frame_may_end_anywhere),
        fold_test(records_that_are_taken_leave_nothing_in_the_document),
        fold_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
