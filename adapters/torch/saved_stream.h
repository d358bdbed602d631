// saved_stream.h - tensors that the forward pass saves for the backward pass, in host memory in
// between.
//
// PyTorch calls a hook when it saves a tensor, and another when it wants it back
// (python/vramwise/torch/_saved.py). For a tensor that shall leave, the first has its storage
// copied to page-locked memory, beside the computation, and lets go of it. So the GPU's memory is
// free when nobody else holds it either, behind the copy: nothing is moved under anybody.
// The second gets a new storage, into which the bytes were copied meanwhile, or are now.
//
//   leaving --settle()--> away --begin_returns()--> returning --fetch()--> back
//      |                    '-----------fetch(), fill()---------------------^
//      '--------------------------------fetch()-----------------------------'
//
// An item is a storage that a step saved, in the order of the step; several tensors may share it.
// What happened to the items of the last step decides what leaves in this one
// (vw_schedule_saved()).
//
// One object for each GPU. No lock of its own, but for released ids: StateStream's is held when
// anything else is called.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <c10/core/TensorImpl.h>

#include "copy_lane.h"
#include "vramwise/vramwise.h"

namespace vramwise_torch
{

struct SavedCounts {
    uint64_t away_bytes = 0;           // on the host alone
    uint64_t all_left_bytes = 0;       // sum over all times, and so the next two
    uint64_t all_returned_bytes = 0;   // that were wanted again
    uint64_t returned_ahead_bytes = 0; // of those, copied before they were
};

class SavedStream
{
  public:
    // References to storages that are given up when no lock is held: that may take Python's.
    struct Left {
        std::vector<c10::StorageImpl *> strong, weak;
        Left() = default;
        Left(const Left &) = delete;
        Left &operator=(const Left &) = delete;
        ~Left();
    };

    SavedStream(DevicePools &device, CopyLane &lane, vw_pinned_budget *budget,
                c10::DeleterFnPtr free_block)
        : device_(device), lane_(lane), budget_(budget), free_block_(free_block)
    {
    }

    // A tensor that is saved at request `now` of the step. More than 0: it leaves, by this id, to
    // which VRAMWISE_TORCH_SAVED_LAST may be added. Less: it stays, and is item -result - 1 of the
    // step. 0: it is not one that could leave.
    long long save(c10::TensorImpl *tensor, uint64_t now);
    // Item `index` of the step, which stayed, is wanted again.
    void note_use(uint64_t index, uint64_t now);

    enum Fetched { is_there = 0, was_written = -1, is_unknown = -2 };
    // Gives `shell`, an empty storage, the bytes of `id`, for work on the current stream. More than
    // 0: the bytes of a storage for fill().
    long long fetch(uint64_t id, c10::StorageImpl *shell, uint64_t now, Left &left);
    // Copies them into `storage`, in the order of the current stream.
    bool fill(uint64_t id, c10::StorageImpl *storage);
    // Nobody wants `id` any more. Needs no lock.
    void release(uint64_t id);

    // Gives up what was copied out meanwhile, or is not wanted any more.
    void settle(uint64_t now, Left &left);
    // Something should have been copied by now (vw_schedule_left_mark()).
    bool is_late(uint64_t now);
    // The same for what left first, before its copy is complete: the stream of its memory waits for
    // that. False: nothing leaves.
    bool give_up_oldest(Left &left);
    // Begins to copy back what is due.
    void begin_returns(uint64_t now);
    // Planned returns that were not begun: they come before those of state, which is used later.
    bool has_returns_to_come() const;
    // Gives up what is on its way back. Its bytes.
    uint64_t drop_returns();

    // A step has ended, of so many requests: what it had at each mark, of `per_mark` of them, and
    // what of the state will be away then in the next.
    void plan(const std::vector<uint64_t> &marks, uint64_t per_mark, uint64_t requests,
              const std::vector<uint64_t> &away_bytes, size_t need_mark);
    // What the last schedule lacked beside the state; 0: no tensor has to leave.
    uint64_t lacking_bytes() const
    {
        return lacking_bytes_;
    }
    const SavedCounts &counts() const
    {
        return counts_;
    }

  private:
    enum Place : uint8_t { leaving, away, returning, back };
    struct Piece {
        c10::StorageImpl *storage; // held weakly; while it leaves, so that it lives
        c10::VariableVersion counter;
        uint32_t version;
        uint64_t size_bytes;
        uint64_t index, step; // of its item
        uint64_t since;       // the request of the step at which it was saved
        Place place = leaving;
        bool is_gone = false;     // the storage, with the GPU's memory
        bool is_released = false; // while it was leaving
        vw_stream home = 0;
        void *host = nullptr;
        vw_device_ptr block = VW_NULL; // returning: that is being filled
        vw_device_event copied = 0;    // behind the newest copy
    };
    struct Item {
        uint64_t size_bytes;
        uint64_t from;  // the request of the step at which it was saved, or others let go of it
        uint64_t until; // at which it was wanted again; 0: it was not
        bool is_kept;   // by others, up to then: to copy it frees nothing
    };

    Piece *find(uint64_t id) const;
    Item *item_of(const Piece &piece);
    bool is_as_planned(uint64_t index, uint64_t size_bytes) const;
    bool is_to_leave(uint64_t index, uint64_t size_bytes) const;
    bool begin_leaving(c10::TensorImpl *tensor, uint64_t index);
    bool is_last(uint64_t index);
    bool complete_items(uint64_t requests);
    bool copy_out(Piece &piece);
    void put(Piece &piece, Place place);
    void note_gone(Piece &piece);
    void let_go(uint64_t id, Piece &piece, Left &left);
    Piece *oldest_leaving();
    void settle_released(Left &left);
    void settle_leaving(Left &left);
    void settle_late(uint64_t now);
    void end(uint64_t id, Left &left);
    void drop_block(Piece &piece);
    void bind(Piece &piece, c10::DataPtr &&data, c10::StorageImpl *shell);

    DevicePools &device_;
    CopyLane &lane_;
    vw_pinned_budget *budget_;
    c10::DeleterFnPtr free_block_;

    std::unordered_map<uint64_t, std::unique_ptr<Piece>> pieces_; // by id
    std::unordered_map<const c10::StorageImpl *, uint64_t> by_storage_;
    std::deque<uint64_t> leaving_; // ids, in the order of their copies; also of what has ended
    std::vector<uint64_t> late_;   // that were copied while somebody else held them
    std::vector<vw_device_event> events_; // not in use; kept, since somebody may wait for one
    uint64_t last_id_ = 0;

    // The step under way.
    uint64_t step_ = 0;
    std::vector<Item> items_;
    std::vector<uint64_t> ids_; // of the items; 0: it stays
    uint64_t left_bytes_ = 0;
    bool is_as_last_ = true;  // every item so far was as planned
    bool is_cut_off_ = false; // the last that leaves was saved: items_ may end there
    // The items of the last step that was seen to its end, and how many requests that had.
    std::vector<Item> whole_;
    uint64_t whole_requests_ = 0;
    // What the last one said.
    std::vector<vw_saved_item> planned_;
    std::vector<bool> kept_;        // of planned_: Item::is_kept
    size_t last_leaver_ = SIZE_MAX; // of planned_; SIZE_MAX: the next step is seen to its end
    std::vector<size_t> returns_;   // of planned_, those that leave, in the order of their use
    size_t first_return_ = 0;       // of returns_, those before are back
    uint64_t per_mark_ = 1;
    size_t need_mark_ = SIZE_MAX; // vw_schedule_need_mark(); before the first: not known
    uint64_t lacking_bytes_ = 0;
    SavedCounts counts_;

    std::mutex released_lock_; // what follows
    std::vector<uint64_t> released_;
};

} // namespace vramwise_torch
