/* pool_fixture.h - a pool on a stand-in device, a listener that keeps events, and checked calls.
 *
 * Every helper fails the test at the caller's line, with vw_last_error(), and checks the whole pool
 * afterwards (vw_pool_check). Events are kept in `events` until they are compared or forgotten, so
 * a test states exactly what one call may cause. */
#ifndef VW_TESTS_POOL_FIXTURE_H
#define VW_TESTS_POOL_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/vramwise.h"
#include "support/device_spy.h"

#define VW_TEST_KIB (UINT64_C(1) << 10)
#define VW_TEST_MIB (UINT64_C(1) << 20)
#define VW_TEST_GIB (UINT64_C(1) << 30)

/* Zeroes mean: 1 GiB, simulated, PyTorch's default options and the library's default version. */
typedef struct vw_test_pool_setup {
    uint64_t capacity_bytes;   /* of the device; 0 = 1 GiB */
    uint64_t total_bytes;      /* what the simulated device says it has; 0 = capacity_bytes */
    const char *conf;          /* as vw_pool_options */
    const char *torch_version; /* as vw_pool_options */
    double fraction;           /* for vw_pool_set_fraction(); 0 = left alone */
    bool on_host;              /* the host device: its addresses can be written through */
    bool manual_streams;       /* events complete by vw_device_complete() only */
    bool is_strict;            /* as vw_pool_options */
    bool (*reclaim)(void *context);
    void *reclaim_context;
    const char *engine;        /* as vw_pool_options */
    double idle_share;         /* as vw_pool_options */
    uint64_t idle_floor_bytes; /* as vw_pool_options */
    vw_safe_point safe_point;  /* as vw_pool_options */
    bool is_shareable;         /* as vw_pool_options */
    uint64_t spill_bytes;      /* as vw_pool_options, and so the next three */
    uint64_t spill_ahead_bytes;
    vw_pinned_budget *pinned_budget;
    vw_spill_listener spill_listener;
    const char *keep_free; /* as vw_pool_options, like the next */
    vw_park_guard park_guard;
    bool (*make_room)(void *context, uint64_t size_bytes); /* as vw_pool_options, like the next */
    void *make_room_context;
    vw_test_spy *spy; /* not NULL: the pool sees its device through it */
} vw_test_pool_setup;

typedef struct vw_test_pool {
    vw_device *device;
    vw_pool *pool;
    vw_memory_event *events; /* since they were last compared or forgotten */
    size_t event_count;
    size_t event_capacity;
} vw_test_pool;

/* `setup` may be NULL. */
void vw_test_pool_open(vw_test_pool *test, const vw_test_pool_setup *setup);

/* Checks the pool, ends it, checks that the device has everything back, and ends the device. Blocks
 * may still be live. */
void vw_test_pool_close(vw_test_pool *test);

/* ---- calls that must succeed ----------------------------------------------------------------- */

#define vw_test_alloc(test, size_bytes) vw_test_alloc_on(test, size_bytes, 0)
#define vw_test_alloc_on(test, size_bytes, stream)                                                 \
    vw_test_alloc_here(test, size_bytes, stream, __FILE__, __LINE__)
#define vw_test_free(test, address) vw_test_free_here(test, address, __FILE__, __LINE__)
#define vw_test_trim(test) vw_test_ok(test, vw_pool_trim((test)->pool))

/* For a status that must be VW_OK; checks the pool afterwards. */
#define vw_test_ok(test, status) vw_test_status_here(test, status, VW_OK, __FILE__, __LINE__)
/* And one that must be something else. */
#define vw_test_refused(test, status, expected)                                                    \
    vw_test_status_here(test, status, expected, __FILE__, __LINE__)
/* A request that must fail with `expected`; its out-parameter must stay untouched. */
#define vw_test_alloc_fails(test, size_bytes, stream, expected)                                    \
    vw_test_alloc_fails_here(test, size_bytes, stream, expected, __FILE__, __LINE__)

vw_pool_stats vw_test_stats(const vw_test_pool *test);
vw_device_calls vw_test_calls(const vw_test_pool *test);

/* ---- events ---------------------------------------------------------------------------------- */

#define VW_TEST_ANY UINT64_MAX /* matches every address or size */

typedef struct vw_test_event {
    vw_action action;
    vw_device_ptr address;
    uint64_t size_bytes;
} vw_test_event;

/* Compares all events since the last look with {action, address, size}, ..., and forgets them:
 *
 *   vw_test_expect_events(&test, {VW_ACTION_SEGMENT_ALLOC, a, 2 * VW_TEST_MIB},
 *                                {VW_ACTION_ALLOC, a, 100}); */
#define vw_test_expect_events(test, ...)                                                           \
    vw_test_compare_events_here(                                                                   \
        test, (const vw_test_event[]){__VA_ARGS__},                                                \
        sizeof((const vw_test_event[]){__VA_ARGS__}) / sizeof(vw_test_event), __FILE__, __LINE__)
#define vw_test_expect_no_events(test)                                                             \
    vw_test_compare_events_here(test, NULL, 0, __FILE__, __LINE__)
void vw_test_forget_events(vw_test_pool *test);

/* ---- what a pool looks like ------------------------------------------------------------------ */

/* The result of vw_pool_walk() as text, one line per segment and block: equal texts mean that
 * nothing changed. The caller frees it with free(). */
char *vw_test_describe(const vw_test_pool *test);

/* What the macros above call; `file` and `line` are the caller's. */
vw_device_ptr vw_test_alloc_here(vw_test_pool *test, uint64_t size_bytes, vw_stream stream,
                                 const char *file, int line);
void vw_test_alloc_fails_here(vw_test_pool *test, uint64_t size_bytes, vw_stream stream,
                              vw_status expected, const char *file, int line);
void vw_test_free_here(vw_test_pool *test, vw_device_ptr address, const char *file, int line);
void vw_test_status_here(vw_test_pool *test, vw_status status, vw_status expected, const char *file,
                         int line);
void vw_test_compare_events_here(vw_test_pool *test, const vw_test_event *expected, size_t count,
                                 const char *file, int line);

#endif /* VW_TESTS_POOL_FIXTURE_H */
