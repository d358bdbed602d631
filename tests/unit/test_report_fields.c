/* test_report_fields.c - one list of fields, as JSON and as rows of a table. */
#include "report/report_fields.h"

#include <math.h>

#include "support/cmocka_here.h"
#include "support/report_capture.h"

static report_capture captured;

typedef struct part {
    const char *name;
    uint64_t bytes;
} part;

typedef struct whole {
    uint64_t bytes, count, duration_ns;
    uint32_t small;
    int number, natural;
    int64_t time_us;
    bool is_true, has_part;
    double ratio;
    const char *text;
    char words[8];
    const vw_frame *place;
    part inside;
    const part *pointer;
    const part *parts;
    size_t part_count;
    const char *const *texts;
    size_t text_count;
    const uint64_t *counts;
    size_t number_count;
} whole;

static void append_twice(vw__byte_buffer *cell, const void *object)
{
    const part *shown = object;
    vw__append_format(cell, "%s %s", shown->name, shown->name);
}

static const vw__report_field part_list[] = {
    {VW__REPORT_FIELD(TEXT, part, "name", name), VW__REPORT_COLUMN(2, NAME, "name")},
    {VW__REPORT_FIELD(BYTES, part, "bytes", bytes), VW__REPORT_COLUMN(1, NUMBER, "bytes")},
    {VW__REPORT_COLUMN(3, WORD, "twice"), .append = append_twice},
};
static const vw__report_fields part_fields = VW__REPORT_FIELDS(part, part_list);

VW__REPORT_CONDITION(has_part, whole, has_part)

#define WHOLE(kind, key, member) VW__REPORT_FIELD(kind, whole, key, member)
static const vw__report_field whole_list[] = {
    {.key = "file", .kind = VW__REPORT_FIELD_FILE},
    {WHOLE(BYTES, "bytes", bytes)},
    {WHOLE(COUNT, "count", count)},
    {WHOLE(COUNT, "small", small)},
    {WHOLE(NANOSECONDS, "duration_us", duration_ns)},
    {WHOLE(INTEGER, "number", number)},
    {WHOLE(NATURAL, "natural", natural)},
    {WHOLE(INTEGER, "time_us", time_us)},
    {WHOLE(BOOLEAN, "true", is_true)},
    {WHOLE(RATIO, "ratio", ratio)},
    {WHOLE(TEXT, "text", text)},
    {WHOLE(WORDS, "words", words)},
    {WHOLE(PLACE, "place", place)},
    {WHOLE(OBJECT, "inside", inside), .fields = &part_fields, .is_known = has_part},
    {WHOLE(POINTER, "pointer", pointer), .fields = &part_fields},
    {WHOLE(FIRST_OBJECTS, "first", parts), VW__REPORT_COUNTED(whole, part_count),
     .fields = &part_fields},
    {WHOLE(TEXTS, "texts", texts), VW__REPORT_COUNTED(whole, text_count)},
    {WHOLE(COUNTS, "counts", counts), VW__REPORT_COUNTED(whole, number_count)},
};
static const vw__report_fields whole_fields = VW__REPORT_FIELDS(whole, whole_list);

static void say_parts(vw__report *report, const void *content)
{
    const whole *shown = content;
    vw__report_fields_rows(report, &part_fields, shown->parts, shown->part_count);
}

static const char *report_of(const whole *content, bool is_json)
{
    static const vw__report_kind kind = {"whole", say_parts, &whole_fields, NULL};
    const vw_report_form form = {.is_json = is_json, .most_rows = 1, .file = "a"};
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw__report_as(&kind, content, &form, &output), VW_OK);
    return captured.text;
}

static const part parts[] = {{"one", 512}, {"other", 2048}};
static const vw_frame frame = {"main", "train.py", 3};

static void known_values_are_written_by_their_kind(void **state)
{
    static const char *const texts[] = {"x", NULL};
    static const uint64_t counts[] = {1, 2};
    const whole content = {.bytes = 1,
                           .count = 2,
                           .duration_ns = 1500,
                           .small = 3,
                           .number = -4,
                           .natural = 5,
                           .time_us = -6,
                           .is_true = true,
                           .has_part = true,
                           .ratio = 1.5,
                           .text = "t",
                           .words = "w",
                           .place = &frame,
                           .inside = {"inside", 7},
                           .pointer = &parts[1],
                           .parts = parts,
                           .part_count = 2,
                           .texts = texts,
                           .text_count = 2,
                           .counts = counts,
                           .number_count = 2};
    (void)state;
    assert_string_equal(
        report_of(&content, true),
        "{\"schema\": 1, \"file\": \"a\", \"bytes\": 1, \"count\": 2, \"small\": 3, "
        "\"duration_us\": 1.5, \"number\": -4, \"natural\": 5, \"time_us\": -6, \"true\": true, "
        "\"ratio\": 1.5, \"text\": \"t\", \"words\": \"w\", \"place\": \"train.py:3 main\", "
        "\"inside\": {\"name\": \"inside\", \"bytes\": 7}, \"pointer\": {\"name\": \"other\", "
        "\"bytes\": 2048}, \"first\": [{\"name\": \"one\", \"bytes\": 512}], \"texts\": [\"x\", "
        "null], \"counts\": [1, 2]}\n");
}

static void unknown_values_are_null(void **state)
{
    const whole content = {.bytes = VW_UNKNOWN,
                           .count = VW_UNKNOWN,
                           .duration_ns = VW_UNKNOWN,
                           .natural = -1,
                           .time_us = INT64_MIN,
                           .ratio = (double)NAN};
    (void)state;
    assert_string_equal(
        report_of(&content, true),
        "{\"schema\": 1, \"file\": \"a\", \"bytes\": null, \"count\": null, \"small\": 0, "
        "\"duration_us\": null, \"number\": 0, \"natural\": null, \"time_us\": null, \"true\": "
        "false, \"ratio\": null, \"text\": null, \"words\": null, \"place\": null, \"inside\": "
        "null, \"pointer\": null, \"first\": [], \"texts\": [], \"counts\": []}\n");
}

static void columns_stand_in_the_order_of_their_numbers(void **state)
{
    const whole content = {.parts = parts, .part_count = 2};
    (void)state;
    assert_string_equal(report_of(&content, false), "   bytes  name   twice\n"
                                                    "   512 B  one    one one\n"
                                                    "2.00 KiB  other  other other\n");
}

static void nothing_is_refused(void **state)
{
    static const vw__report_kind kind = {"whole", say_parts, &whole_fields, NULL};
    const vw_output output = report_capture_begin(&captured);
    (void)state;
    assert_int_equal(vw__report_as(&kind, NULL, NULL, &output), VW_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values_are_written_by_their_kind),
        cmocka_unit_test(unknown_values_are_null),
        cmocka_unit_test(columns_stand_in_the_order_of_their_numbers),
        cmocka_unit_test(nothing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
