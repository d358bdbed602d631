/* test_host_memory.c - the door counts what goes through, and shuts when told; and the sweep that
 * every other test relies on sees what it is there to see. */
#include "base/host_memory.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

static uint64_t in_use_bytes(void)
{
    return vw__host_memory_get_use().in_use_bytes;
}

static void what_is_taken_is_counted_until_it_is_freed(void **state)
{
    (void)state;
    vw__host_memory_use before = vw__host_memory_get_use();
    void *plain = vw__host_alloc(1000);
    void *zeroed = vw__host_alloc_zeroed(10, 100);
    void *aligned = vw__host_alloc_aligned(4096, 1000);
    vw__host_memory_use after = vw__host_memory_get_use();
    assert_true(plain != NULL && zeroed != NULL && aligned != NULL);
    assert_true(after.in_use_bytes >= before.in_use_bytes + 3000);
    assert_int_equal(after.call_count, before.call_count + 3);
    vw__host_free(plain);
    vw__host_free(zeroed);
    vw__host_free(aligned);
    vw__host_free(NULL);
    assert_int_equal(in_use_bytes(), before.in_use_bytes);
}

static void zeroed_memory_is_zero_and_aligned_memory_aligned(void **state)
{
    (void)state;
    static const char zeros[1000];
    char *zeroed = vw__host_alloc_zeroed(10, 100);
    assert_non_null(zeroed);
    assert_memory_equal(zeroed, zeros, 1000);
    vw__host_free(zeroed);
    for (size_t alignment = sizeof(void *); alignment <= 65536; alignment *= 2) {
        void *aligned = vw__host_alloc_aligned(alignment, 1);
        assert_non_null(aligned);
        assert_int_equal((uintptr_t)aligned % alignment, 0);
        vw__host_free(aligned);
    }
}

static void nothing_asked_for_is_still_an_address(void **state)
{
    (void)state;
    void *pieces[] = {vw__host_alloc(0), vw__host_alloc_zeroed(0, 8), vw__host_alloc_zeroed(8, 0),
                      vw__host_alloc_aligned(64, 0), vw__host_realloc(NULL, 0)};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        assert_non_null(pieces[i]);
        vw__host_free(pieces[i]);
    }
}

static void a_product_that_overflows_is_refused(void **state)
{
    (void)state;
    volatile size_t half = SIZE_MAX / 2 + 2; /* volatile: the compiler would see it coming */
    uint64_t before = in_use_bytes();
    assert_null(vw__host_alloc_zeroed(half, 2));
    assert_int_equal(in_use_bytes(), before);
}

static void reallocating_keeps_the_bytes_and_the_count(void **state)
{
    (void)state;
    uint64_t before = in_use_bytes();
    char *text = vw__host_realloc(NULL, 6);
    assert_non_null(text);
    memcpy(text, "bytes", 6);
    char *grown = vw__host_realloc(text, 100000);
    assert_non_null(grown);
    assert_string_equal(grown, "bytes");
    assert_true(in_use_bytes() >= before + 100000);
    char *shrunk = vw__host_realloc(grown, 6);
    assert_non_null(shrunk);
    assert_string_equal(shrunk, "bytes");
    vw__host_free(shrunk);
    assert_int_equal(in_use_bytes(), before);
}

static void an_ordered_failure_strikes_once_at_the_nth_call(void **state)
{
    (void)state;
    vw__host_memory_fail_at(3);
    void *first = vw__host_alloc(8);
    void *second = vw__host_alloc_zeroed(1, 8);
    assert_null(vw__host_alloc_aligned(64, 8));
    void *fourth = vw__host_alloc(8);
    assert_true(first != NULL && second != NULL && fourth != NULL);
    vw__host_free(first);
    vw__host_free(second);
    vw__host_free(fourth);
}

static void a_failed_reallocation_leaves_the_old_memory(void **state)
{
    (void)state;
    char *text = vw__host_alloc(6);
    assert_non_null(text);
    memcpy(text, "bytes", 6);
    uint64_t before = in_use_bytes();
    vw__host_memory_fail_at(1);
    assert_null(vw__host_realloc(text, 100000));
    assert_string_equal(text, "bytes");
    assert_int_equal(in_use_bytes(), before);
    vw__host_free(text);
}

static void an_ordered_failure_can_be_taken_back(void **state)
{
    (void)state;
    vw__host_memory_fail_at(1);
    vw__host_memory_fail_at(0);
    void *memory = vw__host_alloc(8);
    assert_non_null(memory);
    vw__host_free(memory);
}

/* ---- the sweep ------------------------------------------------------------------------------- */

static unsigned run_count;

static bool takes_three_and_cleans_up(void *context)
{
    (void)context;
    run_count++;
    void *pieces[3];
    bool has_succeeded = true;
    for (int i = 0; i < 3; i++) {
        pieces[i] = vw__host_alloc(8);
        has_succeeded = has_succeeded && pieces[i] != NULL;
    }
    for (int i = 0; i < 3; i++)
        vw__host_free(pieces[i]);
    return has_succeeded;
}

static void *leaked[8];
static size_t leaked_count;

static bool leaks_when_its_second_allocation_fails(void *context)
{
    (void)context;
    void *first = vw__host_alloc(8);
    void *second = first != NULL ? vw__host_alloc(8) : NULL;
    if (first != NULL && second == NULL) {
        assert_true(leaked_count < sizeof leaked / sizeof *leaked);
        leaked[leaked_count++] = first;
        return false;
    }
    vw__host_free(first);
    vw__host_free(second);
    return first != NULL;
}

static bool never_succeeds(void *context)
{
    (void)context;
    vw__host_free(vw__host_alloc(8));
    return false;
}

static bool takes_nothing(void *context)
{
    (void)context;
    return true;
}

static bool goes_on_until_it_fails(void *context)
{
    (void)context;
    for (void *piece; (piece = vw__host_alloc(8)) != NULL;)
        vw__host_free(piece);
    return false;
}

static void a_sweep_fails_each_allocation_in_turn(void **state)
{
    (void)state;
    run_count = 0;
    vw_test_sweep_host_memory(takes_three_and_cleans_up, NULL);
    assert_int_equal(run_count, 4);
}

static void a_sweep_complains_about(vw_test_scenario scenario, const char *what)
{
    char complaint[160] = "nothing";
    assert_true(vw_test_find_host_memory_fault(scenario, NULL, 100, complaint, sizeof complaint));
    if (strstr(complaint, what) == NULL)
        fail_msg("\"%s\" was to be about \"%s\"", complaint, what);
}

static void a_sweep_sees_leaks_failures_idleness_and_endlessness(void **state)
{
    (void)state;
    a_sweep_complains_about(leaks_when_its_second_allocation_fails, "allocation 2 failing");
    while (leaked_count > 0)
        vw__host_free(leaked[--leaked_count]);
    a_sweep_complains_about(never_succeeds, "without any failed allocation");
    a_sweep_complains_about(takes_nothing, "takes no host memory");
    a_sweep_complains_about(goes_on_until_it_fails, "no run without a failure in 100");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken_is_counted_until_it_is_freed),
        cmocka_unit_test(zeroed_memory_is_zero_and_aligned_memory_aligned),
        cmocka_unit_test(nothing_asked_for_is_still_an_address),
        cmocka_unit_test(a_product_that_overflows_is_refused),
        cmocka_unit_test(reallocating_keeps_the_bytes_and_the_count),
        cmocka_unit_test(an_ordered_failure_strikes_once_at_the_nth_call),
        cmocka_unit_test(a_failed_reallocation_leaves_the_old_memory),
        cmocka_unit_test(an_ordered_failure_can_be_taken_back),
        cmocka_unit_test(a_sweep_fails_each_allocation_in_turn),
        cmocka_unit_test(a_sweep_sees_leaks_failures_idleness_and_endlessness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
