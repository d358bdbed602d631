/* gpu_check.c - the CUDA device on a real GPU: run by hand where there is one.
 *
 * Usage: gpu_check [device index]. Prints the machine, runs the contract every device must keep
 * and a few checks that only a GPU can fail, then measures what each call costs: the numbers
 * behind the simulated device's costs. Exit status: 0 all is well, 1 something failed, 77 there is
 * no GPU here (what CTest and automake take for "skipped").
 *
 * The cost tables are taken with the device's context current, as in a thread that uses PyTorch;
 * one line says what a thread without it pays. Memory is not touched between the calls. */
#include "vramwise/device.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "contract/device_contract.h"
#include "device/cuda_driver_load.h"
#include "device/nvml_load.h" /* vw__nvml_driver_version */

#define MIB (UINT64_C(1) << 20)

enum { EXIT_SKIPPED = 77 };

static int device_index;

/* ---- the machine ----------------------------------------------------------------------------- */

static void print_machine(const vw_device *device)
{
    const vw__cuda_driver *driver = NULL;
    char version[96];
    int cuda_version = 0;
    uint64_t free_bytes = 0, total_bytes = 0;
    if (vw__nvml_driver_version(version, sizeof version) != VW_OK)
        snprintf(version, sizeof version, "unknown");
    if (vw__cuda_driver_get(&driver) == VW_OK)
        (void)driver->cuDriverGetVersion(&cuda_version);
    if (device->table->memory_info(device->context, &free_bytes, &total_bytes) != VW_OK)
        printf("memory_info: %s\n", vw_last_error());
    printf("device %d        %s\n", device_index, device->properties.name);
    printf("driver          %s, CUDA %d.%d\n", version, cuda_version / 1000,
           cuda_version % 1000 / 10);
    printf("total bytes     %" PRIu64 " (%.2f GiB)\n", device->properties.total_bytes,
           (double)device->properties.total_bytes / (double)(1024 * MIB));
    printf("free now        %" PRIu64 " of %" PRIu64 "\n", free_bytes, total_bytes);
    printf("virtual memory  %s, granularity %" PRIu64 " bytes\n",
           device->properties.has_virtual_memory ? "yes" : "no",
           device->properties.granularity_bytes);
    printf("handles         for network cards %s, for other processes %s, on the host %s\n",
           device->properties.has_rdma_handles ? "yes" : "no",
           device->properties.has_shareable_handles ? "yes" : "no",
           device->properties.has_host_handles ? "yes" : "no");
}

static void print_processes(const vw_device *device)
{
    vw_process_memory entries[16];
    size_t count = 0;
    if (device->table->processes(device->context, entries, 16, &count) != VW_OK) {
        printf("processes       unknown: %s\n", vw_last_error());
        return;
    }
    printf("processes       %zu\n", count);
    for (size_t i = 0; i < count && i < 16; i++) {
        printf("  pid %" PRIu32 "%s: ", entries[i].pid,
               entries[i].is_this_process ? " (this one)" : "");
        if (entries[i].used_bytes == UINT64_MAX)
            printf("would not say\n");
        else
            printf("%" PRIu64 " bytes\n", entries[i].used_bytes);
    }
}

/* ---- checks that only a GPU can fail --------------------------------------------------------- */

static vw_status make_device(void *context, vw_device **out)
{
    (void)context;
    return vw_cuda_device_open(device_index, out);
}

/* Some gigabytes of filling take milliseconds; asking takes microseconds. */
static void an_event_behind_queued_work_is_not_ready_and_then_is(void **state)
{
    const vw_device *device = *state;
    const vw_device_table *table = device->table;
    enum { FILLS = 64 };
    uint64_t size_bytes = 256 * MIB;
    vw_device_ptr address = VW_NULL;
    vw_stream stream = 0;
    vw_device_event event = 0;
    assert_ok(table->take(device->context, size_bytes, &address));
    assert_ok(table->stream_create(device->context, &stream));
    assert_ok(table->event_create(device->context, &event));
    assert_ok(table->fill(device->context, address, 0, size_bytes, stream)); /* warms up */
    assert_ok(table->stream_synchronize(device->context, stream));
    for (int i = 0; i < FILLS; i++)
        assert_ok(table->fill(device->context, address, (uint8_t)i, size_bytes, stream));
    assert_ok(table->event_record(device->context, event, stream));
    assert_status(VW_ERR_NOT_READY, table->event_query(device->context, event));
    assert_ok(table->event_synchronize(device->context, event));
    assert_ok(table->event_query(device->context, event));
    uint8_t last = 0;
    assert_ok(table->read(device->context, &last, address + size_bytes - 1, 1));
    assert_int_equal(last, FILLS - 1);
    assert_ok(table->event_destroy(device->context, event));
    assert_ok(table->stream_destroy(device->context, stream));
    assert_ok(table->give_back(device->context, address));
}

static void a_write_is_seen_by_a_stream_that_does_not_wait_for_the_default_one(void **state)
{
    const vw_device *device = *state;
    const vw_device_table *table = device->table;
    uint64_t size_bytes = 64 * MIB;
    vw_device_ptr from = VW_NULL, to = VW_NULL;
    vw_stream stream = 0;
    uint8_t *bytes = malloc(size_bytes), *found = malloc(size_bytes);
    assert_true(bytes != NULL && found != NULL);
    assert_ok(table->take(device->context, size_bytes, &from));
    assert_ok(table->take(device->context, size_bytes, &to));
    assert_ok(table->stream_create(device->context, &stream));
    for (int round = 1; round <= 8; round++) {
        memset(bytes, round, size_bytes);
        assert_ok(table->write(device->context, from, bytes, size_bytes));
        assert_ok(table->copy(device->context, to, from, size_bytes, stream));
        assert_ok(table->stream_synchronize(device->context, stream));
        assert_ok(table->read(device->context, found, to, size_bytes));
        assert_int_equal(memcmp(bytes, found, size_bytes), 0);
    }
    assert_ok(table->stream_destroy(device->context, stream));
    assert_ok(table->give_back(device->context, from));
    assert_ok(table->give_back(device->context, to));
    free(bytes);
    free(found);
}

static void the_threads_current_context_stays_as_it_was(void **state)
{
    const vw_device *device = *state;
    const vw__cuda_driver *driver = NULL;
    vw__cuda_context before = NULL, after = NULL;
    vw_device_ptr address = VW_NULL;
    assert_ok(vw__cuda_driver_get(&driver));
    assert_int_equal(driver->cuCtxGetCurrent(&before), VW__CUDA_SUCCESS);
    assert_ok(device->table->take(device->context, MIB, &address));
    assert_ok(device->table->give_back(device->context, address));
    assert_int_equal(driver->cuCtxGetCurrent(&after), VW__CUDA_SUCCESS);
    assert_ptr_equal(before, after);
}

/* The three functions for captures, which the library itself has no use for. */
typedef struct capture_functions {
    vw__cuda_result (*begin)(vw__cuda_stream stream, int mode);
    vw__cuda_result (*end)(vw__cuda_stream stream, void **graph);
    vw__cuda_result (*destroy)(void *graph);
} capture_functions;

static bool find_capture_functions(capture_functions *out)
{
    const char *chosen = getenv("VRAMWISE_CUDA_DRIVER");
    void *library = dlopen(chosen != NULL && chosen[0] != '\0' ? chosen : "libcuda.so.1", RTLD_NOW);
    if (library == NULL)
        return false;
    void *found[3] = {dlsym(library, "cuStreamBeginCapture_v2"),
                      dlsym(library, "cuStreamEndCapture"), dlsym(library, "cuGraphDestroy")};
    memcpy(&out->begin, &found[0], sizeof found[0]);
    memcpy(&out->end, &found[1], sizeof found[1]);
    memcpy(&out->destroy, &found[2], sizeof found[2]);
    return found[0] != NULL && found[1] != NULL && found[2] != NULL;
}

/* Everything an allocator does, asked of the device while a graph is captured in the mode that
 * forbids such calls to every thread. A call that spoilt the capture makes ending it fail. */
static void memory_can_be_had_while_a_graph_is_captured_and_the_capture_survives(void **state)
{
    const vw_device *device = *state;
    const vw_device_table *table = device->table;
    enum { GLOBAL_MODE = 0 };
    capture_functions capture = {NULL, NULL, NULL};
    const vw__cuda_driver *driver = NULL;
    vw__cuda_context context = NULL;
    vw_stream stream = 0;
    vw_device_event event = 0;
    vw_device_ptr address = VW_NULL;
    void *graph = NULL;
    bool is_capturing = false;
    need(find_capture_functions(&capture), "the driver cannot capture");
    assert_ok(vw__cuda_driver_get(&driver));
    assert_int_equal(driver->cuDevicePrimaryCtxRetain(&context, device_index), VW__CUDA_SUCCESS);
    assert_int_equal(driver->cuCtxPushCurrent(context), VW__CUDA_SUCCESS);
    assert_ok(table->stream_create(device->context, &stream));
    assert_ok(table->event_create(device->context, &event));
    vw__cuda_stream captured = (vw__cuda_stream)(uintptr_t)stream;

    assert_int_equal(capture.begin(captured, GLOBAL_MODE), VW__CUDA_SUCCESS);
    assert_ok(table->stream_is_capturing(device->context, stream, &is_capturing));
    assert_true(is_capturing);
    assert_ok(table->take(device->context, 4 * MIB, &address));
    assert_ok(table->event_query(device->context, event));
    if (device->properties.has_virtual_memory) {
        uint64_t size_bytes = device->properties.granularity_bytes;
        vw_device_ptr reserved = VW_NULL;
        vw_handle handle = 0;
        assert_ok(table->reserve(device->context, size_bytes, &reserved));
        assert_ok(table->create(device->context, size_bytes, &handle));
        assert_ok(table->map(device->context, reserved, size_bytes, handle));
        assert_ok(table->set_access(device->context, reserved, size_bytes));
        assert_ok(table->unmap(device->context, reserved, size_bytes));
        assert_ok(table->release(device->context, handle));
        assert_ok(table->unreserve(device->context, reserved, size_bytes));
    }
    assert_int_equal(capture.end(captured, &graph), VW__CUDA_SUCCESS);

    assert_int_equal(capture.destroy(graph), VW__CUDA_SUCCESS);
    assert_ok(table->give_back(device->context, address));
    assert_ok(table->event_destroy(device->context, event));
    assert_ok(table->stream_destroy(device->context, stream));
    assert_int_equal(driver->cuCtxPopCurrent(&context), VW__CUDA_SUCCESS);
    assert_int_equal(driver->cuDevicePrimaryCtxRelease(device_index), VW__CUDA_SUCCESS);
}

static int run_checks(void)
{
    const vw_test_device_factory factory = {.name = "cuda", .make = make_device};
#define CHECK(name) cmocka_unit_test_setup_teardown(name, vw_test_make_device, vw_test_end_device)
    const struct CMUnitTest tests[] = {
        CHECK(an_event_behind_queued_work_is_not_ready_and_then_is),
        CHECK(a_write_is_seen_by_a_stream_that_does_not_wait_for_the_default_one),
        CHECK(the_threads_current_context_stays_as_it_was),
        CHECK(memory_can_be_had_while_a_graph_is_captured_and_the_capture_survives),
    };
#undef CHECK
    int failed = vw_test_device_contract(&factory);
    vw_test_use_factory(&factory);
    return failed + cmocka_run_group_tests_name("only on a GPU", tests, NULL, NULL);
}

/* ---- what calls cost ------------------------------------------------------------------------- */

enum { MOST_SAMPLES = 101, SAMPLES = 101, PINNED_SAMPLES = 11 };

/* The calls whose cost may depend on the size, in the order in which one round makes them. */
#define SIZED_CALL_LIST(X)                                                                         \
    X(TAKE, "take")                                                                                \
    X(GIVE_BACK, "give_back")                                                                      \
    X(RESERVE, "reserve")                                                                          \
    X(CREATE, "create")                                                                            \
    X(MAP, "map")                                                                                  \
    X(SET_ACCESS, "set_access")                                                                    \
    X(UNMAP, "unmap")                                                                              \
    X(RELEASE, "release")                                                                          \
    X(UNRESERVE, "unreserve")                                                                      \
    X(HOST_TAKE, "host_take")                                                                      \
    X(HOST_GIVE_BACK, "host_give_back")

#define PLAIN_CALL_LIST(X)                                                                         \
    X(STREAM_CREATE, "stream_create")                                                              \
    X(EVENT_CREATE, "event_create")                                                                \
    X(EVENT_RECORD, "event_record")                                                                \
    X(STREAM_SYNCHRONIZE_WORK, "stream_synchronize, one event")                                    \
    X(EVENT_QUERY, "event_query")                                                                  \
    X(STREAM_IS_CAPTURING, "stream_is_capturing")                                                  \
    X(STREAM_WAIT_EVENT, "stream_wait_event")                                                      \
    X(STREAM_SYNCHRONIZE, "stream_synchronize, idle")                                              \
    X(SYNCHRONIZE, "synchronize, idle")                                                            \
    X(MEMORY_INFO, "memory_info")                                                                  \
    X(EVENT_DESTROY, "event_destroy")                                                              \
    X(STREAM_DESTROY, "stream_destroy")

typedef enum measured_call {
#define MEASURED_ENUM(name, text) MEASURED_##name,
    SIZED_CALL_LIST(MEASURED_ENUM) SIZED_CALLS,
    SIZED_CALLS_END = SIZED_CALLS - 1, /* so that counting goes on where it stopped */
    PLAIN_CALL_LIST(MEASURED_ENUM)
#undef MEASURED_ENUM
        MEASURED_CALLS
} measured_call;

static const char *const call_names[MEASURED_CALLS] = {
#define MEASURED_NAME(name, text) [MEASURED_##name] = text,
    SIZED_CALL_LIST(MEASURED_NAME) PLAIN_CALL_LIST(MEASURED_NAME)
#undef MEASURED_NAME
};

static uint64_t samples_ns[MEASURED_CALLS][MOST_SAMPLES];
static size_t sample_count[MEASURED_CALLS];
static bool has_failed;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static bool note(measured_call call, uint64_t start_ns, vw_status status)
{
    uint64_t end_ns = now_ns();
    if (status != VW_OK) {
        printf("%s failed while it was measured: %s\n", call_names[call], vw_last_error());
        has_failed = true;
        return false;
    }
    if (sample_count[call] < MOST_SAMPLES)
        samples_ns[call][sample_count[call]++] = end_ns - start_ns;
    return true;
}

/* Makes the call, notes its time, and leaves the round at the first failure: what is then still
 * held goes with the process. */
#define MEASURE(call, expression)                                                                  \
    do {                                                                                           \
        uint64_t start_ns_ = now_ns();                                                             \
        if (!note(MEASURED_##call, start_ns_, (expression)))                                       \
            return;                                                                                \
    } while (0)

static void measure_sized_round(const vw_device *device, uint64_t size_bytes, bool with_pinned)
{
    const vw_device_table *table = device->table;
    void *context = device->context;
    vw_device_ptr address = VW_NULL;
    vw_handle handle = 0;
    void *pinned = NULL;
    MEASURE(TAKE, table->take(context, size_bytes, &address));
    MEASURE(GIVE_BACK, table->give_back(context, address));
    if (device->properties.has_virtual_memory) {
        MEASURE(RESERVE, table->reserve(context, size_bytes, &address));
        MEASURE(CREATE, table->create(context, size_bytes, &handle));
        MEASURE(MAP, table->map(context, address, size_bytes, handle));
        MEASURE(SET_ACCESS, table->set_access(context, address, size_bytes));
        MEASURE(UNMAP, table->unmap(context, address, size_bytes));
        MEASURE(RELEASE, table->release(context, handle));
        MEASURE(UNRESERVE, table->unreserve(context, address, size_bytes));
    }
    if (with_pinned) {
        MEASURE(HOST_TAKE, table->host_take(context, size_bytes, &pinned));
        MEASURE(HOST_GIVE_BACK, table->host_give_back(context, pinned));
    }
}

static void measure_plain_round(const vw_device *device)
{
    const vw_device_table *table = device->table;
    void *context = device->context;
    vw_stream stream = 0;
    vw_device_event event = 0;
    bool is_capturing = false;
    uint64_t free_bytes = 0, total_bytes = 0;
    MEASURE(STREAM_CREATE, table->stream_create(context, &stream));
    MEASURE(EVENT_CREATE, table->event_create(context, &event));
    MEASURE(EVENT_RECORD, table->event_record(context, event, stream));
    MEASURE(STREAM_SYNCHRONIZE_WORK, table->stream_synchronize(context, stream));
    MEASURE(EVENT_QUERY, table->event_query(context, event));
    MEASURE(STREAM_IS_CAPTURING, table->stream_is_capturing(context, stream, &is_capturing));
    MEASURE(STREAM_WAIT_EVENT, table->stream_wait_event(context, stream, event));
    MEASURE(STREAM_SYNCHRONIZE, table->stream_synchronize(context, stream));
    MEASURE(SYNCHRONIZE, table->synchronize(context));
    MEASURE(MEMORY_INFO, table->memory_info(context, &free_bytes, &total_bytes));
    MEASURE(EVENT_DESTROY, table->event_destroy(context, event));
    MEASURE(STREAM_DESTROY, table->stream_destroy(context, stream));
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static double median_us(measured_call call)
{
    if (sample_count[call] == 0)
        return -1.0;
    qsort(samples_ns[call], sample_count[call], sizeof samples_ns[call][0], compare_numbers);
    return (double)samples_ns[call][sample_count[call] / 2] / 1e3;
}

static void forget_samples(void)
{
    memset(sample_count, 0, sizeof sample_count);
}

static void print_sized_costs(const vw_device *device)
{
    static const uint64_t sizes[] = {2 * MIB, 20 * MIB, 256 * MIB};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    double medians_us[SIZED_CALLS][SIZES];
    for (size_t size = 0; size < SIZES; size++) {
        measure_sized_round(device, sizes[size], true); /* warms up */
        forget_samples();
        for (int i = 0; i < SAMPLES && !has_failed; i++)
            measure_sized_round(device, sizes[size], i < PINNED_SAMPLES);
        for (int call = 0; call < SIZED_CALLS; call++)
            medians_us[call][size] = median_us((measured_call)call);
    }
    printf("\nmedian cost in microseconds (-1: not there)\n%-32s", "call");
    for (size_t size = 0; size < SIZES; size++)
        printf("%8" PRIu64 " MiB", sizes[size] / MIB);
    for (int call = 0; call < SIZED_CALLS; call++) {
        printf("\n%-32s", call_names[call]);
        for (size_t size = 0; size < SIZES; size++)
            printf("%12.2f", medians_us[call][size]);
    }
    printf("\n");
}

static void print_plain_costs(const vw_device *device)
{
    measure_plain_round(device); /* warms up */
    forget_samples();
    for (int i = 0; i < SAMPLES && !has_failed; i++)
        measure_plain_round(device);
    for (int call = SIZED_CALLS; call < MEASURED_CALLS; call++)
        printf("%-32s%12.2f\n", call_names[call], median_us((measured_call)call));
}

static void print_cost_without_a_context(const vw_device *device)
{
    forget_samples();
    for (int i = 0; i < SAMPLES && !has_failed; i++)
        measure_plain_round(device);
    printf("%-32s%12.2f\n", "event_query, no context", median_us(MEASURED_EVENT_QUERY));
}

static int print_costs(const vw_device *device)
{
    const vw__cuda_driver *driver = NULL;
    vw__cuda_context context = NULL;
    if (vw__cuda_driver_get(&driver) != VW_OK ||
        driver->cuDevicePrimaryCtxRetain(&context, device_index) != VW__CUDA_SUCCESS ||
        driver->cuCtxPushCurrent(context) != VW__CUDA_SUCCESS) {
        printf("the context could not be made current\n");
        return 1;
    }
    print_sized_costs(device);
    print_plain_costs(device);
    (void)driver->cuCtxPopCurrent(&context);
    (void)driver->cuDevicePrimaryCtxRelease(device_index);
    print_cost_without_a_context(device);
    return has_failed;
}

/* -------------------------------------------------------------------------------------------- */

int main(int argument_count, char **arguments)
{
    vw_device *device = NULL;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a driver may end the process: lose no line */
    device_index = argument_count > 1 ? atoi(arguments[1]) : 0;
    vw_status status = vw_cuda_device_open(device_index, &device);
    if (status == VW_ERR_NO_DEVICE) {
        printf("skipped: %s\n", vw_last_error());
        return EXIT_SKIPPED;
    }
    if (status != VW_OK) {
        printf("%s: %s\n", vw_status_name(status), vw_last_error());
        return EXIT_FAILURE;
    }
    print_machine(device);
    print_processes(device);
    int failed = run_checks();
    failed += print_costs(device);
    vw_device_destroy(device);
    printf("\n%s\n", failed == 0 ? "all checks passed" : "SOME CHECKS FAILED");
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
