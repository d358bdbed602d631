/* test_paged_recording.c - what walks and recordings show of a pool whose memory moves: segments
 * add up to what is reserved, events balance, and the file reads back. And what vw_pool_check()
 * says of a pool whose books are wrong. */
#include "engine/paged/paged_engine.h"

#include <string.h>

#include "model/model_check.h"
#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/recorder_fixture.h"

#define UNIT (2 * VW_TEST_MIB)

enum { MOST_LIVE = 24, STEPS = 600 };

static const vw_test_pool_setup tiny = {.engine = "vramwise",
                                        .capacity_bytes = 128 * VW_TEST_MIB,
                                        .idle_share = 0.0001,
                                        .idle_floor_bytes = UNIT};

static vw_paged_stats paged_stats(const vw_test_pool *t)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(t->pool, &stats), VW_OK);
    return stats;
}

/* ---- recordings ------------------------------------------------------------------------------ */

static uint64_t next_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random >> 8;
}

/* Segments of a snapshot and events of its trace, against the pool's own numbers. */
static void compare_recording(vw_test_recorded *r)
{
    vw__model *model = vw_test_recorded_read(r);
    vw_pool_stats stats = vw_test_stats(&r->test);
    uint64_t total_bytes = 0, allocated_bytes = 0;
    int64_t mapped_bytes = 0;
    vw_test_must(vw__model_check(model, NULL));
    for (size_t i = 0; i < model->segment_count; i++) {
        total_bytes += model->segments[i].total_bytes;
        allocated_bytes += model->segments[i].allocated_bytes;
        assert_true(model->segments[i].is_expandable);
    }
    assert_int_equal(total_bytes, stats.reserved_bytes.all.current);
    assert_int_equal(allocated_bytes, stats.allocated_bytes.all.current);
    for (size_t i = 0; i < model->traces[0].event_count; i++) {
        const vw__model_event *event = vw_test_event_at(model, i);
        mapped_bytes += event->action == VW_ACTION_SEGMENT_MAP ? (int64_t)event->size_bytes : 0;
        mapped_bytes -= event->action == VW_ACTION_SEGMENT_UNMAP ? (int64_t)event->size_bytes : 0;
        assert_true(event->action != VW_ACTION_SEGMENT_ALLOC);
        assert_true(mapped_bytes >= 0);
    }
    assert_int_equal(mapped_bytes, stats.reserved_bytes.all.current);
    vw__model_destroy(model);
}

static void recordings_show_segments_that_add_up(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_device_ptr live[MOST_LIVE];
    size_t live_count = 0;
    uint64_t random = 88172645463325252u;
    vw_test_recorded_open(&r, NULL, &tiny);
    for (int step = 0; step < STEPS; step++) {
        if (live_count < MOST_LIVE && next_random(&random) % 5 < 3) {
            uint64_t top = UINT64_C(1) << (9 + next_random(&random) % 15);
            live[live_count++] = vw_test_alloc_on(&r.test, top + next_random(&random) % top,
                                                  next_random(&random) % 3);
        } else if (live_count > 0) {
            size_t which = next_random(&random) % live_count;
            vw_test_free(&r.test, live[which]);
            live[which] = live[--live_count];
        }
        if (step % 100 == 99)
            compare_recording(&r);
        if (step == 350)
            vw_test_trim(&r.test);
    }
    assert_true(paged_stats(&r.test).moved_handles > 20);
    assert_true(paged_stats(&r.test).retiring_bytes > 0);
    compare_recording(&r);
    vw_test_recorded_close(&r);
}

static vw_device_ptr take_whole(vw_test_pool *t, uint64_t size_bytes)
{
    static const vw_private_id id = {0, 5};
    const vw_private_options options = {.struct_size = sizeof options, .one_handle = true};
    vw_test_ok(t, vw_private_pool_retain(t->pool, id, &options));
    vw_test_ok(t, vw_private_pool_begin(t->pool, id, NULL, NULL));
    vw_device_ptr block = vw_test_alloc(t, size_bytes);
    vw_test_ok(t, vw_private_pool_end(t->pool, id));
    vw_test_ok(t, vw_private_pool_release(t->pool, id));
    vw_test_ok(t, vw_private_pool_release(t->pool, id));
    return block;
}

/* One that is one handle is a plain segment in the file, beside ranges that grow. */
static void recordings_show_whole_segments_as_plain_ones(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open(&r, NULL, &tiny);
    vw_test_alloc(&r.test, 10 * VW_TEST_MIB);
    vw_test_free(&r.test, take_whole(&r.test, 30 * VW_TEST_MIB));
    vw_test_trim(&r.test);
    vw_device_ptr block = take_whole(&r.test, 40 * VW_TEST_MIB);
    vw__model *model = vw_test_recorded_read(&r);
    vw_test_must(vw__model_check(model, NULL));
    unsigned plain = 0, taken = 0, given_back = 0;
    for (size_t i = 0; i < model->segment_count; i++) {
        if (model->segments[i].is_expandable)
            continue;
        plain++;
        assert_int_equal(model->segments[i].address, block);
        assert_int_equal(model->segments[i].total_bytes, 40 * VW_TEST_MIB);
    }
    for (size_t i = 0; i < model->traces[0].event_count; i++) {
        taken += vw_test_event_at(model, i)->action == VW_ACTION_SEGMENT_ALLOC;
        given_back += vw_test_event_at(model, i)->action == VW_ACTION_SEGMENT_FREE;
    }
    assert_true(plain == 1 && taken == 2 && given_back == 1);
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

static void visit_conf(void *context, const char *key, const char *value)
{
    if (strcmp(key, "PYTORCH_CUDA_ALLOC_CONF") == 0)
        assert_string_equal(value, "max_split_size_mb:32");
    if (strcmp(key, "max_split_size") == 0)
        *(bool *)context = strcmp(value, "33554432") == 0;
}

static void settings_are_shown_as_they_were_given(void **state)
{
    (void)state;
    vw_test_pool t;
    bool was_seen = false;
    vw_test_pool_open(&t,
                      &(vw_test_pool_setup){.engine = "vramwise", .conf = "max_split_size_mb:32"});
    vw_test_ok(&t, vw_pool_walk_conf(t.pool, visit_conf, &was_seen));
    assert_true(was_seen);
    vw_test_pool_close(&t);
}

/* ---- wrong books ----------------------------------------------------------------------------- */

typedef struct damaged {
    vw_test_pool t;
    vw__paged_engine *engine;
    vw__paged_handle *moved; /* has a ghost */
    vw__paged_place *ghost;
} damaged;

static void damaged_open(damaged *d)
{
    vw_test_pool_open(&d->t, &tiny);
    vw_test_free(&d->t, vw_test_alloc_on(&d->t, 20 * VW_TEST_MIB, 0));
    vw_test_alloc_on(&d->t, 20 * VW_TEST_MIB, 1);
    d->engine = vw__paged_of(d->t.pool->engine);
    d->moved = d->engine->handles;
    while (d->moved != NULL && d->moved->ghosts == NULL)
        d->moved = d->moved->next;
    assert_non_null(d->moved);
    d->ghost = d->moved->ghosts;
}

static void expect_complaint(damaged *d, const char *text)
{
    assert_int_equal(vw_pool_check(d->t.pool), VW_ERR_WRONG_STATE);
    if (strstr(vw_last_error(), text) == NULL)
        fail_msg("\"%s\" instead of \"%s\"", vw_last_error(), text);
}

static void what_is_wrong_in_the_books_is_found(void **state)
{
    (void)state;
    damaged d;
    damaged_open(&d);

    vw__paged_place **units = vw__paged_units(d.ghost->segment);
    size_t unit = (d.ghost->address - d.ghost->segment->address) / d.engine->unit_bytes;
    units[unit] = NULL;
    expect_complaint(&d, "no page lies at");
    units[unit] = d.ghost;

    vw__paged_place *home = d.moved->home;
    d.moved->home = d.ghost;
    expect_complaint(&d, "at home elsewhere");
    d.moved->home = home;

    vw__block *block = d.ghost->block;
    d.ghost->block = NULL;
    expect_complaint(&d, "is not that of its handle");
    d.ghost->block = block;

    uint32_t users = d.ghost->mark->users;
    d.ghost->mark->users = 0;
    expect_complaint(&d, "is not that of its handle");
    d.ghost->mark->users = users;

    d.moved->ghost_count++;
    expect_complaint(&d, "ghosts, not");
    d.moved->ghost_count--;

    d.engine->stats.handle_count++;
    expect_complaint(&d, "handles, not");
    d.engine->stats.handle_count--;

    d.engine->stats.retiring_bytes++;
    expect_complaint(&d, "bytes of ghosts");
    d.engine->stats.retiring_bytes--;

    d.engine->base.held_bytes++;
    expect_complaint(&d, "are held");
    d.engine->base.held_bytes--;

    d.ghost->block->state = VW__BLOCK_UNMAPPED;
    expect_complaint(&d, "");
    d.ghost->block->state = VW__BLOCK_GHOST;

    d.t.pool->counters.reserved_bytes.current[VW__ENGINE_LARGE]++;
    expect_complaint(&d, "reserved_bytes says");
    d.t.pool->counters.reserved_bytes.current[VW__ENGINE_LARGE]--;
    vw_test_ok(&d.t, VW_OK);
    vw_test_pool_close(&d.t);
}

static void a_whole_segment_that_could_move_is_found(void **state)
{
    (void)state;
    damaged d;
    vw_test_pool_open(&d.t, &tiny);
    take_whole(&d.t, 10 * VW_TEST_MIB);
    d.engine = vw__paged_of(d.t.pool->engine);
    vw__paged_handle *whole = d.engine->handles;
    whole->pin_count = 0;
    expect_complaint(&d, "should be one handle that stays");
    whole->pin_count = 1;
    d.t.pool->counters.segment.current[VW__ENGINE_LARGE]++;
    expect_complaint(&d, "segment says");
    d.t.pool->counters.segment.current[VW__ENGINE_LARGE]--;
    vw_test_ok(&d.t, VW_OK);
    vw_test_pool_close(&d.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_show_segments_that_add_up),
        cmocka_unit_test(recordings_show_whole_segments_as_plain_ones),
        cmocka_unit_test(settings_are_shown_as_they_were_given),
        cmocka_unit_test(what_is_wrong_in_the_books_is_found),
        cmocka_unit_test(a_whole_segment_that_could_move_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
