/* test_pool_check.c - vw_pool_check() notices damage of every kind.
 *
 * Every other test of the allocator leans on the check, and a check that cannot fail is worthless.
 * So here a healthy pool is damaged in one place at a time, through its internals, and the check
 * must name that damage; then it is undone, and the check must be content again. */
#include "pool/pool.h"

#include <string.h>

#include "engine/torch/torch_engine.h"

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"

/* ---- a pool with one of everything ----------------------------------------------------------- */

typedef struct scene {
    vw_test_pool t;
    vw__torch_engine *engine;
    vw__block *live;     /* the first of a small segment, tagged */
    vw__block *hole;     /* free, between two live ones */
    vw__block *tail;     /* free, at the segment's end */
    vw__block *whole;    /* free, a large segment of its own; expandable: whole pages of one */
    vw__block *pending;  /* waits for streams 1 and 2 */
    vw__block *deferred; /* freed during a capture */
} scene;

static vw__block *block_at(scene *s, vw_device_ptr address)
{
    vw__engine *engine = s->t.pool->engine;
    return engine->table->find(engine, address);
}

static void scene_open(scene *s, bool is_expandable)
{
    vw_test_pool *t = &s->t;
    vw_test_pool_open(
        t, &(vw_test_pool_setup){.manual_streams = true,
                                 .conf = is_expandable ? "expandable_segments:True" : ""});
    s->engine = vw__torch_of(t->pool->engine);
    vw_device_ptr live = VW_NULL;
    vw_alloc_request request = {.struct_size = sizeof request, .size_bytes = 700, .tag = 3};
    vw_test_ok(t, vw_alloc_with(t->pool, &request, &live));
    vw_device_ptr hole = vw_test_alloc(t, 512), after = vw_test_alloc(t, 512);
    vw_device_ptr pending = vw_test_alloc(t, 512), deferred = vw_test_alloc(t, 512);
    vw_device_ptr last = vw_test_alloc(t, 512), whole = vw_test_alloc(t, 30 * VW_TEST_MIB);
    vw_test_alloc_on(t, 3 * VW_TEST_MIB, 1);
    vw_test_ok(t, vw_record_stream(t->pool, pending, 1));
    vw_test_ok(t, vw_record_stream(t->pool, pending, 2));
    vw_test_ok(t, vw_record_stream(t->pool, after, 1));
    vw_test_ok(t, vw_record_stream(t->pool, deferred, 1));
    vw_test_free(t, hole);
    vw_test_free(t, whole);
    vw_test_free(t, pending);
    vw_test_free(t, after); /* a second use in stream 1's queue */
    vw_test_ok(t, vw_private_pool_begin(t->pool, (vw_private_id){1, 0}, NULL, NULL));
    vw_test_free(t, deferred);
    s->live = block_at(s, live);
    s->hole = block_at(s, hole);
    s->tail = block_at(s, last)->next;
    s->whole = block_at(s, whole);
    s->pending = block_at(s, pending);
    s->deferred = block_at(s, deferred);
    assert_int_equal(s->tail->state, VW__BLOCK_FREE);
    assert_int_equal(s->hole->state, VW__BLOCK_FREE);
    assert_int_equal(s->whole->state, VW__BLOCK_FREE);
    assert_int_equal(s->pending->state, VW__BLOCK_PENDING);
}

/* ---- damage, and its repair ------------------------------------------------------------------ */

static struct {
    void *place;
    size_t size_bytes;
    unsigned char bytes[16];
} undo[8];
static size_t undo_count;

static void remember(void *place, size_t size_bytes)
{
    assert_true(undo_count < sizeof undo / sizeof undo[0] && size_bytes <= sizeof undo[0].bytes);
    undo[undo_count].place = place;
    undo[undo_count].size_bytes = size_bytes;
    memcpy(undo[undo_count].bytes, place, size_bytes);
    undo_count++;
}

static void repair(void)
{
    while (undo_count > 0) {
        undo_count--;
        memcpy(undo[undo_count].place, undo[undo_count].bytes, undo[undo_count].size_bytes);
    }
}

/* Changes one field; repair() changes it back. */
#define SET(field, value)                                                                          \
    do {                                                                                           \
        remember(&(field), sizeof(field));                                                         \
        (field) = (value);                                                                         \
    } while (0)

typedef struct damage {
    const char *text; /* part of what the check must say */
    void (*inflict)(scene *s);
} damage;

static void expect_noticed(const damage *damages, size_t count, bool is_expandable)
{
    scene s;
    scene_open(&s, is_expandable);
    for (size_t i = 0; i < count; i++) {
        damages[i].inflict(&s);
        vw_status status = vw_pool_check(s.t.pool);
        repair();
        if (status != VW_ERR_WRONG_STATE)
            fail_msg("not noticed: %s", damages[i].text);
        if (strstr(vw_last_error(), damages[i].text) == NULL)
            fail_msg("\"%s\" instead of \"%s\"", vw_last_error(), damages[i].text);
        vw_test_ok(&s.t, VW_OK);
    }
    vw_test_pool_close(&s.t);
}

#define EXPECT_NOTICED(damages, is_expandable)                                                     \
    expect_noticed(damages, sizeof(damages) / sizeof((damages)[0]), is_expandable)

/* ---- segments and blocks --------------------------------------------------------------------- */

static void name_another_segment(scene *s)
{
    SET(s->live->segment, s->whole->segment);
}

static void leave_a_gap(scene *s)
{
    SET(s->hole->address, s->hole->address + 512);
}

static void take_an_odd_size(scene *s)
{
    SET(s->live->size_bytes, s->live->size_bytes - 1);
}

static void forget_the_way_back(scene *s)
{
    SET(s->hole->previous, NULL);
}

static void free_a_neighbour_without_merging(scene *s)
{
    SET(s->live->state, VW__BLOCK_FREE);
}

static void unmap_plain_memory(scene *s)
{
    SET(s->live->state, VW__BLOCK_UNMAPPED);
}

static void tag_a_free_block(scene *s)
{
    SET(s->hole->tag, 1);
}

static void lose_the_first_block(scene *s)
{
    SET(s->live->segment->first, s->hole);
}

static void lose_the_tail(scene *s)
{
    SET(s->tail->previous->next, NULL);
}

static void claim_a_larger_segment(scene *s)
{
    SET(s->live->segment->size_bytes, s->live->segment->size_bytes + 512);
}

static void damaged_rows_of_blocks_are_noticed(void **state)
{
    (void)state;
    static const damage damages[] = {
        {"names another segment", name_another_segment},
        {"where the one before it ends", leave_a_gap},
        {"no multiple of 512", take_an_odd_size},
        {"points elsewhere", forget_the_way_back},
        {"should have been merged", free_a_neighbour_without_merging},
        {"of a plain segment is unmapped", unmap_plain_memory},
        {"has a tag", tag_a_free_block},
        {"does not know its first block", lose_the_first_block},
        {"add up to", lose_the_tail},
        {"add up to", claim_a_larger_segment},
    };
    EXPECT_NOTICED(damages, false);
}

/* ---- expandable segments --------------------------------------------------------------------- */

static void lose_a_handle(scene *s)
{
    SET(vw__torch_pages_of(s->live->segment)->handles[0], 0);
}

static void believe_a_page_unmapped(scene *s)
{
    SET(vw__torch_pages_of(s->live->segment)->is_mapped[0], false);
}

static void unmap_half_a_page(scene *s)
{
    SET(s->whole->size_bytes, s->whole->size_bytes - 512);
    SET(s->whole->next->address, s->whole->next->address - 512);
    SET(s->whole->next->size_bytes, s->whole->next->size_bytes + 512);
}

static void lose_the_unmapped(scene *s)
{
    SET(s->whole->segment->lane->unmapped, NULL);
}

static void list_a_mapped_block_as_unmapped(scene *s)
{
    vw__block *unmapped = vw__block_of_node(s->live->segment->lane->unmapped);
    SET(unmapped->state, VW__BLOCK_PENDING);
}

static void miscount_expandable_segments(scene *s)
{
    SET(s->engine->expandable_segments, s->engine->expandable_segments + 1);
}

static void damaged_expandable_segments_are_noticed(void **state)
{
    (void)state;
    static const damage damages[] = {
        {"is not mapped", lose_a_handle},
        {"is not mapped", believe_a_page_unmapped},
        {"is no run of pages", unmap_half_a_page},
        {"unmapped blocks,", lose_the_unmapped},
        {"is not mapped", list_a_mapped_block_as_unmapped},
        {"expandable segments counted", miscount_expandable_segments},
    };
    EXPECT_NOTICED(damages, true);
}

/* ---- indexes --------------------------------------------------------------------------------- */

static void hide_a_bin(scene *s)
{
    vw__free_index *index = &s->hole->segment->lane->free;
    SET(index->bins_in_use[s->hole->bin / 64], 0);
}

/* A whole, valid index that lacks one block. */
static void leave_a_free_block_out(scene *s)
{
    vw__free_index *index = &s->whole->segment->lane->free;
    SET(index->bins[s->whole->bin], NULL);
    SET(index->bins_in_use[s->whole->bin / 64], 0);
    SET(index->words_in_use, 0);
}

static void file_under_another_stream(scene *s)
{
    SET(s->whole->segment->lane, s->whole->segment->lane->next);
}

static void file_a_block_elsewhere_than_its_segment(scene *s)
{
    SET(s->live->lane, s->whole->lane);
}

static void put_lanes_out_of_order(scene *s)
{
    SET(s->whole->segment->lane->stream, 7);
}

static void give_a_lane_another_shelf(scene *s)
{
    SET(s->whole->segment->lane->shelf, &s->engine->base.shelves[VW__ENGINE_SMALL]);
}

static void damaged_indexes_are_noticed(void **state)
{
    (void)state;
    static const damage damages[] = {
        {"a bin's bit does not say", hide_a_bin},
        {"in the indexes", leave_a_free_block_out},
        {"is in another stream's index", file_under_another_stream},
        {"than its segment", file_a_block_elsewhere_than_its_segment},
        {"are not in order", put_lanes_out_of_order},
        {"are not in order", give_a_lane_another_shelf},
    };
    EXPECT_NOTICED(damages, false);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void hold_more(scene *s)
{
    SET(s->engine->base.held_bytes, s->engine->base.held_bytes + 512);
}

static void leave_a_request_over(scene *s)
{
    static const vw__engine_request request = {1, 0, 0, false};
    SET(s->engine->base.serving, &request);
}

/* Each counter up by one, small and large; then its peaks below what is current. */
static void counters_that_disagree_with_the_blocks_are_noticed(void **state)
{
    (void)state;
    static const damage damages[] = {
        {"bytes are held", hold_more},
        {"a request is left over", leave_a_request_over},
    };
    EXPECT_NOTICED(damages, false);

    scene s;
    scene_open(&s, false);
    vw__counters *all = &s.t.pool->counters;
    const struct {
        vw__counter *counter;
        const char *name;
        bool has_peaks_checked;
    } counters[] = {
        {&all->allocation, "allocation says", true},
        {&all->allocated_bytes, "allocated_bytes says", true},
        {&all->active, "active says", true},
        {&all->active_bytes, "active_bytes says", true},
        {&all->requested_bytes, "requested_bytes says", true},
        {&all->inactive_split, "inactive_split says", false},
        {&all->inactive_split_bytes, "inactive_split_bytes says", false},
        {&all->segment, "segment says", false},
        {&all->reserved_bytes, "reserved_bytes says", false},
    };
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        vw__counter *counter = counters[i].counter;
        for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++) {
            SET(counter->current[kind], counter->current[kind] + 1);
            assert_int_equal(vw_pool_check(s.t.pool), VW_ERR_WRONG_STATE);
            repair();
            assert_non_null(strstr(vw_last_error(), counters[i].name));
        }
        if (!counters[i].has_peaks_checked)
            continue;
        SET(counter->peak[VW__ENGINE_SMALL], counter->current[VW__ENGINE_SMALL] - 1);
        assert_int_equal(vw_pool_check(s.t.pool), VW_ERR_WRONG_STATE);
        repair();
        SET(counter->peak_all,
            counter->current[VW__ENGINE_SMALL] + counter->current[VW__ENGINE_LARGE] - 1);
        assert_int_equal(vw_pool_check(s.t.pool), VW_ERR_WRONG_STATE);
        repair();
        vw_test_ok(&s.t, VW_OK);
    }
    vw_test_pool_close(&s.t);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void a_live_block_that_is_not_filed_is_noticed(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, false);
    vw__block_map *live = &s.t.pool->live;
    vw__block *block = vw__block_map_remove(live, s.live->address);
    assert_int_equal(vw_pool_check(s.t.pool), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "live and not filed"));
    vw__block_map_insert(live, block);
    vw_test_ok(&s.t, VW_OK);
    vw_test_pool_close(&s.t);
}

static void a_filed_block_that_is_not_live_is_noticed(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, false);
    vw__block_map *live = &s.t.pool->live;
    vw__block *const wrong[] = {s.hole, s.pending};
    assert_true(vw__block_map_has_room(live, 1));
    for (size_t i = 0; i < 2; i++) {
        vw__block_map_insert(live, wrong[i]);
        assert_int_equal(vw_pool_check(s.t.pool), VW_ERR_WRONG_STATE);
        assert_non_null(strstr(vw_last_error(), "filed"));
        vw__block_map_remove(live, wrong[i]->address);
        vw_test_ok(&s.t, VW_OK);
    }
    vw_test_pool_close(&s.t);
}

static void a_block_filed_under_another_address_is_noticed(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, false);
    vw__block_map *live = &s.t.pool->live;
    vw_device_ptr address = s.live->address;
    vw__block_map_remove(live, address);
    s.live->address += 512;
    vw__block_map_insert(live, s.live);
    s.live->address = address;
    vw_status status = vw_pool_check(s.t.pool);
    const bool is_named = strstr(vw_last_error(), "under another address") != NULL;
    s.live->address += 512;
    vw__block_map_remove(live, s.live->address);
    s.live->address = address;
    vw__block_map_insert(live, s.live);
    assert_int_equal(status, VW_ERR_WRONG_STATE);
    assert_true(is_named);
    vw_test_ok(&s.t, VW_OK);
    vw_test_pool_close(&s.t);
}

/* ---- stream order ---------------------------------------------------------------------------- */

static vw__stream_order_queue *queue_of(scene *s, vw_stream stream)
{
    vw__stream_order_queue *queue = s->t.pool->order.queues;
    while (queue->stream != stream)
        queue = queue->next;
    assert_non_null(queue->first);
    return queue;
}

static void believe_a_deferred_block_live(scene *s)
{
    SET(s->deferred->state, VW__BLOCK_LIVE);
}

static void lose_the_deferred(scene *s)
{
    SET(s->t.pool->order.deferred, NULL);
}

static void lose_a_queues_first(scene *s)
{
    SET(queue_of(s, 2)->first, NULL);
}

static void lose_a_queues_last(scene *s)
{
    SET(queue_of(s, 1)->last, queue_of(s, 1)->first);
}

static void wait_in_another_queue(scene *s)
{
    SET(queue_of(s, 2)->first->stream, 1);
}

static void wait_for_a_free_block(scene *s)
{
    SET(queue_of(s, 2)->first->block, s->hole);
}

static void expect_no_event(scene *s)
{
    SET(s->pending->pending_events, 0);
}

static void expect_one_event_too_many(scene *s)
{
    SET(s->pending->pending_events, s->pending->pending_events + 1);
}

static void count_one_more(scene *s)
{
    SET(s->t.pool->order.pending_count, s->t.pool->order.pending_count + 1);
}

static void count_none(scene *s)
{
    SET(s->t.pool->order.pending_count, 0);
}

static void damaged_stream_order_is_noticed(void **state)
{
    (void)state;
    static const damage damages[] = {
        {"filed", believe_a_deferred_block_live},
        {"a queue's ends disagree", lose_a_queues_first},
        {"a queue does not know its last use", lose_a_queues_last},
        {"a use waits in another stream's queue", wait_in_another_queue},
        {"a use waits for a block that is not pending", wait_for_a_free_block},
        {"a use waits for a block that is not pending", expect_no_event},
        {"pending", count_one_more},
        {"pending", count_none},
    };
    EXPECT_NOTICED(damages, false);
}

/* Both would keep a block from ever coming back. */
static void a_block_that_waits_for_nothing_is_noticed(void **state)
{
    (void)state;
    static const damage damages[] = {
        {"pending blocks", lose_the_deferred},
        {"pending blocks", expect_one_event_too_many},
    };
    EXPECT_NOTICED(damages, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_rows_of_blocks_are_noticed),
        cmocka_unit_test(damaged_expandable_segments_are_noticed),
        cmocka_unit_test(damaged_indexes_are_noticed),
        cmocka_unit_test(counters_that_disagree_with_the_blocks_are_noticed),
        cmocka_unit_test(a_live_block_that_is_not_filed_is_noticed),
        cmocka_unit_test(a_filed_block_that_is_not_live_is_noticed),
        cmocka_unit_test(a_block_filed_under_another_address_is_noticed),
        cmocka_unit_test(damaged_stream_order_is_noticed),
        cmocka_unit_test(a_block_that_waits_for_nothing_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
