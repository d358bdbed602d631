/* memory_model.c - looking things up in a model, and its end. */
#include "model/memory_model.h"

#include <string.h>

#include "base/error.h" /* HR_ASSERT */
#include "base/host_memory.h"

const char *hr__model_action_name(unsigned action)
{
    static const char *const names[HR__ACTION_KINDS] = {
#define HR__ACTION_TEXT(upper, lower) [HR_ACTION_##upper] = #lower,
        HR_ACTION_LIST(HR__ACTION_TEXT)
#undef HR__ACTION_TEXT
            [HR__ACTION_ANNOTATE] = "annotate",
        [HR__ACTION_OTHER] = "other",
    };
    return action < HR__ACTION_KINDS ? names[action] : "other";
}

const char *hr__model_string(const hr__model *model, uint32_t id)
{
    return id != HR__NO_STRING ? hr__string_table_get(&model->strings, id).bytes : "";
}

hr__model_stack hr__model_stack_of(const hr__model *model, uint32_t context)
{
    if (context == HR__NO_CONTEXT)
        return (hr__model_stack){0, 0};
    HR_ASSERT(context < model->context_count);
    return model->stacks[model->contexts[context]];
}

const hr__model_trace *hr__model_trace_of(const hr__model *model, int device)
{
    for (size_t i = 0; i < model->trace_count; i++)
        if (model->traces[i].device == device)
            return &model->traces[i];
    return NULL;
}

bool hr__model_is_move(const hr__model *model, const hr__model_annotation *annotation,
                       bool *is_return)
{
    const char *name = hr__model_string(model, annotation->name);
    *is_return = strcmp(name, HR_RETURN_ANNOTATION) == 0;
    return annotation->move.moved_handles != 0 &&
           (*is_return || strcmp(name, HR_SPILL_ANNOTATION) == 0);
}

size_t hr__model_size_bytes(const hr__model *model)
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

void hr__model_destroy(hr__model *model)
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
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        hr__host_free((void *)(uintptr_t)arrays[i]);
    hr__arena_deinit(&model->arena);
    hr__host_free(model);
}
