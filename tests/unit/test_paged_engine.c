/* test_paged_engine.c - engine "vramwise" from outside: what a hit costs and which block it takes,
 * how far the pool grows, and which options it refuses. */
#include "engine/paged/paged_engine.h"

#include <math.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/pool_layout.h"

#define UNIT (2 * VW_TEST_MIB)

/* Hardly any idle memory: every miss that can be served by a move is. */
static const vw_test_pool_setup tiny = {
    .engine = "vramwise", .idle_share = 0.0001, .idle_floor_bytes = UNIT};

static uint64_t all_calls(const vw_test_pool *t)
{
    vw_device_calls calls = vw_test_calls(t);
    uint64_t total = 0;
    for (int kind = 0; kind < VW_DEVICE_CALL_KINDS; kind++)
        total += calls.count[kind];
    return total;
}

static vw_paged_stats paged_stats(const vw_test_pool *t)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(t->pool, &stats), VW_OK);
    return stats;
}

static int64_t reserved_bytes(const vw_test_pool *t)
{
    return vw_test_stats(t).reserved_bytes.all.current;
}

/* ---- hits ------------------------------------------------------------------------------------ */

static void a_hit_makes_no_device_call(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, &tiny);
    vw_test_free(&t, vw_test_alloc(&t, 30 * VW_TEST_MIB));
    vw_test_free(&t, vw_test_alloc(&t, 700));
    uint64_t calls = all_calls(&t), misses = paged_stats(&t).misses;
    for (uint64_t size_bytes = 1; size_bytes <= 30 * VW_TEST_MIB; size_bytes = size_bytes * 3 + 1) {
        vw_device_ptr first = vw_test_alloc(&t, size_bytes);
        vw_device_ptr second = vw_test_alloc(&t, 512);
        vw_test_free(&t, first);
        vw_test_free(&t, second);
    }
    assert_int_equal(all_calls(&t), calls);
    assert_int_equal(paged_stats(&t).misses, misses);
    vw_test_pool_close(&t);
}

static void the_smallest_hole_that_fits_is_taken_the_lowest_among_equals(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_device_ptr blocks[8];
    const uint64_t sizes[8] = {40960, 512, 8192, 512, 16384, 512, 8192, 512};
    vw_test_pool_open(&t, &tiny);
    for (int i = 0; i < 8; i++)
        blocks[i] = vw_test_alloc(&t, sizes[i]);
    for (int i = 6; i >= 0; i -= 2)
        vw_test_free(&t, blocks[i]);
    assert_int_equal(vw_test_alloc(&t, 8000), blocks[2]);
    assert_int_equal(vw_test_alloc(&t, 8192), blocks[6]);
    assert_int_equal(vw_test_alloc(&t, 8193), blocks[4]);
    assert_int_equal(vw_test_alloc(&t, 7000), blocks[4] + 8704); /* the rest of it: 7680 */
    assert_int_equal(vw_test_alloc(&t, 7000), blocks[0]);
    vw_test_pool_close(&t);
}

static void blocks_are_multiples_of_512_bytes_and_merge_both_ways(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, &tiny);
    assert_int_equal(vw_test_served_bytes(&t, 1), 512);
    assert_int_equal(vw_test_served_bytes(&t, 513), 1024);
    assert_int_equal(vw_test_served_bytes(&t, 3 * VW_TEST_MIB + 1), 3 * VW_TEST_MIB + 512);
    vw_test_pool_close(&t);
    vw_test_pool_open(&t, &tiny);
    vw_device_ptr a = vw_test_alloc(&t, 512), b = vw_test_alloc(&t, 512),
                  c = vw_test_alloc(&t, 512);
    vw_test_free(&t, a);
    vw_test_free(&t, c);
    vw_test_expect_blocks(&t, VW_TEST_FREE(a, 512), VW_TEST_LIVE(b, 512),
                          VW_TEST_FREE(c, UNIT - 1024));
    vw_test_free(&t, b);
    vw_test_expect_blocks(&t, VW_TEST_FREE(a, UNIT));
    vw_test_pool_close(&t);
}

/* ---- growth ---------------------------------------------------------------------------------- */

/* 64 MiB on one stream, then on the other: the same memory, but for the idle share of the peak. */
static void check_growth(double idle_share, uint64_t floor_bytes, uint64_t most_bytes,
                         uint64_t least_bytes)
{
    vw_test_pool t;
    vw_test_pool_open(&t, &(vw_test_pool_setup){.engine = "vramwise",
                                                .idle_share = idle_share,
                                                .idle_floor_bytes = floor_bytes});
    for (int round = 0; round < 3; round++)
        for (vw_stream stream = 0; stream < 3; stream++)
            vw_test_free(&t, vw_test_alloc_on(&t, 64 * VW_TEST_MIB, stream));
    assert_in_range(vw_test_stats(&t).reserved_bytes.all.peak, least_bytes, most_bytes);
    assert_int_equal(vw_test_calls(&t).peak_use_bytes, vw_test_stats(&t).reserved_bytes.all.peak);
    vw_test_pool_close(&t);
}

static void growth_ends_at_the_peak_of_what_was_live_and_a_share_of_it(void **state)
{
    (void)state;
    check_growth(0.0001, UNIT, 66 * VW_TEST_MIB, 64 * VW_TEST_MIB);
    check_growth(0.0001, 8 * VW_TEST_MIB, 72 * VW_TEST_MIB, 64 * VW_TEST_MIB);
    check_growth(0.25, UNIT, 80 * VW_TEST_MIB, 80 * VW_TEST_MIB);
    check_growth(0, 0, 80 * VW_TEST_MIB, 80 * VW_TEST_MIB); /* the floor of 16 MiB */
    check_growth(1.0, UNIT, 128 * VW_TEST_MIB, 128 * VW_TEST_MIB);
}

/* What is live at once is counted over all streams, and stays the peak when it is freed. */
static void within_the_share_nothing_moves(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, &(vw_test_pool_setup){.engine = "vramwise"});
    vw_test_free(&t, vw_test_alloc_on(&t, 12 * VW_TEST_MIB, 0));
    vw_test_free(&t, vw_test_alloc_on(&t, 12 * VW_TEST_MIB, 1));
    assert_int_equal(reserved_bytes(&t), 24 * VW_TEST_MIB);
    assert_int_equal(paged_stats(&t).moved_handles, 0);
    vw_test_free(&t, vw_test_alloc_on(&t, 12 * VW_TEST_MIB, 2));
    assert_true(paged_stats(&t).moved_handles > 0);
    assert_in_range(reserved_bytes(&t), 24 * VW_TEST_MIB, 28 * VW_TEST_MIB);
    vw_test_pool_close(&t);
}

static void a_request_that_failed_is_no_peak(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_setup setup = tiny;
    setup.capacity_bytes = 256 * VW_TEST_MIB;
    vw_test_pool_open(&t, &setup);
    vw_test_free(&t, vw_test_alloc_on(&t, 32 * VW_TEST_MIB, 0));
    vw_test_alloc_fails(&t, 300 * VW_TEST_MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_trim(&t);
    for (vw_stream stream = 0; stream < 4; stream++)
        vw_test_free(&t, vw_test_alloc_on(&t, 32 * VW_TEST_MIB, stream));
    assert_in_range(reserved_bytes(&t), 32 * VW_TEST_MIB, 34 * VW_TEST_MIB);
    vw_test_pool_close(&t);
}

/* ---- options --------------------------------------------------------------------------------- */

static void check_refused(vw_pool_options options, vw_status expected, const char *text)
{
    vw_simulated_options simulated = {.struct_size = sizeof simulated,
                                      .capacity_bytes = VW_TEST_GIB};
    for (int is_without = 0; is_without < 2; is_without++) {
        vw_device *device = NULL;
        vw_pool *pool = NULL;
        simulated.without_virtual_memory = is_without != 0;
        assert_int_equal(vw_simulated_device_create(&simulated, &device), VW_OK);
        options.struct_size = sizeof options;
        vw_status status = vw_pool_create(device, &options, &pool);
        if (status != expected || strstr(vw_last_error(), text) == NULL)
            fail_msg("%s: \"%s\", expected \"%s\"", vw_status_name(status), vw_last_error(), text);
        assert_null(pool);
        vw_device_destroy(device);
    }
}

static void impossible_options_are_refused_with_a_reason(void **state)
{
    (void)state;
    const vw_status invalid = VW_ERR_INVALID_ARGUMENT;
    check_refused((vw_pool_options){.engine = "vramwise:fast"}, invalid, "vramwise:fast");
    check_refused((vw_pool_options){.engine = "vramwise:"}, invalid, "vramwise:rescue");
    check_refused((vw_pool_options){.engine = "Vramwise"}, invalid, "Vramwise");
    check_refused((vw_pool_options){.engine = ""}, invalid, "unknown engine");
    check_refused((vw_pool_options){.engine = "vramwise", .idle_share = -1}, invalid, "-1");
    check_refused((vw_pool_options){.engine = "vramwise", .idle_share = 2}, invalid, "of 2,");
    check_refused((vw_pool_options){.engine = "vramwise", .idle_share = NAN}, invalid, "nan");
    check_refused((vw_pool_options){.engine = "vramwise:tight", .idle_share = INFINITY}, invalid,
                  "inf");
    check_refused(
        (vw_pool_options){.engine = "vramwise:rescue", .idle_floor_bytes = VW_TEST_GIB + 1},
        invalid, "1073741825");
    check_refused((vw_pool_options){.engine = "vramwise", .conf = "backend:cudaMallocAsync"},
                  invalid, "cudaMallocAsync");
    check_refused((vw_pool_options){.engine = "vramwise", .conf = "no_such_key:1"},
                  VW_ERR_BAD_SETTING, "no_such_key");
}

/* The simulated device can share where it has virtual memory, so its ability is taken away. */
static void sharing_is_refused_where_the_device_cannot(void **state)
{
    (void)state;
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    const vw_pool_options options = {
        .struct_size = sizeof options, .engine = "vramwise", .is_shareable = true};
    assert_int_equal(vw_simulated_device_create(NULL, &device), VW_OK);
    bool could_share = device->properties.has_shareable_handles;
    device->properties.has_shareable_handles = false;
    assert_int_equal(vw_pool_create(device, &options, &pool), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "simulated"));
    device->properties.has_shareable_handles = could_share;
    if (could_share) {
        vw_device_ptr block = VW_NULL;
        assert_int_equal(vw_pool_create(device, &options, &pool), VW_OK);
        assert_int_equal(vw_alloc(pool, 5 * VW_TEST_MIB, 0, &block), VW_OK);
        vw_pool_destroy(pool);
    }
    vw_device_destroy(device);
}

static void every_mode_has_its_name(void **state)
{
    static const char *const names[] = {"vramwise", "vramwise:rescue", "vramwise:tight"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        vw_test_pool t;
        vw_test_pool_open(&t, &(vw_test_pool_setup){.engine = names[i]});
        vw_test_free(&t, vw_test_alloc(&t, 5 * VW_TEST_MIB));
        assert_false(paged_stats(&t).is_fallback);
        assert_false(paged_stats(&t).is_failed);
        assert_int_equal(paged_stats(&t).misses, 1);
        vw_test_pool_close(&t);
    }
}

static void the_memory_fraction_of_conf_is_heeded(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(
        &t, &(vw_test_pool_setup){.engine = "vramwise",
                                  .torch_version = "2.13",
                                  .conf = "per_process_memory_fraction:0.25,max_split_size_mb:64"});
    assert_int_equal(vw_test_stats(&t).limit_bytes, VW_TEST_GIB / 4);
    vw_test_free(&t, vw_test_alloc(&t, 256 * VW_TEST_MIB));
    vw_test_alloc_fails(&t, 256 * VW_TEST_MIB + 1, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_ok(&t, vw_pool_set_fraction(t.pool, 0.5));
    vw_test_free(&t, vw_test_alloc(&t, 256 * VW_TEST_MIB + 1));
    vw_test_refused(&t, vw_pool_set_fraction(t.pool, 1.5), VW_ERR_INVALID_ARGUMENT);
    vw_test_pool_close(&t);
}

static void without_virtual_memory_plain_segments_serve_and_say_so(void **state)
{
    (void)state;
    const vw_simulated_options simulated = {.struct_size = sizeof simulated,
                                            .capacity_bytes = VW_TEST_GIB,
                                            .without_virtual_memory = true};
    const vw_pool_options options = {.struct_size = sizeof options, .engine = "vramwise:tight"};
    vw_test_pool t = {.pool = NULL};
    assert_int_equal(vw_simulated_device_create(&simulated, &t.device), VW_OK);
    assert_int_equal(vw_pool_create(t.device, &options, &t.pool), VW_OK);
    vw_device_ptr block = vw_test_alloc(&t, 30 * VW_TEST_MIB);
    assert_int_equal(vw_test_call_count(&t, VW_DEVICE_CALL_TAKE), 1);
    vw_paged_stats stats = paged_stats(&t);
    assert_true(stats.is_fallback);
    assert_false(stats.is_failed);
    vw_test_ok(&t, vw_pool_pin(t.pool, block));
    vw_test_free(&t, block);
    vw_test_ok(&t, vw_pool_unpin(t.pool, block));
    vw_test_pool_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hit_makes_no_device_call),
        cmocka_unit_test(the_smallest_hole_that_fits_is_taken_the_lowest_among_equals),
        cmocka_unit_test(blocks_are_multiples_of_512_bytes_and_merge_both_ways),
        cmocka_unit_test(growth_ends_at_the_peak_of_what_was_live_and_a_share_of_it),
        cmocka_unit_test(within_the_share_nothing_moves),
        cmocka_unit_test(a_request_that_failed_is_no_peak),
        cmocka_unit_test(impossible_options_are_refused_with_a_reason),
        cmocka_unit_test(sharing_is_refused_where_the_device_cannot),
        cmocka_unit_test(every_mode_has_its_name),
        cmocka_unit_test(the_memory_fraction_of_conf_is_heeded),
        cmocka_unit_test(without_virtual_memory_plain_segments_serve_and_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
