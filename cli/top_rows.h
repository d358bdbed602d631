/* top_rows.h - the rows of a machine as the screen has them: with their figures, chosen by a filter
 * and in the order of a column. */
#ifndef VRAMWISE_CLI_TOP_ROWS_H
#define VRAMWISE_CLI_TOP_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/report.h"
#include "vramwise/watch.h"

#include "top_history.h"

enum { TOP_TREND_POINTS = 8, TOP_FILTER_BYTES = 64 };

typedef struct top_row {
    const vw_machine_row *row; /* of the machine that it was made from */
    vw_job_figures figures;
    vw_row_note notes[VW_NOTE_KIND_COUNT];
    size_t note_count;
    top_point trend[TOP_TREND_POINTS];
    size_t trend_count;

    /* In the tree: how many rows its job has, of which this is the first, or the last; and by what
     * the job stands where it does. */
    size_t group_count;
    bool is_first_of_group, is_last_of_group;
    size_t place, group_place;
} top_row;

typedef struct top_rows {
    top_row *items; /* those that are shown, first those on a GPU, then those on none */
    size_t count;
    size_t capacity;
    size_t on_gpu_count;  /* of those shown */
    size_t job_count;     /* of all: processes with a page */
    size_t warning_count; /* of all: rows with an urgent note */
    size_t turn;          /* counts readings: whose trend is found anew */
} top_rows;

/* The order: how to compare two rows by a column, and which way. */
typedef struct top_order {
    int (*compare)(int column, const top_row *one, const top_row *other);
    int column;
    bool is_falling;
    bool is_tree; /* rows of one job stand together, by rank, where the first of them would */
} top_order;

/* Replaces the rows by those of `now`. VW_ERR_HOST_MEMORY: there are none then. */
vw_status top_rows_fill(top_rows *rows, const vw_machine *before, const vw_machine *now,
                        top_history *history);
void top_rows_free(top_rows *rows);

/* Keeps those that `filter` is found in (the program, the process, the job, the GPU as "gpu0", a
 * note; case does not matter; "" keeps all), and puts them in order; equals stay as they were. */
void top_rows_arrange(top_rows *rows, const char *filter, const top_order *order);

/* What stays of a row from one reading to the next. */
typedef struct top_key {
    long process;
    int device; /* -1: none, as the GPU */
    int gpu;
} top_key;

top_key top_row_key(const top_row *row);

/* Where that row is now; `count` if it is gone. */
size_t top_rows_find(const top_rows *rows, const top_key *key);

#endif /* VRAMWISE_CLI_TOP_ROWS_H */
