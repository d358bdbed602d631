/* bench_top.c - what a frame of `vramwise top` costs with many processes: reading all pages, the
 * figures, notes and trend of each row, the order and the tree, and the widths of the columns. What
 * is drawn after that is a window's lines, however many processes there are.
 *
 * Prints one line of CSV per part: what, how many processes, median microseconds. With an argument,
 * so many frames and nothing else: for counting instructions under valgrind. */
#include <malloc.h> /* mallopt */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vramwise/live.h"
#include "vramwise/watch.h"
#include "base/clock.h"

#include "cli/top_columns.h"
#include "cli/top_history.h"
#include "cli/top_rows.h"

enum { BATCHES = 21, PAGES = 512, JOBS = 8, STEPS = 512, WINDOW_COLUMNS = 80 };

static char folder[] = "/dev/shm/vramwise-bench-XXXXXX";
static top_history history;
static top_rows rows;
static vw_machine *before, *owned, copy;
static const vw_machine *const now = &copy;
static vw_machine_row copies[PAGES];
static vw_live_page *pages[PAGES];

static void must(vw_status status)
{
    if (status != VW_OK) {
        fprintf(stderr, "bench_top: %s: %s\n", vw_status_name(status), vw_last_error());
        exit(3);
    }
}

/* A rank of one of a few jobs, with all its numbers and a full log of steps. */
static vw_live_page *make_page(size_t number)
{
    uint64_t values[VW_LIVE_FIELD_COUNT];
    char job[16];
    vw_live_page *page = NULL;
    snprintf(job, sizeof job, "job-%zu", number % JOBS);
    const vw_live_identity who = {.struct_size = sizeof who,
                                  .program = "train.py",
                                  .job = job,
                                  .rank = (int)(number / JOBS),
                                  .local_rank = -1,
                                  .world_size = PAGES / JOBS};
    must(vw_live_page_create(folder, &who, &page));
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        values[i] = (number + 1) << 20;
    must(vw_live_page_put(page, 0, "NVIDIA H200", values, VW_LIVE_FIELD_COUNT));
    for (uint64_t i = 1; i <= STEPS; i++)
        must(vw_live_page_step(page, 0, i, (number + i) << 20, (number + i) << 21));
    return page;
}

/* The pages are all of this process: in the copy each has a number of its own. */
static void read_machine(void)
{
    vw_machine_free(owned);
    must(vw_machine_read(folder, &owned));
    if (owned->row_count != PAGES)
        exit(4);
    memcpy(copies, owned->rows, sizeof copies);
    for (int i = 0; i < PAGES; i++)
        copies[i].process = 1000 + i;
    copy = *owned;
    copy.rows = copies;
}

/* Every process ends a step between two frames. */
static void step_all(void)
{
    static uint64_t number = STEPS;
    number++;
    for (size_t i = 0; i < PAGES; i++)
        must(vw_live_page_step(pages[i], 0, number, (i + number) << 20, (i + number) << 21));
}

static void make_rows(void)
{
    must(top_rows_fill(&rows, before, now, &history));
}

static void arrange(void)
{
    const top_order order = {top_column_compare, TOP_GPU, false, true};
    top_rows_arrange(&rows, "", &order);
}

static void lay_out(void)
{
    if (top_columns_fit(&rows, WINDOW_COLUMNS).widths[TOP_PID] == 0)
        exit(5);
}

static void frame(void)
{
    read_machine();
    make_rows();
    arrange();
    lay_out();
}

static int compare(const void *left, const void *right)
{
    double one = *(const double *)left, other = *(const double *)right;
    return (one > other) - (one < other);
}

static void measure(const char *what, void (*body)(void))
{
    double times[BATCHES];
    for (int batch = 0; batch < BATCHES; batch++) {
        step_all();
        uint64_t began_ns = vw__clock_monotonic_ns();
        body();
        times[batch] = (double)(vw__clock_monotonic_ns() - began_ns) / 1000;
    }
    qsort(times, BATCHES, sizeof *times, compare);
    printf("%s,%d,%.0f\n", what, PAGES, times[BATCHES / 2]);
}

static void measure_all(void)
{
    printf("what,processes,median_us\n");
    measure("read", read_machine);
    measure("rows", make_rows);
    measure("order", arrange);
    measure("columns", lay_out);
    measure("frame", frame);
}

int main(int argc, char **argv)
{
    if (argc == 1) /* as the program: what is freed is kept; valgrind has no room for it */
        (void)mallopt(M_MMAP_THRESHOLD, 64 << 20);
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 3;
    }
    for (size_t i = 0; i < PAGES; i++)
        pages[i] = make_page(i);
    must(vw_machine_read(folder, &before));
    read_machine();
    if (!top_history_add(&history, now))
        return 3;
    if (argc > 1)
        for (long left = strtol(argv[1], NULL, 10); left > 0; left--)
            step_all(), frame();
    else
        measure_all();
    for (size_t i = 0; i < PAGES; i++)
        vw_live_page_destroy(pages[i]);
    vw_machine_free(before);
    vw_machine_free(owned);
    top_history_free(&history);
    top_rows_free(&rows);
    return rmdir(folder) == 0 ? 0 : 5;
}
