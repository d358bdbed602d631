// stand_in_c10.h - so much of c10 as the adapter uses, by the same names and shapes, so that it can
// be compiled and run where there is no PyTorch. Written for that purpose: where the real thing
// does more, this does what the adapter can notice. tools/check_adapter.sh compiles the adapter
// against the real thing.
//
// STAND_IN_TORCH is the version whose shape they take: 205 is 2.5, 215 is 2.15. Only what the
// adapter can tell apart differs, and where it is unsure PyTorch's own headers decide.
#pragma once

#ifndef STAND_IN_TORCH
#define STAND_IN_TORCH 211
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#define C10_LIKELY(condition) __builtin_expect(static_cast<bool>(condition), 1)
#define C10_UNLIKELY(condition) __builtin_expect(static_cast<bool>(condition), 0)

struct CUstream_st;

namespace c10
{

// ---- errors ------------------------------------------------------------------------------------

class Error : public std::runtime_error
{
  public:
    using std::runtime_error::runtime_error;
};
class OutOfMemoryError : public Error
{
  public:
    using Error::Error;
};
class ValueError : public Error
{
  public:
    using Error::Error;
};

namespace joining
{
template <class... Parts> std::string join(const Parts &...parts)
{
    std::ostringstream text;
    (void)(text << ... << parts);
    return text.str();
}
} // namespace joining

#define TORCH_CHECK_WITH(error, condition, ...)                                                    \
    do {                                                                                           \
        if (C10_UNLIKELY(!(condition)))                                                            \
            throw ::c10::error(::c10::joining::join(__VA_ARGS__));                                 \
    } while (false)
#define TORCH_CHECK(...) TORCH_CHECK_WITH(Error, __VA_ARGS__, "")
#define TORCH_CHECK_VALUE(...) TORCH_CHECK_WITH(ValueError, __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(...) TORCH_CHECK_WITH(Error, __VA_ARGS__)
#define TORCH_WARN(...) (void)::c10::joining::join(__VA_ARGS__)

// ---- devices, streams, pointers ----------------------------------------------------------------

using DeviceIndex = int8_t;
using StreamId = int64_t;
enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
constexpr DeviceType kCUDA = DeviceType::CUDA;

struct Device {
    Device(DeviceType type, DeviceIndex index) : type_(type), index_(index)
    {
    }
    DeviceIndex index() const
    {
        return index_;
    }
    DeviceType type_;
    DeviceIndex index_;
};

struct Stream {
    DeviceIndex device;
    StreamId number;
};

using DeleterFnPtr = void (*)(void *);

class DataPtr
{
  public:
    DataPtr(void *data, void *context, DeleterFnPtr deleter, Device device)
        : data_(data), context_(context, deleter), device_(device)
    {
    }
    DataPtr(void *data, Device device)
        : DataPtr(
              data, nullptr, [](void *) {}, device)
    {
    }
    void *get() const
    {
        return data_;
    }
    DeleterFnPtr get_deleter() const
    {
        return context_.get_deleter();
    }
    void *release_context()
    {
        return context_.release();
    }
    Device device() const
    {
        return device_;
    }

  private:
    void *data_;
    std::unique_ptr<void, DeleterFnPtr> context_;
    Device device_;
};

using CaptureId_t = unsigned long long;
using MempoolId_t = std::pair<CaptureId_t, CaptureId_t>;

struct Allocator {
    virtual ~Allocator() = default;
    virtual DataPtr allocate(size_t size_bytes) = 0;
    virtual DeleterFnPtr raw_deleter() const
    {
        return nullptr;
    }
    virtual void copy_data(void *to, const void *from, std::size_t size_bytes) const = 0;
};

void SetAllocator(DeviceType type, Allocator *allocator, uint8_t priority = 0);
Allocator *GetAllocator(const DeviceType &type);

// ---- those who watch ---------------------------------------------------------------------------

bool memoryProfilingEnabled();
void reportMemoryUsageToProfiler(void *pointer, int64_t change_bytes, size_t allocated_bytes,
                                 size_t reserved_bytes, Device device);
void reportOutOfMemoryToProfiler(int64_t asked_bytes, size_t allocated_bytes, size_t reserved_bytes,
                                 Device device);

struct GatheredContext {
    virtual ~GatheredContext() = default;
};

namespace impl
{
struct Interpreter {
    void trace_gpu_memory_allocation(DeviceType type, uintptr_t address) const;
    void trace_gpu_memory_deallocation(DeviceType type, uintptr_t address) const;
};
struct PyInterpreter {
    const Interpreter *operator->() const
    {
        return &interpreter;
    }
    Interpreter interpreter;
};
struct GPUTrace {
    static const PyInterpreter *get_trace();
};
} // namespace impl

using time_t = int64_t;
using approx_time_t = uint64_t;

inline approx_time_t getApproximateTime()
{
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<approx_time_t>(now / std::chrono::nanoseconds(1));
}

class ApproximateClockToUnixTimeConverter
{
  public:
    std::function<time_t(approx_time_t)> makeConverter()
    {
        return [](approx_time_t time) { return static_cast<time_t>(time); };
    }
};

// ---- statistics and settings -------------------------------------------------------------------

namespace CachingAllocator
{

struct Stat {
    int64_t current = 0;
    int64_t peak = 0;
    int64_t allocated = 0;
    int64_t freed = 0;
};
enum struct StatType : uint64_t { AGGREGATE = 0, SMALL_POOL = 1, LARGE_POOL = 2, NUM_TYPES = 3 };
using StatArray = std::array<Stat, static_cast<size_t>(StatType::NUM_TYPES)>;

#if STAND_IN_TORCH >= 209
class AcceleratorAllocatorConfig
{
  public:
    static size_t max_split_size();
    static double garbage_collection_threshold();
    static const std::vector<size_t> &roundup_power2_divisions();
    static bool use_expandable_segments();
    static std::string last_allocator_settings();
    static void registerDeviceConfigParserHook(std::function<void(const std::string &)> &&hook,
                                               const std::unordered_set<std::string> &keys);
#if STAND_IN_TORCH >= 211
    static std::function<void(const std::string &)> &getConfigParserHook();
#endif
#if STAND_IN_TORCH >= 213
    static size_t pinned_max_round_threshold();
    static size_t pinned_max_cached_size();
#endif
};
#endif

// What torch.cuda.memory._set_allocator_settings() comes to.
void setAllocatorSettings(const std::string &conf);
std::string getAllocatorSettings();

} // namespace CachingAllocator

// ---- what a device allocator tells -------------------------------------------------------------

namespace CachingDeviceAllocator
{

using CachingAllocator::Stat;
using CachingAllocator::StatArray;

struct DeviceStats {
    StatArray allocation, segment, active, inactive_split;
    StatArray allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
#if STAND_IN_TORCH >= 213
    std::map<MempoolId_t, StatArray> reserved_bytes_by_private_pools;
#endif
    int64_t num_alloc_retries = 0;
    int64_t num_ooms = 0;
    Stat oversize_allocations;
    Stat oversize_segments;
    int64_t num_sync_all_streams = 0;
    int64_t num_device_alloc = 0;
    int64_t num_device_free = 0;
#if STAND_IN_TORCH >= 212
    int64_t num_oom_rejections = 0;
#endif
    int64_t max_split_size = 0;
};

#if STAND_IN_TORCH >= 211
using StreamHandle = void *;
#else
using StreamHandle = ::CUstream_st *;
#endif

using CreateContextFn = std::shared_ptr<GatheredContext> (*)();
enum struct RecordContext { NEVER = 0, STATE = 1, ALLOC = 2, ALL = 3 };

struct BlockInfo {
    size_t size = 0;
    size_t requested_size = 0;
    int32_t gc_counter = 0;
    bool allocated = false;
    bool active = false;
    std::shared_ptr<GatheredContext> context_when_allocated;
};

struct SegmentInfo {
    DeviceIndex device = 0;
#if STAND_IN_TORCH >= 211
    int32_t registration_counter = -1;
#endif
    size_t address = 0;
    size_t total_size = 0;
    size_t requested_size = 0;
    size_t allocated_size = 0;
    size_t active_size = 0;
    StreamHandle stream = nullptr;
    bool is_large = false;
    bool is_expandable = false;
    MempoolId_t owner_private_pool_id = {0, 0};
    std::vector<BlockInfo> blocks;
    std::shared_ptr<GatheredContext> context_when_allocated;
};

union trace_time_ {
    time_t t_;
    approx_time_t approx_t_;
};

struct TraceEntry {
    enum Action {
        ALLOC,
        FREE_REQUESTED,
        FREE_COMPLETED,
        SEGMENT_ALLOC,
        SEGMENT_FREE,
        SEGMENT_MAP,
        SEGMENT_UNMAP,
        SNAPSHOT,
        OOM,
#if STAND_IN_TORCH >= 214
        ANNOTATE
#endif
    };
    TraceEntry(Action action, DeviceIndex device, size_t address, size_t size_bytes,
               StreamHandle stream,
#if STAND_IN_TORCH >= 208
               MempoolId_t pool,
#endif
               approx_time_t time, std::shared_ptr<GatheredContext> context = nullptr
#if STAND_IN_TORCH >= 208
               ,
               std::string compile_context = ""
#endif
#if STAND_IN_TORCH >= 210
               ,
               std::string user_metadata = ""
#endif
               )
        : action_(action), device_(device), addr_(address), context_(std::move(context)),
          stream_(stream), size_(size_bytes)
    {
        time_.approx_t_ = time;
#if STAND_IN_TORCH >= 208
        mempool_ = pool;
        compile_context_ = std::move(compile_context);
#endif
#if STAND_IN_TORCH >= 210
        user_metadata_ = std::move(user_metadata);
#endif
    }
    Action action_;
    DeviceIndex device_;
    size_t addr_;
    std::shared_ptr<GatheredContext> context_;
    StreamHandle stream_;
    size_t size_;
    trace_time_ time_{};
#if STAND_IN_TORCH >= 208
    MempoolId_t mempool_;
    std::string compile_context_;
#endif
#if STAND_IN_TORCH >= 210
    std::string user_metadata_;
#endif
};

struct AnnotationEntry {
    AnnotationEntry(DeviceIndex device, approx_time_t time) : device_(device)
    {
        time_.approx_t_ = time;
    }
    void recordUserMetadata(const std::string &name, std::string value)
    {
        metadata_[name] = std::move(value);
    }
    DeviceIndex device_;
    trace_time_ time_{};
    std::unordered_map<std::string, std::string> metadata_;
};

using AllocatorTraceTracker = std::function<void(const TraceEntry &)>;

} // namespace CachingDeviceAllocator

#if STAND_IN_TORCH >= 209
struct DeviceAllocator : Allocator {
    virtual bool initialized() = 0;
    virtual void emptyCache(MempoolId_t id = {0, 0}) = 0;
    virtual void recordStream(const DataPtr &pointer, Stream stream) = 0;
    virtual CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) = 0;
    virtual void resetAccumulatedStats(DeviceIndex device) = 0;
    virtual void resetPeakStats(DeviceIndex device) = 0;
};
#endif

} // namespace c10
