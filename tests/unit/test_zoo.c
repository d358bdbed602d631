/* test_zoo.c - built-in models have as many parameters as were published, by their own model code;
 * and cards. */
#include "vramwise/plan.h"

#include <string.h>

#include "plan/plan_run.h"
#include "support/cmocka_here.h"

static void model_code_makes_as_many_parameters_as_were_published(void **state)
{
    const vw_plan_known_model *known;
    (void)state;
    for (size_t i = 0; (known = vw_plan_known(i)) != NULL; i++) {
        vw_plan_model *model;
        vw__plan_peaks peaks;
        assert_int_equal(vw_plan_model_open(known->name, &model), VW_OK);
        const bool has_images = model->family->has_images;
        const vw_plan_settings settings = {
            .mode = VW_PLAN_MODE_INFERENCE,
            .batch = 1,
            .sequence = has_images ? 0 : 8,
            .image = has_images ? model->family->usual_length(model) : 0,
            .accumulation = 1,
        };
        assert_int_equal(vw__plan_simulate(model, &settings, NULL, &peaks, NULL), VW_OK);
        if (peaks.parameters != known->parameters)
            print_error("%s\n", known->name);
        assert_int_equal(peaks.parameters, known->parameters);
        assert_string_equal(model->family->name, known->family);
        vw_plan_model_close(model);
    }
}

static void names_are_there_once(void **state)
{
    const vw_plan_known_model *model, *other;
    const vw_plan_card_info *card;
    (void)state;
    for (size_t i = 0; (model = vw_plan_known(i)) != NULL; i++)
        for (size_t j = 0; j < i && (other = vw_plan_known(j)) != NULL; j++)
            assert_string_not_equal(model->name, other->name);
    for (size_t i = 0; (card = vw_plan_card_number(i)) != NULL; i++)
        assert_ptr_equal(vw_plan_card(card->name), card); /* the first of the name */
}

static void the_usual_names_are_known(void **state)
{
    static const char *const models[] = {"gpt2",      "llama-3-8b", "mixtral-8x7b",
                                         "bert-base", "t5-small",   "vit-base"};
    static const char *const cards[] = {"rtx4090", "a100-80g", "h100", "h200", "t4", "b200"};
    vw_plan_model *model;
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        assert_int_equal(vw_plan_model_open(models[i], &model), VW_OK);
        vw_plan_model_close(model);
    }
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++)
        assert_non_null(vw_plan_card(cards[i]));
    assert_null(vw_plan_card("rtx"));
    assert_null(vw_plan_card(NULL));
}

static void cards_have_less_than_is_printed_on_the_box(void **state)
{
    const uint64_t gib = UINT64_C(1) << 30;
    (void)state;
    assert_in_range(vw_plan_card("rtx4090")->total_bytes, 23 * gib, 24 * gib);
    assert_in_range(vw_plan_card("h200")->total_bytes, 139 * gib, 141 * gib);
    assert_true(vw_plan_card("h200")->has_large_workspace);
    assert_false(vw_plan_card("a100-80g")->has_large_workspace);
}

static void cards_are_known_as_people_and_drivers_write_them(void **state)
{
    static const struct {
        const char *written, *name;
    } cases[] = {
        {"RTX 4090", "rtx4090"},
        {"NVIDIA GeForce RTX 4090", "rtx4090"},
        {"4090", "rtx4090"},
        {"1080 Ti", "gtx1080ti"},
        {"A6000", "rtxa6000"},
        {"NVIDIA RTX A6000", "rtxa6000"},
        {"Tesla T4", "t4"},
        {"Tesla V100-SXM2-16GB", "v100-16g"},
        {"A100 80GB", "a100-80g"},
        {"NVIDIA A100-SXM4-40GB", "a100-40g"},
        {"a100_80gib", "a100-80g"},
        {"NVIDIA H100 80GB HBM3", "h100-80g"},
        {"RTX 4090 Laptop", NULL},
        {"a100", NULL},
        {"NVIDIA", NULL},
        {"", NULL},
        {"rtx4090 and more and more and more and more and more and more and more and more", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const vw_plan_card_info *card = vw_plan_card(cases[i].written);
        if (cases[i].name == NULL)
            assert_null(card);
        else
            assert_string_equal(card->name, cases[i].name);
    }
}

static void a_card_is_read_by_name_or_size(void **state)
{
    const vw_plan_card_info *card = NULL;
    uint64_t bytes = 0;
    (void)state;
    assert_int_equal(vw_plan_card_read("RTX 4090", &bytes, &card), VW_OK);
    assert_ptr_equal(card, vw_plan_card("rtx4090"));
    assert_int_equal(bytes, card->total_bytes);
    assert_int_equal(vw_plan_card_read("24GiB", &bytes, &card), VW_OK);
    assert_null(card);
    assert_int_equal(bytes, UINT64_C(24) << 30);
    assert_int_equal(vw_plan_card_read("a100", &bytes, &card), VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "a card such as a100-40g, not 'a100'"));
    assert_int_equal(vw_plan_card_read("0", &bytes, &card), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_plan_card_read("24", &bytes, &card), VW_ERR_INVALID_ARGUMENT);
    assert_string_equal(vw_last_error(),
                        "expected a size with a unit, such as 24GiB, not '24', which is in bytes");
    assert_int_equal(vw_plan_card_read(NULL, &bytes, &card), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(bytes, UINT64_C(24) << 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_are_known_as_people_and_drivers_write_them),
        cmocka_unit_test(a_card_is_read_by_name_or_size),
        cmocka_unit_test(model_code_makes_as_many_parameters_as_were_published),
        cmocka_unit_test(names_are_there_once),
        cmocka_unit_test(the_usual_names_are_known),
        cmocka_unit_test(cards_have_less_than_is_printed_on_the_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
