/* test_pickle_read.c - plain data comes through, code is refused, and nothing a file says is
 * believed before it was checked. */
#include "parse/pickle_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/byte_buffer.h"
#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#include "pickle_samples.h"

static vw__document *document;
static vw__value root;

static int tear_down(void **state)
{
    (void)state;
    vw__document_destroy(document);
    document = NULL;
    return 0;
}

static vw_status read_limited(const void *bytes, size_t size_bytes,
                              const vw__document_limits *limits, const vw__document_listener *fold)
{
    vw__byte_source *source;
    vw__document_destroy(document);
    assert_int_equal(vw__document_create(limits, fold, &document), VW_OK);
    assert_int_equal(vw__byte_source_open_memory(bytes, size_bytes, NULL, &source), VW_OK);
    root = vw__value_folded(0, 77);
    vw_status status = vw__unpickle_read(source, document, &root);
    if (status != VW_OK)
        assert_true(root == vw__value_folded(0, 77));
    vw__byte_source_close(source);
    return status;
}

static vw_status read_bytes(const void *bytes, size_t size_bytes)
{
    return read_limited(bytes, size_bytes, NULL, NULL);
}

/* ---- data as text ---------------------------------------------------------------------------- */

static void describe(vw__byte_buffer *text, vw__value value);

static void describe_items(vw__byte_buffer *text, vw__value value)
{
    uint64_t cursor = 0;
    vw__value item;
    while (vw__value_next_item(document, value, &cursor, &item)) {
        describe(text, item);
        vw__append_text(text, " ");
    }
}

static void describe_pairs(vw__byte_buffer *text, vw__value value)
{
    size_t pair_count;
    const vw__value *pairs = vw__value_pairs(document, value, &pair_count);
    for (size_t i = 0; i < pair_count; i++) {
        describe(text, pairs[2 * i]);
        vw__append_text(text, ":");
        describe(text, vw__document_resolve(document, pairs[2 * i + 1]));
        vw__append_text(text, " ");
    }
}

static void describe_scalar(vw__byte_buffer *text, vw__value value)
{
    int64_t number;
    uint64_t large;
    double fraction;
    size_t size_bytes;
    switch (vw__value_get_kind(value)) {
    case VW__VALUE_INTEGER:
        if (vw__value_get_i64(document, value, &number))
            vw__append_format(text, "%" PRIi64, number);
        else if (vw__value_get_u64(document, value, &large))
            vw__append_format(text, "%" PRIu64, large);
        break;
    case VW__VALUE_FLOAT:
        assert_true(vw__value_get_f64(document, value, &fraction));
        vw__append_format(text, "%.17g", fraction);
        break;
    case VW__VALUE_STRING:
        vw__append_format(text, "'%s'", vw__value_string(document, value, &size_bytes));
        break;
    case VW__VALUE_BYTES:
        vw__value_string(document, value, &size_bytes);
        vw__append_format(text, "bytes(%zu)", size_bytes);
        break;
    case VW__VALUE_FOLDED:
        vw__append_format(text, "#%u", (unsigned)vw__value_folded_id(value));
        break;
    default:
        vw__append_text(text, vw__value_kind_name(vw__value_get_kind(value)));
    }
}

static void describe(vw__byte_buffer *text, vw__value value)
{
    switch (vw__value_get_kind(value)) {
    case VW__VALUE_LIST:
        vw__append_text(text, "[ ");
        describe_items(text, value);
        vw__append_text(text, "]");
        break;
    case VW__VALUE_TUPLE:
        vw__append_text(text, "( ");
        describe_items(text, value);
        vw__append_text(text, ")");
        break;
    case VW__VALUE_DICT:
        vw__append_text(text, "{ ");
        describe_pairs(text, value);
        vw__append_text(text, "}");
        break;
    default:
        describe_scalar(text, value);
    }
}

static void assert_describes(vw__value value, const char *expected)
{
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    describe(&text, value);
    assert_string_equal(vw__byte_buffer_text(&text), expected);
    vw__byte_buffer_deinit(&text);
}

#define assert_reads(pickle, expected)                                                             \
    do {                                                                                           \
        vw_status read_status = read_bytes(pickle, sizeof(pickle) - 1);                            \
        if (read_status != VW_OK)                                                                  \
            fail_msg("%s", vw_last_error());                                                       \
        assert_describes(root, expected);                                                          \
    } while (0)

#define assert_refused_with(expected_status, pickle, words)                                        \
    do {                                                                                           \
        assert_int_equal(read_bytes(pickle, sizeof(pickle) - 1), expected_status);                 \
        if (strstr(vw_last_error(), words) == NULL)                                                \
            fail_msg("expected \"%s\" in \"%s\"", words, vw_last_error());                         \
    } while (0)

#define assert_refused(pickle, words) assert_refused_with(VW_ERR_CORRUPT_FILE, pickle, words)

/* ---- what Python writes ---------------------------------------------------------------------- */

static const struct {
    const char *bytes;
    size_t size_bytes;
} samples[] = {
    {sample_protocol_0, sizeof sample_protocol_0 - 1},
    {sample_protocol_1, sizeof sample_protocol_1 - 1},
    {sample_protocol_2, sizeof sample_protocol_2 - 1},
    {sample_protocol_3, sizeof sample_protocol_3 - 1},
    {sample_protocol_4, sizeof sample_protocol_4 - 1},
    {sample_protocol_5, sizeof sample_protocol_5 - 1},
    {sample_bytes_and_sets, sizeof sample_bytes_and_sets - 1},
};

enum { PROTOCOL_COUNT = 6, SAMPLE_COUNT = sizeof samples / sizeof *samples };

static void every_protocol_gives_the_same_data(void **state)
{
    (void)state;
    for (size_t i = 0; i < PROTOCOL_COUNT; i++) {
        assert_int_equal(read_bytes(samples[i].bytes, samples[i].size_bytes), VW_OK);
        assert_describes(
            root, "{ 'none':None 'flags':[ True False ] "
                  "'numbers':[ 0 255 65535 -1 2147483647 -2147483648 2147483648 140737488355328 "
                  "-18014398509481984 18014398509481984 9223372036854775807 -9223372036854775808 "
                  "9223372036854775808 18446744073709551615 a huge integer a huge integer ] "
                  "'floats':[ 0.5 -1.0000000000000001e+300 inf ] "
                  "'text':[ '' 'abc' '\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80' 'a\\u0041\n\x1a' "
                  "'it's' ] "
                  "'tuples':[ ( ) ( 1 ) ( 1 2 ) ( 1 2 3 ) ( 1 2 3 4 ) ] "
                  "'shared':[ [ 7 ] [ 7 ] { 'line':1 } { 'line':1 } ] "
                  "'nested':{ 'a':{ 'b':[ ] } } ( 1 'k' ):{ } }");
    }
}

static void bytes_and_sets_are_data_too(void **state)
{
    (void)state;
    assert_reads(sample_bytes_and_sets, "{ 'bytes':bytes(2) 'set':( 5 ) 'frozen':( 6 ) "
                                        "'array':bytes(3) 'long':bytes(300) }");
}

static void lengths_come_in_every_width(void **state)
{
    (void)state;
    assert_reads("(T\2\0\0\0ab"
                 "U\2ab"
                 "X\2\0\0\0ab"
                 "\214\2ab"
                 "\215\2\0\0\0\0\0\0\0ab"
                 "B\2\0\0\0ab"
                 "C\2ab"
                 "\216\2\0\0\0\0\0\0\0ab"
                 "\226\2\0\0\0\0\0\0\0abt.",
                 "( 'ab' 'ab' 'ab' 'ab' 'ab' bytes(2) bytes(2) bytes(2) bytes(2) )");
}

static void long_integers_of_any_length_are_read(void **state)
{
    (void)state;
    assert_reads("(\212\0"                                         /* nothing is 0 */
                 "\212\1\377"                                      /* -1 */
                 "\212\11\0\0\0\0\0\0\0\200\0"                     /* 2^63 */
                 "\212\12\5\0\0\0\0\0\0\0\0\0"                     /* 5, in ten bytes */
                 "\212\12\373\377\377\377\377\377\377\377\377\377" /* -5 */
                 "\212\12\0\0\0\0\0\0\0\0\1\0"                     /* 2^64 */
                 "\213\2\0\0\0\0\1"                                /* 256 */
                 "\213\0\0\0\0t.",
                 "( 0 -1 9223372036854775808 5 -5 a huge integer 256 0 )");
}

static void text_of_protocol_0_is_read(void **state)
{
    (void)state;
    assert_reads("(I01\nI00\nI-7\nI1\nL5L\nL-99999999999999999999L\nL18446744073709551615\nt.",
                 "( True False -7 1 5 a huge integer 18446744073709551615 )");
    assert_reads("(F1.5\nF-1e-3\nFinf\nFnan\nt.", "( 1.5 -0.001 inf nan )");
    assert_reads("(S'a\\'b\\\\\\x41\\102\\n\\q'\nS\"x\"\nS''\nt.", "( 'a'b\\AB\n\\q' 'x' '' )");
    assert_reads("(Va\\u0042\\\\u0042\\U00000043\\\nV\351\nt.", "( 'aB\\\\u0042C\\' '\xc3\xa9' )");
}

/* Torch's own writer in C++ memoizes a container behind its closing instruction. */
static void containers_may_be_memoized_after_they_are_filled(void **state)
{
    (void)state;
    assert_reads("\200\2](}(X\1\0\0\0aq\0]K\1aq\1uq\2h\2h\1e.",
                 "[ { 'a':[ 1 ] } { 'a':[ 1 ] } [ 1 ] ]");
}

static void stack_instructions_do_as_in_python(void **state)
{
    (void)state;
    assert_reads("K\1K\2"
                 "0.",
                 "1");           /* POP */
    assert_reads("K\1(0.", "1"); /* POP of a mark */
    assert_reads("K\1(K\2K\3"
                 "1.",
                 "1"); /* POP_MARK */
    assert_reads("K\1"
                 "2\206.",
                 "( 1 1 )");      /* DUP */
    assert_reads("K\1K\2.", "2"); /* STOP takes the topmost */
    assert_reads("(K\1q\5h\5r\7\0\0\0j\7\0\0\0p8\ng8\nt.", "( 1 1 1 1 )");
    assert_reads("(K\1q\2K\2\224h\1t.", "( 1 2 2 )"); /* MEMOIZE counts what is stored */
    assert_reads("}(K\1K\2K\1K\3u.", "{ 1:2 1:3 }");  /* keys are not looked at */
}

static void what_follows_the_pickle_is_left_alone(void **state)
{
    (void)state;
    static const char pickles[] = "K\1.K\2.";
    vw__byte_source *source;
    assert_int_equal(vw__byte_source_open_memory(pickles, sizeof pickles - 1, NULL, &source),
                     VW_OK);
    assert_int_equal(vw__document_create(NULL, NULL, &document), VW_OK);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(vw__unpickle_read(source, document, &root), VW_OK);
        assert_int_equal(vw__byte_source_offset(source), 3 * i);
        assert_describes(root, i == 1 ? "1" : "2");
    }
    vw__byte_source_close(source);
}

/* ---- folding --------------------------------------------------------------------------------- */

static const char *const fold_names[] = {"keep", "frames"};
static unsigned fold_count;

static vw_status fold_dict(void *context, vw__document *read, const vw__value *pairs,
                           size_t pair_count, vw__value *folded)
{
    vw_status *status = context;
    for (size_t i = 0; i < pair_count; i++) {
        if (vw__value_string_id(pairs[2 * i]) == 0)
            return VW_OK;
        if (vw__value_string_id(pairs[2 * i]) == 1 &&
            vw__value_get_kind(pairs[2 * i + 1]) == VW__VALUE_LIST)
            vw__document_fold_list(read, pairs[2 * i + 1], vw__value_folded(1, 1000));
    }
    *folded = vw__value_folded(0, ++fold_count);
    return *status;
}

static vw_status fold_status;
static const vw__document_listener fold = {
    .context = &fold_status, .names = fold_names, .name_count = 2, .dict = fold_dict};

static void a_dict_is_folded_when_it_is_put_somewhere_and_then_everywhere(void **state)
{
    (void)state;
    static const char pickle[] = "\200\4](}\224(\214\1aK\1u}\224(\214\4keepK\2uh\0h\1}e.";
    fold_count = 0;
    fold_status = VW_OK;
    assert_int_equal(read_limited(pickle, sizeof pickle - 1, NULL, &fold), VW_OK);
    assert_describes(root, "[ #1 { 'keep':2 } #1 { 'keep':2 } #2 ]");
    assert_int_equal(fold_count, 2);
}

static void a_list_folded_by_one_dict_is_folded_in_the_next(void **state)
{
    (void)state;
    fold_count = 0;
    fold_status = VW_OK;
    static const char shared[] = "\200\4](}(\214\6frames]\224K\1au}(\214\4keeph\0uh\0e.";
    assert_int_equal(read_limited(shared, sizeof shared - 1, NULL, &fold), VW_OK);
    assert_describes(root, "[ #1 { 'keep':#1000 } #1000 ]");
}

static void the_outermost_dict_is_folded_at_the_end(void **state)
{
    (void)state;
    fold_count = 0;
    fold_status = VW_OK;
    assert_int_equal(read_limited("}.", 2, NULL, &fold), VW_OK);
    assert_describes(root, "#1");
}

static void a_listener_that_fails_ends_the_reading(void **state)
{
    (void)state;
    fold_status = VW_ERR_WRONG_STATE;
    assert_int_equal(read_limited("]}a.", 4, NULL, &fold), VW_ERR_WRONG_STATE);
    fold_status = VW_OK;
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void every_prefix_is_refused_with_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        for (size_t size_bytes = 0; size_bytes < samples[i].size_bytes; size_bytes++) {
            char *exact = malloc(size_bytes + (size_bytes == 0));
            assert_non_null(exact);
            memcpy(exact, samples[i].bytes, size_bytes);
            assert_int_equal(read_bytes(exact, size_bytes), VW_ERR_CORRUPT_FILE);
            assert_true(strstr(vw_last_error(), "cut short") != NULL ||
                        strstr(vw_last_error(), "end of line") != NULL);
            free(exact);
        }
    }
}

static void instructions_that_run_code_are_refused_by_name(void **state)
{
    (void)state;
    assert_refused("cos\nsystem\n(S'true'\ntR.", "GLOBAL: it names code, os.system");
    assert_refused("\200\4\214\2os\214\6system\223.", "STACK_GLOBAL: it names code, os.system");
    assert_refused("(ios\nsystem\n.", "byte 1 of the pickle, INST: it names code, os.system");
    assert_refused("c\33[31m\n\33\n.", "names code, ?[31m.?");
    assert_refused("K\1\223.", "expected 2 values");
    assert_refused("NN\223.", "names code, ?.?");
    assert_refused("NNR.", "byte 2 of the pickle, REDUCE: this instruction builds objects");
    assert_refused("NNb.", "BUILD");
    assert_refused("(No.", "OBJ");
    assert_refused("NN\201.", "NEWOBJ");
    assert_refused("NNN\222.", "NEWOBJ_EX");
    assert_refused("\202\1.", "EXT1");
    assert_refused("\203\1\1.", "EXT2");
    assert_refused("\204\1\1\1\1.", "EXT4");
    assert_refused("P1\n.", "PERSID: this instruction wants something from outside");
    assert_refused("NQ.", "BINPERSID");
    assert_refused("\227.", "NEXT_BUFFER");
    assert_refused("N\230.", "READONLY_BUFFER");
}

static void other_files_are_refused(void **state)
{
    (void)state;
    assert_refused("{\"segments\": []}", "not a pickle: it begins with byte 0x7b");
    assert_refused("K\1\377.", "byte 2 of the pickle: 0xff is no instruction");
    assert_refused("\200\6.", "protocol 6, the newest known is 5");
    assert_refused("", "the end of the file");
}

static void stack_and_memo_mistakes_are_refused(void **state)
{
    (void)state;
    assert_refused(".", "STOP: expected 1 values on the stack, found 0");
    assert_refused("K\1(.", "STOP: expected 1");
    assert_refused("0.", "POP: expected 1");
    assert_refused("1.", "POP_MARK: expected a MARK, found none");
    assert_refused("2.", "DUP");
    assert_refused("t.", "TUPLE: expected a MARK");
    assert_refused("K\1\206.", "TUPLE2: expected 2 values on the stack, found 1");
    assert_refused("K\1(\205.", "TUPLE1: expected 1");
    assert_refused("]a.", "APPEND: expected 2");
    assert_refused("]N(K\1a.", "APPEND: expected 2");
    assert_refused("}K\1a.", "expected a list to fill, found a dict");
    assert_refused("](K\1K\2u.", "expected a dict to fill, found a list");
    assert_refused("K\1(K\1K\2u.", "expected a dict to fill, found an integer");
    assert_refused("(K\1e.", "expected a list below the MARK, found nothing");
    assert_refused("}(K\1u.", "expected keys with values, found 1 of both");
    assert_refused("(K\1d.", "expected keys with values");
    assert_refused("}K\1s.", "SETITEM: expected 3");
    assert_refused("](K\1\220.", "expected a tuple to fill, found a list");
    assert_refused(")(K\1\220.", "a tuple is filled after it was finished");
    assert_refused("h\0.", "nothing was stored at memo place 0");
    assert_refused("K\1q\2h\1.", "nothing was stored at memo place 1");
    assert_refused("g7\n.", "nothing was stored at memo place 7");
    assert_refused("g-1\n.", "expected a memo place, found \"-1\"");
    assert_refused("\224.", "MEMOIZE: expected 1");
    assert_refused("K\1(q\0.", "BINPUT: expected 1");
}

static void keys_that_python_could_not_hash_are_refused(void **state)
{
    (void)state;
    assert_refused("}(]K\1u.", "a list is the key of a dict");
    assert_refused("}(}K\1u.", "a dict is the key of a dict");
}

static void wrong_text_is_refused(void **state)
{
    (void)state;
    assert_refused("I1x\n.", "expected an integer, found \"1x\"");
    assert_refused("I\n.", "expected an integer");
    assert_refused("I-\n.", "expected an integer");
    assert_refused("I1L\n.", "expected an integer");
    assert_refused("LL\n.", "expected an integer");
    assert_refused("F0x10\n.", "expected a float");
    assert_refused("F 1\n.", "expected a float");
    assert_refused("F\n.", "expected a float");
    assert_refused("Snone\n.", "expected a string in quotes");
    assert_refused("S'\n.", "expected a string in quotes");
    assert_refused("S'a\"\n.", "expected a string in quotes");
    assert_refused("S'\\x4'\n.", "expected a string in quotes");
    assert_refused("S'\\'\n.", "expected a string in quotes");
    assert_refused("V\\u12\n.", "expected text with \\u escapes");
    assert_refused("V\\U00110000\n.", "expected text with \\u escapes");
}

static void negative_lengths_are_refused(void **state)
{
    (void)state;
    assert_refused("\213\377\377\377\377.", "LONG4: a negative length, -1");
    assert_refused("T\376\377\377\377.", "BINSTRING: a negative length, -2");
}

static void an_instruction_must_not_leave_its_frame(void **state)
{
    (void)state;
    assert_reads("\200\4\225\3\0\0\0\0\0\0\0K\1.", "1");
    assert_reads("\200\4\225\2\0\0\0\0\0\0\0K\1.", "1"); /* STOP outside */
    assert_reads("\200\4\225\0\0\0\0\0\0\0\0\225\3\0\0\0\0\0\0\0K\1.", "1");
    assert_reads("\200\4\225\377\377\377\0\0\0\0\0K\1.", "1"); /* more than there is */
    assert_refused("\200\4\225\1\0\0\0\0\0\0\0K\1.",
                   "BININT1: pickle exhausted before end of frame: 2 bytes expected, the frame has "
                   "1 more");
    assert_refused("\200\4\225\4\0\0\0\0\0\0\0X\0\0\0\0.", "exhausted before end of frame");
    assert_refused("\200\4\225\6\0\0\0\0\0\0\0X\3\0\0\0abc.", "exhausted before end of frame");
    assert_refused("\200\4\225\4\0\0\0\0\0\0\0\214\5abcdefghijklmnop.", "before end of frame");
    assert_refused("\200\4\225\40\0\0\0\0\0\0\0\225\2\0\0\0\0\0\0\0K\1.", "a new frame");
    assert_refused("\200\4\225\377\377\377\377\377\377\377\377K\1.",
                   "a frame of 18446744073709551615");
}

/* ---- bombs ----------------------------------------------------------------------------------- */

static void counts_are_not_believed(void **state)
{
    (void)state;
    uint64_t before = vw__host_memory_get_use().in_use_bytes;
    assert_refused("\215\0\0\0\0\0\0\0\20.", "bytes in one piece, the most is");
    assert_refused("\215\377\377\377\377\377\377\377\377.",
                   "a length of 18446744073709551615 bytes");
    assert_refused("X\377\377\377\177abc", "bytes in one piece, the most is");
    assert_refused("X\0\0\0\10abc", "cut short: 134217733 bytes expected, the file has 8 more");
    assert_refused("\213\0\0\0\10abc", "cut short");
    assert_refused("K\1r\377\377\377\377.", "memo place 4294967295, when 0 are in use");
    assert_refused("K\1p99999999\n.", "memo place 99999999");
    assert_true(vw__host_memory_get_use().in_use_bytes - before < 1 << 20);
}

static void nesting_is_bounded_whichever_way_it_is_built(void **state)
{
    (void)state;
    enum { DEPTH = 200000 };
    vw__byte_buffer pickle;
    vw__byte_buffer_init(&pickle);
    for (int i = 0; i < DEPTH; i++)
        vw__append_text(&pickle, "]");
    for (int i = 0; i < DEPTH - 1; i++)
        vw__append_text(&pickle, "a");
    vw__append_text(&pickle, ".");
    assert_int_equal(read_bytes(pickle.bytes, pickle.size_bytes), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "nested deeper than the limit of 512"));

    vw__byte_buffer_clear(&pickle);
    vw__append_text(&pickle, ")");
    for (int i = 0; i < DEPTH; i++)
        vw__append_text(&pickle, "\205");
    vw__append_text(&pickle, ".");
    assert_int_equal(read_bytes(pickle.bytes, pickle.size_bytes), VW_ERR_UNSUPPORTED);
    vw__byte_buffer_deinit(&pickle);
}

static void a_cycle_cannot_be_made(void **state)
{
    (void)state;
    assert_refused("]\224h\0a.", "APPEND: a list is put into itself");
    assert_refused("}\224(K\1h\0u.", "a dict is put into itself");
    assert_refused("\217\224(h\0\220.", "a tuple is put into itself");
    assert_refused("]\224]\224h\0ah\1a.", "a list is put into itself");
    assert_refused("]\224]\224h\0a0h\0h\1a.", "a list is filled after it was finished");
    assert_refused("]\224h\0\205\224h\0h\1a.", "a list is filled after it was finished");
}

/* A list of two references to a list of two references ... : large to walk, small to hold. */
static void shared_parts_cost_nothing(void **state)
{
    (void)state;
    vw__byte_buffer pickle;
    vw__byte_buffer_init(&pickle);
    vw__append_text(&pickle, "\200\4]\224");
    for (int i = 0; i < 200; i++)
        vw__append_format(&pickle, "0](h%ch%ce\224", i, i);
    vw__append_text(&pickle, ".");
    vw__document_limits limits = {.memory_bytes = 256 << 10};
    assert_int_equal(pickle.size_bytes, 3 + 1 + 200 * 9 + 1);
    assert_int_equal(read_limited(pickle.bytes, pickle.size_bytes, &limits, NULL), VW_OK);
    assert_int_equal(vw__value_item_count(document, root), 2);
    vw__byte_buffer_deinit(&pickle);
}

static void the_limits_of_the_document_hold_for_the_reader_too(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20 };
    vw__byte_buffer pickle;
    vw__document_limits limits = {.memory_bytes = 1 << 20};
    static const char *const floods[] = {"N", "(", "N\224", "]", "}", ")", "G00000000"};
    for (size_t i = 0; i < sizeof floods / sizeof *floods; i++) {
        vw__byte_buffer_init(&pickle);
        for (int j = 0; j < COUNT; j++)
            vw__append_text(&pickle, floods[i]);
        tear_down(NULL);
        uint64_t before = vw__host_memory_get_use().in_use_bytes;
        assert_int_equal(read_limited(pickle.bytes, pickle.size_bytes, &limits, NULL),
                         VW_ERR_UNSUPPORTED);
        assert_non_null(strstr(vw_last_error(), "the limit of 1048576 bytes"));
        assert_true(vw__document_memory_bytes(document) <= limits.memory_bytes);
        assert_true(vw__host_memory_get_use().in_use_bytes - before < 2 << 20);
        vw__byte_buffer_deinit(&pickle);
    }
}

static void values_are_counted(void **state)
{
    (void)state;
    vw__document_limits limits = {.value_count = 4};
    assert_int_equal(read_limited("](NNNe.", 7, &limits, NULL), VW_OK);
    assert_int_equal(read_limited("](NNNNe.", 8, &limits, NULL), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "byte 6 of the pickle, APPENDS: more values than"));
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Numbers, strings and lines of all lengths, in a file of several windows: every kind of
 * instruction meets the edge of a window somewhere. */
static void instructions_may_lie_across_windows(void **state)
{
    (void)state;
    enum { ROUNDS = 4000 };
    static char filler[70000];
    memset(filler, 'x', sizeof filler);
    vw__byte_buffer pickle;
    vw__byte_buffer_init(&pickle);
    vw__append_text(&pickle, "]");
    uint64_t expected = 0, sum = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        size_t length = i % 1000 == 999 ? sizeof filler : i * 7 % 600;
        vw__append_text(&pickle, "(J");
        vw__append_u32_le(&pickle, i);
        vw__append_text(&pickle, "X");
        vw__append_u32_le(&pickle, (uint32_t)length);
        vw__append_bytes(&pickle, filler, length);
        vw__append_format(&pickle, "I%u\nS'%.*s'\nq", i, (int)(i % 50), filler);
        vw__append_u8(&pickle, 9);
        vw__append_text(&pickle, "h");
        vw__append_u8(&pickle, 9);
        vw__append_text(&pickle, "e");
        expected += 2 * i + length + 2 * (i % 50);
    }
    vw__append_text(&pickle, ".");

    char path[] = "/tmp/vramwise_test_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, pickle.bytes, pickle.size_bytes), pickle.size_bytes);
    close(file);
    vw__byte_source *source;
    assert_int_equal(vw__byte_source_open(path, NULL, &source), VW_OK);
    assert_int_equal(vw__document_create(NULL, NULL, &document), VW_OK);
    vw_status status = vw__unpickle_read(source, document, &root);
    if (status != VW_OK)
        fail_msg("%s", vw_last_error());
    assert_int_equal(vw__byte_source_offset(source), pickle.size_bytes);
    vw__byte_source_close(source);
    unlink(path);
    vw__byte_buffer_deinit(&pickle);

    uint64_t cursor = 0;
    vw__value item;
    assert_int_equal(vw__value_item_count(document, root), 5 * ROUNDS);
    while (vw__value_next_item(document, root, &cursor, &item)) {
        uint64_t number = 0;
        size_t size_bytes = 0;
        if (!vw__value_get_u64(document, item, &number))
            vw__value_string(document, item, &size_bytes);
        sum += number + size_bytes;
    }
    assert_int_equal(sum, expected);
}

static bool read_everything(void *context)
{
    (void)context;
    vw__byte_source *source = NULL;
    vw__document *read = NULL;
    bool has_succeeded = true;
    fold_status = VW_OK;
    for (size_t i = 0; i < SAMPLE_COUNT && has_succeeded; i++) {
        vw__value value;
        has_succeeded = vw__byte_source_open_memory(samples[i].bytes, samples[i].size_bytes, NULL,
                                                    &source) == VW_OK &&
                        vw__document_create(NULL, i % 2 != 0 ? &fold : NULL, &read) == VW_OK &&
                        vw__unpickle_read(source, read, &value) == VW_OK;
        vw__byte_source_close(source);
        vw__document_destroy(read);
        source = NULL;
        read = NULL;
    }
    return has_succeeded;
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(read_everything, NULL);
}

int main(void)
{
#define read_test(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        read_test(every_protocol_gives_the_same_data),
        read_test(bytes_and_sets_are_data_too),
        read_test(lengths_come_in_every_width),
        read_test(long_integers_of_any_length_are_read),
        read_test(text_of_protocol_0_is_read),
        read_test(containers_may_be_memoized_after_they_are_filled),
        read_test(stack_instructions_do_as_in_python),
        read_test(what_follows_the_pickle_is_left_alone),

        read_test(a_dict_is_folded_when_it_is_put_somewhere_and_then_everywhere),
        read_test(a_list_folded_by_one_dict_is_folded_in_the_next),
        read_test(the_outermost_dict_is_folded_at_the_end),
        read_test(a_listener_that_fails_ends_the_reading),

        read_test(every_prefix_is_refused_with_words),
        read_test(instructions_that_run_code_are_refused_by_name),
        read_test(other_files_are_refused),
        read_test(stack_and_memo_mistakes_are_refused),
        read_test(keys_that_python_could_not_hash_are_refused),
        read_test(wrong_text_is_refused),
        read_test(negative_lengths_are_refused),
        read_test(an_instruction_must_not_leave_its_frame),

        read_test(counts_are_not_believed),
        read_test(nesting_is_bounded_whichever_way_it_is_built),
        read_test(a_cycle_cannot_be_made),
        read_test(shared_parts_cost_nothing),
        read_test(the_limits_of_the_document_hold_for_the_reader_too),
        read_test(values_are_counted),

        read_test(instructions_may_lie_across_windows),
        read_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
