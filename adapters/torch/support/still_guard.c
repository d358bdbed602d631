/* still_guard.c - what PyTorch asks of a GPU that is only planned for.
 *
 * Fake tensors are on a device, and PyTorch asks that device's guard for streams, though nothing
 * runs on them. A build without CUDA has no such guard, and that of a build with CUDA fails where
 * there is no GPU. This one answers: there is one device, cuda:0, with one stream. Newer engines
 * also ask CUDA's hooks whether CUDA is built in and whether the device has a context: it has.
 *
 * Both are objects with virtual functions, written as the C++ ABI lays them out, since nothing here
 * may need PyTorch's headers: c10::impl::DeviceGuardImplInterface, whose first ten functions are in
 * this order from PyTorch 2.5 to 2.15, and at::AcceleratorHooksInterface. Of the guard's other
 * functions only the one that counts devices is called for what does not run: it has one of two
 * places. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "vramwise_torch_support.h"

typedef void (*entry)(void);

/* What a C++ compiler puts before a table of virtual functions. */
enum { TABLE_HEAD = 2 }; /* the offset to the whole object, and its type */

static int64_t nothing(const void *self)
{
    (void)self;
    return 0;
}

static int64_t one(const void *self)
{
    (void)self;
    return 1;
}

/* ---- the guard ------------------------------------------------------------------------------- */

enum { CUDA = 1 };      /* c10::DeviceType */
enum { CUDA_0 = CUDA }; /* c10::Device: a byte for the type, one for the index */

/* c10::Stream */
typedef struct still_stream {
    uint16_t device;
    int64_t id;
} still_stream;

static int8_t device_type(const void *self)
{
    (void)self;
    return CUDA;
}

static uint16_t device(const void *self)
{
    (void)self;
    return CUDA_0;
}

static still_stream stream(const void *self)
{
    (void)self;
    return (still_stream){CUDA_0, 0};
}

enum { GUARD_ENTRIES = 40 };

/* clang-format off */
static const entry guard_table[TABLE_HEAD + GUARD_ENTRIES] = {
    NULL,
    NULL,
    (entry)device_type, /* type() */
    (entry)device,      /* exchangeDevice() */
    (entry)device,      /* getDevice() */
    (entry)nothing,     /* setDevice() */
    (entry)nothing,     /* uncheckedSetDevice() */
    (entry)stream,      /* getStream() */
    (entry)stream,      /* getDefaultStream() */
    (entry)stream,      /* getStreamFromGlobalPool() */
    (entry)stream,      /* getNewStream() */
    (entry)stream,      /* exchangeStream() */
    (entry)nothing,     /* destroyEvent(), or getStreamNativeHandle() */
    (entry)nothing,
    (entry)nothing,
    (entry)one, /* queryEvent(), or block() */
    (entry)one, /* deviceCount(), or queryEvent() */
    (entry)one, /* queryStream(), or deviceCount() */
    (entry)nothing,
    (entry)nothing,
    (entry)nothing,
    (entry)nothing,
    (entry)nothing,
    (entry)nothing,
    (entry)nothing,
    (entry)nothing,
    (entry)nothing,
    (entry)nothing,
};
/* clang-format on */

static const entry *const guard = guard_table + TABLE_HEAD;

const void *vramwise_still_guard(void)
{
    return &guard;
}

/* ---- the hooks ------------------------------------------------------------------------------- */

/* After two destructors. */
enum { IS_BUILT = 2, HAS_PRIMARY_CONTEXT = 4, HOOKS_ENTRIES = 96 };

void vramwise_still_hooks(void *hooks)
{
    static entry table[TABLE_HEAD + HOOKS_ENTRIES];
    entry **functions = hooks;
    if (*functions == table + TABLE_HEAD)
        return;
    memcpy(table, *functions - TABLE_HEAD, sizeof table);
    table[TABLE_HEAD + IS_BUILT] = (entry)one;
    table[TABLE_HEAD + HAS_PRIMARY_CONTEXT] = (entry)one;
    *functions = table + TABLE_HEAD;
}
