/* bench_alloc.c - what an allocation and its free cost.
 *
 * The patterns of alloc_patterns.h on the simulated device, statistics on, with one thread and with
 * eight; peer_torch.cpp runs the same ones through PyTorch's own allocator, for a ratio on the same
 * machine. Prints one line of CSV per case: name, parameter, settings, threads, operations, median
 * and 99th percentile of the nanoseconds per operation over batches (with several threads: wall
 * time over all operations), and at the end the host bytes one live block costs.
 *
 * With --engine NAME the pool has that engine instead of "torch", and its name stands where
 * settings do. With --cuda the device is the first GPU instead of the simulated one; its memory is
 * taken and mapped, never touched, and settings end in "on cuda". With --live the pool publishes
 * what it holds (VRAMWISE_LIVE_DIR), which is otherwise left out. With --single only the native
 * cases of one thread run. With --count CASE OPERATIONS it runs that case alone, for
 * count_instructions.sh: the difference of two runs with different numbers of operations is what an
 * operation takes. */
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/vramwise.h"
#include "base/host_memory.h" /* vw__host_memory_get_use */

#include "alloc_patterns.h"

enum { MOST_THREADS = 8 };

/* Set by the command line, then read-only. */
static const char *engine_name = "torch";
static bool is_on_cuda;
static bool is_live;

static void must(vw_status status)
{
    if (__builtin_expect(status != VW_OK, 0)) {
        fprintf(stderr, "bench_alloc: %s: %s\n", vw_status_name(status), vw_last_error());
        exit(3);
    }
}

typedef struct worker {
    vw_pool *pool;
    const alloc_pattern *pattern;
    uint64_t operations; /* per batch */
    uint64_t cursor;
    pthread_barrier_t *start;
    vw_device_ptr live[PATTERN_MOST_LIVE];
    double batch_ns[PATTERN_BATCHES]; /* per operation */
    pattern_draws draws;
} worker;

static void begin(worker *w, vw_pool *pool, const alloc_pattern *pattern, uint64_t operations,
                  uint64_t seed)
{
    w->pool = pool;
    w->pattern = pattern;
    w->operations = operations;
    w->cursor = 0;
    pattern_draw(&w->draws, pattern, seed);
    for (size_t i = 0; i < pattern->live_count; i++)
        must(vw_alloc(pool, w->draws.first_sizes[i], 0, &w->live[i]));
}

static void end(worker *w)
{
    for (size_t i = 0; i < w->pattern->live_count; i++)
        must(vw_free(w->pool, w->live[i]));
}

static void run_batch(worker *w)
{
    vw_pool *pool = w->pool;
    if (w->pattern->size_bytes != 0) {
        for (uint64_t i = 0; i < w->operations; i++) {
            vw_device_ptr address;
            must(vw_alloc(pool, w->pattern->size_bytes, 0, &address));
            must(vw_free(pool, address));
        }
        return;
    }
    for (uint64_t i = 0; i < w->operations; i++) {
        uint64_t at = w->cursor++ % PATTERN_DRAWS;
        vw_device_ptr *place = &w->live[w->draws.places[at]];
        must(vw_free(pool, *place));
        must(vw_alloc(pool, w->draws.sizes[at], 0, place));
    }
}

static void *run_thread(void *argument)
{
    worker *w = argument;
    run_batch(w); /* warm up */
    pthread_barrier_wait(w->start);
    for (int i = 0; i < PATTERN_BATCHES; i++) {
        uint64_t begin_ns = pattern_now_ns();
        run_batch(w);
        w->batch_ns[i] = (double)(pattern_now_ns() - begin_ns) / (double)w->operations;
    }
    return NULL;
}

static vw_device *make_device(void)
{
    const vw_simulated_options options = {
        .struct_size = sizeof options,
        .capacity_bytes = UINT64_C(1) << 40,
        .total_bytes = UINT64_C(150109880320),
    };
    vw_device *device;
    must(is_on_cuda ? vw_cuda_device_open(0, &device)
                    : vw_simulated_device_create(&options, &device));
    return device;
}

/* Nobody has work on any stream: live data may be copied whenever the engine likes. */
static bool grant_safe_point(void *context)
{
    (void)context;
    return true;
}

static void end_safe_point(void *context)
{
    (void)context;
}

static vw_pool *make_pool(vw_device **device, const char *conf)
{
    const vw_pool_options pool_options = {
        .struct_size = sizeof pool_options,
        .engine = engine_name,
        .conf = conf,
        .safe_point = {.enter = grant_safe_point, .leave = end_safe_point},
        .is_unlisted = !is_live,
    };
    vw_pool *pool;
    *device = make_device();
    must(vw_pool_create(*device, &pool_options, &pool));
    return pool;
}

/* What the column of settings says. */
static const char *settings_name(const char *conf)
{
    static char name[128];
    bool is_torch = strcmp(engine_name, "torch") == 0;
    snprintf(name, sizeof name, "%s%s",
             !is_torch         ? engine_name
             : conf[0] != '\0' ? conf
                               : "native",
             is_on_cuda ? " on cuda" : "");
    return name;
}

static void measure(const alloc_pattern *pattern, const char *conf, unsigned threads,
                    uint64_t operations)
{
    static worker workers[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    pthread_barrier_t start;
    vw_device *device;
    vw_pool *pool = make_pool(&device, conf);
    pthread_barrier_init(&start, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        begin(&workers[i], pool, pattern, operations, i);
        workers[i].start = &start;
        pthread_create(&ids[i], NULL, run_thread, &workers[i]);
    }
    pthread_barrier_wait(&start);
    uint64_t begin_ns = pattern_now_ns();
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    double median =
        (double)(pattern_now_ns() - begin_ns) / ((double)operations * PATTERN_BATCHES * threads);
    double late = median;
    if (threads == 1) {
        qsort(workers[0].batch_ns, PATTERN_BATCHES, sizeof(double), pattern_by_value);
        median = workers[0].batch_ns[PATTERN_BATCHES / 2];
        late = workers[0].batch_ns[PATTERN_BATCHES * 99 / 100];
    }
    char parameter[32];
    if (pattern->size_bytes != 0)
        snprintf(parameter, sizeof parameter, "%" PRIu64, pattern->size_bytes);
    else
        snprintf(parameter, sizeof parameter, "%zu live", pattern->live_count);
    printf("%s,%s,%s,%u,%" PRIu64 ",%.1f,%.1f\n", pattern->name, parameter, settings_name(conf),
           threads, operations * PATTERN_BATCHES * threads, median, late);
    fflush(stdout);
    for (unsigned i = 0; i < threads; i++)
        end(&workers[i]);
    must(vw_pool_check(pool));
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    pthread_barrier_destroy(&start);
}

/* What one live block costs in host memory, everything included. */
static double host_bytes_per_block(const char *conf)
{
    enum { COUNT = 100000 };
    vw_device *device;
    vw_pool *pool = make_pool(&device, conf);
    vw_device_ptr address;
    must(vw_alloc(pool, 512, 0, &address));
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    for (int i = 0; i < COUNT; i++)
        must(vw_alloc(pool, 512, 0, &address));
    uint64_t after_bytes = vw__host_memory_get_use().in_use_bytes;
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return (double)(after_bytes - before_bytes) / COUNT;
}

/* For callgrind: one case, a given number of operations, no clean-up. */
static int count_one(const char *which, const char *operations, const char *conf)
{
    static worker w;
    size_t index = (size_t)strtoul(which, NULL, 10);
    vw_device *device;
    if (index >= PATTERN_COUNT)
        return 2;
    begin(&w, make_pool(&device, conf), &alloc_patterns[index], 2000, 0);
    run_batch(&w);
    w.operations = strtoull(operations, NULL, 10);
    run_batch(&w);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_alloc [--engine NAME] [--cuda] [--live] "
                    "[--single | --count CASE OPERATIONS [CONF]]\n");
    return 2;
}

static void measure_all(bool is_single)
{
    static const char *const confs[] = {"", "expandable_segments:True"};
    size_t conf_count = is_single || strcmp(engine_name, "torch") != 0 ? 1 : 2;
    unsigned most_threads = is_single ? 1 : MOST_THREADS;
    if (!is_single)
        printf("name,parameter,settings,threads,operations,median_ns,p99_ns\n");
    for (size_t c = 0; c < conf_count; c++)
        for (size_t i = 0; i < PATTERN_COUNT; i++)
            for (unsigned threads = 1; threads <= most_threads; threads *= MOST_THREADS)
                measure(&alloc_patterns[i], confs[c], threads, threads == 1 ? 20000 : 4000);
    for (size_t c = 0; c < conf_count && !is_single; c++)
        printf("host_bytes_per_live_block,,%s,1,100000,%.1f,\n", settings_name(confs[c]),
               host_bytes_per_block(confs[c]));
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"engine", required_argument, NULL, 'e'}, {"cuda", no_argument, NULL, 'd'},
        {"live", no_argument, NULL, 'l'},         {"single", no_argument, NULL, 's'},
        {"count", no_argument, NULL, 'c'},        {NULL, 0, NULL, 0},
    };
    bool is_single = false, is_counted = false;
    for (int letter; (letter = getopt_long(argc, argv, "+", known, NULL)) != -1;) {
        if (letter == 'e')
            engine_name = optarg;
        else if (letter == 'd')
            is_on_cuda = true;
        else if (letter == 'l')
            is_live = true;
        else if (letter == 's')
            is_single = true;
        else if (letter == 'c')
            is_counted = true;
        else
            return usage();
    }
    int left = argc - optind;
    if (is_counted && !is_single && (left == 2 || left == 3))
        return count_one(argv[optind], argv[optind + 1], left == 3 ? argv[optind + 2] : "");
    if (is_counted || left != 0)
        return usage();
    measure_all(is_single);
    return 0;
}
