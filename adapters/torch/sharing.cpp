// sharing.cpp - handles as they are sent, and what is kept for them. See sharing.h.
//
// A handle is a string of bytes, the same for every tensor of a block. First a version and a kind,
// as PyTorch writes them:
//
//   1 'c'  64 bytes of the CUDA runtime's            plain memory
//   1 'h'  "hrm3", then integers of this machine:    virtual memory
//          number (8), pid (4), count (4), key (16), namespace (8), start (8),
//          count times: size (8), descriptor (4)
//
// Number and key are those of the offer: vramwise_torch_support.h. The number tells two sharings
// apart of which the second got the descriptors of the first. Namespace and start say which process
// has that pid: in another container, or later, it may be anybody's.
#include "sharing.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device_pools.h"
#include "support/vramwise_torch_support.h"

// Since Linux 5.6, with one number on every machine; headers may be older.
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

namespace vramwise_torch
{

namespace
{

constexpr char handle_version = 1; // the oldest of PyTorch's: whoever receives it knows it
constexpr char plain_kind = 'c';
constexpr char virtual_kind = 'h';
constexpr char magic[4] = {'h', 'r', 'm', '3'};
constexpr size_t head_bytes = 2;

template <class Number> void append(std::string &text, Number number)
{
    text.append(reinterpret_cast<const char *>(&number), sizeof number);
}

void close_all(std::vector<vw_shared_part> &parts)
{
    for (vw_shared_part &part : parts)
        if (part.file_descriptor >= 0)
            close(part.file_descriptor);
    parts.clear();
}

// Closes what it holds unless it was let go.
struct Parts {
    std::vector<vw_shared_part> list;
    ~Parts()
    {
        close_all(list);
    }
};

// Where process numbers mean the same; 0 where nobody says.
uint64_t pid_namespace()
{
    struct stat facts {
    };
    return stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

// When a process began, in ticks; 0 where nobody says. Its name, in parentheses, may be anything.
uint64_t start_of(pid_t pid)
{
    constexpr int fields_before = 19; // behind the name
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text{std::istreambuf_iterator<char>(file), {}}, field;
    uint64_t start = 0;
    std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
    for (int i = 0; i < fields_before; i++)
        fields >> field;
    return fields >> start ? start : 0;
}

// Withdrawn unless its number was taken. Where there is no socket, nobody can fetch anything over
// it.
struct Offer {
    vramwise_descriptor_offer made{};
    explicit Offer(const std::vector<vw_shared_part> &parts)
    {
        std::vector<int> files;
        files.reserve(parts.size());
        for (const vw_shared_part &part : parts)
            files.push_back(part.file_descriptor);
        (void)vramwise_descriptors_offer(files.data(), files.size(), &made);
    }
    ~Offer()
    {
        if (made.number != 0)
            vramwise_descriptors_withdraw(made.number);
    }
    Offer(const Offer &) = delete;
    Offer &operator=(const Offer &) = delete;
};

std::string plain_handle(void *segment)
{
    cudaIpcMemHandle_t handle;
    C10_CUDA_CHECK(cudaIpcGetMemHandle(&handle, segment));
    std::string text{handle_version, plain_kind};
    text.append(reinterpret_cast<const char *>(&handle), sizeof handle);
    return text;
}

std::string virtual_handle(const vramwise_descriptor_offer &offer,
                           const std::vector<vw_shared_part> &parts)
{
    std::string text{handle_version, virtual_kind};
    text.append(magic, sizeof magic);
    append(text, offer.number);
    append(text, static_cast<int32_t>(getpid()));
    append(text, static_cast<uint32_t>(parts.size()));
    text.append(reinterpret_cast<const char *>(offer.key), sizeof offer.key);
    append(text, pid_namespace());
    append(text, start_of(getpid()));
    for (const vw_shared_part &part : parts) {
        append(text, part.size_bytes);
        append(text, static_cast<int32_t>(part.file_descriptor));
    }
    return text;
}

// Reads numbers off a handle; a shorter one than it says is nobody's.
class Reader
{
  public:
    Reader(const std::string &text, size_t at) : text_(text), at_(at)
    {
    }
    template <class Number> Number next()
    {
        Number number{};
        TORCH_CHECK(text_.size() - at_ >= sizeof number, "vramwise: a shared handle of ",
                    text_.size(), " bytes is cut off");
        std::memcpy(&number, text_.data() + at_, sizeof number);
        at_ += sizeof number;
        return number;
    }

  private:
    const std::string &text_;
    size_t at_;
};

// What a handle says.
struct Announced {
    int32_t pid = 0;
    vramwise_descriptor_offer offer{};
    uint64_t home = 0, start = 0;      // the sender's pid_namespace() and start_of()
    std::vector<vw_shared_part> parts; // with the sender's descriptors

    explicit Announced(const std::string &handle)
    {
        Reader reader(handle, head_bytes + sizeof magic);
        offer.number = reader.next<uint64_t>();
        pid = reader.next<int32_t>();
        auto count = reader.next<uint32_t>();
        for (uint8_t &byte : offer.key)
            byte = reader.next<uint8_t>();
        home = reader.next<uint64_t>();
        start = reader.next<uint64_t>();
        for (uint32_t i = 0; i < count; i++) {
            auto size_bytes = reader.next<uint64_t>();
            parts.push_back({size_bytes, reader.next<int32_t>()});
        }
    }
};

struct Descriptor {
    int file;
    ~Descriptor()
    {
        if (file >= 0)
            close(file);
    }
};

// Takes the descriptors out of the sender's process, for which the kernel wants us to be allowed to
// trace it. Empty, or why it failed; `is_final`: no other way would do better.
std::string take_out(const Announced &announced, Parts &parts, bool *is_final)
{
    Descriptor sender{static_cast<int>(syscall(SYS_pidfd_open, announced.pid, 0))};
    if (sender.file < 0)
        return std::string("it is not to be found here (pidfd_open: ") + std::strerror(errno) +
               "): it has ended, or runs in another container's process namespace";
    if (announced.home == 0 || announced.home != pid_namespace() || announced.start == 0 ||
        announced.start != start_of(announced.pid))
        return "the process of that number here is another one: the sender has ended, or runs in "
               "another container's process namespace";
    for (const vw_shared_part &part : announced.parts) {
        long ours = syscall(SYS_pidfd_getfd, sender.file, part.file_descriptor, 0);
        const int error = errno;
        if (ours >= 0) {
            parts.list.push_back({part.size_bytes, static_cast<int>(ours)});
            continue;
        }
        close_all(parts.list);
        if (error == ENOSYS)
            return "this kernel has no pidfd_getfd (Linux 5.6 has)";
        if (error == EPERM)
            return "not permitted (pidfd_getfd): the kernel wants the right to trace it, see "
                   "kernel.yama.ptrace_scope, and SYS_PTRACE of containers";
        *is_final = true;
        return std::string("pidfd_getfd: ") + std::strerror(error) +
               ". The sender has freed it, or has ended";
    }
    return {};
}

// Over the sender's socket. Empty, or why it failed.
std::string fetch_over_socket(const Announced &announced, Parts &parts)
{
    char message[256];
    std::vector<int> files(announced.parts.size(), -1);
    if (!vramwise_descriptors_fetch(&announced.offer, files.data(), files.size(), message,
                                    sizeof message))
        return message;
    for (size_t i = 0; i < files.size(); i++)
        parts.list.push_back({announced.parts[i].size_bytes, files[i]});
    return {};
}

void fetch_parts(const std::string &handle, Parts &parts)
{
    const Announced announced(handle);
    parts.list.reserve(announced.parts.size());
    bool is_final = false;
    std::string refusal = take_out(announced, parts, &is_final);
    if (!refusal.empty() && !is_final) {
        std::string other = fetch_over_socket(announced, parts);
        refusal = other.empty() ? other : refusal + "; and over a socket: " + other;
    }
    TORCH_CHECK(refusal.empty(), "vramwise: cannot receive shared GPU memory from process ",
                announced.pid, ": ", refusal,
                is_final ? "."
                         : ". Allocator \"torch\" with expandable_segments:False shares without "
                           "either.");
}

bool is_kind(const std::string &handle, char kind)
{
    return handle.size() > head_bytes && handle[1] == kind;
}

} // namespace

// ---- the sender --------------------------------------------------------------------------------

const SharedOut::Kept &SharedOut::keep(vw_pool *pool, const vw_block_place &place)
{
    auto found = kept_.find(place.block_address);
    if (found != kept_.end())
        return found->second;
    Parts parts;
    size_t capacity = 64, count = 0;
    uint64_t offset_bytes = 0;
    vw_status status;
    do {
        parts.list.assign(capacity, {0, -1});
        status = vw_pool_share(pool, place.block_address, parts.list.data(), capacity, &count,
                               &offset_bytes);
        if (status != VW_ERR_INVALID_ARGUMENT || count <= capacity)
            break;
        capacity = count;
    } while (true);
    if (status != VW_OK)
        parts.list.clear();
    TORCH_CHECK(status != VW_ERR_UNSUPPORTED,
                "vramwise: this memory cannot be shared between processes: ", vw_last_error());
    TORCH_CHECK(status == VW_OK, "vramwise: sharing GPU memory: ", vw_status_message(status), ": ",
                vw_last_error());
    parts.list.resize(count);
    Offer offer(parts.list);
    std::string handle = virtual_handle(offer.made, parts.list);
    auto added = kept_.emplace(place.block_address, Kept{pool, std::move(handle), offset_bytes,
                                                         offer.made.number, parts.list});
    parts.list.clear();
    offer.made.number = 0;
    count_.store(kept_.size(), std::memory_order_release);
    return added.first->second;
}

ShareableHandle SharedOut::share(vw_pool *pool, const vw_block_place &place, const void *pointer)
{
    auto inside = [&](vw_device_ptr start) {
        return static_cast<ptrdiff_t>(address_of(pointer) - start);
    };
    if (!place.is_expandable)
        return {inside(place.segment_address), plain_handle(pointer_to(place.segment_address))};
    std::lock_guard<std::mutex> hold(lock_);
    const Kept &kept = keep(pool, place);
    return {static_cast<ptrdiff_t>(kept.offset_bytes) + inside(place.block_address), kept.handle};
}

SharedOut::Ending SharedOut::take(vw_device_ptr block_address)
{
    Ending ending;
    if (is_empty())
        return ending;
    std::lock_guard<std::mutex> hold(lock_);
    auto found = kept_.find(block_address);
    if (found == kept_.end())
        return ending;
    ending.pool_ = found->second.pool;
    ending.address_ = block_address;
    ending.offer_ = found->second.offer;
    ending.parts_ = std::move(found->second.parts);
    kept_.erase(found);
    count_.store(kept_.size(), std::memory_order_release);
    return ending;
}

SharedOut::Ending::Ending(Ending &&other) noexcept
    : pool_(other.pool_), address_(other.address_), offer_(other.offer_),
      parts_(std::move(other.parts_))
{
    other.pool_ = nullptr;
    other.offer_ = 0;
    other.parts_.clear();
}

SharedOut::Ending::~Ending()
{
    if (offer_ != 0)
        vramwise_descriptors_withdraw(offer_);
    close_all(parts_);
    if (pool_ != nullptr && vw_pool_unpin(pool_, address_) != VW_OK) {
        // The pages stay where they are. Nothing more can be done about it in a deleter.
    }
}

// ---- the receiver ------------------------------------------------------------------------------

static void *open_plain(const std::string &handle)
{
    cudaIpcMemHandle_t theirs;
    TORCH_CHECK(handle.size() == head_bytes + sizeof theirs,
                "unexpected or illformed shareable handle type");
    std::memcpy(&theirs, handle.data() + head_bytes, sizeof theirs);
    void *base = nullptr;
    C10_CUDA_CHECK(cudaIpcOpenMemHandle(&base, theirs, cudaIpcMemLazyEnablePeerAccess));
    return base;
}

// At the end of a process the runtime may be gone, and then the mapping is, too: no exception may
// leave a deleter.
static void close_plain(c10::DeviceIndex device, void *base)
{
    try {
        c10::cuda::CUDAGuard guard(device);
        (void)cudaIpcCloseMemHandle(base);
    } catch (...) {
    }
}

static void *open_virtual(vw_device *device, const std::string &handle)
{
    TORCH_CHECK(handle.compare(head_bytes, sizeof magic, magic, sizeof magic) == 0,
                "vramwise: shared memory from another version of vramwise, or of something else");
    Parts parts;
    fetch_parts(handle, parts);
    vw_device_ptr base = VW_NULL;
    vw_status status = vw_shared_open(device, parts.list.data(), parts.list.size(), &base);
    TORCH_CHECK(status == VW_OK,
                "vramwise: cannot map shared GPU memory: ", vw_status_message(status), ": ",
                vw_last_error());
    return pointer_to(base);
}

// Its end takes the lock, and so it must not end in open(), which has it: `base` is set when
// nothing can be thrown any more.
struct SharedIn::Opened {
    Opened(SharedIn &its_owner, vw_device *its_device, Key its_key, bool is_plain_memory)
        : owner(its_owner), device(its_device), key(std::move(its_key)), is_plain(is_plain_memory)
    {
    }
    Opened(const Opened &) = delete;
    Opened &operator=(const Opened &) = delete;
    // Closed under the lock: the same memory must not be opened again in between.
    ~Opened()
    {
        if (base == nullptr || getpid() != process_id)
            return; // it was not opened; or a fork's copy: the parent's to close
        std::lock_guard<std::mutex> hold(owner.lock_);
        if (is_plain) {
            close_plain(key.first, base);
        } else {
            (void)device->table->synchronize(device->context); // work that uses it may be queued
            (void)vw_shared_close(device, address_of(base));
        }
        auto entry = owner.opened_.find(key);
        if (entry != owner.opened_.end() && entry->second.expired())
            owner.opened_.erase(entry);
    }
    SharedIn &owner;
    vw_device *device;
    Key key;
    bool is_plain;
    int process_id = getpid();
    void *base = nullptr;
};

std::shared_ptr<void> SharedIn::open(vw_device *device, c10::DeviceIndex index,
                                     const std::string &handle)
{
    std::lock_guard<std::mutex> hold(lock_);
    Key key{index, handle};
    auto found = opened_.find(key);
    if (found != opened_.end())
        if (std::shared_ptr<void> already = found->second.lock())
            return already;
    bool is_plain = is_kind(handle, plain_kind);
    TORCH_CHECK(is_plain || is_kind(handle, virtual_kind),
                "unexpected or illformed shareable handle type");
    auto opened = std::make_shared<Opened>(*this, device, key, is_plain);
    auto entry = opened_.emplace(key, std::weak_ptr<void>()).first;
    try {
        opened->base = is_plain ? open_plain(handle) : open_virtual(device, handle);
    } catch (...) {
        opened_.erase(entry);
        throw;
    }
    std::shared_ptr<void> shared(opened, opened->base);
    entry->second = shared;
    return shared;
}

} // namespace vramwise_torch
