/* pinned_on_host.h - a pinned pool on a host device, with a short function for each operation.
 *
 * For tests whose setup is make_device() and whose teardown is end_device(): TEST(name). */
#ifndef VW_TESTS_PINNED_ON_HOST_H
#define VW_TESTS_PINNED_ON_HOST_H

#include <stdbool.h>

#include "vramwise/pinned.h"

#include "support/cmocka_here.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1024) * KIB)

enum { OTHER = 7, ANOTHER = 8 }; /* streams */

static vw_device *device;
static vw_pinned_pool *pool;

static inline int make_device(void **state)
{
    (void)state;
    return vw_host_device_create(64 * MIB, &device) == VW_OK ? 0 : -1;
}

static inline int end_device(void **state)
{
    (void)state;
    vw_pinned_pool_destroy(pool);
    vw_device_destroy(device);
    pool = NULL;
    device = NULL;
    return 0;
}

static inline vw_status try_pool(const char *conf, const char *version)
{
    const vw_pinned_options options = {
        .struct_size = sizeof options, .conf = conf, .torch_version = version};
    return vw_pinned_pool_create(device, &options, &pool);
}

static inline void make_pool(const char *conf)
{
    assert_int_equal(try_pool(conf, "2.13"), VW_OK);
}

static inline char *allocate_on(uint64_t size_bytes, vw_stream stream)
{
    void *address = NULL;
    assert_int_equal(vw_pinned_alloc_on(pool, size_bytes, stream, &address), VW_OK);
    assert_non_null(address);
    return address;
}

static inline char *allocate(uint64_t size_bytes)
{
    return allocate_on(size_bytes, 0);
}

static inline void give(char *address)
{
    assert_int_equal(vw_pinned_free(pool, address), VW_OK);
}

static inline void use_on(char *address, vw_stream stream)
{
    assert_int_equal(vw_pinned_record_stream(pool, address, stream), VW_OK);
}

static inline vw_pinned_stats stats(void)
{
    vw_pinned_stats now = {.struct_size = sizeof now};
    assert_int_equal(vw_pinned_pool_get_stats(pool, &now), VW_OK);
    return now;
}

static inline uint64_t calls(vw_device_call kind)
{
    vw_device_calls now;
    assert_int_equal(vw_device_get_calls(device, &now), VW_OK);
    return now.count[kind];
}

static inline void check_soundness(vw_pinned_pool *of)
{
    if (vw_pinned_pool_check(of) != VW_OK)
        fail_msg("%s", vw_last_error());
}

static inline void check(void)
{
    check_soundness(pool);
}

static inline void hold(bool is_held)
{
    assert_int_equal(vw_device_hold_streams(device, is_held), VW_OK);
}

static inline void complete(vw_stream stream)
{
    assert_int_equal(vw_device_complete(device, stream), VW_OK);
}

static inline void fail_call(uint64_t nth)
{
    assert_int_equal(vw_device_fail_call(device, nth, VW_ERR_DEVICE), VW_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_device, end_device)

#endif /* VW_TESTS_PINNED_ON_HOST_H */
