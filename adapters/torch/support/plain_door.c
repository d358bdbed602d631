/* plain_door.c - the C functions that torch.cuda.memory.CUDAPluggableAllocator calls.
 *
 * One pool for each device, made when PyTorch first asks for memory there. Pools and devices stay
 * until the process ends: PyTorch frees tensors from destructors at exit, when nobody knows any
 * more in which order the driver goes. */
#include "vramwise_torch_support.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 128, MOST_ENGINE_BYTES = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and making pools */
static char engine_name[MOST_ENGINE_BYTES] = "vramwise";
static char *chosen_conf; /* owned; NULL = "" */
static bool has_begun;    /* a pool was made, or tried to */

static _Atomic(vw_pool *) pools[MOST_DEVICES]; /* made once each, never destroyed */
static _Atomic int device_count;               /* beyond which there is none */

/* ---- choosing -------------------------------------------------------------------------------- */

/* A pool of arithmetic only, to hear whether it could be made. */
static bool would_be_taken(const vw_pool_options *options)
{
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    bool is_taken = vw_simulated_device_create(NULL, &device) == VW_OK &&
                    vw_pool_create(device, options, &pool) == VW_OK;
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return is_taken;
}

static bool choose(const char *engine, const char *conf)
{
    const vw_pool_options options = {
        .struct_size = sizeof options, .engine = engine, .conf = conf, .is_unlisted = true};
    if (has_begun) {
        vw_set_last_error("too late: memory was allocated already");
        return false;
    }
    if (!would_be_taken(&options))
        return false;
    char *copy = conf != NULL ? strdup(conf) : NULL;
    if (conf != NULL && copy == NULL) {
        vw_set_last_error("no host memory for the settings");
        return false;
    }
    free(chosen_conf);
    chosen_conf = copy;
    snprintf(engine_name, sizeof engine_name, "%s", engine); /* a known name: it fits */
    return true;
}

bool vramwise_plain_choose(const char *engine, const char *conf)
{
    pthread_mutex_lock(&lock);
    bool is_chosen = choose(engine != NULL ? engine : "vramwise", conf);
    pthread_mutex_unlock(&lock);
    return is_chosen;
}

/* ---- pools ----------------------------------------------------------------------------------- */

static vw_pool *make_pool(int index)
{
    const vw_pool_options options = {
        .struct_size = sizeof options,
        .engine = engine_name,
        .conf = chosen_conf,
        .safe_point = vramwise_safe_moments(),
        .prepare_safe_point = vramwise_prepare_safe_moment,
    };
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    if (vw_cuda_device_open(index, &device) != VW_OK)
        return NULL;
    if (vw_pool_create(device, &options, &pool) != VW_OK) {
        vw_device_destroy(device);
        return NULL;
    }
    return pool;
}

/* NULL: it could not be made, and vw_last_error() says why. */
static vw_pool *pool_of(int index)
{
    if (index < 0 || index >= MOST_DEVICES) {
        char text[96];
        snprintf(text, sizeof text, "device %d, expected 0 to %d", index, MOST_DEVICES - 1);
        vw_set_last_error(text);
        return NULL;
    }
    vw_pool *pool = atomic_load_explicit(&pools[index], memory_order_acquire);
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
    fprintf(stderr, "vramwise: %s: %s\n", what, vw_last_error());
}

/* ---- what PyTorch calls ---------------------------------------------------------------------- */

void *vramwise_plain_alloc(size_t size_bytes, int device, void *stream)
{
    vw_device_ptr address = VW_NULL;
    vw_pool *pool = pool_of(device);
    if (pool != NULL && vw_alloc(pool, size_bytes, (vw_stream)(uintptr_t)stream, &address) == VW_OK)
        return (void *)(uintptr_t)address;
    fprintf(stderr,
            "vramwise: %s\nvramwise: %zu bytes on device %d cannot be served, and PyTorch's plain "
            "door has no way to say so: the process ends here\n",
            vw_last_error(), size_bytes, device);
    abort();
}

void vramwise_plain_free(void *address, size_t size_bytes, int device, void *stream)
{
    (void)size_bytes;
    (void)stream;
    if (address == NULL)
        return;
    vw_pool *pool = pool_of(device);
    if (pool == NULL || vw_free(pool, (vw_device_ptr)(uintptr_t)address) != VW_OK)
        complain("a block could not be freed");
}

/* Ends the process where it cannot be remembered: the block would serve another tensor while the
 * stream still works on it. */
void vramwise_plain_record_stream(void *address, void *stream)
{
    vw_status status = VW_ERR_UNKNOWN_ADDRESS;
    for (int i = 0; i < atomic_load(&device_count) && status == VW_ERR_UNKNOWN_ADDRESS; i++) {
        vw_pool *pool = atomic_load_explicit(&pools[i], memory_order_acquire);
        if (pool != NULL)
            status = vw_record_stream(pool, (vw_device_ptr)(uintptr_t)address,
                                      (vw_stream)(uintptr_t)stream);
    }
    if (status == VW_OK)
        return;
    complain("a stream's use of a block could not be recorded");
    if (status != VW_ERR_UNKNOWN_ADDRESS) /* memory of somebody else's is not ours to reuse */
        abort();
}

void *vramwise_plain_base(void *address, size_t *size_bytes)
{
    for (int i = 0; i < atomic_load(&device_count); i++) {
        vw_pool *pool = atomic_load_explicit(&pools[i], memory_order_acquire);
        vw_block_place place;
        if (pool == NULL || vw_pool_find(pool, (vw_device_ptr)(uintptr_t)address, &place) != VW_OK)
            continue;
        if (size_bytes != NULL)
            *size_bytes = (size_t)place.segment_bytes;
        return (void *)(uintptr_t)place.segment_address;
    }
    if (size_bytes != NULL)
        *size_bytes = 0;
    return NULL;
}

void vramwise_plain_empty_cache(void)
{
    for (int i = 0; i < atomic_load(&device_count); i++) {
        vw_pool *pool = atomic_load_explicit(&pools[i], memory_order_acquire);
        if (pool != NULL && vw_pool_trim(pool) != VW_OK)
            complain("idle memory could not be given back");
    }
}

void vramwise_plain_set_fraction(double fraction, int device)
{
    vw_pool *pool = pool_of(device);
    if (pool == NULL || vw_pool_set_fraction(pool, fraction) != VW_OK)
        complain("the memory fraction could not be set");
}
