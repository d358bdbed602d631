/* test_host_stock_threads.c - handles in host memory: lent, kept, made ahead by a thread. */
#include "pool/host_stock.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/host_memory.h"
#include "base/pinned_budget.h"
#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)

enum { THREADS = 4, ROUNDS = 200, MOST_WAITS = 20000, LONGEST_CHILD_S = 100 };

static vw_device *device;
static vw__stock *stock;
static vw__lender lender; /* of the stock */

static int open_device(void **state)
{
    (void)state;
    return vw_simulated_device_create(NULL, &device) == VW_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    vw__stock_destroy(stock);
    vw_device_destroy(device);
    stock = NULL;
    device = NULL;
    return 0;
}

static void open_stock(vw_pinned_budget *budget, uint64_t limit_bytes)
{
    assert_int_equal(vw__stock_create(device, VW__STOCK_HANDLES, budget, limit_bytes, &stock),
                     VW_OK);
    lender = vw__stock_lender(stock);
}

static vw__lender_numbers look(void)
{
    vw__lender_numbers numbers;
    lender.look(stock, &numbers);
    return numbers;
}

static uint64_t calls(vw_device_call kind)
{
    vw_device_calls made;
    assert_int_equal(vw_device_get_calls(device, &made), VW_OK);
    return made.count[kind];
}

static vw__lender_handle *take(uint64_t size_bytes)
{
    vw__lender_handle *handle = NULL;
    assert_int_equal(lender.take(stock, size_bytes, &handle), VW_OK);
    assert_int_equal(handle->size_bytes, size_bytes);
    return handle;
}

/* Until the stock has so much, or as good as for ever. */
static void wait_for_ready(uint64_t bytes)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < MOST_WAITS && look().ready_bytes != bytes; i++)
        nanosleep(&pause, NULL);
    assert_int_equal(look().ready_bytes, bytes);
}

static void what_is_given_back_is_lent_again(void **state)
{
    (void)state;
    open_stock(NULL, 64 * MIB);
    vw__lender_handle *first = take(4 * MIB), *second = take(8 * MIB);
    assert_int_equal(look().held_bytes, 12 * MIB);
    lender.give_back(stock, first);
    lender.give_back(stock, second);
    assert_int_equal(look().ready_bytes, 12 * MIB);
    assert_int_equal(look().free_bytes, 64 * MIB);
    assert_ptr_equal(take(4 * MIB), first);
    assert_ptr_equal(take(8 * MIB), second);
    assert_int_equal(calls(VW_DEVICE_CALL_CREATE_ON_HOST), 2);
    assert_int_equal(look().ready_bytes, 0);
    lender.give_back(stock, first);
    lender.give_back(stock, second);
}

static void other_sizes_make_room_and_what_is_lent_does_not(void **state)
{
    (void)state;
    vw__lender_handle *none = NULL;
    open_stock(NULL, 16 * MIB);
    lender.give_back(stock, take(6 * MIB));
    vw__lender_handle *lent = take(8 * MIB);
    vw__lender_handle *another = take(8 * MIB); /* in the place of the 6 MiB */
    assert_int_equal(calls(VW_DEVICE_CALL_RELEASE), 1);
    assert_int_equal(look().held_bytes, 16 * MIB);
    assert_int_equal(look().free_bytes, 0);
    assert_int_equal(lender.take(stock, 2 * MIB, &none), VW_ERR_OUT_OF_MEMORY);
    assert_null(none);
    lender.give_back(stock, lent);
    lender.give_back(stock, another);
}

static void one_that_cannot_be_made_leaves_no_trace_but_a_count(void **state)
{
    (void)state;
    vw__lender_handle *none = NULL;
    vw_pinned_budget *budget = NULL;
    vw_pinned_budget_stats drawn = {.struct_size = sizeof drawn};
    assert_int_equal(vw_pinned_budget_create(8 * MIB, &budget), VW_OK);
    open_stock(budget, 64 * MIB);
    assert_int_equal(vw_device_fail_call(device, 1, VW_ERR_DEVICE), VW_OK);
    assert_int_equal(lender.take(stock, 2 * MIB, &none), VW_ERR_HOST_MEMORY);
    vw__host_memory_fail_at(1);
    assert_int_equal(lender.take(stock, 2 * MIB, &none), VW_ERR_HOST_MEMORY);
    vw__host_memory_fail_at(0);
    assert_null(none);
    assert_int_equal(look().held_bytes, 0);
    assert_int_equal(look().failed_creations, 2);
    assert_int_equal(look().free_bytes, 8 * MIB); /* what the budget has */
    assert_int_equal(lender.take(stock, 10 * MIB, &none), VW_ERR_OUT_OF_MEMORY);
    lender.give_back(stock, take(8 * MIB));
    vw__stock_destroy(stock);
    stock = NULL;
    assert_int_equal(vw_pinned_budget_get(budget, &drawn), VW_OK);
    assert_int_equal(drawn.used_bytes, 0);
    vw_pinned_budget_destroy(budget);
}

static void locked_memory_is_copied_to_and_kept_until_the_device_lets_it_go(void **state)
{
    (void)state;
    vw__lender_handle *none = NULL;
    vw_handle memory;
    vw_device_ptr there;
    char byte = 0;
    vw_device_destroy(device);
    assert_int_equal(vw_host_device_create(16 * MIB, &device), VW_OK);
    assert_int_equal(vw__stock_create(device, VW__STOCK_LOCKED, NULL, 64 * MIB, &stock), VW_OK);
    lender = vw__stock_lender(stock);
    for (uint64_t n = 1; n <= 2; n++) { /* the piece's record, its memory */
        vw__host_memory_fail_at(n);
        assert_int_equal(lender.take(stock, 6 * MIB, &none), VW_ERR_HOST_MEMORY);
    }
    vw__host_memory_fail_at(0);
    vw__lender_handle *piece = take(6 * MIB);
    assert_int_equal(piece->device_handle, 0);
    assert_int_equal(calls(VW_DEVICE_CALL_CREATE_ON_HOST), 0);

    assert_int_equal(device->table->create(device->context, 2 * MIB, &memory), VW_OK);
    assert_int_equal(device->table->reserve(device->context, 2 * MIB, &there), VW_OK);
    assert_int_equal(device->table->map(device->context, there, 2 * MIB, memory), VW_OK);
    assert_int_equal(device->table->set_access(device->context, there, 2 * MIB), VW_OK);
    assert_int_equal(device->table->fill(device->context, there, 7, 2 * MIB, 0), VW_OK);
    assert_int_equal(
        device->table->copy(device->context, piece->window + 4 * MIB, there, 2 * MIB, 0), VW_OK);
    assert_int_equal(((char *)(uintptr_t)piece->window)[6 * MIB - 1], 7);
    assert_int_equal(
        device->table->copy(device->context, piece->window + 5 * MIB, there, 2 * MIB, 0),
        VW_ERR_INVALID_ARGUMENT); /* beyond its end */
    memset((char *)(uintptr_t)piece->window, 9, 2 * MIB);
    assert_int_equal(device->table->copy(device->context, there, piece->window, 2 * MIB, 0), VW_OK);
    assert_int_equal(device->table->read(device->context, &byte, there + 2 * MIB - 1, 1), VW_OK);
    assert_int_equal(byte, 9);
    assert_int_equal(device->table->unmap(device->context, there, 2 * MIB), VW_OK);
    assert_int_equal(device->table->unreserve(device->context, there, 2 * MIB), VW_OK);
    assert_int_equal(device->table->release(device->context, memory), VW_OK);

    lender.give_back(stock, piece);
    assert_int_equal(vw_device_fail_call(device, 1, VW_ERR_DEVICE), VW_OK);
    vw__stock_empty(stock); /* refused: tried again when the stock ends */
    assert_int_equal(look().held_bytes, 6 * MIB);
    vw__stock_empty(stock);
    assert_int_equal(look().held_bytes, 6 * MIB);
}

static void wishes_are_made_ahead_as_far_as_the_limit_goes(void **state)
{
    (void)state;
    const uint64_t sizes[] = {4 * MIB, 4 * MIB, 2 * MIB, 8 * MIB};
    open_stock(NULL, 12 * MIB);
    lender.give_back(stock, take(4 * MIB));
    lender.wish(stock, sizes, 3);
    wait_for_ready(10 * MIB);
    assert_int_equal(calls(VW_DEVICE_CALL_CREATE_ON_HOST), 3); /* one was there */
    lender.wish(stock, sizes, 4);                              /* the last is too much */
    vw__lender_handle *lent = take(2 * MIB);
    assert_int_equal(calls(VW_DEVICE_CALL_CREATE_ON_HOST), 3);
    lender.give_back(stock, lent);
}

static void a_wish_that_cannot_be_made_is_given_up_until_the_next(void **state)
{
    (void)state;
    const uint64_t sizes[] = {4 * MIB, 2 * MIB};
    open_stock(NULL, 64 * MIB);
    assert_int_equal(vw_device_fail_call(device, 1, VW_ERR_HOST_MEMORY), VW_OK);
    lender.wish(stock, sizes, 2);
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < MOST_WAITS && look().failed_creations == 0; i++)
        nanosleep(&pause, NULL);
    assert_int_equal(look().failed_creations, 1);
    assert_int_equal(look().held_bytes, 0);
    lender.wish(stock, sizes, 2);
    wait_for_ready(6 * MIB);
}

static void *lend_and_give_back(void *context)
{
    uint64_t random = (uintptr_t)context * 77 + 1;
    for (int i = 0; i < ROUNDS; i++) {
        vw__lender_handle *handle = NULL;
        random = random * UINT64_C(6364136223846793005) + 1;
        uint64_t size_bytes = (2 + random % 4 * 2) * MIB;
        vw_status status = lender.take(stock, size_bytes, &handle);
        if (i % 16 == 0)
            lender.wish(stock, &size_bytes, 1);
        if (status == VW_OK)
            lender.give_back(stock, handle);
        else if (status != VW_ERR_OUT_OF_MEMORY)
            return context;
    }
    return NULL;
}

static void threads_stay_within_the_limit_together(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    open_stock(NULL, 20 * MIB);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, lend_and_give_back, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *fault = NULL;
        assert_int_equal(pthread_join(threads[i], &fault), 0);
        assert_null(fault);
    }
    assert_true(look().held_bytes <= 20 * MIB);
    assert_int_equal(look().failed_creations, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_device, close_all)

/* A device that takes its time. */
static vw_device_table slow_table;
static vw_status (*create_on_host)(void *context, uint64_t size_bytes, vw_handle *out);
static sem_t has_begun, may_end;

static void wait_on(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        continue;
}

static vw_status create_slowly(void *context, uint64_t size_bytes, vw_handle *out)
{
    (void)sem_post(&has_begun);
    wait_on(&may_end);
    return create_on_host(context, size_bytes, out);
}

static void what_is_being_made_when_the_stock_is_emptied_goes_too(void **state)
{
    (void)state;
    const uint64_t size_bytes = 4 * MIB;
    const struct timespec pause = {.tv_nsec = 1000000};
    assert_int_equal(sem_init(&has_begun, 0, 0), 0);
    assert_int_equal(sem_init(&may_end, 0, 0), 0);
    slow_table = *device->table;
    create_on_host = slow_table.create_on_host;
    slow_table.create_on_host = create_slowly;
    device->table = &slow_table;
    open_stock(NULL, 64 * MIB);
    lender.wish(stock, &size_bytes, 1);
    wait_on(&has_begun);
    vw__stock_empty(stock);
    assert_int_equal(look().held_bytes, size_bytes);
    assert_int_equal(sem_post(&may_end), 0);
    for (int i = 0; i < MOST_WAITS && look().held_bytes != 0; i++)
        nanosleep(&pause, NULL);
    assert_int_equal(look().held_bytes, 0);
    lender.wish(stock, &size_bytes, 1); /* from now on it is made again */
    wait_on(&has_begun);
    assert_int_equal(sem_post(&may_end), 0);
    wait_for_ready(size_bytes);
}

static _Atomic int made_count;
static bool has_ended; /* this process, but for the last */

static vw_status create_and_count(void *context, uint64_t size_bytes, vw_handle *out)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    atomic_fetch_add(&made_count, 1);
    nanosleep(&pause, NULL);
    return create_on_host(context, size_bytes, out);
}

/* Called after all that atexit() was told of, and so after the end of a driver. */
__attribute__((destructor)) static void look_at_the_end(void)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    if (!has_ended)
        return;
    int count = atomic_load(&made_count);
    nanosleep(&pause, NULL);
    if (atomic_load(&made_count) != count)
        _exit(2);
}

static void nothing_is_made_at_the_end_of_the_process(void **state)
{
    (void)state;
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint64_t sizes_bytes[VW__LENDER_WISHES];
        alarm(LONGEST_CHILD_S);
        for (size_t i = 0; i < VW__LENDER_WISHES; i++)
            sizes_bytes[i] = 2 * MIB;
        slow_table = *device->table;
        create_on_host = slow_table.create_on_host;
        slow_table.create_on_host = create_and_count;
        device->table = &slow_table;
        open_stock(NULL, UINT64_MAX);
        lender.wish(stock, sizes_bytes, VW__LENDER_WISHES);
        while (atomic_load(&made_count) == 0)
            sched_yield();
        has_ended = true;
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_given_back_is_lent_again),
        TEST(other_sizes_make_room_and_what_is_lent_does_not),
        TEST(one_that_cannot_be_made_leaves_no_trace_but_a_count),
        TEST(locked_memory_is_copied_to_and_kept_until_the_device_lets_it_go),
        TEST(wishes_are_made_ahead_as_far_as_the_limit_goes),
        TEST(a_wish_that_cannot_be_made_is_given_up_until_the_next),
        TEST(threads_stay_within_the_limit_together),
        TEST(what_is_being_made_when_the_stock_is_emptied_goes_too),
        TEST(nothing_is_made_at_the_end_of_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
