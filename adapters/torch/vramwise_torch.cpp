// vramwise_torch.cpp - how the allocator gets into PyTorch, and the C functions for Python.
//
// PyTorch has the allocator in two places. `c10::cuda::CUDACachingAllocator::allocator` is
// what CUDA code asks, and changeCurrentAllocator() replaces it as long as CUDA was not initialized
// (CUDAHooks::init() then calls init() of whichever is there). c10::GetAllocator(kCUDA) is what
// torch.accelerator asks, set once when the library was loaded; c10::SetAllocator() replaces it.
// New settings arrive through the hook of PyTorch's CUDA configuration from 2.10 on; before, Python
// calls vramwise_torch_configure().
#include "vramwise_torch.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include <c10/core/Allocator.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>
#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h> // from 2.10
#else
#include <torch/version.h>
#endif

#include "adapter.h"
#include "platform.h"
#include "vramwise/units.h"
#include "support/vramwise_torch_support.h"

using vramwise_torch::Adapter;
using vramwise_torch::AdapterOptions;

namespace
{

bool is_name(const std::string &name)
{
    return name == "torch" || name == "vramwise" || name == "vramwise:rescue" ||
           name == "vramwise:tight";
}

void say(char *message, size_t capacity, const std::string &text)
{
    if (message != nullptr && capacity > 0)
        std::snprintf(message, capacity, "%s", text.substr(0, text.find('\n')).c_str());
}

// Says what `work` returns, or throws: 0 where that is nothing.
template <class Work> int told(char *message, size_t capacity, Work work)
{
    std::string text;
    try {
        text = work();
        say(message, capacity, text);
        return text.empty() ? 0 : 1;
    } catch (const std::exception &error) {
        say(message, capacity, error.what());
    } catch (...) {
        say(message, capacity, "an exception of a kind nobody knows");
    }
    return 1;
}

// A pool on host memory, to hear whether the machine could keep what is wanted: no GPU may be
// started here.
std::string spill_objection(const std::string &name, uint64_t spill_bytes)
{
    constexpr uint64_t little_bytes = uint64_t{64} << 20;
    vw_pool_options options{};
    options.struct_size = sizeof options;
    options.engine = name.c_str();
    options.spill_bytes = spill_bytes; // nothing is made ahead
    options.is_unlisted = true;
    vw_device *device = nullptr;
    vw_pool *pool = nullptr;
    std::string text;
    if (vw_host_device_create(little_bytes, &device) != VW_OK ||
        vw_pool_create(device, &options, &pool) != VW_OK)
        text = vw_last_error();
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return text;
}

// Only the text is read here: how much it is depends on the GPU.
std::string keep_free_objection(const std::string &name, const std::string &keep_free)
{
    uint64_t bytes = 0;
    if (keep_free.empty())
        return "";
    if (vw_parse_size_or_share(keep_free.c_str(), UINT64_MAX, &bytes) != VW_OK)
        return std::string("keep_free: ") + vw_last_error();
    if (bytes != 0 && name == vramwise_torch::torch_engine)
        return "keep_free is for vramwise, vramwise:rescue and vramwise:tight, not for torch";
    return "";
}

// Why it cannot be, or "".
std::string objection(const std::string &name, uint64_t spill_bytes, const std::string &keep_free)
{
    if (!is_name(name))
        return "'" + name +
               "' is no allocator: expected torch, vramwise, vramwise:rescue or vramwise:tight";
    if (vramwise_torch::installed_adapter() != nullptr)
        return "vramwise is installed already, as '" +
               vramwise_torch::installed_adapter()->engine() + "'";
    auto *current = c10::cuda::CUDACachingAllocator::get();
    if (current == nullptr)
        return "this PyTorch has no CUDA allocator to replace";
    if (current->name() == "cudaMallocAsync" || current->name() == "hipMallocAsync")
        return "PyTorch's settings say backend:" + current->name() + ": PyTorch's own stays";
    if (current->initialized())
        return "too late: PyTorch has started CUDA already; install before the first use of a GPU";
    std::string text = keep_free_objection(name, keep_free);
    if (!text.empty())
        return text;
    if (spill_bytes != 0 && vramwise_torch::spill_trouble != nullptr)
        return vramwise_torch::spill_trouble;
    return spill_bytes != 0 ? spill_objection(name, spill_bytes) : "";
}

// Has PyTorch call `adapter` when it was given new settings; false where it cannot.
//
// Compiled by clang, the hook would be a copy of the adapter's own: clang makes the static
// variables of inline functions weak, and only g++ makes them unique in the process.
#ifdef __clang__
constexpr bool is_hook_shared = false;
#else
constexpr bool is_hook_shared = true;
#endif
// From 2.11: the hook in force is CUDA's, and is called first.
template <class Config>
auto follow_settings(Adapter *adapter, int) -> decltype(Config::getConfigParserHook(), bool())
{
    auto before = Config::getConfigParserHook();
    Config::getConfigParserHook() = [before, adapter](const std::string &conf) {
        if (before)
            before(conf);
        adapter->configure(conf);
    };
    return is_hook_shared;
}
// 2.10: the hook cannot be read; it is CUDA's parser. 2.9 has the hook too, and CUDA does not use
// it: there CUDA's settings have no memory fraction yet.
template <class Config, class Cuda = vramwise_torch::CUDAAllocatorConfig>
auto follow_settings(Adapter *adapter, long)
    -> decltype(Config::registerDeviceConfigParserHook({}, {}), Cuda::per_process_memory_fraction(),
                bool())
{
    Config::registerDeviceConfigParserHook(
        [adapter](const std::string &conf) {
            Cuda::instance().parseArgs(conf);
            adapter->configure(conf);
        },
        {});
    return is_hook_shared;
}
template <class Config> bool follow_settings(Adapter *, ...)
{
    return false;
}

bool has_settings_hook = false;

// Without it safe points still work.
void put_up_gate()
{
    char note[512] = "";
    if (vramwise_torch::gate_trouble != nullptr)
        std::snprintf(note, sizeof note, "%s", vramwise_torch::gate_trouble);
    else if (vramwise_launch_gate_install(note, sizeof note))
        return;
    std::fprintf(stderr, "vramwise: live data moves at safe points only: %s\n", note);
}

// Where the platform has none, safe points still work; by the names that need a gate from the
// beginning, a line says so.
void see_to_gate(AdapterOptions &options)
{
    if (!vramwise_torch::gate_comes_late(options.engine))
        options.before_first_device = put_up_gate;
    else if (vramwise_torch::gate_trouble == nullptr)
        vramwise_launch_gate_come_late(options.is_quiet);
}

void install(const std::string &name, unsigned flags, uint64_t spill_bytes,
             const std::string &keep_free)
{
    AdapterOptions options;
    options.engine = name;
    options.spill_bytes = spill_bytes;
    options.keep_free = keep_free;
    options.is_quiet = (flags & VRAMWISE_TORCH_QUIET) != 0;
    if (vramwise_torch::moves_live_data(name)) {
        options.safe_point = vramwise_torch::safe_moments();
        options.prepare_safe_point = vramwise_prepare_safe_moment;
        if (vramwise_torch::gate_trouble == nullptr)
            options.park_guard = vramwise_park_guard();
        if ((flags & VRAMWISE_TORCH_WITHOUT_GATE) == 0)
            see_to_gate(options);
    }
    // Never ended: tensors are freed until the very end of the process.
    auto *adapter = new Adapter(std::move(options));
    std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> handle(adapter, [](auto *) {});
    torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(handle);
    vramwise_torch::set_installed_adapter(adapter);
    c10::SetAllocator(c10::DeviceType::CUDA, adapter, UINT8_MAX);
    has_settings_hook = follow_settings<vramwise_torch::SharedConfig>(adapter, 0);
}

// ---- what it did, as JSON ----------------------------------------------------------------------

void add(std::string &json, const char *key, uint64_t value)
{
    json += std::string("\"") + key + "\": " + std::to_string(value) + ", ";
}

void add(std::string &json, const char *key, bool value)
{
    json += std::string("\"") + key + "\": " + (value ? "true" : "false") + ", ";
}

// One line of plain words, or of a loader's.
void add(std::string &json, const char *key, const char *value)
{
    json += std::string("\"") + key + "\": \"";
    for (const char *at = value; *at != '\0'; at++)
        json += *at == '"' || *at == '\\' || *at < ' ' ? '\'' : *at;
    json += "\", ";
}

void end_object(std::string &json)
{
    json.resize(json.size() - 2); // the last comma
    json += "}";
}

void add_spill(std::string &json, const vw_paged_stats &stats, uint64_t limit_bytes)
{
    json += "\"spill\": {";
    add(json, "limit_bytes", limit_bytes);
    add(json, "spilled_bytes", stats.spilled_bytes);
    add(json, "peak_spilled_bytes", stats.peak_spilled_bytes);
    add(json, "spills", stats.spills);
    add(json, "all_spilled_bytes", stats.all_spilled_bytes);
    add(json, "returns", stats.returns);
    add(json, "returned_bytes", stats.returned_bytes);
    add(json, "spill_wait_ns", stats.spill_wait_ns);
    add(json, "host_handle_bytes", stats.host_handle_bytes);
    add(json, "refused_spills", stats.refused_spills);
    add(json, "failed_host_creations", stats.failed_host_creations);
    end_object(json);
    json += ", ";
}

void add_park(std::string &json, const vw_paged_stats &stats)
{
    json += "\"park\": {";
    add(json, "parked_bytes", stats.parked_bytes);
    add(json, "parks", stats.parks);
    add(json, "wakes", stats.wakes);
    add(json, "host_bytes", stats.park_host_bytes);
    end_object(json);
    json += ", ";
}

void add_stream(std::string &json, const vramwise_torch::StreamCounts &counts)
{
    json += "\"stream\": {";
    add(json, "away_bytes", counts.away_bytes);
    add(json, "all_left_bytes", counts.all_left_bytes);
    add(json, "all_returned_bytes", counts.all_returned_bytes);
    add(json, "returned_ahead_bytes", counts.returned_ahead_bytes);
    add(json, "stayed_bytes", counts.stayed_bytes);
    add(json, "asked", counts.asked);
    add(json, "wait_ns", counts.wait_ns);
    add(json, "saved_away_bytes", counts.saved.away_bytes);
    add(json, "saved_all_left_bytes", counts.saved.all_left_bytes);
    add(json, "saved_all_returned_bytes", counts.saved.all_returned_bytes);
    add(json, "saved_returned_ahead_bytes", counts.saved.returned_ahead_bytes);
    end_object(json);
    json += ", ";
}

std::string stats_of(Adapter &adapter, int device)
{
    std::string json = "{\"engine\": \"" + adapter.engine() + "\", ";
    vw_paged_stats stats{};
    stats.struct_size = sizeof stats;
    if (adapter.get_paged_stats(device, &stats)) {
        add(json, "is_fallback", stats.is_fallback);
        add(json, "is_failed", stats.is_failed);
        add(json, "handle_count", stats.handle_count);
        add(json, "misses", stats.misses);
        add(json, "moved_handles", stats.moved_handles);
        add(json, "moved_bytes", stats.moved_bytes);
        add(json, "crossed_handles", stats.crossed_handles);
        add(json, "retiring_bytes", stats.retiring_bytes);
        add(json, "copied_bytes", stats.copied_bytes);
        add(json, "copies", stats.copies);
        add(json, "refused_copies", stats.refused_copies);
        add(json, "shared_pages", stats.shared_pages);
        add(json, "given_back_bytes", stats.given_back_bytes);
        add(json, "kept_trims", stats.kept_trims);
        add_spill(json, stats, adapter.spill_bytes());
        add_park(json, stats);
        if (adapter.stream() != nullptr && adapter.stream()->is_on())
            add_stream(json, adapter.stream()->counts(*adapter.opened_pools(device)));
    }
    vramwise_safe_moment_counts counts = vramwise_get_safe_moment_counts();
    char reason[300] = "";
    vramwise_launch_gate_state gate = vramwise_get_launch_gate_state(reason, sizeof reason);
    json += "\"safe_moments\": {";
    add(json, "has_gate", counts.has_gate);
    add(json, "gate", vramwise_launch_gate_state_name(gate));
    add(json, "gate_refusal", reason);
    add(json, "granted_by_program", counts.granted_by_program);
    add(json, "granted_by_gate", counts.granted_by_gate);
    add(json, "refused", counts.refused);
    add(json, "held_launches", counts.held_launches);
    add(json, "longest_hold_ns", counts.longest_hold_ns);
    add(json, "passed_launches", counts.passed_launches);
    end_object(json);
    return json + "}";
}

} // namespace

const char *vramwise_torch::torch_version()
{
    return TORCH_VERSION;
}

const char *vramwise_torch_compiled_for(void)
{
    return TORCH_VERSION;
}

int vramwise_torch_install(const char *allocator, unsigned flags, unsigned long long spill_bytes,
                           const char *keep_free, char *message, size_t capacity)
{
    return told(message, capacity, [&]() -> std::string {
        const std::string name = allocator != nullptr ? allocator : "";
        const std::string left_free = keep_free != nullptr ? keep_free : "";
        std::string text = objection(name, spill_bytes, left_free);
        if (text.empty())
            install(name, flags, spill_bytes, left_free);
        return text;
    });
}

unsigned long long vramwise_torch_advise(const unsigned long long *addresses, size_t count,
                                         int advice)
{
    Adapter *adapter = vramwise_torch::installed_adapter();
    uint64_t sum_bytes = 0;
    if (adapter == nullptr || advice < VW_ADVISE_NORMAL || advice > VW_ADVISE_HOT)
        return 0;
    for (size_t i = 0; i < count; i++)
        sum_bytes += adapter->advise(vramwise_torch::pointer_to(addresses[i]),
                                     static_cast<vw_advice>(advice));
    return sum_bytes;
}

int vramwise_torch_configure(const char *conf, char *message, size_t capacity)
{
    return told(message, capacity, [&]() -> std::string {
        if (Adapter *adapter = vramwise_torch::installed_adapter())
            adapter->configure(conf != nullptr ? conf : "");
        return "";
    });
}

int vramwise_torch_has_settings_hook(void)
{
    return has_settings_hook ? 1 : 0;
}

int vramwise_torch_mark_step(char *message, size_t capacity)
{
    return told(message, capacity, []() -> std::string {
        if (Adapter *adapter = vramwise_torch::installed_adapter())
            adapter->mark_step();
        return "";
    });
}

// ---- parking -----------------------------------------------------------------------------------

namespace
{

// (0, 0): everything.
template <class Work>
int park_with(const unsigned long long region[2], unsigned long long numbers[5], char *message,
              size_t capacity, Work work)
{
    Adapter *adapter = vramwise_torch::installed_adapter();
    vw_park_report report{};
    report.struct_size = sizeof report;
    const vramwise_torch::MempoolId_t id{region[0], region[1]};
    const bool is_all = region[0] == 0 && region[1] == 0;
    try {
        if (adapter == nullptr) {
            vw_set_last_error("no allocator of vramwise is installed");
            say(message, capacity, vw_last_error());
            return VW_ERR_UNSUPPORTED;
        }
        vw_status status = work(*adapter, is_all ? nullptr : &id, &report);
        const unsigned long long all[5] = {report.moved_bytes, report.copied_bytes,
                                           report.dropped_bytes, report.stayed_bytes,
                                           report.wait_ns};
        std::copy(all, all + 5, numbers);
        say(message, capacity, status != VW_OK ? vw_last_error() : "");
        return status;
    } catch (const std::exception &error) {
        say(message, capacity, error.what());
    } catch (...) {
        say(message, capacity, "an exception of a kind nobody knows");
    }
    return VW_ERR_HOST_MEMORY;
}

} // namespace

int vramwise_torch_park(const unsigned long long region[2], const char *folder,
                        unsigned long long wait_ms, unsigned long long numbers[5], char *message,
                        size_t capacity)
{
    return park_with(
        region, numbers, message, capacity,
        [&](Adapter &adapter, const vramwise_torch::MempoolId_t *only, vw_park_report *report) {
            return adapter.park(only, folder, wait_ms, report);
        });
}

int vramwise_torch_wake(const unsigned long long region[2], unsigned long long numbers[5],
                        char *message, size_t capacity)
{
    return park_with(region, numbers, message, capacity,
                     [](Adapter &adapter, const vramwise_torch::MempoolId_t *only,
                        vw_park_report *report) { return adapter.wake(only, report); });
}

int vramwise_torch_park_ahead(unsigned long long size_bytes, char *message, size_t capacity)
{
    const unsigned long long all[2] = {0, 0};
    unsigned long long unread[5];
    return park_with(all, unread, message, capacity,
                     [&](Adapter &adapter, const vramwise_torch::MempoolId_t *, vw_park_report *) {
                         return adapter.park_ahead(size_bytes);
                     });
}

int vramwise_torch_region(const unsigned long long region[2], const char *name, int keeps_data,
                          char *message, size_t capacity)
{
    unsigned long long unread[5];
    return park_with(
        region, unread, message, capacity,
        [&](Adapter &adapter, const vramwise_torch::MempoolId_t *only, vw_park_report *) {
            return adapter.set_region(*only, name, keeps_data != 0);
        });
}

void vramwise_torch_expect_profilers(int is_expected)
{
    vramwise_torch::expect_profilers(is_expected != 0);
}

long vramwise_torch_stats(int device, char *json, size_t capacity)
{
    Adapter *adapter = vramwise_torch::installed_adapter();
    if (adapter == nullptr || !adapter->is_open(device))
        return 0;
    try {
        const std::string text = stats_of(*adapter, device);
        if (json != nullptr && capacity > 0)
            std::snprintf(json, capacity, "%s", text.c_str());
        return static_cast<long>(text.size() + 1);
    } catch (...) {
        return 0;
    }
}
