/* pool_layout.h - how a pool's blocks lie, said in one statement; for tests of allocator rules.
 *
 * A rule of an allocator is a sentence about where blocks are, how large, and what their records
 * remember. These helpers say all of it at once, for the whole pool: a block that is not named is a
 * failure, too. They go with pool_fixture.h, and fail at the caller's line. */
#ifndef HR_TESTS_POOL_LAYOUT_H
#define HR_TESTS_POOL_LAYOUT_H

#include "support/pool_fixture.h"

/* One block; HR_TEST_ANY matches every size and every request. */
typedef struct hr_test_block {
    hr_block_state state;
    hr_device_ptr address;
    uint64_t size_bytes;
    uint64_t requested_bytes; /* of a free block: what its record remembers */
} hr_test_block;

#define HR_TEST_LIVE(address, size_bytes)                                                          \
    {                                                                                              \
        HR_BLOCK_LIVE, (address), (size_bytes), HR_TEST_ANY                                        \
    }
#define HR_TEST_FREE(address, size_bytes)                                                          \
    {                                                                                              \
        HR_BLOCK_FREE, (address), (size_bytes), HR_TEST_ANY                                        \
    }
#define HR_TEST_LIVE_ASKED(address, size_bytes, requested_bytes)                                   \
    {                                                                                              \
        HR_BLOCK_LIVE, (address), (size_bytes), (requested_bytes)                                  \
    }
#define HR_TEST_FREE_ASKED(address, size_bytes, requested_bytes)                                   \
    {                                                                                              \
        HR_BLOCK_FREE, (address), (size_bytes), (requested_bytes)                                  \
    }
#define HR_TEST_PENDING(address, size_bytes)                                                       \
    {                                                                                              \
        HR_BLOCK_PENDING_FREE, (address), (size_bytes), HR_TEST_ANY                                \
    }

/* All blocks of the pool, by rising address. */
#define hr_test_expect_blocks(test, ...)                                                           \
    hr_test_compare_blocks_here(                                                                   \
        test, (const hr_test_block[]){__VA_ARGS__},                                                \
        sizeof((const hr_test_block[]){__VA_ARGS__}) / sizeof(hr_test_block), __FILE__, __LINE__)
#define hr_test_expect_no_blocks(test)                                                             \
    hr_test_compare_blocks_here(test, NULL, 0, __FILE__, __LINE__)

/* A statistic, in the order of the reference: current, peak, allocated, freed. */
#define hr_test_expect_stat(stat, current, peak, allocated, freed)                                 \
    hr_test_compare_stat_here(stat, current, peak, allocated, freed, #stat, __FILE__, __LINE__)

/* The next segment or reservation of a simulated device begins at `address`. */
void hr_test_dictate(hr_test_pool *test, hr_device_ptr address);

/* A request with a tag; and the size of the block that serves one, where the address is of no
 * interest. */
hr_device_ptr hr_test_alloc_tagged(hr_test_pool *test, uint64_t size_bytes, uint64_t tag);
uint64_t hr_test_served_bytes(hr_test_pool *test, uint64_t size_bytes);

/* What hr_pool_walk() says about the segment, or mapped range, that begins at `address`. */
hr_segment_info hr_test_segment_at(const hr_test_pool *test, hr_device_ptr address);

/* How often the device was asked, in one kind of call. */
uint64_t hr_test_call_count(const hr_test_pool *test, hr_device_call kind);

/* Opens a pool with options and version only, on 1 GiB. */
void hr_test_pool_open_with(hr_test_pool *test, const char *torch_version, const char *conf);

/* What the macros above call. */
void hr_test_compare_blocks_here(const hr_test_pool *test, const hr_test_block *expected,
                                 size_t count, const char *file, int line);
void hr_test_compare_stat_here(hr_stat found, int64_t current, int64_t peak, int64_t allocated,
                               int64_t freed, const char *name, const char *file, int line);

#endif /* HR_TESTS_POOL_LAYOUT_H */
