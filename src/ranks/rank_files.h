/* rank_files.h - the files of a job's folder, and whose they are.
 *
 * Folders are walked in the order of names, so that every machine sees the same list. Only files
 * are taken: a pipe in the folder would block the reader. A link to a file counts as the file; a
 * link to a folder is not followed, so that the walk cannot go in circles. Names that begin with a
 * dot are left out: they are files being written, or other programs' own. Depth, names and files
 * are bounded; the result says what was left out.
 *
 * Whose a file is, its name and folders say, in this order:
 *
 *   the name      vramwise-oom-train-812-rank3.pickle, run.rank3.pid9.pickle, snap_rank_3.pickle,
 *                 log-task3.txt, mem_r3.pickle; slurm-4711-3.out, slurm-4711_5-3.out of an array
 *   torchrun      <run>/attempt_0/3/stderr.log, of `torchrun --log-dir --redirects`: the number of
 *                 the process on its machine
 *   a folder      rank3/memory.pickle: where the word comes first
 *
 * A number of more than six digits is not a rank. Neither is the 5 of slurm-4711_5.out, which is
 * how sbatch names the output of an array's task: a job of its own, with ranks from 0 on. */
#ifndef VW_RANKS_RANK_FILES_H
#define VW_RANKS_RANK_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "base/arena.h"

typedef struct vw__ranks_name {
    bool is_known;
    bool is_local; /* torchrun's: counted on one machine */
    uint64_t rank;
    size_t run_bytes;  /* torchrun's: how much of the path is the run's folder */
    const char *array; /* in the path: "4711_5", the job and its task in an array; NULL: none */
    size_t array_bytes;
} vw__ranks_name;

/* `path` is below the folder that was given. */
vw__ranks_name vw__ranks_of_path(const char *path);

/* Is it called what a log is called: train.log, slurm-4711.out, error.json, stdout,
 * run.steps.jsonl, each also with .gz, .xz or .zst behind? */
bool vw__ranks_is_log_name(const char *path);

/* Is it what `vramwise run` writes when memory runs out? */
bool vw__ranks_is_failure_name(const char *path);

enum {
    VW__RANK_FILES_DEEPEST = 8,         /* folders below the one that was given */
    VW__RANK_FILES_MOST_NAMES = 1 << 16 /* that are looked at, of whatever kind */
};

typedef struct vw__ranks_path {
    const char *path; /* below the folder; the arena's */
    vw__ranks_name name;
} vw__ranks_path;

typedef struct vw__rank_files {
    vw__ranks_path *paths; /* owned */
    size_t count, capacity;
    size_t name_count;   /* seen so far */
    size_t link_count;   /* to folders: not followed */
    size_t other_count;  /* pipes, sockets, devices; what could not be looked at */
    bool has_more_files; /* than were asked for */
    bool has_more_names; /* than are looked at; those that were seen are taken */
    bool has_deeper;     /* folders below the deepest */
} vw__rank_files;

/* How many are taken, and how many names are looked at. */
typedef struct vw__rank_files_limits {
    size_t files, names;
} vw__rank_files_limits;

/* VW_ERR_FILE: the folder itself cannot be read. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__rank_files_find(const char *folder, vw__rank_files_limits most,
                                            vw__arena *arena, vw__rank_files *out);
void vw__rank_files_deinit(vw__rank_files *files);

/* Makes room for one element more in a list of `count`, which may move. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__ranks_make_room(void **list, size_t count, size_t *capacity,
                                            size_t element_bytes);

#endif /* VW_RANKS_RANK_FILES_H */
