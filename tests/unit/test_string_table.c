/* test_string_table.c - equal strings have equal ids, and the limits hold. */
#include "base/string_table.h"

#include <stdio.h>
#include <string.h>

#include "base/host_memory.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

static vw__arena arena;
static vw__string_table table;

static int set_up(void **state)
{
    (void)state;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    vw__string_table_init(&table, &arena, UINT32_MAX, SIZE_MAX);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    vw__arena_deinit(&arena);
    return 0;
}

static uint32_t id_of(const char *text)
{
    uint32_t id = UINT32_MAX;
    assert_true(vw__string_table_add(&table, text, strlen(text), &id));
    return id;
}

static bool is_refused(const char *text)
{
    uint32_t id = 77;
    bool was_added = vw__string_table_add(&table, text, strlen(text), &id);
    assert_true(was_added || id == 77);
    return !was_added;
}

static void ids_count_up_and_equal_strings_share_one(void **state)
{
    (void)state;
    assert_int_equal(id_of("train.py"), 0);
    assert_int_equal(id_of("forward"), 1);
    assert_int_equal(id_of("train.py"), 0);
    assert_int_equal(id_of("train.p"), 2);
    assert_int_equal(id_of(""), 3);
    assert_int_equal(id_of(""), 3);
    assert_int_equal(vw__string_table_count(&table), 4);
    vw__string name = vw__string_table_get(&table, 1);
    assert_int_equal(name.size_bytes, 7);
    assert_string_equal(name.bytes, "forward");
    assert_int_equal(vw__string_table_get(&table, 3).size_bytes, 0);
}

static void strings_are_any_bytes(void **state)
{
    (void)state;
    static const char *const strings[] = {"\0",   "\0\0",     "a\0",   "a\0b",
                                          "a\0c", "\xff\xfe", "a\0b\0"};
    static const size_t sizes[] = {1, 2, 2, 3, 3, 2, 4};
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 7; i++) {
            uint32_t id = 77;
            assert_true(vw__string_table_add(&table, strings[i], sizes[i], &id));
            assert_int_equal(id, i);
            vw__string kept = vw__string_table_get(&table, id);
            assert_int_equal(kept.size_bytes, sizes[i]);
            assert_memory_equal(kept.bytes, strings[i], sizes[i]);
            assert_int_equal(kept.bytes[kept.size_bytes], 0);
        }
    }
    uint32_t id = 77;
    assert_true(vw__string_table_add(&table, NULL, 0, &id));
    assert_int_equal(id, 7);
}

static void thousands_of_strings_keep_their_ids_and_addresses(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static const char *places[COUNT];
    char text[64];
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(text, sizeof text, "torch/nn/modules/module_%u.py", i);
        assert_int_equal(id_of(text), i);
        places[i] = vw__string_table_get(&table, i).bytes;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(text, sizeof text, "torch/nn/modules/module_%u.py", i);
        assert_int_equal(id_of(text), i);
        assert_ptr_equal(vw__string_table_get(&table, i).bytes, places[i]);
        assert_string_equal(places[i], text);
    }
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void no_more_strings_than_the_limit(void **state)
{
    (void)state;
    vw__string_table_init(&table, &arena, 2, SIZE_MAX);
    assert_int_equal(id_of("one"), 0);
    assert_int_equal(id_of("two"), 1);
    assert_false(table.has_hit_limit);
    assert_true(is_refused("three"));
    assert_true(table.has_hit_limit);
    assert_int_equal(id_of("one"), 0); /* what is there is still served */
    assert_int_equal(vw__string_table_count(&table), 2);
}

static void no_more_bytes_than_the_limit(void **state)
{
    (void)state;
    vw__string_table_init(&table, &arena, UINT32_MAX, 10);
    assert_int_equal(id_of("123456"), 0);
    assert_true(is_refused("12345"));
    assert_int_equal(id_of("1234"), 1);
    assert_int_equal(id_of(""), 2);
    assert_true(is_refused("1"));
    assert_int_equal(id_of("123456"), 0);
}

static void the_limit_of_the_arena_holds_too(void **state)
{
    (void)state;
    vw__arena small;
    vw__arena_init(&small, 8000);
    vw__string_table_init(&table, &small, UINT32_MAX, SIZE_MAX);
    char text[32];
    uint32_t added = 0, id = 77;
    for (; added < 10000; added++) {
        snprintf(text, sizeof text, "string %u", added);
        if (!vw__string_table_add(&table, text, strlen(text), &id))
            break;
    }
    assert_in_range(added, 64, 300);
    assert_true(table.has_hit_limit);
    for (uint32_t i = 0; i < added; i++) {
        snprintf(text, sizeof text, "string %u", i);
        assert_int_equal(id_of(text), i);
    }
    vw__arena_deinit(&small);
}

static void a_string_refused_for_want_of_memory_can_come_again(void **state)
{
    (void)state;
    /* The first allocation is for the table's arrays; the second, for a long string. */
    static char long_text[100000];
    memset(long_text, 'x', sizeof long_text - 1);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        vw__host_memory_fail_at(nth);
        assert_true(is_refused(long_text));
        vw__host_memory_fail_at(0);
        assert_false(table.has_hit_limit);
        assert_int_equal(vw__string_table_count(&table), 0);
    }
    assert_int_equal(id_of(long_text), 0);
    assert_int_equal(id_of(long_text), 0);
    assert_int_equal(vw__string_table_count(&table), 1);
}

static bool add_many(void *context)
{
    (void)context;
    vw__arena own;
    vw__string_table many;
    vw__arena_init(&own, VW__ARENA_NO_LIMIT);
    vw__string_table_init(&many, &own, UINT32_MAX, SIZE_MAX);
    bool has_succeeded = true;
    for (unsigned i = 0; i < 1500; i++) {
        char text[32];
        uint32_t first = 77, second = 78, count = vw__string_table_count(&many);
        int size = snprintf(text, sizeof text, "function_%u", i % 1000);
        if (!vw__string_table_add(&many, text, (size_t)size, &first)) {
            has_succeeded = false;
            assert_int_equal(vw__string_table_count(&many), count);
        } else {
            assert_true(vw__string_table_add(&many, text, (size_t)size, &second));
            assert_int_equal(first, second);
        }
    }
    vw__arena_deinit(&own);
    return has_succeeded;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(add_many, NULL);
}

#define WITH_A_TABLE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_TABLE(ids_count_up_and_equal_strings_share_one),
        WITH_A_TABLE(strings_are_any_bytes),
        WITH_A_TABLE(thousands_of_strings_keep_their_ids_and_addresses),
        WITH_A_TABLE(no_more_strings_than_the_limit),
        WITH_A_TABLE(no_more_bytes_than_the_limit),
        WITH_A_TABLE(the_limit_of_the_arena_holds_too),
        WITH_A_TABLE(a_string_refused_for_want_of_memory_can_come_again),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
