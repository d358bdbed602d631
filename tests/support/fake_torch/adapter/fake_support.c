/* fake_support.c - libvramwise-torch without an allocator: counts, and says yes. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

__attribute__((visibility("default"))) int fake_depth, fake_deepest, fake_gates_removed;
__attribute__((visibility("default"))) int fake_gate_state, fake_late_gates;
__attribute__((visibility("default"))) char fake_engine[64], fake_conf[64];

#define SHOWN __attribute__((visibility("default")))
SHOWN void vramwise_end_holds(void);
SHOWN void vramwise_safe_point_enter(void);
SHOWN void vramwise_safe_point_leave(void);
SHOWN bool vramwise_launch_gate_remove(void);
SHOWN void vramwise_launch_gate_come_late(bool is_quiet);
SHOWN int vramwise_get_launch_gate_state(char *reason, size_t capacity);
SHOWN const char *vramwise_launch_gate_state_name(int state);
SHOWN bool vramwise_plain_choose(const char *engine, const char *conf);
SHOWN void *vramwise_plain_alloc(size_t size_bytes, int device, void *stream);
SHOWN void vramwise_plain_free(void *address, size_t size_bytes, int device, void *stream);
SHOWN void vramwise_plain_record_stream(void *address, void *stream);
SHOWN void *vramwise_plain_base(void *address, size_t *size_bytes);
SHOWN void vramwise_plain_empty_cache(void);
SHOWN void vramwise_plain_set_fraction(double fraction, int device);

void vramwise_end_holds(void)
{
}

void vramwise_safe_point_enter(void)
{
    fake_depth++;
    if (fake_depth > fake_deepest)
        fake_deepest = fake_depth;
}

void vramwise_safe_point_leave(void)
{
    fake_depth--;
}

bool vramwise_launch_gate_remove(void)
{
    fake_gates_removed++;
    return true;
}

void vramwise_launch_gate_come_late(bool is_quiet)
{
    (void)is_quiet;
    fake_late_gates++;
}

int vramwise_get_launch_gate_state(char *reason, size_t capacity)
{
    strncpy(reason, fake_gate_state == 4 ? "another tool has CUPTI" : "", capacity);
    return fake_gate_state;
}

const char *vramwise_launch_gate_state_name(int state)
{
    static const char *const names[] = {"off", "waits", "arming", "armed", "refused"};
    return names[state];
}

bool vramwise_plain_choose(const char *engine, const char *conf)
{
    strncpy(fake_engine, engine, sizeof fake_engine - 1);
    strncpy(fake_conf, conf != NULL ? conf : "", sizeof fake_conf - 1);
    return strcmp(fake_conf, "nonsense") != 0;
}

void *vramwise_plain_alloc(size_t size_bytes, int device, void *stream)
{
    (void)size_bytes, (void)device, (void)stream;
    return NULL;
}

void vramwise_plain_free(void *address, size_t size_bytes, int device, void *stream)
{
    (void)address, (void)size_bytes, (void)device, (void)stream;
}

void vramwise_plain_record_stream(void *address, void *stream)
{
    (void)address, (void)stream;
}

void *vramwise_plain_base(void *address, size_t *size_bytes)
{
    *size_bytes = 0;
    return address;
}

void vramwise_plain_empty_cache(void)
{
}

void vramwise_plain_set_fraction(double fraction, int device)
{
    (void)fraction, (void)device;
}
