/* test_graph_order.c - graph_capture_record_stream_reuse: what the captured graph puts in order is
 * free before the capture ends.
 *
 * The graph is made up. Block `a` belongs to stream OWN and was used by stream OTHER:
 *
 *        1         begins both streams
 *      2   3       the last nodes of OWN and of OTHER when the block is freed
 *      4           of OWN: after 2 only, or after both */
#include "pool/graph_order.h"

#include "base/host_memory.h"
#include "pool/pool.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/pool_fixture.h"

enum { OWN = 5, OTHER = 6, CAPTURE = 9 };

static const vw_private_id graph_pool = {1, 0}, another_pool = {2, 0};
static const char reuse_on[] = "graph_capture_record_stream_reuse:True";

#define CALL(call) assert_int_equal(call, VW_OK)

static void set_last(vw_test_pool *t, vw_stream stream, uint64_t capture, vw_graph_node node)
{
    CALL(vw_device_set_capturing(t->device, stream, true));
    CALL(vw_device_set_capture_nodes(t->device, stream, capture, &node, 1));
}

static void make_graph(vw_test_pool *t)
{
    CALL(vw_device_set_node_parents(t->device, 2, &(vw_graph_node){1}, 1));
    CALL(vw_device_set_node_parents(t->device, 3, &(vw_graph_node){1}, 1));
    CALL(vw_device_set_node_parents(t->device, 4, &(vw_graph_node){2}, 1));
    set_last(t, OWN, CAPTURE, 2);
    set_last(t, OTHER, CAPTURE, 3);
}

static void join(vw_test_pool *t)
{
    CALL(vw_device_set_node_parents(t->device, 4, (vw_graph_node[]){2, 3}, 2));
    set_last(t, OWN, CAPTURE, 4);
}

/* A pool in the middle of a capture, and the block in it, announced and still live. */
static vw_device_ptr open(vw_test_pool *t, vw_test_pool_setup setup)
{
    setup.manual_streams = true;
    vw_test_pool_open(t, &setup);
    make_graph(t);
    vw_test_ok(t, vw_private_pool_begin(t->pool, graph_pool, NULL, NULL));
    vw_device_ptr a = vw_test_alloc_on(t, 512, OWN);
    vw_test_ok(t, vw_record_stream(t->pool, a, OTHER));
    return a;
}

static void end_capture(vw_test_pool *t)
{
    CALL(vw_device_set_capturing(t->device, OWN, false));
    CALL(vw_device_set_capturing(t->device, OTHER, false));
    vw_test_ok(t, vw_private_pool_end(t->pool, graph_pool));
}

/* Does a request on `stream` complete a free that waits? */
static bool is_free_after_request(vw_test_pool *t, vw_stream stream)
{
    size_t before = t->pool->order.pending_count;
    assert_true(before > 0);
    (void)vw_test_alloc_on(t, 512, stream);
    return t->pool->order.pending_count < before;
}

static bool is_marked(const vw_test_pool *t)
{
    assert_non_null(t->pool->order.deferred);
    return t->pool->order.deferred->uses->marks != NULL;
}

/* Engines and releases that have the option. */
static const vw_test_pool_setup kinds[] = {
    {.engine = "torch", .torch_version = "2.9", .conf = reuse_on},
    {.engine = "torch", .torch_version = "2.11", .conf = reuse_on},
    {.engine = "torch", .torch_version = "2.13", .conf = reuse_on},
    {.engine = "vramwise", .torch_version = "2.11", .conf = reuse_on},
    {.engine = "vramwise", .torch_version = "2.13", .conf = reuse_on},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- the rule -------------------------------------------------------------------------------- */

static void a_block_is_free_once_its_stream_comes_after_all_uses(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        vw_test_pool t;
        vw_device_ptr a = open(&t, kinds[i]);
        vw_test_free(&t, a);
        assert_true(is_marked(&t));
        assert_false(is_free_after_request(&t, OWN));
        set_last(&t, OWN, CAPTURE, 4); /* after its own work only */
        assert_false(is_free_after_request(&t, OWN));
        join(&t);
        CALL(vw_device_set_capture_nodes(t.device, OWN, CAPTURE, (vw_graph_node[]){2, 3}, 2));
        vw_test_forget_events(&t);
        assert_int_equal(vw_test_alloc_on(&t, 512, OWN), a);
        vw_test_expect_events(&t, {VW_ACTION_FREE_COMPLETED, a, 512}, {VW_ACTION_ALLOC, a, 512});
        assert_int_equal(vw_test_calls(&t).count[VW_DEVICE_CALL_EVENT_RECORD], 0);
        assert_int_equal(t.pool->order.pending_count, 0);
        end_capture(&t);
        vw_test_pool_close(&t);
    }
}

static void the_join_may_lie_behind_the_last_node(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        vw_test_pool t;
        vw_test_free(&t, open(&t, kinds[i]));
        join(&t);
        CALL(vw_device_set_node_parents(t.device, 5, &(vw_graph_node){4}, 1));
        set_last(&t, OWN, CAPTURE, 5);
        assert_true(is_free_after_request(&t, OWN));
        end_capture(&t);
        vw_test_pool_close(&t);
    }
}

static void only_a_request_on_the_blocks_own_stream_frees_it(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        vw_test_pool t;
        vw_test_free(&t, open(&t, kinds[i]));
        join(&t);
        set_last(&t, OTHER, CAPTURE, 4); /* which comes after all uses as well */
        assert_false(is_free_after_request(&t, OTHER));
        assert_true(is_free_after_request(&t, OWN));
        end_capture(&t);
        vw_test_pool_close(&t);
    }
}

static void several_blocks_are_freed_in_the_order_of_their_frees(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        vw_test_pool t;
        vw_device_ptr a = open(&t, kinds[i]), b = vw_test_alloc_on(&t, 1024, OWN),
                      c = vw_test_alloc_on(&t, 2048, OWN);
        vw_test_ok(&t, vw_record_stream(t.pool, b, OTHER));
        vw_test_ok(&t, vw_record_stream(t.pool, c, OTHER));
        vw_test_free(&t, c);
        vw_test_free(&t, a);
        join(&t);
        set_last(&t, OTHER, CAPTURE, 7); /* more work, after which nobody comes */
        vw_test_free(&t, b);
        vw_test_forget_events(&t);
        (void)vw_test_alloc_on(&t, 16 * VW_TEST_KIB, OWN);
        assert_true(t.event_count >= 3);
        assert_true(t.events[0].action == VW_ACTION_FREE_COMPLETED && t.events[0].address == c);
        assert_true(t.events[1].action == VW_ACTION_FREE_COMPLETED && t.events[1].address == a);
        assert_int_equal(t.pool->order.pending_count, 1);
        end_capture(&t);
        vw_test_pool_close(&t);
    }
}

/* ---- no marks -------------------------------------------------------------------------------- */

static void without_the_option_nothing_is_asked(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        vw_test_pool t;
        vw_test_pool_setup setup = kinds[i];
        setup.conf = NULL;
        vw_test_free(&t, open(&t, setup));
        assert_false(is_marked(&t));
        join(&t);
        assert_false(is_free_after_request(&t, OWN));
        end_capture(&t);
        vw_test_pool_close(&t);
    }
}

static void the_option_can_be_set_and_taken_back_while_the_pool_runs(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        vw_test_pool t;
        vw_test_pool_setup setup = kinds[i];
        setup.conf = NULL;
        vw_device_ptr a = open(&t, setup);
        vw_test_ok(&t, vw_pool_configure(t.pool, reuse_on));
        vw_test_free(&t, a);
        join(&t);
        vw_test_ok(&t, vw_pool_configure(t.pool, "graph_capture_record_stream_reuse:False"));
        assert_false(is_free_after_request(&t, OWN));
        vw_test_ok(&t, vw_pool_configure(t.pool, reuse_on));
        assert_true(is_free_after_request(&t, OWN));
        end_capture(&t);
        vw_test_pool_close(&t);
    }
}

static void a_stream_that_is_not_captured_with_the_others_leaves_no_marks(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        for (int is_elsewhere = 0; is_elsewhere < 2; is_elsewhere++) {
            vw_test_pool t;
            vw_device_ptr a = open(&t, kinds[i]);
            if (is_elsewhere)
                set_last(&t, OTHER, CAPTURE + 1, 3);
            else
                CALL(vw_device_set_capturing(t.device, OTHER, false));
            vw_test_free(&t, a);
            assert_false(is_marked(&t));
            join(&t);
            assert_false(is_free_after_request(&t, OWN));
            end_capture(&t);
            vw_test_pool_close(&t);
        }
    }
}

static void before_any_work_there_are_no_marks(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_device_ptr a = open(&t, kinds[1]);
    CALL(vw_device_set_capture_nodes(t.device, OWN, CAPTURE, NULL, 0));
    CALL(vw_device_set_capture_nodes(t.device, OTHER, CAPTURE, NULL, 0));
    vw_test_free(&t, a);
    assert_false(is_marked(&t));
    assert_false(is_free_after_request(&t, OWN));
    end_capture(&t);
    vw_test_pool_close(&t);
}

static void a_scope_without_a_capture_leaves_no_marks(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_device_ptr a = open(&t, kinds[1]);
    CALL(vw_device_set_capturing(t.device, OWN, false));
    vw_test_free(&t, a);
    assert_false(is_marked(&t));
    assert_false(is_free_after_request(&t, OWN));
    end_capture(&t);
    vw_test_pool_close(&t);
}

static void a_device_that_cannot_tell_leaves_no_marks(void **state)
{
    (void)state;
    vw_test_spy spy = {0};
    vw_test_pool t;
    vw_test_pool_setup setup = kinds[1];
    setup.spy = &spy;
    vw_device_ptr a = open(&t, setup);
    spy.table.struct_size = offsetof(vw_device_table, stream_capture_nodes);
    vw_test_free(&t, a);
    assert_false(is_marked(&t));
    assert_false(is_free_after_request(&t, OWN));
    end_capture(&t);
    vw_test_pool_close(&t);
}

/* ---- the end of a capture -------------------------------------------------------------------- */

static void what_is_still_deferred_waits_for_the_end_of_the_capture(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_free(&t, open(&t, kinds[1]));
    assert_false(is_free_after_request(&t, OWN));
    assert_non_null(t.pool->order.graph_order.pasts);
    end_capture(&t);
    assert_null(t.pool->order.graph_order.pasts);
    assert_int_equal(t.pool->order.pending_count, 1);
    assert_true(is_free_after_request(&t, OWN));
    assert_int_equal(vw_test_calls(&t).count[VW_DEVICE_CALL_EVENT_RECORD], 0);
    vw_test_pool_close(&t);
}

/* Node numbers are addresses, and come again. */
static void marks_are_of_one_capture(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_free(&t, open(&t, kinds[1]));
    end_capture(&t);
    vw_test_ok(&t, vw_private_pool_begin(t.pool, another_pool, NULL, NULL));
    CALL(vw_device_set_node_parents(t.device, 4, (vw_graph_node[]){2, 3}, 2));
    set_last(&t, OWN, CAPTURE + 1, 4);
    assert_false(is_free_after_request(&t, OWN));
    vw_test_ok(&t, vw_private_pool_end(t.pool, another_pool));
    vw_test_pool_close(&t);
}

static void from_2_12_on_the_end_of_the_scope_frees_what_its_pool_deferred(void **state)
{
    (void)state;
    static const char *const engines[] = {"torch", "vramwise"};
    for (int i = 0; i < 2; i++) {
        vw_test_pool t;
        vw_test_pool_setup setup = {
            .engine = engines[i], .torch_version = "2.12", .conf = reuse_on};
        vw_device_ptr a = open(&t, setup), b = vw_test_alloc_on(&t, 512, OWN);
        CALL(vw_device_set_capturing(t.device, OTHER, false));
        vw_test_ok(&t, vw_record_stream(t.pool, b, OTHER)); /* outside of the graph */
        vw_test_free(&t, a);
        vw_test_free(&t, b);
        vw_test_forget_events(&t);
        end_capture(&t);
        vw_test_expect_events(&t, {VW_ACTION_FREE_COMPLETED, a, 512});
        assert_int_equal(t.pool->order.pending_count, 1);
        vw_test_pool_close(&t);
    }
}

static void the_end_of_a_scope_leaves_what_is_not_its_own(void **state)
{
    (void)state;
    vw_test_pool_setup setup = {.torch_version = "2.12", .conf = reuse_on, .manual_streams = true};
    vw_test_pool t;
    vw_test_pool_open(&t, &setup);
    make_graph(&t);
    vw_device_ptr outside = vw_test_alloc_on(&t, 512, OWN); /* of the default pool */
    vw_test_ok(&t, vw_private_pool_retain(t.pool, graph_pool, NULL));
    vw_test_ok(&t, vw_private_pool_begin(t.pool, graph_pool, NULL, NULL));
    vw_device_ptr earlier = vw_test_alloc_on(&t, 512, OWN);
    vw_test_ok(&t, vw_private_pool_end(t.pool, graph_pool));
    vw_test_ok(&t, vw_record_stream(t.pool, earlier, OTHER)); /* outside of every capture */
    vw_test_ok(&t, vw_private_pool_begin(t.pool, graph_pool, NULL, NULL));
    vw_device_ptr captured = vw_test_alloc_on(&t, 512, OWN);
    vw_test_ok(&t, vw_record_stream(t.pool, outside, OTHER));
    vw_test_ok(&t, vw_record_stream(t.pool, captured, OTHER));
    vw_test_free(&t, outside);
    vw_test_free(&t, earlier);
    vw_test_free(&t, captured);
    vw_test_ok(&t, vw_private_pool_end(t.pool, graph_pool)); /* while OWN is still captured */
    assert_int_equal(t.pool->order.pending_count, 3);
    vw_test_ok(&t, vw_private_pool_begin(t.pool, graph_pool, NULL, NULL));
    vw_test_forget_events(&t);
    end_capture(&t);
    vw_test_expect_events(&t, {VW_ACTION_FREE_COMPLETED, captured, 512});
    assert_int_equal(t.pool->order.pending_count, 2);
    vw_test_pool_close(&t);
}

/* ---- no node twice, and failures ------------------------------------------------------------- */

static unsigned asked_for_parents;
static const vw_device_table *real_table;

static vw_status count_parents(void *context, vw_graph_node node, vw_graph_node *parents,
                               size_t capacity, size_t *count)
{
    asked_for_parents++;
    return real_table->graph_node_parents(context, node, parents, capacity, count);
}

static void no_node_is_asked_for_its_parents_twice(void **state)
{
    (void)state;
    vw_test_spy spy = {0};
    vw_test_pool t;
    vw_test_pool_setup setup = kinds[1];
    setup.spy = &spy;
    vw_device_ptr a = open(&t, setup);
    real_table = spy.real;
    spy.table.graph_node_parents = count_parents;
    asked_for_parents = 0;
    assert_false(vw_test_alloc_on(&t, 512, OWN) == a);
    assert_int_equal(asked_for_parents, 0); /* nobody waits */
    vw_test_free(&t, a);
    assert_false(is_free_after_request(&t, OWN));
    assert_int_equal(asked_for_parents, 2); /* of 2 and 1 */
    assert_false(is_free_after_request(&t, OWN));
    assert_int_equal(asked_for_parents, 2);
    join(&t);
    assert_true(is_free_after_request(&t, OWN));
    assert_int_equal(asked_for_parents, 4); /* of 4 and 3 */
    end_capture(&t);
    vw_test_pool_close(&t);
}

static void a_node_may_have_many_parents(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    vw_graph_node all[MANY];
    vw_test_pool t;
    vw_device_ptr a = open(&t, kinds[1]);
    for (size_t i = 0; i < MANY; i++)
        all[i] = 1000 + 16 * i;
    CALL(vw_device_set_capture_nodes(t.device, OTHER, CAPTURE, all, MANY));
    vw_test_free(&t, a);
    assert_true(is_marked(&t));
    CALL(vw_device_set_node_parents(t.device, 4, all, MANY - 1));
    CALL(vw_device_set_capture_nodes(t.device, OWN, CAPTURE, (vw_graph_node[]){2, 4}, 2));
    assert_false(is_free_after_request(&t, OWN));
    CALL(vw_device_set_node_parents(t.device, 5, all, MANY));
    CALL(vw_device_set_capture_nodes(t.device, OWN, CAPTURE, (vw_graph_node[]){2, 5}, 2));
    assert_true(is_free_after_request(&t, OWN));
    end_capture(&t);
    vw_test_pool_close(&t);
}

/* Whichever call fails, freeing succeeds, and the block is free by the end of the capture. */
static void a_device_that_fails_leaves_the_block_waiting(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 12; nth++) {
        vw_test_pool t;
        vw_device_ptr a = open(&t, kinds[1]);
        (void)vw_test_alloc_on(&t, 512, OWN);
        CALL(vw_device_fail_call(t.device, nth, VW_ERR_DEVICE));
        vw_test_free(&t, a);
        join(&t);
        bool is_free = is_free_after_request(&t, OWN);
        CALL(vw_device_fail_call(t.device, 0, VW_OK));
        if (!is_free && is_marked(&t))
            assert_true(is_free_after_request(&t, OWN)); /* looked at anew */
        end_capture(&t);
        if (t.pool->order.pending_count != 0)
            assert_true(is_free_after_request(&t, OWN));
        vw_test_pool_close(&t);
    }
}

static bool free_and_reuse(void *context)
{
    vw_test_pool *t = context;
    vw_device_ptr a = VW_NULL;
    bool is_well = vw_alloc(t->pool, 512, OWN, &a) == VW_OK;
    if (a != VW_NULL) {
        is_well &= vw_record_stream(t->pool, a, OTHER) == VW_OK;
        assert_int_equal(vw_free(t->pool, a), VW_OK); /* whatever fails */
    }
    vw_device_ptr b = VW_NULL;
    is_well &= vw_alloc(t->pool, 512, OWN, &b) == VW_OK;
    if (b != VW_NULL)
        assert_int_equal(vw_free(t->pool, b), VW_OK);
    is_well &= t->pool->order.pending_count == 0;
    vw__host_memory_fail_at(0);
    assert_int_equal(vw_pool_check(t->pool), VW_OK);
    if (t->pool->order.pending_count != 0) { /* goes on, once there is memory */
        assert_int_equal(vw_private_pool_end(t->pool, graph_pool), VW_OK);
        assert_int_equal(vw_alloc(t->pool, 512, OWN, &b), VW_OK);
        assert_int_equal(vw_free(t->pool, b), VW_OK);
        assert_int_equal(t->pool->order.pending_count, 0);
        assert_int_equal(vw_private_pool_begin(t->pool, graph_pool, NULL, NULL), VW_OK);
    }
    vw__graph_order_forget(&t->pool->order.graph_order);
    return is_well;
}

static void without_host_memory_the_block_waits(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_device_ptr a = open(&t, kinds[1]);
    vw_test_free(&t, a);
    set_last(&t, OTHER, CAPTURE, 2); /* every request finds all in order */
    CALL(vw_device_set_node_parents(t.device, 2, &(vw_graph_node){3}, 1));
    assert_true(is_free_after_request(&t, OWN)); /* records, uses and queues are there now */
    vw_test_ok(&t, vw_private_pool_end(t.pool, graph_pool));
    vw_device_ptr outside = vw_test_alloc_on(&t, 512, OWN);
    vw_test_free(&t, outside);
    vw_test_ok(&t, vw_private_pool_begin(t.pool, graph_pool, NULL, NULL));
    (void)free_and_reuse(&t);
    vw_test_sweep_host_memory(free_and_reuse, &t);
    vw_test_pool_close(&t);
}

static void the_end_of_a_pool_finds_marks_and_nodes(void **state)
{
    (void)state;
    uint64_t host_bytes = vw__host_memory_get_use().in_use_bytes;
    vw_test_pool t;
    vw_test_free(&t, open(&t, kinds[1]));
    assert_false(is_free_after_request(&t, OWN));
    vw_test_pool_close(&t);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, host_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_free_once_its_stream_comes_after_all_uses),
        cmocka_unit_test(the_join_may_lie_behind_the_last_node),
        cmocka_unit_test(only_a_request_on_the_blocks_own_stream_frees_it),
        cmocka_unit_test(several_blocks_are_freed_in_the_order_of_their_frees),
        cmocka_unit_test(without_the_option_nothing_is_asked),
        cmocka_unit_test(the_option_can_be_set_and_taken_back_while_the_pool_runs),
        cmocka_unit_test(a_stream_that_is_not_captured_with_the_others_leaves_no_marks),
        cmocka_unit_test(before_any_work_there_are_no_marks),
        cmocka_unit_test(a_scope_without_a_capture_leaves_no_marks),
        cmocka_unit_test(a_device_that_cannot_tell_leaves_no_marks),
        cmocka_unit_test(what_is_still_deferred_waits_for_the_end_of_the_capture),
        cmocka_unit_test(marks_are_of_one_capture),
        cmocka_unit_test(from_2_12_on_the_end_of_the_scope_frees_what_its_pool_deferred),
        cmocka_unit_test(the_end_of_a_scope_leaves_what_is_not_its_own),
        cmocka_unit_test(no_node_is_asked_for_its_parents_twice),
        cmocka_unit_test(a_node_may_have_many_parents),
        cmocka_unit_test(a_device_that_fails_leaves_the_block_waiting),
        cmocka_unit_test(without_host_memory_the_block_waits),
        cmocka_unit_test(the_end_of_a_pool_finds_marks_and_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
