/* gpu_pool_check.c - pools on a real GPU: run by hand where there is one.
 *
 * Random allocations and frees on several real streams, native and expandable, every live block
 * carrying a pattern at both ends that is written through the device and found again before the
 * free; uses by other streams with work queued there; trims; running out of memory under a
 * fraction. Then page-locked memory. At the end the device must have what it had. Exit status: 0
 * all is well, 1 something failed, 77 there is no GPU here. Usage: gpu_pool_check [device index]
 * [seed] */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vramwise/vramwise.h"
#include "vramwise/pinned.h"

enum { EXIT_SKIPPED = 77, STREAMS = 3, MOST_LIVE = 600, STEPS = 20000, MARK_BYTES = 512 };

static uint64_t seed = 1;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

#define NEED(claim)                                                                                \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            printf("FAILED %s:%d: %s (%s)\n", __FILE__, __LINE__, #claim, vw_last_error());        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define NEED_OK(call) NEED((call) == VW_OK)

typedef struct live_block {
    vw_device_ptr address;
    uint64_t size_bytes;
    uint8_t mark;
} live_block;

typedef struct run {
    vw_device *device;
    vw_pool *pool;
    vw_stream streams[STREAMS];
    live_block live[MOST_LIVE];
    size_t live_count;
    uint64_t live_bytes;
    uint64_t checked;
} run;

static uint64_t mark_bytes(const live_block *block)
{
    return block->size_bytes < MARK_BYTES ? block->size_bytes : MARK_BYTES;
}

static void mark(run *r, const live_block *block)
{
    uint8_t bytes[MARK_BYTES];
    uint64_t count = mark_bytes(block);
    memset(bytes, block->mark, sizeof bytes);
    const vw_device_table *table = r->device->table;
    NEED_OK(table->write(r->device->context, block->address, bytes, count));
    NEED_OK(
        table->write(r->device->context, block->address + block->size_bytes - count, bytes, count));
}

static void check_mark(run *r, const live_block *block)
{
    uint64_t count = mark_bytes(block), offsets[2] = {0, block->size_bytes - count};
    for (int end = 0; end < 2; end++) {
        uint8_t bytes[MARK_BYTES];
        NEED_OK(r->device->table->read(r->device->context, bytes, block->address + offsets[end],
                                       count));
        for (uint64_t i = 0; i < count; i++)
            NEED(bytes[i] == block->mark);
    }
    r->checked++;
}

static void take_one(run *r, uint64_t most_bytes)
{
    live_block block = {.mark = (uint8_t)next_random()};
    double log2_size = log2((double)most_bytes) * (double)(next_random() >> 11) * 0x1p-53;
    block.size_bytes = (uint64_t)exp2(log2_size);
    vw_stream stream = r->streams[next_random() % STREAMS];
    NEED_OK(vw_alloc(r->pool, block.size_bytes, stream, &block.address));
    /* Whoever had the block before may still have work queued on its own stream: allowed, as long
     * as the new owner's work comes after it. Ours does not go through the stream, so it waits. */
    NEED_OK(r->device->table->stream_synchronize(r->device->context, stream));
    mark(r, &block);
    r->live[r->live_count++] = block;
    r->live_bytes += block.size_bytes;
}

/* Some blocks are in use on another stream when they are freed: real work is queued there. */
static void give_back_one(run *r)
{
    size_t at = next_random() % r->live_count;
    live_block block = r->live[at];
    check_mark(r, &block);
    if (next_random() % 4 == 0) {
        vw_stream stream = r->streams[next_random() % STREAMS];
        NEED_OK(vw_record_stream(r->pool, block.address, stream));
        NEED_OK(r->device->table->fill(r->device->context, block.address, block.mark,
                                       block.size_bytes, stream));
    }
    NEED_OK(vw_free(r->pool, block.address));
    r->live_bytes -= block.size_bytes;
    r->live[at] = r->live[--r->live_count];
}

static void run_out_of_memory(run *r)
{
    vw_oom_report report = {.struct_size = sizeof report};
    vw_device_ptr address;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    NEED_OK(vw_pool_get_stats(r->pool, &stats));
    double total = (double)r->device->properties.total_bytes;
    NEED_OK(
        vw_pool_set_fraction(r->pool, ((double)stats.reserved_bytes.all.current + 0x1p28) / total));
    NEED(vw_alloc(r->pool, UINT64_C(8) << 30, 0, &address) == VW_ERR_OUT_OF_MEMORY);
    printf("%s\n", vw_last_error());
    NEED_OK(vw_last_out_of_memory(&report));
    NEED(report.segment_bytes == UINT64_C(8) << 30 && report.limit_bytes != UINT64_MAX);
    NEED_OK(vw_pool_set_fraction(r->pool, 1.0));
}

static void run_pool(vw_device *device, const char *conf)
{
    static run r;
    const vw_pool_options options = {
        .struct_size = sizeof options, .conf = conf, .is_strict = true};
    memset(&r, 0, sizeof r);
    r.device = device;
    NEED_OK(vw_pool_create(device, &options, &r.pool));
    for (int i = 1; i < STREAMS; i++) /* the first is the default stream */
        NEED_OK(device->table->stream_create(device->context, &r.streams[i]));
    for (int step = 0; step < STEPS; step++) {
        while (r.live_count == MOST_LIVE || r.live_bytes > UINT64_C(6) << 30)
            give_back_one(&r);
        take_one(&r, UINT64_C(256) << 20);
        if (r.live_count > 0 && next_random() % 2 == 0)
            give_back_one(&r);
        if (step % 2000 == 1999) {
            NEED_OK(vw_pool_trim(r.pool));
            NEED_OK(vw_pool_check(r.pool));
        }
    }
    run_out_of_memory(&r);
    vw_pool_stats stats = {.struct_size = sizeof stats};
    NEED_OK(vw_pool_get_stats(r.pool, &stats));
    while (r.live_count > 0)
        give_back_one(&r);
    NEED_OK(vw_pool_trim(r.pool));
    NEED_OK(vw_pool_check(r.pool));
    vw_pool_stats rest = {.struct_size = sizeof rest};
    NEED_OK(vw_pool_get_stats(r.pool, &rest));
    NEED(rest.reserved_bytes.all.current == 0 && rest.allocated_bytes.all.current == 0);
    printf("%-26s %" PRIu64 " patterns found again, peak reserved %.2f GiB of %.2f live, %" PRId64
           " device calls, all given back\n",
           conf[0] != '\0' ? conf : "native", r.checked,
           (double)stats.reserved_bytes.all.peak * 0x1p-30,
           (double)stats.allocated_bytes.all.peak * 0x1p-30,
           rest.num_device_alloc + rest.num_device_free);
    vw_pool_destroy(r.pool);
    for (int i = 1; i < STREAMS; i++)
        NEED_OK(device->table->stream_destroy(device->context, r.streams[i]));
}

static void run_pinned(vw_device *device, const char *conf)
{
    vw_pinned_pool *pool;
    const vw_pinned_options options = {.struct_size = sizeof options, .conf = conf};
    NEED_OK(vw_pinned_pool_create(device, &options, &pool));
    void *blocks[64] = {NULL};
    vw_stream stream;
    NEED_OK(device->table->stream_create(device->context, &stream));
    for (int step = 0; step < 2000; step++) {
        size_t at = next_random() % 64, size_bytes = 1 + next_random() % (1u << 20);
        if (blocks[at] != NULL) {
            NEED(((unsigned char *)blocks[at])[0] == at);
            if (step % 3 == 0)
                NEED_OK(vw_pinned_record_stream(pool, blocks[at], stream));
            NEED_OK(vw_pinned_free(pool, blocks[at]));
        }
        NEED_OK(vw_pinned_alloc(pool, size_bytes, &blocks[at]));
        memset(blocks[at], (int)at, size_bytes);
    }
    for (size_t at = 0; at < 64; at++)
        if (blocks[at] != NULL)
            NEED_OK(vw_pinned_free(pool, blocks[at]));
    NEED_OK(vw_pinned_trim(pool));
    NEED_OK(vw_pinned_pool_check(pool));
    vw_pinned_pool_destroy(pool);
    NEED_OK(device->table->stream_destroy(device->context, stream));
    printf("pinned %-40s 2000 blocks, all given back\n", conf[0] != '\0' ? conf : "");
}

int main(int argc, char **argv)
{
    vw_device *device;
    uint64_t before_bytes, after_bytes, total_bytes;
    if (vw_cuda_device_open(argc > 1 ? atoi(argv[1]) : 0, &device) != VW_OK) {
        printf("skipped: %s\n", vw_last_error());
        return EXIT_SKIPPED;
    }
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) | 1 : 88172645463325253u;
    printf("%s, seed %" PRIu64 "\n", device->properties.name, seed);
    NEED_OK(device->table->memory_info(device->context, &before_bytes, &total_bytes));
    run_pool(device, "");
    run_pool(device, "expandable_segments:True");
    run_pool(device, "max_split_size_mb:64");
    run_pinned(device, "");
    run_pinned(device, "pinned_use_cuda_host_register:True,pinned_num_register_threads:4");
    run_pinned(device, "pinned_use_background_threads:True");
    NEED_OK(device->table->memory_info(device->context, &after_bytes, &total_bytes));
    NEED(after_bytes + (UINT64_C(64) << 20) > before_bytes);
    vw_device_destroy(device);
    printf("all checks passed\n");
    return 0;
}
