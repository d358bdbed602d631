// copy_lane.cpp - see copy_lane.h.
#include "copy_lane.h"

#include <algorithm>
#include <cstddef>

#include "adapter.h"

namespace vramwise_torch
{

bool CopyTrack::open(const vw_device &device)
{
    const vw_device_table &table = *device.table;
    for (vw_stream &stream : streams_)
        if (stream == 0 && table.stream_create(device.context, &stream) != VW_OK)
            return false;
    return end_ != 0 || (table.event_create(device.context, &end_) == VW_OK &&
                         table.event_record(device.context, end_, streams_[0]) == VW_OK);
}

bool CopyTrack::wait(const vw_device &device, vw_device_event event) const
{
    return device.table->stream_wait_event(device.context, streams_[turn_], event) == VW_OK;
}

bool CopyTrack::note_end(const vw_device &device)
{
    is_noted_ = is_noted_ || mark(device, end_);
    return is_noted_;
}

bool CopyTrack::copy_chunk(const vw_device &device, vw_device_ptr to, vw_device_ptr from,
                           uint64_t size_bytes)
{
    const vw_device_table &table = *device.table;
    const vw_stream stream = streams_[turn_];
    if (!note_end(device) || table.stream_wait_event(device.context, stream, end_) != VW_OK ||
        table.copy(device.context, to, from, size_bytes, stream) != VW_OK)
        return false;
    turn_ = 1 - turn_;
    is_noted_ = false;
    return note_end(device);
}

bool CopyTrack::copy(const vw_device &device, vw_device_ptr to, vw_device_ptr from,
                     uint64_t size_bytes)
{
    for (uint64_t done = 0; done < size_bytes; done += chunk_bytes)
        if (!copy_chunk(device, to + done, from + done, std::min(chunk_bytes, size_bytes - done)))
            return false;
    return true;
}

bool CopyTrack::mark(const vw_device &device, vw_device_event event) const
{
    return device.table->event_record(device.context, event, streams_[1 - turn_]) == VW_OK;
}

bool CopyTrack::is_before(const vw_device &device, vw_stream stream)
{
    return note_end(device) &&
           device.table->stream_wait_event(device.context, stream, end_) == VW_OK;
}

bool record_use(vw_pool *pool, vw_device_ptr block, const CopyTrack &track)
{
    return vw_record_stream(pool, block, track.streams()[0]) == VW_OK &&
           vw_record_stream(pool, block, track.streams()[1]) == VW_OK;
}

bool unrecord_use(vw_pool *pool, vw_device_ptr block, const CopyTrack &track)
{
    return vw_unrecord_stream(pool, block, track.streams()[0]) == VW_OK &&
           vw_unrecord_stream(pool, block, track.streams()[1]) == VW_OK;
}

bool CopyLane::open(const DevicePools &device, vw_pinned_budget *budget)
{
    const vw_device_table &table = *device.device->table;
    void *context = device.device->context;
    vw_pinned_options options{};
    options.struct_size = sizeof options;
    options.conf = "pinned_max_round_threshold_mb:1"; // else to a power of two
    options.torch_version = "2.15";
    options.budget = budget;
    return state_out.open(*device.device) && saved_out.open(*device.device) &&
           in.open(*device.device) &&
           (tail_ != 0 || table.event_create(context, &tail_) == VW_OK) &&
           (host != nullptr || vw_pinned_pool_create(device.device, &options, &host) == VW_OK);
}

bool CopyLane::is_behind(const DevicePools &pools, const CopyTrack &copies, vw_stream work)
{
    const vw_device &device = *pools.device;
    return device.table->event_record(device.context, tail_, work) == VW_OK &&
           copies.wait(device, tail_);
}

bool CopyLane::is_behind_all(DevicePools &pools, vw_stream waiting)
{
    const vw_device &device = *pools.device;
    return record_all(pools, tail_) &&
           device.table->stream_wait_event(device.context, waiting, tail_) == VW_OK;
}

bool CopyLane::is_behind_all(DevicePools &pools, const CopyTrack &waiting)
{
    return record_all(pools, tail_) && waiting.wait(*pools.device, tail_);
}

void *CopyLane::take_host(uint64_t size_bytes, const CopyTrack &out) const
{
    void *taken = nullptr;
    if (vw_pinned_alloc(host, size_bytes, &taken) != VW_OK)
        return nullptr;
    for (const CopyTrack *track : {&out, &in})
        for (vw_stream stream : track->streams())
            if (vw_pinned_record_stream(host, taken, stream) != VW_OK) {
                vw_pinned_free(host, taken); // it was not used yet
                return nullptr;
            }
    return taken;
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

// If nobody can tell when they are over, the block is not freed.
void free_behind_copies(const DevicePools &pools, vw_device_ptr block, CopyTrack &track)
{
    vw_pool *pool = pool_of(pools);
    vw_block_place place{};
    const bool is_ordered = vw_pool_find(pool, block, &place) == VW_OK &&
                            track.is_before(*pools.device, place.stream) &&
                            unrecord_use(pool, block, track);
    if (is_ordered || record_use(pool, block, track))
        vw_free(pool, block);
}

} // namespace vramwise_torch
