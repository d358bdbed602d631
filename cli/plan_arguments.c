/* plan_arguments.c - reads the options of `vramwise plan` as settings. */
#include "plan_arguments.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "recording_command.h"

/* What was given, as words. */
typedef struct given {
    const char *batch, *sequence, *image, *accumulation, *generate, *loss_chunks, *gpus;
    const char *precision, *optimizer, *offload, *checkpointing, *attention, *card;
    const char *lora, *qlora, *lora_targets, *zero, *top, *head, *kv_dtype, *padding;
    const char *batch_now, *sequence_now, *step; /* of a recording */
    bool has_checkpointing, has_master_weights, is_inference, keeps_graph, is_fsdp;
    bool without_loss, has_static_cache, has_fused_loss, has_padding;
} given;

/* ---- one at a time --------------------------------------------------------------------------- */

static bool read_number(const char *command_name, const char *option, const char *text,
                        uint64_t *number)
{
    if (text == NULL || arguments_read_number(text, number))
        return true;
    arguments_refuse(command_name, "--%s: expected a whole number, not '%s'", option, text);
    return false;
}

/* As read_number(), but refuses 0. */
static bool read_count(const char *command_name, const char *option, const char *text,
                       uint64_t *number)
{
    if (!read_number(command_name, option, text, number))
        return false;
    if (text == NULL || *number > 0)
        return true;
    arguments_refuse(command_name, "--%s: expected 1 or more, not 0", option);
    return false;
}

/* Words that people know from elsewhere, and what to say to them. */
static const char *advice_on(const char *option, const char *text)
{
    static const char packed[] =
        "weights in 8 or 4 bits come with the model's file, or with --qlora";
    static const struct {
        const char *option, *word, *advice;
    } known[] = {
        {"precision", "float32", "fp32 is its name here"},
        {"precision", "float16", "fp16 is its name here"},
        {"precision", "half", "fp16 is its name here"},
        {"precision", "bfloat16", "bf16 is its name here"},
        {"precision", "mixed", "amp-bf16 and amp-fp16 are autocast"},
        {"precision", "amp", "amp-bf16 and amp-fp16 are autocast"},
        {"precision", "fp8", packed},
        {"precision", "int8", packed},
        {"precision", "int4", packed},
        {"precision", "nf4", packed},
        {"optimizer", "adam", "adamw takes the same"},
        {"optimizer", "nadam", "adamw takes about the same"},
        {"optimizer", "adamw_torch", "adamw is its name here"},
        {"optimizer", "adamw_torch_fused", "adamw-fused is its name here"},
        {"optimizer", "adamw8bit", "adam8bit takes the same"},
        {"optimizer", "adamw_8bit", "adam8bit takes the same"},
        {"optimizer", "adamw_bnb_8bit", "adam8bit takes the same"},
        {"optimizer", "paged_adamw_8bit", "paged-adam8bit takes the same"},
        {"optimizer", "galore_adamw", "galore is its name here"},
        {"optimizer", "apollo_adamw", "apollo is its name here"},
        {"optimizer", "momentum", "sgd-m is its name here"},
        {"attention", "flash_attention_2", "flash is its name here"},
        {"attention", "flash2", "flash is its name here"},
        {"kv-dtype", "fp32", "auto keeps keys and values as they are computed"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].option, option) == 0 && strcmp(known[i].word, text) == 0)
            return known[i].advice;
    return NULL;
}

static void refuse_word(const char *command_name, const char *option, const char *text,
                        const char *const *names, size_t name_count)
{
    char known[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < name_count && used + strlen(names[i]) + 3 < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "",
                                 names[i]);
    const char *nearest = arguments_nearest(text, names, name_count);
    const char *advice = advice_on(option, text);
    if (advice != NULL)
        arguments_refuse(command_name, "--%s: '%s' is not one of %s; %s", option, text, known,
                         advice);
    else if (nearest != NULL)
        arguments_refuse(command_name, "--%s: '%s' is not one of %s; did you mean '%s'?", option,
                         text, known, nearest);
    else
        arguments_refuse(command_name, "--%s: '%s' is not one of %s", option, text, known);
}

/* The place of `text` among the names. */
static bool read_word(const char *command_name, const char *option, const char *text,
                      const char *const *names, size_t name_count, size_t *place)
{
    for (size_t i = 0; text != NULL && i < name_count; i++)
        if (strcmp(names[i], text) == 0) {
            *place = i;
            return true;
        }
    if (text != NULL)
        refuse_word(command_name, option, text, names, name_count);
    return text == NULL;
}

#define NAME(upper, text) text,

/* One for each enumeration: read_precision() and so on. NULL leaves `*out` as it is. */
#define DEFINE_READER(function, option, type, list, count)                                         \
    static bool function(const char *command_name, const char *text, type *out)                    \
    {                                                                                              \
        static const char *const names[] = {list(NAME)};                                           \
        size_t place = (size_t)*out;                                                               \
        if (!read_word(command_name, option, text, names, count, &place))                          \
            return false;                                                                          \
        *out = (type)place;                                                                        \
        return true;                                                                               \
    }

DEFINE_READER(read_precision, "precision", vw_precision, VW_PRECISION_LIST, VW_PRECISION_COUNT)
DEFINE_READER(read_optimizer, "optimizer", vw_optimizer, VW_OPTIMIZER_LIST, VW_OPTIMIZER_COUNT)
DEFINE_READER(read_attention, "attention", vw_attention, VW_ATTENTION_LIST, VW_ATTENTION_COUNT)
DEFINE_READER(read_offload, "offload", vw_offload, VW_OFFLOAD_LIST, VW_OFFLOAD_COUNT)
DEFINE_READER(read_kv_dtype, "kv-dtype", vw_kv_dtype, VW_KV_DTYPE_LIST, VW_KV_DTYPE_COUNT)
DEFINE_READER(read_head, "head", vw_plan_head, VW_PLAN_HEAD_LIST, VW_PLAN_HEAD_COUNT)

/* full, which is also meant by no value, selective, none, or K: every K-th block. */
static bool read_checkpointing(const char *command_name, const given *words,
                               vw_plan_settings *settings)
{
    const char *text = words->checkpointing != NULL ? words->checkpointing : "full";
    if (!words->has_checkpointing)
        return true;
    if (strcmp(text, "full") == 0)
        settings->checkpointing = VW_CHECKPOINTING_FULL;
    else if (strcmp(text, "selective") == 0)
        settings->checkpointing = VW_CHECKPOINTING_SELECTIVE;
    else if (strcmp(text, "none") == 0)
        settings->checkpointing = VW_CHECKPOINTING_NONE;
    else if (arguments_read_number(text, &settings->checkpoint_every) &&
             settings->checkpoint_every > 0)
        settings->checkpointing = VW_CHECKPOINTING_EVERY;
    else {
        arguments_refuse(command_name,
                         "--checkpointing: expected full, selective, or K for every K-th block, "
                         "not '%s'",
                         text);
        return false;
    }
    return true;
}

/* Alone: to the longest sample of a batch. */
static bool read_padding(const char *command_name, const given *words, vw_plan_settings *settings)
{
    settings->padding = words->has_padding ? 1 : 0;
    return read_count(command_name, "padding", words->padding, &settings->padding);
}

/* ---- several together ------------------------------------------------------------------------ */

static bool read_lengths(const char *command_name, const given *words, vw_plan_settings *settings)
{
    if (words->sequence != NULL && words->image != NULL) {
        arguments_refuse(command_name,
                         "--seq is for models of text, --image for models of images: expected one");
        return false;
    }
    return read_count(command_name, "batch", words->batch, &settings->batch) &&
           read_count(command_name, "seq", words->sequence, &settings->sequence) &&
           read_count(command_name, "image", words->image, &settings->image) &&
           read_count(command_name, "accumulation", words->accumulation, &settings->accumulation) &&
           read_count(command_name, "loss-chunks", words->loss_chunks, &settings->loss_chunks);
}

static bool read_mode(const char *command_name, const given *words, vw_plan_settings *settings)
{
    if (words->is_inference && words->keeps_graph) {
        arguments_refuse(command_name, "--inference keeps no graph: expected it or --keep-graph");
        return false;
    }
    if (words->without_loss && !words->is_inference) {
        arguments_refuse(command_name, "--without-loss goes with --inference: training and "
                                       "--keep-graph have a loss, --generate has none");
        return false;
    }
    if (words->optimizer != NULL &&
        (words->is_inference || words->keeps_graph || words->generate != NULL)) {
        arguments_refuse(command_name, "--%s has no optimizer: expected it or --optimizer",
                         words->keeps_graph    ? "keep-graph"
                         : words->is_inference ? "inference"
                                               : "generate");
        return false;
    }
    settings->without_loss = words->without_loss;
    if (words->is_inference || words->generate != NULL)
        settings->mode = VW_PLAN_MODE_INFERENCE;
    if (words->keeps_graph)
        settings->mode = VW_PLAN_MODE_KEEP_GRAPH;
    return read_count(command_name, "generate", words->generate, &settings->generate);
}

static bool read_lora(const char *command_name, const given *words, vw_plan_settings *settings)
{
    if (words->lora != NULL && words->qlora != NULL) {
        arguments_refuse(command_name,
                         "--qlora is --lora with frozen weights in 4 bits: expected one");
        return false;
    }
    if (words->lora_targets != NULL && words->lora_targets[0] == '\0') {
        arguments_refuse(command_name, "--lora-targets: expected all-linear, or names of modules");
        return false;
    }
    settings->lora_targets = words->lora_targets;
    settings->is_quantized = words->qlora != NULL;
    return read_count(command_name, "lora", words->lora, &settings->lora_rank) &&
           read_count(command_name, "qlora", words->qlora, &settings->lora_rank);
}

static bool read_sharding(const char *command_name, const given *words, vw_plan_settings *settings)
{
    static const char *const levels[] = {"1", "2", "3"};
    size_t place = 0;
    if (words->zero != NULL && words->is_fsdp) {
        arguments_refuse(command_name, "--zero and --fsdp are two ways to share: expected one");
        return false;
    }
    if ((words->zero != NULL || words->is_fsdp) && words->gpus == NULL) {
        arguments_refuse(command_name, "--%s needs --gpus: how many share the model",
                         words->is_fsdp ? "fsdp" : "zero");
        return false;
    }
    if (!read_word(command_name, "zero", words->zero, levels, 3, &place) ||
        !read_count(command_name, "gpus", words->gpus, &settings->gpus))
        return false;
    if (words->zero != NULL)
        settings->sharding = (vw_sharding)((size_t)VW_SHARDING_ZERO_1 + place);
    if (words->is_fsdp)
        settings->sharding = VW_SHARDING_FSDP;
    return true;
}

static bool read_settings(const char *command_name, const given *words, vw_plan_settings *settings)
{
    vw_plan_settings_init(settings);
    settings->has_master_weights = words->has_master_weights;
    settings->has_static_cache = words->has_static_cache;
    settings->has_fused_loss = words->has_fused_loss;
    return read_lengths(command_name, words, settings) &&
           read_mode(command_name, words, settings) &&
           read_precision(command_name, words->precision, &settings->precision) &&
           read_optimizer(command_name, words->optimizer, &settings->optimizer) &&
           read_offload(command_name, words->offload, &settings->offload) &&
           read_attention(command_name, words->attention, &settings->attention) &&
           read_head(command_name, words->head, &settings->head) &&
           read_kv_dtype(command_name, words->kv_dtype, &settings->kv_dtype) &&
           read_checkpointing(command_name, words, settings) &&
           read_padding(command_name, words, settings) &&
           read_lora(command_name, words, settings) &&
           read_sharding(command_name, words, settings) &&
           recording_command_read_card(command_name, words->card, &settings->card_bytes,
                                       &settings->card_name);
}

/* ---- a recording ----------------------------------------------------------------------------- */

/* The first option given that is of models, or NULL. */
static const char *option_of_models(const given *words)
{
    const struct {
        const char *name;
        bool is_given;
    } options[] = {
        {"accumulation", words->accumulation != NULL},
        {"attention", words->attention != NULL},
        {"checkpointing", words->has_checkpointing},
        {"fsdp", words->is_fsdp},
        {"fused-loss", words->has_fused_loss},
        {"generate", words->generate != NULL},
        {"gpus", words->gpus != NULL},
        {"head", words->head != NULL},
        {"image", words->image != NULL},
        {"inference", words->is_inference},
        {"keep-graph", words->keeps_graph},
        {"kv-dtype", words->kv_dtype != NULL},
        {"lora", words->lora != NULL},
        {"lora-targets", words->lora_targets != NULL},
        {"loss-chunks", words->loss_chunks != NULL},
        {"master-weights", words->has_master_weights},
        {"offload", words->offload != NULL},
        {"optimizer", words->optimizer != NULL},
        {"padding", words->has_padding},
        {"precision", words->precision != NULL},
        {"qlora", words->qlora != NULL},
        {"static-cache", words->has_static_cache},
        {"without-loss", words->without_loss},
        {"zero", words->zero != NULL},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].is_given)
            return options[i].name;
    return NULL;
}

/* The option that names the subject, without its dashes. */
static const char *subject_of(const plan_order *order)
{
    return order->from != NULL     ? "from"
           : order->traced != NULL ? "traced"
           : order->script != NULL ? "trace"
           : order->has_list       ? "list"
                                   : "model";
}

static bool check_scaling(const char *command_name, const given *words, const plan_order *order)
{
    const char *other = option_of_models(words);
    const bool has_batch_now = words->batch_now != NULL || order->from == NULL;
    const bool has_length_now =
        words->sequence == NULL || words->sequence_now != NULL || order->from == NULL;
    if (other != NULL)
        arguments_refuse(command_name,
                         "--%s needs --model: with --%s only the batch and the length change",
                         other, subject_of(order));
    else if (!has_batch_now)
        arguments_refuse(command_name, "--from needs --batch-now: the batch that was recorded");
    else if (!has_length_now)
        arguments_refuse(command_name, "--seq needs --seq-now: the length that was recorded");
    return other == NULL && has_batch_now && has_length_now;
}

static bool read_scaling(const char *command_name, const given *words, plan_order *order)
{
    vw_plan_scaling *scaling = &order->scaling;
    vw_plan_settings_init(&order->settings);
    vw_plan_scaling_init(scaling);
    if (!check_scaling(command_name, words, order) ||
        !read_count(command_name, "batch-now", words->batch_now, &scaling->batch_now))
        return false;
    scaling->batch = scaling->batch_now;
    return read_count(command_name, "batch", words->batch, &scaling->batch) &&
           read_count(command_name, "seq-now", words->sequence_now, &scaling->sequence_now) &&
           read_count(command_name, "seq", words->sequence, &scaling->sequence) &&
           read_number(command_name, "step", words->step, &scaling->step) &&
           recording_command_read_card(command_name, words->card, &scaling->card_bytes,
                                       &order->settings.card_name);
}

/* Words that have no sense without a recording. */
static bool check_no_scaling(const char *command_name, const given *words)
{
    const char *name = words->batch_now != NULL      ? "batch-now"
                       : words->sequence_now != NULL ? "seq-now"
                       : words->step != NULL         ? "step"
                                                     : NULL;
    if (name != NULL)
        arguments_refuse(command_name, "--%s needs --from: it describes a recording", name);
    return name == NULL;
}

/* ---- the command line ------------------------------------------------------------------------ */

static bool is_scaled(const plan_order *order)
{
    return order->from != NULL || order->traced != NULL || order->script != NULL;
}

static bool is_empty(const char *text) /* as an unset variable leaves it */
{
    return text != NULL && text[0] == '\0';
}

/* Names of files and models that are there and empty. */
static int check_names(const char *command_name, const plan_order *order)
{
    const struct {
        const char *option, *text;
    } names[] = {{"from", order->from},
                 {"model", order->model},
                 {"trace", order->script},
                 {"traced", order->traced},
                 {"write-trace", order->write}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is_empty(names[i].text))
            return arguments_refuse(command_name, "--%s: the name %sis empty", names[i].option,
                                    names[i].text == order->model ? "" : "of the file ");
    return EXIT_DONE;
}

/* Exactly one subject. */
static int check_one_subject(const char *command_name, const plan_order *order)
{
    int count = (order->model != NULL) + (order->from != NULL) + (order->traced != NULL) +
                (order->script != NULL) + order->has_list;
    if (count == 1)
        return EXIT_DONE;
    if (count == 0)
        return arguments_refuse(command_name,
                                "--model is needed: a config.json, a folder that holds "
                                "one, or a name of --list; or --trace with a script");
    if (order->from != NULL)
        return arguments_refuse(command_name, "--from is a recording in place of a model: expected "
                                              "it, --model or --list");
    if (is_scaled(order))
        return arguments_refuse(command_name,
                                "--%s is a program in place of a model: expected it, --model or "
                                "--list",
                                subject_of(order));
    return arguments_refuse(command_name, "--list shows what is built in: expected it or --model");
}

/* A model, a recording, a trace or the list, and nothing that is no option. */
static int check_subject(const char *command_name, const plan_order *order, int operand_count,
                         const char *operand)
{
    bool has_subject = order->model != NULL || is_scaled(order) || order->has_list;
    if (operand_count > 0 && !has_subject)
        return arguments_refuse(command_name, "unexpected '%s': a model is given with --model",
                                operand);
    if (operand_count > 0 && order->script == NULL)
        return arguments_refuse(command_name,
                                "expected only options, not '%s'; a value of --checkpointing "
                                "follows a '='",
                                operand);
    int exit_status = check_one_subject(command_name, order);
    if (exit_status == EXIT_DONE)
        exit_status = check_names(command_name, order);
    if (exit_status != EXIT_DONE)
        return exit_status;
    if (order->write != NULL && order->from != NULL)
        return arguments_refuse(command_name, "--write-trace needs --model: --from has a recording "
                                              "already");
    if (order->write != NULL && order->has_list)
        return arguments_refuse(command_name, "--write-trace needs --model: there is no step in a "
                                              "list");
    if (order->steps != NULL && order->script == NULL)
        return arguments_refuse(command_name, "--steps needs --trace: it says how many to trace");
    if (order->share != NULL && order->script == NULL)
        return arguments_refuse(command_name, "--share needs --trace: it answers for data that is "
                                              "not there");
    return EXIT_DONE;
}

static bool check_share(const char *command_name, const char *text)
{
    char *end = NULL;
    double share = text != NULL ? strtod(text, &end) : 1.0;
    bool is_share = text == NULL || (end != text && *end == '\0' && share >= 0.0 && share <= 1.0);
    if (!is_share)
        (void)arguments_refuse(command_name, "--share: expected a number from 0 to 1, not '%s'",
                               text);
    return is_share;
}

int plan_arguments_read(int argc, char **argv, plan_order *order)
{
    given words = {.batch = NULL};
    const argument_option options[] = {
        {.name = "accumulation", .value = &words.accumulation},
        {.name = "attention", .value = &words.attention},
        {.name = "batch", .value = &words.batch},
        {.name = "batch-now", .value = &words.batch_now},
        {.name = "card", .value = &words.card},
        {.name = "checkpointing",
         .is_given = &words.has_checkpointing,
         .value = &words.checkpointing},
        {.name = "from", .value = &order->from},
        {.name = "fsdp", .is_given = &words.is_fsdp},
        {.name = "fused-loss", .is_given = &words.has_fused_loss},
        {.name = "generate", .value = &words.generate},
        {.name = "gpus", .value = &words.gpus},
        {.name = "head", .value = &words.head},
        {.name = "image", .value = &words.image},
        {.name = "inference", .is_given = &words.is_inference},
        {.name = "json", .is_given = &order->has_json},
        {.name = "keep-graph", .is_given = &words.keeps_graph},
        {.name = "kv-dtype", .value = &words.kv_dtype},
        {.name = "list", .is_given = &order->has_list},
        {.name = "lora", .value = &words.lora},
        {.name = "lora-targets", .value = &words.lora_targets},
        {.name = "loss-chunks", .value = &words.loss_chunks},
        {.name = "master-weights", .is_given = &words.has_master_weights},
        {.name = "model", .value = &order->model},
        {.name = "offload", .value = &words.offload},
        {.name = "optimizer", .value = &words.optimizer},
        {.name = "padding", .is_given = &words.has_padding, .value = &words.padding},
        {.name = "precision", .value = &words.precision},
        {.name = "qlora", .value = &words.qlora},
        {.name = "seq", .value = &words.sequence},
        {.name = "seq-now", .value = &words.sequence_now},
        {.name = "share", .value = &order->share},
        {.name = "static-cache", .is_given = &words.has_static_cache},
        {.name = "step", .value = &words.step},
        {.name = "steps", .value = &order->steps},
        {.name = "top", .value = &words.top},
        {.name = "trace", .value = &order->script},
        {.name = "traced", .value = &order->traced},
        {.name = "without-loss", .is_given = &words.without_loss},
        {.name = "write-trace", .value = &order->write},
        {.name = "zero", .value = &words.zero},
    };
    int first_operand = 0;
    if (!arguments_parse(options, sizeof options / sizeof options[0], argc, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    int exit_status = check_subject(argv[0], order, argc - first_operand, argv[first_operand]);
    if (exit_status != EXIT_DONE)
        return exit_status;
    uint64_t steps = 1;
    if (!recording_command_read_top(argv[0], words.top, &order->most_rows) ||
        !read_count(argv[0], "steps", order->steps, &steps) || !check_share(argv[0], order->share))
        return EXIT_WRONG_USAGE;
    order->arguments = argv + first_operand;
    order->argument_count = (size_t)(argc - first_operand);
    bool is_read = is_scaled(order) ? read_scaling(argv[0], &words, order)
                                    : check_no_scaling(argv[0], &words) &&
                                          read_settings(argv[0], &words, &order->settings);
    return is_read ? EXIT_DONE : EXIT_WRONG_USAGE;
}
