/* tune_grid.h - one recording under settings that are the same for every recording.
 *
 * vw_recording_tune() chooses what to try by the recording, which says little about others. The
 * *grid* is a fixed list: all single options of setting_table.h, and expandable segments with those
 * that are worth it. So any of them can be added up over many recordings. Only what an environment
 * variable can set is in it: nobody changes the programs of a whole team. */
#ifndef VW_SETTINGS_TUNE_GRID_H
#define VW_SETTINGS_TUNE_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "model/memory_model.h"
#include "settings/tune.h"

#define VW__TUNE_GRID_MOST 40 /* rows */

typedef struct vw__tune_grid_row {
    const char *policy; /* static */
    char conf[VW__TUNE_MOST_CONF_BYTES];
    uint16_t size_mb; /* has no effect unless a request is as large; 0: always has one */
} vw__tune_grid_row;

/* The rows, in the order of the table; the first is PyTorch's defaults. Returns how many. */
size_t vw__tune_grid_rows(vw__tune_grid_row rows[VW__TUNE_GRID_MOST]);

/* What came of a row. */
typedef struct vw__tune_grid_cell {
    bool is_refused; /* by the recording's version of PyTorch; else: */
    bool is_complete;
    bool is_slow; /* in the driver, by the rule of tune.c */
    uint64_t peak_reserved_bytes;
    uint64_t retries;
    uint64_t driver_calls;
    uint64_t driver_ns;
} vw__tune_grid_cell;

typedef struct vw__tune_grid {
    uint64_t peak_live_bytes, event_count;
    bool is_possible;     /* live bytes never exceed the card; else nothing was tried */
    const char *variable; /* of the environment; static */
    char *recorded_conf;  /* owned; "" if the file has none */
    vw__tune_grid_cell recorded;
    vw__tune_grid_cell cells[VW__TUNE_GRID_MOST];
} vw__tune_grid;

typedef struct vw__tune_grid_options {
    const char *torch_version; /* as in vw_replay_options */
    uint64_t card_bytes;       /* for PyTorch; not 0 */
    unsigned most_threads;     /* as of vw__tune_try() */
} vw__tune_grid_options;

/* Replays every row that can differ from one before it. Errors as of vw_recording_tune(): nothing
 * to free. Else vw__tune_grid_free(). */
VW_MUST_CHECK vw_status vw__tune_grid_try(const vw__model *model,
                                          const vw__tune_grid_options *options, vw__tune_grid *out);
void vw__tune_grid_free(vw__tune_grid *grid);

#endif /* VW_SETTINGS_TUNE_GRID_H */
