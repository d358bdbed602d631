/* test_live_pages.c - pages that are written and read as fast as can be.
 *
 * Every put gives all fields the same number, every step the same number as live and as reserved
 * bytes: a reader that sees two different ones has seen half a change. And readers and pools that
 * come and go do not disturb the thread that looks at pools. Worth the most under the thread
 * sanitizer. */
#include "vramwise/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "vramwise/vramwise.h"
#include "support/cmocka_here.h"
#include "support/live_folder.h"

enum { WRITERS = 3, READERS = 3, PUTS = 60000, POOLS = 300 };

static const live_folder *const folder = &live_group_folder;

typedef struct scene {
    vw_live_page *page;
    _Atomic int writers_left;
    _Atomic int wrong_count; /* asserts are the main thread's only */
    _Atomic uint64_t read_count;
} scene;

static void *write_on(void *context)
{
    scene *s = context;
    for (uint64_t i = 1; i <= PUTS; i++) {
        uint64_t values[VW_LIVE_FIELD_COUNT];
        for (size_t field = 0; field < VW_LIVE_FIELD_COUNT; field++)
            values[field] = i;
        int device = (int)(i % 2);
        if (vw_live_page_put(s->page, device, i % 4 < 2 ? "aaaaaaaaaaaaaaaa" : "bbbbbbbbbbbbbbbb",
                             values, VW_LIVE_FIELD_COUNT) != VW_OK ||
            vw_live_page_step(s->page, device, i, i, i) != VW_OK)
            atomic_fetch_add(&s->wrong_count, 1);
    }
    atomic_fetch_sub(&s->writers_left, 1);
    return NULL;
}

static bool is_whole(const vw_job_device *device)
{
    for (size_t field = 1; field < VW_LIVE_FIELD_COUNT; field++)
        if (device->values[field] != device->values[0])
            return false;
    for (size_t i = 1; device->name[i] != '\0'; i++)
        if (device->name[i] != device->name[0])
            return false;
    for (size_t i = 0; i < device->step_count; i++)
        if (device->steps[i].step != device->steps[i].live_bytes ||
            device->steps[i].step != device->steps[i].reserved_bytes)
            return false;
    return true;
}

static void look_once(scene *s)
{
    vw_jobs *jobs = NULL;
    if (vw_jobs_read(folder->path, &jobs) != VW_OK || jobs->job_count != 1 ||
        jobs->refused_count != 0 || jobs->stale_count != 0) {
        atomic_fetch_add(&s->wrong_count, 1);
        vw_jobs_free(jobs);
        return;
    }
    for (size_t i = 0; i < jobs->jobs[0].device_count; i++) {
        if (!is_whole(&jobs->jobs[0].devices[i]))
            atomic_fetch_add(&s->wrong_count, 1);
        atomic_fetch_add(&s->read_count, 1);
    }
    vw_jobs_free(jobs);
}

static void *read_on(void *context)
{
    scene *s = context;
    while (atomic_load(&s->writers_left) > 0)
        look_once(s);
    return NULL;
}

static void readers_never_see_half_a_change(void **state)
{
    (void)state;
    scene s = {.writers_left = WRITERS};
    pthread_t threads[WRITERS + READERS];
    assert_int_equal(vw_live_page_create(folder->path, NULL, &s.page), VW_OK);
    for (int i = 0; i < WRITERS + READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < WRITERS ? write_on : read_on, &s),
                         0);
    for (int i = 0; i < WRITERS + READERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    look_once(&s); /* at rest everything is seen, whatever came before */
    assert_int_equal(atomic_load(&s.wrong_count), 0);
    assert_true(atomic_load(&s.read_count) >= 2);
    vw_live_page_destroy(s.page);
}

/* ---- pools ----------------------------------------------------------------------------------- */

static void *come_and_go(void *context)
{
    scene *s = context;
    vw_device *device = NULL;
    if (vw_simulated_device_create(NULL, &device) != VW_OK)
        atomic_fetch_add(&s->wrong_count, 1);
    for (int i = 0; i < POOLS && device != NULL; i++) {
        vw_pool *pool = NULL;
        vw_device_ptr address = VW_NULL;
        if (vw_pool_create(device, NULL, &pool) != VW_OK ||
            vw_alloc(pool, 1 << 20, 0, &address) != VW_OK || vw_free(pool, address) != VW_OK)
            atomic_fetch_add(&s->wrong_count, 1);
        vw_pool_destroy(pool);
    }
    vw_device_destroy(device);
    atomic_fetch_sub(&s->writers_left, 1);
    return NULL;
}

static bool has_counted_all(const vw_jobs *jobs, void *context)
{
    (void)context;
    return jobs->job_count == 1 && jobs->jobs[0].device_count == 1 &&
           jobs->jobs[0].devices[0].values[VW_LIVE_ALLOCATIONS] == WRITERS * POOLS &&
           jobs->jobs[0].devices[0].values[VW_LIVE_LIVE_BYTES] == 0;
}

static void *read_pools(void *context)
{
    scene *s = context;
    while (atomic_load(&s->writers_left) > 0) {
        vw_jobs *jobs = NULL;
        if (vw_jobs_read(folder->path, &jobs) != VW_OK)
            atomic_fetch_add(&s->wrong_count, 1);
        vw_jobs_free(jobs);
    }
    return NULL;
}

static void pools_come_and_go_while_they_are_looked_at(void **state)
{
    (void)state;
    scene s = {.writers_left = WRITERS};
    pthread_t threads[WRITERS + 1];
    for (int i = 0; i < WRITERS + 1; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < WRITERS ? come_and_go : read_pools, &s), 0);
    for (int i = 0; i < WRITERS + 1; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&s.wrong_count), 0);
    vw_jobs_free(live_folder_wait(folder, has_counted_all, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_never_see_half_a_change),
        cmocka_unit_test(pools_come_and_go_while_they_are_looked_at),
    };
    return cmocka_run_group_tests(tests, live_group_set_up, live_group_tear_down);
}
