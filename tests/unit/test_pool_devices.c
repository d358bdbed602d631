/* test_pool_devices.c - several GPUs in one process, on the fake driver: pools work whatever device
 * is current, and open their memory to peers. */
#include "vramwise/park.h"

#include <stdio.h>
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
    {"vramwise", "", false},
    {"vramwise:tight", "", false},
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

static vw_pool *make_pool(vw_device *device, size_t engine, bool is_shareable)
{
    const vw_pool_options options = {.struct_size = sizeof options,
                                     .engine = engines[engine].engine,
                                     .conf = engines[engine].conf,
                                     .safe_point = {always, leave, NULL},
                                     .idle_floor_bytes = 2 * MIB,
                                     .is_shareable = is_shareable && !engines[engine].is_plain};
    vw_pool *pool = NULL;
    assert_ok(vw_pool_create(device, &options, &pool));
    return pool;
}

static vw_device_ptr take(vw_pool *pool, uint64_t size_bytes, vw_stream stream)
{
    vw_device_ptr address = VW_NULL;
    assert_ok(vw_alloc(pool, size_bytes, stream, &address));
    return address;
}

static fake_cuda_state seen(void)
{
    return vw_test_fake_cuda_state();
}

static int have_eight_devices(void **state)
{
    (void)state;
    return setenv("FAKE_CUDA_DEVICE_COUNT", "8", 1);
}

static int forget_orders(void **state)
{
    static const char *const orders[] = {"FAKE_CUDA_FAIL", "FAKE_CUDA_WITHOUT_PEERS",
                                         "FAKE_CUDA_DEVICE_COUNT", "FAKE_CUDA_ISLAND",
                                         "CUDA_VISIBLE_DEVICES"};
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        unsetenv(orders[i]);
    return 0;
}

/* ---- whichever device is current ------------------------------------------------------------- */

/* Everything that calls a driver, on streams of the device. */
static void use_pool(vw_device *device, vw_pool *pool)
{
    vw_stream own = 0, other = 0;
    assert_ok(device->table->stream_create(device->context, &own));
    assert_ok(device->table->stream_create(device->context, &other));
    for (int round = 0; round < 3; round++) {
        vw_device_ptr block = take(pool, 5 * MIB, own), small = take(pool, 1000, 0);
        assert_ok(vw_record_stream(pool, block, other));
        assert_ok(vw_record_stream(pool, small, other));
        assert_ok(device->table->fill(device->context, block, 1, 5 * MIB, other));
        assert_ok(vw_free(pool, block));
        assert_ok(vw_free(pool, small));
        vw_device_ptr again = take(pool, (uint64_t)(4 + round) * MIB, own);
        assert_ok(vw_free(pool, again));
        assert_ok(vw_pool_check(pool));
    }
    assert_ok(vw_pool_trim(pool));
    assert_ok(vw_pool_check(pool));
    assert_ok(device->table->stream_destroy(device->context, own));
    assert_ok(device->table->stream_destroy(device->context, other));
}

/* `current`: which device's context the thread has, or none for -1. */
static void use_with_current(int device_count, int current)
{
    const vw__cuda_driver *driver = NULL;
    vw__cuda_context context = NULL, found = NULL;
    vw_device *devices[FAKE_CUDA_MOST_DEVICES];
    for (int i = 0; i < device_count; i++)
        assert_ok(vw_cuda_device_open(i, &devices[i]));
    assert_ok(vw__cuda_driver_get(&driver));
    if (current >= 0) {
        assert_int_equal(driver->cuDevicePrimaryCtxRetain(&context, current), VW__CUDA_SUCCESS);
        assert_int_equal(driver->cuCtxPushCurrent(context), VW__CUDA_SUCCESS);
    }
    for (size_t engine = 0; engine < ENGINES; engine++) {
        vw_pool *pools[FAKE_CUDA_MOST_DEVICES];
        for (int i = 0; i < device_count; i++)
            pools[i] = make_pool(devices[i], engine, false);
        for (int i = 0; i < device_count; i++) {
            vw_device_ptr held = take(pools[i], 3 * MIB, 0);
            assert_true(seen().device_used_bytes[i] >= 3 * MIB);
            assert_int_equal(seen().device_used_bytes[i], seen().used_bytes); /* and no other */
            use_pool(devices[i], pools[i]);
            assert_ok(vw_free(pools[i], held));
            assert_ok(vw_pool_trim(pools[i]));
        }
        for (int i = 0; i < device_count; i++)
            vw_pool_destroy(pools[i]);
        assert_int_equal(driver->cuCtxGetCurrent(&found), VW__CUDA_SUCCESS);
        assert_ptr_equal(found, context);
        assert_int_equal(seen().context_depth, current >= 0);
        assert_int_equal(seen().used_bytes, 0);
    }
    if (current >= 0) {
        assert_int_equal(driver->cuCtxPopCurrent(&found), VW__CUDA_SUCCESS);
        assert_int_equal(driver->cuDevicePrimaryCtxRelease(current), VW__CUDA_SUCCESS);
    }
    for (int i = 0; i < device_count; i++)
        vw_device_destroy(devices[i]);
}

static void pools_of_several_devices_work_whichever_is_current(void **state)
{
    (void)state;
    for (int current = -1; current < FAKE_CUDA_DEVICES; current++)
        use_with_current(FAKE_CUDA_DEVICES, current);
}

static void pools_of_eight_devices_work_whichever_is_current(void **state)
{
    (void)state;
    for (int current = -1; current < FAKE_CUDA_MOST_DEVICES; current += 4)
        use_with_current(FAKE_CUDA_MOST_DEVICES, current);
}

/* ---- CUDA_VISIBLE_DEVICES -------------------------------------------------------------------- */

/* The driver's own processes() goes by the bus id to NVML, which knows no such variable. */
static void an_index_counts_what_is_visible_and_nvml_finds_the_same_gpu(void **state)
{
    static const struct {
        const char *visible;
        int behind[3]; /* of each index; -1: there is none */
    } cases[] = {
        {"5", {5, -1, -1}},     {"6,2", {6, 2, -1}},     {"GPU-7,0", {7, 0, -1}},
        {"3,9,1", {3, -1, -1}}, {"4,-1,1", {4, -1, -1}}, {"2,GPU-22", {-1, -1, -1}},
        {"", {-1, -1, -1}},     {"7,6,5", {7, 6, 5}},
    };
    (void)state;
    setenv("FAKE_NVML_LIST", "0:10:1,1:11:1,2:12:1,3:13:1,4:14:1,5:15:1,6:16:1,7:17:1", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("CUDA_VISIBLE_DEVICES", cases[i].visible, 1);
        for (int index = 0; index < 3; index++) {
            int behind = cases[i].behind[index];
            vw_device *device = NULL;
            vw_status status = vw_cuda_device_open(index, &device);
            assert_status(behind >= 0 ? VW_OK : VW_ERR_NO_DEVICE, status);
            if (behind < 0)
                continue;
            vw_pool *pool = make_pool(device, 2, false);
            vw_process_memory process;
            size_t count = 0;
            char name[32];
            snprintf(name, sizeof name, "Fake GPU %d", behind);
            assert_int_equal(device->properties.index, index);
            assert_string_equal(device->properties.name, name);
            take(pool, 3 * MIB, 0);
            assert_true(seen().device_used_bytes[behind] >= 3 * MIB);
            assert_int_equal(seen().device_used_bytes[behind], seen().used_bytes);
            assert_ok(device->table->processes(device->context, &process, 1, &count));
            assert_int_equal(count, 1);
            assert_int_equal(process.pid, 10 + behind);
            vw_pool_destroy(pool);
            vw_device_destroy(device);
        }
    }
    unsetenv("FAKE_NVML_LIST");
}

static void peers_are_counted_as_devices_are(void **state)
{
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "6,1,4", 1);
    vw_device *device = NULL;
    assert_ok(vw_cuda_device_open(1, &device));
    vw_pool *pool = make_pool(device, 2, false);
    take(pool, 3 * MIB, 0);
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_pool_allow_peer(pool, 3)); /* hidden */
    assert_last_error_has("no CUDA device 3");
    assert_ok(vw_pool_allow_peer(pool, 2));
    for (int i = 0; i < FAKE_CUDA_MOST_DEVICES; i++)
        assert_int_equal(seen().open_mappings[i], i == 1 || i == 4 ? seen().mapping_count : 0);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void assert_all_open_to_both(void)
{
    fake_cuda_state now = seen();
    assert_int_equal(now.open_mappings[0], now.mapping_count);
    assert_int_equal(now.open_mappings[1], now.mapping_count);
}

/* Every second of many: what is left in between moves, and leaves old mappings behind. */
static void make_pieces(vw_pool *pool)
{
    vw_device_ptr blocks[16], large = VW_NULL;
    for (int i = 0; i < 16; i++)
        blocks[i] = take(pool, 4 * MIB, 0);
    for (int i = 0; i < 16; i += 2)
        assert_ok(vw_free(pool, blocks[i]));
    assert_ok(vw_alloc(pool, 24 * MIB, 0, &large));
}

static void a_peer_reaches_what_is_mapped_and_what_will_be(void **state)
{
    (void)state;
    for (size_t engine = 0; engine < ENGINES; engine++) {
        vw_device *device = NULL;
        assert_ok(vw_cuda_device_open(0, &device));
        vw_pool *pool = make_pool(device, engine, false);
        make_pieces(pool);
        fake_cuda_state before = seen();
        assert_int_equal(before.mapping_count == 0, engines[engine].is_plain);
        assert_int_equal(before.open_mappings[0], before.mapping_count);
        assert_int_equal(before.open_mappings[1], 0);
        vw_paged_stats paged = {.struct_size = sizeof paged};
        if (vw_pool_get_paged_stats(pool, &paged) == VW_OK)
            assert_true(paged.retiring_bytes > 0); /* mapped where it was before, too */
        assert_ok(vw_pool_allow_peer(pool, 1));
        assert_ok(vw_pool_check(pool));
        assert_all_open_to_both();
        vw_device_ptr more = take(pool, 40 * MIB, 0);
        assert_all_open_to_both();
        assert_ok(vw_free(pool, more));
        make_pieces(pool);
        assert_all_open_to_both();
        assert_ok(vw_pool_allow_peer(pool, 1)); /* again */
        assert_all_open_to_both();
        assert_ok(vw_pool_allow_peer(pool, 0)); /* the device itself */
        assert_ok(vw_pool_check(pool));
        vw_pool_destroy(pool);
        vw_device_destroy(device);
        assert_int_equal(seen().used_bytes, 0);
        assert_int_equal(seen().open_mappings[1], 0);
    }
}

/* Two groups of four, as NVLink may join them: each device opens its memory to each other. */
static void eight_devices_reach_each_other_where_the_driver_says_so(void **state)
{
    vw_device *devices[FAKE_CUDA_MOST_DEVICES];
    vw_pool *pools[FAKE_CUDA_MOST_DEVICES];
    (void)state;
    setenv("FAKE_CUDA_ISLAND", "4", 1);
    for (int i = 0; i < FAKE_CUDA_MOST_DEVICES; i++) {
        assert_ok(vw_cuda_device_open(i, &devices[i]));
        pools[i] = make_pool(devices[i], 2, false);
        take(pools[i], 3 * MIB, 0);
    }
    int mappings = seen().mapping_count / FAKE_CUDA_MOST_DEVICES; /* of each pool */
    assert_int_equal(seen().mapping_count, mappings * FAKE_CUDA_MOST_DEVICES);
    for (int owner = 0; owner < FAKE_CUDA_MOST_DEVICES; owner++)
        for (int peer = 0; peer < FAKE_CUDA_MOST_DEVICES; peer++) {
            fake_cuda_state before = seen();
            bool is_near = owner / 4 == peer / 4;
            assert_status(is_near ? VW_OK : VW_ERR_UNSUPPORTED,
                          vw_pool_allow_peer(pools[owner], peer));
            if (!is_near)
                assert_last_error_has("cannot reach the memory of device");
            before.open_mappings[peer] += is_near && owner != peer ? mappings : 0;
            assert_memory_equal(before.open_mappings, seen().open_mappings,
                                sizeof before.open_mappings);
            assert_ok(vw_pool_check(pools[owner]));
        }
    fake_cuda_state before = seen();
    take(pools[5], 64 * MIB, 0); /* what comes later is open to the same four */
    int added = seen().mapping_count - before.mapping_count;
    assert_true(added > 0);
    for (int i = 0; i < FAKE_CUDA_MOST_DEVICES; i++)
        assert_int_equal(seen().open_mappings[i] - before.open_mappings[i], i < 4 ? 0 : added);
    for (int i = 0; i < FAKE_CUDA_MOST_DEVICES; i++) {
        vw_pool_destroy(pools[i]);
        vw_device_destroy(devices[i]);
    }
    assert_int_equal(seen().used_bytes, 0);
}

static void a_peer_that_cannot_be_is_refused(void **state)
{
    (void)state;
    vw_device *device = NULL;
    assert_ok(vw_cuda_device_open(1, &device));
    vw_pool *pool = make_pool(device, 2, false);
    make_pieces(pool);
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_pool_allow_peer(pool, 2));
    assert_last_error_has("no CUDA device 2");
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_pool_allow_peer(pool, -1));
    setenv("FAKE_CUDA_WITHOUT_PEERS", "1", 1);
    assert_status(VW_ERR_UNSUPPORTED, vw_pool_allow_peer(pool, 0));
    assert_last_error_has("device 0 cannot reach the memory of device 1");
    unsetenv("FAKE_CUDA_WITHOUT_PEERS");
    setenv("FAKE_CUDA_FAIL", "cuMemSetAccess=700", 1);
    assert_status(VW_ERR_DEVICE, vw_pool_allow_peer(pool, 0));
    assert_last_error_has("cuMemSetAccess");
    unsetenv("FAKE_CUDA_FAIL");
    assert_int_equal(seen().open_mappings[0], 0);
    take(pool, 40 * MIB, 0); /* of the pool's own again */
    assert_int_equal(seen().open_mappings[0], 0);
    assert_int_equal(seen().open_mappings[1], seen().mapping_count);
    assert_ok(vw_pool_check(pool));
    assert_ok(vw_pool_allow_peer(pool, 0)); /* and another time it works */
    assert_all_open_to_both();
    vw_pool *second = make_pool(device, 2, false);
    setenv("FAKE_CUDA_FAIL", "cuMemSetAccess=700", 1);
    assert_status(VW_ERR_DEVICE, vw_pool_allow_peer(pool, 0));
    unsetenv("FAKE_CUDA_FAIL");
    take(second, 4 * MIB, 0); /* what was allowed before stays so, for every pool */
    assert_all_open_to_both();
    vw_pool_destroy(second);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
}

/* Each call of set_access() in turn, on a device whose peers are made up. */
static void whichever_mapping_is_refused_the_pool_serves_on(void **state)
{
    (void)state;
    for (size_t engine = 0; engine < ENGINES; engine++) {
        static vw_test_spy spy;
        vw_device *real = NULL;
        spy = (vw_test_spy){.call_count = 0};
        assert_ok(vw_simulated_device_create(NULL, &real));
        vw_pool *pool = make_pool(vw_test_spy_on(&spy, real), engine, false);
        make_pieces(pool);
        vw_status status = VW_ERR_DEVICE;
        for (uint64_t nth = 0; status != VW_OK; nth++) {
            vw_test_spy_forget(&spy);
            spy.let_through = nth;
            spy.refused_calls = 1;
            status = vw_pool_allow_peer(pool, 3);
            spy.refused_calls = 0;
            assert_true(status == VW_OK || status == VW_ERR_DEVICE);
            assert_ok(vw_pool_check(pool));
            assert_int_equal(vw_test_spy_count(&spy, VW_TEST_SET_ACCESS),
                             status == VW_OK ? nth : nth + 1);
            assert_ok(vw_free(pool, take(pool, 7 * MIB, 0)));
        }
        vw_pool_destroy(pool);
        vw_device_destroy(real);
    }
}

static void a_device_without_peers_says_so(void **state)
{
    (void)state;
    vw_device *device = NULL;
    assert_ok(vw_host_device_create(64 * MIB, &device));
    vw_pool *pool = make_pool(device, 2, false);
    assert_status(VW_ERR_UNSUPPORTED, vw_pool_allow_peer(pool, 1));
    vw_device_table old = *device->table;
    const vw_device_table *table = device->table;
    old.struct_size = offsetof(vw_device_table, allow_peer);
    device->table = &old;
    assert_status(VW_ERR_UNSUPPORTED, vw_pool_allow_peer(pool, 1));
    device->table = table;
    vw_pool_destroy(pool);
    vw_device_destroy(device);
}

/* ---- other processes' memory ----------------------------------------------------------------- */

static void a_shared_block_is_opened_through_the_driver(void **state)
{
    (void)state;
    for (size_t engine = 0; engine < ENGINES; engine++) {
        if (engines[engine].is_plain)
            continue;
        vw_device *device = NULL;
        vw_shared_part parts[64];
        size_t count = 0;
        uint64_t offset_bytes = 0;
        vw_device_ptr opened = VW_NULL;
        char word[5] = "";
        assert_ok(vw_cuda_device_open(1, &device));
        vw_pool *pool = make_pool(device, engine, true);
        take(pool, 3 * MIB, 0);
        vw_device_ptr block = take(pool, 9 * MIB, 0);
        assert_ok(vw_pool_share(pool, block, parts, 64, &count, &offset_bytes));
        assert_ok(device->table->write(device->context, block + 9 * MIB - 5, "here", 5));
        assert_ok(vw_shared_open(device, parts, count, &opened));
        for (size_t i = 0; i < count; i++)
            close(parts[i].file_descriptor);
        assert_int_equal(seen().imported_count, count);
        assert_ok(
            device->table->read(device->context, word, opened + offset_bytes + 9 * MIB - 5, 5));
        assert_string_equal(word, "here");
        assert_ok(vw_shared_close(device, opened));
        assert_int_equal(seen().imported_count, 0);
        assert_ok(vw_pool_unpin(pool, block));
        vw_pool_destroy(pool);
        vw_device_destroy(device);
        assert_int_equal(seen().used_bytes, 0);
        assert_int_equal(seen().reservation_count, 0);
    }
}

/* ---- parking through the driver -------------------------------------------------------------- */

static void a_parked_pool_s_memory_is_the_driver_s_and_peers_reach_what_wakes(void **state)
{
    (void)state;
    static const char *const folders[] = {NULL, "/dev/shm"};
    for (size_t i = 0; i < 2; i++) {
        vw_device *device = NULL;
        vw_pool *pool = NULL;
        char word[5] = "";
        uint64_t free_before = 0, free_parked = 0, total = 0;
        const vw_pool_options options = {.struct_size = sizeof options,
                                         .engine = "vramwise",
                                         .safe_point = {always, leave, NULL},
                                         .park_guard = {.hold = always, .let_go = leave}};
        const vw_park_options park = {.struct_size = sizeof park, .folder = folders[i]};
        assert_ok(vw_cuda_device_open(1, &device));
        assert_ok(device->table->memory_info(device->context, &free_before, &total));
        assert_ok(vw_pool_create(device, &options, &pool));
        take(pool, 3 * MIB, 0);
        vw_device_ptr block = take(pool, 40 * MIB, 0);
        assert_ok(device->table->write(device->context, block + 40 * MIB - 5, "here", 5));
        assert_ok(vw_pool_park(pool, &park, NULL));
        assert_ok(device->table->memory_info(device->context, &free_parked, &total));
        assert_int_equal(free_parked, free_before);
        assert_ok(vw_pool_allow_peer(pool, 0));       /* of nothing, just now */
        setenv("FAKE_CUDA_FAIL", "cuMemCreate=2", 1); /* out of memory */
        assert_status(VW_ERR_OUT_OF_MEMORY, vw_pool_wake(pool, NULL, NULL));
        assert_last_error_has("to wake takes");
        unsetenv("FAKE_CUDA_FAIL");
        assert_ok(vw_pool_wake(pool, NULL, NULL));
        assert_ok(device->table->read(device->context, word, block + 40 * MIB - 5, 5));
        assert_string_equal(word, "here");
        assert_ok(vw_pool_check(pool));
        vw_pool_destroy(pool);
        vw_device_destroy(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_of_several_devices_work_whichever_is_current),
        cmocka_unit_test_setup_teardown(pools_of_eight_devices_work_whichever_is_current,
                                        have_eight_devices, forget_orders),
        cmocka_unit_test_setup_teardown(an_index_counts_what_is_visible_and_nvml_finds_the_same_gpu,
                                        have_eight_devices, forget_orders),
        cmocka_unit_test_setup_teardown(peers_are_counted_as_devices_are, have_eight_devices,
                                        forget_orders),
        cmocka_unit_test_setup_teardown(eight_devices_reach_each_other_where_the_driver_says_so,
                                        have_eight_devices, forget_orders),
        cmocka_unit_test(a_peer_reaches_what_is_mapped_and_what_will_be),
        cmocka_unit_test_teardown(a_peer_that_cannot_be_is_refused, forget_orders),
        cmocka_unit_test(whichever_mapping_is_refused_the_pool_serves_on),
        cmocka_unit_test(a_device_without_peers_says_so),
        cmocka_unit_test(a_shared_block_is_opened_through_the_driver),
        cmocka_unit_test(a_parked_pool_s_memory_is_the_driver_s_and_peers_reach_what_wakes),
    };
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1);
    setenv("VRAMWISE_NVML", VW_FAKE_CUDA_DRIVER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
