/* config_resnet.c - transformers' ResNet: depths, widths, and where the image is halved. */
#include "base/arena.h"
#include "base/error.h"
#include "plan/config_families.h"

enum { STAGES = 4, REDUCTION = 4 };

/* As many numbers as there are stages; missing: left as they are. */
static vw_status read_stages(const vw__config *config, const char *name, uint64_t most,
                             uint64_t numbers[STAGES])
{
    uint64_t read[STAGES];
    size_t count = 0;
    if (!vw__config_has(config, name))
        return VW_OK;
    VW__TRY(vw__config_numbers(config, name, 1, most, STAGES, read, &count));
    if (count != STAGES)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "%s%s: expected %d numbers, one for each stage, found "
                        "%zu",
                        config->place, name, STAGES, count);
    for (size_t i = 0; i < STAGES; i++)
        numbers[i] = read[i];
    return VW_OK;
}

static vw_status read_kind(const vw__config *config, vw_plan_model *model)
{
    static const char *const kinds[] = {"bottleneck", "basic"};
    static const char *const activations[] = {"relu"};
    size_t kind = 0, activation = 0;
    VW__TRY(vw__config_choice_if(config, "layer_type", kinds, 2, &kind));
    VW__TRY(vw__config_choice_if(config, "hidden_act", activations, 1, &activation));
    model->is_bottleneck = kind == 0;
    return VW_OK;
}

static vw_status read_widths(const vw__config *config, const vw_plan_model *model,
                             vw__resnet_stages *stages)
{
    VW__TRY(vw__config_number_if(config, "num_channels", 1, VW__MOST_WIDTH, &stages->colors));
    VW__TRY(vw__config_number_if(config, "embedding_size", 1, VW__MOST_WIDTH, &stages->stem));
    VW__TRY(read_stages(config, "hidden_sizes", VW__MOST_WIDTH, stages->channels));
    for (size_t i = 0; i < STAGES && model->is_bottleneck; i++)
        if (stages->channels[i] % REDUCTION != 0)
            return vw__config_refuse(config, "hidden_sizes", VW_ERR_UNSUPPORTED,
                                     "multiples of %d, by which a bottleneck is narrower",
                                     REDUCTION);
    VW__TRY(vw__config_boolean_if(config, "downsample_in_first_stage", &stages->halves_first));
    return vw__config_boolean_if(config, "downsample_in_bottleneck",
                                 &stages->strides_in_first_conv);
}

vw_status vw__read_resnet(const vw__config *config, vw_plan_model *model)
{
    vw__resnet_stages *stages =
        vw__arena_alloc_array(&model->arena, 1, sizeof *stages, sizeof(uint64_t));
    if (stages == NULL)
        return vw__fail_host_memory(sizeof *stages, "a model's stages");
    *stages = (vw__resnet_stages){.colors = 3, .stem = 64, .channels = {256, 512, 1024, 2048}};
    const uint64_t usual_blocks[STAGES] = {3, 4, 6, 3};
    for (size_t i = 0; i < STAGES; i++)
        model->resnet_blocks[i] = usual_blocks[i];
    model->resnet_groups = 1;
    VW__TRY(read_kind(config, model));
    VW__TRY(read_widths(config, model, stages));
    VW__TRY(read_stages(config, "depths", VW__MOST_LAYERS, model->resnet_blocks));
    model->stages = stages;
    return vw__read_labels(config, &model->classes);
}
