/* test_block.c - records, and how they are linked, parted and joined. */
#include "engine/block.h"

#include <string.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

enum { KIB = 1024 };

/* ---- where records come from ----------------------------------------------------------------- */

static void a_chunk_is_handed_out_record_by_record_and_no_two_alike(void **state)
{
    (void)state;
    vw__block_source source;
    vw__block *taken[VW__BLOCK_CHUNK_RECORDS];
    vw__block_source_init(&source);
    assert_int_equal(source.spare_count, 0);
    assert_true(vw__block_source_reserve(&source, 1));
    assert_int_equal(source.spare_count, VW__BLOCK_CHUNK_RECORDS);
    for (size_t i = 0; i < VW__BLOCK_CHUNK_RECORDS; i++) {
        taken[i] = vw__block_take(&source);
        assert_int_equal((uintptr_t)taken[i] % 64, 0);
        for (size_t k = 0; k < i; k++)
            assert_ptr_not_equal(taken[i], taken[k]);
    }
    assert_int_equal(source.spare_count, 0);
    assert_null(source.spare);
    for (size_t i = 0; i < VW__BLOCK_CHUNK_RECORDS; i++)
        vw__block_give_back(&source, taken[i]);
    assert_int_equal(source.spare_count, VW__BLOCK_CHUNK_RECORDS);
    vw__block_source_deinit(&source);
}

static void a_record_forgets_its_last_life(void **state)
{
    (void)state;
    vw__block_source source;
    vw__block_source_init(&source);
    assert_true(vw__block_source_reserve(&source, 1));
    vw__block *block = vw__block_take(&source);
    block->requested_bytes = 1;
    block->tag = 2;
    block->segment_tag = 3;
    block->uses = (struct vw__stream_order_use *)(void *)block;
    block->pending_events = 4;
    vw__block_give_back(&source, block);
    assert_ptr_equal(vw__block_take(&source), block); /* the last in is the first out: warm */
    assert_int_equal(block->requested_bytes, 0);
    assert_int_equal(block->tag, 0);
    assert_int_equal(block->segment_tag, 0);
    assert_null(block->uses);
    assert_int_equal(block->pending_events, 0);
    vw__block_source_deinit(&source);
}

static void reserving_takes_memory_only_for_what_is_missing(void **state)
{
    (void)state;
    vw__block_source source;
    vw__block_source_init(&source);
    assert_true(vw__block_source_reserve(&source, 0));
    assert_int_equal(source.spare_count, 0);
    assert_true(vw__block_source_reserve(&source, VW__BLOCK_CHUNK_RECORDS + 1));
    assert_int_equal(source.spare_count, 2 * VW__BLOCK_CHUNK_RECORDS);
    uint64_t calls = vw__host_memory_get_use().call_count;
    assert_true(vw__block_source_reserve(&source, 2 * VW__BLOCK_CHUNK_RECORDS));
    assert_int_equal(vw__host_memory_get_use().call_count, calls);
    vw__block_source_deinit(&source);
}

static bool reserve_three_chunks(void *context)
{
    (void)context;
    vw__block_source source;
    vw__block_source_init(&source);
    bool has_succeeded = vw__block_source_reserve(&source, 3 * VW__BLOCK_CHUNK_RECORDS);
    assert_true(has_succeeded == (source.spare_count == 3 * VW__BLOCK_CHUNK_RECORDS));
    assert_int_equal(source.spare_count % VW__BLOCK_CHUNK_RECORDS, 0);
    vw__block_source_deinit(&source);
    return has_succeeded;
}

static void a_source_without_host_memory_keeps_what_it_has(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(reserve_three_chunks, NULL);
}

/* ---- a segment and its blocks ---------------------------------------------------------------- */

typedef struct row {
    vw__block_source source;
    vw__segment segment;
} row;

static void row_open(row *all)
{
    memset(all, 0, sizeof *all);
    vw__block_source_init(&all->source);
    assert_true(vw__block_source_reserve(&all->source, 16));
    all->segment.address = 64 * KIB;
    all->segment.size_bytes = 64 * KIB;
    all->segment.nature = VW__BLOCK_NATURE_LARGE | VW__BLOCK_NATURE_EXPANDABLE;
    all->segment.first = vw__block_make(&all->source, &all->segment, 64 * KIB, 64 * KIB, 9);
}

/* The segment's blocks, forwards and backwards, are exactly these sizes. */
static void expect_sizes(const row *all, const uint64_t *sizes_kib, size_t count)
{
    uint64_t address = all->segment.address;
    const vw__block *block = all->segment.first, *last = NULL;
    for (size_t i = 0; i < count; i++) {
        assert_non_null(block);
        assert_int_equal(block->address, address);
        assert_int_equal(block->size_bytes, sizes_kib[i] * KIB);
        assert_ptr_equal(block->previous, last);
        assert_ptr_equal(block->segment, &all->segment);
        address += block->size_bytes;
        last = block;
        block = block->next;
    }
    assert_null(block);
}

#define EXPECT_SIZES(all, ...)                                                                     \
    expect_sizes(all, (const uint64_t[]){__VA_ARGS__},                                             \
                 sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* As a split does it: a new record for the low part. */
static vw__block *cut_low(row *all, vw__block *block, uint64_t size_kib)
{
    vw__block *low = vw__block_make(&all->source, &all->segment, block->address, size_kib * KIB, 1);
    vw__block_link_before(low, block);
    block->address += size_kib * KIB;
    block->size_bytes -= size_kib * KIB;
    return low;
}

/* As mapping does it: a new record for the rest. */
static vw__block *cut_high(row *all, vw__block *block, uint64_t size_kib)
{
    block->size_bytes -= size_kib * KIB;
    vw__block *high = vw__block_make(&all->source, &all->segment,
                                     block->address + block->size_bytes, size_kib * KIB, 1);
    vw__block_link_after(high, block);
    return high;
}

static void a_new_record_has_its_nature_from_its_segment(void **state)
{
    (void)state;
    row all;
    row_open(&all);
    const vw__block *block = all.segment.first;
    assert_int_equal(block->nature, all.segment.nature);
    assert_true(vw__block_is_expandable(block) && vw__segment_is_expandable(&all.segment));
    assert_int_equal(block->tie_break, 9);
    assert_null(block->previous);
    assert_null(block->next);
    assert_false(vw__block_is_split(block));
    vw__block_source_deinit(&all.source);
}

static void low_parts_are_linked_before_and_the_segment_knows_its_first(void **state)
{
    (void)state;
    row all;
    row_open(&all);
    vw__block *whole = all.segment.first;
    vw__block *low = cut_low(&all, whole, 8);
    assert_ptr_equal(all.segment.first, low);
    EXPECT_SIZES(&all, 8, 56);
    vw__block *middle = cut_low(&all, whole, 16);
    assert_ptr_equal(all.segment.first, low);
    EXPECT_SIZES(&all, 8, 16, 40);
    assert_true(vw__block_is_split(low) && vw__block_is_split(middle) && vw__block_is_split(whole));
    vw__block_source_deinit(&all.source);
}

static void high_parts_are_linked_after(void **state)
{
    (void)state;
    row all;
    row_open(&all);
    vw__block *whole = all.segment.first;
    cut_high(&all, whole, 24);
    cut_high(&all, whole, 8);
    assert_ptr_equal(all.segment.first, whole);
    EXPECT_SIZES(&all, 32, 8, 24);
    vw__block_source_deinit(&all.source);
}

static void the_record_that_absorbs_survives_with_its_own_memory(void **state)
{
    (void)state;
    row all;
    row_open(&all);
    vw__block *high = all.segment.first;
    vw__block *low = cut_low(&all, high, 8);
    vw__block *middle = cut_low(&all, high, 16);
    low->segment_tag = 1;
    middle->segment_tag = 2;
    high->segment_tag = 3;
    middle->requested_bytes = 77;

    vw__block_absorb_next(middle); /* a merge with next keeps the survivor's segment tag */
    EXPECT_SIZES(&all, 8, 56);
    assert_int_equal(middle->segment_tag, 2);
    vw__block_absorb_previous(middle); /* a merge with previous takes the neighbour's */
    EXPECT_SIZES(&all, 64);
    assert_ptr_equal(all.segment.first, middle);
    assert_int_equal(middle->segment_tag, 1);
    assert_int_equal(middle->requested_bytes, 77);
    assert_false(vw__block_is_split(middle));
    vw__block_source_deinit(&all.source);
}

static void absorbing_inside_a_row_leaves_the_others_linked(void **state)
{
    (void)state;
    row all;
    row_open(&all);
    vw__block *last = all.segment.first;
    cut_low(&all, last, 4);
    vw__block *second = cut_low(&all, last, 4);
    vw__block *third = cut_low(&all, last, 8);
    cut_low(&all, last, 16);
    EXPECT_SIZES(&all, 4, 4, 8, 16, 32);
    vw__block_absorb_previous(third);
    EXPECT_SIZES(&all, 4, 12, 16, 32);
    vw__block_give_back(&all.source, second);
    vw__block_absorb_next(third);
    EXPECT_SIZES(&all, 4, 28, 32);
    vw__block_source_deinit(&all.source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_is_handed_out_record_by_record_and_no_two_alike),
        cmocka_unit_test(a_record_forgets_its_last_life),
        cmocka_unit_test(reserving_takes_memory_only_for_what_is_missing),
        cmocka_unit_test(a_source_without_host_memory_keeps_what_it_has),
        cmocka_unit_test(a_new_record_has_its_nature_from_its_segment),
        cmocka_unit_test(low_parts_are_linked_before_and_the_segment_knows_its_first),
        cmocka_unit_test(high_parts_are_linked_after),
        cmocka_unit_test(the_record_that_absorbs_survives_with_its_own_memory),
        cmocka_unit_test(absorbing_inside_a_row_leaves_the_others_linked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
