/* test_cuda_virtual_memory.c - what opening a device concludes from what its driver refuses.
 *
 * On the fake driver (tests/support/fake_cuda), which can be a virtual GPU that refuses a call, a
 * virtual machine that gives no access to memory for network cards, or a sandbox without sharing.
 */
#include "device/cuda_virtual_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h" /* vw__error_describe */
#include "vramwise/device.h"

#include "contract/device_contract.h" /* the suite, and assert_ok, assert_status */
#include "support/cmocka_here.h"
#include "support/fake_cuda_state.h"

#define MIB (UINT64_C(1) << 20)
#define EARLIER "what an earlier call had to say"

static void order(const char *variable, const char *value)
{
    assert_int_equal(setenv(variable, value, 1), 0);
}

static void order_refusal(const char *symbol, int number)
{
    char text[96];
    snprintf(text, sizeof text, "%s=%d", symbol, number);
    order("FAKE_CUDA_FAIL", text);
}

static int forget_orders(void **state)
{
    (void)state;
    unsetenv("FAKE_CUDA_FAIL");
    unsetenv("FAKE_CUDA_WITHOUT_VIRTUAL");
    unsetenv("FAKE_CUDA_WITHOUT_RDMA");
    unsetenv("FAKE_CUDA_RDMA_WITHOUT_ACCESS");
    unsetenv("FAKE_CUDA_WITHOUT_SHARING");
    unsetenv("FAKE_CUDA_SHARING_REFUSED");
    unsetenv("FAKE_CUDA_WITHOUT_DMA_BUF");
    unsetenv("FAKE_CUDA_WITHOUT_HOST_NODES");
    unsetenv("FAKE_CUDA_HOST_REFUSED");
    return 0;
}

static vw_device *open_device(void)
{
    vw_device *device = NULL;
    vw__error_describe(EARLIER);
    assert_ok(vw_cuda_device_open(0, &device));
    assert_string_equal(vw_last_error(), EARLIER); /* whatever was tried in vain */
    return device;
}

static void assert_nothing_is_left(void)
{
    fake_cuda_state left = vw_test_fake_cuda_state();
    assert_int_equal(left.handle_count, 0);
    assert_int_equal(left.reservation_count, 0);
    assert_int_equal(left.mapping_count, 0);
    assert_int_equal(left.used_bytes, 0);
    assert_int_equal(left.host_handle_bytes, 0);
    assert_int_equal(left.context_depth, 0);
    assert_int_equal(left.capture_mode, 0);
}

/* Makes a handle through the table, and tells what the driver was asked for. */
static fake_cuda_state ask_for_a_handle(const vw_device *device, bool is_shareable)
{
    vw_handle handle = 0;
    if (is_shareable)
        assert_ok(device->table->create_shareable(device->context, 2 * MIB, &handle));
    else
        assert_ok(device->table->create(device->context, 2 * MIB, &handle));
    fake_cuda_state asked = vw_test_fake_cuda_state();
    assert_ok(device->table->release(device->context, handle));
    return asked;
}

/* ---- memory for network cards ---------------------------------------------------------------- */

static void where_everything_works_handles_ask_for_direct_rdma(void **state)
{
    (void)state;
    vw_device *device = open_device();
    assert_nothing_is_left();
    assert_true(device->properties.has_virtual_memory);
    assert_true(device->properties.has_rdma_handles);
    assert_true(device->properties.has_shareable_handles);
    assert_int_equal(device->properties.granularity_bytes, FAKE_CUDA_GRANULARITY_BYTES);
    fake_cuda_state asked = ask_for_a_handle(device, false);
    assert_int_equal(asked.is_direct_rdma_capable, 1);
    assert_int_equal(asked.requested_handle_types, 0);
    asked = ask_for_a_handle(device, true);
    assert_int_equal(asked.is_direct_rdma_capable, 1);
    assert_int_equal(asked.requested_handle_types, VW__CUDA_HANDLE_FILE_DESCRIPTOR);
    vw_device_destroy(device);
}

static void a_device_without_direct_rdma_is_not_asked_for_it(void **state)
{
    (void)state;
    order("FAKE_CUDA_WITHOUT_RDMA", "1");
    vw_device *device = open_device();
    assert_true(device->properties.has_virtual_memory);
    assert_false(device->properties.has_rdma_handles);
    assert_int_equal(ask_for_a_handle(device, false).is_direct_rdma_capable, 0);
    assert_int_equal(ask_for_a_handle(device, true).is_direct_rdma_capable, 0);
    vw_device_destroy(device);
}

static void where_access_to_such_memory_is_refused_handles_do_without(void **state)
{
    (void)state;
    order("FAKE_CUDA_RDMA_WITHOUT_ACCESS", "1");
    vw_device *device = open_device();
    assert_nothing_is_left();
    assert_true(device->properties.has_virtual_memory);
    assert_true(device->properties.has_shareable_handles);
    assert_false(device->properties.has_rdma_handles);
    assert_int_equal(ask_for_a_handle(device, false).is_direct_rdma_capable, 0);
    assert_int_equal(ask_for_a_handle(device, true).is_direct_rdma_capable, 0);
    vw_device_destroy(device);
}

/* ---- without virtual memory ------------------------------------------------------------------ */

static void assert_only_plain_memory_works(const vw_device *device, const char *reason)
{
    const vw_device_properties *properties = &device->properties;
    vw_device_ptr address = 77;
    vw_handle handle = 77;
    assert_false(properties->has_virtual_memory || properties->has_rdma_handles ||
                 properties->has_shareable_handles);
    assert_int_equal(properties->granularity_bytes, 0);
    assert_status(VW_ERR_UNSUPPORTED, device->table->reserve(device->context, 2 * MIB, &address));
    assert_last_error_has("CUDA device 0 has no virtual memory: ");
    assert_last_error_has(reason);
    assert_status(VW_ERR_UNSUPPORTED, device->table->create(device->context, 2 * MIB, &handle));
    assert_status(VW_ERR_UNSUPPORTED,
                  device->table->create_shareable(device->context, 2 * MIB, &handle));
    assert_true(address == 77 && handle == 77);
    assert_ok(device->table->take(device->context, MIB, &address));
    assert_ok(device->table->give_back(device->context, address));
}

static void a_driver_that_says_it_has_none_is_believed(void **state)
{
    (void)state;
    order("FAKE_CUDA_WITHOUT_VIRTUAL", "1");
    vw_device *device = open_device();
    assert_only_plain_memory_works(device, "the driver says so");
    vw_device_destroy(device);
}

/* What the attribute promises, and each call on the way breaks in turn. */
static void a_driver_that_refuses_any_of_the_calls_has_none(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuMemGetAllocationGranularity", "cuMemAddressReserve",
                                        "cuMemCreate", "cuMemMap", "cuMemSetAccess"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char reason[96];
        snprintf(reason, sizeof reason, "%s failed when tried: CUDA_ERROR_NOT_SUPPORTED (801)",
                 calls[i]);
        order_refusal(calls[i], 801);
        vw_device *device = open_device();
        assert_nothing_is_left();
        assert_only_plain_memory_works(device, reason);
        vw_device_destroy(device);
    }
    order_refusal("cuMemMap", 12345);
    vw_device *device = open_device();
    assert_only_plain_memory_works(device, "cuMemMap failed when tried: unknown error (12345)");
    vw_device_destroy(device);
}

/* Only a full card is no reason. */
static void a_card_that_is_full_is_taken_at_its_word_but_for_direct_rdma(void **state)
{
    (void)state;
    vw_device *device = open_device();
    vw_device_ptr everything = VW_NULL;
    assert_ok(device->table->take(device->context, FAKE_CUDA_TOTAL_BYTES, &everything));
    vw_device *another = open_device();
    assert_true(another->properties.has_virtual_memory);
    assert_true(another->properties.has_shareable_handles);
    assert_false(another->properties.has_rdma_handles);
    assert_int_equal(another->properties.granularity_bytes, FAKE_CUDA_GRANULARITY_BYTES);
    assert_ok(device->table->give_back(device->context, everything));
    assert_nothing_is_left();
    assert_int_equal(ask_for_a_handle(another, false).is_direct_rdma_capable, 0);
    vw_device_destroy(another);
    order_refusal("cuMemAddressReserve", 2); /* this one has no such excuse */
    another = open_device();
    assert_only_plain_memory_works(another, "cuMemAddressReserve failed when tried");
    vw_device_destroy(another);
    vw_device_destroy(device);
}

/* Last in its group: what the fake refuses to undo stays. */
static void a_driver_that_refuses_to_undo_has_none_either(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuMemUnmap", "cuMemRelease", "cuMemAddressFree"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char reason[64];
        snprintf(reason, sizeof reason, "%s failed when tried", calls[i]);
        order_refusal(calls[i], 801);
        vw_device *device = open_device();
        assert_only_plain_memory_works(device, reason);
        vw_device_destroy(device);
    }
}

/* ---- memory for other processes -------------------------------------------------------------- */

static void assert_cannot_share(const vw_device *device)
{
    vw_handle handle = 77;
    int file = 77;
    assert_true(device->properties.has_virtual_memory);
    assert_true(device->properties.has_rdma_handles);
    assert_false(device->properties.has_shareable_handles);
    assert_status(VW_ERR_UNSUPPORTED,
                  device->table->create_shareable(device->context, 2 * MIB, &handle));
    assert_last_error_has("no shareable handles");
    assert_status(VW_ERR_UNSUPPORTED, device->table->export_handle(device->context, 1, &file));
    assert_true(handle == 77 && file == 77);
    assert_int_equal(ask_for_a_handle(device, false).requested_handle_types, 0);
}

static void sharing_is_there_only_where_the_device_has_it_and_it_works(void **state)
{
    (void)state;
    order("FAKE_CUDA_WITHOUT_SHARING", "1");
    vw_device *device = open_device();
    assert_cannot_share(device);
    vw_device_destroy(device);
    forget_orders(NULL);

    order("FAKE_CUDA_SHARING_REFUSED", "1");
    device = open_device();
    assert_nothing_is_left();
    assert_cannot_share(device);
    vw_device_destroy(device);
    forget_orders(NULL);

    order_refusal("cuMemExportToShareableHandle", 304);
    device = open_device();
    assert_nothing_is_left();
    unsetenv("FAKE_CUDA_FAIL");
    assert_cannot_share(device);
    vw_device_destroy(device);
}

static void dma_bufs_are_there_only_where_the_driver_says_so(void **state)
{
    (void)state;
    int file = 77;
    order("FAKE_CUDA_WITHOUT_DMA_BUF", "1");
    vw_device *device = open_device();
    assert_false(device->properties.has_dma_buf);
    assert_status(VW_ERR_UNSUPPORTED,
                  device->table->export_dma_buf(device->context, 2 * MIB, 4096, &file));
    assert_last_error_has("CUDA device 0 makes no dma-buf");
    vw_device_destroy(device);
    forget_orders(NULL);

    order("FAKE_CUDA_WITHOUT_VIRTUAL", "1"); /* plain memory can be in one, too */
    device = open_device();
    assert_true(device->properties.has_dma_buf);
    assert_status(VW_ERR_DEVICE, /* nothing is there */
                  device->table->export_dma_buf(device->context, 2 * MIB, 4096, &file));
    assert_last_error_has("cuMemGetHandleForAddressRange(0x200000, 4096 bytes)");
    assert_int_equal(file, 77);
    vw_device_destroy(device);
}

static void an_exported_descriptor_is_the_handles_memory(void **state)
{
    (void)state;
    vw_device *device = open_device();
    const vw_device_table *table = device->table;
    vw_device_ptr address = VW_NULL;
    vw_handle handle = 0;
    int file = -1;
    assert_ok(table->reserve(device->context, 2 * MIB, &address));
    assert_ok(table->create_shareable(device->context, 2 * MIB, &handle));
    assert_ok(table->map(device->context, address, 2 * MIB, handle));
    assert_ok(table->set_access(device->context, address, 2 * MIB));
    assert_ok(table->fill(device->context, address, 0x2a, 2 * MIB, 0));
    assert_ok(table->export_handle(device->context, handle, &file));
    uint8_t *seen = mmap(NULL, 2 * MIB, PROT_READ, MAP_SHARED, file, 0);
    assert_ptr_not_equal(seen, MAP_FAILED);
    assert_int_equal(seen[2 * MIB - 1], 0x2a);
    munmap(seen, 2 * MIB);
    close(file);
    assert_ok(table->unmap(device->context, address, 2 * MIB));
    assert_ok(table->release(device->context, handle));
    assert_ok(table->unreserve(device->context, address, 2 * MIB));
    assert_nothing_is_left();
    vw_device_destroy(device);
}

/* ---- memory of the host ---------------------------------------------------------------------- */

static void assert_host_handles_are_of(const vw_device *device, int location, int number)
{
    vw_handle handle = 0;
    assert_true(device->properties.has_host_handles);
    assert_ok(device->table->create_on_host(device->context, 2 * MIB, &handle));
    fake_cuda_state asked = vw_test_fake_cuda_state();
    assert_int_equal(asked.allocation_location, location);
    assert_int_equal(asked.allocation_device, number);
    assert_int_equal(asked.is_direct_rdma_capable, 0);
    assert_int_equal(asked.host_handle_bytes, 2 * MIB);
    assert_int_equal(asked.used_bytes, 0);
    assert_ok(device->table->release(device->context, handle));
}

static void host_handles_are_of_the_nearest_node_or_of_the_host(void **state)
{
    (void)state;
    vw_device *device = open_device();
    assert_nothing_is_left();
    assert_host_handles_are_of(device, VW__CUDA_LOCATION_HOST_NODE, FAKE_CUDA_HOST_NODE);
    vw_device_destroy(device);
    order("FAKE_CUDA_WITHOUT_HOST_NODES", "1");
    device = open_device();
    assert_host_handles_are_of(device, VW__CUDA_LOCATION_HOST, 0);
    vw_device_destroy(device);
}

static void where_the_host_gives_none_there_are_no_host_handles(void **state)
{
    (void)state;
    vw_handle handle = 77;
    order("FAKE_CUDA_HOST_REFUSED", "1");
    vw_device *device = open_device();
    assert_nothing_is_left();
    assert_true(device->properties.has_virtual_memory && device->properties.has_rdma_handles);
    assert_false(device->properties.has_host_handles);
    assert_status(VW_ERR_UNSUPPORTED,
                  device->table->create_on_host(device->context, 2 * MIB, &handle));
    assert_last_error_has("no handles on the host");
    assert_int_equal(handle, 77);
    vw_device_destroy(device);
    forget_orders(NULL);
    device = open_device();
    order("FAKE_CUDA_HOST_REFUSED", "1"); /* from now on: the machine has run out */
    assert_status(VW_ERR_HOST_MEMORY,
                  device->table->create_on_host(device->context, 2 * MIB, &handle));
    assert_int_equal(handle, 77);
    vw_device_destroy(device);
}

/* ---- the contract, on each kind of machine --------------------------------------------------- */

static vw_status make_device(void *context, vw_device **out)
{
    (void)context;
    return vw_cuda_device_open(0, out);
}

static int keep_the_contract(const char *name, const char *variable, const char *value)
{
    const vw_test_device_factory factory = {.name = name, .make = make_device};
    setenv(variable, value, 1);
    int failed = vw_test_device_contract(&factory);
    unsetenv(variable);
    return failed;
}

#define WITH_ORDERS_FORGOTTEN(test) cmocka_unit_test_teardown(test, forget_orders)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_everything_works_handles_ask_for_direct_rdma),
        WITH_ORDERS_FORGOTTEN(a_device_without_direct_rdma_is_not_asked_for_it),
        WITH_ORDERS_FORGOTTEN(where_access_to_such_memory_is_refused_handles_do_without),
        WITH_ORDERS_FORGOTTEN(a_driver_that_says_it_has_none_is_believed),
        WITH_ORDERS_FORGOTTEN(a_driver_that_refuses_any_of_the_calls_has_none),
        WITH_ORDERS_FORGOTTEN(a_card_that_is_full_is_taken_at_its_word_but_for_direct_rdma),
        WITH_ORDERS_FORGOTTEN(sharing_is_there_only_where_the_device_has_it_and_it_works),
        WITH_ORDERS_FORGOTTEN(dma_bufs_are_there_only_where_the_driver_says_so),
        cmocka_unit_test(an_exported_descriptor_is_the_handles_memory),
        WITH_ORDERS_FORGOTTEN(host_handles_are_of_the_nearest_node_or_of_the_host),
        WITH_ORDERS_FORGOTTEN(where_the_host_gives_none_there_are_no_host_handles),
        WITH_ORDERS_FORGOTTEN(a_driver_that_refuses_to_undo_has_none_either),
    };
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1);
    setenv("VRAMWISE_NVML", VW_FAKE_CUDA_DRIVER, 1);
    int failed = 0;
    failed += keep_the_contract("cuda, no access for network cards",
                                "FAKE_CUDA_RDMA_WITHOUT_ACCESS", "1");
    failed += keep_the_contract("cuda, sharing refused", "FAKE_CUDA_SHARING_REFUSED", "1");
    failed += keep_the_contract("cuda, nothing on the host", "FAKE_CUDA_HOST_REFUSED", "1");
    failed += keep_the_contract("cuda, no dma-buf", "FAKE_CUDA_WITHOUT_DMA_BUF", "1");
    failed += keep_the_contract("cuda, a kernel without dma-buf", "FAKE_CUDA_FAIL",
                                "cuMemGetHandleForAddressRange=801");
    failed += keep_the_contract("cuda, a virtual GPU", "FAKE_CUDA_FAIL", "cuMemMap=801");
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
