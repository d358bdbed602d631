/* test_job_outlook.c - a running job that leaks, and when it will die of it. */
#include "vramwise/watch.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

enum { STEPS = 200 };
#define MIB (UINT64_C(1) << 20)

static vw_job_step steps[STEPS];

/* `grown` bytes more with each step, from 1 GiB on. */
static vw_job_device device_with(size_t step_count, uint64_t grown)
{
    vw_job_device device = {.steps = steps, .step_count = step_count};
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        device.values[i] = VW_LIVE_UNKNOWN;
    for (size_t i = 0; i < step_count; i++)
        steps[i] = (vw_job_step){.step = i + 1, .live_bytes = 1024 * MIB + i * grown};
    return device;
}

static vw_job_outlook outlook_of(const vw_job_device *device)
{
    vw_job_outlook outlook;
    assert_int_equal(vw_job_outlook_find(device, &outlook), VW_OK);
    return outlook;
}

static void a_job_without_steps_has_no_outlook(void **state)
{
    (void)state;
    vw_job_device device = device_with(0, 0);
    device.steps = NULL;
    vw_job_outlook outlook = outlook_of(&device);
    assert_false(outlook.is_leak);
    assert_int_equal(outlook.last_step, 0);
    assert_int_equal(outlook.room_bytes, VW_LIVE_UNKNOWN);
    assert_int_equal(outlook.full_at_step, VW_LIVE_UNKNOWN);
}

static void a_level_is_no_leak(void **state)
{
    (void)state;
    const vw_job_device device = device_with(STEPS, 0);
    vw_job_outlook outlook = outlook_of(&device);
    assert_false(outlook.is_leak);
    assert_int_equal(outlook.last_step, STEPS);
    assert_true(outlook.bytes_per_step == 0);
}

static void growth_to_the_end_is_a_leak_with_its_pace(void **state)
{
    (void)state;
    const vw_job_device device = device_with(STEPS, MIB);
    vw_job_outlook outlook = outlook_of(&device);
    assert_true(outlook.is_leak);
    assert_true(outlook.bytes_per_step > 0.99 * (double)MIB);
    assert_true(outlook.bytes_per_step < 1.01 * (double)MIB);
    assert_int_equal(outlook.full_at_step, VW_LIVE_UNKNOWN); /* nobody knows what there is */
}

/* 100 MiB idle and 50 MiB free: 150 steps later it is full, and the next one does not fit. */
static void the_step_that_does_not_fit_is_said(void **state)
{
    (void)state;
    vw_job_device device = device_with(STEPS, MIB);
    device.values[VW_LIVE_LIVE_BYTES] = 1223 * MIB;
    device.values[VW_LIVE_RESERVED_BYTES] = 1323 * MIB;
    device.values[VW_LIVE_DEVICE_FREE_BYTES] = 50 * MIB;
    vw_job_outlook outlook = outlook_of(&device);
    assert_int_equal(outlook.room_bytes, 150 * MIB);
    assert_in_range(outlook.full_at_step, STEPS + 148, STEPS + 152);

    device.values[VW_LIVE_LIMIT_BYTES] = 1233 * MIB;
    outlook = outlook_of(&device);
    assert_int_equal(outlook.room_bytes, 10 * MIB);
    assert_in_range(outlook.full_at_step, STEPS + 9, STEPS + 12);

    device.values[VW_LIVE_LIMIT_BYTES] = 1000 * MIB; /* lowered below what is live */
    outlook = outlook_of(&device);
    assert_int_equal(outlook.room_bytes, 0);
    assert_int_equal(outlook.full_at_step, STEPS + 1);
}

static void calls_without_sense_are_refused(void **state)
{
    (void)state;
    const vw_job_device device = device_with(0, 0);
    vw_job_outlook outlook;
    assert_int_equal(vw_job_outlook_find(NULL, &outlook), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_job_outlook_find(&device, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_job_outlook_find_firm(NULL, &outlook), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_job_outlook_find_firm(&device, NULL), VW_ERR_INVALID_ARGUMENT);
}

static bool find_once(void *context)
{
    vw_job_outlook outlook;
    vw_status status = vw_job_outlook_find(context, &outlook);
    if (status != VW_OK)
        assert_int_equal(status, VW_ERR_HOST_MEMORY);
    return status == VW_OK;
}

static void every_failing_allocation_is_said(void **state)
{
    (void)state;
    vw_job_device device = device_with(STEPS, MIB);
    vw_test_sweep_host_memory(find_once, &device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_steps_has_no_outlook),
        cmocka_unit_test(a_level_is_no_leak),
        cmocka_unit_test(growth_to_the_end_is_a_leak_with_its_pace),
        cmocka_unit_test(the_step_that_does_not_fit_is_said),
        cmocka_unit_test(calls_without_sense_are_refused),
        cmocka_unit_test(every_failing_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
