/* error.h - how a failure gets its words.
 *
 * hr__fail() stores the detail for hr_last_error() on this thread and returns the status, so a
 * failing line reads `return hr__fail(HR_ERR_..., "what was expected, what was found")`. The words
 * may quote hr_last_error(): `hr__fail(status, "segment 3: %s", hr_last_error())`. */
#ifndef HR_BASE_ERROR_H
#define HR_BASE_ERROR_H

#include "headroom/status.h" /* hr_status */

/* The longest detail kept, its terminating zero included. PyTorch's out-of-memory text with a
 * dozen processes fits. Longer ones are cut. */
#define HR__ERROR_DETAIL_BYTES 4096

/* The result is the status itself, in sight of compilers and analysers: they then know that what a
 * failing function did not fill is not used. */
#define hr__fail(status, ...) (hr__describe_failure(__VA_ARGS__), (hr_status)(status))

__attribute__((format(printf, 1, 2), cold)) void hr__describe_failure(const char *format, ...);

/* hr__fail(HR_ERR_HOST_MEMORY) in the one wording used everywhere. */
#define hr__fail_host_memory(size_bytes, what_for)                                                 \
    hr__fail(HR_ERR_HOST_MEMORY, "out of host memory: %llu bytes for %s",                          \
             (unsigned long long)(size_bytes), (what_for))

/* Passes a failure on. */
#define HR__TRY(expression)                                                                        \
    do {                                                                                           \
        hr_status hr__try_status = (expression);                                                   \
        if (hr__try_status != HR_OK)                                                               \
            return hr__try_status;                                                                 \
    } while (0)

/* A mistake of our own: stops a debug build, costs nothing in a release build. */
#ifdef HR_CHECKS
__attribute__((noreturn, cold)) void hr__assert_failed(const char *claim, const char *file,
                                                       int line);
#define HR_ASSERT(claim) ((claim) ? (void)0 : hr__assert_failed(#claim, __FILE__, __LINE__))
#else
#define HR_ASSERT(claim) ((void)0)
#endif

#endif /* HR_BASE_ERROR_H */
