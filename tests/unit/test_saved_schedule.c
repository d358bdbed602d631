/* test_saved_schedule.c - the promises made at the top of saved_schedule.c. */
#include "vramwise/vramwise.h"

#include <stdlib.h>

#include "support/cmocka_here.h"

enum { LIMIT = 3200, ROOM = 3000, MARKS = 8 };

/* Four layers of 500 each, saved at marks 0 to 3 and used at 7 to 4. */
static void make_layers(vw_saved_item items[4])
{
    for (uint32_t i = 0; i < 4; i++)
        items[i] = (vw_saved_item){.size_bytes = 500, .from_mark = i + 1, .until_mark = 7 - i};
}

static void nothing_leaves_where_everything_fits(void **state)
{
    (void)state;
    const uint64_t live[MARKS] = {1000, 1500, 2000, ROOM, 2500, 2000, 1500, 1000};
    vw_saved_item items[4];
    uint64_t scratch[MARKS];
    make_layers(items);
    assert_int_equal(vw_schedule_saved(live, NULL, MARKS, LIMIT, items, 4, scratch), 0);
    for (size_t i = 0; i < 4; i++)
        assert_false(items[i].leaves);
    assert_int_equal(vw_schedule_saved(NULL, NULL, 0, LIMIT, NULL, 0, NULL), 0);
}

/* The first layer has the most time before the peak and after it. */
static void what_is_used_last_leaves_first(void **state)
{
    (void)state;
    const uint64_t live[MARKS] = {1000, 2000, 3000, 3800, 3300, 2800, 2300, 1000};
    vw_saved_item items[4];
    uint64_t scratch[MARKS];
    make_layers(items);
    assert_int_equal(vw_schedule_saved(live, NULL, MARKS, LIMIT, items, 4, scratch), 800);
    assert_true(items[0].leaves && items[1].leaves);
    assert_false(items[2].leaves || items[3].leaves);
    /* At mark 4 one of them fits beside the rest: the one that is used first. */
    assert_int_equal(items[1].back_mark, 4);
    assert_int_equal(items[0].back_mark, 5);
}

static void state_that_is_away_makes_room_too(void **state)
{
    (void)state;
    const uint64_t live[MARKS] = {1000, 2000, 3000, 3800, 3300, 2800, 2300, 1000};
    const uint64_t away[MARKS] = {800, 800, 800, 800, 300, 0, 0, 0};
    vw_saved_item items[4];
    uint64_t scratch[MARKS];
    make_layers(items);
    assert_int_equal(vw_schedule_saved(live, away, MARKS, LIMIT, items, 4, scratch), 0);
    assert_false(items[0].leaves);
}

/* Two passes before a step: each peak finds items of its own. */
static void every_peak_finds_its_own_items(void **state)
{
    (void)state;
    const uint64_t live[MARKS] = {1000, 3400, 3400, 1000, 1000, 3400, 3400, 1000};
    vw_saved_item items[3] = {{.size_bytes = 500, .from_mark = 1, .until_mark = 3},
                              {.size_bytes = 500, .from_mark = 5, .until_mark = 7},
                              {.size_bytes = 500, .from_mark = 6, .until_mark = 7}};
    uint64_t scratch[MARKS];
    assert_int_equal(vw_schedule_saved(live, NULL, MARKS, LIMIT, items, 3, scratch), 400);
    assert_true(items[0].leaves && items[1].leaves);
    assert_false(items[2].leaves);
}

static void the_larger_of_two_that_are_used_together_leaves(void **state)
{
    (void)state;
    const uint64_t live[4] = {1000, 3500, 3500, 1000};
    vw_saved_item items[2] = {{.size_bytes = 300, .from_mark = 1, .until_mark = 3},
                              {.size_bytes = 500, .from_mark = 1, .until_mark = 3}};
    uint64_t scratch[4];
    assert_int_equal(vw_schedule_saved(live, NULL, 4, LIMIT, items, 2, scratch), 500);
    assert_true(items[1].leaves);
    assert_false(items[0].leaves);
}

static void what_is_never_used_again_or_at_once_cannot_leave(void **state)
{
    (void)state;
    const uint64_t live[2] = {9000, 9000};
    vw_saved_item items[2] = {{.size_bytes = 5000, .from_mark = 0, .until_mark = 0},
                              {.size_bytes = 5000, .from_mark = 1, .until_mark = 1}};
    uint64_t scratch[2];
    assert_int_equal(vw_schedule_saved(live, NULL, 2, LIMIT, items, 2, scratch), 6000);
    assert_false(items[0].leaves || items[1].leaves);
}

/* What is on the device at a mark: all that is not away then. */
static uint64_t on_device_at(size_t mark, uint64_t live_bytes, const vw_saved_item *items,
                             size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].leaves && items[i].from_mark <= mark && mark < items[i].back_mark)
            live_bytes -= live_bytes < items[i].size_bytes ? live_bytes : items[i].size_bytes;
    return live_bytes;
}

static void every_promise_holds_for_steps_of_any_shape(void **state)
{
    (void)state;
    enum { LONGEST = 40 };
    uint64_t live[LONGEST], scratch[LONGEST];
    vw_saved_item items[LONGEST];
    srand(1);
    for (int round = 0; round < 2000; round++) {
        size_t marks = (size_t)rand() % LONGEST + 1, count = (size_t)rand() % LONGEST;
        uint64_t limit = (uint64_t)rand() % 20000 + 1, room = limit - limit / 16;
        for (size_t i = 0; i < marks; i++)
            live[i] = 3000; /* and every item that is there */
        for (size_t i = 0; i < count; i++) {
            uint32_t from = (uint32_t)((size_t)rand() % marks);
            uint32_t until = from + (uint32_t)rand() % 10;
            items[i] = (vw_saved_item){
                .size_bytes = (uint64_t)rand() % 900, .from_mark = from, .until_mark = until};
            for (size_t at = from; at < until && at < marks; at++)
                live[at] += items[i].size_bytes;
        }
        uint64_t lacking = vw_schedule_saved(live, NULL, marks, limit, items, count, scratch);
        for (size_t i = 0; i < count; i++) {
            assert_true(!items[i].leaves || lacking > 0);
            assert_true(items[i].back_mark <= items[i].until_mark);
            assert_true(!items[i].leaves || items[i].back_mark >= items[i].from_mark);
        }
        for (size_t mark = 0; mark < marks; mark++) {
            bool is_all_away = true;
            for (size_t i = 0; i < count; i++)
                is_all_away &=
                    items[i].leaves || mark < items[i].from_mark || mark >= items[i].until_mark;
            assert_true(on_device_at(mark, live[mark], items, count) <= room || is_all_away);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_leaves_where_everything_fits),
        cmocka_unit_test(what_is_used_last_leaves_first),
        cmocka_unit_test(state_that_is_away_makes_room_too),
        cmocka_unit_test(every_peak_finds_its_own_items),
        cmocka_unit_test(the_larger_of_two_that_are_used_together_leaves),
        cmocka_unit_test(what_is_never_used_again_or_at_once_cannot_leave),
        cmocka_unit_test(every_promise_holds_for_steps_of_any_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
