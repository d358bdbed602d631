/* rank_parts.h - what the files of this folder share.
 *
 * rank_job.c opens one file after the other and keeps an *account* of each recording and of each
 * rank's *story* (all of its texts, rank_text.c): figures and short copies, never the recording
 * itself. rank_account.c fills the accounts, rank_merge.c makes one vw_rank of all accounts of a
 * rank, rank_compare.c compares the ranks. rank_record.c writes accounts down and reads them back,
 * so that the files of one job can be examined by several processes (rank_units.h). */
#ifndef VW_RANKS_RANK_PARTS_H
#define VW_RANKS_RANK_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/ranks.h"
#include "base/arena.h"
#include "base/string_table.h"
#include "ranks/rank_text.h"
#include "ranks/rank_units.h"

/* A line of the program, of any rank. */
typedef struct vw__ranks_site {
    const vw_frame *where; /* the arena's, or NULL */
    const char *category;  /* static, or the arena's */
} vw__ranks_site;

/* All lines that were met, once each. */
typedef struct vw__ranks_site_table {
    vw__string_table keys; /* the id is the place in `sites` */
    vw__ranks_site *sites; /* owned */
    size_t capacity;
} vw__ranks_site_table;

typedef struct vw__ranks_site_bytes {
    uint32_t site;
    uint64_t bytes;
} vw__ranks_site_bytes;

/* What one recording, or a rank's texts, came to. */
typedef struct vw__ranks_account {
    vw_rank shown;
    bool is_recording;
    size_t order;                      /* of its first file */
    const vw__ranks_site_bytes *sites; /* the arena's */
    size_t site_count;
    const vw_setting *settings; /* the arena's */
    size_t setting_count;
} vw__ranks_account;

typedef struct vw__ranks_accounts {
    vw__ranks_account *accounts; /* owned */
    size_t count, capacity;
} vw__ranks_accounts;

/* Everything that is gathered. */
typedef struct vw__ranks_work {
    vw__arena *arena; /* the report's */
    vw_ranks_options options;
    vw_doctor_options doctor;
    vw__arena scratch; /* ends with the work */
    vw__ranks_site_table sites;
    vw__ranks_accounts accounts;
    vw__ranks_stories stories;
    vw_ranks_report *report;
} vw__ranks_work;

/* Begins the work on a new, empty report; `options` may be NULL. After vw__ranks_work_end() the
 * report is the caller's. VW_ERR_INVALID_ARGUMENT: an unknown version of PyTorch.
 * VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__ranks_work_begin(vw__ranks_work *work, const vw_ranks_options *options);
void vw__ranks_work_end(vw__ranks_work *work);

/* Makes the report of all that was gathered. `files` are the arena's, in their order. */
VW_MUST_CHECK vw_status vw__ranks_conclude(vw__ranks_work *work, const vw_rank_file *files,
                                           size_t file_count);

/* ---- the files of one job --------------------------------------------------------------------
 */

typedef struct vw__ranks_job {
    vw__ranks_work *work;
    const vw__ranks_job_list *list;
    vw__ranks_unit_memory memory;
    vw_rank_file *shown; /* the arena's: one for each of the files */
    size_t done_count;
    bool may_change; /* as in vw__ranks_unit_examine() */
} vw__ranks_job;

/* Fills `shown`. */
VW_MUST_CHECK vw_status vw__ranks_job_begin(vw__ranks_job *job);

/* Notes what the list leaves out. */
VW_MUST_CHECK vw_status vw__ranks_job_note(vw__ranks_job *job);

/* Each adds accounts to the work and fills in `shown`: one file; all that are named like logs; all
 * of them. */
VW_MUST_CHECK vw_status vw__ranks_job_examine_file(vw__ranks_job *job, size_t place);
VW_MUST_CHECK vw_status vw__ranks_job_examine_logs(vw__ranks_job *job);
VW_MUST_CHECK vw_status vw__ranks_job_examine_all(vw__ranks_job *job);

/* ---- accounts --------------------------------------------------------------------------------
 */

/* An account with nothing known in it. */
vw__ranks_account vw__ranks_account_of(uint64_t rank);

/* VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__ranks_accounts_add(vw__ranks_accounts *accounts,
                                               const vw__ranks_account *account);
void vw__ranks_accounts_deinit(vw__ranks_accounts *accounts);

/* The number of a line of the program, which is added where it is new. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__ranks_site_find(vw__ranks_work *work, const vw_frame *where,
                                            const char *category, uint32_t *site);

/* A copy that lives as long as the report; NULL for NULL. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__ranks_keep(vw__ranks_work *work, const char *text, const char **out);

__attribute__((format(printf, 2, 3))) VW_MUST_CHECK vw_status vw__ranks_note(vw__ranks_work *work,
                                                                             const char *format,
                                                                             ...);

/* Examines an open recording. `path` is the arena's. */
VW_MUST_CHECK vw_status vw__ranks_account_recording(vw__ranks_work *work,
                                                    const vw_recording *recording, const char *path,
                                                    vw__ranks_account *account);

/* Judges a story. `*has_something`: an error about memory or steps were in it. */
VW_MUST_CHECK vw_status vw__ranks_account_story(vw__ranks_work *work, vw__ranks_story *story,
                                                vw__ranks_account *account, bool *has_something);

/* Makes report->ranks, ->unassigned, ->missing and ->unread of the accounts, and `*mains`, of each
 * rank the account of its recording, or NULL: the caller's, freed with vw__host_free(). */
VW_MUST_CHECK vw_status vw__ranks_merge(vw__ranks_work *work, const vw__ranks_account ***mains);

/* Fills the rest of the report. `mains` as above. */
VW_MUST_CHECK vw_status vw__ranks_compare(vw__ranks_work *work,
                                          const vw__ranks_account *const *mains);

/* ---- writing accounts down -------------------------------------------------------------------
 */

/* Appends all that was gathered about the files whose `shown` is filled in. */
void vw__ranks_record_write(const vw__ranks_work *work, const vw_rank_file *files,
                            size_t file_count, vw__byte_buffer *record);

/* Adds what was written to the work; `files` is a list of vw_rank_file that grows. Texts are
 * copied. VW_ERR_CORRUPT_FILE, VW_ERR_HOST_MEMORY. */
typedef struct vw__ranks_record_files {
    vw_rank_file *files; /* owned */
    size_t count, capacity;
} vw__ranks_record_files;
VW_MUST_CHECK vw_status vw__ranks_record_read(vw__ranks_work *work, const void *bytes,
                                              size_t size_bytes, vw__ranks_record_files *files);

/* ---- who is out of line ----------------------------------------------------------------------
 *
 * The one rule, for peaks, events and lines of the program. Ranks of one job do the same work, so
 * most of them are alike, and the few that are not are what to look at. Means do not help: one rank
 * with twice the memory moves them. So:
 *
 *   median     of the values; of two in the middle the lower, so that it is a rank's own
 *   deviation  the median of |value - median|; of two in the middle the higher, so that where half
 *              of the ranks hold one amount and half another (two stages of a pipeline) neither
 *              half is out of line
 *   limit      3 x 1.4826 x deviation (three standard deviations, were they spread normally), but
 *              no less than a floor, since equal ranks have no deviation and still differ a little
 *
 * A value is out of line if it lies further from the median than the limit. With fewer than three
 * values nobody can tell which is the odd one: the deviation is 0, and ranks are judged only from
 * VW__RANKS_SPREAD_FEWEST on. Two ranks can still be compared line by line.
 *
 *   floors   peaks: a twentieth of the median, and 16 MiB    events: a fifth, and 1000
 *            lines of the program: a hundredth of the median peak of live bytes, and 4 MiB */
enum { VW__RANKS_SPREAD_FEWEST = 3 };

typedef struct vw__ranks_spread {
    size_t count;
    uint64_t median; /* VW_UNKNOWN without values */
    double limit;
} vw__ranks_spread;

typedef struct vw__ranks_spread_floor {
    uint64_t share_of; /* VW_UNKNOWN: of the median */
    double share;
    double least;
} vw__ranks_spread_floor;

#define VW__RANKS_SPREAD_OF_PEAKS ((vw__ranks_spread_floor){VW_UNKNOWN, 0.05, 16.0 * 1024 * 1024})
#define VW__RANKS_SPREAD_OF_EVENTS ((vw__ranks_spread_floor){VW_UNKNOWN, 0.2, 1000})
#define VW__RANKS_SPREAD_OF_SITES(peak_bytes)                                                      \
    ((vw__ranks_spread_floor){(peak_bytes), 0.01, 4.0 * 1024 * 1024})

/* Sorts `values`; none of them is VW_UNKNOWN. */
vw__ranks_spread vw__ranks_spread_of(uint64_t *values, size_t count, vw__ranks_spread_floor floor);

bool vw__ranks_is_out_of_line(const vw__ranks_spread *spread, uint64_t value);

#endif /* VW_RANKS_RANK_PARTS_H */
