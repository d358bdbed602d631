/* sharing_contract.c - memory that can be handed to another process, or opened to another device.
 *
 * Here the other process is this one: device.h promises whoever imports the same. Two processes
 * meet in tests/unit/test_pool_sharing.c. */
#include "contract/device_contract.h"

#include <fcntl.h>
#include <unistd.h>

#include "device/device_table.h" /* vw__device_can_share */

#define UNTOUCHED UINT64_C(0x5a5a5a5a5a5a5a5a) /* what out-parameters hold before a call */

static void need_sharing(const vw_device *device)
{
    need(device->properties.has_shareable_handles, "the device has no shareable handles");
}

static uint64_t free_bytes_of(const vw_device *device)
{
    uint64_t free_bytes = 0, total_bytes = 0;
    assert_ok(device->table->memory_info(device->context, &free_bytes, &total_bytes));
    return free_bytes;
}

static void a_shareable_handle_serves_as_any_other(void **state)
{
    const vw_device *device = *state;
    need_sharing(device);
    assert_true(vw__device_can_share(device));
    const vw_device_table *table = device->table;
    void *context = device->context;
    uint64_t g = device->properties.granularity_bytes, before = free_bytes_of(device);
    vw_device_ptr address;
    vw_handle shareable = 0, ordinary = 0;
    assert_ok(table->reserve(context, 4 * g, &address));
    assert_ok(table->create_shareable(context, 2 * g, &shareable));
    assert_ok(table->create(context, g, &ordinary));
    assert_true(shareable != 0 && shareable != ordinary);
    assert_ok(table->map(context, address, 2 * g, shareable));
    assert_ok(table->map(context, address + 2 * g, g, ordinary));
    assert_ok(table->set_access(context, address, 3 * g));
    assert_ok(table->fill(context, address, 0x11, 3 * g, 0));
    assert_ok(table->copy(context, address + g, address + 2 * g, g, 0));
    assert_ok(table->synchronize(context));
    assert_ok(table->unmap(context, address, 3 * g));
    assert_ok(table->map(context, address + g, 2 * g, shareable)); /* and moves as any other */
    assert_ok(table->release(context, shareable));
    assert_ok(table->set_access(context, address + g, 2 * g));
    if (device->properties.has_bytes) {
        uint8_t byte = 0;
        assert_ok(table->read(context, &byte, address + 3 * g - 1, 1));
        assert_int_equal(byte, 0x11);
    }
    assert_ok(table->unmap(context, address + g, 2 * g));
    assert_ok(table->release(context, ordinary));
    assert_ok(table->unreserve(context, address, 4 * g));
    if (vw_test_is_scripted(device))
        assert_int_equal(free_bytes_of(device), before);
}

static void each_export_is_a_descriptor_of_its_own_to_close(void **state)
{
    const vw_device *device = *state;
    need_sharing(device);
    const vw_device_table *table = device->table;
    vw_handle handle = 0;
    int first = -1, second = -1;
    assert_ok(
        table->create_shareable(device->context, device->properties.granularity_bytes, &handle));
    assert_ok(table->export_handle(device->context, handle, &first));
    assert_ok(table->export_handle(device->context, handle, &second));
    assert_true(first >= 0 && second >= 0 && first != second);
    assert_true(fcntl(first, F_GETFD) >= 0);
    assert_int_equal(close(first), 0);
    assert_true(fcntl(second, F_GETFD) >= 0);
    assert_ok(table->release(device->context, handle));
    assert_true(fcntl(second, F_GETFD) >= 0); /* whoever has it keeps the memory */
    assert_int_equal(close(second), 0);
}

static void only_shareable_handles_that_are_held_can_be_exported(void **state)
{
    const vw_device *device = *state;
    need_sharing(device);
    const vw_device_table *table = device->table;
    uint64_t g = device->properties.granularity_bytes;
    vw_handle handle = 0;
    int file = 77;
    assert_ok(table->create(device->context, g, &handle));
    assert_true(table->export_handle(device->context, handle, &file) != VW_OK);
    assert_true(vw_last_error()[0] != '\0');
    assert_ok(table->release(device->context, handle));
    if (vw_test_is_scripted(device)) { /* a driver may not survive a number it does not know */
        assert_ok(table->create_shareable(device->context, g, &handle));
        assert_ok(table->release(device->context, handle));
        assert_status(VW_ERR_INVALID_ARGUMENT,
                      table->export_handle(device->context, handle, &file));
        assert_status(VW_ERR_INVALID_ARGUMENT, table->export_handle(device->context, 0, &file));
    }
    assert_int_equal(file, 77);
}

static void a_shareable_handle_that_cannot_be_had_changes_nothing(void **state)
{
    vw_device *device = *state;
    need_sharing(device);
    const vw_device_table *table = device->table;
    uint64_t g = device->properties.granularity_bytes;
    uint64_t too_large = 2 * device->properties.total_bytes / g * g;
    vw_handle handle = UNTOUCHED;
    assert_status(VW_ERR_OUT_OF_MEMORY,
                  table->create_shareable(device->context, too_large, &handle));
    if (vw_test_is_scripted(device)) {
        uint64_t before = free_bytes_of(device);
        vw_device_calls calls;
        assert_ok(vw_device_fail_call(device, 1, VW_ERR_DEVICE));
        assert_status(VW_ERR_DEVICE, table->create_shareable(device->context, g, &handle));
        assert_status(VW_ERR_INVALID_ARGUMENT,
                      table->create_shareable(device->context, g / 2, &handle));
        assert_int_equal(free_bytes_of(device), before);
        assert_ok(vw_device_get_calls(device, &calls));
        assert_int_equal(calls.count[VW_DEVICE_CALL_CREATE], 3);
    }
    assert_true(handle == UNTOUCHED);
}

/* ---- importing ------------------------------------------------------------------------------- */

/* A handle of `size_bytes` that was exported and imported again; the first may be asked for. */
static vw_handle import_own(const vw_device *device, uint64_t size_bytes, vw_handle *created)
{
    vw_handle imported = 0;
    int file = -1;
    assert_ok(device->table->create_shareable(device->context, size_bytes, created));
    assert_ok(device->table->export_handle(device->context, *created, &file));
    assert_ok(device->table->import_handle(device->context, file, size_bytes, &imported));
    assert_int_equal(close(file), 0);
    assert_true(imported != 0);
    return imported;
}

static void an_imported_handle_is_the_same_memory(void **state)
{
    const vw_device *device = *state;
    need_sharing(device);
    const vw_device_table *table = device->table;
    void *context = device->context;
    uint64_t g = device->properties.granularity_bytes;
    vw_handle created = 0, imported = import_own(device, 2 * g, &created);
    uint64_t before = free_bytes_of(device);
    vw_device_ptr address;
    assert_ok(table->reserve(context, 4 * g, &address));
    assert_ok(table->map(context, address, 2 * g, created));
    assert_ok(table->map(context, address + 2 * g, 2 * g, imported));
    assert_ok(table->set_access(context, address, 4 * g));
    if (vw_test_is_scripted(device))
        assert_int_equal(free_bytes_of(device), before); /* it is there only once */
    if (device->properties.has_bytes) {
        uint8_t byte = 0x77;
        assert_ok(table->write(context, address + 2 * g - 1, &byte, 1));
        byte = 0;
        assert_ok(table->read(context, &byte, address + 4 * g - 1, 1));
        assert_int_equal(byte, 0x77);
    }
    assert_ok(table->unmap(context, address, 4 * g));
    assert_ok(table->release(context, imported));
    assert_ok(table->release(context, created));
    assert_ok(table->unreserve(context, address, 4 * g));
}

static void imported_memory_outlives_its_first_handle(void **state)
{
    const vw_device *device = *state;
    need_sharing(device);
    const vw_device_table *table = device->table;
    void *context = device->context;
    uint64_t g = device->properties.granularity_bytes;
    vw_handle created = 0, imported = import_own(device, g, &created);
    vw_device_ptr address;
    assert_ok(table->reserve(context, g, &address));
    assert_ok(table->map(context, address, g, created));
    assert_ok(table->set_access(context, address, g));
    assert_ok(table->fill(context, address, 0x33, g, 0));
    assert_ok(table->synchronize(context));
    assert_ok(table->unmap(context, address, g));
    assert_ok(table->release(context, created));
    assert_ok(table->map(context, address, g, imported));
    assert_ok(table->release(context, imported)); /* while mapped, as any other */
    assert_ok(table->set_access(context, address, g));
    if (device->properties.has_bytes) {
        uint8_t byte = 0;
        assert_ok(table->read(context, &byte, address + g / 2, 1));
        assert_int_equal(byte, 0x33);
    }
    assert_ok(table->unmap(context, address, g));
    assert_ok(table->unreserve(context, address, g));
}

static void what_is_no_handles_memory_is_not_imported(void **state)
{
    vw_device *device = *state;
    need_sharing(device);
    const vw_device_table *table = device->table;
    uint64_t g = device->properties.granularity_bytes;
    vw_handle handle = UNTOUCHED, created = 0;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(table->import_handle(device->context, ends[0], g, &handle) != VW_OK);
    assert_true(table->import_handle(device->context, -1, g, &handle) != VW_OK);
    close(ends[0]);
    close(ends[1]);
    if (vw_test_is_scripted(device)) {
        int file = -1;
        assert_ok(table->create_shareable(device->context, g, &created));
        assert_ok(table->export_handle(device->context, created, &file));
        assert_status(VW_ERR_DEVICE, table->import_handle(device->context, file, 2 * g, &handle));
        assert_status(VW_ERR_INVALID_ARGUMENT,
                      table->import_handle(device->context, file, g / 2, &handle));
        assert_ok(vw_device_fail_call(device, 1, VW_ERR_OUT_OF_MEMORY));
        assert_status(VW_ERR_OUT_OF_MEMORY,
                      table->import_handle(device->context, file, g, &handle));
        close(file);
        assert_ok(table->release(device->context, created));
    }
    assert_true(handle == UNTOUCHED);
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void a_device_knows_its_peers_or_has_none(void **state)
{
    const vw_device *device = *state;
    const vw_device_table *table = device->table;
    need(VW__DEVICE_TABLE_HAS(table, allow_peer), "the device has no peers");
    vw_status own = table->allow_peer(device->context, device->properties.index, true);
    need(own != VW_ERR_UNSUPPORTED, "the device has no peers");
    assert_ok(own);
    assert_status(VW_ERR_INVALID_ARGUMENT, table->allow_peer(device->context, -1, true));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->allow_peer(device->context, 100000, true));
    assert_true(vw_last_error()[0] != '\0');
    vw_status other = table->allow_peer(device->context, device->properties.index + 1, true);
    need(other == VW_OK && device->properties.has_virtual_memory, "there is no other device");
    uint64_t g = device->properties.granularity_bytes;
    vw_device_ptr address;
    vw_handle handle;
    assert_ok(table->reserve(device->context, g, &address));
    assert_ok(table->create(device->context, g, &handle));
    assert_ok(table->map(device->context, address, g, handle));
    assert_ok(table->set_access(device->context, address, g)); /* for both */
    assert_ok(table->allow_peer(device->context, device->properties.index + 1, false));
    assert_ok(table->set_access(device->context, address, g)); /* for one, again */
    assert_ok(table->unmap(device->context, address, g));
    assert_ok(table->release(device->context, handle));
    assert_ok(table->unreserve(device->context, address, g));
}

/* ---- drivers of other devices ---------------------------------------------------------------- */

/* The kernel may refuse where the driver does not: then nothing was made. */
static void a_dma_buf_is_a_descriptor_of_its_own_to_close(void **state)
{
    const vw_device *device = *state;
    need(vw__device_has_dma_buf(device) && device->properties.has_virtual_memory,
         "the device makes no dma-buf");
    const vw_device_table *table = device->table;
    uint64_t g = device->properties.granularity_bytes;
    vw_device_ptr address;
    vw_handle handle;
    int file = -1;
    assert_ok(table->reserve(device->context, 2 * g, &address));
    assert_ok(table->create(device->context, 2 * g, &handle));
    assert_ok(table->map(device->context, address, 2 * g, handle));
    assert_ok(table->set_access(device->context, address, 2 * g));
    vw_status status = table->export_dma_buf(device->context, address + g, g, &file);
    if (status == VW_OK) {
        assert_true(fcntl(file, F_GETFD) >= 0);
        assert_int_equal(close(file), 0);
    } else {
        assert_status(VW_ERR_DEVICE, status);
        assert_true(vw_last_error()[0] != '\0');
        assert_int_equal(file, -1);
    }
    assert_ok(table->unmap(device->context, address, 2 * g));
    assert_ok(table->release(device->context, handle));
    assert_ok(table->unreserve(device->context, address, 2 * g));
}

static void a_device_without_dma_buf_says_so(void **state)
{
    const vw_device *device = *state;
    int file = 77;
    need(!device->properties.has_dma_buf, "the device makes dma-bufs");
    assert_false(vw__device_has_dma_buf(device));
    if (VW__DEVICE_TABLE_HAS(device->table, export_dma_buf))
        assert_status(VW_ERR_UNSUPPORTED, device->table->export_dma_buf(
                                              device->context, UINT64_C(2) << 20, 4096, &file));
    assert_int_equal(file, 77);
}

/* ---- neither --------------------------------------------------------------------------------- */

static void a_device_without_shareable_handles_says_so(void **state)
{
    const vw_device *device = *state;
    need(!device->properties.has_shareable_handles, "the device has shareable handles");
    assert_false(vw__device_can_share(device));
    vw_handle handle = UNTOUCHED;
    int file = 77;
    if (VW__DEVICE_TABLE_HAS(device->table, create_shareable))
        assert_status(VW_ERR_UNSUPPORTED,
                      device->table->create_shareable(device->context, UINT64_C(2) << 20, &handle));
    if (VW__DEVICE_TABLE_HAS(device->table, export_handle))
        assert_status(VW_ERR_UNSUPPORTED, device->table->export_handle(device->context, 1, &file));
    assert_false(vw__device_can_import(device));
    if (VW__DEVICE_TABLE_HAS(device->table, import_handle))
        assert_status(VW_ERR_UNSUPPORTED,
                      device->table->import_handle(device->context, 0, UINT64_C(2) << 20, &handle));
    assert_true(handle == UNTOUCHED);
    assert_int_equal(file, 77);
}

#define check(name) cmocka_unit_test_setup_teardown(name, vw_test_make_device, vw_test_end_device)

int vw_test_sharing_contract(const vw_test_device_factory *factory)
{
    const struct CMUnitTest tests[] = {
        check(a_shareable_handle_serves_as_any_other),
        check(each_export_is_a_descriptor_of_its_own_to_close),
        check(only_shareable_handles_that_are_held_can_be_exported),
        check(a_shareable_handle_that_cannot_be_had_changes_nothing),
        check(an_imported_handle_is_the_same_memory),
        check(imported_memory_outlives_its_first_handle),
        check(what_is_no_handles_memory_is_not_imported),
        check(a_device_knows_its_peers_or_has_none),
        check(a_dma_buf_is_a_descriptor_of_its_own_to_close),
        check(a_device_without_dma_buf_says_so),
        check(a_device_without_shareable_handles_says_so),
    };
    vw_test_use_factory(factory);
    return cmocka_run_group_tests_name(factory->name, tests, NULL, NULL);
}
