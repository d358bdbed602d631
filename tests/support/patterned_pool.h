/* patterned_pool.h - a pool that copies live data, with blocks whose bytes are known.
 *
 * On a device with bytes each block is filled with its own pattern, which is checked before the
 * block is freed and whenever a test asks; on the simulated device only the books are kept. The
 * safe point counts its calls, and runs a function of the test. */
#ifndef VW_TESTS_PATTERNED_POOL_H
#define VW_TESTS_PATTERNED_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/pool_fixture.h"

typedef struct vw_test_held {
    vw_device_ptr address;
    uint64_t size_bytes; /* as asked for */
    uint64_t seed;       /* of its pattern */
    vw_stream stream;
} vw_test_held;

typedef struct vw_test_patterns vw_test_patterns;

struct vw_test_patterns {
    vw_test_pool t;
    vw_test_held *held; /* in no order */
    size_t held_count;
    size_t held_capacity;
    uint64_t random; /* set by opening; a test may set it anew */
    uint64_t next_seed;
    bool has_bytes;
    /* A test may set it while it holds nothing: patterns only at both ends of blocks and of the
     * host device's granules. Untouched memory costs nothing, and a sweep repeats a scene thousands
     * of times. */
    bool is_sparse;

    /* The safe point. */
    bool refuses;     /* enter() says no */
    unsigned asked;   /* calls of enter() */
    unsigned entered; /* of those, true ones */
    unsigned left;
    void (*when_asked)(vw_test_patterns *p); /* called by enter(), or NULL */
};

/* As vw_test_pool_open(), with a safe point, unless the setup has one of its own. */
void vw_test_patterns_open(vw_test_patterns *p, const vw_test_pool_setup *setup);
/* The same without a safe point, whatever the setup has. */
void vw_test_patterns_open_unsafe(vw_test_patterns *p, const vw_test_pool_setup *setup);
/* Checks every byte, closes the pool, and checks that each true enter() had its leave(). */
void vw_test_patterns_close(vw_test_patterns *p);
/* Forgets what is held, after the test has ended pool and device itself. */
void vw_test_patterns_forget(vw_test_patterns *p);

uint64_t vw_test_random(vw_test_patterns *p);
/* As many small numbers as large ones: from `least` to about `most`. */
uint64_t vw_test_random_size(vw_test_patterns *p, uint64_t least, uint64_t most);

/* Takes a block and, on success, remembers and fills it. Does not check the pool. */
vw_status vw_test_try_to_hold(vw_test_patterns *p, uint64_t size_bytes, vw_stream stream,
                              vw_device_ptr *out);
/* The same, but it must succeed, and the pool is checked. */
vw_device_ptr vw_test_hold(vw_test_patterns *p, uint64_t size_bytes, vw_stream stream);
/* Looks at the block, then gives it back. */
void vw_test_let_go(vw_test_patterns *p, vw_device_ptr address);
void vw_test_let_go_at(vw_test_patterns *p, size_t index);

/* Every byte of every block. */
void vw_test_look_at_all(const vw_test_patterns *p);

vw_paged_stats vw_test_paged_stats(const vw_test_patterns *p);
uint64_t vw_test_reserved_bytes(const vw_test_patterns *p);
/* What is live, blocks that other streams still use included. */
uint64_t vw_test_live_bytes(const vw_test_patterns *p);

#endif /* VW_TESTS_PATTERNED_POOL_H */
