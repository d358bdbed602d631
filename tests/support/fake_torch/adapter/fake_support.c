/* fake_support.c - libheadroom-torch without an allocator: counts, and says yes. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

__attribute__((visibility("default"))) int fake_depth, fake_deepest, fake_gates_removed;
__attribute__((visibility("default"))) char fake_engine[64], fake_conf[64];

#define SHOWN __attribute__((visibility("default")))
SHOWN void headroom_safe_point_enter(void);
SHOWN void headroom_safe_point_leave(void);
SHOWN bool headroom_launch_gate_remove(void);
SHOWN bool headroom_plain_choose(const char *engine, const char *conf);
SHOWN void *headroom_plain_alloc(size_t size_bytes, int device, void *stream);
SHOWN void headroom_plain_free(void *address, size_t size_bytes, int device, void *stream);
SHOWN void headroom_plain_record_stream(void *address, void *stream);
SHOWN void *headroom_plain_base(void *address, size_t *size_bytes);
SHOWN void headroom_plain_empty_cache(void);
SHOWN void headroom_plain_set_fraction(double fraction, int device);

void headroom_safe_point_enter(void)
{
    fake_depth++;
    if (fake_depth > fake_deepest)
        fake_deepest = fake_depth;
}

void headroom_safe_point_leave(void)
{
    fake_depth--;
}

bool headroom_launch_gate_remove(void)
{
    fake_gates_removed++;
    return true;
}

bool headroom_plain_choose(const char *engine, const char *conf)
{
    strncpy(fake_engine, engine, sizeof fake_engine - 1);
    strncpy(fake_conf, conf != NULL ? conf : "", sizeof fake_conf - 1);
    return strcmp(fake_conf, "nonsense") != 0;
}

void *headroom_plain_alloc(size_t size_bytes, int device, void *stream)
{
    (void)size_bytes, (void)device, (void)stream;
    return NULL;
}

void headroom_plain_free(void *address, size_t size_bytes, int device, void *stream)
{
    (void)address, (void)size_bytes, (void)device, (void)stream;
}

void headroom_plain_record_stream(void *address, void *stream)
{
    (void)address, (void)stream;
}

void *headroom_plain_base(void *address, size_t *size_bytes)
{
    *size_bytes = 0;
    return address;
}

void headroom_plain_empty_cache(void)
{
}

void headroom_plain_set_fraction(double fraction, int device)
{
    (void)fraction, (void)device;
}
