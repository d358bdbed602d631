/* test_remedy_text.c - the reader's words in the code of a remedy. */
#include <string.h>

#include "remedy/remedy.h"
#include "support/cmocka_here.h"

static void expect(const char *text, const vw__remedy_words *words, const char *expected)
{
    vw__arena arena;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    assert_string_equal(vw__remedy_text(&arena, text, words), expected);
    vw__arena_deinit(&arena);
}

static void words_are_put_in_and_the_usual_ones_where_none_are_given(void **state)
{
    (void)state;
    expect("torch.$module.empty_cache()", NULL, "torch.cuda.empty_cache()");
    expect("torch.$module.empty_cache()", &(vw__remedy_words){.module = "mps"},
           "torch.mps.empty_cache()");
    expect("$loss / $parts", &(vw__remedy_words){.parts = 16}, "loss_of(model, batch) / 16");
    expect("r=$rank", NULL, "r=16");
    expect("torch.$type$storage)", &(vw__remedy_words){.storage = ", x"}, "torch.bfloat16, x)");
}

static void a_word_may_have_a_word_in_it(void **state)
{
    (void)state;
    expect("batch_size=$batch_size)", &(vw__remedy_words){.parts = 4},
           "batch_size=batch_size // 4)");
    expect("$loss", &(vw__remedy_words){.loss = "$batch_size"}, "batch_size // $parts");
}

static void what_is_no_word_of_ours_stays(void **state)
{
    (void)state;
    expect("echo $HOME $nothing $", NULL, "echo $HOME $nothing $");
}

static void a_text_without_words_is_the_tables_own(void **state)
{
    (void)state;
    const char *text = "optimizer.step()";
    assert_ptr_equal(vw__remedy_text(NULL, text, NULL), text);
}

static void without_host_memory_there_is_no_text(void **state)
{
    (void)state;
    vw__arena arena;
    vw__arena_init(&arena, 0);
    assert_null(vw__remedy_text(&arena, "$parts", NULL));
    vw__arena_deinit(&arena);
}

static void all_words_of_the_table_are_known_and_fit(void **state)
{
    (void)state;
    for (unsigned id = 0; id < VW__REMEDY_COUNT; id++) {
        const vw__remedy *remedy = vw__remedy_of((vw__remedy_id)id);
        const char *texts[] = {remedy->action, remedy->code, remedy->transformers_code};
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            vw__arena arena;
            if (texts[i] == NULL)
                continue;
            vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
            const char *made = vw__remedy_text(&arena, texts[i], NULL);
            assert_non_null(made);
            assert_null(strchr(made, '$'));
            assert_true(strlen(made) < 1000); /* far from where texts are cut */
            vw__arena_deinit(&arena);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_put_in_and_the_usual_ones_where_none_are_given),
        cmocka_unit_test(a_word_may_have_a_word_in_it),
        cmocka_unit_test(what_is_no_word_of_ours_stays),
        cmocka_unit_test(a_text_without_words_is_the_tables_own),
        cmocka_unit_test(without_host_memory_there_is_no_text),
        cmocka_unit_test(all_words_of_the_table_are_known_and_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
