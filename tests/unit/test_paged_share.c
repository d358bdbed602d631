/* test_paged_share.c - pages in use at several addresses: how they come about, how blocks in them
 * come free, in every order, and what becomes of them.
 *
 * Sharing is forced: a device of a few units, all of them partly in use, and a request of another
 * stream that needs whole ones. The host device's unit is 64 KiB, so that a scene can be drawn by
 * hand, and every byte is looked at. */
#include "vramwise/vramwise.h"

#include <string.h>
#include <unistd.h> /* close */

#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/patterned_pool.h"

#define KIB VW_TEST_KIB
#define UNIT (64 * KIB) /* of the host device */

static vw_test_pool_setup host_of(uint64_t units)
{
    return (vw_test_pool_setup){
        .engine = "vramwise:rescue", .on_host = true, .capacity_bytes = units * UNIT};
}

/* ---- what a walk sees ------------------------------------------------------------------------ */

typedef struct sums {
    uint64_t segment_bytes, block_bytes, live_bytes;
} sums;

static bool add_segment(void *context, const vw_segment_info *segment)
{
    ((sums *)context)->segment_bytes += segment->total_bytes;
    return true;
}

static bool add_block(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    sums *sum = context;
    (void)segment;
    sum->block_bytes += block->size_bytes;
    if (block->state != VW_BLOCK_FREE)
        sum->live_bytes += block->size_bytes;
    return true;
}

/* Each physical byte once, whatever it is mapped at. */
static void expect_sums(const vw_test_patterns *p)
{
    sums sum = {0, 0, 0};
    const vw_walker walker = {.context = &sum, .segment = add_segment, .block = add_block};
    assert_int_equal(vw_pool_walk(p->t.pool, &walker, false), VW_OK);
    assert_int_equal(sum.segment_bytes, vw_test_reserved_bytes(p));
    assert_int_equal(sum.block_bytes, sum.segment_bytes);
    assert_int_equal(sum.live_bytes, vw_test_live_bytes(p));
    assert_int_equal(vw_test_calls(&p->t).in_use_bytes, sum.segment_bytes);
}

static void let_go(vw_test_patterns *p, vw_device_ptr address)
{
    vw_test_let_go(p, address);
    vw_test_look_at_all(p);
    expect_sums(p);
}

/* ---- two pages ------------------------------------------------------------------------------- */

enum { QUARTERS = 4 };

/* Two units, the low half of the first in use and the high half of the second, on one: `live` gets
 * the four blocks, the guest's last. Among pages equally used the lower one is the guest. Another
 * stream's block has the other unit. */
static void share_two(vw_test_patterns *p, vw_device_ptr live[QUARTERS])
{
    vw_device_ptr blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = vw_test_hold(p, UNIT / 4, 0);
    for (int i = 2; i < 6; i++)
        vw_test_let_go(p, blocks[i]);
    vw_test_hold(p, UNIT, 1);
    assert_int_equal(vw_test_paged_stats(p).shared_pages, 1);
    live[0] = blocks[6];
    live[1] = blocks[7];
    live[2] = blocks[0];
    live[3] = blocks[1];
    vw_test_look_at_all(p);
    expect_sums(p);
}

/* Memory that is given back in the background (keep_free) is looked for behind frees alone. */
static void a_page_that_was_shared_goes_back_once_all_parts_are_free(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr live[QUARTERS];
    vw_test_pool_setup setup = host_of(2);
    vw_test_patterns_open(&p, &setup);
    share_two(&p, live);
    for (int i = 0; i < QUARTERS; i++)
        let_go(&p, live[i]);
    vw__engine *engine = p.t.pool->engine;
    vw__engine_slice slice;
    uint64_t given_bytes = 0;
    do { /* the first look only marks the streams */
        slice = (vw__engine_slice){.wanted_bytes = UINT64_MAX, .most_handles = 8};
        vw_test_ok(&p.t, engine->table->give_back(engine, &slice));
        given_bytes += slice.given_bytes;
    } while (slice.given_bytes != 0 || slice.is_waiting);
    assert_int_equal(given_bytes, UNIT);
    assert_int_equal(vw_test_reserved_bytes(&p), UNIT);
    expect_sums(&p);
    vw_test_patterns_close(&p);
}

static void two_half_used_pages_need_but_one(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr live[QUARTERS];
    vw_test_pool_setup setup = host_of(2);
    vw_test_patterns_open(&p, &setup);
    share_two(&p, live);
    assert_int_equal(p.entered, 1);
    vw_paged_stats stats = vw_test_paged_stats(&p);
    assert_int_equal(stats.copies, 1);
    assert_int_equal(stats.copied_bytes, UNIT / 2);
    assert_int_equal(stats.refused_copies, 0);
    assert_int_equal(vw_test_reserved_bytes(&p), 2 * UNIT);
    vw_block_place place;
    for (int i = 0; i < QUARTERS; i++) {
        vw_test_ok(&p.t, vw_pool_find(p.t.pool, live[i] + 5, &place));
        assert_int_equal(place.block_address, live[i]);
        assert_int_equal(place.block_bytes, UNIT / 4);
    }
    vw_test_patterns_close(&p);
}

/* What lies at a guest is memory of another page, and that is what a process gets. */
static void a_block_in_a_shared_page_can_be_handed_to_a_process(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr live[QUARTERS];
    vw_device *elsewhere = NULL;
    vw_test_pool_setup setup = host_of(2);
    setup.is_shareable = true;
    vw_test_patterns_open(&p, &setup);
    share_two(&p, live);
    assert_int_equal(vw_host_device_create(UNIT, &elsewhere), VW_OK);
    for (int i = 0; i < QUARTERS; i++) {
        vw_shared_part part;
        size_t count = 0;
        uint64_t offset_bytes = 0;
        vw_device_ptr opened = VW_NULL;
        vw_test_ok(&p.t, vw_pool_share(p.t.pool, live[i], &part, 1, &count, &offset_bytes));
        assert_int_equal(part.size_bytes, UNIT);
        assert_int_equal(vw_shared_open(elsewhere, &part, 1, &opened), VW_OK);
        assert_int_equal(close(part.file_descriptor), 0);
        assert_memory_equal((void *)(uintptr_t)(opened + offset_bytes), (void *)(uintptr_t)live[i],
                            UNIT / 4);
        assert_int_equal(vw_shared_close(elsewhere, opened), VW_OK);
        if (i % 2 == 0)
            vw_test_ok(&p.t, vw_pool_unpin(p.t.pool, live[i]));
    }
    let_go(&p, live[3]); /* pinned still, as live[1] */
    let_go(&p, live[2]); /* the guest is vacated, and stays */
    vw_test_trim(&p.t);
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 1);
    vw_test_ok(&p.t, vw_pool_unpin(p.t.pool, live[3]));
    vw_test_ok(&p.t, vw_pool_unpin(p.t.pool, live[1]));
    vw_test_trim(&p.t);
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 0);
    vw_device_destroy(elsewhere);
    vw_test_patterns_close(&p);
}

/* All 24 orders: at home first, at the guest first, mixed; low part, high part. */
static void blocks_of_shared_pages_come_free_in_every_order(void **state)
{
    (void)state;
    for (int order = 0; order < 24; order++) {
        vw_test_patterns p;
        vw_device_ptr live[QUARTERS];
        vw_test_pool_setup setup = host_of(2);
        vw_test_patterns_open(&p, &setup);
        share_two(&p, live);
        int rest = order;
        for (int left = QUARTERS; left > 0; left--) {
            int index = rest % left;
            rest /= left;
            let_go(&p, live[index]);
            memmove(&live[index], &live[index + 1], sizeof live[0] * (size_t)(left - 1 - index));
        }
        vw_device_ptr whole = vw_test_hold(&p, UNIT, 0); /* what came free is one page again */
        expect_sums(&p);
        vw_test_let_go(&p, whole);
        vw_test_trim(&p.t);
        assert_int_equal(vw_test_paged_stats(&p).shared_pages, 0);
        assert_int_equal(vw_test_paged_stats(&p).retiring_bytes, 0);
        assert_int_equal(vw_test_reserved_bytes(&p), UNIT); /* the other stream's */
        vw_test_patterns_close(&p);
    }
}

/* What comes free at the guest is handed out at home, and only there. */
static void free_bytes_of_a_shared_page_belong_to_its_home(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr live[QUARTERS];
    vw_test_pool_setup setup = host_of(2);
    vw_test_patterns_open(&p, &setup);
    share_two(&p, live);
    vw_device_ptr home = live[0] - UNIT / 2;
    vw_test_let_go(&p, live[2]);
    assert_int_equal(vw_test_hold(&p, UNIT / 4, 0), home);
    vw_test_look_at_all(&p);
    vw_test_let_go(&p, live[3]);
    assert_int_equal(vw_test_hold(&p, UNIT / 4, 0), home + UNIT / 4);
    vw_test_alloc_fails(&p.t, 512, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_look_at_all(&p);
    vw_test_patterns_close(&p);
}

static void a_vacated_guest_becomes_a_ghost_at_the_next_miss(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr live[QUARTERS];
    vw_test_pool_setup setup = host_of(2);
    vw_test_patterns_open(&p, &setup);
    share_two(&p, live);
    vw_test_let_go(&p, live[2]);
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 1);
    vw_test_let_go(&p, live[3]);
    uint64_t retiring_bytes = vw_test_paged_stats(&p).retiring_bytes;
    vw_test_alloc_fails(&p.t, 2 * UNIT, 0, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 0);
    assert_int_equal(vw_test_paged_stats(&p).retiring_bytes, retiring_bytes + UNIT);
    vw_test_trim(&p.t);
    assert_int_equal(vw_test_paged_stats(&p).retiring_bytes, 0);
    vw_test_look_at_all(&p);
    vw_test_patterns_close(&p);
}

static void a_trim_leaves_a_shared_page_as_it_is(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr live[QUARTERS];
    vw_test_pool_setup setup = host_of(2);
    vw_test_patterns_open(&p, &setup);
    share_two(&p, live);
    for (int i = 0; i < QUARTERS; i++) {
        vw_test_trim(&p.t);
        vw_test_look_at_all(&p);
        expect_sums(&p);
        let_go(&p, live[(i + 2) % QUARTERS]);
    }
    vw_test_trim(&p.t);
    assert_int_equal(vw_test_reserved_bytes(&p), UNIT);
    vw_test_patterns_close(&p);
}

/* ---- streams, pins, captures ----------------------------------------------------------------- */

static void a_block_of_a_guest_that_another_stream_uses_comes_free_later(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr live[QUARTERS];
    vw_test_pool_setup setup = host_of(2);
    vw_test_patterns_open(&p, &setup);
    share_two(&p, live);
    assert_int_equal(vw_device_hold_streams(p.t.device, true), VW_OK);
    for (int i = 2; i < QUARTERS; i++) {
        vw_test_ok(&p.t, vw_record_stream(p.t.pool, live[i], 5));
        let_go(&p, live[i]);
    }
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 1);
    vw_test_alloc_fails(&p.t, UNIT, 0, VW_ERR_OUT_OF_MEMORY); /* waits for them, and finds half */
    vw_test_hold(&p, UNIT / 2, 0);
    expect_sums(&p);
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 0);
    vw_test_patterns_close(&p);
}

/* The guest's address is what a network card knows: it stays mapped though the block is freed. */
static void a_guest_with_a_pin_stays_mapped(void **state)
{
    (void)state;
    static vw_test_spy spy;
    vw_test_patterns p;
    vw_device_ptr live[QUARTERS];
    vw_test_pool_setup setup = host_of(2);
    spy = (vw_test_spy){.call_count = 0};
    setup.spy = &spy;
    vw_test_patterns_open(&p, &setup);
    share_two(&p, live);
    vw_device_ptr guest = live[2];
    vw_test_ok(&p.t, vw_pool_pin(p.t.pool, live[2]));
    for (int i = 0; i < QUARTERS; i++)
        vw_test_let_go(&p, live[i]);
    vw_test_spy_forget(&spy);
    vw_test_alloc_fails(&p.t, 2 * UNIT, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_trim(&p.t);
    const vw_test_call_made *made = NULL;
    while ((made = vw_test_spy_find(&spy, VW_TEST_UNMAP, made)) != NULL)
        assert_int_not_equal(made->address, guest);
    vw_test_ok(&p.t, vw_pool_unpin(p.t.pool, live[2]));
    vw_test_trim(&p.t);
    assert_int_equal(vw_test_reserved_bytes(&p), UNIT);
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 0);
    vw_test_patterns_close(&p);
}

/* An event recorded now would become part of the graph. */
static void a_guest_of_a_captured_stream_is_left_until_the_capture_ends(void **state)
{
    (void)state;
    static vw_test_spy spy;
    const vw_private_id graph = {1, 2};
    vw_test_patterns p;
    vw_device_ptr live[QUARTERS];
    vw_test_pool_setup setup = host_of(2);
    spy = (vw_test_spy){.call_count = 0};
    setup.spy = &spy;
    vw_test_patterns_open(&p, &setup);
    share_two(&p, live);
    for (int i = 2; i < QUARTERS; i++)
        vw_test_let_go(&p, live[i]);
    vw_test_ok(&p.t, vw_private_pool_begin(p.t.pool, graph, NULL, NULL));
    assert_int_equal(vw_device_set_capturing(p.t.device, 0, true), VW_OK);
    vw_test_spy_forget(&spy);
    vw_test_alloc_fails(&p.t, 2 * UNIT, 3, VW_ERR_OUT_OF_MEMORY); /* another stream's miss */
    (void)vw_pool_trim(p.t.pool);
    const vw_test_call_made *made = NULL;
    while ((made = vw_test_spy_find(&spy, VW_TEST_EVENT_RECORD, made)) != NULL)
        assert_int_not_equal(made->stream, 0);
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 1);
    assert_int_equal(vw_device_set_capturing(p.t.device, 0, false), VW_OK);
    vw_test_ok(&p.t, vw_private_pool_end(p.t.pool, graph));
    vw_test_trim(&p.t);
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 0);
    vw_test_patterns_close(&p);
}

/* ---- blocks across units --------------------------------------------------------------------- */

/* A block from the end of one unit over a whole one to the beginning of a third, whose two ends
 * share with others; which of a pair is the guest is decided by which is less used. */
static void share_under_a_long_block(vw_test_patterns *p, uint64_t low_partner_bytes,
                                     uint64_t high_partner_bytes, vw_device_ptr live[3])
{
    const uint64_t end_bytes = 16 * KIB;
    vw_device_ptr before = vw_test_hold(p, UNIT - end_bytes, 0);
    live[0] = vw_test_hold(p, UNIT + 2 * end_bytes, 0);
    vw_device_ptr after = vw_test_hold(p, UNIT - end_bytes, 0);
    live[1] = vw_test_hold(p, low_partner_bytes, 0);
    vw_device_ptr between = vw_test_hold(p, 2 * UNIT - low_partner_bytes - high_partner_bytes, 0);
    live[2] = vw_test_hold(p, high_partner_bytes, 0);
    assert_int_equal(live[2] + high_partner_bytes, before + 5 * UNIT);
    vw_test_let_go(p, before);
    vw_test_let_go(p, after);
    vw_test_let_go(p, between);
    vw_test_hold(p, 2 * UNIT, 1);
    assert_int_equal(vw_test_paged_stats(p).shared_pages, 2);
    vw_test_look_at_all(p);
    expect_sums(p);
}

static void a_block_across_three_units_comes_free_in_parts(void **state)
{
    (void)state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int scene = 0; scene < 24; scene++) {
        vw_test_patterns p;
        vw_device_ptr live[3];
        vw_test_pool_setup setup = host_of(5);
        vw_test_patterns_open(&p, &setup);
        share_under_a_long_block(&p, (scene & 1) != 0 ? 40 * KIB : 8 * KIB,
                                 (scene & 2) != 0 ? 40 * KIB : 8 * KIB, live);
        for (int i = 0; i < 3; i++)
            let_go(&p, live[orders[scene / 4][i]]);
        vw_test_let_go(&p, vw_test_hold(&p, 3 * UNIT, 0));
        vw_test_trim(&p.t);
        assert_int_equal(vw_test_reserved_bytes(&p), 2 * UNIT);
        assert_int_equal(vw_test_paged_stats(&p).shared_pages, 0);
        vw_test_patterns_close(&p);
    }
}

/* ---- many ------------------------------------------------------------------------------------ */

static void hold_many(vw_test_patterns *p, int count)
{
    vw_device_ptr address = VW_NULL;
    for (int i = 0; i < count; i++)
        assert_int_equal(vw_test_try_to_hold(p, 512, 0, &address), VW_OK);
}

/* Two pages of 2 MiB, each half full of the smallest blocks: each is a piece of its own. */
static void pages_full_of_the_smallest_blocks_can_share(void **state)
{
    (void)state;
    const uint64_t half_bytes = VW_TEST_MIB;
    vw_test_patterns p;
    vw_test_patterns_open(
        &p, &(vw_test_pool_setup){.engine = "vramwise:rescue", .capacity_bytes = 4 * half_bytes});
    hold_many(&p, (int)(half_bytes / 512));
    vw_device_ptr low = vw_test_hold(&p, half_bytes, 0), high = vw_test_hold(&p, half_bytes, 0);
    hold_many(&p, (int)(half_bytes / 512));
    vw_test_let_go(&p, low);
    vw_test_let_go(&p, high);
    vw_test_hold(&p, half_bytes, 1);
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 1);
    expect_sums(&p);
    while (p.held_count != 0)
        vw_test_let_go_at(&p, vw_test_random(&p) % p.held_count);
    vw_test_trim(&p.t);
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 0);
    assert_int_equal(vw_test_reserved_bytes(&p), 0);
    vw_test_patterns_close(&p);
}

/* A device nearly full of small blocks, for a long time. */
static void a_pool_that_lives_on_shared_pages_keeps_every_byte(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        uint64_t most_shared = 0, served = 0;
        vw_test_patterns p;
        vw_test_pool_setup setup = host_of(24);
        vw_test_patterns_open(&p, &setup);
        p.random = seed * UINT64_C(0xD1342543DE82EF95);
        for (int step = 0; step < 3000; step++) {
            vw_device_ptr address = VW_NULL;
            uint64_t size_bytes = vw_test_random_size(&p, KIB, 96 * KIB);
            vw_status status =
                vw_test_try_to_hold(&p, size_bytes, vw_test_random(&p) % 2, &address);
            served += status == VW_OK;
            vw_test_refused(&p.t, status, status == VW_OK ? VW_OK : VW_ERR_OUT_OF_MEMORY);
            while (p.held_count != 0 && (status != VW_OK || vw_test_random(&p) % 3 == 0)) {
                vw_test_let_go_at(&p, vw_test_random(&p) % p.held_count);
                if (vw_test_random(&p) % 4 == 0)
                    break;
            }
            if (step % 64 == 0)
                vw_test_look_at_all(&p);
            expect_sums(&p);
            uint64_t shared = vw_test_paged_stats(&p).shared_pages;
            most_shared = shared > most_shared ? shared : most_shared;
            vw_test_forget_events(&p.t);
        }
        assert_true(most_shared >= 2);
        assert_true(served > 2000);
        vw_test_patterns_close(&p);
    }
}

/* ---- with memory on the host ----------------------------------------------------------------- */

/* A block of four units from the last quarter of one on. Its first page is a guest of its last, and
 * what is between them leaves the device. When it is freed it comes apart: the first part comes
 * free at the last page, beside another part of the same block. */
static void a_block_that_is_its_own_guest_comes_free_from_the_host(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_device_ptr quarters[QUARTERS];
    vw_test_pool_setup setup = host_of(5);
    setup.spill_bytes = 16 * UNIT;
    vw_test_patterns_open(&p, &setup);
    vw_device_ptr first = vw_test_hold(&p, UNIT / 4 * 3, 0);
    vw_device_ptr block = vw_test_hold(&p, 4 * UNIT, 0);
    vw_test_let_go(&p, first);
    for (int i = 0; i < QUARTERS; i++)
        quarters[i] = vw_test_hold(&p, UNIT / 4, 1);
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 1);
    for (int i = 0; i < QUARTERS; i++) /* the next to be used were records of free blocks */
        vw_test_let_go(&p, quarters[i]);
    vw_test_ok(&p.t, vw_advise(p.t.pool, block, VW_ADVISE_COLD));
    vw_test_hold(&p, 3 * UNIT, 1);
    assert_true(vw_test_paged_stats(&p).spilled_bytes >= 2 * UNIT);
    assert_int_equal(vw_test_paged_stats(&p).shared_pages, 1);
    vw_test_look_at_all(&p);
    vw_test_let_go(&p, block);
    assert_int_equal(vw_test_paged_stats(&p).spilled_bytes, 0);
    assert_int_equal(vw_test_live_bytes(&p), 3 * UNIT);
    vw_test_look_at_all(&p);
    vw_test_hold(&p, 2 * UNIT, 0);
    vw_test_look_at_all(&p);
    vw_test_patterns_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_that_is_its_own_guest_comes_free_from_the_host),
        cmocka_unit_test(two_half_used_pages_need_but_one),
        cmocka_unit_test(a_page_that_was_shared_goes_back_once_all_parts_are_free),
        cmocka_unit_test(a_block_in_a_shared_page_can_be_handed_to_a_process),
        cmocka_unit_test(blocks_of_shared_pages_come_free_in_every_order),
        cmocka_unit_test(free_bytes_of_a_shared_page_belong_to_its_home),
        cmocka_unit_test(a_vacated_guest_becomes_a_ghost_at_the_next_miss),
        cmocka_unit_test(a_trim_leaves_a_shared_page_as_it_is),
        cmocka_unit_test(a_block_of_a_guest_that_another_stream_uses_comes_free_later),
        cmocka_unit_test(a_guest_with_a_pin_stays_mapped),
        cmocka_unit_test(a_guest_of_a_captured_stream_is_left_until_the_capture_ends),
        cmocka_unit_test(a_block_across_three_units_comes_free_in_parts),
        cmocka_unit_test(pages_full_of_the_smallest_blocks_can_share),
        cmocka_unit_test(a_pool_that_lives_on_shared_pages_keeps_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
