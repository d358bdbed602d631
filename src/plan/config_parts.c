/* config_parts.c - where the text part of a model of several parts is, and what it leaves out.
 *
 * Models that see or hear have a language model inside, which holds most of the weights and does
 * most of the work. It is planned as if it were alone; the caution says so. */
#include "plan/config_parts.h"

#include <string.h>

#include "base/error.h"
#include "plan/config_heads.h"
#include "plan/config_precision.h"

/* ---- where it is ----------------------------------------------------------------------------- */

/* Objects that hold the text part, or, as Qwen's thinker, a model that has one. */
static const char *const part_names[] = {
    "text_config", "llm_config", "language_config", "language_model_config", "thinker_config",
};

/* Types of text parts whose layers are those of a type that is planned. With `is_whole` they are
 * types of whole files, whose text part is not in an object of its own. */
static const struct other_name {
    const char *name, *type;
    bool is_whole;
} other_names[] = {
    {"qwen2_vl", "qwen2", true},
    {"qwen2_5_vl", "qwen2", true},
    {"phi3_v", "phi3", true},
    {"llava_llama", "llama", true},
    {"llava_mistral", "mistral", true},
    {"llava_qwen", "qwen2", true},
    {"qwen2_vl_text", "qwen2", false},
    {"qwen2_5_vl_text", "qwen2", false},
    {"qwen2_5_omni_text", "qwen2", false},
    {"qwen3_vl_text", "qwen3", false},
    {"qwen3_vl_moe_text", "qwen3_moe", false},
    {"qwen3_omni_moe_text", "qwen3_moe", false},
    {"gemma3", "gemma3_text", false},
};

static const vw__config_type *find_type(const char *name, bool is_whole)
{
    for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++)
        if (other_names[i].is_whole == is_whole && strcmp(other_names[i].name, name) == 0)
            return vw__config_type_find(other_names[i].type);
    return is_whole ? NULL : vw__config_type_find(name);
}

typedef struct text_part {
    vw__config config;
    const vw__config_type *type; /* NULL: not planned */
    const char *name;            /* of the field; NULL: it is the whole file */
} text_part;

static vw_status find_in(const vw__config *config, const char *name, text_part *found)
{
    vw__config inside;
    const char *type = NULL;
    VW__TRY(vw__config_object(config, name, &inside));
    VW__TRY(vw__config_text_if(&inside, "model_type", &type));
    found->config = inside;
    found->name = name;
    found->type = type == NULL ? NULL : find_type(type, false);
    return VW_OK;
}

/* The first object that is a planned type, or that has one inside. */
static vw_status find_object(const vw__config *config, unsigned depth, text_part *found)
{
    enum { MOST_DEPTH = 2 };
    for (size_t i = 0; i < sizeof part_names / sizeof part_names[0]; i++) {
        if (!vw__config_has_object(config, part_names[i]))
            continue;
        VW__TRY(find_in(config, part_names[i], found));
        if (found->type == NULL && depth < MOST_DEPTH) {
            const vw__config inside = found->config;
            VW__TRY(find_object(&inside, depth + 1, found));
        }
        if (found->type != NULL)
            return VW_OK;
    }
    return VW_OK;
}

static vw_status find_part(const vw__config *config, text_part *found)
{
    const char *type = NULL;
    VW__TRY(find_object(config, 1, found));
    if (found->type != NULL)
        return VW_OK;
    VW__TRY(vw__config_text_if(config, "model_type", &type));
    *found = (text_part){.config = *config, .type = type == NULL ? NULL : find_type(type, true)};
    return VW_OK;
}

/* ---- reading it ------------------------------------------------------------------------------ */

/* Fields that may be the whole model's: types, quantization, and whether the head is tied. */
static vw_status read_shared(const vw__config *whole, const vw__config *part, vw_plan_model *model)
{
    VW__TRY(vw__config_read_precision(part, model));
    if (!vw__config_has(part, "tie_word_embeddings"))
        VW__TRY(vw__config_boolean_if(whole, "tie_word_embeddings", &model->shape.head.is_tied));
    const bool has_precision = model->has_precision;
    const vw_precision precision = model->precision;
    VW__TRY(vw__config_read_precision(whole, model));
    if (has_precision)
        model->precision = precision;
    model->has_precision |= has_precision;
    return VW_OK;
}

vw_status vw__config_read_part(const vw__config *config, vw_plan_model *model, bool *is_planned)
{
    text_part part = {.type = NULL};
    VW__TRY(find_part(config, &part));
    *is_planned = part.type != NULL;
    if (part.type == NULL)
        return VW_OK;
    part.config.is_part = true;
    VW__TRY(vw__config_type_read(part.type, &part.config, model));
    VW__TRY(read_shared(config, &part.config, model));
    if (part.name != NULL)
        VW__TRY(vw__config_read_head(&part.config, part.type, model));
    return vw__plan_model_caution(
        model,
        "planned: the text part alone (%s%sas %s); images, sound and what joins the parts are "
        "missing, in weights and in activations",
        part.name != NULL ? part.name : "", part.name != NULL ? ", " : "", part.type->name);
}

/* ---- what it leaves out ---------------------------------------------------------------------- */

/* As the constructors of the classes of configurations in transformers 4.57 have it. 0: it follows
 * from the other numbers. */
static const struct part_defaults {
    const char *type;
    uint64_t hidden, layers, heads, key_heads, head_width, inner, vocabulary, positions;
} defaults[] = {
    {"llama", 4096, 32, 32, 0, 0, 11008, 32000, 2048},
    {"mistral", 4096, 32, 32, 8, 0, 14336, 32000, 131072},
    {"mixtral", 4096, 32, 32, 8, 0, 14336, 32000, 131072},
    {"qwen2", 4096, 32, 32, 32, 0, 22016, 151936, 32768},
    {"qwen3", 4096, 32, 32, 32, 128, 22016, 151936, 32768},
    {"gemma", 3072, 28, 16, 16, 256, 24576, 256000, 8192},
    {"gemma2", 2304, 26, 8, 4, 256, 9216, 256000, 8192},
    {"gemma3_text", 2304, 26, 8, 4, 256, 9216, 262208, 131072},
    {"phi", 2048, 24, 32, 0, 0, 8192, 51200, 2048},
    {"phi3", 3072, 32, 32, 0, 0, 8192, 32064, 4096},
    {"opt", 768, 12, 12, 0, 0, 3072, 50272, 2048},
    {"t5", 512, 6, 8, 0, 64, 2048, 32128, 0},
    {"cohere2", 8192, 40, 64, 0, 0, 22528, 256000, 8192},
};

void vw__config_part_defaults(const char *type_name, vw__plan_shape *shape)
{
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        const struct part_defaults *row = &defaults[i];
        if (strcmp(row->type, type_name) != 0)
            continue;
        shape->hidden = row->hidden;
        shape->layers = row->layers;
        shape->attention.heads = row->heads;
        shape->attention.key_heads = row->key_heads;
        shape->attention.head_width = row->head_width;
        shape->mlp.inner = row->inner;
        shape->embedding.vocabulary = row->vocabulary;
        shape->embedding.positions = row->positions;
    }
}
