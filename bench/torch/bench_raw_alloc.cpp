// bench_raw_alloc.cpp - the patterns of alloc_patterns.h through PyTorch's C++ entry.
//
// A library that bench_raw_alloc.py loads into a process with torch: whichever allocator PyTorch
// has there answers raw_alloc and raw_delete. C++ because that entry is.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "bench/alloc_patterns.h"

namespace allocator = c10::cuda::CUDACachingAllocator;

namespace
{

constexpr uint64_t warming_operations = 10000;

struct worker {
    const alloc_pattern *pattern;
    uint64_t cursor = 0;
    std::vector<void *> live;
    pattern_draws draws;
    bool has_failed = false;

    worker(const alloc_pattern *drawn, uint64_t seed) : pattern(drawn)
    {
        pattern_draw(&draws, pattern, seed);
        for (size_t i = 0; i < pattern->live_count; i++)
            live.push_back(allocator::raw_alloc(draws.first_sizes[i]));
        run(warming_operations);
    }

    void run(uint64_t operations)
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

    void end()
    {
        for (void *address : live)
            allocator::raw_delete(address);
    }
};

// The median of `batches` batches.
double measure_one(worker &one, unsigned batches, unsigned operations)
{
    std::vector<double> batch_ns;
    for (unsigned i = 0; i < batches; i++) {
        uint64_t begin_ns = pattern_now_ns();
        one.run(operations);
        batch_ns.push_back(double(pattern_now_ns() - begin_ns) / double(operations));
    }
    std::sort(batch_ns.begin(), batch_ns.end());
    return batch_ns[batch_ns.size() / 2];
}

// All of them at the same time, from a common start: wall time over all operations.
double measure_all(std::vector<std::unique_ptr<worker>> &workers, uint64_t operations)
{
    std::atomic<size_t> ready{0};
    std::atomic<bool> may_start{false};
    std::vector<std::thread> threads;
    for (auto &one : workers)
        threads.emplace_back([&] {
            ready.fetch_add(1);
            while (!may_start.load())
                std::this_thread::yield();
            try {
                one->run(operations);
            } catch (const std::exception &error) {
                std::fprintf(stderr, "bench_raw_alloc: %s\n", error.what());
                one->has_failed = true;
            }
        });
    while (ready.load() != workers.size())
        std::this_thread::yield();
    uint64_t begin_ns = pattern_now_ns();
    may_start.store(true);
    for (auto &thread : threads)
        thread.join();
    double ns = double(pattern_now_ns() - begin_ns);
    for (auto &one : workers)
        if (one->has_failed)
            return -1.0;
    return ns / double(operations) / double(workers.size());
}

} // namespace

extern "C" {

// Nanoseconds of one allocation and free, of `batches` batches by each thread. Less than 0: it
// failed, and why is on standard error.
__attribute__((visibility("default"))) double bench_raw_alloc(unsigned pattern_index,
                                                              unsigned threads, unsigned batches,
                                                              unsigned operations, unsigned seed)
{
    if (pattern_index >= PATTERN_COUNT || threads == 0 || batches == 0 || operations == 0)
        return -1.0;
    try {
        std::vector<std::unique_ptr<worker>> workers;
        for (unsigned i = 0; i < threads; i++)
            workers.push_back(
                std::make_unique<worker>(&alloc_patterns[pattern_index], seed * threads + i));
        double ns = threads == 1 ? measure_one(*workers[0], batches, operations)
                                 : measure_all(workers, uint64_t{batches} * operations);
        for (auto &one : workers)
            one->end();
        c10::cuda::device_synchronize();
        allocator::emptyCache();
        return ns;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "bench_raw_alloc: %s\n", error.what());
        return -1.0;
    }
}

} // extern "C"
