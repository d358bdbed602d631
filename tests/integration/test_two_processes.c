/* test_two_processes.c - two processes with a pool each on one GPU, on the fake driver: each sees
 * what the other leaves it, is refused the rest, and whoever watches sees both. */
#include "vramwise/vramwise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contract/device_contract.h" /* assert_ok, assert_status, assert_last_error_has */
#include "support/cmocka_here.h"
#include "support/fake_cuda/fake_libcuda.h"
#include "support/live_folder.h"

#define MIB (UINT64_C(1) << 20)
#define OTHERS_BYTES (2560 * MIB) /* what the child holds, of 4 GiB */

static live_folder folder;
static vw_device *device;
static vw_pool *pool;

static vw_status open_pool(int index, const char *engine)
{
    const vw_pool_options options = {.struct_size = sizeof options, .engine = engine, .conf = ""};
    vw_status status = vw_cuda_device_open(index, &device);
    return status == VW_OK ? vw_pool_create(device, &options, &pool) : status;
}

static void close_pool(void)
{
    vw_pool_destroy(pool);
    vw_device_destroy(device);
}

/* In the child, which ends its pool when it exits. */
static int hold_much(void *context)
{
    vw_device_ptr held = VW_NULL;
    if (open_pool(0, context) != VW_OK || atexit(close_pool) != 0)
        return 1;
    return vw_alloc(pool, OTHERS_BYTES, 0, &held) == VW_OK ? 0 : 1;
}

static bool has_jobs(const vw_jobs *jobs, void *context)
{
    (void)context;
    size_t told = 0;
    for (size_t i = 0; i < jobs->job_count; i++)
        told += jobs->jobs[i].device_count == 1 &&
                jobs->jobs[i].devices[0].values[VW_LIVE_LIVE_BYTES] != VW_LIVE_UNKNOWN &&
                jobs->jobs[i].devices[0].values[VW_LIVE_LIVE_BYTES] > 0;
    return told == 2;
}

static void expect_both_on_the_gpu(pid_t other, uint64_t own_bytes)
{
    char list[128];
    vw_process_memory processes[4];
    size_t count = 0;
    snprintf(list, sizeof list, "0:%d:%llu,0:%d:%llu", (int)other, (unsigned long long)OTHERS_BYTES,
             (int)getpid(), (unsigned long long)own_bytes);
    setenv("FAKE_NVML_LIST", list, 1);
    assert_ok(device->table->processes(device->context, processes, 4, &count));
    assert_int_equal(count, 2);
    assert_false(processes[0].is_this_process);
    assert_int_equal(processes[0].used_bytes, OTHERS_BYTES);
    assert_true(processes[1].is_this_process);
    vw_jobs_free(live_folder_wait(&folder, has_jobs, NULL));
    vw_machine *machine = NULL;
    assert_ok(vw_machine_read(folder.path, &machine));
    assert_int_equal(machine->row_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const vw_machine_row *row = &machine->rows[i];
        uint64_t bytes = row->process == getpid() ? own_bytes : OTHERS_BYTES;
        assert_true(row->process == getpid() || row->process == other);
        assert_ptr_equal(row->gpu, &machine->gpus[0]);
        assert_int_equal(row->process_bytes, bytes);
        assert_int_equal(row->device->values[VW_LIVE_LIVE_BYTES], bytes);
    }
    assert_int_not_equal(machine->rows[0].process, machine->rows[1].process);
    assert_int_equal(machine->gpus[0].job_live_bytes, OTHERS_BYTES + own_bytes);
    assert_int_equal(machine->gpus[1].job_live_bytes, 0);
    vw_machine_free(machine);
    unsetenv("FAKE_NVML_LIST");
}

static void share_a_gpu(const char *engine)
{
    uint64_t free_bytes = 0, total_bytes = 0;
    vw_device_ptr block = VW_NULL, more = VW_NULL;
    live_child other = live_child_start(hold_much, (void *)(uintptr_t)engine);
    assert_ok(open_pool(0, engine));
    assert_ok(device->table->memory_info(device->context, &free_bytes, &total_bytes));
    assert_int_equal(total_bytes, FAKE_CUDA_TOTAL_BYTES);
    assert_int_equal(free_bytes, FAKE_CUDA_TOTAL_BYTES - OTHERS_BYTES);
    assert_status(VW_ERR_OUT_OF_MEMORY, vw_alloc(pool, 2048 * MIB, 0, &block));
    assert_ok(vw_pool_check(pool));
    assert_ok(vw_alloc(pool, 1024 * MIB, 0, &block));
    expect_both_on_the_gpu(other.process, 1024 * MIB);
    assert_status(VW_ERR_OUT_OF_MEMORY, vw_alloc(pool, 1024 * MIB, 0, &more));
    assert_int_equal(live_child_end(&other), 0);
    assert_ok(vw_alloc(pool, 2560 * MIB, 0, &more)); /* what the other had */
    assert_ok(vw_free(pool, more));
    assert_ok(vw_free(pool, block));
    close_pool();
}

static void each_has_what_the_other_leaves(void **state)
{
    static const char *const engines[] = {"torch", "vramwise"};
    char machine_file[128];
    (void)state;
    live_folder_make(&folder);
    snprintf(machine_file, sizeof machine_file, "%s-machine", folder.path);
    setenv("FAKE_CUDA_MACHINE", machine_file, 1);
    setenv("FAKE_NVML_NAME", "Fake GPU 0", 1); /* as the driver calls it */
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
        share_a_gpu(engines[i]);
    unlink(machine_file);
    live_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_what_the_other_leaves),
    };
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1);
    setenv("VRAMWISE_NVML", VW_FAKE_CUDA_DRIVER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
