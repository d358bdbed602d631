/* bench_live.c - what a page costs who writes it, and who reads it.
 *
 * Prints one line of CSV per case: what, how many, median nanoseconds of one. `put` is all fields
 * of a device, as the library's own thread puts them five times a second; `step` is one entry of
 * the log; `read` is every page of a folder, each with two devices and a full log. `look` is one
 * look at a pool, which is all that an allocating thread could ever wait for. Pages are in a folder
 * of their own in shared memory. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "vramwise/vramwise.h"
#include "vramwise/watch.h"
#include "base/clock.h"
#include "pool/pool.h"

enum { BATCHES = 21, PUTS = 10000, READS = 20, MOST_PAGES = 64, STEPS = 512 };

static char folder[] = "/dev/shm/vramwise-bench-XXXXXX";

static void must(vw_status status)
{
    if (status != VW_OK) {
        fprintf(stderr, "bench_live: %s: %s\n", vw_status_name(status), vw_last_error());
        exit(3);
    }
}

static int compare(const void *left, const void *right)
{
    double one = *(const double *)left, other = *(const double *)right;
    return (one > other) - (one < other);
}

/* Runs batches of `count` times `body`, and prints the median of a time. */
static void measure(const char *what, int how_many, uint64_t count, void (*body)(void *context),
                    void *context)
{
    double times[BATCHES];
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t began_ns = vw__clock_monotonic_ns();
        for (uint64_t i = 0; i < count; i++)
            body(context);
        times[batch] = (double)(vw__clock_monotonic_ns() - began_ns) / (double)count;
    }
    qsort(times, BATCHES, sizeof *times, compare);
    printf("%s,%d,%.0f\n", what, how_many, times[BATCHES / 2]);
}

static void put(void *page)
{
    static uint64_t values[VW_LIVE_FIELD_COUNT];
    values[0]++;
    must(vw_live_page_put(page, 0, "card", values, VW_LIVE_FIELD_COUNT));
}

static void step(void *page)
{
    static uint64_t number;
    number++;
    must(vw_live_page_step(page, 0, number, number, number));
}

static void read_all(void *context)
{
    vw_jobs *jobs = NULL;
    must(vw_jobs_read(folder, &jobs));
    if (jobs->job_count != *(const size_t *)context)
        exit(4);
    vw_jobs_free(jobs);
}

static void look(void *listing)
{
    vw__listing_sample sample;
    vw__listing_read(listing, &sample);
}

static vw_live_page *make_page(void)
{
    vw_live_page *page = NULL;
    must(vw_live_page_create(folder, NULL, &page));
    for (int device = 0; device < 2; device++)
        for (uint64_t i = 1; i <= STEPS; i++)
            must(vw_live_page_step(page, device, i, i, i));
    return page;
}

static void measure_look(void)
{
    const vw_pool_options options = {.struct_size = sizeof options, .is_unlisted = true};
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    must(vw_simulated_device_create(NULL, &device));
    must(vw_pool_create(device, &options, &pool));
    measure("look", 1, PUTS, look, &pool->listing);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
}

int main(void)
{
    vw_live_page *pages[MOST_PAGES];
    size_t count = 1;
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 3;
    }
    printf("what,how_many,median_ns\n");
    pages[0] = make_page();
    measure("put", VW_LIVE_FIELD_COUNT, PUTS, put, pages[0]);
    measure("step", 1, PUTS, step, pages[0]);
    measure_look();
    measure("read", 1, READS, read_all, &count);
    for (; count < MOST_PAGES; count++)
        pages[count] = make_page();
    measure("read", MOST_PAGES, READS, read_all, &count);
    for (size_t i = 0; i < MOST_PAGES; i++)
        vw_live_page_destroy(pages[i]);
    return rmdir(folder) == 0 ? 0 : 5;
}
