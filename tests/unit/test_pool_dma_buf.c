/* test_pool_dma_buf.c - vw_pool_export_dma_buf(): which ranges, and what is pinned.
 *
 * The device is the host's, with a function of the test's in its table that notes what it was asked
 * and hands out a descriptor, or refuses. */
#include "vramwise/vramwise.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"

#define PAGE ((uint64_t)sysconf(_SC_PAGESIZE))

static const vw_private_id registered = {0, 5};

static struct {
    vw_device_ptr address;
    uint64_t size_bytes;
    unsigned calls;
    bool refuses;
} asked;

static vw_status export_dma_buf(void *context, vw_device_ptr address, uint64_t size_bytes, int *out)
{
    (void)context;
    asked.address = address;
    asked.size_bytes = size_bytes;
    asked.calls++;
    if (asked.refuses)
        return vw__fail(VW_ERR_DEVICE, "the kernel has no dma-buf today");
    *out = open("/dev/null", O_RDWR | O_CLOEXEC);
    return VW_OK;
}

typedef struct scene {
    vw_device *host;
    vw_device_table table;
    vw_device device;
    vw_pool *pool;
} scene;

static void open_scene(scene *s, const char *engine)
{
    assert_int_equal(vw_host_device_create(256 * VW_TEST_MIB, &s->host), VW_OK);
    s->table = *s->host->table;
    s->table.struct_size = sizeof s->table;
    s->table.export_dma_buf = export_dma_buf;
    s->device = *s->host;
    s->device.table = &s->table;
    s->device.properties.has_dma_buf = true;
    const vw_pool_options options = {.struct_size = sizeof options, .engine = engine};
    assert_int_equal(vw_pool_create(&s->device, &options, &s->pool), VW_OK);
    memset(&asked, 0, sizeof asked);
}

static void close_scene(scene *s)
{
    vw_device_calls calls;
    assert_int_equal(vw_pool_check(s->pool), VW_OK);
    vw_pool_destroy(s->pool);
    assert_int_equal(vw_device_get_calls(s->host, &calls), VW_OK);
    assert_int_equal(calls.in_use_bytes, 0);
    vw_device_destroy(s->host);
}

static vw_device_ptr take(const scene *s, uint64_t size_bytes)
{
    vw_device_ptr address = VW_NULL;
    assert_int_equal(vw_alloc(s->pool, size_bytes, 0, &address), VW_OK);
    return address;
}

static vw_device_ptr take_whole(const scene *s, uint64_t size_bytes)
{
    const vw_private_options options = {.struct_size = sizeof options, .one_handle = true};
    assert_int_equal(vw_private_pool_retain(s->pool, registered, &options), VW_OK);
    assert_int_equal(vw_private_pool_begin(s->pool, registered, NULL, NULL), VW_OK);
    vw_device_ptr address = take(s, size_bytes);
    assert_int_equal(vw_private_pool_end(s->pool, registered), VW_OK);
    return address;
}

static void expect_refused(const scene *s, vw_device_ptr address, uint64_t size_bytes,
                           vw_status expected, const char *part)
{
    int file = 77;
    unsigned calls = asked.calls;
    assert_int_equal(vw_pool_export_dma_buf(s->pool, address, size_bytes, &file), expected);
    if (strstr(vw_last_error(), part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, vw_last_error());
    assert_int_equal(file, 77);
    assert_int_equal(asked.calls, calls);
}

static void expect_exported(const scene *s, vw_device_ptr address, uint64_t size_bytes)
{
    int file = -1;
    assert_int_equal(vw_pool_export_dma_buf(s->pool, address, size_bytes, &file), VW_OK);
    assert_int_equal(asked.address, address);
    assert_int_equal(asked.size_bytes, size_bytes);
    assert_int_equal(close(file), 0);
}

static void a_block_of_one_handle_is_exported_and_pinned(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "vramwise");
    vw_device_ptr block = take_whole(&s, 40 * VW_TEST_MIB);
    expect_exported(&s, block, 40 * VW_TEST_MIB);
    expect_exported(&s, block + PAGE, PAGE); /* a part: pinned twice now */
    assert_int_equal(vw_pool_unpin(s.pool, block), VW_OK);
    assert_int_equal(vw_pool_unpin(s.pool, block), VW_OK);
    assert_int_equal(vw_pool_unpin(s.pool, block), VW_ERR_UNKNOWN_ADDRESS);
    close_scene(&s);
}

/* Tensors end where they end; pages do not. */
static void a_range_may_reach_beyond_its_block(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "vramwise");
    vw_device_ptr block = take_whole(&s, 700);
    expect_exported(&s, block, PAGE);
    expect_exported(&s, block, 2 * VW_TEST_MIB);
    expect_refused(&s, block, 2 * VW_TEST_MIB + PAGE, VW_ERR_INVALID_ARGUMENT,
                   "expected a range inside the 2097152 bytes of memory at");
    close_scene(&s);
}

static void several_pieces_are_refused_with_their_number(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "vramwise");
    vw_device_ptr block = take(&s, 100 * VW_TEST_MIB);
    expect_refused(&s, block, 100 * VW_TEST_MIB, VW_ERR_UNSUPPORTED, "under the block");
    assert_non_null(strstr(vw_last_error(), "expected one piece of memory, found one of "));
    assert_non_null(strstr(vw_last_error(), "one_handle"));
    expect_exported(&s, block, PAGE); /* that much lies in one */
    close_scene(&s);
}

static void plain_memory_is_of_one_piece(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "torch");
    vw_device_ptr block = take(&s, 30 * VW_TEST_MIB);
    expect_exported(&s, block, 30 * VW_TEST_MIB);
    expect_refused(&s, block + PAGE, 30 * VW_TEST_MIB, VW_ERR_INVALID_ARGUMENT,
                   "expected a range inside the 31457280 bytes");
    close_scene(&s);
}

static void only_whole_pages_of_live_blocks_can_be_asked_for(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "vramwise");
    vw_device_ptr block = take_whole(&s, 4 * VW_TEST_MIB);
    expect_refused(&s, block + 512, PAGE, VW_ERR_INVALID_ARGUMENT, "expected whole pages of");
    expect_refused(&s, block, 512, VW_ERR_INVALID_ARGUMENT, "expected whole pages of");
    expect_refused(&s, block, 0, VW_ERR_INVALID_ARGUMENT, "expected whole pages of");
    expect_refused(&s, block, UINT64_MAX - UINT64_MAX % PAGE, VW_ERR_INVALID_ARGUMENT,
                   "expected a range inside");
    expect_refused(&s, block + 8 * VW_TEST_MIB, PAGE, VW_ERR_UNKNOWN_ADDRESS, "in no live block");
    expect_refused(&s, PAGE, PAGE, VW_ERR_UNKNOWN_ADDRESS, "in no live block");
    assert_int_equal(vw_pool_export_dma_buf(s.pool, block, PAGE, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_free(s.pool, block), VW_OK);
    expect_refused(&s, block, PAGE, VW_ERR_UNKNOWN_ADDRESS, "in no live block");
    close_scene(&s);
}

static void what_the_kernel_refuses_is_not_pinned(void **state)
{
    (void)state;
    scene s;
    int file = 77;
    open_scene(&s, "vramwise");
    vw_device_ptr block = take_whole(&s, 4 * VW_TEST_MIB);
    asked.refuses = true;
    assert_int_equal(vw_pool_export_dma_buf(s.pool, block, PAGE, &file), VW_ERR_DEVICE);
    assert_string_equal(vw_last_error(), "the kernel has no dma-buf today");
    assert_int_equal(file, 77);
    assert_int_equal(vw_pool_unpin(s.pool, block), VW_ERR_UNKNOWN_ADDRESS);
    close_scene(&s);
}

static void a_device_without_them_says_so(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "vramwise");
    vw_device_ptr block = take_whole(&s, 4 * VW_TEST_MIB);
    s.device.properties.has_dma_buf = false;
    expect_refused(&s, block, PAGE, VW_ERR_UNSUPPORTED, "device host makes no dma-buf");
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_of_one_handle_is_exported_and_pinned),
        cmocka_unit_test(a_range_may_reach_beyond_its_block),
        cmocka_unit_test(several_pieces_are_refused_with_their_number),
        cmocka_unit_test(plain_memory_is_of_one_piece),
        cmocka_unit_test(only_whole_pages_of_live_blocks_can_be_asked_for),
        cmocka_unit_test(what_the_kernel_refuses_is_not_pinned),
        cmocka_unit_test(a_device_without_them_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
