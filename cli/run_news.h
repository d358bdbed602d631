/* run_news.h - what the processes of a run have reported.
 *
 * A message is one datagram: its kind, then fields as name=value, with a zero byte between. They
 * come from python/vramwise/_watch.py, which lists what happens when. Whatever does not look like
 * one is ignored.
 *
 *   oom        rank, device, total, note, text          the first time a process ran out; it begins
 *                                                       to save a snapshot
 *   again                                               another time
 *   writing    path                                     a file that has only begun
 *   file       path, steps                              the snapshot of it, and the step log
 *   unsaved                                             there will be no snapshot of it
 *   error      rank, steps, note, text                  an uncaught one about memory
 *   recording  path                                     where --record will write
 *   recorded   path                                     it is written
 *   lost                                                it is not; trouble says why
 *   snapshot   path, steps                              one that was asked for: see run_leak.h
 *   trouble    text                                     something of ours did not work
 */
#ifndef VRAMWISE_CLI_RUN_NEWS_H
#define VRAMWISE_CLI_RUN_NEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_NEWS_UNKNOWN UINT64_MAX

enum { RUN_NEWS_MOST_KEPT_BYTES = 64 << 20 }; /* of texts; those beyond are not kept */

/* One process. Texts are NULL where nothing was said. */
typedef struct run_process {
    long id;
    long rank;               /* -1 = none */
    uint64_t failure_number; /* 1: the first process that failed; 0: it did not */
    long device;             /* -1 = not said */
    uint64_t total_bytes;    /* of the card; RUN_NEWS_UNKNOWN */
    uint64_t later_count;    /* failures after the first */
    char *failure;           /* the first failure in PyTorch's words */
    char *error;             /* the error that ended it, with its traceback */
    char *part;              /* the file that is being written */
    char *file;              /* the snapshot; absolute */
    char *steps;             /* the step log */
    char *recording;         /* --record's file */
    char *snapshot;          /* that was asked for; absolute */
    char *note;              /* what of the history was not kept, and why */
    bool is_saving;          /* its snapshot is not there yet, and will be */
    bool is_recorded;
    bool is_lost;  /* it could not be recorded */
    bool is_named; /* in the report: see run_report_rest() */
} run_process;

typedef struct run_news {
    run_process *processes; /* in the order in which they were first heard of */
    size_t process_count, process_capacity;
    char **troubles; /* each once */
    size_t trouble_count, trouble_capacity;
    uint64_t failure_count; /* processes that failed */
    size_t kept_bytes;      /* of texts of processes */
} run_news;

void run_news_init(run_news *news);
void run_news_deinit(run_news *news);

/* Takes one message of `size_bytes`; bytes[size_bytes] must be writable. Answers the text of a
 * trouble that was not heard before, owned by `news`; NULL otherwise. */
const char *run_news_take(run_news *news, char *bytes, size_t size_bytes);

/* The process of that number; NULL: nothing was heard of it. */
const run_process *run_news_find(const run_news *news, long id);

/* The process to report first: one that ran out, or else one with an error about memory.
 * NULL: neither. */
const run_process *run_news_first_failure(const run_news *news);

/* All failures after the first of each process. */
uint64_t run_news_later_failures(const run_news *news);

#endif /* VRAMWISE_CLI_RUN_NEWS_H */
