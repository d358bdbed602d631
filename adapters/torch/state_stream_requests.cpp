// state_stream_requests.cpp - what requests tell a stream of state, and what they want of it.
//
// Requests of a MiB and more are marks of the step: how much was live at each decides what leaves
// after the next (vw_schedule_stream()). One that finds no room waits for Python, which alone may
// bind storages elsewhere: in its own thread if that has Python's lock, else in one that takes it.
// From the first request of a step on, a thread copies out what is due (pump()).
#include "adapter.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <unistd.h>

namespace vramwise_torch
{

namespace
{

constexpr size_t most_marks = 4096;
// For Python's thread to bind pieces. It may never come to it, if whoever has Python's lock waits
// for the thread that asks. Then the request goes the old way, and nobody is asked again. Ahead of
// need a moment has to be enough, and nothing follows if it is not.
constexpr std::chrono::seconds patience{5};
// Between two looks at a condition. Older C libraries can lose a wake-up (glibc's bug 25847), and
// older C++ libraries lack the function that waits without an end.
constexpr std::chrono::seconds look_pause{1};
constexpr std::chrono::microseconds chunk_pause{100}; // a chunk takes three of it
// Fewer copies in a row say little of the bus.
constexpr uint64_t least_timed_bytes = 16 * CopyTrack::chunk_bytes;

} // namespace

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

// What has left is free from here on: references are given up without the lock. False: something is
// late that a GPU with enough to do can be waited for.
bool StateStream::settle(Lane &lane, const DevicePools &device)
{
    SavedStream::Left left;
    std::vector<c10::DataPtr> freed;
    std::unique_lock<YieldingMutex> hold(lock_, a_moment); // it may have Python's
    if (!hold.owns_lock())
        return true;
    lane.saved->settle(lane.requests, left);
    settle_ending(lane, device, freed);
    if (lane.due_pieces != 0 && !lane.is_pumping) {
        lane.is_pumping = true;
        std::lock_guard<std::mutex> hold_pump(pump_lock_);
        is_pump_wanted_ = true;
        pump_changed_.notify_all();
    }
    return (lane.ending.empty() && !lane.saved->is_late(lane.requests)) || is_parked_ ||
           !may_wait(lane, device);
}

// Two chunks are queued at any time: one is copied, and the next is there when it is over.
void StateStream::pump_device(DevicePools &device)
{
    const vw_device &gpu = *device.device;
    Lane &lane = lane_of(device);
    std::array<vw_device_event, 2> &ends = lane.chunk_ends;
    // When the first chunk ended and when the newest did, and what had been queued up to its end.
    uint64_t first_ns = 0, first_bytes = 0, newest_ns = 0, newest_bytes = 0;
    uint64_t queued_bytes = 0;
    for (size_t turn = 0;; turn = 1 - turn) {
        {
            SavedStream::Left left;
            lock_.lock_last();
            std::lock_guard<YieldingMutex> hold(lock_, std::adopt_lock);
            if ((ends[turn] == 0 && gpu.table->event_create(gpu.context, &ends[turn]) != VW_OK) ||
                !copy_due(lane, device, nullptr, left) ||
                !lane.copies.state_out.mark(gpu, ends[turn])) {
                lane.is_pumping = false;
                if (newest_bytes - first_bytes >= least_timed_bytes)
                    lane.pace.note_copies(newest_bytes - first_bytes, newest_ns - first_ns);
                return;
            }
            newest_bytes = queued_bytes;
            queued_bytes = lane.pumped_bytes;
        }
        while (ends[1 - turn] != 0 && is_on() &&
               gpu.table->event_query(gpu.context, ends[1 - turn]) == VW_ERR_NOT_READY)
            std::this_thread::sleep_for(chunk_pause);
        newest_ns = clock_();
        if (first_bytes == 0) {
            first_bytes = newest_bytes;
            first_ns = newest_ns;
        }
    }
}

void StateStream::pump()
{
    while (is_on()) {
        {
            std::unique_lock<std::mutex> hold(pump_lock_);
            if (!is_pump_wanted_)
                pump_changed_.wait_for(hold, look_pause);
            is_pump_wanted_ = false;
        }
        for (size_t i = 0; i < lanes_.size(); i++)
            if (lanes_[i].is_pumping)
                pump_device(devices_[i]);
    }
}

// Nothing is thrown at a request: it can be served without us.
void StateStream::note_request(DevicePools &device, uint64_t size_bytes)
{
    try {
        if (size_bytes >= least_bytes && pool_of(device) != nullptr && is_served_now(device))
            look_at_request(device, size_bytes);
    } catch (...) { // no host memory: one mark less
    }
}

// What of the state is to leave now though nothing lacks yet. Notes moments of the step up to the
// first need, for has_work().
uint64_t StateStream::due_ahead_bytes(Lane &lane, const DevicePools &pools)
{
    const uint64_t index = lane.requests / lane.planned_per_mark;
    if ((lane.leave_bytes == 0 && lane.saved->lacking_bytes() == 0) || index > lane.need_mark)
        return 0;
    const vw_device &device = *pools.device;
    if (lane.moment_count * lane.need_mark <= index * moment_share) {
        vw_device_event &moment = lane.moments[lane.moment_count % lane.moments.size()];
        if ((moment != 0 || device.table->event_create(device.context, &moment) == VW_OK) &&
            device.table->event_record(device.context, moment, current_stream_on(pools)) == VW_OK)
            lane.moment_count++;
    }
    const uint64_t left_bytes =
        lane.found_bytes +
        vw_schedule_left_bytes(lane.leave_bytes - lane.found_bytes, lane.need_mark, index);
    const uint64_t out_bytes = lane.away_bytes() + lane.bytes_in[returning];
    if (left_bytes <= lane.ahead_bytes)
        return 0;
    lane.ahead_bytes = left_bytes; // once, whatever comes of it
    return left_bytes - std::min(left_bytes, out_bytes);
}

void StateStream::look_at_request(DevicePools &device, uint64_t size_bytes)
{
    Lane &lane = lane_of(device);
    uint64_t ahead_bytes = 0;
    while (!settle(lane, device) && is_on() && has_lock_() == 0)
        std::this_thread::sleep_for(short_pause);
    {
        std::unique_lock<YieldingMutex> hold(lock_, a_moment);
        if (!hold.owns_lock() || lane.copies.limit_bytes == 0) // one mark less; no step has ended
            return;
        if (!is_parked_)
            lane.saved->begin_returns(lane.requests);
        if (lane.bytes_in[away] != 0 && lane.requests >= lane.return_from &&
            !lane.saved->has_returns_to_come())
            begin_returns(lane, device);
        const uint64_t live_bytes = live_bytes_of(device);
        ahead_bytes = is_parked_ ? 0 : due_ahead_bytes(lane, device);
        // The blocks of what is lent are live.
        mark(lane, live_bytes - lane.left_bytes - lane.ending_bytes + lane.bytes_in[away] +
                       lane.saved->counts().away_bytes + size_bytes);
        if (ahead_bytes == 0 && live_bytes + size_bytes <= lane.copies.limit_bytes)
            return;
    }
    if (ahead_bytes != 0 && is_on() && getpid() == process_id_ && device.second.load() == nullptr)
        ask_python(device, ahead_bytes, true);
    make_room(device, size_bytes, false); // the pool would try everything else before it asks
}

// Whoever times a step has to know when the GPU is through with it. False: nobody times it, or
// nobody can tell.
bool StateStream::finish_trial_step(DevicePools &device)
{
    const vw_device &gpu = *device.device;
    vw_device_event end = 0;
    {
        std::lock_guard<YieldingMutex> hold(lock_);
        Lane &lane = lane_of(device);
        if (!lane.pace.is_trial() || is_parked_ ||
            (lane.trial_end == 0 &&
             gpu.table->event_create(gpu.context, &lane.trial_end) != VW_OK) ||
            gpu.table->event_record(gpu.context, lane.trial_end, current_stream_on(device)) !=
                VW_OK)
            return false;
        end = lane.trial_end;
    }
    return gpu.table->event_synchronize(gpu.context, end) == VW_OK;
}

void StateStream::make_plan(Lane &lane, DevicePools &device, bool is_finished)
{
    const std::vector<uint64_t> &marks = lane.marks;
    const uint64_t limit_bytes = limit_bytes_of(device);
    uint64_t state_bytes = 0;
    for (uint64_t bytes : lane.bytes_in)
        state_bytes += bytes;
    lane.pace.end_step(clock_(), lane.leave_bytes, lane.saved->lacking_bytes(), is_finished);
    lane.copies.limit_bytes = limit_bytes;
    lane.planned_per_mark = lane.per_mark;
    lane.planned_step_mark = lane.requests_before_step / lane.per_mark;
    lane.back_bytes.resize(marks.size());
    lane.leave_bytes = vw_schedule_stream(marks.data(), marks.size(), limit_bytes, state_bytes,
                                          lane.back_bytes.data());
    lane.stay_bytes = vw_schedule_stay_bytes(marks.data(), marks.size(), limit_bytes,
                                             lane.leave_bytes, lane.pace.hidden_bytes());
    lane.found_bytes = std::min(lane.leave_bytes, lane.away_bytes());
    std::vector<uint64_t> away_bytes;
    for (uint64_t &back_bytes : lane.back_bytes) {
        back_bytes = std::min(back_bytes, lane.leave_bytes - lane.stay_bytes);
        away_bytes.push_back(lane.leave_bytes - back_bytes);
    }
    lane.need_mark = vw_schedule_need_mark(marks.data(), marks.size(), limit_bytes);
    lane.saved->plan(marks, lane.per_mark, lane.requests, away_bytes, lane.need_mark);
}

uint64_t StateStream::plan(DevicePools &device, bool is_step_end)
{
    const bool is_finished = is_step_end && finish_trial_step(device);
    std::lock_guard<YieldingMutex> hold(lock_);
    Lane &lane = lane_of(device);
    if (is_step_end) {
        forget_dead();
        make_plan(lane, device, is_finished);
        lane.ahead_bytes = 0;
        lane.moment_count = 0;
        lane.patience = step_patience;
        lane.marks.clear();
        lane.requests = lane.requests_before_step = 0;
        lane.per_mark = 1;
        lane.return_from = 0;
    }
    const uint64_t out_bytes =
        lane.bytes_in[leaving] + lane.away_bytes() + lane.bytes_in[returning];
    if (lane.leave_bytes <= out_bytes)
        return 0;
    const vw_device &gpu = *device.device;
    lane.has_step_end =
        (lane.step_end != 0 || gpu.table->event_create(gpu.context, &lane.step_end) == VW_OK) &&
        record_all(device, lane.step_end);
    return lane.leave_bytes - out_bytes;
}

StreamCounts StateStream::counts(const DevicePools &device)
{
    std::lock_guard<YieldingMutex> hold(lock_);
    StreamCounts counts = lane_of(device).counts;
    counts.away_bytes = lane_of(device).away_bytes() + lane_of(device).bytes_in[returning];
    counts.saved = lane_of(device).saved->counts();
    return counts;
}

// ---- a request without room --------------------------------------------------------------------

// How much has to be freed for a request.
uint64_t StateStream::shortfall_bytes(DevicePools &device, uint64_t size_bytes, bool is_missed)
{
    const uint64_t limit_bytes = limit_bytes_of(device); // others may have made room, or taken it
    const uint64_t wanted_bytes = live_bytes_of(device) + size_bytes;
    // A pool that is full to the last byte moves pages for every request.
    const uint64_t slack_bytes = limit_bytes - vw_schedule_room_bytes(limit_bytes);
    {
        std::unique_lock<YieldingMutex> hold(lock_, a_moment);
        if (hold.owns_lock())
            lane_of(device).copies.limit_bytes = limit_bytes;
    }
    if (wanted_bytes <= limit_bytes)
        return is_missed ? std::min(size_bytes, slack_bytes) : 0; // in pieces that are too small
    return wanted_bytes - limit_bytes + slack_bytes;
}

// Lets go of saved tensors that are being copied out, the oldest first: whoever gets their memory
// waits for the copies, and the host does not. The bytes that became free.
uint64_t StateStream::give_up_saved(DevicePools &device, uint64_t wanted_bytes)
{
    Lane &lane = lane_of(device);
    const uint64_t before_bytes = live_bytes_of(device);
    uint64_t freed_bytes = 0;
    for (bool is_more = true; is_more && freed_bytes < wanted_bytes;) {
        {
            SavedStream::Left left;                                // ends without the lock
            std::unique_lock<YieldingMutex> hold(lock_, a_moment); // it may have Python's
            is_more = hold.owns_lock() && !is_parked_ && lane.saved->give_up_oldest(left);
        }
        freed_bytes = before_bytes - std::min(before_bytes, live_bytes_of(device));
    }
    return freed_bytes;
}

bool StateStream::has_state_to_move(const DevicePools &device)
{
    std::unique_lock<YieldingMutex> hold(lock_, a_moment);
    const Lane &lane = lane_of(device);
    return hold.owns_lock() && lane.bytes_in[on_device] + lane.bytes_in[leaving] != 0;
}

bool StateStream::make_room(DevicePools &device, uint64_t size_bytes, bool is_missed)
{
    // Where there are two pools, this thread has a lock that one with Python's may wait for.
    if (!is_on() || getpid() != process_id_ || device.second.load() != nullptr)
        return false;
    const auto begin = std::chrono::steady_clock::now();
    const uint64_t wanted_bytes = shortfall_bytes(device, size_bytes, is_missed);
    if (wanted_bytes == 0)
        return false;
    uint64_t freed_bytes = release(device, false); // what left ahead of need
    if (freed_bytes < wanted_bytes)
        freed_bytes += give_up_saved(device, wanted_bytes - freed_bytes);
    if (freed_bytes < wanted_bytes)
        freed_bytes += drop_returns(device);
    bool is_worth_while = freed_bytes != 0;
    if (freed_bytes < wanted_bytes && has_state_to_move(device))
        is_worth_while |= ask_python(device, wanted_bytes - freed_bytes, false);
    const auto wait = std::chrono::steady_clock::now() - begin;
    std::unique_lock<YieldingMutex> hold(lock_, std::try_to_lock);
    if (hold.owns_lock()) {
        StreamCounts &counts = lane_of(device).counts;
        counts.asked++;
        counts.wait_ns += static_cast<uint64_t>(wait / std::chrono::nanoseconds(1));
    }
    return is_worth_while;
}

bool StateStream::ask_python(const DevicePools &device, uint64_t size_bytes, bool is_ahead)
{
    if (has_lock_() != 0)
        return room_maker_(device.index, size_bytes, is_ahead) != 0;
    const auto end = std::chrono::steady_clock::now() +
                     (is_ahead ? a_moment : std::chrono::milliseconds(patience));
    std::unique_lock<std::timed_mutex> asking(asking_, end);
    std::unique_lock<std::mutex> hold(need_lock_);
    if (!asking.owns_lock() || !is_on())
        return false;
    need_ = Need::posted;
    need_device_ = device.index;
    need_bytes_ = size_bytes;
    is_need_ahead_ = is_ahead;
    is_worth_while_ = false;
    need_changed_.notify_all();
    const auto is_over = [this] { return need_ == Need::done || !is_on(); };
    while (!is_over() && std::chrono::steady_clock::now() < end)
        need_changed_.wait_for(hold, look_pause);
    const bool is_done = is_over();
    need_ = Need::none;
    if (!is_done && !is_ahead)
        is_on_.store(false);
    return is_worth_while_;
}

bool StateStream::next_need(int *device, uint64_t *size_bytes, bool *is_ahead)
{
    std::unique_lock<std::mutex> hold(need_lock_);
    while (need_ != Need::posted && is_on())
        need_changed_.wait_for(hold, look_pause);
    if (!is_on())
        return false;
    need_ = Need::taken;
    *device = need_device_;
    *size_bytes = need_bytes_;
    *is_ahead = is_need_ahead_;
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
