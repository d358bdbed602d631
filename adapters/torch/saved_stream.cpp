// saved_stream.cpp - see saved_stream.h.
//
// What makes each move right:
//
//   out   The copy waits for what is queued on the current stream, which has made the tensor. The
//         storage lives until the copy is complete, or the stream of its memory waits for the copy.
//         Its version is compared when the tensor is wanted again, as PyTorch does for tensors that
//         stay.
//   in    The copy waits for the stream whose memory the new block was. The stream that wants the
//         tensor waits for the copy.
//   free  Whoever lets go of the storage last frees the GPU's memory. It is reused in the order of
//         its stream, as ever, and so behind the copy.
#include "saved_stream.h"

#include <algorithm>

#include "adapter.h"
#include "vramwise_torch.h"

namespace vramwise_torch
{

namespace
{

constexpr size_t most_items = 4096;  // of a step; more stay where they are
constexpr uint64_t alike_share = 16; // of its requests may be more or fewer than in the one before

// Of a storage that we hold weakly.
uint32_t uses_of(c10::StorageImpl *storage)
{
    return c10::raw::weak_intrusive_ptr::use_count(storage);
}

} // namespace

SavedStream::Left::~Left()
{
    for (c10::StorageImpl *storage : strong)
        c10::raw::intrusive_ptr::decref(storage);
    for (c10::StorageImpl *storage : weak)
        c10::raw::weak_intrusive_ptr::decref(storage);
}

SavedStream::Piece *SavedStream::find(uint64_t id) const
{
    auto found = pieces_.find(id);
    return found != pieces_.end() ? found->second.get() : nullptr;
}

SavedStream::Item *SavedStream::item_of(const Piece &piece)
{
    return piece.step == step_ ? &items_[piece.index] : nullptr;
}

// Only what is away counts as such: a block that is being filled is live.
void SavedStream::put(Piece &piece, Place place)
{
    if (piece.is_gone && piece.place == away)
        counts_.away_bytes -= piece.size_bytes;
    piece.place = place;
    if (piece.is_gone && piece.place == away)
        counts_.away_bytes += piece.size_bytes;
}

// ---- leaving -----------------------------------------------------------------------------------

bool SavedStream::is_as_planned(uint64_t index, uint64_t size_bytes) const
{
    return index < planned_.size() && planned_[index].size_bytes == size_bytes;
}

// Where a step is not like the last one, as much leaves as that lacked, from the start.
bool SavedStream::is_to_leave(uint64_t index, uint64_t size_bytes) const
{
    if (is_as_planned(index, size_bytes))
        return planned_[index].leaves;
    return left_bytes_ < lacking_bytes_;
}

bool SavedStream::copy_out(Piece &piece)
{
    const vw_device &device = *device_.device;
    CopyTrack &out = lane_.saved_out;
    return lane_.is_behind(device_, out, piece.home) &&
           out.copy(device, address_of(piece.host), address_of(piece.storage->data_ptr().get()),
                    piece.size_bytes) &&
           out.mark(device, piece.copied);
}

bool SavedStream::begin_leaving(c10::TensorImpl *tensor, uint64_t index)
{
    const vw_device &device = *device_.device;
    auto piece = std::make_unique<Piece>();
    piece->storage = tensor->unsafe_storage().unsafeGetStorageImpl();
    piece->counter = tensor->version_counter();
    piece->version = tensor->version_counter().current_version();
    piece->size_bytes = items_[index].size_bytes;
    piece->index = index;
    piece->step = step_;
    piece->since = items_[index].from;
    piece->home = current_stream_on(device_);
    if (!lane_.open(device_, budget_))
        return false;
    if (!events_.empty()) {
        piece->copied = events_.back();
        events_.pop_back();
    } else if (device.table->event_create(device.context, &piece->copied) != VW_OK) {
        return false;
    }
    events_.reserve(events_.size() + 1); // where it goes back to
    Piece &leaver = *piece;
    const uint64_t id = ++last_id_;
    leaving_.push_back(id); // without host memory for the next two, an id of nothing
    by_storage_[leaver.storage] = id;
    pieces_[id] = std::move(piece);
    leaver.host = lane_.take_host(leaver.size_bytes, lane_.saved_out);
    if (leaver.host == nullptr || !copy_out(leaver)) {
        if (leaver.host != nullptr)
            vw_pinned_free(lane_.host, leaver.host);
        events_.push_back(leaver.copied);
        by_storage_.erase(leaver.storage);
        pieces_.erase(id);
        return false;
    }
    c10::raw::intrusive_ptr::incref(leaver.storage);
    c10::raw::weak_intrusive_ptr::incref(leaver.storage);
    left_bytes_ += leaver.size_bytes;
    counts_.all_left_bytes += leaver.size_bytes;
    ids_[index] = id;
    return true;
}

long long SavedStream::save(c10::TensorImpl *tensor, uint64_t now)
{
    c10::StorageImpl *storage = tensor->unsafe_storage().unsafeGetStorageImpl();
    auto known = by_storage_.find(storage);
    const Piece *piece = known != by_storage_.end() ? find(known->second) : nullptr;
    if (piece != nullptr) {
        const bool is_same = piece->version == tensor->version_counter().current_version();
        return is_same && !piece->is_released ? static_cast<long long>(known->second) : 0;
    }
    const vw_device_ptr address = address_of(storage->data_ptr().get());
    vw_block_place place{};
    if (items_.size() == most_items || vw_pool_find(pool_of(device_), address, &place) != VW_OK ||
        place.block_address != address || place.private_id.first != 0 ||
        place.private_id.second != 0)
        return 0;
    const uint64_t index = items_.size(), size_bytes = storage->nbytes();
    is_as_last_ = is_as_last_ && is_as_planned(index, size_bytes);
    const bool is_kept = is_as_planned(index, size_bytes) && kept_[index];
    ids_.reserve(index + 1);
    items_.push_back({size_bytes, now, 0, is_kept});
    ids_.push_back(0);
    if (is_to_leave(index, size_bytes) && begin_leaving(tensor, index))
        return static_cast<long long>(ids_[index]) +
               (is_last(index) ? VRAMWISE_TORCH_SAVED_LAST : 0);
    return -static_cast<long long>(index) - 1;
}

// Nothing that follows leaves, as far as the step is like the last one. Hooks are Python: a program
// that is bound by the host notices each call, and those of what stays would say nothing new.
bool SavedStream::is_last(uint64_t index)
{
    const bool is_it = is_as_last_ && index == last_leaver_;
    is_cut_off_ = is_cut_off_ || is_it;
    return is_it;
}

void SavedStream::note_use(uint64_t index, uint64_t now)
{
    if (index < items_.size() && items_[index].until == 0)
        items_[index].until = now;
}

// Its memory on the GPU is free, or is as soon as the caller's references are given up.
void SavedStream::note_gone(Piece &piece)
{
    const Place place = piece.place;
    put(piece, back);
    piece.is_gone = true;
    put(piece, place);
}

// The copy of `id` is complete, or whoever gets its memory waits for it.
void SavedStream::let_go(uint64_t id, Piece &piece, Left &left)
{
    left.strong.reserve(left.strong.size() + 1);
    left.weak.reserve(left.weak.size() + 1);
    late_.reserve(late_.size() + 1);
    put(piece, away);
    left.strong.push_back(piece.storage);
    if (uses_of(piece.storage) == 1)
        note_gone(piece);
    else
        late_.push_back(id);
    if (piece.is_released)
        end(id, left);
}

SavedStream::Piece *SavedStream::oldest_leaving()
{
    for (; !leaving_.empty(); leaving_.pop_front()) {
        Piece *piece = find(leaving_.front());
        if (piece != nullptr && piece->place == leaving)
            return piece;
        // It was wanted again before it had left.
    }
    return nullptr;
}

void SavedStream::settle_leaving(Left &left)
{
    const vw_device &device = *device_.device;
    while (Piece *piece = oldest_leaving()) {
        if (device.table->event_query(device.context, piece->copied) != VW_OK)
            return;
        let_go(leaving_.front(), *piece, left);
        leaving_.pop_front();
    }
}

bool SavedStream::is_late(uint64_t now)
{
    const Piece *piece = oldest_leaving();
    return piece != nullptr && piece->step == step_ && need_mark_ != SIZE_MAX &&
           now / per_mark_ >= vw_schedule_left_mark(need_mark_, piece->since / per_mark_);
}

bool SavedStream::give_up_oldest(Left &left)
{
    const vw_device &device = *device_.device;
    Piece *piece = oldest_leaving();
    vw_block_place place{};
    if (piece == nullptr ||
        vw_pool_find(pool_of(device_), address_of(piece->storage->data_ptr().get()), &place) !=
            VW_OK ||
        device.table->stream_wait_event(device.context, place.stream, piece->copied) != VW_OK)
        return false;
    let_go(leaving_.front(), *piece, left);
    leaving_.pop_front();
    return true;
}

void SavedStream::settle_late(uint64_t now)
{
    auto is_over = [&](uint64_t id) {
        Piece *piece = find(id);
        if (piece == nullptr || piece->place != away)
            return true;
        if (uses_of(piece->storage) != 0)
            return false;
        note_gone(*piece);
        if (Item *item = item_of(*piece))
            item->from = now;
        return true;
    };
    late_.erase(std::remove_if(late_.begin(), late_.end(), is_over), late_.end());
}

void SavedStream::settle_released(Left &left)
{
    std::vector<uint64_t> released;
    {
        std::lock_guard<std::mutex> hold(released_lock_);
        released.swap(released_);
    }
    for (uint64_t id : released)
        if (Piece *piece = find(id)) {
            if (piece->place == leaving)
                piece->is_released = true; // the copy still reads its storage
            else
                end(id, left);
        }
}

void SavedStream::settle(uint64_t now, Left &left)
{
    settle_released(left);
    settle_leaving(left);
    if (!late_.empty())
        settle_late(now);
}

void SavedStream::release(uint64_t id)
{
    std::lock_guard<std::mutex> hold(released_lock_);
    released_.push_back(id);
}

void SavedStream::end(uint64_t id, Left &left)
{
    Piece &piece = *find(id);
    left.weak.reserve(left.weak.size() + 1);
    drop_block(piece);
    put(piece, back);
    auto known = by_storage_.find(piece.storage);
    if (known != by_storage_.end() && known->second == id)
        by_storage_.erase(known);
    vw_pinned_free(lane_.host, piece.host); // waits for its copies
    events_.push_back(piece.copied);
    left.weak.push_back(piece.storage);
    pieces_.erase(id);
}

// ---- coming back -------------------------------------------------------------------------------

void SavedStream::drop_block(Piece &piece)
{
    if (piece.place != returning)
        return;
    free_behind_copies(device_, piece.block, lane_.in);
    piece.block = VW_NULL;
    put(piece, away);
}

void SavedStream::begin_returns(uint64_t now)
{
    const vw_device &device = *device_.device;
    const uint64_t mark = now / per_mark_;
    for (size_t i = first_return_; i < returns_.size(); i++) {
        const size_t index = returns_[i];
        if (planned_[index].back_mark > mark)
            return;
        Piece *piece = index < ids_.size() ? find(ids_[index]) : nullptr;
        if (piece == nullptr || piece->place == back) {
            first_return_ += i == first_return_ && index < ids_.size();
            continue;
        }
        if (piece->place != away)
            continue;
        if (!take_block(device_, lane_.room_bytes(), piece->size_bytes, piece->home, &piece->block))
            return;
        put(*piece, returning);
        // The block may be in use by work that is queued on its stream, and the copy out under way.
        if (!lane_.is_behind(device_, lane_.in, piece->home) ||
            !lane_.in.wait(device, piece->copied) ||
            !lane_.in.copy(device, piece->block, address_of(piece->host), piece->size_bytes) ||
            !lane_.in.mark(device, piece->copied)) {
            drop_block(*piece);
            return;
        }
    }
}

bool SavedStream::has_returns_to_come() const
{
    for (size_t i = first_return_; i < returns_.size(); i++) {
        const Piece *piece = returns_[i] < ids_.size() ? find(ids_[returns_[i]]) : nullptr;
        if (piece != nullptr && (piece->place == leaving || piece->place == away))
            return true;
    }
    return false;
}

uint64_t SavedStream::drop_returns()
{
    uint64_t dropped_bytes = 0;
    for (size_t i = returns_.size(); i-- > first_return_;) {
        Piece *piece = returns_[i] < ids_.size() ? find(ids_[returns_[i]]) : nullptr;
        if (piece == nullptr || piece->place != returning)
            continue;
        drop_block(*piece);
        dropped_bytes += piece->size_bytes;
    }
    return dropped_bytes;
}

void SavedStream::bind(Piece &piece, c10::DataPtr &&data, c10::StorageImpl *shell)
{
    shell->set_data_ptr(std::move(data));
    shell->set_nbytes(piece.size_bytes);
    put(piece, back);
    counts_.all_returned_bytes += piece.size_bytes;
    counts_.returned_ahead_bytes += piece.size_bytes;
}

long long SavedStream::fetch(uint64_t id, c10::StorageImpl *shell, uint64_t now, Left &left)
{
    const vw_device &device = *device_.device;
    const vw_stream current = current_stream_on(device_);
    Piece *piece = find(id);
    if (piece == nullptr || piece->place == back)
        return is_unknown;
    if (piece->counter.current_version() != piece->version)
        return was_written;
    if (Item *item = item_of(*piece)) {
        item->until = now;
        item->is_kept = piece->place != leaving && !piece->is_gone;
    }
    if (piece->place == leaving) {
        // The copy may still read its memory, which others may free from now on.
        const c10::Device place = piece->storage->data_ptr().device();
        if (device.table->event_query(device.context, piece->copied) != VW_OK &&
            !record_use(pool_of(device_), address_of(piece->storage->data_ptr().get()),
                        lane_.saved_out))
            return is_unknown;
        left.strong.push_back(piece->storage);
        if (uses_of(piece->storage) == 1) { // nobody else has it: its memory goes on
            bind(*piece, piece->storage->set_data_ptr(c10::DataPtr(nullptr, place)), shell);
            return is_there;
        }
        put(*piece, away);
        if (Item *item = item_of(*piece))
            item->is_kept = true;
    }
    if (piece->place == returning) {
        const c10::Device place(c10::DeviceType::CUDA, device_.index);
        if (device.table->stream_wait_event(device.context, current, piece->copied) == VW_OK &&
            (current == piece->home ||
             vw_record_stream(pool_of(device_), piece->block, current) == VW_OK)) {
            void *block = pointer_to(piece->block);
            piece->block = VW_NULL;
            bind(*piece, c10::DataPtr(block, block, free_block_, place), shell);
            return is_there;
        }
        drop_block(*piece);
    }
    return static_cast<long long>(piece->size_bytes);
}

// On the current stream itself: whatever is queued on that of the copies can wait.
bool SavedStream::fill(uint64_t id, c10::StorageImpl *storage)
{
    const vw_device &device = *device_.device;
    const vw_stream current = current_stream_on(device_);
    Piece *piece = find(id);
    if (piece == nullptr || storage->nbytes() != piece->size_bytes ||
        device.table->stream_wait_event(device.context, current, piece->copied) != VW_OK ||
        vw_pinned_record_stream(lane_.host, piece->host, current) != VW_OK ||
        device.table->copy(device.context, address_of(storage->data_ptr().get()),
                           address_of(piece->host), piece->size_bytes, current) != VW_OK)
        return false;
    drop_block(*piece); // the request for `storage` may have begun to bring it back
    put(*piece, back);
    counts_.all_returned_bytes += piece->size_bytes;
    return true;
}

// ---- the schedule ------------------------------------------------------------------------------

// What a step did not say of the items behind the last that left is what the last one said that was
// seen to its end. False: the two differ, and nobody knows.
bool SavedStream::complete_items(uint64_t requests)
{
    const uint64_t slack = whole_requests_ / alike_share;
    if (is_cut_off_ && (requests + slack < whole_requests_ || requests > whole_requests_ + slack))
        return false;
    if (is_cut_off_ && items_.size() < whole_.size())
        items_.insert(items_.end(), whole_.begin() + static_cast<std::ptrdiff_t>(items_.size()),
                      whole_.end());
    whole_ = items_;
    whole_requests_ = requests;
    return true;
}

void SavedStream::plan(const std::vector<uint64_t> &marks, uint64_t per_mark, uint64_t requests,
                       const std::vector<uint64_t> &away_bytes, size_t need_mark)
{
    const bool is_whole = complete_items(requests);
    need_mark_ = need_mark;
    planned_.clear();
    kept_.clear();
    for (const Item &item : items_) {
        vw_saved_item one{};
        one.size_bytes = item.size_bytes;
        one.from_mark = static_cast<uint32_t>((item.from + per_mark - 1) / per_mark);
        one.until_mark = item.is_kept ? 0 : static_cast<uint32_t>(item.until / per_mark);
        planned_.push_back(one);
        kept_.push_back(item.is_kept);
    }
    std::vector<uint64_t> on_device(marks.size());
    lacking_bytes_ =
        vw_schedule_saved(marks.data(), away_bytes.data(), marks.size(), lane_.limit_bytes,
                          planned_.data(), planned_.size(), on_device.data());
    returns_.clear();
    for (size_t i = 0; i < planned_.size(); i++)
        if (planned_[i].leaves)
            returns_.push_back(i);
    last_leaver_ = is_whole && !returns_.empty() ? returns_.back() : SIZE_MAX;
    std::stable_sort(returns_.begin(), returns_.end(), [this](size_t a, size_t b) {
        return planned_[a].until_mark < planned_[b].until_mark;
    });
    first_return_ = 0;
    per_mark_ = per_mark;
    items_.clear();
    ids_.clear();
    left_bytes_ = 0;
    is_as_last_ = true;
    is_cut_off_ = false;
    step_++;
}

} // namespace vramwise_torch
