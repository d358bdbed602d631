/* plan_heads.c - which head a model is planned with, and what that means for settings. */
#include "plan/plan_model.h"

bool vw__plan_family_has_head(const vw__plan_family *family, vw_plan_head head)
{
    for (size_t i = 0; i < VW__PLAN_MOST_HEADS && family->heads[i] != VW_PLAN_HEAD_AUTO; i++)
        if (family->heads[i] == head)
            return true;
    return false;
}

vw_plan_head vw__plan_head_of(const vw_plan_model *model, const vw_plan_settings *settings)
{
    if (settings->head != VW_PLAN_HEAD_AUTO)
        return settings->head;
    return model->head != VW_PLAN_HEAD_AUTO ? model->head : (vw_plan_head)model->family->heads[0];
}

bool vw__plan_has_vocabulary_head(const vw_plan_model *model, const vw_plan_settings *settings)
{
    switch (vw__plan_head_of(model, settings)) {
    case VW_PLAN_HEAD_AUTO:
    case VW_PLAN_HEAD_CAUSAL_LM:
    case VW_PLAN_HEAD_MASKED_LM:
    case VW_PLAN_HEAD_SEQ2SEQ_LM:
        return model->shape.embedding.vocabulary > 0;
    default:
        return false;
    }
}
