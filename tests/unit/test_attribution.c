/* test_attribution.c - what stacks mean, and who holds a moment's bytes. */
#include "analysis/attribution.h"

#include <string.h>

#include "analysis/moment.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)
#define TORCH "/usr/lib/python3/site-packages/torch/"
#define HF "/opt/conda/lib/python3.11/site-packages/transformers/"
#define CALL "_call_impl " TORCH "nn/modules/module.py 1790"
#define USER "main /home/me/train.py 12"

/* One stack, its category, and the place of its `where`, VW__ATTRIBUTION_NO_FRAME for none. */
typedef struct stack_case {
    const char *stack;
    vw__category category;
    size_t where;
} stack_case;

static const stack_case stack_cases[] = {
    /* A forward pass, of torch's modules and of the user's own. */
    {"linear " TORCH "nn/functional.py 10;forward " TORCH "nn/modules/linear.py 1;" CALL ";" USER,
     VW__CATEGORY_FORWARD, 3},
    {"forward /home/me/model.py 7;" CALL ";" USER, VW__CATEGORY_FORWARD, 0},
    {"cross_entropy " TORCH "nn/functional.py 3504;" USER, VW__CATEGORY_FORWARD, 1},

    /* The inner frame decides: a cache inside a forward, a forward inside an optimizer. */
    {"update " HF "cache_utils.py 146;forward " HF "models/llama/modeling_llama.py 262;" CALL
     ";" USER,
     VW__CATEGORY_KV_CACHE, 3},
    {CALL ";closure /home/me/train.py 3;step " TORCH "optim/lbfgs.py 300;" USER,
     VW__CATEGORY_FORWARD, 1},

    {"convert " TORCH "nn/modules/module.py 1370;_apply " TORCH "nn/modules/module.py 965;to " TORCH
     "nn/modules/module.py 1384;" USER,
     VW__CATEGORY_WEIGHTS, 3},
    {"__init__ " TORCH "nn/modules/linear.py 100;" USER, VW__CATEGORY_WEIGHTS, 1},
    {"_init_group " TORCH "optim/adam.py 178;step " TORCH "optim/adam.py 238;" USER,
     VW__CATEGORY_OPTIMIZER, 2},
    {"_unscale_grads_ " TORCH "amp/grad_scaler.py 1;unscale_ " TORCH "amp/grad_scaler.py 2;" USER,
     VW__CATEGORY_OPTIMIZER, 2},
    {"clip_grad_norm_ " TORCH "nn/utils/clip_grad.py 30;" USER, VW__CATEGORY_GRADIENTS, 1},
    {"_make_grads " TORCH "autograd/__init__.py 231;backward " TORCH "autograd/__init__.py 374;"
     "backward " TORCH "_tensor.py 631;" USER,
     VW__CATEGORY_BACKWARD, 3},
    {"fetch " TORCH "utils/data/_utils/fetch.py 5;" USER, VW__CATEGORY_DATA, 1},
    {"_load " TORCH "serialization.py 1;load " TORCH "serialization.py 9;" USER,
     VW__CATEGORY_LOADED, 2},

    /* Recomputation is backward work, though its inner frames are a forward's. */
    {"forward /home/me/model.py 7;" CALL ";recompute_fn " TORCH
     "utils/checkpoint.py 1;unpack_hook " TORCH "utils/checkpoint.py 2",
     VW__CATEGORY_BACKWARD, 0},
    /* An optimizer that steps in a hook of the backward pass is still an optimizer. */
    {"step " TORCH "optim/adam.py 1;hook /home/me/train.py 5;backward " TORCH "_tensor.py 1;" USER,
     VW__CATEGORY_OPTIMIZER, 1},

    /* Native frames: what is known of them, and that they are nobody's lines. */
    {"at::cuda::getNewWorkspace() ?? 0;at::linear ATen/native/Linear.cpp 5;" CALL ";" USER,
     VW__CATEGORY_WORKSPACE, 3},
    {"at::empty ?? 0;torch::autograd::Engine::thread_main() engine.cpp 1;start libc.so.6 0",
     VW__CATEGORY_BACKWARD, VW__ATTRIBUTION_NO_FRAME},

    /* Nothing known. Lines of packages are not the user's; a notebook's are. */
    {USER, VW__CATEGORY_OTHER, 0},
    {"f /usr/lib/python3.11/threading.py 9;g <frozen 1;h <string> 2;call "
     "/tmp/torchinductor_me/x.py "
     "3;<module> /tmp/ipykernel_7/1.py 4",
     VW__CATEGORY_OTHER, 4},
    {"f C:\\Python\\Lib\\site-packages\\torch\\optim\\adam.py 3;g C:\\work\\train.py 4",
     VW__CATEGORY_OPTIMIZER, 1},
    /* Only whole names of folders count. */
    {"f /home/me/mytorch/optim/adam.py 3", VW__CATEGORY_OTHER, 0},
    {"f /home/me/pytorch_project/run.py 3", VW__CATEGORY_OTHER, 0},
};

enum { CASE_COUNT = sizeof stack_cases / sizeof stack_cases[0] };

static void every_stack_of_the_table_has_its_category_and_its_line(void **state)
{
    (void)state;
    small_model small;
    uint32_t contexts[CASE_COUNT];
    small_model_begin(&small);
    for (size_t i = 0; i < CASE_COUNT; i++)
        contexts[i] = small_model_context(&small, stack_cases[i].stack);
    vw__model *model = small_model_finish(&small);
    vw__attribution attribution;
    assert_int_equal(vw__attribution_init(&attribution, model), VW_OK);
    for (size_t i = 0; i < CASE_COUNT; i++) {
        vw__category category = vw__attribution_category(&attribution, contexts[i]);
        size_t where = vw__attribution_where(&attribution, vw__model_stack_of(model, contexts[i]));
        if (category != stack_cases[i].category || where != stack_cases[i].where)
            print_error("%s: %s, where %zu\n", stack_cases[i].stack, vw__category_name(category),
                        where);
        assert_int_equal(category, stack_cases[i].category);
        assert_int_equal(where, stack_cases[i].where);
    }
    vw__attribution_deinit(&attribution);
    vw__model_destroy(model);
}

static void without_a_stack_the_category_is_unknown_and_without_frames_it_is_backward(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    uint32_t empty = small_model_context(&small, "");
    small_model_context(&small, USER);
    vw__model *model = small_model_finish(&small);
    vw__attribution attribution;
    assert_int_equal(vw__attribution_init(&attribution, model), VW_OK);
    assert_int_equal(vw__attribution_category(&attribution, VW__MODEL_NO_CONTEXT),
                     VW__CATEGORY_UNKNOWN);
    assert_int_equal(vw__attribution_category(&attribution, empty), VW__CATEGORY_BACKWARD);
    assert_false(vw__attribution_is_in_optimizer(&attribution, VW__MODEL_NO_CONTEXT));
    assert_false(vw__attribution_is_in_optimizer(&attribution, empty));
    vw__attribution_deinit(&attribution);
    vw__model_destroy(model);
}

static void where_no_stack_has_a_frame_nothing_is_claimed(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    uint32_t empty = small_model_context(&small, "");
    vw__model *model = small_model_finish(&small);
    vw__attribution attribution;
    assert_int_equal(vw__attribution_init(&attribution, model), VW_OK);
    assert_int_equal(vw__attribution_category(&attribution, empty), VW__CATEGORY_UNKNOWN);
    vw__attribution_deinit(&attribution);
    vw__model_destroy(model);
}

static void an_optimizer_is_known_at_any_depth(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    uint32_t closure =
        small_model_context(&small, CALL ";closure /home/me/t.py 3;step " TORCH "optim/lbfgs.py 3");
    uint32_t forward = small_model_context(&small, CALL ";" USER);
    vw__model *model = small_model_finish(&small);
    vw__attribution attribution;
    assert_int_equal(vw__attribution_init(&attribution, model), VW_OK);
    assert_true(vw__attribution_is_in_optimizer(&attribution, closure));
    assert_false(vw__attribution_is_in_optimizer(&attribution, forward));
    vw__attribution_deinit(&attribution);
    vw__model_destroy(model);
}

/* ---- moments --------------------------------------------------------------------------------- */

/* Two captures of one stack, another stack, an empty one, and none; all live at the end. */
static vw__model *model_of_five_blocks(void)
{
    small_model small;
    small_model_begin(&small);
    uint32_t first = small_model_context(&small, CALL ";" USER);
    uint32_t second = small_model_context(&small, CALL ";" USER);
    uint32_t other = small_model_context(&small, "f train.py 1");
    uint32_t empty = small_model_context(&small, "");
    const uint32_t contexts[] = {first, second, other, empty, VW__MODEL_NO_CONTEXT};
    const uint64_t sizes[] = {1 * MIB, 2 * MIB, 4 * MIB - 1, 8 * MIB, 100};
    for (size_t i = 0; i < 5; i++) {
        small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A + 20 * MIB * i, 20 * MIB, contexts[i]);
        small_model_alloc(&small, A + 20 * MIB * i, sizes[i], contexts[i]);
    }
    small_model_end_trace(&small, 0);
    for (size_t i = 0; i < 5; i++)
        small_model_segment(&small, 0, A + 20 * MIB * i, 20 * MIB, sizes[i], contexts[i]);
    return small_model_finish(&small);
}

static void assert_five_blocks(const vw_moment *moment)
{
    assert_int_equal(moment->live_bytes, 15 * MIB + 512);
    assert_int_equal(moment->block_count, 5);
    assert_int_equal(moment->reserved_bytes, 100 * MIB);
    assert_int_equal(moment->usage_count, 4);

    assert_string_equal(moment->usages[0].category, "backward");
    assert_int_equal(moment->usages[0].bytes, 8 * MIB);
    assert_true(moment->usages[0].has_stack);
    assert_int_equal(moment->usages[0].frame_count, 0);
    assert_null(moment->usages[0].where);

    assert_string_equal(moment->usages[1].category, "other");
    assert_int_equal(moment->usages[1].bytes, 4 * MIB);
    assert_string_equal(moment->usages[1].where->file, "train.py");

    assert_string_equal(moment->usages[2].category, "activations"); /* two captures of one stack */
    assert_int_equal(moment->usages[2].bytes, 3 * MIB);
    assert_int_equal(moment->usages[2].block_count, 2);
    assert_int_equal(moment->usages[2].largest_bytes, 2 * MIB);
    assert_int_equal(moment->usages[2].frame_count, 2);
    assert_ptr_equal(moment->usages[2].where, &moment->usages[2].frames[1]);
    assert_int_equal(moment->usages[2].where->line, 12);

    assert_string_equal(moment->usages[3].category, "unknown");
    assert_int_equal(moment->usages[3].bytes, 512);
    assert_false(moment->usages[3].has_stack);
}

static void a_moment_adds_up_by_stack_and_not_by_capture(void **state)
{
    (void)state;
    vw__model *model = model_of_five_blocks();
    vw__attribution attribution;
    vw__timeline timeline;
    vw__arena arena;
    vw_moment moment;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    assert_int_equal(vw__attribution_init(&attribution, model), VW_OK);
    assert_int_equal(vw__timeline_make(model, &model->traces[0], &timeline), VW_OK);
    assert_int_equal(vw__moment_of_instant(&timeline, 10, &attribution, 0, &arena, &moment), VW_OK);
    assert_five_blocks(&moment);
    assert_int_equal(moment.event, 9);
    assert_int_equal(moment.time_us, 1090);
    assert_int_equal(moment.category_count, 4);
    assert_string_equal(moment.categories[0].category, "backward");
    assert_int_equal(moment.categories[2].bytes, 3 * MIB);
    assert_null(moment.categories[2].frames);

    /* The beginning: nothing yet. */
    assert_int_equal(vw__moment_of_instant(&timeline, 0, &attribution, 0, &arena, &moment), VW_OK);
    assert_int_equal(moment.live_bytes, 0);
    assert_int_equal(moment.usage_count, 0);
    assert_int_equal(moment.reserved_bytes, 0);

    /* The end, by the segments. */
    assert_int_equal(vw__moment_of_end(&attribution, &model->traces[0], 0, 0, &arena, &moment),
                     VW_OK);
    assert_five_blocks(&moment);
    assert_int_equal(vw__moment_of_end(&attribution, NULL, 0, 0, &arena, &moment), VW_OK);
    assert_true(moment.event == VW_UNKNOWN && moment.time_us == INT64_MIN);
    vw__timeline_deinit(&timeline);
    vw__attribution_deinit(&attribution);
    vw__arena_deinit(&arena);
    vw__model_destroy(model);
}

static void a_limit_on_usages_cuts_the_list_and_not_the_sums(void **state)
{
    (void)state;
    vw__model *model = model_of_five_blocks();
    vw__attribution attribution;
    vw__arena arena;
    vw_moment moment;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    assert_int_equal(vw__attribution_init(&attribution, model), VW_OK);
    assert_int_equal(vw__moment_of_end(&attribution, NULL, 0, 2, &arena, &moment), VW_OK);
    assert_int_equal(moment.usage_count, 2);
    assert_int_equal(moment.live_bytes, 15 * MIB + 512);
    assert_int_equal(moment.category_count, 4);
    vw__attribution_deinit(&attribution);
    vw__arena_deinit(&arena);
    vw__model_destroy(model);
}

static void moments_may_leave_usages_out(void **state)
{
    (void)state;
    vw__model *model = model_of_five_blocks();
    vw__attribution attribution;
    vw__arena arena;
    vw_moment moment;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    assert_int_equal(vw__attribution_init(&attribution, model), VW_OK);
    assert_int_equal(
        vw__moment_of_end(&attribution, NULL, 0, VW__MOMENT_NO_USAGES, &arena, &moment), VW_OK);
    assert_int_equal(moment.usage_count, 0);
    assert_int_equal(moment.live_bytes, 15 * MIB + 512);
    assert_int_equal(moment.category_count, 4);
    vw__attribution_deinit(&attribution);
    vw__arena_deinit(&arena);
    vw__model_destroy(model);
}

static void moments_that_share_stacks_write_them_once(void **state)
{
    (void)state;
    vw__model *model = model_of_five_blocks();
    vw__attribution attribution;
    vw__arena arena;
    vw_moment one, other;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    assert_int_equal(vw__attribution_init(&attribution, model), VW_OK);
    assert_int_equal(vw__moment_share_stacks(&attribution, &arena), VW_OK);
    assert_int_equal(vw__moment_of_end(&attribution, NULL, 0, 0, &arena, &one), VW_OK);
    assert_int_equal(vw__moment_of_end(&attribution, NULL, 0, 0, &arena, &other), VW_OK);
    assert_five_blocks(&one);
    assert_five_blocks(&other);
    for (size_t i = 0; i < one.usage_count; i++) {
        assert_ptr_equal(one.usages[i].frames, other.usages[i].frames);
        assert_ptr_equal(one.usages[i].where, other.usages[i].where);
    }
    vw__attribution_deinit(&attribution);
    vw__arena_deinit(&arena);
    vw__model_destroy(model);
}

static bool make_moment(void *context)
{
    const vw__model *model = context;
    vw__attribution attribution;
    vw__arena arena;
    vw_moment moment;
    if (vw__attribution_init(&attribution, model) != VW_OK)
        return false;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    bool is_done = vw__moment_share_stacks(&attribution, &arena) == VW_OK &&
                   vw__moment_of_end(&attribution, NULL, 0, 0, &arena, &moment) == VW_OK;
    vw__arena_deinit(&arena);
    vw__attribution_deinit(&attribution);
    return is_done;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    vw__model *model = model_of_five_blocks();
    vw_test_sweep_host_memory(make_moment, model);
    vw__model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stack_of_the_table_has_its_category_and_its_line),
        cmocka_unit_test(without_a_stack_the_category_is_unknown_and_without_frames_it_is_backward),
        cmocka_unit_test(where_no_stack_has_a_frame_nothing_is_claimed),
        cmocka_unit_test(an_optimizer_is_known_at_any_depth),
        cmocka_unit_test(a_moment_adds_up_by_stack_and_not_by_capture),
        cmocka_unit_test(a_limit_on_usages_cuts_the_list_and_not_the_sums),
        cmocka_unit_test(moments_may_leave_usages_out),
        cmocka_unit_test(moments_that_share_stacks_write_them_once),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
