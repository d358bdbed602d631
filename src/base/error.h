/* error.h - error messages.
 *
 * vw__fail() stores the message for vw_last_error() on this thread and returns the status, so that
 * a failing line reads `return vw__fail(VW_ERR_..., "what was expected, what was found")`. The
 * message may quote the previous one: `vw__fail(status, "segment 3: %s", vw_last_error())`. */
#ifndef VW_BASE_ERROR_H
#define VW_BASE_ERROR_H

#include "vramwise/status.h" /* vw_status */

/* The length to which messages are cut, terminating zero included. PyTorch's out-of-memory text
 * with a dozen processes fits. */
#define VW__ERROR_DETAIL_BYTES 4096

/* A macro, so that compilers and analysers see the status: they then know that outputs which a
 * failing function did not fill are not used. */
#define vw__fail(status, ...) (vw__error_describe(__VA_ARGS__), (vw_status)(status))

__attribute__((format(printf, 1, 2), cold)) void vw__error_describe(const char *format, ...);

/* vw__fail(VW_ERR_HOST_MEMORY) with the usual message. */
#define vw__fail_host_memory(size_bytes, what_for)                                                 \
    vw__fail(VW_ERR_HOST_MEMORY, "out of host memory: %llu bytes for %s",                          \
             (unsigned long long)(size_bytes), (what_for))

/* Returns from the calling function if `expression` fails. */
#define VW__TRY(expression)                                                                        \
    do {                                                                                           \
        vw_status vw__try_status = (expression);                                                   \
        if (vw__try_status != VW_OK)                                                               \
            return vw__try_status;                                                                 \
    } while (0)

/* For internal errors: stops a debug build, costs nothing in a release build. */
#ifdef VW_CHECKS
__attribute__((noreturn, cold)) void vw__assert_failed(const char *claim, const char *file,
                                                       int line);
#define VW_ASSERT(claim) ((claim) ? (void)0 : vw__assert_failed(#claim, __FILE__, __LINE__))
#else
#define VW_ASSERT(claim) ((void)0)
#endif

#endif /* VW_BASE_ERROR_H */
