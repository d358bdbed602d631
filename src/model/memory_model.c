/* memory_model.c - looking things up in a model, and its end. */
#include "model/memory_model.h"

#include <string.h>

#include "base/error.h" /* VW_ASSERT */
#include "base/host_memory.h"

const char *vw__model_action_name(unsigned action)
{
    static const char *const names[VW__MODEL_ACTION_KINDS] = {
#define VW__ACTION_TEXT(upper, lower) [VW_ACTION_##upper] = #lower,
        VW_ACTION_LIST(VW__ACTION_TEXT)
#undef VW__ACTION_TEXT
            [VW__MODEL_ACTION_ANNOTATE] = "annotate",
        [VW__MODEL_ACTION_OTHER] = "other",
    };
    return action < VW__MODEL_ACTION_KINDS ? names[action] : "other";
}

const char *vw__model_string(const vw__model *model, uint32_t id)
{
    return id != VW__MODEL_NO_STRING ? vw__string_table_get(&model->strings, id).bytes : "";
}

vw__model_stack vw__model_stack_of(const vw__model *model, uint32_t context)
{
    if (context == VW__MODEL_NO_CONTEXT)
        return (vw__model_stack){0, 0};
    VW_ASSERT(context < model->context_count);
    return model->stacks[model->contexts[context]];
}

const vw__model_trace *vw__model_trace_of(const vw__model *model, int device)
{
    for (size_t i = 0; i < model->trace_count; i++)
        if (model->traces[i].device == device)
            return &model->traces[i];
    return NULL;
}

bool vw__model_is_move(const vw__model *model, const vw__model_annotation *annotation,
                       bool *is_return)
{
    /* Version 0.1 was called headroom, and so are the annotations in its recordings. */
    const char *name = vw__model_string(model, annotation->name);
    *is_return = strcmp(name, VW_RETURN_ANNOTATION) == 0 || strcmp(name, "headroom return") == 0;
    return annotation->move.moved_handles != 0 &&
           (*is_return || strcmp(name, VW_SPILL_ANNOTATION) == 0 ||
            strcmp(name, "headroom spill") == 0);
}

size_t vw__model_size_bytes(const vw__model *model)
{
    return sizeof *model + model->arena.held_bytes + model->frame_count * sizeof *model->frames +
           model->frame_id_count * sizeof *model->frame_ids +
           model->stack_count * sizeof *model->stacks +
           model->context_count * sizeof *model->contexts +
           model->note_count * sizeof *model->notes + model->stream_count * sizeof *model->streams +
           model->pool_count * sizeof *model->pools + model->event_count * sizeof *model->events +
           model->trace_count * sizeof *model->traces +
           model->segment_count * sizeof *model->segments +
           model->block_count * sizeof *model->blocks +
           model->annotation_count * sizeof *model->annotations +
           model->settings.entry_count * sizeof *model->settings.entries;
}

void vw__model_destroy(vw__model *model)
{
    if (model == NULL)
        return;
    const void *const arrays[] = {
        model->frames,
        model->frame_ids,
        model->stacks,
        model->contexts,
        model->notes,
        model->streams,
        model->pools,
        model->events,
        model->traces,
        model->segments,
        model->blocks,
        model->annotations,
        model->settings.entries,
        model->slow_play_ns,
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        vw__host_free((void *)(uintptr_t)arrays[i]);
    vw__arena_deinit(&model->arena);
    vw__host_free(model);
}
