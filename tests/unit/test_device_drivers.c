/* test_device_drivers.c - what the CUDA device and the HIP device have in common, on both.
 *
 * What is one's own is in test_device_cuda.c and test_device_hip.c. A driver is loaded once in the
 * life of a process, so each group of tests runs in a process of its own. The drivers are fakes
 * (tests/support/fake_cuda and fake_hip). */
#include "vramwise/device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"       /* vw__error_describe */
#include "base/host_memory.h" /* vw__host_memory_fail_at */

#include "contract/device_contract.h" /* assert_ok, assert_status, need */
#include "support/cmocka_here.h"
#include "support/fake_cuda_state.h"
#include "support/own_process.h"

#define MIB (UINT64_C(1) << 20)

/* ---- the two --------------------------------------------------------------------------------- */

typedef struct driver_kind {
    vw_status (*open)(int index, vw_device **out);
    const char *name, *text;        /* "CUDA", "CUDA driver" */
    const char *variable, *visible; /* of the environment */
    const char *fake;
    const char *places[4]; /* where a driver is looked for, in this order */
    const char *no_device, *out_of_memory, *illegal_address; /* errors, 100, 2 and 700 */
    const char *init, *allocate;                             /* functions, as messages name them */
    bool has_extras;              /* handles for RDMA, other processes, the host */
    int own_depth, kept_contexts; /* of a thread that uses none; without a device */
} driver_kind;

static const driver_kind cuda = {
    .open = vw_cuda_device_open,
    .name = "CUDA",
    .text = "CUDA driver",
    .variable = "VRAMWISE_CUDA_DRIVER",
    .visible = "CUDA_VISIBLE_DEVICES",
    .fake = VW_FAKE_CUDA_DRIVER,
    .places = {"libcuda.so.1 (", ", libcuda.so (", "/usr/lib/wsl/lib/libcuda.so.1 ("},
    .no_device = "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected",
    .out_of_memory = "CUDA_ERROR_OUT_OF_MEMORY",
    .illegal_address = "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
    .init = "cuInit",
    .allocate = "cuMemAlloc",
    .has_extras = true,
};

static const driver_kind hip = {
    .open = vw_hip_device_open,
    .name = "HIP",
    .text = "HIP runtime",
    .variable = "VRAMWISE_HIP_DRIVER",
    .visible = "HIP_VISIBLE_DEVICES",
    .fake = VW_FAKE_HIP_DRIVER,
    .places = {"libamdhip64.so.7 (", ", libamdhip64.so.6 (", ", libamdhip64.so (",
               "/opt/rocm/lib/libamdhip64.so ("},
    .no_device = "hipErrorNoDevice (100)",
    .out_of_memory = "hipErrorOutOfMemory",
    .illegal_address = "hipErrorIllegalAddress (700)",
    .init = "hipInit",
    .allocate = "hipMalloc",
    .own_depth = 1,
    .kept_contexts = FAKE_CUDA_DEVICES,
};

static const driver_kind *kind;

/* The fake's name for a function. */
static const char *either(const char *of_cuda, const char *of_hip)
{
    return kind == &cuda ? of_cuda : of_hip;
}

static vw_device *open_device(int index)
{
    vw_device *device = NULL;
    assert_ok(kind->open(index, &device));
    return device;
}

static void order_failure(const char *function, int result)
{
    char order[64];
    snprintf(order, sizeof order, "%s=%d", function, result);
    assert_int_equal(setenv("FAKE_CUDA_FAIL", order, 1), 0);
}

static int forget_orders(void **state)
{
    (void)state;
    unsetenv("FAKE_CUDA_FAIL");
    unsetenv("FAKE_CUDA_CAPTURING");
    vw__host_memory_fail_at(0);
    return 0;
}

static void assert_last_error_is_about(const char *format, const char *word)
{
    char text[200];
    snprintf(text, sizeof text, format, word);
    assert_last_error_has(text);
}

/* ---- without a driver ------------------------------------------------------------------------ */

static void a_missing_driver_is_no_device_and_the_message_names_what_was_tried(void **state)
{
    (void)state;
    vw_device *device = (vw_device *)&device;
    assert_status(VW_ERR_NO_DEVICE, kind->open(0, &device));
    assert_ptr_equal(device, &device);
    assert_last_error_is_about("no %s could be loaded", kind->text);
    assert_last_error_has(
        "/nowhere/driver.so (cannot open shared object file: No such file or directory)");
    assert_last_error_is_about("as %s says", kind->variable);
}

static void the_reason_is_kept_for_the_second_question(void **state)
{
    (void)state;
    vw_device *device = NULL;
    setenv(kind->variable, kind->fake, 1); /* too late */
    vw__error_describe("something else");
    assert_status(VW_ERR_NO_DEVICE, kind->open(0, &device));
    assert_last_error_has("/nowhere/driver.so");
}

static void a_place_for_the_device_is_required(void **state)
{
    (void)state;
    assert_status(VW_ERR_INVALID_ARGUMENT, kind->open(0, NULL));
}

static int without_a_driver(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_driver_is_no_device_and_the_message_names_what_was_tried),
        cmocka_unit_test(the_reason_is_kept_for_the_second_question),
        cmocka_unit_test(a_place_for_the_device_is_required),
    };
    setenv(kind->variable, "/nowhere/driver.so", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- on this machine as it is ---------------------------------------------------------------- */

static void on_a_machine_without_a_driver_every_usual_place_is_named(void **state)
{
    (void)state;
    vw_device *device = NULL;
    if (kind->open(0, &device) == VW_OK)
        vw_device_destroy(device);
    need(device == NULL && strstr(vw_last_error(), "could be loaded") != NULL,
         "this machine has such a driver");
    for (size_t i = 0; i < 4 && kind->places[i] != NULL; i++)
        assert_last_error_has(kind->places[i]);
    assert_null(strstr(vw_last_error(), kind->variable));
}

static int on_this_machine(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_a_machine_without_a_driver_every_usual_place_is_named),
    };
    setenv(kind->variable, "", 1); /* empty: not set */
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- a library that is no driver ------------------------------------------------------------- */

static void a_library_that_lacks_a_function_is_no_driver(void **state)
{
    (void)state;
    vw_device *device = NULL;
    assert_status(VW_ERR_NO_DEVICE, kind->open(0, &device));
    assert_last_error_is_about("the %s found here", kind->text);
    assert_last_error_is_about("has no function %s", kind->init);
    assert_null(device);
}

static int with_a_library_that_is_no_driver(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_lacks_a_function_is_no_driver),
    };
    setenv(kind->variable, "libc.so.6", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
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
    assert_int_equal(device->properties.has_rdma_handles, kind->has_extras);
    assert_int_equal(device->properties.has_shareable_handles, kind->has_extras);
    assert_int_equal(device->properties.has_host_handles, kind->has_extras);
    assert_int_equal(device->properties.has_dma_buf, kind->has_extras);
    vw_device_destroy(device);
    assert_int_equal(vw_test_fake_cuda_state().used_bytes, 0); /* of what was tried out */
    assert_int_equal(vw_test_fake_cuda_state().handle_count, 0);
}

static void a_number_outside_the_visible_devices_is_no_device(void **state)
{
    (void)state;
    vw_device *device = NULL;
    char text[200];
    setenv(kind->visible, "5,6", 1);
    assert_status(VW_ERR_NO_DEVICE, kind->open(FAKE_CUDA_DEVICES, &device));
    snprintf(text, sizeof text,
             "no %s device 2: the driver shows 2, counted from 0 (%s is set: 5,6)", kind->name,
             kind->visible);
    assert_last_error_has(text);
    unsetenv(kind->visible);
    assert_status(VW_ERR_NO_DEVICE, kind->open(-1, &device));
    assert_last_error_is_about("%s is not set", kind->visible);
    assert_null(device);
}

static void a_driver_that_sees_no_gpu_is_no_device(void **state)
{
    (void)state;
    vw_device *device = NULL;
    order_failure(kind->init, 100);
    assert_status(VW_ERR_NO_DEVICE, kind->open(0, &device));
    assert_last_error_is_about("%s(0)", kind->init);
    assert_last_error_has(kind->no_device);
    order_failure(either("cuDeviceGetCount", "hipGetDeviceCount"), 100);
    assert_status(VW_ERR_NO_DEVICE, kind->open(0, &device));
    assert_last_error_is_about("%s()", either("cuDeviceGetCount", "hipGetDeviceCount"));
    assert_null(device);
}

static void opening_survives_every_lack_of_host_memory(void **state)
{
    (void)state;
    uint64_t held_bytes = vw__host_memory_get_use().in_use_bytes;
    vw_device *device = NULL;
    unsigned failures = 0;
    for (uint64_t nth = 1; device == NULL; nth++) {
        vw__host_memory_fail_at(nth);
        vw_status status = kind->open(1, &device);
        vw__host_memory_fail_at(0);
        if (status == VW_OK)
            break;
        assert_status(VW_ERR_HOST_MEMORY, status);
        assert_int_equal(vw__host_memory_get_use().in_use_bytes, held_bytes);
        failures++;
    }
    assert_true(failures >= 2);
    vw_device_destroy(device);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, held_bytes);
}

/* ---- a driver of today: results -------------------------------------------------------------- */

static void memory_is_served_while_somebody_captures_a_graph(void **state)
{
    (void)state;
    vw_device *device = open_device(1);
    const vw_device_table *table = device->table;
    vw_device_ptr address = 0;
    vw_device_event event = 0;
    bool is_capturing = false;
    setenv("FAKE_CUDA_CAPTURING", "1", 1);
    assert_ok(table->take(device->context, MIB, &address));
    assert_ok(table->event_create(device->context, &event));
    assert_ok(table->event_record(device->context, event, 0));
    assert_ok(table->event_query(device->context, event));
    assert_ok(table->event_destroy(device->context, event));
    assert_ok(table->give_back(device->context, address));
    assert_int_equal(vw_test_fake_cuda_state().capture_mode, 0); /* the thread's own is back */
    assert_ok(table->stream_is_capturing(device->context, 0, &is_capturing));
    assert_true(is_capturing);
    unsetenv("FAKE_CUDA_CAPTURING");
    assert_ok(table->stream_is_capturing(device->context, 0, &is_capturing));
    assert_false(is_capturing);
    vw_device_destroy(device);
}

static void a_full_device_is_out_of_memory_with_the_numbers(void **state)
{
    (void)state;
    vw_device *device = open_device(1);
    vw_device_ptr held = 0, address = 77;
    vw_handle handle = 77;
    char text[200];
    assert_ok(device->table->take(device->context, MIB, &held));
    assert_status(VW_ERR_OUT_OF_MEMORY,
                  device->table->take(device->context, FAKE_CUDA_TOTAL_BYTES, &address));
    snprintf(text, sizeof text,
             "%s(4294967296 bytes) on %s device 1 failed: %s (2): out of memory; "
             "4293918720 of 4294967296 bytes free",
             kind->allocate, kind->name, kind->out_of_memory);
    assert_string_equal(vw_last_error(), text);
    assert_status(VW_ERR_OUT_OF_MEMORY,
                  device->table->create(device->context, FAKE_CUDA_TOTAL_BYTES, &handle));
    assert_last_error_is_about("%s(4294967296 bytes)", either("cuMemCreate", "hipMemCreate"));
    assert_last_error_has("4293918720 of 4294967296 bytes free");
    assert_int_equal(address, 77);
    assert_int_equal(handle, 77);
    assert_ok(device->table->give_back(device->context, held));
    vw_device_destroy(device);
}

static void a_lack_of_page_locked_memory_is_the_hosts(void **state)
{
    (void)state;
    vw_device *device = open_device(1);
    void *address = &device;
    order_failure(either("cuMemHostAlloc", "hipHostMalloc"), 2);
    assert_status(VW_ERR_HOST_MEMORY, device->table->host_take(device->context, MIB, &address));
    assert_last_error_is_about("%s(1048576 bytes)", either("cuMemHostAlloc", "hipHostMalloc"));
    assert_ptr_equal(address, &device);
    vw_device_destroy(device);
}

static void work_that_is_not_done_is_not_ready_and_no_error(void **state)
{
    (void)state;
    const char *query = either("cuEventQuery", "hipEventQuery");
    vw_device *device = open_device(1);
    vw_device_event event = 0;
    assert_ok(device->table->event_create(device->context, &event));
    vw__error_describe("what an earlier call had to say");
    order_failure(query, 600);
    assert_status(VW_ERR_NOT_READY, device->table->event_query(device->context, event));
    assert_string_equal(vw_last_error(), "what an earlier call had to say");
    order_failure(query, 700);
    assert_status(VW_ERR_DEVICE, device->table->event_query(device->context, event));
    assert_last_error_has(kind->illegal_address);
    unsetenv("FAKE_CUDA_FAIL");
    assert_ok(device->table->event_query(device->context, event));
    assert_ok(device->table->event_destroy(device->context, event));
    vw_device_destroy(device);
}

/* Every function of the table, its driver call refused; HIP has not all of them. A new one without
 * a line here is found by the count of the table's fields. */
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
    size_t tried = 0, count = 77;
    vw_device_ptr base = 0;
    vw_handle handle = 0;
    assert_ok(table->reserve(context, 4 * MIB, &base));
    assert_ok(table->create(context, 2 * MIB, &handle));
    assert_ok(table->map(context, base, 2 * MIB, handle));
#define REFUSED(of_cuda, of_hip, call)                                                             \
    do {                                                                                           \
        const char *symbol = either(of_cuda, of_hip);                                              \
        if (symbol != NULL) {                                                                      \
            order_failure(symbol, 700);                                                            \
            assert_status(VW_ERR_DEVICE, table->call);                                             \
            assert_last_error_has(kind->illegal_address);                                          \
            assert_memory_equal(vw_last_error(), symbol, strcspn(symbol, "_"));                    \
            assert_int_equal(vw_last_error()[strcspn(symbol, "_")], '(');                          \
        } else {                                                                                   \
            unsetenv("FAKE_CUDA_FAIL");                                                            \
            assert_status(VW_ERR_UNSUPPORTED, table->call);                                        \
        }                                                                                          \
        assert_true(number == 77 && total_bytes == 77 && flag && pointer == &byte && byte == 0);   \
        assert_true(file == 77 && count == 77);                                                    \
        tried++;                                                                                   \
    } while (0)
    REFUSED("cuMemAlloc_v2", "hipMalloc", take(context, MIB, &number));
    REFUSED("cuMemFree_v2", "hipFree", give_back(context, 1));
    REFUSED("cuMemAddressReserve", "hipMemAddressReserve", reserve(context, 2 * MIB, &number));
    REFUSED("cuMemAddressFree", "hipMemAddressFree", unreserve(context, 1, 2 * MIB));
    REFUSED("cuMemCreate", "hipMemCreate", create(context, 2 * MIB, &number));
    REFUSED("cuMemRelease", "hipMemRelease", release(context, 1));
    REFUSED("cuMemMap", "hipMemMap", map(context, base + 2 * MIB, 2 * MIB, 1));
    REFUSED("cuMemUnmap", "hipMemUnmap", unmap(context, base, 2 * MIB));
    REFUSED("cuMemSetAccess", "hipMemSetAccess", set_access(context, base, 2 * MIB));
    REFUSED("cuStreamCreate", "hipStreamCreateWithFlags", stream_create(context, &number));
    REFUSED("cuStreamDestroy_v2", "hipStreamDestroy", stream_destroy(context, 1));
    REFUSED("cuStreamSynchronize", "hipStreamSynchronize", stream_synchronize(context, 1));
    REFUSED("cuStreamWaitEvent", "hipStreamWaitEvent", stream_wait_event(context, 1, 1));
    REFUSED("cuStreamIsCapturing", "hipStreamIsCapturing", stream_is_capturing(context, 1, &flag));
    REFUSED("cuStreamGetCaptureInfo_v2", NULL,
            stream_capture_nodes(context, 1, &total_bytes, &number, 1, &count));
    REFUSED("cuGraphNodeGetDependencies", NULL, graph_node_parents(context, 1, &number, 1, &count));
    REFUSED("cuEventCreate", "hipEventCreateWithFlags", event_create(context, &number));
    REFUSED("cuEventDestroy_v2", "hipEventDestroy", event_destroy(context, 1));
    REFUSED("cuEventRecord", "hipEventRecord", event_record(context, 1, 1));
    REFUSED("cuCtxRecordEvent", NULL, event_record_all(context, 1));
    REFUSED("cuEventQuery", "hipEventQuery", event_query(context, 1));
    REFUSED("cuEventSynchronize", "hipEventSynchronize", event_synchronize(context, 1));
    REFUSED("cuCtxSynchronize", "hipDeviceSynchronize", synchronize(context));
    REFUSED("cuMemcpyHtoD_v2", "hipMemcpyHtoD", write(context, 1, &byte, 1));
    REFUSED("cuMemcpyDtoH_v2", "hipMemcpyDtoH", read(context, &byte, 1, 1));
    REFUSED("cuMemsetD8Async", "hipMemsetD8Async", fill(context, 1, 1, 1, 0));
    REFUSED("cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync", copy(context, 1, 2, 1, 0));
    REFUSED("cuMemHostAlloc", "hipHostMalloc", host_take(context, 1, &pointer));
    REFUSED("cuMemFreeHost", "hipHostFree", host_give_back(context, &byte));
    REFUSED("cuMemHostRegister_v2", "hipHostRegister", host_register(context, &byte, 1));
    REFUSED("cuMemHostUnregister", "hipHostUnregister", host_unregister(context, &byte));
    REFUSED("cuMemGetInfo_v2", "hipMemGetInfo", memory_info(context, &number, &total_bytes));
    REFUSED("cuMemCreate", NULL, create_shareable(context, 2 * MIB, &number));
    REFUSED("cuMemCreate", NULL, create_on_host(context, 2 * MIB, &number));
    REFUSED("cuMemExportToShareableHandle", NULL, export_handle(context, handle, &file));
    REFUSED("cuMemImportFromShareableHandle", NULL, import_handle(context, 1, 2 * MIB, &number));
    REFUSED("cuMemGetHandleForAddressRange", NULL, export_dma_buf(context, base, 2 * MIB, &file));
    REFUSED("cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer", allow_peer(context, 1, true));
#undef REFUSED
    /* All but struct_size, processes (of another library) and destroy. */
    assert_int_equal(tried, sizeof(vw_device_table) / sizeof(void *) - 3);
    unsetenv("FAKE_CUDA_FAIL"); /* as if nothing had ever been refused */
    assert_ok(table->map(context, base + 2 * MIB, 2 * MIB, handle));
    assert_ok(table->unmap(context, base, 4 * MIB));
    assert_ok(table->release(context, handle));
    assert_ok(table->unreserve(context, base, 4 * MIB));
    vw_device_destroy(device);
    assert_int_equal(vw_test_fake_cuda_state().used_bytes, 0);
    assert_int_equal(vw_test_fake_cuda_state().mapping_count, 0);
}

/* ---- a driver of today: threads -------------------------------------------------------------- */

static void *open_and_use(void *unused)
{
    (void)unused;
    vw_device *device = NULL;
    vw_device_ptr address = 0, base = 0;
    vw_handle handle = 0;
    if (kind->open(1, &device) != VW_OK ||
        device->table->reserve(device->context, 2 * MIB, &base) != VW_OK ||
        device->table->create(device->context, 2 * MIB, &handle) != VW_OK)
        return "open";
    for (int i = 0; i < 200; i++)
        if (device->table->take(device->context, 4096, &address) != VW_OK ||
            device->table->give_back(device->context, address) != VW_OK ||
            device->table->map(device->context, base, 2 * MIB, handle) != VW_OK ||
            device->table->unmap(device->context, base, 2 * MIB) != VW_OK)
            return "use";
    if (device->table->release(device->context, handle) != VW_OK ||
        device->table->unreserve(device->context, base, 2 * MIB) != VW_OK)
        return "end";
    vw_device_destroy(device);
    return vw_test_fake_cuda_state().context_depth == kind->own_depth ? NULL : "context";
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
    assert_int_equal(vw_test_fake_cuda_state().retain_count, kind->kept_contexts);
    assert_int_equal(vw_test_fake_cuda_state().used_bytes, 0);
    assert_int_equal(vw_test_fake_cuda_state().reservation_count, 0);
}

static int with_a_driver_of_today(void)
{
#define WITH_ORDERS_FORGOTTEN(test) cmocka_unit_test_teardown(test, forget_orders)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_may_load_open_and_use_it_at_once),
        cmocka_unit_test(an_open_device_says_what_it_is),
        cmocka_unit_test(a_number_outside_the_visible_devices_is_no_device),
        WITH_ORDERS_FORGOTTEN(a_driver_that_sees_no_gpu_is_no_device),
        WITH_ORDERS_FORGOTTEN(opening_survives_every_lack_of_host_memory),
        WITH_ORDERS_FORGOTTEN(memory_is_served_while_somebody_captures_a_graph),
        cmocka_unit_test(a_full_device_is_out_of_memory_with_the_numbers),
        WITH_ORDERS_FORGOTTEN(a_lack_of_page_locked_memory_is_the_hosts),
        WITH_ORDERS_FORGOTTEN(work_that_is_not_done_is_not_ready_and_no_error),
        WITH_ORDERS_FORGOTTEN(every_refusal_is_reported_and_keeps_the_outputs),
    };
    setenv(kind->variable, kind->fake, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- one process a group --------------------------------------------------------------------- */

int main(void)
{
    static const driver_kind *const kinds[] = {&cuda, &hip};
    int failures = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        kind = kinds[i];
        printf("\n%s:", kind->name);
        failures += vw_test_in_own_process("without a driver", without_a_driver);
        failures += vw_test_in_own_process("on this machine", on_this_machine);
        failures += vw_test_in_own_process("no driver at all", with_a_library_that_is_no_driver);
        failures += vw_test_in_own_process("a driver of today", with_a_driver_of_today);
    }
    return failures != 0;
}
