/* report.h - what analysis.h, doctor.h, plan.h, ranks.h and watch.h found, as text for people or as
 * JSON for programs.
 *
 * JSON is one object on one line, with "schema": 1; what is not known is null; sizes are bytes. Its
 * fields are documented in the manual page of the command of the same name, and stay.
 *
 * Link with -lvramwise-analysis. */
#ifndef VRAMWISE_REPORT_H
#define VRAMWISE_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/analysis.h"
#include "vramwise/doctor.h"
#include "vramwise/output.h" /* vw_output: where it goes */
#include "vramwise/plan.h"
#include "vramwise/ranks.h"
#include "vramwise/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How it looks. All zero: plain ASCII, 80 columns. */
typedef struct vw_report_form {
    size_t struct_size; /* sizeof(vw_report_form) */
    bool is_json;
    bool has_colour;
    bool has_utf8;
    unsigned width_columns; /* 0 = 80; less than 40 counts as 40, the doctor goes down to 20 */
    size_t most_rows;       /* of a list of users or changes; 0 = 10, SIZE_MAX = all */
    bool has_stacks;        /* text: the innermost frames below each user; JSON has them anyway */
    const char *file;       /* what it is about, as its user wrote it; NULL = not named */
    const char *other_file; /* of diff: the second */
} vw_report_form;

/* Writes a name as one word of a shell's, in quotes where it needs them. false: `write` ended it.
 */
VW_API bool vw_write_shell_word(const char *word, const vw_output *output);

/* Each: VW_ERR_FILE if `write` ended it, VW_ERR_HOST_MEMORY. `form` may be NULL. */
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

/* What is to be typed is never wrapped. */
VW_API VW_MUST_CHECK vw_status vw_report_plan(const vw_plan *plan, const vw_report_form *form,
                                              const vw_output *output);

VW_API VW_MUST_CHECK vw_status vw_report_plan_scaled(const vw_plan_scaled *scaled,
                                                     const vw_report_form *form,
                                                     const vw_output *output);

/* The models and cards that are built in. */
VW_API VW_MUST_CHECK vw_status vw_report_plan_known(const vw_report_form *form,
                                                    const vw_output *output);

/* What is to be typed is never wrapped, however narrow the form. */
VW_API VW_MUST_CHECK vw_status vw_report_doctor(const vw_diagnosis *diagnosis,
                                                const vw_report_form *form,
                                                const vw_output *output);

/* `form->file` is the folder, as its user wrote it: the commands to type begin with it. */
VW_API VW_MUST_CHECK vw_status vw_report_ranks(const vw_ranks_report *report,
                                               const vw_report_form *form, const vw_output *output);

/* ---- a machine ------------------------------------------------------------------------------- */

/* What is worth saying of a row of a machine. */
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
    VW_NOTE_KIND_COUNT
} vw_row_note_kind;

typedef struct vw_row_note {
    vw_row_note_kind kind;
    bool is_urgent; /* it will end the job, or tells of an end */
    char word[24];  /* "leak: full in 812", for a table; ASCII */
    char text[128]; /* the same as a sentence, without a full stop; ASCII */
} vw_row_note;

/* Fills in what applies, most urgent first, and returns how many. Nothing in them is from a page
 * but numbers. */
VW_API size_t vw_row_notes(const vw_machine_row *row, const vw_job_figures *figures,
                           vw_row_note notes[VW_NOTE_KIND_COUNT]);

/* GPUs, jobs and other processes at the time of `now`, with the rates since `before`, which may be
 * NULL. Only what belongs to `process`, unless that is 0. */
VW_API VW_MUST_CHECK vw_status vw_report_top(const vw_machine *before, const vw_machine *now,
                                             long process, const vw_report_form *form,
                                             const vw_output *output);

/* Copies `text` fit to be shown: '?' for what would steer a terminal, for bytes that are no
 * character and, without `has_utf8`, for what is not ASCII; cut at `most_columns` or where `out`
 * is full. Returns the columns it takes. */
VW_API size_t vw_show_text(const char *text, bool has_utf8, size_t most_columns, char *out,
                           size_t out_bytes);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_REPORT_H */
