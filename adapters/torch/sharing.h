// sharing.h - device memory in several processes.
//
// Plain memory has an owner who can share it, the CUDA runtime: a handle of 64 bytes for the whole
// segment. It is sent as PyTorch sends it, so that a process with PyTorch's own allocator can
// receive it, and the other way round.
//
// Virtual memory is shared piece by piece, by file descriptors, which the receiver takes out of the
// sender's process (pidfd_getfd: the kernel wants the right to trace it). Where that is forbidden,
// as in most containers, it fetches them over a socket of the sender's (support/descriptors.h). The
// sender keeps them, and a pin on the block, until the block is freed. PyTorch keeps it until all
// receivers are done.
//
// A receiver maps a handle once, however many tensors lie in it, and unmaps it with the last.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "vramwise/vramwise.h"
#include "torch_names.h"

namespace vramwise_torch
{

class SharedOut
{
  public:
    // For `pointer`, which may lie inside the block `place` of `pool`.
    ShareableHandle share(vw_pool *pool, const vw_block_place &place, const void *pointer);

    bool is_empty() const
    {
        return count_.load(std::memory_order_acquire) == 0;
    }

    // The block is about to be freed: ends what was kept for it when the result goes.
    class Ending
    {
      public:
        Ending() = default;
        Ending(Ending &&other) noexcept;
        Ending &operator=(Ending &&) = delete;

        bool is_something() const
        {
            return pool_ != nullptr;
        }
        ~Ending();

      private:
        friend class SharedOut;
        vw_pool *pool_ = nullptr;
        vw_device_ptr address_ = VW_NULL;
        uint64_t offer_ = 0;
        std::vector<vw_shared_part> parts_;
    };
    Ending take(vw_device_ptr block_address);

  private:
    struct Kept {
        vw_pool *pool;
        std::string handle;
        uint64_t offset_bytes;
        uint64_t offer; // its number
        std::vector<vw_shared_part> parts;
    };
    const Kept &keep(vw_pool *pool, const vw_block_place &place);

    std::mutex lock_;
    std::unordered_map<vw_device_ptr, Kept> kept_;
    std::atomic<size_t> count_{0};
};

class SharedIn
{
  public:
    // The address it has here. `device` is the receiver's, and must live as long as the process.
    std::shared_ptr<void> open(vw_device *device, c10::DeviceIndex index,
                               const std::string &handle);

  private:
    using Key = std::pair<c10::DeviceIndex, std::string>;
    struct Opened;

    std::mutex lock_;
    std::map<Key, std::weak_ptr<void>> opened_;
};

} // namespace vramwise_torch
