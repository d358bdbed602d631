/* gate_torture.c - threads whose kernels write and check blocks, while they are copied. */
#include "bench/gate_bench.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "vramwise_torch_support.h"

enum {
    ROUNDS = 10,
    BLOCKS = 32, /* of each thread, half of them kept */
    REQUESTS = 6,
};

#define CARD_BYTES (2048 * MIB)
#define BLOCK_BYTES (CARD_BYTES / MOST_THREADS / BLOCKS - 3 * MIB)
#define LARGE_BYTES (CARD_BYTES / 2 - 128 * MIB)

static vw_pool *pool;
static _Atomic uint64_t kernels_run;
static _Atomic uint64_t next_seed = 1000;
static _Atomic uint64_t served, not_served;

/* A stream lives as long as the pool that it had memory of (vramwise.h). One for each
 * thread that uses blocks, and one for who asks for large ones. */
static vw_stream streams[MOST_THREADS + 1];
static _Atomic int stream_count;

static vw_stream begin_pool_user(void)
{
    vw_stream stream = 0;
    gate_begin_thread(&stream);
    streams[atomic_fetch_add(&stream_count, 1)] = stream;
    return stream;
}

static void end_streams(void)
{
    for (int i = atomic_exchange(&stream_count, 0); i > 0; i--)
        gate_end_thread(streams[i - 1]);
}

static void take_blocks(replay_block *blocks, vw_stream stream)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = (replay_block){.size_bytes = BLOCK_BYTES - 8 * (uint64_t)i};
        if (vw_alloc(pool, blocks[i].size_bytes, stream, &blocks[i].address) != VW_OK)
            blocks[i].address = VW_NULL;
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        gate_must(vw_free(pool, blocks[i].address), "vw_free");
        blocks[i].address = VW_NULL;
    }
}

/* Checks what it wrote last, and writes something new: a kernel each. */
static void rewrite(replay_bytes *own, replay_block *block, vw_stream stream)
{
    if (block->seed != 0)
        gate_must(replay_bytes_check(own, block, stream), "checking a block");
    block->seed = atomic_fetch_add(&next_seed, 1);
    gate_must(replay_bytes_fill(own, block, stream), "writing a block");
    atomic_fetch_add(&kernels_run, 2);
}

static void *use_blocks(void *unused)
{
    replay_bytes own = gate_bench.kernels;
    replay_block blocks[BLOCKS];
    vw_stream stream = begin_pool_user();
    (void)unused;
    take_blocks(blocks, stream);
    for (int i = 0; atomic_load(&gate_bench.is_over) == 0; i = (i + 1) % BLOCKS) {
        if (blocks[i].address != VW_NULL)
            rewrite(&own, &blocks[i], stream);
        if (i == 0)
            gate_must(
                gate_bench.device->table->stream_synchronize(gate_bench.device->context, stream),
                "waiting");
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].address != VW_NULL && blocks[i].seed != 0)
            gate_must(replay_bytes_check(&own, &blocks[i], stream), "checking a block");
        gate_must(vw_free(pool, blocks[i].address), "vw_free");
    }
    gate_must(gate_bench.device->table->stream_synchronize(gate_bench.device->context, stream),
              "waiting");
    return NULL;
}

static void ask_for_large_blocks(void)
{
    replay_bytes own = gate_bench.kernels;
    vw_stream stream = begin_pool_user();
    for (int i = 0; i < REQUESTS; i++) {
        replay_block block = {.size_bytes = LARGE_BYTES, .seed = 0};
        if (vw_alloc(pool, block.size_bytes, stream, &block.address) != VW_OK) {
            atomic_fetch_add(&not_served, 1);
            continue;
        }
        atomic_fetch_add(&served, 1);
        rewrite(&own, &block, stream);
        rewrite(&own, &block, stream);
        gate_must(vw_free(pool, block.address), "vw_free");
    }
    gate_must(gate_bench.device->table->stream_synchronize(gate_bench.device->context, stream),
              "waiting");
}

static vw_paged_stats run_round(gate_time time)
{
    const vw_pool_options options = {
        .struct_size = sizeof options,
        .engine = "vramwise",
        .safe_point = vramwise_safe_moments(),
        .prepare_safe_point = time == GATE_NEAR_THE_LIMIT ? vramwise_prepare_safe_moment : NULL};
    vw_paged_stats stats = {.struct_size = sizeof stats};
    pthread_t threads[MOST_THREADS];
    vw_device_ptr all = VW_NULL;
    double total_bytes = (double)gate_bench.device->properties.total_bytes;
    gate_must(vw_pool_create(gate_bench.device, &options, &pool), "vw_pool_create");
    gate_must(vw_pool_set_fraction(pool, (double)CARD_BYTES / total_bytes), "vw_pool_set_fraction");
    gate_must(vw_alloc(pool, CARD_BYTES - 16 * MIB, 0, &all),
              "one large block"); /* large handles */
    gate_must(vw_free(pool, all), "vw_free");
    uint64_t run_before = atomic_load(&kernels_run);
    atomic_store(&gate_bench.is_over, 0);
    for (int i = 0; i < MOST_THREADS; i++)
        pthread_create(&threads[i], NULL, use_blocks, NULL);
    while (atomic_load(&kernels_run) < run_before + 4 * BLOCKS * MOST_THREADS)
        usleep(100);
    ask_for_large_blocks();
    atomic_store(&gate_bench.is_over, 1);
    for (int i = 0; i < MOST_THREADS; i++)
        pthread_join(threads[i], NULL);
    gate_must(gate_bench.device->table->synchronize(gate_bench.device->context), "waiting");
    gate_must(vw_pool_check(pool), "vw_pool_check");
    gate_must(vw_pool_get_paged_stats(pool, &stats), "vw_pool_get_paged_stats");
    vw_pool_destroy(pool);
    end_streams();
    return stats;
}

void gate_torture(gate_time time)
{
    static const char *const times[] = {"from the beginning", "near the limit", "when needed"};
    uint64_t copies = 0, copied_bytes = 0;
    replay_errors errors = {.count = 0};
    vramwise_safe_moment_counts before = vramwise_get_safe_moment_counts();
    for (int round = 0; round < ROUNDS; round++) {
        if (time != GATE_FROM_THE_BEGINNING)
            gate_begin_anew(); /* it comes with each round */
        vw_paged_stats stats = run_round(time);
        copies += stats.copies;
        copied_bytes += stats.copied_bytes;
    }
    gate_must(replay_bytes_take_errors(&gate_bench.kernels, &errors), "reading what was wrong");
    vramwise_safe_moment_counts now = vramwise_get_safe_moment_counts();
    printf("copying under %d threads, the gate %s: %" PRIu64 " kernels, %" PRIu64
           " requests of %.0f MiB served, "
           "%" PRIu64 " not; %" PRIu64 " copies of %.0f MiB; %" PRIu64 " moments, %" PRIu64
           " refused; %" PRIu64 " launches held, for %.2f ms at most\n",
           MOST_THREADS, times[time], atomic_load(&kernels_run), atomic_load(&served),
           (double)LARGE_BYTES / (double)MIB, atomic_load(&not_served), copies,
           (double)copied_bytes / (double)MIB, now.granted_by_gate - before.granted_by_gate,
           now.refused - before.refused, now.held_launches - before.held_launches,
           (double)now.longest_hold_ns / 1e6);
    gate_report(copies > 0, "live data was copied");
    gate_report(now.held_launches > before.held_launches, "launches were held");
    gate_report(errors.count == 0, "no word is wrong");
    if (errors.count != 0)
        printf("      %" PRIu64 " words, one of them: seed %" PRIu64 ", word %" PRIu64
               ", found %#" PRIx64 ", wanted %#" PRIx64 "\n",
               errors.count, errors.seed, errors.word, errors.found, errors.wanted);
}
