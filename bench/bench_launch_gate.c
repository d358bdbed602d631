/* bench_launch_gate.c - what the launch gate costs on a GPU, and whether it holds.
 *
 *   bench_launch_gate [DEVICE] [CUDART]    CUDART: libcudart.so to try as well; by its name if left
 * out
 *
 * Four parts. The time of a kernel launch without CUPTI and with the gate, and of closing it while
 * others launch. Which calls pass it, the CUDA runtime's among them: a gate that some do not see
 * would be none. Threads whose kernels write and check blocks of a pool that has so little room
 * that it must copy them from under their feet: every wrong word is counted (gate_torture.c). And
 * both again for a gate that is put up while they launch (gate_late.c).
 *
 * Needs nothing but libvramwise's archive, so that it can be carried to a machine with a GPU. The
 * kernels are those of tests/gpu/gpu_replay_bytes.c. Ends with 1 where something is wrong, with 0
 * where there is no GPU. */
#include "vramwise_torch_support.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "adapters/torch/support/launch_gate.h"
#include "bench/gate_bench.h"

enum {
    LAUNCHES = 20000, /* of each thread */
    REPEATS = 5,
    CLOSINGS = 200,
    PATIENCE_S = 500,
};

struct gate_bench gate_bench;

/* ---- what a launch costs --------------------------------------------------------------------- */

typedef struct launcher {
    pthread_t thread;
    vw_device_ptr address; /* of a few bytes */
    double ns_each;
    pthread_barrier_t *start;
} launcher;

static void *launch_in_batches(void *context)
{
    launcher *self = context;
    replay_bytes own = gate_bench.kernels;
    const replay_block block = {.address = self->address, .size_bytes = 64, .seed = 7};
    vw_stream stream = 0;
    uint64_t launching_ns = 0;
    gate_begin_thread(&stream);
    gate_must(replay_bytes_fill(&own, &block, stream), "a first launch");
    pthread_barrier_wait(self->start);
    for (int i = 0; i < LAUNCHES; i += BATCH) {
        uint64_t begin_ns = gate_now_ns();
        for (int j = 0; j < BATCH; j++)
            gate_must(replay_bytes_fill(&own, &block, stream), "a launch");
        launching_ns += gate_now_ns() - begin_ns;
        gate_must(gate_bench.device->table->stream_synchronize(gate_bench.device->context, stream),
                  "waiting");
    }
    gate_end_thread(stream);
    self->ns_each = (double)launching_ns / LAUNCHES;
    return NULL;
}

static double time_launches(unsigned thread_count)
{
    double best_ns = 0;
    vw_device_ptr memory = VW_NULL;
    gate_must(gate_bench.device->table->take(gate_bench.device->context, 4096, &memory), "memory");
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        launcher launchers[MOST_THREADS];
        pthread_barrier_t start;
        double mean_ns = 0;
        pthread_barrier_init(&start, NULL, thread_count);
        for (unsigned i = 0; i < thread_count; i++) {
            launchers[i] = (launcher){.address = memory + 512 * i, .start = &start};
            pthread_create(&launchers[i].thread, NULL, launch_in_batches, &launchers[i]);
        }
        for (unsigned i = 0; i < thread_count; i++) {
            pthread_join(launchers[i].thread, NULL);
            mean_ns += launchers[i].ns_each / thread_count;
        }
        pthread_barrier_destroy(&start);
        if (repeat == 0 || mean_ns < best_ns)
            best_ns = mean_ns;
    }
    gate_must(gate_bench.device->table->give_back(gate_bench.device->context, memory),
              "giving memory back");
    return best_ns;
}

/* ---- what closing costs ---------------------------------------------------------------------- */

static void time_closing(unsigned thread_count)
{
    pthread_t threads[MOST_THREADS];
    uint64_t closing_ns[CLOSINGS];
    int refused = 0;
    vw_device_ptr memory = VW_NULL;
    gate_must(gate_bench.device->table->take(gate_bench.device->context, 4096, &memory), "memory");
    atomic_store(&gate_bench.is_over, 0);
    for (unsigned i = 0; i < thread_count; i++)
        pthread_create(&threads[i], NULL, gate_launch_until_over, &memory);
    usleep(50000);
    for (int i = 0; i < CLOSINGS; i++) {
        uint64_t begin_ns = gate_now_ns();
        bool is_closed = vw__launch_gate_close();
        closing_ns[i] = gate_now_ns() - begin_ns;
        if (is_closed)
            vw__launch_gate_open();
        else
            refused++;
        usleep(1000);
    }
    atomic_store(&gate_bench.is_over, 1);
    for (unsigned i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    gate_must(gate_bench.device->table->give_back(gate_bench.device->context, memory),
              "giving memory back");
    gate_sort(closing_ns, CLOSINGS);
    printf("closing, %u threads launching: median %.1f us, worst %.1f us, refused %d of %d\n",
           thread_count, (double)closing_ns[CLOSINGS / 2] / 1e3,
           (double)closing_ns[CLOSINGS - 1] / 1e3, refused, CLOSINGS);
    gate_report(refused == 0, "the gate closes while others launch");
}

/* ---- what passes it -------------------------------------------------------------------------- */

static uint64_t passed(void)
{
    return vw__launch_gate_get_counts().passed_launches;
}

static uint64_t passed_before;

static void expect_passed(bool is_expected, const char *call)
{
    char text[120];
    uint64_t count = passed() - passed_before;
    snprintf(text, sizeof text, "%s %s the gate (%" PRIu64 ")", call,
             is_expected ? "passes" : "does not need", count);
    gate_report((count != 0) == is_expected, text);
    passed_before = passed();
}

static void look_at_driver_calls(void)
{
    const vw_device_table *table = gate_bench.device->table;
    char bytes[4096] = "";
    vw_device_ptr memory = VW_NULL, addresses = VW_NULL;
    vw_handle handle = 0;
    uint64_t unit_bytes = gate_bench.device->properties.granularity_bytes;
    passed_before = passed();
    gate_must(table->take(gate_bench.device->context, 8192, &memory), "memory");
    expect_passed(false, "cuMemAlloc");
    gate_must(table->write(gate_bench.device->context, memory, bytes, sizeof bytes), "write");
    expect_passed(true, "cuMemcpyHtoD");
    gate_must(table->read(gate_bench.device->context, bytes, memory, sizeof bytes), "read");
    expect_passed(true, "cuMemcpyDtoH");
    gate_must(table->copy(gate_bench.device->context, memory + 4096, memory, 4096, 0), "copy");
    expect_passed(true, "cuMemcpyDtoDAsync");
    gate_must(table->fill(gate_bench.device->context, memory, 1, 4096, 0), "fill");
    expect_passed(true, "cuMemsetD8Async");
    const replay_block block = {.address = memory, .size_bytes = 64, .seed = 1};
    gate_must(replay_bytes_fill(&gate_bench.kernels, &block, 0), "a launch");
    expect_passed(true, "cuLaunchKernel");
    gate_must(table->synchronize(gate_bench.device->context), "waiting");
    expect_passed(false, "cuCtxSynchronize");
    gate_must(table->reserve(gate_bench.device->context, unit_bytes, &addresses), "reserve");
    gate_must(table->create(gate_bench.device->context, unit_bytes, &handle), "create");
    gate_must(table->map(gate_bench.device->context, addresses, unit_bytes, handle), "map");
    gate_must(table->set_access(gate_bench.device->context, addresses, unit_bytes), "set_access");
    gate_must(table->unmap(gate_bench.device->context, addresses, unit_bytes), "unmap");
    gate_must(table->release(gate_bench.device->context, handle), "release");
    gate_must(table->unreserve(gate_bench.device->context, addresses, unit_bytes), "unreserve");
    expect_passed(false, "mapping memory");
    gate_must(table->give_back(gate_bench.device->context, memory), "giving memory back");
}

/* The runtime's functions, where there is one: what PyTorch calls. */
typedef struct runtime {
    int (*set_device)(int device);
    int (*malloc)(void **address, size_t size_bytes);
    int (*free)(void *address);
    int (*memcpy)(void *to, const void *from, size_t size_bytes, int kind);
    int (*memcpy_async)(void *to, const void *from, size_t size_bytes, int kind, void *stream);
    int (*memset)(void *to, int value, size_t size_bytes);
    int (*memset_async)(void *to, int value, size_t size_bytes, void *stream);
    int (*stream_create)(void **stream);
    int (*begin_capture)(void *stream, int mode);
    int (*end_capture)(void *stream, void **graph);
    int (*instantiate)(void **graph_exec, void *graph, unsigned long long flags);
    int (*graph_launch)(void *graph_exec, void *stream);
    int (*synchronize)(void);
} runtime;

static const struct {
    const char *name;
    size_t offset_bytes;
} runtime_functions[] = {
    {"cudaSetDevice", offsetof(runtime, set_device)},
    {"cudaMalloc", offsetof(runtime, malloc)},
    {"cudaFree", offsetof(runtime, free)},
    {"cudaMemcpy", offsetof(runtime, memcpy)},
    {"cudaMemcpyAsync", offsetof(runtime, memcpy_async)},
    {"cudaMemset", offsetof(runtime, memset)},
    {"cudaMemsetAsync", offsetof(runtime, memset_async)},
    {"cudaStreamCreate", offsetof(runtime, stream_create)},
    {"cudaStreamBeginCapture", offsetof(runtime, begin_capture)},
    {"cudaStreamEndCapture", offsetof(runtime, end_capture)},
    {"cudaGraphInstantiateWithFlags", offsetof(runtime, instantiate)},
    {"cudaGraphLaunch", offsetof(runtime, graph_launch)},
    {"cudaDeviceSynchronize", offsetof(runtime, synchronize)},
};

static bool load_runtime(const char *path, runtime *out)
{
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so"};
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; i < 3 && library == NULL && path == NULL; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof runtime_functions / sizeof runtime_functions[0]; i++) {
        void *address = library != NULL ? dlsym(library, runtime_functions[i].name) : NULL;
        if (address == NULL)
            return false;
        memcpy((char *)out + runtime_functions[i].offset_bytes, &address, sizeof address);
    }
    return true;
}

static void expect_runtime(int result, const char *call)
{
    char text[120];
    snprintf(text, sizeof text, "%s answers %d", call, result);
    if (result != 0)
        gate_report(false, text);
}

static void look_at_captures(const runtime *cuda, char *memory)
{
    void *stream = NULL, *graph = NULL, *graph_exec = NULL;
    expect_runtime(cuda->stream_create(&stream), "cudaStreamCreate");
    expect_runtime(cuda->begin_capture(stream, 2), "cudaStreamBeginCapture");
    gate_report(vw__launch_gate_sees_capture(), "a capture is seen");
    bool is_closed = vw__launch_gate_close();
    gate_report(!is_closed, "the gate does not close during a capture");
    if (is_closed)
        vw__launch_gate_open();
    expect_runtime(cuda->memset_async(memory, 3, 100, stream), "cudaMemsetAsync, captured");
    expect_runtime(cuda->end_capture(stream, &graph), "cudaStreamEndCapture");
    gate_report(!vw__launch_gate_sees_capture(), "the end of the capture is seen");
    expect_runtime(cuda->instantiate(&graph_exec, graph, 0), "cudaGraphInstantiateWithFlags");
    passed_before = passed();
    expect_runtime(cuda->graph_launch(graph_exec, stream), "cudaGraphLaunch");
    expect_passed(true, "cudaGraphLaunch");
    expect_runtime(cuda->synchronize(), "cudaDeviceSynchronize");
    is_closed = vw__launch_gate_close();
    gate_report(is_closed, "the gate closes after the capture");
    if (is_closed)
        vw__launch_gate_open();
}

static void look_at_runtime_calls(const char *path)
{
    enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2, DEVICE_TO_DEVICE = 3 };
    runtime cuda;
    void *memory = NULL;
    char bytes[256] = "";
    if (!load_runtime(path, &cuda)) {
        printf("      no CUDA runtime found: not tried\n");
        return;
    }
    expect_runtime(cuda.set_device(gate_bench.device->properties.index), "cudaSetDevice");
    expect_runtime(cuda.malloc(&memory, 8192), "cudaMalloc");
    char *at = memory;
    passed_before = passed();
    expect_runtime(cuda.memcpy(at, bytes, sizeof bytes, HOST_TO_DEVICE), "cudaMemcpy");
    expect_passed(true, "cudaMemcpy to the device");
    expect_runtime(cuda.memcpy(bytes, at, sizeof bytes, DEVICE_TO_HOST), "cudaMemcpy");
    expect_passed(true, "cudaMemcpy to the host");
    expect_runtime(cuda.memcpy_async(at + 4096, at, 256, DEVICE_TO_DEVICE, NULL),
                   "cudaMemcpyAsync");
    expect_passed(true, "cudaMemcpyAsync");
    expect_runtime(cuda.memset(at, 1, 4096), "cudaMemset");
    expect_passed(true, "cudaMemset");
    expect_runtime(cuda.memset_async(at, 2, 4096, NULL), "cudaMemsetAsync");
    expect_passed(true, "cudaMemsetAsync");
    expect_runtime(cuda.synchronize(), "cudaDeviceSynchronize");
    expect_passed(false, "cudaDeviceSynchronize");
    look_at_captures(&cuda, at);
    expect_runtime(cuda.free(memory), "cudaFree");
}

int main(int argc, char **argv)
{
    int index = argc > 1 ? atoi(argv[1]) : 0;
    char message[300] = "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (vw_cuda_device_open(index, &gate_bench.device) != VW_OK) {
        printf("no CUDA device %d, nothing to measure: %s\n", index, vw_last_error());
        return 0;
    }
    alarm(PATIENCE_S); /* a deadlock ends, too */
    gate_must(replay_driver_open(index, &gate_bench.driver), "the driver");
    gate_must(replay_bytes_init(&gate_bench.kernels, gate_bench.device, &gate_bench.driver, false),
              "the kernels");
    printf("%s\n", gate_bench.device->properties.name);

    static const unsigned thread_counts[] = {1, MOST_THREADS};
    double without_ns[2], with_ns[2], waiting_ns;
    for (int i = 0; i < 2; i++)
        without_ns[i] = time_launches(thread_counts[i]);
    vramwise_launch_gate_come_late(false);
    waiting_ns = time_launches(1);
    bool has_gate = vramwise_launch_gate_install(message, sizeof message);
    for (int i = 0; i < 2 && has_gate; i++)
        with_ns[i] = time_launches(thread_counts[i]);
    printf("%-10s %22s %18s %14s\n", "threads", "cuLaunchKernel, ns", "with the gate, ns",
           "more, ns");
    for (int i = 0; i < 2; i++) {
        printf("%-10u %22.0f", thread_counts[i], without_ns[i]);
        if (has_gate)
            printf(" %18.0f %14.0f", with_ns[i], with_ns[i] - without_ns[i]);
        printf("\n");
    }
    printf("1 thread, with a gate that is not needed yet: %.0f ns\n", waiting_ns);
    if (!has_gate) {
        printf("WRONG no gate: %s\n", message);
        return 1;
    }
    time_closing(1);
    time_closing(MOST_THREADS);
    look_at_driver_calls();
    look_at_runtime_calls(argc > 2 ? argv[2] : NULL);
    gate_torture(GATE_FROM_THE_BEGINNING);
    gate_come_late();

    gate_report(vramwise_launch_gate_remove(), "the gate is taken away");
    printf("afterwards: cuLaunchKernel %.0f ns on 1 thread\n", time_launches(1));
    gate_report(vramwise_launch_gate_install(message, sizeof message), "and put back");
    printf("%s\n", gate_bench.fault_count == 0 ? "all is well" : "something is WRONG");
    return gate_bench.fault_count != 0;
}
