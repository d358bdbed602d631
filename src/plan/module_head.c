/* module_head.c - the two ends of a text model: ids, and the loss of its last hidden states.
 *
 * The loss in chunks is that of a loop over chunks of the rows, each in torch.utils.checkpoint: the
 * head, logits in float32 and cross-entropy of one chunk at a time, and once more in the backward
 * pass. No chunk's logits outlive it. */
#include "plan/plan_run.h"

vw__tensor vw__module_make_ids(vw__plan_run *run, uint64_t rows, uint64_t length)
{
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_DATA);
    vw__tensor ids =
        vw__tensor_new(run->tape, vw__tape_times(run->tape, rows, length), VW__DTYPE_INT64);
    vw__tape_set_use(run->tape, before);
    return ids;
}

/* Shifted, scaled, tanh(logits / cap) * cap: where a model has it. */
static vw__tensor logits_of(vw__plan_run *run, vw__tensor x, const vw__module_linear *head)
{
    vw__tensor logits = vw__module_apply_linear(run, x, head);
    if (head->has_offset)
        vw__tensor_rebind(run->tape, &logits, vw__op_add(run->tape, logits, head->offset));
    if (run->model->shape.head.is_scaled)
        vw__tensor_rebind(run->tape, &logits, vw__op_mul_scalar(run->tape, logits));
    if (run->model->shape.head.is_capped)
        vw__op_cap(run->tape, &logits);
    return logits;
}

/* Makes `label_rows` shifted labels; 0: the labels are used as they came. */
static vw__tensor loss_of(vw__plan_run *run, vw__tensor logits, uint64_t label_rows)
{
    vw__tape *tape = run->tape;
    vw__tensor floats = run->model->family->keeps_logits_type
                            ? vw__tensor_hold(tape, logits)
                            : vw__op_to(tape, logits, VW__DTYPE_FLOAT32);
    vw__tensor labels =
        label_rows > 0 ? vw__tensor_new(tape, label_rows, VW__DTYPE_INT64) : vw__tensor_none();
    vw__tensor loss = vw__op_cross_entropy(tape, floats, labels);
    vw__tensor_drop(tape, &labels);
    vw__tensor_drop(tape, &floats);
    return loss;
}

/* ---- in chunks ------------------------------------------------------------------------------- */

typedef struct chunk_call {
    vw__plan_run *run;
    const vw__module_linear *head;
} chunk_call;

static vw__tensor chunk_loss(vw__tape *tape, void *context, vw__tensor x)
{
    const chunk_call *call = context;
    vw__tensor logits = logits_of(call->run, x, call->head);
    vw__tensor loss = loss_of(call->run, logits, 0);
    vw__tensor_drop(tape, &logits);
    return loss;
}

static vw__tensor loss_in_chunks(vw__plan_run *run, vw__tensor x, const vw__module_linear *head,
                                 uint64_t rows)
{
    vw__tape *tape = run->tape;
    uint64_t wanted = run->settings->loss_chunks < rows ? run->settings->loss_chunks : rows;
    uint64_t chunk_rows = (rows + wanted - 1) / wanted;
    size_t count = (size_t)((rows + chunk_rows - 1) / chunk_rows);
    vw__tensor *chunks = vw__module_alloc(run, count, sizeof *chunks);
    chunk_call *call = vw__module_alloc(run, 1, sizeof *call);
    if (vw__tape_status(tape) != VW_OK)
        return vw__tensor_none();
    *call = (chunk_call){run, head};
    vw__tape_enter(tape, "loss", -1);
    vw__op_split(tape, x, count, chunks);
    vw__tensor loss = vw__tensor_none();
    for (size_t i = 0; i < count; i++) {
        uint64_t row = i * chunk_rows;
        chunks[i].elements = (rows - row < chunk_rows ? rows - row : chunk_rows) * head->weights.in;
        vw__tensor part = vw__tape_checkpoint(tape, chunk_loss, call, chunks[i]);
        vw__tensor_rebind(tape, &loss,
                          i == 0 ? vw__tensor_hold(tape, part) : vw__op_add(tape, loss, part));
        vw__tensor_drop(tape, &part);
    }
    for (size_t i = 0; i < count; i++)
        vw__tensor_drop(tape, &chunks[i]);
    vw__tape_leave(tape);
    return loss;
}

/* ---- in one piece ---------------------------------------------------------------------------- */

/* Generation needs the logits of the last token of each sample only. */
static vw__tensor next_logits(vw__plan_run *run, vw__tensor x, const vw__module_linear *head)
{
    vw__tensor last = vw__op_slice(
        run->tape, x, vw__tape_times(run->tape, run->settings->batch, head->weights.in));
    vw__tensor logits = logits_of(run, last, head);
    vw__tensor_drop(run->tape, &last);
    return logits;
}

static vw__tensor apply_head(vw__plan_run *run, vw__tensor x, const vw__module_linear *head,
                             uint64_t rows, bool is_shifted)
{
    vw__tape *tape = run->tape;
    uint64_t label_rows = is_shifted ? rows : 0;
    if (vw__plan_is_generating(run))
        return next_logits(run, x, head);
    if (run->has_loss && run->settings->loss_chunks > 1 && rows > 1) {
        vw__tensor labels = vw__tensor_new(tape, label_rows, VW__DTYPE_INT64);
        vw__tensor loss = loss_in_chunks(run, x, head, rows);
        vw__tensor_drop(tape, &labels);
        return loss;
    }
    if (run->settings->has_fused_loss && run->is_training) {
        vw__tape_enter(tape, "loss", -1);
        vw__tensor labels = vw__tensor_new(tape, label_rows, VW__DTYPE_INT64);
        vw__tensor loss = vw__op_fused_loss(tape, x, &head->weights, rows);
        vw__tensor_drop(tape, &labels);
        vw__tape_leave(tape);
        return loss;
    }
    vw__tensor logits = logits_of(run, x, head);
    if (!run->has_loss)
        return logits;
    vw__tape_enter(tape, "loss", -1);
    vw__tensor loss = loss_of(run, logits, label_rows);
    vw__tape_leave(tape);
    vw__tensor_drop(tape, &logits);
    return loss;
}

vw__tensor vw__module_apply_head(vw__plan_run *run, vw__tensor x, const vw__module_linear *head,
                                 uint64_t rows, bool is_shifted)
{
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_LOSS);
    vw__tensor result = apply_head(run, x, head, rows, is_shifted);
    vw__tensor_drop(run->tape, &x);
    vw__tape_set_use(run->tape, before);
    return result;
}

/* ---- classes and answers --------------------------------------------------------------------- */

/* The mean of what `labels` are wrong by; without a loss the scores. Takes them over. */
static vw__tensor loss_of_scores(vw__plan_run *run, vw__tensor scores, uint64_t labels)
{
    if (!run->has_loss)
        return scores;
    vw__tensor wanted = vw__tensor_new(run->tape, labels, VW__DTYPE_INT64);
    vw__tensor_rebind(run->tape, &scores, vw__op_cross_entropy(run->tape, scores, wanted));
    vw__tensor_drop(run->tape, &wanted);
    return scores;
}

static vw__tensor apply_scores(vw__plan_run *run, vw__tensor x, const vw__module_linear *scores)
{
    vw__tensor made = vw__module_apply_linear(run, x, scores);
    vw__tensor_drop(run->tape, &x);
    return made;
}

vw__tensor vw__module_classify_last(vw__plan_run *run, vw__tensor x,
                                    const vw__module_linear *scores)
{
    vw__tape *tape = run->tape;
    vw__tape_use before = vw__tape_set_use(tape, VW__TAPE_USE_LOSS);
    vw__tape_enter(tape, "loss", -1);
    vw__tensor all = apply_scores(run, x, scores);
    vw__tensor places = vw__tensor_new(tape, run->settings->batch, VW__DTYPE_INT64);
    vw__tensor last = vw__op_index(tape, all, places,
                                   vw__tape_times(tape, run->settings->batch, scores->weights.out));
    vw__tensor_drop(tape, &places);
    vw__tensor result = loss_of_scores(run, last, run->settings->batch);
    vw__tensor_drop(tape, &all);
    vw__tape_leave(tape);
    vw__tape_set_use(tape, before);
    return result;
}

vw__tensor vw__module_classify_tokens(vw__plan_run *run, vw__tensor x,
                                      const vw__module_linear *scores)
{
    const uint64_t rows = scores->weights.in == 0 ? 0 : x.elements / scores->weights.in;
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_LOSS);
    vw__tape_enter(run->tape, "loss", -1);
    vw__tensor result = loss_of_scores(run, apply_scores(run, x, scores), rows);
    vw__tape_leave(run->tape);
    vw__tape_set_use(run->tape, before);
    return result;
}

/* Columns of the scores, each copied to lie in one piece. */
static vw__tensor find_ends(vw__plan_run *run, vw__tensor scores)
{
    vw__tape *tape = run->tape;
    vw__tensor ends[2], loss = vw__tensor_none();
    vw__op_split(tape, scores, 2, ends);
    for (size_t i = 0; i < 2; i++) {
        vw__tensor_rebind(tape, &ends[i], vw__op_contiguous(tape, ends[i]));
        vw__tensor part = loss_of_scores(run, vw__tensor_hold(tape, ends[i]), run->settings->batch);
        vw__tensor_rebind(tape, &loss,
                          i == 0 ? vw__tensor_hold(tape, part) : vw__op_add(tape, loss, part));
        vw__tensor_drop(tape, &part);
    }
    for (size_t i = 0; i < 2; i++)
        vw__tensor_drop(tape, &ends[i]);
    return loss;
}

vw__tensor vw__module_find_answers(vw__plan_run *run, vw__tensor x, const vw__module_linear *scores)
{
    vw__tape_use before = vw__tape_set_use(run->tape, VW__TAPE_USE_LOSS);
    vw__tape_enter(run->tape, "loss", -1);
    vw__tensor all = apply_scores(run, x, scores);
    vw__tensor result = run->has_loss ? find_ends(run, all) : vw__tensor_hold(run->tape, all);
    vw__tensor_drop(run->tape, &all);
    vw__tape_leave(run->tape);
    vw__tape_set_use(run->tape, before);
    return result;
}
