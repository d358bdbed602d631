// state_stream.cpp - see state_stream.h.
//
// What is copied when, and what makes each move right:
//
//   out   The copy waits for what is queued on the optimizer's stream, which wrote the state. Until
//         it is complete the storage is bound to the device's block. It is bound to the host's copy
//         only if the tensor's version is what it was when the copy began.
//   in    The copy waits for the stream whose memory the new block was. The step's stream waits for
//         the copy before the storage is bound to the block. If the version is not what it was when
//         the state left, the copy is made again. What the optimizer's own step writes needs no
//         version: bind_in() before the step ends every copy out, copy_out() after it every copy
//         in.
//   free  A block that a storage was bound to may still be read by work on any stream, queued while
//         it was: it is freed when the whole device was waited for.
//
// A version does not see what is written by raw address, or through tensor.data. Such writes to a
// state outside of its optimizer's step are lost where they meet a copy; docs/design/010-spill.md
// says so.
#include "state_stream.h"

#include <algorithm>
#include <chrono>

#include <unistd.h>

#include "adapter.h"
#include "vramwise_torch.h"

namespace vramwise_torch
{

namespace
{

constexpr uint64_t least_bytes = uint64_t{1}
                                 << 20; // of a piece, and of a request that is looked at
constexpr size_t most_marks = 4096;
// For Python's thread to bind pieces. It may never come to it, if whoever has Python's lock waits
// for the thread that asks. Then the request goes the old way, and nobody is asked again.
constexpr std::chrono::seconds patience{5};

thread_local bool is_thread_bringing_back = false;

struct BringingBack {
    BringingBack()
    {
        is_thread_bringing_back = true;
    }
    ~BringingBack()
    {
        is_thread_bringing_back = false;
    }
};

c10::StorageImpl *storage_of(NamedTensor tensor)
{
    return tensor.impl->unsafe_storage().unsafeGetStorageImpl();
}

uint32_t version_of(NamedTensor tensor)
{
    return tensor.impl->version_counter().current_version();
}

uint32_t uses_of(c10::StorageImpl *storage)
{
    return c10::raw::weak_intrusive_ptr::use_count(storage);
}

vw_stream current_stream_on(const DevicePools &device)
{
    return stream_number(handle_of(c10::cuda::getCurrentCUDAStream(device.index)));
}

vw_pool *pool_of(const DevicePools &device)
{
    return device.pool.load(std::memory_order_acquire);
}

// Of the pool, spilled memory included; 0 where it does not say.
uint64_t live_bytes_of(const DevicePools &device)
{
    vw_pool_stats stats{};
    stats.struct_size = offsetof(vw_pool_stats, largest_free_block_bytes); // which takes a search
    if (vw_pool_get_stats(pool_of(device), &stats) != VW_OK)
        return 0;
    return static_cast<uint64_t>(stats.allocated_bytes.all.current);
}

// What the pool can hold on its device: by the program's limit, and by what others leave.
uint64_t limit_bytes_of(const DevicePools &device)
{
    vw_pool_stats stats{};
    vw_paged_stats paged{};
    stats.struct_size = sizeof stats;
    paged.struct_size = sizeof paged;
    uint64_t free_bytes = 0, total_bytes = 0;
    if (vw_pool_get_stats(pool_of(device), &stats) != VW_OK ||
        vw_pool_get_paged_stats(pool_of(device), &paged) != VW_OK ||
        device.device->table->memory_info(device.device->context, &free_bytes, &total_bytes) !=
            VW_OK)
        return 0;
    const auto held_bytes = static_cast<uint64_t>(stats.reserved_bytes.all.current);
    return std::min(stats.limit_bytes, held_bytes - paged.spilled_bytes + free_bytes);
}

} // namespace

StateStream::StateStream(DevicePools *devices, size_t device_count, vw_pinned_budget *budget,
                         c10::DeleterFnPtr free_block)
    : devices_(devices), budget_(budget), free_block_(free_block), lanes_(device_count)
{
}

bool StateStream::is_bringing_back()
{
    return is_thread_bringing_back;
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
            c10::raw::intrusive_ptr::use_count(tensor.impl), uses_of(storage_of(tensor))};
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
    std::lock_guard<std::mutex> hold(need_lock_);
    need_changed_.notify_all();
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
    auto found = by_storage_.find(storage_of(tensor));
    return found != by_storage_.end() && found->second->place != gone ? found->second : nullptr;
}

// The storage has ended while it was bound to the host's copy.
void StateStream::host_copy_ends(void *context)
{
    auto *piece = static_cast<Piece *>(context);
    StateStream &owner = *piece->owner;
    if (getpid() != owner.process_id_)
        return; // a child of fork(): the memory is the parent's, and its locks may be held for ever
    std::lock_guard<std::recursive_mutex> hold(owner.lock_);
    owner.drop_block(*piece);
    owner.put(*piece, gone);
}

// A piece that is away is another thread's until its storage has let go of the host's copy.
void StateStream::forget_dead()
{
    auto is_dead = [this](const std::unique_ptr<Piece> &piece) {
        const bool has_ended =
            piece->place == gone || ((piece->place == on_device || piece->place == leaving) &&
                                     uses_of(piece->storage) == 0);
        if (!has_ended)
            return false;
        put(*piece, gone);
        lane_of(*piece->device).bytes_in[gone] -= piece->size_bytes;
        by_storage_.erase(piece->storage);
        c10::raw::weak_intrusive_ptr::decref(piece->storage);
        const vw_device &device = *piece->device->device;
        vw_pinned_free(lane_of(*piece->device).host, piece->host); // waits for its copies
        if (piece->copied != 0)
            device.table->event_destroy(device.context, piece->copied);
        return true;
    };
    pieces_.erase(std::remove_if(pieces_.begin(), pieces_.end(), is_dead), pieces_.end());
}

uint64_t StateStream::add(NamedTensor tensor)
{
    c10::StorageImpl *storage = storage_of(tensor);
    const c10::DataPtr &data = storage->data_ptr();
    std::lock_guard<std::recursive_mutex> hold(lock_);
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
    piece->owner = this;
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

bool StateStream::open(Lane &lane, DevicePools &device)
{
    const vw_device_table &table = *device.device->table;
    void *context = device.device->context;
    vw_pinned_options options{};
    options.struct_size = sizeof options;
    options.conf = "pinned_max_round_threshold_mb:1"; // else to a power of two
    options.torch_version = "2.15";
    options.budget = budget_;
    return (lane.out != 0 || table.stream_create(context, &lane.out) == VW_OK) &&
           (lane.in != 0 || table.stream_create(context, &lane.in) == VW_OK) &&
           (lane.tail != 0 || table.event_create(context, &lane.tail) == VW_OK) &&
           (lane.host != nullptr ||
            vw_pinned_pool_create(device.device, &options, &lane.host) == VW_OK);
}

bool StateStream::prepare(Lane &lane, Piece &piece)
{
    const vw_device &device = *piece.device->device;
    if (!open(lane, *piece.device) ||
        (piece.copied == 0 && device.table->event_create(device.context, &piece.copied) != VW_OK))
        return false;
    if (piece.host != nullptr)
        return true;
    if (vw_pinned_alloc(lane.host, piece.size_bytes, &piece.host) != VW_OK)
        return false;
    if (vw_pinned_record_stream(lane.host, piece.host, lane.out) == VW_OK &&
        vw_pinned_record_stream(lane.host, piece.host, lane.in) == VW_OK)
        return true;
    vw_pinned_free(lane.host, piece.host); // it was not used yet
    piece.host = nullptr;
    return false;
}

// Has `copies` wait for what is queued on `work`.
bool StateStream::is_behind(Lane &lane, const DevicePools &pools, vw_stream copies, vw_stream work)
{
    const vw_device &device = *pools.device;
    return device.table->event_record(device.context, lane.tail, work) == VW_OK &&
           device.table->stream_wait_event(device.context, copies, lane.tail) == VW_OK;
}

bool StateStream::copy(Lane &lane, Piece &piece, bool is_out)
{
    const vw_device &device = *piece.device->device;
    const vw_device_ptr on_host = address_of(piece.host);
    const vw_device_ptr there = is_out ? address_of(piece.storage->data_ptr().get()) : piece.back;
    const vw_stream stream = is_out ? lane.out : lane.in;
    return vw_record_stream(pool_of(*piece.device), there, stream) == VW_OK &&
           device.table->copy(device.context, is_out ? on_host : there, is_out ? there : on_host,
                              piece.size_bytes, stream) == VW_OK &&
           device.table->event_record(device.context, piece.copied, stream) == VW_OK;
}

uint64_t StateStream::copy_out(NamedTensor tensor, bool is_idle)
{
    std::lock_guard<std::recursive_mutex> hold(lock_);
    Piece *piece = find(tensor);
    if (piece == nullptr || !is_on())
        return 0;
    Lane &lane = lane_of(*piece->device);
    piece->version = version_of(tensor);
    if (piece->place == returning)
        drop_block(*piece); // the step may have written to the host's copy after it
    if (piece->place == away || !prepare(lane, *piece))
        return 0;
    if (is_idle) {
        lane.is_return_off = true; // not planned: nobody knows when there is room again
    } else {
        piece->home = current_stream_on(*piece->device);
        if (!is_behind(lane, *piece->device, lane.out, piece->home))
            return 0;
    }
    if (!copy(lane, *piece, true))
        return 0;
    put(*piece, leaving);
    return piece->size_bytes;
}

void StateStream::wait(NamedTensor tensor)
{
    vw_device_event event = 0;
    const vw_device *device = nullptr;
    {
        std::lock_guard<std::recursive_mutex> hold(lock_);
        if (const Piece *piece = find(tensor)) {
            event = piece->copied;
            device = piece->device->device;
        }
    }
    if (event != 0)
        device->table->event_synchronize(device->context, event);
}

uint64_t StateStream::bind_out(NamedTensor tensor)
{
    std::lock_guard<std::recursive_mutex> hold(lock_);
    Piece *piece = find(tensor);
    if (piece == nullptr || piece->place != leaving)
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
    put(*piece, away);
    return piece->size_bytes;
}

uint64_t StateStream::release(DevicePools &pools)
{
    std::vector<c10::DataPtr> freed;
    {
        std::lock_guard<std::recursive_mutex> hold(lock_);
        freed.swap(lane_of(pools).left);
    }
    const vw_device &device = *pools.device;
    uint64_t freed_bytes = 0;
    const bool is_idle = device.table->synchronize(device.context) == VW_OK;
    for (c10::DataPtr &block : freed) {
        vw_block_place place{};
        if (!is_idle)
            block.release_context(); // a device that failed: nobody knows who still uses it
        else if (vw_pool_find(pool_of(pools), address_of(block.get()), &place) == VW_OK)
            freed_bytes += place.block_bytes;
    }
    return freed_bytes;
}

// ---- coming back -------------------------------------------------------------------------------

bool StateStream::take_block(Lane &lane, Piece &piece)
{
    const BringingBack guard;
    if (live_bytes_of(*piece.device) + piece.size_bytes > lane.limit_bytes)
        return false;
    return vw_alloc(pool_of(*piece.device), piece.size_bytes, piece.home, &piece.back) == VW_OK;
}

void StateStream::drop_block(Piece &piece)
{
    if (piece.place != returning)
        return;
    vw_free(pool_of(*piece.device), piece.back); // reused when the copy into it is over
    piece.back = VW_NULL;
    put(piece, away);
}

bool StateStream::bind_in(NamedTensor tensor)
{
    std::lock_guard<std::recursive_mutex> hold(lock_);
    Piece *piece = find(tensor);
    if (piece == nullptr)
        return true;
    Lane &lane = lane_of(*piece->device);
    lane.requests_before_step = lane.requests;
    if (piece->place == leaving) // nobody wanted the room
        put(*piece, on_device);
    if (piece->place == on_device)
        return true;
    const vw_device &device = *piece->device->device;
    const vw_stream current = current_stream_on(*piece->device);
    if (!is_alone(tensor)) {
        drop_block(*piece);
        return false;
    }
    bool is_filled = piece->place == returning && version_of(tensor) == piece->version;
    if (piece->place == away) {
        if (!is_due(lane, *piece, true) || !take_block(lane, *piece))
            return false;
        put(*piece, returning);
    }
    if (!is_filled)
        is_filled = is_behind(lane, *piece->device, lane.in, piece->home) &&
                    is_behind(lane, *piece->device, lane.in, current) && copy(lane, *piece, false);
    if (!is_filled ||
        device.table->stream_wait_event(device.context, current, piece->copied) != VW_OK ||
        (current != piece->home &&
         vw_record_stream(pool_of(*piece->device), piece->back, current) != VW_OK)) {
        drop_block(*piece);
        return false;
    }
    void *block = pointer_to(piece->back);
    c10::DataPtr there(block, block, free_block_, piece->storage->data_ptr().device());
    c10::DataPtr on_host = piece->storage->set_data_ptr(std::move(there));
    on_host.release_context(); // the piece keeps it
    piece->back = VW_NULL;
    put(*piece, on_device);
    return true;
}

// Without the piece as much is still away as the schedule wants at this moment of the step. After
// the last mark, or where there is no schedule, it wants nothing. For the optimizer's own step only
// what that asks for itself matters, however few requests came before.
bool StateStream::is_due(const Lane &lane, const Piece &piece, bool is_for_step) const
{
    uint64_t index = lane.requests / lane.planned_per_mark;
    if (is_for_step)
        index = std::max(index, lane.planned_step_mark);
    const bool is_planned = is_on() && index < lane.back_bytes.size();
    const uint64_t wanted_bytes = is_planned ? lane.leave_bytes - lane.back_bytes[index] : 0;
    return lane.bytes_in[away] >= wanted_bytes + piece.size_bytes;
}

void StateStream::begin_returns(Lane &lane, const DevicePools &device)
{
    for (auto &piece : pieces_) {
        if (piece->device != &device || piece->place != away || !is_due(lane, *piece, false))
            continue;
        if (!take_block(lane, *piece))
            return;
        put(*piece, returning);
        // The block may be in use by work that is queued on its stream.
        if (!is_behind(lane, device, lane.in, piece->home) || !copy(lane, *piece, false)) {
            drop_block(*piece);
            lane.is_return_off = true;
            return;
        }
    }
}

uint64_t StateStream::drop_returns(const DevicePools &device)
{
    std::lock_guard<std::recursive_mutex> hold(lock_);
    Lane &lane = lane_of(device);
    const uint64_t dropped_bytes = lane.bytes_in[returning];
    for (auto &piece : pieces_)
        if (piece->device == &device)
            drop_block(*piece);
    lane.is_return_off |= dropped_bytes != 0; // it was too early
    return dropped_bytes;
}

// ---- requests ----------------------------------------------------------------------------------

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
    if (size_bytes < least_bytes || pool_of(device) == nullptr || is_thread_bringing_back)
        return;
    std::lock_guard<std::recursive_mutex> hold(lock_);
    Lane &lane = lane_of(device);
    if (lane.limit_bytes == 0) // no step has ended yet
        return;
    if (lane.bytes_in[away] != 0 && !lane.is_return_off)
        begin_returns(lane, device);
    mark(lane, live_bytes_of(device) + lane.bytes_in[away] + size_bytes);
}

uint64_t StateStream::plan(DevicePools &device, bool is_step_end)
{
    std::lock_guard<std::recursive_mutex> hold(lock_);
    Lane &lane = lane_of(device);
    if (is_step_end) {
        uint64_t state_bytes = 0;
        for (Place place : {on_device, leaving, away, returning})
            state_bytes += lane.bytes_in[place];
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

// ---- a request without room --------------------------------------------------------------------

bool StateStream::make_room(DevicePools &device, uint64_t size_bytes)
{
    // Where there are two pools, this thread has a lock that one with Python's may wait for.
    if (!is_on() || is_thread_bringing_back || getpid() != process_id_ ||
        device.second.load() != nullptr)
        return false;
    if (drop_returns(device) >= size_bytes)
        return true;
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
    const bool is_done =
        need_changed_.wait_until(hold, end, [this] { return need_ == Need::done || !is_on(); });
    need_ = Need::none;
    if (!is_done)
        is_on_.store(false);
    return is_worth_while_;
}

bool StateStream::next_need(int *device, uint64_t *size_bytes)
{
    std::unique_lock<std::mutex> hold(need_lock_);
    // With an end, and again: without one it is a function that older C++ libraries lack.
    while (need_ != Need::posted && is_on())
        need_changed_.wait_for(hold, std::chrono::minutes(1));
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

// ---- what Python calls -------------------------------------------------------------------------

namespace
{

// 0 where nothing may be spilled, the GPU is not open, or an exception came out of it.
template <class Work> unsigned long long with_stream(Work work)
{
    vramwise_torch::Adapter *adapter = vramwise_torch::installed_adapter();
    try {
        if (adapter == nullptr || adapter->stream() == nullptr)
            return 0;
        return static_cast<unsigned long long>(work(*adapter->stream()));
    } catch (...) {
        return 0;
    }
}

template <class Work> unsigned long long with_device(int device, Work work)
{
    return with_stream([&](vramwise_torch::StateStream &stream) -> unsigned long long {
        vramwise_torch::DevicePools *pools =
            vramwise_torch::installed_adapter()->opened_pools(device);
        return pools != nullptr ? work(stream, *pools) : 0;
    });
}

vramwise_torch::NamedTensor named(unsigned long long tensor, unsigned long long object)
{
    return {static_cast<c10::TensorImpl *>(vramwise_torch::pointer_to(tensor)),
            vramwise_torch::pointer_to(object)};
}

} // namespace

int vramwise_torch_stream_start(unsigned long long tensor, unsigned long long object,
                                int (*make_room)(int, unsigned long long), int (*has_lock)(void))
{
    return static_cast<int>(with_stream([&](vramwise_torch::StateStream &stream) {
        stream.start(named(tensor, object), make_room, has_lock);
        vramwise_torch::installed_adapter()->watch_requests();
        return 1;
    }));
}

void vramwise_torch_stream_stop(void)
{
    with_stream([](vramwise_torch::StateStream &stream) {
        stream.stop();
        return 0;
    });
}

int vramwise_torch_stream_is_alone(unsigned long long tensor, unsigned long long object)
{
    return static_cast<int>(with_stream([&](vramwise_torch::StateStream &stream) {
        return stream.is_alone(named(tensor, object));
    }));
}

unsigned long long vramwise_torch_stream_add(unsigned long long tensor, unsigned long long object)
{
    return with_stream(
        [&](vramwise_torch::StateStream &stream) { return stream.add(named(tensor, object)); });
}

unsigned long long vramwise_torch_stream_plan(int device, int is_step_end)
{
    return with_device(
        device, [&](vramwise_torch::StateStream &stream, vramwise_torch::DevicePools &pools) {
            return stream.plan(pools, is_step_end != 0);
        });
}

unsigned long long vramwise_torch_stream_copy_out(unsigned long long tensor,
                                                  unsigned long long object, int is_idle)
{
    return with_stream([&](vramwise_torch::StateStream &stream) {
        return stream.copy_out(named(tensor, object), is_idle != 0);
    });
}

unsigned long long vramwise_torch_stream_bind_out(unsigned long long tensor,
                                                  unsigned long long object)
{
    return with_stream([&](vramwise_torch::StateStream &stream) {
        return stream.bind_out(named(tensor, object));
    });
}

int vramwise_torch_stream_bind_in(unsigned long long tensor, unsigned long long object)
{
    return static_cast<int>(with_stream([&](vramwise_torch::StateStream &stream) {
        return stream.bind_in(named(tensor, object));
    }));
}

void vramwise_torch_stream_wait(unsigned long long tensor, unsigned long long object)
{
    with_stream([&](vramwise_torch::StateStream &stream) {
        stream.wait(named(tensor, object));
        return 0;
    });
}

unsigned long long vramwise_torch_stream_release(int device)
{
    return with_device(device,
                       [](vramwise_torch::StateStream &stream, vramwise_torch::DevicePools &pools) {
                           return stream.release(pools);
                       });
}

int vramwise_torch_stream_next_need(int *device, unsigned long long *size_bytes)
{
    return static_cast<int>(with_stream([&](vramwise_torch::StateStream &stream) {
        uint64_t wanted_bytes = 0;
        const bool is_wanted = stream.next_need(device, &wanted_bytes);
        *size_bytes = wanted_bytes;
        return is_wanted;
    }));
}

void vramwise_torch_stream_answer(int is_worth_while)
{
    with_stream([&](vramwise_torch::StateStream &stream) {
        stream.answer(is_worth_while != 0);
        return 0;
    });
}
