/* error.h - how a failure gets its words.
 *
 * hr__fail() stores the detail for hr_last_error() on this thread and returns the status, so a
 * failing line reads `return hr__fail(HR_ERR_..., "what was expected, what was found")`. */
#ifndef HR_BASE_ERROR_H
#define HR_BASE_ERROR_H

#include <stdarg.h>

#include "headroom/status.h" /* hr_status */

/* The longest detail kept, its terminating zero included. PyTorch's out-of-memory text with a
 * dozen processes fits. Longer ones are cut. */
#define HR__ERROR_DETAIL_BYTES 4096

__attribute__((format(printf, 2, 3), cold)) hr_status hr__fail(hr_status status, const char *format,
                                                               ...);

__attribute__((format(printf, 2, 0), cold)) hr_status hr__fail_v(hr_status status,
                                                                 const char *format, va_list args);

/* hr__fail(HR_ERR_HOST_MEMORY) in the one wording used everywhere. */
__attribute__((cold)) hr_status hr__fail_host_memory(unsigned long long size_bytes,
                                                     const char *what_for);

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
