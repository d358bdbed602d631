// stand_in_state.cpp - what the stand-ins do. See stand_in_state.h.
#include "stand_in_state.h"

#include <cstdlib>
#include <cstring>

static thread_local c10::DeviceIndex current_device = 0;
static thread_local c10::StreamId current_stream = 0;
static thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

StandIn &stand_in()
{
    static StandIn state;
    return state;
}

void stand_in_set_device(c10::DeviceIndex device)
{
    current_device = device;
}

void stand_in_set_stream(c10::StreamId stream)
{
    current_stream = stream;
}

// ---- the CUDA runtime --------------------------------------------------------------------------

cudaError_t cudaMalloc(void **pointer, size_t size_bytes)
{
    *pointer = std::malloc(size_bytes);
    stand_in().uncached_blocks++;
    return *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *pointer)
{
    std::free(pointer);
    stand_in().uncached_blocks--;
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size_bytes, cudaMemcpyKind)
{
    std::memcpy(to, from, size_bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *, const void *, size_t, cudaMemcpyKind, cudaStream_t)
{
    stand_in().plain_copies++;
    return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void *, int, const void *, int, size_t, cudaStream_t)
{
    stand_in().peer_copies++;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned)
{
    std::pair<int, int> pair{current_device, device};
    for (const auto &known : stand_in().peers)
        if (known == pair)
            return cudaErrorPeerAccessAlreadyEnabled;
    stand_in().peers.push_back(pair);
    return cudaSuccess;
}

cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    stand_in().awaited.emplace_back(current_device, stream);
    return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer)
{
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle->reserved, &pointer, sizeof pointer);
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned)
{
    std::memcpy(pointer, handle.reserved, sizeof *pointer);
    stand_in().opened_handles++;
    return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *)
{
    stand_in().closed_handles++;
    return cudaSuccess;
}

// ---- c10 ---------------------------------------------------------------------------------------

namespace c10
{

static Allocator *cuda_allocator = nullptr;

void SetAllocator(DeviceType, Allocator *allocator, uint8_t)
{
    cuda_allocator = allocator;
}

Allocator *GetAllocator(const DeviceType &)
{
    return cuda_allocator;
}

bool memoryProfilingEnabled()
{
    return stand_in().is_profiling;
}

void reportMemoryUsageToProfiler(void *, int64_t change_bytes, size_t allocated_bytes,
                                 size_t reserved_bytes, Device)
{
    stand_in().reports.push_back({change_bytes, allocated_bytes, reserved_bytes});
}

void reportOutOfMemoryToProfiler(int64_t asked_bytes, size_t allocated_bytes, size_t reserved_bytes,
                                 Device)
{
    stand_in().out_of_memory_reports.push_back({asked_bytes, allocated_bytes, reserved_bytes});
}

namespace impl
{

void Interpreter::trace_gpu_memory_allocation(DeviceType, uintptr_t address) const
{
    stand_in().traced_allocations.push_back(address);
}

void Interpreter::trace_gpu_memory_deallocation(DeviceType, uintptr_t address) const
{
    stand_in().traced_deallocations.push_back(address);
}

const PyInterpreter *GPUTrace::get_trace()
{
    static const PyInterpreter interpreter{};
    return stand_in().is_tracing ? &interpreter : nullptr;
}

} // namespace impl

namespace CachingAllocator
{

#if STAND_IN_TORCH >= 209
size_t AcceleratorAllocatorConfig::max_split_size()
{
    return stand_in().max_split_bytes;
}

double AcceleratorAllocatorConfig::garbage_collection_threshold()
{
    return 0;
}

const std::vector<size_t> &AcceleratorAllocatorConfig::roundup_power2_divisions()
{
    static const std::vector<size_t> none(16, 0);
    return none;
}

bool AcceleratorAllocatorConfig::use_expandable_segments()
{
    return stand_in().is_expandable;
}

std::string AcceleratorAllocatorConfig::last_allocator_settings()
{
    return stand_in().conf;
}

static std::function<void(const std::string &)> &config_parser_hook()
{
    static std::function<void(const std::string &)> hook;
    return hook;
}

void AcceleratorAllocatorConfig::registerDeviceConfigParserHook(
    std::function<void(const std::string &)> &&hook, const std::unordered_set<std::string> &)
{
    config_parser_hook() = std::move(hook);
}
#endif

#if STAND_IN_TORCH >= 211
std::function<void(const std::string &)> &AcceleratorAllocatorConfig::getConfigParserHook()
{
    return config_parser_hook();
}
#endif

#if STAND_IN_TORCH >= 213
size_t AcceleratorAllocatorConfig::pinned_max_round_threshold()
{
    return 77;
}

size_t AcceleratorAllocatorConfig::pinned_max_cached_size()
{
    return 78;
}
#endif

void setAllocatorSettings(const std::string &conf)
{
    stand_in().conf = conf;
#if STAND_IN_TORCH >= 210
    if (auto &hook = config_parser_hook())
        hook(conf);
#endif
}

std::string getAllocatorSettings()
{
    return stand_in().conf;
}

} // namespace CachingAllocator

namespace
{

class Callback final : public FreeMemoryCallback
{
  public:
    bool Execute() override
    {
        return stand_in().free_memory();
    }
};

} // namespace

std::vector<std::string> FreeMemoryCallbacks::Keys() const
{
    return stand_in().free_memory ? std::vector<std::string>{"one"} : std::vector<std::string>{};
}

std::unique_ptr<FreeMemoryCallback> FreeMemoryCallbacks::Create(const std::string &) const
{
    return std::make_unique<Callback>();
}

FreeMemoryCallbacks *FreeCudaMemoryCallbacksRegistry()
{
    static FreeMemoryCallbacks callbacks;
    return &callbacks;
}

namespace cuda
{

CUDAStream getCurrentCUDAStream(DeviceIndex device)
{
    return {device >= 0 ? device : current_device, current_stream};
}

cudaError_t GetDevice(DeviceIndex *device)
{
    *device = current_device;
    return cudaSuccess;
}

DeviceIndex device_count() noexcept
{
    return static_cast<DeviceIndex>(stand_in().started_devices.size());
}

bool hasPrimaryContext(DeviceIndex device)
{
    return stand_in().started_devices.at(static_cast<size_t>(device));
}

void device_synchronize()
{
    TORCH_CHECK(!stand_in().is_capturing || capture_mode == cudaStreamCaptureModeRelaxed,
                "CUDA error: operation not permitted when stream is capturing");
    stand_in().idle_devices.push_back(current_device);
}

CUDAStreamCaptureModeGuard::CUDAStreamCaptureModeGuard(cudaStreamCaptureMode mode)
    : before_(capture_mode)
{
    capture_mode = mode;
}

CUDAStreamCaptureModeGuard::~CUDAStreamCaptureModeGuard()
{
    capture_mode = before_;
}

CUDAGuard::CUDAGuard(DeviceIndex device) : before_(current_device)
{
    TORCH_CHECK(!stand_in().is_unloading, "CUDA error: driver shutting down");
    current_device = device;
}

CUDAGuard::~CUDAGuard()
{
    current_device = before_;
}

#if STAND_IN_TORCH < 208
MemPool *MemPoolContext::getActiveMemPool()
{
    return stand_in().active_pool;
}
#endif

namespace CUDACachingAllocator
{

std::atomic<CUDAAllocator *> allocator{nullptr};

bool CUDAAllocatorConfig::expandable_segments()
{
    return stand_in().is_expandable;
}
bool CUDAAllocatorConfig::release_lock_on_cudamalloc()
{
    return false;
}
#if STAND_IN_TORCH >= 209
bool CUDAAllocatorConfig::graph_capture_record_stream_reuse()
{
    return false;
}
#endif
#if STAND_IN_TORCH >= 210
double CUDAAllocatorConfig::per_process_memory_fraction()
{
    return 1.0;
}
CUDAAllocatorConfig &CUDAAllocatorConfig::instance()
{
    static CUDAAllocatorConfig only;
    return only;
}
void CUDAAllocatorConfig::parseArgs(const std::string &conf)
{
    stand_in().parsed.push_back(conf);
}
#endif
size_t CUDAAllocatorConfig::max_split_size()
{
    return stand_in().max_split_bytes;
}
double CUDAAllocatorConfig::garbage_collection_threshold()
{
    return 0;
}
std::vector<size_t> CUDAAllocatorConfig::roundup_power2_divisions()
{
    return std::vector<size_t>(16, 0);
}
std::string CUDAAllocatorConfig::last_allocator_settings()
{
    return stand_in().conf;
}
bool CUDAAllocatorConfig::pinned_use_cuda_host_register()
{
    return false;
}
size_t CUDAAllocatorConfig::pinned_num_register_threads()
{
    return 1;
}

} // namespace CUDACachingAllocator
} // namespace cuda
} // namespace c10

void torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(
    const std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> &allocator)
{
    static std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> current;
    auto *before = c10::cuda::CUDACachingAllocator::get();
    TORCH_CHECK(before == nullptr || !before->initialized(),
                "Can't swap an already initialized allocator");
    current = allocator;
    c10::cuda::CUDACachingAllocator::allocator.store(allocator.get());
}
