/* zoo.c - models by name; they are in zoo.def. */
#include <string.h>

#include "vramwise/plan.h"

#include "base/loose_name.h"
#include "plan/config_types.h"
#include "plan/plan_model.h"
#include "plan/vision.h"

/* The shape has only what differs from the defaults of the type; the two flags are added. */
typedef struct zoo_entry {
    vw_plan_known_model known;
    const char *type; /* model_type of config.json */
    uint64_t hidden, layers, heads, key_heads, head_width, inner, vocabulary, positions;
    uint64_t window, rotary_width, experts, experts_per_token;
    uint64_t token_types, position_offset, patch;
    uint64_t shared_inner, span; /* span: of deberta-v2, with all that goes with it */
    bool is_tied, has_residual_dropout;
    bool is_gated_t5; /* gated ones are not tied */
    vw__plan_resnet resnet;
    vw__vision vision; /* its family is NULL: no model of that kind */
} zoo_entry;

#define MODEL(family_, type_, name_, count_, hidden_, layers_, heads_, key_heads_, head_width_,    \
              inner_, vocabulary_, ...)                                                            \
    {.known = {name_, #family_, UINT64_C(count_)},                                                 \
     .type = #type_,                                                                               \
     .hidden = hidden_,                                                                            \
     .layers = layers_,                                                                            \
     .heads = heads_,                                                                              \
     .key_heads = key_heads_,                                                                      \
     .head_width = head_width_,                                                                    \
     .inner = inner_,                                                                              \
     .vocabulary = vocabulary_,                                                                    \
     .positions = __VA_ARGS__},
#define RESNET(name_, count_, b1, b2, b3, b4, groups_, width_, is_bottleneck_)                     \
    {.known = {name_, "resnet", UINT64_C(count_)},                                                 \
     .type = "resnet",                                                                             \
     .resnet = {.blocks = {b1, b2, b3, b4},                                                        \
                .groups = groups_,                                                                 \
                .width = width_,                                                                   \
                .is_bottleneck = is_bottleneck_,                                                   \
                .colors = 3,                                                                       \
                .stem = 64,                                                                        \
                .channels = {STAGE(0, is_bottleneck_), STAGE(1, is_bottleneck_),                   \
                             STAGE(2, is_bottleneck_), STAGE(3, is_bottleneck_)}}},
#define VISION(family_, name_, count_, kind_, image_, ...)                                         \
    {.known = {name_, #family_, UINT64_C(count_)},                                                 \
     .vision = {.family = &vw__plan_family_##family_,                                              \
                .kind = VW__VISION_##kind_,                                                        \
                .image = image_,                                                                   \
                __VA_ARGS__}},
#define STAGE(number, is_bottleneck_) ((is_bottleneck_) ? 256 << (number) : 64 << (number))

static const zoo_entry zoo[] = {
#include "plan/zoo.def"
};

enum { ZOO_COUNT = sizeof zoo / sizeof zoo[0] };

const vw_plan_known_model *vw_plan_known(size_t number)
{
    return number < ZOO_COUNT ? &zoo[number].known : NULL;
}

static void set_if(uint64_t *number, uint64_t value)
{
    if (value > 0)
        *number = value;
}

static vw__plan_shape shape_of(const zoo_entry *entry, const vw__config_type *type)
{
    enum { IMAGE = 224, LABELS = 1000 };
    vw__plan_shape shape = type->defaults;
    shape.hidden = entry->hidden;
    shape.layers = entry->layers;
    shape.attention.heads = entry->heads;
    shape.attention.key_heads = entry->key_heads;
    shape.attention.head_width = entry->head_width;
    shape.attention.rotary_width = entry->rotary_width;
    shape.attention.window = entry->window;
    shape.mlp.inner = entry->inner;
    shape.mlp.experts = entry->experts;
    shape.mlp.experts_per_token = entry->experts_per_token;
    shape.embedding.vocabulary = entry->vocabulary;
    shape.embedding.positions = entry->positions;
    shape.embedding.position_offset = entry->position_offset;
    set_if(&shape.embedding.token_types, entry->token_types);
    shape.head.is_tied |= entry->is_tied;
    shape.has_residual_dropout |= entry->has_residual_dropout;
    if (type->family->heads[0] == VW_PLAN_HEAD_SEQ2SEQ_LM)
        shape.decoder_layers = entry->layers;
    shape.mlp.shared_inner = entry->shared_inner;
    if (entry->span > 0) {
        shape.attention.span = entry->span;
        shape.attention.has_distance_keys = shape.attention.has_distance_queries = true;
        shape.attention.shares_distance_modules = shape.norm.is_of_distances = true;
    }
    if (entry->is_gated_t5) {
        shape.mlp.is_gated = true;
        shape.mlp.activation = VW__PLAN_ACTIVATION_GELU_NEW;
        shape.head.is_tied = false;
    }
    if (type->family->has_images) {
        shape.embedding.patch = entry->patch;
        shape.embedding.image = entry->patch > 0 ? IMAGE : 0;
        shape.head.labels = LABELS;
    }
    vw__config_complete(&shape);
    return shape;
}

static void fill(const zoo_entry *entry, vw_plan_model *model)
{
    if (entry->vision.family != NULL) {
        model->family = entry->vision.family;
        model->vision = &entry->vision;
        return;
    }
    const vw__config_type *type = vw__config_type_find(entry->type);
    model->family = type->family;
    model->shape = shape_of(entry, type);
    model->resnet = entry->resnet;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* What models are published as, where it is more than their name here. */
static const struct zoo_alias {
    const char *published, *name;
} aliases[] = {
#define ALIAS(published_, name_) {published_, name_},
#include "plan/zoo_names.def"
#undef ALIAS
};

/* Tunings of a model, which have its shape. */
static const char *const endings[] = {
    "-instruct", "-it", "-chat", "-hf", "-chat-hf", "-base", "-deduped", "-uncased",
};

static const zoo_entry *find_published(const char *name, size_t length)
{
    for (size_t i = 0; i < ZOO_COUNT; i++)
        if (vw__loose_name_part_equals(name, length, zoo[i].known.name))
            return &zoo[i];
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (vw__loose_name_part_equals(name, length, aliases[i].published))
            return find_published(aliases[i].name, strlen(aliases[i].name));
    return NULL;
}

static const zoo_entry *find_entry(const char *name)
{
    const char *slash = strrchr(name, '/'); /* behind the organisation */
    const char *published = slash == NULL ? name : slash + 1;
    const size_t length = strlen(published);
    const zoo_entry *entry = find_published(published, length);
    for (size_t i = 0; entry == NULL && i < sizeof endings / sizeof endings[0]; i++) {
        const size_t ending = strlen(endings[i]);
        if (ending < length && vw__loose_name_equals(published + length - ending, endings[i]))
            entry = find_published(published, length - ending);
    }
    return entry;
}

const char *vw__plan_zoo_name(const char *published)
{
    const zoo_entry *entry = find_entry(published);
    return entry == NULL ? NULL : entry->known.name;
}

const vw_plan_known_model *vw_plan_known_find(const char *name)
{
    const zoo_entry *entry = name != NULL ? find_entry(name) : NULL;
    return entry != NULL ? &entry->known : NULL;
}

bool vw__plan_zoo_find(const char *name, vw_plan_model *model)
{
    for (size_t i = 0; i < ZOO_COUNT; i++)
        if (strcmp(zoo[i].known.name, name) == 0) {
            fill(&zoo[i], model);
            return true;
        }
    return false;
}
