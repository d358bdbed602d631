/* layers_attention.c - attention in a description.
 *
 * Attention in windows is Swin's (modeling_swin.py): tokens are padded, shifted and cut into
 * windows, each by a copy; scores have a learned bias for each distance, and where windows are
 * shifted a mask beside it, for every window of every sample. Attention from a learned token is
 * nn.MultiheadAttention, whose code asks for the probabilities. */
#include "plan/layers_attention.h"

enum { QUERY, KEY, VALUE, OUTPUT };

/* ---- making it ------------------------------------------------------------------------------- */

static vw__module_linear make(vw__plan_run *run, const char *name, uint64_t in, uint64_t out,
                              bool has_bias, bool is_adapted)
{
    return vw__module_make_linear(run, name, in, out, has_bias,
                                  is_adapted ? VW__MODULE_LINEAR_ADAPTED : VW__MODULE_LINEAR_PLAIN);
}

/* A window's distances; 0 where the line has no window. */
static uint64_t distances(const vw__layers_line *line)
{
    const uint64_t side = 2 * line->rows - 1;
    return line->kind == VW__LAYERS_WINDOW_ATTENTION ? side * side : 0;
}

vw__layers_attention *vw__layers_make_attention(vw__plan_run *run, const vw__layers_line *line,
                                                const vw__layers_shape *in)
{
    vw__layers_attention *made = vw__module_alloc(run, 1, sizeof *made);
    const uint64_t width = in->width;
    const bool is_pool = line->kind == VW__LAYERS_ATTENTION_POOL;
    const bool has_bias = line->has_bias || is_pool;
    const uint64_t keys = line->key_heads > 0 ? width / line->heads * line->key_heads : width;
    made->table = vw__tensor_none();
    if (is_pool)
        made->table = vw__module_make_table(run, 1, width);
    if (line->is_packed) {
        made->parts[QUERY] = make(run, "qkv", width, 3 * width, has_bias, true);
    } else {
        made->parts[QUERY] = make(run, "query", width, width, has_bias, true);
        made->parts[KEY] = make(run, "key", width, is_pool ? 2 * width : keys, has_bias, false);
        if (!is_pool)
            made->parts[VALUE] = make(run, "value", width, keys, has_bias, true);
    }
    made->parts[OUTPUT] =
        make(run, "output", width, width, has_bias || line->has_output_bias, false);
    if (distances(line) > 0)
        made->table = vw__module_make_table(run, distances(line), line->heads);
    return made;
}

/* ---- among tokens ---------------------------------------------------------------------------- */

/* Queries, keys and values of `x`, attention, and the last product. */
static vw__tensor attend(vw__plan_run *run, const vw__layers_line *line,
                         const vw__layers_attention *module, vw__tensor x, vw__tensor mask,
                         const vw__op_attention_shape *shape)
{
    vw__tape *tape = run->tape;
    vw__tensor parts[3];
    parts[QUERY] = vw__module_apply_linear(run, x, &module->parts[QUERY]);
    if (line->is_packed) {
        vw__tensor packed = parts[QUERY];
        vw__op_split(tape, packed, 3, parts);
        vw__tensor_drop(tape, &packed);
    } else {
        parts[KEY] = vw__module_apply_linear(run, x, &module->parts[KEY]);
        parts[VALUE] = vw__module_apply_linear(run, x, &module->parts[VALUE]);
    }
    vw__tensor made =
        vw__module_apply_attention(run, parts[QUERY], parts[KEY], parts[VALUE], mask, shape);
    for (size_t i = 0; i < 3; i++)
        vw__tensor_drop(tape, &parts[i]);
    vw__tensor_rebind(tape, &made, vw__module_apply_linear(run, made, &module->parts[OUTPUT]));
    return made;
}

static vw__op_attention_shape shape_of(const vw__plan_run *run, const vw__layers_line *line,
                                       uint64_t samples, uint64_t length, uint64_t width)
{
    return (vw__op_attention_shape){.batch = samples,
                                    .heads = line->heads,
                                    .key_heads =
                                        line->key_heads > 0 ? line->key_heads : line->heads,
                                    .length = length,
                                    .key_length = length,
                                    .width = width / line->heads,
                                    .has_dropout = run->is_training && line->has_dropout,
                                    .is_causal = line->is_causal};
}

static vw__tensor attend_to_all(vw__plan_run *run, const vw__layers_line *line,
                                const vw__layers_shape *in, const vw__layers_attention *module,
                                vw__tensor x)
{
    const vw__op_attention_shape shape =
        shape_of(run, line, run->settings->batch, in->length, in->width);
    vw__tensor mask =
        line->is_causal ? vw__module_make_causal_mask(run, in->length) : vw__tensor_none();
    vw__tensor made = attend(run, line, module, x, mask, &shape);
    vw__tensor_drop(run->tape, &mask);
    return made;
}

/* ---- in windows ------------------------------------------------------------------------------ */

typedef struct windows {
    uint64_t side, shift; /* both smaller where the image is not larger than a window */
    uint64_t height, across;
    uint64_t count; /* of a sample */
    bool is_cut;    /* windows lie beside each other, so that cutting them out copies */
} windows;

static uint64_t up_to(uint64_t value, uint64_t step)
{
    return step == 0 ? 0 : (value + step - 1) / step * step;
}

static windows windows_of(const vw__layers_line *line, const vw__layers_shape *in)
{
    windows w = {.side = line->rows, .shift = line->shift};
    const uint64_t smaller = in->height < in->across ? in->height : in->across;
    if (smaller <= w.side) {
        w.side = smaller;
        w.shift = 0;
    }
    w.height = up_to(in->height, w.side);
    w.across = up_to(in->across, w.side);
    w.count = w.side == 0 ? 0 : w.height / w.side * (w.across / w.side);
    w.is_cut = w.across > w.side;
    return w;
}

/* The bias of each pair of places in a window; and the mask of shifted ones, for every window. */
static vw__tensor make_bias(vw__plan_run *run, const vw__layers_line *line,
                            const vw__layers_attention *module, const windows *w)
{
    vw__tape *tape = run->tape;
    const uint64_t pairs = vw__tape_times(tape, w->side * w->side, w->side * w->side);
    vw__tensor index = vw__tensor_new(tape, pairs, VW__DTYPE_INT64);
    vw__tensor rows =
        vw__op_index(tape, module->table, index, vw__tape_times(tape, pairs, line->heads));
    vw__tensor bias = vw__op_contiguous(tape, rows);
    vw__tensor_drop(tape, &rows);
    vw__tensor_drop(tape, &index);
    if (w->shift == 0)
        return bias;
    const uint64_t all = vw__tape_times(tape, run->settings->batch, w->count);
    vw__tensor mask = vw__tensor_new(tape, vw__tape_times(tape, all, pairs), run->dtype);
    vw__tensor sum =
        vw__op_add_repeated(tape, bias, mask, vw__tape_times(tape, all, bias.elements));
    vw__tensor_drop(tape, &mask);
    vw__tensor_drop(tape, &bias);
    return sum;
}

/* pad() copies even where there is nothing to pad. */
static vw__tensor cut(vw__plan_run *run, const vw__layers_shape *in, const windows *w, vw__tensor x)
{
    vw__tape *tape = run->tape;
    const uint64_t padded = vw__tape_times(
        tape, vw__tape_times(tape, run->settings->batch, w->height * w->across), in->width);
    vw__tensor made = padded == x.elements ? vw__op_contiguous(tape, x)
                                           : vw__op_mean(tape, x, padded); /* saves nothing */
    if (w->shift > 0)
        vw__tensor_rebind(tape, &made, vw__op_mul_scalar(tape, made)); /* roll() */
    if (w->is_cut)
        vw__tensor_rebind(tape, &made, vw__op_mul_scalar(tape, made));
    return made;
}

static void put_back(vw__plan_run *run, const windows *w, uint64_t elements, vw__tensor *x)
{
    vw__tape *tape = run->tape;
    if (w->is_cut)
        vw__tensor_rebind(tape, x, vw__op_mul_scalar(tape, *x));
    if (w->shift > 0)
        vw__tensor_rebind(tape, x, vw__op_mul_scalar(tape, *x));
    if (x->elements != elements)
        vw__tensor_rebind(tape, x, vw__op_mean(tape, *x, elements));
}

static vw__tensor attend_in_windows(vw__plan_run *run, const vw__layers_line *line,
                                    const vw__layers_shape *in, const vw__layers_attention *module,
                                    vw__tensor x)
{
    const windows w = windows_of(line, in);
    const uint64_t samples = vw__tape_times(run->tape, run->settings->batch, w.count);
    const vw__op_attention_shape shape = shape_of(run, line, samples, w.side * w.side, in->width);
    vw__tensor cut_out = cut(run, in, &w, x);
    vw__tensor bias = make_bias(run, line, module, &w);
    vw__tensor made = attend(run, line, module, cut_out, bias, &shape);
    vw__tensor_drop(run->tape, &bias);
    vw__tensor_drop(run->tape, &cut_out);
    put_back(run, &w, x.elements, &made);
    return made;
}

/* ---- from a learned token -------------------------------------------------------------------- */

static vw__tensor attend_from_one(vw__plan_run *run, const vw__layers_line *line,
                                  const vw__layers_shape *in, const vw__layers_attention *module,
                                  vw__tensor x)
{
    vw__tape *tape = run->tape;
    const uint64_t batch = run->settings->batch;
    const uint64_t scores =
        vw__tape_times(tape, vw__tape_times(tape, batch, line->heads), in->length);
    const uint64_t rows = vw__tape_times(tape, batch, in->width);
    vw__tensor probe = vw__op_apply(tape, module->table,
                                    (vw__op_unary){.elements = rows, .dtype = module->table.dtype});
    vw__tensor query = vw__module_apply_linear(run, probe, &module->parts[QUERY]);
    vw__tensor turned = vw__op_contiguous(tape, x); /* tokens before samples */
    vw__tensor packed = vw__module_apply_linear(run, turned, &module->parts[KEY]);
    vw__tensor both = vw__op_contiguous(tape, packed), parts[2];
    vw__tensor_drop(tape, &packed);
    vw__tensor_drop(tape, &turned);
    vw__op_split(tape, both, 2, parts);
    vw__tensor_drop(tape, &both);
    vw__tensor chances = vw__op_matmul(tape, query, parts[0], scores);
    vw__tensor_rebind(tape, &chances, vw__op_softmax(tape, chances));
    vw__tensor made = vw__op_matmul(tape, chances, parts[1], rows);
    vw__tensor_drop(tape, &chances);
    vw__tensor_drop(tape, &parts[1]);
    vw__tensor_drop(tape, &parts[0]);
    vw__tensor_drop(tape, &query);
    vw__tensor_drop(tape, &probe);
    vw__tensor_rebind(tape, &made, vw__module_apply_linear(run, made, &module->parts[OUTPUT]));
    return made;
}

vw__tensor vw__layers_apply_attention(vw__plan_run *run, const vw__layers_line *line,
                                      const vw__layers_shape *in,
                                      const vw__layers_attention *module, vw__tensor x)
{
    if (line->kind == VW__LAYERS_ATTENTION_POOL)
        return attend_from_one(run, line, in, module, x);
    if (line->kind == VW__LAYERS_WINDOW_ATTENTION)
        return attend_in_windows(run, line, in, module, x);
    return attend_to_all(run, line, in, module, x);
}
