/* test_paged_rescue.c - live data copied to other pages: when, when not, and that nobody notices.
 *
 * On the host device, whose addresses can be read through: a block's address stays, and so does
 * every byte of it. */
#include "engine/paged/paged_engine.h"

#include <stdlib.h>

#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/patterned_pool.h"

#define UNIT (64 * VW_TEST_KIB) /* of the host device */
#define MIB VW_TEST_MIB

static const vw_test_pool_setup on_a_full_device = {
    .engine = "vramwise:rescue", .on_host = true, .capacity_bytes = 14 * MIB};

static const vw_test_pool_setup under_a_fraction = {
    .engine = "vramwise:rescue", .on_host = true, .capacity_bytes = 32 * MIB, .fraction = 0.5};

static vw_test_spy spy; /* one at a time */

/* ---- a scene --------------------------------------------------------------------------------- */

/* Handles of several MiB, with blocks of 1.5 MiB here and there: two units and more are free in
 * each, but hardly a handle is. Blocks lie inside one handle and across two. */
static void scatter(vw_test_patterns *p, vw_stream stream)
{
    vw_device_ptr dropped[9] = {VW_NULL};
    vw_test_free(&p->t, vw_test_alloc_on(&p->t, 14 * MIB, stream));
    for (int i = 0; i < 9; i++) {
        if (i == 1 || i == 2 || i == 4 || i == 6)
            vw_test_hold(p, 24 * UNIT - (uint64_t)i * 1000, stream);
        else
            dropped[i] = vw_test_alloc_on(&p->t, 24 * UNIT - (uint64_t)i * 1000, stream);
    }
    for (int i = 0; i < 9; i++)
        vw_test_free(&p->t, dropped[i]); /* VW_NULL is nothing */
    assert_int_equal(p->asked, 0);
}

static uint64_t copied_bytes(const vw_test_patterns *p)
{
    return vw_test_paged_stats(p).copied_bytes;
}

/* ---- served ---------------------------------------------------------------------------------- */

static void a_request_that_moves_alone_cannot_serve_is_served_by_copying(void **state)
{
    (void)state;
    static const vw_test_pool_setup *const setups[] = {&on_a_full_device, &under_a_fraction};
    for (int i = 0; i < 2; i++) {
        vw_test_patterns p;
        vw_test_patterns_open(&p, setups[i]);
        scatter(&p, 0);
        p.refuses = true;
        vw_test_alloc_fails(&p.t, (i == 0 ? 7 : 9) * MIB, 1, VW_ERR_OUT_OF_MEMORY);
        assert_true(p.asked != 0);
        assert_true(vw_test_paged_stats(&p).refused_copies != 0);
        vw_test_patterns_close(&p);

        vw_test_pool_setup usual = *setups[i];
        usual.engine = "vramwise"; /* copies as well */
        vw_test_patterns_open(&p, &usual);
        scatter(&p, 0);
        vw_test_hold(&p, (i == 0 ? 7 : 9) * MIB, 1);
        assert_true(p.entered >= 1 && p.left == p.entered);
        assert_true(copied_bytes(&p) >= MIB);
        assert_int_equal(vw_test_paged_stats(&p).copies, p.entered);
        assert_true(vw_test_calls(&p.t).peak_use_bytes <= (i == 0 ? 14 : 16) * MIB);
        vw_test_look_at_all(&p);
        vw_test_patterns_close(&p);
    }
}

/* The caller's own stream, too. */
static void a_request_of_the_same_stream_is_served_by_copying(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_test_patterns_open(&p, &on_a_full_device);
    scatter(&p, 0);
    vw_test_hold(&p, 7 * MIB, 0);
    assert_true(copied_bytes(&p) >= MIB);
    vw_test_look_at_all(&p);
    while (p.held_count != 0)
        vw_test_let_go(&p, p.held[0].address);
    vw_test_hold(&p, 14 * MIB, 0); /* nothing is lost of it */
    vw_test_patterns_close(&p);
}

/* A pool in mode tight whose growth limit leaves no room: what may be idle is 4 MiB, so that
 * handles are of 2, and as much is live on a stream of its own. */
static void scatter_at_the_growth_limit(vw_test_patterns *p, bool manual_streams)
{
    const vw_test_pool_setup setup = {.engine = "vramwise:tight",
                                      .on_host = true,
                                      .capacity_bytes = 64 * MIB,
                                      .manual_streams = manual_streams,
                                      .idle_share = 0.0001,
                                      .idle_floor_bytes = 4 * MIB};
    vw_test_patterns_open(p, &setup);
    scatter(p, 0);
    assert_int_equal(vw_test_reserved_bytes(p), 14 * MIB);
    (void)vw_test_hold(p, 4 * MIB, 3);
    assert_int_equal(vw_test_reserved_bytes(p), 18 * MIB);
}

/* Given back, but used by another stream still: in mode tight they are not waited for, and go along
 * with the rest. */
static void pending_blocks_are_copied_as_live_ones(void **state)
{
    (void)state;
    vw_test_patterns p;
    scatter_at_the_growth_limit(&p, true);
    for (size_t i = 0; i < p.held_count; i++) {
        vw_test_ok(&p.t, vw_record_stream(p.t.pool, p.held[i].address, 7));
        assert_int_equal(vw_free(p.t.pool, p.held[i].address), VW_OK);
    }
    vw_device_ptr large = vw_test_alloc_on(&p.t, 7 * MIB, 1);
    assert_true(copied_bytes(&p) >= 4 * UNIT);
    vw_test_look_at_all(&p); /* stream 7 would read them still */
    vw_test_free(&p.t, large);
    p.held_count = 0;
    assert_int_equal(vw_device_complete(p.t.device, 7), VW_OK);
    vw_test_patterns_close(&p);
}

/* As large as the limit itself: what is kept for copying is no use if nothing is to be copied. */
static void the_whole_limit_can_be_used(void **state)
{
    (void)state;
    static const char *const engines[] = {"vramwise", "vramwise:rescue", "vramwise:tight"};
    for (int i = 0; i < 3; i++) {
        vw_test_pool_setup setup = under_a_fraction;
        vw_test_patterns p;
        setup.engine = engines[i];
        vw_test_patterns_open(&p, &setup);
        vw_test_hold(&p, 16 * MIB, 0);
        assert_int_equal(vw_test_reserved_bytes(&p), 16 * MIB);
        vw_test_alloc_fails(&p.t, 512, 0, VW_ERR_OUT_OF_MEMORY);
        vw_test_patterns_close(&p);
    }
}

/* ---- not served ------------------------------------------------------------------------------ */

static void without_a_safe_point_nothing_is_copied(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_paged_stats stats = {.struct_size = sizeof stats};
    vw_device_ptr dropped[9];
    vw_test_pool_open(&t, &on_a_full_device);
    vw_test_free(&t, vw_test_alloc(&t, 14 * MIB));
    for (int i = 0; i < 9; i++)
        dropped[i] = vw_test_alloc(&t, 24 * UNIT);
    for (int i = 0; i < 9; i += 2)
        vw_test_free(&t, dropped[i]);
    vw_test_alloc_fails(&t, 7 * MIB, 1, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(vw_pool_get_paged_stats(t.pool, &stats), VW_OK);
    assert_int_equal(stats.refused_copies, 1);
    assert_int_equal(stats.copied_bytes, 0);
    vw_test_pool_close(&t);
}

static void where_the_program_says_no_nothing_is_copied(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_test_patterns_open(&p, &on_a_full_device);
    scatter(&p, 0);
    p.refuses = true;
    for (unsigned i = 1; i <= 3; i++) {
        vw_test_alloc_fails(&p.t, 7 * MIB, 1, VW_ERR_OUT_OF_MEMORY);
        assert_int_equal(p.asked, i);
        assert_int_equal(vw_test_paged_stats(&p).refused_copies, i);
    }
    assert_int_equal(copied_bytes(&p), 0);
    assert_int_equal(p.left, 0);
    p.refuses = false;
    vw_test_hold(&p, 7 * MIB, 1);
    vw_test_patterns_close(&p);
}

static void nobody_is_asked_while_the_pool_can_grow(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_test_pool_setup setup = on_a_full_device;
    setup.capacity_bytes = 64 * MIB;
    vw_test_patterns_open(&p, &setup);
    scatter(&p, 0);
    for (int i = 0; i < 4; i++)
        vw_test_hold(&p, 8 * MIB, 1);
    assert_int_equal(p.asked, 0);
    assert_int_equal(copied_bytes(&p), 0);
    vw_test_patterns_close(&p);
}

/* ---- while the program is asked -------------------------------------------------------------- */

static void use_the_pool(vw_test_patterns *p)
{
    vw_device_ptr address = VW_NULL;
    assert_int_equal(vw_pool_check(p->t.pool), VW_OK);
    if (p->asked != 1)
        return;
    vw_test_let_go_at(p, 0);
    assert_int_equal(vw_alloc(p->t.pool, 5000, 3, &address), VW_OK);
    assert_int_equal(vw_free(p->t.pool, address), VW_OK);
    assert_int_equal(vw_pool_trim(p->t.pool), VW_OK);
    assert_int_equal(vw_pool_check(p->t.pool), VW_OK);
}

/* The pool's lock is not held, and everything is looked at anew afterwards. */
static void the_pool_can_be_used_while_the_program_is_asked(void **state)
{
    (void)state;
    for (int refuses = 0; refuses < 2; refuses++) {
        vw_test_patterns p;
        vw_test_patterns_open(&p, &on_a_full_device);
        scatter(&p, 0);
        p.when_asked = use_the_pool;
        p.refuses = refuses != 0;
        vw_device_ptr address = VW_NULL;
        vw_status status = vw_test_try_to_hold(&p, 8 * MIB, 1, &address);
        vw_test_refused(&p.t, status, refuses ? VW_ERR_OUT_OF_MEMORY : VW_OK);
        assert_int_equal(p.left, p.entered);
        vw_test_look_at_all(&p);
        vw_test_patterns_close(&p);
    }
}

static void fail_the_pool(vw_test_patterns *p)
{
    vw_device_ptr none = VW_NULL;
    if (p->asked != 1)
        return;
    vw_test_let_go_at(p, 0); /* there is something to map then */
    spy.refused_accesses = 1;
    spy.refused_unmaps = 1;
    assert_int_equal(vw_alloc(p->t.pool, 4000, 3, &none), VW_ERR_DEVICE);
    assert_true(vw_test_paged_stats(p).is_failed);
}

static void a_pool_that_fails_meanwhile_copies_nothing(void **state)
{
    (void)state;
    for (int refuses = 0; refuses < 2; refuses++) {
        vw_test_pool_setup setup = on_a_full_device;
        vw_device_ptr address = VW_NULL;
        vw_test_patterns p;
        spy = (vw_test_spy){.call_count = 0};
        setup.spy = &spy;
        vw_test_patterns_open(&p, &setup);
        scatter(&p, 0);
        p.when_asked = fail_the_pool;
        p.refuses = refuses != 0;
        assert_int_equal(vw_test_try_to_hold(&p, 7 * MIB, 1, &address), VW_ERR_DEVICE);
        assert_int_equal(p.asked, 1);
        assert_int_equal(p.left, p.entered);
        assert_int_equal(copied_bytes(&p), 0);
        assert_int_equal(vw_test_spy_count(&spy, VW_TEST_SYNCHRONIZE), 0);
        vw_test_look_at_all(&p);
        vw_pool_destroy(p.t.pool);
        assert_int_equal(vw_test_calls(&p.t).in_use_bytes, 0);
        vw_device_destroy(p.t.device);
        free(p.t.events);
        vw_test_patterns_forget(&p);
    }
}

static size_t calls_before;

static size_t marks_since(size_t first_call, vw_stream stream)
{
    size_t count = 0;
    for (size_t i = first_call; i < spy.call_count; i++)
        count += spy.calls[i].call == VW_TEST_EVENT_RECORD && spy.calls[i].stream == stream;
    return count;
}

/* Another request marks stream 0; then memory comes free that stream 0 used until now. */
static void mark_and_free(vw_test_patterns *p)
{
    vw_device_ptr address = VW_NULL;
    if (p->asked != 1)
        return;
    vw_test_let_go_at(p, 0);
    size_t first_call = spy.call_count;
    assert_int_equal(vw_alloc(p->t.pool, 10 * MIB, 3, &address), VW_OK);
    assert_int_equal(marks_since(first_call, 0), 1);
    while (p->held_count != 0)
        vw_test_let_go_at(p, 0);
    calls_before = spy.call_count;
}

/* A mark that another request made meanwhile says nothing about work queued after it. */
static void marks_of_other_requests_are_not_taken_for_ones_own(void **state)
{
    (void)state;
    vw_test_pool_setup setup = on_a_full_device;
    vw_device_ptr address = VW_NULL;
    vw_test_patterns p;
    spy = (vw_test_spy){.call_count = 0};
    setup.spy = &spy;
    setup.capacity_bytes = 32 * MIB;
    setup.engine = "vramwise:tight";
    setup.idle_share = 0.0001;
    setup.idle_floor_bytes = UNIT;
    vw_test_patterns_open(&p, &setup);
    scatter(&p, 0);
    p.when_asked = mark_and_free;
    p.refuses = true;
    vw_test_ok(&p.t, vw_test_try_to_hold(&p, 9 * MIB, 1, &address));
    assert_true(p.asked >= 1);
    size_t crossed = 0;
    for (size_t i = calls_before; i < spy.call_count; i++)
        crossed += spy.calls[i].call == VW_TEST_STREAM_WAIT_EVENT && spy.calls[i].stream == 1;
    assert_true(crossed >= 1);
    assert_int_equal(marks_since(calls_before, 0), 1);
    vw_test_patterns_close(&p);
}

/* ---- what stays where it is ------------------------------------------------------------------ */

/* The physical memory under an address. */
static vw_handle memory_at(const vw_test_patterns *p, vw_device_ptr address)
{
    vw__engine *base = p->t.pool->engine;
    const vw__block *block = vw__engine_find(base, address);
    return vw__paged_place_at(vw__paged_of(base), block->segment, address)->handle->device_handle;
}

static void pinned_memory_is_never_copied(void **state)
{
    (void)state;
    vw_test_patterns p;
    vw_test_patterns_open(&p, &on_a_full_device);
    scatter(&p, 0);
    vw_handle before[4];
    for (size_t i = 0; i < 4; i++) {
        vw_test_ok(&p.t, vw_pool_pin(p.t.pool, p.held[i].address));
        before[i] = memory_at(&p, p.held[i].address);
    }
    vw_test_alloc_fails(&p.t, 7 * MIB, 1, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(copied_bytes(&p), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(memory_at(&p, p.held[i].address), before[i]);
    for (size_t i = 0; i < 4; i++)
        vw_test_ok(&p.t, vw_pool_unpin(p.t.pool, p.held[i].address));
    vw_test_hold(&p, 7 * MIB, 1);
    assert_true(copied_bytes(&p) != 0);
    vw_test_patterns_close(&p);
}

/* Graphs know the addresses of their pool, and replay when they like: but not at a safe point, so
 * that it is the pool in use that is left alone. */
static void private_pools_in_use_are_never_copied(void **state)
{
    (void)state;
    const vw_private_id graph = {1, 2};
    vw_test_patterns p;
    vw_test_patterns_open(&p, &on_a_full_device);
    vw_test_ok(&p.t, vw_private_pool_begin(p.t.pool, graph, NULL, NULL));
    scatter(&p, 0);
    vw_test_ok(&p.t, vw_private_pool_end(p.t.pool, graph));
    vw_test_alloc_fails(&p.t, 7 * MIB, 1, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(copied_bytes(&p), 0);
    vw_test_ok(&p.t, vw_private_pool_release(p.t.pool, graph));
    vw_test_hold(&p, 7 * MIB, 1);
    assert_true(copied_bytes(&p) != 0);
    vw_test_patterns_close(&p);
}

static bool is_stream_0(void *context, vw_stream stream)
{
    (void)context;
    return stream == 0;
}

/* To wait for the device would break the capture, so that nobody is even asked. */
static void while_any_stream_is_captured_nothing_is_copied(void **state)
{
    (void)state;
    const vw_private_id graph = {1, 2};
    vw_test_pool_setup setup = on_a_full_device;
    vw_test_patterns p;
    spy = (vw_test_spy){.call_count = 0};
    setup.spy = &spy;
    setup.torch_version = "2.13"; /* before that every stream counts as captured */
    vw_test_patterns_open(&p, &setup);
    scatter(&p, 0);
    vw_test_ok(&p.t, vw_private_pool_begin(p.t.pool, graph, is_stream_0, NULL));
    assert_int_equal(vw_device_set_capturing(p.t.device, 0, true), VW_OK);
    vw_test_spy_forget(&spy);
    vw_test_alloc_fails(&p.t, 7 * MIB, 1, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(vw_test_spy_count(&spy, VW_TEST_SYNCHRONIZE), 0);
    assert_int_equal(p.asked, 0);
    assert_int_equal(vw_test_paged_stats(&p).refused_copies, 1);
    assert_int_equal(vw_device_set_capturing(p.t.device, 0, false), VW_OK);
    vw_test_ok(&p.t, vw_private_pool_end(p.t.pool, graph));
    vw_test_hold(&p, 7 * MIB, 1);
    assert_true(copied_bytes(&p) != 0);
    vw_test_patterns_close(&p);
}

/* Without a limit the pool learns what the device has when it is refused more. From then on it
 * leaves it two units to copy with, and takes them only when nothing else is left; but no longer
 * once others have given memory back. */
static void a_full_device_is_left_the_pages_that_copying_begins_with(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {
        .engine = "vramwise:rescue", .on_host = true, .capacity_bytes = 32 * MIB};
    vw_test_patterns p;
    vw_handle others = 0;
    vw_test_patterns_open(&p, &setup);
    const vw_device *device = p.t.device;
    assert_int_equal(device->table->create(device->context, 16 * MIB, &others), VW_OK);
    vw_test_alloc_fails(&p.t, 17 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_trim(&p.t);
    unsigned asked = p.asked;
    vw_test_hold(&p, 16 * MIB - 2 * UNIT, 0);
    assert_int_equal(p.asked, asked);
    vw_test_hold(&p, 2 * UNIT, 1); /* copying was tried first */
    assert_true(p.asked > asked);
    asked = p.asked;
    assert_int_equal(device->table->release(device->context, others), VW_OK);
    vw_test_hold(&p, 8 * MIB, 1);
    assert_int_equal(p.asked, asked);
    vw_test_look_at_all(&p);
    vw_test_patterns_close(&p);
}

/* ---- mode tight ------------------------------------------------------------------------------ */

static void tight_copies_before_it_grows_beyond_its_share(void **state)
{
    (void)state;
    vw_test_patterns p;
    scatter_at_the_growth_limit(&p, false);
    vw_test_hold(&p, 7 * MIB, 1); /* 17 are live then */
    assert_true(p.entered >= 1);
    assert_true(copied_bytes(&p) != 0);
    assert_in_range(vw_test_reserved_bytes(&p), 17 * MIB, 21 * MIB + UNIT);
    vw_test_look_at_all(&p);
    p.refuses = true; /* then it grows, as the other modes do */
    vw_test_hold(&p, 9 * MIB, 4);
    assert_true(vw_test_reserved_bytes(&p) > 26 * MIB);
    vw_test_patterns_close(&p);
}

/* Whatever the program does, where copying is always granted, and the floor has some units for each
 * of the four lanes: what blocks leave of the pages at their ends is idle, however pages share. */
static void tight_holds_no_more_than_its_share(void **state)
{
    (void)state;
    static const uint64_t floors[] = {16 * UNIT, 20 * UNIT, 24 * UNIT};
    uint64_t copied = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        const double share = 0.0001;
        uint64_t floor_bytes = floors[seed % 3], most_reserved = 0;
        vw_test_patterns p;
        vw_test_patterns_open(&p, &(vw_test_pool_setup){.engine = "vramwise:tight",
                                                        .on_host = true,
                                                        .capacity_bytes = 256 * MIB,
                                                        .idle_share = share,
                                                        .idle_floor_bytes = floor_bytes});
        p.random = seed * UINT64_C(0xD1342543DE82EF95);
        for (int step = 0; step < 1200; step++) {
            if (p.held_count != 0 && vw_test_random(&p) % 100 < (step % 400 < 200 ? 42 : 58))
                vw_test_let_go_at(&p, vw_test_random(&p) % p.held_count);
            else
                vw_test_hold(&p, vw_test_random_size(&p, 512, 3 * MIB), vw_test_random(&p) % 2);
            uint64_t peak_bytes = (uint64_t)vw_test_stats(&p.t).active_bytes.all.peak;
            uint64_t share_bytes = (uint64_t)(share * (double)peak_bytes);
            uint64_t allowed = peak_bytes + (share_bytes > floor_bytes ? share_bytes : floor_bytes);
            uint64_t reserved = vw_test_reserved_bytes(&p);
            if (reserved > allowed)
                fail_msg("seed %llu, step %d: %llu bytes reserved, %llu allowed",
                         (unsigned long long)seed, step, (unsigned long long)reserved,
                         (unsigned long long)allowed);
            most_reserved = reserved > most_reserved ? reserved : most_reserved;
            vw_test_forget_events(&p.t);
        }
        copied += copied_bytes(&p);
        assert_true(most_reserved < 250 * MIB); /* it is the share that held it, not the device */
        vw_test_look_at_all(&p);
        vw_test_patterns_close(&p);
    }
    assert_true(copied != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_that_moves_alone_cannot_serve_is_served_by_copying),
        cmocka_unit_test(a_request_of_the_same_stream_is_served_by_copying),
        cmocka_unit_test(pending_blocks_are_copied_as_live_ones),
        cmocka_unit_test(the_whole_limit_can_be_used),
        cmocka_unit_test(without_a_safe_point_nothing_is_copied),
        cmocka_unit_test(where_the_program_says_no_nothing_is_copied),
        cmocka_unit_test(nobody_is_asked_while_the_pool_can_grow),
        cmocka_unit_test(the_pool_can_be_used_while_the_program_is_asked),
        cmocka_unit_test(a_pool_that_fails_meanwhile_copies_nothing),
        cmocka_unit_test(marks_of_other_requests_are_not_taken_for_ones_own),
        cmocka_unit_test(pinned_memory_is_never_copied),
        cmocka_unit_test(private_pools_in_use_are_never_copied),
        cmocka_unit_test(while_any_stream_is_captured_nothing_is_copied),
        cmocka_unit_test(a_full_device_is_left_the_pages_that_copying_begins_with),
        cmocka_unit_test(tight_copies_before_it_grows_beyond_its_share),
        cmocka_unit_test(tight_holds_no_more_than_its_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
