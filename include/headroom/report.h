/* report.h - what analysis.h, doctor.h, plan.h, ranks.h and watch.h found, as text for people or as
 * JSON for programs.
 *
 * JSON is one object on one line, with "schema": 1; what is not known is null; sizes are bytes. Its
 * fields are documented in the manual page of the command of the same name, and stay.
 *
 * Link with -lheadroom-analysis. */
#ifndef HEADROOM_REPORT_H
#define HEADROOM_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "headroom/analysis.h"
#include "headroom/doctor.h"
#include "headroom/output.h" /* hr_output: where it goes */
#include "headroom/plan.h"
#include "headroom/ranks.h"
#include "headroom/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How it looks. All zero: plain ASCII, 80 columns. */
typedef struct hr_report_form {
    size_t struct_size; /* sizeof(hr_report_form) */
    bool is_json;
    bool has_colour;
    bool has_utf8;
    unsigned width_columns; /* 0 = 80; less than 40 counts as 40, the doctor goes down to 20 */
    size_t most_rows;       /* of a list of users or changes; 0 = 10, SIZE_MAX = all */
    bool has_stacks;        /* text: the innermost frames below each user; JSON has them anyway */
    const char *file;       /* what it is about, as its user wrote it; NULL = not named */
    const char *other_file; /* of diff: the second */
} hr_report_form;

/* Writes a name as one word of a shell's, in quotes where it needs them. false: `write` ended it.
 */
HR_API bool hr_write_shell_word(const char *word, const hr_output *output);

/* Each: HR_ERR_FILE if `write` ended it, HR_ERR_HOST_MEMORY. `form` may be NULL. */
HR_API HR_MUST_CHECK hr_status hr_report_stats(const hr_recording_stats *stats,
                                               const hr_report_form *form, const hr_output *output);
HR_API HR_MUST_CHECK hr_status hr_report_verify(const hr_verify_result *result,
                                                const hr_report_form *form,
                                                const hr_output *output);
HR_API HR_MUST_CHECK hr_status hr_report_replay(const hr_replay_report *report,
                                                const hr_report_form *form,
                                                const hr_output *output);
HR_API HR_MUST_CHECK hr_status hr_report_tune(const hr_tune_report *report,
                                              const hr_report_form *form, const hr_output *output);
HR_API HR_MUST_CHECK hr_status hr_report_diff(const hr_diff_report *report,
                                              const hr_report_form *form, const hr_output *output);

/* What is to be typed is never wrapped. */
HR_API HR_MUST_CHECK hr_status hr_report_plan(const hr_plan *plan, const hr_report_form *form,
                                              const hr_output *output);

HR_API HR_MUST_CHECK hr_status hr_report_plan_scaled(const hr_plan_scaled *scaled,
                                                     const hr_report_form *form,
                                                     const hr_output *output);

/* The models and cards that are built in. */
HR_API HR_MUST_CHECK hr_status hr_report_plan_known(const hr_report_form *form,
                                                    const hr_output *output);

/* What is to be typed is never wrapped, however narrow the form. */
HR_API HR_MUST_CHECK hr_status hr_report_doctor(const hr_diagnosis *diagnosis,
                                                const hr_report_form *form,
                                                const hr_output *output);

/* `form->file` is the folder, as its user wrote it: the commands to type begin with it. */
HR_API HR_MUST_CHECK hr_status hr_report_ranks(const hr_ranks_report *report,
                                               const hr_report_form *form, const hr_output *output);

/* ---- a machine ------------------------------------------------------------------------------- */

/* What is worth saying of a row of a machine. */
typedef enum hr_row_note_kind {
    HR_NOTE_OTHER_VERSION,
    HR_NOTE_BUSY,
    HR_NOTE_LEAK,
    HR_NOTE_OUT_OF_MEMORY,
    HR_NOTE_RETRIES,
    HR_NOTE_SILENT,
    HR_NOTE_INPUT_BOUND,
    HR_NOTE_SPILLED,
    HR_NOTE_IDLE,
    HR_NOTE_KIND_COUNT
} hr_row_note_kind;

typedef struct hr_row_note {
    hr_row_note_kind kind;
    bool is_urgent; /* it will end the job, or tells of an end */
    char word[24];  /* "leak: full in 812", for a table; ASCII */
    char text[128]; /* the same as a sentence, without a full stop; ASCII */
} hr_row_note;

/* Fills in what applies, most urgent first, and returns how many. Nothing in them is from a page
 * but numbers. */
HR_API size_t hr_row_notes(const hr_machine_row *row, const hr_job_figures *figures,
                           hr_row_note notes[HR_NOTE_KIND_COUNT]);

/* GPUs, jobs and other processes at the time of `now`, with the rates since `before`, which may be
 * NULL. Only what belongs to `process`, unless that is 0. */
HR_API HR_MUST_CHECK hr_status hr_report_top(const hr_machine *before, const hr_machine *now,
                                             long process, const hr_report_form *form,
                                             const hr_output *output);

/* Copies `text` fit to be shown: '?' for what would steer a terminal, for bytes that are no
 * character and, without `has_utf8`, for what is not ASCII; cut at `most_columns` or where `out`
 * is full. Returns the columns it takes. */
HR_API size_t hr_show_text(const char *text, bool has_utf8, size_t most_columns, char *out,
                           size_t out_bytes);

#ifdef __cplusplus
}
#endif
#endif /* HEADROOM_REPORT_H */
