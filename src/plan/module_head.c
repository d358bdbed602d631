/* module_head.c - the two ends of a language model: ids, and the loss of its last hidden states.
 *
 * The loss in chunks is that of a loop over chunks of the rows, each in torch.utils.checkpoint: the
 * head, logits in float32 and cross-entropy of one chunk at a time, and once more in the backward
 * pass. No chunk's logits outlive it. */
#include "plan/plan_run.h"

hr__tensor hr__make_ids(hr__plan_run *run, uint64_t rows, uint64_t length)
{
    hr__use before = hr__tape_set_use(run->tape, HR__USE_DATA);
    hr__tensor ids = hr__tensor_new(run->tape, hr__times(run->tape, rows, length), HR__INT64);
    hr__tape_set_use(run->tape, before);
    return ids;
}

/* tanh(logits / cap) * cap, where a model has it. */
static hr__tensor logits_of(hr__plan_run *run, hr__tensor x, const hr__linear_module *head)
{
    hr__tensor logits = hr__apply_linear(run, x, head);
    if (run->model->shape.has_capped_logits)
        hr__cap(run->tape, &logits);
    return logits;
}

/* `label_rows` of shifted labels are made; 0: the labels are as they came. */
static hr__tensor loss_of(hr__plan_run *run, hr__tensor logits, uint64_t label_rows)
{
    hr__tape *tape = run->tape;
    hr__tensor floats = run->model->family->keeps_logits_type ? hr__hold(tape, logits)
                                                              : hr__to(tape, logits, HR__FLOAT32);
    hr__tensor labels =
        label_rows > 0 ? hr__tensor_new(tape, label_rows, HR__INT64) : hr__no_tensor();
    hr__tensor loss = hr__cross_entropy(tape, floats, labels);
    hr__drop(tape, &labels);
    hr__drop(tape, &floats);
    return loss;
}

/* ---- in chunks ------------------------------------------------------------------------------- */

typedef struct chunk_call {
    hr__plan_run *run;
    const hr__linear_module *head;
} chunk_call;

static hr__tensor chunk_loss(hr__tape *tape, void *context, hr__tensor x)
{
    const chunk_call *call = context;
    hr__tensor logits = logits_of(call->run, x, call->head);
    hr__tensor loss = loss_of(call->run, logits, 0);
    hr__drop(tape, &logits);
    return loss;
}

static hr__tensor loss_in_chunks(hr__plan_run *run, hr__tensor x, const hr__linear_module *head,
                                 uint64_t rows)
{
    hr__tape *tape = run->tape;
    uint64_t wanted = run->settings->loss_chunks < rows ? run->settings->loss_chunks : rows;
    uint64_t chunk_rows = (rows + wanted - 1) / wanted;
    size_t count = (size_t)((rows + chunk_rows - 1) / chunk_rows);
    hr__tensor *chunks = hr__run_alloc(run, count, sizeof *chunks);
    chunk_call *call = hr__run_alloc(run, 1, sizeof *call);
    if (hr__tape_status(tape) != HR_OK)
        return hr__no_tensor();
    *call = (chunk_call){run, head};
    hr__enter(tape, "loss", -1);
    hr__split(tape, x, count, chunks);
    hr__tensor loss = hr__no_tensor();
    for (size_t i = 0; i < count; i++) {
        uint64_t row = i * chunk_rows;
        chunks[i].elements = (rows - row < chunk_rows ? rows - row : chunk_rows) * head->weights.in;
        hr__tensor part = hr__checkpoint(tape, chunk_loss, call, chunks[i]);
        hr__rebind(tape, &loss, i == 0 ? hr__hold(tape, part) : hr__add(tape, loss, part));
        hr__drop(tape, &part);
    }
    for (size_t i = 0; i < count; i++)
        hr__drop(tape, &chunks[i]);
    hr__leave(tape);
    return loss;
}

/* ---- in one piece ---------------------------------------------------------------------------- */

/* Only the last token of each sample has a successor to be chosen. */
static hr__tensor next_logits(hr__plan_run *run, hr__tensor x, const hr__linear_module *head)
{
    hr__tensor last =
        hr__slice(run->tape, x, hr__times(run->tape, run->settings->batch, head->weights.in));
    hr__tensor logits = logits_of(run, last, head);
    hr__drop(run->tape, &last);
    return logits;
}

static hr__tensor apply_head(hr__plan_run *run, hr__tensor x, const hr__linear_module *head,
                             uint64_t rows, bool is_shifted)
{
    hr__tape *tape = run->tape;
    uint64_t label_rows = is_shifted ? rows : 0;
    if (hr__is_generating(run))
        return next_logits(run, x, head);
    if (run->has_loss && run->settings->loss_chunks > 1 && rows > 1) {
        hr__tensor labels = hr__tensor_new(tape, label_rows, HR__INT64);
        hr__tensor loss = loss_in_chunks(run, x, head, rows);
        hr__drop(tape, &labels);
        return loss;
    }
    hr__tensor logits = logits_of(run, x, head);
    if (!run->has_loss)
        return logits;
    hr__enter(tape, "loss", -1);
    hr__tensor loss = loss_of(run, logits, label_rows);
    hr__leave(tape);
    hr__drop(tape, &logits);
    return loss;
}

hr__tensor hr__apply_head(hr__plan_run *run, hr__tensor x, const hr__linear_module *head,
                          uint64_t rows, bool is_shifted)
{
    hr__use before = hr__tape_set_use(run->tape, HR__USE_LOSS);
    hr__tensor result = apply_head(run, x, head, rows, is_shifted);
    hr__drop(run->tape, &x);
    hr__tape_set_use(run->tape, before);
    return result;
}
