/* rank_parts.h - what the files of this folder share.
 *
 * ranks.c finds the files, opens one after the other and keeps an *account* of each recording and
 * of each rank's *story* (all of its texts, rank_text.c): figures and short copies, never the
 * recording itself. rank_recording.c and rank_account.c fill the accounts, rank_merge.c makes one
 * vw_rank of all accounts of a rank, and rank_compare.c and rank_differences.c hold the ranks
 * against each other. */
#ifndef VW_RANKS_RANK_PARTS_H
#define VW_RANKS_RANK_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/ranks.h"
#include "base/arena.h"
#include "base/string_table.h"
#include "ranks/rank_text.h"

/* A line of the program, of any rank. */
typedef struct vw__site {
    const vw_frame *where; /* the arena's, or NULL */
    const char *category;  /* static */
} vw__site;

/* All lines that were met, once each. */
typedef struct vw__site_table {
    vw__string_table keys; /* the id is the place in `sites` */
    vw__site *sites;       /* owned */
    size_t capacity;
} vw__site_table;

typedef struct vw__site_bytes {
    uint32_t site;
    uint64_t bytes;
} vw__site_bytes;

/* What one recording, or a rank's texts, came to. */
typedef struct vw__account {
    vw_rank shown;
    bool is_recording;
    size_t order; /* of its first file */
    int64_t last_time_us;
    const vw__site_bytes *sites; /* the arena's */
    size_t site_count;
    const vw_setting *settings; /* the arena's */
    size_t setting_count;
    vw_diagnosis *diagnosis; /* owned; NULL = none */
} vw__account;

typedef struct vw__accounts {
    vw__account *accounts; /* owned */
    size_t count, capacity;
} vw__accounts;

/* Everything that is gathered. */
typedef struct vw__ranks_work {
    vw__arena *arena; /* the report's */
    const vw_ranks_options *options;
    vw_doctor_options doctor;
    vw__arena key_arena;
    vw__site_table sites;
    vw__accounts accounts;
    vw__stories stories;
    vw_ranks_report *report;
} vw__ranks_work;

/* An account with nothing known in it. */
vw__account vw__account_of(uint64_t rank);

/* VW_ERR_HOST_MEMORY; then the diagnosis of `account` is freed. */
VW_MUST_CHECK vw_status vw__accounts_add(vw__accounts *accounts, const vw__account *account);
void vw__accounts_deinit(vw__accounts *accounts);

/* A copy that lives as long as the report; NULL for NULL. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__ranks_keep(vw__ranks_work *work, const char *text, const char **out);

__attribute__((format(printf, 2, 3))) VW_MUST_CHECK vw_status vw__ranks_note(vw__ranks_work *work,
                                                                             const char *format,
                                                                             ...);

/* Fills the verdict of `account` from a diagnosis, and keeps that: it is the account's from here,
 * also on failure. */
VW_MUST_CHECK vw_status vw__account_take_diagnosis(vw__ranks_work *work, vw__account *account,
                                                   vw_diagnosis *diagnosis);

/* Examines an open recording. `path` is the arena's. */
VW_MUST_CHECK vw_status vw__account_recording(vw__ranks_work *work, const vw_recording *recording,
                                              const char *path, vw__account *account);

/* Judges a story. `*has_something`: an error about memory or steps were in it. */
VW_MUST_CHECK vw_status vw__account_story(vw__ranks_work *work, vw__story *story,
                                          vw__account *account, bool *has_something);

/* Makes report->ranks, ->unassigned, ->missing and ->unread of the accounts, and `*mains`, of each
 * rank the account of its recording, or NULL: the caller's, freed with vw__host_free(). */
VW_MUST_CHECK vw_status vw__ranks_merge(vw__ranks_work *work, const vw__account ***mains);

/* Fills the rest of the report. `mains` as above. */
VW_MUST_CHECK vw_status vw__ranks_compare(vw__ranks_work *work, const vw__account *const *mains);

#endif /* VW_RANKS_RANK_PARTS_H */
