/* demo_workload.c - training a transformer, tensor by tensor.
 *
 * The code below reads like a training script with the mathematics taken out: forward keeps what
 * backward needs, backward drops it layer by layer, the optimizer makes its state in the first
 * step. Sizes are those of a model like GPT-2 medium with fused attention: two bytes for an
 * activation, four for a weight, 34 bytes per token and hidden unit kept in each layer, and logits
 * as wide as the vocabulary. Left out are the copies of the weights that autocast makes, and the
 * workspaces of the libraries.
 *
 * Three habits of real scripts are what the demo is about. Batches are padded to their longest
 * sequence, so nearly every step asks for sizes that no step before it asked for. Evaluations come
 * in between, with longer sequences and other sizes again. And some output is kept for a log: the
 * logits of one sequence, the last few of them. That is little memory, and no leak; but each is cut
 * from a large block that happened to be idle, and as long as it lives the whole segment around it
 * can be neither joined with others nor given back.
 *
 * Whether a run survives this is luck, as it is in life: of the first thousand seeds about four in
 * ten run out of memory natively, each time with more idle than the request needed, and none does
 * with expandable segments. The seed below is one of the four.
 *
 * A refused request stops everything: from then on nothing is made and nothing is dropped, so that
 * what is left is the state at the failure. That is why no caller of make() looks at a status. */
#include "demo_workload.h"

#include <stdio.h>
#include <string.h>

enum {
    LAYER_COUNT = 24,
    HIDDEN_SIZE = 1024,
    HEAD_COUNT = 16,
    VOCABULARY_SIZE = 50304,

    BATCH_SIZE = 8,
    SHORTEST_LENGTH = 128,
    LONGEST_LENGTH = 1536,
    LENGTH_MULTIPLE = 8, /* batches are padded to it, for the tensor cores */

    EVALUATION_INTERVAL = 8,
    EVALUATION_BATCHES = 4,
    EVALUATION_BATCH_SIZE = 4,
    EVALUATION_LONGEST_LENGTH = 2 * LONGEST_LENGTH,

    LOG_INTERVAL = 2,
    LOG_LENGTH = 8, /* outputs kept at a time */

    LAYER_WEIGHTS = 12,
    WEIGHT_COUNT = LAYER_COUNT * LAYER_WEIGHTS + 4,
    VOCABULARY_WEIGHT = LAYER_COUNT * LAYER_WEIGHTS, /* the first of those outside the layers */
};

#define RANDOM_SEED UINT64_C(1493)

typedef struct tensor {
    vw_device_ptr address; /* VW_NULL: there is none */
    uint64_t block_bytes;
} tensor;

/* What backward needs of one layer. */
typedef struct saved_layer {
    tensor first_norm, attention_input, attention_output, attention_sums, first_mask, first_sum;
    tensor second_norm, expanded, activated, second_mask;
    tensor output; /* the next layer's input */
} saved_layer;

typedef struct trainer {
    demo_run *run;
    const demo_pause *pause; /* or NULL */
    demo_step *step;         /* the one in progress, or NULL */
    vw_status status;        /* of the first request that was refused */
    uint64_t random_state;

    tensor weights[WEIGHT_COUNT];
    tensor gradients[WEIGHT_COUNT];
    tensor averages[WEIGHT_COUNT]; /* AdamW's two moments */
    tensor square_averages[WEIGHT_COUNT];
    saved_layer saved[LAYER_COUNT];
    tensor log[LOG_LENGTH];
    size_t logged_count;
} trainer;

/* ---- tensors --------------------------------------------------------------------------------- */

static tensor make(trainer *self, const char *what, uint64_t size_bytes)
{
    demo_run *run = self->run;
    tensor made = {VW_NULL, 0};
    if (self->status != VW_OK)
        return made;
    vw_alloc_request request = {
        .struct_size = sizeof request,
        .size_bytes = size_bytes,
        .served_bytes = &made.block_bytes,
    };
    run->request_count++;
    self->status = vw_alloc_with(run->pool, &request, &made.address);
    if (self->status != VW_OK) {
        run->failed_for = what;
        return (tensor){VW_NULL, 0};
    }
    run->live_bytes += made.block_bytes;
    if (run->live_bytes > run->peak_live_bytes)
        run->peak_live_bytes = run->live_bytes;
    if (self->step != NULL && run->live_bytes > self->step->peak_live_bytes)
        self->step->peak_live_bytes = run->live_bytes;
    if (self->pause != NULL && self->pause->request_number == run->request_count)
        self->pause->notice(self->pause->context, run);
    return made;
}

static void drop(trainer *self, tensor *dropped)
{
    if (self->status != VW_OK)
        return;
    self->status = vw_free(self->run->pool, dropped->address);
    self->run->live_bytes -= dropped->block_bytes;
    *dropped = (tensor){VW_NULL, 0};
}

/* The pool says when it takes memory from the device or gives some back. */
static void notice_reserved(void *context, const vw_memory_event *event)
{
    trainer *self = context;
    demo_run *run = self->run;
    if (event->action == VW_ACTION_SEGMENT_ALLOC || event->action == VW_ACTION_SEGMENT_MAP)
        run->reserved_bytes += event->size_bytes;
    else if (event->action == VW_ACTION_SEGMENT_FREE || event->action == VW_ACTION_SEGMENT_UNMAP)
        run->reserved_bytes -= event->size_bytes;
    if (run->reserved_bytes > run->peak_reserved_bytes)
        run->peak_reserved_bytes = run->reserved_bytes;
    if (self->step != NULL && run->reserved_bytes > self->step->peak_reserved_bytes)
        self->step->peak_reserved_bytes = run->reserved_bytes;
}

/* ---- lengths --------------------------------------------------------------------------------- */

/* SplitMix64, by Sebastiano Vigna. */
static uint64_t next_random(trainer *self)
{
    uint64_t mixed = self->random_state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

/* The length of a batch: that of its longest sequence, and a sequence is as long as the product of
 * two random fractions makes it. Most are short, a few very long. */
static unsigned draw_length(trainer *self, unsigned sequence_count, unsigned longest)
{
    uint64_t batch_length = SHORTEST_LENGTH;
    for (unsigned i = 0; i < sequence_count; i++) {
        uint64_t length = longest;
        length = length * (next_random(self) >> 48) >> 16;
        length = length * (next_random(self) >> 48) >> 16;
        if (length > batch_length)
            batch_length = length;
    }
    return (unsigned)((batch_length + LENGTH_MULTIPLE - 1) / LENGTH_MULTIPLE * LENGTH_MULTIPLE);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* How many numbers weight `index` holds: the layers' one after the other, then the embeddings of
 * words (which the output layer shares) and of positions, and the last norm. */
static uint64_t weight_elements(size_t index)
{
    static const uint64_t hidden = HIDDEN_SIZE;
    const uint64_t in_layer[LAYER_WEIGHTS] = {
        hidden,
        hidden, /* first norm */
        3 * hidden * hidden,
        3 * hidden, /* attention input */
        hidden * hidden,
        hidden, /* attention output */
        hidden,
        hidden, /* second norm */
        4 * hidden * hidden,
        4 * hidden, /* expansion */
        4 * hidden * hidden,
        hidden, /* contraction */
    };
    const uint64_t outside[] = {VOCABULARY_SIZE * hidden, EVALUATION_LONGEST_LENGTH * hidden,
                                hidden, hidden};
    if (index < VOCABULARY_WEIGHT)
        return in_layer[index % LAYER_WEIGHTS];
    return outside[index - VOCABULARY_WEIGHT];
}

static void make_per_weight(trainer *self, const char *what, tensor *tensors)
{
    for (size_t i = 0; i < WEIGHT_COUNT; i++)
        tensors[i] = make(self, what, 4 * weight_elements(i));
}

static void drop_per_weight(trainer *self, tensor *tensors)
{
    for (size_t i = 0; i < WEIGHT_COUNT; i++)
        drop(self, &tensors[i]);
}

/* A layer's weights from `first` to `last`, counted within the layer. */
static void make_gradients(trainer *self, size_t layer, size_t first, size_t last)
{
    for (size_t i = layer * LAYER_WEIGHTS + first; i <= layer * LAYER_WEIGHTS + last; i++)
        self->gradients[i] = make(self, "a weight's gradient", 4 * weight_elements(i));
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Everything of one layer, its input excepted. */
static saved_layer layer_forward(trainer *self, uint64_t token_count)
{
    const uint64_t unit = token_count * HIDDEN_SIZE;
    saved_layer layer;
    layer.first_norm = make(self, "a norm's output", 2 * unit);
    layer.attention_input = make(self, "queries, keys and values", 6 * unit);
    layer.attention_output = make(self, "an attention's output", 2 * unit);
    layer.attention_sums = make(self, "an attention's sums", 4 * token_count * HEAD_COUNT);
    tensor projected = make(self, "a projection", 2 * unit);
    layer.first_mask = make(self, "a dropout mask", unit);
    layer.first_sum = make(self, "a residual sum", 2 * unit);
    drop(self, &projected);
    layer.second_norm = make(self, "a norm's output", 2 * unit);
    layer.expanded = make(self, "a feed-forward expansion", 8 * unit);
    layer.activated = make(self, "a feed-forward activation", 8 * unit);
    tensor contracted = make(self, "a feed-forward contraction", 2 * unit);
    layer.second_mask = make(self, "a dropout mask", unit);
    layer.output = make(self, "a residual sum", 2 * unit);
    drop(self, &contracted);
    return layer;
}

static void drop_layer_but_output(trainer *self, saved_layer *layer)
{
    drop(self, &layer->second_mask);
    drop(self, &layer->activated);
    drop(self, &layer->expanded);
    drop(self, &layer->second_norm);
    drop(self, &layer->first_sum);
    drop(self, &layer->first_mask);
    drop(self, &layer->attention_sums);
    drop(self, &layer->attention_output);
    drop(self, &layer->attention_input);
    drop(self, &layer->first_norm);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Turns `*gradient`, that of the layer's output, into that of its input. */
static void layer_backward(trainer *self, size_t index, uint64_t token_count, tensor *gradient)
{
    const uint64_t unit = token_count * HIDDEN_SIZE;
    saved_layer *layer = &self->saved[index];

    tensor masked = make(self, "a gradient through dropout", 2 * unit);
    drop(self, &layer->second_mask);
    tensor of_activated = make(self, "a feed-forward gradient", 8 * unit);
    make_gradients(self, index, 10, 11);
    drop(self, &masked);
    drop(self, &layer->activated);
    tensor of_expanded = make(self, "a feed-forward gradient", 8 * unit);
    drop(self, &of_activated);
    drop(self, &layer->expanded);
    tensor of_norm = make(self, "a norm's gradient", 2 * unit);
    make_gradients(self, index, 8, 9);
    drop(self, &of_expanded);
    drop(self, &layer->second_norm);
    tensor of_sum = make(self, "a residual gradient", 2 * unit);
    make_gradients(self, index, 6, 7);
    drop(self, &of_norm);
    drop(self, &layer->first_sum);
    drop(self, gradient);

    masked = make(self, "a gradient through dropout", 2 * unit);
    drop(self, &layer->first_mask);
    tensor of_attention = make(self, "an attention gradient", 2 * unit);
    make_gradients(self, index, 4, 5);
    drop(self, &masked);
    tensor of_input = make(self, "an attention gradient", 6 * unit);
    drop(self, &of_attention);
    drop(self, &layer->attention_output);
    drop(self, &layer->attention_sums);
    drop(self, &layer->attention_input);
    of_norm = make(self, "a norm's gradient", 2 * unit);
    make_gradients(self, index, 2, 3);
    drop(self, &of_input);
    drop(self, &layer->first_norm);
    *gradient = make(self, "a residual gradient", 2 * unit);
    make_gradients(self, index, 0, 1);
    drop(self, &of_norm);
    drop(self, &of_sum);
    drop(self, &layer->output);
}

/* Keeps the logits of one sequence of the batch, and forgets the oldest that were kept. */
static void log_output(trainer *self, uint64_t token_count)
{
    tensor *oldest = &self->log[self->logged_count++ % LOG_LENGTH];
    tensor output =
        make(self, "an output for the log", 2 * token_count / BATCH_SIZE * VOCABULARY_SIZE);
    if (self->status != VW_OK)
        return;
    self->run->logged_bytes += output.block_bytes - oldest->block_bytes;
    drop(self, oldest);
    *oldest = output;
}

/* The loss over the whole vocabulary, forward and backward: the widest tensors of a step. Returns
 * the gradient of the last layer's output. */
static tensor loss_forward_and_backward(trainer *self, uint64_t token_count, bool is_logged)
{
    const uint64_t unit = token_count * VOCABULARY_SIZE;
    tensor logits = make(self, "the logits", 2 * unit);
    tensor wide = make(self, "the logits in fp32", 4 * unit);
    tensor log_softmax = make(self, "the log-softmax of the logits", 4 * unit);
    tensor loss = make(self, "the loss", 4);
    drop(self, &wide);
    if (is_logged)
        log_output(self, token_count);
    tensor of_wide = make(self, "the gradient of the log-softmax", 4 * unit);
    drop(self, &log_softmax);
    tensor of_logits = make(self, "the gradient of the logits", 2 * unit);
    drop(self, &of_wide);
    drop(self, &logits);
    tensor gradient = make(self, "the gradient of the last layer", 2 * token_count * HIDDEN_SIZE);
    self->gradients[VOCABULARY_WEIGHT] =
        make(self, "the gradient of the vocabulary", 4 * weight_elements(VOCABULARY_WEIGHT));
    drop(self, &of_logits);
    drop(self, &loss);
    return gradient;
}

/* ---- a step, an evaluation, a run ------------------------------------------------------------ */

static void optimizer_step(trainer *self, bool is_first)
{
    static tensor roots[WEIGHT_COUNT];
    if (is_first) {
        for (size_t i = 0; i < WEIGHT_COUNT; i++) {
            self->averages[i] = make(self, "AdamW's state", 4 * weight_elements(i));
            self->square_averages[i] = make(self, "AdamW's state", 4 * weight_elements(i));
        }
    }
    make_per_weight(self, "AdamW's square roots", roots);
    drop_per_weight(self, roots);
}

static void training_step(trainer *self, unsigned sequence_length, bool is_first, bool is_logged)
{
    const uint64_t token_count = (uint64_t)sequence_length * BATCH_SIZE;
    tensor tokens = make(self, "the tokens", 8 * token_count);
    tensor embedded = make(self, "the embeddings", 2 * token_count * HIDDEN_SIZE);
    for (size_t i = 0; i < LAYER_COUNT; i++)
        self->saved[i] = layer_forward(self, token_count);
    tensor gradient = loss_forward_and_backward(self, token_count, is_logged);
    for (size_t i = LAYER_COUNT; i-- > 0;)
        layer_backward(self, i, token_count, &gradient);
    for (size_t i = VOCABULARY_WEIGHT + 1; i < WEIGHT_COUNT; i++)
        self->gradients[i] = make(self, "a weight's gradient", 4 * weight_elements(i));
    drop(self, &gradient);
    drop(self, &embedded);
    drop(self, &tokens);
    optimizer_step(self, is_first);
    drop_per_weight(self, self->gradients); /* zero_grad() */
}

static void evaluation(trainer *self)
{
    for (unsigned batch = 0; batch < EVALUATION_BATCHES; batch++) {
        const uint64_t token_count =
            (uint64_t)draw_length(self, EVALUATION_BATCH_SIZE, EVALUATION_LONGEST_LENGTH) *
            EVALUATION_BATCH_SIZE;
        tensor tokens = make(self, "the tokens", 8 * token_count);
        tensor input = make(self, "the embeddings", 2 * token_count * HIDDEN_SIZE);
        for (size_t i = 0; i < LAYER_COUNT; i++) {
            saved_layer layer = layer_forward(self, token_count);
            drop_layer_but_output(self, &layer);
            drop(self, &input);
            input = layer.output;
        }
        tensor logits = make(self, "the logits", 2 * token_count * VOCABULARY_SIZE);
        drop(self, &logits);
        drop(self, &input);
        drop(self, &tokens);
    }
}

static void train(trainer *self)
{
    demo_run *run = self->run;
    make_per_weight(self, "a weight", self->weights);
    for (unsigned i = 0; i < DEMO_STEP_COUNT && self->status == VW_OK; i++) {
        self->step = &run->steps[i];
        *self->step = (demo_step){
            .sequence_length = draw_length(self, BATCH_SIZE, LONGEST_LENGTH),
            .has_evaluation = (i + 1) % EVALUATION_INTERVAL == 0,
            .peak_live_bytes = run->live_bytes,
            .peak_reserved_bytes = run->reserved_bytes,
        };
        run->step_count = i + 1;
        training_step(self, self->step->sequence_length, i == 0, (i + 1) % LOG_INTERVAL == 0);
        if (self->step->has_evaluation)
            evaluation(self);
    }
}

static vw_status look_back(trainer *self)
{
    demo_run *run = self->run;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    vw_status status = self->status;

    if (status != VW_OK && status != VW_ERR_OUT_OF_MEMORY)
        return status;
    run->is_complete = status == VW_OK;
    if (status == VW_ERR_OUT_OF_MEMORY) {
        snprintf(run->oom_text, sizeof run->oom_text, "%s", vw_last_error());
        run->oom.struct_size = sizeof run->oom;
        status = vw_last_out_of_memory(&run->oom);
    }
    if (status == VW_OK)
        status = vw_pool_get_stats(run->pool, &stats);
    if (status == VW_OK)
        status = vw_device_get_calls(run->device, &run->calls);
    run->retry_count = stats.num_alloc_retries;
    return status;
}

demo_model demo_get_model(void)
{
    demo_model model = {
        .layer_count = LAYER_COUNT,
        .hidden_size = HIDDEN_SIZE,
        .batch_size = BATCH_SIZE,
        .evaluation_interval = EVALUATION_INTERVAL,
        .log_length = LOG_LENGTH,
    };
    for (size_t i = 0; i < WEIGHT_COUNT; i++)
        model.parameter_count += weight_elements(i);
    return model;
}

vw_status demo_run_begin(demo_run *run, const char *policy, const char *conf,
                         const demo_pause *pause)
{
    static trainer self; /* large for a stack */
    vw_simulated_options card = {
        .struct_size = sizeof card,
        .capacity_bytes = DEMO_CARD_BYTES - DEMO_CONTEXT_BYTES,
        .total_bytes = DEMO_CARD_BYTES,
    };
    vw_pool_options options = {.struct_size = sizeof options, .engine = "torch", .conf = conf};
    vw_event_sink sink = {.context = &self, .notice = notice_reserved};

    *run = (demo_run){.policy = policy, .conf = conf};
    self = (trainer){.run = run, .pause = pause, .random_state = RANDOM_SEED};
    vw_status status = vw_simulated_device_create(&card, &run->device);
    if (status == VW_OK)
        status = vw_pool_create(run->device, &options, &run->pool);
    if (status == VW_OK)
        status = vw_pool_set_sink(run->pool, &sink);
    if (status != VW_OK)
        return status;
    train(&self);
    (void)vw_pool_set_sink(run->pool, NULL); /* `self` is the next run's from here on */
    return look_back(&self);
}

void demo_run_end(demo_run *run)
{
    vw_pool_destroy(run->pool);
    vw_device_destroy(run->device);
    run->pool = NULL;
    run->device = NULL;
}
