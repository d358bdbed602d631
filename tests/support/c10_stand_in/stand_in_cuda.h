// stand_in_cuda.h - so much of c10::cuda as the adapter uses: see stand_in_c10.h.
#pragma once

#include "stand_in_c10.h"
#include "stand_in_cudart.h"

#define C10_CUDA_CHECK(call)                                                                       \
    do {                                                                                           \
        cudaError_t stand_in_error = (call);                                                       \
        TORCH_CHECK(stand_in_error == cudaSuccess,                                                 \
                    "CUDA error: ", static_cast<int>(stand_in_error));                             \
    } while (false)

namespace c10
{

class FreeMemoryCallback
{
  public:
    virtual ~FreeMemoryCallback() = default;
    virtual bool Execute() = 0;
};

struct FreeMemoryCallbacks {
    std::vector<std::string> Keys() const;
    std::unique_ptr<FreeMemoryCallback> Create(const std::string &name) const;
};
FreeMemoryCallbacks *FreeCudaMemoryCallbacksRegistry();

namespace cuda
{

class CUDAStream
{
  public:
    CUDAStream(DeviceIndex device, StreamId number) : device_(device), number_(number)
    {
    }
    explicit CUDAStream(Stream stream) : CUDAStream(stream.device, stream.number)
    {
    }
    StreamId id() const
    {
        return number_;
    }
    DeviceIndex device_index() const
    {
        return device_;
    }
    cudaStream_t stream() const
    {
        return reinterpret_cast<cudaStream_t>(number_);
    }

  private:
    DeviceIndex device_;
    StreamId number_;
};

CUDAStream getCurrentCUDAStream(DeviceIndex device = -1);
cudaError_t GetDevice(DeviceIndex *device);
DeviceIndex device_count() noexcept;
bool hasPrimaryContext(DeviceIndex device);
void device_synchronize();

class CUDAGuard
{
  public:
    explicit CUDAGuard(DeviceIndex device);
    ~CUDAGuard();
    CUDAGuard(const CUDAGuard &) = delete;

  private:
    DeviceIndex before_;
};

class CUDAStreamCaptureModeGuard
{
  public:
    explicit CUDAStreamCaptureModeGuard(cudaStreamCaptureMode mode);
    ~CUDAStreamCaptureModeGuard();
    CUDAStreamCaptureModeGuard(const CUDAStreamCaptureModeGuard &) = delete;

  private:
    cudaStreamCaptureMode before_;
};

namespace CUDACachingAllocator
{

using CachingDeviceAllocator::AllocatorTraceTracker;
using CachingDeviceAllocator::BlockInfo;
using CachingDeviceAllocator::CreateContextFn;
using CachingDeviceAllocator::DeviceStats;
using CachingDeviceAllocator::RecordContext;
using CachingDeviceAllocator::SegmentInfo;
using CachingDeviceAllocator::TraceEntry;

class CUDAAllocatorConfig
{
  public:
    static size_t max_split_size();
    static double garbage_collection_threshold();
    static std::vector<size_t> roundup_power2_divisions();
    static std::string last_allocator_settings();
    static bool expandable_segments();
    static bool release_lock_on_cudamalloc();
#if STAND_IN_TORCH >= 209
    static bool graph_capture_record_stream_reuse();
#endif
#if STAND_IN_TORCH >= 210
    static double per_process_memory_fraction();
    static CUDAAllocatorConfig &instance();
    void parseArgs(const std::string &conf);
#endif
    static bool pinned_use_cuda_host_register();
    static size_t pinned_num_register_threads();
};

struct AllocatorState {
    virtual ~AllocatorState() = default;
};
struct AllocatorConfigInfo {
    double garbage_collection_threshold;
    size_t max_split_size;
    size_t pinned_num_register_threads;
    bool expandable_segments;
    bool release_lock_on_malloc;
    bool pinned_use_host_register;
#if STAND_IN_TORCH >= 209
    bool graph_capture_record_stream_reuse;
#endif
    std::string last_allocator_settings;
    std::vector<size_t> roundup_power2_divisions;
#if STAND_IN_TORCH >= 213
    size_t max_round_threshold;
    size_t max_cached_size;
#endif
};
struct SnapshotInfo {
    std::vector<SegmentInfo> segments;
    std::vector<std::vector<TraceEntry>> device_traces;
    std::vector<CachingDeviceAllocator::AnnotationEntry> external_annotations;
    AllocatorConfigInfo config_metadata;
};
struct CheckpointDelta {
    std::vector<void *> ptrs_freed;
    std::vector<DataPtr> dataptrs_allocd;
};
using OutOfMemoryObserver =
    std::function<void(int64_t device, size_t allocated, size_t device_total, size_t device_free)>;
struct ShareableHandle {
    ptrdiff_t offset;
    std::string handle;
};
#if STAND_IN_TORCH >= 210
struct StreamSegmentSize {
    StreamSegmentSize(cudaStream_t of_stream, bool is_small, size_t size_bytes)
        : stream(of_stream), is_small_pool(is_small), total_size(size_bytes)
    {
    }
    cudaStream_t stream;
    bool is_small_pool;
    size_t total_size;
};
#endif
#if STAND_IN_TORCH >= 212
using OomRejectionObserver = std::function<void(int64_t device, size_t alloc_size,
                                                size_t total_allocated, size_t device_total)>;
#endif

#if STAND_IN_TORCH >= 209
class CUDAAllocator : public DeviceAllocator
#else
class CUDAAllocator : public Allocator
#endif
{
  public:
    virtual void *raw_alloc(size_t) = 0;
    virtual void *raw_alloc_with_stream(size_t, cudaStream_t) = 0;
    virtual void raw_delete(void *) = 0;
    virtual void init(int) = 0;
    virtual void setMemoryFraction(double, DeviceIndex) = 0;
#if STAND_IN_TORCH < 209
    virtual bool initialized() = 0;
    virtual CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) = 0;
    virtual void resetAccumulatedStats(DeviceIndex) = 0;
    virtual void resetPeakStats(DeviceIndex) = 0;
#endif
#if STAND_IN_TORCH < 208
    virtual void emptyCache() = 0;
#elif STAND_IN_TORCH < 209
    virtual void emptyCache(MempoolId_t = {0, 0}) = 0;
#endif
#if STAND_IN_TORCH >= 206
    virtual double getMemoryFraction(DeviceIndex) = 0;
    virtual void enable(bool) = 0;
    virtual bool isEnabled() const = 0;
#endif
#if STAND_IN_TORCH >= 210
    virtual std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex) = 0;
#endif
    virtual void cacheInfo(DeviceIndex, size_t *) = 0;
    virtual void *getBaseAllocation(void *, size_t *) = 0;
    virtual void recordStream(const DataPtr &, CUDAStream) = 0;
#if STAND_IN_TORCH >= 209
    void recordStream(const DataPtr &pointer, Stream stream) override
    {
        recordStream(pointer, CUDAStream(stream));
    }
#endif
#if STAND_IN_TORCH < 208
    virtual SnapshotInfo snapshot() = 0;
#elif STAND_IN_TORCH < 211
    virtual SnapshotInfo snapshot(MempoolId_t = {0, 0}) = 0;
#else
    virtual SnapshotInfo snapshot(MempoolId_t = {0, 0}, bool = true) = 0;
#endif
    virtual void beginAllocateToPool(DeviceIndex, MempoolId_t,
                                     std::function<bool(cudaStream_t)>) = 0;
    virtual void endAllocateToPool(DeviceIndex, MempoolId_t) = 0;
    virtual void releasePool(DeviceIndex, MempoolId_t) = 0;
    // What has a body in PyTorch, which refuses or does nothing, has none here: what the adapter
    // does not override then cannot be made.
#if STAND_IN_TORCH >= 206
    virtual int getPoolUseCount(DeviceIndex, MempoolId_t) = 0;
#endif
#if STAND_IN_TORCH < 208
#if STAND_IN_TORCH >= 206
    virtual void ensureExistsAndIncrefPool(DeviceIndex, MempoolId_t) = 0;
#endif
#elif STAND_IN_TORCH < 211
    virtual void createOrIncrefPool(DeviceIndex, MempoolId_t, CUDAAllocator * = nullptr) = 0;
    virtual void setUseOnOOM(DeviceIndex, MempoolId_t) = 0;
#else
    virtual void createOrIncrefPool(DeviceIndex, MempoolId_t,
                                    std::shared_ptr<CUDAAllocator> = nullptr) = 0;
    virtual void setUseOnOOM(DeviceIndex, MempoolId_t, bool) = 0;
#endif
#if STAND_IN_TORCH >= 210
    virtual void setNoSplit(DeviceIndex, MempoolId_t) = 0;
#endif
    virtual bool checkPoolLiveAllocations(DeviceIndex, MempoolId_t,
                                          const std::unordered_set<void *> &) = 0;
    virtual ShareableHandle shareIpcHandle(void *) = 0;
    virtual std::shared_ptr<void> getIpcDevPtr(std::string) = 0;
    virtual bool isHistoryEnabled() = 0;
#if STAND_IN_TORCH < 208
    virtual void recordHistory(bool, CreateContextFn, size_t, RecordContext) = 0;
#elif STAND_IN_TORCH < 211
    virtual void recordHistory(bool, CreateContextFn, size_t, RecordContext, bool) = 0;
#else
    virtual void recordHistory(bool, CreateContextFn, size_t, RecordContext, bool,
                               const std::vector<std::string> &) = 0;
#endif
    virtual void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &) = 0;
#if STAND_IN_TORCH >= 208
    virtual void pushCompileContext(std::string &) = 0;
    virtual void popCompileContext() = 0;
#endif
#if STAND_IN_TORCH >= 210
    virtual void setUserMetadata(const std::string &) = 0;
    virtual std::string getUserMetadata() = 0;
#endif
#if STAND_IN_TORCH >= 212
    virtual std::shared_ptr<GatheredContext> getContextForPointer(const void *) = 0;
    virtual void attachOomRejectionObserver(OomRejectionObserver) = 0;
#endif
#if STAND_IN_TORCH >= 213
    virtual void markCaptureBegin(DeviceIndex)
    {
    }
    virtual void markCaptureEnd(DeviceIndex)
    {
    }
    virtual DataPtr allocateWithAddress(size_t, void *) = 0;
#endif
#if STAND_IN_TORCH >= 214
    virtual bool supportsUserMetadata() = 0;
    virtual void annotateMemory(const void *, const std::string &) = 0;
#endif
    virtual void attachOutOfMemoryObserver(OutOfMemoryObserver) = 0;
    virtual void attachAllocatorTraceTracker(AllocatorTraceTracker) = 0;
    virtual void enablePeerAccess(DeviceIndex, DeviceIndex) = 0;
    virtual cudaError_t memcpyAsync(void *, int, const void *, int, size_t, cudaStream_t, bool) = 0;
    virtual std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex, MempoolId_t) = 0;
    virtual CheckpointDelta setCheckpointPoolState(DeviceIndex,
                                                   std::shared_ptr<AllocatorState>) = 0;
    virtual std::string name() = 0;
};

} // namespace CUDACachingAllocator

#if STAND_IN_TORCH < 208
// What torch.cuda.use_mem_pool() sets for the calling thread.
struct MemPool {
    MempoolId_t id()
    {
        return number;
    }
    CUDACachingAllocator::CUDAAllocator *allocator()
    {
        return source;
    }
    MempoolId_t number;
    CUDACachingAllocator::CUDAAllocator *source;
};
struct MemPoolContext {
    static MemPool *getActiveMemPool();
};
#endif

namespace CUDACachingAllocator
{

extern std::atomic<CUDAAllocator *> allocator;
inline CUDAAllocator *get()
{
    return allocator.load();
}

} // namespace CUDACachingAllocator
} // namespace cuda
} // namespace c10

namespace torch
{
namespace cuda
{
namespace CUDAPluggableAllocator
{
void changeCurrentAllocator(
    const std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> &allocator);
}
} // namespace cuda
} // namespace torch
