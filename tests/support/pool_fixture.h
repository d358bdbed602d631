/* pool_fixture.h - a pool on a stand-in device, a listener that remembers, and calls that check.
 *
 * Every helper fails the test that calls it, at the caller's line, with hr_last_error(); after each
 * of them the whole pool has been walked and checked (hr_pool_check). Events pile up in `events`
 * until they are compared or forgotten, so a test says exactly what one call may cause. */
#ifndef HR_TESTS_POOL_FIXTURE_H
#define HR_TESTS_POOL_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/headroom.h"
#include "support/device_spy.h"

#define HR_TEST_KIB (UINT64_C(1) << 10)
#define HR_TEST_MIB (UINT64_C(1) << 20)
#define HR_TEST_GIB (UINT64_C(1) << 30)

/* Zeroes mean: 1 GiB, simulated, PyTorch's default options and the library's default version. */
typedef struct hr_test_pool_setup {
    uint64_t capacity_bytes;   /* of the device; 0 = 1 GiB */
    uint64_t total_bytes;      /* what the simulated device says it has; 0 = capacity_bytes */
    const char *conf;          /* as hr_pool_options */
    const char *torch_version; /* as hr_pool_options */
    double fraction;           /* for hr_pool_set_fraction(); 0 = left alone */
    bool on_host;              /* the host device: its addresses can be written through */
    bool manual_streams;       /* events complete by hr_device_complete() only */
    bool is_strict;            /* as hr_pool_options */
    bool (*reclaim)(void *context);
    void *reclaim_context;
    const char *engine;        /* as hr_pool_options */
    double idle_share;         /* as hr_pool_options */
    uint64_t idle_floor_bytes; /* as hr_pool_options */
    hr_safe_point safe_point;  /* as hr_pool_options */
    bool is_shareable;         /* as hr_pool_options */
    uint64_t spill_bytes;      /* as hr_pool_options, and so the next three */
    uint64_t spill_ahead_bytes;
    hr_pinned_budget *pinned_budget;
    hr_spill_listener spill_listener;
    hr_test_spy *spy; /* not NULL: the pool sees its device through it */
} hr_test_pool_setup;

typedef struct hr_test_pool {
    hr_device *device;
    hr_pool *pool;
    hr_memory_event *events; /* since they were last compared or forgotten */
    size_t event_count;
    size_t event_capacity;
} hr_test_pool;

/* `setup` may be NULL. */
void hr_test_pool_open(hr_test_pool *test, const hr_test_pool_setup *setup);

/* Checks the pool, ends it, and sees that the device has everything back; then ends the device.
 * Blocks may still be live. */
void hr_test_pool_close(hr_test_pool *test);

/* ---- calls that must succeed ----------------------------------------------------------------- */

#define hr_test_alloc(test, size_bytes) hr_test_alloc_on(test, size_bytes, 0)
#define hr_test_alloc_on(test, size_bytes, stream)                                                 \
    hr_test_alloc_here(test, size_bytes, stream, __FILE__, __LINE__)
#define hr_test_free(test, address) hr_test_free_here(test, address, __FILE__, __LINE__)
#define hr_test_trim(test) hr_test_ok(test, hr_pool_trim((test)->pool))

/* Any status that must be HR_OK, with a look at the pool afterwards. */
#define hr_test_ok(test, status) hr_test_status_here(test, status, HR_OK, __FILE__, __LINE__)
/* And one that must be something else. */
#define hr_test_refused(test, status, expected)                                                    \
    hr_test_status_here(test, status, expected, __FILE__, __LINE__)
/* A request that must fail with `expected`; its out-parameter must stay untouched. */
#define hr_test_alloc_fails(test, size_bytes, stream, expected)                                    \
    hr_test_alloc_fails_here(test, size_bytes, stream, expected, __FILE__, __LINE__)

hr_pool_stats hr_test_stats(const hr_test_pool *test);
hr_device_calls hr_test_calls(const hr_test_pool *test);

/* ---- events ---------------------------------------------------------------------------------- */

#define HR_TEST_ANY UINT64_MAX /* matches every address or size */

typedef struct hr_test_event {
    hr_action action;
    hr_device_ptr address;
    uint64_t size_bytes;
} hr_test_event;

/* Compares all events since the last look with {action, address, size}, ..., and forgets them:
 *
 *   hr_test_expect_events(&test, {HR_ACTION_SEGMENT_ALLOC, a, 2 * HR_TEST_MIB},
 *                                {HR_ACTION_ALLOC, a, 100}); */
#define hr_test_expect_events(test, ...)                                                           \
    hr_test_compare_events_here(                                                                   \
        test, (const hr_test_event[]){__VA_ARGS__},                                                \
        sizeof((const hr_test_event[]){__VA_ARGS__}) / sizeof(hr_test_event), __FILE__, __LINE__)
#define hr_test_expect_no_events(test)                                                             \
    hr_test_compare_events_here(test, NULL, 0, __FILE__, __LINE__)
void hr_test_forget_events(hr_test_pool *test);

/* ---- what a pool looks like ------------------------------------------------------------------ */

/* Everything hr_pool_walk() tells, one line per segment and block: equal texts mean that nothing
 * changed. Handed over to the caller, who frees it with free(). */
char *hr_test_describe(const hr_test_pool *test);

/* What the macros above call; `file` and `line` are the caller's. */
hr_device_ptr hr_test_alloc_here(hr_test_pool *test, uint64_t size_bytes, hr_stream stream,
                                 const char *file, int line);
void hr_test_alloc_fails_here(hr_test_pool *test, uint64_t size_bytes, hr_stream stream,
                              hr_status expected, const char *file, int line);
void hr_test_free_here(hr_test_pool *test, hr_device_ptr address, const char *file, int line);
void hr_test_status_here(hr_test_pool *test, hr_status status, hr_status expected, const char *file,
                         int line);
void hr_test_compare_events_here(hr_test_pool *test, const hr_test_event *expected, size_t count,
                                 const char *file, int line);

#endif /* HR_TESTS_POOL_FIXTURE_H */
