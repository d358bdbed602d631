/* test_pool_devices.c - several GPUs in one process, on the fake driver: pools work whatever device
 * is current, and open their memory to peers. */
#include "headroom/headroom.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda_driver_load.h"

#include "contract/device_contract.h" /* assert_ok, assert_status, assert_last_error_has */
#include "support/cmocka_here.h"
#include "support/device_spy.h"
#include "support/fake_cuda_state.h"

#define MIB (UINT64_C(1) << 20)

static const struct {
    const char *engine, *conf;
    bool is_plain; /* serves out of plain memory, which has no mappings */
} engines[] = {
    {"torch", "", true},
    {"torch", "expandable_segments:True", false},
    {"headroom", "", false},
    {"headroom:tight", "", false},
};
enum { ENGINES = sizeof engines / sizeof engines[0] };

static bool always(void *context)
{
    (void)context;
    return true;
}

static void leave(void *context)
{
    (void)context;
}

static hr_pool *make_pool(hr_device *device, size_t engine, bool is_shareable)
{
    const hr_pool_options options = {.struct_size = sizeof options,
                                     .engine = engines[engine].engine,
                                     .conf = engines[engine].conf,
                                     .safe_point = {always, leave, NULL},
                                     .idle_floor_bytes = 2 * MIB,
                                     .is_shareable = is_shareable && !engines[engine].is_plain};
    hr_pool *pool = NULL;
    assert_ok(hr_pool_create(device, &options, &pool));
    return pool;
}

static hr_device_ptr take(hr_pool *pool, uint64_t size_bytes, hr_stream stream)
{
    hr_device_ptr address = HR_NULL;
    assert_ok(hr_alloc(pool, size_bytes, stream, &address));
    return address;
}

static fake_cuda_state seen(void)
{
    return hr_test_fake_cuda_state();
}

static int forget_orders(void **state)
{
    (void)state;
    unsetenv("FAKE_CUDA_FAIL");
    unsetenv("FAKE_CUDA_WITHOUT_PEERS");
    return 0;
}

/* ---- whichever device is current ------------------------------------------------------------- */

/* Everything that calls a driver, on streams of the device. */
static void use_pool(hr_device *device, hr_pool *pool)
{
    hr_stream own = 0, other = 0;
    assert_ok(device->table->stream_create(device->context, &own));
    assert_ok(device->table->stream_create(device->context, &other));
    for (int round = 0; round < 3; round++) {
        hr_device_ptr block = take(pool, 5 * MIB, own), small = take(pool, 1000, 0);
        assert_ok(hr_record_stream(pool, block, other));
        assert_ok(hr_record_stream(pool, small, other));
        assert_ok(device->table->fill(device->context, block, 1, 5 * MIB, other));
        assert_ok(hr_free(pool, block));
        assert_ok(hr_free(pool, small));
        hr_device_ptr again = take(pool, (uint64_t)(4 + round) * MIB, own);
        assert_ok(hr_free(pool, again));
        assert_ok(hr_pool_check(pool));
    }
    assert_ok(hr_pool_trim(pool));
    assert_ok(hr_pool_check(pool));
    assert_ok(device->table->stream_destroy(device->context, own));
    assert_ok(device->table->stream_destroy(device->context, other));
}

/* `current`: which device's context the thread has, or none for -1. */
static void use_with_current(int current)
{
    const hr__cuda_driver *driver = NULL;
    hr__cuda_context context = NULL, found = NULL;
    hr_device *devices[FAKE_CUDA_DEVICES];
    for (int i = 0; i < FAKE_CUDA_DEVICES; i++)
        assert_ok(hr_cuda_device_open(i, &devices[i]));
    assert_ok(hr__cuda_driver_get(&driver));
    if (current >= 0) {
        assert_int_equal(driver->cuDevicePrimaryCtxRetain(&context, current), HR__CUDA_SUCCESS);
        assert_int_equal(driver->cuCtxPushCurrent(context), HR__CUDA_SUCCESS);
    }
    for (size_t engine = 0; engine < ENGINES; engine++) {
        hr_pool *pools[FAKE_CUDA_DEVICES];
        for (int i = 0; i < FAKE_CUDA_DEVICES; i++)
            pools[i] = make_pool(devices[i], engine, false);
        for (int i = 0; i < FAKE_CUDA_DEVICES; i++) {
            hr_device_ptr held = take(pools[i], 3 * MIB, 0);
            assert_true(seen().device_used_bytes[i] >= 3 * MIB);
            assert_int_equal(seen().device_used_bytes[1 - i], 0);
            use_pool(devices[i], pools[i]);
            assert_ok(hr_free(pools[i], held));
            assert_ok(hr_pool_trim(pools[i]));
        }
        for (int i = 0; i < FAKE_CUDA_DEVICES; i++)
            hr_pool_destroy(pools[i]);
        assert_int_equal(driver->cuCtxGetCurrent(&found), HR__CUDA_SUCCESS);
        assert_ptr_equal(found, context);
        assert_int_equal(seen().context_depth, current >= 0);
        assert_int_equal(seen().used_bytes, 0);
    }
    if (current >= 0) {
        assert_int_equal(driver->cuCtxPopCurrent(&found), HR__CUDA_SUCCESS);
        assert_int_equal(driver->cuDevicePrimaryCtxRelease(current), HR__CUDA_SUCCESS);
    }
    for (int i = 0; i < FAKE_CUDA_DEVICES; i++)
        hr_device_destroy(devices[i]);
}

static void pools_of_several_devices_work_whichever_is_current(void **state)
{
    (void)state;
    for (int current = -1; current < FAKE_CUDA_DEVICES; current++)
        use_with_current(current);
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void assert_all_open_to_both(void)
{
    fake_cuda_state now = seen();
    assert_int_equal(now.open_mappings[0], now.mapping_count);
    assert_int_equal(now.open_mappings[1], now.mapping_count);
}

/* Every second of many: what is left in between moves, and leaves old mappings behind. */
static void make_pieces(hr_pool *pool)
{
    hr_device_ptr blocks[16], large = HR_NULL;
    for (int i = 0; i < 16; i++)
        blocks[i] = take(pool, 4 * MIB, 0);
    for (int i = 0; i < 16; i += 2)
        assert_ok(hr_free(pool, blocks[i]));
    assert_ok(hr_alloc(pool, 24 * MIB, 0, &large));
}

static void a_peer_reaches_what_is_mapped_and_what_will_be(void **state)
{
    (void)state;
    for (size_t engine = 0; engine < ENGINES; engine++) {
        hr_device *device = NULL;
        assert_ok(hr_cuda_device_open(0, &device));
        hr_pool *pool = make_pool(device, engine, false);
        make_pieces(pool);
        fake_cuda_state before = seen();
        assert_int_equal(before.mapping_count == 0, engines[engine].is_plain);
        assert_int_equal(before.open_mappings[0], before.mapping_count);
        assert_int_equal(before.open_mappings[1], 0);
        hr_paged_stats paged = {.struct_size = sizeof paged};
        if (hr_pool_get_paged_stats(pool, &paged) == HR_OK)
            assert_true(paged.retiring_bytes > 0); /* mapped where it was before, too */
        assert_ok(hr_pool_allow_peer(pool, 1));
        assert_ok(hr_pool_check(pool));
        assert_all_open_to_both();
        hr_device_ptr more = take(pool, 40 * MIB, 0);
        assert_all_open_to_both();
        assert_ok(hr_free(pool, more));
        make_pieces(pool);
        assert_all_open_to_both();
        assert_ok(hr_pool_allow_peer(pool, 1)); /* again */
        assert_all_open_to_both();
        assert_ok(hr_pool_allow_peer(pool, 0)); /* the device itself */
        assert_ok(hr_pool_check(pool));
        hr_pool_destroy(pool);
        hr_device_destroy(device);
        assert_int_equal(seen().used_bytes, 0);
        assert_int_equal(seen().open_mappings[1], 0);
    }
}

static void a_peer_that_cannot_be_is_refused(void **state)
{
    (void)state;
    hr_device *device = NULL;
    assert_ok(hr_cuda_device_open(1, &device));
    hr_pool *pool = make_pool(device, 2, false);
    make_pieces(pool);
    assert_status(HR_ERR_INVALID_ARGUMENT, hr_pool_allow_peer(pool, 2));
    assert_last_error_has("no CUDA device 2");
    assert_status(HR_ERR_INVALID_ARGUMENT, hr_pool_allow_peer(pool, -1));
    setenv("FAKE_CUDA_WITHOUT_PEERS", "1", 1);
    assert_status(HR_ERR_UNSUPPORTED, hr_pool_allow_peer(pool, 0));
    assert_last_error_has("device 0 cannot reach the memory of device 1");
    unsetenv("FAKE_CUDA_WITHOUT_PEERS");
    setenv("FAKE_CUDA_FAIL", "cuMemSetAccess=700", 1);
    assert_status(HR_ERR_DEVICE, hr_pool_allow_peer(pool, 0));
    assert_last_error_has("cuMemSetAccess");
    unsetenv("FAKE_CUDA_FAIL");
    assert_int_equal(seen().open_mappings[0], 0);
    take(pool, 40 * MIB, 0); /* of the pool's own again */
    assert_int_equal(seen().open_mappings[0], 0);
    assert_int_equal(seen().open_mappings[1], seen().mapping_count);
    assert_ok(hr_pool_check(pool));
    assert_ok(hr_pool_allow_peer(pool, 0)); /* and another time it works */
    assert_all_open_to_both();
    hr_pool *second = make_pool(device, 2, false);
    setenv("FAKE_CUDA_FAIL", "cuMemSetAccess=700", 1);
    assert_status(HR_ERR_DEVICE, hr_pool_allow_peer(pool, 0));
    unsetenv("FAKE_CUDA_FAIL");
    take(second, 4 * MIB, 0); /* what was allowed before stays so, for every pool */
    assert_all_open_to_both();
    hr_pool_destroy(second);
    hr_pool_destroy(pool);
    hr_device_destroy(device);
}

/* Each call of set_access() in turn, on a device whose peers are made up. */
static void whichever_mapping_is_refused_the_pool_serves_on(void **state)
{
    (void)state;
    for (size_t engine = 0; engine < ENGINES; engine++) {
        static hr_test_spy spy;
        hr_device *real = NULL;
        spy = (hr_test_spy){.call_count = 0};
        assert_ok(hr_simulated_device_create(NULL, &real));
        hr_pool *pool = make_pool(hr_test_spy_on(&spy, real), engine, false);
        make_pieces(pool);
        hr_status status = HR_ERR_DEVICE;
        for (uint64_t nth = 0; status != HR_OK; nth++) {
            hr_test_spy_forget(&spy);
            spy.let_through = nth;
            spy.refused_calls = 1;
            status = hr_pool_allow_peer(pool, 3);
            spy.refused_calls = 0;
            assert_true(status == HR_OK || status == HR_ERR_DEVICE);
            assert_ok(hr_pool_check(pool));
            assert_int_equal(hr_test_spy_count(&spy, HR_TEST_SET_ACCESS),
                             status == HR_OK ? nth : nth + 1);
            assert_ok(hr_free(pool, take(pool, 7 * MIB, 0)));
        }
        hr_pool_destroy(pool);
        hr_device_destroy(real);
    }
}

static void a_device_without_peers_says_so(void **state)
{
    (void)state;
    hr_device *device = NULL;
    assert_ok(hr_host_device_create(64 * MIB, &device));
    hr_pool *pool = make_pool(device, 2, false);
    assert_status(HR_ERR_UNSUPPORTED, hr_pool_allow_peer(pool, 1));
    hr_device_table old = *device->table;
    const hr_device_table *table = device->table;
    old.struct_size = offsetof(hr_device_table, allow_peer);
    device->table = &old;
    assert_status(HR_ERR_UNSUPPORTED, hr_pool_allow_peer(pool, 1));
    device->table = table;
    hr_pool_destroy(pool);
    hr_device_destroy(device);
}

/* ---- other processes' memory ----------------------------------------------------------------- */

static void a_shared_block_is_opened_through_the_driver(void **state)
{
    (void)state;
    for (size_t engine = 0; engine < ENGINES; engine++) {
        if (engines[engine].is_plain)
            continue;
        hr_device *device = NULL;
        hr_shared_part parts[64];
        size_t count = 0;
        uint64_t offset_bytes = 0;
        hr_device_ptr opened = HR_NULL;
        char word[5] = "";
        assert_ok(hr_cuda_device_open(1, &device));
        hr_pool *pool = make_pool(device, engine, true);
        take(pool, 3 * MIB, 0);
        hr_device_ptr block = take(pool, 9 * MIB, 0);
        assert_ok(hr_pool_share(pool, block, parts, 64, &count, &offset_bytes));
        assert_ok(device->table->write(device->context, block + 9 * MIB - 5, "here", 5));
        assert_ok(hr_shared_open(device, parts, count, &opened));
        for (size_t i = 0; i < count; i++)
            close(parts[i].file_descriptor);
        assert_int_equal(seen().imported_count, count);
        assert_ok(
            device->table->read(device->context, word, opened + offset_bytes + 9 * MIB - 5, 5));
        assert_string_equal(word, "here");
        assert_ok(hr_shared_close(device, opened));
        assert_int_equal(seen().imported_count, 0);
        assert_ok(hr_pool_unpin(pool, block));
        hr_pool_destroy(pool);
        hr_device_destroy(device);
        assert_int_equal(seen().used_bytes, 0);
        assert_int_equal(seen().reservation_count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_of_several_devices_work_whichever_is_current),
        cmocka_unit_test(a_peer_reaches_what_is_mapped_and_what_will_be),
        cmocka_unit_test_teardown(a_peer_that_cannot_be_is_refused, forget_orders),
        cmocka_unit_test(whichever_mapping_is_refused_the_pool_serves_on),
        cmocka_unit_test(a_device_without_peers_says_so),
        cmocka_unit_test(a_shared_block_is_opened_through_the_driver),
    };
    setenv("HEADROOM_CUDA_DRIVER", HR_FAKE_CUDA_DRIVER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
