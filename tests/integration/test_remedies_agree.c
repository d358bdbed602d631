/* test_remedies_agree.c - a pasted error, a recording, a plan and a tour say the same of a remedy.
 */
#include <stdlib.h>
#include <string.h>

#include "vramwise/doctor.h"
#include "vramwise/plan.h"
#include "remedy/remedy.h"
#include "support/cmocka_here.h"
#include "support/stored_recordings.h"

#define GENUINE                                                                                    \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total "   \
    "capacity of 23.69 GiB of which 391.00 MiB is free. Of the allocated memory 22.00 GiB is "     \
    "allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.\n"
#define FRAGMENTED                                                                                 \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total "   \
    "capacity of 23.69 GiB of which 1.10 GiB is free. Of the allocated memory 12.00 GiB is "       \
    "allocated by PyTorch, and 10.00 GiB is reserved by PyTorch but unallocated.\n"

#define CAPPED                                                                                     \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "   \
    "capacity of 40.00 GiB of which 29.00 GiB is free. 10.00 GiB allowed; Of the allocated "       \
    "memory 9.40 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but "          \
    "unallocated.\n"

static vw_diagnosis *diagnose_text(const char *text)
{
    vw_diagnosis *got = NULL;
    assert_int_equal(vw_doctor_text(text, strlen(text), NULL, &got), VW_OK);
    return got;
}

static vw_diagnosis *diagnose_stored(const char *name)
{
    stored_recording stored;
    vw_diagnosis *got = NULL;
    open_stored(name, &stored);
    assert_int_equal(vw_doctor_recording(stored.recording, NULL, &got), VW_OK);
    vw_recording_close(stored.recording);
    return got;
}

static const vw_remedy *remedy_of(const vw_diagnosis *diagnosis, const char *action)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        for (size_t j = 0; j < diagnosis->findings[i].remedy_count; j++)
            if (strstr(diagnosis->findings[i].remedies[j].action, action) != NULL)
                return &diagnosis->findings[i].remedies[j];
    return NULL;
}

/* The one change between two settings of GPT-2. */
static vw_plan_changes *change_to(void (*set)(vw_plan_settings *settings))
{
    vw_plan_model *model = NULL;
    vw_plan_settings from, to;
    vw_plan_changes *changes = NULL;
    assert_int_equal(vw_plan_model_open("gpt2", &model), VW_OK);
    vw_plan_settings_init(&from);
    from.batch = 8;
    from.sequence = 1024;
    to = from;
    set(&to);
    assert_int_equal(vw_plan_changes_make(model, &from, &to, &changes), VW_OK);
    assert_int_equal(changes->count, 1);
    vw_plan_model_close(model);
    return changes;
}

static void set_checkpointing(vw_plan_settings *settings)
{
    settings->checkpointing = VW_CHECKPOINTING_FULL;
}

static void set_8_bits(vw_plan_settings *settings)
{
    settings->optimizer = VW_OPTIMIZER_ADAM_8BIT;
}

static void set_autocast(vw_plan_settings *settings)
{
    settings->precision = VW_PRECISION_AMP_BF16;
}

static void set_half_the_batch(vw_plan_settings *settings)
{
    settings->batch = 4;
    settings->accumulation = 2;
}

static void set_chunks(vw_plan_settings *settings)
{
    settings->loss_chunks = VW__REMEDY_LOSS_CHUNKS;
}

static void a_technique_costs_the_same_whoever_advises_it(void **state)
{
    (void)state;
    static const struct {
        const char *action;
        void (*set)(vw_plan_settings *settings);
    } techniques[] = {
        {"(checkpointing)", set_checkpointing},
        {"8-bit optimizer", set_8_bits},
        {"(autocast)", set_autocast},
        {"accumulate gradients", set_half_the_batch},
    };
    vw_diagnosis *pasted = diagnose_text(GENUINE);
    vw_diagnosis *recorded = diagnose_stored("oom_genuine.native.pickle.xz");
    for (size_t i = 0; i < sizeof techniques / sizeof techniques[0]; i++) {
        vw_plan_changes *planned = change_to(techniques[i].set);
        const vw_remedy *by_text = remedy_of(pasted, techniques[i].action);
        const vw_remedy *by_recording = remedy_of(recorded, techniques[i].action);
        assert_non_null(by_text);
        assert_string_equal(by_text->cost, planned->changes[0].cost);
        if (by_recording != NULL)
            assert_string_equal(by_recording->cost, planned->changes[0].cost);
        vw_plan_changes_free(planned);
    }
    assert_non_null(remedy_of(recorded, "(checkpointing)"));
    vw_diagnosis_free(pasted);
    vw_diagnosis_free(recorded);
}

static void a_limit_is_raised_in_the_same_words(void **state)
{
    (void)state;
    vw_diagnosis *pasted = diagnose_text(CAPPED);
    vw_diagnosis *recorded = diagnose_stored("doctor/oom_capped.pickle.xz");
    const vw_remedy *by_text = remedy_of(pasted, "the limit");
    const vw_remedy *by_recording = remedy_of(recorded, "the limit");
    assert_non_null(by_text);
    assert_non_null(by_recording);
    assert_string_equal(by_text->action, by_recording->action);
    assert_string_equal(by_text->cost, by_recording->cost);
    assert_int_equal(by_text->enough, VW_ENOUGH_YES);
    vw_diagnosis_free(pasted);
    vw_diagnosis_free(recorded);
}

/* The last two lines: what is added up, and what it is divided by. */
static const char *sum_of(const char *code)
{
    const char *sum = strstr(code, "loss = sum(");
    assert_non_null(sum);
    return sum;
}

static void a_loss_in_chunks_is_the_same_sum_in_both(void **state)
{
    (void)state;
    vw_diagnosis *recorded = diagnose_stored("oom_genuine.native.pickle.xz");
    vw_plan_changes *planned = change_to(set_chunks);
    const vw_remedy *remedy = remedy_of(recorded, "loss in chunks");
    assert_non_null(remedy);
    assert_string_equal(sum_of(remedy->how), sum_of(planned->changes[0].code));
    assert_string_equal(remedy->cost, planned->changes[0].cost);
    vw_plan_changes_free(planned);
    vw_diagnosis_free(recorded);
}

static void the_cache_is_emptied_by_one_rule(void **state)
{
    (void)state;
    vw_diagnosis *pasted = diagnose_text(FRAGMENTED);
    vw_diagnosis *recorded = diagnose_stored("train_eval_phases.native.pickle.xz");
    const vw_remedy *by_text = remedy_of(pasted, "empty the cache");
    const vw_remedy *by_recording = remedy_of(recorded, "empty the cache");
    assert_non_null(by_text);
    assert_non_null(by_recording);
    assert_string_equal(by_text->action, by_recording->action);
    assert_string_equal(by_text->how, by_recording->how);
    vw_diagnosis_free(pasted);
    vw_diagnosis_free(recorded);
}

/* What a recording's remedies may not say. */
static void look_for_loops(const stored_recording *one)
{
    vw_diagnosis *got = NULL;
    assert_int_equal(vw_doctor_recording(one->recording, NULL, &got), VW_OK);
    assert_null(remedy_of(got, "after every step"));
    const vw_remedy *emptied = remedy_of(got, "empty the cache");
    if (emptied != NULL) {
        assert_non_null(strstr(emptied->action, "never inside the loop"));
        assert_true(emptied->saves_bytes >= VW__REMEDY_EMPTY_CACHE_LEAST_BYTES);
    }
    for (size_t i = 0; i < got->finding_count; i++)
        for (size_t j = 0; j < got->findings[i].remedy_count; j++) {
            const vw_remedy *remedy = &got->findings[i].remedies[j];
            assert_string_not_equal(remedy->action, "set "); /* a call is no setting */
            if (strstr(remedy->action, "enough") != NULL)
                assert_int_equal(remedy->enough, VW_ENOUGH_YES);
        }
    vw_diagnosis_free(got);
}

static void no_recording_is_advised_to_empty_the_cache_in_its_loop(void **state)
{
    (void)state;
    each_stored_recording(look_for_loops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_technique_costs_the_same_whoever_advises_it),
        cmocka_unit_test(a_limit_is_raised_in_the_same_words),
        cmocka_unit_test(a_loss_in_chunks_is_the_same_sum_in_both),
        cmocka_unit_test(the_cache_is_emptied_by_one_rule),
        cmocka_unit_test(no_recording_is_advised_to_empty_the_cache_in_its_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
