/* attribution.c - the table of what lines in a stack mean.
 *
 * A stack is read from the innermost frame outwards, and the first frame that a rule knows decides.
 * That order is right because the inner frame is the more specific one: a key/value cache is
 * updated inside a module's forward, and a closure's forward runs inside an optimizer's step().
 *
 * One thing overrides: a frame of autograd anywhere in the stack makes it backward work, since what
 * a checkpoint computes again there has the frames of a forward inside. Only an optimizer keeps its
 * own even then: it may step from a hook of the backward pass.
 *
 * Why is a stack without frames "backward"? autograd runs on threads of its own, which have no
 * Python frame, and no other part of PyTorch allocates without one as much. A recording in which
 * *no* stack has a frame (a C++ program) says nothing, and gets "unknown". Gradients come out of
 * that same work and their stacks cannot be told from the rest of it, so "gradients" is used only
 * where a frame says so.
 *
 * Sizes are not looked at: a 32 MiB block may be cuBLAS's workspace or anyone's. "workspace"
 * therefore needs C++ frames (stacks="all").
 *
 * The user's frames are those that are not in a place where packages are installed, and not native.
 * What we did not do: read `where` off the outermost frames. Launchers are there (torchrun,
 * runpy), while the innermost of the user's own lines is the one that can be changed.
 *
 * Paths are compared by whole folders, with either kind of slash. */
#include "analysis/attribution.h"

#include <string.h>
#include <strings.h> /* strncasecmp */

#include "base/error.h"
#include "base/host_memory.h"

/* The kind of a frame: a category in the low bits (NO_CATEGORY if no rule matches), and flags. */
enum {
    NO_CATEGORY = 31,
    CATEGORY_BITS = 31,
    IS_LIBRARY = 32,
    IS_OVERRIDE = 64, /* decides wherever it is in the stack */
};

_Static_assert((int)VW__CATEGORY_COUNT <= (int)NO_CATEGORY, "categories fit their bits");

/* A rule holds for frames whose file has `path` in it, from the beginning of a folder's or file's
 * name, and whose function is `function`; NULL = any. */
typedef struct frame_rule {
    vw__category category;
    const char *path;
    const char *function;
    bool is_override;
} frame_rule;

/* The first that holds is taken. */
static const frame_rule frame_rules[] = {
    /* loss.backward() and torch.autograd.grad(), and the same of anyone who wraps them. */
    {VW__CATEGORY_BACKWARD, NULL, "backward", true},
    {VW__CATEGORY_BACKWARD, "torch/autograd/__init__.py", "grad", true},
    {VW__CATEGORY_BACKWARD, "torch/autograd/graph.py", "_engine_run_backward", true},
    {VW__CATEGORY_BACKWARD, "torch/utils/checkpoint.py", "unpack_hook", true},
    {VW__CATEGORY_BACKWARD, "torch/utils/checkpoint.py", "recompute_fn", true},

    /* Moving, making and loading modules. */
    {VW__CATEGORY_WEIGHTS, "torch/nn/modules/module.py", "_apply", false},
    {VW__CATEGORY_WEIGHTS, "torch/nn/modules/module.py", "load_state_dict", false},
    {VW__CATEGORY_WEIGHTS, "torch/nn/modules/module.py", "_load_from_state_dict", false},
    {VW__CATEGORY_WEIGHTS, "torch/nn/modules/", "__init__", false},
    {VW__CATEGORY_WEIGHTS, "torch/nn/init.py", NULL, false},
    {VW__CATEGORY_WEIGHTS, "torch/nn/parameter.py", NULL, false},
    {VW__CATEGORY_WEIGHTS, NULL, "reset_parameters", false},
    {VW__CATEGORY_WEIGHTS, "transformers/modeling_utils.py", "from_pretrained", false},
    {VW__CATEGORY_WEIGHTS, "safetensors/torch.py", "load_file", false},

    {VW__CATEGORY_GRADIENTS, "torch/nn/utils/clip_grad.py", NULL, false},
    {VW__CATEGORY_GRADIENTS, "torch/nn/parallel/distributed.py", "_ddp_init_helper", false},
    /* Buckets, in the order in which gradients came in the first step. */
    {VW__CATEGORY_GRADIENTS, "torch/nn/parallel/distributed.py", "_pre_forward", false},

    {VW__CATEGORY_OPTIMIZER, "torch/optim/", NULL, false},
    {VW__CATEGORY_OPTIMIZER, "torch/distributed/optim/", NULL, false},
    {VW__CATEGORY_OPTIMIZER, "torch/amp/grad_scaler.py", "step", false},
    {VW__CATEGORY_OPTIMIZER, "torch/amp/grad_scaler.py", "unscale_", false},
    {VW__CATEGORY_OPTIMIZER, "torch/cuda/amp/grad_scaler.py", "step", false},
    {VW__CATEGORY_OPTIMIZER, "torch/cuda/amp/grad_scaler.py", "unscale_", false},
    {VW__CATEGORY_OPTIMIZER, "bitsandbytes/optim/", NULL, false},
    {VW__CATEGORY_OPTIMIZER, "apex/optimizers/", NULL, false},
    {VW__CATEGORY_OPTIMIZER, "deepspeed/ops/adam/", NULL, false},
    {VW__CATEGORY_OPTIMIZER, "transformers/optimization.py", NULL, false},

    {VW__CATEGORY_KV_CACHE, "transformers/cache_utils.py", NULL, false},

    {VW__CATEGORY_DATA, "torch/utils/data/", NULL, false},
    {VW__CATEGORY_DATA, "accelerate/data_loader.py", NULL, false},
    {VW__CATEGORY_DATA, NULL, "send_to_device", false},
    {VW__CATEGORY_DATA, NULL, "move_data_to_device", false},
    {VW__CATEGORY_DATA, "transformers/trainer.py", "_prepare_input", false},

    {VW__CATEGORY_LOADED, "torch/serialization.py", NULL, false},

    /* Calling a module, or what modules are made of. */
    {VW__CATEGORY_FORWARD, "torch/nn/modules/module.py", "_call_impl", false},
    {VW__CATEGORY_FORWARD, "torch/nn/modules/module.py", "_wrapped_call_impl", false},
    {VW__CATEGORY_FORWARD, "torch/nn/modules/", "forward", false},
    {VW__CATEGORY_FORWARD, "torch/nn/functional.py", NULL, false},
    {VW__CATEGORY_FORWARD, "torch/autograd/function.py", "apply", false},
};

/* The same for native frames, by a part of their name. */
typedef struct native_rule {
    vw__category category;
    const char *part;
    bool is_override;
} native_rule;

static const native_rule native_rules[] = {
    {VW__CATEGORY_WORKSPACE, "Workspace", false},
    {VW__CATEGORY_BACKWARD, "torch::autograd::Engine::", true},
};

/* Folders of which nothing is the user's. */
static const char *const library_paths[] = {
    "site-packages/", "dist-packages/", "torch/", "venv/", ".venv/",
};

/* Parts of paths that no file of the user's has. */
static const char *const library_parts[] = {
    "/lib/python3", "<frozen", "<string>", "<eval_with_key>", "torchinductor_", ".exe/__main__.py",
};

static const char *const native_endings[] = {
    ".so", ".cpp", ".cc", ".c", ".cu", ".cuh", ".h", ".hpp", ".pyx",
};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- frames ---------------------------------------------------------------------------------- */

static bool is_slash(char character)
{
    return character == '/' || character == '\\';
}

/* Returns whether `here` begins with `path`; either kind of slash matches. */
static bool begins_with_path(const char *here, const char *path)
{
    for (; *path != '\0'; here++, path++)
        if (*here != *path && !(is_slash(*here) && is_slash(*path)))
            return false;
    return true;
}

bool vw__attribution_path_has(const char *file, const char *path)
{
    for (const char *here = file; *here != '\0'; here++)
        if ((here == file || is_slash(here[-1])) && begins_with_path(here, path))
            return true;
    return false;
}

static bool has_part(const char *file, const char *part)
{
    for (const char *here = file; *here != '\0'; here++)
        if (begins_with_path(here, part))
            return true;
    return false;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t text_bytes = strlen(text), ending_bytes = strlen(ending);
    return text_bytes >= ending_bytes &&
           memcmp(text + text_bytes - ending_bytes, ending, ending_bytes) == 0;
}

/* "??" is what PyTorch writes where it found no symbol. A library may carry its version behind
 * ".so". */
static bool is_native(const char *file)
{
    if (strcmp(file, "??") == 0 || has_part(file, ".so."))
        return true;
    for (size_t i = 0; i < COUNT_OF(native_endings); i++)
        if (ends_with(file, native_endings[i]))
            return true;
    return false;
}

/* A program without an ending in a folder "bin": what pip makes for `accelerate` or `vllm`. */
static bool is_launcher(const char *file)
{
    size_t name = strlen(file);
    while (name > 0 && !is_slash(file[name - 1]))
        name--;
    return name >= 4 && begins_with_path(file + name - 4, "bin/") &&
           (name == 4 || is_slash(file[name - 5])) && strchr(file + name, '.') == NULL;
}

/* The length of the folder's name that ends right before `end`. */
static size_t folder_bytes(const char *file, const char *end)
{
    const char *first = end;
    while (first > file && !is_slash(first[-1]))
        first--;
    return (size_t)(end - first);
}

/* "C:\\Python310\\lib\\runpy.py", "...\\miniconda3\\lib\\...", "...\\envs\\name\\lib\\...": the
 * interpreter has no "/lib/python3" there. */
static bool is_windows_interpreter(const char *file)
{
    for (const char *lib = strcasestr(file, "\\lib\\"); lib != NULL;
         lib = strcasestr(lib + 1, "\\lib\\")) {
        size_t length = folder_bytes(file, lib);
        const char *name = lib - length;
        bool is_named = length >= 6 && strncasecmp(name, "python", 6) == 0;
        for (size_t i = 0; i + 5 <= length && !is_named; i++)
            is_named = strncasecmp(name + i, "conda", 5) == 0;
        if (is_named || (name > file && folder_bytes(file, name - 1) == 4 &&
                         strncasecmp(name - 5, "envs", 4) == 0))
            return true;
    }
    return false;
}

static bool is_library(const char *file)
{
    if (is_launcher(file) || is_windows_interpreter(file))
        return true;
    for (size_t i = 0; i < COUNT_OF(library_paths); i++)
        if (vw__attribution_path_has(file, library_paths[i]))
            return true;
    for (size_t i = 0; i < COUNT_OF(library_parts); i++)
        if (has_part(file, library_parts[i]))
            return true;
    return false;
}

static uint8_t judge_native(const char *function)
{
    for (size_t i = 0; i < COUNT_OF(native_rules); i++) {
        const native_rule *rule = &native_rules[i];
        if (strstr(function, rule->part) != NULL)
            return (uint8_t)((unsigned)rule->category | IS_LIBRARY |
                             (rule->is_override ? IS_OVERRIDE : 0u));
    }
    return NO_CATEGORY | IS_LIBRARY;
}

/* What a file's name says, whatever the function: a bit for each rule whose path is in it, and the
 * bits below. Many frames share a file, so a recording's are judged once each. */
#define FILE_IS_JUDGED (UINT64_C(1) << 63)
#define FILE_IS_NATIVE (UINT64_C(1) << 62)
#define FILE_IS_LIBRARY (UINT64_C(1) << 61)

_Static_assert(COUNT_OF(frame_rules) <= 61, "the rules fit their bits");

static uint64_t judge_file(const char *file)
{
    if (is_native(file))
        return FILE_IS_JUDGED | FILE_IS_NATIVE;
    uint64_t facts = FILE_IS_JUDGED | (is_library(file) ? FILE_IS_LIBRARY : 0);
    for (size_t i = 0; i < COUNT_OF(frame_rules); i++)
        if (frame_rules[i].path == NULL || vw__attribution_path_has(file, frame_rules[i].path))
            facts |= UINT64_C(1) << i;
    return facts;
}

/* `file` is what judge_file() made of it. */
static uint8_t judge_frame(const char *function, uint64_t file)
{
    if ((file & FILE_IS_NATIVE) != 0)
        return judge_native(function);
    unsigned flags = (file & FILE_IS_LIBRARY) != 0 ? IS_LIBRARY : 0;
    for (size_t i = 0; i < COUNT_OF(frame_rules); i++) {
        const frame_rule *rule = &frame_rules[i];
        if ((file & UINT64_C(1) << i) != 0 &&
            (rule->function == NULL || strcmp(rule->function, function) == 0))
            return (uint8_t)((unsigned)rule->category | flags |
                             (rule->is_override ? IS_OVERRIDE : 0u));
    }
    return (uint8_t)(NO_CATEGORY | flags);
}

/* Fills `kinds`, by frame. false: no memory. */
static bool judge_frames(const vw__model *model, uint8_t *kinds)
{
    size_t string_count = vw__string_table_count(&model->strings);
    uint64_t *files = vw__host_alloc_zeroed(string_count + 1, sizeof *files); /* by string */
    if (files == NULL)
        return false;
    for (size_t i = 0; i < model->frame_count; i++) {
        const vw__model_frame *frame = &model->frames[i];
        bool has_file = frame->filename != VW__MODEL_NO_STRING;
        uint64_t *file = &files[has_file ? frame->filename : string_count];
        if (*file == 0)
            *file = judge_file(vw__model_string(model, frame->filename));
        kinds[i] = judge_frame(vw__model_string(model, frame->name), *file);
    }
    vw__host_free(files);
    return true;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static vw__category judge_stack(const vw__attribution *attribution, vw__model_stack stack)
{
    const uint32_t *frame_ids = attribution->model->frame_ids; /* NULL where no stack has any */
    unsigned decided = NO_CATEGORY;
    for (uint32_t i = 0; i < stack.count; i++) {
        unsigned kind = attribution->frame_kinds[frame_ids[stack.first + i]];
        unsigned category = kind & CATEGORY_BITS;
        if (category == NO_CATEGORY)
            continue;
        if (decided == NO_CATEGORY)
            decided = category;
        bool keeps_its_own = decided == VW__CATEGORY_OPTIMIZER || decided == VW__CATEGORY_WORKSPACE;
        if ((kind & IS_OVERRIDE) != 0 && !keeps_its_own)
            return (vw__category)category;
    }
    return decided == NO_CATEGORY ? VW__CATEGORY_OTHER : (vw__category)decided;
}

static bool has_optimizer_frame(const vw__attribution *attribution, vw__model_stack stack)
{
    const uint32_t *frame_ids = attribution->model->frame_ids; /* NULL where no stack has any */
    for (uint32_t i = 0; i < stack.count; i++)
        if ((attribution->frame_kinds[frame_ids[stack.first + i]] & CATEGORY_BITS) ==
            VW__CATEGORY_OPTIMIZER)
            return true;
    return false;
}

vw_status vw__attribution_init(vw__attribution *attribution, const vw__model *model)
{
    vw__attribution made = {
        .model = model,
        .frame_kinds = vw__host_alloc(model->frame_count),
        .stack_categories = vw__host_alloc(model->stack_count),
        .is_in_optimizer = vw__host_alloc_zeroed(model->stack_count, sizeof(bool)),
    };
    if (made.frame_kinds == NULL || made.stack_categories == NULL || made.is_in_optimizer == NULL ||
        !judge_frames(model, made.frame_kinds)) {
        vw__attribution_deinit(&made);
        return vw__fail_host_memory(model->frame_count + 2 * model->stack_count,
                                    "what the stacks mean");
    }
    for (size_t i = 0; i < model->stack_count; i++) {
        made.stack_categories[i] = (uint8_t)judge_stack(&made, model->stacks[i]);
        made.is_in_optimizer[i] = has_optimizer_frame(&made, model->stacks[i]);
        made.has_optimizer = made.has_optimizer || made.is_in_optimizer[i];
    }
    made.stack_categories[VW__MODEL_EMPTY_STACK] =
        model->frame_id_count != 0 ? VW__CATEGORY_BACKWARD : VW__CATEGORY_UNKNOWN;
    *attribution = made;
    return VW_OK;
}

void vw__attribution_deinit(vw__attribution *attribution)
{
    vw__host_free(attribution->frame_kinds);
    vw__host_free(attribution->stack_categories);
    vw__host_free(attribution->is_in_optimizer);
    memset(attribution, 0, sizeof *attribution);
}

const char *vw__category_name(vw__category category)
{
    static const char *const names[] = {
#define CATEGORY_NAME(upper, text) text,
        VW__CATEGORY_LIST(CATEGORY_NAME)
#undef CATEGORY_NAME
    };
    VW_ASSERT((size_t)category < COUNT_OF(names));
    return names[category];
}

bool vw__attribution_is_users(const vw__attribution *attribution, uint32_t frame)
{
    return (attribution->frame_kinds[frame] & IS_LIBRARY) == 0;
}

vw__attribution_frame vw__attribution_judge(const char *function, const char *file)
{
    unsigned kind = judge_frame(function, judge_file(file)), category = kind & CATEGORY_BITS;
    return (vw__attribution_frame){
        .is_users = (kind & IS_LIBRARY) == 0,
        .category = category == NO_CATEGORY ? VW__CATEGORY_OTHER : (vw__category)category,
    };
}

size_t vw__attribution_where(const vw__attribution *attribution, vw__model_stack stack)
{
    const uint32_t *frame_ids = attribution->model->frame_ids; /* NULL where no stack has any */
    for (uint32_t i = 0; i < stack.count; i++)
        if (vw__attribution_is_users(attribution, frame_ids[stack.first + i]))
            return i;
    return VW__ATTRIBUTION_NO_FRAME;
}

size_t vw__attribution_caller(const vw__attribution *attribution, vw__model_stack stack)
{
    const uint32_t *frame_ids = attribution->model->frame_ids; /* NULL where no stack has any */
    size_t outermost = VW__ATTRIBUTION_NO_FRAME;
    for (uint32_t i = 0; i < stack.count; i++) {
        unsigned kind = attribution->frame_kinds[frame_ids[stack.first + i]];
        if ((kind & CATEGORY_BITS) == VW__CATEGORY_FORWARD && (kind & IS_LIBRARY) != 0)
            outermost = i;
    }
    if (outermost == VW__ATTRIBUTION_NO_FRAME)
        return VW__ATTRIBUTION_NO_FRAME;
    for (size_t i = outermost + 1; i < stack.count; i++)
        if (vw__attribution_is_users(attribution, frame_ids[stack.first + i]))
            return i;
    return VW__ATTRIBUTION_NO_FRAME;
}
