// headroom_torch.cpp - how the allocator gets into PyTorch, and the C functions for Python.
//
// PyTorch 2.11 has the allocator in two places. `c10::cuda::CUDACachingAllocator::allocator` is
// what CUDA code asks, and changeCurrentAllocator() replaces it as long as CUDA was not initialized
// (CUDAHooks::init() then calls init() of whichever is there). c10::GetAllocator(kCUDA) is what
// torch.accelerator asks, set once when the library was loaded; c10::SetAllocator() replaces it.
// Settings arrive through the hook that PyTorch's own CUDA configuration hangs on to.
#include "headroom_torch.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include <c10/core/Allocator.h>
#include <c10/core/AllocatorConfig.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>
#include <torch/headeronly/version.h>

#include "adapter.h"
#include "support/headroom_torch_support.h"

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR != 11
#error "headroom's adapter is for PyTorch 2.11: other versions have other virtual functions"
#endif

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using headroom_torch::Adapter;
using headroom_torch::AdapterOptions;

namespace
{

bool is_name(const std::string &name)
{
    return name == "torch" || name == "headroom" || name == "headroom:rescue" ||
           name == "headroom:tight";
}

void say(char *message, size_t capacity, const std::string &text)
{
    if (message != nullptr && capacity > 0)
        std::snprintf(message, capacity, "%s", text.substr(0, text.find('\n')).c_str());
}

// Why it cannot be, or "".
std::string objection(const std::string &name)
{
    if (!is_name(name))
        return "'" + name +
               "' is no allocator: expected torch, headroom, headroom:rescue or headroom:tight";
    if (headroom_torch::installed_adapter() != nullptr)
        return "headroom is installed already, as '" +
               headroom_torch::installed_adapter()->engine() + "'";
    auto *current = c10::cuda::CUDACachingAllocator::get();
    if (current == nullptr)
        return "this PyTorch has no CUDA allocator to replace";
    if (current->name() == "cudaMallocAsync")
        return "PYTORCH_CUDA_ALLOC_CONF says backend:cudaMallocAsync: PyTorch's own stays";
    if (current->initialized())
        return "too late: PyTorch has started CUDA already; install before the first use of a GPU";
    return "";
}

// PyTorch reads a new option string, then tells its CUDA part, and through it us.
void follow_settings(Adapter *adapter)
{
    auto before = AcceleratorAllocatorConfig::getConfigParserHook();
    AcceleratorAllocatorConfig::getConfigParserHook() = [before, adapter](const std::string &conf) {
        if (before)
            before(conf);
        adapter->configure(conf);
    };
}

// Without it safe points still work.
void put_up_gate()
{
    char note[512] = "";
    if (!headroom_launch_gate_install(note, sizeof note))
        std::fprintf(stderr, "headroom: live data moves at safe points only: %s\n", note);
}

void install(const std::string &name, unsigned flags)
{
    AdapterOptions options;
    options.engine = name;
    if (name == "headroom:rescue" || name == "headroom:tight") {
        if ((flags & HEADROOM_TORCH_WITHOUT_GATE) == 0)
            options.before_first_device = put_up_gate;
        options.safe_point = headroom_safe_moments();
    }
    // Never ended: tensors are freed until the very end of the process.
    auto *adapter = new Adapter(std::move(options));
    std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> handle(adapter, [](auto *) {});
    torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(handle);
    headroom_torch::set_installed_adapter(adapter);
    c10::SetAllocator(c10::DeviceType::CUDA, adapter, UINT8_MAX);
    follow_settings(adapter);
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

void end_object(std::string &json)
{
    json.resize(json.size() - 2); // the last comma
    json += "}";
}

std::string stats_of(Adapter &adapter, int device)
{
    std::string json = "{\"engine\": \"" + adapter.engine() + "\", ";
    hr_paged_stats stats{};
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
    }
    headroom_safe_moment_counts counts = headroom_get_safe_moment_counts();
    json += "\"safe_moments\": {";
    add(json, "has_gate", counts.has_gate);
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

const char *headroom_torch_compiled_for(void)
{
    return TORCH_VERSION;
}

int headroom_torch_install(const char *allocator, unsigned flags, char *message, size_t capacity)
{
    say(message, capacity, "");
    try {
        const std::string name = allocator != nullptr ? allocator : "";
        const std::string text = objection(name);
        if (text.empty()) {
            install(name, flags);
            return 0;
        }
        say(message, capacity, text);
    } catch (const std::exception &error) {
        say(message, capacity, error.what());
    } catch (...) {
        say(message, capacity, "an exception of a kind nobody knows");
    }
    return 1;
}

void headroom_torch_expect_profilers(int is_expected)
{
    headroom_torch::expect_profilers(is_expected != 0);
}

long headroom_torch_stats(int device, char *json, size_t capacity)
{
    Adapter *adapter = headroom_torch::installed_adapter();
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
