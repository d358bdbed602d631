/* fake_internal.h - what the parts of the fake driver share.
 *
 *   fake_libcuda.c          contexts, devices, plain and host memory, bytes, streams, events
 *   fake_virtual_memory.c   reservations, handles, mappings; empty in an old driver
 *   fake_kernels.c          kernels known by name, and the stream-ordered allocator; the same
 *   fake_nvml.c             NVML, in the same library
 *   fake_processes.c        the GPUs and processes that it tells of
 *
 * The first two and the last are also the greater part of a fake HIP runtime (FAKE_HIP): see
 * fake_hip.
 *
 * One lock guards everything; a thread's stack of contexts and its capture mode are its own. */
#ifndef VW_TESTS_FAKE_INTERNAL_H
#define VW_TESTS_FAKE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cuda_driver_load.h" /* the driver's types */
#include "support/fake_cuda/fake_libcuda.h"

/* Declares an exported function, then defines it. */
#define EXPORT __attribute__((visibility("default")))
#define DRIVER(name, parameters)                                                                   \
    EXPORT int name parameters;                                                                    \
    int name parameters

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
};

struct vw__cuda_context_ {
    _Atomic int retain_count;
    size_t used_bytes; /* guarded by fake_lock */
};

extern pthread_mutex_t fake_lock;
extern fake_cuda_state fake_state; /* guarded by fake_lock; threads' own fields filled on asking */
extern struct vw__cuda_context_ fake_primaries[FAKE_CUDA_MOST_DEVICES];

bool fake_is_set(const char *variable);
int fake_ordered_result(const char *function); /* SUCCESS: nothing ordered */
vw__cuda_context fake_current_context(void);   /* NULL: none */
#ifdef FAKE_HIP
void fake_set_current_context(vw__cuda_context context);
#endif
int fake_device_count(void);             /* of the machine, visible or not */
int fake_device_behind(int device);      /* of the machine; -1: there is no such device */
bool fake_can_reach(int one, int other); /* both as the machine counts */
void fake_bus_id(char *id, size_t id_bytes, int machine_device);

#define OBEY_ORDERS()                                                                              \
    do {                                                                                           \
        int ordered_ = fake_ordered_result(__func__);                                              \
        if (ordered_ != SUCCESS)                                                                   \
            return ordered_;                                                                       \
    } while (0)

/* What every call on memory, streams and events begins with. */
#define OBEY_ORDERS_IN_CONTEXT()                                                                   \
    OBEY_ORDERS();                                                                                 \
    do {                                                                                           \
        if (fake_current_context() == NULL || fake_current_context()->retain_count == 0)           \
            return INVALID_CONTEXT;                                                                \
    } while (0)

/* Plain memory, host memory, reservations and mappings: each a list of ranges. fake_lock is held
 * for all that follows. */
typedef struct fake_range {
    struct fake_range *next;
    uintptr_t start;
    size_t size_bytes;
    vw__cuda_context owner;
    struct handle *handle;                   /* of a mapping */
    bool is_open_to[FAKE_CUDA_MOST_DEVICES]; /* of a mapping: which may touch it */
} fake_range;

fake_range *fake_range_add(fake_range **list, uintptr_t start, size_t size_bytes);
fake_range **fake_range_find(fake_range **list, uintptr_t start); /* the link; to NULL: none */
void fake_range_drop(fake_range **link);
bool fake_charge(size_t size_bytes); /* takes room on the current device, if there is any */
void fake_discharge(vw__cuda_context context, size_t size_bytes);
uintptr_t fake_map_anonymous(size_t size_bytes, int protection);

#endif /* VW_TESTS_FAKE_INTERNAL_H */
