/* test_arena.c - pieces that do not overlap, a limit that holds, and memory that comes back. */
#include "base/arena.h"

#include <stdalign.h>
#include <string.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

static void pieces_are_aligned_and_do_not_overlap(void **state)
{
    (void)state;
    enum { PIECE_COUNT = 3000 };
    static char *pieces[PIECE_COUNT];
    static size_t sizes[PIECE_COUNT];
    vw__arena arena;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    for (size_t i = 0; i < PIECE_COUNT; i++) {
        size_t alignment = (size_t)1 << i % 9;
        sizes[i] = i % 97 == 0 ? 70000 : i * 7 % 300; /* some too big for the usual chunk */
        pieces[i] = vw__arena_alloc(&arena, sizes[i], alignment);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % alignment, 0);
        memset(pieces[i], (int)(i % 251), sizes[i]);
    }
    for (size_t i = 0; i < PIECE_COUNT; i++) {
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal((unsigned char)pieces[i][j], i % 251);
    }
    vw__arena_deinit(&arena);
}

/* Alignments as large as a chunk: the padding alone may not fit, or a new chunk's start may be far
 * from a multiple; and pieces large enough to get a chunk to themselves. */
static void large_alignments_are_served_in_every_kind_of_chunk(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 4000, 1, 60000, 300, 2000000};
    for (size_t alignment = 512; alignment <= 65536; alignment *= 2) {
        vw__arena arena;
        vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
        for (size_t i = 0; i < 60; i++) {
            char *piece = vw__arena_alloc(&arena, sizes[i % 6], alignment);
            assert_non_null(piece);
            assert_int_equal((uintptr_t)piece % alignment, 0);
            memset(piece, 1, sizes[i % 6]);
            assert_non_null(vw__arena_alloc(&arena, 1, 1));
        }
        vw__arena_deinit(&arena);
    }
}

static void small_pieces_share_few_chunks(void **state)
{
    (void)state;
    vw__arena arena;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    uint64_t calls_before = vw__host_memory_get_use().call_count;
    for (int i = 0; i < 100000; i++)
        assert_non_null(vw__arena_alloc(&arena, 16, 8));
    assert_true(vw__host_memory_get_use().call_count - calls_before < 20);
    assert_true(arena.held_bytes < 2 * 100000 * 16 + 4096); /* at most half is unused */
    vw__arena_deinit(&arena);
}

static void a_big_piece_does_not_waste_the_chunk_in_use(void **state)
{
    (void)state;
    vw__arena arena;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    char *first = vw__arena_alloc(&arena, 16, 1);
    assert_non_null(vw__arena_alloc(&arena, 500000, 1));
    char *second = vw__arena_alloc(&arena, 16, 1);
    assert_ptr_equal(second, first + 16);
    vw__arena_deinit(&arena);
}

static void nothing_asked_for_is_still_a_piece_of_its_own(void **state)
{
    (void)state;
    vw__arena arena;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    void *first = vw__arena_alloc(&arena, 0, 1);
    void *second = vw__arena_alloc(&arena, 0, 1);
    assert_true(first != NULL && second != NULL && first != second);
    vw__arena_deinit(&arena);
}

static void arrays_are_zero_and_overflow_is_refused(void **state)
{
    (void)state;
    static const char zeros[1000];
    vw__arena arena;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    memset(vw__arena_alloc(&arena, 2000, 1), 0xFF, 2000);
    vw__arena_deinit(&arena); /* the same bytes may come again */
    char *array = vw__arena_alloc_array(&arena, 10, 100, alignof(uint64_t));
    assert_non_null(array);
    assert_memory_equal(array, zeros, 1000);
    assert_false(arena.has_hit_limit);
    assert_null(vw__arena_alloc_array(&arena, SIZE_MAX / 2 + 2, 2, 1));
    assert_true(arena.has_hit_limit);
    assert_null(vw__arena_alloc(&arena, SIZE_MAX, 16));
    assert_null(vw__arena_copy(&arena, "", SIZE_MAX));
    vw__arena_deinit(&arena);
}

static void a_copy_ends_in_a_zero(void **state)
{
    (void)state;
    vw__arena arena;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    assert_string_equal(vw__arena_copy(&arena, "words and more", 5), "words");
    assert_string_equal(vw__arena_copy(&arena, NULL, 0), "");
    vw__arena_deinit(&arena);
}

/* ---- the limit ------------------------------------------------------------------------------- */

static void no_more_than_the_limit_is_ever_held(void **state)
{
    (void)state;
    for (size_t limit = 0; limit < 40000; limit += 501) {
        uint64_t before = vw__host_memory_get_use().in_use_bytes;
        vw__arena arena;
        vw__arena_init(&arena, limit);
        size_t served_bytes = 0;
        while (vw__arena_alloc(&arena, 64, 1) != NULL) {
            served_bytes += 64;
            assert_true(arena.held_bytes <= limit);
        }
        assert_true(arena.has_hit_limit);
        assert_true(served_bytes <= limit);
        if (limit > 1000) /* and nearly all of it can be used */
            assert_true(served_bytes >= limit - limit / 5);
        vw__arena_deinit(&arena);
        assert_int_equal(vw__host_memory_get_use().in_use_bytes, before);
    }
}

static void a_piece_that_is_refused_changes_nothing(void **state)
{
    (void)state;
    vw__arena arena;
    vw__arena_init(&arena, 10000);
    char *first = vw__arena_alloc(&arena, 10, 1);
    assert_null(vw__arena_alloc(&arena, 9000, 1));
    assert_true(arena.has_hit_limit);
    assert_ptr_equal(vw__arena_alloc(&arena, 10, 1), first + 10);
    vw__arena_deinit(&arena);
}

static void a_host_without_memory_is_not_mistaken_for_the_limit(void **state)
{
    (void)state;
    vw__arena arena;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    vw__host_memory_fail_at(1);
    assert_null(vw__arena_alloc(&arena, 10, 1));
    assert_false(arena.has_hit_limit);
    assert_int_equal(arena.held_bytes, 0);
    assert_non_null(vw__arena_alloc(&arena, 10, 1));
    vw__arena_deinit(&arena);
}

/* ---- giving back ----------------------------------------------------------------------------- */

static void the_end_gives_every_chunk_back(void **state)
{
    (void)state;
    uint64_t before = vw__host_memory_get_use().in_use_bytes;
    vw__arena arena;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    for (int i = 0; i < 1000; i++)
        assert_non_null(vw__arena_alloc(&arena, 100, 8));
    assert_non_null(vw__arena_alloc(&arena, 300000, 8));
    vw__arena_deinit(&arena);
    assert_int_equal(arena.held_bytes, 0);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, before);
}

static void an_arena_without_memory_can_be_ended_twice(void **state)
{
    (void)state;
    vw__arena arena;
    vw__arena_init(&arena, 100);
    vw__arena_deinit(&arena);
    vw__arena_deinit(&arena);
    assert_int_equal(arena.limit_bytes, 100);
}

static bool fill_end_and_fill_again(void *context)
{
    (void)context;
    vw__arena arena;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    bool has_succeeded = true;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 1; i < 300; i++) {
            char *piece = vw__arena_alloc(&arena, i * 50, 64);
            if (piece == NULL)
                has_succeeded = false;
            else
                memset(piece, 1, i * 50);
        }
        vw__arena_deinit(&arena);
    }
    vw__arena_deinit(&arena);
    return has_succeeded;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(fill_end_and_fill_again, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_do_not_overlap),
        cmocka_unit_test(large_alignments_are_served_in_every_kind_of_chunk),
        cmocka_unit_test(small_pieces_share_few_chunks),
        cmocka_unit_test(a_big_piece_does_not_waste_the_chunk_in_use),
        cmocka_unit_test(nothing_asked_for_is_still_a_piece_of_its_own),
        cmocka_unit_test(arrays_are_zero_and_overflow_is_refused),
        cmocka_unit_test(a_copy_ends_in_a_zero),
        cmocka_unit_test(no_more_than_the_limit_is_ever_held),
        cmocka_unit_test(a_piece_that_is_refused_changes_nothing),
        cmocka_unit_test(a_host_without_memory_is_not_mistaken_for_the_limit),
        cmocka_unit_test(the_end_gives_every_chunk_back),
        cmocka_unit_test(an_arena_without_memory_can_be_ended_twice),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
