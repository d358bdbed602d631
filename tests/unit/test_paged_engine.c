/* test_paged_engine.c - engine "headroom" from outside: what a hit costs and which block it takes,
 * how far the pool grows, and which options it refuses. */
#include "engine/paged/paged_engine.h"

#include <math.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/pool_layout.h"

#define UNIT (2 * HR_TEST_MIB)

/* Hardly any idle memory: every miss that can be served by a move is. */
static const hr_test_pool_setup tiny = {
    .engine = "headroom", .idle_share = 0.0001, .idle_floor_bytes = UNIT};

static uint64_t all_calls(const hr_test_pool *t)
{
    hr_device_calls calls = hr_test_calls(t);
    uint64_t total = 0;
    for (int kind = 0; kind < HR_DEVICE_CALL_KINDS; kind++)
        total += calls.count[kind];
    return total;
}

static hr_paged_stats paged_stats(const hr_test_pool *t)
{
    hr_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(hr_pool_get_paged_stats(t->pool, &stats), HR_OK);
    return stats;
}

static int64_t reserved_bytes(const hr_test_pool *t)
{
    return hr_test_stats(t).reserved_bytes.all.current;
}

/* ---- hits ------------------------------------------------------------------------------------ */

static void a_hit_makes_no_device_call(void **state)
{
    (void)state;
    hr_test_pool t;
    hr_test_pool_open(&t, &tiny);
    hr_test_free(&t, hr_test_alloc(&t, 30 * HR_TEST_MIB));
    hr_test_free(&t, hr_test_alloc(&t, 700));
    uint64_t calls = all_calls(&t), misses = paged_stats(&t).misses;
    for (uint64_t size_bytes = 1; size_bytes <= 30 * HR_TEST_MIB; size_bytes = size_bytes * 3 + 1) {
        hr_device_ptr first = hr_test_alloc(&t, size_bytes);
        hr_device_ptr second = hr_test_alloc(&t, 512);
        hr_test_free(&t, first);
        hr_test_free(&t, second);
    }
    assert_int_equal(all_calls(&t), calls);
    assert_int_equal(paged_stats(&t).misses, misses);
    hr_test_pool_close(&t);
}

static void the_smallest_hole_that_fits_is_taken_the_lowest_among_equals(void **state)
{
    (void)state;
    hr_test_pool t;
    hr_device_ptr blocks[8];
    const uint64_t sizes[8] = {40960, 512, 8192, 512, 16384, 512, 8192, 512};
    hr_test_pool_open(&t, &tiny);
    for (int i = 0; i < 8; i++)
        blocks[i] = hr_test_alloc(&t, sizes[i]);
    for (int i = 6; i >= 0; i -= 2)
        hr_test_free(&t, blocks[i]);
    assert_int_equal(hr_test_alloc(&t, 8000), blocks[2]);
    assert_int_equal(hr_test_alloc(&t, 8192), blocks[6]);
    assert_int_equal(hr_test_alloc(&t, 8193), blocks[4]);
    assert_int_equal(hr_test_alloc(&t, 7000), blocks[4] + 8704); /* the rest of it: 7680 */
    assert_int_equal(hr_test_alloc(&t, 7000), blocks[0]);
    hr_test_pool_close(&t);
}

static void blocks_are_multiples_of_512_bytes_and_merge_both_ways(void **state)
{
    (void)state;
    hr_test_pool t;
    hr_test_pool_open(&t, &tiny);
    assert_int_equal(hr_test_served_bytes(&t, 1), 512);
    assert_int_equal(hr_test_served_bytes(&t, 513), 1024);
    assert_int_equal(hr_test_served_bytes(&t, 3 * HR_TEST_MIB + 1), 3 * HR_TEST_MIB + 512);
    hr_test_pool_close(&t);
    hr_test_pool_open(&t, &tiny);
    hr_device_ptr a = hr_test_alloc(&t, 512), b = hr_test_alloc(&t, 512),
                  c = hr_test_alloc(&t, 512);
    hr_test_free(&t, a);
    hr_test_free(&t, c);
    hr_test_expect_blocks(&t, HR_TEST_FREE(a, 512), HR_TEST_LIVE(b, 512),
                          HR_TEST_FREE(c, UNIT - 1024));
    hr_test_free(&t, b);
    hr_test_expect_blocks(&t, HR_TEST_FREE(a, UNIT));
    hr_test_pool_close(&t);
}

/* ---- growth ---------------------------------------------------------------------------------- */

/* 64 MiB on one stream, then on the other: the same memory, but for the idle share of the peak. */
static void check_growth(double idle_share, uint64_t floor_bytes, uint64_t most_bytes,
                         uint64_t least_bytes)
{
    hr_test_pool t;
    hr_test_pool_open(&t, &(hr_test_pool_setup){.engine = "headroom",
                                                .idle_share = idle_share,
                                                .idle_floor_bytes = floor_bytes});
    for (int round = 0; round < 3; round++)
        for (hr_stream stream = 0; stream < 3; stream++)
            hr_test_free(&t, hr_test_alloc_on(&t, 64 * HR_TEST_MIB, stream));
    assert_in_range(hr_test_stats(&t).reserved_bytes.all.peak, least_bytes, most_bytes);
    assert_int_equal(hr_test_calls(&t).peak_use_bytes, hr_test_stats(&t).reserved_bytes.all.peak);
    hr_test_pool_close(&t);
}

static void growth_ends_at_the_peak_of_what_was_live_and_a_share_of_it(void **state)
{
    (void)state;
    check_growth(0.0001, UNIT, 66 * HR_TEST_MIB, 64 * HR_TEST_MIB);
    check_growth(0.0001, 8 * HR_TEST_MIB, 72 * HR_TEST_MIB, 64 * HR_TEST_MIB);
    check_growth(0.25, UNIT, 80 * HR_TEST_MIB, 80 * HR_TEST_MIB);
    check_growth(0, 0, 80 * HR_TEST_MIB, 80 * HR_TEST_MIB); /* the floor of 16 MiB */
    check_growth(1.0, UNIT, 128 * HR_TEST_MIB, 128 * HR_TEST_MIB);
}

/* What is live at once is counted over all streams, and stays the peak when it is freed. */
static void within_the_share_nothing_moves(void **state)
{
    (void)state;
    hr_test_pool t;
    hr_test_pool_open(&t, &(hr_test_pool_setup){.engine = "headroom"});
    hr_test_free(&t, hr_test_alloc_on(&t, 12 * HR_TEST_MIB, 0));
    hr_test_free(&t, hr_test_alloc_on(&t, 12 * HR_TEST_MIB, 1));
    assert_int_equal(reserved_bytes(&t), 24 * HR_TEST_MIB);
    assert_int_equal(paged_stats(&t).moved_handles, 0);
    hr_test_free(&t, hr_test_alloc_on(&t, 12 * HR_TEST_MIB, 2));
    assert_true(paged_stats(&t).moved_handles > 0);
    assert_in_range(reserved_bytes(&t), 24 * HR_TEST_MIB, 28 * HR_TEST_MIB);
    hr_test_pool_close(&t);
}

static void a_request_that_failed_is_no_peak(void **state)
{
    (void)state;
    hr_test_pool t;
    hr_test_pool_setup setup = tiny;
    setup.capacity_bytes = 256 * HR_TEST_MIB;
    hr_test_pool_open(&t, &setup);
    hr_test_free(&t, hr_test_alloc_on(&t, 32 * HR_TEST_MIB, 0));
    hr_test_alloc_fails(&t, 300 * HR_TEST_MIB, 0, HR_ERR_OUT_OF_MEMORY);
    hr_test_trim(&t);
    for (hr_stream stream = 0; stream < 4; stream++)
        hr_test_free(&t, hr_test_alloc_on(&t, 32 * HR_TEST_MIB, stream));
    assert_in_range(reserved_bytes(&t), 32 * HR_TEST_MIB, 34 * HR_TEST_MIB);
    hr_test_pool_close(&t);
}

/* ---- options --------------------------------------------------------------------------------- */

static void check_refused(hr_pool_options options, hr_status expected, const char *text)
{
    hr_simulated_options simulated = {.struct_size = sizeof simulated,
                                      .capacity_bytes = HR_TEST_GIB};
    for (int is_without = 0; is_without < 2; is_without++) {
        hr_device *device = NULL;
        hr_pool *pool = NULL;
        simulated.without_virtual_memory = is_without != 0;
        assert_int_equal(hr_simulated_device_create(&simulated, &device), HR_OK);
        options.struct_size = sizeof options;
        hr_status status = hr_pool_create(device, &options, &pool);
        if (status != expected || strstr(hr_last_error(), text) == NULL)
            fail_msg("%s: \"%s\", expected \"%s\"", hr_status_name(status), hr_last_error(), text);
        assert_null(pool);
        hr_device_destroy(device);
    }
}

static void impossible_options_are_refused_with_a_reason(void **state)
{
    (void)state;
    const hr_status invalid = HR_ERR_INVALID_ARGUMENT;
    check_refused((hr_pool_options){.engine = "headroom:fast"}, invalid, "headroom:fast");
    check_refused((hr_pool_options){.engine = "headroom:"}, invalid, "headroom:rescue");
    check_refused((hr_pool_options){.engine = "Headroom"}, invalid, "Headroom");
    check_refused((hr_pool_options){.engine = ""}, invalid, "unknown engine");
    check_refused((hr_pool_options){.engine = "headroom", .idle_share = -1}, invalid, "-1");
    check_refused((hr_pool_options){.engine = "headroom", .idle_share = 2}, invalid, "of 2,");
    check_refused((hr_pool_options){.engine = "headroom", .idle_share = NAN}, invalid, "nan");
    check_refused((hr_pool_options){.engine = "headroom:tight", .idle_share = INFINITY}, invalid,
                  "inf");
    check_refused(
        (hr_pool_options){.engine = "headroom:rescue", .idle_floor_bytes = HR_TEST_GIB + 1},
        invalid, "1073741825");
    check_refused((hr_pool_options){.engine = "headroom", .conf = "backend:cudaMallocAsync"},
                  invalid, "cudaMallocAsync");
    check_refused((hr_pool_options){.engine = "headroom", .conf = "no_such_key:1"},
                  HR_ERR_BAD_SETTING, "no_such_key");
}

/* The simulated device can share where it has virtual memory, so its ability is taken away. */
static void sharing_is_refused_where_the_device_cannot(void **state)
{
    (void)state;
    hr_device *device = NULL;
    hr_pool *pool = NULL;
    const hr_pool_options options = {
        .struct_size = sizeof options, .engine = "headroom", .is_shareable = true};
    assert_int_equal(hr_simulated_device_create(NULL, &device), HR_OK);
    bool could_share = device->properties.has_shareable_handles;
    device->properties.has_shareable_handles = false;
    assert_int_equal(hr_pool_create(device, &options, &pool), HR_ERR_UNSUPPORTED);
    assert_non_null(strstr(hr_last_error(), "simulated"));
    device->properties.has_shareable_handles = could_share;
    if (could_share) {
        hr_device_ptr block = HR_NULL;
        assert_int_equal(hr_pool_create(device, &options, &pool), HR_OK);
        assert_int_equal(hr_alloc(pool, 5 * HR_TEST_MIB, 0, &block), HR_OK);
        hr_pool_destroy(pool);
    }
    hr_device_destroy(device);
}

static void every_mode_has_its_name(void **state)
{
    static const char *const names[] = {"headroom", "headroom:rescue", "headroom:tight"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        hr_test_pool t;
        hr_test_pool_open(&t, &(hr_test_pool_setup){.engine = names[i]});
        hr_test_free(&t, hr_test_alloc(&t, 5 * HR_TEST_MIB));
        assert_false(paged_stats(&t).is_fallback);
        assert_false(paged_stats(&t).is_failed);
        assert_int_equal(paged_stats(&t).misses, 1);
        hr_test_pool_close(&t);
    }
}

static void the_memory_fraction_of_conf_is_heeded(void **state)
{
    (void)state;
    hr_test_pool t;
    hr_test_pool_open(
        &t, &(hr_test_pool_setup){.engine = "headroom",
                                  .torch_version = "2.13",
                                  .conf = "per_process_memory_fraction:0.25,max_split_size_mb:64"});
    assert_int_equal(hr_test_stats(&t).limit_bytes, HR_TEST_GIB / 4);
    hr_test_free(&t, hr_test_alloc(&t, 256 * HR_TEST_MIB));
    hr_test_alloc_fails(&t, 256 * HR_TEST_MIB + 1, 0, HR_ERR_OUT_OF_MEMORY);
    hr_test_ok(&t, hr_pool_set_fraction(t.pool, 0.5));
    hr_test_free(&t, hr_test_alloc(&t, 256 * HR_TEST_MIB + 1));
    hr_test_refused(&t, hr_pool_set_fraction(t.pool, 1.5), HR_ERR_INVALID_ARGUMENT);
    hr_test_pool_close(&t);
}

static void without_virtual_memory_plain_segments_serve_and_say_so(void **state)
{
    (void)state;
    const hr_simulated_options simulated = {.struct_size = sizeof simulated,
                                            .capacity_bytes = HR_TEST_GIB,
                                            .without_virtual_memory = true};
    const hr_pool_options options = {.struct_size = sizeof options, .engine = "headroom:tight"};
    hr_test_pool t = {.pool = NULL};
    assert_int_equal(hr_simulated_device_create(&simulated, &t.device), HR_OK);
    assert_int_equal(hr_pool_create(t.device, &options, &t.pool), HR_OK);
    hr_device_ptr block = hr_test_alloc(&t, 30 * HR_TEST_MIB);
    assert_int_equal(hr_test_call_count(&t, HR_DEVICE_CALL_TAKE), 1);
    hr_paged_stats stats = paged_stats(&t);
    assert_true(stats.is_fallback);
    assert_false(stats.is_failed);
    hr_test_ok(&t, hr_pool_pin(t.pool, block));
    hr_test_free(&t, block);
    hr_test_ok(&t, hr_pool_unpin(t.pool, block));
    hr_test_pool_close(&t);
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
