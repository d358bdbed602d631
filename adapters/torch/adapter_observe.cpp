// adapter_observe.cpp - history, snapshots, and those who want to be told.
#include "adapter.h"

#include <algorithm>
#include <unordered_set>

namespace vramwise_torch
{

// ---- history -----------------------------------------------------------------------------------

bool Adapter::isHistoryEnabled()
{
    return history_.is_enabled();
}

void Adapter::recordHistory(bool is_enabled, CreateContextFn recorder, size_t most_entries,
                            RecordContext when, bool is_cleared,
                            const std::vector<std::string> &skip_actions)
{
    if (is_forked()) // another thread of the parent may hold the locks for ever
        return;
    history_.configure(is_enabled, recorder, most_entries, when, is_cleared, skip_actions);
    settle_all_quick_ways();
    for (DevicePools &device : devices_) {
        device.history.trace.set_most(most_entries);
        if (!is_enabled || is_cleared)
            device.history.trace.clear();
    }
}

void Adapter::recordHistory(bool is_enabled, CreateContextFn recorder, size_t most_entries,
                            RecordContext when, bool is_cleared)
{
    recordHistory(is_enabled, recorder, most_entries, when, is_cleared, {});
}

void Adapter::recordHistory(bool is_enabled, CreateContextFn recorder, size_t most_entries,
                            RecordContext when)
{
    recordHistory(is_enabled, recorder, most_entries, when, false, {});
}

void Adapter::recordAnnotation(const std::vector<std::pair<std::string, std::string>> &metadata)
{
    if (history_.is_enabled() && !is_forked())
        history_.annotate(current_device(), metadata);
}

void Adapter::pushCompileContext(std::string &text)
{
    if (history_.is_enabled())
        History::push_compile_context(text);
}

void Adapter::popCompileContext()
{
    if (history_.is_enabled())
        History::pop_compile_context();
}

bool Adapter::supportsUserMetadata()
{
    return true;
}

void Adapter::setUserMetadata(const std::string &text)
{
    History::set_user_metadata(text);
}

std::string Adapter::getUserMetadata()
{
    return History::user_metadata();
}

// A note on a live block, as an entry of its own in the trace.
void Adapter::annotateMemory(const void *pointer, const std::string &metadata)
{
    DevicePools *device = nullptr;
    vw_pool *pool = nullptr;
    vw_block_place place{};
    TORCH_CHECK(find(pointer, &device, &pool, &place) && place.block_address == address_of(pointer),
                "invalid device pointer: ", shown(pointer));
    history_.annotate_block(device->history, device->index, place, metadata);
}

// Who asked for a live block; null where that was not recorded.
Context Adapter::getContextForPointer(const void *pointer)
{
    DevicePools *device = nullptr;
    vw_pool *pool = nullptr;
    vw_block_place place{};
    if (!find(pointer, &device, &pool, &place) || place.block_address != address_of(pointer))
        return nullptr;
    return device->history.contexts.find(place.tag);
}

// Lets go of the contexts that no block and no segment refers to any more. A request in progress
// may place its tag at any moment, so that only those count which had settled before the look.
void Adapter::sweep_contexts(DevicePools &device)
{
    struct Look {
        std::unordered_set<uint64_t> tags;
        bool is_complete = true;
    } look;
    std::vector<uint64_t> candidates = device.history.contexts.settled();
    look.tags.reserve(candidates.size());
    vw_walker walker{};
    walker.context = &look;
    walker.segment = [](void *context, const vw_segment_info *segment) {
        auto *result = static_cast<Look *>(context);
        try {
            result->tags.insert(segment->tag);
        } catch (...) {
            result->is_complete = false;
        }
        return result->is_complete;
    };
    walker.block = [](void *context, const vw_segment_info *, const vw_block_info *block) {
        auto *result = static_cast<Look *>(context);
        try {
            result->tags.insert(block->tag);
        } catch (...) {
            result->is_complete = false;
        }
        return result->is_complete;
    };
    device.for_each_pool([&](vw_pool *pool) {
        if (vw_pool_walk(pool, &walker, false) != VW_OK)
            look.is_complete = false;
    });
    if (!look.is_complete)
        return; // the next one will be
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                    [&](uint64_t tag) { return look.tags.count(tag) != 0; }),
                     candidates.end());
    device.history.contexts.drop(candidates);
}

// ---- snapshots ---------------------------------------------------------------------------------

namespace
{

// What one walk of a pool fills. The trace is copied under the pool's lock, where there is one
// segment at least: then trace and segments are of the same moment.
struct Picture {
    DevicePools *device;
    MempoolId_t id; // (0, 0): all
    std::vector<SegmentInfo> segments;
    std::vector<TraceEntry> trace;
    bool is_trace_wanted;
    bool is_trace_taken = false;
    bool is_segment_wanted = false;
    bool is_complete = true;
};

SegmentInfo segment_of(const DevicePools &device, const vw_segment_info &from)
{
    SegmentInfo segment;
    segment.device = device.index;
    segment.address = from.address;
    segment.total_size = from.total_bytes;
    segment.requested_size = from.requested_bytes;
    segment.allocated_size = from.allocated_bytes;
    segment.active_size = from.active_bytes;
    segment.stream = reinterpret_cast<cudaStream_t>(from.stream);
    segment.is_large = from.is_large;
    segment.is_expandable = from.is_expandable;
    set_registration(segment, static_cast<int32_t>(from.number & INT32_MAX), 0);
    segment.owner_private_pool_id = {from.private_id.first, from.private_id.second};
    segment.context_when_allocated = device.history.contexts.find(from.tag);
    segment.blocks.reserve(from.block_count);
    return segment;
}

BlockInfo block_of(const DevicePools &device, const vw_block_info &from)
{
    BlockInfo block;
    block.size = from.size_bytes;
    block.requested_size = from.requested_bytes;
    block.allocated = from.state == VW_BLOCK_LIVE;
    block.active = from.state != VW_BLOCK_FREE;
    block.context_when_allocated = device.history.contexts.find(from.tag);
    return block;
}

bool see_segment(void *context, const vw_segment_info *segment)
{
    auto *picture = static_cast<Picture *>(context);
    try {
        if (picture->is_trace_wanted && !picture->is_trace_taken) {
            picture->trace = picture->device->history.trace.copy();
            picture->is_trace_taken = true;
        }
        MempoolId_t id{segment->private_id.first, segment->private_id.second};
        picture->is_segment_wanted = picture->id == MempoolId_t{0, 0} || picture->id == id;
        if (picture->is_segment_wanted)
            picture->segments.push_back(segment_of(*picture->device, *segment));
    } catch (...) {
        picture->is_complete = false;
    }
    return picture->is_complete;
}

bool see_block(void *context, const vw_segment_info *, const vw_block_info *block)
{
    auto *picture = static_cast<Picture *>(context);
    try {
        if (picture->is_segment_wanted)
            picture->segments.back().blocks.push_back(block_of(*picture->device, *block));
    } catch (...) {
        picture->is_complete = false;
    }
    return picture->is_complete;
}

template <class Config, class Info>
auto add_stream_reuse(Info &info, int)
    -> decltype(info.graph_capture_record_stream_reuse, Config::graph_capture_record_stream_reuse(),
                void()) // 2.9
{
    info.graph_capture_record_stream_reuse = Config::graph_capture_record_stream_reuse();
}
template <class Config, class Info> void add_stream_reuse(Info &, ...)
{
}

template <class Config, class Info>
auto add_pinned_limits(Info &info, int)
    -> decltype(info.max_round_threshold, info.max_cached_size,
                Config::pinned_max_round_threshold(), void()) // 2.13
{
    info.max_round_threshold = Config::pinned_max_round_threshold();
    info.max_cached_size = Config::pinned_max_cached_size();
}
template <class Config, class Info> void add_pinned_limits(Info &, ...)
{
}

AllocatorConfigInfo settings_in_force()
{
    AllocatorConfigInfo info{};
    info.garbage_collection_threshold = garbage_collection_threshold_in_force();
    info.max_split_size = max_split_size_in_force();
    info.pinned_num_register_threads = CUDAAllocatorConfig::pinned_num_register_threads();
    info.expandable_segments = CUDAAllocatorConfig::expandable_segments();
    info.release_lock_on_malloc = CUDAAllocatorConfig::release_lock_on_cudamalloc();
    info.pinned_use_host_register = CUDAAllocatorConfig::pinned_use_cuda_host_register();
    add_stream_reuse<CUDAAllocatorConfig>(info, 0);
    add_pinned_limits<SharedConfig>(info, 0);
    info.last_allocator_settings = last_allocator_settings_in_force();
    info.roundup_power2_divisions = roundup_power2_divisions_in_force();
    return info;
}

} // namespace

SnapshotInfo Adapter::snapshot()
{
    return snapshot(pool_in_context(), true);
}

SnapshotInfo Adapter::snapshot(MempoolId_t id)
{
    return snapshot(id, true);
}

SnapshotInfo Adapter::snapshot(MempoolId_t id, bool has_traces)
{
    if (is_forked())
        check_done(VW_ERR_WRONG_PROCESS);
    auto nanoseconds = clock_.makeConverter();
    auto convert = [&](trace_time_ &time) { time.t_ = nanoseconds(time.approx_t_) / 1000; };
    SnapshotInfo result;
    if (has_traces) {
        std::vector<AnnotationEntry> annotations = history_.annotations();
        for (AnnotationEntry &entry : annotations)
            convert(entry.time_);
        set_annotations(result, std::move(annotations), 0);
    }
    int count = device_count_.load(std::memory_order_acquire);
    for (int i = 0; i < count; i++) {
        DevicePools &device = devices_[static_cast<size_t>(i)];
        Picture picture{&device, id, {}, {}, has_traces};
        vw_walker walker{&picture, see_segment, see_block};
        bool is_main = true;
        device.for_each_pool([&](vw_pool *pool) {
            // The event "snapshot" once, after the trace was copied: it is for the next snapshot.
            vw_status status = vw_pool_walk(pool, &walker, false);
            if (is_main && picture.is_trace_wanted && !picture.is_trace_taken) {
                picture.trace = device.history.trace.copy();
                picture.is_trace_taken = true;
            }
            is_main = false;
            check_done(status);
        });
        TORCH_CHECK(picture.is_complete, "vramwise: out of host memory for a snapshot");
        std::stable_sort(
            picture.segments.begin(), picture.segments.end(),
            [](const SegmentInfo &a, const SegmentInfo &b) { return a.address < b.address; });
        if (history_.is_enabled() && is_open(i)) {
            size_t active_bytes = 0;
            for (const SegmentInfo &segment : picture.segments)
                active_bytes += segment.active_size;
            vw_memory_event event{};
            event.action = VW_ACTION_SNAPSHOT;
            event.size_bytes = active_bytes;
            event.private_id = private_id_of(id);
            history_.notice(device.history, device.index, event);
        }
        std::move(picture.segments.begin(), picture.segments.end(),
                  std::back_inserter(result.segments));
        if (has_traces) {
            for (TraceEntry &entry : picture.trace)
                convert(entry.time_);
            result.device_traces.push_back(std::move(picture.trace));
        }
    }
    result.config_metadata = settings_in_force();
    return result;
}

// ---- those who want to be told -----------------------------------------------------------------

void Adapter::attachAllocatorTraceTracker(AllocatorTraceTracker tracker)
{
    history_.attach(std::move(tracker));
    settle_all_quick_ways();
}

void Adapter::attachOomRejectionObserver(OomRejectionObserver observer)
{
    std::lock_guard<std::mutex> hold(observers_lock_);
    rejection_observers_.push_back(std::move(observer));
}

void Adapter::attachOutOfMemoryObserver(OutOfMemoryObserver observer)
{
    std::lock_guard<std::mutex> hold(observers_lock_);
    observers_.push_back(std::move(observer));
}

// Without any lock: an observer may take Python's, and may use the allocator.
void Adapter::tell_out_of_memory(const vw_oom_report &report, c10::DeviceIndex device)
{
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(report.rounded_bytes),
                                     report.allocated_bytes, report.reserved_bytes,
                                     c10::Device(c10::DeviceType::CUDA, device));
    std::vector<OutOfMemoryObserver> observers;
    {
        std::lock_guard<std::mutex> hold(observers_lock_);
        observers = observers_;
    }
    uint64_t allowed_bytes =
        report.limit_bytes != UINT64_MAX ? report.limit_bytes : report.total_bytes;
    for (const OutOfMemoryObserver &observer : observers)
        observer(device, report.segment_bytes, allowed_bytes, report.free_bytes);
}

// Without any lock, as above.
void Adapter::tell_rejection(const vw_oom_report &report, c10::DeviceIndex device)
{
    std::vector<OomRejectionObserver> observers;
    {
        std::lock_guard<std::mutex> hold(observers_lock_);
        observers = rejection_observers_;
    }
    for (const OomRejectionObserver &observer : observers)
        observer(device, report.segment_bytes, report.reserved_bytes, report.total_bytes);
}

void Adapter::tell_profiler(DevicePools &device, void *pointer, int64_t change_bytes)
{
    DeviceStats stats = getDeviceStats(device.index);
    constexpr auto all = static_cast<size_t>(StatType::AGGREGATE);
    c10::reportMemoryUsageToProfiler(pointer, change_bytes,
                                     static_cast<size_t>(stats.allocated_bytes[all].current),
                                     static_cast<size_t>(stats.reserved_bytes[all].current),
                                     c10::Device(c10::DeviceType::CUDA, device.index));
}

} // namespace vramwise_torch
