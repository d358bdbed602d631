/* test_gpu_monitor.c - what NVML and AMD SMI answer, in every layout they were seen to answer in.
 *
 * A library is loaded once in the life of a process; the machine without it is therefore a child
 * process, and the other tests share the fake (tests/support/fake_cuda and fake_hip), which speaks
 * NVML or AMD SMI too. */
#include "device/gpu_monitor.h"

#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h" /* vw__host_memory_fail_at */
#include "device/nvml_load.h" /* vw__nvml_driver_version */

#include "contract/device_contract.h" /* assert_ok, assert_status */
#include "support/cmocka_here.h"
#include "support/fake_cuda/fake_libcuda.h"
#include "support/own_process.h"

#define USED_DEVICE "0000:30:00.0" /* the fake's first */

/* What is different, of the one that is tested. Orders are for the fake: "function=result". */
typedef struct monitor_kind {
    const vw__monitor *monitor;
    const char *variable, *fake, *old_fake;
    const char *not_starting, *start_failure;
    const char *list_refused, *list_broken, *list_growing, *bus_id_broken;
    const char *not_found, *no_such_gpu; /* texts */
    const char *untold[4];               /* name, UUID, utilisation, memory */
    const char *layouts[3];              /* ends with NULL, if there are less */
} monitor_kind;

static const monitor_kind nvml = {
    .monitor = &vw__nvml_monitor,
    .variable = "VRAMWISE_NVML",
    .fake = VW_FAKE_CUDA_DRIVER,
    .old_fake = VW_FAKE_CUDA_DRIVER_OLD,
    .not_starting = "nvmlInit_v2=4",
    .start_failure = "nvmlInit failed: 4: Insufficient Permissions",
    .list_refused = "nvmlDeviceGetComputeRunningProcesses_v3=4",
    .list_broken = "nvmlDeviceGetComputeRunningProcesses_v3=15",
    .list_growing = "nvmlDeviceGetComputeRunningProcesses_v3=7",
    .bus_id_broken = "nvmlDeviceGetPciInfo_v3=15",
    .not_found = "nvmlDeviceGetHandleByPciBusId(0000:99:00.0) failed: 6: Not Found",
    .no_such_gpu = "nvmlDeviceGetHandleByIndex(GPU 2 of 2)",
    .untold = {"nvmlDeviceGetName=3", "nvmlDeviceGetUUID=3", "nvmlDeviceGetUtilizationRates=3",
               "nvmlDeviceGetMemoryInfo=3"},
    .layouts = {"16", "24", "32"},
};

static const monitor_kind amd_smi = {
    .monitor = &vw__amd_smi_monitor,
    .variable = "VRAMWISE_AMD_SMI",
    .fake = VW_FAKE_HIP_DRIVER,
    .old_fake = VW_FAKE_HIP_DRIVER_OLD,
    .not_starting = "amdsmi_init=10",
    .start_failure = "amdsmi_init failed: 10: Insufficient Permissions",
    .list_refused = "amdsmi_get_gpu_process_list=10",
    .list_broken = "amdsmi_get_gpu_process_list=8",
    .list_growing = "amdsmi_get_gpu_process_list=15",
    .bus_id_broken = "amdsmi_get_gpu_device_bdf=8",
    .not_found = "AMD SMI knows no GPU at 0000:99:00.0",
    .no_such_gpu = "AMD SMI has no GPU 2 of 2",
    .untold = {"amdsmi_get_gpu_asic_info=2", "amdsmi_get_gpu_device_uuid=2",
               "amdsmi_get_gpu_activity=2", "amdsmi_get_gpu_memory_usage=2"},
    .layouts = {"224", "704"},
};

static const monitor_kind *kind;

static int forget_orders(void **state)
{
    (void)state;
    unsetenv("FAKE_CUDA_FAIL");
    unsetenv("FAKE_NVML_PROCESSES");
    unsetenv("FAKE_NVML_ENTRY_BYTES");
    unsetenv("FAKE_NVML_LIST");
    vw__host_memory_fail_at(0);
    return 0;
}

/* ---- without the library --------------------------------------------------------------------- */

static void a_missing_library_leaves_all_unknown(void **state)
{
    (void)state;
    vw__monitor_gpu gpu = {.name = "untouched"};
    vw_process_memory entry = {.pid = 7};
    size_t count = 77;
    assert_false(kind->monitor->is_here());
    assert_status(VW_ERR_UNSUPPORTED, kind->monitor->gpu_read(0, &gpu));
    assert_last_error_has("/nowhere/library.so (cannot open shared object file");
    assert_last_error_has(kind->variable);
    assert_status(VW_ERR_UNSUPPORTED, kind->monitor->processes(USED_DEVICE, &entry, 1, &count));
    assert_string_equal(gpu.name, "untouched");
    assert_int_equal(entry.pid, 7);
    assert_int_equal(count, 77);
    if (kind == &nvml) {
        char version[32] = "untouched";
        assert_status(VW_ERR_UNSUPPORTED, vw__nvml_driver_version(version, sizeof version));
        assert_string_equal(version, "untouched");
    }
}

static int without_it(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_library_leaves_all_unknown),
    };
    setenv(kind->variable, "/nowhere/library.so", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- one that does not start ----------------------------------------------------------------- */

static void a_library_that_does_not_start_says_why(void **state)
{
    (void)state;
    size_t count = 77;
    assert_true(kind->monitor->is_here());
    assert_status(VW_ERR_UNSUPPORTED, kind->monitor->processes(USED_DEVICE, NULL, 0, &count));
    assert_last_error_has(kind->start_failure);
}

static int with_one_that_does_not_start(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_does_not_start_says_why),
    };
    setenv(kind->variable, kind->fake, 1);
    setenv("FAKE_CUDA_FAIL", kind->not_starting, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- one that tells less --------------------------------------------------------------------- */

static void an_older_nvml_tells_processes_and_no_gpus(void **state)
{
    (void)state;
    size_t count = 0;
    unsigned gpu_count = 77;
    vw__monitor_gpu gpu;
    const vw__monitor *monitor = kind->monitor;
    assert_ok(monitor->processes(USED_DEVICE, NULL, 0, &count));
    assert_int_equal(count, 3);
    assert_status(VW_ERR_UNSUPPORTED, monitor->graphics_processes(USED_DEVICE, NULL, 0, &count));
    assert_status(VW_ERR_UNSUPPORTED, monitor->gpu_count(&gpu_count));
    assert_status(VW_ERR_UNSUPPORTED, monitor->gpu_read(0, &gpu));
    assert_int_equal(gpu_count, 77);
    assert_int_equal(count, 3);
}

/* Its list of numbers is not taken for entries. */
static void an_older_amd_smi_tells_gpus_and_no_processes(void **state)
{
    (void)state;
    size_t count = 77;
    vw__monitor_gpu gpu;
    assert_ok(kind->monitor->gpu_read(0, &gpu));
    assert_string_equal(gpu.pci_bus_id, USED_DEVICE);
    assert_string_equal(gpu.name, "");
    assert_string_equal(gpu.uuid, "");
    assert_true(gpu.utilisation_percent == UINT64_MAX);
    assert_true(gpu.total_bytes == UINT64_MAX);
    assert_status(VW_ERR_UNSUPPORTED, kind->monitor->processes(USED_DEVICE, NULL, 0, &count));
    assert_last_error_has("ROCm 6.2 is needed");
    assert_int_equal(count, 77);
}

static int with_an_older_one(void)
{
    const struct CMUnitTest nvml_tests[] = {
        cmocka_unit_test(an_older_nvml_tells_processes_and_no_gpus),
    };
    const struct CMUnitTest amd_smi_tests[] = {
        cmocka_unit_test(an_older_amd_smi_tells_gpus_and_no_processes),
    };
    setenv(kind->variable, kind->old_fake, 1);
    return kind == &nvml ? cmocka_run_group_tests(nvml_tests, NULL, NULL)
                         : cmocka_run_group_tests(amd_smi_tests, NULL, NULL);
}

/* ---- one of today ---------------------------------------------------------------------------- */

static void a_process_that_hides_its_memory_is_told_apart_from_one_that_uses_none(void **state)
{
    (void)state;
    vw_process_memory entries[8];
    size_t count = 0;
    assert_ok(kind->monitor->processes(USED_DEVICE, entries, 8, &count));
    assert_int_equal(count, 3);
    assert_true(entries[0].is_this_process);
    assert_int_equal(entries[0].used_bytes, FAKE_NVML_OWN_BYTES);
    assert_int_equal(entries[1].pid, FAKE_CUDA_ANOTHER_PID);
    assert_false(entries[1].is_this_process);
    assert_true(entries[1].used_bytes == UINT64_MAX);
}

static void more_processes_than_room_are_counted_and_not_stored(void **state)
{
    (void)state;
    vw_process_memory entries[3] = {{.pid = 0}, {.pid = 0}, {.pid = 7}};
    size_t count = 0;
    setenv("FAKE_NVML_PROCESSES", "200", 1);
    assert_ok(kind->monitor->processes(USED_DEVICE, entries, 2, &count));
    assert_int_equal(count, 200);
    assert_int_equal(entries[1].pid, FAKE_CUDA_ANOTHER_PID);
    assert_int_equal(entries[2].pid, 7);
    assert_ok(kind->monitor->processes(USED_DEVICE, NULL, 0, &count));
    assert_int_equal(count, 200);
}

/* Counts around the first guess of how many there are, too. */
static void every_known_layout_of_the_entries_is_understood(void **state)
{
    (void)state;
    static const char *const process_counts[] = {"0", "1", "3", "48", "64", "65"};
    for (size_t i = 0; i < 3 && kind->layouts[i] != NULL; i++) {
        for (size_t j = 0; j < sizeof process_counts / sizeof process_counts[0]; j++) {
            vw_process_memory entries[80];
            size_t count = 77;
            setenv("FAKE_NVML_ENTRY_BYTES", kind->layouts[i], 1);
            setenv("FAKE_NVML_PROCESSES", process_counts[j], 1);
            assert_ok(kind->monitor->processes(USED_DEVICE, entries, 80, &count));
            assert_int_equal(count, atoi(process_counts[j]));
            for (size_t k = 2; k < count; k++) {
                assert_int_equal(entries[k].pid, FAKE_CUDA_ANOTHER_PID + k - 1);
                assert_int_equal(entries[k].used_bytes, k);
            }
        }
    }
}

static void what_it_may_not_tell_is_unsupported_and_a_failure_is_the_devices(void **state)
{
    (void)state;
    vw_process_memory entry = {.pid = 7};
    size_t count = 77;
    setenv("FAKE_CUDA_FAIL", kind->list_refused, 1);
    assert_status(VW_ERR_UNSUPPORTED, kind->monitor->processes(USED_DEVICE, &entry, 1, &count));
    assert_last_error_has("Insufficient Permissions");
    setenv("FAKE_CUDA_FAIL", kind->list_broken, 1);
    assert_status(VW_ERR_DEVICE, kind->monitor->processes(USED_DEVICE, &entry, 1, &count));
    unsetenv("FAKE_CUDA_FAIL");
    assert_status(VW_ERR_UNSUPPORTED, kind->monitor->processes("0000:99:00.0", &entry, 1, &count));
    assert_last_error_has(kind->not_found);
    assert_int_equal(count, 77);
    assert_int_equal(entry.pid, 7);
}

static void a_list_that_never_stops_growing_is_given_up(void **state)
{
    (void)state;
    size_t count = 77;
    setenv("FAKE_CUDA_FAIL", kind->list_growing, 1);
    assert_status(VW_ERR_DEVICE, kind->monitor->processes(USED_DEVICE, NULL, 0, &count));
    assert_int_equal(count, 77);
}

static void a_lack_of_host_memory_leaves_the_outputs_alone(void **state)
{
    (void)state;
    vw_process_memory entry = {.pid = 7};
    size_t count = 77;
    uint64_t held_bytes = vw__host_memory_get_use().in_use_bytes;
    setenv("FAKE_NVML_PROCESSES", "65", 1);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        vw__host_memory_fail_at(nth);
        assert_status(VW_ERR_HOST_MEMORY, kind->monitor->processes(USED_DEVICE, &entry, 1, &count));
        assert_int_equal(count, 77);
        assert_int_equal(entry.pid, 7);
        assert_int_equal(vw__host_memory_get_use().in_use_bytes, held_bytes);
    }
}

static void the_drivers_version_is_told(void **state)
{
    (void)state;
    char version[32] = "";
    if (kind != &nvml)
        return; /* nobody asks */
    assert_ok(vw__nvml_driver_version(version, sizeof version));
    assert_string_equal(version, "580.00.fake");
}

static void gpus_are_counted_and_told_with_their_memory(void **state)
{
    (void)state;
    unsigned count = 77;
    vw__monitor_gpu gpu;
    setenv("FAKE_NVML_LIST", "1:17:4096", 1);
    assert_ok(kind->monitor->gpu_count(&count));
    assert_int_equal(count, FAKE_CUDA_DEVICES);
    assert_ok(kind->monitor->gpu_read(1, &gpu));
    assert_string_equal(gpu.name, "Fake GPU");
    assert_string_equal(gpu.uuid, "GPU-1111");
    assert_int_equal(gpu.utilisation_percent, 3);
    assert_int_equal(gpu.total_bytes, FAKE_CUDA_TOTAL_BYTES);
    assert_int_equal(gpu.used_bytes, FAKE_NVML_SYSTEM_BYTES + 4096);
    assert_int_equal(gpu.free_bytes, gpu.total_bytes - gpu.used_bytes);
    vw_process_memory entry;
    size_t process_count = 0;
    assert_ok(kind->monitor->processes(gpu.pci_bus_id, &entry, 1, &process_count));
    assert_int_equal(process_count, 1);
    assert_int_equal(entry.pid, 17);
    assert_int_equal(entry.used_bytes, 4096);
    if (kind->monitor->graphics_processes != NULL) {
        assert_ok(kind->monitor->graphics_processes(gpu.pci_bus_id, &entry, 1, &process_count));
        assert_int_equal(process_count, 0);
    }
}

static void what_a_gpu_does_not_tell_is_unknown_and_one_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    vw__monitor_gpu gpu;
    for (size_t i = 0; i < 4; i++) {
        setenv("FAKE_CUDA_FAIL", kind->untold[i], 1);
        assert_ok(kind->monitor->gpu_read(0, &gpu));
        assert_true((gpu.name[0] == '\0') == (i == 0));
        assert_true((gpu.uuid[0] == '\0') == (i == 1));
        assert_true((gpu.utilisation_percent == UINT64_MAX) == (i == 2));
        assert_true((gpu.total_bytes == UINT64_MAX) == (i == 3));
        assert_string_equal(gpu.pci_bus_id, USED_DEVICE);
    }
    setenv("FAKE_CUDA_FAIL", kind->bus_id_broken, 1);
    assert_status(VW_ERR_DEVICE, kind->monitor->gpu_read(0, &gpu));
    unsetenv("FAKE_CUDA_FAIL");
    assert_status(VW_ERR_DEVICE, kind->monitor->gpu_read(FAKE_CUDA_DEVICES, &gpu));
    assert_last_error_has(kind->no_such_gpu);
}

static int with_one_of_today(void)
{
#define WITH_ORDERS_FORGOTTEN(test) cmocka_unit_test_teardown(test, forget_orders)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_hides_its_memory_is_told_apart_from_one_that_uses_none),
        WITH_ORDERS_FORGOTTEN(more_processes_than_room_are_counted_and_not_stored),
        WITH_ORDERS_FORGOTTEN(every_known_layout_of_the_entries_is_understood),
        WITH_ORDERS_FORGOTTEN(what_it_may_not_tell_is_unsupported_and_a_failure_is_the_devices),
        WITH_ORDERS_FORGOTTEN(a_list_that_never_stops_growing_is_given_up),
        WITH_ORDERS_FORGOTTEN(a_lack_of_host_memory_leaves_the_outputs_alone),
        cmocka_unit_test(the_drivers_version_is_told),
        WITH_ORDERS_FORGOTTEN(gpus_are_counted_and_told_with_their_memory),
        WITH_ORDERS_FORGOTTEN(
            what_a_gpu_does_not_tell_is_unknown_and_one_that_is_not_there_is_an_error),
    };
    setenv(kind->variable, kind->fake, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- one process a group --------------------------------------------------------------------- */

int main(void)
{
    static const monitor_kind *const kinds[] = {&nvml, &amd_smi};
    int failures = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        kind = kinds[i];
        failures += vw_test_in_own_process("without it", without_it);
        failures +=
            vw_test_in_own_process("with one that does not start", with_one_that_does_not_start);
        failures += vw_test_in_own_process("with an older one", with_an_older_one);
        failures += vw_test_in_own_process("with one of today", with_one_of_today);
    }
    return failures != 0;
}
