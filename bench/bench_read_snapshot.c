/* bench_read_snapshot.c - how fast a recording becomes a model, and a report, beside Python's own
 * reader.
 *
 * For each file named (else each recording of the folder VRAMWISE_CORPUS, else the ones that the
 * tests have) the bytes are decompressed into memory, then read from there several times over.
 * Where there is a python3, it reads the same bytes with pickle.loads() in the same run, as often;
 * and the program `vramwise`, built beside this one, runs `vramwise stats` on them, as often: the
 * promise is that a report is there long before Python has read the file. Prints one line of CSV
 * per file: name, megabytes of plain pickle, events, median milliseconds, megabytes per second,
 * megabytes of the finished model, the most host memory held at once; Python's median and how many
 * times longer that is; the program's and how many times longer than that Python takes; and the
 * same two in processor time, which a busy machine distorts less.
 *
 * With --once FILE it reads the file once and says nothing: for tools that count instructions,
 *
 *   valgrind --tool=callgrind --callgrind-out-file=/dev/null bench_read_snapshot --once FILE */
#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host_memory.h"
#include "parse/torch_snapshot_read.h"

enum { TURNS = 7 };

static void must(vw_status status, const char *path)
{
    if (status != VW_OK) {
        fprintf(stderr, "bench_read_snapshot: %s: %s\n", path, vw_last_error());
        exit(3);
    }
}

typedef struct plain_bytes {
    uint8_t *bytes; /* from malloc() */
    size_t size_bytes;
} plain_bytes;

static plain_bytes load(const char *path)
{
    plain_bytes all = {NULL, 0};
    vw__byte_source *source;
    must(vw__byte_source_open(path, NULL, &source), path);
    for (;;) {
        const uint8_t *window;
        size_t window_bytes;
        must(vw__byte_source_peek(source, 1, &window, &window_bytes), path);
        if (window_bytes == 0)
            break;
        all.bytes = realloc(all.bytes, all.size_bytes + window_bytes);
        if (all.bytes == NULL)
            exit(3);
        memcpy(all.bytes + all.size_bytes, window, window_bytes);
        all.size_bytes += window_bytes;
        vw__byte_source_take(source, window_bytes);
    }
    vw__byte_source_close(source);
    return all;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

typedef struct outcome {
    double milliseconds;
    size_t event_count;
    uint64_t model_bytes;
    uint64_t most_bytes; /* held at once, by us */
} outcome;

static uint64_t most_held_bytes;

/* The source calls it now and then. */
static bool note_memory(void *context, uint64_t read_bytes, uint64_t file_bytes)
{
    uint64_t held_bytes = vw__host_memory_get_use().in_use_bytes;
    (void)context, (void)read_bytes, (void)file_bytes;
    most_held_bytes = held_bytes > most_held_bytes ? held_bytes : most_held_bytes;
    return true;
}

static outcome read_with_ours(const plain_bytes *all, const char *path)
{
    const vw__byte_source_options options = {.progress = note_memory};
    double milliseconds[TURNS];
    outcome result = {0};
    most_held_bytes = 0;
    for (size_t i = 0; i < TURNS; i++) {
        vw__byte_source *source;
        vw__model *model;
        vw__snapshot_encoding encoding;
        uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
        uint64_t begin_ns = vw__clock_monotonic_ns();
        must(vw__byte_source_open_memory(all->bytes, all->size_bytes, &options, &source), path);
        must(vw__snapshot_read(source, 0, &model, &encoding), path);
        milliseconds[i] = (double)(vw__clock_monotonic_ns() - begin_ns) / 1e6;
        vw__byte_source_close(source);
        result.event_count = model->event_count;
        result.model_bytes = vw__host_memory_get_use().in_use_bytes - before_bytes;
        vw__model_destroy(model);
    }
    result.milliseconds = median(milliseconds, TURNS);
    result.most_bytes = most_held_bytes;
    return result;
}

/* Others read a plain file. The name is the caller's, to unlink. */
static void write_plain(const plain_bytes *all, char *path)
{
    int file = mkstemp(path);
    FILE *stream = file >= 0 ? fdopen(file, "wb") : NULL;
    if (stream == NULL || fwrite(all->bytes, 1, all->size_bytes, stream) != all->size_bytes ||
        fclose(stream) != 0) {
        fprintf(stderr, "bench_read_snapshot: cannot write %s\n", path);
        exit(3);
    }
}

typedef struct run_time {
    double milliseconds; /* on the clock; 0 where there is no such program */
    double cpu_milliseconds;
} run_time;

/* Medians. */
static run_time read_with_python(const char *path)
{
    static const char program[] = "import pickle, sys, time\n"
                                  "data = open(sys.argv[1], 'rb').read()\n"
                                  "wall, cpu = [], []\n"
                                  "for i in range(int(sys.argv[2])):\n"
                                  "    begin, used = time.perf_counter(), time.process_time()\n"
                                  "    value = pickle.loads(data)\n"
                                  "    wall.append(time.perf_counter() - begin)\n"
                                  "    cpu.append(time.process_time() - used)\n"
                                  "    del value\n"
                                  "print(*(sorted(t)[len(t) // 2] * 1000 for t in (wall, cpu)))\n";
    char command[2048];
    run_time time = {0, 0};
    snprintf(command, sizeof command, "python3 -c \"%s\" %s %d 2>/dev/null", program, path, TURNS);
    FILE *answer = popen(command, "r");
    if (answer != NULL) {
        if (fscanf(answer, "%lf %lf", &time.milliseconds, &time.cpu_milliseconds) != 2)
            time = (run_time){0, 0};
        pclose(answer);
    }
    return time;
}

static double milliseconds_of(struct timeval time)
{
    return (double)time.tv_sec * 1e3 + (double)time.tv_usec / 1e3;
}

/* Runs `program stats path`, its report thrown away. false: it cannot be run, or fails. */
static bool run_stats(const char *program, const char *path, run_time *time)
{
    struct rusage use;
    int ending;
    uint64_t begin_ns = vw__clock_monotonic_ns();
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        execl(program, program, "stats", path, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || wait4(child, &ending, 0, &use) != child)
        return false;
    time->milliseconds = (double)(vw__clock_monotonic_ns() - begin_ns) / 1e6;
    time->cpu_milliseconds = milliseconds_of(use.ru_utime) + milliseconds_of(use.ru_stime);
    return WIFEXITED(ending) && WEXITSTATUS(ending) == 0;
}

static run_time report_with_ours(const char *program, const char *path)
{
    double milliseconds[TURNS], cpu_milliseconds[TURNS];
    for (size_t i = 0; i < TURNS; i++) {
        run_time time;
        if (!run_stats(program, path, &time))
            return (run_time){0, 0};
        milliseconds[i] = time.milliseconds;
        cpu_milliseconds[i] = time.cpu_milliseconds;
    }
    return (run_time){median(milliseconds, TURNS), median(cpu_milliseconds, TURNS)};
}

/* Nothing where it is not known. */
static void print_number(double number)
{
    if (number > 0)
        printf(",%.1f", number);
    else
        printf(",");
}

static void measure(const char *path, const char *program)
{
    char plain_path[] = "/tmp/bench_read_snapshot_XXXXXX";
    plain_bytes all = load(path);
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    double megabytes = (double)all.size_bytes / 1e6;
    write_plain(&all, plain_path);
    outcome ours = read_with_ours(&all, path);
    run_time python = read_with_python(plain_path);
    run_time stats = report_with_ours(program, plain_path);
    unlink(plain_path);
    printf("%s,%.1f,%zu,%.1f,%.0f,%.1f,%.1f", name, megabytes, ours.event_count, ours.milliseconds,
           megabytes / ours.milliseconds * 1e3, (double)ours.model_bytes / 1e6,
           (double)ours.most_bytes / 1e6);
    print_number(python.milliseconds);
    print_number(python.milliseconds / ours.milliseconds);
    print_number(stats.milliseconds);
    print_number(stats.milliseconds > 0 ? python.milliseconds / stats.milliseconds : 0);
    print_number(python.cpu_milliseconds);
    print_number(stats.cpu_milliseconds);
    print_number(stats.cpu_milliseconds > 0 ? python.cpu_milliseconds / stats.cpu_milliseconds : 0);
    printf("\n");
    fflush(stdout);
    free(all.bytes);
}

static int is_recording(const struct dirent *entry)
{
    return strstr(entry->d_name, ".pickle") != NULL;
}

static void measure_folder(const char *folder, const char *program)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_recording, alphasort);
    if (count <= 0)
        fprintf(stderr, "bench_read_snapshot: no recordings in %s\n", folder);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        measure(path, program);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static void read_once(const char *path)
{
    vw__byte_source *source;
    vw__model *model;
    vw__snapshot_encoding encoding;
    must(vw__byte_source_open(path, NULL, &source), path);
    must(vw__snapshot_read(source, 0, &model, &encoding), path);
    vw__byte_source_close(source);
    vw__model_destroy(model);
}

int main(int argc, char **argv)
{
    const char *folder = getenv("VRAMWISE_CORPUS");
    char program[4096];
    if (argc == 3 && strcmp(argv[1], "--once") == 0) {
        read_once(argv[2]);
        return 0;
    }
    snprintf(program, sizeof program, "%s", argv[0]);
    char *beside = strdup(dirname(program));
    snprintf(program, sizeof program, "%s/../vramwise", beside);
    free(beside);
    /* Otherwise the C library changes its ways after the first large free, and every turn but the
     * first is unlike what a program sees that reads one file. */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    printf("name,mb,events,median_ms,mb_per_s,model_mb,most_mb,python_ms,times_faster,stats_ms,"
           "stats_times_faster,python_cpu_ms,stats_cpu_ms,stats_cpu_times_faster\n");
    for (int i = 1; i < argc; i++)
        measure(argv[i], program);
    if (argc == 1)
        measure_folder(folder != NULL ? folder : VW_BENCH_RECORDINGS, program);
    return 0;
}
