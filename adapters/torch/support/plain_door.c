/* plain_door.c - the C functions that torch.cuda.memory.CUDAPluggableAllocator calls.
 *
 * One pool for each device, made when PyTorch first asks for memory there. Pools and devices stay
 * until the process ends: PyTorch frees tensors from destructors at exit, when nobody knows any
 * more in which order the driver goes. */
#include "headroom_torch_support.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 128, MOST_ENGINE_BYTES = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and making pools */
static char engine_name[MOST_ENGINE_BYTES] = "headroom";
static char *chosen_conf; /* owned; NULL = "" */
static bool has_begun;    /* a pool was made, or tried to */

static _Atomic(hr_pool *) pools[MOST_DEVICES]; /* made once each, never destroyed */
static _Atomic int device_count;               /* beyond which there is none */

/* ---- choosing -------------------------------------------------------------------------------- */

/* A pool of arithmetic only, to hear whether it could be made. */
static bool would_be_taken(const hr_pool_options *options)
{
    hr_device *device = NULL;
    hr_pool *pool = NULL;
    bool is_taken = hr_simulated_device_create(NULL, &device) == HR_OK &&
                    hr_pool_create(device, options, &pool) == HR_OK;
    hr_pool_destroy(pool);
    hr_device_destroy(device);
    return is_taken;
}

static bool choose(const char *engine, const char *conf)
{
    const hr_pool_options options = {
        .struct_size = sizeof options, .engine = engine, .conf = conf, .is_unlisted = true};
    if (has_begun) {
        hr_set_last_error("too late: memory was allocated already");
        return false;
    }
    if (!would_be_taken(&options))
        return false;
    char *copy = conf != NULL ? strdup(conf) : NULL;
    if (conf != NULL && copy == NULL) {
        hr_set_last_error("no host memory for the settings");
        return false;
    }
    free(chosen_conf);
    chosen_conf = copy;
    snprintf(engine_name, sizeof engine_name, "%s", engine); /* a known name: it fits */
    return true;
}

bool headroom_plain_choose(const char *engine, const char *conf)
{
    pthread_mutex_lock(&lock);
    bool is_chosen = choose(engine != NULL ? engine : "headroom", conf);
    pthread_mutex_unlock(&lock);
    return is_chosen;
}

/* ---- pools ----------------------------------------------------------------------------------- */

static hr_pool *make_pool(int index)
{
    const hr_pool_options options = {
        .struct_size = sizeof options,
        .engine = engine_name,
        .conf = chosen_conf,
        .safe_point = headroom_safe_moments(),
    };
    hr_device *device = NULL;
    hr_pool *pool = NULL;
    if (hr_cuda_device_open(index, &device) != HR_OK)
        return NULL;
    if (hr_pool_create(device, &options, &pool) != HR_OK) {
        hr_device_destroy(device);
        return NULL;
    }
    return pool;
}

/* NULL: it could not be made, and hr_last_error() says why. */
static hr_pool *pool_of(int index)
{
    if (index < 0 || index >= MOST_DEVICES) {
        char text[96];
        snprintf(text, sizeof text, "device %d, expected 0 to %d", index, MOST_DEVICES - 1);
        hr_set_last_error(text);
        return NULL;
    }
    hr_pool *pool = atomic_load_explicit(&pools[index], memory_order_acquire);
    if (pool != NULL)
        return pool;
    pthread_mutex_lock(&lock);
    has_begun = true;
    pool = atomic_load(&pools[index]);
    if (pool == NULL) {
        pool = make_pool(index);
        atomic_store(&pools[index], pool);
        if (pool != NULL && index >= atomic_load(&device_count))
            atomic_store(&device_count, index + 1);
    }
    pthread_mutex_unlock(&lock);
    return pool;
}

static void complain(const char *what)
{
    fprintf(stderr, "headroom: %s: %s\n", what, hr_last_error());
}

/* ---- what PyTorch calls ---------------------------------------------------------------------- */

void *headroom_plain_alloc(size_t size_bytes, int device, void *stream)
{
    hr_device_ptr address = HR_NULL;
    hr_pool *pool = pool_of(device);
    if (pool != NULL && hr_alloc(pool, size_bytes, (hr_stream)(uintptr_t)stream, &address) == HR_OK)
        return (void *)(uintptr_t)address;
    fprintf(stderr,
            "headroom: %s\nheadroom: %zu bytes on device %d cannot be served, and PyTorch's plain "
            "door has no way to say so: the process ends here\n",
            hr_last_error(), size_bytes, device);
    abort();
}

void headroom_plain_free(void *address, size_t size_bytes, int device, void *stream)
{
    (void)size_bytes;
    (void)stream;
    if (address == NULL)
        return;
    hr_pool *pool = pool_of(device);
    if (pool == NULL || hr_free(pool, (hr_device_ptr)(uintptr_t)address) != HR_OK)
        complain("a block could not be freed");
}

/* Ends the process where it cannot be remembered: the block would serve another tensor while the
 * stream still works on it. */
void headroom_plain_record_stream(void *address, void *stream)
{
    hr_status status = HR_ERR_UNKNOWN_ADDRESS;
    for (int i = 0; i < atomic_load(&device_count) && status == HR_ERR_UNKNOWN_ADDRESS; i++) {
        hr_pool *pool = atomic_load_explicit(&pools[i], memory_order_acquire);
        if (pool != NULL)
            status = hr_record_stream(pool, (hr_device_ptr)(uintptr_t)address,
                                      (hr_stream)(uintptr_t)stream);
    }
    if (status == HR_OK)
        return;
    complain("a stream's use of a block could not be recorded");
    if (status != HR_ERR_UNKNOWN_ADDRESS) /* memory of somebody else's is not ours to reuse */
        abort();
}

void *headroom_plain_base(void *address, size_t *size_bytes)
{
    for (int i = 0; i < atomic_load(&device_count); i++) {
        hr_pool *pool = atomic_load_explicit(&pools[i], memory_order_acquire);
        hr_block_place place;
        if (pool == NULL || hr_pool_find(pool, (hr_device_ptr)(uintptr_t)address, &place) != HR_OK)
            continue;
        if (size_bytes != NULL)
            *size_bytes = (size_t)place.segment_bytes;
        return (void *)(uintptr_t)place.segment_address;
    }
    if (size_bytes != NULL)
        *size_bytes = 0;
    return NULL;
}

void headroom_plain_empty_cache(void)
{
    for (int i = 0; i < atomic_load(&device_count); i++) {
        hr_pool *pool = atomic_load_explicit(&pools[i], memory_order_acquire);
        if (pool != NULL && hr_pool_trim(pool) != HR_OK)
            complain("idle memory could not be given back");
    }
}

void headroom_plain_set_fraction(double fraction, int device)
{
    hr_pool *pool = pool_of(device);
    if (pool == NULL || hr_pool_set_fraction(pool, fraction) != HR_OK)
        complain("the memory fraction could not be set");
}
