/* test_paged_late_work.c - work on streams runs long after the calls that allocated and freed its
 * memory, as on a GPU; whatever moves meanwhile, it finds its bytes.
 *
 * Random programs (support/late_program.h), some of each set-up here and thousands by `make
 * campaign`, and two cases by hand. */
#include "vramwise/vramwise.h"

#include "support/cmocka_here.h"
#include "support/late_device.h"
#include "support/late_program.h"
#include "support/pool_fixture.h"
#include "support/seeds.h"

enum { USUAL_SEEDS = 6 };

static vw_test_late_outcome run_seeds(const vw_test_late_setup *setup, vw_test_seeds seeds)
{
    vw_test_late_outcome sum = {.fault = ""};
    for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; seed++) {
        vw_test_late_program_run(setup, seed, &sum);
        if (sum.fault[0] != '\0')
            fail_msg("%s, seed %llu: %s", setup->name, (unsigned long long)seed, sum.fault);
    }
    print_message("%s: %llu served, %llu refused, %llu steps failed, %llu freed early, %llu freed "
                  "on request, %llu parks, %llu handles across streams, %llu bytes copied, %llu "
                  "spills, %llu returns, %llu bytes given back\n",
                  setup->name, (unsigned long long)sum.served, (unsigned long long)sum.refused,
                  (unsigned long long)sum.failures, (unsigned long long)sum.late_frees,
                  (unsigned long long)sum.rooms, (unsigned long long)sum.parks,
                  (unsigned long long)sum.paged.crossed_handles,
                  (unsigned long long)sum.paged.copied_bytes, (unsigned long long)sum.paged.spills,
                  (unsigned long long)sum.paged.returns,
                  (unsigned long long)sum.paged.given_back_bytes);
    return sum;
}

/* The programs do what their set-up is for. */
static void late_work_finds_its_bytes_whatever_moves(void **state)
{
    (void)state;
    const vw_test_seeds seeds = vw_test_choose_seeds(USUAL_SEEDS);
    for (size_t i = 0; i < vw_test_late_setup_count; i++) {
        const vw_test_late_setup *setup = &vw_test_late_setups[i];
        bool is_paged = setup->engine[0] == 'v';
        vw_test_late_outcome sum = run_seeds(setup, seeds);
        assert_true(sum.late_frees > sum.served / 2);
        assert_true((sum.paged.crossed_handles != 0) == is_paged);
        assert_true((sum.parks != 0) == setup->has_safe_point);
        assert_true((sum.paged.copied_bytes != 0) == setup->has_safe_point);
        assert_true((sum.paged.spills != 0) == (setup->spill_bytes != 0));
        assert_true((sum.paged.returns != 0) == (setup->spill_bytes != 0) || setup->fails);
        assert_true((sum.paged.given_back_bytes != 0) == setup->gives_back);
        assert_true(!setup->has_make_room || sum.rooms != 0);
    }
}

/* ---- by hand --------------------------------------------------------------------------------- */

static vw_device *host;

static vw_pool *open_pool(uint64_t capacity_bytes)
{
    vw_pool *pool = NULL;
    assert_int_equal(vw_host_device_create(capacity_bytes, &host), VW_OK);
    const vw_pool_options options = {
        .struct_size = sizeof options, .engine = "vramwise", .is_unlisted = true};
    assert_int_equal(vw_pool_create(vw_test_late_begin(host), &options, &pool), VW_OK);
    return pool;
}

static void close_pool(vw_pool *pool)
{
    vw_device_calls calls;
    vw_pool_destroy(pool);
    vw_test_late_run_all();
    assert_int_equal(vw_test_late_wrong_marks(), 0);
    assert_int_equal(vw_device_get_calls(host, &calls), VW_OK);
    assert_int_equal(calls.in_use_bytes, 0);
    vw_test_late_end();
    vw_device_destroy(host);
}

static vw_device_ptr take(vw_pool *pool, uint64_t size_bytes, vw_stream stream, uint64_t key)
{
    vw_device_ptr address = VW_NULL;
    assert_int_equal(vw_alloc(pool, size_bytes, stream, &address), VW_OK);
    vw_test_late_write(stream, address, size_bytes, key);
    return address;
}

/* The last work of a block begins after its memory has a new owner. */
static void work_that_begins_after_its_memory_moved_reads_through_the_old_address(void **state)
{
    (void)state;
    const uint64_t size_bytes = 15 * VW_TEST_MIB;
    vw_paged_stats stats = {.struct_size = sizeof stats};
    vw_pool *pool = open_pool(16 * VW_TEST_MIB);
    vw_device_ptr old_address = take(pool, size_bytes, 0, 1);
    vw_test_late_look(0, old_address, size_bytes, 1);
    assert_int_equal(vw_free(pool, old_address), VW_OK);
    vw_device_ptr address = take(pool, size_bytes, 1, 2); /* its write waits for stream 0 */
    assert_int_equal(vw_pool_get_paged_stats(pool, &stats), VW_OK);
    assert_true(stats.crossed_handles > 0);
    assert_true(address != old_address);
    while (vw_test_late_run_one(1)) /* as far as it can: the write has not run */
        continue;
    assert_true(vw_test_late_waiting() > 0);
    const unsigned char *byte = (const unsigned char *)(uintptr_t)old_address;
    assert_int_equal(*byte, 0); /* mapped, and nobody has written it yet */
    while (vw_test_late_run_one(0))
        continue;
    assert_int_equal(vw_test_late_wrong_marks(), 0);
    vw_test_late_run_all();
    vw_test_late_look(1, address, size_bytes, 2);
    close_pool(pool);
}

/* An unmapping would not wait. */
static void the_end_of_a_pool_waits_for_work(void **state)
{
    (void)state;
    const uint64_t size_bytes = 5 * VW_TEST_MIB;
    vw_device_ptr address = VW_NULL;
    vw_pool *pool = open_pool(40 * VW_TEST_MIB);
    for (vw_stream stream = 0; stream < VW_TEST_LATE_STREAMS; stream++) {
        address = take(pool, size_bytes, stream, stream);
        vw_test_late_look(stream, address, size_bytes, stream);
    }
    assert_int_equal(vw_free(pool, address), VW_OK);
    close_pool(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_work_finds_its_bytes_whatever_moves),
        cmocka_unit_test(work_that_begins_after_its_memory_moved_reads_through_the_old_address),
        cmocka_unit_test(the_end_of_a_pool_waits_for_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
