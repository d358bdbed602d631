/* quoted_model.h - models from JSON that is written with ' in place of ". */
#ifndef VW_TEST_QUOTED_MODEL_H
#define VW_TEST_QUOTED_MODEL_H

#include "plan/plan_run.h"

vw_status vw_test_open_quoted(const char *text, vw_plan_model **out);

/* One that must be good. */
vw_plan_model *vw_test_open_good(const char *text);

/* Fails the test unless it is refused with that status and those words. */
void vw_test_assert_refused(const char *text, vw_status expected, const char *words);

/* One step with SGD, in float32, of the model's own size; and its parameters. */
vw_plan_settings vw_test_sgd_settings(const vw_plan_model *model, uint64_t batch);
vw__plan_peaks vw_test_run_quoted(const char *text, uint64_t batch);

#endif /* VW_TEST_QUOTED_MODEL_H */
