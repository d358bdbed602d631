/* rank_name.h - whose file it is, by its name and its folders.
 *
 * In this order:
 *
 *   the name      headroom-oom-train-812-rank3.pickle, run.rank3.pid9.pickle, snap_rank_3.pickle,
 *                 log-task3.txt, mem_r3.pickle; slurm-4711_3.out and slurm-4711-3.out
 *   torchrun      <run>/attempt_0/3/stderr.log, of `torchrun --log-dir --redirects`: the number is
 *                 that of the process on its machine
 *   a folder      rank3/memory.pickle: where the word comes first
 *
 * A number of more than six digits is no rank. */
#ifndef HR_RANKS_RANK_NAME_H
#define HR_RANKS_RANK_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hr__rank_name {
    bool is_known;
    bool is_local; /* torchrun's: counted on one machine */
    uint64_t rank;
    size_t run_bytes; /* torchrun's: how much of the path is the run's folder */
} hr__rank_name;

/* `path` is below the folder that was given. */
hr__rank_name hr__rank_of_path(const char *path);

/* Is it called what a log is called: train.log, slurm-4711.out, error.json, stdout,
 * run.steps.jsonl, each also with .gz, .xz or .zst behind? */
bool hr__is_log_name(const char *path);

/* Is it what `headroom run` writes when memory runs out? */
bool hr__is_failure_name(const char *path);

#endif /* HR_RANKS_RANK_NAME_H */
