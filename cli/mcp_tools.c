/* mcp_tools.c - which tools there are, and how a call becomes a command line.
 *
 * A parameter is an option of the command under its own name, with a hyphen for an underscore; the
 * few that are more than that are in a table below. A value goes into the same word as its option,
 * so it cannot become another one. Options that write, or that name a file, are not among them,
 * unless the file is looked for in the allowed folders. */
#include "mcp_tools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vramwise/plan.h"

#include "command.h"
#include "mcp_child.h"
#include "recording_command.h" /* recording_command_output */

/* ---- the tools ------------------------------------------------------------------------------- */

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define RECORDING                                                                                  \
    {                                                                                              \
        "file", VW_MCP_TEXT, true,                                                                 \
            "A PyTorch memory snapshot (pickle or JSON, plain or compressed), as a path in one "   \
            "of the "                                                                              \
            "folders of this server."                                                              \
    }
#define JSON                                                                                       \
    {                                                                                              \
        "json", VW_MCP_SWITCH, false,                                                              \
            "Answer with one JSON object, sizes in bytes, in place of text."                       \
    }
#define TORCH                                                                                      \
    {                                                                                              \
        "torch", VW_MCP_TEXT, false, "Use the rules of that version of PyTorch, such as 2.4."      \
    }
#define DEVICE                                                                                     \
    {                                                                                              \
        "device", VW_MCP_NUMBER, false, "Which device of the recording; default: the busiest."     \
    }
#define CARD(is_needed)                                                                            \
    {                                                                                              \
        "card", VW_MCP_TEXT, is_needed,                                                            \
            "A GPU by its memory or name: 24GiB, rtx4090, a100-80g, h200."                         \
    }

static const vw_mcp_parameter doctor_parameters[] = {
    {"file", VW_MCP_TEXT, false,
     "An error message, a log or a PyTorch memory snapshot, as a path in one of the folders of "
     "this "
     "server. Either this or text."},
    {"text", VW_MCP_TEXT, false, "The error message or log itself, pasted. Either this or file."},
    CARD(false),
    {"all", VW_MCP_SWITCH, false, "The whole report, with the code of every remedy."},
    TORCH,
    JSON,
};

static const vw_mcp_parameter stats_parameters[] = {
    RECORDING,
    {"top", VW_MCP_NUMBER, false, "The N largest users of memory; default 10, 0 for all."},
    {"stacks", VW_MCP_SWITCH, false, "Also the innermost frames of each user."},
    JSON,
};

static const vw_mcp_parameter replay_parameters[] = {
    RECORDING,
    {"policy", VW_MCP_TEXT, false,
     "A comma-separated list of native, expandable, recorded, vramwise; default: all four."},
    {"conf", VW_MCP_TEXT, false, "A setting of PYTORCH_CUDA_ALLOC_CONF to try."},
    CARD(false),
    {"smallest_card", VW_MCP_SWITCH, false, "Also find the smallest card for each setting."},
    {"spill", VW_MCP_TEXT, false, "Let live memory go to so much host memory: 32GiB."},
    {"stream", VW_MCP_SWITCH, false, "With spill: data leaves and returns beside the computation."},
    {"empty_cache", VW_MCP_TEXT, false,
     "Call empty_cache() at every step, phase, or N-th step; or never: leave out recorded calls."},
    TORCH,
    DEVICE,
    JSON,
};

static const vw_mcp_parameter tune_parameters[] = {RECORDING, CARD(true), TORCH, DEVICE, JSON};

static const vw_mcp_parameter plan_parameters[] = {
    {"model", VW_MCP_TEXT, false,
     "A built-in model: gpt2, llama-3-8b, qwen2.5-7b, bert-base, resnet50, ... Or config, or "
     "from."},
    {"config", VW_MCP_TEXT, false,
     "The config.json of a model, as a path in one of the folders of this server."},
    {"from", VW_MCP_TEXT, false,
     "A recording to scale to another batch, as a path in one of the folders; needs batch_now."},
    {"batch_now", VW_MCP_NUMBER, false, "With from: samples of the recorded step."},
    {"seq_now", VW_MCP_NUMBER, false, "With from: tokens of a sample of the recorded step."},
    {"batch", VW_MCP_NUMBER, false, "Samples of a micro-batch on one GPU; default 1."},
    {"seq", VW_MCP_NUMBER, false, "Tokens of a sample; default: the model's own."},
    {"image", VW_MCP_NUMBER, false, "Pixels of a side, for a model of images."},
    CARD(false),
    {"precision", VW_MCP_TEXT, false, "fp32, tf32, amp-bf16, amp-fp16, bf16 or fp16."},
    {"master_weights", VW_MCP_SWITCH, false, "float32 copies beside bf16 or fp16 weights."},
    {"optimizer", VW_MCP_TEXT, false,
     "sgd, sgd-m, adamw, adamw-fused, adamw-loop, adafactor, adam8bit, paged-adam8bit, lion, muon, "
     "galore or apollo."},
    {"checkpointing", VW_MCP_TEXT, false, "full, selective, or K for every K-th block."},
    {"accumulation", VW_MCP_NUMBER, false, "Micro-batches of a step."},
    {"attention", VW_MCP_TEXT, false, "eager, sdpa or flash."},
    {"loss_chunks", VW_MCP_NUMBER, false, "The loss in that many pieces."},
    {"fused_loss", VW_MCP_SWITCH, false, "Head and loss in one kernel, as Liger's."},
    {"lora", VW_MCP_NUMBER, false, "Adapters of that rank; the weights stay as they are."},
    {"qlora", VW_MCP_NUMBER, false, "The same, with the weights in 4 bits."},
    {"offload", VW_MCP_TEXT, false, "optimizer, weights or spill: to the CPU's memory."},
    {"inference", VW_MCP_SWITCH, false, "A forward pass without a graph."},
    {"generate", VW_MCP_NUMBER, false, "With inference: tokens after the prompt."},
    {"gpus", VW_MCP_NUMBER, false, "GPUs that share the work; with zero or fsdp, else DDP."},
    {"zero", VW_MCP_NUMBER, false, "DeepSpeed's level: 1, 2 or 3."},
    {"fsdp", VW_MCP_SWITCH, false, "Share all, by FSDP."},
    {"top", VW_MCP_NUMBER, false, "The N fastest ways to make it fit; default 10."},
    JSON,
};

#define TOOL(name, title, description)                                                             \
    {                                                                                              \
#name, title, description, name##_parameters, COUNT_OF(name##_parameters)                  \
    }

const vw_mcp_tool mcp_tools_list[] = {
    TOOL(doctor, "Why GPU memory ran out",
         "Use first for any CUDA/HIP out-of-memory error, log or PyTorch memory snapshot. Says "
         "which "
         "kind it is (genuine, fragmentation, leak, outside, capped, ...) and what to change, with "
         "the bytes that each remedy gives back and how that number was found."),
    TOOL(stats, "What is in a recording",
         "Peaks of live and reserved memory, and which lines of the program and categories "
         "(weights, "
         "gradients, optimizer, activations, ...) held it."),
    TOOL(replay, "The same requests under other allocators",
         "Plays a recording's requests through PyTorch's allocator under other settings, or on "
         "another card, and shows what each would reserve and whether it runs out of memory."),
    TOOL(tune, "The allocator setting that fits a card",
         "Tries settings of PYTORCH_CUDA_ALLOC_CONF on a recording and names the best for a card."),
    TOOL(plan, "What a training run will take",
         "Predicts the peak memory of a training step before it runs, from a model's name or "
         "config.json and the settings, and lists the fastest changes that make it fit on a card."),
};
const size_t mcp_tools_count = COUNT_OF(mcp_tools_list);

/* ---- from a call to a command line ----------------------------------------------------------- */

typedef enum parameter_use {
    USE_OPTION,     /* --name=value, or --name for a switch */
    USE_OPERAND,    /* a file, by itself */
    USE_FILE,       /* --name=file */
    USE_MODEL_FILE, /* --model=file */
    USE_MODEL_NAME, /* --model=name, of a model that is built in: no file */
    USE_INPUT,      /* standard input */
} parameter_use;

static parameter_use use_of(const char *name)
{
    static const struct {
        const char *name;
        parameter_use use;
    } special[] = {
        {"file", USE_OPERAND},     {"text", USE_INPUT}, {"config", USE_MODEL_FILE},
        {"model", USE_MODEL_NAME}, {"from", USE_FILE},
    };
    for (size_t i = 0; i < COUNT_OF(special); i++)
        if (strcmp(special[i].name, name) == 0)
            return special[i].use;
    return USE_OPTION;
}

/* One for each parameter, and the program, the command, "--no-summary", and NULL. */
enum { MOST_WORDS = VW_MCP_MOST_PARAMETERS + 4 };

typedef struct command_line {
    char *words[MOST_WORDS]; /* owned */
    size_t count;
    const char *input;    /* borrowed; NULL: none */
    size_t subject_count; /* files, texts and models */
    bool has_json;
} command_line;

static void free_line(command_line *line)
{
    while (line->count > 0)
        free(line->words[--line->count]);
}

static bool say(const vw_output *answer, const char *text)
{
    return answer->write(answer->context, text, strlen(text));
}

/* "--name=value"; without a value "--name"; without a name the value. Takes no memory on failure.
 */
static bool add_word(command_line *line, const char *name, const char *value)
{
    char *word;
    int length = asprintf(&word, "%s%s%s%s", name != NULL ? "--" : "", name != NULL ? name : "",
                          name != NULL && value != NULL ? "=" : "", value != NULL ? value : "");
    if (length < 0)
        return false;
    for (size_t i = 0; name != NULL && word[i] != '\0' && word[i] != '='; i++)
        if (word[i] == '_')
            word[i] = '-';
    line->words[line->count++] = word;
    line->words[line->count] = NULL;
    return true;
}

static bool add_file(const mcp_tools *tools, command_line *line, const char *option,
                     const char *name, const vw_output *answer)
{
    char path[PATH_MAX], fault[MCP_FAULT_BYTES];
    if (!mcp_files_find(&tools->folders, name, path, fault)) {
        (void)say(answer, fault);
        return false;
    }
    return add_word(line, option, path);
}

static bool add_model(command_line *line, const char *name, const vw_output *answer)
{
    const vw_plan_known_model *known = vw_plan_known_find(name);
    if (known != NULL)
        return add_word(line, "model", known->name);
    (void)say(answer, "no built-in model has that name; there are");
    for (size_t i = 0; (known = vw_plan_known(i)) != NULL; i++)
        (void)(say(answer, i > 0 ? ", " : " ") && say(answer, known->name));
    return false;
}

static bool add_argument(const mcp_tools *tools, command_line *line,
                         const vw_mcp_argument *argument, const vw_output *answer)
{
    const char *name = argument->parameter->name, *text = argument->text;
    const parameter_use use = use_of(name);
    const bool is_switch = argument->parameter->kind == VW_MCP_SWITCH;
    line->subject_count += use != USE_OPTION;
    line->has_json |= strcmp(name, "json") == 0;
    switch (use) {
    case USE_OPERAND:
        return add_file(tools, line, NULL, text, answer);
    case USE_FILE:
        return add_file(tools, line, name, text, answer);
    case USE_MODEL_FILE:
        return add_file(tools, line, "model", text, answer);
    case USE_MODEL_NAME:
        return add_model(line, text, answer);
    case USE_INPUT:
        line->input = text;
        return add_word(line, NULL, "-");
    case USE_OPTION:
        break;
    }
    return add_word(line, name, is_switch ? NULL : text);
}

static void ask_for_a_subject(const vw_mcp_tool *tool, const vw_output *answer)
{
    const char *before = ": expected one of ";
    bool goes_on = say(answer, tool->name);
    for (size_t i = 0; goes_on && i < tool->parameter_count; i++) {
        if (use_of(tool->parameters[i].name) == USE_OPTION)
            continue;
        goes_on = say(answer, before) && say(answer, tool->parameters[i].name);
        before = ", ";
    }
}

/* What a command reads is named, so that it does not wait for standard input; and once, since of
 * two models a command takes the last. */
static bool make_line(const mcp_tools *tools, const vw_mcp_call *call, command_line *line,
                      const vw_output *answer)
{
    if (!add_word(line, NULL, "vramwise") || !add_word(line, NULL, call->tool->name))
        return false;
    if (strcmp(call->tool->name, "stats") == 0 && !add_word(line, "no-summary", NULL))
        return false;
    for (size_t i = 0; i < call->argument_count; i++)
        if (!add_argument(tools, line, &call->arguments[i], answer))
            return false;
    if (line->subject_count != 1)
        ask_for_a_subject(call->tool, answer);
    return line->subject_count == 1;
}

/* ---- from what the command says to the answer -------------------------------------------------
 */

/* A text is cut behind its last whole line; JSON that is cut would be invalid. */
static bool say_cut(const mcp_child_result *result, bool has_json, const vw_output *answer)
{
    char remark[160];
    if (has_json) {
        snprintf(remark, sizeof remark,
                 "as JSON the answer has more than %d bytes; ask for text, or for fewer rows where "
                 "there is 'top'",
                 MCP_TOOLS_MOST_BYTES);
        (void)say(answer, remark);
        return false;
    }
    const char *last = memrchr(result->output, '\n', result->size_bytes);
    const size_t whole_bytes =
        last != NULL ? (size_t)(last + 1 - result->output) : result->size_bytes;
    snprintf(remark, sizeof remark,
             "... cut here, after %zu bytes; 'top', where there is one, asks for fewer rows\n",
             whole_bytes);
    return answer->write(answer->context, result->output, whole_bytes) && say(answer, remark);
}

static bool say_late(const mcp_tools *tools, const vw_output *answer)
{
    char remark[160];
    snprintf(
        remark, sizeof remark,
        "stopped: it took longer than %llu s (VRAMWISE_MCP_TIMEOUT in the server's environment "
        "sets the limit)",
        (unsigned long long)(tools->most_ms / 1000));
    (void)say(answer, remark);
    return false;
}

static bool say_result(const mcp_tools *tools, const command_line *line,
                       const mcp_child_result *result, const vw_output *answer)
{
    if (result->is_late)
        return say_late(tools, answer);
    if (result->is_cut)
        return say_cut(result, line->has_json, answer);
    if (result->exit_status == EXIT_DONE || result->exit_status == EXIT_SOMETHING_TO_SEE)
        return answer->write(answer->context, result->output, result->size_bytes);
    (void)say(answer, result->error[0] != '\0' ? result->error : "the command ended by a signal");
    return false;
}

/* ---- while the command runs -------------------------------------------------------------------
 */

typedef struct running {
    mcp_tools *tools;
    const vw_mcp_request *request;
    size_t seen_bytes;    /* of the messages that wait: these do not cancel it */
    unsigned phase_count; /* pieces of work that it has begun, one after the other */
    char phase[32];       /* the last of them: "reading" */
    double told;          /* the progress that the client knows of */
} running;

static bool is_cancelled(running *call)
{
    bool cancels = false;
    const char *line;
    size_t size_bytes;
    const mcp_input *input = &call->tools->input;
    while (!cancels && (line = mcp_input_waiting(input, &call->seen_bytes, &size_bytes)) != NULL)
        if (vw_mcp_cancels(call->request, line, size_bytes, &cancels) != VW_OK)
            break; /* no memory: it goes on, and is answered */
    return cancels;
}

static int watched_input(void *context)
{
    const running *call = context;
    return mcp_input_is_open(&call->tools->input) ? STDIN_FILENO : -1;
}

static bool is_wanted(void *context)
{
    running *call = context;
    mcp_input_take(&call->tools->input);
    return !is_cancelled(call);
}

/* "reading 0.300", or "counting": work follows work, so each counts as one, and the whole rises. */
static void tell_progress(void *context, const char *line)
{
    running *call = context;
    char phase[sizeof call->phase], words[sizeof phase + 16];
    double done = 0;
    const char *space = strrchr(line, ' ');
    const bool has_share = space != NULL && sscanf(space, "%lf", &done) == 1;
    snprintf(phase, sizeof phase, "%.*s", has_share ? (int)(space - line) : (int)strlen(line),
             line);
    if (strcmp(phase, call->phase) != 0) {
        memcpy(call->phase, phase, sizeof phase);
        call->phase_count++;
    }
    const double progress = call->phase_count - 1 + (done < 1 ? done : 1);
    if (progress <= call->told)
        return; /* it must rise */
    call->told = progress;
    if (has_share)
        snprintf(words, sizeof words, "%s: %.0f %%", phase, done * 100);
    else
        snprintf(words, sizeof words, "%s", phase);
    if (vw_mcp_tell_progress(call->request, progress, words, &recording_command_output) == VW_OK)
        (void)fflush(stdout); /* a client that is gone is noticed with the answer */
}

static vw_mcp_outcome run_line(mcp_tools *tools, const command_line *line, const vw_mcp_call *call,
                               const vw_output *answer)
{
    running meanwhile = {.tools = tools, .request = call->request};
    mcp_child_result result;
    const mcp_child_order order = {.argv = (char *const *)line->words,
                                   .input = line->input,
                                   .most_bytes = MCP_TOOLS_MOST_BYTES,
                                   .most_ms = tools->most_ms,
                                   .context = &meanwhile,
                                   .watched = watched_input,
                                   .is_wanted = is_wanted,
                                   .see_progress = tell_progress};
    if (is_cancelled(&meanwhile))
        return VW_MCP_CANCELLED;
    bool is_good = mcp_child_run(&order, &result);
    const bool is_unwanted = result.is_unwanted;
    if (is_good && !is_unwanted)
        is_good = say_result(tools, line, &result, answer);
    else if (!is_good)
        (void)(say(answer, "the command could not be started: ") && say(answer, strerror(errno)));
    mcp_child_free(&result);
    return is_unwanted ? VW_MCP_CANCELLED : is_good ? VW_MCP_DONE : VW_MCP_FAILED;
}

vw_mcp_outcome mcp_tools_call(void *context, const vw_mcp_call *call, const vw_output *answer)
{
    mcp_tools *tools = context;
    command_line line = {.count = 0};
    const vw_mcp_outcome outcome = make_line(tools, call, &line, answer)
                                       ? run_line(tools, &line, call, answer)
                                       : VW_MCP_FAILED;
    free_line(&line);
    return outcome;
}
