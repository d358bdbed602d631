/* test_report_fields.c - one list of fields, as JSON and as rows of a table. */
#include "report/report_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- bounds ---------------------------------------------------------------------------------- */

enum { MOST_FRAMES = 256, MOST_FRAMES_BYTES = 64 << 20, LONG_NAME_BYTES = 1 << 20 };

typedef struct held {
    const vw_frame *frames;
    size_t frame_count;
} held;

typedef struct holders {
    const held *list;
    size_t count;
} holders;

static const vw__report_field held_list[] = {
    {VW__REPORT_FIELD(FRAMES, held, "frames", frames), VW__REPORT_COUNTED(held, frame_count)},
};
static const vw__report_fields held_fields = VW__REPORT_FIELDS(held, held_list);
static const vw__report_field holders_list[] = {
    {VW__REPORT_FIELD(OBJECTS, holders, "held", list), VW__REPORT_COUNTED(holders, count),
     .fields = &held_fields},
};
static const vw__report_fields holders_fields = VW__REPORT_FIELDS(holders, holders_list);

/* The JSON of stacks, in `buffer`. */
static void write_holders(const held *list, size_t count, vw__byte_buffer *buffer)
{
    const holders content = {list, count};
    vw__report report;
    vw__json json;
    vw__report_init(&report, NULL);
    vw__json_init(&json, buffer);
    vw__report_json_object(&report, &json, NULL, &holders_fields, &content);
}

static size_t count_in(const vw__byte_buffer *buffer, const char *text)
{
    size_t count = 0;
    for (const char *at = vw__byte_buffer_text(buffer); (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static void a_stack_has_its_innermost_frames_and_the_number_of_the_others(void **state)
{
    static vw_frame frames[MOST_FRAMES + 44];
    const held list[] = {{frames, 2}, {frames, MOST_FRAMES}, {frames, MOST_FRAMES + 44}};
    vw__byte_buffer buffer;
    (void)state;
    for (size_t i = 0; i < MOST_FRAMES + 44; i++)
        frames[i] = (vw_frame){"f", "train.py", (uint32_t)i + 1};
    vw__byte_buffer_init(&buffer);
    write_holders(list, 1, &buffer);
    assert_string_equal(vw__byte_buffer_text(&buffer),
                        "{\"held\": [{\"frames\": [\"train.py:1 f\", \"train.py:2 f\"]}]}");
    vw__byte_buffer_clear(&buffer);
    write_holders(list, 3, &buffer);
    assert_int_equal(count_in(&buffer, "left_out"), 1);
    assert_int_equal(count_in(&buffer, "train.py:256 f\"], \"frames_left_out\": 44}"), 1);
    assert_int_equal(count_in(&buffer, "train.py:256 f"), 2);
    vw__byte_buffer_deinit(&buffer);
}

static void the_stacks_of_a_report_are_bounded_together(void **state)
{
    char *name = malloc(LONG_NAME_BYTES);
    held list[9];
    vw_frame frames[10];
    vw__byte_buffer buffer;
    (void)state;
    assert_non_null(name);
    memset(name, 'x', LONG_NAME_BYTES);
    name[LONG_NAME_BYTES - 1] = '\0';
    for (size_t i = 0; i < 10; i++)
        frames[i] = (vw_frame){"f", name, 7};
    for (size_t i = 0; i < 9; i++)
        list[i] = (held){frames, 10};
    vw__byte_buffer_init(&buffer);
    write_holders(list, 9, &buffer);
    assert_false(vw__byte_buffer_has_failed(&buffer));
    assert_in_range(vw__byte_buffer_size(&buffer), MOST_FRAMES_BYTES,
                    MOST_FRAMES_BYTES + 2 * LONG_NAME_BYTES);
    assert_int_equal(count_in(&buffer, ":7 f"), MOST_FRAMES_BYTES / LONG_NAME_BYTES);
    assert_int_equal(count_in(&buffer, "\"], \"frames_left_out\": 6}"), 1);
    assert_int_equal(count_in(&buffer, "{\"frames\": [], \"frames_left_out\": 10}"), 2);
    vw__byte_buffer_deinit(&buffer);
    free(name);
}

static unsigned written_count;

/* As a lack of memory would. */
static void write_and_fail(vw__report *report, vw__json *json, const char *key, const void *object)
{
    (void)report;
    (void)key;
    (void)object;
    written_count++;
    json->buffer->has_failed = true;
}

static void nothing_is_made_for_a_buffer_that_has_failed(void **state)
{
    static const vw__report_field failing_list[] = {{.key = "fails", .write = write_and_fail}};
    static const vw__report_fields failing = VW__REPORT_FIELDS(part, failing_list);
    static const vw__report_field list_list[] = {
        {WHOLE(OBJECTS, "parts", parts), VW__REPORT_COUNTED(whole, part_count), .fields = &failing},
    };
    static const vw__report_fields list_fields = VW__REPORT_FIELDS(whole, list_list);
    const whole content = {.parts = parts, .part_count = 2};
    vw__byte_buffer buffer;
    vw__report report;
    vw__json json;
    (void)state;
    vw__report_init(&report, NULL);
    vw__byte_buffer_init(&buffer);
    vw__json_init(&json, &buffer);
    vw__report_json_object(&report, &json, NULL, &list_fields, &content);
    assert_int_equal(written_count, 1);
    vw__byte_buffer_deinit(&buffer);
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
        cmocka_unit_test(a_stack_has_its_innermost_frames_and_the_number_of_the_others),
        cmocka_unit_test(the_stacks_of_a_report_are_bounded_together),
        cmocka_unit_test(nothing_is_made_for_a_buffer_that_has_failed),
        cmocka_unit_test(nothing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
