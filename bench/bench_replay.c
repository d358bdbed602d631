/* bench_replay.c - how fast a recording is replayed.
 *
 * Plays whole recordings on one thread, under PyTorch's defaults and with expandable segments, and
 * prints one line of CSV each: name, settings, events of the recording, operations of the script,
 * median and slowest nanoseconds of processor time per event over the repetitions, millions of
 * events a second (median). An allocation is one event, its free two. Opening the file and making
 * the script are not in it; setting the pool up and ending it are.
 *
 * Recordings are the arguments; without any, those of the folder that VRAMWISE_CORPUS names, else
 * the ones that the tests have.
 *
 * With --count FILE CONF TIMES it plays one recording so often and measures nothing: run it under
 * callgrind with two different numbers of times, and the difference over the events is the
 * instructions an event takes. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/player.h"
#include "analysis/recording.h"

enum { REPETITIONS = 9 };

static void must(vw_status status, const char *what)
{
    if (status == VW_OK)
        return;
    fprintf(stderr, "bench_replay: %s: %s\n", what, vw_last_error());
    exit(3);
}

/* An opened recording, and its script. */
typedef struct subject {
    vw_recording *recording;
    vw__script script;
} subject;

static subject open_subject(const char *path)
{
    subject opened;
    const vw__model_trace *trace = NULL;
    must(vw_recording_open(path, NULL, &opened.recording), path);
    must(vw__recording_trace(opened.recording->model, VW_BUSIEST_DEVICE, &trace), path);
    must(vw__script_make(opened.recording->model, trace, &opened.script), path);
    return opened;
}

static void close_subject(subject *opened)
{
    vw__script_deinit(&opened->script);
    vw_recording_close(opened->recording);
}

static void play(const vw__script *script, const char *conf)
{
    const vw__player_options options = {
        .torch_version = "2.11", .conf = conf, .capacity_bytes = UINT64_MAX, .fraction = 1.0};
    vw__player player;
    size_t stopped = 0;
    must(vw__player_init(&player, script, &options), conf);
    must(vw__player_play(&player, 0, script->op_count, &stopped), "playing");
    vw__player_deinit(&player);
}

/* Of this thread: other programs on the machine do not count. */
static uint64_t processor_time_ns(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare_times(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

static void measure(const char *name, const vw__script *script, const char *settings,
                    const char *conf)
{
    uint64_t times_ns[REPETITIONS];
    double events = (double)script->trace->event_count;
    play(script, conf); /* warms up */
    for (size_t i = 0; i < REPETITIONS; i++) {
        uint64_t start_ns = processor_time_ns();
        play(script, conf);
        times_ns[i] = processor_time_ns() - start_ns;
    }
    qsort(times_ns, REPETITIONS, sizeof times_ns[0], compare_times);
    double median_ns = (double)times_ns[REPETITIONS / 2];
    printf("%s,%s,%zu,%zu,%.1f,%.1f,%.1f\n", name, settings, script->trace->event_count,
           script->op_count, median_ns / events, (double)times_ns[REPETITIONS - 1] / events,
           events / median_ns * 1000.0);
    (void)fflush(stdout);
}

static void measure_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    subject opened = open_subject(path);
    measure(name, &opened.script, "native", "");
    measure(name, &opened.script, "expandable", "expandable_segments:True");
    close_subject(&opened);
}

static bool is_recording(const char *name)
{
    static const char ending[] = ".native.pickle.xz"; /* one of each workload is enough */
    size_t length = strlen(name), end = strlen(ending);
    return length > end && strcmp(name + length - end, ending) == 0;
}

static int measure_folder(const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0) {
        perror(folder);
        return 3;
    }
    for (int i = 0; i < count; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (is_recording(entries[i]->d_name))
            measure_file(path);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

static int count(const char *path, const char *conf, unsigned long times)
{
    subject opened = open_subject(path);
    for (unsigned long i = 0; i < times; i++)
        play(&opened.script, conf);
    close_subject(&opened);
    return 0;
}

int main(int argument_count, char **arguments)
{
    const char *folder = getenv("VRAMWISE_CORPUS");
    if (argument_count == 5 && strcmp(arguments[1], "--count") == 0)
        return count(arguments[2], arguments[3], strtoul(arguments[4], NULL, 10));
    puts("name,settings,events,operations,median_ns_per_event,slowest_ns_per_event,"
         "million_events_per_second");
    for (int i = 1; i < argument_count; i++)
        measure_file(arguments[i]);
    return argument_count < 2 ? measure_folder(folder != NULL ? folder : VW_BENCH_RECORDINGS) : 0;
}
