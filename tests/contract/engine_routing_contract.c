/* engine_routing_contract.c - what a pool promises about private pools, listeners and odd requests,
 * whatever engine it has. Where a block lies is no business of this suite; whose memory it is, is.
 */
#include "contract/engine_contract.h"

#include <inttypes.h>
#include <stdlib.h>

#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)

static const vw_test_engine *engine_in_use;

static bool lacks(vw_test_lack what)
{
    return (engine_in_use->lacks & what) != 0;
}

static void check_ok(vw_status status, const char *what, int line)
{
    if (status == VW_OK)
        return;
    print_error("%s: %s: %s\n", what, vw_status_name(status), vw_last_error());
    _fail(__FILE__, line);
}

#define OK(call) check_ok(call, #call, __LINE__)

typedef struct desk {
    vw_device *device;
    vw_pool *pool;
} desk;

static void open_desk(desk *d, uint64_t capacity_bytes)
{
    *d = (desk){NULL, NULL};
    if (!vw_test_engine_open(engine_in_use, capacity_bytes, false, &d->device, &d->pool))
        fail_msg("no pool: %s", vw_last_error());
}

static uint64_t held_by_device(const desk *d)
{
    vw_device_calls calls;
    OK(vw_device_get_calls(d->device, &calls));
    return calls.in_use_bytes;
}

static void close_desk(desk *d)
{
    OK(vw_pool_check(d->pool));
    vw_pool_destroy(d->pool);
    assert_int_equal(held_by_device(d), 0);
    vw_device_destroy(d->device);
}

static vw_pool_stats stats_of(const desk *d)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    OK(vw_pool_get_stats(d->pool, &stats));
    return stats;
}

static vw_device_ptr take(desk *d, uint64_t size_bytes, vw_stream stream)
{
    vw_device_ptr address = VW_NULL;
    OK(vw_alloc(d->pool, size_bytes, stream, &address));
    return address;
}

/* ---- listeners ------------------------------------------------------------------------------- */

typedef struct ledger {
    int64_t reserved_bytes, live_count, pending_count;
    bool is_wrong;
} ledger;

static void keep_ledger(void *context, const vw_memory_event *event)
{
    ledger *book = context;
    int64_t size_bytes = (int64_t)event->size_bytes;
    switch (event->action) {
    case VW_ACTION_SEGMENT_ALLOC:
    case VW_ACTION_SEGMENT_MAP:
        book->reserved_bytes += size_bytes;
        break;
    case VW_ACTION_SEGMENT_FREE:
    case VW_ACTION_SEGMENT_UNMAP:
        book->reserved_bytes -= size_bytes;
        break;
    case VW_ACTION_ALLOC:
        book->live_count++;
        break;
    case VW_ACTION_FREE_REQUESTED:
        book->live_count--;
        book->pending_count++;
        break;
    case VW_ACTION_FREE_COMPLETED:
        book->pending_count--;
        break;
    case VW_ACTION_SNAPSHOT:
    case VW_ACTION_OOM:
        break;
    }
    book->is_wrong |= book->reserved_bytes < 0 || book->live_count < 0 || book->pending_count < 0;
}

/* Random blocks on three streams; the events add up to the statistics, after every step. */
static void events_add_up_to_the_reserved_bytes_and_live_blocks(void **state)
{
    enum { STEPS = 1200, MOST = 40 };
    (void)state;
    desk d;
    ledger book = {0};
    vw_device_ptr live[MOST];
    size_t count = 0;
    uint64_t random = 88172645463325252u;
    open_desk(&d, 1024 * MIB);
    OK(vw_pool_set_sink(d.pool, &(vw_event_sink){&book, keep_ledger}));
    for (int step = 0; step < STEPS; step++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        if (count < MOST && random % 5 < 3) {
            uint64_t top = UINT64_C(1) << (random >> 8) % 24;
            live[count++] = take(&d, top + (random >> 20) % top, (random >> 40) % 3);
        } else if (count > 0) {
            size_t which = (random >> 8) % count;
            if ((random >> 40) % 4 == 0)
                OK(vw_record_stream(d.pool, live[which], 9));
            OK(vw_free(d.pool, live[which]));
            live[which] = live[--count];
        }
        if (step % 300 == 299)
            OK(vw_pool_trim(d.pool));
        vw_pool_stats stats = stats_of(&d);
        assert_false(book.is_wrong);
        assert_int_equal(book.reserved_bytes, stats.reserved_bytes.all.current);
        assert_int_equal(book.live_count, stats.allocation.all.current);
        assert_int_equal(book.live_count + book.pending_count, stats.active.all.current);
    }
    OK(vw_pool_set_sink(d.pool, NULL));
    close_desk(&d);
}

/* ---- odd requests ---------------------------------------------------------------------------- */

static void an_address_of_no_live_block_cannot_be_freed(void **state)
{
    (void)state;
    desk d;
    open_desk(&d, 256 * MIB);
    vw_device_ptr block = take(&d, 3 * MIB, 0);
    assert_int_equal(vw_free(d.pool, block + 512), VW_ERR_UNKNOWN_ADDRESS);
    OK(vw_free(d.pool, block));
    assert_int_equal(vw_free(d.pool, block), VW_ERR_UNKNOWN_ADDRESS);
    OK(vw_free(d.pool, VW_NULL));
    close_desk(&d);
}

/* Out of memory it is, not some other failure, and the pool does not remember it as a need. */
static void a_request_beyond_any_device_runs_out_of_memory_and_changes_nothing(void **state)
{
    (void)state;
    desk d;
    open_desk(&d, 256 * MIB);
    vw_device_ptr kept = take(&d, 5 * MIB, 0), none = VW_NULL;
    int64_t reserved_bytes = stats_of(&d).reserved_bytes.all.current;
    for (unsigned size_log2 = 28; size_log2 < 60; size_log2++) {
        assert_int_equal(vw_alloc(d.pool, (UINT64_C(1) << size_log2) - 1, 0, &none),
                         VW_ERR_OUT_OF_MEMORY);
        assert_int_equal(none, VW_NULL);
        OK(vw_pool_check(d.pool));
    }
    OK(vw_pool_trim(d.pool));
    assert_int_equal(stats_of(&d).reserved_bytes.all.current, reserved_bytes);
    OK(vw_free(d.pool, kept));
    close_desk(&d);
}

static void an_exact_address_is_served_where_it_is_free(void **state)
{
    (void)state;
    if (lacks(VW_TEST_NO_EXACT_ADDRESSES))
        skip();
    desk d;
    open_desk(&d, 256 * MIB);
    vw_device_ptr first = take(&d, 64 * 1024, 0), got = VW_NULL;
    vw_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = 4096, .at = first + 8192};
    assert_int_equal(vw_alloc_with(d.pool, &request, &got), VW_ERR_OUT_OF_MEMORY);
    OK(vw_free(d.pool, first));
    OK(vw_alloc_with(d.pool, &request, &got));
    assert_int_equal(got, first + 8192);
    OK(vw_pool_check(d.pool));
    assert_int_equal(stats_of(&d).allocation.all.current, 1);
    OK(vw_free(d.pool, got));
    close_desk(&d);
}

static void a_live_block_can_be_pinned_and_unpinned(void **state)
{
    (void)state;
    desk d;
    open_desk(&d, 256 * MIB);
    vw_device_ptr block = take(&d, 3 * MIB, 0);
    OK(vw_pool_pin(d.pool, block));
    OK(vw_pool_check(d.pool));
    assert_int_equal(vw_pool_pin(d.pool, block + 512), VW_ERR_UNKNOWN_ADDRESS);
    OK(vw_free(d.pool, block));
    OK(vw_pool_unpin(d.pool, block));
    OK(vw_pool_trim(d.pool));
    assert_int_equal(held_by_device(&d), 0);
    close_desk(&d);
}

/* ---- private pools --------------------------------------------------------------------------- */

static const vw_private_id some_pool = {4, 2};

static vw_device_ptr take_privately(desk *d, uint64_t size_bytes)
{
    OK(vw_private_pool_begin(d->pool, some_pool, NULL, NULL));
    vw_device_ptr address = take(d, size_bytes, 0);
    OK(vw_private_pool_end(d->pool, some_pool));
    OK(vw_private_pool_release(d->pool, some_pool));
    return address;
}

static bool has_private_segment(void *context, const vw_segment_info *segment)
{
    uint64_t *bytes = context;
    if (segment->private_id.first == some_pool.first)
        *bytes += segment->total_bytes;
    return true;
}

static uint64_t private_bytes(const desk *d)
{
    uint64_t bytes = 0;
    OK(vw_pool_walk(d->pool, &(vw_walker){&bytes, has_private_segment, NULL}, false));
    return bytes;
}

/* A graph replays into what its pool has, live or not. */
static void a_private_pool_in_use_keeps_all_it_has(void **state)
{
    (void)state;
    if (lacks(VW_TEST_NO_PRIVATE_POOLS))
        skip();
    desk d;
    open_desk(&d, 64 * MIB);
    OK(vw_private_pool_retain(d.pool, some_pool, NULL));
    vw_device_ptr block = take_privately(&d, 24 * MIB), none = VW_NULL;
    OK(vw_free(d.pool, block));
    uint64_t kept_bytes = private_bytes(&d);
    assert_true(kept_bytes >= 24 * MIB);
    OK(vw_pool_trim(d.pool));
    assert_int_equal(private_bytes(&d), kept_bytes);
    assert_int_equal(vw_alloc(d.pool, 44 * MIB, 0, &none), VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(private_bytes(&d), kept_bytes);
    vw_device_ptr other = take(&d, 20 * MIB, 0);
    assert_true(other + 20 * MIB <= block || block + 24 * MIB <= other);
    OK(vw_free(d.pool, other));

    OK(vw_private_pool_release(d.pool, some_pool)); /* now it may go */
    OK(vw_alloc(d.pool, 44 * MIB, 0, &other));
    OK(vw_free(d.pool, other));
    OK(vw_pool_trim(d.pool));
    assert_int_equal(held_by_device(&d), 0);
    close_desk(&d);
}

typedef struct source {
    vw_device *device;
    int64_t given_bytes;
    int calls;
} source;

static vw_device_ptr give(void *context, uint64_t size_bytes, int device, vw_stream stream)
{
    source *from = context;
    vw_device_ptr address = VW_NULL;
    (void)device, (void)stream;
    from->calls++;
    if (from->device->table->take(from->device->context, size_bytes, &address) != VW_OK)
        return VW_NULL;
    from->given_bytes += (int64_t)size_bytes;
    return address;
}

static void take_again(void *context, vw_device_ptr address, uint64_t size_bytes, int device,
                       vw_stream stream)
{
    source *from = context;
    (void)device, (void)stream;
    OK(from->device->table->give_back(from->device->context, address));
    from->given_bytes -= (int64_t)size_bytes;
}

static void a_private_pool_with_a_source_is_served_by_it_or_refused(void **state)
{
    (void)state;
    if (lacks(VW_TEST_NO_PRIVATE_POOLS))
        skip();
    desk d;
    open_desk(&d, 256 * MIB);
    source from = {.device = d.device};
    const vw_private_options options = {.struct_size = sizeof options,
                                        .take = give,
                                        .give_back = take_again,
                                        .source_context = &from};
    vw_status status = vw_private_pool_retain(d.pool, some_pool, &options);
    if (status == VW_ERR_UNSUPPORTED) { /* an engine may say that it cannot */
        close_desk(&d);
        return;
    }
    OK(status);
    vw_device_ptr block = take_privately(&d, 24 * MIB);
    assert_true(from.calls > 0 && from.given_bytes >= (int64_t)(24 * MIB));
    assert_int_equal((int64_t)private_bytes(&d), from.given_bytes);
    OK(vw_free(d.pool, block));
    OK(vw_private_pool_release(d.pool, some_pool));
    OK(vw_private_pool_trim(d.pool, some_pool));
    assert_int_equal(from.given_bytes, 0);
    close_desk(&d);
}

/* ---- capabilities ---------------------------------------------------------------------------- */

static void count_setting(void *context, const char *key, const char *value)
{
    (void)key, (void)value;
    ++*(int *)context;
}

/* What an engine has works; what it lacks is refused as unsupported, and the pool serves on. */
static void what_the_engine_lacks_is_refused_and_nothing_else(void **state)
{
    (void)state;
    desk d;
    int settings = 0;
    vw_device_ptr got = VW_NULL;
    open_desk(&d, 256 * MIB);
    vw_device_ptr block = take(&d, 4 * MIB, 0);
    const vw_status with_private = lacks(VW_TEST_NO_PRIVATE_POOLS) ? VW_ERR_UNSUPPORTED : VW_OK;
    assert_int_equal(vw_private_pool_retain(d.pool, some_pool, NULL), with_private);
    assert_int_equal(vw_private_pool_use_count(d.pool, some_pool), with_private == VW_OK);
    assert_int_equal(vw_private_pool_begin(d.pool, some_pool, NULL, NULL), with_private);
    assert_int_equal(vw_private_pool_end(d.pool, some_pool), with_private);
    assert_int_equal(vw_private_pool_set_no_split(d.pool, some_pool, true), with_private);
    assert_int_equal(vw_private_pool_release(d.pool, some_pool), with_private);

    const vw_status with_settings = lacks(VW_TEST_NO_SETTINGS) ? VW_ERR_UNSUPPORTED : VW_OK;
    assert_int_equal(vw_pool_configure(d.pool, ""), with_settings);
    OK(vw_pool_walk_conf(d.pool, count_setting, &settings));
    assert_int_equal(settings != 0, with_settings == VW_OK);

    vw_paged_stats moves = {.struct_size = sizeof moves};
    if (lacks(VW_TEST_NO_MOVES))
        assert_int_equal(vw_pool_get_paged_stats(d.pool, &moves), VW_ERR_UNSUPPORTED);
    const vw_alloc_request at = {.struct_size = sizeof at, .size_bytes = 4 * MIB, .at = block};
    assert_int_equal(vw_alloc_with(d.pool, &at, &got),
                     lacks(VW_TEST_NO_EXACT_ADDRESSES) ? VW_ERR_UNSUPPORTED : VW_ERR_OUT_OF_MEMORY);
    OK(vw_advise(d.pool, block, VW_ADVISE_COLD));
    OK(vw_pool_mark_step(d.pool));
    OK(vw_pool_check(d.pool));
    OK(vw_free(d.pool, block));
    close_desk(&d);
}

int vw_test_engine_routing_contract(const vw_test_engine *engine)
{
    const struct CMUnitTest checks[] = {
        cmocka_unit_test(what_the_engine_lacks_is_refused_and_nothing_else),
        cmocka_unit_test(events_add_up_to_the_reserved_bytes_and_live_blocks),
        cmocka_unit_test(an_address_of_no_live_block_cannot_be_freed),
        cmocka_unit_test(a_request_beyond_any_device_runs_out_of_memory_and_changes_nothing),
        cmocka_unit_test(an_exact_address_is_served_where_it_is_free),
        cmocka_unit_test(a_live_block_can_be_pinned_and_unpinned),
        cmocka_unit_test(a_private_pool_in_use_keeps_all_it_has),
        cmocka_unit_test(a_private_pool_with_a_source_is_served_by_it_or_refused),
    };
    engine_in_use = engine;
    return cmocka_run_group_tests_name(engine->name, checks, NULL, NULL);
}
