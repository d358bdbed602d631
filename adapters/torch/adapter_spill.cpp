// adapter_spill.cpp - live data that leaves the GPU for host memory: how much may, what is known of
// it, the line that says so, and the marks it leaves in snapshots.
//
// The engine moves it (docs/design/010-spill.md), in the safe moments that copying live data needs.
// So a pool that may spill gets them in every mode. One budget is for all GPUs of the process: host
// memory is the machine's.
#include "adapter.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "vramwise/units.h"

namespace vramwise_torch
{

namespace
{

constexpr double bytes_per_gibibyte = 1024.0 * 1024 * 1024;

// How much longer a step takes for each GiB of an optimizer's state that it finds on the host:
// measured on an H200, with torch.optim.AdamW. The default passes over its state several times. The
// first is what src/analysis/spill_cost.c has for replay, doctor and planner, in a library that is
// not in people's jobs.
constexpr double fused_ms_per_gibibyte = 25;
constexpr double default_ms_per_gibibyte = 60;

// Made ahead by a thread once memory gets short. Enough for the first time it does; later ones take
// what has come back.
constexpr uint64_t most_ahead_bytes = uint64_t{2} << 30;

void tell_first(DevicePools &device, const vw_spill_report &report)
{
    if (report.is_return || device.has_told_of_spill.exchange(true))
        return;
    char size[VW_SIZE_TEXT_BYTES];
    const double gibibytes = static_cast<double>(report.spilled_bytes) / bytes_per_gibibyte;
    std::fprintf(stderr,
                 "vramwise: GPU %d is full: %s of live data went to host memory, under the "
                 "same addresses (%.0f ms); if it is an optimizer's state, a step takes about "
                 "%.0f ms (AdamW fused=True) to %.0f ms (its default) longer; "
                 "vramwise.torch.stats()[\"spill\"] counts\n",
                 static_cast<int>(device.index), vw_format_size(report.spilled_bytes, size),
                 static_cast<double>(report.wait_ns) / 1e6, gibibytes * fused_ms_per_gibibyte,
                 gibibytes * default_ms_per_gibibyte);
}

// As a span without length, the numbers at its start: PyTorch's annotations come in pairs.
void annotate(DevicePools &device, const vw_spill_report &report)
{
    History &history = *device.history_settings;
    if (!history.is_enabled())
        return;
    const char *name = report.is_return ? VW_RETURN_ANNOTATION : VW_SPILL_ANNOTATION;
    history.annotate(device.index, {{"name", name},
                                    {"stage", "START"},
                                    {"moved_bytes", std::to_string(report.moved_bytes)},
                                    {"moved_handles", std::to_string(report.moved_handles)},
                                    {"spilled_bytes", std::to_string(report.spilled_bytes)},
                                    {"wait_us", std::to_string(report.wait_ns / 1000)}});
    history.annotate(device.index, {{"name", name}, {"stage", "END"}});
}

// Without the pool's lock, after the safe moment. The thread may or may not have Python's lock, so
// that nothing here asks for it: of locks there is only the one inside of the annotations' ring,
// under which nobody waits or launches. Nor may anything be thrown through the pool, which is C.
void notice_move(void *context, const vw_spill_report *report)
{
    auto *device = static_cast<DevicePools *>(context);
    tell_first(*device, *report);
    try {
        annotate(*device, *report);
    } catch (...) { // without host memory a snapshot lacks the mark; the counters have it
    }
}

bool make_room(void *context, uint64_t size_bytes)
{
    auto *device = static_cast<DevicePools *>(context);
    try {
        return device->stream->make_room(*device, size_bytes);
    } catch (...) { // nothing may be thrown through the pool
        return false;
    }
}

} // namespace

void set_spill(vw_pool_options &options, uint64_t spill_bytes)
{
    options.spill_bytes = spill_bytes;
    options.spill_ahead_bytes = std::min(spill_bytes, most_ahead_bytes);
}

// Under DevicePools::opening.
void Adapter::let_spill(DevicePools &device, vw_pool_options &options)
{
    set_spill(options, options_.spill_bytes);
    options.pinned_budget = pinned_budget_;
    if (options_.is_quiet)
        device.has_told_of_spill.store(true);
    options.spill_listener = vw_spill_listener{&device, notice_move};
    if (device.stream != nullptr) {
        options.make_room = make_room;
        options.make_room_context = &device;
    }
}

uint64_t Adapter::advise(const void *pointer, vw_advice advice)
{
    DevicePools *device = nullptr;
    vw_pool *pool = nullptr;
    vw_block_place place{};
    if (is_forked() || !find(pointer, &device, &pool, &place) ||
        vw_advise(pool, place.block_address, advice) != VW_OK)
        return 0; // it is no block of ours, or none any more
    return place.block_bytes;
}

void Adapter::mark_step()
{
    if (is_forked())
        return;
    int count = device_count_.load(std::memory_order_acquire);
    for (int i = 0; i < count; i++)
        if (vw_pool *pool = devices_[static_cast<size_t>(i)].pool.load(std::memory_order_acquire))
            check_done(vw_pool_mark_step(pool));
}

} // namespace vramwise_torch
