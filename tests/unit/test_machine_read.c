/* test_machine_read.c - NVML or AMD SMI, /proc and pages together, on this machine as it is.
 *
 * The libraries are the fake ones (tests/support/fake_cuda and fake_hip), which are loaded once in
 * a process; the process on their GPUs and the job are this one. */
#include "vramwise/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host_memory.h"

#include "contract/device_contract.h" /* assert_ok, assert_status */
#include "support/cmocka_here.h"
#include "support/fake_cuda/fake_libcuda.h"
#include "support/host_memory_sweep.h"
#include "support/own_process.h"

/* Orders for the fake, "function=result". */
typedef struct library_kind {
    const char *name;
    const char *nvml, *amd_smi; /* what the variables say */
    const char *without_use, *without_processes, *without_gpus, *without_count;
} library_kind;

#define NOWHERE "/nowhere/at/all.so"

static const library_kind nvml = {
    .name = "nvmlDeviceGetCount",
    .nvml = VW_FAKE_CUDA_DRIVER,
    .amd_smi = NOWHERE,
    .without_use = "nvmlDeviceGetUtilizationRates=3",
    .without_processes = "nvmlDeviceGetComputeRunningProcesses_v3=4",
    .without_gpus = "nvmlDeviceGetHandleByIndex_v2=15",
    .without_count = "nvmlDeviceGetCount_v2=15",
};

static const library_kind amd_smi = {
    .name = "amdsmi_get_socket_handles",
    .nvml = NOWHERE,
    .amd_smi = VW_FAKE_HIP_DRIVER,
    .without_use = "amdsmi_get_gpu_activity=2",
    .without_processes = "amdsmi_get_gpu_process_list=10",
    .without_gpus = "amdsmi_get_gpu_device_bdf=8",
    .without_count = "amdsmi_get_socket_handles=8",
};

static const library_kind *kind;

static char folder[] = "/tmp/vramwise-machine-XXXXXX";
static vw_live_page *page;

static int make_page(void **state)
{
    const vw_live_identity identity = {
        .struct_size = sizeof identity, .program = "train.py", .rank = -1, .local_rank = -1};
    (void)state;
    return vw_live_page_create(folder, &identity, &page) == VW_OK ? 0 : -1;
}

static int remove_page(void **state)
{
    (void)state;
    unsetenv("FAKE_NVML_LIST");
    unsetenv("FAKE_CUDA_FAIL");
    vw_live_page_destroy(page);
    return 0;
}

static void put(const char *device_name, uint64_t live_bytes, uint64_t reserved_bytes)
{
    const uint64_t values[] = {live_bytes, reserved_bytes};
    assert_ok(vw_live_page_put(page, 0, device_name, values, 2));
}

static vw_machine *read_machine(void)
{
    vw_machine *machine = NULL;
    assert_ok(vw_machine_read(folder, &machine));
    return machine;
}

/* ---- without a library ----------------------------------------------------------------------- */

static void without_a_library_there_are_jobs_and_no_gpus(void **state)
{
    (void)state;
    put("simulated", 10, 30);
    vw_machine *machine = read_machine();
    assert_int_equal(machine->gpu_count, 0);
    assert_non_null(strstr(machine->gpu_trouble, "NVML could not be loaded; tried " NOWHERE));
    assert_non_null(strstr(machine->gpu_trouble, "; AMD SMI is not here either"));
    assert_int_equal(machine->row_count, 1);
    assert_int_equal(machine->rows[0].place, VW_ROW_ON_NO_GPU);
    assert_int_equal(machine->rows[0].process, getpid());
    assert_string_equal(machine->rows[0].command, "train.py");
    vw_machine_free(machine);
}

static void a_page_without_a_program_has_its_command_by_proc(void **state)
{
    const vw_live_identity nobody = {.struct_size = sizeof nobody, .rank = -1, .local_rank = -1};
    (void)state;
    assert_ok(vw_live_page_create(folder, &nobody, &page));
    vw_machine *machine = read_machine();
    assert_string_equal(machine->jobs->jobs[0].program, "");
    assert_non_null(strstr(machine->rows[0].command, "unit_machine_read"));
    vw_machine_free(machine);
}

static void a_folder_that_is_not_there_is_an_error(void **state)
{
    vw_machine *machine = NULL;
    (void)state;
    assert_status(VW_ERR_FILE, vw_machine_read("/nowhere/at/all", &machine));
    assert_null(machine);
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_machine_read(folder, NULL));
    vw_machine_free(NULL);
}

static int without_a_library(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_library_there_are_jobs_and_no_gpus, make_page,
                                        remove_page),
        cmocka_unit_test_teardown(a_page_without_a_program_has_its_command_by_proc, remove_page),
        cmocka_unit_test(a_folder_that_is_not_there_is_an_error),
    };
    setenv("VRAMWISE_NVML", NOWHERE, 1);
    setenv("VRAMWISE_AMD_SMI", NOWHERE, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- with one -------------------------------------------------------------------------------- */

static void gpus_are_told_with_what_is_used_of_them(void **state)
{
    (void)state;
    setenv("FAKE_NVML_LIST", "1:1:1000", 1);
    vw_machine *machine = read_machine();
    assert_null(machine->gpu_trouble);
    assert_int_equal(machine->gpu_count, FAKE_CUDA_DEVICES);
    const vw_gpu *gpu = &machine->gpus[1];
    assert_int_equal(gpu->index, 1);
    assert_string_equal(gpu->name, "Fake GPU");
    assert_string_equal(gpu->uuid, "GPU-1111");
    assert_string_equal(machine->gpus[0].pci_bus_id, "0000:30:00.0");
    assert_int_equal(gpu->utilisation_percent, 3);
    assert_int_equal(gpu->total_bytes, FAKE_CUDA_TOTAL_BYTES);
    assert_int_equal(gpu->used_bytes, FAKE_NVML_SYSTEM_BYTES + 1000);
    assert_int_equal(gpu->other_bytes, FAKE_NVML_SYSTEM_BYTES + 1000);
    vw_machine_free(machine);
}

static void a_job_is_joined_with_its_process_and_another_has_its_command_by_proc(void **state)
{
    char list[64];
    (void)state;
    put("Fake GPU", 10, 30);
    snprintf(list, sizeof list, "0:%d:5000,0:%d:70", getppid(), getpid());
    setenv("FAKE_NVML_LIST", list, 1);
    vw_machine *machine = read_machine();
    assert_int_equal(machine->row_count, 2);
    const vw_machine_row *own = &machine->rows[getpid() > getppid() ? 1 : 0];
    const vw_machine_row *other = &machine->rows[getpid() > getppid() ? 0 : 1];
    assert_int_equal(own->process, getpid());
    assert_ptr_equal(own->gpu, &machine->gpus[0]);
    assert_int_equal(own->process_bytes, 70);
    assert_int_equal(own->device->values[VW_LIVE_RESERVED_BYTES], 30);
    assert_int_equal(other->process, getppid());
    assert_null(other->job);
    assert_true(other->command[0] != '\0');
    assert_int_equal(machine->gpus[0].job_live_bytes, 10);
    assert_int_equal(machine->gpus[0].job_idle_bytes, 20);
    vw_machine_free(machine);
}

static void what_a_gpu_will_not_tell_is_unknown_and_the_rest_is_there(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_FAIL", kind->without_use, 1);
    vw_machine *machine = read_machine();
    assert_int_equal(machine->gpu_count, FAKE_CUDA_DEVICES);
    assert_true(machine->gpus[0].utilisation_percent == VW_LIVE_UNKNOWN);
    assert_int_equal(machine->gpus[0].total_bytes, FAKE_CUDA_TOTAL_BYTES);
    vw_machine_free(machine);
    setenv("FAKE_CUDA_FAIL", kind->without_processes, 1);
    machine = read_machine();
    assert_int_equal(machine->gpu_count, FAKE_CUDA_DEVICES);
    assert_int_equal(machine->row_count, 1); /* the job, of which no device is told */
    vw_machine_free(machine);
    setenv("FAKE_CUDA_FAIL", kind->without_gpus, 1);
    machine = read_machine();
    assert_int_equal(machine->gpu_count, 0);
    vw_machine_free(machine);
    setenv("FAKE_CUDA_FAIL", kind->without_count, 1);
    machine = read_machine();
    assert_non_null(strstr(machine->gpu_trouble, kind->name));
    vw_machine_free(machine);
}

static bool read_once(void *context)
{
    vw_machine *machine = NULL;
    (void)context;
    if (vw_machine_read(folder, &machine) != VW_OK)
        return false;
    vw_job_figures figures;
    bool is_good = machine->row_count > 0 &&
                   vw_job_figures_find(NULL, machine, &machine->rows[0], &figures) == VW_OK;
    vw_machine_free(machine);
    return is_good;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    (void)state;
    put("Fake GPU", 10, 30);
    assert_ok(vw_live_page_step(page, 0, 1, 10, 30));
    vw_test_sweep_host_memory(read_once, NULL);
}

static int with_one(void)
{
#define WITH_PAGE(test) cmocka_unit_test_setup_teardown(test, make_page, remove_page)
    const struct CMUnitTest tests[] = {
        WITH_PAGE(gpus_are_told_with_what_is_used_of_them),
        WITH_PAGE(a_job_is_joined_with_its_process_and_another_has_its_command_by_proc),
        WITH_PAGE(what_a_gpu_will_not_tell_is_unknown_and_the_rest_is_there),
        WITH_PAGE(every_lack_of_host_memory_is_survived),
    };
    setenv("VRAMWISE_NVML", kind->nvml, 1);
    setenv("VRAMWISE_AMD_SMI", kind->amd_smi, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- with both ------------------------------------------------------------------------------- */

static void amds_gpus_are_counted_on_from_nvidias(void **state)
{
    (void)state;
    setenv("FAKE_NVML_LIST", "1:17:1000", 1); /* both hear it */
    vw_machine *machine = read_machine();
    assert_null(machine->gpu_trouble);
    assert_int_equal(machine->gpu_count, 2 * FAKE_CUDA_DEVICES);
    for (size_t i = 0; i < machine->gpu_count; i++)
        assert_int_equal(machine->gpus[i].index, i);
    assert_int_equal(machine->row_count, 3); /* with the job */
    assert_ptr_equal(machine->rows[0].gpu, &machine->gpus[1]);
    assert_ptr_equal(machine->rows[1].gpu, &machine->gpus[FAKE_CUDA_DEVICES + 1]);
    vw_machine_free(machine);
}

static void one_that_fails_takes_nothing_from_the_other(void **state)
{
    static const char *const orders[] = {"nvmlDeviceGetCount_v2=15", "amdsmi_get_socket_handles=8"};
    (void)state;
    put("Fake GPU", 10, 30);
    for (size_t i = 0; i < 2; i++) {
        setenv("FAKE_CUDA_FAIL", orders[i], 1);
        vw_machine *machine = read_machine();
        assert_null(machine->gpu_trouble);
        assert_int_equal(machine->gpu_count, FAKE_CUDA_DEVICES);
        assert_int_equal(machine->gpus[0].index, 0);
        vw_machine_free(machine);
    }
}

/* The other may be there without a GPU of its vendor. */
static void one_that_fails_is_said_where_the_other_knows_no_gpu(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_DEVICE_COUNT", "0", 1);
    vw_machine *machine = read_machine();
    assert_int_equal(machine->gpu_count, 0);
    assert_null(machine->gpu_trouble);
    vw_machine_free(machine);
    setenv("FAKE_CUDA_FAIL", "nvmlDeviceGetCount_v2=15", 1);
    machine = read_machine();
    assert_non_null(strstr(machine->gpu_trouble, "nvmlDeviceGetCount"));
    vw_machine_free(machine);
    unsetenv("FAKE_CUDA_DEVICE_COUNT");
}

static int with_both(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PAGE(amds_gpus_are_counted_on_from_nvidias),
        WITH_PAGE(one_that_fails_takes_nothing_from_the_other),
        WITH_PAGE(one_that_fails_is_said_where_the_other_knows_no_gpu),
    };
    setenv("VRAMWISE_NVML", VW_FAKE_CUDA_DRIVER, 1);
    setenv("VRAMWISE_AMD_SMI", VW_FAKE_HIP_DRIVER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ---- one process a group --------------------------------------------------------------------- */

int main(void)
{
    int failures = 0;
    if (mkdtemp(folder) == NULL)
        return 1;
    failures += vw_test_in_own_process("without a library", without_a_library);
    kind = &nvml;
    failures += vw_test_in_own_process("with one", with_one);
    kind = &amd_smi;
    failures += vw_test_in_own_process("with one", with_one);
    failures += vw_test_in_own_process("with both", with_both);
    (void)rmdir(folder);
    return failures != 0;
}
