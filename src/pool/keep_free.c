/* keep_free.c - the thread that gives idle memory back where the device runs low.
 *
 * It asks the device without any lock, and takes the pool's lock for a few handles at a time, so
 * that a request waits for a third of a millisecond at most. The engine waits for nothing: what the
 * device may still use goes a little later.
 *
 * A neighbour that asks for memory does not wait, it fails. So the memory has to be free
 * beforehand: the thread looks every few milliseconds, and what a neighbour takes is made up for
 * before long.
 *
 * Ends:
 *   the pool       stops the thread and waits for it
 *   the process    stops all threads before the driver ends, but does not wait for one that is
 *                  stuck in the driver: what that one has stays
 *   fork()         the child has no thread, and its copy of the pool is refused by every call */
#include "pool/keep_free.h"

#include <pthread.h>

#include "base/guest_thread.h"
#include "base/host_memory.h"
#include "pool/pool.h"
#include "vramwise/units.h"

enum {
    SLICE_HANDLES = 8,   /* of about 35 us */
    USUAL_PAUSE_MS = 10, /* between two looks at the device */
    SHORT_PAUSE_MS = 1,  /* the device comes to the end of its work */
    LONG_PAUSE_MS = 500, /* after a failure: whoever asks for memory next is told */
};

struct vw__keep_free {
    vw_pool *pool;         /* set at creation, then read-only, like the next */
    uint64_t wanted_bytes; /* not 0 */
    vw__guest_thread_listed listed;

    pthread_mutex_t lock; /* guards everything below; held for no call of others */
    pthread_cond_t has_news;
    bool is_woken;
    bool is_ending;
};

/* ---- a look ---------------------------------------------------------------------------------- */

static vw_status give_back(vw_pool *pool, vw__engine_slice *slice)
{
    vw__pool_lock(pool);
    vw_status status = pool->engine->table->give_back(pool->engine, slice);
    vw__pool_unlock(pool);
    return status;
}

/* Returns how long to wait for the next look. */
static uint64_t look(const vw__keep_free *keeper, bool is_woken)
{
    const vw_device *device = keeper->pool->device;
    uint64_t free_bytes = 0, total_bytes = 0;
    if (device->table->memory_info(device->context, &free_bytes, &total_bytes) != VW_OK)
        return LONG_PAUSE_MS;
    vw__engine_slice slice = {.most_handles = SLICE_HANDLES};
    if (free_bytes < keeper->wanted_bytes)
        slice.wanted_bytes = keeper->wanted_bytes - free_bytes;
    else if (!is_woken)
        return USUAL_PAUSE_MS;
    if (give_back(keeper->pool, &slice) != VW_OK)
        return LONG_PAUSE_MS;
    if (slice.given_bytes != 0)
        return 0;
    return slice.is_waiting ? SHORT_PAUSE_MS : USUAL_PAUSE_MS;
}

/* Under the keeper's lock: until it is time, or there is news. */
static void sleep_for(vw__keep_free *keeper, uint64_t milliseconds)
{
    const struct timespec until = vw__guest_thread_time_after(milliseconds);
    bool is_early = milliseconds != 0;
    while (is_early && !keeper->is_ending && !keeper->is_woken)
        is_early = vw__guest_thread_wait(&keeper->has_news, &keeper->lock, &until);
}

static void *look_on(void *context)
{
    vw__keep_free *keeper = context;
    bool is_busy = false;
    pthread_mutex_lock(&keeper->lock);
    while (!keeper->is_ending) {
        bool is_woken = keeper->is_woken || is_busy;
        keeper->is_woken = false;
        pthread_mutex_unlock(&keeper->lock);
        uint64_t milliseconds = look(keeper, is_woken);
        pthread_mutex_lock(&keeper->lock);
        is_busy = milliseconds < USUAL_PAUSE_MS; /* there was something to give, or will be */
        sleep_for(keeper, milliseconds);
    }
    pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

static void tell_to_end(void *context)
{
    vw__keep_free *keeper = context;
    pthread_mutex_lock(&keeper->lock);
    keeper->is_ending = true;
    pthread_cond_signal(&keeper->has_news);
    pthread_mutex_unlock(&keeper->lock);
}

/* ---- from the option to the end -------------------------------------------------------------- */

vw_status vw__keep_free_read(const vw_device *device, const char *text, uint64_t *out_bytes)
{
    const vw_device_properties *properties = &device->properties;
    *out_bytes = 0;
    if (text == NULL || *text == '\0')
        return VW_OK;
    VW__TRY(vw_parse_size_or_share(text, properties->total_bytes, out_bytes));
    if (*out_bytes > properties->total_bytes)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "a keep_free of %s, more than the %llu bytes of the device", text,
                        (unsigned long long)properties->total_bytes);
    return VW_OK;
}

static vw_status check_engine(const vw_pool *pool)
{
    if (pool->engine->table->give_back != NULL)
        return VW_OK;
    if (pool->engine->is_fallback)
        return vw__fail(VW_ERR_UNSUPPORTED, "keep_free on device %s, which has no virtual memory",
                        pool->device->properties.name);
    return vw__fail(VW_ERR_INVALID_ARGUMENT,
                    "keep_free with engine \"%s\", which gives memory back only when it is told to",
                    pool->engine_name);
}

static vw_status start(vw__keep_free *keeper)
{
    vw_status status = VW_ERR_HOST_MEMORY;
    if (pthread_mutex_init(&keeper->lock, NULL) != 0)
        return vw__fail(status, "no lock for keep_free");
    if (vw__guest_thread_condition(&keeper->has_news)) {
        if (vw__guest_thread_start(&keeper->listed.thread, "vramwise-free", look_on, keeper))
            return VW_OK;
        pthread_cond_destroy(&keeper->has_news);
    }
    pthread_mutex_destroy(&keeper->lock);
    return vw__fail(status, "no thread for keep_free");
}

vw_status vw__keep_free_start(vw_pool *pool, uint64_t wanted_bytes, vw__keep_free **out)
{
    VW__TRY(check_engine(pool));
    vw__keep_free *keeper = vw__host_alloc_zeroed(1, sizeof *keeper);
    if (keeper == NULL)
        return vw__fail_host_memory(sizeof *keeper, "keep_free");
    keeper->pool = pool;
    keeper->wanted_bytes = wanted_bytes;
    vw_status status = start(keeper);
    if (status != VW_OK) {
        vw__host_free(keeper);
        return status;
    }
    keeper->listed.tell_to_end = tell_to_end;
    keeper->listed.context = keeper;
    vw__guest_thread_list(&keeper->listed);
    *out = keeper;
    return VW_OK;
}

void vw__keep_free_wake(vw__keep_free *keeper)
{
    if (keeper == NULL)
        return;
    pthread_mutex_lock(&keeper->lock);
    keeper->is_woken = true;
    pthread_cond_signal(&keeper->has_news);
    pthread_mutex_unlock(&keeper->lock);
}

bool vw__keep_free_stop(vw__keep_free *keeper)
{
    if (keeper == NULL)
        return true;
    if (!vw__guest_thread_end(&keeper->listed))
        return false;
    pthread_cond_destroy(&keeper->has_news);
    pthread_mutex_destroy(&keeper->lock);
    vw__host_free(keeper);
    return true;
}
