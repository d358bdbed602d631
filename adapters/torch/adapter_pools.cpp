// adapter_pools.cpp - private pools: CUDA graphs, torch.cuda.MemPool, graph trees.
//
// The pool does the work. Here: PyTorch's filters and memory sources are kept alive as long as the
// pool may call them, no exception of theirs passes through it, and where there is a second pool,
// the scopes are looked through to see which of the two a request is for.
#include "adapter.h"

#include <algorithm>
#include <cmath>

namespace vramwise_torch
{

namespace
{

bool accepts(const Scope &scope, cudaStream_t stream)
{
    try {
        return !scope.filter || scope.filter(stream);
    } catch (...) {
        return false; // whoever cannot say whether it is his has no claim
    }
}

bool filter_scope(void *context, vw_stream stream)
{
    return accepts(*static_cast<const Scope *>(context), reinterpret_cast<cudaStream_t>(stream));
}

vw_device_ptr take_from_source(void *context, uint64_t size_bytes, int device, vw_stream)
{
    auto *source = static_cast<Source *>(context);
    try {
        c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
        void *memory = source->allocator->raw_alloc(size_bytes);
        if (memory != nullptr)
            source->segments_held.fetch_add(1);
        return address_of(memory);
    } catch (...) {
        return VW_NULL;
    }
}

void give_back_to_source(void *context, vw_device_ptr address, uint64_t, int device, vw_stream)
{
    auto *source = static_cast<Source *>(context);
    try {
        c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
        source->allocator->raw_delete(pointer_to(address));
    } catch (...) {
        // It was theirs, and is theirs again.
    }
    source->segments_held.fetch_sub(1);
}

// Until then nobody may find it unused.
struct MadeAtTheEnd {
    DevicePools &device;
    Source &source;
    ~MadeAtTheEnd()
    {
        std::lock_guard<std::mutex> hold(device.lock);
        source.is_being_made = false;
    }
};

// A private pool's blocks at one moment. Ends with the last who refers to it.
struct Checkpoint final : AllocatorState {
    ~Checkpoint() override
    {
        vw_private_state_free(state);
    }
    vw_private_state *state = nullptr;
    vw_pool *pool = nullptr;
};

} // namespace

// ---- which pool --------------------------------------------------------------------------------

vw_pool *Adapter::route(DevicePools &device, cudaStream_t stream)
{
    vw_pool *pool = device.pool.load(std::memory_order_acquire);
    vw_pool *second = device.second.load(std::memory_order_acquire);
    if (second == nullptr)
        return pool;
    std::lock_guard<std::mutex> hold(device.lock);
    for (auto scope = device.scopes.rbegin(); scope != device.scopes.rend(); ++scope)
        if (accepts(*scope, stream))
            return scope->is_on_second_pool ? second : pool;
    return pool;
}

// Under device.lock.
static bool is_on_second_pool(const DevicePools &device, MempoolId_t id)
{
    return std::any_of(device.sources.begin(), device.sources.end(), [&](const Source &source) {
        return source.id == id && source.is_on_second_pool;
    });
}

vw_pool *Adapter::owner_of(DevicePools &device, MempoolId_t id)
{
    std::lock_guard<std::mutex> hold(device.lock);
    return is_on_second_pool(device, id) ? device.second.load(std::memory_order_acquire)
                                         : device.pool.load(std::memory_order_acquire);
}

// ---- two pools, one card -----------------------------------------------------------------------

uint64_t reserved_bytes_of(vw_pool *pool)
{
    vw_pool_stats stats{};
    stats.struct_size = sizeof stats;
    if (vw_pool_get_stats(pool, &stats) != VW_OK)
        return 0;
    return static_cast<uint64_t>(stats.reserved_bytes.all.current);
}

// Lets `pool` hold so much and no more; as a fraction, which is how pools take it.
static void allow(const DevicePools &device, vw_pool *pool, double bytes)
{
    auto total_bytes = static_cast<double>(device.device->properties.total_bytes);
    double fraction = std::min(1.0, (bytes + 0.5) / total_bytes); // a half, against rounding down
    if (vw_pool_set_fraction(pool, fraction) != VW_OK) {
        // Not possible between 0 and 1; and then the limit would be as it was.
    }
}

// What the program allows for both, less what the other one has.
static void share_limit(DevicePools &device, vw_pool *pool, vw_pool *other)
{
    double fraction;
    {
        std::lock_guard<std::mutex> hold(device.lock);
        fraction = device.fraction;
    }
    auto total_bytes = static_cast<double>(device.device->properties.total_bytes);
    if (fraction < 0 || fraction >= 1)
        allow(device, pool, total_bytes);
    else
        allow(device, pool,
              std::max(0.0, std::trunc(fraction * total_bytes) -
                                static_cast<double>(reserved_bytes_of(other))));
}

Failure Adapter::ask(DevicePools &device, const vw_alloc_request &request, vw_device_ptr *out)
{
    if (device.second.load(std::memory_order_acquire) != nullptr)
        return ask_either(device, request, out);
    return failure_of(vw_alloc_with(device.pool.load(std::memory_order_acquire), &request, out));
}

// A default request that finds no room may be helped out by a pool that is to do so (use_on_oom),
// with what that has idle: it is asked as one that may not grow.
Failure Adapter::ask_either(DevicePools &device, const vw_alloc_request &request,
                            vw_device_ptr *out)
{
    std::lock_guard<std::recursive_mutex> hold(device.two_pools);
    vw_pool *main = device.pool.load(std::memory_order_acquire);
    vw_pool *second = device.second.load(std::memory_order_acquire);
    vw_pool *chosen = route(device, reinterpret_cast<cudaStream_t>(request.stream));
    share_limit(device, chosen, chosen == main ? second : main);
    Failure failure = failure_of(vw_alloc_with(chosen, &request, out));
    if (failure.status != VW_ERR_OUT_OF_MEMORY || chosen != main)
        return failure;
    bool has_helper;
    {
        std::lock_guard<std::mutex> hold_lists(device.lock);
        has_helper = std::any_of(device.sources.begin(), device.sources.end(),
                                 [](const Source &source) { return source.helps_out; });
    }
    if (!has_helper)
        return failure;
    allow(device, second, static_cast<double>(reserved_bytes_of(second)));
    vw_status status = vw_alloc_with(second, &request, out);
    share_limit(device, second, main);
    return status == VW_OK ? Failure{} : failure;
}

// Sources of pools that are gone and have given everything back.
void Adapter::drop_unused_sources(DevicePools &device)
{
    std::list<Source> dropped; // let go when the lock is dropped: they may be somebody's last
    std::lock_guard<std::mutex> hold(device.lock);
    for (auto source = device.sources.begin(); source != device.sources.end();) {
        auto next = std::next(source);
        vw_pool *pool = source->is_on_second_pool ? device.second.load() : device.pool.load();
        if (!source->is_being_made && source->segments_held.load() == 0 &&
            vw_private_pool_use_count(pool, private_id_of(source->id)) == 0)
            dropped.splice(dropped.end(), device.sources, source);
        source = next;
    }
}

// ---- making and ending -------------------------------------------------------------------------

void Adapter::createOrIncrefPool(c10::DeviceIndex index, MempoolId_t id,
                                 std::shared_ptr<CUDAAllocator> allocator)
{
    known(index);
    DevicePools &device = ready(index);
    if (allocator == nullptr || allocator.get() == this) {
        // A torch.cuda.MemPool: CUDA graphs make theirs by routing to it. It may be registered with
        // NCCL at any time (register_mem_pool), so that its segments are of one piece from the
        // start. Engine "torch" does what PyTorch does.
        vw_private_options options{};
        options.struct_size = sizeof options;
        options.one_handle = options_.engine != torch_engine;
        check_done(vw_private_pool_retain(owner_of(device, id), private_id_of(id), &options));
        return;
    }
    drop_unused_sources(device);
    TORCH_INTERNAL_ASSERT(getPoolUseCount(index, id) == 0,
                          "a pool that is in use cannot get another memory source");
    Source *source;
    {
        std::lock_guard<std::mutex> hold(device.lock);
        source = &device.sources.emplace_back();
        source->id = id;
        source->allocator = std::move(allocator);
    }
    MadeAtTheEnd made{device, *source}; // or not, and then it goes with the next look
    vw_private_options options{};
    options.struct_size = sizeof options;
    options.take = take_from_source;
    options.give_back = give_back_to_source;
    options.source_context = source;
    vw_status status = vw_private_pool_retain(device.pool.load(), private_id_of(id), &options);
    if (status == VW_ERR_UNSUPPORTED) { // this engine has no such pools: one that has
        vw_pool *second = second_pool(device);
        {
            std::lock_guard<std::mutex> hold(device.lock);
            source->is_on_second_pool = true;
        }
        status = vw_private_pool_retain(second, private_id_of(id), &options);
    }
    check_done(status);
}

void Adapter::releasePool(c10::DeviceIndex index, MempoolId_t id)
{
    known(index);
    DevicePools &device = ready(index);
    vw_status status = vw_private_pool_release(owner_of(device, id), private_id_of(id));
    TORCH_INTERNAL_ASSERT(status == VW_OK, vw_last_error());
}

int Adapter::getPoolUseCount(c10::DeviceIndex index, MempoolId_t id)
{
    DevicePools &device = known(index);
    if (device.pool.load(std::memory_order_acquire) == nullptr)
        return 0;
    return vw_private_pool_use_count(owner_of(device, id), private_id_of(id));
}

void Adapter::setUseOnOOM(c10::DeviceIndex index, MempoolId_t id, bool use_on_oom)
{
    known(index);
    DevicePools &device = ready(index);
    vw_status status =
        vw_private_pool_set_use_on_oom(owner_of(device, id), private_id_of(id), use_on_oom);
    {
        std::lock_guard<std::mutex> hold(device.lock);
        for (Source &source : device.sources)
            if (source.id == id)
                source.helps_out = use_on_oom && source.is_on_second_pool;
    }
    if (use_on_oom || (status != VW_ERR_INVALID_ARGUMENT && status != VW_ERR_WRONG_STATE))
        check_done(status); // that of a pool which is gone may be switched off
}

void Adapter::setUseOnOOM(c10::DeviceIndex index, MempoolId_t id)
{
    setUseOnOOM(index, id, true);
}

// Not ours to keep alive in these versions: whoever made the pool does.
void Adapter::createOrIncrefPool(c10::DeviceIndex index, MempoolId_t id, CUDAAllocator *allocator)
{
    createOrIncrefPool(index, id, std::shared_ptr<CUDAAllocator>(allocator, [](auto *) {}));
}

void Adapter::ensureExistsAndIncrefPool(c10::DeviceIndex index, MempoolId_t id)
{
    createOrIncrefPool(index, id, std::shared_ptr<CUDAAllocator>());
}

void Adapter::setNoSplit(c10::DeviceIndex index, MempoolId_t id)
{
    known(index);
    DevicePools &device = ready(index);
    check_done(vw_private_pool_set_no_split(owner_of(device, id), private_id_of(id), true));
}

// 2.5 to 2.7 name a pool's source when requests are sent there, not when it is made: the pool is
// made again, with its source and as many users. True: it had none, and has one now that is
// nobody's.
bool Adapter::take_source(DevicePools &device, MempoolId_t id, CUDAAllocator *source)
{
    {
        std::lock_guard<std::mutex> hold(device.lock);
        if (std::any_of(device.sources.begin(), device.sources.end(),
                        [&](const Source &each) { return each.id == id; }))
            return false;
    }
    const int user_count = getPoolUseCount(device.index, id);
    for (int i = 0; i < user_count; i++)
        releasePool(device.index, id);
    createOrIncrefPool(device.index, id, source);
    for (int i = 1; i < user_count; i++)
        createOrIncrefPool(device.index, id);
    return user_count == 0;
}

// ---- routing -----------------------------------------------------------------------------------

void Adapter::beginAllocateToPool(c10::DeviceIndex index, MempoolId_t id,
                                  std::function<bool(cudaStream_t)> filter)
{
    known(index);
    DevicePools &device = ready(index);
    CUDAAllocator *source = source_in<c10::cuda::MemPoolContext>(id, 0);
    const bool has_spare_user = source != nullptr && take_source(device, id, source);
    begin_scope(device, id, std::move(filter));
    if (has_spare_user)
        releasePool(index, id);
}

void Adapter::begin_scope(DevicePools &device, MempoolId_t id,
                          std::function<bool(cudaStream_t)> filter)
{
    std::lock_guard<std::mutex> hold(device.lock);
    bool is_on_second = is_on_second_pool(device, id);
    vw_pool *pool = is_on_second ? device.second.load() : device.pool.load();
    Scope &scope = device.scopes.emplace_back(Scope{id, std::move(filter), is_on_second});
    vw_status status = vw_private_pool_begin(pool, private_id_of(id), filter_scope, &scope);
    if (status == VW_OK)
        return;
    device.scopes.pop_back();
    TORCH_CHECK(status != VW_ERR_WRONG_STATE,
                "beginAllocateToPool: already recording to mempool_id");
    check_done(status);
}

void Adapter::endAllocateToPool(c10::DeviceIndex index, MempoolId_t id)
{
    known(index);
    DevicePools &device = ready(index);
    std::list<Scope> ended; // the filter goes when the lock is dropped
    std::lock_guard<std::mutex> hold(device.lock);
    auto scope = std::find_if(device.scopes.begin(), device.scopes.end(),
                              [&](const Scope &candidate) { return candidate.id == id; });
    TORCH_CHECK(scope != device.scopes.end(),
                "endAllocatePool: not currently recording to mempool_id");
    vw_pool *pool = scope->is_on_second_pool ? device.second.load() : device.pool.load();
    check_done(vw_private_pool_end(pool, private_id_of(id)));
    ended.splice(ended.end(), device.scopes, scope);
}

// ---- graph trees -------------------------------------------------------------------------------

bool Adapter::checkPoolLiveAllocations(c10::DeviceIndex index, MempoolId_t id,
                                       const std::unordered_set<void *> &expected)
{
    struct Look {
        vw_private_id id;
        const std::unordered_set<void *> *expected;
        bool is_pool_seen = false;
        bool is_as_expected = true;
        size_t live_count = 0;
    } look;
    known(index);
    DevicePools &device = ready(index);
    vw_pool *pool = owner_of(device, id);
    look.id = private_id_of(id);
    look.expected = &expected;
    vw_walker walker{};
    walker.context = &look;
    walker.block = [](void *context, const vw_segment_info *segment, const vw_block_info *block) {
        auto *result = static_cast<Look *>(context);
        bool is_of_pool = segment->private_id.first == result->id.first &&
                          segment->private_id.second == result->id.second;
        result->is_pool_seen |= is_of_pool;
        if (!is_of_pool || block->state != VW_BLOCK_LIVE)
            return true;
        result->live_count++;
        result->is_as_expected = result->expected->count(pointer_to(block->address)) != 0;
        return result->is_as_expected;
    };
    check_done(vw_pool_walk(pool, &walker, false));
    TORCH_CHECK(look.is_pool_seen || vw_private_pool_use_count(pool, look.id) > 0,
                "Could not find pool of id");
    return look.is_as_expected && look.live_count == expected.size();
}

std::shared_ptr<AllocatorState> Adapter::getCheckpointState(c10::DeviceIndex index, MempoolId_t id)
{
    known(index);
    DevicePools &device = ready(index);
    auto checkpoint = std::make_shared<Checkpoint>();
    checkpoint->pool = owner_of(device, id);
    vw_status status =
        vw_private_pool_checkpoint(checkpoint->pool, private_id_of(id), &checkpoint->state);
    TORCH_CHECK(status != VW_ERR_INVALID_ARGUMENT, "Could not find pool of id");
    check_done(status);
    return checkpoint;
}

CheckpointDelta Adapter::setCheckpointPoolState(c10::DeviceIndex index,
                                                std::shared_ptr<AllocatorState> state)
{
    struct Told {
        CheckpointDelta delta;
        c10::Device place;
        bool is_complete = true;
    } told{{}, c10::Device(c10::DeviceType::CUDA, index), true};
    known(index);
    auto checkpoint = std::dynamic_pointer_cast<Checkpoint>(std::move(state));
    TORCH_CHECK(checkpoint, "Expected PrivatePoolState");
    vw_restore_listener listener{};
    listener.context = &told;
    listener.freed = [](void *context, vw_device_ptr address) {
        auto *result = static_cast<Told *>(context);
        try {
            result->delta.ptrs_freed.push_back(pointer_to(address));
        } catch (...) {
            result->is_complete = false;
        }
    };
    listener.allocated = [](void *context, vw_device_ptr address) {
        auto *result = static_cast<Told *>(context);
        void *pointer = pointer_to(address);
        try {
            result->delta.dataptrs_allocd.emplace_back(pointer, pointer, &Adapter::delete_block,
                                                       result->place);
        } catch (...) {
            result->is_complete = false;
        }
    };
    const Context context = history_.gather(RecordContext::STATE);
    bool is_for_frees_too = history_.level() >= RecordContext::ALL;
    ContextTable &contexts = devices_[static_cast<size_t>(index)].history.contexts;
    listener.tag = context != nullptr ? contexts.add(context) : 0;
    vw_status status;
    {
        CurrentCall call(context, is_for_frees_too);
        status = vw_private_pool_restore(checkpoint->pool, checkpoint->state, &listener);
    }
    if (listener.tag != 0)
        contexts.settle(listener.tag);
    TORCH_CHECK(status != VW_ERR_WRONG_STATE, vw_last_error());
    check_done(status);
    bool was_shared = false;
    for (const void *pointer : told.delta.ptrs_freed)
        was_shared |= shared_out_.take(address_of(pointer)).is_something();
    if (was_shared)
        settle_all_quick_ways();
    TORCH_CHECK(told.is_complete, "vramwise: out of host memory");
    return std::move(told.delta);
}

} // namespace vramwise_torch
