// fake_adapter.cpp - what Python calls in the adapter, without an allocator: enough to see that it
// was compiled with the right folders and flags, linked with our libraries, and asked the right
// things.
#include <c10/cuda/CUDACachingAllocator.h> // from the stand-in for PyTorch's headers
#include <crt/host_config.h>
#include <crt/host_defines.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <headroom_torch.h> // copied beside this file

#include "headroom/version.h"

#if !defined(FAKE_TORCH_HEADERS) || CUDART_VERSION < 13000 || _GLIBCXX_USE_CXX11_ABI != 1
#error compiled with other headers or flags than it should be
#endif

extern "C" const char *headroom_torch_compiled_for(void)
{
    return "2.11.0";
}

static char installed[64];
static int expected = 1;

extern "C" int headroom_torch_install(const char *allocator, unsigned flags, char *message,
                                      size_t capacity)
{
    if (std::getenv("FAKE_ADAPTER_REFUSES") != nullptr) {
        std::snprintf(message, capacity, "no such luck");
        return 1;
    }
    std::snprintf(installed, sizeof installed, "%s %u %d", allocator, flags, hr_version_number());
    return 0;
}

extern "C" void headroom_torch_expect_profilers(int is_expected)
{
    expected = is_expected;
}

extern "C" long headroom_torch_stats(int device, char *json, size_t capacity)
{
    char text[128];
    if (device != 0)
        return 0;
    std::snprintf(text, sizeof text, "{\"installed\": \"%s\", \"expects_profilers\": %d}",
                  installed, expected);
    if (json != nullptr && capacity > std::strlen(text))
        std::strcpy(json, text);
    return (long)std::strlen(text) + 1;
}
