/* test_byte_reader.c - what is read, and that a read past the end moves nothing. */
#include "base/byte_reader.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

static const uint8_t counting[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x88, 0x99};

static vw__byte_reader reader_over(const void *bytes, size_t size_bytes)
{
    vw__byte_reader reader;
    vw__byte_reader_init(&reader, bytes, size_bytes);
    return reader;
}

static void integers_come_out_in_either_byte_order(void **state)
{
    (void)state;
    vw__byte_reader reader = reader_over(counting, sizeof counting);
    uint8_t u8 = 0;
    uint16_t u16 = 0;
    uint32_t u32 = 0;
    uint64_t u64 = 0;
    assert_true(vw__read_u8(&reader, &u8));
    assert_int_equal(u8, 0x01);
    assert_int_equal(vw__byte_reader_offset(&reader), 1);

    reader = reader_over(counting, sizeof counting);
    assert_true(vw__read_u16_le(&reader, &u16));
    assert_int_equal(u16, 0x0201);
    assert_true(vw__read_u16_be(&reader, &u16));
    assert_int_equal(u16, 0x0304);
    assert_int_equal(vw__byte_reader_offset(&reader), 4);

    reader = reader_over(counting, sizeof counting);
    assert_true(vw__read_u32_le(&reader, &u32));
    assert_int_equal(u32, 0x04030201);
    assert_true(vw__read_u32_be(&reader, &u32));
    assert_int_equal(u32, 0x05060788);
    assert_int_equal(vw__byte_reader_offset(&reader), 8);

    reader = reader_over(counting, sizeof counting);
    assert_true(vw__read_u64_le(&reader, &u64));
    assert_true(u64 == UINT64_C(0x8807060504030201));
    reader = reader_over(counting + 1, 8); /* alignment does not matter */
    assert_true(vw__read_u64_be(&reader, &u64));
    assert_true(u64 == UINT64_C(0x0203040506078899));
    assert_int_equal(vw__byte_reader_remaining(&reader), 0);
}

static void bytes_are_taken_in_place_and_skipped(void **state)
{
    (void)state;
    vw__byte_reader reader = reader_over(counting, sizeof counting);
    const uint8_t *taken = NULL;
    assert_true(vw__skip_bytes(&reader, 2));
    assert_true(vw__take_bytes(&reader, 3, &taken));
    assert_ptr_equal(taken, counting + 2);
    assert_int_equal(vw__byte_reader_offset(&reader), 5);
    assert_int_equal(vw__byte_reader_remaining(&reader), 4);
    assert_true(vw__take_bytes(&reader, 4, &taken));
    assert_ptr_equal(taken, counting + 5);
    assert_true(vw__take_bytes(&reader, 0, &taken)); /* at the very end there are still no bytes */
    assert_ptr_equal(taken, counting + sizeof counting);
    assert_true(vw__skip_bytes(&reader, 0));
}

/* Every read at every distance from the end, over memory that ends where the reader does, so that
 * the address sanitizer sees one byte too many. */
static void a_read_past_the_end_changes_nothing(void **state)
{
    (void)state;
    for (size_t size = 0; size < 9; size++) {
        uint8_t *bytes = malloc(size + 1);
        assert_non_null(bytes);
        memset(bytes, 0xEE, size + 1);
        vw__byte_reader reader = reader_over(bytes + 1, size);
        uint8_t u8 = 7;
        uint16_t u16 = 7;
        uint32_t u32 = 7;
        uint64_t u64 = 7;
        const uint8_t *taken = counting;
        if (size < 1)
            assert_false(vw__read_u8(&reader, &u8));
        if (size < 2)
            assert_false(vw__read_u16_le(&reader, &u16) || vw__read_u16_be(&reader, &u16));
        if (size < 4)
            assert_false(vw__read_u32_le(&reader, &u32) || vw__read_u32_be(&reader, &u32));
        if (size < 8)
            assert_false(vw__read_u64_le(&reader, &u64) || vw__read_u64_be(&reader, &u64));
        assert_false(vw__take_bytes(&reader, size + 1, &taken));
        assert_false(vw__skip_bytes(&reader, size + 1));
        assert_true(u8 == 7 && u16 == 7 && u32 == 7 && u64 == 7);
        assert_ptr_equal(taken, counting);
        assert_int_equal(vw__byte_reader_offset(&reader), 0);
        assert_int_equal(vw__byte_reader_remaining(&reader), size);
        free(bytes);
    }
}

static void a_length_from_a_hostile_file_is_only_a_refusal(void **state)
{
    (void)state;
    vw__byte_reader reader = reader_over(counting, sizeof counting);
    const uint8_t *taken = NULL;
    assert_true(vw__skip_bytes(&reader, 4));
    const uint64_t lengths[] = {6, UINT64_MAX, UINT64_MAX - 3, UINT64_MAX - 4, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_false(vw__take_bytes(&reader, lengths[i], &taken));
        assert_false(vw__skip_bytes(&reader, lengths[i]));
    }
    assert_null(taken);
    assert_int_equal(vw__byte_reader_offset(&reader), 4);
}

static void no_bytes_at_all_can_be_read_from(void **state)
{
    (void)state;
    vw__byte_reader reader = reader_over(NULL, 0);
    uint8_t u8 = 7;
    const uint8_t *taken = NULL;
    assert_int_equal(vw__byte_reader_remaining(&reader), 0);
    assert_false(vw__read_u8(&reader, &u8));
    assert_true(vw__take_bytes(&reader, 0, &taken));
    assert_non_null(taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_come_out_in_either_byte_order),
        cmocka_unit_test(bytes_are_taken_in_place_and_skipped),
        cmocka_unit_test(a_read_past_the_end_changes_nothing),
        cmocka_unit_test(a_length_from_a_hostile_file_is_only_a_refusal),
        cmocka_unit_test(no_bytes_at_all_can_be_read_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
