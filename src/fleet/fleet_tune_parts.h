/* fleet_tune_parts.h - what the files fleet_tune*.c share.
 *
 * fleet_tune_record.c tries one file under the grid of settings (settings/tune_grid.h) and writes
 * down what came of it. fleet_tune.c adds the records of a job up to one *line* of cells;
 * fleet_tune_choose.c compares settings over all lines. */
#ifndef VW_FLEET_FLEET_TUNE_PARTS_H
#define VW_FLEET_FLEET_TUNE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/fleet.h"
#include "base/arena.h"
#include "base/byte_buffer.h"
#include "fleet/fleet_run.h" /* vw__fleet_means */
#include "ranks/rank_units.h"
#include "settings/tune_grid.h"

/* ---- one file -------------------------------------------------------------------------------- */

/* The card, as it was asked for; each record has it. */
typedef struct vw__fleet_tune_card {
    uint64_t card_bytes; /* for PyTorch */
    uint64_t context_bytes;
    bool is_whole_card;
} vw__fleet_tune_card;

typedef struct vw__fleet_tune_try {
    vw__fleet_tune_card card;
    const char *torch_version;
} vw__fleet_tune_try;

typedef enum vw__fleet_tune_kind {
    VW__FLEET_TUNE_NOTHING, /* a job that has only logs */
    VW__FLEET_TUNE_RECORDING,
    VW__FLEET_TUNE_UNREADABLE,
    VW__FLEET_TUNE_FOREIGN,
    VW__FLEET_TUNE_KINDS
} vw__fleet_tune_kind;

/* A record, read back; texts are a part of it. */
typedef struct vw__fleet_tune_record {
    vw__fleet_tune_card card;
    vw__fleet_tune_kind kind;
    const char *reason;        /* of UNREADABLE */
    const char *recorded_conf; /* these of RECORDING */
    bool is_new_variable;      /* PYTORCH_ALLOC_CONF */
    bool is_possible;
    uint64_t peak_live_bytes;
    vw__tune_grid_cell recorded;
    vw__tune_grid_cell cells[VW__TUNE_GRID_MOST];
} vw__fleet_tune_record;

/* Tells one grid of settings from another: records of another one mean something else. */
uint64_t vw__fleet_tune_rows_hash(void);

/* A vw__fleet_examiner; the context is a vw__fleet_tune_try. */
VW_MUST_CHECK vw_status vw__fleet_tune_examine(const void *context, const vw__ranks_job_list *list,
                                               size_t unit, const vw__fleet_means *means,
                                               vw__byte_buffer *record, bool *may_change);

/* `row_count`: of the grid. VW_ERR_CORRUPT_FILE. */
VW_MUST_CHECK vw_status vw__fleet_tune_record_read(const vw__ranks_record *bytes, size_t row_count,
                                                   vw__fleet_tune_record *out);

/* ---- all jobs -------------------------------------------------------------------------------- */

/* A job whose recordings were tried, with its cells: the worst of its recordings. */
typedef struct vw__fleet_tune_line {
    vw_fleet_tuned_job shown;
    const char *kind_name;       /* the arena's; "" for none */
    uint64_t recorded_own_bytes; /* that the recorded options must save */
    vw__tune_grid_cell recorded;
    vw__tune_grid_cell *cells; /* the arena's; by row */
} vw__fleet_tune_line;

/* What vw_fleet_tuning_free() gets back. */
typedef struct vw__fleet_tune_result {
    vw_fleet_tuning shown; /* first: the caller holds a pointer to it */
    vw__arena arena;
    vw__tune_grid_row rows[VW__TUNE_GRID_MOST];
    size_t row_count;
    vw__fleet_tune_line *lines; /* owned; by the name of the job until they are chosen for */
    size_t line_count;
} vw__fleet_tune_result;

/* Fills in the settings, the kinds and the jobs of the report. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__fleet_tune_choose(vw__fleet_tune_result *result);

#endif /* VW_FLEET_FLEET_TUNE_PARTS_H */
