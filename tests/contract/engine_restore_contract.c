/* engine_restore_contract.c - a private pool comes back as it was, whatever engine decides where
 * its blocks lie.
 *
 * A *picture* is what a walk tells of one private pool: every block with its address, size and
 * state. Two pictures are compared by their live blocks, and by what lies between them; memory that
 * the pool has taken since the first may be in the second, free. */
#include "contract/engine_contract.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/pool_fixture.h"

#define MIB (UINT64_C(1) << 20)

enum { MOST_BLOCKS = 400, STATES = 3 };

static const vw_test_engine *engine_in_use;
static const vw_private_id graphs = {7, 1};

static void check_ok(vw_status status, const char *what, int line)
{
    if (status == VW_OK)
        return;
    print_error("%s: %s: %s\n", what, vw_status_name(status), vw_last_error());
    _fail(__FILE__, line);
}

#define OK(call) check_ok(call, #call, __LINE__)

/* ---- a desk ---------------------------------------------------------------------------------- */

typedef struct desk {
    vw_device *device;
    vw_pool *pool;
    uint64_t random;
} desk;

static void open_desk(desk *d)
{
    *d = (desk){.random = 88172645463325252u};
    if (!vw_test_engine_open(engine_in_use, 1024 * MIB, false, &d->device, &d->pool))
        fail_msg("no pool: %s", vw_last_error());
    OK(vw_private_pool_retain(d->pool, graphs, NULL));
}

static void close_desk(desk *d)
{
    vw_device_calls calls;
    OK(vw_pool_check(d->pool));
    vw_pool_destroy(d->pool);
    OK(vw_device_get_calls(d->device, &calls));
    assert_int_equal(calls.in_use_bytes, 0);
    vw_device_destroy(d->device);
}

static uint64_t next_random(desk *d)
{
    d->random ^= d->random << 13, d->random ^= d->random >> 7, d->random ^= d->random << 17;
    return d->random;
}

static void begin(desk *d)
{
    OK(vw_private_pool_begin(d->pool, graphs, NULL, NULL));
}

static void end(desk *d)
{
    OK(vw_private_pool_end(d->pool, graphs));
    OK(vw_private_pool_release(d->pool, graphs)); /* begin() has retained it */
}

static vw_device_ptr take(desk *d, uint64_t size_bytes, vw_stream stream)
{
    vw_device_ptr address = VW_NULL;
    OK(vw_alloc(d->pool, size_bytes, stream, &address));
    return address;
}

/* Everything there is, for "nothing changed". */
static char *describe(const desk *d)
{
    const vw_test_pool test = {.device = d->device, .pool = d->pool};
    return vw_test_describe(&test);
}

/* ---- pictures -------------------------------------------------------------------------------- */

typedef struct seen_block {
    vw_device_ptr address;
    uint64_t size_bytes;
    vw_stream stream;
    vw_block_state state;
} seen_block;

typedef struct picture {
    seen_block blocks[MOST_BLOCKS];
    size_t count;
} picture;

static bool see_block(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    picture *seen = context;
    if (segment->private_id.first != graphs.first || segment->private_id.second != graphs.second)
        return true;
    assert_true(seen->count < MOST_BLOCKS);
    seen->blocks[seen->count++] =
        (seen_block){block->address, block->size_bytes, segment->stream, block->state};
    return true;
}

static picture look(const desk *d)
{
    picture seen = {.count = 0};
    OK(vw_pool_walk(d->pool, &(vw_walker){&seen, NULL, see_block}, false));
    return seen;
}

static const seen_block *block_holding(const picture *seen, vw_device_ptr address)
{
    for (size_t i = 0; i < seen->count; i++)
        if (address - seen->blocks[i].address < seen->blocks[i].size_bytes)
            return &seen->blocks[i];
    return NULL;
}

static size_t live_count(const picture *seen)
{
    size_t count = 0;
    for (size_t i = 0; i < seen->count; i++)
        count += seen->blocks[i].state == VW_BLOCK_LIVE;
    return count;
}

/* Live blocks just as they were, and free ones, perhaps larger by memory that came since. */
static void assert_back(const desk *d, const picture *before)
{
    picture now = look(d);
    OK(vw_pool_check(d->pool));
    assert_int_equal(live_count(&now), live_count(before));
    for (size_t i = 0; i < before->count; i++) {
        const seen_block *was = &before->blocks[i], *is = block_holding(&now, was->address);
        assert_non_null(is);
        assert_int_equal(is->stream, was->stream);
        assert_int_equal(is->state, was->state);
        if (was->state == VW_BLOCK_LIVE) {
            assert_int_equal(is->address, was->address);
            assert_int_equal(is->size_bytes, was->size_bytes);
        } else {
            assert_true(is->address <= was->address &&
                        is->address + is->size_bytes >= was->address + was->size_bytes);
        }
    }
}

static vw_private_state *checkpoint(desk *d)
{
    vw_private_state *state = NULL;
    OK(vw_private_pool_checkpoint(d->pool, graphs, &state));
    return state;
}

/* ---- as it was ------------------------------------------------------------------------------- */

static void blocks_come_back_where_they_were(void **state)
{
    (void)state;
    desk d;
    open_desk(&d);
    begin(&d);
    vw_device_ptr kept = take(&d, 3 * MIB, 0), gone = take(&d, 5 * MIB, 0);
    vw_device_ptr small = take(&d, 1000, 0), other_small = take(&d, 70000, 0);
    vw_device_ptr elsewhere = take(&d, 2 * MIB, 5);
    OK(vw_free(d.pool, gone));
    OK(vw_free(d.pool, small));
    vw_private_state *then = checkpoint(&d);
    picture before = look(&d);

    OK(vw_free(d.pool, kept));
    OK(vw_free(d.pool, elsewhere));
    for (int i = 0; i < 12; i++)
        take(&d, 300 * 1024 * (uint64_t)(i + 1), i % 3 == 0 ? 5 : 0);
    take(&d, 60 * MIB, 0);
    end(&d);
    OK(vw_private_pool_restore(d.pool, then, NULL));
    assert_back(&d, &before);

    OK(vw_free(d.pool, kept)); /* they are blocks like any other */
    OK(vw_free(d.pool, other_small));
    OK(vw_free(d.pool, elsewhere));
    assert_int_equal(vw_free(d.pool, gone), VW_ERR_UNKNOWN_ADDRESS);
    assert_int_equal(vw_free(d.pool, small), VW_ERR_UNKNOWN_ADDRESS);
    vw_private_state_free(then);
    close_desk(&d);
}

/* The next graph is captured into the same places, whichever ran last. */
static void requests_after_it_are_served_as_after_the_checkpoint(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {700, 3 * MIB, 90000, 5 * MIB, 512, 2 * MIB + 1, 1 * MIB};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    desk d;
    open_desk(&d);
    begin(&d);
    vw_device_ptr live = take(&d, 2 * MIB, 0), room = take(&d, 18 * MIB, 0), first[COUNT];
    vw_device_ptr small_room = take(&d, 200000, 0);
    OK(vw_free(d.pool, small_room));
    OK(vw_free(d.pool, room));
    vw_private_state *then = checkpoint(&d);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            vw_device_ptr address = take(&d, sizes[i], 0);
            if (round == 0)
                first[i] = address;
            assert_int_equal(address, first[i]);
        }
        OK(vw_private_pool_restore(d.pool, then, NULL));
        OK(vw_pool_check(d.pool));
    }
    end(&d);
    OK(vw_free(d.pool, live));
    vw_private_state_free(then);
    close_desk(&d);
}

typedef struct told {
    vw_device_ptr freed[MOST_BLOCKS], allocated[MOST_BLOCKS];
    size_t freed_count, allocated_count;
    vw_pool *pool;
    int64_t live_by_events;
    uint64_t request;
    bool has_other_request;
} told;

static void was_freed(void *context, vw_device_ptr address)
{
    told *heard = context;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    OK(vw_pool_get_stats(heard->pool, &stats)); /* the pool may be used */
    assert_int_equal(heard->allocated_count, 0);
    heard->freed[heard->freed_count++] = address;
}

static void was_allocated(void *context, vw_device_ptr address)
{
    told *heard = context;
    heard->allocated[heard->allocated_count++] = address;
}

static void count_live(void *context, const vw_memory_event *event)
{
    told *heard = context;
    heard->live_by_events += event->action == VW_ACTION_ALLOC;
    heard->live_by_events -= event->action == VW_ACTION_FREE_COMPLETED;
    if (heard->request == 0)
        heard->request = event->request;
    heard->has_other_request |= event->request != heard->request;
}

static void the_listener_hears_what_was_freed_and_what_is_live_now(void **state)
{
    (void)state;
    desk d;
    open_desk(&d);
    begin(&d);
    vw_device_ptr kept = take(&d, 3 * MIB, 0), gone = take(&d, 5 * MIB, 0);
    vw_private_state *then = checkpoint(&d);
    OK(vw_free(d.pool, gone));
    vw_device_ptr later = take(&d, 7 * MIB, 0);
    end(&d);
    vw_device_ptr others = take(&d, 4 * MIB, 0); /* of the default pool: left alone */
    told heard = {.pool = d.pool, .live_by_events = 3};
    OK(vw_pool_set_sink(d.pool, &(vw_event_sink){&heard, count_live}));
    const vw_restore_listener listener = {&heard, was_freed, was_allocated, 4711};
    OK(vw_private_pool_restore(d.pool, then, &listener));
    OK(vw_pool_set_sink(d.pool, NULL));
    assert_int_equal(heard.freed_count, 2);
    assert_true((heard.freed[0] == kept && heard.freed[1] == later) ||
                (heard.freed[1] == kept && heard.freed[0] == later));
    assert_true(heard.freed[0] < heard.freed[1]);
    assert_int_equal(heard.allocated_count, 2);
    assert_true((heard.allocated[0] == kept && heard.allocated[1] == gone) ||
                (heard.allocated[1] == kept && heard.allocated[0] == gone));
    assert_int_equal(heard.live_by_events, 3);
    assert_true(heard.request != 0 && !heard.has_other_request);
    vw_block_place place;
    OK(vw_pool_find(d.pool, gone, &place));
    assert_int_equal(place.tag, 4711);
    assert_int_equal(place.requested_bytes, place.block_bytes);
    OK(vw_pool_find(d.pool, gone + 5 * MIB - 1, &place)); /* and inside of it */
    assert_int_equal(place.block_address, gone);
    OK(vw_free(d.pool, others));
    vw_private_state_free(then);
    close_desk(&d);
}

/* ---- again and again ------------------------------------------------------------------------- */

typedef struct holding {
    vw_device_ptr address[MOST_BLOCKS];
    size_t count;
} holding;

static void list_live(const desk *d, holding *held)
{
    picture now = look(d);
    held->count = 0;
    for (size_t i = 0; i < now.count; i++)
        if (now.blocks[i].state == VW_BLOCK_LIVE)
            held->address[held->count++] = now.blocks[i].address;
}

static void take_or_free(desk *d, holding *held, size_t most, uint64_t largest_bytes)
{
    uint64_t random = next_random(d);
    if (held->count < most && random % 5 < 3) {
        uint64_t top = 512 + (random >> 8) % largest_bytes;
        held->address[held->count++] =
            take(d, (random >> 40) % 3 == 0 ? top % 100000 + 1 : top, (random >> 44) % 2);
    } else if (held->count > 0) {
        size_t which = (random >> 8) % held->count;
        OK(vw_free(d->pool, held->address[which]));
        held->address[which] = held->address[--held->count];
    }
}

/* The default pool works on meanwhile: in an engine that moves memory it takes and gives. */
static void states_can_be_put_back_in_any_order(void **state)
{
    enum { ROUNDS = 40, STEPS = 25 };
    (void)state;
    desk d;
    static picture pictures[STATES];
    vw_private_state *states[STATES] = {NULL};
    static holding mine, others;
    mine.count = others.count = 0;
    open_desk(&d);
    for (int round = 0; round < ROUNDS; round++) {
        size_t which = next_random(&d) % STATES;
        begin(&d);
        for (int step = 0; step < STEPS; step++)
            take_or_free(&d, &mine, 40, 9 * MIB);
        end(&d);
        for (int step = 0; step < STEPS; step++)
            take_or_free(&d, &others, 40, 9 * MIB);
        if (round % 10 == 9)
            OK(vw_pool_trim(d.pool));
        if (states[which] == NULL || next_random(&d) % 3 == 0) {
            vw_private_state_free(states[which]);
            states[which] = checkpoint(&d);
            pictures[which] = look(&d);
        } else {
            OK(vw_private_pool_restore(d.pool, states[which], NULL));
            assert_back(&d, &pictures[which]);
            list_live(&d, &mine);
        }
    }
    for (size_t i = 0; i < others.count; i++)
        OK(vw_free(d.pool, others.address[i]));
    for (int i = 0; i < STATES; i++)
        vw_private_state_free(states[i]);
    close_desk(&d);
}

/* ---- what cannot be done --------------------------------------------------------------------- */

static void refused(desk *d, const vw_private_state *then, vw_status expected, int line)
{
    char *before = describe(d);
    vw_status status = vw_private_pool_restore(d->pool, then, NULL);
    char *after = describe(d);
    if (status != expected || strcmp(before, after) != 0) {
        print_error("%s (%s), expected %s\n", vw_status_name(status), vw_last_error(),
                    vw_status_name(expected));
        _fail(__FILE__, line);
    }
    free(before);
    free(after);
    OK(vw_pool_check(d->pool));
}

static void a_pool_that_is_no_longer_in_use_stays_as_it_is(void **state)
{
    (void)state;
    desk d;
    open_desk(&d);
    begin(&d);
    vw_device_ptr live = take(&d, 3 * MIB, 0);
    vw_private_state *then = checkpoint(&d), *none = NULL;
    end(&d);
    OK(vw_private_pool_release(d.pool, graphs));
    refused(&d, then, VW_ERR_WRONG_STATE, __LINE__); /* its last block is still live */
    assert_int_equal(vw_private_pool_checkpoint(d.pool, graphs, &none), VW_ERR_INVALID_ARGUMENT);
    OK(vw_free(d.pool, live));
    OK(vw_pool_trim(d.pool));
    refused(&d, then, VW_ERR_WRONG_STATE, __LINE__); /* it is gone */
    OK(vw_private_pool_retain(d.pool, graphs, NULL));
    refused(&d, then, VW_ERR_WRONG_STATE, __LINE__); /* another of the same name has no memory */
    assert_null(none);
    vw_private_state_free(then);
    close_desk(&d);
}

static void odd_arguments_are_refused(void **state)
{
    (void)state;
    desk d, other;
    open_desk(&d);
    open_desk(&other);
    vw_private_state *then = checkpoint(&other), *none = NULL;
    const vw_private_id nobody = {1, 99};
    refused(&d, then, VW_ERR_INVALID_ARGUMENT, __LINE__);
    refused(&d, NULL, VW_ERR_INVALID_ARGUMENT, __LINE__);
    assert_int_equal(vw_private_pool_checkpoint(d.pool, nobody, &none), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_private_pool_checkpoint(d.pool, (vw_private_id){0, 0}, &none),
                     VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_private_pool_checkpoint(d.pool, graphs, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_null(none);
    OK(vw_private_pool_restore(other.pool, then, NULL)); /* of nothing: nothing */
    vw_private_state_free(then);
    vw_private_state_free(NULL);
    close_desk(&other);
    close_desk(&d);
}

/* ---- other streams --------------------------------------------------------------------------- */

static void blocks_that_other_streams_use_are_waited_for(void **state)
{
    (void)state;
    desk d;
    open_desk(&d);
    OK(vw_device_hold_streams(d.device, true));
    begin(&d);
    vw_device_ptr kept = take(&d, 3 * MIB, 0), waiting = take(&d, 5 * MIB, 0);
    end(&d); /* inside of it, some releases take everything for part of a capture */
    OK(vw_record_stream(d.pool, waiting, 9));
    OK(vw_free(d.pool, waiting)); /* stream 9 has not come so far */
    vw_private_state *then = checkpoint(&d);
    picture before = look(&d);
    assert_int_equal(block_holding(&before, waiting)->state, VW_BLOCK_FREE);
    OK(vw_record_stream(d.pool, kept, 9)); /* and is live */
    begin(&d);
    vw_device_ptr another = take(&d, 6 * MIB, 0);
    end(&d);
    OK(vw_record_stream(d.pool, another, 9));
    OK(vw_free(d.pool, another)); /* and pending */
    OK(vw_private_pool_restore(d.pool, then, NULL));
    assert_back(&d, &before);
    OK(vw_free(d.pool, kept)); /* at once: nobody is named for it now */
    picture now = look(&d);
    assert_int_equal(block_holding(&now, kept)->state, VW_BLOCK_FREE);
    OK(vw_device_hold_streams(d.device, false));
    vw_private_state_free(then);
    close_desk(&d);
}

static void what_a_capture_holds_back_is_not_waited_for(void **state)
{
    (void)state;
    desk d;
    open_desk(&d);
    begin(&d);
    vw_device_ptr kept = take(&d, 3 * MIB, 0), waiting = take(&d, 5 * MIB, 0);
    vw_private_state *then = checkpoint(&d), *none = NULL;
    OK(vw_record_stream(d.pool, waiting, 9));
    OK(vw_device_set_capturing(d.device, 0, true));
    OK(vw_free(d.pool, waiting)); /* deferred, until the capture ends */
    refused(&d, then, VW_ERR_WRONG_STATE, __LINE__);
    assert_int_equal(vw_private_pool_checkpoint(d.pool, graphs, &none), VW_ERR_WRONG_STATE);
    assert_null(none);
    OK(vw_device_set_capturing(d.device, 0, false));
    OK(vw_record_stream(d.pool, kept, 9));
    OK(vw_device_set_capturing(d.device, 9, true));
    vw_status status = vw_private_pool_restore(d.pool, then, NULL);
    assert_int_equal(status, VW_ERR_WRONG_STATE);
    OK(vw_pool_check(d.pool));
    OK(vw_device_set_capturing(d.device, 9, false));
    end(&d);
    OK(vw_private_pool_restore(d.pool, then, NULL));
    vw_private_state_free(then);
    close_desk(&d);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Everything once: false where some step failed. What a step that failed left is looked at. */
static bool run_through(desk *d)
{
    vw_private_state *then = NULL;
    vw_device_ptr blocks[6] = {VW_NULL};
    bool is_well = vw_private_pool_begin(d->pool, graphs, NULL, NULL) == VW_OK;
    for (int i = 0; i < 4 && is_well; i++)
        is_well = vw_alloc(d->pool, (uint64_t)(1 + i) * 700000, 0, &blocks[i]) == VW_OK;
    is_well = is_well && vw_private_pool_end(d->pool, graphs) == VW_OK &&
              vw_record_stream(d->pool, blocks[1], 9) == VW_OK &&
              vw_free(d->pool, blocks[1]) == VW_OK;
    is_well = is_well && vw_private_pool_checkpoint(d->pool, graphs, &then) == VW_OK;
    OK(vw_pool_check(d->pool));
    is_well = is_well && vw_free(d->pool, blocks[2]) == VW_OK &&
              vw_private_pool_begin(d->pool, graphs, NULL, NULL) == VW_OK &&
              vw_alloc(d->pool, 25 * MIB, 0, &blocks[4]) == VW_OK &&
              vw_private_pool_end(d->pool, graphs) == VW_OK &&
              vw_record_stream(d->pool, blocks[0], 9) == VW_OK;
    if (is_well) {
        char *before = describe(d);
        is_well = vw_private_pool_restore(d->pool, then, NULL) == VW_OK;
        char *after = describe(d);
        assert_int_equal(strcmp(before, after) == 0, !is_well);
        free(before);
        free(after);
    }
    OK(vw_pool_check(d->pool));
    vw_private_state_free(then);
    return is_well;
}

static void whatever_the_device_refuses_leaves_the_pool_whole(void **state)
{
    (void)state;
    bool is_well = false;
    for (uint64_t nth = 1; !is_well && nth < 500; nth++) {
        desk d;
        open_desk(&d);
        OK(vw_device_hold_streams(d.device, true));
        OK(vw_device_fail_call(d.device, nth, VW_ERR_DEVICE));
        is_well = run_through(&d);
        OK(vw_device_fail_call(d.device, 0, VW_OK));
        OK(vw_device_hold_streams(d.device, false));
        close_desk(&d);
    }
    assert_true(is_well);
}

static bool run_without_memory(void *context)
{
    (void)context;
    desk d = {NULL, NULL, 1};
    if (!vw_test_engine_open(engine_in_use, 1024 * MIB, false, &d.device, &d.pool)) {
        vw_device_destroy(d.device);
        return false;
    }
    bool is_well = vw_private_pool_retain(d.pool, graphs, NULL) == VW_OK && run_through(&d);
    vw_pool_destroy(d.pool);
    vw_device_destroy(d.device);
    return is_well;
}

static void whatever_host_memory_is_missing_leaves_the_pool_whole(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(run_without_memory, NULL);
}

int vw_test_engine_restore_contract(const vw_test_engine *engine)
{
    const struct CMUnitTest checks[] = {
        cmocka_unit_test(blocks_come_back_where_they_were),
        cmocka_unit_test(requests_after_it_are_served_as_after_the_checkpoint),
        cmocka_unit_test(the_listener_hears_what_was_freed_and_what_is_live_now),
        cmocka_unit_test(states_can_be_put_back_in_any_order),
        cmocka_unit_test(a_pool_that_is_no_longer_in_use_stays_as_it_is),
        cmocka_unit_test(odd_arguments_are_refused),
        cmocka_unit_test(blocks_that_other_streams_use_are_waited_for),
        cmocka_unit_test(what_a_capture_holds_back_is_not_waited_for),
        cmocka_unit_test(whatever_the_device_refuses_leaves_the_pool_whole),
        cmocka_unit_test(whatever_host_memory_is_missing_leaves_the_pool_whole),
    };
    engine_in_use = engine;
    return cmocka_run_group_tests_name(engine->name, checks, NULL, NULL);
}
