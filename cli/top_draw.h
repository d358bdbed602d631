/* top_draw.h - what the screen shows: GPUs, the table, the details of one row, help. */
#ifndef VRAMWISE_CLI_TOP_DRAW_H
#define VRAMWISE_CLI_TOP_DRAW_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/watch.h"

#include "top_columns.h"
#include "top_history.h"
#include "top_rows.h"
#include "top_screen.h"

typedef enum top_mode { TOP_TABLE, TOP_DETAILS, TOP_HELP } top_mode;

/* What the user has chosen, and what there is to show. */
typedef struct top_state {
    top_mode mode;
    top_column sort;
    bool is_falling;
    bool is_tree; /* the ranks of a job stand below it */
    char filter[TOP_FILTER_BYTES];
    bool is_filtering; /* keys go into the filter */
    bool is_paused;
    double interval_seconds;
    top_key selected;
    size_t first;        /* the uppermost row that is shown */
    size_t page_rows;    /* how many are, as last drawn */
    const char *trouble; /* of the latest reading; NULL: none */
    const vw_machine *now;
    const top_history *history;
    top_rows rows;
    top_layout layout; /* as last drawn */
} top_state;

/* The selected row; `rows.count` without rows. */
size_t top_selected(const top_state *state);

void top_draw(top_screen *screen, top_state *state);

/* Parts of top_draw(): */
void top_draw_details(const top_screen *screen, const top_state *state);
void top_draw_plot(const top_screen *screen, const top_state *state, const top_row *row, int line,
                   int end); /* between the lines; nothing where there is too little to draw */

#endif /* VRAMWISE_CLI_TOP_DRAW_H */
