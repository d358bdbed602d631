/* zoo_models.h - built-in models by name, opened once for all tests of a program. */
#ifndef VW_TESTS_ZOO_MODELS_H
#define VW_TESTS_ZOO_MODELS_H

#include <string.h>

#include "vramwise/plan.h"
#include "support/cmocka_here.h"

static struct {
    const char *name;
    vw_plan_model *model;
} zoo_models[16];

static inline const vw_plan_model *zoo_model(const char *name)
{
    size_t i = 0;
    for (; zoo_models[i].name != NULL; i++)
        if (strcmp(zoo_models[i].name, name) == 0)
            return zoo_models[i].model;
    assert_true(i + 1 < sizeof zoo_models / sizeof zoo_models[0]);
    assert_int_equal(vw_plan_model_open(name, &zoo_models[i].model), VW_OK);
    zoo_models[i].name = name;
    return zoo_models[i].model;
}

/* The teardown of the group. */
static inline int close_zoo_models(void **state)
{
    (void)state;
    for (size_t i = 0; zoo_models[i].name != NULL; i++)
        vw_plan_model_close(zoo_models[i].model);
    return 0;
}

#endif /* VW_TESTS_ZOO_MODELS_H */
