// history.cpp - gathering, filing and telling. See history.h.
#include "history.h"

#include <algorithm>

namespace vramwise_torch
{

// ---- contexts by tag ---------------------------------------------------------------------------

uint64_t ContextTable::add(Context context)
{
    std::lock_guard<std::mutex> hold(lock_);
    uint64_t tag = ++last_tag_;
    slots_.emplace(tag, Slot{std::move(context), true});
    return tag;
}

void ContextTable::settle(uint64_t tag)
{
    std::lock_guard<std::mutex> hold(lock_);
    auto found = slots_.find(tag);
    if (found != slots_.end())
        found->second.is_in_flight = false;
}

Context ContextTable::find(uint64_t tag) const
{
    if (tag == 0)
        return nullptr;
    std::lock_guard<std::mutex> hold(lock_);
    auto found = slots_.find(tag);
    return found != slots_.end() ? found->second.context : nullptr;
}

bool ContextTable::is_sweep_due() const
{
    std::lock_guard<std::mutex> hold(lock_);
    return slots_.size() >= sweep_at_;
}

std::vector<uint64_t> ContextTable::settled() const
{
    std::lock_guard<std::mutex> hold(lock_);
    std::vector<uint64_t> tags;
    tags.reserve(slots_.size());
    for (const auto &slot : slots_)
        if (!slot.second.is_in_flight)
            tags.push_back(slot.first);
    return tags;
}

void ContextTable::drop(const std::vector<uint64_t> &tags)
{
    std::vector<Context> dropped; // let go when the lock is dropped
    dropped.reserve(tags.size());
    std::lock_guard<std::mutex> hold(lock_);
    for (uint64_t tag : tags) {
        auto found = slots_.find(tag);
        if (found == slots_.end())
            continue;
        dropped.push_back(std::move(found->second.context));
        slots_.erase(found);
    }
    sweep_at_ = std::max<size_t>(4096, 2 * slots_.size());
}

// ---- the call in progress ----------------------------------------------------------------------

namespace
{

thread_local CurrentCall *current_call = nullptr;

// PyTorch keeps both per thread, too.
struct Words {
    std::vector<std::string> compile_contexts;
    std::string metadata;
};

// Tensors are freed to the very end of a thread and of the process, when what the thread had is
// gone: so there are none then, rather than those of before.
thread_local Words *words = nullptr;
thread_local bool are_words_over = false;

struct WordsEnd {
    ~WordsEnd()
    {
        delete words;
        words = nullptr;
        are_words_over = true;
    }
};

// To write to; null at the end of the thread.
Words *words_to_change()
{
    static thread_local WordsEnd end;
    (void)end;
    if (words == nullptr && !are_words_over)
        words = new Words;
    return words;
}

bool is_free(vw_action action)
{
    return action == VW_ACTION_FREE_REQUESTED || action == VW_ACTION_FREE_COMPLETED;
}

} // namespace

CurrentCall::CurrentCall(const Context &context, bool is_for_frees_too)
    : context_(context), is_for_frees_too_(is_for_frees_too), outer_(current_call)
{
    current_call = this;
}

CurrentCall::~CurrentCall()
{
    current_call = outer_;
}

Context CurrentCall::context_for(vw_action action)
{
    const CurrentCall *call = current_call;
    if (call == nullptr || (is_free(action) && !call->is_for_frees_too_))
        return nullptr;
    return call->context_;
}

// ---- what is recorded --------------------------------------------------------------------------

// By the order of TraceEntry::Action, which only grew at its end.
static unsigned action_named(const std::string &name)
{
    static const char *const names[] = {
        "alloc",       "free_requested", "free_completed", "segment_alloc", "segment_free",
        "segment_map", "segment_unmap",  "snapshot",       "oom",           "annotate"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (name == names[i])
            return i;
    TORCH_CHECK(false, "Unknown TraceEntry action: ", name);
}

void History::configure(bool is_enabled, CreateContextFn recorder, size_t most_entries,
                        RecordContext when, bool is_cleared,
                        const std::vector<std::string> &skip_actions)
{
    TORCH_CHECK(when == RecordContext::NEVER || recorder);
    unsigned skipped = 0;
    for (const std::string &name : skip_actions)
        skipped |= 1u << action_named(name);
    skipped_actions_.store(skipped);
    recorder_.store(is_enabled ? recorder : nullptr);
    level_.store(is_enabled ? when : RecordContext::NEVER);
    most_entries_.store(most_entries);
    annotations_.set_most(most_entries);
    if (!is_enabled || is_cleared)
        annotations_.clear();
    is_enabled_.store(is_enabled);
}

Context History::gather(RecordContext level) const
{
    if (level_.load(std::memory_order_relaxed) < level)
        return nullptr;
    CreateContextFn recorder = recorder_.load(std::memory_order_acquire);
    return recorder != nullptr ? recorder() : nullptr;
}

void History::attach(AllocatorTraceTracker tracker)
{
    std::lock_guard<std::mutex> hold(lock_);
    auto longer = std::make_shared<Trackers>(trackers_ ? *trackers_ : Trackers());
    longer->push_back(std::move(tracker));
    trackers_ = std::move(longer);
}

std::shared_ptr<const History::Trackers> History::trackers() const
{
    std::lock_guard<std::mutex> hold(lock_);
    return trackers_;
}

bool History::has_trackers() const
{
    return trackers() != nullptr;
}

void History::annotate(c10::DeviceIndex device,
                       const std::vector<std::pair<std::string, std::string>> &metadata)
{
    AnnotationEntry entry(device, c10::getApproximateTime());
    for (const auto &pair : metadata)
        entry.recordUserMetadata(pair.first, pair.second);
    annotations_.add(std::move(entry));
}

std::vector<AnnotationEntry> History::annotations() const
{
    return annotations_.copy();
}

void History::push_compile_context(std::string text)
{
    if (Words *own = words_to_change())
        own->compile_contexts.push_back(std::move(text));
}

void History::pop_compile_context()
{
    if (words != nullptr && !words->compile_contexts.empty())
        words->compile_contexts.pop_back();
}

void History::set_user_metadata(std::string text)
{
    if (Words *own = words_to_change())
        own->metadata = std::move(text);
}

std::string History::user_metadata()
{
    return words != nullptr ? words->metadata : std::string();
}

// ---- the listener ------------------------------------------------------------------------------

static std::string compile_context()
{
    bool is_compiling = words != nullptr && !words->compile_contexts.empty();
    return is_compiling ? words->compile_contexts.back() : "N/A";
}

static TraceEntry::Action action_of(vw_action action)
{
    switch (action) {
    case VW_ACTION_ALLOC:
        return TraceEntry::ALLOC;
    case VW_ACTION_FREE_REQUESTED:
        return TraceEntry::FREE_REQUESTED;
    case VW_ACTION_FREE_COMPLETED:
        return TraceEntry::FREE_COMPLETED;
    case VW_ACTION_SEGMENT_ALLOC:
        return TraceEntry::SEGMENT_ALLOC;
    case VW_ACTION_SEGMENT_FREE:
        return TraceEntry::SEGMENT_FREE;
    case VW_ACTION_SEGMENT_MAP:
        return TraceEntry::SEGMENT_MAP;
    case VW_ACTION_SEGMENT_UNMAP:
        return TraceEntry::SEGMENT_UNMAP;
    case VW_ACTION_SNAPSHOT:
        return TraceEntry::SNAPSHOT;
    case VW_ACTION_OOM:
        return TraceEntry::OOM;
    }
    return TraceEntry::SNAPSHOT;
}

void History::notice(DeviceHistory &device, c10::DeviceIndex index,
                     const vw_memory_event &event) const
{
    bool is_for_trackers =
        event.action != VW_ACTION_OOM && event.action != VW_ACTION_SNAPSHOT && has_trackers();
    if (!is_enabled() && !is_for_trackers)
        return;
    Context context;
    if (level() >= RecordContext::ALLOC && event.action != VW_ACTION_SNAPSHOT) {
        context = CurrentCall::context_for(event.action);
        if (context == nullptr)
            context = device.contexts.find(event.tag);
    }
    file(device,
         made_entry<TraceEntry>(action_of(event.action), index, event.address, event.size_bytes,
                                reinterpret_cast<cudaStream_t>(event.stream),
                                MempoolId_t{event.private_id.first, event.private_id.second},
                                c10::getApproximateTime(), std::move(context), compile_context(),
                                user_metadata()));
}

void History::annotate_block(DeviceHistory &device, c10::DeviceIndex index,
                             const vw_block_place &block, const std::string &metadata) const
{
    if (!Annotating<TraceEntry>::is_known || (!is_enabled() && !has_trackers()))
        return;
    file(device,
         made_entry<TraceEntry>(Annotating<TraceEntry>::action, index, block.block_address,
                                block.requested_bytes, reinterpret_cast<cudaStream_t>(block.stream),
                                MempoolId_t{block.private_id.first, block.private_id.second},
                                c10::getApproximateTime(), gather(RecordContext::ALL),
                                compile_context(), metadata));
}

// To the trackers, and into the trace.
void History::file(DeviceHistory &device, TraceEntry entry) const
{
    if (std::shared_ptr<const Trackers> others = trackers())
        for (const AllocatorTraceTracker &tracker : *others)
            tracker(entry);
    bool is_skipped = (skipped_actions_.load(std::memory_order_relaxed) >> entry.action_ & 1u) != 0;
    if (is_enabled() && !is_skipped)
        device.trace.add(std::move(entry));
}

} // namespace vramwise_torch
