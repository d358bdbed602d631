/* pool_layout.h - compares all blocks of a pool in one statement, for tests of allocator rules.
 *
 * A rule of an allocator says where blocks are, how large, and what their records contain. These
 * helpers compare all of that for the whole pool: a block that is not named is a failure, too. They
 * belong to pool_fixture.h, and fail at the caller's line. */
#ifndef VW_TESTS_POOL_LAYOUT_H
#define VW_TESTS_POOL_LAYOUT_H

#include "support/pool_fixture.h"

/* One block; VW_TEST_ANY matches every size and every request. */
typedef struct vw_test_block {
    vw_block_state state;
    vw_device_ptr address;
    uint64_t size_bytes;
    uint64_t requested_bytes; /* of a free block: what its record remembers */
} vw_test_block;

#define VW_TEST_LIVE(address, size_bytes)                                                          \
    {                                                                                              \
        VW_BLOCK_LIVE, (address), (size_bytes), VW_TEST_ANY                                        \
    }
#define VW_TEST_FREE(address, size_bytes)                                                          \
    {                                                                                              \
        VW_BLOCK_FREE, (address), (size_bytes), VW_TEST_ANY                                        \
    }
#define VW_TEST_LIVE_ASKED(address, size_bytes, requested_bytes)                                   \
    {                                                                                              \
        VW_BLOCK_LIVE, (address), (size_bytes), (requested_bytes)                                  \
    }
#define VW_TEST_FREE_ASKED(address, size_bytes, requested_bytes)                                   \
    {                                                                                              \
        VW_BLOCK_FREE, (address), (size_bytes), (requested_bytes)                                  \
    }
#define VW_TEST_PENDING(address, size_bytes)                                                       \
    {                                                                                              \
        VW_BLOCK_PENDING_FREE, (address), (size_bytes), VW_TEST_ANY                                \
    }

/* All blocks of the pool, by rising address. */
#define vw_test_expect_blocks(test, ...)                                                           \
    vw_test_compare_blocks_here(                                                                   \
        test, (const vw_test_block[]){__VA_ARGS__},                                                \
        sizeof((const vw_test_block[]){__VA_ARGS__}) / sizeof(vw_test_block), __FILE__, __LINE__)
#define vw_test_expect_no_blocks(test)                                                             \
    vw_test_compare_blocks_here(test, NULL, 0, __FILE__, __LINE__)

/* A statistic, in the order of the reference: current, peak, allocated, freed. */
#define vw_test_expect_stat(stat, current, peak, allocated, freed)                                 \
    vw_test_compare_stat_here(stat, current, peak, allocated, freed, #stat, __FILE__, __LINE__)

/* The next segment or reservation of a simulated device begins at `address`. */
void vw_test_dictate(vw_test_pool *test, vw_device_ptr address);

/* A request with a tag; and the size of the block that serves one, if the address does not matter.
 */
vw_device_ptr vw_test_alloc_tagged(vw_test_pool *test, uint64_t size_bytes, uint64_t tag);
uint64_t vw_test_served_bytes(vw_test_pool *test, uint64_t size_bytes);

/* What vw_pool_walk() says about the segment, or mapped range, that begins at `address`. */
vw_segment_info vw_test_segment_at(const vw_test_pool *test, vw_device_ptr address);

/* How often the device was asked, in one kind of call. */
uint64_t vw_test_call_count(const vw_test_pool *test, vw_device_call kind);

/* Opens a pool with options and version only, on 1 GiB. */
void vw_test_pool_open_with(vw_test_pool *test, const char *torch_version, const char *conf);

/* What the macros above call. */
void vw_test_compare_blocks_here(const vw_test_pool *test, const vw_test_block *expected,
                                 size_t count, const char *file, int line);
void vw_test_compare_stat_here(vw_stat found, int64_t current, int64_t peak, int64_t allocated,
                               int64_t freed, const char *name, const char *file, int line);

#endif /* VW_TESTS_POOL_LAYOUT_H */
