/* report.h - the results of analysis.h, check.h, doctor.h, plan.h, ranks.h and watch.h as text for
 * people, as JSON for programs, or its table as CSV for spreadsheets.
 *
 * JSON is one object on one line, with "schema": 1; unknown values are null; sizes are bytes. Its
 * fields are documented in the manual page of the command of the same name, and are stable.
 *
 * CSV is a line of names and a line for each row of the table of a report, with the names and
 * values of JSON; what is null there is empty.
 *
 * Link with -lvramwise-analysis. */
#ifndef VRAMWISE_REPORT_H
#define VRAMWISE_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/analysis.h"
#include "vramwise/check.h"
#include "vramwise/doctor.h"
#include "vramwise/fleet.h"
#include "vramwise/output.h" /* vw_output */
#include "vramwise/plan.h"
#include "vramwise/ranks.h"
#include "vramwise/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a report looks. All zero: plain ASCII, 80 columns. */
typedef struct vw_report_form {
    size_t struct_size; /* sizeof(vw_report_form); 0 counts as that */
    bool is_json;
    bool has_colour;
    bool has_utf8;
    unsigned width_columns; /* 0 = 80; less than 40 counts as 40, the doctor goes down to 20 */
    size_t most_rows;       /* of a list of users or changes; 0 = 10, SIZE_MAX = all */
    bool has_stacks;        /* text: the innermost frames below each user; JSON has them anyway */
    const char *file;       /* name of the input, as the user wrote it; NULL = none */
    const char *other_file; /* the second one, for diff */
    size_t most_lines;      /* doctor, text: as many lines at most, the best of it; 0 = the whole */
    const char *rest;       /* doctor: what shows the lines that were left out ("--all"), for the
                               last line; NULL = the line does not say */
    bool is_csv; /* the report's table as comma-separated values, in place of text and JSON */
} vw_report_form;

/* Writes a name as one shell word, in quotes if needed. false: `write` stopped it. */
VW_API bool vw_write_shell_word(const char *word, const vw_output *output);

/* All return VW_ERR_FILE if `write` stopped them, or VW_ERR_HOST_MEMORY. `form` may be NULL. */
VW_API VW_MUST_CHECK vw_status vw_report_stats(const vw_recording_stats *stats,
                                               const vw_report_form *form, const vw_output *output);
VW_API VW_MUST_CHECK vw_status vw_report_verify(const vw_verify_result *result,
                                                const vw_report_form *form,
                                                const vw_output *output);
VW_API VW_MUST_CHECK vw_status vw_report_replay(const vw_replay_report *report,
                                                const vw_report_form *form,
                                                const vw_output *output);
VW_API VW_MUST_CHECK vw_status vw_report_tune(const vw_tune_report *report,
                                              const vw_report_form *form, const vw_output *output);
VW_API VW_MUST_CHECK vw_status vw_report_diff(const vw_diff_report *report,
                                              const vw_report_form *form, const vw_output *output);

/* One line if nothing is worse. `form->other_file` is the baseline. */
VW_API VW_MUST_CHECK vw_status vw_report_check(const vw_check_report *check,
                                               const vw_report_form *form, const vw_output *output);

/* Commands and code are never wrapped. */
VW_API VW_MUST_CHECK vw_status vw_report_plan(const vw_plan *plan, const vw_report_form *form,
                                              const vw_output *output);

VW_API VW_MUST_CHECK vw_status vw_report_plan_scaled(const vw_plan_scaled *scaled,
                                                     const vw_report_form *form,
                                                     const vw_output *output);

/* The built-in models and cards. */
VW_API VW_MUST_CHECK vw_status vw_report_plan_known(const vw_report_form *form,
                                                    const vw_output *output);

/* Commands and code are never wrapped, however narrow the form. */
VW_API VW_MUST_CHECK vw_status vw_report_doctor(const vw_diagnosis *diagnosis,
                                                const vw_report_form *form,
                                                const vw_output *output);

/* `form->file` is the folder, as the user wrote it: the printed commands use it. */
VW_API VW_MUST_CHECK vw_status vw_report_ranks(const vw_ranks_report *report,
                                               const vw_report_form *form, const vw_output *output);

/* Many jobs, worst first. form->most_rows of each table. */
VW_API VW_MUST_CHECK vw_status vw_report_fleet(const vw_fleet_report *report,
                                               const vw_report_form *form, const vw_output *output);

/* The same as a page of HTML, complete in itself. */
VW_API VW_MUST_CHECK vw_status vw_report_fleet_page(const vw_fleet_report *report,
                                                    const vw_output *output);

/* The setting for many jobs. form->most_rows of each table; CSV has the settings. */
VW_API VW_MUST_CHECK vw_status vw_report_fleet_tune(const vw_fleet_tuning *tuning,
                                                    const vw_report_form *form,
                                                    const vw_output *output);

/* ---- a machine ------------------------------------------------------------------------------- */

/* What is notable about a row of a machine. */
typedef enum vw_row_note_kind {
    VW_NOTE_OTHER_VERSION,
    VW_NOTE_BUSY,
    VW_NOTE_LEAK,
    VW_NOTE_OUT_OF_MEMORY,
    VW_NOTE_RETRIES,
    VW_NOTE_SILENT,
    VW_NOTE_INPUT_BOUND,
    VW_NOTE_SPILLED,
    VW_NOTE_IDLE,
    VW_NOTE_PARKED,
    VW_NOTE_KIND_COUNT
} vw_row_note_kind;

typedef struct vw_row_note {
    vw_row_note_kind kind;
    bool is_urgent; /* it will end the job, or has ended it */
    char word[24];  /* for a table: "leak: full in 812"; ASCII */
    char text[128]; /* as a sentence, without a full stop; ASCII */
} vw_row_note;

/* Stores the notes that apply, most urgent first, and returns their number. They contain numbers of
 * a page, but none of its texts. */
VW_API size_t vw_row_notes(const vw_machine_row *row, const vw_job_figures *figures,
                           vw_row_note notes[VW_NOTE_KIND_COUNT]);

/* GPUs, jobs and other processes in `now`, with the rates since `before`, which may be NULL. Only
 * what belongs to `process`, unless that is 0. */
VW_API VW_MUST_CHECK vw_status vw_report_top(const vw_machine *before, const vw_machine *now,
                                             long process, const vw_report_form *form,
                                             const vw_output *output);

/* Copies `text` so that it is safe to show: '?' replaces control characters, invalid bytes and,
 * without `has_utf8`, everything that is not ASCII. Cut at `most_columns`, or when `out` is full.
 * Returns the number of columns. */
VW_API size_t vw_show_text(const char *text, bool has_utf8, size_t most_columns, char *out,
                           size_t out_bytes);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_REPORT_H */
