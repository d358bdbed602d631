/* report_fields.c - lists of fields, written as JSON or as rows of a table. */
#include "report/report_fields.h"

#include <inttypes.h>
#include <math.h>  /* NAN */
#include <stdio.h> /* snprintf */
#include <string.h>

#include "analysis/site_key.h"

/* A file names a frame in two bytes, and a stack in as many for each device: written out, frames
 * would be a thousand times as large. What is cut is far beyond the stacks of programs. */
enum {
    FRAMES_SHOWN = 3,            /* below a row of a table */
    MOST_FRAMES = 256,           /* of a stack, in JSON */
    MOST_FRAMES_BYTES = 64 << 20 /* of all stacks of a report, and one more frame */
};

/* ---- places ---------------------------------------------------------------------------------- */

static void append_frame(vw__byte_buffer *buffer, const vw_frame *frame)
{
    vw__append_text(buffer, frame->file != NULL && frame->file[0] != '\0' ? frame->file : "?");
    if (frame->line != 0)
        vw__append_format(buffer, ":%" PRIu32, frame->line);
    if (frame->function != NULL && frame->function[0] != '\0')
        vw__append_format(buffer, " %s", frame->function);
}

/* The file without its folders, and the line: enough to tell apart what one line of the program
 * has asked for in several ways. */
static void append_short_frame(vw__byte_buffer *buffer, const vw_frame *frame)
{
    const vw_frame without_folders = {
        .file = frame->file != NULL ? vw__site_key_file(frame->file) : NULL,
        .line = frame->line,
    };
    append_frame(buffer, &without_folders);
}

void vw__report_append_place(vw__byte_buffer *buffer, const vw_frame *where, const vw_frame *frames,
                             size_t frame_count, const char *otherwise)
{
    if (where != NULL) {
        append_frame(buffer, where);
        if (frame_count > 0 && where != &frames[0]) {
            vw__append_text(buffer, " > ");
            append_short_frame(buffer, &frames[0]);
        }
    } else if (frame_count > 0) {
        append_frame(buffer, &frames[0]);
    } else {
        vw__append_text(buffer, otherwise);
    }
}

void vw__report_table_frames(vw__report_table *table, const vw_frame *frames, size_t frame_count)
{
    vw__byte_buffer text;
    vw__byte_buffer_init(&text);
    for (size_t i = 0; i < frame_count && i < FRAMES_SHOWN; i++) {
        vw__byte_buffer_clear(&text);
        append_frame(&text, &frames[i]);
        if (text.has_failed)
            table->rows.has_failed = true;
        vw__report_table_detail(table, vw__byte_buffer_text(&text));
    }
    vw__byte_buffer_deinit(&text);
}

static void json_place(vw__json *json, const char *key, const vw_frame *frame)
{
    vw__byte_buffer text;
    if (frame == NULL) {
        vw__json_null(json, key);
        return;
    }
    vw__byte_buffer_init(&text);
    append_frame(&text, frame);
    if (text.has_failed)
        json->buffer->has_failed = true;
    vw__json_bytes(json, key, vw__byte_buffer_text(&text), text.size_bytes);
    vw__byte_buffer_deinit(&text);
}

/* ---- values ---------------------------------------------------------------------------------- */

static const void *member_of(const vw__report_field *field, const void *object)
{
    return (const char *)object + field->offset;
}

static uint64_t unsigned_of(const vw__report_field *field, const void *object)
{
    if (field->size_bytes == sizeof(uint32_t))
        return *(const uint32_t *)member_of(field, object);
    return *(const uint64_t *)member_of(field, object);
}

static int64_t integer_of(const vw__report_field *field, const void *object)
{
    if (field->size_bytes == sizeof(int))
        return *(const int *)member_of(field, object);
    return *(const int64_t *)member_of(field, object);
}

/* Whatever it points to. */
static const void *pointer_of(const vw__report_field *field, const void *object)
{
    const void *pointer;
    memcpy(&pointer, member_of(field, object), sizeof pointer);
    return pointer;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_integer(vw__json *json, const char *key, int64_t number, bool is_known)
{
    if (is_known)
        vw__json_integer(json, key, number);
    else
        vw__json_null(json, key);
}

static size_t count_of(const vw__report_field *field, const void *object)
{
    return *(const size_t *)((const char *)object + field->count_offset);
}

static bool has_room_for_frames(const vw__report *report, const vw__json *json, size_t written)
{
    return written < MOST_FRAMES && report->frames_bytes < MOST_FRAMES_BYTES &&
           !vw__byte_buffer_has_failed(json->buffer);
}

static void json_frames(vw__report *report, vw__json *json, const char *key,
                        const vw__report_field *field, const void *object)
{
    const vw_frame *frames = pointer_of(field, object);
    const size_t count = count_of(field, object);
    size_t written = 0;
    char left_out[64];
    vw__json_begin_array(json, key);
    for (; written < count && has_room_for_frames(report, json, written); written++) {
        const size_t before_bytes = vw__byte_buffer_size(json->buffer);
        json_place(json, NULL, &frames[written]);
        report->frames_bytes += vw__byte_buffer_size(json->buffer) - before_bytes;
    }
    vw__json_end_array(json);
    if (written == count)
        return;
    snprintf(left_out, sizeof left_out, "%s_left_out", key);
    vw__json_unsigned(json, left_out, count - written);
}

/* A failure of the buffer ends it: what follows would be made for nothing. */
static void json_array(vw__report *report, vw__json *json, const char *key,
                       const vw__report_field *field, const void *object)
{
    const char *items = pointer_of(field, object);
    size_t count = count_of(field, object);
    if (field->kind == VW__REPORT_FIELD_FIRST_OBJECTS && count > report->form.most_rows)
        count = report->form.most_rows;
    vw__json_begin_array(json, key);
    for (size_t i = 0; i < count && !vw__byte_buffer_has_failed(json->buffer); i++) {
        if (field->kind == VW__REPORT_FIELD_TEXTS)
            vw__json_text(json, NULL, ((const char *const *)(const void *)items)[i]);
        else if (field->kind == VW__REPORT_FIELD_COUNTS)
            vw__json_unsigned(json, NULL, ((const uint64_t *)(const void *)items)[i]);
        else
            vw__report_json_object(report, json, NULL, field->fields,
                                   items + i * field->fields->object_bytes);
    }
    vw__json_end_array(json);
}

static void json_value(vw__report *report, vw__json *json, const char *key,
                       const vw__report_field *field, const void *object)
{
    const void *member = member_of(field, object);
    switch (field->kind) {
    case VW__REPORT_FIELD_NOTHING:
        return;
    case VW__REPORT_FIELD_COUNT:
    case VW__REPORT_FIELD_BYTES:
        vw__json_known(json, key, unsigned_of(field, object));
        return;
    case VW__REPORT_FIELD_NANOSECONDS: {
        const uint64_t duration_ns = unsigned_of(field, object);
        vw__json_double(json, key,
                        duration_ns != VW_UNKNOWN ? (double)duration_ns / 1000 : (double)NAN);
        return;
    }
    case VW__REPORT_FIELD_INTEGER:
        json_integer(json, key, integer_of(field, object), integer_of(field, object) != INT64_MIN);
        return;
    case VW__REPORT_FIELD_NATURAL:
        json_integer(json, key, integer_of(field, object), integer_of(field, object) >= 0);
        return;
    case VW__REPORT_FIELD_BOOLEAN:
        vw__json_boolean(json, key, *(const bool *)member);
        return;
    case VW__REPORT_FIELD_RATIO:
        vw__json_double(json, key, *(const double *)member);
        return;
    case VW__REPORT_FIELD_TEXT:
        vw__json_text(json, key, pointer_of(field, object));
        return;
    case VW__REPORT_FIELD_WORDS:
        vw__json_text(json, key, *(const char *)member != '\0' ? member : NULL);
        return;
    case VW__REPORT_FIELD_PLACE:
        json_place(json, key, pointer_of(field, object));
        return;
    case VW__REPORT_FIELD_FILE:
        vw__json_text(json, key, report->form.file);
        return;
    case VW__REPORT_FIELD_OTHER_FILE:
        vw__json_text(json, key, report->form.other_file);
        return;
    case VW__REPORT_FIELD_RANGE:
        vw__json_begin_array(json, key);
        vw__json_double(json, NULL, ((const double *)member)[0]);
        vw__json_double(json, NULL, ((const double *)member)[1]);
        vw__json_end_array(json);
        return;
    case VW__REPORT_FIELD_OBJECT:
        vw__report_json_object(report, json, key, field->fields, member);
        return;
    case VW__REPORT_FIELD_POINTER:
        vw__report_json_object(report, json, key, field->fields, pointer_of(field, object));
        return;
    case VW__REPORT_FIELD_OBJECTS:
    case VW__REPORT_FIELD_FIRST_OBJECTS:
    case VW__REPORT_FIELD_TEXTS:
    case VW__REPORT_FIELD_COUNTS:
        json_array(report, json, key, field, object);
        return;
    case VW__REPORT_FIELD_FRAMES:
        json_frames(report, json, key, field, object);
        return;
    }
}

void vw__report_json_field(vw__report *report, vw__json *json, const char *key,
                           const vw__report_field *field, const void *object)
{
    if (field->is_known != NULL && !field->is_known(object))
        vw__json_null(json, key);
    else if (field->write != NULL)
        field->write(report, json, key, object);
    else if (field->text != NULL)
        vw__json_text(json, key, field->text(object));
    else
        json_value(report, json, key, field, object);
}

void vw__report_json_members(vw__report *report, vw__json *json, const vw__report_fields *fields,
                             const void *object)
{
    for (size_t i = 0; i < fields->count; i++) {
        const vw__report_field *field = &fields->list[i];
        if (field->key != NULL)
            vw__report_json_field(report, json, field->key, field, object);
    }
}

void vw__report_json_object(vw__report *report, vw__json *json, const char *key,
                            const vw__report_fields *fields, const void *object)
{
    if (object == NULL) {
        vw__json_null(json, key);
        return;
    }
    vw__json_begin_object(json, key);
    vw__report_json_members(report, json, fields, object);
    vw__json_end_object(json);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const vw__report_field *field_in_column(const vw__report_fields *fields, size_t column)
{
    for (size_t i = 0; i < fields->count; i++)
        if (fields->list[i].column == column)
            return &fields->list[i];
    return NULL;
}

void vw__report_fields_table(vw__report_table *table, const vw__report_fields *fields)
{
    vw__report_column columns[VW__REPORT_MOST_COLUMNS];
    size_t count = 0;
    const vw__report_field *field;
    while (count < VW__REPORT_MOST_COLUMNS && (field = field_in_column(fields, count + 1)) != NULL)
        columns[count++] = (vw__report_column){field->title, field->column_kind};
    vw__report_table_init(table, columns, count);
}

static void append_value(vw__byte_buffer *cell, const vw__report_field *field, const void *object)
{
    if (field->append != NULL)
        field->append(cell, object);
    else if (field->text != NULL)
        vw__append_text(cell, field->text(object));
    else if (field->kind == VW__REPORT_FIELD_BYTES)
        vw__append_text(cell, vw__report_size(unsigned_of(field, object)).text);
    else if (field->kind == VW__REPORT_FIELD_COUNT)
        vw__append_text(cell, vw__report_count(unsigned_of(field, object)).text);
    else if (field->kind == VW__REPORT_FIELD_NANOSECONDS)
        vw__append_text(cell, vw__report_duration(unsigned_of(field, object)).text);
    else if (field->kind == VW__REPORT_FIELD_RATIO)
        vw__append_text(cell, vw__report_ratio(*(const double *)member_of(field, object)).text);
    else if (field->kind == VW__REPORT_FIELD_TEXT && pointer_of(field, object) != NULL)
        vw__append_text(cell, pointer_of(field, object));
}

void vw__report_fields_row(vw__report_table *table, vw__report_style style,
                           const vw__report_fields *fields, const void *object)
{
    vw__byte_buffer cell;
    vw__byte_buffer_init(&cell);
    vw__report_table_row(table, style);
    for (size_t i = 0; i < table->column_count; i++) {
        vw__byte_buffer_clear(&cell);
        append_value(&cell, field_in_column(fields, i + 1), object);
        if (cell.has_failed)
            table->rows.has_failed = true;
        vw__report_table_cell(table, vw__byte_buffer_text(&cell));
    }
    vw__byte_buffer_deinit(&cell);
}

void vw__report_fields_rows(vw__report *report, const vw__report_fields *fields,
                            const void *objects, size_t count)
{
    vw__report_table table;
    vw__report_fields_table(&table, fields);
    for (size_t i = 0; i < count; i++)
        vw__report_fields_row(&table, VW__REPORT_STYLE_PLAIN, fields,
                              (const char *)objects + i * fields->object_bytes);
    vw__report_table_end(&table, report);
}
