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

#include <cstdio>
#include <cstdlib>
#include <cstring>

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
    char text[2048];
    if (device != 0)
        return 0;
    std::snprintf(text, sizeof text,
                  "{\"installed\": \"%s\", \"expects_profilers\": %d, \"spill\": %llu, "
                  "\"keep_free\": \"%s\", "
                  "\"advised\": \"%s\", \"steps\": %d, \"configured\": \"%s\", "
                  "\"parked\": \"%s\"}",
                  installed, expected, spilled, left_free, advised, steps, configured, parked);
    if (json != nullptr && capacity > std::strlen(text))
        std::strcpy(json, text);
    return (long)std::strlen(text) + 1;
}
