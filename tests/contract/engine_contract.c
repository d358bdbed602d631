/* engine_contract.c - what a pool promises, whatever engine it has.
 *
 * The work-horse is a random workload that stays below a number of live bytes: log-uniform sizes,
 * three streams, frees in any order, a trim now and then. The seed is fixed, so a failure repeats.
 * After each step a model of what is live, kept here, is held against what the pool says. */
#include "contract/engine_contract.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pool/pool.h" /* vw__pool_create */
#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)

enum { MOST_LIVE = 64, STEPS = 1500, STREAMS = 3 };

static const vw_test_engine *engine_in_use;

/* ---- a pool, and what we think is live in it ---------------------------------------------------
 */

typedef struct live_block {
    vw_device_ptr address;
    uint64_t asked_bytes;
    uint64_t served_bytes;
    vw_stream stream;
    uint8_t pattern;
} live_block;

typedef struct workshop {
    vw_device *device;
    vw_pool *pool;
    uint64_t random;
    live_block live[MOST_LIVE];
    size_t live_count;
    uint64_t live_bytes; /* as asked */
} workshop;

static void check_ok(vw_status status, const char *what, int line)
{
    if (status == VW_OK)
        return;
    print_error("%s: %s: %s\n", what, vw_status_name(status), vw_last_error());
    _fail(__FILE__, line);
}

#define OK(call) check_ok(call, #call, __LINE__)

bool vw_test_engine_open(const vw_test_engine *engine, uint64_t capacity_bytes, bool on_host,
                         vw_device **device, vw_pool **pool)
{
    const vw_simulated_options simulated = {.struct_size = sizeof simulated,
                                            .capacity_bytes = capacity_bytes,
                                            .without_virtual_memory =
                                                engine->without_virtual_memory};
    vw_pool_options options = engine->options;
    options.struct_size = sizeof options;
    vw_status status = on_host ? vw_host_device_create(capacity_bytes, device)
                               : vw_simulated_device_create(&simulated, device);
    if (status != VW_OK)
        return false;
    if (engine->without_virtual_memory)
        (*device)->properties.has_virtual_memory = false; /* the host device has it */
    return vw__pool_create(*device, &options, engine->kind, pool) == VW_OK;
}

static void open_workshop(workshop *shop, uint64_t capacity_bytes, bool on_host)
{
    *shop = (workshop){.random = 0x9E3779B97F4A7C15};
    if (!vw_test_engine_open(engine_in_use, capacity_bytes, on_host, &shop->device, &shop->pool))
        fail_msg("no pool: %s", vw_last_error());
}

static uint64_t held_by_device(const workshop *shop)
{
    vw_device_calls calls;
    OK(vw_device_get_calls(shop->device, &calls));
    return calls.in_use_bytes;
}

static void close_workshop(workshop *shop)
{
    OK(vw_pool_check(shop->pool));
    vw_pool_destroy(shop->pool);
    assert_int_equal(held_by_device(shop), 0);
    vw_device_destroy(shop->device);
}

static vw_pool_stats stats_of(const workshop *shop)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    OK(vw_pool_get_stats(shop->pool, &stats));
    return stats;
}

static uint64_t next_random(workshop *shop)
{
    shop->random ^= shop->random << 13;
    shop->random ^= shop->random >> 7;
    shop->random ^= shop->random << 17;
    return shop->random;
}

/* From 1 byte to 32 MiB, each doubling as likely as the next. */
static uint64_t random_size(workshop *shop)
{
    uint64_t top = UINT64_C(1) << (next_random(shop) % 26);
    return top + next_random(shop) % top;
}

/* ---- bytes
 * --------------------------------------------------------------------------------------- */

/* A block's first and last bytes, and one in 4096 between: enough to notice any other block. */
static void each_byte(const live_block *block, void (*visit)(uint8_t *byte, uint8_t pattern))
{
    uint8_t *bytes = (uint8_t *)(uintptr_t)block->address; /* host device: the address is one */
    for (uint64_t i = 0; i < block->asked_bytes; i += 4096)
        visit(&bytes[i], block->pattern);
    visit(&bytes[block->asked_bytes - 1], block->pattern);
}

static void write_byte(uint8_t *byte, uint8_t pattern)
{
    *byte = pattern;
}

static void expect_byte(uint8_t *byte, uint8_t pattern)
{
    assert_int_equal(*byte, pattern);
}

/* ---- steps of the workload ---------------------------------------------------------------------
 */

static vw_status take_block(workshop *shop, uint64_t size_bytes, vw_stream stream)
{
    live_block *block = &shop->live[shop->live_count];
    assert_true(shop->live_count < MOST_LIVE);
    *block = (live_block){.asked_bytes = size_bytes,
                          .stream = stream,
                          .pattern = (uint8_t)(1 + next_random(shop) % 255)};
    const vw_alloc_request request = {.struct_size = sizeof request,
                                      .size_bytes = size_bytes,
                                      .stream = stream,
                                      .served_bytes = &block->served_bytes};
    vw_status status = vw_alloc_with(shop->pool, &request, &block->address);
    if (status != VW_OK) {
        assert_int_equal(block->address, VW_NULL);
        return status;
    }
    assert_true(block->served_bytes >= size_bytes);
    if (shop->device->properties.has_bytes)
        each_byte(block, write_byte);
    shop->live_count++;
    shop->live_bytes += size_bytes;
    return VW_OK;
}

static void drop_block(workshop *shop, size_t index)
{
    const live_block block = shop->live[index];
    if (shop->device->properties.has_bytes)
        each_byte(&block, expect_byte);
    OK(vw_free(shop->pool, block.address));
    shop->live[index] = shop->live[--shop->live_count];
    shop->live_bytes -= block.asked_bytes;
}

static void drop_all(workshop *shop)
{
    while (shop->live_count > 0)
        drop_block(shop, next_random(shop) % shop->live_count);
}

/* Takes a block if there is room among `most_bytes`, else drops one. */
static void take_or_drop(workshop *shop, uint64_t most_bytes)
{
    uint64_t size_bytes = random_size(shop);
    bool is_full = shop->live_count == MOST_LIVE || shop->live_bytes + size_bytes > most_bytes;
    if (shop->live_count > 0 && (is_full || next_random(shop) % 5 < 2))
        drop_block(shop, next_random(shop) % shop->live_count);
    else if (!is_full)
        OK(take_block(shop, size_bytes, next_random(shop) % STREAMS));
}

/* ---- what a walk tells
 * --------------------------------------------------------------------------- */

typedef struct survey {
    const workshop *shop;
    vw_device_ptr previous_end; /* of the segment before */
    vw_segment_info segment;
    vw_device_ptr next_block; /* where the next block of the segment must begin */
    uint64_t allocated_bytes, active_bytes, requested_bytes, reserved_bytes;
    size_t blocks_left;
    size_t live_count;
} survey;

static const live_block *find_live(const workshop *shop, vw_device_ptr address)
{
    for (size_t i = 0; i < shop->live_count; i++)
        if (shop->live[i].address == address)
            return &shop->live[i];
    return NULL;
}

static bool survey_segment(void *context, const vw_segment_info *segment)
{
    survey *seen = context;
    assert_int_equal(seen->blocks_left, 0); /* the blocks of the segment before reached its end */
    assert_true(segment->address >= seen->previous_end);
    assert_true(segment->block_count > 0);
    seen->segment = *segment;
    seen->next_block = segment->address;
    seen->previous_end = segment->address + segment->total_bytes;
    seen->blocks_left = segment->block_count;
    seen->reserved_bytes += segment->total_bytes;
    seen->allocated_bytes += segment->allocated_bytes;
    seen->active_bytes += segment->active_bytes;
    seen->requested_bytes += segment->requested_bytes;
    return true;
}

static bool survey_block(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    survey *seen = context;
    assert_int_equal(segment->address, seen->segment.address);
    assert_int_equal(block->address, seen->next_block);
    assert_true(block->size_bytes > 0 && seen->blocks_left > 0);
    seen->next_block += block->size_bytes;
    assert_true(seen->next_block <= seen->previous_end);
    if (--seen->blocks_left == 0)
        assert_int_equal(seen->next_block, seen->previous_end);
    if (block->state == VW_BLOCK_LIVE) {
        const live_block *ours = find_live(seen->shop, block->address);
        assert_non_null(ours);
        assert_int_equal(ours->served_bytes, block->size_bytes);
        assert_int_equal(ours->asked_bytes, block->requested_bytes);
        assert_int_equal(ours->stream, segment->stream);
        seen->live_count++;
    }
    return true;
}

static survey survey_of(const workshop *shop)
{
    survey seen = {.shop = shop};
    const vw_walker walker = {&seen, survey_segment, survey_block};
    OK(vw_pool_walk(shop->pool, &walker, false));
    assert_int_equal(seen.blocks_left, 0);
    assert_int_equal(seen.live_count, shop->live_count);
    return seen;
}

/* ---- statistics --------------------------------------------------------------------------------
 */

static void check_stat(const vw_stat *stat)
{
    assert_int_equal(stat->current, stat->allocated - stat->freed); /* nothing was reset */
    assert_true(stat->current >= 0 && stat->peak >= stat->current);
    assert_true(stat->peak <= stat->allocated);
}

static void check_group(const vw_stat_group *group)
{
    check_stat(&group->all);
    check_stat(&group->small_pool);
    check_stat(&group->large_pool);
    assert_int_equal(group->all.current, group->small_pool.current + group->large_pool.current);
    assert_int_equal(group->all.allocated,
                     group->small_pool.allocated + group->large_pool.allocated);
    assert_int_equal(group->all.freed, group->small_pool.freed + group->large_pool.freed);
    assert_true(group->all.peak <= group->small_pool.peak + group->large_pool.peak);
    assert_true(group->all.peak >= group->small_pool.peak);
    assert_true(group->all.peak >= group->large_pool.peak);
}

static void check_stats(const workshop *shop)
{
    vw_pool_stats stats = stats_of(shop);
#define CHECK_GROUP(name) check_group(&stats.name);
    VW_STAT_GROUP_LIST(CHECK_GROUP)
#undef CHECK_GROUP
    survey seen = survey_of(shop);
    assert_int_equal(stats.reserved_bytes.all.current, seen.reserved_bytes);
    assert_int_equal(stats.allocated_bytes.all.current, seen.allocated_bytes);
    assert_int_equal(stats.active_bytes.all.current, seen.active_bytes);
    assert_int_equal(stats.requested_bytes.all.current, seen.requested_bytes);
    assert_int_equal(stats.requested_bytes.all.current, shop->live_bytes);
    assert_int_equal(stats.allocation.all.current, shop->live_count);
    assert_true(stats.requested_bytes.all.current <= stats.allocated_bytes.all.current);
    assert_true(stats.active_bytes.all.current <= stats.reserved_bytes.all.current);
    assert_true(stats.largest_free_block_bytes <=
                (uint64_t)(stats.reserved_bytes.all.current - stats.active_bytes.all.current));
    assert_int_equal(stats.reserved_bytes.all.current, held_by_device(shop));
}

/* ---- the checks --------------------------------------------------------------------------------
 */

static void live_blocks_do_not_overlap_and_lie_inside_their_segment(void **state)
{
    (void)state;
    workshop shop;
    open_workshop(&shop, 2048 * MIB, false);
    for (int step = 0; step < STEPS; step++) {
        take_or_drop(&shop, 256 * MIB);
        for (size_t i = 0; i + 1 < shop.live_count; i++) { /* the newest against all others */
            const live_block *a = &shop.live[i], *b = &shop.live[shop.live_count - 1];
            assert_true(a->address + a->served_bytes <= b->address ||
                        b->address + b->served_bytes <= a->address);
        }
        if (shop.live_count == 0)
            continue;
        const live_block *block = &shop.live[next_random(&shop) % shop.live_count];
        vw_block_place place;
        OK(vw_pool_find(shop.pool, block->address + block->served_bytes - 1, &place));
        assert_int_equal(place.block_address, block->address);
        assert_int_equal(place.block_bytes, block->served_bytes);
        assert_int_equal(place.requested_bytes, block->asked_bytes);
        assert_int_equal(place.stream, block->stream);
        assert_true(place.segment_address <= block->address);
        assert_true(block->address + block->served_bytes <=
                    place.segment_address + place.segment_bytes);
    }
    close_workshop(&shop);
}

static void a_walk_visits_segments_that_blocks_tile_and_every_live_block_once(void **state)
{
    (void)state;
    workshop shop;
    open_workshop(&shop, 2048 * MIB, false);
    for (int step = 0; step < STEPS; step++) {
        take_or_drop(&shop, 256 * MIB);
        if (step % 400 == 399)
            OK(vw_pool_trim(shop.pool));
        survey_of(&shop);
    }
    OK(vw_pool_check(shop.pool));
    close_workshop(&shop);
}

static void statistics_agree_with_each_other_and_with_the_walk(void **state)
{
    (void)state;
    workshop shop;
    open_workshop(&shop, 2048 * MIB, false);
    for (int step = 0; step < STEPS; step++) {
        take_or_drop(&shop, 256 * MIB);
        if (step % 400 == 399)
            OK(vw_pool_trim(shop.pool));
        check_stats(&shop);
    }
    drop_all(&shop);
    check_stats(&shop);
    close_workshop(&shop);
}

static void live_blocks_keep_their_bytes(void **state)
{
    (void)state;
    workshop shop;
    open_workshop(&shop, 768 * MIB, true);
    for (int step = 0; step < STEPS / 3; step++) {
        take_or_drop(&shop, 96 * MIB);
        if (step % 100 == 99)
            OK(vw_pool_trim(shop.pool));
    }
    drop_all(&shop); /* looks at each a last time */
    close_workshop(&shop);
}

/* While nothing that was queued is done, memory freed for one stream is not another's. */
static void a_freed_block_does_not_serve_another_stream_before_its_work_is_done(void **state)
{
    (void)state;
    workshop shop;
    open_workshop(&shop, 2048 * MIB, false);
    OK(vw_device_hold_streams(shop.device, true));
    for (unsigned size_log2 = 9; size_log2 <= 25; size_log2++) {
        uint64_t size_bytes = UINT64_C(1) << size_log2;
        vw_device_ptr freed = VW_NULL, taken = VW_NULL;
        OK(vw_alloc(shop.pool, size_bytes, 1, &freed));
        OK(vw_free(shop.pool, freed));
        OK(vw_alloc(shop.pool, size_bytes, 2, &taken));
        assert_true(taken + size_bytes <= freed || freed + size_bytes <= taken);
        OK(vw_free(shop.pool, taken));
    }
    close_workshop(&shop);
}

static void a_block_used_by_another_stream_is_not_reused_before_that_is_done(void **state)
{
    (void)state;
    workshop shop;
    open_workshop(&shop, 2048 * MIB, false);
    OK(vw_device_hold_streams(shop.device, true));
    for (unsigned size_log2 = 9; size_log2 <= 25; size_log2 += 4) {
        uint64_t size_bytes = UINT64_C(1) << size_log2;
        vw_device_ptr freed = VW_NULL, meanwhile = VW_NULL;
        OK(vw_alloc(shop.pool, size_bytes, 1, &freed));
        OK(vw_record_stream(shop.pool, freed, 2));
        OK(vw_free(shop.pool, freed));
        OK(vw_alloc(shop.pool, size_bytes, 1, &meanwhile));
        assert_true(meanwhile + size_bytes <= freed || freed + size_bytes <= meanwhile);
        assert_int_equal(stats_of(&shop).active.all.current, 2);
        OK(vw_device_complete(shop.device, 2));
        OK(vw_free(shop.pool, meanwhile));
        OK(vw_alloc(shop.pool, size_bytes, 1, &meanwhile)); /* lets the wait end */
        OK(vw_free(shop.pool, meanwhile));
        assert_int_equal(stats_of(&shop).active.all.current, 0);
    }
    close_workshop(&shop);
}

/* Whatever the order of the frees, what lay side by side serves as one piece again. */
static void frees_merge(void **state)
{
    (void)state;
    workshop shop;
    if ((engine_in_use->lacks & VW_TEST_NO_MERGING) != 0)
        skip();
    open_workshop(&shop, 2048 * MIB, false);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 10; i++)
            OK(take_block(&shop, 2 * MIB, 0));
        int64_t reserved_bytes = stats_of(&shop).reserved_bytes.all.current;
        drop_all(&shop);
        OK(take_block(&shop, 20 * MIB, 0));
        assert_int_equal(stats_of(&shop).reserved_bytes.all.current, reserved_bytes);
        drop_all(&shop);
    }
    close_workshop(&shop);
}

static void a_trim_gives_back_all_that_is_idle(void **state)
{
    (void)state;
    workshop shop;
    open_workshop(&shop, 2048 * MIB, false);
    for (int round = 0; round < 5; round++) {
        for (int step = 0; step < STEPS / 5; step++)
            take_or_drop(&shop, 256 * MIB);
        drop_all(&shop);
        assert_true(held_by_device(&shop) > 0);
        OK(vw_pool_trim(shop.pool));
        assert_int_equal(held_by_device(&shop), 0);
        assert_int_equal(stats_of(&shop).reserved_bytes.all.current, 0);
        assert_int_equal(stats_of(&shop).largest_free_block_bytes, 0);
    }
    close_workshop(&shop);
}

static void the_limit_is_kept(void **state)
{
    (void)state;
    workshop shop;
    uint64_t limit_bytes = 128 * MIB, refused = 0;
    open_workshop(&shop, 1024 * MIB, false);
    OK(vw_pool_set_fraction(shop.pool, 0.125));
    assert_int_equal(stats_of(&shop).limit_bytes, limit_bytes);
    for (int step = 0; step < STEPS; step++) {
        if (shop.live_count > 0 && (shop.live_count == MOST_LIVE || next_random(&shop) % 5 < 2)) {
            drop_block(&shop, next_random(&shop) % shop.live_count);
        } else {
            vw_status status = take_block(&shop, random_size(&shop), next_random(&shop) % STREAMS);
            assert_true(status == VW_OK || status == VW_ERR_OUT_OF_MEMORY);
            refused += status != VW_OK;
        }
        assert_true(held_by_device(&shop) <= limit_bytes + engine_in_use->limit_excess_bytes);
    }
    assert_true(refused > 0); /* or the limit was never met */
    assert_int_equal(stats_of(&shop).num_ooms, refused);
    close_workshop(&shop);
}

static void out_of_memory_leaves_everything_serving(void **state)
{
    (void)state;
    workshop shop;
    vw_status status = VW_OK;
    open_workshop(&shop, 256 * MIB, true);
    while ((status = take_block(&shop, 12 * MIB, 0)) == VW_OK)
        continue;
    assert_int_equal(status, VW_ERR_OUT_OF_MEMORY);
    vw_oom_report report = {.struct_size = sizeof report};
    OK(vw_last_out_of_memory(&report));
    assert_int_equal(report.requested_bytes, 12 * MIB);
    assert_int_equal(report.reserved_bytes, stats_of(&shop).reserved_bytes.all.current);
    check_stats(&shop);

    for (int round = 0; round < 10; round++) { /* what is given back can be had again */
        drop_block(&shop, next_random(&shop) % shop.live_count);
        OK(take_block(&shop, 12 * MIB, 0));
        assert_int_equal(take_block(&shop, 200 * MIB, 0), VW_ERR_OUT_OF_MEMORY);
        OK(vw_pool_check(shop.pool));
    }
    drop_all(&shop);                     /* with all of their bytes */
    OK(take_block(&shop, 200 * MIB, 0)); /* and idle memory is given up for it */
    drop_all(&shop);
    close_workshop(&shop);
}

static void the_same_requests_get_the_same_addresses(void **state)
{
    (void)state;
    static vw_device_ptr first[STEPS];
    for (int run = 0; run < 2; run++) {
        workshop shop;
        open_workshop(&shop, 2048 * MIB, false);
        for (int step = 0; step < STEPS; step++) {
            take_or_drop(&shop, 256 * MIB);
            vw_device_ptr newest =
                shop.live_count > 0 ? shop.live[shop.live_count - 1].address : VW_NULL;
            if (run == 0)
                first[step] = newest;
            else
                assert_int_equal(newest, first[step]);
        }
        close_workshop(&shop);
    }
}

static void a_pool_that_ends_gives_live_blocks_back(void **state)
{
    (void)state;
    workshop shop;
    open_workshop(&shop, 2048 * MIB, false);
    for (int step = 0; step < STEPS / 5; step++)
        take_or_drop(&shop, 256 * MIB);
    assert_true(shop.live_count > 0);
    close_workshop(&shop); /* asks the device */
}

int vw_test_engine_contract(const vw_test_engine *engine)
{
    const struct CMUnitTest checks[] = {
        cmocka_unit_test(live_blocks_do_not_overlap_and_lie_inside_their_segment),
        cmocka_unit_test(a_walk_visits_segments_that_blocks_tile_and_every_live_block_once),
        cmocka_unit_test(statistics_agree_with_each_other_and_with_the_walk),
        cmocka_unit_test(live_blocks_keep_their_bytes),
        cmocka_unit_test(a_freed_block_does_not_serve_another_stream_before_its_work_is_done),
        cmocka_unit_test(a_block_used_by_another_stream_is_not_reused_before_that_is_done),
        cmocka_unit_test(frees_merge),
        cmocka_unit_test(a_trim_gives_back_all_that_is_idle),
        cmocka_unit_test(the_limit_is_kept),
        cmocka_unit_test(out_of_memory_leaves_everything_serving),
        cmocka_unit_test(the_same_requests_get_the_same_addresses),
        cmocka_unit_test(a_pool_that_ends_gives_live_blocks_back),
    };
    engine_in_use = engine;
    return cmocka_run_group_tests_name(engine->name, checks, NULL, NULL) +
           vw_test_engine_routing_contract(engine) +
           ((engine->lacks & VW_TEST_NO_PRIVATE_POOLS) != 0
                ? 0
                : vw_test_engine_restore_contract(engine));
}
