// foreign_uses.h - blocks of one GPU that a stream of another one uses, by way of peer access.
//
// A pool orders the streams of its own device: the driver refuses to record an event of one device
// in a stream of another, and the default streams of both have the number 0. So such a use never
// reaches the pool. It is kept here until the block is freed, and the stream is waited for then.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device_pools.h"
#include "torch_headers.h"

namespace vramwise_torch
{

class ForeignUses
{
  public:
    struct Use {
        c10::DeviceIndex device;
        cudaStream_t stream;
    };

    bool is_empty() const
    {
        return count_.load(std::memory_order_acquire) == 0;
    }

    void add(vw_device_ptr block_address, Use use)
    {
        std::lock_guard<std::mutex> hold(lock_);
        std::vector<Use> &uses = uses_[block_address];
        count_.store(uses_.size(), std::memory_order_release);
        if (std::none_of(uses.begin(), uses.end(), [&](const Use &known) {
                return known.device == use.device && known.stream == use.stream;
            }))
            uses.push_back(use);
    }

    // The block is about to be freed. True where there was something to wait for. What cannot be
    // waited for, at the end of the process for one, is passed over.
    bool finish(vw_device_ptr block_address)
    {
        if (is_empty())
            return false;
        std::vector<Use> uses;
        {
            std::lock_guard<std::mutex> hold(lock_);
            auto found = uses_.find(block_address);
            if (found == uses_.end())
                return false;
            uses = std::move(found->second);
            uses_.erase(found);
            count_.store(uses_.size(), std::memory_order_release);
        }
        try {
            for (const Use &use : uses) {
                c10::cuda::CUDAGuard guard(use.device);
                (void)cudaStreamSynchronize(use.stream);
            }
        } catch (...) {
        }
        return true;
    }

  private:
    std::mutex lock_;
    std::unordered_map<vw_device_ptr, std::vector<Use>> uses_;
    std::atomic<size_t> count_{0};
};

} // namespace vramwise_torch
