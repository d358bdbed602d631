/* test_guest_thread.c - waiting for a condition, also for one whose wake-up got lost. */
#include "base/guest_thread.h"

#include "support/cmocka_here.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition;
static bool is_true;

static int set_up(void **state)
{
    (void)state;
    is_true = false;
    return vw__guest_thread_condition(&condition) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return pthread_cond_destroy(&condition);
}

static void *make_true_and_tell_nobody(void *context)
{
    (void)context;
    pthread_mutex_lock(&lock);
    is_true = true;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *make_true_and_tell(void *context)
{
    (void)context;
    pthread_mutex_lock(&lock);
    is_true = true;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* The thread gets the lock once this one waits. */
static void wait_for(void *(*make_true)(void *context), const struct timespec *end)
{
    pthread_t thread;
    pthread_mutex_lock(&lock);
    assert_true(vw__guest_thread_start(&thread, "test", make_true, NULL));
    while (!is_true)
        assert_true(vw__guest_thread_wait(&condition, &lock, end));
    pthread_mutex_unlock(&lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_lost_wake_up_is_noticed(void **state)
{
    (void)state;
    wait_for(make_true_and_tell_nobody, NULL);
}

static void a_lost_wake_up_is_noticed_long_before_the_end(void **state)
{
    (void)state;
    const struct timespec in_an_hour = vw__guest_thread_time_after(3600 * 1000);
    wait_for(make_true_and_tell_nobody, &in_an_hour);
}

static void news_end_a_wait(void **state)
{
    (void)state;
    wait_for(make_true_and_tell, NULL);
}

static void the_end_is_told_when_it_has_come(void **state)
{
    (void)state;
    const struct timespec now = vw__guest_thread_time_after(0);
    pthread_mutex_lock(&lock);
    assert_false(vw__guest_thread_wait(&condition, &lock, &now));
    const struct timespec later = vw__guest_thread_time_after(VW__GUEST_THREAD_LOOK_MS + 10);
    while (vw__guest_thread_wait(&condition, &lock, &later))
        continue;
    const struct timespec after = vw__guest_thread_time_after(0);
    pthread_mutex_unlock(&lock);
    assert_true(after.tv_sec > later.tv_sec ||
                (after.tv_sec == later.tv_sec && after.tv_nsec >= later.tv_nsec));
}

int main(void)
{
#define WAITING(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WAITING(a_lost_wake_up_is_noticed),
        WAITING(a_lost_wake_up_is_noticed_long_before_the_end),
        WAITING(news_end_a_wait),
        WAITING(the_end_is_told_when_it_has_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
