/* rank_parts.h - what the files of this folder share.
 *
 * ranks.c finds the files, opens one after the other and keeps an *account* of each recording and
 * of each rank's *story* (all of its texts, rank_text.c): figures and short copies, never the
 * recording itself. rank_recording.c and rank_account.c fill the accounts, rank_merge.c makes one
 * hr_rank of all accounts of a rank, and rank_compare.c and rank_differences.c hold the ranks
 * against each other. */
#ifndef HR_RANKS_RANK_PARTS_H
#define HR_RANKS_RANK_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/ranks.h"
#include "base/arena.h"
#include "base/string_table.h"
#include "ranks/rank_text.h"

/* A line of the program, of any rank. */
typedef struct hr__site {
    const hr_frame *where; /* the arena's, or NULL */
    const char *category;  /* static */
} hr__site;

/* All lines that were met, once each. */
typedef struct hr__site_table {
    hr__string_table keys; /* the id is the place in `sites` */
    hr__site *sites;       /* owned */
    size_t capacity;
} hr__site_table;

typedef struct hr__site_bytes {
    uint32_t site;
    uint64_t bytes;
} hr__site_bytes;

/* What one recording, or a rank's texts, came to. */
typedef struct hr__account {
    hr_rank shown;
    bool is_recording;
    size_t order; /* of its first file */
    int64_t last_time_us;
    const hr__site_bytes *sites; /* the arena's */
    size_t site_count;
    const hr_setting *settings; /* the arena's */
    size_t setting_count;
    hr_diagnosis *diagnosis; /* owned; NULL = none */
} hr__account;

typedef struct hr__accounts {
    hr__account *accounts; /* owned */
    size_t count, capacity;
} hr__accounts;

/* Everything that is gathered. */
typedef struct hr__ranks_work {
    hr__arena *arena; /* the report's */
    const hr_ranks_options *options;
    hr_doctor_options doctor;
    hr__arena key_arena;
    hr__site_table sites;
    hr__accounts accounts;
    hr__stories stories;
    hr_ranks_report *report;
} hr__ranks_work;

/* An account with nothing known in it. */
hr__account hr__account_of(uint64_t rank);

/* HR_ERR_HOST_MEMORY; then the diagnosis of `account` is freed. */
HR_MUST_CHECK hr_status hr__accounts_add(hr__accounts *accounts, const hr__account *account);
void hr__accounts_deinit(hr__accounts *accounts);

/* A copy that lives as long as the report; NULL for NULL. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__ranks_keep(hr__ranks_work *work, const char *text, const char **out);

__attribute__((format(printf, 2, 3))) HR_MUST_CHECK hr_status hr__ranks_note(hr__ranks_work *work,
                                                                             const char *format,
                                                                             ...);

/* Fills the verdict of `account` from a diagnosis, and keeps that: it is the account's from here,
 * also on failure. */
HR_MUST_CHECK hr_status hr__account_take_diagnosis(hr__ranks_work *work, hr__account *account,
                                                   hr_diagnosis *diagnosis);

/* Examines an open recording. `path` is the arena's. */
HR_MUST_CHECK hr_status hr__account_recording(hr__ranks_work *work, const hr_recording *recording,
                                              const char *path, hr__account *account);

/* Judges a story. `*has_something`: an error about memory or steps were in it. */
HR_MUST_CHECK hr_status hr__account_story(hr__ranks_work *work, hr__story *story,
                                          hr__account *account, bool *has_something);

/* From steps and their bytes, in order: 0 where it does not grow, NaN where there are too few. */
HR_MUST_CHECK hr_status hr__growth_per_step(const double *steps, const double *bytes, size_t count,
                                            bool is_peak, double *out);

/* Makes report->ranks, ->unassigned, ->missing and ->unread of the accounts, and `*mains`, of each
 * rank the account of its recording, or NULL: the caller's, freed with hr__host_free(). */
HR_MUST_CHECK hr_status hr__ranks_merge(hr__ranks_work *work, const hr__account ***mains);

/* Fills the rest of the report. `mains` as above. */
HR_MUST_CHECK hr_status hr__ranks_compare(hr__ranks_work *work, const hr__account *const *mains);

#endif /* HR_RANKS_RANK_PARTS_H */
