/* plan_truth.c - reads measured cases as models and settings. */
#include "support/plan_truth.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "plan/plan_model.h" /* vw__plan_model_open_memory */

/* ---- fields ---------------------------------------------------------------------------------- */

static const char *text_of(const json_t *line, const char *key, const char *otherwise)
{
    const json_t *value = json_object_get(line, key);
    return json_is_string(value) ? json_string_value(value) : otherwise;
}

static uint64_t number_of(const json_t *line, const char *key, uint64_t otherwise)
{
    const json_t *value = json_object_get(line, key);
    return json_is_integer(value) ? (uint64_t)json_integer_value(value) : otherwise;
}

typedef const char *(*name_of)(int value);

static const char *precision_of(int value)
{
    return vw_precision_name((vw_precision)value);
}
static const char *optimizer_of(int value)
{
    return vw_optimizer_name((vw_optimizer)value);
}
static const char *attention_of(int value)
{
    return vw_attention_name((vw_attention)value);
}
static const char *offload_of(int value)
{
    return vw_offload_name((vw_offload)value);
}
static const char *sharding_of(int value)
{
    return vw_sharding_name((vw_sharding)value);
}

/* The enumerator with that name; -1: none. */
static int find(const char *name, name_of namer, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(namer(i), name) == 0)
            return i;
    fprintf(stderr, "\"%s\" is no name of a setting\n", name);
    return -1;
}

/* ---- a case ---------------------------------------------------------------------------------- */

static vw_plan_mode mode_of(const json_t *line)
{
    const char *mode = text_of(line, "mode", "train");
    if (strcmp(mode, "infer") == 0)
        return VW_PLAN_MODE_INFERENCE;
    return strcmp(mode, "grad") == 0 ? VW_PLAN_MODE_KEEP_GRAPH : VW_PLAN_MODE_TRAIN;
}

static bool read_names(const json_t *line, vw_plan_settings *settings)
{
    int precision = find(text_of(line, "prec", "fp32"), precision_of, VW_PRECISION_COUNT);
    int optimizer = find(text_of(line, "opt", "adamw"), optimizer_of, VW_OPTIMIZER_COUNT);
    int attention = find(text_of(line, "attn", "sdpa"), attention_of, VW_ATTENTION_COUNT);
    int offload = find(text_of(line, "offload", "none"), offload_of, VW_OFFLOAD_COUNT);
    int sharding = find(text_of(line, "sharding", "none"), sharding_of, VW_SHARDING_COUNT);
    if (precision < 0 || optimizer < 0 || attention < 0 || offload < 0 || sharding < 0)
        return false;
    settings->precision = (vw_precision)precision;
    settings->optimizer = (vw_optimizer)optimizer;
    settings->attention = (vw_attention)attention;
    settings->offload = (vw_offload)offload;
    settings->sharding = (vw_sharding)sharding;
    return true;
}

static bool read_settings(const json_t *line, bool has_images, vw_plan_settings *settings)
{
    vw_plan_settings_init(settings);
    settings->mode = mode_of(line);
    settings->batch = number_of(line, "B", 1);
    *(has_images ? &settings->image : &settings->sequence) = number_of(line, "T", 0);
    settings->accumulation = number_of(line, "accum", 1);
    settings->checkpointing =
        json_is_true(json_object_get(line, "ckpt")) ? VW_CHECKPOINTING_FULL : VW_CHECKPOINTING_NONE;
    settings->lora_rank = number_of(line, "lora", 0);
    settings->is_quantized = json_is_true(json_object_get(line, "qlora"));
    settings->loss_chunks = number_of(line, "chunks", 0);
    settings->has_master_weights = json_is_true(json_object_get(line, "master"));
    settings->gpus = number_of(line, "gpus", 1);
    settings->generate = number_of(line, "generate", 0);
    settings->card_name = "h200";
    return read_names(line, settings);
}

static bool open_model(const json_t *line, vw_plan_model **out)
{
    const json_t *config = json_object_get(line, "config");
    vw_status status;
    if (json_is_object(config)) {
        char *text = json_dumps(config, 0);
        status = vw__plan_model_open_memory(text, strlen(text), out);
        free(text);
    } else {
        status = vw_plan_model_open(text_of(line, "kind", "?"), out);
    }
    if (status != VW_OK)
        fprintf(stderr, "%s\n", vw_last_error());
    return status == VW_OK;
}

static void name_case(const json_t *line, vw_test_truth *truth)
{
    const vw_plan_settings *s = &truth->settings;
    snprintf(truth->name, sizeof truth->name, "%s, %" PRIu64 " x %" PRIu64 "%s, %s, %s%s%s%s%s",
             text_of(line, "kind", "?"), s->batch, s->image > 0 ? s->image : s->sequence,
             s->accumulation > 1 ? ", accumulated" : "", vw_precision_name(s->precision),
             s->mode == VW_PLAN_MODE_TRAIN ? vw_optimizer_name(s->optimizer)
                                           : vw_plan_mode_name(s->mode),
             s->checkpointing != VW_CHECKPOINTING_NONE ? ", checkpointing" : "",
             s->attention != VW_ATTENTION_SDPA ? ", eager" : "",
             s->offload != VW_OFFLOAD_NONE ? ", offloaded" : "",
             s->sharding != VW_SHARDING_NONE ? ", sharded" : "");
}

/* Without what earlier cases of the same process had left. */
static uint64_t bytes_of(const json_t *line, const char *key)
{
    const uint64_t bytes = number_of(line, key, VW_UNKNOWN);
    return bytes == VW_UNKNOWN ? bytes : bytes - number_of(line, "left_over", 0);
}

static bool read_case(const json_t *line, vw_test_truth *truth)
{
    if (!open_model(line, &truth->model))
        return false;
    if (!read_settings(line, truth->model->family->has_images, &truth->settings)) {
        vw_plan_model_close(truth->model);
        return false;
    }
    name_case(line, truth);
    truth->parameters = number_of(line, "params", VW_UNKNOWN);
    truth->after_forward_bytes = bytes_of(line, "after_forward");
    truth->peak_forward_bytes = bytes_of(line, "peak_forward");
    truth->peak_backward_bytes = bytes_of(line, "peak_backward");
    truth->peak_bytes = bytes_of(line, "peak");
    truth->reserved_bytes = number_of(line, "reserved", VW_UNKNOWN);
    return true;
}

/* ---- a file ---------------------------------------------------------------------------------- */

static bool add_line(const char *text, vw_test_truths *truths)
{
    json_t *line = json_loads(text, 0, NULL);
    vw_test_truth *grown = realloc(truths->cases, (truths->count + 1) * sizeof *truths->cases);
    if (grown != NULL)
        truths->cases = grown;
    bool is_read = grown != NULL && line != NULL && read_case(line, &grown[truths->count]);
    truths->count += is_read;
    json_decref(line);
    return is_read;
}

bool vw_test_read_truths(const char *path, vw_test_truths *truths)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t capacity = 0, number = 0;
    bool is_good = file != NULL;
    while (is_good && getline(&text, &capacity, file) > 0) {
        number++;
        is_good = add_line(text, truths);
    }
    if (!is_good)
        fprintf(stderr, "%s:%zu: expected a measured case\n", path, number);
    free(text);
    if (file != NULL)
        fclose(file);
    return is_good;
}

bool vw_test_read_truth_files(const char *pattern, vw_test_truths *truths)
{
    glob_t files;
    bool is_good = glob(pattern, 0, NULL, &files) == 0;
    for (size_t i = 0; is_good && i < files.gl_pathc; i++)
        is_good = vw_test_read_truths(files.gl_pathv[i], truths);
    globfree(&files);
    return is_good;
}

void vw_test_free_truths(vw_test_truths *truths)
{
    for (size_t i = 0; i < truths->count; i++)
        vw_plan_model_close(truths->cases[i].model);
    free(truths->cases);
    *truths = (vw_test_truths){.count = 0};
}
