/* test_device_table.c - tables from before this library, and what may be called of them. */
#include "device/device_table.h"

#include <string.h>

#include "contract/device_contract.h" /* assert_ok */

#define MIB (UINT64_C(1) << 20)

/* A host device whose table is a copy the test may change. */
typedef struct borrowed {
    vw_device *host;
    vw_device_table table;
    vw_device device;
} borrowed;

static borrowed borrow(void)
{
    borrowed made = {0};
    assert_ok(vw_host_device_create(16 * MIB, &made.host));
    made.table = *made.host->table;
    made.device = *made.host;
    return made;
}

static void a_field_beyond_the_tables_size_counts_as_absent(void **state)
{
    (void)state;
    borrowed some = borrow();
    some.device.table = &some.table;
    assert_true(VW__DEVICE_TABLE_HAS(&some.table, take));
    assert_true(VW__DEVICE_TABLE_HAS(&some.table, export_handle));
    some.table.struct_size = offsetof(vw_device_table, export_handle);
    assert_true(VW__DEVICE_TABLE_HAS(&some.table, create_shareable));
    assert_false(VW__DEVICE_TABLE_HAS(&some.table, export_handle));
    some.table.struct_size += sizeof some.table.export_handle - 1; /* not all of it */
    assert_false(VW__DEVICE_TABLE_HAS(&some.table, export_handle));
    some.table.struct_size = offsetof(vw_device_table, create_shareable);
    assert_false(VW__DEVICE_TABLE_HAS(&some.table, create_shareable));
    assert_true(VW__DEVICE_TABLE_HAS(&some.table, destroy));
    some.table.processes = NULL; /* within it, and not set */
    assert_false(VW__DEVICE_TABLE_HAS(&some.table, processes));
    vw_device_destroy(some.host);
}

static void a_device_has_host_handles_only_with_table_and_property(void **state)
{
    (void)state;
    borrowed some = borrow();
    some.device.table = &some.table;
    assert_true(vw__device_has_host_handles(&some.device));
    some.table.struct_size = offsetof(vw_device_table, create_on_host);
    assert_false(vw__device_has_host_handles(&some.device));
    some.table.struct_size = sizeof some.table;
    some.device.properties.has_host_handles = false;
    assert_false(vw__device_has_host_handles(&some.device));
    some.device.properties.has_host_handles = true;
    some.device.properties.has_virtual_memory = false;
    assert_false(vw__device_has_host_handles(&some.device));
    vw_device_destroy(some.host);
}

static void a_device_can_share_only_with_table_and_property(void **state)
{
    (void)state;
    borrowed some = borrow();
    some.device.table = &some.table;
    assert_true(vw__device_can_share(some.host));
    assert_true(vw__device_can_share(&some.device));
    some.table.struct_size = offsetof(vw_device_table, create_shareable); /* padding may say true */
    assert_false(vw__device_can_share(&some.device));
    some.table.struct_size = sizeof some.table;
    some.table.export_handle = NULL;
    assert_false(vw__device_can_share(&some.device));
    some.table = *some.host->table;
    some.device.properties.has_shareable_handles = false;
    assert_false(vw__device_can_share(&some.device));
    some.device.properties.has_shareable_handles = true;
    some.device.properties.has_virtual_memory = false;
    assert_false(vw__device_can_share(&some.device));
    vw_device_destroy(some.host);
}

static vw_status make_no_buffer(void *context, vw_device_ptr address, uint64_t size_bytes, int *out)
{
    (void)context, (void)address, (void)size_bytes, (void)out;
    return VW_OK;
}

static void a_device_has_dma_buf_only_with_table_and_property(void **state)
{
    (void)state;
    borrowed some = borrow();
    some.device.table = &some.table;
    assert_false(vw__device_has_dma_buf(&some.device));
    some.device.properties.has_dma_buf = true; /* as padding may say */
    some.table.export_dma_buf = NULL;
    assert_false(vw__device_has_dma_buf(&some.device));
    some.table.export_dma_buf = make_no_buffer;
    assert_true(vw__device_has_dma_buf(&some.device));
    some.table.struct_size = offsetof(vw_device_table, export_dma_buf);
    assert_false(vw__device_has_dma_buf(&some.device));
    vw_device_destroy(some.host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_beyond_the_tables_size_counts_as_absent),
        cmocka_unit_test(a_device_can_share_only_with_table_and_property),
        cmocka_unit_test(a_device_has_host_handles_only_with_table_and_property),
        cmocka_unit_test(a_device_has_dma_buf_only_with_table_and_property),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
