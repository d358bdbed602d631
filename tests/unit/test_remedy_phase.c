/* test_remedy_phase.c - every phase has remedies, each once, and the right ones first. */
#include "remedy/remedy.h"

#include "support/cmocka_here.h"

static void every_phase_has_remedies_and_each_once(void **state)
{
    (void)state;
    for (unsigned phase = 0; phase < VW__PHASE_COUNT; phase++) {
        const vw__remedy_list *list = vw__remedy_for_phase((vw__phase)phase);
        bool is_seen[VW__REMEDY_COUNT] = {false};
        assert_true(list->count >= 3 && list->count <= 10);
        for (size_t i = 0; i < list->count; i++) {
            assert_false(is_seen[list->ids[i]]);
            is_seen[list->ids[i]] = true;
            assert_non_null(vw__remedy_of(list->ids[i])->action);
            assert_non_null(vw__remedy_of(list->ids[i])->code);
            assert_non_null(vw__remedy_of(list->ids[i])->cost);
        }
        assert_true((list->reason == NULL) ==
                    (phase == VW__PHASE_OTHER || phase == VW__PHASE_FORWARD));
    }
}

static bool has(vw__phase phase, vw__remedy_id id)
{
    const vw__remedy_list *list = vw__remedy_for_phase(phase);
    for (size_t i = 0; i < list->count; i++)
        if (list->ids[i] == id)
            return true;
    return false;
}

/* A smaller batch is offered where what is asked for is in proportion to it, and nowhere else. */
static void a_smaller_batch_is_offered_where_it_helps(void **state)
{
    (void)state;
    for (unsigned i = 0; i < VW__PHASE_COUNT; i++) {
        vw__phase phase = (vw__phase)i;
        bool is_offered = has(phase, VW__REMEDY_SPLIT_BATCH) ||
                          has(phase, VW__REMEDY_SMALLER_BATCH) ||
                          has(phase, VW__REMEDY_SMALLER_IMAGE);
        assert_true(is_offered == vw__phase_scales_with_batch(phase));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_phase_has_remedies_and_each_once),
        cmocka_unit_test(a_smaller_batch_is_offered_where_it_helps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
