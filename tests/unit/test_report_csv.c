/* test_report_csv.c - lists of fields as comma-separated values. */
#include "report/report_csv.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_capture.h"

typedef struct part {
    const char *name;
    uint64_t bytes;
} part;

typedef struct whole {
    int number;
    const part *parts;
    size_t part_count;
    part last;
    bool has_last;
    const char *const *words;
    size_t word_count;
} whole;

typedef struct top {
    const whole *wholes;
    size_t whole_count;
} top;

VW__REPORT_CONDITION(has_last, whole, has_last)

static const vw__report_field part_list[] = {
    {VW__REPORT_FIELD(TEXT, part, "name", name)},
    {VW__REPORT_FIELD(BYTES, part, "bytes", bytes)},
};
static const vw__report_fields part_fields = VW__REPORT_FIELDS(part, part_list);
static const vw__report_field whole_list[] = {
    {VW__REPORT_FIELD(INTEGER, whole, "number", number)},
    {VW__REPORT_FIELD(FIRST_OBJECTS, whole, "parts", parts), VW__REPORT_COUNTED(whole, part_count),
     .fields = &part_fields},
    {VW__REPORT_FIELD(OBJECT, whole, "last", last), .fields = &part_fields, .is_known = has_last},
    {VW__REPORT_FIELD(TEXTS, whole, "words", words), VW__REPORT_COUNTED(whole, word_count)},
};
static const vw__report_fields whole_fields = VW__REPORT_FIELDS(whole, whole_list);
static const vw__report_field top_list[] = {
    {VW__REPORT_FIELD(OBJECTS, top, "wholes", wholes), VW__REPORT_COUNTED(top, whole_count),
     .fields = &whole_fields},
};
static const vw__report_fields top_fields = VW__REPORT_FIELDS(top, top_list);

static const part some_parts[] = {{"a", 1}, {NULL, VW_UNKNOWN}, {"say \"x\", y\n\033[31m", 3}};
static const char *const some_words[] = {"one", "two, three"};
static const whole some_wholes[] = {
    {.number = 7, .parts = some_parts, .part_count = 3, .last = {"z", 26}, .has_last = true},
    {.number = -1, .parts = some_parts, .part_count = 1, .words = some_words, .word_count = 2},
};
static const top all = {some_wholes, 2};

static report_capture capture;

static vw_status write_path(const char *path, const top *content, size_t most_rows)
{
    const vw_report_form form = {.is_csv = true, .most_rows = most_rows};
    const vw_output output = report_capture_begin(&capture);
    vw__report report;
    vw__report_init(&report, &form);
    vw__report_csv_table(&report, &top_fields, path, content);
    return vw__report_send(&report, &output);
}

static void a_list_is_a_line_of_names_and_a_line_for_each_object(void **state)
{
    (void)state;
    assert_int_equal(write_path("wholes", &all, 0), VW_OK);
    assert_string_equal(capture.text, "number,last.name,last.bytes,words\n"
                                      "7,z,26,\n"
                                      "-1,,,\"one; two, three\"\n");
}

static void a_list_on_the_way_gives_its_first_field(void **state)
{
    (void)state;
    assert_int_equal(write_path("wholes.parts", &all, 0), VW_OK);
    assert_string_equal(capture.text, "number,name,bytes\n"
                                      "7,a,1\n"
                                      "7,,\n"
                                      "7,\"say \"\"x\"\", y ?[31m\",3\n"
                                      "-1,a,1\n");
}

static void as_many_rows_as_the_form_says(void **state)
{
    (void)state;
    assert_int_equal(write_path("wholes.parts", &all, 1), VW_OK);
    assert_string_equal(capture.text, "number,name,bytes\n7,a,1\n-1,a,1\n");
}

static void without_rows_there_are_the_names(void **state)
{
    static const top none = {NULL, 0};
    (void)state;
    assert_int_equal(write_path("wholes.parts", &none, 0), VW_OK);
    assert_string_equal(capture.text, "number,name,bytes\n");
}

static void a_spreadsheet_takes_no_name_for_a_formula(void **state)
{
    static const part names[] = {{"=1+1", 1}, {"@f(\"a\",b)", 2}, {"-a", 3},
                                 {"+b", 4},   {"a=b", 5},         {"  =c", 6},
                                 {"\n=d", 7}, {" e", 8},          {"\uFF1D1", 9}};
    static const whole named[] = {{.number = -1, .parts = names, .part_count = 9}};
    (void)state;
    assert_int_equal(write_path("wholes.parts", &(top){named, 1}, 0), VW_OK);
    assert_string_equal(capture.text, "number,name,bytes\n"
                                      "-1,'=1+1,1\n"
                                      "-1,\"'@f(\"\"a\"\",b)\",2\n"
                                      "-1,'-a,3\n"
                                      "-1,'+b,4\n"
                                      "-1,a=b,5\n"
                                      "-1,'  =c,6\n"
                                      "-1,' =d,7\n"
                                      "-1, e,8\n"
                                      "-1,'\uFF1D1,9\n");
}

/* A line that began with nothing would be read as one cell less. */
static void an_empty_first_cell_is_in_quotes(void **state)
{
    static const whole nameless[] = {{.parts = some_parts + 1, .part_count = 1}};
    const vw_report_form form = {.is_csv = true};
    const vw_output output = report_capture_begin(&capture);
    vw__report report;
    (void)state;
    vw__report_init(&report, &form);
    vw__report_csv_table(&report, &whole_fields, "parts", nameless);
    assert_int_equal(vw__report_send(&report, &output), VW_OK);
    assert_string_equal(capture.text, "name,bytes\n\"\",\n");
}

static bool writes(void *context)
{
    (void)context;
    return write_path("wholes.parts", &all, 0) == VW_OK && write_path("wholes", &all, 0) == VW_OK;
}

static void no_lack_of_memory_loses_any(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(writes, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_a_line_of_names_and_a_line_for_each_object),
        cmocka_unit_test(a_list_on_the_way_gives_its_first_field),
        cmocka_unit_test(as_many_rows_as_the_form_says),
        cmocka_unit_test(without_rows_there_are_the_names),
        cmocka_unit_test(a_spreadsheet_takes_no_name_for_a_formula),
        cmocka_unit_test(an_empty_first_cell_is_in_quotes),
        cmocka_unit_test(no_lack_of_memory_loses_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
