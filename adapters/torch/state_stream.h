// state_stream.h - an optimizer's state that leaves the GPU between two steps, beside the
// computation.
//
// After a step the state is copied to page-locked host memory on a stream of its own. If a request
// later finds no room, the storage is bound to the host's copy, and the device's block is freed.
// Behind the backward pass the bytes are copied back into a new block, and the next step finds its
// storage bound to that. docs/design/010-spill.md has the reasons.
//
// A piece is one storage:
//
//   on the device --copy_out()--> leaving --bind_out()--> away --begin_return()--> returning
//         ^-------bind_in()----------'                      |                          |
//         ^------------------------bind_in()----------------+--------------------------'
//
// What the step finds away is used on the host, or through blocks that are only lent for it
// (stage()):
//
//   away --stage()--> returning --use_staged()--> lent --unstage(), note_step()--> away
//
// A lent piece is bound to the host's copy, whose bytes are old until the loan ends: nothing copies
// them, and no second block is lent.
//
// A storage is bound elsewhere with Python's lock held, and only where nobody but the optimizer can
// have it in hand (is_alone()). So no thread is between reading its address and using it. All views
// share the storage: none is left behind. Work on its old memory may be queued anywhere; whoever
// gets that memory is behind all of it, in the order of streams.
//
// Tensors that the forward pass saves go the same way by other means (saved_stream.h), through the
// same streams and by the same marks, so their calls come by here too.
//
// Locks: lock_ comes before a pool's own, and under it Python's lock is never asked for. Whoever
// has it may be held at the launch gate (docs/design/012-park.md), so those with Python's lock wait
// for it only a moment.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <c10/core/TensorImpl.h>

#include "saved_stream.h"
#include "stream_pace.h"
#include "yielding_mutex.h"

namespace vramwise_torch
{

// A tensor as Python names it: tensor._cdata and id(tensor). It must live for the call.
struct NamedTensor {
    c10::TensorImpl *impl;
    const void *object;
};

// What a stream did on one GPU.
struct StreamCounts {
    uint64_t away_bytes = 0;           // on the host now
    uint64_t all_left_bytes = 0;       // sum over all times, and so the next three
    uint64_t all_returned_bytes = 0;   // that a step of the optimizer found on the GPU again
    uint64_t returned_ahead_bytes = 0; // of those, copied before the step
    uint64_t stayed_bytes = 0;         // that a step found on the host
    uint64_t asked = 0;                // requests that found no room and asked for some
    uint64_t wait_ns = 0;              // that those waited
    SavedCounts saved;
};

class StateStream
{
  public:
    // `make_room(device, size, is_ahead)`: takes Python's lock, and binds pieces out. True: memory
    // was freed. `is_ahead`: nothing lacks yet, so only what leaves anyway, and wait() accordingly.
    using RoomMaker = int (*)(int device, unsigned long long size_bytes, int is_ahead);
    using LockCheck = int (*)();  // PyGILState_Check()
    using Clock = uint64_t (*)(); // in ns

    // `devices` is indexed by the number of the GPU.
    StateStream(DevicePools *devices, size_t device_count, vw_pinned_budget *budget,
                c10::DeleterFnPtr free_block);

    bool is_on() const
    {
        return is_on_.load(std::memory_order_relaxed);
    }

    // ---- called by requests, in any thread, without a pool's lock ----

    // Before a request is served. May begin to bring pieces back.
    void note_request(DevicePools &device, uint64_t size_bytes);
    // It found no room (vw_pool_options.make_room). Waits for Python a while, and no longer.
    bool make_room(DevicePools &device, uint64_t size_bytes, bool is_missed = true);

    // Another one, for tests.
    void set_clock(Clock clock)
    {
        clock_ = clock;
    }

    // The process is parked, or about to be, until it is woken: no copy is launched, since it would
    // be held, perhaps in a thread that has Python's lock, which whoever wakes the process needs.
    void set_parked(bool is_parked);

    // ---- called by Python, with its lock ----

    // `alone` is a tensor that only a dictionary and the caller's variable hold, as state is held
    // when the functions below are called for it.
    void start(NamedTensor alone, RoomMaker room_maker, LockCheck has_lock);
    void stop(); // pieces that are away stay there until bind_in()
    bool is_alone(NamedTensor tensor);
    // The bytes of the block that it is not bound to any more; 0: it stays where it is.
    uint64_t bind_out(NamedTensor tensor);
    // Behind fetch(). False: it stays on the host.
    bool bind_in(NamedTensor tensor);

    // ---- called by Python, without its lock ----

    // Its bytes, if its storage can be a piece; else 0.
    uint64_t add(NamedTensor tensor);
    // How many bytes more shall be copied out. At the end of a step a new schedule is made first.
    uint64_t plan(DevicePools &device, bool is_step_end);
    // Its optimizer has stepped, on the current stream.
    void note_step(NamedTensor tensor);
    // Has a piece copied to the host, from the next request on: its bytes, or 0. By chunks, whoever
    // pump()s: few are queued at a time, so that few are waited for by whoever waits for all that
    // is queued.
    uint64_t copy_out(NamedTensor tensor);
    // The same at once, behind all that is queued: what was written before is in the copy, and what
    // was written since shows in the version.
    uint64_t copy_out_at_once(NamedTensor tensor);
    // Before the optimizer's step, on the current stream: which then waits for the copy into the
    // block that bind_in() binds it to. Its bytes; 0: it is on the device, or has to stay away.
    uint64_t fetch(NamedTensor tensor);
    StreamCounts counts(const DevicePools &device);
    // State that stays on the host in its optimizer's step, on the current stream, may be used part
    // by part in blocks of the device: copied in ahead, and out behind. stage() begins the copy in,
    // where a block is to be had with so many bytes left: its bytes, or 0. use_staged() hands the
    // block to `shell`, an empty tensor. unstage() has what is there copied to the host's copy, for
    // all that is queued on the stream afterwards, and takes the block back. False: what the step
    // made is lost. A piece that was lent and not taken back stays on the host up to note_step().
    uint64_t stage(NamedTensor tensor, uint64_t kept_bytes);
    bool use_staged(NamedTensor tensor, c10::TensorImpl *shell);
    bool unstage(NamedTensor tensor, c10::TensorImpl *shell);
    // For its copy. `is_ahead`: only while the GPU has enough to do that nobody notices.
    void wait(NamedTensor tensor, bool is_ahead);
    // Begins copies chunk by chunk, until stop().
    void pump();
    // Frees the blocks that pieces were bound to, behind all that is queued. Their bytes.
    // `is_ahead`: later, when that is over.
    uint64_t release(DevicePools &device, bool is_ahead);
    // Saved tensors, as in saved_stream.h; `shell` and `tensor` have storages of their own.
    long long save(c10::TensorImpl *tensor);
    void note_saved_use(const DevicePools &device, uint64_t item);
    long long fetch_saved(const DevicePools &device, uint64_t id, c10::TensorImpl *shell);
    bool fill_saved(const DevicePools &device, uint64_t id, c10::TensorImpl *tensor);
    void release_saved(const DevicePools &device, uint64_t id);
    uint64_t saved_lacking_bytes(const DevicePools &device);
    // Waits until make_room() wants something; false: it is over. Then answer().
    bool next_need(int *device, uint64_t *size_bytes, bool *is_ahead);
    void answer(bool is_worth_while);

  private:
    enum Place : uint8_t { on_device, leaving, away, returning, lent, place_count };
    struct Piece {
        DevicePools *device;
        c10::StorageImpl *storage; // held weakly
        uint64_t size_bytes;
        Place place = on_device;
        std::atomic<bool> has_ended{false}; // while it was bound to the host's copy
        bool is_fetched = false;            // returning, and the step's stream waits for it
        bool is_ahead = false;              // and it was copied before the step
        bool is_in_step = false;   // of its optimizer, or one that failed: no copy is to be trusted
        bool is_due_out = false;   // is to be copied out, or the rest of it
        uint64_t copied_bytes = 0; // so far
        c10::VariableVersion counter;
        uint32_t version = 0;         // of the tensor, that its newest copy has
        vw_stream home = 0;           // on which its optimizer steps, and of its memory
        void *host = nullptr;         // its copy; kept for the next time
        vw_device_ptr back = VW_NULL; // returning: the block that is being filled; lent: the block
        vw_device_event copied = 0;   // behind the newest copy
    };
    // Of one GPU.
    struct Lane {
        CopyLane copies;
        std::unique_ptr<SavedStream> saved;
        std::array<uint64_t, place_count> bytes_in{}; // of pieces, by place

        // The step under way: the most that was live, for each so many requests.
        std::vector<uint64_t> marks;
        uint64_t requests = 0, per_mark = 1;
        uint64_t requests_before_step = 0; // of the optimizer
        // What vw_schedule_stream() made of the last one.
        uint64_t leave_bytes = 0;
        std::vector<uint64_t> back_bytes;
        uint64_t stay_bytes = 0;  // of leave_bytes: vw_schedule_stay_bytes()
        uint64_t found_bytes = 0; // of leave_bytes: were away when the step began
        uint64_t planned_per_mark = 1, planned_step_mark = 0;
        uint64_t return_from = 0; // requests before that begin no return: one was too early
        size_t need_mark = 0;     // vw_schedule_need_mark()
        uint64_t ahead_bytes = 0; // that were to have left so far (vw_schedule_left_bytes())
        // Behind what was queued at the two newest of some moments of the step.
        std::array<vw_device_event, 2> moments{};
        size_t moment_count = 0; // in this step
        // How much longer this step may be kept waiting for a GPU that has enough to do.
        std::chrono::microseconds patience{0};
        size_t due_pieces = 0;               // to be copied out, from the next request on
        std::atomic<bool> is_pumping{false}; // that has come
        std::array<vw_device_event, 2> chunk_ends{};
        // Behind all that was queued when the newest step ended whose state is to leave.
        vw_device_event step_end = 0;
        bool has_step_end = false;

        // Blocks that nothing is bound to, until release(). Those that it is to free later are
        // ending: until all is over that was queued then.
        std::vector<c10::DataPtr> left, ending;
        uint64_t left_bytes = 0, ending_bytes = 0;
        vw_device_event end = 0; // of those that are ending
        // Of pieces that are no more; kept, since somebody may wait for one.
        std::vector<vw_device_event> spare_events;
        StreamCounts counts;
        StreamPace pace;
        vw_device_event trial_end = 0; // of a step that is timed
        uint64_t pumped_bytes = 0;     // that pump() has had copied, in all

        // Of pieces whose storage is bound to the host's copy, and which nothing brings back.
        uint64_t away_bytes() const
        {
            return bytes_in[away] + bytes_in[lent];
        }
    };
    struct Holders {
        uint32_t references, tensor_uses, storage_uses;
        bool operator==(const Holders &other) const
        {
            return references == other.references && tensor_uses == other.tensor_uses &&
                   storage_uses == other.storage_uses;
        }
    };

    // Of a piece, and of a request that is looked at.
    static constexpr uint64_t least_bytes = uint64_t{1} << 20;
    // That a thread with Python's lock waits for another one here.
    static constexpr std::chrono::milliseconds a_moment{100};
    // That a step is kept waiting ahead of need: a GPU may stand still, too.
    static constexpr std::chrono::seconds step_patience{1};
    static constexpr std::chrono::microseconds short_pause{50}; // between two looks at a GPU
    // Moments up to the first need of a step: two of them apart, the GPU has enough to do.
    static constexpr size_t moment_share = 16;
    // Part of a step that passes before memory that came back too early may come again.
    static constexpr uint64_t late_share = 16;

    static Holders holders_of(NamedTensor tensor);
    static void host_copy_ends(void *piece); // the deleter of the host's copies
    Lane &lane_of(const DevicePools &device);
    Piece *find(NamedTensor tensor);
    bool is_at_home(const Piece &piece) const;
    void forget_dead();
    void put(Piece &piece, Place place);
    bool prepare(Lane &lane, Piece &piece);
    bool copy(Lane &lane, Piece &piece, bool is_out);
    static void mark(Lane &lane, uint64_t live_bytes);
    uint64_t due_ahead_bytes(Lane &lane, const DevicePools &device);
    static bool has_work(const Lane &lane, const DevicePools &device);
    static bool is_leaving_still(const Piece &piece);
    bool is_due(const Lane &lane, const Piece &piece, bool is_for_step) const;
    bool begin_return(const Lane &lane, Piece &piece);
    void set_due(Piece &piece, bool is_due);
    bool begin_copy(Lane &lane, Piece &piece);
    bool copy_chunk(Lane &lane, Piece &piece, SavedStream::Left &left);
    bool copy_due(Lane &lane, DevicePools &device, const Piece *last, SavedStream::Left &left);
    static void put_returns_off(Lane &lane);
    bool is_reuse_ordered(Lane &lane, DevicePools &pools, const std::vector<c10::DataPtr> &blocks,
                          std::vector<vw_stream> &streams, uint64_t *freed_bytes);
    void drop_block(Piece &piece);
    void end_loan(Piece &piece);
    bool write_back(Lane &lane, Piece &piece, vw_device_ptr block);
    std::unique_lock<YieldingMutex> lock_unless_parked();
    void begin_returns(Lane &lane, const DevicePools &device);
    uint64_t drop_returns(const DevicePools &device);
    void look_at_request(DevicePools &device, uint64_t size_bytes);
    bool settle(Lane &lane, const DevicePools &device);
    static bool may_wait(Lane &lane, const DevicePools &device);
    static void settle_ending(Lane &lane, const DevicePools &device,
                              std::vector<c10::DataPtr> &freed);
    static bool begin_ending(Lane &lane, DevicePools &device);
    void pump_device(DevicePools &device);
    bool finish_trial_step(DevicePools &device);
    void make_plan(Lane &lane, DevicePools &device, bool is_finished);
    bool has_state_to_move(const DevicePools &device);
    bool has_other_devices(const DevicePools &device) const;
    uint64_t shortfall_bytes(DevicePools &device, uint64_t size_bytes, bool is_missed);
    uint64_t give_up_saved(DevicePools &device, uint64_t wanted_bytes);
    bool ask_python(const DevicePools &device, uint64_t size_bytes, bool is_ahead);

    DevicePools *devices_;
    vw_pinned_budget *budget_;
    c10::DeleterFnPtr free_block_;
    std::atomic<bool> is_on_{false};
    int process_id_ = 0;
    Holders alone_{};
    RoomMaker room_maker_ = nullptr;
    LockCheck has_lock_ = nullptr;
    Clock clock_;

    YieldingMutex lock_; // what follows
    bool is_parked_ = false;
    std::vector<Lane> lanes_;
    std::vector<std::unique_ptr<Piece>> pieces_; // in the order in which they came
    std::unordered_map<const c10::StorageImpl *, Piece *> by_storage_;

    std::mutex pump_lock_; // what follows
    std::condition_variable pump_changed_;
    bool is_pump_wanted_ = false;

    // A request without room, and Python's thread that answers: one at a time.
    std::timed_mutex asking_;
    std::mutex need_lock_; // what follows
    std::condition_variable need_changed_;
    enum class Need { none, posted, taken, done } need_ = Need::none;
    int need_device_ = 0;
    uint64_t need_bytes_ = 0;
    bool is_need_ahead_ = false;
    bool is_worth_while_ = false;
};

} // namespace vramwise_torch
