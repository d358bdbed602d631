// bench_raw_alloc.cpp - the patterns of alloc_patterns.h through PyTorch's C++ entry.
//
// A library that bench_raw_alloc.py loads into a process with torch: whichever allocator PyTorch
// has there answers raw_alloc and raw_delete. One thread. C++ because that entry is.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
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
};

} // namespace

extern "C" {

// Nanoseconds of one allocation and free: the median of `batches` batches. Less than 0: it failed,
// and why is on standard error.
__attribute__((visibility("default"))) double
bench_raw_alloc(unsigned pattern_index, unsigned batches, unsigned operations, unsigned seed)
{
    if (pattern_index >= PATTERN_COUNT || batches == 0 || operations == 0)
        return -1.0;
    try {
        auto one = std::make_unique<worker>();
        one->pattern = &alloc_patterns[pattern_index];
        pattern_draw(&one->draws, one->pattern, seed);
        for (size_t i = 0; i < one->pattern->live_count; i++)
            one->live.push_back(allocator::raw_alloc(one->draws.first_sizes[i]));
        one->run(warming_operations);
        std::vector<double> batch_ns;
        for (unsigned i = 0; i < batches; i++) {
            uint64_t begin_ns = pattern_now_ns();
            one->run(operations);
            batch_ns.push_back(double(pattern_now_ns() - begin_ns) / double(operations));
        }
        for (void *address : one->live)
            allocator::raw_delete(address);
        c10::cuda::device_synchronize();
        allocator::emptyCache();
        std::sort(batch_ns.begin(), batch_ns.end());
        return batch_ns[batch_ns.size() / 2];
    } catch (const std::exception &error) {
        std::fprintf(stderr, "bench_raw_alloc: %s\n", error.what());
        return -1.0;
    }
}

} // extern "C"
