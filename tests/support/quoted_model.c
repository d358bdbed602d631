/* quoted_model.c - see quoted_model.h. */
#include "support/quoted_model.h"

#include <string.h>

#include "vramwise/plan.h"

#include "support/cmocka_here.h"

vw_status vw_test_open_quoted(const char *text, vw_plan_model **out)
{
    char bytes[8192];
    const size_t length = strlen(text);
    assert_true(length < sizeof bytes);
    for (size_t i = 0; i <= length; i++)
        bytes[i] = text[i] == '\'' ? '"' : text[i];
    return vw__plan_model_open_memory(bytes, length, out);
}

vw_plan_model *vw_test_open_good(const char *text)
{
    vw_plan_model *model = NULL;
    vw_status status = vw_test_open_quoted(text, &model);
    if (status != VW_OK)
        print_error("%s\n", vw_last_error());
    assert_int_equal(status, VW_OK);
    return model;
}

void vw_test_assert_refused(const char *text, vw_status expected, const char *words)
{
    vw_plan_model *model = NULL;
    assert_int_equal(vw_test_open_quoted(text, &model), expected);
    if (strstr(vw_last_error(), words) == NULL)
        print_error("expected \"%s\" in \"%s\"\n", words, vw_last_error());
    assert_non_null(strstr(vw_last_error(), words));
}

vw_plan_settings vw_test_sgd_settings(const vw_plan_model *model, uint64_t batch)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = batch;
    settings.optimizer = VW_OPTIMIZER_SGD;
    *(model->family->has_images ? &settings.image : &settings.sequence) =
        model->family->usual_length(model);
    return settings;
}

vw__plan_peaks vw_test_run_quoted(const char *text, uint64_t batch)
{
    vw__plan_peaks peaks;
    vw_plan_model *model = vw_test_open_good(text);
    const vw_plan_settings settings = vw_test_sgd_settings(model, batch);
    assert_int_equal(vw__plan_simulate(model, &settings, NULL, &peaks, NULL), VW_OK);
    vw_plan_model_close(model);
    return peaks;
}
