// torch_names.h - one set of names for what PyTorch 2.4 to 2.15 keeps in different places.
//
// The adapter is one source for all of them. What a version has is found by looking at its headers,
// never by its number: a nightly or a vendor's build calls itself 2.10.0a0 on any day of half a
// year. Three means are enough:
//   - a type that moved between namespaces is looked up in all of them (every_place);
//   - a type, field or function that came later is used where an expression with it compiles
//     (the overload with `int`), and left out elsewhere (the one with `...`);
//   - a virtual function that changed its parameters is declared in every shape, without `override`
//     (adapter.h). tools/make_adapters.py --check reads the compiler's own table
//     and fails if a shape that the version has is not overridden.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/util/ApproximateClock.h>

#include "torch_headers.h"

// Declared here because some versions lack them: to name an empty namespace or an incomplete class
// is no error.
namespace c10
{
namespace CachingAllocator
{
class AcceleratorAllocatorConfig; // from 2.9; CUDA uses it from 2.10 on
}
namespace CachingDeviceAllocator
{
}
namespace cuda
{
struct MemPoolContext; // 2.5 to 2.7
}
} // namespace c10

namespace vramwise_torch
{

namespace every_place
{
using namespace c10;
using namespace c10::cuda;
using namespace c10::cuda::CUDACachingAllocator;
using namespace c10::CachingDeviceAllocator;
using namespace c10::CachingAllocator;
} // namespace every_place

using every_place::AllocatorConfigInfo;
using every_place::AllocatorState;
using every_place::AllocatorTraceTracker;
using every_place::BlockInfo;
using every_place::CheckpointDelta;
using every_place::CreateContextFn;
using every_place::CUDAAllocator;
using every_place::CUDAAllocatorConfig;
using every_place::CUDAStream;
using every_place::DeviceStats;
using every_place::MempoolId_t;
using every_place::OutOfMemoryObserver;
using every_place::RecordContext;
using every_place::SegmentInfo;
using every_place::SnapshotInfo;
using every_place::Stat;
using every_place::StatArray;
using every_place::StatType;
using every_place::trace_time_;
using every_place::TraceEntry;
using SharedConfig = c10::CachingAllocator::AcceleratorAllocatorConfig;

// ---- types that older versions lack ------------------------------------------------------------

// PyTorch's type where one of its methods or fields shows it; else ours, which nobody reads.
namespace ours
{
struct AnnotationEntry { // from 2.5
    AnnotationEntry(c10::DeviceIndex, c10::approx_time_t time)
    {
        time_.approx_t_ = time;
    }
    void recordUserMetadata(const std::string &, const std::string &)
    {
    }
    trace_time_ time_{};
};
struct ShareableHandle { // from 2.5
    ptrdiff_t offset;
    std::string handle;
};
struct StreamSegmentSize { // from 2.10
    StreamSegmentSize(cudaStream_t, bool, size_t)
    {
    }
};

template <class Info, class = void> struct Annotation {
    using type = AnnotationEntry;
};
template <class Info> struct Annotation<Info, std::void_t<decltype(Info::external_annotations)>> {
    using type = typename decltype(Info::external_annotations)::value_type;
};
template <class Class, class = void> struct Handle {
    using type = ShareableHandle;
};
template <class Class>
struct Handle<Class, std::void_t<decltype(std::declval<Class &>().shareIpcHandle(nullptr))>> {
    using type = decltype(std::declval<Class &>().shareIpcHandle(nullptr));
};
template <class Class, class = void> struct SegmentSize {
    using type = StreamSegmentSize;
};
template <class Class>
struct SegmentSize<Class,
                   std::void_t<decltype(std::declval<Class &>().getExpandableSegmentSizes(0))>> {
    using type =
        typename decltype(std::declval<Class &>().getExpandableSegmentSizes(0))::value_type;
};
} // namespace ours

using AnnotationEntry = ours::Annotation<SnapshotInfo>::type;
using ShareableHandle = ours::Handle<CUDAAllocator>::type;
using StreamSegmentSize = ours::SegmentSize<CUDAAllocator>::type;
using OomRejectionObserver = std::function<void(int64_t, size_t, size_t, size_t)>; // from 2.12

// ---- trace entries -----------------------------------------------------------------------------

// The constructor grew: the pool's id and the compile context in 2.8, metadata in 2.10.
template <class Entry>
Entry made_entry(typename Entry::Action action, c10::DeviceIndex device, size_t address,
                 size_t size_bytes, cudaStream_t stream, const MempoolId_t &pool,
                 c10::approx_time_t time, std::shared_ptr<c10::GatheredContext> context,
                 std::string compile_context, std::string metadata)
{
    using Action = typename Entry::Action;
    using Shared = std::shared_ptr<c10::GatheredContext>;
    if constexpr (std::is_constructible_v<Entry, Action, c10::DeviceIndex, size_t, size_t,
                                          cudaStream_t, MempoolId_t, c10::approx_time_t, Shared,
                                          std::string, std::string>)
        return Entry(action, device, address, size_bytes, stream, pool, time, std::move(context),
                     std::move(compile_context), std::move(metadata));
    else if constexpr (std::is_constructible_v<Entry, Action, c10::DeviceIndex, size_t, size_t,
                                               cudaStream_t, MempoolId_t, c10::approx_time_t,
                                               Shared, std::string>)
        return Entry(action, device, address, size_bytes, stream, pool, time, std::move(context),
                     std::move(compile_context));
    else
        return Entry(action, device, address, size_bytes, stream, time, std::move(context));
}

// The action of annotateMemory(), from 2.14.
template <class Entry, class = void> struct Annotating {
    static constexpr bool is_known = false;
    static constexpr auto action = Entry::SNAPSHOT;
};
template <class Entry> struct Annotating<Entry, std::void_t<decltype(Entry::ANNOTATE)>> {
    static constexpr bool is_known = true;
    static constexpr auto action = Entry::ANNOTATE;
};

// ---- the pool of the calling thread ------------------------------------------------------------

// 2.5 to 2.7: emptyCache() and snapshot() are about the pool that the thread's MemPoolContext
// names; later versions pass its id.
template <class Context> auto pool_in(int) -> decltype(Context::getActiveMemPool()->id())
{
    auto *pool = Context::getActiveMemPool();
    return pool != nullptr ? pool->id() : MempoolId_t{0, 0};
}
template <class Context> MempoolId_t pool_in(...)
{
    return {0, 0};
}
inline MempoolId_t pool_in_context()
{
    return pool_in<c10::cuda::MemPoolContext>(0);
}

// The memory source of that pool if its id is `id`; null where it has none.
template <class Context>
auto source_in(const MempoolId_t &id, int) -> decltype(Context::getActiveMemPool()->allocator())
{
    auto *pool = Context::getActiveMemPool();
    return pool != nullptr && pool->id() == id ? pool->allocator() : nullptr;
}
template <class Context> CUDAAllocator *source_in(const MempoolId_t &, ...)
{
    return nullptr;
}

// ---- settings in force -------------------------------------------------------------------------

// CUDA's own class has them in every version so far, deprecated from 2.10 on in favour of the
// shared one. The shared one is not asked first: 2.9 has it, and CUDA does not use it there.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define VRAMWISE_SETTING(name)                                                                     \
    template <class Config, class> auto name##_of(int)->decltype(Config::name())                   \
    {                                                                                              \
        return Config::name();                                                                     \
    }                                                                                              \
    template <class, class Shared> auto name##_of(...)->decltype(Shared::name())                   \
    {                                                                                              \
        return Shared::name();                                                                     \
    }                                                                                              \
    inline auto name##_in_force()                                                                  \
    {                                                                                              \
        return name##_of<CUDAAllocatorConfig, SharedConfig>(0);                                    \
    }
VRAMWISE_SETTING(max_split_size)
VRAMWISE_SETTING(garbage_collection_threshold)
VRAMWISE_SETTING(roundup_power2_divisions)
VRAMWISE_SETTING(last_allocator_settings)
#undef VRAMWISE_SETTING
#pragma GCC diagnostic pop

// From 2.10; before, the option does not exist.
template <class Config> auto fraction_of(int) -> decltype(Config::per_process_memory_fraction())
{
    return Config::per_process_memory_fraction();
}
template <class Config> double fraction_of(...)
{
    return 1.0;
}

// Fields of snapshots and statistics that came later, filled where they are.
#define VRAMWISE_FIELD(function, field, type)                                                      \
    template <class Info> auto function(Info &info, type value, int)->decltype(info.field, void()) \
    {                                                                                              \
        info.field = std::move(value);                                                             \
    }                                                                                              \
    template <class Info> void function(Info &, type, ...)                                         \
    {                                                                                              \
    }
VRAMWISE_FIELD(set_annotations, external_annotations, std::vector<AnnotationEntry>) // 2.5
VRAMWISE_FIELD(set_registration, registration_counter, int32_t)                     // 2.11
VRAMWISE_FIELD(set_rejections, num_oom_rejections, int64_t)                         // 2.12
#undef VRAMWISE_FIELD

} // namespace vramwise_torch
