/* fake_cupti.h - a CUPTI without a driver: a test says which driver function is called, and what it
 * does, and the subscriber hears of it as from the real one. Loaded by VRAMWISE_CUPTI; the test
 * finds these functions with dlsym. */
#ifndef VW_TESTS_FAKE_CUPTI_H
#define VW_TESTS_FAKE_CUPTI_H

#include <stdbool.h>

/* Calls the driver function of that name on this thread: the subscriber's callback, if it has
 * enabled it, `body` (may be NULL), and the callback again with `result`. False: no such function.
 */
#define FAKE_CUPTI_CALL "fake_cupti_call"
typedef bool (*fake_cupti_call_function)(const char *name, void (*body)(void *), void *context,
                                         int result);

/* Another tool has CUPTI, from now on or no longer. */
#define FAKE_CUPTI_SET_TAKEN "fake_cupti_set_taken"
typedef void (*fake_cupti_set_taken_function)(bool is_taken);

/* How many callbacks are enabled. */
#define FAKE_CUPTI_COUNT_ENABLED "fake_cupti_count_enabled"
typedef int (*fake_cupti_count_enabled_function)(void);

/* The context that calls are made in from now on. */
#define FAKE_CUPTI_SET_CONTEXT "fake_cupti_set_context"
typedef void (*fake_cupti_set_context_function)(void *context);

#endif /* VW_TESTS_FAKE_CUPTI_H */
