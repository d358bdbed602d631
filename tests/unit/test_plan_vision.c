/* test_plan_vision.c - models that read images or hear, from config.json and by name: their
 * parameters, as PyTorch counts them, and what is refused. */
#include <string.h>

#include "vramwise/plan.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/quoted_model.h"

/* Counted by transformers 5.17. What is left out has the defaults of transformers' classes. */
static const struct model {
    const char *text;
    uint64_t parameters;
} models[] = {
    {"{'model_type':'clip'}", 151277313},
    {"{'model_type':'clip','text_config':{'hidden_size':512},'vision_config':{'patch_size':32}}",
     151277313},
    {"{'model_type':'siglip'}", 203155970},
    {"{'model_type':'convnext','num_labels':1000}", 28589128},
    {"{'model_type':'convnext','hidden_sizes':[96,192,384,768],'depths':[3,3,9,3]}", 27821666},
    {"{'model_type':'swin','num_labels':1000}", 28288354},
    {"{'model_type':'swin','embed_dim':96,'depths':[2,2,6,2],'num_heads':[3,6,12,24]}", 27520892},
    {"{'model_type':'deit','hidden_size':768,'num_hidden_layers':12,'num_attention_heads':12,"
     "'intermediate_size':3072}",
     85801730},
    {"{'model_type':'dinov2','hidden_size':768,'num_hidden_layers':12,'num_attention_heads':12}",
     85728770},
    {"{'model_type':'dinov2','hidden_size':768,'num_hidden_layers':6,'num_attention_heads':12,"
     "'image_size':518,'patch_size':14,'num_labels':1000}",
     45581032},
    {"{'model_type':'whisper','d_model':384,'encoder_layers':4,'decoder_layers':4,"
     "'encoder_attention_heads':6,'decoder_attention_heads':6,'encoder_ffn_dim':1536,"
     "'decoder_ffn_dim':1536,'vocab_size':51865}",
     37760640},
};

enum { MODELS = sizeof models / sizeof models[0] };

static void parameters_are_as_pytorch_counts_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODELS; i++)
        assert_int_equal(vw_test_run_quoted(models[i].text, 1).parameters, models[i].parameters);
}

/* DINOv2's largest has an MLP with a gate: two thirds as wide, in eights. */
static void a_gated_mlp_is_two_thirds_as_wide(void **state)
{
    (void)state;
    enum { WIDTH = 96, INNER = 256, PATCH = 3 * 14 * 14, TOKENS = 256 };
    const uint64_t norms = 2 * 2 * WIDTH, scales = 2 * WIDTH;
    const uint64_t attention = 4 * (WIDTH * WIDTH + WIDTH);
    const uint64_t mlp = WIDTH * 2 * INNER + 2 * INNER + INNER * WIDTH + WIDTH;
    const uint64_t embedding = 2 * WIDTH + PATCH * WIDTH + WIDTH + (TOKENS + 1) * WIDTH;
    const vw__plan_peaks peaks = vw_test_run_quoted(
        "{'model_type':'dinov2','hidden_size':96,'num_hidden_layers':1,'num_attention_heads':3,"
        "'use_swiglu_ffn':true,'num_labels':10}",
        2);
    assert_int_equal(peaks.parameters, embedding + norms + scales + attention + mlp + 2 * WIDTH +
                                           2 * WIDTH * 10 + 10);
}

static void what_cannot_be_planned_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *words;
    } cases[] = {
        {"{'model_type':'swin','num_heads':[5,6,12,24]}",
         "num_heads: expected divisors of each stage's width"},
        {"{'model_type':'swin','depths':[2,2],'num_heads':[3,6,12]}",
         "num_heads: expected as many numbers as there are depths"},
        {"{'model_type':'convnext','hidden_sizes':[96,192]}",
         "hidden_sizes: expected as many numbers as there are depths"},
        {"{'model_type':'convnext','depths':[4096,1,1,1]}",
         "depths: expected at most 4096 blocks in all"},
        {"{'model_type':'siglip','text_config':{'projection_size':8}}",
         "expected a projection_size that is vision_config's hidden_size"},
        {"{'model_type':'clip','vision_config':{'image_size':100,'patch_size':32}}",
         "vision_config.image_size"},
        {"{'model_type':'clip','text_config':{'hidden_act':'mish'}}", "text_config.hidden_act"},
        {"{'model_type':'whisper','d_model':384,'encoder_layers':4,'decoder_layers':4,"
         "'encoder_attention_heads':6,'decoder_attention_heads':6,'encoder_ffn_dim':1536,"
         "'decoder_ffn_dim':1536,'vocab_size':51865,'scale_embedding':true}",
         "scale_embedding"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vw_plan_model *model = NULL;
        assert_int_not_equal(vw_test_open_quoted(cases[i].text, &model), VW_OK);
        if (strstr(vw_last_error(), cases[i].words) == NULL)
            print_error("expected \"%s\" in \"%s\"\n", cases[i].words, vw_last_error());
        assert_non_null(strstr(vw_last_error(), cases[i].words));
    }
}

/* Dinov2Model is what is published: there is no classifier. */
static void a_class_without_a_head_has_no_classifier(void **state)
{
    (void)state;
    vw__plan_peaks peaks;
    vw_plan_model *model =
        vw_test_open_good("{'model_type':'dinov2','hidden_size':768,'num_hidden_layers':12,"
                          "'num_attention_heads':12,'architectures':['Dinov2Model']}");
    vw_plan_settings settings = vw_test_sgd_settings(model, 1);
    settings.mode = VW_PLAN_MODE_INFERENCE;
    assert_int_equal(vw__plan_simulate(model, &settings, NULL, &peaks, NULL), VW_OK);
    assert_int_equal(peaks.parameters, 85728770 - (2 * 768 * 2 + 2));
    assert_null(model->caution);
    vw_plan_model_close(model);
}

/* Both towers are there, and nothing is said against the class. */
static void a_pair_of_towers_is_the_class_that_its_file_names(void **state)
{
    (void)state;
    vw_plan_model *model = vw_test_open_good("{'model_type':'clip','architectures':['CLIPModel']}");
    assert_null(model->caution);
    assert_int_equal(model->note_count, 0);
    assert_int_equal(model->family->usual_length(model), 77);
    vw_plan_model_close(model);
}

static void checkpoints_make_every_model_smaller(void **state)
{
    (void)state;
    static const char *const names[] = {"efficientnet_b0",    "efficientnet_v2_s", "mobilenet_v2",
                                        "mobilenet_v3_small", "vgg11_bn",          "densenet121"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] + MODELS; i++) {
        vw_plan_model *model = NULL;
        vw__plan_peaks plain, again;
        if (i < MODELS)
            model = vw_test_open_good(models[i].text);
        else
            assert_int_equal(vw_plan_model_open(names[i - MODELS], &model), VW_OK);
        vw_plan_settings settings = vw_test_sgd_settings(model, 4);
        assert_int_equal(vw__plan_simulate(model, &settings, NULL, &plain, NULL), VW_OK);
        settings.checkpointing = VW_CHECKPOINTING_FULL;
        assert_int_equal(vw__plan_simulate(model, &settings, NULL, &again, NULL), VW_OK);
        assert_true(again.after_forward_bytes < plain.after_forward_bytes);
        vw_plan_model_close(model);
    }
}

/* Each kind of setting, to its end: nothing is left behind, and sizes make sense. */
static void every_precision_and_mode_runs(void **state)
{
    (void)state;
    static const vw_precision precisions[] = {VW_PRECISION_FP32, VW_PRECISION_BF16,
                                              VW_PRECISION_AMP_BF16};
    static const vw_plan_mode modes[] = {VW_PLAN_MODE_TRAIN, VW_PLAN_MODE_INFERENCE};
    for (size_t i = 0; i < MODELS; i++)
        for (size_t j = 0; j < 6; j++) {
            vw__plan_peaks peaks;
            vw_plan_model *model = vw_test_open_good(models[i].text);
            vw_plan_settings settings = vw_test_sgd_settings(model, 2);
            settings.precision = precisions[j % 3];
            settings.mode = modes[j / 3];
            assert_int_equal(vw__plan_simulate(model, &settings, NULL, &peaks, NULL), VW_OK);
            assert_true(peaks.peak.live_bytes > peaks.weights_bytes);
            vw_plan_model_close(model);
        }
}

static void images_of_another_size_are_planned_where_pytorch_takes_them(void **state)
{
    (void)state;
    vw_plan_model *model = NULL;
    vw__plan_peaks small, large;
    assert_int_equal(vw_plan_model_open("efficientnet_b0", &model), VW_OK);
    vw_plan_settings settings = vw_test_sgd_settings(model, 2);
    assert_int_equal(settings.image, 224);
    assert_int_equal(vw__plan_simulate(model, &settings, NULL, &small, NULL), VW_OK);
    settings.image = 320;
    assert_int_equal(vw__plan_simulate(model, &settings, NULL, &large, NULL), VW_OK);
    assert_true(large.after_forward_bytes > small.after_forward_bytes);
    vw_plan_model_close(model);
}

static bool open_and_run(void *context)
{
    vw_plan_model *model = NULL;
    vw__plan_peaks peaks;
    const char *name = context;
    vw_status status =
        name[0] == '{' ? vw_test_open_quoted(name, &model) : vw_plan_model_open(name, &model);
    if (status != VW_OK)
        return false;
    const vw_plan_settings settings = vw_test_sgd_settings(model, 1);
    status = vw__plan_simulate(model, &settings, NULL, &peaks, NULL);
    vw_plan_model_close(model);
    return status == VW_OK;
}

static void running_out_of_host_memory_leaks_nothing(void **state)
{
    (void)state;
    static char vgg[] = "vgg11";
    static char clip[] = "{'model_type':'clip','text_config':{'num_hidden_layers':1},"
                         "'vision_config':{'num_hidden_layers':1}}";
    vw_test_sweep_host_memory(open_and_run, vgg);
    vw_test_sweep_host_memory(open_and_run, clip);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_as_pytorch_counts_them),
        cmocka_unit_test(a_gated_mlp_is_two_thirds_as_wide),
        cmocka_unit_test(what_cannot_be_planned_is_refused),
        cmocka_unit_test(a_class_without_a_head_has_no_classifier),
        cmocka_unit_test(a_pair_of_towers_is_the_class_that_its_file_names),
        cmocka_unit_test(checkpoints_make_every_model_smaller),
        cmocka_unit_test(every_precision_and_mode_runs),
        cmocka_unit_test(images_of_another_size_are_planned_where_pytorch_takes_them),
        cmocka_unit_test(running_out_of_host_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
