// adapter_spill.cpp - live data that leaves the GPU for host memory: how much may, what is known of
// it, and the line that says so.
//
// The engine moves it (docs/design/010-spill.md), in the safe moments that copying live data needs.
// So a pool that may spill gets them in every mode. One budget is for all GPUs of the process: host
// memory is the machine's.
#include "adapter.h"

#include <algorithm>
#include <cstdio>

namespace headroom_torch
{

namespace
{

constexpr double bytes_per_gibibyte = 1024.0 * 1024 * 1024;
constexpr double bus_gibibytes_per_second = 50; // what kernels reach host memory with: measured

// Made ahead by a thread once memory gets short. Enough for the first time it does; later ones take
// what has come back.
constexpr uint64_t most_ahead_bytes = uint64_t{2} << 30;

// Without a lock, and in plain C: the thread may or may not have Python's.
void tell_first(void *context, const hr_spill_report *report)
{
    auto *device = static_cast<DevicePools *>(context);
    if (report->is_return || device->has_told_of_spill.exchange(true))
        return;
    const double gibibytes = static_cast<double>(report->spilled_bytes) / bytes_per_gibibyte;
    std::fprintf(stderr,
                 "headroom: GPU %d is full: %.2f GiB of live data went to host memory, under the "
                 "same addresses (%.0f ms); a step that reads and writes all of it takes about "
                 "%.0f ms longer; headroom.torch.stats()[\"spill\"] counts\n",
                 static_cast<int>(device->index), gibibytes,
                 static_cast<double>(report->wait_ns) / 1e6,
                 2 * gibibytes / bus_gibibytes_per_second * 1e3);
}

} // namespace

void set_spill(hr_pool_options &options, uint64_t spill_bytes)
{
    options.spill_bytes = spill_bytes;
    options.spill_ahead_bytes = std::min(spill_bytes, most_ahead_bytes);
}

// Under DevicePools::opening.
void Adapter::let_spill(DevicePools &device, hr_pool_options &options)
{
    set_spill(options, options_.spill_bytes);
    options.pinned_budget = pinned_budget_;
    if (!options_.is_quiet)
        options.spill_listener = hr_spill_listener{&device, tell_first};
}

uint64_t Adapter::advise(const void *pointer, hr_advice advice)
{
    DevicePools *device = nullptr;
    hr_pool *pool = nullptr;
    hr_block_place place{};
    if (is_forked() || !find(pointer, &device, &pool, &place) ||
        hr_advise(pool, place.block_address, advice) != HR_OK)
        return 0; // it is no block of ours, or none any more
    return place.block_bytes;
}

void Adapter::mark_step()
{
    if (is_forked())
        return;
    int count = device_count_.load(std::memory_order_acquire);
    for (int i = 0; i < count; i++)
        if (hr_pool *pool = devices_[static_cast<size_t>(i)].pool.load(std::memory_order_acquire))
            check_done(hr_pool_mark_step(pool));
}

} // namespace headroom_torch
