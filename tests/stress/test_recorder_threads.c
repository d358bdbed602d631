/* test_recorder_threads.c - threads allocate, hand in stacks and trim while another writes
 * recordings: each of them must show one instant.
 *
 * A recording that begins with an empty pool says twice what is live: by its events, and by its
 * blocks. The two must agree, to the address and the size, in every recording, whatever the
 * others were doing when it was taken. The pool drops its lock around device calls, so that events
 * of several requests mix. VW_TEST_SEED repeats a run as far as threads let it. */
#include "vramwise/recording.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/address_map.h"
#include "base/byte_buffer.h"
#include "parse/torch_snapshot_read.h"
#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/stress_run.h"

enum { THREADS = 6, MOST_LIVE = 60, ROUNDS = 3000, RECORDINGS = 12 };

typedef struct shared {
    vw_test_pool test;
    vw_recorder *recorder;
    vw_stacks stacks;
    const char *_Atomic fault; /* of the first thread that found one */
} shared;

typedef struct worker {
    shared *all;
    uint64_t random;
    pthread_t thread;
} worker;

static uint64_t draw(worker *w, uint64_t below)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (w->random >> 11) % below;
}

/* Assertions of the test library jump, and only the main thread may: the others report. */
static void want(shared *all, bool is_so, const char *what)
{
    if (!is_so)
        atomic_store(&all->fault, what);
}

static void *work(void *argument)
{
    worker *w = argument;
    shared *all = w->all;
    vw_device_ptr live[MOST_LIVE];
    size_t live_count = 0;
    uint64_t rounds = vw_test_rounds(ROUNDS);
    for (uint64_t i = 0; i < rounds && atomic_load(&all->fault) == NULL; i++) {
        const vw_stack_frame frames[2] = {{"work", "a.py", (uint32_t)draw(w, 50)},
                                          {"main", "b", 1}};
        vw_alloc_request request = {.struct_size = sizeof request,
                                    .size_bytes = 1 + draw(w, UINT64_C(1) << (5 + draw(w, 18))),
                                    .stream = (vw_stream)draw(w, 3)};
        bool is_full = live_count == MOST_LIVE;
        if (live_count != 0 && (is_full || draw(w, 2) == 0)) {
            size_t at = (size_t)draw(w, live_count);
            want(all, vw_free(all->test.pool, live[at]) == VW_OK, "a free failed");
            live[at] = live[--live_count];
            continue;
        }
        if (all->stacks == VW_STACKS_CALLER)
            want(all, vw_recorder_add_stack(all->recorder, frames, 2, &request.tag) == VW_OK,
                 "a stack was refused");
        want(all, vw_alloc_with(all->test.pool, &request, &live[live_count++]) == VW_OK,
             "an allocation failed");
        if (draw(w, 200) == 0)
            want(all, vw_pool_trim(all->test.pool) == VW_OK, "a trim failed");
    }
    while (live_count != 0 && atomic_load(&all->fault) == NULL)
        want(all, vw_free(all->test.pool, live[--live_count]) == VW_OK, "the last free failed");
    return NULL;
}

/* ---- what a recording says, twice ------------------------------------------------------------ */

static bool append(void *context, const void *bytes, size_t size_bytes)
{
    vw__append_bytes(context, bytes, size_bytes);
    return !vw__byte_buffer_has_failed(context);
}

static const char *play_events(const vw__model_trace *trace, vw__address_map *live)
{
    for (size_t i = 0; i < trace->event_count; i++) {
        const vw__model_event *event = &trace->events[i];
        if (event->action == VW_ACTION_ALLOC) {
            if (vw__address_map_get(live, event->address) != NULL)
                return "an address was handed out twice";
            if (!vw__address_map_reserve(live, 1))
                return "no host memory";
            vw__address_map_insert(live, event->address, (void *)(uintptr_t)event->size_bytes);
        } else if (event->action == VW_ACTION_FREE_COMPLETED) {
            if ((uintptr_t)vw__address_map_remove(live, event->address) != event->size_bytes)
                return "a block was freed that was not live, or of another size";
        }
    }
    return NULL;
}

static const char *find_contradiction(const vw__model *model)
{
    vw__address_map live;
    vw__address_map_init(&live);
    const char *fault = play_events(&model->traces[0], &live);
    size_t live_count = 0;
    for (size_t i = 0; i < model->block_count && fault == NULL; i++) {
        const vw__model_block *block = &model->blocks[i];
        if (block->state == VW_BLOCK_FREE)
            continue;
        live_count++;
        if ((uintptr_t)vw__address_map_get(&live, block->address) != block->requested_bytes)
            fault = "a block is live that the events do not know";
    }
    if (fault == NULL && live_count != vw__address_map_count(&live))
        fault = "a block is live by its events and not among the blocks";
    vw__address_map_deinit(&live);
    return fault;
}

static void check_one_recording(shared *all)
{
    vw__byte_buffer file;
    vw__byte_source *source;
    vw__model *model;
    vw__snapshot_encoding encoding;
    vw__byte_buffer_init(&file);
    vw_status status = vw_recorder_write_to(all->recorder, all->test.pool, append, &file);
    if (status != VW_OK)
        fail_msg("%s: %s", vw_status_name(status), vw_last_error());
    assert_int_equal(vw__byte_source_open_memory(file.bytes, file.size_bytes, NULL, &source),
                     VW_OK);
    if (vw__snapshot_read(source, 0, &model, &encoding) != VW_OK)
        fail_msg("%s", vw_last_error());
    const char *fault = find_contradiction(model);
    if (fault != NULL)
        fail_msg("%s", fault);
    vw__model_destroy(model);
    vw__byte_source_close(source);
    vw__byte_buffer_deinit(&file);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static uint64_t first_seed(void)
{
    const char *text = getenv("VW_TEST_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 1;
}

static void record_threads(vw_stacks stacks, uint64_t max_entries)
{
    static shared all;
    static worker workers[THREADS];
    const vw_recorder_options options = {
        .struct_size = sizeof options, .stacks = stacks, .max_entries = max_entries};
    all.stacks = stacks;
    atomic_store(&all.fault, NULL);
    vw_test_pool_open(&all.test, &(vw_test_pool_setup){.capacity_bytes = 64 * VW_TEST_GIB,
                                                       .conf = "release_lock_on_cudamalloc:True"});
    assert_int_equal(vw_recorder_create(&options, &all.recorder), VW_OK);
    assert_int_equal(vw_recorder_attach(all.recorder, all.test.pool), VW_OK);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] =
            (worker){.all = &all, .random = (first_seed() + i) * UINT64_C(0x9E3779B97F4A7C15)};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    vw_recorder_counts counts = {.struct_size = sizeof counts};
    for (int i = 0; i < RECORDINGS; i++) {
        assert_int_equal(vw_recorder_get_counts(all.recorder, &counts), VW_OK);
        assert_int_equal(counts.seen_count,
                         counts.kept_count + counts.overwritten_count + counts.lost_count);
        if (max_entries == 0)
            check_one_recording(&all);
        else
            assert_int_equal(vw_recorder_clear(all.recorder), VW_OK);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    if (atomic_load(&all.fault) != NULL)
        fail_msg("%s", atomic_load(&all.fault));
    if (max_entries == 0)
        check_one_recording(&all);
    assert_int_equal(vw_recorder_get_counts(all.recorder, &counts), VW_OK);
    assert_int_equal(counts.is_complete, max_entries == 0);
    vw_recorder_destroy(all.recorder);
    vw_test_pool_close(&all.test);
}

static void every_recording_shows_one_instant(void **state)
{
    (void)state;
    for (vw_stacks stacks = VW_STACKS_NONE; stacks <= VW_STACKS_CALLER; stacks++)
        record_threads(stacks, 0);
}

static void a_small_ring_can_be_looked_at_and_cleared_meanwhile(void **state)
{
    (void)state;
    record_threads(VW_STACKS_CALLER, 100);
}

/* ---- listening to one pool, then to the other ------------------------------------------------ */

enum { CHANGES = 300 };

typedef struct changing {
    vw_pool *pools[2];
    vw_recorder *recorder;
    atomic_bool is_over;
    _Atomic uint64_t written;
    const char *_Atomic fault;
} changing;

static bool count_bytes(void *context, const void *bytes, size_t size_bytes)
{
    (void)bytes;
    *(uint64_t *)context += size_bytes;
    return true;
}

static void *write_all_the_time(void *argument)
{
    changing *all = argument;
    for (unsigned i = 0; !atomic_load(&all->is_over); i++) {
        uint64_t written_bytes = 0;
        vw_status status =
            vw_recorder_write_to(all->recorder, all->pools[i % 2], count_bytes, &written_bytes);
        all->written += status == VW_OK;
        if (status != VW_OK && status != VW_ERR_WRONG_STATE)
            atomic_store(&all->fault, vw_status_name(status));
    }
    return NULL;
}

static void allocate_a_little(vw_pool *pool)
{
    for (uint64_t size_bytes = 1; size_bytes < 20000; size_bytes *= 2) {
        vw_device_ptr address;
        assert_int_equal(vw_alloc(pool, size_bytes, 0, &address), VW_OK);
        if (size_bytes != 1024) /* that one stays */
            assert_int_equal(vw_free(pool, address), VW_OK);
    }
}

/* Blocks and events that a recording shows are those of one pool, or it is refused. */
static void a_recorder_changes_its_pool_while_another_thread_writes(void **state)
{
    (void)state;
    static changing all;
    vw_test_pool first, second;
    pthread_t writer;
    const vw_recorder_options options = {.struct_size = sizeof options,
                                         .stacks = VW_STACKS_BACKTRACE};
    vw_test_pool_open(&first, NULL);
    vw_test_pool_open(&second, NULL);
    all = (changing){.pools = {first.pool, second.pool}};
    for (int i = 0; i < 4000; i++) /* a look at them takes its time */
        allocate_a_little(all.pools[i % 2]);
    assert_int_equal(vw_recorder_create(&options, &all.recorder), VW_OK);
    assert_int_equal(pthread_create(&writer, NULL, write_all_the_time, &all), 0);
    for (uint64_t i = 0; i < vw_test_rounds(CHANGES); i++) {
        while (vw_recorder_attach(all.recorder, all.pools[i % 2]) != VW_OK)
            sched_yield(); /* what it has of the other pool is being written */
        allocate_a_little(all.pools[i % 2]);
        assert_int_equal(vw_recorder_detach(all.recorder), VW_OK);
    }
    atomic_store(&all.is_over, true);
    pthread_join(writer, NULL);
    if (atomic_load(&all.fault) != NULL)
        fail_msg("%s", atomic_load(&all.fault));
    vw_recorder_destroy(all.recorder);
    vw_test_pool_close(&second);
    vw_test_pool_close(&first);
}

/* ---- attached by one thread and detached by another ------------------------------------------ */

enum { PAIRS = 1200 };

static void *attach_it(void *argument)
{
    changing *all = argument;
    if (vw_recorder_attach(all->recorder, all->pools[0]) != VW_OK)
        atomic_store(&all->fault, "it could not be attached");
    atomic_store(&all->is_over, true);
    return NULL;
}

static void *detach_it(void *argument)
{
    changing *all = argument;
    while (!atomic_load(&all->is_over) && vw_recorder_detach(all->recorder) != VW_OK)
        ;
    return NULL;
}

static bool look_slowly(void *context, const vw_segment_info *segment)
{
    (void)context;
    (void)segment;
    usleep(500);
    return true;
}

/* Holds the pool's lock most of the time. */
static void *walk_all_the_time(void *argument)
{
    changing *all = argument;
    const vw_walker walker = {NULL, look_slowly, NULL};
    while (atomic_load(&all->written) == 0) {
        if (vw_pool_walk(all->pools[0], &walker, false) != VW_OK)
            atomic_store(&all->fault, "it could not be walked");
        usleep(100);
    }
    return NULL;
}

static uint64_t seen_count(const vw_recorder *recorder)
{
    vw_recorder_counts counts = {.struct_size = sizeof counts};
    assert_int_equal(vw_recorder_get_counts(recorder, &counts), VW_OK);
    return counts.seen_count;
}

static void a_recorder_that_is_not_attached_hears_nothing(void **state)
{
    (void)state;
    static changing all;
    vw_test_pool test;
    pthread_t walker, threads[2];
    vw_test_pool_open(&test, NULL);
    all = (changing){.pools = {test.pool}};
    allocate_a_little(test.pool);
    assert_int_equal(pthread_create(&walker, NULL, walk_all_the_time, &all), 0);
    for (uint64_t i = 0; i < vw_test_rounds(PAIRS); i++) {
        assert_int_equal(vw_recorder_create(NULL, &all.recorder), VW_OK);
        atomic_store(&all.is_over, false);
        assert_int_equal(pthread_create(&threads[0], NULL, attach_it, &all), 0);
        assert_int_equal(pthread_create(&threads[1], NULL, detach_it, &all), 0);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        bool is_attached = vw_recorder_detach(all.recorder) == VW_OK;
        uint64_t before = seen_count(all.recorder);
        allocate_a_little(test.pool);
        if (seen_count(all.recorder) != before)
            fail_msg("round %u: it hears, %s", (unsigned)i,
                     is_attached ? "detached" : "unattached");
        vw_recorder_destroy(all.recorder);
    }
    atomic_store(&all.written, 1);
    pthread_join(walker, NULL);
    assert_null(atomic_load(&all.fault));
    vw_test_pool_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_recording_shows_one_instant),
        cmocka_unit_test(a_small_ring_can_be_looked_at_and_cleared_meanwhile),
        cmocka_unit_test(a_recorder_changes_its_pool_while_another_thread_writes),
        cmocka_unit_test(a_recorder_that_is_not_attached_hears_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
