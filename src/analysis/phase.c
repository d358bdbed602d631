/* phase.c - the tables of what functions and lines of code say about the phase.
 *
 * The innermost frame that marks a phase decides, with three exceptions. A frame of the backward
 * pass anywhere makes it that, unless the optimizer is at work inside (attribution.c has the same
 * rule, and the reason). A forward pass, or a batch on its way, inside of generate(), of a
 * diffusion pipeline or of an evaluation belongs to those. And a loader may run inside any of them.
 */
#include "analysis/phase.h"

#include <string.h>

#include "base/ascii.h"
#include "base/error.h" /* VW_ASSERT */

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- by file and function -------------------------------------------------------------------- */

/* As in attribution.c: NULL = any. The first that holds is taken; what none knows, attribution.c's
 * table may. */
static const struct {
    vw__phase phase;
    const char *path, *function;
} frame_rules[] = {
    {VW__PHASE_BACKWARD, NULL, "backward"},
    {VW__PHASE_LOADING, NULL, "from_pretrained"},
    {VW__PHASE_LOADING, NULL, "load_state_dict"},
    {VW__PHASE_LOADING, NULL, "load_model"},
    {VW__PHASE_LOADING, NULL, "load_models"},
    {VW__PHASE_LOADING, NULL, "load_models_gpu"},
    {VW__PHASE_LOADING, NULL, "load_weights"},
    {VW__PHASE_LOADING, NULL, "load_checkpoint"},
    {VW__PHASE_LOADING, NULL, "dispatch_model"},
    {VW__PHASE_LOADING, NULL, "_ddp_init_helper"},
    {VW__PHASE_LOADING, "torch/nn/modules/module.py", "convert"},
    {VW__PHASE_LOADING, "torch/nn/modules/module.py", "to"},
    {VW__PHASE_LOADING, "torch/nn/modules/module.py", "cuda"},
    {VW__PHASE_LOADING, "transformers/core_model_loading.py", NULL},
    {VW__PHASE_LOADING, "accelerate/utils/modeling.py", NULL},
    {VW__PHASE_LOADING, "accelerate/big_modeling.py", NULL},
    {VW__PHASE_LOADING, "vllm/model_executor/model_loader/", NULL},
    {VW__PHASE_SAVING, NULL, "save"},
    {VW__PHASE_SAVING, NULL, "_save"},
    {VW__PHASE_SAVING, NULL, "save_pretrained"},
    {VW__PHASE_SAVING, NULL, "save_model"},
    {VW__PHASE_SAVING, NULL, "save_checkpoint"},
    {VW__PHASE_SAVING, NULL, "_save_checkpoint"},
    {VW__PHASE_SAVING, NULL, "state_dict"},
    {VW__PHASE_SAVING, NULL, "_full_state_dict"},
    {VW__PHASE_GENERATE, NULL, "generate"},
    {VW__PHASE_GENERATE, NULL, "beam_search"},
    {VW__PHASE_GENERATE, NULL, "greedy_search"},
    {VW__PHASE_GENERATE, NULL, "inference"},
    {VW__PHASE_GENERATE, NULL, "infer"},
    {VW__PHASE_GENERATE, "transformers/generation/", NULL},
    {VW__PHASE_GENERATE, "transformers/pipelines/", NULL},
    {VW__PHASE_DIFFUSION, "diffusers/pipelines/", NULL},
    {VW__PHASE_DIFFUSION, "k_diffusion/sampling.py", NULL},
    {VW__PHASE_DIFFUSION, "comfy/samplers.py", NULL},
    {VW__PHASE_GENERATE, "text_generation_server/", NULL},
    {VW__PHASE_GENERATE, "vllm/", NULL},
    {VW__PHASE_GENERATE, "sglang/", NULL},
    {VW__PHASE_DATA, NULL, "collate"},
    {VW__PHASE_DATA, NULL, "collate_fn"},
    {VW__PHASE_DATA, NULL, "default_collate"},
    {VW__PHASE_DATA, NULL, "__getitem__"},
    {VW__PHASE_DATA, NULL, "_next_data"},
    {VW__PHASE_OPTIMIZER, "torch/nn/utils/clip_grad.py", NULL},
};

/* Words of a function's name, between underscores: "validation_step", "run_eval". */
static const char *const evaluation_words[] = {
    "eval", "evaluate", "evaluation", "val", "valid", "validate", "validation",
};

/* The same, as whole names: "test_backward" is a test of something else. */
static const char *const evaluation_names[] = {
    "test",         "test_step",       "test_epoch",
    "test_loop",    "prediction_step", "prediction_loop",
    "predict_step", "predict_batch",
};

static bool is_evaluation(const char *function)
{
    const char *name = strrchr(function, '.');
    name = name != NULL ? name + 1 : function;
    for (size_t i = 0; i < COUNT_OF(evaluation_names); i++)
        if (strcmp(name, evaluation_names[i]) == 0)
            return true;
    while (*name != '\0') {
        size_t length = strcspn(name, "_");
        for (size_t i = 0; i < COUNT_OF(evaluation_words); i++)
            if (strlen(evaluation_words[i]) == length &&
                strncasecmp(name, evaluation_words[i], length) == 0)
                return true;
        name += length + (name[length] == '_');
    }
    return false;
}

static vw__phase phase_of_category(vw__category category)
{
    switch (category) {
    case VW__CATEGORY_WEIGHTS:
    case VW__CATEGORY_LOADED:
        return VW__PHASE_LOADING;
    case VW__CATEGORY_OPTIMIZER:
        return VW__PHASE_OPTIMIZER;
    case VW__CATEGORY_FORWARD:
    case VW__CATEGORY_KV_CACHE:
        return VW__PHASE_FORWARD;
    case VW__CATEGORY_GRADIENTS:
    case VW__CATEGORY_BACKWARD:
        return VW__PHASE_BACKWARD;
    case VW__CATEGORY_DATA:
        return VW__PHASE_DATA;
    default:
        return VW__PHASE_OTHER;
    }
}

/* IPython and rich write the class before a function: "Trainer.fit". */
static vw__phase phase_of_frame(const char *function, const char *file, vw__category category)
{
    const char *name = strrchr(function, '.');
    name = name != NULL ? name + 1 : function;
    for (size_t i = 0; i < COUNT_OF(frame_rules); i++)
        if ((frame_rules[i].function == NULL || strcmp(frame_rules[i].function, name) == 0) &&
            (frame_rules[i].path == NULL || vw__attribution_path_has(file, frame_rules[i].path)))
            return frame_rules[i].phase;
    return phase_of_category(category);
}

/* ---- by code --------------------------------------------------------------------------------- */

static const struct {
    vw__phase phase;
    const char *words;
} code_rules[] = {
    {VW__PHASE_BACKWARD, ".backward("},       {VW__PHASE_BACKWARD, "autograd.grad("},
    {VW__PHASE_OPTIMIZER, "optimizer.step("}, {VW__PHASE_OPTIMIZER, "optim.step("},
    {VW__PHASE_OPTIMIZER, "opt.step("},       {VW__PHASE_OPTIMIZER, "scaler.step("},
    {VW__PHASE_OPTIMIZER, "optimizer_step("}, {VW__PHASE_OPTIMIZER, "clip_grad_norm"},
    {VW__PHASE_GENERATE, ".generate("},       {VW__PHASE_LOADING, "from_pretrained("},
    {VW__PHASE_LOADING, "load_state_dict("},  {VW__PHASE_LOADING, "torch.load("},
    {VW__PHASE_LOADING, "load_file("},        {VW__PHASE_SAVING, "torch.save("},
    {VW__PHASE_SAVING, "save_pretrained("},   {VW__PHASE_DATA, "next(iter("},
    {VW__PHASE_DATA, "in enumerate("},
};

/* Tried after the moves to a device: model(x.to(device)) has both. */
static const char *const forward_words[] = {"model(",   "net(",     "self(", "criterion(",
                                            "loss_fn(", "forward(", "F."};

/* What is moved, by a part of its name. */
static const struct {
    vw__phase phase;
    const char *part;
} moved[] = {
    {VW__PHASE_LOADING, "model"},
    {VW__PHASE_LOADING, "net"},
    {VW__PHASE_LOADING, "encoder"},
    {VW__PHASE_LOADING, "decoder"},
    {VW__PHASE_LOADING, "pipe"},
    {VW__PHASE_LOADING, "vae"},
    {VW__PHASE_LOADING, "backbone"},
    {VW__PHASE_LOADING, "module"},
    {VW__PHASE_LOADING, "transformer"},
    {VW__PHASE_DATA, "batch"},
    {VW__PHASE_DATA, "input"},
    {VW__PHASE_DATA, "image"},
    {VW__PHASE_DATA, "img"},
    {VW__PHASE_DATA, "label"},
    {VW__PHASE_DATA, "target"},
    {VW__PHASE_DATA, "data"},
    {VW__PHASE_DATA, "mask"},
    {VW__PHASE_DATA, "ids"},
};

static bool has_part(const char *name, size_t length, const char *part)
{
    size_t part_length = strlen(part);
    for (size_t i = 0; i + part_length <= length; i++)
        if (strncasecmp(name + i, part, part_length) == 0)
            return true;
    return false;
}

static vw__phase phase_of_name(const char *name, size_t length)
{
    for (size_t i = 0; i < COUNT_OF(moved); i++)
        if (has_part(name, length, moved[i].part))
            return moved[i].phase;
    return VW__PHASE_OTHER;
}

/* `NAME.to(device)`, `NAME.cuda()` */
static vw__phase phase_of_move(const char *code)
{
    const char *call = strstr(code, ".cuda(");
    if (call == NULL) {
        call = strstr(code, ".to(");
        if (call != NULL && strstr(call, "device") == NULL && strstr(call, "cuda") == NULL &&
            strstr(call, "rank") == NULL && strstr(call, "gpu") == NULL)
            return VW__PHASE_OTHER; /* to another type */
    }
    if (call == NULL)
        return VW__PHASE_OTHER;
    const char *name = call;
    while (name > code && (vw__ascii_is_name(name[-1]) || name[-1] == '.'))
        name--;
    vw__phase phase = phase_of_name(name, (size_t)(call - name));
    /* model = Net(width).to(device): by what it is called then. */
    const char *sign = strchr(code, '=');
    return phase != VW__PHASE_OTHER || sign == NULL || sign > call
               ? phase
               : phase_of_name(code, (size_t)(sign - code));
}

static vw__phase phase_of_code(const char *code)
{
    bool is_loop = strncmp(code, "for ", 4) == 0;
    for (size_t i = 0; i < COUNT_OF(code_rules); i++)
        if (strstr(code, code_rules[i].words) != NULL &&
            (is_loop || strcmp(code_rules[i].words, "in enumerate(") != 0))
            return code_rules[i].phase;
    if (is_loop && strstr(code, "loader") != NULL)
        return VW__PHASE_DATA;
    vw__phase phase = phase_of_move(code);
    for (size_t i = 0; phase == VW__PHASE_OTHER && i < COUNT_OF(forward_words); i++)
        if (strstr(code, forward_words[i]) != NULL)
            phase = VW__PHASE_FORWARD;
    return phase;
}

/* ---- a stack --------------------------------------------------------------------------------- */

vw__traceback_opinion vw__phase_judge(const vw__traceback_frame *frame)
{
    vw__attribution_frame known = vw__attribution_judge(frame->function, frame->file);
    vw__phase phase = phase_of_frame(frame->function, frame->file, known.category);
    vw__phase by_code = phase_of_code(frame->code);
    bool is_evaluated = is_evaluation(frame->function);
    vw__traceback_opinion opinion = {.is_users = known.is_users};
    /* A call in the code happens inside the function that it is in. */
    if (by_code != VW__PHASE_OTHER && (phase == VW__PHASE_OTHER || known.is_users))
        opinion.mark = (uint8_t)by_code;
    else
        opinion.mark =
            (uint8_t)(phase == VW__PHASE_OTHER && is_evaluated ? VW__PHASE_EVALUATION : phase);
    opinion.marks = (phase != VW__PHASE_OTHER ? UINT32_C(1) << phase : 0) |
                    (by_code != VW__PHASE_OTHER ? UINT32_C(1) << by_code : 0) |
                    (is_evaluated ? UINT32_C(1) << VW__PHASE_EVALUATION : 0);
    return opinion;
}

static bool has(uint32_t marks, vw__phase phase)
{
    return (marks & UINT32_C(1) << phase) != 0;
}

vw__phase vw__phase_of(uint8_t mark, uint32_t marks)
{
    vw__phase phase = mark < VW__PHASE_COUNT ? (vw__phase)mark : VW__PHASE_OTHER;
    if (has(marks, VW__PHASE_BACKWARD) && phase != VW__PHASE_OPTIMIZER)
        return VW__PHASE_BACKWARD;
    bool is_part = phase == VW__PHASE_FORWARD || phase == VW__PHASE_DATA ||
                   phase == VW__PHASE_OTHER || phase == VW__PHASE_EVALUATION ||
                   phase == VW__PHASE_GENERATE;
    if (is_part && has(marks, VW__PHASE_DIFFUSION))
        return VW__PHASE_DIFFUSION;
    if (is_part && has(marks, VW__PHASE_GENERATE))
        return VW__PHASE_GENERATE;
    return is_part && has(marks, VW__PHASE_EVALUATION) ? VW__PHASE_EVALUATION : phase;
}

vw__phase vw__phase_of_context(const vw__attribution *attribution, uint32_t context)
{
    const vw__model *model = attribution->model;
    uint32_t marks = 0;
    uint8_t mark = 0;
    vw__category category = vw__attribution_category(attribution, context);
    if (category == VW__CATEGORY_UNKNOWN)
        return VW__PHASE_OTHER;
    vw__model_stack stack = vw__model_stack_of(model, context);
    for (uint32_t i = stack.count; i-- > 0;) { /* outermost first, as in a traceback */
        const vw__model_frame *frame = &model->frames[model->frame_ids[stack.first + i]];
        const char *function = vw__model_string(model, frame->name);
        const char *file = vw__model_string(model, frame->filename);
        vw__phase phase =
            phase_of_frame(function, file, vw__attribution_judge(function, file).category);
        if (phase == VW__PHASE_OTHER && is_evaluation(function))
            phase = VW__PHASE_EVALUATION;
        mark = phase != VW__PHASE_OTHER ? (uint8_t)phase : mark;
        marks |= phase != VW__PHASE_OTHER ? UINT32_C(1) << phase : 0;
    }
    if (category == VW__CATEGORY_BACKWARD) /* also without a frame: autograd's own threads */
        marks |= UINT32_C(1) << VW__PHASE_BACKWARD;
    return vw__phase_of(mark, marks);
}

bool vw__phase_scales_with_batch(vw__phase phase)
{
    return phase != VW__PHASE_OPTIMIZER && phase != VW__PHASE_LOADING && phase != VW__PHASE_SAVING;
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *vw__phase_name(vw__phase phase)
{
    static const char *const names[] = {
#define PHASE_NAME(upper, name, words) name,
        VW__PHASE_LIST(PHASE_NAME)
#undef PHASE_NAME
    };
    VW_ASSERT((size_t)phase < COUNT_OF(names));
    return names[phase];
}

const char *vw__phase_words(vw__phase phase)
{
    static const char *const texts[] = {
#define PHASE_WORDS(upper, name, words) words,
        VW__PHASE_LIST(PHASE_WORDS)
#undef PHASE_WORDS
    };
    VW_ASSERT((size_t)phase < COUNT_OF(texts));
    return texts[phase];
}
