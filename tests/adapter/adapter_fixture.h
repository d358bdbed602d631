// adapter_fixture.h - an adapter on devices of a test's own, and what tests say often.
#pragma once

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapters/torch/adapter.h"
#include <stand_in_state.h> // of CUDA or of ROCm: what the include path says

extern "C" {
#include <cmocka.h> // last: it makes macros of words that others use
}
#undef fail

using c10::MempoolId_t;
using c10::cuda::CUDAStream;
using vramwise_torch::Adapter;
using vramwise_torch::Context;
using vramwise_torch::CreateContextFn;
using vramwise_torch::RecordContext;
using vramwise_torch::TraceEntry;

constexpr size_t KiB = 1024;
constexpr size_t MiB = 1024 * KiB;
constexpr size_t GiB = 1024 * MiB;

enum class Kind { simulated, host, gpu }; // gpu: of the fake driver

struct Setup {
    std::string engine = "torch";
    std::string conf;
    int device_count = 1;
    size_t capacity_bytes = 8 * GiB;
    Kind kind = Kind::simulated;
    vw_safe_point safe_point{};
    vw_park_guard park_guard{};
    uint64_t spill_bytes = 0;
    bool is_quiet = true;
    std::string keep_free{};
};

// As install() makes one, on such devices. It is kept to the end, as in a program; the stand-ins
// begin anew.
Adapter &new_adapter(const Setup &setup = {});

// For a test that calls init() itself: so many of them can be opened.
void expect_devices(int device_count);

// The device behind an index of the newest adapter; null while it is not open.
vw_device *opened_device(int index);

// The text of the exception that `call` throws; "" for none. Fails the test for another type.
template <class Exception, class Call> std::string text_of(Call call)
{
    try {
        call();
    } catch (const Exception &error) {
        return error.what();
    }
    return "";
}

inline bool contains(const std::string &text, const std::string &part)
{
    return text.find(part) != std::string::npos;
}

// Work on a held stream, which ends when it is told to, or somebody waits for it.
inline vw_device_event work_on(vw_device *device, vw_stream stream)
{
    vw_device_event end = 0;
    assert_int_equal(device->table->event_create(device->context, &end), VW_OK);
    assert_int_equal(device->table->event_record(device->context, end, stream), VW_OK);
    return end;
}

inline bool is_over(vw_device *device, vw_device_event end)
{
    return device->table->event_query(device->context, end) == VW_OK;
}

// A context with a number, and a recorder that gives each call a new one.
struct NumberedContext final : c10::GatheredContext {
    explicit NumberedContext(int to_have);
    ~NumberedContext() override;
    int number;
};
std::shared_ptr<c10::GatheredContext> gather_numbered();
int last_gathered(); // the number of the newest
int living_contexts();
int number_of(const Context &context); // -1 for none

extern int gates_wanted;      // times that the launch gate was to be put up
extern int late_gates_wanted; // times that it was to come when it is needed
extern int moments_prepared;
extern bool is_moment_granted;
extern int moments_left;
