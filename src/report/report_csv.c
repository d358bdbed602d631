/* report_csv.c - see report_csv.h. */
#include "report/report_csv.h"

#include <stdio.h>
#include <string.h>

enum { MOST_PATH_BYTES = 64, DEEPEST = 4 };

/* ---- cells ----------------------------------------------------------------------------------- */

static void begin_cell(vw__report *report)
{
    const vw__byte_buffer *buffer = &report->buffer;
    if (buffer->size_bytes > 0 && buffer->bytes[buffer->size_bytes - 1] != '\n')
        vw__append_text(&report->buffer, ",");
}

/* The first cell of a line, where it is empty, is in quotes: else the next one would be taken for
 * the first. */
static void append_empty(vw__report *report)
{
    const vw__byte_buffer *buffer = &report->buffer;
    if (buffer->size_bytes == 0 || buffer->bytes[buffer->size_bytes - 1] == '\n')
        vw__append_text(&report->buffer, "\"\"");
}

/* A spreadsheet would compute a text that begins so, and a name in a file may be anybody's. Behind
 * an apostrophe it stays a text. Some skip spaces first, and take the wide signs of East Asian
 * keyboards for the others. */
static bool is_formula(const char *text)
{
    static const char *const signs[] = {"=", "+", "-", "@", "\uFF1D", "\uFF0B", "\uFF0D", "\uFF20"};
    text += strspn(text, " ");
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (strncmp(text, signs[i], strlen(signs[i])) == 0)
            return true;
    return false;
}

static void append_text(vw__report *report, const char *text, size_t size_bytes)
{
    vw__byte_buffer_clear(&report->shown);
    vw__report_show(report, &report->shown, text, size_bytes);
    const char *shown = vw__byte_buffer_text(&report->shown);
    const char *mark = is_formula(shown) ? "'" : "";
    if (shown[0] == '\0')
        append_empty(report);
    if (strpbrk(shown, ",\"") == NULL) {
        vw__append_text(&report->buffer, mark);
        vw__append_text(&report->buffer, shown);
        return;
    }
    vw__append_text(&report->buffer, "\"");
    vw__append_text(&report->buffer, mark);
    for (; *shown != '\0'; shown++)
        vw__append_bytes(&report->buffer, *shown == '"' ? "\"\"" : shown, *shown == '"' ? 2 : 1);
    vw__append_text(&report->buffer, "\"");
}

void vw__report_csv_text(vw__report *report, const char *text)
{
    begin_cell(report);
    append_text(report, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

void vw__report_csv_number(vw__report *report, uint64_t number)
{
    begin_cell(report);
    if (number == VW_UNKNOWN)
        append_empty(report);
    else
        vw__append_format(&report->buffer, "%llu", (unsigned long long)number);
}

void vw__report_csv_end_line(vw__report *report)
{
    vw__append_text(&report->buffer, "\n");
}

/* ---- fields ---------------------------------------------------------------------------------- */

static const void *member_of(const vw__report_field *field, const void *object)
{
    return (const char *)object + field->offset;
}

static const void *pointer_of(const vw__report_field *field, const void *object)
{
    const void *pointer;
    memcpy(&pointer, member_of(field, object), sizeof pointer);
    return pointer;
}

static size_t count_of(const vw__report_field *field, const void *object)
{
    return *(const size_t *)(const void *)((const char *)object + field->count_offset);
}

static bool is_below(const vw__report_field *field)
{
    return field->kind == VW__REPORT_FIELD_OBJECT || field->kind == VW__REPORT_FIELD_POINTER;
}

static bool is_list(const vw__report_field *field)
{
    return field->kind == VW__REPORT_FIELD_OBJECTS || field->kind == VW__REPORT_FIELD_FIRST_OBJECTS;
}

/* A field that a function writes is a column if its kind is that of one value. */
static bool is_column(const vw__report_field *field)
{
    if (field->key == NULL)
        return false;
    return field->text != NULL ||
           (field->kind > VW__REPORT_FIELD_NOTHING && field->kind < VW__REPORT_FIELD_RANGE) ||
           field->kind == VW__REPORT_FIELD_TEXTS;
}

static void append_texts(vw__report *report, const vw__report_field *field, const void *object)
{
    const char *const *texts = pointer_of(field, object);
    vw__byte_buffer joined;
    vw__byte_buffer_init(&joined);
    for (size_t i = 0; i < count_of(field, object); i++)
        vw__append_format(&joined, "%s%s", i > 0 ? "; " : "", texts[i]);
    append_text(report, vw__byte_buffer_text(&joined), joined.size_bytes);
    report->buffer.has_failed |= joined.has_failed;
    vw__byte_buffer_deinit(&joined);
}

/* As JSON has it. A string keeps its quotes, which mean the same in CSV: it must need no escapes.
 */
static void append_value(vw__report *report, const vw__report_field *field, const void *object)
{
    vw__byte_buffer value;
    vw__json json;
    vw__byte_buffer_init(&value);
    vw__json_init(&json, &value);
    vw__json_begin_array(&json, NULL);
    vw__report_json_field(report, &json, NULL, field, object);
    const char *text = vw__byte_buffer_text(&value) + (value.size_bytes > 0); /* behind "[" */
    if (strcmp(text, "null") == 0)
        append_empty(report);
    else
        vw__append_text(&report->buffer, text);
    report->buffer.has_failed |= value.has_failed;
    vw__byte_buffer_deinit(&value);
}

static void append_place(vw__report *report, const vw_frame *frame)
{
    vw__byte_buffer place;
    vw__byte_buffer_init(&place);
    vw__report_append_place(&place, frame, NULL, 0, "");
    append_text(report, vw__byte_buffer_text(&place), place.size_bytes);
    report->buffer.has_failed |= place.has_failed;
    vw__byte_buffer_deinit(&place);
}

/* `object` may be NULL: the cell is empty. */
static void write_cell(vw__report *report, const vw__report_field *field, const void *object)
{
    const bool is_known = object != NULL && (field->is_known == NULL || field->is_known(object));
    if (!is_known) {
        vw__report_csv_text(report, NULL);
    } else if (field->text != NULL) {
        vw__report_csv_text(report, field->text(object));
    } else if (field->write != NULL) {
        begin_cell(report);
        append_value(report, field, object);
    } else if (field->kind == VW__REPORT_FIELD_TEXT) {
        vw__report_csv_text(report, pointer_of(field, object));
    } else if (field->kind == VW__REPORT_FIELD_WORDS) {
        vw__report_csv_text(report, member_of(field, object));
    } else if (field->kind == VW__REPORT_FIELD_FILE) {
        vw__report_csv_text(report, report->form.file);
    } else if (field->kind == VW__REPORT_FIELD_OTHER_FILE) {
        vw__report_csv_text(report, report->form.other_file);
    } else {
        begin_cell(report);
        if (field->kind == VW__REPORT_FIELD_TEXTS)
            append_texts(report, field, object);
        else if (field->kind == VW__REPORT_FIELD_PLACE)
            append_place(report, pointer_of(field, object));
        else
            append_value(report, field, object);
    }
}

static void write_names(vw__report *report, const vw__report_fields *fields, const char *above)
{
    for (size_t i = 0; i < fields->count; i++) {
        const vw__report_field *field = &fields->list[i];
        char name[MOST_PATH_BYTES];
        if (field->key == NULL)
            continue;
        snprintf(name, sizeof name, "%s%s%s", above, above[0] != '\0' ? "." : "", field->key);
        if (is_below(field))
            write_names(report, field->fields, name);
        else if (is_column(field))
            vw__report_csv_text(report, name);
    }
}

void vw__report_csv_names(vw__report *report, const vw__report_fields *fields)
{
    write_names(report, fields, "");
}

/* What an object below is; NULL: null. */
static const void *object_below(const vw__report_field *field, const void *object)
{
    if (object == NULL || (field->is_known != NULL && !field->is_known(object)))
        return NULL;
    return field->kind == VW__REPORT_FIELD_POINTER ? pointer_of(field, object)
                                                   : member_of(field, object);
}

void vw__report_csv_values(vw__report *report, const vw__report_fields *fields, const void *object)
{
    for (size_t i = 0; i < fields->count; i++) {
        const vw__report_field *field = &fields->list[i];
        if (field->key == NULL)
            continue;
        if (is_below(field))
            vw__report_csv_values(report, field->fields, object_below(field, object));
        else if (is_column(field))
            write_cell(report, field, object);
    }
}

/* ---- the way to a list ----------------------------------------------------------------------- */

/* The lists that were passed, from the outermost: the object of each, and its first field. */
typedef struct passed_lists {
    const vw__report_field *firsts[DEEPEST];
    const void *objects[DEEPEST];
    size_t count;
} passed_lists;

static const vw__report_field *find_field(const vw__report_fields *fields, const char *key,
                                          size_t length)
{
    for (size_t i = 0; i < fields->count; i++) {
        const char *own = fields->list[i].key;
        if (own != NULL && strncmp(own, key, length) == 0 && own[length] == '\0')
            return &fields->list[i];
    }
    return NULL;
}

/* The names, by what stands in the tables alone: there may be no object. */
static void write_header(vw__report *report, const vw__report_fields *fields, const char *path)
{
    for (;;) {
        const size_t length = strcspn(path, ".");
        const vw__report_field *field = find_field(fields, path, length);
        if (field == NULL)
            return;
        fields = field->fields;
        if (path[length] == '\0')
            break;
        if (is_list(field))
            vw__report_csv_text(report, fields->list[0].key);
        path += length + 1;
    }
    vw__report_csv_names(report, fields);
    vw__report_csv_end_line(report);
}

static void write_line(vw__report *report, const passed_lists *passed,
                       const vw__report_fields *fields, const void *object)
{
    for (size_t i = 0; i < passed->count; i++)
        write_cell(report, passed->firsts[i], passed->objects[i]);
    vw__report_csv_values(report, fields, object);
    vw__report_csv_end_line(report);
}

static void write_lines(vw__report *report, const vw__report_fields *fields, const char *path,
                        const void *object, passed_lists *passed)
{
    const size_t length = strcspn(path, ".");
    const vw__report_field *field = find_field(fields, path, length);
    const bool is_last = path[length] == '\0';
    if (field == NULL || object == NULL || passed->count == DEEPEST)
        return;
    if (is_below(field)) {
        write_lines(report, field->fields, path + length + 1, object_below(field, object), passed);
        return;
    }
    const char *items = pointer_of(field, object);
    size_t count = count_of(field, object);
    if (field->kind == VW__REPORT_FIELD_FIRST_OBJECTS && count > report->form.most_rows)
        count = report->form.most_rows;
    for (size_t i = 0; i < count; i++) {
        const void *item = items + i * field->fields->object_bytes;
        if (is_last) {
            write_line(report, passed, field->fields, item);
            continue;
        }
        passed->firsts[passed->count] = &field->fields->list[0];
        passed->objects[passed->count++] = item;
        write_lines(report, field->fields, path + length + 1, item, passed);
        passed->count--;
    }
}

void vw__report_csv_table(vw__report *report, const vw__report_fields *fields, const char *path,
                          const void *content)
{
    passed_lists passed = {.count = 0};
    write_header(report, fields, path);
    write_lines(report, fields, path, content, &passed);
}
