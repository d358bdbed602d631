// copy_lane.h - the streams and the host memory through which one GPU's data leaves and returns.
//
// One lane serves an optimizer's state (state_stream.h) and saved tensors (saved_stream.h). Copies
// back follow each other in the order in which they were wanted. Those out have a stream each: a
// saved tensor's copy waits for the kernel that makes it, which state must not wait for.
#pragma once

#include "device_pools.h"
#include "vramwise/pinned.h"

namespace vramwise_torch
{

struct CopyLane {
    vw_stream state_out = 0, saved_out = 0, in = 0;
    vw_pinned_pool *host = nullptr;
    uint64_t limit_bytes = 0; // what the pool can hold on its GPU, at the last step's end

    // What of it returning data may fill: some is kept for requests, which come in all sizes.
    uint64_t room_bytes() const
    {
        return limit_bytes - limit_bytes / 32;
    }

    // Sees that the streams and the host memory are there.
    bool open(const DevicePools &device, vw_pinned_budget *budget);
    // Has `copies` wait for what is queued on `work`.
    bool is_behind(const DevicePools &device, vw_stream copies, vw_stream work);
    // Has `waiting` wait for all that is queued on the GPU. False: it does not wait.
    bool is_behind_all(DevicePools &device, vw_stream waiting);
    // Page-locked memory for copies on `out` and back; null: there is none.
    void *take_host(uint64_t size_bytes, vw_stream out) const;

  private:
    vw_device_event tail_ = 0; // of the stream that a copy waits for
};

// Records `event` behind all that is queued on the GPU, on whichever stream. False: the driver
// cannot, or a stream may be capturing, which would not bear it.
bool record_all(DevicePools &device, vw_device_event event);

inline vw_pool *pool_of(const DevicePools &device)
{
    return device.pool.load(std::memory_order_acquire);
}
vw_stream current_stream_on(const DevicePools &device);
// Of the pool, spilled memory included; 0 where it does not say.
uint64_t live_bytes_of(const DevicePools &device);
// What the pool can hold on its GPU: by the program's limit, and by what others leave.
uint64_t limit_bytes_of(const DevicePools &device);
// A block to bring data back into, if there is room for it now.
bool take_block(DevicePools &device, uint64_t room_bytes, uint64_t size_bytes, vw_stream stream,
                vw_device_ptr *block);
// Frees a block of which `copied` marks the end of a copy on `copies`: its stream waits for it.
void free_behind_copy(const DevicePools &device, vw_device_ptr block, vw_device_event copied,
                      vw_stream copies);
// False: requests go to a private pool, a stream may be capturing, or memory is parked.
bool is_served_now(DevicePools &device);

} // namespace vramwise_torch
