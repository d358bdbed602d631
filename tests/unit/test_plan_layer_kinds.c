/* test_plan_layer_kinds.c - kinds of layers: their parameters, what comes out of them, and what
 * their derivatives keep. */
#include <stdio.h>
#include <string.h>

#include "plan/layers.h"
#include "plan/op_rnn.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/quoted_model.h"

/* ---- parameters ------------------------------------------------------------------------------ */

static void parameters_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *input, *layers;
        uint64_t parameters;
    } cases[] = {
        {"[2,100]", "{'kind':'conv1d','out':8,'kernel':5},{'kind':'mean_pool'}", 2 * 8 * 5 + 8},
        {"[1,4,8,8]", "{'kind':'conv3d','out':6,'kernel':3},{'kind':'mean_pool'}", 6 * 27 + 6},
        {"[4,8,8]",
         "{'kind':'conv_transpose2d','out':6,'kernel':2,'stride':2,'groups':2},"
         "{'kind':'mean_pool'}",
         4 * 3 * 4 + 6},
        {"[5]", "{'kind':'batch_norm'}", 10},
        {"[5]", "{'kind':'scale'}", 5},
        {"{'tokens':7,'width':4}", "{'kind':'class_token','count':2},{'kind':'first_token'}", 8},
        {"{'tokens':7,'width':8}", "{'kind':'attention_pool','heads':2},{'kind':'first_token'}",
         8 + 4 * (64 + 8)},
        {"[8,4,4]",
         "{'kind':'tokens'},{'kind':'window_attention','heads':2,'window':2,'bias':false},"
         "{'kind':'mean_pool'}",
         4 * 64 + 9 * 2},
        {"[8,4,4]", "{'kind':'tokens'},{'kind':'patch_merging'},{'kind':'mean_pool'}",
         64 + 32 * 16},
        {"{'tokens':7,'width':4}", "{'kind':'lstm','hidden':6},{'kind':'mean_pool'}",
         4 * (6 * 4 + 6 * 6 + 12)},
        {"{'tokens':7,'width':4}",
         "{'kind':'gru','hidden':6,'layers':2,'bidirectional':true},{'kind':'mean_pool'}",
         2 * 3 * (6 * 4 + 6 * 6 + 12) + 2 * 3 * (6 * 12 + 6 * 6 + 12)},
        {"{'tokens':7,'width':4}", "{'kind':'rnn','hidden':6,'bias':false},{'kind':'mean_pool'}",
         6 * 4 + 6 * 6},
        {"[4,8,8]",
         "{'kind':'dense','count':3,'layers':[{'kind':'conv2d','out':2,'kernel':1,'bias':false}]},"
         "{'kind':'mean_pool'}",
         4 * 2 + 6 * 2 + 8 * 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{'input':%s,'layers':[%s]}", cases[i].input, cases[i].layers);
        assert_int_equal(vw_test_run_quoted(text, 2).parameters, cases[i].parameters);
    }
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* What comes out is written into the refusal of a layer that takes only ids. */
static void shapes_follow_from_the_layers(void **state)
{
    (void)state;
    static const struct {
        const char *input, *layers, *out;
    } cases[] = {
        {"[2,100]", "{'kind':'conv1d','out':8,'kernel':5,'stride':2,'padding':2}",
         "a signal of 8x50"},
        {"[2,100]", "{'kind':'max_pool','kernel':4}", "a signal of 2x25"},
        {"[1,4,8,8]", "{'kind':'conv3d','out':6,'kernel':3,'padding':1,'stride':2}",
         "a volume of 6x2x4x4"},
        {"[3,32,32]", "{'kind':'conv2d','out':8,'kernel':3,'dilation':2}", "an image of 8x28x28"},
        {"[3,8,8]", "{'kind':'conv_transpose2d','out':4,'kernel':2,'stride':2}",
         "an image of 4x16x16"},
        {"[3,8,8]",
         "{'kind':'conv_transpose2d','out':4,'kernel':3,'stride':2,'padding':1,"
         "'output_padding':1}",
         "an image of 4x16x16"},
        {"[3,8,8]", "{'kind':'upsample','factor':3}", "an image of 3x24x24"},
        {"[3,9,9]", "{'kind':'adaptive_pool','size':7}", "an image of 3x7x7"},
        {"[3,8,8]", "{'kind':'concat','layers':[{'kind':'conv2d','out':5,'kernel':1}]}",
         "an image of 8x8x8"},
        {"[3,8,8]",
         "{'kind':'multiply','layers':[{'kind':'adaptive_pool','size':1},{'kind':'sigmoid'}]}",
         "an image of 3x8x8"},
        {"[3,8,8]", "{'kind':'tokens'},{'kind':'scale'},{'kind':'image'}", "an image of 3x8x8"},
        {"[3,9,8]", "{'kind':'tokens'},{'kind':'patch_merging'}", "20 tokens of width 6"},
        {"{'tokens':9,'width':4}", "{'kind':'class_token'}", "10 tokens of width 4"},
        {"{'tokens':9,'width':4}", "{'kind':'skip_tokens','count':2}", "7 tokens of width 4"},
        {"{'tokens':9,'width':4}", "{'kind':'swiglu'}", "9 tokens of width 2"},
        {"{'tokens':9,'width':4}", "{'kind':'lstm','hidden':3,'bidirectional':true}",
         "9 tokens of width 6"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024], words[128];
        snprintf(text, sizeof text,
                 "{'input':%s,'layers':[%s,{'kind':'embedding','rows':2,'width':2}]}",
                 cases[i].input, cases[i].layers);
        snprintf(words, sizeof words, "embedding takes ids, and gets %s", cases[i].out);
        vw_test_assert_refused(text, VW_ERR_CORRUPT_FILE, words);
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *input, *layers;
        vw_status status;
        const char *words;
    } cases[] = {
        {"[3,8,8]", "{'kind':'concat','layers':[{'kind':'max_pool','kernel':2}]}",
         VW_ERR_CORRUPT_FILE,
         "layers[0]: concat puts together two that differ in width only, and gets an image of "
         "3x4x4 and, as a shortcut, an image of 3x8x8"},
        {"[3,8,8]", "{'kind':'multiply','layers':[{'kind':'max_pool','kernel':2}]}",
         VW_ERR_CORRUPT_FILE, "multiply takes two of one shape, or one of them with one place"},
        {"[3,8,8]", "{'kind':'dense','count':2,'layers':[{'kind':'max_pool','kernel':2}]}",
         VW_ERR_CORRUPT_FILE, "dense puts together what differs in width only"},
        {"[3,8,8]", "{'kind':'conv1d','out':4,'kernel':3}", VW_ERR_CORRUPT_FILE,
         "conv1d takes a signal, and gets an image of 3x8x8"},
        {"[3,8]", "{'kind':'conv2d','out':4,'kernel':3}", VW_ERR_CORRUPT_FILE,
         "conv2d takes an image, and gets a signal of 3x8"},
        {"{'tokens':9,'width':4}", "{'kind':'image'}", VW_ERR_CORRUPT_FILE,
         "image takes tokens that were the places of an image, and gets 9 tokens of width 4"},
        {"{'tokens':9,'width':4}", "{'kind':'window_attention','heads':2,'window':3}",
         VW_ERR_CORRUPT_FILE, "window_attention takes tokens that were the places of an image"},
        {"{'tokens':9,'width':5}", "{'kind':'swiglu'}", VW_ERR_CORRUPT_FILE,
         "swiglu takes two halves, and gets a width of 5"},
        {"{'tokens':9,'width':4}", "{'kind':'skip_tokens','count':9}", VW_ERR_CORRUPT_FILE,
         "layers[0].count: expected fewer than the 9 tokens that come in, found 9"},
        {"[3,65536,8]", "{'kind':'upsample','factor':2}", VW_ERR_UNSUPPORTED,
         "layers[0].factor: expected an image of at most 65536 pixels a side"},
        {"[8]",
         "{'kind':'repeat','count':60,'layers':[{'kind':'concat','layers':[{'kind':'relu'}]"
         "}]}",
         VW_ERR_UNSUPPORTED, "expected a width of at most 134217728 to come out"},
        {"[16777216,65536,65536,65536]", "{'kind':'flatten'}", VW_ERR_UNSUPPORTED,
         "expected a width of at most 134217728 to come out"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{'input':%s,'layers':[%s]}", cases[i].input, cases[i].layers);
        vw_test_assert_refused(text, cases[i].status, cases[i].words);
    }
}

/* ---- what is kept ---------------------------------------------------------------------------- */

enum { ROW = 64 * 1024 * 4 }; /* of 64 samples with 1024 numbers */

/* Beside weights and cuBLAS' workspaces: what is there when the forward pass has ended. */
static uint64_t kept_by(const char *layers)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{'input':[1024],'layers':[{'kind':'linear','out':1024,'bias':false},%s,"
             "{'kind':'linear','out':1024,'bias':false}],'loss':'mean'}",
             layers);
    const vw__plan_peaks peaks = vw_test_run_quoted(text, 64);
    return peaks.after_forward_bytes - peaks.weights_bytes - (UINT64_C(64) << 20) - 512;
}

/* The input, and what the layers between two products add to it. */
static void layers_keep_what_pytorch_keeps(void **state)
{
    (void)state;
    enum { INPUT = ROW };
    assert_int_equal(kept_by("{'kind':'relu6'}"), INPUT + 2 * ROW);
    assert_int_equal(kept_by("{'kind':'relu6','in_place':true}"), INPUT + 2 * ROW);
    assert_int_equal(kept_by("{'kind':'hardswish','in_place':true}"), INPUT + 2 * ROW);
    assert_int_equal(kept_by("{'kind':'sigmoid'}"), INPUT + ROW);
    assert_int_equal(kept_by("{'kind':'scale'}"), INPUT + 2 * ROW);
    assert_int_equal(kept_by("{'kind':'drop_path'}"), INPUT + ROW + 512);
    assert_int_equal(kept_by("{'kind':'batch_norm'}"), INPUT + 2 * ROW + 2 * 4096);
    /* gate and what it gates; the product */
    assert_int_equal(kept_by("{'kind':'multiply','layers':[{'kind':'sigmoid'}]}"), INPUT + 3 * ROW);
}

/* Without gradients a function in place makes nothing. */
static void in_place_saves_memory_in_inference(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{'input':[3,64,64],'layers':[{'kind':'conv2d','out':64,'kernel':1},{'kind':'silu'},"
        "{'kind':'mean_pool'}]}",
        "{'input':[3,64,64],'layers':[{'kind':'conv2d','out':64,'kernel':1},"
        "{'kind':'silu','in_place':true},{'kind':'mean_pool'}]}"};
    uint64_t peaks_of[2];
    for (size_t i = 0; i < 2; i++) {
        vw__plan_peaks peaks;
        vw_plan_model *model = vw_test_open_good(texts[i]);
        vw_plan_settings settings = vw_test_sgd_settings(model, 8);
        settings.mode = VW_PLAN_MODE_INFERENCE;
        assert_int_equal(vw__plan_simulate(model, &settings, NULL, &peaks, NULL), VW_OK);
        peaks_of[i] = peaks.peak.live_bytes;
        vw_plan_model_close(model);
    }
    /* but for what the mean makes */
    assert_in_range(peaks_of[0] - peaks_of[1], 8 * 64 * 64 * 64 * 4 - 4096, 8 * 64 * 64 * 64 * 4);
}

/* Every step of every layer: gates, state, and an LSTM's cell. */
static void recurrent_layers_keep_their_gates(void **state)
{
    (void)state;
    static const char text[] = "{'input':{'tokens':128,'width':64},'layers':[{'kind':'%s',"
                               "'hidden':256,'layers':2},{'kind':'mean_pool'}],'loss':'mean'}";
    static const struct {
        const char *kind;
        uint64_t kept;
    } cases[] = {{"rnn", 2}, {"gru", 5}, {"lstm", 6}};
    uint64_t before = 0;
    for (size_t i = 0; i < 3; i++) {
        char full[256];
        snprintf(full, sizeof full, text, cases[i].kind);
        const vw__plan_peaks peaks = vw_test_run_quoted(full, 16);
        const uint64_t steps = 16 * 128 * 256 * 2 * 4;
        const uint64_t kept = peaks.after_forward_bytes - peaks.weights_bytes;
        assert_true(kept > cases[i].kept * steps);
        assert_true(kept > before);
        before = kept;
    }
}

/* A U-Net: what goes down is put beside what comes up, and every place has a class. */
static const char u_net[] = "{'input':[1,64,64],'layers':["
                            "{'kind':'conv2d','out':8,'kernel':3,'padding':1},{'kind':'relu'},"
                            "{'kind':'concat','layers':[{'kind':'max_pool','kernel':2},"
                            "{'kind':'conv2d','out':16,'kernel':3,'padding':1},{'kind':'relu'},"
                            "{'kind':'concat','layers':[{'kind':'max_pool','kernel':2},"
                            "{'kind':'conv2d','out':32,'kernel':3,'padding':1},{'kind':'relu'},"
                            "{'kind':'conv_transpose2d','out':16,'kernel':2,'stride':2}]},"
                            "{'kind':'conv2d','out':16,'kernel':3,'padding':1},{'kind':'relu'},"
                            "{'kind':'upsample','factor':2}]},"
                            "{'kind':'conv2d','out':4,'kernel':1}],'classes':4}";

static void a_u_net_is_planned_with_a_class_for_each_place(void **state)
{
    (void)state;
    const vw__plan_peaks peaks = vw_test_run_quoted(u_net, 4);
    assert_int_equal(peaks.parameters, (9 * 8 + 8) + (9 * 8 * 16 + 16) + (9 * 16 * 32 + 32) +
                                           (32 * 16 * 4 + 16) + (9 * 32 * 16 + 16) + (24 * 4 + 4));
}

static void signals_take_the_length_that_is_set(void **state)
{
    (void)state;
    vw__plan_peaks usual, longer;
    vw_plan_model *model = vw_test_open_good(
        "{'input':[2,1000],'layers':[{'kind':'conv1d','out':64,'kernel':3},{'kind':'relu'},"
        "{'kind':'mean_pool'}]}");
    vw_plan_settings settings = vw_test_sgd_settings(model, 4);
    assert_int_equal(settings.sequence, 1000);
    assert_int_equal(vw__plan_simulate(model, &settings, NULL, &usual, NULL), VW_OK);
    settings.sequence = 4000;
    assert_int_equal(vw__plan_simulate(model, &settings, NULL, &longer, NULL), VW_OK);
    assert_true(longer.after_forward_bytes > usual.after_forward_bytes + 3 * 4 * 64 * 998 * 4);
    vw_plan_model_close(model);
}

static bool read_and_run(void *context)
{
    (void)context;
    vw_plan_model *model = NULL;
    vw__plan_peaks peaks;
    if (vw_test_open_quoted(
            "{'input':[3,8,8],'layers':[{'kind':'dense','count':2,'layers':[{'kind':'conv2d',"
            "'out':4,'kernel':1},{'kind':'multiply','layers':[{'kind':'adaptive_pool','size':1},"
            "{'kind':'hardsigmoid'}]}]},{'kind':'tokens'},{'kind':'window_attention','heads':1,"
            "'window':4,'shift':2},{'kind':'patch_merging'},{'kind':'class_token'},"
            "{'kind':'lstm','hidden':4},{'kind':'attention_pool','heads':2},"
            "{'kind':'first_token'}]}",
            &model) != VW_OK)
        return false;
    const vw_plan_settings settings = vw_test_sgd_settings(model, 2);
    vw_status status = vw__plan_simulate(model, &settings, NULL, &peaks, NULL);
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
        cmocka_unit_test(shapes_follow_from_the_layers),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(layers_keep_what_pytorch_keeps),
        cmocka_unit_test(in_place_saves_memory_in_inference),
        cmocka_unit_test(recurrent_layers_keep_their_gates),
        cmocka_unit_test(a_u_net_is_planned_with_a_class_for_each_place),
        cmocka_unit_test(signals_take_the_length_that_is_set),
        cmocka_unit_test(running_out_of_host_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
