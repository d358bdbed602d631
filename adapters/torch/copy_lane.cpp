// copy_lane.cpp - see copy_lane.h.
#include "copy_lane.h"

#include <algorithm>
#include <cstddef>

#include "adapter.h"

namespace vramwise_torch
{

bool CopyLane::open(const DevicePools &device, vw_pinned_budget *budget)
{
    const vw_device_table &table = *device.device->table;
    void *context = device.device->context;
    vw_pinned_options options{};
    options.struct_size = sizeof options;
    options.conf = "pinned_max_round_threshold_mb:1"; // else to a power of two
    options.torch_version = "2.15";
    options.budget = budget;
    return (state_out != 0 || table.stream_create(context, &state_out) == VW_OK) &&
           (saved_out != 0 || table.stream_create(context, &saved_out) == VW_OK) &&
           (in != 0 || table.stream_create(context, &in) == VW_OK) &&
           (tail_ != 0 || table.event_create(context, &tail_) == VW_OK) &&
           (host != nullptr || vw_pinned_pool_create(device.device, &options, &host) == VW_OK);
}

bool CopyLane::is_behind(const DevicePools &pools, vw_stream copies, vw_stream work)
{
    const vw_device &device = *pools.device;
    return device.table->event_record(device.context, tail_, work) == VW_OK &&
           device.table->stream_wait_event(device.context, copies, tail_) == VW_OK;
}

bool CopyLane::is_behind_all(DevicePools &pools, vw_stream waiting)
{
    const vw_device &device = *pools.device;
    return record_all(pools, tail_) &&
           device.table->stream_wait_event(device.context, waiting, tail_) == VW_OK;
}

void *CopyLane::take_host(uint64_t size_bytes, vw_stream out) const
{
    void *taken = nullptr;
    if (vw_pinned_alloc(host, size_bytes, &taken) != VW_OK)
        return nullptr;
    if (vw_pinned_record_stream(host, taken, out) == VW_OK &&
        vw_pinned_record_stream(host, taken, in) == VW_OK)
        return taken;
    vw_pinned_free(host, taken); // it was not used yet
    return nullptr;
}

vw_stream current_stream_on(const DevicePools &device)
{
    return stream_number(handle_of(c10::cuda::getCurrentCUDAStream(device.index)));
}

uint64_t live_bytes_of(const DevicePools &device)
{
    vw_pool_stats stats{};
    stats.struct_size = offsetof(vw_pool_stats, largest_free_block_bytes); // which takes a search
    if (vw_pool_get_stats(pool_of(device), &stats) != VW_OK)
        return 0;
    return static_cast<uint64_t>(stats.allocated_bytes.all.current);
}

uint64_t limit_bytes_of(const DevicePools &device)
{
    const vw_pool *pool = pool_of(device);
    vw_pool_stats stats{};
    vw_paged_stats paged{};
    stats.struct_size = sizeof stats;
    paged.struct_size = sizeof paged;
    uint64_t free_bytes = 0, total_bytes = 0;
    if (vw_pool_get_stats(pool, &stats) != VW_OK ||
        vw_pool_get_paged_stats(pool, &paged) != VW_OK ||
        device.device->table->memory_info(device.device->context, &free_bytes, &total_bytes) !=
            VW_OK)
        return 0;
    const auto held_bytes = static_cast<uint64_t>(stats.reserved_bytes.all.current);
    return std::min(stats.limit_bytes, held_bytes - paged.spilled_bytes + free_bytes);
}

namespace
{

// Under its lock.
bool is_served(const DevicePools &device)
{
    vw_paged_stats stats{};
    stats.struct_size = sizeof stats;
    return device.scopes.empty() && vw_pool_get_paged_stats(pool_of(device), &stats) == VW_OK &&
           stats.parked_bytes == 0;
}

} // namespace

bool is_served_now(DevicePools &device)
{
    std::lock_guard<std::mutex> hold(device.lock);
    return is_served(device);
}

// A capture begins with a scope, which takes the lock.
bool record_all(DevicePools &device, vw_device_event event)
{
    const vw_device_table &table = *device.device->table;
    constexpr size_t known_bytes =
        offsetof(vw_device_table, event_record_all) + sizeof table.event_record_all;
    if (table.struct_size < known_bytes || table.event_record_all == nullptr)
        return false;
    std::lock_guard<std::mutex> hold(device.lock);
    return is_served(device) && table.event_record_all(device.device->context, event) == VW_OK;
}

bool take_block(DevicePools &device, uint64_t room_bytes, uint64_t size_bytes, vw_stream stream,
                vw_device_ptr *block)
{
    vw_alloc_request request{};
    request.struct_size = sizeof request;
    request.size_bytes = size_bytes;
    request.stream = stream;
    request.is_optional = true;
    return live_bytes_of(device) + size_bytes <= room_bytes && is_served_now(device) &&
           vw_alloc_with(pool_of(device), &request, block) == VW_OK;
}

// If nobody can tell when the copy is over, the block is not freed.
void free_behind_copy(const DevicePools &pools, vw_device_ptr block, vw_device_event copied,
                      vw_stream copies)
{
    const vw_device &device = *pools.device;
    vw_pool *pool = pool_of(pools);
    vw_block_place place{};
    const bool is_ordered =
        vw_pool_find(pool, block, &place) == VW_OK &&
        device.table->stream_wait_event(device.context, place.stream, copied) == VW_OK &&
        vw_unrecord_stream(pool, block, copies) == VW_OK;
    if (is_ordered || vw_record_stream(pool, block, copies) == VW_OK)
        vw_free(pool, block);
}

} // namespace vramwise_torch
