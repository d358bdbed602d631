// peer_torch.cpp - the patterns of alloc_patterns.h through PyTorch's own allocator.
//
// Runs where there is a GPU and PyTorch, beside bench_alloc (bench/on_gpu.sh builds and runs both).
// C++ because c10::cuda::CUDACachingAllocator::raw_alloc and raw_delete are. Which allocator it is
// (native, expandable segments) is PYTORCH_CUDA_ALLOC_CONF's choice, as for any PyTorch program.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "alloc_patterns.h"

namespace allocator = c10::cuda::CUDACachingAllocator;

namespace
{

struct worker {
    const alloc_pattern *pattern;
    uint64_t operations, cursor = 0;
    std::vector<void *> live;
    double batch_ns[PATTERN_BATCHES];
    pattern_draws draws;

    void begin(const alloc_pattern *chosen, uint64_t per_batch, uint64_t seed)
    {
        pattern = chosen;
        operations = per_batch;
        pattern_draw(&draws, pattern, seed);
        for (size_t i = 0; i < pattern->live_count; i++)
            live.push_back(allocator::raw_alloc(draws.first_sizes[i]));
    }

    void end()
    {
        for (void *address : live)
            allocator::raw_delete(address);
    }

    void run_batch()
    {
        if (pattern->size_bytes != 0) {
            for (uint64_t i = 0; i < operations; i++)
                allocator::raw_delete(allocator::raw_alloc(pattern->size_bytes));
            return;
        }
        for (uint64_t i = 0; i < operations; i++) {
            uint64_t at = cursor++ % PATTERN_DRAWS;
            void *&place = live[draws.places[at]];
            allocator::raw_delete(place);
            place = allocator::raw_alloc(draws.sizes[at]);
        }
    }

    void run()
    {
        run_batch();
        for (double &ns : batch_ns) {
            uint64_t begin_ns = pattern_now_ns();
            run_batch();
            ns = double(pattern_now_ns() - begin_ns) / double(operations);
        }
    }
};

void measure(const alloc_pattern *pattern, unsigned threads, uint64_t operations)
{
    std::vector<std::unique_ptr<worker>> workers;
    for (unsigned i = 0; i < threads; i++) {
        workers.push_back(std::make_unique<worker>());
        workers.back()->begin(pattern, operations, i);
    }
    uint64_t begin_ns = pattern_now_ns();
    std::vector<std::thread> running;
    for (auto &one : workers)
        running.emplace_back([&one] { one->run(); });
    for (auto &one : running)
        one.join();
    double median = double(pattern_now_ns() - begin_ns) /
                    (double(operations) * (PATTERN_BATCHES + 1) * threads);
    double late = median;
    if (threads == 1) {
        qsort(workers[0]->batch_ns, PATTERN_BATCHES, sizeof(double), pattern_by_value);
        median = workers[0]->batch_ns[PATTERN_BATCHES / 2];
        late = workers[0]->batch_ns[PATTERN_BATCHES * 99 / 100];
    }
    const char *conf = getenv("PYTORCH_CUDA_ALLOC_CONF");
    if (pattern->size_bytes != 0)
        printf("%s,%llu,", pattern->name, (unsigned long long)pattern->size_bytes);
    else
        printf("%s,%zu live,", pattern->name, pattern->live_count);
    printf("pytorch %s,%u,%llu,%.1f,%.1f\n", conf != nullptr && *conf != '\0' ? conf : "native",
           threads, (unsigned long long)(operations * PATTERN_BATCHES * threads), median, late);
    fflush(stdout);
    for (auto &one : workers)
        one->end();
    allocator::emptyCache();
}

} // namespace

int main(int argc, char **)
{
    bool is_single = argc > 1; // --single: one thread only
    c10::cuda::set_device(0);
    allocator::init(c10::cuda::device_count());
    for (const alloc_pattern &pattern : alloc_patterns)
        for (unsigned threads = 1; threads <= (is_single ? 1u : 8u); threads *= 8)
            measure(&pattern, threads, threads == 1 ? 5000 : 1000);
    return 0;
}
