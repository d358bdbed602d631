/* test_listing.c - pools publish by themselves: what they hold, for as long as they are there.
 *
 * A process has one list and one thread, so each case is a process of its own. It answers by its
 * exit status: 0, or the line that went wrong. */
#include "vramwise/vramwise.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vramwise/pinned.h"
#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/fake_cuda_state.h"
#include "support/live_folder.h"

#define MIB (UINT64_C(1) << 20)

static live_folder *const folder = &live_group_folder;

/* Asked by the thread sanitizer, which else ends a child of fork() that starts a thread, and sleeps
 * a second at the end of each. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0:atexit_sleep_ms=0";
}

/* In a child: ends it where something is not so. */
#define EXPECT(claim)                                                                              \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #claim, vw_last_error());               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static vw_device *make_device(void)
{
    const vw_simulated_options options = {
        .struct_size = sizeof options, .capacity_bytes = 1024 * MIB, .total_bytes = 1280 * MIB};
    vw_device *device = NULL;
    EXPECT(vw_simulated_device_create(&options, &device) == VW_OK);
    return device;
}

static vw_pool *make_pool(vw_device *device, const char *engine)
{
    const vw_pool_options options = {.struct_size = sizeof options, .engine = engine};
    vw_pool *pool = NULL;
    EXPECT(vw_pool_create(device, &options, &pool) == VW_OK);
    return pool;
}

static vw_device_ptr allocate(vw_pool *pool, uint64_t size_bytes)
{
    vw_device_ptr address = VW_NULL;
    EXPECT(vw_alloc(pool, size_bytes, 0, &address) == VW_OK);
    return address;
}

/* ---- waiting for a value --------------------------------------------------------------------- */

typedef struct wish {
    long process;
    vw_live_field field;
    uint64_t value;
} wish;

static bool is_granted(const vw_jobs *jobs, void *context)
{
    const wish *wanted = context;
    const vw_job *job = vw_jobs_find(jobs, wanted->process);
    return job != NULL && job->device_count > 0 &&
           job->devices[0].values[wanted->field] == wanted->value;
}

/* Waits until this process's page says so, and gives all it says then. */
static vw_job_device wait_for(vw_live_field field, uint64_t value)
{
    wish wanted = {getpid(), field, value};
    vw_jobs *jobs = live_folder_wait(folder, is_granted, &wanted);
    vw_job_device device = vw_jobs_find(jobs, getpid())->devices[0];
    device.steps = NULL;
    vw_jobs_free(jobs);
    return device;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static int tell_of_a_pool(void *context)
{
    (void)context;
    vw_device *device = make_device();
    vw_pool *pool = make_pool(device, "torch");
    vw_device_ptr kept = allocate(pool, 40 * MIB), gone = allocate(pool, 100 * MIB);
    EXPECT(vw_free(pool, gone) == VW_OK);
    EXPECT(vw_pool_set_fraction(pool, 0.5) == VW_OK);
    vw_job_device told = wait_for(VW_LIVE_LIMIT_BYTES, 640 * MIB);
    const uint64_t *values = told.values;
    EXPECT(told.index == device->properties.index);
    EXPECT(strncmp(told.name, device->properties.name, 63) == 0);
    EXPECT(values[VW_LIVE_LIVE_BYTES] == 40 * MIB);
    EXPECT(values[VW_LIVE_RESERVED_BYTES] == 140 * MIB);
    EXPECT(values[VW_LIVE_PEAK_LIVE_BYTES] == 140 * MIB);
    EXPECT(values[VW_LIVE_PEAK_RESERVED_BYTES] == 140 * MIB);
    EXPECT(values[VW_LIVE_LARGEST_FREE_BYTES] == 100 * MIB);
    EXPECT(values[VW_LIVE_DEVICE_TOTAL_BYTES] == 1280 * MIB);
    EXPECT(values[VW_LIVE_ALLOCATIONS] == 2);
    EXPECT(values[VW_LIVE_RETRIES] == 0);
    EXPECT(values[VW_LIVE_OUT_OF_MEMORY] == 0);
    EXPECT(values[VW_LIVE_DRIVER_CALLS] == 2);
    EXPECT(values[VW_LIVE_PINNED_BYTES] == VW_LIVE_UNKNOWN);
    EXPECT(values[VW_LIVE_COPIED_BYTES] == VW_LIVE_UNKNOWN);
    EXPECT(values[VW_LIVE_STEPS] == VW_LIVE_UNKNOWN);
    vw_device_ptr none = VW_NULL;
    EXPECT(vw_alloc(pool, 700 * MIB, 0, &none) == VW_ERR_OUT_OF_MEMORY);
    told = wait_for(VW_LIVE_OUT_OF_MEMORY, 1);
    EXPECT(told.values[VW_LIVE_RETRIES] == 1);
    EXPECT(told.values[VW_LIVE_RESERVED_BYTES] == 40 * MIB);
    EXPECT(told.values[VW_LIVE_DRIVER_NS] > 0);
    EXPECT(vw_free(pool, kept) == VW_OK);
    wait_for(VW_LIVE_LIVE_BYTES, 0);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return 0;
}

static void a_pool_tells_what_it_holds(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(tell_of_a_pool, NULL), 0);
    assert_int_equal(live_folder_count(folder), 0);
}

/* The device is asked rarely; what it says of free memory is then a little old. */
static bool has_free_memory(const vw_jobs *jobs, void *context)
{
    const vw_job *job = vw_jobs_find(jobs, getpid());
    return job != NULL && job->device_count > 0 &&
           job->devices[0].values[VW_LIVE_DEVICE_FREE_BYTES] == *(const uint64_t *)context;
}

static int tell_of_free_memory(void *context)
{
    (void)context;
    vw_device *device = make_device();
    vw_pool *pool = make_pool(device, NULL);
    vw_device_calls before, after;
    EXPECT(vw_device_get_calls(device, &before) == VW_OK);
    uint64_t all_bytes = 1024 * MIB, less_bytes = 924 * MIB;
    vw_jobs_free(live_folder_wait(folder, has_free_memory, &all_bytes));
    (void)allocate(pool, 100 * MIB);
    vw_jobs_free(live_folder_wait(folder, has_free_memory, &less_bytes));
    EXPECT(vw_device_get_calls(device, &after) == VW_OK);
    EXPECT(after.count[VW_DEVICE_CALL_MEMORY_INFO] == before.count[VW_DEVICE_CALL_MEMORY_INFO]);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return 0;
}

static void the_device_tells_what_it_has_free_and_a_stand_in_counts_no_call(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(tell_of_free_memory, NULL), 0);
}

static int tell_of_two_pools(void *context)
{
    (void)context;
    vw_device *device = make_device();
    vw_pool *one = make_pool(device, "torch"), *other = make_pool(device, "vramwise");
    (void)allocate(one, 40 * MIB);
    vw_device_ptr gone = allocate(other, 60 * MIB);
    vw_job_device told = wait_for(VW_LIVE_LIVE_BYTES, 100 * MIB);
    EXPECT(told.values[VW_LIVE_PEAK_LIVE_BYTES] == 100 * MIB);
    EXPECT(told.values[VW_LIVE_ALLOCATIONS] == 2);
    EXPECT(told.values[VW_LIVE_COPIED_BYTES] == 0);
    EXPECT(told.values[VW_LIVE_LIMIT_BYTES] == VW_LIVE_UNKNOWN);
    EXPECT(vw_pool_set_fraction(one, 0.25) == VW_OK); /* the other has none still */
    EXPECT(vw_free(other, gone) == VW_OK);
    told = wait_for(VW_LIVE_LIVE_BYTES, 40 * MIB);
    EXPECT(told.values[VW_LIVE_LIMIT_BYTES] == VW_LIVE_UNKNOWN);
    EXPECT(vw_pool_set_fraction(other, 0.25) == VW_OK);
    told = wait_for(VW_LIVE_LIMIT_BYTES, 640 * MIB);
    EXPECT(told.values[VW_LIVE_LARGEST_FREE_BYTES] >= 60 * MIB);

    /* What it held goes with it, what it counted stays. */
    uint64_t calls = told.values[VW_LIVE_DRIVER_CALLS];
    vw_pool_destroy(other);
    told = wait_for(VW_LIVE_LIMIT_BYTES, 320 * MIB);
    EXPECT(told.values[VW_LIVE_ALLOCATIONS] == 2);
    EXPECT(told.values[VW_LIVE_DRIVER_CALLS] == calls);
    EXPECT(told.values[VW_LIVE_RESERVED_BYTES] == 40 * MIB);
    EXPECT(told.values[VW_LIVE_PEAK_LIVE_BYTES] == 100 * MIB);

    /* Statistics that begin again are no reason to count backwards. */
    EXPECT(vw_pool_reset_accumulated(one) == VW_OK);
    EXPECT(vw_pool_reset_peaks(one) == VW_OK);
    (void)allocate(one, 3 * MIB);
    told = wait_for(VW_LIVE_LIVE_BYTES, 43 * MIB);
    EXPECT(told.values[VW_LIVE_ALLOCATIONS] == 3);
    EXPECT(told.values[VW_LIVE_PEAK_LIVE_BYTES] == 100 * MIB);
    vw_pool_destroy(one);
    told = wait_for(VW_LIVE_LIVE_BYTES, 0);
    EXPECT(told.values[VW_LIVE_RESERVED_BYTES] == 0);
    EXPECT(told.values[VW_LIVE_LIMIT_BYTES] == VW_LIVE_UNKNOWN);
    EXPECT(told.values[VW_LIVE_ALLOCATIONS] == 3);

    /* The thread has slept since, and wakes for the next. */
    one = make_pool(device, "torch");
    (void)allocate(one, 5 * MIB);
    told = wait_for(VW_LIVE_LIVE_BYTES, 5 * MIB);
    EXPECT(told.values[VW_LIVE_ALLOCATIONS] == 4);
    vw_pool_destroy(one);
    vw_device_destroy(device);
    return 0;
}

static void pools_of_a_device_add_up_and_counters_only_rise(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(tell_of_two_pools, NULL), 0);
}

static int tell_of_pinned_memory(void *context)
{
    (void)context;
    vw_device *device = make_device();
    vw_pinned_pool *pool = NULL, *hidden = NULL;
    const vw_pinned_options unlisted = {.struct_size = sizeof unlisted, .is_unlisted = true};
    void *memory = NULL;
    EXPECT(vw_pinned_pool_create(device, NULL, &pool) == VW_OK);
    EXPECT(vw_pinned_pool_create(device, &unlisted, &hidden) == VW_OK);
    EXPECT(vw_pinned_alloc(pool, 4 * MIB, &memory) == VW_OK);
    EXPECT(vw_pinned_alloc(hidden, 8 * MIB, &memory) == VW_OK);
    vw_job_device told = wait_for(VW_LIVE_PINNED_BYTES, 4 * MIB);
    EXPECT(told.values[VW_LIVE_DRIVER_CALLS] == 1);
    EXPECT(told.values[VW_LIVE_LIVE_BYTES] == VW_LIVE_UNKNOWN); /* nobody has said anything */
    vw_pinned_pool_destroy(hidden);
    vw_pinned_pool_destroy(pool);
    wait_for(VW_LIVE_PINNED_BYTES, 0);
    vw_device_destroy(device);
    return 0;
}

static void a_pinned_pool_tells_of_host_memory_only(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(tell_of_pinned_memory, NULL), 0);
}

static bool has_allocator(const vw_jobs *jobs, void *context)
{
    const vw_job *job = vw_jobs_find(jobs, getpid());
    return job != NULL && strcmp(job->allocator, context) == 0;
}

static int tell_the_engine(void *context)
{
    (void)context;
    vw_device *device = make_device();
    vw_pool *one = make_pool(device, NULL);
    vw_jobs_free(live_folder_wait(folder, has_allocator, "torch"));
    vw_pool *other = make_pool(device, "vramwise:rescue");
    vw_jobs_free(live_folder_wait(folder, has_allocator, "vramwise"));

    /* Who says it better is not contradicted. */
    vw_live_page *page = NULL;
    const vw_live_identity mine = {
        .struct_size = sizeof mine, .allocator = "mine", .rank = -1, .local_rank = -1};
    const uint64_t steps[] = {[VW_LIVE_STEPS] = 12};
    uint64_t values[VW_LIVE_FIELD_COUNT];
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        values[i] = i == VW_LIVE_STEPS ? steps[i] : VW_LIVE_KEEP;
    EXPECT(vw_live_process_page(&page) == VW_OK);
    EXPECT(vw_live_page_identify(page, &mine) == VW_OK);
    EXPECT(vw_live_page_put(page, 0, NULL, values, VW_LIVE_FIELD_COUNT) == VW_OK);
    (void)allocate(one, 7 * MIB);
    vw_job_device told = wait_for(VW_LIVE_LIVE_BYTES, 7 * MIB);
    EXPECT(told.values[VW_LIVE_STEPS] == 12);
    vw_jobs *jobs = live_folder_read(folder);
    EXPECT(has_allocator(jobs, "mine"));
    vw_jobs_free(jobs);
    vw_pool_destroy(other);
    vw_pool_destroy(one);
    vw_device_destroy(device);
    return 0;
}

static void the_engine_is_named_and_what_others_say_stays(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(tell_the_engine, NULL), 0);
}

/* ---- nothing to tell ------------------------------------------------------------------------- */

/* Of ours: a sanitizer may have one of its own. */
static int count_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;) {
        char path[64], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", entry->d_name);
        FILE *file = entry->d_name[0] != '.' ? fopen(path, "r") : NULL; /* it may end meanwhile */
        if (file == NULL)
            continue;
        count += fgets(name, sizeof name, file) != NULL && strcmp(name, "vramwise-live\n") == 0;
        fclose(file);
    }
    if (tasks != NULL)
        closedir(tasks);
    return count;
}

static int stay_unlisted(void *context)
{
    const vw_pool_options options = {.struct_size = sizeof options, .is_unlisted = context == NULL};
    vw_device *device = make_device();
    vw_pool *pool = NULL;
    if (context != NULL)
        setenv("VRAMWISE_LIVE", "0", 1);
    EXPECT(vw_pool_create(device, &options, &pool) == VW_OK);
    EXPECT(!pool->listing.is_listed);
    (void)allocate(pool, MIB);
    EXPECT(atomic_load(&pool->driver_meter.call_count) == 0); /* no clock was read */
    EXPECT(count_threads() == 0);
    EXPECT(live_folder_count(folder) == 0);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return 0;
}

static void an_unlisted_pool_has_no_thread_and_no_page(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(stay_unlisted, NULL), 0);
}

static void switched_off_no_pool_is_listed(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(stay_unlisted, folder), 0);
}

/* The pool serves as ever, and who wants to know can ask why. */
static int go_without(void *context)
{
    (void)context;
    vw_live_page *page = NULL;
    setenv("VRAMWISE_LIVE_DIR", "/no/such/folder", 1);
    vw_set_last_error("as before");
    vw_device *device = make_device();
    vw_pool *pool = make_pool(device, NULL);
    EXPECT(strcmp(vw_last_error(), "as before") == 0);
    EXPECT(vw_free(pool, allocate(pool, MIB)) == VW_OK);
    for (int i = 0; i < 100000 && count_threads() > 0; i++)
        usleep(1000);
    EXPECT(count_threads() == 0); /* it ended by itself */
    vw_pool *other = make_pool(device, NULL);
    EXPECT(!other->listing.is_listed);
    EXPECT(count_threads() == 0);
    EXPECT(vw_live_process_page(&page) == VW_ERR_FILE);
    EXPECT(strstr(vw_last_error(), "/no/such/folder") != NULL);
    vw_pool_destroy(other);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return 0;
}

static void where_there_can_be_no_page_pools_serve_as_ever(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(go_without, NULL), 0);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static int end_with_pools(void *context)
{
    (void)context;
    vw_device *device = make_device();
    for (int i = 0; i < 20; i++)
        (void)allocate(make_pool(device, NULL), MIB);
    return 0; /* and exit(), at once, with all of them there */
}

static void a_process_may_end_with_its_pools_at_any_moment(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(live_exit_of_child(end_with_pools, NULL), 0);
    assert_int_equal(live_folder_count(folder), 0);
}

static int come_and_go(void *context)
{
    (void)context;
    vw_device *device = make_device();
    for (int i = 0; i < 2000; i++) {
        vw_pool *pool = make_pool(device, i % 2 == 0 ? "torch" : "vramwise");
        EXPECT(vw_free(pool, allocate(pool, MIB)) == VW_OK);
        vw_pool_destroy(pool);
    }
    vw_job_device told = wait_for(VW_LIVE_ALLOCATIONS, 2000);
    EXPECT(told.values[VW_LIVE_PEAK_LIVE_BYTES] >= MIB);
    vw_device_destroy(device);
    return 0;
}

static void pools_that_come_and_go_are_all_counted(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(come_and_go, NULL), 0);
}

/* Signals are the program's: one that only the thread could take stays pending. */
static int keep_signals(void *context)
{
    sigset_t waiting, blocked;
    (void)context;
    vw_device *device = make_device();
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1); /* ends a process that takes it */
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    vw_pool *pool = make_pool(device, NULL);
    (void)allocate(pool, 9 * MIB);
    EXPECT(kill(getpid(), SIGUSR1) == 0);
    wait_for(VW_LIVE_LIVE_BYTES, 9 * MIB);
    EXPECT(sigpending(&waiting) == 0 && sigismember(&waiting, SIGUSR1));
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return 0;
}

static void the_thread_takes_no_signals(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(keep_signals, NULL), 0);
}

/* ---- a driver that does not answer ----------------------------------------------------------- */

static void wait_until_held(int count)
{
    for (int i = 0; i < 100000 && vw_test_fake_cuda_state().held_count != count; i++)
        usleep(1000);
    EXPECT(vw_test_fake_cuda_state().held_count == count);
}

static void wait_until_released(void)
{
    for (int i = 0; i < 100000 && vw_test_fake_cuda_state().retain_count != 0; i++)
        usleep(1000);
    EXPECT(vw_test_fake_cuda_state().retain_count == 0);
}

/* The thread is in the driver. Pools end all the same, and the device, once it has answered. */
static int end_without_an_answer(void *context)
{
    char file[128];
    vw_device *device = NULL;
    (void)context;
    snprintf(file, sizeof file, "%s/.hold", folder->path);
    fclose(fopen(file, "w"));
    setenv("FAKE_CUDA_HOLD", file, 1);
    setenv("VRAMWISE_CUDA_DRIVER", VW_FAKE_CUDA_DRIVER, 1);
    EXPECT(vw_cuda_device_open(0, &device) == VW_OK);
    vw_pool *first = make_pool(device, NULL);
    wait_until_held(1);
    vw_pool *second = make_pool(device, NULL);
    vw_pool_destroy(first);
    vw_pool_destroy(second);
    vw_device_destroy(device);
    EXPECT(vw_test_fake_cuda_state().held_count == 1);
    EXPECT(vw_test_fake_cuda_state().retain_count == 1); /* the device is still there */
    EXPECT(unlink(file) == 0);
    wait_until_released();

    /* The thread goes on with what comes next. */
    EXPECT(vw_cuda_device_open(0, &device) == VW_OK);
    vw_pool *third = make_pool(device, NULL);
    (void)allocate(third, 5 * MIB);
    wait_for(VW_LIVE_LIVE_BYTES, 5 * MIB);
    vw_pool_destroy(third);
    vw_device_destroy(device);
    wait_until_released();
    return 0;
}

static void a_driver_that_does_not_answer_keeps_no_pool_from_ending(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(end_without_an_answer, NULL), 0);
}

static atomic_bool own_is_asked, own_has_answered;

static vw_status answer_late(void *context, uint64_t *free_bytes, uint64_t *total_bytes)
{
    (void)context;
    atomic_store(&own_is_asked, true);
    usleep(300000); /* longer than a driver of ours is waited for */
    *free_bytes = *total_bytes = MIB;
    atomic_store(&own_has_answered, true);
    return VW_OK;
}

/* Its owner takes it away once its pools are gone. */
static int wait_for_an_own_device(void *context)
{
    (void)context;
    vw_device *simulated = make_device();
    vw_device_table table = *simulated->table;
    table.memory_info = answer_late;
    vw_device own = {&table, simulated->context, simulated->properties};
    vw_pool *pool = make_pool(&own, NULL);
    while (!atomic_load(&own_is_asked))
        usleep(1000);
    vw_pool_destroy(pool);
    EXPECT(atomic_load(&own_has_answered));
    vw_device_destroy(simulated);
    return 0;
}

static void a_device_of_somebodys_own_is_waited_for(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(wait_for_an_own_device, NULL), 0);
}

/* ---- fork ------------------------------------------------------------------------------------ */

static int be_a_child(void *context)
{
    vw_pool *parents = context;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    EXPECT(count_threads() == 0);
    EXPECT(vw_pool_get_stats(parents, &stats) == VW_ERR_WRONG_PROCESS);
    vw_pool_destroy(parents); /* does nothing */
    vw_device *device = make_device();
    vw_pool *pool = make_pool(device, NULL);
    (void)allocate(pool, 12 * MIB);
    vw_job_device told = wait_for(VW_LIVE_LIVE_BYTES, 12 * MIB);
    EXPECT(told.values[VW_LIVE_ALLOCATIONS] == 1);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return 0;
}

static int be_a_parent(void *context)
{
    (void)context;
    vw_device *device = make_device();
    vw_pool *pool = make_pool(device, NULL);
    (void)allocate(pool, 14 * MIB);
    wait_for(VW_LIVE_LIVE_BYTES, 14 * MIB);
    EXPECT(count_threads() == 1);
    for (int i = 0; i < 10; i++)
        EXPECT(live_exit_of_child(be_a_child, pool) == 0);
    (void)allocate(pool, 14 * MIB);
    vw_job_device told = wait_for(VW_LIVE_LIVE_BYTES, 28 * MIB);
    EXPECT(told.values[VW_LIVE_ALLOCATIONS] == 2);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return 0;
}

static void a_child_of_fork_publishes_its_own_pools_only(void **state)
{
    (void)state;
    assert_int_equal(live_exit_of_child(be_a_parent, NULL), 0);
    assert_int_equal(live_folder_count(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_tells_what_it_holds),
        cmocka_unit_test(the_device_tells_what_it_has_free_and_a_stand_in_counts_no_call),
        cmocka_unit_test(pools_of_a_device_add_up_and_counters_only_rise),
        cmocka_unit_test(a_pinned_pool_tells_of_host_memory_only),
        cmocka_unit_test(the_engine_is_named_and_what_others_say_stays),
        cmocka_unit_test(an_unlisted_pool_has_no_thread_and_no_page),
        cmocka_unit_test(switched_off_no_pool_is_listed),
        cmocka_unit_test(where_there_can_be_no_page_pools_serve_as_ever),
        cmocka_unit_test(a_process_may_end_with_its_pools_at_any_moment),
        cmocka_unit_test(pools_that_come_and_go_are_all_counted),
        cmocka_unit_test(the_thread_takes_no_signals),
        cmocka_unit_test(a_driver_that_does_not_answer_keeps_no_pool_from_ending),
        cmocka_unit_test(a_device_of_somebodys_own_is_waited_for),
        cmocka_unit_test(a_child_of_fork_publishes_its_own_pools_only),
    };
    return cmocka_run_group_tests(tests, live_group_set_up, live_group_tear_down);
}
