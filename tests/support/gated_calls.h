/* gated_calls.h - a test's own driver calls, through the fake CUPTI (VRAMWISE_CUPTI). */
#ifndef VW_TESTS_GATED_CALLS_H
#define VW_TESTS_GATED_CALLS_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/fake_cupti/fake_cupti.h"

/* The function of that name; of the library that is loaded, or loads it. */
static inline void vw_test_find_in_cupti(const char *name, void *function, size_t function_bytes)
{
    void *library = dlopen(getenv("VRAMWISE_CUPTI"), RTLD_NOW | RTLD_LOCAL);
    void *address = library != NULL ? dlsym(library, name) : NULL;
    assert_non_null(address);
    memcpy(function, &address, function_bytes);
}

static inline bool vw_test_driver_call(const char *name, void (*body)(void *), void *context,
                                       int result)
{
    static _Thread_local fake_cupti_call_function call;
    if (call == NULL)
        vw_test_find_in_cupti(FAKE_CUPTI_CALL, &call, sizeof call);
    return call(name, body, context, result);
}

/* A launch that does `body`. */
static inline void vw_test_launch(void (*body)(void *), void *context)
{
    (void)vw_test_driver_call("cuLaunchKernel", body, context, 0);
}

#endif /* VW_TESTS_GATED_CALLS_H */
