/* test_plan_layers.c - a model described by its layers: shapes, refusals, and what it takes. */
#include <stdio.h>
#include <string.h>

#include "vramwise/plan.h"

#include "plan/layers.h"
#include "plan/plan_run.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/quoted_model.h"

static vw_plan_settings settings_of(uint64_t batch)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = batch;
    settings.optimizer = VW_OPTIMIZER_SGD;
    return settings;
}

/* Runs it with its own size. */
static vw_status run(const vw_plan_model *model, vw_plan_settings settings, vw__plan_peaks *peaks)
{
    uint64_t usual = model->family->usual_length(model);
    if (model->family->has_images && settings.image == 0)
        settings.image = usual;
    if (!model->family->has_images && settings.sequence == 0)
        settings.sequence = usual;
    return vw__plan_simulate(model, &settings, NULL, peaks, NULL);
}

static vw__plan_peaks run_text(const char *text, uint64_t batch)
{
    vw__plan_peaks peaks;
    vw_plan_model *model = vw_test_open_good(text);
    assert_int_equal(run(model, settings_of(batch), &peaks), VW_OK);
    vw_plan_model_close(model);
    return peaks;
}

/* ---- what it takes --------------------------------------------------------------------------- */

static void parameters_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *layers;
        uint64_t parameters;
    } images[] = {
        {"{'kind':'conv2d','out':16,'kernel':3},{'kind':'mean_pool'}", 3 * 16 * 9 + 16},
        {"{'kind':'conv2d','out':16,'kernel':3,'bias':false},{'kind':'flatten'}", 3 * 16 * 9},
        {"{'kind':'conv2d','out':6,'kernel':1,'groups':3},{'kind':'flatten'}", 6 + 6},
        {"{'kind':'batch_norm'},{'kind':'flatten'},{'kind':'linear','out':10}", 6 + 30720 + 10},
        {"{'kind':'group_norm','groups':3},{'kind':'tokens'},{'kind':'layer_norm'},"
         "{'kind':'attention','heads':3}",
         6 + 6 + 4 * (9 + 3)},
    };
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{'input':[3,32,32],'layers':[%s]}", images[i].layers);
        assert_int_equal(run_text(text, 2).parameters, images[i].parameters);
    }
}

static void attention_may_be_packed_and_share_keys(void **state)
{
    (void)state;
    static const char packed[] = "{'input':{'tokens':16,'width':64},'layers':[{'kind':'attention',"
                                 "'heads':8,'packed':true,'causal':true,'dropout':0.1}]}";
    static const char shared[] = "{'input':{'tokens':16,'width':64},'layers':[{'kind':'attention',"
                                 "'heads':8,'key_heads':2,'bias':false}]}";
    assert_int_equal(run_text(packed, 2).parameters, 64 * 192 + 192 + 64 * 64 + 64);
    assert_int_equal(run_text(shared, 2).parameters, 2 * 64 * 64 + 2 * 64 * 16);
}

static void each_round_of_a_repeat_has_its_own_parameters(void **state)
{
    (void)state;
    static const char text[] =
        "{'input':[8],'layers':[{'kind':'repeat','count':3,'layers':[{'kind':'repeat','count':2,"
        "'layers':[{'kind':'linear','out':8},{'kind':'silu'}]}]}]}";
    assert_int_equal(run_text(text, 2).parameters, 6 * (64 + 8));
}

/* 64 rows of 1024 floats are 256 KiB: what a linear and an activation keep is one row each. */
static void layers_keep_what_pytorch_keeps(void **state)
{
    (void)state;
    enum { ROW = 64 * 1024 * 4 };
    static const struct {
        const char *kind;
        uint64_t rows;
    } cases[] = {
        {"'relu'", 1}, {"'gelu'", 2}, {"'silu'", 2}, {"'tanh'", 1}, {"'relu','in_place':true", 1},
    };
    static const char frame[] =
        "{'input':[1024],'layers':[{'kind':'linear','out':1024},{'kind':%s},"
        "{'kind':'linear','out':1024,'bias':false}],'loss':'mean'}";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, frame, cases[i].kind);
        vw__plan_peaks peaks = run_text(text, 64);
        /* Beside the weights and cuBLAS's workspaces: the input, what is kept, and the loss. */
        uint64_t kept = peaks.after_forward_bytes - peaks.weights_bytes - (UINT64_C(64) << 20);
        assert_int_equal(kept, ROW + cases[i].rows * ROW + 512);
    }
}

static const char resnet_block[] =
    "{'kind':'residual','in_place':true,'layers':["
    "{'kind':'conv2d','out':%d,'kernel':3,'stride':%d,'padding':1,'bias':false},"
    "{'kind':'batch_norm'},{'kind':'relu','in_place':true},"
    "{'kind':'conv2d','out':%d,'kernel':3,'padding':1,'bias':false},{'kind':'batch_norm'}]%s},"
    "{'kind':'relu','in_place':true},";

static size_t add_block(char *text, size_t room, int width, int stride)
{
    char shortcut[256] = "";
    if (stride > 1)
        snprintf(shortcut, sizeof shortcut,
                 ",'shortcut':[{'kind':'conv2d','out':%d,'kernel':1,'stride':%d,'bias':false},"
                 "{'kind':'batch_norm'}]",
                 width, stride);
    return (size_t)snprintf(text, room, resnet_block, width, stride, width, shortcut);
}

/* A ResNet-18 written down layer by layer is the built-in one, to the byte. */
static void a_resnet18_by_its_layers_is_the_built_in_one(void **state)
{
    (void)state;
    char text[8192];
    size_t used = (size_t)snprintf(
        text, sizeof text,
        "{'name':'by hand','input':[3,224,224],'classes':1000,'layers':["
        "{'kind':'conv2d','in':3,'out':64,'kernel':7,'stride':2,'padding':3,'bias':false},"
        "{'kind':'batch_norm'},{'kind':'relu','in_place':true},"
        "{'kind':'max_pool','kernel':3,'stride':2,'padding':1},");
    for (int stage = 0; stage < 4; stage++) {
        used += add_block(text + used, sizeof text - used, 64 << stage, stage == 0 ? 1 : 2);
        used += add_block(text + used, sizeof text - used, 64 << stage, 1);
    }
    snprintf(text + used, sizeof text - used,
             "{'kind':'mean_pool'},{'kind':'linear','in':512,'out':1000}]}");

    vw_plan_model built_in = {.name = "resnet18"};
    assert_true(vw__plan_zoo_find("resnet18", &built_in));
    vw_plan_model *described = vw_test_open_good(text);
    assert_string_equal(described->name, "by hand");
    for (int precision = 0; precision < VW_PRECISION_COUNT; precision++) {
        vw_plan_settings settings = settings_of(16);
        settings.precision = (vw_precision)precision;
        vw__plan_peaks by_hand, known;
        assert_int_equal(run(described, settings, &by_hand), VW_OK);
        assert_int_equal(run(&built_in, settings, &known), VW_OK);
        assert_int_equal(by_hand.parameters, 11689512);
        assert_int_equal(by_hand.weights_bytes, known.weights_bytes);
        assert_int_equal(by_hand.after_forward_bytes, known.after_forward_bytes);
        assert_int_equal(by_hand.peak.live_bytes, known.peak.live_bytes);
    }
    vw_plan_model_close(described);
}

static const char transformer[] =
    "{'input':{'tokens':128},'layers':[{'kind':'embedding','rows':1000,'width':64},"
    "{'kind':'positions','rows':256},{'kind':'dropout','p':0.1},"
    "{'kind':'repeat','count':4,'layers':["
    "{'kind':'residual','layers':[{'kind':'layer_norm'},{'kind':'attention','heads':4,'causal':"
    "true,"
    "'packed':true}]},"
    "{'kind':'residual','layers':[{'kind':'rms_norm'},{'kind':'linear','out':256},{'kind':'gelu'},"
    "{'kind':'linear','out':64}]}]},"
    "{'kind':'layer_norm'},{'kind':'linear','out':1000,'bias':false}],'classes':1000}";

static void every_mode_and_precision_runs(void **state)
{
    (void)state;
    vw_plan_model *model = vw_test_open_good(transformer);
    for (int precision = 0; precision < VW_PRECISION_COUNT; precision++)
        for (int mode = 0; mode < VW_PLAN_MODE_COUNT; mode++)
            for (int attention = 0; attention <= VW_ATTENTION_EAGER; attention++) {
                vw_plan_settings settings = settings_of(4);
                vw__plan_peaks peaks;
                settings.precision = (vw_precision)precision;
                settings.mode = (vw_plan_mode)mode;
                settings.attention = (vw_attention)attention;
                assert_int_equal(run(model, settings, &peaks), VW_OK);
                assert_true(peaks.peak.live_bytes > peaks.weights_bytes);
            }
    vw_plan_model_close(model);
}

static void checkpoints_run_the_rounds_of_a_repeat_again(void **state)
{
    (void)state;
    vw__plan_peaks plain, again;
    vw_plan_model *model = vw_test_open_good(transformer);
    vw_plan_settings settings = settings_of(64);
    assert_int_equal(run(model, settings, &plain), VW_OK);
    settings.checkpointing = VW_CHECKPOINTING_FULL;
    assert_int_equal(run(model, settings, &again), VW_OK);
    assert_true(again.after_forward_bytes < plain.after_forward_bytes);
    assert_true(again.peak.live_bytes < plain.peak.live_bytes);
    vw_plan_model_close(model);

    model = vw_test_open_good("{'input':[8],'layers':[{'kind':'linear','out':8}]}");
    vw_plan *plan = NULL;
    assert_int_equal(vw_plan_make(model, &settings, NULL, &plan), VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "checkpointing: the description has no repeat"));
    vw_plan_model_close(model);
}

/* What it cannot do is not among the offers either. */
static void a_list_without_a_repeat_is_planned(void **state)
{
    (void)state;
    vw_plan_model *model = vw_test_open_good("{'input':[64],'layers':[{'kind':'linear','out':512},"
                                             "{'kind':'relu'},{'kind':'linear','out':10}]}");
    vw_plan_settings settings = settings_of(4096);
    for (int has_card = 0; has_card <= 1; has_card++) {
        vw_plan *plan = NULL;
        settings.card_bytes = has_card == 1 ? UINT64_C(600) << 20 : 0;
        assert_int_equal(vw_plan_make(model, &settings, NULL, &plan), VW_OK);
        for (size_t i = 0; i < plan->choice_count; i++)
            assert_int_equal(plan->choices[i].settings.checkpointing, VW_CHECKPOINTING_NONE);
        vw_plan_free(plan);
    }
    vw_plan_model_close(model);
}

/* Settings may ask for another size than the description's: what fits no more is refused. */
static void another_input_size_gives_other_shapes(void **state)
{
    (void)state;
    vw__plan_peaks small, large;
    vw_plan_settings settings = settings_of(4);
    vw_plan_model *model =
        vw_test_open_good("{'input':[3,32,48],'layers':[{'kind':'conv2d','out':8,"
                          "'kernel':3},{'kind':'mean_pool'}]}");
    assert_int_equal(run(model, settings, &small), VW_OK);
    settings.image = 64;
    assert_int_equal(run(model, settings, &large), VW_OK);
    assert_true(large.peak.live_bytes > small.peak.live_bytes);
    settings.image = 2;
    assert_int_equal(run(model, settings, &large), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "layers[0].kernel"));
    vw_plan_model_close(model);

    settings = settings_of(4);
    settings.sequence = 257;
    model = vw_test_open_good(transformer);
    assert_int_equal(run(model, settings, &large), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "layers[1].rows"));
    vw_plan_model_close(model);
}

static void losses_are_as_written(void **state)
{
    (void)state;
    static const char frame[] = "{'input':[4096],'layers':[{'kind':'linear','out':4096}],"
                                "'loss':'%s'}";
    uint64_t peaks[3];
    static const char *const losses[] = {"mean", "mse", "cross_entropy"};
    for (size_t i = 0; i < 3; i++) {
        char text[256];
        snprintf(text, sizeof text, frame, losses[i]);
        peaks[i] = run_text(text, 256).after_forward_bytes;
    }
    /* mean keeps nothing of its argument; mse that and what was wanted; cross-entropy one copy. */
    assert_int_equal(peaks[1] - peaks[0], 2 * 256 * 4096 * 4);
    assert_true(peaks[2] - peaks[0] >= 256 * 4096 * 4);
    assert_true(peaks[2] < peaks[1]);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void layers_that_do_not_fit_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *input, *layers, *words;
    } cases[] = {
        {"{'tokens':8}", "{'kind':'conv2d','out':8,'kernel':3}",
         "layers[0]: conv2d takes an image, and gets 8 ids"},
        {"{'tokens':8,'width':4}",
         "{'kind':'residual','layers':[{'kind':'relu'},{'kind':'batch_norm'}]}",
         "layers[0].layers[1]: batch_norm takes an image or features, and gets 8 tokens of width "
         "4"},
        {"[3,8,8]", "{'kind':'linear','out':8}",
         "layers[0]: linear takes tokens or features, and gets an image of 3x8x8"},
        {"[3,8,8]", "{'kind':'flatten'},{'kind':'linear','in':100,'out':8}",
         "layers[1].in: expected 192, since features of width 192 comes in, found 100"},
        {"[3,8,8]", "{'kind':'conv2d','out':8,'kernel':9}", "layers[0].kernel: expected one that"},
        {"[3,8,8]", "{'kind':'conv2d','out':8,'kernel':3,'groups':2}",
         "layers[0].groups: expected a divisor of the channels that come in, 3, found 2"},
        {"[4,8,8]", "{'kind':'conv2d','out':7,'kernel':3,'groups':2}",
         "layers[0].groups: expected a divisor of the channels that come out, 7, found 2"},
        {"[3,8,8]", "{'kind':'residual','layers':[{'kind':'conv2d','out':8,'kernel':1}]}",
         "layers[0]: residual adds up two of one shape, and gets an image of 8x8x8 and"},
        {"[8]", "{'kind':'embedding','rows':9,'width':4}",
         "layers[0]: embedding takes ids, and gets features of width 8"},
        {"{'tokens':8}", "{'kind':'relu'}", "layers[0]: relu takes an image, tokens or features"},
        {"{'tokens':8,'width':10}", "{'kind':'attention','heads':3}",
         "layers[0].heads: expected a divisor of the width that comes in, 10, found 3"},
        {"{'tokens':8,'width':12}", "{'kind':'attention','heads':4,'key_heads':3}",
         "layers[0].key_heads: expected a divisor of the heads, 4, found 3"},
        {"[8]", "{'kind':'mean_pool'}", "layers[0]: mean_pool takes an image or tokens"},
        {"{'tokens':8,'width':4}", "{'kind':'positions','rows':7}",
         "layers[0].rows: expected at least one for each of 8 tokens, found 7"},
        {"[3,8,8]", "{'kind':'repeat','count':9,'layers':[{'kind':'max_pool','kernel':2}]}",
         "layers[0].layers[0].kernel: expected one that fits into an image of 3x1x1"},
        {"[3,65536,65536]", "{'kind':'conv2d','out':1,'kernel':1,'padding':9}",
         "layers[0].padding: expected an image of at most 65536 pixels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{'input':%s,'layers':[%s],'loss':'mean'}", cases[i].input,
                 cases[i].layers);
        vw_status expected =
            i + 1 == sizeof cases / sizeof cases[0] ? VW_ERR_UNSUPPORTED : VW_ERR_CORRUPT_FILE;
        vw_test_assert_refused(text, expected, cases[i].words);
    }
}

static void fields_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        vw_status status;
        const char *words;
    } cases[] = {
        {"{'input':[8],'layers':[]}", VW_ERR_CORRUPT_FILE, "layers: expected at least one layer"},
        {"{'layers':[{'kind':'relu'}]}", VW_ERR_CORRUPT_FILE, "input is missing"},
        {"{'input':[],'layers':[{'kind':'relu'}]}", VW_ERR_CORRUPT_FILE,
         "input: expected [channels, height, width] or [width]"},
        {"{'input':[3,70000,2],'layers':[{'kind':'relu'}]}", VW_ERR_UNSUPPORTED,
         "at most 65536 pixels a side"},
        {"{'input':{'tokens':0},'layers':[{'kind':'relu'}]}", VW_ERR_UNSUPPORTED, "input.tokens"},
        {"{'input':{'token':9},'layers':[{'kind':'relu'}]}", VW_ERR_UNSUPPORTED,
         "did you mean tokens?"},
        {"{'input':[8],'layers':[7]}", VW_ERR_CORRUPT_FILE, "layers[0]: expected an object"},
        {"{'input':[8],'layers':[{}]}", VW_ERR_CORRUPT_FILE, "layers[0].kind is missing"},
        {"{'input':[8],'layers':[{'kind':'liner','out':8}]}", VW_ERR_UNSUPPORTED,
         "(perhaps linear)"},
        {"{'input':[8],'layers':[{'kind':'linear'}]}", VW_ERR_CORRUPT_FILE,
         "layers[0].out is missing"},
        {"{'input':[8],'layers':[{'kind':'linear','out':'x'}]}", VW_ERR_CORRUPT_FILE,
         "layers[0].out: expected a whole number"},
        {"{'input':[8],'layers':[{'kind':'linear','out':8,'biass':false}]}", VW_ERR_UNSUPPORTED,
         "layers[0].field \"biass\" is not known; did you mean bias?"},
        {"{'input':[8],'layers':[{'kind':'dropout','p':1.5}]}", VW_ERR_UNSUPPORTED, "layers[0].p"},
        {"{'input':[8],'layers':[{'kind':'relu'}],'loss':'hinge'}", VW_ERR_UNSUPPORTED,
         "loss: expected one of cross_entropy, mse, mean"},
        {"{'input':[8],'layers':[{'kind':'relu'}],'classes':9}", VW_ERR_CORRUPT_FILE,
         "classes: expected as many as the last layer's width, which is 8, found 9"},
        {"{'input':[3,8,8],'layers':[{'kind':'conv_transpose2d','out':4,'kernel':2,'stride':2,"
         "'output_padding':2}]}",
         VW_ERR_CORRUPT_FILE, "layers[0].output_padding: expected less than the stride"},
        {"{'input':[8],'layers':[{'kind':'dense','count':513,'layers':[{'kind':'relu'}]}]}",
         VW_ERR_UNSUPPORTED, "layers[0].count: expected a whole number from 1 to 512"},
        {"{'input':[8],'layers':[{'kind':'relu'}],'optimizer':'sgd'}", VW_ERR_UNSUPPORTED,
         "field \"optimizer\" is not known"},
        {"{'input':{'tokens':4,'width':8},'layers':[{'kind':'attention','heads':4,'key_heads':2,"
         "'packed':true}]}",
         VW_ERR_UNSUPPORTED, "layers[0].key_heads: expected as many as heads"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        vw_test_assert_refused(cases[i].text, cases[i].status, cases[i].words);
}

/* "repeat" of "repeat" of ...: counted, not unfolded. */
static void repeats_do_not_explode(void **state)
{
    (void)state;
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "{'input':[8],'layers':[");
    for (int i = 0; i < 7; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "{'kind':'repeat','count':10000,'layers':[");
    used += (size_t)snprintf(text + used, sizeof text - used, "{'kind':'relu'}");
    for (int i = 0; i < 7; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "]}");
    snprintf(text + used, sizeof text - used, "]}");
    vw_test_assert_refused(text, VW_ERR_UNSUPPORTED,
                           "expected at most 10000 layers with all repeats");

    vw_test_assert_refused(
        "{'input':[8],'layers':[{'kind':'repeat','count':10001,'layers':[{'kind':"
        "'relu'}]}]}",
        VW_ERR_UNSUPPORTED, "layers[0].count");
    assert_int_equal(run_text("{'input':[8],'layers':[{'kind':'repeat','count':9999,'layers':"
                              "[{'kind':'relu'}]}]}",
                              1)
                         .parameters,
                     0);
}

/* A line of 10000 layers is 10000 layers, and two directions make it twice as many. */
static void recurrent_layers_are_counted(void **state)
{
    (void)state;
    static const char *const words = "expected at most 10000 layers with all repeats (and "
                                     "recurrent ones with their layers in each direction)";
    vw_plan_model *model =
        vw_test_open_good("{'input':{'tokens':8,'width':8},'layers':[{'kind':'gru','hidden':8,"
                          "'layers':10000}]}");
    vw_plan_model_close(model);
    vw_test_assert_refused("{'input':{'tokens':8,'width':8},'layers':[{'kind':'lstm','hidden':8,"
                           "'layers':5001,'bidirectional':true}]}",
                           VW_ERR_UNSUPPORTED, words);
    vw_test_assert_refused("{'input':{'tokens':8,'width':8},'layers':[{'kind':'repeat','count':50,"
                           "'layers':[{'kind':'rnn','hidden':8,'layers':201}]}]}",
                           VW_ERR_UNSUPPORTED, words);
}

static void lists_nest_to_a_limit(void **state)
{
    (void)state;
    for (int depth = VW__LAYERS_DEEPEST - 1; depth <= VW__LAYERS_DEEPEST; depth++) {
        char text[2048];
        vw_plan_model *model = NULL;
        size_t used = (size_t)snprintf(text, sizeof text, "{'input':[8],'layers':[");
        for (int i = 0; i < depth; i++)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "{'kind':'residual','layers':[");
        used += (size_t)snprintf(text + used, sizeof text - used, "{'kind':'relu'}");
        for (int i = 0; i < depth; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "]}");
        snprintf(text + used, sizeof text - used, "]}");
        if (depth == VW__LAYERS_DEEPEST) {
            vw_test_assert_refused(text, VW_ERR_UNSUPPORTED,
                                   "expected lists of layers at most 8 deep");
        } else {
            assert_int_equal(vw_test_open_quoted(text, &model), VW_OK);
            vw_plan_model_close(model);
        }
    }
}

/* The largest numbers that are let through add up to a refusal, not to a small plan. */
static void sizes_beyond_everything_are_refused(void **state)
{
    (void)state;
    vw__plan_peaks peaks;
    vw_plan_model *model = vw_test_open_good(
        "{'input':[16777216,65536,65536],'layers':[{'kind':'conv2d','out':16777216,"
        "'kernel':1024,'padding':511},{'kind':'flatten'},{'kind':'linear','out':134217728"
        "}]}");
    vw_plan_settings settings = settings_of(1000000);
    assert_int_equal(run(model, settings, &peaks), VW_ERR_UNSUPPORTED);
    vw_plan_model_close(model);
}

static bool read_and_run(void *context)
{
    (void)context;
    vw_plan_model *model = NULL;
    vw__plan_peaks peaks;
    if (vw_test_open_quoted(transformer, &model) != VW_OK)
        return false;
    vw_status status = run(model, settings_of(2), &peaks);
    vw_plan_model_close(model);
    return status == VW_OK;
}

static void running_out_of_host_memory_leaks_nothing(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(read_and_run, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_counted),
        cmocka_unit_test(attention_may_be_packed_and_share_keys),
        cmocka_unit_test(each_round_of_a_repeat_has_its_own_parameters),
        cmocka_unit_test(layers_keep_what_pytorch_keeps),
        cmocka_unit_test(a_resnet18_by_its_layers_is_the_built_in_one),
        cmocka_unit_test(every_mode_and_precision_runs),
        cmocka_unit_test(checkpoints_run_the_rounds_of_a_repeat_again),
        cmocka_unit_test(a_list_without_a_repeat_is_planned),
        cmocka_unit_test(another_input_size_gives_other_shapes),
        cmocka_unit_test(losses_are_as_written),
        cmocka_unit_test(layers_that_do_not_fit_are_named),
        cmocka_unit_test(fields_are_checked),
        cmocka_unit_test(repeats_do_not_explode),
        cmocka_unit_test(recurrent_layers_are_counted),
        cmocka_unit_test(lists_nest_to_a_limit),
        cmocka_unit_test(sizes_beyond_everything_are_refused),
        cmocka_unit_test(running_out_of_host_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
