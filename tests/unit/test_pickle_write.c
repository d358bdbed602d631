/* test_pickle_write.c - the instructions byte by byte, as Python's pickletools names them. */
#include "export/pickle_write.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

typedef struct output {
    unsigned char bytes[1 << 18];
    size_t size_bytes;
    size_t limit_bytes; /* takes no more than this */
    size_t most_bytes;  /* of one piece */
    unsigned refusals;
} output;

static output out; /* large */

static bool take(void *context, const void *bytes, size_t size_bytes)
{
    output *o = context;
    if (size_bytes > o->limit_bytes - o->size_bytes) {
        o->refusals++;
        return false;
    }
    memcpy(o->bytes + o->size_bytes, bytes, size_bytes);
    o->size_bytes += size_bytes;
    o->most_bytes = size_bytes > o->most_bytes ? size_bytes : o->most_bytes;
    return true;
}

static void begin(vw__export_pickle *pickle)
{
    memset(&out, 0, sizeof out);
    out.limit_bytes = sizeof out.bytes;
    assert_int_equal(vw__export_pickle_init(pickle, &(vw__export_pickle_sink){&out, take}), VW_OK);
}

static void finish(vw__export_pickle *pickle)
{
    assert_int_equal(vw__export_pickle_finish(pickle), VW_OK);
    vw__export_pickle_deinit(pickle);
}

/* Everything between "protocol 4" and "stop". */
#define expect(pickle, text)                                                                       \
    do {                                                                                           \
        finish(pickle);                                                                            \
        assert_int_equal(out.size_bytes, sizeof(text) - 1 + 3);                                    \
        assert_memory_equal(out.bytes, "\x80\x04", 2);                                             \
        assert_memory_equal(out.bytes + 2, text, sizeof(text) - 1);                                \
        assert_int_equal(out.bytes[out.size_bytes - 1], '.');                                      \
    } while (0)

static void numbers_take_the_shortest_form_at_every_edge(void **state)
{
    (void)state;
    vw__export_pickle pickle;
    begin(&pickle);
    vw__export_pickle_unsigned(&pickle, 0);
    vw__export_pickle_unsigned(&pickle, 255);
    vw__export_pickle_unsigned(&pickle, 256);
    vw__export_pickle_unsigned(&pickle, 65535);
    vw__export_pickle_unsigned(&pickle, 65536);
    vw__export_pickle_unsigned(&pickle, INT32_MAX);
    expect(&pickle, "K\x00K\xffM\x00\x01M\xff\xffJ\x00\x00\x01\x00J\xff\xff\xff\x7f");

    begin(&pickle);
    vw__export_pickle_unsigned(&pickle, (uint64_t)INT32_MAX + 1); /* its top bit would be a sign */
    vw__export_pickle_unsigned(&pickle, UINT32_MAX);
    vw__export_pickle_unsigned(&pickle, UINT64_C(0x7f0012345600)); /* an address */
    vw__export_pickle_unsigned(&pickle, INT64_MAX);
    vw__export_pickle_unsigned(&pickle, UINT64_MAX);
    expect(&pickle, "\x8a\x05\x00\x00\x00\x80\x00"
                    "\x8a\x05\xff\xff\xff\xff\x00"
                    "\x8a\x06\x00\x56\x34\x12\x00\x7f"
                    "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
                    "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00");
}

static void negative_numbers_keep_their_sign(void **state)
{
    (void)state;
    vw__export_pickle pickle;
    begin(&pickle);
    vw__export_pickle_integer(&pickle, -1);
    vw__export_pickle_integer(&pickle, INT32_MIN);
    vw__export_pickle_integer(&pickle, (int64_t)INT32_MIN - 1);
    vw__export_pickle_integer(&pickle, -(INT64_C(1) << 39));
    vw__export_pickle_integer(&pickle, -(INT64_C(1) << 40));
    vw__export_pickle_integer(&pickle, INT64_MIN);
    vw__export_pickle_integer(&pickle, 7);
    expect(&pickle, "J\xff\xff\xff\xffJ\x00\x00\x00\x80"
                    "\x8a\x05\xff\xff\xff\x7f\xff"
                    "\x8a\x05\x00\x00\x00\x00\x80"
                    "\x8a\x06\x00\x00\x00\x00\x00\xff"
                    "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80K\x07");
}

static void booleans_and_floats_are_written(void **state)
{
    (void)state;
    vw__export_pickle pickle;
    begin(&pickle);
    vw__export_pickle_boolean(&pickle, true);
    vw__export_pickle_boolean(&pickle, false);
    vw__export_pickle_float(&pickle, 0.5);
    expect(&pickle, "\x88\x89G\x3f\xe0\x00\x00\x00\x00\x00\x00");
}

static void texts_are_short_up_to_255_bytes(void **state)
{
    (void)state;
    vw__export_pickle pickle;
    char text[256];
    memset(text, 'a', sizeof text);
    begin(&pickle);
    vw__export_pickle_text(&pickle, text, 255);
    finish(&pickle);
    assert_memory_equal(out.bytes + 2,
                        "\x8c\xff"
                        "a",
                        3);
    assert_int_equal(out.size_bytes, 2 + 2 + 255 + 1);
    begin(&pickle);
    vw__export_pickle_text(&pickle, text, 256);
    finish(&pickle);
    assert_memory_equal(out.bytes + 2,
                        "X\x00\x01\x00\x00"
                        "a",
                        6);
    assert_int_equal(out.size_bytes, 2 + 5 + 256 + 1);
}

static void bytes_that_are_no_utf8_become_replacement_characters(void **state)
{
    (void)state;
    vw__export_pickle pickle;
    begin(&pickle);
    vw__export_pickle_text(&pickle, "\xc3\xa9", 2);     /* as it should be */
    vw__export_pickle_text(&pickle, "a\xff\xc3", 3);    /* no character, and half of one */
    vw__export_pickle_text(&pickle, "\xed\xa0\x80", 3); /* a surrogate */
    vw__export_pickle_text(&pickle, "", 0);
    expect(&pickle, "\x8c\x02\xc3\xa9"
                    "\x8c\x07"
                    "a\xef\xbf\xbd\xef\xbf\xbd"
                    "\x8c\x09\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                    "\x8c\x00");
}

static void containers_nest(void **state)
{
    (void)state;
    vw__export_pickle pickle;
    vw__export_pickle_list list, empty;
    begin(&pickle);
    vw__export_pickle_begin_dict(&pickle);
    vw__export_pickle_text(&pickle, "k", 1);
    vw__export_pickle_begin_list(&pickle, &list);
    vw__export_pickle_next_item(&pickle, &list);
    vw__export_pickle_begin_list(&pickle, &empty);
    vw__export_pickle_end_list(&pickle, &empty);
    vw__export_pickle_next_item(&pickle, &list);
    vw__export_pickle_unsigned(&pickle, 1);
    vw__export_pickle_unsigned(&pickle, 2);
    vw__export_pickle_pair(&pickle);
    vw__export_pickle_end_list(&pickle, &list);
    vw__export_pickle_end_dict(&pickle);
    expect(&pickle, "}(\x8c\x01k](]K\x01K\x02\x86"
                    "eu");
}

static void a_long_list_comes_in_portions_of_a_thousand(void **state)
{
    (void)state;
    vw__export_pickle pickle;
    vw__export_pickle_list list;
    begin(&pickle);
    vw__export_pickle_begin_list(&pickle, &list);
    for (int i = 0; i < 2000; i++) {
        vw__export_pickle_next_item(&pickle, &list);
        vw__export_pickle_unsigned(&pickle, 0);
    }
    vw__export_pickle_end_list(&pickle, &list);
    finish(&pickle);
    assert_int_equal(out.size_bytes, 2 + 1 + 2 * (1 + 2000 + 1) + 1);
    assert_memory_equal(out.bytes + 2, "](K", 3);
    assert_memory_equal(out.bytes + 2 + 1 + 1 + 2000, "e(K", 3);
    assert_memory_equal(out.bytes + out.size_bytes - 2, "e.", 2);
}

static void memos_are_numbered_and_fetched_by_number(void **state)
{
    (void)state;
    vw__export_pickle pickle;
    begin(&pickle);
    for (uint32_t i = 0; i < 257; i++) {
        vw__export_pickle_boolean(&pickle, true);
        assert_int_equal(vw__export_pickle_memoize(&pickle), i);
    }
    vw__export_pickle_fetch(&pickle, 255);
    vw__export_pickle_fetch(&pickle, 256);
    finish(&pickle);
    assert_memory_equal(out.bytes + 2, "\x88\x94", 2);
    assert_memory_equal(out.bytes + 2 + 2 * 257, "h\xffj\x00\x01\x00\x00.", 8);
}

static void bytes_leave_in_pieces_no_larger_than_the_buffer(void **state)
{
    (void)state;
    vw__export_pickle pickle;
    static char text[VW__EXPORT_PICKLE_BUFFER_BYTES * 2 + 100];
    memset(text, 'x', sizeof text);
    begin(&pickle);
    vw__export_pickle_text(&pickle, text, sizeof text);
    finish(&pickle);
    assert_int_equal(out.size_bytes, 2 + 5 + sizeof text + 1);
    assert_int_equal(out.most_bytes, VW__EXPORT_PICKLE_BUFFER_BYTES);
    for (size_t i = 7; i < 7 + sizeof text; i++)
        assert_int_equal(out.bytes[i], 'x');
}

static void a_sink_that_refuses_is_asked_once_and_the_end_says_so(void **state)
{
    (void)state;
    vw__export_pickle pickle;
    static const char text[VW__EXPORT_PICKLE_BUFFER_BYTES] = "long";
    begin(&pickle);
    out.limit_bytes = 1000;
    for (int i = 0; i < 5; i++)
        vw__export_pickle_text(&pickle, text, sizeof text);
    assert_int_equal(vw__export_pickle_finish(&pickle), VW_ERR_FILE);
    vw__export_pickle_deinit(&pickle);
    assert_int_equal(out.refusals, 1);
    assert_int_equal(out.size_bytes, 0);
}

static bool write_a_little(void *context)
{
    (void)context;
    vw__export_pickle pickle;
    memset(&out, 0, sizeof out);
    out.limit_bytes = sizeof out.bytes;
    if (vw__export_pickle_init(&pickle, &(vw__export_pickle_sink){&out, take}) != VW_OK)
        return false;
    vw__export_pickle_unsigned(&pickle, 1);
    vw_status status = vw__export_pickle_finish(&pickle);
    vw__export_pickle_deinit(&pickle);
    return status == VW_OK;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(write_a_little, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_take_the_shortest_form_at_every_edge),
        cmocka_unit_test(negative_numbers_keep_their_sign),
        cmocka_unit_test(booleans_and_floats_are_written),
        cmocka_unit_test(texts_are_short_up_to_255_bytes),
        cmocka_unit_test(bytes_that_are_no_utf8_become_replacement_characters),
        cmocka_unit_test(containers_nest),
        cmocka_unit_test(a_long_list_comes_in_portions_of_a_thousand),
        cmocka_unit_test(memos_are_numbered_and_fetched_by_number),
        cmocka_unit_test(bytes_leave_in_pieces_no_larger_than_the_buffer),
        cmocka_unit_test(a_sink_that_refuses_is_asked_once_and_the_end_says_so),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
