/* bench_paged.c - how much memory the engine "vramwise" needs beside PyTorch's, and what it costs.
 *
 * Replays recordings under PyTorch's defaults, with expandable segments and in each mode of our own
 * engine, on a simulated card, and writes one table of Markdown for each question: peak reserved /
 * peak live; the share of the recorded time that the driver takes after the first quarter of the
 * events; the longest stall; and with --smallest-card, which takes a hundred times as long, the
 * smallest card / peak live. Below each are the mean and the worst.
 *
 *   bench_paged [--smallest-card] [--empty-cache never] [--beside NAME]... [--without NAME]...
 *               [FILE or FOLDER]...
 *
 * --empty-cache never: what the driver costs and the longest stall are those of a second replay, in
 * which the recorded calls of empty_cache() are left out, and the tables say so. A few such calls
 * outweigh all else that an engine does of its own accord; what the calls themselves cost is in the
 * tables without this option.
 *
 * --beside NAME: in the tables, but in no mean. --without NAME: not in the mean of the driver's
 * share, since the recording is too short for one. NAME is the file's up to its first dot. Of a
 * folder the files are taken that end in .native.pickle.xz. Without any: those of the folder that
 * VRAMWISE_CORPUS names, else the ones that the tests have.
 *
 * A run that does not complete is shown as such, and counts in no mean: below the tables it is said
 * how many there were. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vramwise/analysis.h"

enum { MOST_FILES = 256, MOST_NAMES = 64, MOST_NAME_BYTES = 64, POLICIES = 5 };

static const vw_replay_run policies[POLICIES] = {{.policy = "native"},
                                                 {.policy = "expandable"},
                                                 {.policy = "vramwise"},
                                                 {.policy = "vramwise:rescue"},
                                                 {.policy = "vramwise:tight"}};

typedef struct subject {
    char name[MOST_NAME_BYTES];
    uint64_t peak_live_bytes;
    vw_replay_result results[POLICIES]; /* their strings are not used */
    vw_replay_result timed[POLICIES];   /* what driver and stalls are of: the same, or without
                                           empty_cache() */
} subject;

typedef struct name_list {
    const char *names[MOST_NAMES];
    size_t count;
} name_list;

typedef struct bench {
    subject subjects[MOST_FILES];
    size_t subject_count;
    name_list beside, without;
    bool finds_smallest_card;
    bool skips_empty_cache;
} bench;

static void must(bool is_right, const char *what, const char *why)
{
    if (is_right)
        return;
    fprintf(stderr, "bench_paged: %s: %s\n", what, why);
    exit(3);
}

static bool is_in(const name_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->names[i], name) == 0)
            return true;
    return false;
}

/* ---- replaying ------------------------------------------------------------------------------- */

static void replay(subject *one, const char *path, const vw_recording *recording,
                   const vw_replay_options *options, vw_replay_result results[POLICIES])
{
    vw_replay_report *report = NULL;
    must(vw_recording_replay(recording, options, &report) == VW_OK, path, vw_last_error());
    one->peak_live_bytes = report->peak_live_bytes;
    memcpy(results, report->results, POLICIES * sizeof *results);
    vw_replay_report_free(report);
}

static void replay_file(bench *all, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    vw_recording *recording = NULL;
    vw_replay_options options = {
        .struct_size = sizeof options,
        .runs = policies,
        .run_count = POLICIES,
        .device = VW_BUSIEST_DEVICE,
        .card_bytes = UINT64_C(1) << 45, /* also where the recording shows a card */
        .find_smallest_card = all->finds_smallest_card,
    };
    must(all->subject_count < MOST_FILES, path, "more recordings than there is room for");
    subject *next = &all->subjects[all->subject_count++];
    (void)snprintf(next->name, sizeof next->name, "%.*s", (int)strcspn(name, "."), name);
    must(vw_recording_open(path, NULL, &recording) == VW_OK, path, vw_last_error());
    replay(next, path, recording, &options, next->results);
    memcpy(next->timed, next->results, sizeof next->timed);
    if (all->skips_empty_cache) {
        options.empty_cache = VW_EMPTY_CACHE_NEVER;
        options.find_smallest_card = false;
        replay(next, path, recording, &options, next->timed);
    }
    vw_recording_close(recording);
}

static bool is_native(const char *name)
{
    static const char ending[] = ".native.pickle.xz"; /* one of each workload is enough */
    size_t length = strlen(name), end = strlen(ending);
    return length > end && strcmp(name + length - end, ending) == 0;
}

static void replay_folder(bench *all, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    must(count >= 0, folder, "cannot be read");
    for (int i = 0; i < count; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (is_native(entries[i]->d_name))
            replay_file(all, path);
        free(entries[i]);
    }
    free(entries);
}

static void replay_path(bench *all, const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        replay_folder(all, path);
    else
        replay_file(all, path);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* One question: a number of each run, NAN where there is none. */
typedef struct question {
    const char *title;
    double (*answer)(const subject *one, const vw_replay_result *result);
    const char *format;
    bool is_timed;         /* of subject.timed */
    bool is_share_of_time; /* those named by --without are not in the mean */
} question;

static double ratio(const subject *one, const vw_replay_result *result)
{
    (void)one;
    return result->ratio;
}

static double card_ratio(const subject *one, const vw_replay_result *result)
{
    return result->smallest_card_bytes != VW_UNKNOWN && one->peak_live_bytes != 0
               ? (double)result->smallest_card_bytes / (double)one->peak_live_bytes
               : NAN;
}

static double settled_percent(const subject *one, const vw_replay_result *result)
{
    (void)one;
    return result->settled_device_ns != VW_UNKNOWN && result->settled_duration_ns != VW_UNKNOWN
               ? 100.0 * (double)result->settled_device_ns / (double)result->settled_duration_ns
               : NAN;
}

static double stall_ms(const subject *one, const vw_replay_result *result)
{
    (void)one;
    return (double)result->longest_stall_ns / 1e6;
}

static double answer_of(const question *asked, const subject *one, size_t policy)
{
    const vw_replay_result *result = asked->is_timed ? &one->timed[policy] : &one->results[policy];
    return result->is_complete ? asked->answer(one, result) : NAN;
}

static void print_cell(const question *asked, double value)
{
    if (isnan(value))
        printf(" - |");
    else
        printf(asked->format, value);
}

/* What counts for a policy: their mean, and the largest. */
static void summarise(const bench *all, const question *asked, size_t policy, double *mean,
                      double *worst)
{
    double sum = 0;
    size_t count = 0;
    *worst = NAN;
    for (size_t i = 0; i < all->subject_count; i++) {
        const subject *one = &all->subjects[i];
        double value = answer_of(asked, one, policy);
        if (isnan(value) || is_in(&all->beside, one->name) ||
            (asked->is_share_of_time && is_in(&all->without, one->name)))
            continue;
        sum += value;
        count++;
        *worst = fmax(*worst, value); /* the other, where one is NAN */
    }
    *mean = count != 0 ? sum / (double)count : NAN;
}

static void print_table(const bench *all, const question *asked)
{
    double means[POLICIES], worsts[POLICIES];
    printf("\n## %s%s\n\n| recording |", asked->title,
           asked->is_timed && all->skips_empty_cache ? " (recorded calls of empty_cache() left out)"
                                                     : "");
    for (size_t p = 0; p < POLICIES; p++)
        printf(" %s |", policies[p].policy);
    printf("\n|---|");
    for (size_t p = 0; p < POLICIES; p++)
        printf("---:|");
    for (size_t i = 0; i < all->subject_count; i++) {
        const subject *one = &all->subjects[i];
        bool is_out = is_in(&all->beside, one->name) ||
                      (asked->is_share_of_time && is_in(&all->without, one->name));
        printf("\n| %s%s |", one->name, is_out ? " (not counted)" : "");
        for (size_t p = 0; p < POLICIES; p++)
            print_cell(asked, answer_of(asked, one, p));
    }
    for (size_t p = 0; p < POLICIES; p++)
        summarise(all, asked, p, &means[p], &worsts[p]);
    printf("\n| **mean** |");
    for (size_t p = 0; p < POLICIES; p++)
        print_cell(asked, means[p]);
    printf("\n| **worst** |");
    for (size_t p = 0; p < POLICIES; p++)
        print_cell(asked, worsts[p]);
    printf("\n");
}

static void print_failures(const bench *all)
{
    for (size_t p = 0; p < POLICIES; p++) {
        size_t count = 0;
        for (size_t i = 0; i < all->subject_count; i++)
            count +=
                !all->subjects[i].results[p].is_complete || !all->subjects[i].timed[p].is_complete;
        if (count != 0)
            printf("\n%s: %zu of %zu did not complete on a card without end.\n", policies[p].policy,
                   count, all->subject_count);
    }
}

static void print_tables(const bench *all)
{
    static const question questions[] = {
        {"Peak reserved / peak live", ratio, " %.4f |", false, false},
        {"Driver time after the first quarter of the events, % of the recorded time",
         settled_percent, " %.3f |", true, true},
        {"Longest stall, ms", stall_ms, " %.2f |", true, false},
    };
    static const question smallest = {"Smallest card / peak live", card_ratio, " %.4f |", false,
                                      false};
    printf("# Engine vramwise beside PyTorch's\n\n%zu recordings, replayed on a simulated H200 "
           "without end.\n",
           all->subject_count);
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
        print_table(all, &questions[i]);
    if (all->finds_smallest_card)
        print_table(all, &smallest);
    print_failures(all);
}

/* ---- the command line ------------------------------------------------------------------------ */

static void read_empty_cache(bench *all, const char *when)
{
    must(when != NULL && strcmp(when, "never") == 0, "--empty-cache",
         "never is expected behind it");
    all->skips_empty_cache = true;
}

static void add_name(name_list *list, const char *name)
{
    must(name != NULL, "an option", "a name is expected behind it");
    must(list->count < MOST_NAMES, name, "more names than there is room for");
    list->names[list->count++] = name;
}

int main(int argument_count, char **arguments)
{
    static bench all; /* large for a stack */
    const char *folder = getenv("VRAMWISE_CORPUS");
    const char *paths[MOST_FILES];
    size_t path_count = 0;
    for (int i = 1; i < argument_count; i++) {
        if (strcmp(arguments[i], "--smallest-card") == 0)
            all.finds_smallest_card = true;
        else if (strcmp(arguments[i], "--empty-cache") == 0)
            read_empty_cache(&all, arguments[++i]);
        else if (strcmp(arguments[i], "--beside") == 0)
            add_name(&all.beside, arguments[++i]);
        else if (strcmp(arguments[i], "--without") == 0)
            add_name(&all.without, arguments[++i]);
        else if (path_count < MOST_FILES)
            paths[path_count++] = arguments[i];
    }
    if (path_count == 0)
        paths[path_count++] = folder != NULL ? folder : VW_BENCH_RECORDINGS;
    for (size_t i = 0; i < path_count; i++)
        replay_path(&all, paths[i]);
    print_tables(&all);
    return 0;
}
