/* op_matrix.c - matrix products and tables, and sums of rows: the gradients of biases, and of
 * weights that scale.
 *
 * PyTorch's kernel for such sums gives each column's rows to several blocks of threads where there
 * are many, and their shares meet in a buffer, which can be as large as two of the
 * tensors that are summed. The rules are those of setReduceConfig() in ATen's Reduce.cuh;
 * the card's numbers are an H200's. */
#include "plan/op.h"

/* ---- sums of rows ---------------------------------------------------------------------------- */

enum {
    MOST_THREADS = 512,
    WARP = 32,
    FEWEST_VALUES = 16, /* that a thread adds up */
    MOST_VALUES = 256,
    PROCESSORS = 132,
    THREADS_OF_PROCESSOR = 2048,
};

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t power_of_two_below(uint64_t value, uint64_t most)
{
    uint64_t power = 1;
    while (power * 2 <= smaller(value, most))
        power *= 2;
    return power;
}

/* Columns that a thread reads at once. */
static uint64_t vector_of(uint64_t columns)
{
    uint64_t vector = 4;
    while (columns % vector != 0)
        vector /= 2;
    return vector;
}

/* float32 numbers in the buffer; 0 where no column is shared. */
static uint64_t buffer_elements(vw__tape *tape, uint64_t rows, uint64_t columns)
{
    uint64_t vector = vector_of(columns), most = MOST_THREADS / vector;
    uint64_t width = smaller(power_of_two_below(columns / vector, most), WARP);
    uint64_t height = smaller(power_of_two_below(rows, most), most / width);
    width = smaller(power_of_two_below(columns / vector, most), most / height);
    uint64_t values = divide_up(rows, height); /* of a thread */
    uint64_t grid = divide_up(columns / vector, width);
    uint64_t wanted = PROCESSORS * (THREADS_OF_PROCESSOR / (width * height));
    if (values < MOST_VALUES || grid > wanted)
        return 0;
    uint64_t blocks = smaller(divide_up(wanted, grid), divide_up(values, FEWEST_VALUES));
    uint64_t least = divide_up(values, MOST_VALUES);
    if (blocks < least)
        blocks = least;
    return blocks > 1 ? vw__tape_times(tape, columns, blocks * width * vector) : 0;
}

void vw__node_sum_rows_for(vw__tape *tape, size_t edge, uint64_t rows, uint64_t columns,
                           vw__dtype dtype)
{
    if (!vw__node_wants(tape, edge))
        return;
    vw__node_return(tape);
    vw__node_take_for(tape, edge, columns, dtype);
    uint64_t elements = columns == 0 ? 0 : buffer_elements(tape, rows, columns);
    if (elements > 0)
        vw__node_let_go(tape, vw__node_take(tape, elements, VW__DTYPE_FLOAT32));
}

/* ---- products -------------------------------------------------------------------------------- */

/* addmm, mm or bmm: an argument is saved only if the other wants a gradient. `bias` may be no
 * tensor. Selective checkpoints keep the result if `is_kept`. */
static vw__tensor product(vw__tape *tape, vw__tensor a, vw__tensor b, vw__tensor bias,
                          uint64_t elements, bool is_kept)
{
    vw__node_begin(tape, (vw__tensor[]){a, b, bias}, 3);
    if (vw__tensor_wants_gradient(b))
        vw__node_save(tape, a);
    if (vw__tensor_wants_gradient(a))
        vw__node_save(tape, b);
    vw__tensor made = is_kept ? vw__tensor_new_result(tape, elements, a.dtype)
                              : vw__tensor_new(tape, elements, a.dtype);
    vw__node_take_for(tape, 0, a.elements, a.dtype);
    vw__node_take_for(tape, 1, b.elements, b.dtype);
    if (vw__tensor_exists(bias) && bias.elements > 0)
        vw__node_sum_rows_for(tape, 2, elements / bias.elements, bias.elements, bias.dtype);
    vw__node_end(tape, &made, 1);
    return made;
}

vw__tensor vw__op_linear(vw__tape *tape, vw__tensor x, const vw__op_linear_weights *module)
{
    const uint64_t rows = module->in == 0 ? 0 : x.elements / module->in;
    vw__tensor argument = vw__op_autocast_lower(tape, x);
    vw__tensor weight = vw__op_autocast_lower(tape, module->weight);
    vw__tensor bias = vw__op_autocast_lower(tape, module->bias);
    vw__tensor made =
        product(tape, argument, weight, bias, vw__tape_times(tape, rows, module->out), true);
    vw__tensor_drop(tape, &bias);
    vw__tensor_drop(tape, &weight);
    vw__tensor_drop(tape, &argument);
    return made;
}

vw__tensor vw__op_matmul(vw__tape *tape, vw__tensor a, vw__tensor b, uint64_t elements)
{
    vw__tensor left = vw__op_autocast_lower(tape, a), right = vw__op_autocast_lower(tape, b);
    vw__tensor made = product(tape, left, right, vw__tensor_none(), elements, true);
    vw__tensor_drop(tape, &right);
    vw__tensor_drop(tape, &left);
    return made;
}

vw__tensor vw__op_grouped(vw__tape *tape, vw__tensor x, vw__tensor weight, uint64_t elements)
{
    vw__tensor argument = vw__op_to(tape, x, weight.dtype);
    vw__tensor made = product(tape, argument, weight, vw__tensor_none(), elements, false);
    vw__tensor_drop(tape, &argument);
    return made;
}

/* Its derivative sorts the ids where there are many. */
vw__tensor vw__op_embedding(vw__tape *tape, vw__tensor ids, vw__tensor weight, uint64_t width)
{
    enum { MANY_IDS = 3072, SORTED_COPIES = 4 };
    vw__node_begin(tape, &weight, 1);
    vw__node_save(tape, ids);
    vw__tensor made = vw__tensor_new(tape, vw__tape_times(tape, ids.elements, width), weight.dtype);
    vw__node_take_for(tape, 0, weight.elements, weight.dtype);
    if (ids.elements > MANY_IDS)
        vw__node_take(tape, SORTED_COPIES * ids.elements, VW__DTYPE_INT64);
    vw__node_end(tape, &made, 1);
    return made;
}
