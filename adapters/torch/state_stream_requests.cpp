// state_stream_requests.cpp - what requests tell a stream of state, and what they want of it.
//
// Requests of a MiB and more are marks of the step: how much was live at each decides what leaves
// after the next (vw_schedule_stream()). One that finds no room waits for Python, which alone may
// bind storages elsewhere: in its own thread if that has Python's lock, else in one that takes it.
#include "adapter.h"

#include <algorithm>
#include <chrono>

#include <unistd.h>

namespace vramwise_torch
{

namespace
{

constexpr size_t most_marks = 4096;
// For Python's thread to bind pieces. It may never come to it, if whoever has Python's lock waits
// for the thread that asks. Then the request goes the old way, and nobody is asked again.
constexpr std::chrono::seconds patience{5};
// Between two looks at a condition. Older C libraries can lose a wake-up (glibc's bug 25847), and
// older C++ libraries lack the function that waits without an end.
constexpr std::chrono::seconds look_pause{1};

// What the pool can hold on its device: by the program's limit, and by what others leave.
uint64_t limit_bytes_of(const DevicePools &device)
{
    const vw_pool *pool = device.pool.load(std::memory_order_acquire);
    vw_pool_stats stats{};
    vw_paged_stats paged{};
    stats.struct_size = sizeof stats;
    paged.struct_size = sizeof paged;
    uint64_t free_bytes = 0, total_bytes = 0;
    if (vw_pool_get_stats(pool, &stats) != VW_OK ||
        vw_pool_get_paged_stats(pool, &paged) != VW_OK ||
        device.device->table->memory_info(device.device->context, &free_bytes, &total_bytes) !=
            VW_OK)
        return 0;
    const auto held_bytes = static_cast<uint64_t>(stats.reserved_bytes.all.current);
    return std::min(stats.limit_bytes, held_bytes - paged.spilled_bytes + free_bytes);
}

} // namespace

// Of the pool, spilled memory included; 0 where it does not say.
uint64_t StateStream::live_bytes_of(const DevicePools &device)
{
    vw_pool_stats stats{};
    stats.struct_size = offsetof(vw_pool_stats, largest_free_block_bytes); // which takes a search
    if (vw_pool_get_stats(pool_of(device), &stats) != VW_OK)
        return 0;
    return static_cast<uint64_t>(stats.allocated_bytes.all.current);
}

void StateStream::mark(Lane &lane, uint64_t live_bytes)
{
    size_t index = static_cast<size_t>(lane.requests++ / lane.per_mark);
    if (index == most_marks) { // each two become one
        for (size_t i = 0; i < most_marks / 2; i++)
            lane.marks[i] = std::max(lane.marks[2 * i], lane.marks[2 * i + 1]);
        lane.marks.resize(most_marks / 2);
        lane.per_mark *= 2;
        index = most_marks / 2;
    }
    if (index == lane.marks.size())
        lane.marks.push_back(0);
    lane.marks[index] = std::max(lane.marks[index], live_bytes);
}

void StateStream::note_request(DevicePools &device, uint64_t size_bytes)
{
    if (size_bytes < least_bytes || pool_of(device) == nullptr || is_bringing_back())
        return;
    std::unique_lock<std::timed_mutex> hold(lock_, std::try_to_lock);
    Lane &lane = lane_of(device);
    if (!hold.owns_lock() || lane.limit_bytes == 0) // one mark less; no step has ended yet
        return;
    if (lane.bytes_in[away] != 0 && !lane.is_return_off)
        begin_returns(lane, device);
    mark(lane, live_bytes_of(device) + lane.bytes_in[away] + size_bytes);
}

uint64_t StateStream::plan(DevicePools &device, bool is_step_end)
{
    std::lock_guard<std::timed_mutex> hold(lock_);
    Lane &lane = lane_of(device);
    if (is_step_end) {
        forget_dead();
        uint64_t state_bytes = 0;
        for (uint64_t bytes : lane.bytes_in)
            state_bytes += bytes;
        lane.limit_bytes = limit_bytes_of(device);
        lane.back_bytes.swap(lane.marks);
        lane.planned_per_mark = lane.per_mark;
        lane.planned_step_mark = lane.requests_before_step / lane.per_mark;
        lane.leave_bytes =
            vw_schedule_stream(lane.back_bytes.data(), lane.back_bytes.size(), lane.limit_bytes,
                               state_bytes, lane.back_bytes.data());
        lane.marks.clear();
        lane.requests = lane.requests_before_step = 0;
        lane.per_mark = 1;
        lane.is_return_off = false;
    }
    const uint64_t out_bytes =
        lane.bytes_in[leaving] + lane.bytes_in[away] + lane.bytes_in[returning];
    return lane.leave_bytes > out_bytes ? lane.leave_bytes - out_bytes : 0;
}

StreamCounts StateStream::counts(const DevicePools &device)
{
    std::lock_guard<std::timed_mutex> hold(lock_);
    StreamCounts counts = lane_of(device).counts;
    counts.away_bytes = lane_of(device).bytes_in[away] + lane_of(device).bytes_in[returning];
    return counts;
}

// ---- a request without room --------------------------------------------------------------------

bool StateStream::make_room(DevicePools &device, uint64_t size_bytes)
{
    // Where there are two pools, this thread has a lock that one with Python's may wait for.
    if (!is_on() || is_bringing_back() || getpid() != process_id_ ||
        device.second.load() != nullptr)
        return false;
    const uint64_t dropped_bytes = drop_returns(device);
    if (dropped_bytes >= size_bytes)
        return true;
    const auto begin = std::chrono::steady_clock::now();
    const bool is_worth_while = ask_python(device, size_bytes) || dropped_bytes != 0;
    const auto wait = std::chrono::steady_clock::now() - begin;
    std::unique_lock<std::timed_mutex> hold(lock_, std::try_to_lock);
    if (hold.owns_lock()) {
        StreamCounts &counts = lane_of(device).counts;
        counts.asked++;
        counts.wait_ns += static_cast<uint64_t>(wait / std::chrono::nanoseconds(1));
    }
    return is_worth_while;
}

bool StateStream::ask_python(const DevicePools &device, uint64_t size_bytes)
{
    if (has_lock_() != 0)
        return room_maker_(device.index, size_bytes) != 0;
    const auto end = std::chrono::steady_clock::now() + patience;
    std::unique_lock<std::timed_mutex> asking(asking_, end);
    std::unique_lock<std::mutex> hold(need_lock_);
    if (!asking.owns_lock() || !is_on())
        return false;
    need_ = Need::posted;
    need_device_ = device.index;
    need_bytes_ = size_bytes;
    is_worth_while_ = false;
    need_changed_.notify_all();
    const auto is_over = [this] { return need_ == Need::done || !is_on(); };
    while (!is_over() && std::chrono::steady_clock::now() < end)
        need_changed_.wait_for(hold, look_pause);
    const bool is_done = is_over();
    need_ = Need::none;
    if (!is_done)
        is_on_.store(false);
    return is_worth_while_;
}

bool StateStream::next_need(int *device, uint64_t *size_bytes)
{
    std::unique_lock<std::mutex> hold(need_lock_);
    while (need_ != Need::posted && is_on())
        need_changed_.wait_for(hold, look_pause);
    if (!is_on())
        return false;
    need_ = Need::taken;
    *device = need_device_;
    *size_bytes = need_bytes_;
    return true;
}

void StateStream::answer(bool is_worth_while)
{
    std::lock_guard<std::mutex> hold(need_lock_);
    if (need_ != Need::taken)
        return; // nobody waits any more
    need_ = Need::done;
    is_worth_while_ = is_worth_while;
    need_changed_.notify_all();
}

} // namespace vramwise_torch
