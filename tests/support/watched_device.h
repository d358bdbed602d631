/* watched_device.h - a device that keeps books of its own: what it gave, and what it refused to
 * take back.
 *
 * For random programs under random failures. At the end of a pool, whatever is still held must be
 * something that the device itself refused when it was last asked to take it back: memory whose
 * release failed, or that is mapped where an unmap failed. One at a time; one thread. */
#ifndef VW_TESTS_WATCHED_DEVICE_H
#define VW_TESTS_WATCHED_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/device.h"

/* Plain memory, or a handle. */
typedef struct vw_test_held {
    uint64_t name; /* address or handle */
    uint64_t size_bytes;
    bool is_handle;
    bool is_on_host;
    bool is_released; /* the pool's reference is gone: it lives while it is mapped */
    bool was_refused; /* the last release or give_back */
} vw_test_held;

typedef struct vw_test_mapping {
    vw_device_ptr address;
    uint64_t size_bytes;
    vw_handle handle;
    bool was_refused; /* the last unmap */
} vw_test_mapping;

typedef struct vw_test_watched {
    vw_device *real;
    vw_device device; /* for the pool: the real one with our functions in front */
    vw_device_table table;
    vw_test_held *held;
    size_t held_count, held_capacity;
    vw_test_mapping *mappings;
    size_t mapping_count, mapping_capacity;
    uint64_t refusal_count; /* calls of any kind in the books that failed */
} vw_test_watched;

/* `real` is the watcher's until vw_test_watched_close(). */
void vw_test_watched_open(vw_test_watched *watched, vw_device *real);
void vw_test_watched_close(vw_test_watched *watched);

/* Before the pool's end: only what is refused from now on excuses plain memory and mappings. A
 * handle whose release failed stays excused: releasing is asked once. */
void vw_test_watched_begin_end(vw_test_watched *watched);

/* After the pool's end. Returns what is held although nobody refused it, as a sentence in `fault`;
 * false: nothing. */
bool vw_test_watched_has_leak(const vw_test_watched *watched, char *fault, size_t fault_bytes);

#endif /* VW_TESTS_WATCHED_DEVICE_H */
