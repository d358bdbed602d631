/* gate_bench.c - see gate_bench.h. */
#include "bench/gate_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "vramwise_torch_support.h"

void gate_report(bool is_right, const char *what)
{
    printf("%-5s %s\n", is_right ? "ok" : "WRONG", what);
    gate_bench.fault_count += !is_right;
}

void gate_must(vw_status status, const char *what)
{
    if (status == VW_OK)
        return;
    printf("WRONG %s: %s\n", what, vw_last_error());
    exit(1);
}

uint64_t gate_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

void gate_sort(uint64_t *numbers, size_t count)
{
    qsort(numbers, count, sizeof numbers[0], by_size);
}

/* Kernels are launched in the thread's current context. */
void gate_begin_thread(vw_stream *stream)
{
    const replay_driver *driver = &gate_bench.driver;
    vw_device *device = gate_bench.device;
    vw__cuda_context context = NULL;
    if (driver->base->cuDevicePrimaryCtxRetain(&context, driver->device) != VW__CUDA_SUCCESS ||
        driver->base->cuCtxPushCurrent(context) != VW__CUDA_SUCCESS)
        gate_must(VW_ERR_DEVICE, "a thread's context");
    gate_must(device->table->stream_create(device->context, stream), "a stream");
}

void gate_end_thread(vw_stream stream)
{
    vw_device *device = gate_bench.device;
    gate_must(device->table->stream_synchronize(device->context, stream), "waiting for a stream");
    gate_must(device->table->stream_destroy(device->context, stream), "ending a stream");
}

void gate_begin_anew(void)
{
    if (!vramwise_launch_gate_remove())
        gate_report(false, "the gate is taken away");
    vramwise_launch_gate_come_late(false);
}

void *gate_launch_until_over(void *address)
{
    vw_device *device = gate_bench.device;
    replay_bytes own = gate_bench.kernels;
    const replay_block block = {.address = *(vw_device_ptr *)address, .size_bytes = 64, .seed = 7};
    vw_stream stream = 0;
    gate_begin_thread(&stream);
    while (atomic_load(&gate_bench.is_over) == 0) {
        for (int i = 0; i < BATCH; i++)
            gate_must(replay_bytes_fill(&own, &block, stream), "a launch");
        gate_must(device->table->stream_synchronize(device->context, stream), "waiting");
    }
    gate_end_thread(stream);
    return NULL;
}
