/* gpu_spill_check.c - live memory that leaves a real GPU and comes back: run by hand where there is
 * one.
 *
 * Usage: gpu_spill_check [device index]. Holds more than the pool may have of the GPU, in blocks
 * each filled with a byte of its own; lets them leave, writes to what has left, lets it come back,
 * and looks at every MiB of every block after each. Prints what moved and how long it took. Exit
 * status: 0 all is well, 1 something failed, 77 there is no GPU here, or no handles on the host. */
#include "vramwise/vramwise.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define BLOCK_BYTES (192 * MIB)
#define POOL_BYTES (2048 * MIB) /* of the GPU */
#define SPILL_BYTES (2048 * MIB)

enum { EXIT_SKIPPED = 77, MOST_BLOCKS = 16, STEPS = 12 };

static vw_device *device;
static vw_pool *pool;
static vw_device_ptr blocks[MOST_BLOCKS];
static uint8_t values[MOST_BLOCKS];
static int block_count;

static void must(vw_status status, const char *what)
{
    if (status == VW_OK)
        return;
    printf("FAILED: %s: %s: %s\n", what, vw_status_name(status), vw_last_error());
    exit(1);
}

static bool always(void *context)
{
    (void)context; /* one thread, which launches nothing meanwhile */
    return true;
}

static void leave(void *context)
{
    (void)context;
}

static void tell(void *context, const vw_spill_report *report)
{
    (void)context;
    double seconds = (double)report->wait_ns / 1e9;
    printf("%s: %" PRIu64 " MiB in %" PRIu64 " handles, %.1f ms (%.1f GiB/s); %" PRIu64
           " MiB are on the host\n",
           report->is_return ? "came back" : "left", report->moved_bytes / MIB,
           report->moved_handles, seconds * 1e3,
           (double)report->moved_bytes / (double)(1024 * MIB) / seconds,
           report->spilled_bytes / MIB);
}

static void fill(int which, uint8_t value)
{
    must(device->table->fill(device->context, blocks[which], value, BLOCK_BYTES, 0), "fill");
    values[which] = value;
}

static void look_at_all(const char *when)
{
    must(device->table->synchronize(device->context), "synchronize");
    for (int i = 0; i < block_count; i++)
        for (uint64_t at = 0; at < BLOCK_BYTES; at += MIB) {
            uint8_t found = 0;
            must(device->table->read(device->context, &found, blocks[i] + at, 1), "read");
            if (found == values[i])
                continue;
            printf("FAILED: %s: block %d has %d at %" PRIu64 " MiB, not %d\n", when, i, found,
                   at / MIB, values[i]);
            exit(1);
        }
    must(vw_pool_check(pool), when);
}

static void hold_one_more(void)
{
    must(vw_alloc(pool, BLOCK_BYTES, 0, &blocks[block_count]), "vw_alloc");
    fill(block_count, (uint8_t)(block_count + 1));
    block_count++;
}

static void drop_the_first(int count)
{
    for (int i = 0; i < count; i++)
        must(vw_free(pool, blocks[i]), "vw_free");
    block_count -= count;
    memmove(blocks, blocks + count, (size_t)block_count * sizeof blocks[0]);
    memmove(values, values + count, (size_t)block_count * sizeof values[0]);
}

static vw_paged_stats stats(void)
{
    vw_paged_stats now = {.struct_size = sizeof now};
    must(vw_pool_get_paged_stats(pool, &now), "vw_pool_get_paged_stats");
    return now;
}

static int open_all(int index)
{
    const vw_pool_options options = {.struct_size = sizeof options,
                                     .engine = "vramwise",
                                     .safe_point = {always, leave, NULL},
                                     .spill_bytes = SPILL_BYTES,
                                     .spill_ahead_bytes = SPILL_BYTES / 4,
                                     .spill_listener = {NULL, tell}};
    if (vw_cuda_device_open(index, &device) != VW_OK || !device->properties.has_host_handles) {
        printf("skipped: %s\n", device != NULL ? "no handles on the host" : vw_last_error());
        return EXIT_SKIPPED;
    }
    must(vw_pool_create(device, &options, &pool), "vw_pool_create");
    double share = (double)POOL_BYTES / (double)device->properties.total_bytes;
    must(vw_pool_set_fraction(pool, share < 1.0 ? share : 1.0), "vw_pool_set_fraction");
    return 0;
}

int main(int argc, char **argv)
{
    int status = open_all(argc > 1 ? atoi(argv[1]) : 0);
    if (status != 0)
        return status;
    while (block_count < MOST_BLOCKS)
        hold_one_more();
    look_at_all("after memory left");
    if (stats().spilled_bytes == 0) {
        printf("FAILED: nothing left the GPU\n");
        return 1;
    }
    for (int i = 0; i < block_count; i++) /* kernels write to it where it is */
        fill(i, (uint8_t)(100 + i));
    look_at_all("after writing to what left");
    drop_the_first(10); /* those that left are among the last */
    for (int i = 0; i < STEPS; i++)
        must(vw_pool_mark_step(pool), "vw_pool_mark_step");
    look_at_all("after memory came back");
    vw_paged_stats done = stats();
    if (done.returns == 0) {
        printf("FAILED: nothing came back\n");
        return 1;
    }
    printf("%" PRIu64 " spills, %" PRIu64 " returns, %" PRIu64 " MiB left on the host, %" PRIu64
           " MiB of host handles, %" PRIu64 " could not be made\n",
           done.spills, done.returns, done.spilled_bytes / MIB, done.host_handle_bytes / MIB,
           done.failed_host_creations);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    printf("all is well\n");
    return 0;
}
