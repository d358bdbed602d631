/* job_folder.h - a folder with a job's files, made for a test and removed after it. */
#ifndef VW_TESTS_JOB_FOLDER_H
#define VW_TESTS_JOB_FOLDER_H

#include <ftw.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_here.h"

typedef struct job_folder {
    char path[64];
} job_folder;

static inline void job_folder_make(job_folder *job)
{
    (void)snprintf(job->path, sizeof job->path, "/tmp/vramwise-job-XXXXXX");
    assert_non_null(mkdtemp(job->path));
}

static inline int job_folder_take(const char *path, const struct stat *found, int kind,
                                  struct FTW *place)
{
    (void)found;
    (void)kind;
    (void)place;
    return remove(path);
}

static inline void job_folder_remove(job_folder *job)
{
    assert_int_equal(nftw(job->path, job_folder_take, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* The path of a file in it; makes the folders on the way. Valid for the next 31 calls. */
static inline const char *job_folder_path(const job_folder *job, const char *name)
{
    static char paths[32][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 32];
    int length = snprintf(path, PATH_MAX, "%s/%s", job->path, name);
    assert_true(length > 0 && length < PATH_MAX);
    for (char *slash = path + strlen(job->path) + 1; (slash = strchr(slash, '/')) != NULL;
         slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    return path;
}

static inline void job_folder_put(const job_folder *job, const char *name, const char *text)
{
    FILE *file = fopen(job_folder_path(job, name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A snapshot with one block for each of two lines of a program, freed again; with `oom_us`, a
 * request failed at that time, else 0. */
typedef struct job_snapshot {
    unsigned first_mib, second_mib;
    int64_t oom_us;
    const char *conf; /* NULL: not recorded */
} job_snapshot;

static inline void job_folder_put_snapshot(const job_folder *job, const char *name,
                                           job_snapshot given)
{
    static char text[8192];
    const unsigned long long mib = 1 << 20, address = 0x7f0000000000ULL;
    const unsigned sizes[] = {given.first_mib, given.second_mib};
    size_t at = (size_t)snprintf(text, sizeof text, "{\"segments\": [], \"device_traces\": [[");
    for (int is_free = 0; is_free < 2; is_free++) {
        for (unsigned i = 0; i < 2; i++) {
            const char *actions[][2] = {{"segment_alloc", "alloc"},
                                        {"free_requested", "free_completed"}};
            for (int k = 0; k < 2; k++)
                at += (size_t)snprintf(
                    text + at, sizeof text - at,
                    "%s{\"action\": \"%s\", \"addr\": %llu, \"size\": %llu, \"stream\": 0, "
                    "\"time_us\": %d, \"frames\": [{\"name\": \"f\", \"filename\": \"train.py\", "
                    "\"line\": %u}]}",
                    is_free + (int)i + k > 0 ? ", " : "", actions[is_free][k],
                    address + (i << 12) * mib, sizes[i] * mib, 1000 + (int)at, 10 + i);
        }
        if (is_free == 0 && given.oom_us != 0)
            at += (size_t)snprintf(text + at, sizeof text - at,
                                   ", {\"action\": \"oom\", \"addr\": 1024, \"size\": 4194304, "
                                   "\"stream\": 0, \"time_us\": %lld, \"frames\": []}",
                                   (long long)given.oom_us);
    }
    for (unsigned i = 0; i < 2; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               ", {\"action\": \"segment_free\", \"addr\": %llu, \"size\": %llu, "
                               "\"stream\": 0, \"time_us\": 90000, \"frames\": []}",
                               address + (i << 12) * mib, sizes[i] * mib);
    at += (size_t)snprintf(text + at, sizeof text - at, "]], \"external_annotations\": []");
    if (given.conf != NULL)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               ", \"allocator_settings\": {\"PYTORCH_CUDA_ALLOC_CONF\": \"%s\"}",
                               given.conf);
    at += (size_t)snprintf(text + at, sizeof text - at, "}");
    assert_true(at < sizeof text);
    job_folder_put(job, name, text);
}

#endif /* VW_TESTS_JOB_FOLDER_H */
