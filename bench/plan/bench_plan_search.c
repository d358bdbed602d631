/* bench_plan_search.c - how long a full search takes, and how much memory.
 *
 * bench_plan_search SEARCH_MD: plans each question in a process of its own, so that the kernel can
 * say what that took at most; once for the search alone, and once with the replays that a plan has
 * beside it. Prints the table and writes it with the machine it is of. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vramwise/plan.h"

enum { ROUNDS = 5 };

typedef struct question {
    const char *words, *model, *card;
    uint64_t batch, sequence, gpus, generate;
    vw_precision precision;
    vw_attention attention;
    vw_plan_mode mode;
} question;

static const question questions[] = {
    {.words = "does not fit", .model = "gpt2", .card = "t4", .batch = 32, .sequence = 1024},
    {.words = "eager attention",
     .model = "gpt2-xl",
     .card = "rtx4090",
     .batch = 16,
     .sequence = 1024,
     .attention = VW_ATTENTION_EAGER},
    {.words = "masked language model",
     .model = "bert-large",
     .card = "t4",
     .batch = 64,
     .sequence = 512},
    {.words = "encoder and decoder", .model = "t5-3b", .card = "t4", .batch = 8, .sequence = 512},
    {.words = "images", .model = "resnet152", .card = "t4", .batch = 512},
    {.words = "4 GPUs",
     .model = "llama-3-8b",
     .card = "rtx4090",
     .batch = 8,
     .sequence = 2048,
     .gpus = 4},
    {.words = "no card is said", .model = "llama-3-8b", .batch = 8, .sequence = 2048},
    {.words = "experts", .model = "mixtral-8x7b", .card = "h100", .batch = 8, .sequence = 2048},
    {.words = "nothing fits", .model = "llama-3-70b", .card = "t4", .batch = 8, .sequence = 2048},
    {.words = "80 layers, 8 GPUs, eager attention",
     .model = "llama-3-70b",
     .card = "h200",
     .batch = 64,
     .sequence = 2048,
     .gpus = 8,
     .attention = VW_ATTENTION_EAGER},
    {.words = "generation of 1000 tokens",
     .model = "llama-3-70b",
     .card = "h200",
     .batch = 64,
     .sequence = 2048,
     .generate = 1000,
     .mode = VW_PLAN_MODE_INFERENCE,
     .precision = VW_PRECISION_BF16},
};
enum { QUESTIONS = sizeof questions / sizeof questions[0] };

typedef struct figures {
    double seconds;     /* the shortest of all rounds */
    double cpu_seconds; /* likewise: less of it is other programs' doing */
    double mib;
    size_t choices;
} figures;

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static vw_plan_settings settings_of(const question *asked)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = asked->batch;
    settings.sequence = asked->sequence;
    settings.gpus = asked->gpus > 0 ? asked->gpus : 1;
    settings.generate = asked->generate;
    settings.precision = asked->precision;
    settings.attention = asked->attention;
    settings.mode = asked->mode;
    settings.card_name = asked->card;
    return settings;
}

/* In the child: opens, plans, and tells through the pipe. */
static int answer(const question *asked, bool has_replay, int to)
{
    const vw_plan_settings settings = settings_of(asked);
    const vw_plan_options options = {.struct_size = sizeof options, .without_replay = !has_replay};
    figures made = {.seconds = now(CLOCK_MONOTONIC), .cpu_seconds = now(CLOCK_PROCESS_CPUTIME_ID)};
    vw_plan_model *model;
    vw_plan *plan;
    if (vw_plan_model_open(asked->model, &model) != VW_OK ||
        vw_plan_make(model, &settings, &options, &plan) != VW_OK) {
        fprintf(stderr, "%s: %s\n", asked->model, vw_last_error());
        return 1;
    }
    made.seconds = now(CLOCK_MONOTONIC) - made.seconds;
    made.cpu_seconds = now(CLOCK_PROCESS_CPUTIME_ID) - made.cpu_seconds;
    made.choices = plan->choice_count;
    return write(to, &made, sizeof made) == (ssize_t)sizeof made ? 0 : 1;
}

static bool ask_once(const question *asked, bool has_replay, figures *out)
{
    int ends[2], status;
    struct rusage used;
    fflush(NULL);
    if (pipe(ends) != 0)
        return false;
    pid_t child = fork();
    if (child == 0)
        _exit(answer(asked, has_replay, ends[1]));
    close(ends[1]);
    bool is_told = child > 0 && read(ends[0], out, sizeof *out) == (ssize_t)sizeof *out;
    close(ends[0]);
    if (child < 0 || wait4(child, &status, 0, &used) != child)
        return false;
    out->mib = (double)used.ru_maxrss / 1024;
    return is_told && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool ask(const question *asked, bool has_replay, figures *out)
{
    figures one;
    for (size_t i = 0; i < ROUNDS; i++) {
        if (!ask_once(asked, has_replay, &one))
            return false;
        if (i == 0)
            *out = one;
        out->seconds = one.seconds < out->seconds ? one.seconds : out->seconds;
        out->cpu_seconds = one.cpu_seconds < out->cpu_seconds ? one.cpu_seconds : out->cpu_seconds;
        out->mib = one.mib > out->mib ? one.mib : out->mib;
    }
    return true;
}

/* "Intel(R) Xeon(R) ...", as /proc/cpuinfo has it. */
static void write_machine(FILE *file)
{
    char line[256] = "", name[256] = "a processor of unknown kind";
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info != NULL && fgets(line, sizeof line, info) != NULL) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && value != NULL) {
            snprintf(name, sizeof name, "%s", value + 2);
            name[strcspn(name, "\n")] = '\0';
            break;
        }
    }
    if (info != NULL)
        fclose(info);
    double load = 0;
    fprintf(file, "%s, %ld cores, Linux, a release build", name, sysconf(_SC_NPROCESSORS_ONLN));
    if (getloadavg(&load, 1) == 1)
        fprintf(file,
                "; a load of %.1f when it began, so that the time on the CPU says more than "
                "that on the clock where this is more than the cores",
                load);
}

static void write_top(FILE *file)
{
    fprintf(file,
            "# How long a search takes\n\n"
            "Made by `make bench-plan`. The shortest of %d runs, and the most memory of any, "
            "as the kernel counts it\n(`ru_maxrss`, with the program itself: some 2 MiB). "
            "Machine: ",
            ROUNDS);
    write_machine(file);
    fprintf(file, ".\n\nA search is bound by 0.2 s and 50 MB. The plan beside it replays its steps "
                  "by three allocators.\n\n"
                  "| model | question | choices | search, ms | on the CPU, ms | MiB | with "
                  "replays, ms | MiB |\n"
                  "|---|---|---:|---:|---:|---:|---:|---:|\n");
}

static bool write_rows(FILE *file)
{
    for (size_t i = 0; i < QUESTIONS; i++) {
        figures search, all;
        if (!ask(&questions[i], false, &search) || !ask(&questions[i], true, &all))
            return false;
        fprintf(file, "| %s | %s | %zu | %.0f | %.0f | %.1f | %.0f | %.1f |\n", questions[i].model,
                questions[i].words, search.choices, search.seconds * 1e3, search.cpu_seconds * 1e3,
                search.mib, all.seconds * 1e3, all.mib);
    }
    return true;
}

static bool show(const char *path)
{
    char line[512];
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        fputs(line, stdout);
    return file != NULL && fclose(file) == 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: bench_plan_search SEARCH_MD\n");
        return 2;
    }
    FILE *file = fopen(argv[1], "w");
    if (file == NULL) {
        perror(argv[1]);
        return 1;
    }
    write_top(file);
    bool is_done = write_rows(file);
    is_done = fclose(file) == 0 && is_done;
    return is_done && show(argv[1]) ? 0 : 1;
}
