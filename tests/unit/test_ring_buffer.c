/* test_ring_buffer.c - the newest records, in order, however many there were. */
#include "base/ring_buffer.h"

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

typedef struct record {
    uint64_t number;
    char letter;
} record;

static bool push(vw__ring_buffer *ring, uint64_t number)
{
    record pushed = {.number = number, .letter = (char)('a' + number % 26)};
    return vw__ring_buffer_push(ring, &pushed);
}

/* The ring holds the `count` records that end before `end`, oldest first. */
static void check_holds(const vw__ring_buffer *ring, uint64_t end, size_t count)
{
    assert_int_equal(vw__ring_buffer_count(ring), count);
    for (size_t i = 0; i < count; i++) {
        const record *kept = vw__ring_buffer_at(ring, i);
        assert_int_equal(kept->number, end - count + i);
        assert_int_equal(kept->letter, 'a' + kept->number % 26);
    }
}

static void the_newest_are_kept_in_order_at_every_bound(void **state)
{
    (void)state;
    static const size_t bounds[] = {1, 2, 3, 63, 64, 65, 100, 128, 129, 300};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        vw__ring_buffer ring;
        vw__ring_buffer_init(&ring, sizeof(record), bounds[i]);
        for (uint64_t pushed = 0; pushed < 3 * bounds[i] + 2; pushed++) {
            size_t kept = pushed < bounds[i] ? (size_t)pushed : bounds[i];
            check_holds(&ring, pushed, kept);
            assert_int_equal(vw__ring_buffer_dropped_count(&ring), pushed - kept);
            assert_true(push(&ring, pushed));
        }
        vw__ring_buffer_deinit(&ring);
    }
}

static void a_ring_with_few_records_takes_little_memory(void **state)
{
    (void)state;
    uint64_t before = vw__host_memory_get_use().in_use_bytes;
    vw__ring_buffer ring;
    vw__ring_buffer_init(&ring, sizeof(record), SIZE_MAX);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, before);
    for (uint64_t i = 0; i < 1000; i++)
        assert_true(push(&ring, i));
    assert_true(vw__host_memory_get_use().in_use_bytes - before < 2100 * sizeof(record));
    check_holds(&ring, 1000, 1000);
    vw__ring_buffer_deinit(&ring);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, before);
}

static void a_full_ring_takes_no_more_memory(void **state)
{
    (void)state;
    vw__ring_buffer ring;
    vw__ring_buffer_init(&ring, sizeof(record), 100);
    for (uint64_t i = 0; i < 100; i++)
        assert_true(push(&ring, i));
    uint64_t calls_before = vw__host_memory_get_use().call_count;
    for (uint64_t i = 100; i < 1000; i++)
        assert_true(push(&ring, i));
    assert_int_equal(vw__host_memory_get_use().call_count, calls_before);
    vw__ring_buffer_deinit(&ring);
}

static void what_was_reserved_needs_no_memory_later(void **state)
{
    (void)state;
    vw__ring_buffer ring;
    vw__ring_buffer_init(&ring, sizeof(record), 1000);
    assert_true(push(&ring, 0));
    assert_true(vw__ring_buffer_reserve(&ring, 500));
    uint64_t calls_before = vw__host_memory_get_use().call_count;
    assert_true(vw__ring_buffer_reserve(&ring, 10)); /* there is that much already */
    for (uint64_t i = 1; i < 500; i++)
        assert_true(push(&ring, i));
    assert_int_equal(vw__host_memory_get_use().call_count, calls_before);
    check_holds(&ring, 500, 500);
    assert_true(vw__ring_buffer_reserve(&ring, SIZE_MAX)); /* the bound, no more */
    assert_int_equal(ring.capacity, 1000);
    vw__ring_buffer_deinit(&ring);
}

static void a_size_that_overflows_is_refused(void **state)
{
    (void)state;
    vw__ring_buffer ring;
    vw__ring_buffer_init(&ring, sizeof(record), SIZE_MAX);
    assert_false(vw__ring_buffer_reserve(&ring, SIZE_MAX / 2));
    assert_true(push(&ring, 0));
    check_holds(&ring, 1, 1);
    vw__ring_buffer_deinit(&ring);
}

static void clearing_forgets_records_and_drops_but_keeps_the_memory(void **state)
{
    (void)state;
    vw__ring_buffer ring;
    vw__ring_buffer_init(&ring, sizeof(record), 10);
    for (uint64_t i = 0; i < 25; i++)
        assert_true(push(&ring, i));
    vw__ring_buffer_clear(&ring);
    assert_int_equal(vw__ring_buffer_count(&ring), 0);
    assert_int_equal(vw__ring_buffer_dropped_count(&ring), 0);
    uint64_t calls_before = vw__host_memory_get_use().call_count;
    for (uint64_t i = 0; i < 7; i++)
        assert_true(push(&ring, i));
    check_holds(&ring, 7, 7);
    assert_int_equal(vw__host_memory_get_use().call_count, calls_before);
    vw__ring_buffer_deinit(&ring);
}

/* ---- without host memory --------------------------------------------------------------------- */

static void a_ring_without_any_memory_refuses(void **state)
{
    (void)state;
    vw__ring_buffer ring;
    vw__ring_buffer_init(&ring, sizeof(record), 10);
    vw__host_memory_fail_at(1);
    assert_false(push(&ring, 0));
    check_holds(&ring, 0, 0);
    assert_int_equal(vw__ring_buffer_dropped_count(&ring), 0);
    assert_true(push(&ring, 0));
    check_holds(&ring, 1, 1);
    vw__ring_buffer_deinit(&ring);
}

/* It has then wrapped, and growth must put the records in order again. */
static void a_ring_that_cannot_grow_drops_the_oldest_and_grows_later(void **state)
{
    (void)state;
    vw__ring_buffer ring;
    vw__ring_buffer_init(&ring, sizeof(record), 1000);
    uint64_t pushed = 0;
    while (pushed < 64)
        assert_true(push(&ring, pushed++));
    for (int i = 0; i < 5; i++) {
        vw__host_memory_fail_at(1);
        assert_true(push(&ring, pushed++));
    }
    check_holds(&ring, 69, 64);
    assert_int_equal(vw__ring_buffer_dropped_count(&ring), 5);
    while (pushed < 200)
        assert_true(push(&ring, pushed++));
    check_holds(&ring, 200, 195);
    assert_int_equal(vw__ring_buffer_dropped_count(&ring), 5);
    vw__ring_buffer_deinit(&ring);
}

static bool push_many(void *context)
{
    (void)context;
    vw__ring_buffer ring;
    vw__ring_buffer_init(&ring, sizeof(record), 500);
    uint64_t pushed = 0;
    bool has_succeeded = true;
    for (uint64_t i = 0; i < 1200; i++) {
        if (push(&ring, pushed))
            pushed++;
        else
            has_succeeded = false;
    }
    assert_int_equal(vw__ring_buffer_count(&ring) + vw__ring_buffer_dropped_count(&ring), pushed);
    check_holds(&ring, pushed, 500);
    vw__ring_buffer_deinit(&ring);
    return has_succeeded;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(push_many, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_are_kept_in_order_at_every_bound),
        cmocka_unit_test(a_ring_with_few_records_takes_little_memory),
        cmocka_unit_test(a_full_ring_takes_no_more_memory),
        cmocka_unit_test(what_was_reserved_needs_no_memory_later),
        cmocka_unit_test(a_size_that_overflows_is_refused),
        cmocka_unit_test(clearing_forgets_records_and_drops_but_keeps_the_memory),
        cmocka_unit_test(a_ring_without_any_memory_refuses),
        cmocka_unit_test(a_ring_that_cannot_grow_drops_the_oldest_and_grows_later),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
