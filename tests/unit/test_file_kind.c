/* test_file_kind.c - recordings, text, and formats that cannot be read. */
#include "parse/file_kind.h"

#include <string.h>

#include "support/cmocka_here.h"

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

static bool is_recording(const uint8_t *bytes, size_t size_bytes)
{
    bool is_one = false;
    assert_int_equal(vw__file_kind_detect(bytes, size_bytes, &is_one), VW_OK);
    return is_one;
}

static void pickles_and_json_snapshots_are_recordings(void **state)
{
    (void)state;
    assert_true(is_recording(BYTES("\x80\x04\x95")));
    assert_true(is_recording(BYTES("(dp0\n")));
    assert_true(is_recording(BYTES("}q\x01")));
    assert_true(is_recording(BYTES("  {\"segments\": []}")));
    assert_true(is_recording(BYTES("[{\"total_size\": 1, \"blocks\": []}]")));
}

static void everything_else_is_text(void **state)
{
    (void)state;
    assert_false(is_recording(BYTES("")));
    assert_false(is_recording(BYTES("\x80")));
    assert_false(is_recording(BYTES("\x80\x06"))); /* no such protocol */
    assert_false(is_recording(BYTES("(dplyr)")));
    assert_false(is_recording(BYTES("{\"step\": 5, \"memory\": 3}")));
    assert_false(is_recording(BYTES("CUDA out of memory")));
}

static void other_formats_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size_bytes;
        const char *word;
    } files[] = {
        {"PK\x03\x04 archive/data.pkl", 21, "checkpoint"},
        {"PK\x03\x04 notes.txt", 14, "zip"},
        {"BZh91AY&SY", 10, "bzip2"},
        {"\x1F\x8B\x08", 3, "twice"},
        {"\x89PNG\r\n", 6, "image"},
        {"%PDF-1.7", 8, "PDF"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        bool is_one;
        assert_int_equal(
            vw__file_kind_detect((const uint8_t *)files[i].bytes, files[i].size_bytes, &is_one),
            VW_ERR_CORRUPT_FILE);
        assert_non_null(strstr(vw_last_error(), files[i].word));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pickles_and_json_snapshots_are_recordings),
        cmocka_unit_test(everything_else_is_text),
        cmocka_unit_test(other_formats_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
