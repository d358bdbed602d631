/* bench_launch_gate.c - what the launch gate costs on a GPU, and whether it holds.
 *
 *   bench_launch_gate [DEVICE] [CUDART]    CUDART: libcudart.so to try as well; by its name if left
 * out
 *
 * Three parts. The time of a kernel launch without CUPTI and with the gate, and of closing it while
 * others launch. Which calls pass it, the CUDA runtime's among them: a gate that some do not see
 * would be none. And threads whose kernels write and check blocks of a pool that has so little room
 * that it must copy them from under their feet: every wrong word is counted.
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
#include "gpu/gpu_replay_bytes.h"

enum {
    MOST_THREADS = 4,
    LAUNCHES = 20000, /* of each thread */
    BATCH = 400,      /* between two waits for the stream: less than the driver queues */
    REPEATS = 5,
    CLOSINGS = 200,
    ROUNDS = 10,
    BLOCKS = 32, /* of each thread, half of them kept */
    REQUESTS = 6,
    PATIENCE_S = 300,
};

#define MIB (UINT64_C(1) << 20)
#define CARD_BYTES (2048 * MIB)
#define BLOCK_BYTES (CARD_BYTES / MOST_THREADS / BLOCKS - 3 * MIB)
#define LARGE_BYTES (CARD_BYTES / 2 - 128 * MIB)

static vw_device *device;
static replay_driver driver;
static replay_bytes kernels; /* each thread works with a copy: its count of bytes is its own */
static int fault_count;

static void report(bool is_right, const char *what)
{
    printf("%-5s %s\n", is_right ? "ok" : "WRONG", what);
    fault_count += !is_right;
}

static void must(vw_status status, const char *what)
{
    if (status == VW_OK)
        return;
    printf("WRONG %s: %s\n", what, vw_last_error());
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Kernels are launched in the thread's current context. */
static void begin_thread(vw_stream *stream)
{
    vw__cuda_context context = NULL;
    if (driver.base->cuDevicePrimaryCtxRetain(&context, driver.device) != VW__CUDA_SUCCESS ||
        driver.base->cuCtxPushCurrent(context) != VW__CUDA_SUCCESS)
        must(VW_ERR_DEVICE, "a thread's context");
    must(device->table->stream_create(device->context, stream), "a stream");
}

static void end_thread(vw_stream stream)
{
    must(device->table->stream_synchronize(device->context, stream), "waiting for a stream");
    must(device->table->stream_destroy(device->context, stream), "ending a stream");
}

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
    replay_bytes own = kernels;
    const replay_block block = {.address = self->address, .size_bytes = 64, .seed = 7};
    vw_stream stream = 0;
    uint64_t launching_ns = 0;
    begin_thread(&stream);
    must(replay_bytes_fill(&own, &block, stream), "a first launch");
    pthread_barrier_wait(self->start);
    for (int i = 0; i < LAUNCHES; i += BATCH) {
        uint64_t begin_ns = now_ns();
        for (int j = 0; j < BATCH; j++)
            must(replay_bytes_fill(&own, &block, stream), "a launch");
        launching_ns += now_ns() - begin_ns;
        must(device->table->stream_synchronize(device->context, stream), "waiting");
    }
    end_thread(stream);
    self->ns_each = (double)launching_ns / LAUNCHES;
    return NULL;
}

static double time_launches(unsigned thread_count)
{
    double best_ns = 0;
    vw_device_ptr memory = VW_NULL;
    must(device->table->take(device->context, 4096, &memory), "memory");
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
    must(device->table->give_back(device->context, memory), "giving memory back");
    return best_ns;
}

/* ---- what closing costs ---------------------------------------------------------------------- */

static _Atomic int is_over;

static void *launch_until_over(void *address)
{
    replay_bytes own = kernels;
    const replay_block block = {.address = *(vw_device_ptr *)address, .size_bytes = 64, .seed = 7};
    vw_stream stream = 0;
    begin_thread(&stream);
    while (atomic_load(&is_over) == 0) {
        for (int i = 0; i < BATCH; i++)
            must(replay_bytes_fill(&own, &block, stream), "a launch");
        must(device->table->stream_synchronize(device->context, stream), "waiting");
    }
    end_thread(stream);
    return NULL;
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static void time_closing(unsigned thread_count)
{
    pthread_t threads[MOST_THREADS];
    uint64_t closing_ns[CLOSINGS];
    int refused = 0;
    vw_device_ptr memory = VW_NULL;
    must(device->table->take(device->context, 4096, &memory), "memory");
    atomic_store(&is_over, 0);
    for (unsigned i = 0; i < thread_count; i++)
        pthread_create(&threads[i], NULL, launch_until_over, &memory);
    usleep(50000);
    for (int i = 0; i < CLOSINGS; i++) {
        uint64_t begin_ns = now_ns();
        bool is_closed = vw__launch_gate_close();
        closing_ns[i] = now_ns() - begin_ns;
        if (is_closed)
            vw__launch_gate_open();
        else
            refused++;
        usleep(1000);
    }
    atomic_store(&is_over, 1);
    for (unsigned i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    must(device->table->give_back(device->context, memory), "giving memory back");
    qsort(closing_ns, CLOSINGS, sizeof closing_ns[0], by_size);
    printf("closing, %u threads launching: median %.1f us, worst %.1f us, refused %d of %d\n",
           thread_count, (double)closing_ns[CLOSINGS / 2] / 1e3,
           (double)closing_ns[CLOSINGS - 1] / 1e3, refused, CLOSINGS);
    report(refused == 0, "the gate closes while others launch");
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
    report((count != 0) == is_expected, text);
    passed_before = passed();
}

static void look_at_driver_calls(void)
{
    const vw_device_table *table = device->table;
    char bytes[4096] = "";
    vw_device_ptr memory = VW_NULL, addresses = VW_NULL;
    vw_handle handle = 0;
    uint64_t unit_bytes = device->properties.granularity_bytes;
    passed_before = passed();
    must(table->take(device->context, 8192, &memory), "memory");
    expect_passed(false, "cuMemAlloc");
    must(table->write(device->context, memory, bytes, sizeof bytes), "write");
    expect_passed(true, "cuMemcpyHtoD");
    must(table->read(device->context, bytes, memory, sizeof bytes), "read");
    expect_passed(true, "cuMemcpyDtoH");
    must(table->copy(device->context, memory + 4096, memory, 4096, 0), "copy");
    expect_passed(true, "cuMemcpyDtoDAsync");
    must(table->fill(device->context, memory, 1, 4096, 0), "fill");
    expect_passed(true, "cuMemsetD8Async");
    const replay_block block = {.address = memory, .size_bytes = 64, .seed = 1};
    must(replay_bytes_fill(&kernels, &block, 0), "a launch");
    expect_passed(true, "cuLaunchKernel");
    must(table->synchronize(device->context), "waiting");
    expect_passed(false, "cuCtxSynchronize");
    must(table->reserve(device->context, unit_bytes, &addresses), "reserve");
    must(table->create(device->context, unit_bytes, &handle), "create");
    must(table->map(device->context, addresses, unit_bytes, handle), "map");
    must(table->set_access(device->context, addresses, unit_bytes), "set_access");
    must(table->unmap(device->context, addresses, unit_bytes), "unmap");
    must(table->release(device->context, handle), "release");
    must(table->unreserve(device->context, addresses, unit_bytes), "unreserve");
    expect_passed(false, "mapping memory");
    must(table->give_back(device->context, memory), "giving memory back");
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
        report(false, text);
}

static void look_at_captures(const runtime *cuda, char *memory)
{
    void *stream = NULL, *graph = NULL, *graph_exec = NULL;
    expect_runtime(cuda->stream_create(&stream), "cudaStreamCreate");
    expect_runtime(cuda->begin_capture(stream, 2), "cudaStreamBeginCapture");
    report(vw__launch_gate_sees_capture(), "a capture is seen");
    bool is_closed = vw__launch_gate_close();
    report(!is_closed, "the gate does not close during a capture");
    if (is_closed)
        vw__launch_gate_open();
    expect_runtime(cuda->memset_async(memory, 3, 100, stream), "cudaMemsetAsync, captured");
    expect_runtime(cuda->end_capture(stream, &graph), "cudaStreamEndCapture");
    report(!vw__launch_gate_sees_capture(), "the end of the capture is seen");
    expect_runtime(cuda->instantiate(&graph_exec, graph, 0), "cudaGraphInstantiateWithFlags");
    passed_before = passed();
    expect_runtime(cuda->graph_launch(graph_exec, stream), "cudaGraphLaunch");
    expect_passed(true, "cudaGraphLaunch");
    expect_runtime(cuda->synchronize(), "cudaDeviceSynchronize");
    is_closed = vw__launch_gate_close();
    report(is_closed, "the gate closes after the capture");
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
    expect_runtime(cuda.set_device(device->properties.index), "cudaSetDevice");
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

/* ---- whether it holds ------------------------------------------------------------------------ */

static vw_pool *pool;
static _Atomic uint64_t kernels_run;
static _Atomic uint64_t next_seed = 1000;
static _Atomic uint64_t served, not_served;

/* A stream lives as long as the pool that it had memory of (vramwise.h). One for each
 * thread that uses blocks, and one for who asks for large ones. */
static vw_stream streams[MOST_THREADS + 1];
static _Atomic int stream_count;

static vw_stream begin_pool_user(void)
{
    vw_stream stream = 0;
    begin_thread(&stream);
    streams[atomic_fetch_add(&stream_count, 1)] = stream;
    return stream;
}

static void end_streams(void)
{
    for (int i = atomic_exchange(&stream_count, 0); i > 0; i--)
        end_thread(streams[i - 1]);
}

static void take_blocks(replay_block *blocks, vw_stream stream)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = (replay_block){.size_bytes = BLOCK_BYTES - 8 * (uint64_t)i};
        if (vw_alloc(pool, blocks[i].size_bytes, stream, &blocks[i].address) != VW_OK)
            blocks[i].address = VW_NULL;
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        must(vw_free(pool, blocks[i].address), "vw_free");
        blocks[i].address = VW_NULL;
    }
}

/* Checks what it wrote last, and writes something new: a kernel each. */
static void rewrite(replay_bytes *own, replay_block *block, vw_stream stream)
{
    if (block->seed != 0)
        must(replay_bytes_check(own, block, stream), "checking a block");
    block->seed = atomic_fetch_add(&next_seed, 1);
    must(replay_bytes_fill(own, block, stream), "writing a block");
    atomic_fetch_add(&kernels_run, 2);
}

static void *use_blocks(void *unused)
{
    replay_bytes own = kernels;
    replay_block blocks[BLOCKS];
    vw_stream stream = begin_pool_user();
    (void)unused;
    take_blocks(blocks, stream);
    for (int i = 0; atomic_load(&is_over) == 0; i = (i + 1) % BLOCKS) {
        if (blocks[i].address != VW_NULL)
            rewrite(&own, &blocks[i], stream);
        if (i == 0)
            must(device->table->stream_synchronize(device->context, stream), "waiting");
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].address != VW_NULL && blocks[i].seed != 0)
            must(replay_bytes_check(&own, &blocks[i], stream), "checking a block");
        must(vw_free(pool, blocks[i].address), "vw_free");
    }
    must(device->table->stream_synchronize(device->context, stream), "waiting");
    return NULL;
}

static void ask_for_large_blocks(void)
{
    replay_bytes own = kernels;
    vw_stream stream = begin_pool_user();
    for (int i = 0; i < REQUESTS; i++) {
        replay_block block = {.size_bytes = LARGE_BYTES, .seed = 0};
        if (vw_alloc(pool, block.size_bytes, stream, &block.address) != VW_OK) {
            atomic_fetch_add(&not_served, 1);
            continue;
        }
        atomic_fetch_add(&served, 1);
        rewrite(&own, &block, stream);
        rewrite(&own, &block, stream);
        must(vw_free(pool, block.address), "vw_free");
    }
    must(device->table->stream_synchronize(device->context, stream), "waiting");
}

static vw_paged_stats run_round(void)
{
    const vw_pool_options options = {.struct_size = sizeof options,
                                     .engine = "vramwise:rescue",
                                     .safe_point = vramwise_safe_moments()};
    vw_paged_stats stats = {.struct_size = sizeof stats};
    pthread_t threads[MOST_THREADS];
    vw_device_ptr all = VW_NULL;
    double total_bytes = (double)device->properties.total_bytes;
    must(vw_pool_create(device, &options, &pool), "vw_pool_create");
    must(vw_pool_set_fraction(pool, (double)CARD_BYTES / total_bytes), "vw_pool_set_fraction");
    must(vw_alloc(pool, CARD_BYTES - 16 * MIB, 0, &all), "one large block"); /* large handles */
    must(vw_free(pool, all), "vw_free");
    uint64_t run_before = atomic_load(&kernels_run);
    atomic_store(&is_over, 0);
    for (int i = 0; i < MOST_THREADS; i++)
        pthread_create(&threads[i], NULL, use_blocks, NULL);
    while (atomic_load(&kernels_run) < run_before + 4 * BLOCKS * MOST_THREADS)
        usleep(100);
    ask_for_large_blocks();
    atomic_store(&is_over, 1);
    for (int i = 0; i < MOST_THREADS; i++)
        pthread_join(threads[i], NULL);
    must(device->table->synchronize(device->context), "waiting");
    must(vw_pool_check(pool), "vw_pool_check");
    must(vw_pool_get_paged_stats(pool, &stats), "vw_pool_get_paged_stats");
    vw_pool_destroy(pool);
    end_streams();
    return stats;
}

static void torture(void)
{
    uint64_t copies = 0, copied_bytes = 0;
    replay_errors errors = {.count = 0};
    vramwise_safe_moment_counts before = vramwise_get_safe_moment_counts();
    for (int round = 0; round < ROUNDS; round++) {
        vw_paged_stats stats = run_round();
        copies += stats.copies;
        copied_bytes += stats.copied_bytes;
    }
    must(replay_bytes_take_errors(&kernels, &errors), "reading what was wrong");
    vramwise_safe_moment_counts now = vramwise_get_safe_moment_counts();
    printf("copying under %d threads: %" PRIu64 " kernels, %" PRIu64
           " requests of %.0f MiB served, "
           "%" PRIu64 " not; %" PRIu64 " copies of %.0f MiB; %" PRIu64 " moments, %" PRIu64
           " refused; %" PRIu64 " launches held, for %.2f ms at most\n",
           MOST_THREADS, atomic_load(&kernels_run), atomic_load(&served),
           (double)LARGE_BYTES / (double)MIB, atomic_load(&not_served), copies,
           (double)copied_bytes / (double)MIB, now.granted_by_gate - before.granted_by_gate,
           now.refused - before.refused, now.held_launches - before.held_launches,
           (double)now.longest_hold_ns / 1e6);
    report(copies > 0, "live data was copied");
    report(now.held_launches > before.held_launches, "launches were held");
    report(errors.count == 0, "no word is wrong");
    if (errors.count != 0)
        printf("      %" PRIu64 " words, one of them: seed %" PRIu64 ", word %" PRIu64
               ", found %#" PRIx64 ", wanted %#" PRIx64 "\n",
               errors.count, errors.seed, errors.word, errors.found, errors.wanted);
}

int main(int argc, char **argv)
{
    int index = argc > 1 ? atoi(argv[1]) : 0;
    char message[300] = "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (vw_cuda_device_open(index, &device) != VW_OK) {
        printf("no CUDA device %d, nothing to measure: %s\n", index, vw_last_error());
        return 0;
    }
    alarm(PATIENCE_S); /* a deadlock ends, too */
    must(replay_driver_open(index, &driver), "the driver");
    must(replay_bytes_init(&kernels, device, &driver, false), "the kernels");
    printf("%s\n", device->properties.name);

    static const unsigned thread_counts[] = {1, MOST_THREADS};
    double without_ns[2], with_ns[2];
    for (int i = 0; i < 2; i++)
        without_ns[i] = time_launches(thread_counts[i]);
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
    if (!has_gate) {
        printf("WRONG no gate: %s\n", message);
        return 1;
    }
    time_closing(1);
    time_closing(MOST_THREADS);
    look_at_driver_calls();
    look_at_runtime_calls(argc > 2 ? argv[2] : NULL);
    torture();

    report(vramwise_launch_gate_remove(), "the gate is taken away");
    printf("afterwards: cuLaunchKernel %.0f ns on 1 thread\n", time_launches(1));
    report(vramwise_launch_gate_install(message, sizeof message), "and put back");
    printf("%s\n", fault_count == 0 ? "all is well" : "something is WRONG");
    return fault_count != 0;
}
