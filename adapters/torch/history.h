// history.h - what happened, and who asked for it: the trace of one device, in PyTorch's terms.
//
// A pool tells its listener of every event, under its lock. Which lines of Python led there is
// another matter: PyTorch hands us a function that gathers them (it takes Python's global lock, so
// it is called before the pool's), and the result is an object that everything shares which the
// request caused: its trace entries, the block, the segment. "vramwise verify" and the viewers read
// that identity. Between the two stands a number: the request's tag, which the pool keeps with the
// block and shows to the listener, and which ContextTable turns back into the object.
//
// Which event carries which object, as in PyTorch: that of the call in progress, if one was
// gathered for it; otherwise that of the block or segment concerned. CurrentCall says which call.
//
// An object may be let go while a pool's lock is held (a ring that overwrites, as PyTorch's does):
// PyTorch's own kind leaves its Python parts to the next gathering, and takes no lock of Python's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "vramwise/vramwise.h"
#include "torch_names.h"

namespace vramwise_torch
{

using Context = std::shared_ptr<c10::GatheredContext>;

// The last entries, oldest first. As PyTorch's: it grows to its bound and overwrites then; a lower
// bound shrinks nothing that is there.
template <class Entry> class Ring
{
  public:
    void set_most(size_t most)
    {
        std::lock_guard<std::mutex> hold(lock_);
        most_ = most > 0 ? most : 1;
        if (next_ >= most_)
            next_ = 0;
    }

    void add(Entry entry)
    {
        std::lock_guard<std::mutex> hold(lock_);
        if (entries_.size() < most_) {
            entries_.push_back(std::move(entry));
            return;
        }
        entries_[next_] = std::move(entry);
        next_ = next_ + 1 == most_ ? 0 : next_ + 1;
    }

    void clear()
    {
        std::vector<Entry> old; // goes when the lock is dropped
        std::lock_guard<std::mutex> hold(lock_);
        old.swap(entries_);
        next_ = 0;
    }

    std::vector<Entry> copy() const
    {
        std::lock_guard<std::mutex> hold(lock_);
        std::vector<Entry> result;
        result.reserve(entries_.size());
        auto oldest = entries_.begin() + static_cast<std::ptrdiff_t>(next_);
        result.insert(result.end(), oldest, entries_.end());
        result.insert(result.end(), entries_.begin(), oldest);
        return result;
    }

  private:
    mutable std::mutex lock_;
    std::vector<Entry> entries_;
    size_t most_ = 1;
    size_t next_ = 0; // the oldest, once it is full
};

// Tags and what they stand for. A tag is never given out twice. Entries go by a sweep: whoever adds
// is told when one is due, and asks the pools which tags they still have.
class ContextTable
{
  public:
    // The tag is in flight, and kept, until settle().
    uint64_t add(Context context);
    void settle(uint64_t tag);
    Context find(uint64_t tag) const; // null for one that is not there, 0 among them

    bool is_sweep_due() const;
    std::vector<uint64_t> settled() const;
    void drop(const std::vector<uint64_t> &tags); // and set when the next sweep is due

  private:
    struct Slot {
        Context context;
        bool is_in_flight;
    };
    mutable std::mutex lock_;
    std::unordered_map<uint64_t, Slot> slots_;
    uint64_t last_tag_ = 0;
    size_t sweep_at_ = 4096;
};

// What the calling thread is doing to the allocator. The listener runs on that thread.
class CurrentCall
{
  public:
    // `is_for_frees_too`: whether blocks freed by this call show its context, or their own.
    explicit CurrentCall(const Context &context, bool is_for_frees_too = true);
    ~CurrentCall();
    CurrentCall(const CurrentCall &) = delete;
    CurrentCall &operator=(const CurrentCall &) = delete;

    // For an event of this thread; null where it is the block's or segment's own.
    static Context context_for(vw_action action);

  private:
    const Context &context_;
    bool is_for_frees_too_;
    CurrentCall *outer_;
};

// One device's trace, and the contexts behind its tags.
struct DeviceHistory {
    Ring<TraceEntry> trace;
    ContextTable contexts;
};

// What is to be recorded, for all devices, and who else listens.
class History
{
  public:
    // Throws for an action of skip_actions that is none, having changed nothing. The rings of the
    // devices are the caller's to set.
    void configure(bool is_enabled, CreateContextFn recorder, size_t most_entries,
                   RecordContext when, bool is_cleared,
                   const std::vector<std::string> &skip_actions);

    bool is_enabled() const
    {
        return is_enabled_.load(std::memory_order_relaxed);
    }
    RecordContext level() const
    {
        return level_.load(std::memory_order_relaxed);
    }
    size_t most_entries() const
    {
        return most_entries_.load(std::memory_order_relaxed);
    }

    // Null where `level` is more than is recorded. Without any lock of ours.
    Context gather(RecordContext level) const;

    void attach(AllocatorTraceTracker tracker);
    bool has_trackers() const;

    void annotate(c10::DeviceIndex device,
                  const std::vector<std::pair<std::string, std::string>> &metadata);
    std::vector<AnnotationEntry> annotations() const;

    // An entry about a live block, where PyTorch's trace has such (2.14).
    void annotate_block(DeviceHistory &device, c10::DeviceIndex index, const vw_block_place &block,
                        const std::string &metadata) const;

    // The calling thread's, for entries made by it.
    static void push_compile_context(std::string text);
    static void pop_compile_context();
    static void set_user_metadata(std::string text);
    static std::string user_metadata();

    // The listener proper: under the pool's lock.
    void notice(DeviceHistory &device, c10::DeviceIndex index, const vw_memory_event &event) const;

  private:
    using Trackers = std::vector<AllocatorTraceTracker>;

    std::shared_ptr<const Trackers> trackers() const;
    void file(DeviceHistory &device, TraceEntry entry) const;

    std::atomic<bool> is_enabled_{false};
    std::atomic<RecordContext> level_{RecordContext::NEVER};
    std::atomic<CreateContextFn> recorder_{nullptr};
    std::atomic<size_t> most_entries_{1};
    std::atomic<unsigned> skipped_actions_{0}; // a bit for each TraceEntry::Action
    Ring<AnnotationEntry> annotations_;
    mutable std::mutex lock_;
    std::shared_ptr<const Trackers> trackers_;
};

} // namespace vramwise_torch
