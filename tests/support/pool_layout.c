/* pool_layout.c - see pool_layout.h. */
#include "support/pool_layout.h"

#include <inttypes.h>
#include <stdlib.h>

#include "support/cmocka_here.h"

/* ---- blocks ---------------------------------------------------------------------------------- */

typedef struct comparison {
    const vw_test_block *expected;
    size_t expected_count;
    size_t found_count;
    bool is_same;
} comparison;

static bool is_like(uint64_t found, uint64_t expected)
{
    return expected == VW_TEST_ANY || found == expected;
}

static bool compare_block(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    comparison *compare = context;
    size_t index = compare->found_count++;
    (void)segment;
    if (index >= compare->expected_count) {
        compare->is_same = false;
        return true;
    }
    const vw_test_block *expected = &compare->expected[index];
    if (block->state != expected->state || !is_like(block->address, expected->address) ||
        !is_like(block->size_bytes, expected->size_bytes) ||
        !is_like(block->requested_bytes, expected->requested_bytes))
        compare->is_same = false;
    return true;
}

void vw_test_compare_blocks_here(const vw_test_pool *test, const vw_test_block *expected,
                                 size_t count, const char *file, int line)
{
    comparison compare = {expected, count, 0, true};
    const vw_walker walker = {.context = &compare, .block = compare_block};
    assert_int_equal(vw_pool_walk(test->pool, &walker, false), VW_OK);
    if (compare.is_same && compare.found_count == count)
        return;
    char *found = vw_test_describe(test);
    print_error("found\n%s", found);
    free(found);
    print_error("expected\n");
    for (size_t i = 0; i < count; i++) {
        static const char *const states[] = {"live", "pending", "free"};
        print_error("  %#" PRIx64 " %" PRIu64 " requested %" PRId64 " %s\n", expected[i].address,
                    expected[i].size_bytes, (int64_t)expected[i].requested_bytes,
                    states[expected[i].state]);
    }
    _fail(file, line);
}

/* ---- segments -------------------------------------------------------------------------------- */

typedef struct segment_search {
    vw_device_ptr address;
    vw_segment_info found;
    bool is_found;
} segment_search;

static bool look_at_segment(void *context, const vw_segment_info *segment)
{
    segment_search *search = context;
    if (segment->address != search->address)
        return true;
    search->found = *segment;
    search->is_found = true;
    return false;
}

vw_segment_info vw_test_segment_at(const vw_test_pool *test, vw_device_ptr address)
{
    segment_search search = {.address = address};
    const vw_walker walker = {.context = &search, .segment = look_at_segment};
    assert_int_equal(vw_pool_walk(test->pool, &walker, false), VW_OK);
    assert_true(search.is_found);
    return search.found;
}

/* ---- statistics ------------------------------------------------------------------------------ */

void vw_test_compare_stat_here(vw_stat found, int64_t current, int64_t peak, int64_t allocated,
                               int64_t freed, const char *name, const char *file, int line)
{
    if (found.current == current && found.peak == peak && found.allocated == allocated &&
        found.freed == freed)
        return;
    print_error("%s: current %" PRId64 " peak %" PRId64 " allocated %" PRId64 " freed %" PRId64
                ", expected %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
                name, found.current, found.peak, found.allocated, found.freed, current, peak,
                allocated, freed);
    _fail(file, line);
}

uint64_t vw_test_call_count(const vw_test_pool *test, vw_device_call kind)
{
    return vw_test_calls(test).count[kind];
}

/* ---- requests -------------------------------------------------------------------------------- */

void vw_test_dictate(vw_test_pool *test, vw_device_ptr address)
{
    vw_test_ok(test, vw_simulated_dictate_address(test->device, address));
}

vw_device_ptr vw_test_alloc_tagged(vw_test_pool *test, uint64_t size_bytes, uint64_t tag)
{
    const vw_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = size_bytes, .tag = tag};
    vw_device_ptr address = VW_NULL;
    vw_test_ok(test, vw_alloc_with(test->pool, &request, &address));
    return address;
}

uint64_t vw_test_served_bytes(vw_test_pool *test, uint64_t size_bytes)
{
    uint64_t served_bytes = 0;
    const vw_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = size_bytes, .served_bytes = &served_bytes};
    vw_device_ptr address = VW_NULL;
    vw_test_ok(test, vw_alloc_with(test->pool, &request, &address));
    return served_bytes;
}

void vw_test_pool_open_with(vw_test_pool *test, const char *torch_version, const char *conf)
{
    const vw_test_pool_setup setup = {.torch_version = torch_version, .conf = conf};
    vw_test_pool_open(test, &setup);
}
