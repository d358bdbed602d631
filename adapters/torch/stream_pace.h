// stream_pace.h - how much of what leaves the GPU a step can hide.
//
// Where the passes are too short for the copies, some of the state had better stay on the host
// (vw_schedule_stay_bytes()). How long the passes are is not seen while copies slow them down, and
// pages move. So a few steps are tried in which all of the state that leaves stays: what they take,
// less what it takes to use the state there, is computation. That is done only where copies might
// not be hidden, once for a program whose steps stay alike.
#pragma once

#include <algorithm>
#include <cstdint>

#include "vramwise/vramwise.h"

namespace vramwise_torch
{

class StreamPace
{
  public:
    // As vw_schedule_stay_bytes() wants it, for the next step.
    uint64_t hidden_bytes() const
    {
        return trial_steps_ != 0 ? 0 : hidden_bytes_;
    }
    // The host is to wait for the GPU at the end of the step, which is timed.
    bool is_trial() const
    {
        return trial_steps_ != 0;
    }
    // Copies one behind the other took so long.
    void note_copies(uint64_t bytes, uint64_t time_ns)
    {
        const double gib_ns = static_cast<double>(time_ns) / static_cast<double>(bytes) * gib_bytes;
        gib_ns_ = static_cast<uint64_t>(std::min<double>(static_cast<double>(gib_ns_), gib_ns));
    }
    // A step has ended for which `state_bytes` of the state were to leave, and of saved tensors
    // `saved_bytes`. `is_finished`: so has the GPU's work; a step that is timed says little else.
    void end_step(uint64_t now_ns, uint64_t state_bytes, uint64_t saved_bytes, bool is_finished)
    {
        const uint64_t step_ns = now_ns - last_end_ns_;
        last_end_ns_ = now_ns;
        steps_++;
        if (trial_steps_ != 0)
            end_trial_step(step_ns, state_bytes, saved_bytes, is_finished);
        else if (state_bytes == 0)
            moving_steps_ = 0;
        else if (++moving_steps_ >= steps_before && is_due(state_bytes + saved_bytes) &&
                 may_show(state_bytes + saved_bytes, step_ns))
            begin_trial(state_bytes + saved_bytes);
    }

  private:
    // Before a trial: a program's first steps are slow.
    static constexpr unsigned steps_before = 2;
    // The first brings all of the state to where it stays.
    static constexpr unsigned steps_in_trial = 3;
    static constexpr uint64_t steps_between = 64; // two trials
    static constexpr double gib_bytes = 1 << 30;
    static constexpr uint64_t first_gib_ns = 22 * 1000 * 1000; // docs/design/010-spill.md

    // By more than a quarter.
    static bool differs(uint64_t bytes, uint64_t others)
    {
        const uint64_t less = std::min(bytes, others), more = std::max(bytes, others);
        return more - less > more / 4;
    }
    bool is_due(uint64_t bytes) const
    {
        return !has_tried_ || (steps_ - tried_at_ >= steps_between &&
                               (!has_result_ || differs(bytes, tried_bytes_)));
    }
    // The copies take more than a third of the step.
    bool may_show(uint64_t bytes, uint64_t step_ns) const
    {
        return static_cast<double>(bytes) / gib_bytes * static_cast<double>(gib_ns_) * 3 >
               static_cast<double>(step_ns);
    }
    void begin_trial(uint64_t bytes)
    {
        trial_steps_ = steps_in_trial;
        shortest_ns_ = UINT64_MAX;
        has_tried_ = true;
        has_result_ = false;
        tried_bytes_ = bytes;
        tried_at_ = steps_;
    }
    // A trial of steps that are not alike is given up.
    void end_trial_step(uint64_t step_ns, uint64_t state_bytes, uint64_t saved_bytes,
                        bool is_finished)
    {
        if (!is_finished || differs(state_bytes + saved_bytes, tried_bytes_)) {
            trial_steps_ = 0;
            return;
        }
        if (trial_steps_-- == steps_in_trial)
            return;
        shortest_ns_ = std::min(shortest_ns_, step_ns);
        if (trial_steps_ != 0)
            return;
        hidden_bytes_ = vw_schedule_hidden_bytes(shortest_ns_, saved_bytes, state_bytes, gib_ns_);
        has_result_ = true;
    }

    uint64_t hidden_bytes_ = UINT64_MAX;
    uint64_t gib_ns_ = first_gib_ns; // to copy a GiB, each way; the least that was seen
    uint64_t last_end_ns_ = 0, steps_ = 0;
    unsigned moving_steps_ = 0;                   // so many in a row had state to leave
    unsigned trial_steps_ = 0;                    // to come
    uint64_t shortest_ns_ = 0;                    // of the trial so far
    bool has_tried_ = false, has_result_ = false; // of the last trial
    uint64_t tried_bytes_ = 0;                    // what was to leave then
    uint64_t tried_at_ = 0;                       // step
};

} // namespace vramwise_torch
