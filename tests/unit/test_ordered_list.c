/* test_ordered_list.c - records by rising key, in leaves. */
#include "analysis/ordered_list.h"

#include <stdbool.h>
#include <stdlib.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

typedef struct record {
    uint64_t key;
    uint32_t number;
} record;

enum { KEYS = 4 * VW__ORDERED_LIST_LEAF, RANDOM_STEPS = 20000 };

static void init(vw__ordered_list *list)
{
    vw__ordered_list_init(list, sizeof(record), "records of a test");
}

static vw_status put(vw__ordered_list *list, uint64_t key, uint32_t number)
{
    const record added = {key, number};
    vw__ordered_list_place place = vw__ordered_list_up_to(list, key);
    return vw__ordered_list_insert(list, &place, &added);
}

static const record *find(const vw__ordered_list *list, uint64_t key)
{
    const record *found = vw__ordered_list_before(list, vw__ordered_list_up_to(list, key));
    return found != NULL && found->key == key ? found : NULL;
}

static void assert_in_order(const vw__ordered_list *list)
{
    vw__ordered_list_place place = vw__ordered_list_begin();
    const record *before = NULL, *behind;
    size_t count = 0, in_leaves = 0;
    for (; (behind = vw__ordered_list_behind(list, place)) != NULL; count++) {
        vw__ordered_list_place next = vw__ordered_list_next(list, place);
        vw__ordered_list_place back = vw__ordered_list_previous(list, next);
        assert_ptr_equal(vw__ordered_list_before(list, place), before);
        assert_ptr_equal(vw__ordered_list_before(list, next), behind);
        assert_ptr_equal(vw__ordered_list_behind(list, back), behind);
        assert_true(before == NULL || before->key <= behind->key);
        before = behind;
        place = next;
    }
    for (size_t i = 0; i < list->leaf_count; i++) {
        assert_in_range(list->leaves[i].count, 1, VW__ORDERED_LIST_LEAF);
        in_leaves += list->leaves[i].count;
    }
    assert_int_equal(count, list->count);
    assert_int_equal(in_leaves, list->count);
}

static void an_empty_list_has_no_records_anywhere(void **state)
{
    (void)state;
    vw__ordered_list list;
    init(&list);
    vw__ordered_list_place place = vw__ordered_list_up_to(&list, UINT64_MAX);
    assert_null(vw__ordered_list_before(&list, place));
    assert_null(vw__ordered_list_behind(&list, place));
    assert_in_order(&list);
    vw__ordered_list_deinit(&list);
}

static void a_record_is_put_behind_others_of_the_same_key(void **state)
{
    (void)state;
    vw__ordered_list list;
    init(&list);
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(put(&list, 7, i), VW_OK);
    assert_in_order(&list);
    vw__ordered_list_place place = vw__ordered_list_begin();
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(((const record *)vw__ordered_list_behind(&list, place))->number, i);
        place = vw__ordered_list_next(&list, place);
    }
    vw__ordered_list_deinit(&list);
}

/* Upwards, downwards, and from the middle: into several leaves, and out of them to the last one. */
static void all_that_came_in_an_order_goes_in_another(void **state)
{
    (void)state;
    for (uint64_t step = 1; step < KEYS; step += 2 * KEYS / 3) { /* odd: each key comes once */
        vw__ordered_list list;
        init(&list);
        for (uint64_t i = 0; i < KEYS; i++)
            assert_int_equal(put(&list, KEYS - 1 - i * step % KEYS, 0), VW_OK);
        assert_int_equal(list.count, KEYS);
        assert_true(list.leaf_count > 2);
        assert_in_order(&list);
        for (uint64_t key = 0; key < KEYS; key++) {
            vw__ordered_list_place place = vw__ordered_list_up_to(&list, key);
            vw__ordered_list_remove_before(&list, &place);
            assert_null(vw__ordered_list_before(&list, place));
        }
        assert_int_equal(list.count, 0);
        assert_int_equal(list.leaf_count, 0);
        vw__ordered_list_deinit(&list);
    }
}

/* The same with one number for each key. */
static void random_changes_agree_with_one_number_a_key(void **state)
{
    (void)state;
    static uint32_t numbers[KEYS];
    vw__ordered_list list;
    init(&list);
    srand(11);
    for (uint32_t step = 1; step <= RANDOM_STEPS; step++) {
        uint64_t key = (uint64_t)rand() % KEYS;
        vw__ordered_list_place place = vw__ordered_list_up_to(&list, key);
        if (numbers[key] == 0) {
            assert_null(find(&list, key));
            assert_int_equal(put(&list, key, step), VW_OK);
            numbers[key] = step;
        } else {
            const record *found = vw__ordered_list_before(&list, place);
            const record *next = vw__ordered_list_behind(&list, place);
            uint64_t next_key = next != NULL ? next->key : UINT64_MAX;
            assert_int_equal(found->number, numbers[key]);
            place = vw__ordered_list_previous(&list, place);
            vw__ordered_list_remove_behind(&list, &place);
            next = vw__ordered_list_behind(&list, place);
            assert_int_equal(next != NULL ? next->key : UINT64_MAX, next_key);
            numbers[key] = 0;
        }
        if (step % 500 == 0)
            assert_in_order(&list);
    }
    for (uint64_t key = 0; key < KEYS; key++)
        assert_int_equal(find(&list, key) != NULL ? find(&list, key)->number : 0, numbers[key]);
    vw__ordered_list_deinit(&list);
}

static bool fill(void *context)
{
    vw__ordered_list list;
    bool is_done = true;
    (void)context;
    init(&list);
    for (uint64_t i = 0; is_done && i < KEYS; i++) {
        is_done = put(&list, i * 7 % KEYS, 0) == VW_OK;
        assert_int_equal(list.count, i + is_done);
    }
    assert_in_order(&list);
    vw__ordered_list_deinit(&list);
    return is_done;
}

static void every_failure_of_host_memory_changes_nothing(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(fill, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_list_has_no_records_anywhere),
        cmocka_unit_test(a_record_is_put_behind_others_of_the_same_key),
        cmocka_unit_test(all_that_came_in_an_order_goes_in_another),
        cmocka_unit_test(random_changes_agree_with_one_number_a_key),
        cmocka_unit_test(every_failure_of_host_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
