/* step_log_internal.h - what the files of the step log reader share.
 *
 * step_log.c cuts a text into lines and decides which of them are worth reading. What a line says
 * is found in one of three ways: as a sentence (step_log_text.c), as JSON or a dict of Python, or
 * as a row of a table (step_log_forms.c). All come down to fields, a name and a number each
 * (step_log_fields.c), of which the best make a *sighting*; sightings make series, and one of those
 * is the log (step_log_series.c). */
#ifndef VW_PARSE_STEP_LOG_INTERNAL_H
#define VW_PARSE_STEP_LOG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "parse/line.h"
#include "parse/step_log.h"

/* ---- fields ---------------------------------------------------------------------------------- */

typedef enum vw__step_log_field_kind {
    VW__STEP_LOG_FIELD_NONE,    /* no words at all */
    VW__STEP_LOG_FIELD_UNKNOWN, /* words that mean nothing here */
    VW__STEP_LOG_FIELD_OTHER,   /* something else for certain: time, loss, a file */
    VW__STEP_LOG_FIELD_STEP,
    VW__STEP_LOG_FIELD_EPOCH,
    VW__STEP_LOG_FIELD_ALLOCATED,
    VW__STEP_LOG_FIELD_RESERVED,
    VW__STEP_LOG_FIELD_HOST, /* memory of the host: cpu mem, rss */
    VW__STEP_LOG_FIELD_FREE, /* memory of the card that nobody uses */
    VW__STEP_LOG_FIELD_RANK
} vw__step_log_field_kind;

/* What a name ("max_mem", "memory/allocated (GiB)", "GPU memory allocated") says. */
typedef struct vw__step_log_field {
    vw__step_log_field_kind kind;
    int weight;        /* among fields of its kind the heavier one is believed */
    double unit_bytes; /* said by the name; 0 = not said */
    bool needs_unit;   /* memory only if the number has a unit: "gpu", "peak" */
    bool may_be_rank;  /* "gpu" with a whole number */
    bool is_peak;
    bool has_more; /* words that mean nothing here */
    int device;    /* gpu.1.memory: 1; -1 = not said */
    vw__line name; /* the part of the name that matters; borrowed */
} vw__step_log_field;

/* Memory of one kind that a line names. */
typedef struct vw__step_log_reading {
    double value, unit_bytes; /* 0 = not said */
    int weight;               /* 0 = not seen */
    int device;               /* -1 = not said */
    bool is_peak;
    char name[VW__STEP_LOG_NAME_BYTES];
} vw__step_log_reading;

typedef enum vw__step_log_memory {
    VW__STEP_LOG_OF_CARD, /* allocated; in a series, or whatever else the line names */
    VW__STEP_LOG_OF_RESERVED,
    VW__STEP_LOG_OF_FREE,
    VW__STEP_LOG_OF_SHARE, /* in percent of the card */
    VW__STEP_LOG_OF_HOST,
    VW__STEP_LOG_MEMORIES
} vw__step_log_memory;

enum { VW__STEP_LOG_SIGHTING_MOST_DEVICES = 7 }; /* besides the first */

/* What one line or object says. */
typedef struct vw__step_log_sighting {
    vw__step_log_reading memory[VW__STEP_LOG_MEMORIES];
    double step;
    int step_weight; /* 0 = not seen */
    int rank;        /* -1 = not said */
    int device;      /* that the next figure is of, where its name does not say; -1 */
    size_t device_count;
    vw__step_log_reading
        devices[VW__STEP_LOG_SIGHTING_MOST_DEVICES]; /* allocated on other devices */
    bool is_epoch;
    bool is_plain; /* a step and memory and nothing else: one such line is a step log */
    bool is_bare;  /* a size and nothing else */
} vw__step_log_sighting;

/* The words that names are made of, found by their hash. */
typedef struct vw__step_log_word {
    const char *text; /* static; NULL: an empty slot */
    uint8_t size_bytes, meaning;
} vw__step_log_word;

enum { VW__STEP_LOG_WORD_SLOTS = 512 };

typedef struct vw__step_log_words {
    vw__step_log_word slots[VW__STEP_LOG_WORD_SLOTS];
} vw__step_log_words;

void vw__step_log_words_init(vw__step_log_words *words);

/* What the words of a name say. */
vw__step_log_field vw__step_log_field_of_name(const vw__step_log_words *words, vw__line name);

/* A field that no word names. */
vw__step_log_field vw__step_log_field_nameless(vw__step_log_field_kind kind, int weight);

/* Memory of the card that a word names: a unit alone is a name in a table, and not in a sentence.
 */
static inline bool vw__step_log_field_is_memory(const vw__step_log_field *field)
{
    return (field->kind == VW__STEP_LOG_FIELD_ALLOCATED ||
            field->kind == VW__STEP_LOG_FIELD_RESERVED) &&
           field->name.size_bytes != 0;
}

/* How much the words of a part of a line say besides steps, times and losses; words that are
 * attached to a number (3.21GB) are not looked at. */
typedef enum vw__step_log_talk {
    VW__STEP_LOG_TALK_OF_STEPS,  /* nothing */
    VW__STEP_LOG_TALK_OF_MEMORY, /* words of memory */
    VW__STEP_LOG_TALK_OF_ELSE,   /* words that mean nothing here */
    VW__STEP_LOG_TALK_OF_FILES   /* checkpoints, downloads, disks */
} vw__step_log_talk;

vw__step_log_talk vw__step_log_talk_of(const vw__step_log_words *words, vw__line text);

void vw__step_log_sighting_init(vw__step_log_sighting *sighting);
void vw__step_log_sighting_offer(vw__step_log_sighting *sighting, const vw__step_log_field *field,
                                 const vw__line_number *number);

/* Takes what `other` saw and `sighting` did not, or less well. */
void vw__step_log_sighting_merge(vw__step_log_sighting *sighting,
                                 const vw__step_log_sighting *other);

bool vw__step_log_sighting_has_memory(const vw__step_log_sighting *sighting);

/* ---- one line, in each of its forms ---------------------------------------------------------- */

/* Reads a sentence, and returns whether it says something about memory. Only the first few thousand
 * bytes of a line are looked at. Whether it is plain is found where `is_asked`. */
bool vw__step_log_text_read(const vw__step_log_words *words, vw__line line, bool is_asked,
                            vw__step_log_sighting *out);

/* Called for every object that names memory. */
typedef void (*vw__step_log_sighting_sink)(void *context, const vw__step_log_sighting *sighting);

/* Called at every object of a list: may it be left out? */
typedef bool (*vw__step_log_object_filter)(void *context);

enum { VW__STEP_LOG_JSON_MOST_DEPTH = 8, VW__STEP_LOG_JSON_KEY_BYTES = 64 };

typedef struct vw__step_log_json_key {
    char text[VW__STEP_LOG_JSON_KEY_BYTES];
    size_t size_bytes; /* 0 = none */
} vw__step_log_json_key;

typedef struct vw__step_log_json_frame {
    vw__step_log_sighting sighting;
    vw__step_log_json_key key; /* of the object in the one around it */
    bool is_list;
} vw__step_log_json_frame;

/* A walk that may be continued with the next line: an object may be spread over many. */
typedef struct vw__step_log_json {
    vw__step_log_json_frame frames[VW__STEP_LOG_JSON_MOST_DEPTH];
    size_t depth;              /* open brackets; those beyond the frames are only counted */
    size_t passed_depth;       /* of the object that is left out; 0 = none */
    vw__step_log_json_key key; /* whose value comes next */
    const vw__step_log_words *words;
    vw__step_log_sighting_sink sink;
    vw__step_log_object_filter filter;
    void *sink_context;
} vw__step_log_json;

void vw__step_log_json_reset(vw__step_log_json *json);
void vw__step_log_json_walk(vw__step_log_json *json, vw__line text);

enum { VW__STEP_LOG_TABLE_MOST_COLUMNS = 64, VW__STEP_LOG_TABLE_HEADER_BYTES = 2048 };

typedef struct vw__step_log_table {
    bool is_open;   /* a header was seen, and its rows are expected */
    bool has_step;  /* a column of steps */
    char separator; /* '\0' = one column; ' ' = any number of spaces */
    size_t column_count;
    size_t miss_count, most_misses; /* lines since the last row */
    vw__step_log_field columns[VW__STEP_LOG_TABLE_MOST_COLUMNS];
    char header[VW__STEP_LOG_TABLE_HEADER_BYTES]; /* what the names of the columns point into */
} vw__step_log_table;

/* Opens the table if this line is a header with memory among its columns. */
bool vw__step_log_table_read_header(vw__step_log_table *table, const vw__step_log_words *words,
                                    vw__line line);

/* Is this line a row of the open table? Too many that are not close it. */
bool vw__step_log_table_read_row(vw__step_log_table *table, vw__line line,
                                 vw__step_log_sighting *out);

/* ---- series ---------------------------------------------------------------------------------- */

/* Sightings of one form, one name and one rank make a *series*. There are a few of them at a time,
 * since one text may hold several logs; when another one comes, the one with the fewest points
 * goes. At the end the best of them is the log that is given, and with it those that go with it. */
enum {
    VW__STEP_LOG_MOST_SERIES = 32,
    VW__STEP_LOG_FEWEST = 3,    /* points */
    VW__STEP_LOG_FEW_LINES = 32 /* that are all looked at */
};

typedef enum vw__step_log_form {
    VW__STEP_LOG_FORM_JSON,
    VW__STEP_LOG_FORM_TABLE,
    VW__STEP_LOG_FORM_TEXT
} vw__step_log_form;

typedef struct vw__step_log_raw_point vw__step_log_raw_point;

typedef struct vw__step_log_series {
    vw__step_log_raw_point *points; /* owned */
    size_t count, capacity;
    uint64_t found_count; /* sightings; those in lines that were passed over are estimated */
    uint64_t next_kept, stride;
    vw__step_log_form form;
    vw__step_log_memory kind;
    int rank, weight;
    bool has_step, has_unit, is_peak;
    bool is_plain, is_bare; /* all of them: see vw__step_log_sighting */
    bool has_fraction;      /* numbers that are not whole */
    bool is_epoch;
    double largest;
    char name[VW__STEP_LOG_NAME_BYTES];
} vw__step_log_series;

/* All zero is an empty one. */
typedef struct vw__step_log_series_set {
    vw__step_log_series all[VW__STEP_LOG_MOST_SERIES];
    size_t count;
    uint64_t sighted_count;     /* sightings so far, of any form */
    uint64_t most_stride;       /* of any series: how rarely sightings are kept */
    size_t points_bytes;        /* held by the points of all */
    bool has_failed;            /* host memory, while the walk went on */
    vw__step_log_point *result; /* owned */
    vw__step_log others[VW__STEP_LOG_MOST_SERIES];
} vw__step_log_series_set;

/* How long the text is. */
typedef struct vw__step_log_lines {
    uint64_t count;
    uint64_t blank_count; /* lines that are empty, of the first VW__STEP_LOG_FEW_LINES */
} vw__step_log_lines;

/* Keeps what a line says. `line_weight`: how many lines it stands for. */
void vw__step_log_series_note(vw__step_log_series_set *set, vw__step_log_form form,
                              const vw__step_log_sighting *sighting, uint64_t line_weight);

/* VW_ERR_HOST_MEMORY if a point could not be kept. */
VW_MUST_CHECK vw_status vw__step_log_series_status(const vw__step_log_series_set *set);

/* As vw__step_log_scan_finish(). */
VW_MUST_CHECK vw_status vw__step_log_series_finish(vw__step_log_series_set *set,
                                                   const vw__step_log_lines *lines,
                                                   vw__step_log *out);
void vw__step_log_series_deinit(vw__step_log_series_set *set);

#endif /* VW_PARSE_STEP_LOG_INTERNAL_H */
