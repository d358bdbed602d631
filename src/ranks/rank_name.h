/* rank_name.h - whose file it is, by its name and its folders.
 *
 * In this order:
 *
 *   the name      vramwise-oom-train-812-rank3.pickle, run.rank3.pid9.pickle, snap_rank_3.pickle,
 *                 log-task3.txt, mem_r3.pickle; slurm-4711-3.out, slurm-4711_5-3.out of an array
 *   torchrun      <run>/attempt_0/3/stderr.log, of `torchrun --log-dir --redirects`: the number is
 *                 that of the process on its machine
 *   a folder      rank3/memory.pickle: where the word comes first
 *
 * A number of more than six digits is no rank. Nor is that of slurm-4711_5.out, which is what
 * sbatch calls the output of an array's task: a job of its own, with ranks from 0 on. */
#ifndef VW_RANKS_RANK_NAME_H
#define VW_RANKS_RANK_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vw__rank_name {
    bool is_known;
    bool is_local; /* torchrun's: counted on one machine */
    uint64_t rank;
    size_t run_bytes;  /* torchrun's: how much of the path is the run's folder */
    const char *array; /* in the path: "4711_5", the job and its task in an array; NULL: none */
    size_t array_bytes;
} vw__rank_name;

/* `path` is below the folder that was given. */
vw__rank_name vw__rank_of_path(const char *path);

/* Is it called what a log is called: train.log, slurm-4711.out, error.json, stdout,
 * run.steps.jsonl, each also with .gz, .xz or .zst behind? */
bool vw__is_log_name(const char *path);

/* Is it what `vramwise run` writes when memory runs out? */
bool vw__is_failure_name(const char *path);

#endif /* VW_RANKS_RANK_NAME_H */
