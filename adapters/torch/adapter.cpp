// adapter.cpp - asking and freeing.
//
// The quick way is what a training step does ten thousand times: find the device and the stream,
// ask the pool, and look at one pointer that says whether anybody wants to know more (history,
// trackers, a second pool, sharing). Everything else goes the slow way, where nothing is in a
// hurry.
//
// In a child made by fork() the memory is the parent's: a free is passed over in silence, and a
// request fails in PyTorch's words. No lock is taken there, since another thread of the parent may
// have had it. That is so once the parent has started CUDA; before, the child may start it.
#include "adapter.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include <c10/core/impl/GPUTrace.h>

namespace vramwise_torch
{

namespace
{

std::atomic<Adapter *> the_adapter{nullptr};

bool is_set(const char *name)
{
    return std::getenv(name) != nullptr;
}

// Without our help: what PyTorch does where its caching is switched off.
void delete_uncached(void *pointer)
{
    if (const auto *interpreter = c10::impl::GPUTrace::get_trace())
        (*interpreter)->trace_gpu_memory_deallocation(c10::kCUDA, address_of(pointer));
    C10_CUDA_CHECK(cudaFree(pointer));
}

void *allocate_uncached(size_t size_bytes)
{
    void *pointer = nullptr;
    C10_CUDA_CHECK(cudaMalloc(&pointer, size_bytes));
    if (const auto *interpreter = c10::impl::GPUTrace::get_trace())
        (*interpreter)->trace_gpu_memory_allocation(c10::kCUDA, address_of(pointer));
    return pointer;
}

[[noreturn]] void fail_after_fork()
{
    TORCH_CHECK(false, "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
                       "multiprocessing, you must use the 'spawn' start method");
    std::abort(); // not reached: the compiler cannot know
}

std::atomic<bool> may_be_profiled{true};

// Whether somebody outside of the allocator wants to hear of single blocks.
bool has_audience()
{
    return (may_be_profiled.load(std::memory_order_relaxed) && c10::memoryProfilingEnabled()) ||
           c10::impl::GPUTrace::get_trace() != nullptr;
}

} // namespace

void expect_profilers(bool is_expected)
{
    may_be_profiled.store(is_expected, std::memory_order_relaxed);
}

Adapter *installed_adapter()
{
    return the_adapter.load(std::memory_order_acquire);
}

std::string shown(const void *pointer)
{
    char text[32];
    std::snprintf(text, sizeof text, "%p", pointer);
    return text;
}

void set_installed_adapter(Adapter *adapter)
{
    the_adapter.store(adapter, std::memory_order_release);
}

Adapter::Adapter(AdapterOptions options)
    : options_(std::move(options)), is_caching_forbidden_(is_set("PYTORCH_NO_CUDA_MEMORY_CACHING")),
      is_shareable_([] {
          const char *value = std::getenv("TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC");
          return value == nullptr || std::strcmp(value, "0") != 0;
      }())
{
    for (int i = 0; i < most_devices; i++) {
        devices_[static_cast<size_t>(i)].index = static_cast<c10::DeviceIndex>(i);
        devices_[static_cast<size_t>(i)].history_settings = &history_;
    }
    confs_.push_back(last_allocator_settings_in_force());
    if (options_.spill_bytes == 0)
        return;
    check_done(vw_pinned_budget_create(options_.spill_bytes, &pinned_budget_));
    stream_ = std::make_unique<StateStream>(devices_.data(), devices_.size(), pinned_budget_,
                                            &Adapter::delete_block);
    for (DevicePools &device : devices_)
        device.stream = stream_.get();
}

// ---- where a call belongs ----------------------------------------------------------------------

cudaStream_t remembered_handle_of(const CUDAStream &stream)
{
    struct Remembered {
        c10::StreamId id;
        c10::DeviceIndex device;
        cudaStream_t handle;
    };
    // A stream of PyTorch's is never destroyed, and that of anybody else has its handle for a
    // number: what was true once stays true.
    static thread_local Remembered last{0, -1, nullptr};
    if (last.id != stream.id() || last.device != stream.device_index())
        last = {stream.id(), stream.device_index(), stream.stream()};
    return last.handle;
}

c10::DeviceIndex Adapter::ask_current_device() const
{
    c10::DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    return device;
}

bool Adapter::is_uncached() const
{
    return is_caching_forbidden_ || !is_enabled_.load(std::memory_order_relaxed);
}

bool Adapter::is_forked() const
{
    int process_id = process_id_.load(std::memory_order_relaxed);
    return process_id != 0 && process_id != getpid();
}

// ---- asking ------------------------------------------------------------------------------------

inline void *Adapter::serve(c10::DeviceIndex device, size_t size_bytes, cudaStream_t stream)
{
    vw_pool *pool =
        devices_[static_cast<size_t>(device)].quick_alloc.load(std::memory_order_acquire);
    if (C10_UNLIKELY(pool == nullptr || has_audience()))
        return serve_slowly(device, size_bytes, stream);
    vw_device_ptr address;
    vw_status status = vw_alloc(pool, size_bytes, stream_number(stream), &address);
    if (C10_UNLIKELY(status != VW_OK))
        fail_with(status, device);
    return pointer_to(address);
}

// Apart from serve(), which thus needs no room for a failure.
void Adapter::fail_with(vw_status status, c10::DeviceIndex device)
{
    fail(failure_of(status), device);
}

void *Adapter::serve_slowly(c10::DeviceIndex device, size_t size_bytes, cudaStream_t stream)
{
    if (is_forked())
        fail_after_fork();
    if (size_bytes == 0)
        return nullptr;
    if (is_uncached())
        return allocate_uncached(size_bytes);
    DevicePools &pools = devices_[static_cast<size_t>(device)];
    if (stream_ != nullptr && stream_->is_on())
        stream_->note_request(pools, size_bytes);
    if (vw_pool *pool = pools.watched.load(std::memory_order_acquire); pool && !has_audience()) {
        vw_device_ptr address;
        vw_status status = vw_alloc(pool, size_bytes, stream_number(stream), &address);
        if (status != VW_OK)
            fail_with(status, device);
        return pointer_to(address);
    }
    return serve_observed(ready(device), size_bytes, stream);
}

// `at` other than VW_NULL: there, or not at all.
void *Adapter::serve_observed(DevicePools &device, size_t size_bytes, cudaStream_t stream,
                              vw_device_ptr at)
{
    const Context context = history_.gather(RecordContext::STATE);
    uint64_t tag = context != nullptr ? device.history.contexts.add(context) : 0;
    uint64_t served_bytes = 0;
    vw_alloc_request request{};
    request.struct_size = sizeof request;
    request.size_bytes = size_bytes;
    request.stream = stream_number(stream);
    request.tag = tag;
    request.at = at;
    request.served_bytes = &served_bytes;
    vw_device_ptr address = VW_NULL;
    Failure failure;
    {
        CurrentCall call(context);
        failure = ask(device, request, &address);
    }
    if (tag != 0)
        device.history.contexts.settle(tag);
    if (failure.status != VW_OK)
        fail(failure, device.index);
    if (tag != 0 && device.history.contexts.is_sweep_due())
        sweep_contexts(device);
    if (const auto *interpreter = c10::impl::GPUTrace::get_trace())
        (*interpreter)->trace_gpu_memory_allocation(c10::kCUDA, address);
    if (c10::memoryProfilingEnabled())
        tell_profiler(device, pointer_to(address), static_cast<int64_t>(served_bytes));
    return pointer_to(address);
}

Failure failure_of(vw_status status)
{
    Failure failure;
    failure.status = status;
    if (status == VW_OK)
        return failure;
    failure.text = vw_last_error();
    failure.report.struct_size = sizeof failure.report;
    bool has_report = status == VW_ERR_OUT_OF_MEMORY || status == VW_ERR_REJECTED;
    if (has_report && vw_last_out_of_memory(&failure.report) != VW_OK)
        failure.report = {};
    return failure;
}

// Says it as PyTorch would have. Without any lock.
void Adapter::fail(const Failure &failure, c10::DeviceIndex device)
{
    const std::string &text = failure.text;
    switch (failure.status) {
    case VW_ERR_OUT_OF_MEMORY:
        tell_out_of_memory(failure.report, device);
        TORCH_CHECK_WITH(OutOfMemoryError, false, text);
        break;
    case VW_ERR_REJECTED:
        tell_rejection(failure.report, device);
        TORCH_CHECK_WITH(OutOfMemoryError, false, text);
        break;
    case VW_ERR_TOO_LARGE:
        TORCH_CHECK_WITH(OutOfMemoryError, false, text);
        break;
    case VW_ERR_WRONG_PROCESS:
        fail_after_fork();
    case VW_ERR_DEVICE:
        C10_CUDA_CHECK(cudaGetLastError()); // PyTorch's words for it, if the runtime knows it too
        TORCH_CHECK(false, "CUDA driver error: ", text);
        break;
    default:
        TORCH_CHECK(false, "vramwise: ", vw_status_message(failure.status), ": ", text);
    }
    std::abort(); // not reached
}

c10::DataPtr Adapter::allocate(size_t size_bytes)
{
    constexpr size_t one_exbibyte = size_t{1} << 60;
    TORCH_CHECK_WITH(OutOfMemoryError, size_bytes < one_exbibyte,
                     "CUDA out of memory. Tried to allocate more than 1EB memory.");
    c10::DeviceIndex device = current_device();
    const c10::Device place(c10::DeviceType::CUDA, device);
    if (C10_UNLIKELY(is_uncached())) {
        void *pointer = allocate_uncached(size_bytes);
        return {pointer, pointer, &delete_uncached, place};
    }
    void *pointer = nullptr;
    if (C10_LIKELY(size_bytes != 0))
        pointer = serve(device, size_bytes, handle_of(c10::cuda::getCurrentCUDAStream(device)));
    return {pointer, pointer, &Adapter::delete_block, place};
}

void *Adapter::raw_alloc(size_t size_bytes)
{
    if (size_bytes == 0)
        return nullptr;
    c10::DeviceIndex device = current_device();
    return serve(device, size_bytes, handle_of(c10::cuda::getCurrentCUDAStream(device)));
}

void *Adapter::raw_alloc_with_stream(size_t size_bytes, cudaStream_t stream)
{
    if (size_bytes == 0)
        return nullptr;
    return serve(current_device(), size_bytes, stream);
}

// For storages that are to come back where they were. Never answered with another address.
c10::DataPtr Adapter::allocateWithAddress(size_t size_bytes, void *there)
{
    c10::DeviceIndex device = current_device();
    const c10::Device place(c10::DeviceType::CUDA, device);
    TORCH_CHECK(!is_uncached(), "an exact address needs a caching allocator");
    if (is_forked())
        fail_after_fork();
    void *pointer = nullptr;
    if (size_bytes != 0)
        pointer =
            serve_observed(ready(device), size_bytes,
                           handle_of(c10::cuda::getCurrentCUDAStream(device)), address_of(there));
    return {pointer, pointer, &Adapter::delete_block, place};
}

c10::DeleterFnPtr Adapter::raw_deleter() const
{
    return is_uncached() ? &delete_uncached : &Adapter::delete_block;
}

// ---- freeing -----------------------------------------------------------------------------------

void Adapter::delete_block(void *pointer)
{
    installed_adapter()->Adapter::raw_delete(pointer);
}

// Throws for a pointer that is nobody's, as PyTorch does, deleter or not. A driver that fails to
// record an event is no reason: the block is free, and waits for the whole device.
void Adapter::raw_delete(void *pointer)
{
    c10::DeviceIndex device = 0;
    if (C10_UNLIKELY(device_count_.load(std::memory_order_relaxed) != 1) &&
        (c10::cuda::GetDevice(&device) != cudaSuccess || device < 0))
        device = 0; // whose block it is comes out all the same
    vw_pool *pool =
        devices_[static_cast<size_t>(device)].quick_free.load(std::memory_order_acquire);
    if (C10_LIKELY(pool != nullptr && !has_audience()) &&
        C10_LIKELY(vw_free(pool, address_of(pointer)) != VW_ERR_UNKNOWN_ADDRESS))
        return;
    free_slowly(pointer);
}

// VW_ERR_UNKNOWN_ADDRESS: it is no block of this device.
vw_status Adapter::free_in(DevicePools &device, void *pointer)
{
    vw_status status = VW_ERR_UNKNOWN_ADDRESS;
    device.for_each_pool([&](vw_pool *pool) {
        if (status == VW_ERR_UNKNOWN_ADDRESS)
            status = vw_free(pool, address_of(pointer));
    });
    return status;
}

void Adapter::free_slowly(void *pointer)
{
    if (pointer == nullptr || is_forked())
        return;
    Context context;
    try {
        context = history_.gather(RecordContext::ALL);
    } catch (...) {
        // Freed it is all the same: an exception that leaves a deleter ends the process.
    }
    DevicePools *owner = nullptr;
    int64_t block_bytes = 0;
    if (has_audience()) {
        vw_pool *pool = nullptr;
        vw_block_place place{};
        if (find(pointer, &owner, &pool, &place))
            block_bytes = static_cast<int64_t>(place.block_bytes);
        if (const auto *interpreter = c10::impl::GPUTrace::get_trace())
            (*interpreter)->trace_gpu_memory_deallocation(c10::kCUDA, address_of(pointer));
    }
    vw_status status = VW_ERR_UNKNOWN_ADDRESS;
    bool was_kept = foreign_uses_.finish(address_of(pointer));
    {
        SharedOut::Ending ending = shared_out_.take(address_of(pointer)); // ends after the free
        was_kept |= ending.is_something();
        CurrentCall call(context);
        int count = device_count_.load(std::memory_order_acquire);
        for (int i = 0; i < count && status == VW_ERR_UNKNOWN_ADDRESS; i++)
            status = free_in(devices_[static_cast<size_t>(i)], pointer);
    }
    if (was_kept)
        settle_all_quick_ways();
    if (status != VW_ERR_UNKNOWN_ADDRESS) {
        if (owner != nullptr && c10::memoryProfilingEnabled())
            tell_profiler(*owner, pointer, -block_bytes);
        return;
    }
    if (is_uncached()) {
        C10_CUDA_CHECK(cudaFree(pointer));
        return;
    }
    TORCH_CHECK(false, "invalid device pointer: ", shown(pointer));
}

// Which block holds `pointer`, in which pool of which device.
bool Adapter::find(const void *pointer, DevicePools **device, vw_pool **pool, vw_block_place *place)
{
    int count = device_count_.load(std::memory_order_acquire);
    bool is_found = false;
    for (int i = 0; i < count && !is_found; i++) {
        DevicePools &candidate = devices_[static_cast<size_t>(i)];
        candidate.for_each_pool([&](vw_pool *candidate_pool) {
            if (is_found || vw_pool_find(candidate_pool, address_of(pointer), place) != VW_OK)
                return;
            is_found = true;
            *device = &candidate;
            *pool = candidate_pool;
        });
    }
    return is_found;
}

// ---- the rest of a block's life ----------------------------------------------------------------

void Adapter::recordStream(const c10::DataPtr &pointer, CUDAStream stream)
{
    // Memory that came here by another way (IPC, a pool's own source seen from outside, views that
    // PyTorch made of foreign memory) has another deleter, and its owner sees to it.
    if (!pointer.get() || pointer.get_deleter() != &Adapter::delete_block || is_forked())
        return;
    const vw_device_ptr address = address_of(pointer.get());
    const cudaStream_t handle = handle_of(stream);
    c10::DeviceIndex index = pointer.device().index();
    if (index < 0)
        index = stream.device_index(); // somebody made the pointer who did not say
    if (C10_UNLIKELY(index != stream.device_index())) {
        foreign_uses_.add(address, {stream.device_index(), handle});
        settle_all_quick_ways(); // from now on a free has to look
        return;
    }
    vw_status status = VW_ERR_UNKNOWN_ADDRESS;
    devices_[static_cast<size_t>(index)].for_each_pool([&](vw_pool *pool) {
        if (status == VW_ERR_UNKNOWN_ADDRESS)
            status = vw_record_stream(pool, address, stream_number(handle));
    });
    TORCH_INTERNAL_ASSERT(status != VW_ERR_UNKNOWN_ADDRESS, "No allocated block can be found");
    check_done(status);
}

void Adapter::copy_data(void *to, const void *from, std::size_t size_bytes) const
{
    C10_CUDA_CHECK(cudaMemcpy(to, from, size_bytes, cudaMemcpyDeviceToDevice));
}

void Adapter::enable(bool is_enabled)
{
    is_enabled_.store(is_enabled);
    settle_all_quick_ways();
}

bool Adapter::isEnabled() const
{
    return is_enabled_.load(std::memory_order_relaxed);
}

} // namespace vramwise_torch
