/* bench_doctor.c - how long the doctor takes: over a log of 100 MB, and over recordings.
 *
 * Logs are made here, one for each kind of line that makes a scanner stop and look: ordinary ones,
 * ones full of words like "memory", steps with their memory, errors that are none of ours, and
 * reports of running out of memory again and again. The peer is the least that any reader must do:
 * finding the ends of lines in the same bytes with memchr(), in the same run. Recordings are those
 * named (else of the folder VRAMWISE_CORPUS, else the ones that the tests have); their peer is
 * reading them, without judging.
 *
 * Prints one line of CSV for each: name, megabytes (events of a recording), median milliseconds,
 * the peer's, and how many times longer the doctor takes; and by how many megabytes the process has
 * grown, of logs only. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "vramwise/doctor.h"

enum { TURNS = 5, LOG_BYTES = 100 * 1000 * 1000, MOST_LINE_BYTES = 512 };

static void must(vw_status status, const char *what)
{
    if (status != VW_OK) {
        fprintf(stderr, "bench_doctor: %s: %s\n", what, vw_last_error());
        exit(3);
    }
}

static int compare(const void *left, const void *right)
{
    const double *one = left, *other = right;
    return (*one > *other) - (*one < *other);
}

static double median(double *times)
{
    qsort(times, TURNS, sizeof *times, compare);
    return times[TURNS / 2];
}

static long held_kilobytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss : 0;
}

/* ---- logs ------------------------------------------------------------------------------------ */

typedef struct kind_of_line {
    const char *name;
    const char *format; /* with one number, twice at most */
} kind_of_line;

static const kind_of_line kinds[] = {
    {"ordinary", "2026-11-15 08:12:30,123 | INFO | trainer | [rank3]: epoch 4 iter %u loss 0.4711 "
                 "lr 1.0e-4 time 0.32 data 0.01 eta 2:30:11\n"},
    {"words", "2026-11-15 08:12:30 INFO worker %u: GPU memory: 12.3 GiB allocated, 18.1 GiB "
              "reserved, cache holds 1024 MiB\n"},
    {"steps", "step %u: loss 0.4711 memory 3287 MiB\n"},
    {"other errors", "RuntimeError: CUDA error: an illegal memory access was encountered (%u)\n"},
    {"reports", "[rank%u]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 "
                "MiB. GPU 0 has a total capacity of 23.69 GiB of which 391.00 MiB is free. Of the "
                "allocated memory 21.34 GiB is allocated by PyTorch, and 778.24 MiB is reserved by "
                "PyTorch but unallocated.\n"},
};

static size_t write_log(char *log, const kind_of_line *kind)
{
    size_t size = 0;
    for (unsigned i = 0; size + MOST_LINE_BYTES < LOG_BYTES; i++)
        size += (size_t)snprintf(log + size, MOST_LINE_BYTES, kind->format, i);
    return size;
}

static double find_lines(const char *log, size_t size)
{
    uint64_t began = vw__clock_monotonic_ns();
    volatile size_t lines = 0;
    for (const char *here = log, *end = log + size; here < end;) {
        const char *line_end = memchr(here, '\n', (size_t)(end - here));
        if (line_end == NULL)
            break;
        lines = lines + 1;
        here = line_end + 1;
    }
    return (double)(vw__clock_monotonic_ns() - began) / 1e6;
}

static double diagnose_log(const char *log, size_t size)
{
    vw_diagnosis *diagnosis = NULL;
    uint64_t began = vw__clock_monotonic_ns();
    must(vw_doctor_text(log, size, NULL, &diagnosis), "a log");
    double time = (double)(vw__clock_monotonic_ns() - began) / 1e6;
    vw_diagnosis_free(diagnosis);
    return time;
}

static void run_logs(void)
{
    char *log = malloc(LOG_BYTES);
    if (log == NULL)
        exit(3);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        double times[TURNS], peers[TURNS];
        size_t size = write_log(log, &kinds[k]);
        long before = held_kilobytes();
        for (int i = 0; i < TURNS; i++) {
            peers[i] = find_lines(log, size);
            times[i] = diagnose_log(log, size);
        }
        double time = median(times), peer = median(peers);
        printf("log: %s,%.0f,%.0f,%.0f,%.1f,%.1f\n", kinds[k].name, (double)size / 1e6, time, peer,
               time / peer, (double)(held_kilobytes() - before) / 1024);
        fflush(stdout);
    }
    free(log);
}

/* ---- recordings ------------------------------------------------------------------------------ */

static void run_recording(const char *path, const char *name)
{
    double times[TURNS], peers[TURNS];
    uint64_t events = 0;
    for (int i = 0; i < TURNS; i++) {
        vw_recording *recording = NULL;
        vw_recording_stats *stats = NULL;
        vw_diagnosis *diagnosis = NULL;
        const vw_stats_options few = {
            .struct_size = sizeof few, .most_usages = 1, .without_summary = true};
        uint64_t began = vw__clock_monotonic_ns();
        must(vw_recording_open(path, NULL, &recording), path);
        peers[i] = (double)(vw__clock_monotonic_ns() - began) / 1e6;
        must(vw_doctor_recording(recording, NULL, &diagnosis), path);
        times[i] = (double)(vw__clock_monotonic_ns() - began) / 1e6;
        must(vw_recording_stats_make(recording, &few, &stats), path);
        events = stats->device_count != 0 ? stats->devices[0].event_count : 0;
        vw_recording_stats_free(stats);
        vw_diagnosis_free(diagnosis);
        vw_recording_close(recording);
    }
    double time = median(times), peer = median(peers);
    printf("%s,%llu events,%.0f,%.0f,%.1f,\n", name, (unsigned long long)events, time, peer,
           time / peer);
    fflush(stdout);
}

static void run_folder(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (strstr(entries[i]->d_name, ".native.pickle") != NULL)
            run_recording(path, entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

int main(int argc, char **argv)
{
    const char *corpus = getenv("VRAMWISE_CORPUS");
    printf("name,megabytes_or_events,median_ms,peer_ms,ratio,held_mb\n");
    run_logs();
    for (int i = 1; i < argc; i++)
        run_recording(argv[i], argv[i]);
    if (argc < 2)
        run_folder(corpus != NULL && corpus[0] != '\0' ? corpus : VW_BENCH_RECORDINGS);
    return 0;
}
