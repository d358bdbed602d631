/* listing.c - the list of pools, and the thread that looks at them.
 *
 * The thread is a guest in someone's program: it takes no signals, and waits for nothing while it
 * has the list's lock. It takes that lock to find the next pool, marks it as the one being looked
 * at, and drops it; a pool that ends meanwhile waits until it is no longer marked. So a pool whose
 * lock is held for long (the driver is slow) holds up the page, and nobody else.
 *
 * Once a second it asks the driver, after it has read the pool. A dead GPU may never answer, and a
 * pool that ends waits no more than a moment for that: it takes its mark away, and the thread,
 * should it ever come back, finds no pool and begins anew. The device stays until then
 * (vw__device_peek_memory()). Only for a device of somebody's own, which its owner takes away once
 * its pools are gone, there is no other way than to wait.
 *
 * Ends:
 *   the last pool     the thread publishes that, and then sleeps until there is another
 *   the process       a destructor stops the thread, but does not wait for one that is stuck in a
 *                     driver: the process ends anyway
 *   fork()            the child has no thread, and a list of its own, which is empty
 *
 * The lock is no ranked one: no other lock is taken under it. */
#include "pool/listing.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/guest_thread.h"
#include "device/device_common.h" /* vw__device_outlives_a_peek */
#include "live/live_page.h"

enum {
    USUAL_PAUSE_MS = 200,
    LONGEST_PAUSE_MS = 60000,
    LONGEST_ANSWER_MS = 200, /* of a driver, that a pool which ends waits for */
    STACK_BYTES = 256 << 10, /* the driver is called on it */
};
#define DEVICE_PAUSE_NS UINT64_C(1000000000) /* between two questions to a driver */

/* Everything here, for the process. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t news;   /* for the thread: a pool, the last of one, the end */
    pthread_cond_t looked; /* for who ends a pool: `looking_at` has changed */
    vw__listing *listings;
    const vw__listing *looking_at;
    bool is_asking;        /* its device: the pool itself has been read */
    const char *allocator; /* of the pool that was listed last */
    vw__listing_sum sums[VW__PAGE_SLOTS];
    size_t sum_count;
    bool is_running; /* the thread was started */
    bool has_failed; /* there can be no page */
    bool has_gone;   /* a pool has, since the last round */
    bool is_over;    /* the process ends */
    pthread_t thread;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- a round --------------------------------------------------------------------------------- */

/* Under the lock. NULL: there are more devices than a page has room for. */
static vw__listing_sum *sum_for(const vw_device *device)
{
    for (size_t i = 0; i < all.sum_count; i++)
        if (all.sums[i].device == device->properties.index)
            return &all.sums[i];
    if (all.sum_count == VW__PAGE_SLOTS)
        return NULL;
    vw__listing_sum *sum = &all.sums[all.sum_count++];
    vw__listing_sum_init(sum, device);
    return sum;
}

static bool is_due(vw__listing_sum *sum, uint64_t now_ns)
{
    if (sum->memory_asked_ns != 0 && now_ns - sum->memory_asked_ns < DEVICE_PAUSE_NS)
        return false;
    sum->memory_asked_ns = now_ns;
    return true;
}

/* Under the lock, which is dropped while the driver is asked. */
static void ask_device(const vw_device *device, vw__listing_sample *sample)
{
    all.is_asking = true;
    vw__device_begin_peek(device); /* its pool is there: nobody has ended it yet */
    pthread_cond_broadcast(&all.looked);
    pthread_mutex_unlock(&all.lock);
    vw__listing_ask_device(device, sample);
    pthread_mutex_lock(&all.lock);
    all.is_asking = false;
}

/* Under the lock, which is dropped while the pool is read. False: it has ended meanwhile, and its
 * listing with it. */
static bool look_at(vw__listing *listing, uint64_t now_ns)
{
    vw__listing_sample sample;
    vw__listing_sum *sum = sum_for(listing->device);
    if (sum == NULL)
        return true;
    all.looking_at = listing;
    pthread_mutex_unlock(&all.lock);
    vw__listing_read(listing, &sample);
    pthread_mutex_lock(&all.lock);
    if (is_due(sum, now_ns))
        ask_device(listing->device, &sample);
    bool is_there = all.looking_at == listing;
    if (is_there)
        vw__listing_sum_add(sum, listing, &sample);
    all.looking_at = NULL;
    pthread_cond_broadcast(&all.looked);
    return is_there;
}

static void tell_allocator(vw_live_page *page, const char *allocator)
{
    const vw_live_identity identity = {
        .struct_size = sizeof identity,
        .allocator = allocator,
        .rank = -1,
        .local_rank = -1,
    };
    (void)vw_live_page_identify(page, &identity);
}

/* Under the lock, which is dropped while a pool is read. A pool that joins meanwhile is for the
 * next round. If a pool leaves while it is read, the round is incomplete and publishes nothing.
 * `*told` is the allocator that this thread named last; it leaves another name on the page alone.
 */
static void go_round(vw_live_page *page, const char **told)
{
    static vw__listing_sum results[VW__PAGE_SLOTS]; /* one thread; large for its stack */
    uint64_t now_ns = vw__clock_monotonic_ns();
    all.has_gone = false;
    for (size_t i = 0; i < all.sum_count; i++)
        vw__listing_sum_begin(&all.sums[i]);
    for (vw__listing *listing = all.listings; listing != NULL; listing = listing->next)
        if (!look_at(listing, now_ns))
            return;
    size_t count = all.sum_count;
    for (size_t i = 0; i < count; i++)
        results[i] = all.sums[i];
    const char *allocator = all.allocator;
    pthread_mutex_unlock(&all.lock);
    if (allocator != *told)
        tell_allocator(page, allocator);
    *told = allocator;
    for (size_t i = 0; i < count; i++) /* devices beyond the page's room are left out */
        (void)vw_live_page_put(page, results[i].device, results[i].name, results[i].values,
                               VW_LIVE_FIELD_COUNT);
    pthread_mutex_lock(&all.lock);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Under the lock, which is dropped for each pool. A pool that ends waits for it. */
static vw_status carry_out_on_all(const vw__live_request *request, vw__listing_work *work)
{
    vw_status status = VW_OK;
    for (vw__listing *listing = all.listings; listing != NULL && status == VW_OK;) {
        all.looking_at = listing;
        pthread_mutex_unlock(&all.lock);
        status = vw__listing_carry_out(listing, request, work);
        pthread_mutex_lock(&all.lock);
        listing = listing->next;
        all.looking_at = NULL;
        pthread_cond_broadcast(&all.looked);
    }
    return status;
}

/* Under the lock. All pools park; or those that did are woken, and what was parked before stays. */
static void serve_request(const vw_live_page *page)
{
    vw__live_request request;
    vw__listing_work work = {0}, unread = {.is_undo = true};
    char why[512] = "";
    if (!vw__live_take_request(page, &request))
        return;
    for (vw__listing *listing = all.listings; listing != NULL; listing = listing->next)
        listing->has_parked = false;
    vw_status status = carry_out_on_all(&request, &work);
    if (status == VW_OK && work.pool_count == 0)
        status = request.region[0] != '\0'
                     ? vw__fail(VW_ERR_INVALID_ARGUMENT, "the process has no region \"%s\"",
                                request.region)
                     : vw__fail(VW_ERR_UNSUPPORTED, "no allocator of the process can park");
    snprintf(why, sizeof why, "%s", status != VW_OK ? vw_last_error() : "");
    if (status != VW_OK && !request.is_wake) {
        vw__live_request undo = request;
        undo.is_wake = true;
        (void)carry_out_on_all(&undo, &unread);
    }
    vw__live_answer(&request, status, work.moved_bytes, work.wait_ns, why);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static uint64_t pause_ms(void)
{
    const char *text = secure_getenv("VRAMWISE_LIVE_MS");
    char *end = NULL;
    long number = text != NULL ? strtol(text, &end, 10) : 0;
    bool is_good =
        text != NULL && end != text && *end == '\0' && number >= 1 && number <= LONGEST_PAUSE_MS;
    return is_good ? (uint64_t)number : USUAL_PAUSE_MS;
}

/* Under the lock: until it is time, or the end. */
static void sleep_for(uint64_t milliseconds)
{
    const struct timespec until = vw__guest_thread_time_after(milliseconds);
    bool is_early = true;
    while (!all.is_over && is_early)
        is_early = vw__guest_thread_wait(&all.news, &all.lock, &until);
}

static void *look_on(void *context)
{
    vw_live_page *page = NULL;
    const char *told = NULL;
    (void)context;
    bool has_page = vw_live_process_page(&page) == VW_OK;
    uint64_t milliseconds = pause_ms();
    pthread_mutex_lock(&all.lock);
    all.has_failed = !has_page;
    while (has_page && !all.is_over) {
        serve_request(page);
        go_round(page, &told);
        sleep_for(milliseconds);
        while (all.listings == NULL && !all.has_gone && !all.is_over)
            (void)vw__guest_thread_wait(&all.news, &all.lock, NULL);
    }
    pthread_mutex_unlock(&all.lock);
    return NULL;
}

/* Under the lock. Where no thread can be had, the next pool tries again. */
static void start_thread(void)
{
    sigset_t every, before;
    pthread_attr_t attributes;
    sigfillset(&every);
    if (pthread_attr_init(&attributes) != 0)
        return;
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (pthread_sigmask(SIG_SETMASK, &every, &before) == 0) {
        /* With much thread-local data in the program the stack may be too small for it. */
        all.is_running = pthread_create(&all.thread, &attributes, look_on, NULL) == 0 ||
                         pthread_create(&all.thread, NULL, look_on, NULL) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    if (all.is_running)
        pthread_setname_np(all.thread, "vramwise-live");
}

/* ---- from the first pool to the end ---------------------------------------------------------- */

static void make_conditions(void)
{
    (void)vw__guest_thread_condition(&all.news);
    (void)vw__guest_thread_condition(&all.looked);
}

/* fork() takes the lock beforehand, so that the child finds no half change. */
static void hold_list(void)
{
    pthread_mutex_lock(&all.lock);
}

static void let_list_go(void)
{
    pthread_mutex_unlock(&all.lock);
}

static void forget_in_child(void)
{
    all.listings = NULL;
    all.looking_at = NULL;
    all.is_asking = false;
    all.sum_count = 0;
    all.allocator = NULL;
    all.is_running = all.has_failed = all.has_gone = false;
    make_conditions(); /* the parent's may have waiters that are not here */
    pthread_mutex_unlock(&all.lock);
}

/* Once, by whichever comes first: what is registered after the driver was started is called before
 * the driver ends, and the thread must ask it no more; a library that is unloaded has a destructor.
 */
__attribute__((destructor)) static void stop_at_end(void)
{
    pthread_mutex_lock(&all.lock);
    bool is_running = all.is_running;
    all.is_over = true;
    all.is_running = false;
    if (is_running)
        pthread_cond_signal(&all.news);
    pthread_mutex_unlock(&all.lock);
    if (is_running)
        (void)vw__guest_thread_end_soon(all.thread);
}

static void prepare(void)
{
    make_conditions();
    (void)atexit(stop_at_end); /* refused: the destructor is left */
    pthread_atfork(hold_list, let_list_go, forget_in_child);
}

/* ---- what pools call ------------------------------------------------------------------------- */

void vw__listing_add(vw__listing *listing, const char *allocator)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (listing->device->properties.index < 0)
        return; /* a device without a number has no place in a page */
    pthread_once(&once, prepare);
    pthread_mutex_lock(&all.lock);
    if (!all.has_failed && !all.is_over) {
        listing->is_listed = true;
        listing->next = all.listings;
        all.listings = listing;
        if (allocator != NULL)
            all.allocator = allocator;
        if (all.is_running)
            pthread_cond_signal(&all.news);
        else
            start_thread();
    }
    pthread_mutex_unlock(&all.lock);
}

/* Under the lock. */
static void unlink_listing(vw__listing *listing)
{
    vw__listing **link = &all.listings;
    while (*link != listing)
        link = &(*link)->next;
    *link = listing->next;
    listing->is_listed = false;
}

/* Under the lock: until nobody looks at it, or nobody will any more. */
static void wait_for_looks(const vw__listing *listing)
{
    bool may_leave = vw__device_outlives_a_peek(listing->device);
    const struct timespec latest = vw__guest_thread_time_after(LONGEST_ANSWER_MS);
    bool is_early = true;
    while (all.looking_at == listing) {
        if (!all.is_asking || !may_leave)
            (void)vw__guest_thread_wait(&all.looked, &all.lock, NULL);
        else if (is_early)
            is_early = vw__guest_thread_wait(&all.looked, &all.lock, &latest);
        else
            all.looking_at = NULL;
    }
}

void vw__listing_remove(vw__listing *listing)
{
    vw__listing_sample last;
    if (!listing->is_listed)
        return;
    pthread_mutex_lock(&all.lock);
    wait_for_looks(listing);
    unlink_listing(listing);
    pthread_mutex_unlock(&all.lock);
    vw__listing_read(listing, &last);
    pthread_mutex_lock(&all.lock);
    vw__listing_sum *sum = sum_for(listing->device);
    if (sum != NULL)
        vw__listing_sum_keep_counts(sum, listing, &last);
    all.has_gone = true;
    if (all.is_running)
        pthread_cond_signal(&all.news);
    pthread_mutex_unlock(&all.lock);
}
