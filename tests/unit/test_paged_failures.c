/* test_paged_failures.c - driver calls that fail in the middle of a change: undone, the pool is as
 * it was; not to be undone, it has failed, and says so. */
#include "engine/paged/paged_engine.h"

#include <stdlib.h>
#include <string.h>

#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/pool_layout.h"

#define UNIT (2 * HR_TEST_MIB)

typedef struct scene {
    hr_test_pool t;
    hr_test_spy spy;
} scene;

static void scene_open(scene *s)
{
    s->spy = (hr_test_spy){.call_count = 0};
    hr_test_pool_open(&s->t, &(hr_test_pool_setup){.engine = "headroom",
                                                   .capacity_bytes = 64 * HR_TEST_MIB,
                                                   .idle_share = 0.0001,
                                                   .idle_floor_bytes = UNIT,
                                                   .spy = &s->spy});
}

static bool is_failed(const scene *s)
{
    hr_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(hr_pool_get_paged_stats(s->t.pool, &stats), HR_OK);
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
        hr_test_alloc(&s.t, 10 * HR_TEST_MIB);
        char *before = hr_test_describe(&s.t);
        uint64_t held_bytes = hr_test_calls(&s.t).in_use_bytes;
        if (which == 0) /* reserve, create, map */
            assert_int_equal(hr_device_fail_call(s.t.device, 3, HR_ERR_DEVICE), HR_OK);
        else
            s.spy.refused_accesses = 1;
        hr_test_alloc_fails(&s.t, 700, 1, HR_ERR_DEVICE);
        char *after = hr_test_describe(&s.t);
        assert_string_equal(after, before);
        assert_int_equal(hr_test_calls(&s.t).in_use_bytes, held_bytes);
        free(before);
        free(after);
        hr_test_alloc_on(&s.t, 700, 1);
        hr_test_pool_close(&s.t);
    }
}

static void a_move_whose_mapping_fails_leaves_the_memory_where_it_was(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        scene s;
        scene_open(&s);
        hr_device_ptr block = hr_test_alloc_on(&s.t, 64 * HR_TEST_MIB, 1);
        hr_test_free(&s.t, block);
        char *before = hr_test_describe(&s.t);
        hr_test_spy_forget(&s.spy);
        if (which == 0) /* reserve, create, event_create, event_record, stream_wait_event, map */
            assert_int_equal(hr_device_fail_call(s.t.device, 6, HR_ERR_DEVICE), HR_OK);
        else
            s.spy.refused_accesses = 1;
        hr_test_alloc_fails(&s.t, 700, 2, HR_ERR_DEVICE);
        const hr_test_call_made *made =
            hr_test_spy_find(&s.spy, which == 0 ? HR_TEST_MAP : HR_TEST_SET_ACCESS, NULL);
        assert_int_equal(made->status, HR_ERR_DEVICE);
        char *after = hr_test_describe(&s.t);
        assert_string_equal(after, before);
        free(before);
        free(after);
        assert_false(is_failed(&s));
        assert_int_equal(hr_test_alloc_on(&s.t, 64 * HR_TEST_MIB, 1), block);
        hr_test_pool_close(&s.t);
    }
}

static void an_unmap_that_fails_in_a_trim_can_be_tried_again(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    hr_test_free(&s.t, hr_test_alloc_on(&s.t, 60 * HR_TEST_MIB, 1));
    hr_test_free(&s.t, hr_test_alloc_on(&s.t, 60 * HR_TEST_MIB, 2));
    for (int i = 0; i < 3; i++) {
        s.spy.refused_unmaps = 1;
        hr_test_refused(&s.t, hr_pool_trim(s.t.pool), HR_ERR_DEVICE);
    }
    hr_test_trim(&s.t);
    assert_int_equal(hr_test_calls(&s.t).in_use_bytes, 0);
    hr_test_pool_close(&s.t);
}

/* ---- what cannot ----------------------------------------------------------------------------- */

static void ignore_conf(void *context, const char *key, const char *value)
{
    (void)context, (void)key, (void)value;
}

/* Every call that would change or check what is mapped says why; looking and giving back go on. */
static void expect_failed(scene *s, hr_device_ptr live)
{
    hr_pool *pool = s->t.pool;
    hr_device_ptr none = HR_NULL;
    const hr_alloc_request at = {
        .struct_size = sizeof at, .size_bytes = 512, .at = live + 10 * HR_TEST_MIB};
    const hr_private_id id = {1, 1};
    hr_block_place place;
    assert_true(is_failed(s));
#define SAYS_WHY(call)                                                                             \
    do {                                                                                           \
        assert_int_equal(call, HR_ERR_DEVICE);                                                     \
        assert_non_null(strstr(hr_last_error(), "the pool has failed"));                           \
        assert_non_null(strstr(hr_last_error(), "could be neither"));                              \
    } while (0)
    for (int round = 0; round < 2; round++) {
        SAYS_WHY(hr_alloc(pool, 1, 0, &none));
        SAYS_WHY(hr_alloc(pool, 20 * HR_TEST_MIB, 3, &none));
        SAYS_WHY(hr_alloc_with(pool, &at, &none));
        SAYS_WHY(hr_pool_trim(pool));
        SAYS_WHY(hr_private_pool_trim(pool, id));
        SAYS_WHY(hr_pool_set_fraction(pool, 0.5));
        SAYS_WHY(hr_pool_configure(pool, ""));
        SAYS_WHY(hr_private_pool_retain(pool, id, NULL));
        SAYS_WHY(hr_private_pool_begin(pool, id, NULL, NULL));
        SAYS_WHY(hr_pool_check(pool));
        SAYS_WHY(hr_pool_pin(pool, live));
    }
#undef SAYS_WHY
    assert_int_equal(none, HR_NULL);
    assert_int_equal(hr_pool_find(pool, live, &place), HR_OK);
    assert_int_equal(hr_pool_walk_conf(pool, ignore_conf, NULL), HR_OK);
    assert_int_equal(hr_record_stream(pool, live, 4), HR_OK);
    assert_int_equal(hr_free(pool, live), HR_OK);
    assert_int_equal(hr_free(pool, live), HR_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(hr_test_stats(&s->t).allocation.all.current, 0);
}

/* The stuck mapping is not forgotten: where the device lets go of it at the end, nothing is lost.
 */
static void close_failed(scene *s)
{
    hr_pool_destroy(s->t.pool);
    assert_int_equal(hr_test_calls(&s->t).in_use_bytes, 0);
    assert_int_equal(hr_test_call_count(&s->t, HR_DEVICE_CALL_RESERVE),
                     hr_test_call_count(&s->t, HR_DEVICE_CALL_UNRESERVE));
    hr_device_destroy(s->t.device);
    free(s->t.events);
}

static void a_growth_that_cannot_be_undone_fails_the_pool(void **state)
{
    (void)state;
    const hr_status refusals[] = {HR_ERR_DEVICE, HR_ERR_OUT_OF_MEMORY};
    for (int i = 0; i < 2; i++) {
        scene s;
        scene_open(&s);
        hr_device_ptr live = hr_test_alloc(&s.t, 20 * HR_TEST_MIB), none = HR_NULL;
        s.spy.refused_accesses = 1;
        s.spy.access_status = refusals[i];
        s.spy.refused_unmaps = 1;
        assert_int_equal(hr_alloc(s.t.pool, 20 * HR_TEST_MIB, 1, &none), HR_ERR_DEVICE);
        assert_int_equal(none, HR_NULL);
        expect_failed(&s, live);
        close_failed(&s);
    }
}

static void a_move_that_cannot_be_undone_fails_the_pool(void **state)
{
    (void)state;
    const hr_status refusals[] = {HR_ERR_DEVICE, HR_ERR_OUT_OF_MEMORY};
    for (int i = 0; i < 2; i++) {
        scene s;
        scene_open(&s);
        hr_device_ptr live = hr_test_alloc(&s.t, 20 * HR_TEST_MIB), none = HR_NULL;
        hr_test_free(&s.t, hr_test_alloc_on(&s.t, 44 * HR_TEST_MIB, 1));
        s.spy.refused_accesses = 1;
        s.spy.access_status = refusals[i];
        s.spy.refused_unmaps = 1;
        assert_int_equal(hr_alloc(s.t.pool, 40 * HR_TEST_MIB, 2, &none), HR_ERR_DEVICE);
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
    hr_device_ptr none = HR_NULL;
    if (m->has_meddled)
        return false;
    m->has_meddled = true;
    m->s.spy.refused_accesses = m->s.spy.refused_unmaps = 1;
    assert_int_equal(hr_alloc(m->s.t.pool, 20 * HR_TEST_MIB, 1, &none), HR_ERR_DEVICE);
    assert_true(is_failed(&m->s));
    return true;
}

static void a_request_under_way_when_the_pool_fails_is_told(void **state)
{
    (void)state;
    static meddler m;
    hr_device_ptr none = HR_NULL;
    hr_test_pool_open(&m.s.t, &(hr_test_pool_setup){.engine = "headroom",
                                                    .capacity_bytes = 64 * HR_TEST_MIB,
                                                    .spy = &m.s.spy,
                                                    .reclaim = fail_the_pool,
                                                    .reclaim_context = &m});
    size_t created = hr_test_spy_count(&m.s.spy, HR_TEST_CREATE);
    assert_int_equal(hr_alloc(m.s.t.pool, 700, 0, &none), HR_ERR_DEVICE);
    assert_non_null(strstr(hr_last_error(), "the pool has failed"));
    assert_int_equal(hr_test_spy_count(&m.s.spy, HR_TEST_CREATE), created + 1); /* the other's */
    close_failed(&m.s);
}

static void a_lost_device_fails_requests_and_ends_in_order(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    hr_device_ptr live = hr_test_alloc(&s.t, 20 * HR_TEST_MIB), none = HR_NULL;
    hr_test_free(&s.t, hr_test_alloc_on(&s.t, 30 * HR_TEST_MIB, 1));
    assert_int_equal(hr_device_lose(s.t.device), HR_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hr_alloc(s.t.pool, 40 * HR_TEST_MIB, 2, &none), HR_ERR_DEVICE);
        assert_int_equal(hr_pool_trim(s.t.pool), HR_ERR_DEVICE);
    }
    assert_int_equal(hr_free(s.t.pool, live), HR_OK);
    hr_pool_destroy(s.t.pool);
    hr_device_destroy(s.t.device);
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
