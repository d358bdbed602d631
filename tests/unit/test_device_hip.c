/* test_device_hip.c - the HIP device without a GPU: an old runtime, a fake one.
 *
 * Nearly all of it is the CUDA device (test_device_drivers.c); here is what differs, and the
 * contract.
 * A runtime is loaded once in the life of a process, so each group of tests runs in a process of
 * its own. VW_FAKE_HIP_DRIVER is the path of tests/support/fake_hip. */
#include "vramwise/vramwise.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host_memory.h" /* vw__host_memory_fail_at */
#include "device/hip_driver_load.h"

#include "contract/device_contract.h" /* the suite, and assert_ok, assert_status */
#include "support/cmocka_here.h"
#include "support/fake_cuda/fake_libcuda.h"
#include "support/own_process.h"

#define MIB (UINT64_C(1) << 20)

/* ---- helpers --------------------------------------------------------------------------------- */

static vw_device *open_device(int index)
{
    vw_device *device = NULL;
    assert_ok(vw_hip_device_open(index, &device));
    return device;
}

/* Device 1: a thread's own is 0, so that each call goes in and out. */
static vw_status make_device(void *context, vw_device **out)
{
    (void)context;
    return vw_hip_device_open(1, out);
}

static int keep_the_contract(const char *name)
{
    const vw_test_device_factory factory = {.name = name, .make = make_device};
    return vw_test_device_contract(&factory);
}

/* A function of the fake, asked directly, as another program would. */
static void find_in_fake(const char *name, void *out)
{
    void *library = dlopen(VW_FAKE_HIP_DRIVER, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    void *address = dlsym(library, name);
    assert_non_null(address);
    dlclose(library); /* the driver table keeps it */
    memcpy(out, &address, sizeof address);
}

static fake_cuda_state fake_state(void)
{
    fake_cuda_get_state_function get_state;
    fake_cuda_state state;
    find_in_fake(FAKE_CUDA_GET_STATE, &get_state);
    get_state(&state);
    return state;
}

static void fail_call(int nth, int result)
{
    fake_cuda_fail_call_function order;
    find_in_fake(FAKE_CUDA_FAIL_CALL, &order);
    order(nth, result);
}

/* The device that is current in this thread. */
static int current_device(void)
{
    int (*get)(int *) = NULL;
    int device = -1;
    find_in_fake("hipGetDevice", &get);
    assert_int_equal(get(&device), 0);
    return device;
}

static void make_current(int device)
{
    int (*set)(int) = NULL;
    find_in_fake("hipSetDevice", &set);
    assert_int_equal(set(device), 0);
}

static void order_failure(const char *order)
{
    assert_int_equal(setenv("FAKE_CUDA_FAIL", order, 1), 0);
}

static int forget_orders(void **state)
{
    (void)state;
    unsetenv("FAKE_CUDA_FAIL");
    unsetenv("FAKE_CUDA_CAPTURING");
    unsetenv("FAKE_CUDA_WITHOUT_VIRTUAL");
    unsetenv("FAKE_CUDA_WITHOUT_PEERS");
    vw__host_memory_fail_at(0);
    fail_call(0, 0);
    make_current(0);
    return 0;
}

static void expect_nothing_held(void)
{
    fake_cuda_state left = fake_state();
    assert_int_equal(left.used_bytes, 0);
    assert_int_equal(left.handle_count, 0);
    assert_int_equal(left.reservation_count, 0);
    assert_int_equal(left.mapping_count, 0);
}

/* ---- a runtime that the process has already -------------------------------------------------- */

/* As PyTorch has its own, from a place that is not searched, on a machine that has another. */
static void the_runtime_that_is_loaded_is_taken(void **state)
{
    (void)state;
    void *library = dlopen(VW_FAKE_HIP_DRIVER, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    vw_device *device = open_device(0);
    assert_string_equal(device->properties.name, "Fake GPU 0");
    vw_device_destroy(device);
    dlclose(library);
    library = dlopen("libamdhip64.so.7", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library); /* it could have been loaded */
    dlclose(library);
}

static int with_a_runtime_in_the_process(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_runtime_that_is_loaded_is_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The loader reads its path when a program starts. */
static int start_again_with_another_runtime_in_the_path(void)
{
    unsetenv("VRAMWISE_HIP_DRIVER");
    setenv("LD_LIBRARY_PATH", VW_HIP_DECOY_FOLDER, 1);
    execl("/proc/self/exe", "unit_device_hip", "with a runtime in the process", (char *)NULL);
    return 1;
}

/* ---- an old runtime -------------------------------------------------------------------------- */

static void before_rocm_6_there_is_no_virtual_memory(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    vw_device_ptr address = 77;
    assert_false(device->properties.has_virtual_memory);
    assert_status(VW_ERR_UNSUPPORTED, device->table->reserve(device->context, 2 * MIB, &address));
    assert_last_error_has("HIP device 0 has no virtual memory: the driver is too old for it");
    assert_ok(device->table->take(device->context, 3 * MIB, &address));
    assert_int_equal(fake_state().used_bytes, 3 * MIB);
    assert_ok(device->table->give_back(device->context, address));
    vw_device_destroy(device);
}

static int with_an_old_runtime(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(before_rocm_6_there_is_no_virtual_memory)};
    setenv("VRAMWISE_HIP_DRIVER", VW_FAKE_HIP_DRIVER, 1);
    setenv("FAKE_HIP_VERSION", "50221153", 1);
    return cmocka_run_group_tests(tests, NULL, NULL) + keep_the_contract("hip, ROCm 5");
}

/* ---- a runtime of today: opening ------------------------------------------------------------- */

static void where_virtual_memory_is_refused_plain_memory_is_left(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *value, *reason;
    } ways[] = {
        {"FAKE_CUDA_WITHOUT_VIRTUAL", "1", "the driver says so"},
        {"FAKE_CUDA_FAIL", "hipMemMap=801",
         "hipMemMap failed when tried: hipErrorNotSupported (801)"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        vw_device_ptr address = 0;
        setenv(ways[i].variable, ways[i].value, 1);
        vw_device *device = open_device(1);
        unsetenv(ways[i].variable);
        assert_false(device->properties.has_virtual_memory);
        assert_status(VW_ERR_UNSUPPORTED,
                      device->table->reserve(device->context, 2 * MIB, &address));
        assert_last_error_has(ways[i].reason);
        assert_ok(device->table->take(device->context, MIB, &address));
        assert_ok(device->table->give_back(device->context, address));
        vw_device_destroy(device);
        expect_nothing_held();
    }
}

/* ---- a runtime of today: the current device -------------------------------------------------- */

static void the_threads_own_device_stays_current(void **state)
{
    (void)state;
    for (int own = 0; own < FAKE_CUDA_DEVICES; own++) {
        vw_device *device = open_device(1);
        vw_device_ptr address = 0;
        make_current(own);
        assert_ok(device->table->take(device->context, MIB, &address));
        assert_int_equal(fake_state().device_used_bytes[1], MIB);
        assert_int_equal(current_device(), own);
        assert_status(VW_ERR_DEVICE, device->table->give_back(device->context, 0x1234));
        assert_int_equal(current_device(), own); /* after a refusal, too */
        assert_ok(device->table->give_back(device->context, address));
        vw_device_destroy(device);
        assert_int_equal(current_device(), own);
    }
}

static void a_device_that_cannot_be_made_current_is_reported(void **state)
{
    (void)state;
    vw_device *device = open_device(1);
    vw_device_ptr address = 77;
    order_failure("hipSetDevice=700");
    assert_status(VW_ERR_DEVICE, device->table->take(device->context, MIB, &address));
    assert_last_error_has("hipSetDevice(");
    assert_last_error_has("hipErrorIllegalAddress (700)");
    order_failure("hipGetDevice=700");
    assert_status(VW_ERR_DEVICE, device->table->take(device->context, MIB, &address));
    assert_last_error_has("hipGetDevice()");
    assert_int_equal(address, 77);
    vw_device_destroy(device);
}

/* ---- a runtime of today: what it has not ----------------------------------------------------- */

static void what_hip_has_not_is_said(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    vw_handle handle = 77;
    size_t count = 77;
    assert_status(VW_ERR_UNSUPPORTED,
                  device->table->import_handle(device->context, 1, 2 * MIB, &handle));
    assert_last_error_has("HIP device 0 has no shareable handles here");
    assert_status(VW_ERR_UNSUPPORTED, device->table->processes(device->context, NULL, 0, &count));
    assert_last_error_has("nobody lists the processes on HIP device 0");
    assert_true(handle == 77 && count == 77);
    vw_device_destroy(device);
}

/* ---- a runtime of today: ranges of several mappings ------------------------------------------ */

enum { HANDLES = 4 };

typedef struct mapped_range {
    vw_device *device;
    vw_device_ptr base;
    vw_handle handles[HANDLES];
    uint64_t size_bytes;
} mapped_range;

/* Of 2, 4, 6 and 8 MiB, one after the other. */
static mapped_range map_range(void)
{
    mapped_range range = {.device = open_device(1), .size_bytes = 20 * MIB};
    const vw_device_table *table = range.device->table;
    void *context = range.device->context;
    assert_ok(table->reserve(context, range.size_bytes, &range.base));
    vw_device_ptr next = range.base;
    for (uint64_t i = 0; i < HANDLES; i++) {
        uint64_t part_bytes = 2 * (i + 1) * MIB;
        assert_ok(table->create(context, part_bytes, &range.handles[i]));
        assert_ok(table->map(context, next, part_bytes, range.handles[i]));
        next += part_bytes;
    }
    return range;
}

static void end_range(mapped_range range)
{
    const vw_device_table *table = range.device->table;
    for (size_t i = 0; i < HANDLES; i++)
        assert_ok(table->release(range.device->context, range.handles[i]));
    assert_ok(table->unreserve(range.device->context, range.base, range.size_bytes));
    vw_device_destroy(range.device);
    expect_nothing_held();
}

static void a_range_is_opened_and_unmapped_mapping_by_mapping(void **state)
{
    (void)state;
    mapped_range range = map_range();
    const vw_device_table *table = range.device->table;
    void *context = range.device->context;
    char byte = 0;
    assert_ok(table->set_access(context, range.base, range.size_bytes));
    assert_int_equal(fake_state().open_mappings[1], HANDLES);
    assert_ok(table->fill(context, range.base, 'x', range.size_bytes, 0));
    assert_ok(table->read(context, &byte, range.base + range.size_bytes - 1, 1));
    assert_int_equal(byte, 'x');
    assert_ok(table->unmap(context, range.base + 2 * MIB, 10 * MIB)); /* the middle two */
    assert_int_equal(fake_state().mapping_count, 2);
    assert_ok(table->map(context, range.base + 2 * MIB, 4 * MIB, range.handles[1]));
    assert_ok(table->unmap(context, range.base, 6 * MIB));
    assert_ok(table->unmap(context, range.base + 12 * MIB, 8 * MIB));
    end_range(range);
}

static void a_range_that_is_not_whole_mappings_never_reaches_the_runtime(void **state)
{
    (void)state;
    mapped_range range = map_range();
    const vw_device_table *table = range.device->table;
    void *context = range.device->context;
    static const struct {
        uint64_t offset_bytes, size_bytes;
    } bad[] = {{0, 4 * MIB}, {2 * MIB, 2 * MIB}, {4 * MIB, 2 * MIB}, {0, 22 * MIB}, {0, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        vw_device_ptr address = range.base + bad[i].offset_bytes;
        assert_status(VW_ERR_INVALID_ARGUMENT, table->unmap(context, address, bad[i].size_bytes));
        assert_last_error_has("are not whole mappings of the HIP device");
        assert_status(VW_ERR_INVALID_ARGUMENT,
                      table->set_access(context, address, bad[i].size_bytes));
    }
    assert_status(VW_ERR_INVALID_ARGUMENT,
                  table->map(context, range.base, 2 * MIB, range.handles[0]));
    assert_int_equal(fake_state().mapping_count, HANDLES);
    assert_ok(table->unmap(context, range.base, range.size_bytes));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->unmap(context, range.base, range.size_bytes));
    end_range(range);
}

static void an_unmapping_that_fails_in_the_middle_can_be_made_again(void **state)
{
    (void)state;
    mapped_range range = map_range();
    const vw_device_table *table = range.device->table;
    make_current(1); /* a call is then: which device, whose mode, the call, the mode back */
    fail_call(4 + 4 + 3, 700);
    assert_status(VW_ERR_DEVICE, table->unmap(range.device->context, range.base, range.size_bytes));
    assert_last_error_has("hipMemUnmap(");
    assert_int_equal(fake_state().mapping_count, 2);
    assert_ok(table->unmap(range.device->context, range.base, range.size_bytes));
    end_range(range);
}

static void a_lack_of_host_memory_maps_nothing(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    const vw_device_table *table = device->table;
    vw_device_ptr base = 0;
    vw_handle handle = 0;
    assert_ok(table->reserve(device->context, 2 * MIB, &base));
    assert_ok(table->create(device->context, 2 * MIB, &handle));
    vw__host_memory_fail_at(1);
    assert_status(VW_ERR_HOST_MEMORY, table->map(device->context, base, 2 * MIB, handle));
    vw__host_memory_fail_at(0);
    assert_int_equal(fake_state().mapping_count, 0);
    assert_ok(table->map(device->context, base, 2 * MIB, handle));
    assert_ok(table->unmap(device->context, base, 2 * MIB));
    assert_ok(table->release(device->context, handle));
    assert_ok(table->unreserve(device->context, base, 2 * MIB));
    vw_device_destroy(device);
}

static void peers_are_let_in_where_they_can_reach_the_memory(void **state)
{
    (void)state;
    mapped_range range = map_range();
    const vw_device_table *table = range.device->table;
    void *context = range.device->context;
    setenv("FAKE_CUDA_WITHOUT_PEERS", "1", 1);
    assert_status(VW_ERR_UNSUPPORTED, table->allow_peer(context, 0, true));
    assert_last_error_has("HIP device 0 cannot reach the memory of device 1");
    unsetenv("FAKE_CUDA_WITHOUT_PEERS");
    assert_status(VW_ERR_INVALID_ARGUMENT, table->allow_peer(context, 7, true));
    assert_ok(table->allow_peer(context, 0, true));
    assert_ok(table->set_access(context, range.base, range.size_bytes));
    assert_int_equal(fake_state().open_mappings[0], HANDLES);
    assert_ok(table->unmap(context, range.base, range.size_bytes));
    end_range(range);
}

/* ---- a runtime of today: every call refused in turn ------------------------------------------ */

/* All kinds of memory, one after the other. What was begun is ended in any case, with calls that
 * work. The first status that is not VW_OK. */
static vw_status use_everything(int nth)
{
    vw_device *device = NULL;
    vw_device_ptr plain = 0, base = 0;
    vw_handle first = 0, second = 0;
    vw_stream stream = 0;
    vw_device_event event = 0;
    void *pinned = NULL;
    char text[] = "bytes";
    vw_status status;
    uint64_t mapped_bytes = 0;
    uint64_t free_bytes = 0, total_bytes = 0;
    fail_call(nth, 700);
    if ((status = vw_hip_device_open(1, &device)) != VW_OK) {
        fail_call(0, 0);
        return status;
    }
    if (!device->properties.has_virtual_memory) { /* it was tried out, and refused */
        fail_call(0, 0);
        vw_device_destroy(device);
        return VW_ERR_UNSUPPORTED;
    }
    const vw_device_table *t = device->table;
    void *c = device->context;
#define STEP(call)                                                                                 \
    if (status == VW_OK)                                                                           \
    status = (call)
    STEP(t->take(c, MIB, &plain));
    STEP(t->write(c, plain, text, sizeof text));
    STEP(t->fill(c, plain, 1, MIB, 0));
    STEP(t->copy(c, plain, plain + 4096, 4096, 0));
    STEP(t->read(c, text, plain, sizeof text));
    STEP(t->stream_create(c, &stream));
    STEP(t->event_create(c, &event));
    STEP(t->event_record(c, event, stream));
    STEP(t->stream_wait_event(c, stream, event));
    STEP(t->event_query(c, event));
    STEP(t->event_synchronize(c, event));
    STEP(t->stream_synchronize(c, stream));
    STEP(t->synchronize(c));
    STEP(t->host_take(c, 4096, &pinned));
    STEP(t->memory_info(c, &free_bytes, &total_bytes));
    STEP(t->allow_peer(c, 0, true));
    STEP(t->reserve(c, 4 * MIB, &base));
    STEP(t->create(c, 2 * MIB, &first));
    STEP(t->create(c, 2 * MIB, &second));
    STEP(t->map(c, base, 2 * MIB, first));
    if (status == VW_OK)
        mapped_bytes = 2 * MIB;
    STEP(t->map(c, base + 2 * MIB, 2 * MIB, second));
    if (status == VW_OK)
        mapped_bytes = 4 * MIB;
    STEP(t->set_access(c, base, 4 * MIB));
    if (status == VW_OK) {
        status = t->unmap(c, base, 4 * MIB);
        mapped_bytes = status == VW_OK ? 0 : mapped_bytes;
    }
#undef STEP
    fail_call(0, 0);
    if (mapped_bytes != 0)
        assert_ok(t->unmap(c, base, mapped_bytes));
    if (second != 0)
        assert_ok(t->release(c, second));
    if (first != 0)
        assert_ok(t->release(c, first));
    if (base != 0)
        assert_ok(t->unreserve(c, base, 4 * MIB));
    if (pinned != NULL)
        assert_ok(t->host_give_back(c, pinned));
    if (event != 0)
        assert_ok(t->event_destroy(c, event));
    if (stream != 0)
        assert_ok(t->stream_destroy(c, stream));
    if (plain != 0)
        assert_ok(t->give_back(c, plain));
    vw_device_destroy(device);
    return status;
}

static void whichever_call_is_refused_nothing_is_left_behind(void **state)
{
    (void)state;
    int refused = 0, passed = 0;
    /* Changing modes and going back may be refused: nobody hears of it. So it goes on after a run
     * that passes, until many in a row have. */
    for (int nth = 1; passed < 20; nth++) {
        make_current(0);
        fake_cuda_state before = fake_state();
        vw_status status = use_everything(nth);
        fake_cuda_state after = fake_state();
        assert_true(status == VW_OK || status == VW_ERR_DEVICE || status == VW_ERR_UNSUPPORTED);
        passed = status == VW_OK ? passed + 1 : 0;
        refused += status != VW_OK;
        if (status == VW_ERR_UNSUPPORTED) /* a granule stays if undoing was what was refused */
            continue;
        assert_int_equal(after.used_bytes, before.used_bytes);
        assert_int_equal(after.handle_count, before.handle_count);
        assert_int_equal(after.reservation_count, before.reservation_count);
        assert_int_equal(after.mapping_count, before.mapping_count);
    }
    assert_true(refused > 40);
}

/* ---- a runtime of today: pools --------------------------------------------------------------- */

static void a_pool_that_should_spill_is_refused_and_told_why(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    vw_pool *pool = NULL;
    const vw_pool_options options = {
        .struct_size = sizeof options, .engine = "vramwise", .spill_bytes = 64 * MIB};
    assert_status(VW_ERR_UNSUPPORTED, vw_pool_create(device, &options, &pool));
    assert_last_error_has("device Fake GPU 0 cannot use host memory in the place of its own: "
                          "nothing can be spilled: HIP device 0 has no handles on the host: its "
                          "driver is not known to create memory there");
    assert_null(pool);
    vw_device_destroy(device);
}

static const char *const engines[] = {"vramwise", "torch"};

static vw_status use_a_pool(vw_device *device, const char *engine)
{
    enum { BLOCKS = 6 };
    const vw_pool_options options = {.struct_size = sizeof options, .engine = engine};
    vw_pool *pool = NULL;
    vw_device_ptr blocks[BLOCKS] = {0};
    vw_status status = vw_pool_create(device, &options, &pool);
    if (status != VW_OK)
        return status;
    for (size_t i = 0; i < BLOCKS && status == VW_OK; i++)
        status = vw_alloc(pool, (3 * i + 1) * MIB, 0, &blocks[i]);
    for (size_t i = 0; i < BLOCKS; i += 2)
        if (blocks[i] != 0)
            assert_ok(vw_free(pool, blocks[i]));
    if (status == VW_OK)
        status = vw_alloc(pool, 20 * MIB, 0, &blocks[0]);
    vw_pool_destroy(pool);
    return status;
}

static void pools_work_and_give_everything_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        vw_device *device = open_device(1);
        assert_ok(use_a_pool(device, engines[i]));
        expect_nothing_held();
        vw_device_destroy(device);
    }
}

static void a_pool_survives_whichever_call_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
        for (int nth = 1; nth < 400; nth++) {
            make_current(0);
            vw_device *device = open_device(1);
            fail_call(nth, 2);
            vw_status status = use_a_pool(device, engines[i]);
            assert_true(status == VW_OK || status == VW_ERR_DEVICE ||
                        status == VW_ERR_OUT_OF_MEMORY);
            fail_call(0, 0);
            vw_device_destroy(device);
        }
}

/* ---- all of it ------------------------------------------------------------------------------- */

#define WITH_ORDERS_FORGOTTEN(test) cmocka_unit_test_teardown(test, forget_orders)

static int with_a_runtime_of_today(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ORDERS_FORGOTTEN(where_virtual_memory_is_refused_plain_memory_is_left),
        WITH_ORDERS_FORGOTTEN(the_threads_own_device_stays_current),
        WITH_ORDERS_FORGOTTEN(a_device_that_cannot_be_made_current_is_reported),
        WITH_ORDERS_FORGOTTEN(what_hip_has_not_is_said),
        WITH_ORDERS_FORGOTTEN(a_range_is_opened_and_unmapped_mapping_by_mapping),
        WITH_ORDERS_FORGOTTEN(a_range_that_is_not_whole_mappings_never_reaches_the_runtime),
        WITH_ORDERS_FORGOTTEN(an_unmapping_that_fails_in_the_middle_can_be_made_again),
        WITH_ORDERS_FORGOTTEN(a_lack_of_host_memory_maps_nothing),
        WITH_ORDERS_FORGOTTEN(peers_are_let_in_where_they_can_reach_the_memory),
        WITH_ORDERS_FORGOTTEN(a_pool_that_should_spill_is_refused_and_told_why),
        WITH_ORDERS_FORGOTTEN(pools_work_and_give_everything_back),
    };
    setenv("VRAMWISE_HIP_DRIVER", VW_FAKE_HIP_DRIVER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL) + keep_the_contract("hip, fake runtime");
}

/* Last, and alone: a runtime that refuses to undo keeps what was tried out. */
static int with_every_call_refused(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ORDERS_FORGOTTEN(whichever_call_is_refused_nothing_is_left_behind),
        WITH_ORDERS_FORGOTTEN(a_pool_survives_whichever_call_is_refused),
    };
    setenv("VRAMWISE_HIP_DRIVER", VW_FAKE_HIP_DRIVER, 1);
    vw_device_destroy(open_device(0));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- one process a group --------------------------------------------------------------------- */

int main(int argument_count, char **arguments)
{
    int failures = 0;
    (void)arguments;
    if (argument_count > 1)
        return with_a_runtime_in_the_process() != 0;
    failures +=
        vw_test_in_own_process("loaded already", start_again_with_another_runtime_in_the_path);
    failures += vw_test_in_own_process("an old runtime", with_an_old_runtime);
    failures += vw_test_in_own_process("a runtime of today", with_a_runtime_of_today);
    failures += vw_test_in_own_process("every call refused", with_every_call_refused);
    return failures != 0;
}
