/* test_device_cuda.c - the CUDA device without a GPU: no driver, an old driver, a fake driver.
 *
 * A driver is loaded once in the life of a process, so each group of tests runs in a process of
 * its own, forked before anything was loaded, and main() only adds up how they ended.
 * VW_FAKE_CUDA_DRIVER and VW_FAKE_CUDA_DRIVER_OLD are the paths of the two builds of
 * tests/support/fake_cuda/fake_libcuda.c. */
#include "vramwise/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"       /* vw__fail */
#include "base/host_memory.h" /* vw__host_memory_fail_at */
#include "device/cuda_driver_load.h"

#include "contract/device_contract.h" /* the suite, and assert_ok, assert_status */
#include "support/cmocka_here.h"
#include "support/fake_cuda_state.h"

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

/* ---- without a driver ------------------------------------------------------------------------ */

static void a_missing_driver_is_no_device_and_the_message_names_what_was_tried(void **state)
{
    (void)state;
    vw_device *device = (vw_device *)&device;
    assert_status(VW_ERR_NO_DEVICE, vw_cuda_device_open(0, &device));
    assert_ptr_equal(device, &device);
    assert_last_error_has(
        "/nowhere/libcuda.so (cannot open shared object file: No such file or directory)");
    assert_last_error_has("VRAMWISE_CUDA_DRIVER");
}

static void the_reason_is_kept_for_the_second_question(void **state)
{
    (void)state;
    vw_device *device = NULL;
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1); /* too late */
    vw__error_describe("something else");
    assert_status(VW_ERR_NO_DEVICE, vw_cuda_device_open(0, &device));
    assert_last_error_has("/nowhere/libcuda.so");
}

static void a_place_for_the_device_is_required(void **state)
{
    (void)state;
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_cuda_device_open(0, NULL));
}

static int without_a_driver(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_driver_is_no_device_and_the_message_names_what_was_tried),
        cmocka_unit_test(the_reason_is_kept_for_the_second_question),
        cmocka_unit_test(a_place_for_the_device_is_required),
    };
    setenv("VRAMWISE_CUDA_DRIVER", "/nowhere/libcuda.so", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- on this machine as it is ---------------------------------------------------------------- */

static void on_a_machine_without_a_driver_every_usual_place_is_named(void **state)
{
    (void)state;
    vw_device *device = NULL;
    need(dlopen("libcuda.so.1", RTLD_LAZY) == NULL && dlopen("libcuda.so", RTLD_LAZY) == NULL,
         "this machine has a CUDA driver");
    assert_status(VW_ERR_NO_DEVICE, vw_cuda_device_open(0, &device));
    assert_last_error_has("no CUDA driver could be loaded");
    assert_last_error_has("libcuda.so.1 (");
    assert_last_error_has(", libcuda.so (");
    assert_last_error_has("/usr/lib/wsl/lib/libcuda.so.1 (");
    assert_null(strstr(vw_last_error(), "VRAMWISE_CUDA_DRIVER"));
}

static int on_this_machine(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_a_machine_without_a_driver_every_usual_place_is_named),
    };
    setenv("VRAMWISE_CUDA_DRIVER", "", 1); /* empty: not set */
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- a library that is no driver ------------------------------------------------------------- */

static void a_library_that_lacks_a_function_is_no_driver(void **state)
{
    (void)state;
    vw_device *device = NULL;
    assert_status(VW_ERR_NO_DEVICE, vw_cuda_device_open(0, &device));
    assert_last_error_has("has no function cuInit");
    assert_null(device);
}

static int with_a_library_that_is_no_driver(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_lacks_a_function_is_no_driver),
    };
    setenv("VRAMWISE_CUDA_DRIVER", "libc.so.6", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
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

static void an_open_device_says_what_it_is(void **state)
{
    (void)state;
    vw_device *device = open_device(1);
    assert_string_equal(device->properties.name, "Fake GPU 1");
    assert_int_equal(device->properties.index, 1);
    assert_int_equal(device->properties.total_bytes, FAKE_CUDA_TOTAL_BYTES);
    assert_int_equal(device->properties.granularity_bytes, FAKE_CUDA_GRANULARITY_BYTES);
    assert_true(device->properties.has_virtual_memory);
    assert_true(device->properties.has_bytes);
    assert_true(device->properties.has_pinned_memory);
    assert_true(device->properties.has_rdma_handles);
    assert_true(device->properties.has_shareable_handles);
    vw_device_destroy(device);
}

static void a_number_outside_the_visible_devices_is_no_device(void **state)
{
    (void)state;
    vw_device *device = NULL;
    setenv("CUDA_VISIBLE_DEVICES", "5,6", 1);
    assert_status(VW_ERR_NO_DEVICE, vw_cuda_device_open(FAKE_CUDA_DEVICES, &device));
    assert_last_error_has("no CUDA device 2: the driver shows 2");
    assert_last_error_has("CUDA_VISIBLE_DEVICES is set: 5,6");
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_status(VW_ERR_NO_DEVICE, vw_cuda_device_open(-1, &device));
    assert_last_error_has("CUDA_VISIBLE_DEVICES is not set");
    assert_null(device);
}

static void a_driver_that_sees_no_gpu_is_no_device(void **state)
{
    (void)state;
    vw_device *device = NULL;
    order_failure("cuInit=100");
    assert_status(VW_ERR_NO_DEVICE, vw_cuda_device_open(0, &device));
    assert_last_error_has("cuInit(0)");
    assert_last_error_has("CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected");
    assert_null(device);
}

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

static void opening_survives_every_lack_of_host_memory(void **state)
{
    (void)state;
    uint64_t held_bytes = vw__host_memory_get_use().in_use_bytes;
    vw_device *device = NULL;
    unsigned failures = 0;
    for (uint64_t nth = 1; device == NULL; nth++) {
        vw__host_memory_fail_at(nth);
        vw_status status = vw_cuda_device_open(0, &device);
        vw__host_memory_fail_at(0);
        if (status == VW_OK)
            break;
        assert_status(VW_ERR_HOST_MEMORY, status);
        assert_int_equal(vw__host_memory_get_use().in_use_bytes, held_bytes);
        failures++;
    }
    assert_int_equal(failures, 2);
    vw_device_destroy(device);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, held_bytes);
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

static void memory_is_served_while_somebody_captures_a_graph(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    bool is_capturing = false;
    setenv("FAKE_CUDA_CAPTURING", "1", 1);
    call_everything_cheap(device);
    assert_int_equal(fake_state().capture_mode, 0); /* the thread's own mode is back */
    assert_ok(device->table->stream_is_capturing(device->context, 0, &is_capturing));
    assert_true(is_capturing);
    unsetenv("FAKE_CUDA_CAPTURING");
    assert_ok(device->table->stream_is_capturing(device->context, 0, &is_capturing));
    assert_false(is_capturing);
    vw_device_destroy(device);
}

/* ---- a driver of today: results -------------------------------------------------------------- */

static void a_full_device_is_out_of_memory_with_the_numbers(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    vw_device_ptr held = 0, address = 77;
    vw_handle handle = 77;
    assert_ok(device->table->take(device->context, MIB, &held));
    assert_status(VW_ERR_OUT_OF_MEMORY,
                  device->table->take(device->context, FAKE_CUDA_TOTAL_BYTES, &address));
    assert_string_equal(vw_last_error(), "cuMemAlloc(4294967296 bytes) on CUDA device 0 failed: "
                                         "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; "
                                         "4293918720 of 4294967296 bytes free");
    assert_status(VW_ERR_OUT_OF_MEMORY,
                  device->table->create(device->context, FAKE_CUDA_TOTAL_BYTES, &handle));
    assert_last_error_has("cuMemCreate(4294967296 bytes)");
    assert_last_error_has("4293918720 of 4294967296 bytes free");
    assert_int_equal(address, 77);
    assert_int_equal(handle, 77);
    assert_ok(device->table->give_back(device->context, held));
    vw_device_destroy(device);
}

static void a_lack_of_page_locked_memory_is_the_hosts(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    void *address = &device;
    order_failure("cuMemHostAlloc=2");
    assert_status(VW_ERR_HOST_MEMORY, device->table->host_take(device->context, MIB, &address));
    assert_last_error_has("cuMemHostAlloc(1048576 bytes)");
    assert_ptr_equal(address, &device);
    vw_device_destroy(device);
}

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

static void work_that_is_not_done_is_not_ready_and_no_error(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    vw_device_event event = 0;
    assert_ok(device->table->event_create(device->context, &event));
    vw__error_describe("what an earlier call had to say");
    order_failure("cuEventQuery=600");
    assert_status(VW_ERR_NOT_READY, device->table->event_query(device->context, event));
    assert_string_equal(vw_last_error(), "what an earlier call had to say");
    order_failure("cuEventQuery=700");
    assert_status(VW_ERR_DEVICE, device->table->event_query(device->context, event));
    assert_last_error_has("CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    unsetenv("FAKE_CUDA_FAIL");
    assert_ok(device->table->event_query(device->context, event));
    assert_ok(device->table->event_destroy(device->context, event));
    vw_device_destroy(device);
}

/* Every function of the table, its driver call refused. A new one without a line here is found by
 * the count of the table's fields. */
static void every_refusal_is_reported_and_keeps_the_outputs(void **state)
{
    (void)state;
    vw_device *device = open_device(0);
    const vw_device_table *table = device->table;
    void *context = device->context;
    uint64_t number = 77, total_bytes = 77;
    bool flag = true;
    int file = 77;
    char byte = 0;
    void *pointer = &byte;
    size_t tried = 0;
#define REFUSED(symbol, call)                                                                      \
    do {                                                                                           \
        order_failure(symbol "=700");                                                              \
        assert_status(VW_ERR_DEVICE, table->call);                                                 \
        assert_last_error_has("CUDA_ERROR_ILLEGAL_ADDRESS (700)");                                 \
        assert_memory_equal(vw_last_error(), symbol, strcspn(symbol, "_"));                        \
        assert_true(number == 77 && total_bytes == 77 && flag && pointer == &byte && byte == 0);   \
        assert_int_equal(file, 77);                                                                \
        tried++;                                                                                   \
    } while (0)
    REFUSED("cuMemAlloc_v2", take(context, MIB, &number));
    REFUSED("cuMemFree_v2", give_back(context, 1));
    REFUSED("cuMemAddressReserve", reserve(context, 2 * MIB, &number));
    REFUSED("cuMemAddressFree", unreserve(context, 1, 2 * MIB));
    REFUSED("cuMemCreate", create(context, 2 * MIB, &number));
    REFUSED("cuMemRelease", release(context, 1));
    REFUSED("cuMemMap", map(context, 1, 2 * MIB, 1));
    REFUSED("cuMemUnmap", unmap(context, 1, 2 * MIB));
    REFUSED("cuMemSetAccess", set_access(context, 1, 2 * MIB));
    REFUSED("cuStreamCreate", stream_create(context, &number));
    REFUSED("cuStreamDestroy_v2", stream_destroy(context, 1));
    REFUSED("cuStreamSynchronize", stream_synchronize(context, 1));
    REFUSED("cuStreamWaitEvent", stream_wait_event(context, 1, 1));
    REFUSED("cuStreamIsCapturing", stream_is_capturing(context, 1, &flag));
    REFUSED("cuStreamGetCaptureInfo_v2",
            stream_capture_nodes(context, 1, &number, &number, 1, &tried));
    REFUSED("cuGraphNodeGetDependencies", graph_node_parents(context, 1, &number, 1, &tried));
    REFUSED("cuEventCreate", event_create(context, &number));
    REFUSED("cuEventDestroy_v2", event_destroy(context, 1));
    REFUSED("cuEventRecord", event_record(context, 1, 1));
    REFUSED("cuEventQuery", event_query(context, 1));
    REFUSED("cuEventSynchronize", event_synchronize(context, 1));
    REFUSED("cuCtxSynchronize", synchronize(context));
    REFUSED("cuMemcpyHtoD_v2", write(context, 1, &byte, 1));
    REFUSED("cuMemcpyDtoH_v2", read(context, &byte, 1, 1));
    REFUSED("cuMemsetD8Async", fill(context, 1, 1, 1, 0));
    REFUSED("cuMemcpyDtoDAsync_v2", copy(context, 1, 2, 1, 0));
    REFUSED("cuMemHostAlloc", host_take(context, 1, &pointer));
    REFUSED("cuMemFreeHost", host_give_back(context, &byte));
    REFUSED("cuMemHostRegister_v2", host_register(context, &byte, 1));
    REFUSED("cuMemHostUnregister", host_unregister(context, &byte));
    REFUSED("cuMemGetInfo_v2", memory_info(context, &number, &total_bytes));
    REFUSED("cuMemCreate", create_shareable(context, 2 * MIB, &number));
    REFUSED("cuMemCreate", create_on_host(context, 2 * MIB, &number));
    REFUSED("cuMemExportToShareableHandle", export_handle(context, 1, &file));
    REFUSED("cuMemImportFromShareableHandle", import_handle(context, 1, 2 * MIB, &number));
    REFUSED("cuDeviceCanAccessPeer", allow_peer(context, 1, true));
#undef REFUSED
    /* All but struct_size, processes (NVML's) and destroy. */
    assert_int_equal(tried, sizeof(vw_device_table) / sizeof(void *) - 3);
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

/* ---- a driver of today: threads -------------------------------------------------------------- */

static void *open_and_use(void *unused)
{
    (void)unused;
    vw_device *device = NULL;
    vw_device_ptr address = 0;
    if (vw_cuda_device_open(0, &device) != VW_OK)
        return "open";
    for (int i = 0; i < 200; i++)
        if (device->table->take(device->context, 4096, &address) != VW_OK ||
            device->table->give_back(device->context, address) != VW_OK)
            return "use";
    vw_device_destroy(device);
    return fake_state().context_depth == 0 ? NULL : "context";
}

/* First in its group, so that the threads race for the loading. */
static void threads_may_load_open_and_use_it_at_once(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_use, NULL), 0);
    for (size_t i = 0; i < 4; i++) {
        void *failed_at = NULL;
        assert_int_equal(pthread_join(threads[i], &failed_at), 0);
        if (failed_at != NULL)
            fail_msg("a thread failed at: %s", (const char *)failed_at);
    }
    assert_int_equal(fake_state().retain_count, 0);
    assert_int_equal(fake_state().used_bytes, 0);
}

#define WITH_ORDERS_FORGOTTEN(test) cmocka_unit_test_teardown(test, forget_orders)

static int with_a_driver_of_today(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_may_load_open_and_use_it_at_once),
        cmocka_unit_test(an_open_device_says_what_it_is),
        cmocka_unit_test(a_number_outside_the_visible_devices_is_no_device),
        WITH_ORDERS_FORGOTTEN(a_driver_that_sees_no_gpu_is_no_device),
        WITH_ORDERS_FORGOTTEN(a_device_without_virtual_memory_opens_all_the_same),
        WITH_ORDERS_FORGOTTEN(a_failed_opening_leaves_nothing_behind),
        WITH_ORDERS_FORGOTTEN(opening_survives_every_lack_of_host_memory),
        cmocka_unit_test(a_thread_without_a_context_has_none_afterwards),
        cmocka_unit_test(a_context_that_is_current_already_is_not_pushed),
        cmocka_unit_test(another_devices_context_stays_current),
        WITH_ORDERS_FORGOTTEN(a_call_that_fails_pops_what_it_pushed),
        WITH_ORDERS_FORGOTTEN(memory_is_served_while_somebody_captures_a_graph),
        WITH_ORDERS_FORGOTTEN(the_nodes_of_a_captured_graph_can_be_asked_for),
        cmocka_unit_test(a_full_device_is_out_of_memory_with_the_numbers),
        WITH_ORDERS_FORGOTTEN(a_lack_of_page_locked_memory_is_the_hosts),
        WITH_ORDERS_FORGOTTEN(any_other_refusal_carries_the_drivers_words_and_the_arguments),
        WITH_ORDERS_FORGOTTEN(work_that_is_not_done_is_not_ready_and_no_error),
        WITH_ORDERS_FORGOTTEN(every_refusal_is_reported_and_keeps_the_outputs),
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

static int in_a_process_of_its_own(const char *name, int (*group)(void))
{
    printf("\n%s\n", name);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0)
        exit(group() == 0 ? 0 : 1);
    int ended = 0;
    if (waitpid(child, &ended, 0) != child || !WIFEXITED(ended))
        return 1;
    return WEXITSTATUS(ended);
}

int main(void)
{
    int failures = 0;
    failures += in_a_process_of_its_own("without a driver", without_a_driver);
    failures += in_a_process_of_its_own("on this machine", on_this_machine);
    failures += in_a_process_of_its_own("no driver at all", with_a_library_that_is_no_driver);
    failures += in_a_process_of_its_own("an old driver", with_an_old_driver);
    failures += in_a_process_of_its_own("a driver of today", with_a_driver_of_today);
    return failures != 0;
}
