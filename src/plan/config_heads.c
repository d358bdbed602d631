/* config_heads.c - from the name of a class to a head. */
#include "plan/config_heads.h"

#include <stdio.h>
#include <string.h>

/* How names end, the longer of two that fit first; of several for one head, the usual one first. */
static const struct ending {
    const char *text;
    vw_plan_head head;
    bool is_loose; /* other classes end alike (GPT2DoubleHeadsModel): what is before it must fit */
    const char *stem; /* of the one model whose class has that head; NULL: any */
} endings[] = {
    {"ForSequenceClassification", VW_PLAN_HEAD_SEQUENCE_CLASSIFICATION, false, NULL},
    {"ForConditionalGeneration", VW_PLAN_HEAD_SEQ2SEQ_LM, false, NULL},
    {"ForImageClassification", VW_PLAN_HEAD_IMAGE_CLASSIFICATION, false, NULL},
    {"ForTokenClassification", VW_PLAN_HEAD_TOKEN_CLASSIFICATION, false, NULL},
    {"ForQuestionAnswering", VW_PLAN_HEAD_QUESTION_ANSWERING, false, NULL},
    {"ForCausalLM", VW_PLAN_HEAD_CAUSAL_LM, false, NULL},
    {"ForMaskedLM", VW_PLAN_HEAD_MASKED_LM, false, NULL},
    {"LMHeadModel", VW_PLAN_HEAD_CAUSAL_LM, false, NULL},
    {"MTModel", VW_PLAN_HEAD_SEQ2SEQ_LM, false, NULL}, /* Marian's */
    {"EncoderModel", VW_PLAN_HEAD_ENCODER, true, NULL},
    /* Masked words, and whether a sentence follows: a classifier of the first token. */
    {"ForPreTraining", VW_PLAN_HEAD_MASKED_LM, false, "Bert"},
    {"Model", VW_PLAN_HEAD_NONE, true, NULL},
};

enum { LONGEST_CLASS = 80 };

/* NULL: the class is called by no head that is known. `*before` has the length of the rest. */
static const struct ending *find_ending(const char *class_name, size_t *before)
{
    const size_t length = strlen(class_name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t size = strlen(endings[i].text);
        if (length <= size || strcmp(class_name + length - size, endings[i].text) != 0)
            continue;
        *before = length - size;
        return &endings[i];
    }
    return NULL;
}

/* The model's part of its classes' names. */
static size_t stem_length(const vw__config_type *type)
{
    size_t before = strlen(type->class_name);
    (void)find_ending(type->class_name, &before);
    return before;
}

/* The head of a class, or AUTO: it is not known, or this family is not planned with it. */
static vw_plan_head head_of_class(const vw__config_type *type, const char *class_name)
{
    size_t before = 0;
    const struct ending *ending = find_ending(class_name, &before);
    const bool is_of_type =
        before == stem_length(type) && strncmp(class_name, type->class_name, before) == 0;
    const bool is_other =
        ending != NULL && ending->stem != NULL &&
        (before != strlen(ending->stem) || strncmp(class_name, ending->stem, before) != 0);
    if (ending == NULL || (ending->is_loose && !is_of_type) || is_other ||
        !vw__plan_family_has_head(type->family, ending->head))
        return VW_PLAN_HEAD_AUTO;
    return ending->head;
}

/* The class of that type with that head, as transformers calls it. */
static void name_class(const vw__config_type *type, vw_plan_head head, char name[LONGEST_CLASS])
{
    size_t before = 0, i = 0;
    const struct ending *ending = find_ending(type->class_name, &before);
    if (ending == NULL || ending->head != head) {
        while (endings[i].head != head) /* every head is among them */
            i++;
        ending = &endings[i];
    }
    snprintf(name, LONGEST_CLASS, "%.*s%s", (int)stem_length(type), type->class_name, ending->text);
}

static vw_status be_headless(const vw__config_type *type, const char *asked, vw_plan_model *model)
{
    if (!vw__plan_family_has_head(type->family, VW_PLAN_HEAD_NONE))
        return vw__plan_model_caution(model, "the class %.80s is not known: planned as %s", asked,
                                      type->class_name);
    model->head = VW_PLAN_HEAD_NONE;
    return vw__plan_model_caution(
        model,
        "the class %.80s is not known: planned without a head, so that what comes behind the last "
        "hidden states is missing; --head says which one to plan",
        asked);
}

vw_status vw__config_read_head(const vw__config *config, const vw__config_type *type,
                               vw_plan_model *model)
{
    char planned[LONGEST_CLASS];
    const char *asked = vw__config_first_text(config, "architectures");
    const bool has_heads = type->family->heads[0] != VW_PLAN_HEAD_AUTO;
    if (asked == NULL || (!has_heads && strcmp(asked, type->class_name) == 0))
        return VW_OK;
    model->head = head_of_class(type, asked);
    if (model->head == VW_PLAN_HEAD_AUTO)
        return be_headless(type, asked, model);
    name_class(type, model->head, planned);
    if (strcmp(asked, planned) == 0)
        return VW_OK;
    return vw__plan_model_note(model, "planned as %s; the configuration names %.80s", planned,
                               asked);
}
