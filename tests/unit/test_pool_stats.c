/* test_pool_stats.c - the numbers of memory_stats(), their keys, their order and their resets. */
#include "pool/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#define MIB (UINT64_C(1) << 20)

/* ---- a pool on a device of arithmetic -------------------------------------------------------- */

typedef struct fixture {
    vw_device *device;
    vw_pool *pool;
} fixture;

static fixture open_pool(const char *torch_version, const char *conf)
{
    const vw_pool_options options = {
        .struct_size = sizeof options, .torch_version = torch_version, .conf = conf};
    fixture made = {NULL, NULL};
    assert_int_equal(vw_simulated_device_create(NULL, &made.device), VW_OK);
    assert_int_equal(vw_pool_create(made.device, &options, &made.pool), VW_OK);
    return made;
}

static void close_pool(fixture made)
{
    vw_pool_destroy(made.pool);
    vw_device_destroy(made.device);
}

static vw_device_ptr allocated(vw_pool *pool, uint64_t size_bytes)
{
    vw_device_ptr address = VW_NULL;
    assert_int_equal(vw_alloc(pool, size_bytes, 0, &address), VW_OK);
    return address;
}

static vw_pool_stats stats_of(const vw_pool *pool)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_stats(pool, &stats), VW_OK);
    return stats;
}

static void assert_stat(vw_stat stat, int64_t current, int64_t peak, int64_t total, int64_t freed)
{
    assert_int_equal(stat.current, current);
    assert_int_equal(stat.peak, peak);
    assert_int_equal(stat.allocated, total);
    assert_int_equal(stat.freed, freed);
}

/* ---- a walk, kept ---------------------------------------------------------------------------- */

enum { MOST_KEYS = 256 };

typedef struct walk {
    const vw_pool *pool; /* not NULL: is asked from within the visit */
    size_t count;
    char keys[MOST_KEYS][128];
    int64_t values[MOST_KEYS];
} walk;

static void keep(void *context, const char *key, int64_t value)
{
    walk *kept = context;
    assert_true(kept->count < MOST_KEYS);
    snprintf(kept->keys[kept->count], sizeof kept->keys[0], "%s", key);
    kept->values[kept->count++] = value;
    if (kept->pool != NULL)
        stats_of(kept->pool);
}

static walk *walk_of(const vw_pool *pool)
{
    static walk kept;
    kept.pool = NULL;
    kept.count = 0;
    assert_int_equal(vw_pool_walk_stats(pool, keep, &kept), VW_OK);
    return &kept;
}

static int64_t value_of(const walk *kept, const char *key)
{
    for (size_t i = 0; i < kept->count; i++)
        if (strcmp(kept->keys[i], key) == 0)
            return kept->values[i];
    fail_msg("no key %s", key);
    return 0;
}

static bool has_key(const walk *kept, const char *key)
{
    for (size_t i = 0; i < kept->count; i++)
        if (strcmp(kept->keys[i], key) == 0)
            return true;
    return false;
}

static void assert_sorted(const walk *kept)
{
    for (size_t i = 1; i < kept->count; i++)
        if (strcmp(kept->keys[i - 1], kept->keys[i]) >= 0)
            fail_msg("%s comes before %s", kept->keys[i - 1], kept->keys[i]);
}

/* ---- the numbers ----------------------------------------------------------------------------- */

/* The five requests of the reference's first worked example, and its numbers. */
static void five_requests_give_the_numbers_pytorch_gives(void **state)
{
    (void)state;
    fixture made = open_pool(NULL, NULL);
    allocated(made.pool, 1);
    allocated(made.pool, 1048576);
    allocated(made.pool, 1048577);
    allocated(made.pool, 10485760);
    allocated(made.pool, 10485761);
    vw_pool_stats stats = stats_of(made.pool);
    assert_int_equal(stats.allocated_bytes.all.current, 23070208);
    assert_int_equal(stats.requested_bytes.all.current, 23068675);
    assert_int_equal(stats.reserved_bytes.all.current, 35651584);
    assert_int_equal(stats.reserved_bytes.small_pool.current, 2 * MIB);
    assert_int_equal(stats.segment.all.current, 3);
    assert_int_equal(stats.inactive_split.all.current, 3);
    assert_stat(stats.inactive_split_bytes.all, 12581376, 20970496, 24115712, 11534336);
    assert_int_equal(stats.allocation.small_pool.current, 2);
    assert_int_equal(stats.allocation.large_pool.current, 3);
    assert_int_equal(stats.num_device_alloc, 3);
    assert_int_equal(stats.largest_free_block_bytes, 9436672);
    assert_int_equal(stats.max_split_size, -1);
    assert_int_equal(stats.limit_bytes, UINT64_MAX);
    assert_int_equal(vw_pool_check(made.pool), VW_OK);
    close_pool(made);
}

static void the_peak_of_all_is_not_the_sum_of_the_peaks(void **state)
{
    (void)state;
    fixture made = open_pool(NULL, NULL);
    vw_device_ptr small = allocated(made.pool, 512);
    assert_int_equal(vw_free(made.pool, small), VW_OK);
    vw_device_ptr large = allocated(made.pool, 12 * MIB);
    assert_int_equal(vw_free(made.pool, large), VW_OK);
    vw_pool_stats stats = stats_of(made.pool);
    assert_stat(stats.allocated_bytes.small_pool, 0, 512, 512, 512);
    assert_stat(stats.allocated_bytes.large_pool, 0, 12 * MIB, 12 * MIB, 12 * MIB);
    assert_stat(stats.allocated_bytes.all, 0, 12 * MIB, 12 * MIB + 512, 12 * MIB + 512);
    close_pool(made);
}

static void a_fraction_shows_as_the_limit(void **state)
{
    (void)state;
    fixture made = open_pool(NULL, NULL);
    assert_int_equal(vw_pool_set_fraction(made.pool, 0.25), VW_OK);
    assert_int_equal(stats_of(made.pool).limit_bytes, made.device->properties.total_bytes / 4);
    close_pool(made);
}

static void max_split_size_is_the_one_of_creation(void **state)
{
    (void)state;
    fixture made = open_pool(NULL, "max_split_size_mb:200");
    assert_int_equal(vw_pool_configure(made.pool, "max_split_size_mb:300"), VW_OK);
    assert_int_equal(stats_of(made.pool).max_split_size, 200 * MIB);
    vw_device_ptr oversize = allocated(made.pool, 310 * MIB);
    assert_stat(stats_of(made.pool).oversize_allocations, 1, 1, 1, 0);
    assert_stat(stats_of(made.pool).oversize_segments, 1, 1, 1, 0);
    assert_int_equal(vw_free(made.pool, oversize), VW_OK);
    assert_stat(stats_of(made.pool).oversize_allocations, 0, 1, 1, 1);
    close_pool(made);
}

/* ---- structs of other sizes ------------------------------------------------------------------ */

static void an_older_callers_struct_is_filled_to_its_size_and_no_further(void **state)
{
    (void)state;
    fixture made = open_pool(NULL, NULL);
    allocated(made.pool, 512);
    size_t sizes[] = {offsetof(vw_pool_stats, active_bytes), offsetof(vw_pool_stats, num_ooms),
                      sizeof(vw_pool_stats) - 3, sizeof(vw_pool_stats)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        vw_pool_stats stats;
        memset(&stats, 0xA5, sizeof stats);
        stats.struct_size = sizes[i];
        assert_int_equal(vw_pool_get_stats(made.pool, &stats), VW_OK);
        assert_int_equal(stats.struct_size, sizes[i]);
        assert_int_equal(stats.active.all.current, 1);
        for (size_t byte = sizes[i]; byte < sizeof stats; byte++)
            assert_int_equal(((unsigned char *)&stats)[byte], 0xA5);
    }
    close_pool(made);
}

static void a_newer_callers_struct_keeps_what_we_do_not_know(void **state)
{
    (void)state;
    fixture made = open_pool(NULL, NULL);
    struct {
        vw_pool_stats known;
        uint64_t unknown;
    } newer = {.known.struct_size = sizeof newer, .unknown = 77};
    assert_int_equal(vw_pool_get_stats(made.pool, &newer.known), VW_OK);
    assert_int_equal(newer.known.struct_size, sizeof newer);
    assert_int_equal(newer.known.limit_bytes, UINT64_MAX);
    assert_int_equal(newer.unknown, 77);
    close_pool(made);
}

static void a_struct_without_a_size_is_refused_and_untouched(void **state)
{
    (void)state;
    fixture made = open_pool(NULL, NULL);
    size_t sizes[] = {0, sizeof(size_t) - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        vw_pool_stats stats = {.struct_size = sizes[i], .active.all.current = 77};
        assert_int_equal(vw_pool_get_stats(made.pool, &stats), VW_ERR_INVALID_ARGUMENT);
        assert_int_equal(stats.active.all.current, 77);
    }
    assert_int_equal(vw_pool_get_stats(made.pool, NULL), VW_ERR_INVALID_ARGUMENT);
    vw_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_stats(NULL, &stats), VW_ERR_INVALID_ARGUMENT);
    close_pool(made);
}

/* ---- the keys -------------------------------------------------------------------------------- */

static void each_release_has_its_keys_in_pythons_order(void **state)
{
    (void)state;
    static const struct {
        const char *version;
        size_t count;
        bool has_max_split, has_requested, has_device_calls, has_rejections;
    } releases[] = {
        {"1.6", 98, false, false, false, false},  {"1.9", 98, false, false, false, false},
        {"1.10", 107, true, false, false, false}, {"1.13", 107, true, false, false, false},
        {"2.0", 119, true, true, false, false},   {"2.2", 119, true, true, false, false},
        {"2.3", 122, true, true, true, false},    {"2.11", 122, true, true, true, false},
        {"2.12", 123, true, true, true, true},    {"2.13", 123, true, true, true, true},
        {"2.15", 123, true, true, true, true},
    };
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        fixture made = open_pool(releases[i].version, NULL);
        const walk *kept = walk_of(made.pool);
        assert_int_equal(kept->count, releases[i].count);
        assert_sorted(kept);
        assert_string_equal(kept->keys[0], "active.all.allocated");
        assert_string_equal(kept->keys[kept->count - 1], "segment.small_pool.peak");
        assert_int_equal(has_key(kept, "max_split_size"), releases[i].has_max_split);
        assert_int_equal(has_key(kept, "oversize_segments.peak"), releases[i].has_max_split);
        assert_int_equal(has_key(kept, "requested_bytes.all.current"), releases[i].has_requested);
        assert_int_equal(has_key(kept, "num_device_free"), releases[i].has_device_calls);
        assert_int_equal(has_key(kept, "num_sync_all_streams"), releases[i].has_device_calls);
        assert_int_equal(has_key(kept, "num_oom_rejections"), releases[i].has_rejections);
        close_pool(made);
    }
}

/* Every number of the struct is different, so that no two can be exchanged unnoticed. */
static void every_key_has_the_number_of_its_name(void **state)
{
    (void)state;
    fixture made = open_pool("2.12", NULL);
    vw__counters *counters = &made.pool->counters;
    vw__counters untouched = *counters;
    int64_t number = 1000;
#define NUMBER(name)                                                                               \
    counters->name = (vw__counter){.current = {number + 1, number + 2},                            \
                                   .freed = {number + 3, number + 4},                              \
                                   .peak = {number + 5, number + 6},                               \
                                   .peak_all = number + 7,                                         \
                                   .base = {number - 8, number - 9}};                              \
    number += 1000;
    VW_STAT_GROUP_LIST(NUMBER)
    NUMBER(oversize_allocations)
    NUMBER(oversize_segments)
#undef NUMBER
    counters->num_alloc_retries = 1;
    counters->num_device_alloc = 2;
    counters->num_device_free = 3;
    counters->num_oom_rejections = 4;
    counters->num_ooms = 5;
    counters->num_sync_all_streams = 6;

    vw_pool_stats stats = stats_of(made.pool);
    const walk *kept = walk_of(made.pool);
    number = 1000;
#define CHECK_STAT(prefix, stat)                                                                   \
    assert_stat(stat, value_of(kept, prefix ".current"), value_of(kept, prefix ".peak"),           \
                value_of(kept, prefix ".allocated"), value_of(kept, prefix ".freed"))
#define CHECK(name)                                                                                \
    CHECK_STAT(#name ".all", stats.name.all);                                                      \
    CHECK_STAT(#name ".small_pool", stats.name.small_pool);                                        \
    CHECK_STAT(#name ".large_pool", stats.name.large_pool);                                        \
    assert_stat(stats.name.small_pool, number + 1, number + 5, number + 12, number + 3);           \
    assert_stat(stats.name.large_pool, number + 2, number + 6, number + 15, number + 4);           \
    assert_stat(stats.name.all, 2 * number + 3, number + 7, 2 * number + 27, 2 * number + 7);      \
    number += 1000;
    VW_STAT_GROUP_LIST(CHECK)
    CHECK_STAT("oversize_allocations", stats.oversize_allocations);
    CHECK_STAT("oversize_segments", stats.oversize_segments);
    assert_int_equal(stats.oversize_allocations.current, 20003);
    assert_int_equal(stats.oversize_segments.current, 22003);
#undef CHECK
#undef CHECK_STAT
    assert_int_equal(value_of(kept, "num_alloc_retries"), 1);
    assert_int_equal(value_of(kept, "num_device_alloc"), 2);
    assert_int_equal(value_of(kept, "num_device_free"), 3);
    assert_int_equal(value_of(kept, "num_oom_rejections"), 4);
    assert_int_equal(value_of(kept, "num_ooms"), 5);
    assert_int_equal(value_of(kept, "num_sync_all_streams"), 6);
    assert_int_equal(value_of(kept, "max_split_size"), -1);
    *counters = untouched;
    close_pool(made);
}

/* One request in each private pool: 20 MiB in the first, 40 MiB in the second, and so on. */
static void use_private_pools(vw_pool *pool, const vw_private_id *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(vw_private_pool_begin(pool, ids[i], NULL, NULL), VW_OK);
        allocated(pool, (i + 1) * 20 * MIB);
        assert_int_equal(vw_private_pool_end(pool, ids[i]), VW_OK);
    }
}

static const vw_private_id private_ids[] = {{1, 0}, {0, 2}, {10, 0}, {0, 10}, {0, 1}, {2, 0}};
enum { PRIVATE_COUNT = sizeof private_ids / sizeof *private_ids };

static void private_pools_come_by_name_after_the_reserved_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"0_1", "0_10", "0_2", "10_0", "1_0", "2_0"};
    static const int64_t sizes[] = {5, 4, 2, 3, 1, 6}; /* their place in private_ids */
    fixture made = open_pool("2.13", NULL);
    use_private_pools(made.pool, private_ids, PRIVATE_COUNT);
    const walk *kept = walk_of(made.pool);
    assert_int_equal(kept->count, 123 + 12 * PRIVATE_COUNT);
    assert_sorted(kept);
    size_t at = 0;
    while (strcmp(kept->keys[at], "reserved_bytes.small_pool.peak") != 0)
        at++;
    for (size_t i = 0; i < PRIVATE_COUNT; i++) {
        char key[128];
        snprintf(key, sizeof key, "reserved_bytes_by_private_pools.%s.all.allocated", names[i]);
        assert_string_equal(kept->keys[at + 1 + 12 * i], key);
        assert_int_equal(kept->values[at + 1 + 12 * i], sizes[i] * (int64_t)(20 * MIB));
    }
    assert_int_equal(value_of(kept, "reserved_bytes_by_private_pools.0_2.large_pool.current"),
                     40 * MIB);
    assert_int_equal(value_of(kept, "reserved_bytes_by_private_pools.0_2.small_pool.current"), 0);
    close_pool(made);
}

static void private_pools_are_not_shown_before_2_13(void **state)
{
    (void)state;
    fixture made = open_pool("2.12", NULL);
    use_private_pools(made.pool, private_ids, PRIVATE_COUNT);
    assert_int_equal(walk_of(made.pool)->count, 123);
    close_pool(made);
}

static void the_visitor_may_use_the_pool(void **state)
{
    (void)state;
    fixture made = open_pool(NULL, NULL);
    walk *kept = calloc(1, sizeof *kept);
    assert_non_null(kept);
    kept->pool = made.pool;
    assert_int_equal(vw_pool_walk_stats(made.pool, keep, kept), VW_OK);
    assert_int_equal(kept->count, 122);
    free(kept);
    assert_int_equal(vw_pool_walk_stats(made.pool, NULL, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_walk_stats(NULL, keep, NULL), VW_ERR_INVALID_ARGUMENT);
    close_pool(made);
}

static void count_a_key(void *context, const char *key, int64_t value)
{
    (void)key, (void)value;
    ++*(size_t *)context;
}

static bool walk_a_private_pool(void *context)
{
    (void)context;
    const vw_pool_options options = {.struct_size = sizeof options, .torch_version = "2.13"};
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    vw_device_ptr address;
    size_t count = 0;
    bool is_done = vw_simulated_device_create(NULL, &device) == VW_OK &&
                   vw_pool_create(device, &options, &pool) == VW_OK &&
                   vw_private_pool_begin(pool, private_ids[0], NULL, NULL) == VW_OK &&
                   vw_alloc(pool, 512, 0, &address) == VW_OK &&
                   vw_pool_walk_stats(pool, count_a_key, &count) == VW_OK;
    if (is_done ? count != 123 + 12 : count != 0)
        fail_msg("%zu keys were told", count);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return is_done;
}

static void a_walk_without_host_memory_tells_nothing_and_leaks_nothing(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(walk_a_private_pool, NULL);
}

/* ---- resets ---------------------------------------------------------------------------------- */

static void resetting_peaks_brings_them_down_to_the_present(void **state)
{
    (void)state;
    fixture made = open_pool("2.13", "max_split_size_mb:200");
    use_private_pools(made.pool, private_ids, 1);
    vw_device_ptr kept = allocated(made.pool, 512);
    vw_device_ptr gone = allocated(made.pool, 210 * MIB);
    vw_device_ptr also_gone = allocated(made.pool, 512);
    assert_int_equal(vw_free(made.pool, gone), VW_OK);
    assert_int_equal(vw_free(made.pool, also_gone), VW_OK);
    assert_int_equal(vw_pool_trim(made.pool), VW_OK);
    vw_pool_stats before = stats_of(made.pool);
    assert_int_equal(vw_pool_reset_peaks(made.pool), VW_OK);
    vw_pool_stats after = stats_of(made.pool);
#define CHECK_STAT(stat)                                                                           \
    assert_stat(after.stat, before.stat.current, before.stat.current, before.stat.allocated,       \
                before.stat.freed);
#define CHECK(name) CHECK_STAT(name.all) CHECK_STAT(name.small_pool) CHECK_STAT(name.large_pool)
    VW_STAT_GROUP_LIST(CHECK)
    CHECK_STAT(oversize_allocations)
    CHECK_STAT(oversize_segments)
#undef CHECK
#undef CHECK_STAT
    assert_int_equal(before.oversize_allocations.peak, 1);
    assert_int_equal(after.oversize_allocations.peak, 0);
    assert_int_equal(after.allocated_bytes.small_pool.peak, 512);
    made.pool->engine->private_stats->reserved_bytes.peak_all++; /* as if it had been more */
    assert_int_equal(vw_pool_reset_peaks(made.pool), VW_OK);
    assert_int_equal(value_of(walk_of(made.pool), "reserved_bytes_by_private_pools.1_0.all.peak"),
                     20 * MIB);
    assert_int_equal(vw_free(made.pool, kept), VW_OK);
    assert_int_equal(vw_pool_check(made.pool), VW_OK);
    close_pool(made);
}

static void resetting_accumulated_numbers_keeps_the_present_and_counts_from_zero(void **state)
{
    (void)state;
    fixture made = open_pool("2.13", NULL);
    use_private_pools(made.pool, private_ids, 1);
    vw_device_ptr first = allocated(made.pool, 512);
    vw_device_ptr second = allocated(made.pool, 1024);
    assert_int_equal(vw_free(made.pool, first), VW_OK);
    vw__counters *counters = &made.pool->counters;
    counters->num_alloc_retries = counters->num_ooms = counters->num_sync_all_streams = 7;
    counters->num_device_alloc = counters->num_device_free = counters->num_oom_rejections = 7;
    vw_pool_stats before = stats_of(made.pool);
    assert_int_equal(vw_pool_reset_accumulated(made.pool), VW_OK);
    vw_pool_stats after = stats_of(made.pool);
#define CHECK_STAT(stat) assert_stat(after.stat, before.stat.current, before.stat.peak, 0, 0);
#define CHECK(name) CHECK_STAT(name.all) CHECK_STAT(name.small_pool) CHECK_STAT(name.large_pool)
    VW_STAT_GROUP_LIST(CHECK)
    CHECK_STAT(oversize_allocations)
    CHECK_STAT(oversize_segments)
#undef CHECK
#undef CHECK_STAT
    assert_int_equal(after.num_alloc_retries, 0);
    assert_int_equal(after.num_ooms, 0);
    assert_int_equal(after.num_sync_all_streams, 0);
    assert_int_equal(after.num_device_alloc, 0);
    assert_int_equal(after.num_device_free, 0);
    assert_int_equal(after.num_oom_rejections, 0);
    const walk *kept = walk_of(made.pool);
    assert_int_equal(value_of(kept, "reserved_bytes_by_private_pools.1_0.all.allocated"), 0);
    assert_int_equal(value_of(kept, "reserved_bytes_by_private_pools.1_0.all.current"), 20 * MIB);

    assert_int_equal(vw_free(made.pool, second), VW_OK);
    allocated(made.pool, 512);
    vw_stat live = stats_of(made.pool).allocated_bytes.small_pool;
    assert_stat(live, 512, 1536, 512, 1024);
    assert_int_equal(vw_pool_check(made.pool), VW_OK);
    close_pool(made);
}

static void resets_refuse_no_pool(void **state)
{
    (void)state;
    assert_int_equal(vw_pool_reset_peaks(NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_reset_accumulated(NULL), VW_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_requests_give_the_numbers_pytorch_gives),
        cmocka_unit_test(the_peak_of_all_is_not_the_sum_of_the_peaks),
        cmocka_unit_test(a_fraction_shows_as_the_limit),
        cmocka_unit_test(max_split_size_is_the_one_of_creation),
        cmocka_unit_test(an_older_callers_struct_is_filled_to_its_size_and_no_further),
        cmocka_unit_test(a_newer_callers_struct_keeps_what_we_do_not_know),
        cmocka_unit_test(a_struct_without_a_size_is_refused_and_untouched),
        cmocka_unit_test(each_release_has_its_keys_in_pythons_order),
        cmocka_unit_test(every_key_has_the_number_of_its_name),
        cmocka_unit_test(private_pools_come_by_name_after_the_reserved_bytes),
        cmocka_unit_test(private_pools_are_not_shown_before_2_13),
        cmocka_unit_test(the_visitor_may_use_the_pool),
        cmocka_unit_test(a_walk_without_host_memory_tells_nothing_and_leaks_nothing),
        cmocka_unit_test(resetting_peaks_brings_them_down_to_the_present),
        cmocka_unit_test(resetting_accumulated_numbers_keeps_the_present_and_counts_from_zero),
        cmocka_unit_test(resets_refuse_no_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
