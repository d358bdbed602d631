/* patterned_pool.c - see patterned_pool.h. */
#include "support/patterned_pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

/* ---- the safe point -------------------------------------------------------------------------- */

static bool enter(void *context)
{
    vw_test_patterns *p = context;
    p->asked++;
    if (p->when_asked != NULL)
        p->when_asked(p);
    if (p->refuses)
        return false;
    p->entered++;
    return true;
}

static void leave(void *context)
{
    vw_test_patterns *p = context;
    p->left++;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void open_with(vw_test_patterns *p, const vw_test_pool_setup *setup, vw_safe_point moments)
{
    vw_test_pool_setup used = *setup;
    *p = (vw_test_patterns){.random = UINT64_C(0x9E3779B97F4A7C15), .next_seed = 1};
    used.safe_point = moments;
    vw_test_pool_open(&p->t, &used);
    p->has_bytes = p->t.device->properties.has_bytes;
}

void vw_test_patterns_open(vw_test_patterns *p, const vw_test_pool_setup *setup)
{
    open_with(p, setup,
              setup->safe_point.enter != NULL ? setup->safe_point
                                              : (vw_safe_point){enter, leave, p});
}

void vw_test_patterns_open_unsafe(vw_test_patterns *p, const vw_test_pool_setup *setup)
{
    open_with(p, setup, (vw_safe_point){.enter = NULL});
}

void vw_test_patterns_close(vw_test_patterns *p)
{
    vw_test_look_at_all(p);
    assert_int_equal(p->left, p->entered);
    vw_test_pool_close(&p->t);
    vw_test_patterns_forget(p);
}

void vw_test_patterns_forget(vw_test_patterns *p)
{
    free(p->held);
    p->held = NULL;
    p->held_count = p->held_capacity = 0;
}

/* ---- chance ---------------------------------------------------------------------------------- */

uint64_t vw_test_random(vw_test_patterns *p)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return p->random >> 8;
}

uint64_t vw_test_random_size(vw_test_patterns *p, uint64_t least, uint64_t most)
{
    uint64_t doublings = 0;
    while (least << (doublings + 1) <= most)
        doublings++;
    uint64_t base = least << vw_test_random(p) % (doublings + 1);
    uint64_t size_bytes = base + vw_test_random(p) % base;
    return size_bytes < most ? size_bytes : most;
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* A tile has the size of the smallest block. The tiles of a block differ only in their number at
 * the beginning, so that misplaced data is noticed, and memcpy() and memcmp() do most of the work.
 */
enum { TILE_BYTES = 512, UNIT_BYTES = 64 * VW_TEST_KIB };

static void make_tile(uint64_t seed, uint64_t tile[TILE_BYTES / 8])
{
    for (uint64_t i = 0; i < TILE_BYTES / 8; i++) {
        uint64_t word = ((seed << 8) + i) * UINT64_C(0xBF58476D1CE4E5B9);
        tile[i] = word ^ word >> 29;
    }
}

static uint64_t tile_bytes_at(const vw_test_held *block, uint64_t at)
{
    return block->size_bytes - at < TILE_BYTES ? block->size_bytes - at : TILE_BYTES;
}

static bool has_pattern(const vw_test_patterns *p, const vw_test_held *block, uint64_t at)
{
    uint64_t in_unit = (block->address + at) % UNIT_BYTES;
    return !p->is_sparse || at == 0 || block->size_bytes - at <= TILE_BYTES ||
           in_unit < TILE_BYTES || in_unit >= UNIT_BYTES - TILE_BYTES;
}

static void fill(const vw_test_patterns *p, const vw_test_held *block)
{
    uint64_t tile[TILE_BYTES / 8];
    make_tile(block->seed, tile);
    for (uint64_t at = 0; at < block->size_bytes; at += TILE_BYTES) {
        if (!has_pattern(p, block, at))
            continue;
        tile[0] = (block->seed << 32) + at;
        memcpy((uint8_t *)(uintptr_t)block->address + at, tile, tile_bytes_at(block, at));
    }
}

static void look_at(const vw_test_patterns *p, const vw_test_held *block)
{
    uint64_t tile[TILE_BYTES / 8];
    make_tile(block->seed, tile);
    for (uint64_t at = 0; at < block->size_bytes; at += TILE_BYTES) {
        if (!has_pattern(p, block, at))
            continue;
        tile[0] = (block->seed << 32) + at;
        if (memcmp((const uint8_t *)(uintptr_t)block->address + at, tile,
                   tile_bytes_at(block, at)) != 0)
            fail_msg("block %#" PRIx64 " of %" PRIu64 " bytes has lost its data at %" PRIu64,
                     block->address, block->size_bytes, at);
    }
}

void vw_test_look_at_all(const vw_test_patterns *p)
{
    for (size_t i = 0; i < p->held_count && p->has_bytes; i++)
        look_at(p, &p->held[i]);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

vw_status vw_test_try_to_hold(vw_test_patterns *p, uint64_t size_bytes, vw_stream stream,
                              vw_device_ptr *out)
{
    if (p->held_count == p->held_capacity) {
        p->held_capacity = p->held_capacity != 0 ? 2 * p->held_capacity : 64;
        p->held = realloc(p->held, p->held_capacity * sizeof *p->held);
        assert_non_null(p->held);
    }
    vw_device_ptr address = VW_NULL;
    vw_status status = vw_alloc(p->t.pool, size_bytes, stream, &address);
    if (status != VW_OK)
        return status;
    vw_test_held *block = &p->held[p->held_count++];
    *block = (vw_test_held){address, size_bytes, p->next_seed++, stream};
    if (p->has_bytes)
        fill(p, block);
    *out = address;
    return VW_OK;
}

vw_device_ptr vw_test_hold(vw_test_patterns *p, uint64_t size_bytes, vw_stream stream)
{
    vw_device_ptr address = VW_NULL;
    vw_test_ok(&p->t, vw_test_try_to_hold(p, size_bytes, stream, &address));
    return address;
}

void vw_test_let_go_at(vw_test_patterns *p, size_t index)
{
    assert_true(index < p->held_count);
    vw_test_held block = p->held[index];
    if (p->has_bytes)
        look_at(p, &block);
    p->held[index] = p->held[--p->held_count];
    assert_int_equal(vw_free(p->t.pool, block.address), VW_OK);
}

void vw_test_let_go(vw_test_patterns *p, vw_device_ptr address)
{
    size_t index = 0;
    while (index < p->held_count && p->held[index].address != address)
        index++;
    vw_test_let_go_at(p, index);
    vw_test_ok(&p->t, VW_OK);
}

/* ---- numbers --------------------------------------------------------------------------------- */

vw_paged_stats vw_test_paged_stats(const vw_test_patterns *p)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(p->t.pool, &stats), VW_OK);
    return stats;
}

uint64_t vw_test_reserved_bytes(const vw_test_patterns *p)
{
    return (uint64_t)vw_test_stats(&p->t).reserved_bytes.all.current;
}

uint64_t vw_test_live_bytes(const vw_test_patterns *p)
{
    return (uint64_t)vw_test_stats(&p->t).active_bytes.all.current;
}
