/* test_spill_limits.c - how much a pool may be told to spill, by the machine and by the device.
 *
 * `ulimit -l` is set low for this process: the host device locks nothing and does not keep to it;
 * one that does is made up. */
#include "engine/paged/paged_spill.h"

#include <string.h>
#include <sys/resource.h>

#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)
#define LOCKED_BYTES (UINT64_C(48) << 10) /* less than most accounts may lock */

static vw_device *host;
static vw_device_table table;
static vw_device strict; /* the host device, but it locks */
static uint64_t largest_tried_bytes;

static vw_status create_within_the_limit(void *context, uint64_t size_bytes, vw_handle *out)
{
    if (size_bytes > largest_tried_bytes)
        largest_tried_bytes = size_bytes;
    return size_bytes > LOCKED_BYTES ? VW_ERR_HOST_MEMORY
                                     : host->table->create_on_host(context, size_bytes, out);
}

static int make_devices(void **state)
{
    (void)state;
    if (vw_host_device_create(16 * MIB, &host) != VW_OK)
        return -1;
    table = *host->table;
    table.create_on_host = create_within_the_limit;
    strict = *host;
    strict.table = &table;
    largest_tried_bytes = 0;
    return 0;
}

static int end_devices(void **state)
{
    (void)state;
    vw_device_destroy(host);
    return 0;
}

static void set_lock_limit(uint64_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    assert_true(limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= bytes);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

static vw_status check(const vw_device *device, uint64_t spill_bytes)
{
    const vw_pool_options options = {.struct_size = sizeof options, .spill_bytes = spill_bytes};
    return vw__paged_check_spill(device, &options);
}

static void a_lock_limit_that_the_device_does_not_keep_to_is_none(void **state)
{
    (void)state;
    vw_device_calls calls;
    assert_int_equal(check(host, 8 * MIB), VW_OK);
    assert_int_equal(vw_device_get_calls(host, &calls), VW_OK);
    assert_int_equal(calls.count[VW_DEVICE_CALL_CREATE_ON_HOST], 1);
    assert_int_equal(calls.count[VW_DEVICE_CALL_RELEASE], 1); /* what was tried is given back */
}

static void one_that_it_keeps_to_is_refused_with_the_three_numbers(void **state)
{
    (void)state;
    assert_int_equal(check(&strict, LOCKED_BYTES + 1), VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "a spill_bytes of 49153 bytes"));
    assert_non_null(strstr(vw_last_error(), "free on this machine"));
    assert_non_null(strstr(vw_last_error(), "limit of the control group"));
    assert_non_null(strstr(vw_last_error(), "ulimit -l 49152 bytes"));
    assert_int_equal(largest_tried_bytes, host->properties.granularity_bytes); /* just beyond */
}

static void within_the_limit_nothing_is_tried(void **state)
{
    (void)state;
    assert_int_equal(check(&strict, LOCKED_BYTES), VW_OK);
    assert_int_equal(check(&strict, 0), VW_OK);
    assert_int_equal(largest_tried_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lock_limit_that_the_device_does_not_keep_to_is_none,
                                        make_devices, end_devices),
        cmocka_unit_test_setup_teardown(one_that_it_keeps_to_is_refused_with_the_three_numbers,
                                        make_devices, end_devices),
        cmocka_unit_test_setup_teardown(within_the_limit_nothing_is_tried, make_devices,
                                        end_devices),
    };
    set_lock_limit(LOCKED_BYTES);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
