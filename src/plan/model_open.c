/* model_open.c - from what was asked for to a model: a built-in name, a file, a folder, a name of
 * huggingface.co.
 *
 * Built-in names come first, so that `gpt2` means the same in every folder; a folder of that name
 * is ./gpt2. Then files and folders, then snapshots in the hub's cache, which are exact, and last
 * other spellings of built-in names. A file is JSON with a "model_type" or a list of "layers".
 * Other JSON files beside a config.json are often given by mistake: they are recognized by their
 * fields, and named. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "vramwise/plan.h"

#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/nearest_name.h"
#include "plan/config_heads.h"
#include "plan/config_parts.h"
#include "plan/config_precision.h"
#include "plan/config_read.h"
#include "plan/config_refused.h"
#include "plan/config_types.h"
#include "plan/layers.h"
#include "plan/model_hub.h"
#include "plan/plan_model.h"
#include "plan/vision.h"

#define MOST_ARENA_BYTES ((size_t)64 << 20)

/* ---- making and closing ---------------------------------------------------------------------- */

static vw_status make_model(const char *name, vw_plan_model **out)
{
    vw_plan_model *model = vw__host_alloc_zeroed(1, sizeof *model);
    if (model == NULL)
        return vw__fail_host_memory(sizeof *model, "a model");
    vw__arena_init(&model->arena, MOST_ARENA_BYTES);
    model->name = vw__arena_copy(&model->arena, name, strlen(name));
    if (model->name == NULL) {
        vw_plan_model_close(model);
        return vw__fail_host_memory(strlen(name), "a model's name");
    }
    *out = model;
    return VW_OK;
}

void vw_plan_model_close(vw_plan_model *model)
{
    if (model == NULL)
        return;
    vw__arena_deinit(&model->arena);
    vw__host_free(model);
}

/* In the model's arena; NULL: no memory. */
static const char *keep_text(vw_plan_model *model, const char *format, va_list args)
{
    char text[512];
    vsnprintf(text, sizeof text, format, args);
    return vw__arena_copy(&model->arena, text, strlen(text));
}

static vw_status check_text(const char *text)
{
    return text == NULL ? vw__fail_host_memory(0, "a note on a model") : VW_OK;
}

vw_status vw__plan_model_note(vw_plan_model *model, const char *format, ...)
{
    va_list args;
    if (model->note_count == VW__PLAN_MODEL_MOST_NOTES)
        return VW_OK;
    va_start(args, format);
    const char *note = keep_text(model, format, args);
    va_end(args);
    if (note != NULL)
        model->notes[model->note_count++] = note;
    return check_text(note);
}

vw_status vw__plan_model_caution(vw_plan_model *model, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    model->caution = keep_text(model, format, args);
    va_end(args);
    return check_text(model->caution);
}

/* ---- what the file is of --------------------------------------------------------------------- */

/* Files that lie beside config.json, by a field that only they have. */
static const struct neighbour {
    const char *field, *what;
} neighbours[] = {
    {"tokenizer_class", "a tokenizer's configuration; the model's is config.json"},
    {"added_tokens", "a tokenizer; the model's configuration is config.json"},
    {"peft_type", "an adapter's configuration; plan its base model, with LoRA"},
    {"weight_map", "an index of weights; the model's configuration is config.json"},
    {"_from_model_config", "a configuration of generation; the model's is config.json"},
    {"image_processor_type", "an image processor's configuration; the model's is config.json"},
    {"feature_extractor_type", "a feature extractor's configuration; the model's is config.json"},
    {"_class_name", "a configuration of diffusers, which the planner does not know"},
    {"zero_optimization", "a configuration of DeepSpeed; the model's is config.json"},
    {"segments", "a memory snapshot; vramwise stats and doctor read those"},
};

static vw_status refuse_without_type(const vw__config *config)
{
    for (size_t i = 0; i < sizeof neighbours / sizeof neighbours[0]; i++)
        if (vw__config_has(config, neighbours[i].field))
            return vw__fail(VW_ERR_CORRUPT_FILE,
                            "no model's configuration: model_type is missing, and %s says that "
                            "this is %s",
                            neighbours[i].field, neighbours[i].what);
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "no model's configuration: model_type is missing, which every config.json of "
                    "transformers has");
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Proposes no similar type where none is planned: that would be another architecture. */
static vw_status read_part_or_refuse(const vw__config *config, vw_plan_model *model)
{
    bool is_planned = false;
    VW__TRY(vw__config_read_part(config, model, &is_planned));
    return is_planned ? VW_OK : vw__config_refuse_type(config);
}

static vw_status read_model(const vw__config *config, vw_plan_model *model)
{
    const char *name = NULL;
    VW__TRY(vw__config_text_if(config, "model_type", &name));
    if (name == NULL && vw__config_has_list(config, "layers"))
        return vw__layers_read(config, model);
    if (name == NULL)
        return refuse_without_type(config);
    const vw__config_type *type = vw__config_type_find(name);
    if (type == NULL)
        return read_part_or_refuse(config, model);
    VW__TRY(vw__config_type_read(type, config, model));
    VW__TRY(vw__config_read_precision(config, model));
    return vw__config_read_head(config, type, model);
}

/* Closes the file. */
static vw_status open_config(vw__config_file *file, const char *name, vw_plan_model **out)
{
    vw_plan_model *model = NULL;
    const vw__config config = vw__config_root(file);
    vw_status status = make_model(name, &model);
    if (status == VW_OK)
        status = read_model(&config, model);
    vw__config_close(file);
    if (status == VW_OK)
        *out = model;
    else
        vw_plan_model_close(model);
    return status;
}

vw_status vw__plan_model_open_memory(const void *bytes, size_t size_bytes, vw_plan_model **out)
{
    vw__config_file *file;
    VW__TRY(vw__config_open_memory(bytes, size_bytes, &file));
    return open_config(file, "(memory)", out);
}

static vw_status open_file(const char *path, const char *name, vw_plan_model **out)
{
    vw__config_file *file;
    VW__TRY(vw__config_open(path, &file));
    return open_config(file, name, out);
}

static vw_status open_folder(const char *folder, vw_plan_model **out)
{
    struct stat found;
    vw__byte_buffer path;
    vw__byte_buffer_init(&path);
    vw__append_format(&path, "%s/config.json", folder);
    vw_status status;
    if (vw__byte_buffer_has_failed(&path))
        status = vw__fail_host_memory(strlen(folder), "a path");
    else if (stat(vw__byte_buffer_text(&path), &found) != 0 && errno == ENOENT)
        status = vw__fail(VW_ERR_FILE, "%s: the folder holds no config.json", folder);
    else
        status = open_file(vw__byte_buffer_text(&path), folder, out);
    vw__byte_buffer_deinit(&path);
    return status;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *nearest_known(const char *name)
{
    const char *names[256];
    size_t count = 0;
    for (const vw_plan_known_model *known; count < 256 && (known = vw_plan_known(count)) != NULL;)
        names[count++] = known->name;
    return vw__nearest_name(name, names, count);
}

/* Says what to fetch, and where it would be found. */
static vw_status refuse_published(const char *name)
{
    vw_status status;
    vw__byte_buffer cache;
    vw__byte_buffer_init(&cache);
    vw__model_hub_append_cache(&cache);
    if (vw__byte_buffer_has_failed(&cache))
        status = vw__fail_host_memory(strlen(name), "a path in the hub's cache");
    else
        status = vw__fail(VW_ERR_FILE,
                          "%s: not built in, and no snapshot of it is in %s; fetch "
                          "https://huggingface.co/%s/resolve/main/config.json and give that file, "
                          "or run 'hf download %s config.json'",
                          name, vw__byte_buffer_text(&cache), name, name);
    vw__byte_buffer_deinit(&cache);
    return status;
}

/* A missing file, and no name of the hub's. */
static bool is_json(const char *name)
{
    static const char ending[] = ".json";
    const size_t length = strlen(name), size = sizeof ending - 1;
    return length > size && strcmp(name + length - size, ending) == 0;
}

static vw_status refuse_name(const char *name)
{
    if (strchr(name, '/') != NULL && vw__model_hub_is_name(name) && !is_json(name))
        return refuse_published(name);
    const char *nearest = nearest_known(name);
    if (nearest != NULL)
        return vw__fail(VW_ERR_FILE, "%s: neither a built-in model nor a file; did you mean '%s'?",
                        name, nearest);
    return vw__fail(VW_ERR_FILE,
                    "%s: neither a built-in model (vramwise plan --list) nor a file; a model of "
                    "huggingface.co is called ORGANISATION/NAME",
                    name);
}

/* A snapshot of the hub's cache; `*out` is NULL where there is none. */
static vw_status open_snapshot(const char *name, vw_plan_model **out)
{
    vw__byte_buffer path;
    *out = NULL;
    vw__byte_buffer_init(&path);
    vw_status status = vw__model_hub_find(name, &path);
    if (status == VW_OK && vw__byte_buffer_size(&path) > 0)
        status = open_file(vw__byte_buffer_text(&path), name, out);
    if (status == VW_OK && *out != NULL)
        status = vw__plan_model_note(*out, "read from the Hugging Face cache: %s",
                                     vw__byte_buffer_text(&path));
    if (status != VW_OK) {
        vw_plan_model_close(*out);
        *out = NULL;
    }
    vw__byte_buffer_deinit(&path);
    return status;
}

static vw_status open_known(const char *known, const char *name, vw_plan_model **out,
                            bool *is_known)
{
    vw_plan_model found = {.name = NULL}, *model;
    *is_known = known != NULL && vw__plan_zoo_find(known, &found);
    if (!*is_known)
        return VW_OK;
    VW__TRY(make_model(name, &model));
    found.arena = model->arena;
    found.name = model->name;
    *model = found;
    vw_status status = vw__vision_describe(model);
    if (status == VW_OK)
        *out = model;
    else
        vw_plan_model_close(model);
    return status;
}

/* A name that is no file: what the machine has of it, or the built-in model that is published under
 * it. */
static vw_status open_published(const char *name, vw_plan_model **out)
{
    bool is_known = false;
    VW__TRY(open_snapshot(name, out));
    if (*out != NULL)
        return VW_OK;
    const char *known = vw__plan_zoo_name(name);
    VW__TRY(open_known(known, name, out, &is_known));
    if (!is_known)
        return refuse_name(name);
    vw_status status = vw__plan_model_note(
        *out,
        "planned as the built-in %s; the type of its published weights is not built in: "
        "--precision chooses it",
        known);
    if (status != VW_OK)
        vw_plan_model_close(*out);
    return status;
}

vw_status vw_plan_model_open(const char *name_or_path, vw_plan_model **out)
{
    struct stat found;
    bool is_known = false;
    if (name_or_path == NULL || name_or_path[0] == '\0' || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a model's name or a path, and a place for the model");
    VW__TRY(open_known(name_or_path, name_or_path, out, &is_known));
    if (is_known)
        return VW_OK;
    if (strcmp(name_or_path, "-") == 0)
        return open_file("-", "standard input", out);
    const bool is_there = stat(name_or_path, &found) == 0;
    if (!is_there && errno == ENOENT)
        return open_published(name_or_path, out);
    if (is_there && S_ISDIR(found.st_mode))
        return open_folder(name_or_path, out);
    return open_file(name_or_path, name_or_path, out);
}
