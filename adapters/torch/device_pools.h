// device_pools.h - one GPU as the adapter sees it: its pools, its scopes, its history.
//
// Normally there is one pool. A second one, of engine "torch", comes into being where a program
// makes a private pool with a memory source of its own (torch.cuda.MemPool(allocator)) and the
// engine has no such pools. Requests then go to the one or the other by the scopes in force.
//
// Devices are opened at their first use, since opening one makes a CUDA context; and they are never
// closed: tensors are freed until the very end of the process, in no order.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "history.h"

namespace vramwise_torch
{

class StateStream;

// Where requests go that `filter` accepts.
struct Scope {
    MempoolId_t id;
    std::function<bool(cudaStream_t)> filter;
    bool is_on_second_pool;
};

// A memory source somebody brought, for one private pool.
struct Source {
    MempoolId_t id;
    std::shared_ptr<CUDAAllocator> allocator;
    std::atomic<size_t> segments_held{0};
    bool is_being_made = true; // its pool does not count as in use yet
    bool is_on_second_pool = false;
    bool helps_out = false; // use_on_oom
};

// Fields in the order in which a request needs them. What has no word beside it is set once.
struct DevicePools {
    std::atomic<vw_pool *> quick_alloc{nullptr}; // the pool, where nobody listens and nothing needs
    std::atomic<vw_pool *> quick_free{nullptr};  // a decision; else null
    std::atomic<vw_pool *> watched{nullptr};     // in place of quick_alloc where requests are seen
    std::atomic<vw_pool *> pool{nullptr};        // null until it is opened
    std::atomic<vw_pool *> second{nullptr};      // null where there is no need of it

    c10::DeviceIndex index = 0;
    vw_device *device = nullptr;
    History *history_settings = nullptr;
    StateStream *stream = nullptr; // where memory may be spilled
    DeviceHistory history;

    std::atomic<bool> has_told_of_spill{false}; // or nobody wants to be told

    std::mutex opening; // one at a time

    // Held over a request while there are two pools: one limit is for both, and the one has to
    // stand still while the other is asked. (A callback that frees memory may ask for some.)
    std::recursive_mutex two_pools;

    std::mutex lock; // what follows
    std::list<Scope> scopes;
    std::list<Source> sources;
    std::vector<c10::DeviceIndex> peers; // that may reach this device's memory
    double fraction = -1;                // set by the program; negative: not

    // Each pool there is, the main one first.
    template <class Visit> void for_each_pool(Visit visit)
    {
        if (vw_pool *main = pool.load(std::memory_order_acquire))
            visit(main);
        if (vw_pool *other = second.load(std::memory_order_acquire))
            visit(other);
    }
};

inline vw_private_id private_id_of(MempoolId_t id)
{
    return vw_private_id{id.first, id.second};
}

inline vw_stream stream_number(cudaStream_t stream)
{
    return reinterpret_cast<vw_stream>(stream);
}

inline vw_device_ptr address_of(const void *pointer)
{
    return reinterpret_cast<vw_device_ptr>(pointer);
}

inline void *pointer_to(vw_device_ptr address)
{
    return reinterpret_cast<void *>(address);
}

} // namespace vramwise_torch
