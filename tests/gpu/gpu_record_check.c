/* gpu_record_check.c - recordings of pools on a real GPU: run by hand where there is one.
 *
 * Random allocations and frees on several real streams under a memory fraction, with uses by other
 * streams, trims, a private pool and a request that runs out of memory, native and with expandable
 * segments; each written as a snapshot. What must hold afterwards is checked elsewhere: `vramwise
 * verify` finds each file exact, and PyTorch's tools open it (check_torch_tools.py). Exit status: 0
 * all is well, 1 something failed, 77 there is no GPU here. Usage: gpu_record_check OUTPUT_FOLDER
 * [simulated] */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vramwise/vramwise.h"
#include "vramwise/recording.h"

enum { EXIT_SKIPPED = 77, STREAMS = 3, MOST_LIVE = 400, STEPS = 4000 };

#define LIMIT_BYTES (UINT64_C(2) << 30)

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

typedef struct run {
    vw_device *device;
    vw_pool *pool;
    vw_recorder *recorder;
    vw_stream streams[STREAMS];
    vw_device_ptr live[MOST_LIVE];
    size_t live_count;
} run;

static vw_status take(run *r, uint64_t size_bytes, vw_device_ptr *address)
{
    static const char *const layers[] = {"embedding", "attention", "feed_forward", "head"};
    const vw_stack_frame frames[] = {
        {"forward", "model.py", (uint32_t)(10 + next_random() % 4)},
        {layers[next_random() % 4], "model.py", 40},
        {"train", "train.py", 7},
    };
    vw_alloc_request request = {.struct_size = sizeof request,
                                .size_bytes = size_bytes,
                                .stream = r->streams[next_random() % STREAMS]};
    NEED_OK(vw_recorder_add_stack(r->recorder, frames, 3, &request.tag));
    return vw_alloc_with(r->pool, &request, address);
}

static void give_back(run *r)
{
    size_t chosen = (size_t)(next_random() % r->live_count);
    vw_device_ptr address = r->live[chosen];
    r->live[chosen] = r->live[--r->live_count];
    if (next_random() % 4 == 0)
        NEED_OK(vw_record_stream(r->pool, address, r->streams[next_random() % STREAMS]));
    NEED_OK(vw_free(r->pool, address));
}

static void play(run *r)
{
    const vw_private_id private_id = {7, 0};
    for (unsigned step = 0; step < STEPS; step++) {
        uint64_t size_bytes = (next_random() >> (40 + next_random() % 24)) + 1;
        bool is_private = step % 50 < 5;
        while (r->live_count == MOST_LIVE || (r->live_count > 0 && next_random() % 16 < 7))
            give_back(r);
        if (is_private)
            NEED_OK(vw_private_pool_begin(r->pool, private_id, NULL, NULL));
        vw_status status = take(r, size_bytes, &r->live[r->live_count]);
        if (is_private)
            NEED_OK(vw_private_pool_end(r->pool, private_id));
        NEED(status == VW_OK || status == VW_ERR_OUT_OF_MEMORY);
        r->live_count += status == VW_OK;
        if (step % 1000 == 999)
            NEED_OK(vw_pool_trim(r->pool));
    }
    vw_device_ptr nothing = VW_NULL;
    NEED(take(r, LIMIT_BYTES, &nothing) == VW_ERR_OUT_OF_MEMORY);
}

static void record(vw_device *device, const char *conf, const char *folder, const char *name)
{
    static run r;
    char path[PATH_MAX];
    const vw_pool_options pool_options = {.struct_size = sizeof pool_options, .conf = conf};
    const vw_recorder_options options = {.struct_size = sizeof options, .stacks = VW_STACKS_CALLER};
    vw_recorder_counts counts = {.struct_size = sizeof counts};
    r = (run){.device = device};
    for (size_t i = 1; i < STREAMS; i++)
        NEED_OK(device->table->stream_create(device->context, &r.streams[i]));
    NEED_OK(vw_pool_create(device, &pool_options, &r.pool));
    NEED_OK(vw_recorder_create(&options, &r.recorder));
    NEED_OK(vw_recorder_attach(r.recorder, r.pool));
    NEED_OK(
        vw_pool_set_fraction(r.pool, (double)LIMIT_BYTES / (double)device->properties.total_bytes));
    play(&r);
    NEED(snprintf(path, sizeof path, "%s/%s.pickle", folder, name) < (int)sizeof path);
    NEED_OK(vw_recorder_write(r.recorder, r.pool, path));
    NEED_OK(vw_recorder_get_counts(r.recorder, &counts));
    printf("%s: %" PRIu64 " events, %" PRIu64 " different stacks, complete: %s\n", path,
           counts.kept_count, counts.stack_count, counts.is_complete ? "yes" : "no");
    NEED(counts.is_complete);
    NEED_OK(vw_recorder_detach(r.recorder));
    vw_recorder_destroy(r.recorder);
    vw_pool_destroy(r.pool);
    for (size_t i = 1; i < STREAMS; i++)
        NEED_OK(device->table->stream_destroy(device->context, r.streams[i]));
}

int main(int argc, char **argv)
{
    vw_device *device = NULL;
    if (argc < 2)
        return fprintf(stderr, "usage: gpu_record_check OUTPUT_FOLDER [simulated]\n"), 1;
    if (argc > 2 && strcmp(argv[2], "simulated") == 0) {
        NEED_OK(vw_simulated_device_create(NULL, &device));
    } else if (vw_cuda_device_open(0, &device) != VW_OK) {
        printf("no GPU: %s\n", vw_last_error());
        return EXIT_SKIPPED;
    }
    printf("%s\n", device->properties.name);
    record(device, "", argv[1], "recorded_native");
    record(device, "expandable_segments:True", argv[1], "recorded_expandable");
    record(device, "max_split_size_mb:64,garbage_collection_threshold:0.7", argv[1],
           "recorded_garbage");
    vw_device_destroy(device);
    return 0;
}
