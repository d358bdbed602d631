/* host_handles_contract.c - handles in memory of the host: the same to whoever maps them, and no
 * use of the device's own memory. */
#include "contract/device_contract.h"

#include "device/device_table.h" /* VW__DEVICE_TABLE_HAS */

#define UNTOUCHED UINT64_C(0x5a5a5a5a5a5a5a5a) /* what out-parameters hold before a call */

static void need_host_handles(const vw_device *device)
{
    need(device->properties.has_host_handles, "the device has no handles on the host");
}

static uint64_t free_bytes_of(const vw_device *device)
{
    uint64_t free_bytes = 0, total_bytes = 0;
    assert_ok(device->table->memory_info(device->context, &free_bytes, &total_bytes));
    return free_bytes;
}

static void map(const vw_device *device, vw_device_ptr address, uint64_t size_bytes,
                vw_handle handle)
{
    assert_ok(device->table->map(device->context, address, size_bytes, handle));
    assert_ok(device->table->set_access(device->context, address, size_bytes));
}

static void assert_byte(const vw_device *device, vw_device_ptr address, uint8_t expected)
{
    uint8_t byte = 0;
    if (!device->properties.has_bytes)
        return;
    assert_ok(device->table->read(device->context, &byte, address, 1));
    assert_int_equal(byte, expected);
}

/* What spilling is made of: out through a second mapping, the pages swapped under the address, and
 * back again. */
static void data_goes_to_the_host_and_back_under_the_same_address(void **state)
{
    const vw_device *device = *state;
    need_host_handles(device);
    assert_true(vw__device_has_host_handles(device));
    const vw_device_table *table = device->table;
    void *context = device->context;
    uint64_t g = device->properties.granularity_bytes, size_bytes = 2 * g;
    vw_device_ptr home = VW_NULL, scratch = VW_NULL;
    vw_handle own = 0, on_host = 0;
    assert_ok(table->reserve(context, size_bytes, &home));
    assert_ok(table->reserve(context, size_bytes, &scratch));
    assert_ok(table->create(context, size_bytes, &own));
    assert_ok(table->create_on_host(context, size_bytes, &on_host));
    assert_true(on_host != 0 && on_host != own);
    map(device, home, size_bytes, own);
    assert_ok(table->fill(context, home, 0x37, size_bytes, 0));
    map(device, scratch, size_bytes, on_host);
    assert_ok(table->copy(context, scratch, home, size_bytes, 0));
    assert_ok(table->synchronize(context));
    assert_ok(table->unmap(context, home, size_bytes));
    map(device, home, size_bytes, on_host); /* now twice */
    assert_byte(device, home, 0x37);
    assert_byte(device, home + size_bytes - 1, 0x37);
    assert_ok(table->unmap(context, scratch, size_bytes));
    assert_ok(table->fill(context, home, 0x38, size_bytes, 0));
    map(device, scratch, size_bytes, own);
    assert_ok(table->copy(context, scratch, home, size_bytes, 0));
    assert_ok(table->synchronize(context));
    assert_ok(table->unmap(context, home, size_bytes));
    assert_ok(table->unmap(context, scratch, size_bytes));
    map(device, home, size_bytes, own);
    assert_byte(device, home + size_bytes - 1, 0x38);
    assert_ok(table->unmap(context, home, size_bytes));
    assert_ok(table->release(context, own));
    assert_ok(table->release(context, on_host));
    assert_ok(table->unreserve(context, home, size_bytes));
    assert_ok(table->unreserve(context, scratch, size_bytes));
}

static void it_takes_no_memory_of_the_device(void **state)
{
    vw_device *device = *state;
    need_host_handles(device);
    need(vw_test_is_scripted(device), "others may use the device meanwhile");
    const vw_device_table *table = device->table;
    uint64_t g = device->properties.granularity_bytes, before = free_bytes_of(device);
    vw_handle first = 0, second = 0, own = UNTOUCHED;
    assert_ok(vw_device_set_capacity(device, 0));
    assert_status(VW_ERR_OUT_OF_MEMORY, table->create(device->context, g, &own));
    assert_ok(table->create_on_host(device->context, g, &first));
    assert_ok(table->create_on_host(device->context, 3 * g, &second));
    vw_device_calls calls;
    assert_ok(vw_device_get_calls(device, &calls));
    assert_int_equal(calls.in_use_bytes, 0);
    assert_ok(table->release(device->context, first));
    assert_ok(table->release(device->context, second));
    assert_ok(vw_device_set_capacity(device, before));
    assert_int_equal(free_bytes_of(device), before);
}

static void one_that_cannot_be_had_changes_nothing(void **state)
{
    vw_device *device = *state;
    need_host_handles(device);
    need(vw_test_is_scripted(device), "a driver's failures cannot be scripted");
    const vw_device_table *table = device->table;
    uint64_t g = device->properties.granularity_bytes;
    vw_handle handle = UNTOUCHED;
    assert_status(VW_ERR_INVALID_ARGUMENT, table->create_on_host(device->context, 0, &handle));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->create_on_host(device->context, g / 2, &handle));
    assert_ok(vw_device_fail_call(device, 1, VW_ERR_HOST_MEMORY));
    assert_status(VW_ERR_HOST_MEMORY, table->create_on_host(device->context, g, &handle));
    assert_true(handle == UNTOUCHED);
}

static void a_device_without_them_says_so(void **state)
{
    const vw_device *device = *state;
    need(!device->properties.has_host_handles, "the device has handles on the host");
    vw_handle handle = UNTOUCHED;
    assert_false(vw__device_has_host_handles(device));
    if (VW__DEVICE_TABLE_HAS(device->table, create_on_host))
        assert_status(VW_ERR_UNSUPPORTED,
                      device->table->create_on_host(device->context, UINT64_C(2) << 20, &handle));
    assert_true(handle == UNTOUCHED);
}

#define check(name) cmocka_unit_test_setup_teardown(name, vw_test_make_device, vw_test_end_device)

int vw_test_host_handles_contract(const vw_test_device_factory *factory)
{
    const struct CMUnitTest tests[] = {
        check(data_goes_to_the_host_and_back_under_the_same_address),
        check(it_takes_no_memory_of_the_device),
        check(one_that_cannot_be_had_changes_nothing),
        check(a_device_without_them_says_so),
    };
    vw_test_use_factory(factory);
    return cmocka_run_group_tests_name("handles on the host", tests, NULL, NULL);
}
