// fake_adapter.cpp - what Python calls in the adapter, without an allocator: enough to see that it
// was compiled with the right folders and flags, linked with our libraries, and asked the right
// things.
#ifdef USE_ROCM
#include <c10/hip/HIPCachingAllocator.h> // from the stand-in for PyTorch's headers
#include <hip/hip_runtime_api.h>
#define HAS_RUNTIME                                                                                \
    (HIP_VERSION_MAJOR == 7 && ROCM_VERSION == 70200 && TORCH_HIP_VERSION == 702 &&                \
     __HIP_PLATFORM_AMD__)
#else
#include <c10/cuda/CUDACachingAllocator.h>
#include <crt/host_config.h>
#include <crt/host_defines.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#define HAS_RUNTIME (CUDART_VERSION >= 13000)
#endif

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include <vramwise_torch.h> // copied beside this file

#include "vramwise/version.h"

#if !defined(FAKE_TORCH_HEADERS) || !HAS_RUNTIME || _GLIBCXX_USE_CXX11_ABI != 1
#error compiled with other headers or flags than it should be
#endif

extern "C" const char *vramwise_torch_compiled_for(void)
{
    const char *told = std::getenv("FAKE_ADAPTER_COMPILED_FOR");
    return told != nullptr ? told : "2.11.0";
}

extern "C" int vramwise_torch_has_settings_hook(void)
{
    return std::getenv("FAKE_ADAPTER_WITHOUT_HOOK") == nullptr;
}

static char installed[64];
static unsigned long long spilled;
static char left_free[64];
static char advised[512];
static int steps;
static int expected = 1;
static char configured[128];

extern "C" int vramwise_torch_configure(const char *conf, char *message, size_t capacity)
{
    if (std::strcmp(conf, "wrong") == 0) {
        std::snprintf(message, capacity, "no such option");
        return 1;
    }
    std::snprintf(configured, sizeof configured, "%s", conf);
    return 0;
}

extern "C" int vramwise_torch_install(const char *allocator, unsigned flags,
                                      unsigned long long spill_bytes, const char *keep_free,
                                      char *message, size_t capacity)
{
    if (std::getenv("FAKE_ADAPTER_REFUSES") != nullptr) {
        std::snprintf(message, capacity, "no such luck");
        return 1;
    }
    spilled = spill_bytes;
    std::snprintf(left_free, sizeof left_free, "%s", keep_free != nullptr ? keep_free : "");
    std::snprintf(installed, sizeof installed, "%s %u %d", allocator, flags, vw_version_number());
    return 0;
}

// Each with its advice, in the order in which they came.
extern "C" unsigned long long vramwise_torch_advise(const unsigned long long *addresses,
                                                    size_t count, int advice)
{
    size_t used = std::strlen(advised);
    for (size_t i = 0; i < count && used < sizeof advised - 24; i++)
        used += (size_t)std::snprintf(advised + used, sizeof advised - used, "%llu:%d ",
                                      addresses[i], advice);
    return 1000 * count;
}

extern "C" int vramwise_torch_mark_step(char *message, size_t capacity)
{
    steps++;
    if (std::getenv("FAKE_ADAPTER_REFUSES_STEPS") == nullptr)
        return 0;
    std::snprintf(message, capacity, "nothing comes back");
    return 1;
}

// Streamed state: what was asked, in the order in which it came. A tensor is two numbers of the
// test's.
struct FakeTensor {
    unsigned number, storage_uses;
};
static char streamed[4096];
static unsigned alone_references, alone_uses;
static int (*room_maker)(int, unsigned long long, int);
static std::mutex need_lock;
static std::condition_variable need_changed;
static int need; // 0: none, 1: posted, 2: taken, 3: answered
static int need_answer, is_need_ahead;
static bool is_streaming;
static bool is_pumping;
static std::set<unsigned> copied; // numbers of tensors whose copy was waited for

static void note_stream(const char *what, long long number)
{
    size_t used = std::strlen(streamed);
    if (used < sizeof streamed - 64)
        std::snprintf(streamed + used, sizeof streamed - used, "%s %lld; ", what, number);
}

static bool is_alone(unsigned long long tensor, unsigned long long object)
{
    return *reinterpret_cast<unsigned *>(object) == alone_references &&
           reinterpret_cast<FakeTensor *>(tensor)->storage_uses == alone_uses;
}

extern "C" int vramwise_torch_stream_start(unsigned long long tensor, unsigned long long object,
                                           int (*make_room)(int, unsigned long long, int),
                                           int (*has_lock)(void))
{
    alone_references = *reinterpret_cast<unsigned *>(object);
    alone_uses = reinterpret_cast<FakeTensor *>(tensor)->storage_uses;
    room_maker = make_room;
    is_streaming = true;
    note_stream("start", has_lock());
    return 1;
}

extern "C" void vramwise_torch_stream_stop(void)
{
    std::lock_guard<std::mutex> hold(need_lock);
    is_streaming = false;
    need_changed.notify_all();
}

extern "C" unsigned long long vramwise_torch_stream_add(unsigned long long tensor,
                                                        unsigned long long)
{
    note_stream("add", reinterpret_cast<FakeTensor *>(tensor)->number);
    return 1000;
}

extern "C" unsigned long long vramwise_torch_stream_plan(int device, int is_step_end)
{
    note_stream(is_step_end ? "end" : "plan", device);
    const char *wanted = std::getenv("FAKE_ADAPTER_STREAMS");
    return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 0;
}

extern "C" unsigned long long vramwise_torch_stream_move(unsigned long long tensor,
                                                         unsigned long long object, int what)
{
    static const char *const names[] = {"step", "copy", "at_once", "fetch", "out", "in"};
    const bool is_held = !is_alone(tensor, object);
    if (what == VRAMWISE_TORCH_IS_ALONE)
        return !is_held;
    const unsigned number = reinterpret_cast<FakeTensor *>(tensor)->number;
    if (what == VRAMWISE_TORCH_COPY_OUT || what == VRAMWISE_TORCH_COPY_AT_ONCE)
        copied.erase(number);
    if (what == VRAMWISE_TORCH_BIND_OUT && std::getenv("FAKE_ADAPTER_COPIES_SLOWLY") != nullptr &&
        copied.count(number) == 0) {
        note_stream("early", number);
        return 0;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%s%s",
                  is_held && what >= VRAMWISE_TORCH_BIND_OUT ? "not " : "", names[what]);
    note_stream(text, number);
    return is_held && what >= VRAMWISE_TORCH_BIND_OUT ? 0 : 1000;
}

extern "C" void vramwise_torch_stream_move_all(const unsigned long long *tensors, size_t count,
                                               int what, unsigned long long most_bytes,
                                               unsigned long long *answers)
{
    unsigned no_object = 0;
    unsigned long long all_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const bool is_wanted = tensors[i] != 0 && all_bytes < most_bytes;
        answers[i] = is_wanted ? vramwise_torch_stream_move(
                                     tensors[i], reinterpret_cast<uintptr_t>(&no_object), what)
                               : 0;
        all_bytes += answers[i];
    }
}

// Nothing of what is away is lent a block: that is tests/python/test_parts.py.
extern "C" unsigned long long vramwise_torch_stream_away(int)
{
    return 0;
}

extern "C" void vramwise_torch_stream_stage(const unsigned long long *, size_t count,
                                            unsigned long long, unsigned long long *answers)
{
    std::fill(answers, answers + count, 0);
}

extern "C" int vramwise_torch_stream_use_staged(unsigned long long, unsigned long long)
{
    return 0;
}

extern "C" int vramwise_torch_stream_unstage(unsigned long long, unsigned long long)
{
    return 0;
}

extern "C" void vramwise_torch_stream_wait(unsigned long long tensor, unsigned long long,
                                           int is_ahead)
{
    if (is_ahead) { // the GPU has nothing to do
        note_stream("look", reinterpret_cast<FakeTensor *>(tensor)->number);
        return;
    }
    copied.insert(reinterpret_cast<FakeTensor *>(tensor)->number);
    note_stream("wait", reinterpret_cast<FakeTensor *>(tensor)->number);
}

extern "C" unsigned long long vramwise_torch_stream_release(int device, int is_ahead)
{
    note_stream(is_ahead ? "later" : "release", device);
    return 1000;
}

extern "C" int vramwise_torch_stream_next_need(int *device, unsigned long long *size_bytes,
                                               int *is_ahead)
{
    std::unique_lock<std::mutex> hold(need_lock);
    need_changed.wait(hold, [] { return need == 1 || !is_streaming; });
    need = 2;
    *device = 0;
    *size_bytes = 1500;
    *is_ahead = is_need_ahead;
    return is_streaming;
}

extern "C" void vramwise_torch_stream_answer(int is_worth_while)
{
    std::lock_guard<std::mutex> hold(need_lock);
    need = 3;
    need_answer = is_worth_while;
    need_changed.notify_all();
}

extern "C" void vramwise_torch_stream_pump(void)
{
    std::unique_lock<std::mutex> hold(need_lock);
    is_pumping = true;
    need_changed.notify_all();
    need_changed.wait(hold, [] { return !is_streaming; });
    is_pumping = false;
    need_changed.notify_all();
}

// Waits until a thread is in stream_pump(), or none is any more. 0: that did not come.
extern "C" int fake_stream_wait_for_pump(int is_wanted)
{
    std::unique_lock<std::mutex> hold(need_lock);
    return need_changed.wait_for(hold, std::chrono::minutes(2),
                                 [&] { return is_pumping == (is_wanted != 0); });
}

// A request that finds no room, of a thread with Python's lock or without it; or one at which state
// is to leave ahead of that.
extern "C" int fake_stream_request(int has_lock, int is_ahead)
{
    if (has_lock)
        return room_maker(0, 1500, is_ahead);
    std::unique_lock<std::mutex> hold(need_lock);
    is_need_ahead = is_ahead;
    need = 1;
    need_changed.notify_all();
    need_changed.wait(hold, [] { return need == 3 || !is_streaming; });
    return need_answer;
}

// Saved tensors, among the others. What is answered, the test says.
static long long told_number(const char *name, long long otherwise)
{
    const char *told = std::getenv(name);
    return told != nullptr ? std::strtoll(told, nullptr, 10) : otherwise;
}

static void note_saved(const char *what, int device, unsigned long long number)
{
    char text[64];
    std::snprintf(text, sizeof text, "%s %d", what, device);
    note_stream(text, static_cast<long long>(number));
}

extern "C" long long vramwise_torch_saved_keep(unsigned long long tensor)
{
    note_stream("keep", reinterpret_cast<FakeTensor *>(tensor)->number);
    return told_number("FAKE_ADAPTER_KEEPS", 0);
}

extern "C" void vramwise_torch_saved_note(int device, unsigned long long item)
{
    note_saved("used", device, item);
}

extern "C" long long vramwise_torch_saved_fetch(int device, unsigned long long id,
                                                unsigned long long shell)
{
    note_saved("fetched", device, id);
    const long long found = told_number("FAKE_ADAPTER_FETCHES", 0);
    if (found == 0) // its storage is that of the tensor that left
        reinterpret_cast<FakeTensor *>(shell)->number = static_cast<unsigned>(100 + id);
    return found;
}

extern "C" int vramwise_torch_saved_fill(int device, unsigned long long id,
                                         unsigned long long tensor)
{
    note_saved("filled", device, id);
    reinterpret_cast<FakeTensor *>(tensor)->number = static_cast<unsigned>(200 + id);
    return static_cast<int>(told_number("FAKE_ADAPTER_FILLS", 1));
}

extern "C" void vramwise_torch_saved_release(int device, unsigned long long id)
{
    note_saved("released", device, id);
}

extern "C" unsigned long long vramwise_torch_saved_lacking(int device)
{
    note_stream("lacking", device);
    return static_cast<unsigned long long>(told_number("FAKE_ADAPTER_LACKS", 0));
}

// What was asked, in the order in which it came; the first tries find no moment.
static char parked[512];
static int refusals = 2;

static void note(const char *what, const unsigned long long region[2], const char *detail)
{
    size_t used = std::strlen(parked);
    std::snprintf(parked + used, sizeof parked - used, "%s %llu.%llu %s; ", what, region[0],
                  region[1], detail != nullptr ? detail : "-");
}

extern "C" int vramwise_torch_park(const unsigned long long region[2], const char *folder,
                                   unsigned long long wait_ms, unsigned long long numbers[5],
                                   char *message, size_t capacity)
{
    if (refusals > 0) {
        refusals--;
        std::snprintf(message, capacity, "no safe moment");
        return 6;
    }
    char detail[64];
    std::snprintf(detail, sizeof detail, "%s %llu", folder != nullptr ? folder : "-", wait_ms);
    note("park", region, detail);
    for (unsigned long long i = 0; i < 5; i++)
        numbers[i] = (i + 1) * 1000000000;
    return 0;
}

extern "C" int vramwise_torch_wake(const unsigned long long region[2],
                                   unsigned long long numbers[5], char *message, size_t capacity)
{
    note("wake", region, nullptr);
    numbers[0] = 5;
    if (std::getenv("FAKE_ADAPTER_IS_FULL") == nullptr)
        return 0;
    std::snprintf(message, capacity, "to wake takes 20.00 GiB");
    return 10;
}

extern "C" int vramwise_torch_park_ahead(unsigned long long size_bytes, char *message,
                                         size_t capacity)
{
    const unsigned long long size[2] = {size_bytes, 0};
    note("ahead", size, nullptr);
    if (size_bytes < 1000000)
        return 0;
    std::snprintf(message, capacity, "more than the machine has");
    return 12;
}

extern "C" int vramwise_torch_region(const unsigned long long region[2], const char *name,
                                     int keeps_data, char *, size_t)
{
    note(keeps_data ? "keep" : "drop", region, name);
    return 0;
}

extern "C" void vramwise_torch_expect_profilers(int is_expected)
{
    expected = is_expected;
}

extern "C" long vramwise_torch_stats(int device, char *json, size_t capacity)
{
    char text[8192];
    if (device != 0)
        return 0;
    std::snprintf(text, sizeof text,
                  "{\"installed\": \"%s\", \"expects_profilers\": %d, \"spill\": %llu, "
                  "\"keep_free\": \"%s\", "
                  "\"advised\": \"%s\", \"steps\": %d, \"configured\": \"%s\", "
                  "\"parked\": \"%s\", \"streamed\": \"%s\"}",
                  installed, expected, spilled, left_free, advised, steps, configured, parked,
                  streamed);
    if (json != nullptr && capacity > std::strlen(text))
        std::strcpy(json, text);
    return (long)std::strlen(text) + 1;
}
