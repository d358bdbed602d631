/* report_fields.h - one description of an object, for all forms of a report.
 *
 * A list of fields names each value once: its key in JSON, its column in a table of the text, and
 * where it is in the struct. One writer makes the JSON object of it, another the rows of a table, a
 * third CSV (report_csv.h). A number that is VW_UNKNOWN is null in JSON and "?" in text.
 *
 *   static const vw__report_field usage_fields[] = {
 *       {VW__REPORT_FIELD(BYTES, vw_usage, "bytes", bytes), VW__REPORT_COLUMN(1, NUMBER, "bytes")},
 *       {VW__REPORT_FIELD(TEXT, vw_usage, "category", category)},
 *   };
 *   static const vw__report_fields usages = VW__REPORT_FIELDS(vw_usage, usage_fields);
 */
#ifndef VW_REPORT_REPORT_FIELDS_H
#define VW_REPORT_REPORT_FIELDS_H

#include <stddef.h>

#include "vramwise/analysis.h"
#include "export/json_write.h"
#include "report/report_text.h"

typedef enum vw__report_field_kind {
    VW__REPORT_FIELD_NOTHING, /* a function below makes it */

    /* One value. Unsigned numbers have 32 or 64 bits. */
    VW__REPORT_FIELD_COUNT,       /* unsigned; "220,134" */
    VW__REPORT_FIELD_BYTES,       /* unsigned; "13.40 GiB" */
    VW__REPORT_FIELD_NANOSECONDS, /* unsigned; microseconds in JSON, "12.3 ms" in text */
    VW__REPORT_FIELD_INTEGER,     /* int or int64_t; INT64_MIN is null */
    VW__REPORT_FIELD_NATURAL,     /* int; negative is null */
    VW__REPORT_FIELD_BOOLEAN,
    VW__REPORT_FIELD_RATIO, /* double; "1.04"; not finite is null */
    VW__REPORT_FIELD_TEXT,  /* const char *; NULL is null */
    VW__REPORT_FIELD_WORDS, /* char []; "" is null */
    VW__REPORT_FIELD_PLACE, /* const vw_frame *: "file:line function"; NULL is null */
    VW__REPORT_FIELD_FILE,  /* the form's file; no member */
    VW__REPORT_FIELD_OTHER_FILE,
    VW__REPORT_FIELD_RANGE, /* double, and the next member: an array of both */

    /* Several. Arrays have a VW__REPORT_COUNTED. */
    VW__REPORT_FIELD_OBJECT,  /* a struct with `fields`; without a member: of the same object */
    VW__REPORT_FIELD_POINTER, /* a pointer to one; NULL is null */
    VW__REPORT_FIELD_OBJECTS, /* a pointer to an array of them */
    VW__REPORT_FIELD_FIRST_OBJECTS, /* the same, as many as the form's most_rows */
    VW__REPORT_FIELD_TEXTS,         /* const char *const * */
    VW__REPORT_FIELD_COUNTS,        /* const uint64_t * */
    /* const vw_frame *: an array of places, the innermost ones. Where that is not all of them,
     * "..._left_out" behind it counts the others. */
    VW__REPORT_FIELD_FRAMES,
} vw__report_field_kind;

typedef struct vw__report_fields vw__report_fields;

typedef struct vw__report_field {
    const char *key; /* in JSON; NULL: only in text */
    vw__report_field_kind kind;
    size_t offset, size_bytes;       /* of the member */
    size_t count_offset;             /* of the size_t that counts an array */
    const vw__report_fields *fields; /* of what is below */

    bool (*is_known)(const void *object); /* false: null in JSON. NULL: always known */
    /* Instead of what `kind` says: a text for both forms; or what JSON and a cell get. With
     * `write`, `kind` says whether that is one value, for CSV. */
    const char *(*text)(const void *object);
    void (*write)(vw__report *report, vw__json *json, const char *key, const void *object);
    void (*append)(vw__byte_buffer *cell, const void *object);

    unsigned column; /* from 1; 0: only in JSON */
    vw__report_column_kind column_kind;
    const char *title;
} vw__report_field;

struct vw__report_fields {
    const vw__report_field *list;
    size_t count;
    size_t object_bytes;
};

#define VW__REPORT_FIELD(kind_, type, key_, member)                                                \
    .key = (key_), .kind = VW__REPORT_FIELD_##kind_, .offset = offsetof(type, member),             \
    .size_bytes = sizeof(((type *)0)->member)
#define VW__REPORT_COUNTED(type, member) .count_offset = offsetof(type, member)
#define VW__REPORT_COLUMN(position, kind_, title_)                                                 \
    .column = (position), .column_kind = VW__REPORT_COLUMN_##kind_, .title = (title_)
/* Defines a function for `text`: the name of an enumerator. */
#define VW__REPORT_NAME(function, type, name_of, member)                                           \
    static const char *function(const void *object)                                                \
    {                                                                                              \
        return name_of(((const type *)object)->member);                                            \
    }
/* Defines a function for `is_known`: a bool of the struct. */
#define VW__REPORT_CONDITION(function, type, member)                                               \
    static bool function(const void *object)                                                       \
    {                                                                                              \
        return ((const type *)object)->member;                                                     \
    }
#define VW__REPORT_FIELDS(type, array)                                                             \
    {                                                                                              \
        (array), sizeof(array) / sizeof((array)[0]), sizeof(type)                                  \
    }

/* ---- JSON ------------------------------------------------------------------------------------ */

/* The members of the object that is open. */
void vw__report_json_members(vw__report *report, vw__json *json, const vw__report_fields *fields,
                             const void *object);

/* One field under `key`, whatever its own is. */
void vw__report_json_field(vw__report *report, vw__json *json, const char *key,
                           const vw__report_field *field, const void *object);

/* An object; NULL: null. */
void vw__report_json_object(vw__report *report, vw__json *json, const char *key,
                            const vw__report_fields *fields, const void *object);

/* ---- tables ---------------------------------------------------------------------------------- */

/* vw__report_table_init() with the fields that have a column. */
void vw__report_fields_table(vw__report_table *table, const vw__report_fields *fields);

void vw__report_fields_row(vw__report_table *table, vw__report_style style,
                           const vw__report_fields *fields, const void *object);

/* A whole table, in plain style. */
void vw__report_fields_rows(vw__report *report, const vw__report_fields *fields,
                            const void *objects, size_t count);

/* ---- places in a program: "file:line function" ----------------------------------------------- */

/* For people: "train.py:152 forward > linear.py:134", where the second is the innermost frame, if
 * that is another. What has no frame outside torch is named by its innermost one; what has none at
 * all by `otherwise`. */
void vw__report_append_place(vw__byte_buffer *buffer, const vw_frame *where, const vw_frame *frames,
                             size_t frame_count, const char *otherwise);

/* The innermost frames, a few, as details below a row. */
void vw__report_table_frames(vw__report_table *table, const vw_frame *frames, size_t frame_count);

#endif /* VW_REPORT_REPORT_FIELDS_H */
