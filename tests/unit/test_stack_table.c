/* test_stack_table.c - each different stack once, within a limit. */
#include "record/stack_table.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

enum { MANY = 5000 };

static uint32_t add(vw__stack_table *table, const uint64_t *words, uint32_t word_count)
{
    uint32_t id = 12345;
    assert_true(vw__stack_table_add(table, words, word_count, &id));
    return id;
}

/* Stack number `i`: one to four words, no two alike. */
static uint32_t words_of(uint64_t i, uint64_t words[4])
{
    for (uint64_t k = 0; k < 4; k++)
        words[k] = i * 4096 + k;
    return (uint32_t)(i % 4 + 1);
}

static void equal_stacks_have_one_number_and_others_another(void **state)
{
    (void)state;
    vw__stack_table table;
    uint64_t words[4];
    vw__stack_table_init(&table, 1 << 24);
    for (uint64_t round = 0; round < 2; round++)
        for (uint64_t i = 0; i < MANY; i++) {
            uint32_t count = words_of(i, words);
            assert_int_equal(add(&table, words, count), i + 1);
        }
    assert_int_equal(table.count, MANY);
    for (uint64_t i = 0; i < MANY; i++) {
        vw__stack_table_entry entry = vw__stack_table_get(&table, (uint32_t)i + 1);
        assert_int_equal(entry.word_count, words_of(i, words));
        assert_memory_equal(entry.words, words, entry.word_count * sizeof *words);
    }
    vw__stack_table_deinit(&table);
}

static void a_stack_is_not_its_own_beginning(void **state)
{
    (void)state;
    vw__stack_table table;
    const uint64_t words[3] = {1, 2, 3};
    vw__stack_table_init(&table, 1 << 20);
    uint32_t three = add(&table, words, 3);
    assert_int_not_equal(add(&table, words, 2), three);
    assert_int_equal(add(&table, words, 3), three);
    vw__stack_table_deinit(&table);
}

static void the_empty_stack_is_number_0_and_takes_no_memory(void **state)
{
    (void)state;
    vw__stack_table table;
    vw__stack_table_init(&table, 0);
    assert_int_equal(add(&table, NULL, 0), 0);
    assert_int_equal(vw__stack_table_get(&table, 0).word_count, 0);
    assert_int_equal(table.arena.held_bytes, 0);
    vw__stack_table_deinit(&table);
}

static void at_its_limit_the_table_refuses_new_stacks_and_finds_the_old_ones(void **state)
{
    (void)state;
    enum { LIMIT_BYTES = 64 << 10 };
    vw__stack_table table;
    uint64_t words[4];
    uint32_t stored = 0, id = 777;
    vw__stack_table_init(&table, LIMIT_BYTES);
    for (uint32_t count = words_of(0, words); vw__stack_table_add(&table, words, count, &id);
         count = words_of(stored, words))
        stored++;
    assert_in_range(stored, 100, MANY - 1);
    assert_int_equal(id, stored); /* of the last that went in: the refused one left it alone */
    assert_true(table.arena.held_bytes <= LIMIT_BYTES);
    for (uint32_t i = 0; i < stored; i++) {
        uint32_t count = words_of(i, words);
        assert_int_equal(add(&table, words, count), i + 1);
    }
    vw__stack_table_deinit(&table);
}

static bool add_many(void *context)
{
    (void)context;
    vw__stack_table table;
    uint64_t words[4];
    bool has_succeeded = true;
    vw__stack_table_init(&table, 1 << 24);
    for (uint64_t i = 0; i < 500; i++) {
        uint32_t id, count = words_of(i, words), before = table.count;
        if (!vw__stack_table_add(&table, words, count, &id)) {
            assert_int_equal(table.count, before);
            has_succeeded = false;
        }
    }
    vw__stack_table_deinit(&table);
    return has_succeeded;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(add_many, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_stacks_have_one_number_and_others_another),
        cmocka_unit_test(a_stack_is_not_its_own_beginning),
        cmocka_unit_test(the_empty_stack_is_number_0_and_takes_no_memory),
        cmocka_unit_test(at_its_limit_the_table_refuses_new_stacks_and_finds_the_old_ones),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
