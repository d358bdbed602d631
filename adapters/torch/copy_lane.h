// copy_lane.h - the streams and the host memory through which one GPU's data leaves and returns.
//
// One lane serves an optimizer's state (state_stream.h) and saved tensors (saved_stream.h). Copies
// back follow each other in the order in which they were wanted. Those out have a track each: a
// saved tensor's copy waits for the kernel that makes it, which state must not wait for.
#pragma once

#include <array>

#include "device_pools.h"
#include "vramwise/pinned.h"

namespace vramwise_torch
{

// Copies in one direction, each behind the one before. They take turns on two streams: a GPU's copy
// engine stays with a stream for as long as that has copies ready, and so a copy of the program's
// own, of a loss say, would wait for all of them. docs/design/010-spill.md has what was measured.
class CopyTrack
{
  public:
    // What a copy of the program's own may have to wait for: a third of a millisecond.
    static constexpr uint64_t chunk_bytes = uint64_t{16} << 20;

    bool open(const vw_device &device);
    // Its next copy, and so all that follow, wait for `event`.
    bool wait(const vw_device &device, vw_device_event event) const;
    bool copy(const vw_device &device, vw_device_ptr to, vw_device_ptr from, uint64_t size_bytes);
    // Records `event` behind its newest copy.
    bool mark(const vw_device &device, vw_device_event event) const;
    // The newest copy is over for whatever `stream` does next.
    bool is_before(const vw_device &device, vw_stream stream);
    const std::array<vw_stream, 2> &streams() const
    {
        return streams_;
    }

  private:
    bool copy_chunk(const vw_device &device, vw_device_ptr to, vw_device_ptr from,
                    uint64_t size_bytes);
    bool note_end(const vw_device &device);

    std::array<vw_stream, 2> streams_{};
    size_t turn_ = 0;         // which of them has the next copy
    vw_device_event end_ = 0; // behind the newest
    bool is_noted_ = true;    // false: that could not be recorded yet
};

// Copies of `track` use the block, or do not any more.
bool record_use(vw_pool *pool, vw_device_ptr block, const CopyTrack &track);
bool unrecord_use(vw_pool *pool, vw_device_ptr block, const CopyTrack &track);

struct CopyLane {
    CopyTrack state_out, saved_out, in;
    vw_pinned_pool *host = nullptr;
    uint64_t limit_bytes = 0; // what the pool can hold on its GPU, at the last step's end

    // What of it returning data may fill.
    uint64_t room_bytes() const
    {
        return vw_schedule_room_bytes(limit_bytes);
    }

    // Sees that the streams and the host memory are there.
    bool open(const DevicePools &device, vw_pinned_budget *budget);
    // Has `copies` wait for what is queued on `work`.
    bool is_behind(const DevicePools &device, const CopyTrack &copies, vw_stream work);
    // Has `waiting` wait for all that is queued on the GPU. False: it does not wait.
    bool is_behind_all(DevicePools &device, vw_stream waiting);
    bool is_behind_all(DevicePools &device, const CopyTrack &waiting);
    // Page-locked memory for copies on `out` and back; null: there is none.
    void *take_host(uint64_t size_bytes, const CopyTrack &out) const;

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
// Frees a block that copies of `track` may be filling: its stream waits for them.
void free_behind_copies(const DevicePools &device, vw_device_ptr block, CopyTrack &track);
// False: requests go to a private pool, a stream may be capturing, or memory is parked.
bool is_served_now(DevicePools &device);

} // namespace vramwise_torch
