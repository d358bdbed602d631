/* test_device_cuda.c - the CUDA device without a GPU: an old driver, a fake driver.
 *
 * What the HIP device does as well is in test_device_drivers.c. A driver is loaded once in the life
 * of a process, so each group of tests runs in a process of its own, forked before anything was
 * loaded, and main() only adds up how they ended. VW_FAKE_CUDA_DRIVER and VW_FAKE_CUDA_DRIVER_OLD
 * are the paths of the two builds of tests/support/fake_cuda/fake_libcuda.c. */
#include "vramwise/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host_memory.h" /* vw__host_memory_fail_at */
#include "device/cuda_driver_load.h"

#include "contract/device_contract.h" /* the suite, and assert_ok, assert_status */
#include "support/cmocka_here.h"
#include "support/fake_cuda_state.h"
#include "support/own_process.h"

#define MIB (UINT64_C(1) << 20)

/* ---- helpers --------------------------------------------------------------------------------- */

static vw_device *open_device(int index)
{
    vw_device *device = NULL;
    assert_ok(vw_cuda_device_open(index, &device));
    return device;
}

static vw_status make_device(void *context, vw_device **out)
{
    (void)context;
    return vw_cuda_device_open(0, out);
}

static fake_cuda_state fake_state(void)
{
    return vw_test_fake_cuda_state();
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
    unsetenv("FAKE_NVML_PROCESSES");
    unsetenv("FAKE_NVML_ENTRY_BYTES");
    vw__host_memory_fail_at(0);
    return 0;
}

/* The whole contract: the fake is strict enough for it to mean something. */
static int keep_the_contract(void)
{
    const vw_test_device_factory factory = {.name = "cuda, fake driver", .make = make_device};
    return vw_test_device_contract(&factory);
}

/* ---- an old driver --------------------------------------------------------------------------- */

static void an_old_driver_has_no_virtual_memory_whatever_the_device_says(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    assert_false(device->properties.has_virtual_memory);
    assert_int_equal(device->properties.granularity_bytes, 0);
    vw_device_ptr address = 77;
    vw_handle handle = 77;
    assert_status(VW_ERR_UNSUPPORTED, device->table->reserve(device->context, 2 * MIB, &address));
    assert_status(VW_ERR_UNSUPPORTED, device->table->create(device->context, 2 * MIB, &handle));
    assert_status(VW_ERR_UNSUPPORTED, device->table->release(device->context, 1));
    assert_status(VW_ERR_UNSUPPORTED, device->table->map(device->context, 1, 2, 3));
    assert_status(VW_ERR_UNSUPPORTED, device->table->unmap(device->context, 1, 2));
    assert_status(VW_ERR_UNSUPPORTED, device->table->set_access(device->context, 1, 2));
    assert_status(VW_ERR_UNSUPPORTED, device->table->unreserve(device->context, 1, 2));
    assert_int_equal(address, 77);
    assert_int_equal(handle, 77);
    vw_device_destroy(device);
}

static void an_old_driver_serves_plain_memory(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    vw_device_ptr address = 0;
    assert_ok(device->table->take(device->context, 3 * MIB, &address));
    assert_int_equal(fake_state().used_bytes, 3 * MIB);
    assert_ok(device->table->give_back(device->context, address));
    vw_device_destroy(device);
}

static void an_old_driver_cannot_capture(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    bool is_capturing = true;
    assert_ok(device->table->stream_is_capturing(device->context, 0, &is_capturing));
    assert_false(is_capturing);
    uint64_t capture = 77;
    size_t count = 77;
    vw_graph_node node = 77;
    assert_status(VW_ERR_UNSUPPORTED, device->table->stream_capture_nodes(
                                          device->context, 0, &capture, &node, 1, &count));
    assert_status(VW_ERR_UNSUPPORTED,
                  device->table->graph_node_parents(device->context, 1, &node, 1, &count));
    assert_true(capture == 77 && count == 77 && node == 77);
    vw_device_destroy(device);
}

static void older_names_of_the_same_functions_are_found(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    static char page[4096];
    assert_int_equal(fake_state().retain_count, 1);
    assert_ok(device->table->host_register(device->context, page, sizeof page));
    assert_ok(device->table->host_unregister(device->context, page));
    vw_process_memory process;
    size_t count = 0;
    assert_ok(device->table->processes(device->context, &process, 1, &count));
    assert_int_equal(count, 3);
    vw_device_destroy(device); /* cuDevicePrimaryCtxRelease, without _v2 */
    assert_int_equal(fake_state().retain_count, 0);
}

static int with_an_old_driver(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_driver_has_no_virtual_memory_whatever_the_device_says),
        cmocka_unit_test(an_old_driver_serves_plain_memory),
        cmocka_unit_test(an_old_driver_cannot_capture),
        cmocka_unit_test(older_names_of_the_same_functions_are_found),
    };
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER_OLD, 1);
    setenv("VRAMWISE_NVML", VW_FAKE_CUDA_DRIVER_OLD, 1);
    return cmocka_run_group_tests(tests, NULL, NULL) + keep_the_contract();
}

/* ---- a driver of today: opening -------------------------------------------------------------- */

static void a_device_without_virtual_memory_opens_all_the_same(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_WITHOUT_VIRTUAL", "1", 1);
    vw_device *device = open_device(0);
    assert_false(device->properties.has_virtual_memory);
    vw_device_destroy(device);
}

/* Each call that opening makes, refused in turn. */
static void a_failed_opening_leaves_nothing_behind(void **state)
{
    (void)state;
    static const char *const calls[] = {
        "cuInit",          "cuDeviceGetCount",         "cuDeviceGet",     "cuDeviceTotalMem_v2",
        "cuDeviceGetName", "cuDevicePrimaryCtxRetain", "cuCtxGetCurrent",
    };
    uint64_t held_bytes = vw__host_memory_get_use().in_use_bytes;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char order[64];
        vw_device *device = NULL;
        snprintf(order, sizeof order, "%s=700", calls[i]);
        order_failure(order);
        assert_status(VW_ERR_DEVICE, vw_cuda_device_open(0, &device));
        assert_last_error_has("CUDA_ERROR_ILLEGAL_ADDRESS (700)");
        assert_null(device);
        assert_int_equal(fake_state().retain_count, 0);
        assert_int_equal(vw__host_memory_get_use().in_use_bytes, held_bytes);
    }
}

/* ---- a driver of today: the context ---------------------------------------------------------- */

static void call_everything_cheap(vw_device *device)
{
    vw_device_ptr address = 0;
    uint64_t free_bytes = 0, total_bytes = 0;
    vw_device_event event = 0;
    assert_ok(device->table->take(device->context, MIB, &address));
    assert_ok(device->table->fill(device->context, address, 1, MIB, 0));
    assert_ok(device->table->event_create(device->context, &event));
    assert_ok(device->table->event_record(device->context, event, 0));
    assert_ok(device->table->event_query(device->context, event));
    assert_ok(device->table->event_destroy(device->context, event));
    assert_ok(device->table->memory_info(device->context, &free_bytes, &total_bytes));
    assert_int_equal(total_bytes - free_bytes, MIB);
    assert_ok(device->table->synchronize(device->context));
    assert_ok(device->table->give_back(device->context, address));
}

static void a_thread_without_a_context_has_none_afterwards(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    call_everything_cheap(device);
    fake_cuda_state after = fake_state();
    assert_int_equal(after.context_depth, 0);
    assert_true(after.push_count > 0);
    assert_int_equal(after.push_count, after.pop_count);
    vw_device_destroy(device);
}

static void a_context_that_is_current_already_is_not_pushed(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    const vw__cuda_driver *driver = NULL;
    vw__cuda_context primary = NULL, popped = NULL;
    assert_ok(vw__cuda_driver_get(&driver));
    assert_int_equal(driver->cuDevicePrimaryCtxRetain(&primary, 0), VW__CUDA_SUCCESS);
    assert_int_equal(driver->cuCtxPushCurrent(primary), VW__CUDA_SUCCESS);

    int push_count = fake_state().push_count;
    call_everything_cheap(device);
    assert_int_equal(fake_state().push_count, push_count);
    assert_int_equal(fake_state().context_depth, 1);

    assert_int_equal(driver->cuCtxPopCurrent(&popped), VW__CUDA_SUCCESS);
    assert_int_equal(driver->cuDevicePrimaryCtxRelease(0), VW__CUDA_SUCCESS);
    vw_device_destroy(device);
}

static void another_devices_context_stays_current(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    const vw__cuda_driver *driver = NULL;
    vw__cuda_context other = NULL, current = NULL;
    assert_ok(vw__cuda_driver_get(&driver));
    assert_int_equal(driver->cuDevicePrimaryCtxRetain(&other, 1), VW__CUDA_SUCCESS);
    assert_int_equal(driver->cuCtxPushCurrent(other), VW__CUDA_SUCCESS);

    vw_device_ptr address = 0;
    call_everything_cheap(device);
    assert_ok(device->table->take(device->context, MIB, &address));
    assert_int_equal(fake_state().device_used_bytes[0], MIB); /* and not on device 1 */
    assert_int_equal(fake_state().device_used_bytes[1], 0);
    assert_ok(device->table->give_back(device->context, address));
    assert_int_equal(driver->cuCtxGetCurrent(&current), VW__CUDA_SUCCESS);
    assert_ptr_equal(current, other);
    assert_int_equal(fake_state().context_depth, 1);

    assert_int_equal(driver->cuCtxPopCurrent(&current), VW__CUDA_SUCCESS);
    assert_int_equal(driver->cuDevicePrimaryCtxRelease(1), VW__CUDA_SUCCESS);
    vw_device_destroy(device);
}

static void a_call_that_fails_pops_what_it_pushed(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    vw_device_ptr address = 77;
    order_failure("cuMemAlloc_v2=700");
    assert_status(VW_ERR_DEVICE, device->table->take(device->context, MIB, &address));
    order_failure("cuCtxPushCurrent_v2=700");
    assert_status(VW_ERR_DEVICE, device->table->take(device->context, MIB, &address));
    assert_last_error_has("cuCtxPushCurrent");
    fake_cuda_state after = fake_state();
    assert_int_equal(after.context_depth, 0);
    assert_int_equal(after.push_count, after.pop_count);
    assert_int_equal(after.capture_mode, 0);
    assert_int_equal(address, 77);
    vw_device_destroy(device);
}

static void the_nodes_of_a_captured_graph_can_be_asked_for(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    const vw_device_table *table = device->table;
    uint64_t capture = 77;
    size_t count = 77;
    vw_graph_node nodes[3] = {77, 77, 77};
    assert_ok(table->stream_capture_nodes(device->context, 0, &capture, nodes, 3, &count));
    assert_true(capture == 0 && count == 0 && nodes[0] == 77);
    setenv("FAKE_CUDA_CAPTURING", "1", 1);
    assert_ok(table->stream_capture_nodes(device->context, 0, &capture, NULL, 0, &count));
    assert_true(capture == FAKE_CUDA_CAPTURE && count == 1);
    assert_ok(table->stream_capture_nodes(device->context, 0, &capture, nodes, 3, &count));
    assert_true(count == 1 && nodes[0] != 77 && nodes[1] == 77);
    vw_graph_node last = nodes[0];
    assert_ok(table->graph_node_parents(device->context, last, NULL, 0, &count));
    assert_int_equal(count, 2);
    assert_ok(table->graph_node_parents(device->context, last, nodes, 1, &count));
    assert_true(count == 2 && nodes[0] != last && nodes[1] == 77);
    assert_ok(table->graph_node_parents(device->context, last, nodes, 3, &count));
    assert_true(count == 2 && nodes[1] != nodes[0] && nodes[2] == 77);
    assert_ok(table->graph_node_parents(device->context, nodes[1], nodes, 3, &count));
    assert_int_equal(count, 0);
    assert_int_equal(fake_state().capture_mode, 0);
    setenv("FAKE_CUDA_SPOILT", "1", 1);
    assert_ok(table->stream_capture_nodes(device->context, 0, &capture, nodes, 3, &count));
    assert_true(capture == 0 && count == 0);
    unsetenv("FAKE_CUDA_SPOILT");
    unsetenv("FAKE_CUDA_CAPTURING");
    vw_device_destroy(device);
}

/* ---- a driver of today: results -------------------------------------------------------------- */

static void any_other_refusal_carries_the_drivers_words_and_the_arguments(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    assert_status(VW_ERR_DEVICE, device->table->give_back(device->context, 0x1234));
    assert_string_equal(vw_last_error(), "cuMemFree(0x1234) on CUDA device 0 failed: "
                                         "CUDA_ERROR_INVALID_VALUE (1): invalid argument");
    assert_status(VW_ERR_DEVICE, device->table->map(device->context, 0x200000, 4096, 9));
    assert_last_error_has("cuMemMap(0x200000, 4096 bytes, handle 0x9)");
    order_failure("cuCtxSynchronize=12345");
    assert_status(VW_ERR_DEVICE, device->table->synchronize(device->context));
    assert_last_error_has("unknown error (12345): the driver has no text for it");
    vw_device_ptr address = 0;
    unsetenv("FAKE_CUDA_FAIL");
    assert_ok(device->table->take(device->context, 4096, &address));
    order_failure("cuStreamSynchronize=700"); /* a write that is staged is not yet written */
    assert_status(VW_ERR_DEVICE, device->table->write(device->context, address, "x", 1));
    assert_last_error_has("cuStreamSynchronize(0) after a write");
    assert_ok(device->table->give_back(device->context, address));
    vw_device_destroy(device);
}

/* ---- a driver of today: arguments ------------------------------------------------------------ */

static void the_driver_is_asked_for_what_pytorch_asks_for(void **state)
{
    (void)state;
    vw_device *device = open_device(1);
    vw_handle handle = 0;
    vw_stream stream = 0;
    vw_device_event event = 0;
    void *pinned = NULL;
    assert_ok(device->table->create(device->context, 2 * MIB, &handle));
    assert_ok(device->table->stream_create(device->context, &stream));
    assert_ok(device->table->event_create(device->context, &event));
    assert_ok(device->table->host_take(device->context, MIB, &pinned));
    fake_cuda_state seen = fake_state();
    assert_int_equal(seen.allocation_type, VW__CUDA_ALLOCATION_PINNED);
    assert_int_equal(seen.allocation_device, 1);
    assert_int_equal(seen.is_direct_rdma_capable, 1);
    assert_int_equal(seen.requested_handle_types, 0);
    assert_int_equal(seen.stream_flags, VW__CUDA_STREAM_NON_BLOCKING);
    assert_int_equal(seen.event_flags, VW__CUDA_EVENT_DISABLE_TIMING);
    assert_int_equal(seen.host_flags, 0);
    assert_ok(device->table->host_give_back(device->context, pinned));
    assert_ok(device->table->event_destroy(device->context, event));
    assert_ok(device->table->stream_destroy(device->context, stream));
    assert_ok(device->table->release(device->context, handle));
    vw_device_destroy(device);
}

static void a_handle_released_while_mapped_keeps_its_bytes_until_unmapped(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    const vw_device_table *table = device->table;
    vw_device_ptr address = 0;
    vw_handle handle = 0;
    char byte = 0;
    assert_ok(table->reserve(device->context, 4 * MIB, &address));
    assert_ok(table->create(device->context, 2 * MIB, &handle));
    assert_ok(table->map(device->context, address + 2 * MIB, 2 * MIB, handle));
    assert_ok(table->release(device->context, handle));
    assert_ok(table->set_access(device->context, address + 2 * MIB, 2 * MIB));
    assert_ok(table->fill(device->context, address + 2 * MIB, 'x', 2 * MIB, 0));
    assert_ok(table->read(device->context, &byte, address + 4 * MIB - 1, 1));
    assert_int_equal(byte, 'x');
    assert_int_equal(fake_state().used_bytes, 2 * MIB);
    assert_ok(table->unmap(device->context, address + 2 * MIB, 2 * MIB));
    assert_int_equal(fake_state().used_bytes, 0);
    assert_ok(table->unreserve(device->context, address, 4 * MIB));
    vw_device_destroy(device);
}

/* ---- a driver of today: who uses the device -------------------------------------------------- */

static void processes_are_those_of_the_device_with_the_same_bus_id(void **state)
{
    (void)state;
    vw_device *used = open_device(0), *idle = open_device(1);
    vw_process_memory entries[8];
    size_t count = 77;
    assert_ok(used->table->processes(used->context, entries, 8, &count));
    assert_int_equal(count, 3);
    assert_int_equal(entries[0].pid, getpid());
    assert_true(entries[0].is_this_process);
    assert_int_equal(entries[0].used_bytes, FAKE_NVML_OWN_BYTES);
    assert_int_equal(entries[1].pid, FAKE_CUDA_ANOTHER_PID);
    assert_false(entries[1].is_this_process);
    assert_true(entries[1].used_bytes == UINT64_MAX); /* it would not say */
    assert_ok(idle->table->processes(idle->context, entries, 8, &count));
    assert_int_equal(count, 0);
    vw_device_destroy(idle);
    vw_device_destroy(used);
}

static void a_device_without_a_bus_id_cannot_name_its_processes(void **state)
{
    (void)state;
    order_failure("cuDeviceGetPCIBusId=1");
    vw_device *device = open_device(0);
    size_t count = 77;
    assert_status(VW_ERR_UNSUPPORTED, device->table->processes(device->context, NULL, 0, &count));
    assert_int_equal(count, 77);
    vw_device_destroy(device);
}

/* ---- all of it ------------------------------------------------------------------------------- */

#define WITH_ORDERS_FORGOTTEN(test) cmocka_unit_test_teardown(test, forget_orders)

static int with_a_driver_of_today(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ORDERS_FORGOTTEN(a_device_without_virtual_memory_opens_all_the_same),
        WITH_ORDERS_FORGOTTEN(a_failed_opening_leaves_nothing_behind),
        cmocka_unit_test(a_thread_without_a_context_has_none_afterwards),
        cmocka_unit_test(a_context_that_is_current_already_is_not_pushed),
        cmocka_unit_test(another_devices_context_stays_current),
        WITH_ORDERS_FORGOTTEN(a_call_that_fails_pops_what_it_pushed),
        WITH_ORDERS_FORGOTTEN(the_nodes_of_a_captured_graph_can_be_asked_for),
        WITH_ORDERS_FORGOTTEN(any_other_refusal_carries_the_drivers_words_and_the_arguments),
        cmocka_unit_test(the_driver_is_asked_for_what_pytorch_asks_for),
        cmocka_unit_test(a_handle_released_while_mapped_keeps_its_bytes_until_unmapped),
        cmocka_unit_test(processes_are_those_of_the_device_with_the_same_bus_id),
        WITH_ORDERS_FORGOTTEN(a_device_without_a_bus_id_cannot_name_its_processes),
    };
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1);
    setenv("VRAMWISE_NVML", VW_FAKE_CUDA_DRIVER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL) + keep_the_contract();
}

/* ---- one process a group --------------------------------------------------------------------- */

int main(void)
{
    int failures = 0;
    failures += vw_test_in_own_process("an old driver", with_an_old_driver);
    failures += vw_test_in_own_process("a driver of today", with_a_driver_of_today);
    return failures != 0;
}
