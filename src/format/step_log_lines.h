/* step_log_lines.h - one line of a step log, in each of its forms.
 *
 * step_log.c cuts a text into lines and keeps the points; whether a line is worth reading is seen
 * in step_log_hints.c, and what it says is found in one of three: in a sentence (step_log_text.c),
 * in JSON or a dict of Python's (step_log_json.c), in a row of a table (step_log_table.c). */
#ifndef VW_FORMAT_STEP_LOG_LINES_H
#define VW_FORMAT_STEP_LOG_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/step_log_fields.h"

/* ---- hints ----------------------------------------------------------------------------------- */

/* Does a word of memory or a unit of bytes stand anywhere in the line? */
bool vw__step_hint_in_line(const char *line, size_t size_bytes);

/* From the beginning of a line, how many bytes of whole lines may be left out, because nothing in
 * them is a hint or begins JSON. Adds to `*line_count` how many lines those are. */
size_t vw__step_dull_bytes(const char *bytes, size_t size_bytes, uint64_t *line_count);

/* ---- sentences ------------------------------------------------------------------------------- */

/* What a line says, if it says something about memory. Only the first few thousand bytes of a line
 * are looked at. Whether it is plain is found where that `is_asked`. */
bool vw__step_text_read(const char *line, size_t size_bytes, bool is_asked, vw__sighting *out);

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Called for every object that names memory. */
typedef void (*vw__sighting_sink)(void *context, const vw__sighting *sighting);

/* Asked at every object of a list: may it be left out? */
typedef bool (*vw__object_filter)(void *context);

enum { VW__STEP_JSON_MOST_DEPTH = 8, VW__STEP_JSON_KEY_BYTES = 64 };

typedef struct vw__step_json_key {
    char text[VW__STEP_JSON_KEY_BYTES];
    size_t size_bytes; /* 0 = none */
} vw__step_json_key;

typedef struct vw__step_json_frame {
    vw__sighting sighting;
    vw__step_json_key key; /* of the object in the one around it */
    bool is_list;
} vw__step_json_frame;

/* A walk that may be continued with the next line: an object may be spread over many. */
typedef struct vw__step_json {
    vw__step_json_frame frames[VW__STEP_JSON_MOST_DEPTH];
    size_t depth;          /* open brackets; those beyond the frames are only counted */
    size_t passed_depth;   /* of the object that is left out; 0 = none */
    vw__step_json_key key; /* whose value comes next */
    vw__sighting_sink sink;
    vw__object_filter filter;
    void *sink_context;
} vw__step_json;

void vw__step_json_init(vw__step_json *json, vw__sighting_sink sink, vw__object_filter filter,
                        void *sink_context);
void vw__step_json_reset(vw__step_json *json);
void vw__step_json_walk(vw__step_json *json, const char *text, size_t size_bytes);

/* ---- tables ---------------------------------------------------------------------------------- */

enum { VW__STEP_TABLE_MOST_COLUMNS = 64, VW__STEP_TABLE_HEADER_BYTES = 2048 };

typedef struct vw__step_table {
    bool is_open;   /* a header was seen, and its rows are expected */
    bool has_step;  /* a column of steps */
    char separator; /* '\0' = one column; ' ' = any number of spaces */
    size_t column_count;
    size_t miss_count, most_misses; /* lines since the last row */
    vw__field columns[VW__STEP_TABLE_MOST_COLUMNS];
    char header[VW__STEP_TABLE_HEADER_BYTES]; /* what the names of the columns point into */
} vw__step_table;

/* Is this line a header with memory among its columns? Then `table` is open. */
bool vw__step_table_read_header(vw__step_table *table, const char *line, size_t size_bytes);

/* Is this line a row of the open table? Too many that are not close it. */
bool vw__step_table_read_row(vw__step_table *table, const char *line, size_t size_bytes,
                             vw__sighting *out);

#endif /* VW_FORMAT_STEP_LOG_LINES_H */
