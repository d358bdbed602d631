// state_stream.cpp - see state_stream.h.
//
// What is copied when, and what makes each move right:
//
//   out   The copy waits for all that was queued when the optimizer's step ended, which wrote the
//         state, and for nothing later: the host runs ahead of the GPU. Until it is complete the
//         storage is bound to the device's block. It is bound to the host's copy only if the
//         tensor's version is what it was at the step's end.
//   in    The copy waits for the stream whose memory the new block was. The step's stream waits for
//         the copy before the storage is bound to the block. If the version is not what it was when
//         the state left, the copy is made again. What the optimizer's own step writes needs no
//         version: fetch() before the step ends every other copy, and none begins until
//         note_step(). A step that fails is not noted: its state stays where it is up to the next.
//   free  A block that a storage was bound to may still be read by work on any stream, queued while
//         it was. It is freed when the stream that gets its memory waits for all of that. The host
//         waits only where the driver has no event for it.
//
// A version does not see what is written by raw address, or through tensor.data. Such writes to a
// state outside of its optimizer's step are lost where they meet a copy; docs/design/010-spill.md
// says so.
#include "state_stream.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <unistd.h>

#include "adapter.h"
#include "vramwise_torch.h"

namespace vramwise_torch
{

namespace
{

c10::StorageImpl *storage_of(NamedTensor tensor)
{
    return tensor.impl->unsafe_storage().unsafeGetStorageImpl();
}

uint32_t version_of(NamedTensor tensor)
{
    return tensor.impl->version_counter().current_version();
}

uint64_t steady_ns()
{
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                 std::chrono::nanoseconds(1));
}

// Of a storage that we hold weakly: PyTorch's headers refuse to ask that of any other.
uint32_t uses_of(c10::StorageImpl *storage)
{
    return c10::raw::weak_intrusive_ptr::use_count(storage);
}

} // namespace

StateStream::StateStream(DevicePools *devices, size_t device_count, vw_pinned_budget *budget,
                         c10::DeleterFnPtr free_block)
    : devices_(devices), budget_(budget), free_block_(free_block), clock_(steady_ns),
      lanes_(device_count)
{
    for (size_t i = 0; i < device_count; i++)
        lanes_[i].saved =
            std::make_unique<SavedStream>(devices[i], lanes_[i].copies, budget, free_block);
}

StateStream::Lane &StateStream::lane_of(const DevicePools &device)
{
    return lanes_[static_cast<size_t>(device.index)];
}

// ---- who holds a tensor ------------------------------------------------------------------------

// An object of CPython begins with its count of references, whose lower half is the count in every
// version with a global lock. Whoever starts us has tried it out (is_alone()).
StateStream::Holders StateStream::holders_of(NamedTensor tensor)
{
    return {*static_cast<const volatile uint32_t *>(tensor.object),
            c10::raw::intrusive_ptr::use_count(tensor.impl),
            c10::raw::intrusive_ptr::use_count(storage_of(tensor))};
}

bool StateStream::is_alone(NamedTensor tensor)
{
    return holders_of(tensor) == alone_;
}

void StateStream::start(NamedTensor alone, RoomMaker room_maker, LockCheck has_lock)
{
    process_id_ = getpid();
    alone_ = holders_of(alone);
    room_maker_ = room_maker;
    has_lock_ = has_lock;
    is_on_.store(true);
}

void StateStream::stop()
{
    is_on_.store(false);
    for (size_t i = 0; i < lanes_.size(); i++)
        if (pool_of(devices_[i]) != nullptr)
            release(devices_[i], false);
    {
        std::lock_guard<std::mutex> hold(need_lock_);
        need_changed_.notify_all();
    }
    std::lock_guard<std::mutex> hold(pump_lock_);
    pump_changed_.notify_all();
}

void StateStream::set_parked(bool is_parked)
{
    std::lock_guard<YieldingMutex> hold(lock_); // whoever is copying has launched
    is_parked_ = is_parked;
}

// ---- pieces ------------------------------------------------------------------------------------

void StateStream::put(Piece &piece, Place place)
{
    Lane &lane = lane_of(*piece.device);
    lane.bytes_in[piece.place] -= piece.size_bytes;
    lane.bytes_in[place] += piece.size_bytes;
    piece.place = place;
}

StateStream::Piece *StateStream::find(NamedTensor tensor)
{
    const c10::StorageImpl *storage = storage_of(tensor);
    auto found = by_storage_.find(storage);
    if (found == by_storage_.end())
        return nullptr;
    Piece *piece = found->second;
    const bool is_here = piece->place == on_device || piece->place == leaving;
    // Or somebody has given the storage other memory meanwhile.
    const bool is_as_it_was = is_here ? is_at_home(*piece) : storage->nbytes() == piece->size_bytes;
    return is_as_it_was && !piece->has_ended ? piece : nullptr;
}

// Its storage is as it was, and bound to a block of ours.
bool StateStream::is_at_home(const Piece &piece) const
{
    return piece.storage->nbytes() == piece.size_bytes &&
           piece.storage->data_ptr().get_deleter() == free_block_;
}

// Without any lock: a thread with Python's may be here, or a child of fork().
void StateStream::host_copy_ends(void *piece)
{
    static_cast<Piece *>(piece)->has_ended.store(true);
}

// A storage that is bound to the host's copy has let go of it when has_ended is true, not before.
void StateStream::forget_dead()
{
    for (Lane &lane : lanes_)
        lane.spare_events.reserve(lane.spare_events.size() + pieces_.size());
    auto is_dead = [this](const std::unique_ptr<Piece> &piece) {
        const bool is_here = piece->place == on_device || piece->place == leaving;
        if (is_here ? uses_of(piece->storage) != 0 : !piece->has_ended)
            return false;
        drop_block(*piece);
        set_due(*piece, false);
        lane_of(*piece->device).bytes_in[piece->place] -= piece->size_bytes;
        by_storage_.erase(piece->storage);
        c10::raw::weak_intrusive_ptr::decref(piece->storage);
        Lane &lane = lane_of(*piece->device);
        vw_pinned_free(lane.copies.host, piece->host); // waits for its copies
        if (piece->copied != 0)
            lane.spare_events.push_back(piece->copied);
        return true;
    };
    pieces_.erase(std::remove_if(pieces_.begin(), pieces_.end(), is_dead), pieces_.end());
}

uint64_t StateStream::add(NamedTensor tensor)
{
    c10::StorageImpl *storage = storage_of(tensor);
    const c10::DataPtr &data = storage->data_ptr();
    std::lock_guard<YieldingMutex> hold(lock_);
    if (const Piece *known = find(tensor))
        return known->size_bytes;
    const size_t size_bytes = storage->nbytes();
    const auto index = static_cast<size_t>(data.device().index());
    if (!is_on() || size_bytes < least_bytes || tensor.impl->is_inference() ||
        data.get_deleter() != free_block_ || index >= lanes_.size())
        return 0;
    DevicePools &device = devices_[index];
    vw_block_place place{};
    if (pool_of(device) == nullptr || device.second.load() != nullptr ||
        vw_pool_find(pool_of(device), address_of(data.get()), &place) != VW_OK ||
        place.block_address != address_of(data.get()) || place.private_id.first != 0 ||
        place.private_id.second != 0)
        return 0;
    forget_dead();
    auto piece = std::make_unique<Piece>();
    piece->device = &device;
    piece->storage = storage;
    piece->size_bytes = size_bytes;
    piece->home = current_stream_on(device);
    pieces_.reserve(pieces_.size() + 1);
    by_storage_[storage] = piece.get();
    c10::raw::weak_intrusive_ptr::incref(storage);
    lane_of(device).bytes_in[on_device] += size_bytes;
    pieces_.push_back(std::move(piece));
    return size_bytes;
}

// ---- copies ------------------------------------------------------------------------------------

bool StateStream::prepare(Lane &lane, Piece &piece)
{
    const vw_device &device = *piece.device->device;
    if (!lane.copies.open(*piece.device, budget_))
        return false;
    if (piece.copied == 0 && !lane.spare_events.empty()) {
        piece.copied = lane.spare_events.back();
        lane.spare_events.pop_back();
    } else if (piece.copied == 0 &&
               device.table->event_create(device.context, &piece.copied) != VW_OK) {
        return false;
    }
    if (piece.host != nullptr)
        return true;
    piece.host = lane.copies.take_host(piece.size_bytes, lane.copies.state_out);
    return piece.host != nullptr;
}

bool StateStream::copy(Lane &lane, Piece &piece, bool is_out)
{
    if (is_parked_)
        return false;
    const vw_device &device = *piece.device->device;
    const vw_device_ptr on_host = address_of(piece.host);
    const vw_device_ptr there = is_out ? address_of(piece.storage->data_ptr().get()) : piece.back;
    CopyTrack &track = is_out ? lane.copies.state_out : lane.copies.in;
    return record_use(pool_of(*piece.device), there, track) &&
           track.copy(device, is_out ? on_host : there, is_out ? there : on_host,
                      piece.size_bytes) &&
           track.mark(device, piece.copied);
}

// From now on the host's copy of a piece that stayed away is what the step left there.
void StateStream::note_step(NamedTensor tensor)
{
    std::lock_guard<YieldingMutex> hold(lock_);
    Piece *piece = find(tensor);
    if (piece == nullptr)
        return;
    drop_block(*piece);
    end_loan(*piece); // of a step that failed before this one
    piece->is_in_step = false;
    piece->home = current_stream_on(*piece->device);
    piece->version = version_of(tensor);
}

uint64_t StateStream::copy_out(NamedTensor tensor)
{
    std::lock_guard<YieldingMutex> hold(lock_);
    Piece *piece = find(tensor);
    if (piece == nullptr || piece->place != on_device || piece->is_in_step || !is_on() ||
        !prepare(lane_of(*piece->device), *piece))
        return 0;
    piece->counter = tensor.impl->version_counter();
    piece->copied_bytes = 0;
    set_due(*piece, true);
    return piece->size_bytes;
}

void StateStream::set_due(Piece &piece, bool is_due)
{
    Lane &lane = lane_of(*piece.device);
    lane.due_pieces += is_due ? 1 : 0;
    lane.due_pieces -= piece.is_due_out ? 1 : 0;
    piece.is_due_out = is_due;
}

// Has the copies of a piece wait for all that was queued when its optimizer's step ended. Where it
// was written since, or nobody can tell, for what is queued now.
bool StateStream::begin_copy(Lane &lane, Piece &piece)
{
    const vw_device &device = *piece.device->device;
    const CopyTrack &copies = lane.copies.state_out;
    const uint32_t version = piece.counter.current_version(); // before what it vouches for
    const bool is_as_stepped = version == piece.version && lane.has_step_end;
    piece.version = version;
    return is_as_stepped ? copies.wait(device, lane.step_end)
                         : lane.copies.is_behind_all(*piece.device, copies) ||
                               lane.copies.is_behind(*piece.device, copies, piece.home);
}

// One chunk of a piece that is due. Its storage is held meanwhile: its owner may end.
bool StateStream::copy_chunk(Lane &lane, Piece &piece, SavedStream::Left &left)
{
    const vw_device &device = *piece.device->device;
    left.strong.reserve(left.strong.size() + 1);
    if (piece.is_in_step || c10::raw::weak_intrusive_ptr::lock(piece.storage) == nullptr)
        return false;
    left.strong.push_back(piece.storage);
    if (!is_at_home(piece)) // any more: it has other memory
        return false;
    const vw_device_ptr from = address_of(piece.storage->data_ptr().get());
    if (piece.copied_bytes == 0) {
        if (piece.place != on_device || !begin_copy(lane, piece) ||
            !record_use(pool_of(*piece.device), from, lane.copies.state_out))
            return false;
        put(piece, leaving);
    }
    const uint64_t size_bytes =
        std::min(CopyTrack::chunk_bytes, piece.size_bytes - piece.copied_bytes);
    if (!lane.copies.state_out.copy(device, address_of(piece.host) + piece.copied_bytes,
                                    from + piece.copied_bytes, size_bytes))
        return false;
    piece.copied_bytes += size_bytes;
    if (piece.copied_bytes == piece.size_bytes) {
        set_due(piece, false);
        return lane.copies.state_out.mark(device, piece.copied);
    }
    return true;
}

// Begins copies of what is due: of one chunk, or up to the end of `last`. False: nothing was, or
// now is not the time, since a copy waits for a stream, which may be captured.
bool StateStream::copy_due(Lane &lane, DevicePools &device, const Piece *last,
                           SavedStream::Left &left)
{
    if (is_parked_ || !is_served_now(device))
        return false;
    for (auto &piece : pieces_) {
        while (piece->device == &device && piece->is_due_out) {
            const uint64_t before_bytes = piece->copied_bytes;
            if (!copy_chunk(lane, *piece, left)) {
                set_due(*piece, false);
                if (piece->place == leaving)
                    put(*piece, on_device);
            } else if (last == nullptr) {
                lane.pumped_bytes += piece->copied_bytes - before_bytes;
                return true;
            }
        }
        if (piece.get() == last)
            return true;
    }
    return false;
}

uint64_t StateStream::copy_out_at_once(NamedTensor tensor)
{
    std::lock_guard<YieldingMutex> hold(lock_);
    Piece *piece = find(tensor);
    if (piece == nullptr || piece->place != on_device || piece->is_in_step || is_parked_ ||
        !is_on())
        return 0;
    Lane &lane = lane_of(*piece->device);
    const vw_device &device = *piece->device->device;
    const uint32_t version = version_of(tensor); // before what it vouches for
    if (!prepare(lane, *piece) ||
        (!lane.copies.is_behind_all(*piece->device, lane.copies.state_out) &&
         device.table->synchronize(device.context) != VW_OK) ||
        !copy(lane, *piece, true))
        return 0;
    piece->version = version;
    set_due(*piece, false);
    put_returns_off(lane); // not planned: nobody knows when there is room again
    put(*piece, leaving);
    return piece->size_bytes;
}

// The GPU is at least two moments of the step behind the host. One that follows it closely would
// have to wait with it.
bool StateStream::has_work(const Lane &lane, const DevicePools &pools)
{
    const vw_device &device = *pools.device;
    return lane.moment_count >= lane.moments.size() &&
           device.table->event_query(device.context,
                                     lane.moments[lane.moment_count % lane.moments.size()]) ==
               VW_ERR_NOT_READY;
}

// For a pause.
bool StateStream::may_wait(Lane &lane, const DevicePools &device)
{
    if (lane.patience < short_pause || !has_work(lane, device))
        return false;
    lane.patience -= short_pause;
    return true;
}

bool StateStream::is_leaving_still(const Piece &piece)
{
    const vw_device &device = *piece.device->device;
    return piece.is_due_out ||
           device.table->event_query(device.context, piece.copied) == VW_ERR_NOT_READY;
}

void StateStream::wait(NamedTensor tensor, bool is_ahead)
{
    vw_device_event event = 0;
    const vw_device *device = nullptr;
    {
        SavedStream::Left left;
        std::unique_lock<YieldingMutex> hold(lock_);
        const Piece *piece = find(tensor);
        while (is_ahead && piece != nullptr && is_on() && is_leaving_still(*piece) &&
               may_wait(lane_of(*piece->device), *piece->device)) {
            hold.unlock();
            std::this_thread::sleep_for(short_pause);
            hold.lock();
            piece = find(tensor);
        }
        if (is_ahead)
            return;
        if (piece != nullptr) {
            copy_due(lane_of(*piece->device), *piece->device, piece, left); // at full speed
            event = piece->copied;
            device = piece->device->device;
        }
    }
    if (event != 0)
        device->table->event_synchronize(device->context, event);
}

uint64_t StateStream::bind_out(NamedTensor tensor)
{
    std::unique_lock<YieldingMutex> hold(lock_, a_moment);
    Piece *piece = hold.owns_lock() ? find(tensor) : nullptr;
    if (piece == nullptr || piece->place != leaving || piece->is_due_out)
        return 0;
    Lane &lane = lane_of(*piece->device);
    const vw_device &device = *piece->device->device;
    if (version_of(tensor) != piece->version) {
        put(*piece, on_device); // the copy is of no use any more
        return 0;
    }
    if (device.table->event_query(device.context, piece->copied) != VW_OK || !is_alone(tensor))
        return 0;
    lane.left.reserve(lane.left.size() + 1);
    c10::DataPtr on_host(piece->host, piece, &StateStream::host_copy_ends,
                         piece->storage->data_ptr().device());
    lane.left.push_back(piece->storage->set_data_ptr(std::move(on_host)));
    lane.left_bytes += piece->size_bytes;
    put(*piece, away);
    lane.counts.all_left_bytes += piece->size_bytes;
    return piece->size_bytes;
}

// Has the streams whose memory the blocks are wait for all that is queued, on whichever stream:
// work that reads them may be anywhere. The copies out are complete: bind_out() has seen it.
bool StateStream::is_reuse_ordered(Lane &lane, DevicePools &pools,
                                   const std::vector<c10::DataPtr> &blocks,
                                   std::vector<vw_stream> &streams, uint64_t *freed_bytes)
{
    for (const c10::DataPtr &block : blocks) {
        const vw_device_ptr address = address_of(block.get());
        vw_block_place place{};
        if (vw_pool_find(pool_of(pools), address, &place) != VW_OK)
            return false;
        *freed_bytes += place.block_bytes;
        if (std::find(streams.begin(), streams.end(), place.stream) == streams.end())
            streams.push_back(place.stream);
    }
    for (vw_stream stream : streams)
        if (!lane.copies.is_behind_all(pools, stream))
            return false;
    for (const c10::DataPtr &block : blocks)
        if (!unrecord_use(pool_of(pools), address_of(block.get()), lane.copies.state_out))
            return false;
    return true;
}

// Once nobody can use them any more. `freed` ends without the lock.
void StateStream::settle_ending(Lane &lane, const DevicePools &pools,
                                std::vector<c10::DataPtr> &freed)
{
    const vw_device &device = *pools.device;
    if (lane.ending.empty() || device.table->event_query(device.context, lane.end) != VW_OK)
        return;
    freed.swap(lane.ending);
    lane.ending_bytes = 0;
    for (const c10::DataPtr &block : freed) // else it is freed behind these streams
        unrecord_use(pool_of(pools), address_of(block.get()), lane.copies.state_out);
}

// What was ending before ends later, too. False: nobody can tell when.
bool StateStream::begin_ending(Lane &lane, DevicePools &pools)
{
    const vw_device &device = *pools.device;
    lane.ending.reserve(lane.ending.size() + lane.left.size());
    if ((lane.end == 0 && device.table->event_create(device.context, &lane.end) != VW_OK) ||
        !record_all(pools, lane.end))
        return false;
    for (c10::DataPtr &block : lane.left)
        lane.ending.push_back(std::move(block));
    lane.left.clear();
    lane.ending_bytes += lane.left_bytes;
    lane.left_bytes = 0;
    return true;
}

uint64_t StateStream::release(DevicePools &pools, bool is_ahead)
{
    const vw_device &device = *pools.device;
    std::vector<c10::DataPtr> freed; // ends without the lock
    uint64_t freed_bytes = 0;
    bool is_ordered = false;
    {
        std::unique_lock<YieldingMutex> hold(lock_, a_moment); // it may have Python's
        Lane &lane = lane_of(pools);
        if (!hold.owns_lock() || lane.left.size() + lane.ending.size() == 0)
            return 0; // the next one frees them
        if (is_ahead) // else they stay until somebody needs them
            return begin_ending(lane, pools) ? lane.ending_bytes : 0;
        std::vector<vw_stream> streams;
        streams.reserve(lane.left.size() + lane.ending.size());
        freed.reserve(lane.left.size() + lane.ending.size());
        for (std::vector<c10::DataPtr> *blocks : {&lane.left, &lane.ending}) {
            for (c10::DataPtr &block : *blocks)
                freed.push_back(std::move(block));
            blocks->clear();
        }
        lane.left_bytes = lane.ending_bytes = 0;
        is_ordered = is_reuse_ordered(lane, pools, freed, streams, &freed_bytes);
    }
    if (is_ordered || device.table->synchronize(device.context) == VW_OK)
        return freed_bytes;
    for (c10::DataPtr &block : freed)
        block.release_context(); // a device that failed: nobody knows who still uses it
    return 0;
}

// ---- coming back -------------------------------------------------------------------------------

bool StateStream::begin_return(const Lane &lane, Piece &piece)
{
    if (is_parked_ || !take_block(*piece.device, lane.copies.room_bytes(), piece.size_bytes,
                                  piece.home, &piece.back))
        return false;
    put(piece, returning);
    return true;
}

void StateStream::drop_block(Piece &piece)
{
    if (piece.place != returning)
        return;
    free_behind_copies(*piece.device, piece.back, lane_of(*piece.device).copies.in);
    piece.back = VW_NULL;
    piece.is_fetched = false;
    put(piece, away);
}

uint64_t StateStream::fetch(NamedTensor tensor)
{
    std::lock_guard<YieldingMutex> hold(lock_);
    Piece *piece = find(tensor);
    if (piece == nullptr)
        return 0;
    Lane &lane = lane_of(*piece->device);
    lane.requests_before_step = lane.requests;
    piece->is_in_step = true;
    set_due(*piece, false);
    if (piece->place == leaving) // nobody wanted the room
        put(*piece, on_device);
    if (piece->place == on_device)
        return 0;
    const vw_device &device = *piece->device->device;
    const vw_stream current = current_stream_on(*piece->device);
    const uint32_t version = version_of(tensor);
    lane.counts.stayed_bytes += piece->size_bytes; // unless bind_in() takes it
    piece->is_ahead = piece->place == returning && piece->version == version;
    if (piece->place == lent ||
        (piece->place == away && (!is_due(lane, *piece, true) || !begin_return(lane, *piece))))
        return 0;
    piece->version = version;
    bool is_filled =
        piece->is_ahead || (lane.copies.is_behind(*piece->device, lane.copies.in, piece->home) &&
                            lane.copies.is_behind(*piece->device, lane.copies.in, current) &&
                            copy(lane, *piece, false));
    if (!is_filled ||
        device.table->stream_wait_event(device.context, current, piece->copied) != VW_OK ||
        (current != piece->home &&
         vw_record_stream(pool_of(*piece->device), piece->back, current) != VW_OK)) {
        drop_block(*piece);
        return 0;
    }
    piece->is_fetched = true;
    if (current == piece->home) // which is behind the copy now
        unrecord_use(pool_of(*piece->device), piece->back, lane.copies.in);
    return piece->size_bytes;
}

bool StateStream::bind_in(NamedTensor tensor)
{
    std::unique_lock<YieldingMutex> hold(lock_, a_moment);
    Piece *piece = hold.owns_lock() ? find(tensor) : nullptr;
    if (piece == nullptr || piece->place != returning || !piece->is_fetched)
        return false;
    if (version_of(tensor) != piece->version || !is_alone(tensor)) {
        drop_block(*piece);
        return false;
    }
    void *block = pointer_to(piece->back);
    c10::DataPtr there(block, block, free_block_, piece->storage->data_ptr().device());
    c10::DataPtr on_host = piece->storage->set_data_ptr(std::move(there));
    on_host.release_context(); // the piece keeps it
    piece->back = VW_NULL;
    piece->is_fetched = false;
    put(*piece, on_device);
    StreamCounts &counts = lane_of(*piece->device).counts;
    counts.stayed_bytes -= piece->size_bytes;
    counts.all_returned_bytes += piece->size_bytes;
    counts.returned_ahead_bytes += piece->is_ahead ? piece->size_bytes : 0;
    return true;
}

// Without the piece as much is still away as the schedule wants at this moment of the step. After
// the last mark it wants only what is to stay, and where there is no schedule, nothing. For the
// optimizer's own step only what that asks for itself matters, however few requests came before.
bool StateStream::is_due(const Lane &lane, const Piece &piece, bool is_for_step) const
{
    uint64_t index = lane.requests / lane.planned_per_mark;
    if (is_for_step)
        index = std::max(index, lane.planned_step_mark);
    const bool is_planned = index < lane.back_bytes.size();
    uint64_t wanted_bytes =
        is_planned ? lane.leave_bytes - lane.back_bytes[index] : lane.stay_bytes;
    if (!is_on())
        wanted_bytes = 0;
    return lane.away_bytes() >= wanted_bytes + piece.size_bytes;
}

void StateStream::put_returns_off(Lane &lane)
{
    const uint64_t step_requests = lane.back_bytes.size() * lane.planned_per_mark;
    lane.return_from = std::max(lane.return_from, lane.requests + step_requests / late_share);
}

void StateStream::begin_returns(Lane &lane, const DevicePools &device)
{
    for (auto &piece : pieces_) {
        if (piece->device != &device || piece->place != away || piece->has_ended ||
            piece->is_in_step || !is_due(lane, *piece, false))
            continue;
        if (!begin_return(lane, *piece))
            return;
        // The block may be in use by work that is queued on its stream.
        if (!lane.copies.is_behind(device, lane.copies.in, piece->home) ||
            !copy(lane, *piece, false)) {
            drop_block(*piece);
            lane.return_from = UINT64_MAX; // not in this step
            return;
        }
    }
}

uint64_t StateStream::drop_returns(const DevicePools &device)
{
    std::unique_lock<YieldingMutex> hold(lock_, a_moment); // it may have Python's
    if (!hold.owns_lock())
        return 0;
    Lane &lane = lane_of(device);
    const uint64_t dropped_bytes = lane.bytes_in[returning];
    for (auto &piece : pieces_)
        if (piece->device == &device)
            drop_block(*piece);
    if (dropped_bytes != 0)
        put_returns_off(lane); // it was too early
    return dropped_bytes != 0 ? dropped_bytes : lane.saved->drop_returns();
}

// ---- blocks lent for a step --------------------------------------------------------------------

uint64_t StateStream::stage(NamedTensor tensor, uint64_t kept_bytes)
{
    std::lock_guard<YieldingMutex> hold(lock_);
    Piece *piece = find(tensor);
    if (piece == nullptr || piece->place != away || !piece->is_in_step || !is_on() || is_parked_)
        return 0;
    Lane &lane = lane_of(*piece->device);
    const uint64_t room_bytes = lane.copies.room_bytes();
    const vw_stream current = current_stream_on(*piece->device);
    if (!take_block(*piece->device, room_bytes - std::min(kept_bytes, room_bytes),
                    piece->size_bytes, current, &piece->back))
        return 0;
    const vw_stream writer = piece->home; // of the host's copy
    piece->home = current;
    put(*piece, returning);
    // The block may be in use by work that is queued on its stream.
    if (!lane.copies.is_behind(*piece->device, lane.copies.in, writer) ||
        !lane.copies.is_behind(*piece->device, lane.copies.in, current) ||
        !copy(lane, *piece, false)) {
        drop_block(*piece);
        return 0;
    }
    return piece->size_bytes;
}

bool StateStream::use_staged(NamedTensor tensor, c10::TensorImpl *shell)
{
    std::lock_guard<YieldingMutex> hold(lock_);
    Piece *piece = find(tensor);
    if (piece == nullptr || piece->place != returning)
        return false;
    const vw_device &device = *piece->device->device;
    const vw_stream current = current_stream_on(*piece->device);
    if (device.table->stream_wait_event(device.context, current, piece->copied) != VW_OK ||
        !unrecord_use(pool_of(*piece->device), piece->back, lane_of(*piece->device).copies.in)) {
        drop_block(*piece);
        return false;
    }
    c10::StorageImpl *storage = shell->unsafe_storage().unsafeGetStorageImpl();
    void *block = pointer_to(piece->back);
    storage->set_data_ptr(
        c10::DataPtr(block, block, free_block_, piece->storage->data_ptr().device()));
    storage->set_nbytes(piece->size_bytes);
    put(*piece, lent);
    return true;
}

// The block is the shell's.
void StateStream::end_loan(Piece &piece)
{
    if (piece.place != lent)
        return;
    piece.back = VW_NULL;
    put(piece, away);
}

bool StateStream::write_back(Lane &lane, Piece &piece, vw_device_ptr block)
{
    const vw_device &device = *piece.device->device;
    const vw_stream current = current_stream_on(*piece.device);
    const vw_device_ptr on_host = address_of(piece.host);
    CopyTrack &out = lane.copies.state_out;
    if (lane.copies.is_behind(*piece.device, out, current) &&
        record_use(pool_of(*piece.device), block, out) &&
        out.copy(device, on_host, block, piece.size_bytes) && out.mark(device, piece.copied) &&
        out.is_before(device, current)) {
        (void)unrecord_use(pool_of(*piece.device), block, out); // else it is freed a little later
        return true;
    }
    // Without the help of other streams. Copies of theirs that were begun end first.
    return device.table->synchronize(device.context) == VW_OK &&
           device.table->copy(device.context, on_host, block, piece.size_bytes, current) == VW_OK &&
           vw_pinned_record_stream(lane.copies.host, piece.host, current) == VW_OK;
}

// While the process is parked launches are held, and a thread that made one would keep the lock.
std::unique_lock<YieldingMutex> StateStream::lock_unless_parked()
{
    for (;;) {
        std::unique_lock<YieldingMutex> hold(lock_);
        if (!is_parked_)
            return hold;
        hold.unlock();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

bool StateStream::unstage(NamedTensor tensor, c10::TensorImpl *shell)
{
    c10::StorageImpl *storage = shell->unsafe_storage().unsafeGetStorageImpl();
    c10::DataPtr freed(nullptr, storage->data_ptr().device()); // ends without the lock
    std::unique_lock<YieldingMutex> hold = lock_unless_parked();
    Piece *piece = find(tensor);
    const vw_device_ptr block = address_of(storage->data_ptr().get());
    if (piece == nullptr || piece->place != lent || block != piece->back ||
        storage->nbytes() != piece->size_bytes ||
        !write_back(lane_of(*piece->device), *piece, block))
        return false;
    end_loan(*piece);
    freed = storage->set_data_ptr(c10::DataPtr(nullptr, storage->data_ptr().device()));
    storage->set_nbytes(0);
    hold.unlock();
    return true;
}

// ---- saved tensors -----------------------------------------------------------------------------

long long StateStream::save(c10::TensorImpl *tensor)
{
    const c10::StorageImpl *storage = tensor->unsafe_storage().unsafeGetStorageImpl();
    const c10::DataPtr &data = storage->data_ptr();
    const auto index = static_cast<size_t>(data.device().index());
    if (!is_on() || storage->nbytes() < least_bytes || data.get_deleter() != free_block_ ||
        index >= lanes_.size() || getpid() != process_id_)
        return 0;
    DevicePools &device = devices_[index];
    if (pool_of(device) == nullptr || device.second.load() != nullptr || !is_served_now(device))
        return 0;
    SavedStream::Left left;
    std::lock_guard<YieldingMutex> hold(lock_);
    if (is_parked_)
        return 0;
    lanes_[index].saved->settle(lanes_[index].requests, left);
    const long long id = lanes_[index].saved->save(tensor, lanes_[index].requests);
    return id > 0 && has_other_devices(device) ? id & ~VRAMWISE_TORCH_SAVED_LAST : id;
}

// In use: what is the last of one GPU says nothing of what another's part of the model saves.
bool StateStream::has_other_devices(const DevicePools &device) const
{
    for (size_t i = 0; i < lanes_.size(); i++)
        if (&devices_[i] != &device && pool_of(devices_[i]) != nullptr)
            return true;
    return false;
}

void StateStream::note_saved_use(const DevicePools &device, uint64_t item)
{
    std::unique_lock<YieldingMutex> hold(lock_, std::try_to_lock); // else it stays next time
    if (hold.owns_lock())
        lane_of(device).saved->note_use(item, lane_of(device).requests);
}

long long StateStream::fetch_saved(const DevicePools &device, uint64_t id, c10::TensorImpl *shell)
{
    Lane &lane = lane_of(device);
    SavedStream::Left left;
    std::lock_guard<YieldingMutex> hold(lock_);
    lane.saved->settle(lane.requests, left);
    return lane.saved->fetch(id, shell->unsafe_storage().unsafeGetStorageImpl(), lane.requests,
                             left);
}

bool StateStream::fill_saved(const DevicePools &device, uint64_t id, c10::TensorImpl *tensor)
{
    std::lock_guard<YieldingMutex> hold(lock_);
    return lane_of(device).saved->fill(id, tensor->unsafe_storage().unsafeGetStorageImpl());
}

void StateStream::release_saved(const DevicePools &device, uint64_t id)
{
    lane_of(device).saved->release(id);
}

uint64_t StateStream::saved_lacking_bytes(const DevicePools &device)
{
    std::lock_guard<YieldingMutex> hold(lock_);
    return lane_of(device).saved->lacking_bytes();
}

} // namespace vramwise_torch
