/* rank_units.h - the work on a job's files, cut into units whose results can be kept.
 *
 * A unit is one file, or all texts of the job together, since the texts of a rank are one story.
 * Its result is a *record*: bytes that say what the files came to. Whoever has the records of all
 * units has the report, and need not see the files: so the units of a job can be examined in any
 * order, by several processes, on several machines. */
#ifndef VW_RANKS_RANK_UNITS_H
#define VW_RANKS_RANK_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/ranks.h"
#include "base/byte_buffer.h"
#include "parse/byte_source.h"
#include "ranks/rank_files.h"

/* The files of a job, and what only all their names together say. */
typedef struct vw__ranks_job_list {
    const char *folder; /* NULL: the paths are whole */
    size_t found_bytes; /* of the folder, at its end: a name that was found in one */
    vw__rank_files files;
    bool is_local_known; /* torchrun's numbers are ranks: there is one run of it */
    size_t array_tasks;  /* of Slurm's arrays: so many jobs the files are of, where there are any */
} vw__ranks_job_list;

/* Fills in what the names say. */
void vw__ranks_job_list_judge(vw__ranks_job_list *list);

/* The path by which a file is opened. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__ranks_job_list_path(const vw__ranks_job_list *list, size_t place,
                                                vw__byte_buffer *path);

/* Opens a file of the list. Whoever wrote the list may not own the file: it must be a plain file,
 * or a link that is safe to follow (`is_found` of byte_source.h). */
VW_MUST_CHECK vw_status vw__ranks_job_list_open(const vw__ranks_job_list *list, size_t place,
                                                vw__byte_source **out);

/* Words for a failure to open or read a file, without the file's name, which they may begin with:
 * whoever shows them shows that, too. A part of `words`. */
const char *vw__ranks_job_list_words(const vw__ranks_job_list *list, size_t place,
                                     const char *words);

/* The unit of the texts. Every job has it, even one without texts: its record also says which files
 * the list leaves out. The other units are files that are not named like a log, by their place. */
#define VW__RANKS_UNIT_TEXTS SIZE_MAX

/* The stories of dozens of ranks, which are allowed whatever the limit is. */
#define VW__RANKS_LEAST_TEXTS_BYTES (UINT64_C(32) << 20)

/* What reading a recording may take; all open stories together may take as much. */
typedef struct vw__ranks_unit_memory {
    uint64_t limit_bytes; /* 0: as vw__reading_limit_bytes() says */
    bool may_get_more;    /* the caller can try again with more */
} vw__ranks_unit_memory;

/* Appends the record of one unit. A file that cannot be read has a record that says so.
 * `*may_change`: the reason is not in the file (memory, permissions), so the same file may be
 * readable later.
 *
 * VW_ERR_HOST_MEMORY       more memory is needed; with may_get_more also where the limit is too low
 * VW_ERR_INVALID_ARGUMENT  an unknown version of PyTorch */
VW_MUST_CHECK vw_status vw__ranks_unit_examine(const vw__ranks_job_list *list, size_t unit,
                                               const vw_ranks_options *options,
                                               vw__ranks_unit_memory memory,
                                               vw__byte_buffer *record, bool *may_change);

/* True for failures whose reason is not in the file: memory (a limit is UNSUPPORTED), permissions.
 */
bool vw__ranks_unit_may_change(vw_status status);

typedef struct vw__ranks_record {
    const void *bytes;
    size_t size_bytes;
} vw__ranks_record;

/* Makes the report of a job from the records of its units, in any order. Unlike vw_ranks_examine()
 * it makes one of files that are all unreadable. What it holds is taken from `*left_bytes`.
 *
 * VW_ERR_CORRUPT_FILE  a record is damaged
 * VW_ERR_UNSUPPORTED   it would hold more than is left
 * VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__ranks_units_join(const vw__ranks_record *records, size_t count,
                                             uint64_t *left_bytes, vw_ranks_report **out);

#endif /* VW_RANKS_RANK_UNITS_H */
