/* fake_kernels.c - the fake driver's kernels and its stream-ordered allocator.
 *
 * There is nobody here to compile a kernel's text. Two are known by name, those of
 * tests/gpu/gpu_replay_bytes.c, and run by the processor, by the formulas their text was written
 * from: what is tested with them is everything around the text. Memory of the stream-ordered
 * allocator is plain memory, given back at once. */
#include "support/fake_cuda/fake_internal.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_replay_driver.h"
#include "gpu/gpu_replay_pattern.h"

#ifndef FAKE_CUDA_OLD

enum { NOT_FOUND = 500 };

struct replay_module_ {
    const char *text;
};
struct replay_function_ {
    const char *name;
    bool is_check;
};

static struct replay_function_ known_functions[] = {
    {"fill_pattern", false},
    {"check_pattern", true},
};

/* ---- kernels --------------------------------------------------------------------------------- */

DRIVER(cuModuleLoadData, (replay_module * out, const void *image))
{
    OBEY_ORDERS_IN_CONTEXT();
    if (strncmp(image, ".version", strlen(".version")) != 0)
        return INVALID_VALUE;
    *out = malloc(sizeof **out);
    if (*out == NULL)
        return OUT_OF_MEMORY;
    (*out)->text = image;
    return SUCCESS;
}

DRIVER(cuModuleUnload, (replay_module module))
{
    OBEY_ORDERS_IN_CONTEXT();
    free(module);
    return SUCCESS;
}

DRIVER(cuModuleGetFunction, (replay_function * out, replay_module module, const char *name))
{
    OBEY_ORDERS_IN_CONTEXT();
    for (size_t i = 0; i < sizeof known_functions / sizeof known_functions[0]; i++)
        if (strcmp(known_functions[i].name, name) == 0 && strstr(module->text, name) != NULL) {
            *out = &known_functions[i];
            return SUCCESS;
        }
    return NOT_FOUND;
}

static void fill(const replay_visit *visit)
{
    unsigned char *bytes = (unsigned char *)(uintptr_t)visit->address;
    for (uint64_t i = 0; i < visit->word_count; i++) {
        uint64_t word = replay_visit_word(visit, i);
        uint64_t value = replay_pattern_word(visit->seed, word);
        memcpy(bytes + 8 * word, &value, sizeof value);
    }
    for (uint64_t i = 0; i < visit->tail_bytes; i++)
        bytes[8 * visit->tail_word + i] = replay_tail_byte(visit, i);
}

static void check(const replay_visit *visit, replay_errors *errors)
{
    const unsigned char *bytes = (const unsigned char *)(uintptr_t)visit->address;
    for (uint64_t i = 0; i < visit->word_count; i++) {
        uint64_t word = replay_visit_word(visit, i), found;
        uint64_t wanted = replay_pattern_word(visit->seed, word);
        memcpy(&found, bytes + 8 * word, sizeof found);
        if (found != wanted)
            replay_note_error(errors, visit->seed, word, found, wanted);
    }
    for (uint64_t i = 0; i < visit->tail_bytes; i++)
        if (bytes[8 * visit->tail_word + i] != replay_tail_byte(visit, i))
            replay_note_error(errors, visit->seed, visit->tail_word,
                              bytes[8 * visit->tail_word + i], replay_tail_byte(visit, i));
}

DRIVER(cuLaunchKernel, (replay_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        vw__cuda_stream stream, void **parameters, void **extra))
{
    OBEY_ORDERS_IN_CONTEXT();
    (void)stream;
    uint64_t values[8] = {0};
    size_t count = function->is_check ? 8 : 7;
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 ||
        block_y != 1 || block_z != 1 || shared_bytes != 0 || extra != NULL)
        return INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        memcpy(&values[i], parameters[i], sizeof values[i]);
    const replay_visit visit = {values[0], values[1], values[2], values[3],
                                values[4], values[5], values[6]};
    if (function->is_check)
        check(&visit, (replay_errors *)(uintptr_t)values[7]);
    else
        fill(&visit);
    return SUCCESS;
}

/* ---- the stream-ordered allocator ------------------------------------------------------------ */

struct replay_mempool_ {
    uint64_t release_threshold;
    uint64_t used_bytes;
    uint64_t high_bytes;
};

static struct replay_mempool_
    mempools[FAKE_CUDA_MOST_DEVICES]; /* guarded by fake_lock, as the next */
static fake_range *async_ranges;

EXPORT int cuMemAlloc_v2(vw__cuda_ptr *out, size_t size_bytes);
EXPORT int cuMemFree_v2(vw__cuda_ptr address);

static replay_mempool current_mempool(void)
{
    return &mempools[fake_current_context() - fake_primaries];
}

DRIVER(cuDeviceGetDefaultMemPool, (replay_mempool * out, vw__cuda_device device))
{
    OBEY_ORDERS();
    int behind = fake_device_behind(device);
    if (behind < 0)
        return INVALID_DEVICE;
    *out = &mempools[behind];
    return SUCCESS;
}

DRIVER(cuMemPoolSetAttribute, (replay_mempool pool, int attribute, void *value))
{
    OBEY_ORDERS();
    uint64_t number;
    memcpy(&number, value, sizeof number);
    pthread_mutex_lock(&fake_lock);
    int result = SUCCESS;
    if (attribute == REPLAY_MEMPOOL_RELEASE_THRESHOLD)
        pool->release_threshold = number;
    else if (attribute == REPLAY_MEMPOOL_RESERVED_HIGH && number == 0)
        pool->high_bytes = pool->used_bytes;
    else
        result = INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    return result;
}

DRIVER(cuMemPoolGetAttribute, (replay_mempool pool, int attribute, void *value))
{
    OBEY_ORDERS();
    if (attribute != REPLAY_MEMPOOL_RELEASE_THRESHOLD && attribute != REPLAY_MEMPOOL_RESERVED_HIGH)
        return INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    memcpy(value,
           attribute == REPLAY_MEMPOOL_RESERVED_HIGH ? &pool->high_bytes : &pool->release_threshold,
           sizeof(uint64_t));
    pthread_mutex_unlock(&fake_lock);
    return SUCCESS;
}

DRIVER(cuMemPoolTrimTo, (replay_mempool pool, size_t keep_bytes))
{
    OBEY_ORDERS_IN_CONTEXT();
    (void)keep_bytes; /* nothing is idle */
    return pool != NULL ? SUCCESS : INVALID_VALUE;
}

DRIVER(cuMemAllocAsync, (vw__cuda_ptr * out, size_t size_bytes, vw__cuda_stream stream))
{
    OBEY_ORDERS_IN_CONTEXT();
    (void)stream;
    int result = cuMemAlloc_v2(out, size_bytes);
    if (result != SUCCESS)
        return result;
    pthread_mutex_lock(&fake_lock);
    replay_mempool pool = current_mempool();
    fake_range_add(&async_ranges, (uintptr_t)*out, size_bytes);
    pool->used_bytes += size_bytes;
    if (pool->used_bytes > pool->high_bytes)
        pool->high_bytes = pool->used_bytes;
    pthread_mutex_unlock(&fake_lock);
    return SUCCESS;
}

DRIVER(cuMemFreeAsync, (vw__cuda_ptr address, vw__cuda_stream stream))
{
    OBEY_ORDERS_IN_CONTEXT();
    (void)stream;
    pthread_mutex_lock(&fake_lock);
    fake_range **link = fake_range_find(&async_ranges, (uintptr_t)address);
    bool is_known = *link != NULL;
    if (is_known) {
        current_mempool()->used_bytes -= (*link)->size_bytes;
        fake_range_drop(link);
    }
    pthread_mutex_unlock(&fake_lock);
    return is_known ? cuMemFree_v2(address) : INVALID_VALUE;
}

#endif /* FAKE_CUDA_OLD */
