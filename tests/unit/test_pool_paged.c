/* test_pool_paged.c - pins, the statistics of moves, and safe points: what a pool passes on between
 * its caller and an engine that moves memory. Engine "torch" moves none; where one that does is
 * wanted, a table with its three entries stands in. */
#include "pool/pool.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"

/* ---- engine "torch" -------------------------------------------------------------------------- */

static void only_the_start_of_a_live_block_can_be_pinned(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    vw_device_ptr block = vw_test_alloc(&t, 4096);
    vw_test_ok(&t, vw_pool_pin(t.pool, block));
    vw_test_ok(&t, vw_pool_pin(t.pool, block));
    vw_test_refused(&t, vw_pool_pin(t.pool, block + 512), VW_ERR_UNKNOWN_ADDRESS);
    vw_test_refused(&t, vw_pool_pin(t.pool, VW_NULL), VW_ERR_UNKNOWN_ADDRESS);
    vw_test_free(&t, block);
    vw_test_refused(&t, vw_pool_pin(t.pool, block), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(vw_pool_pin(NULL, block), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_pool_unpin(NULL, block), VW_ERR_INVALID_ARGUMENT);
    vw_test_pool_close(&t);
}

static void where_nothing_moves_a_pin_asks_for_nothing(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    vw_device_ptr block = vw_test_alloc(&t, 4096);
    vw_test_ok(&t, vw_pool_pin(t.pool, block));
    vw_test_free(&t, block);
    vw_test_trim(&t);
    assert_int_equal(vw_test_stats(&t).reserved_bytes.all.current, 0);
    vw_test_ok(&t, vw_pool_unpin(t.pool, block));
    vw_test_ok(&t, vw_pool_unpin(t.pool, block)); /* no list of pins is kept */
    vw_test_pool_close(&t);
}

static void engine_torch_has_no_statistics_of_moves(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    vw_paged_stats stats = {.struct_size = sizeof stats, .misses = 5};
    vw_test_refused(&t, vw_pool_get_paged_stats(t.pool, &stats), VW_ERR_UNSUPPORTED);
    assert_int_equal(stats.misses, 5);
    vw_test_refused(&t, vw_pool_get_paged_stats(t.pool, NULL), VW_ERR_INVALID_ARGUMENT);
    stats.struct_size = 0;
    vw_test_refused(&t, vw_pool_get_paged_stats(t.pool, &stats), VW_ERR_INVALID_ARGUMENT);
    vw_test_pool_close(&t);
}

/* ---- an engine with the entries -------------------------------------------------------------- */

static vw_device_ptr pinned, unpinned;

static vw_status pin(vw__engine *engine, vw__block *block)
{
    (void)engine;
    if (pinned != VW_NULL)
        return vw__fail_host_memory(1, "a second pin");
    pinned = block->address;
    return VW_OK;
}

static vw_status unpin(vw__engine *engine, vw_device_ptr address)
{
    (void)engine;
    unpinned = address;
    if (address != pinned)
        return vw__fail(VW_ERR_UNKNOWN_ADDRESS, "not pinned");
    return VW_OK;
}

static void move_stats(const vw__engine *engine, vw_paged_stats *stats)
{
    (void)engine;
    stats->is_fallback = true;
    stats->handle_count = 11;
    stats->misses = 12;
    stats->shared_pages = 13;
}

static void an_engine_that_has_them_is_asked(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    pinned = unpinned = VW_NULL;
    vw__engine_table table = *t.pool->engine->table;
    table.pin = pin;
    table.unpin = unpin;
    table.move_stats = move_stats;
    t.pool->engine->table = &table;

    vw_device_ptr block = vw_test_alloc(&t, 4096);
    vw_test_refused(&t, vw_pool_pin(t.pool, block + 512), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(pinned, VW_NULL);
    vw_test_ok(&t, vw_pool_pin(t.pool, block));
    assert_int_equal(pinned, block);
    vw_test_refused(&t, vw_pool_pin(t.pool, block), VW_ERR_HOST_MEMORY);
    vw_test_free(&t, block);
    vw_test_ok(&t, vw_pool_unpin(t.pool, block)); /* freed or not */
    vw_test_refused(&t, vw_pool_unpin(t.pool, block + 512), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(unpinned, block + 512);

    vw_paged_stats stats = {.struct_size = sizeof stats, .is_failed = true};
    vw_test_ok(&t, vw_pool_get_paged_stats(t.pool, &stats));
    assert_true(stats.is_fallback && !stats.is_failed);
    assert_int_equal(stats.struct_size, sizeof stats);
    assert_int_equal(stats.handle_count, 11);
    assert_int_equal(stats.shared_pages, 13);

    stats = (vw_paged_stats){.struct_size = offsetof(vw_paged_stats, misses), .misses = 5};
    vw_test_ok(&t, vw_pool_get_paged_stats(t.pool, &stats));
    assert_int_equal(stats.struct_size, offsetof(vw_paged_stats, misses));
    assert_int_equal(stats.handle_count, 11);
    assert_int_equal(stats.misses, 5); /* beyond the caller's struct_size */
    vw_test_pool_close(&t);
}

/* ---- safe points ----------------------------------------------------------------------------- */

typedef struct caller {
    vw_pool *pool;
    bool is_willing;
    int entered, left;
} caller;

/* Uses the pool, which it could not with the lock held. */
static bool enter(void *context)
{
    caller *c = context;
    vw_device_ptr block = VW_NULL;
    assert_int_equal(vw_alloc(c->pool, 512, 0, &block), VW_OK);
    assert_int_equal(vw_free(c->pool, block), VW_OK);
    assert_int_equal(vw_pool_check(c->pool), VW_OK);
    c->entered++;
    return c->is_willing;
}

static void leave(void *context)
{
    caller *c = context;
    c->left++;
}

static vw_status create(vw_device *device, const vw_safe_point *safe_point, vw_pool **out)
{
    const vw_pool_options options = {.struct_size = sizeof options, .safe_point = *safe_point};
    return vw_pool_create(device, &options, out);
}

static void ignore_event(void *context, const vw_memory_event *event)
{
    (void)context;
    (void)event;
}

static void a_safe_point_is_asked_for_without_the_lock(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL); /* for its device */
    caller c = {.is_willing = true};
    vw_pool *pool = NULL;
    assert_int_equal(create(t.device, &(vw_safe_point){enter, leave, &c}, &pool), VW_OK);
    c.pool = pool;
    assert_int_equal(vw_pool_set_sink(pool, &(vw_event_sink){.notice = ignore_event}), VW_OK);
    const vw__engine_owner *owner = &pool->engine->owner;

    vw__pool_lock(pool);
    vw__pool_begin_request(pool, &c);
    assert_true(owner->enter_safe_point(owner->context));
    assert_int_equal(c.entered, 1);
    assert_ptr_equal(pool->cause.caller, &c); /* the request goes on as its own cause */
    assert_int_equal(pool->cause.request, 1);
    owner->leave_safe_point(owner->context);
    assert_int_equal(c.left, 1);
    c.is_willing = false;
    assert_false(owner->enter_safe_point(owner->context));
    assert_int_equal(c.entered, 2);
    assert_int_equal(c.left, 1);
    vw__pool_end_cause(pool);
    vw__pool_unlock(pool);
    vw_pool_destroy(pool);
    vw_test_pool_close(&t);
}

static void without_one_the_answer_is_no(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    const vw__engine_owner *owner = &t.pool->engine->owner;
    vw__pool_lock(t.pool);
    bool is_granted = owner->enter_safe_point(owner->context);
    vw__pool_unlock(t.pool);
    assert_false(is_granted);
    vw_test_pool_close(&t);
}

static void half_a_safe_point_is_refused(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(&t, NULL);
    vw_pool *pool = NULL;
    assert_int_equal(create(t.device, &(vw_safe_point){.enter = enter}, &pool),
                     VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(create(t.device, &(vw_safe_point){.leave = leave}, &pool),
                     VW_ERR_INVALID_ARGUMENT);
    assert_null(pool);
    vw_test_pool_close(&t);
}

/* ---- memory gets short ----------------------------------------------------------------------- */

enum { SPACE_MIB = 160 };

typedef struct warned {
    vw_pool *pool;
    unsigned count;
    uint64_t reserved_bytes; /* at that time */
} warned;

static void be_warned(void *context)
{
    warned *w = context;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_stats(w->pool, &stats), VW_OK); /* the lock is free */
    w->reserved_bytes = (uint64_t)stats.reserved_bytes.all.current;
    w->count++;
}

static bool refuse(void *context)
{
    (void)context;
    return false;
}

static void do_nothing(void *context)
{
    (void)context;
}

static void open_warned(vw_device *device, const char *engine, bool has_safe_point, warned *w)
{
    vw_pool_options options = {
        .struct_size = sizeof options, .engine = engine, .prepare_safe_point = be_warned};
    options.safe_point =
        (vw_safe_point){has_safe_point ? refuse : NULL, has_safe_point ? do_nothing : NULL, w};
    *w = (warned){.count = 0};
    assert_int_equal(vw_pool_create(device, &options, &w->pool), VW_OK);
}

/* Takes blocks of 1 MiB until it is warned, or there are no more. Returns how many it got. */
static unsigned take_until_warned(warned *w)
{
    unsigned taken = 0;
    vw_device_ptr address = VW_NULL;
    while (w->count == 0 && vw_alloc(w->pool, VW_TEST_MIB, 0, &address) == VW_OK)
        taken++;
    return taken;
}

static void it_is_said_with_each_miss_once_an_eighth_is_left(void **state)
{
    (void)state;
    warned w;
    vw_device *device = NULL;
    vw_device_ptr address = VW_NULL;
    assert_int_equal(vw_host_device_create(SPACE_MIB * VW_TEST_MIB, &device), VW_OK);
    open_warned(device, "vramwise", true, &w);
    unsigned taken = take_until_warned(&w);
    assert_in_range(taken, SPACE_MIB * 7 / 8 - 24, SPACE_MIB * 7 / 8 + 1);
    assert_true(w.reserved_bytes < SPACE_MIB * 7 / 8 * VW_TEST_MIB + VW_TEST_MIB);
    while (vw_alloc(w.pool, VW_TEST_MIB, 0, &address) == VW_OK) {
    }
    assert_true(w.count > 2);
    vw_pool_destroy(w.pool);
    vw_device_destroy(device);
}

static void what_others_hold_and_a_limit_count(void **state)
{
    (void)state;
    warned w, other;
    vw_device *device = NULL;
    vw_device_ptr address = VW_NULL;
    assert_int_equal(vw_host_device_create(SPACE_MIB * VW_TEST_MIB, &device), VW_OK);
    open_warned(device, "torch", false, &other);
    open_warned(device, "vramwise", true, &w);
    assert_int_equal(vw_alloc(other.pool, SPACE_MIB / 2 * VW_TEST_MIB, 0, &address), VW_OK);
    assert_in_range(take_until_warned(&w), SPACE_MIB * 7 / 16 - 16, SPACE_MIB * 7 / 16 + 1);
    vw_pool_destroy(w.pool);
    vw_pool_destroy(other.pool);

    open_warned(device, "vramwise:rescue", true, &w);
    assert_int_equal(vw_pool_set_fraction(w.pool, 0.25), VW_OK);
    assert_in_range(take_until_warned(&w), SPACE_MIB * 7 / 32 - 12, SPACE_MIB * 7 / 32 + 1);
    vw_pool_destroy(w.pool);
    vw_device_destroy(device);
}

static void who_copies_nothing_hears_nothing(void **state)
{
    (void)state;
    static const char *const engines[] = {"vramwise", "torch"};
    for (int i = 0; i < 2; i++) {
        warned w;
        vw_device *device = NULL;
        assert_int_equal(vw_host_device_create(SPACE_MIB * VW_TEST_MIB, &device), VW_OK);
        open_warned(device, engines[i], false, &w);
        assert_true(take_until_warned(&w) > SPACE_MIB * 7 / 8);
        assert_int_equal(w.count, 0);
        vw_pool_destroy(w.pool);
        vw_device_destroy(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_start_of_a_live_block_can_be_pinned),
        cmocka_unit_test(where_nothing_moves_a_pin_asks_for_nothing),
        cmocka_unit_test(engine_torch_has_no_statistics_of_moves),
        cmocka_unit_test(an_engine_that_has_them_is_asked),
        cmocka_unit_test(a_safe_point_is_asked_for_without_the_lock),
        cmocka_unit_test(without_one_the_answer_is_no),
        cmocka_unit_test(half_a_safe_point_is_refused),
        cmocka_unit_test(it_is_said_with_each_miss_once_an_eighth_is_left),
        cmocka_unit_test(what_others_hold_and_a_limit_count),
        cmocka_unit_test(who_copies_nothing_hears_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
