/* test_paged_failures.c - driver calls that fail in the middle of a change: undone, the pool is as
 * it was; not to be undone, it has failed, and says so. */
#include "engine/paged/paged_engine.h"

#include <stdlib.h>
#include <string.h>

#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/pool_layout.h"

#define UNIT (2 * VW_TEST_MIB)

typedef struct scene {
    vw_test_pool t;
    vw_test_spy spy;
} scene;

static void scene_open(scene *s)
{
    s->spy = (vw_test_spy){.call_count = 0};
    vw_test_pool_open(&s->t, &(vw_test_pool_setup){.engine = "vramwise",
                                                   .capacity_bytes = 64 * VW_TEST_MIB,
                                                   .idle_share = 0.0001,
                                                   .idle_floor_bytes = UNIT,
                                                   .spy = &s->spy});
}

static bool is_failed(const scene *s)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(s->t.pool, &stats), VW_OK);
    return stats.is_failed;
}

/* ---- what can be undone ---------------------------------------------------------------------- */

/* The first map, and the first set_access, of a growth by a new stream's block. */
static void a_growth_whose_mapping_fails_leaves_the_pool_as_it_was(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        scene s;
        scene_open(&s);
        vw_test_alloc(&s.t, 10 * VW_TEST_MIB);
        char *before = vw_test_describe(&s.t);
        uint64_t held_bytes = vw_test_calls(&s.t).in_use_bytes;
        if (which == 0) /* reserve, create, map */
            assert_int_equal(vw_device_fail_call(s.t.device, 3, VW_ERR_DEVICE), VW_OK);
        else
            s.spy.refused_accesses = 1;
        vw_test_alloc_fails(&s.t, 700, 1, VW_ERR_DEVICE);
        char *after = vw_test_describe(&s.t);
        assert_string_equal(after, before);
        assert_int_equal(vw_test_calls(&s.t).in_use_bytes, held_bytes);
        free(before);
        free(after);
        vw_test_alloc_on(&s.t, 700, 1);
        vw_test_pool_close(&s.t);
    }
}

static void a_move_whose_mapping_fails_leaves_the_memory_where_it_was(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        scene s;
        scene_open(&s);
        vw_device_ptr block = vw_test_alloc_on(&s.t, 64 * VW_TEST_MIB, 1);
        vw_test_free(&s.t, block);
        char *before = vw_test_describe(&s.t);
        vw_test_spy_forget(&s.spy);
        if (which == 0) /* reserve, create, event_create, event_record, stream_wait_event, map */
            assert_int_equal(vw_device_fail_call(s.t.device, 6, VW_ERR_DEVICE), VW_OK);
        else
            s.spy.refused_accesses = 1;
        vw_test_alloc_fails(&s.t, 700, 2, VW_ERR_DEVICE);
        const vw_test_call_made *made =
            vw_test_spy_find(&s.spy, which == 0 ? VW_TEST_MAP : VW_TEST_SET_ACCESS, NULL);
        assert_int_equal(made->status, VW_ERR_DEVICE);
        char *after = vw_test_describe(&s.t);
        assert_string_equal(after, before);
        free(before);
        free(after);
        assert_false(is_failed(&s));
        assert_int_equal(vw_test_alloc_on(&s.t, 64 * VW_TEST_MIB, 1), block);
        vw_test_pool_close(&s.t);
    }
}

static void an_unmap_that_fails_in_a_trim_can_be_tried_again(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, 1));
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, 2));
    for (int i = 0; i < 3; i++) {
        s.spy.refused_unmaps = 1;
        vw_test_refused(&s.t, vw_pool_trim(s.t.pool), VW_ERR_DEVICE);
    }
    vw_test_trim(&s.t);
    assert_int_equal(vw_test_calls(&s.t).in_use_bytes, 0);
    vw_test_pool_close(&s.t);
}

/* ---- what cannot ----------------------------------------------------------------------------- */

static void ignore_conf(void *context, const char *key, const char *value)
{
    (void)context, (void)key, (void)value;
}

/* Every call that would change or check what is mapped says why; looking and giving back go on. */
static void expect_failed(scene *s, vw_device_ptr live)
{
    vw_pool *pool = s->t.pool;
    vw_device_ptr none = VW_NULL;
    const vw_alloc_request at = {
        .struct_size = sizeof at, .size_bytes = 512, .at = live + 10 * VW_TEST_MIB};
    const vw_private_id id = {1, 1};
    vw_block_place place;
    assert_true(is_failed(s));
#define SAYS_WHY(call)                                                                             \
    do {                                                                                           \
        assert_int_equal(call, VW_ERR_DEVICE);                                                     \
        assert_non_null(strstr(vw_last_error(), "the pool has failed"));                           \
        assert_non_null(strstr(vw_last_error(), "could be neither"));                              \
    } while (0)
    for (int round = 0; round < 2; round++) {
        SAYS_WHY(vw_alloc(pool, 1, 0, &none));
        SAYS_WHY(vw_alloc(pool, 20 * VW_TEST_MIB, 3, &none));
        SAYS_WHY(vw_alloc_with(pool, &at, &none));
        SAYS_WHY(vw_pool_trim(pool));
        SAYS_WHY(vw_private_pool_trim(pool, id));
        SAYS_WHY(vw_pool_set_fraction(pool, 0.5));
        SAYS_WHY(vw_pool_configure(pool, ""));
        SAYS_WHY(vw_private_pool_retain(pool, id, NULL));
        SAYS_WHY(vw_private_pool_begin(pool, id, NULL, NULL));
        SAYS_WHY(vw_pool_check(pool));
        SAYS_WHY(vw_pool_pin(pool, live));
    }
#undef SAYS_WHY
    assert_int_equal(none, VW_NULL);
    assert_int_equal(vw_pool_find(pool, live, &place), VW_OK);
    assert_int_equal(vw_pool_walk_conf(pool, ignore_conf, NULL), VW_OK);
    assert_int_equal(vw_record_stream(pool, live, 4), VW_OK);
    assert_int_equal(vw_free(pool, live), VW_OK);
    assert_int_equal(vw_free(pool, live), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(vw_test_stats(&s->t).allocation.all.current, 0);
}

/* The stuck mapping is not forgotten: where the device lets go of it at the end, nothing is lost.
 */
static void close_failed(scene *s)
{
    vw_pool_destroy(s->t.pool);
    assert_int_equal(vw_test_calls(&s->t).in_use_bytes, 0);
    assert_int_equal(vw_test_call_count(&s->t, VW_DEVICE_CALL_RESERVE),
                     vw_test_call_count(&s->t, VW_DEVICE_CALL_UNRESERVE));
    vw_device_destroy(s->t.device);
    free(s->t.events);
}

static void a_growth_that_cannot_be_undone_fails_the_pool(void **state)
{
    (void)state;
    const vw_status refusals[] = {VW_ERR_DEVICE, VW_ERR_OUT_OF_MEMORY};
    for (int i = 0; i < 2; i++) {
        scene s;
        scene_open(&s);
        vw_device_ptr live = vw_test_alloc(&s.t, 20 * VW_TEST_MIB), none = VW_NULL;
        s.spy.refused_accesses = 1;
        s.spy.access_status = refusals[i];
        s.spy.refused_unmaps = 1;
        assert_int_equal(vw_alloc(s.t.pool, 20 * VW_TEST_MIB, 1, &none), VW_ERR_DEVICE);
        assert_int_equal(none, VW_NULL);
        expect_failed(&s, live);
        close_failed(&s);
    }
}

static void a_move_that_cannot_be_undone_fails_the_pool(void **state)
{
    (void)state;
    const vw_status refusals[] = {VW_ERR_DEVICE, VW_ERR_OUT_OF_MEMORY};
    for (int i = 0; i < 2; i++) {
        scene s;
        scene_open(&s);
        vw_device_ptr live = vw_test_alloc(&s.t, 20 * VW_TEST_MIB), none = VW_NULL;
        vw_test_free(&s.t, vw_test_alloc_on(&s.t, 44 * VW_TEST_MIB, 1));
        s.spy.refused_accesses = 1;
        s.spy.access_status = refusals[i];
        s.spy.refused_unmaps = 1;
        assert_int_equal(vw_alloc(s.t.pool, 40 * VW_TEST_MIB, 2, &none), VW_ERR_DEVICE);
        expect_failed(&s, live);
        close_failed(&s);
    }
}

/* ---- others, meanwhile ----------------------------------------------------------------------- */

typedef struct meddler {
    scene s;
    bool has_meddled;
} meddler;

/* While one request lets the program free something, another fails the pool. */
static bool fail_the_pool(void *context)
{
    meddler *m = context;
    vw_device_ptr none = VW_NULL;
    if (m->has_meddled)
        return false;
    m->has_meddled = true;
    m->s.spy.refused_accesses = m->s.spy.refused_unmaps = 1;
    assert_int_equal(vw_alloc(m->s.t.pool, 20 * VW_TEST_MIB, 1, &none), VW_ERR_DEVICE);
    assert_true(is_failed(&m->s));
    return true;
}

static void a_request_under_way_when_the_pool_fails_is_told(void **state)
{
    (void)state;
    static meddler m;
    vw_device_ptr none = VW_NULL;
    vw_test_pool_open(&m.s.t, &(vw_test_pool_setup){.engine = "vramwise",
                                                    .capacity_bytes = 64 * VW_TEST_MIB,
                                                    .spy = &m.s.spy,
                                                    .reclaim = fail_the_pool,
                                                    .reclaim_context = &m});
    size_t created = vw_test_spy_count(&m.s.spy, VW_TEST_CREATE);
    assert_int_equal(vw_alloc(m.s.t.pool, 700, 0, &none), VW_ERR_DEVICE);
    assert_non_null(strstr(vw_last_error(), "the pool has failed"));
    assert_int_equal(vw_test_spy_count(&m.s.spy, VW_TEST_CREATE), created + 1); /* the other's */
    close_failed(&m.s);
}

static void a_lost_device_fails_requests_and_ends_in_order(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    vw_device_ptr live = vw_test_alloc(&s.t, 20 * VW_TEST_MIB), none = VW_NULL;
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, 30 * VW_TEST_MIB, 1));
    assert_int_equal(vw_device_lose(s.t.device), VW_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vw_alloc(s.t.pool, 40 * VW_TEST_MIB, 2, &none), VW_ERR_DEVICE);
        assert_int_equal(vw_pool_trim(s.t.pool), VW_ERR_DEVICE);
    }
    assert_int_equal(vw_free(s.t.pool, live), VW_OK);
    vw_pool_destroy(s.t.pool);
    vw_device_destroy(s.t.device);
    free(s.t.events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_growth_whose_mapping_fails_leaves_the_pool_as_it_was),
        cmocka_unit_test(a_move_whose_mapping_fails_leaves_the_memory_where_it_was),
        cmocka_unit_test(an_unmap_that_fails_in_a_trim_can_be_tried_again),
        cmocka_unit_test(a_growth_that_cannot_be_undone_fails_the_pool),
        cmocka_unit_test(a_move_that_cannot_be_undone_fails_the_pool),
        cmocka_unit_test(a_request_under_way_when_the_pool_fails_is_told),
        cmocka_unit_test(a_lost_device_fails_requests_and_ends_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
