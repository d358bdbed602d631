/* fake_calls.h - being inside the fake driver, for tests that look at threads' stacks. The test
 * finds these functions with dlsym. */
#ifndef VW_TESTS_FAKE_CALLS_H
#define VW_TESTS_FAKE_CALLS_H

/* Calls `body` out of the driver's code. */
#define FAKE_CUDA_WITHIN "fake_cuda_within"
typedef void (*fake_cuda_within_function)(void (*body)(void *), void *context);

/* The same, in a thread of the driver's own, which is never joined. 0: it was started. */
#define FAKE_CUDA_START "fake_cuda_start"
typedef int (*fake_cuda_start_function)(void (*body)(void *), void *context);

#endif /* VW_TESTS_FAKE_CALLS_H */
