// adapter_state.cpp - opening devices, settings, statistics, peers and copies.
#include "adapter.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include <unistd.h>

namespace vramwise_torch
{

void check_done(vw_status status)
{
    if (status == VW_OK)
        return;
    const std::string text = vw_last_error();
    if (status == VW_ERR_DEVICE) {
        C10_CUDA_CHECK(cudaGetLastError());
        TORCH_CHECK(false, "CUDA driver error: ", text);
    }
    TORCH_CHECK(false, "vramwise: ", vw_status_message(status), ": ", text);
}

namespace
{

// A request found no cached block: PyTorch asks those who can let some go (IPC's limbo, for one).
// No exception may pass through the pool, which is C.
bool reclaim(void *)
{
    bool is_worth_trying = false;
    try {
        for (const auto &name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
            is_worth_trying |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
    } catch (...) {
        // Whoever failed has nothing to give.
    }
    return is_worth_trying;
}

void notice(void *context, const vw_memory_event *event)
{
    auto *device = static_cast<DevicePools *>(context);
    try {
        device->history_settings->notice(device->history, device->index, *event);
    } catch (...) {
        // An entry is lost for want of host memory, or a tracker failed; the block is not.
    }
}

} // namespace

// ---- opening -----------------------------------------------------------------------------------

void Adapter::init(int device_count)
{
    TORCH_CHECK(device_count <= most_devices, "vramwise: expected at most ", most_devices,
                " devices, found ", device_count);
    int nobody = 0;
    process_id_.compare_exchange_strong(nobody, getpid());
    int before = device_count_.load();
    while (before < device_count && !device_count_.compare_exchange_weak(before, device_count)) {
    }
}

bool Adapter::initialized()
{
    return device_count_.load(std::memory_order_acquire) > 0;
}

// PyTorch documents two backends, "native" and "cudaMallocAsync", and programs ask which it is in
// order to know what they may rely on: statistics, snapshots, private pools, memory fractions, all
// of which are here. PyTorch's own tests leave them out for the second. That the name "native" is
// vramwise's, vramwise_torch_stats() tells.
std::string Adapter::name()
{
    return "native";
}

DevicePools &Adapter::known(c10::DeviceIndex device)
{
    TORCH_CHECK(0 <= device && device < device_count_.load(std::memory_order_acquire),
                "Invalid device argument ", static_cast<int>(device), ": did you call init?");
    return devices_[static_cast<size_t>(device)];
}

DevicePools &Adapter::ready(c10::DeviceIndex device)
{
    TORCH_INTERNAL_ASSERT(0 <= device && device < device_count_.load(std::memory_order_acquire),
                          "Allocator not initialized for device ", static_cast<int>(device),
                          ": did you call init?");
    DevicePools &pools = devices_[static_cast<size_t>(device)];
    if (pools.pool.load(std::memory_order_acquire) == nullptr)
        open(pools);
    return pools;
}

DevicePools *Adapter::opened_pools(int device)
{
    return is_open(device) && !is_forked() ? &devices_[static_cast<size_t>(device)] : nullptr;
}

bool Adapter::is_open(int device) const
{
    return 0 <= device && device < most_devices &&
           devices_[static_cast<size_t>(device)].pool.load(std::memory_order_acquire) != nullptr;
}

void Adapter::open(DevicePools &device)
{
    std::lock_guard<std::mutex> hold(device.opening);
    if (device.pool.load(std::memory_order_acquire) != nullptr)
        return;
    if (device.device == nullptr) {
        vw_device *opened = nullptr;
        std::call_once(has_device_, [this] {
            if (options_.before_first_device)
                options_.before_first_device();
        });
        vw_status status = options_.open_device(device.index, &opened);
        TORCH_CHECK(status == VW_OK, "CUDA error: ", vw_status_message(status), ": ",
                    vw_last_error());
        device.device = opened;
    }
    device.history.trace.set_most(history_.most_entries());
    std::lock_guard<std::mutex> hold_confs(conf_lock_); // a new string reaches this pool, too
    vw_pool *pool = make_pool(device, options_.engine);
    std::lock_guard<std::mutex> hold_quick(quick_lock_);
    device.pool.store(pool, std::memory_order_release);
    settle_quick_ways(device);
}

// With all that was set so far. Under conf_lock_.
vw_pool *Adapter::make_pool(DevicePools &device, const std::string &engine)
{
    vw_pool_options options{};
    options.struct_size = sizeof options;
    options.engine = engine.c_str();
    options.conf = confs_.front().c_str();
    options.torch_version = torch_version();
    options.reclaim = reclaim;
    options.is_shareable = is_shareable_ && device.device->properties.has_shareable_handles;
    if (moves_live_data(engine) && options_.safe_point.enter != nullptr) {
        options.safe_point = vw_safe_point{enter_moment, leave_moment, this};
        options.prepare_safe_point = prepare_moment;
    }
    if (engine != torch_engine) {
        options.park_guard = options_.park_guard;
        let_spill(device, options);
        options.keep_free = options_.keep_free.c_str();
    }
    vw_pool *pool = nullptr;
    vw_status status = vw_pool_create(device.device, &options, &pool);
    TORCH_CHECK_VALUE(status != VW_ERR_BAD_SETTING, vw_last_error());
    check_done(status);
    std::unique_ptr<vw_pool, void (*)(vw_pool *)> made(pool, vw_pool_destroy); // until it is ready
    for (size_t i = 1; i < confs_.size(); i++)
        if (vw_pool_configure(pool, confs_[i].c_str()) != VW_OK)
            TORCH_WARN("vramwise: allocator settings '", confs_[i], "' are not in force on device ",
                       static_cast<int>(device.index), ": ", vw_last_error());
    std::lock_guard<std::mutex> hold(device.lock);
    if (device.fraction >= 0)
        check_done(vw_pool_set_fraction(pool, device.fraction));
    for (c10::DeviceIndex peer : device.peers) {
        status = vw_pool_allow_peer(pool, peer);
        if (status != VW_ERR_UNSUPPORTED) // plain memory needs nothing of it
            check_done(status);
    }
    return made.release();
}

// Not while a tracker listens. Those who follow segments register them with what reaches memory
// without a launch (NCCL, for network cards and other GPUs), so that nobody can hold it back; and
// they may call the driver under the pool's lock, where a thread must not be held.
bool Adapter::enter_moment(void *context)
{
    auto *adapter = static_cast<Adapter *>(context);
    const vw_safe_point &moment = adapter->options_.safe_point;
    return !adapter->history_.has_trackers() && moment.enter(moment.context);
}

void Adapter::leave_moment(void *context)
{
    const vw_safe_point &moment = static_cast<Adapter *>(context)->options_.safe_point;
    moment.leave(moment.context);
}

void Adapter::prepare_moment(void *context)
{
    const AdapterOptions &options = static_cast<Adapter *>(context)->options_;
    if (options.prepare_safe_point != nullptr)
        options.prepare_safe_point(options.safe_point.context);
}

vw_pool *Adapter::second_pool(DevicePools &device)
{
    std::lock_guard<std::mutex> hold(device.opening);
    vw_pool *pool = device.second.load(std::memory_order_acquire);
    if (pool != nullptr)
        return pool;
    std::lock_guard<std::mutex> hold_confs(conf_lock_);
    {
        std::lock_guard<std::mutex> hold_fraction(device.lock);
        if (device.fraction < 0) // that of the settings; from now on it is for both together
            device.fraction = vw_pool_get_fraction(device.pool.load());
    }
    pool = make_pool(device, torch_engine);
    std::lock_guard<std::mutex> hold_quick(quick_lock_);
    device.second.store(pool, std::memory_order_release);
    settle_quick_ways(device);
    return pool;
}

// ---- the quick way, and when it is closed ------------------------------------------------------

bool Adapter::is_observed() const
{
    return history_.is_enabled() || history_.has_trackers();
}

vw_event_sink Adapter::sink_for(DevicePools &device) const
{
    return vw_event_sink{&device, notice};
}

// Under quick_lock_.
void Adapter::settle_quick_ways(DevicePools &device)
{
    vw_pool *pool = device.pool.load(std::memory_order_acquire);
    if (pool == nullptr)
        return;
    bool is_heard = is_observed();
    const vw_event_sink sink = sink_for(device);
    device.for_each_pool(
        [&](vw_pool *each) { vw_pool_set_sink(each, is_heard ? &sink : nullptr); });
    bool is_plain = !is_heard && device.second.load(std::memory_order_acquire) == nullptr;
    vw_pool *quick = is_plain && !is_uncached() ? pool : nullptr;
    bool is_watched = stream_ != nullptr && stream_->is_on();
    device.quick_alloc.store(is_watched ? nullptr : quick, std::memory_order_release);
    device.watched.store(is_watched ? quick : nullptr, std::memory_order_release);
    bool is_free_plain = is_plain && shared_out_.is_empty() && foreign_uses_.is_empty();
    device.quick_free.store(is_free_plain ? pool : nullptr, std::memory_order_release);
}

void Adapter::settle_all_quick_ways()
{
    std::lock_guard<std::mutex> hold(quick_lock_);
    for (DevicePools &device : devices_)
        settle_quick_ways(device);
}

// ---- settings ----------------------------------------------------------------------------------

void Adapter::configure(const std::string &conf)
{
    constexpr size_t most_remembered = 1000;
    std::lock_guard<std::mutex> hold(conf_lock_);
    if (confs_.back() != conf) {
        if (confs_.size() == most_remembered)
            confs_.erase(confs_.begin() + 1);
        confs_.push_back(conf);
    }
    for (DevicePools &device : devices_)
        device.for_each_pool([&](vw_pool *pool) {
            TORCH_CHECK_VALUE(vw_pool_configure(pool, conf.c_str()) == VW_OK, vw_last_error());
        });
}

std::string Adapter::newest_settings()
{
    std::lock_guard<std::mutex> hold(conf_lock_);
    return confs_.back();
}

double Adapter::getMemoryFraction(c10::DeviceIndex device)
{
    DevicePools &pools = known(device);
    std::lock_guard<std::mutex> hold(pools.lock);
    if (pools.fraction >= 0) // where there are two pools, each has its own
        return pools.fraction;
    if (vw_pool *pool = pools.pool.load(std::memory_order_acquire))
        return vw_pool_get_fraction(pool);
    return fraction_of<CUDAAllocatorConfig>(0);
}

void Adapter::setMemoryFraction(double fraction, c10::DeviceIndex device)
{
    TORCH_CHECK(0 <= device && device < device_count_.load(std::memory_order_acquire),
                "Allocator not initialized for device ", static_cast<int>(device),
                ": did you call init?");
    TORCH_CHECK_VALUE(0 <= fraction && fraction <= 1, "invalid fraction:", fraction,
                      ". Please set within [0, 1].");
    DevicePools &pools = devices_[static_cast<size_t>(device)];
    std::lock_guard<std::mutex> hold_opening(pools.opening);
    std::lock_guard<std::mutex> hold(pools.lock);
    pools.fraction = fraction;
    pools.for_each_pool([&](vw_pool *pool) { check_done(vw_pool_set_fraction(pool, fraction)); });
}

// ---- statistics --------------------------------------------------------------------------------

namespace
{

void add(Stat &sum, const vw_stat &stat)
{
    sum.current += stat.current;
    sum.peak += stat.peak; // with a second pool: at most this
    sum.allocated += stat.allocated;
    sum.freed += stat.freed;
}

void add(StatArray &sum, const vw_stat_group &group)
{
    add(sum[static_cast<size_t>(StatType::AGGREGATE)], group.all);
    add(sum[static_cast<size_t>(StatType::SMALL_POOL)], group.small_pool);
    add(sum[static_cast<size_t>(StatType::LARGE_POOL)], group.large_pool);
}

// From 2.13: what each private pool has reserved, which a pool names
// "reserved_bytes_by_private_pools.0_1.small_pool.current".
template <class Stats>
auto add_private_pools(Stats &sum, vw_pool *pool, int)
    -> decltype(sum.reserved_bytes_by_private_pools, void())
{
    auto visit = [](void *context, const char *key, int64_t value) {
        static const char *const groups[] = {"all", "small_pool", "large_pool"}; // by StatType
        unsigned long long first = 0, second = 0;
        char group[16] = "", what[16] = "";
        if (std::sscanf(key, "reserved_bytes_by_private_pools.%llu_%llu.%15[a-z_].%15[a-z]", &first,
                        &second, group, what) != 4)
            return;
        auto &by_pool = *static_cast<decltype(&sum.reserved_bytes_by_private_pools)>(context);
        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
            if (std::strcmp(group, groups[i]) != 0)
                continue;
            Stat &stat = by_pool[MempoolId_t{first, second}][i];
            const std::string name = what;
            (name == "current" ? stat.current
             : name == "peak"  ? stat.peak
             : name == "freed" ? stat.freed
                               : stat.allocated) += value;
        }
    };
    check_done(vw_pool_walk_stats(pool, visit, &sum.reserved_bytes_by_private_pools));
}
template <class Stats> void add_private_pools(Stats &, vw_pool *, ...)
{
}

} // namespace

// A device that was not used has nothing, and is not opened for a look at it.
DeviceStats Adapter::getDeviceStats(c10::DeviceIndex device)
{
    DevicePools &pools = known(device);
    DeviceStats sum;
    int64_t rejections = 0;
    sum.max_split_size = static_cast<int64_t>(max_split_size_in_force());
    pools.for_each_pool([&](vw_pool *pool) {
        vw_pool_stats stats{};
        stats.struct_size = sizeof stats;
        check_done(vw_pool_get_stats(pool, &stats));
#define ADD_GROUP(name) add(sum.name, stats.name);
        VW_STAT_GROUP_LIST(ADD_GROUP)
#undef ADD_GROUP
        add(sum.oversize_allocations, stats.oversize_allocations);
        add(sum.oversize_segments, stats.oversize_segments);
        sum.max_split_size = stats.max_split_size;
        sum.num_alloc_retries += stats.num_alloc_retries;
        sum.num_ooms += stats.num_ooms;
        sum.num_sync_all_streams += stats.num_sync_all_streams;
        sum.num_device_alloc += stats.num_device_alloc;
        sum.num_device_free += stats.num_device_free;
        rejections += stats.num_oom_rejections;
        add_private_pools(sum, pool, 0);
    });
    set_rejections(sum, rejections, 0);
    return sum;
}

void Adapter::resetAccumulatedStats(c10::DeviceIndex device)
{
    known(device).for_each_pool([](vw_pool *pool) { check_done(vw_pool_reset_accumulated(pool)); });
}

void Adapter::resetPeakStats(c10::DeviceIndex device)
{
    known(device).for_each_pool([](vw_pool *pool) { check_done(vw_pool_reset_peaks(pool)); });
}

bool Adapter::get_paged_stats(int device, vw_paged_stats *stats)
{
    if (!is_open(device))
        return false;
    vw_pool *pool = devices_[static_cast<size_t>(device)].pool.load(std::memory_order_acquire);
    return vw_pool_get_paged_stats(pool, stats) == VW_OK;
}

// The largest request that could be served; of a caller who knows nothing (0), at least as much as
// the device has free. cuDNN's benchmark mode sizes its workspaces by it.
void Adapter::cacheInfo(c10::DeviceIndex device, size_t *largest_bytes)
{
    known(device);
    DevicePools &pools = ready(device);
    if (*largest_bytes == 0) {
        uint64_t free_bytes = 0, total_bytes = 0;
        const vw_device *owner = pools.device;
        check_done(owner->table->memory_info(owner->context, &free_bytes, &total_bytes));
        *largest_bytes = free_bytes;
    }
    pools.for_each_pool([&](vw_pool *pool) {
        vw_pool_stats stats{};
        stats.struct_size = sizeof stats;
        check_done(vw_pool_get_stats(pool, &stats));
        *largest_bytes = std::max<size_t>(*largest_bytes, stats.largest_free_block_bytes);
    });
}

std::vector<StreamSegmentSize> Adapter::getExpandableSegmentSizes(c10::DeviceIndex device)
{
    struct Sums {
        std::map<std::pair<vw_stream, bool>, size_t> bytes;
        bool is_complete = true;
    } sums;
    vw_walker walker{};
    walker.context = &sums;
    walker.segment = [](void *context, const vw_segment_info *segment) {
        auto *result = static_cast<Sums *>(context);
        try {
            if (segment->is_expandable)
                result->bytes[{segment->stream, !segment->is_large}] += segment->total_bytes;
        } catch (...) {
            result->is_complete = false;
        }
        return result->is_complete;
    };
    known(device).for_each_pool(
        [&](vw_pool *pool) { check_done(vw_pool_walk(pool, &walker, false)); });
    TORCH_CHECK(sums.is_complete, "vramwise: out of host memory");
    std::vector<StreamSegmentSize> sizes;
    for (const auto &sum : sums.bytes)
        sizes.emplace_back(reinterpret_cast<cudaStream_t>(sum.first.first), sum.first.second,
                           sum.second);
    return sizes;
}

// ---- giving back -------------------------------------------------------------------------------

void Adapter::emptyCache()
{
    emptyCache(pool_in_context());
}

void Adapter::emptyCache(MempoolId_t id)
{
    const Context context = history_.gather(RecordContext::ALL);
    CurrentCall call(context);
    int count = device_count_.load(std::memory_order_acquire);
    for (int i = 0; i < count; i++) {
        DevicePools &device = devices_[static_cast<size_t>(i)];
        device.for_each_pool([&](vw_pool *pool) {
            vw_status status = id == MempoolId_t{0, 0}
                                   ? vw_pool_trim(pool)
                                   : vw_private_pool_trim(pool, private_id_of(id));
            // A private pool that is not here, or still in use, keeps what it has.
            if (status != VW_ERR_INVALID_ARGUMENT && status != VW_ERR_WRONG_STATE)
                check_done(status);
        });
        drop_unused_sources(device);
    }
}

// ---- single blocks, seen from outside ----------------------------------------------------------

void *Adapter::getBaseAllocation(void *pointer, size_t *size_bytes)
{
    DevicePools *device = nullptr;
    vw_pool *pool = nullptr;
    vw_block_place place{};
    TORCH_CHECK(find(pointer, &device, &pool, &place), "invalid device pointer: ", shown(pointer));
    TORCH_CHECK(!place.is_expandable,
                "Tensors allocated with expandable_segments:True cannot be shared between "
                "processes. Consider using expandable_segments:False in data loading workers via "
                "torch.cuda.memory._set_allocator_settings('expandable_segments:False')");
    if (size_bytes != nullptr)
        *size_bytes = place.segment_bytes;
    return pointer_to(place.segment_address);
}

ShareableHandle Adapter::shareIpcHandle(void *pointer)
{
    DevicePools *device = nullptr;
    vw_pool *pool = nullptr;
    vw_block_place place{};
    TORCH_CHECK(find(pointer, &device, &pool, &place), "invalid device pointer: ", shown(pointer));
    ShareableHandle handle = shared_out_.share(pool, place, pointer);
    settle_all_quick_ways(); // from now on a free has to look
    return handle;
}

std::shared_ptr<void> Adapter::getIpcDevPtr(std::string handle)
{
    c10::DeviceIndex device = current_device();
    return shared_in_.open(ready(device).device, device, handle);
}

// ---- between devices ---------------------------------------------------------------------------

void Adapter::enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex device_to_access)
{
    known(device);
    DevicePools &pools = known(device_to_access);
    c10::cuda::CUDAGuard guard(device);
    cudaError_t error = cudaDeviceEnablePeerAccess(device_to_access, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled)
        (void)cudaGetLastError();
    else
        C10_CUDA_CHECK(error);
    // The runtime's switch is for plain memory. Virtual memory is opened range by range.
    std::lock_guard<std::mutex> hold_opening(pools.opening);
    std::lock_guard<std::mutex> hold(pools.lock);
    if (std::find(pools.peers.begin(), pools.peers.end(), device) != pools.peers.end())
        return;
    pools.for_each_pool([&](vw_pool *pool) {
        vw_status status = vw_pool_allow_peer(pool, device);
        if (status != VW_ERR_UNSUPPORTED)
            check_done(status);
    });
    pools.peers.push_back(device);
}

// Without peer access the runtime copies virtual memory only if it is told both devices.
cudaError_t Adapter::memcpyAsync(void *to, int to_device, const void *from, int from_device,
                                 size_t size_bytes, cudaStream_t stream, bool is_peer_enabled)
{
    if (is_peer_enabled || to_device == from_device)
        return cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToDevice, stream);
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, size_bytes, stream);
}

} // namespace vramwise_torch
