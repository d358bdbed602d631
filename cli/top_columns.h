/* top_columns.h - the columns of the table: what they say, how rows are compared by them, and which
 * of them have room.
 *
 * Every column has a place and an importance. A narrow window has the important ones; a column that
 * no row has anything for is left out. The program's name and the note share what is left. */
#ifndef VRAMWISE_CLI_TOP_COLUMNS_H
#define VRAMWISE_CLI_TOP_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "top_rows.h"

/* In the order in which they stand. */
typedef enum top_column {
    TOP_PID,
    TOP_GPU,
    TOP_RANK,
    TOP_PROGRAM,
    TOP_MEMORY,
    TOP_LIVE,
    TOP_RESERVED,
    TOP_IDLE,
    TOP_PEAK,
    TOP_LARGEST,
    TOP_UNSEEN,
    TOP_PINNED,
    TOP_SPILLED,
    TOP_ALLOCATIONS,
    TOP_RETRIES,
    TOP_DRIVER,
    TOP_STEPS,
    TOP_STEP,
    TOP_INPUT,
    TOP_TREND,
    TOP_NOTE,
    TOP_COLUMN_COUNT
} top_column;

enum { TOP_CELL_BYTES = 128 };

const char *top_column_title(top_column column);
const char *top_column_help(top_column column); /* what it means, in a few words */
bool top_column_is_text(top_column column);     /* to the left; numbers go to the right */
bool top_column_is_falling(top_column column);  /* the most first, when it is chosen */
int top_column_compare(int column, const top_row *one, const top_row *other);

/* What the row says there: "" where it does not apply. May hold any bytes. The trend is drawn by
 * top_trend_text(). */
void top_column_cell(top_column column, const top_row *row, char cell[TOP_CELL_BYTES]);

/* The trend as letters, so that a change of a fifth or more of the memory fills the height. */
void top_trend_text(const top_row *row, bool has_utf8, char text[TOP_CELL_BYTES]);

typedef struct top_layout {
    unsigned widths[TOP_COLUMN_COUNT]; /* 0: not shown */
} top_layout;

top_layout top_columns_fit(const top_rows *rows, unsigned width_columns);

#endif /* VRAMWISE_CLI_TOP_COLUMNS_H */
