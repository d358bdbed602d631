/* pinned_on_host.h - a pinned pool on a host device, and one word for each thing done to it.
 *
 * For tests whose setup is make_device() and whose teardown is end_device(): TEST(name). */
#ifndef HR_TESTS_PINNED_ON_HOST_H
#define HR_TESTS_PINNED_ON_HOST_H

#include <stdbool.h>

#include "headroom/pinned.h"

#include "support/cmocka_here.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1024) * KIB)

enum { OTHER = 7, ANOTHER = 8 }; /* streams */

static hr_device *device;
static hr_pinned_pool *pool;

static inline int make_device(void **state)
{
    (void)state;
    return hr_host_device_create(64 * MIB, &device) == HR_OK ? 0 : -1;
}

static inline int end_device(void **state)
{
    (void)state;
    hr_pinned_pool_destroy(pool);
    hr_device_destroy(device);
    pool = NULL;
    device = NULL;
    return 0;
}

static inline hr_status try_pool(const char *conf, const char *version)
{
    const hr_pinned_options options = {
        .struct_size = sizeof options, .conf = conf, .torch_version = version};
    return hr_pinned_pool_create(device, &options, &pool);
}

static inline void make_pool(const char *conf)
{
    assert_int_equal(try_pool(conf, "2.13"), HR_OK);
}

static inline char *allocate_on(uint64_t size_bytes, hr_stream stream)
{
    void *address = NULL;
    assert_int_equal(hr_pinned_alloc_on(pool, size_bytes, stream, &address), HR_OK);
    assert_non_null(address);
    return address;
}

static inline char *allocate(uint64_t size_bytes)
{
    return allocate_on(size_bytes, 0);
}

static inline void give(char *address)
{
    assert_int_equal(hr_pinned_free(pool, address), HR_OK);
}

static inline void use_on(char *address, hr_stream stream)
{
    assert_int_equal(hr_pinned_record_stream(pool, address, stream), HR_OK);
}

static inline hr_pinned_stats stats(void)
{
    hr_pinned_stats now = {.struct_size = sizeof now};
    assert_int_equal(hr_pinned_pool_get_stats(pool, &now), HR_OK);
    return now;
}

static inline uint64_t calls(hr_device_call kind)
{
    hr_device_calls now;
    assert_int_equal(hr_device_get_calls(device, &now), HR_OK);
    return now.count[kind];
}

static inline void check_soundness(hr_pinned_pool *of)
{
    if (hr_pinned_pool_check(of) != HR_OK)
        fail_msg("%s", hr_last_error());
}

static inline void check(void)
{
    check_soundness(pool);
}

static inline void hold(bool is_held)
{
    assert_int_equal(hr_device_hold_streams(device, is_held), HR_OK);
}

static inline void complete(hr_stream stream)
{
    assert_int_equal(hr_device_complete(device, stream), HR_OK);
}

static inline void fail_call(uint64_t nth)
{
    assert_int_equal(hr_device_fail_call(device, nth, HR_ERR_DEVICE), HR_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_device, end_device)

#endif /* HR_TESTS_PINNED_ON_HOST_H */
